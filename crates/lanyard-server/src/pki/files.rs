//! The directory that holds the keys: one writer at a time, whole files or none, nobody else reads.
//!
//! A certificate and its key live in two files, which no rename can replace at once. So a new pair is
//! written beside the old one first, and [`Locked::recover_pair`] finishes or forgets what a crash has
//! left half done. What does not fit after that is an operator's doing. The contents of a file are on
//! disk before it gets its name; the names are after [`Locked::sync`].

use std::cell::Cell;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::PkiError;

/// A directory with mode 0700.
#[derive(Debug)]
pub(super) struct KeyDir {
    path: PathBuf,
}

/// The right to change a [`KeyDir`], across threads and processes; given back on drop.
#[derive(Debug)]
pub(super) struct Locked<'a> {
    dir: &'a KeyDir,
    /// Something was renamed since the last [`sync`](Self::sync).
    changed: Cell<bool>,
    _lock: File,
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    /// The owner only: private keys and what holds them.
    Owner,
    /// Anyone who can see the directory.
    Anyone,
}

impl KeyDir {
    /// Opens the directory, making it and taking away the rights of others where needed.
    pub(super) fn open_or_create(path: &Path) -> Result<Self, PkiError> {
        if !path.is_dir() {
            DirBuilder::new()
                .recursive(true)
                .mode(DIR_MODE)
                .create(path)
                .map_err(PkiError::io("create directory", path))?;
            sync_parent(path)?;
        }
        let mode = fs::metadata(path).map_err(PkiError::io("read", path))?.permissions().mode();
        if mode & OTHERS != 0 {
            fs::set_permissions(path, Permissions::from_mode(DIR_MODE))
                .map_err(PkiError::io("restrict to its owner", path))?;
        }
        Ok(Self { path: path.to_owned() })
    }

    /// Waits for the sole right to change files here.
    pub(super) fn lock(&self) -> Result<Locked<'_>, PkiError> {
        let path = self.file(LOCK_FILE);
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(PkiError::io("open", &path))?;
        let deadline = Instant::now() + LOCK_WAIT;
        loop {
            match lock.try_lock() {
                Ok(()) => {
                    return Ok(Locked { dir: self, changed: Cell::new(false), _lock: lock });
                }
                Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                    thread::sleep(LOCK_RETRY);
                }
                Err(TryLockError::WouldBlock) => return Err(PkiError::Locked { path }),
                Err(TryLockError::Error(error)) => return Err(PkiError::io("lock", &path)(error)),
            }
        }
    }

    /// The path of a file in the directory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The names of all files in the directory, sorted.
    pub(super) fn names(&self) -> Result<Vec<String>, PkiError> {
        let failed = || PkiError::io("list", &self.path);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed())? {
            if let Ok(name) = entry.map_err(failed())?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

impl Locked<'_> {
    /// The path of a file in the directory.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.dir.file(name)
    }

    /// Reads a file; nothing if it is not there. A key file that others may read is an error.
    pub(super) fn read(
        &self,
        name: &str,
        readers: Readers,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, PkiError> {
        read(&self.file(name), readers)
    }

    /// Writes a file in the directory, replacing an older one at once.
    pub(super) fn write(&self, name: &str, bytes: &[u8], to: Readers) -> Result<(), PkiError> {
        let path = self.file(name);
        let temporary = with_suffix(&path, TEMPORARY);
        write_new(&temporary, bytes, to)?;
        self.rename(&temporary, &path)
    }

    /// Writes a file elsewhere under the protection of this lock.
    pub(super) fn write_outside(
        &self,
        path: &Path,
        bytes: &[u8],
        to: Readers,
    ) -> Result<(), PkiError> {
        let temporary = with_suffix(path, TEMPORARY);
        write_new(&temporary, bytes, to)?;
        rename(&temporary, path)?;
        sync_parent(path)
    }

    /// Puts a certificate and its key in the place of `STEM.crt` and `STEM.key`.
    pub(super) fn write_pair(&self, stem: &str, crt: &[u8], key: &[u8]) -> Result<(), PkiError> {
        let [(crt_path, new_crt), (key_path, new_key)] = self.pair(stem);
        write_new(&new_crt, crt, Readers::Anyone)?;
        write_new(&new_key, key, Readers::Owner)?;
        self.rename(&new_key, &key_path)?;
        self.rename(&new_crt, &crt_path)
    }

    /// Finishes or forgets a [`write_pair`](Self::write_pair) that was cut off; `belong` tells whether
    /// a certificate and a key are a pair.
    ///
    /// A disk may have kept any of its steps and not the others. If one half is new and in place, the
    /// other belongs beside it; else nothing has happened to the old pair.
    pub(super) fn recover_pair(
        &self,
        stem: &str,
        belong: fn(&[u8], &[u8]) -> bool,
    ) -> Result<(), PkiError> {
        let [(crt_path, new_crt), (key_path, new_key)] = self.pair(stem);
        match (new_crt.exists(), new_key.exists()) {
            (true, false) if are_pair(&new_crt, &key_path, belong)? => {
                self.rename(&new_crt, &crt_path)
            }
            (false, true) if are_pair(&crt_path, &new_key, belong)? => {
                self.rename(&new_key, &key_path)
            }
            _ => {
                remove_if_there(&new_crt)?;
                remove_if_there(&new_key)
            }
        }
    }

    /// Makes what was written here so far survive a power cut.
    pub(super) fn sync(&self) -> Result<(), PkiError> {
        match self.changed.replace(false) {
            true => sync_directory(&self.dir.path),
            false => Ok(()),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), PkiError> {
        self.changed.set(true);
        rename(from, to)
    }

    /// The final and the preliminary paths of a certificate, then of its key.
    fn pair(&self, stem: &str) -> [(PathBuf, PathBuf); 2] {
        ["crt", "key"].map(|end| {
            let path = self.file(&format!("{stem}.{end}"));
            let new = with_suffix(&path, NEW);
            (path, new)
        })
    }
}

impl Readers {
    fn mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Anyone => 0o644,
        }
    }
}

