//! A fetcher's link to the broker that it follows, by socket: whoever waits blocks its thread.

use super::fetchers::Address;
use super::link::{ConnectionSettings, ExchangeFailure, Link, Waiting};
use bytes::Bytes;
use mio::{Events, Interest, Poll, Token, Waker};
use model::Instant;
use protocol::Segment;
use rustix::buffer::spare_capacity;
use rustix::net::RecvFlags;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Write};
use std::net::ToSocketAddrs;
use std::os::fd::AsFd;
use tracing::warn;

/// The token under which messages to the thread arrive.
pub(super) const MESSAGE: Token = Token(0);
const SOCKET: Token = Token(1);

/// What is made room for at a time: the length of an answer is only the leader's word.
const STEP: usize = 1 << 20;

/// Length of a frame's length.
const PREFIX: usize = 4;

/// Room for the beginning of an answer, and for all of one that has nothing to tell.
const FIRST_READ: usize = 4 << 10;

/// The buffer of a connection whose answers are small is not kept larger than this.
const SMALL_BUFFER: usize = 64 << 10;

/// A link by socket.
#[derive(Debug)]
pub(super) struct SocketLink {
    poll: Poll,
    events: Events,
    stream: Option<mio::net::TcpStream>,
    /// The room for the next answer.
    spare: Vec<u8>,
}

impl SocketLink {
    /// A link that is not connected, and what wakes who waits on it.
    ///
    /// # Errors
    /// The system refuses a poll.
    pub(super) fn new() -> io::Result<(Self, Waker)> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), MESSAGE)?;
        let events = Events::with_capacity(8);
        Ok((Self { poll, events, stream: None, spare: Vec::new() }, waker))
    }

    fn stream(&mut self) -> io::Result<&mut mio::net::TcpStream> {
        self.stream.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    fn connect(
        &mut self,
        address: &Address,
        settings: &ConnectionSettings,
        waiting: &mut Waiting<'_>,
    ) -> Result<(), ExchangeFailure> {
        let found = (address.host.as_str(), address.port).to_socket_addrs()?.next();
        let address = found.ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "the broker's host has no address")
        })?;
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        if let Some(bytes) = settings.receive_buffer_bytes {
            socket.set_recv_buffer_size(bytes)?;
        }
        socket.set_tcp_nodelay(true)?;
        match socket.connect(&address.into()) {
            Ok(()) => {}
            Err(error)
                if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
            Err(error) => return Err(error.into()),
        }
        let mut stream = mio::net::TcpStream::from_std(socket.into());
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, SOCKET, interest)?;
        self.stream = Some(stream);
        let deadline = waiting.clock.now() + settings.timeout;
        loop {
            self.wait(waiting, deadline, false)?;
            let stream = self.stream()?;
            if let Some(error) = stream.take_error()? {
                return Err(error.into());
            }
            match stream.peer_addr() {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn send(
        &mut self,
        mut bytes: &[u8],
        deadline: Instant,
        waiting: &mut Waiting<'_>,
    ) -> Result<(), ExchangeFailure> {
        while !bytes.is_empty() {
            match self.stream()?.write(bytes) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(waiting, deadline, false)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The next frame, without its length. Room is made as bytes arrive.
    fn receive(
        &mut self,
        deadline: Instant,
        waiting: &mut Waiting<'_>,
    ) -> Result<Bytes, ExchangeFailure> {
        let malformed = |what: &str| ExchangeFailure::Malformed(what.to_owned());
        let mut buffer = std::mem::take(&mut self.spare);
        buffer.clear();
        loop {
            let room = match buffer.first_chunk::<PREFIX>() {
                None => FIRST_READ,
                Some(&length) => {
                    let length = usize::try_from(i32::from_be_bytes(length))
                        .map_err(|_| malformed("its length is negative"))?;
                    match (PREFIX + length).checked_sub(buffer.len()) {
                        None => return Err(malformed("there is more than was asked for")),
                        Some(0) => return Ok(Bytes::from(buffer).slice(PREFIX..)),
                        Some(left) => left.min(STEP),
                    }
                }
            };
            if buffer.capacity() - buffer.len() < room {
                buffer.reserve(room);
            }
            let room = spare_capacity(&mut buffer);
            match rustix::net::recv(self.stream()?.as_fd(), room, RecvFlags::empty()) {
                Ok((0, _)) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let may_give_up = buffer.is_empty();
                    self.wait(waiting, deadline, may_give_up)?;
                }
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }

    /// Waits until the socket has news. While `may_give_up`, an urgent message ends the wait.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] at `deadline`; [`ExchangeFailure::Interrupted`].
    fn wait(
        &mut self,
        waiting: &mut Waiting<'_>,
        deadline: Instant,
        may_give_up: bool,
    ) -> Result<(), ExchangeFailure> {
        loop {
            let (now, until) = waiting.until(deadline, may_give_up)?;
            match self.poll.poll(&mut self.events, Some(until.since(now))) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
            }
            if self.events.iter().any(|event| event.token() == SOCKET) {
                return Ok(());
            }
        }
    }
}

impl Link for SocketLink {
    async fn open(
        &mut self,
        address: &Address,
        settings: &ConnectionSettings,
        waiting: &mut Waiting<'_>,
    ) -> Result<(), ExchangeFailure> {
        self.connect(address, settings, waiting)
    }

    async fn round_trip(
        &mut self,
        frame: Vec<Segment>,
        deadline: Instant,
        waiting: &mut Waiting<'_>,
    ) -> Result<Bytes, ExchangeFailure> {
        for segment in frame {
            match segment {
                Segment::Bytes(bytes) => self.send(&bytes, deadline, waiting)?,
                Segment::File(_) => unreachable!("a follower sends no records"),
            }
        }
        self.receive(deadline, waiting)
    }

    async fn sleep(&mut self, waiting: &mut Waiting<'_>, until: Option<Instant>) {
        loop {
            let now = waiting.clock.now();
            if (waiting.has_mail)() || until.is_some_and(|until| until <= now) {
                return;
            }
            let timeout = until.map(|until| until.since(now));
            if let Err(error) = self.poll.poll(&mut self.events, timeout)
                && error.kind() != io::ErrorKind::Interrupted
            {
                warn!(%error, "a replica fetcher cannot sleep");
                return;
            }
        }
    }

    fn reclaim(&mut self, frame: Bytes) {
        let was_small = frame.len() < SMALL_BUFFER;
        if let Ok(buffer) = frame.try_into_mut() {
            let buffer = Vec::from(buffer);
            // After a quiet answer a large buffer would be held for nothing.
            if !was_small || buffer.capacity() <= SMALL_BUFFER {
                self.spare = buffer;
            }
        }
    }

    fn close(&mut self) {
        if let Some(mut stream) = self.stream.take() {
            // It fails only for a socket that is not registered.
            self.poll.registry().deregister(&mut stream).ok();
        }
        self.spare = Vec::new();
    }
}
