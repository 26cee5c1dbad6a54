//! Listening sockets: who may connect, and how many.

use crate::inbox::{Inbox, News};
use crate::reactor::Accepted;
use crate::stream::Stream;
use mio::{Events, Interest, Poll, Token};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::{debug, error, info, warn};

/// A named listener, as clients and other brokers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its name, such as `PLAINTEXT`.
    pub name: String,
    /// Where it is bound.
    pub bound: SocketAddr,
    /// The host that metadata gives to clients of this listener.
    pub advertised_host: String,
    /// The port that goes with it.
    pub advertised_port: u16,
}

impl Listener {
    /// `host:port` as clients are told, an IPv6 address in brackets.
    #[must_use]
    pub fn advertised(&self) -> String {
        model::host_and_port(&self.advertised_host, self.advertised_port)
    }
}

/// What a listening socket is opened with. Sizes in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SocketSettings {
    /// `socket.send.buffer.bytes`; `None` leaves the system's default.
    pub send_buffer_bytes: Option<usize>,
    /// `socket.receive.buffer.bytes`; `None` leaves the system's default.
    pub receive_buffer_bytes: Option<usize>,
    /// `socket.listen.backlog.size`
    pub backlog: u32,
}

/// Opens the listening socket for `address`.
///
/// # Errors
/// The system's error, such as `AddrInUse`.
pub(crate) fn bind(
    address: SocketAddr,
    settings: SocketSettings,
) -> io::Result<std::net::TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, Some(socket2::Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // As Java does: the unspecified IPv6 address takes IPv4 too.
        socket.set_only_v6(false)?;
    }
    if let Some(bytes) = settings.receive_buffer_bytes {
        // Before listen: the window scale is settled when a connection comes in.
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(settings.backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

/// How many connections there may be.
#[derive(Clone, Debug)]
pub struct ConnectionLimits {
    /// `max.connections`: at the limit nothing is accepted until a connection goes.
    pub total: usize,
    /// `max.connections.per.ip`: one too many is closed at once.
    pub per_ip: usize,
    /// `max.connections.per.ip.overrides`, resolved.
    pub per_ip_overrides: HashMap<IpAddr, usize>,
}

/// Counts connections; shared by the acceptor and the connections.
#[derive(Debug)]
pub(crate) struct Admissions {
    limits: ConnectionLimits,
    total: AtomicUsize,
    per_ip: Mutex<HashMap<IpAddr, usize>>,
    /// Whether the acceptor waits for a connection to go.
    full: AtomicBool,
    waker: OnceLock<mio::Waker>,
}

impl Admissions {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            total: AtomicUsize::new(0),
            per_ip: Mutex::default(),
            full: AtomicBool::new(false),
            waker: OnceLock::new(),
        })
    }

    fn is_full(&self) -> bool {
        self.full.store(true, Ordering::SeqCst);
        let full = self.total.load(Ordering::SeqCst) >= self.limits.total;
        if !full {
            self.full.store(false, Ordering::SeqCst);
        }
        full
    }

    /// Counts a connection from `ip`; `None` if there are too many from there.
    fn admit(self: &Arc<Self>, ip: IpAddr) -> Option<Admission> {
        // An IPv4 client of an IPv6 socket is an IPv4 client.
        let ip = ip.to_canonical();
        let limit = *self.limits.per_ip_overrides.get(&ip).unwrap_or(&self.limits.per_ip);
        let mut per_ip = self.per_ip.lock();
        let count = per_ip.entry(ip).or_default();
        if *count >= limit {
            if *count == 0 {
                per_ip.remove(&ip);
            }
            return None;
        }
        *count += 1;
        self.total.fetch_add(1, Ordering::SeqCst);
        Some(Admission { admissions: Arc::clone(self), ip })
    }
}

/// One counted connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct Admission {
    admissions: Arc<Admissions>,
    ip: IpAddr,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let Admissions { total, per_ip, full, waker, .. } = &*self.admissions;
        total.fetch_sub(1, Ordering::SeqCst);
        let mut per_ip = per_ip.lock();
        if let Some(count) = per_ip.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                per_ip.remove(&self.ip);
            }
        }
        if full.swap(false, Ordering::SeqCst)
            && let Some(waker) = waker.get()
        {
            drop(waker.wake());
        }
    }
}

/// Accepts connections and hands each to the reactor with the fewest.
#[derive(Debug)]
pub(crate) struct Acceptor {
    poll: Poll,
    sockets: Vec<(mio::net::TcpListener, Arc<Listener>)>,
    settings: SocketSettings,
    doors: Doors,
    stopped: Arc<AtomicBool>,
}

