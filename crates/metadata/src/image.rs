//! The image itself.

use crate::sharded::Sharded;
use crate::{BrokerImage, ConfigChange, ConfigEntity, Configs, PartitionImage, TopicImage};
use model::{BrokerId, ControllerEpoch, TopicId, TopicName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What this broker knows of the cluster. Cheap to clone; never changes.
#[derive(Clone, Debug, Default)]
pub struct ClusterImage {
    pub(crate) controller: Option<BrokerId>,
    pub(crate) controller_epoch: ControllerEpoch,
    pub(crate) brokers: Arc<BTreeMap<BrokerId, Arc<BrokerImage>>>,
    pub(crate) topics: Sharded<TopicName, Arc<TopicImage>>,
    pub(crate) topics_by_id: Sharded<TopicId, Arc<TopicImage>>,
    pub(crate) topic_configs: Sharded<TopicName, Configs>,
    pub(crate) broker_configs: Arc<BTreeMap<BrokerId, Configs>>,
    pub(crate) all_brokers_configs: Configs,
    pub(crate) client_metrics: Arc<BTreeMap<Arc<str>, Configs>>,
}

impl ClusterImage {
    /// An image of nothing: no brokers, no topics.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The broker that is controller; `None` before the first `UpdateMetadata`.
    #[must_use]
    pub fn controller(&self) -> Option<BrokerId> {
        self.controller
    }

    /// The controller's epoch.
    #[must_use]
    pub fn controller_epoch(&self) -> ControllerEpoch {
        self.controller_epoch
    }

    /// The live brokers by ascending id.
    pub fn brokers(&self) -> impl ExactSizeIterator<Item = &Arc<BrokerImage>> {
        self.brokers.values()
    }

    /// A live broker.
    #[must_use]
    pub fn broker(&self, id: BrokerId) -> Option<&Arc<BrokerImage>> {
        self.brokers.get(&id)
    }

    /// The topic called `name`.
    #[must_use]
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.get(name)
    }

    /// The topic with `id`.
    #[must_use]
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.topics_by_id.get(&id)
    }

    /// Partition `index` of the topic called `name`.
    #[must_use]
    pub fn partition(&self, name: &str, index: i32) -> Option<&Arc<PartitionImage>> {
        self.topic(name)?.partition(index)
    }

    /// All topics, by name.
    #[must_use]
    pub fn topics(&self) -> Vec<&Arc<TopicImage>> {
        let mut topics: Vec<_> = self.topics.iter().map(|(_, topic)| topic).collect();
        topics.sort_unstable_by(|a, b| a.name().cmp(b.name()));
        topics
    }

    /// How many topics there are.
    #[must_use]
    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }

    /// The settings of the topic called `name` that were set on it; empty if none was.
    #[must_use]
    pub fn topic_configs(&self, name: &str) -> Configs {
        self.topic_configs.get(name).cloned().unwrap_or_default()
    }

    /// The settings that were set on broker `id` itself.
    #[must_use]
    pub fn broker_configs(&self, id: BrokerId) -> Configs {
        self.broker_configs.get(&id).cloned().unwrap_or_default()
    }

    /// The settings that were set for all brokers at once.
    #[must_use]
    pub fn all_brokers_configs(&self) -> &Configs {
        &self.all_brokers_configs
    }

    /// The subscriptions to clients' metrics, by name. One without settings does not exist.
    #[must_use]
    pub fn client_metrics(&self) -> &BTreeMap<Arc<str>, Configs> {
        &self.client_metrics
    }

    /// This image with one entity's settings replaced.
    #[must_use]
    pub fn with_configs(&self, change: ConfigChange) -> Self {
        let mut image = self.clone();
        image.set_configs(change);
        image
    }

    /// This image with the settings of several entities replaced.
    #[must_use]
    pub fn with_all_configs(&self, changes: impl IntoIterator<Item = ConfigChange>) -> Self {
        let mut image = self.clone();
        changes.into_iter().for_each(|change| image.set_configs(change));
        image
    }

    fn set_configs(&mut self, change: ConfigChange) {
        let configs = Arc::new(change.configs);
        match change.entity {
            ConfigEntity::Topic(name) if configs.is_empty() => {
                self.topic_configs.remove(&name);
            }
            ConfigEntity::Topic(name) => self.topic_configs.insert(name, configs),
            ConfigEntity::Broker(id) => {
                Arc::make_mut(&mut self.broker_configs).insert(id, configs);
            }
            ConfigEntity::AllBrokers => self.all_brokers_configs = configs,
            ConfigEntity::ClientMetrics(name) if configs.is_empty() => {
                Arc::make_mut(&mut self.client_metrics).remove(&name);
            }
            ConfigEntity::ClientMetrics(name) => {
                Arc::make_mut(&mut self.client_metrics).insert(name, configs);
            }
        }
    }
}

#[cfg(test)]
mod tests;
