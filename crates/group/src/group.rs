//! One classic group: its members, its rebalances and its committed offsets.
//!
//! | state | waits for | goes to |
//! |---|---|---|
//! | Empty | a first member | PreparingRebalance |
//! | PreparingRebalance | every member to join, or the rebalance timeout | CompletingRebalance, or Empty if nobody is left |
//! | CompletingRebalance | the leader's assignment to be stored | Stable; PreparingRebalance if anything changes |
//! | Stable | a member to change, fail or leave | PreparingRebalance |
//!
//! What is replicated is a stable (or empty) generation; who has joined or synced so far is not, and a new coordinator
//! starts from the last stored generation (`coordinators.md` 3.4). The rules are those of Kafka 3.9's coordinator.

use crate::member::Member;
use crate::offsets::Offsets;
use crate::record::{Fields, GroupMetadata};
use crate::request::{
    Action, Answer, Event, GroupConfig, Join, JoinRefused, Joined, Leaver, Protocol, Speaker,
};
use crate::request::{Description, Overview, Sync, Synced, Ticket};
use crate::timers::{Timer, Timers};
use crate::{Error, Waiter};
use bytes::Bytes;
use coordinator::WriteError;
use model::{Bug, Instant, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How long a member's first JoinGroup may wait: it cannot heartbeat, so it may be long gone.
const NEW_MEMBER_JOIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// How long it is waited at least for anybody of a group in which nobody rejoined.
const SHORTEST_WAIT_FOR_ANYBODY: Duration = Duration::from_secs(1);

/// Invariants: `instances` maps exactly the static members; `leader` is a member, and set if there is one; `unsynced`
/// and the keys of `pending_members` are disjoint from each other, the first a part of `members`.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) id: Arc<str>,
    pub(crate) state: State,
    pub(crate) state_timestamp: Option<Timestamp>,
    pub(crate) protocol_type: Option<Arc<str>>,
    pub(crate) protocol: Option<Arc<str>>,
    pub(crate) generation: i32,
    pub(crate) leader: Option<Arc<str>>,
    pub(crate) members: BTreeMap<Arc<str>, Member>,
    pub(crate) instances: BTreeMap<Arc<str>, Arc<str>>,
    /// Ids that were given out, and until when they may be used (KIP-394).
    pub(crate) pending_members: BTreeMap<Arc<str>, Instant>,
    /// Members that have not synced yet in this generation, and until when they may (KAFKA-12890).
    pub(crate) unsynced: BTreeSet<Arc<str>>,
    pub(crate) sync_end: Option<Instant>,
    /// Topics of all members of a consumer group; None if that cannot be told.
    pub(crate) subscribed: Option<BTreeSet<Arc<str>>>,
    pub(crate) offsets: Offsets,
    /// Its tombstone is on the way to the log.
    pub(crate) deleting: bool,
    /// The log has metadata of it, so that its end needs a tombstone.
    pub(crate) is_stored: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Empty,
    PreparingRebalance(Joining),
    CompletingRebalance {
        /// The leader has synced and the assignment is on its way to the log.
        storing: bool,
    },
    Stable,
}

/// Until when a rebalance waits for members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Joining {
    end: Instant,
    first: Option<FirstRebalance>,
}

/// The first members of a group tend to come in one after the other: wait for more of them (KIP-134). Never ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FirstRebalance {
    delay: Duration,
    remaining: Duration,
    /// Another member came during this delay, so one more delay is worth it.
    more_came: bool,
}

/// What a transition may use and leave behind.
pub(crate) struct Step<'a> {
    pub(crate) now: Instant,
    pub(crate) wall: Timestamp,
    pub(crate) config: &'a GroupConfig,
    pub(crate) timers: &'a mut Timers,
    pub(crate) actions: &'a mut Vec<Action>,
    /// Group records to append, and what to do then.
    pub(crate) writes: &'a mut Vec<(Arc<str>, GroupMetadata, Waiter)>,
}

impl Step<'_> {
    fn answer_join(&mut self, ticket: Ticket, answer: Result<Joined, JoinRefused>) {
        self.actions.push(Action::Answer(ticket, Answer::Join(answer)));
    }

    fn refuse_join(&mut self, ticket: Ticket, error: Error, member: Option<Arc<str>>) {
        self.answer_join(ticket, Err(JoinRefused { error, member: member.unwrap_or_default() }));
    }

    fn answer_sync(&mut self, ticket: Ticket, answer: Result<Synced, Error>) {
        self.actions.push(Action::Answer(ticket, Answer::Sync(answer)));
    }

    fn log(&mut self, event: Event) {
        self.actions.push(Action::Log(event));
    }
}

