//! Objects and patches that are well-formed but wrong, or cheap to send and dear to handle.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::wire::{Peer, Session};
use crate::{Findings, Target};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const AUTHN: &str = "/apis/authentication.k8s.io/v1";
const AUTHZ: &str = "/apis/authorization.k8s.io/v1";
const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";

#[tokio::test(flavor = "multi_thread")]
async fn wrong_types_anywhere_are_refused_or_dropped() -> Result<()> {
    let target = Target::start().await?;
    let session = Session::open(&target.admin).await?;
    // Fewer at once than the server takes, or it would turn some away.
    let permits = Arc::new(Semaphore::new(50));
    let mut requests = tokio::task::JoinSet::new();
    for (place, sample) in samples() {
        for pointer in pointers(&sample) {
            let wrong =
                wrong_values().map(|value| (value.clone(), replaced(&sample, &pointer, value)));
            let (session, permits) = (session.clone(), permits.clone());
            let wrong: Vec<_> = wrong.collect();
            requests.spawn(async move {
                let _permit = permits.acquire().await;
                let mut findings = Findings::default();
                let target = format!("{place}?dryRun=All");
                for (value, object) in wrong {
                    let what = format!("{place} with {} at {pointer}", short(&value));
                    let body = object.to_string().into_bytes();
                    let answer = session.request("POST", &target, JSON, body).await;
                    findings.expect_code(&what, answer, &[200, 201, 400, 403, 404, 409, 422]);
                }
                findings
            });
        }
    }
    let mut findings = Findings::default();
    while let Some(found) = requests.join_next().await {
        findings.0.extend(found?.0);
    }
    findings.none()?;
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_are_dear_to_check_are_answered_soon() -> Result<()> {
    let target = Target::start().await?;
    let session = Session::open(&target.admin).await?;
    let named = |n: usize, name: &dyn Fn(usize) -> String, value: &str| -> Value {
        (0..n).map(|i| (name(i), value.into())).collect::<Map<_, _>>().into()
    };
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b", "controller": true});
    let with = |field: &str, value: Value| json!({"metadata": {"name": "dear", field: value}});
    let text = |n: usize| "x".repeat(n);
    let strings =
        |n: usize| -> Value { (0..n).map(|i| format!("s{i}")).collect::<Vec<_>>().into() };
    let rule = json!({"apiGroups": strings(70_000), "resources": strings(70_000), "verbs": strings(70_000)});
    let cases = [
        (
            "200,000 bad labels",
            CONFIG_MAPS,
            with("labels", named(200_000, &|i| format!("!{i}"), "")),
            422,
        ),
        ("a label of 1 MiB", CONFIG_MAPS, with("labels", json!({"a": text(1 << 20)})), 422),
        ("a label key of 1 MiB", CONFIG_MAPS, with("labels", json!({text(1 << 20): "a"})), 422),
        ("a name of 1 MiB", CONFIG_MAPS, json!({"metadata": {"name": text(1 << 20)}}), 422),
        (
            "a name of quotes",
            CONFIG_MAPS,
            json!({"metadata": {"name": "\"\u{1}".repeat(300_000)}}),
            422,
        ),
        (
            "a prefix of 1 MiB",
            CONFIG_MAPS,
            json!({"metadata": {"generateName": text(1 << 20)}}),
            422,
        ),
        (
            "annotations of 2 MiB",
            CONFIG_MAPS,
            with("annotations", json!({"a": text(2 << 20)})),
            422,
        ),
        (
            "30,000 controllers",
            CONFIG_MAPS,
            with("ownerReferences", vec![owner; 30_000].into()),
            422,
        ),
        (
            "50,000 empty owners",
            CONFIG_MAPS,
            with("ownerReferences", vec![json!({}); 50_000].into()),
            422,
        ),
        (
            // Each of them would take hundreds of bytes of memory.
            "1,000,000 empty owners",
            CONFIG_MAPS,
            with("ownerReferences", vec![json!({}); 1_000_000].into()),
            400,
        ),
        ("200,000 bad finalizers", CONFIG_MAPS, with("finalizers", strings(200_000)), 422),
        (
            "200,000 bad keys",
            CONFIG_MAPS,
            json!({"metadata": {"name": "dear"}, "data": named(200_000, &|i| format!("/{i}"), "")}),
            422,
        ),
        (
            "50,000 empty rules",
            &format!("{RBAC}/clusterroles"),
            json!({"metadata": {"name": "dear"}, "rules": vec![json!({}); 50_000]}),
            422,
        ),
        (
            "50,000 empty subjects",
            &format!("{RBAC}/clusterrolebindings"),
            json!({"metadata": {"name": "dear"}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "subjects": vec![json!({}); 50_000]}),
            422,
        ),
        (
            "a role too large to store",
            &format!("{RBAC}/clusterroles"),
            json!({"metadata": {"name": "dear"}, "rules": [rule.clone()]}),
            413,
        ),
        (
            "50,000 managers",
            CONFIG_MAPS,
            json!({"metadata": {"name": "Dear", "managedFields": vec![json!({}); 50_000]}}),
            422,
        ),
        ("200,000 unknown fields", CONFIG_MAPS, named(200_000, &|i| format!("u{i}"), ""), 422),
        (
            "audiences",
            &format!("{AUTHN}/tokenreviews"),
            json!({"spec": {"token": "x.y.z", "audiences": strings(200_000)}}),
            201,
        ),
        (
            "a token of 2 MiB",
            &format!("{AUTHN}/tokenreviews"),
            json!({"spec": {"token": text(2 << 20)}}),
            201,
        ),
        (
            "200,000 groups",
            &format!("{AUTHZ}/subjectaccessreviews"),
            json!({"spec": {"groups": strings(200_000), "nonResourceAttributes": {"path": "/", "verb": "get"}}}),
            201,
        ),
    ];
    let mut findings = Findings::default();
    for (what, place, object, code) in cases {
        let started = Instant::now();
        let answer = session.request("POST", place, JSON, object.to_string().into_bytes()).await;
        findings.expect_code(what, answer, &[code]);
        findings.expect_soon(what, started);
    }
    findings.none()?;
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn roles_of_a_user_who_may_grant_little_are_checked_soon() -> Result<()> {
    let mut target = Target::start().await?;
    let granter = user_with(&target.admin, "granter", json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["create"]},
    ])).await?;
    target.before = crate::objects_of(&target.admin).await?;
    let session = Session::open(&granter).await?;
    let strings = |n: usize| -> Vec<String> { (0..n).map(|i| format!("s{i}")).collect() };
    let mut findings = Findings::default();
    for (what, rules) in [
        (
            "a large box",
            json!([{"apiGroups": strings(9_000), "resources": strings(9_000), "verbs": strings(9_000)}]),
        ),
        (
            "many rules",
            json!(vec![
                json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]});
                20_000
            ]),
        ),
        (
            "many paths",
            json!([{"nonResourceURLs": strings(30_000).iter().map(|s| format!("/{s}")).collect::<Vec<_>>(), "verbs": strings(9_000)}]),
        ),
    ] {
        let started = Instant::now();
        let role = json!({"metadata": {"name": "dear"}, "rules": rules}).to_string().into_bytes();
        let place = format!("{RBAC}/clusterroles");
        let answer = session.request("POST", &place, JSON, role).await;
        // Let in, and refused for what the role would grant.
        let refused = answer.as_ref().is_ok_and(|a| a.json()["details"]["name"] == "dear");
        anyhow::ensure!(refused, "{what}: {answer:?}");
        findings.expect(what, answer, 403, "Forbidden");
        findings.expect_soon(what, started);
    }
    findings.none()?;
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_patches_change_nothing() -> Result<()> {
    let mut target = Target::start().await?;
    let session = Session::open(&target.admin).await?;
    let victim = json!({"metadata": {"name": "victim"}, "data": {"a": "x".repeat(1000)}});
    let answer =
        session.request("POST", CONFIG_MAPS, JSON, victim.to_string().into_bytes()).await?;
    anyhow::ensure!(answer.code == 201, "{answer:?}");
    target.before = crate::objects_of(&target.admin).await?;
    let place = format!("{CONFIG_MAPS}/victim");
    let before = session.request("GET", &place, JSON, Vec::new()).await?.body;
    let copy = json!({"op": "copy", "from": "/x", "path": "/x/-"});
    let deeper =
        |i: usize| json!({"op": "add", "path": format!("/x{}", "/y".repeat(i)), "value": {}});
    let insert = json!({"op": "add", "path": "/x/0", "value": 0});
    let long = |n: usize| json!({"op": "add", "path": "/x", "value": vec![0; n]});
    let nested = format!("{{\"a\":{}1{}}}", "{\"a\":".repeat(150), "}".repeat(150));
    let mut findings = Findings::default();
    for (what, media, patch, code) in [
        (
            "10,001 operations",
            JSON_PATCH,
            json!(vec![json!({"op": "test", "path": "", "value": 1}); 10_001]),
            413,
        ),
        ("copy bomb", JSON_PATCH, [vec![long(1)], vec![copy; 60]].concat().into(), 422),
        ("deep", JSON_PATCH, (0..1_500).map(deeper).collect(), 422),
        ("shifting", JSON_PATCH, [vec![long(1_000_000)], vec![insert; 5_000]].concat().into(), 422),
        ("no list", JSON_PATCH, json!({"op": "add"}), 400),
        ("no operation", JSON_PATCH, json!([{}]), 422),
        ("unknown operation", JSON_PATCH, json!([{"op": "explode", "path": "/"}]), 422),
        ("no pointer", JSON_PATCH, json!([{"op": "remove", "path": "x"}]), 422),
        ("all gone", JSON_PATCH, json!([{"op": "remove", "path": ""}]), 422),
        ("a list instead", JSON_PATCH, json!([{"op": "replace", "path": "", "value": []}]), 422),
        ("null instead", JSON_PATCH, json!([{"op": "replace", "path": "", "value": null}]), 400),
        (
            "another kind",
            JSON_PATCH,
            json!([{"op": "replace", "path": "/kind", "value": "Secret"}]),
            422,
        ),
        ("another name", MERGE_PATCH, json!({"metadata": {"name": "other"}}), 400),
        ("a name with a slash", MERGE_PATCH, json!({"metadata": {"name": "../../secrets/x"}}), 400),
        ("another namespace", MERGE_PATCH, json!({"metadata": {"namespace": "kube-system"}}), 400),
        ("another uid", MERGE_PATCH, json!({"metadata": {"uid": "x"}}), 422),
        ("a list", MERGE_PATCH, json!([]), 400),
        ("a number", MERGE_PATCH, json!(1), 400),
        ("metadata as a list", MERGE_PATCH, json!({"metadata": []}), 422),
        ("data as a string", MERGE_PATCH, json!({"data": "x"}), 422),
        (
            "a version of the future",
            MERGE_PATCH,
            json!({"metadata": {"resourceVersion": "18446744073709551615"}}),
            409,
        ),
        ("no version", MERGE_PATCH, json!({"metadata": {"resourceVersion": "-1"}}), 400),
    ] {
        let started = Instant::now();
        let answer = session.request("PATCH", &place, media, patch.to_string().into_bytes()).await;
        findings.expect_code(what, answer, &[code]);
        findings.expect_soon(what, started);
    }
    let answer = session.request("PATCH", &place, MERGE_PATCH, nested.into_bytes()).await;
    findings.expect_code("nested", answer, &[400]);
    findings.none()?;
    let after = session.request("GET", &place, JSON, Vec::new()).await?.body;
    anyhow::ensure!(before == after, "changed to {}", String::from_utf8_lossy(&after));
    target.survived().await
}

