//! The addresses and node ports of services: each belongs to one service.
//!
//! An address that is being given away is held until the service that gets it is stored, so that two
//! requests at the same time do not get the same one. Servers that share a store do not know what the
//! others hold; they draw from a range that is large beside the number of services.

use std::{collections::HashMap, net::Ipv4Addr, sync::Arc};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    collection::{Collection, EventKind},
    field::FieldError,
    object::ObjectExt,
    types::{needs_address, needs_health_port, needs_node_ports, node_ports},
};

/// The range of service addresses, that of most clusters.
const ADDRESSES: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 96, 0, 0), 12);

/// The range of node ports, as upstream has it.
const PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;

/// How often to draw before giving up.
const TRIES: usize = 100;

/// Who has which address and port.
#[derive(Default)]
pub(super) struct Allocations {
    owners: Mutex<Owners>,
}

#[derive(Default)]
struct Owners {
    /// Addresses and ports, by their text, of services that are stored; each with its key.
    stored: HashMap<String, Arc<str>>,
    /// Those that are being given to services.
    held: HashMap<String, Arc<str>>,
    /// What each service has.
    by_service: HashMap<Arc<str>, Vec<String>>,
}

/// What a service is about to get; given back when this is dropped.
pub struct Held {
    allocations: Arc<Allocations>,
    things: Vec<String>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut owners = self.allocations.owners.lock();
        for thing in &self.things {
            owners.held.remove(thing);
        }
    }
}

impl Allocations {
    /// Follows the services of a collection.
    pub(super) fn follow(self: &Arc<Self>, services: &Collection) {
        let allocations = self.clone();
        services.observe(Box::new(move |event| {
            let gone = event.kind == EventKind::Deleted;
            let spec = (!gone).then(|| event.object.value()["spec"].take());
            allocations.owners.lock().set(&event.object.key, spec.as_ref());
        }));
    }

    /// Gives a service what it needs and does not have yet.
    pub(super) fn allocate(
        self: &Arc<Self>,
        key: &Arc<str>,
        spec: &mut Value,
    ) -> Result<Held, FieldError> {
        let mut held = Held { allocations: self.clone(), things: Vec::new() };
        let mut owners = self.owners.lock();
        let result = owners.allocate(key, spec, &mut held.things);
        drop(owners);
        result.map(|()| held)
    }
}

impl Owners {
    fn set(&mut self, key: &Arc<str>, spec: Option<&Value>) {
        for thing in self.by_service.remove(key).unwrap_or_default() {
            self.stored.remove(&thing);
        }
        let Some(spec) = spec else { return };
        let addresses = spec.get("clusterIPs").and_then(Value::as_array).into_iter().flatten();
        let addresses = addresses.filter_map(Value::as_str).filter(|a| *a != "None");
        let ports = node_ports(spec).into_iter().map(|port| port.to_string());
        let things: Vec<String> = addresses.map(str::to_owned).chain(ports).collect();
        for thing in &things {
            self.stored.insert(thing.clone(), key.clone());
        }
        if !things.is_empty() {
            self.by_service.insert(key.clone(), things);
        }
    }

    fn is_free(&self, thing: &str, key: &Arc<str>) -> bool {
        let owner = self.stored.get(thing).or_else(|| self.held.get(thing));
        owner.is_none_or(|owner| owner == key)
    }

    fn hold(&mut self, thing: String, key: &Arc<str>, things: &mut Vec<String>) {
        self.held.insert(thing.clone(), key.clone());
        things.push(thing);
    }

    fn allocate(
        &mut self,
        key: &Arc<str>,
        spec: &mut Value,
        things: &mut Vec<String>,
    ) -> Result<(), FieldError> {
        if needs_address(spec) {
            self.allocate_address(key, spec, things)?;
        }
        if matches!(spec.text(&["type"]), "NodePort" | "LoadBalancer") {
            self.allocate_ports(key, spec, things)?;
        }
        let wanted = spec.get("healthCheckNodePort").and_then(Value::as_i64).unwrap_or(0);
        if needs_health_port(spec) && wanted == 0 {
            let port = self.free_port(key, things).ok_or_else(no_port)?;
            spec["healthCheckNodePort"] = port.into();
        }
        Ok(())
    }

    fn allocate_address(
        &mut self,
        key: &Arc<str>,
        spec: &mut Value,
        things: &mut Vec<String>,
    ) -> Result<(), FieldError> {
        let path = "spec.clusterIPs";
        let wanted = spec.text(&["clusterIP"]).to_owned();
        if wanted == "None" {
            return Ok(());
        }
        let shown = spec.get("clusterIPs").cloned().unwrap_or_default();
        if !wanted.is_empty() {
            // What is no address is for the rules of services to refuse.
            let Ok(address) = wanted.parse::<Ipv4Addr>() else { return Ok(()) };
            let why = if !self.is_free(&wanted, key) {
                "provided IP is already allocated".to_owned()
            } else if !in_range(address) && self.stored.get(&wanted) != Some(key) {
                let (base, bits) = ADDRESSES;
                format!(
                    "the provided IP ({wanted}) is not in the valid range. The range of valid IPs is {base}/{bits}"
                )
            } else {
                self.hold(wanted, key, things);
                return Ok(());
            };
            let problem = format!("failed to allocate IP {wanted}: {why}");
            return Err(FieldError::invalid(path, &shown, problem));
        }
        for _ in 0..TRIES {
            let address = random_address().to_string();
            if self.is_free(&address, key) {
                spec["clusterIP"] = address.as_str().into();
                spec["clusterIPs"] = json!([address]);
                self.hold(address, key, things);
                return Ok(());
            }
        }
        let problem = "failed to allocate IP: range is full";
        Err(FieldError::invalid(path, &shown, problem))
    }

