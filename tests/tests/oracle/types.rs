//! What the script about every type needs to know of each.

/// The variables of one type.
pub(crate) type Variables = &'static [(&'static str, &'static str)];

/// Every type that can be written.
pub(crate) const ALL: &[Variables] = &[
    &[
        ("type", "configmaps"),
        ("other", "ServiceAccount"),
        ("all", "/api/v1/configmaps"),
        ("path", "/api/v1/namespaces/every/configmaps"),
        ("kind", "ConfigMap"),
        ("version", "v1"),
        ("content", r#""data": {"a": "b"}"#),
        ("changed", r#""data": {"a": "c", "d": "e"}"#),
        ("wrong", r#""data": {"a": 1}"#),
    ],
    &[
        ("type", "secrets"),
        ("other", "ConfigMap"),
        ("all", "/api/v1/secrets"),
        ("path", "/api/v1/namespaces/every/secrets"),
        ("kind", "Secret"),
        ("version", "v1"),
        ("content", r#""data": {"a": "Yg=="}"#),
        ("changed", r#""data": {"a": "Yw=="}, "stringData": {"d": "e"}"#),
        ("wrong", r#""type": ["Opaque"]"#),
    ],
    &[
        ("type", "serviceaccounts"),
        ("other", "ConfigMap"),
        ("all", "/api/v1/serviceaccounts"),
        ("path", "/api/v1/namespaces/every/serviceaccounts"),
        ("kind", "ServiceAccount"),
        ("version", "v1"),
        ("content", r#""automountServiceAccountToken": false"#),
        ("changed", r#""automountServiceAccountToken": true, "imagePullSecrets": [{"name": "p"}]"#),
        ("wrong", r#""automountServiceAccountToken": "yes""#),
    ],
    &[
        ("type", "events"),
        ("other", "ConfigMap"),
        ("all", "/api/v1/events"),
        ("path", "/api/v1/namespaces/every/events"),
        ("kind", "Event"),
        ("version", "v1"),
        (
            "content",
            r#""involvedObject": {"kind": "ConfigMap", "namespace": "every", "name": "x"}, "reason": "Because", "type": "Normal", "message": "m", "count": 1"#,
        ),
        (
            "changed",
            r#""involvedObject": {"kind": "ConfigMap", "namespace": "every", "name": "x"}, "reason": "Because", "type": "Normal", "message": "n", "count": 2"#,
        ),
        ("wrong", r#""involvedObject": "x""#),
    ],
    &[
        ("type", "events.events.k8s.io"),
        ("other", "ConfigMap"),
        ("all", "/apis/events.k8s.io/v1/events"),
        ("path", "/apis/events.k8s.io/v1/namespaces/every/events"),
        ("kind", "Event"),
        ("version", "events.k8s.io/v1"),
        (
            "content",
            r#""eventTime": "2020-01-02T03:04:05.678901Z", "action": "Do", "reportingController": "x.io/c", "reportingInstance": "i", "regarding": {"kind": "ConfigMap", "namespace": "every", "name": "x"}, "reason": "Because", "type": "Normal", "note": "m""#,
        ),
        (
            "changed",
            r#""eventTime": "2020-01-02T03:04:05.678901Z", "action": "Do", "reportingController": "x.io/c", "reportingInstance": "i", "regarding": {"kind": "ConfigMap", "namespace": "every", "name": "x"}, "reason": "Because", "type": "Normal", "note": "m", "series": {"count": 2, "lastObservedTime": "2020-01-02T03:04:06.678901Z"}"#,
        ),
        ("wrong", r#""regarding": "x""#),
    ],
    &[
        ("type", "leases"),
        ("other", "ConfigMap"),
        ("all", "/apis/coordination.k8s.io/v1/leases"),
        ("path", "/apis/coordination.k8s.io/v1/namespaces/every/leases"),
        ("kind", "Lease"),
        ("version", "coordination.k8s.io/v1"),
        ("content", r#""spec": {"holderIdentity": "h", "leaseDurationSeconds": 10}"#),
        ("changed", r#""spec": {"holderIdentity": "i", "leaseDurationSeconds": 20}"#),
        ("wrong", r#""spec": {"leaseDurationSeconds": "ten"}"#),
    ],
    &[
        ("type", "roles"),
        ("other", "ConfigMap"),
        ("all", "/apis/rbac.authorization.k8s.io/v1/roles"),
        ("path", "/apis/rbac.authorization.k8s.io/v1/namespaces/every/roles"),
        ("kind", "Role"),
        ("version", "rbac.authorization.k8s.io/v1"),
        (
            "content",
            r#""rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]"#,
        ),
        (
            "changed",
            r#""rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}]"#,
        ),
        ("wrong", r#""rules": {}"#),
    ],
    &[
        ("type", "clusterroles"),
        ("other", "ConfigMap"),
        ("all", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        ("path", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        ("kind", "ClusterRole"),
        ("version", "rbac.authorization.k8s.io/v1"),
        ("content", r#""rules": [{"nonResourceURLs": ["/x"], "verbs": ["get"]}]"#),
        ("changed", r#""rules": [{"nonResourceURLs": ["/y"], "verbs": ["get"]}]"#),
        ("wrong", r#""aggregationRule": []"#),
    ],
    &[
        ("type", "rolebindings"),
        ("other", "ConfigMap"),
        ("all", "/apis/rbac.authorization.k8s.io/v1/rolebindings"),
        ("path", "/apis/rbac.authorization.k8s.io/v1/namespaces/every/rolebindings"),
        ("kind", "RoleBinding"),
        ("version", "rbac.authorization.k8s.io/v1"),
        (
            "content",
            r#""roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "every"}]"#,
        ),
        (
            "changed",
            r#""roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "Group", "name": "g"}]"#,
        ),
        ("wrong", r#""roleRef": [], "subjects": []"#),
    ],
    &[
        ("type", "clusterrolebindings"),
        ("other", "ConfigMap"),
        ("all", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
        ("path", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
        ("kind", "ClusterRoleBinding"),
        ("version", "rbac.authorization.k8s.io/v1"),
        (
            "content",
            r#""roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "User", "name": "u"}]"#,
        ),
        (
            "changed",
            r#""roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}, "subjects": [{"kind": "Group", "name": "g"}]"#,
        ),
        ("wrong", r#""subjects": {}"#),
    ],
    &[
        ("type", "namespaces"),
        ("other", "ConfigMap"),
        ("all", "/api/v1/namespaces"),
        ("path", "/api/v1/namespaces"),
        ("kind", "Namespace"),
        ("version", "v1"),
        ("content", r#""spec": {}"#),
        ("changed", r#""spec": {}"#),
        ("wrong", r#""spec": []"#),
    ],
    &[
        ("type", "certificatesigningrequests"),
        ("other", "ConfigMap"),
        ("all", "/apis/certificates.k8s.io/v1/certificatesigningrequests"),
        ("path", "/apis/certificates.k8s.io/v1/certificatesigningrequests"),
        ("kind", "CertificateSigningRequest"),
        ("version", "certificates.k8s.io/v1"),
        (
            "content",
            r#""spec": {"request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWk1JR0FBZ0VBTUI0eEREQUtCZ05WQkFvTUEyUmxkakVPTUF3R0ExVUVBd3dGWVd4cFkyVXdXVEFUQmdjcQpoa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVRVSTluVlY5WWFKTVRsWU5Pa0VoM08reTdnWFF0SEFudzNqNDhECldlWm4zbXdNSDA0Q0NId0ZrL2VVcDYzWVBuZlFuZ05MNkw2T3hDQ2QvRXNYSHVQRm9BQXdDZ1lJS29aSXpqMEUKQXdJRFNBQXdSUUlnWHRsTW4ydnpkRkxxWjA5Tng2MTlCd3Y2Z00wMnJnNC9HOFhXZnJoeVk3NENJUUNsNmhqUwozSk8zb25aUWtETjhESzlJWkJiUWUwSjVvc3FzQXlBSHZhMEVQdz09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=", "signerName": "example.com/signer", "usages": ["client auth"], "expirationSeconds": 3600, "username": "root", "groups": ["g"], "extra": {"a": ["b"]}, "uid": "u"}"#,
        ),
        (
            "changed",
            r#""spec": {"request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIWk1JR0FBZ0VBTUI0eEREQUtCZ05WQkFvTUEyUmxkakVPTUF3R0ExVUVBd3dGWVd4cFkyVXdXVEFUQmdjcQpoa2pPUFFJQkJnZ3Foa2pPUFFNQkJ3TkNBQVRVSTluVlY5WWFKTVRsWU5Pa0VoM08reTdnWFF0SEFudzNqNDhECldlWm4zbXdNSDA0Q0NId0ZrL2VVcDYzWVBuZlFuZ05MNkw2T3hDQ2QvRXNYSHVQRm9BQXdDZ1lJS29aSXpqMEUKQXdJRFNBQXdSUUlnWHRsTW4ydnpkRkxxWjA5Tng2MTlCd3Y2Z00wMnJnNC9HOFhXZnJoeVk3NENJUUNsNmhqUwozSk8zb25aUWtETjhESzlJWkJiUWUwSjVvc3FzQXlBSHZhMEVQdz09Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo=", "signerName": "example.com/signer", "usages": ["client auth"], "expirationSeconds": 7200}"#,
        ),
        ("wrong", r#""spec": {"usages": "all"}"#),
    ],
    &[
        ("type", "clustertrustbundles"),
        ("other", "ConfigMap"),
        ("all", "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"),
        ("path", "/apis/certificates.k8s.io/v1beta1/clustertrustbundles"),
        ("kind", "ClusterTrustBundle"),
        ("version", "certificates.k8s.io/v1beta1"),
        (
            "content",
            r#""spec": {"trustBundle": "-----BEGIN CERTIFICATE-----\nMIIBdTCCARugAwIBAgIUE77xmnUFLQJbvuPko+DN2pE1Tr4wCgYIKoZIzj0EAwIw\nDzENMAsGA1UEAwwEbG9uZzAgFw0yNjExMTUyMzQwNDNaGA8yMTI2MTAyMjIzNDA0\nM1owDzENMAsGA1UEAwwEbG9uZzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABD/J\n5gddHAKGHblhAIebC86NjKJL9VUmAsP5wyctgutB0HxI8v5QSq3Of/EBuWw0oEl9\nf7KHGoxr6nHQerHua/6jUzBRMB0GA1UdDgQWBBQMPhW3hTiLSHYYkccfNeCefUde\niDAfBgNVHSMEGDAWgBQMPhW3hTiLSHYYkccfNeCefUdeiDAPBgNVHRMBAf8EBTAD\nAQH/MAoGCCqGSM49BAMCA0gAMEUCIC4bt2r+QgnQl76DHPggdeRb1U1Aq4w4KWlG\nKS1Nrv9NAiEA6lRzx6BSyqgASbsO1YXzNrJBcTDvPINTMdMaW3k82gQ=\n-----END CERTIFICATE-----\n"}"#,
        ),
        (
            "changed",
            r#""spec": {"trustBundle": "-----BEGIN CERTIFICATE-----\nMIIBdjCCAR2gAwIBAgIUd1ICYwYvTMn5ECWCfNtyx/DuZ0wwCgYIKoZIzj0EAwIw\nEDEOMAwGA1UEAwwFb3RoZXIwIBcNMjYxMTE1MjM0MDQzWhgPMjEyNjEwMjIyMzQw\nNDNaMBAxDjAMBgNVBAMMBW90aGVyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\nzUY4o44VutcNAXRMCaUzjWJTuoNcWsHhOQBV83E4CUsBa9qJCnPWAhfP9H7+h+St\nnLE9NzMJ2KfRA9L6Xdi8tqNTMFEwHQYDVR0OBBYEFK4ONBUEIjtI10k89fSsY0UI\n9dMFMB8GA1UdIwQYMBaAFK4ONBUEIjtI10k89fSsY0UI9dMFMA8GA1UdEwEB/wQF\nMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgBai702X5+pOR+fo7d3QMRxtHWY9QcE8D\n/AGwSC9Si74CIHRp6jQwprIheJPDL1nXeWijYhHBkC4q+85byVQCLO6i\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nMIIBdTCCARugAwIBAgIUE77xmnUFLQJbvuPko+DN2pE1Tr4wCgYIKoZIzj0EAwIw\nDzENMAsGA1UEAwwEbG9uZzAgFw0yNjExMTUyMzQwNDNaGA8yMTI2MTAyMjIzNDA0\nM1owDzENMAsGA1UEAwwEbG9uZzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABD/J\n5gddHAKGHblhAIebC86NjKJL9VUmAsP5wyctgutB0HxI8v5QSq3Of/EBuWw0oEl9\nf7KHGoxr6nHQerHua/6jUzBRMB0GA1UdDgQWBBQMPhW3hTiLSHYYkccfNeCefUde\niDAfBgNVHSMEGDAWgBQMPhW3hTiLSHYYkccfNeCefUdeiDAPBgNVHRMBAf8EBTAD\nAQH/MAoGCCqGSM49BAMCA0gAMEUCIC4bt2r+QgnQl76DHPggdeRb1U1Aq4w4KWlG\nKS1Nrv9NAiEA6lRzx6BSyqgASbsO1YXzNrJBcTDvPINTMdMaW3k82gQ=\n-----END CERTIFICATE-----\n"}"#,
        ),
        ("wrong", r#""spec": {"trustBundle": ["x"]}"#),
    ],
    &[
        ("type", "validatingwebhookconfigurations"),
        ("other", "ConfigMap"),
        ("all", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"),
        ("path", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"),
        ("kind", "ValidatingWebhookConfiguration"),
        ("version", "admissionregistration.k8s.io/v1"),
        (
            "content",
            r#""webhooks": [{"name": "a.example.com", "clientConfig": {"url": "https://nope.invalid/x"}, "rules": [{"operations": ["CREATE"], "apiGroups": ["nope.example.com"], "apiVersions": ["v1"], "resources": ["nopes"]}], "sideEffects": "None", "admissionReviewVersions": ["v1"]}]"#,
        ),
        (
            "changed",
            r#""webhooks": [{"name": "a.example.com", "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/x"}, "caBundle": "eA=="}, "rules": [{"operations": ["*"], "apiGroups": ["nope.example.com"], "apiVersions": ["*"], "resources": ["nopes/*"], "scope": "Cluster"}], "sideEffects": "NoneOnDryRun", "admissionReviewVersions": ["v1", "v2"], "failurePolicy": "Ignore", "matchPolicy": "Exact", "timeoutSeconds": 5, "namespaceSelector": {"matchLabels": {"a": "b"}}, "objectSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}]"#,
        ),
        ("wrong", r#""webhooks": {"a": 1}"#),
    ],
    &[
        ("type", "mutatingwebhookconfigurations"),
        ("other", "ConfigMap"),
        ("all", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
        ("path", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
        ("kind", "MutatingWebhookConfiguration"),
        ("version", "admissionregistration.k8s.io/v1"),
        (
            "content",
            r#""webhooks": [{"name": "a.example.com", "clientConfig": {"url": "https://nope.invalid/x"}, "rules": [{"operations": ["CREATE"], "apiGroups": ["nope.example.com"], "apiVersions": ["v1"], "resources": ["nopes"]}], "sideEffects": "None", "admissionReviewVersions": ["v1"]}]"#,
        ),
        (
            "changed",
            r#""webhooks": [{"name": "a.example.com", "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/x"}, "caBundle": "eA=="}, "rules": [{"operations": ["*"], "apiGroups": ["nope.example.com"], "apiVersions": ["*"], "resources": ["nopes/*"], "scope": "Cluster"}], "sideEffects": "NoneOnDryRun", "admissionReviewVersions": ["v1", "v2"], "failurePolicy": "Ignore", "matchPolicy": "Exact", "timeoutSeconds": 5, "namespaceSelector": {"matchLabels": {"a": "b"}}, "objectSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]}}]"#,
        ),
        ("wrong", r#""webhooks": {"a": 1}"#),
    ],
    &[
        ("type", "prioritylevelconfigurations"),
        ("other", "ConfigMap"),
        ("all", "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"),
        ("path", "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"),
        ("kind", "PriorityLevelConfiguration"),
        ("version", "flowcontrol.apiserver.k8s.io/v1"),
        (
            "content",
            r#""spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 3, "limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 2}}}}"#,
        ),
        (
            "changed",
            r#""spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}, "lendablePercent": 7, "borrowingLimitPercent": 9}}"#,
        ),
        ("wrong", r#""spec": {"limited": 5}"#),
    ],
];

/// What a run of a script is called: `script[type]` for one type, else `script`.
pub(crate) fn run_name(script: &str, variables: Variables) -> String {
    match variables.iter().find(|(name, _)| *name == "type") {
        Some((_, name)) => format!("{script}[{name}]"),
        None => script.to_owned(),
    }
}
