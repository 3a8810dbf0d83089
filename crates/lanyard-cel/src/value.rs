//! Values of expressions.
//!
//! Objects and lists of the host stay the JSON that they are; a value wraps a part of it when an expression gets
//! there. What expressions make themselves is shared, so that copies cost nothing.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::declared::{Declared, ListKind, ObjectType, Shape};
use crate::error::EvalError;
use crate::escape::{escape, unescape};
use crate::library::Opaque;
use crate::time;
use crate::types::Type;

/// A value. `'a` is how long the JSON lives that it may be a part of.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Value<'a> {
    /// `null`
    Null,
    /// True or false.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A double.
    Double(f64),
    /// Text.
    String(Text<'a>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A point in time.
    Timestamp(Timestamp),
    /// A span of time in nanoseconds.
    Duration(i64),
    /// A list.
    List(List<'a>),
    /// A map, or an object.
    Map(Map<'a>),
    /// An object that the expression made: the name of its type and its fields.
    Message(Arc<Message<'a>>),
    /// A value that may be absent.
    Optional(Option<Arc<Value<'a>>>),
    /// A type.
    Type(Type),
    /// A value of a library, such as a quantity or an authorizer.
    Opaque(Opaque),
}

/// Text of the host's JSON or of the expression's making.
#[derive(Debug, Clone)]
pub enum Text<'a> {
    /// A part of the host's JSON.
    Borrowed(&'a str),
    /// Made by the expression.
    Shared(Arc<str>),
}

/// A list: the host's or of the expression's making.
#[derive(Debug, Clone)]
pub struct List<'a>(pub(crate) Elements<'a>);

#[derive(Debug, Clone)]
pub(crate) enum Elements<'a> {
    Json(&'a [Json], &'a Declared, &'a ListKind),
    Owned(Arc<Vec<Value<'a>>>),
}

/// A map: the host's or of the expression's making.
#[derive(Debug, Clone)]
pub struct Map<'a>(pub(crate) Entries<'a>);

#[derive(Debug, Clone)]
pub(crate) enum Entries<'a> {
    /// An object with properties of their own shapes.
    Object(&'a serde_json::Map<String, Json>, &'a ObjectType),
    /// A map with values of one shape.
    Json(&'a serde_json::Map<String, Json>, &'a Declared),
    Owned(Arc<BTreeMap<Key, Value<'a>>>),
}

/// A key of a map that an expression made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Arc<str>),
}

/// An object that an expression made.
#[derive(Debug, Clone)]
pub struct Message<'a> {
    /// The name of its type.
    pub name: String,
    /// Its fields.
    pub fields: BTreeMap<String, Value<'a>>,
}

impl<'a> Value<'a> {
    /// JSON as a value, without a schema.
    pub fn from_json(json: &'a Json) -> Self {
        Self::untyped(json)
    }

    /// Text.
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(Text::Shared(text.into()))
    }

    /// A list of values.
    pub fn list(elements: Vec<Value<'a>>) -> Self {
        Self::List(List(Elements::Owned(Arc::new(elements))))
    }

    pub(crate) fn strings<T: Into<Arc<str>>>(elements: impl IntoIterator<Item = T>) -> Self {
        Self::list(elements.into_iter().map(Self::string).collect())
    }

    pub(crate) fn some(value: Value<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    fn untyped(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => match number.as_i64() {
                Some(value) => Self::Int(value),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::String(Text::Borrowed(text)),
            Json::Array(items) => Self::List(List(Elements::Json(items, ANY, &ListKind::Atomic))),
            Json::Object(map) => Self::Map(Map(Entries::Json(map, ANY))),
        }
    }

    /// JSON as a value of what it is declared to be.
    pub(crate) fn typed(json: &'a Json, declared: &'a Declared) -> Result<Self, EvalError> {
        let wrong = |expected: &str| {
            Err(EvalError::new(format!(
                "invalid data, expected {expected}, got {}",
                json_kind(json)
            )))
        };
        Ok(match (&declared.shape, json) {
            (Shape::Dyn | Shape::Native(_), json) => Self::untyped(json),
            (_, Json::Null) => Self::Null,
            (Shape::Bool, Json::Bool(value)) => Self::Bool(*value),
            (Shape::Bool, _) => return wrong("bool"),
            (Shape::Int, Json::Number(number)) if number.is_i64() => Self::untyped(json),
            (Shape::Int, _) => return wrong("int"),
            (Shape::Double, Json::Number(number)) => {
                Self::Double(number.as_f64().unwrap_or(f64::NAN))
            }
            (Shape::Double, _) => return wrong("float"),
            (Shape::IntOrString, Json::String(_)) => Self::untyped(json),
            (Shape::IntOrString, Json::Number(number)) if number.is_i64() => Self::untyped(json),
            (Shape::IntOrString, _) => {
                let message =
                    "invalid data, expected XIntOrString value to be either a string or integer";
                return Err(EvalError::new(message));
            }
            (Shape::List(items, kind), Json::Array(array)) => {
                Self::List(List(Elements::Json(array, items, kind)))
            }
            (Shape::List(..), _) => {
                let message =
                    "invalid data, expected an array for the provided schema with type=array";
                return Err(EvalError::new(message));
            }
            (Shape::Map(values), Json::Object(map)) => Self::Map(Map(Entries::Json(map, values))),
            (Shape::Object(object), Json::Object(map)) => {
                Self::Map(Map(Entries::Object(map, object)))
            }
            (Shape::Map(_) | Shape::Object(_), _) => {
                let message =
                    "invalid data, expected a map for the provided schema with type=object";
                return Err(EvalError::new(message));
            }
            (text, Json::String(string)) => return formatted(text, string),
            _ => return wrong("string"),
        })
    }

    /// The type at run time: that of the parts is not known.
    pub(crate) fn type_of(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::String(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Duration(_) => Type::Duration,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Message(message) => Type::object(&message.name),
            Self::Optional(_) => Type::optional(Type::Dyn),
            Self::Type(_) => Type::Type(None),
            Self::Opaque(opaque) => Type::object(opaque.type_name()),
        }
    }

    /// How large the value counts for costs: characters, elements, entries, or one.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::String(text) => text.chars().count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(value)) => value.size(),
            Self::Opaque(opaque) => opaque.size(),
            _ => 1,
        }
    }

    /// The value as JSON. Fails for what JSON has no form for.
    pub fn to_json(&self) -> Result<Json, EvalError> {
        Ok(match self {
            Self::Null => Json::Null,
            Self::Bool(value) => Json::Bool(*value),
            Self::Int(value) => Json::from(*value),
            Self::Uint(value) => Json::from(*value),
            Self::Double(value) => serde_json::Number::from_f64(*value)
                .map(Json::Number)
                .ok_or_else(|| EvalError::new(format!("cannot convert {value} to JSON")))?,
            Self::String(text) => Json::String(text.to_string()),
            Self::Bytes(bytes) => {
                use base64::Engine;
                Json::String(base64::engine::general_purpose::STANDARD.encode(bytes))
            }
            Self::Timestamp(at) => Json::String(time::show_timestamp(*at)),
            Self::Duration(nanos) => Json::String(time::show_duration(*nanos)),
            Self::List(list) => {
                list.iter().map(|element| element?.to_json()).collect::<Result<_, _>>()?
            }
            Self::Map(Map(Entries::Object(map, _) | Entries::Json(map, _))) => {
                Json::Object((*map).clone())
            }
            Self::Map(Map(Entries::Owned(map))) => {
                let entries =
                    map.iter().map(|(key, value)| Ok((key.to_string(), value.to_json()?)));
                Json::Object(entries.collect::<Result<_, EvalError>>()?)
            }
            Self::Message(message) => {
                let fields =
                    message.fields.iter().map(|(name, value)| Ok((name.clone(), value.to_json()?)));
                Json::Object(fields.collect::<Result<_, EvalError>>()?)
            }
            Self::Optional(Some(value)) => value.to_json()?,
            Self::Optional(None) => Json::Null,
            Self::Type(_) | Self::Opaque(_) => {
                let name = self.type_of();
                return Err(EvalError::new(format!(
                    "unsupported conversion of '{}' to JSON",
                    name.kind_name()
                )));
            }
        })
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl Text<'_> {
    pub(crate) fn shared(&self) -> Arc<str> {
        match self {
            Self::Borrowed(text) => (*text).into(),
            Self::Shared(text) => text.clone(),
        }
    }
}

