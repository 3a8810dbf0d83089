//! The local store on a disk that is full or fails, and what it does to the disk.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;

use super::{Local, layout};
use crate::{
    Change, ChangeKind, Error, Expect, RangeQuery, Result, Revision, Sink, WatchEvent, Write,
    WriteOp,
    engine::{
        Engine, Order, Table, Tables,
        file::{Disk, FileEngine},
        sim_disk::{Random, SimDisk},
    },
};

pub(super) async fn put(
    local: &Local,
    key: &str,
    expect: Expect,
    value: String,
) -> Result<Revision> {
    let op = WriteOp::Put { value: Bytes::from(value), ttl: None };
    Ok(local.write(Write { key: key.into(), expect, op }).await?.revision)
}

/// Whether log and index tell the same story, and the marks are right.
pub(super) fn check_tables(engine: &dyn Engine) -> Result<()> {
    let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let go_on = Ok(std::ops::ControlFlow::Continue(()));
    engine.read(&mut |tables: &dyn Tables| {
        let (mut bytes, mut records, mut versions) = (0, 0, 0);
        tables.scan(Table::Log, everything, Order::Forward, &mut |key, value| {
            let revision = layout::parse_revision(tables, key)?;
            let record = layout::RecordRef::parse(tables, revision, value)?;
            let mut place = Vec::new();
            let kind =
                tables.get(Table::Index, layout::index_key(&mut place, record.key, revision))?;
            assert_eq!(kind.as_deref(), Some(&[record.kind as u8][..]), "index of {revision}");
            bytes += value.len() as u64;
            records += 1;
            go_on.clone()
        })?;
        tables.scan(Table::Index, everything, Order::Forward, &mut |_, _| {
            versions += 1;
            go_on.clone()
        })?;
        assert_eq!(records, versions, "records and versions");
        assert_eq!(bytes, layout::number(tables, layout::BYTES)?, "bytes");
        Ok(())
    })
}

/// Remembers the changes it is told.
#[derive(Default)]
struct Told(Mutex<Vec<Change>>);

impl Sink for Told {
    fn event(&self, event: WatchEvent<'_>) {
        if let WatchEvent::Changes(changes) = event {
            self.0.lock().extend_from_slice(changes);
        }
    }
}

fn start(disk: &SimDisk) -> Local {
    Local::start(Arc::new(FileEngine::open(disk.clone()).unwrap())).unwrap()
}

