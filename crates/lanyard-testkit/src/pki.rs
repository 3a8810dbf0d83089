//! A certificate authority that lives as long as a test, and what it issues.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// A root certificate and its key.
pub struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// A fresh root with this common name.
    pub fn new(name: &str) -> Result<Authority> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().context("generate the key of a root")?;
        let certificate = params.self_signed(&key).context("sign a root")?.pem();
        Ok(Authority { certificate, issuer: Issuer::new(params, key) })
    }

    /// The authority that a server made for itself, to be somebody whom the server trusts.
    pub fn read(certificate: &Path, key: &Path) -> Result<Authority> {
        let read = |path: &Path| fs::read_to_string(path).context(path.display().to_string());
        let certificate = read(certificate)?;
        // What rcgen says of a key that it cannot read does not quote the key.
        let key = KeyPair::from_pem(&read(key)?).context("read the key of a root")?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, key).context("read a root")?;
        Ok(Authority { certificate, issuer })
    }

    /// The root certificate.
    pub fn pem(&self) -> String {
        self.certificate.clone()
    }

    /// A serving certificate for these DNS names and addresses.
    pub fn server(&self, names: &[&str]) -> Result<Identity> {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let params = CertificateParams::new(names).context("read the names of a server")?;
        self.issue(params, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A client certificate as Kubernetes reads it: the common name is the user, organisations are groups.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Identity> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, user);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        self.issue(params, ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn issue(
        &self,
        mut params: CertificateParams,
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().context("generate a key")?;
        let certificate = params.signed_by(&key, &self.issuer).context("sign a certificate")?;
        Ok(Identity { certificate: certificate.pem(), key: key.serialize_pem() })
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Authority").finish_non_exhaustive()
    }
}

/// Asks for a client certificate: the request and its private key, both PEM.
pub fn certificate_request(user: &str, groups: &[&str]) -> Result<(String, String)> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, user);
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    let key = KeyPair::generate().context("generate a key")?;
    let request = params.serialize_request(&key).context("sign a certificate request")?;
    let pem = request.pem().context("write a certificate request")?;
    Ok((pem, key.serialize_pem()))
}

/// A certificate and its private key, both PEM.
pub struct Identity {
    /// The certificate.
    pub certificate: String,
    /// The private key, PKCS#8.
    pub key: String,
}

impl Identity {
    /// Writes `NAME.crt` and `NAME.key` into `dir`.
    pub fn write(&self, dir: &Path, name: &str) -> Result<()> {
        let certificate = dir.join(format!("{name}.crt"));
        fs::write(&certificate, &self.certificate)
            .with_context(|| certificate.display().to_string())?;
        write_private(&dir.join(format!("{name}.key")), &self.key)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Identity").finish_non_exhaustive()
    }
}

/// Writes a fresh key for signing tokens as `NAME.key`, and its public half as `NAME.pub`.
pub(crate) fn write_signing_key(dir: &Path, name: &str) -> Result<()> {
    let key = KeyPair::generate().context("generate a signing key")?;
    let public = dir.join(format!("{name}.pub"));
    fs::write(&public, key.public_key_pem()).with_context(|| public.display().to_string())?;
    write_private(&dir.join(format!("{name}.key")), &key.serialize_pem())
}

/// Writes a file that only its owner reads.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .with_context(|| path.display().to_string())?;
    file.write_all(text.as_bytes()).with_context(|| path.display().to_string())
}
