//! Topics and their partitions.

use model::{BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicId, TopicName};
use std::sync::Arc;

/// One partition, as the controller last described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionImage {
    /// Its number in the topic.
    pub index: i32,
    /// The broker that leads; `None` while no replica can.
    pub leader: Option<BrokerId>,
    /// Counts leaderships.
    pub leader_epoch: LeaderEpoch,
    /// The in-sync replicas, in the order of the state node.
    pub isr: Vec<BrokerId>,
    /// The assigned replicas; the first is the preferred leader.
    pub replicas: Vec<BrokerId>,
    /// Assigned replicas that are not online.
    pub offline_replicas: Vec<BrokerId>,
    /// The version of the state node.
    pub partition_epoch: PartitionEpoch,
    /// The controller that last wrote the state node.
    pub controller_epoch: ControllerEpoch,
}

/// One topic. Invariant: at least one partition; sorted by index, no index twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicImage {
    name: TopicName,
    id: Option<TopicId>,
    partitions: Vec<Arc<PartitionImage>>,
}

impl TopicImage {
    pub(crate) fn new(
        name: TopicName,
        id: Option<TopicId>,
        partitions: Vec<Arc<PartitionImage>>,
    ) -> Self {
        debug_assert!(partitions.windows(2).all(|pair| pair[0].index < pair[1].index));
        Self { name, id, partitions }
    }

    /// The topic's name.
    #[must_use]
    pub fn name(&self) -> &TopicName {
        &self.name
    }

    /// The topic's id (KIP-516); `None` for a topic of a controller before 2.8.
    #[must_use]
    pub fn id(&self) -> Option<TopicId> {
        self.id
    }

    /// The partitions by ascending index.
    #[must_use]
    pub fn partitions(&self) -> &[Arc<PartitionImage>] {
        &self.partitions
    }

    /// Partition `index`, if the topic has it. Constant time while no index is missing.
    #[must_use]
    pub fn partition(&self, index: i32) -> Option<&Arc<PartitionImage>> {
        let guess = usize::try_from(index).ok()?;
        match self.partitions.get(guess) {
            Some(partition) if partition.index == index => Some(partition),
            _ => {
                let at = self.partitions.binary_search_by_key(&index, |p| p.index).ok()?;
                self.partitions.get(at)
            }
        }
    }
}
