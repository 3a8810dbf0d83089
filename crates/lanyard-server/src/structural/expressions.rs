//! Rules on values that are expressions: `x-kubernetes-validations`.
//!
//! They are compiled once, when their type begins to be served, into a tree that mirrors the schema, and
//! evaluated on every write within a budget. Texts, order and limits are upstream's. An update forgives
//! a rule that fails on a value that did not change, unless the rule is about the change itself.

use std::{collections::BTreeMap, fmt, sync::Arc};

use lanyard_cel::{
    Budget, Declared, Environment, ListKind, Program, Type, Value as CelValue, Variables,
};
use serde_json::Value;

use super::{
    Additional, Kind, List, Node, Rule,
    lists::{OldItems, child},
};
use crate::field::{FieldError, FieldErrorKind};

/// The longest message that an expression may make.
const MAX_MESSAGE: usize = 5 << 10;

/// The rules of a schema and of everything below it.
pub struct Expressions {
    own: Vec<Compiled>,
    /// The type that the schema says, which some messages show.
    kind: &'static str,
    list: List,
    items: Option<Box<Expressions>>,
    additional: Option<Box<Expressions>>,
    properties: BTreeMap<String, Expressions>,
}

impl fmt::Debug for Expressions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expressions").field("own", &self.own.len()).finish_non_exhaustive()
    }
}

/// One rule, ready to run.
pub struct Compiled {
    rule: Rule,
    /// The program, or why there is none.
    pub program: Result<Program, String>,
    /// What makes the message, or why nothing does.
    pub message: Option<Result<Program, String>>,
    /// Reads the old value as the rule sees it.
    old: Option<Program>,
    /// Where the problem is, below the value.
    field: Option<String>,
}

/// An old and a new value in the same place.
#[derive(Clone, Copy)]
struct Pair<'a> {
    new: &'a Value,
    old: &'a Value,
}

/// What of the old object can be found again in the new one.
#[derive(Clone, Copy, Default)]
struct Correlation<'a> {
    here: Option<Pair<'a>>,
    above: Option<Pair<'a>>,
}

/// One validation: what is left to spend, and what was found.
struct Run {
    budget: u64,
    exhausted: bool,
    errors: Vec<FieldError>,
}

impl Expressions {
    /// Compiles the rules of a schema; nothing when there are none.
    pub fn compile(node: &Node, root: bool) -> Option<Self> {
        let own = if node.rules.is_empty() { Vec::new() } else { compile_rules(node, root) };
        let boxed = |node: &Node| Self::compile(node, node.embedded).map(Box::new);
        let below = |(name, node): (&String, &Node)| {
            Some((name.clone(), Self::compile(node, node.embedded)?))
        };
        let compiled = Self {
            own,
            kind: node.types.first().map_or("", |kind| kind.name()),
            list: match &node.list {
                List::Map(keys) => List::Map(keys.clone()),
                List::Set => List::Set,
                List::Atomic => List::Atomic,
            },
            items: node.items.as_deref().and_then(boxed),
            additional: match &node.additional {
                Additional::Schema(schema) => boxed(schema),
                Additional::Unsaid | Additional::Allowed(_) => None,
            },
            properties: node.properties.iter().filter_map(below).collect(),
        };
        let none = compiled.own.is_empty()
            && compiled.items.is_none()
            && compiled.additional.is_none()
            && compiled.properties.is_empty();
        (!none).then_some(compiled)
    }

    /// The problems of an object; `old` is what it was before.
    pub fn validate(&self, path: &str, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut run = Run { budget: Budget::PER_OBJECT, exhausted: false, errors: Vec::new() };
        let here = old.map(|old| Pair { new: object, old });
        self.walk(path, object, old, Correlation { here, above: None }, &mut run);
        run.errors
    }

