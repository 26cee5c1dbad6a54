//! Tiered storage.

use crate::config::definition::{
    Area,
    Status::{Inert, Refused},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast, Fraction, NonEmpty, PoolSize};
use crate::config::refusal::Refusal::TieredStorage;

pub(super) const AREA: Area = Area {
    title: "Tiered storage",
    introduction: "Old segments in remote storage. Refused in this version.",
    definitions: definitions! {
        /// Turns tiered storage on for the broker.
        "remote.log.storage.system.enable": Boolean = Some("false"), Any, Medium, ReadOnly, Refused(TieredStorage);

        /// Prefix of the settings that are passed to the storage plugin.
        "remote.log.storage.manager.impl.prefix": String = Some("rsm.config."), NonEmpty, Medium, ReadOnly, Inert;

        /// Prefix of the settings that are passed to the metadata plugin.
        "remote.log.metadata.manager.impl.prefix": String = Some("rlmm.config."), NonEmpty, Medium, ReadOnly, Inert;

        /// Java class that stores segments remotely.
        "remote.log.storage.manager.class.name": String = None, NonEmpty, Medium, ReadOnly, Refused(TieredStorage);

        /// Where that class is found.
        "remote.log.storage.manager.class.path": String = None, Any, Medium, ReadOnly, Refused(TieredStorage);

        /// Java class that remembers which segments are remote.
        "remote.log.metadata.manager.class.name": String = Some("org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"), NonEmpty, Medium, ReadOnly, Refused(TieredStorage);

        /// Where that class is found.
        "remote.log.metadata.manager.class.path": String = None, Any, Medium, ReadOnly, Refused(TieredStorage);

        /// Listener over which that class reaches the brokers.
        "remote.log.metadata.manager.listener.name": String = None, NonEmpty, Medium, ReadOnly, Refused(TieredStorage);

        /// Bytes that a storage plugin may add to a segment's metadata.
        "remote.log.metadata.custom.metadata.max.bytes": Int = Some("128"), AtLeast(0), Low, ReadOnly, Inert;

        /// Disk space for indexes of remote segments.
        "remote.log.index.file.cache.total.size.bytes": Long = Some("1073741824"), AtLeast(1), Low, ClusterWide, Inert;

        /// Threads that run the work on remote segments.
        "remote.log.manager.thread.pool.size": Int = Some("10"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Threads that copy segments to remote storage.
        "remote.log.manager.copier.thread.pool.size": Int = Some("-1"), PoolSize, Medium, ReadOnly, Inert;

        /// Threads that delete expired remote segments.
        "remote.log.manager.expiration.thread.pool.size": Int = Some("-1"), PoolSize, Medium, ReadOnly, Inert;

        /// How often segments are looked through for ones to copy or delete.
        "remote.log.manager.task.interval.ms": Long = Some("30000"), AtLeast(1), Low, ReadOnly, Inert;

        /// First pause after such work failed.
        "remote.log.manager.task.retry.backoff.ms": Long = Some("500"), AtLeast(1), Low, ReadOnly, Inert, internal;

        /// Longest pause after such work failed.
        "remote.log.manager.task.retry.backoff.max.ms": Long = Some("30000"), AtLeast(1), Low, ReadOnly, Inert, internal;

        /// Random part of those pauses.
        "remote.log.manager.task.retry.jitter": Double = Some("0.2"), Fraction(0.0, 0.5), Low, ReadOnly, Inert, internal;

        /// Threads that read remote segments.
        "remote.log.reader.threads": Int = Some("10"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Remote reads that may wait.
        "remote.log.reader.max.pending.tasks": Int = Some("100"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Age after which a segment that is stored remotely leaves the local disk; -2 means as `log.retention.ms`.
        "log.local.retention.ms": Long = Some("-2"), AtLeast(-2), Medium, ClusterWide, Inert;

        /// Size beyond which segments that are stored remotely leave the local disk; -2 means as `log.retention.bytes`.
        "log.local.retention.bytes": Long = Some("-2"), AtLeast(-2), Medium, ClusterWide, Inert;

        /// Bytes per second copied to remote storage.
        "remote.log.manager.copy.max.bytes.per.second": Long = Some("9223372036854775807"), AtLeast(1), Medium, ClusterWide, Inert;

        /// Time windows that this rate is measured over.
        "remote.log.manager.copy.quota.window.num": Int = Some("11"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Length of one such window, in seconds.
        "remote.log.manager.copy.quota.window.size.seconds": Int = Some("1"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Bytes per second read from remote storage.
        "remote.log.manager.fetch.max.bytes.per.second": Long = Some("9223372036854775807"), AtLeast(1), Medium, ClusterWide, Inert;

        /// Time windows that this rate is measured over.
        "remote.log.manager.fetch.quota.window.num": Int = Some("11"), AtLeast(1), Medium, ReadOnly, Inert;

        /// Length of one such window, in seconds.
        "remote.log.manager.fetch.quota.window.size.seconds": Int = Some("1"), AtLeast(1), Medium, ReadOnly, Inert;

        /// How long a fetch may wait for remote data.
        "remote.fetch.max.wait.ms": Int = Some("500"), AtLeast(1), Medium, ClusterWide, Inert;

        /// How long such an index is kept unused.
        "remote.log.index.file.cache.ttl.ms": Long = Some("900000"), AtLeast(-1), Low, ReadOnly, Inert, newer, internal;

        /// Threads that keep followers informed about remote segments.
        "remote.log.manager.follower.thread.pool.size": Int = Some("2"), AtLeast(1), Medium, ClusterWide, Inert, newer;

        /// Age that a segment must reach before it is copied to remote storage.
        "log.remote.copy.lag.ms": Long = Some("0"), AtLeast(-1), Medium, ClusterWide, Inert, newer;

        /// Bytes of newer records that must follow before a segment is copied to remote storage.
        "log.remote.copy.lag.bytes": Long = Some("-1"), AtLeast(-1), Medium, ClusterWide, Inert, newer;

        /// How long ListOffsets may wait for remote data.
        "remote.list.offsets.request.timeout.ms": Long = Some("30000"), AtLeast(1), Medium, ClusterWide, Inert, newer;

        /// Lets a new follower start behind what is stored remotely.
        "follower.fetch.last.tiered.offset.enable": Boolean = Some("false"), Any, Medium, ClusterWide, Inert, newer;
    },
};
