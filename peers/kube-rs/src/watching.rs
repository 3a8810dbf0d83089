//! Watches, and the two ways in which a watcher fills a store.

use std::pin::pin;

use anyhow::{Context, Result, bail};
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use crate::{NAMESPACE, eventually, expect};

pub(crate) async fn watch(client: Client) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let start = maps.list(&ListParams::default()).await?.metadata.resource_version;
    let params = WatchParams::default().fields("metadata.name=watched").timeout(30);
    let mut events = pin!(maps.watch(&params, &start.context("no version")?).await?);
    change(&maps, "watched").await?;
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(match events.try_next().await?.context("the watch ended")? {
            WatchEvent::Added(object) => format!("added {}", object.name_any()),
            WatchEvent::Modified(object) => format!("modified {}", object.name_any()),
            WatchEvent::Deleted(object) => format!("deleted {}", object.name_any()),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => bail!("an error: {status:?}"),
        });
    }
    expect("events", seen.join(", "), "added watched, modified watched, deleted watched".to_owned())
}

async fn change(maps: &Api<ConfigMap>, name: &str) -> Result<()> {
    let object = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    maps.create(&PostParams::default(), &object).await?;
    let patch = Patch::Merge(json!({"data": {"a": "1"}}));
    maps.patch(name, &PatchParams::default(), &patch).await?;
    maps.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

pub(crate) async fn listing(client: Client) -> Result<()> {
    reflect(client, "listed", watcher::Config::default().page_size(2)).await
}

pub(crate) async fn streaming(client: Client) -> Result<()> {
    reflect(client, "streamed", watcher::Config::default().streaming_lists()).await
}

/// A reflector that must hold what was there before, and follow what changes after.
async fn reflect(client: Client, name: &str, config: watcher::Config) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    let object = json!({"metadata": {"name": name, "labels": {"reflect": name}}});
    maps.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let (store, writer) = reflector::store();
    // Without back-off: an error of the watcher must end the step.
    let stream = watcher(maps.clone(), config).reflect(writer).applied_objects();
    let following = stream.try_for_each(|_| async { Ok(()) });
    let using = async {
        store.wait_until_ready().await?;
        let reference = ObjectRef::new(name).within(NAMESPACE);
        store.get(&reference).context("the store lacks what was there")?;
        let patch = Patch::Merge(json!({"data": {"a": "1"}}));
        maps.patch(name, &PatchParams::default(), &patch).await?;
        eventually(|| async { Ok(store.get(&reference).is_some_and(|map| map.data.is_some())) })
            .await?;
        maps.delete(name, &DeleteParams::default()).await?;
        eventually(|| async { Ok(store.get(&reference).is_none()) }).await
    };
    let (following, using) = (pin!(following), pin!(using));
    match futures::future::select(following, using).await {
        futures::future::Either::Left((ended, _)) => bail!("the watcher ended: {ended:?}"),
        futures::future::Either::Right((used, _)) => used,
    }
}
