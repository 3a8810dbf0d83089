//! Service-account tokens: signed statements (JWT) of who one is, for whom, and until when.
//!
//! Signing and checking are pure: the clock is passed in. What only the store knows stays with the
//! caller: that the account, and the object that the token is bound to, still exist under the same uid.
//! One algorithm is accepted, and only keys of our own; what a token says of keys is a hint at most.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::claims::Claims;
use super::{CREDENTIAL_ID, UserInfo, service_account};
use crate::pki::{ServiceAccountKeys, VerifyingKey};

/// Issues tokens, and recognises those that it or a predecessor has issued.
#[derive(Clone)]
pub struct TokenIssuer {
    audiences: [String; 1],
    signing: EncodingKey,
    /// The first belongs to the signing key.
    pub(super) keys: Vec<TokenKey>,
}

/// A key that verifies tokens.
#[derive(Clone)]
pub(super) struct TokenKey {
    pub(super) id: String,
    pub(super) public: VerifyingKey,
    decoding: DecodingKey,
}

/// What a new token is to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenClaims {
    /// The namespace of the service account.
    pub namespace: String,
    /// The service account: its name and uid.
    pub account: Identity,
    /// For whom the token is meant.
    pub audiences: Vec<String>,
    /// The object whose end is the end of the token.
    pub bound: Option<Bound>,
    /// The node that the bound pod runs on.
    pub pod_node: Option<Identity>,
    /// From when on it is valid.
    pub issued_at: Timestamp,
    /// Until when it is valid.
    pub expires_at: Timestamp,
    /// A unique id for the token, for audit.
    pub jti: String,
}

/// The name and the uid of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Identity {
    /// Its name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// An object that a token lives and dies with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// What it is.
    pub kind: BoundKind,
    /// Which one.
    pub object: Identity,
}

/// What tokens can be bound to. Pods and secrets are in the account's namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum BoundKind {
    Pod,
    Secret,
    Node,
}

/// A token that was signed by us, is meant for us and has not expired.
///
/// It stands for nobody before the caller has seen that the account and the bound object exist with
/// these uids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedToken {
    /// The namespace of the service account.
    pub namespace: String,
    /// The service account.
    pub account: Identity,
    /// The object that must still be there.
    pub bound: Option<Bound>,
    /// The node that the bound pod was on when the token was issued.
    pub pod_node: Option<Identity>,
    /// The unique id of the token; empty if it has none.
    pub jti: String,
    /// Those of the requested audiences that the token is meant for.
    pub audiences: Vec<String>,
    /// When it expires.
    pub expires_at: Timestamp,
}

/// Why a token was refused. The texts hold nothing of the token but audiences and uids.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// Not a token of this issuer at all.
    #[error("invalid bearer token")]
    NotOurs,
    /// Signed with a key that is none of ours, or altered.
    #[error("invalid signature")]
    BadSignature,
    /// Signed by us, but not in the shape that we give to tokens.
    #[error("service account token claims could not be validated")]
    BadClaims,
    /// Meant for somebody else.
    #[error(
        "token audiences {} is invalid for the target audiences {}",
        GoList(meant),
        GoList(wanted)
    )]
    WrongAudience {
        /// The audiences of the token.
        meant: Vec<String>,
        /// The audiences that were asked for.
        wanted: Vec<String>,
    },
    /// Too late.
    #[error("service account token has expired")]
    Expired,
    /// Too early.
    #[error("service account token is not valid yet")]
    NotYetValid,
    /// From a clock that is ahead of ours.
    #[error("service account token is issued in the future")]
    IssuedInTheFuture,
    /// For the caller: the account was deleted and made again.
    #[error("service account UID ({found}) does not match claim ({claimed})")]
    OtherAccount {
        /// The uid of the account of that name.
        found: String,
        /// The uid in the token.
        claimed: String,
    },
    /// For the caller: the account or the bound object is gone.
    #[error("service account token has been invalidated")]
    Invalidated,
    /// A token could not be made.
    #[error("failed to generate token")]
    Signing,
}

impl TokenIssuer {
    /// An issuer under a URL, usually [`DEFAULT_ISSUER`].
    pub fn new(issuer: &str, keys: &ServiceAccountKeys) -> Self {
        Self {
            audiences: [issuer.to_owned()],
            signing: EncodingKey::from_ec_der(keys.expose_signing_key()),
            keys: keys.verifying().iter().map(TokenKey::new).collect(),
        }
    }

    /// The URL that the tokens name as their origin.
    pub fn issuer(&self) -> &str {
        &self.audiences[0]
    }

