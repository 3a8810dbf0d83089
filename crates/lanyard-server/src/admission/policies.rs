//! Carries out admission policies: refuses, warns about or changes a write.

use std::sync::Arc;

use http::StatusCode;
use lanyard_cel::{AccessCheck, AccessDecision, AccessTarget, Authorizer};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{Admission, Operation, Subject};
use crate::{
    authn::{AUTHENTICATED, UserInfo},
    authz::{Attributes, Target, rbac::Rbac},
    collection::{Collection, EventKind, Scope as CollectionScope},
    object::ObjectExt,
    policy::{
        Binding, Denial, GROUP, Outcome, ParamRef, Policies, ValidatingPolicy,
        evaluation::Input,
        matching::{Asked, Match},
    },
    registry::{Endpoint, Served},
    resource::{Scope, Subresource},
    selector::LabelSelector,
    status::{ApiError, ApiResult},
};

/// The kinds that say what admission does are not subject to it, so that a bad one can be mended.
const EXEMPT: [&str; 6] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// A write as policies see it.
pub(super) struct Written<'a> {
    admission: &'a Admission,
    served: &'a Served,
    subject: &'a Subject<'a>,
    operation: &'static str,
    subresource: &'static str,
    /// The namespace of the request: that of the object, or the one that it is.
    namespace: &'a str,
    dry_run: bool,
}

impl Admission {
    /// Asks the policies that may refuse the write. Warnings are added to those of the answer.
    pub fn validate_by_policies(
        &self,
        served: &Served,
        subject: &Subject<'_>,
        warnings: &Mutex<Vec<String>>,
        dry_run: bool,
    ) -> ApiResult<()> {
        let bound = self.policies.validating.bound();
        if bound.is_empty() || is_exempt(subject.endpoint) {
            return Ok(());
        }
        let written = Written::new(self, served, subject, dry_run);
        let mut denied: Option<ApiError> = None;
        for (policy, bindings) in &bound {
            let Some(view) = written.view(&policy.matches) else { continue };
            for binding in bindings {
                if binding.matches.as_ref().is_some_and(|narrow| written.view(narrow).is_none()) {
                    continue;
                }
                let outcome = written.validate(policy, binding, view);
                for denial in
                    outcome.refused.iter().chain(outcome.denials.iter().map(|(_, denial)| denial))
                {
                    let always = outcome.refused.contains(denial);
                    if always || binding.actions.iter().any(|action| action == "Deny") {
                        denied.get_or_insert_with(|| written.denied(&policy.name, binding, denial));
                    }
                    if !always && binding.actions.iter().any(|action| action == "Warn") {
                        let (policy, binding, why) = (&policy.name, &binding.name, &denial.message);
                        warnings.lock().push(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding \
                             '{binding}': {why}"
                        ));
                    }
                    if !always && binding.actions.iter().any(|action| action == "Audit") {
                        tracing::info!(
                            policy = policy.name,
                            binding = binding.name,
                            message = denial.message,
                            "a write fails a policy that only audits"
                        );
                    }
                }
            }
        }
        denied.map_or(Ok(()), Err)
    }

    /// Keeps the index of policies and bindings as new as the collections.
    pub(super) fn follow_policies(policies: &Arc<Policies>, collection: &Collection) {
        if collection.resource.views[0].group != GROUP {
            return;
        }
        let policies = policies.clone();
        let plural = collection.resource.plural.clone();
        collection.observe(Box::new(move |event| {
            let gone = event.kind == EventKind::Deleted;
            let object = || (!gone).then(|| event.object.value());
            let name = event.object.name();
            match &*plural {
                "validatingadmissionpolicies" => policies.validating.put_policy(name, object()),
                "mutatingadmissionpolicies" => policies.mutating.put_policy(name, object()),
                "validatingadmissionpolicybindings" => {
                    policies.validating.put_binding(name, object().as_ref());
                }
                "mutatingadmissionpolicybindings" => {
                    policies.mutating.put_binding(name, object().as_ref());
                }
                _ => {}
            }
        }));
    }
}

pub(super) fn is_exempt(endpoint: &Endpoint) -> bool {
    endpoint.view().group == GROUP && EXEMPT.contains(&&*endpoint.resource().plural)
}

