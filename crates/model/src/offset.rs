//! Positions in a partition's log.

use std::fmt;
use std::ops::{Add, Sub};

/// The number of a record in its partition; counts from 0 and never goes back for a log that is whole.
///
/// Whether a bound is inclusive is written at the name of the bound: `log_start_offset` is the first
/// readable record; `last_stable_offset`, `high_watermark` and `log_end_offset` are exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub i64);

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<i64> for Offset {
    fn from(raw: i64) -> Self {
        Self(raw)
    }
}

impl Add<i64> for Offset {
    type Output = Self;

    fn add(self, records: i64) -> Self {
        Self(self.0 + records)
    }
}

impl Sub for Offset {
    type Output = i64;

    fn sub(self, earlier: Self) -> i64 {
        self.0 - earlier.0
    }
}
