//! DescribeConfigs (key 32), v0 to v4 (KIP-133): v1 sources and synonyms (KIP-226), v3 types and
//! documentation (KIP-569), v4 flexible. Every setting of topics, of this broker, of all brokers, of this
//! broker's loggers, and of subscriptions to clients' metrics (KIP-714), with its value, where that comes
//! from, and what else sets it.

use super::admin::{self, invalid_request, resource};
use super::out_of_sync;
use crate::Broker;
use crate::config::{self, DescribedConfig};
use crate::dispatch::{Api, api};
use crate::log_levels;
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use controller::{ApiError, OutOfSync, validate_topic_name};
use protocol::ErrorCode;
use protocol::messages::describe_configs_request::DescribeConfigsResource;
use protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(DescribeConfigsRequest, 0..=4, describe_configs);

/// Where a logger's level comes from, on the wire.
const LOGGER_SOURCE: i8 = 6;
/// The type of a key that nobody knows, on the wire.
const UNKNOWN_TYPE: i8 = 0;

fn describe_configs(broker: &Arc<Broker>, request: Request<DescribeConfigsRequest>) -> Outcome {
    let topics = out_of_sync::topics(&request.body);
    let controller = broker.controller.get().filter(|_| !topics.is_empty()).cloned();
    let Some(controller) = controller else {
        let response = response(broker, &request.body, &[]);
        return request.respond(response);
    };
    let (request, broker) = (request.into_parked(), Arc::clone(broker));
    let control = broker.control.clone();
    control.spawn(async move {
        let left = controller.list_out_of_sync(topics).await.unwrap_or_default();
        let response = response(&broker, &request.body, &left);
        request.respond(response);
    });
    Outcome::Parked
}

/// `left` is what the controller, if this is it, knows of the replicas that are asked about.
fn response(
    broker: &Broker,
    body: &DescribeConfigsRequest,
    left: &[OutOfSync],
) -> DescribeConfigsResponse {
    let kinds =
        [resource::TOPIC, resource::BROKER, resource::BROKER_LOGGER, resource::CLIENT_METRICS];
    // A kind that is not known spoils the whole request.
    let is_spoilt = body.resources.iter().any(|asked| !kinds.contains(&asked.resource_type));
    let results = body.resources.iter().map(|asked| {
        let described = match is_spoilt {
            true => Err(ApiError::of(ErrorCode::InvalidRequest)),
            false => describe(broker, asked, body, left),
        };
        result(asked, described)
    });
    DescribeConfigsResponse { results: results.collect(), ..Default::default() }
}

fn result(
    asked: &DescribeConfigsResource,
    described: Result<Vec<DescribeConfigsResourceResult>, ApiError>,
) -> DescribeConfigsResult {
    let (error_code, error_message, configs) = match described {
        Ok(configs) => (ErrorCode::None.code(), Some(ByteString::new()), configs),
        Err(error) => (error.code.code(), admin::message(&error), Vec::new()),
    };
    DescribeConfigsResult {
        error_code,
        error_message,
        resource_type: asked.resource_type,
        resource_name: asked.resource_name.clone(),
        configs,
    }
}

fn describe(
    broker: &Broker,
    asked: &DescribeConfigsResource,
    body: &DescribeConfigsRequest,
    left: &[OutOfSync],
) -> Result<Vec<DescribeConfigsResourceResult>, ApiError> {
    let name: &str = &asked.resource_name;
    let configs = match asked.resource_type {
        resource::TOPIC => {
            validate_topic_name(name)?;
            let image = broker.image.load();
            if image.topic(name).is_none() {
                // Kafka says no more than the code.
                return Err(ApiError::new(ErrorCode::UnknownTopicOrPartition, ""));
            }
            config::describe_topic(&broker.config.load(), &image.topic_configs(name))
        }
        resource::BROKER if name.is_empty() => {
            config::describe_cluster_defaults(&broker.config.load())
        }
        resource::BROKER => {
            expect_own_id(broker, name, " or empty string,")?;
            config::describe_broker(&broker.config.load())
        }
        resource::BROKER_LOGGER => {
            if name.is_empty() {
                return Err(invalid_request("Broker id must not be empty"));
            }
            expect_own_id(broker, name, "")?;
            return Ok(loggers(asked));
        }
        _ if name.is_empty() => {
            return Err(invalid_request("Client metrics subscription name must not be empty"));
        }
        _ => {
            let image = broker.image.load();
            let set = image.client_metrics().get(name).cloned().unwrap_or_default();
            config::describe_client_metrics(&set)
        }
    };
    let configs = configs.into_iter().filter(|config| is_wanted(asked, &config.name));
    let mut entries: Vec<_> = configs.map(|config| entry(config, body)).collect();
    if out_of_sync::is_asked(asked) {
        entries.extend(out_of_sync::describe(broker, name, left));
    }
    Ok(entries)
}

fn expect_own_id(broker: &Broker, name: &str, or: &str) -> Result<(), ApiError> {
    let own = admin::own_id(broker);
    match name.parse::<i32>() {
        Ok(id) if id == own => Ok(()),
        Ok(_) => Err(invalid_request(format!(
            "Unexpected broker id, expected {own}{or} but received {name}"
        ))),
        Err(_) => Err(invalid_request(format!("Broker id must be an integer, but it is: {name}"))),
    }
}

/// No keys means all keys.
fn is_wanted(asked: &DescribeConfigsResource, name: &str) -> bool {
    match &asked.configuration_keys {
        Some(keys) if !keys.is_empty() => keys.iter().any(|key| **key == *name),
        _ => true,
    }
}

fn entry(config: DescribedConfig, body: &DescribeConfigsRequest) -> DescribeConfigsResourceResult {
    let synonyms = match body.include_synonyms {
        true => config.synonyms,
        false => Vec::new(),
    };
    DescribeConfigsResourceResult {
        name: config.name.into(),
        value: config.value.map(ByteString::from),
        read_only: config.read_only,
        is_default: false,
        config_source: config.source.code(),
        is_sensitive: config.sensitive,
        synonyms: synonyms
            .into_iter()
            .map(|synonym| DescribeConfigsSynonym {
                name: synonym.name.into(),
                value: synonym.value.map(ByteString::from),
                source: synonym.source.code(),
            })
            .collect(),
        config_type: config.kind.map_or(UNKNOWN_TYPE, |kind| kind.code()),
        documentation: config
            .documentation
            .filter(|_| body.include_documentation)
            .map(ByteString::from),
    }
}

fn loggers(asked: &DescribeConfigsResource) -> Vec<DescribeConfigsResourceResult> {
    let loggers = log_levels::all().into_iter().filter(|(name, _)| is_wanted(asked, name));
    loggers
        .map(|(name, level)| DescribeConfigsResourceResult {
            name: name.into(),
            value: Some(ByteString::from_static(level.name())),
            config_source: LOGGER_SOURCE,
            ..Default::default()
        })
        .collect()
}
