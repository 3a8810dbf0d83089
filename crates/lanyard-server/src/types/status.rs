//! What most kinds with a `spec` and a `status` have in common: each has an address of its own.

use serde_json::{Value, json};

use crate::{
    object::ObjectExt,
    resource::{Subresource, WriteContext},
};

/// Nobody creates an object in a state.
pub(super) fn clear(object: &mut Value) {
    object["status"] = json!({});
}

/// A write of the object leaves the status alone, one of the status everything else but metadata.
pub(super) fn separate(new: &mut Value, old: &Value, context: WriteContext<'_>) {
    match context.subresource {
        Some(Subresource::Status) => keep(new, old, "spec"),
        _ => keep(new, old, "status"),
    }
}

/// The same for kinds whose metadata, too, cannot be written with the status.
pub(super) fn separate_with_metadata(new: &mut Value, old: &Value, context: WriteContext<'_>) {
    separate(new, old, context);
    if context.subresource == Some(Subresource::Status) {
        let managed = new.at(&["metadata", "managedFields"]).cloned();
        keep(new, old, "metadata");
        match managed {
            Some(managed) => new.meta_mut().insert("managedFields".into(), managed),
            None => new.meta_mut().remove("managedFields"),
        };
    }
}

/// Puts a field back as it was.
fn keep(new: &mut Value, old: &Value, field: &str) {
    let Some(fields) = new.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => fields.insert(field.to_owned(), value.clone()),
        None => fields.remove(field),
    };
}
