//! ConfigMap: text and bytes by key.

use std::sync::Arc;

use serde_json::Value;

use super::{
    ALL_VERBS,
    column::{self, AGE, NAME, age_cell, count, name_cell},
    names::validate_data_key,
    object_meta::validate_finalizer_domains,
    secret::{MAX_DATA_BYTES, immutable_problems},
};
use crate::{
    field::FieldError,
    name::names,
    object::ObjectExt,
    resource::{Column, Resource, Rules, Scope, View, WriteContext},
    schema::{builtin, decoded_len},
};

pub(super) fn resource() -> Resource {
    Resource {
        storage: "configmaps".into(),
        plural: "configmaps".into(),
        singular: "configmap".into(),
        kind: "ConfigMap".into(),
        short_names: names(&["cm"]),
        categories: Vec::new(),
        scope: Scope::Namespaced,
        verbs: ALL_VERBS,
        subresources: &[],
        views: vec![View::new("", "v1", builtin("io.k8s.api.core.v1.ConfigMap"))],
        rules: Arc::new(ConfigMaps),
    }
}

static COLUMNS: [Column; 3] = [NAME, column::text("Data", "The number of keys."), AGE];

struct ConfigMaps;

impl Rules for ConfigMaps {
    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let mut errors = validate_finalizer_domains(object);
        let mut total = 0;
        let binary = entries(object, "binaryData");
        for (key, value) in entries(object, "data").into_iter().flatten() {
            check_key("data", key, &mut errors);
            if binary.is_some_and(|binary| binary.contains_key(key)) {
                let problem = "duplicate of key present in binaryData";
                errors.push(FieldError::invalid_str(format!("data[{key}]"), key, problem));
            }
            total += value.as_str().map_or(0, str::len);
        }
        for (key, value) in binary.into_iter().flatten() {
            check_key("binaryData", key, &mut errors);
            total += value.as_str().map_or(0, decoded_len);
        }
        if total > MAX_DATA_BYTES {
            // Upstream's way to say that this is about the whole object.
            errors.push(FieldError::too_long("[]", MAX_DATA_BYTES));
        }
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        let mut errors = immutable_problems(new, old, &["data", "binaryData"]);
        errors.extend(self.validate(new, context));
        errors
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let keys = count(object, "data") + count(object, "binaryData");
        vec![name_cell(object), keys.into(), age_cell(object, now)]
    }
}

fn entries<'a>(object: &'a Value, field: &str) -> Option<&'a serde_json::Map<String, Value>> {
    object.at(&[field]).and_then(Value::as_object)
}

fn check_key(field: &str, key: &str, errors: &mut Vec<FieldError>) {
    for problem in validate_data_key(key) {
        errors.push(FieldError::invalid_str(format!("{field}[{key}]"), key, problem));
    }
}
