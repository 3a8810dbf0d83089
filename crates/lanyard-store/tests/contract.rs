//! The contract of the store: every test here runs on every engine.
//!
//! Revisions are compared, never computed: on etcd other writers use the same sequence.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use lanyard_store::{
    Error, Expect, KEY_MAX, RangeQuery, Revision, Store, StoreUrl, VALUE_MAX, Write, WriteOp,
};

use lanyard_testkit::Etcd;

mod common;
use common::*;

/// A store with what it needs to live.
struct Fixture {
    store: Store,
    url: StoreUrl,
    _ground: Box<dyn std::any::Any + Send>,
}

impl Fixture {
    async fn memory() -> Self {
        Self::open(StoreUrl::Memory, ()).await
    }

    async fn embedded() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self::open(StoreUrl::Embedded { dir: dir.path().join("data") }, dir).await
    }

    async fn etcd() -> Self {
        let etcd = tokio::task::spawn_blocking(|| Etcd::start(1)).await.unwrap().unwrap();
        Self::open(etcd_url(&etcd), etcd).await
    }

    async fn open(url: StoreUrl, ground: impl std::any::Any + Send) -> Self {
        let store = Store::open(&url).await.unwrap();
        Self { store, url, _ground: Box::new(ground) }
    }
}

macro_rules! on_every_engine {
    ($($name:ident)*) => {
        on_every_engine!(@engine memory: $($name)*);
        on_every_engine!(@engine embedded: $($name)*);
        on_every_engine!(@engine etcd: $($name)*);
    };
    (@engine $engine:ident: $($name:ident)*) => {
        mod $engine {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $name() {
                    let fixture = Fixture::$engine().await;
                    tokio::time::timeout(PATIENCE, super::$name(fixture)).await.expect("in time");
                }
            )*
        }
    };
}

on_every_engine! {
    a_written_key_is_read_back
    a_write_happens_only_if_its_condition_holds
    of_concurrent_writers_one_wins
    what_is_too_large_or_no_key_is_refused
    a_range_is_in_key_order_and_knows_what_it_left_out
    a_range_can_be_continued_at_its_revision
    a_range_sees_the_past
    a_future_revision_is_refused
    a_watch_replays_and_then_follows
    a_watch_hears_only_of_its_prefix
    a_watch_of_one_key_is_a_watch_of_its_prefix
    a_dropped_watch_is_silent
    watches_opened_during_writes_miss_nothing
    being_caught_up_means_that_watches_know
    compaction_forgets_only_the_past
    compaction_is_idempotent_and_not_ahead
    a_watch_goes_on_across_compaction
    a_key_with_time_to_live_goes_away
    a_key_written_again_stays
    a_closed_store_answers_nothing
}

async fn a_written_key_is_read_back(Fixture { store, .. }: Fixture) {
    assert_eq!(store.get("/a").await.unwrap(), None);
    let first = create(&store, "/a", "one").await;
    assert!(first > Revision(0));
    let entry = store.get("/a").await.unwrap().unwrap();
    assert_eq!((&*entry.key, text(&entry.value), entry.revision), ("/a", "one".into(), first));

    let second = update(&store, "/a", first, "two").await;
    assert!(second > first);
    let entry = store.get("/a").await.unwrap().unwrap();
    assert_eq!((text(&entry.value), entry.revision), ("two".into(), second));

    let third = delete(&store, "/a", second).await.unwrap();
    assert!(third > second);
    assert_eq!(store.get("/a").await.unwrap(), None);
    assert!(create(&store, "/a", "").await > third);
    assert_eq!(store.get("/a").await.unwrap().unwrap().value, "");
}

