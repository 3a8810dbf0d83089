//! Where the programs are: an environment variable first, then where `./dev setup` and cargo put them.
//! Nothing is searched on `PATH`, so that a test never runs against a version nobody chose.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// A program that a fixture starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// The binary under test, from `LANYARD_BIN` or beside the test executable.
    Lanyard,
    /// From `LANYARD_ETCD` or the cache.
    Etcd,
    /// From `LANYARD_KUBECTL` or the cache.
    Kubectl,
    /// From `LANYARD_KUBE_APISERVER` or the cache.
    KubeApiserver,
}

impl Program {
    /// The path of the program, or an error that says how to get it.
    pub fn path(self) -> Result<PathBuf> {
        let (name, variable, remedy) = self.facts();
        if let Some(chosen) = env::var_os(variable) {
            let chosen = PathBuf::from(chosen);
            if !chosen.is_file() {
                bail!("{variable} is {}, which is no file", chosen.display());
            }
            return Ok(chosen);
        }
        let candidates = match self {
            Program::Lanyard => beside_this_executable(name)?,
            _ => vec![cache().join("bin").join(name)],
        };
        candidates
            .iter()
            .find(|path| path.is_file())
            .cloned()
            .with_context(|| format!("no {name} at {}: {remedy}", candidates[0].display()))
    }

    fn facts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Program::Lanyard => ("lanyard", "LANYARD_BIN", "run `cargo build -p lanyard`"),
            Program::Etcd => ("etcd", "LANYARD_ETCD", "run `./dev setup`"),
            Program::Kubectl => ("kubectl", "LANYARD_KUBECTL", "run `./dev setup`"),
            Program::KubeApiserver => {
                ("kube-apiserver", "LANYARD_KUBE_APISERVER", "run `./dev peers kube-apiserver`")
            }
        }
    }
}

/// The root of the repository.
pub fn workspace_root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

fn cache() -> PathBuf {
    match env::var_os("LANYARD_CACHE") {
        Some(chosen) => PathBuf::from(chosen),
        None => workspace_root().join(".cache"),
    }
}

/// Test executables live in `target/PROFILE/deps`, other binaries in `target/PROFILE`.
fn beside_this_executable(name: &str) -> Result<Vec<PathBuf>> {
    let this = env::current_exe().context("find this executable")?;
    Ok(this.ancestors().skip(1).take(2).map(|dir| dir.join(name)).collect())
}
