//! The rules of events: lenient for the core view, as old clients need it, strict for the newer one.

use serde_json::Value;

use super::EVENTS_GROUP;
use crate::{
    field::{FieldError, json_text},
    object::ObjectExt,
    resource::{NameRule, Scope, View},
    schema::{Struct, builtin},
    types::{
        names::{dns_subdomain, validate_label_key},
        object_meta::{validate_create, validate_finalizer_domains},
    },
};

const MAX_SHORT_TEXT: usize = 128;
const MAX_NOTE: usize = 1024;

/// The problems of a new event.
pub(super) fn create(event: &Value, view: &View) -> Vec<FieldError> {
    let mut errors = legacy(event, view);
    if view.group != EVENTS_GROUP {
        return errors;
    }
    errors.extend(validate_create(event, Scope::Namespaced, NameRule::DnsSubdomain));
    errors.extend(validate_finalizer_domains(event));
    errors.extend(series(event));
    if !is_set(event, "eventTime") {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = event.text(&["type"]);
    if !matches!(kind, "Normal" | "Warning") {
        let problem = format!("has invalid value: {kind}");
        errors.push(FieldError::invalid_str("type", "", problem));
    }
    let has_source =
        ["component", "host"].iter().any(|field| !event.text(&["source", field]).is_empty());
    let has_count = event.get("count").and_then(Value::as_i64).unwrap_or(0) != 0;
    let must_be_unset = [
        ("firstTimestamp", is_set(event, "firstTimestamp")),
        ("lastTimestamp", is_set(event, "lastTimestamp")),
        ("count", has_count),
        ("source", has_source),
    ];
    for (field, set) in must_be_unset {
        if set {
            errors.push(FieldError::invalid_str(field, "", "needs to be unset"));
        }
    }
    errors
}

/// The problems of a changed event.
pub(super) fn update(new: &Value, old: &Value, view: &View) -> Vec<FieldError> {
    let mut errors = legacy(new, view);
    if view.group != EVENTS_GROUP {
        return errors;
    }
    errors.extend(validate_finalizer_domains(new));
    if new.get("series") != old.get("series") {
        errors.extend(series(new));
    }
    for (field, shown_as) in IMMUTABLE {
        let changed = !same(new.get(field), old.get(field));
        if changed {
            let shown = shown(field, new.get(field));
            errors.push(FieldError::invalid_json(*shown_as, &shown, "field is immutable"));
        }
    }
    errors
}

/// Fields of the stored form that may not change through the newer view, and what errors call them.
const IMMUTABLE: &[(&str, &str)] = &[
    ("involvedObject", "involvedObject"),
    ("reason", "reason"),
    ("message", "message"),
    ("source", "source"),
    ("firstTimestamp", "firstTimestamp"),
    ("lastTimestamp", "lastTimestamp"),
    ("count", "count"),
    ("type", "type"),
    ("eventTime", "eventTime"),
    ("action", "action"),
    ("related", "related"),
    ("reportingComponent", "reportingController"),
    ("reportingInstance", "reportingInstance"),
];

/// The rules that hold for every event.
fn legacy(event: &Value, view: &View) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let namespace = event.namespace();
    let about = event.text(&["involvedObject", "namespace"]);
    let namespaces_agree = match (is_set(event, "eventTime"), about) {
        (false, "") => matches!(namespace, "" | "default"),
        (false, about) => namespace == about,
        (true, "") => matches!(namespace, "default" | "kube-system"),
        (true, _) => true,
    };
    if !namespaces_agree {
        let problem = "does not match event.namespace";
        errors.push(FieldError::invalid_str("involvedObject.namespace", about, problem));
    }
    if is_set(event, "eventTime") {
        report(event, view, &mut errors);
    }
    for problem in dns_subdomain(namespace, "characters") {
        errors.push(FieldError::invalid_str("namespace", namespace, problem));
    }
    errors
}

/// What an event in the newer manner must tell about its reporter.
fn report(event: &Value, view: &View, errors: &mut Vec<FieldError>) {
    let controller = event.text(&["reportingComponent"]);
    let path =
        if view.group == EVENTS_GROUP { "reportingController" } else { "reportingComponent" };
    if controller.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    for problem in validate_label_key(controller) {
        errors.push(FieldError::invalid_str(path, controller, problem));
    }
    let texts = [
        ("reportingInstance", MAX_SHORT_TEXT, true),
        ("action", MAX_SHORT_TEXT, true),
        ("reason", MAX_SHORT_TEXT, true),
        ("message", MAX_NOTE, false),
    ];
    for (field, limit, required) in texts {
        let text = event.text(&[field]);
        if required && text.is_empty() {
            errors.push(FieldError::required(field, ""));
        }
        if text.len() > limit {
            let problem = format!("can have at most {limit} characters");
            errors.push(FieldError::invalid_str(field, "", problem));
        }
    }
}

fn series(event: &Value) -> Vec<FieldError> {
    let Some(series) = event.get("series").filter(|series| series.is_object()) else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    if series.get("count").and_then(Value::as_i64).unwrap_or(0) < 2 {
        errors.push(FieldError::invalid_str("series.count", "", "should be at least 2"));
    }
    if series.text(&["lastObservedTime"]).is_empty() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
    errors
}

fn is_set(event: &Value, time: &str) -> bool {
    !event.text(&[time]).is_empty()
}

/// Whether two values of a field are the same, with null and missing alike.
fn same(new: Option<&Value>, old: Option<&Value>) -> bool {
    let some = |value: Option<&Value>| value.filter(|value| !value.is_null()).cloned();
    some(new) == some(old)
}

/// A value as upstream shows it: its internal types have no JSON names, so Go's stand in.
fn shown(field: &str, value: Option<&Value>) -> String {
    let null = Value::Null;
    let value = value.unwrap_or(&null);
    match (field, value) {
        ("involvedObject" | "related", Value::Object(_)) => {
            go_struct(builtin("io.k8s.api.core.v1.ObjectReference"), value)
        }
        ("source", Value::Object(_)) => go_struct(builtin("io.k8s.api.core.v1.EventSource"), value),
        ("count", Value::Null) => "0".into(),
        ("firstTimestamp" | "lastTimestamp" | "eventTime" | "related", Value::Null) => {
            "null".into()
        }
        (_, Value::Null) => "\"\"".into(),
        (_, Value::String(text)) => crate::field::quoted(text),
        (_, other) => json_text(other),
    }
}

/// A struct of strings with the names of its Go fields: `apiVersion` is `APIVersion` there.
fn go_struct(fields: &Struct, value: &Value) -> String {
    let entries: Vec<_> = fields
        .fields()
        .iter()
        .map(|field| {
            let text = Value::from(value.text(&[field.name]));
            format!("\"{}\":{}", go_field_name(field.name), json_text(&text))
        })
        .collect();
    format!("{{{}}}", entries.join(","))
}

/// The name of a Go field by its JSON name.
fn go_field_name(name: &str) -> String {
    match name {
        "uid" => "UID".into(),
        "apiVersion" => "APIVersion".into(),
        _ => name[..1].to_uppercase() + &name[1..],
    }
}
