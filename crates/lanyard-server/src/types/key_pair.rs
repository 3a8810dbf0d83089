//! Whether a certificate and a key in PEM belong together, with the texts of Go's `tls` package.
//!
//! For warnings only: a pair that does not fit is stored all the same, as upstream stores it.

use rustls::{
    crypto::aws_lc_rs::sign::any_supported_type,
    pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer},
};
use x509_parser::{parse_x509_certificate, x509::SubjectPublicKeyInfo};

use crate::pem::{self, Block};

/// What is wrong with a pair of PEM texts; nothing when they fit.
pub(super) fn problem(certificate: &[u8], key: &[u8]) -> Option<String> {
    let certificate = match first_certificate(certificate) {
        Ok(certificate) => certificate,
        Err(problem) => return Some(problem),
    };
    let key = match first_key(key) {
        Ok(key) => key,
        Err(problem) => return Some(problem),
    };
    let Ok((_, certificate)) = parse_x509_certificate(&certificate) else {
        return Some("x509: malformed certificate".into());
    };
    let Some(public) = public_key(&key) else {
        return Some("tls: failed to parse private key".into());
    };
    let expected = &certificate.tbs_certificate.subject_pki;
    if public == expected.raw {
        return None;
    }
    let same_type = algorithm(&public).is_some_and(|found| found == expected.algorithm.algorithm);
    Some(if same_type {
        "tls: private key does not match public key".into()
    } else {
        "tls: private key type does not match public key type".into()
    })
}

fn first_certificate(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut skipped = Vec::new();
    for Block { label, bytes, .. } in pem::blocks(text) {
        if label == "CERTIFICATE" {
            return Ok(bytes);
        }
        skipped.push(label);
    }
    Err(match skipped.as_slice() {
        [] => "tls: failed to find any PEM data in certificate input".into(),
        [only] if only.ends_with("PRIVATE KEY") => {
            "tls: failed to find certificate PEM data in certificate input, but did find a private \
             key; PEM inputs may have been switched"
                .into()
        }
        labels => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM \
             blocks of the following types: [{}]",
            labels.join(" ")
        ),
    })
}

fn first_key(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut skipped = Vec::new();
    for Block { label, bytes, .. } in pem::blocks(text) {
        if label == "PRIVATE KEY" || label.ends_with(" PRIVATE KEY") {
            return Ok(bytes);
        }
        skipped.push(label);
    }
    Err(match skipped.as_slice() {
        [] => "tls: failed to find any PEM data in key input".into(),
        [only] if only == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".into()
        }
        labels => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after \
             skipping PEM blocks of the following types: [{}]",
            labels.join(" ")
        ),
    })
}

/// The public half of a private key, whatever form it is in: labels are often wrong.
fn public_key(key: &[u8]) -> Option<Vec<u8>> {
    let forms: [PrivateKeyDer<'_>; 3] = [
        PrivatePkcs1KeyDer::from(key).into(),
        PrivatePkcs8KeyDer::from(key).into(),
        PrivateSec1KeyDer::from(key).into(),
    ];
    let key = forms.iter().find_map(|form| any_supported_type(form).ok())?;
    key.public_key().map(|public| public.to_vec())
}

fn algorithm(public: &[u8]) -> Option<x509_parser::oid_registry::Oid<'_>> {
    use x509_parser::prelude::FromDer;
    let (_, info) = SubjectPublicKeyInfo::from_der(public).ok()?;
    Some(info.algorithm.algorithm)
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, generate_simple_self_signed};

    use super::problem;

    #[test]
    fn a_key_must_belong_to_its_certificate() {
        let check = |certificate: &str, key: &str, expected: Option<&str>| {
            let found = problem(certificate.as_bytes(), key.as_bytes());
            assert_eq!(found.as_deref(), expected);
        };
        let made = generate_simple_self_signed(["a".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let other = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap().serialize_pem();
        let of_other_type = KeyPair::generate_for(&PKCS_ED25519).unwrap().serialize_pem();
        let block = |label: &str| format!("-----BEGIN {label}-----\neA==\n-----END {label}-----\n");
        let unknown = block("A") + &block("B C");

        check(&certificate, &key, None);
        check(&format!("words\n{certificate}{certificate}"), &key, None);
        check(&certificate, &other, Some("tls: private key does not match public key"));
        check(
            &certificate,
            &of_other_type,
            Some("tls: private key type does not match public key type"),
        );
        check("", "", Some("tls: failed to find any PEM data in certificate input"));
        check(&certificate, "", Some("tls: failed to find any PEM data in key input"));
        check(
            &key,
            &certificate,
            Some(
                "tls: failed to find certificate PEM data in certificate input, but did find a \
                 private key; PEM inputs may have been switched",
            ),
        );
        check(
            &certificate,
            &certificate,
            Some("tls: found a certificate rather than a key in the PEM for the private key"),
        );
        check(
            &unknown,
            "",
            Some(
                "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping \
                 PEM blocks of the following types: [A B C]",
            ),
        );
        check(
            &certificate,
            &unknown,
            Some(
                "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input \
                 after skipping PEM blocks of the following types: [A B C]",
            ),
        );
        check(&certificate, &block("PRIVATE KEY"), Some("tls: failed to parse private key"));
    }
}
