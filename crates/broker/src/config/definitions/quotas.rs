//! Quotas.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast};

pub(super) const AREA: Area = Area {
    title: "Quotas",
    introduction: "How clients and replication are slowed down.",
    definitions: definitions! {
        /// -
        "quota.window.num": Int = Some("11"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "replication.quota.window.num": Int = Some("11"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "alter.log.dirs.replication.quota.window.num": Int = Some("11"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "controller.quota.window.num": Int = Some("11"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "quota.window.size.seconds": Int = Some("1"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "replication.quota.window.size.seconds": Int = Some("1"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "alter.log.dirs.replication.quota.window.size.seconds": Int = Some("1"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "controller.quota.window.size.seconds": Int = Some("1"), AtLeast(1), Low, ReadOnly, Honoured;

        /// -
        "client.quota.callback.class": Class = None, Any, Low, ReadOnly, Honoured;

        /// -
        "leader.replication.throttled.rate": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured, internal;

        /// -
        "follower.replication.throttled.rate": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured, internal;

        /// -
        "replica.alter.log.dirs.io.max.bytes.per.second": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Honoured, internal;
    },
};
