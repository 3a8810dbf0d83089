//! Patches: what a client wants changed, applied to an object as it is shown in the client's view.
//!
//! What a body may say is decided here, how operations are carried out in [`crate::patch`].

use json_patch::PatchOperation;
use serde_json::{Map, Value};

use super::decode::Misfit;
use crate::{
    field::{FieldError, quoted},
    merge::strategic,
    negotiate::PatchType,
    patch::{self, MAX_OPERATIONS},
    resource::Schema,
    schema::{self, ParseError, Parsed, Struct, json_kind},
    status::{ApiError, ApiResult, GroupName},
};

/// The fields that an operation may have.
const OPERATION_FIELDS: [&str; 4] = ["op", "path", "from", "value"];

/// What is to be changed.
pub enum Patch {
    /// RFC 7396.
    Merge {
        /// The body.
        patch: Value,
        /// Its repeated fields.
        duplicates: Vec<String>,
    },
    /// A merge patch in which lists merge too.
    Strategic {
        /// The kind that says how.
        kind: &'static Struct,
        /// The body.
        patch: Value,
        /// Its repeated fields.
        duplicates: Vec<String>,
    },
    /// RFC 6902.
    Json {
        /// The operations.
        operations: Value,
        /// What is odd about them, in upstream's words.
        problems: Vec<String>,
    },
}

impl Patch {
    /// Reads a body.
    pub(super) fn new(
        kind: PatchType,
        schema: &Schema,
        parsed: Result<Parsed, ParseError>,
    ) -> ApiResult<Self> {
        if let (PatchType::Strategic, Some(kind)) = (kind, schema.builtin()) {
            let bad = |why: ParseError| ApiError::bad_request(why.to_string());
            return Self::strategic(kind, parsed.map_err(bad)?);
        }
        let parsed = parsed.map_err(|error| bad_patch(&error.to_string()))?;
        match (kind, parsed.value) {
            (PatchType::Strategic | PatchType::Apply, _) => Err(ApiError::unknown_patch_type()),
            (PatchType::Merge, Value::Null) => Err(ApiError::bad_request("Invalid JSON Patch")),
            (PatchType::Merge, patch @ Value::Object(_)) => {
                Ok(Self::Merge { patch, duplicates: parsed.duplicates })
            }
            (PatchType::Merge, other) => Err(wrong_type(&other, "map[string]interface {}")),
            (PatchType::Json, Value::Array(items)) => Self::operations(items, &parsed.duplicates),
            (PatchType::Json, Value::Null) => Self::operations(Vec::new(), &[]),
            (PatchType::Json, other) => Err(wrong_type(&other, "[]handlers.jsonPatchOp")),
        }
    }

    fn strategic(kind: &'static Struct, parsed: Parsed) -> ApiResult<Self> {
        match parsed.value {
            patch @ (Value::Object(_) | Value::Null) => {
                Ok(Self::Strategic { kind, patch, duplicates: parsed.duplicates })
            }
            other => Err(ApiError::bad_request(mismatch(&other, "map[string]interface {}"))),
        }
    }

    /// A merge patch that the server itself makes.
    pub fn merge(patch: Value) -> Self {
        Self::Merge { patch, duplicates: Vec::new() }
    }

    fn operations(items: Vec<Value>, duplicates: &[String]) -> ApiResult<Self> {
        if items.len() > MAX_OPERATIONS {
            let sent = items.len();
            let text = format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {sent}"
            );
            let code = http::StatusCode::PAYLOAD_TOO_LARGE;
            return Err(ApiError::new(code, "RequestEntityTooLarge", text));
        }
        let mut operations = Vec::with_capacity(items.len());
        let mut problems: Vec<String> = duplicates
            .iter()
            .map(|path| format!("json patch duplicate field {}", quoted(path)))
            .collect();
        for (at, item) in items.into_iter().enumerate() {
            let Value::Object(mut operation) = item else {
                return Err(wrong_type(&item, "handlers.jsonPatchOp"));
            };
            for field in operation.keys().filter(|f| !OPERATION_FIELDS.contains(&f.as_str())) {
                let path = quoted(&format!("[{at}].{field}"));
                problems.push(format!("json patch unknown field {path}"));
            }
            check_fields(&operation)?;
            complete(&mut operation);
            operations.push(Value::Object(operation));
        }
        Ok(Self::Json { operations: Value::Array(operations), problems })
    }

    /// Changes an object.
    pub(super) fn apply(&self, object: &mut Value) -> ApiResult<()> {
        match self {
            Self::Merge { patch, .. } => {
                json_patch::merge(object, patch);
                Ok(())
            }
            Self::Strategic { kind, patch, .. } => {
                strategic::apply(kind, object, patch.clone()).map_err(refused)
            }
            Self::Json { operations, .. } => {
                let operations: Vec<PatchOperation> =
                    serde_json::from_value(operations.clone()).map_err(ApiError::patch_rejected)?;
                patch::apply(object, &operations).map_err(ApiError::patch_rejected)
            }
        }
    }

    /// The complaints of strict validation, given the fields of the result that its type does not have.
    pub(super) fn strict_errors(&self, unknown: &[String]) -> Vec<String> {
        match self {
            Self::Merge { duplicates, .. } | Self::Strategic { duplicates, .. } => {
                schema::strict_errors(&[], duplicates, unknown)
            }
            Self::Json { problems, .. } => {
                let result = schema::strict_errors(&[], &[], unknown);
                problems.iter().cloned().chain(result).collect()
            }
        }
    }
}

