//! PUT and PATCH: a change of an object that is there.
//!
//! Both run one loop: take the present state, make the new one from it, check, and write on condition
//! that nobody else wrote in between. The present state comes from memory, which may be a moment old
//! when several servers share one store; a refusal is therefore given only on fresh state.

use std::{sync::Arc, time::Duration};

use lanyard_store::{Error as StoreError, Expect, Write, WriteOp};
use serde_json::Value;

use super::{
    Body, Call, ObjectAnswer, Registry, Served, apply::Configuration, decode::Misfit, ownership,
    patch::Patch, store_error,
};
use crate::{
    admission::{Operation, Subject},
    clock,
    encoded::Encoded,
    field::FieldError,
    negotiate::PatchType,
    object::ObjectExt,
    request::{FieldValidation, parse_version},
    resource::Subresource,
    status::{ApiError, ApiResult},
    types::object_meta,
};

/// How often a change without a resource version is tried again when others write at the same time.
const RETRIES: usize = 20;

/// What is to become of an object.
pub enum Change {
    /// It is replaced by this, in the stored form.
    Replace(Value),
    /// It is scaled to what this Scale says.
    Scale(Value),
    /// It is patched.
    Patch {
        /// What to change.
        patch: Patch,
        /// How strictly the fields of the result are taken.
        validation: FieldValidation,
    },
    /// A configuration is applied.
    Apply(Arc<Configuration>),
}

/// What one attempt came to.
enum Attempt {
    Done(ObjectAnswer),
    /// Somebody else wrote in between.
    Lost,
}

impl Registry {
    /// Replaces an object by the one in `body`; says whether it was created.
    pub async fn update(
        &self,
        call: &Call<'_>,
        body: &Body,
        dry_run: bool,
    ) -> ApiResult<(ObjectAnswer, bool)> {
        if call.subresource == Some(Subresource::Scale) {
            let scale = call.decode_scale(&self.served(), body)?;
            let answer = self.change(call, &Change::Scale(scale), dry_run).await?;
            return Ok((answer, false));
        }
        let mut object = call.decode(&self.served(), body)?;
        call.check_namespace(&mut object)?;
        call.check_name(&object)?;
        let creates =
            call.endpoint.resource().rules.create_on_update() && call.subresource.is_none();
        if creates && self.present(call).await?.is_none() {
            let mut object = object.clone();
            call.check_uid(&object, "")?;
            object.meta_mut().remove("resourceVersion");
            self.admission.may_create(call)?;
            match self.create_object(call, object, dry_run).await {
                Err(error) if error.reason() == "AlreadyExists" => {}
                result => return result.map(|answer| (answer, true)),
            }
        }
        let answer = self.change(call, &Change::Replace(object), dry_run).await?;
        Ok((answer, false))
    }

    /// Patches an object.
    pub async fn patch(
        &self,
        call: &Call<'_>,
        kind: PatchType,
        body: &Body,
        dry_run: bool,
    ) -> ApiResult<ObjectAnswer> {
        let patch = Patch::new(kind, &call.body_schema(), body.parse())?;
        let change = Change::Patch { patch, validation: body.validation };
        self.change(call, &change, dry_run).await
    }

    /// Changes an object, as often as it takes.
    pub async fn change(
        &self,
        call: &Call<'_>,
        change: &Change,
        dry_run: bool,
    ) -> ApiResult<ObjectAnswer> {
        let mut fresh = false;
        for _ in 0..RETRIES {
            let result = match call.endpoint.collection.get(&call.key()) {
                Some(old) => self.try_change(call, &old, change, dry_run).await,
                None => Err(call.not_found()),
            };
            match result {
                Ok(Attempt::Done(answer)) => return Ok(answer),
                Err(error) if fresh => return Err(error),
                Ok(Attempt::Lost) | Err(_) => {
                    call.warnings.lock().clear();
                    self.caught_up().await?;
                    fresh = true;
                }
            }
        }
        Err(ApiError::modified(call.endpoint.group_resource(), call.name))
    }

    /// The object, as of now.
    pub(super) async fn present(&self, call: &Call<'_>) -> ApiResult<Option<Arc<Encoded>>> {
        self.caught_up().await?;
        Ok(call.endpoint.collection.get(&call.key()))
    }

    async fn try_change(
        &self,
        call: &Call<'_>,
        current: &Arc<Encoded>,
        change: &Change,
        dry_run: bool,
    ) -> ApiResult<Attempt> {
        let old = current.value();
        let mut new = call.changed(&self.served(), &old, change)?;
        self.admission.mutate_by_policies(&self.served(), call, &mut new, Some(&old), dry_run)?;
        call.check_preconditions(change, &new, &old)?;
        call.complete(&mut new, &old);
        let _held = self.admission.complete(self, call, &mut new, Some(&old)).await?;
        call.advance_generation(&mut new, &old);
        call.validate_change(&new, &old)?;
        let subject = Subject::new(call, Operation::Update, Some(&new), Some(&old));
        self.admission.namespace(self, &subject).await?;
        self.admission.check(&subject)?;
        self.admission.validate_by_policies(&self.served(), &subject, call.warnings, dry_run)?;
        let rules = &call.endpoint.resource().rules;
        call.warnings.lock().extend(rules.warnings(&new, Some(&old)));
        if ownership::is_same(&mut new, &old) {
            return Ok(Attempt::Done(ObjectAnswer::Stored(current.clone())));
        }
        if dry_run {
            return Ok(Attempt::Done(ObjectAnswer::Tree(new)));
        }
        if new.is_deleting() && new.finalizers().is_empty() && rules.deletion_ready(&new) {
            return self.finish_deletion(call, current, new).await;
        }
        let value = match change {
            Change::Apply(_) => call.endpoint.collection.codec.encode(&mut new),
            _ => call.encode_within_limit(&mut new),
        };
        let ttl = rules.time_to_live(&new).map(Duration::from_secs);
        let op = WriteOp::Put { value: value.clone(), ttl };
        match self.write_over(call, current, op).await? {
            Some(revision) => Ok(Attempt::Done(call.stored(call.key(), &value, revision)?)),
            None => Ok(Attempt::Lost),
        }
    }

