//! The roles and bindings that every server starts with, as upstream ships them (1.36).
//!
//! Only data. The rule lists of `admin`, `edit` and `view` are complete, also for kinds that this
//! server does not serve itself: they count as soon as someone serves them. Roles for kubelets, the
//! scheduler and the controller manager are left out, since nothing here runs as one. `admin`,
//! `edit` and `view` start without rules; aggregation fills them.

use serde_json::{Map, Value, json};

use super::reconcile::AUTO_UPDATE;
use super::rules::{GROUP, PRIVILEGED_GROUP, PolicyRule, RbacKind};

/// Every bootstrap object, roles before the bindings that name them.
pub fn objects() -> Vec<(RbacKind, Value)> {
    let mut objects = Vec::new();
    for role in CLUSTER_ROLES {
        objects.push((RbacKind::ClusterRole, role.to_object("")));
    }
    for binding in CLUSTER_ROLE_BINDINGS {
        objects.push((RbacKind::ClusterRoleBinding, binding.to_object("")));
    }
    for role in KUBE_SYSTEM_ROLES {
        objects.push((RbacKind::Role, role.to_object(KUBE_SYSTEM)));
    }
    for binding in KUBE_SYSTEM_ROLE_BINDINGS {
        objects.push((RbacKind::RoleBinding, binding.to_object(KUBE_SYSTEM)));
    }
    objects
}

const KUBE_SYSTEM: &str = "kube-system";

const CLUSTER_ROLES: &[RoleData] = &[
    role("cluster-admin", &[on("*", "*", "*"), at("*", "*")]),
    role(
        "system:discovery",
        &[at(
            "get",
            "/livez /readyz /healthz /version /version/ /openapi /openapi/* /api /api/* /apis \
             /apis/*",
        )],
    ),
    role(
        "system:monitoring",
        &[
            at(
                "get",
                "/metrics /metrics/slis /livez /readyz /healthz /livez/* /readyz/* /healthz/* \
                 /flagz /statusz",
            ),
            on("get", CORE, "nodes/metrics"),
        ],
    ),
    role(
        "system:basic-user",
        &[
            on("create", AUTHORIZATION, "selfsubjectaccessreviews selfsubjectrulesreviews"),
            on("create", AUTHENTICATION, "selfsubjectreviews"),
        ],
    ),
    role("system:public-info-viewer", &[at("get", "/livez /readyz /healthz /version /version/")]),
    gathering("admin", TO_ADMIN, ""),
    gathering("edit", TO_EDIT, TO_ADMIN),
    gathering("view", TO_VIEW, TO_EDIT),
    feeding("system:aggregate-to-admin", TO_ADMIN, ADMIN),
    feeding("system:aggregate-to-edit", TO_EDIT, EDIT),
    feeding("system:aggregate-to-view", TO_VIEW, VIEW),
    role(
        "system:auth-delegator",
        &[
            on("create", AUTHENTICATION, "tokenreviews"),
            on("create", AUTHORIZATION, "subjectaccessreviews"),
        ],
    ),
    role(
        "system:service-account-issuer-discovery",
        &[at(
            "get",
            "/.well-known/openid-configuration /.well-known/openid-configuration/ \
             /openid/v1/jwks /openid/v1/jwks/",
        )],
    ),
    // Who has one of the first two gets a kubelet's certificate without asking a person.
    role(
        "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
        &[on("create", CERTIFICATES, "certificatesigningrequests/nodeclient")],
    ),
    role(
        "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        &[on("create", CERTIFICATES, "certificatesigningrequests/selfnodeclient")],
    ),
    role(
        "system:node-bootstrapper",
        &[on("create get list watch", CERTIFICATES, "certificatesigningrequests")],
    ),
    role(
        "system:certificates.k8s.io:legacy-unknown-approver",
        &[approve("kubernetes.io/legacy-unknown")],
    ),
    role(
        "system:certificates.k8s.io:kubelet-serving-approver",
        &[approve("kubernetes.io/kubelet-serving")],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-approver",
        &[approve("kubernetes.io/kube-apiserver-client")],
    ),
    role(
        "system:certificates.k8s.io:kube-apiserver-client-kubelet-approver",
        &[approve("kubernetes.io/kube-apiserver-client-kubelet")],
    ),
];

