//! The rows of the matrix. Programs name what they try by these words, so that clients can be compared.

/// All features, in the order of the matrix.
pub(crate) const ALL: &[&str] = &[
    "discovery",
    "OpenAPI",
    "create, get, update, delete",
    "protobuf",
    "dynamic objects",
    "metadata only",
    "tables",
    "pages",
    "selectors",
    "watch",
    "informer, list and watch",
    "informer, streaming list",
    "conflict and retry",
    "dry run",
    "field validation",
    "JSON patch",
    "merge patch",
    "strategic merge patch",
    "client-side apply",
    "server-side apply",
    "apply conflicts",
    "finalizers",
    "owners and garbage collection",
    "status subresource",
    "scale subresource",
    "custom resources",
    "CEL rules",
    "controller",
    "events",
    "leader election",
    "namespaces",
    "tokens",
    "access reviews",
    "certificate requests",
    "imperative create",
    "diff",
    "edit",
    "wait",
    "chart: install",
    "chart: upgrade",
    "chart: test",
    "chart: roll back",
    "chart: uninstall",
];

/// The row of a feature.
pub(crate) fn place(feature: &str) -> Option<usize> {
    ALL.iter().position(|known| *known == feature)
}
