//! Patterns of schemas: Go's regular expressions on an engine of linear time.
//!
//! Go and Rust read nearly the same syntax. Where they differ in meaning (`\d`, `\w`, `\s` and `\b` know
//! only ASCII in Go, sets have no operators there) the pattern is translated first.

use std::{iter::Peekable, str::Chars, sync::OnceLock};

use regex::bytes::{Regex, RegexBuilder};

/// How large a compiled pattern may be: enough for any real one, too small for a bomb.
const MAX_COMPILED: usize = 1 << 20;

/// How long a pattern may be.
const MAX_LENGTH: usize = 8 << 10;

/// A pattern; compiled when it is first needed. One that cannot be compiled matches nothing.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    /// A pattern.
    pub fn new(text: &str) -> Self {
        Self { text: text.to_owned(), compiled: OnceLock::new() }
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it is found anywhere in a value.
    pub fn matches(&self, value: &str) -> bool {
        let compiled = self.compiled.get_or_init(|| compile(&self.text).ok());
        compiled.as_ref().is_some_and(|regex| regex.is_match(value.as_bytes()))
    }

    /// What is wrong with a pattern, as Go says it.
    pub fn problem(text: &str) -> Option<String> {
        compile(text).err()
    }
}

fn compile(text: &str) -> Result<Regex, String> {
    let failed = |what: &str| format!("error parsing regexp: {what}");
    if text.len() > MAX_LENGTH {
        return Err(failed("expression too large"));
    }
    if let Some(problem) = unclosed(text) {
        return Err(failed(&problem));
    }
    let compiled = RegexBuilder::new(&translate(text))
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(MAX_COMPILED)
        .nest_limit(100)
        .build();
    compiled.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => failed("expression too large"),
        _ => failed(&format!("invalid or unsupported Perl syntax: `{text}`")),
    })
}

/// The mistakes that are made most, in Go's words.
fn unclosed(text: &str) -> Option<String> {
    let (mut open, mut set) = (0_usize, None);
    let mut characters = text.char_indices().peekable();
    let mut repeatable = false;
    while let Some((at, character)) = characters.next() {
        match (character, set) {
            ('\\', _) if characters.next().is_none() => {
                return Some("trailing backslash at end of expression: ``".to_owned());
            }
            ('\\', _) => {}
            ('[', None) => {
                set = Some(at);
                characters.next_if(|(_, next)| *next == '^');
                characters.next_if(|(_, next)| *next == ']');
            }
            (']', Some(_)) => set = None,
            ('(', None) => open += 1,
            (')', None) if open == 0 => return Some(format!("unexpected ): `{text}`")),
            (')', None) => open -= 1,
            ('*' | '+' | '?', None) if !repeatable => {
                let group = character == '?' && text[..at].ends_with('(');
                if !group {
                    return Some(format!("missing argument to repetition operator: `{character}`"));
                }
            }
            _ => {}
        }
        repeatable = !matches!(character, '(' | '|') || set.is_some();
    }
    match (set, open) {
        (Some(at), _) => Some(format!("missing closing ]: `{}`", &text[at..])),
        (None, 1..) => Some(format!("missing closing ): `{text}`")),
        (None, 0) => None,
    }
}

/// The same pattern for our engine.
fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\\' => {
                let Some(escaped) = rest.next() else { break };
                push_escape(&mut out, escaped, false);
            }
            '[' => translate_set(&mut out, &mut rest),
            other => out.push(other),
        }
    }
    out
}

