//! Sizes and costs that are not known exactly: from a least to a greatest, never overflowing.

/// What an expression costs at least and at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostEstimate {
    /// At least.
    pub min: u64,
    /// At most; `u64::MAX` if there is no bound.
    pub max: u64,
}

impl From<Range> for CostEstimate {
    fn from(range: Range) -> Self {
        Self { min: range.min, max: range.max }
    }
}

/// A size or a cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Range {
    pub(crate) const ZERO: Self = Self::exactly(0);
    pub(crate) const UNKNOWN: Self = Self::new(0, u64::MAX);
    /// What a union begins with.
    pub(crate) const EMPTY: Self = Self::new(u64::MAX, 0);

    pub(crate) const fn new(min: u64, max: u64) -> Self {
        Self { min, max }
    }

    pub(crate) const fn exactly(value: u64) -> Self {
        Self::new(value, value)
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self::new(self.min.saturating_add(other.min), self.max.saturating_add(other.max))
    }

    pub(crate) fn times(self, other: Self) -> Self {
        Self::new(self.min.saturating_mul(other.min), self.max.saturating_mul(other.max))
    }

    /// Times a factor, rounded up.
    pub(crate) fn scaled(self, factor: f64) -> Self {
        Self::new(scale(self.min, factor), scale(self.max, factor))
    }

    /// A tenth: what going over a text costs.
    pub(crate) fn tenth(self) -> Self {
        self.scaled(0.1)
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self::new(self.min.min(other.min), self.max.max(other.max))
    }
}

/// In floating point, as upstream, so that rounding is the same.
fn scale(value: u64, factor: f64) -> u64 {
    let float = value as f64;
    if float > 0.0 && factor > 0.0 && float > u64::MAX as f64 / factor {
        return u64::MAX;
    }
    let product = (float * factor).ceil();
    if product >= 18_446_744_073_709_551_616.0 { u64::MAX } else { product as u64 }
}
