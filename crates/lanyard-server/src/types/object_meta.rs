//! The rules of object metadata: what a new object may say, what an update may change, and what the
//! server keeps to itself.
//!
//! The registry calls [`clear_system_fields`] before a creation and [`carry_over`] before an update,
//! then validates. Texts and their order are those of apimachinery.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::names::{validate_label_key, validate_label_value, validate_name, validate_name_prefix};
use crate::{
    field::{FieldError, quoted},
    object::ObjectExt,
    resource::{NameRule, Scope},
    schema::{Struct, builtin},
};

/// The total size of all annotations of an object: they are stored and sent with every change.
pub const MAX_ANNOTATION_BYTES: usize = 256 << 10;

/// How many surplus controllers of one object are complained about: each complaint shows all owners.
const MAX_SURPLUS_CONTROLLERS: usize = 3;

/// The longest name of a field manager.
const MAX_MANAGER_BYTES: usize = 128;

/// The longest name of a subresource in managed fields.
const MAX_SUBRESOURCE_BYTES: usize = 256;

/// The finalizers without a domain that upstream knows.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", ORPHAN, FOREGROUND];
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// The problems of the metadata of a new object.
pub fn validate_create(object: &Value, scope: Scope, name_rule: NameRule) -> Vec<FieldError> {
    validate_named(object, scope, |name, is_prefix| match is_prefix {
        true => validate_name_prefix(name_rule, name),
        false => validate_name(name_rule, name),
    })
}

/// The same for a type with a rule of its own for names and their beginnings.
pub(super) fn validate_named(
    object: &Value,
    scope: Scope,
    name_problems: impl Fn(&str, bool) -> Vec<String>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let generate_name = object.text(&["metadata", "generateName"]);
    if !generate_name.is_empty() {
        for problem in name_problems(generate_name, true) {
            errors.push(invalid_str("generateName", generate_name, problem));
        }
    }
    match object.name() {
        "" => {
            errors.push(FieldError::required("metadata.name", "name or generateName is required"))
        }
        name => {
            for problem in name_problems(name, false) {
                errors.push(invalid_str("name", name, problem));
            }
        }
    }
    match (scope, object.namespace()) {
        (Scope::Namespaced, "") => errors.push(FieldError::required("metadata.namespace", "")),
        (Scope::Namespaced, namespace) => {
            for problem in validate_name(NameRule::DnsLabel, namespace) {
                errors.push(invalid_str("namespace", namespace, problem));
            }
        }
        (Scope::Cluster, "") => {}
        (Scope::Cluster, _) => {
            errors.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"));
        }
    }
    validate_content(object, &mut errors);
    errors
}

/// The problems of the metadata of a changed object, after [`carry_over`].
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_content(new, &mut errors);
    if old.is_deleting() {
        no_new_finalizers(new, old, &mut errors);
    }
    if new.resource_version().is_empty() {
        errors.push(invalid_str("resourceVersion", "", "must be specified for an update"));
    }
    if generation(new) < generation(old) {
        let shown = generation(new).into();
        errors.push(FieldError::invalid("metadata.generation", &shown, "must not be decremented"));
    }
    for field in IMMUTABLE {
        let (new, old) = (new.at(&["metadata", field]), old.at(&["metadata", field]));
        if !same(new, old) {
            let empty = empty_of(field);
            let path = format!("metadata.{field}");
            errors.push(FieldError::invalid(path, new.unwrap_or(&empty), "field is immutable"));
        }
    }
    errors
}

/// Gives a changed object what an update cannot change, before it is validated.
///
/// `generation`, `creationTimestamp` and `deletionTimestamp` come from the stored object whatever the
/// request says; `uid`, `deletionGracePeriodSeconds` and `resourceVersion` only when the request is
/// silent (whether it may be silent about the resource version is for the registry to decide first).
/// Everything else, `name` and `namespace` included, stays as the request says.
pub fn carry_over(new: &mut Value, old: &Value) {
    let empty = Map::new();
    let old = old.meta().unwrap_or(&empty);
    let new = new.meta_mut();
    new.remove("selfLink");
    match old.get("generation") {
        Some(generation) => new.insert("generation".into(), generation.clone()),
        None => new.remove("generation"),
    };
    for field in ["creationTimestamp", "deletionTimestamp"] {
        if let Some(time) = old.get(field).filter(|time| !time.is_null()) {
            new.insert(field.into(), time.clone());
        }
    }
    for field in ["uid", "deletionGracePeriodSeconds", "resourceVersion"] {
        if let Some(value) = old.get(field)
            && new.get(field).is_none_or(is_unset)
        {
            new.insert(field.into(), value.clone());
        }
    }
}

