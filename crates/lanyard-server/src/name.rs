//! The names of types: group, version, plural, kind.
//!
//! Those of built-in types are known when the program is built, those of custom ones come and go while it
//! runs. Both are cheap to clone and read as `&str`, so that nothing but their maker need care.

use std::{
    borrow::Borrow,
    fmt,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use serde::{Serialize, Serializer};

/// A name that is part of the program, or shared by all who use it.
#[derive(Clone)]
pub enum Name {
    /// Of a built-in type.
    Static(&'static str),
    /// Of a custom type.
    Shared(Arc<str>),
}

/// The names of a built-in type's list.
pub fn names(list: &'static [&'static str]) -> Vec<Name> {
    list.iter().copied().map(Name::Static).collect()
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Static(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::Static("")
    }
}

impl From<&'static str> for Name {
    fn from(text: &'static str) -> Self {
        Self::Static(text)
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl From<&Name> for serde_json::Value {
    fn from(name: &Name) -> Self {
        Self::String((**name).to_owned())
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Name {}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Name {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialEq<String> for Name {
    fn eq(&self, other: &String) -> bool {
        **self == **other
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl EncodeLabelValue for Name {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        EncodeLabelValue::encode(&&**self, encoder)
    }
}