impl<'a> List<'a> {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Elements::Json(items, ..) => items.len(),
            Elements::Owned(items) => items.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One element.
    pub fn get(&self, index: usize) -> Option<Result<Value<'a>, EvalError>> {
        match &self.0 {
            Elements::Json(items, declared, _) => {
                items.get(index).map(|item| Value::typed(item, declared))
            }
            Elements::Owned(items) => items.get(index).cloned().map(Ok),
        }
    }

    /// All elements. Those of the host's JSON may not be what they are declared to be.
    pub fn iter(&self) -> impl Iterator<Item = Result<Value<'a>, EvalError>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    /// How the list is compared and joined.
    pub(crate) fn kind(&self) -> &'a ListKind {
        match &self.0 {
            Elements::Json(_, _, kind) => kind,
            Elements::Owned(_) => &ListKind::Atomic,
        }
    }
}

impl<'a> Map<'a> {
    pub(crate) fn owned(entries: BTreeMap<Key, Value<'a>>) -> Self {
        Self(Entries::Owned(Arc::new(entries)))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Entries::Object(map, _) | Entries::Json(map, _) => map.len(),
            Entries::Owned(map) => map.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a key. Absent, and for objects also null, is `None`.
    pub(crate) fn find(&self, key: &Value<'_>) -> Option<Result<Value<'a>, EvalError>> {
        match (&self.0, key) {
            (Entries::Owned(map), key) => {
                let found =
                    Key::candidates(key).into_iter().flatten().find_map(|key| map.get(&key));
                found.cloned().map(Ok)
            }
            (_, Value::String(name)) => self.find_name(name),
            _ => Some(Err(EvalError::no_such_overload())),
        }
    }

    /// The value of a key that is text.
    pub(crate) fn find_name(&self, name: &str) -> Option<Result<Value<'a>, EvalError>> {
        match &self.0 {
            Entries::Object(map, object) => {
                let declared = object
                    .fields
                    .get(name)
                    .or_else(|| object.fields.get(&format!("__{name}__")))?;
                let json = map.get(&unescape(name)?).filter(|json| !json.is_null())?;
                Some(Value::typed(json, declared))
            }
            Entries::Json(map, declared) => map.get(name).map(|json| Value::typed(json, declared)),
            Entries::Owned(map) => map.get(&Key::String(name.into())).cloned().map(Ok),
        }
    }

    /// All keys with their values, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (Value<'a>, Result<Value<'a>, EvalError>)> + '_ {
        self.keys().into_iter().filter_map(|key| self.find(&key).map(|value| (key, value)))
    }

