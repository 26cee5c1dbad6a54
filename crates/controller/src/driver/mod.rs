//! The one task that talks to the store: registration, election, and the controller's work.
//!
//! Requests, store events and brokers' reports are handled one after the other. What a step has to tell
//! brokers is gathered in an [`Outbox`] and queued at its end.

mod brokers;
mod configs;
mod doubts;
mod elections;
mod eligible;
mod failover;
mod isr;
mod legacy;
mod reassignments;
mod reconcile;
mod shutdown;
mod suspicions;
mod topics;

use crate::context::{Context, LiveBroker, LogDoubt};
use crate::handle::Command;
use crate::membership::{ControllerError, ControllerSettings, CurrentSession, Surroundings};
use crate::outbox::Outbox;
use crate::sender::{Report, Sender};
use crate::{ApiError, ControlResponse, EpochRecord, REMEMBERED_SESSIONS, SessionRecord, znodes};
use coordination::{
    Change, Event, Events, Op, OpResult, Read, ReadResult, SessionHandle, SessionId, Zxid,
};
use coordination::{Store, StoreError};
use model::{BrokerEpoch, BrokerId, Bug, ControllerEpoch, TopicName, TopicPartition};
use protocol::ErrorCode;
use protocol::messages::stop_replica_request::StopReplicaTopicState;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Between two tries to get a session, as in Kafka.
const RETRY_SESSION_AFTER: Duration = Duration::from_secs(1);
/// After its own session expired, how long a broker lets others come back before it stands for election without them:
/// if it was the store that was away, their sessions expired with its own, and each returns when its own next try to
/// connect comes, a second or two after the store.
pub(crate) const RETURN_PATIENCE: Duration = Duration::from_secs(5);
/// Between two tries to stand for election where the store's epoch does not allow it.
const STAND_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How often a state is read again that is not as we know it, before it is left for later.
const STATE_TRIES: usize = 3;
/// A new controller lets brokers settle before it moves leaders back.
const FIRST_BALANCE_AFTER: Duration = Duration::from_secs(5);
/// Transactions are kept below this: ZooKeeper refuses requests of more than 1 MiB.
const MAX_TRANSACTION_BYTES: usize = 512 << 10;

/// What a driver is made of.
pub(crate) struct DriverParts {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) session: SessionHandle,
    pub(crate) current: CurrentSession,
    pub(crate) events: Events,
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) settings: ControllerSettings,
    pub(crate) surroundings: Surroundings,
    pub(crate) session_record: Arc<dyn SessionRecord>,
    pub(crate) epoch_record: Arc<dyn EpochRecord>,
}

/// The controller's task. [`Driver::run`] must be polled for anything to happen.
#[derive(Debug)]
pub struct Driver {
    store: Arc<dyn Store>,
    session: SessionHandle,
    /// The same session, for whoever reads besides us.
    current: CurrentSession,
    /// The sessions that this broker registered with, as `session_record` has them.
    own_sessions: Vec<SessionId>,
    /// What this broker last told of others that have ended, by who has: the nodes.
    reported: BTreeMap<BrokerId, String>,
    /// The session of the controller whose office this broker last vacated.
    vacated: Option<SessionId>,
    session_record: Arc<dyn SessionRecord>,
    /// The controller epochs that this broker has seen.
    epoch_record: Arc<dyn EpochRecord>,
    events: Events,
    commands: mpsc::Receiver<Command>,
    reports: mpsc::UnboundedReceiver<Report>,
    report_to: mpsc::UnboundedSender<Report>,
    settings: ControllerSettings,
    surroundings: Surroundings,
    active: Option<Active>,
    /// The number of the last request that was queued for any broker, in all our times as controller.
    last_sequence: u64,
    waiters: Vec<Waiter>,
    dirty: Dirty,
    /// The number of the last change notification that was acted on.
    last_config_change: Option<u32>,
    /// `unclean.leader.election.enable`, set dynamically for this broker or for all.
    dynamic_unclean: [Option<bool>; 2],
    /// Topics (`None`: all) whose offline partitions may have a leader that is not in sync since just now.
    newly_unclean: BTreeSet<Option<TopicName>>,
    /// This broker goes by all settings that were announced up to this change of the store, and has said so.
    applied_changes: Zxid,
    /// What this broker says of its logs when it registers; nothing once it has.
    doubt: Option<LogDoubt>,
    /// Whether a log directory of this broker failed while the store could not be told.
    is_log_dir_unannounced: bool,
    /// Who may be about to come back, since our own session expired.
    awaited: Option<Awaited>,
    /// When to look at everything again, because the store refused something that must not be left.
    look_again_at: Option<Instant>,
    /// When to compare what is known with the store.
    reconcile_at: Option<Instant>,
    /// Why this broker does not stand for election; one line in the log for each reason.
    hindrance: Option<String>,
}

