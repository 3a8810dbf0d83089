//! The life of a key directory: first start, restart, renewal, change, sabotage.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P384_SHA384,
};
use tempfile::TempDir;

use super::names::{Name, names_of};
use super::*;

fn start() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(24 * days)
}

fn open(dir: &TempDir, now: Timestamp) -> Result<Pki, PkiError> {
    Pki::open_or_create_at(dir.path(), &PkiOptions::default(), now)
}

fn fresh() -> (TempDir, Pki) {
    let dir = tempfile::tempdir().unwrap();
    let pki = open(&dir, start()).unwrap();
    (dir, pki)
}

fn file(dir: &TempDir, name: &str) -> PathBuf {
    dir.path().join("pki").join(name)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn admin(pki: &Pki) -> Vec<CertificateDer<'static>> {
    pki.admin_leaf.load().chain.clone()
}

fn served(pki: &Pki) -> Vec<CertificateDer<'static>> {
    pki.serving_leaf.load().chain.clone()
}

fn served_names(pki: &Pki) -> BTreeSet<Name> {
    names_of(&authority::parse(&served(pki)[0]).unwrap())
}

/// A CA of the operator's, put in place before the first start.
fn bring_ca(dir: &TempDir, ca: &str, key: &KeyPair) {
    fs::create_dir_all(dir.path().join("pki")).unwrap();
    fs::write(file(dir, "ca.crt"), ca).unwrap();
    fs::write(file(dir, "ca.key"), key.serialize_pem()).unwrap();
    fs::set_permissions(file(dir, "ca.key"), Permissions::from_mode(0o600)).unwrap();
}

fn ca_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

#[test]
fn the_first_start_makes_everything_and_keeps_it_to_the_owner() {
    let (dir, pki) = fresh();
    assert_eq!(mode(&dir.path().join("pki")), 0o700);
    let check = |name: &str, expected: u32| assert_eq!(mode(&file(&dir, name)), expected, "{name}");
    for key in ["ca.key", "serving.key", "admin.key", "sa.key"] {
        check(key, 0o600);
    }
    for public in ["ca.crt", "serving.crt", "admin.crt", "sa.pub"] {
        check(public, 0o644);
    }
    assert_eq!(fs::read_dir(dir.path().join("pki")).unwrap().count(), 9);

    assert_eq!(pki.ca_not_after(), start() + CA_VALIDITY);
    assert_eq!(pki.serving_not_after(), start() + LEAF_VALIDITY);
    let names = served_names(&pki);
    for name in ["localhost", "kubernetes.default.svc.cluster.local"] {
        assert!(names.contains(&Name::Dns(name.into())), "{name}");
    }
    for address in ["127.0.0.1", "::1"] {
        assert!(names.contains(&Name::Ip(address.parse().unwrap())), "{address}");
    }
}

#[test]
fn a_restart_finds_what_it_left() {
    let (dir, first) = fresh();
    let again = open(&dir, start() + days(100)).unwrap();
    assert_eq!(again.ca_certificates(), first.ca_certificates());
    assert_eq!(served(&again), served(&first));
    assert_eq!(admin(&again), admin(&first));
    let [old, new] = [&first, &again].map(|pki| pki.service_account_keys().clone());
    assert_eq!(old.verifying(), new.verifying());
    assert_eq!(old.expose_signing_key(), new.expose_signing_key());
}

#[test]
fn other_names_need_another_serving_certificate_only() {
    let (dir, first) = fresh();
    let options = PkiOptions { sans: vec!["api.example.org".into(), "192.0.2.7".into()] };
    let again = Pki::open_or_create_at(dir.path(), &options, start()).unwrap();
    let names = served_names(&again);
    assert!(names.contains(&Name::Dns("api.example.org".into())));
    assert!(names.contains(&Name::Ip("192.0.2.7".parse().unwrap())));
    assert_eq!(again.ca_certificates(), first.ca_certificates());
    assert_eq!(admin(&again), admin(&first));
    let third = Pki::open_or_create_at(dir.path(), &options, start()).unwrap();
    assert_eq!(served(&third), served(&again));
}

