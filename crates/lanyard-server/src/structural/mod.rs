//! Structural schemas: what the fields of custom resources are.
//!
//! A [`Node`] is a JSON schema that was accepted with its CustomResourceDefinition, in the form in which
//! values are pruned, defaulted and checked. Everything here is a pure function over JSON trees; the
//! texts are those of kube-apiserver. Schemas come from outside: the depth of trees is bounded by the
//! reader of bodies, and patterns are compiled under a size limit and matched in linear time.

mod check;
mod embedded;
mod expressions;
mod format;
mod lists;
mod pattern;
mod prune;

use std::collections::BTreeMap;

use serde_json::Value;

pub use check::{Checker, MAX_PROBLEMS};
pub use embedded::{coerce, coerce_metadata, validate_embedded};
pub use expressions::{Compiled, Expressions, compile_rules, has_type, max_cardinality};
pub use format::is_supported as is_supported_format;
pub use lists::validate_lists;
pub use pattern::Pattern;
pub use prune::{apply_defaults, drop_nulls, prune};

/// What a value may be, and what becomes of it.
#[derive(Debug, Default)]
pub struct Node {
    /// The JSON types that the value may have; any when empty.
    pub types: Vec<Kind>,
    /// Whether it may be null.
    pub nullable: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`.
    pub embedded: bool,
    /// What it is when it is missing.
    pub default: Option<Value>,
    /// The fields of an object.
    pub properties: BTreeMap<String, Node>,
    /// What other fields an object may have.
    pub additional: Additional,
    /// What the items of a list are.
    pub items: Option<Box<Node>>,
    /// How the items of a list are told apart.
    pub list: List,
    /// Whether a map is replaced as a whole.
    pub atomic_map: bool,
    /// The rules on values.
    pub limits: Limits,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
    /// Whether there are sets or maps of items here or below.
    keyed: bool,
    /// Whether there are embedded resources here or below.
    embeds: bool,
}

/// The JSON types, as schemas call them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the documentation")]
pub enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// What fields an object may have beside its properties.
#[derive(Debug, Default)]
pub enum Additional {
    /// None that are known: they are pruned.
    #[default]
    Unsaid,
    /// Any, or none at all.
    Allowed(bool),
    /// Any of this kind.
    Schema(Box<Node>),
}

/// How the items of a list are told apart.
#[derive(Debug, Default, PartialEq, Eq)]
pub enum List {
    /// Not at all.
    #[default]
    Atomic,
    /// By their value.
    Set,
    /// By these fields.
    Map(Vec<String>),
}

/// The rules on values.
#[derive(Debug, Default)]
#[allow(missing_docs, reason = "named as in JSON schemas")]
pub struct Limits {
    pub format: Option<String>,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Option<Pattern>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub required: Vec<String>,
    pub allowed: Vec<Value>,
    pub all_of: Vec<Node>,
    pub any_of: Vec<Node>,
    pub one_of: Vec<Node>,
    pub not: Option<Box<Node>>,
}

/// One of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs, reason = "named as in JSON schemas")]
pub struct Rule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

impl Kind {
    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }

    /// The name in schemas.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

impl Node {
    /// Reads a schema that was found to be valid; of one that is not, what can be read.
    pub fn parse(schema: &Value) -> Self {
        let int_or_string = flag(schema, "x-kubernetes-int-or-string");
        let types = match (int_or_string, Kind::from_name(text(schema, "type"))) {
            (true, _) => vec![Kind::Integer, Kind::String],
            (false, kind) => kind.into_iter().collect(),
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        let parsed = |(name, schema): (&String, &Value)| (name.clone(), Self::parse(schema));
        let mut node = Self {
            limits: Limits::parse(schema, &types),
            types,
            nullable: flag(schema, "nullable"),
            int_or_string,
            preserve_unknown: flag(schema, "x-kubernetes-preserve-unknown-fields"),
            embedded: flag(schema, "x-kubernetes-embedded-resource"),
            default: schema.get("default").filter(|value| !value.is_null()).cloned(),
            properties: properties.into_iter().flatten().map(parsed).collect(),
            additional: match schema.get("additionalProperties") {
                Some(Value::Bool(allowed)) => Additional::Allowed(*allowed),
                Some(schema @ Value::Object(_)) => Additional::Schema(Self::parse(schema).into()),
                _ => Additional::Unsaid,
            },
            items: schema.get("items").filter(|items| items.is_object()).map(Self::boxed),
            list: List::parse(schema),
            atomic_map: text(schema, "x-kubernetes-map-type") == "atomic",
            rules: list(schema, "x-kubernetes-validations").map(Rule::parse).collect(),
            keyed: false,
            embeds: false,
        };
        node.keyed = node.list != List::Atomic || node.below().any(|node| node.keyed);
        node.embeds = node.embedded || node.below().any(|node| node.embeds);
        node
    }

    /// The schemas of fields and items.
    fn below(&self) -> impl Iterator<Item = &Self> {
        let additional = match &self.additional {
            Additional::Schema(schema) => Some(&**schema),
            Additional::Unsaid | Additional::Allowed(_) => None,
        };
        self.properties.values().chain(additional).chain(self.items.as_deref())
    }

    fn boxed(schema: &Value) -> Box<Self> {
        Box::new(Self::parse(schema))
    }

    /// The schema of a field.
    pub fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Additional::Schema(schema) => Some(schema),
            Additional::Unsaid | Additional::Allowed(_) => None,
        })
    }
}

impl Limits {
    fn parse(schema: &Value, types: &[Kind]) -> Self {
        let number = |field: &str| schema.get(field).and_then(Value::as_f64);
        let integer = |field: &str| schema.get(field).and_then(Value::as_i64);
        let nodes = |field: &str| list(schema, field).map(Node::parse).collect();
        let format = Some(text(schema, "format")).filter(|format| !format.is_empty());
        let pattern = Some(text(schema, "pattern")).filter(|pattern| !pattern.is_empty());
        Self {
            format: format.filter(|f| format::is_supported(f, types)).map(str::to_owned),
            maximum: number("maximum"),
            exclusive_maximum: flag(schema, "exclusiveMaximum"),
            minimum: number("minimum"),
            exclusive_minimum: flag(schema, "exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            max_length: integer("maxLength"),
            min_length: integer("minLength"),
            pattern: pattern.map(Pattern::new),
            max_items: integer("maxItems"),
            min_items: integer("minItems"),
            max_properties: integer("maxProperties"),
            min_properties: integer("minProperties"),
            required: list(schema, "required").filter_map(owned).collect(),
            allowed: list(schema, "enum").cloned().collect(),
            all_of: nodes("allOf"),
            any_of: nodes("anyOf"),
            one_of: nodes("oneOf"),
            not: schema.get("not").filter(|not| not.is_object()).map(Node::boxed),
        }
    }
}

impl List {
    fn parse(schema: &Value) -> Self {
        match text(schema, "x-kubernetes-list-type") {
            "set" => Self::Set,
            "map" => {
                let keys = list(schema, "x-kubernetes-list-map-keys");
                Self::Map(keys.filter_map(owned).collect())
            }
            _ => Self::Atomic,
        }
    }
}

impl Rule {
    fn parse(rule: &Value) -> Self {
        Self {
            rule: text(rule, "rule").to_owned(),
            message: text(rule, "message").to_owned(),
            message_expression: text(rule, "messageExpression").to_owned(),
            reason: rule.get("reason").and_then(owned),
            field_path: text(rule, "fieldPath").to_owned(),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
        }
    }
}

/// A text of a schema, empty when missing.
pub(crate) fn text<'a>(schema: &'a Value, field: &str) -> &'a str {
    schema.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A flag of a schema, false when missing.
pub(crate) fn flag(schema: &Value, field: &str) -> bool {
    schema.get(field).and_then(Value::as_bool).unwrap_or_default()
}

/// A list of a schema, empty when missing.
pub(crate) fn list<'a>(schema: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> {
    schema.get(field).and_then(Value::as_array).into_iter().flatten()
}

fn owned(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests;
