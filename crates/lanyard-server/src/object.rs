//! Objects as JSON trees, and how their metadata is read.
//!
//! The write path works on `serde_json::Value`: built-in kinds and custom ones pass through the same
//! code. These accessors never panic on odd shapes; a missing or mistyped field reads as empty.

use serde_json::{Map, Value};

/// Reads the standard metadata of an object.
pub trait ObjectExt {
    /// `metadata`, or nothing when it is missing or not an object.
    fn meta(&self) -> Option<&Map<String, Value>>;
    /// `metadata`, made when missing.
    fn meta_mut(&mut self) -> &mut Map<String, Value>;
    /// A string anywhere below, by path: `text(&["spec", "signerName"])`.
    fn text(&self, path: &[&str]) -> &str;
    /// Anything below, by path.
    fn at(&self, path: &[&str]) -> Option<&Value>;
    /// `apiVersion`.
    fn api_version(&self) -> &str {
        self.text(&["apiVersion"])
    }
    /// `kind`.
    fn kind(&self) -> &str {
        self.text(&["kind"])
    }
    /// `metadata.name`.
    fn name(&self) -> &str {
        self.text(&["metadata", "name"])
    }
    /// `metadata.namespace`.
    fn namespace(&self) -> &str {
        self.text(&["metadata", "namespace"])
    }
    /// `metadata.uid`.
    fn uid(&self) -> &str {
        self.text(&["metadata", "uid"])
    }
    /// `metadata.resourceVersion`.
    fn resource_version(&self) -> &str {
        self.text(&["metadata", "resourceVersion"])
    }
    /// Whether deletion was asked for and waits for finalizers.
    fn is_deleting(&self) -> bool {
        !self.text(&["metadata", "deletionTimestamp"]).is_empty()
    }
    /// `metadata.finalizers`.
    fn finalizers(&self) -> Vec<&str> {
        self.at(&["metadata", "finalizers"])
            .and_then(Value::as_array)
            .map(|list| list.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default()
    }
    /// `metadata.labels` in key order.
    fn labels(&self) -> Vec<(&str, &str)> {
        string_map(self.at(&["metadata", "labels"]))
    }
    /// `metadata.annotations` in key order.
    fn annotations(&self) -> Vec<(&str, &str)> {
        string_map(self.at(&["metadata", "annotations"]))
    }
}

impl ObjectExt for Value {
    fn meta(&self) -> Option<&Map<String, Value>> {
        self.get("metadata").and_then(Value::as_object)
    }

    fn meta_mut(&mut self) -> &mut Map<String, Value> {
        if !self.is_object() {
            *self = Value::Object(Map::new());
        }
        let Value::Object(root) = self else { unreachable!("made an object above") };
        let meta = root.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
        if !meta.is_object() {
            *meta = Value::Object(Map::new());
        }
        let Value::Object(meta) = meta else { unreachable!("made an object above") };
        meta
    }

    fn text(&self, path: &[&str]) -> &str {
        self.at(path).and_then(Value::as_str).unwrap_or("")
    }

    fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, part| value.get(part))
    }
}

fn string_map(value: Option<&Value>) -> Vec<(&str, &str)> {
    value
        .and_then(Value::as_object)
        .map(|map| map.iter().filter_map(|(k, v)| Some((k.as_str(), v.as_str()?))).collect())
        .unwrap_or_default()
}
