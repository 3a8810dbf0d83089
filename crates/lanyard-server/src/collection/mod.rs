//! All objects of one type in memory, always as new as the store, with recent history and its watchers.
//!
//! A collection is a [`Sink`] of one store watch. Reads never touch the store: after
//! `Store::caught_up` the collection holds every write acknowledged before. Each change is turned into
//! one shared [`Event`] whose bytes all watchers send.

mod event;
mod history;
#[cfg(test)]
mod tests;
mod watcher;

use std::{
    collections::{BTreeMap, btree_map},
    ops::Bound,
    sync::Arc,
};

use lanyard_store::{
    Change, ChangeKind, Error, RangeQuery, Revision, Sink, Store, Watch, WatchEvent,
};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

pub use event::{Event, EventKind, frame};
pub use watcher::{Next, Scope, Watcher};

use crate::{
    encoded::{Codec, Encoded, Undecodable},
    resource::Resource,
};
use history::History;
use watcher::Watchers;

/// The live state of one resource type.
pub struct Collection {
    /// What is collected.
    pub resource: Arc<Resource>,
    /// How its objects become bytes.
    pub codec: Codec,
    /// The storage prefix of all its keys, ending in `/`.
    pub prefix: String,
    state: RwLock<State>,
    feed: Mutex<Option<Watch>>,
    lost: Notify,
    observers: RwLock<Vec<Observer>>,
}

/// Called with every change, in order; must be quick.
pub type Observer = Box<dyn Fn(&Event) + Send + Sync>;

struct State {
    objects: BTreeMap<Arc<str>, Arc<Encoded>>,
    /// The newest change of this collection.
    changed: Revision,
    history: History,
    watchers: Watchers,
    /// The type is served by another collection, or no longer.
    retired: bool,
}

/// A consistent piece of a collection.
pub struct Page {
    /// The objects, in key order.
    pub objects: Vec<Arc<Encoded>>,
    /// How many objects after the last one the limit left out.
    pub remaining: usize,
}

/// Why a watch could not begin where it was asked to.
#[derive(Debug, PartialEq, Eq)]
pub struct TooOld {
    /// The oldest revision that a watch can begin after.
    pub oldest: Revision,
}

impl Collection {
    /// An empty collection that is not yet fed; call [`Collection::load`].
    pub fn new(resource: Arc<Resource>) -> Arc<Self> {
        // Nothing that somebody calls a custom type can reach the objects of a built-in one.
        let place = if resource.is_custom() { "registry/custom" } else { "registry" };
        let prefix = format!("{place}/{}/", resource.storage);
        Arc::new(Self {
            codec: Codec::new(resource.clone()),
            resource,
            prefix,
            state: RwLock::new(State {
                objects: BTreeMap::new(),
                changed: Revision(0),
                history: History::new(Revision(0)),
                watchers: Watchers::default(),
                retired: false,
            }),
            feed: Mutex::new(None),
            lost: Notify::new(),
            observers: RwLock::new(Vec::new()),
        })
    }

    /// Reads the whole state and follows the changes after it.
    pub async fn load(self: &Arc<Self>, store: &Store) -> Result<(), Error> {
        let query = RangeQuery { prefix: self.prefix.clone(), ..RangeQuery::default() };
        let range = store.range(query).await?;
        self.replace(&range.entries, range.revision);
        let watch = store.watch(&self.prefix, range.revision, self.clone()).await?;
        *self.feed.lock() = Some(watch);
        Ok(())
    }

    /// Ends all watches for good and stops following the store: the type is served by another collection,
    /// or no longer.
    pub fn retire(&self) {
        let mut state = self.state.write();
        state.retired = true;
        state.watchers.each(Watcher::close);
        drop(state);
        self.unload();
    }

    /// Stops following the store.
    pub fn unload(&self) {
        self.feed.lock().take();
    }

    /// Waits until the feed broke; the collection must then be loaded again.
    pub async fn lost(&self) {
        self.lost.notified().await;
    }

    /// Lets `observer` see every object that is there as an addition, and every change from now on.
    pub fn observe(&self, observer: Observer) {
        let state = self.state.write();
        for object in state.objects.values() {
            observer(&Event::new(EventKind::Added, object.clone(), None));
        }
        self.observers.write().push(observer);
    }

    /// The object with this key (`namespace/name` or `name`).
    pub fn get(&self, key: &str) -> Option<Arc<Encoded>> {
        self.state.read().objects.get(key).cloned()
    }

    /// Up to `limit` objects of `scope` from `start` on that `select` takes, and the newest revision
    /// that changed the collection.
    pub fn list(
        &self,
        scope: &Scope,
        start: Option<&str>,
        limit: Option<usize>,
        select: impl Fn(&Encoded) -> bool,
    ) -> (Page, Revision) {
        let state = self.state.read();
        let mut page = Page { objects: Vec::new(), remaining: 0 };
        let mut rest = range(&state.objects, scope, start);
        let full = |page: &Page| limit.is_some_and(|limit| page.objects.len() >= limit);
        while !full(&page) {
            match rest.next() {
                Some((_, object)) if select(object) => page.objects.push(object.clone()),
                Some(_) => {}
                None => break,
            }
        }
        page.remaining = rest.filter(|(_, object)| select(object)).count();
        (page, state.changed)
    }

    /// Begins to watch after a revision.
    pub fn watch_after(&self, after: Revision, watcher: &Arc<Watcher>) -> Result<(), TooOld> {
        let mut state = self.state.write();
        let missed = state.history.after(after)?;
        watcher.begin(missed.filter(|event| watcher.scope.contains(&event.object.key)).cloned());
        state.add_watcher(watcher);
        Ok(())
    }

