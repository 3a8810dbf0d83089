//! Showing what is there: tables, selectors, output formats, descriptions, events.

use anyhow::{Result, ensure};
use lanyard_tests::Cluster;
use serde_json::json;

use crate::{ages_hidden, shop};

#[test]
fn objects_are_created_and_shown() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    admin.prints(
        "get ns shop --no-headers -o custom-columns=N:.metadata.name,S:.status.phase",
        "shop Active",
    )?;
    ages_hidden(admin, "get cm -n shop", "NAME DATA AGE\nhours 1 -\nprices 2 -")?;
    ages_hidden(
        admin,
        "get secret,cm -n shop -l app=till",
        "NAME TYPE DATA AGE\nsecret/safe Opaque 1 -\nNAME DATA AGE\nconfigmap/prices 2 -",
    )?;
    ages_hidden(
        admin,
        "get cm -A --field-selector metadata.name=hours",
        "NAMESPACE NAME DATA AGE\nshop hours 1 -",
    )?;
    ages_hidden(
        admin,
        "get cm -n shop --show-labels",
        "NAME DATA AGE LABELS\nhours 1 - app=door\nprices 2 - app=till,tier=front",
    )?;
    ages_hidden(
        admin,
        "get cm -n shop -L tier",
        "NAME DATA AGE TIER\nhours 1 -\nprices 2 - front",
    )?;
    admin.prints("get cm -n shop -o name", "configmap/hours\nconfigmap/prices")?;
    admin.prints("get cm prices -n shop -o jsonpath={.data.pear}", "2")?;
    admin.prints(
        "get cm -n shop --sort-by={.data.apple} -o name",
        "configmap/hours\nconfigmap/prices",
    )?;
    admin.prints(
        "get cm -n shop -o custom-columns=NAME:.metadata.name,APPLE:.data.apple",
        "NAME APPLE\nhours <none>\nprices 1",
    )?;
    admin.prints("get secret safe -n shop -o jsonpath={.data.code}", "MTIzNA==")?;

    let prices = admin.json("get cm prices -n shop")?;
    ensure!(prices["data"] == json!({"apple": "1", "pear": "2"}), "{prices}");
    ensure!(prices["kind"] == "ConfigMap" && prices["apiVersion"] == "v1", "{prices}");
    let list = admin.json("get cm -n shop")?;
    ensure!(list["items"].as_array().map(Vec::len) == Some(2), "{list}");
    ensure!(
        admin
            .ok("get cm prices -n shop -o yaml")?
            .starts_with("apiVersion: v1\ndata:\n  apple: \"1\"\n")
    );
    Ok(())
}

