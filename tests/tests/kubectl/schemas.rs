//! What kubectl reads from OpenAPI: explanations, and that the server checks fields so that it need not.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lanyard_testkit::wait_until;
use lanyard_tests::{Cluster, SOON};
use serde_json::Value;

use crate::shop;

#[test]
fn kinds_and_fields_are_explained() -> Result<()> {
    let cluster = Cluster::start()?;
    let admin = &cluster.admin;
    for (line, parts) in EXPLAINED {
        let printed = admin.ok(line)?;
        for part in *parts {
            ensure!(printed.contains(part), "`{line}` did not print `{part}`:\n{printed}");
        }
    }
    let unknown = admin.fails("explain cm.metadata.nope")?;
    ensure!(unknown.contains(r#"field "nope" does not exist"#), "{unknown}");
    Ok(())
}

/// Commands and what they print among others.
const EXPLAINED: &[(&str, &[&str])] = &[
    (
        "explain cm",
        &[
            "KIND:       ConfigMap",
            "VERSION:    v1",
            "Settings for programs",
            "data\t<map[string]string>",
        ],
    ),
    ("explain secret.data", &["FIELD: data <map[string]string>"]),
    // The form of before, which reads OpenAPI 2 in protobuf.
    ("explain secret.data --output=plaintext-openapiv2", &["FIELD:    data <map[string]string>"]),
    (
        "explain cm.metadata.ownerReferences",
        &["FIELD: ownerReferences <[]OwnerReference>", "uid\t<string> -required-"],
    ),
    ("explain role --recursive", &["rules\t<[]PolicyRule>", "    verbs\t<[]string> -required-"]),
    (
        "explain leases --api-version=coordination.k8s.io/v1 --recursive",
        &["GROUP:      coordination.k8s.io", "    renewTime\t<string>"],
    ),
    ("explain pods.spec.containers", &["FIELD: containers <[]Container>", "image\t<string>"]),
    (
        "explain deployments.spec.template.spec --recursive",
        &["    containerPort\t<integer> -required-"],
    ),
    ("explain rolebinding.roleRef.apiGroup", &["FIELD: apiGroup <string>"]),
];

#[test]
fn unknown_fields_are_the_servers_business() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: shop}, data: {a: b}, dta: {}}";
    for command in ["create --validate=strict", "create", "apply --validate=true"] {
        let refused = admin.run_with(&format!("{command} -f -"), manifest)?.failure()?;
        ensure!(refused.contains(r#"strict decoding error: unknown field "dta""#), "{refused}");
    }
    let warned = admin.run_with("create --validate=warn -f -", manifest)?;
    ensure!(warned.stderr.contains(r#"Warning: unknown field "dta""#), "{warned:?}");
    ensure!(warned.success()? == "configmap/a created\n");
    let ignored = admin.run_with("replace --validate=ignore -f -", manifest)?;
    ensure!(ignored.stderr.is_empty(), "{ignored:?}");
    ensure!(ignored.success()? == "configmap/a replaced\n");
    Ok(())
}

#[test]
fn a_custom_resource_is_published_within_a_second() -> Result<()> {
    let cluster = Cluster::start()?;
    let admin = &cluster.admin;
    let mut api = cluster.api()?;
    admin.create(SHIRTS)?;
    let page = "/openapi/v3/apis/stable.example.com/v1";
    let created = Instant::now();
    let document = wait_until("the document of the type", SOON, || {
        let answer = api.get(page)?;
        Ok((answer.code == 200).then_some(answer.body))
    })?;
    ensure!(created.elapsed() < Duration::from_secs(1), "it took {:?}", created.elapsed());
    no_loose_ends(&document, &document)?;
    let everything = api.get("/openapi/v2")?.expect(200)?;
    ensure!(everything["definitions"]["com.example.stable.v1.Shirt"].is_object());

    let explained = admin.ok("explain shirts.spec --recursive")?;
    for part in ["KIND:       Shirt", "FIELD: spec <Object>", "color\t<string>", "size\t<integer>"]
    {
        ensure!(explained.contains(part), "no `{part}`:\n{explained}");
    }
    ensure!(admin.ok("explain shirts.spec.color")?.contains("Any colour will do."));
    let shirt = "{apiVersion: stable.example.com/v1, kind: Shirt, metadata: {name: one}, spec: {colour: red}}";
    let refused = admin.cannot_create(shirt)?;
    ensure!(refused.contains(r#"strict decoding error: unknown field "spec.colour""#), "{refused}");
    admin.create(&shirt.replace("colour", "color"))?;

    admin.ok("delete crd shirts.stable.example.com")?;
    wait_until("the document to go", SOON, || Ok((api.get(page)?.code == 404).then_some(())))?;
    Ok(())
}

const SHIRTS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shirts.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: shirts, singular: shirt, kind: Shirt}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              color: {type: string, description: Any colour will do.}
              size: {type: integer, nullable: true}
";

#[test]
fn the_documents_can_be_read_raw() -> Result<()> {
    let cluster = Cluster::start()?;
    let admin = &cluster.admin;
    let index: Value = serde_json::from_str(&admin.ok("get --raw /openapi/v3")?)?;
    let paths = index["paths"].as_object().context("paths")?;
    for (name, entry) in paths {
        let url = entry["serverRelativeURL"].as_str().context("an address")?;
        let document: Value = serde_json::from_str(&admin.ok(&format!("get --raw {url}"))?)?;
        ensure!(document["openapi"] == "3.0.0", "{name}: {document}");
        no_loose_ends(&document, &document).with_context(|| name.clone())?;
    }
    let everything: Value = serde_json::from_str(&admin.ok("get --raw /openapi/v2")?)?;
    ensure!(everything["swagger"] == "2.0");
    no_loose_ends(&everything, &everything)
}

/// Every reference of a document is to something inside of it.
fn no_loose_ends(document: &Value, part: &Value) -> Result<()> {
    match part {
        Value::Object(members) => {
            if let Some(target) = members.get("$ref").and_then(Value::as_str) {
                let pointer = target.strip_prefix('#').context("a reference to elsewhere")?;
                ensure!(document.pointer(pointer).is_some(), "nothing is at {target}");
            }
            members.values().try_for_each(|inner| no_loose_ends(document, inner))
        }
        Value::Array(items) => items.iter().try_for_each(|inner| no_loose_ends(document, inner)),
        _ => Ok(()),
    }
}
