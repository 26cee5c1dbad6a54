//! Appends that are reserved and not yet published: what has to be written where.

use crate::entry_file::{Entry, EntryFile};
use crate::error::DiskError;
use crate::files::{Kind, OpenFile, SegmentFiles};
use crate::recovery::{create_files, write_snapshot};
use bytes::Bytes;
use model::{Offset, Timestamp};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::sync::Arc;

/// One batch on its way to the file.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// The header with offset and epoch filled in; part of `body` in batches of a leader.
    pub(crate) header: Option<[u8; 61]>,
    pub(crate) body: Bytes,
    pub(crate) base_offset: Offset,
    pub(crate) last_offset: Offset,
}

impl Chunk {
    pub(crate) fn parts(&self) -> [&[u8]; 2] {
        [self.header.as_ref().map_or(&[], |header| header), &self.body]
    }

    /// The first bytes of the batch, its head among them.
    pub(crate) fn front(&self) -> &[u8] {
        self.header.as_ref().map_or(&self.body, |header| header)
    }

    fn len(&self) -> usize {
        self.parts().iter().map(|part| part.len()).sum()
    }
}

/// Entries to add to an index file.
#[derive(Debug)]
pub(crate) struct IndexWrite {
    kind: Kind,
    position: u64,
    bytes: Vec<u8>,
    /// How many entries that is.
    pub(crate) count: usize,
}

impl IndexWrite {
    /// Everything of `index` that is not in its file.
    pub(crate) fn of<E: Entry>(index: &EntryFile<E>) -> Self {
        let (position, bytes) = index.encode_unwritten();
        Self { kind: E::KIND, position, bytes, count: index.unwritten() }
    }

    fn write(&self, files: &SegmentFiles, cut: bool) -> io::Result<()> {
        if self.bytes.is_empty() && !cut {
            return Ok(());
        }
        let file = files.create(self.kind).map_err(into_io)?;
        if !self.bytes.is_empty() {
            file.write_all_at(&[IoSlice::new(&self.bytes)], self.position)?;
        }
        let len = self.position + self.bytes.len() as u64;
        if cut && file.len()? != len { file.set_len(len) } else { Ok(()) }
    }
}

/// A change to a new segment: the old one is completed and the new one's files are made.
#[derive(Debug)]
pub(crate) struct Roll {
    pub(crate) old: Arc<SegmentFiles>,
    pub(crate) indexes: [IndexWrite; 2],
    pub(crate) old_size: u64,
    /// The old segment's size, if space was reserved beyond.
    pub(crate) trim: Option<u64>,
    /// Producer state at the new segment's base.
    pub(crate) snapshot: Option<Vec<u8>>,
    /// How much space to reserve for the new segment.
    pub(crate) reserve: Option<u64>,
}

