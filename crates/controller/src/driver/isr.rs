//! AlterPartition: leaders ask, the controller writes (KIP-497, KIP-841, KIP-903).

use super::failover::{CheckedWrite, StateWrite};
use super::*;
use crate::context::State;
use crate::znodes::StateNode;
use model::{LeaderEpoch, PartitionEpoch};
use protocol::messages::alter_partition_request::PartitionData as Asked;
use protocol::messages::alter_partition_response::{PartitionData, TopicData};
use protocol::messages::{AlterPartitionRequest, AlterPartitionResponse};

/// From this version on topics have ids, and `INELIGIBLE_REPLICA` is known.
const WITH_TOPIC_IDS: i16 = 2;
/// From this version on members of an ISR come with their broker epochs.
const WITH_BROKER_EPOCHS: i16 = 3;

/// A partition that was named, and whether its ISR may be as asked.
type Answer = (TopicPartition, Result<(), ErrorCode>);

impl Driver {
    /// Answers for every partition that is named, whatever becomes of the others: a leader that is not
    /// answered asks again at once.
    pub(super) async fn alter_partition(
        &mut self,
        request: AlterPartitionRequest,
        version: i16,
    ) -> AlterPartitionResponse {
        let refused = |code: ErrorCode| AlterPartitionResponse {
            error_code: code.code(),
            ..AlterPartitionResponse::default()
        };
        let Some(active) = &self.active else { return refused(ErrorCode::NotController) };
        let (context, epoch) = (&active.context, active.epoch);
        let asker = BrokerId(request.broker_id);
        let known = context.brokers.get(&asker).map(|broker| broker.epoch.0);
        if known != Some(request.broker_epoch) {
            return refused(ErrorCode::StaleBrokerEpoch);
        }
        let mut answers: Vec<(TopicData, Vec<Answer>)> = Vec::new();
        let mut writes: Vec<CheckedWrite> = Vec::new();
        // A topic without partitions is not answered, as in Kafka.
        for topic in request.topics.into_iter().filter(|topic| !topic.partitions.is_empty()) {
            let name = match version >= WITH_TOPIC_IDS {
                true => context.names.get(&topic.topic_id).cloned(),
                false => Some(TopicName::from(&*topic.topic_name)),
            };
            let mut results = Vec::with_capacity(topic.partitions.len());
            for asked in &topic.partitions {
                let at = TopicPartition::new(
                    name.clone().unwrap_or_else(|| "".into()),
                    asked.partition_index,
                );
                let planned = match &name {
                    None => Err(ErrorCode::UnknownTopicId),
                    Some(_) if writes.iter().any(|(write, _)| write.0 == at) => {
                        Err(ErrorCode::InvalidUpdateVersion)
                    }
                    Some(_) => plan(context, &at, asked, asker, version, epoch),
                };
                results.push((
                    at,
                    planned.map(|write| {
                        writes.extend(write.map(|write| {
                            let checks = joiners_are_the_same(context, &write);
                            (write, checks)
                        }));
                    }),
                ));
            }
            let answer = TopicData {
                topic_name: topic.topic_name,
                topic_id: topic.topic_id,
                ..TopicData::default()
            };
            answers.push((answer, results));
        }
        let written = match self.write_checked_states(writes).await {
            Ok(written) => written,
            Err(stopped) => {
                let code = match &stopped {
                    Stopped::Moved => ErrorCode::NotController,
                    Stopped::Refused(_) => ErrorCode::UnknownServerError,
                };
                self.stop(stopped, "alter partition").await;
                return refused(code);
            }
        };
        let failed: BTreeMap<TopicPartition, ErrorCode> = written
            .iter()
            .filter_map(|(at, result)| {
                Some((at.clone(), write_error(result.as_ref().err()?, version)))
            })
            .collect();
        let stale: Vec<_> = failed.keys().cloned().collect();
        if let Err(stopped) = self.refresh_states(&stale).await {
            self.stop(stopped, "alter partition").await;
            return refused(ErrorCode::NotController);
        }
        let mut outbox = Outbox::default();
        let context = self.context();
        let mut response = AlterPartitionResponse::default();
        for (mut topic, results) in answers {
            for (at, result) in results {
                let result = match failed.get(&at) {
                    Some(&code) if result.is_ok() => Err(code),
                    _ => result,
                };
                let state = context.partition(&at).and_then(|partition| partition.state.as_ref());
                topic.partitions.push(answer(at.partition, result, state));
                if state.is_some() && !context.deleting.contains_key(&at.topic) {
                    outbox.describe(&at);
                }
            }
            response.topics.push(topic);
        }
        if !outbox.is_empty() {
            self.send(&outbox);
        }
        let grown = written.into_iter().filter(|(_, result)| result.is_ok()).map(|(at, _)| at);
        for at in grown.collect::<Vec<_>>() {
            if let Err(stopped) = self.complete_reassignment(&at).await {
                self.stop(stopped, "complete a reassignment").await;
                break;
            }
        }
        response
    }

