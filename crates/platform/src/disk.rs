//! Files and directories.
//!
//! Calls are synchronous. What the data path must not wait for in simulation (the append of a batch)
//! is split by its caller into *reserve*, *write* and *publish*: the real disk completes the write
//! inline, the simulated one when the seed says.

mod memory;
mod real;
#[cfg(test)]
mod tests;

pub use memory::{MemoryDisk, WriteFault};
pub use real::RealDisk;

use model::Timestamp;
use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How to open a file. All files are opened for reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Open for writing too.
    pub write: bool,
    /// Create the file if it is missing.
    pub create: bool,
    /// Cut the file to nothing.
    pub truncate: bool,
}

/// What is known of a directory's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// Length in bytes; 0 for a directory.
    pub len: u64,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Time of the last modification.
    pub modified: Timestamp,
}

/// A volume's size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Size of the volume.
    pub total: u64,
    /// What an unprivileged process can still write.
    pub usable: u64,
}

/// A disk: the real one, or one in memory that can crash, fill up and fail.
pub trait Disk: Debug + Send + Sync {
    /// Opens a file.
    ///
    /// # Errors
    /// `NotFound` if it is missing and not to be created; else the system's error.
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>>;

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// The system's error.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;

    /// What is known of `path`.
    ///
    /// # Errors
    /// `NotFound` if there is nothing; else the system's error.
    fn metadata(&self, path: &Path) -> io::Result<Metadata>;

    /// Creates a directory and its parents; existing ones are fine.
    ///
    /// # Errors
    /// The system's error.
    fn create_directories(&self, path: &Path) -> io::Result<()>;

    /// Atomically renames a file or directory; replaces a file at `to`. Durable once the parent is synced.
    ///
    /// # Errors
    /// The system's error.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system's error.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// The system's error.
    fn remove_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// The system's error; fatal for that directory, never to be retried.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Makes everything below a directory durable: files and names, however many. Costs as much as the
    /// whole volume has to write, so it is for the end of a broker's life and for what is very many files.
    ///
    /// # Errors
    /// The system's error; fatal for that directory, never to be retried.
    fn sync_everything(&self, directory: &Path) -> io::Result<()>;

    /// Size of the volume that holds `path`.
    ///
    /// # Errors
    /// The system's error.
    fn space(&self, path: &Path) -> io::Result<Space>;

    /// Which run of the operating system it is: what was written and not synced is there as long as this stays
    /// the same, whatever becomes of processes. `None` if that cannot be told.
    fn boot_id(&self) -> Option<String>;

    /// Takes the exclusive lock of the file at `path`, creating it; held until the guard is dropped.
    /// The same kind of lock as Java's `FileChannel.tryLock` takes, so that a JVM broker is kept out.
    ///
    /// # Errors
    /// `WouldBlock` if another process (or another guard of this one) holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;
}

/// Holds a lock until it is dropped.
pub trait Lock: Debug + Send + Sync {}

/// An open file. Positions are explicit: there is no cursor.
#[expect(
    clippy::len_without_is_empty,
    reason = "asking for the length can fail; nobody asks for emptiness"
)]
pub trait File: Debug + Send + Sync {
    /// Reads at most `buffer.len()` bytes at `position`; 0 at or past the end.
    ///
    /// # Errors
    /// The system's error.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes all of `buffers`, in order, at `position`.
    ///
    /// # Errors
    /// The system's error, `StorageFull` and `WriteZero` (a short write) included. Part of the bytes may
    /// be in the file then.
    fn write_all_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<()>;

    /// Length in bytes.
    ///
    /// # Errors
    /// The system's error.
    fn len(&self) -> io::Result<u64>;

    /// Cuts or extends (with zeros) the file.
    ///
    /// # Errors
    /// The system's error.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Reserves space up to `len` without changing the file's length.
    ///
    /// # Errors
    /// `StorageFull`; `Unsupported` where the file system cannot.
    fn reserve(&self, len: u64) -> io::Result<()>;

    /// Makes the file's data, and what is needed to read it, durable.
    ///
    /// # Errors
    /// The system's error; fatal for the directory, never to be retried.
    fn sync(&self) -> io::Result<()>;

    /// Sets the time of the last modification.
    ///
    /// # Errors
    /// The system's error.
    fn set_modified(&self, at: Timestamp) -> io::Result<()>;

    /// The descriptor for `sendfile`, where there is one.
    fn descriptor(&self) -> Option<BorrowedFd<'_>>;

    /// Whether these bytes are in memory, so that reading them does not reach for the disk; true where the system does
    /// not tell.
    fn is_cached(&self, position: u64, len: u64) -> bool;

    /// Lets the system drop these bytes from memory: nobody here needs them.
    fn drop_cached(&self, position: u64, len: u64);

    /// Fills `buffer` from `position`.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before; else the system's error.
    fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(&mut buffer[filled..], position + filled as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => filled += n,
            }
        }
        Ok(())
    }
}
