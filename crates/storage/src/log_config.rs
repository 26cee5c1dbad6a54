//! A topic's settings, as its logs use them. Names and defaults are Kafka 3.9's.

use std::time::Duration;

/// What a log does with old records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// `delete`: remove segments by age and by size.
    pub delete: bool,
    /// `compact`: keep the last record of each key.
    pub compact: bool,
}

/// Settings of one topic's logs; `None` is Kafka's `-1` or `Long.MAX`: no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// `segment.bytes`: a segment is rolled before it would grow larger.
    pub segment_bytes: u64,
    /// `segment.ms`: a segment is rolled when its records span more time.
    pub segment_ms: Duration,
    /// `segment.jitter.ms`: at most this is taken off `segment.ms`, at random.
    pub segment_jitter_ms: Duration,
    /// `segment.index.bytes`: a segment is rolled when an index would grow larger.
    pub segment_index_bytes: u64,
    /// `index.interval.bytes`: batches of more than this lie between two index entries.
    pub index_interval_bytes: u64,
    /// `preallocate`: reserve a new segment's whole size at once.
    pub preallocate: bool,
    /// `flush.messages`: flush after this many records.
    pub flush_messages: Option<u64>,
    /// `flush.ms`: flush what has waited this long.
    pub flush_ms: Option<Duration>,
    /// `retention.ms`: segments older than this are removed.
    pub retention_ms: Option<Duration>,
    /// `retention.bytes`: oldest segments are removed while the rest is at least this large.
    pub retention_bytes: Option<u64>,
    /// `file.delete.delay.ms`: how long a removed file can still be read.
    pub file_delete_delay_ms: Duration,
    /// `cleanup.policy`.
    pub cleanup_policy: CleanupPolicy,
    /// `max.compaction.lag.ms`: bounds `segment.ms` of a compacted topic.
    pub max_compaction_lag_ms: Option<Duration>,
    /// `min.compaction.lag.ms`.
    pub min_compaction_lag_ms: Duration,
    /// `delete.retention.ms`.
    pub delete_retention_ms: Duration,
    /// `min.cleanable.dirty.ratio`.
    pub min_cleanable_dirty_ratio: f64,
    /// `producer.id.expiration.ms`: a producer that has been silent this long is forgotten.
    pub producer_id_expiration_ms: Duration,
}

impl Default for LogConfig {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            segment_bytes: 1 << 30,
            segment_ms: DAY * 7,
            segment_jitter_ms: Duration::ZERO,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            preallocate: false,
            flush_messages: None,
            flush_ms: None,
            retention_ms: Some(DAY * 7),
            retention_bytes: None,
            file_delete_delay_ms: Duration::from_secs(60),
            cleanup_policy: CleanupPolicy { delete: true, compact: false },
            max_compaction_lag_ms: None,
            min_compaction_lag_ms: Duration::ZERO,
            delete_retention_ms: DAY,
            min_cleanable_dirty_ratio: 0.5,
            producer_id_expiration_ms: DAY,
        }
    }
}

impl LogConfig {
    /// The longest time that one segment's records may span, before jitter.
    pub(crate) fn max_segment_ms(&self) -> Duration {
        match self.max_compaction_lag_ms {
            Some(lag) if self.cleanup_policy.compact && !lag.is_zero() => self.segment_ms.min(lag),
            _ => self.segment_ms,
        }
    }
}
