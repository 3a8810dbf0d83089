//! Certificates on request: asked for, approved or denied, signed by the server, and good for signing in.

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lanyard_testkit::{Identity, certificate_request, wait_until};
use lanyard_tests::{Api, Cluster, SOON};
use serde_json::{Value, json};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
const KUBELET: &str = "kubernetes.io/kube-apiserver-client-kubelet";

/// Lets a user or group use a cluster role.
fn bind(api: &mut Api, kind: &str, name: &str, role: &str) -> Result<()> {
    let body = json!({
        "metadata": {"generateName": "test-"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}],
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    api.post(path, &body)?.expect(201)?;
    Ok(())
}

/// Asks for a certificate; the name of the request is that of the user.
fn ask(api: &mut Api, name: &str, request: &str, signer: &str, usages: &[&str]) -> Result<Value> {
    let spec = json!({
        "request": STANDARD.encode(request), "signerName": signer, "usages": usages,
        "expirationSeconds": 3600, "username": "root", "groups": ["system:masters"],
    });
    api.post(REQUESTS, &json!({"metadata": {"name": name}, "spec": spec}))?.expect(201)
}

fn decide(api: &mut Api, name: &str, decision: &str) -> Result<lanyard_tests::Answer> {
    let mut object = api.get(&format!("{REQUESTS}/{name}/approval"))?.expect(200)?;
    object["status"]["conditions"] = json!([{
        "type": decision, "status": "True", "reason": "Test", "message": "by a test",
    }]);
    api.put(&format!("{REQUESTS}/{name}/approval"), &object)
}

/// The certificate, once there is one.
fn issued(api: &mut Api, name: &str) -> Result<String> {
    let path = format!("{REQUESTS}/{name}");
    let certificate = wait_until("a certificate", SOON, || {
        let object = api.get(&path)?.expect(200)?;
        Ok(object.pointer("/status/certificate").and_then(Value::as_str).map(str::to_owned))
    })?;
    decoded(&certificate)
}

fn decoded(base64: &str) -> Result<String> {
    Ok(String::from_utf8(STANDARD.decode(base64)?)?)
}

/// Who the server takes the holder of a certificate for.
fn identity(cluster: &Cluster, certificate: String, key: String) -> Result<Value> {
    let config = cluster.server.kubeconfig()?;
    let identity = Identity { certificate, key };
    let mut api = Api::new(&config.server, &config.authorities, Some(&identity))?;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let review = api.post(path, &json!({}))?.expect(201)?;
    Ok(review["status"]["userInfo"].clone())
}

#[test]
fn an_approved_request_becomes_a_certificate_to_sign_in_with() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut admin = cluster.api()?;
    bind(&mut admin, "User", "bob", "system:node-bootstrapper")?;
    let mut bob = cluster.user_api("bob", &["dev"])?;
    let (request, key) = certificate_request("bob-2", &["dev"])?;
    let object = ask(&mut bob, "bob-2", &request, CLIENT, &["client auth"])?;
    ensure!(object["spec"]["username"] == "bob", "{object}");
    ensure!(object["spec"]["groups"] == json!(["dev", "system:authenticated"]), "{object}");
    ensure!(object["status"] == json!({}), "{object}");

    // Who asks does not decide.
    let path = format!("{REQUESTS}/bob-2/approval");
    bob.put(&path, &object)?.expect(403)?;
    cluster.admin.prints(
        "get csr --no-headers -o custom-columns=N:.metadata.name,S:.spec.signerName",
        &format!("bob-2 {CLIENT}"),
    )?;
    ensure!(cluster.admin.ok("get csr")?.contains("Pending"));
    cluster.admin.prints(
        "certificate approve bob-2",
        "certificatesigningrequest.certificates.k8s.io/bob-2 approved",
    )?;
    let certificate = issued(&mut admin, "bob-2")?;
    ensure!(cluster.admin.ok("get csr")?.contains("Approved,Issued"));
    let user = identity(&cluster, certificate, key)?;
    ensure!(user["username"] == "bob-2", "{user}");
    ensure!(user["groups"] == json!(["dev", "system:authenticated"]), "{user}");

    // What is decided stays so.
    let mut object = admin.get(&format!("{REQUESTS}/bob-2"))?.expect(200)?;
    object["status"]["conditions"] = json!([]);
    admin.put(&path, &object)?.expect(422)?;
    Ok(())
}

