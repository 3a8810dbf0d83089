//! The RBAC matrix: which rules allow what, which subjects a binding reaches, and how it is told.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::rbac::Rbac;
use super::rules::{GROUP, PolicyRule, RbacKind};
use super::{Attributes, Decision, Target};
use crate::authn::UserInfo;

/// A user written as `name+group+group`.
pub(super) fn user(text: &str) -> UserInfo {
    let mut parts = text.split('+').map(str::to_owned);
    let name = parts.next().unwrap_or_default();
    UserInfo { name, groups: parts.collect(), ..UserInfo::default() }
}

/// A target written as a path, or as `group:resource/subresource@namespace#name`.
fn target(text: &str) -> Target<'_> {
    if text.starts_with('/') {
        return Target::Path(text);
    }
    let (group, rest) = text.split_once(':').expect("a target has a group");
    let (rest, name) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, namespace) = rest.split_once('@').unwrap_or((rest, ""));
    let (resource, subresource) = rest.split_once('/').unwrap_or((rest, ""));
    Target::Resource { group, resource, subresource, namespace, name }
}

pub(super) fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names})
}

pub(super) fn url_rule(verbs: &[&str], urls: &[&str]) -> Value {
    json!({"verbs": verbs, "nonResourceURLs": urls})
}

/// Roles and bindings, put together in a few words.
#[derive(Default)]
pub(super) struct World(pub(super) Rbac);

impl World {
    pub(super) fn cluster_role(self, name: &str, rules: &[Value]) -> Self {
        let object = json!({"metadata": {"name": name}, "rules": rules});
        self.0.apply(RbacKind::ClusterRole, "", name, Some(&object));
        self
    }

    pub(super) fn role(self, namespace: &str, name: &str, rules: &[Value]) -> Self {
        let object = json!({"metadata": {"name": name, "namespace": namespace}, "rules": rules});
        self.0.apply(RbacKind::Role, namespace, name, Some(&object));
        self
    }

    /// Binds a cluster role everywhere, under the role's name.
    pub(super) fn everywhere(self, role: &str, subjects: &[&str]) -> Self {
        let object = binding("ClusterRole", role, subjects);
        self.0.apply(RbacKind::ClusterRoleBinding, "", role, Some(&object));
        self
    }

    /// Binds a role in a namespace, under the role's name.
    pub(super) fn within(self, namespace: &str, kind: &str, role: &str, subjects: &[&str]) -> Self {
        let object = binding(kind, role, subjects);
        self.0.apply(RbacKind::RoleBinding, namespace, role, Some(&object));
        self
    }

    fn decide(&self, who: &str, verb: &str, what: &str) -> Decision {
        let user = user(who);
        let request = Attributes { user: &user, verb, target: target(what) };
        let decision = self.0.authorize(&request);
        assert_eq!(self.0.allows(&request), decision.allowed, "{who} {verb} {what}");
        decision
    }

    fn check(&self, who: &str, verb: &str, what: &str, allowed: bool) {
        let decision = self.decide(who, verb, what);
        assert_eq!(decision.allowed, allowed, "{who} {verb} {what}: {decision:?}");
    }
}

/// A binding object for subjects written as `User:name` or `ServiceAccount:namespace/name`.
pub(super) fn binding(kind: &str, role: &str, subjects: &[&str]) -> Value {
    let subjects = subjects.iter().map(|text| {
        let (kind, name) = text.split_once(':').expect("a subject has a kind");
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        json!({"kind": kind, "name": name, "namespace": namespace})
    });
    json!({
        "metadata": {},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": subjects.collect::<Vec<_>>(),
    })
}

