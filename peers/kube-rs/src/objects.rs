//! Single objects: reading, writing, patching, and the subresources of built-in kinds.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenReview};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Discovery, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{NAMESPACE, code, expect};

fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, NAMESPACE)
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).context("make an object")
}

fn map(name: &str, data: Value) -> Result<ConfigMap> {
    read(json!({"metadata": {"name": name, "labels": {"step": name}}, "data": data}))
}

fn data(map: &ConfigMap) -> Value {
    json!(map.data)
}

/// One request for everything, and one per group, must find the same groups.
pub(crate) async fn discovery(client: Client) -> Result<()> {
    let aggregated = Discovery::new(client.clone()).run_aggregated().await?;
    let single = Discovery::new(client).run().await?;
    let groups = |found: &Discovery| {
        let groups = found.groups_alphabetical();
        groups.iter().map(|group| group.name().to_owned()).collect::<Vec<_>>()
    };
    expect("groups", groups(&aggregated), groups(&single))?;
    let gvk = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", "ClusterRole");
    let (resource, _) = aggregated.resolve_gvk(&gvk).context("no ClusterRole")?;
    expect("plural", resource.plural, "clusterroles".to_owned())
}

pub(crate) async fn typed(client: Client) -> Result<()> {
    let maps = maps(client);
    let mut made = maps.create(&PostParams::default(), &map("typed", json!({"a": "1"}))?).await?;
    ensure!(made.uid().is_some() && made.resource_version().is_some(), "no uid or version");
    made.data.get_or_insert_default().insert("b".to_owned(), "2".to_owned());
    maps.replace("typed", &PostParams::default(), &made).await?;
    expect("data", data(&maps.get("typed").await?), json!({"a": "1", "b": "2"}))?;
    let twice = maps.create(&PostParams::default(), &map("typed", json!({}))?).await;
    expect("creating it twice", code(&twice), 409)?;
    maps.delete("typed", &DeleteParams::default()).await?;
    ensure!(maps.get_opt("typed").await?.is_none(), "still there");
    Ok(())
}

pub(crate) async fn dynamic(client: Client) -> Result<()> {
    let kind = GroupVersionKind::gvk("", "v1", "ConfigMap");
    let (resource, _) = kube::discovery::pinned_kind(&client, &kind).await?;
    let maps: Api<DynamicObject> = Api::namespaced_with(client, NAMESPACE, &resource);
    let object = DynamicObject::new("dynamic", &resource).data(json!({"data": {"a": "1"}}));
    maps.create(&PostParams::default(), &object).await?;
    expect("data", maps.get("dynamic").await?.data["data"].clone(), json!({"a": "1"}))
}

pub(crate) async fn metadata(client: Client) -> Result<()> {
    let maps = maps(client);
    maps.create(&PostParams::default(), &map("bare", json!({"a": "1"}))?).await?;
    expect("name", maps.get_metadata("bare").await?.name_any(), "bare".to_owned())?;
    let list = maps.list_metadata(&ListParams::default().labels("step=bare")).await?;
    expect("items", list.items.len(), 1)
}

pub(crate) async fn pages(client: Client) -> Result<()> {
    let maps = maps(client);
    for at in 0..5 {
        let object =
            json!({"metadata": {"name": format!("page-{at}"), "labels": {"step": "pages"}}});
        maps.create(&PostParams::default(), &read(object)?).await?;
    }
    let mut names = Vec::new();
    let mut params = ListParams::default().labels("step=pages").limit(2);
    loop {
        let page = maps.list(&params).await?;
        names.extend(page.items.iter().map(ResourceExt::name_any));
        match page.metadata.continue_ {
            Some(token) if !token.is_empty() => params = params.continue_token(&token),
            _ => break,
        }
    }
    expect("names", names.join(" "), "page-0 page-1 page-2 page-3 page-4".to_owned())
}

pub(crate) async fn selectors(client: Client) -> Result<()> {
    let maps = maps(client);
    maps.create(&PostParams::default(), &map("chosen", json!({}))?).await?;
    for (params, count) in [
        (ListParams::default().labels("step in (chosen, missing)"), 1),
        (ListParams::default().fields("metadata.name=chosen"), 1),
        (ListParams::default().labels("step=chosen").fields("metadata.name!=chosen"), 0),
    ] {
        expect("items", maps.list(&params).await?.items.len(), count)?;
    }
    Ok(())
}

/// The entry API reads, changes and writes under optimistic locking.
pub(crate) async fn conflicts(client: Client) -> Result<()> {
    let maps = maps(client);
    let fresh = || map("entry", json!({"n": "0"})).unwrap_or_default();
    let mut entry = maps.entry("entry").await?.or_insert(fresh);
    entry.commit(&PostParams::default()).await?;
    let mut stale = entry.get().clone();
    entry.get_mut().data.get_or_insert_default().insert("n".to_owned(), "1".to_owned());
    entry.commit(&PostParams::default()).await?;
    stale.data.get_or_insert_default().insert("n".to_owned(), "2".to_owned());
    let late = maps.replace("entry", &PostParams::default(), &stale).await;
    expect("an update of an old version", code(&late), 409)
}

