//! DeleteTopics (key 20), v0 to v6: v3 a code of its own where deletion is disabled, v4 flexible, v5
//! error messages, v6 topics by id (KIP-516). Answers when the topics are gone, or when the client's
//! time is up.

use super::admin;
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use controller::ApiError;
use metadata::ClusterImage;
use model::{TopicId, TopicName};
use protocol::ErrorCode;
use protocol::messages::delete_topics_request::DeleteTopicState;
use protocol::messages::delete_topics_response::DeletableTopicResult;
use protocol::messages::{DeleteTopicsRequest, DeleteTopicsResponse};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

pub(crate) const API: Api = api!(DeleteTopicsRequest, 0..=6, delete_topics);

fn delete_topics(broker: &Arc<Broker>, request: Request<DeleteTopicsRequest>) -> Outcome {
    let asked = asked(&request.body);
    let respond_all = |request: Request<DeleteTopicsRequest>, code: ErrorCode| {
        let responses = asked.iter().map(|topic| result(topic, code)).collect();
        request.respond(DeleteTopicsResponse { responses, ..Default::default() })
    };
    let controller = match admin::controller(broker) {
        Ok(controller) => controller,
        Err(error) => return respond_all(request, error.code),
    };
    if !broker.config.load().topics.deletion {
        let code = match request.context.api_version {
            0..=2 => ErrorCode::InvalidRequest,
            _ => ErrorCode::TopicDeletionDisabled,
        };
        return respond_all(request, code);
    }
    if asked.iter().any(|topic| topic.name.is_some() && topic.topic_id != TopicId::ZERO) {
        return respond_all(request, ErrorCode::InvalidRequest);
    }
    let image = broker.image.load();
    let mut responses: Vec<DeletableTopicResult> =
        asked.iter().map(|topic| look_up(&image, topic)).collect();
    let known = responses.iter().filter(|r| r.error_code == ErrorCode::None.code());
    let names: BTreeSet<TopicName> =
        known.filter_map(|r| r.name.as_deref().map(TopicName::from)).collect();
    if names.is_empty() {
        return request.respond(DeleteTopicsResponse { responses, ..Default::default() });
    }
    let timeout = admin::timeout(request.body.timeout_ms);
    let request = request.into_parked();
    broker.control.spawn(async move {
        let results = controller.delete_topics(names.into_iter().collect(), timeout).await;
        let results: HashMap<TopicName, Result<(), ApiError>> = results.into_iter().collect();
        for response in &mut responses {
            let found = response.name.as_deref().and_then(|name| results.get(name));
            if let (Some(Err(error)), 0) = (found, response.error_code) {
                response.error_code = error.code.code();
                response.error_message = admin::message(error);
            }
        }
        request.respond(DeleteTopicsResponse { responses, ..Default::default() });
    });
    Outcome::Parked
}

/// Up to v5 topics have names only.
fn asked(request: &DeleteTopicsRequest) -> Vec<DeleteTopicState> {
    let by_name =
        |name: &ByteString| DeleteTopicState { name: Some(name.clone()), topic_id: TopicId::ZERO };
    request.topics.iter().cloned().chain(request.topic_names.iter().map(by_name)).collect()
}

fn result(topic: &DeleteTopicState, code: ErrorCode) -> DeletableTopicResult {
    DeletableTopicResult {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        error_code: code.code(),
        ..Default::default()
    }
}

/// What is to be deleted, or why it cannot be.
fn look_up(image: &ClusterImage, topic: &DeleteTopicState) -> DeletableTopicResult {
    match &topic.name {
        Some(name) if image.topic(name).is_some() => result(topic, ErrorCode::None),
        Some(_) => result(topic, ErrorCode::UnknownTopicOrPartition),
        None => match image.topic_by_id(topic.topic_id) {
            Some(known) => DeletableTopicResult {
                name: Some((&**known.name()).into()),
                ..result(topic, ErrorCode::None)
            },
            None => result(topic, ErrorCode::UnknownTopicId),
        },
    }
}
