//! Addresses and networks.

use std::fmt;
use std::net::IpAddr;

use super::{Function, Inner, Opaque};
use crate::error::EvalError;
use crate::value::Value;

/// A network: an address and how many of its bits count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    address: IpAddr,
    bits: u8,
}

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "ip" => |_, args| match args {
            [Value::String(text)] => parse_ip(text).map(|address| Inner::Ip(address).into()),
            [Value::Opaque(Opaque(Inner::Cidr(cidr)))] => Ok(Inner::Ip(cidr.address).into()),
            _ => Err(EvalError::no_overload("ip", args)),
        },
        "isIP" => |_, args| text("isIP", args, |text| Ok(Value::Bool(parse_ip(text).is_ok()))),
        "ip.isCanonical" => |_, args| {
            text("ip.isCanonical", args, |text| {
                Ok(Value::Bool(parse_ip(text)?.to_string() == text))
            })
        },
        "family" => {
            |_, args| address("family", args, |ip| Value::Int(if ip.is_ipv4() { 4 } else { 6 }))
        }
        "isUnspecified" => {
            |_, args| address("isUnspecified", args, |ip| Value::Bool(ip.is_unspecified()))
        }
        "isLoopback" => |_, args| address("isLoopback", args, |ip| Value::Bool(ip.is_loopback())),
        "isLinkLocalMulticast" => |_, args| {
            address("isLinkLocalMulticast", args, |ip| Value::Bool(link_local_multicast(ip)))
        },
        "isLinkLocalUnicast" => {
            |_, args| address("isLinkLocalUnicast", args, |ip| Value::Bool(link_local(ip)))
        }
        "isGlobalUnicast" => {
            |_, args| address("isGlobalUnicast", args, |ip| Value::Bool(global_unicast(ip)))
        }
        "cidr" => |_, args| {
            text("cidr", args, |text| {
                let prefix = "network address parse error during conversion from string: ";
                parse_cidr(text)
                    .map(|cidr| Inner::Cidr(cidr).into())
                    .map_err(|error| EvalError::new(format!("{prefix}{error}")))
            })
        },
        "isCIDR" => {
            |_, args| text("isCIDR", args, |text| Ok(Value::Bool(parse_cidr(text).is_ok())))
        }
        "containsIP" => contains_ip,
        "containsCIDR" => contains_cidr,
        "prefixLength" => {
            |_, args| network("prefixLength", args, |cidr| Value::Int(i64::from(cidr.bits)))
        }
        "masked" => |_, args| network("masked", args, |cidr| Inner::Cidr(cidr.masked()).into()),
        _ => return None,
    })
}

fn text<'a>(
    name: &str,
    args: &[Value<'a>],
    run: impl Fn(&str) -> Result<Value<'a>, EvalError>,
) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::String(text)] => run(text),
        _ => Err(EvalError::no_overload(name, args)),
    }
}

fn address<'a>(
    name: &str,
    args: &[Value<'a>],
    run: fn(&IpAddr) -> Value<'a>,
) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Opaque(Opaque(Inner::Ip(address)))] => Ok(run(address)),
        _ => Err(EvalError::no_overload(name, args)),
    }
}

fn network<'a>(
    name: &str,
    args: &[Value<'a>],
    run: fn(&Cidr) -> Value<'a>,
) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Opaque(Opaque(Inner::Cidr(cidr)))] => Ok(run(cidr)),
        _ => Err(EvalError::no_overload(name, args)),
    }
}

fn contains_ip<'a>(
    _: &mut crate::meter::Meter,
    args: &[Value<'a>],
) -> Result<Value<'a>, EvalError> {
    let [Value::Opaque(Opaque(Inner::Cidr(cidr))), other] = args else {
        return Err(EvalError::no_overload("containsIP", args));
    };
    let address = match other {
        Value::String(text) => parse_ip(text)?,
        Value::Opaque(Opaque(Inner::Ip(address))) => *address,
        _ => return Err(EvalError::no_overload("containsIP", args)),
    };
    Ok(Value::Bool(cidr.holds(&address)))
}

