//! Metadata (key 3), v0 to v13: v1 null means all topics, v4 may forbid auto-creation, v5 offline
//! replicas, v7 leader epochs, v8 authorized operations (KIP-430), v9 flexible, v10 topic ids, v12
//! topics by id (KIP-516), v13 top-level error (KIP-1102). Brokers are shown as the listener sees them.
//!
//! Non-obvious:
//! - In v0 an empty list means all topics, later it means none.
//! - If the first topic of a request has an id, ids are looked up and names are ignored.
//! - A topic that is being created automatically is answered LEADER_NOT_AVAILABLE, as a broker that is
//!   its own controller under ZooKeeper does.

use super::admin::{ALL_CLUSTER_OPERATIONS, ALL_TOPIC_OPERATIONS};
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::groups::{OFFSETS_TOPIC, offsets_topic};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use controller::{NewTopic, collide, validate_topic_name};
use metadata::{BrokerImage, ClusterImage, PartitionImage, TopicImage};
use model::{BrokerId, TopicId};
use protocol::ErrorCode;
use protocol::messages::metadata_request::MetadataRequestTopic;
use protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use protocol::messages::{MetadataRequest, MetadataResponse};
use std::collections::HashSet;
use std::sync::Arc;

pub(crate) const API: Api = api!(MetadataRequest, 0..=13, metadata);

/// Wire value of a leader that is none.
const NO_LEADER: i32 = -1;

fn metadata(broker: &Arc<Broker>, request: Request<MetadataRequest>) -> Outcome {
    let version = request.context.api_version;
    let image = broker.image.load();
    let view = View { image: &image, listener: &request.context.listener().name, version };
    let asked = match &request.body.topics {
        None => None,
        Some(topics) if topics.is_empty() && version == 0 => None,
        Some(topics) => Some(topics.as_slice()),
    };
    if let Some(topics) = asked
        && let Some(refused) = refuse(topics, version)
    {
        return request.respond(refused);
    }
    let mut topics = match asked {
        None => image.topics().into_iter().map(|topic| view.topic(topic)).collect(),
        Some(topics) if topics.first().is_some_and(|topic| topic.topic_id != TopicId::ZERO) => {
            topics_by_id(&view, topics)
        }
        Some(topics) => {
            let may_create = request.body.allow_auto_topic_creation || version < 4;
            topics_by_name(broker, &view, topics, may_create)
        }
    };
    if request.body.include_topic_authorized_operations {
        for topic in topics.iter_mut().filter(|topic| topic.name.is_some()) {
            topic.topic_authorized_operations = ALL_TOPIC_OPERATIONS;
        }
    }
    let mut response = MetadataResponse {
        brokers: image.brokers().filter_map(|broker| view.broker(broker)).collect(),
        cluster_id: Some(broker.cluster_id.clone()),
        controller_id: image.controller().map_or(NO_LEADER, |id| id.0),
        topics,
        ..Default::default()
    };
    if request.body.include_cluster_authorized_operations {
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS;
    }
    request.respond(response)
}

