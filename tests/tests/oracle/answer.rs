//! An answer in the form that is compared: a tree with everything replaced that must differ between
//! two servers, such as uids, times and resource versions, and nothing else.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::client::Response;
use crate::deviations;

/// The headers that are compared; the others are about the connection or the implementation.
const HEADERS: &[&str] = &[
    "allow",
    "cache-control",
    "content-encoding",
    "content-type",
    "location",
    "retry-after",
    "vary",
    "warning",
    "www-authenticate",
    "x-content-type-options",
];

/// Headers whose presence counts, but not their value.
const PRESENT: &[&str] = &["audit-id", "etag"];

/// The bases of generated names in scripts.
const GENERATED_FROM: &[&str] = &["gen-", "Gen_/", "kube-api-access-"];

/// The names of the administrators of both servers.
const ADMINISTRATORS: &[&str] = &["kubernetes-admin", "lanyard-admin"];

/// What the servers call themselves as managers of fields.
const SERVERS: &[&str] = &["kube-apiserver", "lanyard"];

/// What was saved from the answers of one server.
pub(crate) struct Side {
    saved: BTreeMap<String, String>,
    started: Timestamp,
}

impl Side {
    pub(crate) fn new() -> Side {
        Side { saved: BTreeMap::new(), started: Timestamp::now() }
    }

    /// Keeps a value for later requests.
    pub(crate) fn save(&mut self, name: &str, value: &str) {
        self.saved.insert(name.to_owned(), value.to_owned());
    }

    /// A value that was kept.
    pub(crate) fn saved(&self, name: &str) -> Option<String> {
        self.saved.get(name).cloned()
    }

