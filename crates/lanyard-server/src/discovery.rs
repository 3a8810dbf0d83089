//! What this server serves, in the two forms that clients ask for: the legacy lists per group version,
//! and the aggregated document with an ETag.

use std::{cmp::Reverse, fmt::Write as _, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use sha2::{Digest, Sha256, Sha512};

use crate::{
    custom::priority,
    name::Name,
    registry::Served,
    resource::{Resource, Scope, Subresource, View},
    reviews::Review,
};

/// The Kubernetes version whose API we speak; kubectl warns when it is too far from its own.
pub(crate) const MAJOR: &str = "1";
pub(crate) const MINOR: &str = "36";

/// The order of groups, as upstream's priorities have it: kubectl takes a short name from the first.
const GROUP_ORDER: [&str; 13] = [
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "certificates.k8s.io",
    "rbac.authorization.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "coordination.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// Everything that discovery answers with, made once per change of the served types.
pub struct Discovery {
    /// The types that it is about.
    served: Arc<Served>,
    groups: Vec<Group>,
    /// `/api` in the aggregated form.
    pub core: Document,
    /// `/apis` in the aggregated form.
    pub named: Document,
}

/// A body and its entity tag.
pub struct Document {
    /// The JSON.
    pub body: String,
    /// A strong tag, quoted.
    pub etag: String,
}

/// An API group.
pub(crate) struct Group {
    /// Empty for core.
    pub(crate) name: Name,
    /// Preferred first.
    pub(crate) versions: Vec<Version>,
}

/// A version of a group.
pub(crate) struct Version {
    pub(crate) name: Name,
    /// By name, subresources after their resource.
    pub(crate) resources: Vec<Entry>,
}

/// One resource or subresource.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) name: Name,
    pub(crate) subresource: Option<&'static str>,
    singular: Name,
    pub(crate) kind: Name,
    /// Group and version of the kind, where they differ from the resource's.
    pub(crate) foreign: Option<(&'static str, &'static str)>,
    pub(crate) namespaced: bool,
    /// Group and version of the resource.
    own: (Name, Name),
    /// Group and version of the form that is stored.
    stored: (Name, Name),
    /// Whether it comes from a CustomResourceDefinition.
    custom: bool,
    pub(crate) verbs: &'static [&'static str],
    short_names: Vec<Name>,
    categories: Vec<Name>,
}

