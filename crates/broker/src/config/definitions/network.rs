//! Network and requests.

use crate::config::definition::{
    Area,
    Status::{Honoured, Inert, Refused},
    definitions,
};
use crate::config::range::Range::{Any, AtLeast};
use crate::config::refusal::Refusal::ConnectionLimit;

pub(super) const AREA: Area = Area {
    title: "Network and requests",
    introduction: "Sockets, connections, request queues and fetches.",
    definitions: definitions! {
        /// Threads that handle requests in Kafka. Set `barnabas.reactors` instead.
        "num.io.threads": Int = Some("8"), AtLeast(1), High, ClusterWide, Inert;

        /// How long the broker waits for a connection to another broker to open; doubles with each failure up to
        /// `socket.connection.setup.timeout.max.ms`.
        "socket.connection.setup.timeout.ms": Long = Some("10000"), Any, Medium, ReadOnly, Inert;

        /// Upper bound of the growing wait for a connection to another broker.
        "socket.connection.setup.timeout.max.ms": Long = Some("30000"), Any, Medium, ReadOnly, Inert;

        /// Incremental fetch sessions kept at one time; when full, a new one needs an old or smaller one to give way
        /// (KIP-227).
        "max.incremental.fetch.session.cache.slots": Int = Some("1000"), AtLeast(0), Medium, ReadOnly, Honoured;

        /// Upper bound of one fetch response, in bytes, whatever the client asks for; the first batch is sent even if it
        /// is larger.
        "fetch.max.bytes": Int = Some("57671680"), AtLeast(1_024), Medium, ReadOnly, Honoured;

        /// Send buffer of each client connection, in bytes; -1 leaves it to the system.
        "socket.send.buffer.bytes": Int = Some("102400"), Any, High, ReadOnly, Honoured;

        /// Receive buffer of each client connection, in bytes; -1 leaves it to the system.
        "socket.receive.buffer.bytes": Int = Some("102400"), Any, High, ReadOnly, Honoured;

        /// Largest request, in bytes; the connection that announces a larger one is closed.
        "socket.request.max.bytes": Int = Some("104857600"), AtLeast(1), High, ReadOnly, Honoured;

        /// Connections that the system may hold ready to be accepted.
        "socket.listen.backlog.size": Int = Some("50"), AtLeast(1), Medium, ReadOnly, Honoured;

        /// Connections from one address; further ones are closed at once. 0 allows only addresses named in
        /// `max.connections.per.ip.overrides`.
        "max.connections.per.ip": Int = Some("2147483647"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// Limits for single hosts, as `host:count` pairs, in place of `max.connections.per.ip`.
        "max.connections.per.ip.overrides": String = Some(""), Any, Medium, ClusterWide, Honoured;

        /// Connections to this broker altogether. The form for one listener, `listener.name.<name>.max.connections`, is
        /// refused: it is not enforced yet.
        "max.connections": Int = Some("2147483647"), AtLeast(0), Medium, ClusterWide, Honoured;

        /// New connections per second that the broker accepts; the rest waits.
        "max.connection.creation.rate": Int = Some("2147483647"), AtLeast(0), Medium, ClusterWide, Refused(ConnectionLimit);

        /// A connection without traffic for this long is closed; negative means never.
        "connections.max.idle.ms": Long = Some("600000"), Any, Medium, ReadOnly, Honoured;

        /// Requests that Kafka lets wait for a handler thread. Here a connection's requests run on its own reactor and no
        /// shared queue exists.
        "queued.max.requests": Int = Some("500"), AtLeast(1), High, ReadOnly, Inert;

        /// Bytes of requests being received or handled at one time over all connections, after which no more is read; -1
        /// means no such bound.
        "queued.max.request.bytes": Long = Some("-1"), Any, Medium, ReadOnly, Honoured;

        /// Threads that move bytes in Kafka. Set `barnabas.reactors` instead: here one thread per core serves a request
        /// from end to end.
        "num.network.threads": Int = Some("3"), AtLeast(1), High, ClusterWide, Inert;

        /// How many finished fetches Kafka keeps before it sweeps its waiting list. Ours holds none.
        "fetch.purgatory.purge.interval.requests": Int = Some("1000"), Any, Medium, ReadOnly, Inert;

        /// How many finished produce requests Kafka keeps before it sweeps its waiting list. Ours holds none.
        "producer.purgatory.purge.interval.requests": Int = Some("1000"), Any, Medium, ReadOnly, Inert;

        /// How many finished DeleteRecords requests Kafka keeps before it sweeps its waiting list. Ours holds none.
        "delete.records.purgatory.purge.interval.requests": Int = Some("1"), Any, Medium, ReadOnly, Inert;

        /// How many finished share fetches Kafka keeps before it sweeps its waiting list. Ours holds none.
        "share.fetch.purgatory.purge.interval.requests": Int = Some("1000"), Any, Medium, ReadOnly, Inert, newer;
    },
};
