//! Who is calling: client certificates, service-account tokens, impersonation.
//!
//! Every way of proving who one is ends in a [`UserInfo`]. That the group [`AUTHENTICATED`] is added is
//! left to the caller, since it is the same for all of them.

mod claims;
mod impersonation;
mod openid;
pub mod review;
pub mod service_account;
mod token_request;
mod tokens;
mod x509;

use std::collections::BTreeMap;

pub use impersonation::{Check, IMPERSONATE, Impersonation};
pub use openid::{
    JWKS_PATH, JWKS_TYPE, OPENID_CACHE_CONTROL, OPENID_CONFIGURATION_PATH,
    OPENID_CONFIGURATION_TYPE,
};
pub use token_request::{TokenRequest, validate_expiration};
pub use tokens::{
    Bound, BoundKind, DEFAULT_ISSUER, Identity, TokenClaims, TokenError, TokenIssuer, VerifiedToken,
};
pub use x509::{CertAuthenticator, CertIdentity, CertRejected};

/// An authenticated user, as authorization and admission see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserInfo {
    /// The name, e.g. `system:serviceaccount:ns:name`.
    pub name: String,
    /// The unique id, may be empty.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// The name of a caller without credentials.
pub const ANONYMOUS: &str = "system:anonymous";
/// The group of every caller with credentials.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of every caller without credentials.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The key in [`UserInfo::extra`] under which a credential can be told from others of the same user.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
