//! Custom resources: types that a CustomResourceDefinition describes.
//!
//! [`describe`] makes a [`Resource`] from a definition, [`CustomTypes`] keeps what is served as new as the
//! definitions. There is no conversion but by name: all versions show the same fields, each
//! those that it knows.

mod columns;
mod follow;
mod json_path;
mod rules;

use std::sync::Arc;

use serde_json::{Map, Value};

pub use follow::CustomTypes;

use crate::{
    name::Name,
    object::ObjectExt,
    resource::{Resource, ScaleSelector, Scaling, Schema, Scope, Subresource, View},
    schema::{Conformed, TypeMismatch},
    structural::{self, Expressions, Node},
    types::custom_resource_definition::{find, versions},
};
use columns::Columns;
use rules::CustomRules;

/// The verbs of custom resources, in the order of discovery.
const VERBS: &[&str] =
    &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

/// The verbs while their definition goes away.
const LAST_VERBS: &[&str] = &["delete", "deletecollection", "get", "list", "watch"];

/// One version of a custom resource.
#[derive(Debug)]
pub struct Version {
    /// The fields.
    pub node: Node,
    /// The rules that are expressions.
    pub expressions: Option<Expressions>,
    /// The schema as it was written.
    pub source: Value,
    /// Whether clients see it.
    pub served: bool,
    /// Whether `/status` is apart.
    pub has_status: bool,
    /// The columns of tables.
    pub columns: Columns,
    /// The fields that can be selected by, as JSON paths without the first dot.
    pub selectable: Vec<Name>,
    /// What clients of a deprecated version are told.
    pub warning: Option<String>,
    /// The kind of lists.
    pub list_kind: Name,
}

impl Version {
    /// The parts of an object with an address of their own.
    pub fn subresources(&self) -> &'static [Subresource] {
        if self.has_status { &[Subresource::Status] } else { &[] }
    }

    /// Brings an object into the form of its schema: as upstream's decoder does.
    ///
    /// # Errors
    /// When its metadata is none.
    pub fn conform(&self, mut object: Value) -> Result<Conformed, TypeMismatch> {
        if object.is_null() {
            object = Value::Object(Map::new());
        }
        let mut unknown =
            structural::coerce_metadata(&mut object).map_err(TypeMismatch::sentence)?;
        unknown.extend(structural::prune(&mut object, &self.node));
        structural::drop_nulls(&mut object, Some(&self.node));
        let embedded = structural::coerce(&mut object, &self.node);
        unknown.extend(embedded.map_err(|error| TypeMismatch::sentence(error.to_string()))?);
        structural::apply_defaults(&mut object, &self.node);
        Ok(Conformed { value: object, unknown })
    }

    /// Drops what this version does not know.
    pub fn prune(&self, object: &mut Value) {
        structural::prune(object, &self.node);
    }
}

/// The type that a definition describes; nothing when it is not one to be served.
pub fn describe(definition: &Value) -> Option<Resource> {
    let holds = |name: &str| find(definition, name).is_some_and(|c| c.text(&["status"]) == "True");
    if !holds("NamesAccepted") && !holds("Established") {
        return None;
    }
    let accepted = definition.at(&["status", "acceptedNames"])?;
    let name = |field: &str| Name::from(accepted.text(&[field]).to_owned());
    let list = |field: &str| {
        let list = accepted.get(field).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(|text| Name::from(text.to_owned())).collect()
    };
    let group = Name::from(definition.text(&["spec", "group"]).to_owned());
    let terminating = holds("Terminating");
    let scope = match definition.text(&["spec", "scope"]) {
        "Namespaced" => Scope::Namespaced,
        _ => Scope::Cluster,
    };
    let views = views(definition, &group, &name("listKind"));
    if views.is_empty() {
        return None;
    }
    Some(Resource {
        storage: Name::from(format!("{}.{group}", accepted.text(&["plural"]))),
        plural: name("plural"),
        singular: name("singular"),
        kind: name("kind"),
        short_names: list("shortNames"),
        categories: list("categories"),
        scope,
        verbs: if terminating { LAST_VERBS } else { VERBS },
        subresources: &[],
        rules: Arc::new(CustomRules::new(&views, terminating)),
        views,
    })
}

