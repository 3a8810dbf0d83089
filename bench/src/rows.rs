//! The request load: each row is one operation repeated in a closed loop by a number of workers for a set time,
//! over the same objects on every server. Every answer is checked; a row with a failed request is an error.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::task::JoinSet;

use crate::client::{Call, Connection};
use crate::servers::{Server, Used};

/// An operation of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// POST of a new object, until all are there.
    Create,
    /// GET of a random object.
    Get,
    /// PUT of a changed object with its current resource version.
    Update,
    /// Server-side apply of a changed object, which its manager owns.
    Apply,
    /// The first 500 objects.
    ListPage,
    /// All objects in one answer, consistent.
    ListAll,
    /// The first 500 objects as kubectl asks for them.
    ListTable,
    /// One object through a field selector, as an informer on one name lists.
    ListByName,
    /// DELETE, until all are gone or the time is up.
    Delete,
}

/// What kind of objects a row works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A built-in kind.
    ConfigMaps,
    /// A custom kind with the same payload in a field that its schema knows.
    Custom,
}

/// A line of the report before it is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// To what.
    pub(crate) subject: Subject,
    /// What is done.
    pub(crate) operation: Operation,
    /// By how many at a time.
    pub(crate) workers: usize,
}

impl Row {
    /// What the report calls it.
    pub(crate) fn title(&self) -> String {
        let what = match self.operation {
            Operation::Create => "create",
            Operation::Get => "get",
            Operation::Update => "update (PUT)",
            Operation::Apply => "apply (SSA)",
            Operation::ListPage => "list limit=500",
            Operation::ListAll => "list all",
            Operation::ListTable => "list limit=500 as Table",
            Operation::ListByName => "list by metadata.name",
            Operation::Delete => "delete",
        };
        let of = match self.subject {
            Subject::ConfigMaps => "",
            Subject::Custom => "custom ",
        };
        format!("{of}{what} c={}", self.workers)
    }

    /// The same row on objects of another kind.
    pub(crate) fn of(self, subject: Subject) -> Row {
        Row { subject, ..self }
    }
}

/// The rows in the order they are run: objects are made first and removed last.
pub(crate) const ROWS: [Row; 19] = {
    use Operation::*;
    const fn row(operation: Operation, workers: usize) -> Row {
        Row { subject: Subject::ConfigMaps, operation, workers }
    }
    const fn custom(operation: Operation, workers: usize) -> Row {
        Row { subject: Subject::Custom, operation, workers }
    }
    [
        row(Create, 16),
        row(Get, 1),
        row(Get, 16),
        row(Get, 64),
        row(Update, 1),
        row(Update, 16),
        row(Update, 64),
        row(Apply, 16),
        row(ListPage, 4),
        row(ListAll, 2),
        row(ListTable, 4),
        row(ListByName, 16),
        row(Delete, 16),
        custom(Create, 16),
        custom(Get, 16),
        custom(Update, 16),
        custom(Apply, 16),
        custom(ListPage, 4),
        custom(Delete, 16),
    ]
};

/// What a row showed.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// Answered requests.
    pub(crate) requests: usize,
    /// CPU and wall-clock time.
    pub(crate) used: Used,
    /// Bytes of all bodies.
    pub(crate) bytes: usize,
    /// Sorted.
    latencies: Vec<Duration>,
}

impl Measured {
    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.requests as f64 / self.used.wall.as_secs_f64()
    }

    /// The latency that a share of the requests kept to.
    pub(crate) fn latency(&self, share: f64) -> Duration {
        percentile(&self.latencies, share)
    }

    /// CPU time per request.
    pub(crate) fn cpu(&self) -> Cpu {
        let requests = u32::try_from(self.requests.max(1)).unwrap_or(u32::MAX);
        let Used { api, store, tool, .. } = self.used;
        Cpu { api: api / requests, store: store / requests, tool: tool / requests }
    }
}

/// Who spent how much on one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    /// The API server.
    pub(crate) api: Duration,
    /// Its store, where that is a process of its own.
    pub(crate) store: Duration,
    /// The load tool.
    pub(crate) tool: Duration,
}

