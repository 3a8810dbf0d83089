//! Amounts of resources, such as `100m`, `1.5Gi` or `2e3`, and their canonical form.
//!
//! Upstream writes every amount in its canonical form, whatever a client sent: without a fraction, and
//! with the largest suffix of the family that it was written in.

/// One thousand millionth: finer amounts are rounded up to it.
const NANOS: i128 = 1_000_000_000;

/// The largest amount; larger ones become it.
const MAX: i128 = i64::MAX as i128 * NANOS;

/// No amount needs more digits than this to be told from its neighbours.
const MAX_DIGITS: usize = 64;

const WRONG_FORM: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
const WRONG_SUFFIX: &str = "unable to parse quantity's suffix";

/// The family of suffixes that an amount is written in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `Ki`, `Mi`, ...
    Binary,
    /// `m`, `k`, `M`, ...
    Decimal,
    /// `e3`, `E6`, ...
    Exponent,
}

const BINARY: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/// From a thousand millionth upwards, in steps of a thousand.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];

/// The canonical form of an amount.
///
/// # Errors
/// In upstream's words, when it is none.
pub(super) fn canonical(text: &str) -> Result<String, &'static str> {
    let (nanos, family) = parse(text)?;
    Ok(show(nanos, family))
}

fn show(nanos: i128, family: Family) -> String {
    let whole_kilo = nanos.abs() >= 1024 * NANOS;
    match family {
        Family::Binary if whole_kilo => binary(nanos),
        Family::Binary | Family::Decimal => decimal(nanos, |step| DECIMAL[step].to_owned()),
        Family::Exponent => decimal(nanos, |step| match (step as i32 - 3) * 3 {
            0 => String::new(),
            exponent => format!("e{exponent}"),
        }),
    }
}

/// An amount in thousand millionths; nothing when it is none.
pub(crate) fn nanos(text: &str) -> Option<i128> {
    parse(text).ok().map(|(nanos, _)| nanos)
}

/// The canonical form of an amount, rounded up to thousandths: finer ones upstream never kept.
pub(crate) fn rounded_to_milli(text: &str) -> Option<String> {
    const MILLI: i128 = NANOS / 1000;
    let (nanos, family) = parse(text).ok()?;
    if nanos % MILLI == 0 {
        return None;
    }
    // Away from zero, as upstream rounds.
    let rounded = (nanos / MILLI + nanos.signum()) * MILLI;
    Some(show(rounded, family))
}

/// The amount in thousand millionths.
fn parse(text: &str) -> Result<(i128, Family), &'static str> {
    if text.is_empty() {
        return Err(WRONG_FORM);
    }
    let (negative, rest) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, suffix) = rest.split_at(digits);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.len() + fraction.len() == 0 || fraction.contains('.') {
        return Err(WRONG_FORM);
    }
    let (family, scale) = scale(suffix)?;
    let nanos = magnitude(whole, fraction, scale);
    Ok((if negative { -nanos } else { nanos }, family))
}

/// What a number is multiplied by: two or ten to a power.
enum Scale {
    Two(u32),
    Ten(i32),
}

fn scale(suffix: &str) -> Result<(Family, Scale), &'static str> {
    if suffix.is_empty() {
        return Ok((Family::Decimal, Scale::Ten(0)));
    }
    if let Some(step) = BINARY.iter().position(|known| *known == suffix) {
        return Ok((Family::Binary, Scale::Two(step as u32 * 10)));
    }
    if let Some(step) = DECIMAL.iter().position(|known| *known == suffix) {
        return Ok((Family::Decimal, Scale::Ten((step as i32 - 3) * 3)));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(WRONG_SUFFIX)?;
    let exponent = exponent.strip_prefix('+').unwrap_or(exponent);
    let exponent: i64 = exponent.parse().map_err(|_| WRONG_SUFFIX)?;
    Ok((Family::Exponent, Scale::Ten(exponent.clamp(-1000, 1000) as i32)))
}