impl Misfit {
    /// What a client is told whose patch makes something that is no object of the type.
    ///
    /// Upstream shows the whole result there. It may hold secrets, so we do not.
    pub(super) fn in_patch(self) -> ApiError {
        if let Self::OtherKind(error) = self {
            return error;
        }
        let error = FieldError::invalid_str("patch", "<value omitted>", self.why());
        ApiError::invalid(GroupName { group: "", name: "" }, "", &[error])
    }
}

/// A body that is no patch.
pub(super) fn bad_patch(why: &str) -> ApiError {
    ApiError::bad_request(format!("error decoding patch: {why}"))
}

fn wrong_type(found: &Value, expected: &str) -> ApiError {
    bad_patch(&mismatch(found, expected))
}

fn mismatch(found: &Value, expected: &str) -> String {
    format!("json: cannot unmarshal {} into Go value of type {expected}", json_kind(found))
}

/// A strategic merge patch that does not fit.
fn refused(why: strategic::Refused) -> ApiError {
    match why {
        strategic::Refused::Malformed(text) => ApiError::bad_request(text),
        strategic::Refused::Impossible(text) => ApiError::patch_rejected(text),
        strategic::Refused::Misfit(text) => ApiError::unclassified(text),
    }
}

/// What an operation says of itself is text.
fn check_fields(operation: &Map<String, Value>) -> ApiResult<()> {
    for field in ["op", "path", "from"] {
        match operation.get(field) {
            None | Some(Value::String(_) | Value::Null) => {}
            Some(other) => {
                let found = json_kind(other);
                return Err(bad_patch(&format!(
                    "json: cannot unmarshal {found} into Go struct field jsonPatchOp.{field} of type string"
                )));
            }
        }
    }
    Ok(())
}

/// A missing value is null.
fn complete(operation: &mut Map<String, Value>) {
    let op = operation.get("op").and_then(Value::as_str);
    if matches!(op, Some("add" | "replace" | "test")) {
        operation.entry("value").or_insert(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn apply(operations: Value, object: Value) -> Result<Value, u16> {
        let parsed = Ok(Parsed { value: operations, duplicates: Vec::new() });
        let schema = Schema::from(schema::builtin("io.k8s.api.core.v1.ConfigMap"));
        let patch = Patch::new(PatchType::Json, &schema, parsed).map_err(|e| e.code().as_u16())?;
        let mut changed = object;
        patch.apply(&mut changed).map_err(|e| e.code().as_u16())?;
        Ok(changed)
    }

    #[test]
    fn a_missing_value_is_null() {
        let operations = json!([{"op": "add", "path": "/b"}, {"op": "test", "path": "/b"}]);
        assert_eq!(apply(operations, json!({"a": 1})), Ok(json!({"a": 1, "b": null})));
    }

    #[test]
    fn odd_operations_are_refused_without_a_panic() {
        for (operations, code) in [
            (json!({}), 400),
            (json!([5]), 400),
            (json!([{}]), 422),
            (json!([{"op": "jump", "path": "/a"}]), 422),
            (json!([{"op": "add", "value": 1}]), 422),
            (json!([{"op": "replace", "path": "/x/y", "value": 1}]), 422),
            (json!([{"op": "remove", "path": "/x"}]), 422),
            (json!([{"op": "copy", "path": "/x"}]), 422),
            (json!([{"op": "test", "path": "/a", "value": 2}]), 422),
        ] {
            assert_eq!(apply(operations.clone(), json!({"a": 1})), Err(code), "{operations}");
        }
    }
}
