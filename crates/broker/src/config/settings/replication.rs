//! Fetching from leaders, and what leaders expect of followers.

use crate::config::values::Values;
use std::time::Duration;

/// `replica.*` and friends. Sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplicationSettings {
    /// `replica.lag.time.max.ms`
    pub lag_time_max: Duration,
    /// `replica.socket.timeout.ms`
    pub socket_timeout: Duration,
    /// `replica.socket.receive.buffer.bytes`; `None` leaves the system's default.
    pub socket_receive_buffer_bytes: Option<usize>,
    /// `replica.fetch.max.bytes`: per partition.
    pub fetch_max_bytes: i32,
    /// `replica.fetch.response.max.bytes`: per response.
    pub fetch_response_max_bytes: i32,
    /// `replica.fetch.min.bytes`
    pub fetch_min_bytes: i32,
    /// `replica.fetch.wait.max.ms`
    pub fetch_wait_max: Duration,
    /// `replica.fetch.backoff.ms`
    pub fetch_backoff: Duration,
    /// Whether consumers are sent to the nearest replica (`replica.selector.class`).
    pub rack_aware_reads: bool,
    /// `leader.replication.throttled.rate`: bytes per second.
    pub leader_throttled_rate: u64,
    /// `follower.replication.throttled.rate`: bytes per second.
    pub follower_throttled_rate: u64,
    /// `replication.quota.window.num`
    pub throttle_windows: usize,
    /// `replication.quota.window.size.seconds`
    pub throttle_window: Duration,
    /// `num.replica.fetchers`: per source broker.
    pub fetchers: usize,
    /// `replica.high.watermark.checkpoint.interval.ms`
    pub high_watermark_checkpoint_interval: Duration,
    /// `barnabas.fast.failure.detection`
    pub fast_failure_detection: bool,
    /// `barnabas.leader.lease.enable`
    pub leader_lease: bool,
    /// `barnabas.unknown.producer.wait.ms`
    pub unknown_producer_wait: Duration,
}

impl ReplicationSettings {
    pub(in crate::config) fn read(values: &Values) -> Self {
        Self {
            lag_time_max: values.millis("replica.lag.time.max.ms"),
            socket_timeout: values.millis("replica.socket.timeout.ms"),
            socket_receive_buffer_bytes: values
                .optional_size("replica.socket.receive.buffer.bytes"),
            fetch_max_bytes: values.i32("replica.fetch.max.bytes"),
            fetch_response_max_bytes: values.i32("replica.fetch.response.max.bytes"),
            fetch_min_bytes: values.i32("replica.fetch.min.bytes"),
            fetch_wait_max: values.millis("replica.fetch.wait.max.ms"),
            fetch_backoff: values.millis("replica.fetch.backoff.ms"),
            rack_aware_reads: values
                .text("replica.selector.class")
                .is_some_and(|class| class.ends_with("RackAwareReplicaSelector")),
            leader_throttled_rate: values.u64("leader.replication.throttled.rate"),
            follower_throttled_rate: values.u64("follower.replication.throttled.rate"),
            throttle_windows: values.size("replication.quota.window.num"),
            throttle_window: Duration::from_secs(
                values.u64("replication.quota.window.size.seconds"),
            ),
            fetchers: values.size("num.replica.fetchers"),
            high_watermark_checkpoint_interval: values
                .millis("replica.high.watermark.checkpoint.interval.ms"),
            fast_failure_detection: values.boolean("barnabas.fast.failure.detection"),
            leader_lease: values.boolean("barnabas.leader.lease.enable"),
            unknown_producer_wait: values.millis("barnabas.unknown.producer.wait.ms"),
        }
    }
}
