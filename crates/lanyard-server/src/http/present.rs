//! How objects look in a response: as they are stored, through another version, as table rows, or as
//! bare metadata; one at a time, so that lists and watches can stream them.

use bytes::{BufMut as _, Bytes, BytesMut};
use lanyard_store::Revision;
use serde_json::{Map, Value, json};

use crate::{
    clock,
    collection::{Event, EventKind, frame},
    encoded::{Encoded, encode_view},
    field::quoted,
    negotiate::{Accepted, Encoding, Shape},
    object::ObjectExt,
    registry::{Endpoint, ListAnswer, ObjectAnswer},
    schema::protobuf,
    status::{ApiError, ApiResult},
};

/// The bookmark annotation that ends the initial events of a watch.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// What a table row says about its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// Its metadata.
    Metadata,
    /// All of it.
    Object,
}

impl IncludeObject {
    /// Reads the `includeObject` query parameter.
    pub fn parse(text: Option<&str>) -> ApiResult<Self> {
        match text {
            None | Some("Metadata") => Ok(Self::Metadata),
            Some("None") => Ok(Self::None),
            Some("Object") => Ok(Self::Object),
            Some(other) => Err(ApiError::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: \
                 must be 'Metadata', 'Object', 'None', or empty",
                quoted(other)
            ))),
        }
    }
}

/// How a client wants to see objects of one type.
#[derive(Clone)]
pub struct Presentation {
    /// The type and version.
    pub endpoint: Endpoint,
    /// Encoding and shape.
    pub accepted: Accepted,
    /// For tables.
    pub include: IncludeObject,
    /// Indented JSON.
    pub pretty: bool,
}

impl Presentation {
    /// Whether stored bytes can be sent as they are.
    pub fn is_verbatim(&self) -> bool {
        self.accepted.shape == Shape::Object && self.endpoint.is_stored_form()
    }

    /// The bytes of an event that all who watch in this way send.
    pub fn shared_frame(&self, event: &Event) -> Option<Bytes> {
        if !self.is_verbatim() {
            return None;
        }
        Some(match self.accepted.encoding {
            Encoding::Protobuf => self.shared_protobuf_frame(event),
            _ => event.frame().clone(),
        })
    }

    /// One object as a whole body.
    pub fn object(&self, answer: &ObjectAnswer) -> Bytes {
        if self.accepted.encoding == Encoding::Protobuf {
            return self.protobuf_object(answer);
        }
        let verbatim =
            self.is_verbatim() && !self.pretty && self.accepted.encoding == Encoding::Json;
        if let (ObjectAnswer::Stored(object), true) = (answer, verbatim) {
            return object.json().clone();
        }
        let tree = match answer {
            ObjectAnswer::Stored(object) => object.value(),
            ObjectAnswer::Tree(tree) => tree.clone(),
        };
        self.finish(self.tree(tree))
    }

    fn tree(&self, tree: Value) -> Bytes {
        match self.accepted.shape {
            Shape::Object => self.encode(tree).into(),
            Shape::Metadata | Shape::MetadataList => {
                self.partial_metadata(&to_json(tree.get("metadata"))).into()
            }
            Shape::Table => {
                let mut head = json!({});
                if !tree.resource_version().is_empty() {
                    head["resourceVersion"] = tree.resource_version().into();
                }
                let mut bytes = self.table_head(&head, true);
                self.write_row(&tree, &to_json(tree.get("metadata")), &mut bytes);
                bytes.extend_from_slice(b"]}");
                bytes.freeze()
            }
        }
    }

    /// Whether bodies are YAML or indented rather than compact JSON.
    pub fn is_laid_out(&self) -> bool {
        self.pretty || self.accepted.encoding != Encoding::Json
    }

    /// Applies YAML or indentation to a whole JSON body.
    pub fn finish(&self, json: Bytes) -> Bytes {
        finish(json, self.accepted.encoding, self.pretty)
    }

