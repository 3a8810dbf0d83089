//! Whole documents. They are joined from pieces that are written one by one, so that no tree of a whole
//! document is ever in memory.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    custom,
    descriptions::Descriptions,
    dialect::Dialect,
    naming::{Gvk, builtin_model, custom_model, group_tag, id_part},
    operations::{ENCODINGS, JSON, Operation, path_item},
    parameters,
    paths::{Path, Target, base, resource_list},
    schemas::{
        API_GROUP, API_GROUP_LIST, API_RESOURCE_LIST, API_VERSIONS, DELETE_OPTIONS, OBJECT_META,
        PATCH, STATUS, Schemas, VERSION_INFO, WATCH_EVENT,
    },
};
use crate::{
    discovery::{Discovery, Entry, Group, MAJOR, MINOR, Version},
    resource::Schema,
};

/// The pieces of a document, each as JSON.
pub(super) struct Pieces {
    pub(super) paths: BTreeMap<String, String>,
    pub(super) schemas: BTreeMap<String, String>,
    /// Whether it is about custom resources.
    custom: bool,
}

/// What one document of OpenAPI 3 is about.
pub(super) enum Page<'a> {
    /// The group version with this place among the groups.
    Version(&'a Group, &'a Version),
    /// Something that is no resource, and the model that it answers with.
    Other(Box<Path>),
}

/// Every document of OpenAPI 3 by its name in the index.
pub(super) fn pages(discovery: &Discovery) -> BTreeMap<String, Page<'_>> {
    let mut pages: BTreeMap<String, Page<'_>> =
        others(discovery).map(|(name, path)| (name, Page::Other(Box::new(path)))).collect();
    for group in discovery.groups() {
        for version in &group.versions {
            let name = base(&group.name, &version.name)[1..].to_owned();
            pages.insert(name, Page::Version(group, version));
        }
    }
    pages
}

/// One document of OpenAPI 3.
pub(super) fn v3(discovery: &Discovery, page: Page<'_>) -> String {
    let texts = Descriptions::read();
    let pieces = match page {
        Page::Version(group, version) => {
            let custom = is_custom(discovery, group, version);
            let own = [(&*group.name, &*version.name)];
            let own = if custom { &[][..] } else { &own };
            let mut writer = Writer::new(discovery, &texts, Dialect::V3, own);
            writer.version(group, version);
            writer.finish(custom)
        }
        Page::Other(path) => {
            let mut writer = Writer::new(discovery, &texts, Dialect::V3, &[]);
            writer.path(*path);
            writer.finish(false)
        }
    };
    pieces.to_v3()
}

/// All of OpenAPI 2.
pub(super) fn v2(discovery: &Discovery) -> Pieces {
    let texts = Descriptions::read();
    let versions = discovery.groups().iter().flat_map(|group| {
        group.versions.iter().map(|version| (&*group.name, &*version.name)).collect::<Vec<_>>()
    });
    let versions: Vec<(&str, &str)> = versions.collect();
    let mut writer = Writer::new(discovery, &texts, Dialect::V2, &versions);
    for (_, path) in others(discovery) {
        writer.path(path);
    }
    for group in discovery.groups() {
        group.versions.iter().for_each(|version| writer.version(group, version));
    }
    writer.finish(false)
}

/// Whether the kinds of a group version are custom resources; a group version has only the one or the other.
fn is_custom(discovery: &Discovery, group: &Group, version: &Version) -> bool {
    version.resources.iter().any(|entry| {
        let endpoint = discovery.served().endpoint(&group.name, &version.name, &entry.name);
        endpoint.is_some_and(|endpoint| endpoint.view().schema.builtin().is_none())
    })
}

