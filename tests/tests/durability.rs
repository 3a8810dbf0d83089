//! What was acknowledged is kept: across restarts, power cuts in the middle of writes, and shutdowns under load;
//! and a server that cannot keep anything says why instead of starting.

use std::collections::BTreeMap;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use lanyard_testkit::{Process, Program, wait_until};
use lanyard_tests::{Api, Cluster, SOON};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Every collection that a fresh server has something in, and the one that tests write to.
const COLLECTIONS: [&str; 5] = [
    "/api/v1/configmaps",
    "/api/v1/namespaces",
    "/api/v1/services",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
];

#[test]
fn a_restart_keeps_everything() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let mut api = cluster.api()?;
    let old = api.post(CONFIG_MAPS, &config_map("a", 0))?.version().to_owned();
    api.put(&format!("{CONFIG_MAPS}/a"), &config_map("a", 1))?.expect(200)?;
    api.post(CONFIG_MAPS, &config_map("b", 0))?.expect(201)?;
    api.delete(&format!("{CONFIG_MAPS}/b"), None)?.expect(200)?;
    let newest = api.get(CONFIG_MAPS)?.version().to_owned();
    let kubeconfig = fs::read_to_string(cluster.server.kubeconfig_path())?;
    let before = everything(&mut api)?;

    cluster.server.terminate()?;
    cluster.server.restart()?;
    let mut api = cluster.api()?;
    ensure!(everything(&mut api)? == before, "the restart changed something");
    ensure!(fs::read_to_string(cluster.server.kubeconfig_path())? == kubeconfig);

    // Who has seen everything goes on; who has not is told to list again.
    let watch = api.watch(&format!("{CONFIG_MAPS}?resourceVersion={newest}"))?;
    let written = api.post(CONFIG_MAPS, &config_map("c", 0))?;
    ensure!(number(written.version())? > number(&newest)?, "{} is not newer", written.version());
    ensure!(watch.next_name()? == ("ADDED".to_owned(), "c".to_owned()));
    let resumed =
        api.get(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={old}&timeoutSeconds=1"))?;
    match resumed.code {
        200 => {
            let seen: Vec<_> = resumed.text.lines().map(event_of).collect::<Result<_>>()?;
            let expected = [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "b"), ("ADDED", "c")];
            ensure!(seen.iter().map(|(kind, name)| (&**kind, &**name)).eq(expected), "{seen:?}");
        }
        _ => ensure!(resumed.expect(410)?["reason"] == "Expired"),
    }
    Ok(())
}

#[test]
fn a_power_cut_loses_nothing_that_was_acknowledged() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let mut known: Vec<Ledger> = (0..WRITERS).map(|_| Ledger::default()).collect();
    for round in 0..3 {
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let writers = start_writers(&cluster, known, &acknowledged)?;
        let enough = 300 + 97 * round;
        wait_until("writes to be acknowledged", SOON, || {
            Ok((acknowledged.load(Ordering::Relaxed) >= enough).then_some(()))
        })?;
        cluster.server.kill9()?;
        known = join(writers)?;
        cluster.server.restart()?;
        let mut api = cluster.api()?;
        for ledger in &mut known {
            ledger.compare(&mut api)?;
        }
        // Lists show what single reads show.
        let listed = api.get(CONFIG_MAPS)?.expect(200)?;
        let listed = listed["items"].as_array().map(Vec::len);
        let expected: usize = known.iter().map(|ledger| ledger.present()).sum();
        ensure!(listed == Some(expected), "{listed:?} listed, {expected} expected");
    }
    Ok(())
}

