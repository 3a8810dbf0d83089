//! `format`: a text with places for values.

use super::convert::show;
use crate::ast::{Expr, Kind, Literal};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::{Map, Value};

/// A place for a value: what it is to look like.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Clause {
    Text,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    Hex { upper: bool },
    Octal,
}

/// A part of a format.
enum Piece<'a> {
    Literal(&'a str),
    Place(Clause),
}

/// Splits a format. The error is upstream's.
fn pieces(format: &str, arguments: usize) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = format;
    let mut used = 0;
    while let Some(at) = rest.find('%') {
        pieces.push(Piece::Literal(&rest[..at]));
        let after = &rest[at + 1..];
        if let Some(after) = after.strip_prefix('%') {
            pieces.push(Piece::Literal("%"));
            rest = after;
            continue;
        }
        if after.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        if used >= arguments {
            return Err(format!("index {used} out of range"));
        }
        let (clause, after) =
            clause(after).map_err(|why| format!("could not parse formatting clause: {why}"))?;
        pieces.push(Piece::Place(clause));
        rest = after;
        used += 1;
    }
    pieces.push(Piece::Literal(rest));
    Ok(pieces)
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let (precision, rest) = match text.strip_prefix('.') {
        None => (6, text),
        Some(rest) => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            if digits == rest.len() {
                return Err(
                    "error while parsing precision: could not find end of precision specifier"
                        .to_owned(),
                );
            }
            let precision = rest[..digits]
                .parse::<usize>()
                .ok()
                .filter(|precision| *precision <= MAX_PRECISION);
            let precision = precision.ok_or(
                "error while parsing precision: error while converting precision to integer",
            )?;
            (precision, &rest[digits..])
        }
    };
    let letter = rest.chars().next().unwrap_or_default();
    let clause = match letter {
        's' => Clause::Text,
        'd' => Clause::Decimal,
        'f' => Clause::Fixed(precision),
        'e' => Clause::Scientific(precision),
        'b' => Clause::Binary,
        'x' => Clause::Hex { upper: false },
        'X' => Clause::Hex { upper: true },
        'o' => Clause::Octal,
        other => return Err(format!("unrecognized formatting clause \"{other}\"")),
    };
    Ok((clause, &rest[1..]))
}

pub(super) fn format<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::String(format), Value::List(list)] = args else {
        return Err(EvalError::no_overload("format", args));
    };
    let mut text = String::new();
    let mut values = list.iter();
    for piece in pieces(format, list.len()).map_err(EvalError::new)? {
        let part = match piece {
            Piece::Literal(part) => part.to_owned(),
            Piece::Place(clause) => {
                let value = values.next().unwrap_or(Ok(Value::Null))?;
                apply(meter, clause, &value)?
            }
        };
        meter.allocate(part.len())?;
        text.push_str(&part);
    }
    Ok(Value::string(text))
}

fn apply(meter: &mut Meter, clause: Clause, value: &Value<'_>) -> Result<String, EvalError> {
    let done = match (clause, value) {
        (Clause::Text, value) => return write(meter, value, false, 0),
        (Clause::Decimal, Value::Int(value)) => value.to_string(),
        (Clause::Decimal, Value::Uint(value)) => value.to_string(),
        (Clause::Fixed(precision), Value::Double(value)) => fixed(*value, precision),
        (Clause::Scientific(precision), Value::Double(value)) => scientific(*value, precision),
        (Clause::Fixed(_) | Clause::Scientific(_), Value::String(text))
            if matches!(&**text, "NaN" | "Infinity" | "-Infinity") =>
        {
            match &**text {
                "NaN" => "NaN",
                "Infinity" => "∞",
                _ => "-∞",
            }
            .to_owned()
        }
        (Clause::Binary, Value::Int(value)) => signed(*value, |value| format!("{value:b}")),
        (Clause::Binary, Value::Uint(value)) => format!("{value:b}"),
        (Clause::Binary, Value::Bool(value)) => u8::from(*value).to_string(),
        (Clause::Octal, Value::Int(value)) => signed(*value, |value| format!("{value:o}")),
        (Clause::Octal, Value::Uint(value)) => format!("{value:o}"),
        (Clause::Hex { upper }, value) => {
            let hex = match value {
                Value::Int(value) => signed(*value, |value| format!("{value:x}")),
                Value::Uint(value) => format!("{value:x}"),
                Value::String(text) => hex(text.as_bytes()),
                Value::Bytes(bytes) => hex(bytes),
                other => return Err(refusal(clause, other.type_of().kind_name())),
            };
            if upper { hex.to_uppercase() } else { hex }
        }
        (clause, other) => return Err(refusal(clause, other.type_of().kind_name())),
    };
    Ok(done)
}

