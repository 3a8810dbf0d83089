//! Peers that are slow, silent, many, or do not speak the protocol.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::wire::{
    CONTINUATION, HEADERS, PING, PREFACE, Peer, RST_STREAM, SETTINGS, frame, get_headers,
};
use crate::{Findings, Target};

/// The longest that a request may take, and some more.
const PATIENCE: Duration = Duration::from_secs(75);

#[tokio::test(flavor = "multi_thread")]
async fn slow_and_silent_peers_are_cut_off() -> Result<()> {
    let target = Target::start().await?;
    let admin = &target.admin;
    let post = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\n\
                Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{";
    let started = Instant::now();
    let cases = tokio::join!(
        // What it sends first, what it goes on to send each second, and when it must be over.
        closed("TCP only", TcpStream::connect(admin.address).await?, b"", b"", 15),
        closed(
            "half a handshake",
            TcpStream::connect(admin.address).await?,
            b"\x16\x03\x01\x02\0",
            b"",
            15
        ),
        closed("TLS only", admin.connect("http/1.1").await?, b"", b"", 50),
        closed("TLS only, HTTP/2", admin.connect("h2").await?, b"", b"", 50),
        closed("half a preface", admin.connect("h2").await?, b"PRI * HTTP", b"", 50),
        closed("preface only", admin.connect("h2").await?, PREFACE, b"", 60),
        closed(
            "headers by the byte",
            admin.connect("http/1.1").await?,
            b"GET / HTTP/1.1\r\nX: ",
            b"x",
            50
        ),
        closed(
            "lines by the line",
            admin.connect("http/1.1").await?,
            b"GET / HTTP/1.1\r\n",
            b"a: b\r\n",
            50
        ),
        closed("body by the byte", admin.connect("http/1.1").await?, post.as_bytes(), b" ", 75),
        closed("no body", admin.connect("http/1.1").await?, post.as_bytes(), b"", 75),
        alive(admin, started),
    );
    let (a, b, c, d, e, f, g, h, i, j, k) = cases;
    let mut findings = Findings::default();
    findings.0.extend(
        [a, b, c, d, e, f, g, h, i, j, k]
            .into_iter()
            .filter_map(|r| r.err())
            .map(|e| format!("{e:#}")),
    );
    findings.none()?;
    target.survived().await
}

/// Drips bytes until the server closes, which it must within so many seconds.
async fn closed<S>(what: &str, stream: S, first: &[u8], drip: &[u8], seconds: u64) -> Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    let drip = async move {
        let _ = writer.write_all(first).await;
        let _ = writer.flush().await;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let _ = writer.write_all(drip).await;
            let _ = writer.flush().await;
        }
    };
    let mut answer = Vec::new();
    let limit = Duration::from_secs(seconds);
    tokio::select! {
        // An end and a reset are both a closed connection.
        _ = reader.read_to_end(&mut answer) => Ok(()),
        () = drip => Ok(()),
        () = tokio::time::sleep(limit) => anyhow::bail!("{what}: still open after {limit:?}"),
    }
}

