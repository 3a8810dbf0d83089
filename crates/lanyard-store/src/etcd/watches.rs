//! The open watches of one etcd store, without the connection: what each knows, and what an answer
//! of etcd means to it.
//!
//! A watch remembers the revision up to which its sink knows everything. On a new connection it
//! asks for what comes after that, and so neither loses nor repeats a change.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{
    keys::Keys,
    newest::Answer,
    rpc::{
        Event, WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest,
        WatchResponse, WatchUnion, revision,
    },
};
use crate::{Change, ChangeKind, Error, Result, Revision, Sink, WatchEvent};

/// Announces on behalf of all watches of a stream.
const ALL_WATCHES: i64 = -1;

/// The open watches, by the numbers we gave them.
pub(super) struct Watches {
    keys: Keys,
    open: HashMap<i64, Open>,
    waiting: Vec<Waiting>,
}

struct Open {
    prefix: String,
    sink: Arc<dyn Sink>,
    /// The sink knows every change up to this one.
    through: Revision,
    /// Changes of one revision whose others are still to come.
    held: Vec<Change>,
    /// Whether the present stream serves it.
    live: bool,
    /// Who waits for it to be served for the first time.
    opener: Option<oneshot::Sender<Result<()>>>,
}

/// Some who wait for all watches to know a revision.
struct Waiting {
    target: Revision,
    answers: Vec<Answer>,
}

impl Watches {
    /// No watches.
    pub(super) fn new(keys: Keys) -> Self {
        Self { keys, open: HashMap::new(), waiting: Vec::new() }
    }

    /// Adds a watch; answers what to ask etcd.
    pub(super) fn open(
        &mut self,
        id: i64,
        prefix: String,
        after: Revision,
        sink: Arc<dyn Sink>,
        opener: oneshot::Sender<Result<()>>,
    ) -> WatchRequest {
        let opener = Some(opener);
        let open = Open { prefix, sink, through: after, held: Vec::new(), live: false, opener };
        let request = self.create(id, &open);
        self.open.insert(id, open);
        request
    }

    /// Forgets a watch; answers what to tell etcd.
    pub(super) fn close(&mut self, id: i64) -> Option<WatchRequest> {
        self.open.remove(&id)?;
        self.answer_waiting();
        Some(ask(WatchUnion::Cancel(WatchCancelRequest { watch_id: id })))
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// What to ask a new stream.
    pub(super) fn resume(&mut self) -> Vec<WatchRequest> {
        for open in self.open.values_mut() {
            open.live = false;
            // They come again, whole.
            open.held.clear();
        }
        self.open.iter().map(|(id, open)| self.create(*id, open)).collect()
    }

    /// Waits until all watches know a revision.
    pub(super) fn wait(&mut self, target: Revision, answers: Vec<Answer>) {
        self.waiting.push(Waiting { target, answers });
        self.answer_waiting();
    }

    /// What to ask if somebody waits for a revision that not all watches know.
    pub(super) fn progress_request(&mut self) -> Option<WatchRequest> {
        self.waiting.retain(|waiting| waiting.answers.iter().any(|answer| !answer.is_closed()));
        (!self.waiting.is_empty()).then(|| ask(WatchUnion::Progress(WatchProgressRequest {})))
    }

    /// Takes in an answer of etcd.
    pub(super) fn take(&mut self, response: WatchResponse) {
        let header = Revision(revision(response.header).unsigned_abs());
        if response.watch_id == ALL_WATCHES {
            if response.created {
                // A watch was refused without saying which: they all asked the same way.
                return self.refuse_opening(&response.cancel_reason);
            }
            for open in self.open.values_mut().filter(|open| open.live) {
                open.progress(header);
            }
            return self.answer_waiting();
        }
        let Some(open) = self.open.get_mut(&response.watch_id) else {
            return;
        };
        if response.created {
            open.live = true;
            if let Some(opener) = open.opener.take() {
                let _ = opener.send(Ok(()));
            }
        }
        if response.canceled {
            return self.cancelled(&response);
        }
        if !response.created && response.events.is_empty() {
            open.progress(header);
        } else if let Err(error) = open.changes(&self.keys, response.events, response.fragment) {
            open.sink.event(WatchEvent::Ended(error));
            self.open.remove(&response.watch_id);
        }
        self.answer_waiting();
    }

    /// Ends the watches that know more than etcd does: it lost data, or was restored from a backup.
    pub(super) fn end_beyond(&mut self, newest: Revision) {
        self.open.retain(|_, open| {
            if open.through > newest {
                open.end(Error::Compacted { requested: open.through, oldest: newest });
            }
            open.through <= newest
        });
        self.answer_waiting();
    }

    /// Ends all watches.
    pub(super) fn end(&mut self, error: &Error) {
        for (_, mut open) in self.open.drain() {
            open.end(error.clone());
        }
        self.waiting.clear();
    }

    fn create(&self, id: i64, open: &Open) -> WatchRequest {
        let (key, range_end) = self.keys.range(&open.prefix);
        ask(WatchUnion::Create(WatchCreateRequest {
            key,
            range_end,
            start_revision: (open.through.0 + 1).cast_signed(),
            progress_notify: true,
            watch_id: id,
            fragment: true,
        }))
    }

    fn cancelled(&mut self, response: &WatchResponse) {
        let Some(mut open) = self.open.remove(&response.watch_id) else {
            return;
        };
        let oldest = Revision(response.compact_revision.unsigned_abs());
        open.end(match oldest {
            Revision(0) => {
                Error::Unavailable(format!("etcd ended a watch: {}", response.cancel_reason))
            }
            _ => Error::Compacted { requested: open.through, oldest },
        });
        self.answer_waiting();
    }

    fn refuse_opening(&mut self, reason: &str) {
        let error = Error::Unavailable(format!("etcd refused a watch: {reason}"));
        self.open.retain(|_, open| {
            if !open.live {
                open.end(error.clone());
            }
            open.live
        });
        self.answer_waiting();
    }

    fn answer_waiting(&mut self) {
        let known = self.open.values().map(|open| open.through).min();
        let known = known.unwrap_or(Revision(u64::MAX));
        for waiting in self.waiting.extract_if(.., |waiting| waiting.target <= known) {
            for answer in waiting.answers {
                let _ = answer.send(Ok(waiting.target));
            }
        }
    }
}

impl Open {
    fn progress(&mut self, revision: Revision) {
        if revision > self.through {
            self.through = revision;
            self.sink.event(WatchEvent::Progress(revision));
        }
    }

