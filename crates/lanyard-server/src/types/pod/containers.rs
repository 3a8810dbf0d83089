//! Containers of all sorts: names, images, ports, mounts, and what each sort may have.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    super::{
        amounts::validate_requirements,
        path::{Path, flag, items, number, part},
        ports::{validate_port_name, validate_port_number, validate_protocol},
    },
    env::validate_env,
    handlers::validate_handlers,
    security::validate_container_context,
    volumes::{Volumes, descending, no_backsteps},
};
use crate::{field::FieldError, object::ObjectExt, resource::NameRule, types::validate_name};

/// What containers of one pod have in common.
pub(super) struct Surroundings<'a> {
    /// The volumes that can be mounted.
    pub(super) volumes: Volumes<'a>,
    /// The names of resource claims.
    pub(super) claims: BTreeSet<&'a str>,
    /// How long the pod may take to end.
    pub(super) grace: Option<i64>,
    /// The restart policy of the pod.
    pub(super) restart: &'a str,
}

/// The problems of `containers`.
pub(super) fn validate_containers(
    spec: &Value,
    around: &Surroundings<'_>,
    path: &Path,
) -> Vec<FieldError> {
    let list = path.child("containers");
    if items(spec, "containers").is_empty() {
        return vec![FieldError::required(list, "")];
    }
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for (path, container) in path.items(spec, "containers") {
        errors.extend(validate_common(container, around, &path));
        let name = container.text(&["name"]);
        if !names.insert(name) {
            errors.push(FieldError::duplicate(path.child("name"), &name.into()));
        }
        errors.extend(validate_handlers(container, around.grace, &path));
        errors.extend(validate_restart_policy(container, &path));
    }
    errors.extend(host_port_conflicts(items(spec, "containers"), &list));
    errors
}

/// The problems of `initContainers`.
pub(super) fn validate_init_containers(
    spec: &Value,
    around: &Surroundings<'_>,
    path: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list = path.child("initContainers");
    let mut names: BTreeSet<&str> =
        items(spec, "containers").iter().map(|c| c.text(&["name"])).collect();
    for (path, container) in path.items(spec, "initContainers") {
        errors.extend(validate_common(container, around, &path));
        errors.extend(validate_restart_policy(container, &path));
        let name = container.text(&["name"]);
        if !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(path.child("name"), &name.into()));
        }
        errors.extend(host_port_conflicts(std::slice::from_ref(container), &list));
        if container.text(&["restartPolicy"]) == "Always" {
            errors.extend(validate_handlers(container, around.grace, &path));
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if part(container, field).is_some() {
                let problem = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(path.child(field), problem));
            }
        }
    }
    errors
}

/// The problems that an image has in a pod but not in a template.
pub(super) fn validate_images(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for list in ["containers", "initContainers"] {
        for (path, container) in path.items(spec, list) {
            errors.extend(padded_image(container, &path));
        }
    }
    errors
}

/// The problem of an image with spaces around it.
pub(super) fn padded_image(container: &Value, path: &Path) -> Option<FieldError> {
    let image = container.text(&["image"]);
    let problem = "must not have leading or trailing whitespace";
    (image.trim().len() != image.len())
        .then(|| FieldError::invalid_str(path.child("image"), image, problem))
}

fn validate_common(container: &Value, around: &Surroundings<'_>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let at = path.child("name");
    match container.text(&["name"]) {
        "" => errors.push(FieldError::required(at, "")),
        name => errors.extend(
            validate_name(NameRule::DnsLabel, name)
                .into_iter()
                .map(|problem| FieldError::invalid_str(&at, name, problem)),
        ),
    }
    if container.text(&["image"]).is_empty() {
        errors.push(FieldError::required(path.child("image"), ""));
    }
    let policy = container.text(&["terminationMessagePolicy"]);
    let known = ["File", "FallbackToLogsOnError"];
    if !known.contains(&policy) {
        let at = path.child("terminationMessagePolicy");
        errors.push(FieldError::not_supported(at, policy, &known));
    }
    errors.extend(validate_ports(container, path));
    errors.extend(validate_env(container, path));
    errors.extend(validate_mounts(container, around, path));
    errors.extend(validate_devices(container, around, path));
    let policy = container.text(&["imagePullPolicy"]);
    let known = ["Always", "IfNotPresent", "Never"];
    if !known.contains(&policy) {
        errors.push(FieldError::not_supported(path.child("imagePullPolicy"), policy, &known));
    }
    if let Some(resources) = part(container, "resources") {
        let path = path.child("resources");
        errors.extend(validate_requirements(resources, &around.claims, &path));
    }
    errors.extend(validate_resize_policy(container, around.restart, path));
    errors.extend(validate_container_context(container, path));
    errors
}

