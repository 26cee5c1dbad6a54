//! Brokers come, go and come back.

use super::*;
use crate::Cause;
use coordination::Stat;
use metadata::BrokerImage;
use std::collections::btree_map::Entry;

impl Driver {
    /// All registrations that can be read. Leaves no watch.
    pub(super) async fn glance_at_brokers(
        &mut self,
    ) -> Result<Vec<(BrokerId, BrokerImage, Stat)>, StoreError> {
        let names = self.session.children(znodes::BROKER_IDS, false).await?;
        let ids: Vec<BrokerId> = znodes::broker_ids(&names).collect();
        let reads = ids.iter().map(|&id| Read::data(znodes::broker_path(id))).collect();
        let found = ids.into_iter().zip(self.session.read_all(reads).await?);
        let registered = found.filter_map(|(id, found)| {
            let Ok(ReadResult::Data(Some(data), stat)) = found else { return None };
            Some((id, znodes::parse_registration(id, &data)?, stat))
        });
        Ok(registered.collect())
    }

    pub(super) async fn handle_brokers_changed(&mut self) {
        if self.active.is_none() {
            // Perhaps all are back.
            self.dirty.controller |= self.awaited.is_some();
            return;
        }
        if let Err(stopped) = self.update_brokers().await {
            self.stop(stopped, "brokers changed").await;
        }
    }

    /// Reads all registrations. One that cannot be read, or that names no listener that brokers use among
    /// themselves, is left out: it must not stop the others.
    pub(super) async fn read_brokers(&mut self) -> Result<BTreeMap<BrokerId, LiveBroker>, Stopped> {
        let names = self.session.children(znodes::BROKER_IDS, true).await.map_err(Stopped::of)?;
        let ids: Vec<BrokerId> = znodes::broker_ids(&names).collect();
        let reads = ids.iter().map(|&id| Read::data(znodes::broker_path(id)).watched()).collect();
        let found = self.session.read_all(reads).await.map_err(Stopped::of)?;
        // After the registrations: whatever is read belongs to these, or to a later one.
        let reads = ids.iter().map(|&id| Read::data(znodes::incarnation_path(id))).collect();
        let incarnations = self.session.read_all(reads).await.map_err(Stopped::of)?;
        let listener = &self.settings.inter_broker_listener;
        let active = self.active.as_mut().ok_or(Stopped::Moved)?;
        active.unusable.retain(|id| ids.contains(id));
        let mut live = BTreeMap::new();
        for ((id, found), incarnation) in ids.into_iter().zip(found).zip(incarnations) {
            let Ok(ReadResult::Data(data, stat)) = found else { continue };
            let image = znodes::parse_registration(id, &data.unwrap_or_default());
            let Some(image) = image.filter(|image| image.endpoint(listener).is_some()) else {
                if active.unusable.insert(id) {
                    tracing::warn!(broker = %id, listener, "its registration cannot be read, or has no such listener: the broker is left out");
                }
                continue;
            };
            active.unusable.remove(&id);
            let broker = LiveBroker {
                image: Arc::new(image),
                epoch: BrokerEpoch(stat.czxid.0),
                version: stat.version,
                incarnation: version_of(incarnation, stat.ephemeral_owner),
            };
            live.insert(id, broker);
        }
        Ok(live)
    }

    /// These are the live brokers from now on. Another incarnation of a broker that was there must have
    /// been taken out first: what was queued for the old one is void.
    pub(super) fn set_brokers(&mut self, live: BTreeMap<BrokerId, LiveBroker>) {
        let report_to = self.report_to.clone();
        let channels = Arc::clone(&self.surroundings.channels);
        let Some(active) = &mut self.active else { return };
        active.senders.retain(|id, _| live.contains_key(id));
        active.stops.retain(|(id, _), _| live.contains_key(id));
        active.context.offline.retain(|(id, _)| live.contains_key(id));
        active.context.doubts.retain(|(id, _), _| live.contains_key(id));
        active.context.patient.retain(|id| live.contains_key(id));
        active.context.heard.retain(|id| live.contains_key(id));
        active.doubted.retain(|id, _| live.contains_key(id));
        active.context.leaving.retain(|id| live.contains_key(id));
        for (&id, broker) in &live {
            if let Entry::Vacant(place) = active.senders.entry(id) {
                let channel = channels.open(&broker.image);
                place.insert(Sender::start(id, channel, report_to.clone()));
                active.opened.insert(id, self.last_sequence);
            }
        }
        active.context.brokers = live;
    }

