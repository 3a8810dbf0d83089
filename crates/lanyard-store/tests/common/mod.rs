//! What the tests of the store share: short words for its calls, and a sink that remembers.

#![allow(dead_code, reason = "each test binary uses a part of this")]

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use lanyard_store::{
    Change, ChangeKind, Entry, Error, Expect, RangeQuery, Result, Revision, Sink, Store, StoreUrl,
    WatchEvent, Write, WriteOp,
};
use lanyard_testkit::Etcd;
use parking_lot::{Mutex, MutexGuard};

/// How long anything in these tests may take before it counts as hung.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The store on an etcd cluster.
pub(crate) fn etcd_url(etcd: &Etcd) -> StoreUrl {
    StoreUrl::parse(&format!("etcd://{}", etcd.endpoints()), Path::new("unused")).unwrap()
}

/// Puts a value, without time to live.
pub(crate) async fn put(store: &Store, key: &str, expect: Expect, value: &str) -> Result<Revision> {
    put_for(store, key, expect, value, None).await
}

/// Puts a value that may delete itself.
pub(crate) async fn put_for(
    store: &Store,
    key: &str,
    expect: Expect,
    value: &str,
    ttl: Option<Duration>,
) -> Result<Revision> {
    let op = WriteOp::Put { value: Bytes::copy_from_slice(value.as_bytes()), ttl };
    Ok(store.write(Write { key: key.into(), expect, op }).await?.revision)
}

/// Creates a key.
pub(crate) async fn create(store: &Store, key: &str, value: &str) -> Revision {
    put(store, key, Expect::Absent, value).await.unwrap()
}

/// Overwrites a key.
pub(crate) async fn update(store: &Store, key: &str, at: Revision, value: &str) -> Revision {
    put(store, key, Expect::At(at), value).await.unwrap()
}

/// Deletes a key.
pub(crate) async fn delete(store: &Store, key: &str, at: Revision) -> Result<Revision> {
    let write = Write { key: key.into(), expect: Expect::At(at), op: WriteOp::Delete };
    Ok(store.write(write).await?.revision)
}

/// All keys and values under a prefix.
pub(crate) async fn state(
    store: &Store,
    prefix: &str,
    at: Option<Revision>,
) -> Result<Vec<(String, String)>> {
    let query = RangeQuery { prefix: prefix.to_owned(), at, ..RangeQuery::default() };
    Ok(pairs(&store.range(query).await?.entries))
}

/// Keys and values of entries.
pub(crate) fn pairs(entries: &[Entry]) -> Vec<(String, String)> {
    entries.iter().map(|entry| (entry.key.to_string(), text(&entry.value))).collect()
}

/// A value as text.
pub(crate) fn text(value: &[u8]) -> String {
    String::from_utf8(value.to_vec()).unwrap()
}

/// A sink that remembers everything, and checks that revisions only increase.
#[derive(Default)]
pub(crate) struct Recorder {
    seen: Mutex<Seen>,
    changed: tokio::sync::Notify,
}

/// What a [`Recorder`] was told.
#[derive(Default, Clone)]
pub(crate) struct Seen {
    /// All changes.
    pub(crate) changes: Vec<Change>,
    /// The newest revision it knows everything of.
    pub(crate) through: Revision,
    /// The end.
    pub(crate) ended: Option<Error>,
    /// What was wrong with the order.
    pub(crate) disorder: Option<String>,
}

impl Sink for Recorder {
    fn event(&self, event: WatchEvent<'_>) {
        let mut seen = self.seen.lock();
        if seen.ended.is_some() {
            seen.disorder = Some(format!("{event:?} after the end"));
        }
        match event {
            WatchEvent::Changes(changes) => {
                for change in changes {
                    // On etcd several keys may go away in one revision, when their time is over.
                    let together = matches!(change.kind, ChangeKind::Delete)
                        && seen.changes.last().is_some_and(|last| {
                            last.revision == change.revision && last.key != change.key
                        });
                    if change.revision <= seen.through && !together {
                        seen.disorder = Some(format!("{change:?} after {}", seen.through));
                    }
                    seen.through = change.revision;
                    seen.changes.push(change.clone());
                }
            }
            WatchEvent::Progress(revision) => {
                if revision < seen.through {
                    seen.disorder = Some(format!("progress {revision} after {}", seen.through));
                }
                seen.through = revision;
            }
            WatchEvent::Ended(error) => seen.ended = Some(error),
        }
        drop(seen);
        self.changed.notify_waiters();
    }
}

impl Recorder {
    /// An empty one.
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// What was told so far.
    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        let seen = self.seen.lock();
        assert_eq!(seen.disorder, None);
        seen
    }

    /// Waits until what was told satisfies a condition.
    pub(crate) async fn wait_for(&self, what: &str, condition: impl Fn(&Seen) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let changed = self.changed.notified();
            if condition(&self.seen()) {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let in_time = tokio::time::timeout(left, changed).await;
            assert!(in_time.is_ok(), "waited in vain for {what}, saw {:?}", self.story());
        }
    }

    /// The changes as text: `key=value@revision` or `key gone`.
    pub(crate) fn story(&self) -> Vec<String> {
        self.seen().changes.iter().map(tell).collect()
    }

    /// The state that follows from the changes.
    pub(crate) fn state(&self) -> Vec<(String, String)> {
        let mut state = BTreeMap::new();
        for change in &self.seen().changes {
            match &change.kind {
                ChangeKind::Put(value) => state.insert(change.key.to_string(), text(value)),
                ChangeKind::Delete => state.remove(&*change.key),
            };
        }
        state.into_iter().collect()
    }
}

/// One change as text.
pub(crate) fn tell(change: &Change) -> String {
    match &change.kind {
        ChangeKind::Put(value) => format!("{}={}", change.key, text(value)),
        ChangeKind::Delete => format!("{} gone", change.key),
    }
}