#[test]
fn a_rule_allows_exactly_what_it_names() {
    let check = |rule: &Value, verb: &str, what: &str, allowed: bool| {
        let world = World::default().cluster_role("r", std::slice::from_ref(rule));
        world.everywhere("r", &["User:u"]).check("u", verb, what, allowed);
    };
    let pods = rule(&["get", "list"], &[""], &["pods"], &[]);
    check(&pods, "get", ":pods@ns#a", true);
    check(&pods, "list", ":pods", true);
    check(&pods, "watch", ":pods", false);
    check(&pods, "GET", ":pods", false);
    check(&pods, "get", "apps:pods", false);
    check(&pods, "get", ":Pods", false);
    check(&pods, "get", ":pods/log@ns#a", false);
    check(&pods, "get", "/api/v1/pods", false);

    let everything = rule(&["*"], &["*"], &["*"], &[]);
    check(&everything, "frob", "any.example:things/part@ns#a", true);
    check(&everything, "get", "/healthz", false);

    let log = rule(&["get"], &[""], &["pods/log"], &[]);
    check(&log, "get", ":pods/log@ns#a", true);
    check(&log, "get", ":pods@ns#a", false);
    check(&log, "get", ":nodes/log@ns#a", false);
    check(&log, "get", ":pods/logs@ns#a", false);

    let any_scale = rule(&["get"], &["*"], &["*/scale"], &[]);
    check(&any_scale, "get", "apps:deployments/scale@ns#a", true);
    check(&any_scale, "get", "apps:deployments@ns#a", false);
    check(&any_scale, "get", "apps:deployments/upscale@ns#a", false);
    check(&any_scale, "get", "apps:deployments/status@ns#a", false);

    let prefix = rule(&["get"], &[""], &["pods/*", "po*"], &[]);
    check(&prefix, "get", ":pods/log@ns#a", false);
    check(&prefix, "get", ":pods@ns#a", false);

    check(&json!({"verbs": ["get"], "resources": ["pods"]}), "get", ":pods", false);
    check(&json!({"apiGroups": [""], "resources": ["pods"]}), "get", ":pods", false);
}

#[test]
fn names_limit_a_rule_to_requests_that_carry_one() {
    let named = rule(&["*"], &[""], &["configmaps"], &["a", "b"]);
    let world = World::default().cluster_role("r", &[named]).everywhere("r", &["User:u"]);
    for verb in ["get", "update", "patch", "delete"] {
        world.check("u", verb, ":configmaps@ns#a", true);
        world.check("u", verb, ":configmaps@ns#b", true);
        world.check("u", verb, ":configmaps@ns#c", false);
    }
    // A list or watch has a name when a field selector gives it one.
    for verb in ["list", "watch"] {
        world.check("u", verb, ":configmaps@ns#a", true);
        world.check("u", verb, ":configmaps@ns", false);
    }
    for verb in ["create", "deletecollection"] {
        world.check("u", verb, ":configmaps@ns", false);
    }
    let open = rule(&["create"], &[""], &["configmaps"], &[]);
    let world = World::default().cluster_role("r", &[open]).everywhere("r", &["User:u"]);
    world.check("u", "create", ":configmaps@ns", true);
}

#[test]
fn paths_match_exactly_or_by_a_trailing_star() {
    let check = |pattern: &str, path: &str, allowed: bool| {
        let world = World::default().cluster_role("r", &[url_rule(&["get"], &[pattern])]);
        world.everywhere("r", &["User:u"]).check("u", "get", path, allowed);
    };
    check("/apis", "/apis", true);
    check("/apis", "/apis/", false);
    check("/apis", "/api", false);
    check("/apis/*", "/apis/v1", true);
    check("/apis/*", "/apis/v1/deep", true);
    check("/apis/*", "/apis", false);
    check("/api*", "/apis", true);
    check("*", "/anything", true);
    check("/*", "/", true);
    check("/*/v1", "/apis/v1", false);
    check("/a*/**", "/a*/x", true);

    let world = World::default().cluster_role("r", &[url_rule(&["get"], &["/metrics"])]);
    let world = world.everywhere("r", &["User:u"]).within("ns", "ClusterRole", "r", &["User:v"]);
    world.check("u", "post", "/metrics", false);
    world.check("v", "get", "/metrics", false);
}

#[test]
fn a_rule_of_the_wrong_shape_allows_nothing() {
    let odd_rules = [
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": "a"}),
        json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": [1]}),
        json!({"verbs": "*", "apiGroups": ["*"], "resources": ["*"]}),
        json!("*"),
    ];
    let mut rules = odd_rules.to_vec();
    rules.push(rule(&["get"], &[""], &["nodes"], &[]));
    let world = World::default().cluster_role("r", &rules).everywhere("r", &["User:u"]);
    world.check("u", "get", ":pods#b", false);
    world.check("u", "get", ":pods#a", false);
    world.check("u", "get", ":nodes", true);
}

