//! OpenAPI documents of both servers, compared as far as both serve the same resources.
//!
//! Descriptions are in our own words and do not count. Of theirs, paths of resources that we do not serve
//! and models that nothing of ours refers to are left out.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use crate::Servers;
use crate::client::Client;
use crate::compare::{self, Difference};
use crate::script::Request;

/// The name under which [`crate::deviations`] has what differs.
pub(crate) const NAME: &str = "openapi";

/// Upstream is not in a hurry.
const PUBLISHED_WITHIN: Duration = Duration::from_secs(60);

/// Every document of ours with its differences from theirs.
pub(crate) async fn differences(servers: &Servers) -> Result<Vec<(String, Vec<Difference>)>> {
    for client in [&servers.theirs, &servers.ours] {
        define(client).await?;
    }
    let index = document(&servers.ours, "/openapi/v3").await?.context("no index")?;
    let names = index["paths"].as_object().context("an index without paths")?.keys();
    let mut paths: Vec<String> = names.map(|name| format!("/openapi/v3/{name}")).collect();
    paths.push("/openapi/v2".to_owned());
    let mut found = Vec::new();
    for path in paths {
        let asked = tokio::join!(document(&servers.theirs, &path), document(&servers.ours, &path));
        let ours = asked.1?.with_context(|| format!("{path} is in our index only"))?;
        let theirs = asked.0?.unwrap_or_else(|| json!({}));
        found.push((path, compared(theirs, ours)));
    }
    Ok(found)
}

/// Makes the custom resources whose documents are compared, and waits until they are published.
async fn define(client: &Client) -> Result<()> {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for definition in definitions() {
        let mut post = get(path);
        post.method = "POST".into();
        post.headers.push(("Content-Type".into(), "application/json".into()));
        post.body = definition.to_string();
        let answer = client.send(&post).await?;
        ensure!(answer.status == 201, "{}", String::from_utf8_lossy(&answer.body));
    }
    let deadline = tokio::time::Instant::now() + PUBLISHED_WITHIN;
    loop {
        let page = document(client, "/openapi/v3/apis/openapi.example.com/v1").await?;
        let everything = document(client, "/openapi/v2").await?;
        let found = |model: &str| {
            let name = format!("com.example.openapi.v1.{model}");
            let here = page.iter().any(|page| page["components"]["schemas"][&name].is_object());
            here && everything.iter().any(|all| all["definitions"][&name].is_object())
        };
        if found("Shirt") && found("Hat") {
            return Ok(());
        }
        ensure!(tokio::time::Instant::now() < deadline, "the custom resources are not published");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// One with everything that a schema can say, one that says nothing.
fn definitions() -> [Value; 2] {
    let spec = json!({"type": "object", "properties": {
        "color": {"type": "string", "default": "red", "nullable": true, "pattern": "^[a-z]+$"},
        "replicas": {"type": "integer", "format": "int32", "minimum": 0},
        "port": {"x-kubernetes-int-or-string": true},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
        "one": {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        "open": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"q": {"type": "string"}},
        },
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        },
        "list": {"type": "array", "nullable": true, "items": {"type": "object", "properties": {
            "x": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'x'"}]},
        }}},
    }, "required": ["color", "replicas"]});
    let status = json!({"type": "object", "properties": {"replicas": {"type": "integer"}}});
    let full = json!({
        "name": "v1",
        "served": true,
        "storage": true,
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "description": "A shirt.",
            "required": ["spec"],
            "properties": {"spec": spec, "status": status},
        }},
    });
    let empty = json!({"name": "v1", "served": true, "storage": true, "schema": {
        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }});
    let definition = |plural: &str, singular: &str, kind: &str, scope: &str, version: Value| {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.openapi.example.com")},
            "spec": {
                "group": "openapi.example.com",
                "scope": scope,
                "names": {"plural": plural, "singular": singular, "kind": kind},
                "versions": [version],
            },
        })
    };
    [
        definition("shirts", "shirt", "Shirt", "Namespaced", full),
        definition("hats", "hat", "Hat", "Cluster", empty),
    ]
}

fn compared(mut theirs: Value, mut ours: Value) -> Vec<Difference> {
    for side in [&mut theirs, &mut ours] {
        let shared = side["parameters"].take();
        simplify(side, &shared);
        if let Some(document) = side.as_object_mut() {
            document.remove("parameters");
        }
    }
    let served: Vec<String> = members(&ours["paths"]).map(|(path, _)| resource(path)).collect();
    if let Some(paths) = theirs.get_mut("paths").and_then(Value::as_object_mut) {
        paths.retain(|path, _| served.contains(&resource(path)));
    }
    for models in ["/components/schemas", "/definitions"] {
        let known = ours.pointer(models).and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(models) = theirs.pointer_mut(models).and_then(Value::as_object_mut) {
            models.retain(|name, _| known.contains_key(name));
        }
    }
    compare::differences(theirs, ours, false)
}

/// The part of a path that names the resource, with what comes before it.
fn resource(path: &str) -> String {
    let path = path.replace("/watch/", "/").replace("/namespaces/{namespace}/", "/");
    let parts = if path.starts_with("/api/") { 4 } else { 5 };
    path.split('/').take(parts).collect::<Vec<_>>().join("/")
}

/// Takes away what may differ: descriptions, the order of names, and the two ways to write a reference.
fn simplify(value: &mut Value, shared: &Value) {
    match value {
        Value::Object(members) => {
            if let Some(whole) = shared_parameter(members, shared) {
                *value = whole;
                return simplify(value, &Value::Null);
            }
            members.retain(|name, inner| name != "description" || !inner.is_string());
            let lone = members.get("allOf").and_then(Value::as_array).filter(|all| all.len() == 1);
            if let Some(target) = lone.and_then(|all| all[0].get("$ref")).cloned() {
                members.remove("allOf");
                members.insert("$ref".into(), target);
            }
            for (name, inner) in members {
                if name == "required" || name == "enum" {
                    sort(inner);
                }
                simplify(inner, shared);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| simplify(item, shared)),
        _ => {}
    }
}

/// What a reference to a parameter stands for.
fn shared_parameter(members: &Map<String, Value>, shared: &Value) -> Option<Value> {
    let name = members.get("$ref")?.as_str()?.strip_prefix("#/parameters/")?;
    shared.get(name).cloned()
}

fn sort(names: &mut Value) {
    if let Some(names) = names.as_array_mut() {
        names.sort_by_key(Value::to_string);
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// A document, or nothing where there is none.
async fn document(client: &Client, path: &str) -> Result<Option<Value>> {
    let response = client.send(&get(path)).await?;
    if response.status == 404 {
        return Ok(None);
    }
    ensure!(response.status == 200, "{path} got {}", response.status);
    Ok(Some(serde_json::from_slice(&response.body).with_context(|| path.to_owned())?))
}

fn get(path: &str) -> Request {
    Request {
        anonymous: false,
        method: "GET".into(),
        path: path.into(),
        headers: Vec::new(),
        body: String::new(),
    }
}
