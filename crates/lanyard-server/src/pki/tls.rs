//! The TLS side of the server: which certificate it shows, and what it asks of a client's.
//!
//! As kube-apiserver does, it asks every client for a certificate and requires none. In the handshake
//! the client only proves that it holds the key: whether the certificate is one of ours is decided for
//! each connection by [`CertAuthenticator`](crate::authn::CertAuthenticator), so that a stranger gets
//! an HTTP 401 that says so instead of a broken connection.
//!
//! Sessions are resumed from memory. rustls keeps the client's certificate chain in the session and
//! reports it again on a resumed connection, where it is checked anew: resumption saves the handshake,
//! never the authentication. Early data is off, since it could be replayed.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    ClientHello, ParsedCertificate, ResolvesServerCert, ServerSessionMemoryCache,
};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};

use super::leaf::Leaf;
use super::{Pki, PkiError};

/// The configuration of the server's TLS port. It follows renewals of the serving certificate by itself.
pub fn server_config(pki: &Pki) -> Result<Arc<ServerConfig>, PkiError> {
    let provider = Arc::new(provider());
    let verifier = PossessionVerifier {
        hints: pki.ca_subjects(),
        algorithms: provider.signature_verification_algorithms,
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(PkiError::crypto("set up TLS"))?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_cert_resolver(pki.serving());
    config.ignore_client_order = true;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    Ok(Arc::new(config))
}

/// AES-128 goes first, as in Go's servers: it is a good part cheaper than AES-256, and strong enough.
fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| {
        use rustls::CipherSuite as Suite;
        !matches!(
            suite.suite(),
            Suite::TLS13_AES_128_GCM_SHA256
                | Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
                | Suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
        )
    });
    provider
}

/// The serving certificate in use; replaced as a whole, while connections go on.
pub(super) struct ServingCertificate(ArcSwap<CertifiedKey>);

impl ServingCertificate {
    pub(super) fn new(leaf: &Leaf) -> Result<Self, PkiError> {
        certified_key(leaf).map(|key| Self(ArcSwap::from_pointee(key)))
    }

    /// Shows `leaf` on all connections from now on.
    pub(super) fn replace(&self, leaf: &Leaf) -> Result<(), PkiError> {
        self.0.store(Arc::new(certified_key(leaf)?));
        Ok(())
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCertificate").finish_non_exhaustive()
    }
}

fn certified_key(leaf: &Leaf) -> Result<CertifiedKey, PkiError> {
    let provider: CryptoProvider = aws_lc_rs::default_provider();
    CertifiedKey::from_der(leaf.chain.clone(), leaf.key_der()?, &provider)
        .map_err(PkiError::crypto("use the serving certificate"))
}

