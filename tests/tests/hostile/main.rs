//! Hostile and broken clients against the built binary: the right Status or a closed connection, never a
//! crash, a hang or an answer of 500; bounded memory; nothing written; and the server goes on.

mod applies;
mod bodies;
mod objects;
mod peers;
mod requests;
mod watches;
mod wire;

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use lanyard_testkit::Lanyard;
use serde_json::Value;

use wire::{Answer, Peer};

/// A server under attack.
struct Target {
    lanyard: Lanyard,
    admin: Peer,
    before: Vec<String>,
    allowed_growth: u64,
}

/// How much memory an attack may cost beyond what a quiet server takes, in MiB. A debug build takes more
/// than the product; without limits the attacks here would take gigabytes.
const GROWTH: u64 = 256;

impl Target {
    async fn start() -> Result<Target> {
        Target::attack(Lanyard::start()?).await
    }

    async fn attack(lanyard: Lanyard) -> Result<Target> {
        let admin = Peer::admin(lanyard.kubeconfig()?)?;
        let before = objects_of(&admin).await?;
        Ok(Target { lanyard, admin, before, allowed_growth: GROWTH })
    }

    /// The attack is over: the server is there, answers, has written nothing, and ends in order.
    async fn survived(mut self) -> Result<()> {
        self.lanyard.process().expect_running()?;
        let health = self.admin.get("/readyz").await?;
        ensure!(health.code == 200, "not ready: {health:?}");
        let after = objects_of(&self.admin).await?;
        ensure!(after == self.before, "written: {after:?}");
        let (peak, log) = (memory(self.lanyard.pid(), "VmHWM")?, self.lanyard.log());
        ensure!(peak < 64 + self.allowed_growth, "took {peak} MiB");
        ensure!(!log.contains("panicked"), "panicked:\n{log}");
        ensure!(!log.contains("\"ERROR\""), "something broke:\n{log}");
        tokio::task::spawn_blocking(move || self.lanyard.terminate()).await?
    }
}

/// What went wrong in a table of attacks, so that one run tells all of it.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    /// The answer must have one of these codes.
    fn expect_code(&mut self, what: &str, answer: Result<Answer>, codes: &[u16]) {
        match answer {
            Ok(answer) if codes.contains(&answer.code) => {}
            Ok(answer) => self.0.push(format!("{what}: {} {}", answer.code, answer.shown())),
            Err(error) => self.0.push(format!("{what}: {error:#}")),
        }
    }

    /// The answer must be a Status with this code and reason.
    fn expect(&mut self, what: &str, answer: Result<Answer>, code: u16, reason: &str) {
        match answer {
            Ok(answer) if answer.code == code && answer.reason() == reason => {}
            Ok(answer) => self.0.push(format!("{what}: {} {}", answer.code, answer.shown())),
            Err(error) => self.0.push(format!("{what}: {error:#}")),
        }
    }

    /// It must not have taken longer than an attack may keep a server busy.
    fn expect_soon(&mut self, what: &str, started: Instant) {
        let took = started.elapsed();
        if took > BUSY_LIMIT {
            self.0.push(format!("{what}: took {took:?}"));
        }
    }

    fn none(self) -> Result<()> {
        ensure!(self.0.is_empty(), "{}", self.0.join("\n"));
        Ok(())
    }
}

/// How long one request may keep a server busy, on a busy machine with a debug build.
const BUSY_LIMIT: Duration = Duration::from_secs(15);

/// What an attack could have written: the names of everything that clients write.
async fn objects_of(admin: &Peer) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for target in [
        "/api/v1/namespaces",
        "/api/v1/configmaps",
        "/api/v1/secrets",
        "/api/v1/serviceaccounts",
        "/apis/rbac.authorization.k8s.io/v1/roles",
        "/apis/rbac.authorization.k8s.io/v1/rolebindings",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    ] {
        let list = admin.get(target).await?;
        ensure!(list.code == 200, "{target}: {list:?}");
        let list = list.json();
        let items = list["items"].as_array().context("a list without items")?;
        let text = |item: &Value, field: &str| item["metadata"][field].as_str().map(str::to_owned);
        let named = items.iter().map(|item| {
            let place = text(item, "namespace").unwrap_or_default();
            format!("{target}/{place}/{}", text(item, "name").unwrap_or_default())
        });
        // The server itself gives namespaces this account, a moment after they are there.
        names
            .extend(named.filter(|n| {
                !n.starts_with("/api/v1/serviceaccounts/") || !n.ends_with("/default")
            }));
    }
    Ok(names)
}

/// A figure of a process in MiB: `VmRSS` now, `VmHWM` at its highest.
fn memory(pid: u32, figure: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| path.clone())?;
    let line = status.lines().find(|line| line.starts_with(figure)).context(path)?;
    let kib: u64 = line.split_whitespace().nth(1).context("no figure")?.parse()?;
    Ok(kib >> 10)
}
