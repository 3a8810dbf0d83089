//! From a message to a JSON tree.
//!
//! Fields that a table does not have are passed over, as upstream does. The tree is not yet in the form
//! of its table: [`Struct::conform`](crate::schema::Struct::conform) leaves out what is empty.

use serde_json::{Map, Value};

use super::{
    ProtobufError,
    layout::{Layout, What},
    write::{BYTES, FIXED32, FIXED64, VARINT},
};
use crate::schema::{
    Alternative, Field, MAX_DEPTH, Struct, Type, encode_bytes, parse_json,
    time::{self, Precision},
    tree::{MAX_TREE_BYTES, NODE_BYTES, OBJECT_BYTES},
};

/// The object in a message.
///
/// # Errors
/// When it is no message of the table, or a bomb.
pub fn decode(table: &Struct, message: &[u8]) -> Result<Value, ProtobufError> {
    let mut reader = Reader { remaining: MAX_TREE_BYTES };
    reader.object(table, message, 0)
}

/// One field as it stands in a message.
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

impl Wire<'_> {
    fn kind(&self) -> u8 {
        match self {
            Self::Varint(_) => VARINT,
            Self::Fixed64(_) => FIXED64,
            Self::Bytes(_) => BYTES,
            Self::Fixed32 => FIXED32,
        }
    }
}

/// Takes the next field from a message; nothing at its end.
pub(super) fn next<'a>(rest: &mut &'a [u8]) -> Result<Option<(u64, Wire<'a>)>, ProtobufError> {
    if rest.is_empty() {
        return Ok(None);
    }
    let tag = varint(rest)?;
    let number = tag >> 3;
    let wire = match (tag & 7) as u8 {
        _ if number == 0 || number > u64::from(u32::MAX >> 3) => {
            return Err(illegal_tag(tag));
        }
        VARINT => Wire::Varint(varint(rest)?),
        FIXED64 => Wire::Fixed64(u64::from_le_bytes(array(take(rest, 8)?))),
        BYTES => {
            let len = usize::try_from(varint(rest)?).map_err(|_| ProtobufError::Truncated)?;
            Wire::Bytes(take(rest, len)?)
        }
        FIXED32 => take(rest, 4).map(|_| Wire::Fixed32)?,
        // Groups ended with proto1.
        _ => return Err(illegal_tag(tag)),
    };
    Ok(Some((number, wire)))
}

fn illegal_tag(tag: u64) -> ProtobufError {
    ProtobufError::IllegalTag { message: "", number: tag >> 3, wire: (tag & 7) as u8 }
}

fn array(bytes: &[u8]) -> [u8; 8] {
    let mut array = [0; 8];
    array.copy_from_slice(bytes);
    array
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], ProtobufError> {
    let (taken, left) = rest.split_at_checked(len).ok_or(ProtobufError::Truncated)?;
    *rest = left;
    Ok(taken)
}

fn varint(rest: &mut &[u8]) -> Result<u64, ProtobufError> {
    let mut value = 0;
    for shift in (0..70).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(ProtobufError::Overflow)
}

struct Reader {
    /// How many more bytes the tree may take.
    remaining: usize,
}

impl Reader {
    fn spend(&mut self, bytes: usize) -> Result<(), ProtobufError> {
        self.remaining = self.remaining.checked_sub(bytes).ok_or(ProtobufError::TooLarge)?;
        Ok(())
    }

    fn object(
        &mut self,
        table: &Struct,
        message: &[u8],
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        self.spend(OBJECT_BYTES)?;
        let mut object = Map::new();
        self.fields(table.layout(), table, message, &mut object, depth)?;
        Ok(Value::Object(object))
    }

    fn fields(
        &mut self,
        layout: &Layout,
        table: &Struct,
        message: &[u8],
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        if depth >= MAX_DEPTH {
            return Err(ProtobufError::TooDeep);
        }
        let mut rest = message;
        while let Some((number, wire)) = next(&mut rest).map_err(|e| e.within(table.name))? {
            let Some(place) = layout.place(number) else { continue };
            match &place.what {
                What::Field(at) => self.field(&table.fields()[*at], wire, object, depth + 1)?,
                What::Inline(inner) => {
                    let Wire::Bytes(message) = wire else {
                        return Err(wrong_wire(&wire, table.name));
                    };
                    self.fields(inner, table, message, object, depth + 1)?;
                }
            }
        }
        Ok(())
    }

