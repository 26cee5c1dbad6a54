//! Batches of any magic in a stretch of bytes, and their records.

use super::compression::{Compression, Inflater, fair_limit};
use super::error::RecordsError;
use super::header::{BatchHeader, HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC_POSITION, TimestampType};
use super::legacy::{InnerMessages, LegacyMessage, MIN_SIZE, Numbering};
use super::record::{RawRecord, Record};
use model::{Offset, Timestamp};
use std::borrow::Cow;
use std::iter::FusedIterator;

/// One batch, borrowed: a v2 batch, or a message of magic 0 or 1 (which may wrap a compressed set).
#[derive(Clone, Debug)]
pub struct Batch<'a> {
    position: usize,
    bytes: &'a [u8],
    kind: Kind<'a>,
}

#[derive(Clone, Debug)]
enum Kind<'a> {
    V2(BatchHeader),
    Legacy(LegacyMessage<'a>),
}

impl<'a> Batch<'a> {
    /// Where the batch starts in the bytes that were iterated.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// The whole batch.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// 0, 1 or 2.
    #[must_use]
    pub const fn magic(&self) -> u8 {
        match &self.kind {
            Kind::V2(_) => 2,
            Kind::Legacy(message) => message.magic,
        }
    }

    /// The header, in magic 2.
    #[must_use]
    pub const fn header(&self) -> Option<&BatchHeader> {
        match &self.kind {
            Kind::V2(header) => Some(header),
            Kind::Legacy(_) => None,
        }
    }

    /// The message, in magic 0 and 1.
    #[must_use]
    pub const fn legacy(&self) -> Option<&LegacyMessage<'a>> {
        match &self.kind {
            Kind::V2(_) => None,
            Kind::Legacy(message) => Some(message),
        }
    }

    /// Whether the checksum is right.
    #[must_use]
    pub fn verify(&self) -> bool {
        match &self.kind {
            Kind::V2(header) => header.verify(self.bytes),
            Kind::Legacy(message) => message.verify(),
        }
    }

    /// The first offset; of a compressed legacy message it is only known after inflating.
    #[must_use]
    pub fn base_offset(&self) -> Option<Offset> {
        match &self.kind {
            Kind::V2(header) => Some(header.base_offset()),
            Kind::Legacy(message) => match message.compression() {
                Ok(Compression::None) => Some(Offset(message.offset)),
                _ => None,
            },
        }
    }

    /// The last offset, inclusive.
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        match &self.kind {
            Kind::V2(header) => header.last_offset(),
            Kind::Legacy(message) => Offset(message.offset),
        }
    }

    /// The largest timestamp; none if no record has one.
    #[must_use]
    pub fn max_timestamp(&self) -> Option<Timestamp> {
        match &self.kind {
            Kind::V2(header) => header.max_timestamp(),
            Kind::Legacy(message) => {
                (message.timestamp != -1).then_some(Timestamp(message.timestamp))
            }
        }
    }

    /// Who assigned the timestamps.
    #[must_use]
    pub const fn timestamp_type(&self) -> TimestampType {
        match &self.kind {
            Kind::V2(header) => header.attributes.timestamp_type(),
            Kind::Legacy(message) => message.timestamp_type(),
        }
    }

    /// The codec.
    ///
    /// # Errors
    /// [`RecordsError::Invalid`] or as [`Compression::from_id`] for a number that this magic does not have.
    pub fn compression(&self) -> Result<Compression, RecordsError> {
        match &self.kind {
            Kind::V2(header) => header.attributes.compression(),
            Kind::Legacy(message) => message.compression(),
        }
    }

    /// Whether the batch belongs to a transaction.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.header().is_some_and(|header| header.attributes.is_transactional())
    }

    /// Whether the batch holds a control record.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.header().is_some_and(|header| header.attributes.is_control())
    }

    /// The records, inflated if need be. Does not check the CRC.
    ///
    /// # Errors
    /// [`RecordsError::TooLarge`] if they inflate to more than `limit` bytes and to more than 32 times
    /// the batch; the others if the block cannot be inflated. Each record is checked when it is reached.
    pub fn records(&self, limit: usize) -> Result<BatchRecords<'a>, RecordsError> {
        let limit = fair_limit(limit, self.bytes.len());
        match &self.kind {
            Kind::V2(header) => {
                let payload = &self.bytes[HEADER_BYTES..];
                let data = match header.attributes.compression()? {
                    Compression::None => Cow::Borrowed(payload),
                    // A batch that compaction emptied may say it is compressed.
                    _ if header.record_count == 0 && payload.is_empty() => Cow::Borrowed(payload),
                    codec @ (Compression::Gzip
                    | Compression::Snappy
                    | Compression::Lz4
                    | Compression::Zstd) => {
                        Cow::Owned(Inflater::new(codec, 2, payload, limit)?.read_to_end()?)
                    }
                };
                Ok(BatchRecords { data, source: Source::V2(header.clone()) })
            }
            Kind::Legacy(message) => match message.compression()? {
                Compression::None => Ok(BatchRecords {
                    data: Cow::Borrowed(message.bytes()),
                    source: Source::Message,
                }),
                Compression::Gzip | Compression::Snappy | Compression::Lz4 | Compression::Zstd => {
                    let set = message.inflate(limit)?;
                    let numbering = InnerMessages::numbering(message, &set)?;
                    Ok(BatchRecords { data: Cow::Owned(set), source: Source::Inner(numbering) })
                }
            },
        }
    }
}

