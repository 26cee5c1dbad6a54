//! Newer group protocols.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast, Between, ListOf, OneOfAnyCase};

pub(super) const AREA: Area = Area {
    title: "Newer group protocols",
    introduction: "Consumer groups of KIP-848, share groups and streams groups; none is served in this version.",
    definitions: definitions! {
        /// -
        "group.coordinator.rebalance.protocols": List = Some("classic"), ListOf(&["consumer", "classic", "share", "unknown"]), Medium, ReadOnly, Honoured;

        /// -
        "group.coordinator.threads": Int = Some("1"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.coordinator.append.linger.ms": Int = Some("10"), AtLeast(0), Medium, ReadOnly, Honoured;

        /// -
        "group.coordinator.new.enable": Boolean = Some("false"), Any, Medium, ReadOnly, Honoured, removed, internal;

        /// -
        "group.consumer.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.consumer.min.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.consumer.max.session.timeout.ms": Int = Some("60000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.consumer.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.consumer.min.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.consumer.max.heartbeat.interval.ms": Int = Some("15000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.consumer.max.size": Int = Some("2147483647"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.consumer.assignors": List = Some("org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor"), Any, Medium, ReadOnly, Honoured;

        /// -
        "group.consumer.migration.policy": String = Some("disabled"), OneOfAnyCase(&["DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"]), Medium, ReadOnly, Honoured, internal;

        /// -
        "group.share.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.share.min.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.share.max.session.timeout.ms": Int = Some("60000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.share.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.share.min.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.share.max.heartbeat.interval.ms": Int = Some("15000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "group.share.max.size": Short = Some("200"), Between(10, 1_000), Medium, ReadOnly, Honoured;

        /// -
        "group.share.enable": Boolean = Some("false"), Any, Medium, ReadOnly, Honoured, removed, internal;

        /// -
        "group.share.delivery.count.limit": Int = Some("5"), Between(2, 10), Medium, ReadOnly, Honoured;

        /// -
        "group.share.record.lock.duration.ms": Int = Some("30000"), Between(1_000, 60_000), Medium, ReadOnly, Honoured;

        /// -
        "group.share.min.record.lock.duration.ms": Int = Some("15000"), Between(1_000, 30_000), Medium, ReadOnly, Honoured;

        /// -
        "group.share.max.record.lock.duration.ms": Int = Some("60000"), Between(30_000, 3_600_000), Medium, ReadOnly, Honoured;

        /// -
        "group.share.max.groups": Short = Some("10"), Between(1, 100), Medium, ReadOnly, Honoured, removed;

        /// -
        "group.share.partition.max.record.locks": Int = Some("200"), Between(100, 10_000), Medium, ReadOnly, Honoured;

        /// -
        "group.coordinator.background.threads": Int = Some("2"), AtLeast(1), High, ReadOnly, Honoured, newer;

        /// -
        "group.coordinator.cached.buffer.max.bytes": Int = Some("1048588"), AtLeast(524_288), Medium, ClusterWide, Honoured, newer;

        /// -
        "group.consumer.assignment.interval.ms": Int = Some("1000"), AtLeast(0), Medium, ClusterWide, Honoured, newer;

        /// -
        "group.consumer.min.assignment.interval.ms": Int = Some("0"), AtLeast(0), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.consumer.max.assignment.interval.ms": Int = Some("15000"), AtLeast(0), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.consumer.assignor.offload.enable": Boolean = Some("true"), Any, Medium, ClusterWide, Honoured, newer, internal;

        /// -
        "group.consumer.regex.refresh.interval.ms": Int = Some("600000"), AtLeast(10_000), Medium, ReadOnly, Honoured, newer, internal;

        /// -
        "group.share.assignors": List = Some("simple"), Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "group.share.assignment.interval.ms": Int = Some("1000"), AtLeast(0), Medium, ClusterWide, Honoured, newer;

        /// -
        "group.share.min.assignment.interval.ms": Int = Some("0"), AtLeast(0), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.share.max.assignment.interval.ms": Int = Some("15000"), AtLeast(0), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.share.assignor.offload.enable": Boolean = Some("true"), Any, Medium, ClusterWide, Honoured, newer, internal;

        /// -
        "group.share.initialize.retry.interval.ms": Int = Some("30000"), AtLeast(1), Low, ReadOnly, Honoured, newer, internal;

        /// -
        "errors.deadletterqueue.auto.create.topics.enable": Boolean = Some("false"), Any, Medium, ClusterWide, Honoured, newer;

        /// -
        "errors.deadletterqueue.topic.name.prefix": String = Some("dlq."), Any, Medium, ClusterWide, Honoured, newer;

        /// -
        "group.streams.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.min.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.max.session.timeout.ms": Int = Some("60000"), AtLeast(1), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.min.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.max.heartbeat.interval.ms": Int = Some("15000"), AtLeast(1), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.max.size": Int = Some("2147483647"), AtLeast(1), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.num.standby.replicas": Int = Some("0"), AtLeast(0), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.max.standby.replicas": Int = Some("2"), AtLeast(0), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.initial.rebalance.delay.ms": Int = Some("3000"), AtLeast(0), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.assignment.interval.ms": Int = Some("1000"), AtLeast(0), Medium, ClusterWide, Honoured, newer;

        /// -
        "group.streams.min.assignment.interval.ms": Int = Some("0"), AtLeast(0), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.max.assignment.interval.ms": Int = Some("15000"), AtLeast(0), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.assignors": List = Some("sticky"), Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.assignor.offload.enable": Boolean = Some("true"), Any, Medium, ClusterWide, Honoured, newer, internal;

        /// -
        "group.streams.task.offset.interval.ms": Int = Some("60000"), AtLeast(1), Medium, ReadOnly, Honoured, newer, internal;

        /// -
        "group.streams.min.task.offset.interval.ms": Int = Some("15000"), AtLeast(1), Medium, ReadOnly, Honoured, newer, internal;

        /// -
        "group.streams.num.warmup.replicas": Int = Some("2"), AtLeast(0), Medium, ReadOnly, Honoured, newer, internal;

        /// -
        "group.streams.max.warmup.replicas": Int = Some("20"), AtLeast(0), Medium, ReadOnly, Honoured, newer, internal;

        /// -
        "group.streams.rack.aware.assignment.tags": List = Some(""), Any, Low, ReadOnly, Honoured, newer;

        /// -
        "group.streams.topology.description.plugin.class": Class = None, Any, Medium, ReadOnly, Honoured, newer;

        /// -
        "group.streams.acceptable.recovery.lag": Long = Some("10000"), AtLeast(0), Medium, ReadOnly, Honoured, newer, internal;

        /// -
        "group.share.max.delivery.count.limit": Int = Some("10"), Between(5, 25), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.share.min.delivery.count.limit": Int = Some("2"), Between(2, 5), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.share.max.partition.max.record.locks": Int = Some("4000"), Between(2_000, 10_000), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.share.min.partition.max.record.locks": Int = Some("100"), Between(100, 2_000), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.share.max.share.sessions": Int = Some("2000"), AtLeast(1), Medium, ReadOnly, Honoured, newer;

        /// -
        "group.share.persister.class.name": String = Some("org.apache.kafka.server.share.persister.DefaultStatePersister"), Any, Medium, ReadOnly, Honoured, newer, internal;

        /// -
        "group.share.dlq.manager.class.name": String = Some("org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager"), Any, Medium, ReadOnly, Honoured, newer, internal;

        /// -
        "share.coordinator.state.topic.num.partitions": Int = Some("50"), AtLeast(1), High, ReadOnly, Honoured, newer;

        /// -
        "share.coordinator.state.topic.replication.factor": Short = Some("3"), AtLeast(1), High, ReadOnly, Honoured, newer;

        /// -
        "share.coordinator.state.topic.min.isr": Short = Some("2"), AtLeast(1), High, ReadOnly, Honoured, newer;

        /// -
        "share.coordinator.state.topic.segment.bytes": Int = Some("104857600"), AtLeast(1), High, ReadOnly, Honoured, newer;

        /// -
        "share.coordinator.threads": Int = Some("1"), AtLeast(1), Medium, ReadOnly, Honoured, newer;

        /// -
        "share.coordinator.snapshot.update.records.per.snapshot": Int = Some("500"), Between(0, 500), Medium, ReadOnly, Honoured, newer;

        /// -
        "share.coordinator.load.buffer.size": Int = Some("5242880"), AtLeast(1), High, ReadOnly, Honoured, newer;

        /// -
        "share.coordinator.state.topic.compression.codec": Int = Some("0"), Any, High, ReadOnly, Honoured, newer;

        /// -
        "share.coordinator.append.linger.ms": Int = Some("-1"), AtLeast(-1), Medium, ReadOnly, Honoured, newer;

        /// -
        "share.coordinator.write.timeout.ms": Int = Some("5000"), AtLeast(1), High, ReadOnly, Honoured, newer;

        /// -
        "share.coordinator.state.topic.prune.interval.ms": Int = Some("300000"), AtLeast(1), Low, ReadOnly, Honoured, newer, internal;

        /// -
        "share.coordinator.cold.partition.snapshot.interval.ms": Int = Some("300000"), AtLeast(1), Low, ReadOnly, Honoured, newer, internal;

        /// -
        "share.coordinator.cached.buffer.max.bytes": Int = Some("1048588"), AtLeast(524_288), Medium, ClusterWide, Honoured, newer;
    },
};
