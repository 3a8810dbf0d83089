//! `/openapi/v3` and `/openapi/v2`: documents with entity tags, and addresses that never go stale.

use http::{HeaderValue, StatusCode, header};
use jiff::{SignedDuration, Timestamp};

use super::{
    State,
    other::page_not_found,
    pipeline::RequestHead,
    respond::{self, Reply},
};
use crate::{
    clock, negotiate,
    openapi::Document,
    status::{ApiError, ApiResult},
};

const JSON: &str = "application/json";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// How clients ask for it who knew it before media types could not have an `@`.
const V2_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

const A_YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

impl State {
    /// Answers a request for an OpenAPI document. Making one takes a while, so it is done where it may block.
    pub(super) async fn openapi(&self, head: &RequestHead, path: &str) -> ApiResult<Reply> {
        let (openapi, discovery) = (self.openapi.clone(), self.discovery());
        match path.strip_prefix("/openapi/").unwrap_or_default() {
            "v2" => {
                let known = [JSON, V2_PROTOBUF_OLD, V2_PROTOBUF];
                let Some(media) = negotiate::media_type(&head.parts.headers, &known) else {
                    return Ok(not_acceptable());
                };
                let made = blocking(move || openapi.everything(&discovery)).await?;
                Ok(match media {
                    JSON => send(head, &made.json, JSON),
                    _ => send(head, &made.protobuf, V2_PROTOBUF),
                })
            }
            "v3" => {
                let index = blocking(move || openapi.index(&discovery)).await?;
                Ok(send(head, &index, "text/plain; charset=utf-8"))
            }
            rest => match rest.strip_prefix("v3/") {
                Some(name) => {
                    if negotiate::media_type(&head.parts.headers, &[JSON]).is_none() {
                        return Ok(not_acceptable());
                    }
                    let wanted = name.to_owned();
                    let page = blocking(move || openapi.page(&discovery, &wanted)).await?;
                    Ok(page.map_or_else(
                        || empty(StatusCode::NOT_FOUND),
                        |p| page_reply(head, name, &p),
                    ))
                }
                None => Ok(page_not_found()),
            },
        }
    }
}

/// A document by its hash stays what it is; one by another hash has moved.
fn page_reply(head: &RequestHead, name: &str, page: &Document) -> Reply {
    match head.query.get("hash").filter(|hash| !hash.is_empty()) {
        None => send(head, page, JSON),
        Some(hash) if hash == page.hash => {
            let mut response = send(head, page, JSON);
            let headers = response.headers_mut();
            let forever = HeaderValue::from_static("public, immutable");
            headers.insert(header::CACHE_CONTROL, forever);
            insert(headers, header::EXPIRES, &clock::http_date(Timestamp::now() + A_YEAR));
            response
        }
        Some(_) => {
            let mut response = respond::reply(StatusCode::MOVED_PERMANENTLY, JSON, "");
            let place = format!("/openapi/v3/{name}?hash={}", page.hash);
            tag(&mut response, page);
            insert(response.headers_mut(), header::LOCATION, &place);
            response
        }
    }
}

/// The document, unless the client has it.
fn send(head: &RequestHead, document: &Document, media: &'static str) -> Reply {
    let etag = format!("\"{}\"", document.hash);
    let known = head.parts.headers.get(header::IF_NONE_MATCH);
    if known.is_some_and(|known| known.as_bytes() == etag.as_bytes()) {
        let mut response = empty(StatusCode::NOT_MODIFIED);
        tag(&mut response, document);
        return response;
    }
    let gzip = negotiate::accepts_gzip(&head.parts.headers);
    let body = if gzip { document.gzip() } else { document.plain() };
    let mut response = respond::reply(StatusCode::OK, media, body);
    tag(&mut response, document);
    let headers = response.headers_mut();
    if gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    insert(headers, header::LAST_MODIFIED, &clock::http_date(document.modified));
    response
}

/// What caches must know of a document.
fn tag(response: &mut Reply, document: &Document) {
    let headers = response.headers_mut();
    vary(headers);
    insert(headers, header::ETAG, &format!("\"{}\"", document.hash));
}

fn not_acceptable() -> Reply {
    let mut response = empty(StatusCode::NOT_ACCEPTABLE);
    vary(response.headers_mut());
    response
}

fn vary(headers: &mut http::HeaderMap) {
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.append(header::VARY, HeaderValue::from_static("Accept"));
}

fn empty(code: StatusCode) -> Reply {
    let mut response = respond::reply(code, JSON, "");
    response.headers_mut().remove(header::CONTENT_TYPE);
    response
}

fn insert(headers: &mut http::HeaderMap, name: header::HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> ApiResult<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| ApiError::internal("cannot make the document", error))
}
