//! The formats of strings that schemas may ask for.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::LazyLock,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{Kind, Pattern};

/// The formats of strings, without dashes.
const STRINGS: [&str; 24] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
];

/// Whether a format means anything for values of these types; others are ignored.
///
/// The formats of Kubernetes' own names have dashes and are looked up without, so that upstream never
/// finds them.
pub fn is_supported(format: &str, types: &[Kind]) -> bool {
    match types {
        [] | [Kind::String] | [_, _, ..] => is_known(format),
        [Kind::Integer] => matches!(format, "int32" | "int64"),
        [Kind::Number] => matches!(format, "float" | "double"),
        [_] => false,
    }
}

/// Whether it is a format of strings.
pub(super) fn is_known(format: &str) -> bool {
    STRINGS.contains(&format.replace('-', "").as_str())
}

/// Whether a text has a format.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => is_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => ipv4(text).is_some(),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => SSN.matches(text),
        "hexcolor" => HEX_COLOR.matches(text),
        "rgbcolor" => RGB_COLOR.matches(text),
        "byte" => !text.is_empty() && BASE64_STANDARD.decode(text).is_ok(),
        "date" => is_date(text),
        "duration" => is_duration(text),
        "datetime" => is_date_time(text),
        _ => true,
    }
}

static SSN: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"));
static HEX_COLOR: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Pattern> = LazyLock::new(|| {
    let part = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*";
    Pattern::new(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static CREDIT_CARD: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$",
    )
});
static HOST_CHARACTERS: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"^[a-zA-Z0-9\p{S}\p{L}]+$"));
static HOST_TOP: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"^[a-zA-Z\p{L}]+$"));
static TIME: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new("^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
});
static SCALA_DURATION: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::new(
        r"(?i)\d\s*(ns|nano[a-zµ]*|us|µs|micro[a-zµ]*|ms|milli[a-zµ]*|s|sec[a-zµ]*|m|min[a-zµ]*|h|hr|hour[a-zµ]*|d|day[a-zµ]*|w|wk|week[a-zµ]*)([^a-zµ]|$)",
    )
});

/// An absolute URI, or a path.
fn is_uri(text: &str) -> bool {
    let scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let plain = !text.chars().any(|c| c.is_control() || c == ' ') && !text.contains('#');
    let absolute =
        text.split_once(':').is_some_and(|(name, rest)| scheme(name) && !rest.is_empty());
    plain && (text.starts_with('/') || absolute)
}

fn is_email(text: &str) -> bool {
    let address = match (text.find('<'), text.ends_with('>')) {
        (Some(at), true) => &text[at + 1..text.len() - 1],
        _ => text.trim(),
    };
    let atom = |part: &str| {
        !part.is_empty()
            && part.split('.').all(|word| {
                let letter = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c);
                !word.is_empty() && word.chars().all(letter)
            })
    };
    address.rsplit_once('@').is_some_and(|(local, domain)| atom(local) && atom(domain))
}

fn is_hostname(text: &str) -> bool {
    let plain = |part: &str| part.is_empty() || HOST_CHARACTERS.matches(part);
    let length = |part: &str| part.chars().count();
    let shape = match text.rsplit_once('.') {
        None => {
            let inner = text.char_indices().nth(1).map_or("", |(at, _)| &text[at..]);
            let inner = inner.strip_prefix('-').unwrap_or(inner);
            !text.is_empty() && !text.starts_with('-') && plain(inner) && length(inner) <= 62
        }
        Some((labels, top)) => {
            let label = |label: &str| {
                let dashes = label.starts_with('-') || label.ends_with('-');
                !label.is_empty() && !dashes && plain(&label.replace('-', ""))
            };
            HOST_TOP.matches(top) && (2..=63).contains(&length(top)) && labels.split('.').all(label)
        }
    };
    shape && text.len() <= 255 && text.split('.').all(|part| part.len() <= 63)
}

/// An address; zeros in front of numbers are forgiven.
fn ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut parts = text.split('.').map(|part| {
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| part.parse::<u8>().ok()).flatten()
    });
    let bytes = [parts.next()??, parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then(|| bytes.into())
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match (ipv4(address), address.parse::<Ipv6Addr>()) {
        (Some(_), _) => 32,
        (None, Ok(_)) => 128,
        (None, Err(_)) => return false,
    };
    let digits = !bits.is_empty() && bits.bytes().all(|b| b.is_ascii_digit());
    digits && bits.parse::<u32>().is_ok_and(|bits| bits <= most)
}

