//! What every pod gets when it is created: a service account and its token, a priority, and patience with
//! nodes that fail. Upstream's plugins ServiceAccount, Priority and DefaultTolerationSeconds.

use serde_json::{Value, json};

use crate::{object::ObjectExt, registry::generate_name};

/// Where containers find the token of their account.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// How volumes with tokens are called, before the random end of the name.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// The taints of nodes that fail, and how long pods bear them.
const FAILURES: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const PATIENCE_SECONDS: i64 = 300;

/// The priority classes that are always there.
const PRIORITY_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Pods that agents make from files of their own.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The service account that a new pod must have; nothing when it is a mirror of a file.
pub(super) fn account_of(pod: &mut Value) -> Result<Option<String>, String> {
    let named = pod.text(&["spec", "serviceAccountName"]).to_owned();
    if pod.at(&["metadata", "annotations", MIRROR]).is_some() {
        return match named.is_empty() {
            true => Ok(None),
            false => Err("a mirror pod may not reference service accounts".into()),
        };
    }
    let name = if named.is_empty() { "default".to_owned() } else { named };
    pod["spec"]["serviceAccountName"] = name.as_str().into();
    pod["spec"]["serviceAccount"] = name.as_str().into();
    Ok(Some(name))
}

/// Gives a pod what its account has.
pub(super) fn take_account(pod: &mut Value, account: &Value) {
    let wish = |object: &Value, path: &[&str]| object.at(path).and_then(Value::as_bool);
    let own = wish(pod, &["spec", "automountServiceAccountToken"]);
    if own.or(wish(account, &["automountServiceAccountToken"])).unwrap_or(true) {
        mount_token(&mut pod["spec"]);
    }
    let secrets = account.get("imagePullSecrets").and_then(Value::as_array);
    if let Some(secrets) = secrets
        && pod.at(&["spec", "imagePullSecrets"]).is_none()
    {
        let names = secrets.iter().map(|secret| json!({"name": secret.text(&["name"])}));
        pod["spec"]["imagePullSecrets"] = names.collect();
    }
}

fn mount_token(spec: &mut Value) {
    let volumes = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    let existing = volumes.map(|volume| volume.text(&["name"]));
    let existing = existing.into_iter().find(|name| name.starts_with(TOKEN_VOLUME));
    let (name, known) = match existing {
        Some(name) => (name.to_owned(), true),
        None => (generate_name(TOKEN_VOLUME), false),
    };
    let mut mounted = false;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter(|c| c.is_object()) {
            let mounts = &mut container["volumeMounts"];
            if !mounts.is_array() {
                *mounts = json!([]);
            }
            let Value::Array(mounts) = mounts else { continue };
            if mounts.iter().any(|mount| mount.text(&["mountPath"]) == TOKEN_PATH) {
                continue;
            }
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
            mounted = true;
        }
    }
    if mounted && !known {
        if !spec["volumes"].is_array() {
            spec["volumes"] = json!([]);
        }
        if let Value::Array(volumes) = &mut spec["volumes"] {
            volumes.push(token_volume(&name));
        }
    }
}

fn token_volume(name: &str) -> Value {
    json!({"name": name, "projected": {"defaultMode": 0o644, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{
            "path": "namespace",
            "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
        }]}},
    ]}})
}

/// Sets the priority that follows from the class; why not, otherwise.
pub(super) fn set_priority(pod: &mut Value) -> Result<(), String> {
    let class = pod.text(&["spec", "priorityClassName"]);
    let known = PRIORITY_CLASSES.iter().find(|(name, _)| *name == class);
    let priority = match known {
        Some((_, priority)) => *priority,
        None if class.is_empty() => 0,
        None => return Err(format!("no PriorityClass with name {class} was found")),
    };
    let spec = &mut pod["spec"];
    if let Some(own) = spec.get("priority").and_then(Value::as_i64).filter(|p| *p != priority) {
        return Err(format!(
            "the integer value of priority ({own}) must not be provided in pod spec; priority \
             admission controller computed {priority} from the given PriorityClass name"
        ));
    }
    let policy = "PreemptLowerPriority";
    if let Some(own) = spec.get("preemptionPolicy").and_then(Value::as_str).filter(|p| *p != policy)
    {
        return Err(format!(
            "the string value of PreemptionPolicy ({own}) must not be provided in pod spec; priority \
             admission controller computed {policy} from the given PriorityClass name"
        ));
    }
    spec["priority"] = priority.into();
    spec["preemptionPolicy"] = policy.into();
    Ok(())
}

