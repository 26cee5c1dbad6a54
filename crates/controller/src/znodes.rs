//! Kafka's nodes in the store: their paths, and their JSON as Java writes and reads it.
//!
//! Java ignores the order of keys and keys that it does not know; a registration that it cannot read
//! stops a whole cluster. So: exactly Kafka's keys, numbers as numbers, and text where Kafka has text.

use crate::context::{LogDoubt, State};
use crate::eligible::Eligible;
use coordination::SessionId;
use metadata::{BrokerImage, ConfigEntity, Endpoint, SecurityProtocol};
use model::{BrokerId, ControllerEpoch, LeaderEpoch, Timestamp, TopicId, TopicPartition};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub(crate) const CONTROLLER: &str = "/controller";
pub(crate) const CONTROLLER_EPOCH: &str = "/controller_epoch";
pub(crate) const CLUSTER_ID: &str = "/cluster/id";
pub(crate) const FEATURE: &str = "/feature";
pub(crate) const BROKER_IDS: &str = "/brokers/ids";
pub(crate) const TOPICS: &str = "/brokers/topics";
pub(crate) const DELETE_TOPICS: &str = "/admin/delete_topics";
pub(crate) const CONFIG_CHANGES: &str = "/config/changes";
pub(crate) const CONFIG_CHANGE_PREFIX: &str = "config_change_";
pub(crate) const TOPIC_CONFIGS: &str = "/config/topics";
pub(crate) const BROKER_CONFIGS: &str = "/config/brokers";
/// `ConfigType.CLIENT_METRICS`; made with the first subscription.
pub(crate) const CLIENT_METRICS_CONFIGS: &str = "/config/client-metrics";
pub(crate) const LOG_DIR_EVENTS: &str = "/log_dir_event_notification";
pub(crate) const ISR_CHANGES: &str = "/isr_change_notification";
pub(crate) const REASSIGN_PARTITIONS: &str = "/admin/reassign_partitions";
pub(crate) const PREFERRED_ELECTION: &str = "/admin/preferred_replica_election";
pub(crate) const PRODUCER_IDS: &str = "/latest_producer_id_block";

/// What brokers tell the controller of brokers that seem to be gone. Ours.
pub(crate) const SUSPICIONS: &str = "/barnabas/suspicions";
pub(crate) const SUSPICION_PREFIX: &str = "/barnabas/suspicions/suspicion_";
/// One node for each id that a broker of ours ever registered with; its version counts the registrations. Ours.
pub(crate) const INCARNATIONS: &str = "/barnabas/incarnations";

/// A node for each id whose broker registered without all that it may have had, until the controller has
/// drawn the consequences. Ours.
pub(crate) const DOUBTS: &str = "/barnabas/doubts";

/// For each topic a node, and below it one for each partition that has eligible leaders besides its ISR. Ours.
pub(crate) const ELIGIBLE: &str = "/barnabas/eligible";
/// What each broker of ours goes by: which changed settings it has heard of, and what is in its file. Ours.
pub(crate) const APPLIED_SETTINGS: &str = "/barnabas/settings";

/// There while metadata of another store are being written. Ours.
pub(crate) const IMPORTING: &str = "/barnabas/importing";
/// Made when metadata of another store have been written, after everything else of them. Ours.
pub(crate) const IMPORTED: &str = "/barnabas/imported";

/// By how much the next controller is to raise every leader epoch; an operator makes it when the store was restored
/// from an old copy, and it goes when that is done. Ours.
pub(crate) const RAISE_LEADER_EPOCHS: &str = "/barnabas/raise_leader_epochs";

/// Its version counts the broker ids that were generated.
pub(crate) const BROKER_ID_SEQUENCE: &str = "/brokers/seqid";

/// What every broker creates when it starts, with null data.
pub(crate) const PERSISTENT_PATHS: [&str; 19] = [
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_ID_SEQUENCE,
    ISR_CHANGES,
    PRODUCER_IDS,
    LOG_DIR_EVENTS,
    TOPIC_CONFIGS,
    "/config/clients",
    "/config/users",
    BROKER_CONFIGS,
    "/config/ips",
    SUSPICIONS,
    INCARNATIONS,
    DOUBTS,
    ELIGIBLE,
    APPLIED_SETTINGS,
];

/// The brokers that the children of a node are named after; what is no id is none.
pub(crate) fn broker_ids(names: &[String]) -> impl Iterator<Item = BrokerId> {
    names.iter().filter_map(|name| name.parse().ok()).map(BrokerId)
}

