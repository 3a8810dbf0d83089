//! The rules of a pod spec as a whole, of a pod and of a template of pods.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    super::{
        addresses::validate_address,
        amounts::validate_requirements,
        label_selector::validate_key,
        object_meta::validate_labels,
        path::{Path, flag, items, number, oversized, pairs, part, strings},
    },
    containers::{Surroundings, validate_containers, validate_images, validate_init_containers},
    scheduling::{validate_affinity, validate_spreading, validate_tolerations},
    security::validate_pod_context,
    volumes::validate_volumes,
};
use crate::{
    field::FieldError,
    object::ObjectExt,
    resource::NameRule,
    types::{validate_label_key, validate_name},
};

const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The problems of a template of pods.
pub(in super::super) fn validate_template(template: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let meta = template.get("metadata").unwrap_or(&Value::Null);
    errors.extend(validate_labels(&pairs(meta, "labels"), path.child("labels").as_ref()));
    let annotations = path.child("annotations");
    for (key, _) in pairs(meta, "annotations") {
        let problems = validate_label_key(&key.to_lowercase()).into_iter();
        errors.extend(problems.map(|p| FieldError::invalid_str(&annotations, key, p)));
    }
    let spec = template.get("spec").unwrap_or(&Value::Null);
    errors.extend(validate_annotations(meta, spec, &annotations));
    let path = path.child("spec");
    errors.extend(validate_pod_spec(spec, false, &path));
    if !items(spec, "ephemeralContainers").is_empty() {
        let problem = "ephemeral containers not allowed in pod template";
        errors.push(FieldError::forbidden(path.child("ephemeralContainers"), problem));
    }
    errors
}

/// The problems of a pod, its metadata apart.
pub(super) fn validate_pod(pod: &Value) -> Vec<FieldError> {
    let meta = pod.get("metadata").unwrap_or(&Value::Null);
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let path = Path::new("spec");
    let annotations = Path::new("metadata").child("annotations");
    let mut errors = validate_annotations(meta, spec, &annotations);
    errors.extend(validate_pod_spec(spec, true, &path));
    if spec.text(&["serviceAccountName"]).is_empty() {
        for (path, volume) in path.items(spec, "volumes") {
            let projected = part(volume, "projected").unwrap_or(&Value::Null);
            for (path, source) in path.child("projected").items(projected, "sources") {
                if part(source, "serviceAccountToken").is_some() {
                    let problem = "must not be specified when serviceAccountName is not set";
                    let at = path.child("serviceAccountToken");
                    errors.push(FieldError::forbidden(at, problem));
                }
            }
        }
    }
    errors.extend(validate_images(spec, &path));
    errors
}

/// The problems of annotations that mean something to pods.
fn validate_annotations(meta: &Value, spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in pairs(meta, "annotations") {
        if key == MIRROR && spec.text(&["nodeName"]).is_empty() {
            let problem = "must set spec.nodeName if mirror pod annotation is set";
            errors.push(FieldError::invalid_str(path.key(key), value, problem));
        }
        let cost = !value.starts_with('+') && value.parse::<i32>().is_ok();
        if key == DELETION_COST && !cost {
            let problem = "must be a 32bit integer";
            errors.push(FieldError::invalid_str(path.key(key), value, problem));
        }
    }
    errors
}

fn validate_pod_spec(spec: &Value, is_pod: bool, path: &Path) -> Vec<FieldError> {
    if let Some(error) = oversized(spec, path) {
        return vec![error];
    }
    let grace = spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64);
    let (volumes, mut errors) = validate_volumes(spec, path);
    let claims = items(spec, "resourceClaims").iter().map(|c| c.text(&["name"])).collect();
    let around = Surroundings { volumes, claims, grace, restart: spec.text(&["restartPolicy"]) };
    errors.extend(validate_containers(spec, &around, path));
    errors.extend(validate_init_containers(spec, &around, path));
    errors.extend(validate_host_ports(spec, is_pod, path));
    errors.extend(validate_policies(spec, path));
    let selector = path.child("nodeSelector");
    errors.extend(validate_labels(&pairs(spec, "nodeSelector"), selector.as_ref()));
    errors.extend(validate_pod_context(spec, path));
    errors.extend(validate_affinity(spec, path));
    errors.extend(validate_dns(spec, path));
    errors.extend(validate_gates(spec, path));
    errors.extend(validate_spreading(spec, path));
    errors.extend(validate_names(spec, &NAMES[..3], path));
    errors.extend(validate_deadline(spec, path));
    errors.extend(validate_names(spec, &NAMES[3..5], path));
    errors.extend(validate_tolerations(spec, path));
    for (path, alias) in path.items(spec, "hostAliases") {
        errors.extend(validate_address(alias.text(&["ip"]), &path.child("ip")));
        for (at, host) in strings(alias, "hostnames").into_iter().enumerate() {
            let at = path.child("hostnames").index(at);
            errors.extend(named(NameRule::DnsSubdomain, host, &at));
        }
    }
    errors.extend(validate_names(spec, &NAMES[5..], path));
    if let Some(overhead) = part(spec, "overhead") {
        let limits = serde_json::json!({"limits": overhead});
        errors.extend(validate_requirements(&limits, &BTreeSet::new(), &path.child("overhead")));
    }
    if let Some(os) = part(spec, "os") {
        let (name, known) = (os.text(&["name"]), ["linux", "windows"]);
        let at = path.child("os");
        match name {
            "" => errors.push(FieldError::required(at.child("name"), "cannot be empty")),
            name if known.contains(&name) => {}
            other => errors.push(FieldError::not_supported(at, other, &known)),
        }
    }
    errors
}

