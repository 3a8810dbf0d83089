//! Flow schemas and priority levels: stored and checked, so that tools find what they expect. They
//! control nothing here; the server has limits of its own.

pub mod bootstrap;
mod flow_schema;
mod priority_level;

use serde_json::Value;

pub(super) use flow_schema::resource as flow_schema;
pub(super) use priority_level::resource as priority_level;

use crate::{field::FieldError, object::ObjectExt};

/// The group of both kinds.
const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The fields that a write of the status cannot change.
const STATUS_RESET: &[&[&str]] = &[&["metadata"], &["spec"]];

/// The problems of `status.conditions`.
fn check_conditions(object: &Value, errors: &mut Vec<FieldError>) {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array);
    let mut seen = std::collections::HashSet::new();
    for (index, condition) in conditions.into_iter().flatten().enumerate() {
        let path = format!("status.conditions[{index}].type");
        let kind = condition.text(&["type"]);
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(&*path, &kind.into()));
        }
        if kind.is_empty() {
            errors.push(FieldError::required(path, ""));
        }
    }
}
