//! Arithmetic, comparisons, membership and sizes.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Function;
use crate::ast::operator;
use crate::declared::ListKind;
use crate::equality::{compare, equal, position};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::time;
use crate::value::{Elements, List, Value};

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        operator::ADD => add,
        "_-_" => subtract,
        "_*_" => multiply,
        "_/_" => divide,
        "_%_" => modulo,
        operator::NEGATE => negate,
        operator::NOT => not,
        operator::NOT_STRICTLY_FALSE => |_, args| Ok(args[0].clone()),
        "_<_" => |_, args| ordered("_<_", args, |order| order == Ordering::Less),
        "_<=_" => |_, args| ordered("_<=_", args, |order| order != Ordering::Greater),
        "_>_" => |_, args| ordered("_>_", args, |order| order == Ordering::Greater),
        "_>=_" => |_, args| ordered("_>=_", args, |order| order != Ordering::Less),
        operator::IN => contains,
        "size" => size,
        "type" => |_, args| Ok(Value::Type(args[0].type_of())),
        "dyn" => |_, args| Ok(args[0].clone()),
        _ => return None,
    })
}

fn overflow() -> EvalError {
    EvalError::new("integer overflow")
}

fn unsigned_overflow() -> EvalError {
    EvalError::new("unsigned integer overflow")
}

fn out_of_time() -> EvalError {
    EvalError::new("timestamp overflow")
}

fn out_of_span() -> EvalError {
    EvalError::new("duration overflow")
}

/// For operands that do not go together: the form tells whether the left one knows the operation at all.
fn mismatch(function: &str, left: &Value<'_>) -> EvalError {
    match left {
        Value::Null
        | Value::Map(_)
        | Value::Optional(_)
        | Value::Type(_)
        | Value::Opaque(_)
        | Value::Message(_) => EvalError::new(format!("no such overload: {function}")),
        _ => EvalError::no_such_overload(),
    }
}

fn add<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => Value::Int(a.checked_add(*b).ok_or_else(overflow)?),
        [Value::Uint(a), Value::Uint(b)] => {
            Value::Uint(a.checked_add(*b).ok_or_else(unsigned_overflow)?)
        }
        [Value::Double(a), Value::Double(b)] => Value::Double(a + b),
        [Value::String(a), Value::String(b)] => {
            meter.allocate(a.len() + b.len())?;
            Value::string([&**a, &**b].concat())
        }
        [Value::Bytes(a), Value::Bytes(b)] => {
            meter.allocate(a.len() + b.len())?;
            Value::Bytes([&**a, &**b].concat().into())
        }
        [Value::Duration(a), Value::Duration(b)] => {
            Value::Duration(a.checked_add(*b).ok_or_else(out_of_span)?)
        }
        [Value::Timestamp(at), Value::Duration(span)]
        | [Value::Duration(span), Value::Timestamp(at)] => shift(*at, *span)?,
        [Value::List(a), Value::List(b)] => join(meter, a, b)?,
        [left, ..] => return Err(mismatch(operator::ADD, left)),
        [] => return Err(EvalError::no_such_overload()),
    })
}

fn shift<'a>(at: jiff::Timestamp, nanos: i64) -> Result<Value<'a>, EvalError> {
    let moved =
        at.checked_add(jiff::SignedDuration::from_nanos(nanos)).map_err(|_| out_of_time())?;
    if time::in_range(&moved) { Ok(Value::Timestamp(moved)) } else { Err(out_of_time()) }
}

