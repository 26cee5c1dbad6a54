//! What this broker is to a partition, and how that changes.

use super::{Effects, Environment, IsrProposal, Log, OpenOrClosed, Partition, Refusal, State};
use model::{BrokerEpoch, BrokerId, Bug, LeaderEpoch, Offset, PartitionEpoch, Timestamp};
use replication::{Event, IsrRefusal, Leader, LeaderSettings, LeaderTerm};
use std::sync::Arc;
use storage::{LogError, PartitionLog};
use tracing::{info, warn};

/// What this broker is to a partition.
#[derive(Debug)]
pub(crate) enum Role {
    /// Nothing yet: the log was found at start and no controller has spoken.
    Unassigned,
    /// The leader to be: takes office when the log is first needed.
    Appointed(Box<LeaderTerm>),
    /// The leader.
    Leader(Box<Leader>),
    /// One that copies another's log, or would if there were a leader.
    Follower(Box<Following>),
}

/// A follower's view of its partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Following {
    /// Whom to follow; nobody while no replica can lead.
    pub(crate) leader: Option<BrokerId>,
    /// In this epoch.
    pub(crate) leader_epoch: LeaderEpoch,
    /// The version of the partition's state.
    pub(crate) partition_epoch: PartitionEpoch,
}

/// One partition of a LeaderAndIsr.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assignment {
    /// The partition's number.
    pub(crate) index: i32,
    /// The leader, if there is one.
    pub(crate) leader: Option<BrokerId>,
    /// The epoch of that leadership.
    pub(crate) leader_epoch: LeaderEpoch,
    /// The version of the partition's state.
    pub(crate) partition_epoch: PartitionEpoch,
    /// All replicas.
    pub(crate) replicas: Vec<BrokerId>,
    /// The in-sync replicas.
    pub(crate) isr: Vec<BrokerId>,
    /// Whether the partition never had records: only then may a log be created although a log
    /// directory is offline that might hold it.
    pub(crate) is_new: bool,
    /// Whether this broker's log of it may have been here and is gone, while others count on it: then
    /// none may be created.
    pub(crate) is_lost: bool,
    /// Whether the leader was elected though it may lack committed records, and has not recovered (KIP-704).
    pub(crate) is_recovering: bool,
    /// The registration of this broker that is meant.
    pub(crate) registration: BrokerEpoch,
}

impl Role {
    pub(super) fn leader(&self) -> Option<&Leader> {
        match self {
            Self::Leader(leader) => Some(leader),
            Self::Unassigned | Self::Appointed(_) | Self::Follower(_) => None,
        }
    }

    pub(super) fn leader_mut(&mut self) -> Option<&mut Leader> {
        match self {
            Self::Leader(leader) => Some(leader),
            Self::Unassigned | Self::Appointed(_) | Self::Follower(_) => None,
        }
    }

    pub(super) fn is_leader(&self) -> bool {
        match self {
            Self::Leader(_) | Self::Appointed(_) => true,
            Self::Unassigned | Self::Follower(_) => false,
        }
    }

    pub(super) fn follows(&self) -> bool {
        match self {
            Self::Follower(_) => true,
            Self::Unassigned | Self::Appointed(_) | Self::Leader(_) => false,
        }
    }

    pub(super) fn epochs(&self) -> Option<(LeaderEpoch, PartitionEpoch)> {
        match self {
            Self::Unassigned => None,
            Self::Appointed(term) => Some((term.leader_epoch, term.partition_epoch)),
            Self::Leader(leader) => Some((leader.leader_epoch(), leader.partition_epoch())),
            Self::Follower(following) => Some((following.leader_epoch, following.partition_epoch)),
        }
    }

    /// The epoch of the leader that this replica follows, if there is one.
    pub(super) fn followed_epoch(&self) -> Option<LeaderEpoch> {
        match self {
            Self::Follower(following) => following.leader.map(|_| following.leader_epoch),
            Self::Unassigned | Self::Appointed(_) | Self::Leader(_) => None,
        }
    }

    /// KIP-320: a client that says which leadership it knows must know this one.
    pub(super) fn check_epoch(&self, expected: Option<LeaderEpoch>) -> Result<(), Refusal> {
        let (Some(expected), Some((current, _))) = (expected, self.epochs()) else {
            return Ok(());
        };
        match expected.cmp(&current) {
            _ if Bug::Kafka6880.is_planted() => Ok(()),
            std::cmp::Ordering::Less => Err(Refusal::FencedLeaderEpoch),
            std::cmp::Ordering::Equal => Ok(()),
            std::cmp::Ordering::Greater => Err(Refusal::UnknownLeaderEpoch),
        }
    }
}

