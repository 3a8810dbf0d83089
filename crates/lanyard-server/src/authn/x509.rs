//! Who a client certificate stands for: the common name is the user, each organization is a group.
//!
//! The TLS handshake has proved that the client holds the key. Here the chain is verified up to our CA;
//! nothing is read from a certificate before that.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{RootCertStore, crypto};
use sha2::{Digest, Sha256};
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::X509Name;

use super::{CREDENTIAL_ID, UserInfo};

/// Turns verified client certificates into users.
#[derive(Clone, Debug)]
pub struct CertAuthenticator {
    verifier: Arc<dyn ClientCertVerifier>,
}

/// A user, and how long the certificate vouches for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertIdentity {
    /// The user, without the groups that every authenticated user is in.
    pub user: UserInfo,
    /// From this moment on a certificate of the chain has expired: authenticate again, and refuse.
    pub not_after: Timestamp,
}

/// Why a certificate stands for nobody.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertRejected {
    /// Not from our CA, expired, not for clients, or broken.
    #[error("the client certificate cannot be verified")]
    Unverified(#[source] rustls::Error),
    /// Verified, yet our parser cannot read it.
    #[error("the client certificate cannot be parsed")]
    Unreadable,
    /// There is no common name, or it is empty.
    #[error("the client certificate names no user")]
    NoName,
    /// A name in an encoding that nobody should use.
    #[error("the subject of the client certificate is not in a supported string type")]
    BadText,
    /// More than one user id, or an empty one.
    #[error("the client certificate must hold one user id that is not empty, or none")]
    BadUid,
}

impl CertAuthenticator {
    /// Trusts the given CA certificates.
    pub fn new(roots: &[CertificateDer<'_>]) -> Result<Self, rustls::Error> {
        let mut store = RootCertStore::empty();
        for root in roots {
            store.add(root.clone().into_owned())?;
        }
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider)
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        Ok(Self { verifier })
    }

    /// Verifies a chain as the client sent it (its own certificate first) and reads the user from it.
    pub fn authenticate(
        &self,
        chain: &[CertificateDer<'_>],
        now: Timestamp,
    ) -> Result<CertIdentity, CertRejected> {
        let Some((end_entity, intermediates)) = chain.split_first() else {
            return Err(CertRejected::Unverified(rustls::Error::NoCertificatesPresented));
        };
        self.verifier
            .verify_client_cert(end_entity, intermediates, unix_time(now))
            .map_err(CertRejected::Unverified)?;
        let (_, certificate) =
            X509Certificate::from_der(end_entity).map_err(|_| CertRejected::Unreadable)?;
        Ok(CertIdentity {
            user: UserInfo {
                extra: [(CREDENTIAL_ID.to_owned(), vec![credential_id(end_entity)])].into(),
                ..user(certificate.subject())?
            },
            not_after: earliest_end(chain, now),
        })
    }
}

fn user(subject: &X509Name<'_>) -> Result<UserInfo, CertRejected> {
    let mut user = UserInfo::default();
    let mut uids = Vec::new();
    for attribute in subject.iter_attributes() {
        let text = || match attribute.as_str() {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(CertRejected::BadText),
        };
        match attribute.attr_type().to_id_string().as_str() {
            // Of several common names the last one counts, as in kube-apiserver.
            COMMON_NAME => user.name = text()?,
            ORGANIZATION => user.groups.push(text()?),
            USER_ID => uids.push(text()?),
            _ => {}
        }
    }
    if user.name.is_empty() {
        return Err(CertRejected::NoName);
    }
    match <[String; 1]>::try_from(uids) {
        Ok([uid]) if !uid.is_empty() => user.uid = uid,
        Err(uids) if uids.is_empty() => {}
        _ => return Err(CertRejected::BadUid),
    }
    Ok(user)
}

/// When the first certificate of the chain expires. Those that have expired by now were of no use to
/// the verification that has just succeeded, so they do not count.
fn earliest_end(chain: &[CertificateDer<'_>], now: Timestamp) -> Timestamp {
    let ends = chain.iter().filter_map(|der| {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        // The last second of the validity is part of it (RFC 5280 section 4.1.2.5).
        Timestamp::from_second(certificate.validity().not_after.timestamp() + 1).ok()
    });
    ends.filter(|end| *end > now).min().unwrap_or(Timestamp::MAX)
}

fn credential_id(certificate: &CertificateDer<'_>) -> String {
    format!("X509SHA256={:x}", Sha256::digest(certificate))
}

fn unix_time(time: Timestamp) -> UnixTime {
    let seconds = u64::try_from(time.as_second()).unwrap_or(0);
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

const COMMON_NAME: &str = "2.5.4.3";
const ORGANIZATION: &str = "2.5.4.10";
/// Kubernetes' own subject attribute for a user id (1.33 and later).
const USER_ID: &str = "1.3.6.1.4.1.57683.2";

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, DnValue,
        ExtendedKeyUsagePurpose, IsCa, KeyPair,
    };

    use super::*;

    type Ca = CertifiedIssuer<'static, KeyPair>;

    /// Certificates made below are valid in 2025.
    const NOW: &str = "2025-06-01T00:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn ca(name: &str) -> Ca {
        CertifiedIssuer::self_signed(ca_params(name), KeyPair::generate().unwrap()).unwrap()
    }

