//! POST: a new object.

use std::time::Duration;

use lanyard_store::{Error as StoreError, Expect, Write, WriteOp};
use serde_json::Value;

use super::{Body, Call, ObjectAnswer, Registry, store_error};
use crate::{
    admission::{Operation, Subject},
    clock,
    field::FieldError,
    object::ObjectExt,
    status::{ApiError, ApiResult},
    types::object_meta,
};

/// How often a generated name is drawn before giving up, as upstream does.
const NAME_TRIES: usize = 8;

/// How much of `generateName` is kept: 63 characters less the five random ones.
const NAME_BASE: usize = 58;

/// The letters of generated names: no vowels and no look-alikes, as upstream chose them.
const NAME_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Who is told to own the fields of a new object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Owners {
    /// Whoever creates it.
    Creator,
    /// Those that it says.
    Told,
}

impl Registry {
    /// Creates the object in `body`.
    pub async fn create(
        &self,
        call: &Call<'_>,
        body: &Body,
        dry_run: bool,
    ) -> ApiResult<ObjectAnswer> {
        let mut object = call.decode(&self.served(), body)?;
        call.check_namespace(&mut object)?;
        self.create_object(call, object, dry_run).await
    }

    /// Creates an object that is in the stored form already.
    pub async fn create_object(
        &self,
        call: &Call<'_>,
        object: Value,
        dry_run: bool,
    ) -> ApiResult<ObjectAnswer> {
        self.create_owned(call, object, Owners::Creator, dry_run).await
    }

    pub(super) async fn create_owned(
        &self,
        call: &Call<'_>,
        mut object: Value,
        owners: Owners,
        dry_run: bool,
    ) -> ApiResult<ObjectAnswer> {
        if !object.resource_version().is_empty() {
            let text = "resourceVersion should not be set on objects to be created";
            return Err(ApiError::unclassified(text));
        }
        let generated =
            object.name().is_empty() && !object.text(&["metadata", "generateName"]).is_empty();
        let tries = if generated { NAME_TRIES } else { 1 };
        let rules = &call.endpoint.resource().rules;
        rules.apply_defaults(&mut object);
        object_meta::clear_system_fields(&mut object);
        if owners == Owners::Creator {
            call.track_create(&mut object);
        }
        self.admission.mutate_by_policies(&self.served(), call, &mut object, None, dry_run)?;
        prepare(call, &mut object);
        let has_generation = rules.generation_changes(&object, &object).is_some();
        fill_metadata(&mut object, has_generation);
        for attempt in 1..=tries {
            if generated {
                let name = generate_name(object.text(&["metadata", "generateName"]));
                object.meta_mut().insert("name".into(), name.into());
                // What the type derives from the name follows it.
                prepare(call, &mut object);
            }
            match self.try_create(call, &mut object, dry_run).await {
                Err(error) if error.reason() == "AlreadyExists" && attempt < tries => {}
                result => return result,
            }
        }
        Err(call.already_exists(object.name()))
    }

    async fn try_create(
        &self,
        call: &Call<'_>,
        object: &mut Value,
        dry_run: bool,
    ) -> ApiResult<ObjectAnswer> {
        let endpoint = call.endpoint;
        let rules = &endpoint.resource().rules;
        if let Some(why) = rules.refuses_creation() {
            return Err(ApiError::forbidden(endpoint.group_resource(), object.name(), why));
        }
        let subject = Subject::new(call, Operation::Create, Some(object), None);
        self.admission.namespace(self, &subject).await?;
        let _held = self.admission.complete(self, call, object, None).await?;
        let errors = problems(call, object);
        if !errors.is_empty() {
            return Err(ApiError::invalid(endpoint.group_kind(), object.name(), &errors));
        }
        let subject = Subject::new(call, Operation::Create, Some(object), None);
        self.admission.check(&subject)?;
        self.admission.validate_by_policies(&self.served(), &subject, call.warnings, dry_run)?;
        call.warnings.lock().extend(rules.warnings(object, None));
        let key = call.key_of(object.name());
        if dry_run {
            self.caught_up().await?;
            if endpoint.collection.get(&key).is_some() {
                return Err(call.already_exists(object.name()));
            }
            return Ok(ObjectAnswer::Tree(object.clone()));
        }
        let value = call.encode_within_limit(object);
        let ttl = rules.time_to_live(object).map(Duration::from_secs);
        let write = Write {
            key: format!("{}{key}", endpoint.collection.prefix).into(),
            expect: Expect::Absent,
            op: WriteOp::Put { value: value.clone(), ttl },
        };
        match self.store.write(write).await {
            Ok(written) => call.stored(key, &value, written.revision),
            Err(StoreError::Conflict { .. }) => {
                self.caught_up().await?;
                Err(call.already_exists(object.name()))
            }
            Err(error) => Err(store_error(error)),
        }
    }
}

impl Call<'_> {
    /// Something of that name is there, if only for a while longer.
    fn already_exists(&self, name: &str) -> ApiError {
        let found = self.endpoint.collection.get(&self.key_of(name));
        let deleting = found.is_some_and(|object| object.value().is_deleting());
        ApiError::already_exists(self.endpoint.group_resource(), name, deleting)
    }
}

/// What the type itself sets and clears.
fn prepare(call: &Call<'_>, object: &mut Value) {
    let rules = &call.endpoint.resource().rules;
    rules.prepare_create(object);
    rules.note_request(object, None, call.user, &clock::now_rfc3339());
}

/// What is wrong with a new object.
fn problems(call: &Call<'_>, object: &Value) -> Vec<FieldError> {
    let resource = call.endpoint.resource();
    let rules = &resource.rules;
    let metadata = || object_meta::validate_create(object, resource.scope, rules.name_rule());
    let own = rules.validate(object, call.write_context());
    match rules.checks_metadata() {
        true if own.is_empty() => metadata(),
        true => own,
        false => metadata().into_iter().chain(own).collect(),
    }
}

/// What the server decides about a new object, whatever the client sent.
fn fill_metadata(object: &mut Value, has_generation: bool) {
    let meta = object.meta_mut();
    meta.insert("uid".into(), uuid::Uuid::new_v4().to_string().into());
    meta.insert("creationTimestamp".into(), clock::now_rfc3339().into());
    if has_generation {
        meta.insert("generation".into(), 1.into());
    }
}

/// A name that begins with `base` and is most likely new.
pub(crate) fn generate_name(base: &str) -> String {
    let cut = base.char_indices().take_while(|(at, c)| at + c.len_utf8() <= NAME_BASE).count();
    let mut name: String = base.chars().take(cut).collect();
    let random = uuid::Uuid::new_v4();
    let letter = |byte: &u8| char::from(NAME_LETTERS[*byte as usize % NAME_LETTERS.len()]);
    // The last bytes of a version 4 UUID are all random.
    name.extend(random.as_bytes()[11..].iter().map(letter));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_keep_the_base_and_fit() {
        let name = generate_name("web-");
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        let long = generate_name(&"a".repeat(100));
        assert_eq!(long.len(), 63);
        assert_ne!(generate_name("x"), generate_name("x"));
    }
}