fn validate_policies(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let policies: [(&str, &[&str]); 3] = [
        ("restartPolicy", &["Always", "OnFailure", "Never"]),
        ("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
        ("preemptionPolicy", &["PreemptLowerPriority", "Never"]),
    ];
    for (field, known) in policies {
        let policy = spec.text(&[field]);
        let optional = field == "preemptionPolicy" && policy.is_empty();
        if !optional && !known.contains(&policy) {
            errors.push(FieldError::not_supported(path.child(field), policy, known));
        }
    }
    errors
}

/// On the network of the node a port is a port of the node.
fn validate_host_ports(spec: &Value, is_pod: bool, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !flag(spec, "hostNetwork") {
        return errors;
    }
    for (path, container) in path.items(spec, "containers") {
        for (path, port) in path.items(container, "ports") {
            let (host, own) = (number(port, "hostPort"), number(port, "containerPort"));
            if (is_pod || host != 0) && host != own {
                let problem = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(path.child("hostPort"), &host.into(), problem));
            }
        }
    }
    errors
}

fn validate_dns(spec: &Value, path: &Path) -> Vec<FieldError> {
    let path = path.child("dnsConfig");
    let config = part(spec, "dnsConfig");
    let servers = config.map(|config| strings(config, "nameservers")).unwrap_or_default();
    if spec.text(&["dnsPolicy"]) == "None" {
        if config.is_none() {
            let problem = "must provide `dnsConfig` when `dnsPolicy` is None";
            return vec![FieldError::required(path, problem)];
        }
        if servers.is_empty() {
            let problem = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return vec![FieldError::required(path.child("nameservers"), problem)];
        }
    }
    let Some(config) = config else { return Vec::new() };
    let mut errors = Vec::new();
    let at = path.child("nameservers");
    if servers.len() > 3 {
        let problem = "must not have more than 3 nameservers";
        errors.push(FieldError::invalid(&at, &config["nameservers"], problem));
    }
    for (index, server) in servers.into_iter().enumerate() {
        errors.extend(validate_address(server, &at.index(index)));
    }
    let (at, searches) = (path.child("searches"), strings(config, "searches"));
    if searches.len() > 32 {
        let problem = "must not have more than 32 search paths";
        errors.push(FieldError::invalid(&at, &config["searches"], problem));
    }
    if searches.join(" ").len() > 2048 {
        let problem =
            "must not have more than 2048 characters (including spaces) in the search list";
        errors.push(FieldError::invalid(&at, &config["searches"], problem));
    }
    for (index, search) in searches.into_iter().enumerate().filter(|(_, s)| *s != ".") {
        let bare = search.strip_suffix('.').unwrap_or(search);
        errors.extend(
            search_problem(bare).map(|p| FieldError::invalid_str(at.index(index), bare, p)),
        );
    }
    for (path, option) in path.items(config, "options") {
        if option.text(&["name"]).is_empty() {
            errors.push(FieldError::required(path, "must not be empty"));
        }
    }
    errors
}

/// Underscores are allowed here, and only here: at the start and inside of labels.
fn search_problem(search: &str) -> Option<&'static str> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let good = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label).as_bytes();
        label.first().copied().is_some_and(plain)
            && label.last().copied().is_some_and(plain)
            && label.iter().all(|byte| plain(*byte) || matches!(byte, b'-' | b'_'))
    };
    if search.len() > 253 {
        return Some("must be no more than 253 characters");
    }
    (!search.split('.').all(good)).then_some(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' \
         or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
         for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')",
    )
}

fn validate_gates(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (path, gate) in path.items(spec, "readinessGates") {
        let condition = gate.text(&["conditionType"]);
        errors.extend(validate_key(condition, &path.child("conditionType")));
    }
    let mut seen = BTreeSet::new();
    for (path, gate) in path.items(spec, "schedulingGates") {
        let name = gate.text(&["name"]);
        errors.extend(validate_key(name, &path));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path, &name.into()));
        }
    }
    errors
}

/// The names of other things, in the order in which upstream looks at them.
const NAMES: [(&str, NameRule); 7] = [
    ("hostnameOverride", NameRule::DnsSubdomain),
    ("serviceAccountName", NameRule::DnsSubdomain),
    ("nodeName", NameRule::DnsSubdomain),
    ("hostname", NameRule::DnsLabel),
    ("subdomain", NameRule::DnsLabel),
    ("priorityClassName", NameRule::DnsSubdomain),
    ("runtimeClassName", NameRule::DnsSubdomain),
];

fn validate_names(spec: &Value, fields: &[(&str, NameRule)], path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, rule) in fields {
        let name = spec.text(&[field]);
        if !name.is_empty() {
            errors.extend(named(*rule, name, &path.child(field)));
        }
    }
    errors
}

fn validate_deadline(spec: &Value, path: &Path) -> Option<FieldError> {
    let field = "activeDeadlineSeconds";
    let seconds = spec.get(field).and_then(Value::as_i64)?;
    let good = (1..=i64::from(i32::MAX)).contains(&seconds);
    let problem = "must be between 1 and 2147483647, inclusive";
    (!good).then(|| FieldError::invalid(path.child(field), &seconds.into(), problem))
}

fn named(rule: NameRule, name: &str, path: &Path) -> Vec<FieldError> {
    let problems = validate_name(rule, name).into_iter();
    problems.map(|problem| FieldError::invalid_str(path, name, problem)).collect()
}
