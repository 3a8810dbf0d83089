//! Macros: calls that are rewritten while they are parsed, so that they can bind variables.
//!
//! The set is upstream's for Kubernetes: those of the language, those for two variables, for optional values and
//! `sortBy`.

use crate::ast::{ACCUMULATOR, Expr, Fold, Kind, Literal, UNUSED, operator};
use crate::parser::{Parser, Stop};

/// What became of a call.
pub(crate) enum Expansion {
    Done(Expr),
    /// Not a macro: the target and the arguments as they were.
    NoMacro(Option<Expr>, Vec<Expr>),
}

type Expand = Result<Expr, Stop>;

/// Rewrites a call, if it is one of a macro.
pub(crate) fn expand(
    parser: &mut Parser<'_>,
    at: u32,
    function: &str,
    target: Option<Expr>,
    args: Vec<Expr>,
) -> Result<Expansion, Stop> {
    let Some(target) = target else {
        return match (function, args.len()) {
            ("has", 1) => has(parser, at, args).map(Expansion::Done),
            _ => Ok(Expansion::NoMacro(None, args)),
        };
    };
    let expanded = match (function, args.len()) {
        ("all" | "exists" | "exists_one", 2) => quantifier(parser, at, function, target, args),
        ("all" | "exists" | "exists_one" | "existsOne", 3) => {
            quantifier(parser, at, function, target, args)
        }
        ("map", 2 | 3) => map(parser, at, target, args),
        ("filter", 2) => filter(parser, at, target, args),
        ("transformList" | "transformMap" | "transformMapEntry", 3 | 4) => {
            transform(parser, at, function, target, args)
        }
        ("optMap" | "optFlatMap", 2) => opt_map(parser, at, function, target, args),
        ("sortBy", 2) => sort_by(parser, at, target, args),
        _ => return Ok(Expansion::NoMacro(Some(target), args)),
    };
    expanded.map(Expansion::Done)
}

/// `has(a.b)`
fn has(parser: &mut Parser<'_>, at: u32, mut args: Vec<Expr>) -> Expand {
    let arg = args.remove(0);
    match arg.kind {
        Kind::Select { operand, field, .. } => {
            parser.node(at, Kind::Select { operand, field, test: true })
        }
        _ => refuse(parser, arg.at, "invalid argument to has() macro"),
    }
}

/// `all`, `exists` and `exists_one`, over one variable or two.
fn quantifier(
    parser: &mut Parser<'_>,
    at: u32,
    function: &str,
    range: Expr,
    args: Vec<Expr>,
) -> Expand {
    let mut args = args;
    let predicate = args.pop().expect("a quantifier has at least two arguments");
    let (var, var2) = variables(parser, &args, "argument must be a simple name")?;
    let accumulator = parser.accumulator(at)?;
    let (init, condition, step, result) = match function {
        "all" => {
            let init = parser.literal(at, Literal::Bool(true))?;
            let condition =
                parser.call(at, operator::NOT_STRICTLY_FALSE, None, vec![accumulator])?;
            let before = parser.accumulator(at)?;
            (init, condition, parser.call(at, operator::AND, None, vec![before, predicate])?, None)
        }
        "exists" => {
            let init = parser.literal(at, Literal::Bool(false))?;
            let not = parser.call(at, operator::NOT, None, vec![accumulator])?;
            let condition = parser.call(at, operator::NOT_STRICTLY_FALSE, None, vec![not])?;
            let before = parser.accumulator(at)?;
            (init, condition, parser.call(at, operator::OR, None, vec![before, predicate])?, None)
        }
        _ => {
            let init = parser.literal(at, Literal::Int(0))?;
            let condition = parser.literal(at, Literal::Bool(true))?;
            let one = parser.literal(at, Literal::Int(1))?;
            let more = parser.call(at, operator::ADD, None, vec![accumulator, one])?;
            let same = parser.accumulator(at)?;
            let step = parser.call(at, operator::CONDITIONAL, None, vec![predicate, more, same])?;
            let (count, one) = (parser.accumulator(at)?, parser.literal(at, Literal::Int(1))?);
            (
                init,
                condition,
                step,
                Some(parser.call(at, operator::EQUALS, None, vec![count, one])?),
            )
        }
    };
    let result = match result {
        Some(result) => result,
        None => parser.accumulator(at)?,
    };
    let accumulator = ACCUMULATOR.to_owned();
    parser.fold(at, Fold { range, var, var2, accumulator, init, condition, step, result })
}

/// `map(x, f)` and `map(x, p, f)`
fn map(parser: &mut Parser<'_>, at: u32, range: Expr, mut args: Vec<Expr>) -> Expand {
    let value = args.pop().expect("map has at least two arguments");
    let filter = if args.len() == 2 { args.pop() } else { None };
    let (var, _) = variables(parser, &args, "argument is not an identifier")?;
    append(parser, at, range, (var, None), filter, value)
}

/// `filter(x, p)`
fn filter(parser: &mut Parser<'_>, at: u32, range: Expr, mut args: Vec<Expr>) -> Expand {
    let predicate = args.pop();
    let (var, _) = variables(parser, &args, "argument is not an identifier")?;
    let value = args.remove(0);
    append(parser, at, range, (var, None), predicate, value)
}

