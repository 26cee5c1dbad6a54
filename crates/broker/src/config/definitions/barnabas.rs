//! Keys of our own.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast, OneOf};

pub(super) const AREA: Area = Area {
    title: "Keys of our own",
    introduction: "What Kafka has no key for. Kafka itself would ignore them with a warning.",
    definitions: definitions! {
        /// How often what is known is compared with ZooKeeper, so that an event of a watch that got lost does no lasting harm: each
        /// broker looks after its own registration, the controller's node and changed settings, the controller after brokers,
        /// topics, states of partitions and what was asked for through nodes. What it finds is logged and taken up. 0: never.
        "barnabas.controller.reconcile.interval.ms": Long = Some("300000"), AtLeast(0), Low, ReadOnly, Honoured, ours;

        /// What stays free of each log directory's volume, in bytes; -1 for 1 GiB or a twentieth of the volume, whichever is
        /// less. Produced records that would take of it are refused with KAFKA_STORAGE_ERROR, and leadership goes to a replica
        /// in sync that has room, while reads, deletion, retention, compaction and the broker's own files go on. Kafka writes
        /// until nothing is free, takes the log directory offline and does not start again.
        "barnabas.disk.reserve.bytes": Long = Some("-1"), AtLeast(-1), Medium, ReadOnly, Honoured, ours;

        /// Whether a broker whose process has ended is replaced at once instead of when its session has expired: the controller
        /// removes its registration if the controller and another broker had connections to it, all of them were closed, and
        /// its port refuses new ones. Acted on only if no unclean election comes of it. Needs
        /// `barnabas.leader.lease.enable`, by which a broker stops serving at once should it be alive all the same: a
        /// configuration with only this one on is refused.
        "barnabas.fast.failure.detection": Boolean = Some("true"), Any, Medium, ReadOnly, Honoured, ours;

        /// Whether a leader stops serving clients once it cannot know any more that it still leads: when for two thirds of the
        /// session's timeout ZooKeeper did not confirm its session, nor all other in-sync replicas fetched from it. `false`
        /// serves on as Kafka does: reads and `acks=1` then go on at a leader that was replaced, until it hears of it.
        "barnabas.leader.lease.enable": Boolean = Some("true"), Any, Medium, ReadOnly, Honoured, ours;

        /// How often everything in the log directories is read and checked, by a thread of its own: batches by Kafka's checksums, and what
        /// those leave out (base offset, length, leader epoch) by files beside the segments. Damage is logged, and never served.
        /// When a segment was checked is known after a restart. 0: never. Kafka checks what it stores when it recovers a log.
        "barnabas.log.scrub.interval.ms": Long = Some("604800000"), AtLeast(0), Low, ReadOnly, Honoured, ours;

        /// How much that thread reads, in bytes per second.
        "barnabas.log.scrub.max.bytes.per.second": Long = Some("10485760"), AtLeast(1), Low, ReadOnly, Honoured, ours;

        /// Threads that serve connections; 0 means one per core. Takes the place of `num.network.threads` and
        /// `num.io.threads`, which count threads of another design.
        "barnabas.reactors": Int = Some("0"), AtLeast(0), Medium, ReadOnly, Honoured, ours;

        /// How much of a produced batch is checked. `full` checks what Kafka checks, records inside compressed batches
        /// included; `headers` takes compressed records as sent after header, length and checksum, for half the work.
        "barnabas.record.validation": String = Some("full"), OneOf(&["full", "headers"]), Medium, ReadOnly, Honoured, ours;

        /// Where the replicas of a new topic go. `kafka` starts at a random broker, shifts the replicas and alternates racks, as
        /// Kafka does; `classic` puts partition i on broker i mod n and its replica j on broker (i + j) mod n, brokers sorted by id.
        "barnabas.replica.placement": String = Some("kafka"), OneOf(&["kafka", "classic"]), Low, ReadOnly, Honoured, ours;

        /// For how long after an election the first batch of an idempotent producer that a new leader does not know has to be
        /// the producer's first in the partition; another is answered NOT_LEADER_OR_FOLLOWER, whereupon clients send it again, after
        /// what comes before it. Clients do not wait for an answer from the old leader before they send on to the new one, and
        /// librdkafka takes what it sent first for stored as soon as what follows is. Kafka takes any, which is what 0 means. As long
        /// as clients wait for answers.
        "barnabas.unknown.producer.wait.ms": Long = Some("60000"), AtLeast(0), Medium, ReadOnly, Honoured, ours;

        /// How long the controller waits for the rest of a partition's in-sync replicas, if those that are there came back after a
        /// power failure and may lack their last records. Whoever returns in this time and was stopped cleanly leads; if nobody
        /// does, whoever has the longest log. Kafka elects at once. 5 minutes are what KIP-966 waits.
        "barnabas.unclean.restart.wait.ms": Long = Some("300000"), AtLeast(0), Medium, ReadOnly, Honoured, ours;

        /// Whom to authenticate to ZooKeeper as, by SASL DIGEST-MD5: what the section `Client` of a JAAS file has between its
        /// braces (`org.apache.zookeeper.server.auth.DigestLoginModule required username="..." password="...";`). Takes the
        /// place of the file that `-Djava.security.auth.login.config` gives to Kafka.
        "barnabas.zookeeper.jaas.config": Password = None, Any, Medium, ReadOnly, Honoured, ours;
    },
};
