//! KRaft.

use crate::config::definition::{
    Area,
    Status::{Harmless, Inert, Refused},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast, ListOf, NonEmptyList};
use crate::config::refusal::Refusal::KRaft;

pub(super) const AREA: Area = Area {
    title: "KRaft",
    introduction: "The metadata quorum of Kafka's other mode, which this broker does not take part in.",
    definitions: definitions! {
        /// Listeners that open before a KRaft authorizer is ready.
        "early.start.listeners": String = None, Any, High, ReadOnly, Inert;

        /// Offers versions of requests that are still being developed.
        "unstable.api.versions.enable": Boolean = Some("false"), Any, High, ReadOnly, Harmless, internal;

        /// Offers versions of features that are still being developed.
        "unstable.feature.versions.enable": Boolean = Some("false"), Any, High, ReadOnly, Harmless, internal;

        /// Bytes of metadata after which a snapshot is made.
        "metadata.log.max.record.bytes.between.snapshots": Long = Some("20971520"), AtLeast(1), High, ReadOnly, Inert;

        /// Time after which a metadata snapshot is made.
        "metadata.log.max.snapshot.interval.ms": Long = Some("3600000"), AtLeast(0), High, ReadOnly, Inert;

        /// Makes the process a KRaft broker, controller, or both.
        "process.roles": List = Some(""), ListOf(&["broker", "controller"]), High, ReadOnly, Refused(KRaft);

        /// How long a starting broker tries to register with a KRaft controller.
        "initial.broker.registration.timeout.ms": Int = Some("60000"), Any, Medium, ReadOnly, Inert;

        /// How often a broker reports to a KRaft controller.
        "broker.heartbeat.interval.ms": Int = Some("2000"), Any, Medium, ReadOnly, Inert;

        /// Silence after which a KRaft controller fences a broker.
        "broker.session.timeout.ms": Int = Some("9000"), Any, Medium, ReadOnly, Inert;

        /// Listeners of the KRaft controllers.
        "controller.listener.names": String = None, Any, High, ReadOnly, Refused(KRaft);

        /// Directory of KRaft's metadata log.
        "metadata.log.dir": String = None, Any, High, ReadOnly, Harmless;

        /// Segment size of KRaft's metadata log.
        "metadata.log.segment.bytes": Int = Some("1073741824"), AtLeast(12), High, ReadOnly, Inert;

        /// Smallest such size, for tests.
        "metadata.log.segment.min.bytes": Int = Some("8388608"), AtLeast(12), High, ReadOnly, Inert, removed, internal;

        /// Age at which a segment of KRaft's metadata log is closed.
        "metadata.log.segment.ms": Long = Some("604800000"), Any, High, ReadOnly, Inert;

        /// Size of metadata log and snapshots beyond which old ones are deleted.
        "metadata.max.retention.bytes": Long = Some("104857600"), Any, High, ReadOnly, Inert;

        /// Age of metadata log and snapshots beyond which they are deleted.
        "metadata.max.retention.ms": Long = Some("604800000"), Any, High, ReadOnly, Inert;

        /// How often an idle controller writes an empty record.
        "metadata.max.idle.interval.ms": Int = Some("500"), AtLeast(0), Low, ReadOnly, Inert;

        /// How long a KRaft server may take to start.
        "server.max.startup.time.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ReadOnly, Inert, internal;

        /// Remembers replicas that left the in-sync set with all records (KIP-966).
        "eligible.leader.replicas.enable": Boolean = Some("false"), Any, High, ReadOnly, Harmless, removed;

        /// How often a KRaft controller looks for partitions that only an unclean election can revive.
        "unclean.leader.election.interval.ms": Long = Some("300000"), AtLeast(1), Medium, ReadOnly, Inert, internal;

        /// The KRaft controllers, as `id@host:port` with commas between.
        "controller.quorum.voters": List = Some(""), NonEmptyList, High, ReadOnly, Refused(KRaft);

        /// Addresses at which the KRaft quorum can be found.
        "controller.quorum.bootstrap.servers": List = Some(""), NonEmptyList, High, ReadOnly, Refused(KRaft);

        /// How long a candidate waits for votes.
        "controller.quorum.election.timeout.ms": Int = Some("1000"), Any, High, ReadOnly, Inert;

        /// Silence of the quorum's leader after which a new one is elected.
        "controller.quorum.fetch.timeout.ms": Int = Some("2000"), Any, High, ReadOnly, Inert;

        /// Longest random pause between elections.
        "controller.quorum.election.backoff.max.ms": Int = Some("1000"), Any, High, ReadOnly, Inert;

        /// How long the quorum's leader gathers records before it writes.
        "controller.quorum.append.linger.ms": Int = Some("25"), Any, Medium, ReadOnly, Inert;

        /// How long a request within the quorum may take.
        "controller.quorum.request.timeout.ms": Int = Some("2000"), Any, Medium, ReadOnly, Inert;

        /// Pause before a request within the quorum is repeated.
        "controller.quorum.retry.backoff.ms": Int = Some("20"), Any, Low, ReadOnly, Inert;

        /// How often controller event times are summed up in the log.
        "controller.performance.sample.period.ms": Long = Some("60000"), AtLeast(100), Medium, ReadOnly, Inert, newer, internal;

        /// Duration above which a controller event is always logged.
        "controller.performance.always.log.threshold.ms": Long = Some("2000"), AtLeast(0), Medium, ReadOnly, Inert, newer, internal;

        /// Segment size of KRaft's metadata log, for tests.
        "internal.metadata.log.segment.bytes": Int = None, Any, Low, ReadOnly, Inert, newer, internal;

        /// Largest batch of metadata records.
        "internal.metadata.max.batch.size.in.bytes": Int = Some("8388608"), Any, Low, ReadOnly, Inert, newer, internal;

        /// How long deleted metadata files stay.
        "internal.metadata.delete.delay.millis": Long = Some("60000"), Any, Low, ReadOnly, Inert, newer, internal;

        /// Lets a controller join the quorum by itself.
        "controller.quorum.auto.join.enable": Boolean = Some("false"), Any, Low, ReadOnly, Harmless, newer;

        /// Bytes of a metadata snapshot per fetch within the quorum.
        "controller.quorum.fetch.snapshot.max.bytes": Int = Some("1048576"), AtLeast(1), Low, ReadOnly, Inert, newer;

        /// Bytes of metadata records per fetch within the quorum.
        "controller.quorum.fetch.max.bytes": Int = Some("1048576"), AtLeast(1), Low, ReadOnly, Inert, newer;
    },
};
