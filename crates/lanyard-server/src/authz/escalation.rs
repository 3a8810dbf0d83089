//! Nobody hands out rights that they do not hold.
//!
//! Checked on every write of a role or binding, after the write itself was authorized. The ways
//! around are upstream's: group `system:masters`, the verb `escalate` on the role, the verb `bind`
//! on the role that a binding names. Texts follow upstream's `pkg/registry/rbac`; clients show them
//! to people.

use std::collections::BTreeMap;

use serde_json::Value;

use super::covers::{Permission, permissions, uncovered};
use super::rbac::{Rbac, is_privileged};
use super::rules::{GROUP, PolicyRule, RbacKind, RoleRef, rules_of};
use super::{Attributes, Target};
use crate::authn::UserInfo;
use crate::field::quoted;

/// How many single permissions one write may hand out. The check costs time in proportion, and the
/// lists of a rule multiply; the biggest roles in the wild have some ten thousand.
pub const MAX_PERMISSIONS: usize = 100_000;

/// How much text a refusal spends on listing what is missing.
const MAX_LISTED: usize = 64 << 10;

/// A role or binding that is about to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// What is written.
    pub kind: RbacKind,
    /// The namespace in the URL, empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name in the URL: empty for POST, where no name counts for the verb `escalate`.
    pub url_name: &'a str,
    /// The object as it will be stored.
    pub object: &'a Value,
    /// The object that it replaces.
    pub old: Option<&'a Value>,
}

/// Why a write is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// 403 on the object written: it would hand out rights that the user lacks.
    #[error("{0}")]
    Forbidden(String),
    /// 404 on another object: the role that a binding names is not there.
    #[error("{resource}.{GROUP} {} not found", quoted(name))]
    RoleNotFound {
        /// `roles` or `clusterroles`.
        resource: &'static str,
        /// The role's name.
        name: String,
    },
}

/// Whether the user may store this object, given the rights they hold.
pub fn check_write(rbac: &Rbac, user: &UserInfo, write: &Write<'_>) -> Result<(), Refused> {
    if is_privileged(user) {
        return Ok(());
    }
    match write.kind {
        RbacKind::Role | RbacKind::ClusterRole => check_role(rbac, user, write),
        RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => check_binding(rbac, user, write),
    }
}

fn check_role(rbac: &Rbac, user: &UserInfo, write: &Write<'_>) -> Result<(), Refused> {
    if may(rbac, user, "escalate", GROUP, write.kind, write.namespace, write.url_name)
        || only_garbage_collection(write.object, write.old)
    {
        return Ok(());
    }
    check_held(rbac, user, write.namespace, &rules_of(write.object))?;
    // A selector can gather any rule, now or later, and an aggregated role undoes every tightening.
    let aggregates = [Some(write.object), write.old].into_iter().flatten().any(has_selectors);
    if write.kind == RbacKind::ClusterRole
        && aggregates
        && check_held(rbac, user, write.namespace, &full_authority()).is_err()
    {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        return Err(Refused::Forbidden(why.into()));
    }
    Ok(())
}

fn check_binding(rbac: &Rbac, user: &UserInfo, write: &Write<'_>) -> Result<(), Refused> {
    if only_garbage_collection(write.object, write.old) {
        return Ok(());
    }
    let role = RoleRef::from_binding(write.object);
    let Some(kind) = role.role_kind() else {
        let why = format!("unsupported role reference kind: {}", quoted(&role.kind));
        return Err(Refused::Forbidden(why));
    };
    if may(rbac, user, "bind", &role.group, kind, write.namespace, &role.name) {
        return Ok(());
    }
    let Some(rules) = rbac.role_rules(&role, write.namespace) else {
        return Err(Refused::RoleNotFound { resource: kind.resource(), name: role.name });
    };
    check_held(rbac, user, write.namespace, &rules)
}

/// Whether the user may use a special verb on a role.
fn may(
    rbac: &Rbac,
    user: &UserInfo,
    verb: &str,
    group: &str,
    kind: RbacKind,
    namespace: &str,
    name: &str,
) -> bool {
    let (resource, subresource) = (kind.resource(), "");
    let target = Target::Resource { group, resource, subresource, namespace, name };
    rbac.allows(&Attributes { user, verb, target })
}

