//! One thread's connection to the broker that it follows: a request, its answer, one at a time.

use bytes::Bytes;
use bytestring::ByteString;
use mio::{Events, Interest, Poll, Token};
use model::Instant;
use platform::Clock;
use protocol::{Message, Reader, Request, RequestHeader, Segment, Writer, decode_response_header};
use rustix::buffer::spare_capacity;
use rustix::net::RecvFlags;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Duration;

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

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExchangeFailure {
    /// The connection is of no use any more.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The answer is not one.
    #[error("the answer cannot be read: {0}")]
    Malformed(String),
    /// What the caller waits for elsewhere is more urgent.
    #[error("given up for a message")]
    Interrupted,
}

/// What a message means to somebody who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Urgency {
    /// It can wait.
    None,
    /// If the answer has not begun by then it is given up.
    By(Instant),
    /// Now.
    Now,
}

/// How to connect.
#[derive(Clone, Debug)]
pub(super) struct ConnectionSettings {
    /// The client id in every request.
    pub(super) client_id: ByteString,
    /// How long connecting, and an answer, may take.
    pub(super) timeout: Duration,
    /// The socket's receive buffer; `None` leaves it to the system.
    pub(super) receive_buffer_bytes: Option<usize>,
}

/// A connection. Closed when dropped.
#[derive(Debug)]
pub(super) struct LeaderConnection {
    stream: mio::net::TcpStream,
    settings: ConnectionSettings,
    correlation_id: i32,
    /// The room for the next answer.
    spare: Vec<u8>,
}

/// Where the thread waits.
pub(super) struct Waiting<'a> {
    pub(super) poll: &'a mut Poll,
    pub(super) events: &'a mut Events,
    pub(super) clock: &'a dyn Clock,
    /// Asked whenever a message came.
    pub(super) urgency: &'a mut dyn FnMut() -> Urgency,
}

impl LeaderConnection {
    /// Connects to `address`.
    ///
    /// # Errors
    /// [`ExchangeFailure`].
    pub(super) fn open(
        address: SocketAddr,
        settings: ConnectionSettings,
        waiting: &mut Waiting<'_>,
    ) -> Result<Self, ExchangeFailure> {
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
        waiting.poll.registry().register(&mut stream, SOCKET, interest)?;
        let deadline = waiting.clock.now() + settings.timeout;
        let connection = Self { stream, settings, correlation_id: 0, spare: Vec::new() };
        loop {
            waiting.wait(deadline, false)?;
            if let Some(error) = connection.stream.take_error()? {
                return Err(error.into());
            }
            match connection.stream.peer_addr() {
                Ok(_) => return Ok(connection),
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends `request` in `version` and returns its answer, and the frame that holds the answer's bytes:
    /// [`Self::reclaim`] it when the answer is dropped.
    ///
    /// # Errors
    /// [`ExchangeFailure`]: then the connection must be closed.
    pub(super) fn exchange<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        waiting: &mut Waiting<'_>,
    ) -> Result<(R::Response, Bytes), ExchangeFailure> {
        self.correlation_id = self.correlation_id.checked_add(1).unwrap_or(0);
        let header = RequestHeader {
            api_key: R::KEY,
            api_version: version,
            correlation_id: self.correlation_id,
            client_id: Some(self.settings.client_id.clone()),
        };
        let mut writer = Writer::new_frame();
        let frame = header
            .encode(&mut writer)
            .and_then(|()| request.encode(&mut writer, version))
            .and_then(|()| writer.finish_frame())
            .map_err(|error| ExchangeFailure::Malformed(error.to_string()))?;
        let deadline = waiting.clock.now() + self.settings.timeout;
        for segment in frame {
            match segment {
                Segment::Bytes(bytes) => self.send(&bytes, deadline, waiting)?,
                Segment::File(_) => unreachable!("a follower sends no records"),
            }
        }
        let frame = self.receive(deadline, waiting)?;
        let malformed =
            |error: protocol::DecodeError| ExchangeFailure::Malformed(error.to_string());
        let mut reader = Reader::new(frame.clone());
        let id = decode_response_header(&mut reader, R::KEY, version).map_err(malformed)?;
        if id != self.correlation_id {
            return Err(ExchangeFailure::Malformed("it answers another request".to_owned()));
        }
        let answer = R::Response::decode(&mut reader, version).map_err(malformed)?;
        Ok((answer, frame))
    }

    fn send(
        &mut self,
        mut bytes: &[u8],
        deadline: Instant,
        waiting: &mut Waiting<'_>,
    ) -> Result<(), ExchangeFailure> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    waiting.wait(deadline, false)?;
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
            match rustix::net::recv(self.stream.as_fd(), room, RecvFlags::empty()) {
                Ok((0, _)) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => waiting.wait(deadline, buffer.is_empty())?,
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }

    /// Keeps the buffer of an answer for the next one, if nobody holds a part of it.
    pub(super) fn reclaim(&mut self, frame: Bytes) {
        let was_small = frame.len() < SMALL_BUFFER;
        if let Ok(buffer) = frame.try_into_mut() {
            let buffer = Vec::from(buffer);
            // After a quiet answer a large buffer would be held for nothing.
            if !was_small || buffer.capacity() <= SMALL_BUFFER {
                self.spare = buffer;
            }
        }
    }

    /// Stops being polled; to be called before it is dropped.
    pub(super) fn close(mut self, poll: &Poll) {
        // It fails only for a socket that is not registered.
        poll.registry().deregister(&mut self.stream).ok();
    }
}

impl Waiting<'_> {
    /// Waits until the socket has news. While `may_give_up`, an urgent message ends the wait.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] at `deadline`; [`ExchangeFailure::Interrupted`].
    fn wait(&mut self, deadline: Instant, may_give_up: bool) -> Result<(), ExchangeFailure> {
        loop {
            let now = self.clock.now();
            let urgency = (self.urgency)();
            let until = match urgency {
                Urgency::Now => return Err(ExchangeFailure::Interrupted),
                Urgency::By(by) if may_give_up && now >= by => {
                    return Err(ExchangeFailure::Interrupted);
                }
                Urgency::By(by) if may_give_up => by.min(deadline),
                Urgency::By(_) | Urgency::None => deadline,
            };
            if now >= deadline {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            match self.poll.poll(self.events, Some(until.since(now))) {
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
