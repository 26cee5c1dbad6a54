//! The copy of a log that moves to another directory.

use super::{PartitionLog, may_have_holes};
use crate::error::LogError;
use model::Timestamp;

impl PartitionLog {
    /// Cuts a copy back to what `original` has too, as their leader epochs tell; all of it if they do not. For copies
    /// that were found at a start: what was cut off the original since it was copied is not known any more.
    ///
    /// # Errors
    /// [`LogError::Disk`].
    pub fn agree_with(&mut self, original: &Self, now: Timestamp) -> Result<(), LogError> {
        if self.log_end_offset == self.log_start_offset {
            return Ok(());
        }
        let is_known = |epoch| original.epoch_starts().iter().any(|entry| entry.0 == epoch);
        let common = self.epochs.entries().iter().rev().find(|&&(epoch, _)| is_known(epoch));
        let common = common.and_then(|&(epoch, _)| {
            let ours = self.end_offset_for_epoch(epoch)?.end_offset;
            Some(ours.min(original.end_offset_for_epoch(epoch)?.end_offset))
        });
        match common {
            // Where compaction leaves gaps nobody sees those of a power failure, and the original has none there.
            Some(end) if may_have_holes(&self.entry, &self.config) => {
                // A recovery point below the start says that nothing was flushed.
                let flushed = self.recovery_point.max(self.log_start_offset);
                self.truncate_to(end.min(flushed), now)
            }
            Some(end) => self.truncate_to(end, now),
            None => self.truncate_fully_and_start_at(original.log_start_offset, now),
        }
    }

    /// A copy takes what only its original knows: nothing is compacted while a log moves.
    pub(crate) fn take_over(&mut self, original: &Self) {
        self.raise_log_start(original.log_start_offset);
        self.set_high_watermark(original.high_watermark);
        self.entry.set_cleaner_offset(original.entry.cleaner_offset());
    }
}