    /// Everything of a list before its first item.
    pub fn list_head(&self, list: &ListAnswer) -> BytesMut {
        let mut meta = list_meta(list);
        if self.accepted.shape == Shape::Table {
            return self.table_head(&meta, true);
        }
        if self.accepted.shape == Shape::Object && self.endpoint.is_custom() {
            // Lists of custom types always say whether there is more.
            meta["continue"] = list.continue_token.as_deref().unwrap_or_default().into();
        }
        let (kind, version) = self.list_type();
        let head = format!(
            "{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{meta},\"items\":["
        );
        BytesMut::from(head.as_bytes())
    }

    /// The kind and version of a list that is no table.
    pub(super) fn list_type(&self) -> (String, String) {
        match self.accepted.shape {
            Shape::Object => (self.endpoint.list_kind(), self.endpoint.view().api_version()),
            _ => ("PartialObjectMetadataList".to_owned(), self.accepted.meta_version.to_owned()),
        }
    }

    /// One item of a list.
    pub fn write_item(&self, object: &Encoded, out: &mut BytesMut) {
        match self.accepted.shape {
            // Items of custom types say what they are.
            Shape::Object if self.endpoint.resource().is_custom() => {
                match self.endpoint.is_stored_form() {
                    true => out.extend_from_slice(object.json()),
                    false => out.extend_from_slice(&self.encode(object.value())),
                }
            }
            Shape::Object if self.endpoint.is_stored_form() => {
                out.put_u8(b'{');
                out.extend_from_slice(object.without_type());
            }
            Shape::Object => {
                let mut tree = self.endpoint.to_view(object.value());
                if let Value::Object(fields) = &mut tree {
                    fields.remove("kind");
                    fields.remove("apiVersion");
                }
                write_json(out, &tree);
            }
            Shape::Metadata | Shape::MetadataList => {
                out.extend_from_slice(&self.partial_metadata(object.metadata()));
            }
            Shape::Table => self.write_row(&object.value(), object.metadata(), out),
        }
    }

    /// One watch event; `first` is true for the first event of the stream.
    pub fn event(&self, kind: EventKind, object: &Encoded, first: bool) -> Bytes {
        if self.accepted.encoding == Encoding::Protobuf {
            return self.protobuf_event(kind, object);
        }
        match self.accepted.shape {
            Shape::Object if self.endpoint.is_stored_form() => frame(kind, object.json()),
            Shape::Object => frame(kind, &self.encode(object.value())),
            Shape::Metadata | Shape::MetadataList => {
                frame(kind, &self.partial_metadata(object.metadata()))
            }
            Shape::Table => {
                let head = json!({"resourceVersion": object.revision.to_string()});
                let mut table = self.table_head(&head, first);
                self.write_row(&object.value(), object.metadata(), &mut table);
                table.extend_from_slice(b"]}");
                frame(kind, &table)
            }
        }
    }

    /// A bookmark; `initial_end` marks the end of the initial events.
    pub fn bookmark(&self, revision: Revision, initial_end: bool, first: bool) -> Bytes {
        let mut meta = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            meta["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        if self.accepted.encoding == Encoding::Protobuf {
            return self.protobuf_bookmark(meta);
        }
        let text = to_json(Some(&meta));
        match self.accepted.shape {
            Shape::Table => {
                let head = json!({"resourceVersion": revision.to_string()});
                let mut table = self.table_head(&head, first);
                let empty = json!({"metadata": {}});
                self.write_row(&empty, &text, &mut table);
                table.extend_from_slice(b"]}");
                frame(EventKind::Bookmark, &table)
            }
            Shape::Metadata | Shape::MetadataList => {
                frame(EventKind::Bookmark, &self.partial_metadata(&text))
            }
            Shape::Object => frame(EventKind::Bookmark, &self.empty_object(meta)),
        }
    }

    /// An object with nothing but metadata, and what Go writes for fields that were never set.
    fn empty_object(&self, metadata: Value) -> Vec<u8> {
        let view = self.endpoint.view();
        let empty = view.schema.conform(Value::Null);
        // Nothing is wrong with the types of no fields.
        let mut object = empty.map_or_else(|_| json!({}), |conformed| conformed.value);
        object["metadata"] = metadata;
        encode_view(&view.api_version(), &self.endpoint.resource().kind, &object)
    }

