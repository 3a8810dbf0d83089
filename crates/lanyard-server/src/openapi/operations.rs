//! One operation, and how both versions of OpenAPI write it down.

use serde_json::{Map, Value, json};

use super::{dialect::Dialect, naming::Gvk, parameters::Parameter};

pub(super) const JSON: &str = "application/json";
pub(super) const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// What built-in kinds are sent as.
pub(super) const ENCODINGS: [&str; 3] = [JSON, YAML, PROTOBUF];
/// What custom resources are sent and read as.
pub(super) const TEXTS: [&str; 2] = [JSON, YAML];
/// What lists of built-in kinds are sent as, and watches.
pub(super) const STREAMS: [&str; 5] = [
    JSON,
    YAML,
    PROTOBUF,
    "application/json;stream=watch",
    "application/vnd.kubernetes.protobuf;stream=watch",
];
/// What bodies of built-in kinds may be.
pub(super) const ANYTHING: [&str; 1] = ["*/*"];
/// What patches of custom resources may be.
pub(super) const PATCHES: [&str; 3] =
    ["application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"];
/// What patches of built-in kinds may be.
pub(super) const BUILTIN_PATCHES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
];

/// One method of one path.
#[derive(Default)]
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) id: String,
    pub(super) tag: String,
    pub(super) description: String,
    /// Those that the path does not have in common.
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<Body>,
    pub(super) consumes: &'static [&'static str],
    pub(super) produces: &'static [&'static str],
    /// The codes of answers, all with the same content.
    pub(super) codes: &'static [&'static str],
    /// The model of the answers; a string when there is none.
    pub(super) answer: Option<String>,
    /// What the operation does to which kind.
    pub(super) action: Option<(&'static str, Gvk)>,
}

/// What a request has to send.
pub(super) struct Body {
    pub(super) model: String,
    pub(super) required: bool,
}

/// A path with its operations. Parameters of a lone operation are those of the path.
pub(super) fn path_item(
    mut operations: Vec<Operation>,
    common: &[Parameter],
    dialect: Dialect,
) -> Value {
    let mut common = common.to_vec();
    if let [operation] = &mut *operations {
        common.append(&mut operation.parameters);
    }
    common.sort_by_key(|parameter| parameter.name);
    let mut item = Map::new();
    for operation in operations {
        item.insert(operation.method.into(), operation.to_json(dialect));
    }
    if !common.is_empty() {
        item.insert("parameters".into(), listed(&common, dialect).into());
    }
    Value::Object(item)
}

impl Operation {
    fn to_json(&self, dialect: Dialect) -> Value {
        let mut parameters = listed(&self.parameters, dialect);
        let mut operation = json!({
            "tags": [self.tag],
            "description": self.description,
            "operationId": self.id,
            "responses": self.responses(dialect),
        });
        match dialect {
            Dialect::V2 => {
                operation["schemes"] = json!(["https"]);
                if !self.consumes.is_empty() {
                    operation["consumes"] = json!(self.consumes);
                }
                operation["produces"] = json!(self.produces);
                parameters.splice(0..0, self.body.as_ref().map(Body::parameter));
            }
            Dialect::V3 => {
                if let Some(body) = &self.body {
                    operation["requestBody"] = body.content(self.consumes);
                }
            }
        }
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some((action, kind)) = &self.action {
            operation["x-kubernetes-action"] = (*action).into();
            operation["x-kubernetes-group-version-kind"] = kind.to_json();
        }
        operation
    }

    fn responses(&self, dialect: Dialect) -> Value {
        let schema = match &self.answer {
            Some(model) => dialect.reference(model),
            None => json!({"type": "string"}),
        };
        let mut responses = Map::new();
        for code in self.codes {
            let mut response = json!({"description": reason(code)});
            match dialect {
                Dialect::V2 => response["schema"] = schema.clone(),
                Dialect::V3 => response["content"] = content(self.produces, &schema),
            }
            responses.insert((*code).into(), response);
        }
        responses.insert("401".into(), json!({"description": "Unauthorized"}));
        Value::Object(responses)
    }
}

impl Body {
    fn content(&self, consumes: &[&str]) -> Value {
        let mut body = json!({"content": content(consumes, &Dialect::V3.reference(&self.model))});
        if self.required {
            body["required"] = true.into();
        }
        body
    }

    fn parameter(&self) -> Value {
        let mut parameter =
            json!({"name": "body", "in": "body", "schema": Dialect::V2.reference(&self.model)});
        if self.required {
            parameter["required"] = true.into();
        }
        parameter
    }
}

fn listed(parameters: &[Parameter], dialect: Dialect) -> Vec<Value> {
    parameters.iter().map(|parameter| parameter.listed(dialect)).collect()
}

fn content(encodings: &[&str], schema: &Value) -> Value {
    let entry = |encoding: &&str| ((*encoding).to_owned(), json!({"schema": schema}));
    Value::Object(encodings.iter().map(entry).collect())
}

fn reason(code: &str) -> &'static str {
    match code {
        "201" => "Created",
        "202" => "Accepted",
        _ => "OK",
    }
}
