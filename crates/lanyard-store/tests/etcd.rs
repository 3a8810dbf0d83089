//! What only the store on etcd has: members that come and go, and other servers beside us.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use lanyard_store::{Error, Expect, Revision, Store, StoreUrl};
use lanyard_testkit::Etcd;

mod common;
use common::*;

/// Starts a cluster off the runtime's threads.
async fn start(size: usize) -> Etcd {
    tokio::task::spawn_blocking(move || Etcd::start(size)).await.unwrap().unwrap()
}

async fn open(etcd: &Etcd) -> Store {
    Store::open(&etcd_url(etcd)).await.unwrap()
}

/// Writers of one key each who count up, whatever happens to the cluster.
struct Counters {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<u64>>,
}

impl Counters {
    fn start(store: &Store) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..4)
            .map(|n| tokio::spawn(count(store.clone(), format!("/counter/{n}"), stop.clone())))
            .collect();
        Self { stop, tasks }
    }

    /// Stops them; answers what each counted to.
    async fn stop(self) -> Vec<u64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut counts = Vec::new();
        for task in self.tasks {
            counts.push(task.await.unwrap());
        }
        counts
    }
}

/// Counts up one key; after a failure it looks what became of its write.
///
/// A write that failed may still be on its way between two members, and take effect after we have
/// looked. So the next attempt may meet a conflict, but only then.
async fn count(store: Store, key: String, stop: Arc<AtomicBool>) -> u64 {
    let (mut n, mut expect, mut sure, mut doubt) = (0, Expect::Absent, true, false);
    while !stop.load(Ordering::Relaxed) || !sure {
        if !sure {
            let Ok(found) = store.get(&key).await else { continue };
            if let Some(entry) = found {
                let there: u64 = text(&entry.value).parse().unwrap();
                assert!(there == n || there == n + 1, "{key} went from {n} to {there}");
                (n, expect) = (there, Expect::At(entry.revision));
            } else {
                assert_eq!(n, 0, "{key} was lost");
            }
            sure = true;
            continue;
        }
        match put(&store, &key, expect, &(n + 1).to_string()).await {
            Ok(revision) => (n, expect, doubt) = (n + 1, Expect::At(revision), false),
            Err(Error::Unavailable(_)) => (sure, doubt) = (false, true),
            Err(Error::Conflict { .. }) if doubt => sure = false,
            Err(error) => panic!("{key} after {n}: {error}"),
        }
    }
    n
}

/// Whether a watch heard every count once, in order.
async fn check_story(store: &Store, recorder: &Recorder, counts: &[u64]) {
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = store.caught_up().await {
        assert!(Instant::now() < deadline, "{error}");
    }
    for (n, count) in counts.iter().enumerate() {
        let key = format!("/counter/{n}=");
        let story = recorder.story();
        let heard: Vec<_> = story.iter().filter_map(|line| line.strip_prefix(&key)).collect();
        let expected: Vec<_> = (1..=*count).map(|n| n.to_string()).collect();
        assert_eq!(heard, expected, "{key}");
        assert!(*count > 0, "{key} was never written");
    }
    assert!(recorder.seen().ended.is_none());
}

