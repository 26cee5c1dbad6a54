//! IncrementalAlterConfigs (key 44), v0 and v1 (KIP-339): v1 flexible. Sets, resets, appends to and
//! subtracts from single settings of topics, of this broker, of all brokers, of subscriptions to clients'
//! metrics (KIP-714), and levels of this broker's loggers (KIP-412).

use super::admin::{self, invalid_request, outcome, resource};
use crate::Broker;
use crate::dispatch::{Api, api};
use crate::log_levels::{self, LogLevel};
use crate::request::{Outcome, Request};
use controller::{ApiError, ConfigAlteration, ConfigEdit, ConfigOp, ConfigOpKind};
use protocol::ErrorCode;
use protocol::messages::incremental_alter_configs_request::AlterConfigsResource;
use protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use protocol::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
use std::sync::Arc;

pub(crate) const API: Api = api!(IncrementalAlterConfigsRequest, 0..=1, incremental_alter_configs);

fn incremental_alter_configs(
    broker: &Arc<Broker>,
    request: Request<IncrementalAlterConfigsRequest>,
) -> Outcome {
    let resources = request.body.resources.iter();
    let resources = resources.map(|r| (r.resource_type, r.resource_name.clone())).collect();
    let validate_only = request.body.validate_only;
    admin::alter_configs(
        broker,
        request,
        validate_only,
        resources,
        |body, at| plan(broker, &body.resources[at], validate_only),
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
            IncrementalAlterConfigsResponse { responses: responses.collect(), ..Default::default() }
        },
    )
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
    let is_null = |op: &ConfigOp| op.kind != ConfigOpKind::Delete && op.value.is_none();
    admin::check_settings(ops.iter().map(|op| (op.name.as_str(), is_null(op))))?;
    if asked.resource_type == resource::BROKER_LOGGER {
        admin::check_own_id(broker, &asked.resource_name, "Unexpected node id. Expected")?;
        let changes = log_level_changes(&ops)?;
        if !validate_only {
            log_levels::change(changes);
        }
        return Ok(None);
    }
    let edit = ConfigEdit::Incremental(ops);
    admin::alteration(broker, asked.resource_type, &asked.resource_name, edit).map(Some)
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
