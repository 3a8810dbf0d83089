//! Stories of ownership, told with built-in kinds, and what must hold for all of them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    combine::merge,
    compare::compare,
    managers::Managers,
    ownership::{self, Conflicts, Refused, Versions, Writer},
    set::FieldSet,
    shape::Node,
    walk::{field_set, reconcile, validate, without},
};
use crate::schema::{Struct, builtin};

/// A type with two versions that differ in nothing.
struct Kind(&'static Struct);

impl Versions for Kind {
    fn node(&self, api_version: &str) -> Option<&dyn Node> {
        matches!(api_version, "v1" | "v2").then_some(self.0)
    }

    fn convert(&self, object: &Value, _from: &str, to: &str) -> Value {
        let mut object = object.clone();
        object["apiVersion"] = to.into();
        object
    }
}

fn kind(name: &str) -> Kind {
    Kind(builtin(&format!("io.k8s.api.core.v1.{name}")))
}

/// An object and who owns what of it.
#[derive(Clone, Debug, PartialEq)]
struct State {
    object: Value,
    managers: Managers,
}

impl State {
    fn new(object: Value) -> Self {
        Self { object, managers: Managers::default() }
    }

    fn update(&self, kind: &Kind, name: &str, new: Value) -> Self {
        let reset = FieldSet::default();
        let writer = writer(name, "v1", &reset);
        let managers =
            ownership::update(kind, &self.object, &new, self.managers.clone(), writer).unwrap();
        Self { object: new, managers }
    }

    fn apply(&self, kind: &Kind, name: &str, config: &Value, force: bool) -> Result<Self, String> {
        let reset = FieldSet::default();
        let version = config["apiVersion"].as_str().unwrap_or("v1");
        let writer = writer(name, version, &reset);
        let old = kind.convert(&self.object, "v1", version);
        match ownership::apply(kind, &old, config, self.managers.clone(), writer, force) {
            Ok(applied) => {
                let mut object = applied.object.unwrap_or(old);
                object["apiVersion"] = "v1".into();
                Ok(Self { object, managers: applied.managers })
            }
            Err(Refused::Conflicts(conflicts)) => Err(Conflicts(&conflicts).to_string()),
            Err(Refused::Misfit(problems)) => Err(problems.to_string()),
        }
    }

    /// `manager: fields`, in the order of the entries.
    fn owners(&self) -> Vec<(String, Value)> {
        let pair = |entry: &Value| {
            (entry["manager"].as_str().unwrap().to_owned(), entry["fieldsV1"].clone())
        };
        self.managers.encode().iter().map(pair).collect()
    }
}

fn writer<'a>(name: &'a str, api_version: &'a str, reset: &'a FieldSet) -> Writer<'a> {
    Writer { name, api_version, subresource: "", now: Some("2026-01-01T00:00:00Z"), reset }
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": data})
}

fn service(ports: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"ports": ports}})
}

fn owned(names: &[&str]) -> Value {
    let fields = names.iter().map(|name| (format!("f:{name}"), json!({})));
    json!({"f:data": Value::from_iter(fields)})
}

/// With the map itself, which appliers and creators own too.
fn owned_with_map(names: &[&str]) -> Value {
    let mut fields = owned(names);
    fields["f:data"]["."] = json!({});
    fields
}

#[test]
fn who_changes_a_field_owns_it() {
    let kind = kind("ConfigMap");
    let empty = State::new(json!({"metadata": {}}));
    let created = empty.update(&kind, "a", config_map(json!({"x": "1", "y": "1"})));
    assert_eq!(created.owners(), [("a".into(), owned_with_map(&["x", "y"]))]);
    let changed = created.update(&kind, "b", config_map(json!({"x": "2", "y": "1", "z": "1"})));
    assert_eq!(
        changed.owners(),
        [("a".into(), owned_with_map(&["y"])), ("b".into(), owned(&["x", "z"]))]
    );
    let removed = changed.update(&kind, "b", config_map(json!({"x": "2"})));
    assert_eq!(
        removed.owners(),
        [("a".into(), json!({"f:data": {}})), ("b".into(), owned(&["x"]))]
    );
    assert_eq!(removed.update(&kind, "c", removed.object.clone()), removed);
}

