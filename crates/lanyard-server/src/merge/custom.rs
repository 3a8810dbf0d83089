//! The shapes of custom types, from their schemas.

use serde_json::Value;

use super::shape::{Deduced, Fields, ListKind, Node, Scalar, Shape, Untyped};
use crate::{
    custom::Version,
    schema::{Type, builtin},
    structural::{self, Additional, Kind, List},
};

/// `kind` and `apiVersion`.
static TEXT: Type = Type::Str("string");

impl Node for Version {
    fn shape(&self) -> Shape<'_> {
        Shape::map(self, false)
    }
}

/// Every resource has a type and metadata, whatever its schema says.
impl Fields for Version {
    fn field(&self, name: &str) -> Option<&dyn Node> {
        meta_field(name).or_else(|| Fields::field(&self.node, name))
    }

    fn others(&self) -> Option<&dyn Node> {
        self.node.others()
    }
}

impl Node for structural::Node {
    fn shape(&self) -> Shape<'_> {
        match self.types.as_slice() {
            [Kind::String] => Shape::scalar(Scalar::String),
            [Kind::Integer | Kind::Number] => Shape::scalar(Scalar::Numeric),
            [Kind::Boolean] => Shape::scalar(Scalar::Boolean),
            [Kind::Array] => {
                let items: &dyn Node = match &self.items {
                    Some(items) => &**items,
                    None => &Untyped,
                };
                Shape::list(items, list_kind(&self.list))
            }
            [Kind::Object] => Shape::map(self, self.atomic_map),
            _ if self.properties.is_empty() => Deduced.shape(),
            _ => Shape::map(self, self.atomic_map),
        }
    }
}

impl Fields for structural::Node {
    fn field(&self, name: &str) -> Option<&dyn Node> {
        let embedded = self.embedded.then(|| meta_field(name)).flatten();
        embedded.or_else(|| self.properties.get(name).map(|property| property as &dyn Node))
    }

    fn others(&self) -> Option<&dyn Node> {
        match &self.additional {
            Additional::Schema(schema) => Some(&**schema),
            Additional::Allowed(true) => Some(&Deduced),
            // An object of which nothing is said may have any fields, to be pruned later.
            Additional::Unsaid if self.properties.is_empty() => Some(&Deduced),
            Additional::Unsaid | Additional::Allowed(false) => {
                self.preserve_unknown.then_some(&Deduced as &dyn Node)
            }
        }
    }

    fn default_of(&self, name: &str) -> Option<&Value> {
        self.properties.get(name)?.default.as_ref()
    }
}

fn meta_field(name: &str) -> Option<&'static dyn Node> {
    match name {
        "kind" | "apiVersion" => Some(&TEXT),
        "metadata" => Some(builtin("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")),
        _ => None,
    }
}

fn list_kind(list: &List) -> ListKind<'_> {
    match list {
        List::Atomic => ListKind::Atomic,
        List::Set => ListKind::Set,
        List::Map(keys) => ListKind::Map(keys.iter().map(String::as_str).collect()),
    }
}
