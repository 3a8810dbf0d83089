//! What a collection tells its watchers, how far back it remembers, and when it gives up on somebody.

use std::task::{Poll, Waker};

use lanyard_store::{Expect, StoreUrl, Write, WriteOp};
use serde_json::json;

use super::{
    watcher::{MAX_WAITING, MAX_WAITING_BYTES},
    *,
};
use crate::{schema::builtin, types};

/// A collection of ConfigMaps on a store of its own.
struct Fixture {
    store: Store,
    configs: Arc<Collection>,
}

impl Fixture {
    async fn new() -> Self {
        let store = Store::open(&StoreUrl::Memory).await.unwrap();
        let kinds = types::all().into_iter();
        let resource = kinds.into_iter().find(|kind| kind.storage == "configmaps").unwrap();
        let configs = Collection::new(Arc::new(resource));
        configs.load(&store).await.unwrap();
        Self { store, configs }
    }

    /// Writes `namespace/name` with some payload, whatever was there.
    async fn put(&self, key: &str, payload: &str) -> Revision {
        let (namespace, name) = key.split_once('/').unwrap();
        let metadata = json!({"name": name, "namespace": namespace});
        let mut object = json!({"metadata": metadata, "data": {"a": payload}});
        let value = self.configs.codec.encode(&mut object);
        self.write(key, WriteOp::Put { value, ttl: None }).await
    }

    async fn delete(&self, key: &str) -> Revision {
        self.write(key, WriteOp::Delete).await
    }

    async fn write(&self, key: &str, op: WriteOp) -> Revision {
        let expect = self.configs.get(key).map_or(Expect::Absent, |o| Expect::At(o.revision));
        let key = format!("{}{key}", self.configs.prefix).into();
        let written = self.store.write(Write { key, expect, op }).await.unwrap();
        self.store.caught_up().await.unwrap();
        written.revision
    }

    /// A watch of everything in `scope` from now on.
    fn watch(&self, scope: Scope) -> Arc<Watcher> {
        let watcher = Watcher::new(scope, true);
        self.configs.watch_from_now(&watcher);
        watcher
    }
}

/// Everything that a watcher would send now, as `ADDED a/b`, `BOOKMARK 7`, `end`.
fn sent(watcher: &Watcher) -> Vec<String> {
    let mut sent = Vec::new();
    while let Poll::Ready(next) = watcher.poll_next(Waker::noop()) {
        match next {
            Next::Event(event) => {
                sent.push(format!("{} {}", event.kind.as_str(), event.object.key))
            }
            Next::Bookmark(revision) => sent.push(format!("BOOKMARK {revision}")),
            Next::Closed => {
                sent.push("end".to_owned());
                break;
            }
        }
    }
    sent
}

#[tokio::test]
async fn watchers_see_what_is_in_their_scope_and_nothing_else() {
    let fixture = Fixture::new().await;
    let all = fixture.watch(Scope::All);
    let namespace = fixture.watch(Scope::Namespace("a".into()));
    let object = fixture.watch(Scope::Object("a/x".into()));
    for key in ["a/x", "a/y", "ab/x", "b/x"] {
        fixture.put(key, "1").await;
    }
    fixture.put("a/x", "2").await;
    fixture.delete("a/y").await;
    let every =
        ["ADDED a/x", "ADDED a/y", "ADDED ab/x", "ADDED b/x", "MODIFIED a/x", "DELETED a/y"];
    assert_eq!(sent(&all), every);
    assert_eq!(sent(&namespace), ["ADDED a/x", "ADDED a/y", "MODIFIED a/x", "DELETED a/y"]);
    assert_eq!(sent(&object), ["ADDED a/x", "MODIFIED a/x"]);
}

