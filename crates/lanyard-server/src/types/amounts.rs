//! Amounts of resources: which names there are, and which amounts of each make sense.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    path::{Path, pairs},
    validate_label_key,
};
use crate::{
    field::{FieldError, FieldErrorKind},
    object::ObjectExt,
    schema::quantity,
};

const CONTAINER: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// Names without a domain that may stand for a resource somewhere.
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Resources that are counted.
const WHOLE: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// How many names of claims a message shows.
const MAX_SHOWN: usize = 50;

/// Whether a quota can limit a resource of this name, which has no domain.
pub(super) fn is_quota_resource(name: &str) -> bool {
    (STANDARD.contains(&name) && name != "storage")
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
}

/// The problems of the name of a resource.
pub(super) fn validate_resource_name(name: &str, path: &Path) -> Vec<FieldError> {
    let problems = validate_label_key(name);
    if !problems.is_empty() {
        return problems.iter().map(|p| FieldError::invalid_str(path, name, p)).collect();
    }
    let huge = name.starts_with("hugepages-") || name.starts_with("requests.hugepages-");
    if !name.contains('/') && !STANDARD.contains(&name) && !huge {
        let problem = "must be a standard resource type or fully qualified";
        return vec![FieldError::invalid_str(path, name, problem)];
    }
    Vec::new()
}

fn validate_container_resource(name: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = validate_resource_name(name, path);
    let problem = if !name.contains('/') {
        let known = CONTAINER.contains(&name) || name.starts_with("hugepages-");
        (!known).then_some("must be a standard resource for containers")
    } else {
        let bad = !is_native(name) && !is_extended(name);
        bad.then_some("doesn't follow extended resource name standard")
    };
    errors.extend(problem.map(|problem| FieldError::invalid_str(path, name, problem)));
    errors
}

/// The problems of an amount of a resource.
pub(super) fn validate_amount(name: &str, amount: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nanos = quantity::nanos(amount).unwrap_or(0);
    if nanos < 0 {
        let problem = "must be greater than or equal to 0";
        errors.push(FieldError::invalid_str(path, amount, problem));
    }
    if (WHOLE.contains(&name) || is_extended(name)) && nanos % 1_000_000_000 != 0 {
        errors.push(FieldError::invalid_str(path, amount, "must be an integer"));
    }
    errors
}

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && validate_label_key(&format!("requests.{name}")).is_empty()
}

/// The problems of `resources` of a container.
pub(super) fn validate_requirements(
    resources: &Value,
    claims: &BTreeSet<&str>,
    path: &Path,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (limits, requests) = (path.child("limits"), path.child("requests"));
    let huge = |name: &str| name.starts_with("hugepages-");
    for (name, amount) in pairs(resources, "limits") {
        let path = limits.key(name);
        errors.extend(validate_container_resource(name, &path));
        errors.extend(validate_amount(name, amount, &path));
        errors.extend(indivisible(name, amount, &path));
    }
    for (name, amount) in pairs(resources, "requests") {
        let path = requests.key(name);
        errors.extend(validate_container_resource(name, &path));
        errors.extend(validate_amount(name, amount, &path));
        let overcommit = is_native(name) && !huge(name);
        let (asked, limit) = (quantity::nanos(amount), resources.text(&["limits", name]));
        let problem = match quantity::nanos(limit) {
            Some(bound) if asked != Some(bound) && !overcommit => {
                format!("must be equal to {name} limit of {limit}")
            }
            Some(bound) if asked > Some(bound) => {
                format!("must be less than or equal to {name} limit of {limit}")
            }
            None if !overcommit => {
                let problem = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(&limits, problem));
                String::new()
            }
            _ => String::new(),
        };
        if !problem.is_empty() {
            errors.push(FieldError::invalid_str(&requests, amount, problem));
        }
        errors.extend(indivisible(name, amount, &path));
    }
    let names = || ["limits", "requests"].map(|list| pairs(resources, list)).concat();
    let compute = names().iter().any(|(name, _)| matches!(*name, "cpu" | "memory"));
    if !compute && names().iter().any(|(name, _)| huge(name)) {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
    errors.extend(validate_claims(resources, claims, path));
    errors
}

/// Huge pages come whole.
fn indivisible(name: &str, amount: &str, path: &Path) -> Option<FieldError> {
    let size = quantity::nanos(name.strip_prefix("hugepages-")?).unwrap_or(0);
    let divides = size > 0 && quantity::nanos(amount).unwrap_or(0) % size == 0;
    let problem = format!("{amount} is not positive integer multiple of {name}");
    (!divides).then(|| FieldError::invalid_str(path, amount, problem))
}

fn validate_claims(resources: &Value, claims: &BTreeSet<&str>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (path, claim) in path.items(resources, "claims") {
        let name = claim.text(&["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path, &name.into()));
        } else if !claims.contains(name) {
            let known = match claims.len() {
                0 => " which is empty".to_owned(),
                1..=MAX_SHOWN => {
                    format!(": {}", claims.iter().copied().collect::<Vec<_>>().join(", "))
                }
                _ => String::new(),
            };
            let FieldError { path, body, .. } = FieldError::not_found(&path, name);
            let body =
                format!("{body}: must be one of the names in pod.spec.resourceClaims{known}");
            errors.push(FieldError { path, kind: FieldErrorKind::NotFound, body });
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_wrong_with_requirements() {
        let check = |resources: Value, expected: &[&str]| {
            let errors = validate_requirements(&resources, &BTreeSet::new(), &Path::new("r"));
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected, "{resources}");
        };
        check(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "500m", "memory": "1Gi"}}), &[]);
        check(
            json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
            &["r.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1"],
        );
        check(
            json!({"limits": {"gpu": "1"}}),
            &[
                "r.limits[gpu]: Invalid value: \"gpu\": must be a standard resource type or fully qualified",
                "r.limits[gpu]: Invalid value: \"gpu\": must be a standard resource for containers",
            ],
        );
        check(
            json!({"requests": {"example.com/gpu": "1500m"}}),
            &[
                "r.requests[example.com/gpu]: Invalid value: \"1500m\": must be an integer",
                "r.limits: Required value: Limit must be set for non overcommitable resources",
            ],
        );
        check(
            json!({"limits": {"cpu": "-1"}}),
            &["r.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0"],
        );
        check(
            json!({"claims": [{"name": "a"}]}),
            &[
                "r.claims[0]: Not found: \"a\": must be one of the names in pod.spec.resourceClaims which is empty",
            ],
        );
    }
}
