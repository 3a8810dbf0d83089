//! Protobuf, as Kubernetes writes it: the same tables that describe the JSON say where each field is.
//!
//! Objects stay JSON trees inside; a message is read into one ([`decode`]) or written from one
//! ([`encode`]). Bytes are those of upstream's encoder: fields in the order of their numbers, maps in the
//! order of their keys, and scalars that are not pointers even when they are zero.

mod envelope;
mod layout;
mod read;
mod write;

pub use envelope::{Envelope, MAGIC, OpenError, document, envelope, open, watch_frame};
pub(crate) use envelope::{LIST_END, list_head, list_item};
pub use layout::Layout;
pub use read::decode;
pub use write::encode;

/// Why bytes are no message of a type, in upstream's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// It ends in the middle of a field.
    #[error("unexpected EOF")]
    Truncated,
    /// A number has more bytes than any number needs.
    #[error("proto: integer overflow")]
    Overflow,
    /// A field has no number, or a kind that does not exist.
    #[error("proto: {message}: illegal tag {number} (wire type {wire})")]
    IllegalTag {
        /// The name of the message.
        message: &'static str,
        /// The number.
        number: u64,
        /// The kind.
        wire: u8,
    },
    /// A field is written as something that its type cannot be.
    #[error("proto: wrong wireType = {wire} for field {field}")]
    WrongWireType {
        /// The kind that was found.
        wire: u8,
        /// The name of the field.
        field: String,
    },
    /// A string is not UTF-8.
    #[error("proto: field {0} contains invalid UTF-8")]
    NotUtf8(String),
    /// A field that holds JSON does not.
    #[error("{0}")]
    NotJson(String),
    /// Messages in messages in messages.
    #[error("proto: nesting too deep")]
    TooDeep,
    /// A few bytes that stand for much memory.
    #[error("proto: message takes too much memory")]
    TooLarge,
    /// It does not begin as Kubernetes' messages do.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NoMagic,
    /// It does not even begin.
    #[error("empty data")]
    Empty,
    /// It ends with its magic.
    #[error("empty body")]
    NoBody,
}

impl ProtobufError {
    /// The same in a message of that name.
    fn within(self, message: &'static str) -> Self {
        match self {
            Self::IllegalTag { number, wire, .. } => Self::IllegalTag { message, number, wire },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
