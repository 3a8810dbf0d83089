//! A child process that does not outlive the test: killed on drop, and by the kernel when the test process
//! dies without dropping anything. Output goes to files, so a chatty child never blocks on a full pipe.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};

use crate::wait::wait_until;

/// A running program and the files that hold what it wrote.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts `program`; its output goes to `NAME.out` and `NAME.err` in `dir`.
    ///
    /// Standard output begins anew with each start; standard error goes on, so that it tells the whole story.
    pub fn spawn(
        name: &str,
        program: &Path,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        dir: &Path,
    ) -> Result<Process> {
        let mut command = dies_with_us(program);
        command.args(args);
        Process::spawn_command(name, command, dir)
    }

    /// As [`Process::spawn`], for a command made with [`dies_with_us`].
    pub(crate) fn spawn_command(name: &str, mut command: Command, dir: &Path) -> Result<Process> {
        let stdout = dir.join(format!("{name}.out"));
        let stderr = dir.join(format!("{name}.err"));
        let create = |path: &Path| File::create(path).with_context(|| path.display().to_string());
        let errors = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&stderr)
            .with_context(|| stderr.display().to_string())?;
        command.stdout(create(&stdout)?).stderr(errors);
        let child = spawn(command).with_context(|| format!("start {name}"))?;
        Ok(Process { name: name.to_owned(), child, stdout, stderr })
    }

    /// The process id, for `/proc`.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, or `None` while it runs.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("wait for {}", self.name))
    }

    /// An error with the end of the log when the process is no longer there.
    pub fn expect_running(&mut self) -> Result<()> {
        match self.exited()? {
            None => Ok(()),
            Some(status) => {
                Err(anyhow!("{} ended with {status}; its log ends:\n{}", self.name, self.tail()))
            }
        }
    }

    /// Ends it at once, as a power cut would: no handler runs.
    pub fn kill9(&mut self) -> Result<()> {
        // Killing a process that has already ended is what we wanted anyway.
        let _ = self.child.kill();
        self.child.wait().with_context(|| format!("wait for {}", self.name))?;
        Ok(())
    }

    /// Sends SIGTERM and waits for the end.
    pub fn terminate(&mut self, within: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let what = format!("{} to end after SIGTERM", self.name);
        wait_until(&what, within, || self.exited())
            .with_context(|| format!("its log ends:\n{}", self.tail()))
    }

    /// Sends a signal, for example `Signal::STOP` to make it hang.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        let pid = pid.with_context(|| format!("{} has no process id", self.name))?;
        kill_process(pid, signal).with_context(|| format!("signal {}", self.name))
    }

    /// Standard output since the last start.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// Standard error of all starts.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    fn tail(&self) -> String {
        let log = self.stderr();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill9();
    }
}

/// A command whose process the kernel kills when this one ends.
///
/// `setpriv` sets the death signal and then becomes the program, so process id and exit code are the program's.
pub(crate) fn dies_with_us(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program).stdin(Stdio::null());
    command
}

/// Starts a command made with [`dies_with_us`].
///
/// The kernel sends the death signal when the *thread* that started the child ends. Test threads end long before a
/// fixture that several tests share, so one thread that lives as long as the process starts all children.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    static STARTER: OnceLock<Sender<Order>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in inbox {
                let _ = reply.send(command.spawn());
            }
        });
        orders
    });
    let (reply, child) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts programs has ended");
    starter.send((command, reply)).map_err(|_| gone())?;
    child.recv().map_err(|_| gone())?
}

type Order = (Command, Sender<io::Result<Child>>);

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// Enough to see why a server did not start.
const TAIL_LINES: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str) -> (tempfile::TempDir, Process) {
        let dir = tempfile::tempdir().unwrap();
        let process =
            Process::spawn("script", Path::new("/bin/sh"), ["-c", script], dir.path()).unwrap();
        (dir, process)
    }

    #[test]
    fn a_dropped_process_is_gone() {
        let (_dir, process) = start("sleep 600");
        let proc_entry = PathBuf::from(format!("/proc/{}", process.pid()));
        assert!(proc_entry.exists());
        drop(process);
        assert!(!proc_entry.exists());
    }

    #[test]
    fn a_process_outlives_the_thread_that_asked_for_it() {
        let (_dir, mut process) = thread::spawn(|| start("sleep 600")).join().unwrap();
        thread::sleep(Duration::from_millis(50));
        process.expect_running().unwrap();
    }

    #[test]
    fn an_early_end_is_reported_with_the_log() {
        let (_dir, mut process) = start("echo no such luck >&2; exit 7");
        let failure = wait_until::<()>("the script", Duration::from_secs(10), || {
            process.expect_running().map(|()| None)
        });
        let failure = format!("{:#}", failure.unwrap_err());
        assert!(
            failure.contains("exit status: 7") && failure.contains("no such luck"),
            "{failure}"
        );
    }

    #[test]
    fn terminate_gives_the_exit_status() {
        let (_dir, mut process) =
            start("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done");
        wait_until("ready", Duration::from_secs(10), || {
            Ok((process.stdout() == "ready\n").then_some(()))
        })
        .unwrap();
        assert!(process.terminate(Duration::from_secs(10)).unwrap().success());
    }
}
