//! Topic settings.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{
    Any, AtLeast, Between, BetweenOr, Fraction, ListOf, OneOf, Release, ThrottledReplicas,
};

pub(super) const AREA: Area = Area {
    title: "Topic settings",
    introduction: "What a topic may set for itself with `CreateTopics` or `AlterConfigs`; all of it can be changed at any time.",
    definitions: definitions! {
        /// -
        "segment.bytes": Int = Some("1073741824"), AtLeast(14), Medium, ClusterWide, Honoured;

        /// -
        "segment.ms": Long = Some("604800000"), AtLeast(1), Medium, ClusterWide, Honoured;

        /// -
        "segment.jitter.ms": Long = Some("0"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "segment.index.bytes": Int = Some("10485760"), AtLeast(4), Medium, ClusterWide, Honoured;

        /// -
        "flush.messages": Long = Some("9223372036854775807"), AtLeast(1), Medium, ClusterWide, Honoured;

        /// -
        "flush.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "retention.bytes": Long = Some("-1"), Any, Medium, ClusterWide, Honoured;

        /// -
        "retention.ms": Long = Some("604800000"), AtLeast(-1), Medium, ClusterWide, Honoured;

        /// -
        "max.message.bytes": Int = Some("1048588"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "index.interval.bytes": Int = Some("4096"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "delete.retention.ms": Long = Some("86400000"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "min.compaction.lag.ms": Long = Some("0"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "max.compaction.lag.ms": Long = Some("9223372036854775807"), AtLeast(1), Medium, ClusterWide, Honoured;

        /// -
        "file.delete.delay.ms": Long = Some("60000"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "min.cleanable.dirty.ratio": Double = Some("0.5"), Fraction(0.0, 1.0), Medium, ClusterWide, Honoured;

        /// -
        "cleanup.policy": List = Some("delete"), ListOf(&["compact", "delete"]), Medium, ClusterWide, Honoured;

        /// -
        "unclean.leader.election.enable": Boolean = Some("false"), Any, Medium, ClusterWide, Honoured;

        /// -
        "min.insync.replicas": Int = Some("1"), AtLeast(1), Medium, ClusterWide, Honoured;

        /// -
        "compression.type": String = Some("producer"), OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]), Medium, ClusterWide, Honoured;

        /// -
        "compression.gzip.level": Int = Some("-1"), BetweenOr(1, 9, -1), Medium, ClusterWide, Honoured;

        /// -
        "compression.lz4.level": Int = Some("9"), Between(1, 17), Medium, ClusterWide, Honoured;

        /// -
        "compression.zstd.level": Int = Some("3"), Between(-131_072, 22), Medium, ClusterWide, Honoured;

        /// -
        "preallocate": Boolean = Some("false"), Any, Medium, ClusterWide, Honoured;

        /// -
        "message.format.version": String = Some("3.0-IV1"), Release, Medium, ClusterWide, Honoured, removed;

        /// -
        "message.timestamp.type": String = Some("CreateTime"), OneOf(&["CreateTime", "LogAppendTime"]), Medium, ClusterWide, Honoured;

        /// -
        "message.timestamp.difference.max.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured, removed;

        /// -
        "message.timestamp.before.max.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "message.timestamp.after.max.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "leader.replication.throttled.replicas": List = Some(""), ThrottledReplicas, Medium, ClusterWide, Honoured;

        /// -
        "follower.replication.throttled.replicas": List = Some(""), ThrottledReplicas, Medium, ClusterWide, Honoured;

        /// -
        "message.downconversion.enable": Boolean = Some("true"), Any, Low, ClusterWide, Honoured, removed;

        /// -
        "remote.storage.enable": Boolean = Some("false"), Any, Medium, ClusterWide, Honoured;

        /// -
        "local.retention.ms": Long = Some("-2"), AtLeast(-2), Medium, ClusterWide, Honoured;

        /// -
        "local.retention.bytes": Long = Some("-2"), AtLeast(-2), Medium, ClusterWide, Honoured;

        /// -
        "remote.log.copy.disable": Boolean = Some("false"), Any, Medium, ClusterWide, Honoured;

        /// -
        "remote.log.delete.on.disable": Boolean = Some("false"), Any, Medium, ClusterWide, Honoured;

        /// -
        "max.decompressed.message.bytes": Int = Some("2147483639"), Between(1, 2_147_483_639), Medium, ClusterWide, Honoured, newer;

        /// -
        "remote.copy.lag.ms": Long = Some("0"), AtLeast(-1), Medium, ClusterWide, Honoured, newer;

        /// -
        "remote.copy.lag.bytes": Long = Some("-1"), AtLeast(-1), Medium, ClusterWide, Honoured, newer;

        /// -
        "errors.deadletterqueue.group.enable": Boolean = Some("false"), Any, Medium, ClusterWide, Honoured, newer;

        /// -
        "internal.segment.bytes": Int = None, Any, Medium, ClusterWide, Honoured, newer, internal;
    },
};
