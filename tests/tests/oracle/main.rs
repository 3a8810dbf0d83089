//! The oracle: one kube-apiserver and one Lanyard get the same requests and must give the same answers.
//!
//! What is asked is in `cases/*.http`, what may differ and why in `deviations.rs`. Everything else that
//! differs, after what must (uids, times, versions) is out of the way, is a defect. `./dev peers` runs it,
//! since it needs a kube-apiserver; `ORACLE=configmaps` restricts a run by hand to scripts of that name.

mod answer;
mod client;
mod compare;
mod deviations;
mod documents;
mod script;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use lanyard_testkit::{KubeApiserver, Lanyard};
use serde_json::Value;
use tokio::task::JoinSet;

use answer::Side;
use client::Client;
use compare::Difference;
use script::{Case, Script};

/// The script that is played once for each of [`types::ALL`].
const EVERY_TYPE: &str = "every_type";

/// The script that makes what others need, played before them.
const PRELUDE: &str = "prelude";

/// The script about versions of lists, played before others write.
const LISTS: &str = "lists";

/// What we serve and this kube-apiserver does not by default: kinds that it has but calls unfinished.
const FLAGS: &[&str] = &[
    "--feature-gates=ClusterTrustBundle=true",
    "--runtime-config=certificates.k8s.io/v1beta1=true",
];

/// What scripts are called that change what is discovered: they are played after the others.
const CUSTOM: &str = "custom";

#[test]
#[ignore = "needs kube-apiserver: run ./dev peers, or ./dev peers kube-apiserver and then this one"]
fn both_servers_give_the_same_answers() -> Result<()> {
    let theirs = KubeApiserver::start_with(FLAGS)?;
    let ours = Lanyard::start()?;
    let servers = Arc::new(Servers {
        theirs: Client::new(&theirs.kubeconfig()?)?,
        ours: Client::new(&ours.kubeconfig()?)?,
    });
    let wanted = env::var("ORACLE").unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut report = Report { complete: wanted.is_empty(), ..Report::default() };
    let (prelude, others): (Vec<_>, Vec<_>) = plays()?.into_iter().partition(|p| p.name == PRELUDE);
    let others = others.into_iter().filter(|play| play.name.contains(&wanted));
    let (lists, others): (Vec<_>, Vec<_>) = others.partition(|play| play.name == LISTS);
    let (custom, others) = others.into_iter().partition(|play| play.name.starts_with(CUSTOM));
    for plays in [prelude, lists, others, custom] {
        runtime.block_on(play_all(&servers, plays, &mut report))?;
    }
    if documents::NAME.contains(&wanted) {
        for (path, differences) in runtime.block_on(documents::differences(&servers))? {
            let id = format!("{}: {path}", documents::NAME);
            report.note(&id, &id, differences);
        }
    }
    report.verdict()
}

/// The two that are compared.
struct Servers {
    theirs: Client,
    ours: Client,
}

/// A script, to be played with some variables.
struct Play {
    name: String,
    script: Arc<Script>,
    variables: types::Variables,
}

/// Plays scripts side by side: most of their time is waiting for watches to end.
async fn play_all(servers: &Arc<Servers>, plays: Vec<Play>, report: &mut Report) -> Result<()> {
    let mut running = JoinSet::new();
    for (at, play) in plays.into_iter().enumerate() {
        let servers = servers.clone();
        running.spawn(async move { (at, play.run(&servers).await) });
    }
    let mut ended = BTreeMap::new();
    while let Some(play) = running.join_next().await {
        let (at, found) = play.context("a script")?;
        ended.insert(at, found?);
    }
    for (name, script, differences) in ended.into_values() {
        for (case, differences) in script.cases.iter().zip(differences) {
            report.add(&name, case, differences);
        }
    }
    Ok(())
}

