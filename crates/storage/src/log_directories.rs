//! The log directories of a broker (`log.dirs`).
//!
//! At start only names and checkpoints are read: a log is opened when it is first used. Checkpoints are
//! written from the registry, which knows every log of a directory before the first one is written; so
//! none is ever lost from them.

#[cfg(test)]
mod tests;

use crate::checkpoint::{self, Durability};
use crate::continuity::{self, Record};
use crate::deletions::Deletions;
use crate::directory_name::{self, DirectoryName};
use crate::error::{AppendError, DiskError, LogError};
use crate::files::{FileCache, PartitionDirectory, lock};
use crate::flush::FlushWork;
use crate::headroom::{Headroom, Shortage};
use crate::log_config::LogConfig;
use crate::meta_properties::MetaProperties;
use crate::moves::{self, Moves, Role, Side};
use crate::partition_log::{ClosedLog, PartitionLog};
use crate::registry::{LogEntry, Stopped};
use crate::tail::TailBudget;
use model::{BrokerId, Instant, Offset, Timestamp, TopicId, TopicPartition};
use platform::disk::{Lock, Space};
use platform::{Disk, Random};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tracing::{error, info, warn};

pub(crate) const LOCK: &str = ".lock";
pub(crate) const CLEAN_MARKER: &str = ".kafka_cleanshutdown";
/// If more logs than this have to be synced at the end, their volume is synced as a whole.
const SYNCED_ONE_BY_ONE: usize = 16;

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
    /// `barnabas.disk.reserve.bytes`: what stays free of each directory's volume; `None` for the smaller of 1 GiB and
    /// a twentieth of it.
    pub disk_reserve_bytes: Option<u64>,
}

/// A log to be created.
#[derive(Debug)]
pub struct NewLog {
    /// Of which partition.
    pub partition: TopicPartition,
    /// The topic's id, if it has one.
    pub topic_id: Option<TopicId>,
    /// Its settings.
    pub config: Arc<LogConfig>,
    /// Where; in the usable directory with the fewest partitions if it is not said.
    pub directory: Option<Arc<LogDirectory>>,
}

/// More logs than this are synced with their whole volume.
const MOST_SYNCED_ONE_BY_ONE: usize = 16;

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
    #[error("no directory of log.dirs can be used: {}; name one that can be written to", with_cause(.0))]
    NoneUsable(#[source] DiskError),
}

/// An error with what is behind it, for one line.
fn with_cause(error: &DiskError) -> String {
    format!("{error}: {}", error.source)
}

/// What all logs use.
pub(crate) struct Shared {
    disk: Arc<dyn Disk>,
    random: Arc<dyn Random>,
    pub(crate) files: Arc<FileCache>,
    pub(crate) tail: Arc<TailBudget>,
    pub(crate) deletions: Deletions,
    /// Called when a directory fails.
    on_failure: OnceLock<FailureListener>,
}

/// Told of a log directory that failed; whoever calls it may hold any lock.
type FailureListener = Box<dyn Fn() + Send + Sync>;

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl Shared {
    /// How much earlier than `segment.ms` a log's segments are rolled.
    pub(crate) fn jitter(&self, config: &LogConfig) -> Duration {
        let most = u64::try_from(config.segment_jitter_ms.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.random.below(most))
    }
}

/// One entry of `log.dirs`.
#[derive(Debug)]
pub struct LogDirectory {
    path: PathBuf,
    shared: Arc<Shared>,
    offline: AtomicBool,
    headroom: Headroom,
    /// Given up when the directory goes offline or is closed.
    lock: Mutex<Option<Box<dyn Lock>>>,
    /// Whether this broker's kind was the last to stop here, cleanly: nobody else has opened it since.
    stopped_by_us: AtomicBool,
    meta: Mutex<MetaProperties>,
    logs: Mutex<Logs>,
    /// What was written of logs that were closed since the start, and is not synced.
    settled: Mutex<BTreeMap<(TopicPartition, bool), Settled>>,
    /// Whether a high watermark moved since they were last written.
    high_watermarks_moved: AtomicBool,
    /// What the high watermark checkpoint names though there is no log of it: they are gone. Their lines stay,
    /// so that the next start knows it too.
    missing: Mutex<BTreeMap<TopicPartition, Offset>>,
    /// Moves that are about to end, as they are on disk.
    moves: Mutex<Moves>,
    /// What it remembers of all directories; none until it can be used.
    record: Mutex<Option<Record>>,
    /// What was last written, so that nothing is written twice; also the lock of the files.
    written: Mutex<BTreeMap<&'static str, String>>,
}

/// A log that was closed, and what of it has to be synced.
#[derive(Debug)]
struct Settled {
    entry: Arc<LogEntry>,
    work: FlushWork,
}

#[derive(Debug, Default)]
struct Logs {
    live: BTreeMap<TopicPartition, Arc<LogEntry>>,
    future: BTreeMap<TopicPartition, Arc<LogEntry>>,
}

impl LogDirectory {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether nobody else has opened it since this broker's kind last stopped there.
    pub(crate) fn was_stopped_by_us(&self) -> bool {
        self.stopped_by_us.load(Ordering::Relaxed)
    }

