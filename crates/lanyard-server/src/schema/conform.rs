//! Bringing a JSON tree into the form that its kind's table asks for, in place.
//!
//! The texts of mismatches are those of Go's JSON decoder: the innermost struct's name, then the
//! names of all fields on the way, without map keys and list indices.

use std::fmt;

use serde_json::{Map, Value};

use super::{
    Alternative, Field, Presence, Struct, Type, bytes, quantity,
    time::{self, Precision},
};

/// At most this many unknown fields are told of, as upstream: the rest would only fill headers.
const MAX_UNKNOWN: usize = 100;

/// An object in the form of its kind.
#[derive(Debug)]
pub struct Conformed {
    /// The object.
    pub value: Value,
    /// The paths of fields that the kind does not have and that were dropped, e.g. `rules[0].verb`.
    pub unknown: Vec<String>,
}

impl Struct {
    /// Brings an object into the form of this kind: decodes and encodes it as Go would.
    ///
    /// # Errors
    /// When a value has another type than its field.
    pub fn conform(&'static self, mut value: Value) -> Result<Conformed, TypeMismatch> {
        let mut unknown = Vec::new();
        if value.is_null() {
            value = Value::Object(Map::new());
        }
        self.conform_in_place(&mut value, &mut unknown)?;
        Ok(Conformed { value, unknown })
    }

