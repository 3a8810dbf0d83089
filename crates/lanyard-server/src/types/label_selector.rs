//! Label selectors inside of objects: their problems.

use serde_json::Value;

use super::{
    object_meta::validate_labels,
    path::{Path, items, pairs, strings},
    validate_label_key, validate_label_value,
};
use crate::{field::FieldError, object::ObjectExt};

/// The problems of a selector with `matchLabels` and `matchExpressions`; no selector has none.
pub(super) fn validate_label_selector(selector: Option<&Value>, path: &Path) -> Vec<FieldError> {
    let Some(selector) = selector else { return Vec::new() };
    let labels = path.child("matchLabels");
    let mut errors = validate_labels(&pairs(selector, "matchLabels"), labels.as_ref());
    for (path, expression) in path.items(selector, "matchExpressions") {
        let has_values = !items(expression, "values").is_empty();
        let operator = expression.text(&["operator"]);
        let values = path.child("values");
        errors.extend(match (operator, has_values) {
            ("In" | "NotIn", false) => {
                let problem = "must be specified when `operator` is 'In' or 'NotIn'";
                Some(FieldError::required(&values, problem))
            }
            ("Exists" | "DoesNotExist", true) => {
                let problem = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                Some(FieldError::forbidden(&values, problem))
            }
            ("In" | "NotIn" | "Exists" | "DoesNotExist", _) => None,
            (other, _) => {
                let at = path.child("operator");
                Some(FieldError::invalid_str(at, other, "not a valid selector operator"))
            }
        });
        let key = expression.text(&["key"]);
        errors.extend(validate_key(key, &path.child("key")));
        errors.extend(validate_values(expression, &values));
    }
    errors
}

/// The problems of a selector that is there.
pub(super) fn validate(selector: &Value, path: &str) -> Vec<FieldError> {
    validate_label_selector(Some(selector), &Path::new(path))
}

/// The problems of the key of a label.
pub(super) fn validate_key(key: &str, path: &Path) -> Vec<FieldError> {
    let problems = validate_label_key(key).into_iter();
    problems.map(|problem| FieldError::invalid_str(path, key, problem)).collect()
}

/// The problems of `values` of a requirement.
pub(super) fn validate_values(expression: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, value) in strings(expression, "values").into_iter().enumerate() {
        let problems = validate_label_value(value).into_iter();
        errors.extend(problems.map(|p| FieldError::invalid_str(path.index(at), value, p)));
    }
    errors
}