pub(crate) fn broker_path(id: BrokerId) -> String {
    format!("{BROKER_IDS}/{id}")
}

pub(crate) fn incarnation_path(id: BrokerId) -> String {
    format!("{INCARNATIONS}/{id}")
}

pub(crate) fn doubt_path(id: BrokerId) -> String {
    format!("{DOUBTS}/{id}")
}

pub(crate) fn applied_settings_path(id: BrokerId) -> String {
    format!("{APPLIED_SETTINGS}/{id}")
}

pub(crate) fn eligible_topic_path(topic: &str) -> String {
    format!("{ELIGIBLE}/{topic}")
}

pub(crate) fn eligible_path(topic: &str, partition: i32) -> String {
    format!("{ELIGIBLE}/{topic}/{partition}")
}

pub(crate) fn topic_path(topic: &str) -> String {
    format!("{TOPICS}/{topic}")
}

pub(crate) fn partitions_path(topic: &str) -> String {
    format!("{TOPICS}/{topic}/partitions")
}

pub(crate) fn partition_path(topic: &str, partition: i32) -> String {
    format!("{TOPICS}/{topic}/partitions/{partition}")
}

pub(crate) fn state_path(topic: &str, partition: i32) -> String {
    format!("{TOPICS}/{topic}/partitions/{partition}/state")
}

pub(crate) fn delete_topic_path(topic: &str) -> String {
    format!("{DELETE_TOPICS}/{topic}")
}

/// The partition whose state is at `path`, relative to [`TOPICS`].
pub(crate) fn partition_of_state(path: &str) -> Option<TopicPartition> {
    let (topic, index) = path.strip_suffix("/state")?.split_once("/partitions/")?;
    Some(TopicPartition::new(topic, index.parse().ok()?))
}

/// Which change of settings a child of [`CONFIG_CHANGES`] announces; they are counted.
pub(crate) fn config_change_number(name: &str) -> Option<u32> {
    name.strip_prefix(CONFIG_CHANGE_PREFIX)?.parse().ok()
}

/// `topics/t`, `brokers/1`, `brokers/<default>`: below `/config`, and in change notifications.
pub(crate) fn entity_path(entity: &ConfigEntity) -> String {
    match entity {
        ConfigEntity::Topic(name) => format!("topics/{name}"),
        ConfigEntity::Broker(id) => format!("brokers/{id}"),
        ConfigEntity::AllBrokers => "brokers/<default>".into(),
        ConfigEntity::ClientMetrics(name) => format!("client-metrics/{}", sanitized(name)),
    }
}

pub(crate) fn config_path(entity: &ConfigEntity) -> String {
    format!("/config/{}", entity_path(entity))
}

/// The entity of a change notification; `None` for clients, users and addresses.
pub(crate) fn parse_entity(path: &str) -> Option<ConfigEntity> {
    match path.split_once('/')? {
        ("topics", name) if !name.contains('/') => Some(ConfigEntity::Topic(name.into())),
        ("brokers", "<default>") => Some(ConfigEntity::AllBrokers),
        ("brokers", id) => id.parse().ok().map(|id| ConfigEntity::Broker(BrokerId(id))),
        ("client-metrics", name) => desanitized(name).map(client_metrics),
        _ => None,
    }
}

fn client_metrics(name: String) -> ConfigEntity {
    ConfigEntity::ClientMetrics(name.into())
}

/// The subscription whose settings lie in the child `node` of [`CLIENT_METRICS_CONFIGS`].
pub(crate) fn parse_client_metrics(node: &str) -> Option<ConfigEntity> {
    desanitized(node).map(client_metrics)
}

/// A free name as part of a path: Kafka's `Sanitizer`, which percent-encodes. It leaves dots alone, but
/// a store refuses a node that is called `.` or `..`.
fn sanitized(name: &str) -> String {
    let dots = name == "." || name == "..";
    let mut out = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'.' if dots => out.push_str("%2E"),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_' => out.push(byte.into()),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The name that [`sanitized`] was given; `None` for what it never makes.
fn desanitized(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            rest = after;
            out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok().filter(|name| !name.is_empty() && !text.contains('/'))
}

fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("these types have text keys and cannot fail")
}

fn from_json<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Option<T> {
    serde_json::from_slice(data).ok()
}

#[derive(Serialize)]
struct ControllerNode {
    version: i32,
    brokerid: i32,
    timestamp: String,
    #[serde(rename = "kraftControllerEpoch")]
    kraft_controller_epoch: i32,
}

