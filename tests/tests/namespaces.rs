//! The end of things: namespaces that take their content along, owners that take their dependents along or leave
//! them, and finalizers that hold both back.

use anyhow::{Context, Result, ensure};
use lanyard_testkit::{Process, wait_until};
use lanyard_tests::{Api, Cluster, SOON};
use serde_json::{Value, json};

/// What the server gives every namespace, a moment after it is there.
const ACCOUNT: &str = "serviceaccount/default";

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn a_deleted_namespace_takes_its_content_along() -> Result<()> {
    let cluster = Cluster::start()?;
    let admin = &cluster.admin;
    for name in ["town", "other"] {
        admin
            .create(&format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}"))?;
        admin.create(&content(name))?;
    }
    admin.prints("delete ns town --timeout=60s", r#"namespace "town" deleted"#)?;
    admin.prints(&format!("get {KINDS} -n town -o name"), "")?;
    let kept = admin.ok(&format!("get {KINDS} -n other -o name"))?;
    let kept: Vec<&str> = kept.lines().filter(|name| *name != ACCOUNT).collect();
    ensure!(kept.len() == 7, "{kept:?}");

    // A namespace of the same name is another one, and empty.
    admin.create("{apiVersion: v1, kind: Namespace, metadata: {name: town}}")?;
    let empty = admin.ok(&format!("get {KINDS} -n town -o name"))?;
    ensure!(empty.lines().all(|name| name == ACCOUNT), "{empty}");
    admin.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: town}}")?;
    Ok(())
}

#[test]
fn a_finalizer_holds_a_namespace() -> Result<()> {
    let cluster = Cluster::start()?;
    let (admin, mut api) = (&cluster.admin, cluster.api()?);
    admin.create("{apiVersion: v1, kind: Namespace, metadata: {name: town}}")?;
    admin.create(&content("town"))?;
    admin.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: held, namespace: town, finalizers: [example.com/hold]}}")?;
    admin.prints("delete ns town --wait=false", r#"namespace "town" deleted"#)?;
    admin.prints("get ns town -o jsonpath={.status.phase}", "Terminating")?;

    let remaining = "condition=NamespaceContentRemaining";
    admin.ok(&format!("wait ns town --for={remaining} --timeout=30s"))?;
    let conditions = wait_until("only the held object to remain", SOON, || {
        let namespace = admin.json("get ns town")?;
        let conditions = conditions(&namespace);
        let one = |c: &Value| {
            c["message"] == "Some resources are remaining: configmaps. has 1 resource instances"
        };
        Ok(conditions.iter().any(one).then_some(conditions))
    })?;
    let brief: Vec<_> = conditions
        .iter()
        .map(|c| ["type", "status", "reason", "message"].map(|f| c[f].as_str().unwrap_or_default()))
        .collect();
    ensure!(
        brief
            == [
                [
                    "NamespaceDeletionDiscoveryFailure",
                    "False",
                    "ResourcesDiscovered",
                    "All resources successfully discovered"
                ],
                [
                    "NamespaceDeletionGroupVersionParsingFailure",
                    "False",
                    "ParsedGroupVersions",
                    "All legacy kube types successfully parsed"
                ],
                [
                    "NamespaceDeletionContentFailure",
                    "False",
                    "ContentDeleted",
                    "All content successfully deleted, may be waiting on finalization"
                ],
                [
                    "NamespaceContentRemaining",
                    "True",
                    "SomeResourcesRemain",
                    "Some resources are remaining: configmaps. has 1 resource instances"
                ],
                [
                    "NamespaceFinalizersRemaining",
                    "True",
                    "SomeFinalizersRemain",
                    "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
                ],
            ],
        "{brief:#?}"
    );
    admin.prints("get cm,secret,sa -n town -o name", "configmap/held")?;

    // Nothing new comes in, what is there can still be changed, and a second deletion changes nothing.
    let refused = api
        .post("/api/v1/namespaces/town/configmaps", &json!({"metadata": {"name": "new"}}))?
        .expect(403)?;
    let expected = r#"configmaps "new" is forbidden: unable to create new content in namespace town because it is being terminated"#;
    ensure!(refused["message"] == expected, "{refused}");
    ensure!(refused["details"]["causes"][0]["reason"] == "NamespaceTerminating", "{refused}");
    admin.ok("label cm held -n town a=b")?;
    let again = api.delete("/api/v1/namespaces/town", None)?;
    ensure!(matches!(again.code, 200 | 409), "{}", again.text);
    let refused = api
        .merge(
            "/api/v1/namespaces/town/configmaps/held",
            &json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}),
        )?
        .expect(422)?;
    ensure!(
        refused["message"]
            .to_string()
            .contains("no new finalizers can be added if the object is being deleted"),
        "{refused}"
    );

    let gone = admin.start("gone", "wait ns town --for=delete --timeout=60s")?;
    api.merge(
        "/api/v1/namespaces/town/configmaps/held",
        &json!({"metadata": {"finalizers": null}}),
    )?
    .expect(200)?;
    ends_well(gone)?;
    api.get("/api/v1/namespaces/town")?.expect(404)?;
    Ok(())
}

