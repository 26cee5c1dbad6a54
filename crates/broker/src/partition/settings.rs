//! What one topic's partitions go by, in the form that the data path uses.

use crate::config::{CompressionType, RecordValidation, TimestampType, TopicConfig};
use crate::replication_throttle::ThrottledReplicas;
use model::Timestamp;
use protocol::records::validate::{self, INFLATE_LIMIT, Origin, ValidationRules};
use protocol::records::{self, Compression, CompressionLevels};
use std::sync::Arc;
use std::time::Duration;
use storage::LogConfig;

/// One topic's settings.
#[derive(Clone, Debug)]
pub(crate) struct PartitionSettings {
    /// What the log goes by.
    pub(crate) log: Arc<LogConfig>,
    /// `min.insync.replicas`.
    pub(crate) min_isr: usize,
    /// `unclean.leader.election.enable`.
    pub(crate) unclean_leader_election: bool,
    /// `message.downconversion.enable`.
    pub(crate) down_conversion: bool,
    /// Which followers' reads are throttled here as their leader.
    pub(crate) leader_throttled: ThrottledReplicas,
    /// Which replicas here are throttled as followers.
    pub(crate) follower_throttled: ThrottledReplicas,
    /// What producers' batches are checked for.
    pub(crate) checks: RecordChecks,
}

/// What producers' batches are checked for.
#[derive(Clone, Debug)]
pub(crate) struct RecordChecks {
    rules: ValidationRules,
}

impl PartitionSettings {
    /// The settings of a topic on a broker that validates records as deep as `validation` says.
    pub(crate) fn new(topic: &TopicConfig, validation: RecordValidation) -> Self {
        let millis = |limit: Option<Duration>| {
            limit.map_or(i64::MAX, |limit| i64::try_from(limit.as_millis()).unwrap_or(i64::MAX))
        };
        let compression = &topic.compression;
        let rules = ValidationRules {
            origin: Origin::Client,
            compression: match compression.kind {
                CompressionType::Producer => None,
                CompressionType::Uncompressed => Some(Compression::None),
                CompressionType::Gzip => Some(Compression::Gzip),
                CompressionType::Snappy => Some(Compression::Snappy),
                CompressionType::Lz4 => Some(Compression::Lz4),
                CompressionType::Zstd => Some(Compression::Zstd),
            },
            levels: CompressionLevels {
                gzip: compression.gzip_level,
                lz4: compression.lz4_level,
                zstd: compression.zstd_level,
            },
            timestamp_type: match topic.timestamp_type {
                TimestampType::CreateTime => records::TimestampType::CreateTime,
                TimestampType::LogAppendTime => records::TimestampType::LogAppendTime,
            },
            timestamp_before_max_ms: millis(topic.timestamp_before_max),
            timestamp_after_max_ms: millis(topic.timestamp_after_max),
            compacted: topic.log.cleanup_policy.compact,
            max_message_bytes: topic.max_message_bytes,
            validation: match validation {
                RecordValidation::Full => validate::RecordValidation::Full,
                RecordValidation::Headers => validate::RecordValidation::Headers,
            },
            inflate_limit: INFLATE_LIMIT,
            now: Timestamp(0),
        };
        Self {
            log: Arc::new(topic.log.clone()),
            min_isr: topic.min_insync_replicas,
            unclean_leader_election: topic.unclean_leader_election,
            down_conversion: topic.down_conversion,
            leader_throttled: topic.leader_throttled.clone(),
            follower_throttled: topic.follower_throttled.clone(),
            checks: RecordChecks { rules },
        }
    }
}

impl RecordChecks {
    /// The rules for a batch that arrives at `now`.
    pub(crate) fn rules(&self, origin: Origin, now: Timestamp) -> ValidationRules {
        ValidationRules { origin, now, ..self.rules.clone() }
    }

    /// Whether everything in the log is compressed with zstd by the broker's own doing.
    pub(crate) fn stores_zstd(&self) -> bool {
        self.rules.compression == Some(Compression::Zstd)
    }
}
