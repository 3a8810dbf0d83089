//! The kinds of `certificates.k8s.io`: requests for certificates, and bundles of those to trust.

mod request;
mod signer_name;
mod trust_bundle;
mod validate;

pub(super) use request::resource as signing_request;
pub(super) use trust_bundle::resource as trust_bundle;

/// The group of both kinds.
const GROUP: &str = "certificates.k8s.io";
