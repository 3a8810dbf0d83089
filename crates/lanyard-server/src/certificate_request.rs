//! Certificate requests (PKCS #10): what somebody wants certified, read as Go's `crypto/x509` reads it.
//!
//! Only what ends up in a certificate is kept. The subject is written anew from the attributes that Go
//! knows, so that nothing else, the user id of Kubernetes for one, slips through into a certificate.

use std::net::IpAddr;

use aws_lc_rs::signature;
use x509_parser::{
    certification_request::X509CertificationRequest,
    error::X509Error,
    extensions::{GeneralName, ParsedExtension},
    prelude::FromDer,
    x509::X509Name,
};

use crate::pem;

/// A request whose signature was verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CertificateRequest {
    /// The name of the user or server; of several the last one.
    pub(crate) common_name: String,
    /// The groups.
    pub(crate) organizations: Vec<String>,
    /// The subject as DER.
    pub(crate) subject: Vec<u8>,
    /// The public key as DER (SubjectPublicKeyInfo).
    pub(crate) public_key: Vec<u8>,
    /// The other names.
    pub(crate) names: Names,
}

/// The subject alternative names of a request, without those of rarer kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) dns: Vec<String>,
    pub(crate) emails: Vec<String>,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) uris: Vec<String>,
}

impl CertificateRequest {
    /// Reads the first block of a PEM text and verifies that the requester has the key.
    ///
    /// # Errors
    /// What is wrong with it, worded as upstream words it where upstream's words are its own.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, String> {
        let block = pem::blocks(text).next().filter(|block| block.label == "CERTIFICATE REQUEST");
        let block = block.ok_or("PEM block type must be CERTIFICATE REQUEST")?;
        let (rest, request) = X509CertificationRequest::from_der(&block.bytes)
            .map_err(|_| "asn1: structure error: malformed certificate request")?;
        if !rest.is_empty() {
            return Err("asn1: syntax error: trailing data".into());
        }
        let info = &request.certification_request_info;
        let mut found = Self { public_key: info.subject_pki.raw.to_vec(), ..Self::default() };
        found.read_subject(&info.subject)?;
        for extension in request.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(names) = extension {
                found.names = Names::read(&names.general_names)?;
            }
        }
        check_signature(&request)?;
        Ok(found)
    }

    fn read_subject(&mut self, subject: &X509Name<'_>) -> Result<(), String> {
        let mut values: [Vec<String>; ATTRIBUTES.len()] = Default::default();
        for attribute in subject.iter_attributes() {
            let oid = attribute.attr_type().as_bytes();
            let known = ATTRIBUTES.iter().position(|last| oid == [0x55, 0x04, *last]);
            let Some(known) = known else { continue };
            let text = attribute.as_str().map_err(|_| "x509: unsupported string type")?;
            values[known].push(text.to_owned());
        }
        // Of the last two there can be one only.
        for single in &mut values[ATTRIBUTES.len() - 2..] {
            let last = single.pop().filter(|value| !value.is_empty());
            *single = last.into_iter().collect();
        }
        self.subject = write_subject(&values);
        let [_, organizations, .., common_name, _] = values;
        self.organizations = organizations;
        self.common_name = common_name.into_iter().next().unwrap_or_default();
        Ok(())
    }
}

impl Names {
    fn read(names: &[GeneralName<'_>]) -> Result<Self, String> {
        let mut found = Self::default();
        for name in names {
            match name {
                GeneralName::DNSName(name) => found.dns.push((*name).to_owned()),
                GeneralName::RFC822Name(name) => found.emails.push((*name).to_owned()),
                GeneralName::URI(name) => found.uris.push((*name).to_owned()),
                GeneralName::IPAddress(bytes) => found.addresses.push(address(bytes)?),
                GeneralName::Invalid(..) => return Err("x509: malformed SAN extension".into()),
                _ => {}
            }
        }
        let texts = found.dns.iter().chain(&found.emails).chain(&found.uris);
        match texts.into_iter().all(|text| text.is_ascii()) {
            true => Ok(found),
            false => Err("x509: SAN is malformed".into()),
        }
    }
}

/// The attributes of a subject that are kept, by the last part of their identifier (2.5.4.x), in the
/// order in which Go writes them: country, organization, unit, locality, province, street, postal code,
/// common name, serial number.
const ATTRIBUTES: [u8; 9] = [6, 10, 11, 7, 8, 9, 17, 3, 5];

fn address(bytes: &[u8]) -> Result<IpAddr, String> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .map_err(|_| format!("x509: cannot parse IP address of length {}", bytes.len()))
}

