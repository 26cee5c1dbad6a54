//! Messages of magic 0 and 1, the formats before KIP-98.
//!
//! `offset i64 | size i32 | crc u32 | magic i8 | attributes i8 | timestamp i64 (magic 1) | key | value`,
//! key and value with i32 lengths. The CRC is CRC-32 (not 32C) of everything from the magic on.

use super::compression::{Compression, Inflater};
use super::error::RecordsError;
use super::header::TimestampType;
use super::record::{Headers, Record};
use model::{Offset, Timestamp};

/// The smallest `size` of any entry: a message of magic 0 with null key and value.
pub(crate) const MIN_SIZE: usize = 14;
const CRC_AT: usize = 12;
const CRC_FROM: usize = 16;

/// A message as it stands, compressed or not, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyMessage<'a> {
    /// The stored offset: of a wrapper, that of its last inner message.
    pub offset: i64,
    /// 0 or 1.
    pub magic: u8,
    /// Bits 0-2 codec, bit 3 timestamp type (magic 1).
    pub attributes: u8,
    /// Magic 1 only; -1 if unknown.
    pub timestamp: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value, or the compressed message set.
    pub value: Option<&'a [u8]>,
    bytes: &'a [u8],
}

impl<'a> LegacyMessage<'a> {
    /// Reads one message that fills `bytes` (offset and size included) and has magic 0 or 1. The CRC
    /// is not checked.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, RecordsError> {
        const SHORT: RecordsError = RecordsError::corrupt("message is shorter than its fields");
        fn number<const N: usize>(bytes: &[u8], at: &mut usize) -> Result<[u8; N], RecordsError> {
            let found = bytes.get(*at..).and_then(|rest| rest.first_chunk::<N>()).ok_or(SHORT)?;
            *at += N;
            Ok(*found)
        }
        fn field<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Option<&'a [u8]>, RecordsError> {
            let length = i32::from_be_bytes(number(bytes, at)?);
            let Ok(length) = usize::try_from(length) else { return Ok(None) };
            let field = bytes.get(*at..).and_then(|rest| rest.get(..length)).ok_or(SHORT)?;
            *at += length;
            Ok(Some(field))
        }
        let mut at = 0;
        let offset = i64::from_be_bytes(number(bytes, &mut at)?);
        at = CRC_FROM;
        let [magic, attributes] = number(bytes, &mut at)?;
        let timestamp = match magic {
            0 => -1,
            1 => i64::from_be_bytes(number(bytes, &mut at)?),
            _ => return Err(RecordsError::corrupt("magic is not 0 or 1")),
        };
        let key = field(bytes, &mut at)?;
        let value = field(bytes, &mut at)?;
        Ok(Self { offset, magic, attributes, timestamp, key, value, bytes })
    }

    /// The whole message.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The CRC that it says it has.
    #[must_use]
    pub fn crc(&self) -> Option<u32> {
        let stored = self.bytes.get(CRC_AT..CRC_FROM).and_then(|crc| crc.first_chunk());
        stored.map(|stored| u32::from_be_bytes(*stored))
    }

    /// Whether the CRC is right.
    #[must_use]
    pub fn verify(&self) -> bool {
        self.crc().is_some_and(|stored| stored == crc32fast::hash(&self.bytes[CRC_FROM..]))
    }

    /// The codec of the message set in the value.
    ///
    /// # Errors
    /// [`RecordsError::Invalid`] for zstd, which these formats do not have; as [`Compression::from_id`] for
    /// unused numbers.
    pub fn compression(&self) -> Result<Compression, RecordsError> {
        match Compression::from_id(self.attributes & 0b111)? {
            Compression::Zstd => Err(RecordsError::invalid("zstd in a message set")),
            codec @ (Compression::None
            | Compression::Gzip
            | Compression::Snappy
            | Compression::Lz4) => Ok(codec),
        }
    }

    /// Who assigned the timestamp.
    #[must_use]
    pub const fn timestamp_type(&self) -> TimestampType {
        if self.magic > 0 && self.attributes & 0b1000 != 0 {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    /// Inflates the message set in the value of a compressed message.
    pub(crate) fn inflate(&self, limit: usize) -> Result<Vec<u8>, RecordsError> {
        let value = self.value.ok_or(RecordsError::invalid("compressed message without value"))?;
        Inflater::new(self.compression()?, self.magic, value, limit)?.read_to_end()
    }
}

/// Splits the next entry off a message set, or `None` if what is left is not a whole one.
pub(crate) fn next_entry<'a>(set: &mut &'a [u8]) -> Result<Option<&'a [u8]>, RecordsError> {
    let Some(size) = set.get(8..12).and_then(|size| size.first_chunk()) else { return Ok(None) };
    let size = usize::try_from(i32::from_be_bytes(*size))
        .ok()
        .filter(|&size| size >= MIN_SIZE)
        .ok_or(RecordsError::corrupt("size is smaller than the smallest message"))?;
    let Some((entry, rest)) = set.split_at_checked(size + 12) else { return Ok(None) };
    *set = rest;
    Ok(Some(entry))
}

