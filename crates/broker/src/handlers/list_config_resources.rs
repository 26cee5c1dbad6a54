//! ListConfigResources (key 74), v0 and v1: what has settings, by kind (KIP-1142). v0 is
//! ListClientMetricsResources (KIP-1000): subscriptions to clients' metrics.

use super::admin::resource;
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use protocol::ErrorCode;
use protocol::messages::list_config_resources_response::ConfigResource;
use protocol::messages::{ListConfigResourcesRequest, ListConfigResourcesResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(ListConfigResourcesRequest, 0..=1, list_config_resources);

fn list_config_resources(
    broker: &Arc<Broker>,
    request: Request<ListConfigResourcesRequest>,
) -> Outcome {
    let supported: &[i8] = match request.context.api_version {
        0 => &[resource::CLIENT_METRICS],
        _ => &[
            resource::TOPIC,
            resource::BROKER,
            resource::BROKER_LOGGER,
            resource::CLIENT_METRICS,
            resource::GROUP,
        ],
    };
    let asked = request.body.resource_types.as_slice();
    if asked.iter().any(|kind| !supported.contains(kind)) {
        let error_code = ErrorCode::UnsupportedVersion.code();
        return request.respond(ListConfigResourcesResponse { error_code, ..Default::default() });
    }
    let is_wanted =
        |kind: i8| asked.is_empty() && supported.contains(&kind) || asked.contains(&kind);
    let image = broker.image.load();
    let mut config_resources = Vec::new();
    let mut add = |kind: i8, names: Vec<ByteString>| {
        if is_wanted(kind) {
            config_resources.extend(
                names
                    .into_iter()
                    .map(|resource_name| ConfigResource { resource_name, resource_type: kind }),
            );
        }
    };
    add(resource::TOPIC, image.topics().iter().map(|t| (&**t.name()).into()).collect());
    let brokers: Vec<ByteString> =
        image.brokers().map(|broker| broker.id.to_string().into()).collect();
    add(resource::BROKER, brokers.clone());
    add(resource::BROKER_LOGGER, brokers);
    let subscriptions = image.client_metrics().keys();
    add(resource::CLIENT_METRICS, subscriptions.map(|name| (&**name).into()).collect());
    request.respond(ListConfigResourcesResponse { config_resources, ..Default::default() })
}
