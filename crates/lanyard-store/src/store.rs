//! The store as callers see it: one type over the engines, which checks what all of them refuse.

use std::sync::Arc;

use crate::{
    Entry, Error, Range, RangeQuery, Result, Revision, Sink, StoreUrl, Watch, Write, WriteOp,
    Written,
    engine::{file::DiskFile, file::FileEngine, memory::Memory},
    etcd::Etcd,
    local::Local,
};

/// The longest key. Kubernetes names, namespaces and groups have at most 253 bytes each, so this
/// leaves room; and it bounds the part of an etcd request that is not the value.
pub const KEY_MAX: usize = 4 << 10;

/// The longest value: etcd takes requests of 1.5 MiB by default, and the key and its conditions
/// have to fit in too. The embedded engine keeps to the same limit, so that data can move.
pub const VALUE_MAX: usize = (1536 - 16) << 10;

/// A durable, revisioned key-value store; clones are handles of the same store.
#[derive(Clone)]
pub struct Store(Kind);

#[derive(Clone)]
enum Kind {
    Local(Local),
    Etcd(Etcd),
}

impl Store {
    /// Opens the store, creating it if it is embedded and not there yet.
    pub async fn open(url: &StoreUrl) -> Result<Self> {
        match url {
            StoreUrl::Embedded { dir } => {
                let dir = dir.clone();
                let open =
                    move || Local::start(Arc::new(FileEngine::open(DiskFile::create(&dir)?)?));
                let opened = tokio::task::spawn_blocking(open).await;
                let opened = opened.map_err(|e| Error::Unavailable(e.to_string()))??;
                Ok(Self(Kind::Local(opened)))
            }
            StoreUrl::Memory => Ok(Self(Kind::Local(Local::start(Arc::new(Memory::new()))?))),
            StoreUrl::Etcd(url) => Ok(Self(Kind::Etcd(Etcd::open(url).await?))),
        }
    }

    /// The newest state of one key; every write acknowledged before the call is seen.
    pub async fn get(&self, key: &str) -> Result<Option<Entry>> {
        match &self.0 {
            Kind::Local(local) => local.get(key).await,
            Kind::Etcd(etcd) => etcd.get(key).await,
        }
    }

    /// The entries under a prefix at one revision; the newest one includes every write
    /// acknowledged before the call.
    pub async fn range(&self, query: RangeQuery) -> Result<Range> {
        match &self.0 {
            Kind::Local(local) => local.range(query).await,
            Kind::Etcd(etcd) => etcd.range(query).await,
        }
    }

    /// Makes one conditional change. Once this answers, the change is durable and every open watch
    /// of this store has told its sink about it, unless the store is etcd: then see
    /// [`Store::caught_up`].
    ///
    /// Dropping the future does not take the write back.
    pub async fn write(&self, write: Write) -> Result<Written> {
        check(&write)?;
        match &self.0 {
            Kind::Local(local) => local.write(write).await,
            Kind::Etcd(etcd) => etcd.write(write).await,
        }
    }

    /// Reports to `sink` every change of keys under `prefix` after revision `after`, in order, each
    /// once. Changes of the past may be reported before this answers.
    ///
    /// [`Error::Compacted`] if that history is gone, [`Error::Future`] if there is no such revision.
    pub async fn watch(&self, prefix: &str, after: Revision, sink: Arc<dyn Sink>) -> Result<Watch> {
        match &self.0 {
            Kind::Local(local) => local.watch(prefix, after, sink).await,
            Kind::Etcd(etcd) => etcd.watch(prefix, after, sink).await,
        }
    }

    /// Waits until every open watch has told its sink all changes up to the returned revision,
    /// which is at least as new as every write acknowledged, to anybody, before the call.
    pub async fn caught_up(&self) -> Result<Revision> {
        match &self.0 {
            // The committer tells the watches before it publishes or acknowledges anything.
            Kind::Local(local) => local.head(),
            Kind::Etcd(etcd) => etcd.caught_up().await,
        }
    }

    /// Lets go of the history before `to`: reads at `to` and later, and watches of the changes from
    /// `to` on, still work. What is let go is removed in the background.
    pub async fn compact(&self, to: Revision) -> Result<()> {
        match &self.0 {
            Kind::Local(local) => local.compact(to).await,
            Kind::Etcd(etcd) => etcd.compact(to).await,
        }
    }

    /// Finishes what is under way, ends the watches and releases files, locks and connections.
    /// Every later call fails.
    pub async fn close(&self) {
        match &self.0 {
            Kind::Local(local) => local.close().await,
            Kind::Etcd(etcd) => etcd.close().await,
        }
    }

    /// Whether other processes may work on the same store.
    pub fn is_shared(&self) -> bool {
        match &self.0 {
            Kind::Local(_) => false,
            Kind::Etcd(_) => true,
        }
    }

    /// Figures for health checks and metrics; cheap, and possibly a little old.
    pub fn stats(&self) -> Stats {
        match &self.0 {
            Kind::Local(local) => local.stats(),
            Kind::Etcd(etcd) => etcd.stats(),
        }
    }
}

/// Figures of a store.
#[derive(Clone, Debug)]
pub struct Stats {
    /// The newest revision known.
    pub revision: Revision,
    /// The oldest revision that can still be read, as far as known.
    pub oldest: Revision,
    /// The bytes of all entries and the history that is kept; 0 if unknown.
    pub data_bytes: u64,
    /// The bytes that the store takes on disk; 0 if unknown.
    pub disk_bytes: u64,
    /// Why writes are refused at the moment.
    pub trouble: Option<Error>,
}

/// Refuses what no engine takes.
fn check(write: &Write) -> Result<()> {
    if write.key.is_empty() || write.key.contains('\0') {
        return Err(Error::Key { key: write.key.clone() });
    }
    let too_large = |what, size, limit| Err(Error::TooLarge { what, size, limit });
    if write.key.len() > KEY_MAX {
        return too_large("key", write.key.len(), KEY_MAX);
    }
    match &write.op {
        WriteOp::Put { value, .. } if value.len() > VALUE_MAX => {
            too_large("value", value.len(), VALUE_MAX)
        }
        _ => Ok(()),
    }
}
