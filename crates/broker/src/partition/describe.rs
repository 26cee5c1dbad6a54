//! Questions about a partition's log that are not reads: offsets by time, epoch ends, producers,
//! sizes; and the deletion of its oldest records.

use super::append::bound;
use super::watch::{Isolation, News};
use super::{Effects, Log, Partition, Refusal};
use model::{BrokerId, Bug, Instant, LeaderEpoch, Offset, Timestamp};
use std::path::PathBuf;
use storage::{EpochEnd, LogError, PartitionLog, ProducerDescription, ReadError, TimestampOffset};

/// Which offset is asked for. Kafka's sentinels, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OffsetQuery {
    /// The end of what the reader may see.
    Latest,
    /// The log's start.
    Earliest,
    /// The first record with the largest timestamp (KIP-734).
    MaxTimestamp,
    /// The end of what is in tiered storage (KIP-1005): nothing.
    LatestTiered,
    /// The first record at or after a time.
    At(Timestamp),
}

/// Who asks, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OffsetLookup {
    /// What for.
    pub(crate) query: OffsetQuery,
    /// How far the reader may see; followers and debuggers see the log's end.
    pub(crate) isolation: Isolation,
    /// The leader epoch that the reader knows, if it says.
    pub(crate) leader_epoch: Option<LeaderEpoch>,
    /// Whether a replica that does not lead answers for its own log, all of it.
    pub(crate) any_replica: bool,
}

/// Why an offset is not told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OffsetFailure {
    /// The partition answers nothing here.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A new leader does not know yet how far its predecessor committed (KIP-207).
    #[error("the high watermark has not reached the start of the leader's epoch yet")]
    NotAvailable,
    /// The disk failed, or what it holds is damaged.
    #[error(transparent)]
    Log(#[from] ReadError),
}

/// What became of a request to delete records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deletion {
    /// The records below are to go.
    pub(crate) before: Offset,
    /// The least log start of all live replicas, as far as the leader has heard.
    pub(crate) low_watermark: Offset,
}

/// Why records are not deleted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeleteFailure {
    /// The partition answers nothing here.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The topic's `cleanup.policy` does not have `delete`.
    #[error("the topic's cleanup.policy does not allow it")]
    Policy,
    /// The offset is negative or not committed.
    #[error("the offset is out of range")]
    OutOfRange,
    /// The log failed.
    #[error(transparent)]
    Log(LogError),
}

/// One replica of a partition on this broker, for DescribeLogDirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaSize {
    /// The log directory.
    pub(crate) directory: PathBuf,
    /// Size of the segments.
    pub(crate) bytes: u64,
    /// How far it is behind the high watermark, in records.
    pub(crate) offset_lag: i64,
}

/// A follower that is not in sync, as its leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Straggler {
    /// Whose.
    pub(crate) id: BrokerId,
    /// Exclusive end of what it held when it last fetched.
    pub(crate) end: Offset,
    /// How many offsets the leader's log goes beyond that.
    pub(crate) behind: i64,
    /// When it last held all that the leader held; absent if it never did under this leader.
    pub(crate) caught_up_at: Option<Timestamp>,
}

impl Partition {
    /// The followers that are not in sync and were heard of, if this broker leads; `wall` is the time now.
    pub(crate) fn stragglers(&self, wall: Timestamp) -> Vec<Straggler> {
        let state = self.state.lock();
        let (Some(leader), Some(log)) = (state.role.leader(), state.log.opened()) else {
            return Vec::new();
        };
        let now = self.topic.environment.clock.now();
        let end_here = log.log_end_offset();
        let ago = |at: Instant| i64::try_from(now.since(at).as_millis()).unwrap_or(i64::MAX);
        let out = leader.followers().filter(|view| !leader.isr().committed().contains(&view.id));
        let heard = out.filter_map(|view| {
            let end = view.log_end_offset?;
            let caught_up_at =
                view.caught_up_at.map(|at| Timestamp(wall.0.saturating_sub(ago(at))));
            Some(Straggler { id: view.id, end, behind: 0.max(end_here - end), caught_up_at })
        });
        heard.collect()
    }

