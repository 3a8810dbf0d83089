//! Label selectors that stand in objects: what they may say.

use serde_json::Value;

use super::{
    names::{validate_label_key, validate_label_value},
    object_meta::validate_labels,
};
use crate::{field::FieldError, object::ObjectExt};

/// The problems of a selector with `matchLabels` and `matchExpressions`.
pub(super) fn validate(selector: &Value, path: &str) -> Vec<FieldError> {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let labels: Vec<(&str, &str)> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    let mut errors = validate_labels(&labels, &format!("{path}.matchLabels"));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for (index, expression) in expressions.into_iter().flatten().enumerate() {
        check_requirement(expression, &format!("{path}.matchExpressions[{index}]"), &mut errors);
    }
    errors
}

fn check_requirement(requirement: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let values: Vec<&str> = requirement
        .get("values")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match requirement.text(&["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let problem = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(format!("{path}.values"), problem));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let problem = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(format!("{path}.values"), problem));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => {
            let problem = "not a valid selector operator";
            errors.push(FieldError::invalid_str(format!("{path}.operator"), other, problem));
        }
    }
    let key = requirement.text(&["key"]);
    for problem in validate_label_key(key) {
        errors.push(FieldError::invalid_str(format!("{path}.key"), key, problem));
    }
    for (index, value) in values.into_iter().enumerate() {
        for problem in validate_label_value(value) {
            errors.push(FieldError::invalid_str(format!("{path}.values[{index}]"), value, problem));
        }
    }
}
