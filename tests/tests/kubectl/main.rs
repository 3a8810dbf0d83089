//! A day with kubectl: the commands that people type, against the built binary, with what they print.

mod applying;
mod changing;
mod following;
mod imperative;
mod reading;
mod schemas;
mod server;
mod workloads;

use anyhow::{Result, ensure};
use lanyard_tests::{Cluster, User};

const SHOP: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: prices, namespace: shop, labels: {app: till, tier: front}}
data: {apple: '1', pear: '2'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: hours, namespace: shop, labels: {app: door}}
data: {monday: closed}
---
apiVersion: v1
kind: Secret
metadata: {name: safe, namespace: shop, labels: {app: till}}
type: Opaque
stringData: {code: '1234'}
";

/// A server with a shop in it.
fn shop() -> Result<Cluster> {
    let cluster = Cluster::start()?;
    let created = cluster.admin.create(SHOP)?;
    ensure!(created.lines().count() == 4, "{created}");
    Ok(cluster)
}

/// Compares a table, with ages replaced by a dash.
fn ages_hidden(user: &User, line: &str, expected: &str) -> Result<()> {
    let printed = without_ages(&user.ok(line)?);
    ensure!(
        printed == expected,
        "`{line}` printed:\n{printed}\nbut this was expected:\n{expected}"
    );
    Ok(())
}

fn without_ages(table: &str) -> String {
    let is_age = |word: &str| {
        let unit = word.ends_with(['s', 'm', 'h']);
        unit && word.starts_with(|c: char| c.is_ascii_digit())
    };
    let lines = table.lines().map(|line| {
        let words = line.split_whitespace().map(|word| if is_age(word) { "-" } else { word });
        words.collect::<Vec<_>>().join(" ")
    });
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}
