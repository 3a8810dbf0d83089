//! What is wrong with a definition, in upstream's words and order.
//!
//! What all versions have in common upstream keeps once, at the top of the spec, and complains about
//! there: so do we.

use serde_json::{Value, json};

use super::{find, openapi, versions};
use crate::{field::FieldError, object::ObjectExt, resource::NameRule, types::validate_name};

const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// How many fields may be made selectable.
const MAX_SELECTABLE: usize = 8;

/// The longest warning.
const MAX_WARNING: usize = 256;

/// The annotation that says who approved of an API in a group of Kubernetes.
const APPROVED: &str = "api-approved.kubernetes.io";

/// The problems of a new definition.
pub(super) fn create(object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let names = &object["spec"]["names"];
    let required = format!("{}.{}", names.text(&["plural"]), object.text(&["spec", "group"]));
    if object.name() != required && !object.name().is_empty() {
        let text = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid_str("metadata.name", object.name(), text));
    }
    spec(object, None, &mut errors);
    rest(object, None, &mut errors);
    errors
}

/// The problems of a changed definition.
pub(super) fn update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    spec(new, Some(old), &mut errors);
    let established = find(old, "Established").is_some_and(|c| c.text(&["status"]) == "True");
    let always = [&["spec", "group"][..], &["spec", "names", "plural"]];
    let once = [&["spec", "scope"][..], &["spec", "names", "kind"]];
    for path in once.iter().filter(|_| established).chain(&always) {
        if new.at(path) != old.at(path) {
            let (path, value) = (path.join("."), new.at(path).cloned().unwrap_or_default());
            errors.push(FieldError::invalid(path, &value, "field is immutable"));
        }
    }
    rest(new, Some(old), &mut errors);
    errors
}

/// The problems of a changed status.
pub(super) fn status(new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    names(&new["status"]["acceptedNames"], "status.acceptedNames", &mut errors);
    errors
}

/// Everything but the spec.
fn rest(new: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    errors.extend(status(new));
    stored_versions(new, errors);
    errors.extend(approval_error(new, old));
    let preserves =
        |object: &Value| object.at(&["spec", "preserveUnknownFields"]) == Some(&Value::Bool(true));
    if preserves(new) && !old.is_some_and(preserves) {
        let text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &true.into(), text));
    }
}

fn spec(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    group_and_scope(spec, errors);
    let common = Common::of(object);
    for (at, version) in versions(object).enumerate() {
        let schema = version.at(&["schema", "openAPIV3Schema"]);
        if schema.is_none_or(Value::is_null) {
            let path = format!("spec.versions[{at}].schema.openAPIV3Schema");
            errors.push(FieldError::required(path, ""));
        }
    }
    let has_default = |v: &Value| v.at(&["schema", "openAPIV3Schema"]).is_some_and(has_defaults);
    if spec["preserveUnknownFields"] == true && versions(object).any(has_default) {
        let text = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", &true.into(), text));
    }
    for (at, version) in versions(object).enumerate() {
        let path = format!("spec.versions[{at}]");
        dns1035(&format!("{path}.name"), version.text(&["name"]), errors);
        deprecation(&path, version, errors);
        common.check_version(&path, version, old, errors);
    }
    version_set(object, errors);
    // Upstream keeps the first name a second time.
    if let Some(first) = versions(object).next() {
        dns1035("spec.version", first.text(&["name"]), errors);
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        if spec.text(&["names", field]).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{field}"), ""));
        }
    }
    names(&spec["names"], "spec.names", errors);
    if let Some(first) = versions(object).next() {
        common.check_top(first, old, errors);
    }
    conversion(spec, errors);
}

