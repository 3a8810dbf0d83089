//! Deployment and ReplicaSet: how many pods of a template there should be. Nothing here makes pods.

mod deployment;
mod replica_set;

use serde_json::Value;

pub(super) use deployment::resource as deployment;
pub(super) use replica_set::resource as replica_set;

use super::{
    label_selector::validate_label_selector,
    path::{Path, number, pairs, part},
    pod::{spec_warnings, validate_template},
    validate_name,
};
use crate::{
    field::FieldError, object::ObjectExt, resource::NameRule, schema::builtin,
    selector::LabelSelector,
};

const NEGATIVE: &str = "must be greater than or equal to 0";

/// The problem of a number that may not be negative.
fn non_negative(object: &Value, field: &str, path: &Path) -> Option<FieldError> {
    let value = number(object, field);
    (value < 0).then(|| FieldError::invalid(path.child(field), &value.into(), NEGATIVE))
}

/// The problems of `selector` and of the template, which it must select.
fn validate_selector_and_template(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let at = path.child("selector");
    let selector = part(spec, "selector");
    match selector {
        None => errors.push(FieldError::required(&at, "")),
        Some(selector) => {
            errors.extend(validate_label_selector(Some(selector), &at));
            let empty = ["matchLabels", "matchExpressions"].iter().all(|field| {
                let value = selector.get(field).unwrap_or(&Value::Null);
                value.as_object().is_none_or(serde_json::Map::is_empty)
                    && value.as_array().is_none_or(Vec::is_empty)
            });
            if empty {
                let problem = "empty selector is invalid for deployment";
                errors.push(FieldError::invalid(&at, selector, problem));
            }
        }
    }
    let parsed = selector.map(LabelSelector::from_object);
    let invalid_labels = errors.iter().any(|error| error.path.contains(".match"));
    if parsed == Some(None) || invalid_labels {
        let shown = shown_selector(selector.unwrap_or(&Value::Null));
        errors.push(FieldError::invalid_json(&at, &shown, "invalid label selector"));
        return errors;
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    let path = path.child("template");
    let labels = template.get("metadata").map(|m| pairs(m, "labels")).unwrap_or_default();
    let label = |key: &str| labels.iter().find(|(k, _)| *k == key).map(|(_, value)| *value);
    // No selector selects nothing, an empty one anything.
    if !parsed.flatten().is_some_and(|selector| selector.matches(label)) {
        let at = path.child("metadata").child("labels");
        let shown = template.at(&["metadata", "labels"]).unwrap_or(&Value::Null);
        let problem = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(at, shown, problem));
    }
    errors.extend(validate_replicated(template, &path));
    errors
}

/// A selector in messages, with its fields in upstream's order.
fn shown_selector(selector: &Value) -> String {
    match selector {
        Value::Null => "null".to_owned(),
        selector => builtin("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").show(selector),
    }
}

/// The problems of a template of pods that are to be replaced when they end.
fn validate_replicated(template: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = validate_template(template, path);
    let spec = path.child("spec");
    let policy = template.text(&["spec", "restartPolicy"]);
    if policy != "Always" {
        errors.push(FieldError::not_supported(spec.child("restartPolicy"), policy, &["Always"]));
    }
    if template.at(&["spec", "activeDeadlineSeconds"]).is_some() {
        let problem = "activeDeadlineSeconds in ReplicaSet is not Supported";
        errors.push(FieldError::forbidden(spec.child("activeDeadlineSeconds"), problem));
    }
    errors
}

/// The problems of the numbers of a status.
fn validate_counts(status: &Value, fields: &[&str], parts: &[&str]) -> Vec<FieldError> {
    let path = Path::new("status");
    let mut errors: Vec<FieldError> =
        fields.iter().filter_map(|field| non_negative(status, field, &path)).collect();
    let exceeds = |field: &str, bound: &str, shown: &str| {
        let value = number(status, field);
        let problem = format!("cannot be greater than {shown}");
        (value > number(status, bound))
            .then(|| FieldError::invalid(path.child(field), &value.into(), problem))
    };
    errors.extend(parts.iter().filter_map(|part| exceeds(part, "replicas", "status.replicas")));
    errors.extend(exceeds("availableReplicas", "readyReplicas", "readyReplicas"));
    errors
}

/// Texts about the name of a new workload and about a new template.
fn workload_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let problems = validate_name(NameRule::DnsLabel, new.name());
    if old.is_none() && !problems.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising \
             behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        ));
    }
    let template = |object: &Value| object.at(&["spec", "template"]).cloned();
    if old.is_none_or(|old| template(old) != template(new)) {
        let path = Path::new("spec").child("template").child("spec");
        let spec = new.at(&["spec", "template", "spec"]).unwrap_or(&Value::Null);
        warnings.extend(spec_warnings(spec, &path));
    }
    warnings
}

/// The selector of a workload never changes: its pods would be lost.
fn immutable_selector(new: &Value, old: &Value) -> Option<FieldError> {
    let selector = |object: &Value| object.at(&["spec", "selector"]).cloned().unwrap_or_default();
    let (new, old) = (selector(new), selector(old));
    let problem = "field is immutable";
    (new != old).then(|| FieldError::invalid_json("spec.selector", &shown_selector(&new), problem))
}
