//! The rules of services.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    super::{
        addresses::{parse_address, validate_address, validate_range},
        label_selector::validate_key,
        object_meta::validate_labels,
        path::{Path, items, number, oversized, pairs, strings},
        ports::{validate_port, validate_port_number, validate_protocol},
    },
    families::{is_headless, needs_address, needs_health_port},
    is_external,
};
use crate::{field::FieldError, object::ObjectExt, resource::NameRule, types::validate_name};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";
const FIXED: &str = "may not change once set";

/// The problems of a service, its metadata apart.
pub(super) fn validate(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let (spec, path) = (&object["spec"], Path::new("spec"));
    if let Some(error) = oversized(spec, &path) {
        return vec![error];
    }
    let mut errors = Vec::new();
    if items(spec, "ports").is_empty() && !is_headless(spec) && needs_address(spec) {
        errors.push(FieldError::required(path.child("ports"), ""));
    }
    errors.extend(validate_type(spec, &path));
    errors.extend(validate_ports(spec, &path));
    let selector = path.child("selector");
    errors.extend(validate_labels(&pairs(spec, "selector"), selector.as_ref()));
    errors.extend(validate_affinity(spec, &path));
    if needs_address(spec) {
        errors.extend(validate_addresses(spec, old, &path));
    }
    let known = old.map(|old| strings(&old["spec"], "externalIPs")).unwrap_or_default();
    for (at, address) in strings(spec, "externalIPs").into_iter().enumerate() {
        let path = path.child("externalIPs").index(at);
        match validate_address(address, &path) {
            Some(error) if !known.contains(&address) => errors.push(error),
            _ => errors.extend(special_address(address, &path)),
        }
    }
    let kind = spec.text(&["type"]);
    if !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(path.child("type"), kind, &TYPES));
    }
    errors.extend(validate_duplicates(spec, &path));
    errors.extend(validate_balancing(spec, &path));
    errors.extend(validate_traffic(spec, &path));
    errors
}

fn validate_type(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = spec.text(&["type"]);
    if matches!(kind, "LoadBalancer" | "NodePort") && is_headless(spec) {
        let at = path.child("clusterIPs").index(0);
        let problem = format!("may not be set to 'None' for {kind} services");
        errors.push(FieldError::invalid_str(at, "None", problem));
    }
    if kind != "ExternalName" {
        return errors;
    }
    for field in ["clusterIPs", "ipFamilies"] {
        if !items(spec, field).is_empty() {
            let problem = "may not be set for ExternalName services";
            errors.push(FieldError::forbidden(path.child(field), problem));
        }
    }
    if spec.get("ipFamilyPolicy").is_some() {
        let problem = "may not be set for ExternalName services";
        errors.push(FieldError::forbidden(path.child("ipFamilyPolicy"), problem));
    }
    let name = spec.text(&["externalName"]);
    let name = name.strip_suffix('.').unwrap_or(name);
    let at = path.child("externalName");
    match name {
        "" => errors.push(FieldError::required(at, "")),
        name => errors.extend(
            validate_name(NameRule::DnsSubdomain, name)
                .into_iter()
                .map(|problem| FieldError::invalid_str(&at, name, problem)),
        ),
    }
    errors
}

fn validate_ports(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names = BTreeSet::new();
    let several = items(spec, "ports").len() > 1;
    for (path, port) in path.items(spec, "ports") {
        let (name, at) = (port.text(&["name"]), path.child("name"));
        if name.is_empty() {
            errors.extend(several.then(|| FieldError::required(&at, "")));
        } else {
            let problems = validate_name(NameRule::DnsLabel, name).into_iter();
            errors.extend(problems.map(|p| FieldError::invalid_str(&at, name, p)));
            if !names.insert(name) {
                errors.push(FieldError::duplicate(&at, &name.into()));
            }
        }
        errors.extend(validate_port_number(number(port, "port"), path.child("port")));
        errors.extend(validate_protocol(port.text(&["protocol"]), &path.child("protocol")));
        let target = port.get("targetPort").unwrap_or(&Value::Null);
        errors.extend(validate_port(target, &path.child("targetPort")));
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            errors.extend(validate_key(protocol, &path.child("appProtocol")));
        }
    }
    errors
}

fn validate_affinity(spec: &Value, path: &Path) -> Vec<FieldError> {
    let affinity = spec.text(&["sessionAffinity"]);
    let known = ["ClientIP", "None"];
    if !known.contains(&affinity) {
        let at = path.child("sessionAffinity");
        return vec![FieldError::not_supported(at, affinity, &known)];
    }
    let config = spec.at(&["sessionAffinityConfig", "clientIP", "timeoutSeconds"]);
    match (affinity, config.and_then(Value::as_i64)) {
        ("ClientIP", Some(seconds)) if !(1..=86_400).contains(&seconds) => {
            let at = path.child("sessionAffinityConfig").child("clientIP").child("timeoutSeconds");
            let problem = "must be greater than 0 and less than 86400";
            vec![FieldError::invalid(at, &seconds.into(), problem)]
        }
        _ => Vec::new(),
    }
}

