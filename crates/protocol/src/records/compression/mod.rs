//! The codecs of record batches, in Kafka's framings.
//!
//! Compressed bytes need not be the same as Kafka's; what counts is that each side reads the other's.
//! Inflating streams in small chunks through one buffer per thread and stops as soon as a limit is
//! passed, so that a small packet can neither fill memory nor keep a core for long.

mod lz4;
mod snappy;
mod zstandard;

use super::error::RecordsError;
use super::record::{RawRecord, header_count};
use super::varint;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use std::cell::Cell;
use std::fmt;
use std::io::{Read, Write};
use std::str::FromStr;

/// A codec, by Kafka's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Compression {
    /// Records as they are.
    #[default]
    None,
    /// RFC 1952.
    Gzip,
    /// Snappy blocks in the framing of xerial's snappy-java; one raw block is read too.
    Snappy,
    /// The LZ4 frame format with independent blocks.
    Lz4,
    /// Zstandard frames; only in magic 2 (KIP-110).
    Zstd,
}

impl Compression {
    /// The codec with number `id`.
    ///
    /// # Errors
    /// [`RecordsError::Unreadable`] if there is none.
    pub fn from_id(id: u8) -> Result<Self, RecordsError> {
        Ok(match id {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Snappy,
            3 => Self::Lz4,
            4 => Self::Zstd,
            _ => return Err(RecordsError::Unreadable(format!("codec number {id}").into())),
        })
    }

    /// Its number in the attributes of a batch.
    #[must_use]
    pub const fn id(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Gzip => 1,
            Self::Snappy => 2,
            Self::Lz4 => 3,
            Self::Zstd => 4,
        }
    }

    /// Its name in `compression.type`; of [`Self::None`] that of producers, `none`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// `input` in this codec's framing. `magic` is the format that the result goes into: LZ4 has a
    /// wrong header checksum in magic 0.
    ///
    /// # Errors
    /// [`RecordsError::Unreadable`] if the codec itself fails, which no input should make it do.
    pub fn compress(
        self,
        magic: u8,
        levels: CompressionLevels,
        input: &[u8],
    ) -> Result<Vec<u8>, RecordsError> {
        let mut deflater = Deflater::new(self, magic, levels, usize::MAX)?;
        deflater.write(input)?;
        deflater.finish()
    }

    /// Everything that `input` inflates to.
    ///
    /// # Errors
    /// [`RecordsError::TooLarge`] above `limit` bytes; [`RecordsError::Unreadable`] for bad bytes.
    pub fn decompress(
        self,
        magic: u8,
        input: &[u8],
        limit: usize,
    ) -> Result<Vec<u8>, RecordsError> {
        Inflater::new(self, magic, input, limit)?.read_to_end()
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text names no codec.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a codec: expected none, gzip, snappy, lz4 or zstd")]
pub struct CompressionNameError(pub String);

impl FromStr for Compression {
    type Err = CompressionNameError;

    fn from_str(name: &str) -> Result<Self, CompressionNameError> {
        [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd]
            .into_iter()
            .find(|codec| codec.name() == name)
            .ok_or_else(|| CompressionNameError(name.chars().take(64).collect()))
    }
}

/// The levels to compress at (KIP-390): `compression.gzip.level` and its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionLevels {
    /// 1 to 9; -1 is zlib's default, 6.
    pub gzip: i32,
    /// 1 to 17. Ours always compresses fast, as Kafka does at its default of 9.
    pub lz4: i32,
    /// -131072 to 22.
    pub zstd: i32,
}

impl CompressionLevels {
    /// Kafka's defaults.
    pub const DEFAULT: Self = Self { gzip: -1, lz4: 9, zstd: 3 };
}

