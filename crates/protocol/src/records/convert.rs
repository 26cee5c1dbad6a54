//! Conversion to older formats, for fetches of version 0 to 3.
//!
//! Versions 0 and 1 get magic 0, versions 2 and 3 magic 1. What these cannot say is lost: headers,
//! producers, transactions; control batches are left out. Batches of at most the target's magic go as
//! they are.

use super::batch::{Batch, Batches};
use super::compression::{Compression, CompressionLevels};
use super::error::RecordsError;
use super::header::TimestampType;
use super::legacy::write_message;
use bytes::Bytes;
use model::Offset;

/// What a consumer of an older version gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DownConverted {
    /// The message set. Empty if nothing in the batches is for consumers: then read on.
    pub records: Bytes,
    /// The offset after the last batch that is in `records` or was left out.
    pub next_offset: Offset,
    /// Records that were rewritten.
    pub converted_records: usize,
}

/// Which magic a version of Fetch can be answered with.
#[must_use]
pub const fn fetch_magic(version: i16) -> u8 {
    match version {
        ..=1 => 0,
        2..=3 => 1,
        _ => 2,
    }
}

/// Converts `input` to `magic`, batch by batch, as long as the result stays within `max_bytes`. The first batch is
/// converted whole, however large; of a later one, so many messages as fit.
///
/// Records of uncompressed batches below `fetch_offset` are left out, because librdkafka relies on it;
/// older consumers skip those of compressed ones themselves. If `input` holds no whole batch nothing
/// comes of it, as in Kafka, though a consumer then cannot see that it has to fetch more.
///
/// # Errors
/// [`RecordsError::Codec`] if the first batch is compressed with zstd, for which older versions have no
/// number; later ones end the result. Others if a batch on disk is broken.
pub fn down_convert(
    input: &Bytes,
    magic: u8,
    fetch_offset: Offset,
    max_bytes: usize,
    inflate_limit: usize,
) -> Result<DownConverted, RecordsError> {
    let mut out = Vec::new();
    let mut converted_records = 0;
    let mut next_offset = None;
    for batch in Batches::new(input) {
        let batch = batch?;
        let before = out.len();
        if before > 0 && before >= max_bytes {
            break;
        }
        let codec = batch.compression()?;
        if codec == Compression::Zstd && !batch.is_control() {
            if next_offset.is_some() && !out.is_empty() {
                break;
            }
            return Err(RecordsError::Codec("zstd for a consumer of an older version".into()));
        }
        if batch.is_control() {
        } else if batch.magic() <= magic {
            out.extend_from_slice(batch.bytes());
        } else {
            converted_records +=
                convert(&batch, codec, magic, fetch_offset, inflate_limit, &mut out)?;
        }
        if before > 0 && out.len() > max_bytes {
            let whole = whole_messages(&out[before..max_bytes]);
            out.truncate(before + whole);
            break;
        }
        next_offset = Some(Offset(batch.last_offset().0.saturating_add(1)));
    }
    let next_offset = next_offset.unwrap_or(fetch_offset);
    Ok(DownConverted { records: out.into(), next_offset, converted_records })
}

/// The length of the messages that are whole in `set`.
fn whole_messages(set: &[u8]) -> usize {
    let mut end = 0;
    // An offset, then the length of the rest.
    while let Some(length) = set.get(end + 8..end + 12) {
        let length = length.try_into().map(u32::from_be_bytes).expect("four bytes");
        let next =
            usize::try_from(length).map_or(usize::MAX, |length| length.saturating_add(end + 12));
        if next > set.len() {
            break;
        }
        end = next;
    }
    end
}

fn convert(
    batch: &Batch<'_>,
    codec: Compression,
    magic: u8,
    fetch_offset: Offset,
    inflate_limit: usize,
    out: &mut Vec<u8>,
) -> Result<usize, RecordsError> {
    let stamped = batch.timestamp_type() == TimestampType::LogAppendTime && magic > 0;
    let attributes = if stamped { 0b1000 } else { 0 };
    let records = batch.records(inflate_limit)?;
    if codec == Compression::None {
        let mut count = 0;
        for record in records.iter() {
            let record = record?;
            if record.offset < fetch_offset {
                continue;
            }
            let timestamp = record.timestamp.map_or(-1, |at| at.0);
            let form = (magic, attributes);
            write_message(out, form, record.offset.0, timestamp, record.key, record.value)?;
            count += 1;
        }
        return Ok(count);
    }
    let mut set = Vec::new();
    let mut range = None;
    let mut max_timestamp = -1;
    let mut count = 0;
    for record in records.iter() {
        let record = record?;
        let (base, _) = *range.get_or_insert((record.offset.0, record.offset.0));
        range = Some((base, record.offset.0));
        let timestamp = record.timestamp.map_or(-1, |at| at.0);
        max_timestamp = timestamp.max(max_timestamp);
        // Inner offsets of magic 0 are absolute.
        let offset = if magic == 0 { record.offset.0 } else { record.offset.0 - base };
        write_message(&mut set, (magic, 0), offset, timestamp, record.key, record.value)?;
        count += 1;
    }
    let Some((_, last)) = range else { return Ok(0) };
    let value = codec.compress(magic, CompressionLevels::DEFAULT, &set)?;
    let form = (magic, attributes | codec.id());
    write_message(out, form, last, max_timestamp, None, Some(&value))?;
    Ok(count)
}

#[cfg(test)]
mod tests;
