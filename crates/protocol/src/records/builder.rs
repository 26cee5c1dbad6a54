//! Writing v2 batches.

use super::compression::{Compression, CompressionLevels};
use super::error::RecordsError;
use super::header::{Attributes, BatchHeader, HEADER_BYTES, LOG_OVERHEAD_BYTES, TimestampType};
use super::record::{EncodedHeaders, Header, write_field, write_record};
use bytes::Bytes;
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

/// Why a batch could not be written: always the caller's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// More than `i32::MAX` records or bytes.
    #[error("a batch holds at most 2^31 - 1 bytes and records")]
    TooLarge,
    /// Offsets must rise, within `i32::MAX` of the base offset.
    #[error("record offset {0} does not follow the batch's others")]
    Offset(i64),
    /// A timestamp below 0, or too far from the first one.
    #[error("record timestamp {0} is not possible")]
    Timestamp(i64),
}

/// Builds one batch: set what it is, append records, build.
///
/// ```
/// use protocol::records::{Compression, RecordBatchBuilder};
/// let mut builder = RecordBatchBuilder::new().compression(Compression::Lz4);
/// builder.append(Some(model::Timestamp(1)), Some(b"key"), Some(b"value"))?;
/// let batch: bytes::Bytes = builder.build()?;
/// # Ok::<(), protocol::records::BuildError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RecordBatchBuilder {
    header: BatchHeader,
    compression: Compression,
    levels: CompressionLevels,
    log_append_time: Option<i64>,
    records: Vec<u8>,
    headers: Vec<u8>,
    next_offset: i64,
}

