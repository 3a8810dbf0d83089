//! Whether one type fits another, and what unknown types thereby become.
//!
//! Upstream copies all it knows before each attempt; here an attempt that fails is undone from a trail. Types can
//! share parts so that written out they are far larger than the text that made them, so the work is counted and ends.

use std::sync::Arc;

use crate::types::Type;

/// What unknown types were found to be.
#[derive(Debug, Default)]
pub(crate) struct Unifier {
    bindings: Vec<Option<Type>>,
    trail: Vec<(u32, Option<Type>)>,
    work: u64,
}

impl Unifier {
    /// A new unknown type.
    pub(crate) fn fresh(&mut self) -> Type {
        self.bindings.push(None);
        Type::Param(self.bindings.len() as u32 - 1)
    }

    /// Makes so many unknown types and gives the number of the first.
    pub(crate) fn reserve(&mut self, count: u32) -> u32 {
        let first = self.bindings.len() as u32;
        self.bindings.resize(self.bindings.len() + count as usize, None);
        first
    }

    /// Whether more was to do than any sensible expression needs.
    pub(crate) fn exhausted(&self) -> bool {
        self.work > MAX_WORK
    }

    /// Whether each of the first types fits its counterpart. If not, nothing is learnt.
    pub(crate) fn assignable<'a>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'a Type, &'a Type)>,
    ) -> bool {
        self.trail.clear();
        let fits = pairs.into_iter().all(|(from, to)| self.fits(from, to));
        if !fits {
            while let Some((number, before)) = self.trail.pop() {
                self.bindings[number as usize] = before;
            }
        }
        fits
    }

    /// A type with what is known put in. What is unknown stays, or becomes dynamic.
    pub(crate) fn substitute(&mut self, of: &Type, to_dyn: bool) -> Type {
        if self.spent() {
            return Type::Dyn;
        }
        match of {
            Type::Param(number) => match self.bindings[*number as usize].clone() {
                Some(bound) => self.substitute(&bound, to_dyn),
                None if to_dyn => Type::Dyn,
                None => of.clone(),
            },
            Type::List(items) => Type::list(self.substitute(items, to_dyn)),
            Type::Map(map) => {
                Type::map(self.substitute(&map.0, to_dyn), self.substitute(&map.1, to_dyn))
            }
            Type::Optional(inner) => Type::optional(self.substitute(inner, to_dyn)),
            Type::Type(Some(inner)) => Type::Type(Some(Arc::new(self.substitute(inner, to_dyn)))),
            other => other.clone(),
        }
    }

    fn spent(&mut self) -> bool {
        self.work += 1;
        self.exhausted()
    }

    fn bind(&mut self, number: u32, to: Type) {
        let before = self.bindings[number as usize].replace(to);
        self.trail.push((number, before));
    }

    fn fits(&mut self, from: &Type, to: &Type) -> bool {
        if self.spent() {
            return false;
        }
        if let Type::Param(number) = to {
            let (valid, bound) = self.substitutes(from, *number);
            if valid || bound {
                return valid;
            }
        }
        if let Type::Param(number) = from {
            return self.substitutes(to, *number).0;
        }
        if from.is_dyn_or_error() || to.is_dyn_or_error() {
            return true;
        }
        match (from, to) {
            (Type::Null, other) | (other, Type::Null) => nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
                self.fits(a, b)
            }
            (Type::Map(a), Type::Map(b)) => self.fits(&a.0, &b.0) && self.fits(&a.1, &b.1),
            (a, b) => a == b,
        }
    }

    /// Whether a type can stand for an unknown one, and whether that was known to be something already.
    fn substitutes(&mut self, candidate: &Type, number: u32) -> (bool, bool) {
        if *candidate == Type::Param(number) {
            return (true, true);
        }
        if let Some(bound) = self.bindings[number as usize].clone() {
            if *candidate == bound {
                return (true, true);
            }
            if !self.fits(candidate, &bound) {
                return (false, true);
            }
            let general = most_general(candidate, &bound).clone();
            if self.absent(number, &general) {
                self.bind(number, general);
            }
            return (true, true);
        }
        if self.absent(number, candidate) {
            self.bind(number, candidate.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether an unknown type is not part of another type, which would then be infinite.
    fn absent(&mut self, number: u32, within: &Type) -> bool {
        if self.spent() {
            return false;
        }
        match within {
            Type::Param(other) if *other == number => false,
            Type::Param(other) => match self.bindings[*other as usize].clone() {
                Some(bound) => self.absent(number, &bound),
                None => true,
            },
            other => other.parameters().into_iter().flatten().all(|part| self.absent(number, part)),
        }
    }
}

/// The type with more unknown or dynamic parts, of two that fit.
pub(crate) fn most_general<'a>(one: &'a Type, other: &'a Type) -> &'a Type {
    if less_specific(one, other) { one } else { other }
}

fn less_specific(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => {
            less_specific(a, b)
        }
        (Type::Map(a), Type::Map(b)) => less_specific(&a.0, &b.0) && less_specific(&a.1, &b.1),
        (Type::Type(_), Type::Type(_)) => true,
        (a, b) => a == b,
    }
}

/// Types that `null` fits, as in upstream's checker.
fn nullable(of: &Type) -> bool {
    matches!(
        of,
        Type::Null
            | Type::Object(_)
            | Type::Opaque(_)
            | Type::Optional(_)
            | Type::Duration
            | Type::Timestamp
    )
}

/// Steps for a whole expression. The longest text that the parser takes needs some two million.
const MAX_WORK: u64 = 10_000_000;