impl Partition {
    /// Takes over what the controller says; ignored if it is older than what is known.
    ///
    /// # Errors
    /// [`LogError`] if the log cannot be used.
    pub(crate) fn assign(self: &Arc<Self>, assignment: Assignment) -> Result<(), LogError> {
        let environment = &self.topic.environment;
        let mut guard = self.quiesce(self.state.lock());
        let state = &mut *guard;
        let known = state.role.epochs();
        let followed_before = match &state.role {
            Role::Follower(following) => following.leader,
            Role::Unassigned | Role::Appointed(_) | Role::Leader(_) => None,
        };
        if known.is_some_and(|(_, epoch)| assignment.partition_epoch < epoch) {
            return Ok(());
        }
        state.affirmed_to = state.affirmed_to.max(assignment.registration);
        let mut effects = Effects::default();
        let is_new_epoch = known.is_none_or(|(epoch, _)| assignment.leader_epoch != epoch);
        let leads = assignment.leader == Some(environment.broker_id);
        let follows = assignment.leader.filter(|_| !leads).zip(Some(assignment.leader_epoch));
        if leads {
            state.give_up_mending();
            if is_new_epoch {
                // Nobody led before the first epoch, and alone nobody else.
                let is_successor = assignment.leader_epoch.0 > 0 && assignment.replicas.len() > 1;
                state.elected_at = is_successor.then(|| environment.clock.now());
            }
            let term = LeaderTerm {
                id: environment.broker_id,
                leader_epoch: assignment.leader_epoch,
                partition_epoch: assignment.partition_epoch,
                replicas: assignment.replicas,
                isr: assignment.isr,
            };
            let leader_epoch = term.leader_epoch;
            self.appoint(state, term)?;
            if is_new_epoch && assignment.is_recovering {
                self.tell_where_an_unclean_leader_begins(state, leader_epoch);
            }
            state.tell_of_progress(&mut effects);
            if is_new_epoch {
                // Followers that wait in the epoch before must hear that it is over.
                state.end_reads(&mut effects);
            }
        } else {
            state.role = Role::Follower(Box::new(Following {
                leader: assignment.leader,
                leader_epoch: assignment.leader_epoch,
                partition_epoch: assignment.partition_epoch,
            }));
            if is_new_epoch {
                state.give_up_waits(&mut effects);
            }
        }
        drop(guard);
        effects.fire();
        match follows {
            // Nothing new for whoever fetches it.
            Some((leader, _)) if !is_new_epoch && followed_before == Some(leader) => {}
            Some((leader, epoch)) => environment.fetchers.follow(self, leader, epoch),
            None => environment.fetchers.leave(self),
        }
        Ok(())
    }

    /// The controller says to this registration of the broker what it said to an earlier one.
    pub(crate) fn affirm(&self, registration: BrokerEpoch) {
        let mut state = self.state.lock();
        state.affirmed_to = state.affirmed_to.max(registration);
    }

    fn appoint(&self, state: &mut State, term: LeaderTerm) -> Result<(), LogError> {
        let environment = &self.topic.environment;
        let is_open = state.log.opened().is_some();
        info!(partition = %self, leader_epoch = term.leader_epoch.0, "leads");
        match (&mut state.role, &mut state.log) {
            (Role::Leader(leader), Log::Open(log)) => {
                if leader.leader_epoch() != term.leader_epoch {
                    log.assign_epoch(term.leader_epoch, log.log_end_offset())?;
                }
                let next = take_over(environment, &self.settings(), term, log, Some(leader));
                **leader = next;
            }
            _ => {
                state.role = Role::Appointed(Box::new(term));
                if is_open {
                    // It costs nothing more. If it fails it has been logged, and whoever needs the
                    // partition is told.
                    let _ = state.take_office(self, environment.clock.timestamp());
                }
                return Ok(());
            }
        }
        state.step(environment.clock.now(), Event::Tick, self);
        Ok(())
    }

    /// Whatever the other replicas have beyond this log's end is lost; each says itself what that was.
    fn tell_where_an_unclean_leader_begins(&self, state: &mut State, leader_epoch: LeaderEpoch) {
        // Where the log cannot be opened, that has been logged.
        if let Ok(log) = state.open_log(self, self.topic.environment.clock.timestamp()) {
            let (end, high_watermark) = (log.log_end_offset().0, log.high_watermark().0);
            warn!(partition = %self, leader_epoch = leader_epoch.0, end, high_watermark, "leads after an unclean election: what others have from its end on is lost");
        }
    }

    fn settings(&self) -> LeaderSettings {
        LeaderSettings {
            min_isr: self.topic.settings.load().min_isr,
            lag_max: self.topic.environment.lag_max,
        }
    }

    /// Who leads, as far as this broker was told, and in which epoch.
    pub(crate) fn leadership(&self) -> Option<(Option<BrokerId>, LeaderEpoch)> {
        let state = self.state.lock();
        let (epoch, _) = state.role.epochs()?;
        let leader = match &state.role {
            Role::Follower(following) => following.leader,
            Role::Unassigned | Role::Appointed(_) | Role::Leader(_) => {
                Some(self.topic.environment.broker_id)
            }
        };
        Some((leader, epoch))
    }

