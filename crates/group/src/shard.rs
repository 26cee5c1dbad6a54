//! The groups of one partition of `__consumer_offsets`: everything that clients may ask of them.
//!
//! Requests, the fates of batches and the time go in; answers and log lines come out as [`Action`]s, batches to append
//! from [`GroupShard::next_batch`]. Nothing here waits, and nothing is answered that a crash could undo.

use crate::Error;
use crate::group::{Group, State, StaticMember, Step};
use crate::offsets::CommittedOffset;
use crate::record::{GroupMetadata, Key, Record, RecordError, decode_group, decode_offset};
use crate::request::{
    Action, Answer, Commit, CommitResults, DeleteResults, Description, Event, FetchedOffset,
};
use crate::request::{GroupConfig, Join, JoinRefused, Leaver, Overview, Speaker, Sync, Ticket};
use crate::timers::{Timer, Timers};
use coordinator::{Decision, Origin, Replicated, Shard, WriteError, WriteId};
use model::{Bug, Instant, Offset, ProducerId, Timestamp, TopicId, TopicName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Both clocks: sessions and rebalances run by the one, retention and records by the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// For what has elapsed.
    pub instant: Instant,
    /// For what is stored.
    pub wall: Timestamp,
}

/// The groups of one partition.
///
/// It starts by loading: [`GroupShard::load`] for each record, [`GroupShard::load_marker`] for each transaction marker,
/// then [`GroupShard::loaded`].
#[derive(Debug)]
pub struct GroupShard {
    config: GroupConfig,
    log: Shard<Groups, Waiter>,
    timers: Timers,
    next_expiry: Option<Instant>,
}

/// What goes on when a write is committed, or not.
#[derive(Clone, Debug)]
pub(crate) enum Waiter {
    Commit {
        ticket: Ticket,
        results: CommitResults,
    },
    Assignment {
        group: Arc<str>,
        generation: i32,
    },
    StaticMember(Box<StaticMember>),
    EmptyGroup {
        group: Arc<str>,
    },
    /// Offsets, and perhaps `dying` groups, are removed; somebody may have asked for it.
    Removal {
        dying: Vec<Arc<str>>,
        answer: Option<(Ticket, Answer)>,
    },
}

/// By group, topic and partition.
type PendingOffsets = BTreeMap<(Arc<str>, TopicName, i32), CommittedOffset>;

/// The replicated part, and the groups' rebalances.
#[derive(Debug, Default)]
struct Groups {
    groups: BTreeMap<Arc<str>, Group>,
    /// Offsets of open transactions: they count when those commit.
    transactions: BTreeMap<ProducerId, PendingOffsets>,
    /// Loading is over: a stored generation completes a rebalance instead of being where a group begins.
    is_live: bool,
    /// When the shard last heard from the outside.
    wall: Timestamp,
}

impl GroupShard {
    /// A shard that knows nothing yet.
    #[must_use]
    pub fn new(config: GroupConfig) -> Self {
        let log =
            Shard::new(Groups::default(), config.max_batch_bytes, config.offsets_commit_timeout);
        Self { config, log, timers: Timers::default(), next_expiry: None }
    }

    // Loading.

    /// Takes over one record of the log. Records of other kinds of group are skipped.
    ///
    /// # Errors
    /// [`RecordError`]: the record cannot be read, and what it would have said is not known.
    pub fn load(
        &mut self,
        origin: Origin,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), RecordError> {
        let groups = self.log.state_mut();
        match Key::decode(key)? {
            Key::Offset { group, topic, partition } => {
                let value = value.map(|v| decode_offset(v, origin.base_offset)).transpose()?;
                groups.replay_offset(origin, group, topic, partition, value);
            }
            Key::Group { group } => {
                groups.replay_group(group, value.map(decode_group).transpose()?)
            }
            Key::Other { .. } => {}
        }
        Ok(())
    }

