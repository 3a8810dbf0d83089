//! Commands that stay: `get -w` and `wait`.

use anyhow::{Context, Result, ensure};
use lanyard_testkit::{Process, wait_until};
use lanyard_tests::{SOON, User};

use crate::{shop, without_ages};

#[test]
fn a_watch_sees_what_happens() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    let only_new = watching_from_now(admin, "only", "get cm -n shop --watch-only -o name")?;
    let all = watching(admin, "all", "get cm -n shop -w --output-watch-events", "prices")?;
    let one = watching(
        admin,
        "one",
        r#"get cm hours -n shop -w -o jsonpath='{.data.monday}{"\n"}'"#,
        "closed",
    )?;
    let labelled = watching(
        admin,
        "labelled",
        "get cm -n shop -w -l app=till --output-watch-events --no-headers",
        "prices",
    )?;

    admin.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: new, namespace: shop}}")?;
    admin.ok("label cm new -n shop app=till")?;
    admin.ok("label cm new -n shop app-")?;
    admin.ok(r#"patch cm hours -n shop --type merge -p '{"data":{"monday":"open"}}'"#)?;
    admin.ok("delete cm new -n shop")?;

    shows(
        &all,
        &[
            "EVENT NAME DATA AGE",
            "ADDED hours 1 -",
            "ADDED prices 2 -",
            "ADDED new 0 -",
            "MODIFIED new 0 -",
            "MODIFIED new 0 -",
            "MODIFIED hours 1 -",
            "DELETED new 0 -",
        ],
    )?;
    let new = "configmap/new";
    shows(&only_new, &[new, new, new, "configmap/hours", new])?;
    shows(&one, &["closed", "open"])?;
    shows(&labelled, &["ADDED prices 2 -", "ADDED new 0 -", "DELETED new 0 -"])
}

#[test]
fn wait_ends_when_it_should() -> Result<()> {
    let cluster = shop()?;
    let admin = &cluster.admin;
    admin.prints(
        "wait ns shop --for=jsonpath={.status.phase}=Active --timeout=30s",
        "namespace/shop condition met",
    )?;
    let late =
        admin.fails("wait cm prices -n shop --for=jsonpath={.data.late}=yes --timeout=1s")?;
    ensure!(late.contains("timed out waiting for the condition on configmaps/prices"), "{late}");

    let changed = admin
        .start("changed", "wait cm prices -n shop --for=jsonpath={.data.apple}=8 --timeout=60s")?;
    let deleted = admin.start("deleted", "wait cm hours -n shop --for=delete --timeout=60s")?;
    let created = admin.start("created", "wait cm later -n shop --for=create --timeout=60s")?;
    admin.ok(r#"patch cm prices -n shop --type merge -p '{"data":{"apple":"8"}}'"#)?;
    admin.ok("delete cm hours -n shop")?;
    admin.create("{apiVersion: v1, kind: ConfigMap, metadata: {name: later, namespace: shop}}")?;
    for mut waiting in [changed, deleted, created] {
        let status = wait_until("kubectl wait", SOON, || waiting.exited())?;
        ensure!(status.success(), "{status}: {}{}", waiting.stdout(), waiting.stderr());
    }
    Ok(())
}

/// Starts a watch that first shows what is there; ready once it printed `known`.
fn watching(user: &User, name: &str, line: &str, known: &str) -> Result<Process> {
    let mut watch = user.start(name, line)?;
    wait_until("kubectl to watch", SOON, || {
        watch.expect_running()?;
        Ok(watch.stdout().contains(known).then_some(()))
    })?;
    Ok(watch)
}

/// Starts a watch that shows only news; ready once it printed a change made for it.
fn watching_from_now(user: &User, name: &str, line: &str) -> Result<Process> {
    let mut watch = user.start(name, line)?;
    let manifest = "{apiVersion: v1, kind: ConfigMap, metadata: {name: first, namespace: shop}}";
    wait_until("kubectl to watch", SOON, || {
        watch.expect_running()?;
        user.create(manifest)?;
        user.ok("delete cm first -n shop")?;
        Ok(watch.stdout().contains("first").then_some(()))
    })?;
    Ok(watch)
}

/// Waits until a watch has printed exactly these lines, apart from what [`watching_from_now`] did.
fn shows(watch: &Process, expected: &[&str]) -> Result<()> {
    let expected = expected.join("\n");
    let mut printed = String::new();
    let shown = wait_until("kubectl to print events", SOON, || {
        let lines = without_ages(&watch.stdout());
        let of_interest: Vec<_> = lines.lines().filter(|line| !line.ends_with("first")).collect();
        printed = of_interest.join("\n");
        Ok((printed == expected).then_some(()))
    });
    shown.with_context(|| format!("it printed:\n{printed}\nbut this was expected:\n{expected}"))
}
