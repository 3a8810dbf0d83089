//! The paths of a group version: every operation on every resource that discovery lists.

use super::{
    naming::{Gvk, id_part, large, tag, with_article},
    operations::{ANYTHING, BUILTIN_PATCHES, Body, ENCODINGS, Operation, PATCHES, STREAMS, TEXTS},
    parameters::{
        DELETING, DELETING_MANY, LISTING, NAME, NAMESPACE, PATCHING, PRETTY, Parameter,
        RESOURCE_VERSION, WRITING,
    },
    schemas::{API_RESOURCE_LIST, DELETE_OPTIONS, PATCH, STATUS, WATCH_EVENT},
};
use crate::name::Name;

/// A path, the parameters that all its operations have, and these.
pub(super) struct Path {
    pub(super) path: String,
    pub(super) common: Vec<Parameter>,
    pub(super) operations: Vec<Operation>,
}

/// A resource or subresource as far as paths are concerned.
pub(super) struct Target<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) plural: &'a str,
    /// The kind that the resource is named after, also for its subresources.
    pub(super) kind: Name,
    pub(super) subresource: Option<&'a str>,
    pub(super) namespaced: bool,
    pub(super) verbs: &'a [&'a str],
    /// The model and kind of bodies and answers.
    pub(super) model: String,
    pub(super) gvk: Gvk,
    /// The model of its lists.
    pub(super) list_model: String,
    /// Whether a deletion answers with the object that is gone.
    pub(super) returns_deleted: bool,
    /// Whether it is a custom resource.
    pub(super) custom: bool,
}

/// Where a group version is.
pub(super) fn base(group: &str, version: &str) -> String {
    match group {
        "" => format!("/api/{version}"),
        group => format!("/apis/{group}/{version}"),
    }
}

/// The list of the resources of a group version.
pub(super) fn resource_list(group: &str, version: &str) -> Path {
    Path {
        path: format!("{}/", base(group, version)),
        common: Vec::new(),
        operations: vec![Operation {
            method: "get",
            id: format!("get{}APIResources", id_part(group, version)),
            tag: tag(group, version),
            description: "get available resources".into(),
            consumes: &ENCODINGS,
            produces: &ENCODINGS,
            codes: &["200"],
            answer: Some(API_RESOURCE_LIST.into()),
            ..Operation::default()
        }],
    }
}

