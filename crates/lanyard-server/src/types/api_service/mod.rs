//! APIService: which server answers for a group version. Those of this server are local and always
//! available; others are stored, and requests for them are not passed on.

pub mod bootstrap;
mod validate;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    ALL_VERBS,
    column::{self, AGE, NAME, age_cell, name_cell},
    status,
};
use crate::{
    authn::UserInfo,
    field::FieldError,
    name::names,
    object::ObjectExt,
    resource::{Column, NameRule, Resource, Rules, Scope, Subresource, View, WriteContext},
    schema::builtin,
};

/// The group of the kind.
const GROUP: &str = "apiregistration.k8s.io";

pub(super) fn resource() -> Resource {
    Resource {
        storage: format!("apiservices.{GROUP}").into(),
        plural: "apiservices".into(),
        singular: "apiservice".into(),
        kind: "APIService".into(),
        short_names: Vec::new(),
        categories: names(&["api-extensions"]),
        scope: Scope::Cluster,
        verbs: ALL_VERBS,
        subresources: &[Subresource::Status],
        views: vec![View::new(
            GROUP,
            "v1",
            builtin("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService"),
        )],
        rules: Arc::new(ApiServices),
    }
}

static COLUMNS: [Column; 4] = [
    NAME,
    column::text("Service", "The service that answers, or Local."),
    column::text("Available", "Whether it answers."),
    AGE,
];

struct ApiServices;

impl Rules for ApiServices {
    fn apply_defaults(&self, object: &mut Value) {
        if let Some(service) = object.pointer_mut("/spec/service")
            && service.is_object()
            && service.get("port").is_none_or(Value::is_null)
        {
            service["port"] = 443.into();
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        status::clear(object);
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        status::separate(new, old, context);
        if context.subresource == Some(Subresource::Status) {
            for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
                match old.at(&["metadata", field]) {
                    Some(value) => new.meta_mut().insert(field.into(), value.clone()),
                    None => new.meta_mut().remove(field),
                };
            }
        }
    }

    fn reset_fields(&self, subresource: Option<Subresource>) -> &'static [&'static [&'static str]] {
        match subresource {
            Some(Subresource::Status) => &[&["spec"], &["metadata"]],
            _ => &[&["status"]],
        }
    }

    /// Says whether requests are answered, as often as that changes.
    fn note_request(&self, new: &mut Value, old: Option<&Value>, _user: &UserInfo, now: &str) {
        if old.is_some_and(|old| service(old).is_some() == service(new).is_some()) {
            return;
        }
        let mut condition = match service(new) {
            None => json!({"type": "Available", "status": "True", "reason": "Local",
                "message": "Local APIServices are always available"}),
            Some(_) => json!({"type": "Available", "status": "False",
                "reason": "FailedDiscoveryCheck",
                "message": "this server does not pass requests on to other servers"}),
        };
        condition["lastTransitionTime"] = now.into();
        new["status"] = json!({"conditions": [condition]});
    }

    fn validate(&self, object: &Value, _context: WriteContext<'_>) -> Vec<FieldError> {
        validate::create(object)
    }

    fn validate_update(
        &self,
        new: &Value,
        _old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        validate::update(new, context.subresource)
    }

    fn checks_metadata(&self) -> bool {
        true
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let place = match service(object) {
            Some(service) => {
                format!("{}/{}", service.text(&["namespace"]), service.text(&["name"]))
            }
            None => "Local".to_owned(),
        };
        vec![name_cell(object), place.into(), available(object).into(), age_cell(object, now)]
    }
}

/// The service of an APIService that is not local.
fn service(object: &Value) -> Option<&Value> {
    object.at(&["spec", "service"]).filter(|service| !service.is_null())
}

fn available(object: &Value) -> String {
    let conditions = object.at(&["status", "conditions"]).and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let Some(condition) = conditions.find(|c| c.text(&["type"]) == "Available") else {
        return "Unknown".into();
    };
    match (condition.text(&["status"]), condition.text(&["reason"])) {
        (status @ "True", _) | (status, "") => status.to_owned(),
        (status, reason) => format!("{status} ({reason})"),
    }
}
