//! What a request asks for: verb and target from method and path, options from the query.
//!
//! The rules are those of upstream's request-info resolver, so that authorization, audit and dispatch
//! all speak of the same thing.

use http::{Method, Uri};

use crate::{
    field::{FieldError, is_printable, json_text, quoted},
    negotiate::PatchType,
    selector::{FieldSelector, LabelSelector},
    status::{ApiError, ApiResult, GroupName},
};

/// What a request is about, before anything is looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestInfo {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or the
    /// lower-case method for other paths.
    pub verb: &'static str,
    /// What the path names.
    pub target: PathTarget,
}

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathTarget {
    /// `/api/v1/…` or `/apis/GROUP/VERSION/…` down to a resource.
    Resource(ResourcePath),
    /// Anything else: discovery, health, metrics.
    Other(String),
}

/// The parts of a resource path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// The API group, empty for core.
    pub group: String,
    /// The version.
    pub version: String,
    /// The namespace, empty for the cluster scope; that of a namespace is the namespace itself.
    pub namespace: String,
    /// Whether the path leads through a namespace to something in it.
    pub within_namespace: bool,
    /// The plural name.
    pub resource: String,
    /// The object, empty for the collection.
    pub name: String,
    /// The subresource, empty for the object itself.
    pub subresource: String,
}

/// The longest name of a field manager.
pub const MAX_FIELD_MANAGER: usize = 128;

/// Segments below a namespace that are parts of the namespace itself.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    /// Reads method and path, and of the query what changes their meaning.
    pub fn parse(method: &Method, uri: &Uri, query: &Query) -> Self {
        let other =
            || Self { verb: method_verb(method), target: PathTarget::Other(uri.path().to_owned()) };
        // Decoded as a whole, as Go does: an escaped slash separates like any other.
        let decoded = percent_decode(uri.path());
        let mut parts = decoded.trim_matches('/').split('/');
        let mut path = ResourcePath::default();
        match parts.next() {
            Some("api") => {}
            Some("apis") => match parts.next() {
                Some(group) if !group.is_empty() => path.group = group.to_owned(),
                _ => return other(),
            },
            _ => return other(),
        }
        let (Some(version), Some(mut first)) = (parts.next(), parts.next()) else { return other() };
        path.version = version.to_owned();
        let mut verb = resource_verb(method);
        if first == "watch" {
            let Some(next) = parts.next() else { return other() };
            (verb, first) = ("watch", next);
        }
        let rest: Vec<&str> = parts.collect();
        path.take_names(first, &rest);
        if path.version.is_empty() || path.resource.is_empty() {
            return other();
        }
        if path.name.is_empty() && verb != "watch" {
            verb = match verb {
                "get" if query.flag("watch") => "watch",
                "get" => "list",
                "delete" => "deletecollection",
                verb => verb,
            };
        }
        if path.name.is_empty() && matches!(verb, "list" | "watch" | "deletecollection") {
            path.take_name_from_selector(query);
        }
        Self { verb, target: PathTarget::Resource(path) }
    }

    /// Whether the request stays open for long.
    pub fn is_long_running(&self) -> bool {
        self.verb == "watch"
    }
}

impl ResourcePath {
    fn take_names(&mut self, first: &str, rest: &[&str]) {
        let own = |part: Option<&&str>| part.map(|p| (*p).to_owned()).unwrap_or_default();
        if first == "namespaces" && !rest.is_empty() {
            self.namespace = rest[0].to_owned();
            if rest.len() > 1 && !NAMESPACE_SUBRESOURCES.contains(&rest[1]) {
                self.within_namespace = true;
                self.resource = rest[1].to_owned();
                self.name = own(rest.get(2));
                self.subresource = rest.get(3..).unwrap_or_default().join("/");
                return;
            }
        }
        self.resource = first.to_owned();
        self.name = own(rest.first());
        self.subresource = rest.get(1..).unwrap_or_default().join("/");
    }

    /// `fieldSelector=metadata.name=x` names an object, so that RBAC's resourceNames apply.
    fn take_name_from_selector(&mut self, query: &Query) {
        let selector = query.get("fieldSelector").and_then(|text| FieldSelector::parse(text).ok());
        if let Some(name) = selector.as_ref().and_then(|s| s.exact("metadata.name"))
            && !name.contains('/')
        {
            self.name = name.to_owned();
        }
    }
}

fn method_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET => "get",
        Method::HEAD => "head",
        Method::POST => "post",
        Method::PUT => "put",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        Method::OPTIONS => "options",
        _ => "unknown",
    }
}

