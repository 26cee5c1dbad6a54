//! What the controller tells this broker: the only source of its view of the cluster.
//!
//! LeaderAndIsr gives partitions their roles, UpdateMetadata makes the image that clients see,
//! StopReplica ends roles and deletes logs. They come in process or by socket and are carried out
//! one at a time, on the control runtime. Source: Kafka's `ReplicaManager` and `ZkMetadataCache`.

use crate::Broker;
use crate::channels::LIST_OFFSETS;
use crate::error_codes;
use crate::groups::OFFSETS_TOPIC;
use crate::handlers::list_offsets;
use crate::partition::{Assignment, PartitionSettings};
use controller::{ConfigListener, ConfigReader, ControlRequest, ControlResponse};
use controller::{ControllerHandle, EpochRecord, NoAnswer, validate_topic_name};
use metadata::{BrokerImage, ConfigChange, ConfigEntity, Endpoint, MetadataDelta};
use metadata::{PartitionDelta, PartitionImage, SecurityProtocol, TopicDelta};
use model::{
    BrokerEpoch, BrokerId, Bug, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId, TopicName,
    TopicPartition,
};
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
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;
use tracing::warn;

/// Wire value of a leader that is none.
const NO_LEADER: i32 = -1;
/// Wire value of a leader of a partition that is being deleted.
const BEING_DELETED: i32 = -2;
/// Wire value of a leader epoch in a StopReplica that deletes.
const DELETION_EPOCH: i32 = -2;

/// Wire value of a leader epoch that an old controller does not know.
pub(crate) const UNKNOWN_EPOCH: i32 = -1;

/// How long clients wait for topics after the first update showed none.
const TOPICS_PATIENCE: Duration = Duration::from_secs(2);

/// How far the controller's requests have come, and what is needed to carry them out.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Looks the settings of new topics up; there once the broker has joined its cluster.
    configs: OnceLock<ConfigReader>,
    /// The highest controller epoch that was seen. Held while a request is carried out: one at a time.
    highest: AsyncMutex<ControllerEpoch>,
    /// Remembers it across restarts; there once the broker has joined its cluster.
    epochs: OnceLock<Arc<dyn EpochRecord>>,
    /// Whether the store had topics when this broker joined: then clients wait until it knows them.
    expects_topics: AtomicBool,
}

impl Control {
    /// Whether clients wait for the first update that shows topics.
    pub(crate) fn expect_topics(&self, expected: bool) {
        self.expects_topics.store(expected, Ordering::Release);
    }

    /// From now on settings can be looked up.
    pub(crate) fn set_config_reader(&self, configs: ConfigReader) {
        assert!(self.configs.set(configs).is_ok(), "a broker joins its cluster once");
    }

    /// From now on no controller counts that is older than what `epochs` remembers, and later ones are remembered there.
    pub(crate) fn remember_epochs(&self, epochs: Arc<dyn EpochRecord>) {
        assert!(self.epochs.set(epochs).is_ok(), "a broker joins its cluster once");
    }
}

/// Does what the controller says, whichever way it came.
///
/// # Errors
/// [`NoAnswer`]: it cannot be done now, and the controller is to say it again.
pub(crate) async fn carry_out(
    broker: &Arc<Broker>,
    request: ControlRequest,
) -> Result<ControlResponse, NoAnswer> {
    let mut highest = broker.told.highest.lock().await;
    let refusal = refusal(broker, &request, &mut highest);
    let response = match request {
        ControlRequest::LeaderAndIsr(mut request) => {
            let mut lost = BTreeSet::new();
            if refusal.is_none() {
                // A topic without partitions is named in a refusal only, as in Kafka.
                request.topic_states.retain(|topic| !topic.partition_states.is_empty());
                learn_settings(broker, &request).await?;
                lost = lost_logs(broker, &request).await?;
            }
            ControlResponse::LeaderAndIsr(leader_and_isr(broker, request, &lost, refusal))
        }
        ControlRequest::UpdateMetadata(request) => {
            let refusal = refusal.or_else(|| impossible(&request));
            if refusal.is_none() {
                let shows_topics = !request.topic_states.is_empty();
                update_metadata(broker, request);
                make_ready(broker, shows_topics);
            }
            let error_code = refusal.unwrap_or(ErrorCode::None).code();
            ControlResponse::UpdateMetadata(UpdateMetadataResponse { error_code })
        }
        ControlRequest::StopReplica(request) => {
            ControlResponse::StopReplica(stop_replica(broker, request, refusal))
        }
        ControlRequest::LogEnds(request) => {
            ControlResponse::LogEnds(list_offsets::answer(broker, &request, LIST_OFFSETS))
        }
    };
    Ok(response)
}