    /// Whether it takes no more appends because its disk failed.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        self.offline.load(Ordering::Relaxed)
    }

    /// Size of the volume that it is on.
    ///
    /// # Errors
    /// The disk's.
    pub fn space(&self) -> io::Result<Space> {
        self.shared.disk.space(&self.path)
    }

    /// Whether there is room enough for a log that was without any to be used again.
    ///
    /// # Errors
    /// The disk's.
    pub fn has_ample_room(&self) -> io::Result<bool> {
        Ok(self.headroom.is_ample(self.space()?))
    }

    /// Takes `bytes` of the room for appends.
    ///
    /// # Errors
    /// [`AppendError::NoRoom`].
    pub(crate) fn take_room(&self, bytes: u64) -> Result<(), AppendError> {
        let taken = self.headroom.take(bytes, &self.path, || self.space());
        taken.map_err(|Shortage { usable, kept }| {
            let path = self.path.clone();
            AppendError::NoRoom { path, usable, kept }
        })
    }

    /// How many logs it has.
    #[must_use]
    pub fn log_count(&self) -> usize {
        let logs = lock(&self.logs);
        logs.live.len() + logs.future.len()
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.shared.disk
    }

    /// Takes the directory offline for good. Logs stay readable; after a restart it is tried again.
    pub(crate) fn disk_failed(&self, failure: &LogError) {
        if !self.offline.swap(true, Ordering::Relaxed) {
            let failure = failure as &dyn std::error::Error;
            error!(directory = %self.path.display(), failure, "log directory is offline");
            if let Some(tell) = self.shared.on_failure.get() {
                tell();
            }
        }
    }

    /// Takes the directory offline if `failure` is a failed sync, which nobody may try again.
    pub(crate) fn note_failed_sync(&self, failure: &LogError) {
        if matches!(failure, LogError::Disk(error) if error.is_failed_sync()) {
            self.disk_failed(failure);
        }
    }

    fn entries(&self) -> Vec<Arc<LogEntry>> {
        let logs = lock(&self.logs);
        logs.live.values().chain(logs.future.values()).cloned().collect()
    }

    fn write_checkpoint(
        &self,
        name: &'static str,
        value: impl Fn(&LogEntry) -> Option<Offset>,
    ) -> Result<(), DiskError> {
        if self.is_offline() {
            return Ok(());
        }
        let mut written = lock(&self.written);
        let line = |name: &TopicPartition, offset| {
            let TopicPartition { topic, partition } = name;
            format!("{topic} {partition} {offset}")
        };
        let mut lines = self
            .entries()
            .iter()
            .filter_map(|entry| value(entry).map(|offset| line(&entry.name, offset)))
            .collect::<Vec<_>>();
        if name == checkpoint::HIGH_WATERMARKS {
            lines.extend(lock(&self.missing).iter().map(|(name, &offset)| line(name, offset)));
        }
        let text = checkpoint::encode(lines.iter());
        if written.get(name) == Some(&text) {
            return Ok(());
        }
        let disk = self.disk().as_ref();
        checkpoint::replace(disk, &self.path.join(name), text.as_bytes(), Durability::Synced)?;
        written.insert(name, text);
        Ok(())
    }

    /// Called often: the flag is only written when it has to be.
    pub(crate) fn high_watermark_moved(&self) {
        if !self.high_watermarks_moved.load(Ordering::Relaxed) {
            self.high_watermarks_moved.store(true, Ordering::Relaxed);
        }
    }

    /// Takes over what a closed log has to sync: it can wait, for nothing relies on it before the
    /// recovery point or the clean-shutdown marker says so.
    pub(crate) fn settle(&self, entry: &Arc<LogEntry>, work: FlushWork) {
        let key = (entry.name.clone(), entry.is_future());
        lock(&self.settled).insert(key, Settled { entry: Arc::clone(entry), work });
    }

    /// The log is open again, or deleted.
    pub(crate) fn unsettle(&self, entry: &LogEntry) {
        lock(&self.settled).remove(&(entry.name.clone(), entry.is_future()));
    }

    /// Takes the directory offline if that fails.
    fn sync_settled(&self) {
        let settled = std::mem::take(&mut *lock(&self.settled));
        let sync = || {
            if settled.len() > SYNCED_ONE_BY_ONE {
                return self.disk().sync_everything(&self.path);
            }
            settled.values().try_for_each(|settled| settled.work.run())
        };
        if let Err(failure) = sync().map_err(DiskError::at("sync", &self.path)) {
            return self.disk_failed(&LogError::Disk(failure));
        }
        for Settled { entry, work } in settled.values() {
            entry.set_recovery_point(entry.recovery_point().max(work.up_to));
            entry.set_stopped(Stopped::Clean);
        }
    }

    pub(crate) fn write_recovery_points(&self) -> Result<(), DiskError> {
        let entries = self.entries();
        let points = entries.iter().map(|entry| entry.recovery_point()).collect::<Vec<_>>();
        // Those that are written are these or, if they rose meanwhile, higher.
        self.write_checkpoint(checkpoint::RECOVERY_POINTS, |entry| Some(entry.recovery_point()))?;
        for (entry, point) in entries.iter().zip(points) {
            entry.set_written_recovery_point(point);
        }
        Ok(())
    }

    fn write_log_starts(&self) -> Result<(), DiskError> {
        self.write_checkpoint(checkpoint::LOG_STARTS, LogEntry::checkpointed_log_start)
    }

    /// Writes how far the directory's logs are compacted. What cannot be written is compacted again after a
    /// restart.
    pub fn checkpoint_cleaner_offsets(&self) {
        self.tolerate(self.write_cleaner_offsets());
    }

    pub(crate) fn write_cleaner_offsets(&self) -> Result<(), DiskError> {
        self.write_checkpoint(checkpoint::CLEANER_OFFSETS, LogEntry::cleaner_offset)
    }

    fn write_high_watermarks(&self) -> Result<(), DiskError> {
        if !self.high_watermarks_moved.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let outcome = self.write_all_high_watermarks();
        if outcome.is_err() {
            self.high_watermark_moved();
        }
        outcome
    }

    fn write_all_high_watermarks(&self) -> Result<(), DiskError> {
        self.write_checkpoint(checkpoint::HIGH_WATERMARKS, |entry| Some(entry.high_watermark()))
    }

    /// A checkpoint that cannot be written is only older than it could be.
    fn tolerate(&self, outcome: Result<(), DiskError>) {
        match outcome {
            Ok(()) => {}
            Err(error) if error.is_full() => {
                warn!(error = &error as &dyn std::error::Error, "checkpoint is not written");
            }
            Err(error) => self.disk_failed(&LogError::Disk(error)),
        }
    }
}