impl Play {
    /// Sends the requests to both servers; the differences of each case.
    async fn run(self, servers: &Servers) -> Result<(String, Arc<Script>, Vec<Vec<Difference>>)> {
        let (mut theirs, mut ours) = (Side::new(), Side::new());
        let mut found = Vec::new();
        for case in &self.script.cases {
            let asked = tokio::join!(
                ask(&servers.theirs, &mut theirs, case, self.variables),
                ask(&servers.ours, &mut ours, case, self.variables)
            );
            let at = || format!("{}: {} (line {})", self.name, case.title, case.line);
            let (theirs, ours) = (asked.0.with_context(at)?, asked.1.with_context(at)?);
            found.push(compare::differences(theirs, ours, case.served_only));
        }
        Ok((self.name, self.script, found))
    }
}

/// Sends a request, and gives the answer with everything replaced that differs between servers.
async fn ask(
    client: &Client,
    side: &mut Side,
    case: &Case,
    fixed: types::Variables,
) -> Result<Value> {
    let request = case.filled(|name| {
        let fixed = fixed.iter().find(|(known, _)| *known == name);
        fixed.map(|(_, value)| (*value).to_owned()).or_else(|| side.saved(name))
    })?;
    let mut response = client.send(&request).await?;
    for _ in 0..100 {
        if case.until.is_none_or(|status| response.status == status) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        response = client.send(&request).await?;
    }
    if let Ok(body) = serde_json::from_slice::<Value>(&response.body) {
        for (name, pointer) in &case.saves {
            let found = body.pointer(pointer).and_then(Value::as_str);
            side.save(name, found.unwrap_or("missing"));
        }
    }
    side.answer(&response)
}

/// What differed, and which of the deviations were met.
#[derive(Default)]
struct Report {
    asked: usize,
    complete: bool,
    defects: BTreeMap<String, Vec<Difference>>,
    order: Vec<String>,
    met: BTreeSet<usize>,
}

impl Report {
    fn add(&mut self, script: &str, case: &Case, differences: Vec<Difference>) {
        let id = format!("{script}: {}", case.title);
        let heading = format!("{id} (line {}): {}", case.line, case.request_line());
        self.note(&id, &heading, differences);
    }

    /// Takes in how the answers to one request differ.
    fn note(&mut self, id: &str, heading: &str, differences: Vec<Difference>) {
        self.asked += 1;
        for difference in differences {
            match deviations::find(id, &difference) {
                Some(deviation) => {
                    self.met.insert(deviation);
                }
                None => {
                    if !self.defects.contains_key(heading) {
                        self.order.push(heading.to_owned());
                    }
                    self.defects.entry(heading.to_owned()).or_default().push(difference);
                }
            }
        }
    }

    /// Fails with everything that differs, and with every deviation that no longer happens.
    fn verdict(&self) -> Result<()> {
        let mut text = String::new();
        for heading in &self.order {
            writeln!(text, "{heading}")?;
            for difference in &self.defects[heading] {
                writeln!(text, "{difference}")?;
            }
        }
        if self.complete {
            for (at, deviation) in deviations::ALL.iter().enumerate() {
                if !self.met.contains(&at) {
                    writeln!(text, "no longer a deviation: {deviation:?}")?;
                }
            }
        }
        if text.is_empty() {
            return Ok(());
        }
        let (wrong, asked) = (self.defects.len(), self.asked);
        bail!("{wrong} of {asked} answers differ from kube-apiserver's:\n\n{text}");
    }
}

/// Every script with every set of variables that it is played with.
fn plays() -> Result<Vec<Play>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/cases");
    let mut paths = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
        paths.push(entry?.path());
    }
    paths.sort();
    let mut plays = Vec::new();
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let read = || anyhow::Ok(Script::parse(&fs::read_to_string(&path)?)?);
        let script = Arc::new(read().with_context(|| path.display().to_string())?);
        let sets: &[types::Variables] = if name == EVERY_TYPE { types::ALL } else { &[&[]] };
        plays.extend(sets.iter().map(|variables| Play {
            name: types::run_name(&name, variables),
            script: script.clone(),
            variables,
        }));
    }
    Ok(plays)
}
