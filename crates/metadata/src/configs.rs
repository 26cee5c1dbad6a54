//! Dynamic settings: what was set by `AlterConfigs`, not what is in effect.

use model::{BrokerId, TopicName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The overrides of one entity, by Kafka's config name. Values are as they were set.
pub type Configs = Arc<BTreeMap<String, String>>;

/// Whose settings.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigEntity {
    /// One topic's.
    Topic(TopicName),
    /// One broker's.
    Broker(BrokerId),
    /// Those of every broker that has none of its own (`<default>` in the store, "" on the wire).
    AllBrokers,
    /// Those of a subscription to clients' metrics (KIP-714), by its name.
    ClientMetrics(Arc<str>),
}

/// An entity's settings after a change: they replace the earlier ones whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// Whose.
    pub entity: ConfigEntity,
    /// All of its overrides; empty if none is left.
    pub configs: BTreeMap<String, String>,
}
