//! One segment: a file of batches and its indexes.

use crate::checksums::{Bounds, Fault};
use crate::entry_file::{Entry, EntryFile};
use crate::error::{DiskError, LogError, ReadError};
use crate::files::{Kind, SegmentFiles};
use crate::largest_timestamp;
use crate::log_config::LogConfig;
use crate::offset_index::{OffsetEntry, OffsetIndex};
use crate::scan::{Scanner, StoredBatch};
use crate::time_index::{TimeEntry, TimeIndex};
use crate::transaction_index::TransactionIndex;
use model::{Offset, Timestamp};
use std::io::IoSlice;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The largest timestamp in a segment and the last offset of the batch that has it first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaxTimestamp {
    /// -1 if no record has a timestamp.
    pub(crate) timestamp: i64,
    pub(crate) offset: Offset,
}

#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) base: Offset,
    pub(crate) files: Arc<SegmentFiles>,
    /// Bytes of batches, with those that are reserved and not yet written.
    pub(crate) size: u64,
    /// Bytes of batches that may be read.
    pub(crate) published: u64,
    pub(crate) offset_index: OffsetIndex,
    pub(crate) time_index: TimeIndex,
    pub(crate) transactions: TransactionIndex,
    /// Not known before it is asked for, in segments that were opened; then as the time index says.
    max_timestamp: Option<MaxTimestamp>,
    /// Bytes of batches that were there when it was opened, or were left of them.
    found: u64,
    /// The largest timestamp in those, once it was looked for.
    found_max: OnceLock<MaxTimestamp>,
    /// The largest timestamp of what was appended since.
    appended_max: Option<MaxTimestamp>,
    /// Largest timestamp of the first batch; not known before it is asked for.
    first_timestamp: Option<i64>,
    bytes_since_index_entry: u64,
    /// When this object was made or emptied; for rolling where records have no timestamps.
    pub(crate) created: Timestamp,
    /// Space is reserved up to here.
    pub(crate) reserved: u64,
    /// The largest timestamp is in the time index, as the last entry (it is trimmed and complete).
    pub(crate) sealed: bool,
    /// Nothing in it is published: its files may not even exist.
    pub(crate) provisional: bool,
    /// Entries of the transaction index with those that are reserved and not yet written.
    pub(crate) reserved_transactions: usize,
}

/// The largest offset, relative to the base, that an index can hold.
const MAX_RELATIVE: i64 = i32::MAX as i64;

impl Segment {
    /// A segment without batches, whose files are not there yet.
    pub(crate) fn empty(files: Arc<SegmentFiles>, now: Timestamp) -> Self {
        let files_base = files.base;
        Self {
            base: files_base,
            files,
            size: 0,
            published: 0,
            offset_index: OffsetIndex::of_length(0),
            time_index: TimeIndex::of_length(0),
            transactions: TransactionIndex::default(),
            max_timestamp: Some(MaxTimestamp { timestamp: -1, offset: files_base }),
            found: 0,
            found_max: OnceLock::new(),
            appended_max: None,
            first_timestamp: None,
            bytes_since_index_entry: 0,
            created: now,
            reserved: 0,
            sealed: false,
            provisional: false,
            reserved_transactions: 0,
        }
    }

    /// A segment whose files are right.
    pub(crate) fn existing(
        files: Arc<SegmentFiles>,
        size: u64,
        offset_index_bytes: u64,
        time_index_bytes: u64,
        transactions: TransactionIndex,
        now: Timestamp,
    ) -> Self {
        Self {
            size,
            published: size,
            offset_index: OffsetIndex::of_length(offset_index_bytes),
            time_index: TimeIndex::of_length(time_index_bytes),
            transactions,
            max_timestamp: None,
            found: size,
            sealed: true,
            reserved_transactions: transactions.entries,
            ..Self::empty(files, now)
        }
    }

    /// The offset relative to the base, if the indexes can hold it.
    pub(crate) fn relative(&self, offset: Offset) -> Option<i32> {
        i32::try_from(offset.0.checked_sub(self.base.0)?).ok().filter(|&relative| relative >= 0)
    }

