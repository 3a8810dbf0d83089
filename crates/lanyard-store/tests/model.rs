//! Random operations, compared with a model that is too simple to be wrong.

use std::{collections::BTreeMap, sync::Arc};

use lanyard_store::{Error, Expect, RangeQuery, Revision, Store, StoreUrl};
use proptest::prelude::*;

mod common;
use common::*;

/// One step. Numbers are taken modulo what there is to choose from.
#[derive(Clone, Debug)]
enum Step {
    Create { key: usize, value: u8 },
    Update { key: usize, stale: bool, value: u8 },
    Delete { key: usize, stale: bool },
    Compact { back: u64 },
    Range { prefix: usize, start: Option<usize>, limit: Option<usize>, back: Option<u64> },
    Watch { prefix: usize, back: u64 },
    Reopen,
}

const KEYS: [&str; 6] = ["/a", "/a/b", "/a/bc", "/ab", "/b", "/b/c"];
const PREFIXES: [&str; 5] = ["", "/", "/a", "/a/", "/c"];

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = 0..KEYS.len();
    let prefix = 0..PREFIXES.len();
    let step = prop_oneof![
        4 => (key.clone(), any::<u8>()).prop_map(|(key, value)| Step::Create { key, value }),
        4 => (key.clone(), prop::bool::weighted(0.2), any::<u8>())
            .prop_map(|(key, stale, value)| Step::Update { key, stale, value }),
        2 => (key.clone(), prop::bool::weighted(0.2))
            .prop_map(|(key, stale)| Step::Delete { key, stale }),
        1 => (0..20u64).prop_map(|back| Step::Compact { back }),
        3 => (prefix.clone(), prop::option::of(key), prop::option::of(0..4usize),
            prop::option::of(0..20u64))
            .prop_map(|(prefix, start, limit, back)| Step::Range { prefix, start, limit, back }),
        2 => (prefix, 0..20u64).prop_map(|(prefix, back)| Step::Watch { prefix, back }),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..60)
}

/// Every change there ever was, and what was compacted.
#[derive(Default)]
struct Model {
    changes: Vec<(&'static str, Option<String>)>,
    oldest: u64,
}

impl Model {
    fn head(&self) -> u64 {
        self.changes.len() as u64
    }

    /// The state at a revision: value and revision by key.
    fn at(&self, revision: u64) -> BTreeMap<&'static str, (String, u64)> {
        let mut state = BTreeMap::new();
        for (n, (key, value)) in (1..).zip(&self.changes[..revision as usize]) {
            match value {
                Some(value) => drop(state.insert(*key, (value.clone(), n))),
                None => drop(state.remove(key)),
            }
        }
        state
    }

    fn current(&self, key: &str) -> Option<(String, u64)> {
        self.at(self.head()).remove(key)
    }

    /// The changes under a prefix after a revision, as text.
    fn story(&self, prefix: &str, after: u64) -> Vec<String> {
        let after = after as usize;
        let changes = self.changes[after..].iter().filter(|(key, _)| key.starts_with(prefix));
        changes
            .map(|(key, value)| match value {
                Some(value) => format!("{key}={value}"),
                None => format!("{key} gone"),
            })
            .collect()
    }
}

