//! ElectLeaders (key 43), v0 to v2: v0 preferred leaders only (KIP-183), v1 unclean elections (KIP-460),
//! v2 flexible. Null topics mean every partition; those that need no election are not answered then.

use super::admin::{self, outcome};
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use controller::{ElectionType, PerPartition};
use model::TopicPartition;
use protocol::ErrorCode;
use protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use protocol::messages::{ElectLeadersRequest, ElectLeadersResponse};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const API: Api = api!(ElectLeadersRequest, 0..=2, elect_leaders);

fn elect_leaders(broker: &Arc<Broker>, request: Request<ElectLeadersRequest>) -> Outcome {
    let kind = match request.body.election_type {
        0 => ElectionType::Preferred,
        1 => ElectionType::Unclean,
        _ => {
            // Java has no word for it and fails, as at everything that it did not expect.
            let partitions = partitions(&request.body).unwrap_or_default();
            let code = ErrorCode::UnknownServerError;
            let error = controller::ApiError::bare(code);
            let results = partitions.into_iter().map(|at| (at, Err(error.clone()))).collect();
            return request.respond(response(code, results));
        }
    };
    let controller = match admin::controller(broker) {
        Ok(controller) => controller,
        Err(error) => return request.respond(response(error.code, Vec::new())),
    };
    let partitions = partitions(&request.body);
    let timeout = admin::timeout(request.body.timeout_ms);
    let request = request.into_parked();
    broker.control.spawn(async move {
        let answer = match controller.elect_leaders(kind, partitions, timeout).await {
            Ok(results) => response(ErrorCode::None, results),
            Err(error) => response(error.code, Vec::new()),
        };
        request.respond(answer);
    });
    Outcome::Parked
}

fn partitions(body: &ElectLeadersRequest) -> Option<Vec<TopicPartition>> {
    let topics = body.topic_partitions.as_ref()?;
    let partitions = topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|&index| TopicPartition::new(&*topic.topic, index))
    });
    Some(partitions.collect())
}

fn response(code: ErrorCode, results: PerPartition) -> ElectLeadersResponse {
    let mut topics: BTreeMap<ByteString, Vec<PartitionResult>> = BTreeMap::new();
    for (at, result) in results {
        let (error_code, error_message) = outcome(&result);
        topics.entry((&*at.topic).into()).or_default().push(PartitionResult {
            partition_id: at.partition,
            error_code,
            error_message,
        });
    }
    let replica_election_results = topics
        .into_iter()
        .map(|(topic, partition_result)| ReplicaElectionResult { topic, partition_result })
        .collect();
    ElectLeadersResponse { error_code: code.code(), replica_election_results, ..Default::default() }
}