/// How the records of a message get their offsets and timestamps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Numbering {
    /// What to add to an inner offset; none for absolute ones.
    base: Option<i64>,
    /// The wrapper's, if it is log append time.
    timestamp: Option<i64>,
}

/// The inner messages of an inflated wrapper.
#[derive(Clone, Debug)]
pub(crate) struct InnerMessages<'a> {
    rest: &'a [u8],
    numbering: Numbering,
}

impl<'a> InnerMessages<'a> {
    /// The messages in `set`, which was inflated from `wrapper`.
    ///
    /// Inner offsets of magic 1 are relative, and only the last one says to what: the wrapper has the
    /// last one's absolute offset. Some versions of librdkafka leave the wrapper at 0.
    pub(crate) fn numbering(
        wrapper: &LegacyMessage<'_>,
        set: &[u8],
    ) -> Result<Numbering, RecordsError> {
        let mut last = None;
        let mut rest = set;
        while let Some(entry) = next_entry(&mut rest)? {
            last = Some(LegacyMessage::parse(entry)?.offset);
        }
        let last = last.ok_or(RecordsError::invalid("compressed message set is empty"))?;
        let base = match wrapper.magic {
            0 => None,
            _ if wrapper.offset == 0 => Some(0),
            _ => {
                let base = wrapper.offset.checked_sub(last).filter(|base| *base >= 0);
                Some(base.ok_or(RecordsError::invalid("wrapper offset is below its last message"))?)
            }
        };
        let timestamp = match wrapper.timestamp_type() {
            TimestampType::LogAppendTime => Some(wrapper.timestamp),
            TimestampType::CreateTime => None,
        };
        Ok(Numbering { base, timestamp })
    }

    pub(crate) const fn new(set: &'a [u8], numbering: Numbering) -> Self {
        Self { rest: set, numbering }
    }

    /// The next inner message with its offset and timestamp made absolute. A partial one at the end
    /// is no error: old clients cut sets at a size.
    pub(crate) fn next_message(&mut self) -> Result<Option<LegacyMessage<'a>>, RecordsError> {
        let Some(entry) = next_entry(&mut self.rest)? else { return Ok(None) };
        let mut message = LegacyMessage::parse(entry)?;
        if let Some(base) = self.numbering.base {
            message.offset = message
                .offset
                .checked_add(base)
                .ok_or(RecordsError::invalid("offset overflows"))?;
        }
        if let Some(timestamp) = self.numbering.timestamp {
            message.timestamp = timestamp;
        }
        Ok(Some(message))
    }
}

impl<'a> From<LegacyMessage<'a>> for Record<'a> {
    fn from(message: LegacyMessage<'a>) -> Self {
        Self {
            offset: Offset(message.offset),
            timestamp: (message.timestamp != -1).then_some(Timestamp(message.timestamp)),
            key: message.key,
            value: message.value,
            headers: Headers::default(),
        }
    }
}

/// Appends a message. `offset` is absolute, or relative within a wrapper of magic 1.
pub(crate) fn write_message(
    out: &mut Vec<u8>,
    (magic, attributes): (u8, u8),
    offset: i64,
    timestamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> Result<(), RecordsError> {
    let field_size = |field: Option<&[u8]>| 4 + field.map_or(0, <[u8]>::len);
    let fixed = if magic == 0 { 6 } else { 14 };
    let size = fixed + field_size(key) + field_size(value);
    let start = out.len();
    out.extend_from_slice(&offset.to_be_bytes());
    let size = i32::try_from(size).map_err(|_| RecordsError::invalid("message above 2 GiB"))?;
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[magic, attributes]);
    if magic > 0 {
        out.extend_from_slice(&timestamp.to_be_bytes());
    }
    for field in [key, value] {
        let length = field.map_or(-1, |field| {
            i32::try_from(field.len()).expect("the message's size fits, which is larger")
        });
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(field.unwrap_or_default());
    }
    let crc = crc32fast::hash(&out[start + CRC_FROM..]);
    out[start + CRC_AT..start + CRC_FROM].copy_from_slice(&crc.to_be_bytes());
    Ok(())
}
