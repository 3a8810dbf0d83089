//! Values that may be absent.

use super::Function;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Value;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "optional.of" => |_, args| Ok(Value::some(args[0].clone())),
        "optional.ofNonZeroValue" => |_, args| {
            Ok(if is_zero(&args[0]) { Value::Optional(None) } else { Value::some(args[0].clone()) })
        },
        "optional.none" => |_, _| Ok(Value::Optional(None)),
        "hasValue" => |_, args| match args {
            [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
            _ => Err(EvalError::no_overload("hasValue", args)),
        },
        "value" => |_, args| match args {
            [Value::Optional(Some(value))] => Ok((**value).clone()),
            [Value::Optional(None)] => Err(EvalError::new("optional.none() dereference")),
            _ => Err(EvalError::no_overload("value", args)),
        },
        "optional.unwrap" | "unwrapOpt" => unwrap,
        _ => return None,
    })
}

fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) | Value::Duration(0) => {
            true
        }
        Value::Optional(None) => true,
        Value::Double(value) => *value == 0.0,
        Value::String(text) => text.is_empty(),
        Value::Bytes(bytes) => bytes.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        Value::Message(message) => message.fields.is_empty(),
        _ => false,
    }
}

fn unwrap<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::List(list)] = args else {
        return Err(EvalError::no_overload("optional.unwrap", args));
    };
    let mut values = Vec::new();
    for element in list.iter() {
        match element? {
            Value::Optional(Some(value)) => values.push((*value).clone()),
            Value::Optional(None) => {}
            other => {
                let shown = super::convert::show(&other)
                    .unwrap_or_else(|| other.type_of().kind_name().to_owned());
                return Err(EvalError::new(format!("value {shown} is not optional")));
            }
        }
    }
    Ok(Value::list(values))
}
