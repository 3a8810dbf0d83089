//! The rules of TokenRequest: what may be asked for at `serviceaccounts/NAME/token`, and the answer.
//!
//! Reading the request, looking at the bound object and answering are three steps, because only the
//! caller can look into the store between them.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::tokens::{Bound, BoundKind, Identity, TokenClaims};
use crate::field::FieldError;
use crate::object::ObjectExt;
use crate::status::{ApiError, ApiResult, GroupName};

/// A TokenRequest that keeps the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRequest {
    /// The namespace of the service account.
    pub namespace: String,
    /// The service account.
    pub account: Identity,
    /// For whom the token is to be.
    pub audiences: Vec<String>,
    /// How long it is to be valid.
    pub expiration_seconds: i64,
    /// The object to bind it to; the uid may be empty. The caller must look for it.
    pub bound: Option<Bound>,
    /// `spec.boundObjectRef` as it was sent, without unknown fields.
    bound_ref: Value,
}

impl TokenRequest {
    /// Reads the body of a request for a token of `account` in `namespace`.
    ///
    /// `api_audiences` are meant when the request names none.
    pub fn from_object(
        object: &Value,
        namespace: &str,
        account: &Identity,
        api_audiences: &[String],
    ) -> ApiResult<Self> {
        check_metadata(object, namespace, account)?;
        let expiration_seconds = match object.at(&["spec", "expirationSeconds"]) {
            None | Some(Value::Null) => DEFAULT_SECONDS,
            Some(value) => value.as_i64().ok_or_else(|| mistyped("expirationSeconds"))?,
        };
        let mut audiences = strings(object.at(&["spec", "audiences"]))?;
        if audiences.is_empty() {
            audiences = api_audiences.to_vec();
        }
        let problems = validate_expiration(expiration_seconds);
        if !problems.is_empty() {
            return Err(ApiError::invalid(KIND, "", &problems));
        }
        let bound_ref = known_fields(object.at(&["spec", "boundObjectRef"]))?;
        Ok(Self {
            namespace: namespace.to_owned(),
            account: account.clone(),
            audiences,
            expiration_seconds,
            bound: bound(&bound_ref)?,
            bound_ref,
        })
    }

    /// The claims of the token. `bound_uid` is the uid of the object that the caller has found.
    ///
    /// 409 if the request meant an object of the same name that is no more.
    pub fn claims(
        &self,
        bound_uid: Option<&str>,
        now: Timestamp,
        jti: String,
    ) -> ApiResult<TokenClaims> {
        let bound = match (&self.bound, bound_uid) {
            (None, _) => None,
            (Some(wanted), Some(found)) => Some(wanted.found(found)?),
            (Some(wanted), None) => {
                return Err(ApiError::not_found(wanted.kind.resource(), &wanted.object.name));
            }
        };
        Ok(TokenClaims {
            namespace: self.namespace.clone(),
            account: self.account.clone(),
            audiences: self.audiences.clone(),
            bound,
            pod_node: None,
            issued_at: now,
            expires_at: self.expires_at(now)?,
            jti,
        })
    }

    /// The whole object to answer with: the request with its gaps filled, and the token.
    pub fn response(&self, token: &str, now: Timestamp) -> ApiResult<Value> {
        Ok(json!({
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": self.account.name,
                "namespace": self.namespace,
                "uid": self.account.uid,
                "creationTimestamp": seconds(now),
            },
            "spec": {
                "audiences": self.audiences,
                "expirationSeconds": self.expiration_seconds,
                "boundObjectRef": self.bound_ref,
            },
            "status": {"token": token, "expirationTimestamp": seconds(self.expires_at(now)?)},
        }))
    }

    fn expires_at(&self, now: Timestamp) -> ApiResult<Timestamp> {
        now.checked_add(SignedDuration::from_secs(self.expiration_seconds))
            .map_err(|error| ApiError::internal("the token would expire too late", error))
    }
}

/// Problems of `spec.expirationSeconds`.
pub fn validate_expiration(seconds: i64) -> Vec<FieldError> {
    let problem = |detail| vec![FieldError::invalid(EXPIRATION, &seconds.into(), detail)];
    if seconds < MIN_SECONDS {
        problem("may not specify a duration less than 10 minutes")
    } else if seconds > MAX_SECONDS {
        problem("may not specify a duration larger than 2^32 seconds")
    } else {
        Vec::new()
    }
}

