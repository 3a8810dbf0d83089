//! The objects that every server starts with: namespaces, roles, API services, flow schemas, the
//! `kubernetes` service.
//!
//! Written through the registry like any other write, and only where something is missing, so that a
//! restart changes nothing and several servers may start at once.

use std::{net::SocketAddr, sync::Arc};

use futures_util::future::try_join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    authn::UserInfo,
    authz::{
        bootstrap,
        reconcile::{self, Change},
    },
    object::ObjectExt,
    registry::{self, Call, Registry, delete::DeleteOptions},
    resource::Scope,
    reviews::Review,
    status::{ApiError, ApiResult},
    types::{api_service::bootstrap as api_service, flow_control::bootstrap as flow_control},
};

/// The namespaces that are always there.
const NAMESPACES: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

const RBAC: &str = "rbac.authorization.k8s.io";
const API_REGISTRATION: &str = "apiregistration.k8s.io";
const FLOW_CONTROL: &str = "flowcontrol.apiserver.k8s.io";

/// Writes what is missing.
pub(super) async fn run(registry: &Arc<Registry>, address: SocketAddr) -> ApiResult<()> {
    // All at once, so that the writes share a few commits; only what needs a namespace waits for it.
    try_join_all(NAMESPACES.map(|name| {
        let object = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}});
        ensure(registry, ("", "v1", "namespaces"), object, |found, _| found.is_none())
    }))
    .await?;
    let roles = bootstrap::objects();
    let roles = roles
        .iter()
        .map(|(kind, wanted)| reconcile_role(registry, (RBAC, "v1", kind.resource()), wanted));
    let flows = flow_control::objects();
    let flows = flows.into_iter().map(|(resource, wanted)| {
        ensure(registry, (FLOW_CONTROL, "v1", resource), wanted, flow_control::differs)
    });
    let services = api_services(registry).into_iter().map(|wanted| {
        ensure(registry, (API_REGISTRATION, "v1", "apiservices"), wanted, api_service::differs)
    });
    let service = kubernetes_service(address);
    let service = ensure(registry, ("", "v1", "services"), service, service_differs);
    tokio::try_join!(try_join_all(roles), try_join_all(flows), try_join_all(services), service)?;
    Ok(())
}

/// Who owns the fields that the server itself writes.
pub(crate) const SYSTEM_MANAGER: &str = "lanyard";

/// The user that the server itself writes as.
pub(crate) fn system_user() -> UserInfo {
    UserInfo {
        name: "system:apiserver".into(),
        groups: vec!["system:masters".into(), "system:authenticated".into()],
        ..UserInfo::default()
    }
}

type Resource<'a> = (&'a str, &'a str, &'a str);

/// Creates `wanted` if it is not there, replaces it if `differs` says so.
async fn ensure(
    registry: &Registry,
    resource: Resource<'_>,
    wanted: Value,
    differs: fn(Option<&Value>, &Value) -> bool,
) -> ApiResult<()> {
    let found = existing(registry, resource, &wanted)?;
    match found {
        None => store(registry, resource, Change::Create(wanted)).await,
        Some(found) if differs(Some(&found), &wanted) => {
            let mut new = found;
            new["spec"] = wanted["spec"].clone();
            store(registry, resource, Change::Update(new)).await
        }
        Some(_) => Ok(()),
    }
}

async fn reconcile_role(
    registry: &Registry,
    resource: Resource<'_>,
    wanted: &Value,
) -> ApiResult<()> {
    let found = existing(registry, resource, wanted)?;
    match reconcile::reconcile(found.as_ref(), wanted) {
        Some(change) => store(registry, resource, change).await,
        None => Ok(()),
    }
}

fn existing(
    registry: &Registry,
    resource: Resource<'_>,
    wanted: &Value,
) -> ApiResult<Option<Value>> {
    let endpoint = registry.endpoint(resource.0, resource.1, resource.2);
    let endpoint = endpoint.ok_or_else(ApiError::no_such_resource)?;
    let key = match endpoint.resource().scope {
        Scope::Cluster => wanted.name().to_owned(),
        Scope::Namespaced => format!("{}/{}", wanted.namespace(), wanted.name()),
    };
    Ok(endpoint.collection.get(&key).map(|object| object.value()))
}

async fn store(registry: &Registry, resource: Resource<'_>, change: Change) -> ApiResult<()> {
    let endpoint = registry.endpoint(resource.0, resource.1, resource.2);
    let endpoint = endpoint.ok_or_else(ApiError::no_such_resource)?;
    let (user, warnings) = (system_user(), Mutex::default());
    let object = match &change {
        Change::Create(object) | Change::Update(object) | Change::Recreate(object) => {
            object.clone()
        }
    };
    let (namespace, name) = (object.namespace().to_owned(), object.name().to_owned());
    let call = Call {
        user: &user,
        endpoint: &endpoint,
        namespace: &namespace,
        name: &name,
        subresource: None,
        manager: SYSTEM_MANAGER,
        warnings: &warnings,
    };
    let written = match change {
        Change::Create(_) => registry.create_object(&call, object, false).await,
        Change::Update(_) => {
            registry.change(&call, &registry::Change::Replace(object), false).await
        }
        Change::Recreate(_) => {
            drop(registry.delete(&call, &DeleteOptions::default()).await?);
            registry.create_object(&call, object, false).await
        }
    };
    match written {
        // Another server was faster: what it wrote is what we wanted.
        Err(error) if matches!(error.reason(), "AlreadyExists" | "Conflict") => Ok(()),
        result => result.map(drop),
    }
}

/// The API services of the group versions that are served.
fn api_services(registry: &Registry) -> Vec<Value> {
    let served = registry.served();
    let views = served.collections.iter().flat_map(|collection| &collection.resource.views);
    let stored = views.map(|view| (&*view.group, &*view.version));
    let answered = Review::ALL.iter().map(|review| (review.group(), "v1"));
    api_service::objects(stored.chain(answered))
}

/// What in-cluster clients look up to find the API; there is no cluster network, so it has no
/// address of its own.
fn kubernetes_service(address: SocketAddr) -> Value {
    json!({
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {
            "name": "kubernetes",
            "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "clusterIPs": ["None"],
            "internalTrafficPolicy": "Cluster",
            "ipFamilies": [if address.is_ipv4() { "IPv4" } else { "IPv6" }],
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": address.port()}],
        },
    })
}

fn service_differs(found: Option<&Value>, wanted: &Value) -> bool {
    found.is_none_or(|found| found.at(&["spec", "ports"]) != wanted.at(&["spec", "ports"]))
}
