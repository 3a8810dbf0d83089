//! What every namespace has: the service account `default`, which pods run as when they name no other.
//!
//! kube-controller-manager does this elsewhere. Clients wait for it before they use a namespace.

use std::{sync::Arc, time::Duration};

use serde_json::json;

use super::{client::Client, queue::Queue};
use crate::{
    collection::{Collection, EventKind, Scope as CollectionScope},
    object::ObjectExt,
    registry::Registry,
    status::ApiResult,
};

/// How long to wait after a failed write.
const RETRY: Duration = Duration::from_secs(1);

/// The service account of pods that name none.
const ACCOUNT: &str = "default";

/// Gives namespaces their service account, and gives it back when it goes.
pub(super) struct AccountController {
    registry: Arc<Registry>,
    client: Client,
    /// Namespaces and service accounts.
    collections: Option<(Arc<Collection>, Arc<Collection>)>,
    queue: Queue<Arc<str>>,
}

impl AccountController {
    pub(super) fn new(registry: &Arc<Registry>) -> Self {
        let queue = Queue::new();
        let core = |plural| registry.endpoint("", "v1", plural).map(|e| e.collection);
        let collections = core("namespaces").zip(core("serviceaccounts"));
        if let Some((namespaces, accounts)) = &collections {
            let come = queue.clone();
            namespaces.observe(Box::new(move |event| {
                if event.kind == EventKind::Added {
                    come.add(event.object.key.clone());
                }
            }));
            let gone = queue.clone();
            accounts.observe(Box::new(move |event| {
                if event.object.name() == ACCOUNT && event.kind == EventKind::Deleted {
                    gone.add(event.object.namespace().into());
                }
            }));
        }
        Self { registry: registry.clone(), client: Client::new(registry), collections, queue }
    }

    pub(super) async fn run(&self) {
        let Some((namespaces, accounts)) = &self.collections else { return };
        let _open = self.queue.open();
        let (page, _) = namespaces.list(&CollectionScope::All, None, None, |_| true);
        page.objects.iter().for_each(|namespace| self.queue.add(namespace.key.clone()));
        loop {
            let namespace = self.queue.next().await;
            if let Err(error) = self.furnish(namespaces, accounts, &namespace).await {
                tracing::warn!(%error, namespace = &*namespace, "cannot make a service account");
                self.queue.add_later(namespace, RETRY);
            }
        }
    }

    async fn furnish(
        &self,
        namespaces: &Arc<Collection>,
        accounts: &Arc<Collection>,
        namespace: &str,
    ) -> ApiResult<()> {
        self.registry.caught_up().await?;
        let found = namespaces.get(namespace);
        let key = format!("{namespace}/{ACCOUNT}");
        let going = found.is_none_or(|namespace| namespace.value().is_deleting());
        if going || accounts.get(&key).is_some() {
            return Ok(());
        }
        let account = json!({
            "kind": "ServiceAccount",
            "apiVersion": "v1",
            "metadata": {"name": ACCOUNT, "namespace": namespace},
        });
        match self.client.create(accounts, &key, account).await {
            // Somebody else was faster, or the namespace goes.
            Err(error) if matches!(error.reason(), "AlreadyExists" | "NotFound" | "Forbidden") => {
                Ok(())
            }
            result => result,
        }
    }
}
