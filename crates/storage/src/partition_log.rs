//! One partition's log: the façade of this crate.
//!
//! A [`ClosedLog`] is a name, a directory and three offsets; [`ClosedLog::open`] makes it a
//! [`PartitionLog`]. No method locks; the owner keeps the log behind a short lock of its own and
//! does the slow parts without it: [`PendingAppend::write`], [`FlushWork::run`], [`ReadPlan::run`].
//!
//! [`PendingAppend::write`]: crate::PendingAppend::write
//! [`ReadPlan::run`]: crate::ReadPlan::run

mod appending;
mod compaction;
mod finding;
mod mending;
mod moving;
mod retention;
#[cfg(test)]
mod tests;
mod truncation;

use crate::append::VerificationGuard;
use crate::checkpoint::Durability;
use crate::error::{DiskError, LogError};
use crate::files::{PartitionDirectory, SegmentFiles};
use crate::flush::{FlushWork, SegmentFlush};
use crate::leader_epochs::{self, LeaderEpochs};
use crate::log_config::LogConfig;
use crate::log_directories::LogDirectory;
use crate::partition_metadata;
use crate::producer_state::ProducerDescription;
use crate::read::EpochEnd;
use crate::recovery::{self, LoadRequest, Loaded, Producers};
use crate::registry::{LogEntry, Stopped};
use crate::segment::{IndexWrites, Segment};
use crate::tail::Tail;
use appending::Recent;
pub use compaction::SwappedFiles;
use model::{Bug, LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use model::{TopicId, TopicPartition};
use platform::disk::OpenOptions;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tracing::{info, warn};

/// A log that nobody uses: it holds no descriptor, no buffer and no index.
#[derive(Debug)]
pub struct ClosedLog {
    pub(crate) entry: Arc<LogEntry>,
    pub(crate) log_directory: Arc<LogDirectory>,
}

impl ClosedLog {
    /// The partition.
    #[must_use]
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.entry.name
    }

    /// The log directory that holds it.
    #[must_use]
    pub fn directory(&self) -> &Arc<LogDirectory> {
        &self.log_directory
    }

    /// Whether it is a `-future` log, which replaces the live one of its partition when it has caught up.
    #[must_use]
    pub fn is_future(&self) -> bool {
        self.entry.is_future()
    }

    /// Whether the last stop was unclean and the log has not been opened since.
    #[must_use]
    pub fn needs_recovery(&self) -> bool {
        self.entry.stopped() == Stopped::Unclean
    }

    /// How many bytes of it recovery has to read, about: its segments from the recovery point on.
    ///
    /// # Errors
    /// The disk's.
    pub fn unrecovered_bytes(&self) -> Result<u64, LogError> {
        let disk = self.log_directory.disk();
        let segments = self.segments_on_disk()?;
        let point = self.entry.recovery_point();
        let ends = segments.keys().skip(1).copied().map(Some).chain([None]);
        let mut bytes = 0;
        for (file, end) in segments.values().zip(ends) {
            if end.is_none_or(|end| end >= point) {
                bytes += disk.metadata(file).map_err(DiskError::at("look at", file))?.len;
            }
        }
        Ok(bytes)
    }

    /// The base offsets of the segments that lie there, with their files; told by names alone.
    pub(crate) fn segments_on_disk(&self) -> Result<BTreeMap<Offset, PathBuf>, DiskError> {
        let path = self.log_directory.path().join(self.entry.directory_name());
        let names = self.log_directory.disk().list(&path).map_err(DiskError::at("list", &path))?;
        let is_log = |name: &PathBuf| name.extension().is_some_and(|extension| extension == "log");
        let segment = |name: PathBuf| {
            let base = name.file_stem()?.to_str()?.parse().ok().map(Offset)?;
            Some((base, path.join(name)))
        };
        Ok(names.into_iter().filter(is_log).filter_map(segment).collect())
    }

    /// Recovers the log if the last stop was unclean, and leaves it as a clean stop does, but for being synced:
    /// [`LogDirectories::close`] does that. The log is closed again in any case.
    ///
    /// [`LogDirectories::close`]: crate::LogDirectories::close
    pub fn recover(self, config: Arc<LogConfig>, now: Timestamp) -> (Self, Result<(), LogError>) {
        if !self.needs_recovery() {
            return (self, Ok(()));
        }
        // If its files cannot be completed it is recovered again when it is needed.
        match self.open(config, now).and_then(PartitionLog::close) {
            Ok(closed) => (closed, Ok(())),
            Err((closed, error)) => (closed, Err(error)),
        }
    }

    /// Size of its segments in bytes.
    ///
    /// # Errors
    /// The disk's.
    pub fn size_bytes(&self) -> Result<u64, LogError> {
        if let Some(size) = self.entry.size() {
            return Ok(size);
        }
        let disk = self.log_directory.disk();
        let path = self.log_directory.path().join(self.entry.directory_name());
        let mut size = 0;
        for name in disk.list(&path).map_err(DiskError::at("list", &path))? {
            if name.extension().is_some_and(|extension| extension == "log") {
                let file = path.join(name);
                size += disk.metadata(&file).map_err(DiskError::at("look at", &file))?.len;
            }
        }
        self.entry.set_size(size);
        Ok(size)
    }

    /// Whether compaction may find something to do once the log is open: a segment is complete that is
    /// not clean. Told by the names of the files and the cleaner's checkpoint.
    ///
    /// # Errors
    /// The disk's.
    pub fn may_be_dirty(&self) -> Result<bool, LogError> {
        let segments = self.segments_on_disk()?;
        let active = segments.last_key_value().map_or(Offset(0), |(&base, _)| base);
        let log_start = self.entry.log_start_offset();
        let clean = self.entry.cleaner_offset().map_or(log_start, |offset| offset.max(log_start));
        Ok(active > clean)
    }

    /// Opens the log; recovers it first if the last stop was unclean.
    ///
    /// # Errors
    /// Gives the closed log back with the reason.
    pub fn open(
        self,
        config: Arc<LogConfig>,
        now: Timestamp,
    ) -> Result<PartitionLog, (Self, LogError)> {
        let Self { entry, log_directory } = self;
        match PartitionLog::open(&entry, &log_directory, config, now) {
            Ok(log) => Ok(log),
            Err(error) => {
                log_directory.note_failed_sync(&error);
                Err((Self { entry, log_directory }, error))
            }
        }
    }
}

