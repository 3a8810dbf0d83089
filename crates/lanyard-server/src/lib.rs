//! A Kubernetes-compatible API server on a [`lanyard_store::Store`].
//!
//! A request flows one way: bytes ([`http`]) -> [`request`] -> identity ([`authn`]) -> decision
//! ([`authz`]) -> object ([`registry`]) -> revision (store) -> bytes.

pub mod admission;
pub mod audit;
pub mod authn;
pub mod authz;
mod certificate_request;
pub mod clock;
pub mod collection;
pub mod controllers;
pub mod custom;
pub mod discovery;
pub mod encoded;
pub mod field;
pub mod http;
pub mod merge;
pub mod metrics;
pub mod name;
pub mod negotiate;
pub mod object;
pub mod openapi;
pub mod patch;
mod pem;
pub mod pki;
pub mod policy;
pub mod registry;
pub mod request;
pub mod resource;
pub mod reviews;
pub mod schema;
pub mod selector;
pub mod server;
pub mod status;
pub mod structural;
pub mod types;
