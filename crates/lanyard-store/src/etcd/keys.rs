//! Our keys within etcd: all of them below one directory.

use std::sync::Arc;

use crate::{Error, Result, local::layout::prefix_end};

/// Turns our keys into those of etcd and back.
#[derive(Clone)]
pub(super) struct Keys {
    root: Arc<str>,
}

impl Keys {
    /// Keys below a directory, which is given without a slash at its end.
    pub(super) fn below(directory: &str) -> Self {
        Self { root: format!("{directory}/").into() }
    }

    /// The key of etcd for one of ours.
    pub(super) fn theirs(&self, key: &str) -> Vec<u8> {
        [self.root.as_bytes(), key.as_bytes()].concat()
    }

    /// Our key for one of etcd's.
    pub(super) fn ours(&self, key: &[u8]) -> Result<Arc<str>> {
        let ours = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(&*self.root));
        ours.map(Arc::from).ok_or_else(|| Error::Corrupt {
            path: format!("etcd directory {}", self.root),
            detail: "it holds a key that is not ours".to_owned(),
        })
    }

    /// The first key with a prefix, and the first one after all of them.
    pub(super) fn range(&self, prefix: &str) -> (Vec<u8>, Vec<u8>) {
        let prefix = format!("{}{prefix}", self.root);
        // The root is not empty, so there is an end.
        let end = prefix_end(&prefix).unwrap_or_default();
        (prefix.into_bytes(), end)
    }
}
