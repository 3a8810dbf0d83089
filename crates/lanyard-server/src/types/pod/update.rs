//! What may change of a pod that is there: next to nothing of its spec.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    super::path::{Path, items, same},
    containers::padded_image,
    scheduling::validate_tolerations,
    spec::validate_pod,
};
use crate::{
    field::FieldError,
    object::ObjectExt,
    resource::NameRule,
    types::{validate_label_key, validate_name},
};

/// What can be changed, in upstream's words.
const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,\
    `spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),\
    `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// The problems of a changed pod, its metadata apart.
pub(super) fn validate_change(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = validate_pod(new);
    let path = Path::new("spec");
    let (spec, before) = (&new["spec"], &old["spec"]);
    for list in ["containers", "initContainers"] {
        if items(spec, list).len() != items(before, list).len() {
            let problem = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(path.child(list), problem));
            return errors;
        }
        for (path, container) in path.items(spec, list) {
            if container.text(&["image"]).is_empty() {
                errors.push(FieldError::required(path.child("image"), ""));
            }
            errors.extend(padded_image(container, &path));
        }
    }
    if let Some(error) = validate_deadline(spec, before, &path) {
        errors.push(error);
        // Upstream goes on only when the deadline was taken away.
        if spec.get("activeDeadlineSeconds").is_some() {
            return errors;
        }
    }
    errors.extend(validate_added_tolerations(spec, before, &path));
    errors.extend(validate_gates(spec, before, &path));
    let rest = with_changeable_fields(spec, before);
    if !same(&rest, before) {
        let changed = changed_fields(&rest, before).join(", ");
        let problem =
            format!("pod updates may not change fields other than {CHANGEABLE}\n{changed}");
        errors.push(FieldError::forbidden(path, problem));
    }
    errors
}

/// The problems of a changed status.
pub(super) fn validate_status(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = Path::new("status");
    let (status, before) = (&new["status"], &old["status"]);
    for (path, condition) in path.items(status, "conditions") {
        let name = condition.text(&["type"]);
        if !matches!(name, "PodScheduled" | "Ready" | "Initialized") {
            let problems = validate_label_key(name).into_iter();
            let at = path.child("Type");
            errors.extend(problems.map(|problem| FieldError::invalid_str(&at, name, problem)));
        }
    }
    let nominated = status.text(&["nominatedNodeName"]);
    if !nominated.is_empty() && nominated != before.text(&["nominatedNodeName"]) {
        let at = path.child("nominatedNodeName");
        let problems = validate_name(NameRule::DnsSubdomain, nominated).into_iter();
        errors.extend(problems.map(|problem| FieldError::invalid_str(&at, nominated, problem)));
        if !old.text(&["spec", "nodeName"]).is_empty() {
            let problem = "may not be set on pods that are already bound to a node";
            errors.push(FieldError::forbidden(&at, problem));
        }
    }
    let class = status.text(&["qosClass"]);
    if class != before.text(&["qosClass"]) {
        errors.push(FieldError::invalid_str(path.child("qosClass"), class, "field is immutable"));
    }
    errors
}

/// A deadline may come and move closer.
fn validate_deadline(spec: &Value, before: &Value, path: &Path) -> Option<FieldError> {
    let field = "activeDeadlineSeconds";
    let deadline = |spec: &Value| spec.get(field).and_then(Value::as_i64);
    let (new, problem) = match (deadline(spec), deadline(before)) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            (new.into(), "must be between 0 and 2147483647, inclusive")
        }
        (Some(new), Some(old)) if new > old => {
            (new.into(), "must be less than or equal to previous value")
        }
        (None, Some(_)) => (Value::Null, "must not update from a positive integer to nil value"),
        _ => return None,
    };
    Some(FieldError::invalid(path.child(field), &new, problem))
}

