//! What the controller tells this broker: the only source of its view of the cluster.
//!
//! LeaderAndIsr gives partitions their roles, UpdateMetadata makes the image that clients see,
//! StopReplica ends roles and deletes logs. One is carried out at a time, on the caller's thread:
//! the control runtime. Source: Kafka's `ReplicaManager` and `ZkMetadataCache`.

use crate::Broker;
use crate::error_codes;
use crate::groups::OFFSETS_TOPIC;
use crate::partition::{Assignment, PartitionSettings};
use controller::{Answering, ConfigListener, ConfigReader, ControlChannel, ControlChannels};
use controller::{ControlRequest, ControlResponse, NoAnswer};
use metadata::{BrokerImage, ConfigChange, ConfigEntity, Endpoint, MetadataDelta};
use metadata::{PartitionDelta, PartitionImage, SecurityProtocol, TopicDelta};
use model::{BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId, TopicName};
use protocol::ErrorCode;
use protocol::messages::leader_and_isr_request::LeaderAndIsrPartitionState;
use protocol::messages::leader_and_isr_response::{
    LeaderAndIsrPartitionError, LeaderAndIsrTopicError,
};
use protocol::messages::stop_replica_request::StopReplicaPartitionState;
use protocol::messages::stop_replica_response::StopReplicaPartitionError;
use protocol::messages::update_metadata_request::{
    UpdateMetadataBroker, UpdateMetadataPartitionState,
};
use protocol::messages::{LeaderAndIsrRequest, LeaderAndIsrResponse, StopReplicaRequest};
use protocol::messages::{StopReplicaResponse, UpdateMetadataRequest, UpdateMetadataResponse};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak, mpsc};
use tokio::sync::Mutex as AsyncMutex;
use tracing::warn;

/// Wire value of a leader that is none.
const NO_LEADER: i32 = -1;
/// Wire value of a leader of a partition that is being deleted.
const BEING_DELETED: i32 = -2;
/// Wire value of a leader epoch in a StopReplica that deletes.
const DELETION_EPOCH: i32 = -2;

/// The ways from the controller in this process to brokers.
#[derive(Clone, Debug)]
pub(crate) struct LocalChannels {
    own_id: BrokerId,
    control: Arc<LocalControl>,
}

impl LocalChannels {
    /// The way to `broker`, which looks settings up with `configs`; `first_update` hears once when the
    /// broker knows its cluster.
    pub(crate) fn new(
        broker: &Arc<Broker>,
        configs: ConfigReader,
        first_update: mpsc::Sender<()>,
    ) -> Self {
        let control = LocalControl {
            broker: Arc::downgrade(broker),
            configs,
            progress: AsyncMutex::new(Progress {
                controller_epoch: ControllerEpoch::default(),
                first_update: Some(first_update),
            }),
        };
        let own_id = broker.partitions.environment().broker_id;
        Self { own_id, control: Arc::new(control) }
    }
}

impl ControlChannels for LocalChannels {
    fn open(&self, broker: &BrokerImage) -> Arc<dyn ControlChannel> {
        if broker.id == self.own_id {
            return Arc::new(ToSelf(Arc::clone(&self.control)));
        }
        warn!(broker = broker.id.0, "a broker beside this one is registered; it is not led");
        Arc::new(ToNobody)
    }
}

/// The way to a broker that cannot be reached.
#[derive(Debug)]
struct ToNobody;

impl ControlChannel for ToNobody {
    fn send(&self, _request: ControlRequest) -> Answering {
        Box::pin(std::future::ready(Err(NoAnswer)))
    }
}

/// The way to this broker.
#[derive(Debug)]
struct ToSelf(Arc<LocalControl>);

impl ControlChannel for ToSelf {
    fn send(&self, request: ControlRequest) -> Answering {
        let control = Arc::clone(&self.0);
        Box::pin(async move { control.carry_out(request).await })
    }
}

#[derive(Debug)]
struct LocalControl {
    /// The broker holds the controller, which holds this.
    broker: Weak<Broker>,
    configs: ConfigReader,
    /// Held while a request is carried out: one at a time.
    progress: AsyncMutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    /// The highest controller epoch that was seen.
    controller_epoch: ControllerEpoch,
    first_update: Option<mpsc::Sender<()>>,
}

