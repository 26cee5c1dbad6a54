//! Elections that were asked for, or that balance the load, and log directories that failed.

use super::failover::StateWrite;
use super::*;
use crate::context::elected;
use crate::handle::ReplyTo;
use crate::{ElectionType, PerPartition};
use protocol::messages::LeaderAndIsrResponse;

impl Driver {
    pub(super) async fn elect_leaders(
        &mut self,
        kind: ElectionType,
        partitions: Option<Vec<TopicPartition>>,
        timeout: Duration,
        reply: ReplyTo<Result<PerPartition, ApiError>>,
    ) {
        let Some(active) = &self.active else {
            let _ = reply.send(Err(not_controller()));
            return;
        };
        let context = &active.context;
        let all = partitions.is_none();
        // "All" are those that clients can see: with a leader, or that had one.
        let partitions = partitions.unwrap_or_else(|| {
            let mut all = context.all_partitions();
            all.retain(|at| context.partition(at).is_some_and(|p| p.state.is_some()));
            all
        });
        let mut results = self.elect_each(kind, partitions).await;
        let not_needed = |result: &Result<(), ApiError>| {
            result.as_ref().is_err_and(|error| error.code == ErrorCode::ElectionNotNeeded)
        };
        results.retain(|(_, result)| !(all && not_needed(result)));
        let elected: Vec<TopicName> =
            results.iter().filter(|(_, r)| r.is_ok()).map(|(at, _)| at.topic.clone()).collect();
        let finish = move |unfinished: &Unfinished| {
            for (at, result) in &mut results {
                if result.is_ok() && unfinished.contains_key(&at.topic) {
                    *result = Err(ApiError::of(ErrorCode::RequestTimedOut));
                }
            }
            let _ = reply.send(Ok(results));
        };
        if elected.is_empty() {
            finish(&Unfinished::new());
        } else {
            self.wait(elected, Wants::Leaders, timeout, finish);
        }
    }

    /// Elects leaders for those of `partitions` that need and can have one.
    pub(super) async fn elect_each(
        &mut self,
        kind: ElectionType,
        partitions: Vec<TopicPartition>,
    ) -> PerPartition {
        if self.active.is_some()
            && kind == ElectionType::Unclean
            && let Err(stopped) = self.drop_void_lists(&partitions).await
        {
            self.stop(stopped, "elect leaders").await;
        }
        let Some(active) = &self.active else {
            return partitions.into_iter().map(|at| (at, Err(not_controller()))).collect();
        };
        let mut results: PerPartition = Vec::new();
        let mut writes: Vec<StateWrite> = Vec::new();
        for at in partitions {
            match elect(&active.context, &at, kind, active.epoch) {
                Ok(write) => writes.push(write),
                Err(error) => results.push((at, Err(error))),
            }
        }
        let targets: Vec<TopicPartition> = writes.iter().map(|write| write.0.clone()).collect();
        match self.write_states(writes).await {
            Ok(written) => {
                let mut outbox = Outbox::default();
                let mut stale = Vec::new();
                for (at, result) in written {
                    match &result {
                        Ok(()) => outbox.lead(&at, self.context().reachable_replicas(&at), false),
                        Err(_) => stale.push(at.clone()),
                    }
                    results.push((at, result.map_err(|error| store_error(&error))));
                }
                self.send(&outbox);
                if let Err(stopped) = self.refresh_states(&stale).await {
                    self.stop(stopped, "elect leaders").await;
                }
            }
            Err(stopped) => {
                results.extend(targets.into_iter().map(|at| (at, Err(not_controller()))));
                self.stop(stopped, "elect leaders").await;
            }
        }
        results
    }

    /// Gives partitions a leader that is not in sync, if their topics allow it now.
    pub(super) async fn unclean_allowed(&mut self, topic: Option<TopicName>) {
        let Some(active) = &self.active else { return };
        let mut leaderless = active.context.all_partitions();
        leaderless.retain(|at| {
            topic.as_ref().is_none_or(|topic| *topic == at.topic)
                && !active.context.has_online_leader(at)
        });
        match self.repair(leaderless).await {
            Ok(outbox) if outbox.is_empty() => {}
            Ok(outbox) => {
                self.send(&outbox);
            }
            Err(stopped) => self.stop(stopped, "unclean elections are allowed").await,
        }
    }

