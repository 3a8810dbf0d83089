//! What a variable is declared to hold: its type, how its JSON is read, and how large it can get.
//!
//! The size limits are upstream's assumptions: what a schema does not bound is bounded by the largest request.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::escape::escape;
use crate::types::Type;

/// The shape of a variable or of a part of one.
///
/// ```
/// use lanyard_cel::{Declared, ListKind};
///
/// let port = Declared::object([("port", true, Declared::int())]);
/// let spec = Declared::object([("ports", false, Declared::list(port, Some(16), ListKind::Atomic))]).named("selfType");
/// ```
#[derive(Debug, Clone)]
pub struct Declared {
    pub(crate) shape: Shape,
    pub(crate) max_elements: u64,
    min_size: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// JSON as it is.
    Dyn,
    Bool,
    Int,
    /// A number, whether or not its JSON has a fraction.
    Double,
    String,
    /// Base64 text.
    Bytes,
    /// RFC 3339 text.
    DateTime,
    /// The day of an RFC 3339 text.
    Date,
    Duration,
    IntOrString,
    List(Arc<Declared>, ListKind),
    Map(Arc<Declared>),
    Object(Arc<ObjectType>),
    /// A value that is not made from JSON.
    Native(Type),
}

/// How two lists are compared and joined: the `x-kubernetes-list-type` of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListKind {
    /// Element by element, in order.
    Atomic,
    /// In any order.
    Set,
    /// By the values of these keys, in any order.
    Map(Vec<String>),
}

/// An object type: its name and its fields under their escaped names.
#[derive(Debug, Clone)]
pub(crate) struct ObjectType {
    pub(crate) name: Arc<str>,
    pub(crate) fields: BTreeMap<String, Arc<Declared>>,
}

impl Declared {
    pub(crate) const ANY: Self = Self { shape: Shape::Dyn, max_elements: 0, min_size: 1 };

    /// Anything; JSON is read as it is.
    pub fn any() -> Self {
        Self::simple(Shape::Dyn, 1)
    }

    /// A value that the host makes, such as an authorizer.
    pub fn native(shape: Type) -> Self {
        Self::simple(Shape::Native(shape), 1)
    }

    /// True or false.
    pub fn bool() -> Self {
        Self::simple(Shape::Bool, 4)
    }

    /// An integer.
    pub fn int() -> Self {
        Self::simple(Shape::Int, 1)
    }

    /// A number.
    pub fn double() -> Self {
        Self::simple(Shape::Double, 1)
    }

    /// Text of at most so many code points. `longest` is the length in bytes of the longest of enumerated values.
    pub fn string(max_length: Option<u64>, longest: Option<u64>) -> Self {
        let max = max_length.map(|max| max.saturating_mul(4)).or(longest).unwrap_or(MAX_TEXT);
        Self { shape: Shape::String, max_elements: max, min_size: 2 }
    }

    /// Bytes, which are base64 in JSON (`format: byte`).
    pub fn bytes(max_length: Option<u64>) -> Self {
        Self { shape: Shape::Bytes, max_elements: max_length.unwrap_or(MAX_TEXT), min_size: 2 }
    }

    /// A point in time (`format: date-time`).
    pub fn date_time() -> Self {
        Self { shape: Shape::DateTime, max_elements: 32, min_size: 21 }
    }

    /// A day (`format: date`).
    pub fn date() -> Self {
        Self { shape: Shape::Date, max_elements: 12, min_size: 12 }
    }

    /// A span of time (`format: duration`).
    pub fn duration() -> Self {
        Self { shape: Shape::Duration, max_elements: 32, min_size: 3 }
    }

    /// An integer or text (`x-kubernetes-int-or-string`).
    pub fn int_or_string(max_length: Option<u64>) -> Self {
        let max = max_length.map_or(MAX_TEXT, |max| max.saturating_mul(4));
        Self { shape: Shape::IntOrString, max_elements: max, min_size: 1 }
    }

    /// A list. Without a limit, it is as long as the smallest elements fit into a request.
    pub fn list(items: impl Into<Arc<Declared>>, max_items: Option<u64>, kind: ListKind) -> Self {
        let items = items.into();
        let max_elements = max_items.unwrap_or(MAX_TEXT / (items.min_size + 1));
        Self { shape: Shape::List(items, kind), max_elements, min_size: 2 }
    }

    /// A map from text (`additionalProperties`).
    pub fn map(values: impl Into<Arc<Declared>>, max_properties: Option<u64>) -> Self {
        let values = values.into();
        let max_elements = max_properties.unwrap_or(MAX_TEXT / (values.min_size + 6));
        Self { shape: Shape::Map(values), max_elements, min_size: 2 }
    }

