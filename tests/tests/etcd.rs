//! Several servers on one etcd: one history whoever is asked, controllers that run once, and what happens when a
//! server, etcd or its old revisions go away.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use lanyard_testkit::{Etcd, Lanyard, wait_until};
use lanyard_tests::{Api, Cluster, SOON, copy_pki};
use serde_json::{Value, json};
use tempfile::TempDir;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Two servers with the same keys on one etcd.
struct Pair {
    a: Cluster,
    b: Cluster,
    etcd: Etcd,
    _dirs: TempDir,
}

impl Pair {
    fn start() -> Result<Pair> {
        let etcd = Etcd::start(1)?;
        let dirs = tempfile::tempdir()?;
        let (first, second) = (dirs.path().join("a"), dirs.path().join("b"));
        let start = |dir| {
            let url = format!("etcd://{}", etcd.endpoints());
            Cluster::of(Lanyard::setup().data_dir(dir).arg("--store").arg(url).start()?)
        };
        let a = start(&first)?;
        copy_pki(&first, &second)?;
        let b = start(&second)?;
        Ok(Pair { a, b, etcd, _dirs: dirs })
    }

    /// The server that runs the controllers, and the one that does not.
    fn leader_and_other(&mut self) -> Result<(&mut Cluster, &Cluster)> {
        wait_until("a leader", SOON, || Ok((leads(&self.a) || leads(&self.b)).then_some(())))?;
        ensure!(leads(&self.a) != leads(&self.b), "both servers lead");
        match leads(&self.a) {
            true => Ok((&mut self.a, &self.b)),
            false => Ok((&mut self.b, &self.a)),
        }
    }

    fn apis(&self) -> Result<[Api; 2]> {
        Ok([self.a.api()?, self.b.api()?])
    }
}

#[test]
fn what_one_server_wrote_the_other_reads() -> Result<()> {
    let pair = Pair::start()?;
    let [mut a, mut b] = pair.apis()?;
    let watch =
        b.watch(&format!("{CONFIG_MAPS}?resourceVersion={}", a.get(CONFIG_MAPS)?.version()))?;
    let mut expected = Vec::new();
    for n in 0..20 {
        // They take turns: each reads what the other has just written.
        std::mem::swap(&mut a, &mut b);
        let name = format!("item-{n}");
        let path = format!("{CONFIG_MAPS}/{name}");
        let created = a
            .post(CONFIG_MAPS, &json!({"metadata": {"name": name}, "data": {"n": "0"}}))?
            .expect(201)?;
        let read = b.get(&path)?.expect(200)?;
        ensure!(read == with_type(created.clone()), "{read}\n{created}");
        let changed = b.merge(&path, &json!({"data": {"n": "1"}}))?.expect(200)?;
        ensure!(a.get(CONFIG_MAPS)?.expect(200)?["items"][0]["data"]["n"] == "1");
        a.delete(&path, None)?.expect(200)?;
        b.get(&path)?.expect(404)?;
        let list = b.get(CONFIG_MAPS)?.expect(200)?;
        ensure!(list["items"] == json!([]), "{list}");
        expected.push(("ADDED", created["metadata"]["resourceVersion"].clone()));
        expected.push(("MODIFIED", changed["metadata"]["resourceVersion"].clone()));
        expected.push(("DELETED", Value::Null));
    }
    let mut last = 0;
    for (kind, version) in expected {
        let event = watch.next()?;
        let found = &event["object"]["metadata"]["resourceVersion"];
        ensure!(event["type"] == kind && (version.is_null() || *found == version), "{event}");
        let number = found.as_str().context("no version")?.parse::<u64>()?;
        ensure!(number > last, "{number} after {last}");
        last = number;
    }
    Ok(())
}

