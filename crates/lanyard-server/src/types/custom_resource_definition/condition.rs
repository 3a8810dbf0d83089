//! The conditions of a definition.

use serde_json::{Value, json};

use crate::object::ObjectExt;

/// What is so or not so of a definition, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What is spoken of, e.g. `Established`.
    pub name: &'static str,
    /// Whether it is so.
    pub holds: bool,
    /// Why, in one word.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
}

impl Condition {
    /// A condition.
    pub fn new(
        name: &'static str,
        holds: bool,
        reason: impl Into<String>,
        message: impl Into<String>,
    ) -> Self {
        Self { name, holds, reason: reason.into(), message: message.into() }
    }

    fn status(&self) -> &'static str {
        if self.holds { "True" } else { "False" }
    }

    /// Whether this is what an object says already.
    pub fn is_said_by(&self, said: &Value) -> bool {
        said.text(&["status"]) == self.status()
            && said.text(&["reason"]) == self.reason
            && said.text(&["message"]) == self.message
    }
}

/// All conditions of an object.
pub fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object.at(&["status", "conditions"]).and_then(Value::as_array).into_iter().flatten()
}

/// The condition of this name.
pub fn find<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    conditions(object).find(|condition| condition.text(&["type"]) == name)
}

/// Sets a condition; the time changes only when the answer does.
pub fn set(object: &mut Value, condition: &Condition, now: &str) {
    let status = &mut object["status"]["conditions"];
    if !status.is_array() {
        *status = json!([]);
    }
    let Value::Array(list) = status else { return };
    let found = list.iter_mut().find(|known| known.text(&["type"]) == condition.name);
    let Some(known) = found else {
        list.push(json!({
            "type": condition.name,
            "status": condition.status(),
            "lastTransitionTime": now,
            "reason": condition.reason,
            "message": condition.message,
        }));
        return;
    };
    if known.text(&["status"]) != condition.status() {
        known["lastTransitionTime"] = now.into();
    }
    known["status"] = condition.status().into();
    known["reason"] = condition.reason.as_str().into();
    known["message"] = condition.message.as_str().into();
}