/// What is served beside resources.
fn others(discovery: &Discovery) -> impl Iterator<Item = (String, Path)> + '_ {
    let page = |name: String, id: String, tag: String, about: &str, answer: Option<&str>| {
        let operation = Operation {
            method: "get",
            id,
            tag,
            description: about.to_owned(),
            consumes: &ENCODINGS,
            produces: &ENCODINGS,
            codes: &["200"],
            answer: answer.map(str::to_owned),
            ..Operation::default()
        };
        let path = format!("/{name}/");
        (name, Path { path, common: Vec::new(), operations: vec![operation] })
    };
    type Media = &'static [&'static str];
    let only = |(name, mut path): (String, Path), consumes: Media, produces: Media| {
        for operation in &mut path.operations {
            (operation.consumes, operation.produces) = (consumes, produces);
        }
        (name, path)
    };
    let api = page(
        "api".into(),
        "getCoreAPIVersions".into(),
        "core".into(),
        "get available API versions",
        Some(API_VERSIONS),
    );
    let apis = page(
        "apis".into(),
        "getAPIVersions".into(),
        "apis".into(),
        "get available API versions",
        Some(API_GROUP_LIST),
    );
    let version = page(
        "version".into(),
        "getCodeVersion".into(),
        "version".into(),
        "get the version of this server",
        Some(VERSION_INFO),
    );
    let issuer = page(
        ".well-known/openid-configuration".into(),
        "getServiceAccountIssuerOpenIDConfiguration".into(),
        "WellKnown".into(),
        "get the OpenID configuration of the issuer of service account tokens",
        None,
    );
    let keys = page(
        "openid/v1/jwks".into(),
        "getServiceAccountIssuerOpenIDKeyset".into(),
        "openid".into(),
        "get the keys that verify service account tokens",
        None,
    );
    let named = discovery.groups().iter().filter(move |group| {
        let custom = |version| is_custom(discovery, group, version);
        !group.name.is_empty() && !group.versions.iter().all(custom)
    });
    let groups = named.map(move |group| {
        page(
            format!("apis/{}", group.name),
            format!("get{}APIGroup", id_part(&group.name, "")),
            group_tag(&group.name),
            "get information of a group",
            Some(API_GROUP),
        )
    });
    let fixed = [
        api,
        apis,
        only(version, &[JSON], &[JSON]),
        only(issuer, &[], &[JSON]),
        only(keys, &[], &["application/jwk-set+json"]),
    ];
    fixed.into_iter().chain(groups)
}

/// Writes paths and the models that they need.
struct Writer<'a> {
    discovery: &'a Discovery,
    texts: &'a Descriptions,
    schemas: Schemas<'a>,
    paths: BTreeMap<String, String>,
}

impl<'a> Writer<'a> {
    fn new(
        discovery: &'a Discovery,
        texts: &'a Descriptions,
        dialect: Dialect,
        versions: &[(&str, &str)],
    ) -> Self {
        let schemas = Schemas::new(dialect, texts, versions);
        Self { discovery, texts, schemas, paths: BTreeMap::new() }
    }

    /// Everything of a group version.
    fn version(&mut self, group: &Group, version: &Version) {
        if !is_custom(self.discovery, group, version) {
            self.schemas.need(API_RESOURCE_LIST);
            self.path(resource_list(&group.name, &version.name));
        }
        for entry in &version.resources {
            for path in self.target(group, version, entry).paths() {
                self.path(path);
            }
        }
    }

