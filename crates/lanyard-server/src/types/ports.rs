//! Ports of containers and services: their numbers, names and protocols.

use serde_json::Value;

use super::path::Path;
use crate::field::FieldError;

/// The protocols that a port may have.
pub(super) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";

/// The problem of a number that is no port.
pub(super) fn validate_port_number(port: i64, path: impl Into<String>) -> Option<FieldError> {
    let good = (1..=65535).contains(&port);
    (!good).then(|| FieldError::invalid(path, &port.into(), PORT_RANGE))
}

/// What is wrong with the name of a port.
pub(super) fn validate_port_name(name: &str) -> Vec<&'static str> {
    let mut problems = Vec::new();
    if name.len() > 15 {
        problems.push("must be no more than 15 characters");
    }
    let charset = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(charset) {
        problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        problems.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        problems.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        problems.push("must not begin or end with a hyphen");
    }
    problems
}

/// The problems of a port that is given by number or by name.
pub(super) fn validate_port(port: &Value, path: &Path) -> Vec<FieldError> {
    match port {
        Value::String(name) => validate_port_name(name)
            .into_iter()
            .map(|problem| FieldError::invalid_str(path, name, problem))
            .collect(),
        number => validate_port_number(number.as_i64().unwrap_or(0), path).into_iter().collect(),
    }
}

/// The problem of a protocol.
pub(super) fn validate_protocol(protocol: &str, path: &Path) -> Option<FieldError> {
    match protocol {
        "" => Some(FieldError::required(path, "")),
        known if PROTOCOLS.contains(&known) => None,
        other => Some(FieldError::not_supported(path, other, &PROTOCOLS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ports_are_short_and_have_a_letter() {
        let check = |name: &str, problems: usize| {
            assert_eq!(validate_port_name(name).len(), problems, "{name}");
        };
        check("http", 0);
        check("80-a", 0);
        check("", 2);
        check("80", 1);
        check("a--b", 1);
        check("-a", 1);
        check("A", 2);
        check("abcdefghijklmnop", 1);
    }
}