    /// The answer as a tree.
    pub(crate) fn answer(&self, response: &Response) -> Result<Value> {
        let mut headers = Map::new();
        for name in HEADERS {
            let values = response.headers.get_all(*name);
            let values: Vec<String> =
                values.iter().map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned()).collect();
            if !values.is_empty() {
                headers.insert((*name).to_owned(), json!(values));
            }
        }
        for name in PRESENT {
            if response.headers.contains_key(*name) {
                headers.insert((*name).to_owned(), json!("present"));
            }
        }
        let mut body = body(response)?;
        self.replace(&mut body, "");
        if let Value::Array(events) = &mut body {
            drop_repeated_bookmarks(events);
        }
        Ok(json!({"status": response.status, "headers": headers, "body": body}))
    }

    fn replace(&self, value: &mut Value, key: &str) {
        match value {
            Value::Object(map) => self.replace_in_object(map),
            Value::Array(items) => {
                for item in items {
                    self.replace(item, key);
                }
            }
            Value::String(text) => {
                let (new, claims) = (self.replaced(text, key), jwt_claims(text));
                *text = new;
                if let Some(mut claims) = claims {
                    self.replace(&mut claims, "");
                    *value = claims;
                }
            }
            _ => {}
        }
    }

    fn replace_in_object(&self, map: &mut Map<String, Value>) {
        if let Some(Value::Array(causes)) = map.get_mut("causes") {
            // Upstream collects conflicts in no order.
            if causes.iter().all(|cause| cause["reason"] == "FieldManagerConflict") {
                causes.sort_by_key(Value::to_string);
            }
            // Upstream checks metadata twice on updates and tells each cause twice.
            let mut seen = Vec::new();
            causes.retain(|cause| {
                !seen.contains(cause) && {
                    seen.push(cause.clone());
                    true
                }
            });
        }
        let base = map.get("generateName").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(Value::String(name)) = map.get_mut("name")
            && !base.is_empty()
            && name.starts_with(&base)
        {
            *name = format!("{base}<generated {}>", name.len() - base.len());
        }
        for (key, value) in map.iter_mut() {
            self.replace(value, key);
        }
        if let Some(Value::Array(entries)) = map.get_mut("managedFields") {
            // They are in the order of their times, which may differ by a second.
            entries.sort_by_key(Value::to_string);
        }
        // Keys of items in managedFields, which may be uids.
        let keyed: Vec<String> = map.keys().filter(|key| key.starts_with("k:")).cloned().collect();
        for key in keyed {
            let value = map.remove(&key).unwrap_or_default();
            map.insert(self.replaced_words(&key), value);
        }
        for rules in ["resourceRules", "nonResourceRules"] {
            if let Some(Value::Array(rules)) = map.get_mut(rules) {
                // Upstream collects them in no order.
                rules.sort_by_key(Value::to_string);
            }
        }
    }

    fn replaced(&self, text: &str, key: &str) -> String {
        if key == "continue" {
            return self.replaced_token(text);
        }
        if matches!(key, "resourceVersion" | "rv") && text.bytes().all(|b| b.is_ascii_digit()) {
            return self.replaced_version(text);
        }
        if key == "manager" && SERVERS.contains(&text) {
            return "<server>".to_owned();
        }
        if key == "cells" && is_age(text) {
            return "<age>".to_owned();
        }
        let text = &deviations::rephrased(text);
        if let Ok(time) = text.parse::<Timestamp>()
            && (time.as_second() - self.started.as_second()).abs() < 3600
        {
            let fraction = text.split_once('.').map_or(0, |(_, fraction)| fraction.len() - 1);
            return format!("<now, {fraction} digits>");
        }
        let text = replaced_generated(&self.replaced_words(text));
        if text.contains("ersion") { self.replaced_numbers(&text) } else { text }
    }

    /// A version that was saved before is shown by its name, so that an update of nothing shows.
    fn replaced_version(&self, text: &str) -> String {
        match self.saved.iter().find(|(_, saved)| *saved == text) {
            _ if matches!(text, "" | "0") => text.to_owned(),
            Some((name, _)) => format!("<{name}>"),
            None => "<version>".to_owned(),
        }
    }

    /// A continue token is a small document.
    fn replaced_token(&self, text: &str) -> String {
        let decoded = BASE64_URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
        let Ok(mut token) = serde_json::from_slice::<Value>(&decoded) else {
            return text.to_owned();
        };
        if token["rv"].as_i64().is_some_and(|rv| rv > 0) {
            token["rv"] = json!("<version>");
        }
        let start = token["start"].as_str().unwrap_or_default().trim_start_matches('/').to_owned();
        token["start"] = json!(start);
        token.to_string()
    }

    /// Uids, addresses and names that only one server has.
    fn replaced_words(&self, text: &str) -> String {
        let mut new = String::new();
        let delimiter = |c: char| !(c.is_ascii_alphanumeric() || "-=.:".contains(c));
        for word in text.split_inclusive(delimiter) {
            let bare = word.trim_end_matches(delimiter);
            let rest = &word[bare.len()..];
            new.push_str(&self.replaced_word(bare));
            new.push_str(rest);
        }
        new
    }

    fn replaced_word(&self, word: &str) -> String {
        let saved = || self.saved.iter().find(|(_, saved)| *saved == word).map(|(name, _)| name);
        if is_uid(word) {
            return saved().map_or_else(|| "<uid>".to_owned(), |name| format!("<{name}>"));
        }
        if let Some(id) = word.strip_prefix("JTI=").filter(|id| is_uid(id)) {
            return format!("JTI=<uid>{}", &id[36..]);
        }
        if ADMINISTRATORS.contains(&word) {
            return "<administrator>".to_owned();
        }
        if word.starts_with("X509SHA256=") && word.len() == 75 {
            return "X509SHA256=<digest>".to_owned();
        }
        if word.starts_with("kubernetes.default.svc") {
            return "<issuer>".to_owned();
        }
        if word.starts_with("127.0.0.1:") {
            return "<address>".to_owned();
        }
        // Each server draws the addresses of services from a range of its own.
        if word.parse().is_ok_and(is_service_address) {
            return "<service address>".to_owned();
        }
        word.to_owned()
    }

    /// Resource versions in sentences about resource versions.
    fn replaced_numbers(&self, text: &str) -> String {
        let mut new = String::new();
        for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
            let digits: &str = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            let number = digits.parse::<u64>().is_ok_and(|n| n > 9 && n < 1_000_000);
            new.push_str(&if number { self.replaced_version(digits) } else { digits.to_owned() });
            new.push_str(&word[digits.len()..]);
        }
        new
    }
}

