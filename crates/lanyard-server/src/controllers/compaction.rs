//! Keeps the history of the store short: what is older than the window goes.

use std::time::Duration;

use crate::registry::Registry;

/// How long history is kept at least, as upstream's default. Pages of a list and watches that resume
/// must come back within this time.
const WINDOW: Duration = Duration::from_secs(300);

/// Compacts for ever.
pub(super) async fn run(registry: &Registry) {
    let mut oldest = registry.caught_up().await.ok();
    loop {
        tokio::time::sleep(WINDOW).await;
        if let Some(revision) = oldest
            && let Err(error) = registry.store.compact(revision).await
        {
            tracing::warn!(%error, "cannot compact the store, trying again later");
        }
        oldest = registry.caught_up().await.ok().or(oldest);
    }
}
