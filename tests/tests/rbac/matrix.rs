//! The built-in roles: who may send which request, what reviews say of it, and what people are told.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::{ask, people};

#[test]
fn the_matrix_of_people_and_requests() -> Result<()> {
    let cluster = people()?;
    let mut admin = cluster.api()?;
    let people = [
        ("v", "vera", vec![]),
        ("e", "ed", vec![]),
        ("a", "ada", vec![]),
        ("u", "uma", vec!["auditors"]),
    ];
    for (letter, name, groups) in people {
        let mut api = cluster.user_api(name, &groups)?;
        // The same person, impersonated by the administrator, must be treated the same.
        let mut masked = cluster.api()?.header("Impersonate-User", name);
        for group in &groups {
            masked = masked.header("Impersonate-Group", group);
        }
        for (method, path, body, allowed) in MATRIX {
            let expected = allowed.split(' ').any(|who| who == letter);
            for api in [&mut api, &mut masked] {
                let answer = ask(api, method, path, body)?;
                let granted = answer.code != 403;
                ensure!(
                    granted == expected,
                    "{name}: {method} {path} got {}: {}",
                    answer.code,
                    answer.text
                );
                ensure!(
                    answer.code < 300 || !granted,
                    "{name}: {method} {path} got {}: {}",
                    answer.code,
                    answer.text
                );
                if !granted {
                    ensure!(answer.body["reason"] == "Forbidden", "{}", answer.text);
                    ensure!(
                        answer.text.contains(&format!("User \\\"{name}\\\" cannot ")),
                        "{}",
                        answer.text
                    );
                }
            }
        }
    }
    // The administrator may do all of it.
    for (method, path, body, _) in MATRIX {
        let answer = ask(&mut admin, method, path, body)?;
        ensure!(answer.code < 300, "admin: {method} {path} got {}: {}", answer.code, answer.text);
    }
    Ok(())
}