fn check_signature(request: &X509CertificationRequest<'_>) -> Result<(), String> {
    const SHA1_WITH_RSA: [&str; 2] = ["1.2.840.113549.1.1.5", "1.3.14.3.2.29"];
    const ECDSA_WITH_SHA512: &str = "1.2.840.10045.4.3.4";
    let algorithm = request.signature_algorithm.algorithm.to_id_string();
    if SHA1_WITH_RSA.contains(&algorithm.as_str()) {
        return Err("x509: cannot verify signature: insecure algorithm SHA1-RSA".into());
    }
    let info = &request.certification_request_info;
    if algorithm == ECDSA_WITH_SHA512 {
        // The curve is in the key: one of another curve does not verify.
        let key = &info.subject_pki.subject_public_key.data;
        let key = signature::UnparsedPublicKey::new(&signature::ECDSA_P521_SHA512_ASN1, key);
        let verified = key.verify(info.raw, &request.signature_value.data);
        return verified.map_err(|_| "x509: ECDSA verification failure".into());
    }
    request.verify_signature().map_err(|error| match error {
        X509Error::SignatureVerificationError => match algorithm.as_str() {
            "1.3.101.112" => "x509: Ed25519 verification failure".into(),
            ecdsa if ecdsa.starts_with("1.2.840.10045.") => {
                "x509: ECDSA verification failure".into()
            }
            _ => "crypto/rsa: verification error".into(),
        },
        _ => "x509: cannot verify signature: algorithm unimplemented".into(),
    })
}

/// A subject as Go writes it: one set per attribute, with all its values.
fn write_subject(values: &[Vec<String>; ATTRIBUTES.len()]) -> Vec<u8> {
    let mut sets = Vec::new();
    for (attribute, values) in ATTRIBUTES.iter().zip(values) {
        if values.is_empty() {
            continue;
        }
        let mut written: Vec<Vec<u8>> = values
            .iter()
            .map(|value| {
                let mut pair = der(OBJECT_IDENTIFIER, &[0x55, 0x04, *attribute]);
                let tag = if is_printable(value) { PRINTABLE_STRING } else { UTF8_STRING };
                pair.extend(der(tag, value.as_bytes()));
                der(SEQUENCE, &pair)
            })
            .collect();
        written.sort_unstable();
        sets.extend(der(SET, &written.concat()));
    }
    der(SEQUENCE, &sets)
}

/// Whether Go writes a text as PrintableString.
fn is_printable(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b" '()+,-./:=?".contains(&byte);
    text.bytes().all(allowed)
}

