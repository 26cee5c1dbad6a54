//! How topics come and go.

use crate::config::values::Values;

/// How topics come and go.
#[derive(Clone, Debug, PartialEq)]
pub struct TopicSettings {
    /// `num.partitions`
    pub num_partitions: i32,
    /// `default.replication.factor`
    pub default_replication_factor: i16,
    /// `auto.create.topics.enable`
    pub auto_create: bool,
    /// `delete.topic.enable`
    pub deletion: bool,
    /// `max.request.partition.size.limit`: partitions in one `DescribeTopicPartitions` answer.
    pub describe_partitions_limit: i32,
    /// `barnabas.replica.placement`
    pub placement: ReplicaPlacement,
}

/// Where the first replica of a new topic goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaPlacement {
    /// Kafka's: round robin from a random broker.
    Random,
    /// Round robin from the broker with the fewest replicas.
    Balanced,
}

impl TopicSettings {
    pub(in crate::config) fn read(values: &Values) -> Self {
        Self {
            num_partitions: values.i32("num.partitions"),
            default_replication_factor: values.i16("default.replication.factor"),
            auto_create: values.boolean("auto.create.topics.enable"),
            deletion: values.boolean("delete.topic.enable"),
            describe_partitions_limit: values.i32("max.request.partition.size.limit"),
            placement: match values.text("barnabas.replica.placement").as_deref() {
                Some("balanced") => ReplicaPlacement::Balanced,
                _ => ReplicaPlacement::Random,
            },
        }
    }
}
