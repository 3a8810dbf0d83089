//! Whether the defaults of a schema are values that it allows.

use serde_json::Value;

use super::openapi::{child, key};
use crate::{
    field::FieldError,
    structural::{Checker, Expressions, Node, coerce, prune, validate_embedded},
};

/// The defaults that are not what their schema asks for.
pub(super) fn problems(path: &str, schema: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(path, schema, &mut errors);
    errors
}

/// Defaults below `additionalProperties` are not looked at: they are forbidden or never applied.
fn check(path: &str, schema: &Value, errors: &mut Vec<FieldError>) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        check_default(&child(path, "default"), default, schema, errors);
    }
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        check(&child(path, "items"), items, errors);
    }
    for (name, property) in
        schema.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        check(&key(path, "properties", name), property, errors);
    }
}

fn check_default(path: &str, default: &Value, schema: &Value, errors: &mut Vec<FieldError>) {
    let node = Node::parse(schema);
    let mut pruned = default.clone();
    // The value stands for a field: what looks like metadata in it is no metadata unless it is embedded.
    let mut wrapped = Node::default();
    wrapped.properties.insert("value".to_owned(), node);
    let mut holder = serde_json::json!({"value": pruned.take()});
    let unknown = prune(&mut holder, &wrapped);
    let Some(node) = wrapped.properties.get("value") else { return };
    if !unknown.is_empty() {
        errors.push(FieldError::invalid(path, default, "must not have unknown fields"));
    }
    let mut coerced = default.clone();
    if let Err(error) = coerce(&mut coerced, node) {
        errors.push(within(path, error));
        return;
    }
    let embedded = validate_embedded(default, node);
    if !embedded.is_empty() {
        errors.extend(embedded.into_iter().map(|error| within(path, error)));
        return;
    }
    let problems = Checker { base: path }.check(default, None, node);
    if !problems.is_empty() {
        errors.extend(problems);
        return;
    }
    let Some(expressions) = Expressions::compile(node, node.embedded) else { return };
    // As a value that stays, and as one that is new.
    let kept = expressions.validate(path, default, Some(default));
    let added = || expressions.validate(path, default, None);
    errors.extend(if kept.is_empty() { added() } else { kept });
}

fn within(path: &str, error: FieldError) -> FieldError {
    let path = match error.path.as_str() {
        "" | "<nil>" => path.to_owned(),
        below if below.starts_with('[') => format!("{path}{below}"),
        below => child(path, below),
    };
    FieldError { path, ..error }
}
