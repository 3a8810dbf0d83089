//! A durable, revisioned key-value store with watch.
//!
//! Every change of any key gets the next number of one increasing sequence, its [`Revision`]. Reads
//! can go back to any revision that is not yet compacted, writes are conditional on the revision
//! that the writer saw, and a watch replays the changes after a revision without a gap.
//!
//! Two engines fulfil the contract: the embedded one ([`StoreUrl::Embedded`], a file on disk, or
//! [`StoreUrl::Memory`] for tests) and etcd ([`StoreUrl::Etcd`]). The same suite of tests runs on all.
//!
//! This crate knows nothing of Kubernetes: keys are strings, values are bytes.

mod contract;
mod engine;
mod etcd;
mod local;
mod store;
mod url;

pub use contract::{
    Change, ChangeKind, Entry, Error, Expect, Range, RangeQuery, Result, Revision, Sink, Watch,
    WatchEvent, Write, WriteOp, Written,
};
pub use store::{KEY_MAX, Stats, Store, VALUE_MAX};
pub use url::{EtcdUrl, StoreUrl};