    /// A resource, whose models are written on the way.
    fn target<'e>(
        &mut self,
        group: &'e Group,
        version: &'e Version,
        entry: &'e Entry,
    ) -> Target<'e> {
        let served = self.discovery.served();
        let endpoint = served.endpoint(&group.name, &version.name, &entry.name);
        let schema = endpoint.as_ref().map(|endpoint| endpoint.view().schema.clone());
        let custom = schema.as_ref().is_some_and(|schema| schema.builtin().is_none());
        let own = Gvk::new(&group.name, &version.name, &entry.kind);
        let gvk = match entry.foreign {
            Some((group, version)) => Gvk::new(group, version, &entry.kind),
            None => own,
        };
        let model = match (&schema, entry.foreign) {
            (Some(Schema::Builtin(fields)), None) if fields.name == &*entry.kind => {
                fields.model.to_owned()
            }
            (Some(schema), None) if schema.builtin().is_none() => {
                custom_model(&gvk.group, &gvk.version, &gvk.kind)
            }
            _ => builtin_model(&gvk.group, &gvk.version, &gvk.kind),
        };
        let resource = endpoint.as_ref().map(|endpoint| endpoint.resource());
        let kind = resource.map_or(entry.kind.clone(), |resource| resource.kind.clone());
        let list_model = format!("{model}List");
        // A custom resource's scale is said to be of the kind of the resource.
        let acted_on =
            if custom { Gvk::new(&group.name, &version.name, &kind) } else { gvk.clone() };
        let target = Target {
            group: &group.name,
            version: &version.name,
            plural: &entry.name,
            kind,
            subresource: entry.subresource,
            namespaced: entry.namespaced,
            verbs: entry.verbs,
            model,
            gvk: acted_on,
            list_model,
            returns_deleted: resource.is_some_and(|resource| resource.rules.returns_deleted()),
            custom,
        };
        self.models(&target, gvk, schema.filter(|_| entry.foreign.is_none()));
        target
    }

    /// The models of a resource: its own, and that of its lists.
    fn models(&mut self, target: &Target<'_>, gvk: Gvk, schema: Option<Schema>) {
        self.schemas.is_kind(&target.model, gvk.clone());
        let schema = schema.filter(|_| target.custom);
        match &schema {
            Some(schema) => {
                self.schemas.need(OBJECT_META);
                let mut model = custom::model(schema.openapi(), self.schemas.dialect, self.texts);
                custom::say_selectable(&mut model, schema);
                self.schemas.insert(&target.model, model);
            }
            None => self.schemas.need(&target.model),
        }
        if target.subresource.is_none() && target.verbs.contains(&"list") {
            let list = Gvk { kind: format!("{}List", gvk.kind), ..gvk };
            self.schemas.is_kind(&target.list_model, list);
            let mut list = self.schemas.list(&target.model, !target.custom);
            if let Some(schema) = &schema {
                custom::say_selectable(&mut list, schema);
            }
            self.schemas.insert(&target.list_model, list);
        }
    }

    fn path(&mut self, path: Path) {
        for operation in &path.operations {
            let body = operation.body.as_ref().map(|body| body.model.as_str());
            for model in body.into_iter().chain(operation.answer.as_deref()) {
                if is_shared(model) {
                    self.schemas.need(model);
                }
            }
        }
        let item = path_item(path.operations, &path.common, self.schemas.dialect);
        self.paths.insert(path.path, item.to_string());
    }

    fn finish(self, custom: bool) -> Pieces {
        Pieces { paths: self.paths, schemas: self.schemas.into_written(), custom }
    }
}

/// Whether a model belongs to no kind in particular.
fn is_shared(model: &str) -> bool {
    [
        API_GROUP,
        API_GROUP_LIST,
        API_RESOURCE_LIST,
        API_VERSIONS,
        DELETE_OPTIONS,
        PATCH,
        STATUS,
        VERSION_INFO,
        WATCH_EVENT,
    ]
    .contains(&model)
}

impl Pieces {
    fn to_v3(&self) -> String {
        let mut components = String::from("{");
        if !self.schemas.is_empty() {
            components.push_str("\"schemas\":");
            push_object(&mut components, &self.schemas);
        }
        if !self.custom {
            components.push_str(if self.schemas.is_empty() { "" } else { "," });
            components.push_str("\"securitySchemes\":");
            components.push_str(&security().to_string());
        }
        components.push('}');
        let mut document = format!("{{\"openapi\":\"3.0.0\",\"info\":{},\"paths\":", self.info());
        push_object(&mut document, &self.paths);
        document.push_str(",\"components\":");
        document.push_str(&components);
        document.push('}');
        document
    }

    /// As a document of OpenAPI 2.
    pub(super) fn to_v2(&self) -> String {
        let mut document = format!("{{\"swagger\":\"2.0\",\"info\":{},\"paths\":", self.info());
        push_object(&mut document, &self.paths);
        document.push_str(",\"definitions\":");
        push_object(&mut document, &self.schemas);
        let shared: BTreeMap<String, String> =
            parameters::shared().map(|(name, p)| (name.to_owned(), p.to_string())).collect();
        document.push_str(",\"parameters\":");
        push_object(&mut document, &shared);
        document.push_str(",\"securityDefinitions\":");
        document.push_str(&security().to_string());
        document.push_str(",\"security\":[{\"BearerToken\":[]}]}");
        document
    }

    /// Title and version.
    pub(super) fn info(&self) -> Value {
        match self.custom {
            true => json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}),
            false => json!({"title": "Kubernetes", "version": format!("{MAJOR}.{MINOR}")}),
        }
    }
}

/// How clients say who they are.
pub(super) fn security() -> Value {
    json!({"BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }})
}

fn push_object(text: &mut String, pieces: &BTreeMap<String, String>) {
    text.push('{');
    for (at, (name, piece)) in pieces.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(name.as_str()).to_string());
        text.push(':');
        text.push_str(piece);
    }
    text.push('}');
}