fn signed(value: i64, show: impl Fn(u64) -> String) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", show(value.unsigned_abs()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A double with so many digits and commas between thousands, as in English.
fn fixed(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return special(value);
    }
    let plain = format!("{value:.precision$}");
    let (sign, digits) =
        plain.strip_prefix('-').map_or(("", plain.as_str()), |digits| ("-", digits));
    let (whole, fraction) =
        digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let fraction = fraction.map(|fraction| format!(".{fraction}")).unwrap_or_default();
    format!("{sign}{grouped}{fraction}")
}

fn scientific(value: f64, precision: usize) -> String {
    if !value.is_finite() {
        return special(value);
    }
    let plain = format!("{value:.precision$e}");
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((&plain, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("⁻", digits));
    let raised: String =
        digits.chars().filter_map(|c| SUPERSCRIPT.get(c.to_digit(10)? as usize)).collect();
    let raised = if raised.chars().count() < 2 { format!("⁰{raised}") } else { raised };
    format!("{mantissa}×10{sign}{raised}")
}

fn special(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN",
        value if value > 0.0 => "∞",
        _ => "-∞",
    }
    .to_owned()
}

/// A value as text; inside lists and maps, text is quoted and so on.
fn write(
    meter: &mut Meter,
    value: &Value<'_>,
    inside: bool,
    depth: u32,
) -> Result<String, EvalError> {
    meter.work(1)?;
    if depth > MAX_NESTING {
        return Err(EvalError::too_expensive());
    }
    Ok(match value {
        Value::Null => "null".to_owned(),
        Value::String(text) if inside => format!("{:?}", &**text),
        Value::Bytes(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            if inside { format!("b{text:?}") } else { text.into_owned() }
        }
        Value::Timestamp(_) if inside => {
            format!("timestamp({:?})", show(value).unwrap_or_default())
        }
        Value::Duration(_) if inside => format!("duration({:?})", show(value).unwrap_or_default()),
        Value::Double(value) if inside => format!("{value:.6}"),
        Value::List(list) => {
            let mut parts = Vec::with_capacity(list.len());
            for element in list.iter() {
                let part = write(meter, &element?, true, depth + 1)?;
                meter.allocate(part.len())?;
                parts.push(part);
            }
            format!("[{}]", parts.join(", "))
        }
        Value::Map(map) => write_map(meter, map, depth)?,
        Value::Optional(_) | Value::Opaque(_) | Value::Message(_) => {
            return Err(refusal(Clause::Text, value.type_of().kind_name()));
        }
        other => show(other).ok_or_else(|| refusal(Clause::Text, other.type_of().kind_name()))?,
    })
}

fn write_map(meter: &mut Meter, map: &Map<'_>, depth: u32) -> Result<String, EvalError> {
    let mut parts = Vec::with_capacity(map.len());
    for key in map.keys() {
        let Some(value) = map.find(&key) else { continue };
        let part = format!(
            "{}:{}",
            write(meter, &key, true, depth + 1)?,
            write(meter, &value?, true, depth + 1)?
        );
        meter.allocate(part.len())?;
        parts.push(part);
    }
    parts.sort();
    Ok(format!("{{{}}}", parts.join(", ")))
}

