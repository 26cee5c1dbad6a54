//! Sockets, connections and request queues.

use crate::config::values::Values;
use std::collections::BTreeMap;
use std::time::Duration;

/// Sockets, connections and request queues. Sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkSettings {
    /// `barnabas.reactors`; `None` means one per core.
    pub reactors: Option<usize>,
    /// `socket.send.buffer.bytes`; `None` leaves the system's default.
    pub send_buffer_bytes: Option<usize>,
    /// `socket.receive.buffer.bytes`; `None` leaves the system's default.
    pub receive_buffer_bytes: Option<usize>,
    /// `socket.request.max.bytes`: a longer frame closes its connection.
    pub request_max_bytes: usize,
    /// `socket.listen.backlog.size`
    pub listen_backlog: u32,
    /// `connections.max.idle.ms`; `None` means for ever.
    pub connections_max_idle: Option<Duration>,
    /// `max.connections` of the whole broker.
    pub max_connections: usize,
    /// `max.connections.per.ip`
    pub max_connections_per_ip: usize,
    /// `max.connections.per.ip.overrides`, by host name or address.
    pub max_connections_per_ip_overrides: BTreeMap<String, usize>,
    /// `queued.max.request.bytes`; `None` means no bound.
    pub queued_max_request_bytes: Option<u64>,
    /// `fetch.max.bytes`: bound of one fetch response.
    pub fetch_max_bytes: i32,
    /// `max.incremental.fetch.session.cache.slots`
    pub fetch_session_cache_slots: usize,
}

impl NetworkSettings {
    pub(in crate::config) fn read(values: &Values) -> Self {
        let buffer = |name| usize::try_from(values.i32(name)).ok();
        Self {
            reactors: usize::try_from(values.i32("barnabas.reactors"))
                .ok()
                .filter(|&count| count > 0),
            send_buffer_bytes: buffer("socket.send.buffer.bytes"),
            receive_buffer_bytes: buffer("socket.receive.buffer.bytes"),
            request_max_bytes: values.size("socket.request.max.bytes"),
            listen_backlog: values.u32("socket.listen.backlog.size"),
            connections_max_idle: values.millis_or_never("connections.max.idle.ms"),
            max_connections: values.size("max.connections"),
            max_connections_per_ip: values.size("max.connections.per.ip"),
            max_connections_per_ip_overrides: parse_overrides(
                &values.text("max.connections.per.ip.overrides").unwrap_or_default(),
            )
            .unwrap_or_default(),
            queued_max_request_bytes: u64::try_from(values.i64("queued.max.request.bytes"))
                .ok()
                .filter(|&bytes| bytes > 0),
            fetch_max_bytes: values.i32("fetch.max.bytes"),
            fetch_session_cache_slots: values.size("max.incremental.fetch.session.cache.slots"),
        }
    }
}

/// `host1:100,host2:0`; `None` if it is not of that form.
pub(in crate::config) fn parse_overrides(text: &str) -> Option<BTreeMap<String, usize>> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(|item| {
            let (host, count) = item.rsplit_once(':')?;
            Some((host.trim().to_owned(), count.trim().parse::<usize>().ok()?))
        })
        .collect()
}
