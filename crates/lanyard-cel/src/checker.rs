//! Finds the type of every part of an expression, and which overloads of functions are meant.
//!
//! Names are resolved here too: what looks like a field may be a namespaced function or a type. Errors do not stop
//! the walk, so that one run tells all that is wrong.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ast::{Call, Expr, Fold, Kind, Literal, operator};
use crate::declarations::overloads;
use crate::environment::Environment;
use crate::parser::Parsed;
use crate::source::Report;
use crate::types::{Type, names};
use crate::unify::{Unifier, most_general};

/// An expression with all that is known about its parts, by their numbers.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) root: Expr,
    pub(crate) types: Vec<Type>,
    /// The overloads that a call may mean: one, or several if arguments are dynamic.
    pub(crate) overloads: HashMap<u32, Vec<&'static str>>,
    /// Names that stand for types.
    pub(crate) type_names: HashMap<u32, Type>,
}

/// Checks an expression. Errors are in the report.
pub(crate) fn check(parsed: Parsed, environment: &Environment, report: &mut Report<'_>) -> Checked {
    let Parsed { mut root, nodes } = parsed;
    let mut checker = Checker {
        environment,
        report,
        unifier: Unifier::default(),
        types: vec![Type::Error; nodes as usize],
        overloads: HashMap::new(),
        type_names: HashMap::new(),
        scope: Vec::new(),
    };
    checker.check(&mut root);
    let mut types = std::mem::take(&mut checker.types);
    for of in &mut types {
        *of = checker.unifier.substitute(of, true);
    }
    if checker.unifier.exhausted() {
        checker.report.nowhere("expression is too complex to check");
    }
    Checked { root, types, overloads: checker.overloads, type_names: checker.type_names }
}

struct Checker<'a, 'r, 's> {
    environment: &'a Environment,
    report: &'r mut Report<'s>,
    unifier: Unifier,
    types: Vec<Type>,
    overloads: HashMap<u32, Vec<&'static str>>,
    type_names: HashMap<u32, Type>,
    /// Variables of folds around what is being checked, the innermost last.
    scope: Vec<(String, Type)>,
}

