//! Consumer groups.

use crate::config::definition::{
    Area,
    Status::{Honoured, Inert},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast};

pub(super) const AREA: Area = Area {
    title: "Consumer groups",
    introduction: "Classic consumer groups and their committed offsets.",
    definitions: definitions! {
        /// Shortest session timeout that a consumer may ask for.
        "group.min.session.timeout.ms": Int = Some("6000"), Any, Medium, ReadOnly, Honoured;

        /// Longest session timeout that a consumer may ask for.
        "group.max.session.timeout.ms": Int = Some("1800000"), Any, Medium, ReadOnly, Honoured;

        /// How long an empty group waits for more members before its first rebalance.
        "group.initial.rebalance.delay.ms": Int = Some("3000"), Any, Medium, ReadOnly, Honoured;

        /// Members that one group may have; further ones are turned away.
        "group.max.size": Int = Some("2147483647"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// Bytes of free text that may go with one committed offset.
        "offset.metadata.max.bytes": Int = Some("4096"), Any, High, ReadOnly, Honoured;

        /// Bytes that are read at a time when a group coordinator loads a partition of `__consumer_offsets`.
        "offsets.load.buffer.size": Int = Some("5242880"), AtLeast(1), High, ReadOnly, Honoured;

        /// Replicas of `__consumer_offsets`. The topic is not created while fewer brokers are alive: a single broker
        /// needs 1 here.
        "offsets.topic.replication.factor": Short = Some("3"), AtLeast(1), High, ReadOnly, Honoured;

        /// Partitions of `__consumer_offsets`, over which groups are spread. Never change it later: groups would be
        /// looked for in the wrong place.
        "offsets.topic.num.partitions": Int = Some("50"), AtLeast(1), High, ReadOnly, Honoured;

        /// Segment size of `__consumer_offsets`; small ones load faster.
        "offsets.topic.segment.bytes": Int = Some("104857600"), AtLeast(1), High, ReadOnly, Honoured;

        /// Codec of the batches in `__consumer_offsets`, as a number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
        "offsets.topic.compression.codec": Int = Some("0"), Any, High, ReadOnly, Honoured;

        /// How long the offsets of a group without members, or of a topic it no longer reads, are kept.
        "offsets.retention.minutes": Int = Some("10080"), AtLeast(1), High, ReadOnly, Honoured;

        /// How often expired offsets are looked for.
        "offsets.retention.check.interval.ms": Long = Some("600000"), AtLeast(1), High, ReadOnly, Honoured;

        /// How long a commit waits for its replicas before it fails.
        "offsets.commit.timeout.ms": Int = Some("5000"), AtLeast(1), High, ReadOnly, Honoured;

        /// Replicas that must have a commit before it is answered. Here it is always all in-sync ones, the default.
        "offsets.commit.required.acks": Short = Some("-1"), Any, High, ReadOnly, Inert, removed;
    },
};
