//! PodTemplate: a pod to be, kept for whoever makes pods from it.

use std::sync::Arc;

use serde_json::Value;

use super::{
    ALL_VERBS,
    column::{self, NAME, name_cell},
    object_meta::validate_finalizer_domains,
    path::{Path, items, pairs, same},
    pod::{default_pod_spec, validate_template},
};
use crate::{
    field::FieldError,
    object::ObjectExt,
    resource::{Column, Resource, Rules, Scope, View, WriteContext},
    schema::builtin,
};

pub(super) fn resource() -> Resource {
    Resource {
        storage: "podtemplates".into(),
        plural: "podtemplates".into(),
        singular: "podtemplate".into(),
        kind: "PodTemplate".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Namespaced,
        verbs: ALL_VERBS,
        subresources: &[],
        views: vec![View::new("", "v1", builtin("io.k8s.api.core.v1.PodTemplate"))],
        rules: Arc::new(PodTemplates),
    }
}

static COLUMNS: [Column; 4] = [
    NAME,
    column::text("Containers", "The names of the containers."),
    column::text("Images", "The images of the containers."),
    column::text("Pod Labels", "The labels of pods that are made from it."),
];

struct PodTemplates;

impl Rules for PodTemplates {
    fn apply_defaults(&self, object: &mut Value) {
        default_pod_spec(&mut object["template"]["spec"]);
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let mut errors = validate_finalizer_domains(object);
        errors.extend(validate_template(&object["template"], &Path::new("template")));
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        _old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        self.validate(new, context)
    }

    fn generation_changes(&self, new: &Value, old: &Value) -> Option<bool> {
        Some(!same(&new["template"], &old["template"]))
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        let template = &object["template"];
        let (containers, images) = container_cells(&template["spec"]);
        let labels = template.get("metadata").map(|meta| pairs(meta, "labels"));
        vec![
            name_cell(object),
            containers.into(),
            images.into(),
            label_cell(&labels.unwrap_or_default()).into(),
        ]
    }
}

/// The names and the images of the containers of a pod spec.
pub(super) fn container_cells(spec: &Value) -> (String, String) {
    let each = |field: &str| {
        let texts = items(spec, "containers").iter().map(|container| container.text(&[field]));
        texts.collect::<Vec<_>>().join(",")
    };
    (each("name"), each("image"))
}

/// Labels as a selector shows them.
pub(super) fn label_cell(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return "<none>".into();
    }
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}
