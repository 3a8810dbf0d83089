//! Service: a name for a set of pods. Nothing here routes to them, so the addresses that services get
//! lead nowhere by themselves; clients and charts expect them all the same.

mod columns;
mod families;
mod validate;

use std::sync::Arc;

use serde_json::{Value, json};

pub(crate) use families::{needs_address, needs_health_port, needs_node_ports};

use super::{
    ALL_VERBS,
    object_meta::validate_finalizer_domains,
    path::{default_text, default_value, items, items_mut, keep, number, set},
};
use crate::{
    field::FieldError,
    name::names,
    object::ObjectExt,
    resource::{Column, NameRule, Resource, Rules, Scope, Subresource, View, WriteContext},
    schema::builtin,
};

pub(super) fn resource() -> Resource {
    Resource {
        storage: "services".into(),
        plural: "services".into(),
        singular: "service".into(),
        kind: "Service".into(),
        short_names: names(&["svc"]),
        categories: names(&["all"]),
        scope: Scope::Namespaced,
        verbs: ALL_VERBS,
        subresources: &[Subresource::Status],
        views: vec![View::new("", "v1", builtin("io.k8s.api.core.v1.Service"))],
        rules: Arc::new(Services),
    }
}

/// How long clients stay with their pod, when a service says that they do: three hours.
const AFFINITY_SECONDS: i64 = 10_800;

struct Services;

impl Rules for Services {
    fn apply_defaults(&self, object: &mut Value) {
        let spec = &mut object["spec"];
        default_text(spec, "sessionAffinity", "None");
        default_text(spec, "type", "ClusterIP");
        default_affinity(spec);
        for port in items_mut(spec, "ports") {
            default_text(port, "protocol", "TCP");
            if port.get("targetPort").is_none_or(|target| *target == json!(0) || target == "") {
                port["targetPort"] = port["port"].clone();
            }
        }
        if is_external(spec) {
            default_text(spec, "externalTrafficPolicy", "Cluster");
        }
        if spec.text(&["type"]) != "ExternalName" {
            default_value(spec, "internalTrafficPolicy", "Cluster");
        }
        if spec.text(&["type"]) == "LoadBalancer" {
            default_value(spec, "allocateLoadBalancerNodePorts", true);
            let ingress = object.pointer_mut("/status/loadBalancer/ingress");
            for entry in ingress.and_then(Value::as_array_mut).into_iter().flatten() {
                if !entry.text(&["ip"]).is_empty() {
                    default_value(entry, "ipMode", "VIP");
                }
            }
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"loadBalancer": {}});
        families::complete(&mut object["spec"], None);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        if context.subresource.is_some() {
            keep(new, old, "spec");
            return;
        }
        keep(new, old, "status");
        families::keep_allocated(&mut new["spec"], &old["spec"]);
        families::drop_unused(&mut new["spec"], &old["spec"]);
        families::complete(&mut new["spec"], Some(&old["spec"]));
        if new.text(&["spec", "type"]) != "LoadBalancer" {
            set(&mut new["status"], "loadBalancer", json!({}));
        }
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let mut errors = validate_finalizer_domains(object);
        errors.extend(validate::validate(object, None));
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        if context.subresource.is_some() {
            return validate::validate_status(new);
        }
        let mut errors = validate_finalizer_domains(new);
        errors.extend(validate::validate_change(&new["spec"], &old["spec"]));
        errors.extend(validate::validate(new, Some(old)));
        errors
    }

    fn warnings(&self, new: &Value, _old: Option<&Value>) -> Vec<String> {
        validate::warnings(&new["spec"])
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn name_rule(&self) -> NameRule {
        NameRule::DnsLabel
    }

    fn returns_deleted(&self) -> bool {
        true
    }

    fn columns(&self) -> &'static [Column] {
        &columns::COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        columns::cells(object, now)
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.clusterIP", "spec.type"]
    }

    fn selectable_field(&self, object: &Value, field: &str) -> String {
        match field.strip_prefix("spec.") {
            Some(field) => object.text(&["spec", field]).to_owned(),
            None => String::new(),
        }
    }
}

fn default_affinity(spec: &mut Value) {
    match spec.text(&["sessionAffinity"]) {
        "None" => drop(spec.as_object_mut().and_then(|s| s.remove("sessionAffinityConfig"))),
        "ClientIP" => {
            let seconds = spec.at(&["sessionAffinityConfig", "clientIP", "timeoutSeconds"]);
            if seconds.is_none() {
                spec["sessionAffinityConfig"] =
                    json!({"clientIP": {"timeoutSeconds": AFFINITY_SECONDS}});
            }
        }
        _ => {}
    }
}

/// Whether a service can be reached from outside of the cluster.
fn is_external(spec: &Value) -> bool {
    match spec.text(&["type"]) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !items(spec, "externalIPs").is_empty(),
        _ => false,
    }
}

/// The ports of nodes that a service has.
pub(crate) fn node_ports(spec: &Value) -> Vec<i64> {
    let ports = items(spec, "ports").iter().map(|port| number(port, "nodePort"));
    let all = ports.chain([number(spec, "healthCheckNodePort")]);
    all.filter(|port| *port != 0).collect()
}
