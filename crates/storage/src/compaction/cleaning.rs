//! Compacting one log.

use super::Pace;
use super::offset_map::OffsetMap;
use super::output::Output;
use super::swap::{CleanedGroup, remove_files};
use super::transactions::{Marker, OpenTransactions};
use super::view::{CleaningState, LogView, SegmentView};
use crate::error::{DiskError, LogError};
use crate::files::Kind;
use crate::scan::Scanner;
use crate::segment::Lookup;
use crate::transaction_index::TransactionEntry;
use model::{Offset, ProducerId, Timestamp};
use protocol::records::validate::INFLATE_LIMIT;
use protocol::records::{Batch, BatchHeader, Batches, Record, RecordsError};
use protocol::records::{RetainRules, Retained, empty_batch, retain};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// The memory of one compaction.
#[derive(Clone, Copy, Debug)]
pub struct CleaningBuffers {
    /// Bytes for keys: `log.cleaner.dedupe.buffer.size`, a thread's share.
    pub dedupe_bytes: u64,
    /// How full the table of keys may become: `log.cleaner.io.buffer.load.factor`.
    pub dedupe_load_factor: f64,
    /// Bytes to read or write at once: `log.cleaner.io.buffer.size`, half of a thread's share. A larger
    /// batch is read all the same, as far as it is on disk.
    pub io_bytes: usize,
}

/// Why a log was not compacted. It is as it was, or further compacted.
#[derive(Debug, thiserror::Error)]
pub enum CleaningError {
    /// It was to stop.
    #[error("compaction was interrupted")]
    Interrupted,
    /// What was written cannot be made durable: fatal for the directory.
    #[error(transparent)]
    Sync(LogError),
    /// The disk failed or is full, or the log is damaged.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Not a single key fits in memory.
    #[error("the memory for keys takes none: raise log.cleaner.dedupe.buffer.size")]
    NoRoomForKeys,
}

impl CleaningError {
    /// What it means for the log.
    #[must_use]
    pub fn consequence(&self) -> Consequence {
        match self {
            Self::Interrupted => Consequence::None,
            Self::Log(LogError::Disk(error)) if error.is_full() => Consequence::Postponed,
            Self::Log(LogError::Offline) => Consequence::Postponed,
            Self::Sync(_) | Self::Log(LogError::Disk(_)) => Consequence::Offline,
            Self::Log(LogError::Damaged { .. } | LogError::OutOfRange { .. })
            | Self::NoRoomForKeys => Consequence::Uncleanable,
        }
    }
}

/// What becomes of a log that could not be compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consequence {
    /// Nothing is wrong with it.
    None,
    /// It can be tried again.
    Postponed,
    /// It would go wrong again, until somebody does something about it.
    Uncleanable,
    /// Its directory's disk has failed.
    Offline,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CleaningTotals {
    /// Bytes of batches that were read and of those that were left.
    pub bytes_before: u64,
    /// See `bytes_before`.
    pub bytes_after: u64,
    /// Keys in the dirty part.
    pub keys: usize,
    /// Records without a key, which do not belong into a compacted log and are dropped.
    pub keyless: u64,
}

/// One compaction of one log.
#[derive(Debug)]
pub struct Cleaning {
    view: LogView,
    state: CleaningState,
    buffers: CleaningBuffers,
    now: Timestamp,
    keys: OffsetMap,
    /// Exclusive: records from here on stay as they are.
    end_offset: Offset,
    groups: VecDeque<Range<usize>>,
    transactions: OpenTransactions,
    /// Tombstones of magic 0 and 1 go in segments that were last modified at or before this.
    legacy_horizon: Timestamp,
    totals: CleaningTotals,
}