/// Brokers that lived when this one's session expired.
#[derive(Debug)]
struct Awaited {
    brokers: BTreeSet<BrokerId>,
    /// From then on those that are missing count as gone.
    until: Instant,
}

/// What there is only while we are controller.
#[derive(Debug)]
struct Active {
    epoch: ControllerEpoch,
    /// The version of `/controller_epoch` since our election: what every write checks.
    epoch_version: i32,
    context: Context,
    senders: BTreeMap<BrokerId, Sender>,
    /// The last request before each sender began: answers up to that are to an earlier registration's.
    opened: BTreeMap<BrokerId, u64>,
    /// The number of the last request to this broker itself, and of the last that it has acted on.
    own_sequence: u64,
    own_applied: u64,
    /// Deletions of replicas that brokers were asked for.
    stops: BTreeMap<(BrokerId, u64), BTreeSet<TopicName>>,
    /// Topics whose node cannot be read; one line in the log each.
    unreadable: BTreeSet<TopicName>,
    /// Nodes of old tools that cannot be read; one line in the log each.
    junk: BTreeSet<&'static str>,
    /// Registrations that cannot be used; one line in the log each.
    unusable: BTreeSet<BrokerId>,
    /// What `/admin/reassign_partitions` still holds.
    legacy_reassignments: BTreeMap<TopicPartition, Vec<BrokerId>>,
    /// Brokers that seem to be gone.
    suspicions: suspicions::Suspicions,
    /// Brokers whose registration was removed, and until when they may take to notice.
    removed: BTreeMap<BrokerId, Instant>,
    /// Brokers whose doubts are not all settled, with the versions of their incarnations' nodes.
    doubted: BTreeMap<BrokerId, i32>,
    /// Until when brokers in doubt wait for others.
    patience: BTreeMap<BrokerId, Instant>,
    /// When to look whether leaders are where they are preferred; never, if they are not balanced.
    balance_at: Option<Instant>,
    /// What is still to be compared with the store.
    uncompared: reconcile::Uncompared,
}

impl Active {
    fn new(epoch: ControllerEpoch, epoch_version: i32) -> Self {
        Self {
            epoch,
            epoch_version,
            context: Context::default(),
            senders: BTreeMap::new(),
            opened: BTreeMap::new(),
            own_sequence: 0,
            own_applied: 0,
            stops: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            junk: BTreeSet::new(),
            unusable: BTreeSet::new(),
            legacy_reassignments: BTreeMap::new(),
            suspicions: BTreeMap::new(),
            removed: BTreeMap::new(),
            doubted: BTreeMap::new(),
            patience: BTreeMap::new(),
            balance_at: None,
            uncompared: VecDeque::new(),
        }
    }
}

/// What the store said has changed and was not looked at yet.
#[derive(Debug, Default)]
struct Dirty {
    controller: bool,
    brokers: bool,
    topic_list: bool,
    topics: BTreeSet<TopicName>,
    /// Partitions whose state could not be read.
    states: BTreeSet<TopicPartition>,
    deletions: bool,
    configs: bool,
    log_dirs: bool,
    isr_changes: bool,
    reassignments: bool,
    elections: bool,
    registration: bool,
    suspicions: bool,
}

