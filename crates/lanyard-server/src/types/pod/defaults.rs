//! What a pod spec says when its author says nothing.

use serde_json::{Value, json};

use super::super::path::{
    default_text, default_value, is_oversized, items, items_mut, number, part,
};
use crate::{object::ObjectExt, schema::quantity};

/// The modes of files that come from objects: readable by all.
const FILE_MODE: i32 = 0o644;

/// The kinds of lists of containers.
const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The defaults of a pod spec, in a pod or in a template of pods.
pub(in super::super) fn default_pod_spec(spec: &mut Value) {
    if is_oversized(spec) {
        return;
    }
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "restartPolicy", "Always");
    default_value(spec, "securityContext", json!({}));
    default_value(spec, "terminationGracePeriodSeconds", 30);
    default_text(spec, "schedulerName", "default-scheduler");
    alias_service_account(spec);
    for volume in items_mut(spec, "volumes") {
        default_volume(volume);
    }
    for list in CONTAINER_LISTS {
        for container in items_mut(spec, list) {
            default_container(container);
        }
    }
    round_amounts(spec, "overhead");
    if let Some(resources) = spec.get_mut("resources") {
        round_amounts(resources, "limits");
        round_amounts(resources, "requests");
    }
}

/// The defaults of a pod beyond those of its spec: templates do not have them, so that templates that
/// were written before a default came do not change.
pub(super) fn default_pod(object: &mut Value) {
    let spec = &mut object["spec"];
    if is_oversized(spec) {
        return;
    }
    for list in ["containers", "initContainers"] {
        for container in items_mut(spec, list) {
            container.get_mut("resources").map(request_limits);
        }
    }
    default_pod_requests(spec);
    default_value(spec, "enableServiceLinks", true);
    if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
        for list in ["containers", "initContainers"] {
            for container in items_mut(spec, list) {
                for port in items_mut(container, "ports") {
                    if number(port, "hostPort") == 0 {
                        port["hostPort"] = port["containerPort"].clone();
                    }
                }
            }
        }
    }
}

/// The old name of the field says what the new one says.
fn alias_service_account(spec: &mut Value) {
    let name = match spec.text(&["serviceAccountName"]) {
        "" => spec.text(&["serviceAccount"]).to_owned(),
        name => name.to_owned(),
    };
    if !name.is_empty() {
        spec["serviceAccountName"] = name.as_str().into();
        spec["serviceAccount"] = name.into();
    }
}

/// Whoever sets a limit asks for as much, unless they say otherwise.
fn request_limits(resources: &mut Value) {
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    default_value(resources, "requests", json!({}));
    for (name, amount) in limits {
        default_value(&mut resources["requests"], &name, amount);
    }
}

/// Limits of the pod as a whole are requests for what no container asks for.
fn default_pod_requests(spec: &mut Value) {
    let limits = spec.at(&["resources", "limits"]).and_then(Value::as_object).cloned();
    for (name, amount) in limits.into_iter().flatten() {
        let asked = ["containers", "initContainers"].iter().any(|list| {
            let asks = |c: &Value| c.at(&["resources", "requests", &name]).is_some();
            items(spec, list).iter().any(asks)
        });
        let whole = matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-");
        if !asked && whole {
            default_value(&mut spec["resources"], "requests", json!({}));
            default_value(&mut spec["resources"]["requests"], &name, amount);
        }
    }
}

