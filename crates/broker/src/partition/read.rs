//! Reading, for consumers, followers and whoever waits for more.

use super::append::bound;
use super::watch::{Interest, Isolation, NOTHING_TOLD, News, Subscription, Watcher};
use super::{Effects, Log, Partition, Refusal, Role, State};
use model::{BrokerEpoch, BrokerId, Instant, LeaderEpoch, Offset, Timestamp};
use protocol::Records;
use replication::truncation::{self, Reconciliation};
use replication::{Event, FollowerFetch, FollowerView, Leader};
use std::sync::Arc;
use storage::{AbortedTransaction, EpochEnd, LogRead, ReadError, ReadPlan, ReadRequest};

/// What to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    /// The first record wanted.
    pub(crate) offset: Offset,
    /// At most so many bytes.
    pub(crate) max_bytes: usize,
    /// Whether the first batch comes whole however large it is.
    pub(crate) min_one_message: bool,
    /// How far the reader may see.
    pub(crate) isolation: Isolation,
    /// The leader epoch that the reader knows, if it says.
    pub(crate) leader_epoch: Option<LeaderEpoch>,
    /// The epoch of the last record that the reader has, if it says.
    pub(crate) last_fetched_epoch: Option<LeaderEpoch>,
    /// Set if a follower reads.
    pub(crate) replica: Option<Replica>,
    /// Whether a follower may answer (KIP-392), up to its own high watermark.
    pub(crate) at_follower: bool,
    /// Whether what has to come from the disk is left for later.
    pub(crate) may_defer: bool,
}

/// A follower that reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replica {
    /// Its broker.
    pub(crate) id: BrokerId,
    /// The broker's registration, if it says.
    pub(crate) broker_epoch: Option<BrokerEpoch>,
    /// Where its log starts.
    pub(crate) log_start_offset: Offset,
}

/// What was read.
#[derive(Debug)]
pub(crate) struct PartitionRead {
    /// Batches from the one that holds the offset; may end within one.
    pub(crate) records: Records,
    /// Their size in bytes.
    pub(crate) size: usize,
    /// Whether they end within the first batch, which is larger than `max_bytes`.
    pub(crate) first_batch_incomplete: bool,
    /// Exclusive end of what is committed, before the read.
    pub(crate) high_watermark: Offset,
    /// Exclusive end for `read_committed`, before the read.
    pub(crate) last_stable_offset: Offset,
    /// First readable offset, before the read.
    pub(crate) log_start_offset: Offset,
    /// For `read_committed`: transactions that were aborted in the range; may list more.
    pub(crate) aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// Set if what is wanted has to come from the disk and the reader does not wait for that: there are no records in
    /// this answer.
    pub(crate) deferred: Option<ReadPlan>,
    /// Set if the follower's throttle is exceeded: there may be more than it got, which is nothing.
    pub(crate) is_held_back: bool,
    /// Set if the reader's log departs from this one: it must truncate, and gets no records.
    pub(crate) diverging_epoch: Option<EpochEnd>,
}

/// What a leader's throttle means for one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Throttled {
    No,
    Counted,
    IfExceeded,
}

/// Another replica to read from, and what the leader says beside that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nearer {
    /// The replica's broker.
    pub(crate) replica: BrokerId,
    /// The leader's high watermark.
    pub(crate) high_watermark: Offset,
    /// The leader's last stable offset.
    pub(crate) last_stable_offset: Offset,
    /// The leader's log start.
    pub(crate) log_start_offset: Offset,
}

/// Why nothing was read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadFailure {
    /// The partition is not to be read here.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A follower that is no replica of the partition.
    #[error("the reader is not a replica of the partition")]
    NotAReplica,
    /// The offset is not in the log, or the reader's epochs are not.
    #[error("the offset is out of range")]
    OutOfRange,
    /// The disk failed, or what it holds is damaged.
    #[error(transparent)]
    Log(ReadError),
    /// A part of a file could not be read.
    #[error("a part of the log cannot be read")]
    File(#[source] std::io::Error),
}

