//! Questions that are asked by creating an object that is never stored: who am I, may I, may they,
//! is this token good.

use serde_json::{Value, json};

mod validate;

use crate::{
    authn::{UserInfo, review},
    authz::{Attributes, Decision, Target, rbac::Rbac},
    clock,
    object::ObjectExt,
    registry::Expected,
    status::{ApiError, ApiResult, GroupName},
};

/// The kinds of reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the kinds")]
pub enum Review {
    Token,
    SelfSubject,
    SubjectAccess,
    SelfSubjectAccess,
    LocalSubjectAccess,
    SelfSubjectRules,
}

impl Review {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Token,
        Self::SelfSubject,
        Self::SubjectAccess,
        Self::SelfSubjectAccess,
        Self::LocalSubjectAccess,
        Self::SelfSubjectRules,
    ];

    /// The review with this plural in this group.
    pub fn find(group: &str, version: &str, plural: &str) -> Option<Self> {
        let found = |r: &Self| r.group() == group && r.plural() == plural && version == "v1";
        Self::ALL.into_iter().find(found)
    }

    /// The API group.
    pub fn group(self) -> &'static str {
        match self {
            Self::Token | Self::SelfSubject => "authentication.k8s.io",
            _ => "authorization.k8s.io",
        }
    }

    /// The kind.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Token => "TokenReview",
            Self::SelfSubject => "SelfSubjectReview",
            Self::SubjectAccess => "SubjectAccessReview",
            Self::SelfSubjectAccess => "SelfSubjectAccessReview",
            Self::LocalSubjectAccess => "LocalSubjectAccessReview",
            Self::SelfSubjectRules => "SelfSubjectRulesReview",
        }
    }

    /// The plural in URLs.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Token => "tokenreviews",
            Self::SelfSubject => "selfsubjectreviews",
            Self::SubjectAccess => "subjectaccessreviews",
            Self::SelfSubjectAccess => "selfsubjectaccessreviews",
            Self::LocalSubjectAccess => "localsubjectaccessreviews",
            Self::SelfSubjectRules => "selfsubjectrulesreviews",
        }
    }

    /// The singular.
    pub fn singular(self) -> &'static str {
        self.plural().strip_suffix('s').unwrap_or_default()
    }

    /// Whether it is asked within a namespace.
    pub fn namespaced(self) -> bool {
        self == Self::LocalSubjectAccess
    }

    /// What the body must be.
    pub fn expected(self) -> Expected<'static> {
        Expected::virtual_kind(self.group(), self.kind())
    }

    /// Answers an authorization review; `object` is the body in the form of its kind, and is completed.
    ///
    /// # Errors
    /// When the question makes no sense.
    pub fn answer(self, rbac: &Rbac, user: &UserInfo, object: &mut Value) -> ApiResult<()> {
        let spec = object.get("spec").cloned().unwrap_or_default();
        let errors = validate::problems(self, object);
        if !errors.is_empty() {
            let nameless = GroupName { group: self.group(), name: "" };
            return Err(ApiError::invalid(nameless, "", &errors));
        }
        object["status"] = match self {
            Self::SelfSubject => {
                object["metadata"] = json!({"creationTimestamp": clock::now_rfc3339()});
                review::self_subject(user)
            }
            Self::SelfSubjectRules => {
                let status = rules(rbac, user, &spec)?;
                object["metadata"] = json!({});
                object["spec"] = json!({});
                status
            }
            Self::SelfSubjectAccess => access(rbac, user, &spec),
            Self::SubjectAccess | Self::LocalSubjectAccess => {
                access(rbac, &spec_user(&spec), &spec)
            }
            Self::Token => return Err(ApiError::internal("not an authorization review", "")),
        };
        Ok(())
    }
}

fn rules(rbac: &Rbac, user: &UserInfo, spec: &Value) -> ApiResult<Value> {
    let namespace = spec.text(&["namespace"]);
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    Ok(rbac.rules_for(user, namespace).to_status())
}

fn access(rbac: &Rbac, user: &UserInfo, spec: &Value) -> Value {
    let (asked, target) = match (spec.get("resourceAttributes"), spec.get("nonResourceAttributes"))
    {
        (Some(asked), _) => {
            let target = Target::Resource {
                group: asked.text(&["group"]),
                resource: asked.text(&["resource"]),
                subresource: asked.text(&["subresource"]),
                namespace: asked.text(&["namespace"]),
                name: asked.text(&["name"]),
            };
            (asked, target)
        }
        (None, asked) => {
            let asked = asked.unwrap_or(&Value::Null);
            (asked, Target::Path(asked.text(&["path"])))
        }
    };
    let verb = asked.text(&["verb"]);
    decision_json(&rbac.authorize(&Attributes { user, verb, target }))
}

fn decision_json(decision: &Decision) -> Value {
    let mut status = json!({"allowed": decision.allowed});
    for (field, text) in
        [("reason", &decision.reason), ("evaluationError", &decision.evaluation_error)]
    {
        if !text.is_empty() {
            status[field] = text.as_str().into();
        }
    }
    status
}

/// The user that a SubjectAccessReview asks about.
fn spec_user(spec: &Value) -> UserInfo {
    let strings = |value: Option<&Value>| -> Vec<String> {
        let list = value.and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let extra = spec.get("extra").and_then(Value::as_object).into_iter().flatten();
    UserInfo {
        name: spec.text(&["user"]).to_owned(),
        uid: spec.text(&["uid"]).to_owned(),
        groups: strings(spec.get("groups")),
        extra: extra.map(|(key, values)| (key.clone(), strings(Some(values)))).collect(),
    }
}
