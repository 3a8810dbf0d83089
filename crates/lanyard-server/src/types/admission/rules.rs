//! The rules of webhooks and policies: which operations on which resources they are about.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::super::path::strings;
use crate::{field::FieldError, object::ObjectExt};

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];

/// The problems of a rule with operations.
pub(in super::super) fn validate(rule: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_operations(&strings(rule, "operations"), path, &mut errors);
    check_words(rule, "apiGroups", "API groups", path, &mut errors);
    check_words(rule, "apiVersions", "API versions", path, &mut errors);
    for (index, version) in strings(rule, "apiVersions").iter().enumerate() {
        if version.is_empty() {
            errors.push(FieldError::required(format!("{path}.apiVersions[{index}]"), ""));
        }
    }
    check_resources(&strings(rule, "resources"), &format!("{path}.resources"), &mut errors);
    let scope = rule.text(&["scope"]);
    if rule.get("scope").is_some() && !SCOPES.contains(&scope) {
        errors.push(FieldError::not_supported(format!("{path}.scope"), scope, SCOPES));
    }
    errors
}

fn check_operations(operations: &[&str], path: &str, errors: &mut Vec<FieldError>) {
    let path = format!("{path}.operations");
    if operations.is_empty() {
        errors.push(FieldError::required(&*path, ""));
    }
    if operations.len() > 1 && operations.contains(&"*") {
        let problem = "if '*' is present, must not specify other operations";
        errors.push(FieldError::invalid(&*path, &json!(operations), problem));
    }
    for (index, operation) in operations.iter().enumerate() {
        if !OPERATIONS.contains(operation) {
            let path = format!("{path}[{index}]");
            errors.push(FieldError::not_supported(path, operation, OPERATIONS));
        }
    }
}

/// Something must be named, and everything only alone.
fn check_words(rule: &Value, field: &str, what: &str, path: &str, errors: &mut Vec<FieldError>) {
    let words = strings(rule, field);
    let path = format!("{path}.{field}");
    if words.is_empty() {
        errors.push(FieldError::required(&*path, ""));
    }
    if words.len() > 1 && words.contains(&"*") {
        let problem = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(&*path, &json!(words), problem));
    }
}

fn check_resources(resources: &[&str], path: &str, errors: &mut Vec<FieldError>) {
    if resources.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut all_parts_of, mut part_of_all) = (HashSet::new(), HashSet::new());
    // Upstream asks this of the last one only.
    let mut ends_with_plain = false;
    for (index, resource) in resources.iter().enumerate() {
        let at = format!("{path}[{index}]");
        if resource.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let Some((name, part)) = resource.split_once('/') else {
            ends_with_plain = *resource != "*";
            continue;
        };
        if all_parts_of.contains(name) {
            let problem = format!("if '{name}/*' is present, must not specify {resource}");
            errors.push(FieldError::invalid_str(&*at, resource, problem));
        }
        if part_of_all.contains(part) {
            let problem = format!("if '*/{part}' is present, must not specify {resource}");
            errors.push(FieldError::invalid_str(at, resource, problem));
        }
        if part == "*" {
            all_parts_of.insert(name);
        }
        if name == "*" {
            part_of_all.insert(part);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        let problem = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, &json!(resources), problem));
    }
    if resources.contains(&"*") && ends_with_plain {
        let problem = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, &json!(resources), problem));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_stand_alone() {
        let check = |field: &str, words: &[&str], expected: &[&str]| {
            let mut rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["a"]});
            rule[field] = json!(words);
            let found: Vec<String> = validate(&rule, "r").iter().map(|e| e.to_string()).collect();
            assert_eq!(found, expected, "{field} {words:?}");
        };
        check("resources", &["*", "a/b"], &[]);
        check("resources", &["a", "*"], &[]);
        check(
            "resources",
            &["*", "a"],
            &[
                "r.resources: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other \
             resources without subresources",
            ],
        );
        check(
            "resources",
            &["*/*", "a/b"],
            &[
                "r.resources: Invalid value: [\"*/*\",\"a/b\"]: if '*/*' is present, must not specify other \
             resources",
            ],
        );
        check(
            "resources",
            &["a/*", "a/b"],
            &["r.resources[1]: Invalid value: \"a/b\": if 'a/*' is present, must not specify a/b"],
        );
        check(
            "apiGroups",
            &["*", ""],
            &[
                "r.apiGroups: Invalid value: [\"*\",\"\"]: if '*' is present, must not specify other API \
             groups",
            ],
        );
        check("apiVersions", &[], &["r.apiVersions: Required value"]);
        check(
            "operations",
            &["GET"],
            &[
                "r.operations[0]: Unsupported value: \"GET\": supported values: \"*\", \"CONNECT\", \
             \"CREATE\", \"DELETE\", \"UPDATE\"",
            ],
        );
    }
}