#[test]
fn what_an_applier_no_longer_says_goes_unless_others_own_it() {
    let kind = kind("ConfigMap");
    let state = State::new(config_map(json!({"own": "1"})));
    let state = state.apply(&kind, "a", &config_map(json!({"x": "1", "y": "1"})), false).unwrap();
    let state = state.apply(&kind, "b", &config_map(json!({"y": "1"})), false).unwrap();
    assert_eq!(state.object["data"], json!({"own": "1", "x": "1", "y": "1"}));
    let state = state.apply(&kind, "a", &config_map(json!({"z": "1"})), false).unwrap();
    assert_eq!(state.object["data"], json!({"own": "1", "y": "1", "z": "1"}));
    // What changed nothing has no time, and so comes first.
    assert_eq!(state.owners(), [("b".into(), owned(&["y"])), ("a".into(), owned(&["z"]))]);
    let state = state.apply(&kind, "a", &config_map(json!(null)), false).unwrap();
    assert_eq!(state.object["data"], json!({"own": "1", "y": "1"}));
}

#[test]
fn conflicts_name_everybody_in_order() {
    let kind = kind("ConfigMap");
    let state = State::new(json!({"metadata": {}}));
    let state = state.update(&kind, "u", config_map(json!({"x": "1", "y": "1"})));
    let state = state.apply(&kind, "a", &config_map(json!({"y": "1"})), false).unwrap();
    let wanted = config_map(json!({"x": "2"}));
    assert_eq!(
        state.apply(&kind, "b", &wanted, false).unwrap_err(),
        "Apply failed with 1 conflict: conflict with \"u\" using v1: .data.x"
    );
    let wanted = config_map(json!({"x": "2", "y": "2"}));
    assert_eq!(
        state.apply(&kind, "b", &wanted, false).unwrap_err(),
        "Apply failed with 3 conflicts: conflicts with \"a\":\n- .data.y\nconflicts with \"u\" using v1:\n- .data.x\n- .data.y"
    );
    let forced = state.apply(&kind, "b", &wanted, true).unwrap();
    assert_eq!(forced.object["data"], json!({"x": "2", "y": "2"}));
    assert_eq!(
        forced.owners(),
        [("b".into(), owned(&["x", "y"])), ("u".into(), json!({"f:data": {}}))]
    );
}

#[test]
fn conflicts_without_number_are_counted_but_not_all_told() {
    let kind = kind("ConfigMap");
    let data = |value: &str| {
        let fields = (0..5000).map(|n| (format!("k{n}"), value.into()));
        config_map(Value::Object(fields.collect()))
    };
    let state = State::new(json!({"metadata": {}})).update(&kind, "u", data("1"));
    let told = state.apply(&kind, "a", &data("2"), false).unwrap_err();
    assert!(
        told.starts_with("Apply failed with 5000 conflicts: conflicts with \"u\" using v1:\n- ")
    );
    assert_eq!(told.lines().count(), 1 + ownership::MAX_CONFLICTS);
}

#[test]
fn items_of_lists_are_told_apart_by_their_keys() {
    let kind = kind("Service");
    let state = State::new(service(json!([{"port": 1, "protocol": "TCP", "targetPort": 1}])));
    let a = service(json!([{"port": 80, "targetPort": 8080}, {"port": 53, "protocol": "UDP"}]));
    let state = state.apply(&kind, "a", &a, false).unwrap();
    assert_eq!(
        state.owners(),
        [(
            "a".into(),
            json!({"f:spec": {"f:ports": {
                "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}, "f:targetPort": {}},
                "k:{\"port\":53,\"protocol\":\"UDP\"}": {".": {}, "f:port": {}, "f:protocol": {}},
            }}})
        )]
    );
    let b = service(json!([{"port": 80, "protocol": "TCP", "targetPort": 9}]));
    assert_eq!(
        state.apply(&kind, "b", &b, false).unwrap_err(),
        "Apply failed with 1 conflict: conflict with \"a\": .spec.ports[port=80,protocol=\"TCP\"].targetPort"
    );
    let fewer = service(json!([{"port": 80, "targetPort": 8080}]));
    let state = state.apply(&kind, "a", &fewer, false).unwrap();
    assert_eq!(
        state.object["spec"]["ports"],
        json!([{"port": 1, "protocol": "TCP", "targetPort": 1}, {"port": 80, "targetPort": 8080}])
    );
}

