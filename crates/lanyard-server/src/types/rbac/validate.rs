//! The rules of roles and bindings.

use serde_json::Value;

use super::GROUP;
use crate::{
    field::{FieldError, json_text},
    object::ObjectExt,
    resource::{NameRule, Scope},
    types::{
        names::{validate_label_key, validate_label_value, validate_name},
        object_meta::{validate_finalizer_domains, validate_labels},
    },
};

/// The problems of a Role or ClusterRole; `old` is what an update replaces.
pub(super) fn role(role: &Value, scope: Scope, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = validate_finalizer_domains(role);
    let rules = role.get("rules").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        policy_rule(rule, scope, &format!("rules[{index}]"), &mut errors);
    }
    if role.get("aggregationRule").is_some_and(Value::is_object) {
        // What was let in once must not stand in the way of later changes.
        let values = match old {
            Some(old) if !selectors(old, LabelValues::Checked).is_empty() => LabelValues::Any,
            _ => LabelValues::Checked,
        };
        errors.extend(selectors(role, values));
    }
    errors
}

/// The problems of a RoleBinding or ClusterRoleBinding.
pub(super) fn binding(binding: &Value, scope: Scope) -> Vec<FieldError> {
    let mut errors = validate_finalizer_domains(binding);
    let group = binding.text(&["roleRef", "apiGroup"]);
    if group != GROUP {
        errors.push(FieldError::not_supported("roleRef.apiGroup", group, &[GROUP]));
    }
    let kinds: &[&str] = match scope {
        Scope::Namespaced => &["Role", "ClusterRole"],
        Scope::Cluster => &["ClusterRole"],
    };
    let kind = binding.text(&["roleRef", "kind"]);
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", kind, kinds));
    }
    match binding.text(&["roleRef", "name"]) {
        "" => errors.push(FieldError::required("roleRef.name", "")),
        name => {
            for problem in validate_name(NameRule::PathSegment, name) {
                errors.push(FieldError::invalid_str("roleRef.name", name, problem));
            }
        }
    }
    let subjects = binding.get("subjects").and_then(Value::as_array);
    for (index, entry) in subjects.into_iter().flatten().enumerate() {
        subject(entry, scope, &format!("subjects[{index}]"), &mut errors);
    }
    errors
}

/// The role of a binding can never change: whoever may edit subjects could else raise their rights.
pub(super) fn role_reference_change(new: &Value, old: &Value) -> Option<FieldError> {
    if new.get("roleRef") == old.get("roleRef") {
        return None;
    }
    let part = |name| json_text(&new.text(&["roleRef", name]).into());
    // The names of upstream's internal fields, which have no JSON names.
    let shown = format!(
        r#"{{"APIGroup":{},"Kind":{},"Name":{}}}"#,
        part("apiGroup"),
        part("kind"),
        part("name")
    );
    Some(FieldError::invalid_json("roleRef", &shown, "cannot change roleRef"))
}

fn policy_rule(rule: &Value, scope: Scope, path: &str, errors: &mut Vec<FieldError>) {
    let is_empty =
        |field: &str| rule.get(field).and_then(Value::as_array).is_none_or(Vec::is_empty);
    if is_empty("verbs") {
        let problem = "verbs must contain at least one value";
        errors.push(FieldError::required(format!("{path}.verbs"), problem));
    }
    if let Some(urls) = rule.get("nonResourceURLs").filter(|_| !is_empty("nonResourceURLs")) {
        let path = format!("{path}.nonResourceURLs");
        if scope == Scope::Namespaced {
            let problem = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(&path, urls, problem));
        }
        if !["apiGroups", "resources", "resourceNames"].into_iter().all(is_empty) {
            let problem = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(&path, urls, problem));
        }
        return;
    }
    if is_empty("apiGroups") {
        let problem = "resource rules must supply at least one api group";
        errors.push(FieldError::required(format!("{path}.apiGroups"), problem));
    }
    if is_empty("resources") {
        let problem = "resource rules must supply at least one resource";
        errors.push(FieldError::required(format!("{path}.resources"), problem));
    }
}

fn subject(subject: &Value, scope: Scope, path: &str, errors: &mut Vec<FieldError>) {
    let (name, group) = (subject.text(&["name"]), subject.text(&["apiGroup"]));
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    match subject.text(&["kind"]) {
        "ServiceAccount" => {
            if !name.is_empty() {
                for problem in validate_name(NameRule::DnsSubdomain, name) {
                    errors.push(FieldError::invalid_str(format!("{path}.name"), name, problem));
                }
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(format!("{path}.apiGroup"), group, &[""]));
            }
            if scope == Scope::Cluster && subject.text(&["namespace"]).is_empty() {
                errors.push(FieldError::required(format!("{path}.namespace"), ""));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.push(FieldError::not_supported(format!("{path}.apiGroup"), group, &[GROUP]));
            }
        }
        kind => {
            let known = ["ServiceAccount", "User", "Group"];
            errors.push(FieldError::not_supported(format!("{path}.kind"), kind, &known));
        }
    }
}

/// Whether the values in label selectors are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LabelValues {
    Checked,
    Any,
}

/// The problems of the selectors by which a ClusterRole is put together.
fn selectors(role: &Value, values: LabelValues) -> Vec<FieldError> {
    const PATH: &str = "aggregationRule.clusterRoleSelectors";
    if !role.get("aggregationRule").is_some_and(Value::is_object) {
        return Vec::new();
    }
    let empty = Vec::new();
    let list = role.at(&["aggregationRule", "clusterRoleSelectors"]);
    let list = list.and_then(Value::as_array).unwrap_or(&empty);
    let mut errors = Vec::new();
    if list.is_empty() {
        let problem = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(PATH, problem));
    }
    for (index, selector) in list.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        let before = errors.len();
        let labels = label_pairs(selector);
        errors.extend(validate_labels(&labels, &format!("{path}.matchLabels")));
        let expressions = selector.get("matchExpressions").and_then(Value::as_array);
        for (index, expression) in expressions.into_iter().flatten().enumerate() {
            let path = format!("{path}.matchExpressions[{index}]");
            requirement(expression, values, &path, &mut errors);
        }
        if errors.len() > before {
            // Upstream then fails to build the selector too, and shows what it has of it: nothing.
            errors.push(FieldError::invalid_json(path, "null", "invalid label selector."));
        }
    }
    errors
}

fn requirement(expression: &Value, check: LabelValues, path: &str, errors: &mut Vec<FieldError>) {
    let empty = Vec::new();
    let values = expression.get("values").and_then(Value::as_array).unwrap_or(&empty);
    match expression.text(&["operator"]) {
        "In" | "NotIn" => {
            if values.is_empty() {
                let problem = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{path}.values"), problem));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let problem = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{path}.values"), problem));
            }
        }
        operator => {
            let path = format!("{path}.operator");
            errors.push(FieldError::invalid_str(path, operator, "not a valid selector operator"));
        }
    }
    let key = expression.text(&["key"]);
    for problem in validate_label_key(key) {
        errors.push(FieldError::invalid_str(format!("{path}.key"), key, problem));
    }
    if check == LabelValues::Any {
        return;
    }
    for (index, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or("");
        for problem in validate_label_value(value) {
            errors.push(FieldError::invalid_str(format!("{path}.values[{index}]"), value, problem));
        }
    }
}

fn label_pairs(selector: &Value) -> Vec<(&str, &str)> {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let pairs = labels.into_iter().flatten();
    pairs.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or(""))).collect()
}