    // ---- appending ----

    /// Whether a batch set must go into a new segment (log-format 4.6).
    pub(crate) fn must_roll(
        &mut self,
        config: &LogConfig,
        jitter: Duration,
        incoming: &Incoming,
        now: Timestamp,
    ) -> Result<bool, DiskError> {
        if self.size > config.segment_bytes.saturating_sub(incoming.size)
            || self.offset_index.len() as u64
                >= config.segment_index_bytes / OffsetEntry::SIZE as u64
            || self.time_index.len() as u64 + 1
                >= config.segment_index_bytes / TimeEntry::SIZE as u64
            || incoming.last_offset.0 - self.base.0 > MAX_RELATIVE
        {
            return Ok(true);
        }
        if self.size == 0 {
            return Ok(false);
        }
        let waited = match self.first_timestamp()? {
            Some(first) => i128::from(incoming.max_timestamp) - i128::from(first),
            None => i128::from(now.0) - i128::from(self.created.0),
        };
        let limit = config.max_segment_ms().saturating_sub(jitter).as_millis();
        Ok(waited > i128::try_from(limit).unwrap_or(i128::MAX))
    }

    /// The largest timestamp of the first batch, if it has one.
    fn first_timestamp(&mut self) -> Result<Option<i64>, DiskError> {
        if self.first_timestamp.is_none() && self.published > 0 {
            let first = Scanner::near(&self.files, 0, self.published)?.next_head()?;
            self.first_timestamp = first.map(|batch| batch.max_timestamp);
        }
        Ok(self.first_timestamp.filter(|&timestamp| timestamp >= 0))
    }

    /// Accounts for a batch that is being appended; index entries as Kafka 3.9.2 makes them.
    pub(crate) fn append(&mut self, batch: &StoredBatch, config: &LogConfig) {
        self.note_timestamp(batch);
        if batch.max_timestamp > self.appended_max.map_or(-1, |max| max.timestamp) {
            self.appended_max =
                Some(MaxTimestamp { timestamp: batch.max_timestamp, offset: batch.last_offset });
        }
        if self.size == 0 {
            self.first_timestamp = Some(batch.max_timestamp);
        }
        if self.bytes_since_index_entry > config.index_interval_bytes {
            self.push_offset_entry(batch.last_offset, self.size);
            self.push_time_entry();
            self.bytes_since_index_entry = 0;
        }
        self.size += batch.size;
        self.bytes_since_index_entry += batch.size;
        self.sealed = false;
    }

    pub(crate) fn note_timestamp(&mut self, batch: &StoredBatch) {
        if batch.max_timestamp > self.max_timestamp.map_or(-1, |max| max.timestamp) {
            self.max_timestamp =
                Some(MaxTimestamp { timestamp: batch.max_timestamp, offset: batch.last_offset });
        }
    }

    pub(crate) fn push_offset_entry(&mut self, last_offset: Offset, position: u64) {
        let relative_offset = self.relative(last_offset).expect("rolled before it would not fit");
        let position = u32::try_from(position).expect("a segment has at most 2^31 bytes");
        self.offset_index.push(OffsetEntry { relative_offset, position });
    }

    /// Adds the largest timestamp to the time index, unless the last entry has it.
    pub(crate) fn push_time_entry(&mut self) {
        let Some(max) = self.max_timestamp.filter(|max| max.timestamp >= 0) else { return };
        let last = self.time_index.known_last();
        if last.is_none_or(|last| last.timestamp < max.timestamp) {
            let relative_offset = self.relative(max.offset).expect("it is in this segment");
            self.time_index.push(TimeEntry { timestamp: max.timestamp, relative_offset });
        }
    }

    /// Prepares an opened segment for appending.
    pub(crate) fn activate(&mut self) -> Result<(), DiskError> {
        self.offset_index.load_last(&self.files)?;
        self.time_index.load_last(&self.files)?;
        if self.max_timestamp.is_none() {
            self.max_timestamp = Some(self.last_time_entry()?);
        }
        self.bytes_since_index_entry = 0;
        Ok(())
    }