fn validate_ports(container: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    for (path, port) in path.items(container, "ports") {
        let (name, at) = (port.text(&["name"]), path.child("name"));
        if !name.is_empty() {
            let problems = validate_port_name(name);
            if problems.is_empty() && !names.insert(name) {
                errors.push(FieldError::duplicate(&at, &name.into()));
            }
            errors.extend(problems.iter().map(|p| FieldError::invalid_str(&at, name, p)));
        }
        let at = path.child("containerPort");
        match number(port, "containerPort") {
            0 => errors.push(FieldError::required(at, "")),
            number => errors.extend(validate_port_number(number, at)),
        }
        match number(port, "hostPort") {
            0 => {}
            number => errors.extend(validate_port_number(number, path.child("hostPort"))),
        }
        errors.extend(validate_protocol(port.text(&["protocol"]), &path.child("protocol")));
    }
    errors
}

/// Two containers cannot have the same port of the node.
fn host_port_conflicts(containers: &[Value], list: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut taken = BTreeSet::new();
    for (at, container) in containers.iter().enumerate() {
        for (path, port) in list.index(at).items(container, "ports") {
            let number = number(port, "hostPort");
            if number == 0 {
                continue;
            }
            let port = format!("{}/{}/{number}", port.text(&["protocol"]), port.text(&["hostIP"]));
            if !taken.insert(port.clone()) {
                errors.push(FieldError::duplicate(path.child("hostPort"), &port.into()));
            }
        }
    }
    errors
}

fn validate_mounts(container: &Value, around: &Surroundings<'_>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list = path.child("volumeMounts");
    let devices = |field: &str| texts(container, "volumeDevices", field);
    let (device_names, device_points) = (devices("name"), devices("devicePath"));
    let mut points = BTreeSet::new();
    for (path, mount) in path.items(container, "volumeMounts") {
        let (name, point) = (mount.text(&["name"]), mount.text(&["mountPath"]));
        let (name_at, point_at) = (path.child("name"), path.child("mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(&name_at, ""));
        }
        if !around.volumes.contains_key(name) {
            errors.push(FieldError::not_found(&name_at, name));
        }
        if point.is_empty() {
            errors.push(FieldError::required(&point_at, ""));
        }
        if !points.insert(point) {
            errors.push(FieldError::invalid_str(&point_at, point, "must be unique"));
        }
        if device_names.contains(name) {
            let problem = "must not already exist in volumeDevices";
            errors.push(FieldError::invalid_str(&name_at, name, problem));
        }
        if device_points.contains(point) {
            let problem = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid_str(&point_at, point, problem));
        }
        errors.extend(validate_mount_options(mount, container, &path, &list));
    }
    errors
}

/// Upstream names the list, not the item, for what is wrong with these.
fn validate_mount_options(
    mount: &Value,
    container: &Value,
    path: &Path,
    list: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (sub, expression) = (mount.text(&["subPath"]), mount.text(&["subPathExpr"]));
    errors.extend(descending(sub, &list.child("subPath")));
    if !expression.is_empty() && !sub.is_empty() {
        let problem = "subPathExpr and subPath are mutually exclusive";
        errors.push(FieldError::invalid_str(path.child("subPathExpr"), expression, problem));
    }
    errors.extend(descending(expression, &list.child("subPathExpr")));
    let (propagation, at) = (mount.text(&["mountPropagation"]), list.child("mountPropagation"));
    let known = ["Bidirectional", "HostToContainer", "None"];
    if !propagation.is_empty() && !known.contains(&propagation) {
        errors.push(FieldError::not_supported(&at, propagation, &known));
    }
    let context = part(container, "securityContext").unwrap_or(&Value::Null);
    if propagation == "Bidirectional" && !flag(context, "privileged") {
        let problem = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(FieldError::forbidden(&at, problem));
    }
    let at = list.child("recursiveReadOnly");
    match mount.text(&["recursiveReadOnly"]) {
        "" | "Disabled" => {}
        "Enabled" | "IfPossible" => {
            if !flag(mount, "readOnly") {
                let problem = "may only be specified when readOnly is true";
                errors.push(FieldError::forbidden(&at, problem));
            }
            if !matches!(propagation, "" | "None") {
                let problem =
                    "may only be specified when mountPropagation is None or not specified";
                errors.push(FieldError::forbidden(&at, problem));
            }
        }
        other => {
            let known = ["Disabled", "Enabled", "IfPossible"];
            errors.push(FieldError::not_supported(&at, other, &known));
        }
    }
    errors
}