/// Takes from a new object what only the server may say.
pub fn clear_system_fields(object: &mut Value) {
    let meta = object.meta_mut();
    for field in
        ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"]
    {
        meta.remove(field);
    }
}

/// The rule about finalizers of most kinds, beyond that of all: a name without a domain must be one of
/// those that Kubernetes itself uses.
pub(super) fn validate_finalizer_domains(object: &Value) -> Vec<FieldError> {
    let finalizers = object.finalizers();
    let paths = (0..finalizers.len()).map(|index| format!("metadata.finalizers[{index}]"));
    finalizers
        .iter()
        .zip(paths)
        .filter_map(|(finalizer, path)| finalizer_domain_problem(finalizer, &path))
        .collect()
}

/// The problem of a finalizer that is neither standard nor has a domain.
pub(super) fn finalizer_domain_problem(finalizer: &str, path: &str) -> Option<FieldError> {
    let fine = finalizer.contains('/') || STANDARD_FINALIZERS.contains(&finalizer);
    let problem = "name is neither a standard finalizer name nor is it fully qualified";
    (!fine).then(|| FieldError::invalid_str(path, finalizer, problem))
}

/// The problems of a map of labels.
pub(super) fn validate_labels(labels: &[(&str, &str)], path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        for problem in validate_label_key(key) {
            errors.push(FieldError::invalid_str(path, key, problem));
        }
        for problem in validate_label_value(value) {
            errors.push(FieldError::invalid_str(path, value, problem));
        }
    }
    errors
}

const IMMUTABLE: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
];

/// The checks that new and changed objects share.
fn validate_content(object: &Value, errors: &mut Vec<FieldError>) {
    if generation(object) < 0 {
        let shown = generation(object).into();
        let problem = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("metadata.generation", &shown, problem));
    }
    errors.extend(validate_labels(&object.labels(), "metadata.labels"));
    validate_annotations(object, errors);
    validate_owners(object, errors);
    validate_finalizers(object, errors);
    validate_managed_fields(object, errors);
}

fn validate_annotations(object: &Value, errors: &mut Vec<FieldError>) {
    let annotations = object.annotations();
    for (key, _) in &annotations {
        for problem in validate_label_key(&key.to_lowercase()) {
            errors.push(invalid_str("annotations", key, problem));
        }
    }
    let total: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    if total > MAX_ANNOTATION_BYTES {
        errors.push(FieldError::too_long("metadata.annotations", MAX_ANNOTATION_BYTES));
    }
}

fn validate_owners(object: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "metadata.ownerReferences";
    let Some(owners) = object.at(&["metadata", "ownerReferences"]).and_then(Value::as_array) else {
        return;
    };
    let mut first_controller = None;
    let mut surplus = 0;
    for owner in owners {
        validate_owner(owner, errors);
        if owner.get("controller") != Some(&Value::Bool(true)) {
            continue;
        }
        let controller = format!("{}/{}", owner.text(&["kind"]), owner.text(&["name"]));
        match &first_controller {
            None => first_controller = Some(controller),
            Some(_) if surplus == MAX_SURPLUS_CONTROLLERS => break,
            Some(first) => {
                surplus += 1;
                let problem = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references \
                     for {first} and {controller}"
                );
                let shown = owner_reference().show_list(owners);
                errors.push(FieldError::invalid_json(PATH, &shown, problem));
            }
        }
    }
}

