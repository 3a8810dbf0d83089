//! What an expression may cost at most, before it is ever run.
//!
//! The estimate decides which rules a CustomResourceDefinition may hold, so it follows upstream's to the unit: from
//! the largest sizes that schemas allow, and from the costs of calls.

mod calls;
mod range;

use std::collections::HashMap;

pub use range::CostEstimate;
pub(crate) use range::Range;

use crate::ast::{ACCUMULATOR, Call, Expr, Fold, Kind, Literal};
use crate::checker::Checked;
use crate::environment::Environment;
use crate::machine::{LIST_COST, MAP_COST, MESSAGE_COST};
use crate::types::Type;

/// Estimates an expression.
pub(crate) fn estimate(checked: &Checked, environment: &Environment) -> CostEstimate {
    let mut estimator = Estimator {
        checked,
        environment,
        paths: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
        locals: Vec::new(),
    };
    estimator.cost(&checked.root).into()
}

/// Where a value comes from: a variable and the properties that lead on from it.
type Path = Vec<String>;

/// Sizes of what a list or map holds.
#[derive(Debug, Clone, Copy)]
struct EntrySizes {
    map: bool,
    key: Range,
    value: Range,
}

/// A variable of a fold.
#[derive(Debug, Clone)]
struct Local {
    name: String,
    path: Path,
    size: Option<Range>,
    entries: Option<EntrySizes>,
}

struct Estimator<'a> {
    checked: &'a Checked,
    environment: &'a Environment,
    paths: HashMap<u32, Path>,
    sizes: HashMap<u32, Range>,
    entries: HashMap<u32, EntrySizes>,
    locals: Vec<Local>,
}

