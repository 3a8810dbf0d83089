//! What the server tells about itself: version, health, the kinds it serves.

use anyhow::{Result, ensure};
use lanyard_tests::Cluster;

#[test]
fn the_server_tells_what_it_is_and_serves() -> Result<()> {
    let cluster = Cluster::start()?;
    let admin = &cluster.admin;
    ensure!(admin.ok("version")?.contains("Server Version: v1."));
    let version = admin.json("version")?;
    ensure!(version["serverVersion"]["major"] == "1", "{version}");
    ensure!(admin.ok("cluster-info")?.contains("control plane is running at"));
    admin.prints(
        "api-versions",
        "admissionregistration.k8s.io/v1
         apiextensions.k8s.io/v1
         apiregistration.k8s.io/v1
         apps/v1
         authentication.k8s.io/v1
         authorization.k8s.io/v1
         certificates.k8s.io/v1
         certificates.k8s.io/v1beta1
         coordination.k8s.io/v1
         events.k8s.io/v1
         flowcontrol.apiserver.k8s.io/v1
         rbac.authorization.k8s.io/v1
         v1",
    )?;
    admin.prints("api-resources --no-headers --sort-by=name", API_RESOURCES)?;
    admin.prints(
        "api-resources --namespaced=false --api-group=rbac.authorization.k8s.io -o name",
        "clusterrolebindings.rbac.authorization.k8s.io\nclusterroles.rbac.authorization.k8s.io",
    )?;
    admin.prints(
        "api-resources --verbs=list,create --no-headers -o name --api-group=",
        "configmaps\nevents\nnamespaces\nnodes\npods\npodtemplates\nresourcequotas\nsecrets\nserviceaccounts\nservices",
    )?;
    admin.prints("get all -o name", "service/kubernetes")?;
    admin.prints("get --raw /readyz", "ok")?;
    ensure!(admin.ok("get --raw /livez?verbose")?.ends_with("livez check passed\n"));
    ensure!(admin.ok("get --raw /api/v1/namespaces/default")?.contains(r#""kind":"Namespace""#));
    ensure!(admin.ok("get --raw /metrics")?.contains("# TYPE "));
    let first = admin.ok("get ns --no-headers -o custom-columns=N:.metadata.name")?;
    ensure!(first == "default\nkube-node-lease\nkube-public\nkube-system\n", "{first}");
    Ok(())
}

const API_RESOURCES: &str = "
apiservices apiregistration.k8s.io/v1 false APIService
certificatesigningrequests csr certificates.k8s.io/v1   false CertificateSigningRequest
clusterrolebindings        rbac.authorization.k8s.io/v1 false ClusterRoleBinding
clusterroles               rbac.authorization.k8s.io/v1 false ClusterRole
clustertrustbundles        certificates.k8s.io/v1       false ClusterTrustBundle
configmaps              cm v1                           true  ConfigMap
customresourcedefinitions crd,crds apiextensions.k8s.io/v1 false CustomResourceDefinition
deployments         deploy apps/v1                      true  Deployment
events                  ev v1                           true  Event
events                  ev events.k8s.io/v1             true  Event
flowschemas flowcontrol.apiserver.k8s.io/v1 false FlowSchema
leases                     coordination.k8s.io/v1       true  Lease
localsubjectaccessreviews  authorization.k8s.io/v1      true  LocalSubjectAccessReview
mutatingadmissionpolicies admissionregistration.k8s.io/v1 false MutatingAdmissionPolicy
mutatingadmissionpolicybindings admissionregistration.k8s.io/v1 false MutatingAdmissionPolicyBinding
mutatingwebhookconfigurations admissionregistration.k8s.io/v1 false MutatingWebhookConfiguration
namespaces              ns v1                           false Namespace
nodes                   no v1                           false Node
pods                    po v1                           true  Pod
podtemplates               v1                           true  PodTemplate
prioritylevelconfigurations flowcontrol.apiserver.k8s.io/v1 false PriorityLevelConfiguration
replicasets             rs apps/v1                      true  ReplicaSet
resourcequotas       quota v1                           true  ResourceQuota
rolebindings               rbac.authorization.k8s.io/v1 true  RoleBinding
roles                      rbac.authorization.k8s.io/v1 true  Role
secrets                    v1                           true  Secret
selfsubjectaccessreviews   authorization.k8s.io/v1      false SelfSubjectAccessReview
selfsubjectreviews         authentication.k8s.io/v1     false SelfSubjectReview
selfsubjectrulesreviews    authorization.k8s.io/v1      false SelfSubjectRulesReview
serviceaccounts         sa v1                           true  ServiceAccount
services               svc v1                           true  Service
subjectaccessreviews       authorization.k8s.io/v1      false SubjectAccessReview
tokenreviews               authentication.k8s.io/v1     false TokenReview
validatingadmissionpolicies admissionregistration.k8s.io/v1 false ValidatingAdmissionPolicy
validatingadmissionpolicybindings admissionregistration.k8s.io/v1 false ValidatingAdmissionPolicyBinding
validatingwebhookconfigurations admissionregistration.k8s.io/v1 false ValidatingWebhookConfiguration
";
