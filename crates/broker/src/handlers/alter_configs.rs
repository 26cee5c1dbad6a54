//! AlterConfigs (key 33), v0 to v2 (KIP-133): v2 flexible. The settings of a topic, a broker or a subscription to
//! clients' metrics become what is named; what is not named is reset. Clients should use IncrementalAlterConfigs.

use super::admin::{self, outcome};
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::request::{Outcome, Request};
use controller::{ApiError, ConfigAlteration, ConfigEdit};
use protocol::messages::alter_configs_request::AlterConfigsResource;
use protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use protocol::messages::{AlterConfigsRequest, AlterConfigsResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(AlterConfigsRequest, 0..=2, alter_configs);

fn alter_configs(broker: &Arc<Broker>, request: Request<AlterConfigsRequest>) -> Outcome {
    let resources = request.body.resources.iter();
    let resources = resources.map(|r| (r.resource_type, r.resource_name.clone())).collect();
    let validate_only = request.body.validate_only;
    admin::alter_configs(
        broker,
        request,
        validate_only,
        resources,
        |body, at| plan(broker, &body.resources[at]).map(Some),
        |results| {
            let responses = results.into_iter().map(|((resource_type, resource_name), result)| {
                let (error_code, error_message) = outcome(&result);
                AlterConfigsResourceResponse {
                    error_code,
                    error_message,
                    resource_type,
                    resource_name,
                }
            });
            AlterConfigsResponse { responses: responses.collect(), ..Default::default() }
        },
    )
}

fn plan(broker: &Broker, asked: &AlterConfigsResource) -> Result<ConfigAlteration, ApiError> {
    let settings = asked.configs.iter();
    admin::check_settings(settings.map(|config| (&*config.name, config.value.is_none())))?;
    let values = asked
        .configs
        .iter()
        .map(|config| (config.name.to_string(), config.value.as_ref().map(ToString::to_string)))
        .collect();
    let edit = ConfigEdit::Replace(values);
    admin::alteration(broker, asked.resource_type, &asked.resource_name, edit)
}