#[test]
fn certificates_are_renewed_when_a_third_of_their_life_is_left() {
    let (dir, pki) = fresh();
    let before = served(&pki);
    let check = |at: Timestamp, expected: Renewed| {
        assert_eq!(pki.renew_if_due(at).unwrap(), expected, "{at}");
    };
    let [none, both] = [Renewed::default(), Renewed { serving: true, admin: true }];
    check(start() + days(1), none);
    check(start() + days(243), none);
    check(start() + days(244), both);
    check(start() + days(244), none);
    assert_eq!(pki.serving_not_after(), start() + days(244 + 365));
    assert_ne!(served(&pki), before);
    check(start() + days(3000), both);
    let restarted = open(&dir, start() + days(3001)).unwrap();
    assert_eq!(served(&restarted), served(&pki));
}

#[test]
fn a_renewal_by_another_process_is_taken_up() {
    let (dir, one) = fresh();
    let other = open(&dir, start()).unwrap();
    let due = start() + days(300);
    assert!(one.renew_if_due(due).unwrap().serving);
    assert_eq!(other.renew_if_due(due).unwrap(), Renewed { serving: true, admin: true });
    assert_eq!(served(&one), served(&other));
    assert_eq!(admin(&one), admin(&other));
}

#[test]
fn nothing_outlives_the_ca() {
    let (dir, pki) = fresh();
    let last_year = pki.ca_not_after() - days(30);
    assert!(pki.renew_if_due(last_year).unwrap().serving);
    assert_eq!(pki.serving_not_after(), pki.ca_not_after());
    let error = open(&dir, pki.ca_not_after() + days(1)).unwrap_err().to_string();
    assert!(error.contains("ca.crt expired at 2039-12-30"), "{error}");
}

#[test]
fn processes_that_start_at_once_agree() {
    let dir = tempfile::tempdir().unwrap();
    let all: Vec<Pki> = thread::scope(|scope| {
        let starters: Vec<_> =
            (0..8).map(|_| scope.spawn(|| open(&dir, start()).unwrap())).collect();
        starters.into_iter().map(|starter| starter.join().unwrap()).collect()
    });
    for pki in &all[1..] {
        assert_eq!(pki.ca_certificates(), all[0].ca_certificates());
        assert_eq!(served(pki), served(&all[0]));
        assert_eq!(
            pki.service_account_keys().expose_signing_key(),
            all[0].service_account_keys().expose_signing_key()
        );
    }
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    for name in ["ca.key", "serving.key", "admin.key", "sa.key"] {
        let (dir, _) = fresh();
        fs::set_permissions(file(&dir, name), Permissions::from_mode(0o640)).unwrap();
        let error = open(&dir, start()).unwrap_err().to_string();
        assert!(
            error.contains(&format!("pki/{name} is open to other users (mode 0640)")),
            "{error}"
        );
        assert!(error.contains("chmod 600"), "{error}");
    }
}

#[test]
fn files_that_cannot_be_used_are_named_and_left_alone() {
    let (other, _) = fresh();
    let foreign = |name: &str| fs::read(file(&other, name)).unwrap();
    let check = |name: &str, content: Option<Vec<u8>>, expected: &str, remedy: &str| {
        let (dir, _) = fresh();
        match &content {
            Some(content) => fs::write(file(&dir, name), content).unwrap(),
            None => fs::remove_file(file(&dir, name)).unwrap(),
        }
        let error = open(&dir, start()).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error} should contain {expected}");
        assert!(error.contains(remedy), "{name}: {error} should contain {remedy}");
        assert_eq!(fs::read(file(&dir, name)).ok(), content, "{name} has been touched");
    };
    let garbage = || Some(b"garbage".to_vec());
    check("ca.crt", None, "pki/ca.crt is missing", "from a backup");
    check("ca.key", None, "pki/ca.key is missing", "from a backup");
    check("ca.crt", garbage(), "pki/ca.crt holds no certificate", "from a backup");
    check("ca.key", garbage(), "pki/ca.key does not hold one", "from a backup");
    check("ca.crt", Some(foreign("ca.crt")), "pki/ca.crt does not begin", "from a backup");
    check("ca.key", Some(foreign("ca.key")), "pki/ca.crt does not begin", "from a backup");
    check("ca.crt", Some(foreign("admin.crt")), "not one of a CA", "from a backup");
    check("ca.crt", Some(foreign("ca.key")), "something other than", "from a backup");
    check("serving.crt", None, "is missing", "remove serving.crt and serving.key");
    check("serving.key", None, "is missing", "remove serving.crt and serving.key");
    check("serving.crt", garbage(), "holds no certificate", "remove serving.crt");
    check("serving.key", Some(foreign("serving.key")), "does not belong to the key", "remove");
    check("serving.key", garbage(), "no usable key", "remove serving.crt");
    check("admin.key", Some(foreign("admin.key")), "admin.crt does not belong", "remove admin.crt");
    check("sa.key", garbage(), "pki/sa.key does not hold one", "restore it");
    check("sa.key", None, "pki/sa.key is missing", "rename sa.pub");
    check("sa.pub", garbage(), "pki/sa.pub is not a PEM public key", "remove it");
    check("sa.pub", Some(foreign("sa.pub")), "does not belong to sa.key", "rename sa.pub");
    check("sa-old.pub", garbage(), "pki/sa-old.pub is not a PEM public key", "remove it");
}

