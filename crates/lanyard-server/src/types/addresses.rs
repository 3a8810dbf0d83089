//! IP addresses and ranges of them, and what upstream says about texts that are none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::path::Path;
use crate::field::FieldError;

/// An address; leading zeros are fine, as they were before Go knew better.
pub(super) fn parse_address(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut parts = [0; 4];
    let mut given = text.split('.');
    for part in &mut parts {
        let digits = given.next()?;
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *part = match digits.trim_start_matches('0') {
            "" => 0,
            digits => digits.parse().ok()?,
        };
    }
    given.next().is_none().then(|| Ipv4Addr::from(parts).into())
}

/// The problem of a text that is no address.
pub(super) fn validate_address(text: &str, path: &Path) -> Option<FieldError> {
    let problem = match parse_address(text) {
        None => "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        Some(_) if text.parse::<IpAddr>().is_err() => "must not have leading 0s",
        Some(IpAddr::V6(address)) if address.to_ipv4_mapped().is_some() => {
            "must not be an IPv4-mapped IPv6 address"
        }
        Some(_) => return None,
    };
    Some(FieldError::invalid_str(path, text, problem))
}

/// The problem of a text that is no range of addresses.
pub(super) fn validate_range(text: &str, path: &Path) -> Option<FieldError> {
    let bits = |address: IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let good = text.split_once('/').is_some_and(|(address, length)| {
        let digits = length.bytes().all(|byte| byte.is_ascii_digit());
        let length = length.parse::<u32>().ok().filter(|_| digits);
        parse_address(address).is_some_and(|address| length.is_some_and(|l| l <= bits(address)))
    });
    let problem = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    (!good).then(|| FieldError::invalid_str(path, text, problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_ranges() {
        let check =
            |text: &str, good: bool| assert_eq!(parse_address(text).is_some(), good, "{text}");
        check("10.0.0.1", true);
        check("010.000.0.01", true);
        check("10.0.0", false);
        check("10.0.0.256", false);
        check("10.0.0.1.2", false);
        check("a.b.c.d", false);
        check("::1", true);
        check("", false);
        let check = |text: &str, good: bool| {
            assert_eq!(validate_range(text, &Path::new("p")).is_none(), good, "{text}");
        };
        check("10.0.0.0/8", true);
        check("10.0.0.0/33", false);
        check("fe80::/64", true);
        check("10.0.0.0", false);
        check("10.0.0.0/+8", false);
    }
}
