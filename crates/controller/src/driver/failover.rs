//! Registration, election, and what a new controller does first.

use super::*;
use crate::context::{Partition, State, Topic};
use crate::eligible::{self, Eligible};
use crate::znodes::StateNode;
use bytes::Bytes;
use coordination::{CreateMode, Stat};
use metadata::Endpoint;
use model::{LeaderEpoch, PartitionEpoch, Timestamp, TopicId};
use platform::Random;

/// A partition, what its state node is to hold, and that node's version (`None`: there is none yet).
pub(super) type StateWrite = (TopicPartition, StateNode, Option<PartitionEpoch>);

/// A write, and what else must be so.
pub(super) type CheckedWrite = (StateWrite, Vec<Op>);

/// A write with all that goes with it.
#[derive(Clone, Debug)]
pub(super) struct PlannedWrite {
    pub(super) write: StateWrite,
    checks: Vec<Op>,
    /// Who may lead without loss besides the ISR that is written.
    pub(super) list: Option<Eligible>,
}

/// Writes that are one transaction, each with the place of its state among the changes; and the changes.
type Group = (Vec<(PlannedWrite, usize)>, Vec<Op>);

/// A node's path, and what is in it if it can be read.
pub(super) type Child = (String, Option<(Option<Bytes>, Stat)>);

/// Something that was told through the store: its node's path, and what it says if it can be read.
pub(super) type Notification = (String, Option<Bytes>);

impl Driver {
    /// Registers this broker; its epoch is the change that created the node.
    pub(super) async fn register(&mut self) -> Result<(), ControllerError> {
        let id = self.settings.broker.id;
        let path = znodes::broker_path(id);
        let incarnation = znodes::incarnation_path(id);
        let applied = znodes::applied_settings_path(id);
        if let Some((store, seen)) = self.older_epoch().await? {
            return Err(ControllerError::StoreIsOld { store, seen });
        }
        self.doubt_unless_last().await?;
        self.remember_session();
        loop {
            let data =
                znodes::registration(&self.settings.broker, self.surroundings.clock.timestamp());
            // Nobody may count on this broker before it is known what it may lack.
            let mut ops = self.doubt_ops().await?;
            // Created empty and set at once, because the answer to the second has the node's `Stat`.
            ops.extend([
                Op::set(&incarnation, znodes::incarnation(self.session.id())),
                Op::set(&applied, self.applied_settings(self.applied_changes)),
                Op::create_ephemeral(&path, None),
                Op::set_if(&path, data, 0),
            ]);
            match self.session.multi(ops).await {
                Ok(results) => {
                    let Some(OpResult::Set(stat)) = results.last() else {
                        unreachable!("a set is answered by Set")
                    };
                    self.surroundings.broker_epoch.store(stat.czxid.0, Ordering::Release);
                    break;
                }
                Err(StoreError::NoNode(missing))
                    if missing == incarnation || missing == applied =>
                {
                    self.session.create_parents(&missing).await?;
                    continue;
                }
                // The controller has just acted on an earlier doubt.
                Err(StoreError::NoNode(node) | StoreError::BadVersion(node))
                    if node == znodes::doubt_path(id) =>
                {
                    continue;
                }
                Err(StoreError::NodeExists(_) | StoreError::MayHaveBeenApplied) => {}
                Err(error) => return Err(error.into()),
            }
            match self.session.exists(&path, false).await? {
                Some(stat) if stat.ephemeral_owner == Some(self.session.id()) => {
                    self.surroundings.broker_epoch.store(stat.czxid.0, Ordering::Release);
                    break;
                }
                // Left over from before a crash, or an expiry that the store has not noticed yet.
                Some(stat)
                    if stat.ephemeral_owner.is_some_and(|o| self.own_sessions.contains(&o)) =>
                {
                    tracing::info!(broker = %id, "takes over the registration of its last run");
                    let _ = self.session.delete(&path, Some(stat.version)).await;
                }
                Some(_) => return Err(ControllerError::IdTaken(id)),
                None => {}
            }
        }
        // What this process writes from here on is there as long as it is.
        self.doubt = None;
        // Left for the case that somebody removes it.
        self.session.exists(&path, true).await?;
        tracing::info!(broker = %id, broker_epoch = %self.broker_epoch(), "registered");
        Ok(())
    }