#[test]
fn a_version_that_is_gone_owns_nothing() {
    let kind = kind("ConfigMap");
    let state = State::new(config_map(json!({})));
    let mut other = config_map(json!({"x": "1"}));
    other["apiVersion"] = "v2".into();
    let state = state.apply(&kind, "a", &other, false).unwrap();
    let again = state.apply(&kind, "a", &config_map(json!({"y": "1"})), false).unwrap();
    assert_eq!(again.object["data"], json!({"y": "1"}));
    let mut entries = Value::from(again.managers.encode());
    entries[0]["apiVersion"] = "v0".into();
    let gone = State { managers: Managers::decode(Some(&entries)).unwrap(), ..again };
    let state = gone.apply(&kind, "b", &config_map(json!({"y": "2"})), false).unwrap();
    assert_eq!(state.owners().len(), 1);
}

#[test]
fn fields_that_cannot_be_changed_are_not_owned() {
    let kind = kind("Namespace");
    let reset = FieldSet::of_names(&[&["status"]]);
    let writer = writer("a", "v1", &reset);
    let old = json!({"metadata": {"name": "x"}, "spec": {}, "status": {}});
    let new = json!({
        "metadata": {"name": "x", "labels": {"l": "1"}}, "spec": {}, "status": {"phase": "Active"},
    });
    let managers = ownership::update(&kind, &old, &new, Managers::default(), writer).unwrap();
    let fields = json!({"f:metadata": {"f:labels": {".": {}, "f:l": {}}}});
    assert_eq!(managers.encode()[0]["fieldsV1"], fields);
}

