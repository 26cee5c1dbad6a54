//! A network between hosts: streams of bytes that are delayed, stall while a link is cut, and are reset.
//!
//! It behaves as TCP does, seen from above: bytes arrive in order or not at all; what is sent while a link is cut
//! arrives after it was mended; a process that ends closes its connections, a machine that loses power says
//! nothing until it is back. Between connections there is no order.

use crate::scheduler::Scheduler;
use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use platform::Random;
use platform::network::{ByteStream, Connecting, VirtualNetwork};
use platform::random::SeededRandom;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// The port that everybody listens on.
pub const PORT: u16 = 9092;

/// How often a connection is tried again that nobody answers.
const SYN_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A machine on the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u8);

impl HostId {
    /// Its address.
    #[must_use]
    pub fn ip(self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, self.0))
    }

    /// Where its process listens, as `host:port`.
    #[must_use]
    pub fn address(self) -> String {
        format!("{}:{PORT}", self.ip())
    }
}

/// How long bytes are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// At least.
    pub least: Duration,
    /// At most, ordinarily.
    pub most: Duration,
    /// Of a thousand, how many are late.
    pub late_of_1000: u64,
    /// How late those are at most.
    pub latest: Duration,
}

type Listen = Arc<dyn Fn(Box<dyn ByteStream>, SocketAddr) + Send + Sync>;

/// The network; clones share it.
#[derive(Clone)]
pub struct Network(Arc<Shared>);

struct Shared {
    scheduler: Scheduler,
    random: SeededRandom,
    state: Mutex<State>,
}

struct State {
    delays: Delays,
    listeners: BTreeMap<HostId, Listen>,
    /// Machines without power.
    dark: BTreeSet<HostId>,
    /// Links, from and to, over which nothing comes.
    cut: BTreeSet<(HostId, HostId)>,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    next_port: u16,
    sent: u64,
}

struct Connection {
    /// Who connected, and to whom.
    hosts: [HostId; 2],
    /// What comes to either end.
    ends: [End; 2],
}

#[derive(Default)]
struct End {
    /// Sent to it and not arrived.
    under_way: VecDeque<Item>,
    /// Deliveries that came to a cut link.
    stalled: usize,
    /// When the last delivery is due.
    last_due: Duration,
    arrived: VecDeque<Bytes>,
    closed: Option<Closed>,
    reader: Option<Waker>,
    /// The process has let go of it.
    is_dropped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closed {
    /// The other side closed.
    End,
    /// The connection is no more.
    Reset,
}

enum Item {
    Bytes(Bytes),
    Closed(Closed),
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").finish_non_exhaustive()
    }
}

impl Network {
    /// A network without hosts.
    #[must_use]
    pub fn new(scheduler: Scheduler, seed: u64, delays: Delays) -> Self {
        let state = State {
            delays,
            listeners: BTreeMap::new(),
            dark: BTreeSet::new(),
            cut: BTreeSet::new(),
            connections: BTreeMap::new(),
            next_connection: 0,
            next_port: 10_000,
            sent: 0,
        };
        let random = SeededRandom::new(seed);
        Self(Arc::new(Shared { scheduler, random, state: Mutex::new(state) }))
    }

    /// What a process on `host` connects through.
    #[must_use]
    pub fn at(&self, host: HostId) -> platform::Network {
        platform::Network::Virtual(Arc::new(AtHost { network: self.clone(), host }))
    }

    /// From now on connections to `host` come to `listen`.
    pub fn listen(
        &self,
        host: HostId,
        listen: impl Fn(Box<dyn ByteStream>, SocketAddr) + Send + Sync + 'static,
    ) {
        let before = self.0.state.lock().listeners.insert(host, Arc::new(listen));
        drop(before);
    }

    /// The process on `host` has ended: its connections are reset, new ones refused.
    pub fn process_ended(&self, host: HostId) {
        let listener = self.0.state.lock().listeners.remove(&host);
        drop(listener);
        for (number, end) in self.ends_at(host) {
            self.send(number, 1 - end, Item::Closed(Closed::Reset));
            self.forget(number, end);
        }
    }

    /// `host` has lost power: nothing is heard of it any more.
    pub fn power_off(&self, host: HostId) {
        let listener = {
            let mut state = self.0.state.lock();
            state.dark.insert(host);
            state.listeners.remove(&host)
        };
        drop(listener);
        for (number, end) in self.ends_at(host) {
            self.forget(number, end);
        }
    }

    /// `host` is back: what is sent to it on old connections resets them.
    pub fn power_on(&self, host: HostId) {
        self.0.state.lock().dark.remove(&host);
        for (number, end) in self.ends_at(host) {
            self.send(number, 1 - end, Item::Closed(Closed::Reset));
        }
    }

