//! Configuration: from `server.properties`, the command line and dynamic updates to typed settings.
//!
//! One [`Definition`] per key feeds parsing, `DescribeConfigs` and the manual. It fails closed: a key of Kafka's whose
//! ignoring could weaken security or lose data stops the start ([`Status::Refused`]), and every problem is reported at
//! once. Names, types, defaults and words are those of Kafka 3.9 (`kafka.server.KafkaConfig`, KIP-226).
//!
//! Non-obvious:
//! - A file without `broker.id` asks for a generated id, and `node.id` is the same key under another name.
//! - With a file Kafka's defaults hold, `offsets.topic.replication.factor=3` among them: one broker alone then answers
//!   group requests with COORDINATOR_NOT_AVAILABLE, as Kafka does. Without a file it is 1.
//! - A dynamic value hides the lower layers' synonyms too: see [`layers`](self).

#[cfg(test)]
mod tests;

mod alter;
mod broker_config;
mod check;
mod client_metrics;
mod definition;
mod definitions;
mod describe;
mod error;
mod java_pattern;
mod layers;
mod listener;
mod manual;
mod properties;
mod providers;
mod range;
mod refusal;
mod rules;
mod settings;
mod topic;
mod value;
mod values;

pub use alter::{
    AlterError, validate_cluster_configs, validate_dynamic_broker_configs, validate_topic_configs,
};
pub use broker_config::{BrokerConfig, Loaded};
pub use client_metrics::{describe_client_metrics, validate_client_metrics};
pub use definition::{Area, Definition, Importance, Kind, Origin, Scope, Status};
pub use definitions::{areas, broker_definition, topic_definition};
pub use describe::{
    ConfigSource, ConfigSynonym, DescribedConfig, describe_broker, describe_cluster_defaults,
    describe_topic,
};
pub use error::{ConfigError, EXIT_CODE, Problem, Warning};
pub use layers::Properties;
pub use listener::{Advertised, Listener, Listeners, SecurityProtocol};
pub use manual::manual;
pub use properties::parse_override;
pub use range::Range;
pub use refusal::Refusal;
pub use rules::DefinedRules;
pub use settings::ZooKeeperSettings;
pub use settings::{
    CleanerSettings, ControllerSettings, GroupSettings, LogSettings, NetworkSettings, NodeSettings,
    OffsetsSettings, RecordValidation, ReplicaPlacement, ReplicationSettings, ScrubSettings,
    ShutdownSettings, TopicSettings, TransactionSettings,
};
pub use topic::{CompressionSettings, CompressionType, TimestampType, TopicConfig, broker_key_of};
pub use value::Value;