const CLUSTER_ROLE_BINDINGS: &[BindingData] = &[
    cluster_binding("cluster-admin", &[group(PRIVILEGED_GROUP)]),
    cluster_binding("system:monitoring", &[group("system:monitoring")]),
    cluster_binding("system:discovery", &[group(AUTHENTICATED)]),
    cluster_binding("system:basic-user", &[group(AUTHENTICATED)]),
    cluster_binding("system:public-info-viewer", &[group(AUTHENTICATED), group(UNAUTHENTICATED)]),
    // Every workload may check the tokens of its peers: what it learns stands in its own token.
    cluster_binding("system:service-account-issuer-discovery", &[group("system:serviceaccounts")]),
];

const KUBE_SYSTEM_ROLES: &[RoleData] = &[role(
    AUTHENTICATION_READER,
    &[RuleData { names: "extension-apiserver-authentication", ..on(READ, CORE, "configmaps") }],
)];

const KUBE_SYSTEM_ROLE_BINDINGS: &[BindingData] = &[BindingData {
    name: "system::extension-apiserver-authentication-reader",
    kind: RbacKind::Role,
    role: AUTHENTICATION_READER,
    subjects: &[user("system:kube-controller-manager"), user("system:kube-scheduler")],
}];

/// Lets servers behind an aggregator find out whom to trust.
const AUTHENTICATION_READER: &str = "extension-apiserver-authentication-reader";

const VIEW: &[RuleData] = &[
    on(
        READ,
        CORE,
        "pods replicationcontrollers replicationcontrollers/scale serviceaccounts services \
         services/status endpoints persistentvolumeclaims persistentvolumeclaims/status configmaps",
    ),
    on(
        READ,
        CORE,
        "limitranges resourcequotas bindings pods/status resourcequotas/status namespaces/status \
         replicationcontrollers/status pods/log",
    ),
    // Bound in a namespace, this means that one namespace.
    on(READ, CORE, "namespaces"),
    on(READ, CORE_AND_EVENTS, "events"),
    on(READ, "discovery.k8s.io", "endpointslices"),
    on(
        READ,
        "apps",
        "controllerrevisions statefulsets statefulsets/status statefulsets/scale daemonsets \
         daemonsets/status deployments deployments/status deployments/scale replicasets \
         replicasets/status replicasets/scale",
    ),
    on(READ, "autoscaling", "horizontalpodautoscalers horizontalpodautoscalers/status"),
    on(READ, "batch", "jobs cronjobs cronjobs/status jobs/status"),
    on(
        READ,
        "extensions",
        "daemonsets daemonsets/status deployments deployments/scale deployments/status ingresses \
         ingresses/status replicasets replicasets/scale replicasets/status \
         replicationcontrollers/scale networkpolicies",
    ),
    on(READ, "policy", "poddisruptionbudgets poddisruptionbudgets/status"),
    on(READ, "networking.k8s.io", "networkpolicies ingresses ingresses/status"),
    on(READ, "resource.k8s.io", "resourceclaims resourceclaims/status resourceclaimtemplates"),
];

