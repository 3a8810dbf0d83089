//! The certificate authority of a server: made once or brought by the operator, it certifies the rest.
//!
//! It signs what [`Profile`]s describe. How it signs the requests of others (the `certificates.k8s.io`
//! API) is in `sign.rs`.

use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, X509Certificate};
use zeroize::Zeroizing;

use super::files::{Locked, Readers};
use super::leaf::{Leaf, Profile};
use super::{BACKDATE, CA_VALIDITY, CA_WARNING, LEAF_VALIDITY, PkiError};

/// A CA certificate with its key.
pub(super) struct Authority {
    /// The whole of `ca.crt`: what clients are told to trust.
    pub(super) bundle_pem: String,
    /// All certificates in it; the first one belongs to the key.
    pub(super) bundle: Vec<CertificateDer<'static>>,
    pub(super) not_after: Timestamp,
    path: PathBuf,
    self_signed: bool,
    key: Zeroizing<KeyPair>,
}

impl Authority {
    /// Reads `ca.crt` and `ca.key`, or makes them if neither is there.
    pub(super) fn load_or_create(files: &Locked<'_>, now: Timestamp) -> Result<Self, PkiError> {
        files.recover_pair(STEM, is_pair)?;
        let crt = files.read(CRT, Readers::Anyone)?;
        let key = files.read(KEY, Readers::Owner)?;
        let authority = match (crt, key) {
            (Some(crt), Some(key)) => Self::load(files, &crt, &key)?,
            (None, None) => Self::create(files, now)?,
            (None, Some(_)) => return Err(missing(files, CRT)),
            (Some(_), None) => return Err(missing(files, KEY)),
        };
        authority.check_validity(now)?;
        Ok(authority)
    }

    fn load(files: &Locked<'_>, crt: &[u8], key: &[u8]) -> Result<Self, PkiError> {
        let [crt_path, key_path] = [files.file(CRT), files.file(KEY)];
        let unusable = |problem: &str| PkiError::unusable(&crt_path, problem, REPLACE);
        let bundle = certificates(crt).map_err(unusable)?;
        let key = parse_key(key).ok_or_else(|| {
            PkiError::unusable(&key_path, "does not hold one unencrypted private key", REPLACE)
        })?;
        let first = parse(&bundle[0]).ok_or_else(|| unusable("holds a broken certificate"))?;
        if bundle.iter().any(|der| !parse(der).is_some_and(|c| c.is_ca())) {
            return Err(unusable("holds a certificate that is not one of a CA"));
        }
        if !public_key_matches(&first, &key) {
            return Err(unusable("does not begin with the certificate for ca.key"));
        }
        if matches!(first.key_usage(), Ok(Some(usage)) if !usage.value.key_cert_sign()) {
            return Err(unusable("begins with a certificate that may not sign others"));
        }
        let text = String::from_utf8(crt.to_vec()).map_err(|_| unusable("is not text"))?;
        Ok(Self {
            bundle_pem: text,
            not_after: timestamp(first.validity().not_after.timestamp()),
            self_signed: first.subject().as_raw() == first.issuer().as_raw(),
            path: crt_path.clone(),
            key,
            bundle,
        })
    }

    fn create(files: &Locked<'_>, now: Timestamp) -> Result<Self, PkiError> {
        let key = generate_key()?;
        let not_after = after(now, CA_VALIDITY);
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, CA_NAME);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        set_validity(&mut params, now, not_after);
        let certificate =
            params.self_signed(&*key).map_err(PkiError::crypto("make the CA certificate"))?;
        let pem = certificate.pem();
        files.write_pair(STEM, pem.as_bytes(), Zeroizing::new(key.serialize_pem()).as_bytes())?;
        tracing::info!(file = %files.file(CRT).display(), "made a certificate authority");
        Ok(Self {
            bundle_pem: pem,
            bundle: vec![certificate.into()],
            not_after,
            path: files.file(CRT),
            self_signed: true,
            key,
        })
    }

    fn check_validity(&self, now: Timestamp) -> Result<(), PkiError> {
        if self.not_after <= now {
            let problem = format!("expired at {}", self.not_after);
            return Err(PkiError::unusable(&self.path, problem, REPLACE));
        }
        if self.not_after <= after(now, CA_WARNING) {
            tracing::warn!(
                file = %self.path.display(), expires = %self.not_after,
                "the certificate authority is about to expire: {REPLACE}"
            );
        }
        Ok(())
    }

    /// Makes a new key and certifies it.
    pub(super) fn issue(&self, profile: &Profile, now: Timestamp) -> Result<Leaf, PkiError> {
        let key = generate_key()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        if let Some(organization) = profile.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.distinguished_name.push(DnType::CommonName, profile.common_name);
        params.subject_alt_names =
            profile.names.iter().map(|name| name.to_san()).collect::<Result<_, _>>()?;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![match profile.server {
            true => ExtendedKeyUsagePurpose::ServerAuth,
            false => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        params.use_authority_key_identifier_extension = true;
        set_validity(&mut params, now, self.not_after.min(after(now, LEAF_VALIDITY)));

        let issuer = Issuer::from_ca_cert_der(self.certificate(), &*self.key)
            .map_err(PkiError::crypto("use the CA certificate"))?;
        let certificate =
            params.signed_by(&*key, &issuer).map_err(PkiError::crypto("sign a certificate"))?;
        let mut pem = certificate.pem();
        if !self.self_signed {
            // Not everybody takes an intermediate for a root: show who issued it.
            pem.push_str(&first_block(&self.bundle_pem));
        }
        let key_pem = Zeroizing::new(key.serialize_pem().into_bytes());
        // Reading it back proves that the next start will accept what is about to be written. Only the
        // CA can be to blame: its subject may be one that rcgen does not write as it was.
        Leaf::parse(pem.into_bytes(), key_pem, self).map_err(|_| {
            let problem = "has a subject that cannot be put into the certificates it issues";
            PkiError::unusable(&self.path, problem, "use a CA with a simpler subject")
        })
    }

    /// Whether this CA has signed a certificate.
    pub(super) fn has_issued(&self, certificate: &X509Certificate<'_>) -> bool {
        parse(self.certificate()).is_some_and(|ca| {
            ca.subject().as_raw() == certificate.issuer().as_raw()
                && certificate.verify_signature(Some(ca.public_key())).is_ok()
        })
    }

    /// Whether nobody stands above it.
    pub(super) fn is_self_signed(&self) -> bool {
        self.self_signed
    }

    /// The signing key.
    pub(super) fn key(&self) -> &KeyPair {
        &self.key
    }

    /// The certificate of the signing key.
    pub(super) fn certificate(&self) -> &CertificateDer<'static> {
        &self.bundle[0]
    }
}

