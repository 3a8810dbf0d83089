//! How objects look in protobuf: the message of the object, of a list, or of a watch event.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Presentation, present::list_meta};
use crate::{
    collection::{Event, EventKind},
    encoded::Encoded,
    negotiate::Shape,
    registry::{ListAnswer, ObjectAnswer},
    schema::{Struct, builtin, protobuf},
};

impl Presentation {
    /// One object as a whole body.
    pub(super) fn protobuf_object(&self, answer: &ObjectAnswer) -> Bytes {
        match answer {
            ObjectAnswer::Stored(object) => self.enveloped(&self.message(object)).into(),
            ObjectAnswer::Tree(tree) => self.enveloped(&self.tree_message(tree.clone())).into(),
        }
    }

    /// Everything of a list before its first item, and the items.
    pub(super) fn protobuf_list(&self, list: &ListAnswer) -> (Vec<u8>, Vec<Bytes>) {
        let items: Vec<_> = list.objects.iter().map(|object| self.message(object)).collect();
        let len = |item: &Bytes| item.len() + protobuf::list_item(item.len()).len();
        let total = items.iter().map(len).sum();
        let (kind, version) = self.list_type();
        (protobuf::list_head(&version, &kind, &list_meta(list), total), items)
    }

    /// An event that all who watch in protobuf share.
    pub(super) fn shared_protobuf_frame(&self, event: &Event) -> Bytes {
        event.protobuf_frame(|object| self.protobuf_event(event.kind, object)).clone()
    }

    pub(super) fn protobuf_event(&self, kind: EventKind, object: &Encoded) -> Bytes {
        protobuf::watch_frame(kind.as_str(), &self.enveloped(&self.message(object)))
    }

    pub(super) fn protobuf_bookmark(&self, metadata: Value) -> Bytes {
        let message = protobuf::encode(self.table(), &json!({"metadata": metadata}));
        protobuf::watch_frame(EventKind::Bookmark.as_str(), &self.enveloped(&message))
    }

    /// The message of an object in this shape and version.
    fn message(&self, object: &Encoded) -> Bytes {
        match self.accepted.shape {
            Shape::Object if self.endpoint.is_stored_form() => object.message(self.table()).clone(),
            _ => self.tree_message(object.value()),
        }
    }

    fn tree_message(&self, tree: Value) -> Bytes {
        let tree = match self.accepted.shape {
            Shape::Object => self.endpoint.to_view(tree),
            _ => tree,
        };
        protobuf::encode(self.table(), &tree).into()
    }

    fn enveloped(&self, message: &[u8]) -> Vec<u8> {
        match self.accepted.shape {
            Shape::Object => {
                let kind = &self.endpoint.resource().kind;
                protobuf::envelope(&self.endpoint.view().api_version(), kind, message)
            }
            _ => protobuf::envelope(self.accepted.meta_version, "PartialObjectMetadata", message),
        }
    }

    /// The table of what is sent. Custom resources have none of their own, and are refused before.
    fn table(&self) -> &'static Struct {
        let own = match self.accepted.shape {
            Shape::Object => self.endpoint.view().schema.builtin(),
            _ => None,
        };
        let bare = "io.k8s.apimachinery.pkg.apis.meta.v1.PartialObjectMetadata";
        own.unwrap_or_else(|| builtin(bare))
    }
}
