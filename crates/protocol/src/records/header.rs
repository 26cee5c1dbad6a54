//! The 61 bytes in front of every batch of magic 2.

use super::compression::Compression;
use super::error::RecordsError;
use crc_fast::{CrcAlgorithm, Digest};
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

/// Bytes of a v2 batch before its records.
pub const HEADER_BYTES: usize = 61;
/// Bytes of every entry, of any magic, that its size field does not count: offset and size.
pub const LOG_OVERHEAD_BYTES: usize = 12;
/// Where the magic byte is, in every format.
pub const MAGIC_POSITION: usize = 16;
/// The smallest batch length: a header alone.
const MIN_BATCH_LENGTH: i32 = 49;
/// Where the part that the CRC covers starts.
const CRC_FROM: usize = 21;

/// Who assigns the timestamps of a batch's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// The producer; each record has its own.
    #[default]
    CreateTime,
    /// The broker: all records have the batch's max timestamp.
    LogAppendTime,
}

/// The flags of a batch. Bits: 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 base
/// timestamp is a delete horizon; readers ignore the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attributes(pub i16);

impl Attributes {
    const CODEC: i16 = 0b111;
    const LOG_APPEND_TIME: i16 = 1 << 3;
    const TRANSACTIONAL: i16 = 1 << 4;
    const CONTROL: i16 = 1 << 5;
    const DELETE_HORIZON: i16 = 1 << 6;

    /// The codec of the records.
    ///
    /// # Errors
    /// [`RecordsError::Unreadable`] for the unused numbers 5 to 7.
    pub fn compression(self) -> Result<Compression, RecordsError> {
        Compression::from_id(self.0.to_le_bytes()[0] & Self::CODEC.to_le_bytes()[0])
    }

    /// Who assigned the timestamps.
    #[must_use]
    pub const fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    /// Whether the records belong to a transaction.
    #[must_use]
    pub const fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    /// Whether the batch holds a control record, which consumers never see.
    #[must_use]
    pub const fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    /// Whether the base timestamp is the time when tombstones may go (KIP-534).
    #[must_use]
    pub const fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }

    /// The same flags with another codec.
    #[must_use]
    pub fn with_compression(self, compression: Compression) -> Self {
        Self(self.0 & !Self::CODEC | i16::from(compression.id()))
    }

    /// The same flags with another timestamp type.
    #[must_use]
    pub const fn with_timestamp_type(self, timestamp_type: TimestampType) -> Self {
        self.with(Self::LOG_APPEND_TIME, matches!(timestamp_type, TimestampType::LogAppendTime))
    }

    /// The same flags, transactional or not.
    #[must_use]
    pub const fn with_transactional(self, is: bool) -> Self {
        self.with(Self::TRANSACTIONAL, is)
    }

    /// The same flags, control batch or not.
    #[must_use]
    pub const fn with_control(self, is: bool) -> Self {
        self.with(Self::CONTROL, is)
    }

    /// The same flags, with or without a delete horizon.
    #[must_use]
    pub const fn with_delete_horizon(self, is: bool) -> Self {
        self.with(Self::DELETE_HORIZON, is)
    }

    const fn with(self, bit: i16, is: bool) -> Self {
        Self(if is { self.0 | bit } else { self.0 & !bit })
    }
}

/// Which producer wrote a batch (KIP-98).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProducerStamp {
    /// The producer.
    pub id: ProducerId,
    /// Its incarnation.
    pub epoch: ProducerEpoch,
    /// The sequence of the batch's first record; none in control batches.
    pub base_sequence: Option<Sequence>,
}

/// The header of a v2 batch, field by field as it lies on the wire and on disk.
///
/// The numbers are raw, sentinels included, so that parsing and encoding are exact inverses; the
/// methods give them meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the first record, or of one that compaction removed; 0 from producers.
    pub base_offset: i64,
    /// Bytes after this field; the whole batch has 12 more.
    pub batch_length: i32,
    /// Epoch of the leader that appended the batch; -1 if unknown. Not covered by the CRC.
    pub partition_leader_epoch: i32,
    /// CRC-32C of everything from the attributes on.
    pub crc: u32,
    /// Flags.
    pub attributes: Attributes,
    /// The last record's offset, less `base_offset`.
    pub last_offset_delta: i32,
    /// The first record's timestamp, from which deltas count; or the delete horizon; -1 if empty.
    pub base_timestamp: i64,
    /// The largest timestamp of the records, or the append time.
    pub max_timestamp: i64,
    /// -1 if the producer is not idempotent.
    pub producer_id: i64,
    /// -1 if the producer is not idempotent.
    pub producer_epoch: i16,
    /// -1 if the producer is not idempotent, and in control batches.
    pub base_sequence: i32,
    /// Records in the batch; compaction may leave none.
    pub record_count: i32,
}

