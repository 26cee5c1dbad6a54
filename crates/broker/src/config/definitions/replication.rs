//! Replication and leadership.

use crate::config::definition::{
    Area,
    Status::{Honoured, Inert},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast, Release};

pub(super) const AREA: Area = Area {
    title: "Replication and leadership",
    introduction: "Copies on other brokers, and who leads.",
    definitions: definitions! {
        /// How long the controller waits for a broker's answer.
        "controller.socket.timeout.ms": Int = Some("30000"), Any, Medium, ReadOnly, Honoured;

        /// How long a follower may go without having caught up before it leaves the in-sync set.
        "replica.lag.time.max.ms": Long = Some("30000"), Any, High, ReadOnly, Honoured;

        /// How long a follower waits for an answer to its fetch.
        "replica.socket.timeout.ms": Int = Some("30000"), Any, High, ReadOnly, Honoured;

        /// Receive buffer of a follower's connection to its leader, in bytes.
        "replica.socket.receive.buffer.bytes": Int = Some("65536"), Any, High, ReadOnly, Honoured;

        /// Bytes that a follower asks for per partition; a larger batch is still fetched whole.
        "replica.fetch.max.bytes": Int = Some("1048576"), AtLeast(0), Medium, ReadOnly, Honoured;

        /// How long a leader may hold a follower's fetch that has nothing to answer.
        "replica.fetch.wait.max.ms": Int = Some("500"), Any, High, ReadOnly, Honoured;

        /// Longest pause of a follower after a fetch of a partition failed; the first pauses are shorter.
        "replica.fetch.backoff.ms": Int = Some("1000"), AtLeast(0), Medium, ReadOnly, Honoured;

        /// Bytes that a follower waits for, within `replica.fetch.wait.max.ms`.
        "replica.fetch.min.bytes": Int = Some("1"), Any, High, ReadOnly, Honoured;

        /// Bytes that a follower asks for in one response over all partitions.
        "replica.fetch.response.max.bytes": Int = Some("10485760"), AtLeast(0), Medium, ReadOnly, Honoured;

        /// Connections over which a broker follows each other broker. A change holds for partitions that change their leader.
        "num.replica.fetchers": Int = Some("1"), Any, High, ClusterWide, Honoured;

        /// How often the high watermarks are written to disk.
        "replica.high.watermark.checkpoint.interval.ms": Long = Some("5000"), Any, High, ReadOnly, Honoured;

        /// Whether the controller gives leadership back to the preferred replicas by itself. With one broker they always
        /// lead.
        "auto.leader.rebalance.enable": Boolean = Some("true"), Any, High, ReadOnly, Honoured;

        /// Share of a broker's partitions that may be led elsewhere before leadership is given back.
        "leader.imbalance.per.broker.percentage": Int = Some("10"), Any, High, ReadOnly, Honoured, removed;

        /// How often the controller looks for such an imbalance.
        "leader.imbalance.check.interval.seconds": Long = Some("300"), AtLeast(1), High, ReadOnly, Honoured;

        /// Whether a replica that may lack committed records can lead when no other is left: availability for data.
        "unclean.leader.election.enable": Boolean = Some("false"), Any, High, ClusterWide, Honoured;

        /// Version of Kafka whose formats the brokers speak among themselves during an upgrade.
        "inter.broker.protocol.version": String = Some("3.9-IV0"), Release, Medium, ReadOnly, Inert, removed;

        /// Sends consumers to the nearest replica: `RackAwareReplicaSelector`, with or without its Java package. With any other
        /// class they read from the leader.
        "replica.selector.class": String = None, Any, Medium, ReadOnly, Honoured;
    },
};
