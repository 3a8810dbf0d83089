//! The Common Expression Language as Kubernetes 1.36 has it.
//!
//! Validation rules of CustomResourceDefinitions, admission policies and match conditions of webhooks are expressions
//! of this language. This crate reads them, checks their types, estimates and counts their costs, and evaluates them
//! over JSON. Error texts, costs and limits are upstream's, as they decide what clients see and what is refused.
//!
//! It is pure: no I/O, no clock, no knowledge of an API server. What an expression may ask of its surroundings (an
//! [`Authorizer`]) the host passes in.
//!
//! ```
//! use lanyard_cel::{Budget, Declared, Environment, Variables};
//! use serde_json::json;
//!
//! let spec = Declared::object([
//!     ("replicas", true, Declared::int()),
//!     ("name", false, Declared::string(Some(63), None)),
//! ]);
//! let environment = Environment::new().variable("self", spec.named("selfType"));
//!
//! let program = environment.compile("self.replicas <= 5 && has(self.name)")?;
//! assert!(program.estimated_cost().max < 100);
//!
//! let object = json!({"replicas": 3, "name": "web"});
//! let mut variables = Variables::new();
//! variables.json("self", &object);
//! let mut budget = Budget::new(Budget::PER_OBJECT);
//! assert!(program.evaluate_bool(&variables, &mut budget)?);
//!
//! let errors = environment.compile("self.replica > 1").unwrap_err();
//! assert_eq!(
//!     errors.to_string(),
//!     "ERROR: <input>:1:5: undefined field 'replica'\n | self.replica > 1\n | ....^",
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ast;
mod call_cost;
mod checker;
mod declarations;
mod declared;
mod environment;
mod equality;
mod error;
mod escape;
mod estimate;
mod lexer;
mod library;
mod machine;
mod macros;
mod meter;
mod parser;
mod plan;
mod program;
mod source;
mod time;
mod types;
mod unescape;
mod unify;
mod validate;
mod value;

pub use declared::{Declared, ListKind};
pub use environment::Environment;
pub use error::EvalError;
pub use escape::{escape, is_identifier, unescape};
pub use estimate::CostEstimate;
pub use library::{AccessCheck, AccessDecision, AccessTarget, Authorizer, Opaque};
pub use meter::Budget;
pub use program::{Program, Variables};
pub use source::{CompileErrors, Issue};
pub use types::Type;
pub use value::{List, Map, Message, Text, Value};