#[test]
fn certificates_of_another_ca_are_not_used() {
    let (dir, _) = fresh();
    let (other, _) = fresh();
    for name in ["ca.crt", "ca.key"] {
        fs::copy(file(&other, name), file(&dir, name)).unwrap();
    }
    let error = open(&dir, start()).unwrap_err().to_string();
    assert!(error.contains("serving.crt was not issued by ca.crt"), "{error}");
}

#[test]
fn an_operator_may_bring_a_ca() {
    let dir = tempfile::tempdir().unwrap();
    let key = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let ca = ca_params("Example Root").self_signed(&key).unwrap();
    bring_ca(&dir, &ca.pem(), &key);
    let pki = open(&dir, start()).unwrap();
    assert_eq!(pki.ca_certificates(), [ca.der().clone()]);
    assert_eq!(served(&pki).len(), 1);
    assert_eq!(mode(&dir.path().join("pki")), 0o700);
}

#[test]
fn a_ca_that_cannot_issue_is_refused() {
    let check = |params: CertificateParams, expected: &str| {
        let dir = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        bring_ca(&dir, &params.self_signed(&key).unwrap().pem(), &key);
        let error = open(&dir, start()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let mut twice = ca_params("ca");
    for kind in [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])] {
        twice.distinguished_name.push(kind, "Example");
    }
    check(twice, "ca.crt has a subject that cannot be put into");
    let mut powerless = ca_params("ca");
    powerless.key_usages = vec![KeyUsagePurpose::CrlSign];
    check(powerless, "ca.crt begins with a certificate that may not sign others");
}

#[test]
fn an_intermediate_ca_is_shown_with_what_it_issued() {
    let dir = tempfile::tempdir().unwrap();
    let root =
        CertifiedIssuer::self_signed(ca_params("root"), KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let middle = ca_params("middle").signed_by(&key, &root).unwrap();
    bring_ca(&dir, &format!("# our CA\n{}\n{}", middle.pem(), root.pem()), &key);
    let pki = open(&dir, start()).unwrap();
    assert_eq!(pki.ca_certificates(), [middle.der().clone(), root.der().clone()]);
    assert_eq!(served(&pki)[1..], [middle.der().clone()]);
    assert_eq!(served(&open(&dir, start()).unwrap()), served(&pki));
}

#[test]
fn a_replaced_token_key_still_verifies() {
    let (dir, first) = fresh();
    fs::rename(file(&dir, "sa.pub"), file(&dir, "sa-2030.pub")).unwrap();
    fs::remove_file(file(&dir, "sa.key")).unwrap();
    let again = open(&dir, start()).unwrap();
    let [old, new] = [&first, &again].map(|pki| pki.service_account_keys().verifying().to_vec());
    assert_eq!(new.len(), 2);
    assert_eq!(new[1], old[0]);
    fs::remove_file(file(&dir, "sa.pub")).unwrap();
    let third = open(&dir, start()).unwrap();
    assert_eq!(third.service_account_keys().verifying(), new);
}

#[test]
fn the_admin_kubeconfig_is_for_its_owner() {
    let (dir, pki) = fresh();
    let path = dir.path().join("admin.kubeconfig");
    for url in ["https://127.0.0.1:1", "https://127.0.0.1:6443"] {
        pki.write_admin_kubeconfig(&path, url).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(&format!("server: \"{url}\"")), "{text}");
    }
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn one_pki_serves_all_tasks() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Pki>();
}

#[test]
fn printing_shows_no_keys() {
    let (_dir, pki) = fresh();
    let keys = pki.service_account_keys();
    let text = format!("{pki:?} {keys:?}");
    assert!(!text.contains("PRIVATE") && !text.contains("signing"), "{text}");
}

