//! What is known is compared with the store from time to time, and what differs is taken up as if its event had come.
//!
//! Watches tell of changes once, and whoever misses one does not hear of the next either. The client makes good what a
//! lost connection swallowed; this is for everything else (F-D5, KAFKA-3085, KAFKA-5879): so every read here also leaves its
//! watch again. Partitions go in batches, between which everybody else gets a turn; nobody watches their states, which only
//! the controller and, in old clusters, leaders write. Key: `barnabas.controller.reconcile.interval.ms`.

use super::*;
use coordination::Stat;
use std::collections::VecDeque;

/// How many partitions are compared in one go.
const BATCH: usize = 500;

impl Driver {
    pub(super) fn next_reconcile(&self) -> Option<Instant> {
        self.settings.reconcile_interval.map(|interval| Instant::now() + interval)
    }

    /// Compares all but partitions, which it queues.
    pub(super) async fn reconcile(&mut self) {
        self.reconcile_at = self.next_reconcile();
        if let Err(error) = self.compare_own().await {
            // There is no connection: what was missed meanwhile is heard of when there is.
            tracing::debug!(%error, "nothing can be compared with the store now");
            return;
        }
        if self.active.is_some()
            && let Err(stopped) = self.compare_cluster().await
        {
            self.stop(stopped, "comparing with the store").await;
        }
    }

    /// What every broker watches.
    async fn compare_own(&mut self) -> Result<(), StoreError> {
        let own = znodes::broker_path(self.settings.broker.id);
        let reads = vec![
            Read::exists(znodes::CONTROLLER).watched(),
            Read::exists(own).watched(),
            Read::children(znodes::CONFIG_CHANGES).watched(),
        ];
        let mut found = self.session.read_all(reads).await?.into_iter();
        let is_ours = |stat: Option<Stat>| {
            stat.is_some_and(|stat| stat.ephemeral_owner == Some(self.session.id()))
        };
        if let Some(Ok(ReadResult::Exists(stat))) = found.next()
            && (stat.is_none() || is_ours(stat) != self.active.is_some())
        {
            // One that waits for others knows that there is none.
            if self.awaited.is_none() && self.look_again_at.is_none() {
                differs("who is controller");
            }
            self.dirty.controller = true;
        }
        if let Some(Ok(ReadResult::Exists(stat))) = found.next()
            && !is_ours(stat)
        {
            differs("this broker's registration");
            self.dirty.registration = true;
        }
        if let Some(Ok(ReadResult::Children(names, ..))) = found.next() {
            let numbers = names.iter().filter_map(|name| znodes::config_change_number(name));
            if numbers.max() > self.last_config_change {
                differs("changed settings");
                self.dirty.configs = true;
            }
        }
        Ok(())
    }

