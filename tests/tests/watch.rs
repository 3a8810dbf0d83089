//! Followers: clients that keep a copy by listing once and watching from there, as informers do. Whatever happens
//! to the server, what they are told fits what they know, and their copy becomes the truth again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result, anyhow, bail, ensure};
use lanyard_testkit::wait_until;
use lanyard_tests::{Api, Cluster, SOON, Watch};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[test]
fn a_copy_stays_true_while_writers_write_and_servers_die() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let mut everything = Follower::start(&mut cluster.api()?, "")?;
    let mut even = Follower::start(&mut cluster.api()?, "labelSelector=parity%3Deven")?;
    for _ in 0..3 {
        let stop = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let (api, stop) = (cluster.api()?, stop.clone());
                Ok(thread::spawn(move || write(api, writer, &stop)))
            })
            .collect::<Result<_>>()?;
        everything.follow_some(&mut cluster.api()?, 200)?;
        even.follow_some(&mut cluster.api()?, 50)?;
        cluster.server.kill9()?;
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            writer.join().map_err(|_| anyhow!("a writer panicked"))?;
        }
        cluster.server.restart()?;
        let mut api = cluster.api()?;
        for follower in [&mut everything, &mut even] {
            follower.catch_up(&mut api)?;
        }
    }
    Ok(())
}

#[test]
fn a_watch_from_far_behind_catches_up_under_load() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    let start = api.post(CONFIG_MAPS, &json!({"metadata": {"name": "a"}}))?.version().to_owned();
    let change = |api: &mut Api, n: usize| {
        let patch = json!({"data": {"n": n.to_string(), "padding": "x".repeat(2000)}});
        api.merge(&format!("{CONFIG_MAPS}/a"), &patch)?.expect(200).map(drop)
    };
    for n in 0..1500 {
        change(&mut api, n)?;
    }
    let watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={start}"))?;
    for n in 1500..1600 {
        change(&mut api, n)?;
    }
    for n in 0..1600 {
        let event = watch.next()?;
        let found = text(&event, "/object/data/n")?;
        ensure!(found == n.to_string(), "{n} is expected, not {found}");
    }
    Ok(())
}

#[test]
fn a_websocket_brings_one_message_per_event() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    api.post(CONFIG_MAPS, &json!({"metadata": {"name": "a"}}))?.expect(201)?;
    let mut socket = api.websocket(&format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=5"))?;
    let mut next = || -> Result<Value> { Ok(serde_json::from_str(socket.read()?.to_text()?)?) };
    ensure!(text(&next()?, "/object/metadata/name")? == "a");
    api.post(CONFIG_MAPS, &json!({"metadata": {"name": "b"}}))?.expect(201)?;
    api.delete(&format!("{CONFIG_MAPS}/a"), None)?.expect(200)?;
    let (added, deleted) = (next()?, next()?);
    ensure!(text(&added, "/object/metadata/name")? == "b" && text(&added, "/type")? == "ADDED");
    ensure!(
        text(&deleted, "/object/metadata/name")? == "a" && text(&deleted, "/type")? == "DELETED"
    );
    ensure!(socket.read()?.is_close(), "the timeout ends it with a farewell");
    Ok(())
}

#[test]
fn the_initial_state_ends_with_a_bookmark() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    for name in ["a", "b", "c"] {
        api.post(CONFIG_MAPS, &json!({"metadata": {"name": name}}))?.expect(201)?;
    }
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let newest = api.get(CONFIG_MAPS)?.version().to_owned();
    let watch = api.watch(&format!("{CONFIG_MAPS}?{query}"))?;
    for name in ["a", "b", "c"] {
        ensure!(watch.next_name()? == ("ADDED".to_owned(), name.to_owned()));
    }
    let bookmark = watch.next()?;
    let meta = &bookmark["object"]["metadata"];
    ensure!(bookmark["type"] == "BOOKMARK", "{bookmark}");
    ensure!(meta["annotations"]["k8s.io/initial-events-end"] == "true", "{bookmark}");
    // The server's own loops may have written in between.
    let reached = number(text(&bookmark, "/object/metadata/resourceVersion")?)?;
    ensure!(reached >= number(&newest)?, "{bookmark}");
    api.delete(&format!("{CONFIG_MAPS}/b"), None)?.expect(200)?;
    ensure!(watch.next_name()? == ("DELETED".to_owned(), "b".to_owned()));
    Ok(())
}

#[test]
fn pages_of_a_list_show_one_moment() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    for n in 0..10 {
        let object = json!({"metadata": {"name": format!("item-{n}")}, "data": {"at": "first"}});
        api.post(CONFIG_MAPS, &object)?.expect(201)?;
    }
    let first = api.get(&format!("{CONFIG_MAPS}?limit=4"))?.expect(200)?;
    ensure!(first["metadata"]["remainingItemCount"] == 6, "{first}");
    // What happens between the pages is not in them.
    api.delete(&format!("{CONFIG_MAPS}/item-5"), None)?.expect(200)?;
    api.merge(&format!("{CONFIG_MAPS}/item-7"), &json!({"data": {"at": "later"}}))?.expect(200)?;
    api.post(CONFIG_MAPS, &json!({"metadata": {"name": "item-55"}}))?.expect(201)?;
    let mut seen = items(&first);
    let mut page = first.clone();
    while let Some(token) = page["metadata"]["continue"].as_str() {
        page = api.get(&format!("{CONFIG_MAPS}?limit=4&continue={token}"))?.expect(200)?;
        ensure!(page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]);
        seen.extend(items(&page));
    }
    let expected: Vec<_> = (0..10).map(|n| format!("item-{n} first")).collect();
    ensure!(seen == expected, "{seen:?}");
    Ok(())
}

