//! Keys of our own.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast, OneOf};

pub(super) const AREA: Area = Area {
    title: "Keys of our own",
    introduction: "What Kafka has no key for. Kafka itself would ignore them with a warning.",
    definitions: definitions! {
        /// Threads that serve connections; 0 means one per core. Takes the place of `num.network.threads` and
        /// `num.io.threads`, which count threads of another design.
        "barnabas.reactors": Int = Some("0"), AtLeast(0), Medium, ReadOnly, Honoured, ours;

        /// How much of a produced batch is checked. `full` checks what Kafka checks, records inside compressed batches
        /// included; `headers` takes compressed records as sent after header, length and checksum, for half the work.
        "barnabas.record.validation": String = Some("full"), OneOf(&["full", "headers"]), Medium, ReadOnly, Honoured, ours;

        /// Where the replicas of a new topic go. `kafka` starts at a random broker, shifts the replicas and alternates racks, as
        /// Kafka does; `classic` puts partition i on broker i mod n and its replica j on broker (i + j) mod n, brokers sorted by id.
        "barnabas.replica.placement": String = Some("kafka"), OneOf(&["kafka", "classic"]), Low, ReadOnly, Honoured, ours;

        /// Whom to authenticate to ZooKeeper as, by SASL DIGEST-MD5: what the section `Client` of a JAAS file has between its
        /// braces (`org.apache.zookeeper.server.auth.DigestLoginModule required username="..." password="...";`). Takes the
        /// place of the file that `-Djava.security.auth.login.config` gives to Kafka.
        "barnabas.zookeeper.jaas.config": Password = None, Any, Medium, ReadOnly, Honoured, ours;
    },
};
