//! What goes wrong while an expression is evaluated.

use crate::value::Value;

/// Why an evaluation has no value, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvalError {
    message: String,
    cancelled: bool,
}

impl EvalError {
    /// An error of the expression. `&&`, `||` and the macros built on them may absorb it.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), cancelled: false }
    }

    /// Whether the evaluation was ended because it got too expensive.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled
    }

    pub(crate) fn too_expensive() -> Self {
        Self {
            message: "operation cancelled: actual cost limit exceeded".to_owned(),
            cancelled: true,
        }
    }

    pub(crate) fn no_such_overload() -> Self {
        Self::new("no such overload")
    }

    /// For a function that does not take these arguments.
    pub(crate) fn no_overload(function: &str, args: &[Value<'_>]) -> Self {
        let types: Vec<String> =
            args.iter().map(|arg| arg.type_of().kind_name().to_owned()).collect();
        Self::new(format!("no such overload: {function}({})", types.join(", ")))
    }
}
