//! The parameters that operations take in their query and path.

use serde_json::{Value, json};

use super::dialect::Dialect;

/// One parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    /// `query` or `path`.
    place: &'static str,
    ty: &'static str,
    description: &'static str,
}

/// The parameters in front of which old clients of OpenAPI 2 do not follow references.
const INLINE: [&str; 3] = ["dryRun", "fieldValidation", "name"];

const fn query(name: &'static str, ty: &'static str, description: &'static str) -> Parameter {
    Parameter { name, place: "query", ty, description }
}

const fn path(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, place: "path", ty: "string", description }
}

pub(super) const PRETTY: Parameter =
    query("pretty", "string", "With 'true' the answer is indented for people.");
pub(super) const NAME: Parameter = path("name", "The name of the object.");
pub(super) const NAMESPACE: Parameter = path("namespace", "The namespace of the object.");
pub(super) const RESOURCE_VERSION: Parameter = query(
    "resourceVersion",
    "string",
    "How fresh the answer must be: empty for the newest state, 0 for any, a version for one at least as new.",
);
const DRY_RUN: Parameter =
    query("dryRun", "string", "With 'All' the request is checked and answered but not stored.");
const FIELD_MANAGER: Parameter = query(
    "fieldManager",
    "string",
    "Who owns the fields that the request sets; at most 128 printable characters.",
);
const FIELD_VALIDATION: Parameter = query(
    "fieldValidation",
    "string",
    "What becomes of unknown and repeated fields: Ignore drops them, Warn drops them with a warning, Strict refuses the request.",
);
const FORCE: Parameter =
    query("force", "boolean", "Whether an apply takes over the fields that others own.");
const LIMIT: Parameter = query("limit", "integer", "The most objects that one answer may have.");
const CONTINUE: Parameter =
    query("continue", "string", "The token of the previous page, to get the next one.");
const FIELD_SELECTOR: Parameter =
    query("fieldSelector", "string", "Only objects whose fields match.");
const LABEL_SELECTOR: Parameter =
    query("labelSelector", "string", "Only objects whose labels match.");
const VERSION_MATCH: Parameter =
    query("resourceVersionMatch", "string", "How resourceVersion is meant: Exact or NotOlderThan.");
const SEND_INITIAL: Parameter = query(
    "sendInitialEvents",
    "boolean",
    "Whether a watch begins with the objects that are there, and a bookmark after the last of them.",
);
const SHARD_SELECTOR: Parameter =
    query("shardSelector", "string", "Only the objects of one shard; not supported here.");
const TIMEOUT: Parameter =
    query("timeoutSeconds", "integer", "How long a list or watch may take, in seconds.");
const WATCH: Parameter =
    query("watch", "boolean", "Whether to follow changes instead of listing objects.");
const BOOKMARKS: Parameter = query(
    "allowWatchBookmarks",
    "boolean",
    "Whether a watch may send bookmarks, which say how far it has come.",
);
const GRACE: Parameter =
    query("gracePeriodSeconds", "integer", "How long the object has to end, in seconds.");
const IGNORE_READ_ERRORS: Parameter = query(
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "boolean",
    "Whether an object is deleted even if it cannot be read; not supported here.",
);
const ORPHAN: Parameter = query(
    "orphanDependents",
    "boolean",
    "Whether dependents are kept; replaced by propagationPolicy.",
);
const PROPAGATION: Parameter = query(
    "propagationPolicy",
    "string",
    "What becomes of dependents: Orphan, Background or Foreground.",
);

/// What a list or watch takes.
pub(super) const LISTING: [Parameter; 11] = [
    BOOKMARKS,
    CONTINUE,
    FIELD_SELECTOR,
    LABEL_SELECTOR,
    LIMIT,
    RESOURCE_VERSION,
    VERSION_MATCH,
    SEND_INITIAL,
    SHARD_SELECTOR,
    TIMEOUT,
    WATCH,
];

/// What create and update take.
pub(super) const WRITING: [Parameter; 3] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];

/// What a patch takes.
pub(super) const PATCHING: [Parameter; 4] = [DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];

/// What the deletion of one object takes.
pub(super) const DELETING: [Parameter; 5] =
    [DRY_RUN, GRACE, IGNORE_READ_ERRORS, ORPHAN, PROPAGATION];

/// What the deletion of many takes.
pub(super) const DELETING_MANY: [Parameter; 14] = [
    CONTINUE,
    DRY_RUN,
    FIELD_SELECTOR,
    GRACE,
    IGNORE_READ_ERRORS,
    LABEL_SELECTOR,
    LIMIT,
    ORPHAN,
    PROPAGATION,
    RESOURCE_VERSION,
    VERSION_MATCH,
    SEND_INITIAL,
    SHARD_SELECTOR,
    TIMEOUT,
];

impl Parameter {
    /// The parameter where an operation lists it.
    pub(super) fn listed(&self, dialect: Dialect) -> Value {
        match dialect {
            Dialect::V2 if !INLINE.contains(&self.name) => {
                json!({"$ref": format!("#/parameters/{}", self.name)})
            }
            _ => self.whole(dialect),
        }
    }

    fn whole(&self, dialect: Dialect) -> Value {
        let mut parameter =
            json!({"name": self.name, "in": self.place, "description": self.description});
        if self.place == "path" {
            parameter["required"] = true.into();
        }
        match dialect {
            Dialect::V2 => {
                parameter["type"] = self.ty.into();
                parameter["uniqueItems"] = true.into();
            }
            Dialect::V3 => parameter["schema"] = json!({"type": self.ty, "uniqueItems": true}),
        }
        parameter
    }
}

/// The parameters that an OpenAPI 2 document holds in one place.
pub(super) fn shared() -> impl Iterator<Item = (&'static str, Value)> {
    let all = [NAMESPACE, PRETTY, FIELD_MANAGER, FORCE];
    let mut all: Vec<Parameter> =
        all.into_iter().chain(LISTING).chain(DELETING).chain(DELETING_MANY).collect();
    all.retain(|parameter| !INLINE.contains(&parameter.name));
    all.sort_by_key(|parameter| parameter.name);
    all.dedup();
    all.into_iter().map(|parameter| (parameter.name, parameter.whole(Dialect::V2)))
}