    fn last_time_entry(&self) -> Result<MaxTimestamp, DiskError> {
        let last = self.time_index.last(&self.files)?;
        Ok(last.map_or(MaxTimestamp { timestamp: -1, offset: self.base }, |last| MaxTimestamp {
            timestamp: last.timestamp,
            offset: self.base + i64::from(last.relative_offset),
        }))
    }

    // ---- finding ----

    /// The first batch whose last offset is at or above `offset`, below position `end`.
    pub(crate) fn find(&self, offset: Offset, end: u64) -> Result<Option<StoredBatch>, DiskError> {
        Lookup::new(self, end).find(offset)
    }

    /// The largest timestamp of the segment. Of one that was opened its batches are looked at when this is first asked.
    pub(crate) fn largest_timestamp(&self) -> Result<MaxTimestamp, DiskError> {
        if let Some(known) = self.known_largest_timestamp() {
            return Ok(known);
        }
        let found = self.found.min(self.published);
        let max =
            largest_timestamp::find(&self.files, &self.offset_index, &self.time_index, found)?;
        Ok(self.with_appended(*self.found_max.get_or_init(|| max)))
    }

    /// The same, if it is known without looking.
    pub(crate) fn known_largest_timestamp(&self) -> Option<MaxTimestamp> {
        let none = MaxTimestamp { timestamp: -1, offset: self.base };
        let found = if self.found == 0 { none } else { *self.found_max.get()? };
        Some(self.with_appended(found))
    }

    /// The largest timestamp, if `found` is that of what was there when the segment was opened.
    fn with_appended(&self, found: MaxTimestamp) -> MaxTimestamp {
        self.appended_max.filter(|later| later.timestamp > found.timestamp).unwrap_or(found)
    }