mod signing {
    use x509_parser::prelude::{FromDer, X509Certificate};

    use super::*;
    use crate::authn::CertAuthenticator;
    use crate::certificate_request::{CertificateRequest, tests::request};
    use crate::pem;

    fn sign(pki: &Pki, subject: &str, usages: &[&str], seconds: Option<i64>) -> Vec<u8> {
        let names = [rcgen::SanType::DnsName("a.example".try_into().unwrap())];
        let request = CertificateRequest::parse(request(subject, &names).as_bytes()).unwrap();
        let expiration = seconds.map(SignedDuration::from_secs);
        let text = pki.sign(&request, usages, expiration, start()).unwrap();
        let blocks: Vec<_> = pem::blocks(text.as_bytes()).collect();
        assert_eq!((blocks.len(), blocks[0].label.as_str()), (1, "CERTIFICATE"));
        blocks.into_iter().next().unwrap().bytes
    }

    #[test]
    fn a_signed_request_authenticates_its_user_with_all_groups() {
        let (_dir, pki) = fresh();
        let subject = "O=one CN=me O2=two UID=42";
        let der = sign(&pki, subject, &["client auth", "digital signature"], None);
        let authenticator = CertAuthenticator::new(pki.ca_certificates()).unwrap();
        let identity = authenticator.authenticate(&[der.into()], start()).unwrap();
        assert_eq!(identity.user.name, "me");
        assert_eq!(identity.user.groups, ["one", "two"]);
        assert_eq!(identity.user.uid, "");
    }

    #[test]
    fn a_certificate_says_what_was_approved_and_no_more() {
        let (_dir, pki) = fresh();
        let usages = ["server auth", "signing", "digital signature", "key encipherment"];
        let der = sign(&pki, "CN=x", &usages, None);
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        let ca = authority::parse(&pki.ca_certificates()[0]).unwrap();
        certificate.verify_signature(Some(ca.public_key())).unwrap();
        assert_eq!(certificate.issuer().as_raw(), ca.subject().as_raw());
        assert!(!certificate.is_ca() && certificate.basic_constraints().unwrap().is_some());
        let usage = certificate.key_usage().unwrap().unwrap().value;
        assert!(usage.digital_signature() && usage.key_encipherment() && !usage.key_cert_sign());
        let purposes = certificate.extended_key_usage().unwrap().unwrap().value;
        assert!(purposes.server_auth && !purposes.client_auth);
        let names = certificate.subject_alternative_name().unwrap().unwrap().value;
        assert_eq!(names.general_names.len(), 1);
        assert_ne!(der, sign(&pki, "CN=x", &usages, None), "each has a serial number of its own");
    }

    #[test]
    fn a_life_is_as_long_as_asked_within_limits() {
        let (_dir, pki) = fresh();
        let check = |seconds: Option<i64>, expected: i64| {
            let der = sign(&pki, "CN=x", &["client auth"], seconds);
            let (_, certificate) = X509Certificate::from_der(&der).unwrap();
            let validity = certificate.validity();
            assert_eq!(validity.not_before.timestamp(), start().as_second() - 300);
            assert_eq!(validity.not_after.timestamp() - start().as_second(), expected);
        };
        const YEAR: i64 = 365 * 24 * 3600;
        check(None, YEAR - 300);
        check(Some(i64::from(i32::MAX)), YEAR - 300);
        check(Some(600), 600);
        check(Some(1), 600);
        check(Some(7 * 3600), 7 * 3600);
        check(Some(8 * 3600), 8 * 3600 - 300);
    }

    #[test]
    fn no_certificate_outlives_the_authority() {
        let (_dir, pki) = fresh();
        let request = CertificateRequest::parse(request("CN=x", &[]).as_bytes()).unwrap();
        let late = pki.ca_not_after().checked_sub(SignedDuration::from_hours(1)).unwrap();
        let text = pki.sign(&request, &["client auth"], None, late).unwrap();
        let der = pem::blocks(text.as_bytes()).next().unwrap().bytes;
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        let end = certificate.validity().not_after.timestamp();
        assert_eq!(end, pki.ca_not_after().as_second());
        assert!(pki.sign(&request, &["client auth"], None, pki.ca_not_after()).is_err());
        assert!(pki.sign(&request, &["thing"], None, start()).is_err());
    }
}
