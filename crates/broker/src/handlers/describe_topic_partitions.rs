//! DescribeTopicPartitions (key 75), v0 (KIP-966): topics and their partitions, a page at a time. Topics
//! are in the order of their names; a cursor says where to go on.

use super::admin::ALL_TOPIC_OPERATIONS;
use super::metadata::is_internal;
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use controller::validate_topic_name;
use metadata::{ClusterImage, PartitionImage};
use model::{BrokerId, TopicId};
use protocol::ErrorCode;
use protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use protocol::messages::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) const API: Api = api!(DescribeTopicPartitionsRequest, 0..=0, describe_topic_partitions);

fn describe_topic_partitions(
    broker: &Arc<Broker>,
    request: Request<DescribeTopicPartitionsRequest>,
) -> Outcome {
    let limit = broker.config.load().topics.describe_partitions_limit;
    let limit = limit.min(request.body.response_partition_limit).max(1);
    let image = broker.image.load();
    let listener = &request.context.listener().name;
    let response = match page(&image, listener, &request.body, limit) {
        Some(response) => response,
        None => refused(&request.body),
    };
    request.respond(response)
}

/// A cursor that points nowhere: every topic is answered INVALID_REQUEST.
fn refused(body: &DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse {
    let topics = body.topics.iter().map(|topic| DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::InvalidRequest.code(),
        name: Some(topic.name.clone()),
        topic_id: TopicId::ZERO,
        ..Default::default()
    });
    DescribeTopicPartitionsResponse { topics: topics.collect(), ..Default::default() }
}

fn page(
    image: &ClusterImage,
    listener: &str,
    body: &DescribeTopicPartitionsRequest,
    limit: i32,
) -> Option<DescribeTopicPartitionsResponse> {
    let all = body.topics.is_empty();
    let from = body.cursor.as_ref().map_or("", |cursor| &cursor.topic_name);
    let names: BTreeSet<ByteString> = match all {
        true => image.topics().iter().map(|topic| ByteString::from(&**topic.name())).collect(),
        false => body.topics.iter().map(|topic| topic.name.clone()).collect(),
    };
    let mut names = names.into_iter().filter(|name| **name >= *from).peekable();
    if let Some(cursor) = &body.cursor {
        let is_listed = all || names.peek().is_some_and(|name| **name == *from);
        if !is_listed || cursor.partition_index < 0 {
            return None;
        }
    }
    let mut left = usize::try_from(limit).unwrap_or(1);
    let mut response = DescribeTopicPartitionsResponse::default();
    for name in names {
        if left == 0 {
            response.next_cursor = Some(Cursor { topic_name: name, partition_index: 0 });
            break;
        }
        let Some(topic) = image.topic(&name) else {
            // One that vanished meanwhile is no error where all were asked for.
            if !all {
                response.topics.push(absent(name));
            }
            continue;
        };
        let first = match &body.cursor {
            Some(cursor) if cursor.topic_name == name => cursor.partition_index,
            _ => 0,
        };
        let mut partitions = topic.partitions().iter().skip_while(|p| p.index < first).peekable();
        let shown: Vec<_> =
            partitions.by_ref().take(left).map(|p| describe(image, listener, p)).collect();
        left -= shown.len();
        response.topics.push(DescribeTopicPartitionsResponseTopic {
            error_code: ErrorCode::None.code(),
            name: Some(name.clone()),
            topic_id: topic.id().unwrap_or(TopicId::ZERO),
            is_internal: is_internal(&name),
            partitions: shown,
            topic_authorized_operations: ALL_TOPIC_OPERATIONS,
        });
        if let Some(next) = partitions.peek() {
            response.next_cursor = Some(Cursor { topic_name: name, partition_index: next.index });
            break;
        }
    }
    Some(response)
}

fn absent(name: ByteString) -> DescribeTopicPartitionsResponseTopic {
    let code = match validate_topic_name(&name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(_) => ErrorCode::InvalidTopicException,
    };
    DescribeTopicPartitionsResponseTopic {
        error_code: code.code(),
        is_internal: is_internal(&name),
        name: Some(name),
        topic_id: TopicId::ZERO,
        topic_authorized_operations: ALL_TOPIC_OPERATIONS,
        ..Default::default()
    }
}

fn describe(
    image: &ClusterImage,
    listener: &str,
    partition: &PartitionImage,
) -> DescribeTopicPartitionsResponsePartition {
    let live = partition.leader.and_then(|id| image.broker(id));
    let reachable = live.filter(|leader| leader.endpoint(listener).is_some());
    let code = match (live, reachable) {
        (_, Some(_)) => ErrorCode::None,
        (Some(_), None) => ErrorCode::ListenerNotFound,
        (None, None) => ErrorCode::LeaderNotAvailable,
    };
    let raw = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect();
    DescribeTopicPartitionsResponsePartition {
        error_code: code.code(),
        partition_index: partition.index,
        leader_id: reachable.map_or(-1, |leader| leader.id.0),
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: raw(&partition.replicas),
        isr_nodes: raw(&partition.isr),
        // Known to the controller alone (decision 15); Java's client does not take null.
        eligible_leader_replicas: Some(Vec::new()),
        last_known_elr: Some(Vec::new()),
        offline_replicas: raw(&partition.offline_replicas),
    }
}
