//! What an APIService may say.

use serde_json::Value;

use super::{
    super::{
        names::{dns_subdomain, validate_name},
        object_meta::validate_named,
    },
    service,
};
use crate::{
    field::{FieldError, quoted},
    object::ObjectExt,
    resource::{NameRule, Scope, Subresource},
    schema::decoded_len,
};

/// The problems of a new one.
pub(super) fn create(object: &Value) -> Vec<FieldError> {
    let mut errors = validate_named(object, Scope::Cluster, |name, _| name_problems(object, name));
    check_spec(object, &mut errors);
    errors
}

/// The problems of a change.
pub(super) fn update(new: &Value, subresource: Option<Subresource>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if subresource.is_some() {
        check_conditions(new, &mut errors);
        return errors;
    }
    for problem in name_problems(new, new.name()) {
        errors.push(FieldError::invalid_str("metadata.name", new.name(), problem));
    }
    check_spec(new, &mut errors);
    errors
}

/// The name says which group version it is about.
fn name_problems(object: &Value, name: &str) -> Vec<String> {
    let problems = validate_name(NameRule::PathSegment, name);
    let spec = |field| object.text(&["spec", field]);
    let required = format!("{}.{}", spec("version"), spec("group"));
    if problems.is_empty() && name != required {
        let required = quoted(&required);
        return vec![format!("must be `spec.version+\".\"+spec.group`: {required}")];
    }
    problems
}

fn check_spec(object: &Value, errors: &mut Vec<FieldError>) {
    let (group, version) = (object.text(&["spec", "group"]), object.text(&["spec", "version"]));
    if group.is_empty() && version != "v1" {
        let problem = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required("spec.group", problem));
    }
    if !group.is_empty() {
        for problem in dns_subdomain(group, "characters") {
            errors.push(FieldError::invalid_str("spec.group", group, problem));
        }
    }
    for problem in validate_name(NameRule::Dns1035Label, version) {
        errors.push(FieldError::invalid_str("spec.version", version, problem));
    }
    for (field, limit) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let number = object.at(&["spec", field]).and_then(Value::as_i64).unwrap_or_default();
        if !(1..=limit).contains(&number) {
            let problem = format!("must be positive and less than {limit}");
            errors.push(FieldError::invalid(format!("spec.{field}"), &number.into(), problem));
        }
    }
    check_service(object, errors);
}

fn check_service(object: &Value, errors: &mut Vec<FieldError>) {
    const INSECURE: &str = "spec.insecureSkipTLSVerify";
    let bundle = decoded_len(object.text(&["spec", "caBundle"]));
    let insecure = object.at(&["spec", "insecureSkipTLSVerify"]) == Some(&Value::Bool(true));
    let Some(service) = service(object) else {
        if bundle > 0 {
            let problem = "local APIServices may not have a caBundle";
            let shown = format!("{bundle} bytes");
            errors.push(FieldError::invalid_str("spec.caBundle", &shown, problem));
        }
        if insecure {
            let problem = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid(INSECURE, &true.into(), problem));
        }
        return;
    };
    for field in ["namespace", "name"] {
        if service.text(&[field]).is_empty() {
            errors.push(FieldError::required(format!("spec.service.{field}"), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or_default();
    if !(1..=65_535).contains(&port) {
        let problem = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid("spec.service.port", &port.into(), problem));
    }
    if insecure && bundle > 0 {
        let problem = "may not be true if caBundle is present";
        errors.push(FieldError::invalid(INSECURE, &true.into(), problem));
    }
}

fn check_conditions(object: &Value, errors: &mut Vec<FieldError>) {
    const KNOWN: &[&str] = &["True", "False", "Unknown"];
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array);
    for (index, condition) in conditions.into_iter().flatten().enumerate() {
        let status = condition.text(&["status"]);
        if !KNOWN.contains(&status) {
            let path = format!("status.conditions[{index}].status");
            errors.push(FieldError::not_supported(path, status, KNOWN));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_api_service_is_named_after_what_it_serves() {
        let check = |name: &str, fields: Value, expected: &[&str]| {
            let mut object = json!({"metadata": {"name": name}, "spec": {"group": "a.b",
                "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}});
            for (field, value) in fields.as_object().unwrap() {
                object["spec"][field] = value.clone();
            }
            let found: Vec<String> = create(&object).iter().map(|e| e.to_string()).collect();
            assert_eq!(found, expected, "{name} {fields}");
        };
        check("v1.a.b", json!({}), &[]);
        check("v1.", json!({"group": ""}), &[]);
        check(
            "x",
            json!({}),
            &[
                "metadata.name: Invalid value: \"x\": must be `spec.version+\".\"+spec.group`: \"v1.a.b\"",
            ],
        );
        check(
            "v1.a.b",
            json!({"groupPriorityMinimum": 20_001, "versionPriority": 0}),
            &[
                "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
            ],
        );
        check(
            "v1.a.b",
            json!({"caBundle": "eA==", "insecureSkipTLSVerify": true}),
            &[
                "spec.caBundle: Invalid value: \"1 bytes\": local APIServices may not have a caBundle",
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have \
             insecureSkipTLSVerify",
            ],
        );
        check(
            "v1.a.b",
            json!({"service": {"port": 0}}),
            &[
                "spec.service.namespace: Required value",
                "spec.service.name: Required value",
                "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, \
             inclusive",
            ],
        );
    }
}