    fn field(
        &mut self,
        field: &Field,
        wire: Wire<'_>,
        object: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        self.spend(NODE_BYTES + field.name.len())?;
        let slot = object.entry(field.name);
        match &field.ty {
            Type::List(inner) => {
                let Value::Array(list) = slot.or_insert_with(|| Value::Array(Vec::new())) else {
                    return Ok(());
                };
                self.item(inner, wire, field.name, list, depth)
            }
            Type::Map(inner) => {
                let Value::Object(map) = slot.or_insert_with(|| Value::Object(Map::new())) else {
                    return Ok(());
                };
                let Wire::Bytes(entry) = wire else { return Err(wrong_wire(&wire, field.name)) };
                let (key, value) = self.entry(inner, entry, field.name, depth)?;
                map.insert(key, value);
                Ok(())
            }
            ty => {
                let value = self.value(ty, wire, field.name, depth)?;
                // The last one counts, as for every protobuf reader.
                *slot.or_insert(Value::Null) = value;
                Ok(())
            }
        }
    }

    /// One item of a list, or all of them where numbers are packed together.
    fn item(
        &mut self,
        inner: &Type,
        wire: Wire<'_>,
        name: &str,
        list: &mut Vec<Value>,
        depth: usize,
    ) -> Result<(), ProtobufError> {
        if let (Type::Int32 | Type::Int64 | Type::Bool, Wire::Bytes(packed)) = (inner, &wire) {
            let mut packed = *packed;
            while !packed.is_empty() {
                self.spend(NODE_BYTES)?;
                list.push(self.value(inner, Wire::Varint(varint(&mut packed)?), name, depth)?);
            }
            return Ok(());
        }
        list.push(self.value(inner, wire, name, depth)?);
        Ok(())
    }

    fn entry(
        &mut self,
        inner: &Type,
        mut entry: &[u8],
        name: &str,
        depth: usize,
    ) -> Result<(String, Value), ProtobufError> {
        self.spend(OBJECT_BYTES / 4 + entry.len())?;
        let (mut key, mut value) = (String::new(), Value::Null);
        while let Some((number, wire)) = next(&mut entry)? {
            match (number, wire) {
                (1, Wire::Bytes(bytes)) => key = text(bytes, name)?,
                (2, wire) => value = self.value(inner, wire, name, depth)?,
                _ => {}
            }
        }
        Ok((key, value))
    }

    fn value(
        &mut self,
        ty: &Type,
        wire: Wire<'_>,
        name: &str,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        Ok(match (ty, wire) {
            (Type::Bool, Wire::Varint(bits)) => (bits != 0).into(),
            (Type::Int32, Wire::Varint(bits)) => (bits as i32).into(),
            (Type::Int64, Wire::Varint(bits)) => (bits as i64).into(),
            (Type::Double, Wire::Fixed64(bits)) => f64::from_bits(bits).into(),
            (_, Wire::Bytes(bytes)) => return self.message(ty, bytes, name, depth),
            (_, wire) => return Err(wrong_wire(&wire, name)),
        })
    }

    /// A value that is written with its length.
    fn message(
        &mut self,
        ty: &Type,
        bytes: &[u8],
        name: &str,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        self.spend(bytes.len())?;
        Ok(match ty {
            Type::Str(_) => text(bytes, name)?.into(),
            Type::Bytes => encode_bytes(bytes).into(),
            Type::Time => timestamp(bytes, Precision::Seconds)?,
            Type::MicroTime => timestamp(bytes, Precision::Micros)?,
            Type::IntOrString => int_or_string(bytes, name)?,
            Type::Quantity => text(last(bytes, 1)?.unwrap_or_default(), name)?.into(),
            Type::Raw => raw(bytes)?,
            Type::BoxedStrings => self.strings(bytes, name, 1)?.into(),
            Type::Struct(table) => self.object(table, bytes, depth)?,
            Type::SchemaOr(other, schema) => self.schema_or(*other, schema, bytes, name, depth)?,
            Type::Bool
            | Type::Int32
            | Type::Int64
            | Type::Double
            | Type::Map(_)
            | Type::List(_) => {
                return Err(wrong_wire(&Wire::Bytes(bytes), name));
            }
        })
    }

