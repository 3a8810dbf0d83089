//! Random writes, random watches: what a client makes of the events is what a list shows in the end.

use std::{collections::BTreeMap, task::Waker};

use http::HeaderMap;
use lanyard_store::{Expect, Store, StoreUrl, Write, WriteOp};
use parking_lot::Mutex;
use proptest::{prelude::*, sample::select};
use serde_json::{Value, json};

use super::*;
use crate::{
    authn::UserInfo,
    http::IncludeObject,
    negotiate::{self, Shape},
    registry::{Call, Endpoint, Registry, WatchRequest},
    request::Query,
    types,
};

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    /// An object gets this label.
    Put {
        key: &'static str,
        label: &'static str,
    },
    Delete {
        key: &'static str,
    },
    Bookmark,
    /// Somebody begins to watch.
    Watch {
        namespace: &'static str,
        query: &'static str,
        from: From,
    },
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug)]
enum From {
    /// With the present state as additions.
    Now,
    /// With the present state and a bookmark after it.
    Stream,
    /// After a list that was made this many steps ago.
    Past(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    let key = || select(vec!["a/x", "a/y", "a/z", "b/x", "b/y"]);
    let label = select(vec!["red", "green", "blue"]);
    let namespace = select(vec!["", "a", "b"]);
    let query = select(vec![
        "",
        "labelSelector=color%3Dred",
        "labelSelector=color+in+(red,green)",
        "labelSelector=!color",
        "fieldSelector=metadata.name%3Dx",
        "fieldSelector=metadata.namespace!%3Da&labelSelector=color!%3Dblue",
    ]);
    let from =
        prop_oneof![Just(From::Now), Just(From::Stream), (0..20_usize).prop_map(From::Past),];
    prop_oneof![
        6 => (key(), label).prop_map(|(key, label)| Step::Put { key, label }),
        3 => key().prop_map(|key| Step::Delete { key }),
        1 => Just(Step::Bookmark),
        2 => (namespace, query, from)
            .prop_map(|(namespace, query, from)| Step::Watch { namespace, query, from }),
    ]
}

/// What a client knows: objects by key.
type Known = BTreeMap<String, Value>;

struct World {
    store: Store,
    registry: Arc<Registry>,
    endpoint: Endpoint,
    user: UserInfo,
    warnings: Mutex<Vec<String>>,
    /// The state after each step.
    past: Vec<(Revision, Known)>,
}

/// Somebody who watches, and what they knew at the beginning.
struct Client {
    body: WatchBody,
    known: Known,
    what: String,
}

impl World {
    async fn new() -> Self {
        let store = Store::open(&StoreUrl::Memory).await.unwrap();
        let registry = Registry::open(store.clone(), types::all()).await.unwrap();
        let endpoint = registry.endpoint("", "v1", "configmaps").unwrap();
        let (user, warnings) = (UserInfo::default(), Mutex::default());
        Self { store, registry, endpoint, user, warnings, past: Vec::new() }
    }

    async fn write(&self, key: &str, op: WriteOp) {
        let collection = &self.endpoint.collection;
        let expect = collection.get(key).map_or(Expect::Absent, |o| Expect::At(o.revision));
        if matches!((&op, expect), (WriteOp::Delete, Expect::Absent)) {
            return;
        }
        let key = format!("{}{key}", collection.prefix).into();
        self.store.write(Write { key, expect, op }).await.unwrap();
    }

    async fn put(&self, key: &str, label: &str) {
        let (namespace, name) = key.split_once('/').unwrap();
        let labels = json!({"color": label});
        let metadata = json!({"name": name, "namespace": namespace, "labels": labels});
        let value = self.endpoint.collection.codec.encode(&mut json!({"metadata": metadata}));
        self.write(key, WriteOp::Put { value, ttl: None }).await;
    }

    fn call<'a>(&'a self, namespace: &'a str) -> Call<'a> {
        let (user, endpoint, warnings) = (&self.user, &self.endpoint, &self.warnings);
        let (name, manager) = ("", "");
        Call { user, endpoint, namespace, name, subresource: None, manager, warnings }
    }

    async fn list(&self, namespace: &str, query: &str) -> Known {
        let options = ListOptions::parse(&Query::new(Some(query)), false).unwrap();
        let list = self.registry.list(&self.call(namespace), &options).await.unwrap();
        list.objects.iter().map(|object| (object.key.to_string(), object.value())).collect()
    }

    async fn watch(&self, namespace: &str, query: &str, from: From) -> Client {
        let (known, rest) = match from {
            From::Now => (Known::new(), String::new()),
            From::Stream => (
                Known::new(),
                "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                 &allowWatchBookmarks=true"
                    .to_owned(),
            ),
            From::Past(steps) => {
                let at = self.past.len().saturating_sub(steps + 1);
                let (revision, state) = self.past[at].clone();
                let options = ListOptions::parse(&Query::new(Some(query)), false).unwrap();
                (self.selected(state, namespace, &options), format!("&resourceVersion={revision}"))
            }
        };
        let options = ListOptions::parse(&Query::new(Some(&format!("{query}{rest}"))), true);
        let options = options.unwrap();
        let call = self.call(namespace);
        let start = self.registry.watch(&WatchRequest { call: &call, options: &options }).await;
        let presentation = Presentation {
            endpoint: self.endpoint.clone(),
            accepted: negotiate::response(&HeaderMap::new(), &[Shape::Object]).unwrap(),
            include: IncludeObject::Metadata,
            pretty: false,
        };
        let timeout = Duration::from_secs(600);
        let parts = WatchParts { start: start.unwrap(), presentation, options, timeout };
        Client { body: WatchBody::new(parts), known, what: format!("{namespace} {query} {from:?}") }
    }

