//! Appending: reserve under the partition's lock, write without it, publish under it again.
//!
//! Appends only queue. The first thread that finds a queue nobody writes becomes its writer and
//! writes for all, in one gathered write, until the queue is empty; whoever queues meanwhile carries
//! on. A reactor writes what a turn queued at the end of the turn, so requests that arrive together
//! share a write whichever connection they came by.
//!
//! `flush.messages` holds answers, and what counts as committed, back until the committer has flushed: no reactor
//! waits for a disk.

use super::watch::{News, Wake};
use super::{Isolation, Partition, Refusal, State};
use crate::reactor::at_turn_end;
use model::{Bug, Instant, LeaderEpoch, Offset, ProducerId, Timestamp};
use parking_lot::MutexGuard;
use protocol::records::validate::Validated;
use replication::{Action, Event};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;
use storage::{AppendError, AppendOrigin, AppendRecords, AppendRequest, LogDirectory};
use storage::{PartitionLog, PendingAppend, Reserved, Verification};
use tracing::error;

/// A batch to append as leader.
#[derive(Debug)]
pub(crate) struct Append {
    /// The batch, validated.
    pub(crate) validated: Validated,
    /// Who wrote them.
    pub(crate) origin: AppendOrigin,
    /// Whether the answer waits until they are committed.
    pub(crate) acks_all: bool,
    /// The leadership to append as, if the writer cares.
    pub(crate) leader_epoch: Option<LeaderEpoch>,
    /// Wall-clock time.
    pub(crate) now: Timestamp,
}

/// Where batches went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Appended {
    /// Offset of the first record.
    pub(crate) first_offset: Offset,
    /// Offset of the last record (inclusive).
    pub(crate) last_offset: Offset,
    /// The first readable offset of the log.
    pub(crate) log_start_offset: Offset,
    /// Set if the log had the batch already: its largest timestamp, which Kafka answers as the time
    /// of the append.
    pub(crate) duplicate_of: Option<Timestamp>,
}

/// Why batches are not appended, or not known to be committed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppendFailure {
    /// The partition takes no appends here.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The log refused them. Nothing was written.
    #[error(transparent)]
    Log(#[from] AppendError),
    /// `acks=all` and fewer replicas in sync than `min.insync.replicas`. Nothing was written.
    #[error("fewer replicas are in sync than min.insync.replicas asks for")]
    NotEnoughReplicas,
    /// The producer begins in the middle, shortly after an election: what it sent before may be on its way to, or
    /// back from, the leader before (decision 18). Nothing was written.
    #[error(
        "of a producer that is not known here the first batch since the election has sequence {0}"
    )]
    BeginningMissing(i32),
    /// Written and committed, but by fewer replicas than `min.insync.replicas` asks for.
    #[error("the batch is committed by fewer replicas than min.insync.replicas asks for")]
    NotEnoughReplicasAfterAppend,
    /// The write failed: the batches are not in the log.
    #[error("the write failed")]
    WriteFailed,
    /// Written, but the leadership ended before they were committed.
    #[error("leadership was lost before the batch was committed")]
    LeadershipLost,
}

/// What became of an append.
pub(crate) type AppendResult = Result<Appended, AppendFailure>;

/// Whoever waits for appends.
pub(crate) trait AppendListener: Debug + Send + Sync {
    /// The append that it numbered `slot` has ended. Called once per slot, without locks, on any
    /// thread.
    fn appended(self: Arc<Self>, slot: u32, result: AppendResult);

    /// The append that it numbered `slot` is written and now waits for followers, for ever unless the
    /// listener has a deadline.
    fn awaits_replicas(self: Arc<Self>, slot: u32, appended: Appended);
}

/// One listener's interest in one append.
#[derive(Clone, Debug)]
pub(crate) struct AppendWaiter {
    /// Whom to tell.
    pub(crate) listener: Arc<dyn AppendListener>,
    /// The listener's number for the append.
    pub(crate) slot: u32,
}

