//! What a schema may say: types, extensions and their combinations, in upstream's words.

use serde_json::{Value, json};

use super::{defaults, expressions, structure};
use crate::{
    field::FieldError,
    object::ObjectExt,
    structural::{flag, list, text},
};

/// The types that a value may have.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// The fields of every resource.
const META_FIELDS: [&str; 3] = ["metadata", "kind", "apiVersion"];

/// What may stand at the root of a schema whose status is checked apart, by upstream's names.
const ALLOWED_AT_ROOT: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum \
     ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required \
     Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";

/// What may not stand there.
const FORBIDDEN_AT_ROOT: [&str; 21] = [
    "id",
    "$schema",
    "$ref",
    "nullable",
    "default",
    "enum",
    "maxProperties",
    "minProperties",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "additionalProperties",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// What is wrong with the schema of a version; `path` is that of the validation around it. A schema
/// that is unchanged keeps the rules that it has, however expensive.
pub(super) fn problems(
    path: &str,
    schema: &Value,
    has_status: bool,
    unchanged: bool,
) -> Vec<FieldError> {
    let root = child(path, "openAPIV3Schema");
    let mut errors = Vec::new();
    if has_status {
        errors.extend(root_problem(&root, schema));
    }
    if flag(schema, "nullable") {
        let text = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(format!("{root}.nullable"), text));
    }
    let unsupported = structure::unsupported(schema);
    if unsupported.is_none() {
        let structural = structure::problems(&root, schema);
        match structural.is_empty() {
            true => errors.extend(defaults::problems(&root, schema)),
            false => errors.extend(structural),
        }
    }
    check(&root, schema, Context { root: true, ..Context::default() }, &mut errors);
    if errors.is_empty() && unsupported.is_none() {
        errors.extend(expressions::problems(&root, schema, unchanged));
    }
    if let Some(problem) = unsupported.filter(|_| errors.is_empty()) {
        errors.push(FieldError::invalid_str(&root, "", problem));
    }
    errors
}

fn root_problem(path: &str, schema: &Value) -> Option<FieldError> {
    let kind = text(schema, "type");
    if !kind.is_empty() && kind != "object" {
        let problem = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return Some(FieldError::invalid_str(format!("{path}.type"), kind, problem));
    }
    let filled =
        |field: &&str| !matches!(schema.get(*field), None | Some(Value::Null | Value::Bool(false)));
    FORBIDDEN_AT_ROOT.iter().any(filled).then(|| {
        let problem = format!(
            "only {ALLOWED_AT_ROOT} fields are allowed at the root of the schema if the status subresource is enabled"
        );
        FieldError::invalid(path, schema, problem)
    })
}

/// Where a schema stands.
#[derive(Clone, Copy, Default)]
struct Context {
    root: bool,
    /// Inside of the type or metadata of a resource.
    inside_meta: bool,
    /// Why there may be no defaults; they may be when this is not said.
    no_defaults: Option<Reason>,
}

#[derive(Clone, Copy)]
enum Reason {
    AdditionalMetadata,
    TopLevel(&'static str),
}

fn check(path: &str, schema: &Value, context: Context, errors: &mut Vec<FieldError>) {
    fields(path, schema, context, errors);
    if flag(schema, "uniqueItems") {
        let text =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(child(path, "uniqueItems"), text));
    }
    let inner = Context { root: false, ..context };
    let has_properties =
        schema.get("properties").and_then(Value::as_object).is_some_and(|p| !p.is_empty());
    if let Some(additional) = schema.get("additionalProperties") {
        if has_properties && *additional != Value::Bool(true) {
            let text = "additionalProperties and properties are mutual exclusive";
            errors.push(FieldError::forbidden(child(path, "additionalProperties"), text));
        }
        if additional.is_object() {
            let mut inner = inner;
            if context.inside_meta {
                inner.no_defaults = Some(Reason::AdditionalMetadata);
            }
            check(&child(path, "additionalProperties"), additional, inner, errors);
        }
    }
    let resource = context.root || flag(schema, "x-kubernetes-embedded-resource");
    for (name, property) in
        schema.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        let mut inner = inner;
        if let Some(name) = META_FIELDS.iter().find(|field| *field == name).filter(|_| resource) {
            inner.inside_meta = true;
            if context.root {
                inner.no_defaults = Some(Reason::TopLevel(name));
            }
        }
        check(&key(path, "properties", name), property, inner, errors);
    }
    nested(path, schema, inner, errors);
    extensions(path, schema, errors);
    list_rules(path, schema, errors);
    map_list_rules(path, schema, errors);
    rules(path, schema, errors);
}

