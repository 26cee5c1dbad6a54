//! Tiered storage.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast, Fraction, NonEmpty, PoolSize};

pub(super) const AREA: Area = Area {
    title: "Tiered storage",
    introduction: "Old segments in remote storage. Refused in this version.",
    definitions: definitions! {
        /// -
        "remote.log.storage.system.enable": Boolean = Some("false"), Any, Medium, ReadOnly, Honoured;

        /// -
        "remote.log.storage.manager.impl.prefix": String = Some("rsm.config."), NonEmpty, Medium, ReadOnly, Honoured;

        /// -
        "remote.log.metadata.manager.impl.prefix": String = Some("rlmm.config."), NonEmpty, Medium, ReadOnly, Honoured;

        /// -
        "remote.log.storage.manager.class.name": String = None, NonEmpty, Medium, ReadOnly, Honoured;

        /// -
        "remote.log.storage.manager.class.path": String = None, Any, Medium, ReadOnly, Honoured;

        /// -
        "remote.log.metadata.manager.class.name": String = Some("org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"), NonEmpty, Medium, ReadOnly, Honoured;

        /// -
        "remote.log.metadata.manager.class.path": String = None, Any, Medium, ReadOnly, Honoured;

        /// -
        "remote.log.metadata.manager.listener.name": String = None, NonEmpty, Medium, ReadOnly, Honoured;

        /// -
        "remote.log.metadata.custom.metadata.max.bytes": Int = Some("128"), AtLeast(0), Low, ReadOnly, Honoured;

        /// -
        "remote.log.index.file.cache.total.size.bytes": Long = Some("1073741824"), AtLeast(1), Low, ClusterWide, Honoured;

        /// -
        "remote.log.manager.thread.pool.size": Int = Some("10"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "remote.log.manager.copier.thread.pool.size": Int = Some("-1"), PoolSize, Medium, ReadOnly, Honoured;

        /// -
        "remote.log.manager.expiration.thread.pool.size": Int = Some("-1"), PoolSize, Medium, ReadOnly, Honoured;

        /// -
        "remote.log.manager.task.interval.ms": Long = Some("30000"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "remote.log.manager.task.retry.backoff.ms": Long = Some("500"), AtLeast(1), Low, ReadOnly, Honoured, internal;

        /// -
        "remote.log.manager.task.retry.backoff.max.ms": Long = Some("30000"), AtLeast(1), Low, ReadOnly, Honoured, internal;

        /// -
        "remote.log.manager.task.retry.jitter": Double = Some("0.2"), Fraction(0.0, 0.5), Low, ReadOnly, Honoured, internal;

        /// -
        "remote.log.reader.threads": Int = Some("10"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "remote.log.reader.max.pending.tasks": Int = Some("100"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "log.local.retention.ms": Long = Some("-2"), AtLeast(-2), Medium, ClusterWide, Honoured;

        /// -
        "log.local.retention.bytes": Long = Some("-2"), AtLeast(-2), Medium, ClusterWide, Honoured;

        /// -
        "remote.log.manager.copy.max.bytes.per.second": Long = Some("9223372036854775807"), AtLeast(1), Medium, ClusterWide, Honoured;

        /// -
        "remote.log.manager.copy.quota.window.num": Int = Some("11"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "remote.log.manager.copy.quota.window.size.seconds": Int = Some("1"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "remote.log.manager.fetch.max.bytes.per.second": Long = Some("9223372036854775807"), AtLeast(1), Medium, ClusterWide, Honoured;

        /// -
        "remote.log.manager.fetch.quota.window.num": Int = Some("11"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "remote.log.manager.fetch.quota.window.size.seconds": Int = Some("1"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "remote.fetch.max.wait.ms": Int = Some("500"), AtLeast(1), Medium, ClusterWide, Honoured;

        /// -
        "remote.log.index.file.cache.ttl.ms": Long = Some("900000"), AtLeast(-1), Low, ReadOnly, Honoured, newer, internal;

        /// -
        "remote.log.manager.follower.thread.pool.size": Int = Some("2"), AtLeast(1), Medium, ClusterWide, Honoured, newer;

        /// -
        "log.remote.copy.lag.ms": Long = Some("0"), AtLeast(-1), Medium, ClusterWide, Honoured, newer;

        /// -
        "log.remote.copy.lag.bytes": Long = Some("-1"), AtLeast(-1), Medium, ClusterWide, Honoured, newer;

        /// -
        "remote.list.offsets.request.timeout.ms": Long = Some("30000"), AtLeast(1), Medium, ClusterWide, Honoured, newer;

        /// -
        "follower.fetch.last.tiered.offset.enable": Boolean = Some("false"), Any, Medium, ClusterWide, Honoured, newer;
    },
};