    fn walk(
        &self,
        path: &str,
        value: &Value,
        old: Option<&Value>,
        correlation: Correlation<'_>,
        run: &mut Run,
    ) {
        if value.is_null() {
            return;
        }
        let old = old.filter(|old| !old.is_null());
        self.check(path, value, old, correlation, run);
        match value {
            Value::Array(items) => {
                let Some(schema) = &self.items else { return };
                let old_items = OldItems::new(old, &self.list);
                for (at, item) in items.iter().enumerate() {
                    let before = old_items.of(item);
                    let path = format!("{path}[{at}]");
                    let correlation = correlation.below(before.map(|old| Pair { new: item, old }));
                    schema.walk(&path, item, before, correlation, run);
                    if run.exhausted {
                        return;
                    }
                }
            }
            Value::Object(map) => {
                for (name, value) in map {
                    let (schema, path) = match (self.properties.get(name), &self.additional) {
                        (Some(schema), _) => (schema, child(path, name)),
                        (None, Some(schema)) => (&**schema, format!("{path}[{name}]")),
                        (None, None) => continue,
                    };
                    let before = old.and_then(|old| old.get(name));
                    let correlation = correlation.field(name, value, before);
                    schema.walk(&path, value, before, correlation, run);
                    if run.exhausted {
                        return;
                    }
                }
            }
            _ => {}
        }
    }

    fn check(
        &self,
        path: &str,
        value: &Value,
        old: Option<&Value>,
        correlation: Correlation<'_>,
        run: &mut Run,
    ) {
        for compiled in &self.own {
            if run.exhausted {
                return;
            }
            if run.budget == 0 {
                run.stop(self.told(path, OUT_OF_BUDGET));
                return;
            }
            let program = match &compiled.program {
                Ok(program) => program,
                Err(why) => {
                    run.errors.push(self.told(path, &format!("rule compile error: {why}")));
                    continue;
                }
            };
            let optional = compiled.rule.optional_old_self == Some(true);
            if program.uses("oldSelf") && old.is_none() && !optional {
                continue;
            }
            let mut variables = Variables::new();
            variables.json("self", value);
            let before = old.and_then(|old| compiled.read_old(old));
            match (optional, before) {
                (true, before) => {
                    variables.value("oldSelf", CelValue::Optional(before.map(Arc::new)));
                }
                (false, Some(before)) => {
                    variables.value("oldSelf", before);
                }
                (false, None) => {}
            }
            self.evaluate(path, value, compiled, program, &variables, correlation, run);
        }
    }

    #[allow(clippy::too_many_arguments, reason = "one evaluation needs all that is known")]
    fn evaluate(
        &self,
        path: &str,
        value: &Value,
        compiled: &Compiled,
        program: &Program,
        variables: &Variables<'_>,
        correlation: Correlation<'_>,
        run: &mut Run,
    ) {
        let (result, cost) = program.evaluate_with_cost(variables);
        if cost > run.budget {
            run.stop(self.told(path, OUT_OF_BUDGET));
            return;
        }
        run.budget -= cost;
        let rule = &compiled.rule;
        match result {
            Ok(CelValue::Bool(true)) => {}
            Err(error) => {
                let (text, shown) = (error.to_string(), rule.shown());
                if text.starts_with("no such overload") {
                    run.errors.push(self.told(path, &format!(
                        "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {shown}"
                    )));
                } else if error.is_cancelled() {
                    run.stop(self.told(path, &format!(
                        "'{text}': no further validation rules will be run due to call cost exceeds limit for rule: {shown}"
                    )));
                } else {
                    run.errors.push(self.told(path, &format!("{text} evaluating rule: {shown}")));
                }
            }
            Ok(_) => {
                let detail = match compiled.made_message(variables, run) {
                    Ok(made) => made.unwrap_or_else(|| rule.message_or_default()),
                    Err(why) => {
                        run.stop(self.told(path, &why));
                        return;
                    }
                };
                let forgiven = !program.uses("oldSelf") && correlation.is_unchanged();
                if !forgiven {
                    let path = compiled.place(path);
                    run.errors.push(self.failure(&path, value, &detail, rule));
                }
            }
        }
    }

    /// A problem of a rule rather than of the value.
    fn told(&self, path: &str, detail: &str) -> FieldError {
        FieldError::invalid_str(or_nil(path), self.kind, detail)
    }

