//! The tokio shell around [`Core`]: a task that owns the socket, and a handle to it.

use crate::connect_string::{ConnectString, Host};
use crate::core::{Action, CallId, Core, Event, Input, Session, Settings};
use crate::error::Error;
use crate::protocol::{Answer, Call};
use bytes::{Buf, Bytes, BytesMut};
use model::Instant;
use platform::{Clock, Random};
use security::{TlsClient, connection_failure, handshake_failure};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsConnector;

/// What is read of the socket at once.
const READ_BYTES: usize = 64 << 10;
/// Calls that are taken from the queue at once.
const TAKE_CALLS: usize = 1024;

/// Told of a session's events, in the order of the changes and before any later answer is given. Called on
/// the task that serves the session, which it must not hold up.
pub type OnEvent = Box<dyn FnMut(Event) + Send>;

/// What a client needs of the world.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// The order of servers, and nonces.
    pub random: Arc<dyn Random>,
}

/// One session. Clones share it; it is closed by [`Call::Close`], or when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Client {
    calls: mpsc::UnboundedSender<(Call, Reply)>,
    shared: Arc<Mutex<Shared>>,
}

/// What the task tells the handles.
#[derive(Debug)]
struct Shared {
    session: Session,
    /// Why the task has ended.
    over: Option<Error>,
}

type Reply = oneshot::Sender<Result<Answer, Error>>;

impl Client {
    /// Opens a session on one of `servers`. The task that serves it is spawned on the current runtime.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if that took longer than it may; [`Error::AuthenticationFailed`].
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub async fn open(
        servers: ConnectString,
        settings: Settings,
        environment: Environment,
        on_event: OnEvent,
    ) -> Result<Self, Error> {
        let (calls, queue) = mpsc::unbounded_channel();
        let (opened, open) = oneshot::channel();
        let now = environment.clock.now();
        let tls = settings.tls.clone();
        let core = Core::new(&servers, settings, Arc::clone(&environment.random), now);
        let shared = Arc::new(Mutex::new(Shared { session: core.session(), over: None }));
        let driver = Driver {
            core,
            hosts: servers.hosts.into(),
            tls,
            environment,
            shared: Arc::clone(&shared),
            queue,
            on_event,
            opened: Some(opened),
            replies: BTreeMap::new(),
            last_id: 0,
            wire: Wire::Down,
            over: false,
        };
        tokio::spawn(driver.run());
        open.await.unwrap_or(Err(Error::Closed))?;
        Ok(Self { calls, shared })
    }

    /// The session, as it is now.
    #[must_use]
    pub fn session(&self) -> Session {
        lock(&self.shared).session
    }

