//! The recent changes of a collection, for watches that begin a little in the past.

use std::{collections::VecDeque, sync::Arc};

use lanyard_store::Revision;

use super::{Event, TooOld};

/// At most this many events are kept per collection: what upstream keeps at its largest is 102,400;
/// ours hold bytes rather than decoded objects, but the memory bound below bites first.
const MAX_EVENTS: usize = 50_000;

/// At most about this many bytes of superseded objects are kept per collection, so that a burst of
/// writes cannot grow the server without bound. Whoever resumes from further back lists again.
pub(super) const MAX_BYTES: usize = 32 << 20;

/// A window over the newest changes.
pub(super) struct History {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// All changes after this revision are in `events`.
    start: Revision,
}

impl History {
    pub(super) fn new(start: Revision) -> Self {
        Self { events: VecDeque::new(), bytes: 0, start }
    }

    pub(super) fn push(&mut self, event: Arc<Event>) {
        self.bytes += event.size();
        self.events.push_back(event);
        while self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.events.pop_front() else { break };
            self.bytes -= oldest.size();
            self.start = oldest.revision();
        }
    }

    /// The changes after a revision, if all of them are still here.
    pub(super) fn after(
        &self,
        revision: Revision,
    ) -> Result<impl Iterator<Item = &Arc<Event>>, TooOld> {
        if revision < self.start {
            return Err(TooOld { oldest: self.start });
        }
        let from = self.events.partition_point(|event| event.revision() <= revision);
        Ok(self.events.range(from..))
    }
}
