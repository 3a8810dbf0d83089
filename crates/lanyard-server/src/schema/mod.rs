//! The fields of built-in kinds, and how a request body becomes a checked object.
//!
//! A kind is described by a static table of Go-like structs. [`parse_json`] and [`parse_yaml`] turn
//! bytes into a JSON tree, [`Struct::conform`] then does to it what decoding into the Go struct and
//! encoding it again does upstream: unknown fields go, empty ones are left out or written as zero,
//! times and bytes take their canonical form. Nothing here knows what the values mean.

mod bytes;
mod conform;
pub mod meta;
mod parse;
mod show;
mod strict;
mod syntax;
pub mod time;
mod tree;

pub(crate) use bytes::decode_bytes_leniently;
pub use bytes::{decode_bytes, decoded_len, encode_bytes};
pub(crate) use conform::json_kind;
pub use conform::{Conformed, TypeMismatch};
pub use parse::{ParseError, Parsed, parse_json, parse_yaml, type_meta};
pub use strict::strict_errors;
pub use tree::{MAX_DEPTH, MAX_YAML_DEPTH};

/// The fields of a kind, or of an object inside of one.
#[derive(Debug)]
pub struct Struct {
    /// The name of the Go type; decoding errors show it.
    pub name: &'static str,
    /// The fields, in the order of the Go type.
    pub fields: &'static [Field],
}

impl Struct {
    /// Describes a struct.
    pub const fn new(name: &'static str, fields: &'static [Field]) -> Self {
        Self { name, fields }
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.name == name)
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
}

impl Field {
    /// A field that is written even when it is empty.
    pub const fn always(name: &'static str, ty: Type) -> Self {
        Self { name, ty, presence: Presence::Always }
    }

    /// A field that is left out when it is empty (`omitempty`).
    pub const fn omit_empty(name: &'static str, ty: Type) -> Self {
        Self { name, ty, presence: Presence::OmitEmpty }
    }

    /// A field that is left out only when it is not set: a Go pointer, so `false` and `0` stay.
    pub const fn pointer(name: &'static str, ty: Type) -> Self {
        Self { name, ty, presence: Presence::Pointer }
    }
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
    /// Any JSON.
    Raw,
    /// String keys to values of one type.
    Map(&'static Type),
    /// Values of one type.
    List(&'static Type),
    /// An object with known fields.
    Struct(&'static Struct),
}

/// A plain string.
pub const STRING: Type = Type::Str("string");
/// String keys to strings.
pub const STRING_MAP: Type = Type::Map(&STRING);
/// A list of strings.
pub const STRINGS: Type = Type::List(&STRING);

impl Type {
    /// The name of the Go type, as decoding errors show it.
    pub fn go_name(&self) -> String {
        match self {
            Self::Bool => "bool".into(),
            Self::Int32 | Self::IntOrString => "int32".into(),
            Self::Int64 => "int64".into(),
            Self::Str(name) => (*name).into(),
            Self::Bytes => "[]uint8".into(),
            Self::Time | Self::MicroTime => "string".into(),
            Self::Raw => "interface {}".into(),
            Self::Map(value) => format!("map[string]{}", value.go_name()),
            Self::List(item) => format!("[]{}", item.go_name()),
            Self::Struct(fields) => format!("v1.{}", fields.name),
        }
    }
}
