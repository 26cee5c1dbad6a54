//! CreatePartitions (key 37), v0 to v3 (KIP-195): v2 flexible. Adds partitions to topics; answers as
//! CreateTopics does.

use super::admin::{self, outcome};
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use controller::{ApiError, NewPartitions};
use model::TopicName;
use protocol::messages::create_partitions_request::CreatePartitionsTopic;
use protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use protocol::messages::{CreatePartitionsRequest, CreatePartitionsResponse};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

pub(crate) const API: Api = api!(CreatePartitionsRequest, 0..=3, create_partitions);

fn create_partitions(broker: &Arc<Broker>, request: Request<CreatePartitionsRequest>) -> Outcome {
    let topics = &request.body.topics;
    let mut seen = BTreeSet::new();
    let names: Vec<ByteString> =
        topics.iter().map(|t| t.name.clone()).filter(|name| seen.insert(name.clone())).collect();
    let controller = match admin::controller(broker) {
        Ok(controller) => controller,
        Err(error) => {
            let results = names.into_iter().map(|name| result(name, &Err(error.clone()))).collect();
            return request.respond(CreatePartitionsResponse { results, ..Default::default() });
        }
    };
    let occurs_once = |topic: &&CreatePartitionsTopic| {
        topics.iter().filter(|other| other.name == topic.name).count() == 1
    };
    let unique: Vec<NewPartitions> =
        topics.iter().filter(occurs_once).map(new_partitions).collect();
    let timeout = admin::timeout(request.body.timeout_ms);
    let validate_only = request.body.validate_only;
    let request = request.into_parked();
    broker.control.spawn(async move {
        let results = match unique.is_empty() {
            true => Vec::new(),
            false => controller.create_partitions(unique, timeout, validate_only).await,
        };
        let mut results: HashMap<TopicName, Result<(), ApiError>> = results.into_iter().collect();
        let results = names
            .into_iter()
            .map(|name| {
                let duplicate = || Err(admin::invalid_request("Duplicate topic in request."));
                let found = results.remove(&*name).unwrap_or_else(duplicate);
                result(name, &found)
            })
            .collect();
        request.respond(CreatePartitionsResponse { results, ..Default::default() });
    });
    Outcome::Parked
}

fn new_partitions(topic: &CreatePartitionsTopic) -> NewPartitions {
    NewPartitions {
        topic: topic.name.to_string(),
        total: topic.count,
        assignments: topic.assignments.as_ref().map(|assignments| {
            assignments.iter().map(|assignment| assignment.broker_ids.clone()).collect()
        }),
    }
}

fn result(name: ByteString, result: &Result<(), ApiError>) -> CreatePartitionsTopicResult {
    let (error_code, error_message) = outcome(result);
    CreatePartitionsTopicResult { name, error_code, error_message }
}
