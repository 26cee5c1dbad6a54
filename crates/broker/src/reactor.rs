//! One thread, its connections, and the turn: read what is ready, execute, complete, send.
//!
//! A turn takes the ready sockets (each is read once, or a few times while it streams), executes every
//! complete request, then runs what was put off to the turn's end ([`at_turn_end`]: one gathered write per
//! partition for all connections), hands out the answers that this produced, and sends to each connection
//! once. A turn is bounded ([`TURN_BYTES`], [`TURN_REQUESTS`]); what is left over comes first in the next
//! one.
//!
//! Nothing here waits but [`mio::Poll::poll`]. Handlers are plain functions, so a socket's readiness is
//! all that there is to schedule; why this is an event loop and not a task per connection is
//! decision 0005.

use crate::Broker;
use crate::config::NetworkSettings;
use crate::connection::{ConnectionCore, SMALL_READ};
use crate::inbox::{Inbox, News};
use crate::listener::{Admission, Listener};
use crate::output::Progress;
use crate::request::{ConnectionContext, ConnectionToken};
use crate::stream::Stream;
use crate::timer::TimerService;
use bytes::Bytes;
use mio::{Events, Interest, Poll, Token};
use model::{Instant, Timestamp};
use parking_lot::Mutex;
use platform::Clock;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;
use tokio::sync::Notify;
use tracing::{debug, error};

/// Most bytes that are received in one turn before its answers are sent.
const TURN_BYTES: usize = 1 << 20;

/// Most requests that are executed in one turn before their answers are sent.
const TURN_REQUESTS: usize = 256;

/// Most bytes that are sent to one connection in one turn: an answer with 1 MiB of records and what stands
/// around them.
const SEND_SHARE: usize = (1 << 20) + (16 << 10);

/// A read of at least this much made so much room in the socket that more has come meanwhile, most likely.
const STREAMING: usize = 64 << 10;

/// Most bytes that are received from one connection in one turn, give or take a read: who streams is
/// better written and answered for several requests at once.
const STREAM_SHARE: usize = 512 << 10;

/// The buffer for reads of unknown size.
const READ_BUFFER: usize = 256 << 10;

/// A read of up to this size is copied into a buffer of its own: a parked request must not pin a whole
/// read buffer.
const COPIED_READ: usize = 8 << 10;

/// Read buffers that are kept for reuse.
const SPARE_BUFFERS: usize = 8;

/// How often connections are looked over for idleness, at the least.
const SURVEY_INTERVAL: Duration = Duration::from_secs(10);

/// A frame that makes no progress for this long may be given up when memory is short.
const FRAME_STALL: Duration = Duration::from_secs(30);

const WAKE: Token = Token(usize::MAX);

/// A connection on its way from the acceptor.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) stream: Stream,
    pub(crate) peer: SocketAddr,
    pub(crate) listener: Arc<Listener>,
    pub(crate) admission: Admission,
}

/// What a reactor is told at its start.
#[derive(Clone, Copy, Debug)]
pub struct ReactorSettings {
    /// `socket.request.max.bytes`
    pub frame_limit: usize,
    /// `connections.max.idle.ms`; `None` means for ever.
    pub max_idle: Option<Duration>,
}

impl ReactorSettings {
    /// What `network` says.
    pub(crate) fn of(network: &NetworkSettings) -> Self {
        Self { frame_limit: network.request_max_bytes, max_idle: network.connections_max_idle }
    }
}

/// Bounds what all reactors together hold of frames that have not arrived whole. Above the limit no new
/// large frame is begun; those that were begun go on, and so do small ones.
#[derive(Debug)]
pub(crate) struct ReceiveBudget {
    limit: usize,
    used: AtomicUsize,
    /// The most that was in use since memory was last given back.
    peak: AtomicUsize,
}

/// So much that was held and is not any more is given back to the system.
const WORTH_RETURNING: usize = 8 << 20;

impl ReceiveBudget {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0), peak: AtomicUsize::new(0) }
    }

    /// Gives memory back after a flood of unfinished frames: it lies between small blocks that stay in
    /// use, where the allocator does not do it by itself.
    pub(crate) fn return_memory(&self) {
        if self.has_ebbed() {
            platform::memory::return_unused();
        }
    }

    fn has_ebbed(&self) -> bool {
        let (used, peak) = (self.used.load(Ordering::Relaxed), self.peak.load(Ordering::Relaxed));
        let has_ebbed = peak >= WORTH_RETURNING && used <= peak / 4;
        if has_ebbed {
            self.peak.store(used, Ordering::Relaxed);
        }
        has_ebbed
    }

    fn is_exhausted(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.limit
    }
}

