//! Strategic merge patches of a pod, which has every kind of list.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::builtin;

fn patched(object: Value, patch: &Value) -> Result<Value, Refused> {
    let mut object = object;
    apply(builtin("io.k8s.api.core.v1.Pod"), &mut object, patch.clone())?;
    Ok(object)
}

fn pod() -> Value {
    json!({
        "metadata": {"labels": {"a": "1", "b": "1"}, "finalizers": ["x/a", "x/b"]},
        "spec": {
            "containers": [
                {"name": "a", "image": "1", "args": ["x"], "ports": [{"containerPort": 80}]},
                {"name": "b", "image": "1"},
            ],
            "volumes": [{"name": "v", "emptyDir": {}}],
            "nodeSelector": {"disk": "ssd"},
        },
    })
}

#[test]
fn lists_merge_by_their_keys() {
    let check = |patch: Value, at: &str, expected: Value| {
        let result = patched(pod(), &patch).unwrap();
        assert_eq!(result.pointer(at), Some(&expected), "{patch}");
    };
    let names = |patch: Value, expected: &[&str]| {
        let result = patched(pod(), &patch).unwrap();
        let containers = result["spec"]["containers"].as_array().unwrap().clone();
        let names: Vec<_> = containers.iter().map(|c| c["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected, "{patch}");
    };
    check(
        json!({"spec": {"containers": [{"name": "a", "image": "2", "ports": [{"containerPort": 81}]}]}}),
        "/spec/containers/0",
        json!({"name": "a", "image": "2", "args": ["x"], "ports": [{"containerPort": 81}, {"containerPort": 80}]}),
    );
    check(
        json!({"spec": {"containers": [{"name": "a", "args": ["y"]}]}}),
        "/spec/containers/0/args",
        json!(["y"]),
    );
    names(json!({"spec": {"containers": [{"name": "c"}]}}), &["c", "a", "b"]);
    names(json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}]}}), &["b", "a"]);
    names(json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}), &["b"]);
    names(json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "z"}]}}), &["z"]);
    names(
        json!({"spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
            "containers": [{"name": "c"}],
        }}),
        &["c", "b", "a"],
    );
    names(
        json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}}),
        &["b", "a"],
    );
    check(
        json!({"metadata": {"finalizers": ["x/c", "x/a"]}}),
        "/metadata/finalizers",
        json!(["x/c", "x/a", "x/b"]),
    );
    check(
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a"]}}),
        "/metadata/finalizers",
        json!(["x/b"]),
    );
}

#[test]
fn objects_merge_as_they_are_told() {
    let check = |patch: Value, at: &str, expected: Option<Value>| {
        let result = patched(pod(), &patch).unwrap();
        assert_eq!(result.pointer(at), expected.as_ref(), "{patch}");
    };
    let labels = "/metadata/labels";
    check(
        json!({"metadata": {"labels": {"a": null, "c": "1"}}}),
        labels,
        Some(json!({"b": "1", "c": "1"})),
    );
    check(
        json!({"metadata": {"labels": {"$patch": "replace", "c": "1"}}}),
        labels,
        Some(json!({"c": "1"})),
    );
    check(json!({"metadata": {"labels": {"$patch": "delete"}}}), labels, Some(json!({})));
    check(json!({"metadata": {"labels": null}}), labels, None);
    check(
        json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}}),
        "/spec/volumes",
        Some(json!([{"name": "v", "hostPath": {"path": "/"}}])),
    );
    check(
        json!({"spec": {"affinity": {"x": null, "y": {"$patch": "delete"}, "z": 1}}}),
        "/spec/affinity",
        Some(json!({"z": 1})),
    );
    check(json!(null), labels, Some(json!({"a": "1", "b": "1"})));
}

#[test]
fn what_does_not_fit_is_told_in_upstreams_words() {
    let check = |patch: Value, expected: &str| {
        assert_eq!(patched(pod(), &patch).unwrap_err().to_string(), expected, "{patch}");
    };
    check(json!({"$patch": "x"}), "unknown patch type: x in map: map[$patch:x]");
    check(
        json!({"spec": {"containers": [{"image": "2"}]}}),
        "map: map[image:2] does not contain declared merge key: name",
    );
    check(
        json!({"spec": {"containers": ["a"]}}),
        "list element types are not identical: [[map[args:[x] image:1 name:a ports:[map[containerPort:80]]] map[image:1 name:b]] [a]]",
    );
    check(
        json!({"metadata": {"$deleteFromPrimitiveList": []}}),
        "invalid patch format of primitive list",
    );
    check(
        json!({"metadata": {"$setElementOrder": []}}),
        "invalid patch format of setElementOrder list",
    );
    check(json!({"spec": {"$retainKeys": 1}}), "invalid patch format of retainKeys");
    check(
        json!({"spec": {"$retainKeys": ["x"], "nodeName": "y"}}),
        "invalid patch format of retainKeys",
    );
    check(
        json!({"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}}),
        "The order in patch list:\n[map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:b]]\n",
    );
    check(
        json!({"spec": {"$setElementOrder/containers": {}}}),
        "expected a []interface {}, but received a map[string]interface {}",
    );
}

#[test]
fn long_lists_merge_soon() {
    let list = |prefix: &str| -> Value {
        (0..50_000).map(|n| json!({"name": format!("{prefix}{n}")})).collect::<Vec<_>>().into()
    };
    let object = json!({"spec": {"containers": list("a")}});
    let patch =
        json!({"spec": {"$setElementOrder/containers": list("b"), "containers": list("b")}});
    let started = Instant::now();
    let merged = patched(object, &patch).unwrap();
    assert_eq!(merged["spec"]["containers"].as_array().map(Vec::len), Some(100_000));
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

fn any_patch() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!("a")),
        Just(json!(1)),
        Just(json!("delete")),
        Just(json!("replace")),
    ];
    let key = proptest::sample::select(vec![
        "spec",
        "metadata",
        "containers",
        "finalizers",
        "labels",
        "name",
        "ports",
        "containerPort",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
        "$setElementOrder/finalizers",
        "$setElementOrder/",
        "volumes",
    ]);
    leaf.prop_recursive(5, 40, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key.clone(), inner, 0..4)
                .prop_map(|map| map.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn fuzz_any_patch_is_merged_or_refused(patch in any_patch()) {
        let _ = patched(pod(), &patch);
    }

    #[test]
    fn a_patch_that_says_what_is_there_changes_nothing(
        images in proptest::collection::btree_map("[a-d]", "[12]", 0..4),
    ) {
        let containers: Vec<_> =
            images.iter().map(|(name, image)| json!({"name": name, "image": image})).collect();
        let object = json!({"spec": {"containers": containers}});
        prop_assert_eq!(patched(object.clone(), &object), Ok(object));
    }
}
