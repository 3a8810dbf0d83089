//! The environment of a container: variables, and where their values come from.

use serde_json::Value;

use super::super::{
    names::validate_data_key,
    path::{Path, part},
};
use crate::{
    field::{FieldError, is_printable},
    object::ObjectExt,
    resource::NameRule,
    types::{validate_label_key, validate_name},
};

/// The fields of a pod that a variable can have its value from.
const FIELD_PATHS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The resources of a container that a variable can have its value from.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const BYTE_DIVISORS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// The problems of `env` and `envFrom` of a container.
pub(super) fn validate_env(container: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (path, variable) in path.items(container, "env") {
        let name = variable.text(&["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        }
        errors.extend(name_problem(name, &path.child("name")));
        if let Some(source) = part(variable, "valueFrom") {
            let value = variable.text(&["value"]);
            errors.extend(validate_source(source, value, &path.child("valueFrom")));
        }
    }
    let list = path.child("envFrom");
    for (path, source) in path.items(container, "envFrom") {
        errors.extend(name_problem(source.text(&["prefix"]), &path.child("prefix")));
        let mut sources = 0;
        for field in ["configMapRef", "secretRef"] {
            if let Some(reference) = part(source, field) {
                sources += 1;
                errors.extend(validate_reference(reference, &path.child(field)));
            }
        }
        let problem = match sources {
            0 => "must specify one of: `configMapRef` or `secretRef`",
            1 => continue,
            _ => "may not have more than one field specified at a time",
        };
        errors.push(FieldError::invalid_str(&list, "", problem));
    }
    errors
}

/// The problem of a name that is there.
fn name_problem(name: &str, path: &Path) -> Option<FieldError> {
    let good = |c: char| c.is_ascii() && is_printable(c) && c != '=';
    let problem = "a valid environment variable name must consist only of printable ASCII \
                   characters other than '='";
    (!name.chars().all(good)).then(|| FieldError::invalid_str(path, name, problem))
}

fn validate_reference(reference: &Value, path: &Path) -> Vec<FieldError> {
    match reference.text(&["name"]) {
        "" => vec![FieldError::required(path.child("name"), "")],
        name => name_problems(name, path),
    }
}

fn name_problems(name: &str, path: &Path) -> Vec<FieldError> {
    let problems = validate_name(NameRule::DnsSubdomain, name).into_iter();
    problems.map(|problem| FieldError::invalid_str(path.child("name"), name, problem)).collect()
}

fn validate_source(source: &Value, value: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut sources = 0;
    if let Some(field) = part(source, "fieldRef") {
        sources += 1;
        errors.extend(validate_field_ref(field, &FIELD_PATHS, &path.child("fieldRef")));
    }
    if let Some(resource) = part(source, "resourceFieldRef") {
        sources += 1;
        errors.extend(validate_resource_ref(resource, false, &path.child("resourceFieldRef")));
    }
    for field in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(reference) = part(source, field) {
            sources += 1;
            errors.extend(validate_key_ref(reference, &path.child(field)));
        }
    }
    if let Some(file) = part(source, "fileKeyRef") {
        sources += 1;
        let path = path.child("fileKeyRef");
        for field in ["key", "volumeName", "path"] {
            if file.text(&[field]).is_empty() {
                errors.push(FieldError::required(path.child(field), ""));
            }
        }
    }
    let problem = match (sources, value) {
        (0, _) => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
             `fileKeyRef`"
        }
        (1, "") => return errors,
        (_, "") => "may not have more than one field specified at a time",
        _ => "may not be specified when `value` is not empty",
    };
    errors.push(FieldError::invalid_str(path, "", problem));
    errors
}

fn validate_key_ref(reference: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = name_problems(reference.text(&["name"]), path);
    match reference.text(&["key"]) {
        "" => errors.push(FieldError::required(path.child("key"), "")),
        key => errors.extend(
            validate_data_key(key)
                .into_iter()
                .map(|problem| FieldError::invalid_str(path.child("key"), key, problem)),
        ),
    }
    errors
}

