//! Node: a machine that pods run on, as its agent reports it.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use super::{
    ALL_VERBS,
    addresses::{parse_address, validate_range},
    amounts::validate_amount,
    column::{self, AGE, NAME, age_cell, name_cell},
    label_selector::validate_key,
    object_meta::validate_finalizer_domains,
    path::{Path, default_value, flag, items, keep, pairs, strings},
    pod::validate_effect,
    validate_label_value,
};
use crate::{
    field::FieldError,
    name::names,
    object::ObjectExt,
    resource::{Column, Resource, Rules, Scope, Subresource, View, WriteContext},
    schema::builtin,
};

pub(super) fn resource() -> Resource {
    Resource {
        storage: "nodes".into(),
        plural: "nodes".into(),
        singular: "node".into(),
        kind: "Node".into(),
        short_names: names(&["no"]),
        categories: Vec::new(),
        scope: Scope::Cluster,
        verbs: ALL_VERBS,
        subresources: &[Subresource::Status],
        views: vec![View::new("", "v1", builtin("io.k8s.api.core.v1.Node"))],
        rules: Arc::new(Nodes),
    }
}

static COLUMNS: [Column; 10] = [
    NAME,
    column::text("Status", "Whether the node is ready, and open for more pods."),
    column::text("Roles", "What the node is for, by its labels."),
    AGE,
    column::text("Version", "The version of the node's agent."),
    column::wide("Internal-IP", "The address inside of the cluster."),
    column::wide("External-IP", "The address outside of the cluster."),
    column::wide("OS-Image", "The operating system."),
    column::wide("Kernel-Version", "The kernel, and the machine that it is for."),
    column::wide("Container-Runtime", "What runs the containers."),
];

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";
const ROLE: &str = "kubernetes.io/role";

struct Nodes;

impl Rules for Nodes {
    fn apply_defaults(&self, object: &mut Value) {
        let status = &mut object["status"];
        if let Some(capacity) = status.get("capacity").cloned() {
            default_value(status, "allocatable", capacity);
        }
        alias_range(&mut object["spec"]);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        if context.subresource.is_none() {
            keep(new, old, "status");
            return;
        }
        keep(new, old, "spec");
        if old.at(&["status", "config"]).is_none()
            && let Some(status) = new["status"].as_object_mut()
        {
            status.remove("config");
        }
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let mut errors = validate_finalizer_domains(object);
        errors.extend(validate_taints(&object["spec"]));
        errors.extend(validate_resources(&object["status"]));
        errors.extend(validate_ranges(&object["spec"]));
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        let mut errors = match context.subresource {
            None => self.validate(new, context),
            Some(_) => validate_resources(&new["status"]),
        };
        errors.extend(validate_addresses(&new["status"]));
        errors.extend(validate_fixed(&new["spec"], &old["spec"]));
        errors
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let info = |field| object.text(&["status", "nodeInfo", field]);
        let known = |text: &str| if text.is_empty() { "<unknown>" } else { text }.to_owned();
        let kernel = match (known(info("kernelVersion")), info("architecture")) {
            (kernel, "") => kernel,
            (kernel, machine) => format!("{kernel} ({machine})"),
        };
        vec![
            name_cell(object),
            state(object).into(),
            roles(object).into(),
            age_cell(object, now),
            info("kubeletVersion").into(),
            address(object, "InternalIP").into(),
            address(object, "ExternalIP").into(),
            known(info("osImage")).into(),
            kernel.into(),
            known(info("containerRuntimeVersion")).into(),
        ]
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.unschedulable"]
    }

    fn selectable_field(&self, object: &Value, field: &str) -> String {
        match field {
            "spec.unschedulable" => flag(&object["spec"], "unschedulable").to_string(),
            _ => String::new(),
        }
    }
}

/// `podCIDR` is the first of `podCIDRs`; either may be left out.
fn alias_range(spec: &mut Value) {
    let (one, all) = (spec.text(&["podCIDR"]).to_owned(), items(spec, "podCIDRs").to_vec());
    match (one.as_str(), all.first()) {
        ("", Some(first)) => spec["podCIDR"] = first.clone(),
        ("", None) => {}
        (one, first) if first.is_none_or(|first| first != one) => spec["podCIDRs"] = json!([one]),
        _ => {}
    }
}