fn validate_devices(container: &Value, around: &Surroundings<'_>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mounts = |field: &str| texts(container, "volumeMounts", field);
    let (mount_names, mount_points) = (mounts("name"), mounts("mountPath"));
    let (mut names, mut points) = (BTreeSet::new(), BTreeSet::new());
    for (path, device) in path.items(container, "volumeDevices") {
        let (name, point) = (device.text(&["name"]), device.text(&["devicePath"]));
        let (name_at, point_at) = (path.child("name"), path.child("devicePath"));
        if name.is_empty() {
            errors.push(FieldError::required(&name_at, ""));
        } else if !names.insert(name) {
            errors.push(FieldError::invalid_str(&name_at, name, "must be unique"));
        }
        match around.volumes.get(name) {
            None => errors.push(FieldError::not_found(&name_at, name)),
            Some(volume) => {
                let claim = ["persistentVolumeClaim", "ephemeral"];
                if !claim.iter().any(|source| part(volume, source).is_some()) {
                    let problem = "can only use volume source type of PersistentVolumeClaim or \
                                   Ephemeral for block mode";
                    errors.push(FieldError::invalid_str(&name_at, name, problem));
                }
            }
        }
        if point.is_empty() {
            errors.push(FieldError::required(&point_at, ""));
        }
        if points.contains(point) {
            errors.push(FieldError::invalid_str(&point_at, point, "must be unique"));
        }
        if !point.is_empty() && no_backsteps(point, &point_at).is_some() {
            let problem = "can not contain backsteps ('..')";
            errors.push(FieldError::invalid_str(&point_at, point, problem));
        } else {
            points.insert(point);
        }
        if mount_names.contains(name) {
            let problem = "must not already exist in volumeMounts";
            errors.push(FieldError::invalid_str(&name_at, name, problem));
        }
        if mount_points.contains(point) {
            let problem = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid_str(&point_at, point, problem));
        }
    }
    errors
}

/// What the items of a list have in a field.
fn texts<'a>(container: &'a Value, list: &str, field: &str) -> BTreeSet<&'a str> {
    items(container, list).iter().map(|item| item.text(&[field])).collect()
}

fn validate_resize_policy(container: &Value, restart: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list = path.child("resizePolicy");
    let mut names = BTreeSet::new();
    for (at, policy) in items(container, "resizePolicy").iter().enumerate() {
        let (name, action) = (policy.text(&["resourceName"]), policy.text(&["restartPolicy"]));
        if !names.insert(name) {
            errors.push(FieldError::duplicate(list.index(at), &name.into()));
        }
        for (value, known) in
            [(name, ["cpu", "memory"]), (action, ["NotRequired", "RestartContainer"])]
        {
            match value {
                "" => errors.push(FieldError::required(&list, "")),
                value if known.contains(&value) => {}
                other => errors.push(FieldError::not_supported(&list, other, &known)),
            }
        }
        if restart == "Never" && action != "NotRequired" {
            let problem = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.push(FieldError::invalid_str(&list, action, problem));
        }
    }
    errors
}

fn validate_restart_policy(container: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let known = ["Always", "Never", "OnFailure"];
    let at = path.child("restartPolicy");
    match container.get("restartPolicy").and_then(Value::as_str) {
        None if items(container, "restartPolicyRules").is_empty() => return errors,
        None => {
            let problem = "must specify restartPolicy when restart rules are used";
            errors.push(FieldError::required(at, problem));
        }
        Some(policy) if known.contains(&policy) => {}
        Some(other) => errors.push(FieldError::not_supported(at, other, &known)),
    }
    let rules = items(container, "restartPolicyRules").len();
    if rules > 20 {
        errors.push(FieldError::too_many(path.child("restartPolicyRules"), rules, 20));
    }
    for (path, rule) in path.items(container, "restartPolicyRules") {
        let action = rule.text(&["action"]);
        let known = ["Restart", "RestartAllContainers"];
        if !known.contains(&action) {
            errors.push(FieldError::not_supported(path.child("action"), action, &known));
        }
        let at = path.child("exitCodes");
        let Some(codes) = part(rule, "exitCodes") else {
            errors.push(FieldError::required(at, "must be specified"));
            continue;
        };
        let operator = codes.text(&["operator"]);
        if !matches!(operator, "In" | "NotIn") {
            let known = ["In", "NotIn"];
            errors.push(FieldError::not_supported(at.child("operator"), operator, &known));
        }
        let values = items(codes, "values").len();
        if values > 255 {
            errors.push(FieldError::too_many(at.child("values"), values, 255));
        }
    }
    errors
}