type Deferred = Box<dyn FnOnce()>;

thread_local! {
    /// What is to be done at the end of the turn that runs on this thread.
    static DEFERRED: RefCell<Vec<Deferred>> = const { RefCell::new(Vec::new()) };
    static IN_TURN: Cell<bool> = const { Cell::new(false) };
    /// The wall-clock time of the turn, once it was asked for.
    static TIMESTAMP: Cell<Option<Timestamp>> = const { Cell::new(None) };
}

/// Wall-clock time; on a reactor one for all that a turn executes.
pub(crate) fn turn_timestamp(clock: &dyn Clock) -> Timestamp {
    if !IN_TURN.get() {
        return clock.timestamp();
    }
    let timestamp = TIMESTAMP.get().unwrap_or_else(|| clock.timestamp());
    TIMESTAMP.set(Some(timestamp));
    timestamp
}

/// Puts `work` off to the end of the reactor's turn, when everything that is ready has been executed;
/// runs it at once if this thread is no reactor.
pub fn at_turn_end(work: impl FnOnce() + 'static) {
    if IN_TURN.get() {
        DEFERRED.with_borrow_mut(|deferred| deferred.push(Box::new(work)));
    } else {
        work();
    }
}

/// What tells a reactor which connections have news.
#[derive(Debug)]
pub(crate) enum Watch {
    /// The system, of sockets.
    Polled(Poll),
    /// Streams of a simulated network.
    Virtual(Arc<VirtualReadiness>),
}

/// The connections of a simulated network that may have something to read.
#[derive(Debug, Default)]
pub(crate) struct VirtualReadiness {
    slots: Mutex<Vec<u32>>,
    /// Told of those, and of news in the inbox.
    news: Arc<Notify>,
}

struct SlotWaker {
    readiness: Arc<VirtualReadiness>,
    slot: u32,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.readiness.slots.lock().push(self.slot);
        self.readiness.news.notify_one();
    }
}

/// A thread's connections.
pub(crate) struct Reactor {
    index: u16,
    broker: Arc<Broker>,
    settings: ReactorSettings,
    inbox: Arc<Inbox>,
    load: Arc<AtomicUsize>,
    watch: Watch,
    places: Vec<Place>,
    free: Vec<u32>,
    /// Connections that may have something to read or to execute.
    ready: VecDeque<u32>,
    /// Connections that may have something to send, or may be finished.
    touched: Vec<u32>,
    /// Connections that are not read because memory is short.
    starved: Vec<u32>,
    read_buffer: Vec<u8>,
    small_buffer: Vec<u8>,
    spare_buffers: Vec<Vec<u8>>,
    /// Read buffers that were given out as slices in this turn.
    lent: Vec<Bytes>,
    next_survey: Instant,
    draining: bool,
    stopping: bool,
}

#[derive(Default)]
struct Place {
    generation: u32,
    connection: Option<Box<Connection>>,
}

struct Connection {
    stream: Stream,
    core: ConnectionCore,
    /// What may be read is still there.
    readable: bool,
    /// The socket takes more.
    writable: bool,
    /// The other side has closed: a short read does not mean that there is nothing more.
    read_closed: bool,
    queued: bool,
    touched: bool,
    /// What the receive budget was charged.
    charged: usize,
    last_active: Instant,
    _admission: Admission,
}

impl Reactor {
    /// A reactor that is not running yet, with its inbox.
    pub(crate) fn new(
        index: u16,
        broker: Arc<Broker>,
        settings: ReactorSettings,
        watch: Watch,
        inbox: Arc<Inbox>,
        load: Arc<AtomicUsize>,
    ) -> Self {
        Self {
            index,
            broker,
            settings,
            inbox,
            load,
            watch,
            places: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            touched: Vec::new(),
            starved: Vec::new(),
            read_buffer: Vec::new(),
            small_buffer: Vec::new(),
            spare_buffers: Vec::new(),
            lent: Vec::new(),
            next_survey: Instant::default(),
            draining: false,
            stopping: false,
        }
    }

