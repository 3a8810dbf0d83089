//! The functions that expressions call, by name.
//!
//! One file per subject. A function gets its arguments, the target first, and refuses those that it is not for: the
//! checker has seen types, but dynamic values can be anything.

mod authorization;
mod convert;
mod format;
mod lists;
mod named_format;
mod net;
mod operators;
mod optional;
mod quantity;
pub(crate) mod regex;
mod semver;
mod strings;
mod times;
mod url;

use std::sync::Arc;

pub use authorization::{AccessCheck, AccessDecision, AccessTarget, Authorizer};
pub(crate) use format::{check_format, literal_format};
pub(crate) use regex::compile as compile_regex;

use crate::declarations::overloads;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::types::names;
use crate::value::Value;

/// A function over values.
pub(crate) type Function = for<'a> fn(&mut Meter, &[Value<'a>]) -> Result<Value<'a>, EvalError>;

/// A value of a library.
#[derive(Debug, Clone)]
pub struct Opaque(pub(crate) Inner);

#[derive(Debug, Clone)]
pub(crate) enum Inner {
    Quantity(quantity::Quantity),
    Semver(Arc<semver::Semver>),
    Url(Arc<url::Url>),
    Ip(std::net::IpAddr),
    Cidr(net::Cidr),
    Format(&'static named_format::NamedFormat),
    Authorizer(authorization::Identity),
    PathCheck(Arc<authorization::PathCheck>),
    GroupCheck(Arc<authorization::GroupCheck>),
    ResourceCheck(Arc<authorization::ResourceCheck>),
    Decision(Arc<AccessDecision>),
}

impl Opaque {
    /// The authorizer of a request's user, for a variable of type `kubernetes.authorization.Authorizer`.
    pub fn authorizer(authorizer: Arc<dyn Authorizer>) -> Self {
        Self(Inner::Authorizer(authorization::Identity::new(authorizer)))
    }

    /// A check of the resource that a request is for, as `authorizer.requestResource` is.
    pub fn resource_check(authorizer: Arc<dyn Authorizer>, target: AccessTarget) -> Self {
        let identity = authorization::Identity::new(authorizer);
        Self(Inner::ResourceCheck(Arc::new(authorization::ResourceCheck { identity, target })))
    }

    /// The name of the value's type.
    pub fn type_name(&self) -> &'static str {
        match &self.0 {
            Inner::Quantity(_) => names::QUANTITY,
            Inner::Semver(_) => names::SEMVER,
            Inner::Url(_) => names::URL,
            Inner::Ip(_) => names::IP,
            Inner::Cidr(_) => names::CIDR,
            Inner::Format(_) => names::FORMAT,
            Inner::Authorizer(_) => names::AUTHORIZER,
            Inner::PathCheck(_) => names::PATH_CHECK,
            Inner::GroupCheck(_) => names::GROUP_CHECK,
            Inner::ResourceCheck(_) => names::RESOURCE_CHECK,
            Inner::Decision(_) => names::DECISION,
        }
    }

    pub(crate) fn size(&self) -> u64 {
        match &self.0 {
            Inner::Ip(address) => net::width(address) / 8,
            Inner::Cidr(cidr) => u64::from(cidr.bits()).div_ceil(8),
            _ => 1,
        }
    }

    pub(crate) fn equals(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Inner::Quantity(a), Inner::Quantity(b)) => a == b,
            (Inner::Semver(a), Inner::Semver(b)) => a.compare(b).is_eq(),
            (Inner::Url(a), Inner::Url(b)) => a == b,
            (Inner::Ip(a), Inner::Ip(b)) => a == b,
            (Inner::Cidr(a), Inner::Cidr(b)) => a == b,
            (Inner::Format(a), Inner::Format(b)) => a.name == b.name,
            _ => false,
        }
    }
}

impl<'a> From<Inner> for Value<'a> {
    fn from(inner: Inner) -> Self {
        Value::Opaque(Opaque(inner))
    }
}

/// A function by name, with the name as it is in the table of declarations.
pub(crate) fn function(name: &str) -> Option<(&'static str, Function)> {
    let (name, _) = overloads(name)?;
    let tables: [fn(&str) -> Option<Function>; 13] = [
        operators::function,
        convert::function,
        strings::function,
        lists::function,
        optional::function,
        times::function,
        regex::function,
        url::function,
        net::function,
        quantity::function,
        semver::function,
        named_format::function,
        authorization::function,
    ];
    tables.into_iter().find_map(|table| table(name)).map(|function| (name, function))
}

/// How long the expression of a named format counts as.
pub(crate) fn format_size(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Opaque(Opaque(Inner::Format(format))) => Some(format.cost),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::operator;

    #[test]
    fn every_declared_function_is_there() {
        // These are steps of their own.
        let steps = [
            operator::AND,
            operator::OR,
            operator::EQUALS,
            operator::NOT_EQUALS,
            operator::CONDITIONAL,
            operator::INDEX,
            operator::OPT_INDEX,
            operator::OPT_SELECT,
            operator::MAP_INSERT,
            "or",
            "orValue",
        ];
        for line in include_str!("../functions.decl").lines().filter(|line| !line.starts_with('#'))
        {
            let name = line.split('\t').next().unwrap();
            assert!(steps.contains(&name) || function(name).is_some(), "{name}");
        }
    }
}
