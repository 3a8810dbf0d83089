//! Secret: bytes by key, with rules per type. No error text ever holds a value.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{
    ALL_VERBS,
    column::{self, AGE, NAME, age_cell, count, name_cell},
    key_pair,
    names::validate_data_key,
    object_meta::validate_finalizer_domains,
};
use crate::{
    field::FieldError,
    object::ObjectExt,
    resource::{Column, Resource, Rules, Scope, View, WriteContext},
    schema::{builtin, decode_bytes, decoded_len, encode_bytes, json_kind, parse_json},
};

/// All values of a Secret or ConfigMap together: the limit of upstream, well under what a store takes.
pub(super) const MAX_DATA_BYTES: usize = 1 << 20;

/// The type of secrets that hold a certificate and its key.
const TLS: &str = "kubernetes.io/tls";

pub(super) fn resource() -> Resource {
    Resource {
        storage: "secrets".into(),
        plural: "secrets".into(),
        singular: "secret".into(),
        kind: "Secret".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Namespaced,
        verbs: ALL_VERBS,
        subresources: &[],
        views: vec![View::new("", "v1", builtin("io.k8s.api.core.v1.Secret"))],
        rules: Arc::new(Secrets),
    }
}

static COLUMNS: [Column; 4] = [
    NAME,
    column::text("Type", "What the secret is for; it decides which keys must be there."),
    column::text("Data", "The number of keys."),
    AGE,
];

struct Secrets;

impl Rules for Secrets {
    fn apply_defaults(&self, object: &mut Value) {
        merge_string_data(object);
        if object.text(&["type"]).is_empty() {
            object["type"] = "Opaque".into();
        }
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let mut errors = validate_finalizer_domains(object);
        let empty = Map::new();
        let data = object.at(&["data"]).and_then(Value::as_object).unwrap_or(&empty);
        let mut total = 0;
        for (key, value) in data {
            for problem in validate_data_key(key) {
                errors.push(FieldError::invalid_str(format!("data[{key}]"), key, problem));
            }
            total += value.as_str().map_or(0, decoded_len);
        }
        if total > MAX_DATA_BYTES {
            errors.push(FieldError::too_long("data", MAX_DATA_BYTES));
        }
        validate_type(object, data, &mut errors);
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if new.text(&["type"]) != old.text(&["type"]) {
            errors.push(FieldError::invalid_str("type", new.text(&["type"]), "field is immutable"));
        }
        errors.extend(immutable_problems(new, old, &["data"]));
        errors.extend(self.validate(new, context));
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        if new.text(&["type"]) != TLS {
            return Vec::new();
        }
        let bytes = |key| decode_bytes(new.text(&["data", key])).unwrap_or_default();
        key_pair::problem(&bytes("tls.crt"), &bytes("tls.key")).into_iter().collect()
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let kind = object.text(&["type"]);
        vec![name_cell(object), kind.into(), count(object, "data").into(), age_cell(object, now)]
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["type"]
    }

    fn selectable_field(&self, object: &Value, field: &str) -> String {
        match field {
            "type" => object.text(&["type"]).to_owned(),
            _ => String::new(),
        }
    }
}

/// The problems of an update of an object that was once declared immutable.
pub(super) fn immutable_problems(new: &Value, old: &Value, fields: &[&str]) -> Vec<FieldError> {
    const PROBLEM: &str = "field is immutable when `immutable` is set";
    let is_immutable = |object: &Value| object.get("immutable") == Some(&Value::Bool(true));
    if !is_immutable(old) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if !is_immutable(new) {
        errors.push(FieldError::forbidden("immutable", PROBLEM));
    }
    for field in fields {
        if new.get(field) != old.get(field) {
            errors.push(FieldError::forbidden(*field, PROBLEM));
        }
    }
    errors
}

/// `stringData` is for writing only: its texts go into `data`, over what is there.
fn merge_string_data(object: &mut Value) {
    let Some(Value::Object(texts)) = object.as_object_mut().and_then(|o| o.remove("stringData"))
    else {
        return;
    };
    if texts.is_empty() {
        return;
    }
    if !object["data"].is_object() {
        object["data"] = Value::Object(Map::new());
    }
    for (key, text) in texts {
        if let Value::String(text) = text {
            object["data"][key] = encode_bytes(text).into();
        }
    }
}

/// The keys and annotations that the type of a secret asks for.
fn validate_type(object: &Value, data: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let missing: &[&str] = match object.text(&["type"]) {
        "kubernetes.io/service-account-token" => {
            const ACCOUNT: &str = "kubernetes.io/service-account.name";
            if object.text(&["metadata", "annotations", ACCOUNT]).is_empty() {
                let path = format!("metadata.annotations[{ACCOUNT}]");
                errors.push(FieldError::required(path, ""));
            }
            return;
        }
        "kubernetes.io/dockercfg" => return validate_docker_config(data, ".dockercfg", errors),
        "kubernetes.io/dockerconfigjson" => {
            return validate_docker_config(data, ".dockerconfigjson", errors);
        }
        // Either may be missing, but not both.
        "kubernetes.io/basic-auth"
            if data.contains_key("username") || data.contains_key("password") =>
        {
            return;
        }
        "kubernetes.io/basic-auth" => &["username", "password"],
        // Here an empty key is no key.
        "kubernetes.io/ssh-auth" if object.text(&["data", "ssh-privatekey"]).is_empty() => {
            errors.push(FieldError::required("data[ssh-privatekey]", ""));
            return;
        }
        TLS => &["tls.crt", "tls.key"],
        _ => return,
    };
    for key in missing.iter().filter(|key| !data.contains_key(**key)) {
        errors.push(FieldError::required(format!("data[{key}]"), ""));
    }
}

/// The configuration of a container registry client must be a JSON object.
fn validate_docker_config(data: &Map<String, Value>, key: &str, errors: &mut Vec<FieldError>) {
    let path = format!("data[{key}]");
    let Some(text) = data.get(key).and_then(Value::as_str) else {
        errors.push(FieldError::required(path, ""));
        return;
    };
    let bytes = decode_bytes(text).unwrap_or_default();
    let problem = match parse_json(&bytes) {
        Ok(parsed) if parsed.value.is_object() || parsed.value.is_null() => return,
        Ok(parsed) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_kind(&parsed.value)
        ),
        Err(error) => error.to_string(),
    };
    errors.push(FieldError::invalid_str(path, "<secret contents redacted>", problem));
}
