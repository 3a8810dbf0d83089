//! What a call costs at run time, by upstream's table.
//!
//! Costs are counted before a call is made, so that one that is too expensive is not. Those of `join`, `slice`,
//! `reverse` and `lists.range` depend on the result and are counted by the functions themselves.

use crate::error::EvalError;
use crate::library::format_size;
use crate::machine::LIST_COST;
use crate::types::Type;
use crate::value::Value;

/// The cost of a call with these arguments, the target first.
pub(crate) fn call_cost(function: &str, overload: &str, args: &[Value<'_>]) -> u64 {
    if let Some(cost) = list_cost(function, overload, args) {
        return cost;
    }
    let size = |at: usize| args.get(at).map_or(1, Value::size);
    match function {
        "check" => 350_000,
        "fieldSelector" | "labelSelector" if args.len() >= 2 => {
            let length = size(1);
            LIST_COST + tenth(length) + length.div_ceil(2) * 50
        }
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            args.first().map_or(0, |arg| traversal(arg).unwrap_or(0))
        }
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "jsonpatch.escapeKey" => {
            tenth(size(0))
        }
        "replace" | "split" | "ip.isCanonical" => tenth(2 * size(0)),
        "join" => 0,
        "find" | "findAll" => tenth(1 + size(0)).saturating_mul(size(1).div_ceil(4)),
        "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            tenth(size(0))
        }
        "ip" if overload != "cidr_ip" => tenth(size(0)),
        "containsIP" => {
            let parse = if overload == "cidr_contains_ip_string" { tenth(size(1)) } else { 0 };
            tenth(2 * size(0)) + parse
        }
        "containsCIDR" => {
            let parse = if overload == "cidr_contains_cidr_string" { tenth(size(1)) } else { 0 };
            tenth(2 * size(0)) + tenth(size(0)) + 1 + parse
        }
        "validate" => match args.first().and_then(format_size) {
            Some(pattern) => tenth(1 + size(1)).saturating_mul(pattern.div_ceil(4)),
            None => 1,
        },
        _ => standard_cost(overload, size),
    }
}

/// Costs of the language's own functions, by overload. An overload that is not known costs one.
fn standard_cost(overload: &str, size: impl Fn(usize) -> u64) -> u64 {
    match overload {
        "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string"
        | "strings_quote" | "string_format" => tenth(size(0)),
        "in_list" => size(1),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes" => tenth(size(0).min(size(1))),
        "add_string" | "add_bytes" => tenth(size(0) + size(1)),
        "matches_string" => tenth(1 + size(0)).saturating_mul(size(1).div_ceil(4)),
        "contains_string" => tenth(size(0)).saturating_mul(tenth(size(1))),
        _ => 1,
    }
}

/// Costs of functions that go over lists, by overload.
fn list_cost(function: &str, overload: &str, args: &[Value<'_>]) -> Option<u64> {
    let size = |at: usize| args.get(at).map_or(1, Value::size);
    let against_itself = |at: usize| {
        let text = match args.get(at) {
            Some(Value::List(list)) => {
                matches!(list.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))))
            }
            _ => false,
        };
        let squared = size(at).saturating_mul(size(at));
        let pairs = if text { squared.saturating_mul(21) / 10 } else { squared.saturating_mul(2) };
        pairs.saturating_add(1 + LIST_COST)
    };
    if overload.is_empty() {
        return None;
    }
    Some(match function {
        "slice" | "reverse" | "lists.range" => 1 + LIST_COST,
        "flatten" => {
            let depth = match args.get(1) {
                Some(Value::Int(depth)) => u64::try_from(*depth).unwrap_or(0),
                _ => 1,
            };
            size(0).saturating_mul(depth).saturating_add(1 + LIST_COST)
        }
        "distinct" | "sort" => against_itself(0),
        "@sortByAssociatedKeys" => against_itself(1),
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)).saturating_add(1),
        "sets.equivalent" => size(0).saturating_mul(size(1)).saturating_mul(2).saturating_add(1),
        _ => return None,
    })
}

/// A tenth, rounded up: what going over a text costs.
fn tenth(size: u64) -> u64 {
    size.div_ceil(10)
}

/// What going over a value with all its parts costs.
fn traversal(value: &Value<'_>) -> Result<u64, EvalError> {
    Ok(match value {
        Value::String(text) => text.len() as u64 / 10,
        Value::Bytes(bytes) => bytes.len() as u64 / 10,
        Value::List(list) => {
            let mut cost = 0_u64;
            for element in list.iter() {
                cost = cost.saturating_add(traversal(&element?)?);
            }
            cost
        }
        Value::Map(map) => {
            let mut cost = 0_u64;
            for key in map.keys() {
                cost = cost.saturating_add(traversal(&key)?);
                if let Some(value) = map.find(&key) {
                    cost = cost.saturating_add(traversal(&value?)?);
                }
            }
            cost
        }
        _ => 1,
    })
}

/// Whether two values of a type compare at the cost of one.
pub(crate) fn compares_at_once(of: &Type) -> bool {
    use crate::types::names;
    match of {
        Type::Opaque(name) => matches!(&**name, names::IP | names::CIDR),
        Type::Object(name) => matches!(
            &**name,
            names::QUANTITY
                | names::SEMVER
                | names::AUTHORIZER
                | names::PATH_CHECK
                | names::GROUP_CHECK
                | names::RESOURCE_CHECK
                | names::DECISION
        ),
        _ => false,
    }
}
