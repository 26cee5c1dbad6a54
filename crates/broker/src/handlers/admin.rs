//! What administrative handlers share.

use crate::Broker;
use bytestring::ByteString;
use controller::{ApiError, ControllerHandle};
use protocol::ErrorCode;
use std::time::Duration;

/// Kinds of resources that have settings, as the wire numbers them.
pub(crate) mod resource {
    /// A topic.
    pub(crate) const TOPIC: i8 = 2;
    /// A broker, or all of them.
    pub(crate) const BROKER: i8 = 4;
    /// A broker's loggers.
    pub(crate) const BROKER_LOGGER: i8 = 8;
    /// A subscription to clients' metrics (KIP-714).
    pub(crate) const CLIENT_METRICS: i8 = 16;
    /// A group (KIP-848); none has settings here yet.
    pub(crate) const GROUP: i8 = 32;

    /// Kafka's name of a kind.
    pub(crate) fn name(kind: i8) -> &'static str {
        match kind {
            TOPIC => "TOPIC",
            BROKER => "BROKER",
            BROKER_LOGGER => "BROKER_LOGGER",
            CLIENT_METRICS => "CLIENT_METRICS",
            GROUP => "GROUP",
            _ => "UNKNOWN",
        }
    }
}

/// Bits of what anybody may do to a topic where nobody is authorized (KIP-430): read, write, create,
/// delete, alter, describe, describe configs, alter configs.
pub(crate) const ALL_TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;

/// The same for the cluster: create, alter, describe, cluster action, describe configs, alter configs,
/// idempotent write.
pub(crate) const ALL_CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;

/// The way to the controller; before it runs, there is none to speak of.
pub(crate) fn controller(broker: &Broker) -> Result<ControllerHandle, ApiError> {
    broker.controller.get().cloned().ok_or_else(|| ApiError::of(ErrorCode::NotController))
}

/// How long a client waits; not at all if it says a negative time.
pub(crate) fn timeout(millis: i32) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// The message of an answer.
pub(crate) fn message(error: &ApiError) -> Option<ByteString> {
    error.message.as_deref().map(ByteString::from)
}

/// Code and message of a result.
pub(crate) fn outcome<T>(result: &Result<T, ApiError>) -> (i16, Option<ByteString>) {
    match result {
        Ok(_) => (ErrorCode::None.code(), None),
        Err(error) => (error.code.code(), message(error)),
    }
}

/// This broker's id.
pub(crate) fn own_id(broker: &Broker) -> i32 {
    broker.partitions.environment().broker_id.0
}

pub(crate) fn invalid_request(message: impl Into<String>) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}