/// The problems of a reference to a field of the pod.
pub(super) fn validate_field_ref(
    reference: &Value,
    allowed: &[&str],
    path: &Path,
) -> Vec<FieldError> {
    let version = reference.text(&["apiVersion"]);
    let at = path.child("fieldPath");
    let field = reference.text(&["fieldPath"]);
    if field.is_empty() {
        return vec![FieldError::required(at, "")];
    }
    if version != "v1" {
        let problem = format!("error converting fieldPath: unsupported pod version: {version}");
        return vec![FieldError::invalid_str(at, field, problem)];
    }
    if let Some((map, key)) = subscripted(field) {
        let problems = match map {
            "metadata.annotations" => validate_label_key(&key.to_lowercase()),
            "metadata.labels" => validate_label_key(key),
            _ => {
                let problem = format!(
                    "error converting fieldPath: field label does not support subscript: {field}"
                );
                return vec![FieldError::invalid_str(at, field, problem)];
            }
        };
        let shown = if map == "metadata.annotations" { key.to_lowercase() } else { key.to_owned() };
        return problems
            .into_iter()
            .map(|problem| FieldError::invalid_str(path, &shown, problem))
            .collect();
    }
    if !KNOWN_FIELDS.contains(&field) {
        let problem = format!("error converting fieldPath: field label not supported: {field}");
        return vec![FieldError::invalid_str(at, field, problem)];
    }
    if !allowed.contains(&field) {
        return vec![FieldError::not_supported(at, field, allowed)];
    }
    Vec::new()
}

/// The fields of pods that can be referred to at all, somewhere.
const KNOWN_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// `metadata.labels['a']` is the entry `a` of a map.
fn subscripted(field: &str) -> Option<(&str, &str)> {
    let (map, rest) = field.split_once("['")?;
    Some((map, rest.strip_suffix("']")?))
}

/// The problems of a reference to a resource of a container; in volumes it names the container.
pub(super) fn validate_resource_ref(
    reference: &Value,
    in_volume: bool,
    path: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let resource = reference.text(&["resource"]);
    let huge =
        resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if in_volume && reference.text(&["containerName"]).is_empty() {
        errors.push(FieldError::required(path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(path.child("resource"), ""));
    } else if !RESOURCES.contains(&resource) && !huge {
        errors.push(FieldError::not_supported(path.child("resource"), resource, &RESOURCES));
    }
    let divisor = reference.text(&["divisor"]);
    if matches!(divisor, "" | "0") {
        return errors;
    }
    let cpu = resource.ends_with(".cpu");
    let what = match resource.split_once('.').map(|(_, name)| name) {
        Some("cpu") => "cpu",
        Some("memory") => "memory",
        Some("ephemeral-storage") => "local ephemeral storage",
        _ if huge => "hugepages",
        _ => return errors,
    };
    let (good, values) = match cpu {
        true => (matches!(divisor, "1" | "1m"), "1m and 1".to_owned()),
        false => (BYTE_DIVISORS.contains(&divisor), BYTE_DIVISORS.join(", ")),
    };
    if !good {
        let problem =
            format!("only divisor's values {values} are supported with the {what} resource");
        errors.push(FieldError::invalid_str(path.child("divisor"), resource, problem));
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_with_an_environment() {
        let check = |container: Value, expected: &[&str]| {
            let errors = validate_env(&container, &Path::new("c"));
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected, "{container}");
        };
        check(json!({"env": [{"name": "A", "value": "b"}, {"name": "odd name!"}]}), &[]);
        check(json!({"env": [{"name": ""}]}), &["c.env[0].name: Required value"]);
        check(
            json!({"env": [{"name": "a=b"}]}),
            &[
                "c.env[0].name: Invalid value: \"a=b\": a valid environment variable name must consist only of printable ASCII characters other than '='",
            ],
        );
        check(
            json!({"env": [{"name": "A", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.nope"}}}]}),
            &[
                "c.env[0].valueFrom.fieldRef.fieldPath: Invalid value: \"metadata.nope\": error converting fieldPath: field label not supported: metadata.nope",
            ],
        );
        check(
            json!({"env": [{"name": "A", "value": "b", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
            &[
                "c.env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty",
            ],
        );
        check(
            json!({"env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1k"}}}]}),
            &[
                "c.env[0].valueFrom.resourceFieldRef.divisor: Invalid value: \"limits.cpu\": only divisor's values 1m and 1 are supported with the cpu resource",
            ],
        );
        check(
            json!({"envFrom": [{}]}),
            &["c.envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`"],
        );
    }
}