impl Bound {
    /// This reference with the uid of what was found under its name.
    fn found(&self, uid: &str) -> ApiResult<Self> {
        let wanted = &self.object;
        if !wanted.uid.is_empty() && wanted.uid != uid {
            let why = format!(
                "the UID in the bound object reference ({}) does not match the UID in record. The \
                 object might have been deleted and then recreated",
                wanted.uid
            );
            let kind = GroupName { group: "", name: self.kind.name() };
            return Err(ApiError::conflict(kind, &wanted.name, why));
        }
        let object = Identity { name: wanted.name.clone(), uid: uid.to_owned() };
        Ok(Self { kind: self.kind, object })
    }
}

impl BoundKind {
    /// The kind as in `kind:`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Secret => "Secret",
            Self::Node => "Node",
        }
    }

    /// The resource that holds objects of the kind.
    pub fn resource(self) -> GroupName<'static> {
        let name = match self {
            Self::Pod => "pods",
            Self::Secret => "secrets",
            Self::Node => "nodes",
        };
        GroupName { group: "", name }
    }
}

/// What the metadata says may be left out, but not be wrong.
fn check_metadata(object: &Value, namespace: &str, account: &Identity) -> ApiResult<()> {
    let other = |given: &str, ours: &str| !given.is_empty() && given != ours;
    let invalid = |path: &str, value: &str, detail: &str| {
        let problem = FieldError::invalid_str(path, value, detail);
        Err(ApiError::invalid(KIND, &account.name, &[problem]))
    };
    if other(object.name(), &account.name) {
        let detail = "must match the service account name if specified";
        return invalid("metadata.name", object.name(), detail);
    }
    if other(object.namespace(), namespace) {
        let detail = "must match the service account namespace if specified";
        return invalid("metadata.namespace", object.namespace(), detail);
    }
    if other(object.uid(), &account.uid) {
        let why = format!(
            "the UID in the token request ({}) does not match the UID of the service account ({})",
            object.uid(),
            account.uid
        );
        return Err(ApiError::conflict(KIND, &account.name, why));
    }
    Ok(())
}

/// The reference with the fields that it can have, and those not empty.
fn known_fields(reference: Option<&Value>) -> ApiResult<Value> {
    let reference = match reference {
        None | Some(Value::Null) => return Ok(Value::Null),
        Some(reference) if reference.is_object() => reference,
        Some(_) => return Err(mistyped("boundObjectRef")),
    };
    let fields = ["kind", "apiVersion", "name", "uid"].map(|name| (name, reference.text(&[name])));
    Ok(fields
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name.to_owned(), value.into()))
        .collect::<serde_json::Map<_, Value>>()
        .into())
}

fn bound(reference: &Value) -> ApiResult<Option<Bound>> {
    if reference.is_null() {
        return Ok(None);
    }
    let (group, version) = match reference.api_version().split_once('/') {
        Some((group, version)) => (group, version),
        None => ("", reference.api_version()),
    };
    let kind = match (group, reference.kind()) {
        ("", "Pod") => BoundKind::Pod,
        ("", "Secret") => BoundKind::Secret,
        ("", "Node") => BoundKind::Node,
        (_, kind) => {
            let message =
                format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(message));
        }
    };
    let [name, uid] = ["name", "uid"].map(|field| reference.text(&[field]).to_owned());
    Ok(Some(Bound { kind, object: Identity { name, uid } }))
}

fn strings(list: Option<&Value>) -> ApiResult<Vec<String>> {
    let items = match list {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(items)) => items,
        Some(_) => return Err(mistyped("audiences")),
    };
    let text = |item: &Value| item.as_str().map(str::to_owned);
    items.iter().map(text).collect::<Option<_>>().ok_or_else(|| mistyped("audiences"))
}

fn mistyped(field: &str) -> ApiError {
    ApiError::bad_request(format!("spec.{field} of the TokenRequest has the wrong type"))
}

/// A time as objects show it.
fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

const KIND: GroupName<'static> = GroupName { group: "authentication.k8s.io", name: "TokenRequest" };
const EXPIRATION: &str = "spec.expirationSeconds";
const DEFAULT_SECONDS: i64 = 60 * 60;
const MIN_SECONDS: i64 = 10 * 60;
const MAX_SECONDS: i64 = 1 << 32;

#[cfg(test)]
mod tests {
    use super::*;

    fn bot() -> Identity {
        Identity { name: "bot".into(), uid: "u-1".into() }
    }