    async fn update_brokers(&mut self) -> Result<(), Stopped> {
        let mut found = self.read_brokers().await?;
        self.keep_just_removed(&mut found);
        let before = &self.context().brokers;
        if *before == found {
            return Ok(());
        }
        let is_same = |id: &BrokerId| matches!((before.get(id), found.get(id)), (Some(a), Some(b)) if a.epoch == b.epoch || Bug::Kafka1120.is_planted());
        // One that was away and is back, as seen from here at once, is first gone and then new.
        let gone: BTreeSet<BrokerId> = before.keys().copied().filter(|id| !is_same(id)).collect();
        let new: BTreeSet<BrokerId> = found.keys().copied().filter(|id| !is_same(id)).collect();
        let shut_down: Vec<_> = self.context().leaving.intersection(&gone).copied().collect();
        tracing::info!(live = found.len(), ?gone, ?new, "brokers changed");
        if !gone.is_empty() {
            let mut staying = before.clone();
            staying.retain(|id, _| !gone.contains(id));
            let departures = &mut self.context_mut().departures;
            shut_down.into_iter().for_each(|id| departures.broker_leaves(id, Cause::ShutDown));
            self.set_brokers(staying);
            self.brokers_are_gone(&gone).await?;
        }
        let departures = &mut self.context_mut().departures;
        new.iter().for_each(|&id| departures.broker_came(id));
        self.set_brokers(found);
        if !new.is_empty() {
            self.hear_doubts(&new).await?;
            self.brokers_are_new(&new).await?;
        } else if gone.is_empty() {
            // Other endpoints.
            let mut outbox = Outbox::default();
            outbox.describe_brokers();
            self.send(&outbox);
        }
        self.dirty.deletions = true;
        Ok(())
    }

    async fn brokers_are_gone(&mut self, gone: &BTreeSet<BrokerId>) -> Result<(), Stopped> {
        let affected = self.context().affected_by(gone);
        let mut outbox = self.repair(affected.clone()).await?;
        outbox.describe_brokers();
        self.describe_replicas_of(gone, &affected, &mut outbox);
        self.send(&outbox);
        Ok(())
    }

    /// Which replicas are offline has changed for partitions that these brokers have.
    fn describe_replicas_of(
        &self,
        brokers: &BTreeSet<BrokerId>,
        among: &[TopicPartition],
        outbox: &mut Outbox,
    ) {
        let context = self.context();
        for at in among.iter().filter(|at| !context.deleting.contains_key(&at.topic)) {
            let partition = context.partition(at);
            if partition.is_some_and(|p| p.replicas.iter().any(|id| brokers.contains(id))) {
                outbox.describe(at);
            }
        }
    }

    async fn brokers_are_new(&mut self, new: &BTreeSet<BrokerId>) -> Result<(), Stopped> {
        let context = self.context();
        let others: Vec<_> =
            context.brokers.keys().copied().filter(|id| !new.contains(id)).collect();
        let mut outbox = Outbox::default().only_to(others);
        outbox.describe_brokers();
        self.send(&outbox);
        // Everything that there is, before they are told to lead or follow anything of it.
        let mut outbox = Outbox::default().only_to(new.iter().copied());
        outbox.describe_brokers();
        let context = self.context();
        let seen = |at: &&TopicPartition| {
            !context.deleting.contains_key(&at.topic) && !Bug::Kafka831.is_planted()
        };
        context.all_partitions().iter().filter(seen).for_each(|at| outbox.describe(at));
        self.send(&outbox);
        let affected = self.context().affected_by(new);
        // As it is, before anything is elected: what others lead is followed meanwhile.
        let mut outbox = Outbox::default();
        let context = self.context();
        for at in affected.iter().filter(|at| !context.deleting.contains_key(&at.topic)) {
            let Some(partition) = context.partition(at).filter(|p| p.state.is_some()) else {
                continue;
            };
            let returned = partition.replicas.iter().copied().filter(|id| new.contains(id));
            let returned: Vec<_> = returned.collect();
            if !returned.is_empty() {
                outbox.lead(at, returned, false);
            }
        }
        self.send(&outbox);
        let outbox = self.repair(affected).await?;
        self.send(&outbox);
        self.resume_reassignments(Some(new)).await
    }
}

/// The version of an incarnation's node, if the registration that `owner` holds was made with it.
fn version_of(found: Result<ReadResult, StoreError>, owner: Option<SessionId>) -> Option<i32> {
    let Ok(ReadResult::Data(Some(data), stat)) = found else { return None };
    let session = znodes::parse_incarnation(&data)?;
    (Some(session) == owner).then_some(stat.version)
}