    /// The first batch with a timestamp of at least `timestamp`, and those after it, in order. Offsets of the
    /// segment are below `limit`.
    pub(crate) fn scan_from_timestamp(
        &self,
        timestamp: i64,
        at_least: Offset,
        limit: Offset,
    ) -> Result<Scanner<'_>, ReadError> {
        let entry =
            self.time_index.last_where(&self.files, |entry| entry.timestamp <= timestamp)?;
        let lookup = Lookup::new(self, self.published);
        let mut from = self.base;
        if let Some(entry) = entry {
            match largest_timestamp::batch_of(&lookup, entry)? {
                Some(_) => from = self.base + i64::from(entry.relative_offset),
                None => self.files.blame_index(Kind::TimeIndex),
            }
        }
        let first = lookup.find_verified(from.max(at_least), limit)?;
        let position = first.map_or(self.published, |batch| batch.position);
        Ok(Scanner::near(&self.files, position, self.published)?)
    }

    // ---- shortening and closing ----

    /// Cuts the segment before the batch that holds `offset`; returns the offset after the batch before. Files
    /// are cut at once.
    pub(crate) fn truncate_to(
        &mut self,
        offset: Offset,
        now: Timestamp,
    ) -> Result<Offset, LogError> {
        assert_eq!(self.size, self.published, "nothing is reserved while a log is truncated");
        let end = self.find(offset, self.size)?.map_or(self.size, |batch| batch.position);
        let keep = self.relative(offset).map_or(0, i64::from);
        let files = Arc::clone(&self.files);
        let below = |relative: i32| i64::from(relative) < keep;
        let offsets = self.offset_index.partition_point(&files, |e| below(e.relative_offset))?;
        let times = self.time_index.partition_point(&files, |e| below(e.relative_offset))?;
        let transactions = self.transactions.read_all(&files)?;
        let transactions = transactions.partition_point(|entry| entry.last_offset < offset);
        self.files.forget_from(end);
        self.files.cut_log(end)?;
        self.offset_index.keep(offsets);
        self.time_index.keep(times);
        self.write_indexes(IndexWrites::Cut)?;
        if transactions < self.transactions.entries {
            self.transactions.entries = transactions;
            self.reserved_transactions = transactions;
            let len = transactions * crate::transaction_index::ENTRY_BYTES;
            self.set_len(Kind::TransactionIndex, len as u64)?;
            // No flush looks at it if nothing is left in it.
            self.files.sync(Kind::TransactionIndex)?;
        }
        (self.size, self.published) = (end, end);
        if end == 0 {
            self.created = now;
            self.first_timestamp = None;
        }
        self.max_timestamp = None;
        (self.found, self.found_max, self.appended_max) = (end, OnceLock::new(), None);
        self.reserved = 0;
        self.sealed = false;
        self.activate()?;
        Ok(self.rescan_end()?)
    }

    /// Finds the largest timestamp among the batches that came after the last time index entry; returns the
    /// offset after the last batch.
    fn rescan_end(&mut self) -> Result<Offset, DiskError> {
        let max = self.last_time_entry()?;
        self.max_timestamp = Some(max);
        // Older Kafka's entries name a record inside a batch, which may just have been cut off.
        let from = self.find(max.offset, self.size)?.map_or(0, |batch| batch.position);
        let files = Arc::clone(&self.files);
        let mut scanner = Scanner::near(&files, from, self.size)?;
        let mut end = self.base;
        while let Some(batch) = scanner.next_head()? {
            self.note_timestamp(&batch);
            end = batch.next_offset();
        }
        Ok(end)
    }

    fn set_len(&self, kind: Kind, len: u64) -> Result<(), DiskError> {
        let file = self.files.create(kind)?;
        file.set_len(len).map_err(DiskError::at("truncate", &self.files.path(kind)))
    }

    /// Makes the indexes complete: the largest timestamp is the last entry, everything is in the
    /// files, and the files have their exact length. Frees reserved space.
    pub(crate) fn seal(&mut self) -> Result<(), DiskError> {
        if self.sealed {
            return Ok(());
        }
        self.push_time_entry();
        self.write_indexes(IndexWrites::Cut)?;
        if self.reserved > self.size {
            self.set_len(Kind::Log, self.size)?;
            self.reserved = 0;
        }
        self.files.try_save_checksums(self.size);
        self.sealed = true;
        Ok(())
    }

    /// Writes what is only in memory into the index files.
    pub(crate) fn write_indexes(&mut self, cut: IndexWrites) -> Result<(), DiskError> {
        write_index(&self.files, &mut self.offset_index, cut)?;
        write_index(&self.files, &mut self.time_index, cut)
    }

    /// The index files that are not known to be whole.
    pub(crate) fn unwritten_indexes(&self) -> impl Iterator<Item = Kind> + use<> {
        let is_whole = |len: usize, unwritten: usize| len > 0 && unwritten == 0;
        let offsets = is_whole(self.offset_index.len(), self.offset_index.unwritten());
        let times = is_whole(self.time_index.len(), self.time_index.unwritten());
        let found = [(Kind::OffsetIndex, offsets), (Kind::TimeIndex, times)];
        found.into_iter().filter(|(_, is_whole)| !is_whole).map(|(kind, _)| kind)
    }

    /// Makes the index files of a segment that may be flushed already: a start believes those that it finds.
    /// Each was written whole or not at all.
    pub(crate) fn make_indexes(&mut self) -> Result<(), DiskError> {
        make_index(&self.files, &mut self.offset_index)?;
        make_index(&self.files, &mut self.time_index)
    }

    /// As [`Self::seal`], for a segment that is not active: its indexes did not fit on the disk when it was recovered.
    pub(crate) fn seal_late(&mut self) -> Result<(), DiskError> {
        if !self.sealed {
            self.make_indexes()?;
            self.files.try_save_checksums(self.size);
            self.sealed = true;
        }
        Ok(())
    }

    /// Names of the files that may exist.
    pub(crate) fn paths(&self) -> impl Iterator<Item = std::path::PathBuf> + '_ {
        Kind::ALL.into_iter().map(|kind| self.files.path(kind))
    }
}

/// Whether index files are also cut to their exact length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexWrites {
    Append,
    Cut,
}