impl Discovery {
    /// The documents for the served types.
    pub fn new(served: Arc<Served>) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for collection in &served.collections {
            let resource = &collection.resource;
            for view in resource.views.iter().filter(|view| view.is_served()) {
                let entries = entries(resource, view);
                version_of(&mut groups, &view.group, &view.version).resources.extend(entries);
            }
        }
        for review in Review::ALL {
            let (group, version) = (Name::from(review.group()), Name::from("v1"));
            version_of(&mut groups, &group, &version).resources.push(Entry {
                name: review.plural().into(),
                subresource: None,
                singular: review.singular().into(),
                kind: review.kind().into(),
                foreign: None,
                namespaced: review.namespaced(),
                own: (group.clone(), version.clone()),
                stored: (group, version),
                custom: false,
                verbs: &["create"],
                short_names: Vec::new(),
                categories: Vec::new(),
            });
        }
        // Groups that upstream does not know come last, by name.
        let order = |group: &Group| {
            let known = GROUP_ORDER.iter().position(|name| group.name == *name);
            (known.unwrap_or(GROUP_ORDER.len()), known.is_none().then(|| group.name.clone()))
        };
        groups.sort_by_key(order);
        for group in groups.iter_mut().filter(|group| !GROUP_ORDER.contains(&&*group.name)) {
            group.versions.sort_by_key(|version| Reverse(priority(&version.name)));
        }
        for version in groups.iter_mut().flat_map(|group| &mut group.versions) {
            version.resources.sort_by(|a, b| a.order().cmp(&b.order()));
        }
        let core = Document::new(aggregated(groups.iter().filter(|g| g.name.is_empty())));
        let named = Document::new(aggregated(groups.iter().filter(|g| !g.name.is_empty())));
        Self { served, groups, core, named }
    }

    /// The types that it is about.
    pub fn served(&self) -> &Arc<Served> {
        &self.served
    }

    /// The groups, in the order of discovery.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Whether it is about these types.
    pub fn is_of(&self, served: &Arc<Served>) -> bool {
        Arc::ptr_eq(&self.served, served)
    }

    /// `GET /api`.
    pub fn api_versions(&self, server: &str) -> Value {
        let versions: Vec<&str> = self
            .groups
            .iter()
            .filter(|group| group.name.is_empty())
            .flat_map(|group| group.versions.iter().map(|v| &*v.name))
            .collect();
        json!({
            "kind": "APIVersions",
            "versions": versions,
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server}],
        })
    }

    /// `GET /apis`.
    pub fn group_list(&self) -> Value {
        let named = self.groups.iter().filter(|group| !group.name.is_empty());
        let groups: Vec<Value> = named.map(Group::to_json).collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    }

    /// Whether everything of the group comes from CustomResourceDefinitions.
    pub fn is_custom_group(&self, name: &str) -> bool {
        let group = self.groups.iter().find(|group| group.name == name);
        let versions = || group.into_iter().flat_map(|group| &group.versions);
        versions().flat_map(|version| &version.resources).all(|entry| entry.custom)
    }

    /// Whether anything of the group is served.
    pub fn has_group(&self, name: &str) -> bool {
        self.groups.iter().any(|group| group.name == name)
    }

    /// `GET /apis/GROUP`.
    pub fn group(&self, name: &str) -> Option<Value> {
        let group = self.groups.iter().find(|g| g.name == name && !name.is_empty())?;
        let mut body = group.to_json();
        body["kind"] = "APIGroup".into();
        body["apiVersion"] = "v1".into();
        Some(body)
    }

    /// `GET /api/v1` or `/apis/GROUP/VERSION`.
    pub fn resource_list(&self, group: &str, version: &str) -> Option<Value> {
        let group = self.groups.iter().find(|g| g.name == group)?;
        let version = group.versions.iter().find(|v| v.name == version)?;
        let resources: Vec<Value> = version.resources.iter().map(Entry::to_legacy).collect();
        let mut list = json!({
            "kind": "APIResourceList",
            "groupVersion": group_version(&group.name, &version.name),
            "resources": resources,
        });
        // The list of the core group is older than the version of such lists.
        if !group.name.is_empty() {
            list["apiVersion"] = "v1".into();
        }
        Some(list)
    }

    /// Paths of all groups and versions, for `GET /`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = vec!["/api".to_owned(), "/apis".to_owned()];
        for group in &self.groups {
            let base = if group.name.is_empty() {
                "/api".to_owned()
            } else {
                format!("/apis/{}", group.name)
            };
            if !group.name.is_empty() {
                paths.push(base.clone());
            }
            paths.extend(group.versions.iter().map(|v| format!("{base}/{}", v.name)));
        }
        paths
    }
}

impl Document {
    fn new(body: Value) -> Self {
        let body = body.to_string();
        let mut etag = String::from("\"");
        for byte in Sha512::digest(&body) {
            // Writing to a string cannot fail.
            let _ = write!(etag, "{byte:02X}");
        }
        etag.push('"');
        Self { body, etag }
    }
}

fn version_of<'a>(groups: &'a mut Vec<Group>, group: &Name, version: &Name) -> &'a mut Version {
    let at = groups.iter().position(|g| g.name == *group).unwrap_or_else(|| {
        groups.push(Group { name: group.clone(), versions: Vec::new() });
        groups.len() - 1
    });
    let versions = &mut groups[at].versions;
    let at = versions.iter().position(|v| v.name == *version).unwrap_or_else(|| {
        versions.push(Version { name: version.clone(), resources: Vec::new() });
        versions.len() - 1
    });
    &mut versions[at]
}

