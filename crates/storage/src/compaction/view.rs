//! What compaction has to know of a log, and what of the log is due.

use crate::checksums::{Bounds, Fault};
use crate::error::{DiskError, LogError};
use crate::files::{Kind, PartitionDirectory, SegmentFiles};
use crate::largest_timestamp;
use crate::log_config::LogConfig;
use crate::log_directories::LogDirectory;
use crate::offset_index::OffsetIndex;
use crate::scan::Scanner;
use crate::segment::MaxTimestamp;
use crate::time_index::TimeIndex;
use crate::transaction_index::{TransactionEntry, TransactionIndex};
use model::{Offset, ProducerId, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A log as it was at one moment. Its segments but the active one do not change; they may go.
#[derive(Debug)]
pub struct LogView {
    pub(crate) directory: Arc<PartitionDirectory>,
    pub(crate) log_directory: Arc<LogDirectory>,
    pub(crate) config: Arc<LogConfig>,
    /// The last is active.
    pub(crate) segments: Vec<SegmentView>,
    pub(crate) log_start_offset: Offset,
    pub(crate) log_end_offset: Offset,
    pub(crate) last_stable_offset: Offset,
    pub(crate) recovery_point: Offset,
    pub(crate) cleaner_offset: Option<Offset>,
    pub(crate) generation: u64,
    pub(crate) last_batches: BTreeMap<ProducerId, LastBatch>,
}

#[derive(Debug)]
pub(crate) struct SegmentView {
    pub(crate) files: Arc<SegmentFiles>,
    pub(crate) size: u64,
    /// Exclusive end of its offsets.
    pub(crate) limit: Offset,
    /// How often it had been cut.
    pub(crate) cuts: u64,
    pub(crate) offset_index: OffsetIndex,
    pub(crate) time_index: TimeIndex,
    pub(crate) transactions: TransactionIndex,
    pub(crate) max_timestamp: Option<MaxTimestamp>,
}

/// A producer's last batch, which must stay for as long as the producer is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastBatch {
    pub(crate) epoch: i16,
    /// Unknown if a marker came after it that raised the epoch: then the marker stays.
    pub(crate) last_offset: Option<Offset>,
}

impl SegmentView {
    pub(crate) fn base(&self) -> Offset {
        self.files.base
    }

    pub(crate) fn bounds(&self) -> Bounds<'_> {
        let Self { offset_index: index, size: end, limit, cuts, .. } = self;
        Bounds { index, end: *end, limit: *limit, cuts: *cuts }
    }

    /// Looks at the part of the file where the batch at `position` starts, if that was not done since it came from
    /// the disk.
    pub(crate) fn verify_at(&self, position: u64) -> Result<(), LogError> {
        match self.files.verify(self.bounds(), position, position + 1, u64::MAX) {
            Ok(_) => Ok(()),
            Err(Fault::Disk(error)) => Err(error.into()),
            Err(Fault::Bad { reason, .. }) => {
                Err(LogError::Damaged { path: self.files.path(Kind::Log), reason })
            }
        }
    }

    /// When its file was last modified.
    pub(crate) fn modified(&self) -> Result<Timestamp, DiskError> {
        let path = self.files.path(Kind::Log);
        let metadata = self.files.directory.disk().metadata(&path);
        Ok(metadata.map_err(DiskError::at("look at", &path))?.modified)
    }

    /// The largest timestamp of its records, or else of its file.
    fn largest_timestamp(&self) -> Result<Timestamp, DiskError> {
        let known = match self.max_timestamp {
            Some(max) => max.timestamp,
            None => {
                let (offsets, times) = (&self.offset_index, &self.time_index);
                largest_timestamp::find(&self.files, offsets, times, self.size)?.timestamp
            }
        };
        if known >= 0 { Ok(Timestamp(known)) } else { self.modified() }
    }

    /// The largest timestamp of its first batch, if it has one.
    fn first_timestamp(&self) -> Result<Option<i64>, DiskError> {
        let first = Scanner::near(&self.files, 0, self.size)?.next_head()?;
        Ok(first.map(|batch| batch.max_timestamp).filter(|&timestamp| timestamp > 0))
    }
}

