//! Amounts of resources: `1.5Gi`, `100m`.
//!
//! Exact in billionths, the smallest part that upstream keeps; smaller ones are rounded up.

use std::cmp::Ordering;

use super::{Function, Inner, Opaque};
use crate::error::EvalError;
use crate::value::Value;

/// An amount.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quantity {
    nanos: i128,
    /// Whether it was written as a whole number, so that it counts as an integer.
    whole: bool,
}

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "quantity" => |_, args| match args {
            [Value::String(text)] => parse(text).map(|quantity| Inner::Quantity(quantity).into()),
            _ => Err(EvalError::no_overload("quantity", args)),
        },
        "isQuantity" => |_, args| match args {
            [Value::String(text)] => Ok(Value::Bool(parse(text).is_ok())),
            _ => Err(EvalError::no_overload("isQuantity", args)),
        },
        "sign" => {
            |_, args| of("sign", args).map(|quantity| Value::Int(quantity.nanos.signum() as i64))
        }
        "asApproximateFloat" => |_, args| {
            of("asApproximateFloat", args)
                .map(|quantity| Value::Double(quantity.nanos as f64 / NANO as f64))
        },
        "isInteger" => |_, args| {
            of("isInteger", args).map(|quantity| Value::Bool(quantity.integer().is_some()))
        },
        "asInteger" => |_, args| {
            let integer = of("asInteger", args)?.integer();
            integer.map(Value::Int).ok_or_else(|| EvalError::new("cannot convert value to integer"))
        },
        "add" => |_, args| combine("add", args, 1),
        "sub" => |_, args| combine("sub", args, -1),
        _ => return None,
    })
}

fn of(name: &str, args: &[Value<'_>]) -> Result<Quantity, EvalError> {
    match args {
        [Value::Opaque(Opaque(Inner::Quantity(quantity)))] => Ok(*quantity),
        _ => Err(EvalError::no_overload(name, args)),
    }
}

/// Compares two amounts.
pub(super) fn order(name: &str, args: &[Value<'_>]) -> Result<Ordering, EvalError> {
    match args {
        [Value::Opaque(Opaque(Inner::Quantity(a))), Value::Opaque(Opaque(Inner::Quantity(b)))] => {
            Ok(a.nanos.cmp(&b.nanos))
        }
        _ => Err(EvalError::no_overload(name, args)),
    }
}

fn combine<'a>(name: &str, args: &[Value<'a>], sign: i128) -> Result<Value<'a>, EvalError> {
    let (one, other) = match args {
        [Value::Opaque(Opaque(Inner::Quantity(a))), Value::Opaque(Opaque(Inner::Quantity(b)))] => {
            (a, *b)
        }
        [Value::Opaque(Opaque(Inner::Quantity(a))), Value::Int(b)] => {
            (a, Quantity { nanos: i128::from(*b) * NANO, whole: true })
        }
        _ => return Err(EvalError::no_overload(name, args)),
    };
    let nanos = one.nanos.saturating_add(sign * other.nanos).clamp(-LARGEST, LARGEST);
    Ok(Inner::Quantity(Quantity { nanos, whole: one.whole && other.whole }).into())
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Quantity {
    fn integer(&self) -> Option<i64> {
        if !self.whole {
            return None;
        }
        i64::try_from(self.nanos / NANO).ok()
    }
}

fn parse(text: &str) -> Result<Quantity, EvalError> {
    let wrong_format = || {
        EvalError::new(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )
    };
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    let (number, suffix) = digits.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if number.is_empty() || number == "." || fraction.contains('.') {
        return Err(wrong_format());
    }
    let (multiplier, divisor, binary) = scale(suffix, wrong_format)?;
    let magnitude = magnitude(whole, fraction, multiplier, divisor);
    let capped = if binary { magnitude.min(i128::from(i64::MAX) * NANO) } else { magnitude };
    let small = whole.len() + fraction.len() <= 18;
    let whole = fraction.is_empty() && divisor == 1 && small && capped % NANO == 0;
    Ok(Quantity { nanos: if negative { -capped } else { capped }, whole })
}

