//! Newer group protocols.

use crate::config::definition::{
    Area,
    Status::{Harmless, Inert},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast, Between, ListOf, OneOfAnyCase};

pub(super) const AREA: Area = Area {
    title: "Newer group protocols",
    introduction: "Consumer groups of KIP-848, share groups and streams groups; none is served in this version.",
    definitions: definitions! {
        /// Group protocols that are served. This version serves `classic` whatever else is named.
        "group.coordinator.rebalance.protocols": List = Some("classic"), ListOf(&["consumer", "classic", "share", "unknown"]), Medium, ReadOnly, Harmless;

        /// Threads that run group coordinators in Kafka. Here one task per partition of `__consumer_offsets` does.
        "group.coordinator.threads": Int = Some("1"), AtLeast(1), Medium, ReadOnly, Inert;

        /// How long group coordinators gather records before they write.
        "group.coordinator.append.linger.ms": Int = Some("10"), AtLeast(0), Medium, ReadOnly, Inert;

        /// Turns Kafka's newer group coordinator on.
        "group.coordinator.new.enable": Boolean = Some("false"), Any, Medium, ReadOnly, Harmless, removed, internal;

        /// Session timeout of members under KIP-848.
        "group.consumer.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Shortest session timeout that a group may be given.
        "group.consumer.min.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Longest session timeout that a group may be given.
        "group.consumer.max.session.timeout.ms": Int = Some("60000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// How often members under KIP-848 report.
        "group.consumer.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Shortest interval that a group may be given.
        "group.consumer.min.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Longest interval that a group may be given.
        "group.consumer.max.heartbeat.interval.ms": Int = Some("15000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Members that a group under KIP-848 may have.
        "group.consumer.max.size": Int = Some("2147483647"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Assignors that the coordinator offers; the first is the default.
        "group.consumer.assignors": List = Some("org.apache.kafka.coordinator.group.assignor.UniformAssignor,org.apache.kafka.coordinator.group.assignor.RangeAssignor"), Any, Medium, ReadOnly, Harmless;

        /// Whether groups may change between the classic protocol and KIP-848.
        "group.consumer.migration.policy": String = Some("disabled"), OneOfAnyCase(&["DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"]), Medium, ReadOnly, Inert, internal;

        /// Session timeout of members of a share group.
        "group.share.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Shortest session timeout that a share group may be given.
        "group.share.min.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Longest session timeout that a share group may be given.
        "group.share.max.session.timeout.ms": Int = Some("60000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// How often members of a share group report.
        "group.share.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Shortest interval that a share group may be given.
        "group.share.min.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Longest interval that a share group may be given.
        "group.share.max.heartbeat.interval.ms": Int = Some("15000"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Members that a share group may have.
        "group.share.max.size": Short = Some("200"), Between(10, 1_000), Medium, ReadOnly, Inert;

        /// Turns share groups on (KIP-932).
        "group.share.enable": Boolean = Some("false"), Any, Medium, ReadOnly, Harmless, removed, internal;

        /// How often a record is delivered before it counts as undeliverable.
        "group.share.delivery.count.limit": Int = Some("5"), Between(2, 10), Medium, ReadOnly, Inert;

        /// How long a delivered record is reserved for its consumer.
        "group.share.record.lock.duration.ms": Int = Some("30000"), Between(1_000, 60_000), Medium, ReadOnly, Inert;

        /// Shortest reservation that a share group may be given.
        "group.share.min.record.lock.duration.ms": Int = Some("15000"), Between(1_000, 30_000), Medium, ReadOnly, Inert;

        /// Longest reservation that a share group may be given.
        "group.share.max.record.lock.duration.ms": Int = Some("60000"), Between(30_000, 3_600_000), Medium, ReadOnly, Inert;

        /// Share groups that may exist.
        "group.share.max.groups": Short = Some("10"), Between(1, 100), Medium, ReadOnly, Inert, removed;

        /// Reserved records per partition of a share group.
        "group.share.partition.max.record.locks": Int = Some("200"), Between(100, 10_000), Medium, ReadOnly, Inert;

        /// Threads for longer work of group coordinators.
        "group.coordinator.background.threads": Int = Some("2"), AtLeast(1), High, ReadOnly, Inert, newer;

        /// Largest buffer that a group coordinator keeps for its next write.
        "group.coordinator.cached.buffer.max.bytes": Int = Some("1048588"), AtLeast(524_288), Medium, ClusterWide, Inert, newer;

        /// Least time between two assignments of a group.
        "group.consumer.assignment.interval.ms": Int = Some("1000"), AtLeast(0), Medium, ClusterWide, Inert, newer;

        /// Shortest such time that a group may be given.
        "group.consumer.min.assignment.interval.ms": Int = Some("0"), AtLeast(0), Medium, ReadOnly, Inert, newer;

        /// Longest such time that a group may be given.
        "group.consumer.max.assignment.interval.ms": Int = Some("15000"), AtLeast(0), Medium, ReadOnly, Inert, newer;

        /// Whether assignors run on background threads.
        "group.consumer.assignor.offload.enable": Boolean = Some("true"), Any, Medium, ClusterWide, Inert, newer, internal;

        /// How often subscriptions by pattern are matched against the topics again.
        "group.consumer.regex.refresh.interval.ms": Int = Some("600000"), AtLeast(10_000), Medium, ReadOnly, Inert, newer, internal;

        /// Assignors of share groups.
        "group.share.assignors": List = Some("simple"), Any, Medium, ReadOnly, Harmless, newer;

        /// Least time between two assignments of a share group.
        "group.share.assignment.interval.ms": Int = Some("1000"), AtLeast(0), Medium, ClusterWide, Inert, newer;

        /// Shortest such time that a share group may be given.
        "group.share.min.assignment.interval.ms": Int = Some("0"), AtLeast(0), Medium, ReadOnly, Inert, newer;

        /// Longest such time that a share group may be given.
        "group.share.max.assignment.interval.ms": Int = Some("15000"), AtLeast(0), Medium, ReadOnly, Inert, newer;

        /// Whether assignors of share groups run on background threads.
        "group.share.assignor.offload.enable": Boolean = Some("true"), Any, Medium, ClusterWide, Inert, newer, internal;

        /// Pause before the state of a share partition is initialised again.
        "group.share.initialize.retry.interval.ms": Int = Some("30000"), AtLeast(1), Low, ReadOnly, Inert, newer, internal;

        /// Whether topics for undeliverable records of share groups are created when needed.
        "errors.deadletterqueue.auto.create.topics.enable": Boolean = Some("false"), Any, Medium, ClusterWide, Inert, newer;

        /// Prefix that names of such topics must have.
        "errors.deadletterqueue.topic.name.prefix": String = Some("dlq."), Any, Medium, ClusterWide, Inert, newer;

        /// Session timeout of members of a streams group.
        "group.streams.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Inert, newer;

        /// Shortest session timeout that a streams group may be given.
        "group.streams.min.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Inert, newer;

        /// Longest session timeout that a streams group may be given.
        "group.streams.max.session.timeout.ms": Int = Some("60000"), AtLeast(1), Medium, ReadOnly, Inert, newer;

        /// How often members of a streams group report.
        "group.streams.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Inert, newer;

        /// Shortest interval that a streams group may be given.
        "group.streams.min.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Inert, newer;

        /// Longest interval that a streams group may be given.
        "group.streams.max.heartbeat.interval.ms": Int = Some("15000"), AtLeast(1), Medium, ReadOnly, Inert, newer;

        /// Members that a streams group may have.
        "group.streams.max.size": Int = Some("2147483647"), AtLeast(1), Medium, ReadOnly, Inert, newer;

        /// Standby tasks of a streams group.
        "group.streams.num.standby.replicas": Int = Some("0"), AtLeast(0), Medium, ReadOnly, Inert, newer;

        /// Most standby tasks that a streams group may be given.
        "group.streams.max.standby.replicas": Int = Some("2"), AtLeast(0), Medium, ReadOnly, Inert, newer;

        /// How long an empty streams group waits for more members.
        "group.streams.initial.rebalance.delay.ms": Int = Some("3000"), AtLeast(0), Medium, ReadOnly, Inert, newer;

        /// Least time between two assignments of a streams group.
        "group.streams.assignment.interval.ms": Int = Some("1000"), AtLeast(0), Medium, ClusterWide, Inert, newer;

        /// Shortest such time that a streams group may be given.
        "group.streams.min.assignment.interval.ms": Int = Some("0"), AtLeast(0), Medium, ReadOnly, Inert, newer;

        /// Longest such time that a streams group may be given.
        "group.streams.max.assignment.interval.ms": Int = Some("15000"), AtLeast(0), Medium, ReadOnly, Inert, newer;

        /// Assignors of streams groups.
        "group.streams.assignors": List = Some("sticky"), Any, Medium, ReadOnly, Harmless, newer;

        /// Whether assignors of streams groups run on background threads.
        "group.streams.assignor.offload.enable": Boolean = Some("true"), Any, Medium, ClusterWide, Inert, newer, internal;

        /// How often members report the progress of their tasks.
        "group.streams.task.offset.interval.ms": Int = Some("60000"), AtLeast(1), Medium, ReadOnly, Inert, newer, internal;

        /// Shortest such interval that a streams group may be given.
        "group.streams.min.task.offset.interval.ms": Int = Some("15000"), AtLeast(1), Medium, ReadOnly, Inert, newer, internal;

        /// Warm-up tasks of a streams group.
        "group.streams.num.warmup.replicas": Int = Some("2"), AtLeast(0), Medium, ReadOnly, Inert, newer, internal;

        /// Most warm-up tasks that a streams group may be given.
        "group.streams.max.warmup.replicas": Int = Some("20"), AtLeast(0), Medium, ReadOnly, Inert, newer, internal;

        /// Tags of clients over which standby tasks are spread.
        "group.streams.rack.aware.assignment.tags": List = Some(""), Any, Low, ReadOnly, Inert, newer;

        /// Java class that keeps descriptions of topologies.
        "group.streams.topology.description.plugin.class": Class = None, Any, Medium, ReadOnly, Harmless, newer;

        /// Records that a streams task may lag and still count as caught up.
        "group.streams.acceptable.recovery.lag": Long = Some("10000"), AtLeast(0), Medium, ReadOnly, Inert, newer, internal;

        /// Largest such limit that a share group may be given.
        "group.share.max.delivery.count.limit": Int = Some("10"), Between(5, 25), Medium, ReadOnly, Inert, newer;

        /// Smallest such limit that a share group may be given.
        "group.share.min.delivery.count.limit": Int = Some("2"), Between(2, 5), Medium, ReadOnly, Inert, newer;

        /// Largest such bound that a share group may be given.
        "group.share.max.partition.max.record.locks": Int = Some("4000"), Between(2_000, 10_000), Medium, ReadOnly, Inert, newer;

        /// Smallest such bound that a share group may be given.
        "group.share.min.partition.max.record.locks": Int = Some("100"), Between(100, 2_000), Medium, ReadOnly, Inert, newer;

        /// Share sessions that a broker keeps.
        "group.share.max.share.sessions": Int = Some("2000"), AtLeast(1), Medium, ReadOnly, Inert, newer;

        /// Java class that keeps the state of share groups.
        "group.share.persister.class.name": String = Some("org.apache.kafka.server.share.persister.DefaultStatePersister"), Any, Medium, ReadOnly, Harmless, newer, internal;

        /// Java class that takes undeliverable records of share groups.
        "group.share.dlq.manager.class.name": String = Some("org.apache.kafka.server.share.dlq.DefaultShareGroupDLQManager"), Any, Medium, ReadOnly, Harmless, newer, internal;

        /// Partitions of the share state topic.
        "share.coordinator.state.topic.num.partitions": Int = Some("50"), AtLeast(1), High, ReadOnly, Inert, newer;

        /// Replicas of the share state topic.
        "share.coordinator.state.topic.replication.factor": Short = Some("3"), AtLeast(1), High, ReadOnly, Inert, newer;

        /// In-sync replicas that a write to the share state topic needs.
        "share.coordinator.state.topic.min.isr": Short = Some("2"), AtLeast(1), High, ReadOnly, Inert, newer;

        /// Segment size of the share state topic.
        "share.coordinator.state.topic.segment.bytes": Int = Some("104857600"), AtLeast(1), High, ReadOnly, Inert, newer;

        /// Threads that run share coordinators.
        "share.coordinator.threads": Int = Some("1"), AtLeast(1), Medium, ReadOnly, Inert, newer;

        /// Changes of share state after which it is written whole.
        "share.coordinator.snapshot.update.records.per.snapshot": Int = Some("500"), Between(0, 500), Medium, ReadOnly, Inert, newer;

        /// Bytes read at a time when share state is loaded.
        "share.coordinator.load.buffer.size": Int = Some("5242880"), AtLeast(1), High, ReadOnly, Inert, newer;

        /// Codec of the share state topic, as a number.
        "share.coordinator.state.topic.compression.codec": Int = Some("0"), Any, High, ReadOnly, Inert, newer;

        /// How long share coordinators gather records before they write.
        "share.coordinator.append.linger.ms": Int = Some("-1"), AtLeast(-1), Medium, ReadOnly, Inert, newer;

        /// How long a write of share state waits for its replicas.
        "share.coordinator.write.timeout.ms": Int = Some("5000"), AtLeast(1), High, ReadOnly, Inert, newer;

        /// How often the share state topic is trimmed.
        "share.coordinator.state.topic.prune.interval.ms": Int = Some("300000"), AtLeast(1), Low, ReadOnly, Inert, newer, internal;

        /// How often the state of quiet share partitions is written whole.
        "share.coordinator.cold.partition.snapshot.interval.ms": Int = Some("300000"), AtLeast(1), Low, ReadOnly, Inert, newer, internal;

        /// Largest buffer that a share coordinator keeps for its next write.
        "share.coordinator.cached.buffer.max.bytes": Int = Some("1048588"), AtLeast(524_288), Medium, ClusterWide, Inert, newer;
    },
};
