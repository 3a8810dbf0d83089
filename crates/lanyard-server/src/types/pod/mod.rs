//! Pod: containers that run together. Nothing here runs them; agents on nodes do, elsewhere.
//!
//! One file per part of the spec. Rules that only matter to Windows, to AppArmor and seccomp annotations,
//! and to volumes of vendors are not checked beyond required fields.

mod columns;
mod containers;
mod defaults;
mod env;
mod handlers;
mod quality;
mod scheduling;
mod security;
mod spec;
mod update;
mod volumes;
mod warnings;

use std::sync::Arc;

use serde_json::{Value, json};

pub(super) use defaults::default_pod_spec;
pub(super) use scheduling::validate_effect;
pub(super) use spec::validate_template;
pub(super) use warnings::spec_warnings;

use super::{
    ALL_VERBS,
    object_meta::validate_finalizer_domains,
    path::{Path, flag, items, keep, number, same},
};
use crate::{
    field::FieldError,
    name::names,
    object::ObjectExt,
    resource::{Column, NameRule, Resource, Rules, Scope, Subresource, View, WriteContext},
    schema::builtin,
    types::validate_name,
};

pub(super) fn resource() -> Resource {
    Resource {
        storage: "pods".into(),
        plural: "pods".into(),
        singular: "pod".into(),
        kind: "Pod".into(),
        short_names: names(&["po"]),
        categories: names(&["all"]),
        scope: Scope::Namespaced,
        verbs: ALL_VERBS,
        subresources: &[Subresource::Status],
        views: vec![View::new("", "v1", builtin("io.k8s.api.core.v1.Pod"))],
        rules: Arc::new(Pods),
    }
}

struct Pods;

impl Rules for Pods {
    fn apply_defaults(&self, object: &mut Value) {
        default_pod_spec(&mut object["spec"]);
        defaults::default_pod(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"phase": "Pending", "qosClass": quality::class(&object["spec"])});
        if !items(&object["spec"], "schedulingGates").is_empty() {
            object["status"]["conditions"] = json!([{
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": null,
                "lastTransitionTime": null,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]);
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        if context.subresource.is_none() {
            keep(new, old, "status");
            // What admission set stays when a client leaves it out.
            for field in ["priority", "preemptionPolicy"] {
                if new.at(&["spec", field]).is_none()
                    && let Some(value) = old.at(&["spec", field])
                {
                    new["spec"][field] = value.clone();
                }
            }
            return;
        }
        keep(new, old, "spec");
        match old.at(&["metadata", "ownerReferences"]) {
            Some(owners) => new["metadata"]["ownerReferences"] = owners.clone(),
            None => drop(new.meta_mut().remove("ownerReferences")),
        }
        if new.text(&["status", "qosClass"]).is_empty() {
            keep(&mut new["status"], &old["status"], "qosClass");
        }
        if number(&new["status"], "observedGeneration") == 0 {
            keep(&mut new["status"], &old["status"], "observedGeneration");
        }
    }

    fn reset_fields(&self, subresource: Option<Subresource>) -> &'static [&'static [&'static str]] {
        match subresource {
            Some(Subresource::Status) => {
                &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
            }
            _ => &[&["status"]],
        }
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let mut errors = validate_finalizer_domains(object);
        errors.extend(spec::validate_pod(object));
        let (spec, path) = (&object["spec"], Path::new("spec"));
        if !items(spec, "ephemeralContainers").is_empty() {
            let at = path.child("ephemeralContainers");
            errors.push(FieldError::forbidden(at, "cannot be set on create"));
        }
        let gated = !items(spec, "schedulingGates").is_empty();
        if gated && !spec.text(&["nodeName"]).is_empty() {
            let problem = "cannot be set until all schedulingGates have been cleared";
            errors.push(FieldError::forbidden(path.child("nodeName"), problem));
        }
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        match context.subresource {
            None => {
                let mut errors = validate_finalizer_domains(new);
                errors.extend(update::validate_change(new, old));
                errors
            }
            Some(_) => update::validate_status(new, old),
        }
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        let problems = validate_name(NameRule::DnsLabel, new.name());
        if !problems.is_empty() {
            warnings.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising \
                 behavior; a DNS label is recommended: [{}]",
                problems.join(" ")
            ));
        }
        warnings.extend(spec_warnings(&new["spec"], &Path::new("spec")));
        warnings
    }

    fn generation_changes(&self, new: &Value, old: &Value) -> Option<bool> {
        Some(!same(&new["spec"], &old["spec"]))
    }

    fn grace_period(&self, pod: &Value, asked: Option<i64>) -> Option<i64> {
        let over = matches!(pod.text(&["status", "phase"]), "Failed" | "Succeeded");
        if over || pod.text(&["spec", "nodeName"]).is_empty() {
            return Some(0);
        }
        let own = pod.at(&["spec", "terminationGracePeriodSeconds"]).and_then(Value::as_i64);
        match asked.or(own).unwrap_or(0) {
            ..0 => Some(1),
            seconds => Some(seconds),
        }
    }

    fn deletion_ready(&self, pod: &Value) -> bool {
        number(&pod["metadata"], "deletionGracePeriodSeconds") == 0
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn columns(&self) -> &'static [Column] {
        &columns::COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        columns::cells(object, now)
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ]
    }

    fn selectable_field(&self, object: &Value, field: &str) -> String {
        match (field, field.split_once('.')) {
            ("spec.hostNetwork", _) => flag(&object["spec"], "hostNetwork").to_string(),
            ("status.podIP", _) => {
                let addresses = items(&object["status"], "podIPs");
                addresses.first().map_or("", |address| address.text(&["ip"])).to_owned()
            }
            (_, Some((part, field))) => object.text(&[part, field]).to_owned(),
            _ => String::new(),
        }
    }
}
