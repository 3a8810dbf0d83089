//! Revisions over plain tables: reading a state of the past, changing the newest one, forgetting.
//!
//! These are functions of the tables alone, without threads, clocks or channels; the committer
//! calls the ones that change something, each batch within one transaction of the engine.

use std::{
    ops::{Bound, ControlFlow},
    sync::Arc,
    time::Duration,
};

use super::layout::{self, Kind, Record, RecordRef};
use crate::{
    Change, ChangeKind, Entry, Error, Expect, Range, RangeQuery, Result, Revision, Write, WriteOp,
    engine::{Order, Table, Tables, TablesMut},
};

/// One state of one key, without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    revision: Revision,
    kind: Kind,
}

/// The newest state of one key, if it is there.
pub(crate) fn get(tables: &dyn Tables, key: &str) -> Result<Option<Entry>> {
    match newest_before(tables, key, Bound::Unbounded)? {
        Some(Version { revision, kind: Kind::Put }) => {
            Ok(Some(layout::known_record(tables, revision)?.into_entry(revision)))
        }
        _ => Ok(None),
    }
}

/// The entries under a prefix at one revision.
pub(crate) fn range(tables: &dyn Tables, query: &RangeQuery) -> Result<Range> {
    let at = readable_revision(tables, query.at)?;
    let limit = query.limit.unwrap_or(usize::MAX);
    let mut range = Range { entries: Vec::new(), remaining: 0, revision: at };
    let mut take = |revision| {
        if range.entries.len() < limit {
            let record = layout::known_record(tables, revision)?;
            range.entries.push(record.into_entry(revision));
        } else {
            range.remaining += 1;
        }
        Ok(())
    };
    // The versions of one key follow each other, oldest first: the last one not after `at` is the
    // state of the key, and it is known to be the last when another key begins.
    let mut key_now = Vec::new();
    let mut found: Option<Version> = None;
    let start = query.start.as_ref().filter(|start| **start > query.prefix);
    let start = start.unwrap_or(&query.prefix).as_bytes();
    let end = layout::prefix_end(&query.prefix);
    let end = end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    tables.scan(
        Table::Index,
        (Bound::Included(start), end),
        Order::Forward,
        &mut |key, value| {
            let (key, revision, kind) = layout::parse_index(tables, key, value)?;
            // In the index a key goes on with a zero byte, so it sorts after a start of key and zero.
            if key < start {
                return Ok(ControlFlow::Continue(()));
            }
            if key != key_now {
                key_now.clear();
                key_now.extend_from_slice(key);
                if let Some(Version { revision, kind: Kind::Put }) = found.take() {
                    take(revision)?;
                }
            }
            if revision <= at {
                found = Some(Version { revision, kind });
            }
            Ok(ControlFlow::Continue(()))
        },
    )?;
    if let Some(Version { revision, kind: Kind::Put }) = found {
        take(revision)?;
    }
    Ok(range)
}

/// A piece of the past, for a watch.
pub(crate) struct Replay {
    /// The changes under the prefix, in order.
    pub(crate) changes: Vec<Change>,
    /// The revision that the piece goes to.
    pub(crate) through: Revision,
    /// The newest revision.
    pub(crate) head: Revision,
}

/// What looking at one record costs beside its bytes, so that a limit in bytes bounds time too.
const RECORD_COST: usize = 256;

/// The size of a value up to which the number of changes bounds the time of a sweep.
const SWEEP_VALUE: usize = 16 << 10;

