//! What `kubectl get services` shows.

use serde_json::Value;

use super::super::{
    column::{self, AGE, NAME, age_cell, name_cell},
    path::{items, number, pairs, strings},
    pod_template::label_cell,
};
use crate::{object::ObjectExt, resource::Column};

pub(super) static COLUMNS: [Column; 7] = [
    NAME,
    column::text("Type", "How the service is reached."),
    column::text("Cluster-IP", "The address inside of the cluster."),
    column::text("External-IP", "The addresses outside of the cluster."),
    column::text("Port(s)", "The ports, each with its protocol."),
    AGE,
    column::wide("Selector", "The labels of the pods behind the service."),
];

/// The cells of a row.
pub(super) fn cells(object: &Value, now: i64) -> Vec<Value> {
    let spec = &object["spec"];
    vec![
        name_cell(object),
        spec.text(&["type"]).into(),
        strings(spec, "clusterIPs").first().copied().unwrap_or("<none>").into(),
        external_ip(object).into(),
        or_none(ports(spec)).into(),
        age_cell(object, now),
        label_cell(&pairs(spec, "selector")).into(),
    ]
}

fn external_ip(object: &Value) -> String {
    let addresses = strings(&object["spec"], "externalIPs");
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

fn ports(spec: &Value) -> String {
    let text = |port: &Value| {
        let (own, protocol) = (number(port, "port"), port.text(&["protocol"]));
        match number(port, "nodePort") {
            0 => format!("{own}/{protocol}"),
            node_port => format!("{own}:{node_port}/{protocol}"),
        }
    };
    items(spec, "ports").iter().map(text).collect::<Vec<_>>().join(",")
}

fn or_none(text: String) -> String {
    if text.is_empty() { "<none>".into() } else { text }
}