    fn conform_in_place(
        &'static self,
        value: &mut Value,
        unknown: &mut Vec<String>,
    ) -> Result<(), TypeMismatch> {
        let Value::Object(map) = value else {
            return Err(TypeMismatch::new(json_kind(value).to_owned(), self.go_name.to_owned()));
        };
        let mut failure = None;
        map.retain(|name, value| {
            if failure.is_some() {
                return true;
            }
            let Some(field) = self.field(name) else {
                if unknown.len() < MAX_UNKNOWN {
                    unknown.push(name.clone());
                }
                return false;
            };
            let first = unknown.len();
            match field.conform(value, unknown) {
                Ok(keep) => {
                    prefix_field(name, &mut unknown[first..]);
                    keep
                }
                Err(mismatch) => {
                    failure = Some(mismatch.within(self, field));
                    true
                }
            }
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        for field in self.fields() {
            if let Some(unset) = field.unset()
                && !map.contains_key(field.name)
            {
                map.insert(field.name.to_owned(), unset);
            }
        }
        Ok(())
    }
}

impl Field {
    /// Conforms the value of this field; says whether it is to be kept.
    fn conform(
        &'static self,
        value: &mut Value,
        unknown: &mut Vec<String>,
    ) -> Result<bool, TypeMismatch> {
        if value.is_null() {
            let unset = self.unset();
            let keep = unset.is_some();
            *value = unset.unwrap_or_default();
            return Ok(keep);
        }
        self.ty.conform(value, unknown)?;
        Ok(match self.presence {
            Presence::Always => {
                // Upstream stores objects in a form that does not tell an empty list from none.
                if matches!(self.ty, Type::Map(_) | Type::List(_)) && self.ty.is_zero(value) {
                    *value = Value::Null;
                }
                true
            }
            Presence::OmitEmpty => !self.ty.is_zero(value),
            Presence::Pointer => !value.is_null(),
            Presence::Nullable => true,
        })
    }

    /// What Go writes when it was never set, if anything.
    fn unset(&self) -> Option<Value> {
        match self.presence {
            Presence::Always => Some(self.ty.zero()),
            Presence::Nullable => Some(Value::Null),
            Presence::OmitEmpty | Presence::Pointer => None,
        }
    }
}

impl Type {
    /// Conforms a value that is not null.
    fn conform(
        &'static self,
        value: &mut Value,
        unknown: &mut Vec<String>,
    ) -> Result<(), TypeMismatch> {
        match (self, &mut *value) {
            (Self::Bool, Value::Bool(_))
            | (Self::Str(_) | Self::IntOrString, Value::String(_))
            | (Self::Raw, _) => Ok(()),
            (Self::Int32 | Self::Int64 | Self::IntOrString, Value::Number(number)) => {
                let fits = match number.as_i64() {
                    Some(n) => matches!(self, Self::Int64) || i32::try_from(n).is_ok(),
                    None => false,
                };
                if fits { Ok(()) } else { Err(TypeMismatch::number(number, self)) }
            }
            (Self::Bytes, Value::String(text)) => bytes::canonicalise(text).map_err(|at| {
                TypeMismatch::text(format!("illegal base64 data at input byte {at}"))
            }),
            (Self::Time, Value::String(text)) => {
                let canonical = canonical_time(text, Precision::Seconds)?;
                replace_with(value, canonical)
            }
            (Self::MicroTime, Value::String(text)) => {
                let canonical = canonical_time(text, Precision::Micros)?;
                replace_with(value, canonical)
            }
            (Self::Quantity, Value::String(text)) => conform_quantity(text),
            (Self::Quantity, Value::Number(number)) => {
                let mut text = number.to_string();
                conform_quantity(&mut text)?;
                replace_with(value, Some(text.into()))
            }
            (Self::Double, Value::Number(number)) => {
                let whole = whole_number(number);
                replace_with(value, whole)
            }
            (Self::BoxedStrings, Value::Array(list)) => conform_list(&STRING, list, unknown),
            (Self::SchemaOr(other, schema), _) => other.conform(schema, value, unknown),
            (Self::Map(inner), Value::Object(map)) => conform_map(inner, map, unknown),
            (Self::List(inner), Value::Array(list)) => conform_list(inner, list, unknown),
            (Self::Struct(table), Value::Object(_)) => table.conform_in_place(value, unknown),
            _ => Err(TypeMismatch::kind(value, self)),
        }
    }

    /// What Go writes for a field of this type that was never set.
    fn zero(&self) -> Value {
        match self {
            Self::Bool => Value::Bool(false),
            Self::Int32 | Self::Int64 | Self::Double | Self::IntOrString => Value::from(0),
            Self::Str(_) => Value::String(String::new()),
            Self::Quantity => "0".into(),
            Self::Bytes | Self::Time | Self::MicroTime | Self::Raw => Value::Null,
            Self::Map(_) | Self::List(_) | Self::BoxedStrings | Self::SchemaOr(..) => Value::Null,
            Self::Struct(table) => {
                let unset = table.fields().iter().filter_map(|f| Some((f.name, f.unset()?)));
                Value::Object(unset.map(|(name, value)| (name.to_owned(), value)).collect())
            }
        }
    }

    /// What Go makes of a null in a list or map: the zero value, with no bytes instead of null ones.
    fn zero_item(&self) -> Value {
        match self {
            Self::Bytes => Value::String(String::new()),
            other => other.zero(),
        }
    }

    fn is_zero(&self, value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Bool(set) => !set,
            Value::Number(number) => number.as_i64() == Some(0),
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => matches!(self, Self::Map(_)) && map.is_empty(),
        }
    }
}

impl Alternative {
    /// Conforms a schema, or what stands in its place.
    fn conform(
        self,
        schema: &'static Struct,
        value: &mut Value,
        unknown: &mut Vec<String>,
    ) -> Result<(), TypeMismatch> {
        match (self, &mut *value) {
            (Self::Bool, Value::Bool(_)) => Ok(()),
            (Self::Strings, Value::Array(list)) => conform_list(&STRING, list, unknown),
            (Self::List, Value::Array(list)) => {
                for item in list {
                    schema.conform_in_place(item, unknown)?;
                }
                Ok(())
            }
            _ => schema.conform_in_place(value, unknown),
        }
    }
}

/// The type of the items of lists of strings.
static STRING: Type = Type::Str("string");

/// Go writes `1.0` as `1`.
fn whole_number(number: &serde_json::Number) -> Option<Value> {
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() <= MAX_EXACT).then(|| Value::from(float as i64))
}

