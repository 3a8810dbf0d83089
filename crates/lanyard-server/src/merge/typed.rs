//! What all walks over a tree share: which form a value has, how the items of a list are named, and what
//! is wrong with a value that does not fit, in upstream's words.

use std::{cmp::Ordering, fmt};

use serde_json::{Map as Object, Value};

use super::{
    path::{Atom, Element},
    shape::{List, ListKind, Map, Scalar, Shape},
};
use crate::field::quoted;

/// The form that a value is taken to have.
pub(super) enum Form<'a> {
    Map(Map<'a>),
    Scalar(Scalar),
    List(List<'a>),
    /// The schema allows nothing there.
    Nothing,
}

impl Form<'_> {
    pub(super) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl<'a> Shape<'a> {
    /// The form of a value; when it has none of those allowed, the first that is.
    pub(super) fn form(self, value: Option<&Value>) -> Form<'a> {
        match (value, self) {
            (
                Some(Value::Number(_) | Value::String(_) | Value::Bool(_)),
                Shape { scalar: Some(scalar), .. },
            ) => Form::Scalar(scalar),
            (Some(Value::Array(_)), Shape { list: Some(list), .. }) => Form::List(list),
            (_, Shape { map: Some(map), .. }) => Form::Map(map),
            (_, Shape { scalar: Some(scalar), .. }) => Form::Scalar(scalar),
            (_, Shape { list: Some(list), .. }) => Form::List(list),
            _ => Form::Nothing,
        }
    }
}

impl List<'_> {
    /// How an item is named.
    ///
    /// # Errors
    /// When it cannot be told apart from others.
    pub(super) fn element(&self, item: &Value) -> Result<Element, String> {
        match (&self.kind, item) {
            (ListKind::Atomic, _) => Err("invalid indexing of non-associative list".into()),
            (ListKind::Map(keys), Value::Object(fields)) => {
                let shape = self.items.shape();
                let default = |key: &str| shape.map.as_ref().and_then(|m| m.fields.default_of(key));
                let value = |key: &&str| {
                    let value = fields.get(*key).or_else(|| default(key))?;
                    Some(((*key).into(), Atom(value.clone())))
                };
                let found: Vec<_> = keys.iter().filter_map(value).collect();
                if found.is_empty() && !keys.is_empty() {
                    let keys: Vec<_> = keys.iter().map(|key| quoted(key)).collect();
                    let keys = keys.join(" ");
                    return Err(format!(
                        "associative list with keys has an element that omits all key fields [{keys}] (and doesn't have default values for any key fields)"
                    ));
                }
                Ok(Element::key(found.into_iter()))
            }
            (ListKind::Map(_), Value::Null) => {
                Err("associative list with keys may not have a null element".into())
            }
            (ListKind::Map(_), _) => {
                Err("associative list with keys may not have non-map elements".into())
            }
            (ListKind::Set, Value::Object(_)) => {
                Err("associative list without keys has an element that's a map type".into())
            }
            (ListKind::Set, Value::Array(_)) => {
                Err("not supported: associative list with lists as elements".into())
            }
            (ListKind::Set, Value::Null) => {
                Err("associative list without keys has an element that's an explicit null".into())
            }
            (ListKind::Set, scalar) => Ok(Element::Value(Atom(scalar.clone()))),
        }
    }
}

impl Scalar {
    /// What is wrong with a value, if anything; nothing and null always fit.
    pub(super) fn problem(self, value: Option<&Value>) -> Option<String> {
        let value = value.filter(|value| !value.is_null())?;
        match (self, value) {
            (Self::String | Self::Untyped, Value::String(_))
            | (Self::Numeric | Self::Untyped, Value::Number(_))
            | (Self::Boolean | Self::Untyped, Value::Bool(_)) => None,
            (Self::Numeric, _) => {
                Some(format!("expected numeric (int or float), got {}", go_type(value)))
            }
            (Self::String, _) => Some(format!(
                "expected string, got &value.valueUnstructured{{Value:{}}}",
                go_syntax(value)
            )),
            (Self::Boolean, _) => Some(format!("expected boolean, got {}", go_value(value))),
            (Self::Untyped, _) => Some(format!("expected any scalar, got {}", go_value(value))),
        }
    }
}

/// What is wrong with a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Problem {
    path: String,
    text: String,
}

/// At most this many problems are told: each names a path.
const MAX_PROBLEMS: usize = 100;

impl Problems {
    pub(super) fn add(&mut self, path: &[Step<'_>], text: impl Into<String>) {
        if self.0.len() < MAX_PROBLEMS {
            let path = path.iter().map(ToString::to_string).collect();
            self.0.push(Problem { path, text: text.into() });
        }
    }

    /// The value, if nothing is wrong.
    pub(super) fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |problem: &Problem| match problem.path.as_str() {
            "" => problem.text.clone(),
            path => format!("{path}: {}", problem.text),
        };
        if let [only] = self.0.as_slice() {
            return f.write_str(&text(only));
        }
        f.write_str("errors:")?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {}", text(problem)))
    }
}

impl std::error::Error for Problems {}

/// A step on the way of a walk, which becomes an element only when it is needed.
#[derive(Clone)]
pub(super) enum Step<'a> {
    Field(&'a str),
    Item(Element),
}

impl Step<'_> {
    pub(super) fn path(steps: &[Self]) -> Vec<Element> {
        let element = |step: &Self| match step {
            Self::Field(name) => Element::field(name),
            Self::Item(element) => element.clone(),
        };
        steps.iter().map(element).collect()
    }
}

impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Item(element) => element.fmt(f),
        }
    }
}

/// The fields of an object that has some.
pub(super) fn fields(value: Option<&Value>) -> Option<&Object<String, Value>> {
    value.and_then(Value::as_object).filter(|fields| !fields.is_empty())
}

/// The items of a list.
pub(super) fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Visits the fields of two objects in the order of their names.
pub(super) fn zip<'a>(
    left: Option<&'a Object<String, Value>>,
    right: Option<&'a Object<String, Value>>,
    mut visit: impl FnMut(&'a str, Option<&'a Value>, Option<&'a Value>),
) {
    let mut left = left.into_iter().flatten().peekable();
    let mut right = right.into_iter().flatten().peekable();
    loop {
        let order = match (left.peek(), right.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((left, _)), Some((right, _))) => left.cmp(right),
        };
        let old = if order.is_le() { left.next() } else { None };
        let new = if order.is_ge() { right.next() } else { None };
        if let Some((name, _)) = old.or(new) {
            visit(name, old.map(|(_, value)| value), new.map(|(_, value)| value));
        }
    }
}

/// A value as upstream's own type for values prints.
pub(super) fn go_value(value: &Value) -> String {
    format!("&{{{}}}", go_plain(value))
}

/// A value as Go's `%v` prints it.
pub(super) fn go_plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_plain).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(fields) => {
            let pair = |(name, value): (&String, &Value)| format!("{name}:{}", go_plain(value));
            let fields: Vec<_> = fields.iter().map(pair).collect();
            format!("map[{}]", fields.join(" "))
        }
        Value::Bool(_) | Value::Number(_) => Atom(value.clone()).to_string(),
    }
}

/// A value as Go's `%#v` prints it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let pair =
                |(name, value): (&String, &Value)| format!("{}:{}", quoted(name), go_syntax(value));
            let fields: Vec<_> = fields.iter().map(pair).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        scalar => Atom(scalar.clone()).to_string(),
    }
}

/// The Go type that JSON is decoded into.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
