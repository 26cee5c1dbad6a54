//! Random decisions that a seed makes.

use platform::Random;
use platform::random::SeededRandom;

/// Decides by a seed.
#[derive(Debug)]
pub(crate) struct Dice(SeededRandom);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SeededRandom::new(seed))
    }

    /// Uniform in `0..bound`; 0 if `bound` is 0.
    pub(crate) fn below(&self, bound: usize) -> usize {
        usize::try_from(self.0.below(bound as u64)).expect("below a usize")
    }

    /// Uniform in `from..=to`.
    pub(crate) fn between(&self, from: i64, to: i64) -> i64 {
        let span = u64::try_from(to - from).expect("from <= to") + 1;
        from + i64::try_from(self.0.below(span)).expect("below the span")
    }

    /// True in `parts` of `of` cases.
    pub(crate) fn chance(&self, parts: usize, of: usize) -> bool {
        self.below(of) < parts
    }

    pub(crate) fn pick<'a, T>(&self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    pub(crate) fn seed(&self) -> u64 {
        self.0.next_u64()
    }
}
