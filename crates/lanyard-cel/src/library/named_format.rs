//! Named formats of text: names, labels, dates.

use std::sync::LazyLock;

use regex::Regex;

use super::{Function, Inner, Opaque, url::Url};
use crate::error::EvalError;
use crate::time;
use crate::value::Value;

/// A format: how it is called, how long its pattern counts as, and what is wrong with a text.
#[derive(Debug)]
pub(crate) struct NamedFormat {
    pub(crate) name: &'static str,
    pub(crate) cost: u64,
    check: fn(&str) -> Vec<String>,
}

pub(super) fn function(name: &str) -> Option<Function> {
    // One function per format, so that each is a plain pointer.
    Some(match name {
        "format.named" => |_, args| match args {
            [Value::String(name)] => {
                Ok(match FORMATS.iter().find(|format| format.name == &**name) {
                    Some(format) => Value::some(Inner::Format(format).into()),
                    None => Value::Optional(None),
                })
            }
            _ => Err(EvalError::no_overload("format.named", args)),
        },
        "validate" => |_, args| match args {
            [Value::Opaque(Opaque(Inner::Format(format))), Value::String(text)] => {
                let wrong = (format.check)(text);
                Ok(if wrong.is_empty() {
                    Value::Optional(None)
                } else {
                    Value::some(Value::strings(wrong))
                })
            }
            _ => Err(EvalError::no_overload("validate", args)),
        },
        "format.dns1123Label" => |_, _| Ok(Inner::Format(&FORMATS[0]).into()),
        "format.dns1123Subdomain" => |_, _| Ok(Inner::Format(&FORMATS[1]).into()),
        "format.dns1035Label" => |_, _| Ok(Inner::Format(&FORMATS[2]).into()),
        "format.qualifiedName" => |_, _| Ok(Inner::Format(&FORMATS[3]).into()),
        "format.dns1123LabelPrefix" => |_, _| Ok(Inner::Format(&FORMATS[4]).into()),
        "format.dns1123SubdomainPrefix" => |_, _| Ok(Inner::Format(&FORMATS[5]).into()),
        "format.dns1035LabelPrefix" => |_, _| Ok(Inner::Format(&FORMATS[6]).into()),
        "format.labelValue" => |_, _| Ok(Inner::Format(&FORMATS[7]).into()),
        "format.uri" => |_, _| Ok(Inner::Format(&FORMATS[8]).into()),
        "format.uuid" => |_, _| Ok(Inner::Format(&FORMATS[9]).into()),
        "format.byte" => |_, _| Ok(Inner::Format(&FORMATS[10]).into()),
        "format.date" => |_, _| Ok(Inner::Format(&FORMATS[11]).into()),
        "format.datetime" => |_, _| Ok(Inner::Format(&FORMATS[12]).into()),
        _ => return None,
    })
}

static FORMATS: [NamedFormat; 13] = [
    NamedFormat { name: "dns1123Label", cost: 30, check: label },
    NamedFormat { name: "dns1123Subdomain", cost: 60, check: subdomain },
    NamedFormat { name: "dns1035Label", cost: 30, check: label_1035 },
    NamedFormat { name: "qualifiedName", cost: 60, check: qualified_name },
    NamedFormat { name: "dns1123LabelPrefix", cost: 30, check: |text| label(&mask(text)) },
    NamedFormat { name: "dns1123SubdomainPrefix", cost: 60, check: |text| subdomain(&mask(text)) },
    NamedFormat { name: "dns1035LabelPrefix", cost: 30, check: |text| label_1035(&mask(text)) },
    NamedFormat { name: "labelValue", cost: 40, check: label_value },
    NamedFormat {
        name: "uri",
        cost: 1103,
        check: |text| Url::parse(text).err().into_iter().collect(),
    },
    NamedFormat {
        name: "uuid",
        cost: 70,
        check: |text| unless(UUID.is_match(text), "does not match the UUID format"),
    },
    NamedFormat {
        name: "byte",
        cost: 84,
        check: |text| {
            use base64::Engine;
            let decoded = base64::engine::general_purpose::STANDARD.decode(text);
            unless(!text.is_empty() && decoded.is_ok(), "invalid base64")
        },
    },
    NamedFormat {
        name: "date",
        cost: 71,
        check: |text| unless(time::parse_date(text).is_some(), "invalid date"),
    },
    NamedFormat {
        name: "datetime",
        cost: 71,
        check: |text| {
            unless(time::parse_timestamp(&text.to_ascii_uppercase()).is_some(), "invalid datetime")
        },
    },
];

fn unless(valid: bool, message: &str) -> Vec<String> {
    if valid { Vec::new() } else { vec![message.to_owned()] }
}

