//! CreateTopics (key 19), v0 to v7: v1 validation only and error messages, v4 defaults for partitions
//! and replicas (KIP-464), v5 flexible, with what was created (KIP-525), v7 topic ids. Answers when this
//! broker's image shows leaders for every partition, or when the client's time is up.

use super::admin::{self, outcome};
use crate::Broker;
use crate::config::{BrokerConfig, describe_topic};
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use controller::{ApiError, CreatedTopic, NewTopic};
use model::TopicId;
use protocol::ErrorCode;
use protocol::messages::create_topics_request::CreatableTopic;
use protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use protocol::messages::{CreateTopicsRequest, CreateTopicsResponse};
use std::collections::HashMap;
use std::sync::Arc;

pub(crate) const API: Api = api!(CreateTopicsRequest, 0..=7, create_topics);

fn create_topics(broker: &Arc<Broker>, request: Request<CreateTopicsRequest>) -> Outcome {
    let names: Vec<ByteString> = request.body.topics.iter().map(|t| t.name.clone()).collect();
    let mut counts: HashMap<ByteString, usize> = HashMap::new();
    names.iter().for_each(|name| *counts.entry(name.clone()).or_default() += 1);
    let unique = request.body.topics.iter().filter(|topic| counts[&topic.name] == 1);
    let topics: Vec<NewTopic> = unique.map(new_topic).collect();
    let controller = match admin::controller(broker) {
        Ok(controller) => controller,
        Err(error) => {
            let topics = names.into_iter().map(|name| refused(name, &error)).collect();
            return request.respond(CreateTopicsResponse { topics, ..Default::default() });
        }
    };
    let timeout = admin::timeout(request.body.timeout_ms);
    let validate_only = request.body.validate_only;
    let broker = Arc::clone(broker);
    let request = request.into_parked();
    broker.control.clone().spawn(async move {
        let results = match topics.is_empty() {
            true => Vec::new(),
            false => controller.create_topics(topics, timeout, validate_only).await,
        };
        let mut results: HashMap<_, _> = results.into_iter().collect();
        let config = broker.config.load();
        let topics = names.into_iter().map(|name| match results.remove(&*name) {
            Some(Ok(topic)) if topic.is_ready => created(&config, name, topic),
            Some(Ok(topic)) => CreatableTopicResult {
                topic_id: topic.id.unwrap_or(TopicId::ZERO),
                ..refused(name, &ApiError::bare(ErrorCode::RequestTimedOut))
            },
            Some(Err(error)) => refused(name, &error),
            None => {
                refused(name, &admin::invalid_request("Found multiple entries for this topic."))
            }
        });
        let topics = topics.collect();
        request.respond(CreateTopicsResponse { topics, ..Default::default() });
    });
    Outcome::Parked
}

fn new_topic(topic: &CreatableTopic) -> NewTopic {
    NewTopic {
        name: topic.name.to_string(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: topic
            .assignments
            .iter()
            .map(|assignment| (assignment.partition_index, assignment.broker_ids.clone()))
            .collect(),
        configs: topic
            .configs
            .iter()
            .map(|config| (config.name.to_string(), config.value.as_ref().map(ToString::to_string)))
            .collect(),
    }
}

fn created(config: &BrokerConfig, name: ByteString, topic: CreatedTopic) -> CreatableTopicResult {
    let configs =
        describe_topic(config, &topic.configs).into_iter().map(|config| CreatableTopicConfigs {
            name: config.name.into(),
            value: config.value.map(ByteString::from),
            read_only: config.read_only,
            config_source: config.source.code(),
            is_sensitive: config.sensitive,
        });
    CreatableTopicResult {
        name,
        topic_id: topic.id.unwrap_or(TopicId::ZERO),
        error_code: ErrorCode::None.code(),
        error_message: None,
        num_partitions: topic.partitions,
        replication_factor: topic.replication_factor,
        configs: Some(configs.collect()),
        ..Default::default()
    }
}

fn refused(name: ByteString, error: &ApiError) -> CreatableTopicResult {
    let (error_code, error_message) = outcome::<()>(&Err(error.clone()));
    CreatableTopicResult {
        name,
        topic_id: TopicId::ZERO,
        error_code,
        error_message,
        configs: Some(Vec::new()),
        ..Default::default()
    }
}
