//! A real kube-apiserver on an etcd of its own: RBAC on, an administrator with a client certificate, durable
//! writes. The oracle our answers are compared with and the other side of every benchmark.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::etcd::Etcd;
use crate::kubeconfig::Kubeconfig;
use crate::kubectl::{Kubectl, Output};
use crate::pki::{Authority, write_signing_key};
use crate::process::Process;
use crate::programs::Program;
use crate::wait::{free_port, wait_until};

/// A server and its store.
#[derive(Debug)]
pub struct KubeApiserver {
    apiserver: Process,
    etcd: Etcd,
    started: Instant,
    kubectl: Kubectl,
    // Last, so that the process is gone before its directory is.
    home: TempDir,
}

impl KubeApiserver {
    /// Both programs on an empty directory, ready.
    pub fn start() -> Result<KubeApiserver> {
        KubeApiserver::start_with(&[])
    }

    /// As [`KubeApiserver::start`], with more flags for the API server.
    pub fn start_with(flags: &[&str]) -> Result<KubeApiserver> {
        let mut server = KubeApiserver::launch(flags)?;
        server.wait_ready()?;
        Ok(server)
    }

    /// Starts etcd, waits for it, then starts the API server and returns at once.
    pub fn launch(flags: &[&str]) -> Result<KubeApiserver> {
        let home = tempfile::Builder::new().prefix("kube-apiserver-").tempdir();
        let home = home.context("make a directory for kube-apiserver")?;
        let dir = home.path();
        let etcd = Etcd::start(1)?;
        let port = free_port()?;
        write_credentials(dir, port)?;
        let kubectl = Kubectl::new(&dir.join("admin.kubeconfig"))?;
        let started = Instant::now();
        let apiserver = start_apiserver(dir, port, &etcd, flags)?;
        Ok(KubeApiserver { apiserver, etcd, started, kubectl, home })
    }

    /// Waits until every start-up hook has run, bootstrap roles included.
    pub fn wait_ready(&mut self) -> Result<()> {
        let (apiserver, kubectl) = (&mut self.apiserver, &self.kubectl);
        wait_until("kube-apiserver to be ready", READY_LIMIT, || {
            apiserver.expect_running()?;
            let answer = kubectl.run(&["get", "--raw", "/readyz"])?;
            Ok((answer.code == 0).then_some(()))
        })
    }

    /// Runs kubectl as the administrator.
    pub fn kubectl(&self, args: &[&str]) -> Result<Output> {
        self.kubectl.run(args)
    }

    /// A kubectl that is the administrator of this server.
    pub fn admin(&self) -> &Kubectl {
        &self.kubectl
    }

    /// The administrator's credentials and the address.
    pub fn kubeconfig(&self) -> Result<Kubeconfig> {
        Kubeconfig::read(&self.kubeconfig_path())
    }

    /// The administrator's kubeconfig.
    pub fn kubeconfig_path(&self) -> PathBuf {
        self.home.path().join("admin.kubeconfig")
    }

    /// The API server's process.
    pub fn apiserver(&mut self) -> &mut Process {
        &mut self.apiserver
    }

    /// The store.
    pub fn etcd(&mut self) -> &mut Etcd {
        &mut self.etcd
    }

    /// When the API server was started.
    pub fn started(&self) -> Instant {
        self.started
    }
}

/// The roots, the serving certificate, the token key, and the administrator's kubeconfig.
fn write_credentials(dir: &Path, port: u16) -> Result<()> {
    let authority = Authority::new("kube-apiserver-ca")?;
    let roots = dir.join("ca.crt");
    fs::write(&roots, authority.pem()).with_context(|| roots.display().to_string())?;
    authority
        .server(&["127.0.0.1", "localhost", "kubernetes.default.svc", "10.96.0.1"])?
        .write(dir, "serving")?;
    write_signing_key(dir, "service-account")?;
    Kubeconfig {
        server: format!("https://127.0.0.1:{port}"),
        authorities: authority.pem(),
        client: authority.client("kubernetes-admin", &["system:masters"])?,
    }
    .write(&dir.join("admin.kubeconfig"))
}

fn start_apiserver(dir: &Path, port: u16, etcd: &Etcd, flags: &[&str]) -> Result<Process> {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut args = vec![
        format!("--etcd-servers=http://{}", etcd.endpoints()),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", file("generated")),
        format!("--tls-cert-file={}", file("serving.crt")),
        format!("--tls-private-key-file={}", file("serving.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--service-account-key-file={}", file("service-account.pub")),
        format!("--service-account-signing-key-file={}", file("service-account.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/24".to_owned(),
        "--authorization-mode=RBAC".to_owned(),
    ];
    args.extend(flags.iter().map(|flag| (*flag).to_owned()));
    Process::spawn("kube-apiserver", &Program::KubeApiserver.path()?, args, dir)
}

/// It needs two to three seconds alone on two cores; tests share them.
const READY_LIMIT: Duration = Duration::from_secs(120);
