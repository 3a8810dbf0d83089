//! ResourceQuota: how much a namespace may hold. It is kept and checked, but nobody enforces it here.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    ALL_VERBS,
    amounts::{is_quota_resource, validate_amount, validate_resource_name},
    column::{self, AGE, NAME, age_cell, name_cell},
    object_meta::validate_finalizer_domains,
    path::{Path, items, keep, pairs, part, strings},
};
use crate::{
    field::FieldError,
    name::names,
    object::ObjectExt,
    resource::{Column, Resource, Rules, Scope, Subresource, View, WriteContext},
    schema::{builtin, quantity},
};

pub(super) fn resource() -> Resource {
    Resource {
        storage: "resourcequotas".into(),
        plural: "resourcequotas".into(),
        singular: "resourcequota".into(),
        kind: "ResourceQuota".into(),
        short_names: names(&["quota"]),
        categories: Vec::new(),
        scope: Scope::Namespaced,
        verbs: ALL_VERBS,
        subresources: &[Subresource::Status],
        views: vec![View::new("", "v1", builtin("io.k8s.api.core.v1.ResourceQuota"))],
        rules: Arc::new(ResourceQuotas),
    }
}

static COLUMNS: [Column; 4] = [
    NAME,
    column::text("Request", "What is used of what may be asked for."),
    column::text("Limit", "What is used of the limits."),
    AGE,
];

/// The scopes, with the resources that each can be limited in; all when there are none.
const SCOPES: [(&str, &[&str]); 7] = [
    ("Terminating", POD_RESOURCES),
    ("NotTerminating", POD_RESOURCES),
    ("BestEffort", &["pods"]),
    ("NotBestEffort", POD_RESOURCES),
    ("PriorityClass", POD_RESOURCES),
    ("VolumeAttributesClass", &["persistentvolumeclaims", "requests.storage"]),
    ("CrossNamespacePodAffinity", POD_RESOURCES),
];

const POD_RESOURCES: &[&str] =
    &["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];

/// How many scopes of a quota are looked at: there are seven, all others are repeated or wrong.
const MAX_SCOPES: usize = 100;

const OPPOSITES: [[&str; 2]; 2] =
    [["BestEffort", "NotBestEffort"], ["NotTerminating", "Terminating"]];

struct ResourceQuotas;

impl Rules for ResourceQuotas {
    fn apply_defaults(&self, object: &mut Value) {
        for path in ["/spec/hard", "/status/hard", "/status/used"] {
            let amounts = object.pointer_mut(path).and_then(Value::as_object_mut);
            for amount in amounts.into_iter().flat_map(|map| map.values_mut()) {
                if let Some(rounded) = amount.as_str().and_then(quantity::rounded_to_milli) {
                    *amount = rounded.into();
                }
            }
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        keep(new, old, if context.subresource.is_none() { "status" } else { "spec" });
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let (spec, path) = (&object["spec"], Path::new("spec"));
        let mut errors = validate_finalizer_domains(object);
        errors.extend(validate_amounts(spec, "hard", &path));
        errors.extend(validate_scopes(spec, &path));
        errors.extend(validate_scope_selector(spec, &path));
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        if context.subresource.is_some() {
            let path = Path::new("status");
            let lists = ["hard", "used"];
            return lists.iter().flat_map(|l| validate_amounts(&new["status"], l, &path)).collect();
        }
        let mut errors = self.validate(new, context);
        let scopes = |object: &Value| {
            let mut scopes: Vec<String> =
                strings(&object["spec"], "scopes").into_iter().map(str::to_owned).collect();
            scopes.sort_unstable();
            scopes.dedup();
            scopes
        };
        if scopes(new) != scopes(old) {
            let shown = new.at(&["spec", "scopes"]).unwrap_or(&Value::Null);
            errors.push(FieldError::invalid("spec.scopes", shown, "field is immutable"));
        }
        errors
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (name, hard) in pairs(&object["status"], "hard") {
            let used = match object.text(&["status", "used", name]) {
                "" => "0",
                used => used,
            };
            let cell = format!("{name}: {used}/{hard}");
            if name.starts_with("limits.") { limits.push(cell) } else { requests.push(cell) }
        }
        vec![
            name_cell(object),
            requests.join(", ").into(),
            limits.join(", ").into(),
            age_cell(object, now),
        ]
    }
}

fn validate_amounts(object: &Value, field: &str, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (name, amount) in pairs(object, field) {
        let path = path.child(field).key(name);
        errors.extend(validate_resource_name(name, &path));
        if !name.contains('/') && !is_quota_resource(name) {
            let problem = "must be a standard resource for quota";
            errors.push(FieldError::invalid_str(&path, name, problem));
        }
        errors.extend(validate_amount(name, amount, &path));
    }
    errors
}

/// Whether a scope can be used with every resource that the quota limits.
fn unfit_resources(scope: &str, spec: &Value) -> usize {
    let Some((_, fit)) = SCOPES.iter().find(|(name, _)| *name == scope) else { return 0 };
    let names = pairs(spec, "hard").into_iter().map(|(name, _)| name);
    names.filter(|name| is_quota_resource(name) && !fit.contains(name)).take(MAX_SCOPES).count()
}

fn is_scope(scope: &str) -> bool {
    SCOPES.iter().any(|(name, _)| *name == scope)
}

fn conflicts(scopes: &[&str]) -> usize {
    OPPOSITES.iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope))).count()
}