fn write_index<E: Entry>(
    files: &SegmentFiles,
    index: &mut EntryFile<E>,
    cut: IndexWrites,
) -> Result<(), DiskError> {
    let path = files.path(E::KIND);
    let file = files.create(E::KIND)?;
    let (position, bytes) = index.encode_unwritten();
    if !bytes.is_empty() {
        file.write_all_at(&[IoSlice::new(&bytes)], position)
            .map_err(DiskError::at("write", &path))?;
    }
    if cut == IndexWrites::Cut {
        let len = file.len().map_err(DiskError::at("measure", &path))?;
        if len != index.size_bytes() {
            file.set_len(index.size_bytes()).map_err(DiskError::at("truncate", &path))?;
        }
    }
    index.mark_written(index.unwritten());
    Ok(())
}

fn make_index<E: Entry>(files: &SegmentFiles, index: &mut EntryFile<E>) -> Result<(), DiskError> {
    let (position, bytes) = index.encode_unwritten();
    if position > 0 && bytes.is_empty() {
        return Ok(());
    }
    assert_eq!(position, 0, "it is written whole: {:?}", files.path(E::KIND));
    files.replace(E::KIND, &bytes)?;
    index.mark_written(index.unwritten());
    Ok(())
}

/// Finds batches by offset; holds what it needs, so that it can be used without the log's lock.
#[derive(Debug)]
pub(crate) struct Lookup {
    files: Arc<SegmentFiles>,
    offset_index: OffsetIndex,
    /// Position after the last batch that counts.
    pub(crate) end: u64,
    /// How often the segment had been cut.
    cuts: u64,
}

impl Lookup {
    pub(crate) fn new(segment: &Segment, end: u64) -> Self {
        Self::of(&segment.files, &segment.offset_index, end)
    }

    pub(crate) fn of(files: &Arc<SegmentFiles>, offset_index: &OffsetIndex, end: u64) -> Self {
        let cuts = files.cuts();
        Self { files: Arc::clone(files), offset_index: offset_index.clone(), end, cuts }
    }

    pub(crate) fn files(&self) -> &Arc<SegmentFiles> {
        &self.files
    }

    /// Whether the system has the offset index in memory.
    pub(crate) fn has_index_at_hand(&self) -> bool {
        let bytes = self.offset_index.written_bytes();
        bytes == 0 || self.files.get(Kind::OffsetIndex).is_ok_and(|file| file.is_cached(0, bytes))
    }

    /// A position at or before that of the batch with `offset`, as the index has it; 0 if it has none.
    pub(crate) fn near(&self, offset: Offset) -> Result<u64, DiskError> {
        Ok(self.indexed(offset)?.unwrap_or(0))
    }

    fn indexed(&self, offset: Offset) -> Result<Option<u64>, DiskError> {
        let relative = offset.0.saturating_sub(self.files.base.0);
        let entry = self
            .offset_index
            .last_where(&self.files, |entry| i64::from(entry.relative_offset) <= relative)?;
        Ok(entry.map(|entry| u64::from(entry.position)))
    }

