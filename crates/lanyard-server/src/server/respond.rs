//! Responses: bodies, headers, and errors as Status objects.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::{
    http::{ResponseBody, finish},
    negotiate::{self, Encoding, Shape},
    status::ApiError,
};

/// A response with one of our bodies.
pub(super) type Reply = Response<ResponseBody>;

/// Warnings longer than this altogether are cut to [`MAX_WARNING`] runes each, as upstream does.
const MAX_WARNINGS: usize = 4096;
const MAX_WARNING: usize = 256;

/// A response with a body of some media type.
pub(super) fn reply(code: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Reply {
    let mut response = Response::new(ResponseBody::full(body));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// A JSON (or YAML) document that is not an object of some type.
pub(super) fn document(headers: &HeaderMap, pretty: bool, code: StatusCode, body: &Value) -> Reply {
    let accepted = negotiate::response(headers, &[Shape::Object]);
    // Whoever cannot be given what they accept is taken for a person.
    let pretty = pretty || accepted.is_err();
    let encoding = accepted.map_or(Encoding::Json, |accepted| accepted.encoding);
    encoded(encoding, pretty, code, body)
}

/// A document in an encoding that was chosen already.
pub(super) fn encoded(encoding: Encoding, pretty: bool, code: StatusCode, body: &Value) -> Reply {
    let bytes = finish(body.to_string().into(), encoding, pretty);
    reply(code, encoding.content_type(), bytes)
}

/// A failure.
pub(super) fn failure(headers: &HeaderMap, pretty: bool, error: &ApiError) -> Reply {
    let mut response = document(headers, pretty, error.code(), &error.to_status());
    if error.forbids_sniffing() {
        forbid_sniffing(&mut response);
    }
    if let Some(seconds) = error.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// A plain text answer.
pub(super) fn text(code: StatusCode, body: impl Into<Bytes>) -> Reply {
    reply(code, "text/plain; charset=utf-8", body)
}

/// Keeps browsers from taking text for something else.
pub(super) fn forbid_sniffing(response: &mut Reply) {
    response
        .headers_mut()
        .insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Adds what every response has.
pub(super) fn complete(response: &mut Reply, audit_id: &HeaderValue, warnings: &[String]) {
    let headers = response.headers_mut();
    headers.insert("audit-id", audit_id.clone());
    if !headers.contains_key(header::CACHE_CONTROL) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    }
    let total: usize = warnings.iter().map(String::len).sum();
    let mut seen: Vec<&str> = Vec::new();
    for warning in warnings {
        if seen.contains(&warning.as_str()) {
            continue;
        }
        seen.push(warning);
        let limit = if total > MAX_WARNINGS { MAX_WARNING } else { usize::MAX };
        let text: String = warning.chars().filter(|c| !c.is_control()).take(limit).collect();
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
            headers.append(header::WARNING, value);
        }
    }
}

/// People at a terminal or browser read indented JSON.
pub(super) fn wants_pretty(headers: &HeaderMap, asked: Option<bool>) -> bool {
    asked.unwrap_or_else(|| {
        let agent =
            headers.get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        ["curl", "Wget", "Mozilla/5.0"].iter().any(|name| agent.starts_with(name))
    })
}