    /// The audiences of this API server itself: what a token is for unless it says otherwise.
    pub fn api_audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Signs a token.
    pub fn issue(&self, claims: &TokenClaims) -> Result<String, TokenError> {
        let mut header = Header::new(Algorithm::ES256);
        header.typ = None;
        header.kid = Some(self.keys[0].id.clone());
        let claims = Claims::new(self.issuer(), claims);
        // Through a value, so that members come in the order of their names, as upstream writes them.
        let claims = serde_json::to_value(claims).map_err(|_| TokenError::Signing)?;
        jsonwebtoken::encode(&header, &claims, &self.signing).map_err(|_| TokenError::Signing)
    }

    /// Checks a token for any of `audiences`; usually these are [`api_audiences`](Self::api_audiences).
    pub fn verify(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<VerifiedToken, TokenError> {
        if token.len() > MAX_TOKEN {
            return Err(TokenError::NotOurs);
        }
        self.authentic_claims(token)?.check(audiences, now)
    }

    /// The claims of a token that one of our keys has signed in the name of our issuer.
    fn authentic_claims(&self, token: &str) -> Result<Claims, TokenError> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::NotOurs)?;
        // Unverified: only to tell a foreign token from a forged one.
        let origin = jsonwebtoken::dangerous::insecure_decode_claims::<Origin>(token);
        if origin.map_err(|_| TokenError::NotOurs)?.iss != self.issuer() {
            return Err(TokenError::NotOurs);
        }
        let named = |key: &&TokenKey| header.kid.as_ref().is_none_or(|id| *id == key.id);
        for key in self.keys.iter().filter(named) {
            match jsonwebtoken::decode::<Claims>(token, &key.decoding, &signature_only()) {
                Ok(token) if token.claims.iss == self.issuer() => return Ok(token.claims),
                Ok(_) => return Err(TokenError::NotOurs),
                Err(error) if is_json(&error) => return Err(TokenError::BadClaims),
                Err(_) => {}
            }
        }
        Err(TokenError::BadSignature)
    }
}

impl fmt::Debug for TokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.keys.iter().map(|key| &key.id).collect();
        f.debug_struct("TokenIssuer")
            .field("issuer", &self.issuer())
            .field("keys", &keys)
            .finish_non_exhaustive()
    }
}

impl TokenKey {
    fn new(public: &VerifyingKey) -> Self {
        Self {
            // As upstream: whoever has both must find the same key under the same id.
            id: URL_SAFE_NO_PAD.encode(Sha256::digest(&public.spki)),
            decoding: DecodingKey::from_ec_der(&public.point),
            public: public.clone(),
        }
    }
}

impl VerifiedToken {
    /// The user that the token stands for, once its account and bound object have been seen.
    pub fn user_info(&self) -> UserInfo {
        let mut user = UserInfo {
            name: service_account::username(&self.namespace, &self.account.name),
            uid: self.account.uid.clone(),
            groups: service_account::groups(&self.namespace),
            ..UserInfo::default()
        };
        let mut add = |key: &str, value: &str| {
            user.extra.insert(key.to_owned(), vec![value.to_owned()]);
        };
        if !self.jti.is_empty() {
            add(CREDENTIAL_ID, &format!("JTI={}", self.jti));
        }
        let mut node = self.pod_node.as_ref();
        match &self.bound {
            Some(Bound { kind: BoundKind::Pod, object }) => {
                add(POD_NAME, &object.name);
                add(POD_UID, &object.uid);
            }
            Some(Bound { kind: BoundKind::Node, object }) => node = Some(object),
            _ => {}
        }
        if let Some(node) = node.filter(|node| !node.name.is_empty()) {
            add(NODE_NAME, &node.name);
            if !node.uid.is_empty() {
                add(NODE_UID, &node.uid);
            }
        }
        user
    }
}

/// The part of a payload that may be looked at before the signature is.
#[derive(Deserialize)]
struct Origin {
    iss: String,
}

/// The library has no clock that can be passed in, so times and audiences are checked here.
fn signature_only() -> Validation {
    let mut validation = Validation::new(Algorithm::ES256);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation
}

fn is_json(error: &jsonwebtoken::errors::Error) -> bool {
    matches!(error.kind(), jsonwebtoken::errors::ErrorKind::Json(_))
}

/// A list of strings as Go's `%q` shows it.
struct GoList<'a>(&'a [String]);

impl fmt::Display for GoList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted: Vec<_> = self.0.iter().map(|text| crate::field::quoted(text)).collect();
        write!(f, "[{}]", quoted.join(" "))
    }
}

/// The name that API servers inside a cluster go by.
pub const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

const POD_NAME: &str = "authentication.kubernetes.io/pod-name";
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODE_UID: &str = "authentication.kubernetes.io/node-uid";
/// In bytes. Ours have about one thousand; a request header can hardly hold more than this.
const MAX_TOKEN: usize = 16 << 10;

#[cfg(test)]
mod tests;
