//! The kinds of role-based access control: roles are lists of rules, bindings give them to subjects.

mod validate;

use std::sync::Arc;

use serde_json::Value;

use super::{
    ALL_VERBS,
    column::{self, AGE, NAME, age_cell, name_cell},
};
use crate::{
    field::FieldError,
    object::ObjectExt,
    resource::{Column, NameRule, Resource, Rules, Scope, View, WriteContext},
    schema::builtin,
};

/// The group of all four kinds.
const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role() -> Resource {
    resource(
        "roles.rbac.authorization.k8s.io",
        ["roles", "role", "Role"],
        Arc::new(Roles { scope: Scope::Namespaced }),
    )
}

pub(super) fn cluster_role() -> Resource {
    resource(
        "clusterroles.rbac.authorization.k8s.io",
        ["clusterroles", "clusterrole", "ClusterRole"],
        Arc::new(Roles { scope: Scope::Cluster }),
    )
}

pub(super) fn role_binding() -> Resource {
    resource(
        "rolebindings.rbac.authorization.k8s.io",
        ["rolebindings", "rolebinding", "RoleBinding"],
        Arc::new(Bindings { scope: Scope::Namespaced }),
    )
}

pub(super) fn cluster_role_binding() -> Resource {
    resource(
        "clusterrolebindings.rbac.authorization.k8s.io",
        ["clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding"],
        Arc::new(Bindings { scope: Scope::Cluster }),
    )
}

fn resource(
    storage: &'static str,
    [plural, singular, kind]: [&'static str; 3],
    rules: Arc<dyn Rules>,
) -> Resource {
    let schema = builtin(&format!("io.k8s.api.rbac.v1.{kind}"));
    let scope = if kind.starts_with("Cluster") { Scope::Cluster } else { Scope::Namespaced };
    Resource {
        storage: storage.into(),
        plural: plural.into(),
        singular: singular.into(),
        kind: kind.into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        scope,
        verbs: ALL_VERBS,
        subresources: &[],
        views: vec![View::new(GROUP, "v1", schema)],
        rules,
    }
}

static ROLE_COLUMNS: [Column; 2] = [
    NAME,
    Column {
        name: "Created At",
        kind: "date",
        format: "",
        description: "The time at which the object was created, by the clock of the server.",
        priority: 0,
    },
];

static BINDING_COLUMNS: [Column; 6] = [
    NAME,
    column::text("Role", "The role that the subjects get."),
    AGE,
    column::wide("Users", "The users that get the role."),
    column::wide("Groups", "The groups whose members get the role."),
    column::wide("ServiceAccounts", "The service accounts that get the role."),
];

/// Role and ClusterRole.
struct Roles {
    scope: Scope,
}

impl Rules for Roles {
    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        validate::role(object, self.scope, None)
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        _context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        validate::role(new, self.scope, Some(old))
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> &'static [Column] {
        &ROLE_COLUMNS
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        let created = match object.text(&["metadata", "creationTimestamp"]) {
            "" => "0001-01-01T00:00:00Z",
            created => created,
        };
        vec![name_cell(object), created.into()]
    }
}

/// RoleBinding and ClusterRoleBinding.
struct Bindings {
    scope: Scope,
}

impl Rules for Bindings {
    fn apply_defaults(&self, object: &mut Value) {
        if object.text(&["roleRef", "apiGroup"]).is_empty() {
            object["roleRef"]["apiGroup"] = GROUP.into();
        }
        let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
        for subject in subjects.into_iter().flatten() {
            if matches!(subject.text(&["kind"]), "User" | "Group")
                && subject.text(&["apiGroup"]).is_empty()
            {
                subject["apiGroup"] = GROUP.into();
            }
        }
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        validate::binding(object, self.scope)
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        _context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        let mut errors = validate::binding(new, self.scope);
        errors.extend(validate::role_reference_change(new, old));
        errors
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn create_on_update(&self) -> bool {
        true
    }

    fn columns(&self) -> &'static [Column] {
        &BINDING_COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let role =
            format!("{}/{}", object.text(&["roleRef", "kind"]), object.text(&["roleRef", "name"]));
        vec![
            name_cell(object),
            role.into(),
            age_cell(object, now),
            subjects_of_kind(object, "User").into(),
            subjects_of_kind(object, "Group").into(),
            subjects_of_kind(object, "ServiceAccount").into(),
        ]
    }
}

fn subjects_of_kind(object: &Value, kind: &str) -> String {
    let subjects = object.get("subjects").and_then(Value::as_array);
    let names: Vec<_> = subjects
        .into_iter()
        .flatten()
        .filter(|subject| subject.text(&["kind"]) == kind)
        .map(|subject| match kind {
            "ServiceAccount" => {
                format!("{}/{}", subject.text(&["namespace"]), subject.text(&["name"]))
            }
            _ => subject.text(&["name"]).to_owned(),
        })
        .collect();
    names.join(", ")
}
