//! Keeps the bootstrap roles and bindings whole, without undoing what an administrator added.
//!
//! At start, rules, subjects, selectors, labels and annotations that are missing come back; extra
//! ones stay; an object annotated `rbac.authorization.kubernetes.io/autoupdate: "false"` is left
//! alone. Follows upstream's `component-helpers/auth/rbac/reconciliation`.

use serde_json::{Map, Value, json};

use super::covers::uncovered;
use super::rules::{RoleRef, rules_of};
use crate::object::ObjectExt;

/// The annotation that opts an object out of all this.
pub const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

/// What must happen so that an object is as it should be.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is missing: create it.
    Create(Value),
    /// It lacks something: store this in its place.
    Update(Value),
    /// It binds another role, and `roleRef` cannot change: delete it, then create this.
    Recreate(Value),
}

/// The change that makes a bootstrap role or binding whole; nothing when it is.
pub fn reconcile(existing: Option<&Value>, wanted: &Value) -> Option<Change> {
    let Some(existing) = existing else {
        return Some(Change::Create(wanted.clone()));
    };
    if existing.text(&["metadata", "annotations", AUTO_UPDATE]) == "false" {
        return None;
    }
    let is_binding = wanted.get("roleRef").is_some();
    if is_binding && RoleRef::from_binding(existing) != RoleRef::from_binding(wanted) {
        return Some(Change::Recreate(wanted.clone()));
    }
    let mut merged = existing.clone();
    merge_metadata(&mut merged, wanted, "labels");
    merge_metadata(&mut merged, wanted, "annotations");
    if is_binding {
        add_subjects(&mut merged, wanted);
    } else {
        add_rules(&mut merged, wanted);
        add_selectors(&mut merged, wanted);
    }
    (merged != *existing).then_some(Change::Update(merged))
}

