//! A program as users of kube-rs write it: typed and dynamic objects, watchers, a controller for a derived type. Each
//! feature is tried on its own; what was found goes to the file that `PEER_RESULTS` names, one JSON line per feature.

mod custom;
mod objects;
mod watching;

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::json;

/// Where the objects of all steps are.
const NAMESPACE: &str = "kube-rs";

/// Tries one feature.
macro_rules! step {
    ($client:expr, $feature:literal, $try:path) => {
        let found = tokio::time::timeout(PATIENCE, $try($client.clone())).await;
        report($feature, found.unwrap_or_else(|_| Err(anyhow!("took too long"))))?;
    };
}

#[tokio::main]
async fn main() -> Result<()> {
    let client = Client::try_default().await.context("connect")?;
    let space = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
    Api::<Namespace>::all(client.clone())
        .create(&PostParams::default(), &space)
        .await
        .context("make a namespace")?;
    step!(client, "discovery", objects::discovery);
    step!(client, "create, get, update, delete", objects::typed);
    step!(client, "dynamic objects", objects::dynamic);
    step!(client, "metadata only", objects::metadata);
    step!(client, "pages", objects::pages);
    step!(client, "selectors", objects::selectors);
    step!(client, "watch", watching::watch);
    step!(client, "informer, list and watch", watching::listing);
    step!(client, "informer, streaming list", watching::streaming);
    step!(client, "conflict and retry", objects::conflicts);
    step!(client, "dry run", objects::dry_run);
    step!(client, "JSON patch", objects::json_patch);
    step!(client, "merge patch", objects::merge_patch);
    step!(client, "strategic merge patch", objects::strategic_merge_patch);
    step!(client, "server-side apply", objects::apply);
    step!(client, "apply conflicts", objects::apply_conflicts);
    step!(client, "scale subresource", objects::scale);
    step!(client, "custom resources", custom::define);
    step!(client, "CEL rules", custom::rules);
    step!(client, "controller", custom::controller);
    step!(client, "status subresource", custom::status);
    step!(client, "events", custom::events);
    step!(client, "finalizers", custom::finalizers);
    if env::var("PEER_SERVER").as_deref() != Ok("kube-apiserver") {
        // There kube-controller-manager would do it.
        step!(client, "owners and garbage collection", custom::owners);
    }
    step!(client, "tokens", objects::tokens);
    step!(client, "certificate requests", objects::certificate_requests);
    Ok(())
}

fn report(feature: &str, found: Result<()>) -> Result<()> {
    let path = env::var("PEER_RESULTS").context("PEER_RESULTS")?;
    let mut file = OpenOptions::new().append(true).open(&path).context(path)?;
    let line = match found {
        Ok(()) => json!({"feature": feature, "ok": true}),
        Err(error) => json!({"feature": feature, "ok": false, "error": format!("{error:#}")}),
    };
    writeln!(file, "{line}").context("write a finding")
}

/// The code of an error that the server gave; 0 for any other outcome.
fn code<T>(result: &kube::Result<T>) -> u16 {
    match result {
        Err(kube::Error::Api(status)) => status.code,
        _ => 0,
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<()> {
    ensure!(found == expected, "{what}: got {found:?}, expected {expected:?}");
    Ok(())
}

/// Asks until it is so; the step's own time limit ends it.
async fn eventually<F: Future<Output = Result<bool>>>(is: impl Fn() -> F) -> Result<()> {
    while !is().await? {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Long enough for a busy machine; what works takes far less.
const PATIENCE: Duration = Duration::from_secs(40);
