//! Making damaged segments anew of what the partition's leader has.
//!
//! A [`Mending`] is begun under the log's lock and fed without it with the leader's batches, from
//! [`Mending::wanted`] on. Once [`Mending::take`] says that it is complete, [`Mending::finish`] gives new segments that take the
//! place of the old ones as compaction's do.
//!
//! # Non-obvious
//! - Only complete segments are made anew, and only below the high watermark: what the leader has there is what was
//!   committed. The active segment is completed first.
//! - Whole segments, not parts: what is left of a damaged batch does not tell where the next one begins.
//! - The leader may have compacted further. A tombstone that it has dropped still hides older records here: so of a log
//!   that is compacted everything up to the damaged segment is made anew, in one piece and in less time than
//!   tombstones are kept (`delete.retention.ms`), so that all of it is from the same age of the leader's log.
//! - Elsewhere the leader must have every offset: one that lacks some has lost them, and this replica may not have.

use crate::aborted::AbortedReplay;
use crate::compaction::{CleanedGroup, CleaningError, Interrupted, LogView, Output, Pace};
use crate::compaction::{SegmentView, remove_files};
use crate::error::LogError;
use crate::scan::StoredBatch;
use crate::transaction_index::TransactionEntry;
use bytes::Bytes;
use model::{Offset, Timestamp};
use protocol::records::validate::verified;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// So many bytes are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// Segments that are being made anew.
#[derive(Debug)]
pub struct Mending {
    view: LogView,
    /// Which segments are replaced.
    range: Range<usize>,
    may_have_holes: bool,
    /// The next record that is needed from the leader.
    wanted: Offset,
    /// Exclusive.
    end: Offset,
    begun_at: Timestamp,
    work: Option<Work>,
}

#[derive(Debug)]
struct Work {
    output: Output,
    replay: AbortedReplay,
    /// What the old indexes say, for transactions that begin where the log here is not readable.
    indexed: Vec<TransactionEntry>,
    /// Where the next segments begin.
    bases: VecDeque<Offset>,
}

/// Why segments are not made anew; they are as they were.
#[derive(Debug, thiserror::Error)]
pub enum MendingError {
    /// What the leader has cannot be put there.
    #[error("what the leader has cannot take the place of what is damaged: {0}")]
    Refused(String),
    /// The disk failed or is full.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Bytes come as fast as the leader sends them.
struct AtOnce;

impl Pace for AtOnce {
    fn moved(&mut self, _: u64) -> Result<(), Interrupted> {
        Ok(())
    }
}

impl From<CleaningError> for MendingError {
    fn from(error: CleaningError) -> Self {
        match error {
            CleaningError::Sync(error) | CleaningError::Log(error) => Self::Log(error),
            CleaningError::Interrupted | CleaningError::NoRoomForKeys => {
                unreachable!("only compaction is interrupted, or has keys")
            }
        }
    }
}

impl Mending {
    pub(crate) fn new(
        view: LogView,
        range: Range<usize>,
        may_have_holes: bool,
        now: Timestamp,
    ) -> Self {
        let end = view.segments[range.end - 1].limit;
        let wanted = view.segments[range.start].base().max(view.log_start_offset);
        Self { view, range, may_have_holes, wanted, end, begun_at: now, work: None }
    }

    /// The first offset of the leader's that is needed next.
    #[must_use]
    pub fn wanted(&self) -> Offset {
        self.wanted
    }

    /// Where the first segment begins that is made anew, and where the last one ends (exclusive).
    #[must_use]
    pub fn offsets(&self) -> Range<Offset> {
        self.view.segments[self.range.start].base()..self.end
    }

