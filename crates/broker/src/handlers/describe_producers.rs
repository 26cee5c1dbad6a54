//! DescribeProducers (key 61), v0 (KIP-664): the idempotent and transactional producers that the
//! partition remembers here, where it is led or followed.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::error_codes;
use crate::handlers::find_partition;
use crate::request::{Outcome, Request};
use controller::validate_topic_name;
use protocol::ErrorCode;
use protocol::messages::DescribeProducersRequest;
use protocol::messages::describe_producers_response::{
    DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};
use std::sync::Arc;
use storage::ProducerDescription;

pub(crate) const API: Api = api!(DescribeProducersRequest, 0..=0, describe_producers);

fn describe_producers(broker: &Arc<Broker>, request: Request<DescribeProducersRequest>) -> Outcome {
    let wall = broker.clock.timestamp();
    let producers = |topic: &str, index: i32| {
        if let Err(error) = validate_topic_name(topic) {
            return Err((error.code, error.message));
        }
        if broker.image.load().topic(topic).is_none() {
            let code = ErrorCode::UnknownTopicOrPartition;
            return Err((code, Some(code.message().to_owned())));
        }
        // Of a topic that exists Kafka says no more than the code.
        find_partition(broker, topic, index)
            .and_then(|partition| partition.producers(wall).map_err(error_codes::refusal))
            .map_err(|code| (code, None))
    };
    let topics = request.body.topics.iter().map(|topic| TopicResponse {
        name: topic.name.clone(),
        partitions: topic
            .partition_indexes
            .iter()
            .map(|&index| match producers(&topic.name, index) {
                Ok(producers) => PartitionResponse {
                    partition_index: index,
                    active_producers: producers.iter().map(state).collect(),
                    ..Default::default()
                },
                Err((code, message)) => PartitionResponse {
                    partition_index: index,
                    error_code: code.code(),
                    error_message: message.map(Into::into),
                    ..Default::default()
                },
            })
            .collect(),
    });
    let topics = topics.collect();
    request.respond(DescribeProducersResponse { topics, ..Default::default() })
}

fn state(producer: &ProducerDescription) -> ProducerState {
    ProducerState {
        producer_id: producer.producer_id.0,
        producer_epoch: producer.epoch.0.into(),
        last_sequence: producer.last_sequence.map_or(-1, |sequence| sequence.0),
        last_timestamp: producer.last_timestamp.0,
        coordinator_epoch: producer.coordinator_epoch.unwrap_or(-1),
        current_txn_start_offset: producer
            .current_transaction_first_offset
            .map_or(-1, |offset| offset.0),
    }
}
