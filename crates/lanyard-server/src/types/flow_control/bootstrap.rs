//! The flow schemas and priority levels that every server starts with, as upstream ships them (1.36).
//!
//! Only data. Those called fixed cannot be changed; the others are repaired at the start unless an
//! administrator has said otherwise.

use serde_json::{Value, json};

use super::GROUP;
use crate::object::ObjectExt;

/// The annotation that lets the server repair an object.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

/// All objects, by the name of their resource.
pub fn objects() -> Vec<(&'static str, Value)> {
    let levels = LEVELS.iter().map(|level| {
        (
            "prioritylevelconfigurations",
            object("PriorityLevelConfiguration", level.name, level.spec()),
        )
    });
    let schemas = SCHEMAS
        .iter()
        .map(|schema| ("flowschemas", object("FlowSchema", schema.name, schema.spec())));
    levels.chain(schemas).collect()
}

/// Whether an object is to be repaired.
pub fn differs(found: Option<&Value>, wanted: &Value) -> bool {
    found.is_some_and(|found| {
        found.text(&["metadata", "annotations", AUTO_UPDATE]) == "true"
            && found.get("spec") != wanted.get("spec")
    })
}

/// The spec of a flow schema that must be as it is.
pub(super) fn fixed_flow_schema(name: &str) -> Option<Value> {
    let fixed = SCHEMAS.iter().filter(|schema| FIXED.contains(&schema.name));
    fixed.into_iter().find(|schema| schema.name == name).map(Schema::spec)
}

/// The spec of a priority level that must be as it is.
pub(super) fn fixed_priority_level(name: &str) -> Option<Value> {
    let fixed = LEVELS.iter().filter(|level| FIXED.contains(&level.name));
    fixed.into_iter().find(|level| level.name == name).map(Level::spec)
}

/// Without these, some requests would belong nowhere.
const FIXED: [&str; 2] = ["exempt", "catch-all"];

struct Level {
    name: &'static str,
    shares: u32,
    lendable: u32,
    /// Queues, hand size and length.
    queues: Option<(u32, u32, u32)>,
}

const LEVELS: &[Level] = &[
    level("exempt", 0, 0, None),
    level("catch-all", 5, 0, None),
    level("system", 30, 33, Some((64, 6, 50))),
    level("node-high", 40, 25, Some((64, 6, 50))),
    level("leader-election", 10, 0, Some((16, 4, 50))),
    level("workload-high", 40, 50, Some((128, 6, 50))),
    level("workload-low", 100, 90, Some((128, 6, 50))),
    level("global-default", 20, 50, Some((128, 6, 50))),
];

const fn level(
    name: &'static str,
    shares: u32,
    lendable: u32,
    queues: Option<(u32, u32, u32)>,
) -> Level {
    Level { name, shares, lendable, queues }
}

impl Level {
    fn spec(&self) -> Value {
        let mut part =
            json!({"nominalConcurrencyShares": self.shares, "lendablePercent": self.lendable});
        if self.name == "exempt" {
            return json!({"type": "Exempt", "exempt": part});
        }
        part["limitResponse"] = match self.queues {
            None => json!({"type": "Reject"}),
            Some((queues, hand, length)) => json!({
                "type": "Queue",
                "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": length},
            }),
        };
        json!({"type": "Limited", "limited": part})
    }
}

struct Schema {
    name: &'static str,
    level: &'static str,
    precedence: u32,
    /// `ByUser`, `ByNamespace`, or empty.
    method: &'static str,
    subjects: &'static [Subject],
    scope: Requests,
}

enum Subject {
    Group(&'static str),
    User(&'static str),
    /// All service accounts of `kube-system`.
    SystemAccounts,
}

/// Which requests a schema is about.
enum Requests {
    All,
    Probes,
    /// Verbs, group, resources, and whether the cluster counts as well as namespaces.
    Some(&'static [(&'static [&'static str], &'static str, &'static [&'static str], bool)]),
}

const MASTERS: Subject = Subject::Group("system:masters");
const NODES: Subject = Subject::Group("system:nodes");
const MANAGER: Subject = Subject::User("system:kube-controller-manager");
const SCHEDULER: Subject = Subject::User("system:kube-scheduler");
const EVERYBODY: &[Subject] =
    &[Subject::Group("system:unauthenticated"), Subject::Group("system:authenticated")];
const LEASES: &str = "coordination.k8s.io";

