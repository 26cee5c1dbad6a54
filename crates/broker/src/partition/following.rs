//! What a follower does to its copy of a log: it appends what the leader has, as the leader has it, cuts
//! off what departs from the leader's log, and takes over watermark and log start.
//!
//! Everything here is called by the replica fetcher that follows the partition's leader, for one
//! leadership: as soon as the controller says otherwise it is answered [`FollowFailure::Ended`].
//!
//! Non-obvious:
//! - A follower's high watermark may go back: a new leader may know less than the old one did.
//! - What is cut off below the high watermark was committed once. Only an unclean election or a leader
//!   that lost its data asks for that, so it is said aloud.

use super::{Effects, Log, Partition, Role, State};
use bytes::Bytes;
use model::{Bug, LeaderEpoch, Offset, Timestamp};
use parking_lot::MutexGuard;
use protocol::records::Batches;
use replication::truncation::{self, EpochEnd, OutOfRange};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use storage::{AppendError, AppendRecords, AppendRequest, LogError, PartitionLog, Reserved};
use tracing::{error, info, warn};

/// Where a follower's log stands: what it asks its leader for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FollowerPosition {
    /// The log's end, exclusive: the first record that it lacks.
    pub(crate) offset: Offset,
    /// The epoch of its last record; absent if it has none, or only records from before epochs.
    pub(crate) last_fetched_epoch: Option<LeaderEpoch>,
    /// Where the log starts.
    pub(crate) log_start_offset: Offset,
}

/// What a leader answered for one partition.
#[derive(Clone, Debug)]
pub(crate) struct Fetched {
    /// What was asked for: the records begin there or below.
    pub(crate) from: Offset,
    /// Batches as the leader has them; may end within one.
    pub(crate) records: Bytes,
    /// The leader's high watermark.
    pub(crate) high_watermark: Offset,
    /// Where the leader's log starts.
    pub(crate) log_start_offset: Offset,
}

/// Why a follower cannot go on as it is.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FollowFailure {
    /// This broker does not follow that leadership (any more).
    #[error("the partition does not follow that leader any more")]
    Ended,
    /// The log does not end where the fetch was sent from.
    #[error("the log does not end where the fetch began")]
    Moved,
    /// The log refused what the leader sent: it is damaged, or does not continue the log.
    #[error("the leader's records are refused")]
    Refused(#[source] AppendError),
    /// The log cannot be used at the moment; its directory can.
    #[error("the log cannot be used")]
    Storage,
    /// The log's directory is offline: nothing more will be written there.
    #[error("the log's directory is offline")]
    Offline,
}

impl Partition {
    /// Where to fetch from as a follower of the leadership of `epoch`. A log without epochs is first cut
    /// to its high watermark: nothing else tells where it departs from the leader's.
    ///
    /// # Errors
    /// [`FollowFailure`].
    pub(crate) fn follower_position(
        self: &Arc<Self>,
        epoch: LeaderEpoch,
    ) -> Result<FollowerPosition, FollowFailure> {
        let wall = self.topic.environment.clock.timestamp();
        let mut guard = self.follow(epoch, wall)?;
        let log = self.followed_log(&mut guard)?;
        let has_no_epoch = log.latest_epoch().is_none() || Bug::Kafka1211.is_planted();
        if has_no_epoch && log.high_watermark() < log.log_end_offset() {
            let to = log.high_watermark();
            self.cut(&mut guard, to, wall)?;
        }
        let log = self.followed_log(&mut guard)?;
        Ok(position(log))
    }

    /// Appends what the leader of `epoch` answered, and takes over the leader's high watermark and log start.
    /// The position is not to be told before [`Partition::awaits_flush`] says no.
    ///
    /// # Errors
    /// [`FollowFailure`]; a part of the batches may have been appended.
    pub(crate) fn append_as_follower(
        self: &Arc<Self>,
        epoch: LeaderEpoch,
        fetched: &Fetched,
    ) -> Result<FollowerPosition, FollowFailure> {
        let wall = self.topic.environment.clock.timestamp();
        let mut effects = Effects::default();
        let mut guard = self.follow_from(epoch, fetched.from, wall)?;
        let log = self.followed_log(&mut guard)?;
        let limit = log.config().segment_bytes;
        for piece in pieces(&fetched.records, limit) {
            self.append_copy(&mut guard, piece, wall)?;
        }
        let log = self.followed_log(&mut guard)?;
        log.set_high_watermark(truncation::high_watermark_after_fetch(
            fetched.high_watermark,
            log.log_start_offset(),
            log.log_end_offset(),
        ));
        let start = fetched.log_start_offset.min(log.high_watermark());
        let log_starts_later = start > log.log_start_offset();
        if log_starts_later {
            log.delete_records_before(start).map_err(|failure| self.log_failed(&failure))?;
        }
        let must_flush = !fetched.records.is_empty() && log.flush_is_due(wall);
        let directory = must_flush.then(|| Arc::clone(log.directory()));
        let position = position(log);
        guard.tell_of_progress(&mut effects);
        if log_starts_later {
            guard.tell_of_change(&mut effects);
        }
        drop(guard);
        if let Some(directory) = directory {
            self.ask_for_flush_in(&directory);
        }
        effects.fire();
        Ok(position)
    }

