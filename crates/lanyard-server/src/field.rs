//! Validation problems of single fields, worded as Kubernetes words them.
//!
//! Clients and tests match these texts, so each kind of problem has one constructor and one format.

use std::fmt;

use serde_json::Value;

/// One problem of one field of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Where, e.g. `metadata.labels[0].name`.
    pub path: String,
    /// What kind of problem.
    pub kind: FieldErrorKind,
    /// The part of the message after the path, e.g. `Required value: name is needed`.
    pub body: String,
}

/// The kinds of field problems; the name goes into `Status.details.causes[].reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum FieldErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    InternalError,
    TypeInvalid,
}

impl FieldError {
    /// The field must be there.
    pub fn required(path: impl Into<String>, detail: impl AsRef<str>) -> Self {
        Self::with_detail(path, FieldErrorKind::Required, "Required value", detail.as_ref())
    }

    /// The field has a value that breaks a rule.
    pub fn invalid(path: impl Into<String>, value: &Value, detail: impl AsRef<str>) -> Self {
        let head = format!("Invalid value: {}", shown(value));
        Self::with_detail(path, FieldErrorKind::Invalid, &head, detail.as_ref())
    }

    /// The field has a string that breaks a rule.
    pub fn invalid_str(path: impl Into<String>, value: &str, detail: impl AsRef<str>) -> Self {
        let head = format!("Invalid value: {}", quoted(value));
        Self::with_detail(path, FieldErrorKind::Invalid, &head, detail.as_ref())
    }

    /// The field has a value that breaks a rule and that is already written out as JSON.
    pub fn invalid_json(path: impl Into<String>, json: &str, detail: impl AsRef<str>) -> Self {
        let head = format!("Invalid value: {json}");
        Self::with_detail(path, FieldErrorKind::Invalid, &head, detail.as_ref())
    }

    /// The field has a value outside of a closed set.
    pub fn not_supported(path: impl Into<String>, value: &str, supported: &[&str]) -> Self {
        Self::not_supported_json(path, &quoted(value), supported)
    }

    /// The field has a value outside of a closed set that is already written out as JSON.
    pub fn not_supported_json(path: impl Into<String>, json: &str, supported: &[&str]) -> Self {
        let head = format!("Unsupported value: {json}");
        let names: Vec<_> = supported.iter().map(|s| quoted(s)).collect();
        let detail = if names.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", names.join(", "))
        };
        Self::with_detail(path, FieldErrorKind::NotSupported, &head, &detail)
    }

    /// The value stands elsewhere already.
    pub fn duplicate(path: impl Into<String>, value: &Value) -> Self {
        let head = format!("Duplicate value: {}", shown(value));
        Self::with_detail(path, FieldErrorKind::Duplicate, &head, "")
    }

    /// The value, already written out as JSON, stands elsewhere already; why that is wrong.
    pub fn duplicate_json(path: impl Into<String>, json: &str, detail: impl AsRef<str>) -> Self {
        let head = format!("Duplicate value: {json}");
        Self::with_detail(path, FieldErrorKind::Duplicate, &head, detail.as_ref())
    }

    /// The field may not be set, or not changed, here.
    pub fn forbidden(path: impl Into<String>, detail: impl AsRef<str>) -> Self {
        Self::with_detail(path, FieldErrorKind::Forbidden, "Forbidden", detail.as_ref())
    }

    /// The value is longer than `limit` bytes.
    pub fn too_long(path: impl Into<String>, limit: usize) -> Self {
        let bytes = if limit == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {limit} {bytes}");
        Self::with_detail(path, FieldErrorKind::TooLong, "Too long", &detail)
    }

    /// The list has more than `limit` items.
    pub fn too_many(path: impl Into<String>, actual: usize, limit: usize) -> Self {
        let head = format!("Too many: {actual}");
        let items = if limit == 1 { "item" } else { "items" };
        let detail = format!("must have at most {limit} {items}");
        Self::with_detail(path, FieldErrorKind::TooMany, &head, &detail)
    }

    /// The value refers to something that is not there.
    pub fn not_found(path: impl Into<String>, value: &str) -> Self {
        let head = format!("Not found: {}", quoted(value));
        Self::with_detail(path, FieldErrorKind::NotFound, &head, "")
    }

    /// The value has the wrong JSON type.
    pub fn type_invalid(path: impl Into<String>, value: &Value, detail: impl AsRef<str>) -> Self {
        let head = format!("Invalid value: {}", shown(value));
        Self::with_detail(path, FieldErrorKind::TypeInvalid, &head, detail.as_ref())
    }

    /// The server failed to check the field.
    pub fn internal(path: impl Into<String>, detail: impl AsRef<str>) -> Self {
        Self::with_detail(path, FieldErrorKind::InternalError, "Internal error", detail.as_ref())
    }

    fn with_detail(
        path: impl Into<String>,
        kind: FieldErrorKind,
        head: &str,
        detail: &str,
    ) -> Self {
        let body = if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") };
        Self { path: path.into(), kind, body }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.body)
    }
}