impl Default for CompressionLevels {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Bytes that stream codecs inflate at a time.
const CHUNK_BYTES: usize = 64 * 1024;
/// Largest buffer that a thread keeps.
const KEPT_BYTES: usize = 256 * 1024;

thread_local! {
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

fn failed(error: impl fmt::Display) -> RecordsError {
    RecordsError::Unreadable(error.to_string().into())
}

enum Packing {
    Plain(Vec<u8>),
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstandard::Encoder),
    /// Of blocks that are compressed one by one.
    Blocks {
        codec: Compression,
        block_bytes: usize,
        block: Vec<u8>,
        out: Vec<u8>,
    },
}

/// Compresses piece by piece under a limit.
pub(crate) struct Deflater {
    packing: Packing,
    limit: usize,
}

impl Deflater {
    /// Makes at most `limit` bytes.
    pub(crate) fn new(
        codec: Compression,
        magic: u8,
        levels: CompressionLevels,
        limit: usize,
    ) -> Result<Self, RecordsError> {
        let blocks = |block_bytes, out| {
            let block = Vec::new();
            Packing::Blocks { codec, block_bytes, block, out }
        };
        let mut out = Vec::new();
        let packing = match codec {
            Compression::None => Packing::Plain(out),
            Compression::Gzip => {
                let level = u32::try_from(levels.gzip).map_or_else(
                    |_| flate2::Compression::default(),
                    |level| flate2::Compression::new(level.clamp(1, 9)),
                );
                Packing::Gzip(GzEncoder::new(out, level))
            }
            Compression::Snappy => {
                snappy::begin(&mut out);
                blocks(snappy::BLOCK_BYTES, out)
            }
            Compression::Lz4 => {
                lz4::begin(magic, &mut out);
                blocks(lz4::BLOCK_BYTES, out)
            }
            Compression::Zstd => Packing::Zstd(zstandard::encoder(levels.zstd)?),
        };
        Ok(Self { packing, limit })
    }

    pub(crate) fn write(&mut self, mut input: &[u8]) -> Result<(), RecordsError> {
        let made = match &mut self.packing {
            Packing::Plain(out) => {
                out.extend_from_slice(input);
                out.len()
            }
            Packing::Gzip(encoder) => {
                encoder.write_all(input).map_err(failed)?;
                encoder.get_ref().len()
            }
            Packing::Zstd(encoder) => {
                encoder.write_all(input).map_err(failed)?;
                encoder.get_ref().len()
            }
            Packing::Blocks { codec, block_bytes, block, out } => {
                while block.len() + input.len() >= *block_bytes {
                    let (now, rest) = input.split_at(*block_bytes - block.len());
                    input = rest;
                    if block.is_empty() {
                        append_block(*codec, out, now)?;
                    } else {
                        block.extend_from_slice(now);
                        append_block(*codec, out, block)?;
                        block.clear();
                    }
                    if out.len() > self.limit {
                        break;
                    }
                }
                block.extend_from_slice(input);
                out.len()
            }
        };
        self.within(made)
    }

    fn within(&self, made: usize) -> Result<(), RecordsError> {
        match made <= self.limit {
            true => Ok(()),
            false => Err(RecordsError::TooLarge { limit: self.limit }),
        }
    }

    pub(crate) fn finish(self) -> Result<Vec<u8>, RecordsError> {
        let limit = self.limit;
        let out = match self.packing {
            Packing::Plain(out) => out,
            Packing::Gzip(encoder) => encoder.finish().map_err(failed)?,
            Packing::Zstd(encoder) => encoder.finish().map_err(failed)?,
            Packing::Blocks { codec, block, mut out, .. } => {
                if !block.is_empty() {
                    append_block(codec, &mut out, &block)?;
                }
                if codec == Compression::Lz4 {
                    lz4::end(&mut out);
                }
                out
            }
        };
        if out.len() <= limit { Ok(out) } else { Err(RecordsError::TooLarge { limit }) }
    }
}

fn append_block(codec: Compression, out: &mut Vec<u8>, block: &[u8]) -> Result<(), RecordsError> {
    if codec == Compression::Lz4 { lz4::append(out, block) } else { snappy::append(out, block) }
}

/// A batch may always inflate to this many times what was received: the work is in proportion then.
const FAIR_RATIO: usize = 32;

/// `limit`, or more for much that was received.
pub(crate) fn fair_limit(limit: usize, received: usize) -> usize {
    limit.max(received.saturating_mul(FAIR_RATIO))
}

enum Codec<'a> {
    Plain(&'a [u8]),
    Gzip(Box<GzDecoder<&'a [u8]>>),
    Snappy(snappy::Reader<'a>),
    Lz4(lz4::Reader<'a>),
    Zstd(zstandard::Reader<'a>),
    Ended,
}

/// Inflates a block piece by piece under a limit.
pub(crate) struct Inflater<'a> {
    codec: Codec<'a>,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    produced: usize,
    limit: usize,
}

impl fmt::Debug for Inflater<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inflater").field("produced", &self.produced).finish_non_exhaustive()
    }
}

impl Drop for Inflater<'_> {
    fn drop(&mut self) {
        if self.buffer.capacity() <= KEPT_BYTES {
            SCRATCH.set(std::mem::take(&mut self.buffer));
        }
    }
}

impl<'a> Inflater<'a> {
    pub(crate) fn new(
        codec: Compression,
        magic: u8,
        input: &'a [u8],
        limit: usize,
    ) -> Result<Self, RecordsError> {
        let codec = match codec {
            Compression::None => Codec::Plain(input),
            Compression::Gzip => Codec::Gzip(Box::new(GzDecoder::new(input))),
            Compression::Snappy => Codec::Snappy(snappy::Reader::new(input)?),
            Compression::Lz4 => Codec::Lz4(lz4::Reader::new(magic, input)?),
            Compression::Zstd => Codec::Zstd(zstandard::Reader::new(input)?),
        };
        Ok(Self { codec, buffer: SCRATCH.take(), at: 0, end: 0, produced: 0, limit })
    }

