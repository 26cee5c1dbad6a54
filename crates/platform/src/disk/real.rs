//! The operating system's files.

use super::{Disk, File, Lock, Metadata, OpenOptions, Space};
use model::Timestamp;
use rustix::fs::{Advice, FallocateFlags, FlockOperation};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, IoSlice};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// At most so many buffers go into one `pwritev` (`IOV_MAX`).
const MAX_BUFFERS: usize = 1024;

/// The operating system's files.
#[derive(Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let file = fs::OpenOptions::new()
            .read(true)
            .write(options.write)
            .create(options.create)
            .truncate(options.truncate)
            // To open a pipe would wait for its other end.
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no file"));
        }
        Ok(Arc::new(RealFile(file)))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        let mut names = fs::read_dir(directory)?
            .map(|entry| entry.map(|entry| PathBuf::from(entry.file_name())))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort_unstable();
        Ok(names)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        let metadata = fs::metadata(path)?;
        Ok(Metadata {
            len: if metadata.is_dir() { 0 } else { metadata.len() },
            is_directory: metadata.is_dir(),
            modified: Timestamp(
                metadata
                    .mtime()
                    .saturating_mul(1000)
                    .saturating_add(metadata.mtime_nsec() / 1_000_000),
            ),
        })
    }

    fn create_directories(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        fs::File::open(path)?.sync_all()
    }

    fn sync_everything(&self, directory: &Path) -> io::Result<()> {
        Ok(rustix::fs::syncfs(fs::File::open(directory)?)?)
    }

    fn space(&self, path: &Path) -> io::Result<Space> {
        let volume = rustix::fs::statvfs(path)?;
        Ok(Space {
            total: volume.f_blocks.saturating_mul(volume.f_frsize),
            usable: volume.f_bavail.saturating_mul(volume.f_frsize),
        })
    }

    fn boot_id(&self) -> Option<String> {
        let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        Some(id.trim().to_owned()).filter(|id| !id.is_empty())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        RealLock::take(path).map(|lock| Box::new(lock) as Box<dyn Lock>)
    }
}

#[derive(Debug)]
struct RealFile(fs::File);

impl RealFile {
    /// Writes what the system takes in one call; at least a byte, unless there is none to write.
    fn write_once(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        loop {
            let outcome = match buffers {
                [buffer] => rustix::io::pwrite(&self.0, buffer, position),
                _ => rustix::io::pwritev(&self.0, buffers, position),
            };
            match outcome {
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) if buffers.iter().any(|buffer| !buffer.is_empty()) => {
                    return Err(io::ErrorKind::WriteZero.into());
                }
                outcome => return Ok(outcome?),
            }
        }
    }
}

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        loop {
            match self.0.read_at(buffer, position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }

    fn write_all_at(&self, buffers: &[IoSlice<'_>], mut position: u64) -> io::Result<()> {
        for group in buffers.chunks(MAX_BUFFERS) {
            let length = group.iter().map(|buffer| buffer.len()).sum::<usize>();
            let written = self.write_once(group, position)?;
            position += written as u64;
            if written == length {
                continue;
            }
            // Short: the disk is full or a signal came; the next call tells which.
            let mut owned = group.to_vec();
            let mut rest = owned.as_mut_slice();
            IoSlice::advance_slices(&mut rest, written);
            while !rest.is_empty() {
                let written = self.write_once(rest, position)?;
                position += written as u64;
                IoSlice::advance_slices(&mut rest, written);
            }
        }
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn reserve(&self, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        Ok(rustix::fs::fallocate(&self.0, FallocateFlags::KEEP_SIZE, 0, len)?)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn set_modified(&self, at: Timestamp) -> io::Result<()> {
        let since_epoch = Duration::from_millis(at.0.unsigned_abs());
        self.0.set_modified(if at.0 >= 0 {
            SystemTime::UNIX_EPOCH + since_epoch
        } else {
            SystemTime::UNIX_EPOCH - since_epoch
        })
    }

    fn is_cached(&self, position: u64, len: u64) -> bool {
        crate::memory::is_cached(self.0.as_fd(), position, len)
    }

    fn drop_cached(&self, position: u64, len: u64) {
        // It is a wish.
        let _ = rustix::fs::fadvise(&self.0, position, NonZeroU64::new(len), Advice::DontNeed);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

/// Device and inode of every file that this process holds locked.
///
/// A POSIX record lock belongs to the process: a second guard would get it too, and *closing any
/// descriptor of the file gives it up*. So a file that is locked here is not even opened again.
static LOCKED: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

#[derive(Debug)]
struct RealLock {
    identity: (u64, u64),
    /// Holds the lock; closing it gives the lock up.
    file: Option<fs::File>,
}

impl RealLock {
    fn take(path: &Path) -> io::Result<Self> {
        let mut locked = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
        match fs::metadata(path) {
            Ok(metadata) if locked.contains(&(metadata.dev(), metadata.ino())) => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        rustix::fs::fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).map_err(
            |errno| {
                // POSIX allows either for a lock that another process holds.
                if errno == rustix::io::Errno::ACCESS || errno == rustix::io::Errno::AGAIN {
                    io::ErrorKind::WouldBlock.into()
                } else {
                    io::Error::from(errno)
                }
            },
        )?;
        let metadata = file.metadata()?;
        let identity = (metadata.dev(), metadata.ino());
        locked.insert(identity);
        Ok(Self { identity, file: Some(file) })
    }
}

impl Lock for RealLock {}

impl Drop for RealLock {
    fn drop(&mut self) {
        let mut locked = LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.file.take());
        locked.remove(&self.identity);
    }
}