impl FieldErrorKind {
    /// The machine-readable reason in `Status.details.causes`.
    pub fn cause(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::InternalError => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

/// A string as Go's `%q` shows it: in quotes, with everything that does not print escaped.
pub fn quoted(text: &str) -> String {
    use fmt::Write;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            printable if is_printable(printable) => out.push(printable),
            other => {
                let code = u32::from(other);
                let _ = match code {
                    0..0x80 => write!(out, "\\x{code:02x}"),
                    0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push('"');
    out
}

/// JSON as Go's encoder writes it: with the characters that HTML knows escaped.
pub fn json_text(value: &Value) -> String {
    let text = value.to_string();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    out
}

/// Whether Go calls a character printable: letters, marks, numbers, punctuation, symbols, and of all
/// spaces only the ASCII one.
pub(crate) fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return !character.is_ascii_control();
    }
    // The standard library escapes by the same rule, marks apart when they come first.
    let mut after_a_letter = String::from("a");
    after_a_letter.push(character);
    after_a_letter.escape_debug().nth(1) == Some(character)
}

/// A value as upstream shows it: strings as `%q`, everything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        other => json_text(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_are_quoted_as_go_quotes_them() {
        let check = |text: &str, expected: &str| assert_eq!(quoted(text), expected);
        check("plain text", r#""plain text""#);
        check("a\"b\\c", r#""a\"b\\c""#);
        check("\u{7}\u{8}\u{c}\n\r\t\u{b}", r#""\a\b\f\n\r\t\v""#);
        check("\u{0}\u{1b}\u{7f}", r#""\x00\x1b\x7f""#);
        check("é日本<&>", r#""é日本<&>""#);
        check("\u{a0}\u{200b}\u{feff}", r#""\u00a0\u200b\ufeff""#);
        check("\u{e0001}", r#""\U000e0001""#);
    }

    #[test]
    fn problems_read_as_upstream_words_them() {
        let check = |error: FieldError, expected: &str| assert_eq!(error.to_string(), expected);
        check(FieldError::required("a.b", ""), "a.b: Required value");
        check(FieldError::required("a", "why"), "a: Required value: why");
        check(FieldError::invalid("a", &json!(3), "bad"), "a: Invalid value: 3: bad");
        check(FieldError::invalid("a", &json!("x"), "bad"), "a: Invalid value: \"x\": bad");
        check(
            FieldError::invalid("a", &json!({"k": ["<"]}), "bad"),
            r#"a: Invalid value: {"k":["\u003c"]}: bad"#,
        );
        check(
            FieldError::not_supported("a", "x", &["p", "q"]),
            r#"a: Unsupported value: "x": supported values: "p", "q""#,
        );
        check(FieldError::duplicate("a", &json!("x")), r#"a: Duplicate value: "x""#);
        check(FieldError::forbidden("a", "why"), "a: Forbidden: why");
        check(FieldError::too_long("a", 1), "a: Too long: may not be more than 1 byte");
        check(FieldError::too_long("a", 9), "a: Too long: may not be more than 9 bytes");
        check(FieldError::too_many("a", 3, 1), "a: Too many: 3: must have at most 1 item");
        check(FieldError::not_found("a", "x"), r#"a: Not found: "x""#);
        check(FieldError::internal("a", "boom"), "a: Internal error: boom");
    }
}
