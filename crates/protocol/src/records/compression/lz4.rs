//! The LZ4 frame format as Kafka reads and writes it.
//!
//! Written here rather than taken from a library because Kafka's reader is stricter than the format
//! (independent blocks only), laxer (it skips sizes and content checksums, and everything after the
//! end mark), and in magic 0 computes the header's checksum over the wrong bytes, for ever.

use super::{RecordsError, failed, grow};
use lz4_flex::block;
use twox_hash::XxHash32;

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Version 1, independent blocks, nothing else.
const FLAGS: u8 = 0x60;
/// Blocks of 64 KiB.
const BLOCK_DESCRIPTOR: u8 = 0x40;
/// Uncompressed bytes per block.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;
/// High bit of a block's size: stored as it is.
const STORED: u32 = 1 << 31;
/// The best that LZ4 can do: each further byte of a match length adds 255.
const MAX_RATIO: usize = 255;

const TRUNCATED: RecordsError = RecordsError::unreadable("LZ4 frame is cut off");

fn header_checksum(bytes: &[u8]) -> u8 {
    XxHash32::oneshot(0, bytes).to_le_bytes()[1]
}

/// What a frame starts with.
pub(super) fn begin(magic: u8, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[FLAGS, BLOCK_DESCRIPTOR]);
    let covered = if magic == 0 { start } else { start + 4 };
    out.push(header_checksum(&out[covered..]));
}

/// Appends a block of at most [`BLOCK_BYTES`], as it is if that is shorter.
pub(super) fn append(out: &mut Vec<u8>, chunk: &[u8]) -> Result<(), RecordsError> {
    let start = out.len();
    out.resize(start + 4 + block::get_maximum_output_size(chunk.len()), 0);
    let length = block::compress_into(chunk, &mut out[start + 4..]).map_err(failed)?;
    let (length, flag) = if length < chunk.len() {
        (length, 0)
    } else {
        out[start + 4..start + 4 + chunk.len()].copy_from_slice(chunk);
        (chunk.len(), STORED)
    };
    let prefix = u32::try_from(length).map_err(failed)? | flag;
    out[start..start + 4].copy_from_slice(&prefix.to_le_bytes());
    out.truncate(start + 4 + length);
    Ok(())
}

/// The end mark.
pub(super) fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; 4]);
}

pub(super) struct Reader<'a> {
    rest: &'a [u8],
    max_block: usize,
    block_checksums: bool,
    ended: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn new(magic: u8, input: &'a [u8]) -> Result<Self, RecordsError> {
        let Some(([start @ .., flags, descriptor], mut rest)) = input.split_first_chunk::<6>()
        else {
            return Err(TRUNCATED);
        };
        if *start != MAGIC {
            return Err(RecordsError::unreadable("not an LZ4 frame"));
        }
        if flags & 0b11 != 0 || flags >> 6 != 1 {
            return Err(RecordsError::unreadable("unknown LZ4 frame version or flag"));
        }
        if flags & 1 << 5 == 0 {
            return Err(RecordsError::unreadable("LZ4 blocks depend on each other"));
        }
        if descriptor & 0x8f != 0 || descriptor >> 4 < 4 {
            return Err(RecordsError::unreadable("unknown LZ4 block size"));
        }
        if flags & 1 << 3 != 0 {
            // What the frame says about its content's size is nothing to rely on.
            rest = rest.get(8..).ok_or(TRUNCATED)?;
        }
        let described = &input[4..input.len() - rest.len()];
        let (&checksum, rest) = rest.split_first().ok_or(TRUNCATED)?;
        if magic > 0 && checksum != header_checksum(described) {
            return Err(RecordsError::unreadable("LZ4 header checksum is wrong"));
        }
        Ok(Self {
            rest,
            max_block: 1 << (8 + 2 * u32::from(descriptor >> 4)),
            block_checksums: flags & 1 << 4 != 0,
            ended: false,
        })
    }

    /// Inflates the next block that is not empty into `buffer`; 0 at the end mark.
    pub(super) fn next_chunk(&mut self, buffer: &mut Vec<u8>) -> Result<usize, RecordsError> {
        while !self.ended {
            let (prefix, rest) = self.rest.split_first_chunk::<4>().ok_or(TRUNCATED)?;
            let prefix = u32::from_le_bytes(*prefix);
            let length = usize::try_from(prefix & !STORED).map_err(failed)?;
            if length == 0 {
                self.ended = true;
                break;
            }
            if length > self.max_block {
                return Err(RecordsError::unreadable("LZ4 block above its maximum"));
            }
            let (chunk, rest) = rest.split_at_checked(length).ok_or(TRUNCATED)?;
            self.rest = rest;
            if self.block_checksums {
                let (checksum, rest) = rest.split_first_chunk::<4>().ok_or(TRUNCATED)?;
                if u32::from_le_bytes(*checksum) != XxHash32::oneshot(0, chunk) {
                    return Err(RecordsError::unreadable("LZ4 block checksum is wrong"));
                }
                self.rest = rest;
            }
            let written = if prefix & STORED != 0 {
                grow(buffer, length);
                buffer[..length].copy_from_slice(chunk);
                length
            } else {
                let room = self.max_block.min(length.saturating_mul(MAX_RATIO) + 64);
                grow(buffer, room);
                block::decompress_into(chunk, &mut buffer[..room]).map_err(failed)?
            };
            if written > 0 {
                return Ok(written);
            }
        }
        Ok(0)
    }
}