    fn selected(&self, state: Known, namespace: &str, options: &ListOptions) -> Known {
        let collection = &self.endpoint.collection;
        let selected = |key: &str, object: &Value| {
            let mut object = object.clone();
            let bytes = collection.codec.encode(&mut object);
            let object = collection.codec.decode(key.into(), &bytes, Revision(1)).unwrap();
            let inside = namespace.is_empty() || object.namespace() == namespace;
            inside && options.selects(&object, &collection.resource)
        };
        state.into_iter().filter(|(key, object)| selected(key, object)).collect()
    }
}

impl Client {
    /// Reads everything that was sent and checks each event against what is known.
    fn catch_up(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let mut newest = 0;
        while let Poll::Ready(Some(bytes)) = self.body.poll_chunk(&mut context) {
            for line in bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
                let event: Value = serde_json::from_slice(line).unwrap();
                let (kind, object) = (event["type"].as_str().unwrap(), &event["object"]);
                let meta = &object["metadata"];
                let revision: u64 = meta["resourceVersion"].as_str().unwrap().parse().unwrap();
                // The initial state comes in the order of its keys.
                let initial = newest == 0 && kind == "ADDED";
                let key = format!(
                    "{}/{}",
                    meta["namespace"].as_str().unwrap_or_default(),
                    meta["name"].as_str().unwrap_or_default()
                );
                let what = format!("{} got {kind} {key} at {revision}", self.what);
                match kind {
                    "ADDED" => assert!(self.known.insert(key, object.clone()).is_none(), "{what}"),
                    "MODIFIED" => {
                        assert!(self.known.insert(key, object.clone()).is_some(), "{what}")
                    }
                    "DELETED" => assert!(self.known.remove(&key).is_some(), "{what}"),
                    "BOOKMARK" => {}
                    other => panic!("{what}: {other}"),
                }
                if !initial {
                    assert!(revision >= newest, "{what} after {newest}");
                    newest = revision;
                }
            }
        }
    }
}

async fn run(steps: Vec<Step>) {
    let mut world = World::new().await;
    let mut clients = Vec::new();
    for step in steps {
        // A revision of zero would mean any state.
        let revision = world.registry.caught_up().await.unwrap();
        if revision > Revision(0) {
            world.past.push((revision, world.list("", "").await));
        }
        match step {
            Step::Put { key, label } => world.put(key, label).await,
            Step::Delete { key } => world.write(key, WriteOp::Delete).await,
            Step::Bookmark => world.endpoint.collection.bookmark(revision),
            Step::Watch { from: From::Past(_), .. } if world.past.is_empty() => {}
            Step::Watch { namespace, query, from } => {
                clients.push((world.watch(namespace, query, from).await, namespace, query));
            }
        }
    }
    world.registry.caught_up().await.unwrap();
    for (mut client, namespace, query) in clients {
        client.catch_up();
        assert_eq!(client.known, world.list(namespace, query).await, "{}", client.what);
    }
    assert_eq!(world.endpoint.collection.counts().1, 0, "watches that ended are forgotten");
}

proptest! {
    #[test]
    fn fuzz_watches_and_lists_agree(steps in proptest::collection::vec(any_step(), 0..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(steps));
    }
}

#[tokio::test]
async fn bookmarks_never_go_backwards() {
    let world = World::new().await;
    world.put("a/x", "red").await;
    world.registry.caught_up().await.unwrap();
    let mut client = world.watch("", "allowWatchBookmarks=true", From::Now).await;
    client.catch_up();
    world.put("a/x", "blue").await;
    let newest = world.registry.caught_up().await.unwrap();
    client.catch_up();
    world.endpoint.collection.bookmark(Revision(newest.0 - 1));
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Some(bytes)) = client.body.poll_chunk(&mut context) else { panic!("nothing") };
    let bookmark: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], newest.to_string());
}

#[tokio::test(start_paused = true)]
async fn a_watch_says_farewell_and_ends_in_time() {
    let world = World::new().await;
    world.put("a/x", "red").await;
    let query = "allowWatchBookmarks=true";
    let mut client = world.watch("", query, From::Now).await;
    client.catch_up();
    tokio::time::advance(Duration::from_secs(599)).await;
    let mut context = Context::from_waker(Waker::noop());
    let Poll::Ready(Some(bytes)) = client.body.poll_chunk(&mut context) else { panic!("nothing") };
    assert!(bytes.starts_with(b"{\"type\":\"BOOKMARK\""));
    assert!(client.body.poll_chunk(&mut context).is_pending());
    tokio::time::advance(Duration::from_secs(2)).await;
    assert!(matches!(client.body.poll_chunk(&mut context), Poll::Ready(None)));
    assert!(matches!(client.body.poll_chunk(&mut context), Poll::Ready(None)));
}
