//! Consumer groups and their committed offsets.

use crate::config::values::Values;
use std::time::Duration;

/// The classic group protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupSettings {
    /// `group.min.session.timeout.ms`
    pub min_session_timeout: Duration,
    /// `group.max.session.timeout.ms`
    pub max_session_timeout: Duration,
    /// `group.initial.rebalance.delay.ms`
    pub initial_rebalance_delay: Duration,
    /// `group.max.size`
    pub max_size: usize,
}

/// `__consumer_offsets` and what is in it.
#[derive(Clone, Debug, PartialEq)]
pub struct OffsetsSettings {
    /// `offset.metadata.max.bytes`
    pub metadata_max_bytes: usize,
    /// `offsets.load.buffer.size`
    pub load_buffer_bytes: usize,
    /// `offsets.topic.num.partitions`
    pub topic_num_partitions: i32,
    /// `offsets.topic.replication.factor`
    pub topic_replication_factor: i16,
    /// `offsets.topic.segment.bytes`
    pub topic_segment_bytes: i32,
    /// `offsets.topic.compression.codec`: Kafka's codec number, 0 (none) to 4 (zstd).
    pub topic_compression_codec: i8,
    /// `offsets.retention.minutes`
    pub retention: Duration,
    /// `offsets.retention.check.interval.ms`
    pub retention_check_interval: Duration,
    /// `offsets.commit.timeout.ms`
    pub commit_timeout: Duration,
}

impl GroupSettings {
    pub(in crate::config) fn read(values: &Values) -> Self {
        Self {
            min_session_timeout: values.millis("group.min.session.timeout.ms"),
            max_session_timeout: values.millis("group.max.session.timeout.ms"),
            initial_rebalance_delay: values.millis("group.initial.rebalance.delay.ms"),
            max_size: values.size("group.max.size"),
        }
    }
}

impl OffsetsSettings {
    pub(in crate::config) fn read(values: &Values) -> Self {
        Self {
            metadata_max_bytes: values.size("offset.metadata.max.bytes"),
            load_buffer_bytes: values.size("offsets.load.buffer.size"),
            topic_num_partitions: values.i32("offsets.topic.num.partitions"),
            topic_replication_factor: values.i16("offsets.topic.replication.factor"),
            topic_segment_bytes: values.i32("offsets.topic.segment.bytes"),
            topic_compression_codec: i8::try_from(values.i32("offsets.topic.compression.codec"))
                .unwrap_or(0),
            retention: Duration::from_secs(values.u64("offsets.retention.minutes") * 60),
            retention_check_interval: values.millis("offsets.retention.check.interval.ms"),
            commit_timeout: values.millis("offsets.commit.timeout.ms"),
        }
    }
}