/// What was reserved and is not written.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pending: Vec<PendingAppend>,
    waiting: Vec<Waiting>,
}

/// One append that was reserved, or whose earlier attempt was.
#[derive(Debug)]
pub(super) struct Waiting {
    first_offset: Offset,
    last_offset: Offset,
    duplicate_of: Option<Timestamp>,
    acks_all: bool,
    /// Whether the answer waits for a flush too, once it is committed.
    flushed_first: bool,
    waiter: AppendWaiter,
}

/// An append that is written and whose topic asks for a flush before it is answered
/// (`flush.messages`).
pub(super) type Unflushed = (AppendWaiter, Appended);

/// Appends with `acks=all` that are written and not committed, by ascending offset.
pub(super) type Uncommitted = VecDeque<Waiting>;

impl Queue {
    const EMPTY: Self = Self { pending: Vec::new(), waiting: Vec::new() };

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn take_spare_lists(&mut self) {
        if self.is_empty() && self.pending.capacity() == 0 {
            *self = SPARE_QUEUE.take();
        }
    }

    /// Keeps the lists of a queue that was published.
    fn spare_lists(self) {
        if self.is_empty() && self.waiting.capacity() <= SPARE_LENGTH {
            SPARE_QUEUE.set(self);
        }
    }
}

/// What is to be done once the locks are released.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    appended: Vec<(AppendWaiter, AppendResult)>,
    awaiting_replicas: Vec<(AppendWaiter, Appended)>,
    wakes: Vec<Box<dyn Wake>>,
}

impl Effects {
    const NONE: Self =
        Self { appended: Vec::new(), awaiting_replicas: Vec::new(), wakes: Vec::new() };

    pub(super) fn wake(&mut self, wake: Option<Box<dyn Wake>>) {
        self.wakes.extend(wake);
    }

    /// Tells everybody. No lock may be held.
    pub(crate) fn fire(&mut self) {
        for (waiter, result) in self.appended.drain(..) {
            waiter.listener.appended(waiter.slot, result);
        }
        for (waiter, appended) in self.awaiting_replicas.drain(..) {
            waiter.listener.awaits_replicas(waiter.slot, appended);
        }
        for wake in self.wakes.drain(..) {
            wake.wake();
        }
    }
}

thread_local! {
    /// Partitions whose queue this thread is to write at the end of its turn.
    static TOUCHED: RefCell<Vec<Arc<Partition>>> = const { RefCell::new(Vec::new()) };
    /// The lists of the last queue that this thread wrote, for its next: an idle partition owns none.
    static SPARE_QUEUE: Cell<Queue> = const { Cell::new(Queue::EMPTY) };
    static SPARE_EFFECTS: Cell<Effects> = const { Cell::new(Effects::NONE) };
}

/// Longer lists are not kept.
const SPARE_LENGTH: usize = 1024;

/// This thread found `partition`'s queue empty: it writes the queue at the end of the reactor's turn,
/// at once if it is no reactor.
fn write_at_turn_end(partition: Arc<Partition>) {
    let is_first = TOUCHED.with_borrow_mut(|touched| {
        touched.push(partition);
        touched.len() == 1
    });
    if is_first {
        at_turn_end(write_touched);
    }
}

fn write_touched() {
    let touched = TOUCHED.take();
    let Some(first) = touched.first() else { return };
    let now = first.topic.environment.clock.now();
    let mut effects = SPARE_EFFECTS.take();
    for partition in touched {
        partition.write_reserved(now, &mut effects);
    }
    // Telling of an append may queue another (coordinators do): that is a new list.
    effects.fire();
    if effects.appended.capacity() <= SPARE_LENGTH {
        SPARE_EFFECTS.set(effects);
    }
}