#[test]
fn configurations_are_checked_in_upstreams_words() {
    let check = |kind: &str, object: Value, expected: &str| {
        let node = builtin(&format!("io.k8s.api.core.v1.{kind}"));
        assert_eq!(validate(node, &object).unwrap_err().to_string(), expected);
    };
    check("ConfigMap", json!({"x": 1}), ".x: field not declared in schema");
    check(
        "ConfigMap",
        json!({"data": {"a": 1}}),
        ".data.a: expected string, got &value.valueUnstructured{Value:1}",
    );
    check("ConfigMap", json!({"data": ["a"]}), ".data: expected map, got &{[a]}");
    check("ConfigMap", json!({"immutable": "x"}), ".immutable: expected boolean, got &{x}");
    check(
        "Service",
        json!({"spec": {"ports": [{"port": "x"}]}}),
        ".spec.ports[port=\"x\",protocol=\"TCP\"].port: expected numeric (int or float), got string",
    );
    check(
        "Service",
        json!({"spec": {"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}}),
        ".spec.ports: duplicate entries for key [port=1,protocol=\"TCP\"]",
    );
    check(
        "Service",
        json!({"spec": {"ports": [1]}}),
        ".spec.ports: element 0: associative list with keys may not have non-map elements",
    );
    check(
        "ConfigMap",
        json!({"metadata": {"finalizers": ["a", "a"]}, "data": 1}),
        "errors:\n  .data: expected map, got &{1}\n  .metadata.finalizers: duplicate entries for key [=\"a\"]",
    );
}

#[test]
fn lists_take_the_order_of_what_is_applied() {
    let node = builtin("io.k8s.api.core.v1.ConfigMap");
    let object = |items: &str| {
        let items: Vec<_> = items.chars().map(String::from).collect();
        json!({"metadata": {"finalizers": items}})
    };
    for (base, over, merged) in [
        ("abc", "", "abc"),
        ("", "abc", "abc"),
        ("abc", "abc", "abc"),
        ("abc", "cb", "acb"),
        ("abc", "xb", "axbc"),
        ("ab", "cd", "abcd"),
        ("abcd", "da", "bcda"),
        ("aab", "b", "aab"),
        ("aab", "ba", "ba"),
    ] {
        let result = merge(node, &object(base), &object(over)).unwrap();
        assert_eq!(result, object(merged), "{base} and {over}");
    }
}

#[test]
fn a_list_that_became_one_value_has_one_owner() {
    let node = builtin("io.k8s.api.core.v1.Service");
    let fields =
        json!({"f:spec": {"f:selector": {"f:a": {}}, "f:externalIPs": {"v:\"1.2.3.4\"": {}}}});
    let set = super::fields_v1::decode(&fields).unwrap();
    let fields = json!({"f:spec": {"f:selector": {}, "f:externalIPs": {}}});
    let reconciled = reconcile(node, &set).unwrap();
    assert_eq!(super::fields_v1::encode(&reconciled), fields);
    assert_eq!(reconcile(node, &reconciled), None);
}

fn any_data() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[a-d]", "[12]", 0..4)
        .prop_map(|data| config_map(serde_json::to_value(data).unwrap()))
}

fn any_ports() -> impl Strategy<Value = Value> {
    let port = (1..4, proptest::sample::select(vec!["TCP", "UDP"]), proptest::option::of("[ab]"));
    proptest::collection::vec(port, 0..4).prop_map(|ports| {
        let mut seen = std::collections::BTreeSet::new();
        let ports = ports.into_iter().filter(|(port, protocol, _)| seen.insert((*port, *protocol)));
        let item = |(port, protocol, name): (i32, &str, Option<String>)| match name {
            Some(name) => json!({"port": port, "protocol": protocol, "name": name}),
            None => json!({"port": port, "protocol": protocol}),
        };
        service(ports.map(item).collect())
    })
}

proptest! {
    #[test]
    fn to_apply_twice_is_to_apply_once(live in any_ports(), first in any_ports(), next in any_ports()) {
        let kind = kind("Service");
        let state = State::new(live).apply(&kind, "b", &first, true).unwrap();
        let once = state.apply(&kind, "a", &next, true).unwrap();
        prop_assert_eq!(once.apply(&kind, "a", &next, false), Ok(once.clone()));
    }

    #[test]
    fn managers_of_different_fields_do_not_see_each_other(
        a in proptest::collection::btree_map("[a-d]", "[12]", 0..4),
        b in proptest::collection::btree_map("[e-h]", "[12]", 0..4),
    ) {
        let kind = kind("ConfigMap");
        let (a, b) = (config_map(json!(a)), config_map(json!(b)));
        let state = State::new(config_map(json!({"own": "1"})));
        let apply = |state: State, name: &str, config| state.apply(&kind, name, config, false).unwrap();
        let ab = apply(apply(state.clone(), "a", &a), "b", &b);
        let ba = apply(apply(state.clone(), "b", &b), "a", &a);
        prop_assert_eq!(&ab, &ba);
        let nothing = config_map(json!({}));
        let left = apply(apply(ab, "a", &nothing), "b", &nothing);
        prop_assert_eq!(left.object, state.object);
    }

    #[test]
    fn what_is_applied_is_there_and_owned(live in any_data(), mine in any_data(), update in any_data()) {
        let kind = kind("ConfigMap");
        let state = State::new(live.clone()).update(&kind, "u", update);
        let state = state.apply(&kind, "a", &mine, true).unwrap();
        for (key, value) in mine["data"].as_object().unwrap() {
            prop_assert_eq!(&state.object["data"][key], value);
        }
        let comparison = compare(kind.0, &live, &live).unwrap();
        prop_assert!(comparison.is_empty());
    }

    #[test]
    fn trees_are_cut_and_compared_alike(old in any_ports(), new in any_ports()) {
        let node = builtin("io.k8s.api.core.v1.Service");
        let found = compare(node, &old, &new).unwrap();
        let (was, is) = (field_set(node, &old), field_set(node, &new));
        prop_assert!(found.added.intersection(&was).is_empty());
        prop_assert!(found.removed.intersection(&is).is_empty());
        prop_assert_eq!(found.added, is.difference(&was));
        let cut = without(node, &merge(node, &old, &new).unwrap(), &was.difference(&is));
        prop_assert!(compare(node, &cut, &new).unwrap().added.is_empty());
    }
}
