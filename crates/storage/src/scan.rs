//! Walking through the batches of a segment file.

use crate::checksums::HEAD_BYTES;
use crate::error::{DiskError, LogError, ReadError};
use crate::files::{Kind, OpenFile, SegmentFiles};
use crate::producer_state::ProducerBatch;
use model::Offset;
use protocol::records::{
    Batch, BatchChecksum, BatchHeader, Batches, ControlRecord, EndTransaction,
};
use protocol::records::{HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC_POSITION};
use std::sync::Arc;

/// What the first bytes of a batch tell.
#[derive(Clone, Debug)]
pub(crate) struct StoredBatch {
    pub(crate) position: u64,
    pub(crate) size: u64,
    /// In message sets (magic 0 and 1) the first offset is not known without decoding.
    pub(crate) base_offset: Option<Offset>,
    pub(crate) last_offset: Offset,
    /// -1 if there is none.
    pub(crate) max_timestamp: i64,
    /// In magic 2.
    pub(crate) header: Option<BatchHeader>,
}

impl StoredBatch {
    pub(crate) fn end(&self) -> u64 {
        self.position + self.size
    }

    pub(crate) fn next_offset(&self) -> Offset {
        Offset(self.last_offset.0.saturating_add(1))
    }

    /// Reads the head of the batch at the start of `bytes`; `None` if it is not one, or cut off.
    pub(crate) fn parse(bytes: &[u8], position: u64) -> Option<Self> {
        let size = i32::from_be_bytes(*bytes.get(8..LOG_OVERHEAD_BYTES)?.first_chunk()?);
        let size = u64::try_from(size).ok()? + LOG_OVERHEAD_BYTES as u64;
        let magic = *bytes.get(MAGIC_POSITION)?;
        if magic == 2 {
            return Some(Self::of_header(BatchHeader::parse(bytes).ok()?, position));
        }
        let smallest = match magic {
            0 => 26,
            1 => 34,
            _ => return None,
        };
        if size < smallest {
            return None;
        }
        let number = |at: usize| Some(i64::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let max_timestamp = if magic == 1 { number(18)? } else { -1 };
        let last_offset = Offset(number(0)?);
        Some(Self { position, size, base_offset: None, last_offset, max_timestamp, header: None })
    }

    pub(crate) fn of_header(header: BatchHeader, position: u64) -> Self {
        Self {
            position,
            size: header.size_bytes() as u64,
            base_offset: Some(header.base_offset()),
            last_offset: header.last_offset(),
            max_timestamp: header.max_timestamp,
            header: Some(header),
        }
    }

    pub(crate) fn of(batch: &Batch<'_>, position: u64) -> Self {
        Self {
            position,
            size: batch.bytes().len() as u64,
            base_offset: batch.header().map(BatchHeader::base_offset),
            last_offset: batch.last_offset(),
            max_timestamp: batch.max_timestamp().map_or(-1, |timestamp| timestamp.0),
            header: batch.header().cloned(),
        }
    }
}

/// What the producer state needs of a batch; `None` if no producer wrote it. `batch` is whole.
pub(crate) fn producer_batch<'a>(
    header: &'a BatchHeader,
    batch: &[u8],
) -> Result<Option<ProducerBatch<'a>>, LogErrorReason> {
    if header.producer_id < 0 {
        return Ok(None);
    }
    let marker = if header.attributes.is_control() { read_marker(batch)? } else { None };
    if header.attributes.is_control() && marker.is_none() && header.record_count > 0 {
        return Ok(None); // a control record that is no marker
    }
    Ok(Some(ProducerBatch { header, marker }))
}

/// Why a batch is no batch.
pub(crate) type LogErrorReason = String;

fn read_marker(batch: &[u8]) -> Result<Option<(EndTransaction, i64)>, LogErrorReason> {
    let parse = || {
        let Some(batch) = Batches::new(batch).next().transpose()? else { return Ok(None) };
        // Control batches are small; no limit is ever reached.
        let records = batch.records(1 << 20)?;
        let Some(record) = records.iter().next().transpose()? else { return Ok(None) };
        let timestamp = record.timestamp.map_or(-1, |timestamp| timestamp.0);
        Ok(match ControlRecord::parse(&record)? {
            ControlRecord::EndTransaction(marker) => Some((marker, timestamp)),
            ControlRecord::Other { .. } => None,
        })
    };
    parse().map_err(|error: protocol::records::RecordsError| error.to_string())
}

/// Reads batch heads, or whole batches, from `position` up to `end`.
#[derive(Debug)]
pub(crate) struct Scanner<'a> {
    files: &'a SegmentFiles,
    file: Arc<OpenFile>,
    position: u64,
    end: u64,
    /// What was read, from `buffer_at` on.
    buffer: Vec<u8>,
    buffer_at: u64,
    read_ahead: usize,
}

/// Enough for a few heads; batches are mostly walked from an index entry, which is near.
const HEADS: usize = 8 << 10;
/// For walks through a whole segment.
const SEGMENT: usize = 256 << 10;

impl<'a> Scanner<'a> {
    /// Walks a short way.
    pub(crate) fn near(
        files: &'a SegmentFiles,
        position: u64,
        end: u64,
    ) -> Result<Self, DiskError> {
        Self::new(files, position, end, HEADS)
    }

