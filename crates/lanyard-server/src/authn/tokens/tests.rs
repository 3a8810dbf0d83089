//! Tokens that are good, and the many ways in which they are not.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::*;

const AUDIENCE: &str = "https://api";

fn now() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

fn keys() -> ServiceAccountKeys {
    ServiceAccountKeys::generate().unwrap()
}

fn claims() -> TokenClaims {
    TokenClaims {
        namespace: "ns".into(),
        account: identity("bot", "u-1"),
        audiences: vec![AUDIENCE.into(), "vault".into()],
        bound: None,
        pod_node: None,
        issued_at: now(),
        expires_at: now() + SignedDuration::from_hours(1),
        jti: "j-1".into(),
    }
}

fn identity(name: &str, uid: &str) -> Identity {
    Identity { name: name.into(), uid: uid.into() }
}

fn bound(kind: BoundKind) -> Option<Bound> {
    Some(Bound { kind, object: identity("x", "u-2") })
}

fn part(token: &str, index: usize) -> Value {
    let part = token.split('.').nth(index).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

/// A token with any header and payload, properly signed with the key of `keys`.
fn forge(keys: &ServiceAccountKeys, header: &Value, payload: &Value) -> String {
    let message = format!("{}.{}", encoded(header), encoded(payload));
    let key = EncodingKey::from_ec_der(keys.expose_signing_key());
    let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &key, Algorithm::ES256).unwrap();
    format!("{message}.{signature}")
}

#[test]
fn a_token_says_what_upstream_says() {
    let issuer = TokenIssuer::new(DEFAULT_ISSUER, &keys());
    let token = issuer.issue(&claims()).unwrap();
    assert_eq!(part(&token, 0), json!({"alg": "ES256", "kid": issuer.keys[0].id}));
    let expected = json!({
        "aud": [AUDIENCE, "vault"],
        "exp": 1893459600,
        "iat": 1893456000,
        "iss": DEFAULT_ISSUER,
        "jti": "j-1",
        "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "bot", "uid": "u-1"}},
        "nbf": 1893456000,
        "sub": "system:serviceaccount:ns:bot",
    });
    assert_eq!(part(&token, 1), expected);
    let text = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), expected.to_string(), "members are sorted");
}

#[test]
fn what_was_issued_is_verified() {
    let issuer = TokenIssuer::new(DEFAULT_ISSUER, &keys());
    let check = |kind: Option<BoundKind>, node: Option<Identity>, extra: &[(&str, &str)]| {
        let claims =
            TokenClaims { bound: kind.and_then(bound), pod_node: node.clone(), ..claims() };
        let token = issuer.issue(&claims).unwrap();
        let verified = issuer.verify(&token, &["other".into(), "vault".into()], now()).unwrap();
        let expected = VerifiedToken {
            namespace: claims.namespace,
            account: claims.account,
            bound: claims.bound,
            pod_node: node,
            jti: claims.jti,
            audiences: vec!["vault".into()],
            expires_at: claims.expires_at,
        };
        assert_eq!(verified, expected);
        let user = verified.user_info();
        assert_eq!(user.name, "system:serviceaccount:ns:bot");
        assert_eq!(user.uid, "u-1");
        assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns"]);
        let mut expected = vec![("credential-id", "JTI=j-1")];
        expected.extend(extra);
        let shown = expected.iter().map(|(key, value)| {
            (format!("authentication.kubernetes.io/{key}"), vec![(*value).to_owned()])
        });
        assert_eq!(user.extra, shown.collect());
    };
    let pod = [("pod-name", "x"), ("pod-uid", "u-2")];
    check(None, None, &[]);
    check(Some(BoundKind::Secret), None, &[]);
    check(Some(BoundKind::Pod), None, &pod);
    let on_node = [&pod[..], &[("node-name", "n"), ("node-uid", "u-3")]].concat();
    check(Some(BoundKind::Pod), Some(identity("n", "u-3")), &on_node);
    check(Some(BoundKind::Node), None, &[("node-name", "x"), ("node-uid", "u-2")]);
}

#[test]
fn a_token_of_the_former_key_is_still_good() {
    let old = keys();
    let token = TokenIssuer::new(DEFAULT_ISSUER, &old).issue(&claims()).unwrap();
    let audiences = [AUDIENCE.to_owned()];
    let new = keys();
    let verify = |keys: &ServiceAccountKeys| {
        TokenIssuer::new(DEFAULT_ISSUER, keys).verify(&token, &audiences, now())
    };
    assert_eq!(verify(&new), Err(TokenError::BadSignature));
    assert!(verify(&new.also_verify_with(old.verifying()[0].clone())).is_ok());
}

#[test]
fn tokens_count_only_in_their_time() {
    let issuer = TokenIssuer::new(DEFAULT_ISSUER, &keys());
    let token = issuer.issue(&claims()).unwrap();
    let check = |seconds: i64, expected: Option<TokenError>| {
        let at = now() + SignedDuration::from_secs(seconds);
        let result = issuer.verify(&token, &[AUDIENCE.into()], at);
        assert_eq!(result.err(), expected, "{seconds} s after it was issued");
    };
    check(-61, Some(TokenError::NotYetValid));
    check(-60, None);
    check(0, None);
    check(3600 + 60, None);
    check(3600 + 61, Some(TokenError::Expired));
}

/// Replaces members of a good payload and signs it anew.
fn check_claims(change: Value, expected: TokenError) {
    let keys = keys();
    let issuer = TokenIssuer::new(DEFAULT_ISSUER, &keys);
    let good = issuer.issue(&claims()).unwrap();
    let mut payload = part(&good, 1);
    json_patch::merge(&mut payload, &change);
    let token = forge(&keys, &part(&good, 0), &payload);
    assert_eq!(issuer.verify(&token, &[AUDIENCE.into()], now()), Err(expected), "{change}");
}

