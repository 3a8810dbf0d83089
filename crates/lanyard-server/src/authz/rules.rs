//! Roles, bindings and their rules as the authorizer reads them, and when a rule allows a request.
//!
//! Objects come in as JSON that passed validation. What still does not parse never widens access: a
//! rule with an oddly typed field is dropped whole (reading `resourceNames: "x"` as "no names"
//! would grant every name), a subject of an unknown kind matches nobody. Matching follows
//! upstream's `pkg/apis/rbac/v1/evaluation_helpers.go`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Attributes, Target};
use crate::authn::UserInfo;
use crate::field::quoted;
use crate::object::ObjectExt;
use crate::selector::LabelSelector;

/// The API group of the four RBAC kinds.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// The group whose members are always allowed everything, before any role is looked at.
pub const PRIVILEGED_GROUP: &str = "system:masters";

/// The four kinds that decide who may do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RbacKind {
    /// Rules for one namespace.
    Role,
    /// Rules for the cluster, or for any namespace that binds them.
    ClusterRole,
    /// Subjects that hold a role in one namespace.
    RoleBinding,
    /// Subjects that hold a cluster role everywhere.
    ClusterRoleBinding,
}

impl RbacKind {
    /// The kind as objects name it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Role => "Role",
            Self::ClusterRole => "ClusterRole",
            Self::RoleBinding => "RoleBinding",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
        }
    }

    /// The resource as paths name it.
    pub fn resource(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRoleBinding => "clusterrolebindings",
        }
    }

    /// The RBAC kind behind a resource of [`GROUP`].
    pub fn from_resource(resource: &str) -> Option<Self> {
        let all = [Self::Role, Self::ClusterRole, Self::RoleBinding, Self::ClusterRoleBinding];
        all.into_iter().find(|kind| kind.resource() == resource)
    }
}

/// One rule: these verbs on these resources, or on these paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PolicyRule {
    /// The verbs; `*` is every verb.
    pub verbs: Vec<String>,
    /// The API groups; `*` is every group.
    pub api_groups: Vec<String>,
    /// `res`, `res/sub`, `*/sub`, or `*` for everything.
    pub resources: Vec<String>,
    /// Object names; none means every name.
    pub resource_names: Vec<String>,
    /// Paths outside the resource API, exact or ending in `*`.
    pub non_resource_urls: Vec<String>,
}

impl PolicyRule {
    /// Reads a rule; nothing when a field has the wrong type.
    pub fn from_value(value: &Value) -> Option<Self> {
        let fields = value.as_object()?;
        Some(Self {
            verbs: strings(fields, "verbs")?,
            api_groups: strings(fields, "apiGroups")?,
            resources: strings(fields, "resources")?,
            resource_names: strings(fields, "resourceNames")?,
            non_resource_urls: strings(fields, "nonResourceURLs")?,
        })
    }

    /// The rule as JSON; `verbs` is always there, empty lists are left out.
    pub fn to_value(&self) -> Value {
        let mut fields = Map::new();
        fields.insert("verbs".into(), self.verbs.clone().into());
        let optional = [
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ];
        for (name, list) in optional {
            if !list.is_empty() {
                fields.insert(name.into(), list.clone().into());
            }
        }
        Value::Object(fields)
    }

    /// Whether this rule alone allows the request.
    pub fn allows(&self, request: &Attributes<'_>) -> bool {
        if !has_or_star(&self.verbs, request.verb) {
            return false;
        }
        match request.target {
            Target::Resource { group, resource, subresource, name, .. } => {
                has_or_star(&self.api_groups, group)
                    && self.names_resource(resource, subresource)
                    && self.names_object(name)
            }
            Target::Path(path) => self.names_path(path),
        }
    }

    fn names_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|rule| match (rule.as_str(), subresource) {
            ("*", _) => true,
            (rule, "") => rule == resource,
            (rule, _) => [resource, "*"].into_iter().any(|parent| {
                let sub = rule.strip_prefix(parent).and_then(|rest| rest.strip_prefix('/'));
                sub == Some(subresource)
            }),
        })
    }

    /// A request without a name (create, list) matches only a rule that is not limited to names.
    fn names_object(&self, name: &str) -> bool {
        self.resource_names.is_empty() || self.resource_names.iter().any(|rule| rule == name)
    }

    fn names_path(&self, path: &str) -> bool {
        self.non_resource_urls.iter().any(|rule| url_covers(rule, path))
    }
}

/// Whether the path pattern `rule` includes `path`, which may itself end in `*`.
pub(super) fn url_covers(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}

/// A ClusterRole: rules for any scope, perhaps gathered from other cluster roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterRole {
    /// Its name.
    pub name: String,
    /// Its labels, by which aggregation finds it.
    pub labels: BTreeMap<String, String>,
    /// What it allows now.
    pub rules: Arc<[PolicyRule]>,
    /// Where its rules come from.
    pub aggregation: Aggregation,
}

/// Where the rules of a ClusterRole come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// They are its own.
    Own,
    /// They are gathered from the cluster roles that any of these selects.
    From(Vec<LabelSelector>),
    /// The `aggregationRule` cannot be read: the role keeps what it has.
    Unreadable,
}

