//! What Kubernetes puts around its messages: four magic bytes, kind and version; and watch frames.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

use super::{ProtobufError, decode, encode, read::last, write::Backward};
use crate::schema::{Struct, catalog::kind_of};

/// How every message begins.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// A message with its type.
pub struct Envelope<'a> {
    /// The group version that it says.
    pub api_version: &'a str,
    /// The kind that it says.
    pub kind: &'a str,
    /// The message inside.
    pub message: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Reads what is around a message.
    ///
    /// # Errors
    /// When it is not one of Kubernetes'.
    pub fn read(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        if bytes.is_empty() {
            return Err(ProtobufError::Empty);
        }
        let unknown = bytes.strip_prefix(&MAGIC).ok_or(ProtobufError::NoMagic)?;
        if unknown.is_empty() {
            return Err(ProtobufError::NoBody);
        }
        let type_meta = last(unknown, 1)?.unwrap_or_default();
        let name = |at| -> Result<&str, ProtobufError> {
            let bytes = last(type_meta, at)?.unwrap_or_default();
            std::str::from_utf8(bytes).map_err(|_| ProtobufError::NotUtf8("kind".to_owned()))
        };
        let message = last(unknown, 2)?.unwrap_or_default();
        Ok(Self { api_version: name(1)?, kind: name(2)?, message })
    }
}

/// Why there is no object in a body.
#[derive(Debug)]
pub enum OpenError {
    /// Not even its kind can be told.
    Envelope(ProtobufError),
    /// The message is none of the kind that it says.
    Message {
        /// The kind.
        kind: String,
        /// The group version.
        api_version: String,
        /// What is wrong.
        why: ProtobufError,
    },
}

/// The object in a body, with the kind and version that it says; nothing else when nobody knows these.
///
/// # Errors
/// When it is no message of that kind.
pub fn open(bytes: &[u8]) -> Result<Value, OpenError> {
    let Envelope { api_version, kind, message } =
        Envelope::read(bytes).map_err(OpenError::Envelope)?;
    let mut object = match kind_of(api_version, kind) {
        None => Value::Object(Default::default()),
        Some(table) => decode(table, message).map_err(|why| OpenError::Message {
            kind: kind.to_owned(),
            api_version: api_version.to_owned(),
            why,
        })?,
    };
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    Ok(object)
}

/// A message with its type around it.
pub fn envelope(api_version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let mut out = Backward::with_capacity(message.len() + api_version.len() + kind.len() + 40);
    out.slice(4, b"");
    out.slice(3, b"");
    out.slice(2, message);
    type_meta(&mut out, api_version, kind);
    out.put(&MAGIC);
    out.finish()
}

fn type_meta(out: &mut Backward, api_version: &str, kind: &str) {
    out.message(1, |out| {
        out.slice(2, kind.as_bytes());
        out.slice(1, api_version.as_bytes());
    });
}

/// A document such as a Status or a review, by the kind and version that it says; nothing when that kind
/// has no protobuf form.
pub fn document(object: &Value) -> Option<Vec<u8>> {
    let text = |field| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let table = kind_of(api_version, kind)?;
    Some(envelope(api_version, kind, &encode(table, object)))
}

/// One watch event: its length, then type and object.
pub fn watch_frame(kind: &str, object: &[u8]) -> Bytes {
    let mut out = Backward::with_capacity(object.len() + kind.len() + 32);
    out.message(2, |out| out.slice(1, object));
    out.slice(1, kind.as_bytes());
    let event = out.finish();
    let mut frame = BytesMut::with_capacity(event.len() + 4);
    frame.put_u32(event.len() as u32);
    frame.put_slice(&event);
    frame.freeze()
}

/// Everything of a list before its first item, given the length of all of them together.
pub(crate) fn list_head(api_version: &str, kind: &str, meta: &Value, items: usize) -> Vec<u8> {
    let table: &Struct = crate::schema::builtin("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta");
    let mut inside = Backward::with_capacity(128);
    inside.slice(1, &encode(table, meta));
    let inside = inside.finish();
    let mut out = Backward::with_capacity(inside.len() + 64);
    out.put(&inside);
    out.open(2, inside.len() + items);
    type_meta(&mut out, api_version, kind);
    out.put(&MAGIC);
    out.finish()
}

/// Everything of a list behind its last item.
pub(crate) const LIST_END: &[u8] = b"\x1a\x00\x22\x00";

/// What stands before an item of a list.
pub(crate) fn list_item(len: usize) -> Vec<u8> {
    let mut out = Backward::with_capacity(12);
    out.open(2, len);
    out.finish()
}
