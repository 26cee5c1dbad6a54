//! The transaction index (`.txnindex`): the aborted transactions whose marker is in the segment.
//!
//! Entry, 34 bytes: `version i16 = 0 | producer id i64 | first offset i64 | last offset i64 | last
//! stable offset i64`, ordered by last offset (that of the marker). The file exists only if there is
//! an entry; entries are written with the marker and read from the file.

use crate::error::{DiskError, LogError};
use crate::files::{Kind, SegmentFiles};
use crate::read::AbortedTransaction;
use model::{Offset, ProducerId};

/// Bytes of an entry.
pub(crate) const ENTRY_BYTES: usize = 34;

/// An aborted transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TransactionEntry {
    pub(crate) producer_id: ProducerId,
    pub(crate) first_offset: Offset,
    /// Offset of the marker.
    pub(crate) last_offset: Offset,
    /// The last stable offset once this transaction had ended.
    pub(crate) last_stable_offset: Offset,
}

impl TransactionEntry {
    pub(crate) fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[2..10].copy_from_slice(&self.producer_id.0.to_be_bytes());
        bytes[10..18].copy_from_slice(&self.first_offset.0.to_be_bytes());
        bytes[18..26].copy_from_slice(&self.last_offset.0.to_be_bytes());
        bytes[26..].copy_from_slice(&self.last_stable_offset.0.to_be_bytes());
        bytes
    }

    /// Reads the entry in `bytes`, which holds at least [`ENTRY_BYTES`]; its version is not looked at.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let field = |at: usize| {
            let mut field = [0; 8];
            field.copy_from_slice(&bytes[at..at + 8]);
            i64::from_be_bytes(field)
        };
        Self {
            producer_id: ProducerId(field(2)),
            first_offset: Offset(field(10)),
            last_offset: Offset(field(18)),
            last_stable_offset: Offset(field(26)),
        }
    }
}

/// The first `entries` entries of the file count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TransactionIndex {
    pub(crate) entries: usize,
}

impl TransactionIndex {
    /// All entries. An index is small: transactions that abort are rare.
    pub(crate) fn read_all(self, files: &SegmentFiles) -> Result<Vec<TransactionEntry>, DiskError> {
        self.read(files, 0, self.entries)
    }

    fn read(
        self,
        files: &SegmentFiles,
        at: usize,
        count: usize,
    ) -> Result<Vec<TransactionEntry>, DiskError> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0; count * ENTRY_BYTES];
        files
            .get(Kind::TransactionIndex)?
            .read_exact_at(&mut bytes, (at * ENTRY_BYTES) as u64)
            .map_err(|source| DiskError {
                action: "read",
                path: files.path(Kind::TransactionIndex),
                source,
            })?;
        Ok(bytes.chunks_exact(ENTRY_BYTES).map(TransactionEntry::decode).collect())
    }

    /// Appends what aborted in `from..to` to `found`; whether later segments cannot hold more of it.
    pub(crate) fn collect(
        self,
        files: &SegmentFiles,
        from: Offset,
        to: Offset,
        found: &mut Vec<AbortedTransaction>,
    ) -> Result<bool, DiskError> {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.read(files, middle, 1)?[0].last_offset < from {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        while low < self.entries {
            let count = (self.entries - low).min(64);
            for entry in self.read(files, low, count)? {
                if entry.first_offset < to {
                    found.push(AbortedTransaction {
                        producer_id: entry.producer_id,
                        first_offset: entry.first_offset,
                    });
                }
                if entry.last_stable_offset >= to {
                    return Ok(true);
                }
            }
            low += count;
        }
        Ok(false)
    }

    /// Reads an index that a stop left behind.
    ///
    /// # Errors
    /// [`LogError::Damaged`] if it is not one: it has to be rebuilt from the segment.
    pub(crate) fn open(files: &SegmentFiles, len: u64) -> Result<Self, LogError> {
        let damaged = |reason: &str| LogError::Damaged {
            path: files.path(Kind::TransactionIndex),
            reason: reason.to_owned(),
        };
        let len = usize::try_from(len).map_err(|_| damaged("too large"))?;
        if len % ENTRY_BYTES != 0 {
            return Err(damaged("its length is not a multiple of 34"));
        }
        let mut bytes = vec![0; len];
        files.get(Kind::TransactionIndex)?.read_exact_at(&mut bytes, 0).map_err(|source| {
            DiskError { action: "read", path: files.path(Kind::TransactionIndex), source }
        })?;
        let mut last = Offset(i64::MIN);
        for bytes in bytes.chunks_exact(ENTRY_BYTES) {
            let entry = TransactionEntry::decode(bytes);
            if bytes[0] != 0 || entry.last_offset < files.base || entry.last_offset <= last {
                return Err(damaged("an entry is out of order, or of an unknown version"));
            }
            last = entry.last_offset;
        }
        Ok(Self { entries: len / ENTRY_BYTES })
    }
}