impl Partition {
    /// Reserves offsets for `append` and queues it; it is written at the end of this reactor's turn
    /// (before this returns, if the thread is no reactor), or by another thread. Then `waiter` is told.
    ///
    /// Returns `false`, and tells nobody, if there was nothing to append.
    ///
    /// # Errors
    /// Nothing is queued, nobody will be told.
    pub(crate) fn enqueue(
        self: &Arc<Self>,
        append: Append,
        waiter: AppendWaiter,
    ) -> Result<bool, AppendFailure> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let is_successor = self.was_elected_lately(state);
        let led = state.lead_surely(self, append.leader_epoch, append.now)?;
        if append.acks_all && !led.leader.has_enough_replicas() {
            return Err(AppendFailure::NotEnoughReplicas);
        }
        if is_successor && append.origin == AppendOrigin::Client {
            let headers = append.validated.batch.iter().map(|batch| &batch.header);
            let mut idempotent = headers.filter(|header| header.producer_id >= 0);
            if let Some(header) = idempotent.find(|header| {
                header.base_sequence > 0 && !led.log.knows_producer(ProducerId(header.producer_id))
            }) {
                return Err(AppendFailure::BeginningMissing(header.base_sequence));
            }
        }
        let leader_epoch = led.leader.leader_epoch();
        let is_transactional = append.origin == AppendOrigin::Client
            && append.validated.batch.iter().any(|b| b.header.attributes.is_transactional());
        // There is no transaction coordinator yet: no transaction can be opened, only continued.
        let verification = match is_transactional {
            true => Verification::Required(None),
            false => Verification::NotRequired,
        };
        let reserved = led.log.reserve(AppendRequest {
            records: AppendRecords::Assign {
                validated: append.validated,
                leader_epoch,
                origin: append.origin,
                verification,
            },
            now: append.now,
        });
        let work = state.work.get_or_insert_default();
        let acks_all = append.acks_all;
        let waiting = match reserved {
            Ok(Reserved::Pending(pending)) => {
                let (first_offset, last_offset) = (pending.first_offset(), pending.last_offset());
                work.queue.take_spare_lists();
                work.queue.pending.push(pending);
                Waiting {
                    first_offset,
                    last_offset,
                    duplicate_of: None,
                    acks_all,
                    flushed_first: false,
                    waiter,
                }
            }
            Ok(Reserved::Duplicate(duplicate)) => Waiting {
                first_offset: duplicate.first_offset,
                last_offset: duplicate.last_offset,
                duplicate_of: Some(duplicate.timestamp),
                acks_all,
                flushed_first: false,
                waiter,
            },
            Ok(Reserved::Empty) => return Ok(false),
            Err(failure) => {
                if matches!(failure, AppendError::Disk(_)) {
                    self.storage_failed(&failure);
                }
                if matches!(failure, AppendError::NoRoom { .. }) {
                    // Its directory says so once, for all logs in it.
                    self.note_failure();
                }
                return Err(failure.into());
            }
        };
        let is_first = work.queue.is_empty();
        work.queue.waiting.push(waiting);
        let is_written_by_another = work.is_writing;
        drop(guard);
        if is_first && !is_written_by_another {
            write_at_turn_end(Arc::clone(self));
        }
        Ok(true)
    }

    /// Whether batches may still be on their way that were sent to the leader before.
    fn was_elected_lately(&self, state: &mut State) -> bool {
        let Some(at) = state.elected_at else { return false };
        let environment = &self.topic.environment;
        if environment.clock.now().since(at) >= environment.unknown_producer_wait {
            state.elected_at = None;
        }
        state.elected_at.is_some()
    }

    /// Writes all that is queued, unless another thread is doing it.
    pub(super) fn write_reserved(self: &Arc<Self>, now: Instant, effects: &mut Effects) {
        let mut guard = self.state.lock();
        match &mut guard.work {
            Some(work) if !work.is_writing && !work.queue.is_empty() => work.is_writing = true,
            _ => return,
        }
        while let Some(mut queue) = guard.take_queue() {
            let outcome = if queue.pending.is_empty() {
                Ok(())
            } else {
                MutexGuard::unlocked(&mut guard, || PendingAppend::write_all(&queue.pending))
            };
            self.publish(&mut guard, &mut queue, outcome, now, effects);
            queue.spare_lists();
        }
        if let Some(work) = &mut guard.work {
            work.is_writing = false;
        }
        drop(guard);
        self.writer_left.notify_all();
    }

    fn publish(
        self: &Arc<Self>,
        state: &mut State,
        queue: &mut Queue,
        outcome: std::io::Result<()>,
        now: Instant,
        effects: &mut Effects,
    ) {
        let Some(log) = state.log.opened_mut() else {
            unreachable!("a log is not closed while it is written: {self:?}");
        };
        let end_before = log.log_end_offset();
        let mut failure = None;
        for pending in queue.pending.drain(..) {
            if let Err(error) = log.publish(pending, &outcome) {
                failure.get_or_insert(error);
            }
        }
        if let Some(failure) = failure {
            self.storage_failed(&failure);
            self.fail_appends(state, std::mem::take(&mut queue.waiting), effects);
            return;
        }
        self.note_success();
        let log_end_offset = log.log_end_offset();
        let log_start_offset = log.log_start_offset();
        // By `flush.messages`, whose answers wait for it, or because a segment is complete.
        let must_flush = log.flush_is_due(self.topic.environment.clock.timestamp());
        let answers_wait = must_flush && log.config().flush_messages.is_some();
        let directory = must_flush.then(|| Arc::clone(log.directory()));
        state.note_followers_at(end_before, now, self);
        if !answers_wait {
            state.step(now, Event::Appended(log_end_offset), self);
        }
        // Else the leader counts them as its own once they are on its disk: nothing is committed, and no consumer sees
        // it, that a power failure may take back.
        let committed = state.high_watermark();
        // The process may have been frozen since it took the request.
        let leads_surely =
            queue.waiting.iter().all(|waiting| waiting.acks_all) || state.leads_surely(self);
        let work = state.work.get_or_insert_default();
        for mut waiting in queue.waiting.drain(..) {
            waiting.flushed_first = answers_wait;
            if !waiting.acks_all && !leads_surely {
                effects.appended.push((waiting.waiter, Err(AppendFailure::LeadershipLost)));
                continue;
            }
            if waiting.acks_all && waiting.last_offset >= committed {
                let appended = waiting.appended(log_start_offset);
                effects.awaiting_replicas.push((waiting.waiter.clone(), appended));
                let at = work.uncommitted.partition_point(|w| w.last_offset <= waiting.last_offset);
                work.uncommitted.insert(at, waiting);
            } else {
                let appended = waiting.appended(log_start_offset);
                match answers_wait {
                    true => work.unflushed.push((waiting.waiter, appended)),
                    false => effects.appended.push((waiting.waiter, Ok(appended))),
                }
            }
        }
        if let Some(directory) = directory {
            self.ask_for_flush_in(&directory);
        }
        state.tell_of_progress(effects);
    }

    /// After a failed write nothing that was reserved is in the log: all is forgotten, and the log's
    /// state is rebuilt from the disk before anything else is answered.
    fn fail_appends(&self, state: &mut State, waiting: Vec<Waiting>, effects: &mut Effects) {
        let queued = std::mem::take(&mut state.work.get_or_insert_default().queue);
        let wall = self.topic.environment.clock.timestamp();
        if let Some(log) = state.log.opened_mut() {
            for pending in queued.pending {
                // The log knows that it is offline; there is nothing to learn from its answer.
                drop(log.publish(pending, &Err(std::io::ErrorKind::Other.into())));
            }
            if let Err(failure) = log.rebuild(wall) {
                error!(partition = %self, %failure, "the log cannot be rebuilt from its disk");
            }
        }
        for waiting in waiting.into_iter().chain(queued.waiting) {
            effects.appended.push((waiting.waiter, Err(AppendFailure::WriteFailed)));
        }
    }

    pub(super) fn storage_failed(&self, failure: &dyn std::error::Error) {
        let source = failure.source().map(tracing::field::display);
        error!(partition = %self, %failure, source, "the log failed");
        self.note_failure();
    }
}

