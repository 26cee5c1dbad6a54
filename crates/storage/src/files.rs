//! Open files, shared by all logs under one limit, and the files of one segment.

use crate::checkpoint::{self, Durability};
use crate::checksums::Checksums;
use crate::error::DiskError;
use model::Offset;
use platform::disk::OpenOptions;
use platform::{Disk, File};
use protocol::RecordsFile;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

/// Locks a mutex whose holders do not leave half-done changes behind when they panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file that is open. Closed when it is neither cached nor in use.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: Arc<dyn File>,
    /// Set at each use, cleared by the sweep that looks for files to close.
    used: AtomicBool,
}

impl std::ops::Deref for OpenFile {
    type Target = dyn File;

    fn deref(&self) -> &Self::Target {
        self.file.as_ref()
    }
}

impl RecordsFile for OpenFile {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.file.descriptor()
    }

    fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, position)
    }
}

/// Keeps files open for reuse, at most `limit` (files in use come on top). Which one to close is found
/// by the clock algorithm, so that a use costs one store and no lock.
pub(crate) struct FileCache {
    disk: Arc<dyn Disk>,
    limit: usize,
    ring: Mutex<Ring>,
}

#[derive(Default)]
struct Ring {
    files: Vec<Arc<OpenFile>>,
    hand: usize,
}

impl fmt::Debug for FileCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCache").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl FileCache {
    pub(crate) fn new(disk: Arc<dyn Disk>, limit: usize) -> Self {
        Self { disk, limit: limit.max(1), ring: Mutex::default() }
    }

    fn open(&self, path: &Path, create: bool) -> io::Result<Arc<OpenFile>> {
        let options = OpenOptions { write: true, create, truncate: false };
        let file = self.disk.open(path, options)?;
        let file = Arc::new(OpenFile { file, used: AtomicBool::new(true) });
        let evicted = lock(&self.ring).insert(Arc::clone(&file), self.limit);
        drop(evicted); // closes it after the lock is released
        Ok(file)
    }

    fn forget(&self, file: &Arc<OpenFile>) {
        let mut ring = lock(&self.ring);
        if let Some(at) = ring.files.iter().position(|cached| Arc::ptr_eq(cached, file)) {
            ring.files.swap_remove(at);
        }
    }

    /// How many files are kept open.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        lock(&self.ring).files.len()
    }
}

impl Ring {
    fn insert(&mut self, file: Arc<OpenFile>, limit: usize) -> Option<Arc<OpenFile>> {
        if self.files.len() < limit {
            self.files.push(file);
            return None;
        }
        // Two rounds: the first clears the marks, the second must find one.
        for _ in 0..2 * self.files.len() {
            self.hand = (self.hand + 1) % self.files.len();
            if !self.files[self.hand].used.swap(false, Ordering::Relaxed) {
                break;
            }
        }
        Some(std::mem::replace(&mut self.files[self.hand], file))
    }
}

/// Where a partition's files are; the directory is renamed when the partition is deleted.
#[derive(Debug)]
pub(crate) struct PartitionDirectory {
    pub(crate) cache: Arc<FileCache>,
    path: RwLock<Arc<Path>>,
    /// Nobody else has opened the log directory since this broker last stopped there.
    pub(crate) is_ours: bool,
}

impl PartitionDirectory {
    pub(crate) fn new(cache: Arc<FileCache>, path: &Path) -> Self {
        Self { cache, path: RwLock::new(path.into()), is_ours: false }
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.cache.disk
    }

    pub(crate) fn path(&self) -> Arc<Path> {
        Arc::clone(&self.path.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set_path(&self, path: &Path) {
        *self.path.write().unwrap_or_else(PoisonError::into_inner) = path.into();
    }

    pub(crate) fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path().join(name)
    }

    /// Makes the names in it durable.
    pub(crate) fn sync(&self) -> Result<(), DiskError> {
        let path = self.path();
        self.disk().sync_directory(&path).map_err(DiskError::at("sync", &path))
    }
}

/// The files that a segment consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Log,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
    /// Of what the checksums of batches leave out; a hint.
    Checksums,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] =
        [Self::Log, Self::OffsetIndex, Self::TimeIndex, Self::TransactionIndex, Self::Checksums];

    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::OffsetIndex => "index",
            Self::TimeIndex => "timeindex",
            Self::TransactionIndex => "txnindex",
            Self::Checksums => "checksums",
        }
    }
}

/// The name of a file of the segment (or snapshot) at `base`: 20 digits and the extension.
pub(crate) fn file_name(base: Offset, extension: &str) -> String {
    format!("{:020}.{extension}", base.0)
}

/// What stands behind a file's name while it is not, or no longer, the segment's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Suffix {
    /// It is the segment's own.
    #[default]
    None,
    /// Compaction is still writing it.
    Cleaned,
    /// Compaction has written it, and it replaces others.
    Swap,
    /// It was removed and goes later.
    Deleted,
}