fn conform_quantity(text: &mut String) -> Result<(), TypeMismatch> {
    let canonical = quantity::canonical(text.trim());
    *text = canonical.map_err(|why| TypeMismatch::text(why.to_owned()))?;
    Ok(())
}

/// The canonical form of a time when it differs from the text; null for the zero time.
fn canonical_time(text: &str, precision: Precision) -> Result<Option<Value>, TypeMismatch> {
    let parsed = time::parse(text, precision).map_err(TypeMismatch::text)?;
    Ok(match time::format(parsed, precision) {
        Some(canonical) if canonical == text => None,
        Some(canonical) => Some(Value::String(canonical)),
        None => Some(Value::Null),
    })
}

fn replace_with(value: &mut Value, canonical: Option<Value>) -> Result<(), TypeMismatch> {
    if let Some(canonical) = canonical {
        *value = canonical;
    }
    Ok(())
}

fn conform_map(
    inner: &'static Type,
    map: &mut Map<String, Value>,
    unknown: &mut Vec<String>,
) -> Result<(), TypeMismatch> {
    for (key, value) in map.iter_mut() {
        let first = unknown.len();
        conform_item(inner, value, unknown)?;
        prefix_field(key, &mut unknown[first..]);
    }
    Ok(())
}

fn conform_list(
    inner: &'static Type,
    list: &mut [Value],
    unknown: &mut Vec<String>,
) -> Result<(), TypeMismatch> {
    for (index, value) in list.iter_mut().enumerate() {
        let first = unknown.len();
        conform_item(inner, value, unknown)?;
        for path in &mut unknown[first..] {
            *path = format!("[{index}].{path}");
        }
    }
    Ok(())
}

fn conform_item(
    inner: &'static Type,
    value: &mut Value,
    unknown: &mut Vec<String>,
) -> Result<(), TypeMismatch> {
    if value.is_null() {
        *value = inner.zero_item();
        return Ok(());
    }
    inner.conform(value, unknown)
}

/// Puts the name of the field in front of the paths found below it.
fn prefix_field(name: &str, paths: &mut [String]) {
    for path in paths {
        *path = match path.starts_with('[') {
            true => format!("{name}{path}"),
            false => format!("{name}.{path}"),
        };
    }
}

/// A value that does not fit the type of its field, in the words of Go's decoder.
#[derive(Debug, PartialEq, Eq)]
pub struct TypeMismatch {
    /// What was found, e.g. `number`, or the whole sentence when `expected` is empty.
    found: String,
    /// The name of the Go type of the field.
    expected: String,
    /// The name of the innermost struct, empty at the root.
    owner: &'static str,
    /// The fields on the way, innermost first.
    path: Vec<&'static str>,
}

impl TypeMismatch {
    fn kind(found: &Value, expected: &Type) -> Self {
        Self::new(json_kind(found).to_owned(), expected.go_name())
    }

    fn number(found: &serde_json::Number, expected: &Type) -> Self {
        Self::new(format!("number {found}"), expected.go_name())
    }

    /// A whole sentence about what does not fit.
    pub(crate) fn sentence(sentence: String) -> Self {
        Self::text(sentence)
    }

    fn text(sentence: String) -> Self {
        Self::new(sentence, String::new())
    }

    fn new(found: String, expected: String) -> Self {
        Self { found, expected, owner: "", path: Vec::new() }
    }

    fn within(mut self, owner: &Struct, field: &Field) -> Self {
        if self.path.is_empty() {
            self.owner = owner.name;
        }
        self.path.push(field.name);
        self
    }
}

impl fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, expected, owner, path } = self;
        if expected.is_empty() {
            return f.write_str(found);
        }
        write!(f, "json: cannot unmarshal {found} into Go ")?;
        if path.is_empty() {
            write!(f, "value")?;
        } else {
            let names: Vec<_> = path.iter().rev().copied().collect();
            write!(f, "struct field {owner}.{}", names.join("."))?;
        }
        write!(f, " of type {expected}")
    }
}

impl std::error::Error for TypeMismatch {}