    /// What the controller watches besides.
    async fn compare_cluster(&mut self) -> Result<(), Stopped> {
        let names = self.session.children(znodes::BROKER_IDS, true).await.map_err(Stopped::of)?;
        let ids: Vec<BrokerId> = znodes::broker_ids(&names).collect();
        let mut reads: Vec<Read> =
            ids.iter().map(|&id| Read::exists(znodes::broker_path(id)).watched()).collect();
        reads.extend([
            Read::children(znodes::TOPICS).watched(),
            Read::children(znodes::DELETE_TOPICS).watched(),
            Read::children(znodes::LOG_DIR_EVENTS).watched(),
            Read::children(znodes::ISR_CHANGES).watched(),
            Read::children(znodes::SUSPICIONS).watched(),
            Read::exists(znodes::REASSIGN_PARTITIONS).watched(),
            Read::exists(znodes::PREFERRED_ELECTION).watched(),
        ]);
        let mut found = self.session.read_all(reads).await.map_err(Stopped::of)?.into_iter();
        let dirty = &mut self.dirty;
        let active = self.active.as_mut().ok_or(Stopped::Moved)?;
        let context = &active.context;
        let registered: BTreeMap<BrokerId, (i64, i32)> = ids
            .into_iter()
            .zip(found.by_ref())
            .filter_map(|(id, found)| match found {
                Ok(ReadResult::Exists(Some(stat))) => Some((id, (stat.czxid.0, stat.version))),
                _ => None,
            })
            // Left out on purpose.
            .filter(|(id, _)| !active.removed.contains_key(id) && !active.unusable.contains(id))
            .collect();
        let known = context.brokers.iter();
        let known: BTreeMap<BrokerId, (i64, i32)> =
            known.map(|(&id, broker)| (id, (broker.epoch.0, broker.version))).collect();
        if registered != known {
            differs("which brokers live");
            dirty.brokers = true;
        }
        // One that cannot be used may have been mended.
        dirty.brokers |= !active.unusable.is_empty();
        let mut children = || match found.next() {
            Some(Ok(ReadResult::Children(names, ..))) => names,
            _ => Vec::new(),
        };
        let topics = children().into_iter().map(TopicName::from);
        let mut unknown = topics
            .filter(|name| !context.topics.contains_key(name) && !active.unreadable.contains(name));
        if let Some(name) = unknown.next() {
            tracing::info!(topic = %name, "found by comparing with the store");
            dirty.topic_list = true;
        }
        dirty.topic_list |= active.unreadable.iter().any(|name| !context.topics.contains_key(name));
        let mut marked = children().into_iter().map(TopicName::from);
        if marked.any(|name| !context.deleting.contains_key(&name)) {
            differs("topics to delete");
            dirty.deletions = true;
        }
        for (what, dirty) in [
            ("log directories that failed", &mut dirty.log_dirs),
            ("changes of ISRs", &mut dirty.isr_changes),
            ("brokers that are suspected", &mut dirty.suspicions),
        ] {
            if !children().is_empty() {
                differs(what);
                *dirty = true;
            }
        }
        let mut exists = || matches!(found.next(), Some(Ok(ReadResult::Exists(Some(_)))));
        if exists() && active.legacy_reassignments.is_empty() {
            dirty.reassignments = true;
        }
        dirty.elections |= exists();
        active.uncompared = context.all_partitions().into();
        Ok(())
    }

    /// Compares the next batch of partitions.
    pub(super) async fn reconcile_some(&mut self) {
        let Some(active) = &mut self.active else { return };
        let count = active.uncompared.len().min(BATCH);
        if count == 0 {
            return;
        }
        let batch: Vec<TopicPartition> = active.uncompared.drain(..count).collect();
        if let Err(stopped) = self.compare_partitions(batch).await {
            self.stop(stopped, "comparing with the store").await;
        }
    }

    async fn compare_partitions(&mut self, mut batch: Vec<TopicPartition>) -> Result<(), Stopped> {
        let context = self.context();
        batch.retain(|at| {
            context.partition(at).is_some() && !context.deleting.contains_key(&at.topic)
        });
        let topics: BTreeSet<TopicName> = batch.iter().map(|at| at.topic.clone()).collect();
        let mut reads: Vec<Read> =
            topics.iter().map(|name| Read::data(znodes::topic_path(name)).watched()).collect();
        let states = batch.iter().map(|at| znodes::state_path(&at.topic, at.partition));
        reads.extend(states.map(Read::data));
        let found = self.session.read_all(reads).await.map_err(Stopped::of)?;
        let epoch = self.active.as_ref().ok_or(Stopped::Moved)?.epoch;
        let (of_topics, of_states) = found.split_at(topics.len());
        let context = self.context();
        let mut changed: BTreeSet<TopicName> = BTreeSet::new();
        for (name, found) in topics.into_iter().zip(of_topics) {
            let Ok(ReadResult::Data(data, _)) = found else { continue };
            let node = znodes::parse_topic(data.as_deref().unwrap_or_default());
            let Some(known) = context.topics.get(&name) else { continue };
            let is_known = |index: &i32| known.partitions.contains_key(index);
            if node.is_none_or(|node| !node.partitions.keys().all(is_known)) {
                changed.insert(name);
            }
        }
        let differ = batch.into_iter().zip(of_states).filter_map(|(at, found)| {
            let known = context.partition(&at)?;
            let node = match found {
                Ok(ReadResult::Data(data, stat)) => Some((data, stat.version)),
                Err(StoreError::NoNode(_)) => None,
                _ => return None,
            };
            let is_same = match (&node, &known.state) {
                (Some((_, version)), Some(state)) => *version == state.partition_epoch.0,
                (Some((data, _)), None) => {
                    let node = znodes::parse_state(data.as_deref().unwrap_or_default());
                    let can_be_read = node.is_some_and(|node| node.controller_epoch <= epoch);
                    known.is_unreadable && !can_be_read
                }
                (None, Some(_)) => false,
                (None, None) => true,
            };
            (!is_same).then_some(at)
        });
        let differ: Vec<TopicPartition> = differ.collect();
        self.dirty.topics.extend(changed);
        if let Some(first) = differ.first() {
            tracing::info!(partitions = differ.len(), %first, "states found by comparing with the store");
            self.take_up_states(differ).await?;
        }
        Ok(())
    }