#[test]
fn writers_on_both_servers_do_not_overwrite_each_other() -> Result<()> {
    const EACH: usize = 15;
    let pair = Pair::start()?;
    let [mut a, mut b] = pair.apis()?;
    let created = [&mut a, &mut b].map(|api| {
        api.post(CONFIG_MAPS, &json!({"metadata": {"name": "count"}, "data": {"n": "0"}}))
    });
    let mut codes: Vec<_> =
        created.into_iter().map(|answer| Ok(answer?.code)).collect::<Result<_>>()?;
    codes.sort_unstable();
    ensure!(codes == [201, 409], "{codes:?}");

    let path = format!("{CONFIG_MAPS}/count");
    let count = |mut api: Api| {
        let path = path.clone();
        thread::spawn(move || -> Result<()> {
            for _ in 0..EACH {
                loop {
                    let mut object = api.get(&path)?.expect(200)?;
                    let n: usize = object["data"]["n"].as_str().context("no count")?.parse()?;
                    object["data"]["n"] = (n + 1).to_string().into();
                    match api.put(&path, &object)? {
                        answer if answer.code == 409 => {}
                        answer => break drop(answer.expect(200)?),
                    }
                }
            }
            Ok(())
        })
    };
    let writers: Vec<_> = [pair.a.api()?, pair.b.api()?, pair.a.api()?, pair.b.api()?]
        .into_iter()
        .map(count)
        .collect();
    for writer in writers {
        writer.join().map_err(|_| anyhow!("a writer panicked"))??;
    }
    let total = (4 * EACH).to_string();
    ensure!(a.get(&path)?.expect(200)?["data"]["n"] == total.as_str());
    ensure!(b.get(&path)?.expect(200)?["data"]["n"] == total.as_str());
    Ok(())
}

#[test]
fn identities_and_rights_hold_on_both_servers() -> Result<()> {
    let pair = Pair::start()?;
    pair.a.admin.create(
        "
{apiVersion: v1, kind: List, items: [
  {apiVersion: v1, kind: ServiceAccount, metadata: {name: robot, namespace: default}},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: reader, namespace: default}, rules: [{apiGroups: [''], resources: [configmaps], verbs: [list]}]},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: robot, namespace: default},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader},
   subjects: [{kind: ServiceAccount, name: robot, namespace: default}]},
]}",
    )?;
    let token = pair.a.account_token("default", "robot")?;
    let mut robot = pair.b.bearer(&token)?;
    let mut becomes = |code: u16| {
        wait_until(&format!("the other server to answer {code}"), SOON, || {
            Ok((robot.get(CONFIG_MAPS)?.code == code).then_some(()))
        })
    };
    becomes(200)?;
    pair.a.admin.ok("delete rolebinding robot")?;
    becomes(403)?;
    pair.a.admin.ok("delete sa robot")?;
    becomes(401)
}