    /// Takes over a transaction marker of the log.
    pub fn load_marker(&mut self, producer: ProducerId, commit: bool) {
        self.log.state_mut().end_transaction(producer, commit);
    }

    /// The log is read to its end: members have one session from now to be heard from.
    pub fn loaded(&mut self, now: Now, actions: &mut Vec<Action>) {
        let groups = self.log.state_mut();
        let pending = groups.transactions.values().flat_map(|t| t.keys());
        for group in pending.map(|(group, ..)| group.clone()).collect::<BTreeSet<_>>() {
            groups.groups.entry(group.clone()).or_insert_with(|| Group::new(group, now.wall));
        }
        groups.is_live = true;
        for id in groups.groups.keys().cloned().collect::<Vec<_>>() {
            self.step(now, &id, actions, |group, step| group.loaded(step));
        }
        self.next_expiry = Some(now.instant + self.config.offsets_retention_check_interval);
    }

    /// The partition is led elsewhere now: answers everyone who waits.
    pub fn unload(&mut self, now: Now, actions: &mut Vec<Action>) {
        for id in self.log.state().groups.keys().cloned().collect::<Vec<_>>() {
            self.step(now, &id, actions, |group, step| group.unload(step));
        }
        self.log.state_mut().groups.clear();
        let waiters = self.log.close();
        self.resume(now, waiters, Err(WriteError::NotLeader), actions);
    }

    // Members.

    /// JoinGroup.
    pub fn join(&mut self, now: Now, ticket: Ticket, join: Join, actions: &mut Vec<Action>) {
        let (id, member) = (join.group.clone(), join.member.clone());
        let mut refuse = |error| {
            let refused = JoinRefused { error, member: member.clone().unwrap_or_default() };
            actions.push(Action::Answer(ticket, Answer::Join(Err(refused))));
        };
        let bounds = self.config.min_session_timeout_ms..=self.config.max_session_timeout_ms;
        if !bounds.contains(&join.session_timeout) {
            return refuse(Error::InvalidSessionTimeout);
        }
        if member.is_none() {
            self.group_or_new(&id, now);
        } else if !self.log.state().groups.contains_key(&id) {
            return refuse(Error::UnknownMemberId);
        }
        self.step(now, &id, actions, |group, step| group.join(ticket, join, step));
    }

    /// SyncGroup.
    pub fn sync(&mut self, now: Now, ticket: Ticket, sync: Sync<'_>, actions: &mut Vec<Action>) {
        let id = sync.group;
        let known = self.step(now, id, actions, |group, step| group.sync(ticket, sync, step));
        if known.is_none() {
            actions.push(Action::Answer(ticket, Answer::Sync(Err(Error::UnknownMemberId))));
        }
    }

    /// Heartbeat.
    ///
    /// # Errors
    /// What the member is told; [`Error::RebalanceInProgress`] means to join again.
    pub fn heartbeat(
        &mut self,
        now: Now,
        group: &str,
        speaker: Speaker<'_>,
        actions: &mut Vec<Action>,
    ) -> Result<(), Error> {
        let result = self.step(now, group, actions, |group, step| group.heartbeat(speaker, step));
        result.unwrap_or(Err(Error::UnknownMemberId))
    }