    /// Takes what the leader has from [`Mending::wanted`] on; may end within a batch. Whether that was all. To be called
    /// without the log's lock.
    ///
    /// # Errors
    /// [`MendingError`]: discard it.
    pub fn take(&mut self, records: &Bytes, now: Timestamp) -> Result<bool, MendingError> {
        self.check_age(now)?;
        for batch in verified(records) {
            let batch = batch.map_err(|error| MendingError::Refused(error.to_string()))?;
            let stored = StoredBatch::of(&batch, 0);
            let first = stored.base_offset.unwrap_or(stored.last_offset);
            if stored.last_offset < self.wanted {
                continue;
            }
            let is_missing = |until: Offset| {
                let wanted = self.wanted;
                MendingError::Refused(format!("it has nothing from {wanted} to {until}"))
            };
            if first >= self.end {
                if self.wanted < self.end && !self.may_have_holes {
                    return Err(is_missing(self.end));
                }
                return Ok(true);
            }
            let Range { start, end } = self.offsets();
            if stored.last_offset >= end || stored.base_offset.is_some_and(|base| base < start) {
                let last = stored.last_offset;
                return Err(MendingError::Refused(format!(
                    "a batch from {first} to {last} is not only of {start} to {end} (exclusive)"
                )));
            }
            // In message sets the first offset is not known.
            if stored.base_offset.is_some_and(|base| base > self.wanted) && !self.may_have_holes {
                return Err(is_missing(first));
            }
            self.append(&stored, first, batch.bytes())?;
            self.wanted = stored.next_offset();
            if self.wanted >= self.end {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_age(&self, now: Timestamp) -> Result<(), MendingError> {
        let age = i128::from(now.0) - i128::from(self.begun_at.0);
        let limit = self.view.config.delete_retention_ms.as_millis();
        let is_too_old = age < 0 || i128::try_from(limit).is_ok_and(|limit| age >= limit);
        if self.may_have_holes && is_too_old {
            let reason = "it took longer than delete.retention.ms, and tombstones may be gone";
            return Err(MendingError::Refused(reason.to_owned()));
        }
        Ok(())
    }

    fn append(
        &mut self,
        stored: &StoredBatch,
        first: Offset,
        bytes: &[u8],
    ) -> Result<(), MendingError> {
        let mut work = match self.work.take() {
            Some(work) => work,
            None => self.begin()?,
        };
        let outcome = work.append(stored, first, bytes);
        self.work = Some(work);
        outcome
    }

    fn begin(&self) -> Result<Work, MendingError> {
        let view = &self.view;
        // A crash must not find holes above the recovery point.
        view.log_directory.write_recovery_points().map_err(LogError::from)?;
        let old = &view.segments[self.range.clone()];
        let replay = AbortedReplay::before(&view.directory, &view.segments, self.range.start);
        let replay = replay.map_err(LogError::from)?;
        let mut indexed = Vec::new();
        for segment in old {
            // One that cannot be read is of no help.
            indexed.extend(segment.transactions.read_all(&segment.files).unwrap_or_default());
        }
        let bases = old.iter().map(SegmentView::base).skip(1).collect();
        let (directory, config) = (&view.directory, &view.config);
        let output = Output::new(directory, config, old[0].base(), self.begun_at, WRITE_BYTES);
        let output = output.map_err(LogError::from)?;
        Ok(Work { output, replay, indexed, bases })
    }

    /// Completes the new segments and makes them durable. To be called without the log's lock.
    ///
    /// # Errors
    /// [`MendingError`]; what was written is removed.
    pub fn finish(mut self, now: Timestamp) -> Result<CleanedGroup, MendingError> {
        if let Err(error) = self.check_age(now) {
            self.discard();
            return Err(error);
        }
        let work = match self.work.take() {
            Some(work) => work,
            // The leader has nothing left there.
            None => self.begin()?,
        };
        let old = &self.view.segments[self.range.clone()];
        let modified = match old[old.len() - 1].modified() {
            Ok(modified) => modified,
            Err(error) => {
                remove_files(&work.output.abandon());
                return Err(LogError::from(error).into());
            }
        };
        let new = work.output.finish(modified, &mut AtOnce).map_err(|(unfinished, error)| {
            remove_files(&unfinished);
            MendingError::from(error)
        })?;
        Ok(CleanedGroup {
            directory: Arc::clone(&self.view.directory),
            generation: self.view.generation,
            old: old.iter().map(|segment| Arc::clone(&segment.files)).collect(),
            new,
        })
    }

    /// Gives up; what was written is removed.
    pub fn discard(self) {
        if let Some(work) = self.work {
            remove_files(&work.output.abandon());
        }
    }
}

impl Work {
    fn append(
        &mut self,
        stored: &StoredBatch,
        first: Offset,
        bytes: &[u8],
    ) -> Result<(), MendingError> {
        let mut base = None;
        while let Some(next) = self.bases.pop_front_if(|base| *base <= first) {
            base = Some(next);
        }
        if let Some(base) = base {
            self.output.next_segment(base, &mut AtOnce)?;
        }
        let mut aborted = None;
        if let Some(header) = &stored.header {
            let found = self.replay.next(header, bytes).map_err(MendingError::Refused)?;
            let is_own = |entry: &&TransactionEntry| {
                header.attributes.is_control()
                    && entry.last_offset == stored.last_offset
                    && entry.producer_id.0 == header.producer_id
            };
            aborted = found.first().copied();
            if aborted.is_none() && !self.replay.is_exact() {
                aborted = self.indexed.iter().find(is_own).copied();
            }
        }
        Ok(self.output.append(bytes, aborted, &mut AtOnce)?)
    }
}