    /// An object by its properties: name in JSON, whether it is required and has no default, and what it holds.
    ///
    /// A property whose name cannot be escaped into an identifier is not visible to expressions.
    pub fn object<'a>(properties: impl IntoIterator<Item = (&'a str, bool, Declared)>) -> Self {
        let mut min_size = 2;
        let mut fields = BTreeMap::new();
        for (name, required, declared) in properties {
            if required {
                min_size += name.len() as u64 + declared.min_size + 4;
            }
            if let Some(escaped) = escape(name) {
                fields.insert(escaped, Arc::new(declared));
            }
        }
        let object = ObjectType { name: "object".into(), fields };
        Self { shape: Shape::Object(Arc::new(object)), max_elements: 0, min_size }
    }

    /// The same with a name for the object type itself, which [`Declared::named`] then keeps.
    #[must_use]
    pub fn called(self, name: &str) -> Self {
        match self.shape {
            Shape::Object(object) => {
                let object = ObjectType { name: name.into(), fields: object.fields.clone() };
                Self { shape: Shape::Object(Arc::new(object)), ..self }
            }
            shape => Self { shape, ..self },
        }
    }

    /// Gives this object type and those inside it names of their own, which tell them apart in an environment.
    ///
    /// Two variables with the same named type can be compared, as `self` and `oldSelf` are.
    pub fn named(self, name: &str) -> Arc<Self> {
        Arc::new(self.assign(name))
    }

    /// The type that expressions see.
    pub fn cel_type(&self) -> Type {
        match &self.shape {
            Shape::Dyn | Shape::IntOrString => Type::Dyn,
            Shape::Bool => Type::Bool,
            Shape::Int => Type::Int,
            Shape::Double => Type::Double,
            Shape::String => Type::String,
            Shape::Bytes => Type::Bytes,
            Shape::DateTime | Shape::Date => Type::Timestamp,
            Shape::Duration => Type::Duration,
            Shape::List(items, _) => Type::list(items.cel_type()),
            Shape::Map(values) => Type::map(Type::String, values.cel_type()),
            Shape::Object(object) => Type::Object(object.name.clone()),
            Shape::Native(shape) => shape.clone(),
        }
    }

    /// The largest number of elements, or of characters, that a value can have.
    pub fn max_elements(&self) -> u64 {
        self.max_elements
    }

    /// The part that a property, `@items`, `@values` or `@keys` leads to.
    pub(crate) fn step(&self, name: &str) -> Option<&Declared> {
        match (&self.shape, name) {
            (Shape::List(items, _), "@items") => Some(items),
            (Shape::Map(values), "@values") => Some(values),
            (Shape::Map(_), "@keys") => Some(KEY),
            (Shape::Object(object), field) => object.fields.get(field).map(|declared| &**declared),
            _ => None,
        }
    }

    /// Calls a function for every object type in here.
    pub(crate) fn objects(&self, visit: &mut dyn FnMut(&Arc<ObjectType>)) {
        match &self.shape {
            Shape::List(inner, _) | Shape::Map(inner) => inner.objects(visit),
            Shape::Object(object) => {
                visit(object);
                object.fields.values().for_each(|field| field.objects(visit));
            }
            _ => {}
        }
    }

    fn simple(shape: Shape, min_size: u64) -> Self {
        Self { shape, max_elements: 0, min_size }
    }

    fn assign(&self, name: &str) -> Self {
        let shape = match &self.shape {
            Shape::List(items, kind) => {
                Shape::List(Arc::new(items.assign(&format!("{name}.@idx"))), kind.clone())
            }
            Shape::Map(values) => Shape::Map(Arc::new(values.assign(&format!("{name}.@elem")))),
            Shape::Object(object) => {
                let name = if &*object.name == "object" { name } else { &object.name };
                let fields = object.fields.iter().map(|(field, declared)| {
                    (field.clone(), Arc::new(declared.assign(&format!("{name}.{field}"))))
                });
                Shape::Object(Arc::new(ObjectType { name: name.into(), fields: fields.collect() }))
            }
            other => other.clone(),
        };
        Self { shape, ..*self }
    }
}

/// What keys of maps are.
const KEY: &Declared = &Declared { shape: Shape::String, max_elements: 0, min_size: 2 };

/// The largest request without two quotation marks or brackets: upstream's bound of what has no other.
const MAX_TEXT: u64 = 3 * 1024 * 1024 - 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_schema_does_not_bound_the_request_bounds() {
        assert_eq!(Declared::string(None, None).max_elements(), 3_145_726);
        assert_eq!(Declared::string(Some(10), None).max_elements(), 40);
        assert_eq!(
            Declared::list(Declared::int(), None, ListKind::Atomic).max_elements(),
            1_572_863
        );
        let item = Declared::object([
            ("a", true, Declared::string(None, None)),
            ("b", false, Declared::int()),
        ]);
        // {} and "a":"" with a comma: 2 + 1 + 2 + 4.
        assert_eq!(Declared::list(item, None, ListKind::Atomic).max_elements(), 3_145_726 / 10);
        assert_eq!(Declared::map(Declared::bool(), None).max_elements(), 3_145_726 / 10);
    }

    #[test]
    fn names_follow_the_path() {
        let declared = Declared::object([(
            "l",
            false,
            Declared::list(Declared::object([]), None, ListKind::Atomic),
        )]);
        let mut names = Vec::new();
        declared.named("selfType").objects(&mut |object| names.push(object.name.to_string()));
        assert_eq!(names, ["selfType", "selfType.l.@idx"]);
    }
}
