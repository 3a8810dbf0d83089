//! Where a pod may run: tolerations, affinity, spreading.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::{
    label_selector::{validate_key, validate_label_selector, validate_values},
    path::{Path, items, number, part, strings},
};
use crate::{
    field::FieldError,
    object::ObjectExt,
    resource::NameRule,
    types::{validate_label_value, validate_name},
};

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const NOT_AN_OPERATOR: &str = "not a valid selector operator";

/// The problem of the effect of a taint.
pub(in super::super) fn validate_effect(effect: &str, path: Path) -> Option<FieldError> {
    match effect {
        known if EFFECTS.contains(&known) => None,
        other => Some(FieldError::not_supported(path, other, &EFFECTS)),
    }
}

/// The problems of `tolerations`.
pub(super) fn validate_tolerations(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (path, toleration) in path.items(spec, "tolerations") {
        let [key, operator, value, effect] =
            ["key", "operator", "value", "effect"].map(|field| toleration.text(&[field]));
        let at = path.child("operator");
        if !key.is_empty() {
            errors.extend(validate_key(key, &path.child("key")));
        } else if operator != "Exists" {
            let problem = "operator must be Exists when `key` is empty, which means \"match all \
                           values and all keys\"";
            errors.push(FieldError::invalid_str(&at, operator, problem));
        }
        let seconds = toleration.get("tolerationSeconds").is_some_and(|s| !s.is_null());
        if seconds && effect != "NoExecute" {
            let problem = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid_str(path.child("effect"), effect, problem));
        }
        match operator {
            "Equal" | "" => {
                let problems = validate_label_value(value);
                if !problems.is_empty() {
                    errors.push(FieldError::invalid_str(&at, value, problems.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let problem = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid_str(&at, value, problem));
            }
            "Exists" => {}
            "Lt" | "Gt" => {
                let known = ["Equal", "Exists", "Lt", "Gt"];
                errors.push(FieldError::not_supported(&at, operator, &known));
            }
            _ => errors.push(FieldError::not_supported(&at, operator, &["Equal", "Exists"])),
        }
        if !effect.is_empty() {
            errors.extend(validate_effect(effect, path.child("effect")));
        }
    }
    errors
}

/// The problems of `affinity`.
pub(super) fn validate_affinity(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(affinity) = part(spec, "affinity") else { return errors };
    let path = path.child("affinity");
    if let Some(node) = part(affinity, "nodeAffinity") {
        errors.extend(validate_node_affinity(node, &path.child("nodeAffinity")));
    }
    for name in ["podAffinity", "podAntiAffinity"] {
        let Some(pods) = part(affinity, name) else { continue };
        let path = path.child(name);
        for (path, term) in path.items(pods, REQUIRED) {
            errors.extend(validate_pod_term(term, &path));
        }
        for (path, term) in path.items(pods, PREFERRED) {
            errors.extend(validate_weight(term, &path));
            let pods = part(term, "podAffinityTerm").unwrap_or(&Value::Null);
            errors.extend(validate_pod_term(pods, &path.child("podAffinityTerm")));
        }
    }
    errors
}

fn validate_node_affinity(node: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(selector) = part(node, REQUIRED) {
        let path = path.child(REQUIRED);
        if items(selector, "nodeSelectorTerms").is_empty() {
            let problem = "must have at least one node selector term";
            errors.push(FieldError::required(path.child("nodeSelectorTerms"), problem));
        }
        for (path, term) in path.items(selector, "nodeSelectorTerms") {
            errors.extend(validate_node_term(term, true, &path));
        }
    }
    for (path, term) in path.items(node, PREFERRED) {
        errors.extend(validate_weight(term, &path));
        let preference = part(term, "preference").unwrap_or(&Value::Null);
        errors.extend(validate_node_term(preference, false, &path.child("preference")));
    }
    errors
}

fn validate_weight(term: &Value, path: &Path) -> Option<FieldError> {
    let weight = number(term, "weight");
    let good = (1..=100).contains(&weight);
    let problem = "must be in the range 1-100";
    (!good).then(|| FieldError::invalid(path.child("weight"), &weight.into(), problem))
}

fn validate_node_term(term: &Value, check_values: bool, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (path, requirement) in path.items(term, "matchExpressions") {
        let count = items(requirement, "values").len();
        let values = path.child("values");
        let operator = requirement.text(&["operator"]);
        errors.extend(match (operator, count) {
            ("In" | "NotIn", 0) => {
                let problem = "must be specified when `operator` is 'In' or 'NotIn'";
                Some(FieldError::required(&values, problem))
            }
            ("Exists" | "DoesNotExist", 1..) => {
                let problem = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                Some(FieldError::forbidden(&values, problem))
            }
            ("Gt" | "Lt", 0 | 2..) => {
                let problem = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                Some(FieldError::required(&values, problem))
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => None,
            (other, _) => {
                Some(FieldError::invalid_str(path.child("operator"), other, NOT_AN_OPERATOR))
            }
        });
        errors.extend(validate_key(requirement.text(&["key"]), &path.child("key")));
        if check_values {
            errors.extend(validate_values(requirement, &values));
        }
    }
    for (path, requirement) in path.items(term, "matchFields") {
        errors.extend(validate_field_requirement(requirement, &path));
    }
    errors
}

fn validate_field_requirement(requirement: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let values = strings(requirement, "values");
    match requirement.text(&["operator"]) {
        "In" | "NotIn" if values.len() != 1 => {
            let problem =
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(path.child("values"), problem));
        }
        "In" | "NotIn" => {}
        other => {
            let at = path.child("operator");
            errors.push(FieldError::invalid_str(at, other, NOT_AN_OPERATOR));
        }
    }
    let key = requirement.text(&["key"]);
    if key != "metadata.name" {
        let problem = "not a valid field selector key";
        errors.push(FieldError::invalid_str(path.child("key"), key, problem));
        return errors;
    }
    for (at, name) in values.into_iter().enumerate() {
        let at = path.child("values").index(at);
        let problems = validate_name(NameRule::DnsSubdomain, name).into_iter();
        errors.extend(problems.map(|problem| FieldError::invalid_str(&at, name, problem)));
    }
    errors
}

fn validate_pod_term(term: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["labelSelector", "namespaceSelector"] {
        errors.extend(validate_label_selector(part(term, field), &path.child(field)));
    }
    for name in strings(term, "namespaces") {
        let problems = validate_name(NameRule::DnsLabel, name).into_iter();
        let at = path.child("namespace");
        errors.extend(problems.map(|problem| FieldError::invalid_str(&at, name, problem)));
    }
    let (key, at) = (term.text(&["topologyKey"]), path.child("topologyKey"));
    if key.is_empty() {
        errors.push(FieldError::required(&at, "can not be empty"));
    }
    errors.extend(validate_key(key, &at));
    errors
}

/// The problems of `topologySpreadConstraints`.
pub(super) fn validate_spreading(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut last = BTreeMap::new();
    for (index, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        last.insert(identity(constraint), index);
    }
    for (index, (path, constraint)) in path.items(spec, "topologySpreadConstraints").enumerate() {
        let positive = |field: &str| {
            let value = constraint.get(field).and_then(Value::as_i64).unwrap_or(0);
            let problem = "must be greater than zero";
            (value <= 0).then(|| FieldError::invalid(path.child(field), &value.into(), problem))
        };
        errors.extend(positive("maxSkew"));
        let (key, action) = identity(constraint);
        if key.is_empty() {
            errors.push(FieldError::required(path.child("topologyKey"), "can not be empty"));
        }
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            let at = path.child("whenUnsatisfiable");
            errors.push(FieldError::not_supported(at, action, &actions));
        }
        if last.get(&(key, action)).is_some_and(|last| *last > index) {
            let at = path.child("{topologyKey, whenUnsatisfiable}");
            let shown = format!("{{{key}, {action}}}");
            errors.push(FieldError::duplicate(at, &shown.into()));
        }
        if let Some(domains) = constraint.get("minDomains").filter(|value| !value.is_null()) {
            errors.extend(positive("minDomains"));
            if action != "DoNotSchedule" {
                let problem = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                );
                errors.push(FieldError::invalid(path.child("minDomains"), domains, problem));
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let policy = constraint.text(&[field]);
            if !matches!(policy, "" | "Honor" | "Ignore") {
                let known = ["Honor", "Ignore"];
                errors.push(FieldError::not_supported(path.child(field), policy, &known));
            }
        }
        let selector = part(constraint, "labelSelector");
        errors.extend(validate_label_selector(selector, &path.child("labelSelector")));
    }
    errors
}

/// What tells one constraint from another.
fn identity(constraint: &Value) -> (&str, &str) {
    (constraint.text(&["topologyKey"]), constraint.text(&["whenUnsatisfiable"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_with_tolerations() {
        let check = |toleration: Value, expected: &[&str]| {
            let spec = json!({"tolerations": [toleration]});
            let errors = validate_tolerations(&spec, &Path::new("s"));
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected, "{spec}");
        };
        check(json!({"operator": "Exists"}), &[]);
        check(
            json!({"key": "a", "tolerationSeconds": 5}),
            &[
                "s.tolerations[0].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` is set",
            ],
        );
        check(
            json!({"key": "a", "operator": "Exists", "value": "b", "effect": "Sometimes"}),
            &[
                "s.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'",
                "s.tolerations[0].effect: Unsupported value: \"Sometimes\": supported values: \"NoSchedule\", \"PreferNoSchedule\", \"NoExecute\"",
            ],
        );
    }
}