fn contains_cidr<'a>(
    _: &mut crate::meter::Meter,
    args: &[Value<'a>],
) -> Result<Value<'a>, EvalError> {
    let [Value::Opaque(Opaque(Inner::Cidr(cidr))), other] = args else {
        return Err(EvalError::no_overload("containsCIDR", args));
    };
    let inner = match other {
        Value::String(text) => parse_cidr(text).map_err(|error| {
            EvalError::new(format!(
                "network address parse error during conversion from string: {error}"
            ))
        })?,
        Value::Opaque(Opaque(Inner::Cidr(inner))) => *inner,
        _ => return Err(EvalError::no_overload("containsCIDR", args)),
    };
    Ok(Value::Bool(cidr.bits <= inner.bits && cidr.holds(&inner.address)))
}

impl Cidr {
    pub(crate) fn bits(&self) -> u8 {
        self.bits
    }

    fn holds(&self, address: &IpAddr) -> bool {
        width(&self.address) == width(address)
            && masked(&self.address, self.bits) == masked(address, self.bits)
    }

    fn masked(&self) -> Self {
        Self { address: masked(&self.address, self.bits), bits: self.bits }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// How many bits an address has.
pub(crate) fn width(address: &IpAddr) -> u64 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn masked(address: &IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((v6.to_bits() & mask).into())
        }
    }
}

fn parse_ip(text: &str) -> Result<IpAddr, EvalError> {
    if let Some((address, zone)) = text.split_once('%')
        && !zone.is_empty()
        && address.parse::<std::net::Ipv6Addr>().is_ok()
    {
        return Err(EvalError::new(format!("IP address {text:?} with zone value is not allowed")));
    }
    let parsed: IpAddr = text.parse().map_err(|_| {
        let reason = format!("ParseAddr({text:?}): {}", why_no_address(text));
        EvalError::new(format!(
            "IP Address {text:?} parse error during conversion from string: {reason}"
        ))
    })?;
    if mapped(&parsed) {
        return Err(EvalError::new(format!("IPv4-mapped IPv6 address {text:?} is not allowed")));
    }
    Ok(parsed)
}

/// What is wrong with an address, as far as Go's words for it are known.
fn why_no_address(text: &str) -> &'static str {
    let dotted = !text.contains(':') && text.split('.').all(|part| part.parse::<u8>().is_ok());
    match text.split('.').count() {
        count if dotted && count > 4 => "IPv4 address too long",
        2 | 3 if dotted => "IPv4 address too short",
        _ => "unable to parse IP",
    }
}

fn parse_cidr(text: &str) -> Result<Cidr, EvalError> {
    let wrong = |why: &str| {
        EvalError::new(format!(
            "network address parse error during conversion from string: netip.ParsePrefix({text:?}): {why}"
        ))
    };
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
    let address: IpAddr = address.parse().map_err(|_| wrong("unable to parse IP"))?;
    let plain = bits == "0" || (!bits.starts_with('0') && bits.bytes().all(|b| b.is_ascii_digit()));
    let number: Option<u8> = bits.parse().ok().filter(|_| plain);
    let bits = number.ok_or_else(|| wrong(&format!("bad bits after slash: {bits:?}")))?;
    if u64::from(bits) > width(&address) {
        return Err(wrong("prefix length out of range"));
    }
    if mapped(&address) {
        return Err(EvalError::new(format!("IPv4-mapped IPv6 address {text:?} is not allowed")));
    }
    Ok(Cidr { address, bits })
}

fn mapped(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some())
}

fn link_local(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn link_local_multicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
        IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
    }
}

fn global_unicast(address: &IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    !broadcast
        && !address.is_unspecified()
        && !address.is_loopback()
        && !address.is_multicast()
        && !link_local(address)
}