impl Dirty {
    fn is_urgent(&self) -> bool {
        self.controller
            || self.registration
            || self.brokers
            || self.deletions
            || self.configs
            || self.log_dirs
            || self.isr_changes
            || self.reassignments
            || self.elections
            || self.suspicions
    }

    fn has_topics(&self) -> bool {
        self.topic_list || !self.topics.is_empty() || !self.states.is_empty()
    }
}

/// A client that waits until this broker's image shows what it asked for.
struct Waiter {
    topics: Vec<TopicName>,
    wants: Wants,
    /// The request to this broker itself that makes it so.
    sequence: u64,
    deadline: Instant,
    /// Called with the topics that are not as wanted.
    reply: FinishWaiting,
}

type FinishWaiting = Box<dyn FnOnce(&Unfinished) + Send>;

/// The topics that are not as a client wants them, and why it is not waited any longer.
type Unfinished = BTreeMap<TopicName, ApiError>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    Leaders,
    Gone,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiter")
            .field("topics", &self.topics)
            .field("wants", &self.wants)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

/// What woke the driver.
enum Wake {
    Store(Option<Event>),
    Report(Report),
    Command(Option<Command>),
    Deadline,
    Idle,
}

/// Why a step of the controller ended early.
#[derive(Debug)]
enum Stopped {
    /// Another controller was elected, or the store does not say: we step down.
    Moved,
    /// The store refused this step only.
    Refused(StoreError),
}

impl Stopped {
    fn of(error: StoreError) -> Self {
        match &error {
            StoreError::BadVersion(path) if path == znodes::CONTROLLER_EPOCH => Self::Moved,
            StoreError::MayHaveBeenApplied
            | StoreError::Disconnected
            | StoreError::Unreachable(_)
            | StoreError::SessionExpired
            | StoreError::Failed(_) => Self::Moved,
            StoreError::BadVersion(_)
            | StoreError::NoNode(_)
            | StoreError::NodeExists(_)
            | StoreError::NotEmpty(_)
            | StoreError::NoChildrenForEphemerals(_)
            | StoreError::BadArguments(_)
            | StoreError::Denied(_)
            | StoreError::NotWritten(_) => Self::Refused(error),
        }
    }
}

/// What clients are told when the store refuses.
fn store_error(error: &StoreError) -> ApiError {
    let code = match error {
        StoreError::NotWritten(_) => ErrorCode::KafkaStorageError,
        StoreError::MayHaveBeenApplied | StoreError::Disconnected | StoreError::Unreachable(_) => {
            ErrorCode::RequestTimedOut
        }
        StoreError::SessionExpired | StoreError::Failed(_) => ErrorCode::NotController,
        StoreError::NoNode(_)
        | StoreError::NodeExists(_)
        | StoreError::BadVersion(_)
        | StoreError::NotEmpty(_)
        | StoreError::NoChildrenForEphemerals(_)
        | StoreError::BadArguments(_)
        | StoreError::Denied(_) => ErrorCode::UnknownServerError,
    };
    ApiError::new(code, error.to_string())
}

fn not_controller() -> ApiError {
    ApiError::of(ErrorCode::NotController)
}

impl Driver {
    pub(crate) async fn start(parts: DriverParts) -> Result<Self, ControllerError> {
        let DriverParts {
            store,
            session,
            current,
            events,
            commands,
            settings,
            surroundings,
            session_record,
            epoch_record,
        } = parts;
        let (report_to, reports) = mpsc::unbounded_channel();
        let mut driver = Self {
            store,
            session,
            current,
            own_sessions: session_record.last(),
            reported: BTreeMap::new(),
            vacated: None,
            session_record,
            epoch_record,
            events,
            commands,
            reports,
            report_to,
            doubt: settings.log_doubt,
            settings,
            surroundings,
            active: None,
            last_sequence: 0,
            waiters: Vec::new(),
            dirty: Dirty::default(),
            last_config_change: None,
            dynamic_unclean: [None; 2],
            newly_unclean: BTreeSet::new(),
            applied_changes: Zxid(0),
            is_log_dir_unannounced: false,
            awaited: None,
            look_again_at: None,
            reconcile_at: None,
            hindrance: None,
        };
        driver.reconcile_at = driver.next_reconcile();
        let announced = driver.announced_changes().await?;
        driver.load_configs().await?;
        driver.applied_changes = announced;
        driver.check_addresses().await?;
        driver.register().await?;
        driver.dirty.controller = true;
        driver.dirty.configs = true;
        Ok(driver)
    }