/// An open log. `log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset`.
#[derive(Debug)]
pub struct PartitionLog {
    entry: Arc<LogEntry>,
    log_directory: Arc<LogDirectory>,
    directory: Arc<PartitionDirectory>,
    config: Arc<LogConfig>,
    topic_id: Option<TopicId>,
    /// By base offset; never empty; the last is active.
    pub(crate) segments: Vec<Segment>,
    /// With the effects of what is reserved and not published.
    epochs: LeaderEpochs,
    /// With the effects of what is reserved and not published.
    producers: Producers,
    log_start_offset: Offset,
    /// Of what is published.
    log_end_offset: Offset,
    /// Of what is reserved.
    reserved_end: Offset,
    high_watermark: Offset,
    recovery_point: Offset,
    jitter: Duration,
    tail: Tail,
    recent: Recent,
    /// Appends that are reserved and not published.
    in_flight: usize,
    /// Index entries are on their way to the file.
    index_write_in_flight: bool,
    /// Compaction renames files: no segment may go and the log may not be opened anew.
    swap_in_flight: bool,
    /// Counts what makes pending appends and flushes void.
    generation: u64,
    offline: bool,
    /// When an offline log may try the disk again.
    retry_at: Timestamp,
    /// When there was first something to flush.
    unflushed_since: Option<Timestamp>,
    /// The directory's own name may not be on disk.
    name_unsynced: bool,
    /// Something changed since the log was opened.
    changed: bool,
}

/// Whether compaction may have left holes: it did if it ever came here, whatever the policy is now.
fn may_have_holes(entry: &LogEntry, config: &LogConfig) -> bool {
    config.cleanup_policy.compact || entry.cleaner_offset().is_some()
}

/// How long an offline log waits before it tries the disk again.
const RETRY_INTERVAL_MS: i64 = 5_000;

