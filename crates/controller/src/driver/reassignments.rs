//! Partitions move to other replicas (KIP-455).

use super::*;
use crate::context::{Partition, State, elected};
use crate::topic_rules::{has_duplicates, join};
use crate::{OngoingReassignment, PerPartition};

impl Driver {
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
            let Some(active) = &self.active else {
                results.push((at, Err(not_controller())));
                continue;
            };
            let result = match plan_reassignment(&active.context, &at, target) {
                Ok(planned) => match self.reassign(&at, planned).await {
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
    /// at once if every target is in sync already. An earlier target that is none any more is dropped.
    async fn reassign(&mut self, at: &TopicPartition, planned: Partition) -> Result<(), Stopped> {
        // Whoever asks here has the last word over what an old tool wrote.
        self.forget_legacy_reassignment(at).await?;
        self.start_reassignment(at, planned).await
    }

    pub(super) async fn start_reassignment(
        &mut self,
        at: &TopicPartition,
        planned: Partition,
    ) -> Result<(), Stopped> {
        let before = self.context().partition(at).cloned().unwrap_or_default();
        let dropped: Vec<BrokerId> =
            before.replicas.iter().copied().filter(|id| !planned.replicas.contains(id)).collect();
        if before != planned {
            let mut topic = self.topic(at)?;
            topic.partitions.insert(at.partition, planned);
            self.write_topic(at, &topic).await?;
            self.context_mut().topics.insert(at.topic.clone(), topic);
        }
        self.advance_reassignment(at, dropped).await
    }

    fn topic(&self, at: &TopicPartition) -> Result<crate::context::Topic, Stopped> {
        let topic = self.context().topics.get(&at.topic).cloned();
        topic.ok_or_else(|| Stopped::Refused(StoreError::NoNode(znodes::topic_path(&at.topic))))
    }

    async fn write_topic(
        &mut self,
        at: &TopicPartition,
        topic: &crate::context::Topic,
    ) -> Result<(), Stopped> {
        let write = self.topic_write(&at.topic, topic).await?;
        self.commit_one(vec![write]).await.map(drop)
    }

    /// Takes a reassignment as far as the ISR allows, in the next leader epoch. `dropped` were replicas
    /// before it was changed.
    ///
    /// The topic's node is written last: until then another controller goes on from here.
    async fn advance_reassignment(
        &mut self,
        at: &TopicPartition,
        dropped: Vec<BrokerId>,
    ) -> Result<(), Stopped> {
        let epoch = self.active.as_ref().ok_or(Stopped::Moved)?.epoch;
        let context = self.context();
        let Some(partition) = context.partition(at).cloned() else { return Ok(()) };
        let Some(state) = partition.state.clone() else { return Ok(()) };
        let targets = targets(&partition);
        let is_complete = is_complete(&partition);
        let keep = if is_complete { &targets } else { &partition.replicas };
        let mut node = elected(state.node.clone(), epoch);
        node.isr.retain(|id| keep.contains(id));
        let can_lead = |id: &BrokerId| keep.contains(id) && context.is_online(*id, at);
        let must_elect = match is_complete {
            true => !node.leader.as_ref().is_some_and(can_lead),
            false => node.leader.is_some_and(|id| !keep.contains(&id)),
        };
        if must_elect {
            let next = keep.iter().copied().find(|id| node.isr.contains(id) && can_lead(id));
            let Some(next) = next else {
                tracing::warn!(partition = %at, "its reassignment waits: none of the replicas that stay can lead");
                return Ok(());
            };
            node.leader = Some(next);
        }
        let leader_epoch = node.leader_epoch;
        let write = (at.clone(), node, Some(state.partition_epoch));
        for (_, result) in self.write_states(vec![write]).await? {
            if let Err(error) = result {
                self.refresh_states(std::slice::from_ref(at)).await?;
                return Err(Stopped::Refused(error));
            }
        }
        let mut leaving = dropped;
        if is_complete {
            leaving.extend(&partition.removing);
            if let Some(moved) = self.context_mut().partition_mut(at) {
                let empty = Vec::new;
                (moved.replicas, moved.adding, moved.removing) = (targets, empty(), empty());
            }
        }
        let mut outbox = Outbox::default();
        let current = self.context().partition(at).cloned().unwrap_or_default();
        let (adding, old): (Vec<_>, Vec<_>) =
            current.replicas.iter().partition(|id| current.adding.contains(id));
        outbox.lead(at, adding, true);
        outbox.lead(at, old, false);
        leaving.into_iter().for_each(|id| outbox.stop(at, id, leader_epoch, true));
        self.send(&outbox);
        if is_complete {
            let topic = self.topic(at)?;
            self.write_topic(at, &topic).await?;
            self.forget_legacy_reassignment(at).await?;
            // A topic that is to be deleted waited for this.
            self.dirty.deletions = true;
            tracing::info!(partition = %at, replicas = ?current.replicas, "reassigned");
        }
        Ok(())
    }

    /// Finishes a reassignment if every target is in sync by now.
    pub(super) async fn complete_reassignment(
        &mut self,
        at: &TopicPartition,
    ) -> Result<(), Stopped> {
        let Some(active) = &self.active else { return Ok(()) };
        let partition = active.context.partition(at);
        if partition.is_some_and(|partition| partition.is_moving() && is_complete(partition)) {
            return self.advance_reassignment(at, Vec::new()).await;
        }
        Ok(())
    }

    /// Goes on with all reassignments, or with those that concern some brokers.
    pub(super) async fn resume_reassignments(
        &mut self,
        concerned: Option<&BTreeSet<BrokerId>>,
    ) -> Result<(), Stopped> {
        let context = self.context();
        let mut moving = context.all_partitions();
        moving.retain(|at| {
            let concerns = |partition: &Partition| {
                concerned
                    .is_none_or(|brokers| partition.replicas.iter().any(|id| brokers.contains(id)))
            };
            !context.deleting.contains_key(&at.topic)
                && context.partition(at).is_some_and(|p| p.is_moving() && concerns(p))
        });
        for at in moving {
            match self.advance_reassignment(&at, Vec::new()).await {
                Ok(()) => {}
                Err(Stopped::Refused(error)) => {
                    tracing::warn!(partition = %at, %error, "its reassignment is not taken further");
                }
                Err(stopped) => return Err(stopped),
            }
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
}

/// The replicas that a partition is to have in the end.
pub(super) fn targets(partition: &Partition) -> Vec<BrokerId> {
    let stays = |id: &BrokerId| !partition.removing.contains(id);
    partition.replicas.iter().copied().filter(stays).collect()
}

fn is_complete(partition: &Partition) -> bool {
    let Some(state) = &partition.state else { return false };
    targets(partition).iter().all(|id| state.node.isr.contains(id))
}

/// What a partition's assignment becomes when it is to move to `target` (`None`: back).
pub(super) fn plan_reassignment(
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
        let dead: Vec<_> = target.iter().filter(|id| !has(id) && !context.is_live(**id)).collect();
        if !dead.is_empty() {
            return refuse(format!(
                "Replica assignment has brokers that are not alive. Replica list: \
                 ArrayBuffer({}), live broker list: Set({})",
                join(target),
                join(context.live().map(|broker| broker.image.id))
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
    let keeps_data = |state: &State| state.node.isr.iter().any(|id| replicas.contains(id));
    if !partition.state.as_ref().is_none_or(keeps_data) {
        return refuse(format!(
            "None of the replicas that would remain ({}) is in sync.",
            join(&replicas)
        ));
    }
    Ok(Partition {
        adding: replicas.iter().copied().filter(|id| !original.contains(id)).collect(),
        removing: replicas.iter().copied().filter(|id| !target.contains(id)).collect(),
        replicas,
        ..partition.clone()
    })
}
