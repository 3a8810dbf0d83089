//! What differs between OpenAPI 2 and 3 everywhere: references.

use serde_json::{Value, json};

/// A version of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Swagger 2.0.
    V2,
    /// OpenAPI 3.0.
    V3,
}

impl Dialect {
    /// A reference to a model.
    pub(super) fn reference(self, model: &str) -> Value {
        let place = match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        };
        json!({"$ref": format!("{place}{model}")})
    }

    /// A reference that has something beside it, which OpenAPI 3 forbids in plain words.
    pub(super) fn extended(self, model: &str) -> Value {
        match self {
            Self::V2 => self.reference(model),
            Self::V3 => json!({"allOf": [self.reference(model)]}),
        }
    }
}
