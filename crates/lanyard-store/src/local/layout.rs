//! How revisions, keys and changes are laid out in the bytes of the tables.
//!
//! Everything that reads stored bytes goes through here and refuses what it does not understand;
//! records carry a checksum, because the pages below are not verified on every read.
//!
//! | table  | key                          | value                                       |
//! |--------|------------------------------|---------------------------------------------|
//! | log    | revision                     | checksum, kind, length of the key, key, value |
//! | index  | key, zero byte, revision     | kind                                        |
//! | expiry | deadline (Unix ms), revision | nothing                                     |
//! | meta   | name                         | number                                      |
//!
//! Numbers are big-endian in keys so that they sort, and so everywhere.

use std::{
    ops::{Bound, ControlFlow},
    sync::Arc,
};

use bytes::Bytes;

use crate::{
    Change, ChangeKind, Entry, Result, Revision,
    engine::{Order, Table, Tables, TablesMut},
};

/// The version of this layout, in the meta table as [`FORMAT`].
pub(crate) const FORMAT_VERSION: u64 = 1;
/// Names the number that says which layout the file has.
pub(crate) const FORMAT: &str = "format";
/// Names the revision that history was compacted to.
pub(crate) const COMPACTED: &str = "compacted";
/// Names the revision below which superseded records are already removed.
pub(crate) const SWEPT: &str = "swept";
/// Names the sum of the lengths of all records of the log.
pub(crate) const BYTES: &str = "bytes";

/// Whether a change set or removed its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The key got a value.
    Put = 1,
    /// The key was removed.
    Delete = 2,
}

impl Kind {
    fn parse(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Put),
            2 => Some(Self::Delete),
            _ => None,
        }
    }
}

/// One record of the log.
pub(crate) struct Record {
    /// The key that changed.
    pub(crate) key: Arc<str>,
    /// How it changed.
    pub(crate) kind: Kind,
    /// The new value; empty for a removal.
    pub(crate) value: Bytes,
}

impl Record {
    /// As the entry that this record created.
    pub(crate) fn into_entry(self, revision: Revision) -> Entry {
        Entry { key: self.key, value: self.value, revision }
    }

    /// As the change that a watch reports.
    pub(crate) fn into_change(self, revision: Revision) -> Change {
        let kind = match self.kind {
            Kind::Put => ChangeKind::Put(self.value),
            Kind::Delete => ChangeKind::Delete,
        };
        Change { key: self.key, revision, kind }
    }
}

/// Checksum, kind, and length of the key.
const HEADER: usize = 4 + 1 + 2;

/// Appends a record to the log; answers its length.
pub(crate) fn put_record(
    tables: &mut dyn TablesMut,
    revision: Revision,
    kind: Kind,
    key: &str,
    value: &[u8],
) -> Result<u64> {
    // Callers bound keys far below this; failing here would be a bug of ours, not of the data.
    let length = u16::try_from(key.len()).expect("keys are shorter than KEY_MAX").to_be_bytes();
    let kind = [kind as u8];
    let mut sum = crc32fast::Hasher::new();
    for part in [&kind[..], &length, key.as_bytes(), value] {
        sum.update(part);
    }
    let sum = sum.finalize().to_be_bytes();
    let parts = [&sum[..], &kind, &length, key.as_bytes(), value];
    tables.put(Table::Log, &revision.0.to_be_bytes(), &parts)?;
    Ok((HEADER + key.len() + value.len()) as u64)
}

/// The record of one revision.
pub(crate) fn record(tables: &dyn Tables, revision: Revision) -> Result<Option<Record>> {
    let Some(bytes) = tables.get(Table::Log, &revision.0.to_be_bytes())? else {
        return Ok(None);
    };
    let RecordRef { key, kind, .. } = RecordRef::parse(tables, revision, &bytes)?;
    let value = bytes.slice(HEADER + key.len()..);
    Ok(Some(Record { key: Arc::from(key), kind, value }))
}

/// The length of the record of one revision; zero if there is none.
pub(crate) fn record_length(tables: &dyn Tables, revision: Revision) -> Result<u64> {
    let mut length = 0;
    let key = revision.0.to_be_bytes();
    let only = (Bound::Included(&key[..]), Bound::Included(&key[..]));
    tables.scan(Table::Log, only, Order::Forward, &mut |_, value| {
        length = value.len() as u64;
        Ok(ControlFlow::Break(()))
    })?;
    Ok(length)
}

/// The record of a revision that the index names.
pub(crate) fn known_record(tables: &dyn Tables, revision: Revision) -> Result<Record> {
    match record(tables, revision)? {
        Some(record) => Ok(record),
        None => Err(tables.corrupt(&format_args!("the record of revision {revision} is missing"))),
    }
}