async fn run(url: &StoreUrl, steps: &[Step]) {
    let mut store = Store::open(url).await.unwrap();
    let mut model = Model::default();
    let mut watches: Vec<(Arc<Recorder>, lanyard_store::Watch, &str, u64)> = Vec::new();
    for step in steps {
        let head = model.head();
        match step.clone() {
            Step::Create { key, value } => {
                let result = put(&store, KEYS[key], Expect::Absent, &value.to_string()).await;
                settle(&mut model, key, result, None, Some(value.to_string()));
            }
            Step::Update { key, stale, value } => {
                let at = model.current(KEYS[key]).map_or(head + 7, |(_, at)| at) - u64::from(stale);
                let expect = Expect::At(Revision(at));
                let result = put(&store, KEYS[key], expect, &value.to_string()).await;
                settle(&mut model, key, result, Some(at), Some(value.to_string()));
            }
            Step::Delete { key, stale } => {
                let at = model.current(KEYS[key]).map_or(head + 7, |(_, at)| at) - u64::from(stale);
                let result = delete(&store, KEYS[key], Revision(at)).await;
                settle(&mut model, key, result, Some(at), None);
            }
            Step::Compact { back } => {
                let to = head.saturating_sub(back);
                store.compact(Revision(to)).await.unwrap();
                model.oldest = model.oldest.max(to);
            }
            Step::Range { prefix, start, limit, back } => {
                let prefix = PREFIXES[prefix];
                let start = start.map(|key| KEYS[key]).filter(|key| key.starts_with(prefix));
                check_range(&store, &model, prefix, start, limit, back).await;
            }
            Step::Watch { prefix, back } => {
                let after = head.saturating_sub(back);
                let recorder = Recorder::new();
                let prefix = PREFIXES[prefix];
                let watch = store.watch(prefix, Revision(after), recorder.clone()).await;
                match watch {
                    Ok(watch) => {
                        assert!(after + 1 >= model.oldest);
                        watches.push((recorder, watch, prefix, after));
                    }
                    Err(Error::Compacted { .. }) => assert!(after + 1 < model.oldest),
                    Err(error) => panic!("{error}"),
                }
            }
            Step::Reopen if matches!(url, StoreUrl::Embedded { .. }) => {
                check_watches(&model, &watches);
                watches.clear();
                store.close().await;
                store = Store::open(url).await.unwrap();
            }
            Step::Reopen => {}
        }
        assert_eq!(store.caught_up().await.unwrap(), Revision(model.head()));
    }
    check_watches(&model, &watches);
    check_range(&store, &model, "", None, None, None).await;
    store.close().await;
}

/// Checks the result of a write, and repeats it on the model.
fn settle(
    model: &mut Model,
    key: usize,
    result: lanyard_store::Result<Revision>,
    expected: Option<u64>,
    value: Option<String>,
) {
    let current = model.current(KEYS[key]);
    let holds = current.as_ref().map(|(_, at)| *at) == expected;
    match result {
        Ok(revision) => {
            assert!(holds, "{} was written", KEYS[key]);
            model.changes.push((KEYS[key], value));
            assert_eq!(revision, Revision(model.head()));
        }
        Err(Error::Conflict { current: found, .. }) => {
            assert!(!holds, "{} was refused", KEYS[key]);
            assert_eq!(found.map(|entry| (text(&entry.value), entry.revision.0)), current);
        }
        Err(error) => panic!("{error}"),
    }
}

async fn check_range(
    store: &Store,
    model: &Model,
    prefix: &str,
    start: Option<&str>,
    limit: Option<usize>,
    back: Option<u64>,
) {
    let at = back.map(|back| model.head().saturating_sub(back));
    let query = RangeQuery {
        prefix: prefix.to_owned(),
        start: start.map(str::to_owned),
        limit,
        at: at.map(Revision),
    };
    let range = match store.range(query).await {
        Ok(range) => range,
        Err(Error::Compacted { oldest, .. }) => {
            assert!(at.is_some_and(|at| at < model.oldest));
            return assert_eq!(oldest, Revision(model.oldest));
        }
        Err(error) => panic!("{error}"),
    };
    let at = at.unwrap_or(model.head());
    assert!(back.is_none() || at >= model.oldest);
    assert_eq!(range.revision, Revision(at));
    let mut expected: Vec<_> = model
        .at(at)
        .into_iter()
        .filter(|(key, _)| key.starts_with(prefix) && start.is_none_or(|start| *key >= start))
        .map(|(key, (value, at))| (key.to_owned(), value, at))
        .collect();
    let left_out = expected.len().saturating_sub(limit.unwrap_or(usize::MAX));
    expected.truncate(expected.len() - left_out);
    assert_eq!(range.remaining, left_out as u64);
    let found: Vec<_> = range
        .entries
        .iter()
        .map(|entry| (entry.key.to_string(), text(&entry.value), entry.revision.0))
        .collect();
    assert_eq!(found, expected);
}

fn check_watches(model: &Model, watches: &[(Arc<Recorder>, lanyard_store::Watch, &str, u64)]) {
    for (recorder, _, prefix, after) in watches {
        assert_eq!(recorder.story(), model.story(prefix, *after), "{prefix:?} after {after}");
        assert_eq!(recorder.seen().through, Revision(model.head()));
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_in_memory_does_what_the_model_does(steps in steps()) {
        runtime().block_on(run(&StoreUrl::Memory, &steps));
    }

    #[test]
    fn the_store_on_disk_does_what_the_model_does(steps in steps()) {
        let dir = tempfile::tempdir().unwrap();
        runtime().block_on(run(&StoreUrl::Embedded { dir: dir.path().to_owned() }, &steps));
    }
}