    /// Replaces the consumed chunk by the next one; false at the end.
    fn fill(&mut self) -> Result<bool, RecordsError> {
        debug_assert_eq!(self.at, self.end, "the chunk before has been consumed");
        let room = self.limit - self.produced;
        let length = match &mut self.codec {
            Codec::Plain(input) => {
                let length = input.len().min(CHUNK_BYTES);
                let (chunk, rest) = input.split_at(length);
                self.buffer.clear();
                self.buffer.extend_from_slice(chunk);
                *input = rest;
                length
            }
            Codec::Gzip(decoder) => {
                grow(&mut self.buffer, CHUNK_BYTES);
                loop {
                    let length = decoder.read(&mut self.buffer).map_err(failed)?;
                    if length > 0 {
                        break length;
                    }
                    // Members may follow one another; anything else after one is ignored, as in Java.
                    let rest: &'a [u8] = decoder.get_ref();
                    if !rest.starts_with(&[0x1f, 0x8b]) {
                        break 0;
                    }
                    **decoder = GzDecoder::new(rest);
                }
            }
            Codec::Snappy(reader) => reader.next_chunk(&mut self.buffer, room, self.limit)?,
            Codec::Lz4(reader) => reader.next_chunk(&mut self.buffer)?,
            Codec::Zstd(reader) => {
                grow(&mut self.buffer, CHUNK_BYTES);
                reader.next_chunk(&mut self.buffer)?
            }
            Codec::Ended => 0,
        };
        if length > room {
            self.codec = Codec::Ended;
            return Err(RecordsError::TooLarge { limit: self.limit });
        }
        if length == 0 {
            self.codec = Codec::Ended;
        }
        self.produced += length;
        (self.at, self.end) = (0, length);
        Ok(length > 0)
    }

    /// Passes all that is left on, compressed anew.
    pub(crate) fn copy_to(mut self, deflater: &mut Deflater) -> Result<(), RecordsError> {
        loop {
            deflater.write(self.chunk())?;
            self.at = self.end;
            if !self.fill()? {
                return Ok(());
            }
        }
    }