#[test]
fn a_shutdown_under_load_drains_and_loses_nothing() -> Result<()> {
    let mut cluster = Cluster::start()?;
    let watch = cluster.api()?.watch(CONFIG_MAPS)?;
    let mut idle = cluster.api()?;
    idle.get("/readyz")?.expect(200)?;
    let address = cluster.server.kubeconfig()?.server.replace("https://", "");
    let _silent = TcpStream::connect(address)?;
    let acknowledged = Arc::new(AtomicUsize::new(0));
    let fresh = (0..WRITERS).map(|_| Ledger::default()).collect();
    let writers = start_writers(&cluster, fresh, &acknowledged)?;
    wait_until("writes to be acknowledged", SOON, || {
        Ok((acknowledged.load(Ordering::Relaxed) >= 50).then_some(()))
    })?;

    let asked = Instant::now();
    cluster.server.terminate()?;
    // None of them is waited for: neither the watch, nor the idle, nor the silent peer.
    ensure!(asked.elapsed() < Duration::from_secs(8), "draining took {:?}", asked.elapsed());
    let seen = watch.rest()?;
    let mut known = join(writers)?;
    let total = acknowledged.load(Ordering::Relaxed);
    ensure!(seen.len() >= 50, "the watch saw {} of {total} writes", seen.len());

    cluster.server.restart()?;
    let mut api = cluster.api()?;
    for ledger in &mut known {
        ledger.compare(&mut api)?;
    }
    Ok(())
}

#[test]
fn a_second_server_on_the_directory_is_refused() -> Result<()> {
    let cluster = Cluster::start()?;
    let dir = cluster.server.data_dir();
    let (code, said) = cannot_start(&["--data-dir", &dir.display().to_string()])?;
    ensure!(code == Some(1), "{code:?}: {said}");
    ensure!(said.contains("in use") && said.contains(&dir.display().to_string()), "{said}");
    // The first one goes on.
    cluster.api()?.post(CONFIG_MAPS, &config_map("a", 0))?.expect(201)?;
    Ok(())
}

#[test]
fn a_server_that_cannot_start_says_why() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("file");
    fs::write(&file, "not a directory")?;
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let taken = taken.local_addr()?.to_string();
    let data = dir.path().join("data").display().to_string();
    let file = file.display().to_string();
    let cases: [(&[&str], i32, &[&str]); 6] = [
        (&["--data-dir", &file], 1, &["error:", &file]),
        // A place where not even root may write.
        (&["--data-dir", "/proc/lanyard"], 1, &["error:", "/proc/lanyard"]),
        (&["--data-dir", &data, "--listen", &taken], 1, &["error:", &taken, "in use"]),
        (&["--data-dir", &data, "--store", "nosuch://x"], 2, &["error:", "nosuch"]),
        (&["--data-dir", &data, "--listen", "nowhere"], 2, &["--listen", "nowhere"]),
        (&["--data-dir", &data, "--nonsense"], 2, &["--nonsense"]),
    ];
    for (args, expected, parts) in cases {
        let (code, said) = cannot_start(args)?;
        ensure!(code == Some(expected), "{args:?} ended with {code:?}: {said}");
        for part in parts {
            ensure!(said.contains(part), "{args:?} does not say {part:?}: {said}");
        }
    }
    Ok(())
}

/// How many writers work at once.
const WRITERS: usize = 8;

/// What one writer was promised, by name of its objects: nothing, or a step and its resource version.
#[derive(Default)]
struct Ledger {
    writer: usize,
    step: usize,
    promised: BTreeMap<String, Option<(usize, String)>>,
    /// The write that was under way at the end: it may have happened or not.
    open: Option<(String, Option<usize>)>,
}

