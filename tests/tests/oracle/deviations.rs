//! Where our answers differ from kube-apiserver's on purpose, each with its reason.
//!
//! An entry that no case meets any more fails the test, so that this list says what is true.

use crate::compare::Difference;

/// A difference that is meant.
#[derive(Debug)]
pub(crate) struct Deviation {
    /// Which cases, as `script: title`; `*` stands for anything.
    cases: &'static str,
    /// Which parts of the answer, as JSON pointers; `*` stands for anything.
    at: &'static [&'static str],
    /// Why.
    #[expect(
        dead_code,
        reason = "for readers, and for the message about entries that are not met"
    )]
    why: &'static str,
}

/// All of them.
pub(crate) const ALL: &[Deviation] = &[
    Deviation {
        cases: "*",
        at: &["*/columnDefinitions/*/description"],
        why: "The descriptions of columns are in our own words.",
    },
    Deviation {
        cases: "discovery: the kinds of admission",
        at: &["/body/resources/*/storageVersionHash"],
        why: "Upstream still stores mutating policies as v1beta1; we have v1 only.",
    },
    Deviation {
        cases: "*: get from a bad version",
        at: &["/status", "/body/code", "/body/reason", "/body/message"],
        why: "Upstream answers 500 to a resource version that is no number; bad input is a 400.",
    },
    Deviation {
        cases: "*: update with a bad version",
        at: &["/status", "/body/code", "/body/reason", "/body/message"],
        why: "Upstream answers 500 to a resource version that is no number; bad input is a 400.",
    },
    Deviation {
        cases: "watch: a watch from nonsense",
        at: &["/status", "/body/code", "/body/reason"],
        why: "Upstream answers 500 to a resource version that is no number; bad input is a 400.",
    },
    Deviation {
        cases: "every_type*roles]: list nothing as a table",
        at: &["/body/rows"],
        why: "An empty table has an empty list of rows; upstream says null for two types.",
    },
    Deviation {
        cases: "every_type[namespaces]: delete with a wrong *",
        at: &["/body/*"],
        why: "One wording for all types; upstream has another for namespaces.",
    },
    Deviation {
        cases: "every_type[namespaces]: *",
        at: &["/body/spec/finalizers"],
        why: "Our namespace controller runs inside the server; the one of kube-apiserver does not.",
    },
    Deviation {
        cases: "every_type[namespaces]: delete what is held in the foreground",
        at: &["/body/metadata/finalizers"],
        why: "As above: ours is empty and ready to go already.",
    },
    Deviation {
        cases: "discovery: writing to *",
        at: &["*"],
        why: "Upstream answers any method with a discovery document; only GET reads.",
    },
    Deviation {
        cases: "discovery: the version*",
        at: &["/body/*"],
        why: "We are not built by Go, and say which release of ours this is.",
    },
    Deviation {
        cases: "lists: any, with a limit",
        at: &["/body/*"],
        why: "We keep to the limit; upstream's cache ignores it for resource version 0.",
    },
    Deviation {
        cases: "every_type[services]: create with*",
        at: &["/body/message", "/body/details/causes*"],
        why: "Upstream gives out an address before it looks at the name, and complains about that.",
    },
    Deviation {
        cases: "every_type[*s]: watch the initial events",
        at: &["/body/*/object/spec/replicas"],
        why: "The object of a bookmark is empty; upstream's internal form counts nothing as zero.",
    },
    Deviation {
        cases: "every_type[pods]: create with null",
        at: &["*"],
        why: "Our namespaces have the account of pods that name none; upstream's without controllers do not.",
    },
    Deviation { cases: "every_type[pods]: create from YAML", at: &["*"], why: "As above." },
    Deviation { cases: "workloads: a pod without a spec", at: &["*"], why: "As above." },
    Deviation {
        cases: "every_type[pods]: apply less",
        at: &["/body/*message"],
        why: "We name the fields that may not change; upstream prints them, which may hold secrets.",
    },
    Deviation {
        cases: "every_type[resourcequotas]: apply what is wrong",
        at: &["/body/message"],
        why: "One wording for what cannot be read, whether it is an amount or a number.",
    },
    Deviation {
        cases: "workloads: *deployment*",
        at: &["*/managedFields"],
        why: "Whoever scales to nothing owns that; a Scale of theirs leaves zero out, and nobody does.",
    },
    Deviation {
        cases: "workloads: another hostname",
        at: &["/body/*message"],
        why: "We name the fields that may not change; upstream prints them, which may hold secrets.",
    },
    Deviation {
        cases: "apiservices: *service*",
        at: &["/body/status/conditions"],
        why: "That requests are not passed on to other servers is known at once; upstream goes and asks.",
    },
    Deviation {
        cases: "flowcontrol: *",
        at: &["/body/metadata/managedFields*"],
        why: "What every server starts with was written by ours under its own name.",
    },
    Deviation {
        cases: "flowcontrol: the schema *",
        at: &["/body/status*"],
        why: "Flow schemas are inert: nobody looks whether their priority level is there.",
    },
    Deviation {
        cases: "discovery: the kinds of certificates",
        at: &["/body/resources"],
        why: "We serve cluster trust bundles as v1, as the next release of upstream does.",
    },
    Deviation {
        cases: "discovery: aggregated groups*",
        at: &["/body/items/*/resources"],
        why: "As above: v1 of certificates.k8s.io has one more.",
    },
    Deviation {
        cases: "reviews: may I, with a name",
        at: &["/body/*message"],
        why: "Upstream shows the fields that it has already noted as managed.",
    },
    Deviation {
        cases: "reviews: nobody as somebody",
        at: &["/body/*"],
        why: "We know the verb impersonate alone; upstream also tries constrained ones, and names those.",
    },
    Deviation {
        cases: "configmaps: deep nesting",
        at: &["/body/message"],
        why: "We stop reading at a depth that no object needs.",
    },
    Deviation {
        cases: "configmaps: lone surrogates",
        at: &["*"],
        why: "Text that is no Unicode is refused rather than changed.",
    },
    Deviation {
        cases: "paths: a query with a *",
        at: &["*"],
        why: "Upstream drops a parameter that it cannot read, and so may select more than was meant.",
    },
    Deviation {
        cases: "paths: a watch path without a resource",
        at: &["*"],
        why: "Upstream answers 500 to it; there is nothing at that path.",
    },
    Deviation {
        cases: "watch: metadata of a list",
        at: &["*"],
        why: "Upstream ends such a watch without a word; we say what is wrong with it.",
    },
    Deviation {
        cases: "negotiation: a YAML body of two documents",
        at: &["*"],
        why: "Upstream drops what is behind the first document; we refuse to guess.",
    },
    Deviation {
        cases: "reviews: *",
        at: &["/body/metadata/managedFields"],
        why: "Nobody manages the fields of what is answered and not stored.",
    },
    Deviation {
        cases: "negotiation: a review *",
        at: &["/body/*managedFields"],
        why: "Nobody manages the fields of what is answered and not stored.",
    },
    Deviation {
        cases: "namespaces: *token*",
        at: &["/body/metadata/managedFields"],
        why: "Nobody manages the fields of what is answered and not stored.",
    },
    Deviation {
        cases: "namespaces: ask in it",
        at: &["/body/metadata/managedFields"],
        why: "Nobody manages the fields of what is answered and not stored.",
    },
    Deviation {
        cases: "namespaces: the service",
        at: &["/body/items/*/managedFields/*/f:spec/*"],
        why: "Upstream's allocator of addresses fills in what we say ourselves.",
    },
    Deviation {
        cases: "apply: a strategic patch with wrong types",
        at: &["/body/*message"],
        why: "One wording for all bodies; upstream has another for strategic merge patches.",
    },
    Deviation {
        cases: "custom_apply: apply a scale by force",
        at: &["*"],
        why: "Upstream answers 500 to an apply to the scale of a custom resource; it works here.",
    },
    Deviation {
        cases: "apply: apply broken YAML",
        at: &["/body/message"],
        why: "The words of the YAML parser are its own.",
    },
    Deviation {
        cases: "negotiation: a broken YAML body",
        at: &["/body/message"],
        why: "The words of the YAML parser are its own.",
    },
    Deviation {
        cases: "custom_definitions: anything at the root with a status",
        at: &["/body/message", "/body/details/causes/0/message"],
        why: "We show the schema as it was written, upstream by the names of its Go fields.",
    },
    Deviation {
        cases: "custom_resources: change something else of it",
        at: &["/body/metadata/managedFields"],
        why: "Upstream forgets who owns what when an object no longer fits its schema.",
    },
    Deviation {
        cases: "custom_resources: no stored version",
        at: &["/body/message", "/body/details/causes/0/message"],
        why: "We name the versions, upstream shows them by the names of its Go fields.",
    },
    Deviation {
        cases: "openapi: version 3 in a form that nobody has",
        at: &["/headers/vary"],
        why: "Our documents of version 3 come compressed as well.",
    },
    Deviation {
        cases: "openapi: *",
        at: &["*certificates*v1*lusterTrustBundle*", "*certificates*v1*clustertrustbundles*"],
        why: "Cluster trust bundles are in version 1 from the release after the one we compare with.",
    },
    Deviation {
        cases: "openapi: *",
        at: &["/paths/~1api~1v1~1*~1{name}~1proxy*"],
        why: "There is nothing behind services, pods and nodes to proxy to.",
    },
    Deviation {
        cases: "openapi: *",
        at: &[
            "/paths/~1api~1v1~1namespaces~1{name}/delete/responses/*",
            "/paths/*~1customresourcedefinitions~1{name}/delete/responses/*",
        ],
        why: "Both answer to the deletion with the object; only our document says so.",
    },
    Deviation {
        cases: "openapi: /openapi/v3/apis/*.example.com/*",
        at: &["*.DeleteOptions/x-kubernetes-group-version-kind"],
        why: "Upstream lists group versions that have nothing to do with the custom resource.",
    },
    Deviation {
        cases: "openapi: *",
        at: &[
            "*~1pods~1{name}~1attach",
            "*~1pods~1{name}~1binding",
            "*~1pods~1{name}~1ephemeralcontainers",
            "*~1pods~1{name}~1eviction",
            "*~1pods~1{name}~1exec",
            "*~1pods~1{name}~1log",
            "*~1pods~1{name}~1portforward",
            "*~1pods~1{name}~1resize",
        ],
        why: "Pods are stored but not run: nobody binds, resizes or evicts them or looks into them.",
    },
    Deviation {
        cases: "openapi: *",
        at: &["*/x-kubernetes-unions"],
        why: "No client reads which fields of a model exclude each other.",
    },
    Deviation {
        cases: "openapi: /openapi/v2",
        at: &[
            "/definitions/*.DeleteOptions/x-kubernetes-group-version-kind",
            "/definitions/*.WatchEvent/x-kubernetes-group-version-kind",
        ],
        why: "Options and events are of the group versions that are served, not of all that ever were.",
    },
];