/// How often a read is decided anew.
const MOST_ATTEMPTS: usize = 3;

impl Partition {
    /// Reads as the leader. With `subscription`, the reader's standing interest is moved to where it
    /// now stands; it is told of everything that this answer does not carry. `effects` are to be fired
    /// once the caller has released its locks.
    ///
    /// # Errors
    /// [`ReadFailure`].
    pub(crate) fn read(
        &self,
        now: Instant,
        wall: Timestamp,
        read: &Read,
        subscription: Option<(&Arc<Watcher>, u32, Interest)>,
        effects: &mut Effects,
    ) -> Result<PartitionRead, ReadFailure> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let throttle = self.leader_throttle(read, state);
        let is_held_back = throttle == Throttled::IfExceeded
            && self.topic.environment.leader_throttle.is_exceeded(now);
        if let Some((watcher, slot, interest)) = subscription {
            let told_high_watermark = state.told_by_answer(read);
            if let Some(work) = &mut state.work
                && let Some(own) = work.subscriptions.iter_mut().find(|own| own.is(watcher, slot))
            {
                *own = Subscription::new(Arc::clone(watcher), slot, interest);
                own.told_high_watermark = told_high_watermark;
                if is_held_back {
                    // What is there already is no news.
                    own.told_bytes = u64::MAX;
                }
            }
        }
        let log = if read.at_follower && state.role.follows() {
            state.role.check_epoch(read.leader_epoch)?;
            state.was_used = true;
            &*state.open_log(self, wall)?
        } else {
            let led = match (read.replica, read.isolation) {
                (Some(replica), _) => {
                    let led = state.lead(self, read.leader_epoch, wall)?;
                    check_replica(led.leader, read, replica)?;
                    led
                }
                (None, Isolation::LogEnd) => state.lead(self, read.leader_epoch, wall)?,
                (None, Isolation::HighWatermark | Isolation::LastStableOffset) => {
                    state.lead_surely(self, read.leader_epoch, wall)?
                }
            };
            &*led.log
        };
        let upper_bound = bound(log, read.isolation);
        let mut answer = PartitionRead {
            records: Records::default(),
            size: 0,
            first_batch_incomplete: false,
            high_watermark: log.high_watermark(),
            last_stable_offset: log.last_stable_offset(),
            log_start_offset: log.log_start_offset(),
            aborted_transactions: None,
            deferred: None,
            is_held_back,
            diverging_epoch: None,
        };
        let log_end_offset = log.log_end_offset();
        if let Some(epoch) = read.last_fetched_epoch {
            let found = log.end_offset_for_epoch(epoch);
            let comparable = found.map(|end| truncation::EpochEnd {
                epoch: end.leader_epoch,
                end_offset: end.end_offset,
            });
            match truncation::reconcile(epoch, read.offset, answer.log_start_offset, comparable) {
                Reconciliation::Prefix => {}
                Reconciliation::OutOfRange => return Err(ReadFailure::OutOfRange),
                Reconciliation::Diverged(_) => {
                    answer.diverging_epoch = found;
                    return Ok(answer);
                }
            }
        }
        let request = ReadRequest {
            offset: read.offset,
            max_bytes: if answer.is_held_back { 0 } else { read.max_bytes },
            min_one_message: read.min_one_message && !answer.is_held_back,
            upper_bound,
            want_aborted: read.isolation == Isolation::LastStableOffset,
        };
        let plan = log.plan_read(request).map_err(ReadFailure::from)?;
        if let Some(replica) = read.replica {
            let fetch = FollowerFetch {
                follower: replica.id,
                broker_epoch: replica.broker_epoch,
                offset: read.offset,
                log_start_offset: replica.log_start_offset,
                leader_log_end_offset: log_end_offset,
            };
            state.step(now, Event::Fetched(fetch), self);
            state.tell_of_progress(effects);
            drop(guard);
        } else if !plan.is_in_memory() {
            drop(guard);
        }
        if read.may_defer && plan.needs_disk() {
            answer.deferred = Some(plan);
            return Ok(answer);
        }
        let read = self.run_plan(plan, request).map_err(|failure| self.read_failed(failure))?;
        answer.records = read.records;
        if throttle != Throttled::No {
            self.topic.environment.leader_throttle.record(now, read.size as u64);
        }
        answer.size = read.size;
        answer.first_batch_incomplete = read.first_batch_incomplete;
        answer.aborted_transactions = read.aborted_transactions;
        Ok(answer)
    }

    /// Does a read that was decided under the lock, without it. If its file is gone by now (compacted or
    /// too old, and `file.delete.delay.ms` is short) it is decided anew.
    pub(super) fn run_plan(
        &self,
        mut plan: ReadPlan,
        request: ReadRequest,
    ) -> Result<LogRead, ReadError> {
        for _ in 0..MOST_ATTEMPTS {
            match plan.run() {
                Err(ReadError::Disk(error))
                    if error.source.kind() == std::io::ErrorKind::NotFound =>
                {
                    plan = match self.state.lock().log.opened() {
                        Some(log) => log.plan_read(request)?,
                        None => return Err(ReadError::Disk(error)),
                    };
                }
                outcome => return outcome,
            }
        }
        plan.run()
    }

    fn read_failed(&self, failure: ReadError) -> ReadFailure {
        if matches!(failure, ReadError::Corrupt { .. }) {
            self.note_damage();
        }
        failure.into()
    }

    /// Whether what is read counts for the throttle, and whether it may be held back: what a follower in
    /// the ISR reads counts only.
    fn leader_throttle(&self, read: &Read, state: &State) -> Throttled {
        let Some(replica) = read.replica else { return Throttled::No };
        let environment = &self.topic.environment;
        let throttled = &self.topic.settings.load().leader_throttled;
        let applies = environment.leader_throttle.is_limited()
            && throttled.contains(self.index, environment.broker_id.0);
        match (applies, state.is_in_sync(replica.id)) {
            (false, _) => Throttled::No,
            (true, true) => Throttled::Counted,
            (true, false) => Throttled::IfExceeded,
        }
    }

    /// Where a consumer should rather read from `offset`: the in-sync follower among those that `is_near`
    /// which holds most. `None` if this broker leads and is near itself, or if nobody better is known.
    pub(crate) fn nearer_replica(
        &self,
        offset: Offset,
        is_near: impl Fn(BrokerId) -> bool,
    ) -> Option<Nearer> {
        let state = self.state.lock();
        let (Role::Leader(leader), Log::Open(log)) = (&state.role, &state.log) else {
            return None;
        };
        if is_near(self.topic.environment.broker_id) {
            return None;
        }
        let holds = |follower: &FollowerView| {
            follower.log_end_offset.is_some_and(|end| end >= offset)
                && follower.log_start_offset.is_some_and(|start| start <= offset)
        };
        let nearest = leader
            .followers()
            .filter(|follower| follower.is_live && holds(follower) && is_near(follower.id))
            .filter(|follower| leader.isr().committed().contains(&follower.id))
            .max_by_key(|follower| (follower.log_end_offset, follower.caught_up_at))?;
        Some(Nearer {
            replica: nearest.id,
            high_watermark: log.high_watermark(),
            last_stable_offset: log.last_stable_offset(),
            log_start_offset: log.log_start_offset(),
        })
    }

    /// Registers a standing interest. The watcher is told at once of what is readable already, and
    /// of an error.
    pub(crate) fn subscribe(&self, watcher: &Arc<Watcher>, slot: u32, interest: Interest) {
        let mut effects = Effects::default();
        {
            let mut guard = self.state.lock();
            let mut subscription = Subscription::new(Arc::clone(watcher), slot, interest);
            let state = &mut *guard;
            let answers = state.role.is_leader() || state.role.follows();
            match (answers, &state.log) {
                (true, Log::Open(log)) => {
                    let bound = bound(log, interest.isolation);
                    if bound > interest.from {
                        let readable = log.available_bytes(interest.from, bound);
                        effects.wake(subscription.tell_readable(readable.unwrap_or(u64::MAX)));
                    }
                }
                // An appointed leader was read just before, which opens its log: it failed.
                (true, Log::Closed(_) | Log::Recovering(_) | Log::Gone) | (false, _) => {
                    effects.wake(subscription.tell(News::Urgent));
                }
            }
            state.work.get_or_insert_default().subscriptions.push(subscription);
        }
        effects.fire();
    }

    /// Tells the watcher again how much can be read for `slot`, which it has forgotten.
    pub(crate) fn recount(&self, watcher: &Arc<Watcher>, slot: u32) {
        let mut effects = Effects::default();
        {
            let mut guard = self.state.lock();
            let state = &mut *guard;
            let Some(work) = &mut state.work else { return };
            let Some(own) = work.subscriptions.iter_mut().find(|own| own.is(watcher, slot)) else {
                return;
            };
            own.told_bytes = 0;
            if let Log::Open(log) = &state.log {
                let bound = bound(log, own.isolation);
                if bound > own.from {
                    let readable = log.available_bytes(own.from, bound).unwrap_or(u64::MAX);
                    effects.wake(own.tell_readable(readable));
                }
            }
        }
        effects.fire();
    }

    /// Ends a standing interest.
    pub(crate) fn unsubscribe(&self, watcher: &Arc<Watcher>, slot: u32) {
        let mut state = self.state.lock();
        if let Some(work) = &mut state.work {
            work.subscriptions.retain(|own| !own.is(watcher, slot));
        }
    }
}

