//! Expressions whose type, costs, value and errors were recorded from upstream's own implementation.
//!
//! `upstream.jsonl` has one expression per line with what kube-apiserver 1.36.3's libraries make of it: with `self`
//! declared by `upstream.schema.json`, or dynamic.

use lanyard_cel::{Declared, Environment, ListKind, Type, Value, Variables};
use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Deserialize)]
struct Case {
    expr: String,
    /// Whether `self` is declared by `upstream.schema.json`.
    #[serde(default)]
    schema: bool,
    value: Option<Json>,
    error: Option<String>,
    #[serde(rename = "type", default)]
    of: String,
    #[serde(default)]
    min: u64,
    #[serde(default)]
    max: u64,
    result: Option<String>,
    #[serde(rename = "evalErr")]
    eval_error: Option<String>,
    cost: Option<u64>,
}

#[test]
fn expressions_are_what_they_are_upstream() {
    let mut different = Vec::new();
    let mut total = 0;
    for line in include_str!("upstream.jsonl").lines() {
        let case: Case = serde_json::from_str(line).unwrap();
        total += 1;
        if let Err(difference) = check(&case) {
            different.push(format!("{}\n{difference}", case.expr));
        }
    }
    let count = different.len();
    assert!(different.is_empty(), "{count} of {total} differ:\n\n{}", different.join("\n\n"));
}

fn check(case: &Case) -> Result<(), String> {
    let schema: Json = serde_json::from_str(include_str!("upstream.schema.json")).unwrap();
    let declared = if case.schema { declared(&schema) } else { Declared::any() };
    let authorizer = Declared::native(Type::object("kubernetes.authorization.Authorizer"));
    let environment = Environment::new()
        .variable("self", declared.named("selfType"))
        .variable("authorizer", authorizer);
    let compiled = environment.compile(&case.expr);
    let error = compiled.as_ref().err().map(ToString::to_string);
    let instantiation = case
        .eval_error
        .as_ref()
        .and_then(|error| error.strip_prefix("program: "))
        .map(str::to_owned);
    same("compile error", &case.error.clone().or(instantiation), &error)?;
    let Ok(program) = compiled else { return Ok(()) };
    same("type", &case.of, &program.output_type().to_string())?;
    let estimate = program.estimated_cost();
    same("estimate", &(case.min, case.max), &(estimate.min, estimate.max))?;
    let mut variables = Variables::new();
    if let Some(value) = &case.value {
        variables.json("self", value);
    }
    let (value, cost) = program.evaluate_with_cost(&variables);
    let (result, eval_error) = match value {
        Ok(value) => (Some(show(&value)), None),
        Err(error) => (None, Some(error.to_string())),
    };
    same("error", &case.eval_error, &eval_error)?;
    same("value", &case.result, &result)?;
    same("cost", &case.cost, &Some(cost))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, found: &T) -> Result<(), String> {
    if expected == found {
        return Ok(());
    }
    Err(format!("  {what}: upstream {expected:?}\n  {what}:     ours {found:?}"))
}

/// A structural schema as a declaration.
fn declared(schema: &Json) -> Declared {
    let number = |name: &str| schema[name].as_u64();
    if schema["x-kubernetes-int-or-string"] == true {
        return Declared::int_or_string(number("maxLength"));
    }
    match schema["type"].as_str().unwrap() {
        "boolean" => Declared::bool(),
        "integer" => Declared::int(),
        "number" => Declared::double(),
        "array" => {
            let kind = match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => ListKind::Set,
                Some("map") => ListKind::Map(
                    serde_json::from_value(schema["x-kubernetes-list-map-keys"].clone()).unwrap(),
                ),
                _ => ListKind::Atomic,
            };
            Declared::list(declared(&schema["items"]), number("maxItems"), kind)
        }
        "object" if schema["additionalProperties"].is_object() => {
            Declared::map(declared(&schema["additionalProperties"]), number("maxProperties"))
        }
        "object" => {
            let empty = serde_json::Map::new();
            let properties = schema["properties"].as_object().unwrap_or(&empty);
            let required = |name: &str| {
                schema["required"].as_array().is_some_and(|all| all.iter().any(|r| r == name))
            };
            Declared::object(
                properties
                    .iter()
                    .map(|(name, schema)| (name.as_str(), required(name), declared(schema))),
            )
        }
        "string" => match schema["format"].as_str() {
            Some("byte") => Declared::bytes(number("maxLength")),
            Some("date-time") => Declared::date_time(),
            Some("date") => Declared::date(),
            Some("duration") => Declared::duration(),
            _ => {
                let values = schema["enum"].as_array();
                let longest = values.map(|values| {
                    values.iter().filter_map(|v| v.as_str()).map(str::len).max().unwrap_or(0) as u64
                });
                Declared::string(number("maxLength"), longest)
            }
        },
        other => panic!("type {other}"),
    }
}

fn show(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => format!("{value}u"),
        Value::Double(value) if value.is_infinite() => "double(+Inf)".to_owned(),
        Value::Double(value) => format!("double({value})"),
        Value::String(text) => serde_json::to_string(&**text).unwrap(),
        Value::Bytes(bytes) => {
            format!("bytes({})", bytes.iter().map(|b| format!("{b:02x}")).collect::<String>())
        }
        Value::Timestamp(at) => format!("google.protobuf.Timestamp({at})"),
        Value::Duration(_) => {
            format!("google.protobuf.Duration({})", value.to_json().unwrap().as_str().unwrap())
        }
        Value::Optional(None) => "optional.none".to_owned(),
        Value::Optional(Some(value)) => format!("optional({})", show(value)),
        Value::List(list) => {
            let parts: Vec<String> = list.iter().map(|element| show(&element.unwrap())).collect();
            format!("[{}]", parts.join(", "))
        }
        Value::Map(map) => {
            let mut parts: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", show(&key), show(&value.unwrap())))
                .collect();
            parts.sort();
            format!("{{{}}}", parts.join(", "))
        }
        Value::Type(_) => "type".to_owned(),
        Value::Opaque(opaque) => opaque.type_name().to_owned(),
        other => format!("{other:?}"),
    }
}
