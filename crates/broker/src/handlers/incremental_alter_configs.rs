//! IncrementalAlterConfigs (key 44), v0 and v1 (KIP-339): v1 flexible. Sets, resets, appends to and
//! subtracts from single settings of topics, of this broker, of all brokers, and levels of this broker's
//! loggers (KIP-412).

use super::admin::{self, invalid_request, outcome, resource};
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::log_levels::{self, LogLevel};
use crate::request::{Outcome, Request};
use bytestring::ByteString;
use controller::{ApiError, ConfigAlteration, ConfigEdit, ConfigOp, ConfigOpKind};
use metadata::ConfigEntity;
use model::BrokerId;
use protocol::ErrorCode;
use protocol::messages::incremental_alter_configs_request::AlterConfigsResource;
use protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

pub(crate) const API: Api = api!(IncrementalAlterConfigsRequest, 0..=1, incremental_alter_configs);

fn incremental_alter_configs(
    broker: &Arc<Broker>,
    request: Request<IncrementalAlterConfigsRequest>,
) -> Outcome {
    let resources = &request.body.resources;
    let validate_only = request.body.validate_only;
    let keys: Vec<(i8, ByteString)> =
        resources.iter().map(|r| (r.resource_type, r.resource_name.clone())).collect();
    let repeated = repeated(&keys);
    let mut results: Vec<Result<(), ApiError>> = Vec::with_capacity(resources.len());
    let mut alterations = Vec::new();
    for (at, asked) in resources.iter().enumerate() {
        let planned = match repeated.contains(&at) {
            true => Err(invalid_request("Each resource must appear at most once.")),
            false => plan(broker, asked, validate_only),
        };
        results.push(planned.map(|alteration| alterations.extend(alteration.map(|a| (at, a)))));
    }
    let controller = admin::controller(broker);
    let request = request.into_parked();
    broker.control.spawn(async move {
        let (places, alterations): (Vec<usize>, Vec<_>) = alterations.into_iter().unzip();
        let altered = match controller {
            _ if places.is_empty() => Vec::new(),
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
        request.respond(IncrementalAlterConfigsResponse { responses, ..Default::default() });
    });
    Outcome::Parked
}

/// What is to be altered in the store; nothing for loggers, whose levels are changed here.
fn plan(
    broker: &Broker,
    asked: &AlterConfigsResource,
    validate_only: bool,
) -> Result<Option<ConfigAlteration>, ApiError> {
    let ops = asked.configs.iter().map(|config| {
        let kind = ConfigOpKind::from_code(config.config_operation).ok_or_else(|| {
            invalid_request(format!("Unknown config operation {}", config.config_operation))
        })?;
        let value = config.value.as_ref().map(ToString::to_string);
        Ok(ConfigOp { name: config.name.to_string(), kind, value })
    });
    let ops: Vec<ConfigOp> = ops.collect::<Result<_, ApiError>>()?;
    let mut names: Vec<_> = ops.iter().map(|op| op.name.as_str()).collect();
    names.sort_unstable();
    if names.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(invalid_request("Error due to duplicate config keys"));
    }
    let is_null = |op: &&ConfigOp| op.kind != ConfigOpKind::Delete && op.value.is_none();
    let null: Vec<&str> = ops.iter().filter(is_null).map(|op| op.name.as_str()).collect();
    if !null.is_empty() {
        return Err(invalid_request(format!("Null value not supported for : {}", null.join(", "))));
    }
    match asked.resource_type {
        resource::TOPIC => {}
        resource::BROKER => check_broker_name(broker, &asked.resource_name)?,
        resource::BROKER_LOGGER => {
            check_own_id(broker, &asked.resource_name, "Unexpected node id. Expected")?;
            let changes = log_level_changes(&ops)?;
            if !validate_only {
                log_levels::change(changes);
            }
            return Ok(None);
        }
        resource::CLIENT_METRICS => return Err(unsupported(asked.resource_type)),
        kind => return Err(invalid_request(format!("Unknown resource type {kind}"))),
    }
    Ok(Some(ConfigAlteration {
        entity: entity(broker, asked.resource_type, &asked.resource_name)?,
        edit: ConfigEdit::Incremental(ops),
    }))
}

