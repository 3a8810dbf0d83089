//! The keys and certificates of a server: made on the first start, renewed before they expire.
//!
//! Everything is in `DIR/pki`: `ca.crt` and `ca.key` certify the server (`serving.crt`), its first user
//! (`admin.crt`) and, through [`CertAuthenticator`](crate::authn::CertAuthenticator), every client;
//! `sa.key` signs service-account tokens. An operator may bring a CA of their own by putting `ca.crt`
//! and `ca.key` there before the first start. Several servers on one etcd must agree on the CA and on
//! the token key: start one, then copy its `DIR/pki` to the others.
//!
//! Files that are broken or do not fit together are reported, never overwritten.

mod authority;
mod error;
mod files;
mod kubeconfig;
mod leaf;
mod names;
mod service_account;
mod sign;
#[cfg(test)]
mod tests;
mod tls;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use jiff::{SignedDuration, Timestamp};
use rustls::DistinguishedName;
use rustls::pki_types::CertificateDer;

pub use error::PkiError;
pub use kubeconfig::kubeconfig;
pub use service_account::{ServiceAccountKeys, VerifyingKey};
pub use tls::server_config;

use authority::Authority;
use files::{KeyDir, Readers};
use leaf::{Leaf, Profile};
use tls::ServingCertificate;

use crate::certificate_request::CertificateRequest;

/// The keys and certificates of this server.
pub struct Pki {
    dir: KeyDir,
    authority: Authority,
    service_account_keys: ServiceAccountKeys,
    serving_profile: Profile,
    admin_profile: Profile,
    serving_leaf: ArcSwap<Leaf>,
    admin_leaf: ArcSwap<Leaf>,
    serving: Arc<ServingCertificate>,
}

/// What an operator may choose.
#[derive(Clone, Debug, Default)]
pub struct PkiOptions {
    /// DNS names and IP addresses that clients use for this server, beyond the loopback addresses,
    /// `localhost`, the host's name, and `kubernetes.default.svc` with its shorter and longer forms.
    pub sans: Vec<String>,
}

/// What [`Pki::renew_if_due`] has put in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    /// New connections get a new serving certificate.
    pub serving: bool,
    /// There is a new admin certificate: write the admin kubeconfig again.
    pub admin: bool,
}

impl Pki {
    /// Reads the files below `data_dir/pki`, making what is not there yet.
    ///
    /// Several processes may do so at once on one directory: one makes the files, the others read them.
    /// Blocks on the disk.
    pub fn open_or_create(data_dir: &Path, options: &PkiOptions) -> Result<Self, PkiError> {
        Self::open_or_create_at(data_dir, options, Timestamp::now())
    }

    /// The same at a chosen time.
    pub fn open_or_create_at(
        data_dir: &Path,
        options: &PkiOptions,
        now: Timestamp,
    ) -> Result<Self, PkiError> {
        let serving_profile = Profile::serving(names::serving_names(&options.sans)?);
        let admin_profile = Profile::admin();
        let dir = KeyDir::open_or_create(&data_dir.join(SUBDIRECTORY))?;
        let files = dir.lock()?;
        let authority = Authority::load_or_create(&files, now)?;
        let serving_leaf = serving_profile.load_or_issue(&files, &authority, now)?;
        let admin_leaf = admin_profile.load_or_issue(&files, &authority, now)?;
        let service_account_keys = ServiceAccountKeys::load_or_create(&dir, &files)?;
        files.sync()?;
        drop(files);
        Ok(Self {
            serving: Arc::new(ServingCertificate::new(&serving_leaf)?),
            serving_leaf: ArcSwap::from_pointee(serving_leaf),
            admin_leaf: ArcSwap::from_pointee(admin_leaf),
            dir,
            authority,
            service_account_keys,
            serving_profile,
            admin_profile,
        })
    }

    /// Replaces the certificates that have less than a third of their life left; call it every hour.
    ///
    /// It also takes up what another process on the same directory has renewed. If it fails, the
    /// present certificates stay in use. Blocks on the disk.
    pub fn renew_if_due(&self, now: Timestamp) -> Result<Renewed, PkiError> {
        let files = self.dir.lock()?;
        let serving = self.serving_profile.load_or_issue(&files, &self.authority, now)?;
        let admin = self.admin_profile.load_or_issue(&files, &self.authority, now)?;
        files.sync()?;
        drop(files);
        let renewed = Renewed {
            serving: serving.chain != self.serving_leaf.load().chain,
            admin: admin.chain != self.admin_leaf.load().chain,
        };
        if renewed.serving {
            self.serving.replace(&serving)?;
            self.serving_leaf.store(Arc::new(serving));
        }
        if renewed.admin {
            self.admin_leaf.store(Arc::new(admin));
        }
        Ok(renewed)
    }

    /// Writes a kubeconfig of the admin, who may do everything, with mode 0600. Blocks on the disk.
    pub fn write_admin_kubeconfig(&self, path: &Path, server_url: &str) -> Result<(), PkiError> {
        let admin = self.admin_leaf.load();
        let ca = self.authority.bundle_pem.as_bytes();
        let text = kubeconfig(server_url, ca, &admin.chain_pem, &admin.key_pem);
        self.dir.lock()?.write_outside(path, text.as_bytes(), Readers::Owner)
    }

    /// Signs a certificate request for the given usages of the `certificates.k8s.io` API; the
    /// certificate as PEM.
    pub(crate) fn sign(
        &self,
        request: &CertificateRequest,
        usages: &[&str],
        expiration: Option<SignedDuration>,
        now: Timestamp,
    ) -> Result<String, PkiError> {
        self.authority.sign(request, usages, expiration, now)
    }

    /// The CA certificates as PEM: what clients need to trust this server.
    pub fn ca_bundle_pem(&self) -> &str {
        &self.authority.bundle_pem
    }

    /// The CA certificates: who may vouch for clients.
    pub fn ca_certificates(&self) -> &[CertificateDer<'static>] {
        &self.authority.bundle
    }

    /// When the CA expires; nothing can be renewed past that.
    pub fn ca_not_after(&self) -> Timestamp {
        self.authority.not_after
    }

    /// When the serving certificate in use expires.
    pub fn serving_not_after(&self) -> Timestamp {
        self.serving_leaf.load().not_after
    }

    /// The keys for service-account tokens.
    pub fn service_account_keys(&self) -> &ServiceAccountKeys {
        &self.service_account_keys
    }

    fn serving(&self) -> Arc<ServingCertificate> {
        self.serving.clone()
    }

    fn ca_subjects(&self) -> Vec<DistinguishedName> {
        let subjects = self.authority.bundle.iter().filter_map(|der| authority::parse(der));
        subjects.map(|ca| DistinguishedName::from(ca.subject().as_raw().to_vec())).collect()
    }
}

impl fmt::Debug for Pki {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pki").field("dir", &self.dir).finish_non_exhaustive()
    }
}

const SUBDIRECTORY: &str = "pki";
/// Long enough that no one has to think of it soon, as kubeadm has it.
const CA_VALIDITY: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// Renewed by ourselves, so there is no reason for more.
const LEAF_VALIDITY: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Time for an operator to replace the CA.
const CA_WARNING: SignedDuration = SignedDuration::from_hours(90 * 24);
/// For clients whose clock is behind ours.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
