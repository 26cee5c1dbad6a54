//! Reads that were decided under the partition's lock and are done without it.

use crate::checksums::{CELL_BYTES, Fault};
use crate::error::{DiskError, ReadError};
use crate::files::{Kind, SegmentFiles};
use crate::read::{LogRead, ReadRequest};
use crate::scan::StoredBatch;
use crate::segment::Lookup;
use crate::tail::{SMALL_READ_BYTES, TailRead};
use crate::transaction_index::TransactionIndex;
use bytes::Bytes;
use model::Offset;
use protocol::{FileRange, Records, RecordsFile, RecordsPart};
use std::sync::Arc;

/// A read that was decided and not yet done.
#[derive(Debug)]
pub struct ReadPlan(pub(crate) Plan);

#[derive(Debug)]
pub(crate) enum Plan {
    /// There is nothing between the offset and the bound.
    Empty {
        want_aborted: bool,
    },
    Memory {
        read: TailRead,
        want_aborted: bool,
    },
    File(Box<FilePlan>),
}

#[derive(Debug)]
pub(crate) struct FilePlan {
    pub(crate) request: ReadRequest,
    /// The segment that may hold the offset, and the one after it that has batches.
    pub(crate) lookups: Vec<Lookup>,
    /// The bound is the log end: no position has to be looked up for it.
    pub(crate) to_the_end: bool,
    /// Where the segments end (exclusive offsets).
    pub(crate) ends: Vec<Offset>,
    /// The transaction indexes from the first segment on, where there is one.
    pub(crate) transactions: Vec<(Arc<SegmentFiles>, TransactionIndex)>,
}

/// So much of what was not read from the disk before is looked at for one read; the answer is no longer than that.
const LOOKED_AT_BYTES: u64 = 1 << 20;

impl ReadPlan {
    /// Whether [`ReadPlan::run`] answers from memory.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        !matches!(self.0, Plan::File(_))
    }

    /// Whether [`ReadPlan::run`] has to read from the disk, as far as that can be told, or to look at what came from
    /// there.
    #[must_use]
    pub fn needs_disk(&self) -> bool {
        match &self.0 {
            Plan::Empty { .. } | Plan::Memory { .. } => false,
            Plan::File(plan) => plan.needs_disk(),
        }
    }

    /// Does the read. To be called without the partition's lock, unless it answers from memory.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn run(self) -> Result<LogRead, ReadError> {
        match self.0 {
            Plan::Empty { want_aborted } => Ok(LogRead::empty(want_aborted)),
            Plan::Memory { read, want_aborted } => Ok(LogRead {
                records: read.records,
                size: read.size,
                first_batch_incomplete: read.first_batch_incomplete,
                aborted_transactions: want_aborted.then(Vec::new),
            }),
            Plan::File(plan) => plan.run(),
        }
    }
}

impl LogRead {
    fn empty(want_aborted: bool) -> Self {
        Self {
            records: Records::default(),
            size: 0,
            first_batch_incomplete: false,
            aborted_transactions: want_aborted.then(Vec::new),
        }
    }
}

impl FilePlan {
    fn needs_disk(&self) -> bool {
        let wanted = (self.request.max_bytes as u64).max(1);
        let Some(lookup) = self.lookups.first() else { return false };
        if !lookup.has_index_at_hand() {
            return true;
        }
        // What cannot be told is found out where it is told.
        lookup.near(self.request.offset).is_ok_and(|from| {
            let to = lookup.end.min(from.saturating_add(wanted));
            !lookup.files().is_at_hand(from, to).unwrap_or(true)
        })
    }

    fn run(&self) -> Result<LogRead, ReadError> {
        for (lookup, &segment_end) in self.lookups.iter().zip(&self.ends) {
            if let Some(read) = self.read_segment(lookup, segment_end)? {
                return Ok(read);
            }
        }
        Ok(LogRead::empty(self.request.want_aborted))
    }

