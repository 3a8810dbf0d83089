//! Admission policies: expressions that refuse writes, warn about them, or change them.

use anyhow::{Result, ensure};
use lanyard_tests::{Answer, Api, Cluster};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A policy about ConfigMaps with this in its spec, and a binding of it.
fn policy(api: &mut Api, sort: &str, name: &str, spec: Value, binding: Value) -> Result<()> {
    let mut whole = json!({"matchConstraints": {"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps"],
    }]}});
    merge(&mut whole, spec);
    let plural = format!("{sort}admissionpolicies");
    let body = json!({"metadata": {"name": name}, "spec": whole});
    api.post(&format!("{GROUP}/{plural}"), &body)?.expect(201)?;
    let mut bound = json!({"policyName": name});
    if sort == "validating" {
        bound["validationActions"] = json!(["Deny"]);
    }
    merge(&mut bound, binding);
    let body = json!({"metadata": {"name": name}, "spec": bound});
    let plural = format!("{sort}admissionpolicybindings");
    api.post(&format!("{GROUP}/{plural}"), &body)?.expect(201)?;
    Ok(())
}

fn merge(into: &mut Value, from: Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

fn create(api: &mut Api, name: &str, data: Value) -> Result<Answer> {
    api.post(MAPS, &json!({"metadata": {"name": name}, "data": data}))
}

/// The message of a refusal with this code.
fn refused(answer: Answer, code: u16) -> Result<String> {
    let status = answer.expect(code)?;
    Ok(status["message"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_write_that_fails_a_validation_is_refused() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut admin = cluster.api()?;
    let spec = json!({
        "variables": [
            {"name": "size", "expression": "size(object.data)"},
            {"name": "twice", "expression": "variables.size * 2"},
        ],
        "matchConditions": [{"name": "not-exempt", "expression": "!object.metadata.name.startsWith('exempt')"}],
        "validations": [
            {"expression": "variables.twice < 6", "messageExpression": "'too many: ' + string(variables.size)"},
            {"expression": "!('secret' in object.data)", "message": "no secrets", "reason": "Forbidden"},
            {"expression": "request.userInfo.groups.exists(g, g == 'system:masters')"},
        ],
    });
    policy(&mut admin, "validating", "few", spec, json!({}))?;
    create(&mut admin, "good", json!({"a": "1"}))?.expect(201)?;
    create(&mut admin, "exempt", json!({"a": "1", "b": "2", "c": "3"}))?.expect(201)?;
    let answer = create(&mut admin, "many", json!({"a": "1", "b": "2", "c": "3"}))?;
    let status = answer.expect(422)?;
    let cause = "ValidatingAdmissionPolicy 'few' with binding 'few' denied request: too many: 3";
    ensure!(status["message"] == format!("configmaps \"many\" is forbidden: {cause}"), "{status}");
    ensure!(
        status["reason"] == "Invalid" && status["details"]["causes"] == json!([{"message": cause}])
    );
    let text = refused(create(&mut admin, "bad", json!({"secret": "1"}))?, 403)?;
    ensure!(text.ends_with("denied request: no secrets"), "{text}");
    // Updates are looked at too, deletions are not.
    let text =
        refused(admin.merge(&format!("{MAPS}/good"), &json!({"data": {"secret": "x"}}))?, 403)?;
    ensure!(text.ends_with("denied request: no secrets"), "{text}");
    admin.delete(&format!("{MAPS}/good"), None)?.expect(200)?;
    // An expression that fails refuses as well.
    let text = refused(admin.post(MAPS, &json!({"metadata": {"name": "none"}}))?, 422)?;
    let error = "composited variable \"size\" fails to evaluate: no such key: data";
    ensure!(
        text.contains(&format!(
            "resulted in error: composited variable \"twice\" fails to evaluate: {error}"
        )),
        "{text}"
    );
    // Without its binding a policy does nothing.
    let path = format!("{GROUP}/validatingadmissionpolicybindings/few");
    admin.delete(&path, None)?.expect(200)?;
    create(&mut admin, "many", json!({"a": "1", "b": "2", "c": "3"}))?.expect(201)?;
    Ok(())
}

#[test]
fn parameters_come_from_objects() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut admin = cluster.api()?;
    let spec = json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "others", "expression": "object.metadata.name != 'limits'"}],
        "validations": [{
            "expression": "size(object.data) <= int(params.data.max)",
            "messageExpression": "'at most ' + params.data.max",
        }],
    });
    let reference = json!({"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}});
    policy(&mut admin, "validating", "limited", spec, reference)?;
    let text = refused(create(&mut admin, "a", json!({"a": "1"}))?, 422)?;
    let missing = "failed to configure binding: no params found for policy binding with `Deny` \
                   parameterNotFoundAction";
    ensure!(text.ends_with(missing), "{text}");
    // Its own parameters cannot be made either: they are ConfigMaps, too.
    let ignore = json!({"spec": {"paramRef": {"parameterNotFoundAction": "Allow"}}});
    let path = format!("{GROUP}/validatingadmissionpolicybindings/limited");
    admin.merge(&path, &ignore)?.expect(200)?;
    create(&mut admin, "limits", json!({"max": "1"}))?.expect(201)?;
    create(&mut admin, "a", json!({"a": "1"}))?.expect(201)?;
    let text = refused(create(&mut admin, "b", json!({"a": "1", "b": "2"}))?, 422)?;
    ensure!(text.ends_with("denied request: at most 1"), "{text}");
    Ok(())
}

#[test]
fn a_binding_narrows_and_decides_what_a_failure_does() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut admin = cluster.api()?;
    let spec = json!({"validations": [{"expression": "false", "message": "never"}]});
    let binding = json!({
        "validationActions": ["Warn", "Audit"],
        "matchResources": {"objectSelector": {"matchLabels": {"checked": "yes"}}},
    });
    policy(&mut admin, "validating", "never", spec, binding)?;
    let body =
        |name: &str, label: &str| json!({"metadata": {"name": name, "labels": {"checked": label}}});
    let answer = admin.post(MAPS, &body("warned", "yes"))?;
    let warning =
        "Validation failed for ValidatingAdmissionPolicy 'never' with binding 'never': never";
    ensure!(answer.header("warning").is_some_and(|text| text.contains(warning)), "no such warning");
    answer.expect(201)?;
    let answer = admin.post(MAPS, &body("other", "no"))?;
    ensure!(answer.header("warning").is_none(), "a warning");
    answer.expect(201)?;
    let path = format!("{GROUP}/validatingadmissionpolicybindings/never");
    admin.merge(&path, &json!({"spec": {"validationActions": ["Deny"]}}))?.expect(200)?;
    refused(admin.post(MAPS, &body("denied", "yes"))?, 422)?;
    // The namespace counts as well.
    let selector = json!({"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}});
    let narrowed = json!({"spec": {"matchResources": {"namespaceSelector": selector}}});
    admin.merge(&path, &narrowed)?.expect(200)?;
    admin.post(MAPS, &body("denied", "yes"))?.expect(201)?;
    Ok(())
}

#[test]
fn an_expression_may_ask_what_the_user_may_do() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut admin = cluster.api()?;
    // Two checks are all that one expression may afford.
    let account = "authorizer.serviceAccount('default', 'default')";
    let spec = json!({"validations": [
        {"expression": "authorizer.group('').resource('secrets').namespace('default').check('get').allowed() && \
                        authorizer.requestResource.check('create').allowed()"},
        {"expression": format!("!{account}.group('').resource('secrets').check('get').allowed()")},
        {"expression": "authorizer.path('/healthz').check('get').allowed()"},
    ]});
    policy(&mut admin, "validating", "asks", spec, json!({}))?;
    create(&mut admin, "a", json!({}))?.expect(201)?;
    Ok(())
}

#[test]
fn policies_change_writes() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut admin = cluster.api()?;
    let spec = json!({
        "reinvocationPolicy": "Never",
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{metadata: Object.metadata{labels: {'by': 'apply'}}}"},
            },
            {
                "patchType": "JSONPatch",
                "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/metadata/labels/' + \
                    jsonpatch.escapeKey('example.com/patched'), value: object.metadata.labels['by']}]"},
            },
        ],
    });
    policy(&mut admin, "mutating", "labels", spec, json!({}))?;
    let made = create(&mut admin, "a", json!({"x": "y"}))?.expect(201)?;
    let expected = json!({"by": "apply", "example.com/patched": "apply"});
    ensure!(made["metadata"]["labels"] == expected && made["data"] == json!({"x": "y"}), "{made}");
    let changed =
        admin.merge(&format!("{MAPS}/a"), &json!({"metadata": {"labels": {"by": null}}}))?;
    ensure!(changed.expect(200)?["metadata"]["labels"] == expected);
    // What goes wrong refuses the write.
    let spec = json!({
        "reinvocationPolicy": "Never",
        "mutations": [{
            "patchType": "JSONPatch",
            "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/metadata/annotations/x', value: object.nope}]"},
        }],
    });
    policy(&mut admin, "mutating", "broken", spec, json!({}))?;
    let text = refused(create(&mut admin, "b", json!({}))?, 403)?;
    ensure!(
        text.starts_with("policy 'broken' with binding 'broken' denied request: expression '"),
        "{text}"
    );
    ensure!(text.ends_with("resulted in error: no such key: nope"), "{text}");
    let path = format!("{GROUP}/mutatingadmissionpolicies/broken");
    admin.merge(&path, &json!({"spec": {"failurePolicy": "Ignore"}}))?.expect(200)?;
    create(&mut admin, "b", json!({}))?.expect(201)?;
    Ok(())
}

