//! The conditions of webhooks and policies: named expressions that all must hold.

use std::collections::HashSet;

use serde_json::Value;

use super::super::{names::validate_label_key, path::items};
use crate::{
    field::FieldError,
    object::ObjectExt,
    policy::expression::{Scope, Wanted},
};

/// More conditions than anybody needs.
const MAX_CONDITIONS: usize = 64;

/// The problems of `matchConditions`; with parameters, expressions may use them.
pub(in super::super) fn validate(holder: &Value, path: &str, params: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let conditions = items(holder, "matchConditions");
    if conditions.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(path, conditions.len(), MAX_CONDITIONS));
        // Upstream goes on to compile them all.
        return errors;
    }
    let scope = Scope { params, authorizer: true, ..Scope::default() };
    let mut names = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let at = |field: &str| format!("{path}[{index}].{field}");
        match condition.text(&["expression"]).trim() {
            "" => errors.push(FieldError::required(at("expression"), "")),
            text => {
                if let Err(problem) = scope.compile(text, Wanted::Bool) {
                    errors.push(FieldError::invalid_str(at("expression"), text, problem));
                }
            }
        }
        let name = condition.text(&["name"]);
        if name.is_empty() {
            errors.push(FieldError::required(at("name"), ""));
            continue;
        }
        for problem in validate_label_key(name) {
            errors.push(FieldError::invalid_str(at("name"), name, problem));
        }
        if !names.insert(name) {
            errors.push(FieldError::duplicate(at("name"), &name.into()));
        }
    }
    errors
}