#[test]
fn a_denied_request_is_not_signed_and_a_wrong_one_fails() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut admin = cluster.api()?;
    for (name, usage) in [("denied", "client auth"), ("wrong", "server auth")] {
        let (request, _) = certificate_request(name, &[])?;
        ask(&mut admin, name, &request, CLIENT, &[usage])?;
    }
    cluster.admin.prints(
        "certificate deny denied",
        "certificatesigningrequest.certificates.k8s.io/denied denied",
    )?;
    decide(&mut admin, "denied", "Approved")?.expect(422)?;
    decide(&mut admin, "wrong", "Approved")?.expect(200)?;
    let failed = wait_until("a refusal", SOON, || {
        let object = admin.get(&format!("{REQUESTS}/wrong"))?.expect(200)?;
        Ok(object.pointer("/status/conditions/1").cloned())
    })?;
    ensure!(failed["type"] == "Failed", "{failed}");
    ensure!(failed["reason"] == "SignerValidationFailure", "{failed}");
    ensure!(failed["message"] == "invalid usage for client certificate: server auth", "{failed}");
    let table = cluster.admin.ok("get csr --no-headers")?;
    ensure!(table.contains("Denied\n") && table.contains("Approved,Failed\n"), "{table}");

    let (request, _) = certificate_request("root", &["system:masters"])?;
    let body = json!({"metadata": {"name": "root"}, "spec": {
        "request": STANDARD.encode(request), "signerName": CLIENT, "usages": ["client auth"],
    }});
    let refused = admin.post(REQUESTS, &body)?.expect(403)?;
    ensure!(
        refused["message"]
            == "certificatesigningrequests.certificates.k8s.io \"root\" is forbidden: use of \
                kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed",
        "{refused}"
    );
    Ok(())
}

#[test]
fn approving_and_signing_take_rights_on_the_signer() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut admin = cluster.api()?;
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let parts = ["certificatesigningrequests/approval", "certificatesigningrequests/status"];
    let rules = json!([
        {"apiGroups": ["certificates.k8s.io"], "resources": parts, "verbs": ["get", "update"]},
    ]);
    let role = json!({"metadata": {"name": "decider"}, "rules": rules});
    admin.post(roles, &role)?.expect(201)?;
    bind(&mut admin, "User", "eve", "decider")?;
    let (request, _) = certificate_request("a", &[])?;
    ask(&mut admin, "a", &request, "example.com/signer", &["client auth"])?;
    let mut eve = cluster.user_api("eve", &[])?;
    let refused = decide(&mut eve, "a", "Approved")?.expect(403)?;
    ensure!(
        refused["message"]
            == "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: user not permitted \
                to approve requests with signerName \"example.com/signer\"",
        "{refused}"
    );
    let path = format!("{REQUESTS}/a/status");
    let mut object = eve.get(&path)?.expect(200)?;
    eve.put(&path, &object)?.expect(200)?;
    object["status"]["conditions"] = json!([{"type": "Other", "status": "True"}]);
    let refused = eve.put(&path, &object)?.expect(403)?;
    ensure!(
        refused["message"]
            == "certificatesigningrequests.certificates.k8s.io \"a\" is forbidden: user not permitted \
                to sign requests with signerName \"example.com/signer\"",
        "{refused}"
    );
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["signers"],
        "verbs": ["approve", "sign"], "resourceNames": ["example.com/*"]}]);
    let role = json!({"metadata": {"name": "signer"}, "rules": rules});
    admin.post(roles, &role)?.expect(201)?;
    bind(&mut admin, "User", "eve", "signer")?;
    eve.put(&path, &object)?.expect(200)?;
    let object = eve.get(&path)?.expect(200)?;
    ensure!(object.pointer("/status/conditions/0/lastUpdateTime").is_some(), "{object}");
    Ok(())
}