impl Cleaning {
    /// Reads the dirty part of the log. `seed` is secret and random.
    ///
    /// # Errors
    /// [`CleaningError`].
    pub fn begin(
        view: LogView,
        state: CleaningState,
        buffers: CleaningBuffers,
        seed: u64,
        now: Timestamp,
        pace: &mut dyn Pace,
    ) -> Result<Self, CleaningError> {
        assert!(state.first_uncleanable > state.first_dirty, "nothing is dirty: {state:?}");
        // A crash must not find holes above the recovery point.
        view.log_directory.write_recovery_points().map_err(LogError::from)?;
        let clean = view.segments.iter().rfind(|segment| segment.base() < state.first_dirty);
        let legacy_horizon = match clean {
            Some(clean) => {
                clean.modified().map_err(LogError::from)? - view.config.delete_retention_ms
            }
            None => Timestamp(0),
        };
        let span = u64::try_from(state.first_uncleanable.0 - state.first_dirty.0).unwrap_or(0);
        let keys = OffsetMap::new(buffers.dedupe_bytes, buffers.dedupe_load_factor, span, seed);
        let mut cleaning = Self {
            keys,
            end_offset: state.first_dirty,
            groups: VecDeque::new(),
            transactions: OpenTransactions::new(Vec::new()),
            legacy_horizon,
            totals: CleaningTotals::default(),
            view,
            state,
            buffers,
            now,
        };
        cleaning.collect_keys(pace)?;
        if cleaning.end_offset <= state.first_dirty {
            return Err(CleaningError::NoRoomForKeys);
        }
        cleaning.totals.keys = cleaning.keys.len();
        cleaning.group();
        let first = cleaning.view.segments[0].base();
        let aborted =
            cleaning.view.aborted(first, state.first_uncleanable).map_err(LogError::from)?;
        cleaning.transactions = OpenTransactions::new(aborted);
        Ok(cleaning)
    }

    /// Exclusive end of what is compacted once all groups are.
    #[must_use]
    pub fn end_offset(&self) -> Offset {
        self.end_offset
    }

    /// The log's state when the compaction began.
    #[must_use]
    pub fn state(&self) -> &CleaningState {
        &self.state
    }

    /// What was done so far.
    #[must_use]
    pub fn totals(&self) -> CleaningTotals {
        self.totals
    }

    /// Counts the changes of the log that make compaction void.
    pub(crate) fn generation(&self) -> u64 {
        self.view.generation
    }

    // ---- the newest offsets of the keys ----

    fn collect_keys(&mut self, pace: &mut dyn Pace) -> Result<(), CleaningError> {
        let CleaningState { first_dirty, first_uncleanable, .. } = self.state;
        let aborted = self.view.aborted(first_dirty, first_uncleanable).map_err(LogError::from)?;
        let mut transactions = OpenTransactions::new(aborted);
        let first = self.view.segment_at(first_dirty);
        for at in first..self.view.segments.len() - 1 {
            let segment = &self.view.segments[at];
            if segment.base() >= first_uncleanable {
                break;
            }
            let position = position_of(segment, first_dirty).map_err(LogError::from)?;
            let mut batches = Batched::new(segment, position, self.buffers.io_bytes)?;
            while let Some(batch) = batches.next(pace)? {
                let end = collect(&batch, segment, first_dirty, &mut transactions, &mut self.keys)?;
                self.end_offset = self.end_offset.max(end.unwrap_or(next_offset(&batch)));
                if end.is_some() {
                    return Ok(());
                }
            }
            // Compaction may have left a gap.
            let next = self.view.segments[at + 1].base();
            self.end_offset = self.end_offset.max(next.min(first_uncleanable));
        }
        Ok(())
    }

    // ---- groups ----

    /// Joins segments that fit into one, so that segments do not shrink for ever.
    fn group(&mut self) {
        let config = &self.view.config;
        let segments = &self.view.segments;
        let count = segments.partition_point(|segment| segment.base() < self.end_offset);
        let mut at = 0;
        while at < count {
            let (start, base) = (at, segments[at].base());
            let (mut bytes, mut offsets, mut times) = (0, 0, 0);
            while at < count {
                let segment = &segments[at];
                bytes += segment.size;
                offsets += segment.offset_index.size_bytes();
                times += segment.time_index.size_bytes();
                let next = segments.get(at + 1).map_or(self.end_offset, SegmentView::base);
                let fits = bytes <= config.segment_bytes
                    && offsets.max(times) <= config.segment_index_bytes
                    && (segment.size == 0 || next.0 - 1 - base.0 <= i64::from(i32::MAX));
                if !fits && at > start {
                    break;
                }
                at += 1;
            }
            self.groups.push_back(start..at);
        }
    }

