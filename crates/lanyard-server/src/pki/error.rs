//! Why the keys and certificates of a server cannot be used: always which file, and what to do about it.
//!
//! No variant can hold file contents, so an error is safe to print and log.

use std::io;
use std::path::{Path, PathBuf};

/// A problem with the files below `DIR/pki`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PkiError {
    /// The operating system refused.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was tried, e.g. `read`.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },

    /// Another process has held the lock for too long.
    #[error(
        "{} is locked by another process; wait until it has started, or stop it",
        path.display()
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
    },

    /// A private key that other users of the machine can read is no secret.
    #[error(
        "{path} is open to other users (mode {mode:04o}); if nobody can have read it, run \
         `chmod 600 {path}`, else replace the key",
        path = path.display()
    )]
    Exposed {
        /// The key file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },

    /// A file that cannot be used as it is. It is never overwritten: that is for the operator to decide.
    #[error("{} {problem}; {remedy}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What the operator can do.
        remedy: &'static str,
    },

    /// A name for the serving certificate that is neither a DNS name nor an IP address.
    #[error(
        "{name:?} is neither a DNS name nor an IP address; give the serving certificate another name"
    )]
    BadName {
        /// The name as given.
        name: String,
    },

    /// The cryptographic library refused; the text never holds key material.
    #[error("cannot {action}: {reason}")]
    Crypto {
        /// What was tried.
        action: &'static str,
        /// What the library said.
        reason: String,
    },
}

impl PkiError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    pub(super) fn crypto<E: std::fmt::Display>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Crypto { action, reason: error.to_string() }
    }

    pub(super) fn unusable(path: &Path, problem: impl Into<String>, remedy: &'static str) -> Self {
        Self::Unusable { path: path.to_owned(), problem: problem.into(), remedy }
    }
}
