//! Whether two values are equal, and which comes first.

use std::cmp::Ordering;

use crate::declared::ListKind;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{List, Map, Value, compare_numbers};

/// Compares two values. Values of different types are not equal; numbers are compared by value.
pub(crate) fn equal(
    meter: &mut Meter,
    one: &Value<'_>,
    other: &Value<'_>,
) -> Result<bool, EvalError> {
    equal_at(meter, one, other, 0)
}

fn equal_at(
    meter: &mut Meter,
    one: &Value<'_>,
    other: &Value<'_>,
    depth: u32,
) -> Result<bool, EvalError> {
    meter.work(1)?;
    if depth > MAX_DEPTH {
        return Err(EvalError::too_expensive());
    }
    Ok(match (one, other) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => {
            meter.work(a.len().min(b.len()) as u64 / 64)?;
            **a == **b
        }
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a.kind_name() == b.kind_name(),
        (Value::List(a), Value::List(b)) => return lists(meter, a, b, depth),
        (Value::Map(a), Value::Map(b)) => return maps(meter, a, b, depth),
        (Value::Message(a), Value::Message(b)) => {
            if a.name != b.name || a.fields.len() != b.fields.len() {
                return Ok(false);
            }
            for (name, value) in &a.fields {
                let Some(counterpart) = b.fields.get(name) else { return Ok(false) };
                if !equal_at(meter, value, counterpart, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Optional(a), Value::Optional(b)) => match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => return equal_at(meter, a, b, depth + 1),
            _ => false,
        },
        (Value::Opaque(a), Value::Opaque(b)) => a.equals(b),
        _ => compare_numbers(one, other) == Some(Ordering::Equal),
    })
}

fn lists(
    meter: &mut Meter,
    one: &List<'_>,
    other: &List<'_>,
    depth: u32,
) -> Result<bool, EvalError> {
    if one.len() != other.len() {
        return Ok(false);
    }
    // The list on the left decides how both are read, as upstream.
    match one.kind() {
        ListKind::Atomic => {
            for (a, b) in one.iter().zip(other.iter()) {
                if !equal_at(meter, &a?, &b?, depth + 1)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        kind => {
            for b in other.iter() {
                let b = b?;
                match position(meter, one, &b, kind)? {
                    None => return Ok(false),
                    Some(at) => {
                        let Some(a) = one.get(at) else { return Ok(false) };
                        if !equal_at(meter, &a?, &b, depth + 1)? {
                            return Ok(false);
                        }
                    }
                }
            }
            Ok(true)
        }
    }
}

/// Where a list has the element that another corresponds to: an equal one, or for map lists one with equal keys.
pub(crate) fn position(
    meter: &mut Meter,
    list: &List<'_>,
    element: &Value<'_>,
    kind: &ListKind,
) -> Result<Option<usize>, EvalError> {
    for (at, candidate) in list.iter().enumerate() {
        let same = match kind {
            ListKind::Map(keys) => same_keys(meter, &candidate?, element, keys)?,
            _ => equal(meter, &candidate?, element)?,
        };
        if same {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn same_keys(
    meter: &mut Meter,
    one: &Value<'_>,
    other: &Value<'_>,
    keys: &[String],
) -> Result<bool, EvalError> {
    let (Value::Map(one), Value::Map(other)) = (one, other) else { return Ok(false) };
    for key in keys {
        let key = crate::escape::escape(key).unwrap_or_else(|| key.clone());
        let same = match (one.find_name(&key).transpose()?, other.find_name(&key).transpose()?) {
            (None, None) => true,
            (Some(a), Some(b)) => equal(meter, &a, &b)?,
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps(meter: &mut Meter, one: &Map<'_>, other: &Map<'_>, depth: u32) -> Result<bool, EvalError> {
    if one.len() != other.len() {
        return Ok(false);
    }
    for key in one.keys() {
        meter.work(1)?;
        let same = match (one.find(&key).transpose()?, other.find(&key).transpose()?) {
            (None, None) => true,
            (Some(a), Some(b)) => equal_at(meter, &a, &b, depth + 1)?,
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The order of two values of types that have one.
pub(crate) fn compare(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    match (one, other) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::String(a), Value::String(b)) => Some((**a).cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Timestamp(a), Value::Timestamp(b)) => Some(a.cmp(b)),
        (Value::Duration(a), Value::Duration(b)) => Some(a.cmp(b)),
        _ => compare_numbers(one, other),
    }
}

/// Deeper values than JSON may be, so that only what expressions nest themselves is refused.
const MAX_DEPTH: u32 = 200;
