//! Looking at what lies on the disk before anybody reads it.
//!
//! A [`ScrubSegment`] is looked at without any lock of its log, whatever happens to that meanwhile. What is seen of a
//! segment that is not part of an open log may be out of date: what is found there has to be found again in
//! the log.

use crate::checksums::{Bounds, CELL_BYTES, Cells, Fault, FoundFile};
use crate::compaction::{Interrupted, Pace};
use crate::error::{DiskError, LogError};
use crate::files::{Kind, PartitionDirectory, SegmentFiles};
use crate::offset_index::OffsetIndex;
use crate::partition_log::{ClosedLog, PartitionLog};
use model::{Offset, Timestamp};
use std::io;
use std::sync::Arc;

/// So many cells are read before the pace is told.
const STEP_CELLS: u64 = 16;

/// A segment that can be looked at.
#[derive(Debug)]
pub struct ScrubSegment {
    files: Arc<SegmentFiles>,
    index: OffsetIndex,
    end: u64,
    limit: Offset,
    cuts: u64,
    is_complete: bool,
}

/// What was seen of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes looked at.
    pub bytes: u64,
    /// Parts of 64 KiB in which damaged batches start.
    pub damaged: u64,
}

/// Why a segment was not looked at to its end.
#[derive(Debug, thiserror::Error)]
pub enum ScrubError {
    /// It was to stop.
    #[error("interrupted")]
    Interrupted,
    /// The disk cannot read it.
    #[error(transparent)]
    Disk(#[from] DiskError),
}

impl PartitionLog {
    /// The log's segments, to be looked at.
    #[must_use]
    pub fn scrub(&self) -> Vec<ScrubSegment> {
        let last = self.segments.len() - 1;
        let segments = self.segments.iter().enumerate();
        segments
            .filter(|(_, segment)| segment.published > 0)
            .map(|(at, segment)| ScrubSegment {
                files: Arc::clone(&segment.files),
                index: segment.offset_index.clone(),
                end: segment.published,
                limit: self.segment_end(at),
                cuts: segment.files.cuts(),
                is_complete: at < last,
            })
            .collect()
    }
}

impl ClosedLog {
    /// The log's segments as they lie there, to be looked at; none if it has to be recovered first.
    ///
    /// # Errors
    /// The disk's.
    pub fn scrub(&self) -> Result<Vec<ScrubSegment>, LogError> {
        if self.needs_recovery() {
            return Ok(Vec::new());
        }
        let cache = Arc::clone(&self.log_directory.shared().files);
        let path = self.log_directory.path().join(self.entry.directory_name());
        let mut directory = PartitionDirectory::new(cache, &path);
        directory.is_ours = self.log_directory.was_stopped_by_us();
        let directory = Arc::new(directory);
        let disk = directory.disk();
        let bases: Vec<_> = self.segments_on_disk()?.into_keys().collect();
        let mut segments = Vec::new();
        for (at, &base) in bases.iter().enumerate() {
            let files = Arc::new(SegmentFiles::new(Arc::clone(&directory), base));
            let log = files.path(Kind::Log);
            let metadata = disk.metadata(&log).map_err(DiskError::at("look at", &log))?;
            let (len, modified) = (metadata.len, metadata.modified);
            if len == 0 {
                continue;
            }
            files.was_found(FoundFile { len, modified, is_ours: directory.is_ours });
            let index = disk.metadata(&files.path(Kind::OffsetIndex));
            let next = bases.get(at + 1);
            segments.push(ScrubSegment {
                files,
                index: OffsetIndex::of_length(index.map_or(0, |index| index.len)),
                end: len,
                limit: next.copied().unwrap_or(Offset(i64::MAX)),
                cuts: 0,
                is_complete: next.is_some(),
            });
        }
        Ok(segments)
    }
}

impl ScrubSegment {
    /// Whether nobody has looked at it since `time`.
    #[must_use]
    pub fn is_due(&self, time: Timestamp) -> bool {
        self.files.looked_at_whole().is_none_or(|last| last < time)
    }

    /// Looks at everything in it, and completes what is known of it beside its batches' checksums. What the system did not
    /// have in memory it does not keep there.
    ///
    /// # Errors
    /// [`ScrubError`]. A segment that is removed meanwhile is none.
    pub fn run(&self, now: Timestamp, pace: &mut dyn Pace) -> Result<Scrubbed, ScrubError> {
        match self.look(now, pace) {
            Err(ScrubError::Disk(error)) if error.source.kind() == io::ErrorKind::NotFound => {
                Ok(Scrubbed::default())
            }
            outcome => outcome,
        }
    }

    fn look(&self, now: Timestamp, pace: &mut dyn Pace) -> Result<Scrubbed, ScrubError> {
        let path = self.files.path(Kind::Log);
        let metadata = self.files.directory.disk().metadata(&path);
        let metadata = metadata.map_err(DiskError::at("look at", &path))?;
        let Self { index, end, limit, cuts, .. } = self;
        let bounds = Bounds { index, end: *end, limit: *limit, cuts: *cuts };
        let file = self.files.get(Kind::Log)?;
        let mut cells = Cells::default();
        let mut scrubbed = Scrubbed::default();
        let mut walk = None;
        let all = self.end.div_ceil(CELL_BYTES);
        let mut first = 0;
        while first < all {
            let next = (first + STEP_CELLS).min(all);
            let (from, len) = (first * CELL_BYTES, (next - first) * CELL_BYTES);
            // What is read from the disk now was not looked at, whoever reads it.
            let was_cached =
                !self.files.forget_if_dropped(from, from + len.min(self.end - from))?;
            for cell in first..next {
                match self.files.look_at(cell, bounds, &mut walk) {
                    Ok(found) => cells.push(found),
                    Err(Fault::Bad { .. }) => {
                        scrubbed.damaged += 1;
                        cells.push_unknown();
                    }
                    Err(Fault::Disk(error)) => return Err(error.into()),
                }
            }
            if !was_cached {
                file.drop_cached(from, len);
            }
            let moved = len.min(self.end - from);
            scrubbed.bytes += moved;
            pace.moved(moved).map_err(|Interrupted| ScrubError::Interrupted)?;
            first = next;
        }
        let was_complete = self.is_complete && metadata.len == self.end;
        if was_complete && scrubbed.damaged == 0 {
            self.files.complete_checksums(&cells, self.end, metadata.modified);
        }
        self.files.note_looked_at_whole(now);
        Ok(scrubbed)
    }
}