impl Roll {
    pub(crate) fn perform(&self, new: &SegmentFiles) -> io::Result<()> {
        for index in &self.indexes {
            index.write(&self.old, true)?;
        }
        if let Some(size) = self.trim {
            self.old.get(Kind::Log).map_err(into_io)?.set_len(size)?;
        }
        self.old.try_save_checksums(self.old_size);
        if let Some(snapshot) = &self.snapshot {
            write_snapshot(&new.directory, new.base, snapshot, false).map_err(into_io)?;
        }
        create_files(new).map_err(into_io)?;
        if let Some(len) = self.reserve {
            // A file system that cannot reserve does without.
            match new.get(Kind::Log).map_err(into_io)?.reserve(len) {
                Err(error) if error.kind() != io::ErrorKind::Unsupported => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Offsets and file positions given to an append whose bytes are not written yet.
#[derive(Debug)]
pub struct PendingAppend {
    pub(crate) generation: u64,
    pub(crate) first_offset: Offset,
    pub(crate) last_offset: Offset,
    pub(crate) max_timestamp: Timestamp,
    pub(crate) files: Arc<SegmentFiles>,
    pub(crate) position: u64,
    /// When it was reserved.
    pub(crate) at: Timestamp,
    pub(crate) size: u64,
    pub(crate) first: Chunk,
    pub(crate) rest: Vec<Chunk>,
    /// Rare: a new segment, space for more, index entries to write behind, aborted transactions.
    pub(crate) extra: Option<Box<Extra>>,
}

#[derive(Debug, Default)]
pub(crate) struct Extra {
    pub(crate) roll: Option<Roll>,
    /// Up to where to reserve space for the segment.
    pub(crate) reserve: Option<u64>,
    pub(crate) indexes: Vec<IndexWrite>,
    /// Position in the transaction index, and entries.
    pub(crate) transactions: Option<(u64, Vec<u8>)>,
}

impl PendingAppend {
    /// Offset of the first record.
    #[must_use]
    pub fn first_offset(&self) -> Offset {
        self.first_offset
    }

    /// Offset of the last record (inclusive).
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        self.last_offset
    }

    /// Size of the batches in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        usize::try_from(self.size).unwrap_or(usize::MAX)
    }

    /// Writes the batches to the segment file. To be called without the partition's lock.
    ///
    /// # Errors
    /// The disk's, a short write included: publish it, and the log is offline.
    pub fn write(&self) -> io::Result<()> {
        Self::write_all(std::slice::from_ref(self))
    }

    /// Writes appends that were reserved one after the other, with as few calls as possible.
    ///
    /// # Errors
    /// As [`PendingAppend::write`]; then all of them have failed.
    pub fn write_all(pending: &[Self]) -> io::Result<()> {
        let begins_segment =
            |append: &Self| append.extra.as_ref().is_some_and(|extra| extra.roll.is_some());
        for run in pending.chunk_by(|_, next| !begins_segment(next)) {
            let first = &run[0];
            if let Some(roll) = first.extra.as_ref().and_then(|extra| extra.roll.as_ref()) {
                roll.perform(&first.files)?;
            }
            let file = first.files.get(Kind::Log).map_err(into_io)?;
            let reserve = run.iter().filter_map(|append| append.extra.as_ref()?.reserve).max();
            if let Some(len) = reserve {
                // Whether there is room at all is for the write to find out.
                let _ = file.reserve(len);
            }
            if let [append] = run
                && append.rest.is_empty()
            {
                let [header, body] = append.first.parts();
                file.write_all_at(&[IoSlice::new(header), IoSlice::new(body)], append.position)?;
            } else if is_better_copied(run) {
                write_copied(&file, run)?;
            } else {
                let buffers = run
                    .iter()
                    .flat_map(Self::chunks)
                    .flat_map(Chunk::parts)
                    .map(IoSlice::new)
                    .collect::<Vec<_>>();
                file.write_all_at(&buffers, first.position)?;
            }
            for append in run {
                let Some(extra) = &append.extra else { continue };
                for index in &extra.indexes {
                    index.write(&append.files, false)?;
                }
                if let Some((position, entries)) = &extra.transactions {
                    let file = append.files.create(Kind::TransactionIndex).map_err(into_io)?;
                    file.write_all_at(&[IoSlice::new(entries)], *position)?;
                }
            }
        }
        Ok(())
    }

    pub(crate) fn chunks(&self) -> impl Iterator<Item = &Chunk> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    pub(crate) fn check(&self) {
        let size = self.chunks().map(|chunk| chunk.len() as u64).sum::<u64>();
        assert_eq!(size, self.size, "batches have the size that was reserved: {self:?}");
    }
}

/// Whether the batches are so small that one copy of all costs less than the kernel takes for two more
/// slices of each.
fn is_better_copied(run: &[PendingAppend]) -> bool {
    let bytes = run.iter().map(|append| append.size).sum::<u64>();
    bytes <= MOST_COPIED && bytes / run.len() as u64 <= SMALL_APPEND
}

/// See [`is_better_copied`].
const SMALL_APPEND: u64 = 1 << 10;
const MOST_COPIED: u64 = 256 << 10;

thread_local! {
    static COPY: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn write_copied(file: &OpenFile, run: &[PendingAppend]) -> io::Result<()> {
    COPY.with_borrow_mut(|copy| {
        copy.clear();
        for part in run.iter().flat_map(PendingAppend::chunks).flat_map(Chunk::parts) {
            copy.extend_from_slice(part);
        }
        file.write_all_at(&[IoSlice::new(copy)], run[0].position)
    })
}

/// Keeps the kind, on which depends what a full disk means.
fn into_io(error: DiskError) -> io::Error {
    io::Error::new(error.source.kind(), error)
}
