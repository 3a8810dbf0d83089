//! CertificateSigningRequest: somebody asks a signer for a certificate; somebody else approves.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{
    super::{
        ALL_VERBS, age,
        column::{self, AGE, NAME, age_cell, name_cell},
    },
    GROUP, validate,
};
use crate::{
    authn::UserInfo,
    field::FieldError,
    name::names,
    object::ObjectExt,
    resource::{Column, NameRule, Resource, Rules, Scope, Subresource, View, WriteContext},
    schema::builtin,
};

/// The condition of a request that may be signed.
pub(super) const APPROVED: &str = "Approved";
/// The condition of a request that must not be signed.
pub(super) const DENIED: &str = "Denied";
/// The condition of a request that the signer gave up on.
pub(super) const FAILED: &str = "Failed";

pub(in super::super) fn resource() -> Resource {
    Resource {
        storage: "certificatesigningrequests.certificates.k8s.io".into(),
        plural: "certificatesigningrequests".into(),
        singular: "certificatesigningrequest".into(),
        kind: "CertificateSigningRequest".into(),
        short_names: names(&["csr"]),
        categories: Vec::new(),
        scope: Scope::Cluster,
        verbs: ALL_VERBS,
        subresources: &[Subresource::Approval, Subresource::Status],
        views: vec![View::new(
            GROUP,
            "v1",
            builtin("io.k8s.api.certificates.v1.CertificateSigningRequest"),
        )],
        rules: Arc::new(SigningRequests),
    }
}

static COLUMNS: [Column; 6] = [
    NAME,
    AGE,
    column::text("SignerName", "Who is to sign."),
    column::text("Requestor", "The user who asks."),
    column::text("RequestedDuration", "How long the certificate should be valid."),
    column::text("Condition", "What was decided, and whether there is a certificate."),
];

struct SigningRequests;

impl Rules for SigningRequests {
    /// Nobody creates what is approved already.
    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn reset_fields(&self, subresource: Option<Subresource>) -> &'static [&'static [&'static str]] {
        match subresource {
            Some(Subresource::Status) => &[&["spec"], &["status", "conditions"]],
            Some(Subresource::Approval) => &[&["spec"], &["status", "certificate"]],
            _ => &[&["spec"], &["status"]],
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        new["spec"] = old["spec"].clone();
        match context.subresource {
            Some(Subresource::Approval) => {
                let decided = new.at(&["status", "conditions"]).cloned();
                let mut status = old["status"].clone();
                if let Some(status) = status.as_object_mut() {
                    match decided {
                        Some(conditions) => status.insert("conditions".into(), conditions),
                        None => status.remove("conditions"),
                    };
                }
                new["status"] = status;
            }
            Some(Subresource::Status) => {
                keep_conditions(new, old, APPROVED);
                keep_conditions(new, old, DENIED);
            }
            _ => new["status"] = old["status"].clone(),
        }
    }

    fn note_request(&self, new: &mut Value, old: Option<&Value>, user: &UserInfo, now: &str) {
        match old {
            None => set_requester(new, user),
            Some(old) => set_times(new, old, now),
        }
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        validate::create(object)
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        validate::update(new, old, context.subresource)
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let signer = match object.text(&["spec", "signerName"]) {
            "" => "<none>",
            signer => signer,
        };
        let expiration = object.at(&["spec", "expirationSeconds"]).and_then(Value::as_i64);
        let duration = expiration.map_or("<none>".into(), |seconds| age(seconds, 0));
        vec![
            name_cell(object),
            age_cell(object, now),
            signer.into(),
            object.text(&["spec", "username"]).into(),
            duration.into(),
            decision(object).into(),
        ]
    }

    fn selectable_fields(&self) -> &'static [&'static str] {
        &["spec.signerName"]
    }

    fn selectable_field(&self, object: &Value, field: &str) -> String {
        match field {
            "spec.signerName" => object.text(&["spec", "signerName"]).to_owned(),
            _ => String::new(),
        }
    }
}

/// `status.conditions`.
pub(super) fn conditions(object: &Value) -> &[Value] {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array);
    conditions.map_or(&[], Vec::as_slice)
}

/// Who asks is for the server to say.
fn set_requester(object: &mut Value, user: &UserInfo) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let extra: Map<String, Value> =
        user.extra.iter().map(|(key, values)| (key.clone(), json!(values))).collect();
    let known = [
        ("username", json!(user.name), user.name.is_empty()),
        ("uid", json!(user.uid), user.uid.is_empty()),
        ("groups", json!(user.groups), user.groups.is_empty()),
        ("extra", Value::Object(extra), user.extra.is_empty()),
    ];
    for (field, value, empty) in known {
        match empty {
            true => spec.remove(field),
            false => spec.insert(field.into(), value),
        };
    }
}