    /// The epoch of a store that knows less than this broker has seen, and what that is.
    async fn older_epoch(
        &mut self,
    ) -> Result<Option<(ControllerEpoch, ControllerEpoch)>, StoreError> {
        let path = znodes::CONTROLLER_EPOCH;
        let seen = self.epoch_record.highest();
        while seen > ControllerEpoch(0) {
            let (store, version) = match self.session.get(path, false).await {
                Ok((data, stat)) => {
                    // One that cannot be read is in the way of elections only.
                    match znodes::parse_controller_epoch(&data.unwrap_or_default()) {
                        Some(epoch) => (epoch, Some(stat.version)),
                        None => return Ok(None),
                    }
                }
                Err(StoreError::NoNode(_)) => (ControllerEpoch(0), None),
                Err(error) => return Err(error),
            };
            if store >= seen {
                return Ok(None);
            }
            // The server that was asked may be behind; a transaction is answered by all.
            match self.session.multi(vec![Op::check(path, version.unwrap_or(0))]).await {
                Ok(_) if version.is_some() => return Ok(Some((store, seen))),
                Err(StoreError::NoNode(_)) => return Ok(Some((ControllerEpoch(0), seen))),
                Ok(_) | Err(StoreError::BadVersion(_) | StoreError::MayHaveBeenApplied) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Whether no other live broker advertises an address of ours: its clients would come here, and ours go there.
    /// Only a start asks, as in Kafka; a registration that cannot be read keeps nobody from starting.
    pub(super) async fn check_addresses(&mut self) -> Result<(), ControllerError> {
        let registered = self.glance_at_brokers().await?;
        let own = &self.settings.broker;
        let is_own = |endpoint: &&Endpoint| {
            let same = |own: &Endpoint| (&own.host, own.port) == (&endpoint.host, endpoint.port);
            own.endpoints.iter().any(same)
        };
        for (other, image, _) in registered.iter().filter(|(id, ..)| *id != own.id) {
            if let Some(Endpoint { host, port, .. }) = image.endpoints.iter().find(is_own) {
                let address = model::host_and_port(host, port);
                return Err(ControllerError::AddressTaken { other: *other, address });
            }
        }
        Ok(())
    }

    /// Notes the session before anything is registered with it.
    fn remember_session(&mut self) {
        let id = self.session.id();
        if self.own_sessions.last() != Some(&id) {
            self.own_sessions.push(id);
            let old = self.own_sessions.len().saturating_sub(REMEMBERED_SESSIONS);
            self.own_sessions.drain(..old);
            self.session_record.record(&self.own_sessions);
        }
    }

    /// After the old session ended: a new one, a new registration, and a new race.
    pub(super) async fn renew_session(&mut self) -> Result<(), ControllerError> {
        self.surroundings.registration.registration_lost(self.broker_epoch());
        self.resign();
        let mut others = self.surroundings.cluster.live_brokers();
        others.remove(&self.settings.broker.id);
        loop {
            let error = match self.open_and_register().await {
                Ok(()) => break,
                Err(ControllerError::Store(StoreError::Failed(why))) => {
                    return Err(StoreError::Failed(why).into());
                }
                Err(_) if Bug::Kafka5473.is_planted() => break,
                // Whoever has our id now may be what is left of an older session of ours, and go.
                Err(error) => error,
            };
            tracing::warn!(%error, "not registered on the store yet");
            tokio::time::sleep(RETRY_SESSION_AFTER).await;
        }
        self.awaited = Some(Awaited { brokers: others, until: Instant::now() + RETURN_PATIENCE });
        (self.dirty.controller, self.dirty.configs) = (true, true);
        Ok(())
    }

    /// Whether somebody may be about to come back whom a controller would declare dead now. Those who are back are
    /// heard of.
    async fn is_waiting_for_others(&mut self) -> Result<bool, Stopped> {
        let Some(awaited) = self.awaited.as_ref().filter(|awaited| Instant::now() < awaited.until)
        else {
            self.awaited = None;
            return Ok(false);
        };
        let names = self.session.children(znodes::BROKER_IDS, true).await.map_err(Stopped::of)?;
        let back: BTreeSet<_> = znodes::broker_ids(&names).collect();
        let missing: Vec<_> = awaited.brokers.difference(&back).collect();
        if missing.is_empty() {
            self.awaited = None;
            return Ok(false);
        }
        tracing::info!(?missing, patience = ?RETURN_PATIENCE, "this broker's session expired, and those of others may have: it does not stand for election without them yet");
        Ok(true)
    }

    async fn open_and_register(&mut self) -> Result<(), ControllerError> {
        (self.session, self.events) = self.store.open_session().await?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = self.session.clone();
        self.register().await
    }

    /// Somebody touched our registration. If it is gone, so are we, for everybody else: we come back.
    pub(super) async fn handle_registration_changed(&mut self) -> Result<(), ControllerError> {
        let path = znodes::broker_path(self.settings.broker.id);
        match self.session.exists(&path, true).await {
            Ok(Some(stat)) if stat.ephemeral_owner == Some(self.session.id()) => Ok(()),
            Ok(_) => {
                self.surroundings.registration.registration_lost(self.broker_epoch());
                tracing::warn!("this broker's registration is gone though its session lives");
                self.resign();
                match self.register().await {
                    Ok(()) => {
                        self.dirty.controller = true;
                        Ok(())
                    }
                    Err(ControllerError::Store(error)) => {
                        tracing::warn!(%error, "not registered again yet");
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            // Told when the connection is back, or the session over.
            Err(error) => {
                tracing::debug!(%error, "cannot look after the registration");
                Ok(())
            }
        }
    }

    /// Looks who is controller, and stands for election if nobody is.
    pub(super) async fn handle_controller_changed(&mut self) {
        match self.elect().await {
            Ok(()) => {}
            Err(Stopped::Moved) => self.abandon().await,
            Err(Stopped::Refused(error)) if self.active.is_some() => {
                tracing::warn!(%error, "the controller cannot start");
                self.abandon().await;
                tokio::time::sleep(RETRY_SESSION_AFTER).await;
            }
            Err(Stopped::Refused(StoreError::BadArguments(node)))
                if node == znodes::CONTROLLER_EPOCH =>
            {
                let seen = self.epoch_record.highest();
                self.stand_again_later(format!("{node} holds no number: set it to the highest epoch that any broker has seen, which is {seen} here"));
            }
            Err(Stopped::Refused(error)) => self.stand_again_later(error.to_string()),
        }
    }

    /// There is something in the way of an election that only an operator can remove.
    fn stand_again_later(&mut self, hindrance: String) {
        if self.hindrance.as_ref() != Some(&hindrance) {
            tracing::error!(%hindrance, "this broker cannot stand for election as controller");
            self.hindrance = Some(hindrance);
        }
        self.look_again_at = Some(Instant::now() + STAND_AGAIN_AFTER);
    }

    async fn elect(&mut self) -> Result<(), Stopped> {
        loop {
            // The watch first, so that no change is missed.
            self.session.exists(znodes::CONTROLLER, true).await.map_err(Stopped::of)?;
            match self.session.get(znodes::CONTROLLER, false).await {
                Ok((_, stat)) => {
                    let ours = stat.ephemeral_owner == Some(self.session.id());
                    let before =
                        stat.ephemeral_owner.is_some_and(|id| self.own_sessions.contains(&id));
                    if ours && self.active.is_some() {
                        return Ok(());
                    }
                    self.resign();
                    if stat.ephemeral_owner.is_none() {
                        let node = znodes::CONTROLLER;
                        self.stand_again_later(format!(
                            "{node} was not made by a broker, and is in the way: delete it"
                        ));
                        return Ok(());
                    }
                    if !ours && !before {
                        self.hindrance = None;
                        return Ok(());
                    }
                    self.delete_controller_node(stat).await?;
                }
                Err(StoreError::NoNode(_)) => {}
                Err(error) => return Err(Stopped::of(error)),
            }
            self.resign();
            if self.is_waiting_for_others().await? {
                return Ok(());
            }
            if let Some((store, seen)) = self.older_epoch().await.map_err(Stopped::of)? {
                self.stand_again_later(ControllerError::StoreIsOld { store, seen }.to_string());
                return Ok(());
            }
            let (epoch, version) = self.read_controller_epoch().await?;
            let Some(next) = epoch.0.checked_add(1).map(ControllerEpoch) else {
                self.stand_again_later(ControllerError::EpochsAreUsedUp.to_string());
                return Ok(());
            };
            let now = self.surroundings.clock.timestamp();
            let node = znodes::controller(self.settings.broker.id, now);
            let ops = vec![
                Op::create_ephemeral(znodes::CONTROLLER, Some(node.into())),
                Op::set_if(znodes::CONTROLLER_EPOCH, znodes::controller_epoch(next), version),
            ];
            match self.session.multi(ops).await {
                Ok(results) => {
                    let Some(OpResult::Set(stat)) = results.last() else {
                        unreachable!("a set is answered by Set")
                    };
                    return self.take_over(next, stat.version).await;
                }
                // Somebody else was faster, or the reply was lost: look again.
                Err(
                    StoreError::NodeExists(_)
                    | StoreError::BadVersion(_)
                    | StoreError::MayHaveBeenApplied,
                ) => {}
                Err(error) => return Err(Stopped::of(error)),
            }
        }
    }

    /// Deletes `/controller` if it is the node that was `seen`: an election of ours left it whose reply was lost, or
    /// this broker before it crashed, or a controller whose process has ended. It would stay until that session
    /// expires.
    pub(super) async fn delete_controller_node(&mut self, seen: Stat) -> Result<(), Stopped> {
        // The epoch first, then the node: whoever is elected after this look has changed the epoch.
        let (_, version) = self.read_controller_epoch().await?;
        match self.session.exists(znodes::CONTROLLER, false).await.map_err(Stopped::of)? {
            Some(stat) if stat.czxid == seen.czxid => {}
            Some(_) | None => return Ok(()),
        }
        let check = Op::check(znodes::CONTROLLER_EPOCH, version);
        match self.session.multi(vec![check, Op::delete(znodes::CONTROLLER)]).await {
            Ok(_)
            | Err(
                StoreError::BadVersion(_) | StoreError::NoNode(_) | StoreError::MayHaveBeenApplied,
            ) => Ok(()),
            Err(error) => Err(Stopped::of(error)),
        }
    }

    async fn read_controller_epoch(&mut self) -> Result<(ControllerEpoch, i32), Stopped> {
        loop {
            match self.session.get(znodes::CONTROLLER_EPOCH, false).await {
                Ok((data, stat)) => {
                    let epoch = znodes::parse_controller_epoch(&data.unwrap_or_default());
                    let malformed = StoreError::BadArguments(znodes::CONTROLLER_EPOCH.into());
                    return Ok((epoch.ok_or(Stopped::Refused(malformed))?, stat.version));
                }
                Err(StoreError::NoNode(_)) => {}
                Err(error) => return Err(Stopped::of(error)),
            }
            let zero = znodes::controller_epoch(ControllerEpoch(0)).into();
            let created =
                self.session.create(znodes::CONTROLLER_EPOCH, Some(zero), CreateMode::Persistent);
            match created.await {
                Ok(_) | Err(StoreError::NodeExists(_) | StoreError::MayHaveBeenApplied) => {}
                Err(error) => return Err(Stopped::of(error)),
            }
        }
    }

    /// Won the election: loads everything, tells everybody, and repairs what brokers that are gone left.
    async fn take_over(&mut self, epoch: ControllerEpoch, version: i32) -> Result<(), Stopped> {
        tracing::info!(controller_epoch = %epoch, "elected controller");
        self.hindrance = None;
        // Before anything is done in it.
        self.epoch_record.raise(epoch);
        self.active = Some(Active::new(epoch, version));
        if self.session.exists(znodes::FEATURE, false).await.map_err(Stopped::of)?.is_none() {
            let feature = Some(znodes::feature().into());
            match self.session.create(znodes::FEATURE, feature, CreateMode::Persistent).await {
                Ok(_) | Err(StoreError::NodeExists(_)) => {}
                Err(error) => return Err(Stopped::of(error)),
            }
        }
        self.forget_log_dir_events().await?;
        self.forget_suspicions().await?;
        let brokers = self.read_brokers().await?;
        self.set_brokers(brokers);
        self.load_topics().await?;
        self.forget_stray_lists().await?;
        self.load_deletions().await?;
        self.raise_leader_epochs().await?;
        let all = self.context().brokers.keys().copied().collect();
        self.hear_doubts(&all).await?;
        if self.context().brokers.len() > 1 {
            // Brokers must know which brokers live before they are told to follow one.
            let mut outbox = Outbox::default();
            outbox.describe_brokers();
            self.send(&outbox);
        }
        let mut everything = self.context().all_partitions();
        everything.retain(|at| !self.context().deleting.contains_key(&at.topic));
        let mut outbox = self.repair(everything.clone()).await?;
        // One that is alone serves clients from its first image on: that has all its topics.
        outbox.describe_brokers();
        for at in &everything {
            let context = self.context();
            if context.partition(at).is_some_and(|p| p.state.is_some()) {
                outbox.lead(at, context.reachable_replicas(at), false);
            }
        }
        self.send(&outbox);
        self.take_over_legacy_reassignments().await?;
        self.resume_reassignments(None).await?;
        self.take_over_legacy_elections().await?;
        self.dirty.deletions = true;
        self.dirty.isr_changes = true;
        if let Some(active) = &mut self.active
            && self.settings.auto_leader_rebalance
        {
            active.balance_at = Some(Instant::now() + FIRST_BALANCE_AFTER);
        }
        Ok(())
    }

    /// A store that was restored from an old copy may know lower leader epochs than the logs have: nobody could follow
    /// such a leader. If an operator asks for it, all are raised. Asked for again where a controller dies half-way, some
    /// are raised twice, which does no harm.
    async fn raise_leader_epochs(&mut self) -> Result<(), Stopped> {
        let path = znodes::RAISE_LEADER_EPOCHS;
        let data = match self.session.get(path, false).await {
            Ok((data, _)) => data.unwrap_or_default(),
            Err(StoreError::NoNode(_)) => return Ok(()),
            Err(error) => return Err(Stopped::of(error)),
        };
        let number =
            std::str::from_utf8(&data).ok().and_then(|text| text.trim().parse::<u16>().ok());
        let Some(number) = number else {
            tracing::warn!(node = path, "is not a number up to 65535 and is left alone");
            return Ok(());
        };
        let controller_epoch = self.active.as_ref().ok_or(Stopped::Moved)?.epoch;
        // The copy's lists are as old as its ISRs.
        let all = self.context().all_partitions();
        self.leave_lists(all, |_, _| true).await?;
        let context = self.context();
        let writes = context.all_partitions().into_iter().filter_map(|at| {
            let state = context.partition(&at)?.state.clone()?;
            let leader_epoch = LeaderEpoch(state.node.leader_epoch.0.checked_add(number.into())?);
            let node = StateNode { leader_epoch, controller_epoch, ..state.node };
            Some((at, node, Some(state.partition_epoch)))
        });
        let writes: Vec<StateWrite> = writes.collect();
        let written = self.write_states(writes).await?;
        for (at, result) in &written {
            if let Err(error) = result {
                tracing::warn!(partition = %at, %error, "its leader epoch is not raised; ask for it again");
            }
        }
        match self.commit_one(vec![Op::delete(path)]).await {
            Ok(_) | Err(Stopped::Refused(StoreError::NoNode(_))) => {}
            Err(stopped) => return Err(stopped),
        }
        tracing::info!(
            by = number,
            partitions = written.len(),
            "raised all leader epochs, as asked for"
        );
        Ok(())
    }

    /// What log directory events tell, a new controller learns anyway: it reads everything anew. They are
    /// watched from here on, like the other nodes from when they are read.
    async fn forget_log_dir_events(&mut self) -> Result<(), Stopped> {
        let names =
            self.session.children(znodes::LOG_DIR_EVENTS, true).await.map_err(Stopped::of)?;
        let path = |name| format!("{}/{name}", znodes::LOG_DIR_EVENTS);
        let ops: Vec<_> = names.into_iter().map(|name| Op::delete(path(name))).collect();
        if !ops.is_empty() {
            self.commit_one(ops).await?;
        }
        Ok(())
    }

    /// The children of `parent`, and what is in each that can be read.
    pub(super) async fn read_children(
        &mut self,
        parent: &str,
        watch: bool,
    ) -> Result<Vec<Child>, StoreError> {
        let names = self.session.children(parent, watch).await?;
        let paths: Vec<_> = names.iter().map(|name| format!("{parent}/{name}")).collect();
        let found = self.session.read_all(paths.iter().map(Read::data).collect()).await?;
        let read = paths.into_iter().zip(found).map(|(path, found)| match found {
            Ok(ReadResult::Data(data, stat)) => (path, Some((data, stat))),
            Ok(ReadResult::Exists(_) | ReadResult::Children(..)) | Err(_) => (path, None),
        });
        Ok(read.collect())
    }

    /// The notifications below `parent`, which is watched.
    pub(super) async fn notifications(
        &mut self,
        parent: &str,
    ) -> Result<Vec<Notification>, Stopped> {
        let said = self.read_children(parent, true).await.map_err(Stopped::of)?.into_iter();
        let said =
            said.map(|(path, found)| (path, found.map(|(data, _)| data.unwrap_or_default())));
        Ok(said.collect())
    }

    pub(super) fn context(&self) -> &Context {
        &self.active.as_ref().expect("only asked while we are controller").context
    }

    pub(super) fn context_mut(&mut self) -> &mut Context {
        &mut self.active.as_mut().expect("only asked while we are controller").context
    }

    async fn load_topics(&mut self) -> Result<(), Stopped> {
        let names = self.session.children(znodes::TOPICS, true).await.map_err(Stopped::of)?;
        self.load(names.into_iter().map(TopicName::from).collect()).await.map(drop)
    }

    /// Reads topics into the context; returns those that were there.
    pub(super) async fn load(&mut self, names: Vec<TopicName>) -> Result<Vec<TopicName>, Stopped> {
        let reads =
            names.iter().map(|name| Read::data(znodes::topic_path(name)).watched()).collect();
        let found = self.session.read_all(reads).await.map_err(Stopped::of)?;
        let mut loaded = Vec::with_capacity(names.len());
        let mut without_id = Vec::new();
        for (name, found) in names.into_iter().zip(found) {
            let Ok(ReadResult::Data(Some(data), _)) = found else { continue };
            let Some(node) = znodes::parse_topic(&data) else {
                self.note_unreadable(&name);
                continue;
            };
            if let Some(active) = &mut self.active {
                active.unreadable.remove(&name);
            }
            let id = node.id.unwrap_or_else(|| random_id(&*self.surroundings.random));
            let moving = |of: &BTreeMap<i32, Vec<BrokerId>>, index| {
                of.get(&index).cloned().unwrap_or_default()
            };
            let partitions = node.partitions.iter().map(|(&index, replicas)| {
                let (adding, removing) =
                    (moving(&node.adding, index), moving(&node.removing, index));
                (index, Partition { adding, removing, ..Partition::assigned(replicas.clone()) })
            });
            let topic = Topic { id, partitions: partitions.collect(), has_partitions_node: false };
            if node.id.is_none() {
                without_id
                    .push(vec![Op::set(znodes::topic_path(&name), znodes::topic(&topic.node()))]);
            }
            loaded.push((name, topic));
        }
        let reads = loaded.iter().map(|(name, _)| Read::exists(znodes::partitions_path(name)));
        let found = self.session.read_all(reads.collect()).await.map_err(Stopped::of)?;
        for ((_, topic), found) in loaded.iter_mut().zip(found) {
            topic.has_partitions_node = matches!(found, Ok(ReadResult::Exists(Some(_))));
        }
        let with_states = loaded.iter_mut().filter(|(_, topic)| topic.has_partitions_node);
        let mut partitions: Vec<(&TopicName, i32, &mut Partition)> = with_states
            .flat_map(|(name, topic)| topic.partitions.iter_mut().map(|(&i, p)| (&*name, i, p)))
            .collect();
        let reads = partitions.iter().map(|(name, i, _)| Read::data(znodes::state_path(name, *i)));
        let found = self.session.read_all(reads.collect()).await.map_err(Stopped::of)?;
        let epoch = self.active.as_ref().map_or(ControllerEpoch(i32::MAX), |active| active.epoch);
        let mut written = Vec::new();
        let mut unreadable = Vec::new();
        for ((name, index, partition), found) in partitions.iter_mut().zip(found) {
            let written_at = take_state(partition, name, *index, found, epoch);
            let at = || TopicPartition::new((*name).clone(), *index);
            written.extend(written_at.map(|written| (at(), written)));
            unreadable.extend(partition.is_unreadable.then(at));
        }
        if !without_id.is_empty() {
            self.commit(without_id).await?;
        }
        let names: Vec<TopicName> = loaded.iter().map(|(name, _)| name.clone()).collect();
        for (name, topic) in loaded {
            self.context_mut().insert(name, topic);
        }
        self.load_lists(&names.iter().cloned().collect()).await?;
        let context = self.context_mut();
        written.iter().for_each(|(at, written)| context.note_read_isr(at, *written));
        self.watch_states(unreadable).await?;
        Ok(names)
    }

    /// Gives `partitions` the leaders and ISRs that the live brokers call for, writes those, and returns
    /// whom to tell.
    pub(super) async fn repair(
        &mut self,
        partitions: Vec<TopicPartition>,
    ) -> Result<Outbox, Stopped> {
        let mut outbox = Outbox::default();
        let mut pending = partitions;
        for _ in 0..STATE_TRIES {
            pending = self.repair_once(pending, &mut outbox).await?;
            if pending.is_empty() {
                break;
            }
            self.refresh_states(&pending).await?;
        }
        for at in pending {
            tracing::warn!(partition = %at, "its state cannot be written");
        }
        Ok(outbox)
    }

    /// Returns the partitions whose state is not as we know it.
    async fn repair_once(
        &mut self,
        partitions: Vec<TopicPartition>,
        outbox: &mut Outbox,
    ) -> Result<Vec<TopicPartition>, Stopped> {
        let offline: BTreeSet<TopicName> = {
            let context = self.context();
            let offline = partitions.iter().filter(|at| !context.has_online_leader(at));
            offline.map(|at| at.topic.clone()).collect()
        };
        let unclean = self.unclean_topics(offline).await?;
        self.drop_void_lists(&partitions).await?;
        let epoch = self.active.as_ref().ok_or(Stopped::Moved)?.epoch;
        let context = self.context();
        let writes: Vec<StateWrite> = partitions
            .into_iter()
            .filter(|at| !context.deleting.contains_key(&at.topic))
            .filter_map(|at| {
                let node = context.repaired(&at, unclean.contains(&at.topic), epoch)?;
                let version = context.partition(&at)?.state.as_ref().map(|s| s.partition_epoch);
                Some((at, node, version))
            })
            .collect();
        let is_new: BTreeSet<TopicPartition> =
            writes.iter().filter(|w| w.2.is_none()).map(|w| w.0.clone()).collect();
        let mut again = Vec::new();
        for (at, result) in self.write_states(writes).await? {
            match result {
                Ok(()) => {
                    let context = self.context();
                    let told = context.reachable_replicas(&at);
                    if let Some(state) = context.partition(&at).and_then(|p| p.state.as_ref())
                        && state.node.recovering
                    {
                        // It may also be that nothing is lost: whoever leads says what it has.
                        tracing::warn!(partition = %at, leader = ?state.node.leader, leader_epoch = %state.node.leader_epoch, "unclean election: what only other replicas had is lost");
                    }
                    outbox.lead(&at, told, is_new.contains(&at));
                }
                Err(StoreError::BadVersion(_) | StoreError::NodeExists(_)) => again.push(at),
                Err(error) => {
                    tracing::warn!(partition = %at, %error, "its state cannot be written");
                }
            }
        }
        Ok(again)
    }

    /// Reads states again that are not as we know them.
    pub(super) async fn refresh_states(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<(), Stopped> {
        let reads = partitions.iter().flat_map(|at| {
            [
                Read::data(znodes::state_path(&at.topic, at.partition)),
                Read::exists(znodes::partition_path(&at.topic, at.partition)),
                Read::exists(znodes::partitions_path(&at.topic)),
            ]
        });
        let found = self.session.read_all(reads.collect()).await.map_err(Stopped::of)?;
        let epoch = self.active.as_ref().ok_or(Stopped::Moved)?.epoch;
        let exists = |found: Option<Result<ReadResult, StoreError>>| {
            matches!(found, Some(Ok(ReadResult::Exists(Some(_)))))
        };
        let mut found = found.into_iter();
        for at in partitions {
            let (state, node, partitions) = (found.next(), found.next(), found.next());
            let context = self.context_mut();
            if let Some(topic) = context.topics.get_mut(&at.topic) {
                topic.has_partitions_node = exists(partitions);
            }
            if let (Some(partition), Some(state)) = (context.partition_mut(at), state) {
                partition.has_node = exists(node);
                let before = partition.state.as_ref().map(|state| state.node.isr.clone());
                let written = take_state(partition, &at.topic, at.partition, state, epoch);
                match (before, written) {
                    // A leader that writes its state itself may have changed the ISR.
                    (Some(before), Some(written)) => context.note_isr(at, Some(&before), written),
                    (None, Some(written)) => context.note_read_isr(at, written),
                    (_, None) => {}
                }
            }
            self.settle_doubts(at, None);
        }
        self.read_lists(partitions).await?;
        let context = self.context();
        let is_unreadable =
            |at: &&TopicPartition| context.partition(at).is_some_and(|p| p.is_unreadable);
        let unreadable = partitions.iter().filter(is_unreadable).cloned().collect();
        self.watch_states(unreadable).await
    }

    /// States that cannot be read are taken up when somebody mends them.
    async fn watch_states(&mut self, unreadable: Vec<TopicPartition>) -> Result<(), Stopped> {
        if unreadable.is_empty() {
            return Ok(());
        }
        let epoch = self.active.as_ref().map_or(ControllerEpoch(i32::MAX), |active| active.epoch);
        let path = |at: &TopicPartition| znodes::state_path(&at.topic, at.partition);
        let reads = unreadable.iter().map(|at| Read::data(path(at)).watched()).collect();
        let found = self.session.read_all(reads).await.map_err(Stopped::of)?;
        for (at, found) in unreadable.into_iter().zip(found) {
            let Ok(ReadResult::Data(data, _)) = found else { continue };
            let node = znodes::parse_state(&data.unwrap_or_default());
            if node.is_some_and(|node| node.controller_epoch <= epoch) {
                // Just now.
                self.dirty.states.insert(at);
            }
        }
        Ok(())
    }

    /// Writes state nodes, each on condition that it is as we know it, and notes what was written.
    pub(super) async fn write_states(
        &mut self,
        writes: Vec<StateWrite>,
    ) -> Result<Vec<(TopicPartition, Result<(), StoreError>)>, Stopped> {
        let writes = writes.into_iter().map(|write| (write, Vec::new()));
        self.write_checked_states(writes.collect()).await
    }

    /// As [`Self::write_states`], each also on condition of what goes with it.
    pub(super) async fn write_checked_states(
        &mut self,
        writes: Vec<CheckedWrite>,
    ) -> Result<Vec<(TopicPartition, Result<(), StoreError>)>, Stopped> {
        let (writes, checks): (Vec<StateWrite>, Vec<Vec<Op>>) = writes.into_iter().unzip();
        let lists = self.lists_for(&writes).await?;
        let mut outcome = Vec::new();
        let mut groups: Vec<Group> = Vec::new();
        let mut made = Made::default();
        let mut size = usize::MAX;
        for ((write, checks), list) in writes.into_iter().zip(checks).zip(lists) {
            let list = match list {
                Ok(list) => list,
                // Its leader was elected by a list that has just become void.
                Err(void) => {
                    outcome.push((write.0, Err(void)));
                    continue;
                }
            };
            let planned = PlannedWrite { write, checks, list };
            let ops = self.state_ops(&planned, &mut made);
            let ops_size: usize = ops.iter().map(Op::size).sum();
            if size.saturating_add(ops_size) > MAX_TRANSACTION_BYTES {
                groups.push(Default::default());
                size = 0;
            }
            size += ops_size;
            let group = groups.last_mut().expect("pushed above");
            group.1.extend(ops);
            group.0.push((planned, group.1.len() - 1));
        }
        let (groups, transactions): (Vec<_>, Vec<_>) = groups.into_iter().unzip();
        let results = self.commit(transactions).await?;
        for (group, result) in groups.into_iter().zip(results) {
            match result {
                Ok(results) => {
                    for (planned, position) in group {
                        outcome.push((planned.write.0.clone(), Ok(())));
                        self.note_planned(planned, state_version(results.get(position)));
                    }
                }
                Err(error) if group.len() == 1 && !is_of_lists(&error) => {
                    let ats = group.into_iter().map(|(planned, _)| planned.write.0);
                    outcome.extend(ats.map(|at| (at, Err(error.clone()))));
                }
                // One of them is not as we know it; the others need not suffer.
                Err(_) => {
                    for (planned, _) in group {
                        let at = planned.write.0.clone();
                        outcome.push((at, self.write_alone(planned).await?));
                    }
                }
            }
        }
        Ok(outcome)
    }

    /// Writes one state; what is known of its list may be wrong, which must not keep the state from being written.
    async fn write_alone(
        &mut self,
        mut planned: PlannedWrite,
    ) -> Result<Result<(), StoreError>, Stopped> {
        for tries in 0.. {
            let mut ops = self.state_ops(&planned, &mut Made::default());
            if tries == LIST_TRIES {
                planned.list = None;
                ops.retain(|op| !op.path().starts_with(znodes::ELIGIBLE));
            }
            match self.commit_one(ops).await {
                Ok(results) => {
                    self.note_planned(planned, state_version(results.last()));
                    return Ok(Ok(()));
                }
                Err(Stopped::Refused(error)) if tries < LIST_TRIES && is_of_lists(&error) => {
                    let at = planned.write.0.clone();
                    let is_listed = |driver: &Self| {
                        driver.context().partition(&at).is_some_and(|p| p.eligible.is_some())
                    };
                    let was_listed = is_listed(self);
                    self.read_lists(std::slice::from_ref(&at)).await?;
                    // Who deletes a list means it.
                    if was_listed && !is_listed(self) {
                        planned.list = None;
                    }
                }
                Err(Stopped::Refused(error)) => return Ok(Err(error)),
                Err(stopped) => return Err(stopped),
            }
        }
        unreachable!("the last try ends it")
    }

    /// The changes that write one state, which comes last: after what else must be so, and its list.
    fn state_ops(&self, planned: &PlannedWrite, made: &mut Made) -> Vec<Op> {
        let (at, node, version) = &planned.write;
        let mut ops = planned.checks.clone();
        ops.extend(self.list_ops(planned, &mut made.lists));
        let path = znodes::state_path(&at.topic, at.partition);
        let Some(version) = version else {
            let topic = self.context().topics.get(&at.topic);
            if topic.is_some_and(|t| !t.has_partitions_node) && made.topics.insert(at.topic.clone())
            {
                ops.push(Op::create_null(znodes::partitions_path(&at.topic)));
            }
            if self.context().partition(at).is_none_or(|partition| !partition.has_node) {
                ops.push(Op::create_null(znodes::partition_path(&at.topic, at.partition)));
            }
            ops.push(Op::create(path, znodes::state(node)));
            return ops;
        };
        ops.push(Op::set_if(path, znodes::state(node), version.0));
        ops
    }

    fn note_planned(&mut self, planned: PlannedWrite, version: i32) {
        let PlannedWrite { write, list, .. } = planned;
        let at = write.0.clone();
        let context = self.context_mut();
        if context.partition(&at).is_some_and(|p| eligible::is_elected_by_list(p, &write.1)) {
            let (leader, leader_epoch) = (write.1.leader, write.1.leader_epoch);
            tracing::info!(partition = %at, ?leader, %leader_epoch, "a former member of the ISR leads, which has all that was committed: nobody in the ISR can");
        }
        if list.is_some() {
            context.eligible_topics.insert(at.topic.clone());
        }
        if let Some(partition) = context.partition_mut(&at) {
            partition.has_eligible_node = list.is_some();
            partition.eligible = list;
        }
        self.note_state(write, version);
    }

    pub(super) fn note_state(&mut self, write: StateWrite, version: i32) {
        let (at, node, _) = write;
        let now = self.surroundings.clock.timestamp();
        let context = self.context_mut();
        if let Some(topic) = context.topics.get_mut(&at.topic) {
            topic.has_partitions_node = true;
        }
        let leader = node.leader;
        if let Some(partition) = context.partition_mut(&at) {
            let partition_epoch = PartitionEpoch(version);
            let before = partition.state.replace(State { node, partition_epoch });
            context.note_isr(&at, before.as_ref().map(|state| &*state.node.isr), now);
        }
        self.settle_doubts(&at, leader);
    }

    /// What to do when a step ends early.
    pub(super) async fn stop(&mut self, stopped: Stopped, step: &'static str) {
        match stopped {
            Stopped::Moved => self.abandon().await,
            Stopped::Refused(error) => {
                tracing::warn!(step, %error, "the store refused; all is looked at again soon");
                self.look_again_at = Some(Instant::now() + RETRY_SESSION_AFTER);
            }
        }
    }
}

/// Notes what a state node holds; returns when that was written.
fn take_state(
    partition: &mut Partition,
    topic: &TopicName,
    index: i32,
    found: Result<ReadResult, StoreError>,
    epoch: ControllerEpoch,
) -> Option<Timestamp> {
    let (node, stat) = match found {
        Ok(ReadResult::Data(data, stat)) => (znodes::parse_state(&data.unwrap_or_default()), stat),
        Ok(_) | Err(_) => {
            (partition.state, partition.is_unreadable) = (None, false);
            return None;
        }
    };
    let was_unreadable = std::mem::replace(&mut partition.is_unreadable, false);
    match node {
        Some(node) if node.controller_epoch <= epoch => {
            let partition_epoch = PartitionEpoch(stat.version);
            partition.state = Some(State { node, partition_epoch });
            Some(stat.mtime)
        }
        node => {
            (partition.state, partition.is_unreadable) = (None, true);
            if !was_unreadable {
                let later = node.map(|node| node.controller_epoch.0);
                tracing::warn!(%topic, partition = index, controller_epoch = ?later, "its state cannot be read, or a later controller wrote it: the partition is left alone");
            }
            None
        }
    }
}

/// How often one state is written again because its list was not as it was known, before it is written without.
const LIST_TRIES: usize = 2;

/// The topics whose nodes earlier changes of a batch create.
#[derive(Default)]
struct Made {
    topics: BTreeSet<TopicName>,
    lists: BTreeSet<TopicName>,
}

/// Whether a write failed for want of a list's node, or because there is one.
fn is_of_lists(error: &StoreError) -> bool {
    matches!(error, StoreError::NoNode(path) | StoreError::NodeExists(path) if path.starts_with(znodes::ELIGIBLE))
}

/// The version of a state node that was created or set.
fn state_version(result: Option<&OpResult>) -> i32 {
    match result {
        Some(OpResult::Set(stat)) => stat.version,
        Some(OpResult::Created(_) | OpResult::Deleted | OpResult::Checked) | None => 0,
    }
}

/// A topic's id; never one of Kafka's reserved ones (zero and one), nor one that starts with a dash,
/// which tools would take for an option.
pub(super) fn random_id(random: &dyn Random) -> TopicId {
    loop {
        let mut bytes = [0; 16];
        random.fill(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let id = TopicId(bytes);
        if !id.to_string().starts_with('-') {
            return id;
        }
    }
}
