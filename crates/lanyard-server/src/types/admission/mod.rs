//! Configurations of admission webhooks: stored and checked.

mod client_config;
pub(super) mod conditions;
pub(super) mod rules;
mod webhook;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    ALL_VERBS,
    column::{AGE, NAME, age_cell, count, name_cell},
};
use crate::{
    field::{FieldError, quoted},
    name::names,
    object::ObjectExt,
    resource::{Column, Resource, Rules, Scope, View, WriteContext},
    schema::builtin,
};

/// The group of all kinds that take part in admission.
const GROUP: &str = "admissionregistration.k8s.io";

/// The end of names that are kept for configurations in files.
const STATIC_SUFFIX: &str = ".static.k8s.io";

pub(super) fn validating_webhooks() -> Resource {
    resource("validatingwebhookconfiguration", "ValidatingWebhookConfiguration", false)
}

pub(super) fn mutating_webhooks() -> Resource {
    resource("mutatingwebhookconfiguration", "MutatingWebhookConfiguration", true)
}

fn resource(singular: &'static str, kind: &'static str, mutating: bool) -> Resource {
    let plural = format!("{singular}s");
    Resource {
        storage: format!("{plural}.{GROUP}").into(),
        plural: plural.into(),
        singular: singular.into(),
        kind: kind.into(),
        short_names: Vec::new(),
        categories: names(&["api-extensions"]),
        scope: Scope::Cluster,
        verbs: ALL_VERBS,
        subresources: &[],
        views: vec![View::new(
            GROUP,
            "v1",
            builtin(&format!("io.k8s.api.admissionregistration.v1.{kind}")),
        )],
        rules: Arc::new(Webhooks { mutating }),
    }
}

static COLUMNS: [Column; 3] = [
    NAME,
    Column {
        name: "Webhooks",
        kind: "integer",
        format: "",
        description: "The number of webhooks.",
        priority: 0,
    },
    AGE,
];

/// Both kinds; those that change objects have one choice more.
struct Webhooks {
    mutating: bool,
}

impl Rules for Webhooks {
    fn apply_defaults(&self, object: &mut Value) {
        let hooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
        for hook in hooks.into_iter().flatten().filter(|hook| hook.is_object()) {
            default(hook, "failurePolicy", || "Fail".into());
            default(hook, "matchPolicy", || "Equivalent".into());
            default(hook, "namespaceSelector", || json!({}));
            default(hook, "objectSelector", || json!({}));
            default(hook, "timeoutSeconds", || 10.into());
            if self.mutating {
                default(hook, "reinvocationPolicy", || "Never".into());
            }
            let rules = hook.get_mut("rules").and_then(Value::as_array_mut);
            for rule in rules.into_iter().flatten().filter(|rule| rule.is_object()) {
                default(rule, "scope", || "*".into());
            }
            if let Some(service) = hook.pointer_mut("/clientConfig/service")
                && service.is_object()
            {
                default(service, "port", || 443.into());
            }
        }
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        webhook::validate(object, None, self.mutating)
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        _context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        webhook::validate(new, Some(old), self.mutating)
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        let reserved = new.name().ends_with(STATIC_SUFFIX);
        let warning = || {
            format!(
                "metadata.name: names ending with {} are reserved for static manifest-based \
                 configurations and cannot be managed via the API",
                quoted(STATIC_SUFFIX)
            )
        };
        reserved.then(warning).into_iter().collect()
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn generation_changes(&self, new: &Value, old: &Value) -> Option<bool> {
        Some(new.get("webhooks") != old.get("webhooks"))
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        vec![name_cell(object), count(object, "webhooks").into(), age_cell(object, now)]
    }
}

/// Sets a field that is not there.
fn default(object: &mut Value, field: &str, value: impl FnOnce() -> Value) {
    if object.get(field).is_none_or(Value::is_null) {
        object[field] = value();
    }
}
