//! Lease: who holds a role now, and until when.

use std::sync::Arc;

use serde_json::Value;

use super::{
    ALL_VERBS,
    column::{self, AGE, NAME, age_cell, name_cell},
    names::validate_label_key,
};
use crate::{
    field::FieldError,
    object::ObjectExt,
    resource::{Column, Resource, Rules, Scope, View, WriteContext},
    schema::builtin,
};

pub(super) fn resource() -> Resource {
    Resource {
        storage: "leases.coordination.k8s.io".into(),
        plural: "leases".into(),
        singular: "lease".into(),
        kind: "Lease".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Namespaced,
        verbs: ALL_VERBS,
        subresources: &[],
        views: vec![View::new(
            "coordination.k8s.io",
            "v1",
            builtin("io.k8s.api.coordination.v1.Lease"),
        )],
        rules: Arc::new(Leases),
    }
}

static COLUMNS: [Column; 3] = [NAME, column::text("Holder", "Who holds the lease."), AGE];

struct Leases;

impl Rules for Leases {
    fn prepare_create(&self, object: &mut Value) {
        drop_coordination(object, None);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, _context: WriteContext<'_>) {
        drop_coordination(new, Some(old));
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let number = |field| object.at(&["spec", field]).and_then(Value::as_i64);
        if let Some(seconds) = number("leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
            let path = "spec.leaseDurationSeconds";
            errors.push(FieldError::invalid(path, &seconds.into(), "must be greater than 0"));
        }
        if let Some(count) = number("leaseTransitions").filter(|count| *count < 0) {
            let problem = "must be greater than or equal to 0";
            errors.push(FieldError::invalid("spec.leaseTransitions", &count.into(), problem));
        }
        if let Some(strategy) = object.at(&["spec", "strategy"]).and_then(Value::as_str) {
            validate_strategy(strategy, &mut errors);
        }
        if !object.text(&["spec", "preferredHolder"]).is_empty()
            && object.text(&["spec", "strategy"]).is_empty()
        {
            let problem = "may only be specified if `strategy` is defined";
            errors.push(FieldError::forbidden("spec.preferredHolder", problem));
        }
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        _old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        self.validate(new, context)
    }

    fn create_on_update(&self) -> bool {
        true
    }

    /// A lease is a lock: whoever writes it must know what it overwrites.
    fn unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let holder = object.text(&["spec", "holderIdentity"]);
        vec![name_cell(object), holder.into(), age_cell(object, now)]
    }
}

/// The fields of coordinated leader election, which is off by default upstream, are not taken in;
/// those that are there stay.
fn drop_coordination(object: &mut Value, old: Option<&Value>) {
    for field in ["strategy", "preferredHolder"] {
        if old.is_none_or(|old| old.at(&["spec", field]).is_none())
            && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
        {
            spec.remove(field);
        }
    }
}

fn validate_strategy(strategy: &str, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.strategy.strategy";
    const KNOWN: &str = "OldestEmulationVersion";
    if !strategy.contains('/') {
        if strategy != KNOWN {
            errors.push(FieldError::not_supported(PATH, strategy, &[KNOWN]));
        }
        return;
    }
    for problem in validate_label_key(strategy) {
        errors.push(FieldError::invalid_str(PATH, strategy, problem));
    }
}