/// What was found in one directory.
struct Found {
    directory: Arc<LogDirectory>,
    logs: Vec<Arc<LogEntry>>,
    /// The broker epoch in the clean-shutdown marker; the outer is none without a marker.
    marker: Option<Option<i64>>,
    continuity: continuity::Found,
}

impl Found {
    /// Whether the ends of its logs may be gone: nobody closed them, and what was not synced did not outlive
    /// the operating system that had it.
    fn may_lack_records(&self, boot: Option<&str>) -> bool {
        let before = self.continuity.record.as_ref().and_then(|record| record.boot.as_deref());
        self.marker.is_none() && !self.logs.is_empty() && (boot.is_none() || before != boot)
    }
}

/// Gives every directory the record that it is to have from now on; written with `meta.properties`.
fn remember_each_other(found: &[Found], offline: usize, random: &dyn Random) {
    let continuities: Vec<_> = found.iter().map(|found| found.continuity.clone()).collect();
    let records = continuity::judge(&continuities, offline, random);
    let was_complete = continuities.iter().any(|found| found.was_used);
    if was_complete && records.iter().any(|record| record.complete_since.is_none()) {
        warn!(
            "a log directory is missing, or was emptied: partitions whose logs were in it stay offline"
        );
    }
    for (found, record) in found.iter().zip(records) {
        *lock(&found.directory.record) = Some(record);
    }
}

/// Of logs that a crash left in two directories deletes the one that is not gone on with, and forgets all moves. A
/// directory that fails meanwhile is offline.
fn settle_moves(found: &mut Vec<Found>, now: Instant) {
    let sides: Vec<_> =
        found.iter().map(|f| (f.directory.id(), lock(&f.directory.moves).clone())).collect();
    let live = |at: usize, name: &TopicPartition| -> Option<Arc<LogEntry>> {
        let mut logs = found[at].logs.iter();
        logs.find(|entry| entry.name == *name && !entry.is_future()).cloned()
    };
    let mut superseded = Vec::new();
    for (here, (id, moves)) in sides.iter().enumerate() {
        for (name, side) in moves {
            let Some(there) = sides.iter().position(|(other, _)| *other == side.other) else {
                continue;
            };
            let (Some(entry), Some(_)) = (live(here, name), live(there, name)) else { continue };
            // Who does not note this one has gone on without it.
            let is_noted = sides[there].1.get(name).is_some_and(|theirs| theirs.other == *id);
            if here != there && (!is_noted || side.role == Role::Original) {
                superseded.push((here, entry));
            }
        }
    }
    for (at, entry) in superseded {
        let Found { directory, logs, .. } = &mut found[at];
        let path = directory.path.join(entry.directory_name());
        // What fails takes the directory offline.
        if directory.delete_entry(&entry, None, now).is_ok() {
            logs.retain(|other| !Arc::ptr_eq(other, &entry));
            directory.tolerate(directory.write_recovery_points());
            info!(path = %path.display(), "the log was moved to another directory");
        }
    }
    found.retain(|found| {
        // Before a log is used that the other one does not follow.
        found.directory.tolerate(found.directory.forget_moves());
        !found.directory.is_offline()
    });
}

/// All log directories. Shared by reactors, janitor and committer; locks inside are short.
#[derive(Debug)]
pub struct LogDirectories {
    shared: Arc<Shared>,
    broker_id: BrokerId,
    directories: Vec<Arc<LogDirectory>>,
    cluster_id: Option<String>,
    previous_broker_epoch: Option<i64>,
    may_lack_records: bool,
    may_lack_logs: bool,
}

