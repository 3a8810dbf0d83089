//! Service: read only, for the one service that names this server.

use std::sync::Arc;

use serde_json::{Value, json};

use super::column::{self, AGE, NAME, age_cell, name_cell};
use crate::{
    field::FieldError,
    name::names,
    object::ObjectExt,
    resource::{Column, NameRule, Resource, Rules, Scope, View, WriteContext},
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
        verbs: &["get", "list", "watch"],
        subresources: &[],
        views: vec![View::new("", "v1", builtin("io.k8s.api.core.v1.Service"))],
        rules: Arc::new(Services),
    }
}

static COLUMNS: [Column; 7] = [
    NAME,
    column::text("Type", "How the service is reached."),
    column::text("Cluster-IP", "The address inside of the cluster."),
    column::text("External-IP", "The addresses outside of the cluster."),
    column::text("Port(s)", "The ports, each with its protocol."),
    AGE,
    column::wide("Selector", "The labels of the pods behind the service."),
];

struct Services;

impl Rules for Services {
    fn apply_defaults(&self, object: &mut Value) {
        let spec = &mut object["spec"];
        for (field, default) in [
            ("sessionAffinity", "None"),
            ("type", "ClusterIP"),
            ("internalTrafficPolicy", "Cluster"),
        ] {
            if spec.text(&[field]).is_empty() {
                spec[field] = default.into();
            }
        }
        for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
            if port.text(&["protocol"]).is_empty() {
                port["protocol"] = "TCP".into();
            }
            if port.get("targetPort").is_none_or(|target| *target == json!(0) || target == "") {
                port["targetPort"] = port["port"].clone();
            }
        }
    }

    /// Clients cannot write services; the server writes only what is right.
    fn validate(&self, _object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        Vec::new()
    }

    fn validate_update(
        &self,
        _new: &Value,
        _old: &Value,
        _context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        Vec::new()
    }

    fn name_rule(&self) -> NameRule {
        NameRule::Dns1035Label
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let cluster_ip = strings(object, "clusterIPs").first().copied().unwrap_or("<none>");
        vec![
            name_cell(object),
            object.text(&["spec", "type"]).into(),
            cluster_ip.into(),
            external_ip(object).into(),
            or_none(ports(object)).into(),
            age_cell(object, now),
            or_none(selector(object)).into(),
        ]
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

fn external_ip(object: &Value) -> String {
    let addresses = strings(object, "externalIPs");
    match object.text(&["spec", "type"]) {
        "ClusterIP" | "NodePort" => or_none(addresses.join(",")),
        "LoadBalancer" => {
            let mut all = balancer_addresses(object);
            all.extend(addresses);
            if all.is_empty() { "<pending>".into() } else { all.join(",") }
        }
        "ExternalName" => object.text(&["spec", "externalName"]).to_owned(),
        _ => "<unknown>".into(),
    }
}

fn balancer_addresses(object: &Value) -> Vec<&str> {
    let ingress = object.at(&["status", "loadBalancer", "ingress"]).and_then(Value::as_array);
    let mut addresses: Vec<_> = ingress
        .into_iter()
        .flatten()
        .map(|entry| match entry.text(&["ip"]) {
            "" => entry.text(&["hostname"]),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

fn ports(object: &Value) -> String {
    let ports = object.at(&["spec", "ports"]).and_then(Value::as_array);
    let texts: Vec<_> = ports
        .into_iter()
        .flatten()
        .map(|port| {
            let number = |field| port.get(field).and_then(Value::as_i64).unwrap_or(0);
            let protocol = port.text(&["protocol"]);
            match number("nodePort") {
                0 => format!("{}/{protocol}", number("port")),
                node_port => format!("{}:{node_port}/{protocol}", number("port")),
            }
        })
        .collect();
    texts.join(",")
}

fn selector(object: &Value) -> String {
    let labels = object.at(&["spec", "selector"]).and_then(Value::as_object);
    let pairs = labels.into_iter().flatten();
    let texts: Vec<_> =
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or(""))).collect();
    texts.join(",")
}

fn strings<'a>(object: &'a Value, field: &str) -> Vec<&'a str> {
    let list = object.at(&["spec", field]).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".into() } else { text }
}
