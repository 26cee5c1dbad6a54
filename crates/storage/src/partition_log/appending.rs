//! Reserving and publishing appends.

use super::PartitionLog;
use crate::append::{AppendOrigin, AppendRecords, AppendRequest, Appended, Reserved, Verification};
use crate::error::{AppendError, DiskError, LogError};
use crate::files::SegmentFiles;
use crate::pending::{Chunk, Extra, IndexWrite, PendingAppend, Roll};
use crate::producer_state::{Origin, ProducerBatch, ProducerUpdate};
use crate::scan::{StoredBatch, producer_batch};
use crate::segment::{Incoming, Segment};
use crate::snapshot;
use crate::transaction_index::{ENTRY_BYTES, TransactionEntry};
use bytes::Bytes;
use model::{Bug, LeaderEpoch, Offset, Timestamp};
use protocol::records::validate::{Validated, verified};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// So many index entries are kept in memory before they are written.
const INDEX_WRITE_BEHIND: usize = 256;

/// Space is reserved in such steps for a segment that has grown to one: appending to reserved space costs
/// a fifth less. Small segments, of which there may be many, reserve nothing.
const RESERVE_STEP: u64 = 16 << 20;

/// Where the newest appends start, so that counting what is new for a waiting reader needs no look-up.
#[derive(Debug, Default)]
pub(super) struct Recent {
    starts: VecDeque<(Offset, u64)>,
    /// Bytes appended since the log was opened.
    pub(super) bytes: u64,
}

impl Recent {
    const REMEMBERED: usize = 64;

    fn push(&mut self, start: Offset, bytes: u64) {
        if self.starts.len() == Self::REMEMBERED {
            self.starts.pop_front();
        }
        self.starts.push_back((start, self.bytes));
        self.bytes += bytes;
    }

    /// Bytes that had been appended before `offset` was.
    pub(super) fn bytes_before(&self, offset: Offset) -> Option<u64> {
        let at = self.starts.binary_search_by_key(&offset, |start| start.0).ok()?;
        Some(self.starts[at].1)
    }

    pub(super) fn clear(&mut self) {
        self.starts = VecDeque::new();
    }
}

impl PartitionLog {
    /// Checks the batches against the log's state and reserves their offsets.
    ///
    /// Several appends may be reserved before the first is written. They must be written and published
    /// in the order of their reservation, by one writer at a time.
    ///
    /// # Errors
    /// [`AppendError`]: nothing changed.
    pub fn reserve(&mut self, request: AppendRequest) -> Result<Reserved, AppendError> {
        let AppendRequest { records, now } = request;
        if self.offline && self.rebuild(now).is_err() || self.log_directory.is_offline() {
            return Err(AppendError::Offline);
        }
        match records {
            AppendRecords::Assign { validated, leader_epoch, origin, verification } => {
                self.reserve_assigned(validated, leader_epoch, origin, verification, now)
            }
            AppendRecords::Replicate(bytes) => self.reserve_replicated(&bytes, now),
        }
    }

    fn reserve_assigned(
        &mut self,
        validated: Validated,
        leader_epoch: LeaderEpoch,
        origin: AppendOrigin,
        verification: Verification,
        now: Timestamp,
    ) -> Result<Reserved, AppendError> {
        if origin == AppendOrigin::Client {
            for batch in validated.batch.iter().filter(|batch| batch.header.producer_id >= 0) {
                if let Some(duplicate) = self.producers.state.find_duplicate(&batch.header) {
                    return Ok(Reserved::Duplicate(duplicate));
                }
            }
        }
        let mut next = self.reserved_end;
        let numbered = validated.batch.into_iter().map(|mut batch| {
            let header = batch.assign(next, leader_epoch);
            let stored = StoredBatch::of_header(batch.header, 0);
            next = stored.next_offset();
            let chunk = Chunk {
                header: Some(header),
                body: batch.payload,
                base_offset: stored.base_offset.unwrap_or(stored.last_offset),
                last_offset: stored.last_offset,
            };
            (stored, chunk)
        });
        self.reserve_batches(numbered, Origin::Leader(origin), verification, now)
    }

