//! From a checked tree to steps that can be run.
//!
//! The shape of a plan follows upstream's interpreter where costs depend on it: a variable with all that is selected
//! from it is one attribute, constant lists and conversions are computed once, membership in a constant list is free.

use regex::Regex;

use crate::ast::{Call, Expr, Fold, Kind, Literal, operator};
use crate::checker::Checked;
use crate::library::{self, Function};
use crate::meter::Meter;
use crate::value::{Key, Map, Value};

/// A step.
#[derive(Debug)]
pub(crate) enum Plan {
    Const(Value<'static>),
    Attr(Box<Attr>),
    And(Vec<Plan>),
    Or(Vec<Plan>),
    /// `==`, or `!=` if negated.
    Equal(Box<[Plan; 2]>, bool),
    /// Membership in a list that is known beforehand.
    In(Box<Plan>, Value<'static>),
    Call(Box<CallPlan>),
    List(Vec<(Plan, bool)>),
    Map(Vec<(Plan, Plan, bool)>),
    Message(String, Vec<(String, Plan, bool)>),
    /// `accumulator + [element]`, which changes the accumulator in place.
    Append(usize, Box<Plan>),
    /// An insertion into the accumulator, in place: a key and a value, or a map.
    Insert(usize, Vec<Plan>),
    /// `or` and `orValue` of optional values: the second is evaluated only if the first is absent.
    Or2(Box<[Plan; 2]>, bool),
    Fold(Box<FoldPlan>),
}

/// Something and what is selected from it.
#[derive(Debug)]
pub(crate) struct Attr {
    pub(crate) base: Base,
    pub(crate) qualifiers: Vec<Qualifier>,
    /// Whether the last qualifier is only looked for: `has`.
    pub(crate) test: bool,
}

#[derive(Debug)]
pub(crate) enum Base {
    /// A variable of the environment, by its place in the program's table.
    Variable(usize),
    /// A variable of a fold.
    Local(usize),
    Relative(Plan),
    /// `condition ? first : second`
    Conditional([Plan; 3]),
}

/// One selection.
#[derive(Debug)]
pub(crate) struct Qualifier {
    pub(crate) key: QualifierKey,
    pub(crate) optional: bool,
}

#[derive(Debug)]
pub(crate) enum QualifierKey {
    Name(String),
    Const(Value<'static>),
    Dynamic(Plan),
}

#[derive(Debug)]
pub(crate) struct CallPlan {
    pub(crate) function: &'static str,
    /// The overload if it is known, else empty.
    pub(crate) overload: &'static str,
    pub(crate) run: Function,
    pub(crate) args: Vec<Plan>,
    /// The pattern, if it is a constant.
    pub(crate) regex: Option<Regex>,
}

#[derive(Debug)]
pub(crate) struct FoldPlan {
    pub(crate) range: Plan,
    /// The slot of the accumulator; those of the variables follow.
    pub(crate) slot: usize,
    pub(crate) two: bool,
    pub(crate) condition: Plan,
    pub(crate) step: Plan,
    pub(crate) result: Plan,
}

/// A plan with the tables it refers to.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) root: Plan,
    /// Names of the variables that the expression uses.
    pub(crate) variables: Vec<String>,
    /// What accumulators begin with, by slot. It is computed when it is first needed.
    pub(crate) inits: Vec<Option<Plan>>,
}

/// Plans an expression. An error names what cannot be run, such as a pattern that is none.
pub(crate) fn plan(checked: &Checked) -> Result<Planned, String> {
    let mut planner =
        Planner { checked, variables: Vec::new(), inits: Vec::new(), scope: Vec::new() };
    let root = planner.plan(&checked.root)?;
    Ok(Planned { root, variables: planner.variables, inits: planner.inits })
}

struct Planner<'a> {
    checked: &'a Checked,
    variables: Vec<String>,
    inits: Vec<Option<Plan>>,
    /// Names of folds around and their slots.
    scope: Vec<(&'a str, usize)>,
}

impl<'a> Planner<'a> {
    fn plan(&mut self, expr: &'a Expr) -> Result<Plan, String> {
        match &expr.kind {
            Kind::Literal(literal) => Ok(Plan::Const(constant(literal))),
            Kind::Ident(name) => Ok(self.ident(expr.id, name)),
            Kind::Select { operand, field, test } => {
                let mut attr = self.attribute(operand)?;
                attr.qualifiers
                    .push(Qualifier { key: QualifierKey::Name(field.clone()), optional: false });
                attr.test = *test;
                Ok(Plan::Attr(attr))
            }
            Kind::Call(call) => self.call(expr.id, call),
            Kind::List(elements) => self.list(elements),
            Kind::Map(_) => self.map(expr),
            Kind::Struct { name, fields } => {
                let planned = fields.iter().map(|field| {
                    Ok((field.name.clone(), self.plan(&field.value)?, field.optional))
                });
                let fields = planned.collect::<Result<_, String>>()?;
                Ok(Plan::Message(name.strip_prefix('.').unwrap_or(name).to_owned(), fields))
            }
            Kind::Fold(fold) => self.fold(fold),
        }
    }

    fn ident(&mut self, id: u32, name: &'a str) -> Plan {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some(named) = self.checked.type_names.get(&id) {
            return Plan::Const(Value::Type(named.clone()));
        }
        let base = match self.scope.iter().rev().find(|(known, _)| *known == name) {
            Some((_, slot)) => Base::Local(*slot),
            None => Base::Variable(self.variable(name)),
        };
        Plan::Attr(Box::new(Attr { base, qualifiers: Vec::new(), test: false }))
    }

    fn variable(&mut self, name: &str) -> usize {
        self.variables.iter().position(|known| known == name).unwrap_or_else(|| {
            self.variables.push(name.to_owned());
            self.variables.len() - 1
        })
    }

    /// What an operand is, ready for one more qualifier.
    fn attribute(&mut self, operand: &'a Expr) -> Result<Box<Attr>, String> {
        Ok(match self.plan(operand)? {
            Plan::Attr(attr) if !attr.test => attr,
            other => {
                Box::new(Attr { base: Base::Relative(other), qualifiers: Vec::new(), test: false })
            }
        })
    }

    fn call(&mut self, id: u32, call: &'a Call) -> Result<Plan, String> {
        match call.function.as_str() {
            operator::INDEX => return self.index(call, false),
            operator::OPT_INDEX | operator::OPT_SELECT => return self.index(call, true),
            _ => {}
        }
        let mut args = Vec::with_capacity(call.args.len() + 1);
        for arg in call.target.as_deref().into_iter().chain(&call.args) {
            args.push(self.plan(arg)?);
        }
        let overload = match self.checked.overloads.get(&id).map(Vec::as_slice) {
            Some([one]) => *one,
            _ => "",
        };
        match call.function.as_str() {
            operator::AND => return Ok(Plan::And(args)),
            operator::OR => return Ok(Plan::Or(args)),
            operator::CONDITIONAL => {
                let parts: [Plan; 3] =
                    args.try_into().map_err(|_| "no such overload: _?_:_(...)")?;
                let attr =
                    Attr { base: Base::Conditional(parts), qualifiers: Vec::new(), test: false };
                return Ok(Plan::Attr(Box::new(attr)));
            }
            operator::EQUALS | operator::NOT_EQUALS => {
                let negate = call.function == operator::NOT_EQUALS;
                let pair: [Plan; 2] = args.try_into().map_err(|_| "no such overload: _==_(...)")?;
                return Ok(Plan::Equal(Box::new(pair), negate));
            }
            _ => {}
        }
        self.other_call(call, overload, args)
    }

    fn other_call(
        &mut self,
        call: &Call,
        overload: &'static str,
        mut args: Vec<Plan>,
    ) -> Result<Plan, String> {
        match (call.function.as_str(), args.as_slice()) {
            (operator::IN, [_, Plan::Const(Value::List(list))]) if overload == "in_list" => {
                let simple = list.iter().all(|element| {
                    matches!(
                        element,
                        Ok(Value::Bool(_)
                            | Value::Int(_)
                            | Value::Uint(_)
                            | Value::Double(_)
                            | Value::String(_))
                    )
                });
                if list.is_empty() {
                    return Ok(Plan::Const(Value::Bool(false)));
                }
                if simple {
                    let Some(Plan::Const(set)) = args.pop() else {
                        return Err(INTERNAL.to_owned());
                    };
                    return Ok(Plan::In(Box::new(args.remove(0)), set));
                }
            }
            (operator::ADD, [Plan::Attr(attr), Plan::List(elements)])
                if elements.len() == 1 && !elements[0].1 =>
            {
                if let Some(slot) = self.accumulator(attr) {
                    let Some(Plan::List(mut elements)) = args.pop() else {
                        return Err(INTERNAL.to_owned());
                    };
                    return Ok(Plan::Append(slot, Box::new(elements.remove(0).0)));
                }
            }
            (operator::MAP_INSERT, [Plan::Attr(attr), ..]) => {
                if let Some(slot) = self.accumulator(attr) {
                    args.remove(0);
                    return Ok(Plan::Insert(slot, args));
                }
            }
            ("or" | "orValue", [_, _]) => {
                let or_value = call.function == "orValue";
                let pair: [Plan; 2] = args.try_into().map_err(|_| INTERNAL)?;
                return Ok(Plan::Or2(Box::new(pair), or_value));
            }
            _ => {}
        }
        let (function, run) = library::function(&call.function)
            .ok_or_else(|| format!("no such overload: {}(...)", call.function))?;
        if CONVERSIONS.contains(&function)
            && let [Plan::Const(arg)] = args.as_slice()
        {
            let value = run(&mut Meter::new(), std::slice::from_ref(arg));
            return value.map(Plan::Const).map_err(|error| error.to_string());
        }
        let regex = match (function, args.get(1)) {
            ("matches" | "find" | "findAll", Some(Plan::Const(Value::String(pattern)))) => {
                Some(library::compile_regex(pattern).map_err(|error| error.to_string())?)
            }
            _ => None,
        };
        Ok(Plan::Call(Box::new(CallPlan { function, overload, run, args, regex })))
    }

    /// The slot of an attribute that is an accumulator and nothing else.
    fn accumulator(&self, attr: &Attr) -> Option<usize> {
        match attr.base {
            Base::Local(slot) if attr.qualifiers.is_empty() && self.inits.get(slot)?.is_some() => {
                Some(slot)
            }
            _ => None,
        }
    }

    fn index(&mut self, call: &'a Call, optional: bool) -> Result<Plan, String> {
        let [operand, index] = call.args.as_slice() else { return Err(INTERNAL.to_owned()) };
        let mut attr = self.attribute(operand)?;
        let key = match self.plan(index)? {
            Plan::Const(Value::String(name)) => QualifierKey::Name(name.to_string()),
            Plan::Const(value) => QualifierKey::Const(value),
            other => QualifierKey::Dynamic(other),
        };
        attr.qualifiers.push(Qualifier { key, optional });
        Ok(Plan::Attr(attr))
    }

    fn list(&mut self, elements: &'a [(Expr, bool)]) -> Result<Plan, String> {
        let planned =
            elements.iter().map(|(element, optional)| Ok((self.plan(element)?, *optional)));
        let planned = planned.collect::<Result<Vec<_>, String>>()?;
        let constants = planned.iter().map(|(plan, optional)| match plan {
            Plan::Const(value) if !optional => Some(value.clone()),
            _ => None,
        });
        match constants.collect::<Option<Vec<_>>>() {
            Some(constants) => Ok(Plan::Const(Value::list(constants))),
            None => Ok(Plan::List(planned)),
        }
    }

    fn map(&mut self, expr: &'a Expr) -> Result<Plan, String> {
        let Kind::Map(entries) = &expr.kind else { return Err(INTERNAL.to_owned()) };
        let mut planned = Vec::with_capacity(entries.len());
        for entry in entries {
            planned.push((self.plan(&entry.key)?, self.plan(&entry.value)?, entry.optional));
        }
        let constants = planned.iter().map(|entry| match entry {
            (Plan::Const(key), Plan::Const(value), false) => Some((Key::new(key)?, value.clone())),
            _ => None,
        });
        let constants = constants.collect::<Option<Vec<_>>>();
        Ok(match constants {
            Some(constants) => Plan::Const(Value::Map(Map::owned(constants.into_iter().collect()))),
            None => Plan::Map(planned),
        })
    }

    fn fold(&mut self, fold: &'a Fold) -> Result<Plan, String> {
        let init = self.plan(&fold.init)?;
        let range = self.plan(&fold.range)?;
        let slot = self.inits.len();
        self.inits.extend([Some(init), None, None]);
        let outside = self.scope.len();
        self.scope.push((&fold.accumulator, slot));
        self.scope.push((&fold.var, slot + 1));
        if let Some(var2) = &fold.var2 {
            self.scope.push((var2, slot + 2));
        }
        let condition = self.plan(&fold.condition)?;
        let step = self.plan(&fold.step)?;
        self.scope.truncate(outside + 1);
        let result = self.plan(&fold.result)?;
        self.scope.truncate(outside);
        let two = fold.var2.is_some();
        Ok(Plan::Fold(Box::new(FoldPlan { range, slot, two, condition, step, result })))
    }
}

pub(crate) fn constant(literal: &Literal) -> Value<'static> {
    match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Uint(value) => Value::Uint(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(text) => Value::string(text.as_str()),
        Literal::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
    }
}

/// Functions that are computed once if their argument is a constant.
const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

/// For shapes that the parser and the checker never make.
const INTERNAL: &str = "unexpected form of a call";