    /// Answers ListOffsets; `None` if no record fits. The epoch is that of the offset's record.
    ///
    /// # Errors
    /// [`OffsetFailure`].
    pub(crate) fn offset_for(
        &self,
        wall: Timestamp,
        lookup: OffsetLookup,
    ) -> Result<Option<Found>, OffsetFailure> {
        let outcome = self.look_offset_up(wall, lookup);
        if let Err(OffsetFailure::Log(ReadError::Corrupt { .. })) = &outcome {
            self.note_damage();
        }
        outcome
    }

    fn look_offset_up(
        &self,
        wall: Timestamp,
        lookup: OffsetLookup,
    ) -> Result<Option<Found>, OffsetFailure> {
        let mut guard = self.state.lock();
        if lookup.any_replica && !guard.role.is_leader() {
            guard.role.check_epoch(lookup.leader_epoch)?;
            let followed = guard.role.followed_epoch();
            let log = guard.open_log(self, wall)?;
            // Without a leader its last record's epoch tells which log is the longest (decision 11).
            let leader_epoch = followed.or_else(|| log.latest_epoch());
            let latest = Found { offset: log.log_end_offset(), timestamp: None, leader_epoch };
            return look_up(log, lookup.query, latest, false);
        }
        // Followers ask for the log's end, and coordinators that load.
        let led = match lookup.isolation {
            Isolation::LogEnd => guard.lead(self, lookup.leader_epoch, wall)?,
            Isolation::HighWatermark | Isolation::LastStableOffset => {
                guard.lead_surely(self, lookup.leader_epoch, wall)?
            }
        };
        let log = &*led.log;
        let offset = bound(log, lookup.isolation);
        let leader_epoch = Some(led.leader.leader_epoch());
        let lags = lookup.isolation != Isolation::LogEnd
            && led.leader.epoch_start_offset() > log.high_watermark()
            && !Bug::Kafka2334.is_planted();
        look_up(log, lookup.query, Found { offset, timestamp: None, leader_epoch }, lags)
    }

    /// Answers ListOffsets v0: at most `max` segment starts (or the end) whose segments were last
    /// changed at or before `timestamp`, newest first; of a log that is not led here if `any_replica`.
    ///
    /// # Errors
    /// [`OffsetFailure`].
    pub(crate) fn offsets_before(
        &self,
        wall: Timestamp,
        isolation: Isolation,
        any_replica: bool,
        timestamp: Timestamp,
        max: usize,
    ) -> Result<Vec<Offset>, OffsetFailure> {
        let mut guard = self.state.lock();
        let log = match any_replica && !guard.role.is_leader() {
            true => &*guard.open_log(self, wall)?,
            false => &*guard.lead(self, None, wall)?.log,
        };
        let end = bound(log, isolation);
        let mut offsets = log.segment_offsets_before(timestamp, wall, max)?;
        if offsets.iter().any(|&offset| offset > end) {
            offsets.retain(|&offset| offset <= end);
            if offsets.first() != Some(&end) {
                offsets.insert(0, end);
            }
        }
        offsets.truncate(max);
        Ok(offsets)
    }

