//! `/scale`: an object seen as a Scale of `autoscaling/v1`, which is how autoscalers and `kubectl scale`
//! work on any type that counts something.

use serde_json::{Map, Value, json};

use super::{Body, Call, Expected, ObjectAnswer, Served, decode::Misfit};
use crate::{
    field::FieldError,
    name::Name,
    object::ObjectExt,
    request::FieldValidation,
    resource::{ScaleSelector, Schema, Subresource},
    schema::builtin,
    selector::object_selector_text,
    status::{ApiError, ApiResult, GroupName},
};

/// The table of a Scale.
const SCALE: &str = "io.k8s.api.autoscaling.v1.Scale";

/// What a Scale says about the object that it is of.
const METADATA: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

impl Call<'_> {
    /// The scale of an answer, when the call is about the scale.
    pub fn scale_of(&self, answer: &ObjectAnswer) -> Option<Value> {
        (self.subresource == Some(Subresource::Scale)).then(|| match answer {
            ObjectAnswer::Stored(object) => self.scale(&object.value()),
            ObjectAnswer::Tree(tree) => self.scale(tree),
        })
    }

    /// Fails when the object of a custom type does not say how many it wants.
    pub fn check_scale(&self, stored: &Value) -> ApiResult<()> {
        let Some(scaling) = &self.endpoint.view().scale else { return Ok(()) };
        if !self.endpoint.is_custom() || at(stored, &scaling.wanted).is_some() {
            return Ok(());
        }
        let path: Vec<&str> = scaling.wanted.iter().map(|part| &**part).collect();
        let why = format!("the spec replicas field \".{}\" does not exist", path.join("."));
        Err(ApiError::internal(&why, &why).caused("", &why, None))
    }

    /// The scale of a stored object.
    pub(super) fn scale(&self, stored: &Value) -> Value {
        let object = self.endpoint.to_view(stored.clone());
        let mut meta = Map::new();
        for field in METADATA {
            if let Some(value) = object.at(&["metadata", field]) {
                meta.insert(field.into(), value.clone());
            }
        }
        let (mut spec, mut status) = (json!({}), json!({"replicas": 0}));
        if let Some(scaling) = &self.endpoint.view().scale {
            let wanted = number(&object, &scaling.wanted);
            if wanted != 0 {
                spec["replicas"] = wanted.into();
            }
            status["replicas"] = number(&object, &scaling.present).into();
            let selector = match &scaling.selector {
                ScaleSelector::None => String::new(),
                ScaleSelector::Object(path) => {
                    object_selector_text(at(&object, path).unwrap_or(&Value::Null))
                }
                ScaleSelector::Text(path) => {
                    at(&object, path).and_then(Value::as_str).unwrap_or_default().to_owned()
                }
            };
            if !selector.is_empty() {
                status["selector"] = selector.into();
            }
        }
        json!({
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": meta,
            "spec": spec,
            "status": status,
        })
    }

    /// The fields that a body may have.
    pub(super) fn body_schema(&self) -> Schema {
        match self.subresource {
            Some(Subresource::Scale) => builtin(SCALE).into(),
            _ => self.endpoint.view().schema.clone(),
        }
    }

    /// What the object is to be when this Scale is applied.
    pub(super) fn configured(&self, scale: &Value) -> Value {
        let mut config = json!({
            "kind": &self.endpoint.resource().kind,
            "apiVersion": self.endpoint.view().api_version(),
            "metadata": scale.get("metadata").cloned().unwrap_or_default(),
        });
        let wanted = scale.at(&["spec", "replicas"]);
        if let (Some(scaling), Some(wanted)) = (&self.endpoint.view().scale, wanted) {
            set(&mut config, &scaling.wanted, wanted.clone());
        }
        config
    }

    /// The Scale in a body.
    pub(super) fn decode_scale(&self, served: &Served, body: &Body) -> ApiResult<Value> {
        let mut scale = expected().decode(served, body, self.warnings)?;
        self.check_namespace(&mut scale)?;
        self.check_name(&scale)?;
        Ok(scale)
    }

    /// The result of a patch of a Scale.
    pub(super) fn conform_scale(
        &self,
        served: &Served,
        scale: Value,
        validation: FieldValidation,
        problems: impl FnOnce(&[String]) -> Vec<String>,
    ) -> Result<Value, Misfit> {
        let (scale, problems) = expected().conform(served, scale, validation, problems)?;
        self.warnings.lock().extend(problems);
        Ok(scale)
    }

    /// The stored object as a Scale wants it.
    pub(super) fn scaled(&self, scale: &Value, old: &Value) -> ApiResult<Value> {
        let wanted = scale.at(&["spec", "replicas"]).and_then(Value::as_i64).unwrap_or(0);
        // The rules of custom types look at the number themselves.
        if wanted < 0 && !self.endpoint.is_custom() {
            let problem = "must be greater than or equal to 0";
            let error = FieldError::invalid("spec.replicas", &wanted.into(), problem);
            let kind = GroupName { group: "autoscaling", name: "Scale" };
            return Err(ApiError::invalid(kind, self.name, &[error]));
        }
        let (uid, found) = (scale.uid(), old.uid());
        if !uid.is_empty() && uid != found {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
            );
            return Err(ApiError::conflict(self.endpoint.group_resource(), self.name, why));
        }
        let mut object = self.endpoint.to_view(old.clone());
        if let Some(scaling) = &self.endpoint.view().scale {
            set(&mut object, &scaling.wanted, wanted.into());
        }
        object.meta_mut().insert("resourceVersion".into(), scale.resource_version().into());
        Ok(self.endpoint.to_stored(object))
    }
}

fn expected() -> Expected<'static> {
    Expected::virtual_kind("autoscaling", "Scale")
}

fn at<'a>(object: &'a Value, path: &[Name]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, part| value.get(&**part))
}

fn number(object: &Value, path: &[Name]) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
}

/// Sets a field below objects, which are made where they are missing.
fn set(object: &mut Value, path: &[Name], value: Value) {
    let mut place = object;
    for part in path {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[&**part];
    }
    *place = value;
}