    /// Nodes of states that could not be read have changed.
    pub(super) async fn handle_states_changed(&mut self) {
        let states = std::mem::take(&mut self.dirty.states);
        if self.active.is_none() || states.is_empty() {
            return;
        }
        let known = |at: &TopicPartition| self.context().partition(at).is_some();
        let states: Vec<_> = states.into_iter().filter(known).collect();
        if let Err(stopped) = self.take_up_mended(states).await {
            self.stop(stopped, "states changed").await;
        }
    }

    async fn take_up_mended(&mut self, partitions: Vec<TopicPartition>) -> Result<(), Stopped> {
        self.refresh_states(&partitions).await?;
        let mut outbox = self.repair(partitions.clone()).await?;
        self.lead_anew(partitions, &mut outbox).await?;
        self.send(&outbox);
        Ok(())
    }

    /// The next leader epoch begins, with the same leaders: what they asked for while we did not know them was refused
    /// for good, and in this epoch they would not ask again.
    pub(super) async fn lead_anew(
        &mut self,
        partitions: Vec<TopicPartition>,
        outbox: &mut Outbox,
    ) -> Result<(), Stopped> {
        let epoch = self.active.as_ref().ok_or(Stopped::Moved)?.epoch;
        let context = self.context();
        let writes = partitions.into_iter().filter_map(|at| {
            let state = context.partition(&at)?.state.clone()?;
            let node = crate::context::elected(state.node, epoch);
            Some((at, node, Some(state.partition_epoch)))
        });
        for (at, result) in self.write_states(writes.collect()).await? {
            match result {
                Ok(()) => outbox.lead(&at, self.context().reachable_replicas(&at), false),
                Err(error) => {
                    tracing::warn!(partition = %at, %error, "its state cannot be written");
                }
            }
        }
        Ok(())
    }

    /// Somebody else wrote these states: reads them, elects whoever has to lead, and tells everybody.
    async fn take_up_states(&mut self, partitions: Vec<TopicPartition>) -> Result<(), Stopped> {
        self.refresh_states(&partitions).await?;
        let mut outbox = self.repair(partitions.clone()).await?;
        let context = self.context();
        for at in &partitions {
            if context.partition(at).is_some_and(|partition| partition.state.is_some()) {
                outbox.lead(at, context.reachable_replicas(at), false);
            }
        }
        self.send(&outbox);
        for at in &partitions {
            self.complete_reassignment(at).await?;
        }
        Ok(())
    }
}

/// One line for each kind of thing that was not as it was thought to be: an event was lost, or is on its way.
fn differs(what: &'static str) {
    tracing::info!(what, "found by comparing with the store");
}

/// Partitions that are still to be compared.
pub(super) type Uncompared = VecDeque<TopicPartition>;