#[test]
fn controllers_run_once_and_move_when_their_server_dies() -> Result<()> {
    let mut pair = Pair::start()?;
    let (leader, other) = pair.leader_and_other()?;
    let first = lease(other)?;
    ensure!(first["leaseTransitions"] == 0, "{first}");
    ensure!(first["holderIdentity"] == lease(leader)?["holderIdentity"], "two leases");
    // What the other server is asked to delete, the leader deletes.
    create_namespace(other, "town")?;
    other.admin.prints("delete ns town --timeout=30s", r#"namespace "town" deleted"#)?;

    create_namespace(other, "city")?;
    leader.server.kill9()?;
    other.admin.prints("delete ns city --timeout=60s", r#"namespace "city" deleted"#)?;
    let second = lease(other)?;
    ensure!(second["leaseTransitions"] == 1, "{second}");
    ensure!(second["holderIdentity"] != first["holderIdentity"], "{second}");
    // The dead one comes back as a follower.
    leader.server.restart()?;
    ensure!(lease(leader)?["holderIdentity"] == second["holderIdentity"]);
    Ok(())
}

#[test]
fn a_server_that_stops_hands_its_controllers_over() -> Result<()> {
    let mut pair = Pair::start()?;
    let (leader, other) = pair.leader_and_other()?;
    leader.server.terminate()?;
    // Nobody waits for the 15 seconds that a lease lasts.
    wait_until("the other server to lead", Duration::from_secs(10), || {
        Ok(leads(other).then_some(()))
    })?;
    create_namespace(other, "town")?;
    other.admin.prints("delete ns town --timeout=30s", r#"namespace "town" deleted"#)
}

#[test]
fn a_restart_of_etcd_loses_and_repeats_nothing() -> Result<()> {
    let mut pair = Pair::start()?;
    let [mut a, b] = pair.apis()?;
    let watch =
        b.watch(&format!("{CONFIG_MAPS}?resourceVersion={}", a.get(CONFIG_MAPS)?.version()))?;
    let mut acknowledged = BTreeMap::new();
    for round in 0..3 {
        for n in 0..5 {
            let name = format!("r{round}-{n}");
            let answer = a.post(CONFIG_MAPS, &json!({"metadata": {"name": name}}))?;
            acknowledged.insert(number(answer.version())?, name);
            answer.expect(201)?;
        }
        pair.etcd.kill(0)?;
        if round == 0 {
            without_etcd(&mut a)?;
        }
        pair.etcd.launch(0)?;
        pair.etcd.wait_ready(0)?;
        wait_until("the servers to find etcd again", SOON, || {
            Ok((a.get(CONFIG_MAPS)?.code == 200).then_some(()))
        })?;
    }
    for (version, name) in &acknowledged {
        let mut event = watch.next()?;
        // A write that was refused may have happened all the same.
        if event["object"]["metadata"]["name"] == "lost" {
            event = watch.next()?;
        }
        let meta = &event["object"]["metadata"];
        let found = meta["resourceVersion"].as_str().unwrap_or_default();
        let same = meta["name"] == name.as_str() && number(found)? == *version;
        ensure!(event["type"] == "ADDED" && same, "{name} at {version} is expected, not {event}");
        a.get(&format!("{CONFIG_MAPS}/{name}"))?.expect(200)?;
    }
    Ok(())
}

#[test]
fn a_frozen_etcd_hangs_nobody_for_long() -> Result<()> {
    let mut pair = Pair::start()?;
    let mut a = pair.a.api()?;
    pair.etcd.freeze(0)?;
    let asked = std::time::Instant::now();
    let code = a.get(CONFIG_MAPS)?.code;
    ensure!(matches!(code, 503 | 504), "{code}");
    ensure!(asked.elapsed() < Duration::from_secs(30), "it took {:?}", asked.elapsed());
    a.get(&format!("{CONFIG_MAPS}?resourceVersion=0"))?.expect(200)?;
    ensure!(a.get("/readyz")?.code == 500, "ready without a store");
    pair.etcd.thaw(0)?;
    wait_until("the server to find etcd again", SOON, || {
        Ok((a.get(CONFIG_MAPS)?.code == 200 && a.get("/readyz")?.code == 200).then_some(()))
    })
}

#[test]
fn compacted_history_is_expired_on_every_server() -> Result<()> {
    let pair = Pair::start()?;
    let [mut a, mut b] = pair.apis()?;
    for n in 0..6 {
        a.post(CONFIG_MAPS, &json!({"metadata": {"name": format!("item-{n}")}}))?.expect(201)?;
    }
    let page = b.get(&format!("{CONFIG_MAPS}?limit=2"))?.expect(200)?;
    let old = page["metadata"]["resourceVersion"].as_str().context("no version")?.to_owned();
    let token = page["metadata"]["continue"].as_str().context("no token")?.to_owned();
    let watch = b.watch(&format!("{CONFIG_MAPS}?resourceVersion={old}"))?;
    a.delete(&format!("{CONFIG_MAPS}/item-3"), None)?.expect(200)?;
    // The page still shows what is gone by now.
    let rest = b.get(&format!("{CONFIG_MAPS}?limit=9&continue={token}"))?.expect(200)?;
    ensure!(names(&rest) == ["item-2", "item-3", "item-4", "item-5"], "{rest}");
    ensure!(rest["metadata"]["resourceVersion"] == old.as_str(), "{rest}");

    let newest = a.get(CONFIG_MAPS)?.version().to_owned();
    compact(&pair.etcd.endpoint(0), &newest)?;
    for api in [&mut a, &mut b] {
        let expired = api.get(&format!("{CONFIG_MAPS}?limit=9&continue={token}"))?.expect(410)?;
        ensure!(expired["reason"] == "Expired", "{expired}");
        let fresh = expired["metadata"]["continue"].as_str().context("no fresh token")?;
        let rest = api.get(&format!("{CONFIG_MAPS}?limit=9&continue={fresh}"))?.expect(200)?;
        ensure!(names(&rest) == ["item-2", "item-4", "item-5"], "{rest}");
        let exact =
            api.get(&format!("{CONFIG_MAPS}?resourceVersion={old}&resourceVersionMatch=Exact"))?;
        ensure!(exact.expect(410)?["reason"] == "Expired");
    }
    // An open watch does not notice.
    ensure!(watch.next_name()? == ("DELETED".to_owned(), "item-3".to_owned()));
    a.post(CONFIG_MAPS, &json!({"metadata": {"name": "item-9"}}))?.expect(201)?;
    ensure!(watch.next_name()? == ("ADDED".to_owned(), "item-9".to_owned()));
    Ok(())
}

/// Without etcd nothing can be promised, but what is known can be shown to those who ask for that.
fn without_etcd(api: &mut Api) -> Result<()> {
    let refused = api.post(CONFIG_MAPS, &json!({"metadata": {"name": "lost"}}))?;
    ensure!(matches!(refused.code, 503 | 504), "{}", refused.text);
    ensure!(matches!(api.get(CONFIG_MAPS)?.code, 503 | 504));
    ensure!(api.get("/readyz")?.code == 500, "ready without a store");
    api.get(&format!("{CONFIG_MAPS}?resourceVersion=0"))?.expect(200)?;
    api.get("/livez")?.expect(200)?;
    Ok(())
}

/// Lists omit what every item of a type has in common.
fn with_type(mut object: Value) -> Value {
    object["kind"] = "ConfigMap".into();
    object["apiVersion"] = "v1".into();
    object
}

/// Whether a server has ever led.
fn leads(cluster: &Cluster) -> bool {
    cluster.server.log().contains(r#""message":"leading""#)
}

fn lease(cluster: &Cluster) -> Result<Value> {
    Ok(cluster.admin.json("get lease lanyard-controllers -n kube-system")?["spec"].clone())
}

fn create_namespace(cluster: &Cluster, name: &str) -> Result<()> {
    let content = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": name}},
    ]});
    cluster.admin.create(&content.to_string()).map(drop)
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(|item| item["metadata"]["name"].as_str()).collect()
}

fn number(version: &str) -> Result<u64> {
    version.parse().with_context(|| format!("{version:?} is no resource version"))
}

/// Compacts etcd through its JSON gateway, as an operator's job would.
fn compact(endpoint: &str, revision: &str) -> Result<()> {
    let body = json!({"revision": revision, "physical": true}).to_string();
    let mut socket = TcpStream::connect(endpoint).context("connect to etcd")?;
    socket.set_read_timeout(Some(SOON)).context("set a timeout")?;
    let length = body.len();
    let head = format!(
        "POST /v3/kv/compaction HTTP/1.1\r\nHost: {endpoint}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    socket.write_all(format!("{head}{body}").as_bytes()).context("ask etcd")?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).context("hear from etcd")?;
    ensure!(answer.starts_with("HTTP/1.1 200"), "etcd does not compact: {answer}");
    Ok(())
}
