//! The checksum of a batch that is read piece by piece: one that says it is very large need not be held whole
//! to find out that it lies.

use super::header::{HEADER_BYTES, MAGIC_POSITION};
use crc_fast::{CrcAlgorithm, Digest};

/// Where the checksum is, and where what it covers begins: of a record batch, and of older messages.
const V2: (usize, usize) = (17, 21);
const LEGACY: (usize, usize) = (12, 16);

/// A batch's checksum, as far as its bytes were seen.
#[derive(Debug)]
pub struct BatchChecksum {
    stored: u32,
    /// Bytes in front that it does not cover and that were not seen yet.
    skipped: usize,
    sum: Sum,
}

#[derive(Debug)]
enum Sum {
    V2(Box<Digest>),
    Legacy(crc32fast::Hasher),
}

impl BatchChecksum {
    /// For the batch that starts with `head`; `None` if that is too short to tell which format it has, or of
    /// none.
    #[must_use]
    pub fn new(head: &[u8]) -> Option<Self> {
        let ((stored_at, skipped), sum) = match head.get(MAGIC_POSITION)? {
            2 if head.len() >= HEADER_BYTES => {
                (V2, Sum::V2(Box::new(Digest::new(CrcAlgorithm::Crc32Iscsi))))
            }
            0 | 1 => (LEGACY, Sum::Legacy(crc32fast::Hasher::new())),
            _ => return None,
        };
        let stored = u32::from_be_bytes(*head.get(stored_at..)?.first_chunk()?);
        Some(Self { stored, skipped, sum })
    }

    /// Takes the next bytes; the first are those of the head.
    pub fn update(&mut self, bytes: &[u8]) {
        let skipped = self.skipped.min(bytes.len());
        self.skipped -= skipped;
        match &mut self.sum {
            Sum::V2(digest) => digest.update(&bytes[skipped..]),
            Sum::Legacy(hasher) => hasher.update(&bytes[skipped..]),
        }
    }

    /// Whether the checksum is that of the bytes seen.
    #[must_use]
    pub fn is_right(self) -> bool {
        let sum = match self.sum {
            Sum::V2(digest) => digest.finalize(),
            Sum::Legacy(hasher) => hasher.finalize().into(),
        };
        sum == u64::from(self.stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::RecordBatchBuilder;

    fn is_right(bytes: &[u8], piece: usize) -> bool {
        let mut checksum = BatchChecksum::new(bytes).unwrap();
        bytes.chunks(piece).for_each(|piece| checksum.update(piece));
        checksum.is_right()
    }

    #[test]
    fn pieces_have_the_checksum_of_the_whole() {
        let mut builder = RecordBatchBuilder::new();
        builder.append(None, None, Some(&[7; 1000])).unwrap();
        let v2 = builder.build().unwrap().to_vec();
        let mut v1 = vec![0; 34];
        v1[11] = 22;
        v1[MAGIC_POSITION] = 1;
        v1[26..].fill(0xff);
        let crc = crc32fast::hash(&v1[16..]);
        v1[12..16].copy_from_slice(&crc.to_be_bytes());
        for (batch, from) in [(v2, 21), (v1, 16)] {
            for piece in [1, 5, 20, 100, 5000] {
                assert!(is_right(&batch, piece), "{piece}");
            }
            for at in from..batch.len() {
                let mut flipped = batch.clone();
                flipped[at] ^= 0x40;
                let checksum = BatchChecksum::new(&flipped);
                assert!(checksum.is_none() || !is_right(&flipped, 64), "{at}");
            }
        }
        assert!(BatchChecksum::new(&[0; 16]).is_none());
        assert!(BatchChecksum::new(&[3; 80]).is_none());
    }
}
