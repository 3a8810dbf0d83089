//! The functions that expressions may call, with all their overloads.
//!
//! They come from one table, `functions.decl`, which lists what upstream declares. The checker picks overloads from
//! it; the evaluator and the costs know them by name.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use crate::types::{Type, names};

/// One signature of a function.
#[derive(Debug)]
pub(crate) struct Overload {
    /// The name of the overload, by which costs are told apart.
    pub(crate) id: &'static str,
    /// Whether it is called on a target, which is then the first argument.
    pub(crate) member: bool,
    /// The types of the arguments; parameters are numbered from 0.
    pub(crate) args: Vec<Type>,
    pub(crate) result: Type,
    /// How many parameters there are.
    pub(crate) params: u32,
}

/// The overloads of a function and its name, or `None` if there is no such function.
pub(crate) fn overloads(function: &str) -> Option<(&'static str, &'static [Overload])> {
    TABLE.get_key_value(function).map(|(name, overloads)| (*name, overloads.as_slice()))
}

static TABLE: LazyLock<HashMap<&'static str, Vec<Overload>>> = LazyLock::new(|| {
    let mut table: HashMap<&'static str, Vec<Overload>> = HashMap::new();
    for line in include_str!("functions.decl").lines().filter(|line| !line.starts_with('#')) {
        let (name, overload) =
            parse_line(line).expect("the table is part of the program and tested");
        table.entry(name).or_default().push(overload);
    }
    table
});

fn parse_line(line: &'static str) -> Option<(&'static str, Overload)> {
    let mut columns = line.split('\t');
    let (name, style, id) = (columns.next()?, columns.next()?, columns.next()?);
    let (args, result) = columns.next()?.split_once(") -> ")?;
    let mut params = Vec::new();
    let args = split(args.strip_prefix('(')?);
    let args =
        args.into_iter().map(|arg| parse_type(arg, &mut params)).collect::<Option<Vec<_>>>()?;
    let result = parse_type(result, &mut params)?;
    let overload =
        Overload { id, member: style == "member", args, result, params: params.len() as u32 };
    Some((name, overload))
}

/// Splits at commas that are not inside parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(text[start..].trim());
    }
    parts
}

fn parse_type<'a>(text: &'a str, params: &mut Vec<&'a str>) -> Option<Type> {
    if let Some((name, inner)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let inner = split(inner)
            .into_iter()
            .map(|part| parse_type(part, params))
            .collect::<Option<Vec<_>>>()?;
        return match (name, <[Type; 1]>::try_from(inner)) {
            ("list", Ok([items])) => Some(Type::list(items)),
            ("optional_type", Ok([value])) => Some(Type::optional(value)),
            ("type", Ok([of])) => Some(Type::Type(Some(Arc::new(of)))),
            ("map", Err(two)) => {
                let [keys, values] = <[Type; 2]>::try_from(two).ok()?;
                Some(Type::map(keys, values))
            }
            _ => None,
        };
    }
    Some(match text {
        "dyn" => Type::Dyn,
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        names::IP | names::CIDR => Type::Opaque(text.into()),
        param if param.len() == 1 => {
            let at = params.iter().position(|known| *known == param).unwrap_or_else(|| {
                params.push(param);
                params.len() - 1
            });
            Type::Param(at as u32)
        }
        object if object.starts_with("kubernetes.") => Type::object(object),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_understood() {
        for line in include_str!("functions.decl").lines().filter(|line| !line.starts_with('#')) {
            assert!(parse_line(line).is_some(), "{line}");
        }
        let (_, overloads) = overloads("_[_]").unwrap();
        assert_eq!(overloads[1].args, [Type::map(Type::Param(0), Type::Param(1)), Type::Param(0)]);
        assert_eq!(overloads[1].result, Type::Param(1));
    }
}
