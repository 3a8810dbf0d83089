//! Admission policies: which writes they are for, and what they say about them.
//!
//! A policy is expressions over a write; a binding says where it applies, with which parameters, and what a failure
//! does. The index follows both. Everything but the index is pure: a write comes in, a decision goes out.

pub mod evaluation;
pub mod expression;
pub mod matching;
mod mutating;
mod validating;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use parking_lot::RwLock;
use serde_json::Value;

pub use mutating::{MutatingPolicy, Mutation};
pub use validating::{Denial, Outcome, ValidatingPolicy};

use crate::object::ObjectExt;
use matching::Match;

/// The API group of policies.
pub const GROUP: &str = "admissionregistration.k8s.io";

/// All policies with their bindings.
#[derive(Default)]
pub struct Policies {
    /// Those that may refuse a write.
    pub validating: Index<ValidatingPolicy>,
    /// Those that may change one.
    pub mutating: Index<MutatingPolicy>,
}

/// Policies of one sort and their bindings, by the names of both.
pub struct Index<P>(RwLock<Entries<P>>);

struct Entries<P> {
    policies: BTreeMap<String, Arc<Entry<P>>>,
    /// By the name of the policy, then by their own.
    bindings: BTreeMap<String, BTreeMap<String, Arc<Binding>>>,
}

/// A policy as it is stored; compiled when it is first needed.
struct Entry<P> {
    object: Value,
    compiled: OnceLock<Arc<P>>,
}

/// What a policy can be made from.
pub trait FromObject {
    /// Compiles a policy.
    fn from_object(object: &Value) -> Self;
}

/// Where a policy applies, and how.
#[derive(Debug)]
pub struct Binding {
    /// The name of the binding.
    pub name: String,
    /// Which requests it narrows the policy to.
    pub matches: Option<Match>,
    /// The objects that parameterize the policy.
    pub params: Option<ParamRef>,
    /// What becomes of a failure: `Deny`, `Warn`, `Audit`.
    pub actions: Vec<String>,
}

/// Where parameters are found.
#[derive(Debug)]
pub struct ParamRef {
    /// The name of the one object, or empty.
    pub name: String,
    /// Its namespace, or empty for that of the request.
    pub namespace: String,
    /// Selects objects where there is no name.
    pub selector: Value,
    /// Whether a write is refused when there are none.
    pub deny_without: bool,
}

impl<P> Default for Index<P> {
    fn default() -> Self {
        Self(RwLock::new(Entries { policies: BTreeMap::new(), bindings: BTreeMap::new() }))
    }
}

impl<P: FromObject> Index<P> {
    /// Takes over the present state of a policy; `None` when it was deleted.
    pub fn put_policy(&self, name: &str, object: Option<Value>) {
        let mut entries = self.0.write();
        match object {
            Some(object) => {
                let entry = Entry { object, compiled: OnceLock::new() };
                entries.policies.insert(name.to_owned(), Arc::new(entry));
            }
            None => drop(entries.policies.remove(name)),
        }
    }

    /// Takes over the present state of a binding; `None` when it was deleted.
    pub fn put_binding(&self, name: &str, object: Option<&Value>) {
        let mut entries = self.0.write();
        entries.bindings.retain(|_, bound| {
            bound.remove(name);
            !bound.is_empty()
        });
        if let Some(object) = object {
            let policy = object.text(&["spec", "policyName"]).to_owned();
            let binding = Arc::new(Binding::new(object));
            entries.bindings.entry(policy).or_default().insert(name.to_owned(), binding);
        }
    }

    /// Every policy that is bound, with its bindings, in the order of names.
    pub fn bound(&self) -> Vec<(Arc<P>, Vec<Arc<Binding>>)> {
        let found: Vec<_> = {
            let entries = self.0.read();
            if entries.bindings.is_empty() {
                return Vec::new();
            }
            let bound = entries.policies.iter().filter_map(|(name, entry)| {
                let bindings = entries.bindings.get(name)?;
                Some((entry.clone(), bindings.values().cloned().collect::<Vec<_>>()))
            });
            bound.collect()
        };
        // Compiled without the lock, as it takes a while.
        let compiled = |entry: &Entry<P>| {
            entry.compiled.get_or_init(|| Arc::new(P::from_object(&entry.object))).clone()
        };
        found.into_iter().map(|(entry, bindings)| (compiled(&entry), bindings)).collect()
    }
}

impl Binding {
    fn new(object: &Value) -> Self {
        let spec = &object["spec"];
        let set = |name: &str| spec.get(name).filter(|value| value.is_object());
        let actions = spec.get("validationActions").and_then(Value::as_array).into_iter().flatten();
        Self {
            name: object.name().to_owned(),
            matches: set("matchResources").map(Match::new),
            params: set("paramRef").map(|reference| ParamRef {
                name: reference.text(&["name"]).to_owned(),
                namespace: reference.text(&["namespace"]).to_owned(),
                selector: reference["selector"].clone(),
                deny_without: reference.text(&["parameterNotFoundAction"]) == "Deny",
            }),
            actions: actions.filter_map(Value::as_str).map(str::to_owned).collect(),
        }
    }
}
