//! One partition on this broker: its log, its role, and who waits for either.
//!
//! A partition belongs to nobody; its state sits behind a short lock that is never held across an
//! append's write, nor across a read of the disk by a consumer. What does touch the disk under it is
//! rare: opening a log at its first use, a new segment, retention, rebuilding after a failed write.
//!
//! Memory: an idle partition is this struct and a closed log; what only busy ones need is in [`Work`],
//! which comes and goes.
//!
//! Non-obvious:
//! - A leadership is *appointed* first and takes effect when somebody needs the log: 10,000
//!   partitions must not open 10,000 logs at start. The log does not change in between, so its end
//!   is the same as it was when the leadership began.
//! - Whoever takes the log away (stop, follow, truncate) must first wait until nobody writes it.

mod append;
mod cleaning;
mod coordinator_log;
mod describe;
mod following;
mod inspection;
mod mending;
mod read;
mod relocation;
mod role;
mod settings;
mod trouble;
mod upkeep;
mod watch;

pub(crate) use append::{
    Append, AppendFailure, AppendListener, AppendResult, AppendWaiter, Appended,
};
pub(crate) use coordinator_log::CoordinatorAppendFailure;
pub(crate) use describe::{
    DeleteFailure, Deletion, Found, OffsetFailure, OffsetLookup, OffsetQuery, ReplicaSize,
};
pub(crate) use following::{Fetched, FollowFailure, FollowerPosition};
pub use inspection::{LogView, ReplicaView, RoleView};
pub(crate) use mending::MendingWish;
pub(crate) use read::{PartitionRead, Read, ReadFailure, Replica};
pub(crate) use relocation::{Ended, MoveRefusal, Relocation, reopen};
pub(crate) use role::{Assignment, Role};
pub(crate) use settings::PartitionSettings;
pub(crate) use watch::{Interest, Isolation, Wake, Watcher};

use crate::cleaner::CleaningControl;
use crate::committer::Committer;
use crate::lease::LeaderLease;
use crate::log_troubles::LogTroubles;
use crate::mover::Mover;
use crate::recovery::Recovery;
use crate::replica_fetcher::ReplicaFetchers;
use crate::replication_throttle::ReplicationThrottle;
pub(crate) use append::Effects;
use append::{Queue, Uncommitted, Unflushed};
use arc_swap::ArcSwap;
use metadata::ClusterImage;
use model::{BrokerEpoch, BrokerId, Instant, LeaderEpoch, PartitionEpoch, Timestamp};
use model::{TopicId, TopicName, TopicPartition};
use parking_lot::{Condvar, Mutex, MutexGuard};
use platform::Clock;
use replication::Leader;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use storage::{ClosedLog, LogDirectories, LogDirectory, PartitionLog};
use watch::Subscription;

/// What all partitions of a broker share.
#[derive(Debug)]
pub(crate) struct Environment {
    /// This broker.
    pub(crate) broker_id: BrokerId,
    /// `replica.lag.time.max.ms`.
    pub(crate) lag_max: Duration,
    /// The log directories.
    pub(crate) logs: Arc<LogDirectories>,
    /// Time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Who flushes.
    pub(crate) committer: Committer,
    /// Who tells the controller of logs that fail.
    pub(crate) troubles: LogTroubles,
    /// How many committed offsets followers here cut off since the start, because an unclean leader lacks them.
    pub(crate) lost_offsets: AtomicU64,
    /// Who moves logs between directories.
    pub(crate) mover: Mover,
    /// Who recovers logs, if somebody does beside what is served.
    pub(crate) recovery: Recovery,
    /// Where leaders propose changes of their ISR.
    pub(crate) proposals: Box<dyn IsrProposals>,
    /// Who fetches for followers.
    pub(crate) fetchers: ReplicaFetchers,
    /// `barnabas.unknown.producer.wait.ms`: for how long after an election an idempotent producer has to begin at the beginning.
    pub(crate) unknown_producer_wait: Duration,
    /// Bounds what followers of throttled replicas read here.
    pub(crate) leader_throttle: ReplicationThrottle,
    /// Bounds what throttled replicas here fetch.
    pub(crate) follower_throttle: Arc<ReplicationThrottle>,
    /// How long what leads here may be sure that it does.
    pub(crate) lease: LeaderLease,
    /// What is known of the cluster.
    pub(crate) image: Arc<ArcSwap<ClusterImage>>,
}

/// Takes proposals to the controller (AlterPartition). The answer comes back as
/// [`Partition::isr_answered`].
pub(crate) trait IsrProposals: fmt::Debug + Send + Sync {
    /// Must not block and not call back: a partition's lock is held.
    fn propose(&self, proposal: IsrProposal);
}

/// A change of the ISR that a leader asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IsrProposal {
    /// Of this partition.
    pub(crate) topic_partition: TopicPartition,
    /// The topic's id, if it has one.
    pub(crate) topic_id: Option<TopicId>,
    /// The new members, each with its registration where known.
    pub(crate) isr: Vec<(BrokerId, Option<BrokerEpoch>)>,
    /// In this leader epoch.
    pub(crate) leader_epoch: LeaderEpoch,
    /// Only if the partition's state still has this version.
    pub(crate) partition_epoch: PartitionEpoch,
}

