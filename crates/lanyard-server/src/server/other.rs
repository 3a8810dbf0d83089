//! Everything that is not a resource: discovery, health, version, metrics, issuer keys.

use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use serde_json::json;

use super::{
    State,
    pipeline::RequestHead,
    respond::{self, Reply},
};
use crate::{
    discovery::{Discovery, Document, MAJOR, MINOR},
    negotiate::{self, Encoding, Shape},
    status::{ApiError, ApiResult},
};

/// A store that has not answered within this is no store to be ready with; as upstream asks etcd.
const STORE_CHECK: Duration = Duration::from_secs(2);

impl State {
    /// Answers a request for anything else.
    pub(super) async fn other(&self, head: &RequestHead, path: &str) -> ApiResult<Reply> {
        let segments = segments(path);
        let discovery = self.discovery();
        match segments.first() {
            // Probes may use any method.
            Some(&"healthz" | &"livez" | &"readyz") => {}
            Some(&"api" | &"apis") if head.info.verb != "get" => {
                return Err(ApiError::method_not_allowed());
            }
            _ if head.info.verb != "get" => return Ok(page_not_found()),
            // Where a slash at the end is not forgiven.
            Some(&"openapi") => return self.openapi(head, path).await,
            _ => {}
        }
        match segments.as_slice() {
            [] => self.document(head, &index(&discovery)),
            ["api"] if negotiate::wants_aggregated_discovery(&head.parts.headers) => {
                Ok(aggregated(head, &discovery.core))
            }
            ["apis"] if negotiate::wants_aggregated_discovery(&head.parts.headers) => {
                Ok(aggregated(head, &discovery.named))
            }
            ["api"] => self.document(head, &discovery.api_versions(&self.address.to_string())),
            ["apis"] => self.document(head, &discovery.group_list()),
            ["apis", group, ..] if group.is_empty() || !discovery.has_group(group) => {
                Ok(page_not_found())
            }
            ["api", version] => self.found(head, discovery.resource_list("", version)),
            ["apis", group] => self.found(head, discovery.group(group)),
            ["apis", group, version]
                if discovery.is_custom_group(group)
                    && discovery.resource_list(group, version).is_none() =>
            {
                Ok(page_not_found())
            }
            ["apis", group, version] => self.found(head, discovery.resource_list(group, version)),
            ["api" | "apis", ..] => Err(ApiError::no_such_resource()),
            ["version"] => {
                // For people, whatever they accept.
                Ok(respond::encoded(Encoding::Json, true, StatusCode::OK, &version()))
            }
            ["version", ..] => Err(ApiError::no_such_resource()),
            ["healthz" | "livez" | "readyz", rest @ ..] => {
                Ok(self.health(head, segments[0], rest).await)
            }
            ["metrics"] => Ok(respond::reply(
                StatusCode::OK,
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                self.metrics.render(&self.registry),
            )),
            [".well-known", "openid-configuration"] => Ok(self.issuer_configuration()),
            ["openid", "v1", "jwks"] => Ok(self.issuer_keys()),
            _ => Ok(page_not_found()),
        }
    }

    fn document(&self, head: &RequestHead, body: &serde_json::Value) -> ApiResult<Reply> {
        negotiate::response(&head.parts.headers, &[Shape::Object])?;
        Ok(respond::document(&head.parts.headers, head.pretty, StatusCode::OK, body))
    }

    fn found(&self, head: &RequestHead, body: Option<serde_json::Value>) -> ApiResult<Reply> {
        let body = body.ok_or_else(ApiError::no_such_resource)?;
        self.document(head, &body)
    }

    /// The named checks of an endpoint, each good or with its problem.
    async fn checks(&self, endpoint: &str) -> Vec<(&'static str, bool)> {
        let mut checks = vec![("ping", true), ("log", true)];
        if endpoint != "livez" {
            checks.push(("store", self.store_is_well().await));
        }
        if endpoint == "readyz" {
            checks.push(("poststarthook/rbac/bootstrap-roles", true));
            checks.push(("shutdown", !self.is_draining()));
        }
        checks
    }

    /// Whether the store takes writes, and says so when asked.
    async fn store_is_well(&self) -> bool {
        let store = &self.registry.store;
        let answered = tokio::time::timeout(STORE_CHECK, store.caught_up()).await;
        matches!(answered, Ok(Ok(_))) && store.stats().trouble.is_none()
    }

    async fn health(&self, head: &RequestHead, endpoint: &str, rest: &[&str]) -> Reply {
        let mut checks = self.checks(endpoint).await;
        let one_check = !rest.is_empty();
        if !rest.is_empty() {
            let name = rest.join("/");
            checks.retain(|(check, _)| *check == name);
            if checks.is_empty() {
                return page_not_found();
            }
        }
        let excluded: Vec<&str> = head.query.all("exclude").collect();
        let mut lines = String::new();
        let mut healthy = true;
        for (name, good) in checks {
            let line = match (excluded.contains(&name), good) {
                (true, _) => format!("[+]{name} excluded: ok\n"),
                (false, true) => format!("[+]{name} ok\n"),
                (false, false) => {
                    healthy = false;
                    format!("[-]{name} failed: reason withheld\n")
                }
            };
            lines.push_str(&line);
        }
        let mut response = match (healthy, head.query.has("verbose")) {
            (false, _) => {
                let text = format!("{lines}{endpoint} check failed\n");
                respond::text(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
            (true, true) => {
                respond::text(StatusCode::OK, format!("{lines}{endpoint} check passed\n"))
            }
            (true, false) => respond::text(StatusCode::OK, "ok"),
        };
        if !one_check {
            respond::forbid_sniffing(&mut response);
        }
        response
    }
}

fn index(discovery: &Discovery) -> serde_json::Value {
    let mut paths = discovery.paths();
    let others = [
        "/.well-known/openid-configuration",
        "/healthz",
        "/livez",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openapi/v3/",
        "/openid/v1/jwks",
        "/readyz",
        "/version",
    ];
    paths.extend(others.map(str::to_owned));
    paths.sort();
    json!({"paths": paths})
}

/// The parts of a path. One slash at the end is forgiven; what does not begin with one is no path.
fn segments(path: &str) -> Vec<&str> {
    match path {
        "/" => Vec::new(),
        path if !path.starts_with('/') => vec![""],
        path => path.strip_suffix('/').unwrap_or(path).split('/').skip(1).collect(),
    }
}

fn aggregated(head: &RequestHead, document: &Document) -> Reply {
    let known = head.parts.headers.get(header::IF_NONE_MATCH);
    let content_type = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let mut response = if known.is_some_and(|tag| tag.as_bytes() == document.etag.as_bytes()) {
        respond::reply(StatusCode::NOT_MODIFIED, content_type, "")
    } else {
        respond::reply(StatusCode::OK, content_type, document.body.clone())
    };
    let headers = response.headers_mut();
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    if let Ok(etag) = HeaderValue::from_str(&document.etag) {
        headers.insert(header::ETAG, etag);
    }
    response
}

fn version() -> serde_json::Value {
    json!({
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": "35",
        "gitVersion": format!("v{MAJOR}.{MINOR}.0+lanyard-{}", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none (rust)",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, go_arch()),
    })
}

fn go_arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// What Go's own router answers.
pub(super) fn page_not_found() -> Reply {
    let mut response = respond::text(StatusCode::NOT_FOUND, "404 page not found\n");
    respond::forbid_sniffing(&mut response);
    response
}
