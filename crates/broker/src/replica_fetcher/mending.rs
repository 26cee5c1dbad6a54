//! The partitions of one thread whose logs are damaged, and what their leader is asked for to mend them.
//!
//! What is asked for is read as a consumer reads: up to the high watermark, and the leader does not take it for a sign of
//! where this replica's log ends.

use super::backoff;
use crate::partition::Partition;
use bytestring::ByteString;
use model::{Instant, LeaderEpoch, Offset, TopicId};
use protocol::messages::FetchRequest;
use protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use std::sync::Arc;
use std::time::Duration;

/// Pause after the first failure; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Wire value of the epoch of a fetch that is in no session.
const NO_SESSION: i32 = -1;
/// Wire value of a reader that is no replica.
const CONSUMER: i32 = -1;

/// So many pieces are fetched for one partition before the others have their turn.
pub(super) const PIECES: usize = 4;

/// A damaged partition.
#[derive(Clone, Debug)]
pub(super) struct Damaged {
    pub(super) partition: Arc<Partition>,
    pub(super) epoch: LeaderEpoch,
    /// When to ask next.
    due: Instant,
    failures: u32,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct DamagedPartitions(pub(super) Vec<Damaged>);

impl DamagedPartitions {
    /// `partition` follows the leader of `epoch` and is damaged.
    pub(super) fn add(&mut self, partition: &Arc<Partition>, epoch: LeaderEpoch, now: Instant) {
        self.remove(partition);
        self.0.push(Damaged { partition: Arc::clone(partition), epoch, due: now, failures: 0 });
    }

    /// Nothing more is done about `partition`.
    pub(super) fn remove(&mut self, partition: &Arc<Partition>) {
        self.0.retain(|damaged| !Arc::ptr_eq(&damaged.partition, partition));
    }

    /// Whether something can be asked for now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.0.iter().any(|damaged| damaged.due <= now)
    }

    /// When something can next be asked for.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.0.iter().map(|damaged| damaged.due).min()
    }
}

impl Damaged {
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due <= now
    }

    /// It came to nothing.
    pub(super) fn delay(&mut self, now: Instant) {
        let pause = backoff(FIRST_PAUSE, self.failures, LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.due = now + pause;
    }

    /// It came to something.
    pub(super) fn went_well(&mut self) {
        self.failures = 0;
    }

    /// Asks for what the leader has from `offset` on, by the topic's id if there is one.
    pub(super) fn request(
        &self,
        offset: Offset,
        topic_id: Option<TopicId>,
        max_bytes: i32,
    ) -> FetchRequest {
        let partition = FetchPartition {
            partition: self.partition.index,
            current_leader_epoch: self.epoch.0,
            fetch_offset: offset.0,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            partition_max_bytes: max_bytes,
            ..Default::default()
        };
        let topic = FetchTopic {
            topic: ByteString::from(&*self.partition.topic.name),
            topic_id: topic_id.unwrap_or(TopicId::ZERO),
            partitions: vec![partition],
        };
        FetchRequest {
            replica_id: CONSUMER,
            max_bytes,
            session_epoch: NO_SESSION,
            topics: vec![topic],
            ..Default::default()
        }
    }
}
