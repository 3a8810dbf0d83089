//! What an evaluation may use up.
//!
//! Costs are upstream's and part of the contract: they decide which objects and policies are refused. They leave some
//! ways open to use far more time or memory than they count (comparing deep values, joining dynamic ones), so work
//! and memory are bounded as well.

use crate::error::EvalError;

/// What is left for the evaluations of one request, of all rules together.
///
/// ```
/// let mut budget = lanyard_cel::Budget::new(lanyard_cel::Budget::PER_OBJECT);
/// assert_eq!(budget.remaining(), 10_000_000);
/// ```
#[derive(Debug, Clone)]
pub struct Budget {
    remaining: u64,
    exhausted: bool,
}

impl Budget {
    /// For all rules of a custom resource, or of a policy with one binding.
    pub const PER_OBJECT: u64 = 10_000_000;

    /// For all match conditions of a webhook, or of a policy with one binding.
    pub const MATCH_CONDITIONS: u64 = 2_500_000;

    /// A budget of so many units.
    pub fn new(units: u64) -> Self {
        Self { remaining: units, exhausted: false }
    }

    /// What is left.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Whether more was used than there was.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Takes the cost of an evaluation.
    pub fn spend(&mut self, units: u64) {
        match self.remaining.checked_sub(units) {
            Some(left) => self.remaining = left,
            None => {
                self.remaining = 0;
                self.exhausted = true;
            }
        }
    }
}

/// Counts what one evaluation uses.
#[derive(Debug)]
pub(crate) struct Meter {
    cost: u64,
    work: u64,
    bytes: u64,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { cost: 0, work: 0, bytes: 0 }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Counts costs; an error when there are too many for one evaluation.
    pub(crate) fn charge(&mut self, units: u64) -> Result<(), EvalError> {
        self.cost = self.cost.saturating_add(units);
        if self.cost > PER_CALL { Err(EvalError::too_expensive()) } else { Ok(()) }
    }

    /// Counts steps that costs do not tell apart.
    pub(crate) fn work(&mut self, steps: u64) -> Result<(), EvalError> {
        self.work = self.work.saturating_add(steps);
        if self.work > MAX_WORK { Err(EvalError::too_expensive()) } else { Ok(()) }
    }

    /// Counts memory before it is used.
    pub(crate) fn allocate(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.bytes = self.bytes.saturating_add(bytes as u64);
        if self.bytes > MAX_BYTES { Err(EvalError::too_expensive()) } else { Ok(()) }
    }
}

/// Upstream's limit for one evaluation, some 0.1 seconds there.
pub(crate) const PER_CALL: u64 = 1_000_000;

/// Comparisons of parts of values and the like, under a second.
const MAX_WORK: u64 = 20_000_000;

/// Texts and lists that an evaluation makes, all together.
const MAX_BYTES: u64 = 64 << 20;
