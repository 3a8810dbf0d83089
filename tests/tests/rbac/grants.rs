//! Roles made by people: for single objects and paths, never beyond what their makers hold, and aggregated.

use anyhow::{Result, ensure};
use lanyard_testkit::wait_until;
use lanyard_tests::SOON;
use serde_json::{Value, json};

use crate::{ask, people};

#[test]
fn roles_may_name_objects_and_paths() -> Result<()> {
    let cluster = people()?;
    cluster.admin.create(
        "
{apiVersion: v1, kind: List, items: [
  {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: only-a, namespace: red},
   rules: [{apiGroups: [''], resources: [configmaps], resourceNames: [a], verbs: [get, list, watch, update, patch, delete, create, deletecollection]}]},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: only-a, namespace: red},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: only-a},
   subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: nina}]},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: scraper},
   rules: [{nonResourceURLs: [/metrics, '/openid/*'], verbs: [get]}]},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: scraper},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scraper},
   subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: nina}]},
]}",
    )?;
    let mut nina = cluster.user_api("nina", &[])?;
    let red = "/api/v1/namespaces/red/configmaps";
    let cases = [
        ("GET", format!("{red}/a"), "", 200),
        ("GET", format!("{red}/b"), "", 403),
        ("GET", red.to_owned(), "", 403),
        ("GET", format!("{red}?fieldSelector=metadata.name%3Da"), "", 200),
        ("GET", format!("{red}?fieldSelector=metadata.name%3Db"), "", 403),
        ("GET", format!("{red}?fieldSelector=metadata.name%3Da&watch=1&timeoutSeconds=1"), "", 200),
        ("PATCH", format!("{red}/a"), r#"{"data":{"x":"y"}}"#, 200),
        ("PATCH", format!("{red}/b"), r#"{"data":{"x":"y"}}"#, 403),
        // A name that is not there yet cannot be matched.
        ("POST", red.to_owned(), r#"{"metadata":{"name":"a"}}"#, 403),
        ("DELETE", red.to_owned(), "", 403),
        ("GET", "/metrics".to_owned(), "", 200),
        ("GET", "/openid/v1/jwks".to_owned(), "", 200),
        ("GET", "/.well-known/openid-configuration".to_owned(), "", 403),
        ("POST", "/metrics".to_owned(), "{}", 403),
    ];
    for (method, path, body, expected) in cases {
        let answer = ask(&mut nina, method, &path, body)?;
        ensure!(answer.code == expected, "{method} {path} got {}: {}", answer.code, answer.text);
    }
    Ok(())
}

#[test]
fn nobody_grants_more_than_they_hold() -> Result<()> {
    let cluster = people()?;
    let mut ada = cluster.user_api("ada", &["leads"])?;
    let roles = format!("{RBAC}/namespaces/red/roles");
    let bindings = format!("{RBAC}/namespaces/red/rolebindings");
    let role = |name: &str, rule: Value| json!({"metadata": {"name": name}, "rules": [rule]});
    let binding = |role: &str| {
        json!({
            "metadata": {"name": format!("to-{role}")},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "friend"}],
        })
    };
    let held = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "update"]});
    ada.post(&roles, &role("held", held))?.expect(201)?;
    ada.post(&bindings, &binding("edit"))?.expect(201)?;

    let not_held =
        json!({"apiGroups": [""], "resources": ["nodes", "configmaps"], "verbs": ["get"]});
    let refused = ada.post(&roles, &role("more", not_held.clone()))?.expect(403)?;
    let expected = "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"ada\" (groups=[\"leads\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"nodes\"], Verbs:[\"get\"]}";
    ensure!(refused["message"] == expected, "{refused}");
    let refused =
        ada.merge(&format!("{roles}/held"), &json!({"rules": [not_held]}))?.expect(403)?;
    ensure!(refused["message"].to_string().contains("not currently held"), "{refused}");
    let refused = ada.post(&bindings, &binding("cluster-admin"))?.expect(403)?;
    let expected = "rolebindings.rbac.authorization.k8s.io \"to-cluster-admin\" is forbidden: user \"ada\" (groups=[\"leads\" \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}";
    ensure!(refused["message"] == expected, "{refused}");

    // The verbs `escalate` and `bind` open the door, each only its own.
    cluster.admin.create(
        "
{apiVersion: v1, kind: List, items: [
  {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: doors, namespace: red},
   rules: [{apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [escalate]},
           {apiGroups: [rbac.authorization.k8s.io], resources: [clusterroles], resourceNames: [cluster-admin], verbs: [bind]}]},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: doors, namespace: red},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: doors},
   subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ada}]},
]}",
    )?;
    ada.post(&roles, &role("more", not_held))?.expect(201)?;
    ada.post(&bindings, &binding("cluster-admin"))?.expect(201)?;
    ada.post(&bindings, &binding("system:auth-delegator"))?.expect(403)?;
    // What was granted works at once.
    cluster.user_api("friend", &[])?.get("/api/v1/namespaces/red/secrets")?.expect(200)?;
    // A binding keeps the role it was made for.
    let other = json!({"roleRef": {"name": "view"}});
    let refused = ada.merge(&format!("{bindings}/to-edit"), &other)?.expect(422)?;
    ensure!(refused["message"].to_string().contains("cannot change roleRef"), "{refused}");
    Ok(())
}

#[test]
fn an_aggregated_role_follows_its_parts() -> Result<()> {
    let cluster = people()?;
    let mut vera = cluster.user_api("vera", &[])?;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/red/leases";
    vera.get(leases)?.expect(403)?;
    cluster.admin.create(
        "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole,
          metadata: {name: see-leases, labels: {rbac.authorization.k8s.io/aggregate-to-view: 'true'}},
          rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [list]}]}",
    )?;
    let mut becomes =
        |code: u16| {
            wait_until("the role to follow", SOON, || {
                Ok((vera.get(leases)?.code == code).then_some(()))
            })
        };
    becomes(200)?;
    // What somebody writes into an aggregated role is replaced.
    let patch = r#"patch clusterrole view --type merge -p '{"rules":[]}'"#;
    cluster.admin.ok(patch)?;
    becomes(200)?;
    cluster
        .admin
        .ok("label clusterrole see-leases rbac.authorization.k8s.io/aggregate-to-view-")?;
    becomes(403)?;
    cluster
        .admin
        .ok("label clusterrole see-leases rbac.authorization.k8s.io/aggregate-to-view=true")?;
    becomes(200)?;
    cluster.admin.ok("delete clusterrole see-leases")?;
    becomes(403)
}

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