    /// Leaders of before `inter.broker.protocol.version` 2.7 write their states themselves and leave word.
    pub(super) async fn handle_isr_changes(&mut self) {
        if self.active.is_none() {
            return;
        }
        if let Err(stopped) = self.take_isr_changes().await {
            self.stop(stopped, "ISR changes").await;
        }
    }

    async fn take_isr_changes(&mut self) -> Result<(), Stopped> {
        let notifications = self.notifications(znodes::ISR_CHANGES).await?;
        if notifications.is_empty() {
            return Ok(());
        }
        let mut changed = BTreeSet::new();
        for (path, data) in &notifications {
            let Some(data) = data else { continue };
            match znodes::parse_partitions(data) {
                Some(partitions) => changed.extend(partitions),
                None => tracing::warn!(path, "an ISR change notification cannot be read"),
            }
        }
        changed.retain(|at| self.context().partition(at).is_some());
        let changed: Vec<_> = changed.into_iter().collect();
        self.refresh_states(&changed).await?;
        let mut outbox = Outbox::default();
        changed.iter().for_each(|at| outbox.describe(at));
        if !outbox.is_empty() {
            self.send(&outbox);
        }
        for at in &changed {
            self.complete_reassignment(at).await?;
        }
        self.commit(notifications.iter().map(|(path, _)| vec![Op::delete(path)]).collect()).await?;
        Ok(())
    }
}