/// The `N` bytes at `at`. Callers have checked that they are there.
fn field<const N: usize>(bytes: &[u8; HEADER_BYTES], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

impl BatchHeader {
    /// Reads the header at the start of `bytes`.
    ///
    /// Checks what makes it one: 61 bytes, magic 2, a length that covers the header. Not the CRC
    /// ([`Self::verify`]), and not whether the rest of the batch is there.
    ///
    /// # Errors
    /// [`RecordsError::Corrupt`].
    pub fn parse(bytes: &[u8]) -> Result<Self, RecordsError> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(RecordsError::corrupt("fewer bytes than a batch header"));
        };
        if bytes[MAGIC_POSITION] != 2 {
            return Err(RecordsError::corrupt("magic is not 2"));
        }
        let header = Self {
            base_offset: i64::from_be_bytes(field(bytes, 0)),
            batch_length: i32::from_be_bytes(field(bytes, 8)),
            partition_leader_epoch: i32::from_be_bytes(field(bytes, 12)),
            crc: u32::from_be_bytes(field(bytes, 17)),
            attributes: Attributes(i16::from_be_bytes(field(bytes, CRC_FROM))),
            last_offset_delta: i32::from_be_bytes(field(bytes, 23)),
            base_timestamp: i64::from_be_bytes(field(bytes, 27)),
            max_timestamp: i64::from_be_bytes(field(bytes, 35)),
            producer_id: i64::from_be_bytes(field(bytes, 43)),
            producer_epoch: i16::from_be_bytes(field(bytes, 51)),
            base_sequence: i32::from_be_bytes(field(bytes, 53)),
            record_count: i32::from_be_bytes(field(bytes, 57)),
        };
        if header.batch_length < MIN_BATCH_LENGTH {
            return Err(RecordsError::corrupt("batch length is smaller than its header"));
        }
        Ok(header)
    }

    /// The header's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[0..8].copy_from_slice(&self.base_offset.to_be_bytes());
        out[8..12].copy_from_slice(&self.batch_length.to_be_bytes());
        out[12..16].copy_from_slice(&self.partition_leader_epoch.to_be_bytes());
        out[MAGIC_POSITION] = 2;
        out[17..CRC_FROM].copy_from_slice(&self.crc.to_be_bytes());
        out[CRC_FROM..23].copy_from_slice(&self.attributes.0.to_be_bytes());
        out[23..27].copy_from_slice(&self.last_offset_delta.to_be_bytes());
        out[27..35].copy_from_slice(&self.base_timestamp.to_be_bytes());
        out[35..43].copy_from_slice(&self.max_timestamp.to_be_bytes());
        out[43..51].copy_from_slice(&self.producer_id.to_be_bytes());
        out[51..53].copy_from_slice(&self.producer_epoch.to_be_bytes());
        out[53..57].copy_from_slice(&self.base_sequence.to_be_bytes());
        out[57..].copy_from_slice(&self.record_count.to_be_bytes());
        out
    }

    /// The CRC that belongs to this header and `payload`, the bytes after it.
    #[must_use]
    pub fn compute_crc(&self, payload: &[u8]) -> u32 {
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(&self.encode()[CRC_FROM..]);
        digest.update(payload);
        low_half(digest.finalize())
    }

    /// Whether the CRC is right. `batch` is the whole batch that this header was parsed from.
    #[must_use]
    pub fn verify(&self, batch: &[u8]) -> bool {
        batch.get(CRC_FROM..).is_some_and(|covered| {
            low_half(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, covered)) == self.crc
        })
    }

    /// Bytes of the whole batch.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        usize::try_from(self.batch_length).unwrap_or(0) + LOG_OVERHEAD_BYTES
    }

    /// The offset of the first record (or of one that compaction removed).
    #[must_use]
    pub const fn base_offset(&self) -> Offset {
        Offset(self.base_offset)
    }

    /// The offset of the last record, inclusive (or of one that compaction removed).
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset.saturating_add(i64::from(self.last_offset_delta)))
    }

    /// The offset after the last record.
    #[must_use]
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.saturating_add(1))
    }

    /// The epoch of the leader that appended the batch.
    #[must_use]
    pub fn leader_epoch(&self) -> Option<LeaderEpoch> {
        (self.partition_leader_epoch >= 0).then_some(LeaderEpoch(self.partition_leader_epoch))
    }

    /// The largest timestamp in the batch.
    #[must_use]
    pub fn max_timestamp(&self) -> Option<Timestamp> {
        (self.max_timestamp != -1).then_some(Timestamp(self.max_timestamp))
    }

    /// The time from which tombstones in the batch may be removed (KIP-534).
    #[must_use]
    pub fn delete_horizon(&self) -> Option<Timestamp> {
        self.attributes.has_delete_horizon().then_some(Timestamp(self.base_timestamp))
    }

    /// The producer, if it is idempotent.
    #[must_use]
    pub fn producer(&self) -> Option<ProducerStamp> {
        (self.producer_id > -1).then(|| ProducerStamp {
            id: ProducerId(self.producer_id),
            epoch: ProducerEpoch(self.producer_epoch),
            base_sequence: (self.base_sequence >= 0).then_some(Sequence(self.base_sequence)),
        })
    }

    /// The sequence of the batch's last record.
    #[must_use]
    pub fn last_sequence(&self) -> Option<Sequence> {
        Some(self.producer()?.base_sequence?.plus(self.last_offset_delta))
    }

    /// The create time of a record with `delta`. Wraps as Java does, which is what makes the pair
    /// (-1, `i64::MAX`) come out as it went in.
    #[inline]
    pub(crate) const fn timestamp(&self, delta: i64) -> i64 {
        self.base_timestamp.wrapping_add(delta)
    }

    /// Sets timestamp type and max timestamp as a leader does, and says whether the CRC is now stale.
    pub(crate) fn set_max_timestamp(&mut self, timestamp_type: TimestampType, max: i64) -> bool {
        if self.attributes.timestamp_type() == timestamp_type && self.max_timestamp == max {
            return false;
        }
        // Kafka reads only the low byte and writes the whole field.
        let low = i16::from(self.attributes.0.to_le_bytes()[0]);
        self.attributes = Attributes(low).with_timestamp_type(timestamp_type);
        self.max_timestamp = max;
        true
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a 32-bit checksum in a u64")]
const fn low_half(checksum: u64) -> u32 {
    checksum as u32
}