impl LocalControl {
    async fn carry_out(&self, request: ControlRequest) -> Result<ControlResponse, NoAnswer> {
        let mut progress = self.progress.lock().await;
        if let ControlRequest::LeaderAndIsr(request) = &request {
            self.learn_settings(request).await?;
        }
        let broker = self.broker.upgrade().ok_or(NoAnswer)?;
        let is_update = matches!(request, ControlRequest::UpdateMetadata(_));
        let response = carry_out(&broker, request, &mut progress.controller_epoch);
        if is_update && let Some(first_update) = progress.first_update.take() {
            // Nobody waits if the start was given up.
            first_update.send(()).ok();
        }
        Ok(response)
    }

    /// A topic's log is created with the topic's own settings, which nobody announces before.
    async fn learn_settings(&self, request: &LeaderAndIsrRequest) -> Result<(), NoAnswer> {
        let broker = self.broker.upgrade().ok_or(NoAnswer)?;
        let new: Vec<_> = request
            .topic_states
            .iter()
            .map(|topic| TopicName::from(&*topic.topic_name))
            .filter(|topic| !broker.partitions.hosts(topic))
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let settings = self.configs.topics(&new).await.map_err(|error| {
            warn!(%error, "the settings of new topics cannot be read");
            NoAnswer
        })?;
        let changes = new
            .into_iter()
            .zip(settings)
            .map(|(topic, configs)| ConfigChange { entity: ConfigEntity::Topic(topic), configs });
        let changes: Vec<_> = changes.filter(|change| !change.configs.is_empty()).collect();
        if !changes.is_empty() {
            broker.image.rcu(|image| image.with_all_configs(changes.clone()));
        }
        Ok(())
    }
}

fn carry_out(
    broker: &Arc<Broker>,
    request: ControlRequest,
    highest: &mut ControllerEpoch,
) -> ControlResponse {
    let (epoch, controller) = match &request {
        ControlRequest::LeaderAndIsr(request) => (request.controller_epoch, request.controller_id),
        ControlRequest::UpdateMetadata(request) => {
            (request.controller_epoch, request.controller_id)
        }
        ControlRequest::StopReplica(request) => (request.controller_epoch, request.controller_id),
    };
    let epoch = ControllerEpoch(epoch);
    let is_stale = epoch < *highest;
    if is_stale {
        warn!(controller, epoch = epoch.0, newest = highest.0, "a controller of the past speaks");
    } else {
        *highest = epoch;
    }
    let refusal = is_stale.then_some(ErrorCode::StaleControllerEpoch);
    match request {
        ControlRequest::LeaderAndIsr(request) => {
            ControlResponse::LeaderAndIsr(leader_and_isr(broker, request, refusal))
        }
        ControlRequest::UpdateMetadata(request) => {
            if refusal.is_none() {
                update_metadata(broker, request);
            }
            let error_code = refusal.unwrap_or(ErrorCode::None).code();
            ControlResponse::UpdateMetadata(UpdateMetadataResponse { error_code })
        }
        ControlRequest::StopReplica(request) => {
            ControlResponse::StopReplica(stop_replica(broker, request, refusal))
        }
    }
}

/// Gives partitions their roles. A refusal as a whole is repeated on each partition.
fn leader_and_isr(
    broker: &Arc<Broker>,
    request: LeaderAndIsrRequest,
    refusal: Option<ErrorCode>,
) -> LeaderAndIsrResponse {
    let mut topics = Vec::with_capacity(request.topic_states.len());
    for topic in request.topic_states {
        let name = TopicName::from(&*topic.topic_name);
        let id = known_id(topic.topic_id);
        let indexes: Vec<_> =
            topic.partition_states.iter().map(|state| state.partition_index).collect();
        let codes = match refusal {
            Some(code) => vec![code; indexes.len()],
            None => host(broker, &name, id, topic.partition_states),
        };
        let partition_errors = indexes
            .into_iter()
            .zip(codes)
            .map(|(partition_index, code)| LeaderAndIsrPartitionError {
                topic_name: topic.topic_name.clone(),
                partition_index,
                error_code: code.code(),
            })
            .collect();
        topics.push(LeaderAndIsrTopicError { topic_id: topic.topic_id, partition_errors });
    }
    let error_code = refusal.unwrap_or(ErrorCode::None).code();
    LeaderAndIsrResponse { error_code, topics, ..Default::default() }
}

