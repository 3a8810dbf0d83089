//! Commands that make objects without a manifest. They send protobuf, whatever they print.

use anyhow::{Result, ensure};
use serde_json::json;

use crate::shop;

#[test]
fn objects_are_made_by_command() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    for (line, printed) in [
        ("create ns town", "namespace/town created"),
        ("create cm till -n town --from-literal=apple=1", "configmap/till created"),
        ("create secret generic safe -n town --from-literal=code=1234", "secret/safe created"),
        ("create sa clerk -n town", "serviceaccount/clerk created"),
        (
            "create role reader -n town --verb=get,list --resource=configmaps",
            "role.rbac.authorization.k8s.io/reader created",
        ),
        (
            "create rolebinding readers -n town --role=reader --serviceaccount=town:clerk",
            "rolebinding.rbac.authorization.k8s.io/readers created",
        ),
        (
            "create clusterrole looker --verb=get --resource=namespaces",
            "clusterrole.rbac.authorization.k8s.io/looker created",
        ),
        (
            "create clusterrolebinding lookers --clusterrole=looker --user=anna",
            "clusterrolebinding.rbac.authorization.k8s.io/lookers created",
        ),
    ] {
        admin.prints(line, printed)?;
    }
    ensure!(admin.json("get cm till -n town")?["data"] == json!({"apple": "1"}));
    ensure!(admin.json("get secret safe -n town")?["data"] == json!({"code": "MTIzNA=="}));
    let rules = admin.json("get role reader -n town")?["rules"].clone();
    ensure!(rules[0]["verbs"] == json!(["get", "list"]), "{rules}");
    let again = admin.fails("create ns town")?;
    ensure!(again.contains("namespaces \"town\" already exists"), "{again}");
    let invalid = admin.fails("create ns Town")?;
    ensure!(invalid.contains("metadata.name: Invalid value: \"Town\""), "{invalid}");
    let dry = admin.ok("create cm dry -n town --dry-run=server")?;
    ensure!(dry == "configmap/dry created (server dry run)\n", "{dry}");
    ensure!(admin.fails("get cm dry -n town")?.contains("not found"));
    Ok(())
}

#[test]
fn people_ask_who_they_are_and_what_they_may() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    let me = admin.ok("auth whoami")?;
    ensure!(me.contains("system:masters"), "{me}");
    admin.prints("auth can-i create configmaps -n shop", "yes")?;
    let anna = cluster.user("anna", &[])?;
    let answer = anna.run("auth can-i create configmaps -n shop")?;
    ensure!(answer.stdout.starts_with("no"), "{}", answer.stdout);
    let list = admin.ok("auth can-i --list")?;
    ensure!(list.contains("*.*"), "{list}");
    admin.ok("create sa clerk -n shop")?;
    admin.ok("create rolebinding clerks -n shop --clusterrole=view --serviceaccount=shop:clerk")?;
    let token = admin.ok("create token clerk -n shop --duration=10m")?;
    let clerk = cluster.token_user("clerk", token.trim())?;
    clerk.prints("auth can-i list configmaps -n shop", "yes")?;
    ensure!(clerk.ok("get cm -n shop")?.contains("prices"));
    Ok(())
}
