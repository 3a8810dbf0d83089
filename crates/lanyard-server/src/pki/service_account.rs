//! The keys that sign and verify service-account tokens.
//!
//! `sa.key` signs. `sa.pub` and every `sa-*.pub` verify: to replace the signing key without cutting
//! anybody off, rename `sa.pub` to `sa-old.pub`, remove `sa.key`, restart, and remove the old public
//! key when the last token of its time has expired.

use std::fmt;
use std::path::Path;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _,
    ParsedPublicKey,
};
use rcgen::{KeyPair, PublicKeyData};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, SubjectPublicKeyInfoDer};
use x509_parser::prelude::FromDer;
use x509_parser::x509::SubjectPublicKeyInfo;
use zeroize::Zeroizing;

use super::PkiError;
use super::files::{KeyDir, Locked, Readers};

/// One key to sign with and all keys to verify with, ECDSA on P-256 throughout.
#[derive(Clone)]
pub struct ServiceAccountKeys {
    /// PKCS#8.
    signing: Zeroizing<Vec<u8>>,
    /// The first belongs to the signing key.
    verifying: Vec<VerifyingKey>,
}

/// A public key that tokens may have been signed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyingKey {
    /// The key as a PKIX `SubjectPublicKeyInfo`.
    pub spki: Vec<u8>,
    /// The uncompressed point: 0x04, x, y.
    pub point: [u8; POINT],
}

impl ServiceAccountKeys {
    /// Makes keys that live in memory only.
    pub fn generate() -> Result<Self, PkiError> {
        let pair = KeyPair::generate().map(Zeroizing::new).map_err(PkiError::crypto(GENERATE))?;
        let signing = Zeroizing::new(pair.serialize_der());
        let spki = pair.subject_public_key_info();
        let first = VerifyingKey::parse(&spki).map_err(PkiError::crypto(GENERATE))?;
        Ok(Self { signing, verifying: vec![first] })
    }

    /// Accepts tokens that were signed with `key` too.
    pub fn also_verify_with(mut self, key: VerifyingKey) -> Self {
        if !self.verifying.contains(&key) {
            self.verifying.push(key);
        }
        self
    }

    /// The private key as PKCS#8 DER. Keep it out of logs and errors.
    pub fn expose_signing_key(&self) -> &[u8] {
        &self.signing
    }

    /// The public keys, first that of the signing key.
    pub fn verifying(&self) -> &[VerifyingKey] {
        &self.verifying
    }

    /// Reads the keys, making those that are missing.
    pub(super) fn load_or_create(dir: &KeyDir, files: &Locked<'_>) -> Result<Self, PkiError> {
        let stored = files.read(KEY, Readers::Owner)?;
        let mut keys = match stored {
            Some(pem) => Self::parse(&files.file(KEY), &pem)?,
            None => Self::create(files)?,
        };
        let current = keys.verifying[0].clone();
        match files.read(PUB, Readers::Anyone)? {
            None => files.write(PUB, current.to_pem().as_bytes(), Readers::Anyone)?,
            Some(pem) if VerifyingKey::from_pem(&files.file(PUB), &pem)? == current => {}
            Some(_) => {
                let problem = "does not belong to sa.key";
                return Err(PkiError::unusable(&files.file(PUB), problem, RENAME));
            }
        }
        for name in dir.names()? {
            if name.starts_with(OLD_PREFIX) && name.ends_with(PUB_SUFFIX) {
                let pem = files.read(&name, Readers::Anyone)?.unwrap_or_default();
                keys = keys.also_verify_with(VerifyingKey::from_pem(&files.file(&name), &pem)?);
            }
        }
        Ok(keys)
    }

