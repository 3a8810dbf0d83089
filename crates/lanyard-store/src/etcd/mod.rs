//! The store on an etcd cluster, which several servers may share.
//!
//! etcd's revisions are ours. A write is a transaction that compares the revision of its key; reads
//! are linearizable. Whoever reads from a cache asks [`Etcd::caught_up`] first: it learns the newest
//! revision from etcd and waits until all our watches know it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tonic::{Code, Status};

use crate::{
    Entry, Error, EtcdUrl, Expect, Range, RangeQuery, Result, Revision, Sink, Stats, Watch, Write,
    WriteOp, Written,
};

mod keys;
mod lease;
mod members;
mod newest;
mod rpc;
mod stream;
mod watches;

use keys::Keys;
use lease::Leases;
use members::{Members, Retry};
use newest::{Answer, Newest};
use rpc::{
    CompactionRequest, Compare, DeleteRangeRequest, KeyValue, PutRequest, RangeRequest, Request,
    RequestOp, TxnRequest, TxnResponse, revision,
};
use stream::Order;
use watches::Watches;

/// How many entries are asked of etcd at a time, so that its answers stay of moderate size.
const PAGE: usize = 1000;

/// How long a reader waits for the watches to catch up.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// A store on an etcd cluster.
#[derive(Clone)]
pub(crate) struct Etcd {
    members: Arc<Members>,
    keys: Keys,
    newest: Newest,
    leases: Arc<Leases>,
    orders: mpsc::UnboundedSender<Order>,
    rounds: mpsc::UnboundedSender<Answer>,
    last_watch: Arc<AtomicI64>,
}

impl Etcd {
    /// Connects, and fails if no member answers.
    pub(crate) async fn open(url: &EtcdUrl) -> Result<Self> {
        let members = Arc::new(Members::new(url.clone())?);
        let keys = Keys::below(&url.prefix);
        let newest = Newest::new(members.clone(), &keys);
        newest.read().await?;
        let (orders, order_queue) = mpsc::unbounded_channel();
        let (rounds, round_queue) = mpsc::unbounded_channel();
        tokio::spawn(stream::run(members.clone(), Watches::new(keys.clone()), order_queue));
        tokio::spawn(newest.clone().serve(round_queue, orders.downgrade()));
        let (leases, last_watch) = (Arc::default(), Arc::default());
        Ok(Self { members, keys, newest, leases, orders, rounds, last_watch })
    }

    /// The newest state of one key.
    pub(crate) async fn get(&self, key: &str) -> Result<Option<Entry>> {
        self.open_yet()?;
        let request = RangeRequest { key: self.keys.theirs(key), ..RangeRequest::default() };
        let response = self.members.call(request, Retry::Always).await;
        let response = response.map_err(|status| self.members.error(&status))?;
        self.newest.saw(revision(response.header));
        response.kvs.into_iter().next().map(|kv| self.entry(kv)).transpose()
    }

    /// The entries under a prefix, asked for page by page at one revision.
    pub(crate) async fn range(&self, query: RangeQuery) -> Result<Range> {
        self.open_yet()?;
        let (first, range_end) = self.keys.range(&query.prefix);
        let start = query.start.as_ref().filter(|start| **start > query.prefix);
        let mut key = start.map_or(first, |start| self.keys.theirs(start));
        let mut at = query.at;
        let mut range = Range { entries: Vec::new(), remaining: 0, revision: Revision(0) };
        loop {
            let wanted = query.limit.map_or(PAGE, |limit| PAGE.min(limit - range.entries.len()));
            let request = RangeRequest {
                key: key.clone(),
                range_end: range_end.clone(),
                limit: wanted as i64,
                revision: at.map_or(0, |at| at.0.cast_signed()),
                // A limit of zero would be none at all.
                count_only: wanted == 0,
            };
            let response = match self.members.call(request, Retry::Always).await {
                Ok(response) => response,
                Err(status) => {
                    let requested = at.unwrap_or_default();
                    return Err(self.history_error(&status, requested).await);
                }
            };
            self.newest.saw(revision(response.header));
            let at = *at.get_or_insert(Revision(revision(response.header).unsigned_abs()));
            range.revision = at;
            range.remaining = response.count.unsigned_abs() - response.kvs.len() as u64;
            if let Some(last) = response.kvs.last() {
                key.clone_from(&last.key);
                key.push(0);
            }
            for kv in response.kvs {
                range.entries.push(self.entry(kv)?);
            }
            let full = query.limit.is_some_and(|limit| range.entries.len() >= limit);
            if full || !response.more {
                return Ok(range);
            }
        }
    }