/// Adds missing labels or annotations; those that are there keep their value.
fn merge_metadata(object: &mut Value, wanted: &Value, field: &str) {
    let Some(wanted) = wanted.at(&["metadata", field]).and_then(Value::as_object) else {
        return;
    };
    let have = object.meta_mut().entry(field).or_insert_with(|| json!({}));
    if !have.is_object() {
        *have = json!({});
    }
    if let Some(have) = have.as_object_mut() {
        for (key, value) in wanted {
            have.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

fn add_rules(object: &mut Value, wanted: &Value) {
    let (have, want) = (rules_of(object), rules_of(wanted));
    let missing = uncovered(have.iter(), &want);
    append(object, "rules", missing.into_iter().map(|one| one.to_rule().to_value()));
}

/// Selectors are compared as a whole; a role that should not aggregate at all stops doing so.
fn add_selectors(object: &mut Value, wanted: &Value) {
    let selectors = |role: &Value| {
        let list = role.at(&["aggregationRule", "clusterRoleSelectors"]).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let aggregates = |role: &Value| role.get("aggregationRule").is_some_and(|rule| !rule.is_null());
    if !aggregates(wanted) {
        if aggregates(object)
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("aggregationRule");
        }
        return;
    }
    let have = selectors(object);
    let missing = selectors(wanted).into_iter().filter(|selector| !have.contains(selector));
    let missing: Vec<Value> = missing.collect();
    if missing.is_empty() {
        return;
    }
    if !object.get("aggregationRule").is_some_and(Value::is_object) {
        object["aggregationRule"] = json!({});
    }
    append(&mut object["aggregationRule"], "clusterRoleSelectors", missing.into_iter());
}

fn add_subjects(object: &mut Value, wanted: &Value) {
    let subjects = |binding: &Value| {
        let list = binding.get("subjects").and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let mut have: Vec<Map<String, Value>> = subjects(object).iter().map(identity).collect();
    let mut missing = Vec::new();
    for subject in subjects(wanted) {
        let identity = identity(&subject);
        if !have.contains(&identity) {
            have.push(identity);
            missing.push(subject);
        }
    }
    append(object, "subjects", missing.into_iter());
}

/// A subject without its empty fields.
fn identity(subject: &Value) -> Map<String, Value> {
    let fields = subject.as_object().into_iter().flatten();
    let set = fields.filter(|(_, value)| !value.is_null() && value.as_str() != Some(""));
    set.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Appends to a list, made when missing; adds no empty list.
fn append(object: &mut Value, field: &str, items: impl Iterator<Item = Value>) {
    let mut items = items.peekable();
    let Some(fields) = object.as_object_mut().filter(|_| items.peek().is_some()) else {
        return;
    };
    let list = fields.entry(field).or_insert_with(|| json!([]));
    match list {
        Value::Array(list) => list.extend(items),
        other => *other = items.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::rule;
    use super::*;

    fn check(existing: Value, wanted: &Value, expected: Option<Value>) {
        let change = reconcile(Some(&existing), wanted);
        assert_eq!(change, expected.map(Change::Update), "{existing}");
    }

    fn role(rules: Value) -> Value {
        json!({"metadata": {"name": "r", "labels": {"l": "1"}, "annotations": {AUTO_UPDATE: "true"}},
            "rules": rules})
    }

    fn read(resources: &[&str]) -> Value {
        rule(&["get"], &[""], resources, &[])
    }

    fn get(resource: &str) -> Value {
        json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]})
    }

    #[test]
    fn a_missing_object_is_created() {
        let wanted = role(json!([get("a")]));
        assert_eq!(reconcile(None, &wanted), Some(Change::Create(wanted.clone())));
    }

    #[test]
    fn missing_rules_come_back_and_extra_ones_stay() {
        let wanted = role(json!([read(&["a", "b"])]));
        check(wanted.clone(), &wanted, None);
        check(role(json!([get("b"), get("a"), get("x")])), &wanted, None);
        check(role(json!([get("*")])), &wanted, None);
        let partial = role(json!([get("x"), get("b")]));
        check(partial, &wanted, Some(role(json!([get("x"), get("b"), get("a")]))));
        check(role(Value::Null), &wanted, Some(role(json!([get("a"), get("b")]))));
    }

    #[test]
    fn missing_labels_and_annotations_come_back_and_changed_ones_stay() {
        let wanted = role(json!([]));
        let mut existing = wanted.clone();
        existing["metadata"]["labels"] = json!({"l": "mine", "extra": "yes"});
        existing["metadata"]["uid"] = json!("u");
        check(existing.clone(), &wanted, None);
        let expected = existing.clone();
        existing["metadata"]["annotations"] = Value::Null;
        check(existing, &wanted, Some(expected));
    }

    #[test]
    fn an_object_that_opted_out_is_left_alone() {
        let mut existing = role(json!([]));
        existing["metadata"]["annotations"][AUTO_UPDATE] = json!("false");
        check(existing, &role(json!([get("a")])), None);
        let mut existing = bound("x", json!([]));
        existing["metadata"]["annotations"] = json!({AUTO_UPDATE: "false"});
        check(existing, &bound("r", json!([{"kind": "User", "name": "u"}])), None);
    }

    #[test]
    fn selectors_come_back_and_unexpected_aggregation_ends() {
        let with = |rule: Value| {
            let mut role = role(json!([]));
            role["aggregationRule"] = rule;
            role
        };
        let selectors = |names: &[&str]| {
            let selectors: Vec<Value> =
                names.iter().map(|n| json!({"matchLabels": {*n: "true"}})).collect();
            with(json!({"clusterRoleSelectors": selectors}))
        };
        let wanted = selectors(&["a"]);
        check(selectors(&["x", "a"]), &wanted, None);
        check(selectors(&["x"]), &wanted, Some(selectors(&["x", "a"])));
        check(with(json!({})), &wanted, Some(selectors(&["a"])));
        check(role(json!([])), &wanted, Some(selectors(&["a"])));
        check(selectors(&["x"]), &role(json!([])), Some(role(json!([]))));

        // What aggregation gathered is not an extra rule to worry about.
        let mut gathered = selectors(&["a"]);
        gathered["rules"] = json!([get("pods")]);
        check(gathered, &wanted, None);
    }

    fn bound(role: &str, subjects: Value) -> Value {
        json!({"metadata": {"name": "b"}, "subjects": subjects,
            "roleRef": {"apiGroup": super::super::rules::GROUP, "kind": "ClusterRole", "name": role}})
    }

    #[test]
    fn missing_subjects_come_back_and_extra_ones_stay() {
        let subject = |name: &str| json!({"kind": "Group", "name": name});
        let wanted = bound("r", json!([subject("a"), subject("b"), subject("b")]));
        check(wanted.clone(), &wanted, None);
        let other = json!({"kind": "User", "name": "a"});
        let partial = bound("r", json!([other, subject("b")]));
        check(partial, &wanted, Some(bound("r", json!([other, subject("b"), subject("a")]))));
        let mut none = bound("r", Value::Null);
        none["subjects"] = Value::Null;
        let both = bound("r", json!([subject("a"), subject("b")]));
        check(none, &wanted, Some(both.clone()));
        let spelled = json!({"kind": "Group", "name": "a", "namespace": "", "apiGroup": null});
        check(bound("r", json!([spelled, subject("b")])), &both, None);
    }

    #[test]
    fn a_binding_to_another_role_is_made_anew() {
        let wanted = bound("r", json!([]));
        let existing = bound("other", json!([{"kind": "User", "name": "kept?"}]));
        assert_eq!(reconcile(Some(&existing), &wanted), Some(Change::Recreate(wanted)));
    }
}
