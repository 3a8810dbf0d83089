//! The engine on disk: redb tables in one file, an fsync per batch, checksummed pages.
//!
//! redb refuses everything after the first error of the disk; [`Engine::recover`] then opens the
//! file again, which rolls back to the last whole commit. The file is locked against a second
//! process.
//!
//! The file stays bounded: pages of removed records are used again. A record takes whole pages when
//! it is large (a value of 4 KiB takes 8), a commit needs new pages for what it changes before the
//! old ones are free, and the file grows by doubling, with holes until they are used. So it may be
//! up to about four times as long as the entries and the history that was kept at the worst moment.
//! It is packed when it is opened mostly empty.

use std::{
    fmt,
    fs::{self, File, OpenOptions},
    io,
    ops::ControlFlow,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use parking_lot::RwLock;
use redb::{
    Builder, Database, DatabaseError, ReadOnlyTable, ReadTransaction, ReadableDatabase,
    ReadableTable, TableDefinition, WriteTransaction,
};

use super::{Bounds, Engine, Order, Outcome, Table, Tables, TablesMut, Visit};
use crate::{Error, Result, local::layout};

/// Pages that redb may keep in memory. The server has its own cache of all objects, so this one
/// needs to hold little more than the inner pages of the trees.
const CACHE_BYTES: usize = 24 << 20;

/// Writes are refused when the file system has less than this free: enough for the largest batch,
/// whose pages redb writes twice at worst, and for repairing the file afterwards.
const MIN_FREE_BYTES: u64 = 48 << 20;

/// Smaller files are never packed: there is little to gain.
const PACK_MIN_BYTES: u64 = 64 << 20;

/// A file is packed when less than this part of it is in use.
const PACK_BELOW: u64 = 8;

/// A file of redb tables.
pub(crate) struct FileEngine<D: Disk = DiskFile> {
    disk: D,
    /// The database, or why there is none at the moment.
    database: RwLock<Result<Database>>,
}

/// Where the bytes of the database live.
pub(crate) trait Disk: Send + Sync + 'static {
    /// Opens or creates the database, with all the durability of this disk.
    fn open(&self, builder: &Builder) -> Result<Database, DatabaseError>;

    /// Makes the next reads come from the disk itself. After a failed sync the operating system may
    /// show what never reached the disk, and will not try to write it again.
    fn distrust_cache(&self);

    /// The free space, where it is known.
    fn free(&self) -> Option<u64>;

    /// The space taken by the database.
    fn size(&self) -> u64;

    /// What to call it in errors.
    fn path(&self) -> String;
}

impl<D: Disk> FileEngine<D> {
    /// Opens or creates the database on `disk`.
    pub(crate) fn open(disk: D) -> Result<Self> {
        let mut database = open_database(&disk)?;
        pack_if_sparse(&disk, &mut database)?;
        Ok(Self { disk, database: RwLock::new(Ok(database)) })
    }

    /// Runs `body` on the database, taking a panic of redb for what it is: damaged data.
    fn guarded<T>(&self, body: impl FnOnce(&Database, &str) -> Result<T>) -> Result<T> {
        let database = self.database.read();
        let database = database.as_ref().map_err(Clone::clone)?;
        let path = self.disk.path();
        catch_unwind(AssertUnwindSafe(|| body(database, &path))).unwrap_or_else(|_| {
            Err(Error::Corrupt { path, detail: "a page makes no sense".to_owned() })
        })
    }
}

impl<D: Disk> Engine for FileEngine<D> {
    fn read(&self, body: &mut dyn FnMut(&dyn Tables) -> Result<()>) -> Result<()> {
        self.guarded(|database, path| {
            let txn = database.begin_read().map_err(|e| failure(path, e))?;
            body(&ReadTables::new(&txn, path)?)
        })
    }

    fn write(&self, body: &mut dyn FnMut(&mut dyn TablesMut) -> Result<Outcome>) -> Result<()> {
        self.guarded(|database, path| {
            let txn = database.begin_write().map_err(|e| failure(path, e))?;
            let outcome = body(&mut WriteTables::new(&txn, path)?)?;
            match outcome {
                Outcome::Commit => txn.commit().map_err(|e| failure(path, e)),
                Outcome::Unchanged => txn.abort().map_err(|e| failure(path, e)),
            }
        })
    }

