//! Reviews and token requests: objects that are answered rather than stored.

use http::{HeaderValue, StatusCode, header};
use hyper::body::Incoming;
use jiff::Timestamp;
use serde_json::Value;

use super::{
    State,
    identity::{authenticated, bound_uid},
    pipeline::RequestHead,
    respond::{self, Reply},
};
use crate::{
    authn::{
        Identity, JWKS_TYPE, OPENID_CACHE_CONTROL, OPENID_CONFIGURATION_TYPE, TokenRequest,
        UserInfo, review,
    },
    negotiate::{self, Shape},
    object::ObjectExt,
    registry::{Call, Endpoint, Expected},
    request::{ResourcePath, VersionMatch, WriteOptions},
    reviews::Review,
    status::{ApiError, ApiResult},
};

impl State {
    /// Answers a review.
    pub(super) async fn review(
        &self,
        head: &RequestHead,
        kind: Review,
        path: &ResourcePath,
        user: &UserInfo,
        body: Incoming,
    ) -> ApiResult<Reply> {
        let misplaced = kind.namespaced() == path.namespace.is_empty();
        if !path.name.is_empty() || !path.subresource.is_empty() || misplaced {
            return Err(ApiError::no_such_resource());
        }
        let mut object = self.virtual_body(head, &kind.expected(), body).await?;
        match (object.namespace(), path.namespace.as_str()) {
            ("", "") => {}
            (_, "") => drop(object.meta_mut().remove("namespace")),
            ("", namespace) => drop(object.meta_mut().insert("namespace".into(), namespace.into())),
            (named, namespace) if named != namespace => return Err(ApiError::other_namespace()),
            _ => {}
        }
        match kind {
            Review::Token => object["status"] = self.review_token(&object)?,
            _ => kind.answer(&self.registry.admission.rbac, user, &mut object)?,
        }
        Ok(respond::document(&head.parts.headers, head.pretty, StatusCode::CREATED, &object))
    }

    /// The status of a TokenReview.
    fn review_token(&self, object: &Value) -> ApiResult<Value> {
        let token = object.text(&["spec", "token"]);
        if token.is_empty() {
            return Err(ApiError::bad_request(
                "token is required for TokenReview in authentication",
            ));
        }
        let asked = object.at(&["spec", "audiences"]).and_then(Value::as_array);
        let mut audiences: Vec<String> =
            asked.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
        if audiences.is_empty() {
            audiences = self.identities.issuer.api_audiences().to_vec();
        }
        Ok(match self.identities.verify(&self.registry, token, &audiences) {
            Ok(token) => {
                review::token_accepted(&authenticated(token.user_info()), &token.audiences)
            }
            Err(error) => review::token_refused(&error),
        })
    }

    /// Issues a token for a service account.
    pub(super) async fn token_request(
        &self,
        head: &RequestHead,
        endpoint: &Endpoint,
        path: &ResourcePath,
        user: &UserInfo,
        body: Incoming,
    ) -> ApiResult<Reply> {
        if head.info.verb != "create" {
            return Err(ApiError::method_not_allowed());
        }
        let call = Call {
            user,
            endpoint,
            namespace: &path.namespace,
            name: &path.name,
            subresource: None,
            manager: "",
            warnings: &head.warnings,
        };
        let expected = Expected::virtual_kind("authentication.k8s.io", "TokenRequest");
        let object = self.virtual_body(head, &expected, body).await?;
        let account = self.registry.get(&call, VersionMatch::Newest).await?.value();
        let account = Identity { name: account.name().to_owned(), uid: account.uid().to_owned() };
        let issuer = &self.identities.issuer;
        let request =
            TokenRequest::from_object(&object, &path.namespace, &account, issuer.api_audiences())?;
        let bound = match &request.bound {
            None => None,
            Some(bound) => {
                let found = bound_uid(&self.registry, &path.namespace, bound);
                let missing = || ApiError::not_found(bound.kind.resource(), &bound.object.name);
                Some(found.ok_or_else(missing)?)
            }
        };
        let now = Timestamp::now();
        let jti = uuid::Uuid::new_v4().to_string();
        let claims = request.claims(bound.as_deref(), now, jti)?;
        let token =
            issuer.issue(&claims).map_err(|e| ApiError::internal("cannot sign a token", e))?;
        let answer = request.response(&token, now)?;
        Ok(respond::document(&head.parts.headers, head.pretty, StatusCode::CREATED, &answer))
    }

    /// The body of an object that is not stored; tables of such things make no sense.
    async fn virtual_body(
        &self,
        head: &RequestHead,
        expected: &Expected<'_>,
        body: Incoming,
    ) -> ApiResult<Value> {
        if head.info.verb != "create" {
            return Err(ApiError::method_not_allowed());
        }
        negotiate::response(&head.parts.headers, &[Shape::Object])?;
        let options = WriteOptions::parse(&head.query, "CreateOptions")?;
        let body = head.body(body, options.field_validation, false).await?;
        expected.decode(&self.registry.served(), &body, &head.warnings)
    }

    pub(super) fn issuer_configuration(&self) -> Reply {
        let url = super::server_url(self.address);
        openid(OPENID_CONFIGURATION_TYPE, self.identities.issuer.openid_configuration(&url))
    }

    pub(super) fn issuer_keys(&self) -> Reply {
        openid(JWKS_TYPE, self.identities.issuer.jwks())
    }
}

fn openid(content_type: &'static str, body: String) -> Reply {
    let mut response = respond::reply(StatusCode::OK, content_type, body);
    let cache = HeaderValue::from_static(OPENID_CACHE_CONTROL);
    response.headers_mut().insert(header::CACHE_CONTROL, cache);
    response
}