fn default_container(container: &mut Value) {
    if container.text(&["imagePullPolicy"]).is_empty() {
        container["imagePullPolicy"] = pull_policy(container.text(&["image"])).into();
    }
    default_text(container, "terminationMessagePath", "/dev/termination-log");
    default_text(container, "terminationMessagePolicy", "File");
    for port in items_mut(container, "ports") {
        default_text(port, "protocol", "TCP");
    }
    for variable in items_mut(container, "env") {
        if let Some(source) = variable.get_mut("valueFrom") {
            default_field_ref(source);
            if let Some(file) = source.get_mut("fileKeyRef") {
                default_value(file, "optional", false);
            }
        }
    }
    if let Some(resources) = container.get_mut("resources") {
        round_amounts(resources, "limits");
        round_amounts(resources, "requests");
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(probe) {
            default_probe(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(http) = container.pointer_mut(&format!("/lifecycle/{hook}/httpGet")) {
            default_http_get(http);
        }
    }
}

fn default_probe(probe: &mut Value) {
    for (field, default) in [
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ] {
        if number(probe, field) == 0 {
            probe[field] = default.into();
        }
    }
    if let Some(http) = probe.get_mut("httpGet") {
        default_http_get(http);
    }
    if let Some(grpc) = probe.get_mut("grpc") {
        default_value(grpc, "service", "");
    }
}

fn default_http_get(http: &mut Value) {
    default_text(http, "path", "/");
    default_text(http, "scheme", "HTTP");
}

fn default_field_ref(source: &mut Value) {
    if let Some(field) = source.get_mut("fieldRef") {
        default_text(field, "apiVersion", "v1");
    }
}

fn default_volume(volume: &mut Value) {
    let named = |(field, value): (&String, &Value)| field != "name" && value.is_object();
    if !volume.as_object().is_some_and(|fields| fields.iter().any(named)) {
        volume["emptyDir"] = json!({});
    }
    if let Some(image) = volume.get_mut("image")
        && image.text(&["pullPolicy"]).is_empty()
    {
        image["pullPolicy"] = pull_policy(image.text(&["reference"])).into();
    }
    if let Some(path) = volume.get_mut("hostPath") {
        default_value(path, "type", "");
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(source) {
            default_value(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(source) = volume.get_mut("downwardAPI") {
        items_mut(source, "items").iter_mut().for_each(default_field_ref);
    }
    if let Some(projected) = volume.get_mut("projected") {
        for source in items_mut(projected, "sources") {
            if let Some(downward) = source.get_mut("downwardAPI") {
                items_mut(downward, "items").iter_mut().for_each(default_field_ref);
            }
            if let Some(token) = source.get_mut("serviceAccountToken") {
                default_value(token, "expirationSeconds", 3600);
            }
        }
    }
    default_old_volume(volume);
    if let Some(claim) = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec") {
        default_value(claim, "volumeMode", "Filesystem");
    }
}

/// The sources that are there for old manifests.
fn default_old_volume(volume: &mut Value) {
    const TEXTS: [(&str, &str, &str); 6] = [
        ("iscsi", "iscsiInterface", "default"),
        ("rbd", "pool", "rbd"),
        ("rbd", "user", "admin"),
        ("rbd", "keyring", "/etc/ceph/keyring"),
        ("scaleIO", "storageMode", "ThinProvisioned"),
        ("scaleIO", "fsType", "xfs"),
    ];
    for (source, field, default) in TEXTS {
        if part(volume, source).is_some() {
            default_text(&mut volume[source], field, default);
        }
    }
    if let Some(disk) = volume.get_mut("azureDisk") {
        default_value(disk, "cachingMode", "ReadWrite");
        default_value(disk, "fsType", "ext4");
        default_value(disk, "readOnly", false);
        default_value(disk, "kind", "Shared");
    }
}

/// Amounts finer than a thousandth are rounded up.
fn round_amounts(resources: &mut Value, field: &str) {
    let amounts = resources.get_mut(field).and_then(Value::as_object_mut);
    for amount in amounts.into_iter().flat_map(|map| map.values_mut()) {
        if let Some(rounded) = amount.as_str().and_then(quantity::rounded_to_milli) {
            *amount = rounded.into();
        }
    }
}

/// An image without a tag, or with the tag that moves, is looked up each time.
fn pull_policy(image: &str) -> &'static str {
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match name[last..].split_once(':') {
        Some((_, tag)) => (&name[..name.len() - tag.len() - 1], Some(tag)),
        None => (name, None),
    };
    let latest = tag.map_or(!digest, |tag| tag == "latest");
    if latest && is_image_name(name) { "Always" } else { "IfNotPresent" }
}

/// Whether an image can have that name: a path of lower case parts, the first may be a host.
fn is_image_name(name: &str) -> bool {
    let mut parts: Vec<&str> = name.split('/').collect();
    let host = |part: &str| {
        part.contains(['.', ':']) || part == "localhost" || part.chars().any(char::is_uppercase)
    };
    if parts.len() > 1 && host(parts[0]) {
        parts.remove(0);
    }
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    parts.iter().all(|part| {
        let bytes = part.as_bytes();
        bytes.first().copied().is_some_and(good)
            && bytes.last().copied().is_some_and(good)
            && bytes.iter().all(|byte| good(*byte) || matches!(byte, b'.' | b'_' | b'-'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_moving_tag_is_pulled_always() {
        let check =
            |image: &str, expected: &str| assert_eq!(pull_policy(image), expected, "{image}");
        check("nginx", "Always");
        check("nginx:latest", "Always");
        check("nginx:1.27", "IfNotPresent");
        check("registry.example:5000/a/b", "Always");
        check("registry.example:5000/a/b:v1", "IfNotPresent");
        check("a@sha256:0123", "IfNotPresent");
        check("a:latest@sha256:0123", "Always");
        check("Upper/case", "Always");
        check("upper/Case", "IfNotPresent");
        check("", "IfNotPresent");
        check(" ", "IfNotPresent");
    }

    #[test]
    fn a_pod_gets_what_upstream_gives_it() {
        let mut pod = json!({"spec": {
            "serviceAccount": "old",
            "hostNetwork": true,
            "volumes": [{"name": "e"}, {"name": "c", "configMap": {"name": "x"}}],
            "containers": [{
                "name": "a", "image": "b",
                "ports": [{"containerPort": 80}],
                "resources": {"limits": {"cpu": "0.0001", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"port": 80}},
            }],
        }});
        default_pod_spec(&mut pod["spec"]);
        default_pod(&mut pod);
        let spec = &pod["spec"];
        assert_eq!(spec["serviceAccountName"], "old");
        assert_eq!(spec["volumes"][0], json!({"name": "e", "emptyDir": {}}));
        assert_eq!(spec["volumes"][1]["configMap"]["defaultMode"], 420);
        let container = &spec["containers"][0];
        assert_eq!(container["resources"]["limits"]["cpu"], "1m");
        assert_eq!(container["resources"]["requests"], container["resources"]["limits"]);
        assert_eq!(container["ports"][0]["hostPort"], 80);
        assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/");
        assert_eq!(container["livenessProbe"]["failureThreshold"], 3);
        let once = pod.clone();
        default_pod_spec(&mut pod["spec"]);
        default_pod(&mut pod);
        assert_eq!(pod, once, "defaults are applied on every write");
    }
}
