//! JSON patches (RFC 6902), one operation after the other, within bounds.
//!
//! A short patch can ask for a great deal: copies that double each time, insertions at the front of a
//! long list, nesting that no stack can hold. Each has a limit here that no honest patch comes near.

use json_patch::{AddOperation, PatchOperation, jsonptr::Pointer, patch_unsafe};
use serde_json::Value;

use crate::{http::MAX_BODY, schema::MAX_DEPTH};

/// At most this many operations in one patch, as upstream.
pub const MAX_OPERATIONS: usize = 10_000;

/// All copies together may take as much as a body may bring, as upstream.
const MAX_COPIED: usize = MAX_BODY;

/// How many values may be looked at or shifted in lists: some tens of milliseconds of work.
const MAX_STEPS: usize = 10_000_000;

/// Why a patch was not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// An operation does not fit the object.
    #[error("an operation does not apply")]
    Inapplicable(#[from] json_patch::PatchError),
    /// The patch asks for too much.
    #[error("{0}")]
    TooMuch(&'static str),
}

/// Applies the operations; after a failure the object is in between and must be thrown away.
pub fn apply(object: &mut Value, operations: &[PatchOperation]) -> Result<(), Refused> {
    let mut budget = Budget { copied: MAX_COPIED, steps: MAX_STEPS };
    for operation in operations {
        budget.admit(object, operation)?;
        if expects_nothing(object, operation) {
            continue;
        }
        match lenient(object, operation) {
            Some(add) => patch_unsafe(object, &[add])?,
            None => patch_unsafe(object, std::slice::from_ref(operation))?,
        }
    }
    Ok(())
}

/// Upstream's library lets `replace` set a key that is not there, when its parent is.
fn lenient(object: &Value, operation: &PatchOperation) -> Option<PatchOperation> {
    let PatchOperation::Replace(replace) = operation else { return None };
    let (parent, _) = replace.path.split_back()?;
    let missing = object.pointer(replace.path.as_str()).is_none();
    let in_object = object.pointer(parent.as_str()).is_some_and(Value::is_object);
    (missing && in_object).then(|| {
        let (path, value) = (replace.path.clone(), replace.value.clone());
        PatchOperation::Add(AddOperation { path, value })
    })
}

/// Upstream's library takes a key that is not there for null: a `test` for null passes, when its parent is an object.
/// kube-rs adds its first finalizer so.
fn expects_nothing(object: &Value, operation: &PatchOperation) -> bool {
    let PatchOperation::Test(test) = operation else { return false };
    let parent = test.path.split_back().and_then(|(parent, _)| object.pointer(parent.as_str()));
    test.value.is_null()
        && parent.is_some_and(Value::is_object)
        && object.pointer(test.path.as_str()).is_none()
}

/// What a patch may still do.
struct Budget {
    copied: usize,
    steps: usize,
}

impl Budget {
    /// Refuses an operation that would go too far.
    fn admit(&mut self, object: &Value, operation: &PatchOperation) -> Result<(), Refused> {
        match operation {
            PatchOperation::Add(add) => {
                self.shift(object, &add.path)?;
                self.place(&add.path, &add.value)?;
            }
            PatchOperation::Replace(replace) => {
                self.place(&replace.path, &replace.value)?;
            }
            PatchOperation::Remove(remove) => self.shift(object, &remove.path)?,
            PatchOperation::Move(to) => {
                self.shift(object, &to.from)?;
                self.shift(object, &to.path)?;
                if let Some(moved) = object.pointer(to.from.as_str()) {
                    self.place(&to.path, moved)?;
                }
            }
            PatchOperation::Copy(to) => {
                self.shift(object, &to.path)?;
                if let Some(source) = object.pointer(to.from.as_str()) {
                    let bytes = self.place(&to.path, source)?;
                    let copied = self.copied.checked_sub(bytes);
                    self.copied = copied.ok_or(Refused::TooMuch("it copies too much"))?;
                }
            }
            // A comparison ends where the two differ, so it costs no more than the patch itself.
            PatchOperation::Test(_) => {}
        }
        Ok(())
    }

    /// Inserting into or removing from a list moves all items behind.
    fn shift(&mut self, object: &Value, path: &Pointer) -> Result<(), Refused> {
        let list = path.split_back().and_then(|(parent, _)| object.pointer(parent.as_str()));
        self.spend(list.and_then(Value::as_array).map_or(0, Vec::len))
    }

    /// Putting a value at a path must not nest too deeply; says how large the value is.
    fn place(&mut self, path: &Pointer, value: &Value) -> Result<usize, Refused> {
        let room = MAX_DEPTH.checked_sub(path.count());
        self.measure(value, room.ok_or(TOO_DEEP)?)
    }

    fn measure(&mut self, value: &Value, room: usize) -> Result<usize, Refused> {
        self.spend(1)?;
        let inner = || room.checked_sub(1).ok_or(TOO_DEEP);
        let mut bytes = size_of::<Value>();
        match value {
            Value::String(text) => bytes += text.len(),
            Value::Array(items) => {
                for item in items {
                    bytes += self.measure(item, inner()?)?;
                }
            }
            Value::Object(fields) => {
                for (name, field) in fields {
                    bytes += name.len() + self.measure(field, inner()?)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(bytes)
    }

    fn spend(&mut self, steps: usize) -> Result<(), Refused> {
        let left = self.steps.checked_sub(steps);
        self.steps = left.ok_or(Refused::TooMuch("it is too much work"))?;
        Ok(())
    }
}

const TOO_DEEP: Refused = Refused::TooMuch("it nests too deeply");

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn patched(object: Value, operations: &Value) -> Result<Value, String> {
        let operations: Vec<PatchOperation> = serde_json::from_value(operations.clone()).unwrap();
        let mut object = object;
        apply(&mut object, &operations).map(|()| object).map_err(|error| error.to_string())
    }

    #[test]
    fn operations_see_what_those_before_them_did() {
        for (operations, expected) in [
            (json!([{"op": "replace", "path": "/b", "value": 1}]), json!({"a": [1], "b": 1})),
            (
                json!([
                    {"op": "add", "path": "/b", "value": {}},
                    {"op": "replace", "path": "/b/c", "value": 1},
                ]),
                json!({"a": [1], "b": {"c": 1}}),
            ),
            (json!([{"op": "add", "path": "/a/-", "value": 2}]), json!({"a": [1, 2]})),
            (json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": [1]})),
            (json!([{"op": "copy", "from": "/a", "path": "/b"}]), json!({"a": [1], "b": [1]})),
            (json!([{"op": "test", "path": "/a", "value": [1]}]), json!({"a": [1]})),
            (
                json!([
                    {"op": "test", "path": "/b", "value": null},
                    {"op": "add", "path": "/b", "value": 1},
                ]),
                json!({"a": [1], "b": 1}),
            ),
        ] {
            assert_eq!(patched(json!({"a": [1]}), &operations), Ok(expected), "{operations}");
        }
    }

    #[test]
    fn operations_that_do_not_fit_are_refused() {
        for operation in [
            json!({"op": "remove", "path": "/b"}),
            json!({"op": "remove", "path": ""}),
            json!({"op": "remove", "path": "/a/-"}),
            json!({"op": "replace", "path": "/b/c", "value": 1}),
            json!({"op": "replace", "path": "/a/7", "value": 1}),
            json!({"op": "add", "path": "/a/7", "value": 1}),
            json!({"op": "add", "path": "/a/-1", "value": 1}),
            json!({"op": "add", "path": "/a/18446744073709551616", "value": 1}),
            json!({"op": "copy", "from": "/b", "path": "/c"}),
            json!({"op": "move", "from": "/a", "path": "/a/0/x"}),
            json!({"op": "test", "path": "/a", "value": [2]}),
            json!({"op": "test", "path": "/a", "value": null}),
            json!({"op": "test", "path": "/a/7", "value": null}),
            json!({"op": "test", "path": "/b/c", "value": null}),
            json!({"op": "test", "path": "/b", "value": 1}),
        ] {
            let refused = patched(json!({"a": [1]}), &json!([operation]));
            assert!(refused.is_err(), "{operation}");
        }
    }

    /// Hostile patches are refused, and soon.
    fn check_refused(object: Value, operations: &Value, why: &str) {
        let started = Instant::now();
        assert_eq!(patched(object, operations), Err(why.to_owned()));
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }

    #[test]
    fn copies_cannot_double_without_end() {
        let copy = json!({"op": "copy", "from": "/a", "path": "/a/-"});
        check_refused(json!({"a": ["x"]}), &vec![copy; 60].into(), "it copies too much");
        let big = json!({"op": "copy", "from": "/a", "path": "/b"});
        check_refused(
            json!({"a": "x".repeat(1 << 20)}),
            &vec![big; 9].into(),
            "it copies too much",
        );
    }

    #[test]
    fn a_long_list_cannot_be_shifted_without_end() {
        let list = json!({"a": vec![0; 100_000]});
        let insert = json!({"op": "add", "path": "/a/0", "value": 0});
        check_refused(list.clone(), &vec![insert; 5_000].into(), "it is too much work");
        let there = json!({"op": "move", "from": "/a", "path": "/b"});
        let back = json!({"op": "move", "from": "/b", "path": "/a"});
        let moves: Vec<_> = [there, back].into_iter().cycle().take(1_000).collect();
        check_refused(list, &moves.into(), "it is too much work");
    }

    #[test]
    fn values_cannot_be_nested_without_end() {
        let deeper = |depth| json!({"op": "add", "path": "/a".repeat(depth), "value": {}});
        let nested: Vec<_> = (1..=MAX_DEPTH + 1).map(deeper).collect();
        check_refused(json!({}), &nested.into(), "it nests too deeply");
        let inwards: Vec<_> = (0..200)
            .flat_map(|_| {
                [
                    json!({"op": "add", "path": "/b", "value": {}}),
                    json!({"op": "move", "from": "/a", "path": "/b/a"}),
                    json!({"op": "move", "from": "/b", "path": "/a"}),
                ]
            })
            .collect();
        check_refused(json!({"a": 1}), &inwards.into(), "it nests too deeply");
    }

    fn any_operation() -> impl Strategy<Value = Value> {
        let path = proptest::sample::select(vec![
            "", "/", "/a", "/a/0", "/a/-", "/a/99", "/b", "/b/c", "/b/~1", "/~0", "/b/c/d/e",
            "/a/x",
        ]);
        let value = proptest::sample::select(vec![
            json!(null),
            json!(1),
            json!("x"),
            json!([1, [2]]),
            json!({"c": {"d": {}}}),
        ]);
        let op = proptest::sample::select(vec!["add", "remove", "replace", "move", "copy", "test"]);
        (op, path.clone(), path, value).prop_map(
            |(op, from, path, value)| json!({"op": op, "from": from, "path": path, "value": value}),
        )
    }

    proptest! {
        #[test]
        fn fuzz_patches_never_panic_and_stay_in_bounds(
            operations in proptest::collection::vec(any_operation(), 0..40),
        ) {
            let object = json!({"a": [1, 2, 3], "b": {"c": {}}});
            if let Ok(result) = patched(object, &operations.into()) {
                let mut budget = Budget { copied: 0, steps: usize::MAX };
                prop_assert!(budget.measure(&result, MAX_DEPTH).is_ok());
            }
        }
    }
}