    fn failure(&self, path: &str, value: &Value, detail: &str, rule: &Rule) -> FieldError {
        let omitted = matches!(self.kind, "object" | "array");
        match rule.reason.as_deref() {
            Some("FieldValueForbidden") => FieldError::forbidden(path, detail),
            Some("FieldValueRequired") => FieldError::required(path, detail),
            Some("FieldValueDuplicate") if omitted => {
                FieldError::duplicate(path, &Value::Object(serde_json::Map::new()))
            }
            Some("FieldValueDuplicate") => FieldError::duplicate(path, value),
            _ if omitted => FieldError {
                path: path.to_owned(),
                kind: FieldErrorKind::Invalid,
                body: format!("Invalid value: {detail}"),
            },
            _ => FieldError::invalid(path, value, detail),
        }
    }
}

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

impl Run {
    fn stop(&mut self, error: FieldError) {
        self.errors.push(error);
        self.exhausted = true;
    }
}

impl<'a> Correlation<'a> {
    /// Whether what the rule looks at is what it was.
    fn is_unchanged(self) -> bool {
        self.here.or(self.above).is_some_and(|pair| pair.new == pair.old)
    }

    fn below(self, here: Option<Pair<'a>>) -> Self {
        match self.here {
            None => self,
            above => Self { here, above },
        }
    }

    fn field(self, name: &str, new: &'a Value, old: Option<&'a Value>) -> Self {
        if self.here.is_some() && self.above.is_none() && matches!(name, "apiVersion" | "kind") {
            return Self::default();
        }
        self.below(old.map(|old| Pair { new, old }))
    }
}

impl Compiled {
    fn read_old<'a>(&'a self, old: &'a Value) -> Option<CelValue<'a>> {
        let mut variables = Variables::new();
        variables.json("self", old);
        self.old.as_ref()?.evaluate_with_cost(&variables).0.ok()
    }

    fn place(&self, path: &str) -> String {
        match &self.field {
            Some(field) => child(path, field),
            None => or_nil(path).to_owned(),
        }
    }

    /// The message that an expression makes; nothing when it makes none that can be shown.
    fn made_message(
        &self,
        variables: &Variables<'_>,
        run: &mut Run,
    ) -> Result<Option<String>, String> {
        let Some(Ok(program)) = &self.message else { return Ok(None) };
        let (result, cost) = program.evaluate_with_cost(variables);
        if cost > run.budget {
            let text = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            return Err(text.to_owned());
        }
        match result {
            Err(error) if error.is_cancelled() => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: {}",
                crate::field::quoted(&self.rule.message_expression)
            )),
            Ok(CelValue::String(text)) => {
                run.budget -= cost;
                let text = text.to_string();
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n');
                Ok(usable.then(|| text.to_owned()))
            }
            _ => {
                run.budget -= cost;
                Ok(None)
            }
        }
    }
}

impl Rule {
    fn shown(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }

    fn message_or_default(&self) -> String {
        match self.message.as_str() {
            "" => format!("failed rule: {}", self.rule.trim()),
            message => message.trim().to_owned(),
        }
    }
}

/// Compiles the rules of one schema.
pub fn compile_rules(node: &Node, root: bool) -> Vec<Compiled> {
    let Some(declared) = declare(node, root) else {
        let failed = |rule: &Rule| Compiled {
            rule: rule.clone(),
            program: Err("failed to convert to declType for CEL validation rules".to_owned()),
            message: None,
            old: None,
            field: None,
        };
        return node.rules.iter().map(failed).collect();
    };
    let declared = declared.named("selfType");
    let plain = Environment::new().variable("self", declared.clone());
    let identity = || plain.compile("self").ok();
    let optional = Declared::native(Type::optional(declared.cel_type()));
    let with_optional = plain.clone().variable("oldSelf", optional);
    let with_old = plain.clone().variable("oldSelf", declared);
    let one = |rule: &Rule| {
        let optional = rule.optional_old_self == Some(true);
        let environment = if optional { &with_optional } else { &with_old };
        let program = match environment.compile(&rule.rule) {
            Ok(program) if *program.output_type() == Type::Bool => Ok(program),
            Ok(_) => Err("cel expression must evaluate to a bool".to_owned()),
            Err(errors) => Err(errors.describe()),
        };
        let message = (!rule.message_expression.is_empty()).then(|| {
            match environment.compile(&rule.message_expression) {
                Ok(program) if *program.output_type() == Type::String => Ok(program),
                Ok(_) => Err("messageExpression must evaluate to a string".to_owned()),
                Err(errors) => Err(format!("messageExpression {}", errors.describe())),
            }
        });
        let uses_old = program.as_ref().is_ok_and(|program| program.uses("oldSelf"));
        Compiled {
            rule: rule.clone(),
            program,
            message,
            old: uses_old.then(identity).flatten(),
            field: normalized(&rule.field_path, node),
        }
    };
    node.rules.iter().map(one).collect()
}

