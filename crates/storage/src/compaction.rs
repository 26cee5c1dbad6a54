//! Compaction: only the newest record of each key stays (log-format 8).
//!
//! A [`LogView`] is taken under the log's lock; everything else happens without it, on segments that
//! nobody changes any more: the newest offsets of the keys in the *dirty* part are collected in bounded
//! memory, then all segments up to there are rewritten, a group at a time, into one new segment each. A
//! group's new segment takes the place of the old ones in three steps: [`PartitionLog::begin_swap`] and
//! [`CleaningSwap::announce`], [`PartitionLog::swap`], [`CleaningSwap::complete`] and
//! [`PartitionLog::end_swap`]; the middle one alone changes what readers see, and touches no disk.
//!
//! # Non-obvious
//! - Only what is durable is compacted, and the recovery point is on disk before the first swap: a hole
//!   above it would be taken for lost records after a crash.
//! - Nothing is rewritten whose checksum is wrong: a new checksum would hide the damage.
//! - The cleaner checkpoint moves after the last swap. A crash before leaves a log of which parts are
//!   compacted already; doing it again does the same.
//! - A batch that is some producer's last stays, maybe empty: it holds the producer's sequence.
//!
//! [`PartitionLog::begin_swap`]: crate::PartitionLog::begin_swap
//! [`PartitionLog::swap`]: crate::PartitionLog::swap
//! [`PartitionLog::end_swap`]: crate::PartitionLog::end_swap

mod cleaning;
mod offset_map;
mod output;
mod swap;
mod transactions;
mod view;

pub use cleaning::{Cleaning, CleaningBuffers, CleaningError, CleaningTotals, Consequence};
pub(crate) use output::Output;
pub(crate) use swap::remove_files;
pub use swap::{CleanedGroup, CleaningSwap};
pub use view::{CleaningState, LogView};
pub(crate) use view::{LastBatch, SegmentView};

/// Paces compaction, and can end it.
pub trait Pace {
    /// So many bytes were read or written. May wait.
    ///
    /// # Errors
    /// [`Interrupted`]: the log must be let go of.
    fn moved(&mut self, bytes: u64) -> Result<(), Interrupted>;
}

/// Compaction was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted;