#[test]
fn a_namespaces_own_finalizers_are_waited_for() -> Result<()> {
    let cluster = Cluster::start()?;
    let (admin, mut api) = (&cluster.admin, cluster.api()?);
    let town = "/api/v1/namespaces/town";
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "town", "finalizers": ["example.com/hold"]}, "spec": {"finalizers": ["kubernetes", "example.com/spec"]}}))?.expect(201)?;
    api.delete(town, None)?.expect(200)?;
    // Ours goes, the others stay until their owners take them off.
    wait_until("the server's finalizer to go", SOON, || {
        Ok((api.get(town)?.expect(200)?["spec"]["finalizers"] == json!(["example.com/spec"]))
            .then_some(()))
    })?;
    let mut namespace = api.get(town)?.expect(200)?;
    namespace["spec"] = json!({});
    api.put(&format!("{town}/finalize"), &namespace)?.expect(200)?;
    ensure!(api.get(town)?.expect(200)?["status"]["phase"] == "Terminating");
    let gone = admin.start("gone", "wait ns town --for=delete --timeout=60s")?;
    api.merge(town, &json!({"metadata": {"finalizers": null}}))?.expect(200)?;
    ends_well(gone)?;
    api.get(town)?.expect(404)?;
    Ok(())
}

#[test]
fn some_namespaces_are_always_there() -> Result<()> {
    let cluster = Cluster::start()?;
    let admin = &cluster.admin;
    for name in ["default", "kube-system", "kube-public"] {
        let said = admin.fails(&format!("delete ns {name}"))?;
        let expected = format!(
            r#"Error from server (Forbidden): namespaces "{name}" is forbidden: this namespace may not be deleted"#
        );
        ensure!(said.trim_end() == expected, "{said}");
    }
    admin.prints("delete ns kube-node-lease", r#"namespace "kube-node-lease" deleted"#)?;
    let refused = cluster.api()?.delete("/api/v1/namespaces", None)?;
    ensure!(refused.code == 405, "{}", refused.text);
    Ok(())
}

#[test]
fn a_namespace_is_emptied_after_a_restart_too() -> Result<()> {
    let mut cluster = Cluster::start()?;
    cluster.admin.create("{apiVersion: v1, kind: Namespace, metadata: {name: town}}")?;
    cluster.admin.create(&content("town"))?;
    cluster.admin.ok("delete ns town --wait=false")?;
    cluster.server.kill9()?;
    cluster.server.restart()?;
    cluster.admin.ok("wait ns town --for=delete --timeout=60s")?;
    cluster.admin.prints(&format!("get {KINDS} -n town -o name"), "")
}

#[test]
fn dependents_follow_their_owner_in_the_background() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    let family = Family::create(&mut api)?;
    cluster.admin.prints(
        "delete cm owner --cascade=background",
        r#"configmap "owner" deleted from default namespace"#,
    )?;
    for gone in ["child", "grandchild"] {
        is_gone(&mut api, gone)?;
    }
    // Who has another owner stays, and forgets the one that went.
    owners_become(&mut api, "shared", &[&family.other])?;
    api.get(&format!("{CONFIG_MAPS}/bystander"))?.expect(200)?;
    Ok(())
}

#[test]
fn dependents_go_before_their_owner_in_the_foreground() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    let family = Family::create(&mut api)?;
    hold(&mut api, "child")?;
    cluster.admin.ok("delete cm owner --cascade=foreground --wait=false")?;
    // The owner waits for its child, which something else holds.
    let owner = api.get(&format!("{CONFIG_MAPS}/owner"))?.expect(200)?;
    ensure!(owner["metadata"]["finalizers"] == json!(["foregroundDeletion"]), "{owner}");
    ensure!(owner["metadata"]["deletionTimestamp"].is_string(), "{owner}");
    // The child waits for its own child first, then only for whoever holds it.
    wait_until("the child to wait for its holder only", SOON, || {
        let child = api.get(&format!("{CONFIG_MAPS}/child"))?.expect(200)?;
        let marked = child["metadata"]["deletionTimestamp"].is_string();
        Ok((marked && child["metadata"]["finalizers"] == json!(["example.com/hold"])).then_some(()))
    })?;
    is_gone(&mut api, "grandchild")?;
    owners_become(&mut api, "shared", &[&family.other])?;
    api.get(&format!("{CONFIG_MAPS}/owner"))?.expect(200)?;
    let gone = cluster.admin.start("gone", "wait cm owner --for=delete --timeout=60s")?;
    let release = json!({"metadata": {"finalizers": null}});
    api.merge(&format!("{CONFIG_MAPS}/child"), &release)?.expect(200)?;
    ends_well(gone)?;
    is_gone(&mut api, "child")
}

