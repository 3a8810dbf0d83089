//! The built-in kinds: their fields, defaults, rules and columns, one file per kind or group.
//!
//! Everything here is a description or a pure function over JSON trees; the generic registry does the
//! serving. The rules and their texts are those of kube-apiserver 1.36.

mod addresses;
mod admission;
mod admission_policy;
mod age;
mod amounts;
pub mod api_service;
mod apps;
mod certificates;
mod column;
mod config_map;
pub mod custom_resource_definition;
mod event;
pub mod flow_control;
mod key_pair;
mod label_selector;
mod lease;
mod names;
mod namespace;
mod node;
pub mod object_meta;
mod path;
mod pod;
mod pod_template;
mod ports;
mod rbac;
mod resource_quota;
mod secret;
mod service;
mod service_account;
mod status;

pub use age::age;
pub use names::{validate_label_key, validate_label_value, validate_name};
pub(crate) use service::{needs_address, needs_health_port, needs_node_ports, node_ports};

use crate::resource::Resource;

/// Every built-in kind that the registry serves.
pub fn all() -> Vec<Resource> {
    vec![
        namespace::resource(),
        config_map::resource(),
        secret::resource(),
        event::resource(),
        service_account::resource(),
        service::resource(),
        pod::resource(),
        pod_template::resource(),
        node::resource(),
        resource_quota::resource(),
        apps::deployment(),
        apps::replica_set(),
        lease::resource(),
        custom_resource_definition::resource(),
        rbac::role(),
        rbac::cluster_role(),
        rbac::role_binding(),
        rbac::cluster_role_binding(),
        certificates::signing_request(),
        certificates::trust_bundle(),
        admission::validating_webhooks(),
        admission::mutating_webhooks(),
        api_service::resource(),
        flow_control::flow_schema(),
        flow_control::priority_level(),
        admission_policy::validating(),
        admission_policy::validating_binding(),
        admission_policy::mutating(),
        admission_policy::mutating_binding(),
    ]
}

/// The verbs of an ordinary kind, in the order of discovery.
const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];

#[cfg(test)]
mod tests;