const EDIT: &[RuleData] = &[
    // Kept out of `view`: with these, reading can give one further rights.
    on(READ, CORE, "pods/attach pods/proxy pods/exec pods/portforward secrets services/proxy"),
    on("impersonate", CORE, "serviceaccounts"),
    on(WRITE, CORE, "pods pods/attach pods/proxy pods/exec pods/portforward"),
    on("create", CORE, "pods/eviction"),
    on(
        WRITE,
        CORE,
        "replicationcontrollers replicationcontrollers/scale serviceaccounts services \
         services/proxy persistentvolumeclaims configmaps secrets",
    ),
    on("create", CORE, "serviceaccounts/token"),
    on(WRITE, CORE_AND_EVENTS, "events"),
    on(
        WRITE,
        "apps",
        "statefulsets statefulsets/scale daemonsets deployments deployments/scale \
         deployments/rollback replicasets replicasets/scale",
    ),
    on(WRITE, "autoscaling", "horizontalpodautoscalers"),
    on(WRITE, "batch", "jobs cronjobs"),
    on(
        WRITE,
        "extensions",
        "daemonsets deployments deployments/scale deployments/rollback ingresses replicasets \
         replicasets/scale replicationcontrollers/scale networkpolicies",
    ),
    on(WRITE, "policy", "poddisruptionbudgets"),
    on(WRITE, "networking.k8s.io", "networkpolicies ingresses"),
    on(READ_WRITE, "coordination.k8s.io", "leases"),
    on(WRITE, "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
];

const ADMIN: &[RuleData] = &[
    on("create", AUTHORIZATION, "localsubjectaccessreviews"),
    on(READ_WRITE, GROUP, "roles rolebindings"),
];

const READ: &str = "get list watch";
const WRITE: &str = "create delete deletecollection patch update";
const READ_WRITE: &str = "create delete deletecollection get list patch update watch";

/// How the tables write the core group, whose name is empty.
const CORE: &str = "core";
const CORE_AND_EVENTS: &str = "core events.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const CERTIFICATES: &str = "certificates.k8s.io";

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

const TO_ADMIN: &str = "rbac.authorization.k8s.io/aggregate-to-admin";
const TO_EDIT: &str = "rbac.authorization.k8s.io/aggregate-to-edit";
const TO_VIEW: &str = "rbac.authorization.k8s.io/aggregate-to-view";

/// A role as the tables above write it.
#[derive(Clone, Copy)]
struct RoleData {
    name: &'static str,
    rules: &'static [RuleData],
    /// The label of the roles that it gathers its rules from, or empty.
    gathers: &'static str,
    /// The label by which another role gathers this one's rules, or empty.
    feeds: &'static str,
}

const fn role(name: &'static str, rules: &'static [RuleData]) -> RoleData {
    RoleData { name, rules, gathers: "", feeds: "" }
}

const fn gathering(name: &'static str, gathers: &'static str, feeds: &'static str) -> RoleData {
    RoleData { name, rules: &[], gathers, feeds }
}

const fn feeding(name: &'static str, feeds: &'static str, rules: &'static [RuleData]) -> RoleData {
    RoleData { name, rules, gathers: "", feeds }
}

impl RoleData {
    fn to_object(self, namespace: &str) -> Value {
        let kind = if namespace.is_empty() { RbacKind::ClusterRole } else { RbacKind::Role };
        let mut object = object(kind, namespace, self.name);
        object["rules"] = self.rules.iter().map(|rule| rule.to_value()).collect();
        if !self.feeds.is_empty() {
            object["metadata"]["labels"][self.feeds] = "true".into();
        }
        if !self.gathers.is_empty() {
            let labels = Map::from_iter([(self.gathers.to_owned(), Value::from("true"))]);
            object["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": labels}]});
        }
        object
    }
}

/// A rule as the tables above write it: lists of words.
#[derive(Clone, Copy)]
struct RuleData {
    verbs: &'static str,
    groups: &'static str,
    resources: &'static str,
    names: &'static str,
    urls: &'static str,
}

/// Verbs on resources.
const fn on(verbs: &'static str, groups: &'static str, resources: &'static str) -> RuleData {
    RuleData { verbs, groups, resources, names: "", urls: "" }
}

/// The right to approve requests to a signer.
const fn approve(signer: &'static str) -> RuleData {
    RuleData { names: signer, ..on("approve", CERTIFICATES, "signers") }
}