impl ClusterRole {
    /// Reads a ClusterRole object.
    pub fn from_object(object: &Value, name: &str) -> Self {
        let labels = object.labels().into_iter().map(|(k, v)| (k.to_owned(), v.to_owned()));
        Self {
            name: name.to_owned(),
            labels: labels.collect(),
            rules: rules_of(object),
            aggregation: aggregation_of(object),
        }
    }
}

/// A RoleBinding or ClusterRoleBinding: who holds which role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The namespace, or empty for a ClusterRoleBinding.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The role that it hands out.
    pub role: RoleRef,
    /// Who receives it; subjects that can match nobody are left out.
    pub subjects: Vec<Subject>,
}

impl Binding {
    /// Reads a RoleBinding, or a ClusterRoleBinding when the namespace is empty.
    pub fn from_object(object: &Value, namespace: &str, name: &str) -> Self {
        let subjects = object.get("subjects").and_then(Value::as_array);
        let subjects = subjects.into_iter().flatten();
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            role: RoleRef::from_binding(object),
            subjects: subjects.filter_map(|s| Subject::from_value(s, namespace)).collect(),
        }
    }

    /// The first subject that the user is.
    pub fn subject_of(&self, user: &UserInfo) -> Option<&Subject> {
        self.subjects.iter().find(|subject| subject.is(user))
    }

    /// The binding in the words of an access decision.
    pub fn describe(&self, user: &UserInfo) -> String {
        let (kind, name) = match self.namespace.as_str() {
            "" => (RbacKind::ClusterRoleBinding, quoted(&self.name)),
            namespace => (RbacKind::RoleBinding, quoted(&format!("{}/{namespace}", self.name))),
        };
        let (role, role_name) = (&self.role.kind, quoted(&self.role.name));
        let subject = self.subject_of(user).map(Subject::to_string).unwrap_or_default();
        format!("{} {name} of {role} {role_name} to {subject}", kind.kind())
    }
}

/// The role that a binding names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleRef {
    /// The API group.
    pub group: String,
    /// `Role` or `ClusterRole`.
    pub kind: String,
    /// The role's name.
    pub name: String,
}

impl RoleRef {
    /// Reads the `roleRef` of a binding.
    pub fn from_binding(object: &Value) -> Self {
        let group = match object.text(&["roleRef", "apiGroup"]) {
            "" => GROUP,
            group => group,
        };
        Self {
            group: group.to_owned(),
            kind: object.text(&["roleRef", "kind"]).to_owned(),
            name: object.text(&["roleRef", "name"]).to_owned(),
        }
    }

    /// Which kind of role is meant; nothing for a kind that cannot be bound.
    pub fn role_kind(&self) -> Option<RbacKind> {
        match self.kind.as_str() {
            "Role" => Some(RbacKind::Role),
            "ClusterRole" => Some(RbacKind::ClusterRole),
            _ => None,
        }
    }
}

/// Someone a role is given to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A user by exact name.
    User(String),
    /// Every member of a group.
    Group(String),
    /// A service account.
    ServiceAccount {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The user name that it authenticates as.
        username: String,
    },
}

impl Subject {
    /// Reads a subject; nothing when it can match nobody.
    fn from_value(value: &Value, binding_namespace: &str) -> Option<Self> {
        let name = value.text(&["name"]).to_owned();
        match value.text(&["kind"]) {
            "User" => Some(Self::User(name)),
            "Group" => Some(Self::Group(name)),
            "ServiceAccount" => {
                let namespace = match value.text(&["namespace"]) {
                    "" => binding_namespace,
                    own => own,
                };
                if namespace.is_empty() {
                    return None;
                }
                let username = format!("system:serviceaccount:{namespace}:{name}");
                Some(Self::ServiceAccount { namespace: namespace.to_owned(), name, username })
            }
            _ => None,
        }
    }

    /// Whether the user is this subject.
    pub fn is(&self, user: &UserInfo) -> bool {
        match self {
            Self::User(name) | Self::ServiceAccount { username: name, .. } => *name == user.name,
            Self::Group(group) => user.groups.contains(group),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "User {}", quoted(name)),
            Self::Group(name) => write!(f, "Group {}", quoted(name)),
            Self::ServiceAccount { namespace, name, .. } => {
                write!(f, "ServiceAccount {}", quoted(&format!("{name}/{namespace}")))
            }
        }
    }
}

/// Whether the list has `item` or the wildcard.
pub(super) fn has_or_star(list: &[String], item: &str) -> bool {
    list.iter().any(|have| have == "*" || have == item)
}

/// The readable rules of a role object.
pub(super) fn rules_of(object: &Value) -> Arc<[PolicyRule]> {
    let rules = object.get("rules").and_then(Value::as_array);
    rules.into_iter().flatten().filter_map(PolicyRule::from_value).collect()
}

fn aggregation_of(object: &Value) -> Aggregation {
    let Some(rule) = object.get("aggregationRule").filter(|rule| !rule.is_null()) else {
        return Aggregation::Own;
    };
    let selectors = match rule.get("clusterRoleSelectors") {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(selectors)) => selectors.iter().map(LabelSelector::from_object).collect(),
        Some(_) => None,
    };
    selectors.map_or(Aggregation::Unreadable, Aggregation::From)
}

/// A list of strings; empty when missing, nothing when it is something else.
fn strings(fields: &Map<String, Value>, name: &str) -> Option<Vec<String>> {
    match fields.get(name) {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        }
        Some(_) => None,
    }
}