impl Waiting {
    fn appended(&self, log_start_offset: Offset) -> Appended {
        Appended {
            first_offset: self.first_offset,
            last_offset: self.last_offset,
            log_start_offset,
            duplicate_of: self.duplicate_of,
        }
    }
}

impl State {
    fn take_queue(&mut self) -> Option<Queue> {
        let work = self.work.as_mut()?;
        (!work.queue.is_empty()).then(|| std::mem::take(&mut work.queue))
    }

    /// Followers whose sessions stand at `end` held everything when they last fetched, though those
    /// fetches did not name the partition: it had no news.
    fn note_followers_at(&mut self, end: Offset, now: Instant, partition: &Partition) {
        let Some(work) = &self.work else { return };
        if work.subscriptions.iter().all(|own| own.replica.is_none()) {
            return;
        }
        let standing = work.subscriptions.iter().filter(|own| own.from == end);
        let seen: Vec<_> =
            standing.filter_map(|own| Some((own.replica?, own.watcher.fetched_at()))).collect();
        for (follower, at) in seen {
            self.step(now, Event::StoodAtEnd { follower, at }, partition);
        }
    }

    /// Applies one event to the replication core and carries out what it asks for.
    pub(super) fn step(&mut self, now: Instant, event: Event, partition: &Partition) {
        thread_local! {
            static ACTIONS: RefCell<Vec<Action>> = const { RefCell::new(Vec::new()) };
        }
        let (Some(leader), Some(log)) = (self.role.leader_mut(), self.log.opened_mut()) else {
            return;
        };
        ACTIONS.with_borrow_mut(|actions| {
            leader.step(now, event, actions);
            for action in actions.drain(..) {
                match action {
                    Action::AdvanceHighWatermark(offset) => {
                        log.set_high_watermark(offset);
                    }
                    Action::ProposeIsr { isr, leader_epoch, partition_epoch } => {
                        partition.topic.environment.proposals.propose(super::IsrProposal {
                            topic_partition: partition.topic_partition(),
                            topic_id: partition.topic.id(),
                            isr,
                            leader_epoch,
                            partition_epoch,
                        });
                    }
                }
            }
        });
    }