#[tokio::test]
async fn an_ended_watch_is_forgotten() {
    let fixture = Fixture::new().await;
    let scopes = [Scope::All, Scope::Namespace("a".into()), Scope::Object("a/x".into())];
    let watchers: Vec<_> = scopes.into_iter().map(|scope| fixture.watch(scope)).collect();
    assert_eq!(fixture.configs.counts(), (0, 3));
    for watcher in &watchers {
        fixture.configs.unwatch(watcher);
        // A second time does no harm.
        fixture.configs.unwatch(watcher);
    }
    assert_eq!(fixture.configs.counts(), (0, 0));
    fixture.put("a/x", "1").await;
    assert!(watchers.iter().all(|watcher| sent(watcher).is_empty()));
}

#[tokio::test]
async fn a_watcher_that_does_not_read_is_cut_off() {
    let fixture = Fixture::new().await;
    let slow = fixture.watch(Scope::All);
    for i in 0..MAX_WAITING {
        fixture.put("a/x", &i.to_string()).await;
    }
    let quick = fixture.watch(Scope::All);
    fixture.put("a/x", "one too many").await;
    assert_eq!(sent(&slow), ["end"]);
    assert_eq!(sent(&quick), ["MODIFIED a/x"]);
    assert_eq!(sent(&slow), ["end"], "it stays cut off");
}

#[tokio::test]
async fn large_objects_cut_a_slow_watcher_off_sooner() {
    let fixture = Fixture::new().await;
    let slow = fixture.watch(Scope::All);
    let large = "x".repeat(1 << 20);
    // Each change holds the object before and after it.
    for _ in 0..MAX_WAITING_BYTES / (2 << 20) {
        fixture.put("a/x", &large).await;
    }
    assert!(!sent(&slow).contains(&"end".to_owned()));
    for _ in 0..=MAX_WAITING_BYTES / (2 << 20) {
        fixture.put("a/x", &large).await;
    }
    assert_eq!(sent(&slow), ["end"]);
}

#[tokio::test]
async fn somebody_who_asks_for_protobuf_meanwhile_disturbs_no_watcher() {
    let fixture = Fixture::new().await;
    let watcher = fixture.watch(Scope::All);
    fixture.put("a/x", "1").await;
    fixture.configs.get("a/x").unwrap().message(builtin("io.k8s.api.core.v1.ConfigMap"));
    assert_eq!(sent(&watcher), ["ADDED a/x"]);
}

#[tokio::test]
async fn what_a_watcher_missed_does_not_count_against_it() {
    let fixture = Fixture::new().await;
    let first = fixture.put("a/x", "0").await;
    let missed = MAX_WAITING + 100;
    for i in 0..missed {
        fixture.put("a/x", &i.to_string()).await;
    }
    let late = Watcher::new(Scope::All, false);
    fixture.configs.watch_after(first, &late).unwrap();
    fixture.put("a/x", "new").await;
    let sent = sent(&late);
    assert_eq!(sent.len(), missed + 1);
    assert!(sent.iter().all(|event| event == "MODIFIED a/x"), "{sent:?}");
}

#[tokio::test]
async fn a_watch_from_before_the_history_is_told_so() {
    let fixture = Fixture::new().await;
    let large = "x".repeat(1 << 20);
    let first = fixture.put("a/x", "0").await;
    for _ in 0..history::MAX_BYTES / (2 << 20) + 2 {
        fixture.put("a/x", &large).await;
    }
    let watcher = Watcher::new(Scope::All, false);
    let too_old = fixture.configs.watch_after(first, &watcher).unwrap_err();
    assert!(too_old.oldest > first);
    assert_eq!(fixture.configs.counts().1, 0, "a watch that did not begin is not there");
    fixture.configs.watch_after(too_old.oldest, &watcher).unwrap();
    assert!(!sent(&watcher).is_empty());
}

#[tokio::test]
async fn a_reload_ends_the_watches_and_forgets_the_past() {
    let fixture = Fixture::new().await;
    let before = fixture.put("a/x", "1").await;
    let after = fixture.put("a/y", "1").await;
    let watcher = fixture.watch(Scope::All);
    fixture.configs.load(&fixture.store).await.unwrap();
    assert_eq!(sent(&watcher), ["end"]);
    let late = Watcher::new(Scope::All, false);
    let oldest = fixture.configs.watch_after(before, &late).unwrap_err().oldest;
    assert_eq!(oldest, after);
    assert_eq!(fixture.configs.counts().0, 2);
}