impl LogDirectories {
    /// The broker id of `meta.properties`, if any of `paths` has one; directories that cannot be read are
    /// passed over. For brokers that are to get an id before they open their directories.
    ///
    /// # Errors
    /// [`StartError::WrongIdentity`] if such a file cannot be understood.
    pub fn recorded_broker_id(
        disk: &dyn Disk,
        paths: &[PathBuf],
    ) -> Result<Option<BrokerId>, StartError> {
        for path in paths {
            let wrong =
                |reason| StartError::WrongIdentity { path: MetaProperties::path(path), reason };
            let Ok(meta) = MetaProperties::read(disk, path) else { continue };
            if let Some(id) = meta.map_err(wrong)?.broker_id().map_err(wrong)? {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

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
        let shared = Arc::new(Shared {
            files: Arc::new(FileCache::new(Arc::clone(&disk), config.max_open_files)),
            tail: Arc::new(TailBudget::new(config.tail_cache_bytes)),
            deletions: Deletions::default(),
            on_failure: OnceLock::new(),
            disk,
            random,
        });
        let directories = config
            .paths
            .iter()
            .map(|path| {
                Arc::new(LogDirectory {
                    path: path.clone(),
                    shared: Arc::clone(&shared),
                    offline: AtomicBool::new(false),
                    headroom: Headroom::new(config.disk_reserve_bytes),
                    lock: Mutex::default(),
                    stopped_by_us: AtomicBool::new(false),
                    meta: Mutex::default(),
                    logs: Mutex::default(),
                    settled: Mutex::default(),
                    high_watermarks_moved: AtomicBool::new(true),
                    missing: Mutex::default(),
                    moves: Mutex::default(),
                    record: Mutex::default(),
                    written: Mutex::default(),
                })
            })
            .collect::<Vec<_>>();
        // Nothing is changed anywhere before it is known that all are ours.
        let mut last_failure = None;
        for directory in &directories {
            if let Err(failure) = directory.claim(config.broker_id)? {
                last_failure = Some(directory.failed_to_start(failure));
            }
        }
        let cluster_id = agree_on_cluster(&directories)?;
        let mut found = Vec::new();
        for directory in &directories {
            if directory.is_offline() {
                continue;
            }
            match directory.look_around(now)? {
                Ok(logs) => found.push(logs),
                Err(failure) => last_failure = Some(directory.failed_to_start(failure)),
            }
        }
        if found.is_empty()
            && let Some(failure) = last_failure
        {
            return Err(StartError::NoneUsable(failure));
        }
        let boot = shared.disk.boot_id();
        let may_lack_records = found.iter().any(|found| found.may_lack_records(boot.as_deref()));
        remember_each_other(&found, directories.len() - found.len(), shared.random.as_ref());
        settle_moves(&mut found, now);
        let is_clean = found.len() == directories.len() && found.iter().all(|f| f.marker.is_some());
        let epochs = found.iter().map(|found| found.marker.flatten()).collect::<Vec<_>>();
        let previous_broker_epoch = epochs
            .first()
            .copied()
            .flatten()
            .filter(|_| is_clean && epochs.windows(2).all(|pair| pair[0] == pair[1]));
        let mut logs = Vec::new();
        let mut seen = BTreeMap::<(TopicPartition, bool), PathBuf>::new();
        for Found { directory, logs: entries, .. } in found {
            for entry in entries {
                let path = directory.path.join(entry.directory_name());
                let key = (entry.name.clone(), entry.is_future());
                if let Some(other) = seen.insert(key, path.clone()) {
                    return Err(StartError::UnexpectedDirectory {
                        path,
                        reason: format!(
                            "the partition is also in {}: move the older one out of log.dirs",
                            other.display()
                        ),
                    });
                }
                logs.push(ClosedLog { entry, log_directory: Arc::clone(&directory) });
            }
        }
        for directory in &directories {
            // A log that was moved is not gone.
            lock(&directory.missing).retain(|name, _| !seen.contains_key(&(name.clone(), false)));
            for name in lock(&directory.missing).keys() {
                warn!(partition = %name, directory = %directory.path.display(), "its log was here and is gone");
            }
        }
        let broker_id = config.broker_id;
        let may_lack_logs = directories.iter().any(|directory| {
            let record = lock(&directory.record);
            directory.is_offline()
                || record.as_ref().is_none_or(|record| record.complete_since.is_none())
                || !lock(&directory.missing).is_empty()
        });
        let this = Self {
            shared,
            broker_id,
            directories,
            cluster_id,
            previous_broker_epoch,
            may_lack_records,
            may_lack_logs,
        };
        Ok((this, logs))
    }

    /// The cluster id of `meta.properties`, if any directory has one.
    #[must_use]
    pub fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.as_deref()
    }

    /// Writes `meta.properties` into the directories that have none, or none with this cluster id.
    ///
    /// # Errors
    /// [`StartError::WrongIdentity`] if they belong to another cluster.
    pub fn set_cluster_id(&self, cluster_id: &str) -> Result<(), StartError> {
        for directory in self.directories.iter().filter(|directory| !directory.is_offline()) {
            let mut meta = lock(&directory.meta);
            if let Some(other) = meta.cluster_id().filter(|other| *other != cluster_id) {
                return Err(StartError::WrongIdentity {
                    path: MetaProperties::path(&directory.path),
                    reason: format!(
                        "the directory belongs to cluster {other}, this is cluster {cluster_id}: \
                         use another directory in log.dirs"
                    ),
                });
            }
            let disk = self.shared.disk.as_ref();
            // Before anything says that the directory was ever used.
            if let Err(failure) = directory.write_record() {
                drop(meta);
                directory.tolerate(Err(failure));
                continue;
            }
            if let Err(failure) = meta.write(disk, &directory.path, self.broker_id, cluster_id) {
                drop(meta);
                directory.tolerate(Err(failure));
            }
        }
        Ok(())
    }

    /// The broker epoch of the last clean stop, if every directory was stopped cleanly.
    #[must_use]
    pub fn previous_broker_epoch(&self) -> Option<i64> {
        self.previous_broker_epoch
    }

    /// Whether logs may lack records at their ends that this broker had said it has: one of the directories was
    /// not stopped cleanly, and the operating system was started anew since. As it was at the start.
    #[must_use]
    pub fn may_lack_records(&self) -> bool {
        self.may_lack_records
    }

    /// Whether logs may be missing: a directory is new, was emptied, cannot be used, or names logs that are not
    /// there. As it was at the start.
    #[must_use]
    pub fn may_lack_logs(&self) -> bool {
        self.may_lack_logs
    }

    /// `tell` is called whenever a directory fails from now on, with any lock held: it must only take note.
    pub fn on_failure(&self, tell: impl Fn() + Send + Sync + 'static) {
        assert!(self.shared.on_failure.set(Box::new(tell)).is_ok(), "one listener");
    }

    /// The broker has registered, for the first time since its start, with this epoch: what its directories
    /// may lack is from before, and the store has been told of it.
    pub fn registered(&self, broker_epoch: i64) {
        let boot = self.shared.disk.boot_id();
        for directory in self.directories.iter().filter(|directory| !directory.is_offline()) {
            {
                let mut record = lock(&directory.record);
                let Some(record) = &mut *record else { continue };
                record.complete_since.get_or_insert(broker_epoch);
                record.boot.clone_from(&boot);
            }
            directory.tolerate(directory.write_record());
        }
    }

    /// Whether a log of `partition` may have been in one of the directories, though none has it now.
    /// `created` is when the store got the partition's state, counted as broker epochs are; absent if the store
    /// of this registration has none: then it is younger than that, or deleted.
    ///
    /// False only if it is certain that this broker never had the log: it is in no checkpoint, and every
    /// directory is there in which it can have been created.
    #[must_use]
    pub fn may_have_lost(&self, partition: &TopicPartition, created: Option<i64>) -> bool {
        let is_missing = |directory: &Arc<LogDirectory>| {
            directory.is_offline() || lock(&directory.missing).contains_key(partition)
        };
        let complete_since = self
            .directories
            .iter()
            .filter_map(|directory| lock(&directory.record).as_ref().map(|r| r.complete_since))
            .max_by_key(|since| since.unwrap_or(i64::MAX))
            .flatten();
        self.directories.iter().any(is_missing)
            || created.is_some_and(|created| complete_since.is_none_or(|since| created <= since))
    }

    /// The partition has a log again, or is deleted: that its log was gone does not matter any more.
    pub fn forget_missing(&self, partition: &TopicPartition) {
        for directory in &self.directories {
            if lock(&directory.missing).remove(partition).is_some() {
                directory.high_watermark_moved();
            }
        }
    }

    /// The directories, in the order of `log.dirs`.
    #[must_use]
    pub fn directories(&self) -> &[Arc<LogDirectory>] {
        &self.directories
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
        let directory = directory.cloned();
        let created = self.create_all(vec![NewLog { partition, topic_id, config, directory }], now);
        created.into_iter().next().expect("an answer for each")
    }

    /// Creates logs, and makes all of them durable at once: a power failure must not make one that never was, for
    /// it would not be missed. Answers in order.
    pub fn create_all(
        &self,
        wanted: Vec<NewLog>,
        now: Timestamp,
    ) -> Vec<Result<PartitionLog, LogError>> {
        let mut created: Vec<_> = wanted
            .into_iter()
            .map(|new| {
                let usable = self.directories.iter().filter(|directory| !directory.is_offline());
                let fewest = || usable.min_by_key(|directory| directory.log_count()).cloned();
                let directory = new.directory.or_else(fewest).ok_or(LogError::Offline)?;
                let entry = LogEntry::new(new.partition, None, Stopped::Open);
                self.create_in(&directory, entry, new.topic_id, new.config, now)
            })
            .collect();
        for directory in &self.directories {
            let is_here = |log: &&PartitionLog| Arc::ptr_eq(log.directory(), directory);
            let here: Vec<_> = created.iter().flatten().filter(is_here).collect();
            let Err(failure) = self.sync_created(directory, &here) else { continue };
            directory.disk_failed(&LogError::from(failure));
            for log in &mut created {
                if log.as_ref().is_ok_and(|log| is_here(&log)) {
                    *log = Err(LogError::Offline);
                }
            }
        }
        created
    }

    fn sync_created(
        &self,
        directory: &LogDirectory,
        logs: &[&PartitionLog],
    ) -> Result<(), DiskError> {
        let (disk, path) = (&self.shared.disk, &directory.path);
        if logs.len() > MOST_SYNCED_ONE_BY_ONE {
            return disk.sync_everything(path).map_err(DiskError::at("sync", path));
        }
        for log in logs {
            log.sync_created()?;
        }
        match logs.is_empty() {
            true => Ok(()),
            false => disk.sync_directory(path).map_err(DiskError::at("sync", path)),
        }
    }

    /// Creates a `-future` log: a copy that will replace the partition's log in another directory.
    ///
    /// # Errors
    /// As [`LogDirectories::create`].
    pub fn create_future(
        &self,
        partition: TopicPartition,
        topic_id: Option<TopicId>,
        config: Arc<LogConfig>,
        directory: &Arc<LogDirectory>,
        now: Timestamp,
    ) -> Result<PartitionLog, LogError> {
        let name = directory_name::for_future(&partition, self.shared.random.as_ref());
        let entry = LogEntry::new(partition, Some(name), Stopped::Open);
        let log = self.create_in(directory, entry, topic_id, config, now)?;
        if let Err(failure) = self.sync_created(directory, &[&log]) {
            let failure = LogError::from(failure);
            directory.disk_failed(&failure);
            return Err(failure);
        }
        Ok(log)
    }

    /// Creates the files; they are not durable yet.
    fn create_in(
        &self,
        directory: &Arc<LogDirectory>,
        entry: LogEntry,
        topic_id: Option<TopicId>,
        config: Arc<LogConfig>,
        now: Timestamp,
    ) -> Result<PartitionLog, LogError> {
        if directory.is_offline() {
            return Err(LogError::Offline);
        }
        let entry = Arc::new(entry);
        let path = directory.path.join(entry.directory_name());
        let create = || {
            let made = self.shared.disk.create_directories(&path);
            made.map_err(DiskError::at("create", &path))?;
            PartitionLog::create(&entry, directory, topic_id, config, now)
        };
        match create() {
            Ok(log) => {
                self.forget_missing(&entry.name);
                let mut logs = lock(&directory.logs);
                let logs = if entry.is_future() { &mut logs.future } else { &mut logs.live };
                let before = logs.insert(entry.name.clone(), Arc::clone(&entry));
                assert!(before.is_none(), "{} is created where it is already", entry.name);
                Ok(log)
            }
            Err(failure) => {
                if !matches!(&failure, LogError::Disk(failure) if failure.is_full()) {
                    directory.disk_failed(&failure);
                }
                Err(failure)
            }
        }
    }

    /// Prepares a promotion: from now on a start that finds the log in both directories knows what to do. May be
    /// called long before, and in vain.
    ///
    /// # Errors
    /// [`LogError::Disk`]. The log and its copy are as they were.
    pub fn announce_promotion(
        &self,
        original: &LogDirectory,
        future: &PartitionLog,
    ) -> Result<(), LogError> {
        let (name, directory) = (future.topic_partition(), future.directory());
        let side = |role, other: &LogDirectory| Some(Side { role, other: other.id() });
        original.note_move(name, side(Role::Original, directory))?;
        Ok(directory.note_move(name, side(Role::Copy, original))?)
    }

    /// Replaces a partition's log by its `-future` copy, which has caught up with it and is flushed.
    ///
    /// # Errors
    /// [`LogError::Disk`].
    pub fn promote(
        &self,
        current: PartitionLog,
        mut future: PartitionLog,
        delay: Duration,
        now: Instant,
    ) -> Result<PartitionLog, LogError> {
        assert!(future.is_future() && !current.is_future(), "a future log replaces a live one");
        let (original, directory) =
            (Arc::clone(current.directory()), Arc::clone(future.directory()));
        self.announce_promotion(&original, &future)?;
        future.take_over(&current);
        // Before the original's checkpoints forget it.
        directory.tolerate(directory.write_high_watermarks());
        directory.tolerate(directory.write_log_starts());
        if future.entry().cleaner_offset().is_some() {
            directory.tolerate(directory.write_cleaner_offsets());
        }
        let name = future.topic_partition().clone();
        let from = directory.path.join(future.entry().directory_name());
        let to = directory.path.join(name.to_string());
        // First: a crash must leave one of them.
        directory.rename_log(&from, &to)?;
        future.entry().promote();
        future.partition_directory().set_path(&to);
        {
            let mut logs = lock(&directory.logs);
            if let Some(entry) = logs.future.remove(&name) {
                logs.live.insert(entry.name.clone(), entry);
            }
        }
        self.delete(current, delay, now)?;
        // What is left of a note does not matter: there is only one log.
        directory.tolerate(directory.note_move(&name, None));
        original.tolerate(original.note_move(&name, None));
        Ok(future)
    }

    /// Renames the log's directory to `-delete`; its files go after `delay`.
    ///
    /// # Errors
    /// [`LogError::Disk`].
    pub fn delete(&self, log: PartitionLog, delay: Duration, now: Instant) -> Result<(), LogError> {
        let entry = Arc::clone(log.entry());
        let directory = Arc::clone(log.directory());
        let partition_directory = Arc::clone(log.partition_directory());
        drop(log); // closes its files
        directory.delete_entry(&entry, Some(&partition_directory), now + delay)
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
        let ClosedLog { entry, log_directory } = log;
        log_directory.delete_entry(&entry, None, now + delay)
    }

    /// Frees a bounded part (at most 4 MiB) of what was deleted. Returns when to call again: `None`
    /// if nothing is left to delete.
    pub fn delete_step(&self, now: Instant) -> Option<Instant> {
        self.shared.deletions.step(self.shared.disk.as_ref(), now)
    }

    /// Writes recovery points and log starts (every minute) of directories that changed.
    pub fn write_checkpoints(&self) {
        for directory in &self.directories {
            directory.tolerate(directory.write_recovery_points());
            directory.tolerate(directory.write_log_starts());
        }
    }

    /// Writes high watermarks (every 5 seconds) of directories where one changed.
    pub fn write_high_watermarks(&self) {
        for directory in &self.directories {
            directory.tolerate(directory.write_high_watermarks());
        }
    }

    /// Syncs what closed logs left, writes the last checkpoints and, where every log was closed cleanly, the clean-shutdown
    /// marker; then gives the locks up. To be called after every log was closed.
    pub fn close(&self, broker_epoch: Option<i64>) {
        for directory in self.directories.iter().filter(|directory| !directory.is_offline()) {
            let outcome = directory.close(broker_epoch);
            directory.tolerate(outcome);
            drop(lock(&directory.lock).take());
        }
    }

    /// Gives the directories up as a crash does: nothing is written, and another process may have them.
    pub fn abandon(&self) {
        for directory in &self.directories {
            drop(lock(&directory.lock).take());
        }
    }
}

impl LogDirectory {
    /// Gives the log a name that says that it is deleted; its files go from `due` on.
    fn delete_entry(
        &self,
        entry: &LogEntry,
        open: Option<&PartitionDirectory>,
        due: Instant,
    ) -> Result<(), LogError> {
        {
            let mut logs = lock(&self.logs);
            let logs = if entry.is_future() { &mut logs.future } else { &mut logs.live };
            logs.remove(&entry.name);
        }
        self.unsettle(entry);
        let from = self.path.join(entry.directory_name());
        let doomed = directory_name::for_deletion(&entry.name, self.shared.random.as_ref());
        let to = self.path.join(doomed);
        // Before it is so: who flushes the log meanwhile must not take the directory for lost.
        if let Some(open) = open {
            open.set_path(&to);
        }
        if let Err(failure) = self.rename_log(&from, &to) {
            self.disk_failed(&failure);
            return Err(failure);
        }
        self.shared.deletions.push_due(to, due);
        self.high_watermark_moved();
        // A new log of the same name must not inherit where this one started.
        if entry.checkpointed_log_start().is_some() {
            self.tolerate(self.write_log_starts());
        }
        if entry.recovery_point() > Offset(0) {
            self.tolerate(self.write_recovery_points());
        }
        if entry.cleaner_offset().is_some() {
            self.tolerate(self.write_cleaner_offsets());
        }
        Ok(())
    }

