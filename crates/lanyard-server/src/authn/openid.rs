//! What others need to verify our tokens: the documents of OpenID Connect discovery.
//!
//! Both change only when the server is restarted with other keys, and may be cached for an hour.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use super::TokenIssuer;
use super::tokens::TokenKey;

/// Where [`TokenIssuer::openid_configuration`] is served.
pub const OPENID_CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";
/// Where [`TokenIssuer::jwks`] is served.
pub const JWKS_PATH: &str = "/openid/v1/jwks";
/// The content type of the discovery document.
pub const OPENID_CONFIGURATION_TYPE: &str = "application/json";
/// The content type of the key set (RFC 7517 section 8.5.1).
pub const JWKS_TYPE: &str = "application/jwk-set+json";
/// The `Cache-Control` header of both.
pub const OPENID_CACHE_CONTROL: &str = "public, max-age=3600";

impl TokenIssuer {
    /// The discovery document; `server_url` is where clients reach us, e.g. `https://10.0.0.1:6443`.
    pub fn openid_configuration(&self, server_url: &str) -> String {
        json(&Configuration {
            issuer: self.issuer(),
            jwks_uri: format!("{}{JWKS_PATH}", server_url.trim_end_matches('/')),
            response_types_supported: ["id_token"],
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: [ALGORITHM],
        })
    }

    /// The public keys that verify our tokens, as a JSON Web Key Set.
    pub fn jwks(&self) -> String {
        json(&KeySet { keys: self.keys.iter().map(Key::new).collect() })
    }
}

#[derive(Serialize)]
struct Configuration<'a> {
    issuer: &'a str,
    jwks_uri: String,
    response_types_supported: [&'static str; 1],
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: [&'static str; 1],
}

#[derive(Serialize)]
struct KeySet<'a> {
    keys: Vec<Key<'a>>,
}

#[derive(Serialize)]
struct Key<'a> {
    #[serde(rename = "use")]
    usage: &'static str,
    kty: &'static str,
    kid: &'a str,
    crv: &'static str,
    alg: &'static str,
    x: String,
    y: String,
}

impl<'a> Key<'a> {
    fn new(key: &'a TokenKey) -> Self {
        // After the byte that says "uncompressed".
        let (x, y) = key.public.point[1..].split_at(32);
        Self {
            usage: "sig",
            kty: "EC",
            kid: &key.id,
            crv: "P-256",
            alg: ALGORITHM,
            x: URL_SAFE_NO_PAD.encode(x),
            y: URL_SAFE_NO_PAD.encode(y),
        }
    }
}

fn json(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("plain structs of strings always serialise")
}

const ALGORITHM: &str = "ES256";

#[cfg(test)]
mod tests {
    use jsonwebtoken::jwk::JwkSet;

    use super::super::DEFAULT_ISSUER;
    use super::*;
    use crate::pki::ServiceAccountKeys;

    #[test]
    fn the_configuration_is_as_upstream_writes_it() {
        let issuer = TokenIssuer::new(DEFAULT_ISSUER, &ServiceAccountKeys::generate().unwrap());
        assert_eq!(
            issuer.openid_configuration("https://10.0.0.1:6443/"),
            "{\"issuer\":\"https://kubernetes.default.svc.cluster.local\",\
             \"jwks_uri\":\"https://10.0.0.1:6443/openid/v1/jwks\",\
             \"response_types_supported\":[\"id_token\"],\
             \"subject_types_supported\":[\"public\"],\
             \"id_token_signing_alg_values_supported\":[\"ES256\"]}"
        );
    }

    #[test]
    fn the_key_set_lists_every_key_that_verifies() {
        let old = ServiceAccountKeys::generate().unwrap();
        let keys = ServiceAccountKeys::generate().unwrap();
        let keys = keys.also_verify_with(old.verifying()[0].clone());
        let issuer = TokenIssuer::new(DEFAULT_ISSUER, &keys);
        let text = issuer.jwks();
        assert!(
            text.starts_with("{\"keys\":[{\"use\":\"sig\",\"kty\":\"EC\",\"kid\":\""),
            "{text}"
        );
        let set: JwkSet = serde_json::from_str(&text).unwrap();
        let ids: Vec<_> = set.keys.iter().map(|key| key.common.key_id.clone().unwrap()).collect();
        assert_eq!(ids, [issuer.keys[0].id.clone(), issuer.keys[1].id.clone()]);
    }
}