    /// The epoch of this broker's registration.
    #[must_use]
    pub fn broker_epoch(&self) -> BrokerEpoch {
        BrokerEpoch(self.surroundings.broker_epoch.load(Ordering::Acquire))
    }

    /// Does the controller's work until [`crate::ControllerHandle::stop`].
    ///
    /// # Errors
    /// The store has failed for good.
    pub async fn run(mut self) -> Result<(), ControllerError> {
        loop {
            match self.wake().await {
                Wake::Store(Some(Event::Watched(change, path))) => self.note(change, &path),
                Wake::Store(Some(Event::Disconnected)) => {}
                // Others may have elected somebody else by now.
                Wake::Store(Some(Event::Lapsed)) => self.resign(),
                // What failed for want of a connection is done again.
                Wake::Store(Some(Event::Connected)) => {
                    (self.dirty.controller, self.dirty.configs) = (true, true);
                    if self.is_log_dir_unannounced {
                        self.announce_log_dir_failure().await;
                    }
                    self.dirty.registration = true;
                }
                Wake::Store(Some(Event::Expired) | None) => self.renew_session().await?,
                Wake::Report(report) => self.handle_report(report).await,
                Wake::Command(Some(Command::Stop { reply })) => {
                    self.resign();
                    let _ = self.session.close().await;
                    let _ = reply.send(());
                    return Ok(());
                }
                Wake::Command(Some(command)) => self.handle_command(command).await,
                Wake::Command(None) => {
                    self.resign();
                    let _ = self.session.close().await;
                    return Ok(());
                }
                Wake::Deadline => self.handle_deadlines().await,
                Wake::Idle => {
                    self.handle_topics_changed().await;
                    self.handle_states_changed().await;
                    self.reconcile_some().await;
                }
            }
            if self.dirty.is_urgent() {
                self.handle_urgent().await?;
            }
            self.withdraw_settled_doubts().await;
            self.finish_waiters();
        }
    }

    /// Changed topics wait until nobody asks for anything: nearly always the changes are our own.
    async fn wake(&mut self) -> Wake {
        if self.dirty.is_urgent() {
            // Noted while starting; nothing to wait for.
            return Wake::Deadline;
        }
        let balance_at = self.active.as_ref().and_then(|active| active.balance_at);
        let waiting = self.waiters.iter().map(|waiter| waiter.deadline);
        let removed = self.active.iter().flat_map(|active| active.removed.values().copied());
        let patience = self.active.iter().flat_map(|active| active.patience.values().copied());
        let awaited = self.awaited.as_ref().map(|awaited| awaited.until);
        let deadlines = waiting.chain(balance_at).chain(removed).chain(patience);
        let deadlines = deadlines.chain(self.look_again_at).chain(self.reconcile_at);
        let deadline = deadlines.chain(awaited).min();
        let compares = self.active.as_ref().is_some_and(|active| !active.uncompared.is_empty());
        let idle = self.dirty.has_topics() || compares;
        tokio::select! {
            biased;
            event = self.events.recv() => Wake::Store(event),
            Some(report) = self.reports.recv() => Wake::Report(report),
            command = self.commands.recv() => Wake::Command(command),
            () = tokio::task::yield_now(), if idle => Wake::Idle,
            () = tokio::time::sleep_until(deadline.unwrap_or_else(Instant::now)),
                if deadline.is_some() => Wake::Deadline,
        }
    }

