//! The one thread that changes a local store.
//!
//! It takes the commands that queued up while the last commit was on its way to the disk, puts all
//! their changes into one transaction, and so shares one fsync among many writers. Then, in this
//! order, it tells the watches, publishes the new revision and answers the writers: whoever hears
//! of a revision can rely on every watch knowing it.
//!
//! It also deletes keys whose time is over and removes compacted history, in small pieces that
//! ride along with the writes. What it does when the disk fails is in [`super::recovery`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{
    history::{self, Batch, Marks},
    watchers::{self, Watchers},
};
use crate::{
    Change, Error, Result, Revision, Sink, Watch, Write, WriteOp, Written,
    engine::{Engine, Outcome},
};

/// The writes that share one commit take at most this many bytes, to bound the time of a commit.
const BATCH_BYTES: usize = 8 << 20;

/// And there are at most this many of them.
const BATCH_WRITES: usize = 1024;

/// How long to wait for as many writes as there were the last time: a fraction of an fsync.
const GATHER: Duration = Duration::from_micros(200);

/// Changes looked at in one piece of removing history, when nobody waits for the commit.
const SWEEP_PIECE: usize = 256;

/// And when somebody does: for each write at least this many, so that removing history is faster
/// than making it.
const SWEEP_PER_WRITE: usize = 2;

/// But at least this many, a fraction of a millisecond of work.
const SWEEP_MIN: usize = 16;

/// Keys deleted in one commit because their time is over.
const EXPIRE_PIECE: usize = 256;

/// The longest sleep; deadlines are times of day, which may be set while we sleep.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// How many bytes of the log are read at a time to bring a watch up to date.
pub(super) const REPLAY_PIECE: usize = 4 << 20;

/// What the committer is asked to do.
pub(super) enum Command {
    Write(Pending),
    Watch {
        prefix: String,
        /// The sink knows everything through this revision.
        after: Revision,
        sink: Arc<dyn Sink>,
        answer: oneshot::Sender<Result<Watch>>,
    },
    Unwatch(u64),
    Compact {
        to: Revision,
        answer: oneshot::Sender<Result<()>>,
    },
    /// A reader met an error of the disk.
    Recover,
    Close(oneshot::Sender<()>),
}

/// A write that waits for its commit.
pub(super) struct Pending {
    pub(super) write: Write,
    pub(super) answer: oneshot::Sender<Result<Written>>,
    /// Its share of the bounded queue, given back when it is answered.
    pub(super) _room: OwnedSemaphorePermit,
}

/// What the committer publishes.
#[derive(Default)]
pub(super) struct Published {
    pub(super) head: AtomicU64,
    pub(super) compacted: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) closed: AtomicBool,
    /// Why writes are refused at the moment.
    pub(super) trouble: Mutex<Option<Error>>,
}

impl Published {
    /// Shows the marks of a commit that every watch knows of.
    pub(super) fn show(&self, marks: &Marks) {
        self.bytes.store(marks.bytes, Ordering::Relaxed);
        self.compacted.store(marks.compacted.0, Ordering::Relaxed);
        self.head.store(marks.head.0, Ordering::Release);
    }
}

/// The state of the thread.
pub(super) struct Committer {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) commands: Receiver<Command>,
    /// For watches to announce that they ended.
    pub(super) unwatch: std::sync::Weak<Sender<Command>>,
    pub(super) published: Arc<Published>,
    pub(super) marks: Marks,
    pub(super) next_deadline: Option<u64>,
    pub(super) watchers: Watchers,
    /// How many writes shared the last commit.
    pub(super) last_writes: usize,
    /// Nothing is written before this time, because of the published trouble.
    pub(super) resting_until: Option<Instant>,
    /// What the engine holds may differ from what we know of it.
    pub(super) distrusted: bool,
}

/// However the thread ends, nobody must take the store for alive.
impl Drop for Committer {
    fn drop(&mut self) {
        self.published.closed.store(true, Ordering::Release);
        self.watchers.end(&Error::closed());
        self.engine.close();
    }
}

/// Commands that are carried out together.
#[derive(Default)]
struct Work {
    writes: Vec<Pending>,
    /// Comes after the writes.
    then: Option<Command>,
    /// Nobody is left to ask for anything.
    last: bool,
}

impl Committer {
    /// Works until it is told to close or nobody can tell it anything any more.
    pub(super) fn run(mut self) {
        let answer = self.work();
        drop(self);
        if let Some(answer) = answer {
            let _ = answer.send(());
        }
    }

