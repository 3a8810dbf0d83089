//! The fields of built-in kinds, and how a request body becomes a checked object.
//!
//! A kind is described by a table of Go-like structs, which [`builtin`] finds by name in the catalog.
//! [`parse_json`] and [`parse_yaml`] turn bytes into a JSON tree, [`Struct::conform`] then does to it
//! what decoding into the Go struct and encoding it again does upstream: unknown fields go, empty ones
//! are left out or written as zero, times and bytes take their canonical form. The same tables say how
//! objects merge, what their protobuf form is, and what OpenAPI publishes. Nothing here knows what the
//! values mean.

mod bytes;
mod catalog;
mod conform;
mod parse;
pub mod protobuf;
pub(crate) mod quantity;
mod show;
mod strict;
mod syntax;
pub mod time;
mod tree;

use std::sync::OnceLock;

use serde_json::Value;

pub(crate) use bytes::decode_bytes_leniently;
pub use bytes::{decode_bytes, decoded_len, encode_bytes};
pub use catalog::builtin;
pub(crate) use conform::json_kind;
pub use conform::{Conformed, TypeMismatch};
pub use parse::{ParseError, Parsed, parse_json, parse_protobuf, parse_yaml, type_meta};
pub use strict::strict_errors;
pub use tree::{MAX_DEPTH, MAX_YAML_DEPTH};

/// The fields of a kind, or of an object inside of one.
#[derive(Debug)]
pub struct Struct {
    /// The name of the Go type without its package; decoding errors show it.
    pub name: &'static str,
    /// The name of the Go type with its package, e.g. `v1.ConfigMap`.
    pub go_name: &'static str,
    /// The name in OpenAPI documents, e.g. `io.k8s.api.core.v1.ConfigMap`.
    pub model: &'static str,
    /// Whether it has one owner as a whole rather than one per field.
    pub atomic: bool,
    /// Set once, after all structs that it may refer to exist.
    fields: OnceLock<Box<[Field]>>,
    /// Where the fields are in protobuf; made when it is first needed.
    layout: OnceLock<protobuf::Layout>,
}

impl Struct {
    /// The fields, in the order of the Go type.
    pub fn fields(&self) -> &[Field] {
        self.fields.get().map(AsRef::as_ref).unwrap_or_default()
    }

    /// Where the fields are in protobuf.
    fn layout(&self) -> &protobuf::Layout {
        self.layout.get_or_init(|| protobuf::Layout::of(self))
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields().iter().find(|field| field.name == name)
    }
}

/// One field of a [`Struct`].
#[derive(Debug)]
pub struct Field {
    /// The name in JSON.
    pub name: &'static str,
    /// What it holds.
    pub ty: Type,
    /// What becomes of it when it is empty.
    pub presence: Presence,
    /// Where it is in the protobuf message: the numbers of the messages around it that JSON does not
    /// have, then its own. Empty for `kind` and `apiVersion`, which are in the envelope.
    pub number: Box<[u32]>,
    /// Whether OpenAPI says that it is required.
    pub required: bool,
    /// How values of several writers come together.
    pub merge: Merge,
    /// What OpenAPI says that it is when it is missing.
    pub default: Option<Value>,
    /// The values that OpenAPI allows, for a list those of its items; any when empty.
    pub allowed: Box<[&'static str]>,
}

/// How a field takes changes: by server-side apply and by strategic merge patch.
#[derive(Debug, Default)]
pub struct Merge {
    /// What a list is for server-side apply; atomic when it does not say.
    pub list: Option<ListType>,
    /// Whether a map has one owner as a whole.
    pub atomic: bool,
    /// Whether strategic merge patches join lists rather than replace them.
    pub patch_merge: bool,
    /// Whether strategic merge patches may say which fields to keep.
    pub patch_retain_keys: bool,
    /// The field by which strategic merge patches tell list items apart; none for lists of scalars.
    pub patch_key: Option<&'static str>,
}

/// How server-side apply tells the items of a list apart.
#[derive(Debug, PartialEq, Eq)]
pub enum ListType {
    /// Not at all: the list has one owner.
    Atomic,
    /// By their value.
    Set,
    /// By the values of these fields.
    Map(Box<[&'static str]>),
}

/// What becomes of an empty field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It is written with its zero value.
    Always,
    /// It is left out.
    OmitEmpty,
    /// It is left out when null or missing; a zero value is a value.
    Pointer,
    /// It is written as null when missing; a zero value is a value.
    Nullable,
}

/// What a field, a list item or a map value holds.
#[derive(Debug)]
pub enum Type {
    /// `true` or `false`.
    Bool,
    /// A number that fits 32 bits.
    Int32,
    /// A number that fits 64 bits.
    Int64,
    /// A number with a fraction.
    Double,
    /// A string; the name of its Go type.
    Str(&'static str),
    /// Bytes, in base64.
    Bytes,
    /// A time in RFC 3339 with seconds.
    Time,
    /// A time in RFC 3339 with microseconds.
    MicroTime,
    /// A number of 32 bits or a string.
    IntOrString,
    /// An amount such as `100m` or `1Gi`.
    Quantity,
    /// Any JSON.
    Raw,
    /// String keys to values of one type.
    Map(Box<Type>),
    /// Values of one type.
    List(Box<Type>),
    /// Strings that are a message of their own in protobuf, because maps of lists do not exist there.
    BoxedStrings,
    /// An object with known fields.
    Struct(&'static Struct),
    /// A JSON schema, or something else.
    SchemaOr(Alternative, &'static Struct),
}

/// What may stand in the place of a JSON schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alternative {
    /// A list of schemas.
    List,
    /// `true` or `false`.
    Bool,
    /// The names of properties.
    Strings,
}

impl Type {
    /// The name of the Go type, as decoding errors show it.
    pub fn go_name(&self) -> String {
        match self {
            Self::Bool => "bool".into(),
            Self::Int32 | Self::IntOrString => "int32".into(),
            Self::Int64 => "int64".into(),
            Self::Double => "float64".into(),
            Self::Str(name) => (*name).into(),
            Self::Bytes => "[]uint8".into(),
            Self::Time | Self::MicroTime => "string".into(),
            Self::Quantity => "resource.Quantity".into(),
            Self::Raw => "interface {}".into(),
            Self::Map(value) => format!("map[string]{}", value.go_name()),
            Self::List(item) => format!("[]{}", item.go_name()),
            Self::BoxedStrings => "[]string".into(),
            Self::Struct(fields) | Self::SchemaOr(_, fields) => fields.go_name.into(),
        }
    }
}