    fn check_room(&self) -> Result<()> {
        match self.disk.free() {
            Some(free) if free < MIN_FREE_BYTES => Err(Error::NoSpace { path: self.disk.path() }),
            _ => Ok(()),
        }
    }

    fn recover(&self) -> Result<()> {
        let mut database = self.database.write();
        // The file must be closed, and so unlocked, before it can be opened again.
        *database = Err(Error::Unavailable("the database file is being reopened".to_owned()));
        self.disk.distrust_cache();
        *database = open_database(&self.disk);
        database.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    fn size(&self) -> u64 {
        self.disk.size()
    }

    fn close(&self) {
        *self.database.write() = Err(Error::closed());
    }
}

/// A file in a directory that only its owner can enter.
pub(crate) struct DiskFile {
    path: PathBuf,
}

impl DiskFile {
    /// The database file in `dir`, both created if they are not there.
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        let path = dir.join("store.redb");
        create_dir(dir).map_err(|e| io_failure(dir, &e))?;
        if !path.exists() {
            open_file(&path)
                .and_then(|file| file.sync_all())
                .and_then(|()| File::open(dir)?.sync_all())
                .map_err(|e| io_failure(&path, &e))?;
        }
        Ok(Self { path })
    }
}

impl Disk for DiskFile {
    fn open(&self, builder: &Builder) -> Result<Database, DatabaseError> {
        builder.create_file(open_file(&self.path)?)
    }

    fn distrust_cache(&self) {
        let dropped = File::open(&self.path)
            .and_then(|file| Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?));
        if let Err(error) = dropped {
            tracing::warn!(path = self.path(), %error, "cannot drop cached pages");
        }
    }

    fn free(&self) -> Option<u64> {
        let stat = rustix::fs::statvfs(&self.path).ok()?;
        Some(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn size(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |meta| meta.len())
    }

    fn path(&self) -> String {
        self.path.display().to_string()
    }
}

fn create_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn open_database<D: Disk>(disk: &D) -> Result<Database> {
    let path = disk.path();
    let mut builder = Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    let opened = catch_unwind(AssertUnwindSafe(|| {
        let database = disk.open(&builder).map_err(|e| failure(&path, e))?;
        create_tables(&database).map_err(|e| failure(&path, e))?;
        Ok(database)
    }));
    opened.unwrap_or_else(|_| Err(damaged(&path, "its structure makes no sense")))
}

/// Creates the tables of a new file, so that readers find them.
fn create_tables(database: &Database) -> Result<(), redb::Error> {
    if let Ok(txn) = database.begin_read()
        && Table::ALL.iter().all(|table| txn.open_table(definition(*table)).is_ok())
    {
        return Ok(());
    }
    let txn = database.begin_write()?;
    for table in Table::ALL {
        txn.open_table(definition(table))?;
    }
    Ok(txn.commit()?)
}

fn pack_if_sparse<D: Disk>(disk: &D, database: &mut Database) -> Result<()> {
    let path = disk.path();
    let size = disk.size();
    if size < PACK_MIN_BYTES {
        return Ok(());
    }
    let used = {
        let txn = database.begin_read().map_err(|e| failure(&path, e))?;
        layout::number(&ReadTables::new(&txn, &path)?, layout::BYTES)?
    };
    if used.saturating_mul(PACK_BELOW) < size {
        tracing::info!(path, size, used, "packing the database file, most of it is free");
        database.compact().map_err(|e| failure(&path, e))?;
    }
    Ok(())
}

type Pairs = TableDefinition<'static, &'static [u8], &'static [u8]>;

fn definition(table: Table) -> Pairs {
    TableDefinition::new(table.name())
}

struct ReadTables<'a> {
    tables: [ReadOnlyTable<&'static [u8], &'static [u8]>; Table::ALL.len()],
    path: &'a str,
}

impl<'a> ReadTables<'a> {
    fn new(txn: &ReadTransaction, path: &'a str) -> Result<Self> {
        let open = |table| txn.open_table(definition(table)).map_err(|e| failure(path, e));
        let [log, index, expiry, meta] = Table::ALL;
        Ok(Self { tables: [open(log)?, open(index)?, open(expiry)?, open(meta)?], path })
    }
}