    fn ca_params(name: &str) -> CertificateParams {
        let mut params = params(&[(DnType::CommonName, name.into())]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.extended_key_usages.clear();
        params
    }

    fn params(subject: &[(DnType, DnValue)]) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(2025, 1, 1);
        params.not_after = rcgen::date_time_ymd(2026, 1, 1);
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), value.clone());
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params
    }

    fn alice() -> CertificateParams {
        params(&[(DnType::CommonName, "alice".into())])
    }

    fn sign(ca: &Ca, params: &CertificateParams) -> CertificateDer<'static> {
        params.signed_by(&KeyPair::generate().unwrap(), ca).unwrap().into()
    }

    fn trusting(ca: &Ca) -> CertAuthenticator {
        CertAuthenticator::new(&[ca.der().clone()]).unwrap()
    }

    fn oid(oid: &str) -> DnType {
        DnType::CustomDnType(oid.split('.').map(|arc| arc.parse().unwrap()).collect())
    }

    #[test]
    fn the_subject_names_user_groups_and_uid() {
        let ca = ca("ca");
        let certificate = sign(
            &ca,
            &params(&[
                (DnType::OrganizationName, "zebra".into()),
                (DnType::CommonName, "ignored".into()),
                (oid(ORGANIZATION), "ape".into()),
                (oid(COMMON_NAME), "alice".into()),
                (oid(USER_ID), "u-1".into()),
                (DnType::OrganizationalUnitName, "no group".into()),
            ]),
        );
        let identity =
            trusting(&ca).authenticate(std::slice::from_ref(&certificate), now()).unwrap();
        let id = identity.user.extra["authentication.kubernetes.io/credential-id"].clone();
        assert_eq!(id, [credential_id(&certificate)]);
        assert!(id[0].starts_with("X509SHA256=") && id[0].len() == 11 + 64, "{id:?}");
        assert_eq!(identity.user.name, "alice");
        assert_eq!(identity.user.uid, "u-1");
        assert_eq!(identity.user.groups, ["zebra", "ape"]);
        assert_eq!(identity.not_after.to_string(), "2026-01-01T00:00:01Z");
    }

    #[test]
    fn a_certificate_that_proves_nothing_is_rejected() {
        let ours = ca("ca");
        let check = |ca: &Ca, params: &CertificateParams, at: Timestamp, reason: &str| {
            let chain = [sign(ca, params)];
            let rejected = trusting(&ours).authenticate(&chain, at).unwrap_err();
            let text = format!("{rejected:?}");
            assert!(text.contains(reason), "{text} should be {reason}");
        };
        check(&ca("other"), &alice(), now(), "UnknownIssuer");
        check(&ca("ca"), &alice(), now(), "BadSignature");
        check(&ours, &alice(), now() + SignedDuration::from_hours(365 * 24), "Expired");
        check(&ours, &alice(), now() - SignedDuration::from_hours(365 * 24), "NotValidYet");
        let mut for_servers = alice();
        for_servers.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        check(&ours, &for_servers, now(), "InvalidPurpose");
        check(&ours, &ca_params("alice"), now(), "CaUsedAsEndEntity");
        check(&ours, &params(&[]), now(), "NoName");
        check(&ours, &params(&[(DnType::OrganizationName, "g".into())]), now(), "NoName");
        check(&ours, &params(&[(DnType::CommonName, "".into())]), now(), "NoName");
        let empty_uid = [(DnType::CommonName, "alice".into()), (oid(USER_ID), "".into())];
        check(&ours, &params(&empty_uid), now(), "BadUid");
        let bmp = DnValue::BmpString("alice".try_into().unwrap());
        check(&ours, &params(&[(DnType::CommonName, bmp)]), now(), "BadText");
    }

    #[test]
    fn without_certificate_there_is_nobody() {
        assert!(trusting(&ca("ca")).authenticate(&[], now()).is_err());
        let garbage = CertificateDer::from(vec![0x30, 0x03, 1, 2, 3]);
        assert!(trusting(&ca("ca")).authenticate(&[garbage], now()).is_err());
    }

    #[test]
    fn a_chain_through_an_intermediate_ends_with_its_first_certificate_to_expire() {
        let root = ca("root");
        let mut middle = ca_params("middle");
        middle.not_after = rcgen::date_time_ymd(2025, 9, 1);
        let key = KeyPair::generate().unwrap();
        let middle = CertifiedIssuer::signed_by(middle, key, &root).unwrap();
        let mut expired = ca_params("unused");
        expired.not_after = rcgen::date_time_ymd(2025, 2, 1);
        let chain = [sign(&middle, &alice()), middle.der().clone(), sign(&root, &expired)];
        let identity = trusting(&root).authenticate(&chain, now()).unwrap();
        assert_eq!(identity.not_after.to_string(), "2025-09-01T00:00:01Z");
        assert!(trusting(&root).authenticate(&chain, identity.not_after).is_err());
        assert!(trusting(&root).authenticate(&chain[..1], now()).is_err());
    }
}