    /// LeaveGroup: one result for each leaver, in order.
    ///
    /// # Errors
    /// [`Error::CoordinatorNotAvailable`] for the whole request, if the group is being deleted.
    pub fn leave(
        &mut self,
        now: Now,
        group: &str,
        leavers: &[Leaver<'_>],
        actions: &mut Vec<Action>,
    ) -> Result<Vec<Result<(), Error>>, Error> {
        if self.log.state().groups.get(group).is_some_and(|g| g.deleting) {
            return Err(Error::CoordinatorNotAvailable);
        }
        let results = self.step(now, group, actions, |group, step| {
            leavers.iter().map(|&leaver| group.leave(leaver, step)).collect()
        });
        Ok(results.unwrap_or_else(|| vec![Err(Error::UnknownMemberId); leavers.len()]))
    }

    // Offsets.

    /// OffsetCommit.
    pub fn commit(
        &mut self,
        now: Now,
        ticket: Ticket,
        commit: Commit<'_>,
        actions: &mut Vec<Action>,
    ) {
        let (group, speaker) = (commit.group, commit.speaker);
        let count = commit.offsets.len();
        if speaker.generation < 0 {
            self.group_or_new(group, now);
        }
        let checked = match self.log.state().groups.get(group) {
            Some(group) => group.check_commit(speaker),
            None => Err(Error::IllegalGeneration),
        };
        let decision = match checked {
            Ok(()) => decide_commit(&self.config, now, commit),
            Err(error) => Decision { records: Vec::new(), response: vec![Some(error); count] },
        };
        if checked.is_ok() && !speaker.member.is_empty() {
            self.step(now, group, actions, |group, step| {
                group.extend_session(speaker.member, step)
            });
        }
        if decision.records.is_empty() {
            return actions.push(Action::Answer(ticket, Answer::Commit(decision.response)));
        }
        let waiter = Waiter::Commit { ticket, results: decision.response };
        self.log.submit(now.instant, decision.records, Some(waiter));
    }

    /// The offsets of a group, for OffsetFetch; none if it is not known.
    #[must_use]
    pub fn offsets<'a>(&'a self, group: &str, require_stable: bool) -> GroupOffsets<'a> {
        let found = self.log.state().groups.get(group);
        let mut unstable = BTreeSet::new();
        if require_stable {
            unstable.extend(self.offsets_in_flight(group));
            let pending = self.log.state().transactions.values().flat_map(|t| t.keys());
            unstable.extend(
                pending
                    .filter(|(id, ..)| **id == *group)
                    .map(|(_, topic, partition)| (&**topic, *partition)),
            );
        }
        GroupOffsets { group: found.filter(|g| !g.deleting), unstable }
    }

    /// OffsetDelete, for partitions of existing topics.
    pub fn delete_offsets(
        &mut self,
        now: Now,
        ticket: Ticket,
        group: &str,
        partitions: &[(TopicName, i32)],
        actions: &mut Vec<Action>,
    ) {
        let answer = |result| Action::Answer(ticket, Answer::OffsetDelete(result));
        let (mut records, mut dying, mut results) = (Vec::new(), Vec::new(), DeleteResults::new());
        match self.log.state().groups.get(group).filter(|g| !g.deleting) {
            None => return actions.push(answer(Err(Error::GroupIdNotFound))),
            Some(found) if found.state != State::Empty && !found.is_consumer_group() => {
                return actions.push(answer(Err(Error::NonEmptyGroup)));
            }
            Some(found) => {
                let mut removed = BTreeSet::new();
                for (topic, partition) in partitions {
                    let subscribed = found.state != State::Empty && found.is_subscribed_to(topic);
                    results.push(subscribed.then_some(Error::GroupSubscribedToTopic));
                    if !subscribed {
                        removed.insert((topic.clone(), *partition));
                    }
                }
                if !removed.is_empty() {
                    let goes = |topic: &TopicName, partition| {
                        removed.contains(&(topic.clone(), partition))
                    };
                    decide_removal(found, &self.unsettled(), goes, &mut records, &mut dying);
                }
            }
        }
        self.remove(
            now,
            records,
            dying,
            Some((ticket, Answer::OffsetDelete(Ok(results)))),
            actions,
        );
    }

    /// Removes offsets that nobody needs any more, and groups that are left with nothing.
    pub fn expire_offsets(&mut self, now: Now, actions: &mut Vec<Action>) {
        let (mut records, mut dying) = (Vec::new(), Vec::new());
        let unsettled = self.unsettled();
        for group in self.log.state().groups.values() {
            let expired = |topic: &TopicName, partition: i32| {
                let offset = group.offsets.get(topic, partition);
                !unsettled.is_in_flight(&group.id, topic, partition)
                    && offset.is_some_and(|o| self.is_expired(group, topic, o, now.wall))
            };
            decide_removal(group, &unsettled, expired, &mut records, &mut dying);
        }
        self.remove(now, records, dying, None, actions);
    }

    /// Removes every group's offsets in topics that no longer exist; and with them, as Kafka does, whatever group is
    /// empty and has none.
    pub fn topics_deleted(&mut self, now: Now, topics: &[TopicName], actions: &mut Vec<Action>) {
        if topics.is_empty() {
            return;
        }
        let (mut records, mut dying) = (Vec::new(), Vec::new());
        let unsettled = self.unsettled();
        for group in self.log.state().groups.values() {
            let goes = |topic: &TopicName, _| topics.contains(topic);
            decide_removal(group, &unsettled, goes, &mut records, &mut dying);
        }
        self.remove(now, records, dying, None, actions);
    }

    // Groups.

    /// DeleteGroups.
    pub fn delete_groups(
        &mut self,
        now: Now,
        ticket: Ticket,
        ids: &[&str],
        actions: &mut Vec<Action>,
    ) {
        let (mut records, mut dying, mut results) = (Vec::new(), Vec::new(), Vec::new());
        for id in ids {
            let found =
                self.log.state().groups.get(*id).filter(|g| !g.deleting && !dying.contains(&g.id));
            results.push(match found {
                None => Some(Error::GroupIdNotFound),
                Some(group) if group.state != State::Empty => Some(Error::NonEmptyGroup),
                Some(group) => {
                    let unsettled =
                        Unsettled { in_transactions: BTreeSet::new(), ..self.unsettled() };
                    decide_removal(group, &unsettled, |_, _| true, &mut records, &mut dying);
                    None
                }
            });
        }
        self.remove(now, records, dying, Some((ticket, Answer::DeleteGroups(results))), actions);
    }

    /// ListGroups: every group.
    pub fn list(&self) -> impl Iterator<Item = Overview> {
        self.log.state().groups.values().filter(|g| !g.deleting).map(Group::overview)
    }

    /// DescribeGroups; None if the group is not known.
    #[must_use]
    pub fn describe(&self, group: &str) -> Option<Description> {
        self.log.state().groups.get(group).filter(|g| !g.deleting).map(Group::describe)
    }

    // Writes.

    /// The next batch to append, in order. Its fate must be reported.
    pub fn next_batch(&mut self) -> Option<(WriteId, &[Record])> {
        self.log.next_batch()
    }

    /// The batch is in the log at `base..=last`.
    pub fn appended(&mut self, id: WriteId, base: Offset, last: Offset) {
        self.log.appended(id, base, last);
    }

    /// The batch is not in the log and never will be.
    pub fn append_failed(
        &mut self,
        now: Now,
        id: WriteId,
        error: WriteError,
        actions: &mut Vec<Action>,
    ) {
        let waiters = self.log.failed(id);
        self.resume(now, waiters, Err(error), actions);
    }

    /// Everything below `high_watermark` is committed.
    pub fn committed(&mut self, now: Now, high_watermark: Offset, actions: &mut Vec<Action>) {
        self.log.state_mut().wall = now.wall;
        let waiters = self.log.advance(high_watermark);
        self.resume(now, waiters, Ok(()), actions);
    }

    // Time.

    /// When to call [`GroupShard::tick`] if nothing happens first.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        [self.timers.next(), self.log.next_deadline(), self.next_expiry].into_iter().flatten().min()
    }

    /// Does what is due.
    pub fn tick(&mut self, now: Now, actions: &mut Vec<Action>) {
        while let Some((at, timer)) = self.timers.pop_due(now.instant) {
            let (Timer::Join { group }
            | Timer::Sync { group }
            | Timer::PendingMember { group, .. }
            | Timer::Session { group, .. }) = &timer;
            self.step(now, group, actions, |group, step| match &timer {
                Timer::Join { .. } => group.join_timer(step),
                Timer::Sync { .. } => group.sync_timer(step),
                Timer::PendingMember { member, .. } => group.pending_member_timer(member, step),
                Timer::Session { member, .. } => group.session_timer(at, member, step),
            });
        }
        let late = self.log.expire(now.instant);
        self.resume(now, late, Err(WriteError::TimedOut), actions);
        if self.next_expiry.is_some_and(|at| at <= now.instant) {
            self.next_expiry = Some(now.instant + self.config.offsets_retention_check_interval);
            self.expire_offsets(now, actions);
        }
    }

    // Within.

    fn group_or_new(&mut self, id: &str, now: Now) {
        let groups = &mut self.log.state_mut().groups;
        if !groups.contains_key(id) {
            let id = Arc::<str>::from(id);
            groups.insert(id.clone(), Group::new(id, now.wall));
        }
    }

    /// Changes a group, then queues what that made it write; None if there is no such group.
    fn step<R>(
        &mut self,
        now: Now,
        group: &str,
        actions: &mut Vec<Action>,
        change: impl FnOnce(&mut Group, &mut Step<'_>) -> R,
    ) -> Option<R> {
        let mut writes = Vec::new();
        let (config, timers) = (&self.config, &mut self.timers);
        let group = self.log.state_mut().groups.get_mut(group)?;
        let mut step =
            Step { now: now.instant, wall: now.wall, config, timers, actions, writes: &mut writes };
        let result = change(group, &mut step);
        for (group, value, waiter) in writes {
            self.log.submit(
                now.instant,
                vec![Record::Group { group, value: Some(value) }],
                Some(waiter),
            );
        }
        Some(result)
    }

    fn resume(
        &mut self,
        now: Now,
        waiters: Vec<Waiter>,
        result: Result<(), WriteError>,
        actions: &mut Vec<Action>,
    ) {
        for waiter in waiters {
            match waiter {
                Waiter::Commit { ticket, mut results } => {
                    if let Err(error) = result {
                        let error = Error::of_offset_write(error);
                        results.iter_mut().for_each(|r| *r = Some(r.unwrap_or(error)));
                    }
                    actions.push(Action::Answer(ticket, Answer::Commit(results)));
                }
                Waiter::Assignment { group, generation } => {
                    self.step(now, &group, actions, |g, step| {
                        g.assignment_stored(generation, result, step)
                    });
                }
                Waiter::StaticMember(write) => {
                    let group = write.group.clone();
                    self.step(now, &group, actions, |g, step| {
                        g.static_member_stored(*write, result, step)
                    });
                }
                Waiter::EmptyGroup { group } => {
                    // Should this broker die now, the generation before comes back, and its members time out.
                    if let Err(error) = result {
                        let error = Error::of_group_write(error);
                        actions.push(Action::Log(Event::WriteFailed { group, error }));
                    }
                }
                Waiter::Removal { dying, answer } => self.removed(dying, answer, result, actions),
            }
        }
    }

    fn removed(
        &mut self,
        dying: Vec<Arc<str>>,
        answer: Option<(Ticket, Answer)>,
        result: Result<(), WriteError>,
        actions: &mut Vec<Action>,
    ) {
        let groups = &mut self.log.state_mut().groups;
        for id in dying {
            match result {
                // Its offsets and record went with the replay; a group that had neither goes here.
                Ok(()) => _ = groups.remove(&id),
                Err(error) => {
                    if let Some(group) = groups.get_mut(&id) {
                        group.deleting = false;
                    }
                    actions.push(Action::Log(Event::WriteFailed {
                        group: id,
                        error: Error::of_group_write(error),
                    }));
                }
            }
        }
        let Some((ticket, mut answer)) = answer else { return };
        if let Err(error) = result {
            let error = Error::of_group_write(error);
            match &mut answer {
                Answer::DeleteGroups(results) => {
                    results.iter_mut().for_each(|r| *r = Some(r.unwrap_or(error)))
                }
                Answer::OffsetDelete(result) => *result = Err(error),
                Answer::Join(_) | Answer::Sync(_) | Answer::Commit(_) => {}
            }
        }
        actions.push(Action::Answer(ticket, answer));
    }

    /// Appends the removal in parts that fit a batch; the last one carries whoever waits.
    fn remove(
        &mut self,
        now: Now,
        mut records: Vec<Record>,
        dying: Vec<Arc<str>>,
        answer: Option<(Ticket, Answer)>,
        actions: &mut Vec<Action>,
    ) {
        for id in &dying {
            if let Some(group) = self.log.state_mut().groups.get_mut(id) {
                group.deleting = true;
            }
        }
        if records.is_empty() {
            return self.removed(dying, answer, Ok(()), actions);
        }
        while let Some(part) = next_part(&mut records, self.config.max_batch_bytes) {
            self.log.submit(now.instant, part, None);
        }
        self.log.submit(now.instant, records, Some(Waiter::Removal { dying, answer }));
    }

    fn unsettled(&self) -> Unsettled<'_> {
        let mut in_flight = BTreeMap::<_, Vec<_>>::new();
        for record in self.log.in_flight() {
            if let Record::Offset { group, topic, partition, value: Some(_) } = record {
                in_flight.entry(&**group).or_default().push((topic, *partition));
            }
        }
        let pending = self.log.state().transactions.values().flat_map(|t| t.keys());
        Unsettled { in_flight, in_transactions: pending.map(|(group, ..)| &**group).collect() }
    }

    fn offsets_in_flight<'a>(&'a self, group: &str) -> impl Iterator<Item = (&'a str, i32)> {
        self.log.in_flight().filter_map(move |record| match record {
            Record::Offset { group: id, topic, partition, value: Some(_) } if **id == *group => {
                Some((&**topic, *partition))
            }
            Record::Offset { .. } | Record::Group { .. } => None,
        })
    }

    /// `coordinators.md` 3.3. An offset of a topic that members read never expires.
    fn is_expired(
        &self,
        group: &Group,
        topic: &TopicName,
        offset: &CommittedOffset,
        wall: Timestamp,
    ) -> bool {
        let base = match (&group.protocol_type, &group.state) {
            (Some(_), State::Empty) => group.state_timestamp.unwrap_or(offset.commit_timestamp),
            (Some(_), State::Stable)
                if group.is_consumer_group() && !group.is_subscribed_to(topic) =>
            {
                offset.commit_timestamp
            }
            (None, _) => offset.commit_timestamp,
            (Some(_), _) => return false,
        };
        match offset.expire_timestamp {
            Some(at) => wall >= at,
            None => {
                let age = wall.0.saturating_sub(base.0);
                u64::try_from(age)
                    .is_ok_and(|age| Duration::from_millis(age) >= self.config.offsets_retention)
            }
        }
    }
}