fn validate_owner(owner: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "metadata.ownerReferences";
    let api_version = owner.text(&["apiVersion"]);
    let version = match api_version.split('/').collect::<Vec<_>>()[..] {
        [version] | [_, version] => version,
        _ => "",
    };
    if version.is_empty() {
        let path = format!("{PATH}.apiVersion");
        errors.push(FieldError::invalid_str(path, api_version, "version must not be empty"));
    }
    for field in ["kind", "name", "uid"] {
        if owner.text(&[field]).is_empty() {
            errors.push(FieldError::invalid_str(
                format!("{PATH}.{field}"),
                "",
                "must not be empty",
            ));
        }
    }
    // Events expire: whatever they own would go with them.
    if (api_version, owner.text(&["kind"])) == ("v1", "Event") {
        let problem = "/v1, Kind=Event is disallowed from being an owner";
        errors.push(FieldError::invalid_json(PATH, &owner_reference().show(owner), problem));
    }
}

fn validate_finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    let finalizers = object.finalizers();
    for finalizer in &finalizers {
        for problem in validate_label_key(finalizer) {
            errors.push(invalid_str("finalizers", finalizer, problem));
        }
    }
    if finalizers.contains(&ORPHAN) && finalizers.contains(&FOREGROUND) {
        let problem = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        errors.push(FieldError::invalid("metadata.finalizers", &finalizers.into(), problem));
    }
}

fn validate_managed_fields(object: &Value, errors: &mut Vec<FieldError>) {
    let entries = object.at(&["metadata", "managedFields"]).and_then(Value::as_array);
    for (index, entry) in entries.into_iter().flatten().enumerate() {
        let path = format!("metadata.managedFields[{index}]");
        let operation = entry.text(&["operation"]);
        if !matches!(operation, "Apply" | "Update") {
            let problem = "must be `Apply` or `Update`";
            errors.push(FieldError::invalid_str(format!("{path}.operation"), operation, problem));
        }
        let fields_type = entry.text(&["fieldsType"]);
        if !matches!(fields_type, "" | "FieldsV1") {
            let problem = "must be `FieldsV1`";
            errors.push(FieldError::invalid_str(
                format!("{path}.fieldsType"),
                fields_type,
                problem,
            ));
        }
        errors.extend(validate_manager(entry.text(&["manager"]), &format!("{path}.manager")));
        if entry.text(&["subresource"]).len() > MAX_SUBRESOURCE_BYTES {
            errors.push(FieldError::too_long(format!("{path}.subresource"), MAX_SUBRESOURCE_BYTES));
        }
    }
}

/// The problems of the name of a field manager, in an object or in a request's options.
pub fn validate_manager(manager: &str, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > MAX_MANAGER_BYTES {
        errors.push(FieldError::too_long(path, MAX_MANAGER_BYTES));
    }
    // Each complaint shows the whole name: no more of them than a name of the right length could cause.
    for (at, character) in manager.char_indices().take(MAX_MANAGER_BYTES) {
        if !crate::field::is_printable(character) {
            let problem =
                format!("invalid character U+{:04X} (at position {at})", u32::from(character));
            errors.push(FieldError::invalid_str(path, manager, problem));
        }
    }
    errors
}

fn no_new_finalizers(new: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let before: HashSet<_> = old.finalizers().into_iter().collect();
    let mut extra: Vec<_> =
        new.finalizers().into_iter().filter(|finalizer| !before.contains(finalizer)).collect();
    if extra.is_empty() {
        return;
    }
    extra.sort_unstable();
    extra.dedup();
    let names: Vec<_> = extra.into_iter().map(quoted).collect();
    let problem = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers \
         []string{{{}}}",
        names.join(", ")
    );
    errors.push(FieldError::forbidden("metadata.finalizers", problem));
}

fn generation(object: &Value) -> i64 {
    object.at(&["metadata", "generation"]).and_then(Value::as_i64).unwrap_or(0)
}

fn same(new: Option<&Value>, old: Option<&Value>) -> bool {
    match (new, old) {
        (Some(new), Some(old)) => new == old,
        (one, other) => one.or(other).is_none_or(is_unset),
    }
}

