//! The columns that `kubectl get` prints for a custom resource.

use serde_json::{Value, json};

use super::json_path::JsonPath;
use crate::{
    object::ObjectExt,
    schema::{self, time},
    types::age,
};

/// The columns of one version.
#[derive(Debug)]
pub struct Columns {
    /// The definitions, as tables begin.
    pub definitions: Vec<Value>,
    cells: Vec<Cell>,
}

#[derive(Debug)]
struct Cell {
    kind: String,
    path: Option<JsonPath>,
}

impl Columns {
    /// Reads the columns of a version; the age is shown when it has none.
    pub(super) fn of(version: &Value) -> Self {
        let listed = version.get("additionalPrinterColumns").and_then(Value::as_array);
        let age = || {
            vec![json!({
                "name": "Age",
                "type": "date",
                "jsonPath": ".metadata.creationTimestamp",
                "description": description("creationTimestamp"),
            })]
        };
        let columns = listed.filter(|list| !list.is_empty()).cloned().unwrap_or_else(age);
        let name = json!({
            "name": "Name",
            "type": "string",
            "format": "name",
            "description": description("name"),
            "priority": 0,
        });
        let definitions = [name].into_iter().chain(columns.iter().map(definition)).collect();
        let cell = |column: &Value| Cell {
            kind: column.text(&["type"]).to_owned(),
            path: JsonPath::parse(column.text(&["jsonPath"])),
        };
        Self { definitions, cells: columns.iter().map(cell).collect() }
    }

    /// The cells of one object.
    pub fn cells(&self, object: &Value, now: i64) -> Vec<Value> {
        let mut cells = vec![object.name().into()];
        for cell in &self.cells {
            let found = cell.path.as_ref().and_then(|path| path.first(object));
            cells.push(found.map_or(Value::Null, |value| show(&cell.kind, value, now)));
        }
        cells
    }
}

fn definition(column: &Value) -> Value {
    let path = column.text(&["jsonPath"]);
    let description = match column.text(&["description"]) {
        "" => format!("Custom resource definition column (in JSONPath format): {path}"),
        text => text.to_owned(),
    };
    json!({
        "name": column["name"],
        "type": column["type"],
        "format": column.text(&["format"]),
        "description": description,
        "priority": column.get("priority").and_then(Value::as_i64).unwrap_or_default(),
    })
}

/// One sentence about a field of all metadata.
fn description(field: &str) -> &'static str {
    match field {
        "name" => "The name of the object, unique among those of its kind in its namespace.",
        _ => "The time at which the object was created, by the clock of the server.",
    }
}

fn show(kind: &str, value: &Value, now: i64) -> Value {
    match (kind, value) {
        (_, Value::Null) if kind != "string" => Value::Null,
        ("string", value) => plain_text(value).into(),
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(number) => number.into(),
            None => (number.as_f64().unwrap_or_default() as i64).into(),
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match time::unix_seconds(text) {
            Some(then) => age(now, then).into(),
            None if schema::time::parse(text, time::Precision::Seconds).is_ok() => {
                "<unknown>".into()
            }
            None => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}

/// A value as text: JSON, but for plain text.
fn plain_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_shown_by_their_type() {
        let column = |kind: &str, field: &str| json!({"name": field, "type": kind, "jsonPath": format!(".{field}")});
        let version = json!({"additionalPrinterColumns": [
            column("string", "text"), column("string", "map"), column("integer", "float"),
            column("boolean", "flag"), column("date", "time"), column("date", "text"),
            column("number", "missing"), column("integer", "text"),
        ]});
        let object = json!({
            "metadata": {"name": "n"}, "text": "x", "map": {"a": [1, true]}, "float": 1.5,
            "flag": true, "time": "2027-01-15T07:57:39Z",
        });
        let cells = Columns::of(&version).cells(&object, 1_800_000_000);
        assert_eq!(
            Value::from(cells),
            json!(["n", "x", "{\"a\":[1,true]}", 1, true, "2m21s", "<invalid>", null, null])
        );
        assert_eq!(Columns::of(&json!({})).definitions[1]["name"], "Age");
    }
}