    async fn handle_deadlines(&mut self) {
        let now = Instant::now();
        if self.look_again_at.is_some_and(|at| at <= now) {
            self.look_again_at = None;
            let dirty = &mut self.dirty;
            (dirty.brokers, dirty.topic_list, dirty.deletions) = (true, true, true);
            dirty.controller |= self.active.is_none();
            self.unclean_allowed(None).await;
        }
        if self.reconcile_at.is_some_and(|at| at <= now) {
            self.reconcile().await;
        }
        if self.awaited.as_ref().is_some_and(|awaited| awaited.until <= now) {
            self.awaited = None;
            self.dirty.controller |= self.active.is_none();
        }
        let mut removed = self.active.iter().flat_map(|active| active.removed.values());
        self.dirty.brokers |= removed.any(|until| *until <= now);
        self.lose_patience(now).await;
        let balance_at = self.active.as_ref().and_then(|active| active.balance_at);
        if balance_at.is_some_and(|at| at <= now) {
            self.balance_leaders().await;
        }
    }

    fn note(&mut self, change: Change, path: &str) {
        let own = znodes::broker_path(self.settings.broker.id);
        let dirty = &mut self.dirty;
        match path {
            znodes::CONTROLLER => dirty.controller = true,
            znodes::BROKER_IDS => dirty.brokers = true,
            znodes::TOPICS => dirty.topic_list = true,
            znodes::DELETE_TOPICS => dirty.deletions = true,
            znodes::CONFIG_CHANGES => dirty.configs = true,
            znodes::LOG_DIR_EVENTS => dirty.log_dirs = true,
            znodes::SUSPICIONS => dirty.suspicions = true,
            znodes::ISR_CHANGES => dirty.isr_changes = true,
            znodes::REASSIGN_PARTITIONS => dirty.reassignments = true,
            znodes::PREFERRED_ELECTION => dirty.elections = true,
            _ if path.starts_with(znodes::BROKER_IDS) => {
                dirty.registration |= path == own;
                dirty.brokers = true;
            }
            _ => {
                let Some(at) = path.strip_prefix("/brokers/topics/") else { return };
                if let Some(state) = znodes::partition_of_state(at) {
                    dirty.states.insert(state);
                } else if matches!(change, Change::Data | Change::Created) {
                    dirty.topics.insert(at.into());
                }
            }
        }
    }

    async fn handle_urgent(&mut self) -> Result<(), ControllerError> {
        if std::mem::take(&mut self.dirty.registration) {
            self.handle_registration_changed().await?;
        }
        if std::mem::take(&mut self.dirty.controller) {
            self.handle_controller_changed().await;
        }
        if std::mem::take(&mut self.dirty.configs) {
            self.handle_config_changes().await;
        }
        if std::mem::take(&mut self.dirty.brokers) {
            self.handle_brokers_changed().await;
        }
        if std::mem::take(&mut self.dirty.suspicions) {
            self.handle_suspicions().await;
        }
        if std::mem::take(&mut self.dirty.log_dirs) {
            self.handle_log_dir_events().await;
        }
        if std::mem::take(&mut self.dirty.isr_changes) {
            self.handle_isr_changes().await;
        }
        if std::mem::take(&mut self.dirty.reassignments) {
            self.handle_legacy_reassignments().await;
        }
        if std::mem::take(&mut self.dirty.elections) {
            self.handle_legacy_elections().await;
        }
        if std::mem::take(&mut self.dirty.deletions) {
            self.handle_deletions_changed().await;
        }
        Ok(())
    }

