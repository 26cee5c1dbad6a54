//! Quotas.

use crate::config::definition::{
    Area,
    Status::{Honoured, Inert, Refused},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast};
use crate::config::refusal::Refusal::QuotaCallback;

pub(super) const AREA: Area = Area {
    title: "Quotas",
    introduction: "How clients and replication are slowed down.",
    definitions: definitions! {
        /// Time windows that client quotas are measured over. Quotas are not enforced in this version; settings of them
        /// are refused.
        "quota.window.num": Int = Some("11"), AtLeast(1), Low, ReadOnly, Inert;

        /// Time windows that replication throttles are measured over.
        "replication.quota.window.num": Int = Some("11"), AtLeast(1), Low, ReadOnly, Honoured;

        /// Time windows that the throttle of moves between log directories is measured over.
        "alter.log.dirs.replication.quota.window.num": Int = Some("11"), AtLeast(1), Low, ReadOnly, Inert;

        /// Time windows that the quota on topic changes is measured over.
        "controller.quota.window.num": Int = Some("11"), AtLeast(1), Low, ReadOnly, Inert;

        /// Length of one window of client quotas, in seconds.
        "quota.window.size.seconds": Int = Some("1"), AtLeast(1), Low, ReadOnly, Inert;

        /// Length of one window of replication throttles, in seconds.
        "replication.quota.window.size.seconds": Int = Some("1"), AtLeast(1), Low, ReadOnly, Honoured;

        /// Length of one window of the throttle of moves between log directories, in seconds.
        "alter.log.dirs.replication.quota.window.size.seconds": Int = Some("1"), AtLeast(1), Low, ReadOnly, Inert;

        /// Length of one window of the quota on topic changes, in seconds.
        "controller.quota.window.size.seconds": Int = Some("1"), AtLeast(1), Low, ReadOnly, Inert;

        /// Java class that decides which quota a client falls under.
        "client.quota.callback.class": Class = None, Any, Low, ReadOnly, Refused(QuotaCallback);

        /// Bytes per second that this broker sends to followers of throttled replicas that are not in sync.
        "leader.replication.throttled.rate": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured, internal;

        /// Bytes per second that this broker fetches for throttled replicas that are behind.
        "follower.replication.throttled.rate": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured, internal;

        /// Bytes per second of moves between log directories.
        "replica.alter.log.dirs.io.max.bytes.per.second": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Inert, internal;
    },
};
