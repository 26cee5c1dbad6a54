//! DescribeCluster (key 60), v0 to v2 (KIP-700): v1 asks for brokers or controllers (KIP-919), v2 for
//! fenced brokers too (KIP-1073; under ZooKeeper's model there are none). Brokers are shown as the
//! listener sees them.

use super::admin::ALL_CLUSTER_OPERATIONS;
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use model::BrokerId;
use protocol::ErrorCode;
use protocol::messages::describe_cluster_response::DescribeClusterBroker;
use protocol::messages::{DescribeClusterRequest, DescribeClusterResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(DescribeClusterRequest, 0..=2, describe_cluster);

const BROKERS: i8 = 1;
const CONTROLLERS: i8 = 2;

fn describe_cluster(broker: &Arc<Broker>, request: Request<DescribeClusterRequest>) -> Outcome {
    if request.body.endpoint_type != BROKERS {
        let (code, message) = match request.body.endpoint_type {
            CONTROLLERS => (
                ErrorCode::MismatchedEndpointType,
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
                    .to_owned(),
            ),
            other => {
                (ErrorCode::UnsupportedEndpointType, format!("Unsupported endpoint type {other}"))
            }
        };
        return request.respond(DescribeClusterResponse {
            error_code: code.code(),
            error_message: Some(message.into()),
            ..Default::default()
        });
    }
    let image = broker.image.load();
    let listener = &request.context.listener().name;
    let brokers = image.brokers().filter_map(|broker| {
        let endpoint = broker.endpoint(listener)?;
        Some(DescribeClusterBroker {
            broker_id: broker.id.0,
            host: endpoint.host.as_str().into(),
            port: endpoint.port,
            rack: broker.rack.as_deref().map(ByteString::from),
            ..Default::default()
        })
    });
    let brokers: Vec<_> = brokers.collect();
    // Unlike in Metadata, one that is not among the brokers is none.
    let is_listed = |id: &BrokerId| brokers.iter().any(|broker| broker.broker_id == id.0);
    let mut response = DescribeClusterResponse {
        cluster_id: broker.cluster_id.clone(),
        controller_id: image.controller().filter(is_listed).map_or(-1, |id| id.0),
        brokers,
        ..Default::default()
    };
    if request.body.include_cluster_authorized_operations {
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS;
    }
    request.respond(response)
}
