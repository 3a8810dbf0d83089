//! Deployment: pods that are replaced bit by bit when their template changes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    immutable_selector, non_negative, validate_counts, validate_selector_and_template,
    workload_warnings,
};
use crate::{
    field::FieldError,
    name::names,
    object::ObjectExt,
    resource::{Column, Resource, Rules, Scaling, Scope, Subresource, View, WriteContext},
    schema::builtin,
    selector::object_selector_text,
    types::{
        ALL_VERBS,
        column::{self, AGE, NAME, age_cell, name_cell},
        object_meta::validate_finalizer_domains,
        path::{Path, default_text, default_value, keep, number, part, same},
        pod::default_pod_spec,
        pod_template::container_cells,
    },
};

pub(in crate::types) fn resource() -> Resource {
    Resource {
        storage: "deployments.apps".into(),
        plural: "deployments".into(),
        singular: "deployment".into(),
        kind: "Deployment".into(),
        short_names: names(&["deploy"]),
        categories: names(&["all"]),
        scope: Scope::Namespaced,
        verbs: ALL_VERBS,
        subresources: &[Subresource::Status],
        views: vec![
            View::new("apps", "v1", builtin("io.k8s.api.apps.v1.Deployment"))
                .scaled(Scaling::replicas()),
        ],
        rules: Arc::new(Deployments),
    }
}

static COLUMNS: [Column; 8] = [
    NAME,
    column::text("Ready", "How many of the wanted pods are ready."),
    column::text("Up-to-date", "How many pods are made from the present template."),
    column::text("Available", "How many pods have been ready for long enough."),
    AGE,
    column::wide("Containers", "The names of the containers."),
    column::wide("Images", "The images of the containers."),
    column::wide("Selector", "The labels of the pods."),
];

struct Deployments;

impl Rules for Deployments {
    fn apply_defaults(&self, object: &mut Value) {
        let spec = &mut object["spec"];
        default_pod_spec(&mut spec["template"]["spec"]);
        default_value(spec, "replicas", 1);
        default_value(spec, "strategy", json!({}));
        let strategy = &mut spec["strategy"];
        default_text(strategy, "type", "RollingUpdate");
        if strategy.text(&["type"]) == "RollingUpdate" {
            default_value(strategy, "rollingUpdate", json!({}));
            default_value(&mut strategy["rollingUpdate"], "maxUnavailable", "25%");
            default_value(&mut strategy["rollingUpdate"], "maxSurge", "25%");
        }
        default_value(spec, "revisionHistoryLimit", 10);
        default_value(spec, "progressDeadlineSeconds", 600);
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        if context.subresource.is_none() {
            keep(new, old, "status");
            return;
        }
        keep(new, old, "spec");
        match old.at(&["metadata", "labels"]) {
            Some(labels) => new["metadata"]["labels"] = labels.clone(),
            None => drop(new.meta_mut().remove("labels")),
        }
    }

    fn reset_fields(&self, subresource: Option<Subresource>) -> &'static [&'static [&'static str]] {
        match subresource {
            Some(Subresource::Status) => &[&["spec"], &["metadata", "labels"]],
            _ => &[&["status"]],
        }
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let mut errors = validate_finalizer_domains(object);
        errors.extend(validate_spec(&object["spec"], &Path::new("spec")));
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        if context.subresource.is_some() {
            return validate_status(&new["status"], &old["status"]);
        }
        let mut errors = self.validate(new, context);
        errors.extend(immutable_selector(new, old));
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        workload_warnings(new, old)
    }

    /// Annotations count: they are handed on to the replica sets.
    fn generation_changes(&self, new: &Value, old: &Value) -> Option<bool> {
        let annotations =
            |o: &Value| o.at(&["metadata", "annotations"]).cloned().unwrap_or_default();
        Some(!same(&new["spec"], &old["spec"]) || !same(&annotations(new), &annotations(old)))
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let (containers, images) = container_cells(&spec["template"]["spec"]);
        let ready = number(status, "readyReplicas");
        vec![
            name_cell(object),
            format!("{ready}/{}", number(spec, "replicas")).into(),
            number(status, "updatedReplicas").into(),
            number(status, "availableReplicas").into(),
            age_cell(object, now),
            containers.into(),
            images.into(),
            object_selector_text(&spec["selector"]).into(),
        ]
    }
}

fn validate_spec(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    errors.extend(non_negative(spec, "replicas", path));
    errors.extend(validate_selector_and_template(spec, path));
    let strategy = spec.get("strategy").unwrap_or(&Value::Null);
    errors.extend(validate_strategy(strategy, &path.child("strategy")));
    for field in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        errors.extend(non_negative(spec, field, path));
    }
    let deadline = number(spec, "progressDeadlineSeconds");
    if deadline <= number(spec, "minReadySeconds") {
        let at = path.child("progressDeadlineSeconds");
        let problem = "must be greater than minReadySeconds";
        errors.push(FieldError::invalid(at, &deadline.into(), problem));
    }
    errors
}

