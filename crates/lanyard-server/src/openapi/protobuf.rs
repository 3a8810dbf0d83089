//! OpenAPI 2 as the protobuf message of gnostic, which client-go asks for.
//!
//! The numbers are those of `openapiv2/OpenAPIv2.proto`. Extensions are kept as YAML there, of which JSON
//! is a part.

use serde_json::Value;

use super::{
    document::{Pieces, security},
    parameters,
};

/// How a member of a JSON object is written.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Texts,
    Bool,
    Int,
    Double,
    /// A message by its own table.
    Message(&'static [Member]),
    /// A list of such messages.
    Messages(&'static [Member]),
    /// Names and messages, in a message of their own.
    Named(&'static [Member]),
    /// Anything.
    Any,
    /// A list of anything.
    Anys,
    /// A schema, or `true` or `false`.
    SchemaOrBool,
    /// A schema or a list of them.
    Items,
    /// One or several names of types, in a message of their own.
    Types,
    /// Parameters or references to them.
    Parameters,
    /// A schema in the place where it could be a file.
    SchemaItem,
    /// Answers by code.
    Responses,
}

/// A member: its name, its number, its form.
type Member = (&'static str, u32, Form);

/// The number of `vendor_extension` in each message, by a member that no document has.
const EXTENSIONS: &str = "x-";

static INFO: [Member; 2] = [("title", 1, Form::Text), ("version", 2, Form::Text)];

static PATH_ITEM: [Member; 9] = [
    ("get", 2, Form::Message(&OPERATION)),
    ("put", 3, Form::Message(&OPERATION)),
    ("post", 4, Form::Message(&OPERATION)),
    ("delete", 5, Form::Message(&OPERATION)),
    ("options", 6, Form::Message(&OPERATION)),
    ("head", 7, Form::Message(&OPERATION)),
    ("patch", 8, Form::Message(&OPERATION)),
    ("parameters", 9, Form::Parameters),
    (EXTENSIONS, 10, Form::Any),
];

static OPERATION: [Member; 9] = [
    ("tags", 1, Form::Texts),
    ("description", 3, Form::Text),
    ("operationId", 5, Form::Text),
    ("produces", 6, Form::Texts),
    ("consumes", 7, Form::Texts),
    ("parameters", 8, Form::Parameters),
    ("responses", 9, Form::Responses),
    ("schemes", 10, Form::Texts),
    (EXTENSIONS, 13, Form::Any),
];

static RESPONSE: [Member; 2] = [("description", 1, Form::Text), ("schema", 2, Form::SchemaItem)];

static BODY: [Member; 5] = [
    ("description", 1, Form::Text),
    ("name", 2, Form::Text),
    ("in", 3, Form::Text),
    ("required", 4, Form::Bool),
    ("schema", 5, Form::Message(&SCHEMA)),
];

static QUERY: [Member; 6] = [
    ("required", 1, Form::Bool),
    ("in", 2, Form::Text),
    ("description", 3, Form::Text),
    ("name", 4, Form::Text),
    ("type", 6, Form::Text),
    ("uniqueItems", 20, Form::Bool),
];

static PATH: [Member; 6] = [
    ("required", 1, Form::Bool),
    ("in", 2, Form::Text),
    ("description", 3, Form::Text),
    ("name", 4, Form::Text),
    ("type", 5, Form::Text),
    ("uniqueItems", 19, Form::Bool),
];

static REFERENCE: [Member; 1] = [("$ref", 1, Form::Text)];

static SCHEMA: [Member; 25] = [
    ("$ref", 1, Form::Text),
    ("format", 2, Form::Text),
    ("title", 3, Form::Text),
    ("description", 4, Form::Text),
    ("multipleOf", 6, Form::Double),
    ("maximum", 7, Form::Double),
    ("exclusiveMaximum", 8, Form::Bool),
    ("minimum", 9, Form::Double),
    ("exclusiveMinimum", 10, Form::Bool),
    ("maxLength", 11, Form::Int),
    ("minLength", 12, Form::Int),
    ("pattern", 13, Form::Text),
    ("maxItems", 14, Form::Int),
    ("minItems", 15, Form::Int),
    ("uniqueItems", 16, Form::Bool),
    ("maxProperties", 17, Form::Int),
    ("minProperties", 18, Form::Int),
    ("required", 19, Form::Texts),
    ("enum", 20, Form::Anys),
    ("additionalProperties", 21, Form::SchemaOrBool),
    ("type", 22, Form::Types),
    ("items", 23, Form::Items),
    ("allOf", 24, Form::Messages(&SCHEMA)),
    ("properties", 25, Form::Named(&SCHEMA)),
    (EXTENSIONS, 31, Form::Any),
];

static API_KEY: [Member; 4] = [
    ("type", 1, Form::Text),
    ("name", 2, Form::Text),
    ("in", 3, Form::Text),
    ("description", 4, Form::Text),
];

/// The message of a whole document.
pub(super) fn encode(pieces: &Pieces) -> Vec<u8> {
    let mut document = Vec::new();
    put_text(&mut document, 1, "2.0");
    put_bytes(&mut document, 2, &message(&INFO, &pieces.info()));
    let mut paths = Vec::new();
    for (path, item) in &pieces.paths {
        put_bytes(&mut paths, 2, &named(path, &message(&PATH_ITEM, &parsed(item))));
    }
    put_bytes(&mut document, 8, &paths);
    let mut definitions = Vec::new();
    for (model, schema) in &pieces.schemas {
        put_bytes(&mut definitions, 1, &named(model, &message(&SCHEMA, &parsed(schema))));
    }
    put_bytes(&mut document, 9, &definitions);
    let mut shared = Vec::new();
    for (name, whole) in parameters::shared() {
        put_bytes(&mut shared, 1, &named(name, &parameter(&whole)));
    }
    put_bytes(&mut document, 10, &shared);
    let mut required = Vec::new();
    put_bytes(&mut required, 1, &named("BearerToken", &[]));
    put_bytes(&mut document, 12, &required);
    let mut definitions = Vec::new();
    for (name, key) in security().as_object().into_iter().flatten() {
        let mut item = Vec::new();
        put_bytes(&mut item, 2, &message(&API_KEY, key));
        put_bytes(&mut definitions, 1, &named(name, &item));
    }
    put_bytes(&mut document, 13, &definitions);
    document
}

/// Pieces are JSON that we wrote.
fn parsed(piece: &str) -> Value {
    serde_json::from_str(piece).unwrap_or_default()
}

fn message(members: &[Member], value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, number, form) in members {
        if *name == EXTENSIONS {
            put_extensions(&mut out, *number, value);
        } else if let Some(value) = value.get(name) {
            put(&mut out, *number, *form, value);
        }
    }
    out
}

fn put(out: &mut Vec<u8>, number: u32, form: Form, value: &Value) {
    let list = || value.as_array().map(Vec::as_slice).unwrap_or_default();
    match form {
        Form::Text => put_text(out, number, value.as_str().unwrap_or_default()),
        Form::Texts => list().iter().for_each(|text| {
            put_bytes(out, number, text.as_str().unwrap_or_default().as_bytes());
        }),
        Form::Bool => put_number(out, number, u64::from(value.as_bool().unwrap_or_default())),
        // Negative numbers are as large as they get in protobuf.
        Form::Int => put_number(out, number, value.as_i64().unwrap_or_default() as u64),
        Form::Double => {
            put_varint(out, u64::from(number) << 3 | 1);
            out.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes());
        }
        Form::Message(members) => put_bytes(out, number, &message(members, value)),
        Form::Messages(members) => {
            list().iter().for_each(|item| put_bytes(out, number, &message(members, item)));
        }
        Form::Named(members) => {
            let mut all = Vec::new();
            for (name, inner) in value.as_object().into_iter().flatten() {
                put_bytes(&mut all, 1, &named(name, &message(members, inner)));
            }
            put_bytes(out, number, &all);
        }
        Form::Any => put_bytes(out, number, &any(value)),
        Form::Anys => list().iter().for_each(|item| put_bytes(out, number, &any(item))),
        Form::SchemaOrBool => {
            let mut item = Vec::new();
            match value.as_bool() {
                Some(allowed) => put_number(&mut item, 2, u64::from(allowed)),
                None => put_bytes(&mut item, 1, &message(&SCHEMA, value)),
            }
            put_bytes(out, number, &item);
        }
        Form::Items => {
            let mut item = Vec::new();
            put_bytes(&mut item, 1, &message(&SCHEMA, value));
            put_bytes(out, number, &item);
        }
        Form::Types => {
            let mut item = Vec::new();
            put_text(&mut item, 1, value.as_str().unwrap_or_default());
            put_bytes(out, number, &item);
        }
        Form::Parameters => {
            list().iter().for_each(|item| put_bytes(out, number, &listed_parameter(item)));
        }
        Form::SchemaItem => {
            let mut item = Vec::new();
            put_bytes(&mut item, 1, &message(&SCHEMA, value));
            put_bytes(out, number, &item);
        }
        Form::Responses => put_bytes(out, number, &responses(value)),
    }
}

fn responses(value: &Value) -> Vec<u8> {
    let mut all = Vec::new();
    for (code, response) in value.as_object().into_iter().flatten() {
        let mut item = Vec::new();
        put_bytes(&mut item, 1, &message(&RESPONSE, response));
        put_bytes(&mut all, 1, &named(code, &item));
    }
    all
}

/// A parameter where an operation lists it.
fn listed_parameter(value: &Value) -> Vec<u8> {
    let mut item = Vec::new();
    match value.get("$ref") {
        Some(_) => put_bytes(&mut item, 2, &message(&REFERENCE, value)),
        None => put_bytes(&mut item, 1, &parameter(value)),
    }
    item
}

fn parameter(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let place = value.get("in").and_then(Value::as_str);
    if place == Some("body") {
        put_bytes(&mut out, 1, &message(&BODY, value));
        return out;
    }
    let mut other = Vec::new();
    match place {
        Some("path") => put_bytes(&mut other, 4, &message(&PATH, value)),
        _ => put_bytes(&mut other, 3, &message(&QUERY, value)),
    }
    put_bytes(&mut out, 2, &other);
    out
}

fn put_extensions(out: &mut Vec<u8>, number: u32, value: &Value) {
    let members = value.as_object().into_iter().flatten();
    for (name, value) in members.filter(|(name, _)| name.starts_with(EXTENSIONS)) {
        put_bytes(out, number, &named(name, &any(value)));
    }
}

/// Name and value in one message.
fn named(name: &str, value: &[u8]) -> Vec<u8> {
    let mut pair = Vec::new();
    put_text(&mut pair, 1, name);
    put_bytes(&mut pair, 2, value);
    pair
}

/// Anything, as YAML.
fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, 2, &value.to_string());
    out
}

/// Empty texts are those that are not there.
fn put_text(out: &mut Vec<u8>, number: u32, text: &str) {
    if !text.is_empty() {
        put_bytes(out, number, text.as_bytes());
    }
}

fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        put_varint(out, u64::from(number) << 3);
        put_varint(out, value);
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
