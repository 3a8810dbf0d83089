//! ServiceAccount: an identity for programs.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    ALL_VERBS,
    column::{AGE, NAME, age_cell, name_cell},
    object_meta::validate_finalizer_domains,
};
use crate::{
    field::FieldError,
    name::names,
    object::ObjectExt,
    resource::{Column, Resource, Rules, Scope, View, WriteContext},
    schema::builtin,
};

pub(super) fn resource() -> Resource {
    Resource {
        storage: "serviceaccounts".into(),
        plural: "serviceaccounts".into(),
        singular: "serviceaccount".into(),
        kind: "ServiceAccount".into(),
        short_names: names(&["sa"]),
        categories: Vec::new(),
        scope: Scope::Namespaced,
        verbs: ALL_VERBS,
        subresources: &[],
        views: vec![View::new("", "v1", builtin("io.k8s.api.core.v1.ServiceAccount"))],
        rules: Arc::new(ServiceAccounts),
    }
}

static COLUMNS: [Column; 2] = [NAME, AGE];

const MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

struct ServiceAccounts;

impl Rules for ServiceAccounts {
    fn returns_deleted(&self) -> bool {
        true
    }

    fn prepare_create(&self, object: &mut Value) {
        keep_only_secret_names(object);
    }

    fn prepare_update(&self, new: &mut Value, _old: &Value, _context: WriteContext<'_>) {
        keep_only_secret_names(new);
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        validate_finalizer_domains(object)
    }

    fn validate_update(
        &self,
        new: &Value,
        _old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        self.validate(new, context)
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated =
            |object: &Value| object.at(&["metadata", "annotations", MOUNTABLE_SECRETS]).is_some();
        if !annotated(new) || old.is_some_and(annotated) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate \
             namespaces to isolate access to mounted secrets"
        )]
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        vec![name_cell(object), age_cell(object, now)]
    }
}

/// A reference to a secret is its name: it is always in the namespace of the account.
fn keep_only_secret_names(object: &mut Value) {
    let secrets = object.get_mut("secrets").and_then(Value::as_array_mut);
    for secret in secrets.into_iter().flatten() {
        *secret = match secret.text(&["name"]) {
            "" => json!({}),
            name => json!({"name": name}),
        };
    }
}