/// Verbs on paths.
const fn at(verbs: &'static str, urls: &'static str) -> RuleData {
    RuleData { verbs, groups: "", resources: "", names: "", urls }
}

impl RuleData {
    fn to_value(self) -> Value {
        let rule = PolicyRule {
            verbs: words(self.verbs),
            api_groups: words(self.groups),
            resources: words(self.resources),
            resource_names: words(self.names),
            non_resource_urls: words(self.urls),
        };
        rule.to_value()
    }
}

/// The words in order, as upstream's objects have them.
fn words(text: &str) -> Vec<String> {
    let named = |word: &str| {
        if word == CORE { String::new() } else { word.to_owned() }
    };
    let mut words: Vec<String> = text.split_whitespace().map(named).collect();
    words.sort();
    words
}

/// A binding as the tables above write it.
#[derive(Clone, Copy)]
struct BindingData {
    name: &'static str,
    kind: RbacKind,
    role: &'static str,
    subjects: &'static [SubjectData],
}

/// Binds a cluster role under its own name.
const fn cluster_binding(role: &'static str, subjects: &'static [SubjectData]) -> BindingData {
    BindingData { name: role, kind: RbacKind::ClusterRole, role, subjects }
}

impl BindingData {
    fn to_object(self, namespace: &str) -> Value {
        let kind = match namespace {
            "" => RbacKind::ClusterRoleBinding,
            _ => RbacKind::RoleBinding,
        };
        let mut object = object(kind, namespace, self.name);
        object["roleRef"] = json!({"apiGroup": GROUP, "kind": self.kind.kind(), "name": self.role});
        let subjects = self.subjects.iter();
        object["subjects"] = subjects
            .map(|subject| json!({"apiGroup": GROUP, "kind": subject.kind, "name": subject.name}))
            .collect();
        object
    }
}

/// A user or group.
#[derive(Clone, Copy)]
struct SubjectData {
    kind: &'static str,
    name: &'static str,
}

const fn group(name: &'static str) -> SubjectData {
    SubjectData { kind: "Group", name }
}

const fn user(name: &'static str) -> SubjectData {
    SubjectData { kind: "User", name }
}

/// An object with what all of ours have: the label to find them by, and the consent to be repaired.
fn object(kind: RbacKind, namespace: &str, name: &str) -> Value {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind.kind(),
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {AUTO_UPDATE: "true"},
        },
    });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

#[cfg(test)]
mod tests {
    use super::super::rbac::Rbac;
    use super::super::reconcile::reconcile;
    use super::super::tests::user;
    use super::super::{Attributes, Target};
    use super::*;
    use crate::object::ObjectExt;

    /// The bootstrap objects as a running server has them: aggregated to the end.
    fn settled() -> Rbac {
        let rbac = Rbac::new();
        let mut objects = objects();
        for (kind, object) in &objects {
            rbac.apply(*kind, object.namespace(), object.name(), Some(object));
        }
        for _ in 0..4 {
            for (name, rules) in rbac.stale_aggregates() {
                let role = |(kind, object): &&mut (RbacKind, Value)| {
                    *kind == RbacKind::ClusterRole && object.name() == name
                };
                let (kind, object) = objects.iter_mut().find(role).expect("a bootstrap role");
                object["rules"] = rules.iter().map(PolicyRule::to_value).collect();
                rbac.apply(*kind, "", &name, Some(object));
            }
        }
        assert_eq!(rbac.stale_aggregates(), []);
        rbac
    }