/// A prefix may end in a dash, as something follows it.
fn mask(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() && text.is_ascii() => {
            format!("{}a", &rest[..rest.len() - 1])
        }
        _ => text.to_owned(),
    }
}

/// Whether a name is one of a service account.
pub(super) fn is_subdomain(text: &str) -> bool {
    subdomain(text).is_empty()
}

/// Whether a name is one of a namespace.
pub(super) fn is_label(text: &str) -> bool {
    label(text).is_empty()
}

fn too_long(text: &str, limit: usize) -> Option<String> {
    (text.len() > limit).then(|| format!("must be no more than {limit} bytes"))
}

fn mismatch(message: &str, pattern: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}'")).collect();
    let examples = examples.join(",  or ");
    format!("{message} (e.g. {examples}, regex used for validation is '{pattern}')")
}

fn label(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 63).into_iter().collect();
    if !LABEL.is_match(text) {
        wrong.push(match SUBDOMAIN.is_match(text) {
            true => "must not contain dots".to_owned(),
            false => mismatch(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
                 and end with an alphanumeric character",
                LABEL_PATTERN,
                &["my-name", "123-abc"],
            ),
        });
    }
    wrong
}

fn subdomain(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 253).into_iter().collect();
    if !SUBDOMAIN.is_match(text) {
        wrong.push(mismatch(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
             start and end with an alphanumeric character",
            &format!("{LABEL_PATTERN}(\\.{LABEL_PATTERN})*"),
            &["example.com"],
        ));
    }
    wrong
}

fn label_1035(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 63).into_iter().collect();
    if !LABEL_1035.is_match(text) {
        wrong.push(mismatch(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character",
            LABEL_1035_PATTERN,
            &["my-name", "abc-123"],
        ));
    }
    wrong
}

fn qualified_name(text: &str) -> Vec<String> {
    let part = mismatch(NAME_MESSAGE, NAME_PATTERN, &["MyName", "my.name", "123-abc"]);
    let mut wrong = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            match prefix.is_empty() {
                true => wrong.push("prefix part must be non-empty".to_owned()),
                false => wrong.extend(
                    subdomain(prefix).into_iter().map(|message| format!("prefix part {message}")),
                ),
            }
            name
        }
        _ => {
            let message = format!(
                "a valid label key {part} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            );
            return vec![message];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if let Some(message) = too_long(name, 63) {
        wrong.push(format!("name part {message}"));
    }
    if !NAME.is_match(name) {
        wrong.push(format!("name part {part}"));
    }
    wrong
}

fn label_value(text: &str) -> Vec<String> {
    let mut wrong: Vec<String> = too_long(text, 63).into_iter().collect();
    if !text.is_empty() && !NAME.is_match(text) {
        wrong.push(mismatch(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character",
            &format!("({NAME_PATTERN})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    wrong
}

const LABEL_PATTERN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_1035_PATTERN: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const NAME_PATTERN: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const NAME_MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// The patterns are constants and valid.
fn pattern(text: &str) -> Regex {
    Regex::new(&format!("^(?:{text})$")).expect("a constant pattern that a test compiles")
}

static LABEL: LazyLock<Regex> = LazyLock::new(|| pattern(LABEL_PATTERN));
static LABEL_1035: LazyLock<Regex> = LazyLock::new(|| pattern(LABEL_1035_PATTERN));
static SUBDOMAIN: LazyLock<Regex> =
    LazyLock::new(|| pattern(&format!("{LABEL_PATTERN}(\\.{LABEL_PATTERN})*")));
static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(NAME_PATTERN));
static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern("(?i)[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_tells_good_from_bad() {
        let cases = [
            ("dns1123Label", "a-b", "A.b"),
            ("dns1123Subdomain", "a.b", "a..b"),
            ("dns1035Label", "a1", "1a"),
            ("qualifiedName", "example.com/My_Name", "/x"),
            ("dns1123LabelPrefix", "a-", "-a"),
            ("dns1123SubdomainPrefix", "a.b-", "."),
            ("dns1035LabelPrefix", "a-", "1b-"),
            ("labelValue", "", "-"),
            ("uri", "http://example.com", "x y"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000", "123"),
            ("byte", "aGk=", "a"),
            ("date", "2020-01-02", "2020-1-2"),
            ("datetime", "2020-01-02T03:04:05Z", "2020-01-02"),
        ];
        for (format, (name, good, bad)) in FORMATS.iter().zip(cases) {
            assert_eq!(format.name, name);
            assert_eq!((format.check)(good), [] as [&str; 0], "{name}");
            assert!(!(format.check)(bad).is_empty(), "{name}");
        }
    }
}
