//! Objects as bytes: serialised once when written, then sent as they are by get, list and watch.
//!
//! The stored form is JSON that begins `{"kind":…,"apiVersion":…,"metadata":{` and holds no resource
//! version, because that is known only once the store has numbered the write. [`Encoded`] is the same
//! JSON with the version put in at that fixed place, plus what selectors need.

use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use lanyard_store::Revision;
use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};

use crate::{
    merge::fields_v1,
    object::ObjectExt,
    resource::Resource,
    schema::{Struct, protobuf},
};

/// An object at one revision, ready to be sent.
pub struct Encoded {
    /// `namespace/name`, or `name` for cluster-scoped kinds.
    pub key: Arc<str>,
    /// The revision that wrote it.
    pub revision: Revision,
    json: Bytes,
    /// Where `"metadata":` begins.
    meta_key: u32,
    /// Where the metadata object ends.
    meta_end: u32,
    labels: Box<[(Box<str>, Box<str>)]>,
    /// In the order of the type's selectable fields.
    fields: Box<[Box<str>]>,
    /// The object as a protobuf message, once somebody has asked for it.
    message: OnceLock<Bytes>,
}

/// Why stored bytes are not an object of the type; names only the key, never the content.
#[derive(Debug, thiserror::Error)]
#[error("the stored bytes of {key} are not a valid object: {source}")]
pub struct Undecodable {
    /// The storage key.
    pub key: String,
    source: serde_json::Error,
}

/// Turns objects of one type into stored bytes, and stored bytes into [`Encoded`].
pub struct Codec {
    resource: Arc<Resource>,
    /// How the stored form of every object of this type begins.
    prefix: String,
}

impl Codec {
    /// The codec of a type; its first view is the stored form.
    pub fn new(resource: Arc<Resource>) -> Self {
        let prefix = object_prefix(&resource.views[0].api_version(), &resource.kind);
        Self { resource, prefix }
    }

    /// Serialises an object in the stored form, without its resource version.
    pub fn encode(&self, object: &mut Value) -> Bytes {
        object.meta_mut().remove("resourceVersion");
        // What only another version knows is not stored.
        if let ([stored, _, ..], true) = (&*self.resource.views, self.resource.is_custom())
            && let Some(version) = stored.schema.custom()
        {
            version.prune(object);
        }
        write_object(&self.prefix, object).into()
    }

    /// Makes the served form from stored bytes.
    pub fn decode(
        &self,
        key: Arc<str>,
        stored: &[u8],
        revision: Revision,
    ) -> Result<Encoded, Undecodable> {
        let parse = |bytes: &[u8]| self.parse(key.clone(), bytes, revision);
        let fail = |source| Undecodable { key: format!("{}/{key}", self.resource.storage), source };
        if stored.starts_with(self.prefix.as_bytes()) {
            return parse(stored).map_err(fail);
        }
        // Written by another version of this program: bring it into today's shape first.
        let mut object: Value = serde_json::from_slice(stored).map_err(fail)?;
        parse(&self.encode(&mut object)).map_err(fail)
    }

    /// The same for bytes that may be older than the schema of their type: those of custom types are
    /// pruned and defaulted anew.
    pub fn renew(
        &self,
        key: Arc<str>,
        stored: &[u8],
        revision: Revision,
    ) -> Result<Encoded, Undecodable> {
        let Some(version) = self.resource.views[0].schema.custom() else {
            return self.decode(key, stored, revision);
        };
        let object: Result<Value, _> = serde_json::from_slice(stored);
        let renewed = object.ok().and_then(|object| version.conform(object).ok());
        match renewed {
            Some(renewed) => {
                let mut object = renewed.value;
                object.meta_mut().entry("generation").or_insert_with(|| 1.into());
                self.decode(key, &self.encode(&mut object), revision)
            }
            None => self.decode(key, stored, revision),
        }
    }

    fn parse(
        &self,
        key: Arc<str>,
        stored: &[u8],
        revision: Revision,
    ) -> Result<Encoded, serde_json::Error> {
        let parts: Parts<'_> = serde_json::from_slice(stored)?;
        let metadata = parts.metadata.get();
        let labels = serde_json::from_str::<LabelsOnly>(metadata)?.labels.unwrap_or_default().0;
        let json = put_version(stored, self.prefix.len(), revision);
        let added = json.len() - stored.len();
        let rules = &self.resource.rules;
        let (known, custom) = (rules.selectable_fields(), rules.custom_selectable_fields());
        let fields = if known.is_empty() && custom.is_empty() {
            Box::default()
        } else {
            let object: Value = serde_json::from_slice(stored)?;
            let all = known.iter().copied().chain(custom.iter().map(|name| &**name));
            all.map(|field| rules.selectable_field(&object, field).into()).collect()
        };
        let meta_key = (self.prefix.len() - META_OPEN.len()) as u32;
        let meta_end = (self.prefix.len() - 1 + metadata.len() + added) as u32;
        Ok(Encoded {
            key,
            revision,
            json,
            meta_key,
            meta_end,
            labels,
            fields,
            message: OnceLock::new(),
        })
    }
}

