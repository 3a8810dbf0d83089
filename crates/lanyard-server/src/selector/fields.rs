//! Field selectors: `metadata.name=x,type!=Opaque`, with `\` escaping `\`, `,` and `=`.

use std::fmt;

use super::MAX_REQUIREMENTS;

/// A conjunction of field requirements; the empty one selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// All of these must hold.
    pub requirements: Vec<FieldRequirement>,
}

/// One comparison of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The field, e.g. `metadata.name`.
    pub field: String,
    /// Equal or not.
    pub op: FieldOp,
    /// The unescaped value.
    pub value: String,
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOp {
    /// `=` or `==`
    Equals,
    /// `!=`
    NotEquals,
}

impl FieldSelector {
    /// Reads the text of a `fieldSelector` query parameter.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut requirements = Vec::new();
        for term in terms(text) {
            if term.is_empty() {
                continue;
            }
            requirements.push(requirement(term, text)?);
            if requirements.len() > MAX_REQUIREMENTS {
                return Err(format!("a selector has {MAX_REQUIREMENTS} requirements at most"));
            }
        }
        Ok(Self { requirements })
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// The value that `field` must equal, if the selector says so.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.requirements
            .iter()
            .find(|r| r.field == field && r.op == FieldOp::Equals)
            .map(|r| r.value.as_str())
    }

    /// Whether an object with these field values is selected.
    pub fn matches<'a>(&self, value_of: impl Fn(&str) -> &'a str) -> bool {
        self.requirements
            .iter()
            .all(|r| (value_of(&r.field) == r.value) == (r.op == FieldOp::Equals))
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, r) in self.requirements.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let op = if r.op == FieldOp::Equals { "=" } else { "!=" };
            let value = r.value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
            write!(f, "{comma}{}{op}{value}", r.field)?;
        }
        Ok(())
    }
}

/// Splits at commas that are not escaped.
fn terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn requirement(term: &str, whole: &str) -> Result<FieldRequirement, String> {
    let invalid = || format!("invalid selector: '{whole}'; can't understand '{term}'");
    let at = term.find(['=', '!']).ok_or_else(invalid)?;
    let (field, rest) = term.split_at(at);
    let (op, value) = if let Some(value) = rest.strip_prefix("!=") {
        (FieldOp::NotEquals, value)
    } else if let Some(value) = rest.strip_prefix("==") {
        (FieldOp::Equals, value)
    } else if let Some(value) = rest.strip_prefix('=') {
        (FieldOp::Equals, value)
    } else {
        return Err(invalid());
    };
    Ok(FieldRequirement { field: field.to_owned(), op, value: unescape(value)? })
}

const BAD_VALUE: &str = "invalid field selector";

fn unescape(value: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => plain.push(c),
                Some(c) => {
                    return Err(format!("{BAD_VALUE}: invalid escape sequence: \\{c}"));
                }
                None => return Err(format!("{BAD_VALUE}: invalid escape sequence: \\")),
            },
            ',' | '=' => {
                return Err(format!("{BAD_VALUE}: unescaped character in value: {c}"));
            }
            c => plain.push(c),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn selectors_read_back_as_written() {
        for text in ["", "a=b", "a!=b", "a=b,c=d", r"a=x\,y\=z\\"] {
            assert_eq!(FieldSelector::parse(text).unwrap().to_string(), text, "{text}");
        }
        assert_eq!(FieldSelector::parse("a==b").unwrap().to_string(), "a=b");
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["a", "a=b=c", r"a=\x", r"a=b\", "a>b", "a!b"] {
            assert!(FieldSelector::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn all_requirements_must_hold() {
        let selector = FieldSelector::parse("name=x,type!=y").unwrap();
        let matches = |name, ty| selector.matches(|field| if field == "name" { name } else { ty });
        assert!(matches("x", "z"));
        assert!(!matches("x", "y"));
        assert!(!matches("w", "z"));
    }

    proptest! {
        #[test]
        fn fuzz_any_text_is_a_selector_or_refused(text in "([a-c.]|[=!,]|\\\\|é){0,20}") {
            if let Ok(selector) = FieldSelector::parse(&text) {
                let written = selector.to_string();
                prop_assert_eq!(FieldSelector::parse(&written).unwrap(), selector, "{}", written);
            }
        }

        #[test]
        fn fuzz_any_value_can_be_selected(value in any::<String>()) {
            let requirement =
                FieldRequirement { field: "a".into(), op: FieldOp::Equals, value: value.clone() };
            let selector = FieldSelector { requirements: vec![requirement] };
            let read = FieldSelector::parse(&selector.to_string()).unwrap();
            prop_assert_eq!(read.exact("a"), Some(value.as_str()));
            prop_assert!(read.matches(|_| &value));
        }
    }
}
