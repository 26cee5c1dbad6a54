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

/// Where the replicas of a new topic go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaPlacement {
    /// From a random broker on, shifted, racks alternated.
    Kafka,
    /// By the partition's number alone.
    Classic,
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
                Some("classic") => ReplicaPlacement::Classic,
                _ => ReplicaPlacement::Kafka,
            },
        }
    }
}
