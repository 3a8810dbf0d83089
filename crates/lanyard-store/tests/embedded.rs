//! What only the embedded store has: a file, which outlives processes and can be hurt.

use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Write as _},
    os::unix::fs::{FileExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use lanyard_store::{Error, Expect, Revision, Store, StoreUrl};

mod common;
use common::*;

/// Names the directory to a child process that a test starts.
const CHILD_DIR: &str = "LANYARD_TEST_CHILD_DIR";

async fn open(dir: &Path) -> lanyard_store::Result<Store> {
    Store::open(&StoreUrl::Embedded { dir: dir.to_owned() }).await
}

fn file(dir: &Path) -> PathBuf {
    dir.join("store.redb")
}

#[tokio::test]
async fn everything_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    let first = create(&store, "/a", "1").await;
    let second = update(&store, "/a", first, "2").await;
    let other = create(&store, "/b", "1").await;
    let gone = delete(&store, "/b", other).await.unwrap();
    store.close().await;

    let store = open(dir.path()).await.unwrap();
    assert_eq!(store.caught_up().await.unwrap(), gone);
    let now = [("/a".to_owned(), "2".to_owned())];
    assert_eq!(state(&store, "/", None).await.unwrap(), now);
    let then = state(&store, "/", Some(other)).await.unwrap();
    assert_eq!(then.len(), 2);
    let recorder = Recorder::new();
    let _watch = store.watch("/", first, recorder.clone()).await.unwrap();
    assert_eq!(recorder.story(), ["/a=2", "/b=1", "/b gone"]);
    let next = update(&store, "/a", second, "3").await;
    assert_eq!(next, Revision(gone.0 + 1));

    // Compaction outlives a restart too.
    store.compact(gone).await.unwrap();
    store.close().await;
    let store = open(dir.path()).await.unwrap();
    let refused = state(&store, "/", Some(other)).await;
    assert!(matches!(refused, Err(Error::Compacted { oldest, .. }) if oldest == gone));
    store.close().await;
}

#[tokio::test]
async fn dropping_the_last_handle_closes_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    create(&store, "/a", "1").await;
    drop(store);
    for _ in 0..200 {
        match open(dir.path()).await {
            Err(Error::Locked { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            other => return drop(other.unwrap()),
        }
    }
    panic!("still locked");
}

#[tokio::test]
async fn time_to_live_goes_on_while_the_store_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    let start = store.caught_up().await.unwrap();
    for (key, millis) in [("/over", 300), ("/soon", 2000), ("/later", 3_600_000)] {
        let ttl = Some(Duration::from_millis(millis));
        put_for(&store, key, Expect::Absent, "1", ttl).await.unwrap();
    }
    store.close().await;
    tokio::time::sleep(Duration::from_millis(500)).await;

    let store = open(dir.path()).await.unwrap();
    let recorder = Recorder::new();
    let _watch = store.watch("/", start, recorder.clone()).await.unwrap();
    recorder.wait_for("both to go", |seen| seen.changes.len() == 5).await;
    assert_eq!(recorder.story()[3..], ["/over gone", "/soon gone"]);
    let left = [("/later".to_owned(), "1".to_owned())];
    assert_eq!(state(&store, "/", None).await.unwrap(), left);
    store.close().await;
}

#[tokio::test]
async fn only_the_owner_can_read_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("new/data");
    let store = open(&data).await.unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    assert_eq!(mode(&file(&data)), 0o600);
    store.close().await;
}

#[tokio::test]
async fn a_second_opener_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).await.unwrap();
    let refused = open(dir.path()).await.map(drop).unwrap_err();
    assert!(matches!(refused, Error::Locked { .. }), "{refused}");
    assert!(refused.to_string().contains("store.redb is in use"), "{refused}");
    store.close().await;

    // Nor is a second process let in, until the first is gone, however it went.
    let mut child = spawn_child("child_holds_the_lock", dir.path());
    assert_eq!(next_line(&mut child).as_deref(), Some("open"));
    let refused = open(dir.path()).await.map(drop).unwrap_err();
    assert!(matches!(refused, Error::Locked { .. }), "{refused}");
    child.kill().unwrap();
    child.wait().unwrap();
    open(dir.path()).await.unwrap().close().await;
}