/// How much of a log is to be compacted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CleaningState {
    /// Where compaction goes on: records below have been compacted with each other.
    pub first_dirty: Offset,
    /// Exclusive end of what may be compacted now; where a segment starts.
    pub first_uncleanable: Offset,
    /// Size of the segments that start below `first_dirty`.
    pub clean_bytes: u64,
    /// Size of the segments with records of `first_dirty..first_uncleanable`.
    pub cleanable_bytes: u64,
    /// There are records older than `max.compaction.lag.ms`.
    pub is_overdue: bool,
    /// The checkpoint did not fit the log: all of it is dirty.
    pub was_reset: bool,
}

impl CleaningState {
    /// The share of the log that is dirty.
    #[must_use]
    pub fn dirty_ratio(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let of = |bytes: u64| bytes as f64;
        let total = self.clean_bytes.saturating_add(self.cleanable_bytes);
        if total == 0 { 0.0 } else { of(self.cleanable_bytes) / of(total) }
    }

    /// Whether the log should be compacted, if it should be at `min.cleanable.dirty.ratio`.
    #[must_use]
    pub fn is_due(&self, min_dirty_ratio: f64) -> bool {
        let has_records = self.first_uncleanable > self.first_dirty && self.cleanable_bytes > 0;
        has_records && (self.is_overdue || self.dirty_ratio() > min_dirty_ratio)
    }
}

impl LogView {
    /// The settings that are in force.
    #[must_use]
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Whether a flush would let more be compacted.
    #[must_use]
    pub fn awaits_flush(&self) -> bool {
        self.recovery_point < self.active().base()
    }

    fn active(&self) -> &SegmentView {
        self.segments.last().expect("a log has a segment")
    }

    /// The segment whose range holds `offset`.
    pub(crate) fn segment_at(&self, offset: Offset) -> usize {
        self.segments.partition_point(|segment| segment.base() <= offset).saturating_sub(1)
    }

    /// Looks how much is to be compacted. May read a little of each segment.
    ///
    /// # Errors
    /// [`LogError::Disk`].
    pub fn state(&self, now: Timestamp) -> Result<CleaningState, LogError> {
        let checkpoint = self.cleaner_offset.unwrap_or(self.log_start_offset);
        let was_reset = checkpoint < self.log_start_offset || checkpoint > self.log_end_offset;
        let first_dirty = if was_reset { self.log_start_offset } else { checkpoint };
        let active = self.segments.len() - 1;
        let dirty = &self.segments[self.segment_at(first_dirty).min(active)..active];
        let mut bound = self.last_stable_offset.min(self.active().base()).min(self.recovery_point);
        if !self.config.min_compaction_lag_ms.is_zero() {
            let youngest = now - self.config.min_compaction_lag_ms;
            for segment in dirty {
                if segment.largest_timestamp()? > youngest {
                    bound = bound.min(segment.base());
                    break;
                }
            }
        }
        let first_uncleanable = self.segments[self.segment_at(bound.max(first_dirty))].base();
        let mut is_overdue = false;
        if let Some(lag) = self.config.max_compaction_lag_ms {
            let oldest = now - lag;
            for segment in dirty {
                is_overdue |= segment.first_timestamp()?.is_some_and(|first| first < oldest.0);
            }
        }
        let start = self.segments[self.segment_at(first_dirty.min(first_uncleanable))].base();
        let size = |wanted: &dyn Fn(Offset) -> bool| {
            let wanted = self.segments.iter().filter(|segment| wanted(segment.base()));
            wanted.map(|segment| segment.size).sum()
        };
        Ok(CleaningState {
            first_dirty,
            first_uncleanable,
            clean_bytes: size(&|base| base < first_dirty),
            cleanable_bytes: size(&|base| base >= start && base < first_uncleanable),
            is_overdue,
            was_reset,
        })
    }

    /// The transactions that were aborted and have records in `from..to`.
    pub(crate) fn aborted(
        &self,
        from: Offset,
        to: Offset,
    ) -> Result<Vec<TransactionEntry>, DiskError> {
        let mut found = Vec::new();
        for segment in &self.segments[self.segment_at(from)..] {
            let entries = segment.transactions.read_all(&segment.files)?;
            let is_last = entries.iter().any(|entry| entry.last_stable_offset >= to);
            found.extend(
                entries
                    .into_iter()
                    .filter(|entry| entry.last_offset >= from && entry.first_offset < to),
            );
            if is_last {
                break;
            }
        }
        Ok(found)
    }
}
