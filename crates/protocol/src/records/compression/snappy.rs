//! Snappy in the framing of snappy-java's `SnappyOutputStream`.
//!
//! A 16-byte header (8 of magic, version and compatible version as i32), then blocks, each an i32
//! length and a raw snappy block. Headers may repeat where streams were joined. A block that does not
//! start with the magic is one raw snappy block: some clients send that.

use super::{RecordsError, failed, grow};
use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const HEADER_BYTES: usize = 16;
/// Uncompressed bytes per block.
pub(super) const BLOCK_BYTES: usize = 32 * 1024;
/// The best that snappy can do: 64 bytes from a copy element of 3.
const MAX_RATIO: usize = 22;

const TRUNCATED: RecordsError = RecordsError::unreadable("snappy stream is cut off");

/// What a stream starts with.
pub(super) fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 1]);
}

/// Appends a block of at most [`BLOCK_BYTES`].
pub(super) fn append(out: &mut Vec<u8>, block: &[u8]) -> Result<(), RecordsError> {
    let start = out.len();
    out.resize(start + 4 + max_compress_len(block.len()), 0);
    let length = Encoder::new().compress(block, &mut out[start + 4..]).map_err(failed)?;
    let prefix = u32::try_from(length).map_err(failed)?;
    out[start..start + 4].copy_from_slice(&prefix.to_be_bytes());
    out.truncate(start + 4 + length);
    Ok(())
}

pub(super) struct Reader<'a> {
    rest: &'a [u8],
    framed: bool,
    decoder: Decoder,
}

impl<'a> Reader<'a> {
    pub(super) fn new(input: &'a [u8]) -> Result<Self, RecordsError> {
        let mut reader =
            Self { rest: input, framed: input.starts_with(&MAGIC), decoder: Decoder::new() };
        if reader.framed {
            reader.rest = &input[4..];
            reader.end_header()?;
        }
        Ok(reader)
    }

    /// Moves past a header of which the first four bytes have been taken.
    fn end_header(&mut self) -> Result<(), RecordsError> {
        let (header, rest) = self.rest.split_at_checked(HEADER_BYTES - 4).ok_or(TRUNCATED)?;
        if !header.starts_with(&MAGIC[4..]) || header[4..8] == [0; 4] {
            return Err(RecordsError::unreadable("bad snappy header"));
        }
        self.rest = rest;
        Ok(())
    }

    fn next_block(&mut self) -> Result<Option<&'a [u8]>, RecordsError> {
        if !self.framed {
            let block = std::mem::take(&mut self.rest);
            self.framed = true;
            return Ok(Some(block));
        }
        loop {
            // A piece of a length at the end is ignored, as snappy-java does.
            let Some((length, rest)) = self.rest.split_first_chunk::<4>() else {
                return Ok(None);
            };
            self.rest = rest;
            if length[..] == MAGIC[..4] {
                self.end_header()?;
                continue;
            }
            let length = usize::try_from(i32::from_be_bytes(*length))
                .map_err(|_| RecordsError::unreadable("negative snappy block"))?;
            let (block, rest) = self.rest.split_at_checked(length).ok_or(TRUNCATED)?;
            self.rest = rest;
            return Ok(Some(block));
        }
    }

    /// Inflates the next block that is not empty into `buffer`; 0 at the end. A block is inflated as a
    /// whole, so what it declares is first held against what it can be and against `room`.
    pub(super) fn next_chunk(
        &mut self,
        buffer: &mut Vec<u8>,
        room: usize,
        limit: usize,
    ) -> Result<usize, RecordsError> {
        while let Some(block) = self.next_block()? {
            let length = decompress_len(block).map_err(failed)?;
            if length > room {
                return Err(RecordsError::TooLarge { limit });
            }
            if length > block.len().saturating_mul(MAX_RATIO) {
                return Err(RecordsError::unreadable("impossible snappy length"));
            }
            grow(buffer, length);
            let written = self.decoder.decompress(block, &mut buffer[..length]).map_err(failed)?;
            if written > 0 {
                return Ok(written);
            }
        }
        Ok(0)
    }
}