/// What Go's decoder calls a JSON value.
pub(crate) fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use serde_json::json;

    use super::*;
    use crate::schema::catalog::table;

    static OUTER: LazyLock<&Struct> = LazyLock::new(|| {
        table(
            "Outer v1.Outer
  name string always
  list []Inner always
  inner Inner always
  map {}Inner omitempty
  flag bool pointer
  count int32 omitempty
  amount quantity pointer
  ratio double pointer
  choice Inner nullable

Inner v1.Inner
  words []string omitempty
  size int64 pointer
  port int-or-string omitempty
",
        )
    });

    #[test]
    fn empty_fields_are_written_or_left_out_as_go_does() {
        let check = |value: Value, expected: Value| {
            let conformed = OUTER.conform(value.clone()).unwrap();
            assert_eq!(conformed.value, expected, "{value}");
            assert!(conformed.unknown.is_empty());
        };
        let zero = json!({"name": "", "list": null, "inner": {}, "choice": null});
        check(json!(null), zero.clone());
        check(json!({}), zero.clone());
        check(json!({"name": null, "list": [], "map": {}, "flag": null, "count": 0}), zero);
        check(
            json!({"flag": false, "list": [null], "inner": {"size": 0, "words": []}, "map": {"k": null}}),
            json!({"name": "", "flag": false, "list": [{}], "inner": {"size": 0}, "map": {"k": {}}, "choice": null}),
        );
    }

    #[test]
    fn amounts_and_fractions_take_their_canonical_form() {
        let conformed = OUTER.conform(json!({"amount": "1000m", "ratio": 1.0})).unwrap().value;
        assert_eq!((&conformed["amount"], &conformed["ratio"]), (&json!("1"), &json!(1)));
        let conformed = OUTER.conform(json!({"amount": 2, "ratio": 0.5})).unwrap().value;
        assert_eq!((&conformed["amount"], &conformed["ratio"]), (&json!("2"), &json!(0.5)));
        assert!(OUTER.conform(json!({"amount": "much"})).is_err());
    }

    #[test]
    fn unknown_fields_are_dropped_and_told_with_their_path() {
        let conformed = OUTER
            .conform(json!({
                "x": {"y": 1},
                "list": [{}, {"x": 1, "words": ["w"]}],
                "map": {"k": {"x": 1}},
                "inner": {"a": 1, "b": 2},
            }))
            .unwrap();
        assert_eq!(conformed.unknown, ["inner.a", "inner.b", "list[1].x", "map.k.x", "x"]);
        assert_eq!(
            conformed.value,
            json!({"name": "", "list": [{}, {"words": ["w"]}], "map": {"k": {}}, "inner": {}, "choice": null})
        );
        let many: Map<_, _> = (0..1000).map(|n| (format!("x{n}"), json!(n))).collect();
        assert_eq!(OUTER.conform(many.into()).unwrap().unknown.len(), MAX_UNKNOWN);
    }

    #[test]
    fn mismatches_name_the_innermost_struct_and_all_fields() {
        let check = |value: Value, expected: &str| {
            let text = OUTER.conform(value).unwrap_err().to_string();
            assert_eq!(text, format!("json: cannot unmarshal {expected}"));
        };
        check(json!([]), "array into Go value of type v1.Outer");
        check(json!({"name": 1}), "number into Go struct field Outer.name of type string");
        check(json!({"list": {}}), "object into Go struct field Outer.list of type []v1.Inner");
        check(json!({"map": {"k": []}}), "array into Go struct field Outer.map of type v1.Inner");
        check(
            json!({"list": [{"words": [true]}]}),
            "bool into Go struct field Inner.list.words of type string",
        );
        check(
            json!({"inner": {"size": 1.5}}),
            "number 1.5 into Go struct field Inner.inner.size of type int64",
        );
        check(
            json!({"count": 2_147_483_648_i64}),
            "number 2147483648 into Go struct field Outer.count of type int32",
        );
        check(
            json!({"inner": {"port": true}}),
            "bool into Go struct field Inner.inner.port of type int32",
        );
    }
}
