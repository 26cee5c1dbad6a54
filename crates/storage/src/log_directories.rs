//! The log directories of a broker (`log.dirs`).

use crate::error::{DiskError, LogError};
use crate::log_config::LogConfig;
use crate::partition_log::{ClosedLog, PartitionLog};
use model::{BrokerId, Instant, Timestamp, TopicId, TopicPartition};
use platform::{Disk, Random};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Settings of [`LogDirectories`].
#[derive(Clone, Debug)]
pub struct LogDirectoriesConfig {
    /// `log.dirs` (or `log.dir`).
    pub paths: Vec<PathBuf>,
    /// `broker.id`.
    pub broker_id: BrokerId,
    /// Open files that are kept for reuse.
    pub max_open_files: usize,
    /// Bytes of recent batches that are kept in memory, over all logs.
    pub tail_cache_bytes: usize,
}

/// Why the log directories cannot be used. Each message names the directory and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Another process holds the lock.
    #[error("{} is used by another process: stop it, or use another directory in log.dirs", path.display())]
    Locked {
        /// The directory.
        path: PathBuf,
    },
    /// The directory belongs to another broker or cluster, or two disagree.
    #[error("{}: {reason}", path.display())]
    WrongIdentity {
        /// The `meta.properties` file.
        path: PathBuf,
        /// What does not fit, and what to do.
        reason: String,
    },
    /// A directory's name is not a partition's, or a partition is there twice.
    #[error("{}: {reason}", path.display())]
    UnexpectedDirectory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        reason: String,
    },
    /// No directory can be used.
    #[error("no directory of log.dirs can be used")]
    NoneUsable(#[source] DiskError),
}

/// One entry of `log.dirs`.
#[derive(Debug)]
pub struct LogDirectory {}

impl LogDirectory {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        unimplemented!()
    }

    /// Whether it takes no more appends because the disk failed or is full.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        unimplemented!()
    }
}

/// All log directories. Shared by reactors, janitor and committer; locks inside are short.
#[derive(Debug)]
pub struct LogDirectories {}

impl LogDirectories {
    /// Locks the directories, checks whose they are, and registers the partitions found.
    ///
    /// Reads names and checkpoints only: logs are opened at first use.
    ///
    /// # Errors
    /// [`StartError`]. A directory whose disk fails is offline, not an error, unless all do.
    pub fn open(
        disk: Arc<dyn Disk>,
        random: Arc<dyn Random>,
        config: LogDirectoriesConfig,
        now: Instant,
    ) -> Result<(Self, Vec<ClosedLog>), StartError> {
        let _ = (disk, random, config, now);
        unimplemented!()
    }

    /// The cluster id of `meta.properties`, if any directory has one.
    #[must_use]
    pub fn cluster_id(&self) -> Option<&str> {
        unimplemented!()
    }

    /// Writes `meta.properties` into the directories that have none, or none with this cluster id.
    ///
    /// # Errors
    /// [`StartError::WrongIdentity`] if they belong to another cluster.
    pub fn set_cluster_id(&self, cluster_id: &str) -> Result<(), StartError> {
        let _ = cluster_id;
        unimplemented!()
    }

    /// The broker epoch of the last clean stop, if every directory was stopped cleanly.
    #[must_use]
    pub fn previous_broker_epoch(&self) -> Option<i64> {
        unimplemented!()
    }

    /// The directories, in the order of `log.dirs`.
    #[must_use]
    pub fn directories(&self) -> &[Arc<LogDirectory>] {
        unimplemented!()
    }

    /// Creates a partition's log, in `directory` or in the usable one with the fewest partitions.
    ///
    /// # Errors
    /// [`LogError::Offline`] if no directory can be used, [`LogError::Disk`].
    pub fn create(
        &self,
        partition: TopicPartition,
        topic_id: Option<TopicId>,
        config: Arc<LogConfig>,
        directory: Option<&Arc<LogDirectory>>,
        now: Timestamp,
    ) -> Result<PartitionLog, LogError> {
        let _ = (partition, topic_id, config, directory, now);
        unimplemented!()
    }

    /// Renames the log's directory to `-delete`; its files go after `delay`.
    ///
    /// # Errors
    /// [`LogError::Disk`].
    pub fn delete(&self, log: PartitionLog, delay: Duration, now: Instant) -> Result<(), LogError> {
        let _ = (log, delay, now);
        unimplemented!()
    }

    /// As [`LogDirectories::delete`], for a log that is not open.
    ///
    /// # Errors
    /// [`LogError::Disk`].
    pub fn delete_closed(
        &self,
        log: ClosedLog,
        delay: Duration,
        now: Instant,
    ) -> Result<(), LogError> {
        let _ = (log, delay, now);
        unimplemented!()
    }

    /// Frees a bounded part (at most 4 MiB) of what was deleted. Returns when to call again: `None`
    /// if nothing is left to delete.
    pub fn delete_step(&self, now: Instant) -> Option<Instant> {
        let _ = now;
        unimplemented!()
    }

    /// Writes recovery points and log starts (every minute) of directories that changed.
    pub fn write_checkpoints(&self) {
        unimplemented!()
    }

    /// Writes high watermarks (every 5 seconds) of directories where one changed.
    pub fn write_high_watermarks(&self) {
        unimplemented!()
    }

    /// Writes the last checkpoints and, where every log was closed cleanly, the clean-shutdown
    /// marker; then gives the locks up. To be called after every log was closed.
    pub fn close(self, broker_epoch: Option<i64>) {
        let _ = broker_epoch;
        unimplemented!()
    }
}
