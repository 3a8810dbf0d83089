//! The quality of service class of a pod, which follows from what its containers ask for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::path::{items, pairs, part};
use crate::schema::quantity;

/// The class.
pub(super) fn class(spec: &Value) -> &'static str {
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    let mut guaranteed = true;
    if let Some(whole) = part(spec, "resources") {
        add(&mut requests, whole, "requests");
        let found = add(&mut limits, whole, "limits");
        guaranteed &= found == 2 || pairs(whole, "limits").is_empty();
    } else {
        for list in ["containers", "initContainers"] {
            for container in items(spec, list) {
                let resources = part(container, "resources").unwrap_or(&Value::Null);
                add(&mut requests, resources, "requests");
                guaranteed &= add(&mut limits, resources, "limits") == 2;
            }
        }
    }
    match (requests.is_empty() && limits.is_empty(), guaranteed && requests == limits) {
        (true, _) => "BestEffort",
        (_, true) => "Guaranteed",
        _ => "Burstable",
    }
}

/// Adds up processors and memory; how many of the two there are.
fn add<'a>(sums: &mut BTreeMap<&'a str, i128>, resources: &'a Value, field: &str) -> usize {
    let mut found = 0;
    for (name, amount) in pairs(resources, field) {
        let amount = quantity::nanos(amount).unwrap_or(0);
        if matches!(name, "cpu" | "memory") && amount > 0 {
            *sums.entry(name).or_default() += amount;
            found += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn classes_follow_requests_and_limits() {
        let check = |resources: Value, expected: &str| {
            let spec = json!({"containers": [{"resources": resources}]});
            assert_eq!(class(&spec), expected, "{spec}");
        };
        check(json!({}), "BestEffort");
        check(json!({"requests": {"cpu": "0"}}), "BestEffort");
        check(json!({"requests": {"cpu": "1"}}), "Burstable");
        let both = json!({"cpu": "1", "memory": "1Gi"});
        check(json!({"requests": both, "limits": both}), "Guaranteed");
        check(json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}), "Burstable");
    }
}