    /// Cuts the log where it departs from that of the leader of `epoch`, which says that its records of
    /// `diverging`'s epoch end there. The next fetch tells whether that was enough.
    ///
    /// # Errors
    /// [`FollowFailure`].
    pub(crate) fn truncate_as_follower(
        self: &Arc<Self>,
        epoch: LeaderEpoch,
        from: Offset,
        diverging: EpochEnd,
    ) -> Result<FollowerPosition, FollowFailure> {
        let wall = self.topic.environment.clock.timestamp();
        let mut guard = self.follow_from(epoch, from, wall)?;
        let log = self.followed_log(&mut guard)?;
        let own = log
            .end_offset_for_epoch(diverging.epoch)
            .map(|end| EpochEnd { epoch: end.leader_epoch, end_offset: end.end_offset });
        let cut = truncation::on_divergence(Some(diverging), own, log.high_watermark(), from);
        self.cut(&mut guard, cut.to, wall)?;
        let log = self.followed_log(&mut guard)?;
        Ok(position(log))
    }

    /// Brings the log into the range of the leader of `epoch`, whose log has these ends.
    ///
    /// # Errors
    /// [`FollowFailure`].
    pub(crate) fn return_into_range(
        self: &Arc<Self>,
        epoch: LeaderEpoch,
        from: Offset,
        leader_start: Offset,
        leader_end: Offset,
    ) -> Result<FollowerPosition, FollowFailure> {
        let wall = self.topic.environment.clock.timestamp();
        let mut guard = self.follow_from(epoch, from, wall)?;
        match truncation::on_out_of_range(leader_start, leader_end, from) {
            OutOfRange::TruncateTo(to) => self.cut(&mut guard, to, wall)?,
            OutOfRange::RestartAt(start) => {
                info!(partition = %self, end = from.0, start = start.0, "starts anew where the leader does");
                let log = self.followed_log(&mut guard)?;
                log.truncate_fully_and_start_at(start, wall)
                    .map_err(|failure| self.log_failed(&failure))?;
                guard.note_cut(start);
            }
            OutOfRange::ContinueAt(_) => {}
        }
        let log = self.followed_log(&mut guard)?;
        Ok(position(log))
    }

