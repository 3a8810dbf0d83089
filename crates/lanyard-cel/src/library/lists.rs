//! Functions of lists and sets.

use std::cmp::Ordering;

use super::Function;
use crate::ast::operator;
use crate::equality::{compare, equal};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{List, Value};

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "isSorted" => is_sorted,
        "sum" => sum,
        "min" => |_, args| extreme("min", args, Ordering::Greater),
        "max" => |_, args| extreme("max", args, Ordering::Less),
        "distinct" => distinct,
        "flatten" => flatten,
        "slice" => slice,
        "sort" => |meter, args| sorted(meter, "sort", args.first(), args.first()),
        operator::SORT_BY_KEYS => {
            |meter, args| sorted(meter, operator::SORT_BY_KEYS, args.first(), args.get(1))
        }
        "reverse" => reverse,
        "lists.range" => range,
        "first" => |_, args| end(args, "first", |list| list.get(0)),
        "last" => |_, args| end(args, "last", |list| list.get(list.len().wrapping_sub(1))),
        "sets.contains" => |meter, args| sets(meter, "sets.contains", args),
        "sets.equivalent" => |meter, args| sets(meter, "sets.equivalent", args),
        "sets.intersects" => |meter, args| sets(meter, "sets.intersects", args),
        _ => return None,
    })
}

fn elements<'a>(name: &str, args: &[Value<'a>]) -> Result<Vec<Value<'a>>, EvalError> {
    match args.first() {
        Some(Value::List(list)) => list.iter().collect(),
        _ => Err(EvalError::no_overload(name, args)),
    }
}

fn made<'a>(meter: &mut Meter, list: Vec<Value<'a>>) -> Result<Value<'a>, EvalError> {
    meter.allocate(list.len() * size_of::<Value<'_>>())?;
    Ok(Value::list(list))
}

fn is_sorted<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let list = elements("isSorted", args)?;
    let sorted = list.windows(2).all(|pair| compare(&pair[0], &pair[1]) != Some(Ordering::Greater));
    Ok(Value::Bool(sorted))
}

fn sum<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let list = elements("sum", args)?;
    let add = super::operators::function(operator::ADD).ok_or_else(EvalError::no_such_overload)?;
    let mut rest = list.into_iter();
    let Some(mut total) = rest.next() else { return Ok(Value::Int(0)) };
    for element in rest {
        total = add(meter, &[total, element])?;
    }
    Ok(total)
}

fn extreme<'a>(name: &str, args: &[Value<'a>], worse: Ordering) -> Result<Value<'a>, EvalError> {
    let list = elements(name, args)?;
    let best = list
        .into_iter()
        .reduce(|best, next| if compare(&best, &next) == Some(worse) { next } else { best });
    best.ok_or_else(|| EvalError::new(format!("{name} called on empty list")))
}

pub(super) fn index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let list = elements("indexOf", args)?;
    find(meter, list.iter().enumerate(), args)
}

pub(super) fn last_index_of<'a>(
    meter: &mut Meter,
    args: &[Value<'a>],
) -> Result<Value<'a>, EvalError> {
    let list = elements("lastIndexOf", args)?;
    find(meter, list.iter().enumerate().rev(), args)
}

fn find<'a, 'v>(
    meter: &mut Meter,
    list: impl Iterator<Item = (usize, &'v Value<'a>)>,
    args: &[Value<'a>],
) -> Result<Value<'a>, EvalError>
where
    'a: 'v,
{
    for (at, element) in list {
        if equal(meter, element, &args[1])? {
            return Ok(Value::Int(at as i64));
        }
    }
    Ok(Value::Int(-1))
}

fn distinct<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let mut kept: Vec<Value<'a>> = Vec::new();
    'next: for element in elements("distinct", args)? {
        for before in &kept {
            if equal(meter, before, &element)? {
                continue 'next;
            }
        }
        kept.push(element);
    }
    made(meter, kept)
}

fn flatten<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let depth = match args {
        [Value::List(_)] => 1,
        [Value::List(_), Value::Int(depth)] if *depth < 0 => {
            return Err(EvalError::new("level must be non-negative"));
        }
        [Value::List(_), Value::Int(depth)] => *depth,
        _ => return Err(EvalError::no_overload("flatten", args)),
    };
    let mut flat = Vec::new();
    flatten_into(meter, elements("flatten", args)?, depth.min(MAX_FLATTEN), &mut flat)?;
    made(meter, flat)
}

