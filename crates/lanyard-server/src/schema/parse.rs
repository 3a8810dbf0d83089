//! Bodies to JSON trees: JSON and YAML, bounded in depth and expansion, with repeated keys told.
//!
//! The last value of a repeated key wins; whether that is an error is for the caller to say. Error
//! texts never quote the body, which may hold secrets, beyond a single character.

use serde::de::DeserializeSeed;
use serde_json::Value;
use thiserror::Error;

use super::{
    conform::json_kind,
    protobuf::{self, OpenError},
    syntax::go_text,
    tree::{Findings, Format, MAX_YAML_DEPTH, Tree},
};

/// How many YAML events aliases may expand to: enough for any manifest.
const MAX_ALIAS_EVENTS: usize = 100_000;

/// A body as a JSON tree.
#[derive(Debug)]
pub struct Parsed {
    /// The tree.
    pub value: Value,
    /// The paths of fields that stood there more than once, e.g. `data.a`, in the order found.
    pub duplicates: Vec<String>,
}

/// A body that is not what its media type says, or no object of any kind.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ParseError {
    /// A body of JSON.
    #[error("{0}")]
    Json(String),
    /// A body of YAML.
    #[error("yaml: {0}")]
    Yaml(String),
    /// A body of protobuf whose kind cannot be told.
    #[error("{0}")]
    Protobuf(String),
    /// A protobuf message that is none of the kind that it says.
    #[error("{why}")]
    Message {
        /// The kind.
        kind: String,
        /// The group version.
        api_version: String,
        /// What is wrong.
        why: String,
    },
}

impl ParseError {
    /// What upstream says when it looked for a kind in the body.
    pub fn without_kind(&self) -> String {
        let step = match self {
            Self::Json(_) => "couldn't get version/kind; json parse error: ",
            Self::Yaml(_) | Self::Protobuf(_) | Self::Message { .. } => "",
        };
        format!("{step}{self}")
    }

    /// What upstream says when an object of `kind` was expected, without the body that it adds.
    pub fn unrecognized(&self, kind: &str) -> String {
        let why = self.without_kind();
        format!("the object provided is unrecognized (must be of type {kind}): {why}")
    }
}

/// Reads a body of protobuf.
///
/// # Errors
/// When it is no message of the kind that it says; the texts are upstream's, but for the bytes that it
/// adds: they may be secret.
pub fn parse_protobuf(body: &[u8]) -> Result<Parsed, ParseError> {
    let opened = protobuf::open(body).map_err(|error| match error {
        OpenError::Envelope(why) => ParseError::Protobuf(why.to_string()),
        OpenError::Message { kind, api_version, why } => {
            ParseError::Message { kind, api_version, why: why.to_string() }
        }
    });
    Ok(Parsed { value: opened?, duplicates: Vec::new() })
}

/// Reads a JSON body.
///
/// # Errors
/// When it is not one JSON value in UTF-8, or is nested too deeply; the text is Go's.
pub fn parse_json(body: &[u8]) -> Result<Parsed, ParseError> {
    let mut findings = Findings::new(Format::Json);
    let value = read_json(body, &mut findings)?;
    Ok(Parsed { value, duplicates: findings.duplicates })
}

/// Reads a YAML body of one document.
///
/// # Errors
/// When it is not one YAML document, is nested too deeply, or its aliases expand too far.
pub fn parse_yaml(body: &[u8]) -> Result<Parsed, ParseError> {
    // JSON is YAML, and what most clients send under either name.
    if body.trim_ascii_start().starts_with(b"{")
        && let Ok(parsed) = parse_json(body)
    {
        return Ok(parsed);
    }
    let text = std::str::from_utf8(body).map_err(|_| ParseError::Yaml("invalid UTF-8".into()))?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_YAML_DEPTH, max_documents: 1 },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_ALIAS_EVENTS,
        },
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let mut findings = Findings::new(Format::Yaml);
    let value = serde_saphyr::with_deserializer_from_str_with_options(text, options, |de| {
        Tree::root(&mut findings).deserialize(de)
    })
    .map_err(|error| ParseError::Yaml(error.to_string()))?;
    Ok(Parsed { value, duplicates: findings.duplicates })
}

/// The `apiVersion` and `kind` of a body, empty when they are not there.
///
/// # Errors
/// When the body is no object, or they are no strings; the text is upstream's.
pub fn type_meta(value: &Value) -> Result<(&str, &str), ParseError> {
    let wrong = |found: &Value, rest: &str| {
        let found = json_kind(found);
        ParseError::Json(format!("json: cannot unmarshal {found} into Go {rest}"))
    };
    match value {
        Value::Null => return Ok(("", "")),
        Value::Object(_) => {}
        other => {
            return Err(wrong(
                other,
                r#"value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#,
            ));
        }
    }
    let text = |name: &str| match value.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(wrong(other, &format!("struct field .{name} of type string"))),
    };
    Ok((text("apiVersion")?, text("kind")?))
}