/// The value that a share of the sorted values does not exceed.
pub(crate) fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// The objects that the load works on, and how it reaches them.
pub(crate) struct Load {
    seconds: Duration,
    connections: Vec<Connection>,
    /// Of both kinds of objects.
    versions: [Versions; 2],
}

/// The resource version that each object was last seen with.
type Versions = Arc<Vec<AtomicU64>>;

impl Load {
    /// Opens the connections.
    pub(crate) async fn new(server: &Server, objects: usize, seconds: Duration) -> Result<Load> {
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(server.target.connect().await?);
        }
        let versions = || Arc::new((0..objects).map(|_| AtomicU64::new(0)).collect());
        Ok(Load { seconds, connections, versions: [versions(), versions()] })
    }

    /// Runs one row.
    pub(crate) async fn run(&self, server: &Server, row: Row) -> Result<Measured> {
        let mut connections = Vec::new();
        for worker in 0..row.workers {
            connections.push(match self.connections[worker % CONNECTIONS].share() {
                Some(shared) => shared,
                None => server.target.connect().await?,
            });
        }
        let versions = &self.versions[row.subject as usize];
        let next = Arc::new(AtomicUsize::new(0));
        let before = server.usage()?;
        let deadline = Instant::now() + if row.finite() { FINITE_LIMIT } else { self.seconds };
        let mut workers = JoinSet::new();
        for (number, connection) in connections.into_iter().enumerate() {
            let (versions, next) = (Arc::clone(versions), Arc::clone(&next));
            let worker = Worker { row, number, connection, versions, next, deadline };
            workers.spawn(worker.run());
        }
        let (mut latencies, mut bytes) = (Vec::new(), 0);
        while let Some(done) = workers.join_next().await {
            let done = done.context("a worker panicked")?.with_context(|| row.title())?;
            latencies.extend(done.latencies);
            bytes += done.bytes;
        }
        let used = server.usage()?.since(&before);
        latencies.sort_unstable();
        if row.operation == Operation::Create && latencies.len() < versions.len() {
            bail!("only {} objects created within {FINITE_LIMIT:?}", latencies.len());
        }
        Ok(Measured { requests: latencies.len(), used, bytes, latencies })
    }
}

impl Row {
    /// Whether it ends when every object has been dealt with once.
    fn finite(&self) -> bool {
        matches!(self.operation, Operation::Create | Operation::Delete)
    }
}

struct Worker {
    row: Row,
    number: usize,
    connection: Connection,
    versions: Versions,
    /// The next object of a finite row, shared by its workers.
    next: Arc<AtomicUsize>,
    deadline: Instant,
}

#[derive(Default)]
struct Done {
    latencies: Vec<Duration>,
    bytes: usize,
}

impl Worker {
    async fn run(mut self) -> Result<Done> {
        let mut done = Done::default();
        let mut random = Random::new(self.number as u64);
        while Instant::now() < self.deadline {
            let Some(object) = self.pick(&mut random) else { break };
            let call = self.call(object, &mut random);
            let start = Instant::now();
            let answer = self.connection.expect(call).await?;
            done.latencies.push(start.elapsed());
            done.bytes += answer.size;
            if matches!(self.row.operation, Operation::Create | Operation::Update) {
                self.versions[object].store(answer.resource_version()?, Ordering::Relaxed);
            }
        }
        Ok(done)
    }

    /// The object of the next request; a finite row runs out of them.
    fn pick(&self, random: &mut Random) -> Option<usize> {
        let count = self.versions.len();
        if self.row.finite() {
            let next = self.next.fetch_add(1, Ordering::Relaxed);
            return (next < count).then_some(next);
        }
        if !matches!(self.row.operation, Operation::Update | Operation::Apply) {
            return Some(random.below(count));
        }
        // Each worker updates objects of its own, so that no update meets a version it does not know.
        let share = count.saturating_sub(self.number).div_ceil(self.row.workers);
        (share > 0).then(|| self.number + self.row.workers * random.below(share))
    }