fn minus_one() -> i32 {
    -1
}

pub(crate) fn controller(broker: BrokerId, at: Timestamp) -> Vec<u8> {
    to_json(&ControllerNode {
        version: 2,
        brokerid: broker.0,
        timestamp: at.to_string(),
        kraft_controller_epoch: -1,
    })
}

/// Whether a KRaft controller has taken the cluster over (a migration): brokers write no settings then.
pub(crate) fn is_kraft_controller(data: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Read {
        #[serde(rename = "kraftControllerEpoch", default = "minus_one")]
        epoch: i32,
    }
    from_json::<Read>(data).is_some_and(|node| node.epoch > 0)
}

pub(crate) fn controller_epoch(epoch: ControllerEpoch) -> Vec<u8> {
    epoch.to_string().into_bytes()
}

pub(crate) fn parse_controller_epoch(data: &[u8]) -> Option<ControllerEpoch> {
    std::str::from_utf8(data).ok()?.trim().parse().ok().map(ControllerEpoch)
}

#[derive(Serialize, Deserialize)]
struct ClusterIdNode {
    version: String,
    id: String,
}

pub(crate) fn cluster_id(id: &str) -> Vec<u8> {
    to_json(&ClusterIdNode { version: "1".into(), id: id.into() })
}

pub(crate) fn parse_cluster_id(data: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Read {
        id: String,
    }
    from_json::<Read>(data).map(|node| node.id)
}

#[derive(Serialize)]
struct FeatureNode {
    features: BTreeMap<String, i32>,
    version: i32,
    status: i32,
}

/// No finalized features, enabled: what a ZooKeeper-mode controller writes.
pub(crate) fn feature() -> Vec<u8> {
    to_json(&FeatureNode { features: BTreeMap::new(), version: 2, status: 1 })
}

#[derive(Serialize)]
struct BrokerNode<'a> {
    features: BTreeMap<String, i32>,
    listener_security_protocol_map: BTreeMap<&'a str, &'static str>,
    endpoints: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rack: Option<&'a str>,
    jmx_port: i32,
    port: i32,
    host: Option<&'a str>,
    version: i32,
    timestamp: String,
}

pub(crate) fn registration(broker: &BrokerImage, at: Timestamp) -> Vec<u8> {
    let plain =
        broker.endpoints.iter().find(|e| e.security_protocol == SecurityProtocol::Plaintext);
    let names = broker.endpoints.iter().map(|e| (e.listener.as_str(), e.security_protocol.name()));
    to_json(&BrokerNode {
        features: BTreeMap::new(),
        listener_security_protocol_map: names.collect(),
        endpoints: broker.endpoints.iter().map(print_endpoint).collect(),
        rack: broker.rack.as_deref(),
        jmx_port: -1,
        port: plain.map_or(-1, |e| e.port),
        host: plain.map(|e| e.host.as_str()),
        version: 5,
        timestamp: at.to_string(),
    })
}

fn print_endpoint(endpoint: &Endpoint) -> String {
    format!("{}://{}", endpoint.listener, model::host_and_port(&endpoint.host, endpoint.port))
}

/// A registration that any version of Kafka since 0.9 may have written. `None` if it is none: such a
/// broker is left out, so that it cannot stop the others.
pub(crate) fn parse_registration(id: BrokerId, data: &[u8]) -> Option<BrokerImage> {
    #[derive(Deserialize)]
    struct Read {
        #[serde(default)]
        endpoints: Vec<String>,
        #[serde(default)]
        listener_security_protocol_map: BTreeMap<String, String>,
        rack: Option<String>,
        host: Option<String>,
        #[serde(default = "minus_one")]
        port: i32,
    }
    let node: Read = from_json(data)?;
    let mut endpoints = Vec::new();
    for text in &node.endpoints {
        let (listener, address) = text.split_once("://")?;
        let (host, port) = address.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
        let protocol = node.listener_security_protocol_map.get(listener);
        endpoints.push(Endpoint {
            listener: listener.into(),
            host: host.into(),
            port: port.parse().ok()?,
            security_protocol: protocol.map_or(listener, String::as_str).parse().ok()?,
        });
    }
    if let (true, Some(host)) = (endpoints.is_empty(), node.host) {
        endpoints.push(Endpoint {
            listener: "PLAINTEXT".into(),
            host,
            port: node.port,
            security_protocol: SecurityProtocol::Plaintext,
        });
    }
    Some(BrokerImage { id, rack: node.rack, endpoints })
}

