//! Measures durable puts: `puts embedded|memory|etcd://HOST:PORT [WRITERS] [SECONDS] [BYTES]`.
//!
//! Each writer overwrites keys of its own as fast as they are acknowledged, while history is
//! compacted every second.

#![allow(clippy::print_stdout, reason = "a tool for the command line")]

use std::{
    env,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use lanyard_store::{Expect, Sink, Store, StoreUrl, WatchEvent, Write, WriteOp};

struct Ignore;

impl Sink for Ignore {
    fn event(&self, _event: WatchEvent<'_>) {}
}

#[tokio::main]
async fn main() -> lanyard_store::Result<()> {
    let args: Vec<String> = env::args().collect();
    let number =
        |n: usize, default| args.get(n).map_or(default, |arg| arg.parse().unwrap_or(default));
    let (writers, seconds, bytes) = (number(2, 32), number(3, 5), number(4, 4096));
    let dir = env::temp_dir().join(format!("lanyard-puts-{}", std::process::id()));
    let url = StoreUrl::parse(args.get(1).map_or("embedded", String::as_str), &dir)?;
    let store = Store::open(&url).await?;
    let start = store.caught_up().await?;
    let _watch = store.watch("", start, Arc::new(Ignore)).await?;
    let compactor = tokio::spawn({
        let store = store.clone();
        async move {
            loop {
                tokio::time::sleep(Duration::from_secs(1)).await;
                if let Ok(head) = store.caught_up().await {
                    let _ = store.compact(head).await;
                }
            }
        }
    });
    let deadline = Instant::now() + Duration::from_secs(seconds as u64);
    let value = Bytes::from(vec![b'v'; bytes]);
    let tasks: Vec<_> = (0..writers)
        .map(|writer| tokio::spawn(write(store.clone(), writer, value.clone(), deadline)))
        .collect();
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.unwrap_or_default());
    }
    compactor.abort();
    latencies.sort_unstable();
    let at = |part: f64| latencies.get((latencies.len() as f64 * part) as usize);
    println!(
        "{} puts/s, p50 {:?}, p99 {:?}, {:?}",
        latencies.len() / seconds,
        at(0.5).copied().unwrap_or_default(),
        at(0.99).copied().unwrap_or_default(),
        store.stats(),
    );
    store.close().await;
    let _ = std::fs::remove_dir_all(dir);
    Ok(())
}

/// Overwrites ten keys in turn; answers how long each put took.
async fn write(store: Store, writer: usize, value: Bytes, deadline: Instant) -> Vec<Duration> {
    let mut latencies = Vec::new();
    let mut keys = [(); 10].map(|()| Expect::Absent);
    for n in 0.. {
        let began = Instant::now();
        if began >= deadline {
            break;
        }
        let key = format!("/bench/{writer}/{}", n % keys.len()).into();
        let expect = keys[n % 10];
        let op = WriteOp::Put { value: value.clone(), ttl: None };
        match store.write(Write { key, expect, op }).await {
            Ok(written) => keys[n % 10] = Expect::At(written.revision),
            Err(error) => {
                println!("{error}");
                break;
            }
        }
        latencies.push(began.elapsed());
    }
    latencies
}