fn log_level_changes(ops: &[ConfigOp]) -> Result<Vec<(String, Option<LogLevel>)>, ApiError> {
    let invalid = |message: String| ApiError::new(ErrorCode::InvalidConfig, message);
    let known = log_levels::all();
    let mut changes = Vec::with_capacity(ops.len());
    for op in ops {
        let logger = op.name.as_str();
        if !known.iter().any(|(name, _)| name == logger) {
            return Err(invalid(format!("Logger {logger} does not exist!")));
        }
        let level = match op.kind {
            ConfigOpKind::Set => {
                let value = op.value.as_deref().unwrap_or_default();
                let level = LogLevel::parse(value).ok_or_else(|| {
                    invalid(format!(
                        "Cannot set the log level of {logger} to {value} as it is not a supported \
                         log level. Valid log levels are {}",
                        LogLevel::ALL.map(LogLevel::name).join(", ")
                    ))
                })?;
                Some(level)
            }
            ConfigOpKind::Delete if logger == log_levels::ROOT => {
                return Err(invalid_request(
                    "Removing the log level of the root logger is not allowed",
                ));
            }
            ConfigOpKind::Delete => None,
            ConfigOpKind::Append | ConfigOpKind::Subtract => {
                return Err(invalid_request(format!(
                    "{} operation is not allowed for the BROKER_LOGGER resource",
                    format!("{:?}", op.kind).to_uppercase()
                )));
            }
        };
        changes.push((op.name.clone(), level));
    }
    Ok(changes)
}

/// The places of resources that are named more than once.
pub(super) fn repeated(keys: &[(i8, ByteString)]) -> BTreeSet<usize> {
    let mut first: HashMap<&(i8, ByteString), usize> = HashMap::new();
    let mut repeated = BTreeSet::new();
    for (at, key) in keys.iter().enumerate() {
        if let Some(&before) = first.get(key) {
            repeated.extend([before, at]);
        } else {
            first.insert(key, at);
        }
    }
    repeated
}

/// A broker's settings are altered at that broker; no name means all brokers.
pub(super) fn check_broker_name(broker: &Broker, name: &str) -> Result<(), ApiError> {
    if name.is_empty() {
        Ok(())
    } else {
        check_own_id(broker, name, "Unexpected broker id, expected")
    }
}

fn check_own_id(broker: &Broker, name: &str, words: &str) -> Result<(), ApiError> {
    let own = admin::own_id(broker);
    match name.parse::<i32>() {
        Ok(id) if id == own => Ok(()),
        Ok(_) => Err(invalid_request(format!("{words} {own}, but received {name}"))),
        Err(_) => Err(invalid_request(format!("Node id must be an integer, but it is: {name}"))),
    }
}

pub(super) fn unsupported(kind: i8) -> ApiError {
    invalid_request(format!(
        "AlterConfigs is only supported for topics and brokers, but resource type is {}",
        resource::name(kind)
    ))
}

/// Whose settings a checked resource names.
pub(super) fn entity(broker: &Broker, kind: i8, name: &str) -> Result<ConfigEntity, ApiError> {
    match kind {
        resource::BROKER if name.is_empty() => Ok(ConfigEntity::AllBrokers),
        resource::BROKER => Ok(ConfigEntity::Broker(BrokerId(admin::own_id(broker)))),
        _ if name.is_empty() => Err(invalid_request("Default topic resources are not allowed.")),
        _ if broker.image.load().topic(name).is_none() => Err(ApiError::new(
            ErrorCode::UnknownTopicOrPartition,
            format!("The topic '{name}' does not exist."),
        )),
        _ => Ok(ConfigEntity::Topic(name.into())),
    }
}
