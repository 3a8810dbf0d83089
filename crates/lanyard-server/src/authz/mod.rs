//! Who may do what: the question ([`Attributes`]), the answer ([`Decision`]), and role-based access
//! control.
//!
//! Everything here is values in, decisions out: the server feeds stored objects to [`rbac::Rbac`]
//! and asks it. Rights only ever add up, so whatever is missing or unreadable denies.

pub mod aggregate;
pub mod bootstrap;
pub mod covers;
pub mod escalation;
pub mod rbac;
pub mod reconcile;
pub mod rules;
#[cfg(test)]
mod tests;

use crate::authn::UserInfo;

/// One question to the authorizer.
#[derive(Clone, Debug)]
pub struct Attributes<'a> {
    /// Who asks.
    pub user: &'a UserInfo,
    /// `get`, `list`, `create` ... or the lower-case HTTP method for other paths.
    pub verb: &'a str,
    /// What is asked for.
    pub target: Target<'a>,
}

/// What a request touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// An API resource.
    Resource {
        /// The API group.
        group: &'a str,
        /// The plural resource name.
        resource: &'a str,
        /// The subresource, or empty.
        subresource: &'a str,
        /// The namespace, or empty for the cluster scope.
        namespace: &'a str,
        /// The object name, or empty.
        name: &'a str,
    },
    /// Any other path.
    Path(&'a str),
}

/// The answer of the authorizer; only `allowed` opens the door.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether some rule allows it.
    pub allowed: bool,
    /// Why it is allowed, for audit and access reviews.
    pub reason: String,
    /// What could not be evaluated, e.g. a binding to a missing role.
    pub evaluation_error: String,
}
