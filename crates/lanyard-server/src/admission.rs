//! What depends on other objects: is the namespace there and alive, may this user grant these rights.
//!
//! Runs after authorization and schema checks, before anything is written.

mod certificates;
mod mutation;
mod pods;
mod policies;
mod services;

use std::sync::Arc;

use serde_json::Value;

pub use services::Held;

use self::services::Allocations;
use crate::{
    authn::UserInfo,
    authz::{
        Attributes, Target,
        escalation::{self, Refused},
        rbac::Rbac,
        rules::RbacKind,
    },
    clock,
    collection::{Collection, EventKind},
    field::quoted,
    object::ObjectExt,
    policy::Policies,
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
    policies: Arc<Policies>,
    namespaces: Option<Arc<Collection>>,
    accounts: Option<Arc<Collection>>,
    allocations: Arc<Allocations>,
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
        let policies = Arc::new(Policies::default());
        for collection in &served.collections {
            follow_roles(&rbac, collection);
            Self::follow_policies(&policies, collection);
        }
        let core = |plural| served.endpoint("", "v1", plural).map(|e| e.collection);
        let allocations = Arc::<Allocations>::default();
        if let Some(services) = core("services") {
            allocations.follow(&services);
        }
        Self {
            rbac,
            policies,
            namespaces: core("namespaces"),
            accounts: core("serviceaccounts"),
            allocations,
        }
    }

    /// Puts into a new or changed object what follows from other objects. What it gets that nobody else
    /// may get meanwhile is held until the answer is dropped.
    pub async fn complete(
        &self,
        registry: &Registry,
        call: &Call<'_>,
        object: &mut Value,
        old: Option<&Value>,
    ) -> ApiResult<Option<Held>> {
        let whole = call.subresource.is_none_or(|part| part == Subresource::Scale);
        let name = object.name().to_owned();
        let refused = |why| ApiError::forbidden(call.endpoint.group_resource(), &name, why);
        match &*call.endpoint.resource().storage {
            "pods" if whole => {
                if old.is_none() {
                    self.give_account(registry, call, object).await?;
                    pods::set_priority(object).map_err(refused)?;
                    pods::date_conditions(object, &clock::now_rfc3339());
                }
                pods::tolerate_failures(object);
            }
            "nodes" if whole && old.is_none() => pods::taint_node(object),
            "services" if whole => {
                let key = format!("{}/{name}", call.namespace).into();
                let held = self.allocations.allocate(&key, &mut object["spec"]);
                let invalid =
                    |error| ApiError::invalid(call.endpoint.group_kind(), &name, &[error]);
                return held.map(Some).map_err(invalid);
            }
            _ => {}
        }
        Ok(None)
    }

    /// Every pod runs as a service account, which must be there.
    async fn give_account(
        &self,
        registry: &Registry,
        call: &Call<'_>,
        pod: &mut Value,
    ) -> ApiResult<()> {
        // Upstream's word for those without a name.
        let name = if pod.name().is_empty() { "Unknown" } else { pod.name() }.to_owned();
        let refused = |why| ApiError::forbidden(call.endpoint.group_resource(), &name, why);
        let (Some(accounts), Some(account)) =
            (&self.accounts, pods::account_of(pod).map_err(refused)?)
        else {
            return Ok(());
        };
        let key = format!("{}/{account}", call.namespace);
        let mut found = accounts.get(&key);
        if found.is_none() {
            registry.caught_up().await?;
            found = accounts.get(&key);
        }
        let missing = || {
            refused(format!(
                "error looking up service account {key}: serviceaccount {} not found",
                quoted(&account)
            ))
        };
        pods::take_account(pod, &found.ok_or_else(missing)?.value());
        Ok(())
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
