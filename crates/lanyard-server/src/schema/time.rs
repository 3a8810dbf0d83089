//! Times in RFC 3339, read as leniently as Go's `time.Parse` reads them, with its error texts.
//!
//! Kubernetes has two kinds: seconds (fractions are read and dropped) and microseconds (exactly six
//! digits). Both are written in UTC.

use jiff::{
    Timestamp,
    civil::{Date, DateTime, Time},
    tz::Offset,
};

use crate::field::quoted;

/// How finely a field of time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// `2006-01-02T15:04:05Z`.
    Seconds,
    /// `2006-01-02T15:04:05.000000Z`.
    Micros,
}

impl Precision {
    /// Go's name for the format.
    fn layout(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// Reads a time; the error is Go's text for it.
pub fn parse(text: &str, precision: Precision) -> Result<Timestamp, String> {
    let mut input = Input { rest: text };
    input.time(precision).map_err(|problem| match problem {
        Problem::Bad { rest, element } => format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quoted(text),
            quoted(precision.layout()),
            quoted(rest),
            quoted(element)
        ),
        Problem::Range(what) => format!("parsing time {}: {what} out of range", quoted(text)),
        Problem::Extra(rest) => {
            format!("parsing time {}: extra text: {}", quoted(text), quoted(rest))
        }
    })
}

/// Writes a time; the zero time of Go (year 1) is none.
pub fn format(time: Timestamp, precision: Precision) -> Option<String> {
    let utc = Offset::UTC.to_datetime(time);
    if (utc.year(), utc.month(), utc.day()) == (1, 1, 1) && utc.time() == Time::midnight() {
        return None;
    }
    let (date, time) = (utc.date(), utc.time());
    let (year, month, day) = (date.year(), date.month(), date.day());
    let (hour, minute, second) = (time.hour(), time.minute(), time.second());
    let micros = time.subsec_nanosecond() / 1000;
    Some(match precision {
        Precision::Seconds => {
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
        }
        Precision::Micros => {
            format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
        }
    })
}

/// The seconds since 1970 of a canonical time of either precision; nothing when it is not one.
pub fn unix_seconds(text: &str) -> Option<i64> {
    parse(text, Precision::Seconds).ok().map(Timestamp::as_second)
}

/// What is wrong with a text that should be a time.
enum Problem<'a> {
    Bad { rest: &'a str, element: &'static str },
    Range(&'static str),
    Extra(&'a str),
}

/// The part of the text that is not read yet.
struct Input<'a> {
    rest: &'a str,
}

impl<'a> Input<'a> {
    fn time(&mut self, precision: Precision) -> Result<Timestamp, Problem<'a>> {
        let year = self.digits(4, 4, "2006")?;
        self.literal("-")?;
        let month = self.digits(2, 2, "01")?;
        if !(1..=12).contains(&month) {
            return Err(Problem::Range("month"));
        }
        self.literal("-")?;
        let day = self.digits(2, 2, "02")?;
        self.literal("T")?;
        let hour = self.in_range(1, 24, "15", "hour")?;
        self.literal(":")?;
        let minute = self.in_range(2, 60, "04", "minute")?;
        self.literal(":")?;
        let second = self.in_range(2, 60, "05", "second")?;
        let nanos = match precision {
            Precision::Seconds => self.any_fraction(),
            Precision::Micros => self.six_digits_of_fraction()?,
        };
        let offset = self.offset()?;
        if !self.rest.is_empty() {
            return Err(Problem::Extra(self.rest));
        }
        let date =
            Date::new(year as i16, month as i8, day as i8).map_err(|_| Problem::Range("day"))?;
        let time = Time::new(hour as i8, minute as i8, second as i8, nanos)
            .map_err(|_| Problem::Range("second"))?;
        let local = DateTime::from_parts(date, time);
        let utc = Offset::UTC.to_timestamp(local).map_err(|_| Problem::Range("year"))?;
        utc.checked_sub(jiff::SignedDuration::from_secs(offset)).map_err(|_| Problem::Range("year"))
    }

    fn literal(&mut self, text: &'static str) -> Result<(), Problem<'a>> {
        self.rest = self.rest.strip_prefix(text).ok_or(self.bad(text))?;
        Ok(())
    }

    /// Reads as many digits as there are, from `least` to `most`.
    fn digits(
        &mut self,
        least: usize,
        most: usize,
        element: &'static str,
    ) -> Result<u32, Problem<'a>> {
        let count = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        if count < least {
            return Err(self.bad(element));
        }
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(digits.bytes().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
    }

    fn in_range(
        &mut self,
        least: usize,
        limit: u32,
        element: &'static str,
        name: &'static str,
    ) -> Result<u32, Problem<'a>> {
        let value = self.digits(least, 2, element)?;
        if value < limit { Ok(value) } else { Err(Problem::Range(name)) }
    }