    /// Gives a log's directory another name, durably.
    fn rename_log(&self, from: &Path, to: &Path) -> Result<(), LogError> {
        let renamed = self.disk().rename(from, to);
        let renamed = renamed.and_then(|()| self.disk().sync_directory(&self.path));
        renamed.map_err(DiskError::at("rename", from)).map_err(LogError::from)
    }

    /// Its name among the others.
    fn id(&self) -> String {
        lock(&self.record).as_ref().map_or_else(String::new, |record| record.id.clone())
    }

    /// Notes that a partition's log is here and maybe in another directory too, or, without a side, that it is not.
    fn note_move(&self, name: &TopicPartition, side: Option<Side>) -> Result<(), DiskError> {
        let mut moves = lock(&self.moves);
        if moves.get(name) == side.as_ref() {
            return Ok(());
        }
        let mut changed = moves.clone();
        match side {
            Some(side) => drop(changed.insert(name.clone(), side)),
            None => drop(changed.remove(name)),
        }
        moves::write(self.disk().as_ref(), &self.path, &changed)?;
        *moves = changed;
        Ok(())
    }

    /// Forgets all moves: none is under way.
    fn forget_moves(&self) -> Result<(), DiskError> {
        let mut moves = lock(&self.moves);
        if !moves.is_empty() {
            moves::write(self.disk().as_ref(), &self.path, &Moves::new())?;
            moves.clear();
        }
        Ok(())
    }