/// Decides on tombstones for a group's offsets that `goes` picks, those in flight included. If that leaves an empty
/// group with nothing, it goes too: into `dying`, with a tombstone of its own unless nothing of it is stored.
fn decide_removal(
    group: &Group,
    unsettled: &Unsettled<'_>,
    goes: impl Fn(&TopicName, i32) -> bool,
    records: &mut Vec<Record>,
    dying: &mut Vec<Arc<str>>,
) {
    if group.deleting {
        return;
    }
    let mut stays = unsettled.in_transactions.contains(&*group.id);
    let mut removed = BTreeSet::new();
    let stored = group.offsets.iter().map(|(topic, partition, _)| (topic, partition));
    let in_flight = unsettled.in_flight.get(&*group.id).into_iter().flatten().copied();
    for (topic, partition) in stored.chain(in_flight) {
        if goes(topic, partition) {
            removed.insert((topic, partition));
        } else {
            stays = true;
        }
    }
    let tombstone = |(topic, partition): (&TopicName, i32)| Record::Offset {
        group: group.id.clone(),
        topic: topic.clone(),
        partition,
        value: None,
    };
    records.extend(removed.into_iter().map(tombstone));
    if group.state == State::Empty && !stays {
        if group.is_stored || group.generation > 0 {
            records.push(Record::Group { group: group.id.clone(), value: None });
        }
        dying.push(group.id.clone());
    }
}