    /// As [`Self::follow`], while the log still ends where the leader was asked `from`.
    fn follow_from<'a>(
        self: &'a Arc<Self>,
        epoch: LeaderEpoch,
        from: Offset,
        wall: Timestamp,
    ) -> Result<MutexGuard<'a, State>, FollowFailure> {
        let mut guard = self.follow(epoch, wall)?;
        if self.followed_log(&mut guard)?.log_end_offset() != from {
            return Err(FollowFailure::Moved);
        }
        Ok(guard)
    }

    /// The partition's state with its log open, while it follows the leadership of `epoch` and nobody
    /// writes.
    pub(super) fn follow<'a>(
        self: &'a Arc<Self>,
        epoch: LeaderEpoch,
        wall: Timestamp,
    ) -> Result<MutexGuard<'a, State>, FollowFailure> {
        let mut guard = self.quiesce(self.state.lock());
        match &guard.role {
            Role::Follower(following) if following.leader_epoch == epoch => {}
            Role::Follower(_) if Bug::Kafka13207.is_planted() => {}
            Role::Follower(_) | Role::Unassigned | Role::Appointed(_) | Role::Leader(_) => {
                return Err(FollowFailure::Ended);
            }
        }
        guard.was_used = true;
        let topic_id = self.topic.id();
        let log = guard.open_log(self, wall).map_err(|_| FollowFailure::Storage)?;
        if let (Some(id), None) = (topic_id, log.topic_id()) {
            log.set_topic_id(id).map_err(|failure| self.log_failed(&failure))?;
        }
        // After a failed write the log's state is what its disk holds, as soon as that can be read.
        if log.is_offline() && log.rebuild(wall).is_err() || log.is_offline() {
            return Err(match log.directory().is_offline() {
                true => FollowFailure::Offline,
                false => FollowFailure::Storage,
            });
        }
        Ok(guard)
    }

    fn followed_log<'a>(
        &self,
        guard: &'a mut MutexGuard<'_, State>,
    ) -> Result<&'a mut PartitionLog, FollowFailure> {
        guard.log.opened_mut().ok_or(FollowFailure::Storage)
    }

    /// Reserves, writes without the lock, and publishes, as a leader does.
    fn append_copy(
        self: &Arc<Self>,
        guard: &mut MutexGuard<'_, State>,
        records: Bytes,
        wall: Timestamp,
    ) -> Result<(), FollowFailure> {
        let log = self.followed_log(guard)?;
        let request =
            |records| AppendRequest { records: AppendRecords::Replicate(records), now: wall };
        let reserved = match log.reserve(request(records.clone())) {
            // A leader whose log begins within a batch sends that batch whole.
            Err(AppendError::UnexpectedOffset { first, last, log_end_offset })
                if log.log_start_offset() == log_end_offset
                    && first < log_end_offset
                    && last >= log_end_offset =>
            {
                log.truncate_fully_and_start_at(first, wall)
                    .map_err(|failure| self.log_failed(&failure))?;
                log.reserve(request(records))
            }
            other => other,
        };
        let pending = match reserved {
            Ok(Reserved::Pending(pending)) => pending,
            Ok(Reserved::Empty | Reserved::Duplicate(_)) => return Ok(()),
            Err(failure @ (AppendError::Offline | AppendError::Disk(_))) => {
                self.storage_failed(&failure);
                return Err(self.unusable(guard));
            }
            Err(AppendError::NoRoom { .. }) => {
                self.note_failure();
                return Err(self.unusable(guard));
            }
            Err(failure) => return Err(FollowFailure::Refused(failure)),
        };
        guard.work.get_or_insert_default().is_writing = true;
        let outcome = MutexGuard::unlocked(guard, || pending.write());
        if let Some(work) = &mut guard.work {
            work.is_writing = false;
        }
        self.writer_left.notify_all();
        let Log::Open(log) = &mut guard.log else {
            unreachable!("a log is not closed while it is written: {self:?}");
        };
        if let Err(failure) = log.publish(pending, &outcome) {
            self.storage_failed(&failure);
            if let Err(failure) = log.rebuild(wall) {
                error!(partition = %self, %failure, "the log cannot be rebuilt from its disk");
            }
            return Err(self.unusable(guard));
        }
        self.note_success();
        Ok(())
    }

    /// Removes every record at or above `to`.
    fn cut(
        &self,
        guard: &mut MutexGuard<'_, State>,
        to: Offset,
        wall: Timestamp,
    ) -> Result<(), FollowFailure> {
        let log = self.followed_log(guard)?;
        let (end, committed) = (log.log_end_offset(), log.high_watermark());
        if to >= end && Bug::Kafka10706.is_planted() {
            return Ok(());
        }
        if to >= end {
            // What this broker began as a leader, and wrote nothing in.
            return log.truncate_to(to, wall).map_err(|failure| self.log_failed(&failure));
        }
        if to < committed {
            let lost = u64::try_from(committed - to).unwrap_or_default();
            let before = self.topic.environment.lost_offsets.fetch_add(lost, Ordering::Relaxed);
            warn!(
                partition = %self,
                from = to.0,
                end = end.0,
                high_watermark = committed.0,
                lost,
                lost_since_start = before.saturating_add(lost),
                "records that were committed are cut off: the leader does not have them"
            );
        } else {
            info!(partition = %self, from = to.0, end = end.0, "cuts what the leader does not have");
        }
        log.truncate_to(to, wall).map_err(|failure| self.log_failed(&failure))?;
        guard.note_cut(to);
        Ok(())
    }

    fn log_failed(&self, failure: &LogError) -> FollowFailure {
        self.storage_failed(failure);
        FollowFailure::Storage
    }

    fn unusable(&self, guard: &MutexGuard<'_, State>) -> FollowFailure {
        match guard.log.opened() {
            Some(log) if log.directory().is_offline() => FollowFailure::Offline,
            Some(_) | None => FollowFailure::Storage,
        }
    }
}

fn position(log: &PartitionLog) -> FollowerPosition {
    FollowerPosition {
        offset: log.log_end_offset(),
        last_fetched_epoch: log.latest_epoch(),
        log_start_offset: log.log_start_offset(),
    }
}

/// `records` in pieces that each fit a segment, whole batches only. Nearly always one piece; a batch that
/// is larger than a segment by itself (the leader's were larger once) is one too.
fn pieces(records: &Bytes, segment_bytes: u64) -> Vec<Bytes> {
    let fits = |len: usize| len as u64 <= segment_bytes;
    if records.is_empty() {
        return Vec::new();
    }
    if fits(records.len()) {
        return vec![records.clone()];
    }
    let (mut pieces, mut start, mut end) = (Vec::new(), 0, 0);
    // What cannot be read is for the log to refuse, with the batches before it.
    for batch in Batches::new(records).map_while(Result::ok) {
        let next = batch.position() + batch.bytes().len();
        if !fits(next - start) && end > start {
            pieces.push(records.slice(start..end));
            start = end;
        }
        end = next;
    }
    pieces.push(records.slice(start..));
    pieces
}