    /// What the controller said to a proposed ISR. A refusal of what was proposed in an earlier state of
    /// the partition means nothing any more.
    pub(crate) fn isr_answered(
        &self,
        proposal: &IsrProposal,
        answer: Result<(LeaderEpoch, PartitionEpoch, Vec<BrokerId>), IsrRefusal>,
    ) {
        let event = match answer {
            Ok((leader_epoch, partition_epoch, isr)) => {
                Event::IsrCommitted { leader_epoch, partition_epoch, isr }
            }
            Err(refusal) => Event::IsrRefused(refusal),
        };
        let mut effects = Effects::default();
        {
            let mut state = self.state.lock();
            let Some(leader) = state.role.leader() else { return };
            let is_meant = leader.leader_epoch() == proposal.leader_epoch
                && leader.partition_epoch() == proposal.partition_epoch;
            if !is_meant && !Bug::Kafka12686.is_planted() {
                return;
            }
            state.step(self.topic.environment.clock.now(), event, self);
            state.tell_of_progress(&mut effects);
        }
        effects.fire();
    }

    /// A broker came or went, as the cluster's metadata says.
    pub(crate) fn liveness_changed(&self, follower: BrokerId, is_live: bool) {
        self.step_and_tell(Event::LivenessChanged { follower, is_live });
    }

    /// Time passed: whoever lags leaves the ISR.
    pub(crate) fn tick(&self) {
        self.step_and_tell(Event::Tick);
    }

    /// The topic's settings changed.
    pub(crate) fn settings_changed(&self) {
        {
            let mut state = self.state.lock();
            state.retention_due = None;
            if let Some(log) = state.log.opened_mut() {
                log.set_config(Arc::clone(&self.topic.settings.load().log));
            }
        }
        self.step_and_tell(Event::SettingsChanged(self.settings()));
    }

    fn step_and_tell(&self, event: Event) {
        let mut effects = Effects::default();
        {
            let mut state = self.state.lock();
            if state.role.leader().is_none() {
                return;
            }
            state.step(self.topic.environment.clock.now(), event, self);
            state.tell_of_progress(&mut effects);
        }
        effects.fire();
    }

    /// Ends this broker's part: everything that waits is given up and the log is handed back. The
    /// partition answers nothing any more; whoever still holds it finds [`Refusal::NotLeader`].
    pub(crate) fn stop(self: &Arc<Self>) -> Option<OpenOrClosed> {
        let mut effects = Effects::default();
        self.topic.environment.fetchers.leave(self);
        let log = {
            let state = self.await_recovery(self.end_cleaning(self.state.lock()));
            let mut state = self.quiesce(state);
            state.role = Role::Unassigned;
            state.give_up_waits(&mut effects);
            state.give_up_flushes(&mut effects);
            state.call_move_off();
            state.work = None;
            match std::mem::replace(&mut state.log, Log::Gone) {
                Log::Open(log) => Some(OpenOrClosed::Open(log)),
                Log::Closed(log) => Some(OpenOrClosed::Closed(log)),
                Log::Recovering(_) => unreachable!("{self}: it was waited for"),
                Log::Gone => None,
            }
        };
        effects.fire();
        log
    }
}

impl State {
    /// An appointed leader takes office: from here on the log's end belongs to its epoch.
    pub(super) fn take_office(
        &mut self,
        partition: &Partition,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        if !matches!(self.role, Role::Appointed(_)) {
            return self.open_log(partition, now).map(drop);
        }
        self.open_log(partition, now)?;
        let topic_id = partition.topic.id();
        let claim = |log: &mut PartitionLog, epoch: LeaderEpoch, end: Offset| {
            if let (Some(id), None) = (topic_id, log.topic_id()) {
                log.set_topic_id(id)?;
            }
            log.assign_epoch(epoch, end)
        };
        let Role::Appointed(term) = std::mem::replace(&mut self.role, Role::Unassigned) else {
            unreachable!("just seen");
        };
        let log = self.log.opened_mut().ok_or(Refusal::Offline)?;
        if let Err(failure) = claim(log, term.leader_epoch, log.log_end_offset()) {
            partition.storage_failed(&failure);
            self.role = Role::Appointed(term);
            return Err(Refusal::Offline);
        }
        let environment = &partition.topic.environment;
        let leader = take_over(environment, &partition.settings(), *term, log, None);
        self.role = Role::Leader(Box::new(leader));
        self.step(environment.clock.now(), Event::Tick, partition);
        Ok(())
    }
}

fn take_over(
    environment: &Environment,
    settings: &LeaderSettings,
    term: LeaderTerm,
    log: &PartitionLog,
    previous: Option<&Leader>,
) -> Leader {
    let now = environment.clock.now();
    let mut leader =
        Leader::new(now, term, *settings, log.high_watermark(), log.log_end_offset(), previous);
    let image = environment.image.load();
    // Before the first UpdateMetadata nothing is known of who lives.
    if image.brokers().len() > 0 {
        let followers: Vec<_> = leader.followers().map(|follower| follower.id).collect();
        for follower in followers {
            leader.set_liveness(follower, image.broker(follower).is_some());
        }
    }
    leader
}
