//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy with their bindings: rules over writes, as expressions.
//!
//! Here is what they look like and what makes one valid; [`policy`](crate::policy) carries them out.

mod validate;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    ALL_VERBS,
    column::{self, AGE, NAME, age_cell, name_cell},
};
use crate::{
    field::FieldError,
    object::ObjectExt,
    resource::{Column, Resource, Rules, Scope, Subresource, View, WriteContext},
    schema::builtin,
};

const GROUP: &str = "admissionregistration.k8s.io";

pub(super) fn validating() -> Resource {
    resource("ValidatingAdmissionPolicy", "validatingadmissionpolicies", Policies::Validating)
}

pub(super) fn validating_binding() -> Resource {
    resource(
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        Policies::ValidatingBinding,
    )
}

pub(super) fn mutating() -> Resource {
    resource("MutatingAdmissionPolicy", "mutatingadmissionpolicies", Policies::Mutating)
}

pub(super) fn mutating_binding() -> Resource {
    resource(
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        Policies::MutatingBinding,
    )
}

fn resource(kind: &'static str, plural: &'static str, rules: Policies) -> Resource {
    let subresources: &[Subresource] =
        if rules == Policies::Validating { &[Subresource::Status] } else { &[] };
    Resource {
        storage: format!("{plural}.{GROUP}").into(),
        plural: plural.into(),
        singular: kind.to_lowercase().into(),
        kind: kind.into(),
        short_names: Vec::new(),
        categories: vec!["api-extensions".into()],
        scope: Scope::Cluster,
        verbs: ALL_VERBS,
        subresources,
        views: vec![View::new(
            GROUP,
            "v1",
            builtin(&format!("io.k8s.api.admissionregistration.v1.{kind}")),
        )],
        rules: Arc::new(rules),
    }
}

/// The rules of one of the kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policies {
    Validating,
    ValidatingBinding,
    Mutating,
    MutatingBinding,
}

static VALIDATING: [Column; 4] = [
    NAME,
    Column {
        name: "Validations",
        kind: "integer",
        format: "",
        description: "How many rules the policy has.",
        priority: 0,
    },
    column::text("ParamKind", "The kind of objects that parameterize the policy."),
    AGE,
];

static MUTATING: [Column; 4] = [
    NAME,
    Column {
        name: "Mutations",
        kind: "integer",
        format: "",
        description: "How many mutations the policy has.",
        priority: 0,
    },
    column::text("ParamKind", "The kind of objects that parameterize the policy."),
    AGE,
];

static BINDING: [Column; 4] = [
    NAME,
    column::text("PolicyName", "The policy that is bound."),
    column::text("ParamRef", "The objects that parameterize it."),
    AGE,
];

impl Policies {
    fn is_binding(self) -> bool {
        matches!(self, Self::ValidatingBinding | Self::MutatingBinding)
    }
}

impl Rules for Policies {
    fn apply_defaults(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
        if self.is_binding() {
            default_match(spec.get_mut("matchResources"));
        } else {
            if spec.text(&["failurePolicy"]).is_empty() {
                spec["failurePolicy"] = "Fail".into();
            }
            default_match(spec.get_mut("matchConstraints"));
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        if *self == Self::Validating {
            object["status"] = json!({});
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        if *self != Self::Validating {
            return;
        }
        let kept = if context.subresource.is_some() { "spec" } else { "status" };
        new[kept] = old[kept].clone();
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        validate::problems(*self, object, None)
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        match context.subresource {
            Some(_) => Vec::new(),
            None => validate::problems(*self, new, Some(old)),
        }
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn generation_changes(&self, new: &Value, old: &Value) -> Option<bool> {
        Some(new["spec"] != old["spec"])
    }

    fn columns(&self) -> &'static [Column] {
        match self {
            Self::Validating => &VALIDATING,
            Self::Mutating => &MUTATING,
            Self::ValidatingBinding | Self::MutatingBinding => &BINDING,
        }
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let spec = &object["spec"];
        let middle: [Value; 2] = match self {
            Self::Validating => {
                [column::count(spec, "validations").into(), param_kind(spec).into()]
            }
            Self::Mutating => [column::count(spec, "mutations").into(), param_kind(spec).into()],
            _ => [spec.text(&["policyName"]).into(), param_ref(spec).into()],
        };
        let [first, second] = middle;
        vec![name_cell(object), first, second, age_cell(object, now)]
    }
}

/// What upstream fills in where requests are matched.
fn default_match(matching: Option<&mut Value>) {
    let Some(matching) = matching.filter(|matching| matching.is_object()) else { return };
    if matching.text(&["matchPolicy"]).is_empty() {
        matching["matchPolicy"] = "Equivalent".into();
    }
    for selector in ["namespaceSelector", "objectSelector"] {
        if !matching[selector].is_object() {
            matching[selector] = json!({});
        }
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        let rules = matching.get_mut(list).and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten().filter(|rule| rule.is_object()) {
            if rule.text(&["scope"]).is_empty() {
                rule["scope"] = "*".into();
            }
        }
    }
}

fn param_kind(spec: &Value) -> String {
    match spec.get("paramKind").filter(|kind| kind.is_object()) {
        Some(kind) => format!("{}/{}", kind.text(&["apiVersion"]), kind.text(&["kind"])),
        None => "<unset>".to_owned(),
    }
}

fn param_ref(spec: &Value) -> String {
    let Some(reference) = spec.get("paramRef").filter(|reference| reference.is_object()) else {
        return "<unset>".to_owned();
    };
    match (reference.text(&["name"]), reference.text(&["namespace"]), reference.get("selector")) {
        ("", _, Some(selector)) if selector.is_object() => go_selector(selector),
        ("", ..) => "<unset>".to_owned(),
        (name, "", _) => format!("*/{name}"),
        (name, namespace, _) => format!("{namespace}/{name}"),
    }
}

/// A selector as Go prints it, which is what upstream's column shows.
fn go_selector(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let labels: String =
        labels.map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or(""))).collect();
    let list = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    let requirements: String = list
        .map(|requirement| {
            let values = requirement.get("values").and_then(Value::as_array).into_iter().flatten();
            let values: Vec<&str> = values.filter_map(Value::as_str).collect();
            let (key, operator) = (requirement.text(&["key"]), requirement.text(&["operator"]));
            let values = values.join(" ");
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{requirements}}},}}"
    )
}