#[test]
fn a_binding_reaches_its_subjects_only() {
    let all = rule(&["*"], &["*"], &["*"], &[]);
    let world = World::default()
        .cluster_role("all", std::slice::from_ref(&all))
        .role("ns", "own", &[all])
        .everywhere("all", &["User:root", "Group:admins", "ServiceAccount:sys/bot"])
        .within("ns", "Role", "own", &["User:dev", "ServiceAccount:local", "ServiceAccount:sys/x"])
        .within("ns2", "Role", "own", &["User:dev"])
        .within("ns3", "ClusterRole", "all", &["Group:devs", "Robot:dev"]);
    let check = |who: &str, what: &str, allowed: bool| world.check(who, "get", what, allowed);

    check("root", ":pods", true);
    check("root", ":pods@ns9", true);
    check("x+admins", ":pods", true);
    check("x+users+admins", ":pods", true);
    check("admins", ":pods", false);
    check("x+root", ":pods", false);
    check("system:serviceaccount:sys:bot", ":pods", true);
    check("system:serviceaccount:sys:bo", ":pods", false);
    check("bot", ":pods", false);

    check("dev", ":pods@ns", true);
    check("dev", ":pods", false);
    check("dev", ":pods@ns2", false);
    check("dev", ":pods@ns3", false);
    check("x+devs", ":pods@ns3", true);
    check("x+devs", ":pods@ns", false);
    check("system:serviceaccount:ns:local", ":pods@ns", true);
    check("system:serviceaccount:ns2:local", ":pods@ns", false);
    check("system:serviceaccount:sys:x", ":pods@ns", true);
    check("", ":pods", false);
}

#[test]
fn a_service_account_without_a_namespace_cannot_be_bound_everywhere() {
    let world = World::default().cluster_role("all", &[rule(&["*"], &["*"], &["*"], &[])]);
    let world = world.everywhere("all", &["ServiceAccount:bot"]);
    world.check("system:serviceaccount::bot", "get", ":pods", false);
    world.check("bot", "get", ":pods", false);
}