impl Suffix {
    fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Cleaned => ".cleaned",
            Self::Swap => ".swap",
            Self::Deleted => ".deleted",
        }
    }
}

/// One segment's files, opened at need. They know their names through every renaming, so that whoever
/// decided to read a file reads that file, though another has its old name by now.
#[derive(Debug)]
pub(crate) struct SegmentFiles {
    pub(crate) directory: Arc<PartitionDirectory>,
    pub(crate) base: Offset,
    slots: [Mutex<Slot>; Kind::ALL.len()],
    pub(crate) checksums: Checksums,
}

#[derive(Debug, Default)]
struct Slot {
    open: Weak<OpenFile>,
    suffix: Suffix,
}

impl SegmentFiles {
    pub(crate) fn new(directory: Arc<PartitionDirectory>, base: Offset) -> Self {
        Self { directory, base, slots: Default::default(), checksums: Checksums::default() }
    }

    /// Files that compaction writes.
    pub(crate) fn cleaned(directory: Arc<PartitionDirectory>, base: Offset) -> Self {
        let slot = |_| Mutex::new(Slot { suffix: Suffix::Cleaned, ..Slot::default() });
        let slots = std::array::from_fn(slot);
        Self { directory, base, slots, checksums: Checksums::default() }
    }

    pub(crate) fn path(&self, kind: Kind) -> PathBuf {
        let suffix = lock(&self.slots[kind as usize]).suffix;
        self.path_with(kind, suffix)
    }

    fn path_with(&self, kind: Kind, suffix: Suffix) -> PathBuf {
        self.directory.join(file_name(self.base, kind.extension()) + suffix.text())
    }

    /// Renames a file, if it is there; nothing if it has that name already. Returns the name it has now
    /// if it was renamed.
    pub(crate) fn rename(&self, kind: Kind, to: Suffix) -> Result<Option<PathBuf>, DiskError> {
        let mut slot = lock(&self.slots[kind as usize]);
        if slot.suffix == to {
            return Ok(None);
        }
        let (old, new) = (self.path_with(kind, slot.suffix), self.path_with(kind, to));
        let renamed = match self.directory.disk().rename(&old, &new) {
            Ok(()) => Some(new),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(DiskError { action: "rename", path: old, source }),
        };
        slot.suffix = to;
        Ok(renamed)
    }

    /// The open file; it must exist.
    pub(crate) fn get(&self, kind: Kind) -> Result<Arc<OpenFile>, DiskError> {
        self.open(kind, false)
    }

    /// The open file; created if it is missing.
    pub(crate) fn create(&self, kind: Kind) -> Result<Arc<OpenFile>, DiskError> {
        self.open(kind, true)
    }

    fn open(&self, kind: Kind, create: bool) -> Result<Arc<OpenFile>, DiskError> {
        let mut slot = lock(&self.slots[kind as usize]);
        if let Some(file) = slot.open.upgrade() {
            file.used.store(true, Ordering::Relaxed);
            return Ok(file);
        }
        let path = self.path_with(kind, slot.suffix);
        let file =
            self.directory.cache.open(&path, create).map_err(DiskError::at("open", &path))?;
        slot.open = Arc::downgrade(&file);
        Ok(file)
    }

    /// Cuts the file of batches, durably: what is appended next must never be followed by what was there
    /// before, not even after a crash.
    pub(crate) fn cut_log(&self, len: u64) -> Result<(), DiskError> {
        let path = self.path(Kind::Log);
        let file = self.create(Kind::Log)?;
        file.set_len(len).map_err(DiskError::at("truncate", &path))?;
        self.sync(Kind::Log)
    }

    /// Makes a file anew, durably; a crash leaves it as it was, or not there if it was not.
    pub(crate) fn replace(&self, kind: Kind, bytes: &[u8]) -> Result<(), DiskError> {
        self.close_kind(kind);
        let disk = self.directory.disk().as_ref();
        checkpoint::replace(disk, &self.path(kind), bytes, Durability::Synced)
    }

    /// Makes a file that is there durable.
    pub(crate) fn sync(&self, kind: Kind) -> Result<(), DiskError> {
        let path = self.path(kind);
        self.get(kind)?.sync().map_err(DiskError::at("sync", &path))
    }

    /// Closes what the cache keeps open; who uses a file keeps it.
    pub(crate) fn close(&self) {
        Kind::ALL.into_iter().for_each(|kind| self.close_kind(kind));
    }

    /// Closes one of them, so that it is opened by its name next time.
    pub(crate) fn close_kind(&self, kind: Kind) {
        if let Some(file) = std::mem::take(&mut lock(&self.slots[kind as usize]).open).upgrade() {
            self.directory.cache.forget(&file);
        }
    }
}

impl Drop for SegmentFiles {
    fn drop(&mut self) {
        self.close();
    }
}
