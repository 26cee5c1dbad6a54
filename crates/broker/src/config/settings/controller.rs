//! What the broker does while it is the controller.

use crate::config::values::Values;
use std::time::Duration;

/// What the broker does while it is the controller.
#[derive(Clone, Debug, PartialEq)]
pub struct ControllerSettings {
    /// `controller.socket.timeout.ms`
    pub socket_timeout: Duration,
    /// `auto.leader.rebalance.enable`
    pub auto_leader_rebalance: bool,
    /// `leader.imbalance.check.interval.seconds`
    pub leader_imbalance_check_interval: Duration,
    /// `leader.imbalance.per.broker.percentage`
    pub leader_imbalance_per_broker_percentage: i32,
    /// `unclean.leader.election.enable`: for topics that do not say otherwise.
    pub unclean_leader_election: bool,
    /// `barnabas.unclean.restart.wait.ms`
    pub unclean_restart_wait: Duration,
    /// `barnabas.controller.reconcile.interval.ms`; `None`: never.
    pub reconcile_interval: Option<Duration>,
}

impl ControllerSettings {
    pub(in crate::config) fn read(values: &Values) -> Self {
        Self {
            socket_timeout: values.millis("controller.socket.timeout.ms"),
            auto_leader_rebalance: values.boolean("auto.leader.rebalance.enable"),
            leader_imbalance_check_interval: Duration::from_secs(
                values.u64("leader.imbalance.check.interval.seconds"),
            ),
            leader_imbalance_per_broker_percentage: values
                .i32("leader.imbalance.per.broker.percentage"),
            unclean_leader_election: values.boolean("unclean.leader.election.enable"),
            unclean_restart_wait: values.millis("barnabas.unclean.restart.wait.ms"),
            reconcile_interval: Some(values.millis("barnabas.controller.reconcile.interval.ms"))
                .filter(|interval| !interval.is_zero()),
        }
    }
}
