//! Who set which field, and how the wishes of several clients become one object.
//!
//! This is upstream's structured-merge-diff over JSON trees: sets of fields ([`set`]) and their JSON form
//! ([`fields_v1`]), walks that merge, compare and cut trees by their [`shape`], and on top of them the
//! entries of `metadata.managedFields`. All of it is pure; who writes, and when, is told by the caller.

mod builtin;
pub mod combine;
pub mod compare;
mod custom;
pub mod fields_v1;
pub mod last_applied;
pub mod managers;
mod ordering;
pub mod ownership;
pub mod path;
pub mod set;
pub mod shape;
pub mod strategic;
pub mod typed;
pub mod walk;

#[cfg(test)]
mod tests;
