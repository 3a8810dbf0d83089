//! What a webhook may say.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::{
    super::{
        label_selector,
        names::{dns_subdomain, validate_name},
        path::{items, strings},
    },
    client_config, conditions, rules,
};
use crate::{field::FieldError, object::ObjectExt, resource::NameRule};

const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];

/// The versions of reviews that can be sent, as the message names them.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// The problems of all webhooks of a configuration.
pub(super) fn validate(object: &Value, old: Option<&Value>, mutating: bool) -> Vec<FieldError> {
    let hooks = items(object, "webhooks");
    let conditions_of = |object: &Value| -> Vec<Option<Value>> {
        let hooks = items(object, "webhooks").iter();
        hooks.map(|hook| hook.get("matchConditions").cloned()).collect()
    };
    // Conditions that were good once stay so.
    let same_conditions = old.is_some_and(|old| conditions_of(old) == conditions_of(object));
    let mut errors = Vec::new();
    let mut names = HashSet::new();
    for (index, hook) in hooks.iter().enumerate() {
        let path = format!("webhooks[{index}]");
        check_hook(hook, &path, mutating, &mut errors);
        if !same_conditions {
            errors.extend(conditions::validate(hook, &format!("{path}.matchConditions"), false));
        }
        check_versions(hook, &format!("{path}.admissionReviewVersions"), &mut errors);
        let name = hook.text(&["name"]);
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), &name.into()));
        }
    }
    errors
}

fn check_hook(hook: &Value, path: &str, mutating: bool, errors: &mut Vec<FieldError>) {
    check_name(hook.text(&["name"]), &format!("{path}.name"), errors);
    for (index, rule) in items(hook, "rules").iter().enumerate() {
        errors.extend(rules::validate(rule, &format!("{path}.rules[{index}]")));
    }
    check_choice(hook, "failurePolicy", FAILURE_POLICIES, path, errors);
    check_choice(hook, "matchPolicy", MATCH_POLICIES, path, errors);
    if hook.get("sideEffects").is_none_or(Value::is_null) {
        let problem = format!("must specify one of {}", SIDE_EFFECTS.join(", "));
        errors.push(FieldError::required(format!("{path}.sideEffects"), problem));
    }
    check_choice(hook, "sideEffects", SIDE_EFFECTS, path, errors);
    let timeout = hook.get("timeoutSeconds").and_then(Value::as_i64);
    if let Some(seconds) = timeout.filter(|seconds| !(1..=30).contains(seconds)) {
        let problem = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(
            format!("{path}.timeoutSeconds"),
            &seconds.into(),
            problem,
        ));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if let Some(selector) = hook.get(field) {
            errors.extend(label_selector::validate(selector, &format!("{path}.{field}")));
        }
    }
    if mutating {
        check_choice(hook, "reinvocationPolicy", REINVOCATION_POLICIES, path, errors);
    }
    let client = hook.get("clientConfig").unwrap_or(&Value::Null);
    client_config::validate(client, &format!("{path}.clientConfig"), errors);
}

fn check_name(name: &str, path: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let problems = dns_subdomain(name, "characters");
    if !problems.is_empty() {
        errors.push(FieldError::invalid_str(path, name, problems.join(",")));
    } else if name.split('.').count() < 3 {
        let problem = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid_str(path, name, problem));
    }
}

fn check_choice(
    hook: &Value,
    field: &str,
    choices: &[&str],
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if let Some(Value::String(choice)) = hook.get(field)
        && !choices.contains(&choice.as_str())
    {
        errors.push(FieldError::not_supported(format!("{path}.{field}"), choice, choices));
    }
}

fn check_versions(hook: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let versions = strings(hook, "admissionReviewVersions");
    let known = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        errors.push(FieldError::required(path, format!("must specify one of {known}")));
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in versions.iter().enumerate() {
        let at = format!("{path}[{index}]");
        if !seen.insert(version) {
            errors.push(FieldError::invalid_str(at, version, "duplicate version"));
            continue;
        }
        for problem in validate_name(NameRule::Dns1035Label, version) {
            errors.push(FieldError::invalid_str(&*at, version, problem));
        }
    }
    if !versions.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        let problem = format!("must include at least one of {known}");
        errors.push(FieldError::invalid(path, &json!(versions), problem));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_says_what_it_does() {
        let check = |fields: Value, expected: &[&str]| {
            let mut hook = json!({"name": "a.b.c", "clientConfig": {"url": "https://a"},
                "sideEffects": "None", "admissionReviewVersions": ["v1"]});
            for (field, value) in fields.as_object().unwrap() {
                hook[field] = value.clone();
            }
            let errors = validate(&json!({"webhooks": [hook]}), None, true);
            let found: Vec<String> = errors.iter().map(FieldError::to_string).collect();
            assert_eq!(found, expected, "{fields}");
        };
        check(json!({}), &[]);
        check(
            json!({"name": "a.b"}),
            &[
                "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments \
             separated by dots",
            ],
        );
        check(
            json!({"sideEffects": null}),
            &["webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"],
        );
        check(
            json!({"timeoutSeconds": 31}),
            &[
                "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 \
             seconds",
            ],
        );
        check(
            json!({"admissionReviewVersions": ["v2"]}),
            &[
                "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of \
             v1, v1beta1",
            ],
        );
        check(
            json!({"reinvocationPolicy": "Always"}),
            &["webhooks[0].reinvocationPolicy: Unsupported value: \"Always\": supported values: \
             \"IfNeeded\", \"Never\""],
        );
        check(
            json!({"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}),
            &[
                "webhooks[0].objectSelector.matchExpressions[0].values: Required value: must be specified \
             when `operator` is 'In' or 'NotIn'",
            ],
        );
        check(
            json!({"matchConditions": [{"name": "a", "expression": " "}]}),
            &["webhooks[0].matchConditions[0].expression: Required value"],
        );
    }
}
