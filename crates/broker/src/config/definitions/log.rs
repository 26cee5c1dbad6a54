//! Log.

use crate::config::definition::{
    Area,
    Status::{Honoured, Inert, Refused},
    definitions,
};
use crate::config::range::Range::{
    Any, AtLeast, Between, BetweenOr, Fraction, ListOf, OneOf, Release,
};
use crate::config::refusal::Refusal::Cordon;

pub(super) const AREA: Area = Area {
    title: "Log",
    introduction: "Where records live, for how long, and in which form. Most of it is the default of a topic's own setting.",
    definitions: definitions! {
        /// Largest batch that producers may send, in bytes after compression and with its header; topics override it with
        /// `max.message.bytes`.
        "message.max.bytes": Int = Some("1048588"), AtLeast(0), High, ClusterWide, Honoured;

        /// Threads that copy replicas from one log directory to another; by default one per directory.
        "num.replica.alter.log.dirs.threads": Int = None, Any, High, ReadOnly, Inert;

        /// Codec of stored batches: `producer` keeps what was sent, anything else recompresses.
        "compression.type": String = Some("producer"), OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]), High, ClusterWide, Honoured;

        /// Effort when the broker itself compresses with gzip; -1 is the library's own choice.
        "compression.gzip.level": Int = Some("-1"), BetweenOr(1, 9, -1), Medium, ClusterWide, Honoured;

        /// Effort when the broker itself compresses with lz4.
        "compression.lz4.level": Int = Some("9"), Between(1, 17), Medium, ClusterWide, Honoured;

        /// Effort when the broker itself compresses with zstd.
        "compression.zstd.level": Int = Some("3"), Between(-131_072, 22), Medium, ClusterWide, Honoured;

        /// Threads that compact logs.
        "log.cleaner.threads": Int = Some("1"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// Reads and writes per second of all compaction together.
        "log.cleaner.io.max.bytes.per.second": Double = Some("1.7976931348623157E308"), Any, Medium, ClusterWide, Honoured;

        /// Memory for the keys of compaction, in bytes, over all its threads.
        "log.cleaner.dedupe.buffer.size": Long = Some("134217728"), Any, Medium, ClusterWide, Honoured;

        /// Memory for the input and output of compaction, in bytes, over all its threads.
        "log.cleaner.io.buffer.size": Int = Some("524288"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// How full the key table of compaction may become before it stops taking keys.
        "log.cleaner.io.buffer.load.factor": Double = Some("0.9"), Any, Medium, ClusterWide, Honoured;

        /// How long a compaction thread sleeps when there is nothing to do.
        "log.cleaner.backoff.ms": Long = Some("15000"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// Share of a log that must be new before compaction bothers with it.
        "log.cleaner.min.cleanable.ratio": Double = Some("0.5"), Fraction(0.0, 1.0), Medium, ClusterWide, Honoured;

        /// Whether logs with `cleanup.policy=compact` are compacted at all.
        "log.cleaner.enable": Boolean = Some("true"), Any, Medium, ReadOnly, Honoured;

        /// How long compaction keeps the marker of a deleted key, so that slow readers still see the deletion.
        "log.cleaner.delete.retention.ms": Long = Some("86400000"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// How long a record stays safe from compaction.
        "log.cleaner.min.compaction.lag.ms": Long = Some("0"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// Age by which a record must be open to compaction; a segment of a compacted topic is rolled at least this
        /// often.
        "log.cleaner.max.compaction.lag.ms": Long = Some("9223372036854775807"), AtLeast(1), Medium, ClusterWide, Honoured;

        /// Directory of the logs, if `log.dirs` is not set; several are separated by commas.
        "log.dir": String = Some("/tmp/kafka-logs"), Any, High, ReadOnly, Honoured;

        /// Directories of the logs, with commas between; a new partition goes to the one with the fewest.
        "log.dirs": String = None, Any, High, ReadOnly, Honoured;

        /// Size at which a segment is closed and the next begins, in bytes.
        "log.segment.bytes": Int = Some("1073741824"), AtLeast(14), High, ClusterWide, Honoured;

        /// Age of a segment's first record at which the next begins, even if it is small. Beats `log.roll.hours`.
        "log.roll.ms": Long = None, Any, High, ClusterWide, Honoured;

        /// As `log.roll.ms`, in hours.
        "log.roll.hours": Int = Some("168"), AtLeast(1), High, ReadOnly, Honoured;

        /// Random part of the roll time, so that segments do not all roll together. Beats `log.roll.jitter.hours`.
        "log.roll.jitter.ms": Long = None, Any, High, ClusterWide, Honoured;

        /// As `log.roll.jitter.ms`, in hours.
        "log.roll.jitter.hours": Int = Some("0"), AtLeast(0), High, ReadOnly, Honoured;

        /// Age after which a segment is deleted; -1 keeps it for ever. Beats `log.retention.minutes`, which beats
        /// `log.retention.hours`.
        "log.retention.ms": Long = None, Any, High, ClusterWide, Honoured;

        /// As `log.retention.ms`, in minutes.
        "log.retention.minutes": Int = None, Any, High, ReadOnly, Honoured;

        /// As `log.retention.ms`, in hours.
        "log.retention.hours": Int = Some("168"), Any, High, ReadOnly, Honoured;

        /// Size of one partition's log beyond which its oldest segments are deleted; -1 means no bound.
        "log.retention.bytes": Long = Some("-1"), Any, High, ClusterWide, Honoured;

        /// How often logs are looked through for segments to delete.
        "log.retention.check.interval.ms": Long = Some("300000"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// What becomes of old records: `delete` removes whole segments by age and size, `compact` keeps the newest of
        /// each key.
        "log.cleanup.policy": List = Some("delete"), ListOf(&["compact", "delete"]), Medium, ClusterWide, Honoured;

        /// Size of an index at which its segment is closed, in bytes.
        "log.index.size.max.bytes": Int = Some("10485760"), AtLeast(4), Medium, ClusterWide, Honoured;

        /// Bytes of records between two entries of the offset index: fewer make lookups exact, more make the index small.
        "log.index.interval.bytes": Int = Some("4096"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// Records after which a log is forced to disk. The default leaves that to the operating system and to
        /// replication.
        "log.flush.interval.messages": Long = Some("9223372036854775807"), AtLeast(1), High, ClusterWide, Honoured;

        /// How long a deleted segment's files stay, for readers that still use them.
        "log.segment.delete.delay.ms": Long = Some("60000"), AtLeast(0), High, ClusterWide, Honoured;

        /// How often logs are looked through for records whose flush is due; also the default of `log.flush.interval.ms`.
        "log.flush.scheduler.interval.ms": Long = Some("9223372036854775807"), Any, High, ReadOnly, Honoured;

        /// Longest time that a record may wait before it is forced to disk.
        "log.flush.interval.ms": Long = None, Any, High, ClusterWide, Honoured;

        /// How often the recovery points are written; recovery after a crash starts from them.
        "log.flush.offset.checkpoint.interval.ms": Int = Some("60000"), AtLeast(0), High, ReadOnly, Honoured;

        /// How often the log start offsets are written, which keep deleted records deleted.
        "log.flush.start.offset.checkpoint.interval.ms": Int = Some("60000"), AtLeast(0), High, ReadOnly, Honoured;

        /// Whether a new segment takes its whole size on disk at once.
        "log.preallocate": Boolean = Some("false"), Any, Medium, ClusterWide, Honoured;

        /// Threads per log directory that recover logs at a start after a broker that was not stopped cleanly.
        "num.recovery.threads.per.data.dir": Int = Some("1"), AtLeast(1), High, ClusterWide, Honoured;

        /// Replicas that must be in sync for a write with `acks=all` to be accepted.
        "min.insync.replicas": Int = Some("1"), AtLeast(1), High, ClusterWide, Honoured;

        /// Record format of old Kafka versions. The current format is always written, as Kafka 3 does.
        "log.message.format.version": String = Some("3.0-IV1"), Release, Medium, ReadOnly, Inert, removed;

        /// Whose clock stamps a record: the producer's (`CreateTime`) or the broker's at append (`LogAppendTime`).
        "log.message.timestamp.type": String = Some("CreateTime"), OneOf(&["CreateTime", "LogAppendTime"]), Medium, ClusterWide, Honoured;

        /// How far a record's time may differ from the broker's clock, either way, unless the two newer keys say
        /// otherwise.
        "log.message.timestamp.difference.max.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured, removed;

        /// How far a record's time may lie behind the broker's clock; older ones are refused.
        "log.message.timestamp.before.max.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// How far a record's time may lie ahead of the broker's clock; newer ones are refused.
        "log.message.timestamp.after.max.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// Whether records are converted to an old format for consumers that know no newer one.
        "log.message.downconversion.enable": Boolean = Some("true"), Any, Low, ClusterWide, Honoured, removed;

        /// How long a KRaft broker tries to report a failed directory before it stops.
        "log.dir.failure.timeout.ms": Long = Some("30000"), AtLeast(1), Low, ReadOnly, Inert;

        /// Wait between the start and the first round of log housekeeping.
        "log.initial.task.delay.ms": Long = Some("30000"), AtLeast(0), Low, ReadOnly, Honoured, internal;

        /// Bytes that one batch may hold once decompressed. Here a limit of our own always holds.
        "max.decompressed.message.bytes": Int = Some("2147483639"), Between(1, 2_147_483_639), Medium, ClusterWide, Inert, newer;

        /// Log directories that take no new partitions, `*` for all.
        "cordoned.log.dirs": List = Some(""), Any, Medium, PerBroker, Refused(Cordon), newer;
    },
};
