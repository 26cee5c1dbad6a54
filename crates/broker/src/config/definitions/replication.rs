//! Replication and leadership.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast, Release};

pub(super) const AREA: Area = Area {
    title: "Replication and leadership",
    introduction: "Copies on other brokers, and who leads.",
    definitions: definitions! {
        /// -
        "controller.socket.timeout.ms": Int = Some("30000"), Any, Medium, ReadOnly, Honoured;

        /// -
        "replica.lag.time.max.ms": Long = Some("30000"), Any, High, ReadOnly, Honoured;

        /// -
        "replica.socket.timeout.ms": Int = Some("30000"), Any, High, ReadOnly, Honoured;

        /// -
        "replica.socket.receive.buffer.bytes": Int = Some("65536"), Any, High, ReadOnly, Honoured;

        /// -
        "replica.fetch.max.bytes": Int = Some("1048576"), AtLeast(0), Medium, ReadOnly, Honoured;

        /// -
        "replica.fetch.wait.max.ms": Int = Some("500"), Any, High, ReadOnly, Honoured;

        /// -
        "replica.fetch.backoff.ms": Int = Some("1000"), AtLeast(0), Medium, ReadOnly, Honoured;

        /// -
        "replica.fetch.min.bytes": Int = Some("1"), Any, High, ReadOnly, Honoured;

        /// -
        "replica.fetch.response.max.bytes": Int = Some("10485760"), AtLeast(0), Medium, ReadOnly, Honoured;

        /// -
        "num.replica.fetchers": Int = Some("1"), Any, High, ClusterWide, Honoured;

        /// -
        "replica.high.watermark.checkpoint.interval.ms": Long = Some("5000"), Any, High, ReadOnly, Honoured;

        /// -
        "auto.leader.rebalance.enable": Boolean = Some("true"), Any, High, ReadOnly, Honoured;

        /// -
        "leader.imbalance.per.broker.percentage": Int = Some("10"), Any, High, ReadOnly, Honoured, removed;

        /// -
        "leader.imbalance.check.interval.seconds": Long = Some("300"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "unclean.leader.election.enable": Boolean = Some("false"), Any, High, ClusterWide, Honoured;

        /// -
        "inter.broker.protocol.version": String = Some("3.9-IV0"), Release, Medium, ReadOnly, Honoured, removed;

        /// -
        "replica.selector.class": String = None, Any, Medium, ReadOnly, Honoured;
    },
};