/// Writes until writing works, for as long as that may take after trouble is over.
async fn put_at_last(local: &Local, key: &str) -> Revision {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match put(local, key, Expect::Absent, "at last".to_owned()).await {
            Ok(revision) => return revision,
            Err(error) => assert!(Instant::now() < deadline, "still {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn all_keys(local: &Local) -> Vec<String> {
    let range = local.range(RangeQuery::default()).await.unwrap();
    range.entries.iter().map(|entry| entry.key.to_string()).collect()
}

#[tokio::test]
async fn a_full_disk_refuses_writes_until_there_is_room() {
    for tells_free in [false, true] {
        let disk = SimDisk::default();
        if tells_free {
            disk.tell_free();
        }
        let local = start(&disk);
        let told = Arc::new(Told::default());
        let _watch = local.watch("", Revision(0), told.clone()).await.unwrap();
        let room = if tells_free { 60 << 20 } else { 4 << 20 };
        disk.set_capacity(Some(room));

        let mut written = Vec::new();
        let refusal = loop {
            let key = format!("/{:04}", written.len());
            match put(&local, &key, Expect::Absent, "x".repeat(100_000)).await {
                Ok(_) => written.push(key),
                Err(error) => break error,
            }
            assert!(written.len() < 1000, "the disk never fills up");
        };
        assert!(matches!(refusal, Error::NoSpace { .. }), "{refusal}");
        assert!(matches!(local.stats().trouble, Some(Error::NoSpace { .. })));
        assert!(!written.is_empty());
        // Reads go on; writes are refused, or find a last gap.
        for _ in 0..5 {
            assert_eq!(all_keys(&local).await, written);
            let key = format!("/{:04}", written.len());
            match put(&local, &key, Expect::Absent, "x".repeat(100_000)).await {
                Ok(_) => written.push(key),
                Err(error) => assert!(matches!(error, Error::NoSpace { .. }), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(600)).await;
        }

        disk.set_capacity(None);
        put_at_last(&local, "/zz").await;
        written.push("/zz".to_owned());
        assert!(local.stats().trouble.is_none());
        assert_eq!(all_keys(&local).await, written);
        let told: Vec<_> = told.0.lock().iter().map(|change| change.key.to_string()).collect();
        assert_eq!(told, written, "a watch hears what happened, once");
        local.close().await;
        let local = start(&disk);
        assert_eq!(all_keys(&local).await, written);
        local.close().await;
    }
}

#[tokio::test]
async fn a_failing_sync_is_an_error_and_passes() {
    let disk = SimDisk::default();
    let local = start(&disk);
    let told = Arc::new(Told::default());
    let _watch = local.watch("", Revision(0), told.clone()).await.unwrap();
    for round in 0..3 {
        let (before, unsure) = (format!("/{round}/before"), format!("/{round}/unsure"));
        put(&local, &before, Expect::Absent, String::new()).await.unwrap();
        disk.fail_syncs(1);
        // So large that later commits do not write its pages again.
        let failed = put(&local, &unsure, Expect::Absent, "x".repeat(100_000)).await;
        assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
        assert!(local.get(&before).await.unwrap().is_some());
        put_at_last(&local, &format!("/{round}/after")).await;
    }
    // The writes whose sync failed may be there or not; what is there was told.
    let there = all_keys(&local).await;
    let mut heard: Vec<_> = told.0.lock().iter().map(|change| change.key.to_string()).collect();
    heard.sort();
    assert_eq!(heard, there);
    local.close().await;

    // Nothing that was acknowledged rests on what the failed syncs left out.
    disk.power_cycle(&mut Random::new(1));
    let local = start(&disk);
    assert_eq!(all_keys(&local).await, there);
    check_tables(&*local.engine).unwrap();
    local.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_share_syncs() {
    let disk = SimDisk::default();
    let local = start(&disk);
    let before = disk.syncs();
    let writers: Vec<_> = (0..32)
        .map(|writer| {
            let local = local.clone();
            tokio::spawn(async move {
                for n in 0..50 {
                    put(&local, &format!("/{writer}/{n}"), Expect::Absent, "v".repeat(4096))
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let syncs = disk.syncs() - before;
    assert!(syncs < 32 * 50 / 4, "{syncs} syncs for {} writes", 32 * 50);
    local.close().await;
}

#[tokio::test]
async fn a_conflict_costs_no_sync() {
    let disk = SimDisk::default();
    let local = start(&disk);
    put(&local, "/a", Expect::Absent, String::new()).await.unwrap();
    let before = disk.syncs();
    for _ in 0..20 {
        let conflict = put(&local, "/a", Expect::Absent, String::new()).await;
        assert!(matches!(conflict, Err(Error::Conflict { .. })));
    }
    assert_eq!(disk.syncs(), before);
    local.close().await;
}

#[tokio::test]
async fn compaction_keeps_the_file_small_and_the_tables_right() {
    let disk = SimDisk::default();
    let local = start(&disk);
    let mut at = vec![None; 100];
    for round in 0..40 {
        for (n, at) in at.iter_mut().enumerate() {
            let expect = at.map_or(Expect::Absent, Expect::At);
            let value = format!("{round}{}", "x".repeat(4000));
            *at = Some(put(&local, &format!("/{n:03}"), expect, value).await.unwrap());
        }
        local.compact(local.head().unwrap()).await.unwrap();
    }
    // Live data is 100 values of 4 KB, each of which takes two pages; the history of one round
    // comes on top, and the file grows by doubling.
    let live = 100 * 4096;
    let deadline = Instant::now() + Duration::from_secs(10);
    while local.stats().data_bytes > live + live / 10 {
        assert!(Instant::now() < deadline, "history is still there: {:?}", local.stats());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(disk.size() < 16 * live, "{} bytes on disk for {live}", disk.size());
    check_tables(&*local.engine).unwrap();

    // Deleting everything leaves no more than the last change.
    for (n, at) in at.iter().enumerate() {
        let (key, expect) = (format!("/{n:03}").into(), Expect::At(at.unwrap()));
        local.write(Write { key, expect, op: WriteOp::Delete }).await.unwrap();
    }
    local.compact(local.head().unwrap()).await.unwrap();
    while local.stats().data_bytes > 100 {
        assert!(Instant::now() < deadline, "history is still there: {:?}", local.stats());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    check_tables(&*local.engine).unwrap();
    let head = local.head().unwrap();
    local.close().await;
    let local = start(&disk);
    assert_eq!(local.head().unwrap(), head, "the last revision is not forgotten");
    local.close().await;
}

#[tokio::test]
async fn a_sweep_that_is_interrupted_goes_on() {
    let disk = SimDisk::default();
    let local = start(&disk);
    let mut at = put(&local, "/a", Expect::Absent, "0".to_owned()).await.unwrap();
    for n in 1..2000 {
        at = put(&local, "/a", Expect::At(at), n.to_string()).await.unwrap();
    }
    local.compact(at).await.unwrap();
    local.close().await;
    let local = start(&disk);
    let deadline = Instant::now() + Duration::from_secs(10);
    while local.stats().data_bytes > 100 {
        assert!(Instant::now() < deadline, "history is still there: {:?}", local.stats());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let told = Arc::new(Told::default());
    let _watch = local.watch("", Revision(at.0 - 1), told.clone()).await.unwrap();
    assert!(
        matches!(&told.0.lock()[..], [Change { kind: ChangeKind::Put(value), .. }] if value == "1999")
    );
    check_tables(&*local.engine).unwrap();
    local.close().await;
}

#[tokio::test]
async fn a_file_that_is_mostly_empty_is_packed() {
    let disk = SimDisk::default();
    let local = start(&disk);
    let mut written = Vec::new();
    for n in 0..70 {
        let key = format!("/{n:03}");
        let revision = put(&local, &key, Expect::Absent, "x".repeat(1 << 20)).await.unwrap();
        written.push((key, revision));
    }
    // One that lies at the end keeps the file from simply being cut off.
    put(&local, "/last", Expect::Absent, "x".repeat(1 << 20)).await.unwrap();
    assert!(disk.size() > 70 << 20);
    for (key, revision) in written {
        let write = Write { key: key.into(), expect: Expect::At(revision), op: WriteOp::Delete };
        local.write(write).await.unwrap();
    }
    local.compact(local.head().unwrap()).await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while local.stats().data_bytes > 2 << 20 {
        assert!(Instant::now() < deadline, "history is still there: {:?}", local.stats());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    local.close().await;
    let local = start(&disk);
    assert!(disk.size() < 16 << 20, "{} bytes for one value", disk.size());
    assert_eq!(all_keys(&local).await, ["/last"]);
    local.close().await;
}