    /// After log end or high watermark moved: answers the appends that are committed now, and tells
    /// those who read.
    pub(super) fn tell_of_progress(&mut self, effects: &mut Effects) {
        let (Some(log), Some(work)) = (self.log.opened(), &mut self.work) else { return };
        let committed = log.high_watermark();
        let enough = self.role.leader().is_some_and(|leader| leader.had_enough_replicas());
        while let Some(first) = work.uncommitted.pop_front_if(|w| w.last_offset < committed) {
            let appended = first.appended(log.log_start_offset());
            match enough {
                // The followers were quicker than our own disk. The flush was asked for when it was
                // written, and looks at what is here when it is done.
                true if first.flushed_first && log.durable_offset() <= first.last_offset => {
                    work.unflushed.push((first.waiter, appended));
                }
                true => effects.appended.push((first.waiter, Ok(appended))),
                false => {
                    let failure = AppendFailure::NotEnoughReplicasAfterAppend;
                    effects.appended.push((first.waiter, Err(failure)));
                }
            }
        }
        for subscription in &mut work.subscriptions {
            if subscription.replica.is_some() && subscription.told_high_watermark != committed {
                // Not worth an answer of its own, but the next one is to have it.
                subscription.told_high_watermark = committed;
                effects.wake(subscription.tell(News::Changed));
            }
            let bound = bound(log, subscription.isolation);
            if bound <= subscription.from {
                continue;
            }
            let readable = if subscription.counts_bytes {
                // A position that cannot be looked up is for the read to report.
                log.available_bytes(subscription.from, bound).unwrap_or(u64::MAX)
            } else {
                1
            };
            effects.wake(subscription.tell_readable(readable));
        }
    }

