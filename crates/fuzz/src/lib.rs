//! Everything that reads bytes from outside, as functions of bytes (network, disk, nodes, configuration).
//!
//! `cargo xtask fuzz` has libFuzzer look for bytes that make one panic, hang, or hold more memory than its input
//! gives it a right to; `tests/corpus.rs` runs every input that is kept in `corpus/` (reliability.md 4.7).
//!
//! Non-obvious:
//! - A target asserts what holds for any input (what was read can be written and read again), so a wrong answer is a
//!   finding too.
//! - Checksums would stop a fuzzer at the door: where a target has them, it makes those of its input right.

mod seeds;
mod targets;

pub use seeds::seeds;

use peak_alloc::PeakAlloc;

#[global_allocator]
static HELD: PeakAlloc = PeakAlloc;

/// Something that reads bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its corpus.
    pub name: &'static str,
    /// What it reads.
    pub about: &'static str,
    /// Reads, and panics if what has to hold does not.
    run: fn(&[u8]),
    /// What may be held at once, whatever the input: bytes.
    base_bytes: usize,
    /// And for each byte of the input.
    factor: usize,
}

/// All of them.
pub const TARGETS: &[Target] = targets::ALL;

impl Target {
    /// The target `name`.
    #[must_use]
    pub fn of(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }

    /// Gives it `input`. Nothing else may be at work in the process: the memory is the process's.
    ///
    /// # Panics
    /// If the input is a finding.
    pub fn check(&self, input: &[u8]) {
        let before = HELD.current_usage();
        HELD.reset_peak_usage();
        (self.run)(input);
        let held = HELD.peak_usage().saturating_sub(before);
        let most = self.base_bytes + self.factor * input.len();
        assert!(
            held <= most,
            "{}: {held} bytes were held for an input of {}; {most} are its due",
            self.name,
            input.len()
        );
    }

    /// Makes what is made once, so that it counts for no input.
    pub fn prepare(&self) {
        (self.run)(&[]);
        (self.run)(&[0; 8]);
    }
}
