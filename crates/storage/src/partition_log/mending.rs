//! Mending's part under the log's lock (see [`crate::mending`]).

use super::{PartitionLog, may_have_holes};
use crate::error::LogError;
use crate::mending::Mending;
use model::{Offset, Timestamp};

impl PartitionLog {
    /// Whether a part of the log is known to be damaged that may be read.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.last_damaged().is_some()
    }

    fn last_damaged(&self) -> Option<usize> {
        let is_damaged = |&at: &usize| {
            self.segments[at].files.is_damaged() && self.segment_end(at) > self.log_start_offset
        };
        (0..self.segments.len()).rev().find(is_damaged)
    }

    /// Begins to make damaged segments anew; `None` if there are none that are committed and durable. Nothing may be
    /// reserved and unpublished. If the active segment is damaged it is completed.
    ///
    /// # Errors
    /// [`LogError`]; one of the disk's takes the log offline.
    pub fn begin_mending(&mut self, now: Timestamp) -> Result<Option<Mending>, LogError> {
        self.check_changeable()?;
        let Some(at) = self.last_damaged() else { return Ok(None) };
        let end = self.segment_end(at);
        if end > self.high_watermark || end > self.recovery_point {
            return Ok(None);
        }
        if at + 1 == self.segments.len() {
            let outcome = self.roll_empty(now);
            self.or_fail(outcome)?;
            self.tail.clear();
            self.changed = true;
        }
        let may_have_holes = may_have_holes(&self.entry, &self.config);
        let first = if may_have_holes { 0 } else { at };
        let view = self.view();
        Ok(view.map(|view| Mending::new(view, first..at + 1, may_have_holes, now)))
    }

    /// What was compacted below the log's new segments was so by the leader, and how far is not known: it is compacted
    /// anew from `from` on.
    ///
    /// # Errors
    /// [`LogError::Disk`] takes the log offline.
    pub fn compact_anew_from(&mut self, from: Offset) -> Result<(), LogError> {
        let outcome = self.lower_cleaner_offset(from).map_err(LogError::from);
        self.or_fail(outcome)
    }
}
