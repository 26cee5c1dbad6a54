//! Compaction's part under the log's lock (see [`crate::compaction`]).

use super::PartitionLog;
use crate::compaction::{CleanedGroup, Cleaning, CleaningError, CleaningSwap, Consequence};
use crate::compaction::{LastBatch, LogView, SegmentView};
use crate::error::DiskError;
use crate::files::SegmentFiles;
use crate::segment::Segment;
use model::Offset;
use std::sync::Arc;

impl PartitionLog {
    /// What compaction has to know; `None` if the log takes no changes.
    #[must_use]
    pub fn view(&self) -> Option<LogView> {
        if self.is_offline() {
            return None;
        }
        let segments = self.segments.iter().enumerate();
        let segments = segments
            .filter(|(_, segment)| !segment.provisional)
            .map(|(at, segment)| SegmentView {
                files: Arc::clone(&segment.files),
                size: segment.published,
                limit: self.segment_end(at),
                cuts: segment.files.cuts(),
                offset_index: segment.offset_index.clone(),
                time_index: segment.time_index.clone(),
                transactions: segment.transactions,
                max_timestamp: segment.known_largest_timestamp(),
            })
            .collect::<Vec<_>>();
        let last_batches = self.producers.state.iter().map(|(id, producer)| {
            let last_offset = producer.last_batch().map(|batch| Offset(batch.last_offset));
            (id, LastBatch { epoch: producer.epoch, last_offset })
        });
        (!segments.is_empty()).then(|| LogView {
            directory: Arc::clone(&self.directory),
            log_directory: Arc::clone(&self.log_directory),
            config: Arc::clone(&self.config),
            segments,
            log_start_offset: self.log_start_offset,
            log_end_offset: self.log_end_offset,
            last_stable_offset: self.last_stable_offset(),
            recovery_point: self.recovery_point,
            cleaner_offset: self.entry.cleaner_offset(),
            generation: self.generation,
            last_batches: last_batches.collect(),
        })
    }

    /// Begins to put `group` in the place of the segments that it was made of. Until
    /// [`PartitionLog::end_swap`] the log must not be truncated, closed or deleted.
    ///
    /// # Errors
    /// Gives the group back if those segments are not there any more.
    pub fn begin_swap(&mut self, group: CleanedGroup) -> Result<CleaningSwap, CleanedGroup> {
        let is_valid = !self.is_offline()
            && !self.swap_in_flight
            && group.generation == self.generation
            && self.position_of(&group.old).is_some();
        if !is_valid {
            return Err(group);
        }
        self.swap_in_flight = true;
        Ok(CleaningSwap {
            group,
            log_directory: Arc::clone(&self.log_directory),
            replaced: Vec::new(),
            snapshots: Vec::new(),
            delay: self.config.file_delete_delay_ms,
        })
    }

    /// Where the segments with these files are, if they are all there and none is active.
    fn position_of(&self, files: &[Arc<SegmentFiles>]) -> Option<usize> {
        let first = files.first()?;
        let at = self.segments.iter().position(|segment| Arc::ptr_eq(&segment.files, first))?;
        let found = self.segments.get(at..at + files.len())?;
        let are_there =
            found.iter().zip(files).all(|(segment, files)| Arc::ptr_eq(&segment.files, files));
        (are_there && at + files.len() < self.segments.len()).then_some(at)
    }

    /// The middle step of a swap: readers see the new segments from now on. Returns their files, for
    /// [`CleaningSwap::complete`].
    pub fn swap(&mut self, swap: &mut CleaningSwap) -> SwappedFiles {
        assert!(self.swap_in_flight, "a swap begins first");
        let at = self.position_of(&swap.group.old).expect("nothing goes while a swap is in flight");
        let new = std::mem::take(&mut swap.group.new);
        let files = new.iter().map(|segment| Arc::clone(&segment.files)).collect();
        let is_base = |base: Offset| new.iter().any(|segment| segment.base == base);
        let old = &swap.group.old;
        let gone = old.iter().map(|files| files.base).filter(|&base| !is_base(base));
        let gone = gone.collect::<Vec<_>>();
        swap.snapshots =
            gone.into_iter().filter(|base| self.producers.snapshots.remove(base)).collect();
        let range = at..at + old.len();
        swap.replaced = self.segments.splice(range, new).collect::<Vec<Segment>>();
        self.changed = true;
        self.register();
        SwappedFiles(files)
    }

    /// Ends a swap. With an error of its last step the directory goes offline.
    pub fn end_swap(&mut self, outcome: Result<(), DiskError>) {
        self.swap_in_flight = false;
        if let Err(error) = outcome {
            self.log_directory.disk_failed(&error.into());
        }
    }

    /// The log could not be compacted: if the disk is to blame its directory goes offline.
    pub fn cleaning_failed(&mut self, error: CleaningError) {
        if error.consequence() != Consequence::Offline {
            return;
        }
        match error {
            CleaningError::Sync(error) | CleaningError::Log(error) => {
                self.log_directory.disk_failed(&error);
            }
            CleaningError::Interrupted | CleaningError::NoRoomForKeys => {}
        }
    }

    /// Notes how far the log is compacted; whether it still is the log that was.
    /// [`LogDirectory::checkpoint_cleaner_offsets`] makes it durable.
    ///
    /// [`LogDirectory::checkpoint_cleaner_offsets`]: crate::LogDirectory::checkpoint_cleaner_offsets
    pub fn end_cleaning(&mut self, cleaning: &Cleaning) -> bool {
        let is_same = !self.is_offline() && cleaning.generation() == self.generation;
        if is_same {
            self.entry.set_cleaner_offset(Some(cleaning.end_offset()));
        }
        is_same
    }
}

/// The files of segments that were just put in the place of others.
#[derive(Debug)]
pub struct SwappedFiles(pub(crate) Vec<Arc<SegmentFiles>>);