fn read(path: &Path, readers: Readers) -> Result<Option<Zeroizing<Vec<u8>>>, PkiError> {
    // Looked at before it is opened, since opening a pipe would wait for its other end.
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(PkiError::io("read", path)(error)),
    };
    let mode = metadata.permissions().mode() & 0o7777;
    if readers == Readers::Owner && mode & OTHERS != 0 {
        return Err(PkiError::Exposed { path: path.to_owned(), mode });
    }
    if !metadata.is_file() || metadata.len() > MAX_FILE {
        let problem = "is not a file of at most 1 MiB";
        return Err(PkiError::unusable(path, problem, "put the right file there"));
    }
    // Sized beforehand: a growing buffer would leave copies of the key behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(metadata.len() as usize + 1));
    File::open(path)
        .and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes))
        .map_err(PkiError::io("read", path))?;
    Ok(Some(bytes))
}

fn are_pair(crt: &Path, key: &Path, belong: fn(&[u8], &[u8]) -> bool) -> Result<bool, PkiError> {
    let crt = read(crt, Readers::Anyone)?;
    let key = read(key, Readers::Owner)?;
    Ok(crt.zip(key).is_some_and(|(crt, key)| belong(&crt, &key)))
}

/// Writes a file that is not there yet, apart from what a crash may have left.
fn write_new(path: &Path, bytes: &[u8], to: Readers) -> Result<(), PkiError> {
    remove_if_there(path)?;
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(to.mode())
        .open(path)
        .map_err(PkiError::io("create", path))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(PkiError::io("write", path))
}

fn rename(from: &Path, to: &Path) -> Result<(), PkiError> {
    fs::rename(from, to).map_err(PkiError::io("replace", to))
}

/// Makes a new or renamed directory entry durable.
fn sync_parent(path: &Path) -> Result<(), PkiError> {
    let parent = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    sync_directory(parent)
}

fn sync_directory(path: &Path) -> Result<(), PkiError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(PkiError::io("sync", path))
}

fn remove_if_there(path: &Path) -> Result<(), PkiError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(PkiError::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

const LOCK_FILE: &str = ".lock";
const NEW: &str = ".new";
const TEMPORARY: &str = ".tmp";
const DIR_MODE: u32 = 0o700;
/// The permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;
/// No bundle of certificates that a person would put here is larger.
const MAX_FILE: u64 = 1 << 20;
/// The holder generates at most four keys, which takes milliseconds; it only takes longer on a sick disk.
const LOCK_WAIT: Duration = Duration::from_secs(10);
const LOCK_RETRY: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn belong(crt: &[u8], key: &[u8]) -> bool {
        crt == key
    }

    /// Replaces the pair `old` by the pair `new`, of which the disk keeps only `steps`.
    fn check_cut_off(steps: &[&str], survivor: &str) {
        let temp = tempfile::tempdir().unwrap();
        let dir = KeyDir::open_or_create(&temp.path().join("pki")).unwrap();
        let locked = dir.lock().unwrap();
        locked.write_pair("x", b"old", b"old").unwrap();
        for name in ["x.crt", "x.key"] {
            let new = locked.file(&format!("{name}.new"));
            if steps.contains(&&*format!("write {name}")) {
                write_new(&new, b"new", Readers::Owner).unwrap();
            }
            if steps.contains(&&*format!("move {name}")) {
                fs::rename(&new, locked.file(name)).unwrap();
            }
        }
        locked.recover_pair("x", belong).unwrap();
        assert_eq!(dir.names().unwrap(), [".lock", "x.crt", "x.key"], "{steps:?}");
        for name in ["x.crt", "x.key"] {
            let bytes = locked.read(name, Readers::Anyone).unwrap().unwrap();
            assert_eq!(&**bytes, survivor.as_bytes(), "{name} after {steps:?}");
        }
    }

    #[test]
    fn a_replacement_that_was_cut_off_leaves_one_whole_pair() {
        check_cut_off(&[], "old");
        check_cut_off(&["write x.crt"], "old");
        check_cut_off(&["write x.key"], "old");
        check_cut_off(&["write x.crt", "write x.key"], "old");
        check_cut_off(&["write x.crt", "write x.key", "move x.crt"], "new");
        check_cut_off(&["write x.crt", "write x.key", "move x.key"], "new");
        check_cut_off(&["write x.crt", "write x.key", "move x.crt", "move x.key"], "new");
    }

    #[test]
    fn a_directory_open_to_others_is_closed() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("pki");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        KeyDir::open_or_create(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn an_oversized_file_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let dir = KeyDir::open_or_create(temp.path()).unwrap();
        File::create(dir.file("big")).unwrap().set_len(MAX_FILE + 1).unwrap();
        let error = dir.lock().unwrap().read("big", Readers::Anyone).unwrap_err();
        assert!(error.to_string().contains("1 MiB"), "{error}");
    }
}
