//! What is known of the logs after each step of a workload: what a crash may leave is judged by it.

use bytes::Bytes;
use model::{TopicId, TopicPartition};
use protocol::records::{Batches, ControlRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use storage::{CleanupPolicy, LogConfig};

/// How a topic keeps its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Delete,
    Compact,
    CompactAndDelete,
}

impl Policy {
    pub(crate) fn is_compact(self) -> bool {
        self != Self::Delete
    }

    pub(crate) fn config(self) -> LogConfig {
        LogConfig {
            segment_bytes: 1500,
            index_interval_bytes: 250,
            segment_ms: std::time::Duration::MAX,
            retention_ms: None,
            retention_bytes: (self != Self::Compact).then_some(6000),
            cleanup_policy: CleanupPolicy {
                delete: self != Self::Compact,
                compact: self.is_compact(),
            },
            delete_retention_ms: std::time::Duration::from_millis(40),
            file_delete_delay_ms: std::time::Duration::from_millis(10),
            ..LogConfig::default()
        }
    }
}

/// A record, as far as compaction goes by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RecordFact {
    pub(crate) offset: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) timestamp: i64,
}

/// The producer of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    pub(crate) first: i32,
    pub(crate) last: i32,
    pub(crate) is_transactional: bool,
}

/// A batch, as it lies in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BatchFact {
    pub(crate) base: i64,
    pub(crate) last: i64,
    pub(crate) bytes: Bytes,
    /// In magic 2, if it has one.
    pub(crate) epoch: Option<i32>,
    pub(crate) is_legacy: bool,
    pub(crate) stamp: Option<Stamp>,
    /// Of a marker: whether it commits, and the coordinator's epoch.
    pub(crate) marker: Option<(bool, i32)>,
    pub(crate) records: Vec<RecordFact>,
}

impl BatchFact {
    pub(crate) fn is_control(&self) -> bool {
        self.marker.is_some()
    }
}

/// The batches in `bytes`; the error says which is damaged.
pub(crate) fn parse(bytes: &Bytes) -> Result<Vec<BatchFact>, String> {
    let mut found = Vec::new();
    for batch in Batches::new(bytes) {
        let batch = batch.map_err(|error| format!("no batch: {error}"))?;
        if !batch.verify() {
            return Err(format!("the batch up to offset {} is torn", batch.last_offset()));
        }
        let mut marker = None;
        let mut records = Vec::new();
        for record in &batch.records(1 << 20).map_err(|error| error.to_string())? {
            let record = record.map_err(|error| error.to_string())?;
            if batch.is_control()
                && let Ok(ControlRecord::EndTransaction(end)) = ControlRecord::parse(&record)
            {
                marker = Some((end.committed, end.coordinator_epoch));
            }
            records.push(RecordFact {
                offset: record.offset.0,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                timestamp: record.timestamp.map_or(-1, |timestamp| timestamp.0),
            });
        }
        let header = batch.header();
        let first = records.first().map_or(batch.last_offset().0, |record| record.offset);
        found.push(BatchFact {
            base: header.map_or(first, |header| header.base_offset().0),
            last: batch.last_offset().0,
            bytes: bytes.slice_ref(batch.bytes()),
            epoch: header.and_then(|header| header.leader_epoch()).map(|epoch| epoch.0),
            is_legacy: header.is_none(),
            stamp: header.filter(|header| header.producer_id >= 0).map(|header| Stamp {
                id: header.producer_id,
                epoch: header.producer_epoch,
                first: header.base_sequence,
                last: header.base_sequence.saturating_add(header.last_offset_delta),
                is_transactional: header.attributes.is_transactional(),
            }),
            marker,
            records,
        });
    }
    Ok(found)
}