/// What is on its way into the state, by group.
struct Unsettled<'a> {
    in_flight: BTreeMap<&'a str, Vec<(&'a TopicName, i32)>>,
    in_transactions: BTreeSet<&'a str>,
}

impl Unsettled<'_> {
    fn is_in_flight(&self, group: &str, topic: &TopicName, partition: i32) -> bool {
        self.in_flight.get(group).is_some_and(|offsets| offsets.contains(&(topic, partition)))
    }
}

/// The offsets of one group at one moment.
#[derive(Debug)]
pub struct GroupOffsets<'a> {
    group: Option<&'a Group>,
    unstable: BTreeSet<(&'a str, i32)>,
}

impl GroupOffsets<'_> {
    /// The offset of a partition. One that was committed for another incarnation of the topic is no offset.
    #[must_use]
    pub fn get(&self, topic: &str, partition: i32, topic_id: Option<TopicId>) -> FetchedOffset {
        if self.unstable.contains(&(topic, partition)) {
            return FetchedOffset::Unstable;
        }
        let found = self.group.and_then(|g| g.offsets.get(topic, partition));
        let same = |o: &&CommittedOffset| {
            o.topic_id.is_none() || topic_id.is_none() || o.topic_id == topic_id
        };
        found.filter(same).map_or(FetchedOffset::None, |o| FetchedOffset::Committed(o.clone()))
    }

    /// The partitions that have an offset, in order.
    pub fn all(&self) -> impl Iterator<Item = (&TopicName, i32)> {
        self.group
            .into_iter()
            .flat_map(|g| g.offsets.iter().map(|(topic, partition, _)| (topic, partition)))
    }
}

