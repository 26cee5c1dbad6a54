//! Topic settings.

use crate::config::definition::{
    Area,
    Status::{Honoured, Inert, Refused},
    definitions,
};
use crate::config::range::Range::{
    Any, AtLeast, Between, BetweenOr, Fraction, ListOf, OneOf, Release, ThrottledReplicas,
};
use crate::config::refusal::Refusal::TieredStorage;

pub(super) const AREA: Area = Area {
    title: "Topic settings",
    introduction: "What a topic may set for itself with `CreateTopics` or `AlterConfigs`; all of it can be changed at any time.",
    definitions: definitions! {
        /// Size at which a segment is closed and the next begins, in bytes.
        "segment.bytes": Int = Some("1073741824"), AtLeast(14), Medium, ClusterWide, Honoured;

        /// Age of a segment's first record at which the next segment begins, even if it is small.
        "segment.ms": Long = Some("604800000"), AtLeast(1), Medium, ClusterWide, Honoured;

        /// Random part of `segment.ms`, so that segments do not all roll together.
        "segment.jitter.ms": Long = Some("0"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// Size of an index at which its segment is closed, in bytes.
        "segment.index.bytes": Int = Some("10485760"), AtLeast(4), Medium, ClusterWide, Honoured;

        /// Records after which the log is forced to disk. The default leaves that to the operating system and to
        /// replication.
        "flush.messages": Long = Some("9223372036854775807"), AtLeast(1), Medium, ClusterWide, Honoured;

        /// Longest time that a record may wait before it is forced to disk.
        "flush.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// Size of one partition's log beyond which its oldest segments are deleted; -1 means no bound.
        "retention.bytes": Long = Some("-1"), Any, Medium, ClusterWide, Honoured;

        /// Age after which a segment is deleted; -1 keeps it for ever.
        "retention.ms": Long = Some("604800000"), AtLeast(-1), Medium, ClusterWide, Honoured;

        /// Largest batch that producers may send, in bytes after compression and with its header.
        "max.message.bytes": Int = Some("1048588"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// Bytes of records between two entries of the offset index.
        "index.interval.bytes": Int = Some("4096"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// How long compaction keeps the marker of a deleted key, so that slow readers still see the deletion.
        "delete.retention.ms": Long = Some("86400000"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// How long a record stays safe from compaction.
        "min.compaction.lag.ms": Long = Some("0"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// Age by which a record must be open to compaction; a segment of a compacted topic is rolled at least this
        /// often.
        "max.compaction.lag.ms": Long = Some("9223372036854775807"), AtLeast(1), Medium, ClusterWide, Honoured;

        /// How long a deleted segment's files stay, for readers that still use them.
        "file.delete.delay.ms": Long = Some("60000"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// Share of the log that must be new before compaction bothers with it.
        "min.cleanable.dirty.ratio": Double = Some("0.5"), Fraction(0.0, 1.0), Medium, ClusterWide, Honoured;

        /// What becomes of old records: `delete` removes whole segments by age and size, `compact` keeps the newest of
        /// each key.
        "cleanup.policy": List = Some("delete"), ListOf(&["compact", "delete"]), Medium, ClusterWide, Honoured;

        /// Whether a replica that may lack committed records can lead when no other is left.
        "unclean.leader.election.enable": Boolean = Some("false"), Any, Medium, ClusterWide, Honoured;

        /// Replicas that must be in sync for a write with `acks=all` to be accepted.
        "min.insync.replicas": Int = Some("1"), AtLeast(1), Medium, ClusterWide, Honoured;

        /// Codec of stored batches: `producer` keeps what was sent, anything else recompresses.
        "compression.type": String = Some("producer"), OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]), Medium, ClusterWide, Honoured;

        /// Effort when the broker itself compresses with gzip; -1 is the library's own choice.
        "compression.gzip.level": Int = Some("-1"), BetweenOr(1, 9, -1), Medium, ClusterWide, Honoured;

        /// Effort when the broker itself compresses with lz4.
        "compression.lz4.level": Int = Some("9"), Between(1, 17), Medium, ClusterWide, Honoured;

        /// Effort when the broker itself compresses with zstd.
        "compression.zstd.level": Int = Some("3"), Between(-131_072, 22), Medium, ClusterWide, Honoured;

        /// Whether a new segment takes its whole size on disk at once.
        "preallocate": Boolean = Some("false"), Any, Medium, ClusterWide, Honoured;

        /// Record format of old Kafka versions. The current format is always written, as Kafka 3 does.
        "message.format.version": String = Some("3.0-IV1"), Release, Medium, ClusterWide, Inert, removed;

        /// Whose clock stamps a record: the producer's (`CreateTime`) or the broker's at append (`LogAppendTime`).
        "message.timestamp.type": String = Some("CreateTime"), OneOf(&["CreateTime", "LogAppendTime"]), Medium, ClusterWide, Honoured;

        /// How far a record's time may differ from the broker's clock, either way, unless the two newer keys say
        /// otherwise.
        "message.timestamp.difference.max.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured, removed;

        /// How far a record's time may lie behind the broker's clock; older ones are refused.
        "message.timestamp.before.max.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// How far a record's time may lie ahead of the broker's clock; newer ones are refused.
        "message.timestamp.after.max.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// Replicas whose traffic is throttled on the leader, as `partition:broker` pairs or `*` for all.
        "leader.replication.throttled.replicas": List = Some(""), ThrottledReplicas, Medium, ClusterWide, Honoured;

        /// Replicas whose traffic is throttled on the follower, as `partition:broker` pairs or `*` for all.
        "follower.replication.throttled.replicas": List = Some(""), ThrottledReplicas, Medium, ClusterWide, Honoured;

        /// Whether records are converted to an old format for consumers that know no newer one.
        "message.downconversion.enable": Boolean = Some("true"), Any, Low, ClusterWide, Honoured, removed;

        /// Whether old segments move to remote storage.
        "remote.storage.enable": Boolean = Some("false"), Any, Medium, ClusterWide, Refused(TieredStorage);

        /// Age after which a segment that is stored remotely leaves the local disk; -2 means as `retention.ms`.
        "local.retention.ms": Long = Some("-2"), AtLeast(-2), Medium, ClusterWide, Inert;

        /// Size beyond which segments that are stored remotely leave the local disk; -2 means as `retention.bytes`.
        "local.retention.bytes": Long = Some("-2"), AtLeast(-2), Medium, ClusterWide, Inert;

        /// Stops copying segments to remote storage; what is there stays readable.
        "remote.log.copy.disable": Boolean = Some("false"), Any, Medium, ClusterWide, Inert;

        /// Whether turning remote storage off deletes what is there.
        "remote.log.delete.on.disable": Boolean = Some("false"), Any, Medium, ClusterWide, Inert;

        /// Bytes that one batch may hold once decompressed. Here a limit of our own always holds.
        "max.decompressed.message.bytes": Int = Some("2147483639"), Between(1, 2_147_483_639), Medium, ClusterWide, Inert, newer;

        /// Age that a segment must reach before it is copied to remote storage.
        "remote.copy.lag.ms": Long = Some("0"), AtLeast(-1), Medium, ClusterWide, Inert, newer;

        /// Bytes of newer records that must follow before a segment is copied to remote storage.
        "remote.copy.lag.bytes": Long = Some("-1"), AtLeast(-1), Medium, ClusterWide, Inert, newer;

        /// Whether share groups may put undeliverable records into this topic.
        "errors.deadletterqueue.group.enable": Boolean = Some("false"), Any, Medium, ClusterWide, Inert, newer;

        /// Segment size, for tests.
        "internal.segment.bytes": Int = None, Any, Medium, ClusterWide, Inert, newer, internal;
    },
};
