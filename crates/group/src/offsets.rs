//! The committed offsets of one group.

use model::{Offset, Timestamp, TopicId, TopicName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How far a group has come in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next record to read; any number that the client gave.
    pub offset: i64,
    /// The epoch of the last record that was read, if the client said.
    pub leader_epoch: Option<i32>,
    /// The client's note; None if empty.
    pub metadata: Option<Arc<str>>,
    /// When it was committed, or what the client said about that (OffsetCommit v1).
    pub commit_timestamp: Timestamp,
    /// When it expires, if the client said so (OffsetCommit v2 to v4); otherwise `offsets.retention.minutes` decides.
    pub expire_timestamp: Option<Timestamp>,
    /// The incarnation of the topic, if the client named it (OffsetCommit v10).
    pub topic_id: Option<TopicId>,
    /// Base offset of the batch that holds the record; orders transactional against plain commits.
    pub appended_at: Offset,
}

/// By topic, then partition. Invariant: no topic without partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offsets {
    topics: BTreeMap<TopicName, BTreeMap<i32, CommittedOffset>>,
}

impl Offsets {
    pub(crate) fn insert(&mut self, topic: &str, partition: i32, value: CommittedOffset) {
        match self.topics.get_mut(topic) {
            Some(partitions) => _ = partitions.insert(partition, value),
            None => _ = self.topics.insert(topic.into(), BTreeMap::from([(partition, value)])),
        }
    }

    pub(crate) fn remove(&mut self, topic: &str, partition: i32) {
        if let Some(partitions) = self.topics.get_mut(topic) {
            partitions.remove(&partition);
            if partitions.is_empty() {
                self.topics.remove(topic);
            }
        }
    }

    /// The committed offset of a partition.
    #[must_use]
    pub fn get(&self, topic: &str, partition: i32) -> Option<&CommittedOffset> {
        self.topics.get(topic)?.get(&partition)
    }

    /// Whether nothing is committed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// How many partitions have an offset.
    #[must_use]
    pub fn len(&self) -> usize {
        self.topics.values().map(BTreeMap::len).sum()
    }

    /// Topics with their partitions, in order.
    pub fn topics(&self) -> impl Iterator<Item = (&TopicName, &BTreeMap<i32, CommittedOffset>)> {
        self.topics.iter()
    }

    /// The partitions of a topic that have an offset.
    pub fn of_topic(&self, topic: &str) -> impl Iterator<Item = i32> {
        self.topics.get(topic).into_iter().flat_map(|partitions| partitions.keys().copied())
    }

    /// Everything, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&TopicName, i32, &CommittedOffset)> {
        self.topics.iter().flat_map(|(topic, partitions)| {
            partitions.iter().map(move |(&p, value)| (topic, p, value))
        })
    }
}
