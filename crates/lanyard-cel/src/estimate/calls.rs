//! What calls cost at most, and how large their results are.

use super::{EntrySizes, Estimator, Range};
use crate::ast::{Call, Expr, Kind, Literal, operator};
use crate::call_cost::compares_at_once;
use crate::machine::LIST_COST;
use crate::types::{Type, names};

/// A cost and, if it is known, the size of the result.
type Estimated = (Range, Option<Range>);

impl Estimator<'_> {
    /// One overload of a function, with the costs of its arguments.
    pub(super) fn function(
        &mut self,
        expr: &Expr,
        call: &Call,
        overload: &str,
        costs: &[Range],
    ) -> Estimated {
        let total = costs.iter().copied().fold(Range::ZERO, Range::plus);
        let known = self.list_call(call, overload).or_else(|| self.library_call(call, overload));
        if let Some((cost, size)) = known {
            return (cost.plus(total), size);
        }
        match overload {
            "logical_and" | "logical_or" => {
                // The first term may decide.
                (Range::new(costs.first().map_or(0, |first| first.min), total.max), None)
            }
            "conditional" => {
                let size =
                    self.size_or_unknown(&call.args[1]).union(self.size_or_unknown(&call.args[2]));
                self.join_entries(expr, &call.args[1], &call.args[2]);
                (costs[0].plus(costs[1].union(costs[2])), Some(size))
            }
            _ => {
                let (cost, size) = self.standard_call(expr, call, overload);
                (cost.plus(total), size)
            }
        }
    }

    fn join_entries(&mut self, expr: &Expr, one: &Expr, other: &Expr) {
        if let (Some(one), Some(other)) = (self.entry_sizes(one), self.entry_sizes(other)) {
            let (key, value) = (one.key.union(other.key), one.value.union(other.value));
            self.entries.insert(expr.id, EntrySizes { map: one.map, key, value });
        }
    }

    /// Functions of the language itself.
    fn standard_call(&mut self, expr: &Expr, call: &Call, overload: &str) -> Estimated {
        let one = (Range::exactly(1), None);
        let target = call.target.as_deref();
        let args = call.args.as_slice();
        match (overload, target, args) {
            ("string_format", Some(target), _) => (self.size_or_unknown(target).tenth(), None),
            ("string_to_bytes", _, [arg]) => {
                let size = self.size_or_unknown(arg);
                (size.tenth(), Some(Range::new(size.min, size.max.wrapping_mul(4))))
            }
            ("bytes_to_string", _, [arg]) => {
                let size = self.size_or_unknown(arg);
                (size.tenth(), Some(Range::new(size.min / 4, size.max)))
            }
            ("strings_quote", _, [arg]) => {
                let size = self.size_or_unknown(arg);
                let result =
                    Range::new(size.min.wrapping_add(2), size.max.wrapping_mul(2).wrapping_add(2));
                (size.tenth(), Some(result))
            }
            ("starts_with_string" | "ends_with_string", _, [arg]) => {
                (self.size_or_unknown(arg).tenth(), None)
            }
            ("in_list", _, [_, list]) => (self.size_or_unknown(list).scaled(1.0), None),
            ("matches_string", Some(target), [pattern]) => {
                let text = self.size_or_unknown(target).plus(Range::exactly(1)).tenth();
                (text.times(self.size_or_unknown(pattern).scaled(0.25)), None)
            }
            ("contains_string", Some(target), [part]) => {
                let text = self.size_or_unknown(target).tenth();
                (text.times(self.size_or_unknown(part).tenth()), None)
            }
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                let size = self.size_or_unknown(left).plus(self.size_or_unknown(right));
                self.join_entries(expr, left, right);
                let cost = if overload == "add_list" { Range::exactly(1) } else { size.tenth() };
                (cost, Some(size))
            }
            (
                "less_string"
                | "greater_string"
                | "less_equals_string"
                | "greater_equals_string"
                | "less_bytes"
                | "greater_bytes"
                | "less_equals_bytes"
                | "greater_equals_bytes"
                | "equals"
                | "not_equals",
                _,
                [left, right],
            ) => {
                let most = self.size_or_unknown(left).max.min(self.size_or_unknown(right).max);
                (Range::new(u64::from(most > 0), most).tenth(), None)
            }
            _ => one,
        }
    }

    /// Functions of Kubernetes' libraries.
    fn library_call(&mut self, call: &Call, overload: &str) -> Option<Estimated> {
        let one = Some((Range::exactly(1), None));
        let target = call.target.as_deref();
        let args = call.args.as_slice();
        match (call.function.as_str(), target, args) {
            ("check", ..) => Some((Range::exactly(350_000), None)),
            (
                "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace"
                | "name" | "allowed" | "reason" | "error" | "errored",
                ..,
            ) => one,
            ("fieldSelector" | "labelSelector", _, [selector]) => {
                let size = self.argument_size(selector);
                let requirements = size.scaled(0.5).scaled(50.0);
                Some((Range::exactly(LIST_COST).plus(size.tenth()).plus(requirements), None))
            }
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", Some(target), _) => {
                Some((self.list_traversal(target), None))
            }
            ("url" | "jsonpatch.escapeKey", _, [arg]) => {
                let size = self.argument_size(arg);
                Some((size.tenth(), Some(size)))
            }
            ("lowerAscii" | "upperAscii" | "substring" | "trim", Some(target), _) => {
                let size = self.argument_size(target);
                Some((size.tenth(), Some(size)))
            }
            ("replace", Some(target), [old, new, ..]) => Some(self.replace(target, old, new)),
            ("split", Some(target), _) => {
                let size = self.argument_size(target);
                let max = match args.get(1).and_then(Expr::literal) {
                    Some(Literal::Int(limit)) => *limit as u64,
                    _ => size.max,
                };
                Some((size.scaled(0.2), Some(Range::new(0, max))))
            }
            ("join", Some(target), _) => Some(self.join(target, args.first())),
            ("find" | "findAll", Some(target), [pattern, ..]) => {
                let size = self.argument_size(target);
                let text = size.plus(Range::exactly(1)).tenth();
                let cost = text.times(self.argument_size(pattern).scaled(0.25));
                Some((cost, Some(Range::new(0, size.max))))
            }
            (
                "cidr" | "isIP" | "isCIDR" | "quantity" | "isQuantity" | "semver" | "isSemver",
                _,
                [arg, ..],
            ) => Some((self.argument_size(arg).tenth(), None)),
            ("ip", ..) if overload == "cidr_ip" => one,
            ("ip", _, [arg]) => Some((self.argument_size(arg).tenth(), None)),
            ("ip.isCanonical", _, [arg]) => Some((self.argument_size(arg).scaled(0.2), None)),
            ("containsIP" | "containsCIDR", _, [arg]) => Some(self.contains(call, overload, arg)),
            ("validate", _, [arg]) => Some((self.argument_size(arg).tenth().scaled(32.0), None)),
            (name, ..) if FIXED.contains(&name) => one,
            (operator::EQUALS, _, [left, right]) => self.equality(left, right),
            _ => None,
        }
    }

    fn contains(&mut self, call: &Call, overload: &str, arg: &Expr) -> Estimated {
        let address = Range::new(4, 16);
        let mut cost = address.plus(address).tenth();
        if call.function == "containsCIDR" {
            cost = cost.plus(address.tenth()).plus(Range::exactly(1));
        }
        if overload.ends_with("_string") {
            cost = cost.plus(self.argument_size(arg).tenth());
        }
        (cost, None)
    }

    /// Going over a list once, or over a text.
    fn list_traversal(&mut self, target: &Expr) -> Range {
        let size = self.argument_size(target);
        let Type::List(items) = self.type_of(target).clone() else { return size.tenth() };
        let mut element = Range::exactly(1);
        if matches!(*items, Type::String | Type::Bytes) {
            element = element.plus(self.element_size(target).tenth());
        }
        size.times(element)
    }

    /// The size of the elements of a list, by its declaration.
    fn element_size(&self, list: &Expr) -> Range {
        let mut path = self.argument_path(list);
        if path.is_empty() {
            return Range::UNKNOWN;
        }
        path.push("@items".to_owned());
        self.declared_size(&path).unwrap_or(Range::UNKNOWN)
    }

    fn join(&mut self, target: &Expr, separator: Option<&Expr>) -> Estimated {
        let count = self.argument_size(target);
        let mut size = match self.type_of(target) {
            Type::List(_) => count.times(self.element_size(target)),
            _ => Range::ZERO,
        };
        if let Some(separator) = separator {
            let between = Range::new(count.min.saturating_sub(1), count.max.saturating_sub(1));
            size = size.plus(self.argument_size(separator).times(between));
        }
        (size.tenth(), Some(size))
    }

    fn replace(&mut self, target: &Expr, old: &Expr, new: &Expr) -> Estimated {
        let (size, old, new) =
            (self.argument_size(target), self.argument_size(old), self.argument_size(new));
        let (mut count, mut kept) = (Range::ZERO, Range::ZERO);
        if old.min == 0 {
            count.max = size.max.saturating_add(1);
            kept.max = size.max;
        } else if new.max <= old.min {
            kept.max = size.max;
        } else {
            count.max = (size.max as f64 / old.min as f64).ceil() as u64;
        }
        if old.max == 0 {
            count.min = size.min.saturating_add(1);
            kept.min = size.min;
        } else if old.max <= new.min {
            kept.min = size.min;
        } else {
            count.min = (size.min as f64 / old.max as f64).ceil() as u64;
        }
        (size.scaled(0.2), Some(count.times(new).plus(kept)))
    }

    /// Values of libraries' types compare at once.
    fn equality(&mut self, left: &Expr, right: &Expr) -> Option<Estimated> {
        let of = self.type_of(left).clone();
        if of != *self.type_of(right) {
            return None;
        }
        if compares_at_once(&of) {
            return Some((Range::exactly(1), None));
        }
        match &of {
            Type::Object(name) if &**name == names::FORMAT => {
                Some((Range::new(1, 64).tenth(), None))
            }
            Type::Object(name) if &**name == names::URL => {
                let size = self.size(right).unwrap_or(Range::exactly(1));
                Some((Range::new(1, size.max).tenth(), None))
            }
            _ => None,
        }
    }

    /// Functions that make lists or go over them pairwise.
    fn list_call(&mut self, call: &Call, overload: &str) -> Option<Estimated> {
        let target = call.target.as_deref();
        let args = call.args.as_slice();
        let text = overload.starts_with("list_string_") || overload.starts_with("list_bytes_");
        let pairwise = if text { 2.1 } else { 2.0 };
        match (call.function.as_str(), target, args) {
            ("slice", Some(target), [start, end]) => {
                let size = self.argument_size(target);
                let count = integer(end, size.max).wrapping_sub(integer(start, 0));
                Some(made(1.0, Range::exactly(count)))
            }
            ("lists.range", None, [count]) => {
                Some(made(1.0, Range::exactly(integer(count, u64::MAX))))
            }
            ("reverse", Some(target), []) => Some(made(1.0, self.argument_size(target))),
            ("flatten", Some(target), args) => {
                let depth = args.first().map_or(1, |depth| integer(depth, u64::MAX));
                Some(made(depth as f64, self.argument_size(target)))
            }
            ("distinct", Some(target), []) => {
                let size = self.argument_size(target);
                Some(made(2.0, size.times(size)))
            }
            ("sort", Some(target), []) => {
                let size = self.argument_size(target);
                Some(made(pairwise, size.times(size)))
            }
            (operator::SORT_BY_KEYS, Some(_), [keys]) => {
                let size = self.argument_size(keys);
                Some(made(pairwise, size.times(size)))
            }
            ("sets.contains" | "sets.intersects" | "sets.equivalent", None, [one, other]) => {
                let factor = if call.function == "sets.equivalent" { 2.0 } else { 1.0 };
                let size = self.argument_size(one).times(self.argument_size(other));
                Some((size.scaled(factor).plus(Range::exactly(1)), None))
            }
            _ => None,
        }
    }
}

/// A call that makes a list.
fn made(factor: f64, size: Range) -> Estimated {
    (size.scaled(factor).plus(Range::exactly(1 + LIST_COST)), Some(size))
}

/// The number that an expression is, if it is in the text.
fn integer(expr: &Expr, otherwise: u64) -> u64 {
    match &expr.kind {
        Kind::Literal(Literal::Int(value)) => u64::try_from(*value).unwrap_or(0),
        _ => otherwise,
    }
}

/// Functions that cost one.
const FIXED: [&str; 27] = [
    "masked",
    "prefixLength",
    "family",
    "isUnspecified",
    "isLoopback",
    "isLinkLocalMulticast",
    "isLinkLocalUnicast",
    "isGlobalUnicast",
    "format.named",
    "sign",
    "asInteger",
    "isInteger",
    "asApproximateFloat",
    "isGreaterThan",
    "isLessThan",
    "compareTo",
    "add",
    "sub",
    "major",
    "minor",
    "patch",
    "getScheme",
    "getHostname",
    "getHost",
    "getPort",
    "getEscapedPath",
    "getQuery",
];
