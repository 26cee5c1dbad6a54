//! Brokers whose process seems to have ended are taken out before their session expires.
//!
//! What a broker sees of another (its connections closed, new ones refused) is a hint: firewalls and proxies
//! look the same. So two must see it at the same time, this controller and another broker; then the
//! registration is removed, and everything goes as if the session had expired. Should the broker live, it
//! sees its registration vanish, stops serving, and registers anew; it is given a moment for that before
//! anybody is elected. Nothing that is committed depends on that moment: whoever is elected was in sync, and
//! what the old leader acknowledges to `acks=all` it must have copied. An election that may lose records
//! waits for the session.
//!
//! If it is the controller that seems to have ended, two others must see it. The second of them deletes
//! `/controller`, and nothing else: whoever is elected then judges its registration as that of any other. A
//! controller that lives sees the node vanish and stands for election again; what it still writes is fenced by
//! `/controller_epoch`, as after an expiry. Source: `barnabas.fast.failure.detection`; decision 9 in `docs/decisions`.

use super::failover::Notification;
use super::*;
use coordination::CreateMode;

/// How long what was seen counts. Observers say it again more often than this.
const FRESH_FOR: Duration = Duration::from_secs(2);
/// From the removal of a registration until others are elected.
const TIME_TO_STOP_SERVING: Duration = Duration::from_millis(100);

/// Who last saw which broker as one whose process has ended, in which registration and when.
pub(super) type Suspicions = BTreeMap<(BrokerId, BrokerId), (BrokerEpoch, Instant)>;

impl Driver {
    /// This broker sees `suspect` as one whose process has ended.
    pub(super) async fn suspect(&mut self, suspect: BrokerId) {
        if !self.settings.fast_failure_detection || suspect == self.settings.broker.id {
            return;
        }
        if self.active.is_none() {
            if let Err(error) = self.report_suspicion(suspect).await {
                // It is seen again half a second later, unless it is there again.
                tracing::debug!(%suspect, ?error, "nobody is told of a broker that has ended");
            }
            return;
        }
        self.note_suspicion(suspect, self.settings.broker.id);
        if let Err(stopped) = self.act_on_suspicion(suspect).await {
            self.stop(stopped, "a broker is suspected").await;
        }
    }

    /// Tells the controller. If that is the suspect, who is told are the others who see the same: the second of
    /// them takes its office from it, and whoever is elected then looks after its registration.
    async fn report_suspicion(&mut self, suspect: BrokerId) -> Result<(), Stopped> {
        let said = znodes::suspicion(suspect, self.settings.broker.id);
        let (path, mode) = (znodes::SUSPICION_PREFIX, CreateMode::EphemeralSequential);
        if let Some(before) = self.reported.remove(&suspect) {
            match self.session.delete(&before, None).await {
                // The controller has heard it.
                Ok(()) | Err(StoreError::NoNode(_)) => {}
                Err(error) => return Err(Stopped::of(error)),
            }
        }
        let told = self.session.create(path, Some(said.into()), mode).await;
        let told = told.map_err(Stopped::of)?;
        self.reported.insert(suspect, told.clone());
        let office = match self.session.get(znodes::CONTROLLER, false).await {
            Ok((_, stat)) => stat,
            Err(StoreError::NoNode(_)) => return Ok(()),
            Err(error) => return Err(Stopped::of(error)),
        };
        // Only one of ours notices, should it live, and stops. It is not put to that twice: then its port is what
        // is wrong, and nobody would get to do anything.
        let Some(owner) = office.ephemeral_owner.filter(|owner| self.vacated != Some(*owner))
        else {
            return Ok(());
        };
        if self.incarnation_of(suspect).await?.map(|(session, _)| session) != Some(owner)
            || !self.another_sees(suspect, &told).await?
        {
            return Ok(());
        }
        tracing::warn!(broker = %suspect, "the controller's process has ended, as several see: its office is vacated before its session expires");
        self.vacated = Some(owner);
        self.delete_controller_node(office).await
    }

    /// Whether another broker said the same as this one in `told`, at about the same time by the store's clock.
    async fn another_sees(&mut self, suspect: BrokerId, told: &str) -> Result<bool, Stopped> {
        let found = self.read_children(znodes::SUSPICIONS, false).await.map_err(Stopped::of)?;
        let said = found.into_iter().filter_map(|(path, found)| {
            let (data, stat) = found?;
            let (seen, observer) = znodes::parse_suspicion(&data?)?;
            (seen == suspect).then_some((path, observer, stat))
        });
        let said: Vec<_> = said.collect();
        let Some((_, _, own)) = said.iter().find(|(path, ..)| path == told) else {
            return Ok(false);
        };
        let fresh_from = own.ctime.0 - i64::try_from(FRESH_FOR.as_millis()).expect("two seconds");
        let is_another = |observer| observer != self.settings.broker.id && observer != suspect;
        Ok(said
            .iter()
            .any(|(_, observer, stat)| is_another(*observer) && stat.ctime.0 >= fresh_from))
    }

    /// The session that `id` last registered with if it is one of ours, and the version of the node that says so.
    async fn incarnation_of(&mut self, id: BrokerId) -> Result<Option<(SessionId, i32)>, Stopped> {
        match self.session.get(&znodes::incarnation_path(id), false).await {
            Ok((data, stat)) => {
                let session = data.as_deref().and_then(znodes::parse_incarnation);
                Ok(session.map(|session| (session, stat.version)))
            }
            Err(StoreError::NoNode(_)) => Ok(None),
            Err(error) => Err(Stopped::of(error)),
        }
    }