impl<'a> Written<'a> {
    pub(super) fn new(
        admission: &'a Admission,
        served: &'a Served,
        subject: &'a Subject<'a>,
        dry_run: bool,
    ) -> Self {
        let operation = match subject.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        };
        let subresource = match subject.subresource {
            None => "",
            Some(Subresource::Status) => "status",
            Some(Subresource::Finalize) => "finalize",
            Some(Subresource::Approval) => "approval",
            Some(Subresource::Scale) => "scale",
        };
        let is_namespace = subject.endpoint.resource().storage == "namespaces";
        let namespace = if is_namespace { subject.name } else { subject.namespace };
        Self { admission, served, subject, operation, subresource, namespace, dry_run }
    }

    /// The view through which the write matches.
    pub(super) fn view(&self, matches: &Match) -> Option<usize> {
        let subject = self.subject;
        let labels = || self.namespace_labels();
        matches.view(&Asked {
            endpoint: subject.endpoint,
            operation: self.operation,
            subresource: self.subresource,
            namespace: self.namespace,
            name: subject.name,
            objects: [subject.object, subject.old],
            namespace_labels: &labels,
        })
    }

    /// Those of the namespace as it will be, if it is what is written.
    fn namespace_labels(&self) -> Vec<(String, String)> {
        let owned = |object: &Value| {
            let labels = object.labels().into_iter();
            labels.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
        };
        let is_namespace = self.subject.endpoint.resource().storage == "namespaces";
        match self.subject.object.filter(|_| is_namespace && self.subresource.is_empty()) {
            Some(object) => owned(object),
            None => owned(&self.namespace_object(self.namespace)),
        }
    }

    fn namespace_object(&self, name: &str) -> Value {
        let namespaces = self.admission.namespaces.as_ref().filter(|_| !name.is_empty());
        let found = namespaces.and_then(|namespaces| namespaces.get(name));
        found.map_or(Value::Null, |found| found.value())
    }

    /// What the policy says with all parameters of a binding.
    fn validate(&self, policy: &ValidatingPolicy, binding: &Binding, view: usize) -> Outcome {
        let params = match self.params(policy.param_kind.as_ref(), binding) {
            Ok(params) => params,
            Err(error) => {
                let message = format!("failed to configure binding: {error}");
                let denial = Denial { message, reason: String::new() };
                let refused = if policy.fails_closed { vec![denial] } else { Vec::new() };
                return Outcome { refused, ..Outcome::default() };
            }
        };
        let mut all = Outcome::default();
        let inputs = Inputs::new(self, self.subject.object, view);
        for params in &params {
            let outcome = policy.validate(&inputs.with(params));
            all.denials.extend(outcome.denials);
            all.refused.extend(outcome.refused);
            all.annotations.extend(outcome.annotations);
        }
        for (key, value) in &all.annotations {
            tracing::info!(
                policy = policy.name,
                binding = binding.name,
                key,
                value,
                "policy annotation"
            );
        }
        all
    }

    /// The parameters that a binding gives a policy; null where there are none to give.
    pub(super) fn params(
        &self,
        kind: Option<&(String, String)>,
        binding: &Binding,
    ) -> Result<Vec<Value>, String> {
        let (Some((api_version, kind)), Some(reference)) = (kind, &binding.params) else {
            return Ok(vec![Value::Null]);
        };
        let Some(endpoint) = find_kind(self.served, api_version, kind) else {
            return Err(format!(
                "paramKind kind `&ParamKind{{Kind:{kind},APIVersion:{api_version},}}` not known"
            ));
        };
        let found = self.find_params(&endpoint, reference)?;
        if found.is_empty() && reference.deny_without {
            let text = "no params found for policy binding with `Deny` parameterNotFoundAction";
            return Err(text.to_owned());
        }
        Ok(found)
    }

    fn find_params(&self, endpoint: &Endpoint, reference: &ParamRef) -> Result<Vec<Value>, String> {
        let collection = &endpoint.collection;
        let namespaced = endpoint.resource().scope == Scope::Namespaced;
        let namespace = match (namespaced, reference.namespace.as_str(), self.namespace) {
            (false, "", _) => "",
            (false, ..) => {
                let text =
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
                return Err(text.to_owned());
            }
            (true, "", "") => {
                let text = "cannot use namespaced paramRef in policy binding that matches \
                            cluster-scoped resources";
                return Err(text.to_owned());
            }
            (true, "", namespace) | (true, namespace, _) => namespace,
        };
        let shown = |object: Value| endpoint.to_view(object);
        if !reference.name.is_empty() {
            let key = match namespaced {
                true => format!("{namespace}/{}", reference.name),
                false => reference.name.clone(),
            };
            return Ok(collection
                .get(&key)
                .map(|found| shown(found.value()))
                .into_iter()
                .collect());
        }
        let selector = LabelSelector::from_object(&reference.selector);
        let selector = selector.ok_or("one of name or selector must be provided")?;
        let scope = match namespaced {
            true => CollectionScope::Namespace(namespace.into()),
            false => CollectionScope::All,
        };
        let (page, _) =
            collection.list(&scope, None, None, |object| selector.matches(|key| object.label(key)));
        Ok(page.objects.iter().map(|object| shown(object.value())).collect())
    }

    fn denied(&self, policy: &str, binding: &Binding, denial: &Denial) -> ApiError {
        let message = format!(
            "ValidatingAdmissionPolicy '{policy}' with binding '{}' denied request: {}",
            binding.name, denial.message
        );
        let (code, reason) = match denial.reason.as_str() {
            "Unauthorized" => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            "Forbidden" => (StatusCode::FORBIDDEN, "Forbidden"),
            "RequestEntityTooLarge" => (StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge"),
            _ => (StatusCode::UNPROCESSABLE_ENTITY, "Invalid"),
        };
        let resource = self.subject.endpoint.group_resource();
        ApiError::forbidden(resource, self.subject.name, &message)
            .turned_into(code, reason)
            .caused("", &message, None)
    }
}