async fn a_write_happens_only_if_its_condition_holds(Fixture { store, .. }: Fixture) {
    let check = |result: Result<Revision, Error>, expected: Option<(&str, Revision)>| match result {
        Err(Error::Conflict { key, current }) => {
            assert_eq!(&*key, "/a");
            let current = current.map(|entry| (text(&entry.value), entry.revision));
            assert_eq!(current, expected.map(|(value, revision)| (value.to_owned(), revision)));
        }
        other => panic!("expected a conflict, got {other:?}"),
    };
    check(put(&store, "/a", Expect::At(Revision(1)), "x").await, None);
    check(delete(&store, "/a", Revision(1)).await, None);
    let first = create(&store, "/a", "one").await;
    check(put(&store, "/a", Expect::Absent, "x").await, Some(("one", first)));
    check(put(&store, "/a", Expect::At(Revision(first.0 + 9)), "x").await, Some(("one", first)));
    let second = update(&store, "/a", first, "two").await;
    check(put(&store, "/a", Expect::At(first), "x").await, Some(("two", second)));
    check(delete(&store, "/a", first).await, Some(("two", second)));
    let senseless = Write { key: "/a".into(), expect: Expect::Absent, op: WriteOp::Delete };
    check(store.write(senseless).await.map(|w| w.revision), Some(("two", second)));
    delete(&store, "/a", second).await.unwrap();
    check(put(&store, "/a", Expect::At(second), "x").await, None);
    let senseless = Write { key: "/a".into(), expect: Expect::Absent, op: WriteOp::Delete };
    check(store.write(senseless).await.map(|w| w.revision), None);
}

