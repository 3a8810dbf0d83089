//! Which store to open, from the text of an option.

use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The directory of keys within etcd that we use unless told otherwise.
const DEFAULT_PREFIX: &str = "/lanyard";

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUrl {
    /// A file in this directory, for one process.
    Embedded {
        /// The directory, which is created if need be.
        dir: PathBuf,
    },
    /// In the memory of this process.
    Memory,
    /// An etcd cluster.
    Etcd(EtcdUrl),
}

/// Where an etcd cluster is and how to talk to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdUrl {
    /// The members, as `host:port`.
    pub endpoints: Vec<String>,
    /// All our keys are below this.
    pub prefix: String,
    /// Whether to use TLS.
    pub tls: bool,
    /// PEM file of the authorities that certify the members.
    pub ca: Option<PathBuf>,
    /// PEM file of our client certificate.
    pub cert: Option<PathBuf>,
    /// PEM file of its private key.
    pub key: Option<PathBuf>,
}

impl StoreUrl {
    /// Understands `embedded`, `memory` and
    /// `etcd://HOST:PORT,HOST:PORT?prefix=/lanyard&ca=FILE&cert=FILE&key=FILE`.
    ///
    /// The embedded store lives in `data_dir`. Giving a file, or `tls=true`,
    /// turns TLS on.
    pub fn parse(text: &str, data_dir: &Path) -> Result<Self> {
        let bad = |problem: String| Error::Url { url: text.to_owned(), problem };
        match text {
            "embedded" => {
                return Ok(Self::Embedded { dir: data_dir.to_owned() });
            }
            "memory" => return Ok(Self::Memory),
            _ => {}
        }
        let rest = text
            .strip_prefix("etcd://")
            .ok_or_else(|| bad("use embedded, memory or etcd://HOST:PORT,HOST:PORT".to_owned()))?;
        EtcdUrl::parse(rest).map(Self::Etcd).map_err(bad)
    }
}

impl EtcdUrl {
    fn parse(rest: &str) -> Result<Self, String> {
        let (hosts, options) = rest.split_once('?').unwrap_or((rest, ""));
        let endpoints = hosts.trim_end_matches('/').split(',').map(parse_endpoint);
        let mut url = Self {
            endpoints: endpoints.collect::<Result<_, _>>()?,
            prefix: DEFAULT_PREFIX.to_owned(),
            tls: false,
            ca: None,
            cert: None,
            key: None,
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option
                .split_once('=')
                .filter(|(_, value)| !value.is_empty())
                .ok_or_else(|| format!("option {option} needs a value, as in {option}=..."))?;
            match name {
                "prefix" => url.prefix = parse_prefix(value)?,
                "ca" => url.ca = Some(value.into()),
                "cert" => url.cert = Some(value.into()),
                "key" => url.key = Some(value.into()),
                "tls" => url.tls = parse_switch(value)?,
                _ => {
                    return Err(format!("unknown option {name}: use prefix, ca, cert, key, tls"));
                }
            }
        }
        if url.cert.is_some() != url.key.is_some() {
            return Err("cert and key are given together or not at all".to_owned());
        }
        url.tls |= url.ca.is_some() || url.cert.is_some();
        // Whom to trust is said explicitly; the roots of this machine certify half the world.
        if url.tls && url.ca.is_none() {
            return Err("TLS needs ca=FILE, the authority that certifies the members".to_owned());
        }
        Ok(url)
    }
}

fn parse_endpoint(endpoint: &str) -> Result<String, String> {
    let parsed = endpoint.rsplit_once(':').filter(|(host, port)| {
        let host_ok = !host.is_empty() && !host.contains(['/', '@', ' ']);
        // An address with colons of its own is written in brackets.
        let colons_ok = !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
        host_ok && colons_ok && port.parse::<u16>().is_ok_and(|port| port != 0)
    });
    match parsed {
        Some(_) => Ok(endpoint.to_owned()),
        None => Err(format!("{endpoint:?} is not HOST:PORT")),
    }
}

fn parse_prefix(value: &str) -> Result<String, String> {
    let prefix = value.trim_end_matches('/');
    if prefix.starts_with('/') && !prefix.contains("//") {
        Ok(prefix.to_owned())
    } else {
        Err(format!("prefix {value:?} should begin with / and name a directory"))
    }
}

fn parse_switch(value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{value:?} is neither true nor false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn etcd(endpoints: &[&str]) -> EtcdUrl {
        EtcdUrl {
            endpoints: endpoints.iter().map(|endpoint| (*endpoint).to_owned()).collect(),
            prefix: "/lanyard".to_owned(),
            tls: false,
            ca: None,
            cert: None,
            key: None,
        }
    }

    #[test]
    fn good_urls_are_understood() {
        let check = |text: &str, expected: StoreUrl| {
            assert_eq!(StoreUrl::parse(text, Path::new("/data")).unwrap(), expected, "{text}");
        };
        check("embedded", StoreUrl::Embedded { dir: "/data".into() });
        check("memory", StoreUrl::Memory);
        check("etcd://a:2379", StoreUrl::Etcd(etcd(&["a:2379"])));
        check("etcd://a:1,b:2/", StoreUrl::Etcd(etcd(&["a:1", "b:2"])));
        check("etcd://[::1]:2379", StoreUrl::Etcd(etcd(&["[::1]:2379"])));
        check(
            "etcd://a:1?prefix=/x/y/&tls=false",
            StoreUrl::Etcd(EtcdUrl { prefix: "/x/y".to_owned(), ..etcd(&["a:1"]) }),
        );
        check(
            "etcd://a:1?ca=/ca.pem&cert=c.pem&key=k.pem",
            StoreUrl::Etcd(EtcdUrl {
                tls: true,
                ca: Some("/ca.pem".into()),
                cert: Some("c.pem".into()),
                key: Some("k.pem".into()),
                ..etcd(&["a:1"])
            }),
        );
    }

    #[test]
    fn bad_urls_are_refused_with_a_remedy() {
        let check = |text: &str, problem: &str| {
            let error = StoreUrl::parse(text, Path::new("/data")).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        };
        check("", "use embedded");
        check("postgres://x", "use embedded");
        check("etcd://", "not HOST:PORT");
        check("etcd://a", "not HOST:PORT");
        check("etcd://a:0", "not HOST:PORT");
        check("etcd://a:1,", "not HOST:PORT");
        check("etcd://::1:2379", "not HOST:PORT");
        check("etcd://user@a:1", "not HOST:PORT");
        check("etcd://a:1?prefix=lanyard", "should begin with /");
        check("etcd://a:1?prefix=/", "should begin with /");
        check("etcd://a:1?tls=yes", "neither true nor false");
        check("etcd://a:1?ca", "needs a value");
        check("etcd://a:1?cert=c.pem", "given together");
        check("etcd://a:1?tls=true", "needs ca=FILE");
        check("etcd://a:1?cert=c.pem&key=k.pem", "needs ca=FILE");
        check("etcd://a:1?password=x", "unknown option");
    }
}