impl Ledger {
    /// Writes until the server is gone; every answer is noted.
    fn write(mut self, mut api: Api, acknowledged: &AtomicUsize) -> Result<Ledger> {
        loop {
            self.step += 1;
            let name = format!("w{}-{}", self.writer, self.step % 7);
            let path = format!("{CONFIG_MAPS}/{name}");
            let object = config_map(&name, self.step);
            let there = self.promised.get(&name).is_some_and(Option::is_some);
            let deletes = there && self.step.is_multiple_of(3);
            self.open = Some((name.clone(), (!deletes).then_some(self.step)));
            let answer = match (there, deletes) {
                (false, _) => api.post(CONFIG_MAPS, &object),
                (true, false) => api.put(&path, &object),
                (true, true) => api.delete(&path, None),
            };
            // Any broken connection is the end; any answer other than success is a failure.
            let Ok(answer) = answer else { return Ok(self) };
            ensure!(answer.code < 300, "{name} got {}: {}", answer.code, answer.text);
            let version = answer.version().to_owned();
            self.promised.insert(name, (!deletes).then_some((self.step, version)));
            self.open = None;
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Compares every promise with what is there now.
    fn compare(&mut self, api: &mut Api) -> Result<()> {
        if let Some((name, outcome)) = self.open.take() {
            let found = read(api, &name)?;
            if found.as_ref().map(|(step, _)| *step) == outcome {
                self.promised.insert(name, found);
            }
        }
        for (name, promised) in &self.promised {
            let found = read(api, name)?;
            ensure!(found == *promised, "{name} is {found:?} but {promised:?} was promised");
        }
        Ok(())
    }

    fn present(&self) -> usize {
        self.promised.values().flatten().count()
    }
}

fn start_writers(
    cluster: &Cluster,
    ledgers: Vec<Ledger>,
    acknowledged: &Arc<AtomicUsize>,
) -> Result<Vec<JoinHandle<Result<Ledger>>>> {
    let start = |(writer, ledger): (usize, Ledger)| {
        let (api, acknowledged) = (cluster.api()?, acknowledged.clone());
        let ledger = Ledger { writer, ..ledger };
        Ok(thread::spawn(move || ledger.write(api, &acknowledged)))
    };
    ledgers.into_iter().enumerate().map(start).collect()
}

fn join(writers: Vec<JoinHandle<Result<Ledger>>>) -> Result<Vec<Ledger>> {
    let join = |writer: JoinHandle<Result<Ledger>>| {
        writer.join().map_err(|_| anyhow!("a writer panicked"))?
    };
    writers.into_iter().map(join).collect()
}

/// The step that an object holds and its version; an object whose parts do not fit together is an error.
fn read(api: &mut Api, name: &str) -> Result<Option<(usize, String)>> {
    let answer = api.get(&format!("{CONFIG_MAPS}/{name}"))?;
    if answer.code == 404 {
        return Ok(None);
    }
    let version = answer.version().to_owned();
    let object = answer.expect(200)?;
    let step = object.pointer("/metadata/labels/step").and_then(Value::as_str);
    let step: usize = step.context("an object without a step")?.parse()?;
    ensure!(object["data"] == config_map(name, step)["data"], "{name} is half-written: {object}");
    Ok(Some((step, version)))
}

fn config_map(name: &str, step: usize) -> Value {
    json!({
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"step": step.to_string()}},
        "data": {"text": format!("{name} {step} ").repeat(200)},
    })
}

fn everything(api: &mut Api) -> Result<Vec<Value>> {
    COLLECTIONS.iter().map(|path| Ok(api.get(path)?.expect(200)?["items"].clone())).collect()
}

fn number(version: &str) -> Result<u64> {
    version.parse().with_context(|| format!("{version:?} is no resource version"))
}

fn event_of(line: &str) -> Result<(String, String)> {
    let event: Value = serde_json::from_str(line)?;
    let text = |pointer| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    Ok((text("/type").to_owned(), text("/object/metadata/name").to_owned()))
}

/// Exit code and standard error of `lanyard serve` with arguments it cannot work with.
fn cannot_start(args: &[&str]) -> Result<(Option<i32>, String)> {
    let dir = tempfile::tempdir()?;
    let mut words = vec!["serve"];
    if !args.contains(&"--listen") {
        words.extend(["--listen", "127.0.0.1:0"]);
    }
    words.extend(args);
    let mut process = Process::spawn("refused", &Program::Lanyard.path()?, words, dir.path())?;
    let status = wait_until("lanyard to give up", SOON, || process.exited())?;
    Ok((status.code(), process.stderr()))
}
