//! Hostile methods, paths, queries, headers and credentials.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use lanyard_testkit::Authority;
use serde_json::json;

use crate::objects::user_with;
use crate::wire::{Peer, Request, Session};
use crate::{Findings, Target};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread")]
async fn unknown_methods_and_paths_are_refused() -> Result<()> {
    let target = Target::start().await?;
    let mut findings = Findings::default();
    for method in ["TRACE", "OPTIONS", "PROPFIND", "MADEUP", "CONNECT", "get", "x-1"] {
        let answer = target.admin.request(Request::new(method, CONFIG_MAPS)).await;
        findings.expect(method, answer, 405, "MethodNotAllowed");
    }
    for (method, path) in [
        ("POST", "/api/v1/configmaps"),
        ("POST", "/api/v1/namespaces/default/configmaps/x"),
        ("PUT", CONFIG_MAPS),
        ("PATCH", CONFIG_MAPS),
        ("DELETE", "/api/v1/namespaces"),
        ("POST", "/api/v1"),
        ("DELETE", "/apis"),
    ] {
        let what = format!("{method} {path}");
        let answer = target.admin.request(Request::new(method, path).json(b"{}")).await;
        findings.expect(&what, answer, 405, "MethodNotAllowed");
    }
    for path in [
        "/api/v1/namespaces/default/configmaps/a%2Fb",
        "/api/v1/namespaces/default%2Fconfigmaps%2Fx/configmaps/y",
        "/api/v1/namespaces/default/configmaps/%00",
        "/api/v1/namespaces/default/configmaps/%ff%fe",
        "/api/v1/namespaces/../../secrets",
        "/api/v1/namespaces/default/../kube-system/configmaps",
        "/api/v1/namespaces/default/configmaps/x/../../secrets",
        "/api/v1/namespaces/default/configmaps/x/log",
        "/api/v1/namespaces/default/widgets",
        "/api/v2/configmaps",
    ] {
        findings.expect(path, target.admin.get(path).await, 404, "NotFound");
    }
    // What nothing can be called is no name.
    for name in ["%2e%2e", "%zz", "%"] {
        let path = format!("{CONFIG_MAPS}/{name}");
        findings.expect(&path, target.admin.get(&path).await, 400, "BadRequest");
    }
    let long = format!("/{}", "a/".repeat(20_000));
    for path in [
        "/nothing",
        "/apis/no.group/v1/configmaps",
        "/apis//v1/configmaps",
        "/apis/%2F/v1/configmaps",
        "/.git/config",
        "/%2e%2e/etc/passwd",
        "/../../etc/passwd",
        "//",
        &long,
    ] {
        findings.expect_code(path, target.admin.get(path).await, &[404]);
    }
    for line in [
        "GET",
        "GET /",
        "GET / HTTP/9.9",
        "GET / HTTP/1.1 x",
        "GET x HTTP/1.1",
        "GET /\0 HTTP/1.1",
        "GET / x HTTP/1.1",
        "\0\0\0\0",
        "PRI * HTTP/2.0",
        "POST / HTTP/1.1\r\n folded: x",
    ] {
        let bytes = format!("{line}\r\nHost: x\r\nConnection: close\r\n\r\n");
        findings.expect_code(line, target.admin.send(bytes.as_bytes()).await, &[400, 404, 505]);
    }
    findings.expect_code(
        "bytes",
        target.admin.send(b"GET /\xff\xfe HTTP/1.1\r\n\r\n").await,
        &[400, 404],
    );
    findings.none()?;
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_over_the_limit_are_refused() -> Result<()> {
    let target = Target::start().await?;
    let mut findings = Findings::default();
    let url = |n: usize| format!("{CONFIG_MAPS}?a={}", "x".repeat(n));
    findings.expect_code("a long URL", target.admin.get(&url(60_000)).await, &[200]);
    findings.expect_code("too long a URL", target.admin.get(&url(70_000)).await, &[414, 431]);
    let headers = |n: usize, size: usize| {
        let mut lines = String::new();
        for i in 0..n {
            let _ = write!(lines, "X-{i}: {}\r\n", "x".repeat(size));
        }
        lines
    };
    for (what, lines) in [
        ("one large header", headers(1, 200_000)),
        ("many headers", headers(500, 1)),
        ("large headers", headers(150, 1_500)),
    ] {
        let answer =
            target.admin.request(Request { headers: &lines, ..Request::new("GET", "/livez") });
        findings.expect_code(what, answer.await, &[431]);
    }
    let parameters: String = (0..9_000).map(|i| format!("&p{i}=")).collect();
    for query in [&parameters, &"&".repeat(60_000), &"&dryRun=x".repeat(6_000), &"%".repeat(60_000)]
    {
        let started = Instant::now();
        let answer = target.admin.get(&format!("{CONFIG_MAPS}?{query}")).await;
        findings.expect_code(&query[..20], answer, &[200]);
        findings.expect_soon(&query[..20], started);
    }
    let dry: String = (0..5_000).map(|i| format!("&dryRun=x{i}")).collect();
    let answer = target.admin.post(&format!("{CONFIG_MAPS}?{dry}"), b"{}").await;
    findings.expect("many dry runs", answer, 422, "Invalid");
    findings.none()?;
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_options_are_refused() -> Result<()> {
    let target = Target::start().await?;
    let session = Session::open(&target.admin).await?;
    let mut findings = Findings::default();
    let many = |n: usize, term: &dyn Fn(usize) -> String| -> String {
        (0..n).map(term).collect::<Vec<_>>().join(",")
    };
    for (query, code) in [
        ("labelSelector=%3D".to_owned(), 400),
        ("labelSelector=a%20in".to_owned(), 400),
        (format!("labelSelector={}", "(".repeat(50_000)), 400),
        (format!("labelSelector={}", "!".repeat(50_000)), 400),
        (format!("labelSelector={}", "a".repeat(50_000)), 400),
        (format!("labelSelector={}", many(5_000, &|i| format!("!a{i}"))), 400),
        (format!("labelSelector=a%20in%20({})", many(8_000, &|i| i.to_string())), 200),
        ("labelSelector=%00".to_owned(), 400),
        ("labelSelector=%ff".to_owned(), 400),
        ("fieldSelector=x".to_owned(), 400),
        ("fieldSelector=spec.nodeName%3Dx".to_owned(), 400),
        (format!("fieldSelector={}", "%5C".repeat(15_000)), 400),
        (format!("fieldSelector={}", many(2_000, &|i| format!("metadata.name!=a{i}"))), 400),
        ("fieldSelector=metadata.name%3D..%2F..%2Fx".to_owned(), 200),
        ("limit=x".to_owned(), 400),
        ("limit=9223372036854775808".to_owned(), 400),
        ("limit=9223372036854775807".to_owned(), 200),
        ("limit=-1".to_owned(), 200),
        ("timeoutSeconds=99999999999999999999".to_owned(), 400),
        ("resourceVersion=-1".to_owned(), 400),
        ("resourceVersion=%2B1".to_owned(), 400),
        ("resourceVersion=1e3".to_owned(), 400),
        ("resourceVersion=18446744073709551616".to_owned(), 400),
        ("resourceVersion=18446744073709551615".to_owned(), 504),
        ("resourceVersion=18446744073709551615&resourceVersionMatch=Exact".to_owned(), 504),
        ("resourceVersion=9223372036854775808&limit=1".to_owned(), 504),
        ("resourceVersionMatch=Sometimes".to_owned(), 422),
        ("watch=1&resourceVersion=x".to_owned(), 400),
        ("watch=1&sendInitialEvents=true".to_owned(), 422),
        ("watch=1&labelSelector=%3D".to_owned(), 400),
    ] {
        let started = Instant::now();
        let what = crate::wire::shortened(&query);
        let answer =
            session.request("GET", &format!("{CONFIG_MAPS}?{query}"), "", Vec::new()).await;
        findings.expect_code(&what, answer, &[code]);
        findings.expect_soon(&what, started);
    }
    // A watch of centuries, and one from a future that never comes, are watches like others.
    for query in [
        "timeoutSeconds=9223372036854775807",
        "resourceVersion=18446744073709551615&timeoutSeconds=1",
    ] {
        let stream = format!("GET {CONFIG_MAPS}?watch=1&{query} HTTP/1.1\r\nHost: x\r\n\r\n");
        let mut peer = target.admin.connect("http/1.1").await?;
        tokio::io::AsyncWriteExt::write_all(&mut peer, stream.as_bytes()).await?;
        let mut head = [0; 12];
        tokio::io::AsyncReadExt::read_exact(&mut peer, &mut head).await?;
        ensure!(&head == b"HTTP/1.1 200", "{query}: {head:?}");
    }
    findings.none()?;
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_continue_tokens_show_nothing_else() -> Result<()> {
    let mut target = Target::start().await?;
    let admin = Session::open(&target.admin).await?;
    for (namespace, name) in [("default", "aa"), ("default", "bb"), ("kube-system", "secret-plan")]
    {
        let place = format!("/api/v1/namespaces/{namespace}/configmaps");
        let body = json!({"metadata": {"name": name}}).to_string().into_bytes();
        ensure!(admin.request("POST", &place, "application/json", body).await?.code == 201);
    }
    // This one may list one namespace only.
    let rules = json!([{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}]);
    let reader = user_with(&target.admin, "reader", rules).await?;
    let role = json!({"metadata": {"name": "reader"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]});
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
    });
    for (plural, object) in [("roles", role), ("rolebindings", binding)] {
        let place = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/default/{plural}");
        let body = object.to_string().into_bytes();
        ensure!(admin.request("POST", &place, "application/json", body).await?.code == 201);
    }
    target.before = crate::objects_of(&target.admin).await?;
    let session = Session::open(&reader).await?;
    let revision = admin.request("GET", CONFIG_MAPS, "", Vec::new()).await?.json();
    let revision: i64 = revision["metadata"]["resourceVersion"].as_str().unwrap_or("").parse()?;
    let token = |v: &str, rv: i64, start: &str| {
        let token = json!({"v": v, "rv": rv, "start": start}).to_string();
        BASE64_URL_SAFE_NO_PAD.encode(token)
    };
    let current = "meta.k8s.io/v1";
    let mut findings = Findings::default();
    for (what, token, code) in [
        ("not base64", "!!!".to_owned(), 400),
        ("no JSON", BASE64_URL_SAFE_NO_PAD.encode("x"), 400),
        ("other JSON", BASE64_URL_SAFE_NO_PAD.encode("[]"), 400),
        ("other version", token("meta.k8s.io/v2", revision, "a"), 400),
        ("no start", token(current, revision, ""), 400),
        ("absolute", token(current, revision, "/kube-system/a"), 400),
        ("upwards", token(current, revision, "../kube-system/a"), 400),
        ("upwards inside", token(current, revision, "a/../../kube-system/a"), 400),
        ("no revision", token(current, 0, "a"), 400),
        ("another place", token(current, revision, "kube-system/a\0"), 200),
        ("behind all", token(current, revision, "\u{10ffff}"), 200),
        ("NUL", token(current, revision, "\0"), 200),
        ("newest", token(current, -1, "kube-system/"), 200),
        ("very negative", token(current, i64::MIN, "a"), 200),
        ("the past", token(current, 1, "a"), 200),
        ("the future", token(current, i64::MAX, "a"), 504),
        ("long", token(current, revision, &"x".repeat(30_000)), 200),
    ] {
        let target = format!("{CONFIG_MAPS}?limit=5&continue={token}");
        let answer = session.request("GET", &target, "", Vec::new()).await;
        let shown = answer.as_ref().map(|a| String::from_utf8_lossy(&a.body).into_owned());
        ensure!(!shown.unwrap_or_default().contains("secret-plan"), "{what} shows too much");
        findings.expect_code(what, answer, &[code]);
    }
    findings.none()?;
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn names_cannot_leave_their_place() -> Result<()> {
    let target = Target::start().await?;
    let session = Session::open(&target.admin).await?;
    let mut findings = Findings::default();
    for name in
        ["a/b", "..", ".", "a%2Fb", "../secrets/x", "a\0b", "a b", "A", "é", "\u{202e}x", "a\n"]
    {
        let body = json!({"metadata": {"name": name}}).to_string().into_bytes();
        let answer = session.request("POST", CONFIG_MAPS, "application/json", body).await;
        findings.expect(name, answer, 422, "Invalid");
        let body = json!({"metadata": {"generateName": name}}).to_string().into_bytes();
        let answer = session.request("POST", CONFIG_MAPS, "application/json", body).await;
        // A prefix may end in what a name may not.
        findings.expect_code(name, answer, &[422]);
        let body = json!({"metadata": {"name": name}}).to_string().into_bytes();
        let place = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
        if !["a b", "A", "é", "\u{202e}x", "a\n", "a\0b"].contains(&name) {
            let answer = session.request("POST", place, "application/json", body).await;
            findings.expect(name, answer, 422, "Invalid");
        }
    }
    // A place that is none: whatever is said to be there is not written.
    for namespace in ["no-such", "default%2F..", "%2e%2e", "a%2Fb", "default%00"] {
        let place = format!("/api/v1/namespaces/{namespace}/configmaps");
        let body = json!({"metadata": {"name": "x"}}).to_string().into_bytes();
        let answer = session.request("POST", &place, "application/json", body.clone()).await;
        findings.expect_code(namespace, answer, &[404]);
        let answer = session.request("PUT", &format!("{place}/x"), "application/json", body).await;
        findings.expect_code(namespace, answer, &[404]);
    }
    // Leases are made by PUT: the name of the URL becomes that of the object.
    for (escaped, name, code) in
        [("a%2Fb", "a/b", 404), ("%2e%2e", "..", 400), ("A", "A", 422), ("a%00b", "a\0b", 422)]
    {
        let place = format!("/apis/coordination.k8s.io/v1/namespaces/default/leases/{escaped}");
        let body = json!({"metadata": {"name": name}}).to_string().into_bytes();
        let answer = session.request("PUT", &place, "application/json", body).await;
        findings.expect_code(name, answer, &[code]);
    }
    findings.none()?;
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_credentials_are_unauthorized() -> Result<()> {
    let target = Target::start().await?;
    let admin = &target.admin;
    let mut findings = Findings::default();
    let foreign = Authority::new("kubernetes")?.client("admin", &["system:masters"])?;
    let foreign = admin.with_certificate(foreign);
    findings.expect("foreign certificate", foreign.get(CONFIG_MAPS).await, 401, "Unauthorized");
    findings.expect("foreign, on health", foreign.get("/livez").await, 401, "Unauthorized");
    let anonymous = admin.anonymous();
    findings.expect("nobody", anonymous.get(CONFIG_MAPS).await, 403, "Forbidden");
    let part = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let unsigned = format!("{}.{}.", part(r#"{"alg":"none"}"#), part(r#"{"sub":"system:admin"}"#));
    let long = "a".repeat(50_000);
    for token in ["x", "a.b.c", "..", &unsigned, &long, "é", "\x7f", ""] {
        let answer = admin.with_token(token).get(CONFIG_MAPS).await;
        let what = crate::wire::shortened(token);
        // No token at all is nobody's.
        let codes = if token.is_empty() { [403, 403] } else { [400, 401] };
        findings.expect_code(&what, answer, &codes);
    }
    for line in ["Authorization: Basic YWRtaW46YWRtaW4=", "Authorization: x", "Authorization: "] {
        let headers = format!("{line}\r\n");
        let request = Request { headers: &headers, ..Request::new("GET", CONFIG_MAPS) };
        // Another scheme is as good as none, as upstream has it.
        findings.expect(line, anonymous.request(request).await, 403, "Forbidden");
    }
    impersonations(admin, &mut findings).await;
    findings.none()?;
    target.survived().await
}

async fn impersonations(admin: &Peer, findings: &mut Findings) {
    let groups =
        |n: usize| -> String { (0..n).map(|i| format!("Impersonate-Group: g{i}\r\n")).collect() };
    for (what, headers, codes) in [
        ("groups only", "Impersonate-Group: system:masters\r\n".to_owned(), [400, 400]),
        ("empty user", "Impersonate-User: \r\nImpersonate-Group: a\r\n".to_owned(), [400, 400]),
        ("a flood of groups", format!("Impersonate-User: a\r\n{}", groups(150)), [403, 403]),
        ("a larger flood", format!("Impersonate-User: a\r\n{}", groups(5_000)), [431, 431]),
        (
            "a bad extra",
            "Impersonate-User: a\r\nImpersonate-Extra-%zz: b\r\n".to_owned(),
            [403, 403],
        ),
        ("not UTF-8", "Impersonate-User: \u{7f}\r\n".to_owned(), [400, 403]),
        ("long", format!("Impersonate-User: {}\r\n", "u".repeat(50_000)), [403, 403]),
    ] {
        let request = Request { headers: &headers, ..Request::new("GET", CONFIG_MAPS) };
        findings.expect_code(what, admin.request(request).await, &codes);
    }
}