/// The assignment of a topic. `adding` and `removing` are empty unless a reassignment is under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TopicNode {
    pub(crate) id: Option<TopicId>,
    pub(crate) partitions: BTreeMap<i32, Vec<BrokerId>>,
    pub(crate) adding: BTreeMap<i32, Vec<BrokerId>>,
    pub(crate) removing: BTreeMap<i32, Vec<BrokerId>>,
}

type RawAssignment = BTreeMap<i32, Vec<i32>>;

fn raw(assignment: &BTreeMap<i32, Vec<BrokerId>>) -> RawAssignment {
    assignment.iter().map(|(&p, replicas)| (p, replicas.iter().map(|id| id.0).collect())).collect()
}

fn cooked(assignment: RawAssignment) -> BTreeMap<i32, Vec<BrokerId>> {
    assignment
        .into_iter()
        .map(|(p, replicas)| (p, replicas.into_iter().map(BrokerId).collect()))
        .collect()
}

pub(crate) fn topic(node: &TopicNode) -> Vec<u8> {
    #[derive(Serialize)]
    struct Write {
        partitions: RawAssignment,
        #[serde(skip_serializing_if = "Option::is_none")]
        topic_id: Option<String>,
        adding_replicas: RawAssignment,
        removing_replicas: RawAssignment,
        version: i32,
    }
    to_json(&Write {
        partitions: raw(&node.partitions),
        topic_id: node.id.map(|id| id.to_string()),
        adding_replicas: raw(&node.adding),
        removing_replicas: raw(&node.removing),
        version: 3,
    })
}

pub(crate) fn parse_topic(data: &[u8]) -> Option<TopicNode> {
    #[derive(Deserialize)]
    struct Read {
        partitions: RawAssignment,
        topic_id: Option<String>,
        #[serde(default)]
        adding_replicas: RawAssignment,
        #[serde(default)]
        removing_replicas: RawAssignment,
    }
    let node: Read = from_json(data)?;
    Some(TopicNode {
        // One that is none must not be taken for one that is missing, and be replaced.
        id: node.topic_id.map(|id| id.parse()).transpose().ok()?,
        partitions: cooked(node.partitions),
        adding: cooked(node.adding_replicas),
        removing: cooked(node.removing_replicas),
    })
}

/// Who leads a partition, as its state node says; the node's version is the partition epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StateNode {
    pub(crate) leader: Option<BrokerId>,
    pub(crate) leader_epoch: LeaderEpoch,
    pub(crate) isr: Vec<BrokerId>,
    pub(crate) controller_epoch: ControllerEpoch,
    /// After an unclean election, until the leader has recovered (KIP-704).
    pub(crate) recovering: bool,
}

pub(crate) fn state(node: &StateNode) -> Vec<u8> {
    #[derive(Serialize)]
    struct Write {
        controller_epoch: i32,
        leader: i32,
        version: i32,
        #[serde(skip_serializing_if = "Option::is_none")]
        leader_recovery_state: Option<i32>,
        leader_epoch: i32,
        isr: Vec<i32>,
    }
    to_json(&Write {
        controller_epoch: node.controller_epoch.0,
        leader: node.leader.map_or(-1, |id| id.0),
        version: 1,
        leader_recovery_state: node.recovering.then_some(1),
        leader_epoch: node.leader_epoch.0,
        isr: node.isr.iter().map(|id| id.0).collect(),
    })
}

pub(crate) fn parse_state(data: &[u8]) -> Option<StateNode> {
    #[derive(Deserialize)]
    struct Read {
        controller_epoch: i32,
        leader: i32,
        leader_epoch: i32,
        isr: Vec<i32>,
        #[serde(default)]
        leader_recovery_state: i32,
    }
    let node: Read = from_json(data)?;
    Some(StateNode {
        leader: Some(BrokerId(node.leader)).filter(|id| id.0 >= 0),
        leader_epoch: LeaderEpoch(node.leader_epoch),
        isr: node.isr.into_iter().map(BrokerId).collect(),
        controller_epoch: ControllerEpoch(node.controller_epoch),
        recovering: node.leader_recovery_state == 1,
    })
}

#[derive(Serialize, Deserialize)]
struct ConfigNode {
    version: i32,
    #[serde(default)]
    config: BTreeMap<String, String>,
}

pub(crate) fn config(config: &BTreeMap<String, String>) -> Vec<u8> {
    to_json(&ConfigNode { version: 1, config: config.clone() })
}

