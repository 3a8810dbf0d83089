//! Who watches a collection, and the small queue of what each has yet to send.
//!
//! A change is pushed only to watchers whose scope contains it, so a watch on one name costs nothing
//! when other objects change. A watcher that does not keep up is cut off, never waited for.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    sync::Arc,
    task::{Poll, Waker},
};

use lanyard_store::Revision;
use parking_lot::Mutex;

use super::Event;

/// A watcher that has this many events waiting is not reading: it is cut off and may resume.
pub(super) const MAX_WAITING: usize = 1_000;

/// A watcher that has more bytes than this waiting is cut off too, so that large objects do not pile
/// up behind it: what waits are always the newest changes, hence all watchers of a collection
/// together hold about as much as one.
pub(super) const MAX_WAITING_BYTES: usize = 16 << 20;

/// How many events an idle watch keeps room for.
const IDLE_CAPACITY: usize = 16;

/// Which part of a collection is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// One namespace.
    Namespace(Arc<str>),
    /// One object, by its key.
    Object(Arc<str>),
}

impl Scope {
    /// Whether the key is in the scope.
    pub fn contains(&self, key: &str) -> bool {
        match self {
            Self::All => true,
            Self::Namespace(namespace) => {
                key.split_once('/').is_some_and(|(ns, _)| ns == &**namespace)
            }
            Self::Object(wanted) => key == &**wanted,
        }
    }

    /// The first key that the scope may have, and the first one behind it; nothing when there is none.
    pub fn key_range(&self) -> (Cow<'_, str>, Option<String>) {
        match self {
            Self::All => (Cow::Borrowed(""), None),
            // '0' comes next after '/'.
            Self::Namespace(namespace) => (self.key_prefix(), Some(format!("{namespace}0"))),
            Self::Object(key) => (Cow::Borrowed(key), Some(format!("{key}\0"))),
        }
    }

    /// What all keys of the scope begin with.
    pub fn key_prefix(&self) -> Cow<'_, str> {
        match self {
            Self::All => Cow::Borrowed(""),
            Self::Namespace(namespace) => Cow::Owned(format!("{namespace}/")),
            Self::Object(key) => Cow::Borrowed(key),
        }
    }
}

/// One watch: what it looks at, and what it has yet to send.
pub struct Watcher {
    /// What it looks at.
    pub scope: Scope,
    bookmarks: bool,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Arc<Event>>,
    /// About how much memory the events take.
    bytes: usize,
    /// What was waiting when the watch began, and does not count against its limits.
    backlog: Backlog,
    bookmark: Option<Revision>,
    closed: bool,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Default)]
struct Backlog {
    events: usize,
    bytes: usize,
}

/// What a watcher should do next.
pub enum Next {
    /// Send this event.
    Event(Arc<Event>),
    /// Nothing else happened up to this revision.
    Bookmark(Revision),
    /// End the stream.
    Closed,
}

impl Watcher {
    /// A watcher with nothing to send.
    pub fn new(scope: Scope, bookmarks: bool) -> Arc<Self> {
        Arc::new(Self { scope, bookmarks, queue: Mutex::default() })
    }

    /// The next thing to do, or a promise to wake `waker`.
    pub fn poll_next(&self, waker: &Waker) -> Poll<Next> {
        let mut queue = self.queue.lock();
        if let Some(event) = queue.pop() {
            return Poll::Ready(Next::Event(event));
        }
        if queue.closed {
            return Poll::Ready(Next::Closed);
        }
        if let Some(revision) = queue.bookmark.take() {
            return Poll::Ready(Next::Bookmark(revision));
        }
        if queue.waker.as_ref().is_none_or(|old| !old.will_wake(waker)) {
            queue.waker = Some(waker.clone());
        }
        Poll::Pending
    }

    /// Begins with events from before the watcher was registered.
    pub(super) fn begin(&self, events: impl Iterator<Item = Arc<Event>>) {
        let mut queue = self.queue.lock();
        events.for_each(|event| queue.push(event));
        queue.backlog = Backlog { events: queue.events.len(), bytes: queue.bytes };
    }