impl Tables for ReadTables<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>> {
        get(&self.tables[table as usize], key, self.path)
    }

    fn scan(&self, table: Table, bounds: Bounds<'_>, order: Order, visit: Visit<'_>) -> Result<()> {
        scan(&self.tables[table as usize], bounds, order, visit, self.path)
    }

    fn corrupt(&self, detail: &dyn fmt::Display) -> Error {
        damaged(self.path, detail)
    }
}

struct WriteTables<'a> {
    tables: [redb::Table<'a, &'static [u8], &'static [u8]>; Table::ALL.len()],
    path: &'a str,
}

impl<'a> WriteTables<'a> {
    fn new(txn: &'a WriteTransaction, path: &'a str) -> Result<Self> {
        let open = |table| txn.open_table(definition(table)).map_err(|e| failure(path, e));
        let [log, index, expiry, meta] = Table::ALL;
        Ok(Self { tables: [open(log)?, open(index)?, open(expiry)?, open(meta)?], path })
    }
}

impl Tables for WriteTables<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>> {
        get(&self.tables[table as usize], key, self.path)
    }

    fn scan(&self, table: Table, bounds: Bounds<'_>, order: Order, visit: Visit<'_>) -> Result<()> {
        scan(&self.tables[table as usize], bounds, order, visit, self.path)
    }

    fn corrupt(&self, detail: &dyn fmt::Display) -> Error {
        damaged(self.path, detail)
    }
}

impl TablesMut for WriteTables<'_> {
    fn put(&mut self, table: Table, key: &[u8], parts: &[&[u8]]) -> Result<()> {
        let length = parts.iter().map(|part| part.len()).sum();
        // The value is laid down in its page directly, without a buffer in between.
        let mut room = self.tables[table as usize]
            .insert_reserve(key, length)
            .map_err(|e| failure(self.path, e))?;
        let mut rest = room.as_mut();
        for part in parts {
            let (here, after) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = after;
        }
        Ok(())
    }

    fn remove(&mut self, table: Table, key: &[u8]) -> Result<()> {
        let removed = self.tables[table as usize].remove(key);
        removed.map(|_| ()).map_err(|e| failure(self.path, e))
    }
}

fn get<T>(table: &T, key: &[u8], path: &str) -> Result<Option<Bytes>>
where
    T: ReadableTable<&'static [u8], &'static [u8]>,
{
    let value = table.get(key).map_err(|e| failure(path, e))?;
    Ok(value.map(|value| Bytes::copy_from_slice(value.value())))
}

fn scan<T>(table: &T, bounds: Bounds<'_>, order: Order, visit: Visit<'_>, path: &str) -> Result<()>
where
    T: ReadableTable<&'static [u8], &'static [u8]>,
{
    let mut pairs = table.range::<&[u8]>(bounds).map_err(|e| failure(path, e))?;
    loop {
        let pair = match order {
            Order::Forward => pairs.next(),
            Order::Backward => pairs.next_back(),
        };
        let Some(pair) = pair else { return Ok(()) };
        let (key, value) = pair.map_err(|e| failure(path, e))?;
        if let ControlFlow::Break(()) = visit(key.value(), value.value())? {
            return Ok(());
        }
    }
}

/// What an error of redb means to our callers.
fn failure(path: &str, error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Io(error) => io_failure(Path::new(path), &error),
        redb::Error::DatabaseAlreadyOpen => Error::Locked { path: path.to_owned() },
        redb::Error::Corrupted(detail) => damaged(path, &detail),
        redb::Error::UpgradeRequired(version) => {
            damaged(path, &format_args!("it has file format {version}, which we cannot read"))
        }
        error @ (redb::Error::TableTypeMismatch { .. } | redb::Error::TableIsMultimap(_)) => {
            damaged(path, &error)
        }
        error => Error::Io { path: path.to_owned(), detail: error.to_string() },
    }
}

fn io_failure(path: &Path, error: &io::Error) -> Error {
    let path = path.display().to_string();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            Error::NoSpace { path }
        }
        io::ErrorKind::UnexpectedEof => damaged(&path, "it ends too early"),
        // What redb says of a file that is no database at all.
        io::ErrorKind::InvalidData => damaged(&path, error),
        _ => Error::Io { path, detail: error.to_string() },
    }
}

fn damaged(path: &str, detail: &(impl fmt::Display + ?Sized)) -> Error {
    Error::Corrupt { path: path.to_owned(), detail: detail.to_string() }
}