/// A user with a token and these rules in the whole cluster.
pub(crate) async fn user_with(admin: &Peer, name: &str, rules: Value) -> Result<Peer> {
    let session = Session::open(admin).await?;
    let group = "rbac.authorization.k8s.io";
    let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": "default"});
    let role = json!({"apiGroup": group, "kind": "ClusterRole", "name": name});
    let metadata = json!({"name": name});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    for (place, object) in [
        (accounts.to_owned(), json!({"metadata": metadata})),
        (format!("{RBAC}/clusterroles"), json!({"metadata": metadata, "rules": rules})),
        (
            format!("{RBAC}/clusterrolebindings"),
            json!({"metadata": metadata, "roleRef": role, "subjects": [subject]}),
        ),
    ] {
        let answer = session.request("POST", &place, JSON, object.to_string().into_bytes()).await?;
        anyhow::ensure!(answer.code == 201, "{place}: {answer:?}");
    }
    let place = format!("{accounts}/{name}/token");
    let answer = session.request("POST", &place, JSON, b"{}".to_vec()).await?;
    let answer = answer.json();
    Ok(admin.with_token(answer["status"]["token"].as_str().unwrap_or_default()))
}

/// One object of each kind that clients send, with as many fields as it can have.
fn samples() -> Vec<(&'static str, Value)> {
    let meta = json!({
        "name": "sample", "generateName": "s-", "namespace": "default", "labels": {"a": "b"}, "annotations": {"a": "b"},
        "finalizers": ["a/b"], "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": "b", "controller": true, "blockOwnerDeletion": true}],
        "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 1, "uid": "u",
        "managedFields": [{"manager": "m", "operation": "Update", "fieldsV1": {"f:a": {}}, "time": "2026-01-01T00:00:00Z"}],
    });
    let cluster = {
        let mut meta = meta.clone();
        meta.as_object_mut().unwrap().remove("namespace");
        meta
    };
    let with = |meta: &Value, mut fields: Value| {
        fields["metadata"] = meta.clone();
        fields
    };
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"], "verbs": ["get"]}]);
    let role_ref =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
    let subjects = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "a"}]);
    let time = "2026-01-01T00:00:00.000000Z";
    let reference = json!({"kind": "ConfigMap", "name": "a", "namespace": "default", "uid": "u", "fieldPath": "f"});
    let attributes = json!({"namespace": "default", "verb": "get", "group": "", "version": "v1", "resource": "pods", "subresource": "s", "name": "n"});
    vec![
        (
            "/api/v1/namespaces",
            with(
                &cluster,
                json!({"kind": "Namespace", "apiVersion": "v1", "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}),
            ),
        ),
        (
            CONFIG_MAPS,
            with(
                &meta,
                json!({"kind": "ConfigMap", "apiVersion": "v1", "immutable": true, "data": {"a": "b"}, "binaryData": {"c": "AAA="}}),
            ),
        ),
        (
            "/api/v1/namespaces/default/secrets",
            with(
                &meta,
                json!({"type": "Opaque", "immutable": false, "data": {"a": "AAA="}, "stringData": {"b": "c"}}),
            ),
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts",
            with(
                &meta,
                json!({"secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "b"}], "automountServiceAccountToken": true}),
            ),
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts/default/token",
            json!({"spec": {"audiences": ["a"], "expirationSeconds": 600, "boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "n", "uid": "u"}}}),
        ),
        (
            "/api/v1/namespaces/default/events",
            with(
                &meta,
                json!({"involvedObject": reference, "reason": "r", "message": "m", "source": {"component": "c", "host": "h"}, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1, "type": "Normal"}),
            ),
        ),
        (
            "/apis/events.k8s.io/v1/namespaces/default/events",
            with(
                &meta,
                json!({"regarding": reference, "reason": "r", "note": "m", "eventTime": time, "reportingController": "c/d", "reportingInstance": "i", "action": "a", "type": "Normal", "series": {"count": 2, "lastObservedTime": time}}),
            ),
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            with(
                &meta,
                json!({"spec": {"holderIdentity": "h", "leaseDurationSeconds": 10, "acquireTime": time, "renewTime": time, "leaseTransitions": 1}}),
            ),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
            with(&meta, json!({"rules": rules})),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            with(
                &cluster,
                json!({"rules": rules, "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]}]}}),
            ),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
            with(&meta, json!({"roleRef": role_ref, "subjects": subjects})),
        ),
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
            with(&cluster, json!({"roleRef": role_ref, "subjects": subjects})),
        ),
        (
            "/apis/authentication.k8s.io/v1/tokenreviews",
            json!({"metadata": {}, "spec": {"token": "t", "audiences": ["a"]}}),
        ),
        (
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            json!({"metadata": {}, "status": {}}),
        ),
        (
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            json!({"metadata": {}, "spec": {"resourceAttributes": attributes, "user": "u", "groups": ["g"], "uid": "i", "extra": {"a": ["b"]}}}),
        ),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            json!({"metadata": {}, "spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}),
        ),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews",
            json!({"metadata": {}, "spec": {"namespace": "default"}}),
        ),
        (
            "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews",
            json!({"metadata": {"namespace": "default"}, "spec": {"resourceAttributes": attributes, "user": "u"}}),
        ),
    ]
}

/// The places of all values in a tree, the whole of it included.
fn pointers(value: &Value) -> Vec<String> {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(k, v)| (k.replace('/', "~1"), v)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect(),
        _ => Vec::new(),
    };
    let below = inner.into_iter().flat_map(|(key, value)| {
        pointers(value).into_iter().map(move |rest| format!("/{key}{rest}"))
    });
    std::iter::once(String::new()).chain(below).collect()
}

fn replaced(sample: &Value, pointer: &str, value: Value) -> Value {
    let mut object = sample.clone();
    if let Some(place) = object.pointer_mut(pointer) {
        *place = value;
    }
    object
}

fn wrong_values() -> impl Iterator<Item = Value> + Clone {
    [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e300),
        json!(""),
        json!("../../x"),
        json!("a/b\u{0}\u{7f}\u{ffff}"),
        json!("9999-99-99T99:99:99Z"),
        json!("-9999-12-31T23:59:59.999999999+23:59"),
        json!("9999-12-31T23:59:59.999999999-23:59"),
        json!("x".repeat(5_000)),
        json!([]),
        json!([null]),
        json!([1, "x", {}]),
        json!([[[[]]]]),
        json!({}),
        json!({"": ""}),
        json!({"a": null}),
        json!({"a": {"b": [1]}}),
    ]
    .into_iter()
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(40).collect()
}
