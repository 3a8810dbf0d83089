//! One request, step by step: identify, authorize, dispatch, answer, record.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, Request, request::Parts};
use hyper::body::Incoming;
use jiff::Timestamp;
use parking_lot::Mutex;
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

use super::{
    PeerIdentity, State,
    respond::{self, Reply},
};
use crate::{
    admission::authorize,
    authn::{UserInfo, review::user_info},
    authz::{Attributes, Target},
    clock,
    http::{Connection, Handler},
    metrics::RequestLabels,
    request::{PathTarget, Query, RequestInfo, ResourcePath},
    status::{ApiError, ApiResult},
};

/// A request that is not a watch must be answered within this, as upstream has it.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// How many reads and writes may be under way, as upstream's defaults.
const MAX_READS: usize = 400;
const MAX_WRITES: usize = 200;

/// A client's own audit id is taken if it is no longer than this, else it gets one of ours.
const MAX_AUDIT_ID: usize = 64;

/// Everything that is known of a request once its head was read.
pub(super) struct RequestHead {
    pub(super) parts: Parts,
    pub(super) info: RequestInfo,
    pub(super) query: Query,
    pub(super) pretty: bool,
    pub(super) warnings: Mutex<Vec<String>>,
}

/// Whose request it turned out to be, for the audit log.
#[derive(Default)]
struct Who {
    /// Who showed credentials.
    caller: Option<Arc<UserInfo>>,
    /// Who they act as; themselves unless they impersonate somebody.
    user: Option<Arc<UserInfo>>,
}

impl Handler for State {
    fn identify(&self, chain: &[CertificateDer<'_>]) -> PeerIdentity {
        self.identities.of_certificate(chain)
    }

    /// A peer that hangs up ends the future that answers it. Where requests are audited, what it began
    /// is carried out and recorded all the same.
    async fn handle(self: &Arc<Self>, peer: Arc<Connection>, request: Request<Incoming>) -> Reply {
        if self.audit.is_none() {
            return self.serve(peer, request).await;
        }
        let state = self.clone();
        let serving = tokio::spawn(async move { state.serve(peer, request).await });
        let failed = || respond::failure(&HeaderMap::new(), false, &panicked());
        serving.await.unwrap_or_else(|_| failed())
    }

    fn draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
        for collection in &self.registry.served().collections {
            collection.close_watchers();
        }
    }
}

impl State {
    async fn serve(self: &Arc<Self>, peer: Arc<Connection>, request: Request<Incoming>) -> Reply {
        let started = Instant::now();
        let received = self.audit.as_ref().map(|_| Timestamp::now());
        let (parts, body) = request.into_parts();
        let head = RequestHead::new(parts);
        let audit_id = audit_id(&head.parts.headers);
        let _inflight = self.metrics.inflight();
        let mut who = Who::default();
        let answering = AssertUnwindSafe(self.answer(&head, body, &peer, &mut who));
        let answered = answering.catch_unwind().await.unwrap_or_else(|_| Err(panicked()));
        let mut response = match answered {
            Ok(response) => response,
            Err(error) => {
                log_failure(&head, &audit_id, &error);
                respond::failure(&head.parts.headers, head.pretty, &error)
            }
        };
        respond::complete(&mut response, &audit_id, &head.warnings.lock());
        let code = response.status().as_u16();
        self.metrics.finished(self.labels(&head.info, code), started.elapsed());
        if let (Some(audit), Some(received)) = (&self.audit, received) {
            let event = audit_event(&head, &peer, &who, &audit_id, code, received);
            audit.record(&event).await;
        }
        tracing::debug!(
            verb = head.info.verb,
            uri = head.parts.uri.path(),
            code,
            audit_id = audit_id.to_str().unwrap_or_default(),
            ms = started.elapsed().as_secs_f64() * 1e3,
            "request"
        );
        response
    }

    async fn answer(
        self: &Arc<Self>,
        head: &RequestHead,
        body: Incoming,
        peer: &Connection,
        who: &mut Who,
    ) -> ApiResult<Reply> {
        let _slot = self.take_slot(&head.info)?;
        let caller = self.identities.authenticate(&self.registry, &head.parts.headers, peer)?;
        who.caller = Some(caller.clone());
        let rbac = &self.registry.admission.rbac;
        let user = self.identities.impersonate(rbac, &head.parts.headers, caller);
        let user = user.map_err(ApiError::forbid_sniffing)?;
        who.user = Some(user.clone());
        let allowed = authorize(rbac, &attributes(&head.info, &user));
        allowed.map_err(ApiError::forbid_sniffing)?;
        let work = async {
            match &head.info.target {
                PathTarget::Resource(path) => self.resource(head, path, &user, body).await,
                PathTarget::Other(path) => self.other(head, path).await,
            }
        };
        match tokio::time::timeout(REQUEST_TIMEOUT, work).await {
            Ok(result) => result,
            Err(_) => {
                let text = "request did not complete within the allotted timeout";
                Err(ApiError::timeout(format!("Timeout: {text}")).retry_after(1))
            }
        }
    }

