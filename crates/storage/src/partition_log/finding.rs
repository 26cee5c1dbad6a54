//! Reading, counting and searching.

use super::PartitionLog;
use crate::error::{DiskError, ReadError};
use crate::files::Kind;
use crate::read::{LogRead, ReadRequest, TimestampOffset};
use crate::read_plan::{FilePlan, Plan, ReadPlan};
use crate::scan::{Scanner, StoredBatch};
use crate::segment::{Lookup, Segment};
use model::{Offset, Timestamp};
use protocol::records::Batches;
use protocol::records::validate::INFLATE_LIMIT;
use std::sync::Arc;

impl PartitionLog {
    /// Reads records; [`PartitionLog::plan_read`] and [`ReadPlan::run`] in one.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&self, request: ReadRequest) -> Result<LogRead, ReadError> {
        self.plan_read(request)?.run()
    }

    /// Decides what to read without touching the disk. An answer from memory is complete at once.
    ///
    /// # Errors
    /// [`ReadError::OutOfRange`].
    pub fn plan_read(&self, mut request: ReadRequest) -> Result<ReadPlan, ReadError> {
        let ReadRequest { offset, want_aborted, .. } = request;
        if offset < self.log_start_offset || offset > self.log_end_offset {
            return Err(ReadError::OutOfRange {
                offset,
                log_start_offset: self.log_start_offset,
                log_end_offset: self.log_end_offset,
            });
        }
        request.upper_bound = request.upper_bound.min(self.log_end_offset);
        let bound = request.upper_bound;
        if offset >= bound {
            return Ok(ReadPlan(Plan::Empty { want_aborted }));
        }
        let at = self.segment_at(offset);
        let has_aborted = want_aborted
            && self.segments[at..].iter().any(|segment| segment.transactions.entries > 0);
        if !has_aborted
            && let Some(read) =
                self.tail.read(offset, bound, request.max_bytes, request.min_one_message)
        {
            return Ok(ReadPlan(Plan::Memory { read, want_aborted }));
        }
        let mut lookups = Vec::with_capacity(2);
        let mut ends = Vec::with_capacity(2);
        for at in at..self.segments.len() {
            let segment = &self.segments[at];
            if lookups.len() == 2 || segment.base >= bound && !lookups.is_empty() {
                break;
            }
            if segment.published > 0 {
                lookups.push(Lookup::new(segment, segment.published));
                ends.push(self.segment_end(at));
            }
        }
        let transactions = if has_aborted {
            let with_index = self.segments[at..].iter().filter(|s| s.transactions.entries > 0);
            with_index.map(|segment| (Arc::clone(&segment.files), segment.transactions)).collect()
        } else {
            Vec::new()
        };
        let to_the_end = bound == self.log_end_offset;
        let plan = FilePlan { request, lookups, to_the_end, ends, transactions };
        Ok(ReadPlan(Plan::File(Box::new(plan))))
    }

    /// The segment whose range holds `offset`.
    fn segment_at(&self, offset: Offset) -> usize {
        self.segments.partition_point(|segment| segment.base <= offset).saturating_sub(1)
    }

    /// Exclusive end of a segment's range.
    pub(crate) fn segment_end(&self, at: usize) -> Offset {
        match self.segments.get(at + 1) {
            Some(next) if !next.provisional => next.base,
            _ => self.log_end_offset,
        }
    }

    /// Bytes between two offsets, `from` inclusive, `to` exclusive; 0 if `from >= to`. Both are rounded
    /// down to where their batches start.
    ///
    /// # Errors
    /// The disk's, where a position is not known and has to be looked up.
    pub fn available_bytes(&self, from: Offset, to: Offset) -> Result<u64, ReadError> {
        let to = to.min(self.log_end_offset);
        if from >= to {
            return Ok(0);
        }
        let from = self.bytes_before(from.max(self.log_start_offset))?;
        Ok(self.bytes_before(to)?.saturating_sub(from))
    }

    /// Bytes of the log before the batch that holds `offset`, counted from wherever.
    fn bytes_before(&self, offset: Offset) -> Result<u64, DiskError> {
        // Counted backwards from the end, so that appends and retention do not matter.
        const END: u64 = u64::MAX / 2;
        if offset >= self.log_end_offset {
            return Ok(END);
        }
        if let Some(bytes) = self.recent.bytes_before(offset) {
            return Ok(END - (self.recent.bytes - bytes));
        }
        let at = self.segment_at(offset);
        let segment = &self.segments[at];
        let position = segment
            .find(offset, segment.published)?
            .map_or(segment.published, |batch| batch.position);
        let after = self.segments[at..].iter().map(|segment| segment.published).sum::<u64>();
        Ok(END - (after - position))
    }

    /// The first record at or after the log start whose timestamp is at least `timestamp`.
    /// The caller compares the answer with its own bound. Does I/O.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn offset_for_timestamp(
        &self,
        timestamp: Timestamp,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        for (at, segment) in self.segments.iter().enumerate() {
            if segment.published == 0
                || self.segment_end(at) <= self.log_start_offset
                || segment.largest_timestamp()?.timestamp < timestamp.0
            {
                continue;
            }
            let lookup = Lookup::new(segment, segment.published);
            let limit = self.segment_end(at);
            let mut scanner =
                segment.scan_from_timestamp(timestamp.0, self.log_start_offset, limit)?;
            loop {
                let position = scanner.position();
                let looked_at = lookup.verify(position, position + 1, limit, u64::MAX);
                looked_at.map_err(|fault| fault.at(segment.base))?;
                let Some(batch) = scanner.next_head()? else { break };
                if batch.max_timestamp < timestamp.0 || batch.last_offset >= self.log_end_offset {
                    continue;
                }
                let found = self.find_record(&scanner, &batch, |record, offset| {
                    record >= timestamp.0 && offset >= self.log_start_offset
                })?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            // As Kafka: what is not found where it must be is not looked for elsewhere.
            return Ok(None);
        }
        Ok(None)
    }

    /// The first record that has the largest timestamp (KIP-734). Does I/O.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn offset_of_max_timestamp(&self) -> Result<Option<TimestampOffset>, ReadError> {
        let mut best = None::<(i64, usize, Offset)>;
        for (at, segment) in self.segments.iter().enumerate() {
            if segment.published == 0 {
                continue;
            }
            let max = segment.largest_timestamp()?;
            if max.timestamp >= 0 && best.is_none_or(|(timestamp, ..)| max.timestamp > timestamp) {
                best = Some((max.timestamp, at, max.offset));
            }
        }
        let Some((timestamp, at, offset)) = best else { return Ok(None) };
        let segment = &self.segments[at];
        let lookup = Lookup::new(segment, segment.published);
        let found = lookup.find_verified(offset, self.segment_end(at))?;
        let Some(batch) = found else { return Ok(None) };
        let scanner = Scanner::near(&segment.files, batch.position, segment.published)?;
        self.find_record(&scanner, &batch, |record, _| record == timestamp)
    }

    /// The first record of the batch that `wanted` (timestamp, offset) accepts.
    fn find_record(
        &self,
        scanner: &Scanner<'_>,
        batch: &StoredBatch,
        wanted: impl Fn(i64, Offset) -> bool,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let bytes = scanner.read_batch(batch)?;
        let corrupt = |error: protocol::records::RecordsError| ReadError::Corrupt {
            offset: batch.last_offset,
            reason: error.to_string(),
        };
        let Some(whole) = Batches::new(&bytes).next().transpose().map_err(corrupt)? else {
            return Ok(None);
        };
        let records = whole.records(INFLATE_LIMIT).map_err(corrupt)?;
        for record in &records {
            let record = record.map_err(corrupt)?;
            let timestamp = record.timestamp.map_or(-1, |timestamp| timestamp.0);
            if wanted(timestamp, record.offset) {
                return Ok(Some(TimestampOffset {
                    timestamp: Timestamp(timestamp),
                    offset: record.offset,
                    leader_epoch: batch.header.as_ref().and_then(|header| header.leader_epoch()),
                }));
            }
        }
        Ok(None)
    }

    /// Segment base offsets and the log end whose files were last modified at or before `timestamp`,
    /// newest first, at most `max`: for `ListOffsets` version 0. The log end counts as modified `now`.
    /// `Timestamp(-1)` asks for all of them, `Timestamp(-2)` for the log start.
    ///
    /// # Errors
    /// [`ReadError::Disk`].
    pub fn segment_offsets_before(
        &self,
        timestamp: Timestamp,
        now: Timestamp,
        max: usize,
    ) -> Result<Vec<Offset>, ReadError> {
        if timestamp == Timestamp(-2) {
            return Ok(vec![self.log_start_offset].into_iter().take(max).collect());
        }
        let mut offsets = Vec::new();
        let active = self.segments.last().filter(|segment| segment.published > 0);
        let mut is_before = timestamp == Timestamp(-1);
        if active.is_some() {
            is_before |= now <= timestamp;
            offsets.extend(is_before.then_some(self.log_end_offset));
        }
        // Below the newest segment that is old enough all count, whatever their files say.
        for segment in self.segments.iter().rev().filter(|segment| !segment.provisional) {
            if offsets.len() >= max {
                break;
            }
            is_before = is_before || self.modified(segment)? <= timestamp;
            if is_before {
                offsets.push(segment.base.max(self.log_start_offset));
            }
        }
        offsets.truncate(max);
        Ok(offsets)
    }

    /// When the segment's file was last modified.
    pub(super) fn modified(&self, segment: &Segment) -> Result<Timestamp, DiskError> {
        let path = segment.files.path(Kind::Log);
        let metadata = self.directory.disk().metadata(&path);
        Ok(metadata.map_err(DiskError::at("look at", &path))?.modified)
    }
}
