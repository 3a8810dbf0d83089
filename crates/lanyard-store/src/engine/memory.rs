//! The engine without a disk: tables in memory, for tests and throw-away servers.
//!
//! It keeps nothing beyond the process.

use std::{collections::BTreeMap, fmt, ops::ControlFlow};

use bytes::Bytes;
use parking_lot::RwLock;

use super::{Bounds, Engine, Order, Outcome, Table, Tables, TablesMut, Visit};
use crate::{Error, Result};

/// Tables in memory, until they are closed.
pub(crate) struct Memory(RwLock<Option<Maps>>);

impl Memory {
    /// Empty tables.
    pub(crate) fn new() -> Self {
        Self(RwLock::new(Some(Maps::default())))
    }
}

#[derive(Default)]
struct Maps {
    tables: [BTreeMap<Box<[u8]>, Bytes>; Table::ALL.len()],
    bytes: u64,
}

impl Engine for Memory {
    fn read(&self, body: &mut dyn FnMut(&dyn Tables) -> Result<()>) -> Result<()> {
        body(self.0.read().as_ref().ok_or_else(Error::closed)?)
    }

    /// Changes in place: readers wait, and a body does not fail after its first change.
    fn write(&self, body: &mut dyn FnMut(&mut dyn TablesMut) -> Result<Outcome>) -> Result<()> {
        body(self.0.write().as_mut().ok_or_else(Error::closed)?).map(|_| ())
    }

    fn check_room(&self) -> Result<()> {
        Ok(())
    }

    fn recover(&self) -> Result<()> {
        Ok(())
    }

    fn size(&self) -> u64 {
        self.0.read().as_ref().map_or(0, |maps| maps.bytes)
    }

    fn close(&self) {
        *self.0.write() = None;
    }
}

impl Tables for Maps {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>> {
        Ok(self.tables[table as usize].get(key).cloned())
    }

    fn scan(&self, table: Table, bounds: Bounds<'_>, order: Order, visit: Visit<'_>) -> Result<()> {
        let mut pairs = self.tables[table as usize].range::<[u8], _>(bounds);
        loop {
            let pair = match order {
                Order::Forward => pairs.next(),
                Order::Backward => pairs.next_back(),
            };
            let Some((key, value)) = pair else {
                return Ok(());
            };
            if let ControlFlow::Break(()) = visit(key, value)? {
                return Ok(());
            }
        }
    }

    fn corrupt(&self, detail: &dyn fmt::Display) -> Error {
        Error::Corrupt { path: "the store in memory".to_owned(), detail: detail.to_string() }
    }
}

impl TablesMut for Maps {
    fn put(&mut self, table: Table, key: &[u8], parts: &[&[u8]]) -> Result<()> {
        let value = Bytes::from(parts.concat());
        self.bytes += (key.len() + value.len()) as u64;
        if let Some(old) = self.tables[table as usize].insert(key.into(), value) {
            self.bytes -= (key.len() + old.len()) as u64;
        }
        Ok(())
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<()> {
        if let Some(old) = self.tables[table as usize].remove(key) {
            self.bytes -= (key.len() + old.len()) as u64;
        }
        Ok(())
    }
}