/// Words of theirs that we leave out or replace, wherever they stand in a sentence: from, to (exclusive),
/// what we say instead, and why.
const PHRASES: &[(&str, &str, &str, &str)] = &[
    (" in scheme \"", "\"", "", "A source file of theirs."),
    (" ({", ")", "", "The beginning of the body, which may hold secrets."),
    (" in '{", "'", "", "The body, which may hold secrets."),
    (" (<empty>", ")", "", "The beginning of the body."),
    (" (5b5d", ")", "", "The beginning of the body, as hexadecimal digits."),
    (" (227822", ")", "", "The beginning of the body, as hexadecimal digits."),
    (" (2d2061", ")", "", "The beginning of the body, as hexadecimal digits."),
    (" (6d657461", ")", "", "The beginning of the body, as hexadecimal digits."),
    (
        "StorageError: invalid object, Code: 4, Key: ",
        "AdditionalErrorMsg: ",
        "",
        "Their storage key.",
    ),
    (
        "patch: Invalid value: \"{",
        "}\": ",
        "patch: Invalid value: \"<value omitted>\": ",
        "Secrets.",
    ),
    ("Invalid value: \"map[", "]\": ", "Invalid value: \"<value omitted>\": ", "Secrets."),
    ("Invalid value: \"{\\\"", "}\": ", "Invalid value: \"<value omitted>\": ", "Secrets."),
];

/// A sentence of theirs without the phrases that we do not use.
pub(crate) fn rephrased(text: &str) -> String {
    let mut text = text.to_owned();
    for (from, to, instead, _) in PHRASES {
        while let Some(start) = text.find(from) {
            let Some(end) = text[start + from.len()..].find(to) else { break };
            text.replace_range(start..start + from.len() + end + to.len(), instead);
        }
    }
    text
}

/// The entry that explains a difference.
pub(crate) fn find(case: &str, difference: &Difference) -> Option<usize> {
    let explains = |deviation: &Deviation| {
        let at = |pattern: &&str| matches(pattern, &difference.at);
        matches(deviation.cases, case) && deviation.at.iter().any(at)
    };
    ALL.iter().position(explains)
}

/// Whether the text is the pattern, in which `*` stands for anything.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => {
            let Some(left) = text.strip_prefix(start) else { return false };
            (0..=left.len())
                .filter(|at| left.is_char_boundary(*at))
                .any(|at| matches(rest, &left[at..]))
        }
    }
}