/// The order in which some fields stand in a JSON body: each path at its first and its second place.
///
/// Nothing when the body is not JSON.
pub(super) fn order_of(paths: impl Iterator<Item = String>, body: &[u8]) -> Option<Vec<String>> {
    let mut findings = Findings::new(Format::Json).watching(paths);
    read_json(body, &mut findings).ok()?;
    Some(findings.sightings)
}

fn read_json(body: &[u8], findings: &mut Findings) -> Result<Value, ParseError> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    Tree::root(findings)
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| ParseError::Json(go_text(&error, body)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::schema::MAX_DEPTH;

    #[test]
    fn json_errors_are_those_of_go() {
        let check = |body: &[u8], expected: &str| {
            let error = parse_json(body).unwrap_err();
            assert_eq!(error.to_string(), expected, "{}", body.escape_ascii());
        };
        check(b"", "unexpected end of JSON input");
        check(b"{", "unexpected end of JSON input");
        check(b"{\"a\":x}", "invalid character 'x' looking for beginning of value");
        check(b"{\"a\" 1}", "invalid character '1' after object key");
        check(b"{\"a\":1 \"b\"}", "invalid character '\"' after object key:value pair");
        check(b"[1 2]", "invalid character '2' after array element");
        check(b"{\"a\":1,}", "invalid character '}' looking for beginning of object key string");
        check(b"[1,]", "invalid character ']' looking for beginning of value");
        check(b"{a:1}", "invalid character 'a' looking for beginning of object key string");
        check(b"{} x", "invalid character 'x' after top-level value");
        check(b"{\"a\":\"\\q\"}", "invalid character 'q' in string escape code");
        check(b"{\"a\":\"\x01\"}", "invalid character '\\x01' in string literal");
        check(b"{\"a\":\"\n\"}", "invalid character '\\n' in string literal");
        check(b"{\"a\":tru}", "invalid character '}' in literal true (expecting 'e')");
        check(b"{\n\"a\":nul?}", "invalid character '?' in literal null (expecting 'l')");
        check(b"{\"a\":-}", "invalid character '}' in numeric literal");
        check(b"{\"a\":1.}", "invalid character '}' after decimal point in numeric literal");
        check(b"'x'", "invalid character '\\'' looking for beginning of value");
        check(b"{\"a\":\"\xff\"}", "invalid UTF-8 in string literal");
        check("[".repeat(20_000).as_bytes(), "invalid character '[' exceeded max depth");
        check("{\"a\":".repeat(500).as_bytes(), "invalid character '{' exceeded max depth");
    }

    #[test]
    fn the_deepest_allowed_nesting_is_read() {
        let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(parse_json(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert!(parse_json(nested(MAX_DEPTH + 1).as_bytes()).is_err());
        assert!(parse_yaml(nested(MAX_YAML_DEPTH).as_bytes()).is_ok());
        assert!(parse_yaml(nested(MAX_YAML_DEPTH + 1).as_bytes()).is_err());
        let chain = |link: &str| {
            let links = (1..5000)
                .map(|i| format!("x{i}: &x{i} {}\n", link.replace('?', &(i - 1).to_string())));
            format!("x0: &x0 {{z: 1}}\n{}", links.collect::<String>())
        };
        for link in ["{a: *x?}", "{<<: *x?}", "[*x?]"] {
            assert!(parse_yaml(chain(link).as_bytes()).is_err(), "{link}");
        }
    }

    #[test]
    fn numbers_stay_exact() {
        let body = format!("[{}, {}, 1.5, -0.0, 1e3]", u64::MAX, i64::MIN);
        let value = parse_json(body.as_bytes()).unwrap().value;
        assert_eq!(value.to_string(), format!("[{},{},1.5,-0.0,1000.0]", u64::MAX, i64::MIN));
    }

    #[test]
    fn repeated_fields_are_told_with_their_path() {
        let check = |body: &str, value: Value, duplicates: &[&str]| {
            let as_yaml = format!("--- {body}");
            for parsed in [parse_json(body.as_bytes()), parse_yaml(as_yaml.as_bytes())] {
                let parsed = parsed.unwrap();
                assert_eq!(parsed.value, value);
                assert_eq!(parsed.duplicates, duplicates, "{body}");
            }
        };
        check(r#"{"a": 1, "b": 1}"#, json!({"a": 1, "b": 1}), &[]);
        check(r#"{"a": 1, "a": 2, "a": 3}"#, json!({"a": 3}), &["a"]);
        check(
            r#"{"r": [{}, {"v": 1, "v": 2}], "m": {"n": {"x": 1, "x": 1}}}"#,
            json!({"r": [{}, {"v": 2}], "m": {"n": {"x": 1}}}),
            &["r[1].v", "m.n.x"],
        );
    }

    #[test]
    fn kinds_are_found_as_upstream_finds_them() {
        assert_eq!(type_meta(&json!({"apiVersion": "v1", "kind": "K"})), Ok(("v1", "K")));
        assert_eq!(type_meta(&json!({"kind": null})), Ok(("", "")));
        assert_eq!(type_meta(&json!(null)), Ok(("", "")));
        assert_eq!(
            type_meta(&json!({"kind": 3})).unwrap_err().unrecognized("ConfigMap"),
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get \
             version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind \
             of type string"
        );
        assert!(type_meta(&json!([])).unwrap_err().to_string().contains("cannot unmarshal array"));
    }

    #[test]
    fn yaml_means_what_it_means_to_kubernetes() {
        let check = |body: &str, expected: Value| {
            let parsed = parse_yaml(body.as_bytes()).unwrap_or_else(|e| panic!("{body}: {e}"));
            assert_eq!(parsed.value, expected, "{body}");
        };
        check("a: {k: v}\nb: [1, x]\n", json!({"a": {"k": "v"}, "b": [1, "x"]}));
        check("{\"a\": {\"b\": \"c\"}}", json!({"a": {"b": "c"}}));
        check("a: 010", json!({"a": 8}));
        check("a: 1_000", json!({"a": 1000}));
        check("a: 0x10", json!({"a": 16}));
        check("a: 1.0", json!({"a": 1}));
        check("a: 1e2", json!({"a": 100}));
        check("a: 1.5", json!({"a": 1.5}));
        check("a: yes\nb: 'yes'", json!({"a": true, "b": "yes"}));
        check("a: ~\nb:", json!({"a": null, "b": null}));
        check("a: 2024-01-01", json!({"a": "2024-01-01"}));
        check("a: !!str 1", json!({"a": "1"}));
        check("a: &x {k: v}\nb: *x", json!({"a": {"k": "v"}, "b": {"k": "v"}}));
        check("a:\n  <<: {x: 1}\n  z: 2", json!({"a": {"x": 1, "z": 2}}));
        check("{1: a, true: b, 1.5: c, y: d}", json!({"1": "a", "true": "d", "1.5": "c"}));
        check("", Value::Null);
        check("---\n", Value::Null);
        check("a: |\n  x\n  y\n", json!({"a": "x\ny\n"}));
    }

    #[test]
    fn bad_yaml_is_refused_without_quoting_it() {
        let check = |body: &str| {
            let text = parse_yaml(body.as_bytes()).expect_err(body).to_string();
            assert!(text.starts_with("yaml: "), "{text}");
            assert!(!text.contains("secret") && !text.contains('\n'), "{text}");
        };
        check("a: secret: c");
        check("a:\n\tsecret: x");
        check("secret: [");
        check("a: .inf # secret");
        check("a: x\n---\nb: secret\n");
        check("? [secret]\n: x\n");
    }

    #[test]
    fn small_bodies_cannot_make_large_trees() {
        let body = format!("[{}0]", "{\"\":0},".repeat(400_000));
        let error = parse_json(body.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "the body takes too much memory");
        let objects = r#"{"apiGroups":["a.example"],"resources":["things"],"verbs":["get"]},"#;
        let largest = format!("[{}0]", objects.repeat((3 << 20) / objects.len()));
        assert!(parse_json(largest.as_bytes()).is_ok());
    }

    #[test]
    fn aliases_cannot_expand_without_bound() {
        let mut laughs = String::from("l0: &l0 [x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let below = format!("*l{}, ", level - 1).repeat(9);
            laughs.push_str(&format!("l{level}: &l{level} [{}]\n", below.trim_end_matches(", ")));
        }
        assert!(parse_yaml(laughs.as_bytes()).is_err());

        let mut large = format!("big: &big {}\nlist:\n", "x".repeat(1 << 20));
        large.push_str(&"- *big\n".repeat(60));
        assert!(parse_yaml(large.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn fuzz_parse_json_never_panics(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_json(&body);
        }

        #[test]
        fn fuzz_parse_json_like_text_never_panics(body in "[\\[\\]{}:,\"\\\\a0-9.eE+\\-tfn\n ]{0,60}") {
            let ours = parse_json(body.as_bytes());
            let plain = serde_json::from_str::<Value>(&body);
            prop_assert_eq!(ours.is_ok(), plain.is_ok());
        }

        #[test]
        fn fuzz_parse_yaml_never_panics(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_yaml(&body);
        }

        #[test]
        fn fuzz_parse_yaml_like_text_never_panics(body in "[\\[\\]{}:,\"'&*!|>#?%@a0-9.\\- \n]{0,60}") {
            let _ = parse_yaml(body.as_bytes());
        }
    }
}
