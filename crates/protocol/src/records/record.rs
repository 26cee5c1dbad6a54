//! One record, borrowed, whichever format it was in.

use super::error::RecordsError;
use super::varint;
use model::{Offset, Timestamp};

/// A record as consumers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its place in the partition; relative to the batch in records that no leader has numbered yet.
    pub offset: Offset,
    /// When it was made or appended; none in magic 0 and if the producer set none.
    pub timestamp: Option<Timestamp>,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value; none is a tombstone in a compacted topic.
    pub value: Option<&'a [u8]>,
    /// The headers; always empty in magic 0 and 1.
    pub headers: Headers<'a>,
}

/// A header of a record. Keys may repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// UTF-8 by convention; nobody checks.
    pub key: &'a [u8],
    /// The value.
    pub value: Option<&'a [u8]>,
}

/// The headers of a record, in order: an iterator over checked bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> Headers<'a> {
    /// How many are left.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.left
    }

    /// Whether none are left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// The wire bytes, without the count.
    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> Iterator for Headers<'a> {
    type Item = Header<'a>;

    fn next(&mut self) -> Option<Header<'a>> {
        self.left = self.left.checked_sub(1)?;
        let mut at = 0;
        let header = read_header(self.bytes, &mut at).expect("checked by `RawRecord::parse`");
        self.bytes = &self.bytes[at..];
        Some(header)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Headers<'_> {}

fn read_header<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Header<'a>, RecordsError> {
    let key = read_field(bytes, at)?.ok_or(RecordsError::invalid("null header key"))?;
    Ok(Header { key, value: read_field(bytes, at)? })
}

/// A length (-1 is null) and as many bytes.
#[inline]
fn read_field<'a>(bytes: &'a [u8], at: &mut usize) -> Result<Option<&'a [u8]>, RecordsError> {
    const SHORT: RecordsError = RecordsError::invalid("a field reaches beyond its record");
    let length = varint::read_i32(bytes, at).ok_or(SHORT)?;
    // As in Kafka, every negative length means null.
    let Ok(length) = usize::try_from(length) else { return Ok(None) };
    let field = bytes.get(*at..).and_then(|rest| rest.get(..length)).ok_or(SHORT)?;
    *at += length;
    Ok(Some(field))
}

/// The body of a v2 record: everything that does not need its batch's header.
#[derive(Clone, Debug)]
pub(crate) struct RawRecord<'a> {
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i32,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: Headers<'a>,
}

impl<'a> RawRecord<'a> {
    /// Takes the record at `*at`, length included, and moves past it. Every byte is accounted for.
    #[inline]
    pub(crate) fn take(bytes: &'a [u8], at: &mut usize) -> Result<Self, RecordsError> {
        const EARLY: RecordsError = RecordsError::invalid("fewer records than the batch declares");
        let length = varint::read_i32(bytes, at).ok_or(EARLY)?;
        let length =
            usize::try_from(length).map_err(|_| RecordsError::invalid("negative record length"))?;
        let body = bytes.get(*at..).and_then(|rest| rest.get(..length)).ok_or(EARLY)?;
        *at += length;
        Self::parse(body)
    }

    /// Reads a record without its length.
    #[inline]
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, RecordsError> {
        const SHORT: RecordsError = RecordsError::invalid("a field reaches beyond its record");
        let mut at = 1; // the attributes have no meaning
        let timestamp_delta = varint::read_i64(body, &mut at).ok_or(SHORT)?;
        let offset_delta = varint::read_i32(body, &mut at).ok_or(SHORT)?;
        let key = read_field(body, &mut at)?;
        let value = read_field(body, &mut at)?;
        let count = varint::read_i32(body, &mut at).ok_or(SHORT)?;
        let left = header_count(count, body.len() - at)?;
        let headers = Headers { bytes: &body[at..], left };
        for _ in 0..left {
            read_header(body, &mut at)?;
        }
        if at != body.len() {
            return Err(RecordsError::invalid("a record is longer than its fields"));
        }
        Ok(Self { timestamp_delta, offset_delta, key, value, headers })
    }
}

/// A header takes at least two bytes, Kafka checks against one.
pub(crate) fn header_count(count: i32, remaining: usize) -> Result<usize, RecordsError> {
    usize::try_from(count)
        .ok()
        .filter(|&count| count <= remaining)
        .ok_or(RecordsError::invalid("impossible number of headers"))
}

/// Appends a v2 record.
pub(crate) fn write_record(
    out: &mut Vec<u8>,
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: EncodedHeaders<'_>,
) {
    let field_size = |field: Option<&[u8]>| {
        field.map_or(1, |field| varint::size(length_i64(field)) + field.len())
    };
    let count = i64::from(headers.count);
    let body = 1
        + varint::size(timestamp_delta)
        + varint::size(i64::from(offset_delta))
        + field_size(key)
        + field_size(value)
        + varint::size(count)
        + headers.bytes.len();
    out.reserve(body + 5);
    varint::write(out, i64::try_from(body).expect("memory is smaller than i64"));
    out.push(0);
    varint::write(out, timestamp_delta);
    varint::write(out, i64::from(offset_delta));
    write_field(out, key);
    write_field(out, value);
    varint::write(out, count);
    out.extend_from_slice(headers.bytes);
}

/// Appends a length (-1 for null) and the bytes.
pub(crate) fn write_field(out: &mut Vec<u8>, field: Option<&[u8]>) {
    let Some(field) = field else { return varint::write(out, -1) };
    varint::write(out, length_i64(field));
    out.extend_from_slice(field);
}

fn length_i64(field: &[u8]) -> i64 {
    i64::try_from(field.len()).expect("memory is smaller than i64")
}

/// Headers already in wire form.
#[derive(Clone, Copy, Default)]
pub(crate) struct EncodedHeaders<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) count: i32,
}

impl<'a> From<&Headers<'a>> for EncodedHeaders<'a> {
    fn from(headers: &Headers<'a>) -> Self {
        let count = i32::try_from(headers.left).expect("it was an i32 on the wire");
        Self { bytes: headers.bytes(), count }
    }
}
