//! How a webhook is reached: by a URL or by a service.

use serde_json::Value;

use super::super::names::dns_subdomain;
use crate::{
    field::{FieldError, quoted},
    object::ObjectExt,
};

/// The problems of a client configuration.
pub(super) fn validate(config: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let present = |field: &str| config.get(field).filter(|value| !value.is_null());
    match (present("url").and_then(Value::as_str), present("service")) {
        (Some(url), None) => check_url(url, &format!("{path}.url"), errors),
        (None, Some(service)) => check_service(service, &format!("{path}.service"), errors),
        _ => {
            errors.push(FieldError::required(path, "exactly one of url or service is required"));
        }
    }
}

fn check_service(service: &Value, path: &str, errors: &mut Vec<FieldError>) {
    // Upstream takes the one for the other here.
    for (field, named) in [("namespace", "name"), ("name", "namespace")] {
        if service.text(&[field]).is_empty() {
            errors.push(FieldError::required(format!("{path}.{named}"), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(0);
    if !(1..=65535).contains(&port) {
        let problem = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{path}.port"), &port.into(), problem));
    }
    if let Some(at) = service.get("path").and_then(Value::as_str) {
        check_path(at, &format!("{path}.path"), errors);
    }
}

fn check_path(path: &str, at: &str, errors: &mut Vec<FieldError>) {
    let mut refuse = |problem: String| errors.push(FieldError::invalid_str(at, path, problem));
    match path {
        "" | "/" => return,
        "//" => return refuse("segment[0] may not be empty".into()),
        _ => {}
    }
    if !path.starts_with('/') {
        refuse("must start with a '/'".into());
    }
    // Upstream skips the first character whatever it is.
    let steps = path.get(1..).unwrap_or_default();
    let steps = steps.strip_suffix('/').unwrap_or(steps);
    for (index, step) in steps.split('/').enumerate() {
        if step.is_empty() {
            refuse(format!("segment[{index}] may not be empty"));
            continue;
        }
        for problem in dns_subdomain(step, "characters") {
            refuse(format!("segment[{index}]: {problem}"));
        }
    }
}

fn check_url(text: &str, path: &str, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(problem) => {
            let problem =
                format!("url must be a valid URL: parse {}: {problem}{FORM}", quoted(text));
            errors.push(FieldError::required(path, problem));
            return;
        }
    };
    let mut refuse = |value: &str, problem: &str| {
        errors.push(FieldError::invalid_str(path, value, problem));
    };
    if url.scheme != "https" {
        refuse(&url.scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if url.host.is_empty() {
        refuse(url.host, &format!("host must be specified{FORM}"));
    }
    if let Some(user) = url.user {
        refuse(user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        refuse(url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        refuse(url.query, "query parameters are not permitted in the URL");
    }
}

/// The parts of a URL that matter here, split as Go's `net/url` splits them.
#[derive(Debug, Default, PartialEq)]
struct Url<'a> {
    scheme: String,
    user: Option<&'a str>,
    host: &'a str,
    query: &'a str,
    fragment: &'a str,
}

impl<'a> Url<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".into());
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url =
            Self { scheme: scheme.to_ascii_lowercase(), query, fragment, ..Self::default() };
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                return Ok(url);
            }
            if rest.split('/').next().is_some_and(|first| first.contains(':')) {
                return Err("first path segment in URL cannot contain colon".into());
            }
        }
        let mut path = rest;
        let has_authority = !scheme.is_empty() || !rest.starts_with("///");
        if let Some(rest) = rest.strip_prefix("//").filter(|_| has_authority) {
            let end = rest.find('/').unwrap_or(rest.len());
            let (authority, after) = rest.split_at(end);
            path = after;
            let (user, host) = match authority.rsplit_once('@') {
                Some((user, host)) => (Some(user), host),
                None => (None, authority),
            };
            check_host(host)?;
            (url.user, url.host) = (user, host);
        }
        check_escapes(path)?;
        Ok(url)
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".into()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match (host.starts_with('['), host.rfind(']')) {
        (true, None) => return Err("missing ']' in host".into()),
        (true, Some(end)) => &host[end + 1..],
        (false, _) => host.find(':').map_or("", |at| &host[at..]),
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    let good = port.is_empty()
        || (port.starts_with(':') && digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !good {
        return Err(format!("invalid port {} after host", quoted(port)));
    }
    let odd = host.chars().find(|c| matches!(c, ' ' | '"' | '\\' | '^' | '`' | '{' | '|' | '}'));
    match odd {
        Some(odd) => Err(format!("invalid character {} in host name", quoted(&odd.to_string()))),
        None => check_escapes(host),
    }
}

/// A percent sign begins two hexadecimal digits.
fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (at, _) in text.match_indices('%') {
        let escape = &bytes[at..bytes.len().min(at + 3)];
        if escape.len() < 3 || !escape[1..].iter().all(u8::is_ascii_hexdigit) {
            let escape = quoted(&String::from_utf8_lossy(escape));
            return Err(format!("invalid URL escape {escape}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn problems(config: Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate(&config, "c", &mut errors);
        errors.iter().map(FieldError::to_string).collect()
    }

    #[test]
    fn urls_are_https_and_nothing_more() {
        let check = |url: &str, expected: &[&str]| {
            let form = "; desired format: https://host[/path]";
            let found: Vec<String> =
                problems(json!({"url": url})).iter().map(|p| p.replace(form, "")).collect();
            assert_eq!(found, expected, "{url}");
        };
        check("https://a.b:8443/c", &[]);
        check("HTTPS://[::1]/c", &[]);
        check(
            "",
            &[
                "c.url: Invalid value: \"\": 'https' is the only allowed URL scheme",
                "c.url: Invalid value: \"\": host must be specified",
            ],
        );
        check(
            "https://u:p@a.b?q#f",
            &[
                "c.url: Invalid value: \"u:p\": user information is not permitted in the URL",
                "c.url: Invalid value: \"f\": fragments are not permitted in the URL",
                "c.url: Invalid value: \"q\": query parameters are not permitted in the URL",
            ],
        );
        check(
            "https://a.b:x",
            &[
                "c.url: Required value: url must be a valid URL: parse \"https://a.b:x\": invalid port \
             \":x\" after host",
            ],
        );
        check(
            ":x",
            &[
                "c.url: Required value: url must be a valid URL: parse \":x\": missing protocol scheme",
            ],
        );
    }

    #[test]
    fn services_have_a_name_and_a_path() {
        let check = |service: Value, expected: &[&str]| {
            assert_eq!(problems(json!({"service": service})), expected);
        };
        let with_path =
            |path: &str| json!({"name": "a", "namespace": "b", "port": 1, "path": path});
        check(with_path("/a/b/"), &[]);
        check(
            with_path("//"),
            &["c.service.path: Invalid value: \"//\": segment[0] may not be empty"],
        );
        check(
            json!({"name": "a", "port": 0}),
            &[
                "c.service.name: Required value",
                "c.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, \
             inclusive",
            ],
        );
        assert_eq!(
            problems(json!({})),
            ["c: Required value: exactly one of url or service is required",]
        );
    }

    proptest! {
        #[test]
        fn fuzz_any_text_is_a_url_or_refused(text in ".{0,40}") {
            let _ = problems(json!({"url": text.clone()}));
            let _ = problems(json!({"service": {"path": text}}));
        }
    }
}