impl Group {
    pub(crate) fn new(id: Arc<str>, wall: Timestamp) -> Self {
        Self {
            id,
            state: State::Empty,
            state_timestamp: Some(wall),
            protocol_type: None,
            protocol: None,
            generation: 0,
            leader: None,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            pending_members: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            sync_end: None,
            subscribed: None,
            offsets: Offsets::default(),
            deleting: false,
            is_stored: false,
        }
    }

    // Joining.

    pub(crate) fn join(&mut self, ticket: Ticket, join: Join, step: &mut Step<'_>) {
        if self.deleting {
            return step.refuse_join(ticket, Error::CoordinatorNotAvailable, join.member);
        }
        if !self.has_room_for(join.member.as_deref(), step.config.max_size) {
            if let Some(member) = join.member.as_deref() {
                self.discard(member, Error::GroupMaxSizeReached, step);
            }
            step.refuse_join(ticket, Error::GroupMaxSizeReached, None);
        } else if !self.supports(&join.protocol_type, &join.protocols) {
            step.refuse_join(ticket, Error::InconsistentGroupProtocol, join.member);
        } else if let Some(member) = join.member.clone() {
            self.join_known(ticket, &member, join, step);
        } else {
            self.join_new(ticket, join, step);
        }
        self.complete_join_if_all_joined(step);
    }

    /// Counts those who wait, not the members, while a rebalance collects them: so the last to rejoin are turned away
    /// if the limit was lowered.
    fn has_room_for(&self, member: Option<&str>, max_size: usize) -> bool {
        let existing = member.and_then(|id| self.members.get(id));
        match self.state {
            State::Empty => true,
            State::PreparingRebalance(_) => {
                existing.is_some_and(|m| m.joining.is_some())
                    || self.members.values().filter(|m| m.joining.is_some()).count() < max_size
            }
            State::CompletingRebalance { .. } | State::Stable => {
                existing.is_some() || self.members.len() < max_size
            }
        }
    }