async fn of_concurrent_writers_one_wins(Fixture { store, .. }: Fixture) {
    let mut at = create(&store, "/counter", "0").await;
    for round in 1..=10 {
        let contenders = (0..8).map(|_| {
            let store = store.clone();
            tokio::spawn(async move {
                put(&store, "/counter", Expect::At(at), &round.to_string()).await
            })
        });
        let contenders: Vec<_> = contenders.collect();
        let mut won = Vec::new();
        for contender in contenders {
            match contender.await.unwrap() {
                Ok(revision) => won.push(revision),
                Err(Error::Conflict { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        let [winner] = won[..] else { panic!("{} winners", won.len()) };
        assert!(winner > at);
        at = winner;
    }
    assert_eq!(state(&store, "/", None).await.unwrap(), [("/counter".into(), "10".into())]);
}

async fn what_is_too_large_or_no_key_is_refused(Fixture { store, .. }: Fixture) {
    let value = "v".repeat(VALUE_MAX);
    let key = format!("/{}", "k".repeat(KEY_MAX - 1));
    let at = create(&store, &key, &value).await;
    assert_eq!(store.get(&key).await.unwrap().unwrap().value.len(), VALUE_MAX);
    update(&store, &key, at, &value).await;

    let over = put(&store, "/a", Expect::Absent, &format!("{value}v")).await;
    assert!(matches!(over, Err(Error::TooLarge { what: "value", .. })), "{over:?}");
    let over = put(&store, &format!("{key}k"), Expect::Absent, "").await;
    assert!(matches!(over, Err(Error::TooLarge { what: "key", .. })), "{over:?}");
    for bad in ["", "a\0b"] {
        let refused = put(&store, bad, Expect::Absent, "").await;
        assert!(matches!(refused, Err(Error::Key { .. })), "{refused:?}");
    }
}

async fn a_range_is_in_key_order_and_knows_what_it_left_out(Fixture { store, .. }: Fixture) {
    for key in ["/b/2", "/a/1", "/b/1", "/b/10", "/b", "/c", "/b/ä", "/b0"] {
        create(&store, key, key).await;
    }
    let check = async |prefix: &str, limit: Option<usize>, keys: &[&str], remaining: u64| {
        let query = RangeQuery { prefix: prefix.to_owned(), limit, ..RangeQuery::default() };
        let range = store.range(query).await.unwrap();
        let found: Vec<_> = range.entries.iter().map(|entry| &*entry.key).collect();
        assert_eq!((&found[..], range.remaining), (keys, remaining), "{prefix} {limit:?}");
        assert!(range.entries.iter().all(|entry| entry.value == entry.key.as_bytes()));
    };
    let b = ["/b/1", "/b/10", "/b/2", "/b/ä"];
    check("/b/", None, &b, 0).await;
    check("/b/", Some(4), &b, 0).await;
    check("/b/", Some(3), &b[..3], 1).await;
    check("/b/", Some(1), &b[..1], 3).await;
    check("/b", Some(2), &["/b", "/b/1"], 4).await;
    check("", Some(1), &["/a/1"], 7).await;
    check("/d", None, &[], 0).await;
}

async fn a_range_can_be_continued_at_its_revision(Fixture { store, .. }: Fixture) {
    for n in 0..10 {
        create(&store, &format!("/n/{n}"), "old").await;
    }
    let page = |start: Option<String>, at| RangeQuery {
        prefix: "/n/".to_owned(),
        start,
        limit: Some(4),
        at,
    };
    let first = store.range(page(None, None)).await.unwrap();
    let at = Some(first.revision);
    assert_eq!((first.entries.len(), first.remaining), (4, 6));

    // What happens between the pages does not show.
    let five = store.get("/n/5").await.unwrap().unwrap().revision;
    update(&store, "/n/5", five, "new").await;
    let seven = store.get("/n/7").await.unwrap().unwrap().revision;
    delete(&store, "/n/7", seven).await.unwrap();
    create(&store, "/n/55", "new").await;

    // The first key that can follow another one ends with a zero byte.
    let second = store.range(page(Some("/n/3\0".to_owned()), at)).await.unwrap();
    let third = store.range(page(Some("/n/7\0".to_owned()), at)).await.unwrap();
    assert_eq!((second.revision, second.remaining), (first.revision, 2));
    assert_eq!((third.revision, third.remaining), (first.revision, 0));
    let all: Vec<_> = [first, second, third].iter().flat_map(|p| pairs(&p.entries)).collect();
    let expected: Vec<_> = (0..10).map(|n| (format!("/n/{n}"), "old".to_owned())).collect();
    assert_eq!(all, expected);

    // The start itself is included.
    let from = store.range(page(Some("/n/9".to_owned()), None)).await.unwrap();
    assert_eq!(pairs(&from.entries), [("/n/9".to_owned(), "old".to_owned())]);
}

async fn a_range_sees_the_past(Fixture { store, .. }: Fixture) {
    let a1 = create(&store, "/a", "1").await;
    let b = create(&store, "/b", "1").await;
    let a2 = update(&store, "/a", a1, "2").await;
    let gone = delete(&store, "/a", a2).await.unwrap();
    let a3 = create(&store, "/a", "3").await;
    let check = async |at: Revision, expected: &[(&str, &str)]| {
        let found = state(&store, "/", Some(at)).await.unwrap();
        let found: Vec<_> = found.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(found, expected, "at {at}");
    };
    check(a1, &[("/a", "1")]).await;
    check(b, &[("/a", "1"), ("/b", "1")]).await;
    check(a2, &[("/a", "2"), ("/b", "1")]).await;
    check(gone, &[("/b", "1")]).await;
    check(a3, &[("/a", "3"), ("/b", "1")]).await;
}

async fn a_future_revision_is_refused(Fixture { store, .. }: Fixture) {
    let at = create(&store, "/a", "1").await;
    let far = Revision(at.0 + 1000);
    let range = state(&store, "/", Some(far)).await;
    assert!(matches!(range, Err(Error::Future { requested, .. }) if requested == far), "{range:?}");
    let watch = store.watch("/", far, Recorder::new()).await;
    assert!(matches!(watch, Err(Error::Future { requested, .. }) if requested == far), "{watch:?}");
}

async fn a_watch_replays_and_then_follows(Fixture { store, .. }: Fixture) {
    let start = store.caught_up().await.unwrap();
    let a1 = create(&store, "/a", "1").await;
    let a2 = update(&store, "/a", a1, "2").await;
    let (all, late) = (Recorder::new(), Recorder::new());
    let _all = store.watch("/", start, all.clone()).await.unwrap();
    let _late = store.watch("/", a1, late.clone()).await.unwrap();
    delete(&store, "/a", a2).await.unwrap();
    let last = create(&store, "/b", "3").await;
    for (recorder, story) in
        [(all, &["/a=1", "/a=2", "/a gone", "/b=3"][..]), (late, &["/a=2", "/a gone", "/b=3"])]
    {
        recorder.wait_for("the last change", |seen| seen.through >= last).await;
        assert_eq!(recorder.story(), story);
        assert_eq!(recorder.seen().changes.last().unwrap().revision, last);
    }
}

async fn a_watch_hears_only_of_its_prefix(Fixture { store, .. }: Fixture) {
    let start = store.caught_up().await.unwrap();
    let recorder = Recorder::new();
    create(&store, "/pods/a", "1").await;
    create(&store, "/podsets/a", "1").await;
    let _watch = store.watch("/pods/", start, recorder.clone()).await.unwrap();
    create(&store, "/pods/b", "1").await;
    create(&store, "/pod", "1").await;
    let last = create(&store, "/q", "1").await;
    assert!(store.caught_up().await.unwrap() >= last);
    assert_eq!(recorder.story(), ["/pods/a=1", "/pods/b=1"]);
    assert!(recorder.seen().through >= last, "progress without changes");
}

async fn a_watch_of_one_key_is_a_watch_of_its_prefix(Fixture { store, .. }: Fixture) {
    let recorder = Recorder::new();
    let start = store.caught_up().await.unwrap();
    let _watch = store.watch("/pods/a", start, recorder.clone()).await.unwrap();
    create(&store, "/pods/a", "1").await;
    create(&store, "/pods/ab", "2").await;
    store.caught_up().await.unwrap();
    assert_eq!(recorder.story(), ["/pods/a=1", "/pods/ab=2"]);
}

async fn a_dropped_watch_is_silent(Fixture { store, .. }: Fixture) {
    let (dropped, kept) = (Recorder::new(), Recorder::new());
    let start = store.caught_up().await.unwrap();
    let watch = store.watch("/", start, dropped.clone()).await.unwrap();
    let _kept = store.watch("/", start, kept.clone()).await.unwrap();
    create(&store, "/a", "1").await;
    store.caught_up().await.unwrap();
    drop(watch);
    let last = create(&store, "/b", "1").await;
    kept.wait_for("the last change", |seen| seen.through >= last).await;
    store.caught_up().await.unwrap();
    assert_eq!(dropped.story(), ["/a=1"]);
    assert!(dropped.seen().ended.is_none());
    // The store lets go of the sink.
    let deadline = Instant::now() + PATIENCE;
    while Arc::strong_count(&dropped) > 1 {
        assert!(Instant::now() < deadline, "the sink is still held");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn watches_opened_during_writes_miss_nothing(Fixture { store, .. }: Fixture) {
    let start = store.caught_up().await.unwrap();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let key = format!("/w/{writer}");
                let mut at = create(&store, &key, "0").await;
                for n in 1..100 {
                    at = update(&store, &key, at, &n.to_string()).await;
                }
            })
        })
        .collect();
    let mut watches = Vec::new();
    while !writers.iter().all(|writer| writer.is_finished()) {
        let recorder = Recorder::new();
        let after = match watches.len() % 2 {
            0 => start,
            _ => store.caught_up().await.unwrap(),
        };
        let before = state(&store, "/w/", Some(after)).await.unwrap();
        let watch = store.watch("/w/", after, recorder.clone()).await.unwrap();
        watches.push((recorder, watch, before));
        tokio::time::sleep(Duration::from_millis(7)).await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    store.caught_up().await.unwrap();
    let whole = watches[0].0.story();
    assert_eq!(whole.len(), 400);
    for (recorder, _watch, _) in &watches {
        let story = recorder.story();
        assert_eq!(story, whole[whole.len() - story.len()..]);
    }
    for (recorder, _watch, before) in watches.iter().filter(|watch| !watch.2.is_empty()) {
        let known: u64 = before.iter().map(|(_, n)| n.parse::<u64>().unwrap() + 1).sum();
        assert_eq!(known as usize + recorder.story().len(), 400);
    }
}

async fn being_caught_up_means_that_watches_know(Fixture { store, url, .. }: Fixture) {
    // A second handle stands for another server, where the engine allows one.
    let other = match &url {
        StoreUrl::Etcd(_) => Store::open(&url).await.unwrap(),
        _ => store.clone(),
    };
    let (recorder, idle) = (Recorder::new(), Recorder::new());
    let start = store.caught_up().await.unwrap();
    let _watch = store.watch("/a", start, recorder.clone()).await.unwrap();
    let _idle = store.watch("/never", start, idle.clone()).await.unwrap();
    let mut at = create(&other, "/a", "0").await;
    for n in 1..50 {
        let value = n.to_string();
        at = update(&other, "/a", at, &value).await;
        let known = store.caught_up().await.unwrap();
        assert!(known >= at);
        assert!(recorder.seen().through >= at);
        assert!(idle.seen().through >= at);
        assert_eq!(recorder.state(), [("/a".to_owned(), value)]);
    }
    let callers: Vec<_> = (0..32)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.caught_up().await.unwrap() })
        })
        .collect();
    for caller in callers {
        assert!(caller.await.unwrap() >= at);
    }
}