/// A record of the log where it lies, for those who need no copy of the value.
pub(crate) struct RecordRef<'b> {
    /// The key that changed.
    pub(crate) key: &'b str,
    /// How it changed.
    pub(crate) kind: Kind,
    bytes: &'b [u8],
}

impl<'b> RecordRef<'b> {
    /// Takes the bytes of a log record apart.
    pub(crate) fn parse(tables: &dyn Tables, revision: Revision, bytes: &'b [u8]) -> Result<Self> {
        let parsed = || {
            let (sum, body) = bytes.split_first_chunk::<4>()?;
            let &[kind, high, low, ref rest @ ..] = body else {
                return None;
            };
            let key = rest.get(..usize::from(u16::from_be_bytes([high, low])))?;
            let key = std::str::from_utf8(key).ok()?;
            let intact = crc32fast::hash(body).to_be_bytes() == *sum;
            intact.then_some(Self { key, kind: Kind::parse(kind)?, bytes })
        };
        parsed().ok_or_else(|| {
            tables.corrupt(&format_args!("the record of revision {revision} is damaged"))
        })
    }

    /// A copy that outlives the read.
    pub(crate) fn to_owned(&self) -> Record {
        let value = Bytes::copy_from_slice(&self.bytes[HEADER + self.key.len()..]);
        Record { key: Arc::from(self.key), kind: self.kind, value }
    }
}

/// The place of one change in the index, written into `buffer` to save an allocation per change.
pub(crate) fn index_key<'b>(buffer: &'b mut Vec<u8>, key: &str, revision: Revision) -> &'b [u8] {
    buffer.clear();
    buffer.extend_from_slice(key.as_bytes());
    buffer.push(0);
    buffer.extend_from_slice(&revision.0.to_be_bytes());
    buffer
}

/// Takes an entry of the index apart: key, revision, kind.
pub(crate) fn parse_index<'k>(
    tables: &dyn Tables,
    key: &'k [u8],
    value: &[u8],
) -> Result<(&'k [u8], Revision, Kind)> {
    let parsed = || {
        let (key, revision) = key.split_last_chunk::<8>()?;
        let (&0, key) = key.split_last()? else {
            return None;
        };
        let &[kind] = value else { return None };
        Some((key, Revision(u64::from_be_bytes(*revision)), Kind::parse(kind)?))
    };
    parsed().ok_or_else(|| tables.corrupt(&"an entry of the index makes no sense"))
}

/// The place of a key that deletes itself.
pub(crate) fn expiry_key(deadline: u64, revision: Revision) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&deadline.to_be_bytes());
    key[8..].copy_from_slice(&revision.0.to_be_bytes());
    key
}

/// Takes a key of the expiry table apart: deadline, revision.
pub(crate) fn parse_expiry(tables: &dyn Tables, key: &[u8]) -> Result<(u64, Revision)> {
    Ok((
        parse_number(tables, key.get(..8).unwrap_or_default())?,
        Revision(parse_number(tables, key.get(8..).unwrap_or_default())?),
    ))
}

/// The revision that is the key of a log record.
pub(crate) fn parse_revision(tables: &dyn Tables, key: &[u8]) -> Result<Revision> {
    parse_number(tables, key).map(Revision)
}

/// A number of the meta table; zero if it was never set.
pub(crate) fn number(tables: &dyn Tables, name: &str) -> Result<u64> {
    match tables.get(Table::Meta, name.as_bytes())? {
        Some(bytes) => parse_number(tables, &bytes),
        None => Ok(0),
    }
}

/// Sets a number of the meta table.
pub(crate) fn put_number(tables: &mut dyn TablesMut, name: &str, value: u64) -> Result<()> {
    tables.put(Table::Meta, name.as_bytes(), &[&value.to_be_bytes()])
}

/// The newest revision, which is that of the last record of the log.
pub(crate) fn head(tables: &dyn Tables) -> Result<Revision> {
    let mut head = Revision(0);
    tables.scan(
        Table::Log,
        (Bound::Unbounded, Bound::Unbounded),
        Order::Backward,
        &mut |key, _| {
            head = parse_revision(tables, key)?;
            Ok(ControlFlow::Break(()))
        },
    )?;
    Ok(head)
}

/// The smallest bytes after everything that begins with `prefix`; none if nothing is.
pub(crate) fn prefix_end(prefix: &str) -> Option<Vec<u8>> {
    let mut end = prefix.as_bytes().to_vec();
    // The last byte of UTF-8 is never 0xff, so there is room to count up.
    *end.last_mut()? += 1;
    Some(end)
}

fn parse_number(tables: &dyn Tables, bytes: &[u8]) -> Result<u64> {
    match bytes.try_into() {
        Ok(bytes) => Ok(u64::from_be_bytes(bytes)),
        Err(_) => Err(tables.corrupt(&"a number has the wrong length")),
    }
}
