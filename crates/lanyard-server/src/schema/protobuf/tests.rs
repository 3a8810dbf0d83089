//! Known bytes, what malformed bytes come to, and that nothing is lost on the way.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::schema::builtin;

const CONFIG_MAP: &str = "io.k8s.api.core.v1.ConfigMap";

#[test]
fn an_object_has_upstreams_bytes() {
    let object = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:00:01Z"},
        "data": {"k": "v"}, "immutable": false,
    });
    let message = encode(builtin(CONFIG_MAP), &object);
    let meta = b"\x0a\x01a\x12\x00\x1a\x00\x22\x00\x2a\x00\x32\x00\x38\x00\x42\x04\x08\x01\x10\x00";
    let mut expected = vec![0x0a, meta.len() as u8];
    expected.extend_from_slice(meta);
    expected.extend_from_slice(b"\x12\x06\x0a\x01k\x12\x01v\x20\x00");
    assert_eq!(message, expected);
    let opened = open(&envelope("v1", "ConfigMap", &message)).unwrap();
    let conformed = builtin(CONFIG_MAP).conform(opened).unwrap();
    assert_eq!(conformed.value, object);
}

#[test]
fn malformed_messages_are_refused() {
    let check = |bytes: &[u8], expected: ProtobufError| {
        assert_eq!(decode(builtin(CONFIG_MAP), bytes).unwrap_err(), expected, "{bytes:?}");
    };
    check(b"\x0a", ProtobufError::Truncated);
    check(b"\x0a\x05a", ProtobufError::Truncated);
    check(b"\x00\x00", ProtobufError::IllegalTag { message: "ConfigMap", number: 0, wire: 0 });
    check(b"\x0b\x00", ProtobufError::IllegalTag { message: "ConfigMap", number: 1, wire: 3 });
    check(&[0xff; 11], ProtobufError::Overflow);
    check(b"\x08\x01", ProtobufError::WrongWireType { wire: 0, field: "ObjectMeta".into() });
    check(b"\x0a\x03\x0a\x01\xff", ProtobufError::NotUtf8("name".into()));
    let envelope = |bytes| Envelope::read(bytes).map(|_| ()).unwrap_err();
    assert_eq!(envelope(b"{}"), ProtobufError::NoMagic);
    assert_eq!(envelope(b""), ProtobufError::Empty);
    assert_eq!(envelope(b"k8s\0"), ProtobufError::NoBody);
    // Fields that nobody knows are passed over.
    assert_eq!(decode(builtin(CONFIG_MAP), b"\xf8\x07\x01").unwrap(), json!({}));
}

#[test]
fn small_messages_do_not_become_large_trees() {
    let pod = builtin("io.k8s.api.core.v1.PodSpec");
    let containers = b"\x12\x00".repeat(1 << 20);
    assert_eq!(decode(pod, &containers).unwrap_err(), ProtobufError::TooLarge);
    let schema = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let mut deep = Vec::new();
    for _ in 0..2_000 {
        // Field 28 is `not`.
        let mut out = write::Backward::with_capacity(deep.len() + 16);
        out.slice(28, &deep);
        deep = out.finish();
    }
    assert_eq!(decode(builtin(schema), &deep).unwrap_err(), ProtobufError::TooDeep);
}

#[test]
fn schemas_and_what_stands_in_their_place_come_back() {
    let table = builtin("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps");
    for schema in [
        json!({"type": "object", "maximum": 1.5, "default": {"a": [1, null]}}),
        json!({"items": {"type": "string"}}),
        json!({"items": [{"type": "string"}, {}]}),
        json!({"additionalProperties": false}),
        json!({"additionalProperties": true}),
        json!({"additionalProperties": {"type": "integer"}}),
        json!({"dependencies": {"a": ["b"], "c": {"type": "string"}}}),
        json!({"properties": {"a": {"enum": [1, "x"]}}, "required": ["a"]}),
    ] {
        let decoded = decode(table, &encode(table, &schema)).unwrap();
        assert_eq!(table.conform(decoded).unwrap().value, schema);
    }
}

/// The fixtures that upstream checks its own encoders with: one object of every kind with every field set,
/// as JSON and as protobuf. They are in the module of its API types; `peers/fields/check` says where.
#[test]
#[ignore = "needs upstream's fixtures; run peers/fields/check"]
fn upstreams_fixtures_have_the_same_bytes_here() {
    let dir = std::env::var("LANYARD_API_FIXTURES").expect("LANYARD_API_FIXTURES is not set");
    let mut compared = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "pb") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let found = Envelope::read(&bytes).unwrap();
        let Some(table) = crate::schema::catalog::kind_of(found.api_version, found.kind) else {
            continue;
        };
        let json = std::fs::read(path.with_extension("json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        let opened = table.conform(open(&bytes).unwrap()).unwrap().value;
        let written = table.conform(json).unwrap().value;
        assert_eq!(opened, written, "{}", path.display());
        assert!(document(&opened).unwrap() == bytes, "{}: other bytes", path.display());
        compared += 1;
    }
    assert!(compared > 30, "only {compared} kinds were found in {dir}");
}

proptest! {
    #[test]
    fn fuzz_any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for model in [CONFIG_MAP, "io.k8s.api.core.v1.Pod", "io.k8s.api.core.v1.Event"] {
            if let Ok(object) = decode(builtin(model), &bytes) {
                let _ = builtin(model).conform(object);
            }
        }
        let _ = open(&bytes);
        let _ = open(&[&MAGIC, &bytes[..]].concat());
    }
}