#[tokio::test]
async fn bookmarks_come_after_the_events_before_them() {
    let fixture = Fixture::new().await;
    let wants = fixture.watch(Scope::All);
    let without = Watcher::new(Scope::All, false);
    fixture.configs.watch_from_now(&without);
    fixture.configs.bookmark(Revision(1));
    let revision = fixture.put("a/x", "1").await;
    fixture.configs.bookmark(revision);
    assert_eq!(sent(&wants), ["ADDED a/x".to_owned(), format!("BOOKMARK {revision}")]);
    assert_eq!(sent(&without), ["ADDED a/x"]);
}

#[tokio::test]
async fn selective_watchers_see_objects_come_and_go() {
    let fixture = Fixture::new().await;
    let watcher = fixture.watch(Scope::All);
    for payload in ["no", "yes", "yes!", "no"] {
        fixture.put("a/x", payload).await;
    }
    fixture.put("a/x", "yes").await;
    let last = fixture.delete("a/x").await;
    fixture.put("a/y", "no").await;
    fixture.delete("a/y").await;
    let selected = |object: &Encoded| object.value()["data"]["a"].to_string().contains("yes");
    let mut seen = Vec::new();
    while let Poll::Ready(Next::Event(event)) = watcher.poll_next(Waker::noop()) {
        let view = event.seen_by(selected);
        assert!(view.as_ref().is_none_or(|(_, object)| object.revision == event.revision()));
        seen.extend(view.map(|(kind, object)| (kind, object.value())));
    }
    let kinds: Vec<_> = seen.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]);
    // What stops to match is shown as it last matched, at the revision of the change.
    assert_eq!(seen[2].1["data"]["a"], "yes!");
    assert_eq!(seen[4].1["metadata"]["resourceVersion"], last.to_string());
}

#[tokio::test]
async fn lists_stay_in_their_scope_wherever_they_start() {
    let fixture = Fixture::new().await;
    for key in ["a/x", "a/y", "a-b/x", "b/x"] {
        fixture.put(key, "1").await;
    }
    let list = |scope: &Scope, start: Option<&str>, limit| {
        let (page, _) = fixture.configs.list(scope, start, limit, |_| true);
        let keys: Vec<_> = page.objects.iter().map(|o| o.key.to_string()).collect();
        (keys.join(" "), page.remaining)
    };
    let a = Scope::Namespace("a".into());
    for (scope, start, limit, expected) in [
        (&Scope::All, None, None, ("a-b/x a/x a/y b/x", 0)),
        (&Scope::All, Some("a/x\0"), None, ("a/y b/x", 0)),
        (&a, None, None, ("a/x a/y", 0)),
        (&a, None, Some(1), ("a/x", 1)),
        (&a, Some("a/x\0"), Some(1), ("a/y", 0)),
        (&a, Some("a/\u{10ffff}"), None, ("", 0)),
        (&Scope::Object("a/y".into()), None, None, ("a/y", 0)),
        (&Scope::Object("a/y".into()), Some("a/y\0"), None, ("", 0)),
        (&Scope::Object("a".into()), None, None, ("", 0)),
    ] {
        let (keys, remaining) = expected;
        assert_eq!(list(scope, start, limit), (keys.to_owned(), remaining), "{scope:?} {start:?}");
    }
}

#[tokio::test]
async fn a_retired_collection_ends_its_watches_and_those_that_come_late() {
    let fixture = Fixture::new().await;
    let early = fixture.watch(Scope::All);
    fixture.configs.retire();
    assert_eq!(sent(&early), ["end"]);
    assert_eq!(sent(&fixture.watch(Scope::All)), ["end"]);
}
