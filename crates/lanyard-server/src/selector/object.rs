//! Label selectors as objects with `matchLabels` and `matchExpressions`, which is how they stand in
//! other objects.

use serde_json::Value;

use super::{LabelSelector, Requirement};
use crate::object::ObjectExt;

impl LabelSelector {
    /// Reads a selector object; nothing when any part of it makes no sense.
    pub fn from_object(value: &Value) -> Option<Self> {
        let fields = value.as_object()?;
        let mut requirements = Vec::new();
        match fields.get("matchLabels") {
            None | Some(Value::Null) => {}
            Some(labels) => {
                for (key, value) in labels.as_object()? {
                    let values = vec![value.as_str()?.to_owned()];
                    requirements.push(Requirement::In(key.clone(), values));
                }
            }
        }
        match fields.get("matchExpressions") {
            None | Some(Value::Null) => {}
            Some(expressions) => {
                for expression in expressions.as_array()? {
                    requirements.push(requirement_from(expression)?);
                }
            }
        }
        Some(Self { requirements })
    }
}

fn requirement_from(value: &Value) -> Option<Requirement> {
    let mut values = strings(value.get("values"))?;
    // The requirement looks them up by halves.
    values.sort_unstable();
    let key = value.text(&["key"]).to_owned();
    if key.is_empty() {
        return None;
    }
    match (value.text(&["operator"]), values.is_empty()) {
        ("In", false) => Some(Requirement::In(key, values)),
        ("NotIn", false) => Some(Requirement::NotIn(key, values)),
        ("Exists", true) => Some(Requirement::Exists(key)),
        ("DoesNotExist", true) => Some(Requirement::Absent(key)),
        _ => None,
    }
}

fn strings(value: Option<&Value>) -> Option<Vec<String>> {
    match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(list) => list.as_array()?.iter().map(|v| Some(v.as_str()?.to_owned())).collect(),
    }
}

/// A selector object in the form of a `labelSelector` parameter: `app=web,tier in (a,b)`.
///
/// Empty for no selector at all, and for one that cannot be read.
pub fn object_selector_text(selector: &Value) -> String {
    let Some(parsed) = LabelSelector::from_object(selector) else { return String::new() };
    let labels = selector.get("matchLabels").and_then(Value::as_object).map_or(0, |map| map.len());
    let text = |(at, requirement): (usize, &Requirement)| match requirement {
        // One value of a label is one of a set in the other form.
        Requirement::In(key, values) if at < labels => {
            (key.clone(), format!("{key}={}", values.join(",")))
        }
        Requirement::In(key, values) => (key.clone(), format!("{key} in ({})", values.join(","))),
        Requirement::NotIn(key, values) => {
            (key.clone(), format!("{key} notin ({})", values.join(",")))
        }
        Requirement::Exists(key) => (key.clone(), key.clone()),
        Requirement::Absent(key) => (key.clone(), format!("!{key}")),
        Requirement::Greater(key, bound) => (key.clone(), format!("{key}>{bound}")),
        Requirement::Less(key, bound) => (key.clone(), format!("{key}<{bound}")),
    };
    let mut texts: Vec<(String, String)> =
        parsed.requirements.iter().enumerate().map(text).collect();
    texts.sort_by(|(a, _), (b, _)| a.cmp(b));
    texts.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selector_objects_read_as_parameters() {
        let check = |selector: Value, expected: &str| {
            assert_eq!(object_selector_text(&selector), expected, "{selector}");
        };
        check(json!(null), "");
        check(json!({}), "");
        check(json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2");
        let expressions = json!({"matchLabels": {"m": ""}, "matchExpressions": [
            {"key": "z", "operator": "In", "values": ["y", "x"]},
            {"key": "a", "operator": "NotIn", "values": ["b"]},
            {"key": "e", "operator": "Exists"},
            {"key": "d", "operator": "DoesNotExist"},
        ]});
        check(expressions, "a notin (b),!d,e,m=,z in (x,y)");
        check(json!({"matchExpressions": [{"key": "a", "operator": "Like"}]}), "");
    }
}
