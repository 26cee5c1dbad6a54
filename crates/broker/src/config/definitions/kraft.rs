//! KRaft.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast, ListOf, NonEmptyList};

pub(super) const AREA: Area = Area {
    title: "KRaft",
    introduction: "The metadata quorum of Kafka's other mode, which this broker does not take part in.",
    definitions: definitions! {
        /// -
        "early.start.listeners": String = None, Any, High, ReadOnly, Honoured;

        /// -
        "unstable.api.versions.enable": Boolean = Some("false"), Any, High, ReadOnly, Honoured, internal;

        /// -
        "unstable.feature.versions.enable": Boolean = Some("false"), Any, High, ReadOnly, Honoured, internal;

        /// -
        "metadata.log.max.record.bytes.between.snapshots": Long = Some("20971520"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "metadata.log.max.snapshot.interval.ms": Long = Some("3600000"), AtLeast(0), High, ReadOnly, Honoured;

        /// -
        "process.roles": List = Some(""), ListOf(&["broker", "controller"]), High, ReadOnly, Honoured;

        /// -
        "initial.broker.registration.timeout.ms": Int = Some("60000"), Any, Medium, ReadOnly, Honoured;

        /// -
        "broker.heartbeat.interval.ms": Int = Some("2000"), Any, Medium, ReadOnly, Honoured;

        /// -
        "broker.session.timeout.ms": Int = Some("9000"), Any, Medium, ReadOnly, Honoured;

        /// -
        "controller.listener.names": String = None, Any, High, ReadOnly, Honoured;

        /// -
        "metadata.log.dir": String = None, Any, High, ReadOnly, Honoured;

        /// -
        "metadata.log.segment.bytes": Int = Some("1073741824"), AtLeast(12), High, ReadOnly, Honoured;

        /// -
        "metadata.log.segment.min.bytes": Int = Some("8388608"), AtLeast(12), High, ReadOnly, Honoured, removed, internal;

        /// -
        "metadata.log.segment.ms": Long = Some("604800000"), Any, High, ReadOnly, Honoured;

        /// -
        "metadata.max.retention.bytes": Long = Some("104857600"), Any, High, ReadOnly, Honoured;

        /// -
        "metadata.max.retention.ms": Long = Some("604800000"), Any, High, ReadOnly, Honoured;

        /// -
        "metadata.max.idle.interval.ms": Int = Some("500"), AtLeast(0), Low, ReadOnly, Honoured;

        /// -
        "server.max.startup.time.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ReadOnly, Honoured, internal;

        /// -
        "eligible.leader.replicas.enable": Boolean = Some("false"), Any, High, ReadOnly, Honoured, removed;

        /// -
        "unclean.leader.election.interval.ms": Long = Some("300000"), AtLeast(1), Medium, ReadOnly, Honoured, internal;

        /// -
        "controller.quorum.voters": List = Some(""), NonEmptyList, High, ReadOnly, Honoured;

        /// -
        "controller.quorum.bootstrap.servers": List = Some(""), NonEmptyList, High, ReadOnly, Honoured;

        /// -
        "controller.quorum.election.timeout.ms": Int = Some("1000"), Any, High, ReadOnly, Honoured;

        /// -
        "controller.quorum.fetch.timeout.ms": Int = Some("2000"), Any, High, ReadOnly, Honoured;

        /// -
        "controller.quorum.election.backoff.max.ms": Int = Some("1000"), Any, High, ReadOnly, Honoured;

        /// -
        "controller.quorum.append.linger.ms": Int = Some("25"), Any, Medium, ReadOnly, Honoured;

        /// -
        "controller.quorum.request.timeout.ms": Int = Some("2000"), Any, Medium, ReadOnly, Honoured;

        /// -
        "controller.quorum.retry.backoff.ms": Int = Some("20"), Any, Low, ReadOnly, Honoured;

        /// -
        "controller.performance.sample.period.ms": Long = Some("60000"), AtLeast(100), Medium, ReadOnly, Honoured, newer, internal;

        /// -
        "controller.performance.always.log.threshold.ms": Long = Some("2000"), AtLeast(0), Medium, ReadOnly, Honoured, newer, internal;

        /// -
        "internal.metadata.log.segment.bytes": Int = None, Any, Low, ReadOnly, Honoured, newer, internal;

        /// -
        "internal.metadata.max.batch.size.in.bytes": Int = Some("8388608"), Any, Low, ReadOnly, Honoured, newer, internal;

        /// -
        "internal.metadata.delete.delay.millis": Long = Some("60000"), Any, Low, ReadOnly, Honoured, newer, internal;

        /// -
        "controller.quorum.auto.join.enable": Boolean = Some("false"), Any, Low, ReadOnly, Honoured, newer;

        /// -
        "controller.quorum.fetch.snapshot.max.bytes": Int = Some("1048576"), AtLeast(1), Low, ReadOnly, Honoured, newer;

        /// -
        "controller.quorum.fetch.max.bytes": Int = Some("1048576"), AtLeast(1), Low, ReadOnly, Honoured, newer;
    },
};
