//! How the value at one place of an object merges, whoever describes it.
//!
//! The tables of built-in kinds and the schemas of custom ones implement [`Node`]; the walks over trees
//! in this module's siblings know nothing else about a type. A node may allow several forms (anything
//! goes for a free-form field): which one applies is then decided by the value.

use serde_json::Value;

/// A place in a schema.
pub trait Node {
    /// What a value there may be, and how each form merges.
    fn shape(&self) -> Shape<'_>;
}

/// The forms that a value may have.
#[derive(Clone, Default)]
pub struct Shape<'a> {
    /// As a text, number or truth value.
    pub scalar: Option<Scalar>,
    /// As a list.
    pub list: Option<List<'a>>,
    /// As an object.
    pub map: Option<Map<'a>>,
}

/// What kind of scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A text.
    String,
    /// A number.
    Numeric,
    /// A truth value.
    Boolean,
    /// Any of them.
    Untyped,
}

/// How a list merges.
#[derive(Clone)]
pub struct List<'a> {
    /// Its items.
    pub items: &'a dyn Node,
    /// How they are told apart.
    pub kind: ListKind<'a>,
}

/// How the items of a list are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind<'a> {
    /// Not at all: the list is one value.
    Atomic,
    /// By their value.
    Set,
    /// By these fields.
    Map(Vec<&'a str>),
}

/// How an object merges.
#[derive(Clone)]
pub struct Map<'a> {
    /// Its fields.
    pub fields: &'a dyn Fields,
    /// Whether it is one value, whatever its fields say.
    pub atomic: bool,
    /// Whether nothing at all is known about its fields.
    pub free: bool,
}

/// The fields of an object.
pub trait Fields {
    /// The declared field of that name.
    fn field(&self, name: &str) -> Option<&dyn Node>;

    /// What fields hold that are not declared; nothing when there may be none.
    fn others(&self) -> Option<&dyn Node>;

    /// The default of a declared field, which stands for a key that an item of a list leaves out.
    fn default_of(&self, _name: &str) -> Option<&Value> {
        None
    }
}

impl<'a> Map<'a> {
    /// What a field holds, and whether it is declared.
    pub(super) fn member(&self, name: &str) -> Option<(&'a dyn Node, bool)> {
        match self.fields.field(name) {
            Some(node) => Some((node, true)),
            None => self.fields.others().map(|node| (node, false)),
        }
    }
}

impl Shape<'static> {
    /// A scalar.
    pub fn scalar(scalar: Scalar) -> Self {
        Self { scalar: Some(scalar), ..Self::default() }
    }
}

impl<'a> Shape<'a> {
    /// A list.
    pub fn list(items: &'a dyn Node, kind: ListKind<'a>) -> Self {
        Self { list: Some(List { items, kind }), ..Self::default() }
    }

    /// An object.
    pub fn map(fields: &'a dyn Fields, atomic: bool) -> Self {
        Self { map: Some(Map { fields, atomic, free: false }), ..Self::default() }
    }
}

/// A place of which nothing is known: objects merge field by field, lists are one value.
pub struct Deduced;

/// A place that is one value, whatever it holds.
pub struct Untyped;

impl Node for Deduced {
    fn shape(&self) -> Shape<'_> {
        Shape {
            scalar: Some(Scalar::Untyped),
            list: Some(List { items: &Untyped, kind: ListKind::Atomic }),
            map: Some(Map { fields: &Deduced, atomic: false, free: true }),
        }
    }
}

impl Fields for Deduced {
    fn field(&self, _name: &str) -> Option<&dyn Node> {
        None
    }

    fn others(&self) -> Option<&dyn Node> {
        Some(&Deduced)
    }
}

impl Node for Untyped {
    fn shape(&self) -> Shape<'_> {
        Shape {
            scalar: Some(Scalar::Untyped),
            list: Some(List { items: &Untyped, kind: ListKind::Atomic }),
            map: Some(Map { fields: &Untyped, atomic: true, free: true }),
        }
    }
}

impl Fields for Untyped {
    fn field(&self, _name: &str) -> Option<&dyn Node> {
        None
    }

    fn others(&self) -> Option<&dyn Node> {
        Some(&Untyped)
    }
}
