//! InitProducerId (key 22), v0 to v5 (KIP-98): v2 flexible, v3 the producer's own id and epoch
//! (KIP-360), v4 PRODUCER_FENCED (KIP-588), v5 TRANSACTION_ABORTABLE (KIP-890).
//!
//! Without a transactional id the answer is a fresh id. Transactions have no coordinator here yet:
//! what can be refused on its own is, and for the rest this broker is not the coordinator.

use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use protocol::ErrorCode;
use protocol::messages::InitProducerIdRequest;
use protocol::messages::init_producer_id_response::InitProducerIdResponse;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const API: Api = api!(InitProducerIdRequest, 0..=5, init_producer_id);

fn init_producer_id(broker: &Arc<Broker>, request: Request<InitProducerIdRequest>) -> Outcome {
    if let Some(code) = refusal(broker, &request.body) {
        return request.respond(failed(code));
    }
    let parked = request.into_parked();
    broker.producer_ids.next(move |id| {
        parked.respond(match id {
            Some(id) => InitProducerIdResponse {
                producer_id: id.0,
                producer_epoch: 0,
                ..Default::default()
            },
            None => failed(ErrorCode::CoordinatorLoadInProgress),
        });
    });
    Outcome::Parked
}

fn refusal(broker: &Broker, body: &InitProducerIdRequest) -> Option<ErrorCode> {
    if (body.producer_id == -1) != (body.producer_epoch == -1) {
        return Some(ErrorCode::InvalidRequest);
    }
    let id = body.transactional_id.as_ref()?;
    if id.is_empty() {
        return Some(ErrorCode::InvalidRequest);
    }
    let timeout = u64::try_from(body.transaction_timeout_ms).ok().map(Duration::from_millis);
    let longest = broker.config.load().transactions.max_timeout;
    Some(match timeout {
        Some(timeout) if !timeout.is_zero() && timeout <= longest => ErrorCode::NotCoordinator,
        Some(_) | None => ErrorCode::InvalidTransactionTimeout,
    })
}

fn failed(code: ErrorCode) -> InitProducerIdResponse {
    InitProducerIdResponse {
        error_code: code.code(),
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    }
}
