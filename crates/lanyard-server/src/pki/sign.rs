//! Certificates for others: what a certificate request asks for, within limits, signed by our CA.
//!
//! Lives, backdating and usages are those of the signers in kube-controller-manager.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    CertificateParams, DistinguishedName, ExtendedKeyUsagePurpose as Purpose, IsCa, Issuer,
    KeyIdMethod, KeyUsagePurpose as Usage, SanType, SerialNumber, SigningKey,
};
use sha2::{Digest, Sha256};
use x509_parser::asn1_rs::{Any, FromDer};

use super::authority::{Authority, after, first_block, set_validity_from};
use super::{BACKDATE, LEAF_VALIDITY, PkiError};
use crate::certificate_request::{CertificateRequest, Names, SEQUENCE, der};

/// The shortest life of a certificate; twice what it is backdated by.
const MIN_LIFE: SignedDuration = SignedDuration::from_mins(10);

/// From this life on, a certificate ends as much earlier as it begins earlier.
const LONG_LIFE: SignedDuration = SignedDuration::from_hours(8);

impl Authority {
    /// Signs a request: for the given usages, and for no longer than asked.
    pub(super) fn sign(
        &self,
        request: &CertificateRequest,
        usages: &[&str],
        expiration: Option<SignedDuration>,
        now: Timestamp,
    ) -> Result<String, PkiError> {
        let refused = |reason: &str| PkiError::crypto(SIGN)(reason);
        if self.not_after <= now {
            return Err(refused("the certificate authority has expired"));
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.subject_alt_names = names(&request.names).map_err(PkiError::crypto(SIGN))?;
        params.is_ca = IsCa::ExplicitNoCa;
        for usage in usages {
            match meaning(usage) {
                Some(Meaning::Key(usage)) if params.key_usages.contains(&usage) => {}
                Some(Meaning::Key(usage)) => params.key_usages.push(usage),
                Some(Meaning::Extended(purpose)) => {
                    params.insert_extended_key_usage(purpose);
                }
                None => return Err(refused("unrecognized usage values")),
            }
        }
        params.use_authority_key_identifier_extension = true;
        let digest = Sha256::digest(&request.public_key);
        params.key_identifier_method = KeyIdMethod::PreSpecified(digest[..20].to_vec());
        params.serial_number = Some(SerialNumber::from_slice(uuid::Uuid::new_v4().as_bytes()));
        set_validity_from(&mut params, after(now, -BACKDATE), self.end(expiration, now));
        self.sign_for(&params, request)
    }

    fn end(&self, expiration: Option<SignedDuration>, now: Timestamp) -> Timestamp {
        let life = expiration.unwrap_or(LEAF_VALIDITY).clamp(MIN_LIFE, LEAF_VALIDITY);
        let backdated = if life < LONG_LIFE { SignedDuration::ZERO } else { BACKDATE };
        after(now, life - backdated).min(self.not_after)
    }

    /// Has rcgen write a certificate for our own key, and then puts subject and key of the request in:
    /// rcgen knows but one organization per subject, and not every kind of key.
    fn sign_for(
        &self,
        params: &CertificateParams,
        request: &CertificateRequest,
    ) -> Result<String, PkiError> {
        let issuer = Issuer::from_ca_cert_der(self.certificate(), self.key())
            .map_err(PkiError::crypto("use the CA certificate"))?;
        let template = params.signed_by(self.key(), &issuer).map_err(PkiError::crypto(SIGN))?;
        let template = split(template.der()).and_then(|certificate| {
            let [body, algorithm, _] = <[Vec<u8>; 3]>::try_from(certificate).ok()?;
            let mut fields = split(&body)?;
            *fields.get_mut(SUBJECT)? = request.subject.clone();
            *fields.get_mut(PUBLIC_KEY)? = request.public_key.clone();
            Some((der(SEQUENCE, &fields.concat()), algorithm))
        });
        let (body, algorithm) = template.ok_or_else(|| PkiError::crypto(SIGN)("unexpected DER"))?;
        let signature = SigningKey::sign(self.key(), &body).map_err(PkiError::crypto(SIGN))?;
        let signature = der(BIT_STRING, &[&[0], &*signature].concat());
        let certificate = der(SEQUENCE, &[body, algorithm, signature].concat());
        let mut pem = pem_block(&certificate);
        if !self.is_self_signed() {
            pem.push_str(&first_block(&self.bundle_pem));
        }
        Ok(pem)
    }
}

/// What fails when it fails.
const SIGN: &str = "sign a certificate request";

/// Where subject and key are among the fields of a certificate (RFC 5280 section 4.1).
const SUBJECT: usize = 5;
const PUBLIC_KEY: usize = 6;
const BIT_STRING: u8 = 0x03;

/// The parts of a DER sequence, each with its tag and length.
fn split(sequence: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (_, whole) = Any::from_der(sequence).ok()?;
    let mut rest = whole.data;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (next, _) = Any::from_der(rest).ok()?;
        parts.push(rest[..rest.len() - next.len()].to_vec());
        rest = next;
    }
    Some(parts)
}

