//! Whether a schema is structural: every field has a type outside of `anyOf` and the like, so that what
//! is known can be told from what is not.

use serde_json::Value;

use super::{
    expressions,
    openapi::{child, key},
};
use crate::{
    field::FieldError,
    structural::{Pattern, flag, list, text},
};

/// How many patterns a schema may have: each takes time to compile and memory once it is used.
const MAX_PATTERNS: usize = 2000;

/// How many rules a schema may have: each takes time to compile.
const MAX_RULES: usize = 2000;

/// Where in a schema a part of it stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What keeps a schema from being structural, sorted.
pub(super) fn problems(path: &str, schema: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let patterns = count_patterns(schema);
    if patterns > MAX_PATTERNS {
        let text = format!("must have at most {MAX_PATTERNS} patterns, but has {patterns}");
        return vec![FieldError::forbidden(path, text)];
    }
    let rules = expressions::count_rules(schema);
    if rules > MAX_RULES {
        let text = format!("must have at most {MAX_RULES} validation rules, but has {rules}");
        return vec![FieldError::forbidden(path, text)];
    }
    invariants(path, schema, Level::Root, &mut errors);
    completeness(path, path, schema, schema, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn count_patterns(schema: &Value) -> usize {
    let own = usize::from(schema.get("pattern").is_some());
    own + super::openapi::below(schema).map(|(_, schema)| count_patterns(schema)).sum::<usize>()
}

/// Fields that a schema may not have at all, in the order in which they are looked for.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    let filled = |field: &str| match schema.get(field) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        Some(_) => true,
    };
    let names = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    if let Some((_, name)) = names.into_iter().find(|(field, _)| filled(field)) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let text =
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(text.to_owned());
    }
    if schema.get("items").is_some_and(Value::is_array) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    super::openapi::below(schema).find_map(|(_, schema)| unsupported(schema))
}

fn invariants(path: &str, schema: &Value, level: Level, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    let items = schema.get("items");
    if kind == "array" && items.is_none() {
        errors.push(FieldError::required(child(path, "items"), "must be specified"));
    }
    if let Some(items) = items {
        invariants(&child(path, "items"), items, Level::Item, errors);
    }
    for (name, property) in properties(schema) {
        invariants(&key(path, "properties", name), property, Level::Field, errors);
    }
    let additional = schema.get("additionalProperties");
    if let Some(additional) = additional {
        let path = child(path, "additionalProperties");
        if level == Level::Root {
            errors.push(FieldError::forbidden(&path, "must not be used at the root"));
        }
        if additional.is_object() {
            invariants(&path, additional, Level::Field, errors);
        }
    }
    extensions(path, schema, errors);
    let pattern = IntOrString::of(schema);
    value_validation(path, schema, pattern.any_of, pattern.all_of, errors);
    type_rules(path, schema, level, errors);
    metadata_rules(path, schema, level, errors);
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let preserves = flag(schema, "x-kubernetes-preserve-unknown-fields");
    if embedded && !preserves && properties(schema).next().is_none() {
        let text = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(child(path, "properties"), text));
    }
}

fn extensions(path: &str, schema: &Value, errors: &mut Vec<FieldError>) {
    if !flag(schema, "x-kubernetes-int-or-string") {
        return;
    }
    for name in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if flag(schema, name) {
            let text = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(child(path, name), &true.into(), text));
        }
    }
}

fn type_rules(path: &str, schema: &Value, level: Level, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    let embedded = flag(schema, "x-kubernetes-embedded-resource");
    let free = flag(schema, "x-kubernetes-int-or-string")
        || flag(schema, "x-kubernetes-preserve-unknown-fields");
    let at = child(path, "type");
    if embedded && kind != "object" {
        let text = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind {
            "" => FieldError::required(&at, text),
            kind => FieldError::invalid_str(&at, kind, text),
        });
    } else if kind.is_empty() && !free {
        let text = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&at, text));
    }
    if embedded && schema.get("additionalProperties").is_some() {
        let text = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(child(path, "additionalProperties"), text));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid_str(&at, kind, "must be object at the root"));
    }
}

/// What a schema may say of the fields that every resource has.
fn metadata_rules(path: &str, schema: &Value, level: Level, errors: &mut Vec<FieldError>) {
    let checked = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    let property = |name: &str| schema.get("properties").and_then(|all| all.get(name));
    for name in ["kind", "apiVersion"] {
        if let Some(found) =
            property(name).filter(|found| checked && text(found, "type") != "string")
        {
            let path = child(&key(path, "properties", name), "type");
            errors.push(FieldError::invalid_str(path, text(found, "type"), "must be string"));
        }
    }
    let Some(metadata) = property("metadata") else { return };
    let path = key(path, "properties", "metadata");
    if checked && text(metadata, "type") != "object" {
        let found = text(metadata, "type");
        errors.push(FieldError::invalid_str(child(&path, "type"), found, "must be object"));
    }
    if level == Level::Root && !restricts_names_only(metadata) {
        let text = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(&path, text));
    }
}

