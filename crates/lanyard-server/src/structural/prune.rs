//! Dropping what a schema does not know, and filling in what it says is there by default.

use serde_json::Value;

use super::{Additional, Node};

/// The fields that every resource has, whatever its schema says.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// At most this many unknown fields are told of.
const MAX_UNKNOWN: usize = 100;

/// Drops the fields of an object that its schema does not know; says which, sorted.
pub fn prune(object: &mut Value, schema: &Node) -> Vec<String> {
    let mut unknown = Vec::new();
    prune_below(object, Some(schema), true, &mut unknown);
    unknown.sort();
    unknown
}

/// Paths are made from the inside out, so that objects without unknown fields cost none.
fn prune_below(value: &mut Value, schema: Option<&Node>, root: bool, unknown: &mut Vec<String>) {
    // Below a schema that keeps what it does not know, what it does know is pruned all the same.
    let keeps = schema.is_some_and(|schema| schema.preserve_unknown);
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let Some(schema) = schema else {
                record(name, unknown);
                return false;
            };
            if (root || schema.embedded) && META_FIELDS.contains(&name.as_str()) {
                return true;
            }
            match below(schema, name) {
                (true, below) => {
                    let first = unknown.len();
                    prune_below(value, below, false, unknown);
                    prefix(name, &mut unknown[first..]);
                    true
                }
                (false, _) if keeps => true,
                (false, _) => {
                    record(name, unknown);
                    false
                }
            }
        }),
        Value::Array(items) => {
            let below = schema.and_then(|schema| schema.items.as_deref());
            if keeps && below.is_none() {
                return;
            }
            for (at, item) in items.iter_mut().enumerate() {
                let first = unknown.len();
                match below {
                    Some(below) if keeps => keep_below(item, below, unknown),
                    below => prune_below(item, below, false, unknown),
                }
                if unknown.len() > first {
                    prefix(&format!("[{at}]"), &mut unknown[first..]);
                }
            }
        }
        _ => {}
    }
}

/// The items of a list that keeps what it does not know keep it too, at their first level.
fn keep_below(value: &mut Value, schema: &Node, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                if schema.embedded && META_FIELDS.contains(&name.as_str()) {
                    continue;
                }
                if let (true, below) = below(schema, name) {
                    let first = unknown.len();
                    prune_below(value, below, false, unknown);
                    prefix(name, &mut unknown[first..]);
                }
            }
        }
        Value::Array(items) => {
            let Some(below) = schema.items.as_deref() else { return };
            for (at, item) in items.iter_mut().enumerate() {
                let first = unknown.len();
                keep_below(item, below, unknown);
                if unknown.len() > first {
                    prefix(&format!("[{at}]"), &mut unknown[first..]);
                }
            }
        }
        _ => {}
    }
}

fn record(name: &str, unknown: &mut Vec<String>) {
    if unknown.len() < MAX_UNKNOWN {
        unknown.push(name.to_owned());
    }
}

fn prefix(part: &str, paths: &mut [String]) {
    for path in paths {
        let dot = if path.starts_with('[') { "" } else { "." };
        *path = format!("{part}{dot}{path}");
    }
}

/// Whether a field is known, and its schema if there is one.
fn below<'a>(schema: &'a Node, name: &str) -> (bool, Option<&'a Node>) {
    match (schema.properties.get(name), &schema.additional) {
        (Some(property), _) => (true, Some(property)),
        (None, Additional::Schema(schema)) => (true, Some(schema)),
        (None, Additional::Allowed(_)) => (true, None),
        (None, Additional::Unsaid) => (false, None),
    }
}

/// Drops nulls that are neither allowed nor replaced by a default, and brings numbers into their form.
pub fn drop_nulls(value: &mut Value, schema: Option<&Node>) {
    match value {
        Value::Object(map) => map.retain(|name, value| {
            let below = schema.and_then(|schema| schema.field(name));
            let dropped = |below: &Node| !below.nullable && below.default.is_none();
            if value.is_null() && below.is_some_and(dropped) {
                return false;
            }
            drop_nulls(value, below);
            true
        }),
        Value::Array(items) => {
            let below = schema.and_then(|schema| schema.items.as_deref());
            items.iter_mut().for_each(|item| drop_nulls(item, below));
        }
        // A float without a fraction is an integer when it is read back.
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 9e15);
            if let Some(whole) = whole {
                *value = (whole as i64).into();
            }
        }
        _ => {}
    }
}

/// Fills in the defaults of fields that are missing.
pub fn apply_defaults(value: &mut Value, schema: &Node) {
    match value {
        Value::Object(map) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                let missing = map.get(name).is_none_or(|v| v.is_null() && !property.nullable);
                if missing {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in map.iter_mut() {
                let Some(below) = schema.field(name) else { continue };
                replace_null(value, below);
                apply_defaults(value, below);
            }
        }
        Value::Array(items) => {
            let Some(below) = schema.items.as_deref() else { return };
            for item in items {
                replace_null(item, below);
                apply_defaults(item, below);
            }
        }
        _ => {}
    }
}

fn replace_null(value: &mut Value, schema: &Node) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
}