/// Null data (a parent that was made on the way) is no settings.
pub(crate) fn parse_config(data: Option<&[u8]>) -> Option<BTreeMap<String, String>> {
    match data {
        None | Some([]) => Some(BTreeMap::new()),
        Some(data) => from_json::<ConfigNode>(data).map(|node| node.config),
    }
}

pub(crate) fn config_change(entity: &ConfigEntity) -> Vec<u8> {
    #[derive(Serialize)]
    struct Write {
        version: i32,
        entity_path: String,
    }
    to_json(&Write { version: 2, entity_path: entity_path(entity) })
}

pub(crate) fn parse_config_change(data: &[u8]) -> Option<ConfigEntity> {
    #[derive(Deserialize)]
    struct Read {
        entity_path: Option<String>,
        entity_type: Option<String>,
        entity_name: Option<String>,
    }
    let node: Read = from_json(data)?;
    match (node.entity_path, node.entity_type, node.entity_name) {
        (Some(path), _, _) => parse_entity(&path),
        (None, Some(kind), Some(name)) => parse_entity(&format!("{kind}/{name}")),
        _ => None,
    }
}

pub(crate) fn log_dir_event(broker: BrokerId) -> Vec<u8> {
    #[derive(Serialize)]
    struct Write {
        version: i32,
        broker: i32,
        event: i32,
    }
    to_json(&Write { version: 1, broker: broker.0, event: 1 })
}

pub(crate) fn parse_log_dir_event(data: &[u8]) -> Option<BrokerId> {
    #[derive(Deserialize)]
    struct Read {
        broker: i32,
    }
    from_json::<Read>(data).map(|node| BrokerId(node.broker))
}

/// The partitions that an ISR change notification, or a request for preferred elections, names.
pub(crate) fn parse_partitions(data: &[u8]) -> Option<Vec<TopicPartition>> {
    #[derive(Deserialize)]
    struct Read {
        partitions: Vec<One>,
    }
    #[derive(Deserialize)]
    struct One {
        topic: String,
        partition: i32,
    }
    let node: Read = from_json(data)?;
    let named = node.partitions.into_iter();
    Some(named.map(|one| TopicPartition::new(one.topic.as_str(), one.partition)).collect())
}

#[derive(Serialize, Deserialize)]
struct ReassignmentsNode {
    version: i32,
    partitions: Vec<ReassignmentNode>,
}

#[derive(Serialize, Deserialize)]
struct ReassignmentNode {
    topic: String,
    partition: i32,
    replicas: Vec<i32>,
}

/// `/admin/reassign_partitions`, as it is left when some of it is done.
pub(crate) fn reassignments(wanted: &BTreeMap<TopicPartition, Vec<BrokerId>>) -> Vec<u8> {
    let partitions = wanted.iter().map(|(at, replicas)| ReassignmentNode {
        topic: at.topic.to_string(),
        partition: at.partition,
        replicas: replicas.iter().map(|id| id.0).collect(),
    });
    to_json(&ReassignmentsNode { version: 1, partitions: partitions.collect() })
}

/// What `/admin/reassign_partitions` asks for.
pub(crate) fn parse_reassignments(data: &[u8]) -> Option<Vec<(TopicPartition, Vec<BrokerId>)>> {
    let node: ReassignmentsNode = from_json(data)?;
    let wanted = node.partitions.into_iter().map(|one| {
        let replicas = one.replicas.into_iter().map(BrokerId).collect();
        (TopicPartition::new(one.topic.as_str(), one.partition), replicas)
    });
    Some(wanted.collect())
}

#[derive(Serialize, Deserialize)]
struct ProducerIdsNode {
    version: i32,
    broker: i32,
    block_start: String,
    block_end: String,
}

/// Ids `first..=last` belong to `broker`.
pub(crate) fn producer_ids(broker: BrokerId, first: i64, last: i64) -> Vec<u8> {
    to_json(&ProducerIdsNode {
        version: 1,
        broker: broker.0,
        block_start: first.to_string(),
        block_end: last.to_string(),
    })
}

/// The last id that was given away.
pub(crate) fn parse_last_producer_id(data: &[u8]) -> Option<i64> {
    from_json::<ProducerIdsNode>(data)?.block_end.parse().ok()
}

#[derive(Serialize, Deserialize)]
struct IncarnationJson {
    version: i32,
    /// In hexadecimal, as ZooKeeper's tools show sessions.
    session: String,
}

/// What a broker of ours goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AppliedSettings {
    /// The session that it is registered with.
    pub(crate) session: SessionId,
    /// It goes by every change of settings that was announced up to this change of the store.
    pub(crate) changes: i64,
    /// Its own `min.insync.replicas`, where nothing in the store says otherwise.
    pub(crate) min_insync_replicas: usize,
}

