//! Producer ids and transactions.

use crate::config::definition::{
    Area,
    Status::{Harmless, Honoured, Inert},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast};

pub(super) const AREA: Area = Area {
    title: "Producer ids and transactions",
    introduction: "What the broker remembers about producers.",
    definitions: definitions! {
        /// In-sync replicas that a write to `__transaction_state` needs. Transactions are not served in this version.
        "transaction.state.log.min.isr": Int = Some("2"), AtLeast(1), High, ReadOnly, Inert;

        /// Bytes read at a time when a partition of `__transaction_state` is loaded.
        "transaction.state.log.load.buffer.size": Int = Some("5242880"), AtLeast(1), High, ReadOnly, Inert;

        /// Replicas of `__transaction_state`.
        "transaction.state.log.replication.factor": Short = Some("3"), AtLeast(1), High, ReadOnly, Inert;

        /// Partitions of `__transaction_state`; never to be changed once it exists.
        "transaction.state.log.num.partitions": Int = Some("50"), AtLeast(1), High, ReadOnly, Inert;

        /// Segment size of `__transaction_state`.
        "transaction.state.log.segment.bytes": Int = Some("104857600"), AtLeast(1), High, ReadOnly, Inert;

        /// Whether a transactional write is checked against the coordinator's list of partitions (KIP-890).
        "transaction.partition.verification.enable": Boolean = Some("true"), Any, Low, ClusterWide, Inert;

        /// How long a partition remembers a producer that is silent; after that its duplicates are no longer recognised.
        "producer.id.expiration.ms": Int = Some("86400000"), AtLeast(1), Low, ClusterWide, Honoured;

        /// How often forgotten producers are cleared out.
        "producer.id.expiration.check.interval.ms": Int = Some("600000"), AtLeast(1), Low, ReadOnly, Honoured, internal;

        /// How long an unused transactional id is kept.
        "transactional.id.expiration.ms": Int = Some("604800000"), AtLeast(1), High, ReadOnly, Inert;

        /// Longest transaction timeout that a producer may ask for.
        "transaction.max.timeout.ms": Int = Some("900000"), AtLeast(1), High, ReadOnly, Inert;

        /// How often transactions past their timeout are looked for.
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": Int = Some("10000"), AtLeast(1), Low, ReadOnly, Inert;

        /// How often expired transactional ids are looked for.
        "transaction.remove.expired.transaction.cleanup.interval.ms": Int = Some("3600000"), AtLeast(1), Low, ReadOnly, Inert;

        /// Lets external systems take part in two-phase commit (KIP-939).
        "transaction.two.phase.commit.enable": Boolean = Some("false"), Any, Low, ReadOnly, Harmless, newer;

        /// How long the broker keeps asking before it hands the retry to the client.
        "add.partitions.to.txn.retry.backoff.max.ms": Int = Some("100"), AtLeast(0), High, ReadOnly, Inert, newer;

        /// First pause before the broker asks the coordinator again to add a partition to a transaction.
        "add.partitions.to.txn.retry.backoff.ms": Int = Some("20"), AtLeast(1), High, ReadOnly, Inert, newer;
    },
};
