//! The loops that keep promises of the API in the background: furnished and emptied namespaces, collected
//! garbage, aggregated roles, signed certificates, accepted names of custom types, bounded history.
//!
//! They act through the registry like any client. When several servers share one store, one of them
//! runs the loops at a time ([`election`]).

mod accounts;
mod aggregation;
mod certificates;
mod client;
mod compaction;
mod definitions;
mod election;
mod garbage;
mod namespaces;
mod queue;

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::{pki::Pki, registry::Registry};

/// The loops of one server.
pub struct Controllers {
    registry: Arc<Registry>,
    identity: String,
}

impl Controllers {
    /// Once the loops have ended: lets another server begin at once.
    pub async fn resign(&self) {
        if self.registry.store.is_shared() {
            election::resign(&self.registry, &self.identity).await;
        }
    }
}

/// Starts the loops.
pub fn spawn(registry: &Arc<Registry>, pki: &Arc<Pki>, loops: &mut JoinSet<()>) -> Controllers {
    // The observers run everywhere, so that a server that takes over knows the state.
    let all = Arc::new(All {
        namespaces: namespaces::NamespaceController::new(registry),
        garbage: garbage::GarbageCollector::new(registry),
        accounts: accounts::AccountController::new(registry),
        aggregation: aggregation::AggregationController::new(registry),
        certificates: certificates::CertificateController::new(registry, pki),
        definitions: definitions::DefinitionController::new(registry),
        registry: registry.clone(),
    });
    let controllers = Controllers { registry: registry.clone(), identity: election::identity() };
    let identity = controllers.identity.clone();
    loops.spawn(async move {
        if all.registry.store.is_shared() {
            election::lead(&all.registry, &identity, || all.run()).await;
        } else {
            all.run().await;
        }
    });
    controllers
}

struct All {
    registry: Arc<Registry>,
    namespaces: namespaces::NamespaceController,
    garbage: garbage::GarbageCollector,
    accounts: accounts::AccountController,
    aggregation: aggregation::AggregationController,
    certificates: certificates::CertificateController,
    definitions: definitions::DefinitionController,
}

impl All {
    async fn run(&self) {
        tokio::join!(
            self.namespaces.run(),
            self.garbage.run(),
            self.accounts.run(),
            self.aggregation.run(),
            self.certificates.run(),
            self.definitions.run(),
            compaction::run(&self.registry),
        );
    }
}
