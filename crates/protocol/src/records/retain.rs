//! Leaving only some records in a batch: how compaction rewrites what it does not drop whole.
//!
//! What the log relies on stays: offsets, the last offset and sequence of the batch, its producer, its
//! leader epoch and its codec. A batch of which every record stays is not touched at all, unless its
//! tombstones need a delete horizon (KIP-534).

use super::batch::{Batch, BatchRecords};
use super::compression::{Compression, CompressionLevels};
use super::error::RecordsError;
use super::header::{Attributes, BatchHeader, HEADER_BYTES, LOG_OVERHEAD_BYTES, TimestampType};
use super::legacy::{LegacyMessage, write_message};
use super::record::{EncodedHeaders, Record, write_record};
use model::Timestamp;

/// What a batch is rewritten by.
#[derive(Clone, Copy, Debug)]
pub struct RetainRules {
    /// Until when a batch keeps the tombstones that it has now, if it does not know yet.
    pub delete_horizon: Timestamp,
    /// The batch is the marker of a transaction that has no records any more: it gets a delete horizon
    /// as tombstones do.
    pub ends_empty_transaction: bool,
    /// Records may inflate to so many bytes, or to 32 times the batch.
    pub inflate_limit: usize,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retained {
    /// All of it stays as it is.
    Unchanged,
    /// It was rewritten.
    Rewritten,
    /// No record is left.
    Nothing,
}

/// The bits of a batch's attributes that have a meaning.
const KNOWN_ATTRIBUTES: i16 = 0x7f;

/// Appends to `out` what is left of `batch` if only the records stay that `keep` accepts, which sees each
/// once and in order. Nothing is appended unless the answer is [`Retained::Rewritten`]. Does not check the
/// CRC.
///
/// # Errors
/// [`RecordsError`] if the batch cannot be read; `out` is then as it was.
pub fn retain(
    batch: &Batch<'_>,
    rules: &RetainRules,
    mut keep: impl FnMut(&Record<'_>) -> bool,
    out: &mut Vec<u8>,
) -> Result<Retained, RecordsError> {
    let records = batch.records(rules.inflate_limit)?;
    let (mut kept, mut has_tombstone) = (Vec::new(), false);
    for record in &records {
        let record = record?;
        let is_kept = keep(&record);
        has_tombstone |= is_kept && record.value.is_none();
        kept.push(is_kept);
    }
    if !kept.contains(&true) {
        return Ok(Retained::Nothing);
    }
    let needs_horizon = (has_tombstone || rules.ends_empty_transaction)
        && batch.header().is_some_and(|header| header.delete_horizon().is_none());
    if !kept.contains(&false) && !needs_horizon {
        return Ok(Retained::Unchanged);
    }
    let start = out.len();
    let written = match (batch.header(), batch.legacy()) {
        (Some(header), _) => {
            let horizon =
                if needs_horizon { Some(rules.delete_horizon) } else { header.delete_horizon() };
            write_batch(header, horizon, &records, &kept, out)
        }
        (None, Some(wrapper)) => write_wrapper(wrapper, &records, &kept, out),
        (None, None) => unreachable!("a batch is of one format or the other"),
    };
    if let Err(error) = written {
        out.truncate(start);
        return Err(error);
    }
    Ok(Retained::Rewritten)
}

/// The batch of `header` without records: it keeps what it says of its producer and of offsets.
#[must_use]
pub fn empty_batch(header: &BatchHeader) -> [u8; HEADER_BYTES] {
    let attributes = Attributes(header.attributes.0 & KNOWN_ATTRIBUTES)
        .with_compression(Compression::None)
        .with_delete_horizon(false);
    let mut empty = BatchHeader {
        batch_length: batch_length(0).expect("a header is short"),
        attributes,
        base_timestamp: -1,
        record_count: 0,
        ..header.clone()
    };
    empty.crc = empty.compute_crc(&[]);
    empty.encode()
}

fn batch_length(payload: usize) -> Option<i32> {
    i32::try_from(HEADER_BYTES - LOG_OVERHEAD_BYTES + payload).ok()
}

fn kept_records<'r>(
    records: &'r BatchRecords<'_>,
    kept: &'r [bool],
) -> impl Iterator<Item = Result<Record<'r>, RecordsError>> {
    records.iter().zip(kept).filter(|(_, kept)| **kept).map(|(record, _)| record)
}

