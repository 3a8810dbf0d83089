//! The words of Go's JSON scanner for what serde_json complains about: clients know them.
//!
//! No more than one character of the body is ever shown.

use super::tree::{TOO_DEEP, TOO_LARGE};
use crate::field::quoted;

/// The text of Go's scanner for what serde_json found.
pub(super) fn go_text(error: &serde_json::Error, body: &[u8]) -> String {
    let found = error.to_string();
    if error.is_eof() {
        return "unexpected end of JSON input".into();
    }
    if let Some((before, _)) = found.split_once(TOO_DEEP) {
        return format!("{before}{TOO_DEEP}");
    }
    if found.starts_with(TOO_LARGE) {
        return TOO_LARGE.into();
    }
    if found.starts_with("invalid unicode") {
        return "invalid UTF-8 in string literal".into();
    }
    let Some((before, character)) = place_of(error, body) else { return found };
    let place = match PLACES.iter().find(|(start, _)| found.starts_with(start)) {
        Some((_, place)) => (*place).to_owned(),
        None if found.starts_with("trailing comma") && character == '}' => {
            "looking for beginning of object key string".into()
        }
        None if found.starts_with("trailing comma") => "looking for beginning of value".into(),
        None if found.starts_with("expected ident") => literal_place(before),
        None if found.starts_with("invalid number") => number_place(before).into(),
        None => return found,
    };
    format!("invalid character {} {place}", quoted_character(character))
}

/// Where serde_json's errors happen, in Go's words.
const PLACES: &[(&str, &str)] = &[
    ("expected value", "looking for beginning of value"),
    ("key must be a string", "looking for beginning of object key string"),
    ("expected `:`", "after object key"),
    ("expected `,` or `}`", "after object key:value pair"),
    ("expected `,` or `]`", "after array element"),
    ("trailing characters", "after top-level value"),
    ("invalid escape", "in string escape code"),
    ("control character", "in string literal"),
];

/// The character that an error is about, and what stands before it on its line.
fn place_of<'a>(error: &serde_json::Error, body: &'a [u8]) -> Option<(&'a [u8], char)> {
    let (line, column) = (error.line().checked_sub(1)?, error.column());
    let mut lines = body.split(|&byte| byte == b'\n');
    // A line break counts as the beginning of the line after it.
    let Some(column) = column.checked_sub(1) else {
        return Some((lines.nth(line.checked_sub(1)?)?, '\n'));
    };
    let (before, rest) = lines.nth(line)?.split_at_checked(column)?;
    // A byte that is no UTF-8 is shown as the character of its number.
    let valid = rest.utf8_chunks().next()?.valid().chars().next();
    Some((before, valid.or_else(|| rest.first().copied().map(char::from))?))
}

/// Where in `true`, `false` or `null` something else stands.
fn literal_place(before: &[u8]) -> String {
    for literal in ["true", "false", "null"] {
        for length in (1..literal.len()).rev() {
            if before.ends_with(&literal.as_bytes()[..length]) {
                let expected = &literal[length..=length];
                return format!("in literal {literal} (expecting '{expected}')");
            }
        }
    }
    "in literal".into()
}

fn number_place(before: &[u8]) -> &'static str {
    match before {
        [.., b'.'] => "after decimal point in numeric literal",
        [.., b'e' | b'E'] | [.., b'e' | b'E', b'+' | b'-'] => "in exponent of numeric literal",
        _ => "in numeric literal",
    }
}

/// A character in single quotes, as Go shows it.
fn quoted_character(character: char) -> String {
    match character {
        '\'' => r"'\''".into(),
        '"' => "'\"'".into(),
        other => {
            let quoted = quoted(other.encode_utf8(&mut [0; 4]));
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}