fn validate_addresses(spec: &Value, old: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (first, all) = (spec.text(&["clusterIP"]), strings(spec, "clusterIPs"));
    let at = path.child("clusterIPs");
    let shown = spec.get("clusterIPs").unwrap_or(&Value::Null);
    let invalid = |problem: &str| FieldError::invalid(&at, shown, problem);
    match (first, all.first()) {
        ("", Some(_)) => errors.push(invalid("must be empty when `clusterIP` is not specified")),
        ("", None) => {}
        (_, None) => errors.push(FieldError::required(&at, "")),
        (first, Some(other)) if first != *other => {
            errors.push(invalid("first value must match `clusterIP`"));
        }
        _ => {}
    }
    errors.extend(validate_families(spec, path));
    let known = old.map(|old| strings(&old["spec"], "clusterIPs")).unwrap_or_default();
    let mut unreadable = false;
    for (index, address) in all.iter().enumerate() {
        if index == 0 && *address == "None" {
            if all.len() > 1 {
                unreadable = true;
                errors.push(invalid("'None' must be the first and only value"));
            }
            continue;
        }
        let problem = validate_address(address, &at.index(index));
        let problem = problem.filter(|_| !known.contains(address));
        unreadable |= problem.is_some();
        errors.extend(problem);
    }
    if all.len() > 2 {
        errors.push(invalid("may only hold up to 2 values"));
    }
    if unreadable {
        return errors;
    }
    let is_v6 = |address: &str| parse_address(address).is_some_and(|a| a.is_ipv6());
    if all.len() > 1 && all.iter().all(|a| is_v6(a)) == all.iter().any(|a| is_v6(a)) {
        errors.push(invalid("may specify no more than one IP for each IP family"));
    }
    for (index, (address, family)) in all.iter().zip(strings(spec, "ipFamilies")).enumerate() {
        if is_headless(spec) || is_v6(address) == (family == "IPv6") {
            continue;
        }
        let problem = format!("expected an {family} value as indicated by `ipFamilies[{index}]`");
        errors.push(FieldError::invalid_str(at.index(index), address, problem));
    }
    errors
}

/// There is one family here; only services that nobody finds by an address may have another.
fn validate_families(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (families, at) = (strings(spec, "ipFamilies"), path.child("ipFamilies"));
    let open = is_headless(spec) && pairs(spec, "selector").is_empty();
    for (index, family) in families.iter().enumerate() {
        if !matches!(*family, "IPv4" | "IPv6") {
            errors.push(FieldError::not_supported(at.index(index), family, &["IPv4", "IPv6"]));
        } else if *family == "IPv6" && !open {
            let problem = "not configured on this cluster";
            errors.push(FieldError::invalid_str(at.index(index), family, problem));
        }
        // Upstream has no more than two either, but says so of each.
        if families[..index.min(2)].contains(family) {
            errors.push(FieldError::duplicate(at.index(index), &(*family).into()));
        }
    }
    let (policy, at) = (spec.text(&["ipFamilyPolicy"]), path.child("ipFamilyPolicy"));
    let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
    if !known.contains(&policy) {
        errors.push(FieldError::not_supported(&at, policy, &known));
    } else if policy == "RequireDualStack" && !open {
        let problem = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid_str(&at, policy, problem));
    }
    errors
}