    /// Writes what the directory remembers of all of them, unless it has that already.
    fn write_record(&self) -> Result<(), DiskError> {
        let Some(record) = lock(&self.record).clone() else { return Ok(()) };
        let disk = self.disk().as_ref();
        if Record::read(disk, &self.path)? == Some(Some(record.clone())) {
            return Ok(());
        }
        record.write(disk, &self.path)
    }

    fn failed_to_start(&self, failure: DiskError) -> DiskError {
        warn!(
            directory = %self.path.display(),
            error = &failure as &dyn std::error::Error,
            "log directory cannot be used and is offline"
        );
        self.offline.store(true, Ordering::Relaxed);
        failure
    }

    /// Locks the directory and reads whose it is.
    fn claim(&self, broker_id: BrokerId) -> Result<Result<(), DiskError>, StartError> {
        let disk = self.disk().as_ref();
        if let Err(failure) = self.make(disk) {
            return Ok(Err(failure));
        }
        let path = self.path.join(LOCK);
        match disk.lock(&path) {
            Ok(held) => *lock(&self.lock) = Some(held),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(StartError::Locked { path: self.path.clone() });
            }
            Err(source) => return Ok(Err(DiskError { action: "lock", path, source })),
        }
        let wrong =
            |reason| StartError::WrongIdentity { path: MetaProperties::path(&self.path), reason };
        let meta = match MetaProperties::read(disk, &self.path) {
            Ok(meta) => meta.map_err(wrong)?,
            Err(failure) => return Ok(Err(failure)),
        };
        if let Some(owner) = meta.broker_id().map_err(wrong)?.filter(|owner| *owner != broker_id) {
            return Err(wrong(format!(
                "the directory belongs to broker {owner}, this is broker {broker_id}: \
                 set broker.id={owner} or use another directory in log.dirs"
            )));
        }
        *lock(&self.meta) = meta;
        Ok(Ok(()))
    }

