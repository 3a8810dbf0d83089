//! A simulated disk for tests: it can lose power, fill up, and fail.
//!
//! What was written but not synced survives a power cut sector by sector, each with even odds, as
//! does a change of the length. Everything is decided by a seed.

use std::{
    collections::BTreeSet,
    io,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use redb::{Builder, Database, DatabaseError, StorageBackend};

use super::file::Disk;

const SECTOR: usize = 512;

/// A simulated disk; clones are the same disk.
#[derive(Clone, Default)]
pub(crate) struct SimDisk(Arc<Mutex<State>>);

#[derive(Default, Debug)]
struct State {
    /// What a reader sees.
    bytes: Vec<u8>,
    /// What a power cut leaves.
    synced: Vec<u8>,
    /// The sectors that differ.
    dirty: BTreeSet<usize>,
    /// Operations that change something until the power is cut; it is off at zero.
    fuse: Option<u64>,
    /// Bytes at and after this offset have no room.
    capacity: Option<u64>,
    /// Whether the file system says how much room is left.
    tells_free: bool,
    /// How many of the next syncs fail.
    failing_syncs: u32,
    syncs: u64,
}

impl SimDisk {
    /// Cuts the power after this many operations that change something.
    pub(crate) fn cut_after(&self, operations: u64) {
        self.0.lock().fuse = Some(operations);
    }

    /// Whether the power is off.
    pub(crate) fn is_off(&self) -> bool {
        self.0.lock().fuse == Some(0)
    }

    /// Turns the power off now, and on again with what survived.
    pub(crate) fn power_cycle(&self, random: &mut Random) {
        let mut state = self.0.lock();
        let state = &mut *state;
        let length = if random.coin() { state.bytes.len() } else { state.synced.len() };
        state.synced.resize(length, 0);
        for sector in std::mem::take(&mut state.dirty) {
            if random.coin() {
                let here = sector * SECTOR..((sector + 1) * SECTOR).min(length);
                if let Some(new) = state.bytes.get(here.clone()) {
                    state.synced[here].copy_from_slice(new);
                }
            }
        }
        state.bytes.clone_from(&state.synced);
        state.fuse = None;
    }

    /// Gives the disk this much room.
    pub(crate) fn set_capacity(&self, capacity: Option<u64>) {
        self.0.lock().capacity = capacity;
    }

    /// Lets the file system tell how much room there is, so that it can be asked before writing.
    pub(crate) fn tell_free(&self) {
        self.0.lock().tells_free = true;
    }

    /// Makes the next syncs fail.
    pub(crate) fn fail_syncs(&self, count: u32) {
        self.0.lock().failing_syncs = count;
    }

    /// How often the disk was synced.
    pub(crate) fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }
}

impl Disk for SimDisk {
    fn open(&self, builder: &Builder) -> Result<Database, DatabaseError> {
        builder.create_with_backend(Backend(Arc::downgrade(&self.0)))
    }

    fn distrust_cache(&self) {
        let mut state = self.0.lock();
        let state = &mut *state;
        let mut truth = state.synced.clone();
        truth.resize(state.bytes.len(), 0);
        for sector in &state.dirty {
            let here = sector * SECTOR..((sector + 1) * SECTOR).min(state.bytes.len());
            if let Some(new) = state.bytes.get(here.clone()) {
                truth[here].copy_from_slice(new);
            }
        }
        state.bytes = truth;
    }

    fn free(&self) -> Option<u64> {
        let state = self.0.lock();
        let capacity = state.capacity.filter(|_| state.tells_free)?;
        Some(capacity.saturating_sub(state.bytes.len() as u64))
    }

    fn size(&self) -> u64 {
        self.0.lock().bytes.len() as u64
    }

    fn path(&self) -> String {
        "simulated.redb".to_owned()
    }
}

#[derive(Debug)]
struct Backend(Weak<Mutex<State>>);

impl Backend {
    fn state(&self) -> Arc<Mutex<State>> {
        self.0.upgrade().expect("the test keeps the disk")
    }

    /// Counts an operation that changes something, and fails it when the power is off.
    fn change(&self, body: impl FnOnce(&mut State) -> io::Result<()>) -> io::Result<()> {
        let state = self.state();
        let mut state = state.lock();
        if let Some(fuse) = &mut state.fuse {
            *fuse = fuse.checked_sub(1).ok_or_else(power_off)?;
        }
        if state.fuse == Some(0) {
            return Err(power_off());
        }
        body(&mut state)
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().lock().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let state = state.lock();
        if state.fuse == Some(0) {
            return Err(power_off());
        }
        let offset = offset as usize;
        let found = state.bytes.get(offset..offset + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    /// Makes a hole, which needs no room yet.
    fn set_len(&self, length: u64) -> io::Result<()> {
        self.change(|state| {
            state.bytes.resize(length as usize, 0);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(|state| {
            if state.failing_syncs > 0 {
                state.failing_syncs -= 1;
                // As Linux does: the pages count as written, but are not.
                state.dirty.clear();
                return Err(io::Error::other("simulated failure"));
            }
            state.syncs += 1;
            state.synced.resize(state.bytes.len(), 0);
            for sector in std::mem::take(&mut state.dirty) {
                let here = sector * SECTOR..((sector + 1) * SECTOR).min(state.bytes.len());
                if let Some(new) = state.bytes.get(here.clone()) {
                    state.synced[here].copy_from_slice(new);
                }
            }
            Ok(())
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.change(|state| {
            if state.capacity.is_some_and(|capacity| offset + data.len() as u64 > capacity) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let offset = offset as usize;
            let here = state.bytes.get_mut(offset..offset + data.len());
            here.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
            state.dirty.extend(offset / SECTOR..=(offset + data.len() - 1) / SECTOR);
            Ok(())
        })
    }
}

fn power_off() -> io::Error {
    io::Error::other("the power is off")
}

/// Numbers that follow from a seed (xorshift64*, enough for tests).
pub(crate) struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % limit
    }

    /// Even odds.
    pub(crate) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }
}
