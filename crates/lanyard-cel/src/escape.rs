//! Names of properties as identifiers.
//!
//! A property may have a name that no expression can spell: `a-b`, `namespace`. Such names are escaped.

use crate::parser::RESERVED;

/// The identifier for a property, or `None` if it has a character that cannot be escaped.
pub fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '_' if rest.peek() == Some(&'_') => {
                rest.next();
                escaped.push_str("__underscores__");
            }
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => escaped.push(c),
            _ => return None,
        }
    }
    Some(escaped)
}

/// Whether a name can be one of a variable.
pub fn is_identifier(name: &str) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(inside) && !RESERVED.contains(&name)
}

/// The property that an identifier stands for, or `None` if it holds an escape that there is none of.
pub fn unescape(escaped: &str) -> Option<String> {
    let mut name = String::with_capacity(escaped.len());
    let mut rest = escaped;
    while let Some(at) = rest.find("__") {
        name.push_str(&rest[..at]);
        let inner = &rest[at + 2..];
        let Some((end, word)) = inner.find('_').map(|end| (end, &inner[..end])) else {
            name.push_str(&rest[at..]);
            return Some(name);
        };
        if end == 0 || !inner[end..].starts_with("__") {
            // Not an escape: an underscore more, or one that stands alone.
            name.push('_');
            rest = &rest[at + 1..];
            continue;
        }
        match word {
            "underscores" => name.push_str("__"),
            "dot" => name.push('.'),
            "dash" => name.push('-'),
            "slash" => name.push('/'),
            word if RESERVED.contains(&word) && escaped.len() == word.len() + 4 => {
                name.push_str(word)
            }
            _ => return None,
        }
        rest = &inner[end + 2..];
    }
    name.push_str(rest);
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_back() {
        let cases = [
            ("a", Some("a")),
            ("a-b", Some("a__dash__b")),
            ("a.b/c", Some("a__dot__b__slash__c")),
            ("namespace", Some("__namespace__")),
            ("a__b", Some("a__underscores__b")),
            ("_a_b_", Some("_a_b_")),
            ("1a", None),
            ("a b", None),
            ("", None),
        ];
        for (name, escaped) in cases {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
            if let Some(escaped) = escaped {
                assert_eq!(unescape(escaped).as_deref(), Some(name), "{escaped}");
            }
        }
        assert_eq!(unescape("a__wrong__b"), None);
        assert_eq!(unescape("x__namespace__"), None);
    }
}