/// Digits times the scale, rounded up, and at most [`MAX`].
fn magnitude(whole: &str, fraction: &str, scale: Scale) -> i128 {
    let digits = [whole.trim_start_matches('0'), fraction].concat();
    let (digits, cut) = digits.split_at(digits.len().min(MAX_DIGITS));
    // The digits, as a number with this many of them behind the point.
    let (factor, mut places) = match scale {
        Scale::Two(bits) => (1_i128 << bits, fraction.len() as i32),
        Scale::Ten(power) => (1, fraction.len() as i32 - power),
    };
    places -= cut.len() as i32 + 9;
    let mut value: i128 = 0;
    let mut rounded = cut.bytes().any(|digit| digit != b'0');
    for (at, digit) in digits.bytes().enumerate() {
        // Digits that are beyond the last place only round.
        if (digits.len() - at) as i32 <= places && matches!(scale, Scale::Ten(_)) {
            rounded |= digits.as_bytes()[at..].iter().any(|digit| *digit != b'0');
            places = 0;
            break;
        }
        value = value.saturating_mul(10).saturating_add(i128::from(digit - b'0'));
    }
    value = value.saturating_mul(factor);
    for _ in 0..places.max(0) {
        rounded |= value % 10 != 0;
        value /= 10;
    }
    for _ in 0..(-places).max(0) {
        value = value.saturating_mul(10);
    }
    value.saturating_add(i128::from(rounded)).min(MAX)
}

fn binary(nanos: i128) -> String {
    let mut value = nanos / NANOS;
    if nanos % NANOS != 0 {
        value += nanos.signum();
    }
    let mut step = 0;
    while step + 1 < BINARY.len() && value % 1024 == 0 {
        value /= 1024;
        step += 1;
    }
    format!("{value}{}", BINARY[step])
}

fn decimal(nanos: i128, suffix: impl Fn(usize) -> String) -> String {
    if nanos == 0 {
        return "0".to_owned();
    }
    let (mut value, mut step) = (nanos, 0);
    while step + 1 < DECIMAL.len() && value % 1000 == 0 {
        value /= 1000;
        step += 1;
    }
    format!("{value}{}", suffix(step))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn amounts_take_their_canonical_form() {
        let check = |text: &str, expected: &str| {
            assert_eq!(canonical(text).unwrap(), expected, "{text}");
        };
        check("0", "0");
        check("-0", "0");
        check("0Mi", "0");
        check("1000m", "1");
        check("1500m", "1500m");
        check("0.5", "500m");
        check(".5", "500m");
        check("5.", "5");
        check("1000", "1k");
        check("+1.10", "1100m");
        check("1024Mi", "1Gi");
        check("1.5Gi", "1536Mi");
        check("0.5Ki", "512");
        check("1023", "1023");
        check("2e3", "2e3");
        check("1200E-3", "1200e-3");
        check("1e-3", "1e-3");
        check("-1500", "-1500");
        check("0.0000000001", "1n");
        check("1.0000000001", "1000000001n");
        check("1e100", "9223372036854775807");
        check("100000E", "9223372036854775807");
        check("100Ei", "9223372036854775807");
        check("1e-100", "1e-9");
        check("123456789012345678901234567890", "9223372036854775807");
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for (text, expected) in [
            ("", WRONG_FORM),
            ("x", WRONG_FORM),
            ("1.2.3", WRONG_FORM),
            (".", WRONG_FORM),
            ("1x", WRONG_SUFFIX),
            ("1kb", WRONG_SUFFIX),
            ("1e", WRONG_SUFFIX),
            ("1 ", WRONG_SUFFIX),
        ] {
            assert_eq!(canonical(text).unwrap_err(), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn fuzz_canonical_is_a_fixed_point(text in "[+-]?[0-9.]{0,70}[eEinumkKMGTP]{0,2}[+-]?[0-9]{0,5}") {
            if let Ok(once) = canonical(&text) {
                prop_assert_eq!(canonical(&once).unwrap(), once);
            }
        }
    }
}
