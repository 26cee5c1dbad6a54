//! One partition's log: the façade of this crate.
//!
//! A [`ClosedLog`] is a name, a directory and three offsets; [`ClosedLog::open`] makes it a
//! [`PartitionLog`]. No method locks; the owner keeps the log behind a short lock of its own and
//! does the slow parts without it: [`PendingAppend::write`], [`FlushWork::run`], [`ReadPlan::run`].

use crate::append::{AppendRequest, Appended, Reserved, VerificationGuard};
use crate::error::{AppendError, LogError, ReadError};
use crate::log_config::LogConfig;
use crate::log_directories::LogDirectory;
use crate::producer_state::ProducerDescription;
use crate::read::{EpochEnd, LogRead, ReadRequest, TimestampOffset};
use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};
use model::{TopicId, TopicPartition};
use std::io;
use std::sync::Arc;

/// A log that nobody uses: it holds no descriptor, no buffer and no index.
#[derive(Debug)]
pub struct ClosedLog {}

impl ClosedLog {
    /// The partition.
    #[must_use]
    pub fn topic_partition(&self) -> &TopicPartition {
        unimplemented!()
    }

    /// The log directory that holds it.
    #[must_use]
    pub fn directory(&self) -> &Arc<LogDirectory> {
        unimplemented!()
    }

    /// Whether it is a `-future` log, which replaces the live one of its partition when it has caught up.
    #[must_use]
    pub fn is_future(&self) -> bool {
        unimplemented!()
    }

    /// Whether the last stop was unclean and the log has not been opened since.
    #[must_use]
    pub fn needs_recovery(&self) -> bool {
        unimplemented!()
    }

    /// Size of its segments in bytes.
    ///
    /// # Errors
    /// The disk's.
    pub fn size_bytes(&self) -> Result<u64, LogError> {
        unimplemented!()
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
        let _ = (config, now);
        unimplemented!()
    }
}

/// An open log. `log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset`.
#[derive(Debug)]
pub struct PartitionLog {}

impl PartitionLog {
    /// The partition.
    #[must_use]
    pub fn topic_partition(&self) -> &TopicPartition {
        unimplemented!()
    }

    /// The log directory that holds it.
    #[must_use]
    pub fn directory(&self) -> &Arc<LogDirectory> {
        unimplemented!()
    }

    /// The topic id of `partition.metadata`, if there is one.
    #[must_use]
    pub fn topic_id(&self) -> Option<TopicId> {
        unimplemented!()
    }

    /// Writes `partition.metadata` of a log that has none yet.
    ///
    /// # Errors
    /// [`LogError::Disk`].
    pub fn set_topic_id(&mut self, topic_id: TopicId) -> Result<(), LogError> {
        let _ = topic_id;
        unimplemented!()
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> &Arc<LogConfig> {
        unimplemented!()
    }

    /// Changes the settings from now on.
    pub fn set_config(&mut self, config: Arc<LogConfig>) {
        let _ = config;
        unimplemented!()
    }

    /// The first readable offset.
    #[must_use]
    pub fn log_start_offset(&self) -> Offset {
        unimplemented!()
    }

    /// Exclusive end of what is published.
    #[must_use]
    pub fn log_end_offset(&self) -> Offset {
        unimplemented!()
    }

    /// Everything below is on disk for certain (the recovery point).
    #[must_use]
    pub fn durable_offset(&self) -> Offset {
        unimplemented!()
    }

    /// Exclusive; everything below is committed. Starts from the checkpoint.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        unimplemented!()
    }

    /// Moves the high watermark to `offset`, clamped to log start and log end; returns what it is now.
    pub fn set_high_watermark(&mut self, offset: Offset) -> Offset {
        let _ = offset;
        unimplemented!()
    }

    /// Exclusive end for `read_committed` (KIP-98).
    #[must_use]
    pub fn last_stable_offset(&self) -> Offset {
        unimplemented!()
    }

