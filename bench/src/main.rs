//! The load tool behind `./dev bench`: starts each server itself on this machine, one after the other, puts the same
//! load on them and prints what they cost side by side. It measures; it does not tune either server.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool reports by printing"
)]

mod client;
mod report;
mod rows;
mod servers;
mod watch;

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use lanyard_testkit::workspace_root;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::{sleep, timeout};

use crate::client::{Call, Connection, Http};
use crate::report::{Memory, Report, Run};
use crate::rows::{CUSTOM_COLLECTION, DEFINITION, Load, NAMESPACE, Operation, ROWS, Row, Subject};
use crate::servers::{Kind, Server};
use crate::watch::{Crowd, fan_out};

/// Measures Lanyard beside the programs it is compared with.
#[derive(Parser)]
#[command(bin_name = "./dev bench", version)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The API server: requests, watch fan-out, start and memory, beside kube-apiserver and etcd.
    ///
    /// Example: ./dev bench api --quick --only lanyard
    Api(Options),
}

#[derive(clap::Args, Clone)]
struct Options {
    /// A look rather than a measurement: fewer objects, a second per row, one start.
    #[arg(long)]
    quick: bool,
    /// Measure only this server; may be repeated.
    #[arg(long, value_name = "SERVER")]
    only: Vec<Kind>,
    /// How many ConfigMaps of 4.1 KiB to work on.
    #[arg(long, default_value_t = 6000, value_parser = clap::value_parser!(u32).range(500..=100_000))]
    objects: u32,
    /// Seconds per row.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=120))]
    seconds: u64,
    /// How many watchers the fan-out has.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    watchers: u32,
    /// HTTP/1.1 with a connection per worker instead of HTTP/2 on eight connections.
    #[arg(long)]
    http1: bool,
    /// Leave the watch fan-out out.
    #[arg(long)]
    no_watch: bool,
    /// Only these rows, by the beginning of their name, for example `get`; creation always runs.
    #[arg(long, value_name = "NAME")]
    rows: Vec<String>,
    /// Write the report to bench/RESULTS.md too.
    #[arg(long)]
    record: bool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let Arguments { what: What::Api(options) } = Arguments::parse();
    let options = options.resolved();
    raise_file_limit()?;
    let mut runs = Vec::new();
    for &kind in &options.only {
        let run = timeout(RUN_LIMIT, measure(kind, &options)).await;
        runs.push(run.with_context(|| format!("{} took over {RUN_LIMIT:?}", kind.title()))??);
    }
    let report = Report::new(runs).to_string();
    println!("{report}");
    if options.record {
        let path = workspace_root().join("bench/RESULTS.md");
        fs::write(&path, report).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

impl Options {
    fn resolved(mut self) -> Options {
        if self.only.is_empty() {
            self.only = vec![Kind::Kube, Kind::Lanyard, Kind::LanyardEtcd];
        }
        if self.quick {
            self.objects = self.objects.min(1000);
            self.seconds = 1;
        }
        self
    }

    fn http(&self) -> Http {
        if self.http1 { Http::One } else { Http::Two }
    }

    fn wants(&self, row: &Row) -> bool {
        let title = row.title();
        row.operation == Operation::Create
            || self.rows.is_empty()
            || self.rows.iter().any(|name| title.starts_with(name.as_str()))
    }

    fn crowds(&self) -> Vec<Crowd> {
        let watchers = self.watchers as usize;
        let own = Crowd { watchers, connections: watchers };
        let shared = Crowd { watchers: watchers / 10 * 10, connections: 10 };
        match self.http() {
            _ if self.no_watch => Vec::new(),
            // A connection carries one request at a time.
            Http::One => vec![own],
            Http::Two => vec![own, shared],
        }
    }
}

/// Watch fan-out comes first: on a heap warmed by the load, what a watcher adds would not show.
/// Makes the custom kind and waits until it is served.
async fn define_custom(connection: &mut Connection) -> Result<()> {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    connection.expect(Call::post(definitions, DEFINITION.to_owned())).await?;
    for _ in 0..100 {
        if connection.expect(Call::get(CUSTOM_COLLECTION)).await.is_ok() {
            return Ok(());
        }
        sleep(Duration::from_millis(100)).await;
    }
    bail!("the custom kind is not served after ten seconds")
}

async fn measure(kind: Kind, options: &Options) -> Result<Run> {
    let name = kind.title();
    let (starts, idle, updates) = if options.quick { (1, 3, 10) } else { (5, 15, 30) };
    let mut ready = Vec::new();
    eprintln!("{name}: starting {starts} times");
    for _ in 1..starts {
        ready.push(Server::start(kind, options.http()).await?.ready_after);
    }
    let server = Server::start(kind, options.http()).await?;
    ready.push(server.ready_after);
    ready.sort_unstable();

    eprintln!("{name}: idle for {idle} s");
    sleep(Duration::from_secs(idle)).await;
    let memory_idle = Memory::of(&server)?;

    let namespace =
        format!(r#"{{"kind":"Namespace","apiVersion":"v1","metadata":{{"name":"{NAMESPACE}"}}}}"#);
    let mut connection = server.target.connect().await?;
    connection.expect(Call::post("/api/v1/namespaces", namespace)).await?;
    if ROWS.iter().any(|row| row.subject == Subject::Custom && options.wants(row)) {
        define_custom(&mut connection).await?;
    }
    drop(connection);

    let mut fan_outs = Vec::new();
    for crowd in options.crowds() {
        eprintln!("{name}: {}", crowd.title());
        fan_outs.push((crowd, fan_out(&server, crowd, updates).await?));
    }

    let load =
        Load::new(&server, options.objects as usize, Duration::from_secs(options.seconds)).await?;
    let mut rows = Vec::new();
    for row in ROWS.into_iter().filter(|row| options.wants(row)) {
        eprintln!("{name}: {}", row.title());
        rows.push((row, load.run(&server, row).await?));
    }
    let memory_loaded = Memory::of(&server)?;
    Ok(Run { kind, ready, memory_idle, memory_loaded, fan_outs, rows })
}

/// Each watcher with a connection of its own needs a file here and one in the server, which inherits the limit.
fn raise_file_limit() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    setrlimit(Resource::Nofile, raised).context("raise the limit on open files")
}

/// Twice what the slowest server needs with the defaults on two busy cores.
const RUN_LIMIT: Duration = Duration::from_secs(900);