/// The values that expressions see, made once for all parameters.
pub(super) struct Inputs {
    object: Value,
    old_object: Value,
    request: Value,
    namespace: Value,
    authorizer: Arc<dyn Authorizer>,
    resource: AccessTarget,
}

impl Inputs {
    pub(super) fn new(written: &Written<'_>, object: Option<&Value>, view: usize) -> Self {
        let subject = written.subject;
        let matched = Endpoint { collection: subject.endpoint.collection.clone(), view };
        let shown =
            |object: Option<&Value>| object.map_or(Value::Null, |o| matched.to_view(o.clone()));
        let is_namespace = subject.endpoint.resource().storage == "namespaces";
        let namespace = if is_namespace { "" } else { written.namespace };
        let rbac = written.admission.rbac.clone();
        Self {
            object: shown(object),
            old_object: shown(subject.old),
            request: request(written, &matched),
            namespace: written.namespace_object(namespace),
            authorizer: Arc::new(Asker { rbac, user: subject.user.clone() }),
            resource: AccessTarget::Resource {
                group: subject.endpoint.view().group.to_string(),
                resource: subject.endpoint.resource().plural.to_string(),
                subresource: written.subresource.to_owned(),
                namespace: written.namespace.to_owned(),
                name: subject.name.to_owned(),
                field_selector: String::new(),
                label_selector: String::new(),
            },
        }
    }

    pub(super) fn with<'a>(&'a self, params: &'a Value) -> Input<'a> {
        Input {
            object: &self.object,
            old_object: &self.old_object,
            request: &self.request,
            namespace: &self.namespace,
            params,
            authorizer: &self.authorizer,
            resource: &self.resource,
        }
    }
}

/// `request`, without what is empty.
fn request(written: &Written<'_>, matched: &Endpoint) -> Value {
    let subject = written.subject;
    let kind = |endpoint: &Endpoint| {
        let view = endpoint.view();
        let kind = &endpoint.resource().kind;
        json!({"group": view.group, "version": view.version, "kind": kind})
    };
    let resource = |endpoint: &Endpoint| {
        let view = endpoint.view();
        let plural = &endpoint.resource().plural;
        json!({"group": view.group, "version": view.version, "resource": plural})
    };
    let user = subject.user;
    let mut request = json!({
        "kind": kind(matched),
        "resource": resource(matched),
        "requestKind": kind(subject.endpoint),
        "requestResource": resource(subject.endpoint),
        "operation": written.operation,
        "userInfo": {"username": user.name, "groups": user.groups},
        "dryRun": written.dry_run,
    });
    let optional = [
        ("subResource", written.subresource),
        ("requestSubResource", written.subresource),
        ("name", subject.name),
        ("namespace", written.namespace),
    ];
    for (field, value) in optional.into_iter().filter(|(_, value)| !value.is_empty()) {
        request[field] = value.into();
    }
    if !user.uid.is_empty() {
        request["userInfo"]["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        request["userInfo"]["extra"] = json!(user.extra);
    }
    request
}

/// The type of objects that say to be of this kind, through the view of that version.
fn find_kind(served: &Served, api_version: &str, kind: &str) -> Option<Endpoint> {
    served.collections.iter().filter(|c| c.resource.kind == *kind).find_map(|collection| {
        let view = collection.resource.views.iter().position(|v| v.api_version() == api_version)?;
        Some(Endpoint { collection: collection.clone(), view })
    })
}

/// Answers what the user of the request may do.
struct Asker {
    rbac: Arc<Rbac>,
    user: UserInfo,
}

impl Authorizer for Asker {
    fn authorize(&self, check: &AccessCheck) -> AccessDecision {
        let account = check.service_account.as_ref().map(|(namespace, name)| UserInfo {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                AUTHENTICATED.to_owned(),
            ],
            ..UserInfo::default()
        });
        let user = account.as_ref().unwrap_or(&self.user);
        let target = match &check.target {
            AccessTarget::Path(path) => Target::Path(path),
            AccessTarget::Resource { group, resource, subresource, namespace, name, .. } => {
                Target::Resource { group, resource, subresource, namespace, name }
            }
        };
        let decision = self.rbac.authorize(&Attributes { user, verb: &check.verb, target });
        AccessDecision { allowed: decision.allowed, reason: decision.reason, error: None }
    }
}