    fn read(object: Value) -> ApiResult<TokenRequest> {
        TokenRequest::from_object(&object, "ns", &bot(), &["https://api".into()])
    }

    fn now() -> Timestamp {
        "2030-01-01T00:00:00.5Z".parse().unwrap()
    }

    #[test]
    fn what_is_not_asked_for_is_filled_in() {
        for empty in [json!({}), json!({"spec": {"audiences": [], "expirationSeconds": null}})] {
            let request = read(empty).unwrap();
            assert_eq!(request.audiences, ["https://api"]);
            assert_eq!(request.expiration_seconds, 3600);
            let answer = request.response("TOKEN", now()).unwrap();
            let expected = json!({
                "kind": "TokenRequest",
                "apiVersion": "authentication.k8s.io/v1",
                "metadata": {"name": "bot", "namespace": "ns", "uid": "u-1",
                             "creationTimestamp": "2030-01-01T00:00:00Z"},
                "spec": {"audiences": ["https://api"], "expirationSeconds": 3600,
                         "boundObjectRef": null},
                "status": {"token": "TOKEN", "expirationTimestamp": "2030-01-01T01:00:00Z"},
            });
            assert_eq!(answer, expected);
        }
    }

    #[test]
    fn what_breaks_the_rules_is_refused() {
        let check = |object: Value, code: u16, message: &str| {
            let error = read(object).unwrap_err();
            assert_eq!((error.code().as_u16(), error.message()), (code, message));
        };
        let invalid = "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: \
                       Invalid value: ";
        let short = format!("{invalid}599: may not specify a duration less than 10 minutes");
        check(json!({"spec": {"expirationSeconds": 599}}), 422, &short);
        let long =
            format!("{invalid}4294967297: may not specify a duration larger than 2^32 seconds");
        check(json!({"spec": {"expirationSeconds": 4294967297_i64}}), 422, &long);
        let kind = "cannot bind token to object of type apps/v1, Kind=Secret";
        let reference = json!({"kind": "Secret", "apiVersion": "apps/v1", "name": "s"});
        check(json!({"spec": {"boundObjectRef": reference}}), 400, kind);
        let kind = "cannot bind token to object of type /v1, Kind=ConfigMap";
        let reference = json!({"kind": "ConfigMap", "apiVersion": "v1", "name": "s"});
        check(json!({"spec": {"boundObjectRef": reference}}), 400, kind);
        check(
            json!({"metadata": {"name": "other"}}),
            422,
            "TokenRequest.authentication.k8s.io \"bot\" is invalid: metadata.name: Invalid value: \
             \"other\": must match the service account name if specified",
        );
        check(
            json!({"metadata": {"namespace": "other"}}),
            422,
            "TokenRequest.authentication.k8s.io \"bot\" is invalid: metadata.namespace: Invalid \
             value: \"other\": must match the service account namespace if specified",
        );
        check(
            json!({"metadata": {"uid": "u-2"}}),
            409,
            "Operation cannot be fulfilled on TokenRequest.authentication.k8s.io \"bot\": the UID in \
             the token request (u-2) does not match the UID of the service account (u-1)",
        );
        let message = "spec.boundObjectRef of the TokenRequest has the wrong type";
        check(json!({"spec": {"boundObjectRef": "Secret"}}), 400, message);
        for spec in [json!({"audiences": "a"}), json!({"audiences": [1]})] {
            let message = "spec.audiences of the TokenRequest has the wrong type";
            check(json!({"spec": spec}), 400, message);
        }
    }

    #[test]
    fn a_bound_object_must_be_the_one_that_was_meant() {
        let bound_to = |uid: &str| {
            let reference = json!({"kind": "Secret", "apiVersion": "v1", "name": "s", "uid": uid});
            read(json!({"spec": {"boundObjectRef": reference}})).unwrap()
        };
        let object = Identity { name: "s".into(), uid: "u-9".into() };
        let expected = Some(Bound { kind: BoundKind::Secret, object });
        for uid in ["", "u-9"] {
            let claims = bound_to(uid).claims(Some("u-9"), now(), "j".into()).unwrap();
            assert_eq!(claims.bound, expected);
        }
        let code = |found| bound_to("u-8").claims(found, now(), "j".into()).unwrap_err().code();
        assert_eq!(code(Some("u-9")), 409);
        assert_eq!(code(None), 404);
    }
}