fn group_and_scope(spec: &Value, errors: &mut Vec<FieldError>) {
    let group = spec.text(&["group"]);
    let problems = validate_name(NameRule::DnsSubdomain, group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !problems.is_empty() {
        errors.push(FieldError::invalid_str("spec.group", group, problems.join(",")));
    } else if !group.contains('.') {
        let text = "should be a domain with at least one dot";
        errors.push(FieldError::invalid_str("spec.group", group, text));
    }
    match spec.text(&["scope"]) {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => {
            let known = ["Cluster", "Namespaced"];
            errors.push(FieldError::not_supported("spec.scope", other, &known));
        }
    }
}

/// What all versions have in common.
struct Common {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
    any_status: bool,
}

impl Common {
    fn of(object: &Value) -> Self {
        let same = |field: &str| {
            let mut values = versions(object).map(|version| version.get(field));
            let first = values.next();
            values.all(|value| Some(value) == first)
        };
        let status = |version: &Value| version.at(&["subresources", "status"]).is_some();
        Self {
            schema: same("schema"),
            subresources: same("subresources"),
            columns: same("additionalPrinterColumns"),
            selectable: same("selectableFields"),
            any_status: versions(object).any(status),
        }
    }

    fn check_version(
        &self,
        path: &str,
        version: &Value,
        old: Option<&Value>,
        errors: &mut Vec<FieldError>,
    ) {
        if !self.schema {
            let has_status = version.at(&["subresources", "status"]).is_some();
            schema(&format!("{path}.schema"), version, has_status, old, errors);
        }
        if !self.subresources {
            subresources(&format!("{path}.subresources"), version, errors);
        }
        if !self.columns {
            columns(path, version, errors);
        }
        if !self.selectable {
            selectable(path, version, old, errors);
        }
    }

    fn check_top(&self, version: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
        if self.schema {
            schema("spec.validation", version, self.any_status, old, errors);
        }
        if self.subresources {
            subresources("spec.subresources", version, errors);
        }
        if self.columns {
            columns("spec", version, errors);
        }
        if self.selectable {
            selectable("spec", version, old, errors);
        }
    }
}

fn schema(
    path: &str,
    version: &Value,
    has_status: bool,
    old: Option<&Value>,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = version.at(&["schema", "openAPIV3Schema"]).filter(|s| s.is_object()) else {
        return;
    };
    let same = |before: &Value| {
        before.get("name") == version.get("name") && before.get("schema") == version.get("schema")
    };
    let unchanged = old.is_some_and(|old| versions(old).any(same));
    errors.extend(openapi::problems(path, schema, has_status, unchanged));
}

fn has_defaults(schema: &Value) -> bool {
    schema.get("default").is_some()
        || openapi::below(schema).any(|(_, schema)| has_defaults(schema))
}

fn deprecation(path: &str, version: &Value, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let mut problems = Vec::new();
    if version["deprecated"] != true {
        problems.push("can only be set for deprecated versions".to_owned());
    } else {
        if warning.len() > MAX_WARNING {
            problems.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            problems.push("must not be an empty string".to_owned());
        }
        if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
            problems.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {at}"
            ));
        }
    }
    let at = format!("{path}.deprecationWarning");
    errors.extend(problems.iter().map(|problem| FieldError::invalid_str(&at, warning, problem)));
}

/// One version is stored, and no two have the same name.
fn version_set(object: &Value, errors: &mut Vec<FieldError>) {
    let names: Vec<&str> = versions(object).map(|version| version.text(&["name"])).collect();
    let shown = || if names.is_empty() { Value::Null } else { json!(names) };
    if names.iter().enumerate().any(|(at, name)| names[..at].contains(name)) {
        let text = "must contain unique version names";
        errors.push(FieldError::invalid("spec.versions", &shown(), text));
    }
    if versions(object).filter(|version| version["storage"] == true).count() != 1 {
        let text = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", &shown(), text));
    }
}

fn dns1035(path: &str, name: &str, errors: &mut Vec<FieldError>) {
    let problems = validate_name(NameRule::Dns1035Label, name);
    if !problems.is_empty() {
        errors.push(FieldError::invalid_str(path, name, problems.join(",")));
    }
}

fn names(names: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for field in ["plural", "singular"] {
        let name = names.text(&[field]);
        if !name.is_empty() {
            dns1035(&format!("{path}.{field}"), name, errors);
        }
    }
    for field in ["kind", "listKind"] {
        let name = names.text(&[field]);
        let problems = validate_name(NameRule::Dns1035Label, &name.to_lowercase());
        if !name.is_empty() && !problems.is_empty() {
            let text =
                format!("may have mixed case, but should otherwise match: {}", problems.join(","));
            errors.push(FieldError::invalid_str(format!("{path}.{field}"), name, text));
        }
    }
    let list = |field: &str| names.get(field).and_then(Value::as_array).into_iter().flatten();
    for (at, name) in list("shortNames").filter_map(Value::as_str).enumerate() {
        dns1035(&format!("{path}.shortNames[{at}]"), name, errors);
    }
    let kind = names.text(&["kind"]);
    if !kind.is_empty() && kind == names.text(&["listKind"]) {
        let text = "kind and listKind may not be the same";
        errors.push(FieldError::invalid_str(format!("{path}.listKind"), kind, text));
    }
    for (at, name) in list("categories").filter_map(Value::as_str).enumerate() {
        dns1035(&format!("{path}.categories[{at}]"), name, errors);
    }
}