impl Checker<'_, '_, '_> {
    fn check(&mut self, expr: &mut Expr) -> Type {
        let found = match &mut expr.kind {
            Kind::Literal(literal) => literal_type(literal),
            Kind::Ident(_) => self.ident(expr),
            Kind::Select { .. } => self.select(expr),
            Kind::Call(_) => self.call(expr),
            Kind::List(elements) => self.list(elements),
            Kind::Map(_) => self.map(expr),
            Kind::Struct { .. } => self.message(expr),
            Kind::Fold(fold) => self.fold(fold),
        };
        self.types[expr.id as usize] = found.clone();
        found
    }

    fn type_of(&self, expr: &Expr) -> Type {
        self.types[expr.id as usize].clone()
    }

    /// The type of a name: a variable or a type. The innermost variable counts.
    fn lookup(&mut self, id: u32, name: &str) -> Option<Type> {
        let name = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, found)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            return Some(found.clone());
        }
        if let Some(declared) = self.environment.variable_type(name) {
            return Some(declared);
        }
        let named = self.type_named(name)?;
        self.type_names.insert(id, named.clone());
        Some(Type::Type(Some(Arc::new(named))))
    }

    fn type_named(&mut self, name: &str) -> Option<Type> {
        Some(match name {
            "bool" => Type::Bool,
            "bytes" => Type::Bytes,
            "double" => Type::Double,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "string" => Type::String,
            "null_type" => Type::Null,
            "google.protobuf.Timestamp" => Type::Timestamp,
            "google.protobuf.Duration" => Type::Duration,
            "list" => Type::list(self.unifier.fresh()),
            "map" => Type::map(self.unifier.fresh(), self.unifier.fresh()),
            "optional_type" => Type::optional(self.unifier.fresh()),
            "type" => Type::Type(None),
            names::IP | names::CIDR => Type::Opaque(name.into()),
            other if self.environment.has_object(other) => Type::object(other),
            _ => return None,
        })
    }

    fn ident(&mut self, expr: &Expr) -> Type {
        let Kind::Ident(name) = &expr.kind else { return Type::Error };
        self.lookup(expr.id, name).unwrap_or_else(|| {
            self.report.at(expr.at, format!("undeclared reference to '{name}' (in container '')"));
            Type::Error
        })
    }

    fn select(&mut self, expr: &mut Expr) -> Type {
        if let Some(name) = expr.qualified_name()
            && let Some(found) = self.lookup_qualified(expr.id, &name)
        {
            expr.kind = Kind::Ident(name);
            return found;
        }
        let at = expr.at;
        let Kind::Select { operand, field, test } = &mut expr.kind else { return Type::Error };
        let found = self.field(at, operand, field, false);
        if *test { Type::Bool } else { self.unifier.substitute(&found, false) }
    }

    /// A dotted name, unless its beginning is a variable.
    fn lookup_qualified(&mut self, id: u32, name: &str) -> Option<Type> {
        let first = name.split('.').next().unwrap_or(name);
        if self.scope.iter().any(|(known, _)| known == first) {
            return None;
        }
        self.lookup(id, name)
    }

    fn field(&mut self, at: u32, operand: &mut Expr, field: &str, optional: bool) -> Type {
        let of = self.check(operand);
        let of = self.unifier.substitute(&of, false);
        let (target, wrapped) = match &of {
            Type::Optional(inner) => ((**inner).clone(), true),
            other => (other.clone(), false),
        };
        let found = match &target {
            Type::Map(map) => map.1.clone(),
            Type::Object(name) => match self.environment.field_type(name, field) {
                Some(Some(found)) => found,
                Some(None) => {
                    self.report.at(at, format!("undefined field '{field}'"));
                    Type::Error
                }
                None => {
                    self.report.at(at, format!("unexpected failed resolution of '{name}'"));
                    Type::Error
                }
            },
            Type::Param(_) => {
                self.unifier.assignable([(&Type::Dyn, &target)]);
                Type::Dyn
            }
            other if other.is_dyn_or_error() => Type::Dyn,
            other => {
                self.report.at(at, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        if wrapped || optional { Type::optional(found) } else { found }
    }

    fn call(&mut self, expr: &mut Expr) -> Type {
        let (id, at) = (expr.id, expr.at);
        let Kind::Call(call) = &mut expr.kind else { return Type::Error };
        if call.function == operator::OPT_SELECT {
            return self.opt_select(id, at, call);
        }
        for arg in &mut call.args {
            self.check(arg);
        }
        if let Some(target) = &mut call.target {
            let namespaced =
                target.qualified_name().map(|prefix| format!("{prefix}.{}", call.function));
            if let Some(name) = namespaced.filter(|name| self.function(name).is_some()) {
                call.function = name;
                call.target = None;
            } else {
                self.check(target);
            }
        }
        let name = call.function.strip_prefix('.').unwrap_or(&call.function).to_owned();
        if self.function(&name).is_none() {
            let name = &call.function;
            self.report.at(at, format!("undeclared reference to '{name}' (in container '')"));
            return Type::Error;
        }
        call.function = name;
        self.resolve(id, at, call)
    }

    fn function(&self, name: &str) -> Option<&'static [crate::declarations::Overload]> {
        if name == "jsonpatch.escapeKey" && !self.environment.makes_patches() {
            return None;
        }
        overloads(name).map(|(_, overloads)| overloads)
    }

    fn opt_select(&mut self, id: u32, at: u32, call: &mut Call) -> Type {
        let [operand, field] = call.args.as_mut_slice() else { return Type::Error };
        let Some(Literal::String(name)) = field.literal().cloned() else { return Type::Error };
        self.types[field.id as usize] = Type::String;
        let found = self.field(at, operand, &name, true);
        self.overloads.insert(id, vec!["select_optional_field"]);
        self.unifier.substitute(&found, false)
    }

    /// Picks the overloads that fit the arguments.
    fn resolve(&mut self, id: u32, at: u32, call: &Call) -> Type {
        if matches!(call.function.as_str(), operator::AND | operator::OR) {
            return self.logical(id, call);
        }
        let args: Vec<Type> = call.target.iter().map(|target| self.type_of(target)).collect();
        let args: Vec<Type> =
            args.into_iter().chain(call.args.iter().map(|arg| self.type_of(arg))).collect();
        let mut matching = Vec::new();
        let mut result: Option<Type> = None;
        for overload in self.function(&call.function).unwrap_or_default() {
            if overload.member != call.target.is_some() || overload.args.len() != args.len() {
                continue;
            }
            let first = self.unifier.reserve(overload.params);
            let wanted: Vec<Type> = overload.args.iter().map(|arg| renumber(arg, first)).collect();
            if !self.unifier.assignable(args.iter().zip(&wanted)) {
                continue;
            }
            matching.push(overload.id);
            let found = self.unifier.substitute(&renumber(&overload.result, first), false);
            result = Some(match result {
                None => found,
                Some(before) if before == Type::Dyn || before == found => before,
                Some(_) => Type::Dyn,
            });
        }
        let Some(result) = result else {
            let shown: Vec<String> =
                args.iter().map(|arg| show(&self.unifier.substitute(arg, true))).collect();
            let signature = match call.target {
                Some(_) => format!("{}.({})", shown[0], shown[1..].join(", ")),
                None => format!("({})", shown.join(", ")),
            };
            let name = &call.function;
            self.report.at(
                at,
                format!("found no matching overload for '{name}' applied to '{signature}'"),
            );
            return Type::Error;
        };
        self.overloads.insert(id, matching);
        result
    }

    fn logical(&mut self, id: u32, call: &Call) -> Type {
        let mut result = Type::Bool;
        for arg in &call.args {
            let found = self.type_of(arg);
            if !self.unifier.assignable([(&found, &Type::Bool)]) {
                self.report.at(arg.at, mismatch(&Type::Bool, &found));
                result = Type::Error;
            }
        }
        let overload = if call.function == operator::AND { "logical_and" } else { "logical_or" };
        self.overloads.insert(id, vec![overload]);
        result
    }

    fn list(&mut self, elements: &mut [(Expr, bool)]) -> Type {
        let mut joined = None;
        for (element, optional) in elements {
            let found = self.check(element);
            let found = if *optional { self.unwrap(element.at, found) } else { found };
            joined = Some(self.join(joined, found));
        }
        Type::list(joined.unwrap_or_else(|| self.unifier.fresh()))
    }

    fn map(&mut self, expr: &mut Expr) -> Type {
        let Kind::Map(entries) = &mut expr.kind else { return Type::Error };
        let (mut keys, mut values) = (None, None);
        for entry in entries {
            let key = self.check(&mut entry.key);
            keys = Some(self.join(keys, key));
            let value = self.check(&mut entry.value);
            let value = if entry.optional { self.unwrap(entry.value.at, value) } else { value };
            values = Some(self.join(values, value));
        }
        match (keys, values) {
            (Some(keys), Some(values)) => Type::map(keys, values),
            _ => Type::map(self.unifier.fresh(), self.unifier.fresh()),
        }
    }

    /// The type inside an optional one; anything else than that or dynamic is an error.
    fn unwrap(&mut self, at: u32, found: Type) -> Type {
        match found {
            Type::Optional(inner) => (*inner).clone(),
            Type::Dyn => found,
            other => {
                self.report.at(at, mismatch(&Type::optional(other.clone()), &other));
                other
            }
        }
    }

    /// The type of elements so far and one more. Whether a mixture is allowed is found later.
    fn join(&mut self, before: Option<Type>, next: Type) -> Type {
        match before {
            None => next,
            Some(before) if self.unifier.assignable([(&before, &next)]) => {
                most_general(&before, &next).clone()
            }
            Some(_) => Type::Dyn,
        }
    }

    fn message(&mut self, expr: &mut Expr) -> Type {
        let at = expr.at;
        let Kind::Struct { name, fields } = &mut expr.kind else { return Type::Error };
        let name = name.strip_prefix('.').unwrap_or(name).to_owned();
        if !self.environment.makes_object(&name) {
            let known = self.type_named(&name).is_some();
            self.report.at(
                at,
                match known {
                    true => format!("'{name}' is not a message type"),
                    false => format!("undeclared reference to '{name}' (in container '')"),
                },
            );
            fields.iter_mut().for_each(|field| drop(self.check(&mut field.value)));
            return Type::Error;
        }
        for field in fields {
            let found = self.check(&mut field.value);
            let found = if field.optional { self.unwrap(field.value.at, found) } else { found };
            let Some(wanted) = self.environment.field_type(&name, &field.name).flatten() else {
                self.report.at(field.at, format!("undefined field '{}'", field.name));
                continue;
            };
            if !self.unifier.assignable([(&wanted, &found)]) {
                let (field_name, found) = (&field.name, show(&found));
                self.report.at(
                    field.at,
                    format!("expected type of field '{field_name}' is '{wanted}' but provided type is '{found}'"),
                );
            }
        }
        Type::object(&name)
    }

    fn fold(&mut self, fold: &mut Fold) -> Type {
        let range = self.check(&mut fold.range);
        let accumulated = self.check(&mut fold.init);
        let range = self.unifier.substitute(&range, false);
        let (first, second) = match &range {
            Type::List(items) if fold.var2.is_some() => (Type::Int, (**items).clone()),
            Type::List(items) => ((**items).clone(), Type::Dyn),
            Type::Map(map) => (map.0.clone(), map.1.clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.unifier.assignable([(&Type::Dyn, &range)]);
                (Type::Dyn, Type::Dyn)
            }
            other => {
                let shown = show(other);
                self.report.at(
                    fold.range.at,
                    format!(
                        "expression of type '{shown}' cannot be range of a comprehension (must be list, map, or \
                         dynamic)"
                    ),
                );
                (Type::Error, Type::Error)
            }
        };
        let outside = self.scope.len();
        self.scope.push((fold.accumulator.clone(), accumulated.clone()));
        self.scope.push((fold.var.clone(), first));
        if let Some(var2) = &fold.var2 {
            self.scope.push((var2.clone(), second));
        }
        self.check(&mut fold.condition);
        self.assert_type(&fold.condition, &Type::Bool);
        self.check(&mut fold.step);
        self.assert_type(&fold.step, &accumulated);
        self.scope.truncate(outside + 1);
        let result = self.check(&mut fold.result);
        self.scope.truncate(outside);
        self.unifier.substitute(&result, false)
    }

    fn assert_type(&mut self, expr: &Expr, wanted: &Type) {
        let found = self.type_of(expr);
        if !self.unifier.assignable([(wanted, &found)]) {
            let (wanted, found) =
                (self.unifier.substitute(wanted, false), self.unifier.substitute(&found, false));
            self.report.at(expr.at, mismatch(&wanted, &found));
        }
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// A type of a declaration with its parameters numbered from another number on.
fn renumber(of: &Type, first: u32) -> Type {
    match of {
        Type::Param(number) => Type::Param(number + first),
        Type::List(items) => Type::list(renumber(items, first)),
        Type::Map(map) => Type::map(renumber(&map.0, first), renumber(&map.1, first)),
        Type::Optional(inner) => Type::optional(renumber(inner, first)),
        Type::Type(Some(inner)) => Type::Type(Some(Arc::new(renumber(inner, first)))),
        other => other.clone(),
    }
}

pub(crate) fn mismatch(wanted: &Type, found: &Type) -> String {
    format!("expected type '{}' but found '{}'", show(wanted), show(found))
}

/// A type in words, cut where it gets too long to read: parts may be shared, so that it could be immense.
pub(crate) fn show(of: &Type) -> String {
    use std::fmt::Write;
    struct Bounded(String);
    impl Write for Bounded {
        fn write_str(&mut self, part: &str) -> std::fmt::Result {
            self.0.push_str(part);
            if self.0.len() > MAX_SHOWN { Err(std::fmt::Error) } else { Ok(()) }
        }
    }
    let mut shown = Bounded(String::new());
    if write!(shown, "{of}").is_err() {
        shown.0.push_str("...");
    }
    shown.0
}

/// The longest name of a type in an error.
const MAX_SHOWN: usize = 4096;