fn validate_strategy(strategy: &Value, path: &Path) -> Vec<FieldError> {
    let rolling = part(strategy, "rollingUpdate");
    let path = &path.child("rollingUpdate");
    match (strategy.text(&["type"]), rolling) {
        ("Recreate", Some(_)) => {
            let problem = "may not be specified when strategy `type` is 'Recreate'";
            vec![FieldError::forbidden(path, problem)]
        }
        ("RollingUpdate", Some(rolling)) => validate_rolling(rolling, path),
        ("Recreate" | "RollingUpdate", None) => Vec::new(),
        _ => {
            let known = ["Recreate", "RollingUpdate"];
            // Upstream shows its internal type.
            let rolling = match rolling {
                None => "null".to_owned(),
                Some(rolling) => {
                    let value = |field| rolling.get(field).unwrap_or(&Value::Null);
                    let (unavailable, surge) = (value("maxUnavailable"), value("maxSurge"));
                    format!("{{\"MaxUnavailable\":{unavailable},\"MaxSurge\":{surge}}}")
                }
            };
            let kind = Value::from(strategy.text(&["type"]));
            let json = format!("{{\"Type\":{kind},\"RollingUpdate\":{rolling}}}");
            vec![FieldError::not_supported_json("spec.strategy", &json, &known)]
        }
    }
}

fn validate_rolling(rolling: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let fields = ["maxUnavailable", "maxSurge"];
    for field in fields {
        let value = rolling.get(field).unwrap_or(&Value::Null);
        let at = path.child(field);
        match value {
            Value::String(text) if percent(value).is_none() => {
                let problem = "a valid percent string must be a numeric string followed by an \
                               ending '%' (e.g. '1%',  or '93%', regex used for validation is \
                               '[0-9]+%')";
                errors.push(FieldError::invalid_str(at, text, problem));
            }
            Value::Number(_) => errors.extend(non_negative(rolling, field, path)),
            _ => {}
        }
    }
    let [unavailable, surge] = fields.map(|field| rolling.get(field).unwrap_or(&Value::Null));
    let amount = |value: &Value| percent(value).or(value.as_i64()).unwrap_or(0);
    let at = path.child("maxUnavailable");
    if amount(unavailable) == 0 && amount(surge) == 0 {
        let problem = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(&at, unavailable, problem));
    }
    if percent(unavailable).is_some_and(|percent| percent > 100) {
        errors.push(FieldError::invalid(&at, unavailable, "must not be greater than 100%"));
    }
    errors
}

fn percent(value: &Value) -> Option<i64> {
    let digits = value.as_str()?.strip_suffix('%')?;
    let numeric = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    numeric.then(|| digits.parse().unwrap_or(i64::MAX))
}

fn validate_status(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_counts(
        new,
        &[
            "observedGeneration",
            "replicas",
            "updatedReplicas",
            "readyReplicas",
            "availableReplicas",
            "unavailableReplicas",
            "terminatingReplicas",
            "collisionCount",
        ],
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
    );
    let count = number(new, "collisionCount");
    if count < number(old, "collisionCount") {
        let at = "status.collisionCount";
        errors.push(FieldError::invalid(at, &count.into(), "cannot be decremented"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(spec: Value) -> Vec<String> {
        let mut object = json!({"metadata": {"name": "d"}, "spec": spec});
        Deployments.apply_defaults(&mut object);
        validate_spec(&object["spec"], &Path::new("spec")).iter().map(ToString::to_string).collect()
    }

    fn template(labels: &Value) -> Value {
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "b"}]}})
    }

    #[test]
    fn what_is_wrong_with_deployments() {
        let labels = json!({"app": "x"});
        let check = |spec: Value, expected: &[&str]| assert_eq!(problems(spec), expected);
        let selector = json!({"matchLabels": labels});
        check(json!({"selector": selector, "template": template(&labels)}), &[]);
        check(
            json!({"selector": selector, "template": template(&json!({"app": "y"}))}),
            &[
                "spec.template.metadata.labels: Invalid value: {\"app\":\"y\"}: `selector` does not match template `labels`",
            ],
        );
        check(
            json!({"template": template(&labels)}),
            &[
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`",
            ],
        );
        check(
            json!({"selector": {}, "template": template(&labels)}),
            &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
        );
        check(
            json!({"selector": selector, "template": template(&labels), "replicas": -1,
                "strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}, "progressDeadlineSeconds": 5, "minReadySeconds": 5}),
            &[
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
                "spec.progressDeadlineSeconds: Invalid value: 5: must be greater than minReadySeconds",
            ],
        );
    }
}
