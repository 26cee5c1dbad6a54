//! Making a log durable.

use crate::directory_name::{self, DirectoryName};
use crate::error::{DiskError, LogError};
use crate::files::{Kind, PartitionDirectory, SegmentFiles};
use crate::log_directories::LogDirectory;
use model::{Bug, Offset};
use platform::disk::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Files and directories to sync.
#[derive(Debug)]
pub struct FlushWork {
    pub(crate) generation: u64,
    /// Everything below is durable afterwards.
    pub(crate) up_to: Offset,
    pub(crate) log_directory: Arc<LogDirectory>,
    pub(crate) directory: Arc<PartitionDirectory>,
    pub(crate) segments: Vec<SegmentFlush>,
    /// Snapshots, leader epochs, topic id.
    pub(crate) others: Vec<PathBuf>,
    /// Whether names in the directory are new.
    pub(crate) sync_directory: bool,
    /// Whether the directory's own name is.
    pub(crate) sync_parent: bool,
}

#[derive(Debug)]
pub(crate) struct SegmentFlush {
    pub(crate) files: Arc<SegmentFiles>,
    /// The offset and time index are complete: nobody looks at them again before using them.
    pub(crate) with_indexes: bool,
    pub(crate) with_transactions: bool,
}

impl FlushWork {
    /// Syncs them. To be called without the partition's lock, by the committer.
    ///
    /// # Errors
    /// The disk's; fatal for the directory, which whoever has the log takes offline with
    /// [`PartitionLog::finish_flush`], or with [`FlushWork::failed`] if the log is gone.
    ///
    /// [`PartitionLog::finish_flush`]: crate::PartitionLog::finish_flush
    pub fn run(&self) -> io::Result<()> {
        let disk = self.directory.disk();
        for segment in &self.segments {
            let kinds = Kind::ALL.into_iter().filter(|kind| match kind {
                Kind::Log => true,
                Kind::OffsetIndex | Kind::TimeIndex | Kind::Checksums => segment.with_indexes,
                Kind::TransactionIndex => segment.with_transactions,
            });
            for kind in kinds {
                match segment.files.get(kind) {
                    Ok(file) => file.sync()?,
                    // Retention or truncation was faster.
                    Err(error) if error.source.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error.source),
                }
            }
        }
        for path in &self.others {
            match disk.open(path, OpenOptions { write: true, ..OpenOptions::default() }) {
                Ok(file) => file.sync()?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if self.sync_directory && !Bug::Kafka3968.is_planted() {
            self.sync_names()?;
        }
        match self.directory.path().parent() {
            Some(parent) if self.sync_parent => disk.sync_directory(parent),
            _ => Ok(()),
        }
    }

    /// Makes the names in the directory durable. One that was deleted meanwhile needs nothing more; one that is gone
    /// by itself is a failure.
    fn sync_names(&self) -> io::Result<()> {
        let path = self.directory.path();
        match self.directory.disk().sync_directory(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let now = self.directory.path();
                let name = now.file_name().and_then(|name| name.to_str());
                match name.and_then(directory_name::parse) {
                    Some(DirectoryName::Delete) => Ok(()),
                    _ if now != path => self.directory.disk().sync_directory(&now),
                    _ => Err(error),
                }
            }
            outcome => outcome,
        }
    }

    /// Takes the log directory offline after a sync that failed: what the kernel could not write it may have
    /// dropped, so that a second sync would succeed and mean nothing.
    pub fn failed(&self, source: io::Error) -> LogError {
        let path = self.directory.path().to_path_buf();
        let error = LogError::Disk(DiskError { action: "sync", path, source });
        self.log_directory.disk_failed(&error);
        error
    }
}
