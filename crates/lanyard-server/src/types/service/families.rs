//! What a service gets rather than says: families of addresses, and what it keeps of what it was given.
//!
//! There is one family of addresses, IPv4. The addresses themselves are given by admission, which knows
//! those that are taken.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::super::{
    addresses::parse_address,
    path::{items, items_mut, number, pairs, strings},
};
use crate::object::ObjectExt;

/// Whether a service has addresses at all, if only none.
pub(crate) fn needs_address(spec: &Value) -> bool {
    spec.text(&["type"]) != "ExternalName"
}

/// Whether a service has ports of nodes.
pub(crate) fn needs_node_ports(spec: &Value) -> bool {
    match spec.text(&["type"]) {
        "NodePort" => true,
        "LoadBalancer" => spec.get("allocateLoadBalancerNodePorts") != Some(&Value::Bool(false)),
        _ => false,
    }
}

/// Whether balancers ask nodes of a service for their health.
pub(crate) fn needs_health_port(spec: &Value) -> bool {
    spec.text(&["type"]) == "LoadBalancer" && spec.text(&["externalTrafficPolicy"]) == "Local"
}

/// Whether the pods of a service are found without an address for them all.
pub(super) fn is_headless(spec: &Value) -> bool {
    strings(spec, "clusterIPs") == ["None"]
}

/// Puts in what a client that updates a service may leave out.
pub(super) fn keep_allocated(spec: &mut Value, old: &Value) {
    if needs_address(spec) && needs_address(old) {
        if spec.text(&["clusterIP"]).is_empty() {
            copy(spec, old, "clusterIP");
        }
        if items(spec, "clusterIPs").is_empty() {
            copy(spec, old, "clusterIPs");
        }
    }
    if needs_node_ports(spec) && needs_node_ports(old) {
        let now: BTreeSet<i64> =
            items(spec, "ports").iter().map(|port| number(port, "nodePort")).collect();
        let before: BTreeMap<&str, i64> = items(old, "ports")
            .iter()
            .map(|port| (port.text(&["name"]), number(port, "nodePort")))
            .collect();
        for port in items_mut(spec, "ports") {
            let known = before.get(port.text(&["name"])).copied().unwrap_or(0);
            if number(port, "nodePort") == 0 && known != 0 && !now.contains(&known) {
                port["nodePort"] = known.into();
            }
        }
    }
    if needs_health_port(spec) && needs_health_port(old) && number(spec, "healthCheckNodePort") == 0
    {
        copy(spec, old, "healthCheckNodePort");
    }
}

/// Takes away what a service of another type was given, unless the client says something about it.
pub(super) fn drop_unused(spec: &mut Value, old: &Value) {
    let same = |spec: &Value, field: &str| spec.get(field) == old.get(field);
    if needs_address(old) && !needs_address(spec) {
        if same(spec, "clusterIPs") {
            remove(spec, "clusterIP");
            remove(spec, "clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if same(spec, field) {
                remove(spec, field);
            }
        }
    }
    let ports = |spec: &Value| -> Vec<i64> {
        items(spec, "ports").iter().map(|port| number(port, "nodePort")).collect()
    };
    if needs_node_ports(old) && !needs_node_ports(spec) && ports(spec) == ports(old) {
        for port in items_mut(spec, "ports") {
            remove(port, "nodePort");
        }
    }
    if needs_health_port(old) && !needs_health_port(spec) && same(spec, "healthCheckNodePort") {
        remove(spec, "healthCheckNodePort");
    }
    if old.text(&["type"]) == "LoadBalancer" && spec.text(&["type"]) != "LoadBalancer" {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(spec, field) {
                remove(spec, field);
            }
        }
    }
    if super::is_external(old) && !super::is_external(spec) && same(spec, "externalTrafficPolicy") {
        remove(spec, "externalTrafficPolicy");
    }
}

/// Fills in the families, and makes `clusterIP` and `clusterIPs` say the same.
pub(super) fn complete(spec: &mut Value, old: Option<&Value>) {
    agree(spec, old);
    if !needs_address(spec) {
        return;
    }
    let selectorless = pairs(spec, "selector").is_empty();
    let open = spec.text(&["clusterIP"]) == "None" && selectorless;
    if spec.text(&["ipFamilyPolicy"]).is_empty() {
        let before = old.map(|old| old.text(&["ipFamilyPolicy"])).filter(|p| !p.is_empty());
        let policy = before.unwrap_or(if open { "RequireDualStack" } else { "SingleStack" });
        spec["ipFamilyPolicy"] = policy.into();
    }
    let mut families: Vec<String> =
        strings(spec, "ipFamilies").into_iter().map(str::to_owned).collect();
    for address in strings(spec, "clusterIPs").into_iter().skip(families.len()) {
        if parse_address(address).is_some_and(|address| address.is_ipv4()) {
            families.push("IPv4".into());
        }
    }
    if families.is_empty() {
        families.push("IPv4".into());
    }
    if open && families.len() < 2 && spec.text(&["ipFamilyPolicy"]) != "SingleStack" {
        families.push(if families[0] == "IPv4" { "IPv6" } else { "IPv4" }.into());
    }
    spec["ipFamilies"] = json!(families);
}

/// Clients may set the address alone, or the list of addresses that begins with it.
fn agree(spec: &mut Value, old: Option<&Value>) {
    let address = spec.text(&["clusterIP"]).to_owned();
    let Some(old) = old else {
        if !address.is_empty() && items(spec, "clusterIPs").is_empty() {
            spec["clusterIPs"] = json!([address]);
        }
        return;
    };
    let before = old.text(&["clusterIP"]);
    let same_list = spec.get("clusterIPs") == old.get("clusterIPs");
    if items(spec, "clusterIPs").is_empty() && address == before {
        copy(spec, old, "clusterIPs");
    } else if address != before && same_list {
        match address.as_str() {
            "" => remove(spec, "clusterIPs"),
            address => spec["clusterIPs"] = json!([address]),
        }
    }
}

fn copy(spec: &mut Value, old: &Value, field: &str) {
    if let Some(value) = old.get(field) {
        spec[field] = value.clone();
    }
}

fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}