async fn compaction_forgets_only_the_past(Fixture { store, .. }: Fixture) {
    let a1 = create(&store, "/a", "1").await;
    let b = create(&store, "/b", "1").await;
    let a2 = update(&store, "/a", a1, "2").await;
    let c = create(&store, "/c", "1").await;
    let gone = delete(&store, "/c", c).await.unwrap();
    let a3 = update(&store, "/a", a2, "3").await;
    store.compact(gone).await.unwrap();

    for at in [a1, b, a2, c] {
        let refused = state(&store, "/", Some(at)).await;
        let Err(Error::Compacted { requested, oldest }) = refused else { panic!("{refused:?}") };
        assert_eq!((requested, oldest), (at, gone));
    }
    let expect = |a: &str| vec![("/a".to_owned(), a.to_owned()), ("/b".into(), "1".into())];
    assert_eq!(state(&store, "/", Some(gone)).await.unwrap(), expect("2"));
    assert_eq!(state(&store, "/", Some(a3)).await.unwrap(), expect("3"));
    assert_eq!(state(&store, "/", None).await.unwrap(), expect("3"));

    let refused = store.watch("/", a2, Recorder::new()).await;
    assert!(matches!(refused, Err(Error::Compacted { requested, .. }) if requested == a2));
    let recorder = Recorder::new();
    let _watch = store.watch("/", c, recorder.clone()).await.unwrap();
    recorder.wait_for("the last change", |seen| seen.through >= a3).await;
    assert_eq!(recorder.story(), ["/c gone", "/a=3"]);
    // The condition on a key whose history is gone still holds.
    update(&store, "/b", b, "2").await;
    create(&store, "/c", "2").await;
}