    fn chunk(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    /// Everything that is left.
    pub(crate) fn read_to_end(mut self) -> Result<Vec<u8>, RecordsError> {
        let mut out = Vec::new();
        loop {
            out.extend_from_slice(self.chunk());
            self.at = self.end;
            if !self.fill()? {
                return Ok(out);
            }
        }
    }

    /// Whether everything has been taken.
    pub(crate) fn is_at_end(&mut self) -> Result<bool, RecordsError> {
        Ok(self.at == self.end && !self.fill()?)
    }

    fn byte(&mut self) -> Result<u8, RecordsError> {
        const EARLY: RecordsError = RecordsError::invalid("fewer records than the batch declares");
        if self.at == self.end && !self.fill()? {
            return Err(EARLY);
        }
        let byte = self.buffer[self.at];
        self.at += 1;
        Ok(byte)
    }

    /// Takes the next record's outline, checking all of it. The records that lie within one chunk,
    /// which are most, are parsed in place.
    #[inline]
    pub(crate) fn next_outline(&mut self) -> Result<Outline, RecordsError> {
        let chunk = self.chunk();
        let mut at = 0;
        if let Some(length) = varint::read_i32(chunk, &mut at)
            && let Ok(length) = usize::try_from(length)
            && let Some(body) = chunk[at..].get(..length)
        {
            let outline = Outline::from(&RawRecord::parse(body)?);
            self.at += at + length;
            return Ok(outline);
        }
        self.straddling_outline()
    }

    /// The slow path of [`Self::next_outline`]: a record that crosses chunks.
    fn straddling_outline(&mut self) -> Result<Outline, RecordsError> {
        const SHORT: RecordsError = RecordsError::invalid("a field reaches beyond its record");
        let mut unlimited = usize::MAX;
        let length = self.varint(&mut unlimited)?;
        let mut left = i32::try_from(length)
            .ok()
            .and_then(|length| usize::try_from(length).ok())
            .ok_or(RecordsError::invalid("negative record length"))?;
        self.skip(1, &mut left)?;
        let timestamp_delta = self.varlong(&mut left)?;
        let offset_delta = i32::try_from(self.varint(&mut left)?).map_err(|_| SHORT)?;
        let has_key = self.skip_field(&mut left)?;
        self.skip_field(&mut left)?;
        let count = i32::try_from(self.varint(&mut left)?).map_err(|_| SHORT)?;
        for _ in 0..header_count(count, left)? {
            if !self.skip_field(&mut left)? {
                return Err(RecordsError::invalid("null header key"));
            }
            self.skip_field(&mut left)?;
        }
        if left > 0 {
            return Err(RecordsError::invalid("a record is longer than its fields"));
        }
        Ok(Outline { timestamp_delta, offset_delta, has_key })
    }

    fn skip_field(&mut self, left: &mut usize) -> Result<bool, RecordsError> {
        let Ok(length) = usize::try_from(self.varint(left)?) else { return Ok(false) };
        self.skip(length, left)?;
        Ok(true)
    }

    fn skip(&mut self, mut count: usize, left: &mut usize) -> Result<(), RecordsError> {
        const SHORT: RecordsError = RecordsError::invalid("a field reaches beyond its record");
        *left = left.checked_sub(count).ok_or(SHORT)?;
        while count > 0 {
            if self.at == self.end && !self.fill()? {
                return Err(RecordsError::invalid("fewer records than the batch declares"));
            }
            let step = count.min(self.end - self.at);
            self.at += step;
            count -= step;
        }
        Ok(())
    }

    fn varint(&mut self, left: &mut usize) -> Result<i64, RecordsError> {
        let raw = self.groups(5, left)?;
        #[expect(clippy::cast_possible_truncation, reason = "Kafka drops the bits beyond the 32nd")]
        let raw = raw as u32;
        Ok(i64::from(varint::zigzag_i32(raw)))
    }

    fn varlong(&mut self, left: &mut usize) -> Result<i64, RecordsError> {
        self.groups(10, left).map(varint::zigzag_i64)
    }

    fn groups(&mut self, max: u32, left: &mut usize) -> Result<u64, RecordsError> {
        const SHORT: RecordsError = RecordsError::invalid("a field reaches beyond its record");
        let mut raw = 0;
        for place in 0..max {
            *left = left.checked_sub(1).ok_or(SHORT)?;
            let byte = self.byte()?;
            raw |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Ok(raw);
            }
        }
        Err(RecordsError::invalid("an integer does not end"))
    }
}

/// What validation needs of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    pub(crate) timestamp_delta: i64,
    pub(crate) offset_delta: i32,
    pub(crate) has_key: bool,
}

impl From<&RawRecord<'_>> for Outline {
    #[inline]
    fn from(raw: &RawRecord<'_>) -> Self {
        Self {
            timestamp_delta: raw.timestamp_delta,
            offset_delta: raw.offset_delta,
            has_key: raw.key.is_some(),
        }
    }
}

/// Makes `buffer` at least `length` long; zeroes only what it adds.
fn grow(buffer: &mut Vec<u8>, length: usize) {
    if buffer.len() < length {
        buffer.resize(length, 0);
    }
}

#[cfg(test)]
mod tests;