#[test]
fn a_kubelet_that_may_is_approved_by_itself() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut admin = cluster.api()?;
    let role = "system:certificates.k8s.io:certificatesigningrequests:nodeclient";
    bind(&mut admin, "Group", "bootstrappers", "system:node-bootstrapper")?;
    bind(&mut admin, "Group", "bootstrappers", role)?;
    let mut kubelet = cluster.user_api("boot", &["bootstrappers"])?;
    let (request, key) = certificate_request("system:node:a", &["system:nodes"])?;
    ask(&mut kubelet, "node-a", &request, KUBELET, &["client auth", "digital signature"])?;
    let certificate = issued(&mut kubelet, "node-a")?;
    let object = kubelet.get(&format!("{REQUESTS}/node-a"))?.expect(200)?;
    let condition = &object["status"]["conditions"][0];
    ensure!(condition["type"] == "Approved" && condition["reason"] == "AutoApproved", "{object}");
    let user = identity(&cluster, certificate, key)?;
    ensure!(user["username"] == "system:node:a", "{user}");
    ensure!(user["groups"] == json!(["system:nodes", "system:authenticated"]), "{user}");
    Ok(())
}

#[test]
fn a_bundle_for_a_signer_takes_the_right_to_attest() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut admin = cluster.api()?;
    let rules = |names: &[&str]| {
        json!([
            {"apiGroups": ["certificates.k8s.io"], "resources": ["clustertrustbundles"], "verbs": ["*"]},
            {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "verbs": ["attest"],
                "resourceNames": names},
        ])
    };
    let role = json!({"metadata": {"name": "attester"}, "rules": rules(&["example.com/mine"])});
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    admin.post(roles, &role)?.expect(201)?;
    bind(&mut admin, "User", "eve", "attester")?;
    let mut eve = cluster.user_api("eve", &[])?;
    let authority = lanyard_testkit::Authority::new("roots")?.pem();
    let bundle = |name: &str, signer: &str| {
        let spec = json!({"signerName": signer, "trustBundle": authority});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let bundles = "/apis/certificates.k8s.io/v1/clustertrustbundles";
    eve.post(bundles, &bundle("example.com:mine:a", "example.com/mine"))?.expect(201)?;
    eve.post(bundles, &bundle("anything", ""))?.expect(201)?;
    let refused = eve.post(bundles, &bundle("example.com:other:a", "example.com/other"))?;
    let refused = refused.expect(403)?;
    ensure!(
        refused["message"]
            == "clustertrustbundles.certificates.k8s.io \"example.com:other:a\" is forbidden: user not \
                permitted to attest for signerName \"example.com/other\"",
        "{refused}"
    );
    // The same object in both versions.
    let path = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles/example.com:mine:a";
    let object = eve.get(path)?.expect(200)?;
    ensure!(object["apiVersion"] == "certificates.k8s.io/v1beta1", "{object}");

    // Without the right, owners and finalizers can change, and nothing else.
    let role = json!({"rules": rules(&["example.com/none"])});
    admin.merge(&format!("{roles}/attester"), &role)?.expect(200)?;
    let path = format!("{bundles}/example.com:mine:a");
    eve.merge(&path, &json!({"metadata": {"finalizers": ["example.com/x"]}}))?.expect(200)?;
    eve.merge(&path, &json!({"metadata": {"labels": {"a": "b"}}}))?.expect(403)?;
    eve.merge(&path, &json!({"metadata": {"finalizers": null}}))?.expect(200)?;
    eve.delete(&path, None)?.expect(200)?;
    Ok(())
}