/// A topic with partitions on this broker.
#[derive(Debug)]
pub(crate) struct HostedTopic {
    /// Its name.
    pub(crate) name: TopicName,
    /// Its id, once a controller gave it one.
    pub(crate) id: OnceLock<TopicId>,
    /// Its settings, swapped whole when they change.
    pub(crate) settings: ArcSwap<PartitionSettings>,
    /// What the broker's partitions share.
    pub(crate) environment: Arc<Environment>,
}

impl HostedTopic {
    /// Its id, if a controller gave it one.
    pub(crate) fn id(&self) -> Option<TopicId> {
        self.id.get().copied()
    }
}

/// One partition.
pub(crate) struct Partition {
    /// Its topic.
    pub(crate) topic: Arc<HostedTopic>,
    /// Its number in the topic.
    pub(crate) index: i32,
    state: Mutex<State>,
    trouble: trouble::Trouble,
    handed_over: mending::HandedOver,
    /// Whether it is on the committer's list, or about to be.
    flush_is_asked: AtomicBool,
    /// Signalled when the last writer left, and when a flush, a swap, a compaction or a recovery has ended.
    writer_left: Condvar,
}

#[derive(Debug)]
struct State {
    role: Role,
    /// The registration of this broker that the controller last spoke of the leadership to.
    affirmed_to: BrokerEpoch,
    /// When this broker became leader after another, while that matters (decision 18).
    elected_at: Option<Instant>,
    log: Log,
    work: Option<Box<Work>>,
    moving: Option<Box<relocation::Move>>,
    /// When to look for old segments if nobody opens the log before.
    retention_due: Option<Timestamp>,
    /// Whether somebody needed the log since the janitor last asked.
    was_used: bool,
    /// A compaction under way.
    cleaning: Option<Arc<CleaningControl>>,
    /// Damaged segments that are being made anew.
    mending: Option<Box<mending::Mending>>,
    /// The log is being synced.
    is_flushing: bool,
    /// Segments are being replaced: the log must stay where it is.
    is_swapping: bool,
    /// Compaction failed, and would again.
    is_uncleanable: bool,
    /// Compaction has nothing to do, as long as the log stays closed.
    is_clean_if_closed: bool,
}

#[derive(Debug)]
enum Log {
    Closed(ClosedLog),
    Open(Box<PartitionLog>),
    /// Being recovered, by a thread that does nothing else; it will be closed again.
    Recovering(Arc<LogDirectory>),
    /// Taken away: the partition is stopped.
    Gone,
}

/// What a busy partition has.
#[derive(Debug, Default)]
struct Work {
    queue: Queue,
    is_writing: bool,
    uncommitted: Uncommitted,
    unflushed: Vec<Unflushed>,
    subscriptions: Vec<Subscription>,
}

/// Why a partition does not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// This broker does not lead it.
    #[error("this broker does not lead the partition")]
    NotLeader,
    /// The client's leader epoch is older than ours.
    #[error("the client's leader epoch is older than the leader's")]
    FencedLeaderEpoch,
    /// The client's leader epoch is newer than ours.
    #[error("the client's leader epoch is newer than the leader's")]
    UnknownLeaderEpoch,
    /// Its log cannot be used.
    #[error("the log's directory is offline")]
    Offline,
    /// Its log was not closed by the last process, and is recovered before anything else.
    #[error("the log is being recovered")]
    Recovering,
}

/// A leader with its log.
struct Led<'a> {
    leader: &'a mut Leader,
    log: &'a mut PartitionLog,
}

impl Partition {
    /// A partition without a role.
    pub(crate) fn new(topic: Arc<HostedTopic>, index: i32, log: OpenOrClosed) -> Self {
        let log = match log {
            OpenOrClosed::Open(log) => Log::Open(log),
            OpenOrClosed::Closed(log) => Log::Closed(log),
        };
        let state = State {
            role: Role::Unassigned,
            affirmed_to: BrokerEpoch(-1),
            elected_at: None,
            log,
            work: None,
            moving: None,
            retention_due: None,
            was_used: false,
            cleaning: None,
            mending: None,
            is_flushing: false,
            is_swapping: false,
            is_uncleanable: false,
            is_clean_if_closed: false,
        };
        let trouble = trouble::Trouble::default();
        Self {
            topic,
            index,
            state: Mutex::new(state),
            trouble,
            handed_over: mending::HandedOver::default(),
            flush_is_asked: AtomicBool::new(false),
            writer_left: Condvar::new(),
        }
    }

    /// Its name.
    pub(crate) fn topic_partition(&self) -> TopicPartition {
        TopicPartition { topic: self.topic.name.clone(), partition: self.index }
    }

