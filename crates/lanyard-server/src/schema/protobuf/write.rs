//! From a JSON tree to a message.
//!
//! Messages are written from their end: the length of what is inside is known by the time that it has to
//! be written, and nothing is measured first.

use serde_json::Value;

use super::layout::{Layout, Place, What};
use crate::schema::{
    Alternative, Field, Presence, Struct, Type, decode_bytes,
    time::{self, Precision},
};

/// The message of an object in the form of its table.
pub fn encode(table: &Struct, value: &Value) -> Vec<u8> {
    let mut out = Backward::with_capacity(1024);
    out.layout(table.layout(), table, value);
    out.finish()
}

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
pub(super) const FIXED32: u8 = 5;

/// Bytes that grow towards their beginning.
pub(super) struct Backward {
    bytes: Vec<u8>,
    start: usize,
}

impl Backward {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity], start: capacity }
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.drain(..self.start);
        self.bytes
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(super) fn put(&mut self, slice: &[u8]) {
        if self.start < slice.len() {
            let more = self.bytes.len().max(slice.len());
            self.bytes.splice(..0, std::iter::repeat_n(0, more));
            self.start += more;
        }
        self.start -= slice.len();
        self.bytes[self.start..self.start + slice.len()].copy_from_slice(slice);
    }

    pub(super) fn varint(&mut self, mut value: u64) {
        let mut bytes = [0; 10];
        let mut len = 0;
        loop {
            let more = value >> 7 != 0;
            bytes[len] = (value & 0x7f) as u8 | if more { 0x80 } else { 0 };
            len += 1;
            value >>= 7;
            if !more {
                return self.put(&bytes[..len]);
            }
        }
    }

    fn tag(&mut self, number: u32, wire: u8) {
        self.varint(u64::from(number) << 3 | u64::from(wire));
    }

    fn number(&mut self, number: u32, value: i64) {
        self.varint(value as u64);
        self.tag(number, VARINT);
    }

    pub(super) fn slice(&mut self, number: u32, slice: &[u8]) {
        self.put(slice);
        self.open(number, slice.len());
    }

    /// Writes what is inside, then its length and number.
    pub(super) fn message(&mut self, number: u32, inside: impl FnOnce(&mut Self)) {
        let before = self.len();
        inside(self);
        self.open(number, self.len() - before);
    }

    /// What stands before `len` bytes.
    pub(super) fn open(&mut self, number: u32, len: usize) {
        self.varint(len as u64);
        self.tag(number, BYTES);
    }

    fn layout(&mut self, layout: &Layout, table: &Struct, object: &Value) {
        for Place { number, what } in layout.places.iter().rev() {
            match what {
                What::Inline(inner) => {
                    self.message(*number, |out| out.layout(inner, table, object))
                }
                What::Field(at) => {
                    let field = &table.fields()[*at];
                    self.field(*number, field, object.get(field.name).unwrap_or(&Value::Null));
                }
            }
        }
    }

    fn field(&mut self, number: u32, field: &Field, value: &Value) {
        let pointer = matches!(field.presence, Presence::Pointer | Presence::Nullable);
        let absent = match (&field.ty, value) {
            (Type::List(_) | Type::Map(_) | Type::Bytes | Type::BoxedStrings, Value::Null) => true,
            (_, value) => pointer && value.is_null(),
        };
        if !absent {
            self.value(number, &field.ty, value);
        }
    }

    fn value(&mut self, number: u32, ty: &Type, value: &Value) {
        match ty {
            Type::Bool => self.number(number, i64::from(value.as_bool().unwrap_or_default())),
            Type::Int32 | Type::Int64 => self.number(number, value.as_i64().unwrap_or_default()),
            Type::Double => {
                self.put(&value.as_f64().unwrap_or_default().to_le_bytes());
                self.tag(number, FIXED64);
            }
            Type::Str(_) => self.slice(number, value.as_str().unwrap_or_default().as_bytes()),
            Type::Bytes => {
                let text = value.as_str().unwrap_or_default();
                self.slice(number, &decode_bytes(text).unwrap_or_default());
            }
            Type::Time => self.message(number, |out| out.time(value, Precision::Seconds)),
            Type::MicroTime => self.message(number, |out| out.time(value, Precision::Micros)),
            Type::IntOrString => self.message(number, |out| out.int_or_string(value)),
            Type::Quantity => self.message(number, |out| {
                out.slice(1, value.as_str().unwrap_or("0").as_bytes());
            }),
            Type::Raw => self.message(number, |out| {
                if !value.is_null() {
                    out.slice(1, value.to_string().as_bytes());
                }
            }),
            Type::Map(inner) => self.map(number, inner, value),
            Type::List(inner) => self.list(number, inner, value),
            Type::BoxedStrings => {
                self.message(number, |out| out.list(1, &Type::Str("string"), value));
            }
            Type::Struct(table) => {
                self.message(number, |out| out.layout(table.layout(), table, value));
            }
            Type::SchemaOr(other, schema) => {
                self.message(number, |out| out.schema_or(*other, schema, value));
            }
        }
    }

    fn list(&mut self, number: u32, inner: &Type, value: &Value) {
        for item in value.as_array().into_iter().flatten().rev() {
            self.value(number, inner, item);
        }
    }

    fn map(&mut self, number: u32, inner: &Type, value: &Value) {
        for (key, value) in value.as_object().into_iter().flatten().rev() {
            self.message(number, |out| {
                out.value(2, inner, value);
                out.slice(1, key.as_bytes());
            });
        }
    }

    fn time(&mut self, value: &Value, precision: Precision) {
        let Some(text) = value.as_str() else { return };
        // What is stored was checked when it was written; the zero time is an empty message.
        let Ok(time) = time::parse(text, precision) else { return };
        if time::format(time, precision).is_none() {
            return;
        }
        let nanos = match precision {
            Precision::Seconds => 0,
            Precision::Micros => i64::from(time.subsec_nanosecond()) / 1000 * 1000,
        };
        self.number(2, nanos);
        self.number(1, time.as_second());
    }

    fn int_or_string(&mut self, value: &Value) {
        let text = value.as_str();
        self.slice(3, text.unwrap_or_default().as_bytes());
        self.number(2, value.as_i64().unwrap_or_default());
        self.number(1, i64::from(text.is_some()));
    }

    fn schema_or(&mut self, other: Alternative, schema: &Struct, value: &Value) {
        let write = |out: &mut Self, number, value: &Value| {
            out.message(number, |out| out.layout(schema.layout(), schema, value));
        };
        match (other, value) {
            (Alternative::Bool, Value::Bool(allowed)) => self.number(1, i64::from(*allowed)),
            (Alternative::Bool, schema) => {
                write(self, 2, schema);
                self.number(1, 1);
            }
            (Alternative::List, Value::Array(list)) => {
                list.iter().rev().for_each(|item| write(self, 2, item));
            }
            (Alternative::Strings, Value::Array(_)) => self.list(2, &Type::Str("string"), value),
            (Alternative::List | Alternative::Strings, schema) => write(self, 1, schema),
        }
    }
}
