//! Label and field selectors: which objects a list, watch or delete means.

mod fields;
mod labels;
mod object;

pub use fields::{FieldOp, FieldRequirement, FieldSelector};
pub use labels::{LabelSelector, Requirement};
pub use object::object_selector_text;

/// How many conditions one selector may have: each is checked on every object of a list, and nobody
/// writes that many.
const MAX_REQUIREMENTS: usize = 1_000;