    fn reserve_replicated(
        &mut self,
        bytes: &Bytes,
        now: Timestamp,
    ) -> Result<Reserved, AppendError> {
        let mut batches = Vec::new();
        let mut previous = None::<Offset>;
        for batch in verified(bytes) {
            let batch = batch.map_err(|error| AppendError::Corrupt(error.to_string()))?;
            let stored = StoredBatch::of(&batch, 0);
            if previous.is_some_and(|previous| stored.last_offset <= previous) {
                return Err(AppendError::Corrupt("offsets do not rise".to_owned()));
            }
            previous = Some(stored.last_offset);
            let chunk = Chunk {
                header: None,
                body: bytes.slice_ref(batch.bytes()),
                base_offset: stored.base_offset.unwrap_or(stored.last_offset),
                last_offset: stored.last_offset,
            };
            batches.push((stored, chunk));
        }
        if let (Some((first, _)), Some(last)) = (batches.first(), previous) {
            let first = first.base_offset.unwrap_or(first.last_offset);
            if first < self.reserved_end || last.0 == i64::MAX {
                let log_end_offset = self.reserved_end;
                return Err(AppendError::UnexpectedOffset { first, last, log_end_offset });
            }
        }
        self.reserve_batches(
            batches.into_iter(),
            Origin::Replication,
            Verification::NotRequired,
            now,
        )
    }

    fn reserve_batches(
        &mut self,
        mut batches: impl Iterator<Item = (StoredBatch, Chunk)>,
        origin: Origin,
        verification: Verification,
        now: Timestamp,
    ) -> Result<Reserved, AppendError> {
        let Some(first) = batches.next() else { return Ok(Reserved::Empty) };
        // Nearly always empty, and then it takes no memory.
        let rest: Vec<_> = batches.collect();
        let all = || std::iter::once(&first).chain(&rest);
        let incoming = Incoming {
            size: all().map(|(batch, _)| batch.size).sum(),
            last_offset: rest.last().unwrap_or(&first).0.last_offset,
            max_timestamp: all().map(|(batch, _)| batch.max_timestamp).max().unwrap_or(-1),
        };
        // A leader whose segments were larger once has batches that a follower must take.
        let is_taken_whole = origin == Origin::Replication && rest.is_empty();
        if incoming.size > self.config.segment_bytes && !is_taken_whole {
            return Err(AppendError::RecordListTooLarge {
                size: incoming.size,
                segment_bytes: self.config.segment_bytes,
            });
        }
        self.log_directory.take_room(incoming.size)?;
        let first_offset = first.1.base_offset;
        // A new segment begins where the log ends, even if the leader's next batch comes later: recovery takes a
        // gap between two segments for lost records. Only one that is too far away goes its own way; of message
        // sets the first offset is not known: room is left for as many as there can be.
        let lowest_base = Offset(incoming.last_offset.0.saturating_sub(i64::from(i32::MAX)));
        let new_base = match first.0.base_offset {
            Some(base) if lowest_base > self.reserved_end => base,
            _ => lowest_base.max(self.reserved_end),
        };

        let mut update = ProducerUpdate::default();
        for (batch, chunk) in all() {
            let Some(header) = batch.header.as_ref().filter(|header| header.producer_id >= 0)
            else {
                continue;
            };
            let whole;
            let bytes: &[u8] = if header.attributes.is_control() {
                whole = chunk.parts().concat();
                &whole
            } else {
                &[]
            };
            let producer: Option<ProducerBatch<'_>> =
                producer_batch(header, bytes).map_err(AppendError::Corrupt)?;
            if let Some(producer) = producer {
                self.producers.state.check(&mut update, producer, origin, verification)?;
            }
        }

        let active = self.segments.last_mut().expect("a log has a segment");
        let must_roll = active.must_roll(&self.config, self.jitter, &incoming, now)?;
        let mut extra = Extra::default();
        if must_roll {
            extra.roll = Some(self.roll(new_base, now));
        }

        // From here on nothing fails.
        let aborted = self.producers.state.apply(update);
        if let Some(roll) = extra.roll.as_mut().filter(|_| Bug::Kafka6683.is_planted()) {
            roll.snapshot = roll.snapshot.take().map(|_| snapshot::encode(&self.producers.state));
        }
        self.producers.end_offset = Offset(incoming.last_offset.0.saturating_add(1));
        let active = self.segments.last_mut().expect("a log has a segment");
        let position = active.size;
        let mut place = |(mut batch, chunk): (StoredBatch, Chunk)| {
            batch.position = active.size;
            active.append(&batch, &self.config);
            active.files.record(batch.position, chunk.front(), batch.size);
            match batch.header.as_ref().map(|header| (header.leader_epoch(), header.base_offset()))
            {
                Some((Some(epoch), base)) => self.epochs.assign(epoch, base),
                Some((None, _)) => {}
                None => self.epochs.clear(),
            }
            chunk
        };
        let (first, rest) = (place(first), rest.into_iter().map(place).collect());
        if !aborted.is_empty() {
            let at = (active.reserved_transactions * ENTRY_BYTES) as u64;
            active.reserved_transactions += aborted.len();
            let entries = aborted.iter().flat_map(TransactionEntry::encode).collect();
            extra.transactions = Some((at, entries));
        }
        if active.offset_index.unwritten() >= INDEX_WRITE_BEHIND && !self.index_write_in_flight {
            self.index_write_in_flight = true;
            extra.indexes =
                vec![IndexWrite::of(&active.offset_index), IndexWrite::of(&active.time_index)];
        }
        if active.size > active.reserved.max(RESERVE_STEP) {
            active.reserved = (active.size + RESERVE_STEP).min(self.config.segment_bytes);
            extra.reserve = Some(active.reserved);
        }
        let is_plain = extra.roll.is_none()
            && extra.indexes.is_empty()
            && extra.transactions.is_none()
            && extra.reserve.is_none();
        let pending = PendingAppend {
            generation: self.generation,
            first_offset,
            last_offset: incoming.last_offset,
            max_timestamp: Timestamp(incoming.max_timestamp),
            files: Arc::clone(&active.files),
            position,
            at: now,
            size: incoming.size,
            first,
            rest,
            extra: (!is_plain).then(|| Box::new(extra)),
        };
        pending.check();
        self.reserved_end = self.producers.end_offset;
        self.in_flight += 1;
        Ok(Reserved::Pending(pending))
    }