    fn allocate_ports(
        &mut self,
        key: &Arc<str>,
        spec: &mut Value,
        things: &mut Vec<String>,
    ) -> Result<(), FieldError> {
        let wanted = needs_node_ports(spec);
        // Ports with the same number share one port of the nodes.
        let mut given: HashMap<i64, i64> = HashMap::new();
        let ports = spec.get_mut("ports").and_then(Value::as_array_mut);
        for (at, port) in ports.into_iter().flatten().enumerate() {
            let number = |field| port.get(field).and_then(Value::as_i64).unwrap_or(0);
            let (own, on_node) = (number("port"), number("nodePort"));
            if on_node != 0 {
                let thing = on_node.to_string();
                let why = if !PORTS.contains(&on_node) {
                    "provided port is not in the valid range. The range of valid ports is \
                     30000-32767"
                } else if !self.is_free(&thing, key) {
                    "provided port is already allocated"
                } else {
                    self.hold(thing, key, things);
                    given.insert(own, on_node);
                    continue;
                };
                let path = format!("spec.ports[{at}].nodePort");
                return Err(FieldError::invalid(path, &on_node.into(), why));
            }
            if !wanted {
                continue;
            }
            let on_node = match given.get(&own) {
                Some(shared) => *shared,
                None => self.free_port(key, things).ok_or_else(no_port)?,
            };
            given.insert(own, on_node);
            port["nodePort"] = on_node.into();
        }
        Ok(())
    }

    fn free_port(&mut self, key: &Arc<str>, things: &mut Vec<String>) -> Option<i64> {
        let count = (PORTS.end() - PORTS.start() + 1) as u128;
        let first = (uuid::Uuid::new_v4().as_u128() % count) as i64;
        let mut ports = (0..count as i64).map(|step| PORTS.start() + (first + step) % count as i64);
        let port = ports.find(|port| self.is_free(&port.to_string(), key))?;
        self.hold(port.to_string(), key, things);
        Some(port)
    }
}

fn no_port() -> FieldError {
    FieldError::internal("spec.ports", "failed to allocate a nodePort: range is full")
}

fn in_range(address: Ipv4Addr) -> bool {
    let (base, bits) = ADDRESSES;
    let mask = u32::MAX << (32 - bits);
    u32::from(address) & mask == u32::from(base)
}

/// Neither the first nor the last of the range.
fn random_address() -> Ipv4Addr {
    let (base, bits) = ADDRESSES;
    let hosts = (1_u128 << (32 - bits)) - 2;
    let offset = uuid::Uuid::new_v4().as_u128() % hosts + 1;
    Ipv4Addr::from(u32::from(base) + offset as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: &Value) -> Value {
        let mut spec = spec.clone();
        if spec.get("type").is_none() {
            spec["type"] = "ClusterIP".into();
        }
        spec
    }

    #[test]
    fn an_address_belongs_to_one_service() {
        let allocations = Arc::new(Allocations::default());
        let (a, b): (Arc<str>, Arc<str>) = ("n/a".into(), "n/b".into());
        let mut first = service(&json!({}));
        let held = allocations.allocate(&a, &mut first).unwrap();
        let address = first.text(&["clusterIP"]).to_owned();
        assert!(in_range(address.parse().unwrap()), "{address}");
        let wants = json!({"clusterIP": address, "clusterIPs": [address]});
        assert!(allocations.allocate(&b, &mut service(&wants)).is_err(), "it is held");
        drop(held);
        drop(allocations.allocate(&b, &mut service(&wants)).unwrap());
        allocations.owners.lock().set(&a, Some(&first));
        assert!(allocations.allocate(&b, &mut service(&wants)).is_err(), "it is stored");
        drop(allocations.allocate(&a, &mut service(&wants)).unwrap());
        allocations.owners.lock().set(&a, None);
        drop(allocations.allocate(&b, &mut service(&wants)).unwrap());
    }

    #[test]
    fn node_ports_are_given_and_checked() {
        let allocations = Arc::new(Allocations::default());
        let key: Arc<str> = "n/a".into();
        let mut spec = service(&json!({"type": "NodePort", "ports": [
            {"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}, {"port": 80},
        ]}));
        let held = allocations.allocate(&key, &mut spec).unwrap();
        let ports: Vec<i64> = node_ports(&spec);
        assert_eq!(ports.len(), 3);
        assert_eq!(ports[0], ports[1]);
        assert_ne!(ports[0], ports[2]);
        drop(held);
        let check = |port: i64, expected: &str| {
            let mut spec = json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": port}]});
            let error = allocations.allocate(&key, &mut spec).err().unwrap();
            assert_eq!(error.to_string(), expected);
        };
        check(
            80,
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
        );
    }
}