/// Carries out one topic's part of a LeaderAndIsr; one code per partition, in order.
fn host(
    broker: &Arc<Broker>,
    name: &TopicName,
    id: Option<TopicId>,
    states: Vec<LeaderAndIsrPartitionState>,
) -> Vec<ErrorCode> {
    let own_id = broker.partitions.environment().broker_id;
    let mut codes = vec![ErrorCode::None; states.len()];
    let mut assignments = Vec::new();
    let mut places = Vec::new();
    for (place, state) in states.into_iter().enumerate() {
        let assignment = assignment(state);
        let known = broker.partitions.find(name, assignment.index).and_then(|p| p.leader_epoch());
        match known {
            Some(known) if assignment.leader_epoch < known => {
                codes[place] = ErrorCode::StaleControllerEpoch;
            }
            // Nothing new but perhaps the topic's id, which is adopted.
            Some(known) if assignment.leader_epoch == known => {
                let learns_id = id.is_some()
                    && broker
                        .partitions
                        .find(name, assignment.index)
                        .is_some_and(|partition| partition.topic.id().is_none());
                if learns_id {
                    places.push(place);
                    assignments.push(assignment);
                } else {
                    codes[place] = ErrorCode::StaleControllerEpoch;
                }
            }
            _ if !assignment.replicas.contains(&own_id) => {
                codes[place] = ErrorCode::UnknownTopicOrPartition;
            }
            _ => {
                places.push(place);
                assignments.push(assignment);
            }
        }
    }
    if !assignments.is_empty() {
        let settings = topic_settings(broker, name);
        let roles: Vec<_> = assignments
            .iter()
            .map(|assignment| (assignment.index, assignment.leader, assignment.leader_epoch))
            .collect();
        let results = broker.partitions.host(name, id, &settings, assignments);
        for ((place, role), result) in places.into_iter().zip(roles).zip(results) {
            match result {
                Ok(()) if &**name == OFFSETS_TOPIC => coordinate(broker, role),
                Ok(()) => {}
                Err(error) => {
                    warn!(topic = %name, %error, "a partition cannot be hosted");
                    codes[place] = error_codes::host_error(&error);
                }
            }
        }
    }
    codes
}

/// Whoever leads a partition of the offsets topic coordinates the groups whose offsets are in it.
fn coordinate(
    broker: &Broker,
    (index, leader, leader_epoch): (i32, Option<BrokerId>, LeaderEpoch),
) {
    let own_id = broker.partitions.environment().broker_id;
    match broker.partitions.find(OFFSETS_TOPIC, index) {
        Some(partition) if leader == Some(own_id) => {
            broker.groups.elected(index, leader_epoch, Arc::new(partition));
        }
        _ => broker.groups.resigned(index, Some(leader_epoch)),
    }
}

fn assignment(state: LeaderAndIsrPartitionState) -> Assignment {
    Assignment {
        index: state.partition_index,
        leader: (state.leader >= 0).then_some(BrokerId(state.leader)),
        leader_epoch: LeaderEpoch(state.leader_epoch),
        partition_epoch: PartitionEpoch(state.partition_epoch),
        replicas: brokers(&state.replicas),
        isr: brokers(&state.isr),
        is_new: state.is_new,
    }
}

/// Makes the image that clients see from now on.
fn update_metadata(broker: &Arc<Broker>, request: UpdateMetadataRequest) {
    let delta = MetadataDelta {
        controller: (request.controller_id >= 0).then_some(BrokerId(request.controller_id)),
        controller_epoch: ControllerEpoch(request.controller_epoch),
        brokers: request.live_brokers.into_iter().map(live_broker).collect(),
        topics: request
            .topic_states
            .into_iter()
            .map(|topic| TopicDelta {
                name: TopicName::from(&*topic.topic_name),
                id: known_id(topic.topic_id),
                partitions: topic.partition_states.into_iter().map(partition_delta).collect(),
            })
            .collect(),
    };
    let before = broker.image.load_full();
    let mut deleted = Vec::new();
    // Settings change the image too, from another task.
    broker.image.rcu(|image| {
        let applied = image.apply(delta.clone());
        deleted = applied.deleted;
        applied.image
    });
    broker.partitions.brokers_changed(&before, &broker.image.load());
    let mut topics: Vec<_> = deleted.into_iter().map(|partition| partition.topic).collect();
    topics.dedup();
    topics.retain(|topic| broker.image.load().topic(topic).is_none());
    broker.groups.topics_deleted(&topics);
}

fn live_broker(broker: UpdateMetadataBroker) -> BrokerImage {
    let endpoints = broker
        .endpoints
        .into_iter()
        .filter_map(|endpoint| {
            Some(Endpoint {
                listener: endpoint.listener.to_string(),
                host: endpoint.host.to_string(),
                port: endpoint.port,
                security_protocol: SecurityProtocol::from_id(endpoint.security_protocol)?,
            })
        })
        .collect();
    BrokerImage {
        id: BrokerId(broker.id),
        rack: broker.rack.map(|rack| rack.to_string()),
        endpoints,
    }
}

