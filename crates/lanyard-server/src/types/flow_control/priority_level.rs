//! PriorityLevelConfiguration: how many requests of a level may run, and what happens to the others.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    super::{
        ALL_VERBS,
        column::{self, AGE, NAME, age_cell, name_cell},
        object_meta::validate_finalizer_domains,
        status,
    },
    GROUP, STATUS_RESET, bootstrap, check_conditions,
};
use crate::{
    field::FieldError,
    object::ObjectExt,
    resource::{Column, Resource, Rules, Scope, Subresource, View, WriteContext},
    schema::builtin,
};

/// The one level without limits.
const EXEMPT: &str = "exempt";
const MAX_QUEUES: i64 = 10_000_000;
/// How many bits the hash has from which queues are drawn.
const MAX_HASH_BITS: u32 = 60;
/// An annotation of an older version.
const OLD_ANNOTATION: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

pub(in super::super) fn resource() -> Resource {
    Resource {
        storage: format!("prioritylevelconfigurations.{GROUP}").into(),
        plural: "prioritylevelconfigurations".into(),
        singular: "prioritylevelconfiguration".into(),
        kind: "PriorityLevelConfiguration".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope: Scope::Cluster,
        verbs: ALL_VERBS,
        subresources: &[Subresource::Status],
        views: vec![View::new(
            GROUP,
            "v1",
            builtin("io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration"),
        )],
        rules: Arc::new(PriorityLevels),
    }
}

static COLUMNS: [Column; 7] = [
    NAME,
    column::text("Type", "Whether there is a limit."),
    column::text("NominalConcurrencyShares", "The share of the requests that may run."),
    column::text("Queues", "The number of queues."),
    column::text("HandSize", "The number of queues that one flow may use."),
    column::text("QueueLengthLimit", "The length of a queue."),
    AGE,
];

struct PriorityLevels;

impl Rules for PriorityLevels {
    fn apply_defaults(&self, object: &mut Value) {
        for (part, shares) in [("limited", 30), ("exempt", 0)] {
            let part = object.pointer_mut(&format!("/spec/{part}"));
            if let Some(part) = part.filter(|part| part.is_object()) {
                default(part, "nominalConcurrencyShares", Value::is_null, shares);
                default(part, "lendablePercent", Value::is_null, 0);
            }
        }
        let queuing = object.pointer_mut("/spec/limited/limitResponse/queuing");
        if let Some(queuing) = queuing.filter(|queuing| queuing.is_object()) {
            for (field, number) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
                default(queuing, field, |value| *value == json!(0), number);
            }
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        status::clear(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        status::separate_with_metadata(new, old, context);
    }

    fn reset_fields(&self, subresource: Option<Subresource>) -> &'static [&'static [&'static str]] {
        match subresource {
            Some(Subresource::Status) => STATUS_RESET,
            _ => &[&["status"]],
        }
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        let mut errors = validate_finalizer_domains(object);
        if object.at(&["metadata", "annotations", OLD_ANNOTATION]).is_some() {
            let problem = format!("annotation '{OLD_ANNOTATION}' is forbidden");
            errors.push(FieldError::forbidden("metadata.annotations", problem));
        }
        let spec = object.get("spec").unwrap_or(&Value::Null);
        check_spec(object.name(), spec, &mut errors);
        check_fixed(object.name(), spec, &mut errors);
        check_conditions(object, &mut errors);
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        _old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        if context.subresource.is_none() {
            return self.validate(new, context);
        }
        let mut errors = Vec::new();
        check_conditions(new, &mut errors);
        errors
    }

    fn generation_changes(&self, new: &Value, old: &Value) -> Option<bool> {
        Some(new.get("spec") != old.get("spec"))
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let number = |path: &[&str]| object.at(path).cloned().unwrap_or_else(|| "<none>".into());
        let queuing = |field| number(&["spec", "limited", "limitResponse", "queuing", field]);
        vec![
            name_cell(object),
            object.text(&["spec", "type"]).into(),
            number(&["spec", "limited", "nominalConcurrencyShares"]),
            queuing("queues"),
            queuing("handSize"),
            queuing("queueLengthLimit"),
            age_cell(object, now),
        ]
    }
}

fn default(object: &mut Value, field: &str, is_unset: impl Fn(&Value) -> bool, number: i64) {
    if object.get(field).is_none_or(is_unset) {
        object[field] = number.into();
    }
}

fn check_fixed(name: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(mut fixed) = bootstrap::fixed_priority_level(name) else { return };
    let mut but = "";
    if name == EXEMPT {
        // Its share is for the administrator to choose.
        but = " except the 'spec.exempt' field";
        match spec.get(EXEMPT) {
            Some(chosen) => fixed[EXEMPT] = chosen.clone(),
            None => {
                fixed.as_object_mut().map(|fields| fields.remove(EXEMPT));
            }
        }
    }
    if fixed != *spec {
        let problem = format!("spec of '{name}'{but} must equal the fixed value");
        errors.push(FieldError::invalid("spec", spec, problem));
    }
}

fn check_spec(name: &str, spec: &Value, errors: &mut Vec<FieldError>) {
    let kind = spec.text(&["type"]);
    if (name == EXEMPT) != (kind == "Exempt") {
        let problem = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid_str("spec.type", kind, problem));
    }
    let part = |field: &str| spec.get(field).filter(|value| !value.is_null());
    match kind {
        "Exempt" => {
            if part("limited").is_some() {
                let problem = "must be nil if the type is not Limited";
                errors.push(FieldError::forbidden("spec.limited", problem));
            }
            if let Some(exempt) = part("exempt") {
                check_shares(exempt, "spec.exempt", errors);
                check_lendable(exempt, "spec.exempt", errors);
            }
        }
        "Limited" => {
            if part("exempt").is_some() {
                let problem = "must be nil if the type is Limited";
                errors.push(FieldError::forbidden("spec.exempt", problem));
            }
            match part("limited") {
                Some(limited) => check_limited(limited, errors),
                None => {
                    let problem = "must not be empty when type is Limited";
                    errors.push(FieldError::required("spec.limited", problem));
                }
            }
        }
        "" => errors.push(FieldError::required("spec.type", "")),
        other => {
            errors.push(FieldError::not_supported("spec.type", other, &["Exempt", "Limited"]));
        }
    }
}