    /// Walks through everything.
    pub(crate) fn whole(
        files: &'a SegmentFiles,
        position: u64,
        end: u64,
    ) -> Result<Self, DiskError> {
        Self::new(files, position, end, SEGMENT)
    }

    /// Walks through batches, of which about `read_ahead` bytes are read at once.
    pub(crate) fn new(
        files: &'a SegmentFiles,
        position: u64,
        end: u64,
        read_ahead: usize,
    ) -> Result<Self, DiskError> {
        let file = files.get(Kind::Log)?;
        let buffer_at = position;
        Ok(Self { files, file, position, end, buffer: Vec::new(), buffer_at, read_ahead })
    }

    /// Where the next batch starts.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Up to `count` bytes from the current position; less at the end.
    fn peek(&mut self, count: usize) -> Result<&[u8], DiskError> {
        let left = usize::try_from(self.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let count = count.min(left);
        let skip = usize::try_from(self.position - self.buffer_at).unwrap_or(usize::MAX);
        if self.buffer.get(skip..).is_none_or(|rest| rest.len() < count) {
            let wanted = count.max(self.read_ahead).min(left);
            self.buffer.resize(wanted, 0);
            self.buffer_at = self.position;
            let mut filled = 0;
            while filled < wanted {
                match self.file.read_at(&mut self.buffer[filled..], self.position + filled as u64) {
                    Ok(0) => break,
                    Ok(read) => filled += read,
                    Err(source) => {
                        let path = self.files.path(Kind::Log);
                        return Err(DiskError { action: "read", path, source });
                    }
                }
            }
            self.buffer.truncate(filled);
            return Ok(&self.buffer[..count.min(filled)]);
        }
        Ok(&self.buffer[skip..skip + count])
    }

    /// The next batch's head; `None` at the end, and where no whole batch follows.
    pub(crate) fn next_head(&mut self) -> Result<Option<StoredBatch>, DiskError> {
        let position = self.position;
        let Some(batch) = StoredBatch::parse(self.peek(HEADER_BYTES)?, position) else {
            return Ok(None);
        };
        if batch.end() > self.end {
            return Ok(None);
        }
        self.position = batch.end();
        Ok(Some(batch))
    }

    /// The next batch with its bytes; `None` at the end, and where no whole, undamaged batch follows.
    pub(crate) fn next_valid(&mut self) -> Result<Option<(StoredBatch, &[u8])>, DiskError> {
        let position = self.position;
        let Some(head) = StoredBatch::parse(self.peek(HEADER_BYTES)?, position) else {
            return Ok(None);
        };
        if head.end() > self.end {
            return Ok(None);
        }
        let Ok(size) = usize::try_from(head.size) else { return Ok(None) };
        if self.peek(size)?.len() < size {
            return Ok(None);
        }
        // Peeked again, for the borrow of the first time to end.
        let skip = usize::try_from(position - self.buffer_at).unwrap_or(usize::MAX);
        let bytes = &self.buffer[skip..skip + size];
        match Batches::new(bytes).next() {
            Some(Ok(batch)) if batch.verify() => {
                self.position = head.end();
                Ok(Some((head, bytes)))
            }
            _ => Ok(None),
        }
    }

    /// As [`Self::next_valid`], in bounded memory however large the batch says it is, and with the bytes in front that its
    /// checksum does not cover.
    pub(crate) fn next_checked(
        &mut self,
    ) -> Result<Option<(StoredBatch, [u8; HEAD_BYTES])>, DiskError> {
        let (position, end) = (self.position, self.end);
        let front = self.peek(HEADER_BYTES)?;
        let batch = StoredBatch::parse(front, position).filter(|batch| batch.end() <= end);
        let (Some(batch), Some(&head)) = (batch, front.first_chunk()) else { return Ok(None) };
        if batch.size <= SEGMENT as u64 {
            return Ok(self.next_valid()?.map(|(batch, _)| (batch, head)));
        }
        let Some(mut checksum) = BatchChecksum::new(front) else { return Ok(None) };
        while self.position < batch.end() {
            let left = usize::try_from(batch.end() - self.position).unwrap_or(usize::MAX);
            let piece = self.peek(left.min(SEGMENT))?;
            let len = piece.len();
            checksum.update(piece);
            if len == 0 {
                break;
            }
            self.position += len as u64;
        }
        if self.position == batch.end() && checksum.is_right() {
            return Ok(Some((batch, head)));
        }
        self.position = position;
        (self.buffer, self.buffer_at) = (Vec::new(), position);
        Ok(None)
    }

    /// The bytes of a batch whose head was read.
    pub(crate) fn read_batch(&self, batch: &StoredBatch) -> Result<Vec<u8>, ReadError> {
        let size = usize::try_from(batch.size).map_err(|_| ReadError::Corrupt {
            offset: batch.last_offset,
            reason: "larger than memory".to_owned(),
        })?;
        let mut bytes = vec![0; size];
        self.file
            .read_exact_at(&mut bytes, batch.position)
            .map_err(DiskError::at("read", &self.files.path(Kind::Log)))?;
        Ok(bytes)
    }

    /// A batch that must be right and is not.
    pub(crate) fn damaged(&self, reason: impl Into<String>) -> LogError {
        LogError::Damaged { path: self.files.path(Kind::Log), reason: reason.into() }
    }
}