fn resource_verb(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// The query of a request, decoded; the first value of a name counts, as in Go.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Reads a query string.
    pub fn new(text: Option<&str>) -> Self {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (form_decode(name), form_decode(value))
        };
        let text = text.unwrap_or_default();
        Self(text.split('&').filter(|p| !p.is_empty()).map(pair).collect())
    }

    /// The first value of a parameter that is not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(n, _)| n == name);
        found.map(|(_, v)| v.as_str()).filter(|v| !v.is_empty())
    }

    /// All values of a parameter.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n == name).map(|(_, v)| v.as_str())
    }

    /// Whether the parameter is there, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(n, _)| n == name)
    }

    /// A boolean as Go's `strconv.ParseBool` reads it; anything else is no.
    pub fn strict_flag(&self, name: &str) -> Option<bool> {
        self.get(name).map(|v| matches!(v, "1" | "t" | "T" | "true" | "TRUE" | "True"))
    }

    /// A boolean as upstream reads it: present and neither `false` nor `0`.
    pub fn flag(&self, name: &str) -> bool {
        let first = self.0.iter().find(|(n, _)| n == name);
        first.is_some_and(|(_, v)| !matches!(v.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// A number, if there is one.
    ///
    /// # Errors
    /// When there is something else.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> ApiResult<Option<T>> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let parsed = text.parse().map(Some);
        parsed.map_err(|_| {
            let text = quoted(text);
            ApiError::bad_request(format!("strconv.ParseInt: parsing {text}: invalid syntax"))
        })
    }
}

/// How a resource version given with a read is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// The newest state, consistently.
    Newest,
    /// Any state that is at hand.
    Any,
    /// At least as new as this.
    NotOlderThan(u64),
    /// Exactly this state.
    Exact(u64),
}

/// The options of list, watch and deletecollection.
#[derive(Clone, Debug)]
pub struct ListOptions {
    /// Which labels to select.
    pub labels: LabelSelector,
    /// Which fields to select.
    pub fields: FieldSelector,
    /// Page size.
    pub limit: Option<usize>,
    /// Continuation of an earlier page.
    pub continue_token: Option<String>,
    /// How fresh.
    pub version: VersionMatch,
    /// For watches: the version was given, and is this.
    pub watch_from: Option<u64>,
    /// Begin a watch with the present state, then a bookmark.
    pub send_initial_events: Option<bool>,
    /// Send bookmarks.
    pub bookmarks: bool,
    /// End the request after this many seconds.
    pub timeout_seconds: Option<u64>,
}

impl ListOptions {
    /// Reads and checks the options.
    pub fn parse(query: &Query, watching: bool) -> ApiResult<Self> {
        let bad = |what: String| ApiError::bad_request(what);
        let labels =
            LabelSelector::parse(query.get("labelSelector").unwrap_or_default()).map_err(bad)?;
        let fields =
            FieldSelector::parse(query.get("fieldSelector").unwrap_or_default()).map_err(bad)?;
        let limit: i64 = query.number("limit")?.unwrap_or(0);
        let timeout: i64 = query.number("timeoutSeconds")?.unwrap_or(0);
        let send_initial_events =
            query.has("sendInitialEvents").then(|| query.flag("sendInitialEvents"));
        let rv_text = query.get("resourceVersion");
        check_list_options(query, watching, send_initial_events)?;
        let rv = rv_text.map(parse_version).transpose().map_err(|error| match watching {
            true => error,
            false => ApiError::bad_request(format!("invalid resource version: {error}")),
        })?;
        let continue_token = query.get("continue").map(str::to_owned);
        if continue_token.is_some() && rv.is_some_and(|rv| rv > 0) {
            let text = "specifying resource version is not allowed when using continue";
            return Err(ApiError::bad_request(text));
        }
        let limited = limit > 0;
        let version = match (rv, query.get("resourceVersionMatch")) {
            (None, _) => VersionMatch::Newest,
            (Some(rv), Some("Exact")) => VersionMatch::Exact(rv),
            (Some(0), _) => VersionMatch::Any,
            (Some(rv), Some(_)) => VersionMatch::NotOlderThan(rv),
            (Some(rv), None) if limited => VersionMatch::Exact(rv),
            (Some(rv), None) => VersionMatch::NotOlderThan(rv),
        };
        Ok(Self {
            labels,
            fields,
            limit: limited.then_some(limit as usize),
            continue_token,
            version,
            watch_from: rv,
            send_initial_events,
            bookmarks: query.flag("allowWatchBookmarks"),
            timeout_seconds: u64::try_from(timeout).ok().filter(|t| *t > 0),
        })
    }
}

