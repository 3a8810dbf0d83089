//! Points and spans of time as text and back, in Go's forms.

use jiff::civil::Date;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, Zoned};

/// RFC 3339, with years from 1 to 9999.
pub(crate) fn parse_timestamp(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    // jiff takes more forms than RFC 3339; the fixed part tells them apart.
    let fixed = bytes.len() >= 20
        && [4, 7].iter().all(|at| bytes[*at] == b'-')
        && bytes[10] == b'T'
        && [13, 16].iter().all(|at| bytes[*at] == b':')
        && [0, 1, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18]
            .iter()
            .all(|at| bytes[*at].is_ascii_digit());
    if !fixed || !zone_is_plain(&text[19..]) {
        return None;
    }
    text.parse().ok().filter(in_range)
}

/// A fraction, then `Z` or an offset of hours and minutes.
fn zone_is_plain(rest: &str) -> bool {
    let rest = match rest.strip_prefix('.') {
        Some(fraction) => {
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            if digits == 0 || digits > 9 {
                return false;
            }
            &fraction[digits..]
        }
        None => rest,
    };
    rest == "Z" || (rest.len() == 6 && rest.starts_with(['+', '-']) && rest.as_bytes()[3] == b':')
}

/// `2006-01-02`
pub(crate) fn parse_date(text: &str) -> Option<Timestamp> {
    if text.len() != 10 {
        return None;
    }
    let date: Date = text.parse().ok()?;
    date.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// Seconds since 1970, if the point is in range.
pub(crate) fn from_seconds(seconds: i64) -> Option<Timestamp> {
    Timestamp::from_second(seconds).ok().filter(in_range)
}

/// Whether a point is from the year 1 to the year 9999.
pub(crate) fn in_range(at: &Timestamp) -> bool {
    (MIN_SECOND..=MAX_SECOND).contains(&at.as_second())
}

/// RFC 3339 with as many digits of a fraction as needed.
pub(crate) fn show_timestamp(at: Timestamp) -> String {
    at.to_string()
}

/// A span in seconds: `3600s`, `1.5s`.
pub(crate) fn show_duration(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let (seconds, rest) =
        (nanos.unsigned_abs() / SECOND as u64, nanos.unsigned_abs() % SECOND as u64);
    if rest == 0 {
        return format!("{sign}{seconds}s");
    }
    let fraction = format!("{rest:09}");
    format!("{sign}{seconds}.{}s", fraction.trim_end_matches('0'))
}

/// Go's form: `1h30m`, `-1.5s`, `0`, with the units ns, us, ms, s, m and h.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, after) = rest.split_at(digits);
        let unit_length = after.bytes().take_while(|b| !b.is_ascii_digit() && *b != b'.').count();
        let (unit, after) = after.split_at(unit_length);
        total = total.checked_add(part(number, unit_nanos(unit)?)?)?;
        rest = after;
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

fn part(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || whole.len() > 19 || fraction.contains('.') {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits = fraction.get(..fraction.len().min(18))?;
    let part = if digits.is_empty() {
        0
    } else {
        digits.parse::<i128>().ok()? * unit / 10_i128.pow(digits.len() as u32)
    };
    Some(whole * unit + part)
}

fn unit_nanos(unit: &str) -> Option<i128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => i128::from(SECOND),
        "m" => 60 * i128::from(SECOND),
        "h" => 3600 * i128::from(SECOND),
        _ => return None,
    })
}

/// A point as it is on clocks somewhere: a name of the time zone database or an offset such as `+02:00`.
pub(crate) fn in_zone(at: Timestamp, zone: &str) -> Option<Zoned> {
    let zone = match zone {
        "UTC" | "" => TimeZone::UTC,
        offset
            if offset.starts_with(['+', '-'])
                || offset.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            TimeZone::fixed(parse_offset(offset)?)
        }
        name => TimeZone::get(name).ok()?,
    };
    Some(at.to_zoned(zone))
}

fn parse_offset(text: &str) -> Option<Offset> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, minutes) = digits.split_once(':')?;
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    Offset::from_seconds(sign * (hours.checked_mul(3600)? + minutes.checked_mul(60)?)).ok()
}

/// Nanoseconds of a second.
pub(crate) const SECOND: i64 = 1_000_000_000;

const MIN_SECOND: i64 = -62_135_596_800;
const MAX_SECOND: i64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_go_reads_them() {
        let cases = [
            ("1h30m", Some(5400 * SECOND)),
            ("-1.5s", Some(-1_500_000_000)),
            ("0", Some(0)),
            (".5h", Some(1800 * SECOND)),
            ("1us2ns", Some(1002)),
            ("1", None),
            ("", None),
            ("h", None),
            (".s", None),
            ("9999999999h", None),
            ("1d", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_duration(text), expected, "{text}");
        }
        assert_eq!(show_duration(-1_500_000_000), "-1.5s");
    }

    #[test]
    fn points_are_rfc_3339_only() {
        assert!(parse_timestamp("2020-01-01T10:00:00Z").is_some());
        assert!(parse_timestamp("2020-01-01T10:00:00.123+02:00").is_some());
        for text in [
            "2020-01-01",
            "2020-01-01T10:00:00",
            "2020-01-01 10:00:00Z",
            "x",
            "2020-13-01T10:00:00Z",
        ] {
            assert!(parse_timestamp(text).is_none(), "{text}");
        }
    }
}
