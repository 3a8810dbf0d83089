//! The part of a kubeconfig that our fixtures write and read: one server, its CA, one client certificate.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;

use crate::pki::{Identity, write_private};

/// Where a server is and how to be let in.
pub struct Kubeconfig {
    /// `https://host:port`.
    pub server: String,
    /// The roots that the server's certificate must chain to, PEM.
    pub authorities: String,
    /// The client certificate and key.
    pub client: Identity,
}

impl Kubeconfig {
    /// Reads the only cluster and the only user of the file.
    pub fn read(path: &Path) -> Result<Kubeconfig> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        parse(&text).with_context(|| format!("read {}", path.display()))
    }

    /// Writes a file that kubectl reads, for its owner only.
    pub fn write(&self, path: &Path) -> Result<()> {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": self.server,
                "certificate-authority-data": STANDARD.encode(&self.authorities),
            }}],
            "users": [{"name": "test", "user": {
                "client-certificate-data": STANDARD.encode(&self.client.certificate),
                "client-key-data": STANDARD.encode(&self.client.key),
            }}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        write_private(path, &config.to_string())
    }

    /// The port of the server.
    pub fn port(&self) -> Result<u16> {
        let port = self.server.trim_end_matches('/').rsplit(':').next().unwrap_or_default();
        port.parse().with_context(|| format!("{} ends in no port", self.server))
    }
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Kubeconfig").field("server", &self.server).finish_non_exhaustive()
    }
}

fn parse(text: &str) -> Result<Kubeconfig> {
    let Ok(file) = serde_saphyr::from_str::<File>(text) else {
        // The parser's own message would quote the key.
        bail!("it is no kubeconfig with certificates in it");
    };
    let ([cluster], [user]) = (&file.clusters[..], &file.users[..]) else {
        bail!("it has {} clusters and {} users", file.clusters.len(), file.users.len());
    };
    Ok(Kubeconfig {
        server: cluster.cluster.server.clone(),
        authorities: pem(&cluster.cluster.authorities).context("certificate-authority-data")?,
        client: Identity {
            certificate: pem(&user.user.certificate).context("client-certificate-data")?,
            key: pem(&user.user.key).context("client-key-data")?,
        },
    })
}

fn pem(data: &str) -> Result<String> {
    let Ok(bytes) = STANDARD.decode(data.trim()) else {
        bail!("it is not base64");
    };
    String::from_utf8(bytes).ok().context("it is not PEM")
}

#[derive(Deserialize)]
struct File {
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
}

#[derive(Deserialize)]
struct NamedCluster {
    cluster: Cluster,
}

#[derive(Deserialize)]
struct Cluster {
    server: String,
    #[serde(rename = "certificate-authority-data")]
    authorities: String,
}

#[derive(Deserialize)]
struct NamedUser {
    user: User,
}

#[derive(Deserialize)]
struct User {
    #[serde(rename = "client-certificate-data")]
    certificate: String,
    #[serde(rename = "client-key-data")]
    key: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pki::Authority;

    #[test]
    fn what_was_written_is_read() {
        let authority = Authority::new("root").unwrap();
        let written = Kubeconfig {
            server: "https://127.0.0.1:6443".into(),
            authorities: authority.pem(),
            client: authority.client("admin", &["system:masters"]).unwrap(),
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        written.write(&path).unwrap();

        let read = Kubeconfig::read(&path).unwrap();
        assert_eq!(read.port().unwrap(), 6443);
        assert_eq!(read.authorities, written.authorities);
        assert_eq!(read.client.certificate, written.client.certificate);
        assert_eq!(read.client.key, written.client.key);
        assert!(!format!("{read:?}").contains("PRIVATE KEY"));
    }

    #[test]
    fn a_broken_file_does_not_leak_into_the_error() {
        let failure = parse("users: [secret-key-material").unwrap_err();
        assert!(!format!("{failure:#}").contains("secret-key-material"));
    }
}