/// Whether expressions can see values of a schema.
pub fn has_type(node: &Node, root: bool) -> bool {
    declare(node, root).is_some()
}

/// How many values of a schema fit into a request.
pub fn max_cardinality(node: &Node, root: bool) -> u64 {
    let Some(declared) = declare(node, root) else { return 1 };
    Declared::list(declared, None, ListKind::Atomic).max_elements()
}

/// What expressions see of a schema.
fn declare(node: &Node, root: bool) -> Option<Declared> {
    let size = |limit: Option<i64>| limit.map(|limit| u64::try_from(limit).unwrap_or_default());
    let limits = &node.limits;
    if node.int_or_string {
        return Some(Declared::int_or_string(size(limits.max_length)));
    }
    let kind = match node.types.as_slice() {
        [] if root => Kind::Object,
        [kind] => *kind,
        _ => return None,
    };
    Some(match kind {
        Kind::Boolean => Declared::bool(),
        Kind::Integer => Declared::int(),
        Kind::Number => Declared::double(),
        Kind::String => match limits.format.as_deref() {
            Some("byte") => Declared::bytes(size(limits.max_length)),
            Some("duration") => Declared::duration(),
            Some("date") => Declared::date(),
            Some("date-time") => Declared::date_time(),
            _ => {
                let texts = limits.allowed.iter().filter_map(Value::as_str);
                let longest = texts.map(|text| text.len() as u64).max();
                Declared::string(size(limits.max_length), longest)
            }
        },
        Kind::Array => {
            let items = node.items.as_deref()?;
            let list = match &node.list {
                List::Atomic => ListKind::Atomic,
                List::Set => ListKind::Set,
                List::Map(keys) => ListKind::Map(keys.clone()),
            };
            Declared::list(declare(items, items.embedded)?, size(limits.max_items), list)
        }
        Kind::Object => match &node.additional {
            Additional::Schema(values) => {
                Declared::map(declare(values, values.embedded)?, size(limits.max_properties))
            }
            Additional::Unsaid | Additional::Allowed(_) => declare_object(node, root),
        },
    })
}

fn declare_object(node: &Node, root: bool) -> Declared {
    let text = || Declared::string(None, None);
    let property = |(name, property): (&'_ String, &Node)| {
        let required = node.limits.required.contains(name) && property.default.is_none();
        Some((name.clone(), required, declare(property, property.embedded)?))
    };
    let mut fields: Vec<(String, bool, Declared)> =
        node.properties.iter().filter_map(property).collect();
    if root {
        fields.retain(|(name, ..)| !matches!(name.as_str(), "kind" | "apiVersion" | "metadata"));
        let metadata = Declared::object([("name", false, text()), ("generateName", false, text())]);
        fields.push(("kind".to_owned(), true, text()));
        fields.push(("apiVersion".to_owned(), true, text()));
        fields.push(("metadata".to_owned(), true, metadata));
    }
    Declared::object(fields.iter().map(|(name, required, d)| (name.as_str(), *required, d.clone())))
}

/// The path that a rule names, as problems show it.
fn normalized(path: &str, node: &Node) -> Option<String> {
    let (mut rest, mut node, mut out) = (path.trim(), node, String::new());
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix("['") {
            let (inner, after) = after.split_once("']")?;
            (name, rest) = (inner, after);
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            (name, rest) = after.split_at(end);
        }
        match (node.properties.get(name), &node.additional) {
            (Some(property), _) => {
                out = child(&out, name);
                node = property;
            }
            (None, Additional::Schema(schema)) => {
                out = format!("{out}[{name}]");
                node = schema;
            }
            _ => return None,
        }
    }
    Some(out)
}

fn or_nil(path: &str) -> &str {
    if path.is_empty() { "<nil>" } else { path }
}
