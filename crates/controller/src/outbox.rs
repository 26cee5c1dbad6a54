//! What brokers are to be told after one step of the controller, gathered into as few requests as possible.

use crate::context::{Context, State};
use crate::{ControlRequest, ControllerSettings};
use bytestring::ByteString;
use model::{BrokerId, ControllerEpoch, LeaderEpoch, TopicId, TopicName, TopicPartition};
use protocol::messages::leader_and_isr_request as lisr;
use protocol::messages::stop_replica_request as stop;
use protocol::messages::update_metadata_request as umr;
use protocol::messages::{LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest};
use std::collections::{BTreeMap, BTreeSet};

/// The wire's leader and leader epoch of a partition that is being deleted.
const DELETED: i32 = -2;
const NO_LEADER: i32 = -1;

/// Partitions of topics, in order.
type ByTopic<T> = BTreeMap<TopicName, BTreeMap<i32, T>>;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// For each broker, the partitions to lead or follow, and whether they are new.
    leader_and_isr: BTreeMap<BrokerId, ByTopic<bool>>,
    metadata: BTreeMap<TopicName, BTreeSet<i32>>,
    /// Topics that nobody is to see any more.
    deleted: BTreeMap<TopicName, (TopicId, Vec<i32>)>,
    /// For each broker, the replicas to stop, or to delete.
    stop: BTreeMap<BrokerId, ByTopic<Stop>>,
    /// Also tell those who have nothing to do which brokers live.
    brokers_changed: bool,
    /// Who hears of brokers and partitions; everybody, if none.
    audience: Option<BTreeSet<BrokerId>>,
}

/// How a replica is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stop {
    /// `None` of a topic that is being deleted: the wire's -2.
    leader_epoch: Option<LeaderEpoch>,
    delete: bool,
}

impl Outbox {
    /// `brokers` are to lead or follow `at`; everybody is to know.
    pub(crate) fn lead(
        &mut self,
        at: &TopicPartition,
        brokers: impl IntoIterator<Item = BrokerId>,
        is_new: bool,
    ) {
        for broker in brokers {
            let topics = self.leader_and_isr.entry(broker).or_default();
            let partitions = topics.entry(at.topic.clone()).or_default();
            *partitions.entry(at.partition).or_default() |= is_new;
        }
        self.describe(at);
    }

    /// Everybody is to know what became of `at`.
    pub(crate) fn describe(&mut self, at: &TopicPartition) {
        self.metadata.entry(at.topic.clone()).or_default().insert(at.partition);
    }

    /// Everybody is to know which brokers live.
    pub(crate) fn describe_brokers(&mut self) {
        self.brokers_changed = true;
    }

    /// Nobody is to see the topic any more.
    pub(crate) fn hide(&mut self, name: TopicName, id: TopicId, partitions: Vec<i32>) {
        self.deleted.insert(name, (id, partitions));
    }

    /// Only `brokers` are told of brokers and partitions; who is to lead or follow hears of that anyway.
    pub(crate) fn only_to(mut self, brokers: impl IntoIterator<Item = BrokerId>) -> Self {
        self.audience = Some(brokers.into_iter().collect());
        self
    }

    /// Whether there is nothing to tell.
    pub(crate) fn is_empty(&self) -> bool {
        self.leader_and_isr.is_empty()
            && self.metadata.is_empty()
            && self.deleted.is_empty()
            && self.stop.is_empty()
            && !self.brokers_changed
    }

    /// `broker` is to stop its replica of `at`, whose topic is being deleted; with `delete`, for good.
    pub(crate) fn delete(&mut self, at: &TopicPartition, broker: BrokerId, delete: bool) {
        self.end(at, broker, Stop { leader_epoch: None, delete });
    }

    /// `broker` is to stop its replica of `at` in this epoch; with `delete`, to delete it too.
    pub(crate) fn stop(
        &mut self,
        at: &TopicPartition,
        broker: BrokerId,
        leader_epoch: LeaderEpoch,
        delete: bool,
    ) {
        self.end(at, broker, Stop { leader_epoch: Some(leader_epoch), delete });
    }