fn partition_delta(state: UpdateMetadataPartitionState) -> PartitionDelta {
    if state.leader == BEING_DELETED {
        return PartitionDelta::Deleted(state.partition_index);
    }
    PartitionDelta::Changed(PartitionImage {
        index: state.partition_index,
        leader: (state.leader > NO_LEADER).then_some(BrokerId(state.leader)),
        leader_epoch: LeaderEpoch(state.leader_epoch),
        isr: brokers(&state.isr),
        replicas: brokers(&state.replicas),
        offline_replicas: brokers(&state.offline_replicas),
        partition_epoch: PartitionEpoch(state.zk_version),
        controller_epoch: ControllerEpoch(state.controller_epoch),
    })
}

/// Ends roles and deletes logs.
fn stop_replica(
    broker: &Arc<Broker>,
    request: StopReplicaRequest,
    refusal: Option<ErrorCode>,
) -> StopReplicaResponse {
    if let Some(code) = refusal {
        return StopReplicaResponse { error_code: code.code(), partition_errors: Vec::new() };
    }
    let mut partition_errors = Vec::new();
    for topic in request.topic_states {
        for state in topic.partition_states {
            partition_errors.push(StopReplicaPartitionError {
                topic_name: topic.topic_name.clone(),
                partition_index: state.partition_index,
                error_code: stop(broker, &topic.topic_name, &state).code(),
            });
        }
    }
    StopReplicaResponse { error_code: ErrorCode::None.code(), partition_errors }
}

fn stop(broker: &Arc<Broker>, topic: &str, state: &StopReplicaPartitionState) -> ErrorCode {
    let current = broker
        .partitions
        .find(topic, state.partition_index)
        .and_then(|partition| partition.leader_epoch());
    // An old controller sends -1 for an epoch that it does not know.
    let is_exempt = state.leader_epoch == DELETION_EPOCH || state.leader_epoch == -1;
    if !is_exempt && current.is_some_and(|current| LeaderEpoch(state.leader_epoch) < current) {
        return ErrorCode::FencedLeaderEpoch;
    }
    if topic == OFFSETS_TOPIC && state.delete_partition {
        broker.groups.resigned(state.partition_index, None);
    }
    match broker.partitions.stop(topic, state.partition_index, state.delete_partition) {
        Ok(()) => ErrorCode::None,
        Err(error) => {
            warn!(topic, partition = state.partition_index, %error, "a log is not deleted");
            ErrorCode::KafkaStorageError
        }
    }
}

/// Takes over dynamic settings as the store announces them.
#[derive(Debug)]
pub(crate) struct DynamicSettings {
    broker: Weak<Broker>,
}

impl DynamicSettings {
    pub(crate) fn new(broker: &Arc<Broker>) -> Self {
        Self { broker: Arc::downgrade(broker) }
    }
}

impl ConfigListener for DynamicSettings {
    fn config_changed(&self, change: ConfigChange) {
        let Some(broker) = self.broker.upgrade() else { return };
        let entity = change.entity.clone();
        broker.image.rcu(|image| image.with_configs(change.clone()));
        match entity {
            ConfigEntity::Topic(name) => {
                broker.partitions.set_settings(&name, &topic_settings(&broker, &name));
            }
            ConfigEntity::Broker(_) | ConfigEntity::AllBrokers => apply_broker_settings(&broker),
            // Nobody pushes metrics here: the image is where they are described from.
            ConfigEntity::ClientMetrics(_) => {}
        }
    }
}

/// Broker settings are the defaults of topic settings, so every topic hears of them.
fn apply_broker_settings(broker: &Arc<Broker>) {
    let image = broker.image.load();
    let own = image.broker_configs(broker.partitions.environment().broker_id);
    let (config, left_out) = broker.config.load().with_dynamic(image.all_brokers_configs(), &own);
    for problem in left_out {
        warn!(%problem, "a dynamic setting is not used");
    }
    broker.config.store(Arc::new(config));
    for topic in broker.partitions.topics() {
        broker.partitions.set_settings(&topic, &topic_settings(broker, &topic));
    }
}

/// What `topic`'s partitions go by now.
pub(crate) fn topic_settings(broker: &Broker, topic: &str) -> PartitionSettings {
    let config = broker.config.load();
    let overrides: Arc<BTreeMap<String, String>> = broker.image.load().topic_configs(topic);
    PartitionSettings::new(&config.topic_config(&overrides), config.log.record_validation)
}

fn brokers(ids: &[i32]) -> Vec<BrokerId> {
    ids.iter().copied().map(BrokerId).collect()
}

fn known_id(id: TopicId) -> Option<TopicId> {
    (id != TopicId::ZERO).then_some(id)
}
