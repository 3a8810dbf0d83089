//! The real kubectl with a home of its own: neither the user's kubeconfig nor a discovery cache of another
//! server can leak into a test, and no command runs for ever.

use std::env;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

use crate::process::{Process, dies_with_us, spawn};
use crate::programs::Program;
use crate::wait::wait_until;

/// A kubectl that talks to one server.
#[derive(Debug)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    home: TempDir,
}

impl Kubectl {
    /// The kubectl of `./dev setup`, with this kubeconfig.
    pub fn new(kubeconfig: &Path) -> Result<Kubectl> {
        Ok(Kubectl {
            program: Program::Kubectl.path()?,
            kubeconfig: kubeconfig.to_owned(),
            home: tempfile::tempdir().context("make a home for kubectl")?,
        })
    }

    /// Runs to the end.
    pub fn run(&self, args: &[&str]) -> Result<Output> {
        self.run_with_input(args, "")
    }

    /// Runs to the end with `input` as standard input, for `-f -`.
    pub fn run_with_input(&self, args: &[&str], input: &str) -> Result<Output> {
        let mut stdin = tempfile::tempfile_in(&self.home).context("make the input of kubectl")?;
        stdin.write_all(input.as_bytes()).context("write the input of kubectl")?;
        stdin.seek(SeekFrom::Start(0)).context("rewind the input of kubectl")?;
        // Files rather than pipes: no threads to read them, and no limit on what is written.
        let (stdout, stderr) = (self.scratch()?, self.scratch()?);
        let mut command = self.command(args);
        command.stdin(stdin).stdout(share(&stdout)?).stderr(share(&stderr)?);
        let mut child = spawn(command).context("start kubectl")?;

        let line = format!("kubectl {}", args.join(" "));
        let start = Instant::now();
        let status = wait_until(&format!("`{line}` to end"), TIME_LIMIT, || Ok(child.try_wait()?));
        let status = match status {
            Ok(status) => status,
            Err(late) => {
                let _ = child.kill();
                let _ = child.wait();
                bail!("{late:#}; it wrote:\n{}{}", text(stdout)?, text(stderr)?);
            }
        };
        Ok(Output {
            line,
            code: status.code().unwrap_or(-1),
            stdout: text(stdout)?,
            stderr: text(stderr)?,
            took: start.elapsed(),
        })
    }

    /// Starts one that runs until it is dropped, for `-w`; its output grows in [`Process::stdout`].
    pub fn start(&self, name: &str, args: &[&str]) -> Result<Process> {
        let dir = self.home.path().join(format!("run-{name}"));
        fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
        Process::spawn_command(name, self.command(args), &dir)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = dies_with_us(&self.program);
        command
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECACHEDIR", self.home.path().join("cache"))
            // `edit` must not wait for a person: this editor leaves the file as it is.
            .env("KUBE_EDITOR", "true")
            .current_dir(self.home.path())
            .args(args);
        command
    }

    fn scratch(&self) -> Result<File> {
        tempfile::tempfile_in(&self.home).context("make a file for the output of kubectl")
    }
}

/// What a finished kubectl left.
#[derive(Clone, Debug)]
pub struct Output {
    /// The command line, for messages.
    pub line: String,
    /// The exit code; -1 when a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

impl Output {
    /// Standard output of a command that must have succeeded.
    pub fn success(self) -> Result<String> {
        if self.code != 0 {
            bail!("`{}` ended with {}:\n{}{}", self.line, self.code, self.stdout, self.stderr);
        }
        Ok(self.stdout)
    }

    /// Standard error of a command that must have failed.
    pub fn failure(self) -> Result<String> {
        if self.code == 0 {
            bail!("`{}` succeeded but must not:\n{}{}", self.line, self.stdout, self.stderr);
        }
        Ok(self.stderr)
    }
}

/// `wait` and `delete` against a slow machine take seconds; anything longer hangs.
const TIME_LIMIT: Duration = Duration::from_secs(90);

fn share(file: &File) -> Result<File> {
    file.try_clone().context("share the output of kubectl")
}

fn text(mut file: File) -> Result<String> {
    file.seek(SeekFrom::Start(0)).context("rewind the output of kubectl")?;
    std::io::read_to_string(file).context("read the output of kubectl")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubectl(kubeconfig: &str) -> (TempDir, Kubectl) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        fs::write(&path, kubeconfig).unwrap();
        let kubectl = Kubectl::new(&path).unwrap();
        (dir, kubectl)
    }

    #[test]
    fn it_sees_only_its_own_kubeconfig() {
        let (_dir, kubectl) = kubectl(
            "{clusters: [{name: here, cluster: {server: 'https://127.0.0.1:1'}}], kind: Config, apiVersion: v1}",
        );
        let seen = kubectl.run(&["config", "get-clusters"]).unwrap().success().unwrap();
        assert_eq!(seen, "NAME\nhere\n");
    }

    #[test]
    fn a_failure_is_told_with_its_command() {
        let (_dir, kubectl) = kubectl("");
        let output = kubectl.run(&["no-such-command"]).unwrap();
        let told = output.clone().success().unwrap_err().to_string();
        assert!(told.starts_with("`kubectl no-such-command` ended with 1"), "{told}");
        assert!(output.failure().unwrap().contains("unknown command"));
    }

    #[test]
    fn input_reaches_it() {
        let (_dir, kubectl) = kubectl("");
        let args = ["label", "--local", "-f", "-", "a=b", "-o", "jsonpath={.metadata.labels.a}"];
        let object = "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}";
        assert_eq!(kubectl.run_with_input(&args, object).unwrap().success().unwrap(), "b");
    }
}
