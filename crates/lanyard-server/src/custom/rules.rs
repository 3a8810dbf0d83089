//! How objects of a custom type behave: what a write may touch, and what its schema allows.

use serde_json::Value;

use super::Version;
use crate::{
    field::{FieldError, FieldErrorKind, quoted},
    name::Name,
    object::ObjectExt,
    resource::{Column, Rules, Subresource, View, WriteContext},
    structural::{Checker, validate_embedded, validate_lists},
    types::validate_label_key,
};

/// The finalizers without a domain that upstream knows.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

pub(super) struct CustomRules {
    /// Whether the stored version has its status apart.
    has_status: bool,
    selectable: Vec<Name>,
    terminating: bool,
}

impl CustomRules {
    pub(super) fn new(views: &[View], terminating: bool) -> Self {
        let versions = || views.iter().filter_map(|view| view.schema.custom());
        let mut selectable: Vec<Name> =
            versions().flat_map(|version| version.selectable.iter().cloned()).collect();
        selectable.sort();
        selectable.dedup();
        let has_status = versions().next().is_some_and(|version| version.has_status);
        Self { has_status, selectable, terminating }
    }
}

impl Rules for CustomRules {
    fn prepare_create(&self, object: &mut Value) {
        if self.has_status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: WriteContext<'_>) {
        let has_status = context.view.schema.custom().is_some_and(|v| v.has_status);
        let Some(fields) = new.as_object_mut() else { return };
        if context.subresource == Some(Subresource::Status) {
            let status = fields.remove("status");
            let managed =
                fields.get("metadata").and_then(|meta| meta.get("managedFields")).cloned();
            *new = old.clone();
            if let (Some(managed), meta) = (managed, new.meta_mut()) {
                meta.insert("managedFields".into(), managed);
            }
            let Some(fields) = new.as_object_mut() else { return };
            match status {
                Some(status) => fields.insert("status".into(), status),
                None => fields.remove("status"),
            };
        } else if has_status {
            match old.get("status") {
                Some(status) => fields.insert("status".into(), status.clone()),
                None => fields.remove("status"),
            };
        }
    }

    fn reset_fields(&self, subresource: Option<Subresource>) -> &'static [&'static [&'static str]] {
        match subresource {
            Some(Subresource::Status) => &[&["metadata"], &["spec"]],
            _ if self.has_status => &[&["status"]],
            _ => &[],
        }
    }

    fn validate(&self, object: &Value, context: WriteContext<'_>) -> Vec<FieldError> {
        let Some(version) = context.view.schema.custom() else { return Vec::new() };
        let mut errors = Checker { base: "" }.check(object, None, &version.node);
        errors.extend(scale_problems(object, context, true));
        errors.extend(validate_embedded(object, &version.node));
        errors.extend(validate_lists(object, &version.node));
        check_rules(version, object, None, &mut errors);
        errors
    }

    fn validate_update(
        &self,
        new: &Value,
        old: &Value,
        context: WriteContext<'_>,
    ) -> Vec<FieldError> {
        let Some(version) = context.view.schema.custom() else { return Vec::new() };
        let mut errors = match context.subresource {
            Some(Subresource::Status) => status_problems(new, old, version),
            _ => Checker { base: "" }.check(new, Some(old), &version.node),
        };
        let of_status = context.subresource == Some(Subresource::Status);
        errors.extend(scale_problems(new, context, !of_status));
        if !of_status {
            errors.extend(validate_embedded(new, &version.node));
        }
        let lists = validate_lists(new, &version.node);
        if !lists.is_empty() && validate_lists(old, &version.node).is_empty() {
            errors.extend(lists);
        }
        check_rules(version, new, Some(old), &mut errors);
        errors
    }

    fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        let known = old.map(|old| old.finalizers()).unwrap_or_default();
        let mut added: Vec<&str> = new.finalizers();
        added.retain(|finalizer| !known.contains(finalizer));
        added.sort_unstable();
        added.dedup();
        added.into_iter().flat_map(finalizer_warnings).collect()
    }

    fn refuses_creation(&self) -> Option<&'static str> {
        let text = "create not allowed while custom resource definition is terminating";
        self.terminating.then_some(text)
    }

    fn unconditional_update(&self) -> bool {
        false
    }

    fn generation_changes(&self, new: &Value, old: &Value) -> Option<bool> {
        let counts = |name: &str| name != "metadata" && !(self.has_status && name == "status");
        let fields = |object: &Value| {
            let fields = object.as_object().into_iter().flatten();
            fields.filter(|(name, _)| counts(name)).count()
        };
        let same = |(name, value): (&String, &Value)| !counts(name) || old.get(name) == Some(value);
        let unchanged = new.as_object().into_iter().flatten().all(same);
        Some(!unchanged || fields(new) != fields(old))
    }

    /// Tables of custom types are made from their versions.
    fn columns(&self) -> &'static [Column] {
        &[]
    }

    fn cells(&self, object: &Value, _now: i64) -> Vec<Value> {
        vec![object.name().into()]
    }

    fn custom_selectable_fields(&self) -> &[Name] {
        &self.selectable
    }

    fn selectable_in_view<'a>(&'a self, view: &'a View, field: &str) -> Option<&'a str> {
        let version = view.schema.custom()?;
        version.selectable.iter().map(|name| &**name).find(|known| *known == field)
    }

    fn selectable_field(&self, object: &Value, field: &str) -> String {
        let found = field.split('.').try_fold(object, |value, part| value.get(part));
        match found {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }
}

/// Rules are for objects that have the shape that they speak of.
fn check_rules(
    version: &Version,
    object: &Value,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    let Some(expressions) = &version.expressions else { return };
    let blocks = |error: &FieldError| {
        matches!(
            error.kind,
            FieldErrorKind::NotSupported
                | FieldErrorKind::Required
                | FieldErrorKind::TooLong
                | FieldErrorKind::TooMany
                | FieldErrorKind::TypeInvalid
        )
    };
    if errors.iter().any(blocks) {
        let text = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        errors.push(FieldError::invalid("<nil>", &Value::Null, text));
        return;
    }
    errors.extend(expressions.validate("", object, old));
}

fn status_problems(new: &Value, old: &Value, version: &Version) -> Vec<FieldError> {
    let (Some(status), Some(node)) = (new.get("status"), version.node.properties.get("status"))
    else {
        return Vec::new();
    };
    Checker { base: "status" }.check(status, old.get("status"), node)
}

/// What `/scale` shows must be numbers that it can show.
fn scale_problems(object: &Value, context: WriteContext<'_>, of_spec: bool) -> Vec<FieldError> {
    let Some(scale) = &context.view.scale else { return Vec::new() };
    let mut errors = Vec::new();
    let wanted = of_spec.then_some(&scale.wanted);
    for path in wanted.into_iter().chain([&scale.present]) {
        let at = format!(".{}", path.iter().map(|part| &**part).collect::<Vec<_>>().join("."));
        let found = path.iter().try_fold(object, |value, part| value.get(&**part));
        let number = match found {
            None => continue,
            Some(value) => value.as_i64(),
        };
        match number {
            Some(number) if number < 0 => {
                let text = "should be a non-negative integer";
                errors.push(FieldError::invalid(at, &number.into(), text));
            }
            Some(number) if number > i64::from(i32::MAX) => {
                let text = format!("should be less than or equal to {}", i32::MAX);
                errors.push(FieldError::invalid(at, &number.into(), text));
            }
            Some(_) => {}
            None => {
                let kind = found.map_or("<nil>", go_type);
                let text = format!(
                    "{at} accessor error: {} is of the type {kind}, expected int64",
                    found.map(ToString::to_string).unwrap_or_default()
                );
                errors.push(FieldError::invalid(at, &0.into(), text));
            }
        }
    }
    errors
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let shown = quoted(finalizer);
    let mut warnings: Vec<String> = validate_label_key(finalizer)
        .into_iter()
        .map(|problem| format!("metadata.finalizers: {shown}: {problem}"))
        .collect();
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        warnings.push(format!(
            "metadata.finalizers: {shown}: prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    warnings
}
