//! What each signer of `kubernetes.io` is ready to sign.

use crate::certificate_request::CertificateRequest;

/// The signer of client certificates.
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
/// The signer of client certificates for kubelets.
pub(super) const KUBELET_CLIENT: &str = "kubernetes.io/kube-apiserver-client-kubelet";
/// The signer of serving certificates for kubelets.
const KUBELET_SERVING: &str = "kubernetes.io/kubelet-serving";

const NODES: &str = "system:nodes";
const NODE_PREFIX: &str = "system:node:";

/// Whether a signer signs this; nothing when it is none of ours.
pub(super) fn check(
    signer: &str,
    request: &CertificateRequest,
    usages: &[&str],
) -> Option<Result<(), String>> {
    match signer {
        CLIENT => Some(check_client(usages)),
        KUBELET_CLIENT => Some(check_kubelet_client(request, usages)),
        KUBELET_SERVING => Some(check_kubelet_serving(request, usages)),
        _ => None,
    }
}

fn check_client(usages: &[&str]) -> Result<(), String> {
    let known = ["digital signature", "key encipherment", "client auth"];
    if let Some(other) = usages.iter().find(|usage| !known.contains(usage)) {
        return Err(format!("invalid usage for client certificate: {other}"));
    }
    match usages.contains(&"client auth") {
        true => Ok(()),
        false => Err("missing required usage for client certificate: client auth".into()),
    }
}

/// Whether a request is one that a kubelet makes to speak with this server.
pub(super) fn check_kubelet_client(
    request: &CertificateRequest,
    usages: &[&str],
) -> Result<(), String> {
    let names = &request.names;
    check_organization(request)?;
    refuse(!names.dns.is_empty(), "DNS subjectAltNames are not allowed")?;
    refuse(!names.emails.is_empty(), "Email subjectAltNames are not allowed")?;
    refuse(!names.addresses.is_empty(), "IP subjectAltNames are not allowed")?;
    refuse(!names.uris.is_empty(), "URI subjectAltNames are not allowed")?;
    check_node_name(request)?;
    check_usages(usages, "client auth")
}

fn check_kubelet_serving(request: &CertificateRequest, usages: &[&str]) -> Result<(), String> {
    let names = &request.names;
    check_organization(request)?;
    let nameless = names.dns.is_empty() && names.addresses.is_empty();
    refuse(nameless, "DNS or IP subjectAltName is required")?;
    refuse(!names.emails.is_empty(), "Email subjectAltNames are not allowed")?;
    refuse(!names.uris.is_empty(), "URI subjectAltNames are not allowed")?;
    check_usages(usages, "server auth")?;
    check_node_name(request)
}

fn check_organization(request: &CertificateRequest) -> Result<(), String> {
    let other = request.organizations != [NODES];
    refuse(other, "subject organization is not system:nodes")
}

fn check_node_name(request: &CertificateRequest) -> Result<(), String> {
    let other = !request.common_name.starts_with(NODE_PREFIX);
    refuse(other, "subject common name does not begin with system:node:")
}

/// Keys other than RSA have no use for encipherment.
fn check_usages(usages: &[&str], purpose: &str) -> Result<(), String> {
    let mut found = usages.to_vec();
    found.sort_unstable();
    found.dedup();
    let mut wanted = vec!["digital signature", "key encipherment", purpose];
    wanted.sort_unstable();
    if found == wanted {
        return Ok(());
    }
    let all = format!("usages did not match [{}]", wanted.join(" "));
    wanted.retain(|usage| *usage != "key encipherment");
    refuse(found != wanted, &all)
}

fn refuse(wrong: bool, problem: &str) -> Result<(), String> {
    if wrong { Err(problem.to_owned()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use rcgen::SanType;

    use super::*;
    use crate::certificate_request::tests::request;

    fn verdict(signer: &str, subject: &str, names: &[SanType], usages: &[&str]) -> String {
        let request = CertificateRequest::parse(request(subject, names).as_bytes()).unwrap();
        match check(signer, &request, usages) {
            None => "not ours".into(),
            Some(Ok(())) => "signed".into(),
            Some(Err(problem)) => problem,
        }
    }

    #[test]
    fn clients_get_certificates_for_clients() {
        let check = |usages: &[&str], expected: &str| {
            assert_eq!(verdict(CLIENT, "CN=a", &[], usages), expected);
        };
        check(&["client auth"], "signed");
        check(&["client auth", "digital signature", "key encipherment"], "signed");
        check(&["digital signature"], "missing required usage for client certificate: client auth");
        check(&["client auth", "server auth"], "invalid usage for client certificate: server auth");
        assert_eq!(verdict("example.com/a", "CN=a", &[], &["any"]), "not ours");
    }

    #[test]
    fn kubelets_get_certificates_for_nodes() {
        let dns = || vec![SanType::DnsName("a".try_into().unwrap())];
        let ip = || vec![SanType::IpAddress("10.0.0.1".parse().unwrap())];
        let email = || vec![SanType::Rfc822Name("a@b".try_into().unwrap())];
        let uri = || vec![SanType::URI("a://b".try_into().unwrap())];
        let node = "O=system:nodes CN=system:node:a";
        let check = |subject: &str, names: Vec<SanType>, usages: &[&str], expected: [&str; 2]| {
            let verdicts = [KUBELET_CLIENT, KUBELET_SERVING]
                .map(|signer| verdict(signer, subject, &names, usages));
            assert_eq!(verdicts, expected, "{subject} {usages:?}");
        };
        let client = ["digital signature", "client auth"];
        let serving = ["server auth", "digital signature", "key encipherment"];
        const NO_MATCH: &str =
            "usages did not match [digital signature key encipherment server auth]";
        const NO_CLIENT: &str =
            "usages did not match [client auth digital signature key encipherment]";
        const NAMELESS: &str = "DNS or IP subjectAltName is required";
        check(node, vec![], &client, ["signed", NAMELESS]);
        check(node, dns(), &serving, ["DNS subjectAltNames are not allowed", "signed"]);
        check(node, ip(), &client, ["IP subjectAltNames are not allowed", NO_MATCH]);
        check(node, vec![], &serving, [NO_CLIENT, NAMELESS]);
        let email_problem = "Email subjectAltNames are not allowed";
        check(
            node,
            [dns(), email()].concat(),
            &serving,
            ["DNS subjectAltNames are not allowed", email_problem],
        );
        check(node, email(), &client, [email_problem, NAMELESS]);
        check(node, uri(), &client, ["URI subjectAltNames are not allowed", NAMELESS]);
        let organization = "subject organization is not system:nodes";
        check("CN=system:node:a", vec![], &client, [organization; 2]);
        check("O=system:nodes O2=x CN=system:node:a", dns(), &serving, [organization; 2]);
        let name = "subject common name does not begin with system:node:";
        check("O=system:nodes CN=a", vec![], &client, [name, NAMELESS]);
        check("O=system:nodes CN=a", ip(), &serving, ["IP subjectAltNames are not allowed", name]);
    }
}