impl Default for RecordBatchBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordBatchBuilder {
    /// A plain batch at offset 0: not compressed, create time, no producer.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            header: BatchHeader {
                base_offset: 0,
                batch_length: 0,
                partition_leader_epoch: -1,
                crc: 0,
                attributes: Attributes(0),
                last_offset_delta: -1,
                base_timestamp: -1,
                max_timestamp: -1,
                producer_id: -1,
                producer_epoch: -1,
                base_sequence: -1,
                record_count: 0,
            },
            compression: Compression::None,
            levels: CompressionLevels::DEFAULT,
            log_append_time: None,
            records: Vec::new(),
            headers: Vec::new(),
            next_offset: 0,
        }
    }

    /// Sets the codec.
    #[must_use]
    pub const fn compression(mut self, compression: Compression) -> Self {
        self.compression = compression;
        self
    }

    /// Sets the levels that codecs compress at.
    #[must_use]
    pub const fn levels(mut self, levels: CompressionLevels) -> Self {
        self.levels = levels;
        self
    }

    /// Sets the first offset. Before the first record.
    #[must_use]
    pub const fn base_offset(mut self, offset: Offset) -> Self {
        self.header.base_offset = offset.0;
        self.next_offset = offset.0;
        self
    }

    /// Sets the epoch of the leader that appends the batch.
    #[must_use]
    pub const fn leader_epoch(mut self, epoch: LeaderEpoch) -> Self {
        self.header.partition_leader_epoch = epoch.0;
        self
    }

    /// Sets the producer and the first record's sequence.
    #[must_use]
    pub fn producer(
        mut self,
        id: ProducerId,
        epoch: ProducerEpoch,
        base_sequence: Option<Sequence>,
    ) -> Self {
        self.header.producer_id = id.0;
        self.header.producer_epoch = epoch.0;
        self.header.base_sequence = base_sequence.map_or(-1, |sequence| sequence.0);
        self
    }

    /// Makes the batch part of a transaction.
    #[must_use]
    pub const fn transactional(mut self) -> Self {
        self.header.attributes = self.header.attributes.with_transactional(true);
        self
    }

    /// Makes it a control batch.
    #[must_use]
    pub const fn control(mut self) -> Self {
        self.header.attributes = self.header.attributes.with_control(true);
        self
    }

    /// Stamps all records with the time of the append.
    #[must_use]
    pub const fn log_append_time(mut self, now: Timestamp) -> Self {
        self.log_append_time = Some(now.0);
        self
    }

    /// Appends a record without headers at the next offset.
    ///
    /// # Errors
    /// [`BuildError`]; the batch is then as it was.
    pub fn append(
        &mut self,
        timestamp: Option<Timestamp>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
    ) -> Result<(), BuildError> {
        self.append_with(timestamp, key, value, [])
    }

    /// Appends a record with headers, kept in order and repeated if they repeat.
    ///
    /// # Errors
    /// [`BuildError`]; the batch is then as it was.
    pub fn append_with<'h>(
        &mut self,
        timestamp: Option<Timestamp>,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl IntoIterator<Item = Header<'h>>,
    ) -> Result<(), BuildError> {
        let mut bytes = std::mem::take(&mut self.headers);
        bytes.clear();
        let mut count = 0;
        for header in headers {
            write_field(&mut bytes, Some(header.key));
            write_field(&mut bytes, header.value);
            count += 1;
        }
        let encoded = EncodedHeaders { bytes: &bytes, count };
        let timestamp = timestamp.map_or(-1, |timestamp| timestamp.0);
        let appended = self.append_encoded(self.next_offset, timestamp, key, value, encoded);
        self.headers = bytes;
        appended
    }

    /// Appends a record whose headers are encoded already, at `offset`, with a raw timestamp.
    pub(crate) fn append_encoded(
        &mut self,
        offset: i64,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: EncodedHeaders<'_>,
    ) -> Result<(), BuildError> {
        if timestamp < -1 {
            return Err(BuildError::Timestamp(timestamp));
        }
        let first = self.header.record_count == 0;
        let base_timestamp = if first { timestamp } else { self.header.base_timestamp };
        let delta = offset
            .checked_sub(self.header.base_offset)
            .and_then(|delta| i32::try_from(delta).ok())
            .filter(|_| offset >= self.next_offset)
            .ok_or(BuildError::Offset(offset))?;
        let room = |part: Option<&[u8]>| part.map_or(0, <[u8]>::len);
        let size = self.records.len() + room(key) + room(value) + headers.bytes.len();
        let limit = const { i32::MAX as usize - 1024 };
        let count = self.header.record_count.checked_add(1).filter(|_| size < limit);
        self.header.record_count = count.ok_or(BuildError::TooLarge)?;
        self.header.base_timestamp = base_timestamp;
        self.header.max_timestamp = self.header.max_timestamp.max(timestamp);
        self.header.last_offset_delta = delta;
        self.next_offset = offset.saturating_add(1);
        write_record(
            &mut self.records,
            timestamp.wrapping_sub(base_timestamp),
            delta,
            key,
            value,
            headers,
        );
        Ok(())
    }

    /// Takes the batch away and leaves an empty one of the same settings, offsets from 0.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let mut empty = Self::new().compression(self.compression).levels(self.levels);
        empty.header.attributes = self.header.attributes;
        empty.header.producer_id = self.header.producer_id;
        empty.header.producer_epoch = self.header.producer_epoch;
        empty.header.partition_leader_epoch = self.header.partition_leader_epoch;
        empty.log_append_time = self.log_append_time;
        std::mem::replace(self, empty)
    }

    /// Records so far.
    #[must_use]
    pub const fn record_count(&self) -> i32 {
        self.header.record_count
    }

    /// Whether no record has been appended.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.header.record_count == 0
    }

    /// Bytes of the batch if it were built now without compression.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        HEADER_BYTES + self.records.len()
    }

    /// An upper bound of what a record adds to [`Self::size_bytes`].
    #[must_use]
    pub fn record_bound(key: Option<&[u8]>, value: Option<&[u8]>, header_bytes: usize) -> usize {
        // length, attributes, two deltas, three lengths
        const FIXED: usize = 5 + 1 + 10 + 5 + 5 + 5 + 5;
        FIXED + key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len) + header_bytes
    }

    /// An upper bound of the bytes of a record's headers, for [`Self::record_bound`].
    #[must_use]
    pub fn header_bytes(headers: &[Header<'_>]) -> usize {
        let field = |field: &[u8]| 5 + field.len();
        headers.iter().map(|h| field(h.key) + h.value.map_or(1, field)).sum()
    }

    /// The batch. Building again gives the same bytes.
    ///
    /// # Errors
    /// [`BuildError::TooLarge`].
    pub fn build(&self) -> Result<Bytes, BuildError> {
        let (header, payload) = self.build_parts()?;
        let mut out = Vec::with_capacity(HEADER_BYTES + payload.len());
        out.extend_from_slice(&header.encode());
        out.extend_from_slice(&payload);
        Ok(out.into())
    }

    /// The header and the bytes that follow it.
    pub(crate) fn build_parts(&self) -> Result<(BatchHeader, Vec<u8>), BuildError> {
        let payload = match self.compression {
            Compression::None => self.records.clone(),
            codec @ (Compression::Gzip
            | Compression::Snappy
            | Compression::Lz4
            | Compression::Zstd) => codec
                .compress(2, self.levels, &self.records)
                .map_err(|_: RecordsError| BuildError::TooLarge)?,
        };
        let mut header = self.header.clone();
        header.attributes = header.attributes.with_compression(self.compression);
        if let Some(now) = self.log_append_time {
            header.attributes = header.attributes.with_timestamp_type(TimestampType::LogAppendTime);
            header.max_timestamp = now;
        }
        header.last_offset_delta = header.last_offset_delta.max(0);
        header.batch_length = i32::try_from(HEADER_BYTES - LOG_OVERHEAD_BYTES + payload.len())
            .map_err(|_| BuildError::TooLarge)?;
        header.crc = header.compute_crc(&payload);
        Ok((header, payload))
    }
}
