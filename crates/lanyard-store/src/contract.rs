//! The words of the contract: what callers ask, what they get, what can go wrong.

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;

/// The number of one change; the whole store has one increasing sequence of them.
///
/// Revision 0 is before every change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One key as it was at some revision.
#[derive(Clone, PartialEq, Eq)]
pub struct Entry {
    /// The whole key.
    pub key: Arc<str>,
    /// The bytes that were put.
    pub value: Bytes,
    /// The revision of the put that wrote this value.
    pub revision: Revision,
}

/// Values may hold secrets, so only their length is shown.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .field("value_len", &self.value.len())
            .finish()
    }
}

/// Which keys to read, in byte order.
#[derive(Clone, Debug, Default)]
pub struct RangeQuery {
    /// Only keys that begin with this.
    pub prefix: String,
    /// Skip keys before this one: the continuation of an earlier page. Must begin with `prefix`.
    pub start: Option<String>,
    /// At most this many entries; `None` is all of them.
    pub limit: Option<usize>,
    /// The state at this revision rather than the newest one.
    pub at: Option<Revision>,
}

/// The answer to a [`RangeQuery`].
#[derive(Clone, Debug)]
pub struct Range {
    /// The entries in key order.
    pub entries: Vec<Entry>,
    /// How many further entries the limit left out.
    pub remaining: u64,
    /// The revision that this is the state of.
    pub revision: Revision,
}

/// What must be true of the key for a write to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key is not there.
    Absent,
    /// The key is there, and this revision wrote it.
    At(Revision),
}

/// One conditional change of one key.
#[derive(Clone)]
pub struct Write {
    /// The key to change.
    pub key: Arc<str>,
    /// The condition, checked atomically with the change.
    pub expect: Expect,
    /// The change.
    pub op: WriteOp,
}

/// The change that a [`Write`] makes.
#[derive(Clone)]
pub enum WriteOp {
    /// Set the value.
    Put {
        /// The new bytes.
        value: Bytes,
        /// Delete the key by itself after this long, unless written again before.
        ttl: Option<Duration>,
    },
    /// Remove the key.
    Delete,
}

/// The answer to a [`Write`] that was carried out: it is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The revision that this change got.
    pub revision: Revision,
}

/// One change of one key, as a watch reports it.
#[derive(Clone, Debug)]
pub struct Change {
    /// The key that changed.
    pub key: Arc<str>,
    /// The revision of the change. On etcd several keys whose time to live is over may be deleted
    /// in one revision; apart from that every change has its own.
    pub revision: Revision,
    /// What happened.
    pub kind: ChangeKind,
}

/// What happened to a key.
#[derive(Clone)]
pub enum ChangeKind {
    /// It was created or overwritten with these bytes.
    Put(Bytes),
    /// It was deleted, by a caller or by its time to live.
    Delete,
}

impl fmt::Debug for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put(value) => write!(f, "Put({} bytes)", value.len()),
            Self::Delete => f.write_str("Delete"),
        }
    }
}

/// What a watch tells its [`Sink`].
#[derive(Debug)]
pub enum WatchEvent<'a> {
    /// Changes of keys under the prefix, in revision order, each exactly once. All changes of one
    /// revision come together.
    Changes(&'a [Change]),
    /// Nothing under the prefix changed up to this revision beyond what was reported.
    Progress(Revision),
    /// The watch is over and tells nothing more: [`Error::Compacted`] when the changes it needs are
    /// gone, so that the caller must read the state anew.
    Ended(Error),
}

/// Receives what a watch reports.
///
/// Called in order, from one thread at a time, and never on the stack of a [`Store`](crate::Store)
/// call. It must return quickly and must not block or wait for the store: the embedded engine calls
/// it before it acknowledges the writes that it reports.
pub trait Sink: Send + Sync + 'static {
    /// Takes the next event.
    fn event(&self, event: WatchEvent<'_>);
}

/// Keeps a watch alive; dropping it ends the watch, silently. An event that is on its way at that
/// moment may still arrive.
#[must_use = "dropping a watch ends it"]
pub struct Watch(Box<dyn Send + Sync>);

impl Watch {
    /// A watch that ends when `guard` is dropped.
    pub(crate) fn new(guard: impl Send + Sync + 'static) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let _ = &self.0;
        f.write_str("Watch")
    }
}

/// The result of a store call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why the store could not do what was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The condition of a write did not hold; the caller should look again.
    #[error("key {key} was changed by another writer")]
    Conflict {
        /// The key.
        key: Arc<str>,
        /// What is there now.
        current: Option<Entry>,
    },
    /// The revision asked for is older than the history that is kept.
    #[error("revision {requested} is compacted, history begins at {oldest}")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// The oldest revision that can still be read.
        oldest: Revision,
    },
    /// The revision asked for has not happened yet.
    #[error("revision {requested} is in the future, the newest is {current}")]
    Future {
        /// What was asked for.
        requested: Revision,
        /// The newest revision.
        current: Revision,
    },
    /// The value or key is larger than a store takes.
    #[error("{what} of {size} bytes is over the limit of {limit}")]
    TooLarge {
        /// "key" or "value".
        what: &'static str,
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The key is empty or holds a zero byte.
    #[error("{key:?} cannot be a key: it must not be empty or hold a zero byte")]
    Key {
        /// The key.
        key: Arc<str>,
    },
    /// There is no room for further writes; reads go on, and writes resume when space is back.
    #[error("no space left for {path}: free some space, writes resume by themselves")]
    NoSpace {
        /// The full file system or member.
        path: String,
    },
    /// Another process has the store open.
    #[error("{path} is in use by another process: stop it, or choose another directory")]
    Locked {
        /// The database file.
        path: String,
    },
    /// The stored data cannot be read.
    #[error(
        "{path} is damaged ({detail}): restore it from a backup, or move it away to begin anew"
    )]
    Corrupt {
        /// The database file.
        path: String,
        /// What was found.
        detail: String,
    },
    /// The store cannot be reached or did not answer in time. A write may have happened all the
    /// same, or happen yet, even after a read that did not show it.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The store URL or its options make no sense.
    #[error("store URL {url}: {problem}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it and what to do.
        problem: String,
    },
    /// The disk or the operating system failed.
    #[error("{path}: {detail}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        detail: String,
    },
}

impl Error {
    /// The error of a store that was closed.
    pub(crate) fn closed() -> Self {
        Self::Unavailable("it is closed".to_owned())
    }
}