    fn supports(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.state == State::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        let by_all = |name: &str| {
            self.members.values().all(|m| m.protocols.iter().any(|p| &*p.name == name))
        };
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|p| by_all(&p.name))
    }

    fn join_new(&mut self, ticket: Ticket, join: Join, step: &mut Step<'_>) {
        let id = member_id(join.instance.as_deref().unwrap_or(&join.client_id), join.uuid);
        match join.instance.clone() {
            Some(instance) => match self.instances.get(&instance).cloned() {
                Some(old) => self.replace_static(ticket, &old, id, instance, &join, step),
                None => self.add(ticket, id, &join, step),
            },
            None if join.needs_known_member_id => {
                let end = step.now
                    + Duration::from_millis(u64::try_from(join.session_timeout).unwrap_or(0));
                self.pending_members.insert(id.clone(), end);
                step.timers
                    .set(end, Timer::PendingMember { group: self.id.clone(), member: id.clone() });
                step.refuse_join(ticket, Error::MemberIdRequired, Some(id));
            }
            None => self.add(ticket, id, &join, step),
        }
    }

    fn join_known(&mut self, ticket: Ticket, member: &Arc<str>, join: Join, step: &mut Step<'_>) {
        // A pending id was given to a dynamic member: with an instance id it is not that member.
        if join.instance.is_none() && self.pending_members.contains_key(member) {
            return self.add(ticket, member.clone(), &join, step);
        }
        if let Err(error) = self.check_member(member, join.instance.as_deref()) {
            return step.refuse_join(ticket, error, Some(member.clone()));
        }
        let is_leader = self.leader.as_deref() == Some(&**member);
        let changed = self.members[member].protocols != join.protocols;
        match self.state {
            // Its answer got lost, or it wants only to sync again.
            State::CompletingRebalance { .. } if !changed => {
                let joined =
                    self.joined(member, if is_leader { self.as_joined() } else { Vec::new() });
                step.answer_join(ticket, Ok(joined));
            }
            State::Stable if !changed && !is_leader => {
                let joined = self.joined(member, Vec::new());
                step.answer_join(ticket, Ok(joined));
            }
            // A leader that joins again wants to assign again: the topics may have changed.
            State::PreparingRebalance(_) | State::CompletingRebalance { .. } | State::Stable => {
                self.update(ticket, member, &join, step);
                self.rebalance(step, || {
                    format!("{} rejoins: {}", member, reason(join.reason.as_deref()))
                });
            }
            State::Empty => step.refuse_join(ticket, Error::UnknownMemberId, Some(member.clone())),
        }
    }

    fn add(&mut self, ticket: Ticket, id: Arc<str>, join: &Join, step: &mut Step<'_>) {
        let mut member = Member::new(id.clone(), join);
        member.joining = Some(ticket);
        if let State::PreparingRebalance(Joining { first: Some(first), .. }) = &mut self.state
            && self.generation == 0
        {
            first.more_came = true;
        }
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type.clone());
        }
        if let Some(instance) = &member.instance {
            self.instances.insert(instance.clone(), id.clone());
        }
        self.leader.get_or_insert_with(|| id.clone());
        self.pending_members.remove(&id);
        self.members.insert(id.clone(), member);
        self.extend(&id, NEW_MEMBER_JOIN_TIMEOUT, step);
        self.rebalance(step, || format!("{id} joins: {}", reason(join.reason.as_deref())));
    }

    fn update(&mut self, ticket: Ticket, member: &str, join: &Join, step: &mut Step<'_>) {
        let Some(member) = self.members.get_mut(member) else { return };
        member.protocols.clone_from(&join.protocols);
        member.session_timeout = join.session_timeout;
        member.rebalance_timeout = join.rebalance_timeout;
        // The same member on another connection: the older request has nobody behind it any more.
        if let Some(older) = member.joining.replace(ticket) {
            let id = member.id.clone();
            step.refuse_join(older, Error::RebalanceInProgress, Some(id));
        }
    }

    /// A static member came back without its id: it takes its old place under a new one, and whoever still uses the
    /// old one is fenced (KIP-345).
    fn replace_static(
        &mut self,
        ticket: Ticket,
        old: &Arc<str>,
        new: Arc<str>,
        instance: Arc<str>,
        join: &Join,
        step: &mut Step<'_>,
    ) {
        let old_leader = self.leader.clone();
        let Some(before) = self.members.remove(old) else { return };
        let mut member = Member { id: new.clone(), timer_at: None, ..before.clone() };
        if let Some(ticket) = member.joining.take() {
            step.refuse_join(ticket, Error::FencedInstanceId, Some(old.clone()));
        }
        if let Some(ticket) = member.syncing.take() {
            step.answer_sync(ticket, Err(Error::FencedInstanceId));
        }
        self.instances.insert(instance, new.clone());
        if self.leader.as_ref() == Some(old) {
            self.leader = Some(new.clone());
        }
        if self.unsynced.remove(old) {
            self.unsynced.insert(new.clone());
        }
        self.members.insert(new.clone(), member);
        self.update(ticket, &new, join, step);
        self.extend_session(&new, step);
        match self.state {
            State::Stable if self.protocol.is_some() && self.select_protocol() == self.protocol => {
                let stored = self.store(|m| m.assignment.clone());
                let write = StaticMember {
                    group: self.id.clone(),
                    member: new,
                    before,
                    ticket,
                    generation: self.generation,
                    old_leader,
                    can_skip_assignment: join.can_skip_assignment,
                };
                if Bug::Kafka10284.is_planted() {
                    return self.static_member_stored(write, Ok(()), step);
                }
                let waiter = Waiter::StaticMember(Box::new(write));
                step.writes.push((self.id.clone(), stored, waiter));
            }
            State::Stable => {
                self.rebalance(step, || format!("static member {new} changed its protocols"))
            }
            // The old id may be in the leader's hands already: it must assign again.
            State::CompletingRebalance { .. } => {
                self.rebalance(step, || {
                    format!("static member {new} came back during a rebalance")
                });
            }
            State::PreparingRebalance(_) => {}
            State::Empty => unreachable!("{self:?} has a static member"),
        }
    }

    /// The record of a replaced static member was, or was not, written.
    pub(crate) fn static_member_stored(
        &mut self,
        write: StaticMember,
        result: Result<(), WriteError>,
        step: &mut Step<'_>,
    ) {
        let StaticMember { member: id, ticket, generation, old_leader, before, .. } = write;
        let Some(member) = self.members.get_mut(&id).filter(|m| m.joining == Some(ticket)) else {
            return;
        };
        if self.state != State::Stable || self.generation != generation {
            // A rebalance began meanwhile, and the member waits in it.
            return;
        }
        member.joining = None;
        match result {
            Ok(()) => {
                let is_leader = self.leader.as_ref() == Some(&id);
                let mut joined = self.joined(&id, Vec::new());
                if write.can_skip_assignment {
                    joined.skip_assignment = is_leader;
                    joined.members = if is_leader { self.as_joined() } else { Vec::new() };
                } else {
                    // It must not think itself the leader: a stable group would not spread what it assigns.
                    joined.leader = old_leader.unwrap_or_default();
                }
                step.answer_join(ticket, Ok(joined));
            }
            Err(error) => {
                let error = Error::of_group_write(error);
                step.log(Event::WriteFailed { group: self.id.clone(), error });
                self.members.remove(&id);
                let old = before.id.clone();
                if let Some(instance) = &before.instance {
                    self.instances.insert(instance.clone(), old.clone());
                }
                if self.leader.as_ref() == Some(&id) {
                    self.leader = Some(old.clone());
                }
                if self.unsynced.remove(&id) {
                    self.unsynced.insert(old.clone());
                }
                self.members.insert(
                    old.clone(),
                    Member { joining: None, syncing: None, timer_at: None, ..before },
                );
                self.extend_session(&old, step);
                step.refuse_join(ticket, error, None);
            }
        }
    }

    // Rebalancing.

    /// Starts a rebalance, unless one already collects members.
    fn rebalance(&mut self, step: &mut Step<'_>, reason: impl FnOnce() -> String) {
        if matches!(self.state, State::PreparingRebalance(_)) {
            return;
        }
        if matches!(self.state, State::CompletingRebalance { .. }) {
            for member in self.members.values_mut() {
                member.assignment = Bytes::new();
            }
            self.answer_syncs(Err(Error::RebalanceInProgress), step);
        }
        self.forget_syncs();
        let timeout = self.rebalance_timeout();
        let joining = if self.state == State::Empty {
            let delay = step.config.initial_rebalance_delay;
            let remaining = timeout.saturating_sub(delay);
            Joining {
                end: step.now + delay,
                first: Some(FirstRebalance { delay, remaining, more_came: false }),
            }
        } else {
            Joining { end: step.now + timeout, first: None }
        };
        step.log(Event::Rebalancing {
            group: self.id.clone(),
            generation: self.generation,
            reason: reason(),
        });
        self.wait_for_joins(joining, step);
        self.complete_join_if_all_joined(step);
    }

    fn wait_for_joins(&mut self, joining: Joining, step: &mut Step<'_>) {
        step.timers.set(joining.end, Timer::Join { group: self.id.clone() });
        if !matches!(self.state, State::PreparingRebalance(_)) {
            self.state_timestamp = Some(step.wall);
        }
        self.state = State::PreparingRebalance(joining);
    }

    fn complete_join_if_all_joined(&mut self, step: &mut Step<'_>) {
        if let State::PreparingRebalance(joining) = &self.state
            && joining.first.is_none()
            && self.pending_members.is_empty()
            && self.members.values().all(|m| m.joining.is_some())
        {
            self.complete_join(step);
        }
    }

    pub(crate) fn join_timer(&mut self, step: &mut Step<'_>) {
        let State::PreparingRebalance(joining) = &self.state else { return };
        if joining.end > step.now {
            return;
        }
        if let Some(first) = &joining.first
            && first.more_came
            && !first.remaining.is_zero()
        {
            let delay = step.config.initial_rebalance_delay.min(first.remaining);
            let remaining = first.remaining.saturating_sub(first.delay);
            let first = Some(FirstRebalance { delay, remaining, more_came: false });
            return self.wait_for_joins(Joining { end: step.now + delay, first }, step);
        }
        self.complete_join(step);
    }

    /// Static members stay although they did not rejoin: they may be restarting.
    fn complete_join(&mut self, step: &mut Step<'_>) {
        let missing = self.members.values().filter(|m| m.joining.is_none() && !m.is_static());
        for id in missing.map(|m| m.id.clone()).collect::<Vec<_>>() {
            let why = "did not join in time";
            step.log(Event::MemberFailed { group: self.id.clone(), member: id.clone(), why });
            self.discard(&id, Error::UnknownMemberId, step);
        }
        if !self.elect_joined_leader() && !self.members.is_empty() {
            step.log(Event::NobodyRejoined { group: self.id.clone() });
            // The timeout is the members' word: with 0 this would be due again at once, for ever.
            let end = step.now + self.rebalance_timeout().max(SHORTEST_WAIT_FOR_ANYBODY);
            return self.wait_for_joins(Joining { end, first: None }, step);
        }
        self.generation = self.generation.wrapping_add(1);
        self.state_timestamp = Some(step.wall);
        self.forget_syncs();
        if self.members.is_empty() {
            self.protocol = None;
            self.state = State::Empty;
            self.subscribed = self.subscriptions();
            let stored = self.store(|_| Bytes::new());
            step.writes.push((
                self.id.clone(),
                stored,
                Waiter::EmptyGroup { group: self.id.clone() },
            ));
        } else {
            self.form_generation(step);
        }
    }

    fn form_generation(&mut self, step: &mut Step<'_>) {
        self.protocol = self.select_protocol();
        self.state = State::CompletingRebalance { storing: false };
        self.subscribed = self.subscriptions();
        let (group, generation, members) = (self.id.clone(), self.generation, self.members.len());
        step.log(Event::Formed { group, generation, members });
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            let members =
                if self.leader.as_ref() == Some(&id) { self.as_joined() } else { Vec::new() };
            let joined = self.joined(&id, members);
            let Some(member) = self.members.get_mut(&id) else { continue };
            member.is_new = false;
            if let Some(ticket) = member.joining.take() {
                step.answer_join(ticket, Ok(joined));
            }
            self.extend_session(&id, step);
            self.unsynced.insert(id);
        }
        let end = step.now + self.rebalance_timeout();
        self.sync_end = Some(end);
        step.timers.set(end, Timer::Sync { group: self.id.clone() });
    }

    /// Whether somebody who joined leads now.
    fn elect_joined_leader(&mut self) -> bool {
        let joined = |id: &Arc<str>| self.members.get(id).is_some_and(|m| m.joining.is_some());
        if self.leader.as_ref().is_some_and(joined) {
            return true;
        }
        let first = self.members.values().find(|m| m.joining.is_some()).map(|m| m.id.clone());
        let found = first.is_some();
        if found {
            self.leader = first;
        }
        found
    }

    /// Every member votes for the first of its protocols that all have. On a tie the leader's order decides (Kafka's is
    /// by chance).
    fn select_protocol(&self) -> Option<Arc<str>> {
        let leader = self.leader.as_ref().and_then(|id| self.members.get(id))?;
        let by_all = |name: &Arc<str>| {
            self.members.values().all(|m| m.protocols.iter().any(|p| p.name == *name))
        };
        let candidates =
            leader.protocols.iter().map(|p| p.name.clone()).filter(by_all).collect::<BTreeSet<_>>();
        let mut votes = BTreeMap::<&str, usize>::new();
        for vote in self.members.values().filter_map(|m| m.vote(&candidates)) {
            *votes.entry(vote).or_default() += 1;
        }
        let preferred = leader.protocols.iter().map(|p| &p.name).rev();
        preferred.max_by_key(|name| votes.get(&***name).copied().unwrap_or(0)).cloned()
    }

    pub(crate) fn rebalance_timeout(&self) -> Duration {
        let longest = self.members.values().map(|m| m.rebalance_timeout).max().unwrap_or(0);
        Duration::from_millis(u64::try_from(longest).unwrap_or(0))
    }

    // Syncing.

    pub(crate) fn sync(&mut self, ticket: Ticket, sync: Sync<'_>, step: &mut Step<'_>) {
        if let Err(error) = self.check_sync(&sync) {
            return step.answer_sync(ticket, Err(error));
        }
        match self.state {
            State::Empty => step.answer_sync(ticket, Err(Error::UnknownMemberId)),
            State::PreparingRebalance(_) => {
                step.answer_sync(ticket, Err(Error::RebalanceInProgress))
            }
            State::CompletingRebalance { storing } => {
                self.synced(sync.member);
                let Some(member) = self.members.get_mut(sync.member) else { return };
                if let Some(older) = member.syncing.replace(ticket) {
                    step.answer_sync(older, Err(Error::RebalanceInProgress));
                }
                if self.leader.as_deref() == Some(sync.member) && !storing {
                    self.state = State::CompletingRebalance { storing: true };
                    let assignments = sync.assignments.into_iter().collect::<BTreeMap<_, _>>();
                    let stored =
                        self.store(|m| assignments.get(&*m.id).cloned().unwrap_or_default());
                    let waiter =
                        Waiter::Assignment { group: self.id.clone(), generation: self.generation };
                    step.writes.push((self.id.clone(), stored, waiter));
                }
            }
            State::Stable => {
                self.synced(sync.member);
                self.extend_session(sync.member, step);
                let assignment = self.members[sync.member].assignment.clone();
                step.answer_sync(ticket, Ok(self.assigned(assignment)));
            }
        }
    }

    fn check_sync(&self, sync: &Sync<'_>) -> Result<(), Error> {
        let speaker =
            Speaker { member: sync.member, instance: sync.instance, generation: sync.generation };
        self.check_speaker(speaker)?;
        let differs = |given: Option<&str>, ours: &Option<Arc<str>>| {
            given.is_some() && given != ours.as_deref()
        };
        if differs(sync.protocol_type, &self.protocol_type)
            || differs(sync.protocol, &self.protocol)
        {
            return Err(Error::InconsistentGroupProtocol);
        }
        Ok(())
    }

    /// Takes over a stored generation. Live, it completes the rebalance that it came from, or comes too late for it.
    pub(crate) fn confirm(&mut self, stored: &GroupMetadata, wall: Timestamp) {
        if matches!(self.state, State::CompletingRebalance { storing: true })
            && stored.generation == self.generation
        {
            for member in &stored.members {
                if let Some(ours) = self.members.get_mut(&member.id) {
                    ours.assignment = member.assignment.clone();
                }
            }
            self.state = State::Stable;
            self.state_timestamp = Some(wall);
        }
    }

    /// The assignment was, or was not, written.
    pub(crate) fn assignment_stored(
        &mut self,
        generation: i32,
        result: Result<(), WriteError>,
        step: &mut Step<'_>,
    ) {
        if generation != self.generation {
            return;
        }
        match (&self.state, result) {
            (State::Stable, Ok(())) => {
                step.log(Event::Stable { group: self.id.clone(), generation });
                self.answer_syncs(Ok(()), step);
            }
            (State::CompletingRebalance { storing: true }, Err(error)) => {
                let error = Error::of_group_write(error);
                step.log(Event::WriteFailed { group: self.id.clone(), error });
                self.answer_syncs(Err(error), step);
                self.rebalance(step, || "the assignment could not be stored".to_owned());
            }
            _ => {}
        }
    }

    fn answer_syncs(&mut self, result: Result<(), Error>, step: &mut Step<'_>) {
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            let Some(member) = self.members.get_mut(&id) else { continue };
            if let Some(ticket) = member.syncing.take() {
                let assignment = member.assignment.clone();
                step.answer_sync(ticket, result.map(|()| self.assigned(assignment)));
                self.extend_session(&id, step);
            }
        }
    }

    fn synced(&mut self, member: &str) {
        self.unsynced.remove(member);
        if self.unsynced.is_empty() {
            self.sync_end = None;
        }
    }

    fn forget_syncs(&mut self) {
        self.unsynced.clear();
        self.sync_end = None;
    }

    pub(crate) fn sync_timer(&mut self, step: &mut Step<'_>) {
        if self.sync_end.is_none_or(|end| end > step.now) {
            return;
        }
        for id in std::mem::take(&mut self.unsynced) {
            let why = "did not sync in time";
            step.log(Event::MemberFailed { group: self.id.clone(), member: id.clone(), why });
            self.discard(&id, Error::UnknownMemberId, step);
        }
        self.rebalance(step, || "members did not sync in time".to_owned());
    }

    // Staying and leaving.

    /// # Errors
    /// As Heartbeat answers; [`Error::RebalanceInProgress`] tells the member to join again.
    pub(crate) fn heartbeat(
        &mut self,
        speaker: Speaker<'_>,
        step: &mut Step<'_>,
    ) -> Result<(), Error> {
        self.check_speaker(speaker)?;
        match self.state {
            State::Empty => Err(Error::UnknownMemberId),
            State::PreparingRebalance(_) => {
                self.extend_session(speaker.member, step);
                Err(Error::RebalanceInProgress)
            }
            State::CompletingRebalance { .. } | State::Stable => {
                self.extend_session(speaker.member, step);
                Ok(())
            }
        }
    }

    /// # Errors
    /// As OffsetCommit answers; `coordinators.md` 3.1.
    pub(crate) fn check_commit(&self, speaker: Speaker<'_>) -> Result<(), Error> {
        if self.deleting {
            return Err(Error::CoordinatorNotAvailable);
        }
        let is_empty = self.state == State::Empty;
        if speaker.generation < 0 && is_empty {
            return Ok(());
        }
        if speaker.generation >= 0 && Bug::Kafka2596.is_planted() {
            return Ok(());
        }
        if speaker.generation >= 0 || !speaker.member.is_empty() || speaker.instance.is_some() {
            self.check_speaker(speaker)?;
        } else if !is_empty {
            return Err(Error::UnknownMemberId);
        }
        match self.state {
            State::CompletingRebalance { .. } => Err(Error::RebalanceInProgress),
            State::Empty | State::PreparingRebalance(_) | State::Stable => Ok(()),
        }
    }

    pub(crate) fn leave(&mut self, leaver: Leaver<'_>, step: &mut Step<'_>) -> Result<(), Error> {
        let id = if leaver.member.is_empty() {
            let found = leaver.instance.and_then(|instance| self.instances.get(instance));
            found.cloned().ok_or(Error::UnknownMemberId)?
        } else if self.pending_members.remove(leaver.member).is_some() {
            self.complete_join_if_all_joined(step);
            return Ok(());
        } else {
            self.check_member(leaver.member, leaver.instance)?;
            leaver.member.into()
        };
        self.discard(&id, Error::UnknownMemberId, step);
        self.after_removal(step, || format!("{id} left: {}", reason(leaver.reason)));
        Ok(())
    }

    pub(crate) fn pending_member_timer(&mut self, member: &str, step: &mut Step<'_>) {
        if self.pending_members.get(member).is_some_and(|&end| end <= step.now) {
            self.pending_members.remove(member);
            self.complete_join_if_all_joined(step);
        }
    }

    pub(crate) fn session_timer(&mut self, at: Instant, id: &Arc<str>, step: &mut Step<'_>) {
        let Some(member) = self.members.get_mut(id).filter(|m| m.timer_at == Some(at)) else {
            return;
        };
        member.timer_at = None;
        if member.is_waiting() {
            // The answer that it waits for starts a new session.
            return;
        }
        if member.session_end > step.now {
            let end = member.session_end;
            member.timer_at = Some(end);
            return step
                .timers
                .set(end, Timer::Session { group: self.id.clone(), member: id.clone() });
        }
        let why = "was not heard from in time";
        step.log(Event::MemberFailed { group: self.id.clone(), member: id.clone(), why });
        self.discard(id, Error::UnknownMemberId, step);
        self.after_removal(step, || format!("{id} {why}"));
    }

    fn after_removal(&mut self, step: &mut Step<'_>, reason: impl FnOnce() -> String) {
        match self.state {
            State::Stable | State::CompletingRebalance { .. } => self.rebalance(step, reason),
            State::PreparingRebalance(_) => self.complete_join_if_all_joined(step),
            State::Empty => {}
        }
    }

    /// Removes a member and answers what it waits for with `error`.
    fn discard(&mut self, id: &str, error: Error, step: &mut Step<'_>) {
        self.pending_members.remove(id);
        let Some(member) = self.members.remove(id) else { return };
        if let Some(instance) = &member.instance {
            self.instances.remove(instance);
        }
        if self.leader.as_deref() == Some(id) {
            self.leader = self.members.keys().next().cloned();
        }
        self.synced(id);
        if let Some(ticket) = member.joining {
            step.refuse_join(ticket, error, None);
        }
        if let Some(ticket) = member.syncing {
            step.answer_sync(ticket, Err(error));
        }
    }

    pub(crate) fn extend_session(&mut self, member: &str, step: &mut Step<'_>) {
        let session = |m: &Member| if m.is_new { NEW_MEMBER_JOIN_TIMEOUT } else { m.session() };
        if let Some(session) = self.members.get(member).map(session) {
            self.extend(member, session, step);
        }
    }

    /// Sets no timer if one fires before: that one will look again.
    fn extend(&mut self, member: &str, session: Duration, step: &mut Step<'_>) {
        let Some(member) = self.members.get_mut(member) else { return };
        member.session_end = step.now + session;
        if member.timer_at.is_none_or(|at| at > member.session_end) {
            member.timer_at = Some(member.session_end);
            let timer = Timer::Session { group: self.id.clone(), member: member.id.clone() };
            step.timers.set(member.session_end, timer);
        }
    }

    // Checks.

    /// # Errors
    /// [`Error::FencedInstanceId`] before [`Error::UnknownMemberId`].
    fn check_member(&self, member: &str, instance: Option<&str>) -> Result<(), Error> {
        if let Some(instance) = instance {
            match self.instances.get(instance) {
                Some(current) if **current != *member => return Err(Error::FencedInstanceId),
                Some(_) => {}
                None => return Err(Error::UnknownMemberId),
            }
        }
        if self.members.contains_key(member) { Ok(()) } else { Err(Error::UnknownMemberId) }
    }

    fn check_speaker(&self, speaker: Speaker<'_>) -> Result<(), Error> {
        if self.deleting {
            return Err(Error::CoordinatorNotAvailable);
        }
        self.check_member(speaker.member, speaker.instance)?;
        if speaker.generation == self.generation { Ok(()) } else { Err(Error::IllegalGeneration) }
    }

    // Loading and unloading.

    pub(crate) fn load(&mut self, stored: GroupMetadata) {
        self.generation = stored.generation;
        self.protocol_type = Some(stored.protocol_type).filter(|t| !t.is_empty());
        self.protocol = stored.protocol;
        self.state_timestamp = stored.state_timestamp;
        let members = stored.members.into_iter().map(|m| Member::load(m, self.protocol.as_ref()));
        self.members = members.map(|m| (m.id.clone(), m)).collect();
        let instances =
            self.members.values().filter_map(|m| Some((m.instance.clone()?, m.id.clone())));
        self.instances = instances.collect();
        self.leader = stored.leader.filter(|id| self.members.contains_key(id));
        if self.leader.is_none() {
            self.leader = self.members.keys().next().cloned();
        }
        self.state = if self.members.is_empty() { State::Empty } else { State::Stable };
    }

    pub(crate) fn loaded(&mut self, step: &mut Step<'_>) {
        self.subscribed = self.subscriptions();
        for id in self.members.keys().cloned().collect::<Vec<_>>() {
            self.extend_session(&id, step);
        }
        if self.members.len() > step.config.max_size {
            self.rebalance(step, || "the group is larger than group.max.size".to_owned());
        }
    }

    pub(crate) fn unload(&mut self, step: &mut Step<'_>) {
        for (id, member) in std::mem::take(&mut self.members) {
            if let Some(ticket) = member.joining {
                step.refuse_join(ticket, Error::NotCoordinator, Some(id));
            }
            if let Some(ticket) = member.syncing {
                step.answer_sync(ticket, Err(Error::NotCoordinator));
            }
        }
    }

    fn store(&self, assignment: impl Fn(&Member) -> Bytes) -> GroupMetadata {
        let protocol = self.protocol.as_deref();
        GroupMetadata {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            state_timestamp: self.state_timestamp,
            members: self.members.values().map(|m| m.store(protocol, assignment(m))).collect(),
        }
    }

    // Views.

    pub(crate) fn state_name(&self) -> &'static str {
        match self.state {
            _ if self.deleting => "Dead",
            State::Empty => "Empty",
            State::PreparingRebalance(_) => "PreparingRebalance",
            State::CompletingRebalance { .. } => "CompletingRebalance",
            State::Stable => "Stable",
        }
    }

    pub(crate) fn overview(&self) -> Overview {
        let protocol_type = self.protocol_type.clone().unwrap_or_default();
        Overview { group: self.id.clone(), protocol_type, state: self.state_name() }
    }

    pub(crate) fn describe(&self) -> Description {
        let protocol = if self.state == State::Stable { self.protocol.clone() } else { None };
        Description {
            state: self.state_name(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            members: self.members.values().map(|m| m.describe(protocol.as_deref())).collect(),
            protocol: protocol.unwrap_or_default(),
        }
    }

    fn joined(&self, member: &str, members: Vec<crate::request::JoinedMember>) -> Joined {
        Joined {
            member: member.into(),
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            skip_assignment: false,
            members,
        }
    }

    fn as_joined(&self) -> Vec<crate::request::JoinedMember> {
        self.members.values().map(|m| m.as_joined(self.protocol.as_deref())).collect()
    }

    fn assigned(&self, assignment: Bytes) -> Synced {
        Synced {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment,
        }
    }

    // Subscriptions.

    pub(crate) fn is_consumer_group(&self) -> bool {
        self.protocol_type.as_deref() == Some("consumer")
    }

    /// Whether a member reads `topic`; also if that cannot be told.
    pub(crate) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.subscribed.as_ref().is_none_or(|topics| topics.contains(topic))
    }

    fn subscriptions(&self) -> Option<BTreeSet<Arc<str>>> {
        if !self.is_consumer_group() || (self.protocol.is_none() && !self.members.is_empty()) {
            return None;
        }
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            subscription(&member.metadata(self.protocol.as_deref()), &mut topics)?;
        }
        Some(topics)
    }
}

