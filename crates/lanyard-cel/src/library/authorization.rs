//! Checks of what a user may do. The host answers them.

use std::fmt;
use std::sync::Arc;

use super::{Function, Inner, Opaque, named_format};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Value;

/// Answers what the user of a request, or a service account, may do.
pub trait Authorizer: Send + Sync {
    /// Whether the access is allowed.
    fn authorize(&self, check: &AccessCheck) -> AccessDecision;
}

/// An access that is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessCheck {
    /// The namespace and name of the service account that is asked for, instead of the user of the request.
    pub service_account: Option<(String, String)>,
    /// What is to be done.
    pub verb: String,
    /// With what.
    pub target: AccessTarget,
}

/// What an access is to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessTarget {
    /// A path that is no resource.
    Path(String),
    /// A resource.
    Resource {
        /// The API group.
        group: String,
        /// The resource, in the plural.
        resource: String,
        /// The subresource, or empty.
        subresource: String,
        /// The namespace, or empty.
        namespace: String,
        /// The name of one object, or empty.
        name: String,
        /// A selector of fields that narrows the access, or empty.
        field_selector: String,
        /// A selector of labels that narrows the access, or empty.
        label_selector: String,
    },
}

/// The answer to a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessDecision {
    /// Whether the access is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong while it was decided.
    pub error: Option<String>,
}

/// An authorizer and for whom it is asked.
#[derive(Clone)]
pub(crate) struct Identity {
    authorizer: Arc<dyn Authorizer>,
    service_account: Option<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct PathCheck {
    identity: Identity,
    path: String,
}

#[derive(Debug)]
pub(crate) struct GroupCheck {
    identity: Identity,
    group: String,
}

#[derive(Debug)]
pub(crate) struct ResourceCheck {
    pub(super) identity: Identity,
    pub(super) target: AccessTarget,
}

impl Identity {
    pub(super) fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer, service_account: None }
    }

    fn decide<'a>(&self, verb: &str, target: AccessTarget) -> Value<'a> {
        let check = AccessCheck {
            service_account: self.service_account.clone(),
            verb: verb.to_owned(),
            target,
        };
        Inner::Decision(Arc::new(self.authorizer.authorize(&check))).into()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("service_account", &self.service_account)
            .finish_non_exhaustive()
    }
}

pub(super) fn function(name: &str) -> Option<Function> {
    Some(match name {
        "path" => path,
        "group" => group,
        "serviceAccount" => service_account,
        "resource" => resource,
        "subresource" => |_, args| narrow("subresource", args),
        "namespace" => |_, args| narrow("namespace", args),
        "name" => |_, args| narrow("name", args),
        "fieldSelector" => |_, args| narrow("fieldSelector", args),
        "labelSelector" => |_, args| narrow("labelSelector", args),
        "check" => check,
        "allowed" => |_, args| decision("allowed", args, |decision| Value::Bool(decision.allowed)),
        "reason" => {
            |_, args| decision("reason", args, |decision| Value::string(decision.reason.as_str()))
        }
        "errored" => {
            |_, args| decision("errored", args, |decision| Value::Bool(decision.error.is_some()))
        }
        "error" => |_, args| {
            decision("error", args, |decision| {
                Value::string(decision.error.as_deref().unwrap_or_default())
            })
        },
        _ => return None,
    })
}

fn path<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::Opaque(Opaque(Inner::Authorizer(identity))), Value::String(path)] = args else {
        return Err(EvalError::no_overload("path", args));
    };
    if path.trim().is_empty() {
        return Err(EvalError::new("path must not be empty"));
    }
    Ok(Inner::PathCheck(Arc::new(PathCheck { identity: identity.clone(), path: path.to_string() }))
        .into())
}

fn group<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::Opaque(Opaque(Inner::Authorizer(identity))), Value::String(group)] = args else {
        return Err(EvalError::no_overload("group", args));
    };
    Ok(Inner::GroupCheck(Arc::new(GroupCheck {
        identity: identity.clone(),
        group: group.to_string(),
    }))
    .into())
}

fn service_account<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [
        Value::Opaque(Opaque(Inner::Authorizer(identity))),
        Value::String(namespace),
        Value::String(name),
    ] = args
    else {
        return Err(EvalError::no_overload("serviceAccount", args));
    };
    if !named_format::is_subdomain(name) {
        return Err(EvalError::new("Invalid service account name"));
    }
    if !named_format::is_label(namespace) {
        return Err(EvalError::new("Invalid service account namespace"));
    }
    let service_account = Some((namespace.to_string(), name.to_string()));
    Ok(Inner::Authorizer(Identity { authorizer: identity.authorizer.clone(), service_account })
        .into())
}

fn resource<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::Opaque(Opaque(Inner::GroupCheck(group))), Value::String(resource)] = args else {
        return Err(EvalError::no_overload("resource", args));
    };
    if resource.trim().is_empty() {
        return Err(EvalError::new("resource must not be empty"));
    }
    let target = AccessTarget::Resource {
        group: group.group.clone(),
        resource: resource.to_string(),
        subresource: String::new(),
        namespace: String::new(),
        name: String::new(),
        field_selector: String::new(),
        label_selector: String::new(),
    };
    Ok(Inner::ResourceCheck(Arc::new(ResourceCheck { identity: group.identity.clone(), target }))
        .into())
}

/// Sets one part of what a check is about.
fn narrow<'a>(part: &str, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    let [Value::Opaque(Opaque(Inner::ResourceCheck(check))), Value::String(text)] = args else {
        return Err(EvalError::no_overload(part, args));
    };
    let mut narrowed = check.target.clone();
    if let AccessTarget::Resource {
        subresource,
        namespace,
        name,
        field_selector,
        label_selector,
        ..
    } = &mut narrowed
    {
        let place = match part {
            "subresource" => subresource,
            "namespace" => namespace,
            "name" => name,
            "fieldSelector" => field_selector,
            _ => label_selector,
        };
        *place = text.to_string();
    }
    let check = ResourceCheck { identity: check.identity.clone(), target: narrowed };
    Ok(Inner::ResourceCheck(Arc::new(check)).into())
}

fn check<'a>(_: &mut Meter, args: &[Value<'a>]) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Opaque(Opaque(Inner::PathCheck(check))), Value::String(verb)] => {
            Ok(check.identity.decide(verb, AccessTarget::Path(check.path.clone())))
        }
        [Value::Opaque(Opaque(Inner::ResourceCheck(check))), Value::String(verb)] => {
            Ok(check.identity.decide(verb, check.target.clone()))
        }
        _ => Err(EvalError::no_overload("check", args)),
    }
}

fn decision<'a>(
    name: &str,
    args: &[Value<'a>],
    pick: fn(&AccessDecision) -> Value<'a>,
) -> Result<Value<'a>, EvalError> {
    match args {
        [Value::Opaque(Opaque(Inner::Decision(decision)))] => Ok(pick(decision)),
        _ => Err(EvalError::no_overload(name, args)),
    }
}
