//! Whether the rules of a schema compile, and what they may cost.

use serde_json::Value;

use super::openapi::{child, key};
use crate::{
    field::{FieldError, json_text},
    structural::{Compiled, Node, compile_rules, flag, has_type, list, max_cardinality, text},
};

/// What one expression may cost at most, by estimate.
const MAX_RULE_COST: u64 = 10_000_000;

/// What all expressions of a schema may cost together.
const MAX_SCHEMA_COST: u64 = 100_000_000;

/// So many of the most expensive expressions are named.
const NAMED: usize = 4;

/// The problems of all rules of a schema; `keeps` when the schema was accepted before as it is, and each
/// of its rules may cost what it costs.
pub(super) fn problems(path: &str, schema: &Value, keeps: bool) -> Vec<FieldError> {
    if count_rules(schema) == 0 {
        return Vec::new();
    }
    let mut checking = Checking { keeps, total: 0, expensive: Vec::new(), errors: Vec::new() };
    let root = Place { cardinality: Some(1), uncorrelated: None, root: true };
    checking.walk(path, schema, &root);
    if checking.total > MAX_SCHEMA_COST {
        let text = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
        let expensive = std::mem::take(&mut checking.expensive);
        let named = expensive.into_iter().map(|(_, path)| FieldError::forbidden(path, text));
        checking.errors.extend(named);
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let text = too_expensive(name, checking.total, MAX_SCHEMA_COST);
        checking.errors.push(FieldError::forbidden(path, text));
    }
    checking.errors
}

/// How many rules a schema has, those below it included.
pub(super) fn count_rules(schema: &Value) -> usize {
    let own = list(schema, "x-kubernetes-validations").count();
    own + super::openapi::below(schema).map(|(_, schema)| count_rules(schema)).sum::<usize>()
}

struct Checking {
    keeps: bool,
    total: u64,
    /// Cost and path, the most expensive first.
    expensive: Vec<(u64, String)>,
    errors: Vec<FieldError>,
}

/// Where a schema stands.
struct Place {
    /// How many values of it an object can have; nothing when that has no bound but the request's.
    cardinality: Option<u64>,
    /// The list around it whose items cannot be found again in an old object.
    uncorrelated: Option<String>,
    root: bool,
}

impl Checking {
    /// What is below comes first.
    fn walk(&mut self, path: &str, schema: &Value, place: &Place) {
        let elements = match (text(schema, "type"), schema.get("additionalProperties")) {
            ("object", Some(_)) => bound(schema, "maxProperties"),
            ("array", _) => bound(schema, "maxItems"),
            _ => Some(1),
        };

        let cardinality = place.cardinality.zip(elements).map(|(a, b)| a.saturating_mul(b));
        let below = |schema: &Value, uncorrelated: Option<String>| Place {
            cardinality,
            uncorrelated,
            root: flag(schema, "x-kubernetes-embedded-resource"),
        };
        if let Some(schema) = schema.get("additionalProperties").filter(|s| s.is_object()) {
            let place = below(schema, place.uncorrelated.clone());
            self.walk(&child(path, "additionalProperties"), schema, &place);
        }
        for (name, schema) in
            schema.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            let place = below(schema, place.uncorrelated.clone());
            self.walk(&key(path, "properties", name), schema, &place);
        }
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            let correlated = text(schema, "x-kubernetes-list-type") == "map";
            let around = place.uncorrelated.clone();
            let uncorrelated = around.or_else(|| (!correlated).then(|| path.to_owned()));
            self.walk(&child(path, "items"), items, &below(items, uncorrelated));
        }
        if list(schema, "x-kubernetes-validations").next().is_some() {
            self.check(&child(path, "x-kubernetes-validations"), schema, place);
        }
    }

    fn check(&mut self, path: &str, schema: &Value, place: &Place) {
        let node = Node::parse(schema);
        if !has_type(&node, place.root) {
            let text = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
            self.errors.push(FieldError::internal(path, text));
            return;
        }
        let times = place.cardinality.unwrap_or_else(|| max_cardinality(&node, place.root));
        let rules = list(schema, "x-kubernetes-validations");
        for (at, (compiled, rule)) in compile_rules(&node, place.root).iter().zip(rules).enumerate()
        {
            let path = format!("{path}[{at}]");
            self.check_rule(&path, compiled, rule, times);
            self.check_old(&path, compiled, rule, place);
        }
    }

    fn check_rule(&mut self, path: &str, compiled: &Compiled, rule: &Value, times: u64) {
        let at = child(path, "rule");
        match &compiled.program {
            Ok(program) => {
                let cost = program.estimated_cost().max.saturating_mul(times);
                self.spend(&at, "estimated rule cost", cost);
            }
            Err(why) => {
                self.errors.push(FieldError::invalid_json(&at, &shown(rule), why));
                return;
            }
        }
        let at = child(path, "messageExpression");
        match &compiled.message {
            None => {}
            Some(Err(why)) => self.errors.push(FieldError::invalid_json(&at, &shown(rule), why)),
            Some(Ok(program)) => {
                self.spend(&at, "estimated messageExpression cost", program.estimated_cost().max);
            }
        }
    }

    fn check_old(&mut self, path: &str, compiled: &Compiled, rule: &Value, place: &Place) {
        let Ok(program) = &compiled.program else { return };
        if !program.uses("oldSelf") {
            if let Some(said) = rule.get("optionalOldSelf") {
                let text = "may not be set if oldSelf is not used in rule";
                self.errors.push(FieldError::invalid(child(path, "optionalOldSelf"), said, text));
            }
        } else if let Some(around) = &place.uncorrelated {
            let text = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {around}"
            );
            let error = FieldError::invalid_str(child(path, "rule"), rule_text(rule), text);
            self.errors.push(error);
        }
    }

    fn spend(&mut self, path: &str, name: &str, cost: u64) {
        if cost > MAX_RULE_COST && !self.keeps {
            let text = too_expensive(name, cost, MAX_RULE_COST);
            self.errors.push(FieldError::forbidden(path, text));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= MAX_SCHEMA_COST / 100 {
            self.expensive.push((cost, path.to_owned()));
            self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
            self.expensive.truncate(NAMED);
        }
    }
}

fn bound(schema: &Value, field: &str) -> Option<u64> {
    let limit = schema.get(field).and_then(Value::as_i64)?;
    Some(u64::try_from(limit).unwrap_or_default())
}

fn rule_text(rule: &Value) -> &str {
    text(rule, "rule")
}

/// A rule as upstream shows it: by the names of its Go fields, in their order.
fn shown(rule: &Value) -> String {
    let fields = [
        ("Rule", "rule", "\"\""),
        ("Message", "message", "\"\""),
        ("MessageExpression", "messageExpression", "\"\""),
        ("Reason", "reason", "null"),
        ("FieldPath", "fieldPath", "\"\""),
        ("OptionalOldSelf", "optionalOldSelf", "null"),
    ];
    let field = |(shown, name, missing): (&str, &str, &str)| {
        let value = rule.get(name).map_or_else(|| missing.to_owned(), json_text);
        format!("\"{shown}\":{value}")
    };
    format!("{{{}}}", fields.map(field).join(","))
}

fn too_expensive(name: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
