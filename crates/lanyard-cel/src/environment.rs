//! What an expression may refer to: variables and the object types that they lead to.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::declared::{Declared, ObjectType};
use crate::parser::RESERVED;
use crate::program::Program;
use crate::source::CompileErrors;
use crate::types::Type;

/// Variables with their types. All functions of Kubernetes' libraries are part of every environment.
///
/// See the crate's documentation for an example.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, Arc<Declared>>,
    objects: HashMap<Arc<str>, Arc<ObjectType>>,
    patches: bool,
}

impl Environment {
    /// An environment without variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a variable. Object types of the same name must be the same.
    #[must_use]
    pub fn variable(mut self, name: &str, declared: impl Into<Arc<Declared>>) -> Self {
        let declared = declared.into();
        declared.objects(&mut |object| {
            self.objects.insert(object.name.clone(), object.clone());
        });
        self.variables.insert(name.to_owned(), declared);
        self
    }

    /// Adds the types that mutations are made of: `Object` with any fields, `JSONPatch` and
    /// `jsonpatch.escapeKey`.
    #[must_use]
    pub fn with_patches(mut self) -> Self {
        self.patches = true;
        self
    }

    /// Reads and checks an expression.
    pub fn compile(&self, text: &str) -> Result<Program, CompileErrors> {
        Program::compile(text, self)
    }

    pub(crate) fn declared(&self, name: &str) -> Option<&Arc<Declared>> {
        self.variables.get(name)
    }

    pub(crate) fn variable_type(&self, name: &str) -> Option<Type> {
        self.variables.get(name).map(|declared| declared.cel_type())
    }

    /// Whether there is an object type of this name.
    pub(crate) fn has_object(&self, name: &str) -> bool {
        self.objects.contains_key(name) || self.makes_object(name)
    }

    /// Whether expressions can make objects of this type.
    pub(crate) fn makes_object(&self, name: &str) -> bool {
        self.patches && (name == "JSONPatch" || name == "Object" || name.starts_with("Object."))
    }

    pub(crate) fn makes_patches(&self) -> bool {
        self.patches
    }

    /// The type of a field: `None` if there is no such object type, `Some(None)` if it has no such field.
    pub(crate) fn field_type(&self, object: &str, field: &str) -> Option<Option<Type>> {
        if let Some(object) = self.objects.get(object) {
            // A reserved word is a field under its escaped name.
            let found = object.fields.get(field).or_else(|| {
                RESERVED
                    .contains(&field)
                    .then(|| object.fields.get(&format!("__{field}__")))
                    .flatten()
            });
            return Some(found.map(|declared| declared.cel_type()));
        }
        if !self.makes_object(object) {
            return None;
        }
        Some(match (object, field) {
            ("JSONPatch", "op" | "path" | "from") => Some(Type::String),
            ("JSONPatch", "value") => Some(Type::Dyn),
            ("JSONPatch", _) => None,
            _ => Some(Type::Dyn),
        })
    }
}