/// The versions, the stored one first.
///
/// Versions that only a webhook could convert are not served: what they would show might be wrong.
fn views(definition: &Value, group: &Name, list_kind: &Name) -> Vec<View> {
    let converts = definition.text(&["spec", "conversion", "strategy"]) != "Webhook";
    let mut found: Vec<&Value> = versions(definition)
        .filter(|version| version["storage"] == true || (converts && version["served"] == true))
        .collect();
    found.sort_by_key(|version| version["storage"] != true);
    let view = |version: &&Value| {
        let name = Name::from(version.text(&["name"]).to_owned());
        let custom = describe_version(definition, version, list_kind);
        let mut view = View::new(group.clone(), name, Schema::Custom(Arc::new(custom)));
        view.scale = version.at(&["subresources", "scale"]).map(scaling);
        view
    };
    found.iter().map(view).collect()
}

fn describe_version(definition: &Value, version: &Value, list_kind: &Name) -> Version {
    let source = version.at(&["schema", "openAPIV3Schema"]).cloned().unwrap_or_default();
    let mut node = Node::parse(&source);
    node.preserve_unknown |= definition["spec"]["preserveUnknownFields"] == true;
    let selectable = version.get("selectableFields").and_then(Value::as_array);
    let paths = selectable.into_iter().flatten().map(|field| field.text(&["jsonPath"]));
    Version {
        expressions: Expressions::compile(&node, true),
        node,
        source,
        served: version["served"] == true,
        has_status: version.at(&["subresources", "status"]).is_some(),
        columns: Columns::of(version),
        selectable: paths.map(|path| path.trim_start_matches('.').to_owned().into()).collect(),
        warning: (version["deprecated"] == true).then(|| deprecation(definition, version)),
        list_kind: list_kind.clone(),
    }
}

/// What a client of a deprecated version is told.
fn deprecation(definition: &Value, version: &Value) -> String {
    if let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) {
        return warning.to_owned();
    }
    let spec = &definition["spec"];
    let (group, kind) = (spec.text(&["group"]), spec.text(&["names", "kind"]));
    let old = version.text(&["name"]);
    let newer = versions(definition)
        .filter(|v| v["served"] == true && v["deprecated"] != true)
        .map(|v| v.text(&["name"]))
        .filter(|name| priority(name) > priority(old))
        .max_by_key(|name| priority(name));
    let text = format!("{group}/{old} {kind} is deprecated");
    match newer {
        Some(newer) => format!("{text}; use {group}/{newer} {kind}"),
        None => text,
    }
}

/// How much a version is preferred: `v2` to `v1` to `v1beta2` to `v1beta1` to `v1alpha1` to any other.
pub fn priority(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let other = (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return other };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, stage) = rest.split_at(digits);
    let Ok(major) = major.parse() else { return other };
    let (level, minor) = match stage {
        "" => (3, "0"),
        stage => match (stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor),
            (None, Some(minor)) => (1, minor),
            (None, None) => return other,
        },
    };
    match minor.parse() {
        Ok(minor) => (level, major, minor, std::cmp::Reverse(String::new())),
        Err(_) => other,
    }
}

fn scaling(scale: &Value) -> Scaling {
    let path = |field: &str| -> Vec<Name> {
        let path = scale.text(&[field]).trim_start_matches('.');
        path.split('.').map(|part| Name::from(part.to_owned())).collect()
    };
    Scaling {
        wanted: path("specReplicasPath"),
        present: path("statusReplicasPath"),
        selector: match scale.text(&["labelSelectorPath"]) {
            "" => ScaleSelector::None,
            _ => ScaleSelector::Text(path("labelSelectorPath")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_and_more_stable_versions_are_preferred() {
        let mut names =
            ["v1", "foo1", "v10", "v11beta2", "v11alpha2", "v2", "v11alpha1", "v3beta1", "foo10"];
        names.sort_by_key(|name| std::cmp::Reverse(priority(name)));
        let expected =
            ["v10", "v2", "v1", "v11beta2", "v3beta1", "v11alpha2", "v11alpha1", "foo1", "foo10"];
        assert_eq!(names, expected);
    }
}