    /// Rewrites the next group of segments; `None` if all are.
    ///
    /// # Errors
    /// [`CleaningError`]; what was written is removed.
    pub fn clean_next(
        &mut self,
        pace: &mut dyn Pace,
    ) -> Result<Option<CleanedGroup>, CleaningError> {
        let Some(range) = self.groups.pop_front() else { return Ok(None) };
        let old = &self.view.segments[range];
        let flush_at = self.buffers.io_bytes.max(1);
        let base = old[0].base();
        let (directory, config) = (&self.view.directory, &self.view.config);
        let mut output =
            Output::new(directory, config, base, self.now, flush_at).map_err(LogError::from)?;
        let mut pass = Pass {
            state: &self.state,
            view: &self.view,
            keys: &self.keys,
            end_offset: self.end_offset,
            now: self.now,
            transactions: &mut self.transactions,
            totals: &mut self.totals,
            keeps_legacy_tombstones: true,
            rewritten: Vec::new(),
        };
        let mut modified = Timestamp(0);
        let mut clean = || -> Result<(), CleaningError> {
            for segment in old {
                modified = segment.modified().map_err(LogError::from)?;
                pass.keeps_legacy_tombstones = modified > self.legacy_horizon;
                let mut batches = Batched::new(segment, 0, self.buffers.io_bytes)?;
                while let Some(batch) = batches.next(pace)? {
                    pass.clean(&batch, segment, &mut output, pace)?;
                }
            }
            Ok(())
        };
        let outcome = clean();
        let written = match outcome {
            Ok(()) => output.finish(modified, pace),
            Err(error) => Err((output.abandon(), error)),
        };
        match written {
            Ok(new) => {
                self.totals.bytes_after += new.iter().map(|segment| segment.size).sum::<u64>();
                Ok(Some(CleanedGroup {
                    directory: Arc::clone(&self.view.directory),
                    generation: self.view.generation,
                    old: old.iter().map(|segment| Arc::clone(&segment.files)).collect(),
                    new,
                }))
            }
            Err((unfinished, error)) => {
                remove_files(&unfinished);
                Err(error)
            }
        }
    }
}

/// Takes a batch's keys. If not all of them fitted, the offset after the last that did: as with Kafka a
/// batch may have more keys than there is room for, and its other records wait for the next compaction.
fn collect(
    batch: &Batch<'_>,
    segment: &SegmentView,
    first_dirty: Offset,
    transactions: &mut OpenTransactions,
    keys: &mut OffsetMap,
) -> Result<Option<Offset>, CleaningError> {
    let damaged = |error: RecordsError| damaged(segment, batch, &error);
    if let Some(header) = batch.header() {
        if header.attributes.is_control() {
            transactions.marker(header, batch).map_err(damaged)?;
            return Ok(None);
        }
        if transactions.batch(header) {
            return Ok(None);
        }
    }
    let mut end = first_dirty;
    for record in &batch.records(INFLATE_LIMIT).map_err(damaged)? {
        let record = record.map_err(damaged)?;
        let Some(key) = record.key.filter(|_| record.offset >= first_dirty) else { continue };
        if keys.is_full() {
            return Ok(Some(end));
        }
        keys.put(key, record.offset);
        end = Offset(record.offset.0.saturating_add(1));
    }
    Ok(None)
}

/// A pass through the segments that are rewritten.
struct Pass<'a> {
    state: &'a CleaningState,
    view: &'a LogView,
    keys: &'a OffsetMap,
    end_offset: Offset,
    now: Timestamp,
    transactions: &'a mut OpenTransactions,
    totals: &'a mut CleaningTotals,
    keeps_legacy_tombstones: bool,
    rewritten: Vec<u8>,
}