    /// Leads back to the preferred replicas what too many of a broker's partitions are led elsewhere.
    pub(super) async fn balance_leaders(&mut self) {
        let percentage = self.settings.leader_imbalance_percentage;
        let Some(active) = &mut self.active else { return };
        active.balance_at = Some(Instant::now() + self.settings.leader_imbalance_interval);
        let context = &active.context;
        if context.is_any_moving() {
            return;
        }
        let mut of_preferred: BTreeMap<BrokerId, (i64, Vec<TopicPartition>)> = BTreeMap::new();
        for at in context.all_partitions() {
            if context.deleting.contains_key(&at.topic) {
                continue;
            }
            let Some(partition) = context.partition(&at) else { continue };
            let (Some(&first), Some(state)) = (partition.replicas.first(), &partition.state) else {
                continue;
            };
            let (count, elsewhere) = of_preferred.entry(first).or_default();
            *count += 1;
            if state.node.leader != Some(first) {
                elsewhere.push(at);
            }
        }
        let mut moving = Vec::new();
        for (broker, (count, elsewhere)) in of_preferred {
            let share = i64::try_from(elsewhere.len()).unwrap_or(i64::MAX).saturating_mul(100);
            if share <= count.saturating_mul(i64::from(percentage)) {
                continue;
            }
            moving.extend(elsewhere.into_iter().filter(|at| {
                let state = context.partition(at).and_then(|p| p.state.as_ref());
                let in_sync = state.is_some_and(|state| state.node.isr.contains(&broker));
                in_sync && context.is_online(broker, at) && context.has_online_leader(at)
            }));
        }
        if !moving.is_empty() {
            tracing::info!(partitions = moving.len(), "go back to their preferred leaders");
            self.elect_each(ElectionType::Preferred, moving).await;
        }
    }

    /// Replicas that a broker could not start are offline until it says otherwise, or comes back.
    pub(super) async fn handle_leader_and_isr_answer(
        &mut self,
        broker: BrokerId,
        sequence: u64,
        response: LeaderAndIsrResponse,
    ) {
        let Some(active) = &mut self.active else { return };
        let context = &mut active.context;
        let (mut failed, mut back, mut there) = (Vec::new(), Vec::new(), Vec::new());
        for topic in response.topics {
            let Some(name) = context.names.get(&topic.topic_id) else { continue };
            for partition in topic.partition_errors {
                let at = TopicPartition::new(name.clone(), partition.partition_index);
                if partition.error_code == ErrorCode::KafkaStorageError.code() {
                    context.doubts.remove(&(broker, at.clone()));
                    if context.offline.insert((broker, at.clone())) {
                        failed.push(at);
                    }
                    continue;
                }
                if response.error_code == ErrorCode::None.code() && !context.doubts.is_empty() {
                    there.push(at.clone());
                }
                if partition.error_code == ErrorCode::None.code()
                    && !context.offline.is_empty()
                    && context.offline.remove(&(broker, at.clone()))
                {
                    back.push(at);
                }
            }
        }
        back.extend(self.logs_are_there(broker, sequence, there));
        if failed.is_empty() && back.is_empty() {
            return;
        }
        let context = self.context();
        let counted_on = |context: &Context, at: &TopicPartition| {
            let state = context.partition(at).and_then(|partition| partition.state.as_ref());
            state.is_some_and(|state| state.node.isr.contains(&broker))
        };
        let were_in_sync: Vec<_> =
            failed.iter().filter(|at| counted_on(context, at)).cloned().collect();
        tracing::warn!(%broker, offline = failed.len(), back = back.len(), "replicas are offline, or back: their logs cannot be used, or can be again");
        // Before it is asked again, and starts empty.
        let is_gone = |_: &TopicPartition, id: BrokerId| id == broker;
        if let Err(stopped) = self.leave_lists(failed.clone(), is_gone).await {
            self.stop(stopped, "replicas went offline").await;
            return;
        }
        let changed = [failed, back.clone()].concat();
        match self.repair(changed.clone()).await {
            Ok(mut outbox) => {
                // It answered what it was asked, and was told of nothing that has changed since.
                let context = self.context();
                let is_told = |at: &&TopicPartition| {
                    context.reachable_replicas(at).contains(&broker)
                        && !context.deleting.contains_key(&at.topic)
                };
                back.iter().filter(is_told).for_each(|at| outbox.lead(at, [broker], false));
                changed.iter().for_each(|at| outbox.describe(at));
                // One whose log is gone may start empty as soon as nobody counts on it.
                let context = self.context();
                for at in were_in_sync.iter().filter(|at| !counted_on(context, at)) {
                    outbox.lead(at, [broker], false);
                }
                self.send(&outbox);
            }
            Err(stopped) => self.stop(stopped, "replicas went offline").await,
        }
    }

