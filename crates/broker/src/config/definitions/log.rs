//! Log.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{
    Any, AtLeast, Between, BetweenOr, Fraction, ListOf, OneOf, Release,
};

pub(super) const AREA: Area = Area {
    title: "Log",
    introduction: "Where records live, for how long, and in which form. Most of it is the default of a topic's own setting.",
    definitions: definitions! {
        /// -
        "message.max.bytes": Int = Some("1048588"), AtLeast(0), High, ClusterWide, Honoured;

        /// -
        "num.replica.alter.log.dirs.threads": Int = None, Any, High, ReadOnly, Honoured;

        /// -
        "compression.type": String = Some("producer"), OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]), High, ClusterWide, Honoured;

        /// -
        "compression.gzip.level": Int = Some("-1"), BetweenOr(1, 9, -1), Medium, ClusterWide, Honoured;

        /// -
        "compression.lz4.level": Int = Some("9"), Between(1, 17), Medium, ClusterWide, Honoured;

        /// -
        "compression.zstd.level": Int = Some("3"), Between(-131_072, 22), Medium, ClusterWide, Honoured;

        /// -
        "log.cleaner.threads": Int = Some("1"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "log.cleaner.io.max.bytes.per.second": Double = Some("1.7976931348623157E308"), Any, Medium, ClusterWide, Honoured;

        /// -
        "log.cleaner.dedupe.buffer.size": Long = Some("134217728"), Any, Medium, ClusterWide, Honoured;

        /// -
        "log.cleaner.io.buffer.size": Int = Some("524288"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "log.cleaner.io.buffer.load.factor": Double = Some("0.9"), Any, Medium, ClusterWide, Honoured;

        /// -
        "log.cleaner.backoff.ms": Long = Some("15000"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "log.cleaner.min.cleanable.ratio": Double = Some("0.5"), Fraction(0.0, 1.0), Medium, ClusterWide, Honoured;

        /// -
        "log.cleaner.enable": Boolean = Some("true"), Any, Medium, ReadOnly, Honoured;

        /// -
        "log.cleaner.delete.retention.ms": Long = Some("86400000"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "log.cleaner.min.compaction.lag.ms": Long = Some("0"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "log.cleaner.max.compaction.lag.ms": Long = Some("9223372036854775807"), AtLeast(1), Medium, ClusterWide, Honoured;

        /// -
        "log.dir": String = Some("/tmp/kafka-logs"), Any, High, ReadOnly, Honoured;

        /// -
        "log.dirs": String = None, Any, High, ReadOnly, Honoured;

        /// -
        "log.segment.bytes": Int = Some("1073741824"), AtLeast(14), High, ClusterWide, Honoured;

        /// -
        "log.roll.ms": Long = None, Any, High, ClusterWide, Honoured;

        /// -
        "log.roll.hours": Int = Some("168"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "log.roll.jitter.ms": Long = None, Any, High, ClusterWide, Honoured;

        /// -
        "log.roll.jitter.hours": Int = Some("0"), AtLeast(0), High, ReadOnly, Honoured;

        /// -
        "log.retention.ms": Long = None, Any, High, ClusterWide, Honoured;

        /// -
        "log.retention.minutes": Int = None, Any, High, ReadOnly, Honoured;

        /// -
        "log.retention.hours": Int = Some("168"), Any, High, ReadOnly, Honoured;

        /// -
        "log.retention.bytes": Long = Some("-1"), Any, High, ClusterWide, Honoured;

        /// -
        "log.retention.check.interval.ms": Long = Some("300000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "log.cleanup.policy": List = Some("delete"), ListOf(&["compact", "delete"]), Medium, ClusterWide, Honoured;

        /// -
        "log.index.size.max.bytes": Int = Some("10485760"), AtLeast(4), Medium, ClusterWide, Honoured;

        /// -
        "log.index.interval.bytes": Int = Some("4096"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "log.flush.interval.messages": Long = Some("9223372036854775807"), AtLeast(1), High, ClusterWide, Honoured;

        /// -
        "log.segment.delete.delay.ms": Long = Some("60000"), AtLeast(0), High, ClusterWide, Honoured;

        /// -
        "log.flush.scheduler.interval.ms": Long = Some("9223372036854775807"), Any, High, ReadOnly, Honoured;

        /// -
        "log.flush.interval.ms": Long = None, Any, High, ClusterWide, Honoured;

        /// -
        "log.flush.offset.checkpoint.interval.ms": Int = Some("60000"), AtLeast(0), High, ReadOnly, Honoured;

        /// -
        "log.flush.start.offset.checkpoint.interval.ms": Int = Some("60000"), AtLeast(0), High, ReadOnly, Honoured;

        /// -
        "log.preallocate": Boolean = Some("false"), Any, Medium, ClusterWide, Honoured;

        /// -
        "num.recovery.threads.per.data.dir": Int = Some("1"), AtLeast(1), High, ClusterWide, Honoured;

        /// -
        "min.insync.replicas": Int = Some("1"), AtLeast(1), High, ClusterWide, Honoured;

        /// -
        "log.message.format.version": String = Some("3.0-IV1"), Release, Medium, ReadOnly, Honoured, removed;

        /// -
        "log.message.timestamp.type": String = Some("CreateTime"), OneOf(&["CreateTime", "LogAppendTime"]), Medium, ClusterWide, Honoured;

        /// -
        "log.message.timestamp.difference.max.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured, removed;

        /// -
        "log.message.timestamp.before.max.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "log.message.timestamp.after.max.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "log.message.downconversion.enable": Boolean = Some("true"), Any, Low, ClusterWide, Honoured, removed;

        /// -
        "log.dir.failure.timeout.ms": Long = Some("30000"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "log.initial.task.delay.ms": Long = Some("30000"), AtLeast(0), Low, ReadOnly, Honoured, internal;

        /// -
        "max.decompressed.message.bytes": Int = Some("2147483639"), Between(1, 2_147_483_639), Medium, ClusterWide, Honoured, newer;

        /// -
        "cordoned.log.dirs": List = Some(""), Any, Medium, PerBroker, Honoured, newer;
    },
};