    fn strings(
        &mut self,
        mut bytes: &[u8],
        name: &str,
        at: u64,
    ) -> Result<Vec<Value>, ProtobufError> {
        let mut list = Vec::new();
        while let Some((number, wire)) = next(&mut bytes)? {
            if let (true, Wire::Bytes(item)) = (number == at, wire) {
                self.spend(NODE_BYTES)?;
                list.push(text(item, name)?.into());
            }
        }
        Ok(list)
    }

    fn schema_or(
        &mut self,
        other: Alternative,
        schema: &Struct,
        bytes: &[u8],
        name: &str,
        depth: usize,
    ) -> Result<Value, ProtobufError> {
        let schema_at = if other == Alternative::Bool { 2 } else { 1 };
        if let Some(message) = last(bytes, schema_at)? {
            return self.object(schema, message, depth + 1);
        }
        Ok(match other {
            Alternative::Strings => self.strings(bytes, name, 2)?.into(),
            Alternative::Bool => {
                let mut rest = bytes;
                let mut allowed = false;
                while let Some((number, wire)) = next(&mut rest)? {
                    if let (1, Wire::Varint(bits)) = (number, wire) {
                        allowed = bits != 0;
                    }
                }
                allowed.into()
            }
            Alternative::List => {
                let (mut rest, mut list) = (bytes, Vec::new());
                while let Some((number, wire)) = next(&mut rest)? {
                    if let (2, Wire::Bytes(message)) = (number, wire) {
                        list.push(self.object(schema, message, depth + 1)?);
                    }
                }
                list.into()
            }
        })
    }
}

fn wrong_wire(wire: &Wire<'_>, field: &str) -> ProtobufError {
    // Upstream names the field of the Go type.
    let field = match field {
        "metadata" => "ObjectMeta".to_owned(),
        name => name[..1].to_uppercase() + &name[1..],
    };
    ProtobufError::WrongWireType { wire: wire.kind(), field }
}

/// A string; Go would take any bytes, but what is not UTF-8 cannot be written as JSON.
fn text(bytes: &[u8], name: &str) -> Result<String, ProtobufError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ProtobufError::NotUtf8(name.to_owned()))?;
    Ok(text.to_owned())
}

/// The last field with a number that is written with its length.
pub(super) fn last(mut bytes: &[u8], at: u64) -> Result<Option<&[u8]>, ProtobufError> {
    let mut found = None;
    while let Some((number, wire)) = next(&mut bytes)? {
        if let (true, Wire::Bytes(inside)) = (number == at, wire) {
            found = Some(inside);
        }
    }
    Ok(found)
}

fn raw(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let Some(json) = last(bytes, 1)? else { return Ok(Value::Null) };
    let parsed = parse_json(json).map_err(|error| ProtobufError::NotJson(error.to_string()))?;
    Ok(parsed.value)
}

fn timestamp(mut bytes: &[u8], precision: Precision) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    while let Some((number, wire)) = next(&mut bytes)? {
        match (number, wire) {
            (1, Wire::Varint(bits)) => seconds = bits as i64,
            (2, Wire::Varint(bits)) => nanos = bits as i32,
            _ => {}
        }
    }
    let time = jiff::Timestamp::new(seconds, nanos.clamp(0, 999_999_999));
    let time = time.map_err(|error| ProtobufError::NotJson(error.to_string()))?;
    Ok(time::format(time, precision).map_or(Value::Null, Value::String))
}

fn int_or_string(mut bytes: &[u8], name: &str) -> Result<Value, ProtobufError> {
    let (mut is_text, mut number, mut string) = (false, 0, String::new());
    while let Some((at, wire)) = next(&mut bytes)? {
        match (at, wire) {
            (1, Wire::Varint(bits)) => is_text = bits == 1,
            (2, Wire::Varint(bits)) => number = bits as i32,
            (3, Wire::Bytes(bytes)) => string = text(bytes, name)?,
            _ => {}
        }
    }
    Ok(if is_text { string.into() } else { number.into() })
}
