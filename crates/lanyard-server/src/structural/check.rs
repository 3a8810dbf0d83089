//! Values against schemas: what is wrong, in kube-openapi's words and order.
//!
//! An update tolerates what was wrong before, as long as nobody touches it: problems of a value that
//! equals the old one in the same place are not told.

use std::{collections::HashSet, fmt};

use serde_json::{Map, Number, Value};

use super::{Additional, Kind, Limits, Node, format, lists::OldItems};
use crate::field::{FieldError, json_text, quoted};

/// So many problems are told at most, so that a long list of bad items stays a short answer.
pub const MAX_PROBLEMS: usize = 1000;

/// Checks values against a schema.
pub struct Checker<'a> {
    /// What comes before the paths of all problems.
    pub base: &'a str,
}

/// Where a value is.
struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    part: Part<'a>,
}

enum Part<'a> {
    Root,
    Field(&'a str),
    Additional(&'a str),
    Index(usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = self.parent.is_none_or(|parent| matches!(parent.part, Part::Root));
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.part {
            Part::Root => Ok(()),
            Part::Field(name) if root => f.write_str(name),
            Part::Field(name) | Part::Additional(name) => write!(f, ".{name}"),
            Part::Index(at) => write!(f, "[{at}]"),
        }
    }
}

impl<'a> Path<'a> {
    const ROOT: Path<'static> = Path { parent: None, part: Part::Root };

    fn then(&'a self, part: Part<'a>) -> Path<'a> {
        Path { parent: Some(self), part }
    }
}

/// What a check came to: its problems, and how much was right about the value.
#[derive(Default)]
struct Outcome {
    problems: Vec<Problem>,
    said: HashSet<String>,
    matches: usize,
}

/// A problem, and the sentence by which it is known.
struct Problem {
    sentence: String,
    error: FieldError,
}

impl Outcome {
    fn add(&mut self, problem: Problem) {
        if self.problems.len() < MAX_PROBLEMS && self.said.insert(problem.sentence.clone()) {
            self.problems.push(problem);
        }
    }

    fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        other.problems.into_iter().for_each(|problem| self.add(problem));
    }

    fn is_valid(&self) -> bool {
        self.problems.is_empty()
    }

    fn is_full(&self) -> bool {
        self.problems.len() >= MAX_PROBLEMS
    }
}

