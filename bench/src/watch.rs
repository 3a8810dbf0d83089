//! Watch fan-out: many watchers on one object, and the time from sending an update until the last of them has it.
//! Also what an idle watcher costs the server in memory. Every watcher must see every update, or the run fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::client::{Call, Connection};
use crate::rows::{COLLECTION, PAYLOAD, Random, configmap_named, percentile};
use crate::servers::{Server, Used};

/// How many watchers share how many connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    /// Open watches.
    pub(crate) watchers: usize,
    /// TLS connections that carry them.
    pub(crate) connections: usize,
}

impl Crowd {
    /// What the report calls it.
    pub(crate) fn title(&self) -> String {
        match self.connections == self.watchers {
            true => format!("{} watchers, a connection each", self.watchers),
            false => format!("{} watchers on {} connections", self.watchers, self.connections),
        }
    }
}

/// What a crowd of watchers showed.
#[derive(Clone, Debug)]
pub(crate) struct FanOut {
    /// How long it took to open all watches.
    pub(crate) opened_in: Duration,
    /// Resident memory of the API server that each watch added, in bytes.
    pub(crate) memory: f64,
    /// Time to the last watcher, one per update, sorted.
    last: Vec<Duration>,
    /// Time to the middle watcher, one per update, sorted.
    middle: Vec<Duration>,
    /// CPU and wall-clock time of all updates.
    used: Used,
    deliveries: usize,
}

impl FanOut {
    /// Time to the last watcher.
    pub(crate) fn last(&self, share: f64) -> Duration {
        percentile(&self.last, share)
    }

    /// Time to the middle watcher in the middle update.
    pub(crate) fn middle(&self) -> Duration {
        percentile(&self.middle, 0.5)
    }

    /// CPU time per event delivered: of API server and store, and of the load tool that reads it.
    pub(crate) fn cpu_per_event(&self) -> (Duration, Duration) {
        let deliveries = u32::try_from(self.deliveries.max(1)).unwrap_or(u32::MAX);
        ((self.used.api + self.used.store) / deliveries, self.used.tool / deliveries)
    }
}

/// Opens a crowd on an object of its own, updates that object, and closes the crowd.
pub(crate) async fn fan_out(server: &Server, crowd: Crowd, updates: usize) -> Result<FanOut> {
    let mut writer = Writer::new(server, &format!("watched-{}", crowd.connections)).await?;
    sleep(SETTLE).await;

    let memory_before = server.api.rss()?;
    let start = Instant::now();
    let arrivals = Arc::new(Arrivals::new(crowd.watchers));
    let mut watchers = open(server, crowd, &writer, &arrivals).await?;
    let opened_in = start.elapsed();
    sleep(SETTLE).await;
    let memory = server.api.rss()? as f64 - memory_before as f64;

    let (mut last, mut middle) = (Vec::new(), Vec::new());
    let before = server.usage()?;
    for _ in 0..updates {
        let sent = arrivals.expect_next();
        writer.update().await?;
        let times = timeout(NOTICE_LIMIT, arrivals.all_there(sent)).await;
        let Ok(times) = times else {
            bail!("{} of {} watchers saw the update", arrivals.count(), crowd.watchers);
        };
        last.push(percentile(&times, 1.0));
        middle.push(percentile(&times, 0.5));
        sleep(BETWEEN_UPDATES).await;
    }
    let used = server.usage()?.since(&before);
    if let Some(ended) = watchers.try_join_next() {
        ended.context("a watcher panicked")?.context("a watch ended early")?;
    }
    watchers.shutdown().await;
    last.sort_unstable();
    middle.sort_unstable();
    let memory = memory / crowd.watchers as f64;
    Ok(FanOut { opened_in, memory, last, middle, used, deliveries: updates * crowd.watchers })
}

/// The one that changes the watched object.
struct Writer {
    connection: Connection,
    name: String,
    version: u64,
    random: Random,
}

impl Writer {
    async fn new(server: &Server, name: &str) -> Result<Writer> {
        let mut connection = server.target.connect().await?;
        let mut random = Random::new(0);
        let body = configmap_named(name, None, &random.text(PAYLOAD));
        let version = connection.expect(Call::post(COLLECTION, body)).await?.resource_version()?;
        Ok(Writer { connection, name: name.to_owned(), version, random })
    }

    async fn update(&mut self) -> Result<()> {
        let body = configmap_named(&self.name, Some(self.version), &self.random.text(PAYLOAD));
        let call = Call::put(format!("{COLLECTION}/{}", self.name), body);
        self.version = self.connection.expect(call).await?.resource_version()?;
        Ok(())
    }