/// The changes under `prefix` after a revision, looking at about `limit` bytes of the log.
pub(crate) fn replay(
    tables: &dyn Tables,
    prefix: &str,
    after: Revision,
    limit: usize,
) -> Result<Replay> {
    let head = layout::head(tables)?;
    if after > head {
        return Err(Error::Future { requested: after, current: head });
    }
    let oldest = Revision(layout::number(tables, layout::COMPACTED)?);
    if after.0 + 1 < oldest.0 {
        return Err(Error::Compacted { requested: after, oldest });
    }
    let mut replay = Replay { changes: Vec::new(), through: head, head };
    let mut seen = 0;
    let start = after.0.to_be_bytes();
    let bounds = (Bound::Excluded(&start[..]), Bound::Unbounded);
    tables.scan(Table::Log, bounds, Order::Forward, &mut |key, value| {
        let revision = layout::parse_revision(tables, key)?;
        let record = RecordRef::parse(tables, revision, value)?;
        if record.key.starts_with(prefix) {
            replay.changes.push(record.to_owned().into_change(revision));
        }
        seen += value.len() + RECORD_COST;
        if seen >= limit {
            replay.through = revision;
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(replay)
}

/// The part of the committer's state that is also in the meta table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The newest revision.
    pub(crate) head: Revision,
    /// Reads before this revision are refused.
    pub(crate) compacted: Revision,
    /// Superseded records before this revision are gone.
    pub(crate) swept: Revision,
    /// The length of all records of the log.
    pub(crate) bytes: u64,
}

impl Marks {
    /// Reads the marks.
    pub(crate) fn load(tables: &dyn Tables) -> Result<Self> {
        Ok(Self {
            head: layout::head(tables)?,
            compacted: Revision(layout::number(tables, layout::COMPACTED)?),
            swept: Revision(layout::number(tables, layout::SWEPT)?),
            bytes: layout::number(tables, layout::BYTES)?,
        })
    }
}

/// Changes of one transaction on top of the marks it began with.
pub(crate) struct Batch<'t> {
    tables: &'t mut dyn TablesMut,
    marks: Marks,
    before: Marks,
    /// Deadlines were removed, which the marks do not show.
    forgot_deadlines: bool,
    scratch: Vec<u8>,
}

impl<'t> Batch<'t> {
    /// A batch that changes nothing yet.
    pub(crate) fn new(tables: &'t mut dyn TablesMut, marks: Marks) -> Self {
        Self { tables, marks, before: marks, forgot_deadlines: false, scratch: Vec::new() }
    }

    /// Carries out one write, or says why not; `now` is the time in Unix milliseconds.
    pub(crate) fn write(&mut self, write: &Write, now: u64) -> Result<Change> {
        let version = newest_before(self.tables, &write.key, Bound::Unbounded)?;
        let live = version.filter(|version| version.kind == Kind::Put).map(|v| v.revision);
        let expected = match write.expect {
            Expect::Absent => live.is_none() && matches!(write.op, WriteOp::Put { .. }),
            Expect::At(revision) => live == Some(revision),
        };
        if !expected {
            let current = live.map(|revision| {
                layout::known_record(self.tables, revision).map(|r| r.into_entry(revision))
            });
            return Err(Error::Conflict { key: write.key.clone(), current: current.transpose()? });
        }
        match &write.op {
            WriteOp::Put { value, ttl } => {
                let change = self.append(&write.key, ChangeKind::Put(value.clone()))?;
                if let Some(ttl) = ttl {
                    let key = layout::expiry_key(deadline(now, *ttl), change.revision);
                    self.tables.put(Table::Expiry, &key, &[])?;
                }
                Ok(change)
            }
            WriteOp::Delete => self.append(&write.key, ChangeKind::Delete),
        }
    }

    /// Deletes keys whose time is over, looking at no more than `limit` of them.
    pub(crate) fn expire(&mut self, now: u64, limit: usize) -> Result<Vec<Change>> {
        let mut due = Vec::new();
        let end = layout::expiry_key(now, Revision(u64::MAX));
        let bounds = (Bound::Unbounded, Bound::Included(&end[..]));
        let tables = &*self.tables;
        tables.scan(Table::Expiry, bounds, Order::Forward, &mut |key, _| {
            due.push(layout::parse_expiry(tables, key)?);
            Ok(if due.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        let mut changes = Vec::new();
        for (deadline, revision) in due {
            self.tables.remove(Table::Expiry, &layout::expiry_key(deadline, revision))?;
            self.forgot_deadlines = true;
            // The record is gone, or not the newest of its key, if the key was written again.
            let Some(Record { key, .. }) = layout::record(self.tables, revision)? else {
                continue;
            };
            let newest = newest_before(self.tables, &key, Bound::Unbounded)?;
            if newest == Some(Version { revision, kind: Kind::Put }) {
                changes.push(self.append(&key, ChangeKind::Delete)?);
            }
        }
        Ok(changes)
    }

    /// Forbids reads before `to`, so that what they need can be removed.
    pub(crate) fn compact(&mut self, to: Revision) {
        self.marks.compacted = self.marks.compacted.max(to);
    }

    /// Removes superseded records, looking at no more than `limit` changes, or one large one.
    ///
    /// A change up to the compacted revision supersedes the one before it of the same key. A
    /// removal supersedes itself too, except at that very revision: a watch may still begin there,
    /// and the log must never lose its last record, which holds the newest revision.
    pub(crate) fn sweep(&mut self, limit: usize) -> Result<()> {
        let to = self.marks.compacted;
        let mut changes: Vec<(Revision, Arc<str>, Kind)> = Vec::new();
        let (mut seen, mut complete) = (0, true);
        let (first, last) = (self.marks.swept.0.to_be_bytes(), to.0.to_be_bytes());
        let bounds = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        let tables = &*self.tables;
        tables.scan(Table::Log, bounds, Order::Forward, &mut |key, value| {
            let revision = layout::parse_revision(tables, key)?;
            let record = RecordRef::parse(tables, revision, value)?;
            changes.push((revision, Arc::from(record.key), record.kind));
            seen += value.len();
            if changes.len() >= limit || seen >= limit * SWEEP_VALUE {
                complete = false;
                return Ok(ControlFlow::Break(()));
            }
            Ok(ControlFlow::Continue(()))
        })?;
        self.marks.swept = match changes.last() {
            Some((revision, ..)) if !complete => Revision(revision.0 + 1).min(to),
            _ => to,
        };
        for (revision, key, kind) in changes {
            if let Some(before) = newest_before(self.tables, &key, Bound::Excluded(revision))? {
                self.forget(&key, before.revision)?;
            }
            if kind == Kind::Delete && revision < to {
                self.forget(&key, revision)?;
            }
        }
        Ok(())
    }

    /// Writes the marks down; answers them, and whether there is anything to commit.
    pub(crate) fn finish(self) -> Result<(Marks, bool)> {
        let Self { tables, marks, before, forgot_deadlines, .. } = self;
        for (name, new, old) in [
            (layout::COMPACTED, marks.compacted.0, before.compacted.0),
            (layout::SWEPT, marks.swept.0, before.swept.0),
            (layout::BYTES, marks.bytes, before.bytes),
        ] {
            if new != old {
                layout::put_number(tables, name, new)?;
            }
        }
        Ok((marks, marks != before || forgot_deadlines))
    }

    fn append(&mut self, key: &Arc<str>, kind: ChangeKind) -> Result<Change> {
        let revision = Revision(self.marks.head.0 + 1);
        let (kind_stored, value) = match &kind {
            ChangeKind::Put(value) => (Kind::Put, &value[..]),
            ChangeKind::Delete => (Kind::Delete, &[][..]),
        };
        let length = layout::put_record(self.tables, revision, kind_stored, key, value)?;
        let place = layout::index_key(&mut self.scratch, key, revision);
        self.tables.put(Table::Index, place, &[&[kind_stored as u8]])?;
        self.marks.head = revision;
        self.marks.bytes += length;
        Ok(Change { key: key.clone(), revision, kind })
    }

    fn forget(&mut self, key: &str, revision: Revision) -> Result<()> {
        let length = layout::record_length(self.tables, revision)?;
        self.tables.remove(Table::Log, &revision.0.to_be_bytes())?;
        self.marks.bytes = self.marks.bytes.saturating_sub(length);
        let place = layout::index_key(&mut self.scratch, key, revision);
        self.tables.remove(Table::Index, place)
    }
}

/// When a key that is put now deletes itself, in Unix milliseconds.
pub(crate) fn deadline(now: u64, ttl: Duration) -> u64 {
    // One more, because both numbers are rounded down: never early.
    let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
    now.saturating_add(ttl).saturating_add(1)
}

/// The earliest time at which some key deletes itself.
pub(crate) fn next_deadline(tables: &dyn Tables) -> Result<Option<u64>> {
    let mut next = None;
    let all = (Bound::Unbounded, Bound::Unbounded);
    tables.scan(Table::Expiry, all, Order::Forward, &mut |key, _| {
        next = Some(layout::parse_expiry(tables, key)?.0);
        Ok(ControlFlow::Break(()))
    })?;
    Ok(next)
}

fn readable_revision(tables: &dyn Tables, at: Option<Revision>) -> Result<Revision> {
    let current = layout::head(tables)?;
    let Some(requested) = at else {
        return Ok(current);
    };
    if requested > current {
        return Err(Error::Future { requested, current });
    }
    let oldest = Revision(layout::number(tables, layout::COMPACTED)?);
    if requested < oldest {
        return Err(Error::Compacted { requested, oldest });
    }
    Ok(requested)
}

/// The newest version of a key within the bound.
fn newest_before(
    tables: &dyn Tables,
    key: &str,
    before: Bound<Revision>,
) -> Result<Option<Version>> {
    let (mut first, mut last) = (Vec::new(), Vec::new());
    layout::index_key(&mut first, key, Revision(0));
    let last = match before {
        Bound::Excluded(revision) => Bound::Excluded(layout::index_key(&mut last, key, revision)),
        Bound::Included(revision) => Bound::Included(layout::index_key(&mut last, key, revision)),
        Bound::Unbounded => Bound::Included(layout::index_key(&mut last, key, Revision(u64::MAX))),
    };
    let mut newest = None;
    tables.scan(
        Table::Index,
        (Bound::Included(&first), last),
        Order::Backward,
        &mut |key, value| {
            let (_, revision, kind) = layout::parse_index(tables, key, value)?;
            newest = Some(Version { revision, kind });
            Ok(ControlFlow::Break(()))
        },
    )?;
    Ok(newest)
}