impl State {
    /// Whether this replica leads, and `follower` is in the ISR.
    fn is_in_sync(&self, follower: BrokerId) -> bool {
        let leader = self.role.leader();
        leader.is_some_and(|leader| leader.isr().committed().contains(&follower))
    }

    /// The high watermark that the answer to a follower in the ISR carries, so that it is told only of a later
    /// one: else each of its fetches would look at every idle partition that it follows. None, which is to be
    /// told of in any case, to one that is to join: each of its fetches is a chance to.
    fn told_by_answer(&self, read: &Read) -> Offset {
        match (read.replica, self.log.opened()) {
            (Some(replica), Some(log)) if self.is_in_sync(replica.id) => log.high_watermark(),
            _ => NOTHING_TOLD,
        }
    }
}

fn check_replica(leader: &Leader, read: &Read, replica: Replica) -> Result<(), ReadFailure> {
    if !leader.is_follower(replica.id) {
        // Kafka tells one that sent its epoch to wait for newer metadata of the leader's.
        return Err(match read.leader_epoch {
            Some(_) => ReadFailure::Refused(Refusal::UnknownLeaderEpoch),
            None => ReadFailure::NotAReplica,
        });
    }
    if leader.is_superseded(replica.id, replica.broker_epoch) {
        // Sent before the broker's last start, and maybe of what it has lost since.
        return Err(ReadFailure::NotAReplica);
    }
    Ok(())
}

impl super::Work {
    /// Whether nothing is kept that an idle partition does without.
    pub(super) fn is_idle(&self) -> bool {
        self.unflushed.is_empty()
            && self.subscriptions.is_empty()
            && self.uncommitted.is_empty()
            && self.queue.is_empty()
            && !self.is_writing
    }
}

impl From<ReadError> for ReadFailure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::OutOfRange { .. } => Self::OutOfRange,
            ReadError::Disk(_) | ReadError::Corrupt { .. } => Self::Log(error),
        }
    }
}
