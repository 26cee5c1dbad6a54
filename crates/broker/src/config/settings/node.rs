//! Who this broker is and how it leaves.

use crate::config::values::Values;
use model::BrokerId;
use std::time::Duration;

/// The broker's identity.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeSettings {
    /// `broker.id` (or `node.id`); `None` asks for a generated one, which `meta.properties` then keeps.
    pub broker_id: Option<BrokerId>,
    /// `reserved.broker.max.id`: generated ids start above it.
    pub reserved_broker_max_id: i32,
    /// `broker.rack`
    pub rack: Option<String>,
    /// `request.timeout.ms`: for requests to other brokers.
    pub request_timeout: Duration,
    /// How a stopping broker hands over.
    pub shutdown: ShutdownSettings,
}

/// `controlled.shutdown.*`
#[derive(Clone, Debug, PartialEq)]
pub struct ShutdownSettings {
    /// `controlled.shutdown.enable`
    pub controlled: bool,
    /// `controlled.shutdown.max.retries`
    pub max_retries: u32,
    /// `controlled.shutdown.retry.backoff.ms`
    pub retry_backoff: Duration,
}

impl NodeSettings {
    pub(in crate::config) fn read(values: &Values) -> Self {
        let id = values.i32("broker.id");
        Self {
            broker_id: (id >= 0).then_some(BrokerId(id)),
            reserved_broker_max_id: values.i32("reserved.broker.max.id"),
            rack: values.text("broker.rack"),
            request_timeout: values.millis("request.timeout.ms"),
            shutdown: ShutdownSettings {
                controlled: values.boolean("controlled.shutdown.enable"),
                max_retries: values.u32("controlled.shutdown.max.retries"),
                retry_backoff: values.millis("controlled.shutdown.retry.backoff.ms"),
            },
        }
    }
}