    fn call(&self, object: usize, random: &mut Random) -> Call {
        let subject = self.row.subject;
        let collection = subject.collection();
        let path = || format!("{collection}/{}", name(object));
        let mut body = |version| subject.object(&name(object), version, &random.text(PAYLOAD));
        match self.row.operation {
            Operation::Create => Call::post(collection, body(None)),
            Operation::Get => Call::get(path()),
            Operation::Update => {
                let version = self.versions[object].load(Ordering::Relaxed);
                Call::put(path(), body(Some(version)))
            }
            Operation::Apply => {
                // What others wrote before is taken over the first time.
                let path = format!("{}?fieldManager=bench-apply&force=true", path());
                Call::apply(path, body(None))
            }
            Operation::ListPage => Call::get(format!("{collection}?limit=500")),
            Operation::ListAll => Call::get(collection),
            Operation::ListTable => Call::table(format!("{collection}?limit=500")),
            Operation::ListByName => {
                Call::get(format!("{collection}?fieldSelector=metadata.name%3D{}", name(object)))
            }
            Operation::Delete => Call::delete(path()),
        }
    }
}

/// Where the objects live.
pub(crate) const NAMESPACE: &str = "bench";
/// The collection of the built-in kind.
pub(crate) const COLLECTION: &str = "/api/v1/namespaces/bench/configmaps";
/// The collection of the custom kind.
pub(crate) const CUSTOM_COLLECTION: &str = "/apis/bench.example.com/v1/namespaces/bench/bundles";

/// The definition of the custom kind.
pub(crate) const DEFINITION: &str = r#"{
    "kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
    "metadata": {"name": "bundles.bench.example.com"},
    "spec": {
        "group": "bench.example.com", "scope": "Namespaced",
        "names": {"plural": "bundles", "singular": "bundle", "kind": "Bundle"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"data": {
                "type": "object", "additionalProperties": {"type": "string"}
            }}
        }}}]
    }
}"#;

impl Subject {
    fn collection(self) -> &'static str {
        match self {
            Self::ConfigMaps => COLLECTION,
            Self::Custom => CUSTOM_COLLECTION,
        }
    }

    /// An object with one value.
    fn object(self, name: &str, version: Option<u64>, payload: &str) -> String {
        let (kind, api_version) = match self {
            Self::ConfigMaps => ("ConfigMap", "v1"),
            Self::Custom => ("Bundle", "bench.example.com/v1"),
        };
        let version = version.map(|v| format!(r#","resourceVersion":"{v}""#)).unwrap_or_default();
        format!(
            r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{{"name":"{name}","namespace":"{NAMESPACE}"{version}}},"data":{{"bundle.pem":"{payload}"}}}}"#
        )
    }
}

fn name(object: usize) -> String {
    format!("object-{object:05}")
}

/// A ConfigMap with one value.
pub(crate) fn configmap_named(name: &str, version: Option<u64>, payload: &str) -> String {
    Subject::ConfigMaps.object(name, version, payload)
}

/// A small generator: the same bytes on every server, and nothing that compresses to nothing.
pub(crate) struct Random(u64);

impl Random {
    /// A stream of its own for each seed.
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Text that looks like base64.
    pub(crate) fn text(&mut self, length: usize) -> String {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = String::with_capacity(length + 10);
        while text.len() < length {
            let bits = self.next();
            text.extend((0..10).map(|i| char::from(LETTERS[(bits >> (6 * i)) as usize & 63])));
        }
        text.truncate(length);
        text
    }

    /// Marsaglia's xorshift64.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// 4.1 KiB, the size of a bundle of six P-256 roots.
pub(crate) const PAYLOAD: usize = 4198;

/// As many as a busy controller's client keeps.
const CONNECTIONS: usize = 8;

/// For rows that end by themselves; kube-apiserver needs about 6 s for 6000 objects on two cores.
const FINITE_LIMIT: Duration = Duration::from_secs(90);
