//! Watches and lists that are asked for and then not read.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::wire::{PREFACE, Session, frame, get_headers};
use crate::{Target, memory};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Every object is this large, and as many are written while nobody reads.
const OBJECT: usize = 500_000;
const WRITES: usize = 200;

/// When a response that is not read has been given up.
const STALL_LIMIT: Duration = Duration::from_secs(90);

#[tokio::test(flavor = "multi_thread")]
async fn watchers_that_do_not_read_are_cut_off() -> Result<()> {
    let mut target = Target::start().await?;
    let session = Session::open(&target.admin).await?;
    let mut http1 = Vec::new();
    for _ in 0..20 {
        let mut stream = target.admin.connect("http/1.1").await?;
        let watch =
            format!("GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(watch.as_bytes()).await?;
        http1.push(stream);
    }
    let mut http2 = target.admin.connect("h2").await?;
    http2.write_all(PREFACE).await?;
    for stream in 0..20 {
        let headers = get_headers(&format!("{CONFIG_MAPS}?watch=1"));
        http2.write_all(&frame(1, 5, 2 * stream + 1, &headers)).await?;
    }
    wait_until_watched(&session, 40).await?;
    let quiet = memory(target.lanyard.pid(), "VmRSS")?;
    for i in 0..WRITES {
        let body = json!({"metadata": {"name": "noise"}, "data": {"a": "x".repeat(OBJECT + i)}});
        let body = body.to_string().into_bytes();
        let (method, place) = match i {
            0 => ("POST", CONFIG_MAPS.to_owned()),
            _ => ("PUT", format!("{CONFIG_MAPS}/noise")),
        };
        let answer = session.request(method, &place, "application/json", body).await?;
        ensure!([200, 201].contains(&answer.code), "{answer:?}");
    }
    // Without a limit, each watcher would hold all of what was written.
    let grown = memory(target.lanyard.pid(), "VmRSS")?.saturating_sub(quiet);
    ensure!(grown < 250, "grew by {grown} MiB");
    // Those who begin to read find the end, the others are cut off.
    for mut stream in http1.drain(..10) {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(30), stream.read_to_end(&mut rest));
        ensure!(read.await.is_ok(), "a watcher that fell behind goes on");
    }
    let started = Instant::now();
    while watches(&session).await? > 0 {
        ensure!(started.elapsed() < STALL_LIMIT, "watchers that do not read are still there");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    target.before = crate::objects_of(&target.admin).await?;
    target.allowed_growth = 400;
    drop(http2);
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_are_left_unread_cost_little() -> Result<()> {
    let mut target = Target::start().await?;
    let session = Session::open(&target.admin).await?;
    for i in 0..20 {
        let body =
            json!({"metadata": {"name": format!("big-{i}")}, "data": {"a": "x".repeat(OBJECT)}});
        let body = body.to_string().into_bytes();
        let answer = session.request("POST", CONFIG_MAPS, "application/json", body).await?;
        ensure!(answer.code == 201, "{answer:?}");
    }
    let mut streams = Vec::new();
    for i in 0..200 {
        let mut stream = target.admin.connect("http/1.1").await?;
        let list = format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\n\r\n");
        stream.write_all(list.as_bytes()).await?;
        // Half of them read the beginning and go away, the others stay and do not read.
        if i % 2 == 0 {
            let mut some = [0; 1000];
            stream.read_exact(&mut some).await?;
        } else {
            streams.push(stream);
        }
    }
    let started = Instant::now();
    ensure!(session.request("GET", "/readyz", "", Vec::new()).await?.code == 200);
    ensure!(started.elapsed() < Duration::from_secs(5), "busy with those who do not read");
    drop(streams);
    target.before = crate::objects_of(&target.admin).await?;
    target.survived().await
}

async fn wait_until_watched(session: &Session, wanted: u64) -> Result<()> {
    let started = Instant::now();
    while watches(session).await? < wanted {
        ensure!(started.elapsed() < Duration::from_secs(30), "the watches did not begin");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// How many watches of ConfigMaps the server says it has.
async fn watches(session: &Session) -> Result<u64> {
    let metrics = session.request("GET", "/metrics", "", Vec::new()).await?;
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let ours = |line: &&str| {
        line.starts_with("apiserver_registered_watchers") && line.contains("\"configmaps\"")
    };
    let figure = text.lines().find(ours).and_then(|line| line.rsplit(' ').next());
    Ok(figure.unwrap_or("0").parse()?)
}
