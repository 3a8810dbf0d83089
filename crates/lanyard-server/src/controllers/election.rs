//! One leader among the servers that share a store, chosen by a Lease as client-go does it.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::client::Client;
use crate::{
    clock, collection::Collection, object::ObjectExt, registry::Registry, status::ApiResult,
};

const LEASE: &str = "kube-system/lanyard-controllers";

/// Others take over when the leader has not renewed for this long.
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// A leader that could not renew for this long stops leading, before others take over.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);

/// How often the lease is looked at and renewed.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// A store that does not take the resignation within this is not waited for: the lease expires.
const RESIGN_TIMEOUT: Duration = Duration::from_secs(2);

/// A name for one server among those that share a store.
pub(super) fn identity() -> String {
    format!("lanyard_{}", uuid::Uuid::new_v4())
}

/// Runs `work` while this server is the leader; never ends.
pub(super) async fn lead<F: Future<Output = ()>>(
    registry: &Arc<Registry>,
    identity: &str,
    work: impl Fn() -> F,
) {
    let Some(mut candidate) = Candidate::new(registry, identity) else { return };
    loop {
        while !candidate.try_hold().await.unwrap_or(false) {
            tokio::time::sleep(RETRY_PERIOD).await;
        }
        tracing::info!(identity = candidate.identity, "leading");
        tokio::select! {
            () = work() => {}
            () = candidate.keep() => tracing::warn!("no longer leading"),
        }
    }
}

/// Gives the lease back, if this server holds it, so that another need not wait for its end.
pub(super) async fn resign(registry: &Arc<Registry>, identity: &str) {
    let Some(candidate) = Candidate::new(registry, identity) else { return };
    if tokio::time::timeout(RESIGN_TIMEOUT, candidate.give_up(registry)).await.is_err() {
        tracing::warn!("cannot hand over to another server, it will wait for the lease to expire");
    }
}

struct Candidate {
    identity: String,
    client: Client,
    leases: Arc<Collection>,
    /// The lease as last seen, and when it was first seen so: clocks of servers are not compared.
    observed: Option<(String, Instant)>,
}

impl Candidate {
    fn new(registry: &Arc<Registry>, identity: &str) -> Option<Self> {
        let leases = registry.endpoint("coordination.k8s.io", "v1", "leases")?.collection;
        let client = Client::new(registry);
        Some(Self { identity: identity.to_owned(), client, leases, observed: None })
    }

    /// Renews until that fails for too long.
    async fn keep(&mut self) {
        let mut deadline = Instant::now() + RENEW_DEADLINE;
        loop {
            tokio::time::sleep(RETRY_PERIOD).await;
            let asked = Instant::now();
            match tokio::time::timeout_at(deadline, self.try_hold()).await {
                Ok(Ok(true)) => deadline = asked + RENEW_DEADLINE,
                Ok(Err(_)) => {}
                Ok(Ok(false)) | Err(_) => return,
            }
        }
    }

    /// Empties the lease that this server holds.
    async fn give_up(&self, registry: &Registry) {
        // The last renewal may still be on its way to us.
        let _ = registry.caught_up().await;
        let Some(lease) = self.leases.get(LEASE).map(|lease| lease.value()) else { return };
        if lease.text(&["spec", "holderIdentity"]) != self.identity {
            return;
        }
        let version = lease.resource_version();
        let patch =
            json!({"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": ""}});
        if let Err(error) = self.client.merge(&self.leases, LEASE, None, patch).await {
            tracing::warn!(%error, "cannot give the lease back");
        }
    }

    /// Takes or renews the lease, if it is free or ours.
    async fn try_hold(&mut self) -> ApiResult<bool> {
        let Some(lease) = self.leases.get(LEASE).map(|lease| lease.value()) else {
            let object = json!({
                "kind": "Lease",
                "apiVersion": "coordination.k8s.io/v1",
                "metadata": {"name": "lanyard-controllers", "namespace": "kube-system"},
                "spec": self.spec(None),
            });
            return Ok(self.client.create(&self.leases, LEASE, object).await.is_ok());
        };
        let holder = lease.text(&["spec", "holderIdentity"]);
        let version = lease.resource_version();
        if self.observed.as_ref().is_none_or(|(seen, _)| seen != version) {
            self.observed = Some((version.to_owned(), Instant::now()));
        }
        let seen = self.observed.as_ref().map_or_else(Instant::now, |(_, at)| *at);
        let ours = holder == self.identity;
        if !ours && !holder.is_empty() && seen.elapsed() < LEASE_DURATION {
            return Ok(false);
        }
        let patch =
            json!({"metadata": {"resourceVersion": version}, "spec": self.spec(Some(&lease))});
        match self.client.merge(&self.leases, LEASE, None, patch).await {
            Err(error) if error.reason() == "Conflict" => Ok(ours),
            result => result.map(|()| true),
        }
    }

    fn spec(&self, old: Option<&Value>) -> Value {
        let now = clock::rfc3339_micro(Timestamp::now());
        let held = |old: &&Value| old.text(&["spec", "holderIdentity"]) == self.identity;
        let acquired = old.filter(held).map(|old| old.text(&["spec", "acquireTime"]).to_owned());
        let transitions = old.map_or(0, |old| {
            let before = old.at(&["spec", "leaseTransitions"]).and_then(Value::as_i64).unwrap_or(0);
            before + i64::from(!held(&old))
        });
        json!({
            "holderIdentity": self.identity,
            "leaseDurationSeconds": LEASE_DURATION.as_secs(),
            "acquireTime": acquired.unwrap_or_else(|| now.clone()),
            "renewTime": now,
            "leaseTransitions": transitions,
        })
    }
}
