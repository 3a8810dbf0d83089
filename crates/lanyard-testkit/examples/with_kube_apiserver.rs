//! Runs a command with `KUBECONFIG` naming the administrator of a fresh kube-apiserver, which ends with the command:
//! `cargo run -p lanyard-testkit --example with_kube_apiserver -- kubectl api-resources`

use std::env;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use lanyard_testkit::KubeApiserver;

fn main() -> Result<ExitCode> {
    let mut words = env::args_os().skip(1);
    let program = words.next().context("name a command to run")?;
    let server = KubeApiserver::start()?;
    let status = Command::new(&program)
        .args(words)
        .env("KUBECONFIG", server.kubeconfig_path())
        .status()
        .with_context(|| format!("run {}", program.display()))?;
    Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)))
}
