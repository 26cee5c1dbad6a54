//! What an `UpdateMetadata` changes.

use crate::{BrokerImage, ClusterImage, PartitionImage, TopicImage};
use model::{BrokerId, ControllerEpoch, TopicId, TopicName, TopicPartition};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One `UpdateMetadata`: the whole list of live brokers, and some partitions.
///
/// Brokers and controller replace the earlier ones; partitions that are not named stay as they were.
/// Source: Kafka's `ZkMetadataCache`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataDelta {
    /// Who is controller now; taken over even if that broker is not live.
    pub controller: Option<BrokerId>,
    /// The epoch of that controller.
    pub controller_epoch: ControllerEpoch,
    /// Every live broker.
    pub brokers: Vec<BrokerImage>,
    /// The topics with partitions that changed.
    pub topics: Vec<TopicDelta>,
}

/// The partitions of one topic that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicDelta {
    /// The topic.
    pub name: TopicName,
    /// Its id; `None` forgets the known one.
    pub id: Option<TopicId>,
    /// Its partitions that changed.
    pub partitions: Vec<PartitionDelta>,
}

/// What became of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartitionDelta {
    /// It is new, or is now like this.
    Changed(PartitionImage),
    /// It is being deleted (wire leader -2): nobody is to see it any more.
    Deleted(i32),
}

/// What applying a delta brought.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The image after it.
    pub image: ClusterImage,
    /// Partitions that were known before and are gone now.
    pub deleted: Vec<TopicPartition>,
}

impl ClusterImage {
    /// This image after `delta`.
    #[must_use]
    pub fn apply(&self, delta: MetadataDelta) -> Applied {
        let mut image = self.clone();
        image.controller = delta.controller;
        image.controller_epoch = delta.controller_epoch;
        image.brokers = Arc::new(
            delta.brokers.into_iter().map(|b| (b.id, Arc::new(b))).collect::<BTreeMap<_, _>>(),
        );
        let mut deleted = Vec::new();
        for topic in delta.topics {
            image.apply_topic(topic, &mut deleted);
        }
        Applied { image, deleted }
    }

    fn apply_topic(&mut self, delta: TopicDelta, deleted: &mut Vec<TopicPartition>) {
        let before = self.topics.get(&delta.name).cloned();
        let known = before.as_deref().map_or(&[][..], TopicImage::partitions);
        let mut partitions: BTreeMap<i32, Arc<PartitionImage>> =
            known.iter().map(|p| (p.index, Arc::clone(p))).collect();
        for partition in delta.partitions {
            match partition {
                PartitionDelta::Changed(partition) => {
                    partitions.insert(partition.index, Arc::new(partition));
                }
                PartitionDelta::Deleted(index) => {
                    if partitions.remove(&index).is_some() {
                        deleted.push(TopicPartition::new(delta.name.clone(), index));
                    }
                }
            }
        }
        if let Some(id) = before.and_then(|topic| topic.id()) {
            self.topics_by_id.remove(&id);
        }
        if partitions.is_empty() {
            self.topics.remove(&delta.name);
            self.topic_configs.remove(&delta.name);
            return;
        }
        let topic = Arc::new(TopicImage::new(
            delta.name.clone(),
            delta.id,
            partitions.into_values().collect(),
        ));
        if let Some(id) = delta.id {
            self.topics_by_id.insert(id, Arc::clone(&topic));
        }
        self.topics.insert(delta.name, topic);
    }
}