/// Schemas that are neither properties nor additional ones.
fn nested(path: &str, schema: &Value, inner: Context, errors: &mut Vec<FieldError>) {
    if let Some(not) = schema.get("not") {
        check(&child(path, "not"), not, inner, errors);
    }
    for field in ["allOf", "oneOf", "anyOf"] {
        for (at, schema) in list(schema, field).enumerate() {
            check(&format!("{}[{at}]", child(path, field)), schema, inner, errors);
        }
    }
    for (name, schema) in schema.get("definitions").and_then(Value::as_object).into_iter().flatten()
    {
        check(&key(path, "definitions", name), schema, inner, errors);
    }
    match schema.get("items") {
        Some(Value::Array(list)) => {
            for (at, schema) in list.iter().enumerate() {
                check(&format!("{}[{at}]", child(path, "items")), schema, inner, errors);
            }
        }
        Some(items) => check(&child(path, "items"), items, inner, errors),
        None => {}
    }
    for (name, schema) in
        schema.get("dependencies").and_then(Value::as_object).into_iter().flatten()
    {
        if schema.is_object() {
            check(&key(path, "dependencies", name), schema, inner, errors);
        }
    }
}

/// What a schema may not have, or not here.
fn fields(path: &str, schema: &Value, context: Context, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(child(path, "type"), kind, &TYPES));
    }
    if let Some(reason) = context.no_defaults.filter(|_| schema.get("default").is_some()) {
        let text = match reason {
            Reason::AdditionalMetadata => {
                "must not be set inside additionalProperties applying to object metadata".to_owned()
            }
            Reason::TopLevel(name) => format!("must not be set in top-level {name}"),
        };
        errors.push(FieldError::forbidden(child(path, "default"), text));
    }
    for field in
        ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"]
    {
        let said = match schema.get(field) {
            None | Some(Value::Null) => false,
            Some(Value::Object(map)) => !map.is_empty() || field == "additionalItems",
            Some(_) => true,
        };
        if said {
            errors.push(FieldError::forbidden(
                child(path, field),
                format!("{field} is not supported"),
            ));
        }
    }
    if kind == "null" {
        let text = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(child(path, "type"), text));
    }
    if schema
        .get("items")
        .is_some_and(|items| items.as_array().is_some_and(|list| !list.is_empty()))
    {
        let text = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(child(path, "items"), text));
    }
    if context.inside_meta && flag(schema, "x-kubernetes-embedded-resource") {
        let text = "must not be used inside of resource meta";
        errors.push(FieldError::forbidden(child(path, "x-kubernetes-embedded-resource"), text));
    }
}

fn extensions(path: &str, schema: &Value, errors: &mut Vec<FieldError>) {
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    if schema.get(PRESERVE) == Some(&Value::Bool(false)) {
        let text = "must be true or undefined";
        errors.push(FieldError::invalid(child(path, PRESERVE), &false.into(), text));
    }
    for (extension, kind, known) in [
        ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
        ("x-kubernetes-list-type", "array", &["atomic", "set", "map"]),
    ] {
        let Some(said) = schema.get(extension).and_then(Value::as_str) else { continue };
        let found = text(schema, "type");
        if found != kind {
            let at = child(path, "type");
            let problem = format!("must be {kind} if {extension} is specified");
            errors.push(match found {
                "" => FieldError::required(at, problem),
                found => FieldError::invalid_str(at, found, problem),
            });
        } else if said == "set" {
            set_items(path, schema, errors);
        }
        if !known.contains(&said) {
            errors.push(FieldError::not_supported(child(path, extension), said, known));
        }
    }
}

