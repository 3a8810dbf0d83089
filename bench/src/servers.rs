//! The servers that are compared, and what the kernel says about their processes: CPU time and resident memory.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use lanyard_testkit::{Etcd, KubeApiserver, Kubeconfig, Lanyard};
use tokio::time::sleep;

use crate::client::{Call, Http, Target};

/// A server that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Ours on its embedded store.
    Lanyard,
    /// Ours on etcd.
    LanyardEtcd,
    /// kube-apiserver on etcd.
    Kube,
}

impl Kind {
    /// What the report calls it.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Kind::Lanyard => "lanyard",
            Kind::LanyardEtcd => "lanyard + etcd",
            Kind::Kube => "kube-apiserver + etcd",
        }
    }
}

/// A running server.
pub(crate) struct Server {
    /// How to reach it.
    pub(crate) target: Target,
    /// From exec to the first `ok` of `/readyz`.
    pub(crate) ready_after: Duration,
    /// The API server's process.
    pub(crate) api: Pid,
    /// Its store, where that is a process of its own.
    pub(crate) store: Option<Pid>,
    // Ends the processes when dropped.
    _fixture: Fixture,
}

enum Fixture {
    Lanyard(Lanyard, Option<Etcd>),
    Kube(KubeApiserver),
}

impl Server {
    /// Starts a server on an empty directory and times it until it is ready.
    pub(crate) async fn start(kind: Kind, http: Http) -> Result<Server> {
        let mut fixture = match kind {
            Kind::Lanyard => Fixture::Lanyard(Lanyard::setup().launch()?, None),
            Kind::LanyardEtcd => {
                let etcd = Etcd::start(1)?;
                let store = format!("etcd://{}", etcd.endpoints());
                let lanyard = Lanyard::setup().arg("--store").arg(store).launch()?;
                Fixture::Lanyard(lanyard, Some(etcd))
            }
            Kind::Kube => Fixture::Kube(KubeApiserver::launch(&[])?),
        };
        let (target, ready_after) = fixture.wait_ready(http).await?;
        let (api, store) = fixture.pids();
        Ok(Server { target, ready_after, api, store, _fixture: fixture })
    }

    /// What it has used so far.
    pub(crate) fn usage(&self) -> Result<Usage> {
        let store = self.store.map(Pid::cpu).transpose()?.unwrap_or_default();
        Ok(Usage { api: self.api.cpu()?, store, at: Instant::now(), machine: Machine::now()? })
    }
}

impl Fixture {
    /// Asks `/readyz` as often as it can without being a load itself.
    async fn wait_ready(&mut self, http: Http) -> Result<(Target, Duration)> {
        let started = match self {
            Fixture::Lanyard(server, _) => server.started(),
            Fixture::Kube(server) => server.started(),
        };
        loop {
            if let Ok(config) = self.kubeconfig() {
                let target = Target::new(&config, http)?;
                if is_ready(&target).await {
                    return Ok((target, started.elapsed()));
                }
            }
            match self {
                Fixture::Lanyard(server, _) => server.process().expect_running()?,
                Fixture::Kube(server) => server.apiserver().expect_running()?,
            }
            if started.elapsed() > READY_LIMIT {
                bail!("the server is not ready after {READY_LIMIT:?}");
            }
            sleep(READY_PAUSE).await;
        }
    }

    fn kubeconfig(&self) -> Result<Kubeconfig> {
        match self {
            Fixture::Lanyard(server, _) => server.kubeconfig(),
            Fixture::Kube(server) => server.kubeconfig(),
        }
    }

    fn pids(&mut self) -> (Pid, Option<Pid>) {
        let (api, etcd) = match self {
            Fixture::Lanyard(server, etcd) => (server.pid(), etcd.as_mut()),
            Fixture::Kube(server) => (server.apiserver().pid(), Some(server.etcd())),
        };
        (Pid(api), etcd.and_then(|etcd| etcd.pid(0)).map(Pid))
    }
}

async fn is_ready(target: &Target) -> bool {
    let Ok(mut connection) = target.connect().await else { return false };
    connection.expect(Call::get("/readyz")).await.is_ok()
}

/// A process to be looked at through `/proc`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pid(u32);

impl Pid {
    /// The load tool itself.
    fn this() -> Pid {
        Pid(std::process::id())
    }

    /// CPU time used so far, user and system, all threads.
    pub(crate) fn cpu(self) -> Result<Duration> {
        let path = format!("/proc/{}/stat", self.0);
        let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
        // The command name may hold anything, a parenthesis too: fields count from the last one (proc_pid_stat(5)).
        let fields: Vec<_> =
            stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let (user, system) =
            ticks(11).zip(ticks(12)).with_context(|| format!("{path} has no CPU times"))?;
        Ok(ticks_to_time(user + system))
    }

    /// Resident memory in bytes.
    pub(crate) fn rss(self) -> Result<u64> {
        self.status("VmRSS:")
    }

    /// The most resident memory there ever was, in bytes.
    pub(crate) fn peak_rss(self) -> Result<u64> {
        self.status("VmHWM:")
    }

    fn status(self, field: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.0);
        let status = fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        Ok(kib.with_context(|| format!("{path} has no {field}"))? << 10)
    }
}

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    api: Duration,
    store: Duration,
    at: Instant,
    machine: Machine,
}

/// What was used between two moments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Used {
    /// CPU time of the API server.
    pub(crate) api: Duration,
    /// CPU time of its store.
    pub(crate) store: Duration,
    /// CPU time of the load tool.
    pub(crate) tool: Duration,
    /// Wall-clock time.
    pub(crate) wall: Duration,
    /// The share of the machine that neither the servers nor the load tool used.
    pub(crate) others: f64,
}

impl Usage {
    /// What was used since `before`.
    pub(crate) fn since(&self, before: &Usage) -> Used {
        let (api, store) = (self.api - before.api, self.store - before.store);
        let tool = self.machine.tool - before.machine.tool;
        let busy = self.machine.busy.saturating_sub(before.machine.busy);
        let all = self.machine.all.saturating_sub(before.machine.all);
        let others =
            busy.saturating_sub(api + store + tool).as_secs_f64() / all.as_secs_f64().max(0.01);
        Used { api, store, tool, wall: self.at - before.at, others }
    }
}

/// CPU time of the whole machine and of the load tool.
#[derive(Clone, Copy, Debug)]
struct Machine {
    busy: Duration,
    all: Duration,
    tool: Duration,
}

impl Machine {
    fn now() -> Result<Machine> {
        let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line.split_whitespace().skip(1).flat_map(str::parse).collect();
        // user nice system idle iowait irq softirq steal (proc_stat(5)); guest time is within user.
        let [user, nice, system, idle, wait, irq, soft, steal, ..] = ticks[..] else {
            bail!("/proc/stat has no CPU times");
        };
        let busy = user + nice + system + irq + soft + steal;
        Ok(Machine {
            busy: ticks_to_time(busy),
            all: ticks_to_time(busy + idle + wait),
            tool: Pid::this().cpu()?,
        })
    }
}

/// Every Linux we run on counts in hundredths of a second (sysconf(_SC_CLK_TCK)).
fn ticks_to_time(ticks: u64) -> Duration {
    Duration::from_millis(ticks * 10)
}

const READY_LIMIT: Duration = Duration::from_secs(60);
const READY_PAUSE: Duration = Duration::from_millis(2);