#[test]
fn signed_nonsense_is_refused() {
    check_claims(json!({"iss": "https://elsewhere"}), TokenError::NotOurs);
    check_claims(json!({"iss": null}), TokenError::NotOurs);
    let far = now().as_second() + 1000;
    check_claims(json!({"nbf": far}), TokenError::NotYetValid);
    check_claims(json!({"nbf": null, "iat": far}), TokenError::IssuedInTheFuture);
    check_claims(json!({"exp": null}), TokenError::BadClaims);
    check_claims(json!({"exp": "tomorrow"}), TokenError::BadClaims);
    check_claims(json!({"exp": i64::MAX}), TokenError::BadClaims);
    check_claims(json!({"aud": null}), TokenError::BadClaims);
    check_claims(json!({"kubernetes.io": null}), TokenError::BadClaims);
    check_claims(json!({"kubernetes.io": {"namespace": ""}}), TokenError::BadClaims);
    check_claims(
        json!({"kubernetes.io": {"serviceaccount": {"uid": null}}}),
        TokenError::BadClaims,
    );
    let two = json!({"pod": {"name": "p"}, "secret": {"name": "s"}});
    check_claims(json!({"kubernetes.io": two}), TokenError::BadClaims);
    let other = |audience: &[&str]| TokenError::WrongAudience {
        meant: audience.iter().map(|a| (*a).to_owned()).collect(),
        wanted: vec![AUDIENCE.into()],
    };
    check_claims(json!({"aud": ["vault"]}), other(&["vault"]));
    check_claims(json!({"aud": "vault"}), other(&["vault"]));
    check_claims(json!({"aud": []}), other(&[]));
}

#[test]
fn a_token_that_was_tampered_with_is_refused() {
    let keys = keys();
    let issuer = TokenIssuer::new(DEFAULT_ISSUER, &keys);
    let good = issuer.issue(&claims()).unwrap();
    let (header, payload) = (part(&good, 0), part(&good, 1));
    let signature = good.split('.').nth(2).unwrap();
    let check = |what: &str, token: String, expected: TokenError| {
        let result = issuer.verify(&token, &[AUDIENCE.into()], now());
        assert_eq!(result, Err(expected), "{what}");
    };
    use TokenError::{BadSignature, NotOurs};

    let mut admin = payload.clone();
    admin["kubernetes.io"]["serviceaccount"]["name"] = "admin".into();
    let altered = format!("{}.{}.{signature}", encoded(&header), encoded(&admin));
    check("another payload", altered, BadSignature);
    let unsigned = |alg: &str| format!("{}.{}.", encoded(&json!({"alg": alg})), encoded(&payload));
    for alg in ["none", "None", "NONE", ""] {
        check("no algorithm", unsigned(alg), NotOurs);
    }
    check("no signature", unsigned("ES256"), BadSignature);
    let public_as_secret = |alg, secret: &[u8]| {
        let header = Header { kid: Some(issuer.keys[0].id.clone()), ..Header::new(alg) };
        jsonwebtoken::encode(&header, &payload, &EncodingKey::from_secret(secret)).unwrap()
    };
    for secret in [&keys.verifying()[0].spki[..], &keys.verifying()[0].point[..]] {
        check("HMAC with the public key", public_as_secret(Algorithm::HS256, secret), BadSignature);
    }
    let stranger = ServiceAccountKeys::generate().unwrap();
    check("another key under our id", forge(&stranger, &header, &payload), BadSignature);
    check(
        "another key without id",
        forge(&stranger, &json!({"alg": "ES256"}), &payload),
        BadSignature,
    );
    let mut other_id = header.clone();
    other_id["kid"] = "unknown".into();
    check("an unknown key id", forge(&keys, &other_id, &payload), BadSignature);
    let mut own_key = header.clone();
    own_key["jwk"] = json!({"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"});
    check("a key in the header", forge(&stranger, &own_key, &payload), BadSignature);
    check("a wrong algorithm", forge(&keys, &json!({"alg": "ES384"}), &payload), BadSignature);
    check("the last character", good[..good.len() - 1].to_owned(), BadSignature);
    check("oversize", format!("{good}{}", "A".repeat(MAX_TOKEN)), NotOurs);
    for garbage in ["", ".", "..", "...", "a.b.c", "\u{0}", "{}", "Bearer x", &good[1..]] {
        check(garbage, garbage.to_owned(), NotOurs);
    }
    check("four parts", format!("{good}.x"), NotOurs);
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    let deep = format!("{}.{}.x", encoded(&header), URL_SAFE_NO_PAD.encode(deep));
    check("deep nesting", deep, NotOurs);
}

#[test]
fn a_token_without_key_id_is_tried_with_every_key() {
    let (old, new) = (keys(), keys());
    let payload = part(&TokenIssuer::new(DEFAULT_ISSUER, &old).issue(&claims()).unwrap(), 1);
    let token = forge(&old, &json!({"alg": "ES256"}), &payload);
    let issuer =
        TokenIssuer::new(DEFAULT_ISSUER, &new.also_verify_with(old.verifying()[0].clone()));
    assert!(issuer.verify(&token, &[AUDIENCE.into()], now()).is_ok());
}

#[test]
fn printing_an_issuer_shows_no_key() {
    let keys = keys();
    let issuer = TokenIssuer::new(DEFAULT_ISSUER, &keys);
    let text = format!("{issuer:?}");
    assert!(text.contains(&issuer.keys[0].id) && !text.contains("signing"), "{text}");
}