    fn work(&mut self) -> Option<oneshot::Sender<()>> {
        loop {
            let work = self.next_work();
            self.commit(work.writes);
            match work.then {
                Some(Command::Watch { prefix, after, sink, answer }) => {
                    self.watch(prefix, after, sink, answer);
                }
                Some(Command::Unwatch(id)) => self.watchers.remove(id),
                Some(Command::Compact { to, answer }) => {
                    let _ = answer.send(self.compact(to));
                }
                Some(Command::Recover) => self.recover(),
                Some(Command::Close(answer)) => return Some(answer),
                Some(Command::Write(_)) | None => {}
            }
            if work.last {
                return None;
            }
        }
    }

    /// Waits for something to do, then takes the writes that are there, or about to be: those who
    /// were answered last often come back at once, and one commit for all is better than two.
    fn next_work(&mut self) -> Work {
        let mut work = Work::default();
        let mut next = match self.sleep() {
            Some(sleep) => self.commands.recv_timeout(sleep),
            None => self.try_recv(),
        };
        let mut bytes = 0;
        let mut gather_until = None;
        loop {
            match next {
                Ok(Command::Write(pending)) => {
                    bytes += weight(&pending.write);
                    work.writes.push(pending);
                    if bytes >= BATCH_BYTES || work.writes.len() >= BATCH_WRITES {
                        break;
                    }
                }
                Ok(command) => {
                    work.then = Some(command);
                    break;
                }
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    work.last = true;
                    break;
                }
            }
            next = self.try_recv();
            if next.is_err() && work.writes.len() < self.last_writes {
                let until = *gather_until.get_or_insert_with(|| Instant::now() + GATHER);
                next = self.commands.recv_timeout(until.saturating_duration_since(Instant::now()));
            }
        }
        self.last_writes = work.writes.len();
        work
    }

    fn try_recv(&self) -> Result<Command, RecvTimeoutError> {
        self.commands.try_recv().map_err(|_| RecvTimeoutError::Timeout)
    }

    /// How long there is nothing to do of ourselves; `None` is no time at all.
    fn sleep(&self) -> Option<Duration> {
        let rest = self
            .resting_until
            .map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()));
        let idle = if self.sweeping() || self.resting_until.is_some() {
            Duration::ZERO
        } else {
            match self.next_deadline {
                Some(deadline) => Duration::from_millis(deadline.saturating_sub(unix_millis())),
                None => MAX_SLEEP,
            }
        };
        let sleep = idle.max(rest).min(MAX_SLEEP);
        (!sleep.is_zero()).then_some(sleep)
    }

    fn sweeping(&self) -> bool {
        self.marks.swept < self.marks.compacted
    }

    fn commit(&mut self, writes: Vec<Pending>) {
        let now = unix_millis();
        let expiring = self.next_deadline.is_some_and(|deadline| deadline <= now);
        if writes.is_empty() && !expiring && !self.sweeping() && self.resting_until.is_none() {
            return;
        }
        if let Err(error) = self.ready() {
            for pending in writes {
                let _ = pending.answer.send(Err(error.clone()));
            }
            return;
        }
        let mut changes = Vec::with_capacity(writes.len());
        let mut results = Vec::with_capacity(writes.len());
        let written = self.transact(|batch, sweeping| {
            for pending in &writes {
                match batch.write(&pending.write, now) {
                    Ok(change) => {
                        results.push(Ok(Written { revision: change.revision }));
                        changes.push(change);
                    }
                    Err(conflict @ Error::Conflict { .. }) => results.push(Err(conflict)),
                    Err(error) => return Err(error),
                }
            }
            if expiring {
                changes.extend(batch.expire(now, EXPIRE_PIECE)?);
            }
            if sweeping {
                batch.sweep(sweep_piece(writes.len()))?;
            }
            Ok(())
        });
        match written {
            Ok(()) => {
                self.reschedule(&writes, now, expiring);
                self.tell_and_publish(&changes);
                for (pending, result) in writes.into_iter().zip(results) {
                    let _ = pending.answer.send(result);
                }
            }
            Err(error) => {
                self.fail(&error);
                for pending in writes {
                    let _ = pending.answer.send(Err(error.clone()));
                }
            }
        }
    }

    /// Runs one transaction of the engine and takes over its marks.
    fn transact(&mut self, mut body: impl FnMut(&mut Batch<'_>, bool) -> Result<()>) -> Result<()> {
        let sweeping = self.sweeping();
        let before = self.marks;
        let mut after = None;
        self.engine.write(&mut |tables| {
            let mut batch = Batch::new(tables, before);
            body(&mut batch, sweeping)?;
            let (marks, changed) = batch.finish()?;
            after = Some(marks);
            Ok(if changed { Outcome::Commit } else { Outcome::Unchanged })
        })?;
        self.marks = after.unwrap_or(before);
        Ok(())
    }

    /// Finds out when the next key deletes itself.
    fn reschedule(&mut self, writes: &[Pending], now: u64, expired: bool) {
        if expired {
            // If it cannot be read now, look again soon.
            self.next_deadline = next_deadline(&*self.engine).unwrap_or(Some(now + 1000));
        }
        for pending in writes {
            if let WriteOp::Put { ttl: Some(ttl), .. } = pending.write.op {
                let deadline = history::deadline(now, ttl);
                self.next_deadline = Some(self.next_deadline.map_or(deadline, |d| d.min(deadline)));
            }
        }
    }

    pub(super) fn tell_and_publish(&mut self, changes: &[Change]) {
        if !changes.is_empty() {
            self.watchers.tell(changes, self.marks.head);
        }
        self.published.show(&self.marks);
    }

    fn compact(&mut self, to: Revision) -> Result<()> {
        if to > self.marks.head {
            return Err(Error::Future { requested: to, current: self.marks.head });
        }
        if to <= self.marks.compacted {
            return Ok(());
        }
        self.ready()?;
        let compacted = self.transact(|batch, _| {
            batch.compact(to);
            Ok(())
        });
        match &compacted {
            Ok(()) => self.published.show(&self.marks),
            Err(error) => self.fail(error),
        }
        compacted
    }

    /// Opens a watch: tells it what it does not know yet, then adds it to the others.
    fn watch(
        &mut self,
        prefix: String,
        after: Revision,
        sink: Arc<dyn Sink>,
        answer: oneshot::Sender<Result<Watch>>,
    ) {
        let guard = replay(&*self.engine, &prefix, after, &*sink, Revision(0)).map(|_| {
            let id = self.watchers.add(prefix, sink);
            Watch::new(Unwatch { id, commands: self.unwatch.clone() })
        });
        // If nobody waits for the answer any more, dropping it ends the watch.
        let _ = answer.send(guard);
    }
}