/// The records of a batch: the uncompressed bytes, borrowed or inflated.
#[derive(Clone, Debug)]
pub struct BatchRecords<'a> {
    data: Cow<'a, [u8]>,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    V2(BatchHeader),
    Message,
    Inner(Numbering),
}

impl BatchRecords<'_> {
    /// The records in order. The iterator ends after its first error.
    #[must_use]
    pub fn iter(&self) -> RecordIter<'_> {
        let data = self.data.as_ref();
        let state = match &self.source {
            Source::V2(header) => State::V2 { header, data, at: 0, read: 0 },
            Source::Message => State::Message(data),
            Source::Inner(numbering) => State::Inner(InnerMessages::new(data, *numbering)),
        };
        RecordIter { state }
    }
}

impl BatchRecords<'_> {
    /// The messages of the formats 0 and 1 that the records are, with checksums of their own; `None` in format 2.
    /// Offsets and timestamps are absolute.
    #[must_use]
    pub fn messages(
        &self,
    ) -> Option<impl Iterator<Item = Result<LegacyMessage<'_>, RecordsError>>> {
        let data = self.data.as_ref();
        let (mut single, mut inner) = match &self.source {
            Source::V2(_) => return None,
            Source::Message => (Some(data), None),
            Source::Inner(numbering) => (None, Some(InnerMessages::new(data, *numbering))),
        };
        Some(std::iter::from_fn(move || {
            if let Some(message) = single.take() {
                return Some(LegacyMessage::parse(message));
            }
            let next = inner.as_mut()?.next_message().transpose();
            if !matches!(next, Some(Ok(_))) {
                inner = None;
            }
            next
        }))
    }
}

impl<'r> IntoIterator for &'r BatchRecords<'_> {
    type Item = Result<Record<'r>, RecordsError>;
    type IntoIter = RecordIter<'r>;

    fn into_iter(self) -> RecordIter<'r> {
        self.iter()
    }
}

/// The records of one batch.
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    state: State<'a>,
}

#[derive(Clone, Debug)]
enum State<'a> {
    V2 { header: &'a BatchHeader, data: &'a [u8], at: usize, read: i32 },
    Message(&'a [u8]),
    Inner(InnerMessages<'a>),
    Done,
}

impl<'a> RecordIter<'a> {
    fn step(&mut self) -> Result<Option<Record<'a>>, RecordsError> {
        match &mut self.state {
            State::V2 { header, data, at, read } => {
                if *read == header.record_count {
                    let done = *at == data.len();
                    self.state = State::Done;
                    return match done {
                        true => Ok(None),
                        false => Err(RecordsError::invalid("more bytes than the batch's records")),
                    };
                }
                if header.record_count < 0 {
                    return Err(RecordsError::invalid("negative record count"));
                }
                *read += 1;
                let raw = RawRecord::take(data, at)?;
                numbered(header, &raw).map(Some)
            }
            State::Message(bytes) => {
                let message = LegacyMessage::parse(bytes)?;
                self.state = State::Done;
                Ok(Some(message.into()))
            }
            State::Inner(messages) => {
                let Some(message) = messages.next_message()? else { return Ok(None) };
                if message.attributes & 0b111 != 0 {
                    return Err(RecordsError::invalid("compressed message in a compressed set"));
                }
                Ok(Some(message.into()))
            }
            State::Done => Ok(None),
        }
    }
}