    fn encode(&self, tree: Value) -> Vec<u8> {
        let tree = self.endpoint.to_view(tree);
        encode_view(&self.endpoint.view().api_version(), &self.endpoint.resource().kind, &tree)
    }

    fn table_head(&self, meta: &Value, with_columns: bool) -> BytesMut {
        let columns: Vec<Value> = match self.endpoint.view().schema.custom() {
            Some(version) => version.columns.definitions.clone(),
            None => self.endpoint.resource().rules.columns().iter().map(column).collect(),
        };
        let columns = if with_columns { json!(columns) } else { Value::Null };
        let version = self.accepted.meta_version;
        let head = format!(
            "{{\"kind\":\"Table\",\"apiVersion\":\"{version}\",\"metadata\":{meta},\
             \"columnDefinitions\":{columns},\"rows\":["
        );
        BytesMut::from(head.as_bytes())
    }

    fn write_row(&self, tree: &Value, metadata: &[u8], out: &mut BytesMut) {
        let now = clock::now_seconds();
        let cells = match self.endpoint.view().schema.custom() {
            Some(version) => version.columns.cells(tree, now),
            None => self.endpoint.resource().rules.cells(tree, now),
        };
        out.extend_from_slice(b"{\"cells\":");
        write_json(out, &Value::Array(cells));
        match self.include {
            IncludeObject::None => out.extend_from_slice(b",\"object\":null"),
            IncludeObject::Metadata => {
                out.extend_from_slice(b",\"object\":");
                out.extend_from_slice(&self.partial_metadata(metadata));
            }
            IncludeObject::Object => {
                out.extend_from_slice(b",\"object\":");
                out.extend_from_slice(&self.encode(tree.clone()));
            }
        }
        out.put_u8(b'}');
    }

    fn partial_metadata(&self, metadata: &[u8]) -> Vec<u8> {
        typed("PartialObjectMetadata", self.accepted.meta_version, metadata)
    }
}

/// The metadata of a list.
pub(super) fn list_meta(list: &ListAnswer) -> Value {
    let mut meta = Map::new();
    meta.insert("resourceVersion".into(), list.revision.to_string().into());
    if let Some(token) = &list.continue_token {
        meta.insert("continue".into(), token.as_str().into());
    }
    if let Some(remaining) = list.remaining {
        meta.insert("remainingItemCount".into(), remaining.into());
    }
    Value::Object(meta)
}

/// Applies YAML or indentation to a whole JSON body, or makes protobuf of it.
pub(crate) fn finish(json: Bytes, encoding: Encoding, pretty: bool) -> Bytes {
    if encoding == Encoding::Json && !pretty {
        return json;
    }
    let Ok(tree) = serde_json::from_slice::<Value>(&json) else { return json };
    let text = match encoding {
        Encoding::Json => serde_json::to_string_pretty(&tree).ok().map(|text| text + "\n"),
        Encoding::Yaml => serde_saphyr::to_string(&tree).ok(),
        Encoding::Protobuf => return protobuf::document(&tree).map_or(json, Bytes::from),
    };
    text.map_or(json, Bytes::from)
}

fn column(column: &crate::resource::Column) -> Value {
    json!({
        "name": column.name,
        "type": column.kind,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    })
}

fn typed(kind: &str, api_version: &str, metadata: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(metadata.len() + 100);
    bytes.extend_from_slice(b"{\"kind\":\"");
    bytes.extend_from_slice(kind.as_bytes());
    bytes.extend_from_slice(b"\",\"apiVersion\":\"");
    bytes.extend_from_slice(api_version.as_bytes());
    bytes.extend_from_slice(b"\",\"metadata\":");
    bytes.extend_from_slice(metadata);
    bytes.push(b'}');
    bytes
}

fn to_json(value: Option<&Value>) -> BytesMut {
    let mut bytes = BytesMut::new();
    match value {
        Some(value) => write_json(&mut bytes, value),
        None => bytes.extend_from_slice(b"{}"),
    }
    bytes
}

fn write_json(out: &mut BytesMut, value: &Value) {
    // Writing a tree to memory cannot fail.
    let _ = serde_json::to_writer(out.writer(), value);
}
