//! Whose request it is: the certificate of the connection, a bearer token, or nobody; then impersonation.

use std::sync::Arc;

use http::{HeaderMap, header};
use jiff::Timestamp;
use rustls::pki_types::CertificateDer;

use super::Error;
use crate::{
    admission::authorize,
    authn::{
        ANONYMOUS, AUTHENTICATED, Bound, BoundKind, CertAuthenticator, DEFAULT_ISSUER, IMPERSONATE,
        Impersonation, TokenError, TokenIssuer, UNAUTHENTICATED, UserInfo, VerifiedToken,
    },
    authz::{Attributes, rbac::Rbac},
    http::Connection,
    object::ObjectExt,
    pki::Pki,
    registry::Registry,
    status::{ApiError, ApiResult},
};

/// What a client certificate proved, found out once per connection.
#[derive(Clone, Debug)]
pub enum PeerIdentity {
    /// The user, until the certificate expires.
    User(Arc<UserInfo>, Timestamp),
    /// The certificate is not one that we trust: requests with it are unauthorized.
    Rejected,
}

/// Turns credentials into users.
pub(super) struct Identities {
    certificates: CertAuthenticator,
    pub(super) issuer: TokenIssuer,
    anonymous: Arc<UserInfo>,
}

impl Identities {
    pub(super) fn new(pki: &Pki) -> Result<Self, Error> {
        let anonymous = Arc::new(UserInfo {
            name: ANONYMOUS.into(),
            groups: vec![UNAUTHENTICATED.into()],
            ..UserInfo::default()
        });
        let certificates = CertAuthenticator::new(pki.ca_certificates()).map_err(Error::Tls)?;
        let issuer = TokenIssuer::new(DEFAULT_ISSUER, pki.service_account_keys());
        Ok(Self { certificates, issuer, anonymous })
    }

    pub(super) fn of_certificate(&self, chain: &[CertificateDer<'_>]) -> PeerIdentity {
        match self.certificates.authenticate(chain, Timestamp::now()) {
            Ok(identity) => {
                PeerIdentity::User(Arc::new(authenticated(identity.user)), identity.not_after)
            }
            Err(error) => {
                tracing::info!(%error, "client certificate rejected");
                PeerIdentity::Rejected
            }
        }
    }

    /// A good certificate wins over a token; bad credentials are an error even where nobody needs any.
    pub(super) fn authenticate(
        &self,
        registry: &Registry,
        headers: &HeaderMap,
        peer: &Connection,
    ) -> ApiResult<Arc<UserInfo>> {
        if let Some(PeerIdentity::User(user, until)) = &peer.certificate
            && Timestamp::now() < *until
        {
            return Ok(user.clone());
        }
        let Some(token) = bearer_token(headers) else {
            return match peer.certificate {
                None => Ok(self.anonymous.clone()),
                Some(_) => Err(ApiError::unauthorized()),
            };
        };
        let verified = self.verify(registry, token, self.issuer.api_audiences());
        let verified = verified.map_err(|error| ApiError::unauthorized().because(error))?;
        Ok(Arc::new(authenticated(verified.user_info())))
    }

    /// A token is good while its account and the object that it is bound to are there.
    pub(super) fn verify(
        &self,
        registry: &Registry,
        token: &str,
        audiences: &[String],
    ) -> Result<VerifiedToken, TokenError> {
        let verified = self.issuer.verify(token, audiences, Timestamp::now())?;
        let (namespace, account) = (&verified.namespace, &verified.account);
        match uid_of(registry, "serviceaccounts", &format!("{namespace}/{}", account.name)) {
            None => return Err(TokenError::Invalidated),
            Some(found) if found != account.uid => {
                return Err(TokenError::OtherAccount { found, claimed: account.uid.clone() });
            }
            Some(_) => {}
        }
        if let Some(bound) = &verified.bound
            && bound_uid(registry, namespace, bound).as_deref() != Some(&bound.object.uid)
        {
            return Err(TokenError::Invalidated);
        }
        Ok(verified)
    }

    /// The user that the caller acts as, if they ask to and may.
    pub(super) fn impersonate(
        &self,
        rbac: &Rbac,
        headers: &HeaderMap,
        user: Arc<UserInfo>,
    ) -> ApiResult<Arc<UserInfo>> {
        let Some(wanted) = Impersonation::from_headers(headers)? else { return Ok(user) };
        for check in wanted.checks() {
            let target = check.target();
            authorize(rbac, &Attributes { user: &user, verb: IMPERSONATE, target })?;
        }
        Ok(Arc::new(wanted.user))
    }
}

/// The token of a request; other schemes and empty tokens are no credentials at all.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::AUTHORIZATION)?.to_str().unwrap_or(NO_TOKEN);
    let mut words = text.trim().split(' ');
    let is_bearer = words.next()?.eq_ignore_ascii_case("bearer");
    words.next().filter(|token| is_bearer && !token.is_empty())
}

/// Stands for a header that is not text, and is no good token.
const NO_TOKEN: &str = "Bearer -";

/// A user with the group of everybody who has shown good credentials.
pub(super) fn authenticated(mut user: UserInfo) -> UserInfo {
    user.groups.push(AUTHENTICATED.into());
    user
}

/// The uid of the object that a token is bound to, if its kind is served and it is there.
pub(super) fn bound_uid(registry: &Registry, namespace: &str, bound: &Bound) -> Option<String> {
    let name = &bound.object.name;
    match bound.kind {
        BoundKind::Pod => uid_of(registry, "pods", &format!("{namespace}/{name}")),
        BoundKind::Secret => uid_of(registry, "secrets", &format!("{namespace}/{name}")),
        BoundKind::Node => uid_of(registry, "nodes", name),
    }
}

fn uid_of(registry: &Registry, resource: &str, key: &str) -> Option<String> {
    let endpoint = registry.endpoint("", "v1", resource)?;
    let object = endpoint.collection.get(key)?;
    Some(object.value().uid().to_owned())
}