    /// One conditional change.
    pub(crate) async fn write(&self, write: Write) -> Result<Written> {
        self.open_yet()?;
        let expected = match (write.expect, &write.op) {
            // No transaction says these; they never hold.
            (Expect::Absent, WriteOp::Delete) | (Expect::At(Revision(0)), _) => {
                return Err(Error::Conflict {
                    current: self.get(&write.key).await?,
                    key: write.key,
                });
            }
            (Expect::Absent, WriteOp::Put { .. }) => 0,
            (Expect::At(revision), _) => revision.0.cast_signed(),
        };
        let done = match self.transact(&write, expected).await {
            // Nothing was done, and a new lease will do.
            Err((status, lease)) if status.code() == Code::NotFound => {
                self.leases.forget(lease).await;
                self.transact(&write, expected).await
            }
            done => done,
        };
        let response = match done {
            Ok(response) => response,
            Err((status, _)) => return Err(self.write_error(&status, &write).await),
        };
        let revision = revision(response.header);
        self.newest.saw(revision);
        if response.succeeded {
            return Ok(Written { revision: Revision(revision.unsigned_abs()) });
        }
        let found = response.responses.into_iter().find_map(|op| op.range);
        let current = found.and_then(|range| range.kvs.into_iter().next());
        let current = current.map(|kv| self.entry(kv)).transpose()?;
        Err(Error::Conflict { key: write.key, current })
    }

    /// Tells a sink every change after a revision.
    pub(crate) async fn watch(
        &self,
        prefix: &str,
        after: Revision,
        sink: Arc<dyn Sink>,
    ) -> Result<Watch> {
        self.open_yet()?;
        let current = self.newest.read().await?;
        if after > current {
            return Err(Error::Future { requested: after, current });
        }
        if after < current {
            // etcd would open the watch and end it soon; this tells at once.
            self.check_history(after).await?;
        }
        let id = self.last_watch.fetch_add(1, Ordering::Relaxed) + 1;
        let (answer, opened) = oneshot::channel();
        let order = Order::Open { id, prefix: prefix.to_owned(), after, sink, answer };
        self.orders.send(order).map_err(|_| Error::closed())?;
        // From here on the watch ends if nobody waits for it any more.
        let guard = OpenWatch { id, orders: self.orders.downgrade() };
        opened.await.map_err(|_| Error::closed())??;
        Ok(Watch::new(guard))
    }

    /// Waits until all watches know everything that was acknowledged before the call.
    pub(crate) async fn caught_up(&self) -> Result<Revision> {
        let (answer, answered) = oneshot::channel();
        self.rounds.send(answer).map_err(|_| Error::closed())?;
        match tokio::time::timeout(CATCH_UP_TIMEOUT, answered).await {
            Ok(answer) => answer.map_err(|_| Error::closed())?,
            Err(_) => Err(Error::Unavailable(format!(
                "{}: the watches did not catch up in time",
                self.members.name()
            ))),
        }
    }

    /// Lets go of the history before a revision.
    pub(crate) async fn compact(&self, to: Revision) -> Result<()> {
        self.open_yet()?;
        let request = CompactionRequest { revision: to.0.cast_signed() };
        // Compacting twice to the same revision is refused the second time, which we ignore.
        match self.members.call(request, Retry::Always).await {
            Ok(_) => Ok(()),
            Err(status) if is_compacted(&status) => Ok(()),
            Err(status) if is_future(&status) => {
                Err(Error::Future { requested: to, current: self.newest.read().await? })
            }
            Err(status) => Err(self.members.error(&status)),
        }
    }

    /// Ends the watches and the tasks.
    pub(crate) async fn close(&self) {
        let (answer, stopped) = oneshot::channel();
        if self.orders.send(Order::Stop(answer)).is_ok() {
            let _ = stopped.await;
        }
    }

