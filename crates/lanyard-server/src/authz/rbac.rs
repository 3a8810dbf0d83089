//! The authorizer: an index of all roles and bindings that answers "may this user do that?".
//!
//! Bindings are indexed by subject, so a question costs a lookup of the user and of each of their
//! groups, however many bindings there are, and a change costs only the subjects of what changed.
//! The server keeps it current from its watch caches; it reads nothing itself.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::{Value, json};

use super::aggregate::aggregated_rules;
use super::rules::{Binding, ClusterRole, PolicyRule, RbacKind, RoleRef, Subject, rules_of};
use super::rules::{GROUP, PRIVILEGED_GROUP};
use super::{Attributes, Decision, Target};
use crate::authn::UserInfo;
use crate::field::quoted;

/// How many different problems a decision names; a user bound to thousands of missing roles gets a
/// readable answer.
const MAX_PROBLEMS: usize = 32;

/// All roles and bindings, ready for questions from many threads.
#[derive(Debug, Default)]
pub struct Rbac {
    index: RwLock<Index>,
}

impl Rbac {
    /// An authorizer that knows no roles: only [`PRIVILEGED_GROUP`] may do anything.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes over the present state of one object; `None` when it was deleted.
    ///
    /// The namespace is empty for the cluster-scoped kinds. It and the name count, not what the
    /// object says of itself.
    pub fn apply(&self, kind: RbacKind, namespace: &str, name: &str, object: Option<&Value>) {
        // Parsed before the lock is taken: readers wait for the swap only.
        match kind {
            RbacKind::Role => {
                let rules = object.map(rules_of);
                self.index.write().put_role(namespace, name, rules);
            }
            RbacKind::ClusterRole => {
                let role = object.map(|object| ClusterRole::from_object(object, name));
                self.index.write().put_cluster_role(name, role);
            }
            RbacKind::RoleBinding | RbacKind::ClusterRoleBinding => {
                let binding = object.map(|object| Binding::from_object(object, namespace, name));
                self.index.write().put_binding(namespace, name, binding);
            }
        }
    }

    /// Whether the request is allowed: the answer of [`authorize`](Self::authorize) without its
    /// texts and without allocating.
    pub fn allows(&self, request: &Attributes<'_>) -> bool {
        is_privileged(request.user) || self.index.read().granting(request, |_| ()).is_some()
    }

    /// Decides, and says why.
    ///
    /// A denial because of missing roles says so in both texts: `reason` goes into the 403 as
    /// upstream words it.
    pub fn authorize(&self, request: &Attributes<'_>) -> Decision {
        if is_privileged(request.user) {
            return Decision { allowed: true, ..Decision::default() };
        }
        let index = self.index.read();
        let mut problems = Problems::default();
        if let Some(binding) = index.granting(request, |missing| problems.add(&missing)) {
            let reason = format!("RBAC: allowed by {}", binding.describe(request.user));
            return Decision { allowed: true, reason, evaluation_error: String::new() };
        }
        let evaluation_error = problems.joined();
        let reason = match evaluation_error.as_str() {
            "" => String::new(),
            error => format!("RBAC: {error}"),
        };
        Decision { allowed: false, reason, evaluation_error }
    }

    /// Every rule that the user holds in the namespace, for SelfSubjectRulesReview.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> RulesReview {
        let index = self.index.read();
        let mut review = RulesReview::default();
        let mut problems = Problems::default();
        for binding in index.bindings_of(user, namespace) {
            match index.resolve(&binding.role, &binding.namespace) {
                Ok(rules) => rules.iter().for_each(|rule| review.add(rule)),
                Err(missing) => problems.add(&missing),
            }
        }
        review.evaluation_error = problems.joined();
        review
    }

    /// The rules that the user holds in the namespace (empty for cluster-wide ones only), and the
    /// roles that could not be found, as a write is told of them.
    pub(super) fn holdings(&self, user: &UserInfo, namespace: &str) -> Holdings {
        let index = self.index.read();
        let mut holdings = Holdings::default();
        let mut problems = Problems::default();
        for binding in index.bindings_of(user, namespace) {
            match index.resolve(&binding.role, &binding.namespace) {
                Ok(rules) => holdings.rules.push(Arc::clone(rules)),
                Err(missing) => problems.add(&missing.as_stored()),
            }
        }
        holdings.problems = problems.joined();
        holdings
    }

    /// The rules behind a `roleRef` in a binding of this namespace; nothing when there is no such
    /// role.
    pub fn role_rules(&self, role: &RoleRef, namespace: &str) -> Option<Arc<[PolicyRule]>> {
        self.index.read().resolve(role, namespace).ok().cloned()
    }

    /// The aggregated cluster roles whose rules are out of date, with the rules they should have.
    ///
    /// To be written back, and asked again after each change of a cluster role: `view` feeds
    /// `edit`, which feeds `admin`.
    pub fn stale_aggregates(&self) -> Vec<(String, Vec<PolicyRule>)> {
        let index = self.index.read();
        let all = &index.cluster_roles;
        let stale = all.values().filter_map(|role| {
            aggregated_rules(role, all.values()).map(|rules| (role.name.clone(), rules))
        });
        stale.collect()
    }
}