impl Groups {
    fn replay_offset(
        &mut self,
        origin: Origin,
        group: &str,
        topic: &str,
        partition: i32,
        value: Option<CommittedOffset>,
    ) {
        if let Some(producer) = origin.transaction {
            let pending = self.transactions.entry(producer).or_default();
            let key = (Arc::from(group), TopicName::from(topic), partition);
            match value {
                Some(value) => _ = pending.insert(key, value),
                None => _ = pending.remove(&key),
            }
            return;
        }
        match (self.groups.get_mut(group), value) {
            (Some(group), Some(value)) => group.offsets.insert(topic, partition, value),
            (Some(found), None) => {
                found.offsets.remove(topic, partition);
                self.drop_if_nothing(group);
            }
            (None, Some(value)) => {
                let id = Arc::<str>::from(group);
                let mut group = Group::new(id.clone(), self.wall);
                group.offsets.insert(topic, partition, value);
                self.groups.insert(id, group);
            }
            (None, None) => {}
        }
    }

    fn replay_group(&mut self, id: &str, value: Option<GroupMetadata>) {
        let wall = self.wall;
        match (self.groups.get_mut(id), value) {
            (Some(group), Some(stored)) if self.is_live => {
                group.is_stored = true;
                group.confirm(&stored, wall);
            }
            (Some(group), Some(_)) if group.is_stored && Bug::Kafka462.is_planted() => {}
            (Some(group), Some(stored)) => {
                group.is_stored = true;
                group.load(stored);
            }
            (None, Some(stored)) => {
                let id = Arc::<str>::from(id);
                let mut group = Group::new(id.clone(), wall);
                group.is_stored = true;
                group.load(stored);
                self.groups.insert(id, group);
            }
            // Its offsets have tombstones of their own: what has none is kept, as by a simple consumer.
            (Some(group), None) => {
                let offsets = std::mem::take(&mut group.offsets);
                *group = Group { offsets, ..Group::new(group.id.clone(), wall) };
                self.drop_if_nothing(id);
            }
            (None, None) => {}
        }
    }