fn check_limited(limited: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "spec.limited";
    check_shares(limited, PATH, errors);
    let response = limited.get("limitResponse").unwrap_or(&Value::Null);
    let path = format!("{PATH}.limitResponse");
    let queuing = response.get("queuing").filter(|value| !value.is_null());
    match (response.text(&["type"]), queuing) {
        ("Reject", None) => {}
        ("Reject", Some(_)) => {
            let problem = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(FieldError::forbidden(format!("{path}.queuing"), problem));
        }
        ("Queue", Some(queuing)) => check_queuing(queuing, &format!("{path}.queuing"), errors),
        ("Queue", None) => {
            let problem = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(FieldError::required(format!("{path}.queuing"), problem));
        }
        ("", _) => errors.push(FieldError::required(format!("{path}.type"), "")),
        (other, _) => {
            let known = &["Queue", "Reject"];
            errors.push(FieldError::not_supported(format!("{path}.type"), other, known));
        }
    }
    check_lendable(limited, PATH, errors);
    let borrowing = limited.get("borrowingLimitPercent").and_then(Value::as_i64);
    if let Some(percent) = borrowing.filter(|percent| *percent < 0) {
        let problem = "if specified, must be a non-negative integer";
        let path = format!("{PATH}.borrowingLimitPercent");
        errors.push(FieldError::invalid(path, &percent.into(), problem));
    }
}

fn check_shares(part: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let shares = part.get("nominalConcurrencyShares").and_then(Value::as_i64);
    if let Some(shares) = shares.filter(|shares| *shares < 0) {
        let path = format!("{path}.nominalConcurrencyShares");
        errors.push(FieldError::invalid(path, &shares.into(), "must be a non-negative integer"));
    }
}

fn check_lendable(part: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let percent = part.get("lendablePercent").and_then(Value::as_i64);
    if let Some(percent) = percent.filter(|percent| !(0..=100).contains(percent)) {
        let problem = "must be between 0 and 100, inclusive";
        let path = format!("{path}.lendablePercent");
        errors.push(FieldError::invalid(path, &percent.into(), problem));
    }
}

fn check_queuing(queuing: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let number = |field: &str| queuing.get(field).and_then(Value::as_i64).unwrap_or_default();
    let mut refuse = |field: &str, problem: String| {
        let value = number(field).into();
        errors.push(FieldError::invalid(format!("{path}.{field}"), &value, problem));
    };
    if number("queueLengthLimit") <= 0 {
        refuse("queueLengthLimit", "must be positive".into());
    }
    let (queues, hand) = (number("queues"), number("handSize"));
    if queues <= 0 {
        refuse("queues", "must be positive".into());
    } else if queues > MAX_QUEUES {
        refuse("queues", format!("must not be greater than {MAX_QUEUES}"));
    }
    if hand <= 0 {
        refuse("handSize", "must be positive".into());
    } else if hand > queues {
        refuse("handSize", format!("should not be greater than queues ({queues})"));
    } else if entropy_bits(queues, hand) > f64::from(MAX_HASH_BITS) {
        let problem = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater \
             than {MAX_HASH_BITS}"
        );
        refuse("handSize", problem);
    }
}

/// How many random bits it takes to deal a hand.
fn entropy_bits(queues: i64, hand: i64) -> f64 {
    ((queues as f64).log2() * hand as f64).ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_limits_that_make_sense() {
        let check = |name: &str, spec: Value, expected: &[&str]| {
            let mut object = json!({"metadata": {"name": name}, "spec": spec});
            PriorityLevels.apply_defaults(&mut object);
            let mut errors = Vec::new();
            check_spec(name, &object["spec"], &mut errors);
            let found: Vec<String> = errors.iter().map(FieldError::to_string).collect();
            assert_eq!(found, expected, "{}", object["spec"]);
        };
        let limited = |limited: Value| json!({"type": "Limited", "limited": limited});
        check("a", limited(json!({"limitResponse": {"type": "Reject"}})), &[]);
        check("a", limited(json!({"limitResponse": {"type": "Queue", "queuing": {}}})), &[]);
        let queuing = json!({"queues": 10_000_000, "handSize": 3});
        check(
            "a",
            limited(json!({"limitResponse": {"type": "Queue", "queuing": queuing}})),
            &[
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 3: required entropy bits of \
             deckSize 10000000 and handSize 3 should not be greater than 60",
            ],
        );
        check(
            "a",
            json!({"type": "Exempt"}),
            &[
                "spec.type: Invalid value: \"Exempt\": must be 'Exempt' if and only if `name` is 'exempt'",
            ],
        );
        check(
            "exempt",
            json!({"type": "Exempt", "exempt": {"lendablePercent": 101}}),
            &[
                "spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
            ],
        );
        check(
            "a",
            json!({"type": "Limited"}),
            &["spec.limited: Required value: must not be empty when type is Limited"],
        );
    }
}
