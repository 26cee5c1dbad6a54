//! Shortening a log at either end.

use super::PartitionLog;
use crate::error::{DiskError, LogError};
use crate::files::{Kind, SegmentFiles, Suffix};
use crate::recovery::{self, LoadRequest};
use crate::segment::Segment;
use model::{Offset, Timestamp};
use std::sync::Arc;

impl PartitionLog {
    /// Removes every record at or above `offset`, whole batches only; the log end becomes `offset`, even
    /// where that leaves a gap. If the log ends there already, or before, only epochs go that have no record:
    /// one whose leader wrote nothing is not known to the next leader, and would be asked about for ever.
    ///
    /// Called on a follower whose log diverged from its leader's. Nothing may be reserved and
    /// unpublished. Source: KIP-101, KIP-279.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] if `offset` is negative; [`LogError::Disk`] takes the log offline.
    pub fn truncate_to(&mut self, offset: Offset, now: Timestamp) -> Result<(), LogError> {
        self.check_changeable()?;
        if offset.0 < 0 {
            return Err(LogError::OutOfRange {
                offset,
                lowest: Offset(0),
                highest: self.log_end_offset,
            });
        }
        if offset >= self.log_end_offset {
            self.epochs.truncate_from_end(self.log_end_offset);
            self.write_epochs();
            return Ok(());
        }
        if self.segments[0].base > offset {
            return self.truncate_fully_and_start_at(offset, now);
        }
        // A crash from here on must not trust what is about to go.
        self.recovery_point = self.recovery_point.min(offset);
        self.entry.set_recovery_point(self.recovery_point);
        let outcome = self.truncate_segments(offset, now);
        self.or_fail(outcome)
    }

    fn truncate_segments(&mut self, offset: Offset, now: Timestamp) -> Result<(), LogError> {
        self.log_directory.write_recovery_points()?;
        self.lower_cleaner_offset(offset)?;
        while let Some(last) = self.segments.pop_if(|last| last.base > offset) {
            self.doom(last)?;
            // The last one goes first, durably: no later segment must be left behind a gap, nor come back
            // behind what is appended now.
            self.directory.sync()?;
        }
        let active = self.segments.last_mut().expect("the first segment starts at or below");
        active.activate()?;
        let end = active.truncate_to(offset, now)?;
        self.epochs.truncate_from_end(offset);
        self.write_epochs();
        self.shorten_to(offset);
        let request = LoadRequest {
            directory: &self.directory,
            config: &self.config,
            clean: false,
            recovery_point: self.recovery_point,
            log_start_offset: self.log_start_offset,
            may_have_holes: true, // segments are known; only producers are rebuilt
            now,
        };
        self.producers.rebuild(&request, &self.segments, offset, offset)?;
        self.producers.take_snapshot(&self.directory, false)?;
        self.producers.state.high_watermark_moved(self.high_watermark);
        if end < offset { self.settle_gap() } else { Ok(()) }
    }

    /// Makes the log durable that a truncation left with a gap before its end: should a new segment begin behind
    /// the gap, the recovery point tells that nothing was lost there.
    fn settle_gap(&mut self) -> Result<(), LogError> {
        let work = self.flush_work(false);
        let outcome = work.run();
        self.finish_flush(work, outcome)?;
        Ok(self.log_directory.write_recovery_points()?)
    }

    /// What comes after a truncation has never been compacted, not even if it crashes on the way.
    pub(super) fn lower_cleaner_offset(&self, end: Offset) -> Result<(), DiskError> {
        if self.entry.cleaner_offset().is_some_and(|offset| offset > end) {
            self.entry.set_cleaner_offset(Some(end));
            self.log_directory.write_cleaner_offsets()?;
        }
        Ok(())
    }

    /// Moves everything that counts offsets down to a new log end.
    fn shorten_to(&mut self, end: Offset) {
        self.log_end_offset = end;
        self.reserved_end = end;
        self.log_start_offset = self.log_start_offset.min(end);
        self.high_watermark = self.high_watermark.clamp(self.log_start_offset, end);
        self.recovery_point = self.recovery_point.min(end);
        self.generation += 1;
        self.tail.clear();
        self.recent.clear();
        self.changed = true;
        self.register();
    }

    /// Removes everything and starts anew at `offset`.
    ///
    /// # Errors
    /// [`LogError::Disk`] takes the log offline.
    pub fn truncate_fully_and_start_at(
        &mut self,
        offset: Offset,
        now: Timestamp,
    ) -> Result<(), LogError> {
        self.check_changeable()?;
        self.recovery_point = self.recovery_point.min(offset);
        self.entry.set_recovery_point(self.recovery_point);
        let outcome = self.start_anew(offset, now);
        self.or_fail(outcome)
    }

    fn start_anew(&mut self, offset: Offset, now: Timestamp) -> Result<(), LogError> {
        self.log_directory.write_recovery_points()?;
        self.lower_cleaner_offset(offset)?;
        while let Some(last) = self.segments.pop() {
            self.doom(last)?;
            // As in a truncation.
            self.directory.sync()?;
        }
        for snapshot in self.producers.snapshots.clone() {
            self.producers.remove_snapshot(&self.directory, snapshot)?;
        }
        let files = Arc::new(SegmentFiles::new(Arc::clone(&self.directory), offset));
        recovery::create_files(&files)?;
        self.directory.sync()?;
        self.segments.push(Segment::empty(files, now));
        self.producers.state = crate::producer_state::ProducerState::default();
        self.producers.end_offset = offset;
        self.epochs.clear();
        self.write_epochs();
        self.log_start_offset = offset;
        self.high_watermark = offset;
        self.shorten_to(offset);
        Ok(())
    }

    /// Raises the log start to `offset`; records below are gone at once, segments with them later. Does
    /// nothing if the log starts there or above already.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] if `offset` is above the high watermark.
    pub fn delete_records_before(&mut self, offset: Offset) -> Result<(), LogError> {
        if self.is_offline() {
            return Err(LogError::Offline);
        }
        if offset > self.high_watermark {
            return Err(LogError::OutOfRange {
                offset,
                lowest: self.log_start_offset,
                highest: self.high_watermark,
            });
        }
        self.raise_log_start(offset);
        Ok(())
    }

    pub(super) fn raise_log_start(&mut self, offset: Offset) {
        if offset <= self.log_start_offset {
            return;
        }
        self.log_start_offset = offset;
        self.high_watermark = self.high_watermark.max(offset);
        self.epochs.truncate_from_start(offset);
        self.write_epochs();
        self.producers.state.log_start_moved(offset);
        self.changed = true;
        self.register();
    }

    /// Takes a segment's files out of the log at once, and leaves their removal to the janitor.
    pub(super) fn doom(&mut self, segment: Segment) -> Result<(), DiskError> {
        let snapshot = segment.base;
        let deletions = &self.log_directory.shared().deletions;
        let delay = self.config.file_delete_delay_ms;
        // Readers that hold the files go on.
        segment.files.close();
        for kind in Kind::ALL {
            if let Some(doomed) = segment.files.rename(kind, Suffix::Deleted)? {
                deletions.push(doomed, delay);
            }
        }
        if self.producers.snapshots.remove(&snapshot) {
            let path = recovery::Producers::path(&self.directory, snapshot);
            deletions.doom_file(self.directory.disk().as_ref(), &path, delay)?;
        }
        Ok(())
    }
}