impl Checker<'_> {
    /// What is wrong with a value; `old` is what was in its place before.
    pub fn check(&self, value: &Value, old: Option<&Value>, schema: &Node) -> Vec<FieldError> {
        let outcome = self.ratchet(value, old, schema, &Path::ROOT);
        outcome.problems.into_iter().map(|problem| problem.error).collect()
    }

    /// Checks a value that has an old counterpart, and forgives what has not changed.
    fn ratchet(
        &self,
        value: &Value,
        old: Option<&Value>,
        schema: &Node,
        path: &Path<'_>,
    ) -> Outcome {
        let outcome = self.node(value, old, schema, path);
        if !outcome.is_valid() && old == Some(value) {
            return Outcome { matches: outcome.matches, ..Outcome::default() };
        }
        outcome
    }

    fn node(&self, value: &Value, old: Option<&Value>, schema: &Node, path: &Path<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let limits = &schema.limits;
        if value.is_null() {
            if schema.types.is_empty() || schema.nullable {
                outcome.matches += 1;
            } else {
                outcome.add(self.wrong_type(path, &type_names(schema), "null"));
            }
            outcome.merge(self.allowed(value, limits, path));
            return outcome;
        }
        if !schema.types.is_empty() || limits.format.is_some() {
            match self.type_problem(value, schema, path) {
                Some(problem) => outcome.add(problem),
                None => outcome.matches += 1,
            }
            outcome.matches += 1;
        }
        outcome.merge(self.alternatives(value, old, limits, path));
        outcome.matches += 1;
        match value {
            Value::String(text) => self.string(text, limits, path, &mut outcome),
            Value::Number(number) => {
                outcome.merge(self.number(number, schema, path));
                outcome.matches += 1;
            }
            Value::Array(items) => {
                outcome.merge(self.array(items, old, schema, path));
                outcome.matches += 1;
            }
            _ => {}
        }
        outcome.merge(self.allowed(value, limits, path));
        outcome.matches += 1;
        if let Value::Object(map) = value {
            outcome.merge(self.object(map, old, schema, path));
            outcome.matches += 1;
        }
        outcome.matches += 1;
        outcome
    }

    fn type_problem(&self, value: &Value, schema: &Node, path: &Path<'_>) -> Option<Problem> {
        let types = &schema.types;
        let (found, found_format) = kind_of(value);
        let float_integer = found == Kind::Number
            && value.as_f64().is_some_and(is_integral)
            && types.contains(&Kind::Integer);
        let integer_float = found == Kind::Integer && types.contains(&Kind::Number);
        let fits = types.contains(&found) || float_integer || integer_float;
        let numeric = types.contains(&Kind::Number) || types.contains(&Kind::Integer);
        let textual = matches!(value, Value::String(_) | Value::Array(_));
        match schema.limits.format.as_deref() {
            Some(format) if !textual && !fits && format != found_format => {
                Some(self.wrong_type(path, format, found_format))
            }
            Some(_) if !numeric && textual => None,
            _ if fits => None,
            _ => Some(self.wrong_type(path, &type_names(schema), found.name())),
        }
    }

    /// `anyOf`, `oneOf`, `allOf` and `not`, in this order.
    fn alternatives(
        &self,
        value: &Value,
        old: Option<&Value>,
        limits: &Limits,
        path: &Path<'_>,
    ) -> Outcome {
        let mut main = Outcome::default();
        let check = |schema: &Node| self.node(value, old, schema, path);
        if !limits.any_of.is_empty() {
            let (valid, best) = best_of(limits.any_of.iter().map(check), true);
            if valid == 0 {
                main.add(self.sentence(format!(
                    "{} must validate at least one schema (anyOf)",
                    quoted(&path.to_string())
                )));
            }
            main.merge(best.unwrap_or_default());
        }
        if !limits.one_of.is_empty() {
            let (valid, best) = best_of(limits.one_of.iter().map(check), false);
            if valid != 1 {
                let found = match valid {
                    0 => "Found none valid".to_owned(),
                    valid => format!("Found {valid} valid alternatives"),
                };
                main.add(self.sentence(format!(
                    "{} must validate one and only one schema (oneOf). {found}",
                    quoted(&path.to_string())
                )));
            }
            if valid <= 1 {
                main.merge(best.unwrap_or_default());
            }
        }
        if !limits.all_of.is_empty() {
            let mut valid = 0;
            for schema in &limits.all_of {
                let outcome = check(schema);
                valid += usize::from(outcome.is_valid());
                main.merge(outcome);
            }
            if valid < limits.all_of.len() {
                let none = if valid == 0 { ". None validated" } else { "" };
                main.add(self.sentence(format!(
                    "{} must validate all the schemas (allOf){none}",
                    quoted(&path.to_string())
                )));
            }
        }
        if limits.not.as_deref().is_some_and(|schema| check(schema).is_valid()) {
            let path = quoted(&path.to_string());
            main.add(self.sentence(format!("{path} must not validate the schema (not)")));
        }
        main.matches += 1;
        main
    }

    fn string(&self, text: &str, limits: &Limits, path: &Path<'_>, outcome: &mut Outcome) {
        outcome.matches += 1;
        let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        let value = || Value::from(text);
        if let Some(max) = limits.max_length.filter(|max| length() > *max) {
            let sentence = format!("{path} in body should be at most {max} chars long");
            let error =
                FieldError::too_long(self.at(path), usize::try_from(max).unwrap_or_default());
            outcome.add(Problem { sentence, error });
        } else if let Some(min) = limits.min_length.filter(|min| length() < *min) {
            outcome.add(self.bad(path, &value(), &format!("should be at least {min} chars long")));
        } else if let Some(pattern) = limits.pattern.as_ref().filter(|p| !p.matches(text)) {
            outcome.add(self.bad(path, &value(), &format!("should match '{}'", pattern.text())));
        }
        let format = limits.format.as_deref().filter(|format| format::is_known(format));
        if let Some(format) = format {
            outcome.matches += 1;
            if !format::matches(format, text) {
                outcome.add(self.wrong_type(path, format, text));
            }
        }
    }

    fn number(&self, number: &Number, schema: &Node, path: &Path<'_>) -> Outcome {
        let mut outcome = Outcome { matches: 1, ..Outcome::default() };
        let limits = &schema.limits;
        let value = Value::Number(number.clone());
        if let Some(sentence) = range_problem(number, schema, path) {
            outcome.add(self.sentence(sentence));
        }
        let bad = |what: String| self.bad(path, &value, &what);
        if let Some(factor) = limits.multiple_of {
            self.multiple(number, factor, schema, path, &mut outcome);
        }
        if let Some(min) = limits.minimum {
            let below = compare(number, min);
            let (broken, word) = match limits.exclusive_minimum {
                true => (below.is_le(), "greater than"),
                false => (below.is_lt(), "greater than or equal to"),
            };
            if broken {
                outcome.add(bad(format!("should be {word} {}", bound(number, min))));
            }
        }
        if let Some(max) = limits.maximum {
            let above = compare(number, max);
            let (broken, word) = match limits.exclusive_maximum {
                true => (above.is_ge(), "less than"),
                false => (above.is_gt(), "less than or equal to"),
            };
            if broken {
                outcome.add(bad(format!("should be {word} {}", bound(number, max))));
            }
        }
        outcome
    }

    fn multiple(
        &self,
        number: &Number,
        factor: f64,
        schema: &Node,
        path: &Path<'_>,
        outcome: &mut Outcome,
    ) {
        let odd = schema.types == [Kind::Integer] && factor.fract() != 0.0;
        if odd {
            let text =
                format!("MultipleOf value must be of type integer (default format) in {path}");
            outcome.add(self.sentence(text));
        }
        let float = number.as_f64().unwrap_or_default();
        let fits = match number.as_i64().filter(|_| !odd) {
            // Upstream takes the factor for an integer, too.
            Some(_) if (factor as i64) <= 0 => {
                let factor = factor as i64;
                let sentence =
                    format!("factor MultipleOf declared for {path} must be positive: {factor}");
                let error = FieldError::invalid(self.at(path), &factor.into(), &sentence);
                outcome.add(Problem { sentence, error });
                return;
            }
            Some(n) => n.checked_rem(factor as i64) == Some(0),
            None if factor < 1.0 => is_integral(1.0 / factor * float),
            None => is_integral(float / factor),
        };
        if !fits {
            let what = format!("should be a multiple of {}", go_number(factor));
            outcome.add(self.bad(path, &Value::Number(number.clone()), &what));
        }
    }

    fn array(
        &self,
        items: &[Value],
        old: Option<&Value>,
        schema: &Node,
        path: &Path<'_>,
    ) -> Outcome {
        let mut outcome = Outcome { matches: 1, ..Outcome::default() };
        let limits = &schema.limits;
        if let Some(item_schema) = &schema.items {
            let before = OldItems::new(old, &schema.list);
            for (at, item) in items.iter().enumerate() {
                if outcome.is_full() {
                    break;
                }
                let path = path.then(Part::Index(at));
                outcome.merge(match before.of(item) {
                    Some(old) => self.ratchet(item, Some(old), item_schema, &path),
                    None => self.node(item, None, item_schema, &path),
                });
            }
        }
        let size = items.len() as i64;
        if let Some(min) = limits.min_items.filter(|min| size < *min) {
            let what = format!("should have at least {min} items");
            outcome.add(self.bad(path, &size.into(), &what));
        }
        if let Some(max) = limits.max_items.filter(|max| size > *max) {
            let sentence = format!("{path} in body should have at most {max} items");
            outcome.add(self.too_many(path, sentence, items.len(), max));
        }
        outcome
    }

    fn allowed(&self, value: &Value, limits: &Limits, path: &Path<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        let equal = |allowed: &Value| !allowed.is_null() && same(value, allowed);
        if limits.allowed.is_empty() || limits.allowed.iter().any(equal) {
            return outcome;
        }
        let word = |allowed: &Value| match allowed {
            Value::String(text) => text.clone(),
            other => json_text(other),
        };
        let allowed: Vec<String> = limits.allowed.iter().map(word).collect();
        let known: Vec<&str> = allowed.iter().map(String::as_str).collect();
        let shown = match value {
            Value::String(text) => quoted(text),
            other => json_text(other),
        };
        let sentence = format!("{path} in body should be one of [{}]", known.join(" "));
        let error = FieldError::not_supported_json(self.at(path), &shown, &known);
        outcome.add(Problem { sentence, error });
        outcome
    }

    fn object(
        &self,
        map: &Map<String, Value>,
        old: Option<&Value>,
        schema: &Node,
        path: &Path<'_>,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let limits = &schema.limits;
        let size = map.len() as i64;
        if let Some(min) = limits.min_properties.filter(|min| size < *min) {
            let what = format!("should have at least {min} properties");
            outcome.add(self.bad(path, &size.into(), &what));
        }
        if let Some(max) = limits.max_properties.filter(|max| size > *max) {
            let sentence = format!("{path} in body should have at most {max} properties");
            outcome.add(self.too_many(path, sentence, map.len(), max));
        }
        let others = map.iter().filter(|(name, _)| !schema.properties.contains_key(*name));
        match &schema.additional {
            Additional::Allowed(false) => {
                for (name, _) in others {
                    let sentence = format!("{path}.{name} in body is a forbidden property");
                    let error = FieldError::invalid_str(self.at(path), name, &sentence);
                    outcome.add(Problem { sentence, error });
                }
            }
            Additional::Schema(schema) => {
                for (name, value) in others {
                    let path = path.then(Part::Additional(name));
                    outcome.merge(self.field(name, value, old, schema, &path));
                }
            }
            Additional::Unsaid | Additional::Allowed(true) => {}
        }
        for (name, value) in map {
            if let Some(schema) = schema.properties.get(name) {
                let path = path.then(Part::Field(name));
                outcome.merge(self.field(name, value, old, schema, &path));
            }
        }
        for name in limits.required.iter().filter(|name| !map.contains_key(*name)) {
            let path = path.then(Part::Additional(name));
            let sentence = format!("{path} in body is required");
            let error = FieldError::required(self.at(&path), "");
            outcome.add(Problem { sentence, error });
        }
        outcome
    }

    fn field(
        &self,
        name: &str,
        value: &Value,
        old: Option<&Value>,
        schema: &Node,
        path: &Path<'_>,
    ) -> Outcome {
        match old.and_then(|old| old.get(name)) {
            Some(old) => self.ratchet(value, Some(old), schema, path),
            None => self.node(value, None, schema, path),
        }
    }

    /// The path of a problem.
    fn at(&self, path: &Path<'_>) -> String {
        let path = path.to_string();
        match (self.base, path.trim_start_matches('.')) {
            ("", "") => "<nil>".to_owned(),
            ("", path) => path.to_owned(),
            (base, "") => base.to_owned(),
            (base, path) => format!("{base}.{path}"),
        }
    }

    fn wrong_type(&self, path: &Path<'_>, expected: &str, found: &str) -> Problem {
        let sentence = format!("{path} in body must be of type {expected}: {}", quoted(found));
        let error = FieldError::type_invalid(self.at(path), &Value::from(found), &sentence);
        Problem { sentence, error }
    }

    fn bad(&self, path: &Path<'_>, value: &Value, what: &str) -> Problem {
        let sentence = format!("{path} in body {what}");
        let error = FieldError::invalid(self.at(path), value, &sentence);
        Problem { sentence, error }
    }

    fn too_many(&self, path: &Path<'_>, sentence: String, size: usize, max: i64) -> Problem {
        let max = usize::try_from(max).unwrap_or_default();
        Problem { sentence, error: FieldError::too_many(self.at(path), size, max) }
    }

    /// A problem of the value as a whole.
    fn sentence(&self, sentence: String) -> Problem {
        let base = if self.base.is_empty() { "<nil>" } else { self.base };
        Problem { error: FieldError::invalid_str(base, "", &sentence), sentence }
    }
}

