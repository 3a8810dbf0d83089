//! The formats of names, label keys and label values, with upstream's sentences about them.

use crate::resource::NameRule;

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

/// What is wrong with a name, by the rule of its kind.
pub fn validate_name(rule: NameRule, name: &str) -> Vec<String> {
    match rule {
        NameRule::DnsSubdomain => dns_subdomain(name, "characters"),
        NameRule::DnsLabel => dns_label(name),
        NameRule::Dns1035Label => dns1035_label(name),
        NameRule::PathSegment => path_segment(name),
    }
}

/// What is wrong with the beginning of a name that the server will complete.
pub(super) fn validate_name_prefix(rule: NameRule, prefix: &str) -> Vec<String> {
    if rule == NameRule::PathSegment {
        return path_segment_parts(prefix);
    }
    // Something is appended, so a dash at the end is no end; upstream swaps two characters for it.
    let masked = match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut masked: String = rest.to_owned();
            masked.pop();
            masked.push('a');
            masked
        }
        _ => prefix.to_owned(),
    };
    validate_name(rule, &masked)
}

/// What is wrong with the key of a label: a name with an optional DNS prefix.
pub fn validate_label_key(key: &str) -> Vec<String> {
    let expression =
        regex_text(LABEL_KEY_RULE, LABEL_KEY_FORMAT, &["MyName", "my.name", "123-abc"]);
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {expression} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
    };
    let mut problems = match prefix {
        None => Vec::new(),
        Some("") => vec!["prefix part must be non-empty".to_owned()],
        Some(prefix) => dns_subdomain(prefix, "bytes")
            .into_iter()
            .map(|problem| format!("prefix part {problem}"))
            .collect(),
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".into());
    } else if name.len() > LABEL_MAX {
        problems.push(format!("name part {}", too_long(LABEL_MAX, "bytes")));
    }
    if !is_label_name(name) {
        problems.push(format!("name part {expression}"));
    }
    problems
}

