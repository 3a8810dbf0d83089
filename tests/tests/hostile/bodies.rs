//! Bodies that are malformed, too large, too deep, or do not come at all.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use lanyard_testkit::Lanyard;
use serde_json::json;
use tokio::io::AsyncWriteExt;

use crate::wire::{Answer, Request};
use crate::{Findings, Target};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "Content-Type: application/json\r\n";
const YAML: &str = "Content-Type: application/yaml\r\n";

/// The largest body that is taken.
const LIMIT: usize = 3 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn malformed_bodies_are_bad_requests() -> Result<()> {
    let target = Target::start().await?;
    let mut findings = Findings::default();
    let deep = |open: &str, n: usize| format!("{{\"data\":{}", open.repeat(n));
    let nested = |n| format!("{{\"data\":{}{}}}", "[".repeat(n), "]".repeat(n));
    let anchors: String =
        (1..30).map(|i| format!("a{i}: &a{i} [*a{0},*a{0},*a{0},*a{0}]\n", i - 1)).collect();
    let bomb = format!("a0: &a0 [x,x,x,x]\n{anchors}");
    let cases: Vec<(&str, &str, Vec<u8>)> = vec![
        ("empty", JSON, b" ".to_vec()),
        ("a word", JSON, b"hello".to_vec()),
        ("cut off", JSON, b"{\"metadata\":{\"name\":\"x\"".to_vec()),
        ("two values", JSON, b"{} {}".to_vec()),
        ("a list", JSON, b"[]".to_vec()),
        ("a number", JSON, b"1".to_vec()),
        ("a string", JSON, b"\"x\"".to_vec()),
        ("not UTF-8", JSON, b"{\"metadata\":{\"name\":\"\xff\xfe\"}}".to_vec()),
        ("lone surrogate", JSON, br#"{"metadata":{"name":"\ud800"}}"#.to_vec()),
        ("NUL bytes", JSON, vec![0; 1000]),
        ("NUL in a string", JSON, b"{\"metadata\":{\"name\":\"a\0b\"}}".to_vec()),
        ("byte order mark", JSON, b"\xef\xbb\xbf{}x".to_vec()),
        ("UTF-16", JSON, b"\xff\xfe{\0}\0".to_vec()),
        ("huge number", JSON, br#"{"metadata":{"generation":1e999}}"#.to_vec()),
        ("long number", JSON, format!("{{\"a\":{}}}x", "9".repeat(1 << 20)).into_bytes()),
        ("nested 200", JSON, nested(200).into_bytes()),
        ("nested 500000", JSON, nested(500_000).into_bytes()),
        ("lists without end", JSON, deep("[", 1 << 20).into_bytes()),
        ("objects without end", JSON, deep("{\"a\":", 500_000).into_bytes()),
        ("a million lists", JSON, format!("{{\"a\":[{}]}}", "[],".repeat(1_000_000)).into_bytes()),
        ("gzip", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", gzip()),
        ("yaml: not UTF-8", YAML, b"a: \xff".to_vec()),
        ("yaml: a tab", YAML, b"a:\n\tb: c".to_vec()),
        ("yaml: unknown alias", YAML, b"a: *b".to_vec()),
        ("yaml: itself", YAML, b"a: &a [*a]".to_vec()),
        ("yaml: bomb", YAML, bomb.into_bytes()),
        ("yaml: lists without end", YAML, "[".repeat(1 << 20).into_bytes()),
        ("yaml: objects without end", YAML, "{a: ".repeat(500_000).into_bytes()),
        ("yaml: dashes without end", YAML, "- ".repeat(1 << 20).into_bytes()),
        ("yaml: questions without end", YAML, "? ".repeat(1 << 20).into_bytes()),
        ("yaml: open quote", YAML, format!("a: \"{}", "x\n".repeat(1 << 20)).into_bytes()),
        ("yaml: a million anchors", YAML, "- &a x\n".repeat(400_000).into_bytes()),
        ("yaml: tag", YAML, b"!!python/object/apply:os.system [id]".to_vec()),
        ("yaml: two documents", YAML, b"--- {}\n--- {}\n".to_vec()),
        ("yaml: keys that are lists", YAML, b"? [a, b]\n: c\n".to_vec()),
        ("yaml: NUL", YAML, b"a: b\0c".to_vec()),
        ("yaml: colons", YAML, ": ".repeat(1 << 20).into_bytes()),
        ("yaml: comments", YAML, format!("{}[", "#\n".repeat(1 << 20)).into_bytes()),
    ];
    for (what, headers, body) in &cases {
        let started = Instant::now();
        let request = Request::new("POST", CONFIG_MAPS).body(headers, body);
        findings.expect(what, target.admin.request(request).await, 400, "BadRequest");
        findings.expect_soon(what, started);
    }
    findings.none()?;
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_other_kinds_are_refused() -> Result<()> {
    let target = Target::start().await?;
    let mut findings = Findings::default();
    for media in [
        "text/plain",
        "application/xml",
        "application/vnd.kubernetes.protobuf",
        "application/json/x",
        "\x7f",
        "é",
        ",,,;;;===",
    ] {
        let headers = format!("Content-Type: {media}\r\n");
        let request = Request::new("POST", CONFIG_MAPS).body(&headers, b"{}");
        // A header that HTTP does not allow is refused before anything looks at it.
        findings.expect_code(media, target.admin.request(request).await, &[400, 415]);
    }
    for media in ["", "application/json", "application/apply-patch+cbor", "x"] {
        let headers = format!("Content-Type: {media}\r\n");
        let target_url = format!("{CONFIG_MAPS}/kube-root-ca.crt");
        let request = Request::new("PATCH", &target_url).body(&headers, b"{}");
        findings.expect(media, target.admin.request(request).await, 415, "UnsupportedMediaType");
    }
    findings.none()?;
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_over_the_limit_are_refused() -> Result<()> {
    let target = Target::start().await?;
    let mut findings = Findings::default();
    let admin = &target.admin;
    let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{JSON}");
    // Told beforehand: refused without waiting for any of it.
    for length in ["3145729", "1000000000000", "18446744073709551615"] {
        let told = format!("{head}Content-Length: {length}\r\n\r\n");
        // The last of them is over what HTTP itself can count.
        findings.expect_code(length, admin.send(told.as_bytes()).await, &[413, 431]);
    }
    // In chunks, without saying how much.
    let mut stream = admin.connect("http/1.1").await?;
    stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).await?;
    let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
    for _ in 0..2 * LIMIT / 0x10000 {
        if stream.write_all(&chunk).await.is_err() {
            break;
        }
    }
    findings.expect("chunks", Answer::read(&mut stream).await, 413, "RequestEntityTooLarge");
    // Just below the limit the object itself is too large for the store.
    let big = json!({"metadata": {"name": "big"}, "data": {"a": "x".repeat(LIMIT - 100)}});
    let answer = admin.post(CONFIG_MAPS, big.to_string().as_bytes()).await;
    findings.expect_code("too large to store", answer, &[413, 422]);
    findings.none()?;
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_stop_or_lie_change_nothing() -> Result<()> {
    let target = Target::start().await?;
    let mut findings = Findings::default();
    let admin = &target.admin;
    let object = json!({"metadata": {"name": "half"}}).to_string();
    let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{JSON}");
    // The peer goes away in the middle of the body.
    for told in ["Content-Length: 1000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\nff\r\n"] {
        for _ in 0..20 {
            let mut stream = admin.connect("http/1.1").await?;
            stream.write_all(format!("{head}{told}{object}").as_bytes()).await?;
            stream.flush().await?;
        }
    }
    // Less is told than is sent: the rest is no part of the request.
    let short = format!("{head}Content-Length: 10\r\n\r\n{object}");
    findings.expect("short", admin.send(short.as_bytes()).await, 400, "BadRequest");
    for (what, lines) in [
        ("two lengths", "Content-Length: 10\r\nContent-Length: 20\r\n"),
        ("no number", "Content-Length: x\r\n"),
        ("negative", "Content-Length: -1\r\n"),
        ("signed", "Content-Length: +10\r\n"),
        ("unknown coding", "Transfer-Encoding: gzip\r\n"),
        ("chunk size", "Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
        ("huge chunk", "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"),
    ] {
        let answer = admin.send(format!("{head}{lines}\r\n{object}").as_bytes()).await;
        findings.expect_code(what, answer, &[400]);
    }
    findings.none()?;
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_peer_did_before_it_hung_up_is_audited() -> Result<()> {
    let home = tempfile::tempdir()?;
    let log = home.path().join("audit.log");
    let setup = Lanyard::setup().arg("--audit-log").arg(&log);
    let mut target = Target::attack(setup.start()?).await?;
    for i in 0..100 {
        let object = json!({"metadata": {"name": format!("gone-{i}")}}).to_string();
        let request = format!(
            "POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nAudit-ID: gone-{i}-end\r\n{JSON}\
             Content-Length: {}\r\n\r\n{object}",
            object.len()
        );
        let mut stream = target.admin.connect("http/1.1").await?;
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        // At another moment of the request each time.
        tokio::time::sleep(Duration::from_micros(200 * (i % 20))).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let written = target.admin.get(CONFIG_MAPS).await?.json();
    let written = written["items"].as_array().cloned().unwrap_or_default();
    let lines = fs::read_to_string(&log)?;
    let mut audited = 0;
    for name in written.iter().filter_map(|item| item["metadata"]["name"].as_str()) {
        if name.starts_with("gone-") {
            ensure!(lines.contains(&format!("{name}-end")), "{name} is not in the audit log");
            audited += 1;
        }
    }
    ensure!(audited > 0, "nothing was written at all");
    target.before = crate::objects_of(&target.admin).await?;
    target.survived().await
}

/// A gzip stream of `{}`; what it holds is not looked at.
fn gzip() -> Vec<u8> {
    b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\xae\x05\0\x43\xbf\xa6\xa3\x02\0\0\0".to_vec()
}
