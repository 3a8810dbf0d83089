//! The certificates a server has for itself: what each says, when it is due, and whether it can be used.

use std::collections::BTreeSet;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

use super::PkiError;
use super::authority::{self, Authority};
use super::files::{Locked, Readers};
use super::names::{Name, names_of};

/// What a certificate is for.
#[derive(Debug)]
pub(super) struct Profile {
    /// Its files are `STEM.crt` and `STEM.key`.
    pub(super) stem: &'static str,
    pub(super) common_name: &'static str,
    pub(super) organization: Option<&'static str>,
    pub(super) names: BTreeSet<Name>,
    /// For a server rather than a client.
    pub(super) server: bool,
    /// What to do when its files cannot be used.
    pub(super) remedy: &'static str,
}

/// A certificate with its key, checked against the CA.
pub(super) struct Leaf {
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) chain_pem: Vec<u8>,
    pub(super) key_pem: Zeroizing<Vec<u8>>,
    pub(super) not_after: Timestamp,
    not_before: Timestamp,
    names: BTreeSet<Name>,
}

impl Profile {
    /// The certificate that the server shows to its clients.
    pub(super) fn serving(names: BTreeSet<Name>) -> Self {
        Self {
            stem: "serving",
            common_name: "lanyard",
            organization: None,
            names,
            server: true,
            remedy: "remove serving.crt and serving.key to have them issued anew",
        }
    }

    /// The certificate of the first user, who may do everything.
    pub(super) fn admin() -> Self {
        Self {
            stem: "admin",
            common_name: "lanyard-admin",
            organization: Some("system:masters"),
            names: BTreeSet::new(),
            server: false,
            remedy: "remove admin.crt and admin.key to have them issued anew",
        }
    }

    /// Reads the certificate, issuing a new one if there is none, it is due, or names have changed.
    pub(super) fn load_or_issue(
        &self,
        files: &Locked<'_>,
        authority: &Authority,
        now: Timestamp,
    ) -> Result<Leaf, PkiError> {
        if let Some(leaf) = self.load(files, authority)?
            && !leaf.is_due(now)
            && leaf.names == self.names
        {
            return Ok(leaf);
        }
        let leaf = authority.issue(self, now)?;
        files.write_pair(self.stem, &leaf.chain_pem, &leaf.key_pem)?;
        tracing::info!(certificate = self.stem, expires = %leaf.not_after, "issued a certificate");
        Ok(leaf)
    }

    fn load(&self, files: &Locked<'_>, authority: &Authority) -> Result<Option<Leaf>, PkiError> {
        files.recover_pair(self.stem, authority::is_pair)?;
        let [crt_name, key_name] = ["crt", "key"].map(|end| format!("{}.{end}", self.stem));
        let crt_path = files.file(&crt_name);
        let unusable = |problem: String| PkiError::unusable(&crt_path, problem, self.remedy);
        let crt = files.read(&crt_name, Readers::Anyone)?;
        let key = files.read(&key_name, Readers::Owner)?;
        match (crt, key) {
            (None, None) => Ok(None),
            (Some(crt), Some(key)) => {
                Leaf::parse(crt.to_vec(), key, authority).map(Some).map_err(unusable)
            }
            _ => Err(unusable(format!("or {key_name} is missing while the other is there"))),
        }
    }
}

impl Leaf {
    /// Takes a certificate and a key if they belong together and to the CA.
    pub(super) fn parse(
        chain_pem: Vec<u8>,
        key_pem: Zeroizing<Vec<u8>>,
        authority: &Authority,
    ) -> Result<Self, String> {
        let chain = authority::certificates(&chain_pem)?;
        let certificate = authority::parse(&chain[0]).ok_or("holds a broken certificate")?;
        let key = authority::parse_key(&key_pem).ok_or("has no usable key beside it")?;
        if !authority::public_key_matches(&certificate, &key) {
            return Err("does not belong to the key beside it".into());
        }
        if !authority.has_issued(&certificate) {
            return Err("was not issued by ca.crt".into());
        }
        let validity = certificate.validity();
        let [not_before, not_after] = [validity.not_before, validity.not_after]
            .map(|time| authority::timestamp(time.timestamp()));
        let names = names_of(&certificate);
        Ok(Self { chain_pem, key_pem, not_before, not_after, names, chain })
    }

    /// Whether less than a third of the certificate's life is left.
    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let life = self.not_after.duration_since(self.not_before);
        self.not_after.duration_since(now) <= life / 3
    }

    /// The key as the TLS library wants it.
    pub(super) fn key_der(&self) -> Result<PrivateKeyDer<'static>, PkiError> {
        PrivateKeyDer::from_pem_slice(&self.key_pem).map_err(PkiError::crypto("read a private key"))
    }
}