/// Lets a disturbance happen while counters count and others watch.
async fn disturb(mut etcd: Etcd, disturbance: impl FnOnce(&mut Etcd) + Send + 'static) {
    let (store, other) = (open(&etcd).await, open(&etcd).await);
    let start = store.caught_up().await.unwrap();
    let (here, there) = (Recorder::new(), Recorder::new());
    let _here = store.watch("/counter/", start, here.clone()).await.unwrap();
    let _there = other.watch("/counter/", start, there.clone()).await.unwrap();
    let counters = Counters::start(&store);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let etcd = tokio::task::spawn_blocking(move || {
        disturbance(&mut etcd);
        etcd
    });
    let _etcd = etcd.await.unwrap();
    // It goes on: every counter gets further.
    let before = there.seen().changes.len();
    there.wait_for("the counters to go on", |seen| seen.changes.len() > before + 100).await;
    let counts = counters.stop().await;
    check_story(&store, &here, &counts).await;
    check_story(&other, &there, &counts).await;
    store.close().await;
    other.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_every_member_in_turn_loses_and_repeats_nothing() {
    let etcd = start(3).await;
    disturb(etcd, |etcd| {
        // One of them is the leader.
        for member in 0..3 {
            etcd.kill(member).unwrap();
            std::thread::sleep(Duration::from_millis(1500));
            etcd.launch(member).unwrap();
            etcd.wait_ready(member).unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarting_all_members_loses_and_repeats_nothing() {
    let etcd = start(3).await;
    disturb(etcd, |etcd| {
        for member in 0..3 {
            etcd.kill(member).unwrap();
        }
        std::thread::sleep(Duration::from_millis(700));
        for member in 0..3 {
            etcd.launch(member).unwrap();
        }
        for member in 0..3 {
            etcd.wait_ready(member).unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_hangs_is_left_for_another() {
    let mut etcd = start(3).await;
    let store = open(&etcd).await;
    let recorder = Recorder::new();
    let start = store.caught_up().await.unwrap();
    let _watch = store.watch("/", start, recorder.clone()).await.unwrap();
    create(&store, "/a", "1").await;
    store.caught_up().await.unwrap();

    // All connections of this store are to the first member.
    etcd.freeze(0).unwrap();
    let other = Store::open(
        &StoreUrl::parse(&format!("etcd://{}", etcd.endpoint(1)), Path::new("")).unwrap(),
    )
    .await
    .unwrap();
    let deadline = Instant::now() + PATIENCE;
    let last = loop {
        match put(&other, "/b", Expect::Absent, "2").await {
            Ok(revision) => break revision,
            // The frozen member may have been the leader.
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    let known = loop {
        match store.caught_up().await {
            Ok(known) => break known,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    assert!(known >= last);
    assert_eq!(recorder.story(), ["/a=1", "/b=2"]);
    etcd.thaw(0).unwrap();
    store.close().await;
    other.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_was_never_sent_is_tried_again() {
    let mut etcd = start(1).await;
    let store = open(&etcd).await;
    create(&store, "/a", "1").await;
    etcd.kill(0).unwrap();
    // Once the broken connection is noticed, nothing can be sent, so there is nothing to doubt.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let write = tokio::spawn({
        let store = store.clone();
        async move { put(&store, "/b", Expect::Absent, "2").await }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!write.is_finished());
    etcd.launch(0).unwrap();
    write.await.unwrap().unwrap();
    assert_eq!(state(&store, "/", None).await.unwrap().len(), 2);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_see_one_history() {
    let etcd = start(1).await;
    let stores = [open(&etcd).await, open(&etcd).await];
    let start = stores[0].caught_up().await.unwrap();
    let recorders = [Recorder::new(), Recorder::new()];
    let mut watches = Vec::new();
    for (store, recorder) in stores.iter().zip(&recorders) {
        watches.push(store.watch("/", start, recorder.clone()).await.unwrap());
    }
    // Both increment the same counter.
    let tasks: Vec<_> = stores
        .iter()
        .map(|store| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut won = 0;
                while won < 50 {
                    let current = store.get("/n").await.unwrap();
                    let n = current.as_ref().map_or(0, |e| text(&e.value).parse::<u64>().unwrap());
                    let expect = current.map_or(Expect::Absent, |e| Expect::At(e.revision));
                    match put(&store, "/n", expect, &(n + 1).to_string()).await {
                        Ok(_) => won += 1,
                        Err(Error::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let expected: Vec<_> = (1..=100).map(|n| format!("/n={n}")).collect();
    for (store, recorder) in stores.iter().zip(&recorders) {
        store.caught_up().await.unwrap();
        assert_eq!(recorder.story(), expected);
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_missed_compacted_changes_is_told() {
    let mut etcd = start(3).await;
    let only = |member| {
        StoreUrl::parse(&format!("etcd://{}", etcd.endpoint(member)), Path::new("")).unwrap()
    };
    let (cut_off, other) =
        (Store::open(&only(0)).await.unwrap(), Store::open(&only(1)).await.unwrap());
    let recorder = Recorder::new();
    let start = cut_off.caught_up().await.unwrap();
    let _watch = cut_off.watch("/", start, recorder.clone()).await.unwrap();
    let first = create(&other, "/a", "1").await;
    recorder.wait_for("the first change", |seen| seen.through >= first).await;

    etcd.kill(0).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut at = loop {
        // The killed member may have been the leader.
        let current = other.get("/a").await.unwrap().unwrap();
        match put(&other, "/a", Expect::At(current.revision), "2").await {
            Ok(revision) => break revision,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    for n in 3..10 {
        at = update(&other, "/a", at, &n.to_string()).await;
    }
    other.compact(at).await.unwrap();
    etcd.launch(0).unwrap();
    recorder.wait_for("the end", |seen| seen.ended.is_some()).await;
    let ended = recorder.seen().ended.clone().unwrap();
    let Error::Compacted { requested, oldest } = ended else { panic!("{ended}") };
    assert_eq!((requested, oldest), (first, at));
    assert_eq!(recorder.story(), ["/a=1"]);
    cut_off.close().await;
    other.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_lost_its_data_ends_the_watches() {
    let mut etcd = start(1).await;
    let store = open(&etcd).await;
    for n in 0..20 {
        create(&store, &format!("/{n}"), "1").await;
    }
    let recorder = Recorder::new();
    let start = store.caught_up().await.unwrap();
    let _watch = store.watch("/", start, recorder.clone()).await.unwrap();
    let etcd = tokio::task::spawn_blocking(move || {
        etcd.kill(0).unwrap();
        etcd.forget(0).unwrap();
        etcd.launch(0).unwrap();
        etcd.wait_ready(0).unwrap();
        etcd
    });
    let _etcd = etcd.await.unwrap();
    let deadline = Instant::now() + PATIENCE;
    let now = loop {
        match store.caught_up().await {
            Ok(now) => break now,
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
    };
    assert!(now < start);
    let ended = recorder.seen().ended.clone();
    assert!(matches!(ended, Some(Error::Compacted { .. })), "{ended:?}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_history_of_large_values_is_replayed() {
    let etcd = start(1).await;
    let store = open(&etcd).await;
    let start = store.caught_up().await.unwrap();
    let values: Vec<_> = (0..24).map(|n| format!("{n}{}", "x".repeat(700_000))).collect();
    for (n, value) in values.iter().enumerate() {
        create(&store, &format!("/{n:02}"), value).await;
    }
    let recorder = Recorder::new();
    let _watch = store.watch("/", start, recorder.clone()).await.unwrap();
    store.caught_up().await.unwrap();
    let expected: Vec<_> = values.iter().enumerate().map(|(n, v)| format!("/{n:02}={v}")).collect();
    assert!(recorder.story() == expected, "{} changes", recorder.story().len());
    assert_eq!(state(&store, "/", None).await.unwrap().len(), values.len());
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_entries_than_a_page_are_read_at_one_revision() {
    let etcd = start(1).await;
    let store = open(&etcd).await;
    let writers: Vec<_> = (0..2100)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { create(&store, &format!("/{n:04}"), "1").await })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let counters = Counters::start(&store);
    let all = state(&store, "/", None).await.unwrap();
    counters.stop().await;
    let keys = all.iter().map(|(key, _)| key).filter(|key| !key.starts_with("/counter"));
    assert!(keys.cloned().eq((0..2100).map(|n| format!("/{n:04}"))));
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_with_the_same_time_to_live_share_a_lease() {
    let etcd = start(1).await;
    let store = open(&etcd).await;
    let start = store.caught_up().await.unwrap();
    let ttl = Some(Duration::from_secs(2));
    for n in 0..50 {
        put_for(&store, &format!("/{n:02}"), Expect::Absent, "1", ttl).await.unwrap();
    }
    let recorder = Recorder::new();
    let _watch = store.watch("/", start, recorder.clone()).await.unwrap();
    recorder.wait_for("all to go", |seen| seen.changes.len() == 100).await;
    let seen = recorder.seen().clone();
    let mut revisions: Vec<Revision> = seen.changes[50..].iter().map(|c| c.revision).collect();
    revisions.dedup();
    assert!(revisions.len() <= 3, "{} leases for 50 keys", revisions.len());
    assert_eq!(state(&store, "/", None).await.unwrap(), []);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_refuses_writes_and_still_reads() {
    let flags = ["--quota-backend-bytes=4194304"];
    let etcd = tokio::task::spawn_blocking(move || Etcd::start_with_flags(1, &flags));
    let etcd = etcd.await.unwrap().unwrap();
    let store = open(&etcd).await;
    let value = "x".repeat(500_000);
    let (mut written, mut unsure, mut refused) = (Vec::new(), None, false);
    // etcd looks at its size now and then only, so it takes more than its quota.
    for n in 0..500 {
        let key = format!("/{n:03}");
        match put(&store, &key, Expect::Absent, &value).await {
            Ok(_) => written.push(key),
            // The one that fills it up may have happened, which is not to be called refused.
            Err(Error::Unavailable(_)) if unsure.is_none() => unsure = Some(key),
            Err(Error::NoSpace { .. }) => {
                refused = true;
                break;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused, "it never fills up");
    let there = state(&store, "/", None).await.unwrap();
    let there: Vec<_> = there.into_iter().map(|(key, _)| key).collect();
    let certain = there.iter().filter(|key| Some(*key) != unsure.as_ref());
    assert!(certain.eq(&written), "{there:?}, but {written:?} and perhaps {unsure:?}");
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_is_spoken_with_the_right_certificates_only() {
    let etcd = tokio::task::spawn_blocking(Etcd::start_with_tls).await.unwrap().unwrap();
    let open = async |options: &[(&str, &str)]| {
        let options: Vec<_> = options
            .iter()
            .map(|(name, file)| format!("{name}={}", etcd.path(file).display()))
            .collect();
        let url = format!("etcd://{}?{}", etcd.endpoints(), options.join("&"));
        Store::open(&StoreUrl::parse(&url, Path::new("")).unwrap()).await
    };
    let client = [("ca", "ca.crt"), ("cert", "client.crt"), ("key", "client.key")];
    let store = open(&client).await.unwrap();
    let recorder = Recorder::new();
    let start = store.caught_up().await.unwrap();
    let _watch = store.watch("/", start, recorder.clone()).await.unwrap();
    create(&store, "/a", "1").await;
    store.caught_up().await.unwrap();
    assert_eq!(recorder.story(), ["/a=1"]);
    store.close().await;

    let refused = open(&client[..1]).await.map(drop);
    assert!(matches!(refused, Err(Error::Unavailable(_))), "no client certificate: {refused:?}");
    let wrong_ca = [("ca", "client.crt"), ("cert", "client.crt"), ("key", "client.key")];
    let refused = open(&wrong_ca).await.map(drop);
    assert!(matches!(refused, Err(Error::Unavailable(_))), "wrong CA: {refused:?}");
    let missing = [("ca", "nowhere.crt")];
    let refused = open(&missing).await.map(drop);
    assert!(matches!(&refused, Err(Error::Io { path, .. }) if path.ends_with("nowhere.crt")));
}

#[tokio::test]
async fn an_etcd_that_is_not_there_is_an_error_that_names_it() {
    let port = lanyard_testkit::free_port().unwrap();
    let url = StoreUrl::parse(&format!("etcd://127.0.0.1:{port}"), Path::new("")).unwrap();
    let began = Instant::now();
    let error = Store::open(&url).await.map(drop).unwrap_err();
    assert!(began.elapsed() < PATIENCE);
    let text = error.to_string();
    assert!(text.contains(&format!("127.0.0.1:{port}")), "{text}");
    assert!(text.contains("refused"), "{text}");
}