#[test]
fn a_policy_that_makes_no_sense_is_refused() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut admin = cluster.api()?;
    let rules = json!({"resourceRules": [{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
    }]});
    let mut check = |validation: Value, expected: &str| -> Result<()> {
        let spec = json!({"matchConstraints": rules, "validations": [validation]});
        let body = json!({"metadata": {"name": "bad"}, "spec": spec});
        let text =
            refused(admin.post(&format!("{GROUP}/validatingadmissionpolicies"), &body)?, 422)?;
        ensure!(text.contains(expected), "{text}");
        Ok(())
    };
    check(
        json!({"expression": "object.x +"}),
        "spec.validations[0].expression: Invalid value: \"object.x +\": compilation failed: ERROR: \
         <input>:1:11: Syntax error: mismatched input '<EOF>' expecting",
    )?;
    check(
        json!({"expression": "1 + 2"}),
        "spec.validations[0].expression: Invalid value: \"1 + 2\": must evaluate to bool but got int",
    )?;
    check(json!({"expression": "params.x"}), "undeclared reference to 'params' (in container '')")?;
    check(
        json!({"expression": " "}),
        "spec.validations[0].expression: Required value: expression is not specified",
    )?;
    check(
        json!({"expression": "true", "reason": "Because"}),
        "spec.validations[0].reason: Unsupported value: \"Because\": supported values: \"Forbidden\", \
         \"Invalid\", \"RequestEntityTooLarge\", \"Unauthorized\"",
    )?;
    Ok(())
}

#[test]
fn expensive_expressions_end() -> Result<()> {
    let cluster = Cluster::start()?;
    let mut admin = cluster.api()?;
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let expression = format!(
        "{list}.all(a, {list}.all(b, {list}.all(c, {list}.all(d, {list}.all(e, {list}.all(f, a+b+c+d+e+f >= 0))))))"
    );
    let spec = json!({"validations": [{"expression": expression}]});
    policy(&mut admin, "validating", "slow", spec, json!({}))?;
    let text = refused(create(&mut admin, "a", json!({}))?, 422)?;
    ensure!(text.ends_with("operation cancelled: actual cost limit exceeded"), "{text}");
    Ok(())
}