/// A set, after its opening bracket. What our engine takes for operators and nested sets is plain in Go.
fn translate_set(out: &mut String, rest: &mut Peekable<Chars<'_>>) {
    out.push('[');
    if let Some(not) = rest.next_if_eq(&'^') {
        out.push(not);
    }
    if rest.next_if_eq(&']').is_some() {
        out.push_str("\\]");
    }
    // Whether what came last may be the beginning of a range.
    let mut begins = false;
    while let Some(character) = rest.next() {
        match character {
            ']' => {
                out.push(']');
                return;
            }
            '\\' => {
                let Some(escaped) = rest.next() else { return };
                push_escape(out, escaped, true);
                begins = true;
            }
            '[' if rest.peek() == Some(&':') => {
                out.push('[');
                for character in rest.by_ref() {
                    out.push(character);
                    if character == ']' {
                        break;
                    }
                }
                begins = false;
            }
            '-' if begins && rest.peek() != Some(&']') => {
                out.push('-');
                if let Some(end) = rest.next_if(|end| "-[&~".contains(*end)) {
                    out.push('\\');
                    out.push(end);
                }
                begins = false;
            }
            '-' | '[' | '&' | '~' => {
                out.push('\\');
                out.push(character);
                begins = true;
            }
            other => {
                out.push(other);
                begins = true;
            }
        }
    }
}

fn push_escape(out: &mut String, escaped: char, in_set: bool) {
    match (escaped, in_set) {
        ('d', false) => out.push_str("[0-9]"),
        ('d', true) => out.push_str("0-9"),
        ('D', _) => out.push_str("[^0-9]"),
        ('w', false) => out.push_str("[0-9A-Za-z_]"),
        ('w', true) => out.push_str("0-9A-Za-z_"),
        ('W', _) => out.push_str("[^0-9A-Za-z_]"),
        ('s', false) => out.push_str("[\\t\\n\\f\\r ]"),
        ('s', true) => out.push_str("\\t\\n\\f\\r "),
        ('S', _) => out.push_str("[^\\t\\n\\f\\r ]"),
        ('b', false) => out.push_str("(?-u:\\b)"),
        ('B', false) => out.push_str("(?-u:\\B)"),
        (other, _) => {
            out.push('\\');
            out.push(other);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        for (pattern, value, expected) in [
            ("^[a-z]+$", "abc", true),
            ("^[a-z]+$", "aBc", false),
            ("b", "abc", true),
            (r"^\d+$", "12", true),
            (r"^\d+$", "\u{663}", false),
            (r"^[\w.-]+$", "a_1.-", true),
            (r"^\w$", "é", false),
            (r"^[^\s]$", "é", true),
            ("^[[&~-]+$", "[&~-", true),
            ("^[]a]$", "]", true),
            ("^[[:alpha:]]+$", "ab", true),
            ("^[+--]$", ",", true),
            ("^[--a]$", "A", true),
            ("^[a-c-]$", "-", true),
            (r"\bfoo\b", "a foo b", true),
            ("^a.c$", "aéc", true),
            (r"^\p{Greek}$", "\u{3b1}", true),
            ("(unclosed", "(unclosed", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(value), expected, "{pattern} {value}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused_in_gos_words() {
        for (pattern, expected) in [
            ("(a", "error parsing regexp: missing closing ): `(a`"),
            ("a)", "error parsing regexp: unexpected ): `a)`"),
            ("x[a", "error parsing regexp: missing closing ]: `[a`"),
            ("*a", "error parsing regexp: missing argument to repetition operator: `*`"),
            ("a\\", "error parsing regexp: trailing backslash at end of expression: ``"),
            ("(?=a)", "error parsing regexp: invalid or unsupported Perl syntax: `(?=a)`"),
            ("((a{1000}){1000}){1000}", "error parsing regexp: expression too large"),
        ] {
            assert_eq!(Pattern::problem(pattern).as_deref(), Some(expected));
        }
        assert_eq!(Pattern::problem("^(?i)a+?(?:b|c)*$"), None);
    }

    proptest! {
        #[test]
        fn fuzz_any_text_is_a_pattern_or_refused(
            text in "(\\PC|[\\[\\](){}*+?|^$\\\\.a-]){0,30}",
            value in "\\PC{0,10}",
        ) {
            Pattern::new(&text).matches(&value);
            Pattern::problem(&text);
        }
    }
}
