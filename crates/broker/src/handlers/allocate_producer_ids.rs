//! AllocateProducerIds (key 67), v0 (KIP-730). From brokers to the controller: a block of producer ids
//! that nobody else gets.

use super::admin;
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use protocol::messages::{AllocateProducerIdsRequest, AllocateProducerIdsResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(AllocateProducerIdsRequest, 0..=0, allocate_producer_ids);

fn allocate_producer_ids(
    broker: &Arc<Broker>,
    request: Request<AllocateProducerIdsRequest>,
) -> Outcome {
    let refused = |code: protocol::ErrorCode| AllocateProducerIdsResponse {
        error_code: code.code(),
        ..Default::default()
    };
    let controller = match admin::controller(broker) {
        Ok(controller) => controller,
        Err(error) => return request.respond(refused(error.code)),
    };
    let mut request = request.into_parked();
    let body = std::mem::take(&mut request.body);
    broker.control.spawn(async move {
        let response = match controller.allocate_producer_ids(body).await {
            Ok(block) => AllocateProducerIdsResponse {
                producer_id_start: block.first,
                producer_id_len: block.count,
                ..Default::default()
            },
            Err(error) => refused(error.code),
        };
        request.respond(response);
    });
    Outcome::Parked
}