/// Decisions as they were, unless some came or went, which is refused later.
fn keep_conditions(new: &mut Value, old: &Value, kind: &str) {
    let of_kind = |condition: &&Value| condition.text(&["type"]) == kind;
    let kept: Vec<Value> = conditions(old).iter().filter(of_kind).cloned().collect();
    if conditions(new).iter().filter(of_kind).count() != kept.len() {
        return;
    }
    let changed = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    let changed = changed.into_iter().flatten().filter(|c| c.text(&["type"]) == kind);
    for (condition, kept) in changed.zip(kept) {
        *condition = kept;
    }
}

/// Notes when a condition came about, where the client does not say.
fn set_times(new: &mut Value, old: &Value, now: &str) {
    let changed = new.pointer_mut("/status/conditions").and_then(Value::as_array_mut);
    for condition in changed.into_iter().flatten().filter(|condition| condition.is_object()) {
        if condition.text(&["lastUpdateTime"]).is_empty() {
            condition["lastUpdateTime"] = now.into();
        }
        if condition.text(&["lastTransitionTime"]).is_empty() {
            let same = |before: &&Value| {
                ["type", "status"].iter().all(|f| before.text(&[f]) == condition.text(&[f]))
            };
            let before = conditions(old).iter().filter(same);
            let since = before.map(|c| c.text(&["lastTransitionTime"])).find(|t| !t.is_empty());
            condition["lastTransitionTime"] = since.unwrap_or(now).into();
        }
    }
}

fn decision(object: &Value) -> String {
    let has = |kind: &str| conditions(object).iter().any(|c| c.text(&["type"]) == kind);
    let mut text = if has(DENIED) {
        "Denied".to_owned()
    } else if has(APPROVED) {
        "Approved".to_owned()
    } else {
        "Pending".to_owned()
    };
    if has(FAILED) {
        text.push_str(",Failed");
    }
    if !object.text(&["status", "certificate"]).is_empty() {
        text.push_str(",Issued");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_is_not_for_them_to_say() {
        let mut object = json!({"spec": {"username": "root", "uid": "1", "groups": ["system:masters"],
            "extra": {"a": ["b"]}, "signerName": "a.b/c"}});
        let user =
            UserInfo { name: "alice".into(), groups: vec!["dev".into()], ..UserInfo::default() };
        SigningRequests.note_request(&mut object, None, &user, "");
        let expected =
            json!({"spec": {"username": "alice", "groups": ["dev"], "signerName": "a.b/c"}});
        assert_eq!(object, expected);
    }

    #[test]
    fn conditions_get_their_times() {
        let check = |old: Value, new: Value, expected: Value| {
            let (old, mut new) =
                (json!({"status": {"conditions": old}}), json!({"status": {"conditions": new}}));
            let user = UserInfo::default();
            SigningRequests.note_request(&mut new, Some(&old), &user, "now");
            assert_eq!(new["status"]["conditions"], expected);
        };
        let condition = |status: &str, update: &str, transition: &str| {
            json!([{"type": "Approved", "status": status, "lastUpdateTime": update,
                "lastTransitionTime": transition}])
        };
        let bare = json!([{"type": "Approved", "status": "True"}]);
        check(json!([]), bare.clone(), condition("True", "now", "now"));
        check(condition("True", "x", "y"), bare.clone(), condition("True", "now", "y"));
        check(condition("False", "x", "y"), bare, condition("True", "now", "now"));
        check(json!([]), condition("True", "x", "y"), condition("True", "x", "y"));
    }

    #[test]
    fn decisions_outlive_a_change_of_the_status() {
        let approved = |reason: &str| json!({"type": "Approved", "reason": reason});
        let old = json!({"status": {"conditions": [approved("why")]}});
        let mut new = json!({"status": {"conditions": [{"type": "Failed"}, approved("other")]}});
        keep_conditions(&mut new, &old, APPROVED);
        assert_eq!(new["status"]["conditions"][1], approved("why"));
        let mut gone = json!({"status": {"conditions": []}});
        keep_conditions(&mut gone, &old, APPROVED);
        assert_eq!(conditions(&gone), [] as [Value; 0]);
    }

    #[test]
    fn a_table_tells_the_decision() {
        let check = |kinds: &[&str], certificate: &str, expected: &str| {
            let conditions: Vec<Value> = kinds.iter().map(|kind| json!({"type": kind})).collect();
            let status = json!({"conditions": conditions, "certificate": certificate});
            assert_eq!(decision(&json!({"status": status})), expected);
        };
        check(&[], "", "Pending");
        check(&["Approved"], "eA==", "Approved,Issued");
        check(&["Approved", "Failed"], "", "Approved,Failed");
        check(&["Denied", "Approved"], "", "Denied");
    }
}
