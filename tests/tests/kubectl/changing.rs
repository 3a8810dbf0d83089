//! Changing what is there: labels, patches, replacements, deletions, and dry runs of them.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::shop;

#[test]
fn labels_annotations_and_patches_change_an_object() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    admin.prints("label cm prices -n shop season=spring", "configmap/prices labeled")?;
    let refused = admin.fails("label cm prices -n shop season=autumn")?;
    ensure!(refused.contains("already has a value"), "{refused}");
    admin
        .prints("label cm prices -n shop season=autumn --overwrite", "configmap/prices labeled")?;
    admin.prints("label cm prices -n shop tier-", "configmap/prices unlabeled")?;
    admin.prints("annotate cm prices -n shop note='two words'", "configmap/prices annotated")?;
    admin.prints(
        "label cm -n shop --all checked=yes",
        "configmap/hours labeled\nconfigmap/prices labeled",
    )?;

    admin.prints(
        r#"patch cm prices -n shop --type merge -p '{"data":{"apple":null,"plum":"3"}}'"#,
        "configmap/prices patched",
    )?;
    admin.prints(
        r#"patch cm prices -n shop --type json -p '[{"op":"test","path":"/data/plum","value":"3"},{"op":"add","path":"/data/fig","value":"9"}]'"#,
        "configmap/prices patched",
    )?;
    let unchanged =
        admin.ok(r#"patch cm prices -n shop --type merge -p '{"data":{"fig":"9"}}'"#)?;
    ensure!(unchanged == "configmap/prices patched (no change)\n", "{unchanged}");
    let refused = admin.fails(r#"patch cm prices -n shop --type json -p '[{"op":"test","path":"/data/plum","value":"4"}]'"#)?;
    ensure!(
        refused.contains("the server rejected our request due to an error in our request"),
        "{refused}"
    );

    let prices = admin.json("get cm prices -n shop")?;
    ensure!(prices["data"] == json!({"pear": "2", "plum": "3", "fig": "9"}), "{prices}");
    ensure!(
        prices["metadata"]["labels"]
            == json!({"app": "till", "season": "autumn", "checked": "yes"}),
        "{prices}"
    );
    ensure!(prices["metadata"]["annotations"] == json!({"note": "two words"}), "{prices}");
    Ok(())
}

#[test]
fn a_replace_needs_the_newest_version_or_none() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    let replace = |object: &Value| admin.run_with("replace -f -", &object.to_string());
    let old = admin.json("get cm prices -n shop")?;
    let mut new = old.clone();
    new["data"] = json!({"apple": "5"});
    ensure!(replace(&new)?.success()? == "configmap/prices replaced\n");
    let refused = replace(&old)?.failure()?;
    ensure!(refused.contains("the object has been modified; please apply your changes to the latest version and try again"), "{refused}");
    new["metadata"].as_object_mut().context("metadata")?.remove("resourceVersion");
    new["data"] = json!({"apple": "6"});
    ensure!(replace(&new)?.success()? == "configmap/prices replaced\n");
    new["metadata"] = json!({"name": "nope", "namespace": "shop"});
    ensure!(replace(&new)?.failure()?.contains(r#"configmaps "nope" not found"#));
    admin.prints("get cm prices -n shop -o jsonpath={.data}", r#"{"apple":"6"}"#)
}

#[test]
fn edit_without_a_change_is_no_write() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    let version = || admin.ok("get cm prices -n shop -o jsonpath={.metadata.resourceVersion}");
    let before = version()?;
    // The fixture's editor leaves the file as it is.
    let edited = admin.run("edit cm prices -n shop")?;
    ensure!(edited.stderr.contains("Edit cancelled, no changes made."), "{edited:?}");
    ensure!(version()? == before);
    Ok(())
}

#[test]
fn objects_are_deleted_by_name_by_label_and_all() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    let before = admin.ok("get cm prices -n shop -o yaml")?;
    admin.prints(
        "delete cm prices -n shop --dry-run=server",
        r#"configmap "prices" deleted from shop namespace (server dry run)"#,
    )?;
    ensure!(admin.ok("get cm prices -n shop -o yaml")? == before, "a dry run changed the object");
    admin
        .prints("delete cm prices -n shop", r#"configmap "prices" deleted from shop namespace"#)?;
    admin.prints("delete cm prices -n shop --ignore-not-found", "")?;
    admin.prints(
        "delete secret,cm -n shop -l app=till",
        r#"secret "safe" deleted from shop namespace"#,
    )?;
    admin.prints("delete cm -n shop --all", r#"configmap "hours" deleted from shop namespace"#)?;
    admin.prints("get cm,secret -n shop", "")?;
    admin.prints("delete ns shop", r#"namespace "shop" deleted"#)?;
    ensure!(admin.fails("get ns shop")?.contains("NotFound"));
    Ok(())
}

#[test]
fn a_dry_run_writes_nothing() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    let before = admin.json("get cm -A")?;
    let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: ghost, namespace: shop}}";
    let created = admin.run_with("create --dry-run=server -f - -o json", manifest)?;
    let created: Value = serde_json::from_str(&created.success()?)?;
    ensure!(created["metadata"]["uid"].is_string(), "{created}");
    ensure!(created["metadata"]["resourceVersion"].is_null(), "{created}");
    admin.prints(
        "label cm prices -n shop a=b --dry-run=server",
        "configmap/prices labeled (server dry run)",
    )?;
    admin.prints(
        r#"patch cm prices -n shop --type merge -p '{"data":{"a":"b"}}' --dry-run=server"#,
        "configmap/prices patched",
    )?;
    let after = admin.json("get cm -A")?;
    ensure!(before["items"] == after["items"], "{before}\n{after}");
    Ok(())
}