impl<'a> Estimator<'a> {
    fn cost(&mut self, expr: &'a Expr) -> Range {
        match &expr.kind {
            Kind::Literal(_) => Range::ZERO,
            Kind::Ident(name) => {
                let path =
                    self.local(name).map_or_else(|| vec![name.clone()], |local| local.path.clone());
                self.paths.insert(expr.id, path);
                Range::exactly(1)
            }
            Kind::Select { operand, field, test } => self.select(expr, operand, field, *test),
            Kind::Call(call) => self.call(expr, call),
            Kind::List(elements) => self.list(expr, elements),
            Kind::Map(entries) => {
                let (mut cost, mut key, mut value) = (Range::ZERO, Range::EMPTY, Range::EMPTY);
                if entries.is_empty() {
                    (key, value) = (Range::ZERO, Range::ZERO);
                }
                for entry in entries {
                    cost = cost.plus(self.cost(&entry.key)).plus(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                self.entries.insert(expr.id, EntrySizes { map: true, key, value });
                cost.plus(Range::exactly(MAP_COST))
            }
            Kind::Struct { fields, .. } => {
                let parts: Vec<Range> =
                    fields.iter().map(|field| self.cost(&field.value)).collect();
                parts.into_iter().fold(Range::exactly(MESSAGE_COST), Range::plus)
            }
            Kind::Fold(fold) if is_binding(fold) => self.binding(expr, fold),
            Kind::Fold(fold) => self.fold(expr, fold),
        }
    }

    fn select(&mut self, expr: &Expr, operand: &'a Expr, field: &str, test: bool) -> Range {
        let cost = self.cost(operand);
        if test {
            return cost;
        }
        let mut path = self.path(operand);
        path.push(field.to_owned());
        self.paths.insert(expr.id, path);
        match self.type_of(operand) {
            Type::Map(_) | Type::Object(_) => cost.plus(Range::exactly(1)),
            _ => cost,
        }
    }

    fn list(&mut self, expr: &Expr, elements: &'a [(Expr, bool)]) -> Range {
        let mut cost = Range::ZERO;
        let mut value = if elements.is_empty() { Range::ZERO } else { Range::EMPTY };
        for (element, _) in elements {
            cost = cost.plus(self.cost(element));
            value = value.union(self.size_or_unknown(element));
        }
        self.entries.insert(expr.id, EntrySizes { map: false, key: Range::exactly(1), value });
        cost.plus(Range::exactly(LIST_COST))
    }

    fn call(&mut self, expr: &'a Expr, call: &'a Call) -> Range {
        if call.function == "dyn" {
            let cost = self.cost(&call.args[0]).plus(Range::exactly(1));
            self.copy_sizes(expr, &call.args[0]);
            return cost;
        }
        let costs: Vec<Range> = call.args.iter().map(|arg| self.cost(arg)).collect();
        let Some(overloads) = self.checked.overloads.get(&expr.id) else { return Range::ZERO };
        let target = call.target.as_deref().map_or(Range::ZERO, |target| self.cost(target));
        let mut total = Range::EMPTY;
        let mut size: Option<Range> = None;
        for overload in overloads {
            let (cost, result) = self.function(expr, call, overload, &costs);
            total = total.union(cost);
            if let Some(result) = result {
                size = Some(size.map_or(result, |size| size.union(result)));
            }
            if matches!(*overload, "index_list" | "index_map") {
                size = self.entry_sizes(&call.args[0]).map(|entries| entries.value);
                let mut path = self.path(&call.args[0]);
                path.push(if *overload == "index_list" { "@items" } else { "@values" }.to_owned());
                self.paths.insert(expr.id, path);
            }
            if size.is_none() {
                size = self.size(expr);
            }
        }
        if let Some(size) = size {
            self.sizes.insert(expr.id, size);
        }
        target.plus(total)
    }

    /// A name for a value, made of a fold over nothing.
    fn binding(&mut self, expr: &Expr, fold: &'a Fold) -> Range {
        let cost = self.cost(&fold.range).plus(self.cost(&fold.init));
        self.push_value(&fold.accumulator, &fold.init);
        let cost = cost.plus(self.cost(&fold.result));
        self.locals.pop();
        self.copy_sizes(expr, &fold.result);
        cost
    }

    fn fold(&mut self, expr: &Expr, fold: &'a Fold) -> Range {
        let cost = self.cost(&fold.range).plus(self.cost(&fold.init));
        let outside = self.locals.len();
        self.push_value(&fold.accumulator, &fold.init);
        match &fold.var2 {
            Some(var2) => {
                self.push_part(&fold.var, &fold.range, Part::Key);
                self.push_part(var2, &fold.range, Part::Value);
            }
            None => self.push_part(&fold.var, &fold.range, Part::Element),
        }
        let turn = self.cost(&fold.condition);
        let turn = self.cost(&fold.step).plus(turn);
        self.locals.truncate(outside + 1);
        let cost = cost.plus(self.cost(&fold.result));
        self.locals.truncate(outside);
        let count = self.size_or_unknown(&fold.range);
        match &fold.init.kind {
            Kind::Literal(_) => {
                if let Some(size) = self.size(&fold.init) {
                    self.sizes.insert(expr.id, size);
                }
            }
            Kind::List(_) | Kind::Map(_) => {
                self.sizes.insert(expr.id, count);
                if let Some(entries) = self.entry_sizes(&fold.step) {
                    self.entries.insert(expr.id, entries);
                }
            }
            _ => {}
        }
        cost.plus(count.times(turn))
    }

    // What is known about nodes.

    fn type_of(&self, expr: &Expr) -> &Type {
        &self.checked.types[expr.id as usize]
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.iter().rev().find(|local| local.name == name)
    }

    fn path(&self, expr: &Expr) -> Path {
        if let Kind::Ident(name) = &expr.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&expr.id).cloned().unwrap_or_default()
    }

    /// The path of an argument: an accumulator leads nowhere.
    fn argument_path(&self, expr: &Expr) -> Path {
        let path = self.path(expr);
        if path.first().is_some_and(|first| first == ACCUMULATOR) { Path::new() } else { path }
    }

    /// The size of what a path leads to, by the declarations.
    fn declared_size(&self, path: &[String]) -> Option<Range> {
        let (variable, steps) = path.split_first()?;
        // Upstream takes every name for one below the root, even that of a type.
        let root =
            self.environment.declared(variable).or_else(|| self.environment.declared("self"));
        let mut declared = &**root?;
        for step in steps {
            declared = declared.step(step)?;
        }
        Some(Range::new(0, declared.max_elements()))
    }

    fn size(&mut self, expr: &Expr) -> Option<Range> {
        if let Some(size) = self.sizes.get(&expr.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(expr) {
            return Some(Range::exactly(size));
        }
        if let Some(size) = self.declared_size(&self.path(expr)) {
            self.sizes.insert(expr.id, size);
            return Some(size);
        }
        if is_scalar(self.type_of(expr)) {
            return Some(Range::exactly(1));
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.size),
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, expr: &Expr) -> Range {
        self.size(expr).unwrap_or(Range::UNKNOWN)
    }

    /// The size of an argument, where accumulators have no path.
    fn argument_size(&mut self, expr: &Expr) -> Range {
        match self.size(expr) {
            Some(size) => size,
            None => self.declared_size(&self.argument_path(expr)).unwrap_or(Range::UNKNOWN),
        }
    }

    fn entry_sizes(&self, expr: &Expr) -> Option<EntrySizes> {
        if let Some(entries) = self.entries.get(&expr.id) {
            return Some(*entries);
        }
        match &expr.kind {
            Kind::Ident(name) => self.local(name).and_then(|local| local.entries),
            _ => None,
        }
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entries) = self.entry_sizes(from) {
            self.entries.insert(to.id, entries);
        }
    }

    fn push_value(&mut self, name: &str, value: &Expr) {
        let (path, entries) = (self.path(value), self.entry_sizes(value));
        let size = self.size(value);
        self.locals.push(Local { name: name.to_owned(), path, size, entries });
    }

    fn push_part(&mut self, name: &str, range: &Expr, part: Part) {
        let entries = self.entry_sizes(range);
        let map =
            entries.map_or(!matches!(self.type_of(range), Type::List(_)), |entries| entries.map);
        let key = matches!(part, Part::Key) || matches!(part, Part::Element) && map;
        let size = entries.map(|entries| if key { entries.key } else { entries.value });
        let step = match (key, map) {
            (true, true) => "@keys",
            (true, false) => "@indices",
            (false, true) => "@values",
            (false, false) => "@items",
        };
        let mut path = self.path(range);
        path.push(step.to_owned());
        self.locals.push(Local { name: name.to_owned(), path, size, entries: None });
    }
}

/// Which part of an entry a variable is.
#[derive(Clone, Copy)]
enum Part {
    Key,
    Value,
    /// The element of a list, or the key of a map.
    Element,
}

/// Whether a fold only gives a name to a value.
fn is_binding(fold: &Fold) -> bool {
    matches!(&fold.range.kind, Kind::List(elements) if elements.is_empty())
        && fold.condition.literal() == Some(&Literal::Bool(false))
        && fold.accumulator != OLD_ACCUMULATOR
}

fn literal_size(expr: &Expr) -> Option<u64> {
    Some(match &expr.kind {
        Kind::Literal(Literal::String(text)) => text.chars().count() as u64,
        Kind::Literal(Literal::Bytes(bytes)) => bytes.len() as u64,
        Kind::Literal(_) => 1,
        Kind::List(elements) => elements.len() as u64,
        Kind::Map(entries) => entries.len() as u64,
        _ => return None,
    })
}

fn is_scalar(of: &Type) -> bool {
    match of {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => {
            true
        }
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}

const OLD_ACCUMULATOR: &str = "__result__";