    /// Answers the appends that waited for a flush and need not wait any longer. Where the log is, if others do.
    pub(super) fn answer_flushed(&mut self, effects: &mut Effects) -> Option<Arc<LogDirectory>> {
        let work = self.work.as_mut()?;
        let log = self.log.opened();
        let durable = log.map(PartitionLog::durable_offset).unwrap_or_default();
        let usable = log.filter(|log| !log.is_offline());
        if usable.is_none() {
            let (lost, others): (Vec<_>, Vec<_>) =
                work.uncommitted.drain(..).partition(|waiting| waiting.flushed_first);
            work.uncommitted = others.into();
            for waiting in lost {
                effects.appended.push((waiting.waiter, Err(AppendFailure::WriteFailed)));
            }
        }
        for (waiter, appended) in std::mem::take(&mut work.unflushed) {
            let result = match usable {
                _ if appended.last_offset < durable => Ok(appended),
                None => Err(AppendFailure::WriteFailed),
                // It was cut off.
                Some(log) if appended.last_offset >= log.log_end_offset() => {
                    Err(AppendFailure::LeadershipLost)
                }
                Some(_) => {
                    work.unflushed.push((waiter, appended));
                    continue;
                }
            };
            effects.appended.push((waiter, result));
        }
        let mut uncommitted = work.uncommitted.iter();
        let others_wait = !work.unflushed.is_empty()
            || uncommitted.any(|waiting| waiting.flushed_first && waiting.last_offset >= durable);
        usable.filter(|_| others_wait).map(|log| Arc::clone(log.directory()))
    }

    /// A flush has ended: what is durable now counts as the leader's, and may be committed.
    pub(super) fn count_flushed(&mut self, partition: &Partition, effects: &mut Effects) {
        let (Some(leader), Some(log)) = (self.role.leader(), self.log.opened()) else { return };
        let end = match log.exceeds_flush_messages() {
            true => log.durable_offset(),
            false => log.log_end_offset(),
        };
        if end > leader.log_end_offset() {
            self.step(partition.topic.environment.clock.now(), Event::Appended(end), partition);
            self.tell_of_progress(effects);
        }
    }

    /// The log is taken away: nobody will know whether what waits for a flush is durable.
    pub(super) fn give_up_flushes(&mut self, effects: &mut Effects) {
        let Some(work) = &mut self.work else { return };
        for (waiter, _) in work.unflushed.drain(..) {
            effects.appended.push((waiter, Err(AppendFailure::LeadershipLost)));
        }
    }

    /// The leadership or the log is gone: ends everything that waits for it.
    pub(super) fn give_up_waits(&mut self, effects: &mut Effects) {
        let Some(work) = &mut self.work else { return };
        for waiting in work.uncommitted.drain(..) {
            effects.appended.push((waiting.waiter, Err(AppendFailure::LeadershipLost)));
        }
        self.end_reads(effects);
    }

    /// Whoever waits to read looks again at once.
    pub(super) fn end_reads(&mut self, effects: &mut Effects) {
        let Some(work) = &mut self.work else { return };
        for subscription in &mut work.subscriptions {
            effects.wake(subscription.tell(News::Urgent));
        }
    }

    fn high_watermark(&self) -> Offset {
        self.log.opened().map(storage::PartitionLog::high_watermark).unwrap_or_default()
    }
}

/// Exclusive end of what a reader may see.
pub(super) fn bound(log: &storage::PartitionLog, isolation: Isolation) -> Offset {
    match isolation {
        Isolation::LogEnd => log.log_end_offset(),
        Isolation::HighWatermark if Bug::Kafka9807.is_planted() => log.log_end_offset(),
        Isolation::HighWatermark => log.high_watermark(),
        Isolation::LastStableOffset => log.last_stable_offset(),
    }
}