#[test]
fn the_reason_names_binding_role_and_subject() {
    let world = World::default()
        .cluster_role("cluster-admin", &[rule(&["*"], &["*"], &["*"], &[])])
        .role("ns", "own", &[rule(&["get"], &[""], &["pods"], &[])])
        .everywhere("cluster-admin", &["Group:root", "ServiceAccount:sys/bot"])
        .within("ns", "Role", "own", &["Group:devs", "User:dev", "ServiceAccount:local"]);
    let check = |who: &str, reason: &str| {
        let decision = world.decide(who, "get", ":pods@ns");
        let evaluation_error = String::new();
        let expected = Decision { allowed: true, reason: reason.into(), evaluation_error };
        assert_eq!(decision, expected, "{who}");
    };
    check(
        "x+root",
        r#"RBAC: allowed by ClusterRoleBinding "cluster-admin" of ClusterRole "cluster-admin" to Group "root""#,
    );
    check(
        "system:serviceaccount:sys:bot",
        r#"RBAC: allowed by ClusterRoleBinding "cluster-admin" of ClusterRole "cluster-admin" to ServiceAccount "bot/sys""#,
    );
    check("dev", r#"RBAC: allowed by RoleBinding "own/ns" of Role "own" to User "dev""#);
    check("dev+devs", r#"RBAC: allowed by RoleBinding "own/ns" of Role "own" to Group "devs""#);
    check(
        "system:serviceaccount:ns:local",
        r#"RBAC: allowed by RoleBinding "own/ns" of Role "own" to ServiceAccount "local/ns""#,
    );
    check("anyone+system:masters", "");
}

#[test]
fn a_missing_role_is_skipped_and_told() {
    let world = World::default()
        .cluster_role("nodes", &[rule(&["get"], &[""], &["nodes"], &[])])
        .everywhere("gone", &["User:u", "Group:g"])
        .everywhere("nodes", &["User:u"])
        .within("ns", "Role", "lost", &["User:u"])
        .within("ns", "Banana", "odd", &["User:v"]);
    let check = |who: &str, what: &str, error: &str| {
        let decision = world.decide(who, "get", what);
        let reason = if error.is_empty() { String::new() } else { format!("RBAC: {error}") };
        assert_eq!(decision, Decision { allowed: false, reason, evaluation_error: error.into() });
    };
    world.check("u", "get", ":nodes", true);
    let gone = r#"clusterrole.rbac.authorization.k8s.io "gone" not found"#;
    let lost = r#"role.rbac.authorization.k8s.io "lost" not found"#;
    check("u", ":pods", gone);
    check("u+g", ":pods", gone);
    check("u", ":pods@ns", &format!("[{gone}, {lost}]"));
    check("v", ":pods@ns", r#"unsupported role reference kind: "Banana""#);
    check("w", ":pods@ns", "");

    let names: Vec<String> = (0..1000).map(|i| format!("gone-{i}")).collect();
    let world = names.iter().fold(world, |world, name| world.everywhere(name, &["User:many"]));
    let text = world.decide("many", "get", ":pods").reason;
    assert!(text.ends_with(", and more]") && text.len() < 4096, "{text}");
}

#[test]
fn changes_and_deletions_take_effect_at_once() {
    let pods = |verb: &str| rule(&[verb], &[""], &["pods"], &[]);
    let world = World::default().cluster_role("r", &[pods("get")]).everywhere("r", &["User:a"]);
    world.check("a", "get", ":pods", true);

    let world = world.everywhere("r", &["User:b", "Group:g", "User:b"]);
    world.check("a", "get", ":pods", false);
    world.check("b", "get", ":pods", true);
    world.check("x+g", "get", ":pods", true);

    let world = world.cluster_role("r", &[pods("list")]);
    world.check("b", "get", ":pods", false);
    world.check("b", "list", ":pods", true);

    world.0.apply(RbacKind::ClusterRoleBinding, "", "r", None);
    world.0.apply(RbacKind::ClusterRoleBinding, "", "never-was", None);
    world.check("b", "list", ":pods", false);
    world.check("x+g", "list", ":pods", false);

    let world = world.role("ns", "own", &[pods("get")]).within("ns", "Role", "own", &["User:a"]);
    world.check("a", "get", ":pods@ns", true);
    world.0.apply(RbacKind::Role, "ns", "own", None);
    world.check("a", "get", ":pods@ns", false);
    world.0.apply(RbacKind::RoleBinding, "ns", "own", None);
    assert_eq!(world.decide("a", "get", ":pods@ns"), Decision::default());
}

#[test]
fn a_review_lists_each_rule_once_per_binding() {
    let pods = rule(&["get"], &[""], &["pods"], &["a"]);
    let secrets = rule(&["list"], &[""], &["secrets"], &[]);
    let world = World::default()
        .cluster_role("b", &[url_rule(&["get"], &["/healthz"]), pods.clone()])
        .role("ns", "own", std::slice::from_ref(&secrets))
        .everywhere("b", &["User:u", "Group:g"])
        .everywhere("a", &["Group:g"])
        .within("ns", "Role", "own", &["Group:g"]);
    let listed = |rules: &[PolicyRule]| rules.iter().map(PolicyRule::to_value).collect::<Vec<_>>();

    let review = world.0.rules_for(&user("u+g"), "ns");
    let secrets = json!({"verbs": ["list"], "apiGroups": [""], "resources": ["secrets"]});
    assert_eq!(listed(&review.resource_rules), [pods, secrets]);
    assert_eq!(listed(&review.non_resource_rules), [url_rule(&["get"], &["/healthz"])]);
    assert_eq!(review.evaluation_error, r#"clusterrole.rbac.authorization.k8s.io "a" not found"#);

    let status = world.0.rules_for(&user("nobody"), "ns").to_status();
    assert_eq!(status, json!({"resourceRules": [], "nonResourceRules": [], "incomplete": false}));
}

/// What happens to one binding: gone, or given to a subject.
fn change() -> impl Strategy<Value = (String, Option<&'static str>)> {
    const SUBJECTS: &[&str] = &["User:u", "User:v", "Group:g", "ServiceAccount:ns/u", "Group:u"];
    ("[ab]", proptest::option::of(proptest::sample::select(SUBJECTS)))
}

proptest! {
    /// However bindings came and went, the index answers as if built from what is left.
    #[test]
    fn the_index_forgets_nothing_and_keeps_nothing(
        changes in proptest::collection::vec(change(), 0..12),
    ) {
        let pods = rule(&["get"], &[""], &["pods"], &[]);
        let world = World::default().cluster_role("r", std::slice::from_ref(&pods));
        let mut left = std::collections::BTreeMap::new();
        for (name, subject) in &changes {
            let object = subject.map(|subject| binding("ClusterRole", "r", &[subject, "User:w"]));
            world.0.apply(RbacKind::ClusterRoleBinding, "", name, object.as_ref());
            left.insert(name.clone(), object);
        }
        let fresh = World::default().cluster_role("r", &[pods]);
        for (name, object) in &left {
            fresh.0.apply(RbacKind::ClusterRoleBinding, "", name, object.as_ref());
        }
        for who in ["u", "v", "w", "x+g", "x+u", "system:serviceaccount:ns:u"] {
            let decision = world.decide(who, "get", ":pods");
            prop_assert_eq!(decision, fresh.decide(who, "get", ":pods"), "{}", who);
        }
    }
}
