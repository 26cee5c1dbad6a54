//! Elections and reassignments that were asked for, and log directories that failed.

use super::failover::StateWrite;
use super::*;
use crate::context::{Partition, elected, repaired};
use crate::handle::ReplyTo;
use crate::topic_rules::{has_duplicates, join};
use crate::{ElectionType, OngoingReassignment, PerPartition};
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
        let (context, epoch) = (&active.context, active.epoch);
        let all = partitions.is_none();
        // "All" are those that clients can see: with a leader, or that had one.
        let partitions = partitions.unwrap_or_else(|| {
            let mut all = context.all_partitions();
            all.retain(|at| context.partition(at).is_some_and(|p| p.state.is_some()));
            all
        });
        let mut results: PerPartition = Vec::new();
        let mut writes: Vec<StateWrite> = Vec::new();
        for at in partitions {
            match elect(context, &at, kind, epoch) {
                Ok(write) => writes.push(write),
                Err(error) if all && error.code == ErrorCode::ElectionNotNeeded => {}
                Err(error) => results.push((at, Err(error))),
            }
        }
        let targets: Vec<TopicPartition> = writes.iter().map(|write| write.0.clone()).collect();
        match self.write_states(writes).await {
            Ok(written) => {
                let mut outbox = Outbox::default();
                for (at, result) in written {
                    if let (Ok(()), Some(partition)) = (&result, self.context().partition(&at)) {
                        let replicas = partition.replicas.clone();
                        outbox.lead(&at, replicas, false);
                    }
                    results.push((at, result.map_err(|error| store_error(&error))));
                }
                self.send(&outbox);
            }
            Err(stopped) => {
                results.extend(targets.into_iter().map(|at| (at, Err(not_controller()))));
                self.stop(stopped, "elect leaders").await;
            }
        }
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

    /// Sets, changes or cancels reassignments.
    pub(super) async fn alter_reassignments(
        &mut self,
        targets: Vec<(TopicPartition, Option<Vec<BrokerId>>)>,
    ) -> Result<PerPartition, ApiError> {
        if self.active.is_none() {
            return Err(not_controller());
        }
        let mut results: PerPartition = Vec::with_capacity(targets.len());
        for (at, target) in targets {
            if self.active.is_none() {
                results.push((at, Err(not_controller())));
                continue;
            }
            let result = match plan_reassignment(self.context(), &at, target) {
                Ok(partition) => match self.reassign(&at, partition).await {
                    Ok(()) => Ok(()),
                    Err(stopped) => {
                        let error = match &stopped {
                            Stopped::Moved => not_controller(),
                            Stopped::Refused(error) => store_error(error),
                        };
                        self.stop(stopped, "reassign").await;
                        Err(error)
                    }
                },
                Err(error) => Err(error),
            };
            results.push((at, result));
        }
        Ok(results)
    }

    /// Writes the assignment with its adding and removing replicas, starts the adding ones, and finishes
    /// at once if every target is in sync already.
    async fn reassign(&mut self, at: &TopicPartition, planned: Partition) -> Result<(), Stopped> {
        let before = self.context().partition(at).cloned().unwrap_or_default();
        if before != planned {
            self.set_partition(at, planned).await?;
        }
        self.advance_reassignment(at).await
    }

    async fn set_partition(&mut self, at: &TopicPartition, new: Partition) -> Result<(), Stopped> {
        let Some(mut topic) = self.context().topics.get(&at.topic).cloned() else {
            return Err(Stopped::Refused(StoreError::NoNode(znodes::topic_path(&at.topic))));
        };
        topic.partitions.insert(at.partition, new);
        let node = znodes::topic(&topic.node());
        self.commit_one(vec![Op::set(znodes::topic_path(&at.topic), node)]).await?;
        self.context_mut().topics.insert(at.topic.clone(), topic);
        Ok(())
    }

    /// Takes a reassignment as far as the ISR allows.
    async fn advance_reassignment(&mut self, at: &TopicPartition) -> Result<(), Stopped> {
        let epoch = self.active.as_ref().ok_or(Stopped::Moved)?.epoch;
        let context = self.context();
        let Some(partition) = context.partition(at).cloned() else { return Ok(()) };
        let Some(state) = partition.state.clone() else { return Ok(()) };
        let targets: Vec<BrokerId> = partition
            .replicas
            .iter()
            .copied()
            .filter(|id| !partition.removing.contains(id))
            .collect();
        let complete = targets.iter().all(|id| state.node.isr.contains(id));
        let mut node = elected(state.node.clone(), epoch);
        let mut finished = partition.clone();
        let mut leaving = Vec::new();
        if complete {
            leaving = partition.removing.clone();
            finished = Partition { state: partition.state.clone(), ..Partition::assigned(targets) };
            node.isr.retain(|id| finished.replicas.contains(id));
            let is_target =
                |id: &BrokerId| finished.replicas.contains(id) && context.is_online(*id, at);
            if !node.leader.as_ref().is_some_and(is_target) {
                node.leader = finished
                    .replicas
                    .iter()
                    .copied()
                    .find(|id| node.isr.contains(id) && is_target(id));
            }
        }
        let write = (at.clone(), node, Some(state.partition_epoch));
        for (_, result) in self.write_states(vec![write]).await? {
            result.map_err(Stopped::Refused)?;
        }
        if complete {
            if let Some(current) = self.context().partition(at) {
                finished.state = current.state.clone();
            }
            self.set_partition(at, finished.clone()).await?;
        }
        let mut outbox = Outbox::default();
        let (adding, old): (Vec<_>, Vec<_>) =
            finished.replicas.iter().partition(|id| finished.adding.contains(id));
        outbox.lead(at, adding, true);
        outbox.lead(at, old, false);
        leaving.into_iter().for_each(|broker| outbox.delete(at, broker));
        self.send(&outbox);
        Ok(())
    }

    pub(super) async fn resume_reassignments(&mut self) -> Result<(), Stopped> {
        let context = self.context();
        let moving: Vec<TopicPartition> = context
            .all_partitions()
            .into_iter()
            .filter(|at| context.partition(at).is_some_and(Partition::is_moving))
            .collect();
        for at in moving {
            self.advance_reassignment(&at).await?;
        }
        Ok(())
    }

    pub(super) fn list_reassignments(
        &self,
        partitions: Option<Vec<TopicPartition>>,
    ) -> Result<Vec<OngoingReassignment>, ApiError> {
        let Some(active) = &self.active else { return Err(not_controller()) };
        let context = &active.context;
        let partitions = partitions.unwrap_or_else(|| context.all_partitions());
        let ongoing = partitions.into_iter().filter_map(|partition| {
            let found = context.partition(&partition).filter(|p| p.is_moving())?;
            Some(OngoingReassignment {
                replicas: found.replicas.clone(),
                adding: found.adding.clone(),
                removing: found.removing.clone(),
                partition,
            })
        });
        Ok(ongoing.collect())
    }

    /// Replicas that a broker could not start are offline until it comes back.
    pub(super) async fn handle_leader_and_isr_answer(
        &mut self,
        broker: BrokerId,
        response: LeaderAndIsrResponse,
    ) {
        let Some(active) = &mut self.active else { return };
        let context = &mut active.context;
        let mut failed = Vec::new();
        for topic in response.topics {
            let Some(name) = context.names.get(&topic.topic_id) else { continue };
            for partition in topic.partition_errors {
                if partition.error_code == ErrorCode::KafkaStorageError.code() {
                    let at = TopicPartition::new(name.clone(), partition.partition_index);
                    if context.offline.insert((broker, at.clone())) {
                        failed.push(at);
                    }
                }
            }
        }
        if failed.is_empty() {
            return;
        }
        tracing::warn!(%broker, partitions = failed.len(), "replicas are offline: their disk failed");
        match self.repair(failed.clone()).await {
            Ok(mut outbox) => {
                failed.iter().for_each(|at| outbox.describe(at));
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
        let names =
            self.session.children(znodes::LOG_DIR_EVENTS, true).await.map_err(Stopped::of)?;
        if names.is_empty() {
            return Ok(());
        }
        let path = |name: &String| format!("{}/{name}", znodes::LOG_DIR_EVENTS);
        let reads = names.iter().map(|name| Read::data(path(name))).collect();
        let found = self.session.read_all(reads).await.map_err(Stopped::of)?;
        let brokers: BTreeSet<BrokerId> = found
            .into_iter()
            .filter_map(|found| match found {
                Ok(ReadResult::Data(Some(data), _)) => znodes::parse_log_dir_event(&data),
                _ => None,
            })
            .collect();
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
        self.commit_one(names.iter().map(|name| Op::delete(path(name))).collect()).await?;
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
    let leader_is_online = state.node.leader.is_some_and(|id| context.brokers.contains_key(&id));
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
        ElectionType::Unclean => repaired(partition, |id| context.is_online(id, at), true, epoch)
            .filter(|node| node.leader.is_some())
            .ok_or_else(eligible)?,
    };
    Ok((at.clone(), node, Some(state.partition_epoch)))
}

/// What a partition's assignment becomes when it is to move to `target` (`None`: back).
fn plan_reassignment(
    context: &Context,
    at: &TopicPartition,
    target: Option<Vec<BrokerId>>,
) -> Result<Partition, ApiError> {
    let refuse = |message: String| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    if let Some(target) = &target {
        if target.is_empty() {
            return refuse("Empty replica list specified in partition reassignment.".into());
        }
        if has_duplicates(target) {
            return refuse(format!(
                "Duplicate replica ids in partition reassignment replica list: ArrayBuffer({})",
                join(target)
            ));
        }
        if target.iter().any(|id| id.0 < 0) {
            return refuse(format!(
                "Invalid broker id in replica list: ArrayBuffer({})",
                join(target)
            ));
        }
    }
    let known = context.partition(at).filter(|_| !context.deleting.contains_key(&at.topic));
    // Also of a partition that does not exist.
    if let Some(target) = &target {
        let has = |id| known.is_some_and(|partition| partition.replicas.contains(id));
        let dead: Vec<_> =
            target.iter().filter(|id| !has(id) && !context.brokers.contains_key(id)).collect();
        if !dead.is_empty() {
            return refuse(format!(
                "Replica assignment has brokers that are not alive. Replica list: \
                 ArrayBuffer({}), live broker list: Set({})",
                join(target),
                join(context.brokers.keys())
            ));
        }
    }
    let Some(partition) = known else {
        return Err(match target {
            Some(_) => {
                ApiError::new(ErrorCode::UnknownTopicOrPartition, "The partition does not exist.")
            }
            None => ApiError::of(ErrorCode::NoReassignmentInProgress),
        });
    };
    let original: Vec<BrokerId> =
        partition.replicas.iter().copied().filter(|id| !partition.adding.contains(id)).collect();
    let target = match target {
        Some(target) => target,
        None if partition.is_moving() => original.clone(),
        None => return Err(ApiError::of(ErrorCode::NoReassignmentInProgress)),
    };
    let staying = original.iter().copied().filter(|id| !target.contains(id));
    let replicas: Vec<BrokerId> = target.iter().copied().chain(staying).collect();
    Ok(Partition {
        adding: replicas.iter().copied().filter(|id| !original.contains(id)).collect(),
        removing: replicas.iter().copied().filter(|id| !target.contains(id)).collect(),
        replicas,
        state: partition.state.clone(),
    })
}