fn special_address(text: &str, path: &Path) -> Vec<FieldError> {
    use std::net::IpAddr;
    let Some(address) = parse_address(text) else { return Vec::new() };
    let local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let multicast = match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    };
    let unspecified = format!("may not be unspecified ({text})");
    let checks = [
        (address.is_unspecified(), unspecified.as_str()),
        (address.is_loopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        (local, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        (multicast, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ];
    let wrong = checks.into_iter().filter(|(wrong, _)| *wrong);
    wrong.map(|(_, problem)| FieldError::invalid_str(path, text, problem)).collect()
}

fn validate_duplicates(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (mut ports, mut node_ports) = (BTreeSet::new(), BTreeSet::new());
    for (path, port) in path.items(spec, "ports") {
        let (own, on_node) = (number(port, "port"), number(port, "nodePort"));
        let protocol = port.text(&["protocol"]);
        if on_node != 0 {
            let at = path.child("nodePort");
            if spec.text(&["type"]) == "ClusterIP" {
                let problem = "may not be used when `type` is 'ClusterIP'";
                errors.push(FieldError::forbidden(&at, problem));
            }
            if !node_ports.insert((protocol, on_node)) {
                errors.push(FieldError::duplicate(&at, &on_node.into()));
            }
        }
        if !ports.insert((protocol, own)) {
            // Upstream shows the whole of its internal type.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{own},\"TargetPort\":0,\
                 \"NodePort\":0}}",
                Value::from(protocol)
            );
            errors.push(FieldError::duplicate_json(&path, &shown, ""));
        }
    }
    errors
}

fn validate_balancing(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let balanced = spec.text(&["type"]) == "LoadBalancer";
    let ranges = strings(spec, "loadBalancerSourceRanges");
    let at = path.child("LoadBalancerSourceRanges");
    if !ranges.is_empty() && !balanced {
        errors.push(FieldError::forbidden(&at, ONLY_BALANCED));
    }
    for (index, range) in ranges.into_iter().enumerate() {
        errors.extend(validate_range(range.trim(), &at.index(index)));
    }
    if spec.get("allocateLoadBalancerNodePorts").is_some() && !balanced {
        let at = path.child("allocateLoadBalancerNodePorts");
        errors.push(FieldError::forbidden(at, ONLY_BALANCED));
    }
    if let Some(class) = spec.get("loadBalancerClass").and_then(Value::as_str) {
        let at = path.child("loadBalancerClass");
        if balanced {
            errors.extend(validate_key(class, &at));
        } else {
            errors.push(FieldError::forbidden(at, ONLY_BALANCED));
        }
    }
    errors
}

fn validate_traffic(spec: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (policy, at) = (spec.text(&["externalTrafficPolicy"]), path.child("externalTrafficPolicy"));
    let known = ["Cluster", "Local"];
    if !is_external(spec) {
        if !policy.is_empty() {
            let problem = "may only be set for externally-accessible services";
            errors.push(FieldError::invalid_str(at, policy, problem));
        }
    } else if !known.contains(&policy) {
        errors.push(FieldError::not_supported(at, policy, &known));
    }
    let (port, at) = (number(spec, "healthCheckNodePort"), path.child("healthCheckNodePort"));
    match (needs_health_port(spec), port) {
        (false, 0) => {}
        (false, port) => {
            let problem = "may only be set when `type` is 'LoadBalancer' and \
                           `externalTrafficPolicy` is 'Local'";
            errors.push(FieldError::invalid(at, &port.into(), problem));
        }
        (true, 0) => errors.push(FieldError::required(at, "")),
        (true, port) => errors.extend(validate_port_number(port, at)),
    }
    let policy = spec.text(&["internalTrafficPolicy"]);
    if !policy.is_empty() && !known.contains(&policy) {
        errors.push(FieldError::not_supported(path.child("internalTrafficPolicy"), policy, &known));
    }
    let known = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    let distribution = spec.text(&["trafficDistribution"]);
    if spec.get("trafficDistribution").is_some() && !known.contains(&distribution) {
        let at = path.child("trafficDistribution");
        errors.push(FieldError::not_supported(at, distribution, &known));
    }
    errors
}

/// The problems of a change: addresses stay.
pub(super) fn validate_change(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = Path::new("spec");
    let open = is_headless(new) && is_headless(old);
    if needs_address(new) && needs_address(old) && !open {
        let (now, before) = (strings(new, "clusterIPs"), strings(old, "clusterIPs"));
        let at = path.child("clusterIPs");
        let shown = new.get("clusterIPs").unwrap_or(&Value::Null);
        if now.is_empty() && !before.is_empty() {
            let problem = "primary clusterIP can not be unset";
            errors.push(FieldError::invalid(at.index(0), shown, problem));
        }
        for (index, (now, before)) in now.iter().zip(&before).enumerate() {
            if now != before {
                errors.push(FieldError::invalid(at.index(index), shown, FIXED));
            }
        }
        let (now, before) = (strings(new, "ipFamilies"), strings(old, "ipFamilies"));
        if is_headless(new) == is_headless(old) && now.first() != before.first() {
            let at = path.child("ipFamilies").index(0);
            let shown = new.get("ipFamilies").unwrap_or(&Value::Null);
            errors.push(FieldError::invalid(at, shown, FIXED));
        }
    }
    let balanced = |spec: &Value| spec.text(&["type"]) == "LoadBalancer";
    if balanced(new)
        && balanced(old)
        && new.get("loadBalancerClass") != old.get("loadBalancerClass")
    {
        let shown = new.get("loadBalancerClass").unwrap_or(&Value::Null);
        errors.push(FieldError::invalid(path.child("loadBalancerClass"), shown, FIXED));
    }
    let both = needs_health_port(new) && needs_health_port(old);
    if both && number(new, "healthCheckNodePort") != number(old, "healthCheckNodePort") {
        let at = path.child("healthCheckNodePort");
        errors.push(FieldError::forbidden(at, "field is immutable"));
    }
    errors
}

/// Texts for those who may not know what they ask for.
pub(super) fn warnings(spec: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let named = !needs_address(spec);
    let headless = is_headless(spec);
    let external = !items(spec, "externalIPs").is_empty();
    if headless {
        let ignored = [
            ("loadBalancerIP", !spec.text(&["loadBalancerIP"]).is_empty()),
            ("externalIPs", external),
            ("SessionAffinity", spec.text(&["sessionAffinity"]) != "None"),
        ];
        let ignored = ignored.iter().filter(|(_, set)| *set);
        warnings.extend(ignored.map(|(f, _)| format!("spec.{f} is ignored for headless services")));
    }
    if external && !headless && !named {
        let text =
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        warnings.push(text.to_owned());
    }
    if named && external {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".into());
    }
    if !named && !spec.text(&["externalName"]).is_empty() {
        let text = "spec.externalName is ignored when spec.type is not \"ExternalName\"";
        warnings.push(text.to_owned());
    }
    if spec.text(&["trafficDistribution"]) == "PreferClose" {
        let text =
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"";
        warnings.push(text.to_owned());
    }
    warnings
}

/// The problems of a status.
pub(super) fn validate_status(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = Path::new("status").child("loadBalancer");
    let status = object.at(&["status", "loadBalancer"]).unwrap_or(&Value::Null);
    let ingress = path.child("ingress");
    if object.text(&["spec", "type"]) != "LoadBalancer" && !items(status, "ingress").is_empty() {
        let problem = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden(&ingress, problem));
    }
    for (path, entry) in path.items(status, "ingress") {
        let (address, mode) = (entry.text(&["ip"]), entry.text(&["ipMode"]));
        if !address.is_empty() {
            errors.extend(validate_address(address, &path.child("ip")));
            if mode.is_empty() {
                let problem = "must be specified when `ip` is set";
                errors.push(FieldError::required(path.child("ipMode"), problem));
            }
        } else if !mode.is_empty() {
            let problem = "may not be specified when `ip` is not set";
            errors.push(FieldError::forbidden(path.child("ipMode"), problem));
        }
        if !matches!(mode, "" | "VIP" | "Proxy") {
            let known = ["Proxy", "VIP"];
            errors.push(FieldError::not_supported(path.child("ipMode"), mode, &known));
        }
        let host = entry.text(&["hostname"]);
        if !host.is_empty() {
            let at = path.child("hostname");
            let problems = validate_name(NameRule::DnsSubdomain, host).into_iter();
            errors.extend(problems.map(|p| FieldError::invalid_str(&at, host, p)));
            if host.parse::<std::net::IpAddr>().is_ok() {
                let problem = "must be a DNS name, not an IP address";
                errors.push(FieldError::invalid_str(&at, host, problem));
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Services;
    use super::*;
    use crate::resource::Rules;

    #[test]
    fn what_is_wrong_with_services() {
        let check = |spec: Value, expected: &[&str]| {
            let mut object = json!({"metadata": {}, "spec": spec});
            Services.apply_defaults(&mut object);
            Services.prepare_create(&mut object);
            let texts: Vec<String> =
                validate(&object, None).iter().map(ToString::to_string).collect();
            assert_eq!(texts, expected, "{object}");
        };
        let port = json!([{"port": 80}]);
        check(json!({"ports": port}), &[]);
        check(json!({}), &["spec.ports: Required value"]);
        check(json!({"clusterIP": "None"}), &[]);
        check(json!({"type": "ExternalName", "externalName": "a.b."}), &[]);
        check(json!({"type": "ExternalName"}), &["spec.externalName: Required value"]);
        check(
            json!({"type": "NodePort", "clusterIP": "None", "ports": port}),
            &[
                "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
            ],
        );
        check(
            json!({"ports": [{"port": 80}, {"port": 0, "name": "b", "nodePort": 30001}]}),
            &[
                "spec.ports[0].name: Required value",
                "spec.ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[1].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive",
                "spec.ports[1].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
            ],
        );
        check(
            json!({"ports": port, "clusterIP": "10.0.0.999"}),
            &[
                "spec.clusterIPs[0]: Invalid value: \"10.0.0.999\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            ],
        );
        check(
            json!({"ports": port, "type": "Cluster"}),
            &[
                "spec.type: Unsupported value: \"Cluster\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
            ],
        );
    }
}
