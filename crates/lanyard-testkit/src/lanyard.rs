//! The built `lanyard` binary, driven only through what it promises from outside: its command line, its
//! `admin.kubeconfig`, the line it prints when ready, and its exit code.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::kubeconfig::Kubeconfig;
use crate::kubectl::{Kubectl, Output};
use crate::process::Process;
use crate::programs::Program;
use crate::wait::wait_until;

/// A server on a data directory of its own.
#[derive(Debug)]
pub struct Lanyard {
    setup: Setup,
    process: Process,
    started: Instant,
    listen: String,
    kubectl: Option<Kubectl>,
    // Last, so that the process is gone before its directory is.
    home: TempDir,
}

impl Lanyard {
    /// `lanyard serve` on an empty directory, ready.
    pub fn start() -> Result<Lanyard> {
        Lanyard::setup().start()
    }

    /// To choose the command, its arguments or the directory.
    pub fn setup() -> Setup {
        Setup { command: "serve", args: Vec::new(), data_dir: None }
    }

    /// Waits for the line that says the server is ready.
    pub fn wait_ready(&mut self) -> Result<()> {
        let process = &mut self.process;
        wait_until("lanyard to be ready", READY_LIMIT, || {
            if process.stdout().contains('\n') {
                return Ok(Some(()));
            }
            process.expect_running().map(|()| None)
        })?;
        ensure!(
            self.kubeconfig_path().exists(),
            "lanyard says it is ready but wrote no {}",
            self.kubeconfig_path().display()
        );
        Ok(())
    }

    /// Runs kubectl as the administrator.
    pub fn kubectl(&mut self, args: &[&str]) -> Result<Output> {
        self.admin()?.run(args)
    }

    /// A kubectl that is the administrator of this server.
    pub fn admin(&mut self) -> Result<&Kubectl> {
        let path = self.kubeconfig_path();
        match &mut self.kubectl {
            Some(kubectl) => Ok(kubectl),
            none => Ok(none.insert(Kubectl::new(&path)?)),
        }
    }

    /// The administrator's credentials and the address.
    pub fn kubeconfig(&self) -> Result<Kubeconfig> {
        Kubeconfig::read(&self.kubeconfig_path())
    }

    /// The file the server wrote.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.data_dir().join("admin.kubeconfig")
    }

    /// The server's data directory.
    pub fn data_dir(&self) -> PathBuf {
        match &self.setup.data_dir {
            Some(chosen) => chosen.clone(),
            None => self.home.path().join("data"),
        }
    }

    /// The process id of the running server.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// When the binary was last started.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// The process, to stop or to watch it.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Ends the server as a power cut would.
    pub fn kill9(&mut self) -> Result<()> {
        self.process.kill9()
    }

    /// Starts the server again on the same directory and port, and waits until it is ready.
    pub fn restart(&mut self) -> Result<()> {
        self.listen = format!("127.0.0.1:{}", self.kubeconfig()?.port()?);
        self.process.kill9()?;
        self.started = Instant::now();
        self.process = launch(&self.setup, &self.listen, &self.data_dir(), self.home.path())?;
        self.wait_ready()
    }

    /// Asks the server to drain and end, which it must do in order.
    pub fn terminate(&mut self) -> Result<()> {
        let status = self.process.terminate(DRAIN_LIMIT)?;
        if !status.success() {
            bail!("lanyard ended with {status} after SIGTERM; its log:\n{}", self.log());
        }
        Ok(())
    }

    /// What the server logged since its first start.
    pub fn log(&self) -> String {
        self.process.stderr()
    }
}

/// How to start a [`Lanyard`].
#[derive(Clone, Debug)]
pub struct Setup {
    command: &'static str,
    args: Vec<OsString>,
    data_dir: Option<PathBuf>,
}

impl Setup {
    /// `up` instead of `serve`.
    pub fn up(mut self) -> Setup {
        self.command = "up";
        self
    }

    /// One more argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Setup {
        self.args.push(arg.into());
        self
    }

    /// A data directory that outlives the fixture, for what happens when two servers meet.
    pub fn data_dir(mut self, dir: &Path) -> Setup {
        self.data_dir = Some(dir.to_owned());
        self
    }

    /// Starts the server and waits until it is ready.
    pub fn start(self) -> Result<Lanyard> {
        let mut lanyard = self.launch()?;
        lanyard.wait_ready()?;
        Ok(lanyard)
    }

    /// Starts the server and returns at once, for what happens before it is ready.
    pub fn launch(self) -> Result<Lanyard> {
        let home = tempfile::Builder::new().prefix("lanyard-").tempdir();
        let home = home.context("make a directory for lanyard")?;
        let data_dir = self.data_dir.clone().unwrap_or_else(|| home.path().join("data"));
        let listen = "127.0.0.1:0".to_owned();
        let started = Instant::now();
        let process = launch(&self, &listen, &data_dir, home.path())?;
        Ok(Lanyard { setup: self, process, started, listen, kubectl: None, home })
    }
}

fn launch(setup: &Setup, listen: &str, data_dir: &Path, logs: &Path) -> Result<Process> {
    let mut args = vec![OsString::from(setup.command)];
    args.extend(["--data-dir".into(), data_dir.into(), "--listen".into(), listen.into()]);
    args.extend(setup.args.iter().cloned());
    Process::spawn("lanyard", &Program::Lanyard.path()?, args, logs)
}

/// A debug build under load on a busy machine; a healthy server needs a fraction of a second.
const READY_LIMIT: Duration = Duration::from_secs(30);

/// Longer than any drain the server itself allows.
const DRAIN_LIMIT: Duration = Duration::from_secs(60);
