//! The rules of access reviews: what must be asked, and what may not be said.

use serde_json::{Value, json};

use super::Review;
use crate::{field::FieldError, object::ObjectExt};

/// What is wrong with a review.
pub(super) fn problems(review: Review, object: &Value) -> Vec<FieldError> {
    let names_subject = matches!(review, Review::SubjectAccess | Review::LocalSubjectAccess);
    if !names_subject && review != Review::SelfSubjectAccess {
        return Vec::new();
    }
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let mut errors = attributes(spec);
    if names_subject && spec.text(&["user"]).is_empty() && spec.get("groups").is_none() {
        let text = "at least one of user or group must be specified";
        errors.push(FieldError::invalid_str("spec.user", "", text));
    }
    for field in ["fieldSelector", "labelSelector"] {
        errors.extend(selector(spec, field));
    }
    let local = review == Review::LocalSubjectAccess;
    errors.extend(metadata(object, local));
    if local {
        errors.extend(locality(object, spec));
    }
    errors
}

fn attributes(spec: &Value) -> Vec<FieldError> {
    let both = "cannot be specified in combination with resourceAttributes";
    let none = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
    match (spec.get("resourceAttributes"), spec.get("nonResourceAttributes")) {
        (Some(_), Some(path)) => {
            vec![FieldError::invalid("spec.nonResourceAttributes", &shown(path), both)]
        }
        (None, None) => {
            vec![FieldError::invalid("spec.resourceAttributes", &Value::Null, none)]
        }
        _ => Vec::new(),
    }
}

/// The attributes of a path as upstream's internal type shows them.
fn shown(path: &Value) -> Value {
    json!({"Path": path.text(&["path"]), "Verb": path.text(&["verb"])})
}

fn selector(spec: &Value, field: &str) -> Option<FieldError> {
    let selector = spec.at(&["resourceAttributes", field])?;
    let path = format!("spec.resourceAttributes.{field}");
    let raw = selector.text(&["rawSelector"]);
    match (raw, selector.get("requirements")) {
        ("", None) => {
            let text = format!("when {path} is specified, requirements or rawSelector is required");
            Some(FieldError::required(format!("{path}.requirements"), text))
        }
        ("", _) | (_, None) => None,
        (raw, Some(_)) => {
            let text = "may not specified at the same time as requirements";
            Some(FieldError::invalid_str(format!("{path}.rawSelector"), raw, text))
        }
    }
}

fn metadata(object: &Value, local: bool) -> Option<FieldError> {
    let given = object.meta()?;
    let mut others = given.keys().filter(|field| !(local && *field == "namespace"));
    let text = if local { "must be empty except for namespace" } else { "must be empty" };
    others.next()?;
    Some(FieldError::invalid("metadata", &Value::Object(given.clone()), text))
}

fn locality(object: &Value, spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(asked) = spec.get("resourceAttributes")
        && asked.text(&["namespace"]) != object.namespace()
    {
        let path = "spec.resourceAttributes.namespace";
        let text = "must match metadata.namespace";
        errors.push(FieldError::invalid_str(path, asked.text(&["namespace"]), text));
    }
    if let Some(path) = spec.get("nonResourceAttributes") {
        let text = "disallowed on this kind of request";
        errors.push(FieldError::invalid("spec.nonResourceAttributes", &shown(path), text));
    }
    errors
}
