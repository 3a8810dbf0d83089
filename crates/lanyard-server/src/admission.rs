//! What depends on other objects: is the namespace there and alive, may this user grant these rights.
//!
//! Runs after authorization and schema checks, before anything is written.

mod certificates;

use std::sync::Arc;

use serde_json::Value;

use crate::{
    authn::UserInfo,
    authz::{
        Attributes, Target,
        escalation::{self, Refused},
        rbac::Rbac,
        rules::RbacKind,
    },
    collection::{Collection, EventKind},
    field::quoted,
    object::ObjectExt,
    registry::{Call, Endpoint, Registry, Served},
    resource::{Scope, Subresource},
    status::{ApiError, ApiResult, GroupName},
};

/// Namespaces that must always be there.
const IMMORTAL_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// The checks, and what they look at.
pub struct Admission {
    /// The roles and bindings.
    pub rbac: Arc<Rbac>,
    namespaces: Option<Arc<Collection>>,
}

/// What is about to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A changed object.
    Update,
    /// A deleted object.
    Delete,
}

/// One write, as admission sees it.
pub struct Subject<'a> {
    user: &'a UserInfo,
    endpoint: &'a Endpoint,
    operation: Operation,
    namespace: &'a str,
    name: &'a str,
    url_name: &'a str,
    subresource: Option<Subresource>,
    object: Option<&'a Value>,
    old: Option<&'a Value>,
}

impl<'a> Subject<'a> {
    /// The write of a call.
    pub fn new(
        call: &Call<'a>,
        operation: Operation,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
    ) -> Self {
        let name = object.map(|o| o.name()).filter(|name| !name.is_empty()).unwrap_or(call.name);
        let Call { user, endpoint, namespace, name: url_name, subresource, .. } = *call;
        Self { user, endpoint, operation, namespace, name, url_name, subresource, object, old }
    }
}

impl Admission {
    /// The checks over the types that are served; follows namespaces, roles and bindings.
    pub fn new(served: &Served) -> Self {
        let rbac = Arc::new(Rbac::new());
        for collection in &served.collections {
            follow_roles(&rbac, collection);
        }
        let namespaces = served.endpoint("", "v1", "namespaces").map(|e| e.collection);
        Self { rbac, namespaces }
    }

    /// New content needs a namespace that is there and not going away.
    pub async fn namespace(&self, registry: &Registry, subject: &Subject<'_>) -> ApiResult<()> {
        let namespaced = subject.endpoint.resource().scope == Scope::Namespaced;
        let Some(namespaces) = self.namespaces.as_ref().filter(|_| namespaced) else {
            return Ok(());
        };
        if subject.operation == Operation::Update {
            // What can be changed was created in a namespace, which stays as long as its content.
            return Ok(());
        }
        let namespace = subject.namespace;
        let mut found = namespaces.get(namespace);
        if found.is_none() {
            registry.caught_up().await?;
            found = namespaces.get(namespace);
        }
        let Some(found) = found else {
            return Err(ApiError::not_found(
                GroupName { group: "", name: "namespaces" },
                namespace,
            ));
        };
        if found.field(&namespaces.resource, "status.phase") != "Terminating" {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let cause = format!("namespace {namespace} is being terminated");
        Err(ApiError::forbidden(subject.endpoint.group_resource(), subject.name, why).caused(
            "NamespaceTerminating",
            &cause,
            Some("metadata.namespace"),
        ))
    }

    /// All other checks.
    pub fn check(&self, subject: &Subject<'_>) -> ApiResult<()> {
        self.keep_namespaces(subject)?;
        self.prevent_escalation(subject)?;
        self.check_certificates(subject)
    }

    /// PUT of a name that is not there needs the right to create, too.
    pub fn may_create(&self, call: &Call<'_>) -> ApiResult<()> {
        let resource = call.endpoint.group_resource();
        let target = Target::Resource {
            group: resource.group,
            resource: resource.name,
            subresource: "",
            namespace: call.namespace,
            name: call.name,
        };
        authorize(&self.rbac, &Attributes { user: call.user, verb: "create", target })
    }

    fn keep_namespaces(&self, subject: &Subject<'_>) -> ApiResult<()> {
        let is_namespace = subject.endpoint.resource().storage == "namespaces";
        if subject.operation == Operation::Delete
            && is_namespace
            && IMMORTAL_NAMESPACES.contains(&subject.name)
        {
            let resource = subject.endpoint.group_resource();
            let why = "this namespace may not be deleted";
            return Err(ApiError::forbidden(resource, subject.name, why));
        }
        Ok(())
    }

    /// Nobody may grant more than they hold.
    fn prevent_escalation(&self, subject: &Subject<'_>) -> ApiResult<()> {
        let resource = subject.endpoint.group_resource();
        let (Some(object), Some(kind)) = (subject.object, rbac_kind(&subject.endpoint.collection))
        else {
            return Ok(());
        };
        let write = escalation::Write {
            kind,
            namespace: subject.namespace,
            url_name: subject.url_name,
            object,
            old: subject.old,
        };
        let checked = escalation::check_write(&self.rbac, subject.user, &write);
        checked.map_err(|refused| match refused {
            // Upstream names the binding's resource here, not the role's.
            Refused::RoleNotFound { name, .. } => ApiError::not_found(resource, &name),
            why => ApiError::forbidden(resource, subject.name, why),
        })
    }
}

/// Fails with upstream's 403 unless the roles allow it.
pub fn authorize(rbac: &Rbac, attributes: &Attributes<'_>) -> ApiResult<()> {
    if rbac.allows(attributes) {
        return Ok(());
    }
    let reason = rbac.authorize(attributes).reason;
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let user = quoted(&attributes.user.name);
    let verb = attributes.verb;
    match attributes.target {
        Target::Path(path) => {
            let why = format!("User {user} cannot {verb} path {}{because}", quoted(path));
            Err(ApiError::forbidden(GroupName { group: "", name: "" }, "", why))
        }
        Target::Resource { group, resource, subresource, namespace, name } => {
            let slash = if subresource.is_empty() { "" } else { "/" };
            let place = match namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {}", quoted(namespace)),
            };
            let why = format!(
                "User {user} cannot {verb} resource \"{resource}{slash}{subresource}\" in API group {} {place}{because}",
                quoted(group)
            );
            Err(ApiError::forbidden(GroupName { group, name: resource }, name, why))
        }
    }
}

fn rbac_kind(collection: &Collection) -> Option<RbacKind> {
    let resource = &collection.resource;
    let ours = resource.views[0].group == "rbac.authorization.k8s.io";
    ours.then(|| RbacKind::from_resource(&resource.plural)).flatten()
}

/// Keeps the index of roles and bindings as new as the collections.
fn follow_roles(rbac: &Arc<Rbac>, collection: &Collection) {
    let Some(kind) = rbac_kind(collection) else { return };
    let rbac = rbac.clone();
    collection.observe(Box::new(move |event| {
        let gone = event.kind == EventKind::Deleted;
        let object = (!gone).then(|| event.object.value());
        rbac.apply(kind, event.object.namespace(), event.object.name(), object.as_ref());
    }));
}