/// Whether the user belongs to the group that is above all rules.
pub fn is_privileged(user: &UserInfo) -> bool {
    user.groups.iter().any(|group| group == PRIVILEGED_GROUP)
}

/// What a user may do in a namespace, as SelfSubjectRulesReview lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RulesReview {
    /// Rules on resources.
    pub resource_rules: Vec<PolicyRule>,
    /// Rules on other paths.
    pub non_resource_rules: Vec<PolicyRule>,
    /// Whether there may be rights that cannot be listed; never with RBAC alone.
    pub incomplete: bool,
    /// The roles that could not be found.
    pub evaluation_error: String,
}

impl RulesReview {
    /// The `status` of a SelfSubjectRulesReview.
    pub fn to_status(&self) -> Value {
        let listed =
            |rules: &[PolicyRule]| rules.iter().map(PolicyRule::to_value).collect::<Value>();
        let mut status = json!({
            "resourceRules": listed(&self.resource_rules),
            "nonResourceRules": listed(&self.non_resource_rules),
            "incomplete": self.incomplete,
        });
        if !self.evaluation_error.is_empty() {
            status["evaluationError"] = self.evaluation_error.as_str().into();
        }
        status
    }

    fn add(&mut self, rule: &PolicyRule) {
        if !rule.resources.is_empty() {
            let rule = PolicyRule { non_resource_urls: Vec::new(), ..rule.clone() };
            self.resource_rules.push(rule);
        }
        if !rule.non_resource_urls.is_empty() {
            let (verbs, urls) = (rule.verbs.clone(), rule.non_resource_urls.clone());
            let rule = PolicyRule { verbs, non_resource_urls: urls, ..PolicyRule::default() };
            self.non_resource_rules.push(rule);
        }
    }
}

/// What a user holds, for the check that nobody hands out more.
#[derive(Debug, Default)]
pub(super) struct Holdings {
    pub(super) rules: Vec<Arc<[PolicyRule]>>,
    pub(super) problems: String,
}

/// A `roleRef` that leads nowhere.
#[derive(Clone, Copy, Debug)]
struct MissingRole<'a> {
    role: &'a RoleRef,
    /// Upstream's authorizer says `clusterrole`, its registry `clusterroles`.
    plural: bool,
}

impl MissingRole<'_> {
    fn as_stored(self) -> Self {
        Self { plural: true, ..self }
    }
}

impl fmt::Display for MissingRole<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, name) = (quoted(&self.role.kind), quoted(&self.role.name));
        let resource = match (self.role.role_kind(), self.plural) {
            (None, _) => return write!(f, "unsupported role reference kind: {kind}"),
            (Some(kind), true) => kind.resource(),
            (Some(RbacKind::Role), false) => "role",
            (Some(_), false) => "clusterrole",
        };
        write!(f, "{resource}.{GROUP} {name} not found")
    }
}

/// Problems met on the way to a decision: each once, and not too many.
#[derive(Debug, Default)]
struct Problems {
    texts: Vec<String>,
    omitted: bool,
}

impl Problems {
    fn add(&mut self, problem: &impl fmt::Display) {
        let text = problem.to_string();
        if self.texts.contains(&text) {
            return;
        }
        if self.texts.len() < MAX_PROBLEMS {
            self.texts.push(text);
        } else {
            self.omitted = true;
        }
    }

    fn joined(mut self) -> String {
        if self.omitted {
            self.texts.push("and more".into());
        }
        match self.texts.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        }
    }
}

#[derive(Debug, Default)]
struct Index {
    cluster_roles: BTreeMap<String, ClusterRole>,
    cluster_bindings: Bindings,
    namespaces: HashMap<String, Namespace>,
}

#[derive(Debug, Default)]
struct Namespace {
    roles: HashMap<String, Arc<[PolicyRule]>>,
    bindings: Bindings,
}