#[tokio::test]
async fn a_hurt_file_is_reported_and_left_alone() {
    let check = async |what: &str, hurt: fn(&Path)| {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).await.unwrap();
        for n in 0..100 {
            create(&store, &format!("/{n}"), &"secret value ".repeat(300)).await;
        }
        store.close().await;
        hurt(&file(dir.path()));
        let before = fs::read(file(dir.path())).unwrap();
        let error = match open(dir.path()).await {
            Err(error) => error,
            Ok(store) => {
                let found = state(&store, "/", None).await;
                store.close().await;
                found.expect_err(what)
            }
        };
        assert!(matches!(error, Error::Corrupt { .. }), "{what}: {error}");
        let text = error.to_string();
        assert!(text.contains("store.redb") && text.contains("restore it"), "{what}: {text}");
        assert!(!text.contains("secret value"), "{what}: {text}");
        if what == "another file" {
            assert_eq!(before, fs::read(file(dir.path())).unwrap());
        }
    };
    check("another file", |path| {
        fs::write(path, "this is not a database\n".repeat(1000)).unwrap();
    })
    .await;
    check("a short file", |path| {
        let length = fs::metadata(path).unwrap().len();
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(length / 3).unwrap();
    })
    .await;
    check("changed values", |path| {
        let bytes = fs::read(path).unwrap();
        let file = OpenOptions::new().write(true).open(path).unwrap();
        let found = bytes.windows(13).enumerate();
        for (at, _) in found.filter(|(_, window)| *window == b"secret value ") {
            file.write_all_at(b"SECRET", at as u64).unwrap();
        }
    })
    .await;
    check("zeroes in the middle", |path| {
        let length = fs::metadata(path).unwrap().len();
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(&vec![0; length as usize / 2], length / 4).unwrap();
    })
    .await;
}

#[tokio::test]
async fn an_empty_file_is_a_new_store() {
    // This is what a crash leaves between creating the file and filling it.
    let dir = tempfile::tempdir().unwrap();
    fs::write(file(dir.path()), "").unwrap();
    let store = open(dir.path()).await.unwrap();
    create(&store, "/a", "1").await;
    store.close().await;
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let error = open(&dir.path().join("file/data")).await.map(drop);
    let error = error.unwrap_err();
    assert!(matches!(&error, Error::Io { path, .. } if path.ends_with("file/data")));
}

#[tokio::test]
async fn no_acknowledged_write_is_lost_by_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..8 {
        let mut child = spawn_child("child_writes", dir.path());
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // Let it get going, then kill it at some other point of its work each time.
        for _ in 0..100 {
            acknowledged.push(lines.next().unwrap().unwrap());
        }
        std::thread::sleep(Duration::from_micros(3700 * round));
        child.kill().unwrap();
        child.wait().unwrap();
        // What it said before it died counts too; only the last line may be cut short.
        acknowledged.extend(lines.map_while(|line| line.ok()).filter(|line| line.ends_with('.')));

        let store = open(dir.path()).await.unwrap();
        let present = state(&store, "/", None).await.unwrap();
        let present: std::collections::HashMap<_, _> = present.into_iter().collect();
        for line in &acknowledged {
            let (key, value) = line.trim_end_matches('.').split_once('=').unwrap();
            let found: u64 = present[key].trim_end_matches('x').parse().unwrap();
            assert!(found >= value.parse().unwrap(), "round {round}: {line} but {found}");
        }
        store.close().await;
    }
    assert!(acknowledged.len() > 800, "nothing after the first hundred of each round");
}

/// Runs in a child process: writes with many writers and says what was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_writes() {
    let Ok(dir) = std::env::var(CHILD_DIR) else {
        return;
    };
    let store = open(Path::new(&dir)).await.unwrap();
    for writer in 0..16 {
        let store = store.clone();
        tokio::spawn(async move {
            let key = format!("/{writer}");
            let current = store.get(&key).await.unwrap();
            let mut expect = current.as_ref().map_or(Expect::Absent, |e| Expect::At(e.revision));
            let known = current.map(|e| text(&e.value).trim_end_matches('x').parse::<u64>());
            let mut n = known.map_or(0, Result::unwrap);
            loop {
                n += 1;
                let value = format!("{n}{}", "x".repeat(4000));
                expect = Expect::At(put(&store, &key, expect, &value).await.unwrap());
                writeln!(std::io::stdout(), "{key}={n}.").unwrap();
            }
        });
    }
    std::future::pending().await
}

/// Runs in a child process: opens the store and stays.
#[tokio::test]
async fn child_holds_the_lock() {
    let Ok(dir) = std::env::var(CHILD_DIR) else {
        return;
    };
    let _store = open(Path::new(&dir)).await.unwrap();
    writeln!(std::io::stdout(), "open").unwrap();
    std::future::pending().await
}

/// Starts one test of this binary as a process of its own.
fn spawn_child(test: &str, dir: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1", "-q"])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The test harness speaks first: an empty line and the number of tests.
    let stdout = child.stdout.as_mut().unwrap();
    for _ in 0..2 {
        while read_byte(stdout) != b'\n' {}
    }
    child
}

/// The next line of a child, read without taking anything of what follows.
fn next_line(child: &mut Child) -> Option<String> {
    let stdout = child.stdout.as_mut()?;
    let mut line = Vec::new();
    loop {
        match read_byte(stdout) {
            b'\n' => return String::from_utf8(line).ok(),
            byte => line.push(byte),
        }
    }
}

fn read_byte(from: &mut impl std::io::Read) -> u8 {
    let mut byte = [0];
    from.read_exact(&mut byte).unwrap();
    byte[0]
}
