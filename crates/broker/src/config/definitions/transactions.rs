//! Producer ids and transactions.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast};

pub(super) const AREA: Area = Area {
    title: "Producer ids and transactions",
    introduction: "What the broker remembers about producers.",
    definitions: definitions! {
        /// -
        "transaction.state.log.min.isr": Int = Some("2"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "transaction.state.log.load.buffer.size": Int = Some("5242880"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "transaction.state.log.replication.factor": Short = Some("3"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "transaction.state.log.num.partitions": Int = Some("50"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "transaction.state.log.segment.bytes": Int = Some("104857600"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "transaction.partition.verification.enable": Boolean = Some("true"), Any, Low, ClusterWide, Honoured;

        /// -
        "producer.id.expiration.ms": Int = Some("86400000"), AtLeast(1), Low, ClusterWide, Honoured;

        /// -
        "producer.id.expiration.check.interval.ms": Int = Some("600000"), AtLeast(1), Low, ReadOnly, Honoured, internal;

        /// -
        "transactional.id.expiration.ms": Int = Some("604800000"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "transaction.max.timeout.ms": Int = Some("900000"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": Int = Some("10000"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "transaction.remove.expired.transaction.cleanup.interval.ms": Int = Some("3600000"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "transaction.two.phase.commit.enable": Boolean = Some("false"), Any, Low, ReadOnly, Honoured, newer;

        /// -
        "add.partitions.to.txn.retry.backoff.max.ms": Int = Some("100"), AtLeast(0), High, ReadOnly, Honoured, newer;

        /// -
        "add.partitions.to.txn.retry.backoff.ms": Int = Some("20"), AtLeast(1), High, ReadOnly, Honoured, newer;
    },
};