fn is_unset(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// What an unset field is shown as.
fn empty_of(field: &str) -> Value {
    match field {
        "name" | "namespace" | "uid" => "".into(),
        _ => Value::Null,
    }
}

fn invalid_str(field: &str, value: &str, problem: impl AsRef<str>) -> FieldError {
    FieldError::invalid_str(format!("metadata.{field}"), value, problem)
}

fn owner_reference() -> &'static Struct {
    builtin("io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn texts(errors: &[FieldError]) -> Vec<String> {
        errors.iter().map(FieldError::to_string).collect()
    }

    #[test]
    fn a_new_object_has_a_name_and_the_namespace_of_its_scope() {
        let check = |meta: Value, scope, expected: &[&str]| {
            let object = json!({"metadata": meta});
            let errors = validate_create(&object, scope, NameRule::DnsSubdomain);
            assert_eq!(texts(&errors), expected, "{meta}");
        };
        check(json!({"name": "a", "namespace": "n"}), Scope::Namespaced, &[]);
        check(json!({"name": "a"}), Scope::Cluster, &[]);
        check(
            json!({}),
            Scope::Namespaced,
            &[
                "metadata.name: Required value: name or generateName is required",
                "metadata.namespace: Required value",
            ],
        );
        check(
            json!({"name": "a", "namespace": "n"}),
            Scope::Cluster,
            &["metadata.namespace: Forbidden: not allowed on this type"],
        );
        check(
            json!({"name": "a", "namespace": "n.m"}),
            Scope::Namespaced,
            &["metadata.namespace: Invalid value: \"n.m\": must not contain dots"],
        );
    }

    #[test]
    fn managed_fields_have_a_manager_and_an_operation() {
        let manager = "m".repeat(129);
        let object = json!({"metadata": {"name": "a", "managedFields": [
            {"operation": "Apply", "fieldsType": "FieldsV1", "manager": "kubectl"},
            {"operation": "X", "fieldsType": "Y", "manager": "a\u{1}", "subresource": "s".repeat(257)},
            {"operation": "Update", "manager": manager},
        ]}});
        let errors = validate_create(&object, Scope::Cluster, NameRule::DnsSubdomain);
        assert_eq!(
            texts(&errors),
            [
                "metadata.managedFields[1].operation: Invalid value: \"X\": must be `Apply` or `Update`",
                "metadata.managedFields[1].fieldsType: Invalid value: \"Y\": must be `FieldsV1`",
                "metadata.managedFields[1].manager: Invalid value: \"a\\x01\": invalid character \
                 U+0001 (at position 1)",
                "metadata.managedFields[1].subresource: Too long: may not be more than 256 bytes",
                "metadata.managedFields[2].manager: Too long: may not be more than 128 bytes",
            ]
        );
    }

    fn stored() -> Value {
        json!({"metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"old": "label"},
        }})
    }

    #[test]
    fn an_update_cannot_change_what_the_server_owns() {
        let check = |change: Value, expected: &[&str]| {
            let mut new = stored();
            for (field, value) in change.as_object().unwrap() {
                new.meta_mut().insert(field.clone(), value.clone());
            }
            assert_eq!(texts(&validate_update(&new, &stored())), expected, "{change}");
        };
        check(json!({"labels": {"new": "label"}, "resourceVersion": "6"}), &[]);
        check(json!({"name": "b"}), &["metadata.name: Invalid value: \"b\": field is immutable"]);
        check(json!({"uid": null}), &["metadata.uid: Invalid value: null: field is immutable"]);
        check(
            json!({"generation": 2, "resourceVersion": ""}),
            &[
                "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
                "metadata.generation: Invalid value: 2: must not be decremented",
            ],
        );
        check(
            json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            &[
                "metadata.deletionTimestamp: Invalid value: \"2026-01-01T00:00:00Z\": field is immutable",
            ],
        );
    }

    #[test]
    fn an_update_keeps_what_it_is_silent_about() {
        let mut new = json!({"metadata": {"name": "a", "namespace": "n", "selfLink": "/a"}});
        carry_over(&mut new, &stored());
        let mut expected = stored();
        expected.meta_mut().remove("labels");
        assert_eq!(new, expected);
        assert!(validate_update(&new, &stored()).is_empty());

        let mut new = json!({"metadata": {
            "uid": "other", "resourceVersion": "5", "generation": 99,
            "creationTimestamp": "2020-01-01T00:00:00Z",
        }});
        carry_over(&mut new, &stored());
        assert_eq!(new["metadata"]["uid"], "other", "a wrong uid is for validation to find");
        assert_eq!(new["metadata"]["resourceVersion"], "5");
        assert_eq!(new["metadata"]["generation"], 3);
        assert_eq!(new["metadata"]["creationTimestamp"], "2026-01-01T00:00:00Z");
    }
}
