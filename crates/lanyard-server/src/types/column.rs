//! The columns and cells that most kinds have.

use serde_json::Value;

use super::age;
use crate::{object::ObjectExt, resource::Column, schema::time};

/// The name of the object; the first column of nearly every kind.
pub(super) const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    description: "The name of the object, unique among those of its kind in its namespace.",
    priority: 0,
};

/// How old the object is.
pub(super) const AGE: Column =
    text("Age", "The time since the object was created, by the clock of the server.");

/// A column of text that is always shown.
pub(super) const fn text(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 0 }
}

/// A column of numbers that is always shown.
pub(super) const fn integer(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "integer", format: "", description, priority: 0 }
}

/// A column of text that is shown with `-o wide`.
pub(super) const fn wide(name: &'static str, description: &'static str) -> Column {
    Column { name, kind: "string", format: "", description, priority: 1 }
}

/// The cell of [`NAME`].
pub(super) fn name_cell(object: &Value) -> Value {
    object.name().into()
}

/// The cell of [`AGE`].
pub(super) fn age_cell(object: &Value, now: i64) -> Value {
    since(object.text(&["metadata", "creationTimestamp"]), now).into()
}

/// The time since a timestamp of an object, `<unknown>` when it is not set.
pub(super) fn since(timestamp: &str, now: i64) -> String {
    match time::unix_seconds(timestamp) {
        Some(then) => age(now, then),
        None => "<unknown>".into(),
    }
}

/// The number of entries of a map or list of an object.
pub(super) fn count(object: &Value, field: &str) -> usize {
    match object.get(field) {
        Some(Value::Object(map)) => map.len(),
        Some(Value::Array(list)) => list.len(),
        _ => 0,
    }
}