impl Encoded {
    /// The whole object.
    pub fn json(&self) -> &Bytes {
        &self.json
    }

    /// The object without its opening brace, kind and apiVersion: how it stands in lists.
    pub fn without_type(&self) -> &[u8] {
        &self.json[self.meta_key as usize..]
    }

    /// The value of `metadata`.
    pub fn metadata(&self) -> &[u8] {
        &self.json[self.meta_key as usize + META_OPEN.len() - 1..self.meta_end as usize]
    }

    /// The namespace, empty for cluster-scoped kinds.
    pub fn namespace(&self) -> &str {
        self.key.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.key.split_once('/').map_or(&self.key, |(_, name)| name)
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        Some(&self.labels[at].1)
    }

    /// The value of a field that the type makes selectable.
    pub fn field(&self, resource: &Resource, field: &str) -> &str {
        match field {
            "metadata.name" => self.name(),
            "metadata.namespace" => self.namespace(),
            _ => {
                let known = resource.rules.selectable_fields();
                let custom = || {
                    let fields = resource.rules.custom_selectable_fields();
                    Some(known.len() + fields.iter().position(|f| *f == field)?)
                };
                let at = known.iter().position(|f| *f == field).or_else(custom);
                at.and_then(|at| self.fields.get(at)).map_or("", |value| value)
            }
        }
    }

    /// The object as a tree, in its stored form with the resource version.
    pub fn value(&self) -> Value {
        // The bytes were parsed when this was made; an object that no longer parses reads as null.
        serde_json::from_slice(&self.json).unwrap_or_default()
    }

    /// The object as a protobuf message of the table of its stored form; made once.
    pub fn message(&self, table: &Struct) -> &Bytes {
        self.message.get_or_init(|| protobuf::encode(table, &self.value()).into())
    }

    /// The same object with another resource version: how a deletion is reported.
    pub fn at_revision(&self, revision: Revision) -> Self {
        let old = version_text(self.revision);
        let at = self.meta_key as usize + META_OPEN.len();
        let mut json = BytesMut::with_capacity(self.json.len() + 20);
        json.put_slice(&self.json[..at]);
        json.put_slice(version_text(revision).as_bytes());
        json.put_slice(&self.json[at + old.len()..]);
        let meta_end = self.meta_end as usize + json.len() - self.json.len();
        Self {
            key: self.key.clone(),
            revision,
            json: json.freeze(),
            meta_key: self.meta_key,
            meta_end: meta_end as u32,
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            message: OnceLock::new(),
        }
    }

    /// About how much memory this takes.
    pub fn size(&self) -> usize {
        self.json.len() + self.message.get().map_or(0, Bytes::len) + 256
    }
}

/// Serialises any object with kind, apiVersion and metadata first.
pub fn encode_view(api_version: &str, kind: &str, object: &Value) -> Vec<u8> {
    write_object(&object_prefix(api_version, kind), object)
}

fn write_object(prefix: &str, object: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1024);
    bytes.extend_from_slice(prefix.as_bytes());
    write_metadata(object.meta(), &mut bytes);
    for (field, value) in object.as_object().into_iter().flatten() {
        if matches!(field.as_str(), "kind" | "apiVersion" | "metadata") {
            continue;
        }
        bytes.push(b',');
        bytes.extend_from_slice(&to_json(&Value::from(field.as_str())));
        bytes.push(b':');
        // Writing a tree to memory cannot fail.
        let _ = serde_json::to_writer(&mut bytes, value);
    }
    bytes.push(b'}');
    bytes
}

/// The fields of the metadata and its closing brace. Sets of fields have an order of their own.
fn write_metadata(metadata: Option<&Map<String, Value>>, bytes: &mut Vec<u8>) {
    for (at, (field, value)) in metadata.into_iter().flatten().enumerate() {
        if at > 0 {
            bytes.push(b',');
        }
        bytes.extend_from_slice(&to_json(&Value::from(field.as_str())));
        bytes.push(b':');
        match (field.as_str(), value) {
            ("managedFields", Value::Array(entries)) => write_managers(entries, bytes),
            // Writing a tree to memory cannot fail.
            _ => drop(serde_json::to_writer(&mut *bytes, value)),
        }
    }
    bytes.push(b'}');
}