const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
/// The tag of a sequence.
pub(crate) const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// One value in DER.
pub(crate) fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let length = &length[length.iter().take_while(|byte| **byte == 0).count()..];
    let mut out = vec![tag];
    match content.len() {
        short @ 0..0x80 => out.push(short as u8),
        _ => {
            out.push(0x80 | length.len() as u8);
            out.extend(length);
        }
    }
    out.extend(content);
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;
    use rcgen::{
        CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair,
        PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_ED25519, SanType,
    };

    use super::*;

    /// A request in PEM for a subject like `O=a O=b CN=c`.
    pub(crate) fn request(subject: &str, names: &[SanType]) -> String {
        request_with(subject, names, &KeyPair::generate().unwrap())
    }

    fn request_with(subject: &str, names: &[SanType], key: &KeyPair) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for part in subject.split_whitespace() {
            let (kind, value) = part.split_once('=').unwrap();
            let kind = match kind {
                "CN" => DnType::CommonName,
                "O" => DnType::OrganizationName,
                // rcgen takes each kind once; this is the same one by another name.
                "O2" => DnType::CustomDnType(vec![2, 5, 4, 10]),
                "UID" => DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]),
                other => panic!("{other}"),
            };
            params.distinguished_name.push(kind, value);
        }
        params.subject_alt_names = names.to_vec();
        params.serialize_request(key).unwrap().pem().unwrap()
    }

    #[test]
    fn what_is_certified_is_read() {
        let names = [
            SanType::DnsName("a.example".try_into().unwrap()),
            SanType::IpAddress("10.0.0.1".parse().unwrap()),
            SanType::IpAddress("::1".parse().unwrap()),
            SanType::URI("spiffe://a/b".try_into().unwrap()),
            SanType::Rfc822Name("a@b.example".try_into().unwrap()),
        ];
        let text = request("O=one CN=me O2=two UID=42", &names);
        let read = CertificateRequest::parse(format!("words\n{text}").as_bytes()).unwrap();
        assert_eq!(read.common_name, "me");
        assert_eq!(read.organizations, ["one", "two"]);
        assert_eq!(read.names.dns, ["a.example"]);
        assert_eq!(read.names.emails, ["a@b.example"]);
        let addresses: [IpAddr; 2] = ["10.0.0.1", "::1"].map(|a| a.parse().unwrap());
        assert_eq!(read.names.addresses, addresses);
        assert_eq!(read.names.uris, ["spiffe://a/b"]);
        let (_, subject) = X509Name::from_der(&read.subject).unwrap();
        assert_eq!(subject.to_string(), "O=one + O=two, CN=me");
    }

    #[test]
    fn every_kind_of_key_can_be_certified() {
        for algorithm in [&PKCS_ED25519, &PKCS_ECDSA_P384_SHA384, &PKCS_ECDSA_P521_SHA512] {
            let key = KeyPair::generate_for(algorithm).unwrap();
            let text = request_with("CN=x", &[], &key);
            let read = CertificateRequest::parse(text.as_bytes());
            assert_eq!(read.unwrap().common_name, "x", "{algorithm:?}");
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let check = |text: &str, expected: &str| {
            assert_eq!(CertificateRequest::parse(text.as_bytes()).unwrap_err(), expected);
        };
        const NO_REQUEST: &str = "PEM block type must be CERTIFICATE REQUEST";
        let text = request("CN=me", &[]);
        check("", NO_REQUEST);
        check(&text.replace("REQUEST", "THING"), NO_REQUEST);
        let block = pem::blocks(text.as_bytes()).next().unwrap();
        let again = |bytes: &[u8]| {
            let data = crate::schema::encode_bytes(bytes);
            format!(
                "-----BEGIN CERTIFICATE REQUEST-----\n{data}\n-----END CERTIFICATE REQUEST-----\n"
            )
        };
        check(&again(b"x"), "asn1: structure error: malformed certificate request");
        let mut longer = block.bytes.clone();
        longer.push(0);
        check(&again(&longer), "asn1: syntax error: trailing data");
        let mut forged = block.bytes.clone();
        let at = forged.windows(2).position(|pair| pair == b"me").unwrap();
        forged[at] = b'n';
        check(&again(&forged), "x509: ECDSA verification failure");
    }

    #[test]
    fn other_extensions_do_not_matter() {
        let mut params = CertificateParams::default();
        params.custom_extensions = vec![CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0])];
        let key = KeyPair::generate().unwrap();
        let text = params.serialize_request(&key).unwrap().pem().unwrap();
        assert!(CertificateRequest::parse(text.as_bytes()).is_ok());
    }

    #[test]
    fn texts_are_written_as_go_writes_them() {
        assert!(is_printable("system:node:a.b-c") && !is_printable("a@b") && !is_printable("ü"));
        assert_eq!(der(SEQUENCE, &[0; 200])[..3], [0x30, 0x81, 200]);
        assert_eq!(der(SEQUENCE, &[0; 300])[..4], [0x30, 0x82, 1, 44]);
    }

    proptest! {
        #[test]
        fn fuzz_any_request_is_read_or_refused(at in 0usize..300, byte: u8) {
            static REQUEST: LazyLock<String> = LazyLock::new(|| {
                request("O=a CN=b", &[SanType::DnsName("c".try_into().unwrap())])
            });
            let mut bytes = pem::blocks(REQUEST.as_bytes()).next().unwrap().bytes;
            let at = at % bytes.len();
            bytes[at] = byte;
            let data = crate::schema::encode_bytes(&bytes);
            let text = format!(
                "-----BEGIN CERTIFICATE REQUEST-----\n{data}\n-----END CERTIFICATE REQUEST-----\n"
            );
            let _ = CertificateRequest::parse(text.as_bytes());
        }
    }
}
