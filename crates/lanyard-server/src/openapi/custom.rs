//! The models of custom resources, from the schemas of their definitions.
//!
//! OpenAPI 3 shows a schema as it is. OpenAPI 2 cannot say all of it, and the clients that read it take
//! it literally: what they would get wrong is left out.

use serde_json::{Map, Value, json};

use super::{descriptions::Descriptions, dialect::Dialect, schemas::OBJECT_META};
use crate::resource::Schema;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

/// Words of JSON schemas that definitions may hold but that say nothing of values.
const UNPUBLISHED: [&str; 4] = ["example", "externalDocs", "id", "$schema"];

/// The model of a custom resource. `schema` is what its definition says, if it says anything.
pub(super) fn model(schema: Option<Value>, dialect: Dialect, texts: &Descriptions) -> Value {
    let Some(mut schema) = schema.filter(Value::is_object) else {
        return json!({"type": "object"});
    };
    // Clients of OpenAPI 2 would refuse every field that is not mentioned.
    if dialect == Dialect::V2 && is_set(&schema, PRESERVE) {
        return json!({"type": "object"});
    }
    publish(&mut schema, dialect, texts);
    add_properties(&mut schema, dialect, texts);
    schema
}

/// Says by which fields objects can be selected.
pub(super) fn say_selectable(model: &mut Value, schema: &Schema) {
    let fields = schema.custom().map(|version| version.selectable.as_slice()).unwrap_or_default();
    if !fields.is_empty() {
        let fields: Vec<Value> = fields.iter().map(|path| json!({"fieldPath": path})).collect();
        model["x-kubernetes-selectable-fields"] = fields.into();
    }
}

/// Brings a schema and all below it into the form that is published.
fn publish(schema: &mut Value, dialect: Dialect, texts: &Descriptions) {
    let Some(fields) = schema.as_object_mut() else { return };
    UNPUBLISHED.iter().for_each(|word| _ = fields.remove(*word));
    match dialect {
        Dialect::V2 => downgrade(fields),
        Dialect::V3 => unfold(fields),
    }
    for (word, inner) in &mut *fields {
        match (word.as_str(), inner) {
            ("properties", Value::Object(properties)) => {
                properties.values_mut().for_each(|inner| publish(inner, dialect, texts));
            }
            ("items" | "additionalProperties", inner) => publish(inner, dialect, texts),
            _ => {}
        }
    }
    let free = dialect == Dialect::V2 && is_set(schema, PRESERVE);
    if is_set(schema, EMBEDDED) && !free {
        add_properties(schema, dialect, texts);
        require_type(schema);
    }
}

/// Says in plain words what an extension says.
fn unfold(fields: &mut Map<String, Value>) {
    if fields.get(INT_OR_STRING) != Some(&Value::Bool(true)) {
        return;
    }
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    match fields.get("anyOf") {
        None => {
            fields.insert("anyOf".into(), either);
        }
        Some(said) if *said == either => {}
        Some(_) => {
            let all = fields.entry("allOf").or_insert_with(|| json!([]));
            if let Some(all) = all.as_array_mut() {
                all.insert(0, json!({"anyOf": either}));
            }
        }
    }
}

/// Leaves out what OpenAPI 2 has no word for.
fn downgrade(fields: &mut Map<String, Value>) {
    for word in ["allOf", "anyOf", "oneOf", "not", "default"] {
        fields.remove(word);
    }
    let nullable = fields.remove("nullable") == Some(Value::Bool(true));
    let preserves = fields.get(PRESERVE) == Some(&Value::Bool(true));
    if nullable || preserves {
        fields.remove("items");
        fields.remove("properties");
    }
    let is = |fields: &Map<String, Value>, ty: &str| fields.get("type").is_some_and(|t| t == ty);
    let bare_list = is(fields, "array") && !fields.contains_key("items");
    if nullable || bare_list || (preserves && is(fields, "object")) {
        fields.remove("type");
    }
    not_required(fields);
}

/// Null is no value in OpenAPI 2: what may be null may be missing.
fn not_required(fields: &mut Map<String, Value>) {
    let is_nullable = |schema: &Value| is_set(schema, "nullable");
    if fields.get("additionalProperties").is_some_and(is_nullable) {
        fields.remove("required");
        return;
    }
    let Some(properties) = fields.get("properties").and_then(Value::as_object) else { return };
    let nullable: Vec<String> =
        properties.iter().filter(|(_, p)| is_nullable(p)).map(|(name, _)| name.clone()).collect();
    let Some(required) = fields.get_mut("required").and_then(Value::as_array_mut) else { return };
    required.retain(|name| !nullable.iter().any(|nullable| name == nullable));
    if required.is_empty() {
        fields.remove("required");
    }
}

