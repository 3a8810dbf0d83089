//! URLs, as Go's `net/url` reads them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Function, Inner, Opaque};
use crate::error::EvalError;
use crate::value::{Key, Map, Value};

/// The parts of a URL, as they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: String,
    user: String,
    host: String,
    path: String,
    query: String,
    fragment: String,
}

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "url" => |_, args| match args {
            [Value::String(text)] => {
                Url::parse(text).map(|url| Inner::Url(Arc::new(url)).into()).map_err(|error| {
                    EvalError::new(format!(
                        "URL parse error during conversion from string: {error}"
                    ))
                })
            }
            _ => Err(EvalError::no_overload("url", args)),
        },
        "isURL" => |_, args| match args {
            [Value::String(text)] => Ok(Value::Bool(Url::parse(text).is_ok())),
            _ => Err(EvalError::no_overload("isURL", args)),
        },
        "getScheme" => |_, args| part("getScheme", args, |url| Value::string(url.scheme.as_str())),
        "getHost" => |_, args| part("getHost", args, |url| Value::string(url.host.as_str())),
        "getHostname" => {
            |_, args| part("getHostname", args, |url| Value::string(url.split_host().0))
        }
        "getPort" => |_, args| part("getPort", args, |url| Value::string(url.split_host().1)),
        "getEscapedPath" => {
            |_, args| part("getEscapedPath", args, |url| Value::string(url.escaped_path()))
        }
        "getQuery" => |_, args| part("getQuery", args, Url::query_map),
        _ => return None,
    })
}

fn part<'a>(
    name: &str,
    args: &[Value<'a>],
    pick: fn(&Url) -> Value<'a>,
) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Opaque(Opaque(Inner::Url(url)))] => Ok(pick(url)),
        _ => Err(EvalError::no_overload(name, args)),
    }
}

impl Url {
    /// Reads an absolute URL or an absolute path, as in the first line of a request. The error is Go's.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        Self::read(text).map_err(|why| format!("parse {text:?}: {why}"))
    }

    fn read(text: &str) -> Result<Self, String> {
        if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        if text.is_empty() {
            return Err("empty url".to_owned());
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if !rest.starts_with('/') {
            return match scheme.is_empty() {
                // An opaque URL such as `mailto:x`.
                false => Ok(Self {
                    scheme,
                    user: String::new(),
                    host: String::new(),
                    path: String::new(),
                    query: query.to_owned(),
                    fragment: fragment.to_owned(),
                }),
                true => Err("invalid URI for request".to_owned()),
            };
        }
        let (authority, path) = match rest
            .strip_prefix("//")
            .filter(|_| !scheme.is_empty() || !rest.starts_with("///"))
        {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        check_host(host)?;
        check_escapes(path)?;
        Ok(Self {
            scheme,
            user: user.to_owned(),
            host: host.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            fragment: fragment.to_owned(),
        })
    }

    /// The host without its port and brackets, and the port.
    fn split_host(&self) -> (&str, &str) {
        if let Some(rest) = self.host.strip_prefix('[')
            && let Some((address, after)) = rest.split_once(']')
        {
            return (address, after.strip_prefix(':').unwrap_or(""));
        }
        match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => (host, port),
            _ => (&self.host, ""),
        }
    }

    /// The path with everything escaped that must be.
    fn escaped_path(&self) -> String {
        let mut escaped = String::with_capacity(self.path.len());
        for byte in self.path.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => escaped.push(char::from(byte)),
                _ if b"-_.~$&+,/:;=@%!'()*[]".contains(&byte) => escaped.push(char::from(byte)),
                _ => escaped.push_str(&format!("%{byte:02X}")),
            }
        }
        escaped
    }

    fn query_map<'a>(&self) -> Value<'a> {
        let mut entries: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in self.query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if let (Some(key), Some(value)) = (unescape(key), unescape(value)) {
                entries.entry(key).or_default().push(value);
            }
        }
        let map = entries
            .into_iter()
            .map(|(key, values)| (Key::String(key.into()), Value::strings(values)));
        Value::Map(Map::owned(map.collect()))
    }
}

fn split_scheme(text: &str) -> Result<(String, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((text[..at].to_ascii_lowercase(), &text[at + 1..])),
            _ => return Ok((String::new(), text)),
        }
    }
    Ok((String::new(), text))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("missing ']' in host")?.1,
        None => host.rfind(':').map_or("", |at| &host[at..]),
    };
    let numeric =
        port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
    if !port.is_empty() && !numeric {
        return Err(format!("invalid port {port:?} after host"));
    }
    if let Some(wrong) = host
        .chars()
        .find(|c| matches!(c, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}'))
    {
        return Err(format!("invalid character {:?} in host name", wrong.to_string()));
    }
    check_escapes(host)
}

fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let escape: String = text[at..].chars().take(3).collect();
        if escape.len() != 3 || !escape[1..].bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(format!("invalid URL escape {escape:?}"));
        }
    }
    Ok(())
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
