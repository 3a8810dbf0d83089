//! Conversions between types.

use super::{Function, Inner, Opaque};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::time;
use crate::value::Value;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "bool" => to_bool,
        "bytes" => to_bytes,
        "double" => to_double,
        "duration" => to_duration,
        "int" => to_int,
        "string" => to_string,
        "timestamp" => to_timestamp,
        "uint" => to_uint,
        _ => return None,
    })
}

fn to_bool<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [value @ Value::Bool(_)] => Ok(value.clone()),
        [Value::String(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(conversion("string", "bool")),
        },
        _ => Err(EvalError::no_overload("bool", args)),
    }
}

fn to_bytes<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [value @ Value::Bytes(_)] => Ok(value.clone()),
        [Value::String(text)] => {
            meter.allocate(text.len())?;
            Ok(Value::Bytes(text.as_bytes().into()))
        }
        _ => Err(EvalError::no_overload("bytes", args)),
    }
}

fn to_double<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Double(value)] => Ok(Value::Double(*value)),
        [Value::Int(value)] => Ok(Value::Double(*value as f64)),
        [Value::Uint(value)] => Ok(Value::Double(*value as f64)),
        [Value::String(text)] => {
            text.parse().map(Value::Double).map_err(|_| conversion("string", "double"))
        }
        _ => Err(EvalError::no_overload("double", args)),
    }
}

fn to_duration<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [value @ Value::Duration(_)] => Ok(value.clone()),
        [Value::Int(nanos)] => Ok(Value::Duration(*nanos)),
        [Value::String(text)] => time::parse_duration(text)
            .map(Value::Duration)
            .ok_or_else(|| conversion("string", "google.protobuf.Duration")),
        _ => Err(EvalError::no_overload("duration", args)),
    }
}

fn to_int<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let overflow = || EvalError::new("integer overflow");
    match args {
        [value @ Value::Int(_)] => Ok(value.clone()),
        [Value::Uint(value)] => i64::try_from(*value).map(Value::Int).map_err(|_| overflow()),
        [Value::Double(value)]
            if value.is_finite() && *value > -(2f64.powi(63)) && *value < 2f64.powi(63) =>
        {
            Ok(Value::Int(*value as i64))
        }
        [Value::Double(_)] => Err(overflow()),
        [Value::Duration(nanos)] => Ok(Value::Int(*nanos)),
        [Value::Timestamp(at)] => Ok(Value::Int(at.as_second())),
        [Value::String(text)] => {
            text.parse().map(Value::Int).map_err(|_| conversion("string", "int"))
        }
        _ => Err(EvalError::no_overload("int", args)),
    }
}

fn to_uint<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let overflow = || EvalError::new("unsigned integer overflow");
    match args {
        [value @ Value::Uint(_)] => Ok(value.clone()),
        [Value::Int(value)] => u64::try_from(*value).map(Value::Uint).map_err(|_| overflow()),
        [Value::Double(value)] if *value >= 0.0 && *value < 2f64.powi(64) => {
            Ok(Value::Uint(*value as u64))
        }
        [Value::Double(_)] => Err(overflow()),
        [Value::String(text)] if !text.starts_with('+') => {
            text.parse().map(Value::Uint).map_err(|_| conversion("string", "uint"))
        }
        [Value::String(_)] => Err(conversion("string", "uint")),
        _ => Err(EvalError::no_overload("uint", args)),
    }
}

fn to_string<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [value] = args else { return Err(EvalError::no_overload("string", args)) };
    if let Value::String(_) = value {
        return Ok(value.clone());
    }
    if let Value::Bytes(bytes) = value {
        meter.allocate(bytes.len())?;
        let text = std::str::from_utf8(bytes)
            .map_err(|_| EvalError::new("invalid UTF-8 in bytes, cannot convert to string"))?;
        return Ok(Value::string(text));
    }
    show(value).map(Value::string).ok_or_else(|| EvalError::no_overload("string", args))
}

/// A simple value as text.
pub(super) fn show(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => show_double(*value),
        Value::String(text) => text.to_string(),
        Value::Timestamp(at) => time::show_timestamp(*at),
        Value::Duration(nanos) => time::show_duration(*nanos),
        Value::Type(named) => named.kind_name().to_owned(),
        Value::Opaque(Opaque(Inner::Ip(address))) => address.to_string(),
        Value::Opaque(Opaque(Inner::Cidr(cidr))) => cidr.to_string(),
        _ => return None,
    })
}

/// A double as Go's `%v` has it: the shortest digits, with an exponent when it is large or tiny.
pub(super) fn show_double(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let exponent: i32 =
        scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    if value != 0.0 && !(-4..21).contains(&exponent) {
        let (mantissa, _) = scientific.split_once('e').unwrap_or((&scientific, ""));
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    value.to_string()
}

fn to_timestamp<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [value @ Value::Timestamp(_)] => Ok(value.clone()),
        [Value::Int(seconds)] => time::from_seconds(*seconds)
            .map(Value::Timestamp)
            .ok_or_else(|| EvalError::new("timestamp overflow")),
        [Value::String(text)] => time::parse_timestamp(text)
            .map(Value::Timestamp)
            .ok_or_else(|| conversion("string", "google.protobuf.Timestamp")),
        _ => Err(EvalError::no_overload("timestamp", args)),
    }
}

fn conversion(from: &str, to: &str) -> EvalError {
    EvalError::new(format!("type conversion error from '{from}' to '{to}'"))
}