    async fn handle_command(&mut self, command: Command) {
        match command {
            Command::CreateTopics { topics, timeout, validate_only, reply } => {
                self.create_topics(topics, timeout, validate_only, reply).await;
            }
            Command::AutoCreateTopics(topics) => self.auto_create_topics(topics).await,
            Command::DeleteTopics { topics, timeout, reply } => {
                self.delete_topics(topics, timeout, reply).await;
            }
            Command::CreatePartitions { topics, timeout, validate_only, reply } => {
                self.create_partitions(topics, timeout, validate_only, reply).await;
            }
            Command::AlterConfigs { alterations, validate_only, reply } => {
                let results = self.alter_configs(alterations, validate_only).await;
                let _ = reply.send(results);
            }
            Command::ElectLeaders { kind, partitions, timeout, reply } => {
                self.elect_leaders(kind, partitions, timeout, reply).await;
            }
            Command::AlterReassignments { targets, reply } => {
                let _ = reply.send(self.alter_reassignments(targets).await);
            }
            Command::ListReassignments { partitions, reply } => {
                let _ = reply.send(self.list_reassignments(partitions));
            }
            Command::ListOutOfSync { topics, reply } => {
                let active = self.active.as_ref();
                let _ = reply.send(active.map(|active| active.context.out_of_sync(&topics)));
            }
            Command::AllocateProducerIds { request, reply } => {
                let _ = reply.send(self.allocate_producer_ids(request).await);
            }
            Command::AlterPartition { request, version, reply } => {
                let _ = reply.send(self.alter_partition(request, version).await);
            }
            Command::ControlledShutdown { request, reply } => {
                let id = BrokerId(request.broker_id);
                let response = self.controlled_shutdown(request).await;
                self.answer_once_others_know(id, response, reply);
            }
            Command::Suspect(broker) => self.suspect(broker).await,
            Command::LogDirectoryFailed => self.announce_log_dir_failure().await,
            Command::Stop { .. } => unreachable!("handled by the caller"),
        }
    }

    async fn handle_report(&mut self, report: Report) {
        let own = report.broker == self.settings.broker.id;
        let Some(active) = &mut self.active else { return };
        if own {
            active.own_applied = active.own_applied.max(report.sequence);
        }
        self.note_answer(report.broker, report.sequence).await;
        match report.response {
            ControlResponse::LeaderAndIsr(response) => {
                let sequence = report.sequence;
                self.handle_leader_and_isr_answer(report.broker, sequence, response).await;
            }
            ControlResponse::StopReplica(response) => {
                self.handle_stop_replica_answer(report.broker, report.sequence, response).await;
            }
            ControlResponse::LogEnds(response) => {
                self.handle_log_ends(report.broker, report.sequence, response).await;
            }
            ControlResponse::UpdateMetadata(_) => {}
        }
    }

    /// Queues what `outbox` says; returns the number of the last request to this broker itself.
    fn send(&mut self, outbox: &Outbox) -> u64 {
        let Some(active) = &mut self.active else { return 0 };
        let own = self.settings.broker.id;
        for (broker, request) in outbox.requests(&active.context, &self.settings, active.epoch) {
            let Some(sender) = active.senders.get(&broker) else { continue };
            self.last_sequence += 1;
            let sequence = self.last_sequence;
            if let crate::ControlRequest::StopReplica(request) = &request {
                let deletes = |topic: &&StopReplicaTopicState| {
                    topic.partition_states.iter().any(|state| state.delete_partition)
                };
                let topics = request.topic_states.iter().filter(deletes);
                let topics: BTreeSet<_> = topics
                    .map(|topic| TopicName::from(&*topic.topic_name))
                    .filter(|topic| active.context.deleting.contains_key(topic))
                    .collect();
                if !topics.is_empty() {
                    active.stops.insert((broker, sequence), topics);
                }
            }
            if broker == own {
                active.own_sequence = sequence;
            }
            sender.send(sequence, request);
        }
        active.own_sequence
    }

    /// Answers those whose wish came true, and those who waited long enough.
    fn finish_waiters(&mut self) {
        if self.waiters.is_empty() {
            return;
        }
        let now = Instant::now();
        for waiter in std::mem::take(&mut self.waiters) {
            let late =
                |topic: &TopicName| (topic.clone(), ApiError::bare(ErrorCode::RequestTimedOut));
            let mut is_decided = false;
            let unfinished: Unfinished = match &self.active {
                Some(active) if active.own_applied >= waiter.sequence => {
                    let context = &active.context;
                    let done = |topic: &TopicName| match waiter.wants {
                        Wants::Leaders => context.is_led(topic),
                        Wants::Gone => !context.topics.contains_key(topic),
                    };
                    let unfinished = waiter.topics.iter().filter(|topic| !done(topic));
                    let unfinished: Unfinished = unfinished
                        .map(|topic| match waiter.wants {
                            Wants::Leaders if context.has_no_disk(topic) => {
                                let message =
                                    "The disks of all replicas of a partition have failed.";
                                let code = ErrorCode::KafkaStorageError;
                                (topic.clone(), ApiError::new(code, message))
                            }
                            Wants::Leaders | Wants::Gone => late(topic),
                        })
                        .collect();
                    is_decided =
                        unfinished.values().all(|e| e.code == ErrorCode::KafkaStorageError);
                    unfinished
                }
                _ => waiter.topics.iter().map(late).collect(),
            };
            if is_decided || now >= waiter.deadline || self.active.is_none() {
                (waiter.reply)(&unfinished);
            } else {
                self.waiters.push(waiter);
            }
        }
    }

