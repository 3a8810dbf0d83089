//! The JSON paths of printer columns: names, indices, wildcards and simple filters.
//!
//! It is the part of kubectl's dialect that columns use. Only the first result is of interest.

use serde_json::Value;

/// How long a path may be.
const MAX_LENGTH: usize = 1024;

/// A path into an object.
#[derive(Debug)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Debug)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Filter { left: JsonPath, test: Option<(Operator, Value)> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Reads a path such as `.status.conditions[?(@.type=="Ready")].status`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_LENGTH {
            return None;
        }
        let mut steps = Vec::new();
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('[') {
                let end = closing(after)?;
                steps.push(Step::bracket(&after[..end])?);
                rest = &after[end + 1..];
            } else {
                let after = rest.strip_prefix('.')?;
                let (name, after) = field(after);
                match name.as_str() {
                    // A lone dot is the object itself.
                    "" if after.is_empty() || after.starts_with('[') => {}
                    "" => return None,
                    "*" => steps.push(Step::All),
                    _ => steps.push(Step::Field(name)),
                }
                rest = after;
            }
        }
        Some(Self(steps))
    }

    /// The first value that the path leads to.
    pub(super) fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        walk(&self.0, root)
    }
}

/// A name up to the next separator; a backslash takes the character after it as it is.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, &text[at..]),
            other => name.push(other),
        }
    }
    (name, "")
}

/// Where the bracket that is open closes.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, character) in text.char_indices() {
        match (character, quote) {
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('\'' | '"', None) => quote = Some(character),
            ('[', None) => depth += 1,
            (']', None) if depth == 0 => return Some(at),
            (']', None) => depth -= 1,
            _ => {}
        }
    }
    None
}

impl Step {
    fn bracket(inner: &str) -> Option<Self> {
        let inner = inner.trim();
        if inner == "*" {
            return Some(Self::All);
        }
        if let Some(name) = unquoted(inner) {
            return Some(Self::Field(name));
        }
        if let Some(filter) = inner.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
            return Self::filter(filter);
        }
        inner.parse().ok().map(Self::Index)
    }

    fn filter(text: &str) -> Option<Self> {
        let operators = [
            ("==", Operator::Equal),
            ("!=", Operator::Unequal),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        let found = operators.iter().find_map(|(word, operator)| {
            let (left, right) = text.split_once(word)?;
            Some((left, *operator, right))
        });
        let path = |text: &str| JsonPath::parse(text.trim().strip_prefix('@')?);
        match found {
            None => Some(Self::Filter { left: path(text)?, test: None }),
            Some((left, operator, right)) => {
                let right = right.trim();
                let value = match unquoted(right) {
                    Some(text) => Value::String(text),
                    None => serde_json::from_str(right).ok()?,
                };
                Some(Self::Filter { left: path(left)?, test: Some((operator, value)) })
            }
        }
    }
}

fn unquoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
    Some(inner.replace(&format!("\\{quote}"), &quote.to_string()))
}

fn walk<'a>(steps: &[Step], value: &'a Value) -> Option<&'a Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match (step, value) {
        (Step::Field(name), value) => walk(rest, value.get(name)?),
        (Step::Index(at), Value::Array(items)) => {
            let at = if *at < 0 { at + items.len() as i64 } else { *at };
            walk(rest, items.get(usize::try_from(at).ok()?)?)
        }
        (Step::All, Value::Array(items)) => items.iter().find_map(|item| walk(rest, item)),
        (Step::All, Value::Object(map)) => map.values().find_map(|item| walk(rest, item)),
        (Step::Filter { left, test }, Value::Array(items)) => {
            let mut found = items.iter().filter(|item| passes(left, test.as_ref(), item));
            found.find_map(|item| walk(rest, item))
        }
        _ => None,
    }
}

fn passes(left: &JsonPath, test: Option<&(Operator, Value)>, item: &Value) -> bool {
    let (found, Some((operator, wanted))) = (left.first(item), test) else {
        return left.first(item).is_some();
    };
    let Some(found) = found else { return false };
    let order = match (found, wanted) {
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64().zip(b.as_f64()).and_then(|(a, b)| a.partial_cmp(&b))
        }
        _ => None,
    };
    let Some(order) = order else { return false };
    match operator {
        Operator::Equal => order.is_eq(),
        Operator::Unequal => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::Greater => order.is_gt(),
        Operator::GreaterOrEqual => order.is_ge(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_the_first_value() {
        let object = json!({
            "spec": {"replicas": 3, "a.b": 1, "names": ["x", "y"]},
            "status": {"conditions": [
                {"type": "Other", "status": "False", "n": 1},
                {"type": "Ready", "status": "True", "n": 2},
            ]},
        });
        for (path, expected) in [
            (".spec.replicas", json!(3)),
            (".spec.names[1]", json!("y")),
            (".spec.names[-1]", json!("y")),
            (".spec.names[*]", json!("x")),
            (".spec['a.b']", json!(1)),
            (r".spec.a\.b", json!(1)),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (".status.conditions[?(@.type=='Ready')].n", json!(2)),
            (".status.conditions[?(@.n > 1)].type", json!("Ready")),
            (".status.conditions[*].type", json!("Other")),
        ] {
            assert_eq!(JsonPath::parse(path).unwrap().first(&object), Some(&expected), "{path}");
        }
        for path in [".spec.missing", ".spec.names[7]", ".spec.replicas.x", ".status[0]"] {
            assert_eq!(JsonPath::parse(path).unwrap().first(&object), None, "{path}");
        }
        for path in ["spec", ".spec[", ".spec[?(@.a)", ".spec..names", ".a[b]"] {
            assert!(JsonPath::parse(path).is_none(), "{path}");
        }
    }

    proptest! {
        #[test]
        fn fuzz_any_text_is_a_path_or_refused(text in "([a-z.\\[\\]?(@)='\"*0-9-]|\\PC){0,30}") {
            if let Some(path) = JsonPath::parse(&text) {
                path.first(&json!({"a": [{"b": 1}]}));
            }
        }
    }
}