    /// `None` if nothing that is wanted is in this segment.
    fn read_segment(
        &self,
        lookup: &Lookup,
        segment_end: Offset,
    ) -> Result<Option<LogRead>, ReadError> {
        let request = &self.request;
        let Some((mut first, from)) = lookup.find_from(request.offset, segment_end)? else {
            return Ok(None);
        };
        let mut limit = self.position_of_bound(lookup, &first, segment_end)?;
        let files = lookup.files();
        if files.forget_if_dropped(from, self.end(&first, limit))? {
            let Some(again) = lookup.find_verified(request.offset, segment_end)? else {
                return Ok(None);
            };
            first = again;
            limit = self.position_of_bound(lookup, &first, segment_end)?;
        }
        let available = limit.saturating_sub(first.position);
        let end = self.end(&first, limit);
        let good = match lookup.verify(first.position, end, segment_end, LOOKED_AT_BYTES) {
            Ok(good) => good,
            Err(Fault::Bad { cell, .. }) => cell * CELL_BYTES,
            Err(fault @ Fault::Disk(_)) => return Err(fault.at(request.offset)),
        };
        // The first batch was looked at when it was found.
        let end = end.min(good.max(first.end()));
        let size = usize::try_from(end - first.position).unwrap_or(usize::MAX);
        let aborted_transactions =
            if request.want_aborted { Some(self.aborted(lookup, end, segment_end)?) } else { None };
        Ok(Some(LogRead {
            records: self.records(lookup, first.position, size)?,
            size,
            first_batch_incomplete: available > 0 && (size as u64) < first.size,
            aborted_transactions,
        }))
    }

    /// Where batches start that are not to be read.
    fn position_of_bound(
        &self,
        lookup: &Lookup,
        first: &StoredBatch,
        segment_end: Offset,
    ) -> Result<u64, ReadError> {
        let bound = self.request.upper_bound;
        if self.to_the_end || bound >= segment_end {
            return Ok(lookup.end);
        }
        match lookup.find_verified(bound, segment_end) {
            Ok(batch) => Ok(batch.map_or(lookup.end, |batch| batch.position)),
            // It cannot be told, and the first batch is below.
            Err(ReadError::Corrupt { .. }) if first.last_offset < bound => Ok(first.end()),
            Err(error) => Err(error),
        }
    }

    /// Where what is wanted ends, if all of it is right.
    fn end(&self, first: &StoredBatch, limit: u64) -> u64 {
        let available = limit.saturating_sub(first.position);
        let mut wanted = self.request.max_bytes as u64;
        if self.request.min_one_message {
            wanted = wanted.max(first.size);
        }
        first.position + wanted.min(available)
    }

    fn records(&self, lookup: &Lookup, position: u64, size: usize) -> Result<Records, DiskError> {
        let file = lookup.files().get(Kind::Log)?;
        let mut records = Records::default();
        if size < SMALL_READ_BYTES {
            let mut bytes = vec![0; size];
            file.read_exact_at(&mut bytes, position)
                .map_err(DiskError::at("read", &lookup.files().path(Kind::Log)))?;
            records.push(RecordsPart::Bytes(Bytes::from(bytes)));
        } else {
            let file: Arc<dyn RecordsFile> = file;
            records.push(RecordsPart::File(FileRange { file, position, length: size }));
        }
        Ok(records)
    }

    fn aborted(
        &self,
        lookup: &Lookup,
        position: u64,
        segment_end: Offset,
    ) -> Result<Vec<crate::read::AbortedTransaction>, DiskError> {
        let mut found = Vec::new();
        if self.transactions.is_empty() {
            return Ok(found);
        }
        let to = lookup.offset_at_or_after(position, segment_end)?;
        for (files, index) in &self.transactions {
            if index.collect(files, self.request.offset, to, &mut found)? {
                break;
            }
        }
        Ok(found)
    }
}