    fn end(&mut self, at: &TopicPartition, broker: BrokerId, stop: Stop) {
        let topics = self.stop.entry(broker).or_default();
        topics.entry(at.topic.clone()).or_default().insert(at.partition, stop);
    }

    /// The requests to each registered broker, in the order in which they must be sent.
    pub(crate) fn requests(
        &self,
        context: &Context,
        settings: &ControllerSettings,
        epoch: ControllerEpoch,
    ) -> Vec<(BrokerId, ControlRequest)> {
        let controller = settings.broker.id;
        let metadata =
            (!self.metadata.is_empty() || !self.deleted.is_empty() || self.brokers_changed)
                .then(|| self.update_metadata(context, controller, epoch));
        let mut requests = Vec::new();
        for (&broker, live) in &context.brokers {
            if let Some(topics) = self.leader_and_isr.get(&broker) {
                let mut request = leader_and_isr(context, topics, &settings.inter_broker_listener);
                (request.controller_id, request.controller_epoch) = (controller.0, epoch.0);
                request.broker_epoch = live.epoch.0;
                requests.push((broker, ControlRequest::LeaderAndIsr(request)));
            }
            let hears = self.audience.as_ref().is_none_or(|audience| audience.contains(&broker));
            if let Some(metadata) = metadata.as_ref().filter(|_| hears) {
                let request =
                    UpdateMetadataRequest { broker_epoch: live.epoch.0, ..metadata.clone() };
                requests.push((broker, ControlRequest::UpdateMetadata(request)));
            }
            if let Some(topics) = self.stop.get(&broker) {
                let request = StopReplicaRequest {
                    controller_id: controller.0,
                    controller_epoch: epoch.0,
                    broker_epoch: live.epoch.0,
                    topic_states: topics.iter().map(stop_topic).collect(),
                    ..StopReplicaRequest::default()
                };
                requests.push((broker, ControlRequest::StopReplica(request)));
            }
        }
        requests
    }

    fn update_metadata(
        &self,
        context: &Context,
        controller: BrokerId,
        epoch: ControllerEpoch,
    ) -> UpdateMetadataRequest {
        let changed = self.metadata.iter().filter(|(name, _)| !self.deleted.contains_key(*name));
        let mut topic_states: Vec<_> = changed
            .filter_map(|(name, partitions)| describe_topic(context, name, partitions))
            .collect();
        for (name, (id, partitions)) in &self.deleted {
            topic_states.push(umr::UpdateMetadataTopicState {
                topic_name: text(name),
                topic_id: *id,
                partition_states: partitions
                    .iter()
                    .map(|&index| hidden(context, name, index, epoch))
                    .collect(),
            });
        }
        UpdateMetadataRequest {
            controller_id: controller.0,
            controller_epoch: epoch.0,
            topic_states,
            live_brokers: live_brokers(context),
            ..UpdateMetadataRequest::default()
        }
    }
}

fn text(text: &str) -> ByteString {
    ByteString::from(text)
}

fn raw(ids: &[BrokerId]) -> Vec<i32> {
    ids.iter().map(|id| id.0).collect()
}

fn leader_of(state: &State) -> i32 {
    state.node.leader.map_or(NO_LEADER, |id| id.0)
}

fn leader_and_isr(
    context: &Context,
    topics: &ByTopic<bool>,
    inter_broker_listener: &str,
) -> LeaderAndIsrRequest {
    let mut leaders = BTreeSet::new();
    let mut topic_states = Vec::with_capacity(topics.len());
    for (name, partitions) in topics {
        let Some(topic) = context.topics.get(name) else { continue };
        let mut partition_states = Vec::with_capacity(partitions.len());
        for (&index, &is_new) in partitions {
            let Some(partition) = topic.partitions.get(&index) else { continue };
            let Some(state) = &partition.state else { continue };
            leaders.extend(state.node.leader);
            partition_states.push(lisr::LeaderAndIsrPartitionState {
                partition_index: index,
                controller_epoch: state.node.controller_epoch.0,
                leader: leader_of(state),
                leader_epoch: state.node.leader_epoch.0,
                isr: raw(&state.node.isr),
                partition_epoch: state.partition_epoch.0,
                replicas: raw(&partition.replicas),
                adding_replicas: raw(&partition.adding),
                removing_replicas: raw(&partition.removing),
                is_new,
                leader_recovery_state: i8::from(state.node.recovering),
                ..Default::default()
            });
        }
        topic_states.push(lisr::LeaderAndIsrTopicState {
            topic_name: text(name),
            topic_id: topic.id,
            partition_states,
        });
    }
    let live_leaders = leaders
        .into_iter()
        .filter_map(|id| {
            let endpoint = context.brokers.get(&id)?.image.endpoint(inter_broker_listener)?;
            Some(lisr::LeaderAndIsrLiveLeader {
                broker_id: id.0,
                host_name: text(&endpoint.host),
                port: endpoint.port,
            })
        })
        .collect();
    LeaderAndIsrRequest { topic_states, live_leaders, ..LeaderAndIsrRequest::default() }
}

