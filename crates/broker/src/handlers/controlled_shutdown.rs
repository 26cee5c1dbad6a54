//! ControlledShutdown (key 7), v0 to v3: v1 and v2 broker epochs (KIP-380), v3 flexible. From a broker
//! that is about to stop to the controller: others are to lead what it leads.

use super::admin;
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use protocol::ErrorCode;
use protocol::messages::{ControlledShutdownRequest, ControlledShutdownResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(ControlledShutdownRequest, 0..=3, controlled_shutdown);

fn controlled_shutdown(
    broker: &Arc<Broker>,
    request: Request<ControlledShutdownRequest>,
) -> Outcome {
    let Ok(controller) = admin::controller(broker) else {
        let error_code = ErrorCode::StaleControllerEpoch.code();
        return request.respond(ControlledShutdownResponse { error_code, ..Default::default() });
    };
    let mut request = request.into_parked();
    let body = std::mem::take(&mut request.body);
    broker.control.spawn(async move {
        let response = controller.controlled_shutdown(body).await;
        request.respond(response);
    });
    Outcome::Parked
}