fn flatten_into<'a>(
    meter: &mut Meter,
    list: Vec<Value<'a>>,
    depth: i64,
    flat: &mut Vec<Value<'a>>,
) -> Result<(), EvalError> {
    for element in list {
        meter.work(1)?;
        match element {
            Value::List(inner) if depth > 0 => {
                flatten_into(meter, inner.iter().collect::<Result<_, _>>()?, depth - 1, flat)?;
            }
            other => flat.push(other),
        }
    }
    Ok(())
}

fn slice<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return Err(EvalError::no_overload("slice", args));
    };
    let wrong = |why: String| EvalError::new(format!("cannot slice({start}, {end}), {why}"));
    // At least what an error counts as.
    meter.charge(u64::try_from(end.saturating_sub(*start)).unwrap_or(1))?;
    if *start < 0 || *end < 0 {
        return Err(wrong("negative indexes not supported".to_owned()));
    }
    if start > end {
        return Err(wrong("start index must be less than or equal to end index".to_owned()));
    }
    if (list.len() as i64) < *end {
        return Err(wrong(format!("list is length {}", list.len())));
    }
    let part =
        (*start as usize..*end as usize).filter_map(|at| list.get(at)).collect::<Result<_, _>>()?;
    made(meter, part)
}

fn sorted<'a>(
    meter: &mut Meter,
    name: &str,
    list: Option<&Value<'a>>,
    keys: Option<&Value<'a>>,
) -> Result<Value<'a>, EvalError> {
    let (Some(Value::List(list)), Some(Value::List(keys))) = (list, keys) else {
        return Err(EvalError::no_overload(name, &[]));
    };
    let (count, key_count) = (list.len(), keys.len());
    if count != key_count {
        return Err(EvalError::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {count} and \
             {key_count} elements respectively"
        )));
    }
    let keys = keys.iter().collect::<Result<Vec<_>, _>>()?;
    let Some(first) = keys.first() else { return Ok(Value::List(list.clone())) };
    if compare(first, first).is_none() {
        return Err(EvalError::new("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_of() != first.type_of()) {
        return Err(EvalError::new("list elements must have the same type"));
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| compare(&keys[*a], &keys[*b]).unwrap_or(Ordering::Equal));
    let sorted = order.into_iter().filter_map(|at| list.get(at)).collect::<Result<_, _>>()?;
    made(meter, sorted)
}

fn reverse<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let mut list = elements("reverse", args)?;
    meter.charge(list.len() as u64)?;
    list.reverse();
    made(meter, list)
}

fn range<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::Int(count)] = args else { return Err(EvalError::no_overload("lists.range", args)) };
    let count = u64::try_from(*count).unwrap_or(0);
    meter.charge(count)?;
    made(meter, (0..count).map(|at| Value::Int(at as i64)).collect())
}

fn end<'a>(
    args: &[Value<'a>],
    name: &str,
    pick: impl Fn(&List<'a>) -> Option<Result<Value<'a>, EvalError>>,
) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::List(list)] => Ok(match pick(list).transpose()? {
            Some(element) => Value::some(element),
            None => Value::Optional(None),
        }),
        _ => Err(EvalError::no_overload(name, args)),
    }
}

fn sets<'a>(meter: &mut Meter, name: &str, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::List(one), Value::List(other)] = args else {
        return Err(EvalError::no_overload(name, args));
    };
    let (one, other) =
        (one.iter().collect::<Result<Vec<_>, _>>()?, other.iter().collect::<Result<Vec<_>, _>>()?);
    Ok(Value::Bool(match name {
        "sets.contains" => holds_all(meter, &one, &other)?,
        "sets.equivalent" => holds_all(meter, &one, &other)? && holds_all(meter, &other, &one)?,
        _ => {
            for element in &one {
                if holds(meter, &other, element)? {
                    return Ok(Value::Bool(true));
                }
            }
            false
        }
    }))
}

fn holds<'a>(
    meter: &mut Meter,
    list: &[Value<'a>],
    element: &Value<'a>,
) -> Result<bool, EvalError> {
    for candidate in list {
        if equal(meter, candidate, element)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds_all<'a>(
    meter: &mut Meter,
    list: &[Value<'a>],
    part: &[Value<'a>],
) -> Result<bool, EvalError> {
    for element in part {
        if !holds(meter, list, element)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Deeper than values can be.
const MAX_FLATTEN: i64 = 200;