#[derive(Serialize, Deserialize)]
struct AppliedSettingsJson {
    version: i32,
    session: String,
    changes: i64,
    min_insync_replicas: usize,
}

pub(crate) fn applied_settings(applied: AppliedSettings) -> Vec<u8> {
    to_json(&AppliedSettingsJson {
        version: 1,
        session: applied.session.to_string(),
        changes: applied.changes,
        min_insync_replicas: applied.min_insync_replicas,
    })
}

pub(crate) fn parse_applied_settings(data: &[u8]) -> Option<AppliedSettings> {
    let node: AppliedSettingsJson = from_json(data)?;
    Some(AppliedSettings {
        session: parse_session(&node.session)?,
        changes: node.changes,
        min_insync_replicas: node.min_insync_replicas,
    })
}

#[derive(Serialize, Deserialize)]
struct EligibleJson {
    version: i32,
    topic_id: String,
    leader_epoch: i32,
    partition_epoch: i32,
    isr: Vec<i32>,
    eligible: Vec<i32>,
    leader: i32,
    settings: [i64; 3],
}

/// `list`, as it goes with `state` of a partition of `topic` and with nothing else.
pub(crate) fn eligible(topic: TopicId, state: &State, list: &Eligible) -> Vec<u8> {
    to_json(&EligibleJson {
        version: 1,
        topic_id: topic.to_string(),
        leader_epoch: state.node.leader_epoch.0,
        partition_epoch: state.partition_epoch.0,
        isr: state.node.isr.iter().map(|id| id.0).collect(),
        eligible: list.members.iter().map(|id| id.0).collect(),
        leader: list.leader.0,
        settings: list.settings,
    })
}

/// The list that goes with `state`; `None` of a node that goes with another state, or cannot be read.
pub(crate) fn parse_eligible(data: &[u8], topic: TopicId, state: &State) -> Option<Eligible> {
    let node: EligibleJson = from_json(data)?;
    let isr = state.node.isr.iter().map(|id| id.0);
    let members: Vec<BrokerId> = node.eligible.into_iter().map(BrokerId).collect();
    let goes_with_it = node.topic_id == topic.to_string()
        && node.leader_epoch == state.node.leader_epoch.0
        && node.partition_epoch == state.partition_epoch.0
        && isr.eq(node.isr);
    (goes_with_it && !members.is_empty()).then_some(Eligible {
        members,
        leader: BrokerId(node.leader),
        settings: node.settings,
    })
}

/// The session that a broker last registered with.
pub(crate) fn incarnation(session: SessionId) -> Vec<u8> {
    to_json(&IncarnationJson { version: 1, session: session.to_string() })
}

/// The session that a broker of ours last registered with; `None` if the node does not say.
pub(crate) fn parse_incarnation(data: &[u8]) -> Option<SessionId> {
    let node: IncarnationJson = serde_json::from_slice(data).ok()?;
    parse_session(&node.session)
}

fn parse_session(text: &str) -> Option<SessionId> {
    let digits = text.strip_prefix("0x")?;
    u64::from_str_radix(digits, 16).ok().map(|id| SessionId(id.cast_signed()))
}

#[derive(Serialize, Deserialize)]
struct DoubtJson {
    version: i32,
    logs: String,
}

/// What a broker says of its logs.
pub(crate) fn doubt(doubt: LogDoubt) -> Vec<u8> {
    let logs = match doubt {
        LogDoubt::Incomplete => "incomplete",
        LogDoubt::Unclean => "unclean",
    };
    to_json(&DoubtJson { version: 1, logs: logs.into() })
}

/// What a broker says of its logs; the worst, if that cannot be read.
pub(crate) fn parse_doubt(data: &[u8]) -> LogDoubt {
    match from_json::<DoubtJson>(data) {
        Some(node) if node.logs == "incomplete" => LogDoubt::Incomplete,
        Some(_) | None => LogDoubt::Unclean,
    }
}

#[derive(Serialize, Deserialize)]
struct SuspicionJson {
    version: i32,
    broker: i32,
    observer: i32,
}

/// `observer` sees `suspect` as one whose process has ended.
pub(crate) fn suspicion(suspect: BrokerId, observer: BrokerId) -> Vec<u8> {
    to_json(&SuspicionJson { version: 1, broker: suspect.0, observer: observer.0 })
}

