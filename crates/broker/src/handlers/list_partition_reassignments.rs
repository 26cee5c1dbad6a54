//! ListPartitionReassignments (key 46), v0 (KIP-455): the reassignments that are under way, of some
//! partitions or of all.

use super::admin;
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use controller::{ApiError, OngoingReassignment};
use model::{BrokerId, TopicPartition};
use protocol::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use protocol::messages::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};
use std::sync::Arc;

pub(crate) const API: Api =
    api!(ListPartitionReassignmentsRequest, 0..=0, list_partition_reassignments);

fn list_partition_reassignments(
    broker: &Arc<Broker>,
    request: Request<ListPartitionReassignmentsRequest>,
) -> Outcome {
    let controller = match admin::controller(broker) {
        Ok(controller) => controller,
        Err(error) => return request.respond(response(Err(error))),
    };
    let partitions = request.body.topics.as_ref().map(|topics| {
        let partitions = topics.iter().flat_map(|topic| {
            let indexes = topic.partition_indexes.iter();
            indexes.map(|&index| TopicPartition::new(&*topic.name, index))
        });
        partitions.collect()
    });
    let request = request.into_parked();
    broker.control.spawn(async move {
        request.respond(response(controller.list_reassignments(partitions).await));
    });
    Outcome::Parked
}

fn response(
    found: Result<Vec<OngoingReassignment>, ApiError>,
) -> ListPartitionReassignmentsResponse {
    let ongoing = match found {
        Ok(ongoing) => ongoing,
        Err(error) => {
            return ListPartitionReassignmentsResponse {
                error_code: error.code.code(),
                error_message: admin::message(&error),
                ..Default::default()
            };
        }
    };
    let raw = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect();
    let mut topics: Vec<OngoingTopicReassignment> = Vec::new();
    for one in ongoing {
        let partition = OngoingPartitionReassignment {
            partition_index: one.partition.partition,
            replicas: raw(&one.replicas),
            adding_replicas: raw(&one.adding),
            removing_replicas: raw(&one.removing),
        };
        match topics.last_mut() {
            Some(topic) if *topic.name == *one.partition.topic => topic.partitions.push(partition),
            _ => topics.push(OngoingTopicReassignment {
                name: (&*one.partition.topic).into(),
                partitions: vec![partition],
            }),
        }
    }
    ListPartitionReassignmentsResponse { topics, ..Default::default() }
}