    /// The last finalizer went: the object goes, and its last state is the answer.
    async fn finish_deletion(
        &self,
        call: &Call<'_>,
        current: &Arc<Encoded>,
        last: Value,
    ) -> ApiResult<Attempt> {
        let gone = self.write_over(call, current, WriteOp::Delete).await?;
        Ok(gone.map_or(Attempt::Lost, |_| Attempt::Done(ObjectAnswer::Tree(last))))
    }

    /// Writes on condition that `current` is still there; `None` when it is not.
    pub(super) async fn write_over(
        &self,
        call: &Call<'_>,
        current: &Encoded,
        op: WriteOp,
    ) -> ApiResult<Option<lanyard_store::Revision>> {
        let write = Write {
            key: format!("{}{}", call.endpoint.collection.prefix, current.key).into(),
            expect: Expect::At(current.revision),
            op,
        };
        match self.store.write(write).await {
            Ok(written) => Ok(Some(written.revision)),
            Err(StoreError::Conflict { .. }) => Ok(None),
            Err(error) => Err(store_error(error)),
        }
    }
}

impl Call<'_> {
    /// The new object in the stored form, as the client wants it.
    fn changed(&self, served: &Served, old: &Value, change: &Change) -> ApiResult<Value> {
        let mut new = match change {
            Change::Replace(object) => object.clone(),
            Change::Scale(scale) => self.scaled(scale, old)?,
            Change::Patch { patch, validation } => self.patched(served, old, patch, *validation)?,
            Change::Apply(config) => return self.applied(served, Some(old), config),
        };
        self.endpoint.resource().rules.apply_defaults(&mut new);
        self.track_update(old, &mut new);
        Ok(new)
    }

    fn patched(
        &self,
        served: &Served,
        old: &Value,
        patch: &Patch,
        validation: FieldValidation,
    ) -> ApiResult<Value> {
        let problems = |unknown: &[String]| patch.strict_errors(unknown);
        if self.subresource == Some(Subresource::Scale) {
            let mut scale = self.scale(old);
            patch.apply(&mut scale)?;
            let scale = self.conform_scale(served, scale, validation, problems);
            return self.scaled(&scale.map_err(Misfit::in_patch)?, old);
        }
        let mut view = self.endpoint.to_view(old.clone());
        patch.apply(&mut view)?;
        let new = self.conform(served, view, validation, problems);
        let mut new = new.map_err(Misfit::in_patch)?;
        self.check_name(&new)?;
        self.check_namespace(&mut new)?;
        Ok(new)
    }

    fn check_preconditions(&self, change: &Change, new: &Value, old: &Value) -> ApiResult<()> {
        let resource = self.endpoint.group_resource();
        if let Change::Replace(_) = change {
            self.check_uid(new, old.uid())?;
        }
        match new.resource_version() {
            "" | "0" if self.endpoint.resource().rules.unconditional_update() => Ok(()),
            "" | "0" => {
                let text = "must be specified for an update";
                let error = FieldError::invalid("metadata.resourceVersion", &0.into(), text);
                Err(ApiError::invalid(resource, self.name, &[error]))
            }
            version if version == old.resource_version() => Ok(()),
            version => {
                parse_version(version)?;
                Err(ApiError::modified(resource, self.name))
            }
        }
    }

    /// An object that is to be replaced must be the one that the client knows.
    fn check_uid(&self, new: &Value, found: &str) -> ApiResult<()> {
        let wanted = new.uid();
        if wanted.is_empty() || wanted == found {
            return Ok(());
        }
        let text = format!(
            "Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
        );
        Err(ApiError::conflict(self.endpoint.group_resource(), self.name, text))
    }

    /// Fills in what the client may leave out, and restores what it may not touch.
    fn complete(&self, new: &mut Value, old: &Value) {
        let rules = &self.endpoint.resource().rules;
        new.meta_mut().insert("resourceVersion".into(), old.resource_version().into());
        object_meta::carry_over(new, old);
        rules.prepare_update(new, old, self.write_context());
        rules.note_request(new, Some(old), self.user, &clock::now_rfc3339());
    }

    /// A change that those who act on the object must see has a number of its own.
    fn advance_generation(&self, new: &mut Value, old: &Value) {
        let rules = &self.endpoint.resource().rules;
        // Nothing that a part of the object says is news to those who act on the object.
        if self.write_context().subresource.is_none()
            && let Some(changed) = rules.generation_changes(new, old)
        {
            let before = old.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0);
            let after = before + i64::from(changed || before == 0);
            new.meta_mut().insert("generation".into(), after.into());
        }
    }

    fn validate_change(&self, new: &Value, old: &Value) -> ApiResult<()> {
        let mut errors = object_meta::validate_update(new, old);
        let rules = &self.endpoint.resource().rules;
        errors.extend(rules.validate_update(new, old, self.write_context()));
        if errors.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid(self.endpoint.group_kind(), self.name, &errors))
    }
}
