//! A real etcd cluster of one or more members, each of which can be stopped, killed, frozen and
//! started again with the data it had.

use std::{
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::{Authority, Process, Program, wait_until};

/// Enough for a cluster on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An etcd cluster that ends with its owner.
#[derive(Debug)]
pub struct Etcd {
    members: Vec<Member>,
    scheme: &'static str,
    flags: Vec<String>,
    dir: TempDir,
}

#[derive(Debug)]
struct Member {
    name: String,
    client_port: u16,
    peer_port: u16,
    process: Option<Process>,
}

impl Etcd {
    /// Starts a cluster of `size` members, and waits until each serves clients.
    pub fn start(size: usize) -> Result<Self> {
        Self::start_with_flags(size, &[])
    }

    /// As [`Etcd::start`], with further flags for every member.
    pub fn start_with_flags(size: usize, flags: &[&str]) -> Result<Self> {
        Self::start_cluster("http", size, flags)
    }

    /// One member with TLS, which requires client certificates; see [`Etcd::path`].
    pub fn start_with_tls() -> Result<Self> {
        Self::start_cluster("https", 1, &[])
    }

    /// Starts a cluster, on other ports if somebody took one of them first.
    fn start_cluster(scheme: &'static str, size: usize, flags: &[&str]) -> Result<Self> {
        let mut attempts = 1;
        loop {
            match Self::try_start(scheme, size, flags) {
                Err(error) if attempts < 3 && format!("{error:#}").contains("already in use") => {
                    attempts += 1;
                }
                result => return result,
            }
        }
    }

    fn try_start(scheme: &'static str, size: usize, flags: &[&str]) -> Result<Self> {
        let dir = TempDir::new().context("make a directory for etcd")?;
        if scheme == "https" {
            write_certificates(dir.path())?;
        }
        let member = |n| {
            Ok(Member {
                name: format!("m{n}"),
                client_port: lasting_port()?,
                peer_port: lasting_port()?,
                process: None,
            })
        };
        let members = (0..size).map(member).collect::<Result<_>>()?;
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut etcd = Self { members, scheme, flags, dir };
        for member in 0..size {
            etcd.launch(member)?;
        }
        for member in 0..size {
            etcd.wait_ready(member)?;
        }
        Ok(etcd)
    }

    /// `host:port` of every member, separated by commas.
    pub fn endpoints(&self) -> String {
        let endpoints: Vec<_> = (0..self.members.len()).map(|n| self.endpoint(n)).collect();
        endpoints.join(",")
    }

    /// `host:port` of one member.
    pub fn endpoint(&self, member: usize) -> String {
        format!("127.0.0.1:{}", self.members[member].client_port)
    }

    /// A file of this cluster: with TLS there are `ca.crt`, `client.crt` and `client.key`.
    pub fn path(&self, file: &str) -> PathBuf {
        self.dir.path().join(file)
    }

    /// The process id of a running member, for `/proc`.
    pub fn pid(&self, member: usize) -> Option<u32> {
        self.members[member].process.as_ref().map(Process::pid)
    }

    /// Kills a member as a power cut would.
    pub fn kill(&mut self, member: usize) -> Result<()> {
        match self.members[member].process.take() {
            Some(mut process) => process.kill9(),
            None => Ok(()),
        }
    }

    /// Freezes a member: its connections stay open, but nothing answers.
    pub fn freeze(&mut self, member: usize) -> Result<()> {
        self.signal(member, Signal::STOP)
    }

    /// Lets a frozen member go on.
    pub fn thaw(&mut self, member: usize) -> Result<()> {
        self.signal(member, Signal::CONT)
    }

    /// Starts a killed member on the data it had; does not wait for it.
    pub fn launch(&mut self, member: usize) -> Result<()> {
        let args = self.args(member);
        let name = self.members[member].name.clone();
        let process = Process::spawn(&name, &Program::Etcd.path()?, args, self.dir.path())?;
        self.members[member].process = Some(process);
        Ok(())
    }

    /// Removes the data of a killed member.
    pub fn forget(&mut self, member: usize) -> Result<()> {
        let data = self.data_dir(member);
        std::fs::remove_dir_all(&data).with_context(|| data.display().to_string())
    }

    /// Waits until a member serves clients.
    pub fn wait_ready(&mut self, member: usize) -> Result<()> {
        let Member { name, client_port, process, .. } = &mut self.members[member];
        let process = process.as_mut().with_context(|| format!("{name} is not running"))?;
        // etcd listens for clients only after it has joined the cluster and has a leader.
        wait_until(&format!("etcd {name} to listen"), PATIENCE, || {
            process.expect_running()?;
            Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, *client_port)).ok().map(drop))
        })
    }

    fn signal(&mut self, member: usize, signal: Signal) -> Result<()> {
        let Member { name, process, .. } = &self.members[member];
        process.as_ref().with_context(|| format!("{name} is not running"))?.signal(signal)
    }

    fn data_dir(&self, member: usize) -> PathBuf {
        self.dir.path().join(format!("{}.data", self.members[member].name))
    }

    fn args(&self, member: usize) -> Vec<String> {
        let cluster: Vec<_> = self
            .members
            .iter()
            .map(|m| format!("{}=http://127.0.0.1:{}", m.name, m.peer_port))
            .collect();
        let Member { name, client_port, peer_port, .. } = &self.members[member];
        let (client, peer) = (
            format!("{}://127.0.0.1:{client_port}", self.scheme),
            format!("http://127.0.0.1:{peer_port}"),
        );
        let mut args = vec![
            format!("--name={name}"),
            format!("--data-dir={}", self.data_dir(member).display()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster={}", cluster.join(",")),
            // Quick elections, so that tests which kill leaders do not wait long.
            "--heartbeat-interval=50".to_owned(),
            "--election-timeout=500".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        args.extend_from_slice(&self.flags);
        if self.scheme == "https" {
            let file = |name: &str| self.path(name).display().to_string();
            args.extend([
                format!("--cert-file={}", file("server.crt")),
                format!("--key-file={}", file("server.key")),
                format!("--trusted-ca-file={}", file("ca.crt")),
                "--client-cert-auth".to_owned(),
            ]);
        }
        args
    }
}

/// A port that is still free when a killed member comes back: below those that the kernel gives to
/// outgoing connections, and not given to anybody else in this process.
fn lasting_port() -> Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (first, count) = (10_000, 22_000);
    // Processes that run at the same time begin far from each other.
    let begin = std::process::id().wrapping_mul(7919);
    for _ in 0..count {
        let number = begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % count;
        let port = u16::try_from(first + number).context("a port number")?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port from {first} to {}", first + count)
}

fn write_certificates(dir: &Path) -> Result<()> {
    let authority = Authority::new("etcd test CA")?;
    std::fs::write(dir.join("ca.crt"), authority.pem()).context("write ca.crt")?;
    authority.server(&["127.0.0.1", "localhost"])?.write(dir, "server")?;
    authority.client("lanyard", &[])?.write(dir, "client")
}
