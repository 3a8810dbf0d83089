//! Runs a plan.
//!
//! Errors are values of a kind: `&&`, `||` and the macros built on them can absorb them. Only an evaluation that got
//! too expensive ends at once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use regex::Regex;

use crate::call_cost::call_cost;
use crate::equality::equal;
use crate::error::EvalError;
use crate::library::{compile_regex, regex as regex_library};
use crate::meter::Meter;
use crate::plan::{Attr, Base, CallPlan, FoldPlan, Plan, Planned, QualifierKey};
use crate::types::Type;
use crate::value::{Elements, Entries, Key, List, Map, Message, Text, Value};

pub(crate) type Outcome<'a> = Result<Value<'a>, EvalError>;

/// The state of an evaluation.
pub(crate) struct Machine<'a> {
    planned: &'a Planned,
    /// By their place in the program's table.
    variables: Vec<Outcome<'a>>,
    locals: Vec<Option<Outcome<'a>>>,
    pub(crate) meter: Meter,
    /// Patterns that were computed.
    patterns: HashMap<String, Result<Regex, EvalError>>,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(planned: &'a Planned, variables: Vec<Outcome<'a>>) -> Self {
        let locals = vec![None; planned.inits.len()];
        Self { planned, variables, locals, meter: Meter::new(), patterns: HashMap::new() }
    }

    pub(crate) fn run(&mut self) -> Outcome<'a> {
        let planned = self.planned;
        self.eval(&planned.root)
    }

    fn eval(&mut self, plan: &'a Plan) -> Outcome<'a> {
        match plan {
            Plan::Const(value) => Ok(value.clone()),
            Plan::Attr(attr) => self.attr(attr, false),
            Plan::And(terms) => self.logical(terms, false),
            Plan::Or(terms) => self.logical(terms, true),
            Plan::Equal(pair, negate) => self.equal(pair, *negate),
            Plan::In(value, set) => self.in_set(value, set),
            Plan::Call(call) => self.call(call),
            Plan::List(elements) => self.list(elements),
            Plan::Map(entries) => self.map(entries),
            Plan::Message(name, fields) => self.message(name, fields),
            Plan::Append(slot, element) => self.append(*slot, element),
            Plan::Insert(slot, args) => self.insert(*slot, args),
            Plan::Or2(pair, or_value) => self.or(pair, *or_value),
            Plan::Fold(fold) => self.fold(fold),
        }
    }

    /// A value and what is selected from it. As a branch of a conditional, the value itself is free.
    fn attr(&mut self, attr: &'a Attr, branch: bool) -> Outcome<'a> {
        let base = self.base(&attr.base);
        let free = branch || attr.test || matches!(attr.base, Base::Conditional(_));
        let found = base.and_then(|base| self.qualify(base, attr));
        self.meter.charge(u64::from(!free))?;
        found
    }

    fn base(&mut self, base: &'a Base) -> Outcome<'a> {
        match base {
            Base::Variable(at) => self.variables[*at].clone(),
            Base::Local(slot) => self.local(*slot),
            Base::Relative(plan) => self.eval(plan),
            Base::Conditional([condition, yes, no]) => match self.eval(condition)? {
                Value::Bool(true) => self.branch(yes),
                Value::Bool(false) => self.branch(no),
                _ => Err(EvalError::no_such_overload()),
            },
        }
    }

    fn branch(&mut self, plan: &'a Plan) -> Outcome<'a> {
        match plan {
            Plan::Attr(attr) => self.attr(attr, true),
            other => self.eval(other),
        }
    }

    fn local(&mut self, slot: usize) -> Outcome<'a> {
        if self.locals[slot].is_none() {
            let planned = self.planned;
            let init = match &planned.inits[slot] {
                Some(init) => self.eval(init),
                None => Err(EvalError::new("no such attribute")),
            };
            self.locals[slot] = Some(init);
        }
        self.locals[slot].clone().unwrap_or_else(|| Err(EvalError::new("no such attribute")))
    }

    /// Selects from a value. Behind an optional selection everything is optional.
    fn qualify(&mut self, base: Value<'a>, attr: &'a Attr) -> Outcome<'a> {
        let mut object = base;
        let mut optional = false;
        if !attr.qualifiers.is_empty()
            && let Value::Optional(inner) = &object
        {
            match inner {
                None => return Ok(Value::Optional(None)),
                Some(inner) => object = (**inner).clone(),
            }
            optional = true;
        }
        for (at, qualifier) in attr.qualifiers.iter().enumerate() {
            optional |= qualifier.optional;
            let (key, cost) = self.key(&qualifier.key)?;
            let found = select(&object, &key);
            if attr.test && at + 1 == attr.qualifiers.len() {
                self.meter.charge(cost)?;
                return match found {
                    Selected::Found(_) => Ok(Value::Bool(true)),
                    Selected::Missing(_) => Ok(Value::Bool(false)),
                    Selected::Wrong(error) => Err(error),
                };
            }
            object = match found {
                Selected::Found(value) => {
                    self.meter.charge(cost)?;
                    value?
                }
                Selected::Missing(_) if optional => return Ok(Value::Optional(None)),
                Selected::Missing(error) | Selected::Wrong(error) => {
                    self.meter.charge(cost)?;
                    return Err(error);
                }
            };
        }
        Ok(if optional { Value::some(object) } else { object })
    }

    /// The key of a selection and what using it costs.
    fn key(&mut self, key: &'a QualifierKey) -> Result<(Value<'a>, u64), EvalError> {
        Ok(match key {
            QualifierKey::Name(name) => (Value::String(Text::Borrowed(name)), 1),
            QualifierKey::Const(value) => (value.clone(), 1),
            QualifierKey::Dynamic(plan @ Plan::Attr(_)) => (self.eval(plan)?, 0),
            QualifierKey::Dynamic(plan) => (self.eval(plan)?, 1),
        })
    }

    /// `&&` and `||`: one term may decide, whatever is wrong with the others.
    fn logical(&mut self, terms: &'a [Plan], decides: bool) -> Outcome<'a> {
        let mut error = None;
        for term in terms {
            match self.eval(term) {
                Ok(Value::Bool(value)) if value == decides => return Ok(Value::Bool(decides)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => error = error.or(Some(EvalError::no_such_overload())),
                Err(ended) if ended.is_cancelled() => return Err(ended),
                Err(failed) => error = error.or(Some(failed)),
            }
        }
        error.map_or(Ok(Value::Bool(!decides)), Err)
    }

    fn equal(&mut self, [one, other]: &'a [Plan; 2], negate: bool) -> Outcome<'a> {
        let (one, other) = (self.eval(one), self.eval(other));
        if let Err(ended) = &one
            && ended.is_cancelled()
        {
            return Err(ended.clone());
        }
        let sizes = [&one, &other].map(|side| side.as_ref().map_or(1, Value::size));
        let opaque = !negate && matches!(&one, Ok(Value::Opaque(_)));
        self.meter.charge(if opaque { 1 } else { (sizes[0].min(sizes[1])).div_ceil(10) })?;
        let same = equal(&mut self.meter, &one?, &other?)?;
        Ok(Value::Bool(same != negate))
    }

    fn in_set(&mut self, value: &'a Plan, set: &Value<'static>) -> Outcome<'a> {
        let value = self.eval(value)?;
        let Value::List(list) = set else { return Err(EvalError::no_such_overload()) };
        for element in list.iter() {
            if equal(&mut self.meter, &element?, &value)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }

    fn call(&mut self, call: &'a CallPlan) -> Outcome<'a> {
        if call.function == crate::ast::operator::NOT_STRICTLY_FALSE {
            return self.not_strictly_false(call);
        }
        let mut args = Vec::with_capacity(call.args.len());
        let mut failed = None;
        for arg in &call.args {
            match self.eval(arg) {
                Ok(value) => args.push(value),
                Err(error) if error.is_cancelled() || call.args.len() > 2 => return Err(error),
                // Upstream evaluates the other argument too, and counts an error as a value of size one.
                Err(error) => {
                    failed.get_or_insert(error);
                    args.push(Value::Null);
                }
            }
        }
        self.meter.charge(call_cost(call.function, call.overload, &args))?;
        if let Some(error) = failed {
            return Err(error);
        }
        if matches!(call.function, "matches" | "find" | "findAll") {
            return self.pattern(call, &args);
        }
        (call.run)(&mut self.meter, &args)
    }

    fn not_strictly_false(&mut self, call: &'a CallPlan) -> Outcome<'a> {
        let value = match call.args.first().map(|arg| self.eval(arg)) {
            Some(Ok(Value::Bool(value))) => value,
            Some(Err(ended)) if ended.is_cancelled() => return Err(ended),
            _ => true,
        };
        self.meter.charge(1)?;
        Ok(Value::Bool(value))
    }

    /// Functions with a pattern: it is compiled once, whether it is a constant or computed.
    fn pattern(&mut self, call: &'a CallPlan, args: &[Value<'a>]) -> Outcome<'a> {
        if let Some(regex) = &call.regex {
            return regex_library::apply(&mut self.meter, call.function, regex, args);
        }
        let Some(Value::String(pattern)) = args.get(1) else {
            return Err(EvalError::no_such_overload());
        };
        if !self.patterns.contains_key(&**pattern) {
            self.meter.work(PATTERN_WORK + 100 * pattern.len() as u64)?;
            self.patterns.insert(pattern.to_string(), compile_regex(pattern));
        }
        match &self.patterns[&**pattern] {
            Ok(regex) => regex_library::apply(&mut self.meter, call.function, regex, args),
            Err(error) if call.function == "matches" => Err(error.clone()),
            Err(error) => Err(EvalError::new(format!("Illegal regex: {error}"))),
        }
    }

    fn list(&mut self, elements: &'a [(Plan, bool)]) -> Outcome<'a> {
        let mut values = Vec::with_capacity(elements.len());
        for (element, optional) in elements {
            let value = self.eval(element)?;
            match (optional, value) {
                (false, value) => values.push(value),
                (true, Value::Optional(Some(value))) => values.push((*value).clone()),
                (true, Value::Optional(None)) => {}
                (true, _) => {
                    let message = "cannot initialize optional list element from non-optional value";
                    return Err(EvalError::new(message));
                }
            }
        }
        self.meter.charge(LIST_COST)?;
        self.meter.allocate(values.len() * size_of::<Value<'_>>())?;
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &'a [(Plan, Plan, bool)]) -> Outcome<'a> {
        let mut map = BTreeMap::new();
        for (key, value, optional) in entries {
            let key = self.eval(key)?;
            let value = match (optional, self.eval(value)?) {
                (false, value) => value,
                (true, Value::Optional(Some(value))) => (*value).clone(),
                (true, Value::Optional(None)) => continue,
                (true, _) => {
                    let message = "cannot initialize optional entry from non-optional value";
                    return Err(EvalError::new(message));
                }
            };
            let key = Key::new(&key).ok_or_else(|| unsupported_key(&key))?;
            map.insert(key, value);
        }
        self.meter.charge(MAP_COST)?;
        self.meter.allocate(map.len() * 2 * size_of::<Value<'_>>())?;
        Ok(Value::Map(Map::owned(map)))
    }

    fn message(&mut self, name: &str, fields: &'a [(String, Plan, bool)]) -> Outcome<'a> {
        let mut values = BTreeMap::new();
        for (field, value, optional) in fields {
            match (optional, self.eval(value)?) {
                (false, value) => drop(values.insert(field.clone(), value)),
                (true, Value::Optional(Some(value))) => {
                    drop(values.insert(field.clone(), (*value).clone()))
                }
                (true, Value::Optional(None)) => {}
                (true, _) => {
                    let message = "cannot initialize optional entry from non-optional value";
                    return Err(EvalError::new(message));
                }
            }
        }
        self.meter.charge(MESSAGE_COST)?;
        Ok(Value::Message(Arc::new(Message { name: name.to_owned(), fields: values })))
    }

    /// Takes the accumulator out of its slot, so that it has one owner and can be changed in place.
    fn take(&mut self, slot: usize) -> Outcome<'a> {
        let before = self.local(slot);
        self.locals[slot] = Some(Err(EvalError::new("no such attribute")));
        self.meter.charge(1)?;
        before
    }

    fn append(&mut self, slot: usize, element: &'a Plan) -> Outcome<'a> {
        let before = self.take(slot);
        let element = self.eval(element);
        self.meter.charge(LIST_COST + 1)?;
        self.meter.allocate(size_of::<Value<'_>>())?;
        let (Value::List(before), element) = (before?, element?) else {
            return Err(EvalError::no_such_overload());
        };
        let mut elements = match before.0 {
            Elements::Owned(elements) => elements,
            Elements::Json(..) => Arc::new(before.iter().collect::<Result<_, _>>()?),
        };
        Arc::make_mut(&mut elements).push(element);
        Ok(Value::List(List(Elements::Owned(elements))))
    }

    fn insert(&mut self, slot: usize, args: &'a [Plan]) -> Outcome<'a> {
        let before = self.take(slot);
        let mut values = Vec::with_capacity(args.len());
        for arg in args {
            values.push(self.eval(arg)?);
        }
        self.meter.charge(1)?;
        let Value::Map(Map(Entries::Owned(mut map))) = before? else {
            return Err(EvalError::no_such_overload());
        };
        let entries = match values.as_slice() {
            [key, value] => vec![(key.clone(), value.clone())],
            [Value::Map(more)] => {
                let keys = more.keys().into_iter();
                keys.filter_map(|key| more.find(&key).map(|value| Ok((key, value?))))
                    .collect::<Result<_, EvalError>>()?
            }
            _ => return Err(EvalError::no_such_overload()),
        };
        self.meter.allocate(entries.len() * 2 * size_of::<Value<'_>>())?;
        for (key, value) in entries {
            let key = Key::new(&key).ok_or_else(|| unsupported_key(&key))?;
            let shown = key.to_string();
            if Arc::make_mut(&mut map).insert(key, value).is_some() {
                return Err(EvalError::new(format!("insert failed: key {shown} already exists")));
            }
        }
        Ok(Value::Map(Map(Entries::Owned(map))))
    }

    fn or(&mut self, [first, second]: &'a [Plan; 2], or_value: bool) -> Outcome<'a> {
        match self.eval(first)? {
            Value::Optional(Some(value)) if or_value => Ok((*value).clone()),
            Value::Optional(None) => self.eval(second),
            other => Ok(other),
        }
    }

    fn fold(&mut self, fold: &'a FoldPlan) -> Outcome<'a> {
        let range = self.eval(&fold.range);
        // The accumulator of a fold inside another begins anew each time.
        self.locals[fold.slot] = None;
        match range? {
            Value::List(list) => {
                for index in 0..list.len() {
                    let Some(element) = list.get(index) else { break };
                    if fold.two {
                        self.locals[fold.slot + 1] = Some(Ok(Value::Int(index as i64)));
                        self.locals[fold.slot + 2] = Some(element);
                    } else {
                        self.locals[fold.slot + 1] = Some(element);
                    }
                    if !self.step(fold)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    if fold.two {
                        self.locals[fold.slot + 2] = map.find(&key);
                    }
                    self.locals[fold.slot + 1] = Some(Ok(key));
                    if !self.step(fold)? {
                        break;
                    }
                }
            }
            other => {
                let kind = go_name(&other);
                return Err(EvalError::new(format!("got '{kind}', expected iterable type")));
            }
        }
        self.eval(&fold.result)
    }

    /// One turn of a fold; false when the condition ends it.
    fn step(&mut self, fold: &'a FoldPlan) -> Result<bool, EvalError> {
        self.meter.work(1)?;
        match self.eval(&fold.condition) {
            Ok(Value::Bool(false)) => return Ok(false),
            Err(ended) if ended.is_cancelled() => return Err(ended),
            _ => {}
        }
        let after = self.eval(&fold.step);
        if let Err(ended) = &after
            && ended.is_cancelled()
        {
            return Err(ended.clone());
        }
        self.locals[fold.slot] = Some(after);
        Ok(true)
    }
}

/// What a selection gives.
enum Selected<'a> {
    Found(Outcome<'a>),
    Missing(EvalError),
    Wrong(EvalError),
}

fn select<'a>(object: &Value<'a>, key: &Value<'_>) -> Selected<'a> {
    match object {
        Value::Map(map) => {
            let found = match key {
                Value::String(name) => map.find_name(name),
                other => map.find(other),
            };
            match found {
                Some(value) => Selected::Found(value),
                None => {
                    Selected::Missing(EvalError::new(format!("no such key: {}", show_key(key))))
                }
            }
        }
        Value::List(list) => {
            let index = match key {
                Value::Int(index) => Some(*index),
                Value::Uint(index) => i64::try_from(*index).ok(),
                Value::Double(index) if index.fract() == 0.0 && index.abs() < 9e15 => {
                    Some(*index as i64)
                }
                Value::String(_) => {
                    return Selected::Wrong(EvalError::new(
                        "unsupported index type 'string' in list",
                    ));
                }
                _ => return Selected::Wrong(EvalError::no_such_overload()),
            };
            let found = index
                .and_then(|index| usize::try_from(index).ok())
                .and_then(|index| list.get(index));
            match found {
                Some(value) => Selected::Found(value),
                None => Selected::Missing(EvalError::new(format!(
                    "index out of bounds: {}",
                    show_key(key)
                ))),
            }
        }
        Value::Message(message) => match key {
            Value::String(name) => match message.fields.get(&**name) {
                Some(value) => Selected::Found(Ok(value.clone())),
                None => Selected::Missing(EvalError::new(format!("no such key: {}", &**name))),
            },
            _ => Selected::Wrong(EvalError::no_such_overload()),
        },
        _ => Selected::Missing(EvalError::new(format!("no such key: {}", show_key(key)))),
    }
}

fn show_key(key: &Value<'_>) -> String {
    match key {
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        Value::String(text) => text.to_string(),
        other => other.type_of().kind_name().to_owned(),
    }
}

fn unsupported_key(key: &Value<'_>) -> EvalError {
    EvalError::new(format!("unsupported key type: {}", key.type_of().kind_name()))
}

/// The name of Go's type, which upstream has in one message.
fn go_name(value: &Value<'_>) -> &'static str {
    match value.type_of() {
        Type::Bool => "types.Bool",
        Type::Int => "types.Int",
        Type::Uint => "types.Uint",
        Type::Double => "types.Double",
        Type::String => "types.String",
        Type::Bytes => "types.Bytes",
        Type::Null => "types.Null",
        Type::Timestamp => "types.Timestamp",
        Type::Duration => "types.Duration",
        Type::Optional(_) => "*types.Optional",
        _ => "ref.Val",
    }
}

/// What making a list, a map and an object costs.
pub(crate) const LIST_COST: u64 = 10;
pub(crate) const MAP_COST: u64 = 30;
pub(crate) const MESSAGE_COST: u64 = 40;

/// What compiling a pattern counts as work, besides its length.
const PATTERN_WORK: u64 = 2_000;
