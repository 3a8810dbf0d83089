//! Resources inside of resources: their type and metadata are those of any object.

use serde_json::Value;

use super::{Additional, Node, lists::child};
use crate::{
    field::FieldError,
    object::ObjectExt,
    resource::{NameRule, Scope},
    schema,
    types::{object_meta, validate_name},
};

/// Brings the metadata of an object into its form; says which fields it does not have.
///
/// # Errors
/// When a field has the wrong type.
pub fn coerce_metadata(object: &mut Value) -> Result<Vec<String>, String> {
    let Some(fields) = object.as_object_mut() else { return Ok(Vec::new()) };
    let Some(metadata) = fields.get_mut("metadata") else { return Ok(Vec::new()) };
    let table = schema::builtin("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let conformed = table.conform(metadata.take());
    let conformed = conformed.map_err(|mismatch| mismatch.to_string())?;
    *metadata = conformed.value;
    if let Some(map) = metadata.as_object_mut()
        && map.get("creationTimestamp").is_some_and(Value::is_null)
    {
        map.remove("creationTimestamp");
    }
    Ok(conformed.unknown.into_iter().map(|path| format!("metadata.{path}")).collect())
}

/// Brings the metadata of embedded resources into its form; says which fields it does not have.
///
/// # Errors
/// When a field has the wrong type.
pub fn coerce(value: &mut Value, schema: &Node) -> Result<Vec<String>, FieldError> {
    let mut unknown = Vec::new();
    walk("", value, schema, &mut unknown)?;
    unknown.sort();
    Ok(unknown)
}

fn walk(
    path: &str,
    value: &mut Value,
    schema: &Node,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    if !schema.embeds {
        return Ok(());
    }
    if schema.embedded && value.is_object() {
        for field in ["apiVersion", "kind"] {
            if let Some(found) = value.get(field).filter(|found| !found.is_string()) {
                let path = child(path, field);
                return Err(FieldError::invalid(path, found, "must be a string"));
            }
        }
        let before = value.get("metadata").cloned().unwrap_or_default();
        let found = coerce_metadata(value)
            .map_err(|why| FieldError::invalid(child(path, "metadata"), &before, why))?;
        unknown.extend(found.iter().map(|field| child(path, field)));
    }
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                if let Some(property) = schema.properties.get(name) {
                    walk(&child(path, name), value, property, unknown)?;
                } else if let Additional::Schema(schema) = &schema.additional {
                    walk(&format!("{path}[{name}]"), value, schema, unknown)?;
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return Ok(()) };
            for (at, item) in items.iter_mut().enumerate() {
                walk(&format!("{path}[{at}]"), item, schema, unknown)?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// What is wrong with embedded resources.
pub fn validate_embedded(value: &Value, schema: &Node) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate("", value, schema, &mut errors);
    errors
}

fn validate(path: &str, value: &Value, schema: &Node, errors: &mut Vec<FieldError>) {
    if !schema.embeds {
        return;
    }
    match value {
        Value::Object(map) => {
            if schema.embedded {
                validate_resource(path, value, errors);
            }
            for (name, value) in map {
                if let Some(property) = schema.properties.get(name) {
                    validate(&child(path, name), value, property, errors);
                } else if let Additional::Schema(schema) = &schema.additional {
                    validate(&format!("{path}[{name}]"), value, schema, errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for (at, item) in items.iter().enumerate() {
                validate(&format!("{path}[{at}]"), item, schema, errors);
            }
        }
        _ => {}
    }
}

fn validate_resource(path: &str, object: &Value, errors: &mut Vec<FieldError>) {
    let version = child(path, "apiVersion");
    match object.get("apiVersion") {
        None => errors.push(FieldError::required(version, "")),
        Some(Value::String(text)) if text.is_empty() => {
            errors.push(FieldError::invalid_str(version, text, "must not be empty"));
        }
        Some(Value::String(text)) if text.matches('/').count() > 1 => {
            let problem = format!("unexpected GroupVersion string: {text}");
            errors.push(FieldError::invalid_str(version, text, problem));
        }
        Some(Value::String(_)) => {}
        Some(other) => errors.push(FieldError::invalid(version, other, "must be a string")),
    }
    let kind = child(path, "kind");
    match object.get("kind") {
        None => errors.push(FieldError::required(kind, "")),
        Some(Value::String(text)) if text.is_empty() => {
            errors.push(FieldError::invalid_str(kind, text, "must not be empty"));
        }
        Some(Value::String(text)) => {
            let problems = validate_name(NameRule::Dns1035Label, &text.to_lowercase());
            if !problems.is_empty() {
                let problems = problems.join(",");
                let problem =
                    format!("may have mixed case, but should otherwise match: {problems}");
                errors.push(FieldError::invalid_str(kind, text, problem));
            }
        }
        Some(other) => errors.push(FieldError::invalid(kind, other, "must be a string")),
    }
    if object.get("metadata").is_some() {
        let mut object = object.clone();
        if object.name().is_empty() {
            object.meta_mut().insert("name".into(), "fakename".into());
        }
        let scope = match object.namespace() {
            "" => Scope::Cluster,
            _ => Scope::Namespaced,
        };
        let found = object_meta::validate_create(&object, scope, NameRule::PathSegment);
        errors.extend(
            found.into_iter().map(|error| FieldError { path: child(path, &error.path), ..error }),
        );
    }
}