    fn watch(&self) -> Call {
        let (name, version) = (&self.name, self.version);
        Call::get(format!(
            "{COLLECTION}?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion={version}&timeoutSeconds=600"
        ))
    }
}

/// Opens all watches, a few connections at a time as a fleet of clients would.
async fn open(
    server: &Server,
    crowd: Crowd,
    writer: &Writer,
    arrivals: &Arc<Arrivals>,
) -> Result<JoinSet<Result<()>>> {
    let (mut watchers, mut opening) = (JoinSet::new(), JoinSet::new());
    let each = crowd.watchers / crowd.connections;
    let mut left = crowd.connections;
    while left > 0 || !opening.is_empty() {
        while left > 0 && opening.len() < OPEN_AT_ONCE {
            let target = server.target.clone();
            let calls: Vec<_> = (0..each).map(|_| writer.watch()).collect();
            opening.spawn(async move {
                let mut connection = target.connect().await?;
                let mut streams = Vec::with_capacity(calls.len());
                for call in calls {
                    streams.push(connection.open(call).await?);
                }
                anyhow::Ok((connection, streams))
            });
            left -= 1;
        }
        let Some(opened) = opening.join_next().await else { break };
        let (connection, streams) = opened.context("opening a watch panicked")??;
        // With HTTP/2 the connection closes when its last handle goes.
        let connection = Arc::new(connection);
        for stream in streams {
            let watcher = Watcher { number: watchers.len(), _connection: Arc::clone(&connection) };
            watchers.spawn(watcher.follow(stream, Arc::clone(arrivals)));
        }
    }
    Ok(watchers)
}

struct Watcher {
    number: usize,
    _connection: Arc<Connection>,
}

impl Watcher {
    /// Reads one watch until it ends, which it must not do while it is measured.
    async fn follow(self, mut stream: Incoming, arrivals: Arc<Arrivals>) -> Result<()> {
        let mut seen = 0;
        while let Some(frame) = stream.frame().await {
            let Ok(data) = frame.context("read an event")?.into_data() else { continue };
            // JSON escapes line ends, so each one in the stream closes an event.
            seen += data.iter().filter(|&&byte| byte == b'\n').count();
            if data.ends_with(b"\n") {
                arrivals.record(self.number, seen)?;
            }
        }
        bail!("the server closed a watch");
    }
}

/// When each watcher saw the update under way.
struct Arrivals {
    epoch: Instant,
    /// Updates sent so far, which is also how many events each watcher must have seen.
    round: AtomicUsize,
    times: Vec<AtomicU64>,
    count: AtomicUsize,
    complete: Notify,
}

impl Arrivals {
    fn new(watchers: usize) -> Arrivals {
        Arrivals {
            epoch: Instant::now(),
            round: AtomicUsize::new(0),
            times: (0..watchers).map(|_| AtomicU64::new(0)).collect(),
            count: AtomicUsize::new(0),
            complete: Notify::new(),
        }
    }

    /// Begins a new update; gives the moment from which arrivals are timed.
    fn expect_next(&self) -> Duration {
        self.count.store(0, Ordering::SeqCst);
        self.round.fetch_add(1, Ordering::SeqCst);
        self.epoch.elapsed()
    }

    fn record(&self, watcher: usize, seen: usize) -> Result<()> {
        let round = self.round.load(Ordering::SeqCst);
        if seen != round {
            bail!("a watcher has seen {seen} events of {round} updates");
        }
        let nanos = u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.times[watcher].store(nanos, Ordering::SeqCst);
        if self.count.fetch_add(1, Ordering::SeqCst) + 1 == self.times.len() {
            self.complete.notify_one();
        }
        Ok(())
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits for the last watcher; gives the time of each since `sent`, sorted.
    async fn all_there(&self, sent: Duration) -> Vec<Duration> {
        self.complete.notified().await;
        let mut times: Vec<_> = self
            .times
            .iter()
            .map(|nanos| Duration::from_nanos(nanos.load(Ordering::SeqCst)).saturating_sub(sent))
            .collect();
        times.sort_unstable();
        times
    }
}

/// Enough handshakes at once to keep both cores busy.
const OPEN_AT_ONCE: usize = 16;

/// For buffers of finished handshakes to be returned before memory is read.
const SETTLE: Duration = Duration::from_secs(2);

/// Updates do not meet each other.
const BETWEEN_UPDATES: Duration = Duration::from_millis(50);

/// Far more than any server here needs.
const NOTICE_LIMIT: Duration = Duration::from_secs(20);