/// A new controller names the live brokers first and the topics after that. Where the store has topics,
/// clients wait for those, though not for ever: they may all be about to be deleted.
fn make_ready(broker: &Arc<Broker>, shows_topics: bool) {
    if broker.readiness.is_ready() {
        return;
    }
    if shows_topics || !broker.told.expects_topics.load(Ordering::Acquire) {
        broker.readiness.set();
        return;
    }
    // The next update does, whatever it shows.
    broker.told.expects_topics.store(false, Ordering::Release);
    let broker = Arc::downgrade(broker);
    platform::tasks::spawn(async move {
        tokio::time::sleep(TOPICS_PATIENCE).await;
        if let Some(broker) = broker.upgrade() {
            broker.readiness.set();
        }
    });
}

/// Why a request is not carried out: it is meant for an earlier registration of this broker, or comes
/// from a controller of the past. In this order, as in Kafka.
fn refusal(
    broker: &Broker,
    request: &ControlRequest,
    highest: &mut ControllerEpoch,
) -> Option<ErrorCode> {
    let (controller, epoch, broker_epoch) = match request {
        ControlRequest::LeaderAndIsr(r) => (r.controller_id, r.controller_epoch, r.broker_epoch),
        ControlRequest::UpdateMetadata(r) => (r.controller_id, r.controller_epoch, r.broker_epoch),
        ControlRequest::StopReplica(r) => (r.controller_id, r.controller_epoch, r.broker_epoch),
        // Anybody may ask it.
        ControlRequest::LogEnds(_) => return None,
    };
    let own = broker.controller.get().map_or(BrokerEpoch(-1), ControllerHandle::broker_epoch);
    // A greater one is our next, which we have not heard of yet ourselves.
    if broker_epoch != -1 && BrokerEpoch(broker_epoch) < own && !Bug::Kafka7235.is_planted() {
        warn!(controller, broker_epoch, own = own.0, "a request for an earlier registration");
        return Some(ErrorCode::StaleBrokerEpoch);
    }
    let is_kraft = match request {
        ControlRequest::LeaderAndIsr(request) => request.is_kraft_controller,
        ControlRequest::UpdateMetadata(request) => request.is_kraft_controller,
        ControlRequest::StopReplica(request) => request.is_kraft_controller,
        ControlRequest::LogEnds(_) => false,
    };
    if is_kraft {
        // As in Kafka, unless a migration to KRaft is on, which we do not know.
        warn!(controller, "a KRaft controller speaks");
        return Some(ErrorCode::UnknownServerError);
    }
    let epoch = ControllerEpoch(epoch);
    let remembered = broker.told.epochs.get();
    let newest = remembered.map_or(*highest, |epochs| epochs.highest().max(*highest));
    if epoch < newest && !Bug::Kafka1188.is_planted() {
        warn!(
            controller,
            epoch = epoch.0,
            newest = newest.0,
            "a controller of the past speaks; or the store was restored from an old copy, and /controller_epoch must be raised"
        );
        return Some(ErrorCode::StaleControllerEpoch);
    }
    *highest = epoch;
    // Before anything is done in it, so that it is never forgotten.
    if let Some(epochs) = remembered {
        epochs.raise(epoch);
    }
    None
}

/// Why an image cannot be: a broker has a listener twice.
fn impossible(request: &UpdateMetadataRequest) -> Option<ErrorCode> {
    let is_twice = |broker: &UpdateMetadataBroker| {
        let mut names = BTreeSet::new();
        !broker.endpoints.iter().all(|endpoint| names.insert(&endpoint.listener))
    };
    let found = request.live_brokers.iter().find(|broker| is_twice(broker))?;
    warn!(controller = request.controller_id, broker = found.id, "a broker has a listener twice");
    Some(ErrorCode::UnknownServerError)
}