    /// Where the records of `epoch` end; `None` if the log cannot tell.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn end_of_epoch(
        &self,
        wall: Timestamp,
        expected: Option<LeaderEpoch>,
        epoch: LeaderEpoch,
    ) -> Result<Option<EpochEnd>, Refusal> {
        let mut guard = self.state.lock();
        Ok(guard.lead(self, expected, wall)?.log.end_offset_for_epoch(epoch))
    }

    /// Raises the log's start to `offset`, or to the high watermark if `None`.
    ///
    /// # Errors
    /// [`DeleteFailure`].
    pub(crate) fn delete_before(
        &self,
        wall: Timestamp,
        offset: Option<Offset>,
    ) -> Result<Deletion, DeleteFailure> {
        let mut effects = Effects::default();
        let deletion = {
            let mut guard = self.state.lock();
            let led = guard.lead_surely(self, None, wall)?;
            if !self.topic.settings.load().log.cleanup_policy.delete {
                return Err(DeleteFailure::Policy);
            }
            let high_watermark = led.log.high_watermark();
            let offset = offset.unwrap_or(high_watermark);
            if offset < Offset(0) || offset > high_watermark {
                return Err(DeleteFailure::OutOfRange);
            }
            let start_before = led.log.log_start_offset();
            if offset > start_before {
                led.log.delete_records_before(offset).map_err(|failure| match failure {
                    LogError::OutOfRange { .. } => DeleteFailure::OutOfRange,
                    LogError::Offline | LogError::Disk(_) | LogError::Damaged { .. } => {
                        DeleteFailure::Log(failure)
                    }
                })?;
            }
            let start = led.log.log_start_offset();
            let low_watermark = led.leader.low_watermark(start);
            if start > start_before {
                guard.tell_of_change(&mut effects);
            }
            guard.retention_due = None;
            Deletion { before: offset, low_watermark }
        };
        effects.fire();
        Ok(deletion)
    }

    /// The least log start of all live replicas, as far as the leader, which this must be, has heard.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn low_watermark(&self, wall: Timestamp) -> Result<Offset, Refusal> {
        let mut guard = self.state.lock();
        let led = guard.lead(self, None, wall)?;
        Ok(led.leader.low_watermark(led.log.log_start_offset()))
    }

    /// The producers that the log remembers; a follower's too.
    ///
    /// # Errors
    /// [`Refusal`].
    pub(crate) fn producers(&self, wall: Timestamp) -> Result<Vec<ProducerDescription>, Refusal> {
        let mut state = self.state.lock();
        if state.role.is_leader() {
            return Ok(state.lead(self, None, wall)?.log.producers());
        }
        if matches!(state.log, Log::Gone) {
            return Err(Refusal::NotLeader);
        }
        Ok(state.open_log(self, wall)?.producers())
    }

    /// The first readable offset; -1 if no log is open.
    pub(crate) fn log_start_offset(&self) -> i64 {
        self.state.lock().log.opened().map_or(-1, |log| log.log_start_offset().0)
    }

    /// Where the log is and how large; `None` if it cannot be told.
    pub(crate) fn replica_size(&self) -> Option<ReplicaSize> {
        let state = self.state.lock();
        match &state.log {
            Log::Open(log) => Some(ReplicaSize {
                directory: log.directory().path().to_owned(),
                bytes: log.size_bytes(),
                offset_lag: 0.max(log.high_watermark() - log.log_end_offset()),
            }),
            Log::Closed(log) => Some(ReplicaSize {
                directory: log.directory().path().to_owned(),
                bytes: log.size_bytes().ok()?,
                offset_lag: 0,
            }),
            // It changes, and nobody waits for long.
            Log::Recovering(_) | Log::Gone => None,
        }
    }
}

/// What the log holds below `latest`, which is the answer to who asks for the end. `lags`: how far it is committed is not
/// known to the end (KIP-207).
fn look_up(
    log: &PartitionLog,
    query: OffsetQuery,
    latest: Found,
    lags: bool,
) -> Result<Option<Found>, OffsetFailure> {
    let found = match query {
        OffsetQuery::Latest if lags => return Err(OffsetFailure::NotAvailable),
        OffsetQuery::Latest => return Ok(Some(latest)),
        OffsetQuery::Earliest => {
            let offset = log.log_start_offset();
            let leader_epoch = log.epoch_for_offset(offset);
            return Ok(Some(Found { offset, timestamp: None, leader_epoch }));
        }
        OffsetQuery::LatestTiered => return Ok(None),
        OffsetQuery::MaxTimestamp => log.offset_of_max_timestamp()?,
        OffsetQuery::At(timestamp) => log.offset_for_timestamp(timestamp)?,
    };
    match found {
        Some(found) if found.offset < latest.offset => Ok(Some(found.into())),
        Some(_) | None if lags => Err(OffsetFailure::NotAvailable),
        Some(_) | None => Ok(None),
    }
}

impl super::State {
    /// Watermark or log start moved: the next answers must tell.
    pub(super) fn tell_of_change(&mut self, effects: &mut Effects) {
        let Some(work) = &mut self.work else { return };
        for subscription in &mut work.subscriptions {
            effects.wake(subscription.tell(News::Changed));
        }
    }
}

/// An offset that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The offset.
    pub(crate) offset: Offset,
    /// The record's timestamp, if a record was looked for.
    pub(crate) timestamp: Option<Timestamp>,
    /// The leader epoch of the record, or of the leader.
    pub(crate) leader_epoch: Option<LeaderEpoch>,
}

impl From<TimestampOffset> for Found {
    fn from(found: TimestampOffset) -> Self {
        Self {
            offset: found.offset,
            timestamp: Some(found.timestamp),
            leader_epoch: found.leader_epoch,
        }
    }
}
