//! AlterConfigs (key 33), v0 to v2 (KIP-133): v2 flexible. The settings of a topic or a broker become
//! what is named; what is not named is reset. Clients should use IncrementalAlterConfigs.

use super::admin::{self, invalid_request, outcome, resource};
use super::incremental_alter_configs::{check_broker_name, entity, repeated, unsupported};
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use controller::{ApiError, ConfigAlteration, ConfigEdit};
use protocol::messages::alter_configs_request::AlterConfigsResource;
use protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(AlterConfigsRequest, 0..=2, alter_configs);

fn alter_configs(broker: &Arc<Broker>, request: Request<AlterConfigsRequest>) -> Outcome {
    let resources = &request.body.resources;
    let keys: Vec<(i8, ByteString)> =
        resources.iter().map(|r| (r.resource_type, r.resource_name.clone())).collect();
    let repeated = repeated(&keys);
    let mut results: Vec<Result<(), ApiError>> = Vec::with_capacity(resources.len());
    let mut alterations = Vec::new();
    for (at, asked) in resources.iter().enumerate() {
        let planned = match repeated.contains(&at) {
            true => Err(invalid_request("Each resource must appear at most once.")),
            false => plan(broker, asked),
        };
        results.push(planned.map(|alteration| alterations.push((at, alteration))));
    }
    let validate_only = request.body.validate_only;
    let controller = admin::controller(broker);
    let request = request.into_parked();
    broker.control.spawn(async move {
        let (places, alterations): (Vec<usize>, Vec<_>) = alterations.into_iter().unzip();
        let altered = match controller {
            Ok(controller) => controller.alter_configs(alterations, validate_only).await,
            Err(error) => vec![Err(error); places.len()],
        };
        for (place, result) in places.into_iter().zip(altered) {
            results[place] = result;
        }
        let responses = keys.into_iter().zip(results).map(|((resource_type, resource_name), r)| {
            let (error_code, error_message) = outcome(&r);
            AlterConfigsResourceResponse { error_code, error_message, resource_type, resource_name }
        });
        let responses = responses.collect();
        request.respond(AlterConfigsResponse { responses, ..Default::default() });
    });
    Outcome::Parked
}

fn plan(broker: &Broker, asked: &AlterConfigsResource) -> Result<ConfigAlteration, ApiError> {
    let mut names: Vec<_> = asked.configs.iter().map(|config| &config.name).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(invalid_request("Error due to duplicate config keys"));
    }
    let null: Vec<&str> =
        asked.configs.iter().filter(|c| c.value.is_none()).map(|c| &*c.name).collect();
    if !null.is_empty() {
        return Err(invalid_request(format!("Null value not supported for : {}", null.join(", "))));
    }
    match asked.resource_type {
        resource::TOPIC => {}
        resource::BROKER => check_broker_name(broker, &asked.resource_name)?,
        resource::CLIENT_METRICS => return Err(unsupported(asked.resource_type)),
        kind => return Err(invalid_request(format!("Unknown resource type {kind}"))),
    }
    let values = asked
        .configs
        .iter()
        .map(|config| (config.name.to_string(), config.value.as_ref().map(ToString::to_string)))
        .collect();
    Ok(ConfigAlteration {
        entity: entity(broker, asked.resource_type, &asked.resource_name)?,
        edit: ConfigEdit::Replace(values),
    })
}
