//! Functions of text. Positions count code points.

use super::{Function, lists};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Value;

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "contains" => |_, args| pair(args, |text, part| text.contains(part)),
        "startsWith" => |_, args| pair(args, |text, part| text.starts_with(part)),
        "endsWith" => |_, args| pair(args, |text, part| text.ends_with(part)),
        "charAt" => char_at,
        "indexOf" => index_of,
        "lastIndexOf" => last_index_of,
        "join" => join,
        "lowerAscii" => |meter, args| map(meter, "lowerAscii", args, str::to_ascii_lowercase),
        "upperAscii" => |meter, args| map(meter, "upperAscii", args, str::to_ascii_uppercase),
        "trim" => |meter, args| map(meter, "trim", args, |text| text.trim().to_owned()),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "strings.quote" => |meter, args| map(meter, "strings.quote", args, quote),
        "format" => super::format::format,
        "jsonpatch.escapeKey" => |meter, args| {
            map(meter, "jsonpatch.escapeKey", args, |key| key.replace('~', "~0").replace('/', "~1"))
        },
        _ => return None,
    })
}

fn pair<'a>(args: &[Value<'a>], holds: fn(&str, &str) -> bool) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(holds(text, part))),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn map<'a>(
    meter: &mut Meter,
    name: &str,
    args: &[Value<'a>],
    change: impl Fn(&str) -> String,
) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::String(text)] => {
            meter.allocate(text.len())?;
            Ok(Value::string(change(text)))
        }
        _ => Err(EvalError::no_overload(name, args)),
    }
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

/// The byte at which a code point begins, or the end.
fn byte_at(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    let mut starts = text.char_indices().map(|(byte, _)| byte).chain([text.len()]);
    starts.nth(index)
}

fn char_at<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::String(text), Value::Int(index)] = args else {
        return Err(EvalError::no_overload("charAt", args));
    };
    let byte = byte_at(text, *index).ok_or_else(|| out_of_range(*index))?;
    let found: String = text[byte..].chars().take(1).collect();
    Ok(Value::string(found))
}

fn index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (text, part, offset) = match args {
        [Value::List(_), _] => return lists::index_of(meter, args),
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, *offset),
        _ => return Err(EvalError::no_overload("indexOf", args)),
    };
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let found =
        byte_at(text, offset).and_then(|start| text[start..].find(&**part).map(|at| start + at));
    Ok(Value::Int(found.map_or(-1, |at| text[..at].chars().count() as i64)))
}

fn last_index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (text, part, offset) = match args {
        [Value::List(_), _] => return lists::last_index_of(meter, args),
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(offset)] => {
            (text, part, Some(*offset))
        }
        _ => return Err(EvalError::no_overload("lastIndexOf", args)),
    };
    let length = text.chars().count() as i64;
    if part.is_empty() {
        return Ok(Value::Int(offset.unwrap_or(length)));
    }
    let end = match offset {
        Some(offset) if offset < 0 => return Err(out_of_range(offset)),
        Some(offset) if offset >= length => return Ok(Value::Int(-1)),
        // What is found may begin at the offset and end beyond it.
        Some(offset) => {
            byte_at(text, offset.saturating_add(part.chars().count() as i64)).unwrap_or(text.len())
        }
        None => text.len(),
    };
    Ok(Value::Int(text[..end].rfind(&**part).map_or(-1, |at| text[..at].chars().count() as i64)))
}

fn join<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (list, separator) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return Err(EvalError::no_overload("join", args)),
    };
    let mut joined = String::new();
    for (at, element) in list.iter().enumerate() {
        let element = element?;
        let Value::String(text) = &element else {
            let shown = super::convert::show(&element)
                .unwrap_or_else(|| element.type_of().kind_name().to_owned());
            return Err(EvalError::new(format!("join: invalid input: {shown}")));
        };
        meter.allocate(separator.len() + text.len())?;
        if at > 0 {
            joined.push_str(separator);
        }
        joined.push_str(text);
    }
    meter.charge((joined.chars().count() as u64 * 2).div_ceil(10))?;
    Ok(Value::string(joined))
}

fn replace<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (text, old, new, limit) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(limit)] => {
            (text, old, new, *limit)
        }
        _ => return Err(EvalError::no_overload("replace", args)),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let count = text.matches(&**old).take(limit).count();
    meter.allocate(text.len() + count.saturating_mul(new.len()))?;
    Ok(Value::string(text.replacen(&**old, new, limit)))
}

fn split<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (text, separator, limit) = match args {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => {
            (text, separator, *limit)
        }
        _ => return Err(EvalError::no_overload("split", args)),
    };
    if limit == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<String> = match separator.is_empty() {
        false => text.splitn(limit, &**separator).map(str::to_owned).collect(),
        true => {
            // Into characters; the last part is what is left.
            let cut = byte_at(text, (limit - 1).min(text.len()) as i64).unwrap_or(text.len());
            let singles = text[..cut].chars().map(String::from);
            let rest = (cut < text.len()).then(|| text[cut..].to_owned());
            singles.chain(rest).collect()
        }
    };
    meter.allocate(text.len() + parts.len() * size_of::<Value<'_>>())?;
    Ok(Value::strings(parts))
}

fn substring<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(EvalError::no_overload("substring", args)),
    };
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(EvalError::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = byte_at(text, start).ok_or_else(|| out_of_range(start))?;
    let to = match end {
        None => text.len(),
        Some(end) => byte_at(text, end).ok_or_else(|| out_of_range(end))?,
    };
    meter.allocate(to - from)?;
    Ok(Value::string(&text[from..to]))
}

fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
