//! Who owns which fields after a write: the registry's side of [`crate::merge`].
//!
//! Objects are tracked from their creation. One that somebody asked to forget its managers is tracked
//! again from its first apply.

use std::borrow::Cow;

use bytes::Bytes;
use lanyard_store::VALUE_MAX;
use serde_json::{Value, json};

use super::{Call, Endpoint};
use crate::{
    clock,
    merge::{
        managers::{Managers, is_reset, same_but_for_times},
        ownership::{self, Versions, Writer},
        set::FieldSet,
        shape::Node,
    },
    object::ObjectExt,
    resource::{Resource, Subresource},
};

const ENTRIES: &str = "managedFields";

impl Versions for Endpoint {
    fn node(&self, api_version: &str) -> Option<&dyn Node> {
        let view = &self.resource().views[view_of(self.resource(), api_version)?];
        // As upstream: what was said through another group is forgotten.
        (view.group == self.view().group).then(|| view.schema.node())
    }

    fn convert(&self, object: &Value, from: &str, to: &str) -> Value {
        let endpoint = |api_version| {
            let view = view_of(self.resource(), api_version)?;
            Some(Self { collection: self.collection.clone(), view })
        };
        match (endpoint(from), endpoint(to)) {
            (Some(from), Some(to)) => to.to_view(from.to_stored(object.clone())),
            _ => object.clone(),
        }
    }
}

fn view_of(resource: &Resource, api_version: &str) -> Option<usize> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    resource.views.iter().position(|view| view.group == group && view.version == version)
}

impl Endpoint {
    /// An object of this view that nobody has set a field of yet.
    pub(super) fn empty(&self) -> Value {
        self.view().schema.conform(Value::Null).map_or_else(|_| json!({}), |empty| empty.value)
    }

    /// A stored-form object as this view shows it, without a copy when they are the same.
    fn seen<'o>(&self, object: &'o Value) -> Cow<'o, Value> {
        match self.is_stored_form() {
            true => Cow::Borrowed(object),
            false => Cow::Owned(self.to_view(object.clone())),
        }
    }
}

impl Subresource {
    /// Its name in URLs and entries.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Finalize => "finalize",
            Self::Approval => "approval",
            Self::Scale => "scale",
        }
    }
}

/// What a [`Writer`] borrows.
pub(super) struct Write {
    api_version: String,
    now: String,
    reset: FieldSet,
}

impl Call<'_> {
    /// The parts of a write through this call, now.
    pub(super) fn write_now(&self) -> Write {
        Write {
            api_version: self.endpoint.view().api_version(),
            now: clock::now_rfc3339(),
            reset: FieldSet::of_names(
                self.endpoint.resource().rules.reset_fields(self.subresource),
            ),
        }
    }

    /// Who writes.
    pub(super) fn writer<'w>(&self, name: &'w str, write: &'w Write) -> Writer<'w> {
        Writer {
            name,
            api_version: &write.api_version,
            subresource: self.subresource.map_or("", Subresource::as_str),
            // As upstream: who scales is noted without a time.
            now: (self.subresource != Some(Subresource::Scale)).then_some(&write.now),
            reset: &write.reset,
        }
    }

    /// Notes in a new object who set its fields.
    pub(super) fn track_create(&self, new: &mut Value) {
        let empty = self.endpoint.empty();
        let managers = self.managers_told(new, None);
        self.track(&empty, new, managers);
    }

    /// Notes in a changed object who changed what; both are in the stored form.
    pub(super) fn track_update(&self, old: &Value, new: &mut Value) {
        let managers = self.managers_told(new, Some(old));
        if managers.is_empty() {
            return;
        }
        // As upstream: who scales what nobody has set so far is not noted.
        match &self.endpoint.view().scale {
            Some(scaling)
                if self.subresource == Some(Subresource::Scale)
                    && !managers.own(&scaling.wanted, &self.endpoint.view().api_version()) =>
            {
                set_managers(new, &managers);
            }
            _ => self.track(&self.endpoint.seen(old), new, managers),
        }
    }

    fn track(&self, old: &Value, new: &mut Value, managers: Managers) {
        let write = self.write_now();
        let writer = self.writer(self.manager, &write);
        let tracked =
            ownership::update(self.endpoint, old, &self.endpoint.seen(new), managers, writer);
        // Trees that cannot be compared have no known owners.
        if let Ok(managers) = tracked {
            set_managers(new, &managers);
        }
    }

    /// The owners that a request says the object has, or those that it had; takes them out of `new`.
    ///
    /// A client may set or reset them, but not by leaving them out, and not through a subresource.
    fn managers_told(&self, new: &mut Value, old: Option<&Value>) -> Managers {
        let told = new.meta_mut().remove(ENTRIES);
        let before = || {
            let entries = old.and_then(|old| old.at(&["metadata", ENTRIES]));
            Managers::decode(entries).unwrap_or_default()
        };
        if self.subresource.is_some() {
            return before();
        }
        if is_reset(told.as_ref()) {
            return Managers::default();
        }
        match Managers::decode(told.as_ref()) {
            Ok(managers) if !managers.is_empty() => managers,
            _ => before(),
        }
    }
}

/// An empty list of entries of a built-in kind asks to forget them, which no longer shows once empty
/// fields are left out; so does a list with one empty entry, which does.
pub(super) fn mark_reset(object: &mut Value) {
    if let Some(Value::Array(entries)) = object.pointer_mut("/metadata/managedFields")
        && entries.is_empty()
    {
        entries.push(json!({}));
    }
}

/// Writes the entries into an object.
pub(super) fn set_managers(object: &mut Value, managers: &Managers) {
    match managers.encode() {
        entries if entries.is_empty() => object.meta_mut().remove(ENTRIES),
        entries => object.meta_mut().insert(ENTRIES.into(), entries.into()),
    };
}

/// Takes the entries out of an object.
pub(super) fn take_entries(object: &mut Value) -> Option<Value> {
    object.meta_mut().remove(ENTRIES)
}

impl Call<'_> {
    /// The stored bytes of an object. One that is too large for the store with its entries, and would not
    /// be without, loses them, as upstream does it: better untracked than refused.
    pub(super) fn encode_within_limit(&self, object: &mut Value) -> Bytes {
        let codec = &self.endpoint.collection.codec;
        let bytes = codec.encode(object);
        if bytes.len() <= VALUE_MAX || take_entries(object).is_none() {
            return bytes;
        }
        codec.encode(object)
    }
}

/// Whether a change is none: all that differs is when somebody last set what they own.
pub(super) fn is_same(new: &mut Value, old: &Value) -> bool {
    let before = old.at(&["metadata", ENTRIES]);
    if !same_but_for_times(new.at(&["metadata", ENTRIES]), before) {
        return new == old;
    }
    let after = take_entries(new);
    new.meta_mut().extend(before.map(|entries| (ENTRIES.to_owned(), entries.clone())));
    let same = new == old;
    if !same {
        new.meta_mut().extend(after.map(|entries| (ENTRIES.to_owned(), entries)));
    }
    same
}
