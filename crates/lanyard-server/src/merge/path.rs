//! Paths to fields: how a field, or an item of a list, is named in `fieldsV1` and in messages.
//!
//! The order of elements is upstream's; it decides the order of what clients see.

use std::{cmp::Ordering, fmt, sync::Arc};

use serde_json::Value;

use crate::field::quoted;

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A field of an object.
    Field(Arc<str>),
    /// The item of a list whose fields have these values, in the order of their names.
    Key(Arc<[(Arc<str>, Atom)]>),
    /// The item of a list that is this value.
    Value(Atom),
    /// The item of a list at this place.
    Index(i64),
}

/// A value in a path; numbers are compared by what they count, not by how they are written.
#[derive(Clone, Debug)]
pub struct Atom(pub Value);

impl Element {
    /// A field.
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// A step as `fieldsV1` writes it, e.g. `f:metadata` or `k:{"name":"a"}`.
    pub fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let pair = |(name, value): &(Arc<str>, Atom)| {
                    format!("{}:{}", json(&Value::from(&**name)), json(&value.0))
                };
                let pairs: Vec<_> = fields.iter().map(pair).collect();
                format!("k:{{{}}}", pairs.join(","))
            }
            Self::Value(value) => format!("v:{}", json(&value.0)),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    /// Reads a step; `Ok(None)` for one of a kind that a later version may know.
    ///
    /// # Errors
    /// When it is no step.
    pub fn decode(text: &str) -> Result<Option<Self>, BadElement> {
        let (Some(kind), Some(b':')) = (text.as_bytes().first(), text.as_bytes().get(1)) else {
            return Err(BadElement);
        };
        // Both are of one byte.
        let rest = &text[2..];
        Ok(Some(match kind {
            b'f' => Self::Field(rest.into()),
            b'v' => Self::Value(Atom(serde_json::from_str(rest).map_err(|_| BadElement)?)),
            b'k' => {
                let Ok(Value::Object(fields)) = serde_json::from_str(rest) else {
                    return Err(BadElement);
                };
                Self::key(fields.into_iter().map(|(name, value)| (name.into(), Atom(value))))
            }
            b'i' => Self::Index(rest.parse().map_err(|_| BadElement)?),
            _ => return Ok(None),
        }))
    }

    /// The item with these values of its keys.
    pub fn key(fields: impl Iterator<Item = (Arc<str>, Atom)>) -> Self {
        let mut fields: Vec<_> = fields.collect();
        fields.sort();
        Self::Key(fields.into())
    }
}

/// A text that is no element of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no element of a path")]
pub struct BadElement;

fn json(value: &Value) -> String {
    if let Some(float) = value.as_f64().filter(|_| value.is_f64()) {
        // Go writes 80.0 as 80.
        return float.to_string();
    }
    // Go escapes what could end a script; serde_json does not. Both read the same.
    let text = value.to_string();
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return text;
    }
    text.chars()
        .map(|c| match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", c as u32),
            other => other.to_string(),
        })
        .collect()
}

/// As messages show a path: `.spec.ports[port=80,protocol="TCP"].name`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={value}")?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(text) => f.write_str(&quoted(text)),
            Value::Number(number) => match number.as_f64() {
                // Go shows 80.0 as 80.
                Some(float) if number.is_f64() => write!(f, "{float}"),
                _ => write!(f, "{number}"),
            },
            other => write!(f, "{other}"),
        }
    }
}

impl PartialEq for Atom {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Atom {}

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Atom {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

/// Whether two values are the same, by what they count.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => compare(left, right) == Ordering::Equal,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(l, r)| same(l, r))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|((lk, l), (rk, r))| lk == rk && same(l, r))
        }
        _ => left == right,
    }
}

/// Upstream's order: numbers, texts, truth values, lists, objects, null.
fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(l), Value::Number(r)) => match (l.as_i64(), r.as_i64()) {
            (Some(l), Some(r)) => l.cmp(&r),
            // Beyond 64 bits only what a float tells.
            _ => l.as_f64().unwrap_or(0.0).total_cmp(&r.as_f64().unwrap_or(0.0)),
        },
        (Value::String(l), Value::String(r)) => l.cmp(r),
        (Value::Bool(l), Value::Bool(r)) => l.cmp(r),
        (Value::Array(l), Value::Array(r)) => {
            let differing = l.iter().zip(r).map(|(l, r)| compare(l, r)).find(|o| o.is_ne());
            differing.unwrap_or_else(|| l.len().cmp(&r.len()))
        }
        (Value::Object(l), Value::Object(r)) => {
            let pairs = l.iter().zip(r);
            let mut orders = pairs.map(|((lk, l), (rk, r))| lk.cmp(rk).then_with(|| compare(l, r)));
            orders.find(|o| o.is_ne()).unwrap_or_else(|| l.len().cmp(&r.len()))
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_written_as_upstream_writes_them() {
        let key = |fields: Value| {
            let Value::Object(fields) = fields else { panic!("no object") };
            Element::key(fields.into_iter().map(|(k, v)| (k.into(), Atom(v))))
        };
        for (element, encoded, shown) in [
            (Element::field("a.b/c"), "f:a.b/c", ".a.b/c"),
            (key(json!({"p": 80, "n": "x"})), r#"k:{"n":"x","p":80}"#, r#"[n="x",p=80]"#),
            (Element::Value(Atom(json!("a<b"))), "v:\"a\\u003cb\"", r#"[="a<b"]"#),
            (Element::Value(Atom(json!(true))), "v:true", "[=true]"),
            (Element::Value(Atom(json!(80.0))), "v:80", "[=80]"),
            (Element::Index(3), "i:3", "[3]"),
        ] {
            assert_eq!(element.encode(), encoded);
            assert_eq!(element.to_string(), shown);
            assert_eq!(Element::decode(encoded), Ok(Some(element)), "{encoded}");
        }
        for bad in ["", "f", "fx", "k:1", "k:{", "v:", "i:x", "é:"] {
            assert_eq!(Element::decode(bad), Err(BadElement), "{bad}");
        }
        assert_eq!(Element::decode("z:1"), Ok(None));
    }

    #[test]
    fn elements_have_upstreams_order() {
        let ordered: Vec<_> = [
            "f:a",
            "f:b",
            "k:{\"a\":1}",
            "k:{\"a\":10}",
            "k:{\"a\":\"1\"}",
            "k:{\"a\":\"1\",\"b\":1}",
        ]
        .into_iter()
        .chain(["v:-1", "v:2", "v:10", "v:\"a\"", "v:true", "v:null", "i:2", "i:10"])
        .map(|text| Element::decode(text).unwrap().unwrap())
        .collect();
        assert!(ordered.is_sorted_by(|a, b| a < b));
        assert_eq!(Atom(json!(1)), Atom(json!(1.0)));
        assert!(same(&json!({"a": [1, {}]}), &json!({"a": [1.0, {}]})));
        assert!(!same(&json!({"a": [1]}), &json!({"a": [1, 2]})));
    }

    proptest! {
        #[test]
        fn fuzz_elements_are_read_or_refused(text in "[fkvixé]:?[\\[\\]{}:,\"a0.-]{0,12}|.{0,9}") {
            if let Ok(Some(element)) = Element::decode(&text) {
                prop_assert_eq!(Element::decode(&element.encode()), Ok(Some(element)));
            }
        }
    }
}