/// What a suffix multiplies by and divides by, and whether it is one of powers of two.
fn scale(
    suffix: &str,
    wrong_format: impl Fn() -> EvalError,
) -> Result<(u128, u128, bool), EvalError> {
    let decimal = ["k", "M", "G", "T", "P", "E"];
    if let Some(at) = decimal.iter().position(|known| *known == suffix) {
        return Ok((10_u128.pow(3 * (at as u32 + 1)), 1, false));
    }
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(at) = binary.iter().position(|known| *known == suffix) {
        return Ok((1 << (10 * (at as u32 + 1)), 1, true));
    }
    match suffix {
        "" => return Ok((1, 1, false)),
        "m" => return Ok((1, 1_000, false)),
        "u" => return Ok((1, 1_000_000, false)),
        "n" => return Ok((1, 1_000_000_000, false)),
        _ => {}
    }
    let wrong_suffix = || EvalError::new("unable to parse quantity's suffix");
    let letters = suffix.find(|c: char| !"eEinumkKMGTP".contains(c)).unwrap_or(suffix.len());
    let digits = suffix[letters..].strip_prefix(['+', '-']).unwrap_or(&suffix[letters..]);
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong_format());
    }
    let exponent: i32 = match &suffix[..letters] {
        "e" | "E" => suffix[letters..].parse().map_err(|_| wrong_suffix())?,
        _ => return Err(wrong_suffix()),
    };
    // Beyond this, everything is as large as it gets or rounds to the smallest part.
    match exponent {
        0.. => Ok((10_u128.pow(exponent.min(28) as u32), 1, false)),
        _ => Ok((1, 10_u128.pow(exponent.unsigned_abs().min(37)), false)),
    }
}

fn magnitude(whole: &str, fraction: &str, multiplier: u128, divisor: u128) -> i128 {
    let too_large = LARGEST as u128;
    let digits = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let whole =
        digits(whole).and_then(|value| value.checked_mul(multiplier)?.checked_mul(NANO as u128));
    // More digits than these cannot change a billionth, except that they are not zero.
    let kept = &fraction[..fraction.len().min(27)];
    let more = fraction[kept.len()..].bytes().any(|b| b != b'0');
    let unit = 10_u128.pow(kept.len() as u32);
    let part = digits(kept).and_then(|value| value.checked_mul(multiplier));
    let part = part.and_then(|value| match value.checked_mul(NANO as u128) {
        Some(nanos) => Some(nanos.div_ceil(unit) + u128::from(more && nanos % unit == 0)),
        None => value.div_ceil(unit).checked_mul(NANO as u128),
    });
    let total =
        whole.zip(part).and_then(|(whole, part)| whole.checked_add(part)).unwrap_or(too_large);
    total.div_ceil(divisor).min(too_large) as i128
}

const NANO: i128 = 1_000_000_000;

/// Amounts beyond this are held at it; upstream goes further.
const LARGEST: i128 = i128::MAX / 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        let cases = [
            ("1", NANO),
            ("1.5Gi", 3 * (1 << 29) * NANO),
            ("100m", NANO / 10),
            ("1e3", 1000 * NANO),
            ("-2E-3", -2 * NANO / 1000),
            ("0.1n", 1),
            ("1E", NANO * 1_000_000_000_000_000_000),
            (".5", NANO / 2),
            ("20Ei", i128::from(i64::MAX) * NANO),
        ];
        for (text, nanos) in cases {
            assert_eq!(parse(text).unwrap().nanos, nanos, "{text}");
        }
        for text in ["", "x", "1.2.3", "1kk", "1e", "1 ", "--1", "."] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("9999999999999999999999999999999999999999999").is_ok());
    }
}
