//! Paths of fields, and reading what is there: the words in which the rules of large kinds are written.

use std::fmt;

use serde_json::{Map, Value};

use crate::{field::FieldError, object::ObjectExt};

/// Where a field is, as problems name it: `spec.containers[0].ports`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Path(String);

impl Path {
    /// A field of the object itself.
    pub(super) fn new(field: &str) -> Self {
        Self(field.to_owned())
    }

    /// A field below.
    pub(super) fn child(&self, field: &str) -> Self {
        Self(format!("{}.{field}", self.0))
    }

    /// An item of a list.
    pub(super) fn index(&self, at: usize) -> Self {
        Self(format!("{}[{at}]", self.0))
    }

    /// An entry of a map.
    pub(super) fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// The items of a list below, each with its path.
    pub(super) fn items<'a>(
        &self,
        object: &'a Value,
        field: &str,
    ) -> impl Iterator<Item = (Self, &'a Value)> + use<'a> {
        let list = self.child(field);
        items(object, field).iter().enumerate().map(move |(at, item)| (list.index(at), item))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Path> for String {
    fn from(path: Path) -> Self {
        path.0
    }
}

impl From<&Path> for String {
    fn from(path: &Path) -> Self {
        path.0.clone()
    }
}

impl AsRef<str> for Path {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// The items of a list; none when it is missing.
pub(super) fn items<'a>(object: &'a Value, field: &str) -> &'a [Value] {
    object.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The items of a list that is to be changed.
pub(super) fn items_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut [Value] {
    match object.get_mut(field) {
        Some(Value::Array(list)) => list,
        _ => &mut [],
    }
}

/// The strings of a list.
pub(super) fn strings<'a>(object: &'a Value, field: &str) -> Vec<&'a str> {
    items(object, field).iter().filter_map(Value::as_str).collect()
}

/// The entries of a map with string values, in the order of its keys.
pub(super) fn pairs<'a>(object: &'a Value, field: &str) -> Vec<(&'a str, &'a str)> {
    let map = object.get(field).and_then(Value::as_object);
    let entry = |(key, value): (&'a String, &'a Value)| Some((key.as_str(), value.as_str()?));
    map.into_iter().flatten().filter_map(entry).collect()
}

/// A number; 0 when it is missing.
pub(super) fn number(object: &Value, field: &str) -> i64 {
    object.get(field).and_then(Value::as_i64).unwrap_or(0)
}

/// Whether a flag is set.
pub(super) fn flag(object: &Value, field: &str) -> bool {
    object.get(field).and_then(Value::as_bool).unwrap_or(false)
}

/// An object below that is there, even if it is empty.
pub(super) fn part<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get(field).filter(|value| value.is_object())
}

/// Sets a field of what is an object.
pub(super) fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(field.to_owned(), value.into());
    }
}

/// Sets a string that is missing or empty.
pub(super) fn default_text(object: &mut Value, field: &str, default: &str) {
    if object.text(&[field]).is_empty() {
        set(object, field, default);
    }
}

/// Sets a field that is missing.
pub(super) fn default_value(object: &mut Value, field: &str, default: impl Into<Value>) {
    if object.get(field).is_none_or(Value::is_null) {
        set(object, field, default);
    }
}

/// A copy of a field of the old object takes the place of the new one's.
pub(super) fn keep(new: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => set(new, field, value.clone()),
        None => drop(new.as_object_mut().and_then(|fields| fields.remove(field))),
    }
}

/// How many values a pod spec or a service may be made of: far more than any has, and few enough that
/// to say what is wrong with each of them is no burden.
const MAX_VALUES: usize = 100_000;

/// Whether an object is made of more values than its rules look at.
pub(super) fn is_oversized(value: &Value) -> bool {
    let mut left = MAX_VALUES;
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        let below = match value {
            Value::Array(list) => list.len(),
            Value::Object(map) => map.len(),
            _ => continue,
        };
        if below > left {
            return true;
        }
        left -= below;
        match value {
            Value::Array(list) => waiting.extend(list),
            Value::Object(map) => waiting.extend(map.values()),
            _ => {}
        }
    }
    false
}

/// The problem of such an object.
pub(super) fn oversized(value: &Value, path: &Path) -> Option<FieldError> {
    let problem = format!("must not be made of more than {MAX_VALUES} values");
    is_oversized(value).then(|| FieldError::forbidden(path, problem))
}

/// Whether two values mean the same: what is missing, null or empty is the same as not set.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => same_fields(a, b) && same_fields(b, a),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (a, b) => a == b || (is_nothing(a) && is_nothing(b)),
    }
}

fn same_fields(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    a.iter().all(|(field, value)| same(value, b.get(field).unwrap_or(&Value::Null)))
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_read_as_upstream_writes_them() {
        let containers = Path::new("spec").child("containers");
        assert_eq!(containers.index(2).child("env").to_string(), "spec.containers[2].env");
        assert_eq!(Path::new("limits").key("a.b/c").to_string(), "limits[a.b/c]");
    }

    #[test]
    fn size_is_counted_in_values() {
        let list = |count: usize| json!({"a": vec![json!({}); count]});
        assert!(!is_oversized(&list(MAX_VALUES - 1)));
        assert!(is_oversized(&list(MAX_VALUES)));
        assert!(!is_oversized(&json!("x")));
    }

    #[test]
    fn what_is_not_set_is_the_same_as_what_is_empty() {
        let check = |a: Value, b: Value, expected: bool| assert_eq!(same(&a, &b), expected);
        check(json!({"a": null, "b": 1}), json!({"b": 1}), true);
        check(json!({"a": []}), json!({}), true);
        check(json!({"a": [{}]}), json!({"a": [{"b": {}}]}), true);
        check(json!({"a": 0}), json!({}), false);
        check(json!({"a": [1]}), json!({"a": [2]}), false);
    }
}