    pub(super) async fn handle_suspicions(&mut self) {
        if self.active.is_none() {
            return;
        }
        if let Err(stopped) = self.hear_suspicions().await {
            self.stop(stopped, "a broker is suspected").await;
        }
    }

    async fn hear_suspicions(&mut self) -> Result<(), Stopped> {
        let told = self.notifications(znodes::SUSPICIONS).await?;
        if told.is_empty() {
            return Ok(());
        }
        let said = told.iter().filter_map(|(_, data)| data.as_deref());
        let said: BTreeSet<_> = said.filter_map(znodes::parse_suspicion).collect();
        for &(suspect, observer) in &said {
            self.note_suspicion(suspect, observer);
        }
        for suspect in said.into_iter().map(|(suspect, _)| suspect).collect::<BTreeSet<_>>() {
            self.act_on_suspicion(suspect).await?;
        }
        self.delete_suspicions(told).await
    }

    /// A new controller starts without suspicions, and hears of new ones.
    pub(super) async fn forget_suspicions(&mut self) -> Result<(), Stopped> {
        let told = self.notifications(znodes::SUSPICIONS).await?;
        self.delete_suspicions(told).await
    }

    /// Those of an observer whose session has ended are gone by themselves: each on its own.
    async fn delete_suspicions(&mut self, told: Vec<Notification>) -> Result<(), Stopped> {
        let deletions = told.into_iter().map(|(path, _)| vec![Op::delete(path)]);
        self.commit(deletions.collect()).await.map(drop)
    }

    fn note_suspicion(&mut self, suspect: BrokerId, observer: BrokerId) {
        let Some(active) = &mut self.active else { return };
        let Some(broker) = active.context.brokers.get(&suspect) else { return };
        if active.context.brokers.contains_key(&observer) {
            let seen = (broker.epoch, Instant::now());
            active.suspicions.insert((suspect, observer), seen);
        }
    }

    /// Removes a registration that this controller and another broker hold to be left over.
    async fn act_on_suspicion(&mut self, suspect: BrokerId) -> Result<(), Stopped> {
        let own = self.settings.broker.id;
        let now = Instant::now();
        let active = self.active.as_mut().ok_or(Stopped::Moved)?;
        let brokers = &active.context.brokers;
        active.suspicions.retain(|(suspect, _), (epoch, at)| {
            now.duration_since(*at) < FRESH_FOR
                && brokers.get(suspect).is_some_and(|broker| broker.epoch == *epoch)
        });
        let observers = active.suspicions.keys().filter(|(seen, _)| *seen == suspect);
        let observers: BTreeSet<BrokerId> = observers.map(|&(_, observer)| observer).collect();
        if !observers.contains(&own) || observers.len() < 2 || active.removed.contains_key(&suspect)
        {
            return Ok(());
        }
        // One that shuts down is refused and gone soon; its leaderships are moved already.
        if active.context.leaving.contains(&suspect) || self.would_lose_records(suspect).await? {
            return Ok(());
        }
        let Some(known) = self.context().brokers.get(&suspect).map(|broker| broker.epoch) else {
            return Ok(());
        };
        let path = znodes::broker_path(suspect);
        let incarnation = znodes::incarnation_path(suspect);
        let registered = self.session.exists(&path, false).await.map_err(Stopped::of)?;
        let Some(registered) = registered.filter(|stat| stat.czxid.0 == known.0) else {
            return Ok(());
        };
        // Only one of ours notices, should it live, and comes back.
        let version = match self.incarnation_of(suspect).await? {
            Some((session, version)) if registered.ephemeral_owner == Some(session) => version,
            Some(_) | None => return Ok(()),
        };
        let ops = vec![Op::check(incarnation, version), Op::delete(path)];
        match self.commit_one(ops).await {
            Ok(_) => {
                tracing::warn!(broker = %suspect, ?observers, "its process has ended, as several see: its registration is removed before its session expires");
                if let Some(active) = &mut self.active {
                    active.context.departures.broker_leaves(suspect, crate::Cause::ProcessEnded);
                    active.removed.insert(suspect, Instant::now() + TIME_TO_STOP_SERVING);
                }
                Ok(())
            }
            // It has just started again, or gone by itself.
            Err(Stopped::Refused(StoreError::BadVersion(_) | StoreError::NoNode(_))) => Ok(()),
            Err(stopped) => Err(stopped),
        }
    }

    /// Whether the loss of `suspect` would make a replica leader that is not in sync.
    async fn would_lose_records(&mut self, suspect: BrokerId) -> Result<bool, Stopped> {
        let context = self.context();
        let is_last = |at: &TopicPartition| {
            let Some(partition) = context.partition(at) else { return false };
            let Some(state) = &partition.state else { return false };
            let stays = |id: &&BrokerId| **id != suspect && context.is_online(**id, at);
            state.node.leader == Some(suspect)
                && !state.node.isr.iter().any(|id| stays(&id))
                && partition.replicas.iter().any(|id| stays(&id))
        };
        let topics: BTreeSet<TopicName> =
            context.all_partitions().into_iter().filter(is_last).map(|at| at.topic).collect();
        Ok(!topics.is_empty() && !self.unclean_topics(topics).await?.is_empty())
    }

    /// What `found` lacks because we removed it a moment ago is still there: it may not have noticed yet.
    pub(super) fn keep_just_removed(&mut self, found: &mut BTreeMap<BrokerId, LiveBroker>) {
        let Some(active) = &mut self.active else { return };
        let now = Instant::now();
        active.removed.retain(|id, until| *until > now && !found.contains_key(id));
        for id in active.removed.keys() {
            if let Some(before) = active.context.brokers.get(id) {
                found.insert(*id, before.clone());
            }
        }
    }
}