    /// Forgets a group of which nothing is stored.
    fn drop_if_nothing(&mut self, id: &str) {
        let nothing = |g: &Group| {
            g.offsets.is_empty()
                && g.state == State::Empty
                && g.generation == 0
                && !g.is_stored
                && g.pending_members.is_empty()
        };
        if self.groups.get(id).is_some_and(nothing) {
            self.groups.remove(id);
        }
    }
}

impl Replicated for Groups {
    type Record = Record;

    fn size(record: &Record) -> usize {
        record.size()
    }

    fn replay(&mut self, origin: Origin, record: Record) {
        match record {
            Record::Offset { group, topic, partition, value } => {
                let value = value.map(|v| CommittedOffset { appended_at: origin.base_offset, ..v });
                self.replay_offset(origin, &group, &topic, partition, value);
            }
            Record::Group { group, value } => self.replay_group(&group, value),
        }
    }

    /// A plain commit that was appended after the transaction's wins, whenever the marker comes.
    fn end_transaction(&mut self, producer: ProducerId, commit: bool) {
        let pending = self.transactions.remove(&producer).filter(|_| commit).unwrap_or_default();
        for ((group, topic, partition), value) in pending {
            let current = self.groups.get(&group).and_then(|g| g.offsets.get(&topic, partition));
            if current.is_none_or(|c| c.appended_at < value.appended_at) {
                let origin = Origin { base_offset: value.appended_at, transaction: None };
                self.replay_offset(origin, &group, &topic, partition, Some(value));
            }
        }
    }
}