    /// Figures for metrics, as far as etcd told them by the way.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            revision: self.newest.seen(),
            oldest: Revision(0),
            data_bytes: 0,
            disk_bytes: 0,
            trouble: None,
        }
    }

    fn open_yet(&self) -> Result<()> {
        if self.orders.is_closed() { Err(Error::closed()) } else { Ok(()) }
    }

    fn entry(&self, kv: KeyValue) -> Result<Entry> {
        let revision = Revision(kv.mod_revision.unsigned_abs());
        Ok(Entry { key: self.keys.ours(&kv.key)?, value: Bytes::from(kv.value), revision })
    }

    /// Runs the transaction of a write; a failure comes with the lease that was used.
    async fn transact(&self, write: &Write, expected: i64) -> Result<TxnResponse, (Status, i64)> {
        let key = self.keys.theirs(&write.key);
        let mut lease = 0;
        let change = match &write.op {
            WriteOp::Put { value, ttl } => {
                if let Some(ttl) = ttl {
                    let granted = self.leases.lasting(*ttl, &self.members).await;
                    lease = granted.map_err(|status| (status, 0))?;
                }
                Request::Put(PutRequest { key: key.clone(), value: value.clone(), lease })
            }
            WriteOp::Delete => Request::DeleteRange(DeleteRangeRequest { key: key.clone() }),
        };
        let look = RangeRequest { key: key.clone(), ..RangeRequest::default() };
        let request = TxnRequest {
            compare: vec![Compare::written_at(key, expected)],
            success: vec![RequestOp { request: Some(change) }],
            failure: vec![RequestOp { request: Some(Request::Range(look)) }],
        };
        let response = self.members.call(request, Retry::IfNotDone).await;
        response.map_err(|status| (status, lease))
    }

    /// What it means that a transaction failed.
    async fn write_error(&self, status: &Status, write: &Write) -> Error {
        if let WriteOp::Put { value, .. } = &write.op
            && status.message().contains("request is too large")
        {
            // etcd does not say what its limit is, but it is below this.
            let limit = value.len().saturating_sub(1);
            return Error::TooLarge { what: "value", size: value.len(), limit };
        }
        let error = self.members.error(status);
        if !matches!(error, Error::NoSpace { .. }) {
            return error;
        }
        // The write that fills etcd up is carried out and refused at the same time.
        let current = match self.get(&write.key).await {
            Ok(current) => current.map(|entry| entry.revision),
            Err(error) => return error,
        };
        let untouched = match write.expect {
            Expect::Absent => current.is_none(),
            Expect::At(revision) => current == Some(revision),
        };
        if untouched {
            return error;
        }
        Error::Unavailable(format!("{} ran out of space during the write", self.members.name()))
    }

    /// Whether the changes after a revision are all still there.
    async fn check_history(&self, after: Revision) -> Result<()> {
        let request = RangeRequest {
            key: self.keys.theirs(""),
            revision: (after.0 + 1).cast_signed(),
            count_only: true,
            ..RangeRequest::default()
        };
        match self.members.call(request, Retry::Always).await {
            Ok(_) => Ok(()),
            Err(status) => Err(self.history_error(&status, after).await),
        }
    }

    /// What it means that a revision could not be read.
    async fn history_error(&self, status: &Status, requested: Revision) -> Error {
        if is_compacted(status) {
            let oldest = self.members.oldest_revision(self.keys.theirs("")).await;
            let oldest = oldest.map_or(requested.0 + 1, i64::unsigned_abs);
            return Error::Compacted { requested, oldest: Revision(oldest) };
        }
        if is_future(status) {
            return match self.newest.read().await {
                Ok(current) => Error::Future { requested, current },
                Err(error) => error,
            };
        }
        self.members.error(status)
    }
}

/// Ends a watch when it is dropped.
struct OpenWatch {
    id: i64,
    orders: mpsc::WeakUnboundedSender<Order>,
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        if let Some(orders) = self.orders.upgrade() {
            let _ = orders.send(Order::Close(self.id));
        }
    }
}

fn is_compacted(status: &Status) -> bool {
    status.code() == Code::OutOfRange && status.message().contains("compacted")
}

fn is_future(status: &Status) -> bool {
    status.code() == Code::OutOfRange && status.message().contains("future")
}