    /// Tells the sink of changes; those of the last revision only when all of them are there.
    fn changes(&mut self, keys: &Keys, events: Vec<Event>, more_follow: bool) -> Result<()> {
        let mut changes = std::mem::take(&mut self.held);
        for event in events {
            changes.push(change(keys, event)?);
        }
        // A stream that was resumed begins where we asked it to; still, never tell twice.
        changes.retain(|change| change.revision > self.through);
        if more_follow && let Some(last) = changes.last() {
            let last = last.revision;
            let whole = changes.partition_point(|change| change.revision < last);
            self.held = changes.split_off(whole);
        }
        if let Some(last) = changes.last() {
            self.through = last.revision;
            self.sink.event(WatchEvent::Changes(&changes));
        }
        Ok(())
    }

    fn end(&mut self, error: Error) {
        match self.opener.take() {
            // Who opens it hears of the error there.
            Some(opener) => drop(opener.send(Err(error))),
            None => self.sink.event(WatchEvent::Ended(error)),
        }
    }
}

fn change(keys: &Keys, event: Event) -> Result<Change> {
    let kv = event.kv.unwrap_or_default();
    let kind = match event.kind {
        0 => ChangeKind::Put(Bytes::from(kv.value)),
        _ => ChangeKind::Delete,
    };
    let revision = Revision(kv.mod_revision.unsigned_abs());
    Ok(Change { key: keys.ours(&kv.key)?, revision, kind })
}

fn ask(union: WatchUnion) -> WatchRequest {
    WatchRequest { union: Some(union) }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::{
        super::rpc::{KeyValue, ResponseHeader},
        *,
    };

    /// Writes down what it is told.
    #[derive(Default)]
    struct Told(Mutex<Vec<String>>);

    impl Sink for Told {
        fn event(&self, event: WatchEvent<'_>) {
            let mut told = self.0.lock();
            match event {
                WatchEvent::Changes(changes) => {
                    let changes = changes.iter().map(|c| format!("{}@{}", c.key, c.revision));
                    told.push(changes.collect::<Vec<_>>().join(" "));
                }
                WatchEvent::Progress(revision) => told.push(format!("through {revision}")),
                WatchEvent::Ended(error) => told.push(format!("ended: {error}")),
            }
        }
    }

    struct Fixture {
        watches: Watches,
        told: Arc<Told>,
        opened: oneshot::Receiver<Result<()>>,
    }

    /// One watch with number 7 after revision 10, which etcd has yet to confirm.
    fn fixture() -> Fixture {
        let mut watches = Watches::new(Keys::below("/ours"));
        let told = Arc::new(Told::default());
        let (answer, opened) = oneshot::channel();
        let request = watches.open(7, "a".to_owned(), Revision(10), told.clone(), answer);
        assert_eq!(start_of(&request), Some((7, 11)));
        Fixture { watches, told, opened }
    }

    fn start_of(request: &WatchRequest) -> Option<(i64, i64)> {
        match request.union.as_ref()? {
            WatchUnion::Create(create) => Some((create.watch_id, create.start_revision)),
            _ => None,
        }
    }

    fn response(watch_id: i64, revision: i64) -> WatchResponse {
        let header = Some(ResponseHeader { revision });
        WatchResponse { header, watch_id, ..WatchResponse::default() }
    }

    fn created(watch_id: i64) -> WatchResponse {
        WatchResponse { created: true, ..response(watch_id, 99) }
    }

    /// Changes of keys at revisions; `more` says that a fragment follows.
    fn changes(events: &[(&str, i64)], more: bool) -> WatchResponse {
        let event = |(key, revision): &(&str, i64)| Event {
            kind: 1,
            kv: Some(KeyValue {
                key: format!("/ours/{key}").into_bytes(),
                mod_revision: *revision,
                value: Vec::new(),
            }),
        };
        let events = events.iter().map(event).collect();
        WatchResponse { events, fragment: more, ..response(7, 99) }
    }

    fn check_told(fixture: &Fixture, expected: &[&str]) {
        assert_eq!(*fixture.told.0.lock(), expected);
    }

    #[test]
    fn a_watch_tells_changes_and_progress() {
        let mut fixture = fixture();
        assert!(fixture.opened.try_recv().is_err());
        fixture.watches.take(created(7));
        assert!(matches!(fixture.opened.try_recv(), Ok(Ok(()))));
        fixture.watches.take(changes(&[("a", 11), ("ab", 13)], false));
        fixture.watches.take(response(7, 15));
        fixture.watches.take(response(ALL_WATCHES, 17));
        check_told(&fixture, &["a@11 ab@13", "through 15", "through 17"]);
        let again = fixture.watches.resume();
        assert_eq!(again.iter().map(start_of).collect::<Vec<_>>(), [Some((7, 18))]);
    }

    #[test]
    fn progress_of_all_is_not_for_a_watch_that_is_not_served_yet() {
        // Its changes may still be on the way.
        let mut fixture = fixture();
        fixture.watches.take(response(ALL_WATCHES, 17));
        fixture.watches.take(created(7));
        fixture.watches.take(changes(&[("a", 16)], false));
        check_told(&fixture, &["a@16"]);
    }

    #[test]
    fn changes_of_one_revision_are_told_together() {
        let mut fixture = fixture();
        fixture.watches.take(created(7));
        fixture.watches.take(changes(&[("a1", 11), ("a2", 12)], true));
        fixture.watches.take(changes(&[("a3", 12), ("a4", 12)], true));
        check_told(&fixture, &["a1@11"]);
        fixture.watches.take(changes(&[("a5", 12)], false));
        check_told(&fixture, &["a1@11", "a2@12 a3@12 a4@12 a5@12"]);
    }

    #[test]
    fn a_revision_cut_in_two_by_a_broken_stream_is_told_once() {
        let mut fixture = fixture();
        fixture.watches.take(created(7));
        fixture.watches.take(changes(&[("a1", 11), ("a2", 12)], true));
        let again = fixture.watches.resume();
        assert_eq!(again.iter().map(start_of).collect::<Vec<_>>(), [Some((7, 12))]);
        fixture.watches.take(created(7));
        fixture.watches.take(changes(&[("a2", 12), ("a3", 12)], false));
        check_told(&fixture, &["a1@11", "a2@12 a3@12"]);
    }

    #[test]
    fn compaction_ends_a_watch() {
        let mut fixture = fixture();
        fixture.watches.take(created(7));
        let cancelled = WatchResponse { canceled: true, compact_revision: 50, ..response(7, 60) };
        fixture.watches.take(cancelled);
        check_told(&fixture, &["ended: revision 10 is compacted, history begins at 50"]);
        assert!(fixture.watches.is_empty());
    }

    #[test]
    fn a_refused_watch_is_an_error_for_who_opens_it() {
        let mut fixture = fixture();
        let refusal = WatchResponse {
            created: true,
            canceled: true,
            cancel_reason: "permission denied".to_owned(),
            ..response(ALL_WATCHES, 60)
        };
        fixture.watches.take(refusal);
        let Ok(Err(Error::Unavailable(reason))) = fixture.opened.try_recv() else { panic!() };
        assert!(reason.contains("permission denied"), "{reason}");
        check_told(&fixture, &[]);
    }

    #[test]
    fn who_waits_is_answered_when_all_watches_know() {
        let mut fixture = fixture();
        fixture.watches.take(created(7));
        let (other, _opened) = oneshot::channel();
        fixture.watches.open(8, "b".to_owned(), Revision(10), fixture.told.clone(), other);
        fixture.watches.take(created(8));
        let (answer, mut answered) = oneshot::channel();
        fixture.watches.wait(Revision(12), vec![answer]);
        assert!(fixture.watches.progress_request().is_some());
        fixture.watches.take(response(7, 12));
        assert!(answered.try_recv().is_err());
        fixture.watches.take(response(8, 13));
        assert!(matches!(answered.try_recv(), Ok(Ok(Revision(12)))));
        assert!(fixture.watches.progress_request().is_none());
    }

    #[test]
    fn nobody_is_asked_for_who_no_longer_waits() {
        let mut fixture = fixture();
        let (answer, answered) = oneshot::channel();
        fixture.watches.wait(Revision(12), vec![answer]);
        drop(answered);
        assert!(fixture.watches.progress_request().is_none());
    }
}
