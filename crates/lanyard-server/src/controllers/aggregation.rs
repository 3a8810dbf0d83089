//! Aggregated cluster roles: their rules are the union of the rules of the roles they select.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::sync::Notify;

use super::client::Client;
use crate::{
    authz::rules::{GROUP, PolicyRule},
    collection::Collection,
    registry::Registry,
};

/// How long to wait after a failed write.
const RETRY: Duration = Duration::from_secs(1);

/// Fills in the rules of aggregated roles.
pub(super) struct AggregationController {
    registry: Arc<Registry>,
    client: Client,
    roles: Option<Arc<Collection>>,
    changed: Arc<Notify>,
}

impl AggregationController {
    pub(super) fn new(registry: &Arc<Registry>) -> Self {
        let roles = registry.endpoint(GROUP, "v1", "clusterroles").map(|e| e.collection);
        let changed = Arc::new(Notify::new());
        if let Some(roles) = &roles {
            let changed = changed.clone();
            roles.observe(Box::new(move |_| changed.notify_one()));
        }
        Self { registry: registry.clone(), client: Client::new(registry), roles, changed }
    }

    pub(super) async fn run(&self) {
        let Some(roles) = &self.roles else { return };
        loop {
            // Each write is a change in turn, so this goes on until nothing is stale.
            for (name, rules) in self.registry.admission.rbac.stale_aggregates() {
                let rules: Vec<Value> = rules.iter().map(PolicyRule::to_value).collect();
                if let Err(error) =
                    self.client.merge(roles, &name, None, json!({"rules": rules})).await
                {
                    tracing::warn!(%error, role = name, "cannot aggregate a cluster role");
                    tokio::time::sleep(RETRY).await;
                    self.changed.notify_one();
                }
            }
            self.changed.notified().await;
        }
    }
}