/// What to do when the record of a replaced static member is written.
#[derive(Clone, Debug)]
pub(crate) struct StaticMember {
    pub(crate) group: Arc<str>,
    member: Arc<str>,
    before: Member,
    ticket: Ticket,
    generation: i32,
    old_leader: Option<Arc<str>>,
    can_skip_assignment: bool,
}

/// The topics of a consumer's subscription. Every version begins with what version 0 has: the topics and user data.
fn subscription(metadata: &[u8], topics: &mut BTreeSet<Arc<str>>) -> Option<()> {
    let mut fields = Fields::new(metadata);
    if fields.i16().ok()? < 0 {
        return None;
    }
    for _ in 0..fields.count(false).ok()? {
        topics.insert(fields.text().ok()?.into());
    }
    match fields.i32().ok()? {
        -1 => Some(()),
        length => fields.take(usize::try_from(length).ok()?).ok().map(|_| ()),
    }
}

/// `<prefix>-<UUID>`. The prefix is cut where the id would not fit a protocol string.
fn member_id(prefix: &str, uuid: u128) -> Arc<str> {
    let mut end = prefix.len().min(i16::MAX as usize - 37);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    // RFC 9562: version 4, variant 1.
    let bits = uuid & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    format!("{}-{a}-{b}-{c}-{d}-{e}", &prefix[..end]).into()
}

fn reason(given: Option<&str>) -> &str {
    given.unwrap_or("not provided")
}

#[test]
fn a_member_id_is_the_client_id_and_a_random_uuid() {
    assert_eq!(&*member_id("c", 0), "c-00000000-0000-4000-8000-000000000000");
    assert_eq!(&*member_id("c", u128::MAX), "c-ffffffff-ffff-4fff-bfff-ffffffffffff");
    assert_eq!(member_id(&"é".repeat(40_000), 1).len(), 32_767);
}