/// Upstream's rules on how list and watch options may be combined.
fn check_list_options(query: &Query, watching: bool, initial: Option<bool>) -> ApiResult<()> {
    let asked = Asked {
        matching: query.get("resourceVersionMatch").unwrap_or_default(),
        version: query.get("resourceVersion").unwrap_or_default(),
        continued: query.get("continue").is_some(),
        initial,
    };
    let errors = if watching { asked.watch_errors() } else { asked.list_errors() };
    refuse("ListOptions", &errors)
}

/// The options that depend on each other.
struct Asked<'a> {
    matching: &'a str,
    version: &'a str,
    continued: bool,
    initial: Option<bool>,
}

impl Asked<'_> {
    fn list_errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if !self.matching.is_empty() {
            if self.version.is_empty() {
                let text = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(MATCH, text));
            }
            errors.extend(self.continue_error());
            if !matches!(self.matching, "Exact" | "NotOlderThan") {
                let known = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported(MATCH, self.matching, &known));
            }
            if (self.matching, self.version) == ("Exact", "0") {
                let text = r#"resourceVersionMatch "exact" is forbidden for resourceVersion "0""#;
                errors.push(FieldError::forbidden(MATCH, text));
            }
        }
        if self.initial.is_some() {
            let text = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden("sendInitialEvents", text));
        }
        errors
    }

    fn watch_errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if self.initial.is_some() && self.matching != "NotOlderThan" {
            let text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(MATCH, text));
        }
        if !self.matching.is_empty() {
            if self.initial.is_none() {
                let text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                errors.push(FieldError::forbidden(MATCH, text));
            }
            if self.matching != "NotOlderThan" {
                let known = ["NotOlderThan"];
                errors.push(FieldError::not_supported(MATCH, self.matching, &known));
            }
        }
        // A watch that begins with the present state is one with a match, whether it says so or not.
        if !self.matching.is_empty() || matches!(self.version, "" | "0") {
            errors.extend(self.continue_error());
        }
        errors
    }

    fn continue_error(&self) -> Option<FieldError> {
        let text = "resourceVersionMatch is forbidden when continue is provided";
        self.continued.then(|| FieldError::forbidden(MATCH, text))
    }
}

const MATCH: &str = "resourceVersionMatch";

/// Fails with 422 about a kind of options when there are problems.
pub fn refuse(options_kind: &str, errors: &[FieldError]) -> ApiResult<()> {
    if errors.is_empty() {
        return Ok(());
    }
    let kind = GroupName { group: "meta.k8s.io", name: options_kind };
    Err(ApiError::invalid(kind, "", errors))
}

/// A resource version must be a decimal number without sign.
pub fn parse_version(text: &str) -> ApiResult<u64> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let parsed = text.parse().ok().filter(|_| digits);
    parsed.ok_or_else(|| {
        ApiError::bad_request(format!(
            "resourceVersion: Invalid value: {0}: strconv.ParseUint: parsing {0}: invalid syntax",
            quoted(text)
        ))
    })
}

/// How strictly unknown and duplicate fields are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldValidation {
    /// Dropped silently.
    Ignore,
    /// Dropped, with a warning each.
    Warn,
    /// The request fails.
    Strict,
}

/// The options of create, update and patch.
#[derive(Clone, Debug)]
pub struct WriteOptions {
    /// Do everything but store.
    pub dry_run: bool,
    /// How strictly fields are taken.
    pub field_validation: FieldValidation,
    /// Who writes, for field ownership.
    pub field_manager: Option<String>,
    /// Whether to take what other managers own.
    pub force: bool,
}

impl WriteOptions {
    /// Reads and checks the options; `kind` is `CreateOptions` or `UpdateOptions`.
    pub fn parse(query: &Query, kind: &str) -> ApiResult<Self> {
        Self::read(query, kind, Vec::new())
    }

    /// Reads and checks the options of a patch.
    pub fn parse_patch(query: &Query, patch: PatchType) -> ApiResult<Self> {
        let manager = query.get("fieldManager").unwrap_or_default();
        let problem = match patch {
            PatchType::Apply if manager.is_empty() => {
                Some(FieldError::required("fieldManager", "is required for apply patch"))
            }
            PatchType::Apply => None,
            _ => query.has("force").then(|| {
                FieldError::forbidden("force", "may not be specified for non-apply patch")
            }),
        };
        Self::read(query, "PatchOptions", problem.into_iter().collect())
    }