#[test]
fn what_is_not_there_is_said_so() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    let check = |line: &str, expected: &str| -> Result<()> {
        let said = admin.fails(line)?;
        ensure!(said.trim_end() == expected, "`{line}` said:\n{said}");
        Ok(())
    };
    check("get cm nope -n shop", r#"Error from server (NotFound): configmaps "nope" not found"#)?;
    check(
        "delete cm nope -n shop",
        r#"Error from server (NotFound): configmaps "nope" not found"#,
    )?;
    check("get ns nowhere", r#"Error from server (NotFound): namespaces "nowhere" not found"#)?;
    check("get jobs", r#"error: the server doesn't have a resource type "jobs""#)?;
    let again = admin.cannot_create("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")?;
    ensure!(
        again.contains(
            r#"(AlreadyExists): error when creating "STDIN": namespaces "shop" already exists"#
        ),
        "{again}"
    );
    let lost = admin
        .cannot_create("{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: lost}}")?;
    ensure!(
        lost.contains(r#"(NotFound): error when creating "STDIN": namespaces "lost" not found"#),
        "{lost}"
    );
    let bad =
        admin.cannot_create("{apiVersion: v1, kind: ConfigMap, metadata: {name: Bad_Name}}")?;
    ensure!(
        bad.contains(
            r#"The ConfigMap "Bad_Name" is invalid: metadata.name: Invalid value: "Bad_Name""#
        ),
        "{bad}"
    );
    let unknown = admin.fails("get cm --field-selector spec.x=y")?;
    ensure!(unknown.contains("(BadRequest)") && unknown.contains("spec.x"), "{unknown}");
    admin.prints("get cm -n empty", "")
}

#[test]
fn describe_explains_objects_and_their_events() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    let uid = admin.ok("get cm prices -n shop -o jsonpath={.metadata.uid}")?;
    admin.create(&format!(
        "
apiVersion: v1
kind: Event
metadata: {{name: prices.1, namespace: shop}}
involvedObject: {{kind: ConfigMap, apiVersion: v1, name: prices, namespace: shop, uid: {uid}}}
type: Normal
reason: Raised
message: apples got dearer
source: {{component: till}}
firstTimestamp: 2026-01-01T10:00:00Z
lastTimestamp: 2026-01-01T11:00:00Z
count: 3
"
    ))?;
    let check = |line: &str, parts: &[&str]| -> Result<()> {
        let text = admin.ok(line)?;
        let squeezed = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in parts {
            ensure!(squeezed.contains(part), "`{line}` does not say {part:?}:\n{text}");
        }
        Ok(())
    };
    check(
        "describe cm prices -n shop",
        &[
            "Name: prices",
            "Labels: app=till tier=front",
            "apple: ---- 1",
            "Raised",
            "till apples got dearer",
        ],
    )?;
    check("describe secret safe -n shop", &["Type: Opaque", "code: 4 bytes"])?;
    check("describe ns shop", &["Name: shop", "Status: Active"])?;
    check("describe clusterrole cluster-admin", &["*.* [] [] [*]", "[*] [] [*]"])?;
    check(
        "describe clusterrolebinding cluster-admin",
        &["Kind: ClusterRole Name: cluster-admin", "Group system:masters"],
    )?;
    check("describe svc kubernetes", &["Type: ClusterIP", "Port: https 443/TCP"])?;
    check("describe event prices.1 -n shop", &["Reason: Raised"])?;

    check(
        "events -n shop",
        &[
            "LAST SEEN TYPE REASON OBJECT MESSAGE",
            "Normal Raised ConfigMap/prices apples got dearer",
        ],
    )?;
    check("events -n shop --for cm/prices --types Normal", &["Raised"])?;
    check(
        "get events -n shop",
        &[
            "LAST SEEN TYPE REASON OBJECT MESSAGE",
            "Normal Raised configmap/prices apples got dearer",
        ],
    )?;
    check(
        "get events -n shop -o wide",
        &["SUBOBJECT SOURCE MESSAGE FIRST SEEN COUNT NAME", "till apples got dearer", "3 prices.1"],
    )?;
    check("get events.events.k8s.io -n shop -o jsonpath={.items[0].note}", &["apples got dearer"])?;
    check(
        "get events -n shop --field-selector involvedObject.name=prices,type=Normal -o name",
        &["event/prices.1"],
    )?;
    admin.prints("get events -n shop --field-selector type=Warning -o name", "")
}

#[test]
fn every_kind_has_its_columns() -> Result<()> {
    let cluster = Cluster::start()?;
    let admin = &cluster.admin;
    admin.create(
        "
{apiVersion: v1, kind: List, items: [
  {apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}},
  {apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: turn}, spec: {holderIdentity: me, leaseDurationSeconds: 9}},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: reader}, rules: [{apiGroups: [''], resources: [configmaps], verbs: [get]}]},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: readers},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader},
   subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: alice}, {kind: Group, apiGroup: rbac.authorization.k8s.io, name: staff}, {kind: ServiceAccount, name: robot, namespace: default}]},
]}",
    )?;
    ages_hidden(admin, "get sa robot", "NAME AGE\nrobot -")?;
    ages_hidden(admin, "get lease", "NAME HOLDER AGE\nturn me -")?;
    ages_hidden(
        admin,
        "get rolebinding -o wide",
        "NAME ROLE AGE USERS GROUPS SERVICEACCOUNTS\nreaders Role/reader - alice staff default/robot",
    )?;
    ages_hidden(
        admin,
        "get svc -o wide",
        "NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE SELECTOR\nkubernetes ClusterIP None <none> 443/TCP - <none>",
    )?;
    let roles = admin.ok("get role,clusterrole")?;
    ensure!(roles.starts_with("NAME") && roles.contains("CREATED AT"), "{roles}");
    let bindings = admin.ok("get clusterrolebinding cluster-admin")?;
    ensure!(
        bindings.contains("ROLE") && bindings.contains("ClusterRole/cluster-admin"),
        "{bindings}"
    );
    Ok(())
}

#[test]
fn long_lists_come_in_chunks() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    let names: Vec<String> = (0..23).map(|n| format!("configmap/item-{n:02}")).collect();
    for n in 0..23 {
        let object = json!({"metadata": {"name": format!("item-{n:02}")}});
        api.post("/api/v1/namespaces/default/configmaps", &object)?.expect(201)?;
    }
    for size in ["0", "1", "5", "23", "500"] {
        let listed = cluster.admin.ok(&format!("get cm -o name --chunk-size={size}"))?;
        ensure!(listed.lines().eq(names.iter().map(String::as_str)), "chunks of {size}: {listed}");
    }
    Ok(())
}
