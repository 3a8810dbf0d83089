//! The open watches, and telling them what was committed.

use std::sync::Arc;

use crate::{Change, Error, Revision, Sink, WatchEvent};

/// The open watches of the committer; all are told everything up to the same revision.
#[derive(Default)]
pub(crate) struct Watchers {
    open: Vec<Watcher>,
    next_id: u64,
}

struct Watcher {
    id: u64,
    prefix: String,
    sink: Arc<dyn Sink>,
}

impl Watchers {
    /// Adds a watch that already knows everything the others know; answers its number.
    pub(crate) fn add(&mut self, prefix: String, sink: Arc<dyn Sink>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.open.push(Watcher { id, prefix, sink });
        id
    }

    /// Forgets a watch.
    pub(crate) fn remove(&mut self, id: u64) {
        self.open.retain(|watcher| watcher.id != id);
    }

    /// Tells every watch the changes under its prefix, which go through revision `head`.
    pub(crate) fn tell(&self, changes: &[Change], head: Revision) {
        for watcher in &self.open {
            tell(&*watcher.sink, &watcher.prefix, changes, head);
        }
    }

    /// Ends every watch.
    pub(crate) fn end(&mut self, error: &Error) {
        for watcher in self.open.drain(..) {
            watcher.sink.event(WatchEvent::Ended(error.clone()));
        }
    }
}

/// Tells a sink the changes under a prefix, then that it knows everything through `head`.
pub(crate) fn tell(sink: &dyn Sink, prefix: &str, changes: &[Change], head: Revision) {
    let mut told = Revision(0);
    // Runs of changes under the prefix are handed over where they are, so nothing is copied.
    for run in changes.chunk_by(|a, b| a.key.starts_with(prefix) == b.key.starts_with(prefix)) {
        if let [first, .., last] | [first @ last] = run
            && first.key.starts_with(prefix)
        {
            sink.event(WatchEvent::Changes(run));
            told = last.revision;
        }
    }
    if told < head {
        sink.event(WatchEvent::Progress(head));
    }
}