    fn read(query: &Query, kind: &str, mut errors: Vec<FieldError>) -> ApiResult<Self> {
        let field_manager = query.get("fieldManager").map(str::to_owned);
        errors.extend(field_manager.as_deref().into_iter().flat_map(field_manager_errors));
        errors.extend(dry_run_error(&query.all("dryRun").collect::<Vec<_>>()));
        let field_validation = match query.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let known = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", other, &known));
                FieldValidation::Strict
            }
        };
        refuse(kind, &errors)?;
        let force = query.all("force").next();
        Ok(Self {
            dry_run: query.get("dryRun").is_some(),
            field_validation,
            field_manager,
            force: force.is_some_and(|text| text != "0" && !text.eq_ignore_ascii_case("false")),
        })
    }
}

/// The only dry run there is is `All`.
pub fn dry_run_error(values: &[&str]) -> Option<FieldError> {
    let wrong = values.iter().any(|value| *value != "All");
    let shown = || json_text(&serde_json::json!(values));
    wrong.then(|| FieldError::not_supported_json("dryRun", &shown(), &["All"]))
}

fn field_manager_errors(manager: &str) -> Vec<FieldError> {
    let long = manager.len() > MAX_FIELD_MANAGER;
    let long = long.then(|| FieldError::too_long("fieldManager", MAX_FIELD_MANAGER));
    // Upstream tells of each; one is enough to see what is wrong.
    let odd = manager.char_indices().find(|(_, character)| !is_printable(*character));
    let odd = odd.map(|(at, character)| {
        let code = u32::from(character);
        let problem = format!("invalid character U+{code:04X} (at position {at})");
        FieldError::invalid_str("fieldManager", manager, problem)
    });
    long.into_iter().chain(odd).collect()
}

fn form_decode(text: &str) -> String {
    percent_decode(&text.replace('+', " "))
}