    fn wait(
        &mut self,
        topics: Vec<TopicName>,
        wants: Wants,
        timeout: Duration,
        reply: impl FnOnce(&Unfinished) + Send + 'static,
    ) {
        let sequence = self.active.as_ref().map_or(0, |active| active.own_sequence);
        let deadline = Instant::now() + timeout;
        let reply = Box::new(reply);
        self.waiters.push(Waiter { topics, wants, sequence, deadline, reply });
    }

    /// Makes each list of changes in a transaction that also checks that we are still controller. All
    /// are on their way before the first is waited for.
    async fn commit(
        &mut self,
        transactions: Vec<Vec<Op>>,
    ) -> Result<Vec<Result<Vec<OpResult>, StoreError>>, Stopped> {
        let Some(active) = &self.active else { return Err(Stopped::Moved) };
        let check = match Bug::Kafka6082.is_planted() {
            true => Op::check(znodes::BROKER_IDS, 0),
            false => Op::check(znodes::CONTROLLER_EPOCH, active.epoch_version),
        };
        let pending: Vec<_> = transactions
            .into_iter()
            .map(|ops| self.session.multi([vec![check.clone()], ops].concat()))
            .collect();
        let mut results = Vec::with_capacity(pending.len());
        for reply in pending {
            results.push(match reply.await {
                Ok(mut made) => {
                    made.remove(0);
                    Ok(made)
                }
                Err(error) => match Stopped::of(error) {
                    Stopped::Moved => return Err(Stopped::Moved),
                    Stopped::Refused(error) => Err(error),
                },
            });
        }
        Ok(results)
    }

    /// As [`Self::commit`], for one transaction.
    async fn commit_one(&mut self, ops: Vec<Op>) -> Result<Vec<OpResult>, Stopped> {
        let results = self.commit(vec![ops]).await?;
        results.into_iter().next().expect("one result per transaction").map_err(Stopped::Refused)
    }

    /// Steps down, and makes everybody (us too) race again: what we know may not be so.
    async fn abandon(&mut self) {
        if self.active.is_none() {
            return;
        }
        tracing::warn!("stepping down as controller: the store may not hold what we think");
        self.resign();
        if let Ok(Some(stat)) = self.session.exists(znodes::CONTROLLER, false).await
            && stat.ephemeral_owner == Some(self.session.id())
        {
            let _ = self.session.delete(znodes::CONTROLLER, None).await;
        }
        self.dirty.controller = true;
    }

    fn resign(&mut self) {
        if let Some(active) = self.active.take() {
            tracing::info!(controller_epoch = %active.epoch, "no longer controller");
        }
        self.dirty = Dirty {
            controller: self.dirty.controller,
            configs: self.dirty.configs,
            registration: self.dirty.registration,
            ..Dirty::default()
        };
        self.look_again_at = None;
        self.finish_waiters();
    }
}

/// Cuts changes into transactions of a size that every store takes.
///
/// Changes of one group stay in one transaction.
fn chunks(groups: impl IntoIterator<Item = Vec<Op>>) -> Vec<Vec<Op>> {
    let mut chunks: Vec<Vec<Op>> = Vec::new();
    let mut size = usize::MAX;
    for group in groups {
        let group_size: usize = group.iter().map(Op::size).sum();
        if size.saturating_add(group_size) > MAX_TRANSACTION_BYTES {
            chunks.push(Vec::new());
            size = 0;
        }
        size += group_size;
        chunks.last_mut().expect("pushed above").extend(group);
    }
    chunks
}

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod tests;