/// Upstream finds taints below the metadata.
fn validate_taints(spec: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for (path, taint) in Path::new("metadata").items(spec, "taints") {
        let [key, value, effect] = ["key", "value", "effect"].map(|field| taint.text(&[field]));
        errors.extend(validate_key(key, &path.child("key")));
        let problems = validate_label_value(value);
        if !problems.is_empty() {
            errors.push(FieldError::invalid_str(path.child("value"), value, problems.join(";")));
        }
        match effect {
            "" => errors.push(FieldError::required(path.child("effect"), "")),
            effect => errors.extend(validate_effect(effect, path.child("effect"))),
        }
        if !seen.insert((key, effect)) {
            // Upstream shows its internal type.
            let shown = json!([key, value, effect, taint.get("timeAdded")]);
            let shown = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}",
                shown[0], shown[1], shown[2], shown[3]
            );
            let problem = "taints must be unique by key and effect pair";
            errors.push(FieldError::duplicate_json(&path, &shown, problem));
        }
    }
    errors
}

fn validate_resources(status: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["capacity", "allocatable"] {
        for (name, amount) in pairs(status, field) {
            let path = Path::new("status").child(field).child(name);
            errors.extend(validate_amount(name, amount, &path));
        }
    }
    errors
}

fn validate_ranges(spec: &Value) -> Vec<FieldError> {
    let path = Path::new("spec").child("podCIDRs");
    let ranges = strings(spec, "podCIDRs");
    let mut errors: Vec<FieldError> = ranges
        .iter()
        .enumerate()
        .filter_map(|(at, range)| validate_range(range, &path.index(at)))
        .collect();
    let is_v6 = |range: &str| {
        let address = range.split_once('/').and_then(|(address, _)| parse_address(address));
        address.is_some_and(|address| address.is_ipv6())
    };
    let v6 = ranges.iter().filter(|range| is_v6(range)).count();
    let dual = v6 > 0 && v6 < ranges.len();
    if ranges.len() > 2 || (ranges.len() == 2 && !dual) {
        let problem = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid(path, &spec["podCIDRs"], problem));
    }
    errors
}

fn validate_addresses(status: &Value) -> Vec<FieldError> {
    let mut seen = BTreeSet::new();
    let mut errors = Vec::new();
    for (path, address) in Path::new("status").items(status, "addresses") {
        if !seen.insert((address.text(&["type"]), address.text(&["address"]))) {
            errors.push(FieldError::duplicate(path, address));
        }
    }
    errors
}

/// What can be set once.
fn validate_fixed(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (ranges, before) = (strings(new, "podCIDRs"), strings(old, "podCIDRs"));
    if !before.is_empty() && ranges != before {
        let problem = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.podCIDRs", problem));
    }
    let provider = old.text(&["providerID"]);
    if !provider.is_empty() && provider != new.text(&["providerID"]) {
        let problem = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden("spec.providerID", problem));
    }
    if new.text(&["externalID"]) != old.text(&["externalID"]) {
        errors.push(FieldError::forbidden("spec.externalID", "may not be updated"));
    }
    errors
}

fn state(object: &Value) -> String {
    let ready =
        items(&object["status"], "conditions").iter().rfind(|c| c.text(&["type"]) == "Ready");
    let mut state = match ready.map(|condition| condition.text(&["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if flag(&object["spec"], "unschedulable") {
        state.push_str(",SchedulingDisabled");
    }
    state
}

fn roles(object: &Value) -> String {
    let mut roles: Vec<&str> = object
        .labels()
        .into_iter()
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) => Some(role),
            None => (key == ROLE).then_some(value),
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { "<none>".into() } else { roles.join(",") }
}

fn address<'a>(object: &'a Value, kind: &str) -> &'a str {
    let addresses = items(&object["status"], "addresses");
    let found = addresses.iter().find(|address| address.text(&["type"]) == kind);
    found.map_or("<none>", |address| address.text(&["address"]))
}