    /// Too many at once: better to refuse some than to slow down all.
    fn take_slot(self: &Arc<Self>, info: &RequestInfo) -> ApiResult<Option<Slot>> {
        let reads = matches!(info.verb, "get" | "list");
        if info.is_long_running() || matches!(info.target, PathTarget::Other(_)) {
            return Ok(None);
        }
        let (counter, limit) =
            if reads { (Counter::Reads, MAX_READS) } else { (Counter::Writes, MAX_WRITES) };
        let slot = Slot { state: self.clone(), counter };
        if slot.count().fetch_add(1, Ordering::Relaxed) >= limit {
            let text = "too many requests at once, please try again later";
            return Err(ApiError::too_many_requests(text, 1));
        }
        Ok(Some(slot))
    }

    /// Only served resources become labels.
    fn labels(&self, info: &RequestInfo, code: u16) -> RequestLabels {
        let endpoint = match &info.target {
            PathTarget::Resource(path) => {
                self.registry.endpoint(&path.group, &path.version, &path.resource)
            }
            PathTarget::Other(_) => None,
        };
        let (group, resource) = endpoint
            .as_ref()
            .map(|e| (e.view().group.clone(), e.resource().plural.clone()))
            .unwrap_or_default();
        RequestLabels { verb: info.verb, group, resource, code }
    }
}

impl RequestHead {
    fn new(parts: Parts) -> Self {
        let query = Query::new(parts.uri.query());
        let info = RequestInfo::parse(&parts.method, &parts.uri, &query);
        let pretty = respond::wants_pretty(&parts.headers, query.strict_flag("pretty"));
        Self { parts, info, query, pretty, warnings: Mutex::default() }
    }
}

impl Who {
    fn impersonated(&self) -> Option<&UserInfo> {
        let (caller, user) = (self.caller.as_ref()?, self.user.as_ref()?);
        (!Arc::ptr_eq(caller, user)).then_some(user)
    }
}

/// Which limit a request counts against.
#[derive(Clone, Copy)]
enum Counter {
    Reads,
    Writes,
}

/// A place among the requests under way, given back when dropped.
struct Slot {
    state: Arc<State>,
    counter: Counter,
}

impl Slot {
    fn count(&self) -> &AtomicUsize {
        match self.counter {
            Counter::Reads => &self.state.reads,
            Counter::Writes => &self.state.writes,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.count().fetch_sub(1, Ordering::Relaxed);
    }
}

fn attributes<'a>(info: &'a RequestInfo, user: &'a UserInfo) -> Attributes<'a> {
    let target = match &info.target {
        PathTarget::Other(path) => Target::Path(path),
        PathTarget::Resource(ResourcePath {
            group,
            resource,
            subresource,
            namespace,
            name,
            ..
        }) => Target::Resource { group, resource, subresource, namespace, name },
    };
    Attributes { user, verb: info.verb, target }
}

fn audit_id(headers: &HeaderMap) -> HeaderValue {
    let sent = headers.get("audit-id").filter(|id| !id.is_empty() && id.len() <= MAX_AUDIT_ID);
    sent.cloned().unwrap_or_else(|| {
        let id = uuid::Uuid::new_v4().to_string();
        // A UUID is ASCII.
        HeaderValue::from_str(&id).unwrap_or_else(|_| HeaderValue::from_static(""))
    })
}

fn log_failure(head: &RequestHead, audit_id: &HeaderValue, error: &ApiError) {
    let audit_id = audit_id.to_str().unwrap_or_default();
    let (verb, uri, cause) = (head.info.verb, head.parts.uri.path(), error.internal_cause());
    if error.code().is_server_error() {
        tracing::warn!(verb, uri, audit_id, cause, %error, "request failed");
    }
}

/// A defect of ours: this request fails, the others go on.
fn panicked() -> ApiError {
    let text = "This request caused the server to panic. Look in the logs for details.";
    ApiError::internal(text, "panic")
}

/// The event of one request in the format of `audit.k8s.io/v1`, level Metadata.
fn audit_event(
    head: &RequestHead,
    peer: &Connection,
    who: &Who,
    audit_id: &HeaderValue,
    code: u16,
    received: Timestamp,
) -> Value {
    let headers = &head.parts.headers;
    let agent = headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok());
    let mut event = json!({
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": audit_id.to_str().unwrap_or_default(),
        "stage": "ResponseComplete",
        "requestURI": head.parts.uri.path_and_query().map_or("", |path| path.as_str()),
        "verb": head.info.verb,
        "user": who.caller.as_deref().map_or_else(|| json!({}), user_info),
        "sourceIPs": [peer.remote.ip().to_string()],
        "userAgent": agent.unwrap_or_default(),
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": clock::rfc3339_micro(received),
        "stageTimestamp": clock::rfc3339_micro(Timestamp::now()),
    });
    if let Some(user) = who.impersonated() {
        event["impersonatedUser"] = user_info(user);
    }
    if let PathTarget::Resource(path) = &head.info.target {
        event["objectRef"] = json!({
            "resource": path.resource,
            "namespace": path.namespace,
            "name": path.name,
            "apiGroup": path.group,
            "apiVersion": path.version,
            "subresource": path.subresource,
        });
    }
    event
}