async fn compaction_is_idempotent_and_not_ahead(Fixture { store, .. }: Fixture) {
    let mut at = create(&store, "/a", "0").await;
    let early = at;
    for n in 1..10 {
        at = update(&store, "/a", at, &n.to_string()).await;
    }
    store.compact(at).await.unwrap();
    store.compact(at).await.unwrap();
    store.compact(early).await.unwrap();
    let ahead = store.compact(Revision(at.0 + 1000)).await;
    assert!(matches!(ahead, Err(Error::Future { .. })), "{ahead:?}");
    assert_eq!(state(&store, "/", Some(at)).await.unwrap(), [("/a".into(), "9".into())]);
    let gone = delete(&store, "/a", at).await.unwrap();
    store.compact(gone).await.unwrap();
    assert_eq!(state(&store, "/", None).await.unwrap(), []);
    assert!(create(&store, "/a", "again").await > gone);
}

async fn a_watch_goes_on_across_compaction(Fixture { store, .. }: Fixture) {
    let recorder = Recorder::new();
    let start = store.caught_up().await.unwrap();
    let _watch = store.watch("/", start, recorder.clone()).await.unwrap();
    let mut at = create(&store, "/a", "0").await;
    for n in 1..200 {
        at = update(&store, "/a", at, &n.to_string()).await;
        if n % 20 == 0 {
            store.compact(at).await.unwrap();
        }
    }
    store.caught_up().await.unwrap();
    let expected: Vec<_> = (0..200).map(|n| format!("/a={n}")).collect();
    assert_eq!(recorder.story(), expected);
}