fn pem_block(certificate: &[u8]) -> String {
    let base64 = crate::schema::encode_bytes(certificate);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in base64.as_bytes().chunks(64) {
        // Base64 is ASCII.
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

/// The other names, in the order in which Go writes them.
fn names(names: &Names) -> Result<Vec<SanType>, rcgen::Error> {
    let mut all = Vec::new();
    for name in &names.dns {
        all.push(SanType::DnsName(name.as_str().try_into()?));
    }
    for name in &names.emails {
        all.push(SanType::Rfc822Name(name.as_str().try_into()?));
    }
    all.extend(names.addresses.iter().copied().map(SanType::IpAddress));
    for name in &names.uris {
        all.push(SanType::URI(name.as_str().try_into()?));
    }
    Ok(all)
}

enum Meaning {
    Key(Usage),
    Extended(Purpose),
}

/// What a usage of the API stands for in a certificate.
fn meaning(usage: &str) -> Option<Meaning> {
    use Meaning::{Extended, Key};
    let other = |oid: &[u64]| Extended(Purpose::Other(oid.to_vec()));
    Some(match usage {
        "signing" | "digital signature" => Key(Usage::DigitalSignature),
        "content commitment" => Key(Usage::ContentCommitment),
        "key encipherment" => Key(Usage::KeyEncipherment),
        "key agreement" => Key(Usage::KeyAgreement),
        "data encipherment" => Key(Usage::DataEncipherment),
        "cert sign" => Key(Usage::KeyCertSign),
        "crl sign" => Key(Usage::CrlSign),
        "encipher only" => Key(Usage::EncipherOnly),
        "decipher only" => Key(Usage::DecipherOnly),
        "any" => Extended(Purpose::Any),
        "server auth" => Extended(Purpose::ServerAuth),
        "client auth" => Extended(Purpose::ClientAuth),
        "code signing" => Extended(Purpose::CodeSigning),
        "email protection" | "s/mime" => Extended(Purpose::EmailProtection),
        "ipsec end system" => other(&[1, 3, 6, 1, 5, 5, 7, 3, 5]),
        "ipsec tunnel" => other(&[1, 3, 6, 1, 5, 5, 7, 3, 6]),
        "ipsec user" => other(&[1, 3, 6, 1, 5, 5, 7, 3, 7]),
        "timestamping" => Extended(Purpose::TimeStamping),
        "ocsp signing" => Extended(Purpose::OcspSigning),
        "microsoft sgc" => other(&[1, 3, 6, 1, 4, 1, 311, 10, 3, 3]),
        "netscape sgc" => other(&[2, 16, 840, 1, 113_730, 4, 1]),
        _ => return None,
    })
}