/// Who is suspected, and by whom.
pub(crate) fn parse_suspicion(data: &[u8]) -> Option<(BrokerId, BrokerId)> {
    let node: SuspicionJson = serde_json::from_slice(data).ok()?;
    Some((BrokerId(node.broker), BrokerId(node.observer)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::PartitionEpoch;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    // Expected texts: a live Apache Kafka 3.9.2 cluster.

    #[test]
    fn nodes_read_as_kafka_writes_them() {
        let id = "pho4yK2oQdmuO7sq_W44nQ";
        let mut node = TopicNode {
            id: Some(id.parse().unwrap()),
            partitions: [(0, vec![BrokerId(1), BrokerId(2)])].into(),
            ..TopicNode::default()
        };
        let json = format!(
            r#"{{"partitions":{{"0":[1,2]}},"topic_id":"{id}","adding_replicas":{{}},"removing_replicas":{{}},"version":3}}"#
        );
        assert_eq!(text(topic(&node)), json);
        assert_eq!(parse_topic(json.as_bytes()), Some(node.clone()));
        node.id = None;
        assert_eq!(parse_topic(br#"{"version":1,"partitions":{"0":[1,2]}}"#), Some(node));

        let node = StateNode {
            leader: Some(BrokerId(3)),
            leader_epoch: LeaderEpoch(0),
            isr: vec![BrokerId(3), BrokerId(2)],
            controller_epoch: ControllerEpoch(1),
            recovering: false,
        };
        let json = r#"{"controller_epoch":1,"leader":3,"version":1,"leader_epoch":0,"isr":[3,2]}"#;
        assert_eq!(text(state(&node)), json);
        assert_eq!(parse_state(json.as_bytes()), Some(node));

        let configs = [("retention.ms".to_owned(), "7200000".to_owned())].into();
        let json = r#"{"version":1,"config":{"retention.ms":"7200000"}}"#;
        assert_eq!(text(config(&configs)), json);
        assert_eq!(parse_config(Some(json.as_bytes())), Some(configs));
        assert_eq!(parse_config(None), Some(BTreeMap::new()));

        assert_eq!(text(cluster_id("x")), r#"{"version":"1","id":"x"}"#);
        assert_eq!(text(feature()), r#"{"features":{},"version":2,"status":1}"#);
        let block = text(producer_ids(BrokerId(1), 0, 999));
        assert_eq!(block, r#"{"version":1,"broker":1,"block_start":"0","block_end":"999"}"#);
        assert_eq!(parse_last_producer_id(block.as_bytes()), Some(999));
        assert!(!is_kraft_controller(&controller(BrokerId(1), Timestamp(5))));
        assert!(is_kraft_controller(br#"{"version":2,"brokerid":1,"kraftControllerEpoch":3}"#));
        assert_eq!(
            text(controller(BrokerId(1), Timestamp(5))),
            r#"{"version":2,"brokerid":1,"timestamp":"5","kraftControllerEpoch":-1}"#
        );
    }

    #[test]
    fn our_own_nodes_are_read_as_they_are_written() {
        let said = suspicion(BrokerId(2), BrokerId(3));
        assert_eq!(parse_suspicion(&said), Some((BrokerId(2), BrokerId(3))));
        for session in [SessionId(0x1000_0000_0000_0001), SessionId(-2)] {
            assert_eq!(parse_incarnation(&incarnation(session)), Some(session));
        }
        let (session, min_insync_replicas) = (SessionId(-2), 2);
        let applied = AppliedSettings { session, changes: 1 << 40, min_insync_replicas };
        assert_eq!(parse_applied_settings(&applied_settings(applied)), Some(applied));
        for said in [LogDoubt::Incomplete, LogDoubt::Unclean] {
            assert_eq!(parse_doubt(&doubt(said)), said);
        }
        for junk in [&b""[..], b"{}", br#"{"version":1,"session":"x"}"#, b"\xff"] {
            assert_eq!(parse_doubt(junk), LogDoubt::Unclean);
            assert_eq!((parse_incarnation(junk), parse_suspicion(junk)), (None, None));
            assert_eq!(parse_applied_settings(junk), None);
        }
    }

    #[test]
    fn a_list_of_eligible_leaders_counts_for_the_state_that_it_was_written_with_alone() {
        let topic = TopicId([7; 16]);
        let node = StateNode {
            leader: Some(BrokerId(1)),
            leader_epoch: LeaderEpoch(5),
            isr: vec![BrokerId(1)],
            controller_epoch: ControllerEpoch(1),
            recovering: false,
        };
        let state = State { node, partition_epoch: PartitionEpoch(9) };
        let members = vec![BrokerId(3), BrokerId(2)];
        let list = Eligible { members, leader: BrokerId(1), settings: [7, 0, 1 << 40] };
        let json = eligible(topic, &state, &list);
        assert_eq!(parse_eligible(&json, topic, &state), Some(list));
        assert_eq!(parse_eligible(&json, TopicId([8; 16]), &state), None, "another topic");
        let mut other = state.clone();
        other.partition_epoch = PartitionEpoch(10);
        assert_eq!(parse_eligible(&json, topic, &other), None, "written once more");
        other = state.clone();
        other.node.leader_epoch = LeaderEpoch(6);
        assert_eq!(parse_eligible(&json, topic, &other), None);
        other = state.clone();
        other.node.isr.push(BrokerId(2));
        assert_eq!(parse_eligible(&json, topic, &other), None);
        for junk in [&b""[..], b"{}", b"[]", br#"{"version":1,"eligible":[1]}"#] {
            assert_eq!(parse_eligible(junk, topic, &state), None);
        }
    }

    #[test]
    fn a_registration_is_one_that_java_can_read() {
        let endpoint = |listener: &str, host: &str, port, security_protocol| Endpoint {
            listener: listener.into(),
            host: host.into(),
            port,
            security_protocol,
        };
        let mut broker = BrokerImage {
            id: BrokerId(1),
            rack: Some("r1".into()),
            endpoints: vec![
                endpoint("EXTERNAL", "::1", 21192, SecurityProtocol::SaslPlaintext),
                endpoint("PLAINTEXT", "127.0.0.1", 21092, SecurityProtocol::Plaintext),
            ],
        };
        let json = r#"{"features":{},"listener_security_protocol_map":{"EXTERNAL":"SASL_PLAINTEXT","PLAINTEXT":"PLAINTEXT"},"endpoints":["EXTERNAL://[::1]:21192","PLAINTEXT://127.0.0.1:21092"],"rack":"r1","jmx_port":-1,"port":21092,"host":"127.0.0.1","version":5,"timestamp":"9"}"#;
        assert_eq!(text(registration(&broker, Timestamp(9))), json);
        assert_eq!(parse_registration(BrokerId(1), json.as_bytes()), Some(broker.clone()));
        broker.endpoints.pop();
        assert!(text(registration(&broker, Timestamp(9))).contains(r#""port":-1,"host":null"#));
        let old = br#"{"version":1,"host":"h","port":9092}"#;
        assert_eq!(parse_registration(BrokerId(1), old).unwrap().endpoints[0].host, "h");
        assert_eq!(parse_registration(BrokerId(1), b"{}").unwrap().endpoints, []);
        assert_eq!(parse_registration(BrokerId(1), b"nonsense"), None);
    }

    #[test]
    fn old_tools_nodes_are_read_and_what_is_left_of_them_written() {
        let json = r#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[4,5]}]}"#;
        let wanted = parse_reassignments(json.as_bytes()).unwrap();
        let at = TopicPartition::new("t", 0);
        assert_eq!(wanted, [(at.clone(), vec![BrokerId(4), BrokerId(5)])]);
        assert_eq!(text(reassignments(&wanted.into_iter().collect())), json);
        let json = br#"{"version":1,"partitions":[{"topic":"t","partition":0}]}"#;
        assert_eq!(parse_partitions(json), Some(vec![at]));
        assert_eq!((parse_partitions(b"[]"), parse_reassignments(b"x")), (None, None));
    }

    #[test]
    fn change_notifications_name_their_entity_in_both_forms() {
        for entity in [
            ConfigEntity::Topic("t".into()),
            ConfigEntity::Broker(BrokerId(2)),
            ConfigEntity::AllBrokers,
            ConfigEntity::ClientMetrics("all".into()),
            ConfigEntity::ClientMetrics("a/b %ü*+".into()),
            ConfigEntity::ClientMetrics("..".into()),
        ] {
            assert_eq!(parse_config_change(&config_change(&entity)), Some(entity));
        }
        let odd = ConfigEntity::ClientMetrics("a/b *".into());
        assert_eq!(config_path(&odd), "/config/client-metrics/a%2Fb%20%2A");
        let old = br#"{"version":1,"entity_type":"topics","entity_name":"t"}"#;
        assert_eq!(parse_config_change(old), Some(ConfigEntity::Topic("t".into())));
        assert_eq!(parse_config_change(br#"{"version":2,"entity_path":"users/a"}"#), None);
    }
}
