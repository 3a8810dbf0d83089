//! Custom resources against the built binary: with kubectl, over restarts and changes of their definition, on several
//! servers, and with definitions that mean harm.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lanyard_testkit::{Etcd, Lanyard, wait_until};
use lanyard_tests::{Api, Cluster, SOON, copy_pki};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/shop.example.com/v1/namespaces/default/widgets";

const MANIFEST: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example.com}
spec:
  group: shop.example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget, shortNames: [wd], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}
    additionalPrinterColumns:
    - {name: Color, type: string, jsonPath: .spec.color}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type==\"Ready\")].status'}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [size]
            properties:
              size: {type: integer, minimum: 1}
              color: {type: string, default: red, maxLength: 10}
              replicas: {type: integer}
            x-kubernetes-validations:
            - {rule: 'self.color != \"grey\"', message: grey is no color}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
";

const WIDGET: &str = "
apiVersion: shop.example.com/v1
kind: Widget
metadata: {name: a}
spec: {size: 3, replicas: 1}
";

#[test]
fn a_custom_type_is_used_like_any_other() -> Result<()> {
    let cluster = Cluster::start()?;
    let admin = &cluster.admin;
    admin.create(MANIFEST)?;
    admin.ok("wait --for=condition=Established crd/widgets.shop.example.com --timeout=5s")?;
    let started = Instant::now();
    admin.create(WIDGET)?;
    ensure!(started.elapsed() < Duration::from_secs(5), "discovery takes long");
    admin.prints("get wd --no-headers -o name", "widget.shop.example.com/a")?;
    let table = admin.ok("get widgets")?;
    ensure!(table.split_whitespace().take(3).eq(["NAME", "COLOR", "READY"]), "{table}");
    ensure!(table.contains("red"), "{table}");
    ensure!(admin.ok("get all -o name")?.contains("widget.shop.example.com/a"));
    ensure!(admin.ok("api-resources --api-group shop.example.com")?.contains("widgets"));
    let refused = admin.cannot_create(&WIDGET.replace("name: a", "name: b").replace("3", "0"))?;
    ensure!(refused.contains("should be greater than or equal to 1"), "{refused}");
    let grey = WIDGET.replace("name: a", "name: b").replace("size: 3", "size: 3, color: grey");
    let refused = admin.cannot_create(&grey)?;
    ensure!(refused.contains("grey is no color"), "{refused}");
    let odd = WIDGET.replace("name: a", "name: b").replace("size: 3", "size: 3, odd: 1");
    let refused = admin.cannot_create(&odd)?;
    ensure!(refused.contains(r#"unknown field "spec.odd""#), "{refused}");
    admin.prints("scale wd a --replicas 4", "widget.shop.example.com/a scaled")?;
    admin.ok(r#"patch wd a --type merge -p '{"spec":{"color":"blue"}}'"#)?;
    admin.ok(
        r#"patch wd a --subresource status --type merge -p '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'"#,
    )?;
    let widget = admin.json("get wd a")?;
    ensure!(widget["spec"] == json!({"size": 3, "replicas": 4, "color": "blue"}), "{widget}");
    ensure!(widget["metadata"]["generation"] == 3, "{widget}");
    ensure!(admin.ok("get wd a")?.contains("True"));
    ensure!(admin.run_with("apply --server-side --force-conflicts -f -", WIDGET)?.code == 0);
    admin.ok("delete crd widgets.shop.example.com --timeout=10s")?;
    admin.fails("get wd")?;
    Ok(())
}

/// The definition of widgets with these versions.
fn definition(versions: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.example.com"},
        "spec": {
            "group": "shop.example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": versions,
        },
    })
}

fn version(name: &str, storage: bool, properties: Value) -> Value {
    let spec = json!({"type": "object", "properties": properties});
    json!({
        "name": name, "served": true, "storage": storage,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    })
}

fn widget(version: &str, name: &str, spec: Value) -> Value {
    let metadata = json!({"name": name});
    let version = format!("shop.example.com/{version}");
    json!({"apiVersion": version, "kind": "Widget", "metadata": metadata, "spec": spec})
}

fn until_served(api: &mut Api, path: &str) -> Result<()> {
    wait_until("the type is served", SOON, || Ok((api.get(path)?.code == 200).then_some(())))
}

#[test]
fn objects_outlive_restarts_and_changes_of_their_definition() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    let text = json!({"type": "string"});
    let old = version("v1beta1", true, json!({"a": text, "b": text}));
    api.post(DEFINITIONS, &definition(json!([old])))?.expect(201)?;
    let beta = WIDGETS.replace("v1", "v1beta1");
    until_served(&mut api, &beta)?;
    api.post(&beta, &widget("v1beta1", "x", json!({"a": "1", "b": "2"})))?.expect(201)?;

    // The next version is stored from now on, does not know b, and has a default.
    let old = version("v1beta1", false, json!({"a": text, "b": text}));
    let new = version("v1", true, json!({"a": text, "c": {"type": "string", "default": "C"}}));
    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    api.merge(&path, &json!({"spec": {"versions": [old, new]}}))?.expect(200)?;
    until_served(&mut api, WIDGETS)?;
    let read = api.get(&format!("{WIDGETS}/x"))?.expect(200)?;
    ensure!(read["spec"] == json!({"a": "1", "c": "C"}), "{read}");
    ensure!(read["apiVersion"] == "shop.example.com/v1", "{read}");

    // What was stored keeps its version alive until somebody says that nothing of it is left.
    let dropped = json!({"spec": {"versions": [new]}});
    let refused = api.merge(&path, &dropped)?.expect(422)?;
    ensure!(refused["message"].as_str().unwrap_or_default().contains("storage migration"));
    let migrated = json!({"status": {"storedVersions": ["v1"]}});
    api.merge(&format!("{path}/status"), &migrated)?.expect(200)?;
    api.merge(&path, &dropped)?.expect(200)?;
    wait_until("the old version goes", SOON, || Ok((api.get(&beta)?.code == 404).then_some(())))?;
    api.get(&format!("{WIDGETS}/x"))?.expect(200)?;

    cluster.server.terminate()?;
    cluster.server.restart()?;
    let mut api = cluster.api()?;
    let read = api.get(&format!("{WIDGETS}/x"))?.expect(200)?;
    ensure!(read["spec"] == json!({"a": "1", "c": "C"}), "{read}");
    api.merge(&format!("{WIDGETS}/x"), &json!({"spec": {"a": "2"}}))?.expect(200)?;
    Ok(())
}