#[test]
fn orphans_forget_their_owner_and_stay() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    let family = Family::create(&mut api)?;
    cluster.admin.prints(
        "delete cm owner --cascade=orphan",
        r#"configmap "owner" deleted from default namespace"#,
    )?;
    is_gone(&mut api, "owner")?;
    owners_become(&mut api, "child", &[])?;
    owners_become(&mut api, "shared", &[&family.other])?;
    owners_become(&mut api, "grandchild", &[&family.child])
}

#[test]
fn an_owner_that_never_was_is_as_good_as_gone() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    let owner = api.post(CONFIG_MAPS, &json!({"metadata": {"name": "owner"}}))?.expect(201)?;
    let nobody =
        json!({"metadata": {"name": "owner", "uid": "11111111-2222-3333-4444-555555555555"}});
    let unknown =
        json!([{"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "1"}]);
    for (name, owners) in [
        ("cuckoo", owned_by(&[&nobody])),
        ("mixed", owned_by(&[&nobody, &owner])),
        ("foreign", unknown),
    ] {
        api.post(CONFIG_MAPS, &json!({"metadata": {"name": name, "ownerReferences": owners}}))?
            .expect(201)?;
    }
    is_gone(&mut api, "cuckoo")?;
    owners_become(&mut api, "mixed", &[uid(&owner)?])?;
    // Owners of kinds that are not served keep their dependents.
    api.get(&format!("{CONFIG_MAPS}/foreign"))?.expect(200)?;
    Ok(())
}

const KINDS: &str = "cm,secret,sa,events,lease,role,rolebinding";

/// One object of every kind that lives in a namespace.
fn content(namespace: &str) -> String {
    let object = |version: &str, kind: &str, rest: Value| {
        let mut object = rest;
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": "thing", "namespace": namespace});
        object
    };
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "thing"});
    let items = [
        object("v1", "ConfigMap", json!({})),
        object("v1", "Secret", json!({})),
        object("v1", "ServiceAccount", json!({})),
        object(
            "v1",
            "Event",
            json!({"involvedObject": {"kind": "ConfigMap", "namespace": namespace, "name": "thing"}}),
        ),
        object("coordination.k8s.io/v1", "Lease", json!({})),
        object(rbac, "Role", json!({"rules": []})),
        object(rbac, "RoleBinding", json!({"roleRef": role})),
    ];
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// An owner with a child and a grandchild, a dependent that it shares with another owner, and a bystander.
struct Family {
    other: String,
    child: String,
}

impl Family {
    fn create(api: &mut Api) -> Result<Family> {
        let mut create = |name: &str, owners: &[&Value]| {
            let object = json!({"metadata": {"name": name, "ownerReferences": owned_by(owners)}});
            api.post(CONFIG_MAPS, &object)?.expect(201)
        };
        let owner = create("owner", &[])?;
        let other = create("other", &[])?;
        let child = create("child", &[&owner])?;
        create("grandchild", &[&child])?;
        create("shared", &[&owner, &other])?;
        create("bystander", &[])?;
        Ok(Family { other: uid(&other)?.to_owned(), child: uid(&child)?.to_owned() })
    }
}

fn owned_by(owners: &[&Value]) -> Value {
    let reference = |owner: &&Value| {
        let meta = &owner["metadata"];
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"], "blockOwnerDeletion": true})
    };
    owners.iter().map(reference).collect()
}

fn uid(object: &Value) -> Result<&str> {
    object["metadata"]["uid"].as_str().context("an object without a uid")
}

fn hold(api: &mut Api, name: &str) -> Result<()> {
    let patch = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    api.merge(&format!("{CONFIG_MAPS}/{name}"), &patch)?.expect(200).map(drop)
}

fn is_gone(api: &mut Api, name: &str) -> Result<()> {
    wait_until(&format!("{name} to go"), SOON, || {
        Ok((api.get(&format!("{CONFIG_MAPS}/{name}"))?.code == 404).then_some(()))
    })
}

fn owners_become(api: &mut Api, name: &str, expected: &[&str]) -> Result<()> {
    wait_until(&format!("the owners of {name} to become {expected:?}"), SOON, || {
        let object = api.get(&format!("{CONFIG_MAPS}/{name}"))?.expect(200)?;
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        let uids: Vec<_> = owners.iter().filter_map(|owner| owner["uid"].as_str()).collect();
        Ok((uids == expected).then_some(()))
    })
}

fn conditions(namespace: &Value) -> Vec<Value> {
    namespace["status"]["conditions"].as_array().cloned().unwrap_or_default()
}

fn ends_well(mut process: Process) -> Result<()> {
    let status = wait_until("kubectl to end", SOON, || process.exited())?;
    ensure!(status.success(), "{status}: {}{}", process.stdout(), process.stderr());
    Ok(())
}
