//! Who somebody is: nobody, a service account, or whoever they may act as.

use anyhow::{Context, Result, ensure};
use lanyard_testkit::Authority;
use lanyard_tests::{Api, Cluster};
use serde_json::{Value, json};

use crate::people;

#[test]
fn anonymous_sees_health_and_version_only() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut nobody = cluster.anonymous()?;
    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        nobody.get(path)?.expect(200)?;
    }
    for path in [
        "/",
        "/api",
        "/apis",
        "/api/v1/namespaces",
        "/metrics",
        "/readyz/ping",
        "/openid/v1/jwks",
        "/nope",
    ] {
        let refused = nobody.get(path)?.expect(403)?;
        ensure!(refused["message"].to_string().contains("system:anonymous"), "{refused}");
    }
    // Somebody who comes with bad credentials is not taken for nobody.
    let refused = cluster.bearer("no.such.token")?.get("/version")?.expect(401)?;
    ensure!(
        refused["message"] == "Unauthorized" && refused["reason"] == "Unauthorized",
        "{refused}"
    );
    let config = cluster.server.kubeconfig()?;
    let stranger = Authority::new("somebody else")?.client("lanyard-admin", &["system:masters"])?;
    let mut stranger = Api::new(&config.server, &config.authorities, Some(&stranger))?;
    stranger.get("/version")?.expect(401)?;
    Ok(())
}

#[test]
fn a_service_account_token_is_good_while_its_account_is() -> Result<()> {
    let cluster = people()?;
    let token = cluster.account_token("red", "robot")?;
    let robot = cluster.token_user("robot", &token)?;
    robot.prints("get cm -n red -o name", "configmap/a\nconfigmap/b")?;
    let refused = robot.fails("get cm -n blue")?;
    ensure!(
        refused.contains(
            r#"User "system:serviceaccount:red:robot" cannot list resource "configmaps""#
        ),
        "{refused}"
    );
    // kubectl itself asks for tokens like this.
    let request = r#"{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"audiences":["elsewhere"]}}"#;
    let answer = cluster.admin.run_with(
        "create --raw /api/v1/namespaces/red/serviceaccounts/robot/token -f -",
        request,
    )?;
    let foreign: Value = serde_json::from_str(&answer.success()?)?;
    let foreign = foreign["status"]["token"].as_str().context("no token")?.to_owned();
    cluster.bearer(&foreign)?.get("/api")?.expect(401)?;

    let mut api = cluster.bearer(&token)?;
    let me =
        api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({}))?.expect(201)?;
    let groups =
        json!(["system:serviceaccounts", "system:serviceaccounts:red", "system:authenticated"]);
    ensure!(me["status"]["userInfo"]["groups"] == groups, "{me}");
    // Whoever holds a token may check the tokens of others.
    api.get("/openid/v1/jwks")?.expect(200)?;
    let review = json!({"spec": {"token": token}});
    let reviewed =
        cluster.api()?.post("/apis/authentication.k8s.io/v1/tokenreviews", &review)?.expect(201)?;
    ensure!(reviewed["status"]["authenticated"] == true, "{reviewed}");

    // A namesake is somebody else.
    cluster.admin.ok("delete sa robot -n red")?;
    api.get("/api")?.expect(401)?;
    cluster.admin.create(
        "{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot, namespace: red}}",
    )?;
    api.get("/api")?.expect(401)?;
    let fresh = cluster.account_token("red", "robot")?;
    cluster.bearer(&fresh)?.get("/api/v1/namespaces/red/configmaps")?.expect(200)?;
    Ok(())
}

#[test]
fn impersonation_needs_the_right_to_each_part() -> Result<()> {
    let cluster = people()?;
    cluster.admin.create(
        "
{apiVersion: v1, kind: List, items: [
  {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: masks},
   rules: [{apiGroups: [''], resources: [users], resourceNames: [vera, ed], verbs: [impersonate]},
           {apiGroups: [''], resources: [groups], resourceNames: [auditors], verbs: [impersonate]}]},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: masks},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: masks},
   subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: actor}]},
]}",
    )?;
    let actor = cluster.user("actor", &[])?;
    actor.prints("get cm -n red -o name --as vera", "configmap/a\nconfigmap/b")?;
    actor.prints("get cm -n blue -o name --as vera --as-group auditors", "")?;
    actor.prints("get secret -n red -o name --as ed", "secret/s")?;
    for (line, part) in [
        ("get cm -n red", r#"User "actor" cannot list resource "configmaps""#),
        ("get secret -n red --as vera", r#"User "vera" cannot list resource "secrets""#),
        ("get cm -n red --as ada", r#"User "actor" cannot impersonate resource "users""#),
        (
            "get cm -A --as vera --as-group system:masters",
            r#"User "actor" cannot impersonate resource "groups""#,
        ),
        (
            "get cm -n red --as system:serviceaccount:red:robot",
            r#"User "actor" cannot impersonate resource "serviceaccounts""#,
        ),
        (
            "get cm -n red --as vera --as-uid 1",
            r#"User "actor" cannot impersonate resource "uids""#,
        ),
    ] {
        let said = actor.fails(line)?;
        ensure!(said.contains("(Forbidden)") && said.contains(part), "`{line}` said: {said}");
    }
    // Whoever may edit a namespace may act as its service accounts.
    let ed = cluster.user("ed", &[])?;
    ed.prints(
        "get cm -n red -o name --as system:serviceaccount:red:robot",
        "configmap/a\nconfigmap/b",
    )?;
    // A group without a user is nobody.
    let mut nameless = cluster.api()?.header("Impersonate-Group", "auditors");
    nameless.get("/api")?.expect(400)?;
    // Rights end with the binding.
    cluster.admin.ok("delete clusterrolebinding masks")?;
    ensure!(actor.fails("get cm -n red --as vera")?.contains("cannot impersonate"));
    Ok(())
}
