//! `kubectl apply`, on the client and on the server, and the way from the one to the other.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::shop;
use lanyard_tests::User;

/// A ConfigMap to apply.
fn menu(data: &Value) -> String {
    let meta = json!({"name": "menu", "namespace": "shop"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}).to_string()
}

fn apply(user: &User, options: &str, data: &Value) -> Result<lanyard_testkit::Output> {
    user.run_with(&format!("apply {options} -f -"), &menu(data))
}

fn data(user: &User) -> Result<Value> {
    Ok(user.json("get cm menu -n shop")?["data"].clone())
}

/// The managers of the ConfigMap, each with how it came by its fields.
fn managers(user: &User) -> Result<Vec<String>> {
    let menu = user.json("get cm menu -n shop --show-managed-fields")?;
    let entries = menu["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    Ok(entries.iter().map(|e| format!("{} {}", text(e, "operation"), text(e, "manager"))).collect())
}

#[test]
fn client_side_apply_merges_three_ways() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    let created = apply(admin, "", &json!({"soup": "3", "tart": "4"}))?.success()?;
    ensure!(created == "configmap/menu created\n", "{created}");
    ensure!(apply(admin, "", &json!({"soup": "3", "tart": "4"}))?.success()?.contains("unchanged"));
    admin.ok(r#"patch cm menu -n shop -p '{"data":{"wine":"9"}}'"#)?;
    ensure!(apply(admin, "", &json!({"soup": "5"}))?.success()?.contains("configured"));
    ensure!(data(admin)? == json!({"soup": "5", "wine": "9"}), "{}", data(admin)?);
    ensure!(
        managers(admin)? == ["Update kubectl-client-side-apply", "Update kubectl-patch"]
            || managers(admin)? == ["Update kubectl-patch", "Update kubectl-client-side-apply"],
        "{:?}",
        managers(admin)?
    );
    Ok(())
}

#[test]
fn server_side_apply_keeps_managers_apart() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    let ours = "--server-side --field-manager ours";
    let theirs = "--server-side --field-manager theirs";
    let created = apply(admin, ours, &json!({"soup": "3", "tart": "4"}))?.success()?;
    ensure!(created == "configmap/menu serverside-applied\n", "{created}");
    apply(admin, theirs, &json!({"wine": "9"}))?.success()?;
    let refused = apply(admin, theirs, &json!({"soup": "4", "wine": "9"}))?.failure()?;
    ensure!(
        refused.contains("Apply failed with 1 conflict: conflict with \"ours\": .data.soup"),
        "{refused}"
    );
    let version = || admin.ok("get cm menu -n shop -o jsonpath={.metadata.resourceVersion}");
    let before = version()?;
    apply(admin, ours, &json!({"soup": "3", "tart": "4"}))?.success()?;
    ensure!(version()? == before, "an apply of nothing was a write");
    apply(admin, &format!("{theirs} --force-conflicts"), &json!({"soup": "4", "wine": "9"}))?
        .success()?;
    apply(admin, ours, &json!({"tart": "4"}))?.success()?;
    ensure!(data(admin)? == json!({"soup": "4", "tart": "4", "wine": "9"}), "{}", data(admin)?);
    apply(admin, theirs, &json!({}))?.success()?;
    ensure!(data(admin)? == json!({"tart": "4"}), "{}", data(admin)?);
    let planned =
        apply(admin, &format!("{ours} --dry-run=server"), &json!({"x": "1"}))?.success()?;
    ensure!(planned == "configmap/menu serverside-applied (server dry run)\n", "{planned}");
    ensure!(data(admin)? == json!({"tart": "4"}), "a dry run was written");
    Ok(())
}

#[test]
fn an_object_moves_from_the_client_to_the_server() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    apply(admin, "", &json!({"soup": "3", "tart": "4"}))?.success()?;
    // What kubectl itself applied from the client is no conflict, and goes when it is no longer said.
    apply(admin, "--server-side", &json!({"soup": "5"}))?.success()?;
    ensure!(data(admin)? == json!({"soup": "5"}), "{}", data(admin)?);
    let last = "get cm menu -n shop -o jsonpath={.metadata.annotations}";
    ensure!(admin.ok(last)?.contains(r#"\"soup\":\"5\""#), "{}", admin.ok(last)?);
    ensure!(managers(admin)?.contains(&"Apply kubectl".to_owned()), "{:?}", managers(admin)?);
    apply(admin, "--server-side", &json!({"soup": "6"}))?.success()?;
    ensure!(data(admin)? == json!({"soup": "6"}));
    // And back again.
    apply(admin, "", &json!({"soup": "7"}))?.success()?;
    ensure!(data(admin)? == json!({"soup": "7"}));
    Ok(())
}

#[test]
fn diff_shows_what_an_apply_would_do() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    apply(admin, "", &json!({"soup": "3"}))?.success()?;
    ensure!(admin.run_with("diff -f -", &menu(&json!({"soup": "3"})))?.success()?.is_empty());
    for line in ["diff -f -", "diff --server-side --force-conflicts -f -"] {
        let shown = admin.run_with(line, &menu(&json!({"soup": "4"})))?;
        ensure!(
            shown.stdout.contains("-  soup: \"3\"") && shown.stdout.contains("+  soup: \"4\""),
            "`{line}`: {shown:?}"
        );
    }
    ensure!(data(admin)? == json!({"soup": "3"}));
    Ok(())
}
