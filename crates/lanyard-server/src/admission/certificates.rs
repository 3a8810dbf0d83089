//! Who may decide about certificates, and which ones nobody may ask for.
//!
//! The checks of upstream's plugins CertificateApproval, CertificateSigning,
//! CertificateSubjectRestriction and ClusterTrustBundleAttest.

use serde_json::Value;

use super::{Admission, Operation, Subject};
use crate::{
    authn::UserInfo,
    authz::{Attributes, Target, escalation, rbac::Rbac, rules::PRIVILEGED_GROUP},
    certificate_request::CertificateRequest,
    field::quoted,
    object::ObjectExt,
    resource::Subresource,
    schema::decode_bytes,
    status::{ApiError, ApiResult},
};

const GROUP: &str = "certificates.k8s.io";

/// The signer of client certificates for this server.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";

impl Admission {
    pub(super) fn check_certificates(&self, subject: &Subject<'_>) -> ApiResult<()> {
        if subject.endpoint.view().group != GROUP {
            return Ok(());
        }
        let checked = match &*subject.endpoint.resource().plural {
            "certificatesigningrequests" => self.check_request(subject),
            "clustertrustbundles" => self.check_trust_bundle(subject),
            _ => Ok(()),
        };
        checked.map_err(|why| {
            ApiError::forbidden(subject.endpoint.group_resource(), subject.name, why)
        })
    }

    fn check_request(&self, subject: &Subject<'_>) -> Result<(), String> {
        let Some(new) = subject.object else { return Ok(()) };
        match (subject.operation, subject.subresource, subject.old) {
            (Operation::Create, None, _) => restrict_subject(new),
            (Operation::Update, Some(Subresource::Approval), Some(old)) => {
                self.check_signer(subject.user, "approve", old, "approve requests with")
            }
            (Operation::Update, Some(Subresource::Status), Some(old)) => {
                let same = |field| new.at(&["status", field]) == old.at(&["status", field]);
                if same("certificate") && same("conditions") {
                    return Ok(());
                }
                self.check_signer(subject.user, "sign", old, "sign requests with")
            }
            _ => Ok(()),
        }
    }

    /// Whoever says whom to trust for a signer must be allowed to speak for it.
    fn check_trust_bundle(&self, subject: &Subject<'_>) -> Result<(), String> {
        let Some(new) = subject.object.filter(|_| subject.operation != Operation::Delete) else {
            return Ok(());
        };
        if new.text(&["spec", "signerName"]).is_empty()
            || escalation::only_garbage_collection(new, subject.old)
        {
            return Ok(());
        }
        self.check_signer(subject.user, "attest", new, "attest for")
    }

    fn check_signer(
        &self,
        user: &UserInfo,
        verb: &str,
        object: &Value,
        what: &str,
    ) -> Result<(), String> {
        let signer = object.text(&["spec", "signerName"]);
        match may_act_for(&self.rbac, user, verb, signer) {
            true => Ok(()),
            false => Err(format!("user not permitted to {what} signerName {}", quoted(signer))),
        }
    }
}

/// Whether the user may do `verb` with a signer, or with all of its domain.
fn may_act_for(rbac: &Rbac, user: &UserInfo, verb: &str, signer: &str) -> bool {
    let domain = signer.split('/').next().unwrap_or_default();
    [signer, &format!("{domain}/*")].into_iter().any(|name| {
        let target = Target::Resource {
            group: GROUP,
            resource: "signers",
            subresource: "",
            namespace: "",
            name,
        };
        rbac.allows(&Attributes { user, verb, target })
    })
}

/// Nobody gets into the group that may do everything by asking for a certificate.
fn restrict_subject(object: &Value) -> Result<(), String> {
    if object.text(&["spec", "signerName"]) != CLIENT_SIGNER {
        return Ok(());
    }
    let text = decode_bytes(object.text(&["spec", "request"])).unwrap_or_default();
    let request = CertificateRequest::parse(&text)
        .map_err(|problem| format!("failed to parse CSR: {problem}"))?;
    if request.organizations.iter().any(|group| group == PRIVILEGED_GROUP) {
        return Err(format!(
            "use of {CLIENT_SIGNER} signer with {PRIVILEGED_GROUP} group is not allowed"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        authz::rules::RbacKind, certificate_request::tests::request, schema::encode_bytes,
    };

    #[test]
    fn a_signer_or_its_whole_domain_is_allowed() {
        let rbac = Rbac::new();
        let role = json!({"rules": [{"apiGroups": [GROUP], "resources": ["signers"],
            "verbs": ["approve"], "resourceNames": ["a.example/one", "b.example/*"]}]});
        let binding = json!({
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "User", "name": "u"}],
        });
        rbac.apply(RbacKind::ClusterRole, "", "r", Some(&role));
        rbac.apply(RbacKind::ClusterRoleBinding, "", "b", Some(&binding));
        let user = UserInfo { name: "u".into(), ..UserInfo::default() };
        let check = |verb: &str, signer: &str, expected: bool| {
            assert_eq!(may_act_for(&rbac, &user, verb, signer), expected, "{verb} {signer}");
        };
        check("approve", "a.example/one", true);
        check("approve", "a.example/two", false);
        check("approve", "b.example/two", true);
        check("sign", "b.example/two", false);
    }

    #[test]
    fn nobody_asks_for_all_rights() {
        let check = |signer: &str, subject: &str, allowed: bool| {
            let object = json!({"spec": {
                "signerName": signer, "request": encode_bytes(request(subject, &[])),
            }});
            assert_eq!(restrict_subject(&object).is_ok(), allowed, "{signer} {subject}");
        };
        check(CLIENT_SIGNER, "O=dev CN=a", true);
        check(CLIENT_SIGNER, "O=system:masters CN=a", false);
        check(CLIENT_SIGNER, "O=dev O2=system:masters CN=a", false);
        check("example.com/a", "O=system:masters CN=a", true);
    }
}
