//! A queue of things to look at: each waits at most once, and may come back later.
//!
//! It takes things only while somebody works on them: a server that does not lead keeps no queue.

use std::{
    collections::{HashSet, VecDeque},
    hash::Hash,
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A queue that many may add to and one takes from.
pub(super) struct Queue<T>(Arc<Inner<T>>);

struct Inner<T> {
    waiting: Mutex<Waiting<T>>,
    added: Notify,
}

struct Waiting<T> {
    open: bool,
    order: VecDeque<T>,
    known: HashSet<T>,
}

/// While this lives, the queue takes things.
pub(super) struct Opened<'a, T>(&'a Queue<T>);

impl<T> Clone for Queue<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone + Eq + Hash + Send + 'static> Queue<T> {
    pub(super) fn new() -> Self {
        let waiting = Waiting { open: false, order: VecDeque::new(), known: HashSet::new() };
        Self(Arc::new(Inner { waiting: Mutex::new(waiting), added: Notify::new() }))
    }

    /// Begins to take things. Whoever opens the queue adds what there is to do already.
    pub(super) fn open(&self) -> Opened<'_, T> {
        self.0.waiting.lock().open = true;
        Opened(self)
    }

    /// Adds an item, unless it waits already.
    pub(super) fn add(&self, item: T) {
        let mut waiting = self.0.waiting.lock();
        if waiting.open && waiting.known.insert(item.clone()) {
            waiting.order.push_back(item);
            self.0.added.notify_one();
        }
    }

    /// Adds an item after a while.
    pub(super) fn add_later(&self, item: T, delay: Duration) {
        let queue = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            queue.add(item);
        });
    }

    /// The next item.
    pub(super) async fn next(&self) -> T {
        loop {
            if let Some(item) = self.take() {
                return item;
            }
            self.0.added.notified().await;
        }
    }

    fn take(&self) -> Option<T> {
        let mut waiting = self.0.waiting.lock();
        let item = waiting.order.pop_front()?;
        waiting.known.remove(&item);
        Some(item)
    }
}

impl<T> Drop for Opened<'_, T> {
    fn drop(&mut self) {
        let mut waiting = self.0.0.waiting.lock();
        *waiting = Waiting { open: false, order: VecDeque::new(), known: HashSet::new() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_open_queue_takes_things_and_each_once() {
        let queue = Queue::new();
        queue.add("before");
        let open = queue.open();
        for item in ["a", "b", "a"] {
            queue.add(item);
        }
        assert_eq!(queue.take(), Some("a"));
        queue.add("a");
        assert_eq!([queue.take(), queue.take(), queue.take()], [Some("b"), Some("a"), None]);
        queue.add("left over");
        drop(open);
        let _open = queue.open();
        assert_eq!(queue.take(), None);
    }
}