impl Index {
    /// The first binding that allows the request; each binding whose role is missing is reported.
    fn granting<'i>(
        &'i self,
        request: &Attributes<'_>,
        mut missing: impl FnMut(MissingRole<'i>),
    ) -> Option<&'i Binding> {
        let namespace = match request.target {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        };
        let bindings = self.scopes(namespace).flat_map(|scope| scope.of(request.user));
        for binding in bindings {
            match self.resolve(&binding.role, &binding.namespace) {
                Ok(rules) if rules.iter().any(|rule| rule.allows(request)) => return Some(binding),
                Ok(_) => {}
                Err(role) => missing(role),
            }
        }
        None
    }

    /// The user's bindings, cluster-wide ones first, in order of name and each once.
    fn bindings_of(&self, user: &UserInfo, namespace: &str) -> Vec<&Binding> {
        let mut all = Vec::new();
        for scope in self.scopes(namespace) {
            let mut here: Vec<&Binding> = scope.of(user).collect();
            here.sort_by(|a, b| a.name.cmp(&b.name));
            here.dedup_by(|a, b| a.name == b.name);
            all.append(&mut here);
        }
        all
    }

    /// The bindings that count in a namespace: those of the cluster, then its own.
    fn scopes(&self, namespace: &str) -> impl Iterator<Item = &Bindings> {
        let own = match namespace {
            "" => None,
            namespace => self.namespaces.get(namespace),
        };
        std::iter::once(&self.cluster_bindings).chain(own.map(|own| &own.bindings))
    }

    fn resolve<'i, 'r>(
        &'i self,
        role: &'r RoleRef,
        namespace: &str,
    ) -> Result<&'i Arc<[PolicyRule]>, MissingRole<'r>> {
        let rules = match role.role_kind() {
            Some(RbacKind::ClusterRole) => {
                self.cluster_roles.get(&role.name).map(|role| &role.rules)
            }
            Some(_) => self.namespaces.get(namespace).and_then(|own| own.roles.get(&role.name)),
            None => None,
        };
        rules.ok_or(MissingRole { role, plural: false })
    }

    fn put_role(&mut self, namespace: &str, name: &str, rules: Option<Arc<[PolicyRule]>>) {
        self.in_namespace(namespace, |own| match rules {
            Some(rules) => drop(own.roles.insert(name.to_owned(), rules)),
            None => drop(own.roles.remove(name)),
        });
    }

    fn put_cluster_role(&mut self, name: &str, role: Option<ClusterRole>) {
        match role {
            Some(role) => drop(self.cluster_roles.insert(name.to_owned(), role)),
            None => drop(self.cluster_roles.remove(name)),
        }
    }

    fn put_binding(&mut self, namespace: &str, name: &str, binding: Option<Binding>) {
        match namespace {
            "" => self.cluster_bindings.put(name, binding),
            namespace => self.in_namespace(namespace, |own| own.bindings.put(name, binding)),
        }
    }

    /// Changes a namespace; an empty one leaves nothing behind.
    fn in_namespace(&mut self, namespace: &str, change: impl FnOnce(&mut Namespace)) {
        let own = self.namespaces.entry(namespace.to_owned()).or_default();
        change(own);
        if own.roles.is_empty() && own.bindings.by_name.is_empty() {
            self.namespaces.remove(namespace);
        }
    }
}

/// The bindings of one scope, found by whom they bind.
#[derive(Debug, Default)]
struct Bindings {
    by_name: HashMap<String, Arc<Binding>>,
    by_user: HashMap<String, Vec<Arc<Binding>>>,
    by_group: HashMap<String, Vec<Arc<Binding>>>,
}

impl Bindings {
    /// The user's bindings; one that binds them twice may come twice.
    fn of<'i>(&'i self, user: &UserInfo) -> impl Iterator<Item = &'i Binding> {
        let by_group = user.groups.iter().filter_map(|group| self.by_group.get(group));
        let found = self.by_user.get(&user.name).into_iter().chain(by_group);
        found.flatten().map(|binding| &**binding)
    }

    fn put(&mut self, name: &str, binding: Option<Binding>) {
        if let Some(old) = self.by_name.remove(name) {
            self.unlink(&old);
        }
        if let Some(binding) = binding {
            let binding = Arc::new(binding);
            self.link(&binding);
            self.by_name.insert(name.to_owned(), binding);
        }
    }

    fn link(&mut self, binding: &Arc<Binding>) {
        for subject in &binding.subjects {
            let (map, key) = self.entry_of(subject);
            let list = map.entry(key.to_owned()).or_default();
            // Sorted by name, so that decisions do not depend on the order of arrival.
            if let Err(at) = list.binary_search_by(|other| other.name.cmp(&binding.name)) {
                list.insert(at, Arc::clone(binding));
            }
        }
    }

    fn unlink(&mut self, binding: &Binding) {
        for subject in &binding.subjects {
            let (map, key) = self.entry_of(subject);
            let Some(list) = map.get_mut(key) else {
                continue;
            };
            if let Ok(at) = list.binary_search_by(|other| other.name.cmp(&binding.name)) {
                list.remove(at);
            }
            if list.is_empty() {
                map.remove(key);
            }
        }
    }

    fn entry_of<'m, 's>(
        &'m mut self,
        subject: &'s Subject,
    ) -> (&'m mut HashMap<String, Vec<Arc<Binding>>>, &'s str) {
        match subject {
            Subject::User(name) => (&mut self.by_user, name),
            Subject::ServiceAccount { username, .. } => (&mut self.by_user, username),
            Subject::Group(name) => (&mut self.by_group, name),
        }
    }
}
