//! Aggregated cluster roles: rules gathered from every cluster role that a label selector finds.
//!
//! Pure: says what the rules should be; the server writes them and asks again when a cluster role
//! changes. A selector that cannot be read gathers nothing and takes nothing away.

use std::collections::{BTreeMap, HashSet};

use super::rules::{Aggregation, ClusterRole, PolicyRule};
use crate::selector::LabelSelector;

/// The rules that an aggregated role should have, when they are not those it has.
///
/// For each selector in turn: the rules of the roles that it finds, in order of name, without the
/// role itself and without repeats.
pub fn aggregated_rules<'a>(
    role: &ClusterRole,
    all: impl Iterator<Item = &'a ClusterRole>,
) -> Option<Vec<PolicyRule>> {
    let Aggregation::From(selectors) = &role.aggregation else {
        return None;
    };
    let mut others: Vec<&ClusterRole> = all.filter(|other| other.name != role.name).collect();
    others.sort_by(|a, b| a.name.cmp(&b.name));

    let mut gathered = Vec::new();
    let mut seen = HashSet::new();
    for selector in selectors {
        let found = others.iter().filter(|other| selects(selector, &other.labels));
        for rule in found.flat_map(|other| other.rules.iter()) {
            if seen.insert(rule) {
                gathered.push(rule);
            }
        }
    }
    if gathered.iter().copied().eq(role.rules.iter()) {
        return None;
    }
    Some(gathered.into_iter().cloned().collect())
}

fn selects(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    selector.matches(|key| labels.get(key).map(String::as_str))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn role(name: &str, object: Value) -> ClusterRole {
        ClusterRole::from_object(&object, name)
    }

    fn part(name: &str, labels: Value, resources: &[&str]) -> ClusterRole {
        let rules: Vec<Value> = resources.iter().map(|r| rule(r)).collect();
        role(name, json!({"metadata": {"labels": labels}, "rules": rules}))
    }

    fn rule(resource: &str) -> Value {
        json!({"verbs": ["get"], "apiGroups": [""], "resources": [resource]})
    }

    fn gathered(role: &ClusterRole, all: &[ClusterRole]) -> Option<Vec<String>> {
        let rules = aggregated_rules(role, all.iter())?;
        Some(rules.into_iter().map(|rule| rule.resources.concat()).collect())
    }

    #[test]
    fn a_selector_finds_what_upstream_finds() {
        let labels = BTreeMap::from([("tier".into(), "gold".into()), ("empty".into(), "".into())]);
        let check = |selector: Value, expected: Option<bool>| {
            let found = LabelSelector::from_object(&selector).map(|s| selects(&s, &labels));
            assert_eq!(found, expected, "{selector}");
        };
        let expression = |key: &str, operator: &str, values: Value| {
            let expression = json!({"key": key, "operator": operator, "values": values});
            json!({"matchExpressions": [expression]})
        };
        check(json!({}), Some(true));
        check(json!({"matchLabels": null, "matchExpressions": []}), Some(true));
        check(json!({"matchLabels": {"tier": "gold"}}), Some(true));
        check(json!({"matchLabels": {"tier": "silver"}}), Some(false));
        check(json!({"matchLabels": {"tier": "gold", "absent": ""}}), Some(false));
        check(json!({"matchLabels": {"empty": ""}}), Some(true));
        check(expression("tier", "In", json!(["silver", "gold"])), Some(true));
        check(expression("tier", "In", json!(["silver"])), Some(false));
        check(expression("absent", "In", json!(["gold"])), Some(false));
        check(expression("tier", "NotIn", json!(["gold"])), Some(false));
        check(expression("tier", "NotIn", json!(["silver"])), Some(true));
        check(expression("absent", "NotIn", json!(["gold"])), Some(true));
        check(expression("empty", "Exists", json!([])), Some(true));
        check(expression("absent", "Exists", Value::Null), Some(false));
        check(expression("absent", "DoesNotExist", Value::Null), Some(true));
        check(expression("tier", "DoesNotExist", Value::Null), Some(false));

        check(expression("tier", "In", json!([])), None);
        check(expression("tier", "Exists", json!(["gold"])), None);
        check(expression("tier", "Gt", json!(["1"])), None);
        check(expression("", "Exists", Value::Null), None);
        check(expression("tier", "In", json!([1])), None);
        check(json!({"matchLabels": {"tier": 1}}), None);
        check(json!({"matchLabels": "tier"}), None);
        check(json!([]), None);
    }

    #[test]
    fn rules_are_gathered_by_name_once_and_never_from_itself() {
        let wide = json!({"clusterRoleSelectors": [{"matchLabels": {"to": "b"}}, {}]});
        let own = role(
            "m",
            json!({"aggregationRule": wide, "rules": [rule("own")],
            "metadata": {"labels": {"to": "b"}}}),
        );
        let all = [
            part("z", json!({"to": "b"}), &["pods", "secrets"]),
            part("b", json!({"to": "b"}), &["pods", "nodes"]),
            part("a", json!({}), &["events", "nodes"]),
            own.clone(),
        ];
        let expected = ["pods", "nodes", "secrets", "events"].map(String::from).to_vec();
        assert_eq!(gathered(&own, &all), Some(expected));
    }

    #[test]
    fn rules_that_are_right_are_not_written_again() {
        let from = |rules: Value| {
            let selectors = json!({"clusterRoleSelectors": [{"matchLabels": {"to": "v"}}]});
            role("v", json!({"aggregationRule": selectors, "rules": rules}))
        };
        let all = [part("a", json!({"to": "v"}), &["pods"])];
        assert_eq!(gathered(&from(json!([rule("pods")])), &all), None);
        assert_eq!(gathered(&from(Value::Null), &all), Some(vec!["pods".into()]));
        assert_eq!(gathered(&from(json!([rule("pods")])), &[]), Some(vec![]));
        assert_eq!(gathered(&from(Value::Null), &[]), None);
    }

    #[test]
    fn a_role_without_a_readable_aggregation_rule_is_left_alone() {
        let all = [part("a", json!({}), &["pods"])];
        for rule in [
            json!(null),
            json!({"clusterRoleSelectors": "all"}),
            json!({"clusterRoleSelectors": [{"matchLabels": 1}]}),
        ] {
            let own = role("m", json!({"aggregationRule": rule}));
            assert_eq!(gathered(&own, &all), None, "{own:?}");
        }
        let nothing = role("m", json!({"aggregationRule": {}, "rules": [rule("pods")]}));
        assert_eq!(gathered(&nothing, &all), Some(vec![]));
    }
}