/// The items of a set are compared as a whole.
fn set_items(path: &str, schema: &Value, errors: &mut Vec<FieldError>) {
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else { return };
    let text = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = items.get("x-kubernetes-list-type");
    let shown = list_type.cloned().unwrap_or_default();
    let wrong = match items.text(&["type"]) {
        "array" => {
            list_type.is_some_and(|said| said != "atomic").then_some("x-kubernetes-list-type")
        }
        "object" => {
            (items.text(&["x-kubernetes-map-type"]) != "atomic").then_some("x-kubernetes-map-type")
        }
        _ => None,
    };
    if let Some(extension) = wrong {
        let path = child(&child(path, "items"), extension);
        errors.push(FieldError::invalid(path, &shown, text));
    }
}

fn list_rules(path: &str, schema: &Value, errors: &mut Vec<FieldError>) {
    let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    let keys: Vec<&str> =
        list(schema, "x-kubernetes-list-map-keys").filter_map(Value::as_str).collect();
    if !keys.is_empty() {
        let at = child(path, "x-kubernetes-list-type");
        let text = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => errors.push(FieldError::required(at, text)),
            Some("map") => {}
            Some(other) => errors.push(FieldError::invalid_str(at, other, text)),
        }
    }
    if list_type != Some("map") {
        return;
    }
    let keys_path = child(path, "x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let text = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&keys_path, text));
    }
    let items_path = child(path, "items");
    let Some(items) = schema.get("items") else {
        let text = "must have a schema if x-kubernetes-list-type is map";
        errors.push(FieldError::required(items_path, text));
        return;
    };
    if !items.is_object() {
        let text = "must only have a single schema if x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(items_path, items, text));
        return;
    }
    if text(items, "type") != "object" {
        let text = "must be object if parent array's x-kubernetes-list-type is map";
        let found = items.text(&["type"]);
        errors.push(FieldError::invalid_str(child(&items_path, "type"), found, text));
        return;
    }
    for (at, name) in keys.iter().enumerate() {
        match items.at(&["properties", name]) {
            Some(found) if matches!(text(found, "type"), "array" | "object") => {
                let path = child(&key(&items_path, "properties", name), "type");
                let text = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid_str(path, "object", text));
            }
            Some(_) => {}
            None => {
                let text = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_path, &json!(keys), text));
            }
        }
        if keys[..at].contains(name) {
            let text = "must not contain duplicate entries";
            errors.push(FieldError::invalid(&keys_path, &json!(keys), text));
        }
    }
}

/// The items of sets and maps, and the keys of maps, are always there.
fn map_list_rules(path: &str, schema: &Value, errors: &mut Vec<FieldError>) {
    let list_type = text(schema, "x-kubernetes-list-type");
    let Some(items) = schema.get("items").filter(|items| items.is_object()) else { return };
    if !matches!(list_type, "set" | "map") {
        return;
    }
    let items_path = child(path, "items");
    if flag(items, "nullable") {
        let text = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(child(&items_path, "nullable"), text));
    }
    if list_type != "map" {
        return;
    }
    let required: Vec<&str> = list(items, "required").filter_map(Value::as_str).collect();
    for name in list(schema, "x-kubernetes-list-map-keys").filter_map(Value::as_str) {
        let Some(property) = items.at(&["properties", name]) else { continue };
        let path = key(&items_path, "properties", name);
        if !required.contains(&name) && property.get("default").is_none() {
            let text = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(child(&path, "default"), text));
        }
        if flag(property, "nullable") {
            let text = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(child(&path, "nullable"), text));
        }
    }
}

