//! AlterPartitionReassignments (key 45), v0 and v1 (KIP-455): v1 can forbid a change of the replication
//! factor. Moves partitions to other replicas; null replicas cancel.

use super::admin::{self, outcome};
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use controller::ApiError;
use metadata::ClusterImage;
use model::{BrokerId, TopicPartition};
use protocol::ErrorCode;
use protocol::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use protocol::messages::{AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const API: Api =
    api!(AlterPartitionReassignmentsRequest, 0..=1, alter_partition_reassignments);

fn alter_partition_reassignments(
    broker: &Arc<Broker>,
    request: Request<AlterPartitionReassignmentsRequest>,
) -> Outcome {
    // Version 1 came with 4.0 and is answered as there: topic by topic as asked, what does not exist before what is wrong
    // with the target, and in words that are null rather than empty.
    let is_newer = request.context.api_version >= 1;
    if is_newer && request.body.topics.is_empty() {
        let error_message = Some(Default::default());
        return request
            .respond(AlterPartitionReassignmentsResponse { error_message, ..Default::default() });
    }
    let controller = match admin::controller(broker) {
        Ok(controller) => controller,
        Err(error) => {
            let flag = request.body.allow_replication_factor_change;
            return request.respond(whole(flag, &error));
        }
    };
    let keeps_factor = !request.body.allow_replication_factor_change;
    let image = broker.image.load();
    let mut results: BTreeMap<TopicPartition, Result<(), ApiError>> = BTreeMap::new();
    let mut targets = Vec::new();
    for topic in &request.body.topics {
        for partition in &topic.partitions {
            let at = TopicPartition::new(&*topic.name, partition.partition_index);
            let target: Option<Vec<BrokerId>> =
                partition.replicas.as_ref().map(|ids| ids.iter().copied().map(BrokerId).collect());
            if is_newer && image.partition(&at.topic, at.partition).is_none() {
                let message = "This server does not host this topic-partition.";
                let error = ApiError::new(ErrorCode::UnknownTopicOrPartition, message);
                results.insert(at, Err(error));
                continue;
            }
            match check_factor(&image, &at, target.as_deref()) {
                Err(error) if keeps_factor => drop(results.insert(at, Err(error))),
                _ => targets.push((at, target)),
            }
        }
    }
    let request = request.into_parked();
    broker.control.spawn(async move {
        let flag = request.body.allow_replication_factor_change;
        let answer = match controller.alter_reassignments(targets).await {
            Ok(altered) => {
                results.extend(altered);
                match is_newer {
                    true => as_asked(&request.body, &results),
                    false => response(flag, results),
                }
            }
            Err(error) => whole(flag, &error),
        };
        request.respond(answer);
    });
    Outcome::Parked
}

fn check_factor(
    image: &ClusterImage,
    at: &TopicPartition,
    target: Option<&[BrokerId]>,
) -> Result<(), ApiError> {
    let (Some(target), Some(known)) = (target, image.partition(&at.topic, at.partition)) else {
        return Ok(());
    };
    if target.is_empty() || target.len() == known.replicas.len() {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorCode::InvalidReplicationFactor,
        format!(
            "The replication factor is changed from {} to {}",
            known.replicas.len(),
            target.len()
        ),
    ))
}

fn whole(flag: bool, error: &ApiError) -> AlterPartitionReassignmentsResponse {
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: flag,
        error_code: error.code.code(),
        error_message: admin::message(error),
        ..Default::default()
    }
}

fn as_asked(
    body: &AlterPartitionReassignmentsRequest,
    results: &BTreeMap<TopicPartition, Result<(), ApiError>>,
) -> AlterPartitionReassignmentsResponse {
    let responses = body.topics.iter().map(|topic| ReassignableTopicResponse {
        name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|partition| {
                let at = TopicPartition::new(&*topic.name, partition.partition_index);
                let (error_code, error_message) =
                    results.get(&at).map_or_else(Default::default, outcome);
                ReassignablePartitionResponse {
                    partition_index: partition.partition_index,
                    error_code,
                    error_message,
                }
            })
            .collect(),
    });
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: body.allow_replication_factor_change,
        error_message: None,
        responses: responses.collect(),
        ..Default::default()
    }
}

fn response(
    flag: bool,
    results: BTreeMap<TopicPartition, Result<(), ApiError>>,
) -> AlterPartitionReassignmentsResponse {
    let mut responses: Vec<ReassignableTopicResponse> = Vec::new();
    for (at, result) in results {
        let (error_code, error_message) = outcome(&result);
        let answer = ReassignablePartitionResponse {
            partition_index: at.partition,
            error_code,
            error_message,
        };
        match responses.last_mut() {
            Some(topic) if *topic.name == *at.topic => topic.partitions.push(answer),
            _ => responses.push(ReassignableTopicResponse {
                name: (&*at.topic).into(),
                partitions: vec![answer],
            }),
        }
    }
    AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: flag,
        responses,
        ..Default::default()
    }
}
