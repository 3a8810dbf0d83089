//! The entries of `metadata.managedFields`: who owns which fields.

use std::{collections::BTreeMap, fmt};

use serde_json::{Map, Value, json};

use super::{
    fields_v1,
    path::{BadElement, Element},
    set::FieldSet,
};
use crate::{field::quoted, name::Name};

/// At most this many entries of updates; the oldest are joined beyond that.
const MAX_UPDATERS: usize = 10;

/// The manager of entries that were joined.
const ANCIENT: &str = "ancient-changes";

/// How a manager came by its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

/// What tells entries apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// The name.
    pub name: String,
    /// How it came by its fields.
    pub operation: Operation,
    /// The `apiVersion` of updates; empty for those who apply, who are the same whatever they speak.
    pub api_version: String,
    /// The subresource that it writes to, or empty.
    pub subresource: String,
}

/// What a manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The fields.
    pub set: FieldSet,
    /// The `apiVersion` that they are named in.
    pub api_version: String,
    /// When it last changed something.
    pub time: Option<String>,
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers(pub(super) BTreeMap<Manager, Owned>);

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

impl Manager {
    /// Who updates, or applies, through this version and subresource.
    pub fn new(name: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        Self {
            name: if name.is_empty() { "unknown".into() } else { name.into() },
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.into(),
            },
            subresource: subresource.into(),
        }
    }

    /// The text by which upstream orders managers.
    pub(super) fn sort_key(&self) -> String {
        let mut parts = vec![format!("\"manager\":{}", Value::from(self.name.as_str()))];
        parts.push(format!("\"operation\":\"{}\"", self.operation.as_str()));
        for (field, text) in [("apiVersion", &self.api_version), ("subresource", &self.subresource)]
        {
            if !text.is_empty() {
                parts.push(format!("\"{field}\":{}", Value::from(text.as_str())));
            }
        }
        format!("{{{}}}", parts.join(","))
    }
}

/// As messages about conflicts show it.
impl fmt::Display for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted(&self.name))?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {}", quoted(&self.subresource))?;
        }
        match self.operation {
            Operation::Update => write!(f, " using {}", self.api_version),
            Operation::Apply => Ok(()),
        }
    }
}

impl Managers {
    /// Whether nobody owns anything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the entries of an object.
    ///
    /// # Errors
    /// When one is not as it should be.
    pub fn decode(entries: Option<&Value>) -> Result<Self, BadElement> {
        let mut managers = BTreeMap::new();
        for entry in entries.and_then(Value::as_array).into_iter().flatten() {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return Err(BadElement),
            };
            if text("apiVersion").is_empty() || text("fieldsType") != "FieldsV1" {
                return Err(BadElement);
            }
            let mut manager =
                Manager::new(text("manager"), operation, text("apiVersion"), text("subresource"));
            manager.name = text("manager").into();
            let owned = Owned {
                set: fields_v1::decode(entry.get("fieldsV1").unwrap_or(&Value::Null))?,
                api_version: text("apiVersion").into(),
                time: entry.get("time").and_then(Value::as_str).map(Into::into),
            };
            managers.insert(manager, owned);
        }
        Ok(Self(managers))
    }

    /// Writes the entries: those who apply before those who update, then by time and name.
    pub fn encode(&self) -> Vec<Value> {
        let mut entries: Vec<_> = self.0.iter().collect();
        entries.sort_by_key(|(manager, owned)| {
            let Manager { operation, name, subresource, .. } = manager;
            (*operation, &owned.time, name, &owned.api_version, subresource)
        });
        entries.into_iter().map(|(manager, owned)| entry(manager, owned)).collect()
    }

    /// Whether somebody who speaks this version owns a field.
    pub fn own(&self, path: &[Name], api_version: &str) -> bool {
        let path: Vec<_> = path.iter().map(|name| Element::field(name)).collect();
        self.0.values().any(|owned| owned.api_version == api_version && owned.set.has(&path))
    }

    /// Joins the oldest entries of updates until there are few enough.
    pub(super) fn cap(&mut self) {
        let updates = self.0.iter().filter(|(manager, _)| manager.operation == Operation::Update);
        let mut updaters: Vec<_> = updates
            .map(|(manager, owned)| ((owned.time.clone(), manager.sort_key()), manager.clone()))
            .collect();
        let mut surplus = updaters.len().saturating_sub(MAX_UPDATERS);
        if surplus == 0 {
            return;
        }
        updaters.sort();
        let mut first: BTreeMap<String, Manager> = BTreeMap::new();
        for (_, manager) in updaters {
            if surplus == 0 {
                return;
            }
            let version = self.0[&manager].api_version.clone();
            let Some(first) = first.get(&version) else {
                first.insert(version, manager);
                continue;
            };
            let bucket = Manager::new(ANCIENT, Operation::Update, &version, "");
            if !self.0.contains_key(&bucket)
                && let Some(owned) = self.0.remove(first)
            {
                self.0.insert(bucket.clone(), owned);
            }
            if let Some(joined) = self.0.remove(&manager)
                && let Some(bucket) = self.0.get_mut(&bucket)
            {
                bucket.set = joined.set.union(&bucket.set);
                // The one that is joined is the more recent.
                bucket.time = joined.time;
            }
            surplus -= 1;
        }
    }
}