#[test]
fn reviews_say_what_would_happen() -> Result<()> {
    let cluster = people()?;
    let mut admin = cluster.api()?;
    let cases = [
        ("vera", "get", "", "configmaps", "", "red", true),
        ("vera", "get", "", "secrets", "", "red", false),
        ("vera", "get", "", "configmaps", "", "blue", false),
        ("ed", "create", "", "serviceaccounts", "token", "red", true),
        ("ed", "create", "rbac.authorization.k8s.io", "roles", "", "red", false),
        ("ada", "create", "rbac.authorization.k8s.io", "roles", "", "red", true),
        ("ada", "create", "rbac.authorization.k8s.io", "roles", "", "", false),
        // What nobody serves is decided by the same rules.
        ("vera", "list", "apps", "deployments", "", "red", true),
        ("system:serviceaccount:red:robot", "delete", "", "secrets", "", "red", true),
    ];
    for (user, verb, group, resource, subresource, namespace, expected) in cases {
        let attributes = json!({"verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace});
        let review = json!({"spec": {"user": user, "resourceAttributes": attributes}});
        let answer = admin
            .post("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review)?
            .expect(201)?;
        ensure!(answer["status"]["allowed"] == expected, "{answer}");
        let own = json!({"spec": {"resourceAttributes": attributes}});
        let mut masked = cluster.api()?.header("Impersonate-User", user);
        let answer = masked
            .post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &own)?
            .expect(201)?;
        ensure!(answer["status"]["allowed"] == expected, "{answer}");
    }
    let mut vera = cluster.user_api("vera", &["staff"])?;
    let me =
        vera.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({}))?.expect(201)?;
    ensure!(me["status"]["userInfo"]["username"] == "vera", "{me}");
    ensure!(me["status"]["userInfo"]["groups"] == json!(["staff", "system:authenticated"]), "{me}");
    let rules = vera
        .post(
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            &json!({"spec": {"namespace": "red"}}),
        )?
        .expect(201)?;
    let rules = rules["status"]["resourceRules"].to_string();
    ensure!(rules.contains("configmaps") && !rules.contains("secrets"), "{rules}");
    Ok(())
}

#[test]
fn kubectl_tells_people_what_they_may_not_do() -> Result<()> {
    let cluster = people()?;
    let vera = cluster.user("vera", &[])?;
    vera.prints("get cm -n red -o name", "configmap/a\nconfigmap/b")?;
    let check = |line: &str, expected: &str| -> Result<()> {
        let said = vera.fails(line)?;
        ensure!(said.trim_end() == expected, "`{line}` said:\n{said}");
        Ok(())
    };
    check(
        "get secrets -n red",
        r#"Error from server (Forbidden): secrets is forbidden: User "vera" cannot list resource "secrets" in API group "" in the namespace "red""#,
    )?;
    check(
        "delete cm a -n red",
        r#"Error from server (Forbidden): configmaps "a" is forbidden: User "vera" cannot delete resource "configmaps" in API group "" in the namespace "red""#,
    )?;
    check(
        "get clusterroles",
        r#"Error from server (Forbidden): clusterroles.rbac.authorization.k8s.io is forbidden: User "vera" cannot list resource "clusterroles" in API group "rbac.authorization.k8s.io" at the cluster scope"#,
    )?;
    check(
        "get --raw /metrics",
        r#"Error from server (Forbidden): forbidden: User "vera" cannot get path "/metrics""#,
    )?;
    check(
        "get cm -n red --as ed",
        r#"Error from server (Forbidden): users "ed" is forbidden: User "vera" cannot impersonate resource "users" in API group "" at the cluster scope"#,
    )
}

/// Method, path and body of a request; every write is a dry run. Then who may: `v`era, `e`d, `a`da, a`u`ditor.
const MATRIX: &[(&str, &str, &str, &str)] = &[
    ("GET", "/api/v1/namespaces/red/configmaps/a", "", "v e a u"),
    ("GET", "/api/v1/namespaces/red/configmaps", "", "v e a u"),
    (
        "GET",
        "/api/v1/namespaces/red/configmaps?watch=1&timeoutSeconds=1&resourceVersion=0",
        "",
        "v e a u",
    ),
    ("POST", "/api/v1/namespaces/red/configmaps?dryRun=All", r#"{"metadata":{"name":"c"}}"#, "e a"),
    (
        "PUT",
        "/api/v1/namespaces/red/configmaps/a?dryRun=All",
        r#"{"metadata":{"name":"a"}}"#,
        "e a",
    ),
    ("PATCH", "/api/v1/namespaces/red/configmaps/a?dryRun=All", r#"{"data":{"x":"y"}}"#, "e a"),
    ("DELETE", "/api/v1/namespaces/red/configmaps/a?dryRun=All", "", "e a"),
    ("DELETE", "/api/v1/namespaces/red/configmaps?dryRun=All", "", "e a"),
    ("GET", "/api/v1/namespaces/blue/configmaps", "", "u"),
    ("GET", "/api/v1/configmaps", "", "u"),
    ("GET", "/api/v1/namespaces/red/secrets/s", "", "e a"),
    ("GET", "/api/v1/namespaces/red/secrets", "", "e a"),
    ("POST", "/api/v1/namespaces/red/secrets?dryRun=All", r#"{"metadata":{"name":"t"}}"#, "e a"),
    ("GET", "/api/v1/namespaces/red/events", "", "v e a u"),
    ("GET", "/apis/events.k8s.io/v1/namespaces/red/events", "", "v e a u"),
    ("GET", "/apis/coordination.k8s.io/v1/namespaces/red/leases", "", "e a"),
    ("GET", "/api/v1/namespaces/red/serviceaccounts/robot", "", "v e a u"),
    ("POST", "/api/v1/namespaces/red/serviceaccounts/robot/token", r#"{"spec":{}}"#, "e a"),
    ("GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/red/roles", "", "a"),
    ("GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/red/rolebindings/editors", "", "a"),
    (
        "DELETE",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/red/rolebindings/editors?dryRun=All",
        "",
        "a",
    ),
    ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles", "", ""),
    ("GET", "/api/v1/namespaces/red", "", "v e a u"),
    ("GET", "/api/v1/namespaces/blue", "", "u"),
    ("GET", "/api/v1/namespaces", "", "u"),
    ("POST", "/api/v1/namespaces?dryRun=All", r#"{"metadata":{"name":"green"}}"#, ""),
    ("DELETE", "/api/v1/namespaces/red?dryRun=All", "", ""),
    ("PUT", "/api/v1/namespaces/red/finalize?dryRun=All", r#"{"metadata":{"name":"red"}}"#, ""),
    (
        "POST",
        "/apis/authorization.k8s.io/v1/namespaces/red/localsubjectaccessreviews",
        r#"{"metadata":{"namespace":"red"},"spec":{"user":"x","resourceAttributes":{"namespace":"red","verb":"get"}}}"#,
        "a",
    ),
    (
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        r#"{"spec":{"user":"x","nonResourceAttributes":{"path":"/","verb":"get"}}}"#,
        "",
    ),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", r#"{"spec":{"token":"x"}}"#, ""),
    (
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        r#"{"spec":{"nonResourceAttributes":{"path":"/","verb":"get"}}}"#,
        "v e a u",
    ),
    (
        "POST",
        "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
        r#"{"spec":{"namespace":"red"}}"#,
        "v e a u",
    ),
    ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}", "v e a u"),
    ("GET", "/api", "", "v e a u"),
    ("GET", "/apis/rbac.authorization.k8s.io/v1", "", "v e a u"),
    ("GET", "/version", "", "v e a u"),
    ("GET", "/readyz", "", "v e a u"),
    ("GET", "/metrics", "", ""),
    ("GET", "/openid/v1/jwks", "", ""),
];