async fn a_key_with_time_to_live_goes_away(Fixture { store, .. }: Fixture) {
    let recorder = Recorder::new();
    let start = store.caught_up().await.unwrap();
    let _watch = store.watch("/", start, recorder.clone()).await.unwrap();
    let ttl = Duration::from_secs(2);
    let began = Instant::now();
    let at = put_for(&store, "/event", Expect::Absent, "boo", Some(ttl)).await.unwrap();
    create(&store, "/stays", "1").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(store.get("/event").await.unwrap().is_some());
    recorder.wait_for("the event to go", |seen| seen.changes.len() == 3).await;
    assert!(began.elapsed() >= ttl);
    assert_eq!(recorder.story(), ["/event=boo", "/stays=1", "/event gone"]);
    assert!(recorder.seen().changes[2].revision > at);
    assert_eq!(state(&store, "/", None).await.unwrap(), [("/stays".into(), "1".into())]);
}

async fn a_key_written_again_stays(Fixture { store, .. }: Fixture) {
    let recorder = Recorder::new();
    let start = store.caught_up().await.unwrap();
    let _watch = store.watch("/", start, recorder.clone()).await.unwrap();
    let short = Some(Duration::from_secs(1));
    for key in ["/plain", "/longer", "/reborn", "/fleeting"] {
        let at = put_for(&store, key, Expect::Absent, "1", short).await.unwrap();
        match key {
            "/plain" => drop(update(&store, key, at, "2").await),
            "/longer" => {
                let hour = Some(Duration::from_secs(3600));
                put_for(&store, key, Expect::At(at), "2", hour).await.unwrap();
            }
            "/reborn" => {
                delete(&store, key, at).await.unwrap();
                create(&store, key, "2").await;
            }
            _ => {}
        }
    }
    recorder
        .wait_for("the fleeting to go", |seen| {
            seen.changes.iter().any(|change| tell(change) == "/fleeting gone")
        })
        .await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let left = ["/longer", "/plain", "/reborn"].map(|key| (key.to_owned(), "2".to_owned()));
    assert_eq!(state(&store, "/", None).await.unwrap(), left);
}

async fn a_closed_store_answers_nothing(Fixture { store, .. }: Fixture) {
    let at = create(&store, "/a", "1").await;
    let recorder = Recorder::new();
    let watch = store.watch("/", at, recorder.clone()).await.unwrap();
    store.close().await;
    recorder.wait_for("the end", |seen| seen.ended.is_some()).await;
    let refused = put(&store, "/b", Expect::Absent, "1").await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(store.get("/a").await.is_err());
    assert!(state(&store, "/", None).await.is_err());
    assert!(store.watch("/", at, Recorder::new()).await.is_err());
    assert!(store.caught_up().await.is_err());
    store.close().await;
    drop(watch);
}