fn validate_added_tolerations(spec: &Value, before: &Value, path: &Path) -> Vec<FieldError> {
    let untimed = |toleration: &Value| {
        let mut toleration = toleration.clone();
        toleration["tolerationSeconds"] = Value::Null;
        toleration.to_string()
    };
    let now: BTreeSet<String> = items(spec, "tolerations").iter().map(untimed).collect();
    if !items(before, "tolerations").iter().all(|old| now.contains(&untimed(old))) {
        let problem = "existing toleration can not be modified except its tolerationSeconds";
        return vec![FieldError::forbidden(path.child("tolerations"), problem)];
    }
    validate_tolerations(spec, path)
}

fn validate_gates(spec: &Value, before: &Value, path: &Path) -> Vec<FieldError> {
    let known: BTreeSet<&str> =
        items(before, "schedulingGates").iter().map(|gate| gate.text(&["name"])).collect();
    let mut errors = Vec::new();
    for (path, gate) in path.items(spec, "schedulingGates") {
        let name = gate.text(&["name"]);
        if !known.contains(name) {
            let problem =
                format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(FieldError::forbidden(path.child("name"), problem));
        }
    }
    errors
}

/// The new spec with the old values of all that may change, or is checked elsewhere.
fn with_changeable_fields(spec: &Value, before: &Value) -> Value {
    let mut rest = spec.clone();
    for list in ["containers", "initContainers"] {
        let old = items(before, list);
        let new = rest.get_mut(list).and_then(Value::as_array_mut);
        for (container, old) in new.into_iter().flatten().zip(old) {
            container["image"] = old["image"].clone();
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        rest[field] = before.get(field).cloned().unwrap_or_default();
    }
    let field = "terminationGracePeriodSeconds";
    let negative = before.get(field).and_then(Value::as_i64).is_some_and(|grace| grace < 0);
    if negative && rest.get(field).and_then(Value::as_i64) == Some(1) {
        rest[field] = before[field].clone();
    }
    // A pod that waits may still be told where it can run.
    if !items(before, "schedulingGates").is_empty() {
        let kept = |key: &String, value: &Value| spec.at(&["nodeSelector", key]) == Some(value);
        let selector = before.get("nodeSelector").and_then(Value::as_object);
        if selector.into_iter().flatten().all(|(key, value)| kept(key, value)) {
            rest["nodeSelector"] = before.get("nodeSelector").cloned().unwrap_or_default();
        }
    }
    rest
}

/// The fields that differ. Upstream shows their values, too, which may be secrets.
fn changed_fields(new: &Value, old: &Value) -> Vec<String> {
    let mut names: Vec<&String> =
        [new, old].iter().filter_map(|spec| spec.as_object()).flat_map(|o| o.keys()).collect();
    names.sort_unstable();
    names.dedup();
    let field = |spec: &Value, name: &str| spec.get(name).cloned().unwrap_or_default();
    names
        .into_iter()
        .filter(|name| !same(&field(new, name), &field(old, name)))
        .map(|name| format!("spec.{name}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: Value) -> Value {
        let mut pod = json!({"metadata": {}, "spec": {
            "containers": [{"name": "a", "image": "b"}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
        }});
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        super::super::defaults::default_pod_spec(&mut pod["spec"]);
        pod
    }

    #[test]
    fn only_a_few_fields_of_a_pod_can_change() {
        let check = |new: Value, expected: &[&str]| {
            let errors = validate_change(&pod(new), &pod(json!({})));
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected);
        };
        check(json!({}), &[]);
        let image = json!([{"name": "a", "image": "c", "imagePullPolicy": "Always"}]);
        check(json!({"containers": image}), &[]);
        check(json!({"activeDeadlineSeconds": 5}), &[]);
        let more = json!([{"key": "l"}, {"key": "k", "operator": "Exists"}]);
        check(json!({"tolerations": more}), &[]);
        check(
            json!({"tolerations": []}),
            &[
                "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
            ],
        );
        check(
            json!({"hostname": "h"}),
            &[&format!(
                "spec: Forbidden: pod updates may not change fields other than {CHANGEABLE}\nspec.hostname"
            )],
        );
        let two = json!([{"name": "a", "image": "b"}, {"name": "c", "image": "d"}]);
        check(
            json!({"containers": two}),
            &["spec.containers: Forbidden: pod updates may not add or remove containers"],
        );
    }
}