/// The body as a tree: JSON, YAML, a stream of watch events, or text.
fn body(response: &Response) -> Result<Value> {
    let text = std::str::from_utf8(&response.body).context("the answer is not UTF-8")?;
    let content_type = response.headers.get("content-type").map(|v| v.as_bytes());
    let content_type = String::from_utf8_lossy(content_type.unwrap_or_default()).into_owned();
    if content_type.starts_with("application/json") {
        let mut documents = Vec::new();
        for document in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
            documents.push(document.with_context(|| format!("not JSON: {text}"))?);
        }
        let indented = text.starts_with("{\n");
        let events = documents.iter().all(|d| d.get("type").is_some() && d.get("object").is_some());
        return Ok(match <[Value; 1]>::try_from(documents) {
            Ok([mut only]) if !events => {
                if indented && let Value::Object(map) = &mut only {
                    map.insert("<indented>".to_owned(), Value::Bool(true));
                }
                only
            }
            Ok(only) => json!(only),
            Err(several) => Value::Array(several),
        });
    }
    if content_type.starts_with("application/yaml") {
        let documents: Result<Vec<Value>, _> = serde_saphyr::from_multiple(text);
        let documents = documents.with_context(|| format!("not YAML: {text}"))?;
        return Ok(Value::Array(documents));
    }
    Ok(Value::String(text.to_owned()))
}

/// How many bookmarks come is a matter of timing: the one that ends the initial events counts, or else
/// that there are any.
fn drop_repeated_bookmarks(events: &mut Vec<Value>) {
    let ends = |event: &Value| event["object"].to_string().contains("initial-events-end");
    let mut seen = events.iter().any(ends);
    events.retain(|event| {
        let plain = event["type"] == "BOOKMARK" && !ends(event);
        !plain || !std::mem::replace(&mut seen, true)
    });
}

/// The range that ours are from has theirs inside.
fn is_service_address(address: std::net::Ipv4Addr) -> bool {
    let [first, second, ..] = address.octets();
    first == 10 && (96..112).contains(&second)
}

fn is_uid(text: &str) -> bool {
    let dashes = [8, 13, 18, 23];
    let good = |(at, byte): (usize, u8)| match dashes.contains(&at) {
        true => byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(good)
}

/// Names that the server made from the bases that scripts use.
fn replaced_generated(text: &str) -> String {
    let mut new = text.to_owned();
    for base in GENERATED_FROM {
        let mut at = 0;
        while let Some(found) = new[at..].find(base) {
            let start = at + found + base.len();
            let made = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            let length = new[start..].chars().take_while(|c| made(*c)).count();
            if length == 5 {
                new.replace_range(start..start + length, "<made>");
            }
            at = start;
        }
    }
    new
}

/// Ages of things that tests make: seconds, perhaps minutes.
fn is_age(text: &str) -> bool {
    let Some(number) = text.strip_suffix('s') else { return false };
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'm')
}

/// What a token says, with its times relative to each other.
fn jwt_claims(text: &str) -> Option<Value> {
    let parts: Vec<&str> = text.split('.').collect();
    let [header, payload, _] = parts[..] else { return None };
    let decode = |part| BASE64_URL_SAFE_NO_PAD.decode(part).ok();
    let header: Value = serde_json::from_slice(&decode(header)?).ok()?;
    let mut claims: Value = serde_json::from_slice(&decode(payload)?).ok()?;
    header.get("alg")?;
    let issued = claims["iat"].as_i64()?;
    for field in ["exp", "nbf", "iat"] {
        claims[field] = json!(claims[field].as_i64()? - issued);
    }
    Some(json!({"<token>": claims}))
}
