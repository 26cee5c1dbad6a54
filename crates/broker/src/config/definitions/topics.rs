//! Topics.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast};

pub(super) const AREA: Area = Area {
    title: "Topics",
    introduction: "How topics come and go.",
    definitions: definitions! {
        /// Whether topics can be deleted; if not, requests to do so are refused.
        "delete.topic.enable": Boolean = Some("true"), Any, High, ReadOnly, Honoured;

        /// Partitions that one DescribeTopicPartitions answer may list; a cursor leads to the rest.
        "max.request.partition.size.limit": Int = Some("2000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// Replicas of a topic that is created without saying how many.
        "default.replication.factor": Int = Some("1"), Any, Medium, ReadOnly, Honoured;

        /// Partitions of a topic that is created without saying how many.
        "num.partitions": Int = Some("1"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// Whether asking for a topic that does not exist creates it.
        "auto.create.topics.enable": Boolean = Some("true"), Any, High, ReadOnly, Honoured;
    },
};