    /// The first batch whose last offset is at or above `offset`.
    pub(crate) fn find(&self, offset: Offset) -> Result<Option<StoredBatch>, DiskError> {
        let mut scanner = Scanner::near(&self.files, self.near(offset)?, self.end)?;
        while let Some(batch) = scanner.next_head()? {
            if batch.last_offset >= offset {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    fn bounds(&self, limit: Offset) -> Bounds<'_> {
        Bounds { index: &self.offset_index, end: self.end, limit, cuts: self.cuts }
    }

    /// Looks at what of `from..to` was not looked at since it came from the disk, until `budget` bytes were read.
    /// Offsets of the segment are below `limit`. Returns up to where batches are right that start at or after
    /// `from`.
    pub(crate) fn verify(
        &self,
        from: u64,
        to: u64,
        limit: Offset,
        budget: u64,
    ) -> Result<u64, Fault> {
        self.files.verify(self.bounds(limit), from, to.min(self.end), budget)
    }

    /// As [`Self::find`]; every batch on the way was looked at since it came from the disk. Offsets of the
    /// segment are below `limit`.
    ///
    /// # Errors
    /// [`ReadError::Corrupt`] if the batch may be in a part of the file that is damaged.
    pub(crate) fn find_verified(
        &self,
        offset: Offset,
        limit: Offset,
    ) -> Result<Option<StoredBatch>, ReadError> {
        Ok(self.find_from(offset, limit)?.map(|(batch, _)| batch))
    }

    /// As [`Self::find_verified`], with the position from which the file was read for it.
    pub(crate) fn find_from(
        &self,
        offset: Offset,
        limit: Offset,
    ) -> Result<Option<(StoredBatch, u64)>, ReadError> {
        if let Some(from) = self.indexed(offset)? {
            match self.walk_to(offset, from, limit)? {
                Walk::Found(batch) => return Ok(Some((batch, from))),
                Walk::End => return Ok(None),
                Walk::Lost if self.files.cuts() != self.cuts => {
                    return Err(self.files.gone().into());
                }
                Walk::Lost => self.files.blame_index(Kind::OffsetIndex),
            }
        }
        match self.walk_to(offset, 0, limit)? {
            Walk::Found(batch) => Ok(Some((batch, 0))),
            Walk::End => Ok(None),
            Walk::Lost if self.files.cuts() != self.cuts => Err(self.files.gone().into()),
            Walk::Lost => {
                Err(ReadError::Corrupt { offset, reason: "no batch leads there".to_owned() })
            }
        }
    }

    fn walk_to(&self, offset: Offset, from: u64, limit: Offset) -> Result<Walk, ReadError> {
        let mut position = from;
        let mut scanner = Scanner::near(&self.files, position, self.end)?;
        let mut must_begin_below = from > 0;
        while position < self.end {
            if let Err(fault) = self.verify(position, position + 1, limit, u64::MAX) {
                // What comes after the damaged part can be read.
                let next = match &fault {
                    Fault::Bad { .. } => self.files.next_known_start(position, self.end),
                    Fault::Disk(_) => None,
                };
                let Some(next) = next else { return Err(fault.at(offset)) };
                if let Err(Fault::Disk(error)) = self.verify(next, next + 1, limit, u64::MAX) {
                    return Err(error.into());
                }
                scanner = Scanner::near(&self.files, next, self.end)?;
                let head = scanner.next_head()?;
                if head.is_none_or(|head| first_offset(&head) > offset) {
                    return Err(fault.at(offset));
                }
                position = next;
                scanner = Scanner::near(&self.files, next, self.end)?;
                must_begin_below = false;
                continue;
            }
            let Some(batch) = scanner.next_head()? else { return Ok(Walk::Lost) };
            if std::mem::take(&mut must_begin_below) && first_offset(&batch) > offset {
                return Ok(Walk::Lost);
            }
            if batch.last_offset >= offset {
                let is_possible = batch.last_offset < limit;
                return Ok(if is_possible { Walk::Found(batch) } else { Walk::Lost });
            }
            position = batch.end();
        }
        Ok(if from < self.end || from == 0 { Walk::End } else { Walk::Lost })
    }

    /// An offset at or after the batches below `position`: where the index has one, else `end`.
    pub(crate) fn offset_at_or_after(
        &self,
        position: u64,
        end: Offset,
    ) -> Result<Offset, DiskError> {
        let entry = self
            .offset_index
            .first_not(&self.files, |entry| u64::from(entry.position) < position)?;
        Ok(entry.map_or(end, |entry| self.files.base + i64::from(entry.relative_offset)))
    }
}

/// The first offset that a batch may have.
fn first_offset(batch: &StoredBatch) -> Offset {
    batch.base_offset.unwrap_or(batch.last_offset)
}

/// Where a walk through batches ended.
enum Walk {
    Found(StoredBatch),
    /// All batches are below.
    End,
    /// It began where no batch does, or too late.
    Lost,
}

/// What is about to be appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) size: u64,
    pub(crate) last_offset: Offset,
    pub(crate) max_timestamp: i64,
}
