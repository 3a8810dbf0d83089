//! As whom containers run: the numbers and profiles of security contexts.

use serde_json::Value;

use super::{
    super::path::{Path, flag, part, strings},
    volumes::descending,
};
use crate::{field::FieldError, object::ObjectExt};

const ID_RANGE: &str = "must be between 0 and 2147483647, inclusive";

/// The problems of the security context of a pod.
pub(super) fn validate_pod_context(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(context) = part(spec, "securityContext") else { return errors };
    let path = path.child("securityContext");
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        errors.extend(validate_id(context.get(field), &path.child(field)));
    }
    for (path, group) in path.items(context, "supplementalGroups") {
        errors.extend(validate_id(Some(group), &path));
    }
    if flag(spec, "shareProcessNamespace") && flag(spec, "hostPID") {
        let problem = "ShareProcessNamespace and HostPID cannot both be enabled";
        let at = path.child("shareProcessNamespace");
        errors.push(FieldError::invalid(at, &true.into(), problem));
    }
    for (field, known) in [
        ("fsGroupChangePolicy", ["Always", "OnRootMismatch"]),
        ("supplementalGroupsPolicy", ["Merge", "Strict"]),
    ] {
        let policy = context.text(&[field]);
        if context.get(field).is_some_and(Value::is_string) && !known.contains(&policy) {
            errors.push(FieldError::not_supported(path.child(field), policy, &known));
        }
    }
    errors.extend(validate_seccomp(context, &path));
    errors
}

/// The problems of the security context of a container.
pub(super) fn validate_container_context(container: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(context) = part(container, "securityContext") else { return errors };
    let path = path.child("securityContext");
    for field in ["runAsUser", "runAsGroup"] {
        errors.extend(validate_id(context.get(field), &path.child(field)));
    }
    let mount = context.text(&["procMount"]);
    if !matches!(mount, "" | "Default" | "Unmasked") {
        let known = ["Default", "Unmasked"];
        errors.push(FieldError::not_supported(path.child("procMount"), mount, &known));
    }
    errors.extend(validate_seccomp(context, &path));
    if context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        let contradiction = |what: &str| {
            let problem = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            FieldError::invalid(&path, context, problem)
        };
        if flag(context, "privileged") {
            errors.push(contradiction("`privileged` to true"));
        }
        let capabilities = part(context, "capabilities").unwrap_or(&Value::Null);
        if strings(capabilities, "add").contains(&"CAP_SYS_ADMIN") {
            errors.push(contradiction("`capabilities.Add` CAP_SYS_ADMIN"));
        }
    }
    errors
}

fn validate_id(value: Option<&Value>, path: &Path) -> Option<FieldError> {
    let id = value?.as_i64()?;
    let good = (0..=i64::from(i32::MAX)).contains(&id);
    (!good).then(|| FieldError::invalid(path, &id.into(), ID_RANGE))
}

fn validate_seccomp(context: &Value, path: &Path) -> Vec<FieldError> {
    let Some(profile) = part(context, "seccompProfile") else { return Vec::new() };
    let path = path.child("seccompProfile");
    let mut errors = Vec::new();
    let kind = profile.text(&["type"]);
    match kind {
        "Localhost" | "RuntimeDefault" | "Unconfined" => {}
        "" => errors.push(FieldError::required(
            path.child("type"),
            "type is required when seccompProfile is set",
        )),
        other => {
            let known = ["Localhost", "RuntimeDefault", "Unconfined"];
            errors.push(FieldError::not_supported(path.child("type"), other, &known));
        }
    }
    let at = path.child("localhostProfile");
    match (kind, profile.get("localhostProfile").and_then(Value::as_str)) {
        ("Localhost", None) => {
            let problem = "must be set when seccomp type is Localhost";
            errors.push(FieldError::required(at, problem));
        }
        ("Localhost", Some(file)) => errors.extend(descending(file, &at)),
        (_, Some(_)) => {
            let problem = "can only be set when seccomp type is Localhost";
            errors.push(FieldError::invalid(at, profile, problem));
        }
        (_, None) => {}
    }
    errors
}