impl Target<'_> {
    /// All its paths.
    pub(super) fn paths(&self) -> Vec<Path> {
        let mut paths = match self.subresource {
            Some(_) => vec![self.item()],
            None => vec![self.collection(), self.item()],
        };
        if self.subresource.is_none() && self.namespaced && self.has("list") {
            paths.push(self.everywhere());
        }
        if self.has("watch") && !self.custom {
            paths.extend(self.watches());
        }
        paths.retain(|path| !path.operations.is_empty());
        paths
    }

    fn has(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    fn collection(&self) -> Path {
        let operations = [
            self.has("list").then(|| self.list("")),
            self.has("create").then(|| self.create()),
            self.has("deletecollection").then(|| self.delete_many()),
        ];
        self.path(String::new(), operations.into_iter().flatten().collect())
    }

    fn item(&self) -> Path {
        let creates = self.subresource.is_some() && self.has("create");
        let operations = [
            self.has("get").then(|| self.get()),
            creates.then(|| self.create()),
            self.has("update").then(|| self.replace()),
            self.has("delete").then(|| self.delete()),
            self.has("patch").then(|| self.patch()),
        ];
        let rest = match self.subresource {
            None => "/{name}".to_owned(),
            Some(part) => format!("/{{name}}/{part}"),
        };
        let mut path = self.path(rest, operations.into_iter().flatten().collect());
        path.common.push(NAME);
        path
    }

    /// The objects of all namespaces.
    fn everywhere(&self) -> Path {
        let path = format!("{}/{}", base(self.group, self.version), self.plural);
        Path { path, common: vec![PRETTY], operations: vec![self.list("ForAllNamespaces")] }
    }

    fn path(&self, rest: String, operations: Vec<Operation>) -> Path {
        let base = base(self.group, self.version);
        let (within, common) = match self.namespaced {
            true => ("/namespaces/{namespace}", vec![NAMESPACE, PRETTY]),
            false => ("", vec![PRETTY]),
        };
        Path { path: format!("{base}{within}/{}{rest}", self.plural), common, operations }
    }

    /// The paths that were there before the parameter `watch`.
    fn watches(&self) -> Vec<Path> {
        let list = "watch individual changes to a list of";
        let list = format!("{list} {}. Deprecated: list with the parameter 'watch'.", self.kind);
        let one = "watch changes to an object of kind";
        let one = format!(
            "{one} {}. Deprecated: list with the parameters 'watch' and 'fieldSelector'.",
            self.kind
        );
        let watch = |id: String, description: &str, action: &'static str| Operation {
            method: "get",
            id,
            description: description.to_owned(),
            parameters: LISTING.to_vec(),
            produces: &STREAMS,
            codes: &["200"],
            answer: Some(WATCH_EVENT.into()),
            ..self.operation(action)
        };
        let base = format!("{}/watch", base(self.group, self.version));
        let (group, kind) = (id_part(self.group, self.version), &self.kind);
        let scoped = self.scoped_kind();
        let (within, mut common) = match self.namespaced {
            true => ("/namespaces/{namespace}", vec![NAMESPACE, PRETTY]),
            false => ("", vec![PRETTY]),
        };
        let mut paths = vec![Path {
            path: format!("{base}{within}/{}", self.plural),
            common: common.clone(),
            operations: vec![watch(format!("watch{group}{scoped}List"), &list, "watchlist")],
        }];
        if self.namespaced {
            paths.push(Path {
                path: format!("{base}/{}", self.plural),
                common: vec![PRETTY],
                operations: vec![watch(
                    format!("watch{group}{kind}ListForAllNamespaces"),
                    &list,
                    "watchlist",
                )],
            });
        }
        common.push(NAME);
        paths.push(Path {
            path: format!("{base}{within}/{}/{{name}}", self.plural),
            common,
            operations: vec![watch(format!("watch{group}{scoped}"), &one, "watch")],
        });
        paths
    }

    fn list(&self, suffix: &str) -> Operation {
        let kind = if suffix.is_empty() { self.scoped_kind() } else { self.kind.to_string() };
        let what = match self.has("watch") && !self.custom {
            true => "list or watch objects of kind",
            false => "list objects of kind",
        };
        Operation {
            method: "get",
            id: format!("list{}{kind}{suffix}", id_part(self.group, self.version)),
            description: format!("{what} {}", self.kind),
            parameters: LISTING.to_vec(),
            produces: match (self.custom, self.has("watch")) {
                (true, _) => &TEXTS,
                (false, true) => &STREAMS,
                (false, false) => &ENCODINGS,
            },
            codes: &["200"],
            answer: Some(self.list_model.clone()),
            ..self.operation("list")
        }
    }

    fn create(&self) -> Operation {
        Operation {
            method: "post",
            id: self.id("create"),
            description: match self.subresource {
                None => format!("create{}", with_article(&self.kind)),
                Some(part) => format!("create {part} of{}", with_article(&self.kind)),
            },
            parameters: WRITING.to_vec(),
            body: Some(Body { model: self.model.clone(), required: true }),
            codes: &["200", "201", "202"],
            ..self.operation("post")
        }
    }

    fn get(&self) -> Operation {
        Operation {
            method: "get",
            id: self.id("read"),
            description: self.about("read"),
            parameters: if self.custom { vec![RESOURCE_VERSION] } else { Vec::new() },
            codes: &["200"],
            ..self.operation("get")
        }
    }

    fn replace(&self) -> Operation {
        Operation {
            method: "put",
            id: self.id("replace"),
            description: self.about("replace"),
            parameters: WRITING.to_vec(),
            body: Some(Body { model: self.model.clone(), required: true }),
            codes: &["200", "201"],
            ..self.operation("put")
        }
    }

    fn patch(&self) -> Operation {
        Operation {
            method: "patch",
            id: self.id("patch"),
            description: self.about("partially update"),
            parameters: PATCHING.to_vec(),
            body: Some(Body { model: PATCH.into(), required: true }),
            consumes: if self.custom { &PATCHES } else { &BUILTIN_PATCHES },
            codes: if self.custom { &["200"] } else { &["200", "201"] },
            ..self.operation("patch")
        }
    }

    fn delete(&self) -> Operation {
        let answer = if self.returns_deleted { self.model.as_str() } else { STATUS };
        Operation {
            method: "delete",
            id: self.id("delete"),
            description: format!("delete{}", with_article(&self.kind)),
            parameters: DELETING.to_vec(),
            body: Some(Body { model: DELETE_OPTIONS.into(), required: false }),
            codes: &["200", "202"],
            answer: Some(answer.into()),
            ..self.operation("delete")
        }
    }

    fn delete_many(&self) -> Operation {
        let id =
            format!("delete{}Collection{}", id_part(self.group, self.version), self.scoped_kind());
        let options = Body { model: DELETE_OPTIONS.into(), required: false };
        Operation {
            method: "delete",
            id,
            description: format!("delete collection of {}", self.kind),
            parameters: if self.custom { LISTING.to_vec() } else { DELETING_MANY.to_vec() },
            body: (!self.custom).then_some(options),
            codes: &["200"],
            answer: Some(STATUS.into()),
            ..self.operation("deletecollection")
        }
    }

    /// What most operations of the resource have.
    fn operation(&self, action: &'static str) -> Operation {
        Operation {
            tag: tag(self.group, self.version),
            consumes: if self.custom { &TEXTS } else { &ANYTHING },
            produces: if self.custom { &TEXTS } else { &ENCODINGS },
            answer: Some(self.model.clone()),
            action: Some((action, self.gvk.clone())),
            ..Operation::default()
        }
    }

    fn about(&self, verb: &str) -> String {
        match self.subresource {
            None => format!("{verb} the specified {}", self.kind),
            Some(part) => format!("{verb} {part} of the specified {}", self.kind),
        }
    }

    fn id(&self, verb: &str) -> String {
        let part = self.subresource.map(large).unwrap_or_default();
        format!("{verb}{}{}{part}", id_part(self.group, self.version), self.scoped_kind())
    }

    fn scoped_kind(&self) -> String {
        let scope = if self.namespaced { "Namespaced" } else { "" };
        format!("{scope}{}", self.kind)
    }
}