fn write_batch(
    header: &BatchHeader,
    delete_horizon: Option<Timestamp>,
    records: &BatchRecords<'_>,
    kept: &[bool],
    out: &mut Vec<u8>,
) -> Result<(), RecordsError> {
    let mut payload = Vec::new();
    let mut base_timestamp = delete_horizon.map(|horizon| horizon.0);
    let (mut max_timestamp, mut count) = (-1, 0);
    for record in kept_records(records, kept) {
        let record = record?;
        let timestamp = record.timestamp.map_or(-1, |timestamp| timestamp.0);
        let base = *base_timestamp.get_or_insert(timestamp);
        max_timestamp = timestamp.max(max_timestamp);
        let offset_delta = i32::try_from(record.offset.0 - header.base_offset)
            .map_err(|_| RecordsError::invalid("offset lies outside of its batch"))?;
        write_record(
            &mut payload,
            timestamp.wrapping_sub(base),
            offset_delta,
            record.key,
            record.value,
            EncodedHeaders::from(&record.headers),
        );
        count += 1;
    }
    let codec = header.attributes.compression()?;
    if codec != Compression::None {
        payload = codec.compress(2, CompressionLevels::DEFAULT, &payload)?;
    }
    let attributes = Attributes(header.attributes.0 & KNOWN_ATTRIBUTES)
        .with_delete_horizon(delete_horizon.is_some());
    let mut rewritten = BatchHeader {
        batch_length: batch_length(payload.len())
            .ok_or(RecordsError::invalid("batch above 2 GiB"))?,
        attributes,
        base_timestamp: base_timestamp.unwrap_or(-1),
        max_timestamp: match attributes.timestamp_type() {
            TimestampType::LogAppendTime => header.max_timestamp,
            TimestampType::CreateTime => max_timestamp,
        },
        record_count: count,
        ..header.clone()
    };
    rewritten.crc = rewritten.compute_crc(&payload);
    out.extend_from_slice(&rewritten.encode());
    out.extend_from_slice(&payload);
    Ok(())
}

/// A compressed message set of magic 0 or 1: its offset is that of its last message.
fn write_wrapper(
    wrapper: &LegacyMessage<'_>,
    records: &BatchRecords<'_>,
    kept: &[bool],
    out: &mut Vec<u8>,
) -> Result<(), RecordsError> {
    let magic = wrapper.magic;
    let timestamp_type = wrapper.timestamp_type();
    let stamp = match timestamp_type {
        TimestampType::LogAppendTime => 0b1000,
        TimestampType::CreateTime => 0,
    };
    let mut set = Vec::new();
    let (mut first, mut last, mut max_timestamp) = (None, -1, -1);
    for record in kept_records(records, kept) {
        let record = record?;
        let timestamp = record.timestamp.map_or(-1, |timestamp| timestamp.0);
        let first = *first.get_or_insert(record.offset.0);
        last = record.offset.0;
        max_timestamp = timestamp.max(max_timestamp);
        // Inner offsets of magic 0 are absolute.
        let offset = if magic == 0 { last } else { last - first };
        write_message(&mut set, (magic, stamp), offset, timestamp, record.key, record.value)?;
    }
    let codec = wrapper.compression()?;
    let value = codec.compress(magic, CompressionLevels::DEFAULT, &set)?;
    let timestamp = match timestamp_type {
        TimestampType::LogAppendTime => wrapper.timestamp,
        TimestampType::CreateTime => max_timestamp,
    };
    write_message(out, (magic, stamp | codec.id()), last, timestamp, None, Some(&value))
}

#[cfg(test)]
mod tests;