/// Tells a sink what happened after a revision, until it is at most `near` behind; answers how far
/// it is then.
pub(super) fn replay(
    engine: &dyn Engine,
    prefix: &str,
    mut after: Revision,
    sink: &dyn Sink,
    near: Revision,
) -> Result<Revision> {
    loop {
        let mut piece = None;
        engine.read(&mut |tables| {
            piece = Some(history::replay(tables, prefix, after, REPLAY_PIECE)?);
            Ok(())
        })?;
        // The engine either fails or calls the body, so there is a piece.
        let Some(piece) = piece else { return Ok(after) };
        watchers::tell(sink, prefix, &piece.changes, piece.through);
        after = piece.through;
        if piece.head.0 - after.0 <= near.0 {
            return Ok(after);
        }
    }
}

/// The earliest deadline of the engine.
pub(super) fn next_deadline(engine: &dyn Engine) -> Result<Option<u64>> {
    let mut next = None;
    engine.read(&mut |tables| {
        next = history::next_deadline(tables)?;
        Ok(())
    })?;
    Ok(next)
}

/// Ends a watch when it is dropped.
struct Unwatch {
    id: u64,
    commands: std::sync::Weak<Sender<Command>>,
}

impl Drop for Unwatch {
    fn drop(&mut self) {
        if let Some(commands) = self.commands.upgrade() {
            let _ = commands.send(Command::Unwatch(self.id));
        }
    }
}

/// How much history to remove in a commit with so many writes.
fn sweep_piece(writes: usize) -> usize {
    match writes {
        0 => SWEEP_PIECE,
        writes => (writes * SWEEP_PER_WRITE).max(SWEEP_MIN),
    }
}

/// How much a write weighs in the queue and in a batch, in bytes.
pub(super) fn weight(write: &Write) -> usize {
    let value = match &write.op {
        WriteOp::Put { value, .. } => value.len(),
        WriteOp::Delete => 0,
    };
    write.key.len() + value + 64
}

fn unix_millis() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