pub(crate) async fn dry_run(client: Client) -> Result<()> {
    let maps = maps(client);
    let params = PostParams { dry_run: true, ..PostParams::default() };
    maps.create(&params, &map("dry", json!({}))?).await?;
    ensure!(maps.get_opt("dry").await?.is_none(), "a dry run left something behind");
    Ok(())
}

async fn patched(client: Client, name: &str, patch: Patch<Value>) -> Result<()> {
    let maps = maps(client);
    maps.create(&PostParams::default(), &map(name, json!({"a": "1", "b": "2"}))?).await?;
    let patched = maps.patch(name, &PatchParams::default(), &patch).await?;
    expect("data", data(&patched), json!({"a": "1", "c": "3"}))
}

pub(crate) async fn json_patch(client: Client) -> Result<()> {
    let steps = json!([
        {"op": "remove", "path": "/data/b"},
        {"op": "add", "path": "/data/c", "value": "3"},
    ]);
    patched(client, "json-patch", Patch::Json(read(steps)?)).await
}

pub(crate) async fn merge_patch(client: Client) -> Result<()> {
    let patch = json!({"data": {"b": null, "c": "3"}});
    patched(client, "merge-patch", Patch::Merge(patch)).await
}

pub(crate) async fn strategic_merge_patch(client: Client) -> Result<()> {
    let patch = json!({"data": {"b": null, "c": "3"}});
    patched(client, "strategic", Patch::Strategic(patch)).await
}

pub(crate) async fn apply(client: Client) -> Result<()> {
    let maps = maps(client);
    let metadata = json!({"name": "applied"});
    let body = |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data});
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    let first =
        maps.patch("applied", &one, &Patch::Apply(body(json!({"a": "1", "b": "2"})))).await?;
    let again =
        maps.patch("applied", &one, &Patch::Apply(body(json!({"a": "1", "b": "2"})))).await?;
    expect("version", again.resource_version(), first.resource_version())?;
    maps.patch("applied", &two, &Patch::Apply(body(json!({"c": "3"})))).await?;
    let less = maps.patch("applied", &one, &Patch::Apply(body(json!({"a": "1"})))).await?;
    expect("data", data(&less), json!({"a": "1", "c": "3"}))?;
    expect("managers", less.managed_fields().len(), 2)
}

pub(crate) async fn apply_conflicts(client: Client) -> Result<()> {
    let maps = maps(client);
    let body = |value| {
        let metadata = json!({"name": "contested"});
        Patch::Apply(
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": value}}),
        )
    };
    maps.patch("contested", &PatchParams::apply("one"), &body("1")).await?;
    let refused = maps.patch("contested", &PatchParams::apply("two"), &body("2")).await;
    expect("taking what another owns", code(&refused), 409)?;
    let taken = maps.patch("contested", &PatchParams::apply("two").force(), &body("2")).await?;
    expect("data", data(&taken), json!({"a": "2"}))
}

pub(crate) async fn scale(client: Client) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client, NAMESPACE);
    let labels = json!({"app": "scaled"});
    let containers = json!([{"name": "main", "image": "registry.example/main:1"}]);
    let made =
        read(json!({"metadata": {"name": "scaled"}, "spec": {"selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}}}}))?;
    deployments.create(&PostParams::default(), &made).await?;
    let patch = Patch::Merge(json!({"spec": {"replicas": 4}}));
    deployments.patch_scale("scaled", &PatchParams::default(), &patch).await?;
    let scale = deployments.get_scale("scaled").await?;
    expect("replicas", scale.spec.and_then(|spec| spec.replicas), Some(4))
}

pub(crate) async fn tokens(client: Client) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
    accounts.create(&PostParams::default(), &read(json!({"metadata": {"name": "robot"}}))?).await?;
    let request: TokenRequest = read(json!({"metadata": {}, "spec": {"audiences": ["api"]}}))?;
    let answer = accounts.create_token_request("robot", &PostParams::default(), &request).await?;
    let token = answer.status.context("no status")?.token;
    let review = read(json!({"metadata": {}, "spec": {"token": token, "audiences": ["api"]}}))?;
    let reviews: Api<TokenReview> = Api::all(client);
    let reviewed = reviews.create(&PostParams::default(), &review).await?;
    let user = reviewed.status.and_then(|status| status.user).and_then(|user| user.username);
    expect("user", user, Some(format!("system:serviceaccount:{NAMESPACE}:robot")))
}

/// A request made once with openssl; approving it needs no key.
pub(crate) async fn certificate_requests(client: Client) -> Result<()> {
    let requests: Api<CertificateSigningRequest> = Api::all(client);
    let request = read(json!({
        "metadata": {"name": "jane"},
        "spec": {
            "request": k8s_openapi::ByteString(include_bytes!("jane.csr").to_vec()),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    }))?;
    requests.create(&PostParams::default(), &request).await?;
    let approved = json!({"status": {"conditions": [
        {"type": "Approved", "status": "True", "reason": "Peer", "message": "approved"}]}});
    requests.patch_approval("jane", &PatchParams::default(), &Patch::Merge(approved)).await?;
    let read = requests.get_approval("jane").await?;
    let conditions = read.status.and_then(|status| status.conditions).unwrap_or_default();
    let found: Vec<_> = conditions.into_iter().map(|condition| condition.type_).collect();
    expect("conditions", found, vec!["Approved".to_owned()])
}