/// Offsets whose metadata is too long are refused, the others go on.
fn decide_commit(
    config: &GroupConfig,
    now: Now,
    commit: Commit<'_>,
) -> Decision<Record, CommitResults> {
    let group = Arc::<str>::from(commit.group);
    let expire_timestamp = commit.retention.map(|ms| Timestamp(now.wall.0.saturating_add(ms)));
    let (mut records, mut response) =
        (Vec::with_capacity(commit.offsets.len()), Vec::with_capacity(commit.offsets.len()));
    for offset in commit.offsets {
        // In bytes it is never shorter than in UTF-16 units, so the exact count is rarely needed.
        let fits = offset.metadata.len() <= config.offset_metadata_max
            || offset.metadata.encode_utf16().count() <= config.offset_metadata_max;
        response.push((!fits).then_some(Error::OffsetMetadataTooLarge));
        if fits {
            let value = CommittedOffset {
                offset: offset.offset,
                leader_epoch: offset.leader_epoch,
                metadata: Some(offset.metadata).filter(|m| !m.is_empty()),
                commit_timestamp: offset.commit_timestamp.map_or(now.wall, Timestamp),
                expire_timestamp,
                topic_id: offset.topic_id,
                appended_at: Offset(0),
            };
            let (topic, partition) = (offset.topic, offset.partition);
            records.push(Record::Offset {
                group: group.clone(),
                topic,
                partition,
                value: Some(value),
            });
        }
    }
    Decision { records, response }
}

/// Splits off the first records that fit `max_bytes`; None if all do.
fn next_part(records: &mut Vec<Record>, max_bytes: usize) -> Option<Vec<Record>> {
    let mut bytes = 0;
    let end = records.iter().position(|record| {
        bytes += record.size();
        bytes > max_bytes
    })?;
    let rest = records.split_off(end.max(1));
    if rest.is_empty() { None } else { Some(std::mem::replace(records, rest)) }
}

#[cfg(test)]
mod tests;
