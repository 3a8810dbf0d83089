//! A server of a test's own, its administrator, and anybody whom the server can be made to trust.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lanyard_testkit::{Authority, Kubeconfig, Kubectl, Lanyard};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Api, User};

/// A running server.
#[derive(Debug)]
pub struct Cluster {
    /// The administrator.
    pub admin: User,
    /// The server.
    pub server: Lanyard,
    kubeconfigs: TempDir,
}

impl Cluster {
    /// A server on an empty directory.
    pub fn start() -> Result<Cluster> {
        Cluster::of(Lanyard::start()?)
    }

    /// A server that was started already.
    pub fn of(server: Lanyard) -> Result<Cluster> {
        let admin = User::new(Kubectl::new(&server.kubeconfig_path())?);
        let kubeconfigs = tempfile::tempdir().context("make a directory for kubeconfigs")?;
        Ok(Cluster { admin, server, kubeconfigs })
    }

    /// The administrator without kubectl.
    pub fn api(&self) -> Result<Api> {
        let config = self.server.kubeconfig()?;
        Api::new(&config.server, &config.authorities, Some(&config.client))
    }

    /// Nobody: no certificate, no token.
    pub fn anonymous(&self) -> Result<Api> {
        let config = self.server.kubeconfig()?;
        Api::new(&config.server, &config.authorities, None)
    }

    /// Whoever holds a bearer token.
    pub fn bearer(&self, token: &str) -> Result<Api> {
        Ok(self.anonymous()?.header("Authorization", &format!("Bearer {token}")))
    }

    /// Somebody with a client certificate from the server's own authority.
    pub fn user(&self, name: &str, groups: &[&str]) -> Result<User> {
        let Kubeconfig { server, authorities, .. } = self.server.kubeconfig()?;
        let client = self.authority()?.client(name, groups)?;
        let path = self.kubeconfigs.path().join(format!("{name}.kubeconfig"));
        Kubeconfig { server, authorities, client }.write(&path)?;
        Ok(User::new(Kubectl::new(&path)?))
    }

    /// As [`Cluster::user`], without kubectl.
    pub fn user_api(&self, name: &str, groups: &[&str]) -> Result<Api> {
        let config = self.server.kubeconfig()?;
        let client = self.authority()?.client(name, groups)?;
        Api::new(&config.server, &config.authorities, Some(&client))
    }

    /// Somebody with a bearer token.
    pub fn token_user(&self, name: &str, token: &str) -> Result<User> {
        let admin = self.server.kubeconfig()?;
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": admin.server,
                "certificate-authority-data": STANDARD.encode(&admin.authorities),
            }}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        let path = self.kubeconfigs.path().join(format!("{name}.kubeconfig"));
        fs::write(&path, config.to_string()).with_context(|| path.display().to_string())?;
        Ok(User::new(Kubectl::new(&path)?))
    }

    /// A token of a service account, from the TokenRequest API.
    pub fn account_token(&self, namespace: &str, account: &str) -> Result<String> {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let answer = self.api()?.post(&path, &json!({"spec": {"expirationSeconds": 3600}}))?;
        let answer = answer.expect(201)?;
        let token = answer.pointer("/status/token").and_then(Value::as_str);
        Ok(token.context("the answer to a TokenRequest has no token")?.to_owned())
    }

    fn authority(&self) -> Result<Authority> {
        let pki = self.server.data_dir().join("pki");
        Authority::read(&pki.join("ca.crt"), &pki.join("ca.key"))
    }
}

/// Gives a second server the keys of the first, as servers that share a store need.
pub fn copy_pki(from: &Path, to: &Path) -> Result<()> {
    let (from, to) = (from.join("pki"), to.join("pki"));
    fs::create_dir_all(&to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(&from).with_context(|| from.display().to_string())? {
        let entry = entry.with_context(|| from.display().to_string())?;
        // Copies keep the mode, which matters for keys.
        fs::copy(entry.path(), to.join(entry.file_name()))
            .with_context(|| entry.path().display().to_string())?;
    }
    Ok(())
}