/// How many alternatives are valid, and the one to tell of: a valid one, or that which came closest.
fn best_of(outcomes: impl Iterator<Item = Outcome>, first: bool) -> (usize, Option<Outcome>) {
    let (mut valid, mut best) = (0, None::<Outcome>);
    for outcome in outcomes {
        if outcome.is_valid() {
            valid += 1;
            if valid == 1 {
                best = Some(outcome);
            }
            if first {
                break;
            }
        } else if valid == 0 && best.as_ref().is_none_or(|best| outcome.matches > best.matches) {
            best = Some(outcome);
        }
    }
    (valid, best)
}

fn kind_of(value: &Value) -> (Kind, &'static str) {
    match value {
        Value::Null | Value::Object(_) => (Kind::Object, ""),
        Value::Bool(_) => (Kind::Boolean, ""),
        Value::String(_) => (Kind::String, ""),
        Value::Array(_) => (Kind::Array, ""),
        Value::Number(number) if number.is_f64() => (Kind::Number, "float64"),
        Value::Number(_) => (Kind::Integer, "int64"),
    }
}

fn type_names(schema: &Node) -> String {
    let names: Vec<_> = schema.types.iter().map(|kind| kind.name()).collect();
    names.join(",")
}

/// Whether a number fits what its schema says of its size.
fn range_problem(number: &Number, schema: &Node, path: &Path<'_>) -> Option<String> {
    let [kind] = schema.types.as_slice() else { return None };
    let format = schema.limits.format.as_deref();
    let fits = match (kind, format) {
        (Kind::Integer, Some("int32")) => whole(number).is_some_and(|n| i32::try_from(n).is_ok()),
        (Kind::Integer, _) => whole(number).is_some(),
        (Kind::Number, Some("float")) => number.as_f64().is_some_and(|f| (f as f32).is_finite()),
        _ => true,
    };
    if fits {
        return None;
    }
    let what = match format {
        Some(format) => format!("{} with format {format}", kind.name()),
        None => format!("{} (default format)", kind.name()),
    };
    Some(format!("Checked value must be of type {what} in {path}"))
}

/// A number without a fraction.
fn whole(number: &Number) -> Option<i64> {
    let float = || number.as_f64().filter(|f| f.fract() == 0.0 && f.abs() < 9.2e18);
    number.as_i64().or_else(|| float().map(|f| f as i64))
}

fn compare(number: &Number, limit: f64) -> std::cmp::Ordering {
    match number.as_i64() {
        Some(number) => number.cmp(&(limit as i64)),
        None => number.as_f64().unwrap_or_default().total_cmp(&limit),
    }
}

/// How a bound is shown: as an integer beside integers.
fn bound(number: &Number, limit: f64) -> String {
    match number.as_i64() {
        Some(_) => (limit as i64).to_string(),
        None => go_number(limit),
    }
}

/// A number as Go's `%v` shows it.
fn go_number(number: f64) -> String {
    let magnitude = number.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    format!("{number}")
}

fn is_integral(number: f64) -> bool {
    number.is_finite() && (number - number.round()).abs() < 1e-9
}

/// Equal, with numbers compared as numbers.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (a, b) => a == b,
    }
}
