//! Topics of a load: created, found, deleted.

use crate::error::BenchError;
use crate::load::{Target, runtime};
use crate::wire::Connection;
use protocol::ErrorCode;
use protocol::messages::create_topics_request::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use protocol::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use protocol::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use protocol::messages::metadata_response::MetadataResponseTopic;
use protocol::messages::{DeleteTopicsRequest, MetadataResponse};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

/// How often it is looked whether a topic is ready, and how many times.
const STEP: Duration = Duration::from_millis(10);
const STEPS: usize = 1000;

/// Where each partition of a topic is led. Creates the topic if it is missing, and waits
/// until all leaders know that they lead.
pub(crate) fn leaders(target: &Target) -> Result<Vec<SocketAddr>, BenchError> {
    runtime()?.block_on(async {
        let mut connection = Connection::open(target.address).await?;
        let topic = target.topic.as_str();
        let mut created = false;
        for _ in 0..STEPS {
            let answer = connection.call(&metadata_of(topic), 9).await?;
            let found = answer.topics.first();
            if let Some(places) = found.and_then(|found| places(&answer, found))
                && all_lead(topic, &places).await?
            {
                return Ok(places);
            }
            let missing = found
                .is_some_and(|found| found.error_code == ErrorCode::UnknownTopicOrPartition.code());
            if (missing || found.is_none()) && !created {
                create(&mut connection, target).await?;
                created = true;
            } else {
                tokio::time::sleep(STEP).await;
            }
        }
        Err(BenchError::Protocol(format!("topic {topic} has no leaders after 10 s")))
    })
}

fn metadata_of(topic: &str) -> MetadataRequest {
    let topic =
        MetadataRequestTopic { name: Some(topic.into()), ..MetadataRequestTopic::default() };
    MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: false,
        ..MetadataRequest::default()
    }
}

/// The leaders' addresses by partition; none while one has no leader.
fn places(answer: &MetadataResponse, topic: &MetadataResponseTopic) -> Option<Vec<SocketAddr>> {
    let mut partitions: Vec<_> = topic.partitions.iter().collect();
    partitions.sort_by_key(|partition| partition.partition_index);
    let place = |leader: i32| {
        let broker = answer.brokers.iter().find(|broker| broker.node_id == leader)?;
        let port = u16::try_from(broker.port).ok()?;
        (broker.host.as_ref() as &str, port).to_socket_addrs().ok()?.next()
    };
    let places = partitions.iter().map(|partition| place(partition.leader_id)).collect();
    if partitions.is_empty() || topic.error_code != 0 { None } else { places }
}

/// Whether each leader knows a partition's end: Kafka announces leaders before they know it.
async fn all_lead(topic: &str, places: &[SocketAddr]) -> Result<bool, BenchError> {
    for (partition, &place) in places.iter().enumerate() {
        let partition = ListOffsetsPartition {
            partition_index: i32::try_from(partition).expect("a partition's number fits"),
            timestamp: -1,
            ..ListOffsetsPartition::default()
        };
        let request = ListOffsetsRequest {
            replica_id: -1,
            topics: vec![ListOffsetsTopic { name: topic.into(), partitions: vec![partition] }],
            ..ListOffsetsRequest::default()
        };
        let answer = Connection::open(place).await?.call(&request, 5).await?;
        if answer.topics[0].partitions[0].error_code != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn create(connection: &mut Connection, target: &Target) -> Result<(), BenchError> {
    let flushed = target.flushed.then_some(("flush.messages", "1"));
    let configs = target.configs.iter().copied().chain(flushed);
    let request = CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: target.topic.as_str().into(),
            num_partitions: target.partitions,
            replication_factor: 1,
            configs: configs
                .map(|(name, value)| CreatableTopicConfig {
                    name: name.into(),
                    value: Some(value.into()),
                })
                .collect(),
            ..CreatableTopic::default()
        }],
        timeout_ms: 30_000,
        ..CreateTopicsRequest::default()
    };
    let code = connection.call(&request, 5).await?.topics[0].error_code;
    if code != 0 && code != ErrorCode::TopicAlreadyExists.code() {
        return Err(BenchError::Broker { api: "CreateTopics", code });
    }
    Ok(())
}

/// Changes settings of a topic.
pub(crate) fn set_configs(
    address: SocketAddr,
    topic: &str,
    configs: &[(&str, &str)],
) -> Result<(), BenchError> {
    const TOPIC: i8 = 2;
    runtime()?.block_on(async {
        let mut connection = Connection::open(address).await?;
        let configs = configs.iter().map(|&(name, value)| AlterableConfig {
            name: name.into(),
            config_operation: 0,
            value: Some(value.into()),
        });
        let request = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type: TOPIC,
                resource_name: topic.into(),
                configs: configs.collect(),
            }],
            ..IncrementalAlterConfigsRequest::default()
        };
        match connection.call(&request, 1).await?.responses[0].error_code {
            0 => Ok(()),
            code => Err(BenchError::Broker { api: "IncrementalAlterConfigs", code }),
        }
    })
}

/// Deletes a topic, so that the next measurement has the memory and the disk.
pub(crate) fn delete_topic(address: SocketAddr, topic: &str) -> Result<(), BenchError> {
    runtime()?.block_on(async {
        let mut connection = Connection::open(address).await?;
        let request = DeleteTopicsRequest {
            topic_names: vec![topic.into()],
            timeout_ms: 30_000,
            ..DeleteTopicsRequest::default()
        };
        match connection.call(&request, 4).await?.responses[0].error_code {
            0 => Ok(()),
            code => Err(BenchError::Broker { api: "DeleteTopics", code }),
        }
    })
}
