//! Where two trees differ.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// One place at which the answers differ.
#[derive(Debug)]
pub(crate) struct Difference {
    /// A JSON pointer into status, headers and body.
    pub(crate) at: String,
    theirs: Option<Value>,
    ours: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<Value>| match value {
            Some(value) => value.to_string(),
            None => "nothing".to_owned(),
        };
        let (theirs, ours) = (show(&self.theirs), show(&self.ours));
        write!(f, "    {}\n      theirs {theirs}\n      ours   {ours}", self.at)
    }
}

/// All differences; with `served_only` entries of lists that only they have do not count.
pub(crate) fn differences(mut theirs: Value, ours: Value, served_only: bool) -> Vec<Difference> {
    if served_only {
        keep_served(&mut theirs, &ours);
    }
    let mut found = Vec::new();
    walk(&theirs, &ours, String::new(), &mut found);
    found
}

fn walk(theirs: &Value, ours: &Value, at: String, found: &mut Vec<Difference>) {
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => walk(a, b, at, found),
                    (a, b) => {
                        found.push(Difference { at, theirs: a.cloned(), ours: b.cloned() });
                    }
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                walk(a, b, format!("{at}/{i}"), found);
            }
        }
        (a, b) if a == b => {}
        (a, b) => {
            found.push(Difference { at, theirs: Some(a.clone()), ours: Some(b.clone()) });
        }
    }
}

/// Drops from their lists what has no namesake in ours.
fn keep_served(theirs: &mut Value, ours: &Value) {
    match (theirs, ours) {
        (Value::Object(theirs), Value::Object(ours)) => {
            for (key, value) in theirs {
                if let Some(other) = ours.get(key) {
                    keep_served(value, other);
                }
            }
        }
        (Value::Array(theirs), Value::Array(ours)) => {
            theirs.retain(|item| ours.iter().any(|other| name(other) == name(item)));
            for item in theirs {
                if let Some(other) = ours.iter().find(|other| name(other) == name(item)) {
                    keep_served(item, other);
                }
            }
        }
        _ => {}
    }
}

/// What an entry of a discovery document is known by.
fn name(entry: &Value) -> &Value {
    let fields = ["/name", "/metadata/name", "/resource", "/version", "/subresource"];
    fields.iter().find_map(|field| entry.pointer(field)).unwrap_or(&Value::Null)
}