    /// Makes a call. It is on its way when this returns, before the future is polled; dropping the future
    /// does not recall it. Answered within the session's timeout.
    ///
    /// Calls are performed in the order in which they are made, but that reads are made again after a
    /// connection was lost.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn call(&self, call: Call) -> impl Future<Output = Result<Answer, Error>> + Send + use<> {
        let (reply, answer) = oneshot::channel();
        // A task that is gone drops the sender, and that is the answer.
        let _ = self.calls.send((call, reply));
        let shared = Arc::clone(&self.shared);
        async move {
            let ended = |_| Err(lock(&shared).over.clone().unwrap_or(Error::Closed));
            answer.await.unwrap_or_else(ended)
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Driver {
    core: Core,
    hosts: Arc<[Host]>,
    tls: Option<TlsClient>,
    environment: Environment,
    shared: Arc<Mutex<Shared>>,
    queue: mpsc::UnboundedReceiver<(Call, Reply)>,
    on_event: OnEvent,
    opened: Option<oneshot::Sender<Result<(), Error>>>,
    replies: BTreeMap<CallId, Reply>,
    last_id: u64,
    wire: Wire,
    over: bool,
}

enum Wake {
    Calls(usize),
    Wire(Input),
    Deadline,
}

impl Driver {
    async fn run(mut self) {
        let mut actions = Vec::new();
        let mut calls = Vec::new();
        let mut handles = true;
        self.step(Input::Tick, &mut actions);
        while !self.over {
            match self.wake(&mut calls, handles).await {
                Wake::Calls(0) => {
                    // Nobody holds the client any more.
                    handles = false;
                    let id = self.next_id();
                    self.step(Input::Call(id, Call::Close), &mut actions);
                }
                Wake::Calls(_) => {
                    for (call, reply) in calls.drain(..) {
                        let id = self.next_id();
                        self.replies.insert(id, reply);
                        self.step(Input::Call(id, call), &mut actions);
                    }
                }
                Wake::Wire(input) => self.step(input, &mut actions),
                Wake::Deadline => self.step(Input::Tick, &mut actions),
            }
        }
    }

    /// Waits for what is next and changes nothing but what has arrived.
    async fn wake(&mut self, calls: &mut Vec<(Call, Reply)>, handles: bool) -> Wake {
        let now = self.environment.clock.now();
        let deadline = self.core.next_deadline().map(|at| at.since(now));
        let wire = &mut self.wire;
        tokio::select! {
            // What has arrived counts before what has not arrived in time.
            biased;
            input = poll_fn(|context| wire.poll(context)) => Wake::Wire(input),
            taken = self.queue.recv_many(calls, TAKE_CALLS), if handles => Wake::Calls(taken),
            () = tokio::time::sleep(deadline.unwrap_or_default()), if deadline.is_some() => Wake::Deadline,
        }
    }

    fn next_id(&mut self) -> CallId {
        self.last_id += 1;
        CallId(self.last_id)
    }

    fn now(&self) -> Instant {
        self.environment.clock.now()
    }

    fn step(&mut self, input: Input, actions: &mut Vec<Action>) {
        self.core.step(self.now(), input, actions);
        lock(&self.shared).session = self.core.session();
        for action in actions.drain(..) {
            match action {
                Action::Connect(server) => {
                    let host = self.hosts[server].clone();
                    let random = Arc::clone(&self.environment.random);
                    self.wire = Wire::Connecting(Box::pin(connect(host, random, self.tls.clone())));
                }
                Action::Send(bytes) => self.wire.send(bytes),
                Action::Disconnect => self.wire = Wire::Down,
                Action::Reply(id, result) => {
                    if let Some(reply) = self.replies.remove(&id) {
                        // Whoever asked may have stopped waiting.
                        let _ = reply.send(result);
                    }
                }
                Action::Event(event) => (self.on_event)(event),
                Action::Opened => {
                    if let Some(opened) = self.opened.take() {
                        let _ = opened.send(Ok(()));
                    }
                }
                Action::Over(why) => {
                    if let Some(opened) = self.opened.take() {
                        let _ = opened.send(Err(why.clone()));
                    }
                    lock(&self.shared).over = Some(why);
                    self.over = true;
                }
            }
        }
    }
}

trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Transport>>> + Send>>;

/// A connection, and what is to be sent on it.
enum Wire {
    Down,
    Connecting(Connecting),
    Up { transport: Box<dyn Transport>, unsent: VecDeque<Bytes>, unflushed: bool, buffer: BytesMut },
}

impl Wire {
    fn send(&mut self, bytes: Bytes) {
        if let Self::Up { unsent, .. } = self {
            unsent.push_back(bytes);
        }
    }

    /// Sends what can be sent; ready with what happened. Nothing is lost if it is not polled again.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Input> {
        let lost = |why: String| Poll::Ready(Input::Lost(why));
        match self {
            Self::Down => Poll::Pending,
            Self::Connecting(connecting) => match ready!(connecting.as_mut().poll(context)) {
                Ok(transport) => {
                    let buffer = BytesMut::zeroed(READ_BYTES);
                    *self =
                        Self::Up { transport, unsent: VecDeque::new(), unflushed: false, buffer };
                    Poll::Ready(Input::Connected)
                }
                Err(error) => {
                    *self = Self::Down;
                    lost(error.to_string())
                }
            },
            Self::Up { transport, unsent, unflushed, buffer } => {
                while let Some(bytes) = unsent.front_mut() {
                    match Pin::new(&mut **transport).poll_write(context, bytes) {
                        Poll::Ready(Ok(0)) => return lost("the connection takes no more".into()),
                        Poll::Ready(Ok(sent)) => {
                            *unflushed = true;
                            bytes.advance(sent);
                            if bytes.is_empty() {
                                unsent.pop_front();
                            }
                        }
                        Poll::Ready(Err(error)) => return lost(connection_failure(&error)),
                        Poll::Pending => break,
                    }
                }
                if *unflushed {
                    match Pin::new(&mut **transport).poll_flush(context) {
                        Poll::Ready(Ok(())) => *unflushed = false,
                        Poll::Ready(Err(error)) => return lost(connection_failure(&error)),
                        Poll::Pending => {}
                    }
                }
                let mut read = ReadBuf::new(buffer);
                match ready!(Pin::new(&mut **transport).poll_read(context, &mut read)) {
                    Ok(()) if read.filled().is_empty() => lost("the server closed".into()),
                    Ok(()) => Poll::Ready(Input::Received(Bytes::copy_from_slice(read.filled()))),
                    Err(error) => lost(connection_failure(&error)),
                }
            }
        }
    }
}

/// Looks a server up and connects to one of its addresses; the core bounds how long that may take, a TLS
/// handshake included.
async fn connect(
    host: Host,
    random: Arc<dyn Random>,
    tls: Option<TlsClient>,
) -> io::Result<Box<dyn Transport>> {
    let found = tokio::net::lookup_host((host.name.as_str(), host.port)).await?;
    let mut addresses: Vec<_> = found.collect();
    // Another one first the next time, should this one not answer.
    for i in (1..addresses.len()).rev() {
        addresses.swap(i, usize::try_from(random.below(i as u64 + 1)).expect("below a usize"));
    }
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                let Some(tls) = &tls else { return Ok(Box::new(stream)) };
                let (config, name) = tls.to(&host.name, address.ip());
                match TlsConnector::from(config).connect(name, stream).await {
                    Ok(stream) => return Ok(Box::new(stream)),
                    Err(error) => failure = io::Error::other(handshake_failure(&error)),
                }
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
