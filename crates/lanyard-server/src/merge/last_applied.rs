//! The annotation in which client-side apply keeps what it applied last.
//!
//! An object that was managed by `kubectl apply` moves to server-side apply without conflicts: what the
//! annotation says and still holds is kubectl's own. As long as the annotation is there it is kept in
//! step, so that the way back stays open.

use serde_json::Value;

use super::{
    compare::compare,
    set::FieldSet,
    shape::Node,
    walk::{field_set, validate},
};
use crate::{object::ObjectExt, schema::parse_json, types::object_meta::MAX_ANNOTATION_BYTES};

/// The manager that means kubectl's own server-side apply.
pub const KUBECTL: &str = "kubectl";

/// The annotation.
pub const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The fields that client-side apply set and nobody changed since; nothing when it was never used.
pub fn still_applied(node: &dyn Node, live: &Value) -> Option<FieldSet> {
    let last = live.at(&["metadata", "annotations", ANNOTATION])?.as_str()?;
    let last = parse_json(last.as_bytes()).ok()?.value;
    if last.api_version() != live.api_version() || validate(node, &last).is_err() {
        return None;
    }
    let changes = compare(node, &last, live).ok()?;
    let set = field_set(node, &last);
    Some(set.difference(&changes.modified).difference(&changes.added).difference(&changes.removed))
}

/// Puts the configuration that was just applied into the annotation, where there is one.
pub fn keep_in_step(object: &mut Value, config: &Value) {
    let path = ["metadata", "annotations", ANNOTATION];
    if object.text(&path).is_empty() {
        return;
    }
    let mut config = config.clone();
    if let Some(Value::Object(annotations)) = config.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
        if annotations.is_empty() {
            config.meta_mut().remove("annotations");
        }
    }
    let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") else {
        return;
    };
    annotations.insert(ANNOTATION.into(), format!("{config}\n").into());
    let size = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    if annotations.iter().map(size).sum::<usize>() > MAX_ANNOTATION_BYTES {
        annotations.remove(ANNOTATION);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{merge::fields_v1, schema::builtin};

    #[test]
    fn what_was_applied_and_still_holds_is_kubectls_own() {
        let node = builtin("io.k8s.api.core.v1.ConfigMap");
        let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "1", "c": "1"}});
        let mut live = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1", "b": "2", "d": "1"},
            "metadata": {"annotations": {ANNOTATION: last.to_string()}},
        });
        let set = still_applied(node, &live).unwrap();
        let expected = json!({"f:apiVersion": {}, "f:data": {"f:a": {}}, "f:kind": {}});
        assert_eq!(fields_v1::encode(&set), expected);
        for odd in ["", "{", "[]", "{\"apiVersion\":\"v2\"}", "{\"apiVersion\":\"v1\",\"x\":1}"] {
            live["metadata"]["annotations"][ANNOTATION] = odd.into();
            assert_eq!(still_applied(node, &live), None, "{odd}");
        }
    }

    #[test]
    fn the_annotation_is_kept_in_step() {
        let config = json!({"data": {"a": "2"}, "metadata": {"annotations": {ANNOTATION: "x"}}});
        let mut object = json!({"metadata": {"annotations": {ANNOTATION: "old", "x": "y"}}});
        keep_in_step(&mut object, &config);
        let kept = "{\"data\":{\"a\":\"2\"},\"metadata\":{}}\n";
        assert_eq!(object["metadata"]["annotations"], json!({ANNOTATION: kept, "x": "y"}));
        let large = json!({"data": {"a": "x".repeat(MAX_ANNOTATION_BYTES)}});
        keep_in_step(&mut object, &large);
        assert_eq!(object["metadata"]["annotations"], json!({"x": "y"}));
        keep_in_step(&mut object, &config);
        assert_eq!(object["metadata"]["annotations"], json!({"x": "y"}));
    }
}
