//! What the newest revision is, and making sure that all watches know it.
//!
//! Those who ask at the same time share one read: while one is under way, whoever comes waits for
//! the next, which begins after they asked and so sees everything acknowledged before.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::{mpsc, oneshot};

use super::{
    keys::Keys,
    members::{Members, Retry},
    rpc::{RangeRequest, revision},
    stream::Order,
};
use crate::{Result, Revision};

/// Where the answer of [`Newest::serve`] goes.
pub(super) type Answer = oneshot::Sender<Result<Revision>>;

/// The newest revision.
#[derive(Clone)]
pub(super) struct Newest {
    members: Arc<Members>,
    /// A key that costs nothing to read.
    key: Vec<u8>,
    seen: Arc<AtomicU64>,
}

impl Newest {
    /// Nothing seen yet.
    pub(super) fn new(members: Arc<Members>, keys: &Keys) -> Self {
        Self { members, key: keys.theirs(""), seen: Arc::default() }
    }

    /// Takes note of a revision that an answer of etcd mentioned.
    pub(super) fn saw(&self, revision: i64) {
        self.seen.fetch_max(revision.unsigned_abs(), Ordering::Relaxed);
    }

    /// The newest revision that was mentioned.
    pub(super) fn seen(&self) -> Revision {
        Revision(self.seen.load(Ordering::Relaxed))
    }

    /// The newest revision there is, from a linearizable read.
    pub(super) async fn read(&self) -> Result<Revision> {
        let request =
            RangeRequest { key: self.key.clone(), count_only: true, ..RangeRequest::default() };
        let response = self.members.call(request, Retry::Always).await;
        let response = response.map_err(|status| self.members.error(&status))?;
        self.saw(revision(response.header));
        Ok(Revision(revision(response.header).unsigned_abs()))
    }

    /// Answers everybody who asks, as soon as all watches know what was there when they asked.
    pub(super) async fn serve(
        self,
        mut asking: mpsc::UnboundedReceiver<Answer>,
        orders: mpsc::WeakUnboundedSender<Order>,
    ) {
        while let Some(first) = asking.recv().await {
            let mut round = vec![first];
            while let Ok(another) = asking.try_recv() {
                round.push(another);
            }
            let seen = self.seen();
            let newest = self.read().await;
            // Without orders the store is closed: dropping the round says so.
            let Some(orders) = orders.upgrade() else {
                return;
            };
            match newest {
                Ok(newest) => {
                    if newest < seen {
                        tracing::error!(%seen, %newest, "etcd lost revisions");
                        self.seen.store(newest.0, Ordering::Relaxed);
                        let _ = orders.send(Order::EndBeyond(newest));
                    }
                    let _ = orders.send(Order::Await(newest, round));
                }
                Err(error) => {
                    for answer in round {
                        let _ = answer.send(Err(error.clone()));
                    }
                }
            }
        }
    }
}
