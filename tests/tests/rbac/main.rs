//! Who may do what, through the real doors: client certificates, service-account tokens, impersonation and nobody
//! at all, against the roles that every server starts with and roles made here.

mod grants;
mod identities;
mod matrix;

use anyhow::Result;
use lanyard_tests::{Answer, Api, Cluster};
use serde_json::Value;

/// Two namespaces; in `red` vera may view, ed may edit and ada is admin; `auditors` may view everywhere.
const PEOPLE: &str = "
{apiVersion: v1, kind: List, items: [
  {apiVersion: v1, kind: Namespace, metadata: {name: red}},
  {apiVersion: v1, kind: Namespace, metadata: {name: blue}},
  {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: red}},
  {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: red}},
  {apiVersion: v1, kind: Secret, metadata: {name: s, namespace: red}},
  {apiVersion: v1, kind: ServiceAccount, metadata: {name: robot, namespace: red}},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: viewers, namespace: red},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view},
   subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: vera}]},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: editors, namespace: red},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: edit},
   subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ed}, {kind: ServiceAccount, name: robot, namespace: red}]},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: admins, namespace: red},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin},
   subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: ada}]},
  {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: auditors},
   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view},
   subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: auditors}]},
]}";

fn people() -> Result<Cluster> {
    let cluster = Cluster::start()?;
    cluster.admin.create(PEOPLE)?;
    // The built-in roles get their rules from others, a moment after the start.
    cluster.admin.ok("wait clusterrole admin --for=jsonpath={.rules[0].verbs} --timeout=30s")?;
    Ok(cluster)
}

fn ask(api: &mut Api, method: &str, path: &str, body: &str) -> Result<Answer> {
    let body = match body {
        "" => None,
        text => Some(serde_json::from_str::<Value>(text)?),
    };
    match (method, &body) {
        ("GET", _) => api.get(path),
        ("POST", Some(body)) => api.post(path, body),
        ("PUT", Some(body)) => api.put(path, body),
        ("PATCH", Some(body)) => api.merge(path, body),
        (_, body) => api.delete(path, body.as_ref()),
    }
}
