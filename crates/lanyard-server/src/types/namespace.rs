//! Namespace: a scope for names, with a life of its own: it ends only when it is empty.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    column::{self, AGE, NAME, age_cell, name_cell},
    names::{validate_label_key, validate_name},
    object_meta::{finalizer_domain_problem, validate_finalizer_domains},
};
use crate::{
    field::FieldError,
    name::names,
    object::ObjectExt,
    resource::{Column, NameRule, Resource, Rules, Scope, Subresource, View, WriteContext},
    schema::builtin,
};

/// The label by which a namespace can be selected by its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// The finalizer that keeps a namespace until its contents are gone.
const FINALIZER: &str = "kubernetes";

pub(super) fn resource() -> Resource {
    Resource {
        storage: "namespaces".into(),
        plural: "namespaces".into(),
        singular: "namespace".into(),
        kind: "Namespace".into(),
        short_names: names(&["ns"]),
        categories: Vec::new(),
        scope: Scope::Cluster,
        verbs: &["create", "delete", "get", "list", "patch", "update", "watch"],
        subresources: &[Subresource::Finalize, Subresource::Status],
        views: vec![View::new("", "v1", builtin("io.k8s.api.core.v1.Namespace"))],
        rules: Arc::new(Namespaces),
    }
}

static COLUMNS: [Column; 3] =
    [NAME, column::text("Status", "Whether the namespace is in use or going away."), AGE];

struct Namespaces;

impl Rules for Namespaces {
    fn apply_defaults(&self, object: &mut Value) {
        label_with_name(object);
        if object.text(&["status", "phase"]).is_empty() {
            object["status"]["phase"] = "Active".into();
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        // A generated name was not there yet when the defaults were applied. One that is none is told
        // of once, not a second time as a label.
        if validate_name(NameRule::DnsLabel, object.name()).is_empty() {
            label_with_name(object);
        }
        object["status"] = json!({"phase": "Active"});
        if !object["spec"]["finalizers"].is_array() {
            object["spec"]["finalizers"] = json!([]);
        }
        if let Value::Array(finalizers) = &mut object["spec"]["finalizers"]
            && !finalizers.iter().any(|finalizer| finalizer == FINALIZER)
        {
            finalizers.push(FINALIZER.into());
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        match context.subresource {
            Some(Subresource::Status) => copy(new, old, "spec"),
            Some(Subresource::Finalize) => copy(new, old, "status"),
            _ => {
                copy(new, old, "spec");
                copy(new, old, "status");
            }
        }
        label_with_name(new);
    }

    /// The contents go first: the namespace controller then takes its finalizer from the spec.
    fn deletion_ready(&self, object: &Value) -> bool {
        spec_finalizers(object).is_empty()
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn mark_deleting(&self, object: &mut Value) {
        // How long it takes depends on the contents.
        object.meta_mut().remove("deletionGracePeriodSeconds");
        object["status"]["phase"] = "Terminating".into();
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let mut errors = validate_finalizer_domains(object);
        for finalizer in spec_finalizers(object) {
            errors.extend(finalizer_problems(finalizer, "spec.finalizers"));
        }
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        _old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        match context.subresource {
            Some(Subresource::Status) => {
                let mut errors = validate_finalizer_domains(new);
                errors.extend(phase_problem(new));
                errors
            }
            Some(Subresource::Finalize) => {
                let mut errors = validate_finalizer_domains(new);
                for (index, finalizer) in spec_finalizers(new).into_iter().enumerate() {
                    let path = format!("spec.finalizers[{index}]");
                    errors.extend(finalizer_problems(finalizer, &path));
                }
                errors
            }
            _ => self.validate(new, context),
        }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::DnsLabel
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let phase = object.text(&["status", "phase"]);
        vec![name_cell(object), phase.into(), age_cell(object, now)]
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["status.phase"]
    }

    fn selectable_field(&self, object: &Value, field: &str) -> String {
        match field {
            "status.phase" => object.text(&["status", "phase"]).to_owned(),
            _ => String::new(),
        }
    }
}

fn label_with_name(object: &mut Value) {
    let name = object.name().to_owned();
    if name.is_empty() {
        return;
    }
    let labels = object.meta_mut().entry("labels").or_insert_with(|| json!({}));
    if !labels.is_object() {
        *labels = json!({});
    }
    labels[NAME_LABEL] = name.into();
}

fn copy(new: &mut Value, old: &Value, field: &str) {
    new[field] = old.get(field).cloned().unwrap_or_else(|| json!({}));
}

fn spec_finalizers(object: &Value) -> Vec<&str> {
    object
        .at(&["spec", "finalizers"])
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

fn finalizer_problems(finalizer: &str, path: &str) -> Vec<FieldError> {
    validate_label_key(finalizer)
        .into_iter()
        .map(|problem| FieldError::invalid_str(path, finalizer, problem))
        .chain(finalizer_domain_problem(finalizer, path))
        .collect()
}

/// The phase must say whether the namespace is being deleted.
fn phase_problem(object: &Value) -> Option<FieldError> {
    let (expected, problem) = match object.is_deleting() {
        false => ("Active", "may only be 'Active' if `deletionTimestamp` is empty"),
        true => ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"),
    };
    let phase = object.text(&["status", "phase"]);
    (phase != expected).then(|| FieldError::invalid_str("status.Phase", phase, problem))
}
