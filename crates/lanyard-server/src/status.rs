//! What a client is told when a request fails: a Kubernetes `Status` with the right code, reason and text.
//!
//! Every failure in the server ends as one [`ApiError`]. What the client sees is chosen here and never
//! leaks an inner error; the inner cause goes to the log only.

use std::fmt;

use http::StatusCode;
use serde_json::{Map, Value, json};

use crate::field::FieldError;

/// The result of handling a request.
pub type ApiResult<T> = Result<T, ApiError>;

/// A failed request, as the client will see it.
#[derive(Clone, Debug)]
pub struct ApiError(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Map<String, Value>,
    /// Upstream shows the details of some failures even when there are none.
    show_details: bool,
    forbid_sniffing: bool,
    continue_token: Option<String>,
    internal: Option<String>,
}

/// The group and name of a resource type, e.g. `configmaps` or `leases.coordination.k8s.io`.
#[derive(Clone, Copy, Debug)]
pub struct GroupName<'a> {
    /// The API group, empty for core.
    pub group: &'a str,
    /// A resource (plural) or a kind, as the message wants it.
    pub name: &'a str,
}

impl fmt::Display for GroupName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group {
            "" => f.write_str(self.name),
            group => write!(f, "{}.{group}", self.name),
        }
    }
}

impl ApiError {
    /// A failure with a code, a reason and a message.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            reason,
            message: message.into(),
            details: Map::new(),
            show_details: false,
            forbid_sniffing: false,
            continue_token: None,
            internal: None,
        }))
    }

    /// A failure that is about no object, and says so in empty details.
    fn generic(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        let mut error = Self::new(code, reason, message);
        error.0.show_details = true;
        error
    }

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 400: body and URL name different namespaces.
    pub fn other_namespace() -> Self {
        let text = "the namespace of the provided object does not match the namespace sent on the \
                    request";
        Self::bad_request(text)
    }

    /// 401: the credentials are missing or wrong.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 403 for a named object: `configmaps "x" is forbidden: why`.
    pub fn forbidden(resource: GroupName<'_>, name: &str, why: impl fmt::Display) -> Self {
        let message = match (resource.name, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{resource} is forbidden: {why}"),
            _ => format!("{resource} {} is forbidden: {why}", crate::field::quoted(name)),
        };
        Self::generic(StatusCode::FORBIDDEN, "Forbidden", message).about(resource, name)
    }

    /// 404 for a named object.
    pub fn not_found(resource: GroupName<'_>, name: &str) -> Self {
        let message = format!("{resource} {} not found", crate::field::quoted(name));
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(resource, name)
    }

    /// 404 for a path that names nothing we serve.
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::generic(StatusCode::NOT_FOUND, "NotFound", message)
    }

    /// 405: the resource is there, but not with this verb.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::generic(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 405: the type is there, but not with this verb.
    pub fn method_not_supported(resource: GroupName<'_>, verb: &str) -> Self {
        let message = format!(
            "{verb} is not supported on resources of kind {}",
            crate::field::quoted(&resource.to_string())
        );
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message).about(resource, "")
    }

    /// 406: we cannot produce the media type with these parameters.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 406: we produce none of the accepted media types.
    pub fn unknown_media_type(available: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {available}");
        Self::generic(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 409: something of that name exists.
    pub fn already_exists(resource: GroupName<'_>, name: &str, deleting: bool) -> Self {
        let state = if deleting { "object is being deleted: " } else { "" };
        let message = format!("{state}{resource} {} already exists", crate::field::quoted(name));
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(resource, name)
    }

    /// 409: the request does not fit the present state.
    pub fn conflict(resource: GroupName<'_>, name: &str, why: impl fmt::Display) -> Self {
        let name_shown = crate::field::quoted(name);
        let message = format!("Operation cannot be fulfilled on {resource} {name_shown}: {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(resource, name)
    }

    /// 409: another writer was faster.
    pub fn modified(resource: GroupName<'_>, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version \
                   and try again";
        Self::conflict(resource, name, why)
    }

    /// 410: the resource version or continue token is older than the history we keep.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// 413: the body is over `limit` bytes.
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// 415: the body's media type is not one that we read.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: \
             {accepted}"
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// 415: no patch has this media type.
    pub fn unknown_patch_type() -> Self {
        let message = "415: Unsupported Media Type";
        Self::generic(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// 422: the patch does not apply; the log gets `cause`.
    pub fn patch_rejected(cause: impl fmt::Display) -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::generic(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).because(cause)
    }

    /// 422: the object (of kind `kind`) breaks the rules.
    pub fn invalid(kind: GroupName<'_>, name: &str, errors: &[FieldError]) -> Self {
        let name_shown = crate::field::quoted(name);
        let message = format!("{kind} {name_shown} is invalid: {}", joined(errors));
        let causes = errors
            .iter()
            .take(MAX_PROBLEMS)
            .map(|e| json!({"reason": e.kind.cause(), "message": e.body, "field": e.path}))
            .collect::<Vec<_>>();
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message);
        error = error.about(kind, name);
        error.0.details.insert("causes".into(), causes.into());
        error
    }

    /// 429: come back in a second.
    pub fn too_many_requests(message: impl Into<String>, retry_after: u32) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
            .retry_after(retry_after)
    }

    /// 500: our fault; the client gets `message`, the log gets `cause` too.
    pub fn internal(message: impl Into<String>, cause: impl fmt::Display) -> Self {
        let message = format!("Internal error occurred: {}", message.into());
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message).because(cause)
    }

    /// 500 without a reason: what upstream answers to the few mistakes that it has no code for.
    pub fn unclassified(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// 503: not now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    /// 504: it took too long.
    pub fn timeout(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message)
    }

    /// Names the object that this is about.
    pub fn about(mut self, resource: GroupName<'_>, name: &str) -> Self {
        for (field, value) in [("name", name), ("group", resource.group), ("kind", resource.name)] {
            if !value.is_empty() {
                self.0.details.insert(field.into(), value.into());
            }
        }
        self
    }

    /// The same failure with another code and reason.
    pub fn turned_into(mut self, code: StatusCode, reason: &'static str) -> Self {
        self.0.code = code;
        self.0.reason = reason;
        self
    }

    /// Adds a machine-readable cause; the reason may be empty.
    pub fn caused(mut self, reason: &str, message: &str, field: Option<&str>) -> Self {
        let mut cause = json!({"message": message});
        if !reason.is_empty() {
            cause["reason"] = reason.into();
        }
        if let Some(field) = field {
            cause["field"] = field.into();
        }
        let causes = self.0.details.entry("causes").or_insert_with(|| json!([]));
        if let Value::Array(causes) = causes {
            causes.push(cause);
        }
        self
    }

    /// Tells the client to wait this many seconds.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.0.details.insert("retryAfterSeconds".into(), seconds.into());
        self
    }

    /// Offers a token to continue an expired list with.
    pub fn continue_with(mut self, token: String) -> Self {
        self.0.continue_token = Some(token);
        self
    }

    /// Browsers are not to take the answer for anything but text.
    pub fn forbid_sniffing(mut self) -> Self {
        self.0.forbid_sniffing = true;
        self
    }

    /// Whether browsers are not to guess what the answer is.
    pub fn forbids_sniffing(&self) -> bool {
        self.0.forbid_sniffing
    }

    /// Remembers the inner cause, for the log only.
    pub fn because(mut self, cause: impl fmt::Display) -> Self {
        self.0.internal = Some(cause.to_string());
        self
    }

    /// The HTTP status code.
    pub fn code(&self) -> StatusCode {
        self.0.code
    }

    /// The machine-readable reason.
    pub fn reason(&self) -> &'static str {
        self.0.reason
    }

    /// The sentence for the client.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What the log should know beyond the message.
    pub fn internal_cause(&self) -> Option<&str> {
        self.0.internal.as_deref()
    }

    /// Seconds for the `Retry-After` header.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.0.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    /// The `Status` object.
    pub fn to_status(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.0.continue_token {
            metadata.insert("continue".into(), token.as_str().into());
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.0.message,
            "code": self.0.code.as_u16(),
        });
        if !self.0.reason.is_empty() {
            status["reason"] = self.0.reason.into();
        }
        if !self.0.details.is_empty() || self.0.show_details {
            status["details"] = Value::Object(self.0.details.clone());
        }
        status
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for ApiError {}

/// How many problems of one object are told: nobody reads more, and a hostile object has a million.
const MAX_PROBLEMS: usize = 100;

/// Field problems as upstream joins them: one stands alone, several stand in brackets, none twice.
fn joined(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors.iter().take(MAX_PROBLEMS) {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    if let Some(more) = errors.len().checked_sub(MAX_PROBLEMS).filter(|more| *more > 0) {
        texts.push(format!("and {more} more"));
    }
    match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    }
}