#[test]
fn a_watch_ends_when_its_type_changes_or_goes() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    let text = json!({"type": "string"});
    api.post(DEFINITIONS, &definition(json!([version("v1", true, json!({"a": text}))])))?;
    until_served(&mut api, WIDGETS)?;
    let watch = api.watch(WIDGETS)?;
    api.post(WIDGETS, &widget("v1", "x", json!({"a": "1", "b": "2"})))?.expect(201)?;
    ensure!(watch.next_name()? == ("ADDED".to_owned(), "x".to_owned()));
    let versions = json!([version("v1", true, json!({"a": text, "b": text}))]);
    let path = format!("{DEFINITIONS}/widgets.shop.example.com");
    api.merge(&path, &json!({"spec": {"versions": versions}}))?.expect(200)?;
    ensure!(watch.rest()?.is_empty());
    let watch = api.watch(WIDGETS)?;
    ensure!(watch.next_name()? == ("ADDED".to_owned(), "x".to_owned()));
    api.merge(&format!("{WIDGETS}/x"), &json!({"metadata": {"finalizers": ["a.io/b"]}}))?;
    api.delete(&path, None)?.expect(200)?;
    // The definition waits for its objects, and they for their finalizers.
    let stays = api.get(&path)?.expect(200)?;
    ensure!(stays["metadata"]["finalizers"][0] == "customresourcecleanup.apiextensions.k8s.io");
    wait_until("the object is being deleted", SOON, || {
        let object = api.get(&format!("{WIDGETS}/x"))?.expect(200)?;
        Ok(object["metadata"].get("deletionTimestamp").map(drop))
    })?;
    let refused = api.post(WIDGETS, &widget("v1", "y", json!({})))?.expect(403)?;
    let why = "create not allowed while custom resource definition is terminating";
    ensure!(refused["message"].as_str().unwrap_or_default().ends_with(why), "{refused}");
    api.merge(&format!("{WIDGETS}/x"), &json!({"metadata": {"finalizers": null}}))?.expect(200)?;
    wait_until("the definition goes", SOON, || Ok((api.get(&path)?.code == 404).then_some(())))?;
    api.get(WIDGETS)?;
    Ok(())
}

#[test]
fn namespaces_and_owners_take_their_custom_objects_along() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    api.post(DEFINITIONS, &definition(json!([version("v1", true, json!({}))])))?.expect(201)?;
    until_served(&mut api, WIDGETS)?;
    api.post("/api/v1/namespaces", &json!({"metadata": {"name": "going"}}))?.expect(201)?;
    let going = WIDGETS.replace("default", "going");
    api.post(&going, &widget("v1", "a", json!({})))?.expect(201)?;
    api.delete("/api/v1/namespaces/going", None)?.expect(200)?;
    wait_until("the namespace goes", SOON, || {
        Ok((api.get("/api/v1/namespaces/going")?.code == 404).then_some(()))
    })?;
    let owner = api.post(WIDGETS, &widget("v1", "owner", json!({})))?.expect(201)?;
    let mut owned = widget("v1", "owned", json!({}));
    owned["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "shop.example.com/v1", "kind": "Widget", "name": "owner",
        "uid": owner["metadata"]["uid"],
    }]);
    api.post(WIDGETS, &owned)?.expect(201)?;
    api.delete(&format!("{WIDGETS}/owner"), None)?.expect(200)?;
    wait_until("the dependent goes", SOON, || {
        Ok((api.get(&format!("{WIDGETS}/owned"))?.code == 404).then_some(()))
    })?;
    Ok(())
}