    /// Makes the directory if it is not there, with those above it, durably: what will be flushed in it must not be lost
    /// with its name.
    fn make(&self, disk: &dyn Disk) -> Result<(), DiskError> {
        let is_missing = |path: &&Path| {
            let metadata = disk.metadata(path);
            metadata.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let above = self.path.ancestors().filter(|path| !path.as_os_str().is_empty());
        let missing: Vec<_> = above.take_while(is_missing).collect();
        disk.create_directories(&self.path).map_err(DiskError::at("create", &self.path))?;
        for made in missing.into_iter().rev() {
            let above = made.parent().filter(|above| !above.as_os_str().is_empty());
            let above = above.unwrap_or(Path::new("."));
            disk.sync_directory(above).map_err(DiskError::at("sync", above))?;
        }
        Ok(())
    }

    /// Registers the logs that are there, with what the checkpoints say, and takes the marker away.
    fn look_around(self: &Arc<Self>, now: Instant) -> Result<Result<Found, DiskError>, StartError> {
        let disk = self.disk().as_ref();
        let names = match disk.list(&self.path) {
            Ok(names) => names,
            Err(source) => {
                return Ok(Err(DiskError { action: "list", path: self.path.clone(), source }));
            }
        };
        let mut partitions = Vec::new();
        let mut deleted = Vec::new();
        for name in names {
            let path = self.path.join(&name);
            let parsed = name.to_str().and_then(directory_name::parse);
            if parsed == Some(DirectoryName::Foreign) {
                continue;
            }
            match disk.metadata(&path) {
                Ok(metadata) if metadata.is_directory => {}
                Ok(_) => continue,
                Err(source) => return Ok(Err(DiskError { action: "look at", path, source })),
            }
            match parsed {
                Some(DirectoryName::Live(partition)) => partitions.push((partition, None)),
                Some(DirectoryName::Future(partition)) => {
                    partitions.push((partition, Some(name.to_string_lossy().into_owned())));
                }
                Some(DirectoryName::Delete) => {
                    deleted.push(name.to_string_lossy().into_owned());
                    self.shared.deletions.push_due(path, now);
                }
                Some(DirectoryName::Stray | DirectoryName::Foreign) => {}
                None => {
                    return Err(StartError::UnexpectedDirectory {
                        path,
                        reason: "not a partition's directory: move it out of log.dirs".to_owned(),
                    });
                }
            }
        }
        let marker = match self.take_marker() {
            Ok(marker) => marker,
            Err(failure) => return Ok(Err(failure)),
        };
        let stopped = if marker.is_some() { Stopped::Clean } else { Stopped::Unclean };
        let recovery_points = self.read_checkpoint(checkpoint::RECOVERY_POINTS);
        let log_starts = self.read_checkpoint(checkpoint::LOG_STARTS);
        let high_watermarks = self.read_checkpoint(checkpoint::HIGH_WATERMARKS);
        let cleaner_offsets = self.read_checkpoint(checkpoint::CLEANER_OFFSETS);
        let mut registered = lock(&self.logs);
        let mut logs = Vec::with_capacity(partitions.len());
        for (name, future) in partitions {
            let is_future = future.is_some();
            let entry = LogEntry::new(name, future, stopped);
            let number = |from: &BTreeMap<TopicPartition, i64>| from.get(&entry.name).copied();
            let recovery_point = Offset(number(&recovery_points).unwrap_or(0));
            entry.set_recovery_point(recovery_point);
            entry.set_written_recovery_point(recovery_point);
            let log_start = number(&log_starts);
            entry.set_log_start_offset(Offset(log_start.unwrap_or(0)), log_start.is_some());
            entry.set_high_watermark(Offset(number(&high_watermarks).unwrap_or(0)));
            entry.set_cleaner_offset(number(&cleaner_offsets).map(Offset));
            let entry = Arc::new(entry);
            let by_name = if is_future { &mut registered.future } else { &mut registered.live };
            by_name.insert(entry.name.clone(), Arc::clone(&entry));
            logs.push(entry);
        }
        let is_stale = |name: &TopicPartition| {
            !registered.live.contains_key(name) && !registered.future.contains_key(name)
        };
        let has_stale = |lines: &BTreeMap<TopicPartition, i64>| lines.keys().any(is_stale);
        let (stale_points, stale_starts) = (has_stale(&recovery_points), has_stale(&log_starts));
        let stale_cleaner_offsets = has_stale(&cleaner_offsets);
        // The checkpoint may be older than a deletion whose files are still there.
        let is_deleted = |name: &TopicPartition| {
            let prefix = format!("{name}.");
            deleted.iter().any(|directory| directory.starts_with(&prefix))
        };
        *lock(&self.missing) = high_watermarks
            .iter()
            .filter(|(name, _)| is_stale(name) && !is_deleted(name))
            .map(|(name, &offset)| (name.clone(), Offset(offset)))
            .collect();
        drop(registered);
        // A new log of the same name must not be taken for one that is synced or compacted already, or that
        // starts higher.
        if stale_points {
            self.tolerate(self.write_recovery_points());
        }
        if stale_starts {
            self.tolerate(self.write_log_starts());
        }
        if stale_cleaner_offsets {
            self.tolerate(self.write_cleaner_offsets());
        }
        match moves::read(disk, &self.path) {
            Ok(moves) => *lock(&self.moves) = moves,
            Err(LogError::Disk(failure)) => return Ok(Err(failure)),
            Err(error) => warn!(error = &error as &dyn std::error::Error, "moves are not known"),
        }
        let record = match Record::read(disk, &self.path) {
            Ok(record) => record,
            Err(failure) => return Ok(Err(failure)),
        };
        if record == Some(None) {
            warn!(directory = %self.path.display(), file = continuity::FILE_NAME, "cannot be read");
        }
        let was_used = match record {
            Some(Some(_)) => true,
            // Whatever was in it is in doubt.
            Some(None) => false,
            None => lock(&self.meta).cluster_id().is_some() || !logs.is_empty(),
        };
        let continuity = continuity::Found { record: record.flatten(), was_used };
        info!(
            directory = %self.path.display(),
            logs = logs.len(),
            clean = marker.is_some(),
            "log directory"
        );
        Ok(Ok(Found { directory: Arc::clone(self), logs, marker, continuity }))
    }

    /// A checkpoint that cannot be read only makes recovery longer.
    fn read_checkpoint(&self, name: &str) -> BTreeMap<TopicPartition, i64> {
        let path = self.path.join(name);
        let read = checkpoint::read(self.disk().as_ref(), &path, |line| {
            checkpoint::parse_offset(line).filter(|(_, offset)| *offset >= 0)
        });
        match read {
            Ok(entries) => entries.into_iter().collect(),
            Err(failure) => {
                warn!(error = &failure as &dyn std::error::Error, "checkpoint cannot be used");
                BTreeMap::new()
            }
        }
    }

    /// Removes the clean-shutdown marker, durably: from now on a stop is unclean until it was clean.
    fn take_marker(&self) -> Result<Option<Option<i64>>, DiskError> {
        let disk = self.disk().as_ref();
        let path = self.path.join(CLEAN_MARKER);
        let Some(content) = checkpoint::read_file(disk, &path)? else { return Ok(None) };
        disk.remove_file(&path).map_err(DiskError::at("remove", &path))?;
        disk.sync_directory(&self.path).map_err(DiskError::at("sync", &self.path))?;
        self.stopped_by_us.store(is_own_marker(&content), Ordering::Relaxed);
        Ok(Some(parse_marker(&content)))
    }

    fn close(&self, broker_epoch: Option<i64>) -> Result<(), DiskError> {
        self.sync_settled();
        if self.is_offline() {
            return Ok(());
        }
        self.write_recovery_points()?;
        self.write_log_starts()?;
        self.write_high_watermarks()?;
        let unclean = self.entries().iter().filter(|e| e.stopped() != Stopped::Clean).count();
        if unclean > 0 {
            warn!(directory = %self.path.display(), unclean, "logs were not closed: no clean stop");
            return Ok(());
        }
        let text = marker(broker_epoch);
        let path = self.path.join(CLEAN_MARKER);
        checkpoint::replace(self.disk().as_ref(), &path, text.as_bytes(), Durability::Synced)
    }
}

/// Of what Apache Kafka's marker has not, and ignores: who takes the marker away does not leave it as it was.
const OWN_MARK: &str = "\"writtenBy\":\"barnabas\"";

fn marker(broker_epoch: Option<i64>) -> String {
    format!("{{\"version\":0,\"brokerEpoch\":{},{OWN_MARK}}}", broker_epoch.unwrap_or(-1))
}

fn is_own_marker(content: &[u8]) -> bool {
    content.windows(OWN_MARK.len()).any(|part| part == OWN_MARK.as_bytes())
}

/// The broker epoch in a marker, which older brokers left empty.
fn parse_marker(content: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(content).ok()?;
    let (_, rest) = text.split_once("\"brokerEpoch\"")?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    let end = rest.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok().filter(|&epoch| epoch >= 0)
}

fn agree_on_cluster(directories: &[Arc<LogDirectory>]) -> Result<Option<String>, StartError> {
    let mut agreed = None::<String>;
    for directory in directories {
        let meta = lock(&directory.meta);
        let Some(cluster_id) = meta.cluster_id() else { continue };
        match &agreed {
            Some(other) if other != cluster_id => {
                return Err(StartError::WrongIdentity {
                    path: MetaProperties::path(&directory.path),
                    reason: format!(
                        "the directory belongs to cluster {cluster_id}, another one of log.dirs to \
                         cluster {other}: remove one of them from log.dirs"
                    ),
                });
            }
            _ => agreed = Some(cluster_id.to_owned()),
        }
    }
    Ok(agreed)
}
