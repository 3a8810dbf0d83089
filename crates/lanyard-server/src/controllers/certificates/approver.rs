//! Which requests need no person to approve them: those of kubelets for client certificates, if whoever
//! sent them may create `certificatesigningrequests/nodeclient` or, for their own, `selfnodeclient`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    signer::{KUBELET_CLIENT, check_kubelet_client},
    usages,
};
use crate::{
    authn::UserInfo,
    authz::{Attributes, Target, rbac::Rbac},
    certificate_request::CertificateRequest,
    object::ObjectExt,
};

/// Why a request is approved; nothing when that is not for us to decide.
pub(super) fn approval(
    object: &Value,
    request: &CertificateRequest,
    rbac: &Rbac,
) -> Option<&'static str> {
    if object.text(&["spec", "signerName"]) != KUBELET_CLIENT
        || check_kubelet_client(request, &usages(object)).is_err()
    {
        return None;
    }
    let user = requester(object);
    let may = |subresource: &str| {
        let target = Target::Resource {
            group: "certificates.k8s.io",
            resource: "certificatesigningrequests",
            subresource,
            namespace: "",
            name: "",
        };
        rbac.allows(&Attributes { user: &user, verb: "create", target })
    };
    if user.name == request.common_name && may("selfnodeclient") {
        return Some("Auto approving self kubelet client certificate after SubjectAccessReview.");
    }
    may("nodeclient")
        .then_some("Auto approving kubelet client certificate after SubjectAccessReview.")
}

/// Who sent the request, as the server noted then.
fn requester(object: &Value) -> UserInfo {
    let texts = |list: Option<&Value>| -> Vec<String> {
        let list = list.and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = object.at(&["spec", "extra"]).and_then(Value::as_object);
    let extra: BTreeMap<String, Vec<String>> = extra
        .into_iter()
        .flatten()
        .map(|(key, values)| (key.clone(), texts(Some(values))))
        .collect();
    UserInfo {
        name: object.text(&["spec", "username"]).to_owned(),
        uid: object.text(&["spec", "uid"]).to_owned(),
        groups: texts(object.at(&["spec", "groups"])),
        extra,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        authz::{bootstrap, rules::RbacKind},
        certificate_request::tests::request,
    };

    #[test]
    fn kubelets_are_approved_if_they_may() {
        let rbac = Rbac::new();
        for (kind, object) in bootstrap::objects() {
            rbac.apply(kind, object.namespace(), object.name(), Some(&object));
        }
        for (role, group) in [("nodeclient", "bootstrappers"), ("selfnodeclient", "system:nodes")] {
            let name = format!("system:certificates.k8s.io:certificatesigningrequests:{role}");
            let binding = json!({
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "Group", "name": group}],
            });
            rbac.apply(RbacKind::ClusterRoleBinding, "", role, Some(&binding));
        }
        let check =
            |user: &str, group: &str, signer: &str, subject: &str, expected: Option<&str>| {
                let request = CertificateRequest::parse(request(subject, &[]).as_bytes()).unwrap();
                let object = json!({"spec": {"username": user, "groups": [group],
                "signerName": signer, "usages": ["client auth", "digital signature"]}});
                let found = approval(&object, &request, &rbac);
                let found = found.map(|why| if why.contains("self") { "self" } else { "node" });
                assert_eq!(found, expected, "{user} {group} {signer} {subject}");
            };
        let node = "O=system:nodes CN=system:node:a";
        check("boot", "bootstrappers", KUBELET_CLIENT, node, Some("node"));
        check("system:node:a", "system:nodes", KUBELET_CLIENT, node, Some("self"));
        check("system:node:b", "system:nodes", KUBELET_CLIENT, node, None);
        check("boot", "others", KUBELET_CLIENT, node, None);
        check("boot", "bootstrappers", KUBELET_CLIENT, "O=system:nodes CN=a", None);
        check("boot", "bootstrappers", "kubernetes.io/kubelet-serving", node, None);
    }
}