/// Where connections come in, whoever accepts them.
#[derive(Clone, Debug)]
pub(crate) struct Doors {
    pub(crate) admissions: Arc<Admissions>,
    pub(crate) reactors: Vec<ReactorDoor>,
}

impl Doors {
    /// Hands a connection to the reactor with the fewest, unless there are too many from where it comes.
    pub(crate) fn let_in(&self, stream: Stream, peer: SocketAddr, listener: &Arc<Listener>) {
        let Some(admission) = self.admissions.admit(peer.ip()) else {
            info!(%peer, listener = %listener.name, "connection refused: max.connections.per.ip");
            return;
        };
        let door = self
            .reactors
            .iter()
            .min_by_key(|door| door.load.load(Ordering::Relaxed))
            .expect("there is at least one reactor");
        door.load.fetch_add(1, Ordering::Relaxed);
        let accepted = Accepted { stream, peer, listener: Arc::clone(listener), admission };
        door.inbox.send(News::Accepted(accepted));
    }
}

/// How the acceptor reaches a reactor.
#[derive(Clone, Debug)]
pub(crate) struct ReactorDoor {
    pub(crate) inbox: Arc<Inbox>,
    /// Connections that it looks after.
    pub(crate) load: Arc<AtomicUsize>,
}

/// Ends an acceptor.
#[derive(Debug)]
pub(crate) struct AcceptorStop {
    stopped: Arc<AtomicBool>,
    admissions: Arc<Admissions>,
}

impl AcceptorStop {
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(waker) = self.admissions.waker.get() {
            drop(waker.wake());
        }
    }
}

const WAKE: Token = Token(usize::MAX);

/// Pause after an error that will not go away at once, such as too many open files.
const BACK_OFF: Duration = Duration::from_millis(100);

impl Acceptor {
    pub(crate) fn new(
        sockets: Vec<(std::net::TcpListener, Arc<Listener>)>,
        settings: SocketSettings,
        doors: Doors,
    ) -> io::Result<(Self, AcceptorStop)> {
        let poll = Poll::new()?;
        // The admissions belong to this acceptor alone, so the cell is empty.
        drop(doors.admissions.waker.set(mio::Waker::new(poll.registry(), WAKE)?));
        let mut registered = Vec::new();
        for (at, (socket, listener)) in sockets.into_iter().enumerate() {
            let mut socket = mio::net::TcpListener::from_std(socket);
            poll.registry().register(&mut socket, Token(at), Interest::READABLE)?;
            registered.push((socket, listener));
        }
        let stopped = Arc::new(AtomicBool::new(false));
        let admissions = Arc::clone(&doors.admissions);
        let stop = AcceptorStop { stopped: Arc::clone(&stopped), admissions };
        Ok((Self { poll, sockets: registered, settings, doors, stopped }, stop))
    }

    /// Accepts until it is stopped.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(64);
        let mut back_off = None;
        while !self.stopped.load(Ordering::SeqCst) {
            if let Err(error) = self.poll.poll(&mut events, back_off)
                && error.kind() != io::ErrorKind::Interrupted
            {
                error!(%error, "cannot wait for connections");
                return;
            }
            // Which socket was ready does not matter: all are asked, since events are edges.
            back_off = (0..self.sockets.len()).filter_map(|at| self.accept_all(at)).min();
        }
    }

    /// Accepts what waits; returns how long to wait after an error.
    fn accept_all(&self, at: usize) -> Option<Duration> {
        let (socket, listener) = &self.sockets[at];
        while !self.stopped.load(Ordering::SeqCst) && !self.doors.admissions.is_full() {
            match socket.accept() {
                Ok((stream, peer)) => self.hand_over(stream, peer, listener),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The client gave up before we came to it.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    warn!(%error, listener = %listener.name, "cannot accept a connection");
                    return Some(BACK_OFF);
                }
            }
        }
        None
    }

    fn hand_over(&self, stream: mio::net::TcpStream, peer: SocketAddr, listener: &Arc<Listener>) {
        if let Err(error) = self.set_options(&stream) {
            debug!(%peer, %error, "the client was gone before it was served");
            return;
        }
        self.doors.let_in(Stream::Socket(stream), peer, listener);
    }

    fn set_options(&self, stream: &mio::net::TcpStream) -> io::Result<()> {
        let socket = socket2::SockRef::from(stream);
        socket.set_tcp_nodelay(true)?;
        socket.set_keepalive(true)?;
        if let Some(bytes) = self.settings.send_buffer_bytes {
            socket.set_send_buffer_size(bytes)?;
        }
        Ok(())
    }
}