/// Joins two lists. The kind of the left one decides what becomes of elements that both have.
fn join<'a>(meter: &mut Meter, one: &List<'a>, other: &List<'a>) -> Result<Value<'a>, EvalError> {
    meter.allocate((one.len() + other.len()) * size_of::<Value<'_>>())?;
    if let (Elements::Owned(first), true) = (&one.0, other.is_empty()) {
        return Ok(Value::List(List(Elements::Owned(Arc::clone(first)))));
    }
    let mut joined = one.iter().collect::<Result<Vec<_>, _>>()?;
    let kind = one.kind();
    for element in other.iter() {
        let element = element?;
        let at = match kind {
            ListKind::Atomic => None,
            kind => {
                position(meter, &List(Elements::Owned(Arc::new(joined.clone()))), &element, kind)?
            }
        };
        match at {
            None => joined.push(element),
            Some(at) => joined[at] = element,
        }
    }
    Ok(Value::list(joined))
}

fn subtract<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => Value::Int(a.checked_sub(*b).ok_or_else(overflow)?),
        [Value::Uint(a), Value::Uint(b)] => {
            Value::Uint(a.checked_sub(*b).ok_or_else(unsigned_overflow)?)
        }
        [Value::Double(a), Value::Double(b)] => Value::Double(a - b),
        [Value::Duration(a), Value::Duration(b)] => {
            Value::Duration(a.checked_sub(*b).ok_or_else(out_of_span)?)
        }
        [Value::Timestamp(at), Value::Duration(span)] => {
            shift(*at, span.checked_neg().ok_or_else(out_of_span)?)?
        }
        [Value::Timestamp(a), Value::Timestamp(b)] => {
            let nanos = a.as_nanosecond() - b.as_nanosecond();
            Value::Duration(i64::try_from(nanos).map_err(|_| out_of_span())?)
        }
        [left, ..] => return Err(mismatch("_-_", left)),
        [] => return Err(EvalError::no_such_overload()),
    })
}

fn multiply<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => Value::Int(a.checked_mul(*b).ok_or_else(overflow)?),
        [Value::Uint(a), Value::Uint(b)] => {
            Value::Uint(a.checked_mul(*b).ok_or_else(unsigned_overflow)?)
        }
        [Value::Double(a), Value::Double(b)] => Value::Double(a * b),
        [left, ..] => return Err(mismatch("_*_", left)),
        [] => return Err(EvalError::no_such_overload()),
    })
}

fn divide<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(EvalError::new("division by zero"));
        }
        [Value::Int(a), Value::Int(b)] => Value::Int(a.checked_div(*b).ok_or_else(overflow)?),
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(a / b),
        [Value::Double(a), Value::Double(b)] => Value::Double(a / b),
        [left, ..] => return Err(mismatch("_/_", left)),
        [] => return Err(EvalError::no_such_overload()),
    })
}

fn modulo<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(EvalError::new("modulus by zero"));
        }
        [Value::Int(a), Value::Int(b)] => Value::Int(a.checked_rem(*b).ok_or_else(overflow)?),
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(a % b),
        [left, ..] => return Err(mismatch("_%_", left)),
        [] => return Err(EvalError::no_such_overload()),
    })
}

fn negate<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    Ok(match args {
        [Value::Int(a)] => Value::Int(a.checked_neg().ok_or_else(overflow)?),
        [Value::Double(a)] => Value::Double(-a),
        [Value::Duration(a)] => Value::Duration(a.checked_neg().ok_or_else(out_of_span)?),
        _ => return Err(EvalError::no_such_overload()),
    })
}

fn not<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn ordered<'a>(
    name: &str,
    args: &[Value<'a>],
    holds: fn(Ordering) -> bool,
) -> Result<Value<'a>, EvalError> {
    let [one, other] = args else { return Err(EvalError::no_such_overload()) };
    match compare(one, other) {
        Some(order) => Ok(Value::Bool(holds(order))),
        None if matches!((one, other), (Value::Double(a), _) if a.is_nan()) => {
            Err(EvalError::new("NaN values cannot be ordered"))
        }
        None if matches!((one, other), (_, Value::Double(b)) if b.is_nan()) => {
            Err(EvalError::new("NaN values cannot be ordered"))
        }
        None => Err(match one {
            Value::List(_) => EvalError::new(format!("no such overload: {name}")),
            other => mismatch(name, other),
        }),
    }
}

/// `in`: an element of a list, or a key of a map.
fn contains<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [value, Value::List(list)] => {
            for element in list.iter() {
                if equal(meter, &element?, value)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        [value, Value::Map(map)] => match map.find(value) {
            Some(found) => found.map(|_| Value::Bool(true)),
            None => Ok(Value::Bool(false)),
        },
        _ => Err(EvalError::no_such_overload()),
    }
}

fn size<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
            Ok(Value::Int(value.size() as i64))
        }
        _ => Err(EvalError::new("no such overload: size")),
    }
}