fn write_managers(entries: &[Value], bytes: &mut Vec<u8>) {
    let mut open = b'[';
    for entry in entries {
        bytes.push(open);
        open = b',';
        let mut brace = b'{';
        for (field, value) in entry.as_object().into_iter().flatten() {
            bytes.push(brace);
            brace = b',';
            bytes.extend_from_slice(&to_json(&Value::from(field.as_str())));
            bytes.push(b':');
            match field.as_str() {
                "fieldsV1" => fields_v1::append(value, bytes),
                _ => drop(serde_json::to_writer(&mut *bytes, value)),
            }
        }
        bytes.extend_from_slice(if brace == b'{' { b"{}" } else { b"}" });
    }
    bytes.extend_from_slice(if open == b'[' { b"[]" } else { b"]" });
}

const META_OPEN: &str = "\"metadata\":{";

fn object_prefix(api_version: &str, kind: &str) -> String {
    format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",{META_OPEN}")
}

fn to_json(value: &Value) -> Vec<u8> {
    // Writing a tree to memory cannot fail.
    serde_json::to_vec(value).unwrap_or_default()
}

fn put_version(stored: &[u8], at: usize, revision: Revision) -> Bytes {
    let version = version_text(revision);
    let mut json = BytesMut::with_capacity(stored.len() + version.len());
    json.put_slice(&stored[..at]);
    json.put_slice(version.as_bytes());
    json.put_slice(&stored[at..]);
    json.freeze()
}

/// Metadata is never empty (it has a name), so a comma always follows.
fn version_text(revision: Revision) -> String {
    format!("\"resourceVersion\":\"{revision}\",")
}

#[derive(Deserialize)]
struct Parts<'a> {
    #[serde(borrow)]
    metadata: &'a RawValue,
}

#[derive(Deserialize)]
struct LabelsOnly {
    labels: Option<Labels>,
}

/// Labels sorted by key.
#[derive(Default)]
struct Labels(Box<[(Box<str>, Box<str>)]>);

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let map = std::collections::BTreeMap::<Box<str>, Box<str>>::deserialize(deserializer)?;
        Ok(Self(map.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_map, prelude::*};
    use serde_json::json;

    use super::*;
    use crate::types;

    fn codec(storage: &str) -> Codec {
        let resource = types::all().into_iter().find(|kind| kind.storage == storage);
        Codec::new(Arc::new(resource.unwrap()))
    }

    fn any_text() -> impl Strategy<Value = String> {
        // Whatever could be mistaken for the end of something.
        prop_oneof![any::<String>(), "[\"{}\\\\,:]{0,9}", Just("\"metadata\":{".to_owned())]
    }

    proptest! {
        #[test]
        fn fuzz_an_object_survives_its_encoding(
            labels in btree_map(any_text(), any_text(), 0..4),
            data in btree_map(any_text(), any_text(), 0..4),
            revision in 1_u64..,
            later in 1_u64..,
        ) {
            let codec = codec("configmaps");
            let metadata = json!({"name": "x", "labels": labels, "resourceVersion": "stale"});
            let mut object = json!({
                "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data,
            });
            let stored = codec.encode(&mut object);
            let decoded = codec.decode("a/x".into(), &stored, Revision(revision)).unwrap();
            for (encoded, revision) in
                [(&decoded, revision), (&decoded.at_revision(Revision(later)), later)]
            {
                object["metadata"]["resourceVersion"] = revision.to_string().into();
                prop_assert_eq!(encoded.value(), object.clone());
                let metadata: Value = serde_json::from_slice(encoded.metadata()).unwrap();
                prop_assert_eq!(&metadata, &object["metadata"]);
                let untyped = [b"{", encoded.without_type()].concat();
                let untyped: Value = serde_json::from_slice(&untyped).unwrap();
                prop_assert_eq!(&untyped["data"], &object["data"]);
                prop_assert!(untyped.get("kind").is_none());
                for (key, value) in &labels {
                    prop_assert_eq!(encoded.label(key), Some(value.as_str()));
                }
            }
        }

        #[test]
        fn fuzz_any_stored_bytes_are_read_or_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..80),
            rest in "[\\[\\]{}:,\"a0]{0,40}",
        ) {
            let codec = codec("events");
            let alike = [codec.prefix.as_bytes(), rest.as_bytes()].concat();
            for stored in [bytes, alike] {
                if let Ok(decoded) = codec.decode("a/x".into(), &stored, Revision(1)) {
                    decoded.metadata();
                    decoded.without_type();
                    decoded.value();
                }
            }
        }
    }
}