    /// The poll of a reactor, and the inbox that wakes it.
    pub(crate) fn open() -> io::Result<(Watch, Arc<Inbox>)> {
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKE)?;
        Ok((Watch::Polled(poll), Arc::new(Inbox::with_waker(waker))))
    }

    /// The same of a reactor that is a simulator's task.
    pub(crate) fn open_virtual() -> (Watch, Arc<Inbox>) {
        let readiness = Arc::new(VirtualReadiness::default());
        let inbox = Arc::new(Inbox::with_notify(Arc::clone(&readiness.news)));
        (Watch::Virtual(readiness), inbox)
    }

    /// Turns until it is told to stop, or to drain and nothing is left.
    pub(crate) fn run(mut self) {
        self.broker.timers.attach(self.index, Arc::clone(&self.inbox));
        self.inbox.is_read_here();
        let inbox = Arc::clone(&self.inbox);
        self.broker.readiness.when_ready(move || inbox.send(News::Ready));
        let mut events = Events::with_capacity(1024);
        let mut news = Vec::new();
        while !(self.stopping || self.draining && self.load.load(Ordering::Relaxed) == 0) {
            let timeout = self.time_to_sleep();
            let Watch::Polled(poll) = &mut self.watch else {
                unreachable!("threads are for sockets")
            };
            if let Err(error) = poll.poll(&mut events, timeout)
                && error.kind() != io::ErrorKind::Interrupted
            {
                // Sockets can no longer be served on this thread, and nothing can repair that.
                error!(%error, "cannot wait for sockets");
                std::process::abort();
            }
            self.inbox.awake();
            let now = self.broker.clock.now();
            for event in &events {
                self.note(event);
            }
            TIMESTAMP.set(None);
            IN_TURN.set(true);
            self.turn(&mut news, now);
            IN_TURN.set(false);
        }
        Inbox::is_read_no_more();
    }

    /// Turns for ever; the same as [`Self::run`], as a task of a simulator. Other reactors run on the same
    /// thread between two turns.
    pub(crate) async fn run_as_task(mut self) {
        let Watch::Virtual(ready) = &self.watch else { unreachable!("sockets are for threads") };
        let ready = Arc::clone(ready);
        let inbox = Arc::clone(&self.inbox);
        self.broker.readiness.when_ready(move || inbox.send(News::Ready));
        let mut news = Vec::new();
        while !(self.stopping || self.draining && self.load.load(Ordering::Relaxed) == 0) {
            match self.time_to_sleep() {
                Some(span) => drop(tokio::time::timeout(span, ready.news.notified()).await),
                None => ready.news.notified().await,
            }
            self.broker.timers.attach(self.index, Arc::clone(&self.inbox));
            self.inbox.is_read_here();
            self.inbox.awake();
            let now = self.broker.clock.now();
            let slots = std::mem::take(&mut *ready.slots.lock());
            for slot in slots {
                if let Some(connection) = connection(&mut self.places, slot) {
                    connection.readable = true;
                    queue(connection, slot, &mut self.ready);
                }
            }
            TIMESTAMP.set(None);
            IN_TURN.set(true);
            self.turn(&mut news, now);
            IN_TURN.set(false);
            self.inbox.is_put_aside();
            TimerService::detach();
        }
    }

    fn time_to_sleep(&mut self) -> Option<Duration> {
        if !self.ready.is_empty() || !self.inbox.fall_asleep() {
            return Some(Duration::ZERO);
        }
        let timer = self.broker.timers.next_deadline(self.index);
        let survey = (self.load.load(Ordering::Relaxed) > 0).then_some(self.next_survey);
        let hungry =
            (!self.starved.is_empty()).then(|| self.broker.clock.now() + Duration::from_millis(10));
        let until = [timer, survey, hungry].into_iter().flatten().min()?;
        Some(until.since(self.broker.clock.now()))
    }

    fn note(&mut self, event: &mio::event::Event) {
        if event.token() == WAKE {
            return;
        }
        let Ok(slot) = u32::try_from(event.token().0) else { return };
        let Some(connection) = connection(&mut self.places, slot) else { return };
        connection.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        connection.read_closed |= event.is_read_closed() || event.is_error();
        if event.is_writable() && !connection.writable {
            connection.writable = true;
            touch(connection, slot, &mut self.touched);
        }
        if connection.readable {
            queue(connection, slot, &mut self.ready);
        }
    }

    fn turn(&mut self, news: &mut Vec<News>, now: Instant) {
        self.broker.timers.fire(self.index, now);
        if !self.starved.is_empty() && !self.broker.receive_budget.is_exhausted() {
            for slot in std::mem::take(&mut self.starved) {
                self.queue(slot);
            }
        }
        let (mut bytes, mut requests) = (0, 0);
        for _ in 0..self.ready.len() {
            let Some(slot) = self.ready.pop_front() else { break };
            let (read, executed) = self.serve(slot, now);
            bytes += read;
            requests += executed;
            if bytes >= TURN_BYTES || requests >= TURN_REQUESTS {
                break;
            }
        }
        self.settle(news, now);
        self.send_all(now);
        self.reclaim_buffers();
        if now >= self.next_survey {
            self.survey(now);
        }
    }

    /// Reads one connection and executes what it asks: once, or up to [`STREAM_SHARE`] while much comes.
    /// Returns bytes read and requests executed.
    fn serve(&mut self, slot: u32, now: Instant) -> (usize, usize) {
        if let Some(connection) = connection(&mut self.places, slot) {
            connection.queued = false;
        }
        let (mut read, mut executed) = (0, 0);
        while let Some(connection) = connection(&mut self.places, slot) {
            let mut more = false;
            if connection.readable && connection.core.wants_input() {
                if connection.core.begins_large_frame() && self.broker.receive_budget.is_exhausted()
                {
                    self.starved.push(slot);
                } else {
                    match self.read(slot, now) {
                        Ok(bytes) => {
                            read += bytes;
                            more = bytes >= STREAMING && read < STREAM_SHARE;
                        }
                        Err(error) => {
                            self.drop_connection(slot, &error.to_string());
                            return (0, 0);
                        }
                    }
                }
            }
            executed += self.execute(slot, now);
            if !more {
                break;
            }
        }
        (read, executed)
    }

    /// Reads a connection once.
    fn read(&mut self, slot: u32, now: Instant) -> io::Result<usize> {
        let Some(connection) = connection(&mut self.places, slot) else { return Ok(0) };
        let stream = &mut connection.stream;
        let (received, room) = if let Some((buffer, _)) = connection.core.direct_buffer() {
            let room = buffer.capacity() - buffer.len();
            (stream.receive(buffer), room)
        } else {
            // While memory is short a large frame must not come far before it has to wait.
            let is_small =
                connection.core.expects_large_frame() || self.broker.receive_budget.is_exhausted();
            let (buffer, size) = if is_small {
                (&mut self.small_buffer, SMALL_READ)
            } else {
                (&mut self.read_buffer, READ_BUFFER)
            };
            if buffer.capacity() == 0 {
                *buffer =
                    self.spare_buffers.pop_if(|spare| spare.capacity() == size).unwrap_or_default();
                buffer.reserve_exact(size);
            }
            let room = buffer.capacity();
            (stream.receive(buffer), room)
        };
        let length = match received {
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                connection.readable = false;
                return Ok(0);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                queue(connection, slot, &mut self.ready);
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
        // Readiness comes as edges: a short read has emptied the socket, more will be a new edge. After a
        // large one it is worth a look whether that is so already.
        connection.readable =
            length == room || length >= STREAMING || connection.read_closed && length > 0;
        if length == 0 {
            connection.core.end_of_input();
            touch(connection, slot, &mut self.touched);
            return Ok(0);
        }
        connection.last_active = now;
        if self.read_buffer.is_empty() && self.small_buffer.is_empty() {
            connection.core.received_directly(&self.broker.refusals, now);
        } else {
            let buffer = if self.read_buffer.is_empty() {
                &mut self.small_buffer
            } else {
                &mut self.read_buffer
            };
            let bytes = if length <= COPIED_READ {
                let bytes = Bytes::copy_from_slice(buffer);
                buffer.clear();
                bytes
            } else {
                let bytes = Bytes::from(std::mem::take(buffer));
                self.lent.push(bytes.clone());
                bytes
            };
            connection.core.receive(&self.broker.refusals, &bytes, now);
        }
        let charge = connection.core.partial_bytes();
        let used = &self.broker.receive_budget.used;
        if charge > connection.charged {
            let more = charge - connection.charged;
            let now_used = used.fetch_add(more, Ordering::Relaxed) + more;
            self.broker.receive_budget.peak.fetch_max(now_used, Ordering::Relaxed);
        } else if charge < connection.charged {
            used.fetch_sub(connection.charged - charge, Ordering::Relaxed);
        }
        connection.charged = charge;
        Ok(length)
    }

    fn execute(&mut self, slot: u32, now: Instant) -> usize {
        let Some(connection) = connection(&mut self.places, slot) else { return 0 };
        let executed = connection.core.run(&self.broker, TURN_REQUESTS, now);
        touch(connection, slot, &mut self.touched);
        executed
    }

    /// Does what was put off to the turn's end and hands out completions, which may let requests run
    /// that waited for them.
    fn settle(&mut self, news: &mut Vec<News>, now: Instant) {
        // Requests that follow each other through parking are executed in this turn, but not without
        // end: other sockets wait.
        for _ in 0..16 {
            let deferred = DEFERRED.take();
            self.inbox.take(news);
            if deferred.is_empty() && news.is_empty() {
                return;
            }
            for work in deferred {
                work();
            }
            self.inbox.take(news);
            for news in news.drain(..) {
                self.apply(news, now);
            }
        }
        while let deferred = DEFERRED.take()
            && !deferred.is_empty()
        {
            deferred.into_iter().for_each(|work| work());
        }
    }

    fn apply(&mut self, news: News, now: Instant) {
        match news {
            News::Completed { connection: token, sequence, completion } => {
                let generation = self.places.get(token.slot as usize).map(|place| place.generation);
                if generation != Some(token.generation) {
                    return;
                }
                if let Some(connection) = connection(&mut self.places, token.slot) {
                    connection.core.complete(&self.broker.refusals, sequence, completion, now);
                    touch(connection, token.slot, &mut self.touched);
                    if connection.core.can_run() {
                        self.execute(token.slot, now);
                    }
                }
            }
            News::Accepted(accepted) => self.adopt(accepted, now),
            News::Ready => {
                for slot in 0..u32::try_from(self.places.len()).unwrap_or(u32::MAX) {
                    if let Some(connection) = connection(&mut self.places, slot) {
                        connection.core.release();
                        queue(connection, slot, &mut self.ready);
                    }
                }
            }
            News::Drain => {
                self.draining = true;
                for (slot, place) in (0..).zip(&mut self.places) {
                    if let Some(connection) = &mut place.connection {
                        connection.core.shut_down();
                        touch(connection, slot, &mut self.touched);
                    }
                }
            }
            News::Stop => self.stopping = true,
        }
    }

    fn adopt(&mut self, accepted: Accepted, now: Instant) {
        let Accepted { mut stream, peer, listener, admission } = accepted;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            u32::try_from(self.places.len() - 1).expect("descriptors end before 2^32 connections")
        });
        if let Err(error) = self.watch(&mut stream, slot) {
            error!(%error, %peer, "cannot watch a connection");
            self.free.push(slot);
            self.load.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let place = &mut self.places[slot as usize];
        let token = ConnectionToken { slot, generation: place.generation };
        let context = ConnectionContext::new(listener, peer, Arc::clone(&self.inbox), token);
        let mut core = ConnectionCore::new(Arc::new(context), self.settings.frame_limit);
        if self.draining {
            core.shut_down();
        }
        // If it becomes ready right after this look, the news of it comes after this connection.
        if !self.broker.readiness.is_ready() {
            core.hold();
        }
        let connection = place.connection.insert(Box::new(Connection {
            stream,
            core,
            // Clients speak first and usually have: try at once.
            readable: true,
            writable: true,
            read_closed: false,
            queued: false,
            touched: false,
            charged: 0,
            last_active: now,
            _admission: admission,
        }));
        queue(connection, slot, &mut self.ready);
        touch(connection, slot, &mut self.touched);
        if self.load.load(Ordering::Relaxed) == 1 {
            self.next_survey = now + self.survey_interval();
        }
    }

    fn watch(&self, stream: &mut Stream, slot: u32) -> io::Result<()> {
        match (&self.watch, stream) {
            (Watch::Polled(poll), Stream::Socket(socket)) => {
                let interests = Interest::READABLE | Interest::WRITABLE;
                poll.registry().register(socket, Token(slot as usize), interests)
            }
            (Watch::Virtual(readiness), Stream::Virtual(stream)) => {
                let readiness = Arc::clone(readiness);
                stream.set_waker(Waker::from(Arc::new(SlotWaker { readiness, slot })));
                Ok(())
            }
            (Watch::Polled(_), Stream::Virtual(_)) | (Watch::Virtual(_), Stream::Socket(_)) => {
                unreachable!("a reactor has connections of one kind")
            }
        }
    }

    /// Sends to every connection that has something, closes those that are finished, and puts those
    /// that can go on into the next turn.
    fn send_all(&mut self, now: Instant) {
        for slot in std::mem::take(&mut self.touched) {
            let Some(connection) = connection(&mut self.places, slot) else { continue };
            connection.touched = false;
            if connection.writable && connection.core.has_output() {
                match connection.stream.send(connection.core.output(), SEND_SHARE) {
                    Ok(progress) => {
                        connection.last_active = now;
                        connection.writable = progress != Progress::Blocked;
                        if progress == Progress::MoreToSend {
                            queue(connection, slot, &mut self.ready);
                        }
                    }
                    Err(error) => {
                        self.drop_connection(slot, &error.to_string());
                        continue;
                    }
                }
            }
            if connection.core.is_finished() {
                self.drop_connection(slot, "finished");
            } else if connection.core.can_run()
                || connection.readable && connection.core.wants_input()
            {
                queue(connection, slot, &mut self.ready);
            }
        }
    }

    /// Takes back the read buffers of which nothing is in use any more.
    fn reclaim_buffers(&mut self) {
        for mut bytes in self.lent.drain(..) {
            if self.spare_buffers.len() < SPARE_BUFFERS && bytes.is_unique() {
                bytes.truncate(0);
                self.spare_buffers.push(bytes.into());
            }
        }
    }

    fn survey_interval(&self) -> Duration {
        self.settings.max_idle.map_or(SURVEY_INTERVAL, |max_idle| {
            (max_idle / 4).clamp(Duration::from_millis(10), SURVEY_INTERVAL)
        })
    }

    /// Closes what has been idle for too long and, if memory is short, what holds it without progress.
    fn survey(&mut self, now: Instant) {
        self.next_survey = now + self.survey_interval();
        let memory_is_short = self.broker.receive_budget.is_exhausted();
        for slot in 0..u32::try_from(self.places.len()).unwrap_or(u32::MAX) {
            let Some(connection) = connection(&mut self.places, slot) else { continue };
            let silence = now.since(connection.last_active);
            // A client that waits for us is not idle, unless it does not take what we send.
            let waits = connection.core.is_waiting() && !connection.core.has_output();
            if self.settings.max_idle.is_some_and(|max_idle| silence > max_idle) && !waits {
                self.drop_connection(slot, "idle for longer than connections.max.idle.ms");
            } else if memory_is_short && connection.charged > 0 && silence > FRAME_STALL {
                self.drop_connection(
                    slot,
                    "an unfinished request made no progress and memory is short",
                );
            }
        }
    }

    fn drop_connection(&mut self, slot: u32, reason: &str) {
        let place = &mut self.places[slot as usize];
        let Some(connection) = place.connection.take() else { return };
        debug!(peer = %connection.core.context().peer, reason, "connection closed");
        self.broker.receive_budget.used.fetch_sub(connection.charged, Ordering::Relaxed);
        place.generation = place.generation.wrapping_add(1);
        self.free.push(slot);
        self.load.fetch_sub(1, Ordering::Relaxed);
    }

    fn queue(&mut self, slot: u32) {
        if let Some(connection) = connection(&mut self.places, slot) {
            queue(connection, slot, &mut self.ready);
        }
    }
}

fn connection(places: &mut [Place], slot: u32) -> Option<&mut Connection> {
    places.get_mut(slot as usize)?.connection.as_deref_mut()
}

fn queue(connection: &mut Connection, slot: u32, ready: &mut VecDeque<u32>) {
    if !std::mem::replace(&mut connection.queued, true) {
        ready.push_back(slot);
    }
}

fn touch(connection: &mut Connection, slot: u32, touched: &mut Vec<u32>) {
    if !std::mem::replace(&mut connection.touched, true) {
        touched.push(slot);
    }
}

#[test]
fn memory_is_returned_once_after_a_flood() {
    let budget = ReceiveBudget::new(1 << 30);
    budget.peak.store(WORTH_RETURNING, Ordering::Relaxed);
    budget.used.store(WORTH_RETURNING, Ordering::Relaxed);
    assert!(!budget.has_ebbed(), "it is in use");
    budget.used.store(0, Ordering::Relaxed);
    assert!(budget.has_ebbed());
    assert!(!budget.has_ebbed());
}
