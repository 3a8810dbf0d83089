//! Configurations, patches and sets of owned fields that are cheap to send and dear to handle.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::wire::Session;
use crate::{Findings, Target};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dear_to_merge_is_answered_soon() -> Result<()> {
    let mut target = Target::start().await?;
    let session = Session::open(&target.admin).await?;
    let finalizers = |n: usize| -> Value {
        // Neither in order nor in its reverse.
        (0..n).map(|i| format!("example.com/{}", (i * 7919) % n)).collect::<Vec<_>>().into()
    };
    let victim = json!({"metadata": {"name": "victim", "finalizers": finalizers(10_000)}});
    let answer =
        session.request("POST", CONFIG_MAPS, JSON, victim.to_string().into_bytes()).await?;
    anyhow::ensure!(answer.code == 201, "{answer:?}");
    target.before = crate::objects_of(&target.admin).await?;
    target.allowed_growth = 600;
    let place = format!("{CONFIG_MAPS}/victim?fieldManager=m&dryRun=All");
    let before = session.request("GET", &format!("{CONFIG_MAPS}/victim"), JSON, Vec::new()).await?;

    let config = |meta: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta});
        object["metadata"]["name"] = "victim".into();
        object
    };
    let owner =
        |i: usize| json!({"apiVersion": "v1", "kind": "K", "name": "a", "uid": i.to_string()});
    let owners = |n: usize| -> Value { (0..n).map(owner).collect::<Vec<_>>().into() };
    let values = |n: usize| -> Value {
        (0..n).map(|i| (format!("v:{}", (i * 7919) % n), json!({}))).collect::<Map<_, _>>().into()
    };
    let entry = |name: String, fields: Value| {
        json!({
            "manager": name, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": fields,
        })
    };
    let entries = |n: usize| -> Value {
        (0..n).map(|i| entry(format!("m{i}"), json!({"f:data": {}}))).collect::<Vec<_>>().into()
    };
    let nested = (0..100).fold(json!({}), |below, _| json!({"f:a": below}));
    let managed = |entries: Value| json!({"metadata": {"managedFields": entries}});
    let mut findings = Findings::default();
    for (what, media, body, codes) in [
        ("20,000 items", APPLY, config(json!({"finalizers": finalizers(20_000)})), [200, 413]),
        (
            "20,000 equal items",
            APPLY,
            config(json!({"finalizers": vec!["x/y"; 20_000]})),
            [500, 500],
        ),
        ("8,000 owners", APPLY, config(json!({"ownerReferences": owners(8_000)})), [200, 413]),
        (
            "8,000 equal owners",
            APPLY,
            config(json!({"ownerReferences": vec![owner(1); 8_000]})),
            [500, 500],
        ),
        ("fields of no type", APPLY, config(json!({"labels": vec![0; 200_000]})), [500, 500]),
        (
            "20,000 items in order",
            STRATEGIC,
            json!({"metadata": {
            "$setElementOrder/finalizers": finalizers(20_000), "finalizers": finalizers(20_000)}}),
            [200, 413],
        ),
        (
            "20,000 items away",
            STRATEGIC,
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": finalizers(20_000)}}),
            [200, 200],
        ),
        (
            "8,000 owners patched",
            STRATEGIC,
            json!({"metadata": {"ownerReferences": owners(8_000)}}),
            [200, 413],
        ),
        ("10,000 managers", MERGE_PATCH, managed(entries(10_000)), [200, 413]),
        (
            "20,000 values",
            MERGE_PATCH,
            managed(json!([entry("m".into(), json!({"f:a": values(20_000)}))])),
            [200, 200],
        ),
        ("deep fields", MERGE_PATCH, managed(json!([entry("m".into(), nested)])), [200, 400]),
    ] {
        let started = Instant::now();
        let answer = session.request("PATCH", &place, media, body.to_string().into_bytes()).await;
        findings.expect_code(what, answer, &codes);
        findings.expect_soon(what, started);
    }
    let after = session.request("GET", &format!("{CONFIG_MAPS}/victim"), JSON, Vec::new()).await?;
    anyhow::ensure!(after.body == before.body, "something was written");
    findings.none()?;
    target.survived().await
}
