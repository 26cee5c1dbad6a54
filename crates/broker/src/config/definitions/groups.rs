//! Consumer groups.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast};

pub(super) const AREA: Area = Area {
    title: "Consumer groups",
    introduction: "Classic consumer groups and their committed offsets.",
    definitions: definitions! {
        /// -
        "group.min.session.timeout.ms": Int = Some("6000"), Any, Medium, ReadOnly, Honoured;

        /// -
        "group.max.session.timeout.ms": Int = Some("1800000"), Any, Medium, ReadOnly, Honoured;

        /// -
        "group.initial.rebalance.delay.ms": Int = Some("3000"), Any, Medium, ReadOnly, Honoured;

        /// -
        "group.max.size": Int = Some("2147483647"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "offset.metadata.max.bytes": Int = Some("4096"), Any, High, ReadOnly, Honoured;

        /// -
        "offsets.load.buffer.size": Int = Some("5242880"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "offsets.topic.replication.factor": Short = Some("3"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "offsets.topic.num.partitions": Int = Some("50"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "offsets.topic.segment.bytes": Int = Some("104857600"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "offsets.topic.compression.codec": Int = Some("0"), Any, High, ReadOnly, Honoured;

        /// -
        "offsets.retention.minutes": Int = Some("10080"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "offsets.retention.check.interval.ms": Long = Some("600000"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "offsets.commit.timeout.ms": Int = Some("5000"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "offsets.commit.required.acks": Short = Some("-1"), Any, High, ReadOnly, Honoured, removed;
    },
};
