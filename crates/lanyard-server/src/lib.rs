//! A Kubernetes-compatible API server on a `lanyard_store::Store`.
//!
//! A request flows one way: bytes (`http`) -> `request` -> identity (`authn`) -> decision
//! (`authz`) -> object (`registry`) -> revision (store) -> bytes.