fn entries(resource: &Resource, view: &View) -> Vec<Entry> {
    let main = Entry {
        name: resource.plural.clone(),
        subresource: None,
        singular: resource.singular.clone(),
        kind: resource.kind.clone(),
        foreign: None,
        namespaced: resource.scope == Scope::Namespaced,
        own: (view.group.clone(), view.version.clone()),
        stored: (resource.views[0].group.clone(), resource.views[0].version.clone()),
        custom: resource.is_custom(),
        verbs: resource.verbs,
        short_names: resource.short_names.clone(),
        categories: resource.categories.clone(),
    };
    let part = |name: &'static str, verbs: &'static [&'static str]| Entry {
        subresource: Some(name),
        singular: Name::default(),
        verbs,
        short_names: Vec::new(),
        categories: Vec::new(),
        ..main.clone()
    };
    let mut entries: Vec<Entry> = resource
        .subresources_in(view)
        .iter()
        .filter_map(|subresource| match subresource {
            Subresource::Status => Some(part("status", &["get", "patch", "update"])),
            Subresource::Finalize => Some(part("finalize", &["update"])),
            Subresource::Approval => Some(part("approval", &["get", "patch", "update"])),
            Subresource::Scale => None,
        })
        .collect();
    if view.scale.is_some() {
        let scale = part("scale", &["get", "patch", "update"]);
        let foreign = Some(("autoscaling", "v1"));
        entries.push(Entry { kind: "Scale".into(), foreign, ..scale });
    }
    if resource.storage == "serviceaccounts" {
        let token = part("token", &["create"]);
        let foreign = Some(("authentication.k8s.io", "v1"));
        entries.push(Entry { kind: "TokenRequest".into(), foreign, ..token });
    }
    entries.push(main);
    entries
}

impl Group {
    fn to_json(&self) -> Value {
        let version = |v: &Version| json!({"groupVersion": group_version(&self.name, &v.name), "version": v.name});
        let versions: Vec<Value> = self.versions.iter().map(version).collect();
        json!({"name": self.name, "versions": versions, "preferredVersion": versions[0]})
    }
}

impl Entry {
    /// Parts of custom types come in the order in which upstream knows them.
    fn order(&self) -> (&Name, Option<&str>) {
        let subresource = match self.subresource {
            Some("scale") if self.custom => Some("status/scale"),
            subresource => subresource,
        };
        (&self.name, subresource)
    }

    fn to_legacy(&self) -> Value {
        let name = match self.subresource {
            None => (*self.name).to_owned(),
            Some(subresource) => format!("{}/{subresource}", self.name),
        };
        let mut entry = json!({
            "name": name,
            "singularName": self.singular,
            "namespaced": self.namespaced,
            "kind": self.kind,
            "verbs": self.verbs,
        });
        if let Some((group, version)) = self.foreign {
            entry["group"] = group.into();
            entry["version"] = version.into();
        }
        if !self.short_names.is_empty() {
            entry["shortNames"] = json!(self.short_names);
        }
        if !self.categories.is_empty() {
            entry["categories"] = json!(self.categories);
        }
        if self.subresource.is_none() && self.verbs.contains(&"get") {
            let (group, version) = &self.stored;
            let hash = Sha256::digest(format!("{group}/{version}/{}", self.kind));
            entry["storageVersionHash"] = BASE64_STANDARD.encode(&hash[..8]).into();
        }
        entry
    }

    fn response_kind(&self) -> Value {
        let own = || if self.custom { (&*self.own.0, &*self.own.1) } else { ("", "") };
        let (group, version) = self.foreign.unwrap_or_else(own);
        json!({"group": group, "version": version, "kind": self.kind})
    }
}

fn aggregated<'a>(groups: impl Iterator<Item = &'a Group>) -> Value {
    let item = |group: &Group| {
        let versions: Vec<Value> = group.versions.iter().map(aggregated_version).collect();
        let metadata = match &*group.name {
            "" => json!({}),
            name => json!({"name": name}),
        };
        json!({"metadata": metadata, "versions": versions})
    };
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": groups.map(item).collect::<Vec<_>>(),
    })
}

fn aggregated_version(version: &Version) -> Value {
    let resource = |entry: &Entry| {
        let parts = version.resources.iter().filter(|e| e.name == entry.name);
        let subresources: Vec<Value> = parts
            .filter_map(|part| {
                let kind = part.response_kind();
                let name = part.subresource?;
                Some(json!({"subresource": name, "responseKind": kind, "verbs": part.verbs}))
            })
            .collect();
        let mut resource = json!({
            "resource": entry.name,
            "responseKind": entry.response_kind(),
            "scope": if entry.namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": entry.singular,
            "verbs": entry.verbs,
        });
        for (field, list) in [("shortNames", &entry.short_names), ("categories", &entry.categories)]
        {
            if !list.is_empty() {
                resource[field] = json!(list);
            }
        }
        if !subresources.is_empty() {
            resource["subresources"] = subresources.into();
        }
        resource
    };
    let main = version.resources.iter().filter(|entry| entry.subresource.is_none());
    json!({
        "version": version.name,
        "resources": main.map(resource).collect::<Vec<_>>(),
        "freshness": "Current",
    })
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