/// Gives a record of `header`'s batch its absolute offset and timestamp.
fn numbered<'a>(header: &BatchHeader, raw: &RawRecord<'a>) -> Result<Record<'a>, RecordsError> {
    let offset = header
        .base_offset
        .checked_add(i64::from(raw.offset_delta))
        .ok_or(RecordsError::invalid("offset overflows"))?;
    let timestamp = match header.attributes.timestamp_type() {
        TimestampType::LogAppendTime => header.max_timestamp,
        TimestampType::CreateTime => header.timestamp(raw.timestamp_delta),
    };
    Ok(Record {
        offset: Offset(offset),
        timestamp: (timestamp != -1).then_some(Timestamp(timestamp)),
        key: raw.key,
        value: raw.value,
        headers: raw.headers.clone(),
    })
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<Record<'a>, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if !matches!(step, Ok(Some(_))) {
            self.state = State::Done;
        }
        step.transpose()
    }
}

impl FusedIterator for RecordIter<'_> {}

/// What follows the last whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incomplete {
    /// Where it starts.
    pub position: usize,
    /// How many bytes there are.
    pub length: usize,
    /// How many bytes the batch needs in all, if its size can be seen: fetch at least that many.
    pub needed: Option<usize>,
}

/// The batches in a stretch of bytes, framed but not checked further. Ends before an incomplete one,
/// and after the first error, since nothing after it can be found.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    position: usize,
    failed: bool,
}

impl<'a> Batches<'a> {
    /// The batches from the start of `bytes` on.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0, failed: false }
    }

    /// How far the iteration has come: the end of the last batch that was returned.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }

    /// The bytes that follow the last batch, once the iteration has ended; none if it ended flush.
    #[must_use]
    pub fn incomplete(&self) -> Option<Incomplete> {
        let rest = &self.bytes[self.position..];
        (!rest.is_empty()).then(|| Incomplete {
            position: self.position,
            length: rest.len(),
            needed: rest
                .get(8..LOG_OVERHEAD_BYTES)
                .and_then(|size| size.first_chunk())
                .and_then(|size| usize::try_from(i32::from_be_bytes(*size)).ok())
                .map(|size| size + LOG_OVERHEAD_BYTES),
        })
    }

    fn step(&mut self) -> Result<Option<Batch<'a>>, RecordsError> {
        let rest = &self.bytes[self.position..];
        let Some(size) = rest.get(8..LOG_OVERHEAD_BYTES).and_then(|size| size.first_chunk()) else {
            return Ok(None);
        };
        let size = usize::try_from(i32::from_be_bytes(*size))
            .ok()
            .filter(|&size| size >= MIN_SIZE)
            .ok_or(RecordsError::corrupt("size is smaller than the smallest batch"))?
            + LOG_OVERHEAD_BYTES;
        let Some(&magic) = rest.get(MAGIC_POSITION) else { return Ok(None) };
        if magic > 2 {
            return Err(RecordsError::corrupt("unknown magic"));
        }
        let Some(bytes) = rest.get(..size) else { return Ok(None) };
        let kind = match magic {
            2 => Kind::V2(BatchHeader::parse(bytes)?),
            _ => Kind::Legacy(LegacyMessage::parse(bytes)?),
        };
        let batch = Batch { position: self.position, bytes, kind };
        self.position += size;
        Ok(Some(batch))
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>, RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        step.transpose()
    }
}

impl FusedIterator for Batches<'_> {}