/// Lets every client in that holds the key of the certificate it shows, or shows none.
#[derive(Debug)]
struct PossessionVerifier {
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for PossessionVerifier {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        ParsedCertificate::try_from(end_entity)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Each holds a client's certificate chain, so this bounds the memory to a few MiB.
const SESSIONS: usize = 1024;

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use jiff::{SignedDuration, Timestamp};
    use rcgen::KeyPair;
    use rustls::client::{ResolvesClientCert, Resumption};
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{
        ClientConfig, ClientConnection, HandshakeKind, RootCertStore, ServerConnection,
        SupportedProtocolVersion,
    };
    use tempfile::TempDir;

    use super::super::PkiOptions;
    use super::*;
    use crate::authn::{CertAuthenticator, CertRejected};

    const BOTH: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

    fn pki_at(now: Timestamp) -> (TempDir, Pki) {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::open_or_create_at(dir.path(), &PkiOptions::default(), now).unwrap();
        (dir, pki)
    }

    fn client(
        pki: &Pki,
        version: &'static SupportedProtocolVersion,
        identity: Option<CertifiedKey>,
    ) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(pki.ca_certificates().iter().cloned());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots);
        let resolver = Identity { key: identity.map(Arc::new), hints: Mutex::default() };
        let mut config = builder.with_client_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = Resumption::in_memory_sessions(8);
        Arc::new(config)
    }

    /// Shows one certificate whatever the server asks for.
    #[derive(Debug)]
    struct Identity {
        key: Option<Arc<CertifiedKey>>,
        hints: Mutex<Vec<Vec<u8>>>,
    }

    impl ResolvesClientCert for Identity {
        fn resolve(&self, hints: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
            *self.hints.lock() = hints.iter().map(|hint| hint.to_vec()).collect();
            self.key.clone()
        }

        fn has_certs(&self) -> bool {
            self.key.is_some()
        }
    }

    fn admin(pki: &Pki) -> CertifiedKey {
        certified_key(&pki.admin_leaf.load()).unwrap()
    }

    fn connect(
        server: &Arc<ServerConfig>,
        client: &Arc<ClientConfig>,
    ) -> Result<(ServerConnection, ClientConnection), Error> {
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(client.clone(), name).unwrap();
        let mut server = ServerConnection::new(server.clone()).unwrap();
        // Past the end of the handshake, so that the session tickets arrive too.
        for _ in 0..10 {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).unwrap();
            server.read_tls(&mut &wire[..]).unwrap();
            server.process_new_packets()?;
            wire.clear();
            server.write_tls(&mut wire).unwrap();
            client.read_tls(&mut &wire[..]).unwrap();
            client.process_new_packets()?;
        }
        assert!(!client.is_handshaking() && !server.is_handshaking());
        Ok((server, client))
    }

    fn user(pki: &Pki, server: &ServerConnection) -> Result<String, CertRejected> {
        let authenticator = CertAuthenticator::new(pki.ca_certificates()).unwrap();
        let chain = server.peer_certificates().unwrap();
        authenticator.authenticate(chain, Timestamp::now()).map(|identity| identity.user.name)
    }

    #[test]
    fn the_admin_is_recognised() {
        let (_dir, pki) = pki_at(Timestamp::now());
        let config = server_config(&pki).unwrap();
        for version in BOTH {
            let (server, _) = connect(&config, &client(&pki, version, Some(admin(&pki)))).unwrap();
            assert_eq!(server.alpn_protocol(), Some(&b"h2"[..]));
            assert_eq!(user(&pki, &server).unwrap(), "lanyard-admin");
        }
    }

    #[test]
    fn a_client_without_certificate_is_let_in() {
        let (_dir, pki) = pki_at(Timestamp::now());
        let config = server_config(&pki).unwrap();
        for version in BOTH {
            let (server, _) = connect(&config, &client(&pki, version, None)).unwrap();
            assert!(server.peer_certificates().is_none());
        }
    }

    #[test]
    fn a_stranger_connects_but_is_nobody() {
        let (_dir, pki) = pki_at(Timestamp::now());
        let (_other_dir, other) = pki_at(Timestamp::now());
        let config = server_config(&pki).unwrap();
        for version in BOTH {
            let stranger = client(&pki, version, Some(admin(&other)));
            let (server, _) = connect(&config, &stranger).unwrap();
            assert!(matches!(user(&pki, &server), Err(CertRejected::Unverified(_))));
        }
    }

    #[test]
    fn a_certificate_without_its_key_is_worth_nothing() {
        let (_dir, pki) = pki_at(Timestamp::now());
        let config = server_config(&pki).unwrap();
        let key = KeyPair::generate().unwrap().serialize_der();
        let key = PrivateKeyDer::try_from(key).unwrap();
        let key = aws_lc_rs::default_provider().key_provider.load_private_key(key).unwrap();
        for version in BOTH {
            let thief = CertifiedKey::new(admin(&pki).cert, key.clone());
            let error = connect(&config, &client(&pki, version, Some(thief))).unwrap_err();
            assert!(error.to_string().contains("BadSignature"), "{error}");
        }
    }

    #[test]
    fn a_resumed_session_still_knows_the_client() {
        let (_dir, pki) = pki_at(Timestamp::now());
        let config = server_config(&pki).unwrap();
        for version in BOTH {
            let client = client(&pki, version, Some(admin(&pki)));
            let (first, _) = connect(&config, &client).unwrap();
            let (second, _) = connect(&config, &client).unwrap();
            assert_eq!(second.handshake_kind(), Some(HandshakeKind::Resumed), "{version:?}");
            assert_eq!(second.peer_certificates(), first.peer_certificates());
            assert_eq!(user(&pki, &second).unwrap(), "lanyard-admin");
        }
    }

    #[test]
    fn a_renewed_certificate_is_shown_to_the_next_client() {
        let now = Timestamp::now();
        let (_dir, pki) = pki_at(now - SignedDuration::from_hours(300 * 24));
        let config = server_config(&pki).unwrap();
        let shown = || {
            let (_, client) = connect(&config, &client(&pki, &TLS13, None)).unwrap();
            client.peer_certificates().unwrap().to_vec()
        };
        let before = shown();
        assert!(pki.renew_if_due(now).unwrap().serving);
        assert_ne!(shown(), before);
        assert_eq!(shown(), pki.serving_leaf.load().chain);
    }

    #[test]
    fn clients_are_told_which_ca_is_asked_for() {
        let (_dir, pki) = pki_at(Timestamp::now());
        let config = server_config(&pki).unwrap();
        assert_eq!(pki.ca_subjects().len(), 1);
        let resolver =
            Arc::new(Identity { key: Some(Arc::new(admin(&pki))), hints: Mutex::default() });
        let mut client = Arc::unwrap_or_clone(client(&pki, &TLS13, None));
        client.client_auth_cert_resolver = resolver.clone();
        connect(&config, &Arc::new(client)).unwrap();
        let hints = resolver.hints.lock();
        assert_eq!(*hints, [pki.ca_subjects()[0].as_ref().to_vec()]);
    }
}
