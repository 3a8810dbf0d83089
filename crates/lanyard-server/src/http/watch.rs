//! A watch as a response body: what is already there, then every event as it happens.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use lanyard_store::Revision;
use tokio::time::{Instant, Sleep};

use super::Presentation;
use crate::{
    collection::{Event, EventKind, Next, Watcher},
    encoded::Encoded,
    registry::WatchStart,
    request::ListOptions,
};

/// Waiting events are sent together up to about this many bytes.
const CHUNK: usize = 64 << 10;

/// A last bookmark is sent this long before a watch ends by its timeout.
const FAREWELL: Duration = Duration::from_secs(2);

/// What a watch body is made of.
pub struct WatchParts {
    /// Where it begins.
    pub start: WatchStart,
    /// How events look.
    pub presentation: Presentation,
    /// What is selected.
    pub options: ListOptions,
    /// When it ends.
    pub timeout: Duration,
}

/// The body of a watch response.
pub struct WatchBody {
    watcher: Arc<Watcher>,
    presentation: Presentation,
    options: ListOptions,
    initial: std::vec::IntoIter<Arc<Encoded>>,
    initial_end: Option<Revision>,
    /// Changes up to this revision are not sent.
    after: Revision,
    /// The newest revision that the client knows of.
    seen: Revision,
    sent_any: bool,
    selective: bool,
    timer: Pin<Box<Sleep>>,
    end: Instant,
    closed: bool,
}

impl WatchBody {
    /// The body of a watch that has begun.
    pub fn new(parts: WatchParts) -> Self {
        let WatchParts { start, presentation, options, timeout } = parts;
        let end = Instant::now() + timeout;
        let farewell = options.bookmarks && timeout > FAREWELL;
        let wake = if farewell { end - FAREWELL } else { end };
        Self {
            selective: !options.labels.is_empty() || !options.fields.is_empty(),
            watcher: start.watcher,
            presentation,
            options,
            initial: start.initial.into_iter(),
            initial_end: start.initial_end,
            after: start.after,
            seen: start.after,
            sent_any: false,
            timer: Box::pin(tokio::time::sleep_until(wake)),
            end,
            closed: false,
        }
    }

    /// The next bytes to send.
    pub fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut chunk = Chunk::default();
        while chunk.len() < CHUNK {
            match self.poll_event(context) {
                Poll::Ready(Some(bytes)) => chunk.push(bytes),
                Poll::Ready(None) => {
                    self.closed = true;
                    break;
                }
                Poll::Pending => break,
            }
        }
        match chunk.finish() {
            Some(bytes) => Poll::Ready(Some(bytes)),
            None if self.closed => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    /// The bytes of the next event; nothing at the end of the stream.
    pub fn poll_event(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.closed {
            return Poll::Ready(None);
        }
        while let Some(object) = self.initial.next() {
            if self.options.selects(&object, self.presentation.endpoint.resource()) {
                return Poll::Ready(Some(self.present(EventKind::Added, &object)));
            }
        }
        if let Some(revision) = self.initial_end.take() {
            self.seen = self.seen.max(revision);
            return Poll::Ready(Some(self.bookmark(true)));
        }
        loop {
            match self.watcher.poll_next(context.waker()) {
                Poll::Ready(Next::Event(event)) => {
                    if let Some(bytes) = self.event(&event) {
                        return Poll::Ready(Some(bytes));
                    }
                }
                Poll::Ready(Next::Bookmark(revision)) => {
                    self.seen = self.seen.max(revision);
                    return Poll::Ready(Some(self.bookmark(false)));
                }
                Poll::Ready(Next::Closed) => return Poll::Ready(None),
                Poll::Pending => return self.poll_timer(context),
            }
        }
    }

    /// Near the end: a farewell bookmark, then the end.
    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if self.timer.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        if Instant::now() >= self.end {
            return Poll::Ready(None);
        }
        self.timer.as_mut().reset(self.end);
        // Registers the waker for the new time; the bookmark below is sent in any case.
        let _ = self.timer.as_mut().poll(context);
        Poll::Ready(Some(self.bookmark(false)))
    }

    fn event(&mut self, event: &Event) -> Option<Bytes> {
        // Compared with the start and not with the last event: some changes share one revision.
        if event.revision() <= self.after {
            return None;
        }
        self.seen = self.seen.max(event.revision());
        if !self.selective {
            return Some(self.whole(event));
        }
        let resource = self.presentation.endpoint.resource();
        let (kind, object) = event.seen_by(|object| self.options.selects(object, resource))?;
        if kind == event.kind && Arc::ptr_eq(&object, &event.object) {
            return Some(self.whole(event));
        }
        Some(self.present(kind, &object))
    }

    /// An event as it is: in the bytes that all watchers share, if they are for this one.
    fn whole(&mut self, event: &Event) -> Bytes {
        match self.presentation.shared_frame(event) {
            Some(frame) => {
                self.sent_any = true;
                frame
            }
            None => self.present(event.kind, &event.object),
        }
    }

    fn present(&mut self, kind: EventKind, object: &Encoded) -> Bytes {
        let first = !std::mem::replace(&mut self.sent_any, true);
        self.presentation.event(kind, object, first)
    }

    fn bookmark(&mut self, initial_end: bool) -> Bytes {
        let first = !std::mem::replace(&mut self.sent_any, true);
        self.presentation.bookmark(self.seen, initial_end, first)
    }
}

impl Drop for WatchBody {
    fn drop(&mut self) {
        self.presentation.endpoint.collection.unwatch(&self.watcher);
    }
}

/// Collects events; a single one is passed on without a copy.
#[derive(Default)]
struct Chunk {
    first: Option<Bytes>,
    joined: BytesMut,
}

impl Chunk {
    fn len(&self) -> usize {
        self.joined.len() + self.first.as_ref().map_or(0, Bytes::len)
    }

    fn push(&mut self, bytes: Bytes) {
        if self.joined.is_empty() && self.first.is_none() {
            self.first = Some(bytes);
            return;
        }
        if let Some(first) = self.first.take() {
            self.joined.extend_from_slice(&first);
        }
        self.joined.extend_from_slice(&bytes);
    }

    fn finish(self) -> Option<Bytes> {
        self.first.or_else(|| (!self.joined.is_empty()).then(|| self.joined.freeze()))
    }
}

#[cfg(test)]
mod tests;