/// Refuses rules that the user does not hold in this scope.
fn check_held(
    rbac: &Rbac,
    user: &UserInfo,
    namespace: &str,
    wanted: &[PolicyRule],
) -> Result<(), Refused> {
    let groups: Vec<&str> = user.groups.iter().map(String::as_str).collect();
    let who =
        format!("user {} (groups={}) is attempting to grant", quoted(&user.name), list(&groups));
    if permissions(wanted) > MAX_PERMISSIONS {
        let why = format!("{who} more than {MAX_PERMISSIONS} RBAC permissions at once");
        return Err(Refused::Forbidden(why));
    }
    let held = rbac.holdings(user, namespace);
    let missing = uncovered(held.rules.iter().flat_map(|rules| rules.iter()), wanted);
    if missing.is_empty() {
        return Ok(());
    }
    let missing = described(&missing);
    let mut why = format!("{who} RBAC permissions not currently held:\n{missing}");
    if !held.problems.is_empty() {
        why.push_str(&format!("; resolution errors: [{}]", held.problems));
    }
    Err(Refused::Forbidden(why))
}

/// Everything there is; what setting an `aggregationRule` takes.
fn full_authority() -> [PolicyRule; 2] {
    let all = || vec!["*".to_owned()];
    [
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() },
    ]
}

/// Whether the role gathers rules; what cannot be read counts as doing so.
fn has_selectors(role: &Value) -> bool {
    match role.get("aggregationRule").and_then(|rule| rule.get("clusterRoleSelectors")) {
        None | Some(Value::Null) => false,
        Some(Value::Array(selectors)) => !selectors.is_empty(),
        Some(_) => true,
    }
}

/// Whether an update changes nothing beyond what the garbage collector must be able to change.
pub(crate) fn only_garbage_collection(new: &Value, old: Option<&Value>) -> bool {
    const IGNORED: [&str; 4] = ["ownerReferences", "finalizers", "selfLink", "managedFields"];
    let Some(old) = old else { return false };
    let stripped = |object: &Value| {
        let mut object = object.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.retain(|field, _| !IGNORED.contains(&field.as_str()));
        }
        object
    };
    same(&stripped(new), &stripped(old))
}