    /// Nothing comes from `from` to `to` any more.
    pub fn cut(&self, from: HostId, to: HostId) {
        self.0.state.lock().cut.insert((from, to));
    }

    /// All links are whole again: what was sent meanwhile arrives.
    pub fn mend_all(&self) {
        self.0.state.lock().cut.clear();
        self.go_on();
    }

    /// One link is whole again.
    pub fn mend(&self, from: HostId, to: HostId) {
        self.0.state.lock().cut.remove(&(from, to));
        self.go_on();
    }

    /// Resets a connection that the seed chooses. Whether there was one.
    pub fn reset_one(&self) -> bool {
        let open: Vec<u64> = self.0.state.lock().connections.keys().copied().collect();
        let Some(&number) = open.get(self.index_below(open.len())) else { return false };
        for end in [0, 1] {
            self.send(number, end, Item::Closed(Closed::Reset));
        }
        true
    }

    /// From now on bytes are so long under way.
    pub fn set_delays(&self, delays: Delays) {
        self.0.state.lock().delays = delays;
    }

    /// How many pieces were sent.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.0.state.lock().sent
    }

    fn index_below(&self, count: usize) -> usize {
        usize::try_from(self.0.random.below(count as u64)).expect("an index")
    }

    fn ends_at(&self, host: HostId) -> Vec<(u64, usize)> {
        let state = self.0.state.lock();
        let both = |(&number, connection): (&u64, &Connection)| {
            [0, 1].map(|end| (connection.hosts[end] == host).then_some((number, end)))
        };
        state.connections.iter().flat_map(both).flatten().collect()
    }

    /// Deliveries that came to a link that was cut are made once more.
    fn go_on(&self) {
        let stalled: Vec<(u64, usize, usize)> = {
            let mut state = self.0.state.lock();
            let State { connections, cut, .. } = &mut *state;
            let mut found = Vec::new();
            for (&number, connection) in connections {
                for end in [0, 1] {
                    let link = (connection.hosts[1 - end], connection.hosts[end]);
                    if !cut.contains(&link) && connection.ends[end].stalled > 0 {
                        let count = std::mem::take(&mut connection.ends[end].stalled);
                        found.push((number, end, count));
                    }
                }
            }
            found
        };
        for (number, end, count) in stalled {
            for _ in 0..count {
                self.deliver_later(number, end);
            }
        }
    }

    fn delay(&self) -> Duration {
        let delays = self.0.state.lock().delays;
        let between = |least: Duration, most: Duration| {
            let span = u64::try_from(most.saturating_sub(least).as_millis()).unwrap_or(u64::MAX);
            least + Duration::from_millis(self.0.random.below(span + 1))
        };
        match self.0.random.below(1000) < delays.late_of_1000 {
            true => between(delays.most, delays.latest),
            false => between(delays.least, delays.most),
        }
    }

    /// Sends `item` to one end of a connection.
    fn send(&self, number: u64, end: usize, item: Item) {
        {
            let mut state = self.0.state.lock();
            state.sent += 1;
            let State { connections, dark, .. } = &mut *state;
            let Some(connection) = connections.get_mut(&number) else { return };
            // A machine without power sends nothing, whoever drops its connections.
            if connection.ends[end].is_dropped || dark.contains(&connection.hosts[1 - end]) {
                return;
            }
            connection.ends[end].under_way.push_back(item);
        }
        self.deliver_later(number, end);
    }

    fn deliver_later(&self, number: u64, end: usize) {
        let (now, delay) = (self.0.scheduler.elapsed(), self.delay());
        let due = {
            let mut state = self.0.state.lock();
            let Some(connection) = state.connections.get_mut(&number) else { return };
            let end = &mut connection.ends[end];
            // In order.
            end.last_due = end.last_due.max(now + delay);
            end.last_due
        };
        let network = self.clone();
        self.0.scheduler.after(due - now, move || network.deliver(number, end));
    }

    fn deliver(&self, number: u64, end: usize) {
        let reader = {
            let mut state = self.0.state.lock();
            let State { connections, cut, .. } = &mut *state;
            let Some(connection) = connections.get_mut(&number) else { return };
            let link = (connection.hosts[1 - end], connection.hosts[end]);
            let end = &mut connection.ends[end];
            if cut.contains(&link) {
                end.stalled += 1;
                return;
            }
            match end.under_way.pop_front() {
                Some(Item::Bytes(bytes)) if end.closed.is_none() => end.arrived.push_back(bytes),
                Some(Item::Closed(Closed::Reset)) => {
                    end.arrived.clear();
                    end.closed = Some(Closed::Reset);
                }
                Some(Item::Closed(Closed::End)) => {
                    end.closed.get_or_insert(Closed::End);
                }
                Some(Item::Bytes(_)) | None => {}
            }
            end.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// A process has let go of its end.
    fn forget(&self, number: u64, end: usize) {
        let mut state = self.0.state.lock();
        let Some(connection) = state.connections.get_mut(&number) else { return };
        let own = &mut connection.ends[end];
        own.is_dropped = true;
        own.under_way.clear();
        own.arrived.clear();
        let reader = own.reader.take();
        if connection.ends.iter().all(|end| end.is_dropped) {
            state.connections.remove(&number);
        }
        drop(state);
        drop(reader);
    }

    /// Tries to connect until somebody says yes or no, or nobody waits any more.
    fn try_connect(
        &self,
        from: HostId,
        to: HostId,
        asked: oneshot::Sender<io::Result<Box<dyn ByteStream>>>,
    ) {
        if asked.is_closed() {
            return;
        }
        let there_and_back = self.delay() + self.delay();
        let network = self.clone();
        let mut state = self.0.state.lock();
        let is_cut = state.cut.contains(&(from, to)) || state.cut.contains(&(to, from));
        if is_cut || state.dark.contains(&to) || state.dark.contains(&from) {
            drop(state);
            let again = move || network.try_connect(from, to, asked);
            self.0.scheduler.after(SYN_AGAIN_AFTER, again);
            return;
        }
        let Some(listen) = state.listeners.get(&to).cloned() else {
            drop(state);
            let refuse = move || drop(asked.send(Err(io::ErrorKind::ConnectionRefused.into())));
            self.0.scheduler.after(there_and_back, refuse);
            return;
        };
        let number = state.next_connection;
        state.next_connection += 1;
        state.next_port = state.next_port.checked_add(1).unwrap_or(10_000);
        let peer = SocketAddr::new(from.ip(), state.next_port);
        let ends = [End::default(), End::default()];
        state.connections.insert(number, Connection { hosts: [from, to], ends });
        drop(state);
        let stream = |end| Box::new(Stream { network: self.clone(), number, end });
        let (ours, theirs) = (stream(0), stream(1));
        self.0.scheduler.after(there_and_back / 2, move || listen(theirs, peer));
        self.0.scheduler.after(there_and_back, move || drop(asked.send(Ok(ours))));
    }
}

#[derive(Debug)]
struct AtHost {
    network: Network,
    host: HostId,
}

impl VirtualNetwork for AtHost {
    fn connect(&self, address: &str) -> Connecting {
        let octet = address.strip_prefix("10.0.0.").and_then(|rest| rest.split(':').next());
        let Some(to) = octet.and_then(|octet| octet.parse().ok()).map(HostId) else {
            let error = io::Error::new(io::ErrorKind::NotFound, format!("no host {address}"));
            return Box::pin(std::future::ready(Err(error)));
        };
        let (asked, answer) = oneshot::channel();
        let (network, from) = (self.network.clone(), self.host);
        let delay = network.delay();
        let trying = network.clone();
        network.0.scheduler.after(delay, move || trying.try_connect(from, to, asked));
        Box::pin(async move {
            answer.await.unwrap_or_else(|_| Err(io::ErrorKind::ConnectionAborted.into()))
        })
    }
}

/// One end of a connection.
struct Stream {
    network: Network,
    number: u64,
    end: usize,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({}.{})", self.number, self.end)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.network.0.state.lock();
        let reset = || Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        let Some(connection) = state.connections.get_mut(&self.number) else { return reset() };
        let end = &mut connection.ends[self.end];
        if let Some(bytes) = end.arrived.front_mut() {
            let length = bytes.len().min(into.remaining());
            into.put_slice(&bytes[..length]);
            bytes.advance(length);
            if bytes.is_empty() {
                end.arrived.pop_front();
            }
            return Poll::Ready(Ok(()));
        }
        match end.closed {
            Some(Closed::End) => Poll::Ready(Ok(())),
            Some(Closed::Reset) => reset(),
            None if end.is_dropped => reset(),
            None => {
                end.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        {
            let state = self.network.0.state.lock();
            let open = state.connections.get(&self.number).map(|c| &c.ends[self.end]);
            if open.is_none_or(|end| end.closed == Some(Closed::Reset) || end.is_dropped) {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
        }
        let item = Item::Bytes(Bytes::copy_from_slice(bytes));
        self.network.send(self.number, 1 - self.end, item);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.network.send(self.number, 1 - self.end, Item::Closed(Closed::End));
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.network.send(self.number, 1 - self.end, Item::Closed(Closed::End));
        self.network.forget(self.number, self.end);
    }
}