/// What every object has.
fn add_properties(schema: &mut Value, dialect: Dialect, texts: &Descriptions) {
    let text = |text: &str| json!({"type": "string", "description": text});
    let mut metadata = dialect.extended(OBJECT_META);
    metadata["description"] = texts.metadata().into();
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let properties = &mut schema["properties"];
    properties["apiVersion"] = text(texts.api_version());
    properties["kind"] = text(texts.kind());
    properties["metadata"] = metadata;
}

/// An object inside of another one must say what it is.
fn require_type(schema: &mut Value) {
    if !schema["required"].is_array() {
        schema["required"] = json!([]);
    }
    if let Some(required) = schema["required"].as_array_mut() {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
    }
}

fn is_set(schema: &Value, word: &str) -> bool {
    schema.get(word) == Some(&Value::Bool(true))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What becomes of one field of a spec; the answers are those of kube-apiserver.
    #[test]
    fn schemas_are_published_as_upstream_does() {
        let cases = [
            (
                json!({"type": "string", "default": "red", "nullable": true, "pattern": "a"}),
                json!({"type": "string", "default": "red", "nullable": true, "pattern": "a"}),
                json!({"pattern": "a"}),
            ),
            (
                json!({"x-kubernetes-int-or-string": true}),
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
                json!({"x-kubernetes-int-or-string": true}),
            ),
            (
                json!({"type": "array", "nullable": true, "items": {"type": "string"}}),
                json!({"type": "array", "nullable": true, "items": {"type": "string"}}),
                json!({}),
            ),
            (
                json!({"type": "object", "additionalProperties": {"type": "string", "nullable": true}}),
                json!({"type": "object", "additionalProperties": {"type": "string", "nullable": true}}),
                json!({"type": "object", "additionalProperties": {}}),
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}]}),
                json!({"type": "object", "properties": {"a": {"type": "string"}}}),
            ),
            (
                json!({"type": "object", PRESERVE: true, "properties": {"q": {"type": "string"}}}),
                json!({"type": "object", PRESERVE: true, "properties": {"q": {"type": "string"}}}),
                json!({PRESERVE: true}),
            ),
            (
                json!({"type": "object", EMBEDDED: true, PRESERVE: true}),
                Value::Null,
                json!({EMBEDDED: true, PRESERVE: true}),
            ),
            (
                json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string", "nullable": true}, "b": {"type": "string"}}}),
                Value::Null,
                json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}}),
            ),
        ];
        let texts = Descriptions::read();
        for (said, v3, v2) in cases {
            let root = json!({"type": "object", "properties": {"spec": said}});
            let published = |dialect| model(Some(root.clone()), dialect, &texts);
            let found = published(Dialect::V3);
            if !v3.is_null() {
                assert_eq!(found["properties"]["spec"], v3);
            }
            assert!(found["properties"]["metadata"]["allOf"].is_array(), "{found}");
            assert_eq!(published(Dialect::V2)["properties"]["spec"], v2);
        }
    }

    #[test]
    fn an_embedded_object_says_what_it_is() {
        let root = json!({"type": "object", "properties": {"template": {"type": "object", EMBEDDED: true}}});
        let found = model(Some(root), Dialect::V3, &Descriptions::read());
        let template = &found["properties"]["template"];
        assert_eq!(template["required"], json!(["kind", "apiVersion"]));
        assert_eq!(template["properties"]["kind"]["type"], "string");
        assert!(template["properties"]["metadata"]["allOf"].is_array());
    }

    #[test]
    fn what_holds_anything_has_no_fields_in_openapi_2() {
        let texts = Descriptions::read();
        let root = json!({"type": "object", PRESERVE: true, "properties": {"spec": {}}});
        assert_eq!(model(Some(root.clone()), Dialect::V2, &texts), json!({"type": "object"}));
        assert!(model(Some(root), Dialect::V3, &texts)["properties"]["metadata"].is_object());
        assert_eq!(model(None, Dialect::V3, &texts), json!({"type": "object"}));
    }

    /// Anything that is JSON, with the words that are looked at more often than by chance.
    fn schemas() -> impl Strategy<Value = Value> {
        let words = "(properties|items|additionalProperties|anyOf|allOf|required|type|nullable|default|x-kubernetes-(int-or-string|embedded-resource|preserve-unknown-fields)|[a-z]{1,3})";
        let leaf = prop_oneof![
            Just(json!(true)),
            Just(json!("object")),
            Just(json!("array")),
            Just(json!(["a", 1])),
            Just(Value::Null),
        ];
        leaf.prop_recursive(5, 64, 6, move |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(words, inner, 0..6)
                    .prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
            ]
        })
    }

    proptest! {
        #[test]
        fn fuzz_any_schema_is_published_as_an_object(schema in schemas()) {
            let texts = Descriptions::read();
            for dialect in [Dialect::V2, Dialect::V3] {
                let published = model(Some(schema.clone()), dialect, &texts);
                prop_assert!(published.is_object());
            }
        }
    }
}