/// A fold that appends a value to a list for each element that passes the filter.
fn append(
    parser: &mut Parser<'_>,
    at: u32,
    range: Expr,
    (var, var2): (String, Option<String>),
    filter: Option<Expr>,
    value: Expr,
) -> Expand {
    let init = parser.node(at, Kind::List(Vec::new()))?;
    let (before, one) =
        (parser.accumulator(at)?, parser.node(at, Kind::List(vec![(value, false)]))?);
    let step = parser.call(at, operator::ADD, None, vec![before, one])?;
    collect(parser, at, range, (var, var2), filter, init, step)
}

/// A fold that takes a step for each element that passes the filter.
fn collect(
    parser: &mut Parser<'_>,
    at: u32,
    range: Expr,
    (var, var2): (String, Option<String>),
    filter: Option<Expr>,
    init: Expr,
    step: Expr,
) -> Expand {
    let condition = parser.literal(at, Literal::Bool(true))?;
    let step = match filter {
        None => step,
        Some(filter) => {
            let same = parser.accumulator(at)?;
            parser.call(at, operator::CONDITIONAL, None, vec![filter, step, same])?
        }
    };
    let result = parser.accumulator(at)?;
    let accumulator = ACCUMULATOR.to_owned();
    parser.fold(at, Fold { range, var, var2, accumulator, init, condition, step, result })
}

/// `transformList`, `transformMap` and `transformMapEntry`, each with or without a filter.
fn transform(
    parser: &mut Parser<'_>,
    at: u32,
    function: &str,
    range: Expr,
    mut args: Vec<Expr>,
) -> Expand {
    let value = args.pop().expect("a transformation has at least three arguments");
    let filter = if args.len() == 3 { args.pop() } else { None };
    let (var, var2) = variables(parser, &args, "argument must be a simple name")?;
    if function == "transformList" {
        return append(parser, at, range, (var, var2), filter, value);
    }
    let init = parser.node(at, Kind::Map(Vec::new()))?;
    let mut inserted = vec![parser.accumulator(at)?];
    if function == "transformMap" {
        inserted.push(parser.ident(at, &var)?);
    }
    inserted.push(value);
    let step = parser.call(at, operator::MAP_INSERT, None, inserted)?;
    collect(parser, at, range, (var, var2), filter, init, step)
}

/// `optMap(x, f)` and `optFlatMap(x, f)`: the target is evaluated for presence and again for its value.
fn opt_map(
    parser: &mut Parser<'_>,
    at: u32,
    function: &str,
    target: Expr,
    mut args: Vec<Expr>,
) -> Expand {
    let value = args.pop().expect("optMap has two arguments");
    let Kind::Ident(name) = &args[0].kind else {
        let message = format!("{function}() variable name must be a simple identifier");
        return refuse(parser, args[0].at, &message);
    };
    let again = parser.copy(&target)?;
    let present = parser.call(at, "hasValue", Some(target), Vec::new())?;
    let init = parser.call(at, "value", Some(again), Vec::new())?;
    let bound = bind(parser, at, name, init, value)?;
    let some = match function {
        "optMap" => parser.call(at, "optional.of", None, vec![bound])?,
        _ => bound,
    };
    let none = parser.call(at, "optional.none", None, Vec::new())?;
    parser.call(at, operator::CONDITIONAL, None, vec![present, some, none])
}

/// `sortBy(x, key)`: the keys are computed once, then the list is sorted along with them.
fn sort_by(parser: &mut Parser<'_>, at: u32, target: Expr, args: Vec<Expr>) -> Expand {
    if matches!(target.kind, Kind::Literal(_) | Kind::Map(_) | Kind::Struct { .. }) {
        let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return refuse(parser, target.at, message);
    }
    let range = parser.ident(at, SORT_INPUT)?;
    let keys = map(parser, at, range, args)?;
    let list = parser.ident(at, SORT_INPUT)?;
    let sorted = parser.call(at, operator::SORT_BY_KEYS, Some(list), vec![keys])?;
    bind(parser, at, SORT_INPUT, target, sorted)
}

/// An expression with a name for a value: a fold over nothing whose accumulator is the value.
fn bind(parser: &mut Parser<'_>, at: u32, name: &str, init: Expr, result: Expr) -> Expand {
    let range = parser.node(at, Kind::List(Vec::new()))?;
    let condition = parser.literal(at, Literal::Bool(false))?;
    let step = parser.ident(at, name)?;
    let (var, accumulator) = (UNUSED.to_owned(), name.to_owned());
    parser.fold(at, Fold { range, var, var2: None, accumulator, init, condition, step, result })
}

/// The one or two names that a macro binds.
fn variables(
    parser: &mut Parser<'_>,
    args: &[Expr],
    not_a_name: &str,
) -> Result<(String, Option<String>), Stop> {
    let mut names = Vec::new();
    for arg in args {
        let Kind::Ident(name) = &arg.kind else {
            return refuse(parser, arg.at, not_a_name);
        };
        if names.contains(name) {
            return refuse(parser, arg.at, &format!("duplicate variable name: {name}"));
        }
        if name == OLD_ACCUMULATOR {
            return refuse(parser, arg.at, "iteration variable overwrites accumulator variable");
        }
        names.push(name.clone());
    }
    let mut names = names.into_iter();
    let first = names.next().expect("every macro binds a name");
    Ok((first, names.next()))
}

fn refuse<T>(parser: &mut Parser<'_>, at: u32, message: &str) -> Result<T, Stop> {
    parser.report.at(at, message);
    Err(Stop)
}

/// The name that accumulators once had; still refused as a variable.
const OLD_ACCUMULATOR: &str = "__result__";

/// The list that `sortBy` sorts. No expression can spell it.
const SORT_INPUT: &str = "@__sortBy_input__";