/// What can be said of `x-kubernetes-validations` without compiling them.
fn rules(path: &str, schema: &Value, errors: &mut Vec<FieldError>) {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    let broken = |text: &str| text.contains(['\n', '\r']);
    for (at, rule) in list(schema, "x-kubernetes-validations").enumerate() {
        let path = format!("{}[{at}]", child(path, "x-kubernetes-validations"));
        let [expression, message, message_expression, field_path] =
            ["rule", "message", "messageExpression", "fieldPath"].map(|field| text(rule, field));
        let at = |field: &str| child(&path, field);
        if expression.trim().is_empty() {
            errors.push(FieldError::required(at("rule"), "rule is not specified"));
        } else if !message.is_empty() && message.trim().is_empty() {
            let text = "must be non-empty if specified";
            errors.push(FieldError::invalid_str(at("message"), message, text));
        } else if broken(message.trim()) {
            let text = "must not contain line breaks";
            errors.push(FieldError::invalid_str(at("message"), message, text));
        } else if broken(expression.trim()) && message.trim().is_empty() {
            let text = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(at("message"), text));
        }
        if !message_expression.is_empty() && message_expression.trim().is_empty() {
            let text = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(at("messageExpression"), text));
        }
        let reason = rule.get("reason").and_then(Value::as_str);
        if let Some(reason) = reason.filter(|reason| !REASONS.contains(reason)) {
            errors.push(FieldError::not_supported(at("reason"), reason, &REASONS));
        }
        if field_path.is_empty() {
            continue;
        }
        if field_path.trim().is_empty() {
            let text = "must be non-empty if specified";
            errors.push(FieldError::invalid_str(at("fieldPath"), field_path, text));
        }
        if broken(field_path) {
            let text = "must not contain line breaks";
            errors.push(FieldError::invalid_str(at("fieldPath"), field_path, text));
        }
        if find_field(field_path, schema, true).is_err() {
            let text = "must be a valid path";
            errors.push(FieldError::invalid_str(at("fieldPath"), field_path, text));
        }
    }
}

/// The path of a field and its schema, by a JSON path of names; `brackets` allows `['name']`.
pub(super) fn find_field<'a>(
    json_path: &str,
    schema: &'a Value,
    brackets: bool,
) -> Result<(String, &'a Value), String> {
    let missing = || "does not refer to a valid field".to_owned();
    let mut found = (String::new(), schema);
    let mut rest = json_path;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('[') {
            if !brackets {
                return Err("array notation is not allowed".to_owned());
            }
            let Some((quoted, after)) = after.split_once(']') else {
                return Err("unexpected end of JSON path".to_owned());
            };
            let inner = quoted.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
            let Some(inner) = inner else {
                return Err(format!("expected single quoted string but got {quoted}"));
            };
            (name, rest) = (inner.replace("\\'", "'"), after);
        } else if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[']).unwrap_or(after.len());
            if end == 0 {
                return Err(missing());
            }
            (name, rest) = (after[..end].to_owned(), &after[end..]);
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        }
        let (path, schema) = found;
        found = match (schema.at(&["properties", &name]), schema.get("additionalProperties")) {
            (Some(property), _) => (child(&path, &name), property),
            (None, Some(additional))
                if schema.get("properties").is_none() && additional.is_object() =>
            {
                (format!("{path}[{name}]"), additional)
            }
            _ => return Err(missing()),
        };
    }
    Ok(found)
}

/// Every schema right below a schema, with its place.
pub(crate) fn below(schema: &Value) -> impl Iterator<Item = (String, &Value)> {
    const ONE: [&str; 4] = ["items", "additionalProperties", "not", "additionalItems"];
    const LISTS: [&str; 4] = ["items", "allOf", "anyOf", "oneOf"];
    const MAPS: [&str; 4] = ["properties", "patternProperties", "definitions", "dependencies"];
    let one = ONE.into_iter().filter_map(|field| Some((field.to_owned(), schema.get(field)?)));
    let lists = LISTS.into_iter().flat_map(move |field| {
        list(schema, field).enumerate().map(move |(at, schema)| (format!("{field}[{at}]"), schema))
    });
    let maps = MAPS.into_iter().flat_map(move |field| {
        let map = schema.get(field).and_then(Value::as_object).into_iter().flatten();
        map.map(move |(name, schema)| (format!("{field}[{name}]"), schema))
    });
    one.chain(lists).chain(maps).filter(|(_, schema)| schema.is_object())
}

pub(super) fn child(path: &str, name: &str) -> String {
    format!("{path}.{name}")
}

pub(super) fn key(path: &str, field: &str, name: &str) -> String {
    format!("{path}.{field}[{name}]")
}
