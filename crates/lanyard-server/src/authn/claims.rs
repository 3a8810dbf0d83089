//! What a token says, as it stands on the wire, and whether that is good here and now.

use std::collections::HashSet;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::service_account;
use super::tokens::{Bound, BoundKind, Identity, TokenClaims, TokenError, VerifiedToken};

/// The payload of a token on the wire.
#[derive(Serialize, Deserialize)]
pub(super) struct Claims {
    pub(super) iss: String,
    #[serde(default)]
    sub: String,
    aud: Audience,
    exp: i64,
    #[serde(default)]
    nbf: Option<i64>,
    #[serde(default)]
    iat: Option<i64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    jti: String,
    #[serde(rename = "kubernetes.io")]
    private: Private,
}

#[derive(Serialize, Deserialize)]
struct Private {
    namespace: String,
    serviceaccount: Identity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod: Option<Identity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    secret: Option<Identity>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    node: Option<Identity>,
}

/// One audience may stand without a list (RFC 7519 section 4.1.3).
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Audience {
    Many(Vec<String>),
    One(String),
}

impl Claims {
    /// The payload of a new token.
    pub(super) fn new(issuer: &str, claims: &TokenClaims) -> Self {
        let of_kind = |kind| {
            let bound = claims.bound.as_ref().filter(|bound| bound.kind == kind);
            bound.map(|bound| bound.object.clone())
        };
        let pod = of_kind(BoundKind::Pod);
        let pod_node = claims.pod_node.clone().filter(|_| pod.is_some());
        Self {
            iss: issuer.to_owned(),
            sub: service_account::username(&claims.namespace, &claims.account.name),
            aud: Audience::Many(claims.audiences.clone()),
            exp: claims.expires_at.as_second(),
            nbf: Some(claims.issued_at.as_second()),
            iat: Some(claims.issued_at.as_second()),
            jti: claims.jti.clone(),
            private: Private {
                namespace: claims.namespace.clone(),
                serviceaccount: claims.account.clone(),
                secret: of_kind(BoundKind::Secret),
                node: of_kind(BoundKind::Node).or(pod_node),
                pod,
            },
        }
    }

    /// Whether the payload of an authentic token is good for one of `audiences` now.
    pub(super) fn check(
        self,
        audiences: &[String],
        now: Timestamp,
    ) -> Result<VerifiedToken, TokenError> {
        let audiences = matching(&self.aud.into_vec(), audiences)?;
        check_time(self.nbf, self.iat, self.exp, now)?;
        let Private { namespace, serviceaccount: account, pod, secret, node } = self.private;
        if namespace.is_empty() || account.name.is_empty() || account.uid.is_empty() {
            return Err(TokenError::BadClaims);
        }
        let bound_to = |kind, object| Some(Bound { kind, object });
        let (bound, pod_node) = match (pod, secret, node) {
            (None, None, None) => (None, None),
            (Some(pod), None, node) => (bound_to(BoundKind::Pod, pod), node),
            (None, Some(secret), None) => (bound_to(BoundKind::Secret, secret), None),
            (None, None, Some(node)) => (bound_to(BoundKind::Node, node), None),
            _ => return Err(TokenError::BadClaims),
        };
        let expires_at = Timestamp::from_second(self.exp).map_err(|_| TokenError::BadClaims)?;
        let jti = self.jti;
        Ok(VerifiedToken { namespace, account, bound, pod_node, jti, audiences, expires_at })
    }
}

impl Audience {
    fn into_vec(self) -> Vec<String> {
        match self {
            Self::Many(many) => many,
            Self::One(one) => vec![one],
        }
    }
}

fn matching(meant: &[String], wanted: &[String]) -> Result<Vec<String>, TokenError> {
    let for_whom: HashSet<&String> = meant.iter().collect();
    let both: Vec<_> = wanted.iter().filter(|a| for_whom.contains(a)).cloned().collect();
    if both.is_empty() {
        return Err(TokenError::WrongAudience { meant: meant.to_vec(), wanted: wanted.to_vec() });
    }
    Ok(both)
}

fn check_time(
    not_before: Option<i64>,
    issued_at: Option<i64>,
    expires_at: i64,
    now: Timestamp,
) -> Result<(), TokenError> {
    let now = now.as_second();
    let is_ahead = |time: Option<i64>| time.is_some_and(|time| now + LEEWAY < time);
    if is_ahead(not_before) {
        return Err(TokenError::NotYetValid);
    }
    if now - LEEWAY > expires_at {
        return Err(TokenError::Expired);
    }
    if is_ahead(issued_at) {
        return Err(TokenError::IssuedInTheFuture);
    }
    Ok(())
}

/// In seconds. How far clocks may be apart, as upstream.
const LEEWAY: i64 = 60;