/// The conditions that a new pod has began now.
pub(super) fn date_conditions(pod: &mut Value, now: &str) {
    let conditions = pod.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten() {
        condition["lastTransitionTime"] = now.into();
    }
}

/// A pod that says nothing about failing nodes stays on them for five minutes.
pub(super) fn tolerate_failures(pod: &mut Value) {
    let spec = &mut pod["spec"];
    for failure in FAILURES {
        let tolerations = spec.get("tolerations").and_then(Value::as_array);
        let borne = tolerations.into_iter().flatten().any(|toleration| {
            let key = toleration.text(&["key"]);
            let named = key.is_empty() || key == failure;
            named && matches!(toleration.text(&["effect"]), "" | "NoExecute")
        });
        if borne {
            continue;
        }
        if !spec["tolerations"].is_array() {
            spec["tolerations"] = json!([]);
        }
        if let Value::Array(tolerations) = &mut spec["tolerations"] {
            tolerations.push(json!({
                "key": failure,
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": PATIENCE_SECONDS,
            }));
        }
    }
}

/// A new node is not ready until its agent says so.
pub(super) fn taint_node(node: &mut Value) {
    let spec = &mut node["spec"];
    let taints = spec.get("taints").and_then(Value::as_array);
    let tainted = taints.into_iter().flatten().any(|taint| {
        taint.text(&["key"]) == FAILURES[0] && taint.text(&["effect"]) == "NoSchedule"
    });
    if tainted {
        return;
    }
    if !spec["taints"].is_array() {
        spec["taints"] = json!([]);
    }
    if let Value::Array(taints) = &mut spec["taints"] {
        taints.push(json!({"key": FAILURES[0], "effect": "NoSchedule"}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_gets_the_token_of_its_account_once() {
        let mut pod = json!({"metadata": {}, "spec": {"containers": [{"name": "a"}]}});
        assert_eq!(account_of(&mut pod), Ok(Some("default".into())));
        let account = json!({"imagePullSecrets": [{"name": "p"}]});
        take_account(&mut pod, &account);
        let once = pod.clone();
        take_account(&mut pod, &account);
        assert_eq!(pod, once);
        let volume = &pod["spec"]["volumes"][0]["name"];
        assert_eq!(&pod["spec"]["containers"][0]["volumeMounts"][0]["name"], volume);
        assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "p"}]));
        let mut closed = json!({"metadata": {}, "spec": {"containers": [{"name": "a"}]}});
        take_account(&mut closed, &json!({"automountServiceAccountToken": false}));
        assert_eq!(closed["spec"].get("volumes"), None);
    }

    #[test]
    fn priorities_follow_from_classes() {
        let check = |spec: Value, expected: Result<i64, &str>| {
            let mut pod = json!({"spec": spec});
            let done = set_priority(&mut pod);
            match expected {
                Ok(priority) => assert_eq!(pod["spec"]["priority"], priority),
                Err(problem) => assert!(done.unwrap_err().starts_with(problem)),
            }
        };
        check(json!({}), Ok(0));
        check(json!({"priorityClassName": "system-node-critical"}), Ok(2_000_001_000));
        check(json!({"priorityClassName": "x"}), Err("no PriorityClass with name x was found"));
        check(json!({"priority": 5}), Err("the integer value of priority (5)"));
    }

    #[test]
    fn tolerations_are_added_only_where_there_are_none() {
        let mut pod =
            json!({"spec": {"tolerations": [{"key": FAILURES[0], "operator": "Exists"}]}});
        tolerate_failures(&mut pod);
        tolerate_failures(&mut pod);
        let keys: Vec<&str> = pod["spec"]["tolerations"]
            .as_array()
            .unwrap()
            .iter()
            .map(|toleration| toleration.text(&["key"]))
            .collect();
        assert_eq!(keys, FAILURES);
    }
}