fn restricts_names_only(metadata: &Value) -> bool {
    let fields = metadata.as_object().into_iter().flatten();
    let mut others = fields.filter(|(name, _)| !matches!(name.as_str(), "type" | "default"));
    others.all(|(name, value)| {
        let names = value.as_object().map(|map| map.keys().collect::<Vec<_>>()).unwrap_or_default();
        name == "properties" && names.iter().all(|n| *n == "name" || *n == "generateName")
    })
}

/// The two forms in which a number or a string may be said with `anyOf`.
struct IntOrString {
    any_of: bool,
    all_of: bool,
}

impl IntOrString {
    fn of(schema: &Value) -> Self {
        let first = list(schema, "allOf").next();
        Self { any_of: Self::is(schema), all_of: first.is_some_and(Self::is) }
    }

    fn is(schema: &Value) -> bool {
        let expected = serde_json::json!([{"type": "integer"}, {"type": "string"}]);
        schema.get("anyOf") == Some(&expected)
    }
}

fn value_validation(
    path: &str,
    schema: &Value,
    skip_any_of: bool,
    skip_first_all_of: bool,
    errors: &mut Vec<FieldError>,
) {
    for (field, skip) in [("anyOf", skip_any_of), ("allOf", false), ("oneOf", false)] {
        for (at, nested_schema) in list(schema, field).enumerate().filter(|_| !skip) {
            let skip = skip_first_all_of && field == "allOf" && at == 0;
            nested(&format!("{}[{at}]", child(path, field)), nested_schema, skip, errors);
        }
    }
    if let Some(not) = schema.get("not") {
        nested(&child(path, "not"), not, false, errors);
    }
    let pattern = text(schema, "pattern");
    if pattern.is_empty() {
        return;
    }
    if let Some(problem) = Pattern::problem(pattern) {
        let text = format!("must be a valid regular expression, but isn't: {problem}");
        errors.push(FieldError::invalid_str(child(path, "pattern"), pattern, text));
    }
}

/// A schema below `anyOf` and the like: it may restrict values, but say nothing of their structure.
fn nested(path: &str, schema: &Value, skip_any_of: bool, errors: &mut Vec<FieldError>) {
    value_validation(path, schema, skip_any_of, false, errors);
    if let Some(items) = schema.get("items") {
        nested(&child(path, "items"), items, false, errors);
    }
    for (name, property) in properties(schema) {
        nested(&key(path, "properties", name), property, false, errors);
    }
    const EMPTY: &str = "must be empty to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    const FALSE: &str = "must be false to be structural";
    for (field, text) in [
        ("type", EMPTY),
        ("additionalProperties", UNDEFINED),
        ("default", UNDEFINED),
        ("title", EMPTY),
        ("description", EMPTY),
        ("nullable", FALSE),
        ("x-kubernetes-preserve-unknown-fields", FALSE),
        ("x-kubernetes-embedded-resource", FALSE),
        ("x-kubernetes-int-or-string", FALSE),
        ("x-kubernetes-list-map-keys", EMPTY),
        ("x-kubernetes-list-type", UNDEFINED),
        ("x-kubernetes-map-type", UNDEFINED),
        ("x-kubernetes-validations", EMPTY),
    ] {
        let said = match schema.get(field) {
            None | Some(Value::Null | Value::Bool(false)) => false,
            Some(Value::String(text)) => !text.is_empty() || field.ends_with("-type"),
            Some(Value::Array(list)) => !list.is_empty(),
            Some(_) => true,
        };
        if said {
            errors.push(FieldError::forbidden(child(path, field), text));
        }
    }
    if schema.get("properties").is_some_and(|properties| properties.get("metadata").is_some()) {
        let text = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(key(path, "properties", "metadata"), text));
    }
}

/// Whatever is restricted must be there to be restricted.
fn completeness(
    path: &str,
    value_path: &str,
    schema: &Value,
    values: &Value,
    errors: &mut Vec<FieldError>,
) {
    if let Some(not) = values.get("not") {
        nested_completeness(path, &child(value_path, "not"), Some(schema), not, errors);
    }
    for field in ["allOf", "anyOf", "oneOf"] {
        for (at, nested) in list(values, field).enumerate() {
            let value_path = format!("{}[{at}]", child(value_path, field));
            nested_completeness(path, &value_path, Some(schema), nested, errors);
        }
    }
}

fn nested_completeness(
    path: &str,
    value_path: &str,
    schema: Option<&Value>,
    values: &Value,
    errors: &mut Vec<FieldError>,
) {
    let Some(schema) = schema else {
        let text = format!("because it is defined in {value_path}");
        errors.push(FieldError::required(path, text));
        return;
    };
    completeness(path, value_path, schema, values, errors);
    if let Some(items) = values.get("items") {
        let (path, value_path) = (child(path, "items"), child(value_path, "items"));
        nested_completeness(&path, &value_path, schema.get("items"), items, errors);
    }
    for (name, property) in properties(values) {
        let (path, value_path) =
            (key(path, "properties", name), key(value_path, "properties", name));
        let found = schema.get("properties").and_then(|all| all.get(name));
        nested_completeness(&path, &value_path, found, property, errors);
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}