    /// Begins to watch from now: the present objects of the watcher's scope, and the revision of the
    /// newest change.
    pub fn watch_from_now(&self, watcher: &Arc<Watcher>) -> (Vec<Arc<Encoded>>, Revision) {
        let mut state = self.state.write();
        let objects = range(&state.objects, &watcher.scope, None).map(|(_, o)| o.clone()).collect();
        state.add_watcher(watcher);
        (objects, state.changed)
    }

    /// Ends a watch.
    pub fn unwatch(&self, watcher: &Arc<Watcher>) {
        self.state.write().watchers.remove(watcher);
    }

    /// Tells watchers that nothing else happened up to `revision`.
    pub fn bookmark(&self, revision: Revision) {
        self.state.read().watchers.each(|watcher| watcher.bookmark(revision));
    }

    /// Ends all watches: the server is draining.
    pub fn close_watchers(&self) {
        self.state.read().watchers.each(Watcher::close);
    }

    /// How many objects, how many watchers.
    pub fn counts(&self) -> (usize, usize) {
        let state = self.state.read();
        (state.objects.len(), state.watchers.len())
    }

    /// Takes a whole new state: at the start, and when the feed broke.
    fn replace(&self, entries: &[lanyard_store::Entry], revision: Revision) {
        let decode = |entry: &lanyard_store::Entry| {
            let key = entry.key.strip_prefix(&self.prefix)?;
            let renewed = self.codec.renew(key.into(), &entry.value, entry.revision);
            let object = self.readable(renewed)?;
            Some((object.key.clone(), Arc::new(object)))
        };
        let objects: BTreeMap<_, _> = entries.iter().filter_map(decode).collect();
        let mut state = self.state.write();
        let gone: Vec<_> =
            state.objects.values().filter(|o| !objects.contains_key(&o.key)).cloned().collect();
        for old in gone {
            let last = Arc::new(old.at_revision(revision));
            self.tell(&Event::new(EventKind::Deleted, last, Some(old)));
        }
        for object in objects.values() {
            let old = state.objects.get(&object.key).cloned();
            if old.as_ref().is_none_or(|old| old.revision != object.revision) {
                self.tell(&Event::changed(object.clone(), old));
            }
        }
        state.objects = objects;
        state.changed = revision;
        state.history = History::new(revision);
        // Those who were watching across the gap cannot be told what they missed: they begin anew.
        state.watchers.each(Watcher::close);
    }

    fn apply(&self, changes: &[Change]) {
        // Decoding is the costly part: done before the lock is taken.
        let decoded: Vec<_> = changes
            .iter()
            .map(|change| match &change.kind {
                ChangeKind::Put(value) => {
                    self.decode(&change.key, value, change.revision).map(Arc::new)
                }
                ChangeKind::Delete => None,
            })
            .collect();
        let mut state = self.state.write();
        for (change, object) in changes.iter().zip(decoded) {
            state.changed = change.revision;
            let Some(event) = state.event(&self.prefix, change, object) else { continue };
            self.tell(&event);
            state.watchers.tell(&event);
            state.history.push(event);
        }
    }

    fn tell(&self, event: &Event) {
        for observer in self.observers.read().iter() {
            observer(event);
        }
    }

    /// An object that cannot be read is left out and logged, so that one bad key does not take the
    /// whole type down.
    fn decode(&self, key: &str, value: &[u8], revision: Revision) -> Option<Encoded> {
        let key = key.strip_prefix(&self.prefix)?;
        self.readable(self.codec.decode(key.into(), value, revision))
    }

    fn readable(&self, decoded: Result<Encoded, Undecodable>) -> Option<Encoded> {
        decoded
            .inspect_err(|error: &Undecodable| tracing::error!(%error, "skipping an object"))
            .ok()
    }
}

/// The objects of a scope, from a key on.
fn range<'a>(
    objects: &'a BTreeMap<Arc<str>, Arc<Encoded>>,
    scope: &Scope,
    start: Option<&str>,
) -> btree_map::Range<'a, Arc<str>, Arc<Encoded>> {
    let (first, end) = scope.key_range();
    let first = start.filter(|start| **start > *first).unwrap_or(&first);
    match &end {
        // A start behind the end selects nothing; the map does not take such a range.
        Some(end) => {
            let first = first.min(end.as_str());
            objects.range::<str, _>((Bound::Included(first), Bound::Excluded(end.as_str())))
        }
        None => objects.range::<str, _>((Bound::Included(first), Bound::Unbounded)),
    }
}

impl State {
    /// A watch that comes too late ends after what there is to send.
    fn add_watcher(&mut self, watcher: &Arc<Watcher>) {
        self.watchers.add(watcher);
        if self.retired {
            watcher.close();
        }
    }

    /// Applies one change to the objects, and says what happened.
    fn event(
        &mut self,
        prefix: &str,
        change: &Change,
        object: Option<Arc<Encoded>>,
    ) -> Option<Arc<Event>> {
        let event = match (object, &change.kind) {
            (Some(object), _) => {
                let old = self.objects.insert(object.key.clone(), object.clone());
                Event::changed(object, old)
            }
            (None, ChangeKind::Delete) => {
                let old = self.objects.remove(change.key.strip_prefix(prefix)?)?;
                let last = Arc::new(old.at_revision(change.revision));
                Event::new(EventKind::Deleted, last, Some(old))
            }
            (None, ChangeKind::Put(_)) => return None,
        };
        Some(Arc::new(event))
    }
}

impl Sink for Collection {
    fn event(&self, event: WatchEvent<'_>) {
        match event {
            WatchEvent::Changes(changes) => self.apply(changes),
            WatchEvent::Progress(_) => {}
            WatchEvent::Ended(error) => {
                tracing::warn!(%error, prefix = self.prefix, "the store watch ended, reading anew");
                self.lost.notify_one();
            }
        }
    }
}
