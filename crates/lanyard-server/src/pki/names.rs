//! Under which names clients may reach the server: the subject alternative names of its certificate.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rcgen::SanType;
use rcgen::string::Ia5String;
use rustls::pki_types::DnsName;
use x509_parser::prelude::{GeneralName, X509Certificate};

use super::PkiError;

/// One name or address of the server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Dns(String),
    Ip(IpAddr),
}

/// The names every server has, the name of this host, and those that the operator adds.
pub(super) fn serving_names(more: &[String]) -> Result<BTreeSet<Name>, PkiError> {
    let mut names = BTreeSet::from([
        Name::Ip(Ipv4Addr::LOCALHOST.into()),
        Name::Ip(Ipv6Addr::LOCALHOST.into()),
    ]);
    names.extend(ALWAYS.iter().map(|name| Name::Dns((*name).to_owned())));
    // A host may be called something that is no DNS name; then nobody can ask for it either.
    names.extend(rustix::system::uname().nodename().to_str().ok().and_then(Name::parse));
    for name in more {
        names.insert(Name::parse(name).ok_or_else(|| PkiError::BadName { name: name.clone() })?);
    }
    Ok(names)
}

/// The names in a certificate; those of other kinds are left out.
pub(super) fn names_of(certificate: &X509Certificate<'_>) -> BTreeSet<Name> {
    let Ok(Some(extension)) = certificate.subject_alternative_name() else {
        return BTreeSet::new();
    };
    let names = &extension.value.general_names;
    names.iter().filter_map(Name::from_general_name).collect()
}

impl Name {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse() {
            return Some(Self::Ip(address));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let host = name.strip_prefix("*.").unwrap_or(&name);
        DnsName::try_from(host).ok()?;
        Some(Self::Dns(name))
    }

    fn from_general_name(name: &GeneralName<'_>) -> Option<Self> {
        match name {
            GeneralName::DNSName(name) => Some(Self::Dns(name.to_ascii_lowercase())),
            GeneralName::IPAddress(bytes) => {
                let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
                v4.or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from)).ok().map(Self::Ip)
            }
            _ => None,
        }
    }

    pub(super) fn to_san(&self) -> Result<SanType, PkiError> {
        match self {
            Self::Ip(address) => Ok(SanType::IpAddress(*address)),
            Self::Dns(name) => Ia5String::try_from(name.as_str())
                .map(SanType::DnsName)
                .map_err(|_| PkiError::BadName { name: name.clone() }),
        }
    }
}

/// How clients on this machine and inside a cluster address an API server.
const ALWAYS: [&str; 5] = [
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_names_or_addresses() {
        let check = |text: &str, expected: Option<Name>| {
            assert_eq!(Name::parse(text), expected, "{text:?}");
        };
        check("10.0.0.1", Some(Name::Ip(Ipv4Addr::new(10, 0, 0, 1).into())));
        check("fd00::1", Some(Name::Ip("fd00::1".parse().unwrap())));
        check("API.Example.org.", Some(Name::Dns("api.example.org".into())));
        check("*.example.org", Some(Name::Dns("*.example.org".into())));
        check("", None);
        check("two words", None);
        check("https://x", None);
        check("x:6443", None);
        check("straße.de", None);
    }

    #[test]
    fn a_bad_name_is_named() {
        let error = serving_names(&["ok".into(), "not ok".into()]).unwrap_err();
        assert!(error.to_string().contains("\"not ok\""), "{error}");
    }
}
