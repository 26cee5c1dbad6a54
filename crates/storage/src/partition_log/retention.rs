//! Removing old segments (log-format 7).

use super::PartitionLog;
use crate::error::{DiskError, LogError};
use crate::files::SegmentFiles;
use crate::recovery;
use crate::segment::Segment;
use model::{Offset, Timestamp};
use std::sync::Arc;
use tracing::info;

impl PartitionLog {
    /// Removes segments that are too old, too many, or below the log start; returns how many. Nothing
    /// above the high watermark is removed.
    ///
    /// # Errors
    /// [`LogError::Disk`] takes the log offline.
    pub fn apply_retention(&mut self, now: Timestamp) -> Result<usize, LogError> {
        if self.is_offline() {
            return Err(LogError::Offline);
        }
        if self.in_flight > 0 || self.swap_in_flight {
            return Ok(0);
        }
        let outcome = self.remove_old_segments(now);
        self.or_fail(outcome)
    }

    fn remove_old_segments(&mut self, now: Timestamp) -> Result<usize, LogError> {
        let log_start = self.log_start_offset;
        let count = (0..self.segments.len() - 1)
            .take_while(|&at| self.segment_end(at) <= log_start)
            .count();
        let mut removed = self.remove_oldest(count, "log start offset", now)?;
        if !self.config.cleanup_policy.delete {
            return Ok(removed);
        }
        if let Some(limit) = self.config.retention_bytes {
            let mut excess = self.size_bytes().checked_sub(limit);
            let count = self.count_while(|_, segment| {
                excess = excess.and_then(|excess| excess.checked_sub(segment.published));
                Ok(excess.is_some())
            })?;
            removed += self.remove_oldest(count, "retention.bytes", now)?;
        }
        let count = self.count_while(|log, segment| log.is_expired(segment, now))?;
        removed += self.remove_oldest(count, "retention.ms", now)?;
        Ok(removed)
    }

    /// How many of the oldest segments may go and satisfy `condition`.
    fn count_while(
        &self,
        mut condition: impl FnMut(&Self, &Segment) -> Result<bool, DiskError>,
    ) -> Result<usize, DiskError> {
        let mut count = 0;
        for (at, segment) in self.segments.iter().enumerate() {
            let is_last = at + 1 == self.segments.len();
            if self.high_watermark < self.segment_end(at)
                || (is_last && segment.published == 0)
                || !condition(self, segment)?
            {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    fn is_expired(&self, segment: &Segment, now: Timestamp) -> Result<bool, DiskError> {
        let Some(retention) = self.config.retention_ms else { return Ok(false) };
        let largest = match segment.largest_timestamp()?.timestamp {
            timestamp if timestamp >= 0 => timestamp,
            _ => self.modified(segment)?.0,
        };
        let age = i128::from(now.0) - i128::from(largest);
        Ok(age > i128::try_from(retention.as_millis()).unwrap_or(i128::MAX))
    }

    fn remove_oldest(
        &mut self,
        count: usize,
        reason: &'static str,
        now: Timestamp,
    ) -> Result<usize, LogError> {
        if count == 0 {
            return Ok(0);
        }
        if count == self.segments.len() {
            self.roll_empty(now)?;
        }
        let stays = self.segments[count].base;
        if stays >= self.recovery_point {
            // What stays has names before what goes loses its own: else the log might seem to start later.
            self.directory.sync()?;
        } else if self.entry.written_recovery_point() < stays {
            // Of what goes a crash may bring back some and not the rest: what stays is not lost behind that gap.
            self.log_directory.write_recovery_points()?;
        }
        let doomed = self.segments.drain(..count).collect::<Vec<_>>();
        let start = self.segments[0].base;
        for segment in doomed {
            self.doom(segment)?;
        }
        info!(partition = %self.entry.name, count, reason, log_start_offset = start.0, "removed segments");
        // The recovery point stays, unlike Kafka's: what was removed may come back after a crash, and was not
        // flushed.
        self.raise_log_start(start);
        self.changed = true;
        self.register();
        Ok(count)
    }

    /// Completes the active segment and starts an empty one at the log end.
    pub(super) fn roll_empty(&mut self, now: Timestamp) -> Result<(), LogError> {
        let end: Offset = self.log_end_offset;
        self.segments.last_mut().expect("a log has a segment").seal()?;
        self.producers.end_offset = end;
        self.producers.take_snapshot(&self.directory, false)?;
        let files = Arc::new(SegmentFiles::new(Arc::clone(&self.directory), end));
        recovery::create_files(&files)?;
        self.segments.push(Segment::empty(files, now));
        Ok(())
    }
}
