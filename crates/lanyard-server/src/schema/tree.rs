//! Reading any value into a JSON tree while watching its depth, its size and its keys.

use std::{collections::BTreeMap, fmt};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// How deep lists and objects may be nested. The deepest built-in kind needs ten levels, schemas of
/// custom kinds a few dozen; each level costs stack.
pub const MAX_DEPTH: usize = 100;

/// The same for YAML, whose reader takes some 25 KiB of stack per level in a debug build: half of what
/// a worker thread has. Bodies that tools write are JSON whatever they are called, and not concerned.
pub const MAX_YAML_DEPTH: usize = 40;

/// At most this many repeated fields are told of, as upstream.
const MAX_DUPLICATES: usize = 100;

/// How much memory a tree may take. Text of a few bytes can stand for a node of hundreds, in YAML by
/// aliases without end; the largest body of ordinary objects stays well below.
pub(super) const MAX_TREE_BYTES: usize = 48 << 20;

/// What one value takes on top of its text.
pub(super) const NODE_BYTES: usize = size_of::<Value>();

/// What an object takes with its first key: room for eleven.
pub(super) const OBJECT_BYTES: usize = 11 * (size_of::<String>() + size_of::<Value>());

/// What a body is written in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON: every number as it is written.
    Json,
    /// YAML: with aliases, other keys than strings, and numbers in many forms.
    Yaml,
}

/// What is noticed while reading, and where the reader is.
pub(super) struct Findings {
    format: Format,
    /// The paths of fields that stood there more than once.
    pub(super) duplicates: Vec<String>,
    path: String,
    /// How many more bytes the tree may take.
    remaining: usize,
    /// Paths whose places are asked for, with how often they were seen.
    wanted: BTreeMap<String, u8>,
    /// The wanted paths in the order of their first and second places.
    pub(super) sightings: Vec<String>,
}

impl Findings {
    pub(super) fn new(format: Format) -> Self {
        Self {
            format,
            duplicates: Vec::new(),
            path: String::new(),
            remaining: MAX_TREE_BYTES,
            wanted: BTreeMap::new(),
            sightings: Vec::new(),
        }
    }

    /// Asks for the places of some fields.
    pub(super) fn watching(mut self, paths: impl Iterator<Item = String>) -> Self {
        self.wanted = paths.map(|path| (path, 0)).collect();
        self
    }

    fn enter(&mut self, key: &str) {
        if !self.path.is_empty() {
            self.path.push('.');
        }
        self.path.push_str(key);
        if let Some(seen) = self.wanted.get_mut(&self.path)
            && *seen < 2
        {
            *seen += 1;
            self.sightings.push(self.path.clone());
        }
    }

    fn duplicate(&mut self) {
        if self.duplicates.len() < MAX_DUPLICATES && !self.duplicates.contains(&self.path) {
            self.duplicates.push(self.path.clone());
        }
    }

    /// Takes memory from what is left.
    fn spend<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        match self.remaining.checked_sub(bytes) {
            Some(remaining) => self.remaining = remaining,
            None => return Err(E::custom(TOO_LARGE)),
        }
        Ok(())
    }
}

/// Reads any value; the tree's depth and path go along.
pub(super) struct Tree<'a> {
    findings: &'a mut Findings,
    depth: usize,
}

impl<'a> Tree<'a> {
    /// The outermost value.
    pub(super) fn root(findings: &'a mut Findings) -> Self {
        Self { findings, depth: 0 }
    }

    /// Refuses to open one more list or object than is allowed.
    fn open<E: serde::de::Error>(&self, bracket: char) -> Result<(), E> {
        let limit = match self.findings.format {
            Format::Json => MAX_DEPTH,
            Format::Yaml => MAX_YAML_DEPTH,
        };
        match self.depth < limit {
            true => Ok(()),
            false => Err(E::custom(format_args!("invalid character '{bracket}' {TOO_DEEP}"))),
        }
    }

    fn inner<E: serde::de::Error>(&mut self) -> Result<Tree<'_>, E> {
        self.findings.spend(NODE_BYTES)?;
        Ok(Tree { findings: self.findings, depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        // Upstream turns YAML into JSON text first, which writes 1.0 as 1.
        if self.findings.format == Format::Yaml
            && value.fract() == 0.0
            && value.abs() <= MAX_EXACT_FLOAT
        {
            return Ok(Value::from(value as i64));
        }
        serde_json::Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number is not finite"))
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.findings.spend(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, value: String) -> Result<Value, E> {
        self.findings.spend(value.len())?;
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        use fmt::Write;
        self.open('[')?;
        let mut list = Vec::new();
        let base = self.findings.path.len();
        loop {
            let _ = write!(self.findings.path, "[{}]", list.len());
            let item = items.next_element_seed(self.inner()?)?;
            self.findings.path.truncate(base);
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        self.open('{')?;
        // Also for an empty one: its kind may have fields that are always there.
        self.findings.spend(OBJECT_BYTES)?;
        let mut map = Map::new();
        let base = self.findings.path.len();
        while let Some(key) = entries.next_key_seed(Key)? {
            self.findings.spend(key.len())?;
            self.findings.enter(&key);
            let value = entries.next_value_seed(self.inner()?)?;
            if map.insert(key, value).is_some() {
                self.findings.duplicate();
            }
            self.findings.path.truncate(base);
        }
        Ok(Value::Object(map))
    }
}

/// Reads a key: in YAML it need not be a string, and upstream writes what it is as one.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Key {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, number or boolean as key")
    }

    fn visit_bool<E>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_str<E>(self, value: &str) -> Result<String, E> {
        Ok(value.to_owned())
    }

    fn visit_string<E>(self, value: String) -> Result<String, E> {
        Ok(value)
    }
}

pub(super) const TOO_DEEP: &str = "exceeded max depth";
pub(super) const TOO_LARGE: &str = "the body takes too much memory";

/// Whole numbers up to here are exact as floats: 2^53.
const MAX_EXACT_FLOAT: f64 = 9_007_199_254_740_992.0;