    /// Size of all segments in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        unimplemented!()
    }

    /// Whether a write failed: appends are refused until [`PartitionLog::rebuild`].
    #[must_use]
    pub fn is_offline(&self) -> bool {
        unimplemented!()
    }

    // ---- append ----

    /// Checks the batches against the log's state and reserves their offsets.
    ///
    /// Several appends may be reserved before the first is written. They must be written and published
    /// in the order of their reservation, by one writer at a time.
    ///
    /// # Errors
    /// [`AppendError`]: nothing changed.
    pub fn reserve(&mut self, request: AppendRequest) -> Result<Reserved, AppendError> {
        let _ = request;
        unimplemented!()
    }

    /// Makes a written append visible; or, if its write failed, takes the log offline.
    ///
    /// # Errors
    /// [`LogError::Disk`] for a failed write, [`LogError::Offline`] for appends reserved after it.
    pub fn publish(
        &mut self,
        pending: PendingAppend,
        outcome: &io::Result<()>,
    ) -> Result<Appended, LogError> {
        let _ = (pending, outcome);
        unimplemented!()
    }

    /// Rebuilds an offline log's state from what the disk holds below the published end, so that it
    /// takes appends again. Does I/O.
    ///
    /// # Errors
    /// The log stays offline.
    pub fn rebuild(&mut self, now: Timestamp) -> Result<(), LogError> {
        let _ = now;
        unimplemented!()
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
        let _ = (producer_id, epoch, sequence, supports_epoch_bump, now);
        unimplemented!()
    }

    /// Whether an open transaction of the producer (any epoch) exists.
    #[must_use]
    pub fn has_open_transaction(&self, producer_id: ProducerId) -> bool {
        let _ = producer_id;
        unimplemented!()
    }

    // ---- read ----

    /// Reads records; [`PartitionLog::plan_read`] and [`ReadPlan::run`] in one.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn read(&self, request: ReadRequest) -> Result<LogRead, ReadError> {
        self.plan_read(request)?.run()
    }

    /// Decides what to read without touching the disk. An answer from memory is complete at once.
    ///
    /// # Errors
    /// [`ReadError::OutOfRange`].
    pub fn plan_read(&self, request: ReadRequest) -> Result<ReadPlan, ReadError> {
        let _ = request;
        unimplemented!()
    }

    /// Bytes between two offsets, `from` inclusive, `to` exclusive; 0 if `from >= to`.
    ///
    /// # Errors
    /// The disk's, where a position is not known and has to be looked up.
    pub fn available_bytes(&self, from: Offset, to: Offset) -> Result<u64, ReadError> {
        let _ = (from, to);
        unimplemented!()
    }

    /// The first record at or after the log start whose timestamp is at least `timestamp`.
    /// The caller compares the answer with its own bound. Does I/O.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn offset_for_timestamp(
        &self,
        timestamp: Timestamp,
    ) -> Result<Option<TimestampOffset>, ReadError> {
        let _ = timestamp;
        unimplemented!()
    }

    /// The first record that has the largest timestamp (KIP-734). Does I/O.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn offset_of_max_timestamp(&self) -> Result<Option<TimestampOffset>, ReadError> {
        unimplemented!()
    }

    /// Segment base offsets and the log end with the files' modification times, newest first: for
    /// `ListOffsets` version 0.
    ///
    /// # Errors
    /// [`ReadError::Disk`].
    pub fn segment_offsets_before(
        &self,
        timestamp: Timestamp,
        max: usize,
    ) -> Result<Vec<Offset>, ReadError> {
        let _ = (timestamp, max);
        unimplemented!()
    }

    // ---- leader epochs ----

    /// The latest leader epoch that the log knows.
    #[must_use]
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        unimplemented!()
    }

    /// The epoch that the record at `offset` was written in.
    #[must_use]
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        let _ = offset;
        unimplemented!()
    }

    /// Notes that `epoch` starts at `start` (a new leader does so at its log end).
    ///
    /// # Errors
    /// [`LogError::Disk`].
    pub fn assign_epoch(&mut self, epoch: LeaderEpoch, start: Offset) -> Result<(), LogError> {
        let _ = (epoch, start);
        unimplemented!()
    }

    /// Where `epoch` ends (log-format 3.5).
    #[must_use]
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        let _ = epoch;
        unimplemented!()
    }

    // ---- shortening ----

    /// Removes every record at or above `offset`, whole batches only; the log end becomes `offset`.
    /// Nothing may be reserved and unpublished.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] if `offset` is negative; [`LogError::Disk`] takes the log offline.
    pub fn truncate_to(&mut self, offset: Offset, now: Timestamp) -> Result<(), LogError> {
        let _ = (offset, now);
        unimplemented!()
    }

    /// Removes everything and starts anew at `offset`.
    ///
    /// # Errors
    /// [`LogError::Disk`] takes the log offline.
    pub fn truncate_fully_and_start_at(
        &mut self,
        offset: Offset,
        now: Timestamp,
    ) -> Result<(), LogError> {
        let _ = (offset, now);
        unimplemented!()
    }

    /// Raises the log start to `offset`; records below are gone at once, segments with them later.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] if `offset` is above the high watermark.
    pub fn delete_records_before(&mut self, offset: Offset) -> Result<(), LogError> {
        let _ = offset;
        unimplemented!()
    }

    // ---- upkeep, called by the janitor and the committer ----

    /// Removes segments that are too old, too many, or below the log start; returns how many.
    ///
    /// # Errors
    /// [`LogError::Disk`] takes the log offline.
    pub fn apply_retention(&mut self, now: Timestamp) -> Result<usize, LogError> {
        let _ = now;
        unimplemented!()
    }

    /// Forgets producers that have been silent for `producer.id.expiration.ms`.
    pub fn expire_producers(&mut self, now: Timestamp) {
        let _ = now;
        unimplemented!()
    }

    /// The producers that the log remembers.
    #[must_use]
    pub fn producers(&self) -> Vec<ProducerDescription> {
        unimplemented!()
    }

    /// What `flush.messages` and `flush.ms` ask for now.
    #[must_use]
    pub fn flush_is_due(&self, now: Timestamp) -> bool {
        let _ = now;
        unimplemented!()
    }

    /// The files to sync so that everything published is durable; `None` if it is already.
    #[must_use]
    pub fn begin_flush(&mut self) -> Option<FlushWork> {
        unimplemented!()
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
        let _ = (work, outcome);
        unimplemented!()
    }

    /// Lets go of buffers and descriptors of a log that has been idle.
    pub fn release_idle(&mut self) {
        unimplemented!()
    }

    /// Flushes everything, trims indexes, takes a producer snapshot at the log end and closes the log.
    ///
    /// # Errors
    /// [`LogError::Disk`]: the directory must not get a clean-shutdown marker.
    pub fn close(self) -> Result<ClosedLog, LogError> {
        unimplemented!()
    }
}

/// Offsets and file positions given to an append whose bytes are not written yet.
#[derive(Debug)]
pub struct PendingAppend {}

impl PendingAppend {
    /// Offset of the first record.
    #[must_use]
    pub fn first_offset(&self) -> Offset {
        unimplemented!()
    }

    /// Offset of the last record (inclusive).
    #[must_use]
    pub fn last_offset(&self) -> Offset {
        unimplemented!()
    }

    /// Size of the batches in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        unimplemented!()
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
        let _ = pending;
        unimplemented!()
    }
}

/// A read that was decided and not yet done.
#[derive(Debug)]
pub struct ReadPlan {}

impl ReadPlan {
    /// Whether [`ReadPlan::run`] answers from memory.
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        unimplemented!()
    }

    /// Does the read. To be called without the partition's lock, unless it answers from memory.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn run(self) -> Result<LogRead, ReadError> {
        unimplemented!()
    }
}

/// Files and directories to sync.
#[derive(Debug)]
pub struct FlushWork {}

impl FlushWork {
    /// Syncs them. To be called without the partition's lock, by the committer.
    ///
    /// # Errors
    /// The disk's; fatal for the directory.
    pub fn run(&self) -> io::Result<()> {
        unimplemented!()
    }
}
