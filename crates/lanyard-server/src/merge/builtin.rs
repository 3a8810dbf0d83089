//! The shapes of built-in kinds, from their tables.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::shape::{Deduced, Fields, ListKind, Node, Scalar, Shape, Untyped};
use crate::schema::{Field, ListType, Merge, Presence, Struct, Type};

impl Node for Struct {
    fn shape(&self) -> Shape<'_> {
        Shape::map(self, self.atomic)
    }
}

impl Fields for Struct {
    fn field(&self, name: &str) -> Option<&dyn Node> {
        Self::field(self, name).map(|field| field as &dyn Node)
    }

    fn others(&self) -> Option<&dyn Node> {
        None
    }

    fn default_of(&self, name: &str) -> Option<&Value> {
        let field = Self::field(self, name)?;
        field.default.as_ref().or_else(|| match field.presence {
            Presence::Always => zero(&field.ty),
            _ => None,
        })
    }
}

impl Node for Field {
    fn shape(&self) -> Shape<'_> {
        let mut shape = self.ty.shape();
        if let Some(map) = &mut shape.map {
            map.atomic |= self.merge.atomic;
        }
        if let (Some(list), Type::List(_)) = (&mut shape.list, &self.ty) {
            list.kind = list_kind(&self.merge);
        }
        shape
    }
}

impl Node for Type {
    fn shape(&self) -> Shape<'_> {
        match self {
            Self::Bool => Shape::scalar(Scalar::Boolean),
            Self::Int32 | Self::Int64 | Self::Double => Shape::scalar(Scalar::Numeric),
            Self::Str(_) | Self::Bytes => Shape::scalar(Scalar::String),
            Self::Time | Self::MicroTime | Self::IntOrString | Self::Quantity => {
                Shape::scalar(Scalar::Untyped)
            }
            Self::Raw | Self::SchemaOr(..) => Deduced.shape(),
            Self::Map(_) => Shape::map(self, false),
            Self::List(items) => Shape::list(&**items, ListKind::Atomic),
            Self::BoxedStrings => Shape::list(&Untyped, ListKind::Atomic),
            Self::Struct(fields) => fields.shape(),
        }
    }
}

/// The keys of a map.
impl Fields for Type {
    fn field(&self, _name: &str) -> Option<&dyn Node> {
        None
    }

    fn others(&self) -> Option<&dyn Node> {
        match self {
            Self::Map(values) => Some(&**values),
            _ => None,
        }
    }
}

/// A list that does not say how it is applied is applied as it is patched.
fn list_kind(merge: &Merge) -> ListKind<'_> {
    match (&merge.list, merge.patch_merge, merge.patch_key) {
        (Some(ListType::Map(keys)), ..) => ListKind::Map(keys.to_vec()),
        (Some(ListType::Set), ..) | (None, true, None) => ListKind::Set,
        (None, true, Some(key)) => ListKind::Map(vec![key]),
        (Some(ListType::Atomic), ..) | (None, false, _) => ListKind::Atomic,
    }
}

/// What a field is that is always written.
fn zero(ty: &Type) -> Option<&'static Value> {
    static EMPTY: LazyLock<[Value; 3]> = LazyLock::new(|| [json!(""), json!(0), json!(false)]);
    let [text, number, no] = &*EMPTY;
    match ty {
        Type::Str(_) => Some(text),
        Type::Int32 | Type::Int64 => Some(number),
        Type::Bool => Some(no),
        _ => None,
    }
}
