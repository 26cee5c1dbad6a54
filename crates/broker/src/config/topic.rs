//! Settings of a topic: typed, and layered over what the broker says.

use super::definitions::{TOPIC_DEFINITIONS, topic_definition};
use super::layers::Properties;
use super::value::Value;
use super::values::Values;
use crate::replication_throttle::ThrottledReplicas;
use std::time::Duration;
use storage::{CleanupPolicy, LogConfig};

/// Everything that one topic's partitions go by.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicConfig {
    /// What the log itself needs.
    pub log: LogConfig,
    /// `max.message.bytes`: of a batch, header included.
    pub max_message_bytes: usize,
    /// `min.insync.replicas`
    pub min_insync_replicas: usize,
    /// `unclean.leader.election.enable`
    pub unclean_leader_election: bool,
    /// `compression.type` and its levels
    pub compression: CompressionSettings,
    /// `message.timestamp.type`
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how far a record's time may lie back; `None` means any.
    pub timestamp_before_max: Option<Duration>,
    /// `message.timestamp.after.max.ms`: how far a record's time may lie ahead; `None` means any.
    pub timestamp_after_max: Option<Duration>,
    /// `message.downconversion.enable`: serve old clients in their format.
    pub down_conversion: bool,
    /// `leader.replication.throttled.replicas`
    pub leader_throttled: ThrottledReplicas,
    /// `follower.replication.throttled.replicas`
    pub follower_throttled: ThrottledReplicas,
}

/// Where a record's time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampType {
    /// From the producer.
    CreateTime,
    /// From the leader's clock when it appends.
    LogAppendTime,
}

/// `compression.type`, and the levels for when the broker compresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionSettings {
    /// What the log holds.
    pub kind: CompressionType,
    /// `compression.gzip.level`; -1 is zlib's default.
    pub gzip_level: i32,
    /// `compression.lz4.level`
    pub lz4_level: i32,
    /// `compression.zstd.level`
    pub zstd_level: i32,
}

/// `compression.type`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionType {
    /// As sent.
    Producer,
    /// Never.
    Uncompressed,
    /// gzip
    Gzip,
    /// snappy
    Snappy,
    /// lz4
    Lz4,
    /// zstd
    Zstd,
}

