//! Runs a client program against a server of its own and keeps what the program found to work.
//!
//! The programs are the unmodified client libraries and tools of others, one directory of `peers/` each. A program
//! gets `KUBECONFIG`, and writes one JSON line per feature to the file that `PEER_RESULTS` names. Nothing is decided
//! by the program itself: this one compares the lines with the known gaps (`peers/gaps`) and fails when a feature
//! that should work does not, and when one that should not does.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command prints")]

mod features;
mod gaps;
mod matrix;
mod results;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use lanyard_testkit::{KubeApiserver, Lanyard, workspace_root};

use gaps::Gaps;
use results::{Client, Finding};

fn main() -> ExitCode {
    match command(env::args_os().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn command(words: Vec<OsString>) -> Result<()> {
    let texts: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    match texts.iter().map(AsRef::as_ref).collect::<Vec<_>>()[..] {
        ["run", client, version, _, ..] => {
            run(&Client { client: client.to_owned(), version: version.to_owned() }, &words[3..])
        }
        ["matrix"] => {
            let records = results::all(&results_dir())?;
            Gaps::read(&root("peers/gaps"))?.all_tried(&records)?;
            matrix::write(&records, &root("docs/compatibility.md"))
        }
        _ => bail!("{USAGE}"),
    }
}

/// Runs one client, and keeps its results when they are as they should be.
fn run(client: &Client, program: &[OsString]) -> Result<()> {
    let server = Server::start()?;
    let findings = server.findings(client, program)?;
    for finding in &findings {
        println!("{client}: {finding}");
    }
    let gaps = match server {
        // What does not work there is the fault of the program.
        Server::Theirs(_) => Gaps::default(),
        Server::Ours(_) => Gaps::read(&root("peers/gaps"))?,
    };
    gaps.judge(client, &findings)?;
    match server {
        Server::Theirs(_) => Ok(()),
        Server::Ours(_) => results::keep(&results_dir(), client, &part(program)?, &findings),
    }
}

/// What a client is run against.
enum Server {
    Ours(Lanyard),
    Theirs(KubeApiserver),
}

impl Server {
    /// The one that `PEER_SERVER` names; ours when it names none.
    fn start() -> Result<Server> {
        match env::var("PEER_SERVER").unwrap_or_default().as_str() {
            "" | "lanyard" => Ok(Server::Ours(Lanyard::start()?)),
            "kube-apiserver" => Ok(Server::Theirs(KubeApiserver::start_with(&[LIKE_OURS])?)),
            other => bail!("PEER_SERVER is lanyard or kube-apiserver, not {other}"),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Server::Ours(_) => "lanyard",
            Server::Theirs(_) => "kube-apiserver",
        }
    }

    fn kubeconfig(&self) -> PathBuf {
        match self {
            Server::Ours(server) => server.kubeconfig_path(),
            Server::Theirs(server) => server.kubeconfig_path(),
        }
    }

    /// Runs the program to its end and reads what it found.
    fn findings(&self, client: &Client, program: &[OsString]) -> Result<Vec<Finding>> {
        let scratch = tempfile::tempdir().context("make a directory for a client")?;
        let lines = scratch.path().join("results");
        fs::write(&lines, "").with_context(|| lines.display().to_string())?;
        let status = Command::new("timeout")
            .args(["--kill-after=10", TIME_LIMIT])
            .args(program)
            .env("KUBECONFIG", self.kubeconfig())
            .env("PEER_SERVER", self.name())
            .env("PEER_RESULTS", &lines)
            .env("HOME", scratch.path())
            .status()
            .with_context(|| format!("run the program of {client}"))?;
        let findings = results::read(&lines)?;
        if !status.success() {
            for finding in &findings {
                eprintln!("{client}: {finding}");
            }
            bail!("the program of {client} ended with {status}");
        }
        ensure!(!findings.is_empty(), "the program of {client} found nothing");
        Ok(findings)
    }
}

/// What tells the programs of one client apart: the directory that a program is in, and its name.
fn part(program: &[OsString]) -> Result<String> {
    let path = Path::new(program.first().context("name a program")?);
    let path = path.canonicalize().with_context(|| path.display().to_string())?;
    let names: Vec<_> = path.iter().rev().take(2).map(|name| name.to_string_lossy()).collect();
    Ok(names.join("-"))
}

fn root(path: impl AsRef<Path>) -> PathBuf {
    workspace_root().join(path)
}

fn results_dir() -> PathBuf {
    match env::var_os("PEER_RESULTS_DIR") {
        Some(chosen) => PathBuf::from(chosen),
        None => root(".cache/peers"),
    }
}

const USAGE: &str = "\
usage: lanyard-peers run CLIENT VERSION PROGRAM [ARGS]    one client against a fresh server
       lanyard-peers matrix                               docs/compatibility.md from what was found
PEER_SERVER=kube-apiserver runs against that instead and keeps nothing";

/// In seconds; the slowest client needs a fifth of it on an idle machine.
const TIME_LIMIT: &str = "600";

/// Ours has no controller that adds the account and the token of the programs that are run in pods.
const LIKE_OURS: &str = "--disable-admission-plugins=ServiceAccount";