/// What to write, or nothing if it is so already.
fn plan(
    context: &Context,
    at: &TopicPartition,
    asked: &Asked,
    asker: BrokerId,
    version: i16,
    epoch: ControllerEpoch,
) -> Result<Option<StateWrite>, ErrorCode> {
    let partition = context.partition(at).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    if context.deleting.contains_key(&at.topic) {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    let state = partition.state.as_ref().ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let (known, partition_epoch) = (&state.node, state.partition_epoch);
    let asked_epoch = LeaderEpoch(asked.leader_epoch);
    if PartitionEpoch(asked.partition_epoch) > partition_epoch || asked_epoch > known.leader_epoch {
        // More than we know: we are probably not controller any more.
        return Err(ErrorCode::NotController);
    }
    if asked_epoch < known.leader_epoch {
        return Err(ErrorCode::FencedLeaderEpoch);
    }
    let members: Vec<(BrokerId, i64)> = match version >= WITH_BROKER_EPOCHS {
        true => {
            let members = asked.new_isr_with_epochs.iter();
            members.map(|member| (BrokerId(member.broker_id), member.broker_epoch)).collect()
        }
        false => asked.new_isr.iter().map(|&id| (BrokerId(id), -1)).collect(),
    };
    let isr: Vec<BrokerId> = members.iter().map(|&(id, _)| id).collect();
    let recovering = asked.leader_recovery_state == 1;
    let is_leader = known.leader == Some(asker);
    let is_so = is_leader && isr == known.isr && recovering == known.recovering;
    if is_so && !Bug::Kafka2729.is_planted() {
        return Ok(None);
    }
    if PartitionEpoch(asked.partition_epoch) < partition_epoch {
        return Err(ErrorCode::InvalidUpdateVersion);
    }
    let recovers_backwards = recovering && !known.recovering;
    if recovers_backwards || (recovering && isr.len() > 1) {
        return Err(ErrorCode::InvalidRequest);
    }
    let is_eligible = |&(id, broker_epoch): &(BrokerId, i64)| {
        context.is_online(id, at)
            && (broker_epoch == -1
                || context.brokers[&id].epoch == BrokerEpoch(broker_epoch)
                || Bug::Kafka14617.is_planted())
            || known.isr.contains(&id) && id == asker
            || Bug::Kafka13916.is_planted()
    };
    if !members.iter().all(is_eligible) {
        return Err(ineligible(version));
    }
    // Kafka trusts whoever asks with the right epochs; we do not lose a leader or write what cannot be.
    let is_possible = is_leader
        && isr.contains(&asker)
        && isr.iter().all(|id| partition.replicas.contains(id))
        && !crate::topic_rules::has_duplicates(&isr)
        && matches!(asked.leader_recovery_state, 0 | 1);
    if !is_possible {
        return Err(ErrorCode::InvalidRequest);
    }
    let node = StateNode { isr, recovering, controller_epoch: epoch, ..known.clone() };
    Ok(Some((at.clone(), node, Some(partition_epoch))))
}

/// What must still be so when a grown ISR is written: those who join are registered as their leader saw them
/// fetch. One that started again meanwhile may have lost what it fetched (KIP-903). Who is known to be a broker of
/// Apache's is only checked for being there: its node's version does not tell its registrations apart.
fn joiners_are_the_same(context: &Context, write: &StateWrite) -> Vec<Op> {
    let (at, node, _) = write;
    let known = context.partition(at).and_then(|partition| partition.state.as_ref());
    let joins = |id: &&BrokerId| known.is_none_or(|known| !known.node.isr.contains(id));
    let mut checks = Vec::new();
    if Bug::Kafka14617.is_planted() || Bug::Kafka13916.is_planted() {
        return checks;
    }
    for &id in node.isr.iter().filter(joins) {
        let Some(broker) = context.brokers.get(&id) else { continue };
        if let Some(version) = broker.incarnation {
            checks.push(Op::check(znodes::incarnation_path(id), version));
        }
        checks.push(Op::check(znodes::broker_path(id), broker.version));
    }
    checks
}

/// What a leader is told whose proposal has a member that may not be in an ISR.
fn ineligible(version: i16) -> ErrorCode {
    match version >= WITH_TOPIC_IDS {
        true => ErrorCode::IneligibleReplica,
        false => ErrorCode::OperationNotAttempted,
    }
}

fn write_error(error: &StoreError, version: i16) -> ErrorCode {
    let is_of_a_broker =
        |path: &str| path.starts_with(znodes::INCARNATIONS) || path.starts_with(znodes::BROKER_IDS);
    match error {
        StoreError::BadVersion(path) | StoreError::NoNode(path) if is_of_a_broker(path) => {
            ineligible(version)
        }
        StoreError::BadVersion(_) => ErrorCode::InvalidUpdateVersion,
        StoreError::NoNode(_) => ErrorCode::UnknownTopicOrPartition,
        StoreError::NodeExists(_)
        | StoreError::NotEmpty(_)
        | StoreError::NoChildrenForEphemerals(_)
        | StoreError::BadArguments(_)
        | StoreError::MayHaveBeenApplied
        | StoreError::Disconnected
        | StoreError::Unreachable(_)
        | StoreError::NotWritten(_)
        | StoreError::SessionExpired
        | StoreError::Denied(_)
        | StoreError::Failed(_) => ErrorCode::UnknownServerError,
    }
}

fn answer(
    partition_index: i32,
    result: Result<(), ErrorCode>,
    state: Option<&State>,
) -> PartitionData {
    match (result, state) {
        (Ok(()), Some(state)) => PartitionData {
            partition_index,
            error_code: ErrorCode::None.code(),
            leader_id: state.node.leader.map_or(-1, |id| id.0),
            leader_epoch: state.node.leader_epoch.0,
            isr: state.node.isr.iter().map(|id| id.0).collect(),
            leader_recovery_state: i8::from(state.node.recovering),
            partition_epoch: state.partition_epoch.0,
        },
        (result, _) => PartitionData {
            partition_index,
            error_code: result.err().unwrap_or(ErrorCode::UnknownTopicOrPartition).code(),
            ..PartitionData::default()
        },
    }
}
