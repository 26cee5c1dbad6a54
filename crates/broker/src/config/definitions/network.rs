//! Network and requests.

use crate::config::definition::{Area, Status::Honoured, definitions};
use crate::config::range::Range::{Any, AtLeast};

pub(super) const AREA: Area = Area {
    title: "Network and requests",
    introduction: "Sockets, connections, request queues and fetches.",
    definitions: definitions! {
        /// -
        "num.io.threads": Int = Some("8"), AtLeast(1), High, ClusterWide, Honoured;

        /// -
        "socket.connection.setup.timeout.ms": Long = Some("10000"), Any, Medium, ReadOnly, Honoured;

        /// -
        "socket.connection.setup.timeout.max.ms": Long = Some("30000"), Any, Medium, ReadOnly, Honoured;

        /// -
        "max.incremental.fetch.session.cache.slots": Int = Some("1000"), AtLeast(0), Medium, ReadOnly, Honoured;

        /// -
        "fetch.max.bytes": Int = Some("57671680"), AtLeast(1_024), Medium, ReadOnly, Honoured;

        /// -
        "socket.send.buffer.bytes": Int = Some("102400"), Any, High, ReadOnly, Honoured;

        /// -
        "socket.receive.buffer.bytes": Int = Some("102400"), Any, High, ReadOnly, Honoured;

        /// -
        "socket.request.max.bytes": Int = Some("104857600"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "socket.listen.backlog.size": Int = Some("50"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// -
        "max.connections.per.ip": Int = Some("2147483647"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "max.connections.per.ip.overrides": String = Some(""), Any, Medium, ClusterWide, Honoured;

        /// -
        "max.connections": Int = Some("2147483647"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "max.connection.creation.rate": Int = Some("2147483647"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// -
        "connections.max.idle.ms": Long = Some("600000"), Any, Medium, ReadOnly, Honoured;

        /// -
        "queued.max.requests": Int = Some("500"), AtLeast(1), High, ReadOnly, Honoured;

        /// -
        "queued.max.request.bytes": Long = Some("-1"), Any, Medium, ReadOnly, Honoured;

        /// -
        "num.network.threads": Int = Some("3"), AtLeast(1), High, ClusterWide, Honoured;

        /// -
        "fetch.purgatory.purge.interval.requests": Int = Some("1000"), Any, Medium, ReadOnly, Honoured;

        /// -
        "producer.purgatory.purge.interval.requests": Int = Some("1000"), Any, Medium, ReadOnly, Honoured;

        /// -
        "delete.records.purgatory.purge.interval.requests": Int = Some("1"), Any, Medium, ReadOnly, Honoured;

        /// -
        "share.fetch.purgatory.purge.interval.requests": Int = Some("1000"), Any, Medium, ReadOnly, Honoured, newer;
    },
};
