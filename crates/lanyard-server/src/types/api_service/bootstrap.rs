//! The API services of what this server serves itself, with upstream's priorities (1.36).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::GROUP;
use crate::object::ObjectExt;

/// Marks what the server keeps as it should be, from start to start.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// One object for each of the group versions that has a place in the order of upstream.
pub fn objects<'a>(served: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Value> {
    let served: BTreeSet<(&str, &str)> = served.collect();
    let known = PRIORITIES.iter().filter(|known| served.contains(&(known.0, known.1)));
    known.map(|known| object(*known)).collect()
}

/// Whether an object is to be repaired.
pub fn differs(found: Option<&Value>, wanted: &Value) -> bool {
    found.is_some_and(|found| {
        !found.text(&["metadata", "labels", MANAGED]).is_empty()
            && found.get("spec") != wanted.get("spec")
    })
}

type Priority = (&'static str, &'static str, u32, u32);

/// Group, version, the least priority of the group, and the one of the version.
const PRIORITIES: &[Priority] = &[
    ("", "v1", 18_000, 1),
    ("apps", "v1", 17_800, 15),
    ("events.k8s.io", "v1", 17_750, 15),
    ("authentication.k8s.io", "v1", 17_700, 15),
    ("authorization.k8s.io", "v1", 17_600, 15),
    ("autoscaling", "v1", 17_500, 15),
    ("certificates.k8s.io", "v1", 17_300, 15),
    ("certificates.k8s.io", "v1beta1", 17_300, 9),
    ("rbac.authorization.k8s.io", "v1", 17_000, 15),
    ("admissionregistration.k8s.io", "v1", 16_700, 15),
    ("apiextensions.k8s.io", "v1", 16_700, 15),
    ("coordination.k8s.io", "v1", 16_500, 15),
    ("flowcontrol.apiserver.k8s.io", "v1", 16_100, 21),
];

fn object((group, version, group_priority, version_priority): Priority) -> Value {
    let mut spec = json!({"version": version, "groupPriorityMinimum": group_priority,
        "versionPriority": version_priority});
    if !group.is_empty() {
        spec["group"] = group.into();
    }
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "APIService",
        "metadata": {"name": format!("{version}.{group}"), "labels": {MANAGED: "onstart"}},
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_served_is_registered_under_its_name() {
        let served = [("", "v1"), ("example.com", "v1"), ("apps", "v1"), ("apps", "v1")];
        let objects = objects(served.into_iter());
        let names: Vec<&str> = objects.iter().map(|object| object.name()).collect();
        assert_eq!(names, ["v1.", "v1.apps"]);
        assert!(!differs(Some(&objects[0]), &objects[0]) && !differs(None, &objects[0]));
        let mut taken = objects[0].clone();
        taken["spec"]["service"] = json!({"name": "a", "namespace": "b"});
        assert!(differs(Some(&taken), &objects[0]));
        taken["metadata"]["labels"] = json!({});
        assert!(!differs(Some(&taken), &objects[0]));
    }
}