    /// A broker lost a log directory: asked to lead or follow everything that it has, it says which
    /// replicas it cannot.
    pub(super) async fn handle_log_dir_events(&mut self) {
        if self.active.is_none() {
            return;
        }
        if let Err(stopped) = self.ask_after_log_dirs().await {
            self.stop(stopped, "a log directory failed").await;
        }
    }

    async fn ask_after_log_dirs(&mut self) -> Result<(), Stopped> {
        let events = self.notifications(znodes::LOG_DIR_EVENTS).await?;
        if events.is_empty() {
            return Ok(());
        }
        let said = events.iter().filter_map(|(_, data)| data.as_deref());
        let brokers: BTreeSet<BrokerId> = said.filter_map(znodes::parse_log_dir_event).collect();
        let mut outbox = Outbox::default();
        let context = self.context();
        for at in context.all_partitions() {
            let Some(partition) = context.partition(&at).filter(|p| p.state.is_some()) else {
                continue;
            };
            let asked: Vec<_> =
                partition.replicas.iter().copied().filter(|id| brokers.contains(id)).collect();
            if !asked.is_empty() {
                outbox.lead(&at, asked, false);
            }
        }
        self.send(&outbox);
        self.commit_one(events.iter().map(|(path, _)| Op::delete(path)).collect()).await?;
        Ok(())
    }
}

/// The state that an election asked for gives a partition.
fn elect(
    context: &Context,
    at: &TopicPartition,
    kind: ElectionType,
    epoch: ControllerEpoch,
) -> Result<StateWrite, ApiError> {
    if context.deleting.contains_key(&at.topic) {
        return Err(ApiError::new(ErrorCode::InvalidTopicException, "The topic is being deleted"));
    }
    let Some(partition) = context.partition(at) else {
        return Err(ApiError::new(
            ErrorCode::UnknownTopicOrPartition,
            "The partition does not exist.",
        ));
    };
    let unavailable = |code, what: &str| {
        ApiError::new(
            code,
            format!("Failed to elect leader for partition {at} under strategy {what}"),
        )
    };
    let preferred = || {
        unavailable(
            ErrorCode::PreferredLeaderNotAvailable,
            "PreferredReplicaPartitionLeaderElectionStrategy",
        )
    };
    let eligible = || {
        unavailable(
            ErrorCode::EligibleLeadersNotAvailable,
            "OfflinePartitionLeaderElectionStrategy",
        )
    };
    let Some(state) = &partition.state else {
        return Err(match kind {
            ElectionType::Preferred => preferred(),
            ElectionType::Unclean => eligible(),
        });
    };
    let first = partition.replicas.first().copied();
    let leader_is_online = state.node.leader.is_some_and(|id| context.is_live(id));
    let needed = match kind {
        ElectionType::Preferred => state.node.leader != first,
        ElectionType::Unclean => !leader_is_online,
    };
    if !needed {
        return Err(ApiError::new(
            ErrorCode::ElectionNotNeeded,
            "Leader election not needed for topic partition.",
        ));
    }
    let node = match kind {
        ElectionType::Preferred => {
            let usable =
                first.filter(|&id| context.is_online(id, at) && state.node.isr.contains(&id));
            let leader = Some(usable.ok_or_else(preferred)?);
            elected(znodes::StateNode { leader, ..state.node.clone() }, epoch)
        }
        ElectionType::Unclean => context
            .elected_uncleanly(at, epoch)
            .filter(|node| node.leader.is_some())
            .ok_or_else(eligible)?,
    };
    Ok((at.clone(), node, Some(state.partition_epoch)))
}
