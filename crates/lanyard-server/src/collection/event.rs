//! One change of one object, with the bytes that every watcher of it sends.

use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use lanyard_store::Revision;

use crate::encoded::Encoded;

/// What happened to one object.
pub struct Event {
    /// What happened, as somebody who selects everything sees it.
    pub kind: EventKind,
    /// The object after the change; for a deletion its last state at the revision of the deletion.
    pub object: Arc<Encoded>,
    /// The object before the change.
    pub previous: Option<Arc<Encoded>>,
    frame: OnceLock<Bytes>,
    protobuf_frame: OnceLock<Bytes>,
    size: usize,
}

/// The kinds of watch events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
    Bookmark,
    Error,
}

impl EventKind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }
}

impl Event {
    /// An event.
    pub fn new(kind: EventKind, object: Arc<Encoded>, previous: Option<Arc<Encoded>>) -> Self {
        let size = object.size() + previous.as_ref().map_or(0, |previous| previous.size());
        let (frame, protobuf_frame) = (OnceLock::new(), OnceLock::new());
        Self { kind, object, previous, frame, protobuf_frame, size }
    }

    /// The event of a put.
    pub fn changed(object: Arc<Encoded>, previous: Option<Arc<Encoded>>) -> Self {
        let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
        Self::new(kind, object, previous)
    }

    /// The revision of the change.
    pub fn revision(&self) -> Revision {
        self.object.revision
    }

    /// What a watcher sees who selects only some objects: one that starts to match is added, one that
    /// stops to match is deleted (its last matching state, at the revision of the change).
    pub fn seen_by(&self, selects: impl Fn(&Encoded) -> bool) -> Option<(EventKind, Arc<Encoded>)> {
        let before = self.previous.as_deref().is_some_and(&selects);
        let now = self.kind != EventKind::Deleted && selects(&self.object);
        match (before, now) {
            (false, false) => None,
            (false, true) => Some((EventKind::Added, self.object.clone())),
            (true, true) => Some((EventKind::Modified, self.object.clone())),
            (true, false) if self.kind == EventKind::Deleted => {
                Some((EventKind::Deleted, self.object.clone()))
            }
            (true, false) => {
                let last = self.previous.as_ref()?.at_revision(self.object.revision);
                Some((EventKind::Deleted, Arc::new(last)))
            }
        }
    }

    /// The bytes of this event for those who select everything in the stored form; made once.
    pub fn frame(&self) -> &Bytes {
        self.frame.get_or_init(|| frame(self.kind, self.object.json()))
    }

    /// The same in protobuf, around the object's message, which `make` makes.
    pub fn protobuf_frame(&self, make: impl FnOnce(&Encoded) -> Bytes) -> &Bytes {
        self.protobuf_frame.get_or_init(|| make(&self.object))
    }

    /// About how much memory this keeps alive beyond the live objects, its frame included. Found out once: queues
    /// add it and take it away again, while the objects grow by a message when somebody asks for protobuf.
    pub fn size(&self) -> usize {
        self.size
    }
}

/// The bytes of one watch event with a ready-made object.
pub fn frame(kind: EventKind, object: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(object.len() + 40);
    bytes.put_slice(b"{\"type\":\"");
    bytes.put_slice(kind.as_str().as_bytes());
    bytes.put_slice(b"\",\"object\":");
    bytes.put_slice(object);
    bytes.put_slice(b"}\n");
    bytes.freeze()
}