    /// Starts a new segment in memory; the files follow when the append is written.
    fn roll(&mut self, base: Offset, now: Timestamp) -> Roll {
        let old = self.segments.last_mut().expect("a log has a segment");
        old.push_time_entry();
        let indexes = [IndexWrite::of(&old.offset_index), IndexWrite::of(&old.time_index)];
        let trim = (old.reserved > old.size).then_some(old.size);
        old.reserved = 0;
        let has_snapshot = self.producers.snapshots.last().is_some_and(|&last| last >= base);
        let snapshot = (!has_snapshot).then(|| snapshot::encode(&self.producers.state));
        let files = Arc::new(SegmentFiles::new(Arc::clone(&self.directory), base));
        let roll = Roll {
            old: Arc::clone(&old.files),
            old_size: old.size,
            indexes,
            trim,
            snapshot,
            reserve: self.config.preallocate.then_some(self.config.segment_bytes),
        };
        let mut segment = Segment::empty(files, now);
        segment.provisional = true;
        segment.reserved = roll.reserve.unwrap_or(0);
        self.segments.push(segment);
        roll
    }

    /// Makes a written append visible; or, if its write failed, takes the log offline.
    ///
    /// # Errors
    /// [`LogError::Disk`] for a failed write, [`LogError::Offline`] for appends reserved after it.
    pub fn publish(
        &mut self,
        pending: PendingAppend,
        outcome: &io::Result<()>,
    ) -> Result<Appended, LogError> {
        if pending.generation != self.generation {
            return Err(LogError::Offline);
        }
        if let Err(error) = outcome {
            self.fail();
            let path = pending.files.path(crate::files::Kind::Log);
            let source = io::Error::new(error.kind(), error.to_string());
            return Err(DiskError { action: "append to", path, source }.into());
        }
        self.in_flight -= 1;
        let base = pending.files.base;
        let at = self.segments.iter().rposition(|segment| segment.base == base);
        let at = at.expect("a segment with pending appends stays");
        assert_eq!(self.segments[at].published, pending.position, "appends are published in order");
        if let Some(extra) = &pending.extra {
            if let Some(roll) = &extra.roll {
                let old = &mut self.segments[at - 1];
                old.offset_index.mark_written(old.offset_index.unwritten());
                old.time_index.mark_written(old.time_index.unwritten());
                old.sealed = true;
                if roll.snapshot.is_some() {
                    self.producers.snapshots.insert(base);
                }
                self.tail.clear();
            }
            if let [offsets, times] = extra.indexes.as_slice() {
                self.index_write_in_flight = false;
                self.segments[at].offset_index.mark_written(offsets.count);
                self.segments[at].time_index.mark_written(times.count);
            }
            if let Some((_, entries)) = &extra.transactions {
                self.segments[at].transactions.entries += entries.len() / ENTRY_BYTES;
            }
        }
        let segment = &mut self.segments[at];
        segment.published += pending.size;
        segment.provisional = false;
        self.entry.add_size(pending.size);
        self.recent.push(self.log_end_offset, pending.size);
        self.log_end_offset = Offset(pending.last_offset.0.saturating_add(1));
        for chunk in pending.chunks() {
            self.tail.push(chunk.base_offset, chunk.last_offset, chunk.parts());
        }
        self.changed = true;
        if self.config.flush_ms.is_some() {
            self.unflushed_since.get_or_insert(pending.at);
        }
        self.write_epochs();
        Ok(Appended {
            first_offset: pending.first_offset,
            last_offset: pending.last_offset,
            max_timestamp: pending.max_timestamp,
        })
    }
}