/// What is wrong with the value of a label.
pub fn validate_label_value(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > LABEL_MAX {
        problems.push(too_long(LABEL_MAX, "bytes"));
    }
    if !value.is_empty() && !is_label_name(value) {
        problems.push(regex_text(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
             '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    problems
}

/// What is wrong with a key of a ConfigMap or Secret.
pub(super) fn validate_data_key(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if key.len() > SUBDOMAIN_MAX {
        problems.push(too_long(SUBDOMAIN_MAX, "characters"));
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if key.is_empty() || !key.bytes().all(allowed) {
        problems.push(regex_text(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match key {
        "." => problems.push("must not be '.'".into()),
        ".." => problems.push("must not be '..'".into()),
        _ if key.starts_with("..") => problems.push("must not start with '..'".into()),
        _ => {}
    }
    problems
}

/// The format of an RFC 1123 subdomain; `unit` is what its length is counted in.
pub(super) fn dns_subdomain(name: &str, unit: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > SUBDOMAIN_MAX {
        problems.push(too_long(SUBDOMAIN_MAX, unit));
    }
    if !is_dns_subdomain(name) {
        problems.push(regex_text(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
             '.', and must start and end with an alphanumeric character",
            r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["example.com"],
        ));
    }
    problems
}

pub(super) fn dns_label(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > LABEL_MAX {
        problems.push(too_long(LABEL_MAX, "characters"));
    }
    if is_dns_label(name) {
        return problems;
    }
    problems.push(if is_dns_subdomain(name) {
        "must not contain dots".into()
    } else {
        regex_text(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
             must start and end with an alphanumeric character",
            "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "123-abc"],
        )
    });
    problems
}

fn dns1035_label(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > LABEL_MAX {
        problems.push(too_long(LABEL_MAX, "characters"));
    }
    if !is_dns_label(name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        problems.push(regex_text(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
             alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    problems
}

/// A name that fits between two slashes of a path.
fn path_segment(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => path_segment_parts(name),
    }
}

fn path_segment_parts(name: &str) -> Vec<String> {
    ["/", "%"]
        .iter()
        .filter(|part| name.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

fn is_dns_subdomain(name: &str) -> bool {
    name.split('.').all(is_dns_label)
}

fn is_dns_label(name: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    framed(name.as_bytes(), alphanumeric, |byte| alphanumeric(byte) || *byte == b'-')
}

fn is_label_name(name: &str) -> bool {
    framed(name.as_bytes(), u8::is_ascii_alphanumeric, |byte| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
    })
}

/// Whether the first and last byte are of one class and all bytes of another; not empty.
fn framed(text: &[u8], ends: impl Fn(&u8) -> bool, all: impl Fn(&u8) -> bool) -> bool {
    text.first().is_some_and(&ends) && text.last().is_some_and(&ends) && text.iter().all(all)
}

const LABEL_KEY_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start \
                              and end with an alphanumeric character";
const LABEL_KEY_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

fn too_long(limit: usize, unit: &str) -> String {
    format!("must be no more than {limit} {unit}")
}

/// A rule with examples and the regular expression that upstream checks it by.
fn regex_text(rule: &str, expression: &str, examples: &[&str]) -> String {
    let examples: Vec<_> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{rule} (e.g. {}regex used for validation is '{expression}')", examples.join(" or "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
        characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
        'example.com', regex used for validation is \
        '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
        or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', \
        regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

    #[test]
    fn names_follow_the_rule_of_their_kind() {
        let check = |rule, name: &str, expected: &[&str]| {
            assert_eq!(validate_name(rule, name), expected, "{rule:?} {name:?}");
        };
        check(NameRule::DnsSubdomain, "a.b-c.d1", &[]);
        check(NameRule::DnsSubdomain, "A", &[SUBDOMAIN]);
        check(NameRule::DnsSubdomain, "a..b", &[SUBDOMAIN]);
        check(NameRule::DnsSubdomain, &"a".repeat(254), &["must be no more than 253 characters"]);
        check(NameRule::DnsLabel, "my-name", &[]);
        check(NameRule::DnsLabel, "my.name", &["must not contain dots"]);
        check(NameRule::DnsLabel, "-x", &[LABEL]);
        check(NameRule::PathSegment, "system:node:a b", &[]);
        check(NameRule::PathSegment, "..", &["may not be '..'"]);
        check(NameRule::PathSegment, "a/b%", &["may not contain '/'", "may not contain '%'"]);
        assert_eq!(validate_name(NameRule::Dns1035Label, "1a").len(), 1);
    }

    #[test]
    fn the_beginning_of_a_name_may_end_with_a_dash() {
        assert!(validate_name_prefix(NameRule::DnsSubdomain, "ab-").is_empty());
        assert_eq!(validate_name_prefix(NameRule::DnsSubdomain, "-").len(), 1);
        assert!(validate_name_prefix(NameRule::PathSegment, "..").is_empty());
    }

    #[test]
    fn label_keys_have_a_prefix_and_a_name() {
        let name_part = "name part must consist of alphanumeric characters, '-', '_' or '.', and must \
            start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', \
            regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        let check = |key: &str, expected: &[&str]| {
            assert_eq!(validate_label_key(key), expected, "{key:?}");
        };
        check("app", &[]);
        check("example.com/My_Name.1", &[]);
        check("", &["name part must be non-empty", name_part]);
        check("/a", &["prefix part must be non-empty"]);
        check("_a", &[name_part]);
        check("Ex.com/a", &[&format!("prefix part {SUBDOMAIN}")]);
        assert!(validate_label_key("a/b/c")[0].starts_with("a valid label key must consist of"));
        check(&"a".repeat(64), &["name part must be no more than 63 bytes"]);
    }

    #[test]
    fn label_values_may_be_empty() {
        assert!(validate_label_value("").is_empty());
        assert!(validate_label_value("My_Value.1").is_empty());
        assert_eq!(validate_label_value(&"a".repeat(64)), ["must be no more than 63 bytes"]);
        assert!(
            validate_label_value("a b")[0].starts_with("a valid label must be an empty string")
        );
    }

    #[test]
    fn data_keys_are_no_paths() {
        assert!(validate_data_key("tls.crt").is_empty());
        assert_eq!(validate_data_key(".."), ["must not be '..'"]);
        assert_eq!(validate_data_key("..a"), ["must not start with '..'"]);
        assert!(validate_data_key("a/b")[0].starts_with("a valid config key must consist"));
    }
}