/// Decodes `%xx`; what is not a valid escape or not UTF-8 stays readable.
pub fn percent_decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        match (byte, after) {
            (b'%', [high, low, after @ ..]) if let Some(byte) = escaped(*high, *low) => {
                plain.push(byte);
                rest = after;
            }
            _ => plain.push(*byte),
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn escaped(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, sample::select};

    use super::*;

    fn check(method: &str, path: &str, expected: &str) {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let uri: Uri = path.parse().unwrap();
        let info = RequestInfo::parse(&method, &uri, &Query::new(uri.query()));
        let shown = match info.target {
            PathTarget::Other(path) => format!("{} {path}", info.verb),
            PathTarget::Resource(p) => format!(
                "{} {}|{}|{}|{}|{}|{}",
                info.verb, p.group, p.version, p.namespace, p.resource, p.name, p.subresource
            ),
        };
        assert_eq!(shown, expected, "{method} {path}");
    }

    #[test]
    fn paths_are_understood_as_upstream_does() {
        for (method, path, expected) in [
            ("GET", "/api/v1/namespaces", "list |v1||namespaces||"),
            ("GET", "/api/v1/namespaces/a", "get |v1|a|namespaces|a|"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update |v1|a|namespaces|a|finalize"),
            ("GET", "/api/v1/namespaces/a/configmaps", "list |v1|a|configmaps||"),
            ("GET", "/api/v1/namespaces/a/configmaps/b", "get |v1|a|configmaps|b|"),
            ("GET", "/api/v1/configmaps?watch=1", "watch |v1||configmaps||"),
            ("GET", "/api/v1/configmaps?watch=false", "list |v1||configmaps||"),
            ("GET", "/api/v1/watch/namespaces/a/configmaps/b", "watch |v1|a|configmaps|b|"),
            (
                "GET",
                "/api/v1/configmaps?fieldSelector=metadata.name%3Dx",
                "list |v1||configmaps|x|",
            ),
            ("DELETE", "/api/v1/namespaces/a/configmaps", "deletecollection |v1|a|configmaps||"),
            ("POST", "/apis/a.b/v1/namespaces/n/xs/y/z", "create a.b|v1|n|xs|y|z"),
            ("POST", "/apis/a.b/v1/xs", "create a.b|v1||xs||"),
            ("GET", "/apis/a.b/v1", "get /apis/a.b/v1"),
            ("GET", "/apis//v1/xs", "get /apis//v1/xs"),
            ("GET", "/api/v1//configmaps", "get /api/v1//configmaps"),
            ("GET", "/api/v1/namespaces/a/configmaps/b%2Fc", "get |v1|a|configmaps|b|c"),
            ("POST", "/api/v1/watch/configmaps", "watch |v1||configmaps||"),
            ("GET", "/healthz", "get /healthz"),
            ("POST", "/api", "post /api"),
        ] {
            check(method, path, expected);
        }
    }

    fn list(query: &str, watching: bool) -> Result<VersionMatch, u16> {
        let parsed = ListOptions::parse(&Query::new(Some(query)), watching);
        parsed.map(|o| o.version).map_err(|e| e.code().as_u16())
    }

    #[test]
    fn resource_versions_mean_what_the_documentation_says() {
        for (query, expected) in [
            ("", Ok(VersionMatch::Newest)),
            ("resourceVersion=0", Ok(VersionMatch::Any)),
            ("resourceVersion=5", Ok(VersionMatch::NotOlderThan(5))),
            ("resourceVersion=5&limit=1", Ok(VersionMatch::Exact(5))),
            ("resourceVersion=5&resourceVersionMatch=Exact", Ok(VersionMatch::Exact(5))),
            ("resourceVersion=0&resourceVersionMatch=Exact", Err(422)),
            ("resourceVersionMatch=Exact", Err(422)),
            ("resourceVersion=5&resourceVersionMatch=x", Err(422)),
            ("resourceVersion=5&continue=x", Err(400)),
            ("resourceVersion=x", Err(400)),
            ("resourceVersion=-1", Err(400)),
            ("limit=x", Err(400)),
            ("labelSelector=%3D", Err(400)),
        ] {
            assert_eq!(list(query, false), expected, "{query}");
        }
        assert_eq!(list("sendInitialEvents=true", true), Err(422));
        assert!(list("sendInitialEvents=true&resourceVersionMatch=NotOlderThan", true).is_ok());
    }

    const VERBS: &[&str] = &[
        "",
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
        "head",
        "post",
        "put",
        "options",
        "unknown",
    ];

    fn any_path() -> impl Strategy<Value = String> {
        let segment = prop_oneof![
            select(vec![
                "api",
                "apis",
                "v1",
                "watch",
                "namespaces",
                "configmaps",
                "a",
                "status",
                ".."
            ])
            .prop_map(str::to_owned),
            "[ -~]{0,6}",
            "(%[0-9a-fA-F]{2}|%[g-z+%]|[a-z]){0,4}",
        ];
        proptest::collection::vec(segment, 0..9).prop_map(|parts| format!("/{}", parts.join("/")))
    }

    proptest! {
        #[test]
        fn fuzz_any_path_is_understood_somehow(
            method in "[A-Z]{1,7}|GET|POST|DELETE|PUT|PATCH",
            path in any_path(),
            query in "([a-zA-Z]{0,9}(=[ -~]{0,9})?&?){0,5}|fieldSelector=metadata.name%3D[ -~]{0,5}",
        ) {
            let Ok(uri) = format!("{path}?{query}").parse::<Uri>() else { return Ok(()) };
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let info = RequestInfo::parse(&method, &uri, &Query::new(uri.query()));
            prop_assert!(VERBS.contains(&info.verb));
            match info.target {
                PathTarget::Other(other) => prop_assert_eq!(other, uri.path()),
                PathTarget::Resource(path) => {
                    prop_assert!(!path.resource.is_empty() && !path.version.is_empty());
                }
            }
        }

        #[test]
        fn fuzz_any_options_are_read_or_refused(
            query in "((watch|limit|continue|resourceVersion|resourceVersionMatch|labelSelector|\
                       fieldSelector|timeoutSeconds|sendInitialEvents|dryRun|fieldManager)\
                       (=[ -~]{0,9})?&){0,6}",
            watching in any::<bool>(),
        ) {
            let query = Query::new(Some(&query));
            for refused in [
                ListOptions::parse(&query, watching).err(),
                WriteOptions::parse_patch(&query, PatchType::Merge).err(),
            ]
            .into_iter()
            .flatten()
            {
                prop_assert!(refused.code().is_client_error());
            }
        }

        #[test]
        fn fuzz_what_is_escaped_is_read_back(text in any::<String>()) {
            let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
            prop_assert_eq!(percent_decode(&escaped), text);
        }

        #[test]
        fn fuzz_broken_escapes_stay_as_they_are(text in "([a-z]|%[g-z+]|%[0-9]g|é){0,9}%?") {
            prop_assert_eq!(percent_decode(&text), text);
        }
    }
}