    /// All keys, in order.
    pub(crate) fn keys(&self) -> Vec<Value<'a>> {
        match &self.0 {
            Entries::Object(map, object) => {
                let names = map.keys().filter_map(|name| escape(name));
                names.filter(|name| object.fields.contains_key(name)).map(Value::string).collect()
            }
            Entries::Json(map, _) => {
                map.keys().map(|key| Value::String(Text::Borrowed(key))).collect()
            }
            Entries::Owned(map) => map.keys().map(Key::value).collect(),
        }
    }
}

impl Key {
    /// The key that a value is, if it can be one.
    pub(crate) fn new(value: &Value<'_>) -> Option<Self> {
        Some(match value {
            Value::Bool(value) => Self::Bool(*value),
            Value::Int(value) => Self::Int(*value),
            Value::Uint(value) => Self::Uint(*value),
            Value::String(text) => Self::String(text.shared()),
            _ => return None,
        })
    }

    /// The keys that equal a value: numbers of different types may be equal.
    fn candidates(value: &Value<'_>) -> [Option<Self>; 2] {
        match value {
            Value::Int(value) => {
                [Some(Self::Int(*value)), u64::try_from(*value).ok().map(Self::Uint)]
            }
            Value::Uint(value) => {
                [Some(Self::Uint(*value)), i64::try_from(*value).ok().map(Self::Int)]
            }
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 9e18 => {
                let whole = *value as i64;
                [Some(Self::Int(whole)), u64::try_from(whole).ok().map(Self::Uint)]
            }
            other => [Self::new(other), None],
        }
    }

    pub(crate) fn value<'a>(&self) -> Value<'a> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::String(text) => Value::String(Text::Shared(text.clone())),
        }
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bool(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Uint(value) => value.fmt(f),
            Self::String(text) => f.write_str(text),
        }
    }
}

/// Text that stands for something else by its declaration.
fn formatted<'a>(shape: &Shape, text: &'a str) -> Result<Value<'a>, EvalError> {
    Ok(match shape {
        Shape::Bytes => {
            use base64::Engine;
            let decoded = base64::engine::general_purpose::STANDARD.decode(text);
            Value::Bytes(
                decoded
                    .map_err(|e| {
                        EvalError::new(format!("Invalid byte formatted string {text}: {e}"))
                    })?
                    .into(),
            )
        }
        Shape::DateTime => {
            Value::Timestamp(time::parse_timestamp(text).ok_or_else(|| {
                EvalError::new(format!("Invalid date-time formatted string {text}"))
            })?)
        }
        Shape::Date => Value::Timestamp(
            time::parse_date(text)
                .ok_or_else(|| EvalError::new(format!("Invalid date formatted string {text}")))?,
        ),
        Shape::Duration => Value::Duration(
            time::parse_duration(text)
                .ok_or_else(|| EvalError::new(format!("Invalid duration {text}")))?,
        ),
        _ => Value::String(Text::Borrowed(text)),
    })
}

fn json_kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "null",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

/// Compares two numbers of any types; `None` if one is not a number or is NaN.
pub(crate) fn compare_numbers(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    Some(match (one, other) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Uint(a), Value::Uint(b)) => a.cmp(b),
        (Value::Int(a), Value::Uint(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (Value::Uint(a), Value::Int(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (Value::Double(a), Value::Double(b)) => return a.partial_cmp(b),
        (Value::Int(a), Value::Double(b)) => return compare_whole(i128::from(*a), *b),
        (Value::Uint(a), Value::Double(b)) => return compare_whole(i128::from(*a), *b),
        (Value::Double(a), Value::Int(b)) => {
            return compare_whole(i128::from(*b), *a).map(Ordering::reverse);
        }
        (Value::Double(a), Value::Uint(b)) => {
            return compare_whole(i128::from(*b), *a).map(Ordering::reverse);
        }
        _ => return None,
    })
}

/// Compares a whole number with a double, exactly.
fn compare_whole(whole: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    if double.abs() >= 1e30 {
        return Some(if double > 0.0 { Ordering::Less } else { Ordering::Greater });
    }
    let floor = double.floor();
    let by_floor = whole.cmp(&(floor as i128));
    Some(if by_floor == Ordering::Equal && floor < double { Ordering::Less } else { by_floor })
}

/// JSON without a schema.
const ANY: &Declared = &Declared::ANY;