fn validate_scopes(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut scopes = strings(spec, "scopes");
    scopes.truncate(MAX_SCOPES);
    let problem = |text: &str| FieldError::invalid(path.child("scopes"), &spec["scopes"], text);
    for scope in &scopes {
        if !is_scope(scope) {
            errors.push(problem("unsupported scope"));
        }
        let unfit = unfit_resources(scope, spec);
        errors.extend((0..unfit).map(|_| problem("unsupported scope applied to resource")));
    }
    errors.extend((0..conflicts(&scopes)).map(|_| problem("conflicting scopes")));
    errors
}

fn validate_scope_selector(spec: &Value, path: &Path) -> Vec<FieldError> {
    let Some(selector) = part(spec, "scopeSelector") else { return Vec::new() };
    let path = path.child("scopeSelector").child("matchExpressions");
    let mut errors = Vec::new();
    let mut scopes = Vec::new();
    for requirement in items(selector, "matchExpressions").iter().take(MAX_SCOPES) {
        let (scope, operator) = (requirement.text(&["scopeName"]), requirement.text(&["operator"]));
        if !is_scope(scope) {
            let at = path.child("scopeName");
            errors.push(FieldError::invalid_str(at, scope, "unsupported scope"));
        }
        let unfit = unfit_resources(scope, spec);
        let text = "unsupported scope applied to resource";
        errors.extend((0..unfit).map(|_| FieldError::invalid(&path, selector, text)));
        let only_exists = !matches!(scope, "PriorityClass" | "VolumeAttributesClass");
        if is_scope(scope) && only_exists && operator != "Exists" {
            let problem = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.push(FieldError::invalid_str(path.child("operator"), operator, problem));
        }
        let values = items(requirement, "values");
        errors.extend(match (operator, values.is_empty()) {
            ("In" | "NotIn", true) => {
                let problem = "must be at least one value when `operator` is 'In' or 'NotIn' for \
                               scope selector";
                Some(FieldError::required(path.child("values"), problem))
            }
            ("Exists" | "DoesNotExist", false) => {
                let problem = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for \
                               scope selector";
                Some(FieldError::invalid(path.child("values"), &requirement["values"], problem))
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => None,
            (other, _) => {
                let at = path.child("operator");
                Some(FieldError::invalid_str(at, other, "not a valid selector operator"))
            }
        });
        scopes.push(scope);
    }
    let shown = spec.get("scopes").unwrap_or(&Value::Null);
    let conflicting = |_| FieldError::invalid(&path, shown, "conflicting scopes");
    errors.extend((0..conflicts(&scopes)).map(conflicting));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_quotas() {
        let check = |spec: Value, expected: &[&str]| {
            let path = Path::new("spec");
            let mut errors = validate_amounts(&spec, "hard", &path);
            errors.extend(validate_scopes(&spec, &path));
            errors.extend(validate_scope_selector(&spec, &path));
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected, "{spec}");
        };
        check(
            json!({"hard": {"pods": "4", "requests.cpu": "1", "count/deployments.apps": "2"}}),
            &[],
        );
        check(
            json!({"hard": {"pods": "1500m"}}),
            &["spec.hard[pods]: Invalid value: \"1500m\": must be an integer"],
        );
        check(
            json!({"hard": {"storage": "1"}}),
            &[
                "spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota",
            ],
        );
        check(
            json!({"hard": {"services": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}),
            &[
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: unsupported scope applied to resource",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: unsupported scope applied to resource",
                "spec.scopes: Invalid value: [\"BestEffort\",\"NotBestEffort\"]: conflicting scopes",
            ],
        );
    }
}