/// Equality where a missing, a null and an empty list or map are the same, as for upstream's typed
/// objects. An empty string is a value: as a label, aggregation can find a role by it.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys = a.keys().chain(b.keys());
            keys.all(|key| {
                let (a, b) = (a.get(key), b.get(key));
                same(a.unwrap_or(&Value::Null), b.unwrap_or(&Value::Null))
            })
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (a, b) => a == b || (is_empty(a) && is_empty(b)),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::String(_) | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The missing permissions, one line per resource with its verbs, sorted.
fn described(missing: &[Permission<'_>]) -> String {
    let mut resources: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    let mut urls = Vec::new();
    for permission in missing {
        match *permission {
            Permission::Resource { group, resource, name, verb } => {
                resources.entry((group, resource, name)).or_default().push(verb);
            }
            Permission::Url { url, verb } => urls.push((url, verb)),
        }
    }
    let resources = resources.into_iter().map(|((group, resource, name), verbs)| {
        let names =
            name.map(|name| format!(", ResourceNames:{}", list(&[name]))).unwrap_or_default();
        let (groups, resources, verbs) = (list(&[group]), list(&[resource]), list(&verbs));
        format!("{{APIGroups:{groups}, Resources:{resources}{names}, Verbs:{verbs}}}")
    });
    let urls = urls.into_iter().map(|(url, verb)| {
        format!("{{NonResourceURLs:{}, Verbs:{}}}", list(&[url]), list(&[verb]))
    });
    let mut lines = Vec::new();
    let mut length = 0;
    let mut all = resources.chain(urls);
    for line in all.by_ref() {
        length += line.len();
        lines.push(line);
        if length > MAX_LISTED {
            break;
        }
    }
    let omitted = all.next().is_some();
    lines.sort();
    lines.dedup();
    if omitted {
        lines.push("... and more".into());
    }
    lines.join("\n")
}

/// Strings as Go's `%q` shows a list of them: `["a" "b"]`, cut off when it gets too long.
fn list(items: &[&str]) -> String {
    let mut text = String::from("[");
    for (i, item) in items.iter().enumerate() {
        if text.len() > MAX_LISTED {
            text.push_str(" ...");
            break;
        }
        if i > 0 {
            text.push(' ');
        }
        text.push_str(&quoted(item));
    }
    text.push(']');
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{World, binding, rule, url_rule, user};
    use super::*;

    fn world() -> World {
        World::default()
            .cluster_role("all", &[rule(&["*"], &["*"], &["*"], &[]), url_rule(&["*"], &["*"])])
            .cluster_role("all-paths", &[url_rule(&["*"], &["*"])])
            .cluster_role("pods", &[rule(&["get", "list"], &[""], &["pods"], &[])])
            .cluster_role("escalate", &[rule(&["escalate"], &[GROUP], &["clusterroles"], &["x"])])
            .cluster_role("bind", &[rule(&["bind"], &[GROUP], &["clusterroles"], &["all"])])
            .role("ns", "secrets", &[rule(&["get"], &[""], &["secrets"], &[])])
            .everywhere("all", &["User:root"])
            .everywhere("all-paths", &["User:almost"])
            .everywhere("pods", &["User:dev"])
            .everywhere("escalate", &["User:climber"])
            .within("ns", "ClusterRole", "pods", &["User:local"])
            .within("ns", "ClusterRole", "bind", &["User:local"])
            .everywhere("gone", &["User:broken"])
    }

    fn written(
        who: &str,
        kind: RbacKind,
        namespace: &str,
        url_name: &str,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<(), Refused> {
        let write = Write { kind, namespace, url_name, object, old };
        check_write(&world().0, &user(who), &write)
    }

    fn forbidden(why: &str) -> Result<(), Refused> {
        Err(Refused::Forbidden(why.into()))
    }

    #[test]
    fn a_role_may_hold_what_its_writer_holds() {
        let check = |who: &str, namespace: &str, rules: Value, expected: Result<(), Refused>| {
            let kind = if namespace.is_empty() { RbacKind::ClusterRole } else { RbacKind::Role };
            let object = json!({"rules": rules});
            assert_eq!(written(who, kind, namespace, "", &object, None), expected, "{who} {rules}");
        };
        let pods = || json!([rule(&["get"], &[""], &["pods"], &[])]);
        check("dev", "", pods(), Ok(()));
        check("dev", "ns", pods(), Ok(()));
        check("local", "ns", pods(), Ok(()));
        check("root", "", json!([url_rule(&["get"], &["/x"])]), Ok(()));
        check("x+system:masters", "", json!([rule(&["*"], &["*"], &["*"], &[])]), Ok(()));
        check("nobody", "ns", json!([]), Ok(()));

        let not_held = |who: &str| {
            forbidden(&format!(
                "user \"{who}\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n\
                 {{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"get\"]}}"
            ))
        };
        check("local", "", pods(), not_held("local"));
        check("local", "ns2", pods(), not_held("local"));
    }

    #[test]
    fn a_refusal_lists_what_is_missing_as_upstream_words_it() {
        let rules = json!([
            rule(&["get", "delete", "patch"], &["", "apps"], &["pods", "nodes"], &[]),
            rule(&["get"], &[""], &["secrets"], &["b", "a"]),
            url_rule(&["get", "post"], &["/z", "/a"]),
            rule(&["update"], &[""], &["nodes"], &[]),
        ]);
        let lines = [
            r#"{APIGroups:[""], Resources:["nodes"], Verbs:["get" "delete" "patch" "update"]}"#,
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete" "patch"]}"#,
            r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["a"], Verbs:["get"]}"#,
            r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get"]}"#,
            r#"{APIGroups:["apps"], Resources:["nodes"], Verbs:["get" "delete" "patch"]}"#,
            r#"{APIGroups:["apps"], Resources:["pods"], Verbs:["get" "delete" "patch"]}"#,
            r#"{NonResourceURLs:["/a"], Verbs:["get"]}"#,
            r#"{NonResourceURLs:["/a"], Verbs:["post"]}"#,
            r#"{NonResourceURLs:["/z"], Verbs:["get"]}"#,
            r#"{NonResourceURLs:["/z"], Verbs:["post"]}"#,
        ];
        let head = r#"user "dev" (groups=["a" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:"#;
        let object = json!({"rules": rules});
        let who = "dev+a+system:authenticated";
        let refused = written(who, RbacKind::ClusterRole, "", "x", &object, None);
        assert_eq!(refused, forbidden(&format!("{head}\n{}", lines.join("\n"))));
    }

    #[test]
    fn a_refusal_tells_of_roles_that_are_missing() {
        let object = json!({"rules": [url_rule(&["get"], &["/x"])]});
        let why = "user \"broken\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n\
                   {NonResourceURLs:[\"/x\"], Verbs:[\"get\"]}; resolution errors: \
                   [clusterroles.rbac.authorization.k8s.io \"gone\" not found]";
        let refused = written("broken", RbacKind::ClusterRole, "", "", &object, None);
        assert_eq!(refused, forbidden(why));
    }

    #[test]
    fn escalate_opens_the_named_role_only() {
        let check = |kind: RbacKind, namespace: &str, url_name: &str, allowed: bool| {
            let object = json!({"rules": [rule(&["*"], &["*"], &["*"], &[])],
                "aggregationRule": {"clusterRoleSelectors": [{}]}});
            let written = written("climber", kind, namespace, url_name, &object, None);
            assert_eq!(written.is_ok(), allowed, "{kind:?} {url_name}: {written:?}");
        };
        check(RbacKind::ClusterRole, "", "x", true);
        check(RbacKind::ClusterRole, "", "y", false);
        check(RbacKind::ClusterRole, "", "", false);
        check(RbacKind::Role, "ns", "x", false);
    }

    #[test]
    fn an_aggregation_rule_takes_full_authority() {
        let why = "must have cluster-admin privileges to use the aggregationRule";
        let check = |who: &str, new: Value, old: Option<Value>, allowed: bool| {
            let (new, old) =
                (json!({"aggregationRule": new}), old.map(|old| json!({"aggregationRule": old})));
            let written = written(who, RbacKind::ClusterRole, "", "x", &new, old.as_ref());
            assert_eq!(
                written,
                if allowed { Ok(()) } else { forbidden(why) },
                "{who} {new} {old:?}"
            );
        };
        let gathers = || json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
        check("root", gathers(), None, true);
        check("almost", gathers(), None, false);
        check("dev", gathers(), None, false);
        check("dev", Value::Null, Some(gathers()), false);
        check("dev", json!({"clusterRoleSelectors": []}), None, true);
        check("dev", json!({"clusterRoleSelectors": [{}]}), Some(json!({})), false);
        check("dev", json!({"clusterRoleSelectors": "all"}), None, false);
    }

    #[test]
    fn a_binding_hands_out_what_its_writer_holds_or_may_bind() {
        let check = |who: &str,
                     namespace: &str,
                     (kind, role): (&str, &str),
                     expected: Result<(), Refused>| {
            let object = binding(kind, role, &["User:x"]);
            let written_kind = match namespace {
                "" => RbacKind::ClusterRoleBinding,
                _ => RbacKind::RoleBinding,
            };
            let result = written(who, written_kind, namespace, "", &object, None);
            assert_eq!(result, expected, "{who} {namespace} {role}");
        };
        check("dev", "", ("ClusterRole", "pods"), Ok(()));
        check("dev", "ns", ("ClusterRole", "pods"), Ok(()));
        check("local", "ns", ("ClusterRole", "pods"), Ok(()));
        check("local", "ns", ("ClusterRole", "all"), Ok(()));
        check("x+system:masters", "", ("ClusterRole", "gone"), Ok(()));
        check("root", "ns", ("Role", "secrets"), Ok(()));
        let secrets = "user \"dev\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n\
                       {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}";
        check("dev", "ns", ("Role", "secrets"), forbidden(secrets));
        let all = "user \"local\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n\
                   {APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n\
                   {NonResourceURLs:[\"*\"], Verbs:[\"*\"]}";
        check("local", "", ("ClusterRole", "all"), forbidden(all));

        let missing =
            |resource, name: &str| Err(Refused::RoleNotFound { resource, name: name.into() });
        check("dev", "ns", ("ClusterRole", "gone"), missing("clusterroles", "gone"));
        check("dev", "ns2", ("Role", "secrets"), missing("roles", "secrets"));
        check("dev", "ns", ("Pod", "p"), forbidden("unsupported role reference kind: \"Pod\""));
        let text = missing("roles", "secrets").map_err(|e| e.to_string());
        assert_eq!(text, Err("roles.rbac.authorization.k8s.io \"secrets\" not found".to_owned()));
    }

    #[test]
    fn the_garbage_collector_may_change_its_fields() {
        let old = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "x", "labels": {"a": "b"}, "finalizers": ["f"], "resourceVersion": "7"},
            "rules": [rule(&["*"], &["*"], &["*"], &[])],
            "aggregationRule": {"clusterRoleSelectors": [{}]}});
        let check = |change: fn(&mut Value), allowed: bool| {
            let mut new = old.clone();
            change(&mut new);
            let written = written("nobody", RbacKind::ClusterRole, "", "x", &new, Some(&old));
            assert_eq!(written.is_ok(), allowed, "{new}");
        };
        check(|_| (), true);
        check(|new| new["metadata"]["finalizers"] = json!([]), true);
        check(|new| new["metadata"]["ownerReferences"] = json!([{"uid": "1"}]), true);
        check(|new| new["metadata"]["managedFields"] = json!([{"manager": "gc"}]), true);
        check(|new| new["metadata"]["annotations"] = json!({}), true);
        check(|new| new["rules"][0]["resourceNames"] = Value::Null, true);
        check(|new| new["metadata"]["labels"]["a"] = json!("c"), false);
        check(|new| new["metadata"]["labels"]["new"] = json!(""), false);
        check(|new| new["rules"][0]["resourceNames"] = json!(["a"]), false);
        check(|new| new["aggregationRule"]["clusterRoleSelectors"] = json!([{}, {}]), false);

        let old = binding("ClusterRole", "all", &["User:x"]);
        let mut new = old.clone();
        new["metadata"]["finalizers"] = json!(["f"]);
        let kind = RbacKind::ClusterRoleBinding;
        assert_eq!(written("nobody", kind, "", "x", &new, Some(&old)), Ok(()));
        new["subjects"][0]["name"] = json!("y");
        assert!(written("nobody", kind, "", "x", &new, Some(&old)).is_err());
    }

    #[test]
    fn a_hostile_role_is_refused_in_bounded_text() {
        let many = |count: usize| (0..count).map(|i| format!("item-{i}")).collect::<Vec<_>>();
        let refused = |rule: Value| {
            let object = json!({"rules": [rule]});
            match written("dev", RbacKind::ClusterRole, "", "", &object, None) {
                Err(Refused::Forbidden(why)) => why,
                other => panic!("not refused: {other:?}"),
            }
        };
        let lists = many(1000);
        let why = refused(json!({"verbs": lists, "apiGroups": lists, "resources": lists}));
        assert!(
            why.ends_with("is attempting to grant more than 100000 RBAC permissions at once"),
            "{why}"
        );

        let why = refused(json!({"verbs": ["get"], "apiGroups": [""], "resources": many(99_000)}));
        assert!(why.ends_with("\n... and more") && why.len() < 2 * MAX_LISTED);

        let long = "v".repeat(1 << 20);
        let why = refused(json!({"verbs": [long], "apiGroups": [""], "resources": many(10_000)}));
        assert!(why.len() < (1 << 20) + 2 * MAX_LISTED, "{}", why.len());
        let why =
            refused(json!({"verbs": [long], "apiGroups": [""], "resources": vec!["a"; 10_000]}));
        assert!(why.len() < (1 << 20) + 2 * MAX_LISTED, "{}", why.len());
    }
}
