//! CustomResourceDefinition: a type that is described by an object.
//!
//! Here are the rules of the description itself. How it becomes a type that is served is in
//! `custom/`, who accepts its names in `controllers/`.

mod condition;
mod defaults;
mod expressions;
mod openapi;
mod structure;
mod validate;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    ALL_VERBS,
    column::{AGE, NAME},
};
use crate::{
    field::FieldError,
    name::names,
    object::ObjectExt,
    resource::{Column, Resource, Rules, Scope, Subresource, View, WriteContext},
    schema::builtin,
    structural::{Kind, is_supported_format},
};

pub use condition::{Condition, conditions, find, set};
pub(crate) use openapi::below;
pub use validate::approval_problem;

/// The API group.
pub const GROUP: &str = "apiextensions.k8s.io";

/// The finalizer that keeps a definition until its objects are gone.
pub const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

pub(super) fn resource() -> Resource {
    let model = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";
    Resource {
        storage: "customresourcedefinitions.apiextensions.k8s.io".into(),
        plural: "customresourcedefinitions".into(),
        singular: "customresourcedefinition".into(),
        kind: "CustomResourceDefinition".into(),
        short_names: names(&["crd", "crds"]),
        categories: names(&["api-extensions"]),
        scope: Scope::Cluster,
        verbs: ALL_VERBS,
        subresources: &[Subresource::Status],
        views: vec![View::new(GROUP, "v1", builtin(model))],
        rules: Arc::new(Definitions),
    }
}

static COLUMNS: [Column; 2] = [NAME, Column { name: "Created At", kind: "date", ..AGE }];

struct Definitions;

impl Rules for Definitions {
    fn apply_defaults(&self, object: &mut Value) {
        let kind = object.text(&["spec", "names", "kind"]).to_owned();
        let missing = |object: &Value, field| object.text(&["spec", "names", field]).is_empty();
        if missing(object, "singular") && !kind.is_empty() {
            object["spec"]["names"]["singular"] = kind.to_lowercase().into();
        }
        if missing(object, "listKind") && !kind.is_empty() {
            object["spec"]["names"]["listKind"] = format!("{kind}List").into();
        }
        match object.at(&["spec", "conversion"]) {
            None | Some(Value::Null) => {
                object["spec"]["conversion"] = json!({"strategy": "None"});
            }
            Some(_) => {
                let service = "/spec/conversion/webhook/clientConfig/service";
                if let Some(service) = object.pointer_mut(service).and_then(Value::as_object_mut) {
                    service.entry("port").or_insert_with(|| 443.into());
                }
            }
        }
        let stored = object.at(&["status", "storedVersions"]).and_then(Value::as_array);
        if stored.is_none_or(Vec::is_empty)
            && let Some(version) = storage_version(object)
        {
            object["status"]["storedVersions"] = json!([version]);
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        let stored: Vec<String> = storage_version(object).into_iter().collect();
        object["status"] = json!({
            "conditions": null,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": if stored.is_empty() { Value::Null } else { json!(stored) },
        });
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        match context.subresource {
            None => {
                new["status"] = old.get("status").cloned().unwrap_or_default();
                let Some(version) = storage_version(new) else { return };
                let stored = &mut new["status"]["storedVersions"];
                if !stored.is_array() {
                    *stored = json!([]);
                }
                if let Value::Array(stored) = stored
                    && !stored.iter().any(|known| *known == version)
                {
                    stored.push(version.into());
                }
            }
            Some(_) => {
                new["spec"] = old.get("spec").cloned().unwrap_or_default();
                for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
                    match old.at(&["metadata", field]) {
                        Some(value) => {
                            let value = value.clone();
                            new.meta_mut().insert(field.into(), value);
                        }
                        None => {
                            new.meta_mut().remove(field);
                        }
                    }
                }
            }
        }
    }

    fn reset_fields(&self, subresource: Option<Subresource>) -> &'static [&'static [&'static str]] {
        match subresource {
            Some(Subresource::Status) => &[&["metadata"], &["spec"]],
            _ => &[&["status"]],
        }
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        validate::create(object)
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        match context.subresource {
            None => validate::update(new, old),
            Some(_) => validate::status(new),
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let known = old.map(unrecognized_formats).unwrap_or_default();
        let mut found = unrecognized_formats(new);
        found.retain(|format| !known.contains(format));
        found.iter().map(|f| format!("unrecognized format {}", crate::field::quoted(f))).collect()
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn generation_changes(&self, new: &Value, old: &Value) -> Option<bool> {
        Some(new.get("spec") != old.get("spec"))
    }

    /// The objects go first: the controller then takes its finalizer.
    fn deletion_ready(&self, object: &Value) -> bool {
        object.is_deleting() && !object.finalizers().contains(&CLEANUP)
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn mark_deleting(&self, object: &mut Value) {
        let mut finalizers: Vec<String> =
            object.finalizers().into_iter().map(str::to_owned).collect();
        if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
            finalizers.push(CLEANUP.to_owned());
        }
        let now = object.text(&["metadata", "deletionTimestamp"]).to_owned();
        let generation = object.at(&["metadata", "generation"]).and_then(Value::as_i64);
        let meta = object.meta_mut();
        meta.insert("finalizers".into(), json!(finalizers));
        // How long it takes depends on the objects, and nobody asked for another definition.
        meta.remove("deletionGracePeriodSeconds");
        meta.insert("generation".into(), (generation.unwrap_or(2) - 1).into());
        let text =
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
        set(object, &Condition::new("Terminating", true, "InstanceDeletionPending", text), &now);
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        vec![object.name().into(), object.text(&["metadata", "creationTimestamp"]).into()]
    }
}

/// The versions of a definition.
pub fn versions(object: &Value) -> impl Iterator<Item = &Value> {
    object.at(&["spec", "versions"]).and_then(Value::as_array).into_iter().flatten()
}

fn storage_version(object: &Value) -> Option<String> {
    let stored = versions(object).find(|version| version["storage"] == true)?;
    stored["name"].as_str().map(str::to_owned)
}

/// Formats that mean nothing to anybody.
fn unrecognized_formats(object: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for version in versions(object) {
        if let Some(schema) = version.at(&["schema", "openAPIV3Schema"]) {
            collect_formats(schema, &mut found);
        }
    }
    found
}

fn collect_formats(schema: &Value, found: &mut Vec<String>) {
    let types: Vec<Kind> = Kind::from_name(schema.text(&["type"])).into_iter().collect();
    let format = schema.text(&["format"]);
    let known = ["k8s-short-name", "k8s-long-name"].contains(&format);
    if !format.is_empty() && !known && !is_supported_format(format, &types) {
        found.push(format.to_owned());
    }
    below(schema).for_each(|(_, schema)| collect_formats(schema, found));
}

#[cfg(test)]
mod tests;