    /// Waits until the log is not being recovered: whoever takes it away needs it.
    fn await_recovery<'a>(&self, mut guard: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while matches!(guard.log, Log::Recovering(_)) {
            self.writer_left.wait(&mut guard);
        }
        guard
    }

    /// Waits until nothing is reserved, nobody writes and no segments are swapped.
    fn quiesce<'a>(self: &'a Arc<Self>, mut guard: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        loop {
            match &guard.work {
                _ if guard.is_swapping => self.writer_left.wait(&mut guard),
                Some(work) if work.is_writing => self.writer_left.wait(&mut guard),
                Some(work) if !work.queue.is_empty() => {
                    drop(guard);
                    let mut effects = Effects::default();
                    self.write_reserved(self.topic.environment.clock.now(), &mut effects);
                    effects.fire();
                    guard = self.state.lock();
                }
                _ => return guard,
            }
        }
    }
}

/// A log as it comes from the log directories.
#[derive(Debug)]
pub(crate) enum OpenOrClosed {
    /// Just created.
    Open(Box<PartitionLog>),
    /// Found at start, or left by an earlier role.
    Closed(ClosedLog),
}

impl State {
    /// The leader and its log, opened if need be.
    fn lead(
        &mut self,
        partition: &Partition,
        expected: Option<LeaderEpoch>,
        now: Timestamp,
    ) -> Result<Led<'_>, Refusal> {
        self.enter_office(partition, expected, now)?;
        Ok(self.led(partition))
    }

    /// Checks that this broker leads in the epoch that is expected, and has the log opened.
    fn enter_office(
        &mut self,
        partition: &Partition,
        expected: Option<LeaderEpoch>,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        self.role.check_epoch(expected)?;
        if !self.role.is_leader() {
            return Err(Refusal::NotLeader);
        }
        self.was_used = true;
        self.take_office(partition, now)
    }

    /// What a leader that has entered its office has.
    fn led(&mut self, partition: &Partition) -> Led<'_> {
        match (&mut self.role, &mut self.log) {
            (Role::Leader(leader), Log::Open(log)) => Led { leader, log },
            (role, log) => unreachable!("{partition}: took office: {role:?} {log:?}"),
        }
    }

    /// As [`Self::lead`], for what only a leader may do that can be sure to be the only one: answering
    /// clients. Followers are answered in any case: their fetches are how it can be sure.
    fn lead_surely(
        &mut self,
        partition: &Partition,
        expected: Option<LeaderEpoch>,
        now: Timestamp,
    ) -> Result<Led<'_>, Refusal> {
        self.enter_office(partition, expected, now)?;
        if !self.leads_surely(partition) {
            return Err(Refusal::NotLeader);
        }
        Ok(self.led(partition))
    }

    /// Whether nobody else can lead yet, for all that is known.
    fn leads_surely(&self, partition: &Partition) -> bool {
        partition.topic.environment.lease.confirms(self.affirmed_to)
            || self.is_followed_by_all(partition)
    }

    /// Whether every replica that could have become leader has fetched from this one of late.
    fn is_followed_by_all(&self, partition: &Partition) -> bool {
        let Role::Leader(leader) = &self.role else { return false };
        let since = partition.topic.environment.lease.evidence_since();
        let unclean = partition.topic.settings.load().unclean_leader_election;
        let subscriptions = self.work.as_ref().map_or(&[][..], |work| &work.subscriptions);
        leader.successors(unclean).all(|id| {
            let mut sessions = subscriptions.iter().filter(|own| own.replica == Some(id));
            sessions.any(|own| own.watcher.followed_at().is_some_and(|at| at >= since))
        })
    }

    /// The log, opened if need be.
    fn open_log(
        &mut self,
        partition: &Partition,
        now: Timestamp,
    ) -> Result<&mut PartitionLog, Refusal> {
        if let Log::Closed(closed) = &self.log {
            if partition.topic.environment.recovery.has_in_hand(closed) {
                // It may take long, and this thread has others to serve.
                return Err(Refusal::Recovering);
            }
            let Log::Closed(closed) = std::mem::replace(&mut self.log, Log::Gone) else {
                unreachable!("just seen");
            };
            let config = Arc::clone(&partition.topic.settings.load().log);
            self.log = match closed.open(config, now) {
                Ok(log) => Log::Open(Box::new(log)),
                Err((closed, failure)) => {
                    partition.storage_failed(&failure);
                    Log::Closed(closed)
                }
            };
        }
        match &mut self.log {
            Log::Open(log) => Ok(log),
            Log::Recovering(_) => Err(Refusal::Recovering),
            Log::Closed(_) | Log::Gone => Err(Refusal::Offline),
        }
    }
}

impl Log {
    fn opened(&self) -> Option<&PartitionLog> {
        match self {
            Self::Open(log) => Some(log),
            Self::Closed(_) | Self::Recovering(_) | Self::Gone => None,
        }
    }

    fn opened_mut(&mut self) -> Option<&mut PartitionLog> {
        match self {
            Self::Open(log) => Some(log),
            Self::Closed(_) | Self::Recovering(_) | Self::Gone => None,
        }
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic.name, self.index)
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Partition({self})")
    }
}

#[cfg(test)]
mod tests;