fn describe_topic(
    context: &Context,
    name: &TopicName,
    partitions: &BTreeSet<i32>,
) -> Option<umr::UpdateMetadataTopicState> {
    let topic = context.topics.get(name)?;
    let describe = |&index: &i32| {
        let partition = topic.partitions.get(&index)?;
        let state = partition.state.as_ref()?;
        let at = TopicPartition::new(name.clone(), index);
        let offline = partition.replicas.iter().filter(|&&id| !context.is_online(id, &at));
        Some(umr::UpdateMetadataPartitionState {
            partition_index: index,
            controller_epoch: state.node.controller_epoch.0,
            leader: leader_of(state),
            leader_epoch: state.node.leader_epoch.0,
            isr: raw(&state.node.isr),
            zk_version: state.partition_epoch.0,
            replicas: raw(&partition.replicas),
            offline_replicas: offline.map(|id| id.0).collect(),
            ..Default::default()
        })
    };
    Some(umr::UpdateMetadataTopicState {
        topic_name: text(name),
        topic_id: topic.id,
        partition_states: partitions.iter().filter_map(describe).collect(),
    })
}

/// A partition that nobody is to see any more, as Kafka says it: in the first leader epoch and partition
/// epoch, but with its replicas.
fn hidden(
    context: &Context,
    name: &TopicName,
    index: i32,
    epoch: ControllerEpoch,
) -> umr::UpdateMetadataPartitionState {
    let at = TopicPartition::new(name.clone(), index);
    let partition = context.partition(&at);
    let replicas = partition.map_or(&[][..], |partition| &partition.replicas);
    let state = partition.and_then(|partition| partition.state.as_ref());
    let offline = replicas.iter().filter(|&&id| !context.is_online(id, &at));
    umr::UpdateMetadataPartitionState {
        partition_index: index,
        controller_epoch: epoch.0,
        leader: DELETED,
        isr: state.map_or_else(Vec::new, |state| raw(&state.node.isr)),
        replicas: raw(replicas),
        offline_replicas: offline.map(|id| id.0).collect(),
        ..Default::default()
    }
}

fn live_brokers(context: &Context) -> Vec<umr::UpdateMetadataBroker> {
    let describe = |live: &crate::context::LiveBroker| umr::UpdateMetadataBroker {
        id: live.image.id.0,
        endpoints: live
            .image
            .endpoints
            .iter()
            .map(|endpoint| umr::UpdateMetadataEndpoint {
                port: endpoint.port,
                host: text(&endpoint.host),
                listener: text(&endpoint.listener),
                security_protocol: endpoint.security_protocol.id(),
            })
            .collect(),
        rack: live.image.rack.as_deref().map(text),
        ..Default::default()
    };
    context.brokers.values().map(describe).collect()
}

fn stop_topic(
    (name, partitions): (&TopicName, &BTreeMap<i32, Stop>),
) -> stop::StopReplicaTopicState {
    stop::StopReplicaTopicState {
        topic_name: text(name),
        partition_states: partitions
            .iter()
            .map(|(&partition_index, stop)| stop::StopReplicaPartitionState {
                partition_index,
                leader_epoch: stop.leader_epoch.map_or(DELETED, |epoch| epoch.0),
                delete_partition: stop.delete,
            })
            .collect(),
    }
}

#[cfg(test)]
mod goldens;