fn is_mac(text: &str) -> bool {
    let (width, separator) = match text.chars().find(|c| !c.is_ascii_hexdigit()) {
        Some(separator @ (':' | '-')) => (2, separator),
        Some('.') => (4, '.'),
        _ => return false,
    };
    let parts: Vec<&str> = text.split(separator).collect();
    let bytes = parts.len() * width / 2;
    matches!(bytes, 6 | 8 | 20)
        && parts.iter().all(|p| p.len() == width && p.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let mut digits = String::with_capacity(32);
    for (part, character) in text.chars().map(|c| (c == '-', c)) {
        match part {
            true if matches!(digits.len(), 8 | 12 | 16 | 20) => {}
            true => return false,
            false => digits.push(character.to_ascii_lowercase()),
        }
        if digits.len() > 32 {
            return false;
        }
    }
    let dashes = text.matches("--").count() == 0 && !text.ends_with('-');
    let variant = |c: char| "89ab".contains(c);
    dashes
        && digits.len() == 32
        && digits.bytes().all(|b| b.is_ascii_hexdigit())
        && match version {
            None => true,
            Some('3') => digits.as_bytes()[12] == b'3',
            Some(version) => {
                char::from(digits.as_bytes()[12]) == version
                    && variant(char::from(digits.as_bytes()[16]))
            }
        }
}

fn is_isbn10(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    let value = |(at, c): (usize, &char)| match c {
        'X' if at == 9 => Some(10),
        c => c.to_digit(10),
    };
    let values: Option<Vec<u32>> = digits.iter().enumerate().map(value).collect();
    values.is_some_and(|v| {
        let sum: u32 = v.iter().zip(1..).map(|(digit, at)| digit * at).sum();
        v.len() == 10 && sum.is_multiple_of(11)
    })
}

fn is_isbn13(text: &str) -> bool {
    let digits = text.chars().filter(|c| !matches!(c, '-' | ' ')).map(|c| c.to_digit(10));
    let digits: Option<Vec<u32>> = digits.collect();
    digits.is_some_and(|v| {
        let sum: u32 = v.iter().zip([1, 3].iter().cycle()).map(|(d, factor)| d * factor).sum();
        v.len() == 13 && sum.is_multiple_of(10)
    })
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let doubled = |(at, digit): (usize, u32)| match at % 2 {
        0 => digit,
        _ if digit * 2 > 9 => digit * 2 - 9,
        _ => digit * 2,
    };
    let numbers = digits.chars().rev().filter_map(|c| c.to_digit(10)).enumerate();
    CREDIT_CARD.matches(&digits) && numbers.map(doubled).sum::<u32>().is_multiple_of(10)
}

fn is_date(text: &str) -> bool {
    let shape = text.len() == 10
        && text.bytes().enumerate().all(|(at, b)| match at {
            4 | 7 => b == b'-',
            _ => b.is_ascii_digit(),
        });
    shape && text.parse::<jiff::civil::Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let Some((date, time)) = lower.split_once('t') else { return false };
    let time = time.split('t').next().unwrap_or_default();
    is_date(date)
        && TIME.matches(time)
        && time.get(0..2).is_some_and(|hour| hour <= "23")
        && time.get(3..5).is_some_and(|minute| minute <= "59")
        && time.get(6..8).is_some_and(|second| second <= "59")
}

/// A duration as Go writes it, or a number with the name of a unit.
fn is_duration(text: &str) -> bool {
    is_go_duration(text) || SCALA_DURATION.matches(text)
}

fn is_go_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let whole = number.bytes().filter(u8::is_ascii_digit).count();
        if whole == 0 || number.matches('.').count() > 1 {
            return false;
        }
        let units = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        if !units.contains(&&after[..end]) {
            return false;
        }
        rest = &after[end..];
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_have_formats_or_not() {
        for (format, good, bad) in [
            ("ipv4", "192.168.001.1", "192.168.1"),
            ("ipv6", "fe80::1", "1.2.3.4"),
            ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
            ("mac", "00:11:22:33:44:55", "00:11:22:33:44"),
            ("uuid", "C0FFEE00-1234-4123-8123-0123456789ab", "c0ffee"),
            (
                "uuid4",
                "c0ffee00-1234-4123-8123-0123456789ab",
                "c0ffee00-1234-3123-8123-0123456789ab",
            ),
            ("date", "2024-02-29", "2023-02-29"),
            ("date-time", "2024-02-29T10:00:00Z", "2024-02-29 10:00:00Z"),
            ("duration", "1h15m", "soon"),
            ("duration", "3 days", "3 fortnights"),
            ("byte", "aGk=", "a"),
            ("hostname", "example.com", "exa_mple.com"),
            ("email", "a@example.com", "a"),
            ("uri", "https://a/b", "a b"),
            ("hexcolor", "#fff", "#ff"),
            ("rgbcolor", "rgb(1, 2, 255)", "rgb(1,2,256)"),
            ("isbn10", "0321751043", "0321751044"),
            ("isbn13", "978-0321751041", "978-0321751042"),
            ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
            ("ssn", "111-11-1111", "11-1"),
            ("bsonobjectid", "507f1f77bcf86cd799439011", "x"),
        ] {
            assert!(matches(format, good), "{format} {good}");
            assert!(!matches(format, bad), "{format} {bad}");
        }
        assert!(is_supported("int32", &[Kind::Integer]) && !is_supported("int32", &[Kind::String]));
    }

    proptest! {
        #[test]
        fn fuzz_any_text_has_a_format_or_not(text in "\\PC{0,40}|[0-9a-f:./ T+-]{0,40}") {
            for format in STRINGS {
                matches(format, &text);
            }
        }
    }
}