/// What a request gets as a whole that uses ids, or names that are null, before it may.
fn refuse(topics: &[MetadataRequestTopic], version: i16) -> Option<MetadataResponse> {
    let is_wrong = version < 12
        && topics.iter().any(|topic| topic.name.is_none() || topic.topic_id != TopicId::ZERO);
    is_wrong.then(|| MetadataResponse {
        topics: topics
            .iter()
            .map(|topic| MetadataResponseTopic {
                error_code: ErrorCode::InvalidRequest.code(),
                name: Some(topic.name.clone().unwrap_or_default()),
                topic_id: topic.topic_id,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    })
}

fn topics_by_id(view: &View<'_>, topics: &[MetadataRequestTopic]) -> Vec<MetadataResponseTopic> {
    let mut seen = HashSet::new();
    topics
        .iter()
        .filter(|topic| topic.topic_id != TopicId::ZERO && seen.insert(topic.topic_id))
        .map(|topic| match view.image.topic_by_id(topic.topic_id) {
            Some(known) => view.topic(known),
            None => MetadataResponseTopic {
                error_code: ErrorCode::UnknownTopicId.code(),
                name: None,
                topic_id: topic.topic_id,
                ..Default::default()
            },
        })
        .collect()
}

fn topics_by_name(
    broker: &Arc<Broker>,
    view: &View<'_>,
    topics: &[MetadataRequestTopic],
    may_create: bool,
) -> Vec<MetadataResponseTopic> {
    let mut seen = HashSet::new();
    let mut missing = Vec::new();
    let mut found = Vec::with_capacity(topics.len());
    for name in topics.iter().filter_map(|topic| topic.name.as_ref()) {
        if !seen.insert(name) {
            continue;
        }
        match view.image.topic(name) {
            Some(topic) => found.push(view.topic(topic)),
            None => missing.push(name),
        }
    }
    if missing.is_empty() {
        return found;
    }
    let may_create = may_create && broker.config.load().topics.auto_create;
    let collides = |name: &str| {
        may_create
            && name.contains(['.', '_'])
            && view.image.topics().iter().any(|topic| collide(topic.name(), name))
    };
    let (valid, invalid): (Vec<_>, Vec<_>) =
        missing.into_iter().partition(|name| validate_topic_name(name).is_ok() && !collides(name));
    let code = if !may_create {
        ErrorCode::UnknownTopicOrPartition
    } else {
        create(broker, view.image, &valid)
    };
    found.extend(valid.into_iter().map(|name| absent(name, code)));
    let code = ErrorCode::InvalidTopicException;
    found.extend(invalid.into_iter().map(|name| absent(name, code)));
    found
}

/// Has topics created; returns what is said of them meanwhile.
fn create(broker: &Arc<Broker>, image: &ClusterImage, names: &[&ByteString]) -> ErrorCode {
    let config = broker.config.load();
    let (partitions, replication_factor) =
        (config.topics.num_partitions, config.topics.default_replication_factor);
    if usize::try_from(replication_factor).is_ok_and(|count| count > image.brokers().len()) {
        return ErrorCode::InvalidReplicationFactor;
    }
    let Some(controller) = broker.controller.get() else {
        return ErrorCode::UnknownTopicOrPartition;
    };
    let topics = names
        .iter()
        .map(|name| match &***name {
            OFFSETS_TOPIC => offsets_topic(&config),
            name => NewTopic {
                name: name.to_owned(),
                partitions,
                replication_factor,
                ..Default::default()
            },
        })
        .collect();
    if controller.auto_create_topics(topics) {
        ErrorCode::LeaderNotAvailable
    } else {
        ErrorCode::UnknownTopicOrPartition
    }
}

fn absent(name: &ByteString, code: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic {
        error_code: code.code(),
        name: Some(name.clone()),
        is_internal: is_internal(name),
        ..Default::default()
    }
}

/// Whether only brokers write to the topic called `name`.
pub(crate) fn is_internal(name: &str) -> bool {
    matches!(name, "__consumer_offsets" | "__transaction_state")
}

/// The cluster as one listener's clients see it in one version.
struct View<'a> {
    image: &'a ClusterImage,
    listener: &'a str,
    version: i16,
}

impl View<'_> {
    fn broker(&self, broker: &BrokerImage) -> Option<MetadataResponseBroker> {
        let endpoint = broker.endpoint(self.listener)?;
        Some(MetadataResponseBroker {
            node_id: broker.id.0,
            host: endpoint.host.as_str().into(),
            port: endpoint.port,
            rack: broker.rack.as_deref().map(ByteString::from),
        })
    }

    fn topic(&self, topic: &TopicImage) -> MetadataResponseTopic {
        MetadataResponseTopic {
            error_code: ErrorCode::None.code(),
            name: Some((&**topic.name()).into()),
            topic_id: topic.id().unwrap_or(TopicId::ZERO),
            is_internal: is_internal(topic.name()),
            partitions: topic
                .partitions()
                .iter()
                .map(|partition| self.partition(partition))
                .collect(),
            ..Default::default()
        }
    }

    fn partition(&self, partition: &PartitionImage) -> MetadataResponsePartition {
        // The oldest clients fail on a broker that they have no address of.
        let shown = |ids: &[BrokerId]| -> Vec<i32> {
            let is_shown = |id: &&BrokerId| self.version > 0 || self.is_reachable(**id);
            ids.iter().filter(is_shown).map(|id| id.0).collect()
        };
        let (replica_nodes, isr_nodes) = (shown(&partition.replicas), shown(&partition.isr));
        let leader = partition.leader.filter(|&id| self.is_reachable(id));
        let code = match (leader, partition.leader) {
            (None, Some(id)) if self.version >= 6 && self.image.broker(id).is_some() => {
                ErrorCode::ListenerNotFound
            }
            (None, _) => ErrorCode::LeaderNotAvailable,
            (Some(_), _)
                if replica_nodes.len() < partition.replicas.len()
                    || isr_nodes.len() < partition.isr.len() =>
            {
                ErrorCode::ReplicaNotAvailable
            }
            (Some(_), _) => ErrorCode::None,
        };
        MetadataResponsePartition {
            error_code: code.code(),
            partition_index: partition.index,
            leader_id: leader.map_or(NO_LEADER, |id| id.0),
            leader_epoch: partition.leader_epoch.0,
            replica_nodes,
            isr_nodes,
            offline_replicas: partition.offline_replicas.iter().map(|id| id.0).collect(),
        }
    }

    fn is_reachable(&self, id: BrokerId) -> bool {
        self.image.broker(id).is_some_and(|broker| broker.endpoint(self.listener).is_some())
    }
}