/// Others are served all the while.
async fn alive(admin: &Peer, started: Instant) -> Result<()> {
    while started.elapsed() < PATIENCE / 2 {
        let asked = Instant::now();
        ensure!(admin.get("/readyz").await?.code == 200);
        ensure!(asked.elapsed() < Duration::from_secs(5), "slow peers slow down others");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_tls_is_closed() -> Result<()> {
    let target = Target::start().await?;
    let garbage: Vec<u8> =
        (0..100_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for bytes in [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        b"\x16\x03\x01\xff\xff".iter().copied().chain(vec![0; 70_000]).collect(),
        b"\x80\x2e\x01\x03\x01".to_vec(),
        b"SSH-2.0-x\r\n".to_vec(),
        vec![0; 1000],
        garbage,
    ] {
        let mut stream = TcpStream::connect(target.admin.address).await?;
        let _ = stream.write_all(&bytes).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer));
        ensure!(read.await.is_ok(), "{:?} is left waiting", &bytes[..5]);
        ensure!(answer.len() < 100, "{:?} is told {answer:?}", &bytes[..5]);
    }
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_by_the_thousand_cost_little() -> Result<()> {
    let target = Target::start().await?;
    let mut silent = Vec::new();
    for _ in 0..2_000 {
        silent.push(TcpStream::connect(target.admin.address).await.context("connect")?);
    }
    let mut shaken = Vec::new();
    for i in 0..300 {
        shaken.push(target.admin.connect(if i % 2 == 0 { "h2" } else { "http/1.1" }).await?);
    }
    let asked = Instant::now();
    ensure!(target.admin.get("/readyz").await?.code == 200);
    ensure!(asked.elapsed() < Duration::from_secs(5), "idle peers slow down others");
    // They stay open to the end: the server must not wait for them.
    let survived = target.survived().await;
    drop((silent, shaken));
    survived
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_frames_end_the_connection_or_cost_little() -> Result<()> {
    let target = Target::start().await?;
    let reset_stream = |i: u32| {
        let open = frame(HEADERS, 5, 2 * i + 1, &get_headers("/api/v1/configmaps?watch=1"));
        [open, frame(RST_STREAM, 0, 2 * i + 1, &8_u32.to_be_bytes())].concat()
    };
    let endless = frame(HEADERS, 0, 1, &get_headers("/"));
    let piece = frame(CONTINUATION, 0, 1, &[0x40, 1, b'a', 1, b'b'].repeat(2_000));
    let table: Vec<u8> = [0x40, 4, b'n', b'a', b'm', b'e', 0x7f, 0x81, 0x1e].to_vec();
    let bomb = {
        // One large field put into the table, then thousands of references to it.
        let mut block = get_headers("/");
        block.extend_from_slice(&table);
        block.extend(vec![b'x'; 4_000]);
        block.extend(vec![0xbe; 12_000]);
        frame(HEADERS, 5, 1, &block)
    };
    let floods: Vec<(&str, Vec<u8>)> = vec![
        ("rapid reset", (0..20_000).flat_map(reset_stream).collect()),
        ("settings", frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0xff, 0xff]).repeat(50_000)),
        ("pings", frame(PING, 0, 0, &[0; 8]).repeat(100_000)),
        ("headers without end", [endless, piece.repeat(1_000)].concat()),
        ("header bomb", bomb),
        ("unknown frames", frame(0xbe, 0xff, 0, &[0; 16_000]).repeat(1_000)),
        ("a frame too large", frame(HEADERS, 5, 1, &vec![0x82; 1 << 20])),
        ("data for nobody", frame(0, 0, 7, &[0; 1_000]).repeat(1_000)),
        ("an even stream", frame(HEADERS, 5, 2, &get_headers("/"))),
        ("no headers", frame(HEADERS, 5, 1, &[])),
        ("bad compression", frame(HEADERS, 5, 1, &[0xff; 100])),
    ];
    for (what, flood) in floods {
        let mut stream = target.admin.connect("h2").await?;
        let _ = stream.write_all(PREFACE).await;
        // Written without reading: answers that nobody takes must not pile up.
        let write = tokio::time::timeout(Duration::from_secs(20), stream.write_all(&flood)).await;
        // Waiting for us to read is right; what counts is that others are served.
        drop(write);
        let asked = Instant::now();
        let ready = target.admin.get("/readyz").await.with_context(|| what.to_owned())?;
        ensure!(ready.code == 200 && asked.elapsed() < Duration::from_secs(5), "{what}");
        drop(stream);
    }
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn broken_web_sockets_are_closed() -> Result<()> {
    let target = Target::start().await?;
    let ask = |extra: &str| {
        format!(
            "GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n{extra}\r\n"
        )
    };
    let whole = ask("Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n");
    let mut findings = Findings::default();
    for part in
        ["Connection: close\r\n", "Connection: close, Upgrade\r\nSec-WebSocket-Version: 8\r\n"]
    {
        findings.expect(part, target.admin.send(ask(part).as_bytes()).await, 400, "BadRequest");
    }
    for (what, bytes) in [
        ("not masked", b"\x81\x01x".to_vec()),
        (
            "too large",
            [b"\x82\xff\x7f\xff\xff\xff\xff\xff\xff\xff".as_slice(), &[0; 5_000]].concat(),
        ),
        ("reserved", b"\xff\xff".repeat(50)),
        ("not text", b"\x81\x82\0\0\0\0\xff\xfe".to_vec()),
        ("HTTP", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()),
    ] {
        let mut stream = target.admin.connect("http/1.1").await?;
        stream.write_all(whole.as_bytes()).await?;
        stream.write_all(&bytes).await?;
        stream.flush().await?;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut answer));
        ensure!(read.await.is_ok(), "{what}: left open");
        ensure!(answer.starts_with(b"HTTP/1.1 101"), "{what}: {answer:?}");
    }
    // Pings that nobody waits the answers of.
    let mut stream = target.admin.connect("http/1.1").await?;
    stream.write_all(whole.as_bytes()).await?;
    let pings = b"\x89\x80\0\0\0\0".repeat(200_000);
    let _ = tokio::time::timeout(Duration::from_secs(10), stream.write_all(&pings)).await;
    findings.none()?;
    target.survived().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_ends_although_peers_are_in_the_middle() -> Result<()> {
    let target = Target::start().await?;
    let mut peers = Vec::new();
    for begin in [
        "GET / HTTP/1.1\r\nX: ",
        "GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    ] {
        let mut stream = target.admin.connect("http/1.1").await?;
        stream.write_all(begin.as_bytes()).await?;
        stream.flush().await?;
        peers.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let survived = target.survived().await;
    drop(peers);
    survived
}