    /// Skips a fraction of a second of any length, if there is one.
    fn any_fraction(&mut self) -> i32 {
        if let [b'.' | b',', digit, ..] = self.rest.as_bytes()
            && digit.is_ascii_digit()
        {
            let count = self.rest[1..].bytes().take_while(u8::is_ascii_digit).count();
            self.rest = &self.rest[1 + count..];
        }
        0
    }

    fn six_digits_of_fraction(&mut self) -> Result<i32, Problem<'a>> {
        let bad = self.bad(".000000");
        let [b'.' | b',', digits @ ..] = self.rest.as_bytes() else {
            return Err(bad);
        };
        if digits.len() < 6 || !digits[..6].iter().all(u8::is_ascii_digit) {
            return Err(bad);
        }
        let micros = digits[..6].iter().fold(0, |sum, digit| sum * 10 + i32::from(digit - b'0'));
        self.rest = &self.rest[7..];
        Ok(micros * 1000)
    }

    /// The offset from UTC in seconds.
    fn offset(&mut self) -> Result<i64, Problem<'a>> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let bad = || Problem::Bad { rest: self.rest, element: ELEMENT };
        let [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2, ..] = self.rest.as_bytes() else {
            return Err(bad());
        };
        if ![h1, h2, m1, m2].iter().all(|byte| byte.is_ascii_digit()) {
            return Err(bad());
        }
        let number = |tens: &u8, ones: &u8| i64::from(tens - b'0') * 10 + i64::from(ones - b'0');
        let (hours, minutes) = (number(h1, h2), number(m1, m2));
        // Go allows 24 hours and 60 minutes here: some people write them.
        if hours > 24 {
            return Err(Problem::Range("time zone offset hour"));
        }
        if minutes > 60 {
            return Err(Problem::Range("time zone offset minute"));
        }
        let seconds = hours * 3600 + minutes * 60;
        let signed = if *sign == b'-' { -seconds } else { seconds };
        self.rest = &self.rest[6..];
        Ok(signed)
    }

    fn bad(&self, element: &'static str) -> Problem<'a> {
        Problem::Bad { rest: self.rest, element }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(precision: Precision, input: &str, expected: &str) {
        let result = match parse(input, precision) {
            Ok(time) => format(time, precision).unwrap_or("zero".into()),
            Err(text) => text,
        };
        assert_eq!(result, expected, "{input:?}");
    }

    #[test]
    fn seconds_are_read_as_go_reads_them() {
        let check = |input: &str, expected: &str| check(Precision::Seconds, input, expected);
        check("2024-02-29T01:02:03Z", "2024-02-29T01:02:03Z");
        check("2024-02-29T01:02:03.999Z", "2024-02-29T01:02:03Z");
        check("2024-02-29T01:02:03+02:00", "2024-02-28T23:02:03Z");
        check("2024-02-29T1:02:03Z", "2024-02-29T01:02:03Z");
        check("0001-01-01T00:00:00Z", "zero");
        let layout = "\"2006-01-02T15:04:05Z07:00\"";
        check("", &format!("parsing time \"\" as {layout}: cannot parse \"\" as \"2006\""));
        check(
            "tomorrow",
            &format!(
                "parsing time \"tomorrow\" as {layout}: cannot parse \"tomorrow\" as \"2006\""
            ),
        );
        check(
            "2024-02-29",
            &format!("parsing time \"2024-02-29\" as {layout}: cannot parse \"\" as \"T\""),
        );
        check("2024-13-01T00:00:00Z", "parsing time \"2024-13-01T00:00:00Z\": month out of range");
        check("2023-02-29T00:00:00Z", "parsing time \"2023-02-29T00:00:00Z\": day out of range");
        check("2024-02-29T00:00:00Zx", "parsing time \"2024-02-29T00:00:00Zx\": extra text: \"x\"");
    }

    #[test]
    fn microseconds_need_exactly_six_digits() {
        let check = |input: &str, expected: &str| check(Precision::Micros, input, expected);
        check("2024-02-29T01:02:03.000004Z", "2024-02-29T01:02:03.000004Z");
        check("2024-02-29T01:02:03.500000-01:30", "2024-02-29T02:32:03.500000Z");
        let layout = "\"2006-01-02T15:04:05.000000Z07:00\"";
        check(
            "2024-02-29T01:02:03Z",
            &format!(
                "parsing time \"2024-02-29T01:02:03Z\" as {layout}: cannot parse \"Z\" as \".000000\""
            ),
        );
    }
}