fn columns(path: &str, version: &Value, errors: &mut Vec<FieldError>) {
    let list = version.get("additionalPrinterColumns").and_then(Value::as_array);
    for (at, column) in list.into_iter().flatten().enumerate() {
        let path = format!("{path}.additionalPrinterColumns[{at}]");
        let [name, kind, format, json_path] =
            ["name", "type", "format", "jsonPath"].map(|field| column.text(&[field]));
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        let text = format!("must be one of {}", COLUMN_TYPES.join(","));
        if kind.is_empty() {
            errors.push(FieldError::required(format!("{path}.type"), text));
        } else if !COLUMN_TYPES.contains(&kind) {
            errors.push(FieldError::invalid_str(format!("{path}.type"), kind, text));
        }
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let text = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(FieldError::invalid_str(format!("{path}.format"), format, text));
        }
        let path = format!("{path}.JSONPath");
        match json_path {
            "" => errors.push(FieldError::required(path, "")),
            json_path => errors.extend(simple_path(&path, json_path)),
        }
    }
}

fn simple_path(path: &str, json_path: &str) -> Option<FieldError> {
    let text = "must be a simple json path starting with .";
    (!json_path.starts_with('.')).then(|| FieldError::invalid_str(path, json_path, text))
}

fn subresources(path: &str, version: &Value, errors: &mut Vec<FieldError>) {
    let Some(scale) = version.at(&["subresources", "scale"]) else { return };
    let under = |field: &str, roots: &[&str], text: &str, errors: &mut Vec<FieldError>| {
        let (at, value) = (format!("{path}.scale.{field}"), scale.text(&[field]));
        if value.is_empty() {
            return match field {
                "labelSelectorPath" => {}
                _ => errors.push(FieldError::required(at, "")),
            };
        }
        if let Some(error) = simple_path(&at, value) {
            errors.push(error);
        } else if !roots.iter().any(|root| value.starts_with(root)) {
            errors.push(FieldError::invalid_str(at, value, text));
        }
    };
    under("specReplicasPath", &[".spec."], "should be a json path under .spec", errors);
    under("statusReplicasPath", &[".status."], "should be a json path under .status", errors);
    let either = "should be a json path under either .spec or .status";
    under("labelSelectorPath", &[".spec.", ".status."], either, errors);
}

fn selectable(path: &str, version: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let fields = fields.map(Vec::as_slice).unwrap_or_default();
    let schema = version.at(&["schema", "openAPIV3Schema"]);
    let (Some(schema), false) = (schema, fields.is_empty()) else { return };
    let mut known: Vec<String> = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let at = format!("{path}.selectableFields[{at}].jsonPath");
        let json_path = field.text(&["jsonPath"]);
        if json_path.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let (found, schema) = match openapi::find_field(json_path, schema, false) {
            Ok(found) => found,
            Err(why) => {
                let text = format!("is an invalid path: {why}");
                errors.push(FieldError::invalid_str(at, json_path, text));
                continue;
            }
        };
        if found.trim_start_matches('.').split('.').next() == Some("metadata") {
            let text = "must not point to fields in metadata";
            errors.push(FieldError::invalid_str(&at, json_path, text));
        }
        if !matches!(schema.text(&["type"]), "string" | "boolean" | "integer") {
            let text = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid_str(&at, json_path, text));
        }
        match known.contains(&found) {
            true => errors.push(FieldError::duplicate(at, &json_path.into())),
            false => known.push(found),
        }
    }
    let unchanged = old.is_some_and(|old| {
        let same_name = |v: &&Value| v.get("name") == version.get("name");
        let before = versions(old).find(same_name).and_then(|v| v.get("selectableFields"));
        before == version.get("selectableFields")
    });
    if known.len() > MAX_SELECTABLE && !unchanged {
        let path = format!("{path}.selectableFields");
        errors.push(FieldError::too_many(path, known.len(), MAX_SELECTABLE));
    }
}

fn conversion(spec: &Value, errors: &mut Vec<FieldError>) {
    let Some(conversion) = spec.get("conversion").filter(|c| c.is_object()) else { return };
    let strategy = conversion.text(&["strategy"]);
    if strategy != "None" && spec["preserveUnknownFields"] == true {
        let text = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid_str("spec.conversion.strategy", strategy, text));
    }
    match strategy {
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        "None" | "Webhook" => {}
        other => {
            let known = ["None", "Webhook"];
            errors.push(FieldError::not_supported("spec.conversion.strategy", other, &known));
        }
    }
    let config = conversion.at(&["webhook", "clientConfig"]).filter(|c| c.is_object());
    let reviews = conversion.at(&["webhook", "conversionReviewVersions"]);
    let reviews: Vec<&str> =
        reviews.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if strategy == "Webhook" {
        webhook(config, &reviews, errors);
        return;
    }
    let text = "should not be set when strategy is not set to Webhook";
    if config.is_some() {
        errors.push(FieldError::forbidden("spec.conversion.webhookClientConfig", text));
    }
    if !reviews.is_empty() {
        errors.push(FieldError::forbidden("spec.conversion.conversionReviewVersions", text));
    }
}