fn entry(manager: &Manager, owned: &Owned) -> Value {
    let mut entry = Map::new();
    for (field, text) in [
        ("manager", manager.name.as_str()),
        ("operation", manager.operation.as_str()),
        ("apiVersion", &owned.api_version),
        ("time", owned.time.as_deref().unwrap_or_default()),
        ("fieldsType", "FieldsV1"),
        ("subresource", &manager.subresource),
    ] {
        if !text.is_empty() {
            entry.insert(field.into(), text.into());
        }
    }
    entry.insert("fieldsV1".into(), fields_v1::encode(&owned.set));
    Value::Object(entry)
}

/// Whether a client asks to forget who owns what: a list with one empty entry.
pub fn is_reset(entries: Option<&Value>) -> bool {
    entries.is_some_and(|entries| *entries == json!([{}]) || *entries == json!([]))
}

/// Whether two lists of entries differ in nothing but when.
pub fn same_but_for_times(left: Option<&Value>, right: Option<&Value>) -> bool {
    let (Some(Value::Array(left)), Some(Value::Array(right))) = (left, right) else { return false };
    let rest = |(left, right)| fields_but_time(left).eq(fields_but_time(right));
    left.len() == right.len() && left.iter().zip(right).all(rest)
}

fn fields_but_time(entry: &Value) -> impl Iterator<Item = (&String, &Value)> {
    entry.as_object().into_iter().flatten().filter(|(field, _)| *field != "time")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(name: &str, time: &str, fields: Value) -> Value {
        json!({
            "manager": name, "operation": "Update", "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": fields,
        })
    }

    #[test]
    fn entries_are_read_and_written_in_order() {
        let mut apply = update("z", "2026-01-03T00:00:00Z", json!({"f:a": {}}));
        apply["operation"] = "Apply".into();
        let mut status = update("a", "2026-01-02T00:00:00Z", json!({"f:status": {}}));
        status["subresource"] = "status".into();
        let late = update("b", "2026-01-02T00:00:00Z", json!({"f:b": {}}));
        let early = update("c", "2026-01-01T00:00:00Z", json!({"f:c": {".": {}, "f:d": {}}}));
        let mixed = json!([late, status, apply, early]);
        let managers = Managers::decode(Some(&mixed)).unwrap();
        assert_eq!(managers.encode(), [apply, early, status, late]);
        assert!(same_but_for_times(Some(&mixed), Some(&mixed)));
        let other = json!([update("b", "2026-01-05T00:00:00Z", json!({"f:b": {}}))]);
        let same = json!([update("b", "2026-01-06T00:00:00Z", json!({"f:b": {}}))]);
        assert!(same_but_for_times(Some(&other), Some(&same)));
        assert!(!same_but_for_times(Some(&other), Some(&mixed)));
        assert!(!same_but_for_times(None, None));
    }

    #[test]
    fn odd_entries_are_refused() {
        for (field, value) in [
            ("operation", json!("Patch")),
            ("apiVersion", json!("")),
            ("fieldsType", json!("FieldsV2")),
            ("fieldsV1", json!({"x": {}})),
        ] {
            let mut entry = update("a", "2026-01-01T00:00:00Z", json!({}));
            entry[field] = value;
            assert_eq!(Managers::decode(Some(&json!([entry]))), Err(BadElement), "{field}");
        }
        assert!(Managers::decode(None).unwrap().is_empty());
        assert!(is_reset(Some(&json!([{}]))) && is_reset(Some(&json!([]))) && !is_reset(None));
    }

    #[test]
    fn the_oldest_updates_are_joined() {
        let field = |n: usize| Value::from_iter([(format!("f:{n:02}"), json!({}))]);
        let entries: Vec<_> = (0..12)
            .map(|n| {
                update(&format!("m{n:02}"), &format!("2026-01-{:02}T00:00:00Z", n + 1), field(n))
            })
            .collect();
        let mut managers = Managers::decode(Some(&entries.clone().into())).unwrap();
        managers.cap();
        let capped = managers.encode();
        assert_eq!(capped.len(), 10);
        let joined = json!({"f:00": {}, "f:01": {}, "f:02": {}});
        assert_eq!(capped[0], update(ANCIENT, "2026-01-03T00:00:00Z", joined));
        assert_eq!(capped[1..], entries[3..]);
    }
}