/// A copy of what a selector takes, kept by a watch.
struct Follower {
    query: String,
    copy: BTreeMap<String, u64>,
    version: String,
    watch: Option<Watch>,
}

impl Follower {
    fn start(api: &mut Api, query: &str) -> Result<Follower> {
        let mut follower = Follower {
            query: query.to_owned(),
            copy: BTreeMap::new(),
            version: String::new(),
            watch: None,
        };
        follower.list(api)?;
        Ok(follower)
    }

    fn list(&mut self, api: &mut Api) -> Result<()> {
        let list = api.get(&format!("{CONFIG_MAPS}?{}", self.query))?.expect(200)?;
        self.copy = copy_of(&list)?;
        self.version = text(&list, "/metadata/resourceVersion")?.to_owned();
        Ok(())
    }

    /// Takes in that many events.
    fn follow_some(&mut self, api: &mut Api, count: usize) -> Result<()> {
        let watch = self.resume(api)?;
        for _ in 0..count {
            let event = watch.next()?;
            self.apply(&event)?;
        }
        self.watch = Some(watch);
        Ok(())
    }

    /// Goes on where it was, as clients do after their server was away, until the copy is the truth.
    fn catch_up(&mut self, api: &mut Api) -> Result<()> {
        // What had arrived before the end still counts.
        if let Some(watch) = self.watch.take() {
            for event in watch.rest()? {
                self.apply(&event)?;
            }
        }
        let watch = self.resume(api)?;
        let truth = api.get(&format!("{CONFIG_MAPS}?{}", self.query))?;
        let newest = number(truth.version())?;
        let truth = copy_of(&truth.expect(200)?)?;
        // A last change to see: whoever has seen it has seen everything.
        let mark = json!({"metadata": {"labels": {"parity": "even", "mark": newest.to_string()}}});
        let name = "mark";
        let marked = api.merge(&format!("{CONFIG_MAPS}/{name}"), &mark)?;
        if marked.code == 404 {
            let object = json!({"metadata": {"name": name, "labels": {"parity": "even"}}});
            api.post(CONFIG_MAPS, &object)?.expect(201)?;
        }
        wait_until("the copy to be complete", SOON, || {
            let event = watch.next()?;
            self.apply(&event)?;
            Ok((event.pointer("/object/metadata/name") == Some(&name.into())).then_some(()))
        })?;
        self.copy.remove(name);
        let truth: BTreeMap<_, _> = truth.into_iter().filter(|(key, _)| key != name).collect();
        ensure!(self.copy == truth, "the copy is {:?}\nthe truth is {truth:?}", self.copy);
        self.list(api)
    }

    fn resume(&mut self, api: &mut Api) -> Result<Watch> {
        let path =
            |version: &str, query: &str| format!("{CONFIG_MAPS}?resourceVersion={version}&{query}");
        match api.watch(&path(&self.version, &self.query)) {
            Ok(watch) => Ok(watch),
            Err(error) if format!("{error:#}").contains(" 410 ") => {
                self.list(api)?;
                api.watch(&path(&self.version, &self.query))
            }
            Err(error) => Err(error),
        }
    }

    /// Every event must fit what is known: nothing is added twice, changed or deleted before it was there.
    fn apply(&mut self, event: &Value) -> Result<()> {
        let name = text(event, "/object/metadata/name")?.to_owned();
        let version = number(text(event, "/object/metadata/resourceVersion")?)?;
        ensure!(version > number(&self.version)?, "{version} after {}: {event}", self.version);
        self.version = version.to_string();
        let known = match event["type"].as_str() {
            Some("ADDED") => self.copy.insert(name, version).is_none(),
            Some("MODIFIED") => self.copy.insert(name, version).is_some(),
            Some("DELETED") => self.copy.remove(&name).is_some(),
            _ => bail!("this is no change: {event}"),
        };
        ensure!(known, "this does not fit what came before: {event}");
        Ok(())
    }
}

/// Creates, relabels and deletes objects until the server is gone.
fn write(mut api: Api, writer: usize, stop: &AtomicBool) {
    for step in 0.. {
        let name = format!("w{writer}-{}", step % 5);
        let path = format!("{CONFIG_MAPS}/{name}");
        let parity = if step % 3 == 0 { "odd" } else { "even" };
        let labels = json!({"metadata": {"name": name, "labels": {"parity": parity}}, "data": {"step": step.to_string()}});
        let sent = match step % 4 {
            3 => api.delete(&path, None),
            _ => api.put(&path, &labels).and_then(|answer| match answer.code {
                404 => api.post(CONFIG_MAPS, &labels),
                _ => Ok(answer),
            }),
        };
        if sent.is_err() || stop.load(Ordering::Relaxed) {
            return;
        }
    }
}

fn copy_of(list: &Value) -> Result<BTreeMap<String, u64>> {
    let items = list["items"].as_array().context("a list without items")?;
    let entry = |item: &Value| {
        let version = number(text(item, "/metadata/resourceVersion")?)?;
        Ok((text(item, "/metadata/name")?.to_owned(), version))
    };
    items.iter().map(entry).collect()
}

fn items(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let brief = |item: &Value| {
        let text = |pointer| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        format!("{} {}", text("/metadata/name"), text("/data/at"))
    };
    items.iter().map(brief).collect()
}

fn text<'a>(value: &'a Value, pointer: &str) -> Result<&'a str> {
    value.pointer(pointer).and_then(Value::as_str).with_context(|| format!("no {pointer}: {value}"))
}

fn number(version: &str) -> Result<u64> {
    version.parse().with_context(|| format!("{version:?} is no resource version"))
}
