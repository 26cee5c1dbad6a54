//! A sorted file of fixed-size entries whose newest part is still in memory: the common part of the
//! offset and the time index.

use crate::error::DiskError;
use crate::files::{Kind, SegmentFiles};
use std::fmt::Debug;

/// An entry of an index file.
pub(crate) trait Entry: Copy + Debug + PartialEq {
    const SIZE: usize;
    const KIND: Kind;

    fn encode(&self, out: &mut Vec<u8>);

    /// Reads the entry at the start of `bytes`, which holds at least `SIZE`.
    fn decode(bytes: &[u8]) -> Self;
}

/// Entries on disk, then entries in memory that are not on disk yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct EntryFile<E> {
    /// How many entries of the file count.
    written: usize,
    tail: Vec<E>,
    /// The last entry, if it is known without reading.
    last: Option<E>,
}

/// So many entries are searched in one read.
const BLOCK: usize = 512;

impl<E: Entry> EntryFile<E> {
    /// A file of `len` bytes, all of whose whole entries count.
    pub(crate) fn of_length(len: u64) -> Self {
        let written = usize::try_from(len).unwrap_or(usize::MAX) / E::SIZE;
        Self { written, tail: Vec::new(), last: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.written + self.tail.len()
    }

    pub(crate) fn unwritten(&self) -> usize {
        self.tail.len()
    }

    pub(crate) fn push(&mut self, entry: E) {
        self.tail.push(entry);
        self.last = Some(entry);
    }

    /// Where the entries in memory belong in the file, and their bytes.
    pub(crate) fn encode_unwritten(&self) -> (u64, Vec<u8>) {
        let mut bytes = Vec::with_capacity(self.tail.len() * E::SIZE);
        self.tail.iter().for_each(|entry| entry.encode(&mut bytes));
        ((self.written * E::SIZE) as u64, bytes)
    }

    /// The first `count` entries in memory are on disk now.
    pub(crate) fn mark_written(&mut self, count: usize) {
        self.tail.drain(..count);
        self.written += count;
        if self.tail.is_empty() {
            self.tail = Vec::new();
        }
    }

    /// Forgets all entries but the first `count`; the file is cut by the caller.
    pub(crate) fn keep(&mut self, count: usize) {
        self.tail.truncate(count.saturating_sub(self.written));
        self.written = self.written.min(count);
        self.last = self.tail.last().copied();
    }

    /// Bytes that the file has once everything is written.
    pub(crate) fn size_bytes(&self) -> u64 {
        (self.len() * E::SIZE) as u64
    }

    /// Bytes that the file has by now; what comes after them is in memory.
    pub(crate) fn written_bytes(&self) -> u64 {
        (self.written * E::SIZE) as u64
    }

    /// Reads the last entry, so that [`Self::known_last`] knows it.
    pub(crate) fn load_last(&mut self, files: &SegmentFiles) -> Result<(), DiskError> {
        self.last = self.last(files)?;
        Ok(())
    }

    /// The last entry, of an index that was appended to or loaded.
    pub(crate) fn known_last(&self) -> Option<E> {
        debug_assert!(self.len() == 0 || self.last.is_some(), "not loaded: {self:?}");
        self.last
    }

    pub(crate) fn last(&self, files: &SegmentFiles) -> Result<Option<E>, DiskError> {
        match self.len().checked_sub(1) {
            None => Ok(None),
            Some(_) if self.last.is_some() => Ok(self.last),
            Some(at) => self.get(at, files).map(Some),
        }
    }

    pub(crate) fn get(&self, at: usize, files: &SegmentFiles) -> Result<E, DiskError> {
        match at.checked_sub(self.written) {
            Some(at) => Ok(self.tail[at]),
            None => Ok(Self::read(files, at, 1)?[0]),
        }
    }

    fn read(files: &SegmentFiles, at: usize, count: usize) -> Result<Vec<E>, DiskError> {
        let mut bytes = vec![0; count * E::SIZE];
        files
            .get(E::KIND)?
            .read_exact_at(&mut bytes, (at * E::SIZE) as u64)
            .map_err(|source| DiskError { action: "read", path: files.path(E::KIND), source })?;
        Ok(bytes.chunks_exact(E::SIZE).map(E::decode).collect())
    }

    /// How many entries from the front satisfy `condition`, which must hold for a prefix.
    pub(crate) fn partition_point(
        &self,
        files: &SegmentFiles,
        condition: impl Fn(&E) -> bool,
    ) -> Result<usize, DiskError> {
        if self.written == 0 || self.tail.first().is_some_and(&condition) {
            return Ok(self.written + self.tail.partition_point(condition));
        }
        let (mut low, mut high) = (0, self.written);
        while high - low > BLOCK {
            let middle = low + (high - low) / 2;
            if condition(&Self::read(files, middle, 1)?[0]) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low + Self::read(files, low, high - low)?.partition_point(condition))
    }

    /// The last entry of the prefix that satisfies `condition`.
    pub(crate) fn last_where(
        &self,
        files: &SegmentFiles,
        condition: impl Fn(&E) -> bool,
    ) -> Result<Option<E>, DiskError> {
        match self.partition_point(files, condition)?.checked_sub(1) {
            None => Ok(None),
            Some(at) => self.get(at, files).map(Some),
        }
    }

    /// The first entry after the prefix that satisfies `condition`.
    pub(crate) fn first_not(
        &self,
        files: &SegmentFiles,
        condition: impl Fn(&E) -> bool,
    ) -> Result<Option<E>, DiskError> {
        let at = self.partition_point(files, condition)?;
        if at < self.len() { self.get(at, files).map(Some) } else { Ok(None) }
    }
}
