//! Lets policies change a write before anybody else looks at it.

use json_patch::{PatchErrorKind, PatchOperation};
use serde_json::Value;

use super::{
    Admission, Operation, Subject,
    policies::{Inputs, Written, is_exempt},
};
use crate::{
    merge::{
        self,
        shape::{ListKind, Node},
    },
    patch::{self, MAX_OPERATIONS},
    policy::{Binding, MutatingPolicy, Mutation},
    registry::{Call, Endpoint, Served},
    status::{ApiError, ApiResult},
};

impl Admission {
    /// Changes an object in the stored form as the policies want it.
    pub fn mutate_by_policies(
        &self,
        served: &Served,
        call: &Call<'_>,
        object: &mut Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> ApiResult<()> {
        let bound = self.policies.mutating.bound();
        if bound.is_empty() || is_exempt(call.endpoint) {
            return Ok(());
        }
        let mut failures = Vec::new();
        let before = object.clone();
        for again in [false, true] {
            for (policy, bindings) in bound.iter().filter(|(policy, _)| !again || policy.reinvoked)
            {
                for binding in bindings {
                    let write = Write { admission: self, served, call, old, dry_run };
                    let failed = write.mutate(policy, binding, object);
                    let message = |why| {
                        let (policy, binding) = (&policy.name, &binding.name);
                        format!("policy '{policy}' with binding '{binding}' denied request: {why}")
                    };
                    failures
                        .extend(failed.into_iter().filter(|_| policy.fails_closed).map(message));
                }
            }
            // Those that want to are asked once more, about what the others made of it.
            if !failures.is_empty() || *object == before {
                break;
            }
        }
        let Some(first) = failures.first() else { return Ok(()) };
        let resource = call.endpoint.group_resource();
        let refused = ApiError::new(http::StatusCode::FORBIDDEN, "Invalid", first);
        let refused =
            refused.about(resource, Subject::new(call, Operation::Create, Some(object), None).name);
        Err(failures.iter().fold(refused, |refused, failure| refused.caused("", failure, None)))
    }
}

/// A write that may be changed.
struct Write<'a> {
    admission: &'a Admission,
    served: &'a Served,
    call: &'a Call<'a>,
    old: Option<&'a Value>,
    dry_run: bool,
}

impl Write<'_> {
    /// Applies the mutations of a policy with all parameters of a binding; gives what went wrong.
    fn mutate(
        &self,
        policy: &MutatingPolicy,
        binding: &Binding,
        object: &mut Value,
    ) -> Vec<String> {
        let Some((view, params)) = self.with_subject(object, |written| {
            let view = written.view(&policy.matches)?;
            if binding.matches.as_ref().is_some_and(|narrow| written.view(narrow).is_none()) {
                return None;
            }
            Some((view, written.params(policy.param_kind.as_ref(), binding)))
        }) else {
            return Vec::new();
        };
        let params = match params {
            Ok(params) => params,
            Err(error) => return vec![format!("failed to configure binding: {error}")],
        };
        let mut failures = Vec::new();
        for params in &params {
            failures.extend(self.mutate_with(policy, params, view, object));
        }
        failures
    }

    fn mutate_with(
        &self,
        policy: &MutatingPolicy,
        params: &Value,
        view: usize,
        object: &mut Value,
    ) -> Vec<String> {
        let applies = self.with_inputs(object, view, |inputs| policy.applies(&inputs.with(params)));
        match applies {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(error) => return vec![error],
        }
        let mut failures = Vec::new();
        for at in 0..policy.len() {
            // Each mutation sees what the one before it did.
            let wanted =
                self.with_inputs(object, view, |inputs| policy.mutation(at, &inputs.with(params)));
            let matched = Endpoint { collection: self.call.endpoint.collection.clone(), view };
            match wanted.and_then(|mutation| apply(&matched, object, mutation)) {
                Ok(changed) => *object = changed,
                Err(error) => failures.push(error),
            }
        }
        failures
    }

    fn with_subject<T>(&self, object: &Value, run: impl FnOnce(&Written<'_>) -> T) -> T {
        let operation = if self.old.is_some() { Operation::Update } else { Operation::Create };
        let subject = Subject::new(self.call, operation, Some(object), self.old);
        run(&Written::new(self.admission, self.served, &subject, self.dry_run))
    }

    fn with_inputs<T>(&self, object: &Value, view: usize, run: impl FnOnce(&Inputs) -> T) -> T {
        self.with_subject(object, |written| run(&Inputs::new(written, Some(object), view)))
    }
}

/// The object in the stored form after a change through a view.
fn apply(matched: &Endpoint, object: &Value, mutation: Mutation) -> Result<Value, String> {
    let mut shown = matched.to_view(object.clone());
    match mutation {
        Mutation::Patch(operations) => {
            if operations.as_array().is_some_and(|list| list.len() > MAX_OPERATIONS) {
                return Err("JSON Patch: too many operations".to_owned());
            }
            let operations: Vec<PatchOperation> = serde_json::from_value(operations)
                .map_err(|error| format!("JSON Patch: {error}"))?;
            match patch::apply(&mut shown, &operations) {
                Ok(()) => {}
                // A test that fails means that there is nothing to do.
                Err(patch::Refused::Inapplicable(error))
                    if matches!(error.kind, PatchErrorKind::TestFailed) =>
                {
                    return Ok(object.clone());
                }
                Err(patch::Refused::Inapplicable(error)) => {
                    return Err(format!("JSON Patch: {error}"));
                }
                Err(refused) => return Err(format!("JSON Patch: {refused}")),
            }
        }
        Mutation::Apply(mut wanted) => {
            let node = matched.view().schema.node();
            wanted["apiVersion"] = shown["apiVersion"].clone();
            wanted["kind"] = shown["kind"].clone();
            let mut atomic = Vec::new();
            find_atomic(node, &wanted, "", &mut atomic);
            if !atomic.is_empty() {
                return Err(format!(
                    "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, \
                     maps or structs: {}",
                    atomic.join(", ")
                ));
            }
            shown = merge::combine::merge(node, &shown, &wanted).map_err(|problems| {
                format!("error applying patch: failed to merge patch: {problems}")
            })?;
        }
    }
    let conformed = matched.view().schema.conform(shown).map_err(|error| error.to_string())?;
    let mut changed = matched.to_stored(conformed.value);
    matched.resource().rules.apply_defaults(&mut changed);
    Ok(changed)
}

/// Where a configuration sets what can only be set as a whole.
fn find_atomic(node: &dyn Node, value: &Value, path: &str, found: &mut Vec<String>) {
    let shape = node.shape();
    match value {
        Value::Object(fields) => {
            let Some(map) = shape.map else { return };
            if map.atomic {
                found.push(path.to_owned());
            }
            for (name, field) in fields {
                if let Some(node) = map.fields.field(name) {
                    find_atomic(node, field, &format!("{path}.{name}"), found);
                }
            }
        }
        Value::Array(items) => {
            let Some(list) = shape.list else { return };
            if list.kind == ListKind::Atomic {
                found.push(path.to_owned());
            }
            for (at, item) in items.iter().enumerate() {
                find_atomic(list.items, item, &format!("{path}[{at}]"), found);
            }
        }
        _ => {}
    }
}