    fn give(rbac: &Rbac, namespace: &str, role: &str, name: &str) {
        let object = json!({
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "User", "name": name}],
        });
        rbac.apply(RbacKind::RoleBinding, namespace, role, Some(&object));
    }

    #[test]
    fn admin_edit_and_view_grow_out_of_each_other() {
        let rbac = settled();
        for role in ["admin", "edit", "view"] {
            give(&rbac, "ns", role, role);
        }
        let check = |verb: &str, group: &str, resource: &str, expected: [bool; 3]| {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let allowed = ["admin", "edit", "view"].map(|name| {
                let (namespace, name, user) = ("ns", "x", user(name));
                let target = Target::Resource { group, resource, subresource, namespace, name };
                rbac.allows(&Attributes { user: &user, verb, target })
            });
            assert_eq!(allowed, expected, "{verb} {resource}.{group}");
        };
        const ALL: [bool; 3] = [true, true, true];
        const WRITERS: [bool; 3] = [true, true, false];
        const ADMINS: [bool; 3] = [true, false, false];
        const NONE: [bool; 3] = [false, false, false];
        check("get", "", "configmaps", ALL);
        check("watch", "", "serviceaccounts", ALL);
        check("list", "events.k8s.io", "events", ALL);
        check("get", "", "pods/log", ALL);
        check("get", "", "namespaces", ALL);
        check("get", "", "secrets", WRITERS);
        check("deletecollection", "", "configmaps", WRITERS);
        check("create", "", "serviceaccounts/token", WRITERS);
        check("impersonate", "", "serviceaccounts", WRITERS);
        check("update", "coordination.k8s.io", "leases", WRITERS);
        check("patch", "apps", "deployments/scale", WRITERS);
        check("create", GROUP, "rolebindings", ADMINS);
        check("create", "authorization.k8s.io", "localsubjectaccessreviews", ADMINS);
        check("bind", GROUP, "roles", NONE);
        check("escalate", GROUP, "roles", NONE);
        check("delete", "", "namespaces", NONE);
        check("update", "", "resourcequotas", NONE);
    }

    #[test]
    fn everybody_may_look_around_and_nobody_may_touch() {
        let rbac = settled();
        let check = |who: &str, verb: &str, target: Target<'_>, expected: bool| {
            let user = user(who);
            let allowed = rbac.allows(&Attributes { user: &user, verb, target });
            assert_eq!(allowed, expected, "{who} {verb} {target:?}");
        };
        let on = |group: &'static str, resource: &'static str| Target::Resource {
            group,
            resource,
            subresource: "",
            namespace: "",
            name: "",
        };
        let anyone = "u+system:authenticated";
        let anonymous = "system:anonymous+system:unauthenticated";
        let account = "system:serviceaccount:ns:a+system:serviceaccounts+system:authenticated";
        check(anyone, "get", Target::Path("/apis/apps/v1"), true);
        check(anonymous, "get", Target::Path("/apis"), false);
        check(anonymous, "get", Target::Path("/readyz"), true);
        check(anonymous, "get", Target::Path("/readyz/etcd"), false);
        check(anonymous, "get", Target::Path("/version"), true);
        check(anyone, "get", Target::Path("/metrics"), false);
        check("m+system:monitoring", "get", Target::Path("/metrics"), true);
        check(anyone, "create", on("authorization.k8s.io", "selfsubjectaccessreviews"), true);
        check(anonymous, "create", on("authorization.k8s.io", "selfsubjectaccessreviews"), false);
        check(anyone, "create", on("authorization.k8s.io", "subjectaccessreviews"), false);
        check(anyone, "get", Target::Path("/openid/v1/jwks"), false);
        check(account, "get", Target::Path("/openid/v1/jwks"), true);
        check(anyone, "list", on("", "namespaces"), false);
    }

    #[test]
    fn the_objects_are_whole_and_settled() {
        for (kind, object) in objects() {
            assert_eq!(object.kind(), kind.kind());
            assert_eq!(object.api_version(), "rbac.authorization.k8s.io/v1");
            assert_eq!(object.text(&["metadata", "annotations", AUTO_UPDATE]), "true");
            assert_eq!(reconcile(Some(&object), &object), None, "{object}");
        }
        let gone = |rbac: &Rbac| rbac.rules_for(&user("u+system:authenticated"), "kube-system");
        assert_eq!(gone(&settled()).evaluation_error, "");
    }
}