    pub(super) fn bookmark(&self, revision: Revision) {
        if self.bookmarks {
            self.change(|queue| queue.bookmark = Some(revision));
        }
    }

    pub(super) fn close(&self) {
        self.change(|queue| queue.closed = true);
    }

    fn push(&self, event: &Arc<Event>) {
        self.change(|queue| {
            if queue.closed {
                return;
            }
            queue.push(event.clone());
            if queue.overflows() {
                *queue = Queue { closed: true, waker: queue.waker.take(), ..Queue::default() };
            }
        });
    }

    fn change(&self, change: impl FnOnce(&mut Queue)) {
        let waker = {
            let mut queue = self.queue.lock();
            change(&mut queue);
            queue.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Queue {
    fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.size();
        self.events.push_back(event);
    }

    fn pop(&mut self) -> Option<Arc<Event>> {
        let event = self.events.pop_front()?;
        self.bytes -= event.size();
        if self.events.is_empty() {
            self.backlog = Backlog::default();
            // A burst must not make an idle watch expensive for ever.
            self.events.shrink_to(IDLE_CAPACITY);
        }
        Some(event)
    }

    /// A single event may be larger than the limit.
    fn overflows(&self) -> bool {
        let (events, bytes) = (self.events.len(), self.bytes);
        let limit = self.backlog;
        events > 1
            && (events > limit.events + MAX_WAITING || bytes > limit.bytes + MAX_WAITING_BYTES)
    }
}

/// All watchers of a collection, found by what they look at.
#[derive(Default)]
pub(super) struct Watchers {
    all: Vec<Arc<Watcher>>,
    by_namespace: HashMap<Arc<str>, Vec<Arc<Watcher>>>,
    by_object: HashMap<Arc<str>, Vec<Arc<Watcher>>>,
}

impl Watchers {
    pub(super) fn add(&mut self, watcher: &Arc<Watcher>) {
        let list = match &watcher.scope {
            Scope::All => &mut self.all,
            Scope::Namespace(namespace) => self.by_namespace.entry(namespace.clone()).or_default(),
            Scope::Object(key) => self.by_object.entry(key.clone()).or_default(),
        };
        list.push(watcher.clone());
    }

    pub(super) fn remove(&mut self, watcher: &Arc<Watcher>) {
        let (map, key) = match &watcher.scope {
            Scope::All => return remove_from(&mut self.all, watcher),
            Scope::Namespace(namespace) => (&mut self.by_namespace, namespace),
            Scope::Object(key) => (&mut self.by_object, key),
        };
        if let Some(list) = map.get_mut(key) {
            remove_from(list, watcher);
            if list.is_empty() {
                map.remove(key);
            }
        }
    }

    pub(super) fn tell(&self, event: &Arc<Event>) {
        let key = &*event.object.key;
        let namespace = key.split_once('/').map(|(namespace, _)| namespace);
        let in_namespace = namespace.and_then(|namespace| self.by_namespace.get(namespace));
        let lists = [Some(&self.all), in_namespace, self.by_object.get(key)];
        for watcher in lists.into_iter().flatten().flatten() {
            watcher.push(event);
        }
    }

    pub(super) fn each(&self, act: impl Fn(&Watcher)) {
        let named = self.by_namespace.values().chain(self.by_object.values());
        named.flatten().chain(&self.all).for_each(|watcher| act(watcher));
    }

    pub(super) fn len(&self) -> usize {
        let mut count = 0;
        let named = self.by_namespace.values().chain(self.by_object.values());
        named.chain([&self.all]).for_each(|list| count += list.len());
        count
    }
}

fn remove_from(list: &mut Vec<Arc<Watcher>>, watcher: &Arc<Watcher>) {
    if let Some(at) = list.iter().position(|w| Arc::ptr_eq(w, watcher)) {
        list.swap_remove(at);
    }
}
