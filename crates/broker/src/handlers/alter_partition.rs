//! AlterPartition (key 56), v0 to v3: v1 recovery (KIP-704), v2 topic ids (KIP-841), v3 broker epochs
//! (KIP-903). From leaders to the controller: the ISR is to be this.

use super::admin;
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use protocol::messages::{AlterPartitionRequest, AlterPartitionResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(AlterPartitionRequest, 0..=3, alter_partition);

fn alter_partition(broker: &Arc<Broker>, request: Request<AlterPartitionRequest>) -> Outcome {
    let version = request.context.api_version;
    let controller = match admin::controller(broker) {
        Ok(controller) => controller,
        Err(error) => {
            let error_code = error.code.code();
            return request.respond(AlterPartitionResponse { error_code, ..Default::default() });
        }
    };
    let mut request = request.into_parked();
    let body = std::mem::take(&mut request.body);
    broker.control.spawn(async move {
        let response = controller.alter_partition(body, version).await;
        request.respond(response);
    });
    Outcome::Parked
}