/// What is known of one log.
#[derive(Clone, Debug)]
pub(crate) struct LogFacts {
    pub(crate) id: TopicId,
    pub(crate) policy: Policy,
    /// Every batch that was written and not cut off again, also those below the log start and those that
    /// compaction has changed or removed since.
    pub(crate) lineage: Vec<Arc<BatchFact>>,
    pub(crate) start: i64,
    /// The highest log start ever: below, segments may be missing in any selection.
    pub(crate) highest_start: i64,
    pub(crate) end: i64,
    /// Everything below is durable.
    pub(crate) durable: i64,
    /// The log start cannot be lower.
    pub(crate) durable_start: i64,
    pub(crate) durable_high_watermark: i64,
    /// Compaction may have changed what is below.
    pub(crate) compacted_to: i64,
    /// Its directory is durable, with the topic's id.
    pub(crate) is_durable: bool,
    /// The topic's id was not lost in a crash before.
    pub(crate) has_id: bool,
    /// Epochs of batches below may not be known: old formats have none, and made the log forget those before.
    pub(crate) epochs_from: i64,
}

impl LogFacts {
    pub(crate) fn new(id: TopicId, policy: Policy) -> Self {
        Self {
            id,
            policy,
            lineage: Vec::new(),
            start: 0,
            highest_start: 0,
            end: 0,
            durable: 0,
            durable_start: 0,
            durable_high_watermark: 0,
            compacted_to: 0,
            is_durable: false,
            has_id: true,
            epochs_from: 0,
        }
    }

    /// The log was cut to end at `end`.
    pub(crate) fn cut(&mut self, end: i64) {
        self.lineage.retain(|batch| batch.last < end);
        self.end = end;
        self.durable = self.durable.min(end);
        self.start = self.start.min(end);
        self.durable_start = self.durable_start.min(end);
        self.durable_high_watermark = self.durable_high_watermark.min(end);
        self.compacted_to = self.compacted_to.min(end);
    }

    pub(crate) fn set_start(&mut self, start: i64) {
        self.start = start;
        self.highest_start = self.highest_start.max(start);
    }
}

/// What is known of a producer after some batches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProducerFacts {
    pub(crate) epoch: i16,
    pub(crate) last_sequence: Option<i32>,
    pub(crate) coordinator_epoch: Option<i32>,
    pub(crate) open_since: Option<i64>,
    /// Offset of the last batch that told something.
    pub(crate) told_at: i64,
    /// Offset of the last batch with a sequence.
    pub(crate) sequence_at: i64,
}

/// A transaction that was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Aborted {
    pub(crate) producer: i64,
    pub(crate) first: i64,
    pub(crate) marker: i64,
}

impl Aborted {
    /// Whether the batch has records of it.
    pub(crate) fn holds(&self, batch: &BatchFact) -> bool {
        let is_own = |stamp: Stamp| stamp.id == self.producer && stamp.is_transactional;
        !batch.is_control()
            && batch.stamp.is_some_and(is_own)
            && (self.first..self.marker).contains(&batch.base)
    }
}

/// What batches say of producers and transactions, told by reading them one after the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Producers {
    pub(crate) known: BTreeMap<i64, ProducerFacts>,
    pub(crate) aborted: BTreeSet<Aborted>,
}

impl Producers {
    pub(crate) fn of<'a>(batches: impl IntoIterator<Item = &'a BatchFact>) -> Self {
        let mut this = Self::default();
        for batch in batches {
            this.take(batch);
        }
        this
    }

    fn take(&mut self, batch: &BatchFact) {
        let Some(stamp) = batch.stamp else { return };
        let known = self.known.entry(stamp.id).or_default();
        if known.epoch != stamp.epoch {
            known.last_sequence = None;
        }
        known.epoch = stamp.epoch;
        known.told_at = batch.last;
        if let Some((committed, coordinator_epoch)) = batch.marker {
            known.coordinator_epoch = Some(coordinator_epoch);
            if let Some(first) = known.open_since.take()
                && !committed
            {
                self.aborted.insert(Aborted { producer: stamp.id, first, marker: batch.last });
            }
            return;
        }
        known.last_sequence = Some(stamp.last);
        known.sequence_at = batch.last;
        if stamp.is_transactional && known.open_since.is_none() {
            known.open_since = Some(batch.base);
        }
    }
}

/// What is known after a step.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Operations recorded by then.
    pub(crate) operations: usize,
    pub(crate) step: String,
    pub(crate) logs: BTreeMap<TopicPartition, Arc<LogFacts>>,
    /// The broker was stopped: the next start must find everything as it was left.
    pub(crate) is_closed: bool,
    /// The directory knows whose it is.
    pub(crate) is_claimed: bool,
}