impl PartitionLog {
    fn open(
        entry: &Arc<LogEntry>,
        log_directory: &Arc<LogDirectory>,
        config: Arc<LogConfig>,
        now: Timestamp,
    ) -> Result<Self, LogError> {
        let path = log_directory.path().join(entry.directory_name());
        let cache = Arc::clone(&log_directory.shared().files);
        let mut directory = PartitionDirectory::new(cache, &path);
        directory.is_ours = log_directory.was_stopped_by_us();
        let directory = Arc::new(directory);
        let stopped = entry.stopped();
        let loaded = recovery::load(&LoadRequest {
            directory: &directory,
            config: &config,
            clean: stopped != Stopped::Unclean,
            recovery_point: entry.recovery_point(),
            log_start_offset: entry.log_start_offset(),
            may_have_holes: may_have_holes(entry, &config),
            now,
        })?;
        let topic_id = match partition_metadata::read(&directory) {
            Ok(topic_id) => topic_id,
            Err(error @ LogError::Damaged { .. }) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "the topic id will be written anew"
                );
                None
            }
            Err(error) => return Err(error),
        };
        if stopped == Stopped::Unclean {
            info!(
                partition = %entry.name,
                log_start_offset = loaded.log_start_offset.0,
                log_end_offset = loaded.log_end_offset.0,
                "recovered"
            );
        }
        let mut loaded = loaded;
        if stopped == Stopped::Settled {
            // It was closed since the start, and nobody has synced it.
            loaded.recovery_point = entry.recovery_point().min(loaded.log_end_offset);
            log_directory.unsettle(entry);
        }
        let (recovered, was_durable) = (loaded.recovered, entry.recovery_point());
        let mut log = Self::assemble(entry, log_directory, directory, config, loaded);
        log.topic_id = topic_id;
        log.changed = stopped != Stopped::Clean || recovered;
        log.name_unsynced = log.changed;
        entry.set_stopped(Stopped::Open);
        if was_durable > log.log_end_offset {
            // What is appended now is not durable, though its offsets are below what was.
            log_directory.write_recovery_points()?;
        }
        Ok(log)
    }

    fn assemble(
        entry: &Arc<LogEntry>,
        log_directory: &Arc<LogDirectory>,
        directory: Arc<PartitionDirectory>,
        config: Arc<LogConfig>,
        loaded: Loaded,
    ) -> Self {
        let high_watermark =
            entry.high_watermark().clamp(loaded.log_start_offset, loaded.log_end_offset);
        let jitter = log_directory.shared().jitter(&config);
        let mut log = Self {
            entry: Arc::clone(entry),
            log_directory: Arc::clone(log_directory),
            directory,
            config,
            topic_id: None,
            segments: loaded.segments,
            epochs: loaded.epochs,
            producers: loaded.producers,
            log_start_offset: loaded.log_start_offset,
            log_end_offset: loaded.log_end_offset,
            reserved_end: loaded.log_end_offset,
            high_watermark,
            recovery_point: loaded.recovery_point,
            jitter,
            tail: Tail::new(Arc::clone(&log_directory.shared().tail)),
            recent: Recent::default(),
            in_flight: 0,
            index_write_in_flight: false,
            swap_in_flight: false,
            generation: 0,
            offline: false,
            retry_at: Timestamp(i64::MIN),
            unflushed_since: None,
            name_unsynced: true,
            changed: true,
        };
        log.producers.state.high_watermark_moved(high_watermark);
        log.register();
        log
    }

    /// Creates an empty log in a directory that was just made.
    pub(crate) fn create(
        entry: &Arc<LogEntry>,
        log_directory: &Arc<LogDirectory>,
        topic_id: Option<TopicId>,
        config: Arc<LogConfig>,
        now: Timestamp,
    ) -> Result<Self, LogError> {
        let path = log_directory.path().join(entry.directory_name());
        let cache = Arc::clone(&log_directory.shared().files);
        let directory = Arc::new(PartitionDirectory::new(cache, &path));
        let files = Arc::new(SegmentFiles::new(Arc::clone(&directory), Offset(0)));
        recovery::create_files(&files)?;
        if let Some(topic_id) = topic_id {
            partition_metadata::write(&directory, topic_id, Durability::Lazy)?;
        }
        let loaded = Loaded {
            segments: vec![Segment::empty(files, now)],
            epochs: LeaderEpochs::default(),
            producers: Producers::default(),
            log_start_offset: Offset(0),
            log_end_offset: Offset(0),
            recovery_point: Offset(0),
            recovered: false,
        };
        let mut log = Self::assemble(entry, log_directory, directory, config, loaded);
        log.topic_id = topic_id;
        Ok(log)
    }

    /// Makes a log that was just created durable, but for its directory's own name.
    pub(crate) fn sync_created(&self) -> Result<(), DiskError> {
        if self.topic_id.is_some() {
            let path = self.directory.join(partition_metadata::FILE_NAME);
            let file = self.directory.disk().open(&path, OpenOptions::default());
            file.and_then(|file| file.sync()).map_err(DiskError::at("sync", &path))?;
        }
        self.directory.sync()
    }

    /// Tells the registry what belongs into checkpoints.
    fn register(&self) {
        let entry = &self.entry;
        entry.set_recovery_point(self.recovery_point);
        // Once written it stays: the segments below may come back after a crash.
        let is_needed = self.log_start_offset > self.segments[0].base
            || entry.checkpointed_log_start().is_some();
        entry.set_log_start_offset(self.log_start_offset, is_needed);
        if entry.set_high_watermark(self.high_watermark) {
            self.log_directory.high_watermark_moved();
        }
        entry.set_size(self.size_bytes());
    }

    /// The partition.
    #[must_use]
    pub fn topic_partition(&self) -> &TopicPartition {
        &self.entry.name
    }

    /// The log directory that holds it.
    #[must_use]
    pub fn directory(&self) -> &Arc<LogDirectory> {
        &self.log_directory
    }

    /// Whether it is a `-future` log, which replaces the live one of its partition when it has caught up.
    #[must_use]
    pub fn is_future(&self) -> bool {
        self.entry.is_future()
    }

    pub(crate) fn entry(&self) -> &Arc<LogEntry> {
        &self.entry
    }

    pub(crate) fn partition_directory(&self) -> &Arc<PartitionDirectory> {
        &self.directory
    }

    /// The topic id of `partition.metadata`, if there is one.
    #[must_use]
    pub fn topic_id(&self) -> Option<TopicId> {
        self.topic_id
    }

    /// Writes `partition.metadata` of a log that has none yet.
    ///
    /// # Errors
    /// [`LogError::Disk`].
    pub fn set_topic_id(&mut self, topic_id: TopicId) -> Result<(), LogError> {
        partition_metadata::write(&self.directory, topic_id, Durability::Synced)?;
        self.topic_id = Some(topic_id);
        Ok(())
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> &Arc<LogConfig> {
        &self.config
    }

    /// Changes the settings from now on.
    pub fn set_config(&mut self, config: Arc<LogConfig>) {
        if config.segment_jitter_ms != self.config.segment_jitter_ms {
            self.jitter = self.log_directory.shared().jitter(&config);
        }
        self.config = config;
    }

    /// The first readable offset.
    #[must_use]
    pub fn log_start_offset(&self) -> Offset {
        self.log_start_offset
    }

    /// Exclusive end of what is published.
    #[must_use]
    pub fn log_end_offset(&self) -> Offset {
        self.log_end_offset
    }

    /// Everything below is on disk for certain (the recovery point).
    #[must_use]
    pub fn durable_offset(&self) -> Offset {
        self.recovery_point
    }

    /// Exclusive; everything below is committed. Starts from the checkpoint.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// Moves the high watermark to `offset`, clamped to log start and log end; returns what it is now.
    pub fn set_high_watermark(&mut self, offset: Offset) -> Offset {
        self.high_watermark = offset.clamp(self.log_start_offset, self.log_end_offset);
        self.producers.state.high_watermark_moved(self.high_watermark);
        if self.entry.set_high_watermark(self.high_watermark) {
            self.log_directory.high_watermark_moved();
        }
        self.high_watermark
    }

    /// Exclusive end for `read_committed` (KIP-98).
    #[must_use]
    pub fn last_stable_offset(&self) -> Offset {
        match self.producers.state.first_unstable_offset() {
            Some(first) => first.clamp(self.log_start_offset, self.high_watermark),
            None => self.high_watermark,
        }
    }

    /// Size of all segments in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.published).sum()
    }

    /// Whether a write failed: appends are refused until [`PartitionLog::rebuild`].
    #[must_use]
    pub fn is_offline(&self) -> bool {
        self.offline || self.log_directory.is_offline()
    }

    /// Refuses changes of an offline log, and of one that has unpublished appends.
    fn check_changeable(&self) -> Result<(), LogError> {
        if self.is_offline() {
            return Err(LogError::Offline);
        }
        assert_eq!(self.in_flight, 0, "only a log without pending appends can be changed");
        assert!(!self.swap_in_flight, "no log is changed while compaction swaps its segments");
        Ok(())
    }

    /// A failed write leaves memory and disk in disagreement: everything that was reserved is void.
    fn fail(&mut self) {
        self.offline = true;
        self.generation += 1;
        self.in_flight = 0;
        self.index_write_in_flight = false;
    }

    /// Takes the log offline if `outcome` is a failure of the disk.
    fn or_fail<T>(&mut self, outcome: Result<T, LogError>) -> Result<T, LogError> {
        if let Err(error @ (LogError::Disk(_) | LogError::Damaged { .. })) = &outcome {
            self.fail();
            self.log_directory.note_failed_sync(error);
        }
        outcome
    }

    /// Rebuilds an offline log's state from what the disk holds below the published end, so that it
    /// takes appends again. Does I/O: everything since the recovery point, or at least the active
    /// segment, is read. Tries at most every five seconds.
    ///
    /// # Errors
    /// The log stays offline.
    pub fn rebuild(&mut self, now: Timestamp) -> Result<(), LogError> {
        if !self.offline {
            return Ok(());
        }
        // A wall clock that was set back must not keep the log waiting.
        let waited_since = Timestamp(self.retry_at.0.saturating_sub(RETRY_INTERVAL_MS));
        let is_early = (waited_since..self.retry_at).contains(&now);
        if self.log_directory.is_offline() || is_early || self.swap_in_flight {
            return Err(LogError::Offline);
        }
        self.retry_at = Timestamp(now.0.saturating_add(RETRY_INTERVAL_MS));
        self.fail();
        // What was published is in the files, if not on the disk: older segments are as they were.
        let active = self.segments.iter().rfind(|segment| !segment.provisional);
        let recovery_point =
            self.recovery_point.max(active.map_or(self.log_end_offset, |active| active.base));
        let rebuilt = self.cut_unpublished().and_then(|()| {
            recovery::load(&LoadRequest {
                directory: &self.directory,
                config: &self.config,
                clean: false,
                recovery_point,
                log_start_offset: self.log_start_offset,
                may_have_holes: may_have_holes(&self.entry, &self.config),
                now,
            })
        });
        let loaded = match rebuilt {
            Ok(loaded) => loaded,
            Err(error) => {
                let is_full = |error: &DiskError| error.is_full() && !error.is_failed_sync();
                if !matches!(&error, LogError::Disk(error) if is_full(error)) {
                    self.log_directory.disk_failed(&error);
                }
                return Err(error);
            }
        };
        if loaded.log_end_offset != self.log_end_offset {
            // Published records are missing: the disk lost them. Nothing more is to be trusted to it.
            let error = LogError::Damaged {
                path: self.directory.path().to_path_buf(),
                reason: format!(
                    "the log ends at {} on disk and at {} in memory",
                    loaded.log_end_offset, self.log_end_offset
                ),
            };
            self.log_directory.disk_failed(&error);
            return Err(error);
        }
        self.segments = loaded.segments;
        self.epochs = loaded.epochs;
        if !Bug::Kafka10778.is_planted() {
            self.producers = loaded.producers;
        }
        self.reserved_end = self.log_end_offset;
        self.producers.state.high_watermark_moved(self.high_watermark);
        self.tail.clear();
        self.recent.clear();
        self.offline = false;
        self.changed = true;
        self.register();
        info!(partition = %self.entry.name, log_end_offset = self.log_end_offset.0, "rebuilt");
        Ok(())
    }

    /// Removes from the disk what was written of appends that were never published.
    fn cut_unpublished(&mut self) -> Result<(), LogError> {
        let end = self.log_end_offset;
        while let Some(last) = self.segments.pop_if(|last| last.provisional) {
            last.files.close();
            for path in last.paths() {
                recovery::remove_file(&self.directory, path)?;
            }
        }
        let snapshots = self.producers.snapshots.range(end + 1..).copied().collect::<Vec<_>>();
        for offset in snapshots {
            self.producers.remove_snapshot(&self.directory, offset)?;
        }
        self.directory.sync()?;
        let active = self.segments.last().expect("a log has a segment");
        // Else they might come back after a crash, behind what is appended now.
        Ok(active.files.cut_log(active.published)?)
    }

    /// Whether the log remembers batches of an idempotent producer.
    #[must_use]
    pub fn knows_producer(&self, id: ProducerId) -> bool {
        self.producers.state.knows(id)
    }

    /// Notes that a producer's transaction is about to be verified with its coordinator; `None` if a
    /// transaction of it is open already, so that nothing needs verifying.
    pub fn begin_verification(
        &mut self,
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        sequence: Sequence,
        supports_epoch_bump: bool,
        now: Timestamp,
    ) -> Option<VerificationGuard> {
        let state = &mut self.producers.state;
        state.begin_verification(producer_id, epoch, sequence, supports_epoch_bump, now)
    }

    /// Whether an open transaction of the producer (any epoch) exists.
    #[must_use]
    pub fn has_open_transaction(&self, producer_id: ProducerId) -> bool {
        self.producers.state.has_open_transaction(producer_id)
    }

    /// The producers that the log remembers.
    #[must_use]
    pub fn producers(&self) -> Vec<ProducerDescription> {
        self.producers.state.describe()
    }

    /// Forgets producers that have been silent for `producer.id.expiration.ms`.
    pub fn expire_producers(&mut self, now: Timestamp) {
        self.producers.state.expire(now, self.config.producer_id_expiration_ms);
    }

    // ---- leader epochs ----

    /// The latest leader epoch that the log knows.
    #[must_use]
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.latest()
    }

    /// Where each leader epoch begins, ascending.
    #[must_use]
    pub fn epoch_starts(&self) -> &[(LeaderEpoch, Offset)] {
        self.epochs.entries()
    }

    /// The epoch that the record at `offset` was written in.
    #[must_use]
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.epochs.at(offset)
    }

    /// Notes that `epoch` starts at `start` (a new leader does so at its log end).
    ///
    /// # Errors
    /// None at present: what cannot be written now is written with the next flush.
    pub fn assign_epoch(&mut self, epoch: LeaderEpoch, start: Offset) -> Result<(), LogError> {
        self.epochs.assign(epoch, start);
        self.write_epochs();
        Ok(())
    }

    /// Where `epoch` ends (log-format 3.5).
    #[must_use]
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        // Kafka's "none". Lower ones are before all epochs.
        if epoch.0 == -1 {
            return None;
        }
        self.epochs.end_offset_for(epoch, self.log_end_offset)
    }

    /// Brings the epoch file up to date. It may fail: every epoch can be derived from the batches, and
    /// no flush succeeds without it.
    fn write_epochs(&mut self) {
        match self.epochs.write(&self.directory) {
            Ok(true) => self.changed = true,
            Ok(false) => {}
            Err(error) => {
                self.changed = true;
                warn!(error = &error as &dyn std::error::Error, "leader epochs are written later");
            }
        }
    }

    // ---- flushing and closing ----

    /// Whether a segment was completed since the last flush, or `flush.messages` or `flush.ms` ask for one.
    #[must_use]
    pub fn flush_is_due(&self, now: Timestamp) -> bool {
        // As Kafka does in the background: a segment is flushed once it is complete.
        let by_roll = self.recovery_point
            < self.segments.last().map_or(Offset(0), |last| last.base)
            && self.recovery_point < self.log_end_offset;
        let by_time =
            self.config.flush_ms.zip(self.unflushed_since).is_some_and(|(limit, since)| {
                u128::try_from(now.0.saturating_sub(since.0))
                    .is_ok_and(|age| age >= limit.as_millis())
            });
        by_roll || by_time || self.exceeds_flush_messages()
    }

    /// Whether `flush.messages` asks for a flush before anybody is told of what was appended last.
    #[must_use]
    pub fn exceeds_flush_messages(&self) -> bool {
        let unflushed = self.log_end_offset - self.recovery_point;
        self.config.flush_messages.is_some_and(|limit| {
            u64::try_from(unflushed).is_ok_and(|unflushed| unflushed > 0 && unflushed >= limit)
        })
    }

    /// The files to sync so that everything published is durable; `None` if it is already.
    #[must_use]
    pub fn begin_flush(&mut self) -> Option<FlushWork> {
        if self.recovery_point >= self.log_end_offset || self.is_offline() {
            return None;
        }
        Some(self.flush_work(false))
    }

    fn flush_work(&mut self, closing: bool) -> FlushWork {
        self.unflushed_since = None;
        self.write_epochs();
        let from = self.recovery_point;
        let last = self.segments.len() - 1;
        // A segment that was flushed while it was active has indexes that were not: it ends where the recovery
        // point is.
        let first = self.segments.partition_point(|segment| segment.base < from).saturating_sub(1);
        let segments = self.segments[first..]
            .iter()
            .enumerate()
            .filter(|(_, segment)| segment.published > 0 || closing)
            .map(|(at, segment)| SegmentFlush {
                files: Arc::clone(&segment.files),
                with_indexes: closing || first + at < last,
                with_transactions: segment.transactions.entries > 0,
            })
            .collect();
        let mut others = self
            .producers
            .snapshots
            .range(from..)
            .map(|&offset| Producers::path(&self.directory, offset))
            .collect::<Vec<_>>();
        let mut sync_directory = self.segments[last].base >= from || !others.is_empty() || closing;
        if self.epochs.take_unsynced() {
            others.push(self.directory.join(leader_epochs::FILE_NAME));
            sync_directory = true;
        }
        let sync_parent = std::mem::take(&mut self.name_unsynced);
        sync_directory |= sync_parent;
        FlushWork {
            generation: self.generation,
            up_to: self.log_end_offset,
            log_directory: Arc::clone(&self.log_directory),
            directory: Arc::clone(&self.directory),
            segments,
            others,
            sync_directory,
            sync_parent,
        }
    }

    /// Raises the durable offset after [`FlushWork::run`].
    ///
    /// # Errors
    /// [`LogError::Disk`] for a failed sync; the log and its directory are offline.
    pub fn finish_flush(
        &mut self,
        work: FlushWork,
        outcome: io::Result<()>,
    ) -> Result<(), LogError> {
        if let Err(source) = outcome {
            self.fail();
            return Err(work.failed(source));
        }
        if work.generation == self.generation {
            self.recovery_point = self.recovery_point.max(work.up_to);
            self.entry.set_recovery_point(self.recovery_point);
        }
        Ok(())
    }

    /// Lets go of buffers and descriptors of a log that has been idle.
    pub fn release_idle(&mut self) {
        self.tail.clear();
        self.recent.clear();
        if self.in_flight > 0 || self.is_offline() {
            return;
        }
        if let Some(active) = self.segments.last_mut()
            && let Err(error) = active.write_indexes(IndexWrites::Append)
        {
            warn!(error = &error as &dyn std::error::Error, "index entries stay in memory");
        }
        for segment in &self.segments {
            segment.files.close();
            // The system may have, too.
            segment.files.forget_verified();
        }
    }

    /// Completes the files as a clean stop leaves them (trimmed indexes, a producer snapshot at the log
    /// end) and closes the log. They are synced by [`LogDirectories::close`], many at a time.
    ///
    /// [`LogDirectories::close`]: crate::LogDirectories::close
    ///
    /// # Errors
    /// [`LogError`], with the log, which has to be recovered: the directory will not get a clean-shutdown marker.
    pub fn close(mut self) -> Result<ClosedLog, (ClosedLog, LogError)> {
        let closed = ClosedLog {
            entry: Arc::clone(&self.entry),
            log_directory: Arc::clone(&self.log_directory),
        };
        let entry = &closed.entry;
        if self.is_offline() {
            entry.set_stopped(Stopped::Unclean);
            return Err((closed, LogError::Offline));
        }
        assert_eq!(self.in_flight, 0, "a log is closed when nothing is pending: {}", entry.name);
        assert!(!self.swap_in_flight, "a log is closed when nothing is swapped: {}", entry.name);
        if self.changed {
            if let Err(error) = self.complete_files() {
                entry.set_stopped(Stopped::Unclean);
                return Err((closed, error));
            }
            let work = self.flush_work(true);
            closed.log_directory.settle(entry, work);
            entry.set_stopped(Stopped::Settled);
        } else {
            entry.set_stopped(Stopped::Clean);
        }
        self.register();
        Ok(closed)
    }

    fn complete_files(&mut self) -> Result<(), LogError> {
        let (active, others) = self.segments.split_last_mut().expect("a log has a segment");
        others.iter_mut().try_for_each(Segment::seal_late)?;
        active.seal()?;
        self.producers.end_offset = self.log_end_offset;
        self.producers.take_snapshot(&self.directory, false)?;
        self.epochs.write(&self.directory)?;
        Ok(())
    }
}