fn webhook(config: Option<&Value>, reviews: &[&str], errors: &mut Vec<FieldError>) {
    let path = "spec.conversion.webhookClientConfig";
    match config {
        None => {
            let text = "required when strategy is set to Webhook";
            errors.push(FieldError::required(path, text));
        }
        Some(config) if config.get("url").is_some() == config.get("service").is_some() => {
            errors.push(FieldError::required(path, "exactly one of url or service is required"));
        }
        Some(config) => {
            for field in ["name", "namespace"] {
                let missing = config.get("service").is_some_and(|s| s.text(&[field]).is_empty());
                if missing {
                    let text = format!("service {field} is required");
                    errors.push(FieldError::required(format!("{path}.service.{field}"), text));
                }
            }
        }
    }
    let path = "spec.conversion.conversionReviewVersions";
    if reviews.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !reviews.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        let text = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(path, &json!(reviews), text));
    }
}

fn stored_versions(object: &Value, errors: &mut Vec<FieldError>) {
    const PATH: &str = "status.storedVersions";
    let stored = object.at(&["status", "storedVersions"]).and_then(Value::as_array);
    let stored = stored.map(Vec::as_slice).unwrap_or_default();
    if stored.is_empty() {
        let text = "must have at least one stored version";
        errors.push(FieldError::invalid(PATH, &Value::Null, text));
        return;
    }
    for version in versions(object).filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            let text = format!("must have the storage version {}", version.text(&["name"]));
            errors.push(FieldError::invalid(PATH, &json!(stored), text));
        }
    }
    for (at, name) in stored.iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if !versions(object).any(|version| version.text(&["name"]) == name) {
            let text = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid_str(format!("{PATH}[{at}]"), name, text));
        }
    }
}

/// What the annotation says of an API in a group of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Approval {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

fn approval(object: &Value) -> (Approval, String) {
    let annotations = object.annotations();
    let found = annotations.iter().find(|(name, _)| *name == APPROVED).map(|(_, value)| *value);
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match found.unwrap_or_default() {
        "" => (
            Approval::Missing,
            format!("protected groups must have approval annotation \"{APPROVED}\", {see}"),
        ),
        text if text.starts_with("unapproved") => {
            (Approval::Bypassed, format!("not approved: {}", crate::field::quoted(text)))
        }
        text if text.split_once("://").is_some_and(|(scheme, rest)| {
            !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/')
        }) =>
        {
            (Approval::Approved, format!("approved in {text}"))
        }
        _ => (
            Approval::Invalid,
            format!(
                "protected groups must have approval annotation \"{APPROVED}\" with either a URL or a reason starting with \"unapproved\", {see}"
            ),
        ),
    }
}

fn is_protected(group: &str) -> bool {
    [".k8s.io", ".kubernetes.io"].iter().any(|suffix| group.ends_with(suffix))
        || matches!(group, "k8s.io" | "kubernetes.io")
}

fn approval_error(new: &Value, old: Option<&Value>) -> Option<FieldError> {
    if !is_protected(new.text(&["spec", "group"])) {
        return None;
    }
    let (state, reason) = approval(new);
    if old.is_some_and(|old| approval(old).0 == state) {
        return None;
    }
    let path = format!("metadata.annotations[{APPROVED}]");
    match state {
        Approval::Approved | Approval::Bypassed => None,
        Approval::Missing => Some(FieldError::required(path, reason)),
        Approval::Invalid => {
            let value = new.at(&["metadata", "annotations", APPROVED]);
            Some(FieldError::invalid(path, value.unwrap_or(&Value::Null), reason))
        }
    }
}

/// What the condition about approval says: whether it holds, the reason and the message; nothing when
/// the group is nobody's in particular.
pub fn approval_problem(object: &Value) -> Option<(bool, &'static str, String)> {
    if !is_protected(object.text(&["spec", "group"])) {
        return None;
    }
    let (state, message) = approval(object);
    Some(match state {
        Approval::Invalid => (false, "InvalidAnnotation", message),
        Approval::Missing => (false, "MissingAnnotation", message),
        Approval::Approved => (true, "ApprovedAnnotation", message),
        Approval::Bypassed => (false, "UnapprovedAnnotation", message),
    })
}