/// A topic's log is created with the topic's own settings, which nobody announces before.
async fn learn_settings(broker: &Broker, request: &LeaderAndIsrRequest) -> Result<(), NoAnswer> {
    let new: Vec<_> = request
        .topic_states
        .iter()
        .map(|topic| TopicName::from(&*topic.topic_name))
        .filter(|topic| !broker.partitions.hosts(topic))
        .collect();
    if new.is_empty() {
        return Ok(());
    }
    let configs = broker.told.configs.get().ok_or(NoAnswer)?;
    let settings = configs.topics(&new).await.map_err(|error| {
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

/// The partitions whose logs may have been here and are gone, though others count on them: this broker is
/// said to be in sync, and the partition is not new.
///
/// A replica that is not in sync may start empty: it follows, and takes everything from its leader. So may one
/// that never had a log, because the controller or this broker died before the partition's first LeaderAndIsr:
/// the store tells how old the partition is, the log directories since when they are complete.
async fn lost_logs(
    broker: &Broker,
    request: &LeaderAndIsrRequest,
) -> Result<BTreeSet<TopicPartition>, NoAnswer> {
    let own_id = broker.partitions.environment().broker_id.0;
    let named = request.topic_states.iter().flat_map(|topic| {
        let counted_on = |state: &&LeaderAndIsrPartitionState| {
            !state.is_new && (state.isr.contains(&own_id) || state.leader == own_id)
        };
        let states = topic.partition_states.iter().filter(counted_on);
        states.map(|state| TopicPartition::new(&*topic.topic_name, state.partition_index))
    });
    let absent: Vec<_> = named.filter(|at| !broker.partitions.has_log(at)).collect();
    if absent.is_empty() {
        return Ok(BTreeSet::new());
    }
    let configs = broker.told.configs.get().ok_or(NoAnswer)?;
    let created = configs.created(&absent).await.map_err(|error| {
        warn!(%error, "it cannot be told whether logs are gone");
        NoAnswer
    })?;
    let logs = &broker.partitions.environment().logs;
    let is_lost = |(at, created): &(TopicPartition, _)| logs.may_have_lost(at, *created);
    Ok(absent.into_iter().zip(created).filter(is_lost).map(|(at, _)| at).collect())
}

/// Gives partitions their roles. A refusal as a whole is repeated on each partition.
fn leader_and_isr(
    broker: &Arc<Broker>,
    request: LeaderAndIsrRequest,
    lost: &BTreeSet<TopicPartition>,
    refusal: Option<ErrorCode>,
) -> LeaderAndIsrResponse {
    // One that does not name a registration means the present one.
    let registration = match request.broker_epoch {
        -1 => broker.controller.get().map_or(BrokerEpoch(-1), ControllerHandle::broker_epoch),
        epoch => BrokerEpoch(epoch),
    };
    let mut topics = Vec::with_capacity(request.topic_states.len());
    for mut topic in request.topic_states {
        let name = TopicName::from(&*topic.topic_name);
        let id = known_id(topic.topic_id);
        last_of_each(&mut topic.partition_states);
        let indexes: Vec<_> =
            topic.partition_states.iter().map(|state| state.partition_index).collect();
        let codes = match refusal {
            Some(code) => vec![code; indexes.len()],
            None => host(broker, &name, id, registration, topic.partition_states, lost),
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

/// Of a partition that is named twice the last state counts, as in Kafka.
fn last_of_each(states: &mut Vec<LeaderAndIsrPartitionState>) {
    states.reverse();
    let mut seen = BTreeSet::new();
    states.retain(|state| seen.insert(state.partition_index));
    states.reverse();
}

/// Carries out one topic's part of a LeaderAndIsr; one code per partition, in order.
fn host(
    broker: &Arc<Broker>,
    name: &TopicName,
    id: Option<TopicId>,
    registration: BrokerEpoch,
    states: Vec<LeaderAndIsrPartitionState>,
    lost: &BTreeSet<TopicPartition>,
) -> Vec<ErrorCode> {
    let own_id = broker.partitions.environment().broker_id;
    let mut codes = vec![ErrorCode::None; states.len()];
    // Names and indexes become names of directories.
    if validate_topic_name(name).is_err() || states.iter().any(|state| state.partition_index < 0) {
        codes.fill(ErrorCode::InvalidTopicException);
        return codes;
    }
    let mut assignments = Vec::new();
    let mut places = Vec::new();
    for (place, state) in states.into_iter().enumerate() {
        let mut assignment = assignment(state, registration);
        assignment.is_lost = lost.contains(&TopicPartition::new(name.clone(), assignment.index));
        let hosted = broker.partitions.find(name, assignment.index);
        let known_id = hosted.as_ref().and_then(|partition| partition.topic.id());
        if known_id.is_some() && id.is_some() && known_id != id {
            codes[place] = ErrorCode::InconsistentTopicId;
            continue;
        }
        let told = hosted.as_ref().and_then(|partition| partition.leadership());
        // One that stepped down does what it is told next, though it was told so before.
        let known = hosted.as_ref().and_then(|partition| partition.current_epoch());
        let is_old = told.is_some_and(|(_, epoch)| assignment.leader_epoch < epoch);
        if !is_old && hosted.as_ref().is_some_and(|p| p.steps_down_from(&assignment)) {
            if &**name == OFFSETS_TOPIC {
                broker.groups.resigned(assignment.index, Some(assignment.leader_epoch));
            }
            codes[place] = ErrorCode::KafkaStorageError;
            continue;
        }
        let known = if is_old { told.map(|(_, epoch)| epoch) } else { known };
        match known {
            Some(known) if assignment.leader_epoch < known => {
                codes[place] = ErrorCode::StaleControllerEpoch;
            }
            // Nothing new but perhaps the topic's id, which is adopted.
            Some(known) if assignment.leader_epoch == known => {
                if let Some(hosted) = &hosted {
                    hosted.affirm(registration);
                }
                if id.is_some() && known_id.is_none() {
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

fn assignment(state: LeaderAndIsrPartitionState, registration: BrokerEpoch) -> Assignment {
    Assignment {
        index: state.partition_index,
        leader: (state.leader >= 0).then_some(BrokerId(state.leader)),
        leader_epoch: LeaderEpoch(state.leader_epoch),
        partition_epoch: PartitionEpoch(state.partition_epoch),
        replicas: brokers(&state.replicas),
        isr: brokers(&state.isr),
        is_new: state.is_new,
        is_lost: false,
        is_recovering: state.leader_recovery_state == 1,
        registration,
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
    broker.peers.image_changed();
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
    let error_code = refusal.unwrap_or(ErrorCode::None).code();
    // Kafka names the partitions of requests that it carries out, and of those that fail within.
    if refusal.is_some_and(|code| code != ErrorCode::UnknownServerError) {
        return StopReplicaResponse { error_code, partition_errors: Vec::new() };
    }
    let mut partition_errors = Vec::new();
    for topic in request.topic_states {
        for state in topic.partition_states {
            let code = refusal.unwrap_or_else(|| stop(broker, &topic.topic_name, &state));
            partition_errors.push(StopReplicaPartitionError {
                topic_name: topic.topic_name.clone(),
                partition_index: state.partition_index,
                error_code: code.code(),
            });
        }
    }
    StopReplicaResponse { error_code, partition_errors }
}

fn stop(broker: &Arc<Broker>, topic: &str, state: &StopReplicaPartitionState) -> ErrorCode {
    let current = broker
        .partitions
        .find(topic, state.partition_index)
        .and_then(|partition| partition.leadership())
        .map(|(_, epoch)| epoch);
    let is_exempt = state.leader_epoch == DELETION_EPOCH
        || state.leader_epoch == UNKNOWN_EPOCH
        || Bug::Kafka9539.is_planted();
    if !is_exempt && current.is_some_and(|current| LeaderEpoch(state.leader_epoch) < current) {
        return ErrorCode::FencedLeaderEpoch;
    }
    if topic == OFFSETS_TOPIC && state.delete_partition {
        broker.groups.resigned(state.partition_index, None);
    }
    let logs = &broker.partitions.environment().logs;
    if state.delete_partition
        && logs.directories().iter().any(|directory| directory.is_offline())
        && !broker.partitions.has_log(&TopicPartition::new(topic, state.partition_index))
    {
        // It may be where nothing can be deleted now, and would be found there by the next start.
        return ErrorCode::KafkaStorageError;
    }
    let delete =
        state.delete_partition.then(|| topic_settings(broker, topic).log.file_delete_delay_ms);
    match broker.partitions.stop(topic, state.partition_index, delete) {
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
    let environment = broker.partitions.environment();
    environment.leader_throttle.set_limit(config.replication.leader_throttled_rate);
    environment.follower_throttle.set_limit(config.replication.follower_throttled_rate);
    environment.fetchers.set_count(config.replication.fetchers);
    broker.config.store(Arc::new(config));
    for topic in broker.partitions.topics() {
        broker.partitions.set_settings(&topic, &topic_settings(broker, &topic));
    }
    broker.cleaners.settings_changed();
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