    fn create(files: &Locked<'_>) -> Result<Self, PkiError> {
        if files.read(PUB, Readers::Anyone)?.is_some() {
            let problem = "is missing while sa.pub is there";
            return Err(PkiError::unusable(&files.file(KEY), problem, RENAME));
        }
        let keys = Self::generate()?;
        let pem = Zeroizing::new(to_pem("PRIVATE KEY", &keys.signing));
        files.write(KEY, pem.as_bytes(), Readers::Owner)?;
        // Before sa.pub is written, which could not be told from a leftover without its key.
        files.sync()?;
        Ok(keys)
    }

    fn parse(path: &Path, pem: &[u8]) -> Result<Self, PkiError> {
        let unusable = || {
            let problem = "does not hold one unencrypted ECDSA P-256 private key";
            PkiError::unusable(path, problem, "restore it, or put such a key there")
        };
        let der = Zeroizing::new(PrivateKeyDer::from_pem_slice(pem).map_err(|_| unusable())?);
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let pair = EcdsaKeyPair::from_private_key_der(algorithm, der.secret_der())
            .map_err(|_| unusable())?;
        let signing = pair.to_pkcs8v1().map_err(|_| unusable())?;
        let point = pair.public_key().as_ref().try_into().map_err(|_| unusable())?;
        let first = VerifyingKey { spki: spki_of(&point), point };
        Ok(Self { signing: Zeroizing::new(signing.as_ref().to_vec()), verifying: vec![first] })
    }
}

impl fmt::Debug for ServiceAccountKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccountKeys")
            .field("verifying", &self.verifying)
            .finish_non_exhaustive()
    }
}

impl VerifyingKey {
    fn from_pem(path: &Path, pem: &[u8]) -> Result<Self, PkiError> {
        SubjectPublicKeyInfoDer::from_pem_slice(pem)
            .map_err(|_| "is not a PEM public key")
            .and_then(|der| Self::parse(&der))
            .map_err(|problem| {
                PkiError::unusable(
                    path,
                    problem,
                    "put an ECDSA P-256 public key there or remove it",
                )
            })
    }

    fn parse(spki: &[u8]) -> Result<Self, &'static str> {
        let (_, parsed) =
            SubjectPublicKeyInfo::from_der(spki).map_err(|_| "holds a broken public key")?;
        let point: [u8; POINT] = (*parsed.subject_public_key.data)
            .try_into()
            .map_err(|_| "holds a public key of another kind than ECDSA P-256")?;
        // Rebuilding it settles the algorithm and the curve without a parser of our own.
        if spki_of(&point) != spki || ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).is_err()
        {
            return Err("holds a public key of another kind than ECDSA P-256");
        }
        Ok(Self { spki: spki.to_vec(), point })
    }

    fn to_pem(&self) -> String {
        to_pem("PUBLIC KEY", &self.spki)
    }
}

/// A P-256 point as a `SubjectPublicKeyInfo`, whose other parts never vary (RFC 5480 section 2).
fn spki_of(point: &[u8; POINT]) -> Vec<u8> {
    [&SPKI_PREFIX[..], &point[..]].concat()
}

fn to_pem(label: &str, der: &[u8]) -> String {
    use base64::Engine;
    let body = Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(der));
    let mut pem = String::with_capacity(body.len() + 256);
    pem.push_str(&format!("-----BEGIN {label}-----\n"));
    for start in (0..body.len()).step_by(64) {
        pem.push_str(&body[start..body.len().min(start + 64)]);
        pem.push('\n');
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

const KEY: &str = "sa.key";
const PUB: &str = "sa.pub";
const OLD_PREFIX: &str = "sa-";
const PUB_SUFFIX: &str = ".pub";
const GENERATE: &str = "generate a key";
const RENAME: &str =
    "restore the pair, or rename sa.pub to sa-old.pub to keep accepting its tokens";
/// The length of an uncompressed point on P-256.
const POINT: usize = 65;
/// SEQUENCE { SEQUENCE { id-ecPublicKey, prime256v1 }, BIT STRING of 65 bytes follows }.
const SPKI_PREFIX: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