impl TopicConfig {
    /// `values` is complete and checked: see [`layered`].
    pub(super) fn read(values: &Values) -> Self {
        let difference = values.i64("message.timestamp.difference.max.ms");
        let bound = |name| {
            let millis = match values.i64(name) {
                i64::MAX => difference,
                millis => millis,
            };
            u64::try_from(millis).ok().filter(|_| millis != i64::MAX).map(Duration::from_millis)
        };
        let policy = values.list("cleanup.policy");
        Self {
            log: LogConfig {
                segment_bytes: values.u64("segment.bytes"),
                segment_ms: values.millis("segment.ms"),
                segment_jitter_ms: values.millis("segment.jitter.ms"),
                segment_index_bytes: values.u64("segment.index.bytes"),
                index_interval_bytes: values.u64("index.interval.bytes"),
                preallocate: values.boolean("preallocate"),
                flush_messages: values.limit("flush.messages"),
                flush_ms: values.millis_or_never("flush.ms"),
                retention_ms: values.millis_or_never("retention.ms"),
                retention_bytes: values.limit("retention.bytes"),
                file_delete_delay_ms: values.millis("file.delete.delay.ms"),
                cleanup_policy: CleanupPolicy {
                    delete: policy.iter().any(|one| one == "delete"),
                    compact: policy.iter().any(|one| one == "compact"),
                },
                max_compaction_lag_ms: values.millis_or_never("max.compaction.lag.ms"),
                min_compaction_lag_ms: values.millis("min.compaction.lag.ms"),
                delete_retention_ms: values.millis("delete.retention.ms"),
                min_cleanable_dirty_ratio: values.f64("min.cleanable.dirty.ratio"),
                ..LogConfig::default()
            },
            max_message_bytes: values.size("max.message.bytes"),
            leader_throttled: ThrottledReplicas::parse(
                &values.list("leader.replication.throttled.replicas"),
            ),
            follower_throttled: ThrottledReplicas::parse(
                &values.list("follower.replication.throttled.replicas"),
            ),
            min_insync_replicas: values.size("min.insync.replicas"),
            unclean_leader_election: values.boolean("unclean.leader.election.enable"),
            compression: CompressionSettings {
                kind: match values.text("compression.type").as_deref() {
                    Some("uncompressed") => CompressionType::Uncompressed,
                    Some("gzip") => CompressionType::Gzip,
                    Some("snappy") => CompressionType::Snappy,
                    Some("lz4") => CompressionType::Lz4,
                    Some("zstd") => CompressionType::Zstd,
                    _ => CompressionType::Producer,
                },
                gzip_level: values.i32("compression.gzip.level"),
                lz4_level: values.i32("compression.lz4.level"),
                zstd_level: values.i32("compression.zstd.level"),
            },
            timestamp_type: match values.text("message.timestamp.type").as_deref() {
                Some("LogAppendTime") => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            timestamp_before_max: bound("message.timestamp.before.max.ms"),
            timestamp_after_max: bound("message.timestamp.after.max.ms"),
            down_conversion: values.boolean("message.downconversion.enable"),
        }
    }
}

/// The broker's key that gives a topic's key its default; `None` for keys that only topics have.
#[must_use]
pub fn broker_key_of(topic_key: &str) -> Option<&'static str> {
    Some(match topic_key {
        "segment.bytes" => "log.segment.bytes",
        "segment.ms" => "log.roll.ms",
        "segment.jitter.ms" => "log.roll.jitter.ms",
        "segment.index.bytes" => "log.index.size.max.bytes",
        "flush.messages" => "log.flush.interval.messages",
        "flush.ms" => "log.flush.interval.ms",
        "retention.bytes" => "log.retention.bytes",
        "retention.ms" => "log.retention.ms",
        "max.message.bytes" => "message.max.bytes",
        "index.interval.bytes" => "log.index.interval.bytes",
        "delete.retention.ms" => "log.cleaner.delete.retention.ms",
        "min.compaction.lag.ms" => "log.cleaner.min.compaction.lag.ms",
        "max.compaction.lag.ms" => "log.cleaner.max.compaction.lag.ms",
        "file.delete.delay.ms" => "log.segment.delete.delay.ms",
        "min.cleanable.dirty.ratio" => "log.cleaner.min.cleanable.ratio",
        "cleanup.policy" => "log.cleanup.policy",
        "unclean.leader.election.enable" => "unclean.leader.election.enable",
        "min.insync.replicas" => "min.insync.replicas",
        "compression.type" => "compression.type",
        "compression.gzip.level" => "compression.gzip.level",
        "compression.lz4.level" => "compression.lz4.level",
        "compression.zstd.level" => "compression.zstd.level",
        "preallocate" => "log.preallocate",
        "message.format.version" => "log.message.format.version",
        "message.timestamp.type" => "log.message.timestamp.type",
        "message.timestamp.difference.max.ms" => "log.message.timestamp.difference.max.ms",
        "message.timestamp.before.max.ms" => "log.message.timestamp.before.max.ms",
        "message.timestamp.after.max.ms" => "log.message.timestamp.after.max.ms",
        "message.downconversion.enable" => "log.message.downconversion.enable",
        "local.retention.ms" => "log.local.retention.ms",
        "local.retention.bytes" => "log.local.retention.bytes",
        _ => return None,
    })
}

/// What a topic without overrides goes by, by topic key: the broker's values, units converted.
pub(super) fn defaults_from(broker: &Values) -> Properties {
    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;
    let timestamp_bound = |name| match broker.i64(name) {
        i64::MAX => broker.i64("log.message.timestamp.difference.max.ms"),
        millis => millis,
    };
    TOPIC_DEFINITIONS
        .iter()
        .filter_map(|definition| {
            let key = broker_key_of(definition.name)?;
            let value = match key {
                "log.roll.ms" => broker
                    .optional_i64(key)
                    .unwrap_or_else(|| broker.i64("log.roll.hours") * HOUR)
                    .to_string(),
                "log.roll.jitter.ms" => broker
                    .optional_i64(key)
                    .unwrap_or_else(|| broker.i64("log.roll.jitter.hours") * HOUR)
                    .to_string(),
                "log.retention.ms" => broker
                    .optional_i64(key)
                    .or_else(|| {
                        broker.optional_i64("log.retention.minutes").map(|minutes| minutes * MINUTE)
                    })
                    .unwrap_or_else(|| broker.i64("log.retention.hours") * HOUR)
                    .max(-1)
                    .to_string(),
                "log.flush.interval.ms" => broker
                    .optional_i64(key)
                    .unwrap_or_else(|| broker.i64("log.flush.scheduler.interval.ms"))
                    .to_string(),
                "log.message.timestamp.before.max.ms" | "log.message.timestamp.after.max.ms" => {
                    timestamp_bound(key).to_string()
                }
                _ => broker.printed(key)?,
            };
            Some((definition.name.to_owned(), value))
        })
        .collect()
}

/// `overrides` over `defaults`. An override that is unknown or does not parse (it was stored by another version) is
/// left out rather than allowed to stop the broker.
pub(super) fn layered(defaults: &Properties, overrides: &Properties) -> Properties {
    let mut effective = defaults.clone();
    for (key, text) in overrides {
        let valid = topic_definition(key).is_some_and(|definition| {
            Value::parse(definition.kind, text)
                .is_ok_and(|value| definition.range.check(key, &value).is_ok())
        });
        if valid {
            effective.insert(key.clone(), text.clone());
        }
    }
    effective
}