#[test]
fn every_server_of_a_store_follows_the_definitions() -> Result<()> {
    let etcd = Etcd::start(1)?;
    let dirs = tempfile::tempdir()?;
    let start = |name: &str| {
        let url = format!("etcd://{}", etcd.endpoints());
        let dir = dirs.path().join(name);
        Cluster::of(Lanyard::setup().data_dir(&dir).arg("--store").arg(url).start()?)
    };
    let a = start("a")?;
    copy_pki(&dirs.path().join("a"), &dirs.path().join("b"))?;
    let b = start("b")?;
    let (mut a, mut b) = (a.api()?, b.api()?);
    a.post(DEFINITIONS, &definition(json!([version("v1", true, json!({}))])))?.expect(201)?;
    until_served(&mut a, WIDGETS)?;
    until_served(&mut b, WIDGETS)?;
    a.post(WIDGETS, &widget("v1", "x", json!({})))?.expect(201)?;
    b.get(&format!("{WIDGETS}/x"))?.expect(200)?;
    b.delete(&format!("{DEFINITIONS}/widgets.shop.example.com"), None)?.expect(200)?;
    for api in [&mut a, &mut b] {
        wait_until("the type goes", SOON, || Ok((api.get(WIDGETS)?.code == 404).then_some(())))?;
    }
    Ok(())
}

/// Posts a definition with this schema; how long the answer took.
fn attempt(api: &mut Api, schema: Value) -> Result<(u16, Duration)> {
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let started = Instant::now();
    let path = format!("{DEFINITIONS}?dryRun=All");
    let answer = api.post(&path, &definition(json!([version]))).context("no answer")?;
    Ok((answer.code, started.elapsed()))
}

#[test]
fn schemas_that_mean_harm_are_refused_soon() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    let of = |property: Value| json!({"type": "object", "properties": {"a": property}});
    let mut deep = json!({"type": "string"});
    for _ in 0..400 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let mut nested = json!({"minLength": 1});
    for _ in 0..20 {
        nested = json!({"anyOf": [nested.clone(), {"maxLength": 3}]});
    }
    nested["type"] = "string".into();
    let wide: serde_json::Map<String, Value> =
        (0..20_000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    let patterned: serde_json::Map<String, Value> = (0..20_000)
        .map(|n| (format!("p{n}"), json!({"type": "string", "pattern": format!("^a{n}$")})))
        .collect();
    let many: Vec<String> = (0..100_000).map(|n| format!("value {n}")).collect();
    let rules = vec![json!({"rule": "self.all(x, self.all(y, self.all(z, x + y != z)))"}); 50];
    let countless = vec![json!({"rule": "true"}); 50_000];
    let bombs = [
        ("deep", deep, false),
        ("nested alternatives", of(nested), true),
        ("wide", json!({"type": "object", "properties": wide}), true),
        ("many rules", json!({"type": "object", "x-kubernetes-validations": countless}), false),
        ("many patterns", json!({"type": "object", "properties": patterned}), false),
        ("many values", of(json!({"type": "string", "enum": many})), true),
        ("a pattern", of(json!({"type": "string", "pattern": "((a{1000}){1000}){1000}"})), false),
        ("a slow pattern", of(json!({"type": "string", "pattern": "^(a+)+$"})), true),
        ("a reference to itself", of(json!({"type": "object", "$ref": "#"})), false),
        (
            "rules",
            of(
                json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-validations": rules}),
            ),
            false,
        ),
    ];
    for (name, schema, accepted) in bombs {
        let (status, took) = attempt(&mut api, schema).with_context(|| name.to_owned())?;
        ensure!((status == 201) == accepted, "{name}: {status}");
        ensure!(took < Duration::from_secs(20), "{name}: {took:?}");
    }
    // A pattern that others match in exponential time.
    let schema = of(json!({"type": "string", "pattern": "^(a+)+$"}));
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    api.post(DEFINITIONS, &definition(json!([version])))?.expect(201)?;
    until_served(&mut api, WIDGETS)?;
    let started = Instant::now();
    let mut object = widget("v1", "x", json!({}));
    object["a"] = format!("{}b", "a".repeat(100_000)).into();
    api.post(WIDGETS, &object)?.expect(422)?;
    ensure!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    Ok(())
}