/// The certificates in a PEM file: at least one, and nothing else.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, &'static str> {
    let mut found = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(pem) {
        match section {
            Ok((SectionKind::Certificate, der)) => found.push(CertificateDer::from(der)),
            Ok(_) => return Err("holds something other than certificates"),
            Err(_) => return Err("is not valid PEM"),
        }
    }
    if found.is_empty() { Err("holds no certificate") } else { Ok(found) }
}

/// One certificate, and nothing after it.
pub(super) fn parse(der: &[u8]) -> Option<X509Certificate<'_>> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    rest.is_empty().then_some(certificate)
}

/// The private key in a PEM file.
pub(super) fn parse_key(pem: &[u8]) -> Option<Zeroizing<KeyPair>> {
    let der = Zeroizing::new(PrivateKeyDer::from_pem_slice(pem).ok()?);
    KeyPair::try_from(&*der).ok().map(Zeroizing::new)
}

pub(super) fn public_key_matches(certificate: &X509Certificate<'_>, key: &KeyPair) -> bool {
    &*certificate.public_key().subject_public_key.data == key.public_key_raw()
}

/// Whether a certificate file and a key file are a pair.
pub(super) fn is_pair(crt: &[u8], key: &[u8]) -> bool {
    let Ok(chain) = certificates(crt) else {
        return false;
    };
    let (Some(certificate), Some(key)) = (parse(&chain[0]), parse_key(key)) else {
        return false;
    };
    public_key_matches(&certificate, &key)
}

/// A certificate's time; later than we can count means never.
pub(super) fn timestamp(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX)
}

/// A time plus a duration; a clock that is wildly off must not make us panic.
pub(super) fn after(time: Timestamp, duration: SignedDuration) -> Timestamp {
    time.checked_add(duration).unwrap_or(time)
}

fn generate_key() -> Result<Zeroizing<KeyPair>, PkiError> {
    KeyPair::generate().map(Zeroizing::new).map_err(PkiError::crypto("generate a key"))
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, not_after: Timestamp) {
    set_validity_from(params, after(now, -BACKDATE), not_after);
}

pub(super) fn set_validity_from(
    params: &mut CertificateParams,
    not_before: Timestamp,
    not_after: Timestamp,
) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let at = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap_or(0);
        epoch + std::time::Duration::from_secs(seconds)
    };
    params.not_before = at(not_before);
    params.not_after = at(not_after);
}

/// The first PEM block of a bundle.
pub(super) fn first_block(pem: &str) -> String {
    const END: &str = "-----END CERTIFICATE-----";
    let end = pem.find(END).map_or(pem.len(), |at| at + END.len());
    let start = pem.find("-----BEGIN").unwrap_or(0);
    format!("{}\n", &pem[start..end])
}

fn missing(files: &Locked<'_>, name: &str) -> PkiError {
    PkiError::unusable(&files.file(name), "is missing while its other half is there", REPLACE)
}

const STEM: &str = "ca";
const CRT: &str = "ca.crt";
const KEY: &str = "ca.key";
const CA_NAME: &str = "lanyard-ca";
const REPLACE: &str = "restore ca.crt and ca.key from a backup, or put those of another CA there and \
                       remove the serving and admin files to have them issued anew";
