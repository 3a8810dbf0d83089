//! What the local store needs of a storage engine: four ordered tables of bytes, one writer whose
//! changes become visible and durable together, and readers that see one state.
//!
//! An engine knows nothing of revisions; everything above it is written once, in [`crate::local`].

use std::{
    fmt,
    ops::{Bound, ControlFlow},
};

use bytes::Bytes;

use crate::{Error, Result};

pub(crate) mod file;
pub(crate) mod memory;
#[cfg(test)]
pub(crate) mod sim_disk;

/// Ordered tables with atomic, durable batches of changes.
pub(crate) trait Engine: Send + Sync + 'static {
    /// Calls `body` with the newest committed state, which does not change meanwhile.
    ///
    /// The body should be short: an engine may be unable to reuse space while it runs.
    fn read(&self, body: &mut dyn FnMut(&dyn Tables) -> Result<()>) -> Result<()>;

    /// Calls `body` with tables to change, and commits durably if it answers [`Outcome::Commit`].
    ///
    /// Only one thread may call this. On an error nothing is visible, except that after an error
    /// of the disk itself the commit may show up once [`Engine::recover`] succeeded.
    fn write(&self, body: &mut dyn FnMut(&mut dyn TablesMut) -> Result<Outcome>) -> Result<()>;

    /// Fails with [`Error::NoSpace`] when a batch is likely to fail for want of space.
    fn check_room(&self) -> Result<()>;

    /// Brings the engine back after an error of the disk.
    fn recover(&self) -> Result<()>;

    /// How many bytes the engine takes on its disk, or in memory if it has none.
    fn size(&self) -> u64;

    /// Releases the files and locks; every later call fails.
    fn close(&self);
}

/// What a body of [`Engine::write`] wants done with its changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Make them durable.
    Commit,
    /// There are none.
    Unchanged,
}

/// The tables of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// Revision to change.
    Log,
    /// Key and revision to the kind of the change.
    Index,
    /// Deadline and revision of the keys that delete themselves.
    Expiry,
    /// Named numbers.
    Meta,
}

impl Table {
    /// All tables; the position of each is its discriminant.
    pub(crate) const ALL: [Self; 4] = [Self::Log, Self::Index, Self::Expiry, Self::Meta];

    /// The name under which an engine stores it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Index => "index",
            Self::Expiry => "expiry",
            Self::Meta => "meta",
        }
    }
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Smallest key first.
    Forward,
    /// Greatest key first.
    Backward,
}

/// The bounds of a scan.
pub(crate) type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// What a scan calls for each pair of key and value, until it breaks.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>>;

/// One state of the tables, to read.
pub(crate) trait Tables {
    /// The value of one key.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>>;

    /// Visits the pairs within `bounds` in the given order.
    fn scan(&self, table: Table, bounds: Bounds<'_>, order: Order, visit: Visit<'_>) -> Result<()>;

    /// The error that says that this engine's data makes no sense.
    fn corrupt(&self, detail: &dyn fmt::Display) -> Error;
}

/// One state of the tables, to change.
pub(crate) trait TablesMut: Tables {
    /// Sets a key to the concatenation of `parts`.
    fn put(&mut self, table: Table, key: &[u8], parts: &[&[u8]]) -> Result<()>;

    /// Removes a key, if it is there.
    fn remove(&mut self, table: Table, key: &[u8]) -> Result<()>;
}