impl Pass<'_> {
    /// Writes what is to stay of a batch.
    fn clean(
        &mut self,
        batch: &Batch<'_>,
        segment: &SegmentView,
        output: &mut Output,
        pace: &mut dyn Pace,
    ) -> Result<(), CleaningError> {
        let damaged = |error: RecordsError| damaged(segment, batch, &error);
        self.totals.bytes_before += batch.bytes().len() as u64;
        let (mut has_outlived, mut aborts) = (false, None::<TransactionEntry>);
        let mut is_discarded = false;
        if let Some(header) = batch.header() {
            if header.attributes.is_control() {
                match self.transactions.marker(header, batch).map_err(damaged)? {
                    Marker::Needed(entry) => aborts = entry,
                    Marker::Outlived => has_outlived = true,
                }
                let is_past = |horizon: Timestamp| horizon <= self.now;
                is_discarded = has_outlived && header.delete_horizon().is_some_and(is_past);
            } else {
                is_discarded = self.transactions.batch(header);
            }
        }
        let keeps_empty = batch.header().filter(|header| {
            self.is_last_of_producer(header) || next_offset(batch) == self.state.first_uncleanable
        });
        if is_discarded && keeps_empty.is_none() {
            return Ok(());
        }
        let retention = i64::try_from(self.view.config.delete_retention_ms.as_millis());
        let rules = RetainRules {
            delete_horizon: Timestamp(self.now.0.saturating_add(retention.unwrap_or(i64::MAX))),
            ends_empty_transaction: has_outlived,
            inflate_limit: INFLATE_LIMIT,
        };
        let keeps_tombstones = match batch.header() {
            Some(header) => header.delete_horizon().is_none_or(|horizon| self.now < horizon),
            None => self.keeps_legacy_tombstones,
        };
        let (keys, end_offset) = (self.keys, self.end_offset);
        let mut keyless = 0;
        let keep = |record: &Record<'_>| {
            if is_discarded || batch.is_control() {
                return !is_discarded;
            }
            if record.offset >= end_offset {
                return true;
            }
            let Some(key) = record.key else {
                keyless += 1;
                return false;
            };
            keys.get(key).is_none_or(|newest| record.offset >= newest)
                && (record.value.is_some() || keeps_tombstones)
        };
        self.rewritten.clear();
        let retained = retain(batch, &rules, keep, &mut self.rewritten).map_err(damaged)?;
        self.totals.keyless += keyless;
        match (retained, keeps_empty) {
            (Retained::Unchanged, _) => output.append(batch.bytes(), aborts, pace),
            (Retained::Rewritten, _) => output.append(&self.rewritten, aborts, pace),
            (Retained::Nothing, Some(header)) => output.append(&empty_batch(header), aborts, pace),
            (Retained::Nothing, None) => Ok(()),
        }
    }

    /// Whether what the log knows of a producer's last sequence and epoch is in this batch.
    fn is_last_of_producer(&self, header: &BatchHeader) -> bool {
        let Some(last) = self.view.last_batches.get(&ProducerId(header.producer_id)) else {
            return false;
        };
        match last.last_offset {
            Some(offset) => header.last_offset() == offset,
            None => header.attributes.is_control() && header.producer_epoch == last.epoch,
        }
    }
}

/// The batches of a segment, each checked.
struct Batched<'a> {
    segment: &'a SegmentView,
    scanner: Scanner<'a>,
    /// Read since the pace was last told.
    untold: u64,
    tell_at: u64,
}

impl<'a> Batched<'a> {
    fn new(
        segment: &'a SegmentView,
        position: u64,
        io_bytes: usize,
    ) -> Result<Self, CleaningError> {
        let io_bytes = io_bytes.max(1);
        let scanner = Scanner::new(&segment.files, position, segment.size, io_bytes);
        let scanner = scanner.map_err(LogError::from)?;
        Ok(Self { segment, scanner, untold: 0, tell_at: io_bytes as u64 })
    }

    fn next(&mut self, pace: &mut dyn Pace) -> Result<Option<Batch<'_>>, CleaningError> {
        let position = self.scanner.position();
        let is_end = position >= self.segment.size;
        if self.untold >= self.tell_at || is_end {
            let untold = std::mem::take(&mut self.untold);
            pace.moved(untold).map_err(|_| CleaningError::Interrupted)?;
        }
        if is_end {
            return Ok(None);
        }
        let path = || self.segment.files.path(Kind::Log);
        let damaged = |reason: String| LogError::Damaged { path: path(), reason };
        // Its own checksum is not all: what was compacted has new ones, also of what has rotted.
        self.segment.verify_at(position)?;
        let next = self.scanner.next_valid().map_err(LogError::from)?;
        let Some((head, bytes)) = next else {
            return Err(damaged(format!("no whole, undamaged batch at position {position}")).into());
        };
        self.untold += head.size;
        match Batches::new(bytes).next() {
            Some(Ok(batch)) => Ok(Some(batch)),
            Some(Err(error)) => Err(damaged(error.to_string()).into()),
            None => unreachable!("it was valid"),
        }
    }
}

/// Where the batch that holds `offset` starts, or the first after it.
fn position_of(segment: &SegmentView, offset: Offset) -> Result<u64, DiskError> {
    if offset <= segment.base() {
        return Ok(0);
    }
    let lookup = Lookup::of(&segment.files, &segment.offset_index, segment.size);
    Ok(lookup.find(offset)?.map_or(segment.size, |batch| batch.position))
}

fn next_offset(batch: &Batch<'_>) -> Offset {
    Offset(batch.last_offset().0.saturating_add(1))
}

fn damaged(segment: &SegmentView, batch: &Batch<'_>, error: &RecordsError) -> LogError {
    LogError::Damaged {
        path: segment.files.path(Kind::Log),
        reason: format!("the batch up to offset {}: {error}", batch.last_offset()),
    }
}