const SCHEMAS: &[Schema] = &[
    schema("exempt", "exempt", 1, "", &[MASTERS], Requests::All),
    schema("catch-all", "catch-all", 10_000, "ByUser", EVERYBODY, Requests::All),
    schema("probes", "exempt", 2, "", EVERYBODY, Requests::Probes),
    schema(
        "system-leader-election",
        "leader-election",
        100,
        "ByUser",
        &[MANAGER, SCHEDULER, Subject::SystemAccounts],
        Requests::Some(&[(&["get", "create", "update"], LEASES, &["leases"], false)]),
    ),
    schema(
        "system-node-high",
        "node-high",
        400,
        "ByUser",
        &[NODES],
        Requests::Some(&[
            (&["*"], "", &["nodes", "nodes/status"], true),
            (&["*"], LEASES, &["leases"], false),
        ]),
    ),
    schema("system-nodes", "system", 500, "ByUser", &[NODES], Requests::All),
    schema(
        "kube-controller-manager",
        "workload-high",
        800,
        "ByNamespace",
        &[MANAGER],
        Requests::All,
    ),
    schema("kube-scheduler", "workload-high", 800, "ByNamespace", &[SCHEDULER], Requests::All),
    schema(
        "kube-system-service-accounts",
        "workload-high",
        900,
        "ByNamespace",
        &[Subject::SystemAccounts],
        Requests::All,
    ),
    schema(
        "service-accounts",
        "workload-low",
        9000,
        "ByUser",
        &[Subject::Group("system:serviceaccounts")],
        Requests::All,
    ),
    schema("global-default", "global-default", 9900, "ByUser", EVERYBODY, Requests::All),
];

const fn schema(
    name: &'static str,
    level: &'static str,
    precedence: u32,
    method: &'static str,
    subjects: &'static [Subject],
    scope: Requests,
) -> Schema {
    Schema { name, level, precedence, method, subjects, scope }
}

impl Schema {
    fn spec(&self) -> Value {
        let subjects: Vec<Value> = self.subjects.iter().map(Subject::to_value).collect();
        let mut rule = json!({"subjects": subjects});
        match &self.scope {
            Requests::All => {
                rule["resourceRules"] = json!([{"verbs": ["*"], "apiGroups": ["*"],
                    "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}]);
                rule["nonResourceRules"] = json!([{"verbs": ["*"], "nonResourceURLs": ["*"]}]);
            }
            Requests::Probes => {
                let paths = ["/healthz", "/readyz", "/livez"];
                rule["nonResourceRules"] = json!([{"verbs": ["get"], "nonResourceURLs": paths}]);
            }
            Requests::Some(rules) => {
                let rules = rules.iter().map(|(verbs, group, resources, cluster)| {
                    let mut rule = json!({"verbs": verbs, "apiGroups": [group],
                        "resources": resources, "namespaces": ["*"]});
                    if *cluster {
                        rule["clusterScope"] = true.into();
                    }
                    rule
                });
                rule["resourceRules"] = rules.collect();
            }
        }
        let mut spec = json!({"priorityLevelConfiguration": {"name": self.level},
            "matchingPrecedence": self.precedence, "rules": [rule]});
        if !self.method.is_empty() {
            spec["distinguisherMethod"] = json!({"type": self.method});
        }
        spec
    }
}

impl Subject {
    fn to_value(&self) -> Value {
        match self {
            Self::Group(name) => json!({"kind": "Group", "group": {"name": name}}),
            Self::User(name) => json!({"kind": "User", "user": {"name": name}}),
            Self::SystemAccounts => json!({"kind": "ServiceAccount",
                "serviceAccount": {"namespace": "kube-system", "name": "*"}}),
        }
    }
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}},
        "spec": spec,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{resource::WriteContext, types};

    #[test]
    fn the_objects_are_as_the_rules_want_them() {
        let kinds = types::all();
        for (plural, object) in objects() {
            let kind = kinds.iter().find(|kind| kind.plural == *plural).unwrap();
            let context = WriteContext { view: &kind.views[0], subresource: None };
            let mut defaulted = kind.views[0].schema.conform(object.clone()).unwrap().value;
            kind.rules.apply_defaults(&mut defaulted);
            assert_eq!(defaulted["spec"], object["spec"], "{}", object.name());
            assert_eq!(kind.rules.validate(&object, context), [], "{}", object.name());
            assert!(!differs(Some(&object), &object));
        }
    }
}
