//! Parts of points and spans of time.

use jiff::Zoned;

use super::Function;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::time::{SECOND, in_zone};
use crate::value::Value;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "getFullYear" => |_, args| part("getFullYear", args, |at| i64::from(at.year())),
        "getMonth" => |_, args| part("getMonth", args, |at| i64::from(at.month()) - 1),
        "getDayOfYear" => {
            |_, args| part("getDayOfYear", args, |at| i64::from(at.day_of_year()) - 1)
        }
        "getDayOfMonth" => |_, args| part("getDayOfMonth", args, |at| i64::from(at.day()) - 1),
        "getDate" => |_, args| part("getDate", args, |at| i64::from(at.day())),
        "getDayOfWeek" => |_, args| {
            part("getDayOfWeek", args, |at| i64::from(at.weekday().to_sunday_zero_offset()))
        },
        "getHours" => hours,
        "getMinutes" => minutes,
        "getSeconds" => seconds,
        "getMilliseconds" => milliseconds,
        _ => return None,
    })
}

fn hours<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / (3600 * SECOND))),
        _ => part("getHours", args, |at| i64::from(at.hour())),
    }
}

fn minutes<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / (60 * SECOND))),
        _ => part("getMinutes", args, |at| i64::from(at.minute())),
    }
}

fn seconds<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / SECOND)),
        _ => part("getSeconds", args, |at| i64::from(at.second())),
    }
}

fn milliseconds<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / 1_000_000)),
        _ => part("getMilliseconds", args, |at| i64::from(at.millisecond())),
    }
}

/// A part of a point in time, in UTC or in a zone.
fn part<'a>(
    name: &str,
    args: &[Value<'a>],
    pick: fn(&Zoned) -> i64,
) -> Result<Value<'a>, EvalError> {
    let (at, zone) = match args {
        [Value::Timestamp(at)] => (*at, "UTC"),
        [Value::Timestamp(at), Value::String(zone)] => (*at, &**zone),
        _ => return Err(EvalError::no_overload(name, args)),
    };
    let zoned =
        in_zone(at, zone).ok_or_else(|| EvalError::new(format!("unknown time zone {zone}")))?;
    Ok(Value::Int(pick(&zoned)))
}