fn refusal_text(clause: Clause, given: &str) -> String {
    let who = match clause {
        Clause::Text => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
             and timestamps"
        }
        Clause::Decimal => "decimal clause can only be used on integers",
        Clause::Fixed(_) => "fixed-point clause can only be used on doubles",
        Clause::Scientific(_) => "scientific clause can only be used on doubles",
        Clause::Binary => "only integers and bools can be formatted as binary",
        Clause::Hex { .. } => "only integers, byte buffers, and strings can be formatted as hex",
        Clause::Octal => "octal clause can only be used on integers",
    };
    format!("error during formatting: {who}, was given {given}")
}

fn refusal(clause: Clause, given: &str) -> EvalError {
    EvalError::new(refusal_text(clause, given))
}

/// Checks a call whose format and list of values are in the text: where it is wrong, and how.
pub(crate) fn check_format(
    call: &Expr,
    format: &str,
    args: &[(Expr, bool)],
    type_of: &dyn Fn(&Expr) -> Type,
) -> Option<(u32, String)> {
    let pieces = match pieces(format, args.len()) {
        Ok(pieces) => pieces,
        Err(message) => return Some((call.at, message)),
    };
    let clauses = pieces.iter().filter_map(|piece| match piece {
        Piece::Place(clause) => Some(*clause),
        Piece::Literal(_) => None,
    });
    let mut used = 0;
    for (clause, (arg, _)) in clauses.zip(args) {
        used += 1;
        if let Some((at, given)) = misfit(clause, arg, type_of) {
            return Some((at, refusal_text(clause, &given)));
        }
    }
    let given = args.len();
    (given > used).then(|| {
        (
            call.at,
            format!("too many arguments supplied to string.format (expected {used}, got {given})"),
        )
    })
}

fn misfit(clause: Clause, arg: &Expr, type_of: &dyn Fn(&Expr) -> Type) -> Option<(u32, String)> {
    let given = type_of(arg);
    let fits = match (&clause, &given) {
        (_, Type::Dyn) => true,
        (Clause::Text, Type::Object(_) | Type::Opaque(_) | Type::Optional(_)) => false,
        (Clause::Text, _) => true,
        (Clause::Decimal | Clause::Octal, Type::Int | Type::Uint) => true,
        (Clause::Fixed(_) | Clause::Scientific(_), Type::Double | Type::String) => true,
        (Clause::Binary, Type::Int | Type::Uint | Type::Bool) => true,
        (Clause::Hex { .. }, Type::Int | Type::Uint | Type::String | Type::Bytes) => true,
        _ => false,
    };
    if !fits {
        return Some((arg.at, given.kind_name().to_owned()));
    }
    match (&clause, &arg.kind) {
        (Clause::Text, Kind::List(elements)) => {
            elements.iter().find_map(|(part, _)| misfit(clause, part, type_of))
        }
        (Clause::Text, Kind::Map(entries)) => entries.iter().find_map(|entry| {
            misfit(clause, &entry.key, type_of).or_else(|| misfit(clause, &entry.value, type_of))
        }),
        _ => None,
    }
}

/// The format and the values of a call, if both are in the text.
pub(crate) fn literal_format(expr: &Expr) -> Option<(&str, &[(Expr, bool)])> {
    let Kind::Call(call) = &expr.kind else { return None };
    if call.function != "format" || call.args.len() != 1 {
        return None;
    }
    match (call.target.as_deref()?.literal()?, &call.args[0].kind) {
        (Literal::String(format), Kind::List(args)) => Some((format, args)),
        _ => None,
    }
}

const SUPERSCRIPT: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];

/// Digits behind the point; more say nothing.
const MAX_PRECISION: usize = 1000;

/// Deeper values than JSON may be.
const MAX_NESTING: u32 = 200;
