//! The order of a list that a strategic merge patch changed.

use std::collections::HashMap;

use serde_json::Value;

/// How the items of a list are told apart.
#[derive(Clone, Copy)]
pub(super) enum Identity {
    /// By a field.
    Field(&'static str),
    /// By their value.
    Value,
}

impl Identity {
    /// What tells an item apart, if it has it.
    pub(super) fn of(self, item: &Value) -> Option<String> {
        match self {
            Self::Field(name) => item.get(name).map(Value::to_string),
            Self::Value => Some(item.to_string()),
        }
    }
}

/// Orders the items of a merged list: those that the patch names in its order, the others as they were,
/// and each of these before the first of the patch's that stood behind it.
///
/// # Errors
/// With an item that cannot be told apart.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    identity: Identity,
) -> Result<Vec<Value>, Value> {
    let in_patch = positions(patch_order, identity)?;
    let in_server = positions(server_order, identity)?;
    let mut patched = Vec::new();
    let mut others = Vec::new();
    for item in merged {
        let Some(key) = identity.of(&item) else { return Err(item) };
        match in_patch.get(&key) {
            Some(at) => patched.push((*at, in_server.get(&key).copied(), item)),
            None => others.push((in_server.get(&key).copied(), item)),
        }
    }
    patched.sort_by_key(|(at, ..)| *at);
    others.sort_by_key(|(at, _)| *at);
    let mut arranged = Vec::with_capacity(patched.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, stood, item) in patched {
        while let Some((other, _)) = others.peek()
            && let (Some(other), Some(stood)) = (other, stood)
            && *other < stood
        {
            arranged.extend(others.next().map(|(_, item)| item));
        }
        arranged.push(item);
    }
    arranged.extend(others.map(|(_, item)| item));
    Ok(arranged)
}

/// Where each item stands first.
fn positions(items: &[Value], identity: Identity) -> Result<HashMap<String, usize>, Value> {
    let mut positions = HashMap::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let Some(key) = identity.of(item) else { return Err(item.clone()) };
        positions.entry(key).or_insert(at);
    }
    Ok(positions)
}
