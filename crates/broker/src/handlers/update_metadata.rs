//! UpdateMetadata (key 6), v0 to v8: v1 endpoints, v2 racks, v3 listener names, v4 offline replicas, v5
//! broker epochs and topics (KIP-380), v6 flexible, v7 topic ids (KIP-516), v8 KRaft controllers.
//! From the controller to brokers: what the cluster looks like.

use crate::Broker;
use crate::control;
use crate::dispatch::{Api, api};
use crate::request::{CloseReason, Outcome, Request};
use controller::{ControlRequest, ControlResponse};
use metadata::SecurityProtocol;
use model::TopicId;
use protocol::messages::UpdateMetadataRequest;
use protocol::messages::update_metadata_request::{
    UpdateMetadataEndpoint, UpdateMetadataTopicState,
};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const API: Api = api!(UpdateMetadataRequest, 0..=8, update_metadata);

fn update_metadata(broker: &Arc<Broker>, request: Request<UpdateMetadataRequest>) -> Outcome {
    let version = request.context.api_version;
    if has_unnamed_listeners(&request.body, version) {
        return Outcome::Close(CloseReason::Other("a listener's security protocol does not exist"));
    }
    let mut request = request.into_parked();
    let body = in_newest(broker, std::mem::take(&mut request.body), version);
    let broker = Arc::clone(broker);
    broker.control.clone().spawn(async move {
        match control::carry_out(&broker, ControlRequest::UpdateMetadata(body)).await {
            Ok(ControlResponse::UpdateMetadata(response)) => request.respond(response),
            Ok(_) | Err(_) => {
                request.responder.close(CloseReason::Other("a control request was not done"))
            }
        }
    });
    Outcome::Parked
}

/// From v3 on listeners have names; before, their protocols are what they are called by.
fn has_unnamed_listeners(request: &UpdateMetadataRequest, version: i16) -> bool {
    let mut endpoints = request.live_brokers.iter().flat_map(|broker| &broker.endpoints);
    version < 3
        && endpoints.any(|endpoint| SecurityProtocol::from_id(endpoint.security_protocol).is_none())
}

/// What an old version says, as the newest would say it.
fn in_newest(
    broker: &Broker,
    mut request: UpdateMetadataRequest,
    version: i16,
) -> UpdateMetadataRequest {
    let mut topics = BTreeMap::<_, Vec<_>>::new();
    for state in std::mem::take(&mut request.ungrouped_partition_states) {
        topics.entry(state.topic_name.clone()).or_default().push(state);
    }
    // Before v5 a topic keeps the id that it has, as in Kafka; v5 and v6 take it away.
    let image = broker.image.load();
    let topics = topics.into_iter().map(|(topic_name, partition_states)| {
        let known = image.topic(&topic_name).and_then(|topic| topic.id());
        let topic_id = known.unwrap_or(TopicId::ZERO);
        UpdateMetadataTopicState { topic_name, topic_id, partition_states }
    });
    request.topic_states.extend(topics);
    for broker in &mut request.live_brokers {
        if version == 0 {
            broker.endpoints = vec![UpdateMetadataEndpoint {
                host: std::mem::take(&mut broker.v0_host),
                port: broker.v0_port,
                ..Default::default()
            }];
        }
        // Before v3 a listener was known by its protocol.
        for endpoint in broker.endpoints.iter_mut().filter(|_| version < 3) {
            let protocol = SecurityProtocol::from_id(endpoint.security_protocol);
            endpoint.listener = protocol.map_or("", SecurityProtocol::name).into();
        }
    }
    request
}
