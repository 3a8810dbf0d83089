//! ReplicaSet: a number of pods of one template.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    immutable_selector, non_negative, validate_counts, validate_selector_and_template,
    workload_warnings,
};
use crate::{
    field::FieldError,
    name::names,
    resource::{Column, Resource, Rules, Scaling, Scope, Subresource, View, WriteContext},
    schema::builtin,
    selector::object_selector_text,
    types::{
        ALL_VERBS,
        column::{self, AGE, NAME, age_cell, name_cell},
        object_meta::validate_finalizer_domains,
        path::{Path, default_value, keep, number, same},
        pod::default_pod_spec,
        pod_template::container_cells,
    },
};

pub(in crate::types) fn resource() -> Resource {
    Resource {
        storage: "replicasets.apps".into(),
        plural: "replicasets".into(),
        singular: "replicaset".into(),
        kind: "ReplicaSet".into(),
        short_names: names(&["rs"]),
        categories: names(&["all"]),
        scope: Scope::Namespaced,
        verbs: ALL_VERBS,
        subresources: &[Subresource::Status],
        views: vec![
            View::new("apps", "v1", builtin("io.k8s.api.apps.v1.ReplicaSet"))
                .scaled(Scaling::replicas()),
        ],
        rules: Arc::new(ReplicaSets),
    }
}

static COLUMNS: [Column; 8] = [
    NAME,
    column::integer("Desired", "How many pods there should be."),
    column::integer("Current", "How many pods there are."),
    column::integer("Ready", "How many pods are ready."),
    AGE,
    column::wide("Containers", "The names of the containers."),
    column::wide("Images", "The images of the containers."),
    column::wide("Selector", "The labels of the pods."),
];

struct ReplicaSets;

impl Rules for ReplicaSets {
    fn apply_defaults(&self, object: &mut Value) {
        let spec = &mut object["spec"];
        default_pod_spec(&mut spec["template"]["spec"]);
        default_value(spec, "replicas", 1);
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"replicas": 0});
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        keep(new, old, if context.subresource.is_none() { "status" } else { "spec" });
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let (spec, path) = (&object["spec"], Path::new("spec"));
        let mut errors = validate_finalizer_domains(object);
        errors.extend(non_negative(spec, "replicas", &path));
        errors.extend(non_negative(spec, "minReadySeconds", &path));
        errors.extend(validate_selector_and_template(spec, &path));
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        if context.subresource.is_some() {
            let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
            let fields = [
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "observedGeneration",
                "terminatingReplicas",
            ];
            return validate_counts(&new["status"], &fields, &parts);
        }
        let mut errors = self.validate(new, context);
        errors.extend(immutable_selector(new, old));
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        workload_warnings(new, old)
    }

    fn generation_changes(&self, new: &Value, old: &Value) -> Option<bool> {
        Some(!same(&new["spec"], &old["spec"]))
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let (containers, images) = container_cells(&spec["template"]["spec"]);
        let selector = match object_selector_text(&spec["selector"]) {
            text if text.is_empty() => "<none>".to_owned(),
            text => text,
        };
        vec![
            name_cell(object),
            number(spec, "replicas").into(),
            number(status, "replicas").into(),
            number(status, "readyReplicas").into(),
            age_cell(object, now),
            containers.into(),
            images.into(),
            selector.into(),
        ]
    }
}
