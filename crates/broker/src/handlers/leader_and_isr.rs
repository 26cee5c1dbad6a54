//! LeaderAndIsr (key 4), v0 to v7: v1 `isNew`, v2 broker epochs and topics (KIP-380), v3 reassignments
//! (KIP-455), v4 flexible, v5 topic ids (KIP-516), v6 recovery (KIP-704), v7 KRaft controllers.
//! From the controller to brokers: lead or follow these partitions.

use crate::Broker;
use crate::control;
use crate::dispatch::{Api, api};
use crate::request::{CloseReason, Outcome, Request};
use controller::{ControlRequest, ControlResponse};
use protocol::messages::leader_and_isr_request::LeaderAndIsrTopicState;
use protocol::messages::{LeaderAndIsrRequest, LeaderAndIsrResponse};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const API: Api = api!(LeaderAndIsrRequest, 0..=7, leader_and_isr);

fn leader_and_isr(broker: &Arc<Broker>, request: Request<LeaderAndIsrRequest>) -> Outcome {
    let version = request.context.api_version;
    let mut request = request.into_parked();
    let body = grouped(std::mem::take(&mut request.body));
    let broker = Arc::clone(broker);
    broker.control.clone().spawn(async move {
        match control::carry_out(&broker, ControlRequest::LeaderAndIsr(body)).await {
            Ok(ControlResponse::LeaderAndIsr(response)) => {
                request.respond(in_version(response, version));
            }
            Ok(_) | Err(_) => {
                request.responder.close(CloseReason::Other("a control request was not done"))
            }
        }
    });
    Outcome::Parked
}

/// v0 and v1 name the topic with each partition.
fn grouped(mut request: LeaderAndIsrRequest) -> LeaderAndIsrRequest {
    let mut topics = BTreeMap::<_, Vec<_>>::new();
    for state in std::mem::take(&mut request.ungrouped_partition_states) {
        topics.entry(state.topic_name.clone()).or_default().push(state);
    }
    let topics = topics.into_iter().map(|(topic_name, partition_states)| LeaderAndIsrTopicState {
        topic_name,
        partition_states,
        ..Default::default()
    });
    request.topic_states.extend(topics);
    request
}

/// Before v5 partitions are not grouped by topic.
fn in_version(mut response: LeaderAndIsrResponse, version: i16) -> LeaderAndIsrResponse {
    if version < 5 {
        let topics = std::mem::take(&mut response.topics);
        response.partition_errors =
            topics.into_iter().flat_map(|topic| topic.partition_errors).collect();
    } else {
        let partitions = response.topics.iter_mut().flat_map(|topic| &mut topic.partition_errors);
        partitions.for_each(|partition| partition.topic_name = Default::default());
    }
    response
}
