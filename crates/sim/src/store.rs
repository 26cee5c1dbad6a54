//! The store that the brokers share: the embedded one's tree, behind sessions over the simulated network as
//! ZooKeeper has them.
//!
//! A session outlives its connections until nothing was heard on it for its timeout; then its ephemeral nodes
//! go. A connection that breaks takes replies along: its writes may have been made. Pings confirm the session
//! (the leader's lease). Requests and events of a session keep their order.
//!
//! A server may lag for a broker, as one of several does that was cut off from the others: its reads show what was, until
//! the broker has written something itself or was told of a change; never less than it was shown before.
//!
//! A frame on the network is only the number of a message in a table: nothing is encoded.

mod past;

use crate::network::{HostId, Network};
use crate::scheduler::{ProcessId, Scheduler, VirtualClock};
use coordination::local::LocalStore;
use coordination::{
    Event, Events, Lease, Op, OpResult, Opening, Pending, Reply, Request, Session, SessionHandle,
    SessionId, Store, StoreError,
};
use parking_lot::Mutex;
use past::Past;
use platform::network::ByteStream;
use platform::{Clock, MemoryDisk, tasks};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, timeout};

/// So many events are kept that may not have been heard.
const MOST_UNHEARD: usize = 1_000;

/// Between two tries to connect.
const RECONNECT_AFTER: Duration = Duration::from_millis(250);

enum ToServer {
    /// For a session, of which so many events were heard.
    Hello(Option<SessionId>, u64),
    Ping,
    Request(u64, Request),
}

enum ToClient {
    /// The session, unless it is over.
    Welcome(Option<SessionId>),
    Pong,
    Reply(u64, Result<Reply, StoreError>),
    Event(Event),
}

/// Something that happened to the tree.
#[derive(Clone, Debug)]
pub enum Written {
    /// A change was made.
    Made {
        /// By which session.
        session: SessionId,
        /// What.
        op: Op,
        /// And what came of it.
        result: OpResult,
    },
    /// A session ended, and what it held is gone.
    Ended(SessionId),
}

/// The server; clones share it.
#[derive(Clone)]
pub struct StoreServer(Arc<Shared>);

struct Shared {
    scheduler: Scheduler,
    network: Network,
    process: ProcessId,
    host: HostId,
    timeout: Duration,
    tree: LocalStore,
    sessions: Mutex<BTreeMap<SessionId, Held>>,
    /// Messages under way.
    to_server: Table<ToServer>,
    to_client: Table<ToClient>,
    /// What was written and not looked at yet.
    written: Mutex<Vec<Written>>,
    expired: Mutex<u64>,
    /// How many answers are lost, by whom they are for.
    lost: Mutex<BTreeMap<HostId, u32>>,
    unanswered: Mutex<u64>,
    /// By whom: how far the server lags behind for it.
    lags: Mutex<BTreeMap<HostId, Duration>>,
    past: Mutex<Past>,
    observer: tokio::sync::OnceCell<SessionHandle>,
    /// Reads that showed what was.
    stale: Mutex<u64>,
}

/// A session as the server has it.
struct Held {
    handle: SessionHandle,
    owner: HostId,
    heard_at: Instant,
    /// Events that were not sent yet.
    events: Arc<tokio::sync::Mutex<Events>>,
    /// How many were sent in all, and the last of them, which may not have been heard: a client that comes back hears
    /// of what has changed meanwhile.
    sent: (u64, VecDeque<Event>),
    /// Events that a server which lags tells late.
    late: (mpsc::UnboundedSender<Event>, Arc<tokio::sync::Mutex<Events>>),
    /// Its client knows the tree as of then, or later.
    knows: Instant,
    /// Told that another connection has the session.
    moved: Arc<Notify>,
}

struct Table<T>(Mutex<(u64, BTreeMap<u64, T>)>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Mutex::new((0, BTreeMap::new())))
    }
}

impl<T> Table<T> {
    fn put(&self, message: T) -> u64 {
        let mut table = self.0.lock();
        table.0 += 1;
        let number = table.0;
        table.1.insert(number, message);
        number
    }

    fn take(&self, number: u64) -> Option<T> {
        self.0.lock().1.remove(&number)
    }
}

impl fmt::Debug for StoreServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreServer").finish_non_exhaustive()
    }
}

impl StoreServer {
    /// A server on `host`, which keeps sessions for `timeout`.
    ///
    /// # Panics
    /// If an empty disk in memory fails.
    #[must_use]
    pub fn start(
        scheduler: &Scheduler,
        network: &Network,
        host: HostId,
        timeout: Duration,
    ) -> Self {
        let disk = Arc::new(MemoryDisk::new());
        let tree = LocalStore::open_inline(disk, Path::new("/store"), scheduler.clock())
            .expect("an empty disk in memory");
        let server = Self(Arc::new(Shared {
            scheduler: scheduler.clone(),
            network: network.clone(),
            process: scheduler.process(),
            host,
            timeout,
            tree,
            sessions: Mutex::default(),
            to_server: Table::default(),
            to_client: Table::default(),
            written: Mutex::default(),
            expired: Mutex::new(0),
            lost: Mutex::default(),
            unanswered: Mutex::new(0),
            lags: Mutex::default(),
            past: Mutex::default(),
            observer: tokio::sync::OnceCell::new(),
            stale: Mutex::new(0),
        }));
        let accepting = server.clone();
        network.listen(host, move |stream, peer| {
            let std::net::IpAddr::V4(ip) = peer.ip() else { return };
            let serving = accepting.clone().serve(stream, HostId(ip.octets()[3]));
            accepting.0.scheduler.spawn(accepting.0.process, serving);
        });
        let expiring = server.clone();
        scheduler.spawn(server.0.process, async move { expiring.expire_sessions().await });
        server
    }

    /// The store as a process on `host` sees it.
    #[must_use]
    pub fn client(&self, host: HostId, clock: Arc<VirtualClock>) -> Arc<SimulatedStore> {
        Arc::new(SimulatedStore { server: self.clone(), host, clock })
    }

    /// A session of nobody's, which sees the tree without a network.
    ///
    /// # Panics
    /// If the store has failed.
    pub async fn observer(&self) -> SessionHandle {
        self.0.tree.open_session().await.expect("the store works").0
    }

    /// What was written since this was last asked.
    #[must_use]
    pub fn take_written(&self) -> Vec<Written> {
        std::mem::take(&mut *self.0.written.lock())
    }

    /// How many sessions have expired.
    #[must_use]
    pub fn expired(&self) -> u64 {
        *self.0.expired.lock()
    }

    /// How many writes were made, or not, whose answers did not come.
    #[must_use]
    pub fn unanswered(&self) -> u64 {
        *self.0.unanswered.lock()
    }

    /// Ends all sessions of `owner`, as the server does whose clock jumped.
    pub fn expire(&self, owner: HostId) {
        let long_ago = Instant::now() - self.0.timeout * 2;
        for held in self.0.sessions.lock().values_mut().filter(|held| held.owner == owner) {
            held.heard_at = long_ago;
        }
    }

    /// The next `count` answers to requests of `owner` are lost, and the connection with each of them.
    pub fn lose_replies(&self, owner: HostId, count: u32) {
        self.0.lost.lock().insert(owner, count);
    }

    /// From now on `owner` asks a server that lags behind by `lag`.
    pub fn lag(&self, owner: HostId, lag: Duration) {
        self.0.lags.lock().insert(owner, lag);
    }

    /// How many reads have shown what was.
    #[must_use]
    pub fn stale(&self) -> u64 {
        *self.0.stale.lock()
    }

    fn loses_reply(&self, owner: HostId) -> bool {
        match self.0.lost.lock().get_mut(&owner) {
            Some(left) if *left > 0 => {
                *left -= 1;
                true
            }
            Some(_) | None => false,
        }
    }

    async fn expire_sessions(&self) {
        loop {
            tokio::time::sleep(self.0.timeout / 20).await;
            let now = Instant::now();
            let over: Vec<Held> = {
                let mut sessions = self.0.sessions.lock();
                let is_over = |held: &Held| now - held.heard_at > self.0.timeout;
                let ids: Vec<_> =
                    sessions.iter().filter(|(_, held)| is_over(held)).map(|(&id, _)| id).collect();
                ids.into_iter().filter_map(|id| sessions.remove(&id)).collect()
            };
            for held in over {
                *self.0.expired.lock() += 1;
                let id = held.handle.id();
                // One that its broker has closed is answered so.
                drop(held.handle.close().await);
                self.0.written.lock().push(Written::Ended(id));
                self.remember_end(id).await;
                held.moved.notify_one();
            }
        }
    }

    /// One connection.
    async fn serve(self, mut stream: Box<dyn ByteStream>, owner: HostId) {
        let shared = &self.0;
        let Ok(number) = stream.read_u64().await else { return };
        let Some(ToServer::Hello(known, heard)) = shared.to_server.take(number) else { return };
        let opened = match known {
            None => match shared.tree.open_session().await {
                Ok((handle, events)) => {
                    let id = handle.id();
                    let (tell_late, late) = mpsc::unbounded_channel();
                    let held = Held {
                        handle,
                        owner,
                        heard_at: Instant::now(),
                        events: Arc::new(tokio::sync::Mutex::new(events)),
                        sent: (0, VecDeque::new()),
                        late: (tell_late, Arc::new(tokio::sync::Mutex::new(late))),
                        knows: Instant::now(),
                        moved: Arc::new(Notify::new()),
                    };
                    shared.sessions.lock().insert(id, held);
                    Some(id)
                }
                Err(_) => None,
            },
            Some(id) => shared.sessions.lock().get_mut(&id).map(|held| {
                held.heard_at = Instant::now();
                held.moved.notify_one();
                held.moved = Arc::new(Notify::new());
                id
            }),
        };
        if self.tell(&mut stream, ToClient::Welcome(opened)).await.is_err() {
            return;
        }
        let Some(id) = opened else { return };
        let Some((handle, events, late, moved)) = shared.sessions.lock().get(&id).map(|held| {
            let (events, late) = (Arc::clone(&held.events), Arc::clone(&held.late.1));
            (held.handle.clone(), events, late, Arc::clone(&held.moved))
        }) else {
            return;
        };
        // The connection before this one lets go of them when it hears that the session has moved.
        let mut events = events.lock().await;
        let mut late = late.lock().await;
        for event in self.unheard(id, heard) {
            if self.tell(&mut stream, ToClient::Event(event)).await.is_err() {
                return;
            }
        }
        loop {
            let heard = tokio::select! {
                biased;
                () = moved.notified() => return,
                event = events.recv() => match event {
                    Some(event) => {
                        self.note_sent(id, &event);
                        if self.tell(&mut stream, ToClient::Event(event)).await.is_err() {
                            return;
                        }
                        continue;
                    }
                    None => return,
                },
                Some(event) = late.recv() => {
                    self.note_sent(id, &event);
                    if self.tell(&mut stream, ToClient::Event(event)).await.is_err() {
                        return;
                    }
                    continue;
                }
                number = stream.read_u64() => number,
            };
            let Ok(number) = heard else { return };
            match shared.sessions.lock().get_mut(&id) {
                Some(held) => held.heard_at = Instant::now(),
                None => return,
            }
            match shared.to_server.take(number) {
                Some(ToServer::Ping) => {
                    if self.tell(&mut stream, ToClient::Pong).await.is_err() {
                        return;
                    }
                }
                Some(ToServer::Request(number, request)) => {
                    let is_close = request == Request::Close;
                    let reply = self.perform(&handle, owner, request).await;
                    if !is_close && self.loses_reply(owner) {
                        return;
                    }
                    // Events of changes come before replies that show them.
                    while let Ok(event) = events.try_recv() {
                        self.note_sent(id, &event);
                        if self.tell(&mut stream, ToClient::Event(event)).await.is_err() {
                            return;
                        }
                    }
                    if is_close {
                        shared.sessions.lock().remove(&id);
                    }
                    if self.tell(&mut stream, ToClient::Reply(number, reply)).await.is_err()
                        || is_close
                    {
                        return;
                    }
                }
                Some(ToServer::Hello(..)) | None => return,
            }
        }
    }

    fn note_sent(&self, session: SessionId, event: &Event) {
        if let Some(held) = self.0.sessions.lock().get_mut(&session) {
            held.sent.0 += 1;
            held.knows = Instant::now();
            held.sent.1.push_back(event.clone());
            if held.sent.1.len() > MOST_UNHEARD {
                held.sent.1.pop_front();
            }
        }
    }

    /// What was sent on a session after the first `heard` events.
    fn unheard(&self, session: SessionId, heard: u64) -> Vec<Event> {
        let sessions = self.0.sessions.lock();
        let Some(Held { sent: (count, last), .. }) = sessions.get(&session) else {
            return Vec::new();
        };
        let unheard = usize::try_from(count - heard).expect("few");
        last.iter().skip(last.len().saturating_sub(unheard)).cloned().collect()
    }

    async fn tell(
        &self,
        stream: &mut Box<dyn ByteStream>,
        message: ToClient,
    ) -> std::io::Result<()> {
        stream.write_u64(self.0.to_client.put(message)).await
    }

    async fn perform(
        &self,
        handle: &SessionHandle,
        owner: HostId,
        request: Request,
    ) -> Result<Reply, StoreError> {
        let session = handle.id();
        match request {
            Request::Write(ops) => {
                let results = handle.multi(ops.clone()).await?;
                let made: Vec<_> = ops.into_iter().zip(results.iter().cloned()).collect();
                if let Some(held) = self.0.sessions.lock().get_mut(&session) {
                    held.knows = Instant::now();
                }
                let touched = past::touched(&mut self.0.past.lock(), session, &made);
                let made = made.into_iter();
                let made = made.map(|(op, result)| Written::Made { session, op, result });
                self.0.written.lock().extend(made);
                let seen = past::look(handle, touched).await;
                self.0.past.lock().note(Instant::now(), seen);
                Ok(Reply::Written(results))
            }
            Request::Read(reads) => {
                let mut found = handle.read_all(reads.clone()).await?;
                let lag = self.0.lags.lock().get(&owner).copied().unwrap_or_default();
                if !lag.is_zero() {
                    for (read, found) in reads.iter().zip(&mut found) {
                        self.read_late(session, lag, read, found);
                    }
                }
                Ok(Reply::Read(found))
            }
            Request::Close => {
                handle.close().await?;
                self.0.written.lock().push(Written::Ended(session));
                self.remember_end(session).await;
                Ok(Reply::Closed)
            }
        }
    }

    /// Puts what was in the place of what is.
    fn read_late(
        &self,
        session: SessionId,
        lag: Duration,
        read: &coordination::Read,
        found: &mut Result<coordination::ReadResult, StoreError>,
    ) {
        let sessions = self.0.sessions.lock();
        let Some(held) = sessions.get(&session) else { return };
        let at = (Instant::now() - lag).max(held.knows);
        let Some(past::Stale { result, event }) = self.0.past.lock().read(read, at) else { return };
        *self.0.stale.lock() += 1;
        *found = result;
        if let Some((event, changed_at)) = event {
            let (tell, due) = (held.late.0.clone(), changed_at + lag);
            self.0.scheduler.after(due.saturating_duration_since(Instant::now()), move || {
                drop(tell.send(event));
            });
        }
    }

    async fn remember_end(&self, session: SessionId) {
        let touched = past::touched_by_end(&mut self.0.past.lock(), session);
        if touched.is_empty() {
            return;
        }
        let observer = self.0.observer.get_or_init(|| self.observer()).await;
        let seen = past::look(observer, touched).await;
        self.0.past.lock().note(Instant::now(), seen);
    }
}

/// The store as one process sees it.
#[derive(Debug)]
pub struct SimulatedStore {
    server: StoreServer,
    host: HostId,
    clock: Arc<VirtualClock>,
}

impl Store for SimulatedStore {
    fn open_session(&self) -> Opening {
        let link =
            Link { server: self.server.clone(), host: self.host, clock: Arc::clone(&self.clock) };
        Box::pin(async move {
            // As `zookeeper.connection.timeout.ms`, which is the session's timeout unless it is set.
            let opening = timeout(link.server.0.timeout * 3, async {
                loop {
                    if let Some((stream, Some(id))) = link.connect(None, 0).await {
                        return (stream, id);
                    }
                    tokio::time::sleep(RECONNECT_AFTER).await;
                }
            });
            let begun = link.clock.now();
            let Ok((stream, id)) = opening.await else {
                return Err(StoreError::Unreachable("the simulated store".into()));
            };
            let (events, told) = mpsc::unbounded_channel();
            let state = State {
                queue: VecDeque::new(),
                lease: Lease { confirmed_at: begun, timeout: link.server.0.timeout },
                is_over: false,
                heard: 0,
            };
            let session =
                Arc::new(SimulatedSession { id, state: Mutex::new(state), news: Notify::new() });
            tasks::spawn(link.run(Arc::clone(&session), stream, events));
            Ok((SessionHandle::new(session), told))
        })
    }

    fn shut_down(&self) {
        // The others go on with it.
    }
}

#[derive(Debug)]
struct SimulatedSession {
    id: SessionId,
    state: Mutex<State>,
    news: Notify,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Asked>,
    lease: Lease,
    is_over: bool,
    /// Events of the server's.
    heard: u64,
}

#[derive(Debug)]
struct Asked {
    request: Request,
    at: Instant,
    reply: oneshot::Sender<Result<Reply, StoreError>>,
}

impl Session for SimulatedSession {
    fn id(&self) -> SessionId {
        self.id
    }

    fn submit(&self, request: Request) -> Pending {
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if state.is_over {
                return Box::pin(std::future::ready(Err(StoreError::SessionExpired)));
            }
            state.queue.push_back(Asked { request, at: Instant::now(), reply });
        }
        self.news.notify_one();
        Box::pin(async move { answer.await.unwrap_or(Err(StoreError::MayHaveBeenApplied)) })
    }

    fn lease(&self) -> Option<Lease> {
        Some(self.state.lock().lease)
    }
}

/// A session's way to the server.
struct Link {
    server: StoreServer,
    host: HostId,
    clock: Arc<VirtualClock>,
}

/// What waits for an answer, and when it was sent.
struct UnderWay {
    /// None of a ping.
    asked: Option<(u64, Asked)>,
    sent_at: model::Instant,
}

/// How a connection ended.
enum Broke {
    Connection,
    Closed,
}

impl Link {
    /// A connection for a session, and which one it is; the inner `None` if it is over.
    async fn connect(
        &self,
        session: Option<SessionId>,
        heard: u64,
    ) -> Option<(Box<dyn ByteStream>, Option<SessionId>)> {
        let shared = &self.server.0;
        let platform::Network::Virtual(network) = shared.network.at(self.host) else {
            return None;
        };
        let connecting = async {
            let mut stream = network.connect(&shared.host.address()).await.ok()?;
            let hello = shared.to_server.put(ToServer::Hello(session, heard));
            stream.write_u64(hello).await.ok()?;
            let number = stream.read_u64().await.ok()?;
            match shared.to_client.take(number)? {
                ToClient::Welcome(id) => Some((stream, id)),
                ToClient::Pong | ToClient::Reply(..) | ToClient::Event(_) => None,
            }
        };
        timeout(shared.timeout / 3, connecting).await.ok().flatten()
    }

    async fn run(
        self,
        session: Arc<SimulatedSession>,
        stream: Box<dyn ByteStream>,
        events: mpsc::UnboundedSender<Event>,
    ) {
        let mut stream = stream;
        loop {
            if let Broke::Closed = self.talk(&session, stream, &events).await {
                session.state.lock().is_over = true;
                break;
            }
            drop(events.send(Event::Disconnected));
            match self.come_back(&session, &events).await {
                Some(again) => stream = again,
                None => {
                    session.state.lock().is_over = true;
                    drop(events.send(Event::Expired));
                    break;
                }
            }
            drop(events.send(Event::Connected));
        }
        let queue = std::mem::take(&mut session.state.lock().queue);
        for asked in queue {
            drop(asked.reply.send(Err(StoreError::SessionExpired)));
        }
    }

    /// Until the server is there again; `None` if the session is over.
    async fn come_back(
        &self,
        session: &SimulatedSession,
        events: &mpsc::UnboundedSender<Event>,
    ) -> Option<Box<dyn ByteStream>> {
        let mut has_lapsed = false;
        loop {
            let heard = session.state.lock().heard;
            match self.connect(Some(session.id), heard).await {
                Some((stream, Some(_))) => {
                    session.state.lock().lease.confirmed_at = self.clock.now();
                    return Some(stream);
                }
                Some((_, None)) => return None,
                None => {}
            }
            let lease = session.state.lock().lease;
            if !has_lapsed && self.clock.now() > lease.confirmed_at + lease.timeout {
                has_lapsed = true;
                drop(events.send(Event::Lapsed));
            }
            self.give_up_old_requests(session);
            tokio::time::sleep(RECONNECT_AFTER).await;
        }
    }

    fn give_up_old_requests(&self, session: &SimulatedSession) {
        let (mut old, mut young) = (Vec::new(), VecDeque::new());
        let now = Instant::now();
        for asked in std::mem::take(&mut session.state.lock().queue) {
            match now - asked.at > self.server.0.timeout {
                true => old.push(asked),
                false => young.push_back(asked),
            }
        }
        {
            let mut state = session.state.lock();
            young.append(&mut state.queue);
            state.queue = young;
        }
        for asked in old {
            drop(asked.reply.send(Err(StoreError::Disconnected)));
        }
    }

    /// Uses one connection to its end.
    async fn talk(
        &self,
        session: &SimulatedSession,
        stream: Box<dyn ByteStream>,
        events: &mpsc::UnboundedSender<Event>,
    ) -> Broke {
        let mut under_way: VecDeque<UnderWay> = VecDeque::new();
        let ended = self.exchange(session, stream, events, &mut under_way).await;
        // Reads are made again, in their order; of writes nobody knows.
        for UnderWay { asked, .. } in under_way.into_iter().rev() {
            match asked {
                Some((_, asked)) if matches!(asked.request, Request::Read(_)) => {
                    session.state.lock().queue.push_front(asked);
                }
                Some((_, asked)) => {
                    *self.server.0.unanswered.lock() += 1;
                    drop(asked.reply.send(Err(StoreError::MayHaveBeenApplied)));
                }
                None => {}
            }
        }
        ended
    }

    async fn exchange(
        &self,
        session: &SimulatedSession,
        mut stream: Box<dyn ByteStream>,
        events: &mpsc::UnboundedSender<Event>,
        under_way: &mut VecDeque<UnderWay>,
    ) -> Broke {
        let shared = &self.server.0;
        let (mut sent, mut next) = (Instant::now(), 0_u64);
        let mut heard = Instant::now();
        loop {
            loop {
                let Some(asked) = session.state.lock().queue.pop_front() else { break };
                next += 1;
                let message = ToServer::Request(next, asked.request.clone());
                let sent_at = self.clock.now();
                under_way.push_back(UnderWay { asked: Some((next, asked)), sent_at });
                sent = Instant::now();
                if stream.write_u64(shared.to_server.put(message)).await.is_err() {
                    return Broke::Connection;
                }
            }
            let ping_at = sent + shared.timeout / 3;
            let silent_at = heard + shared.timeout * 2 / 3;
            let number = tokio::select! {
                biased;
                number = stream.read_u64() => number,
                () = session.news.notified() => continue,
                () = tokio::time::sleep_until(ping_at.min(silent_at)) => {
                    if Instant::now() >= silent_at {
                        return Broke::Connection;
                    }
                    sent = Instant::now();
                    under_way.push_back(UnderWay { asked: None, sent_at: self.clock.now() });
                    if stream.write_u64(shared.to_server.put(ToServer::Ping)).await.is_err() {
                        return Broke::Connection;
                    }
                    continue;
                }
            };
            let Ok(number) = number else { return Broke::Connection };
            heard = Instant::now();
            let Some(message) = shared.to_client.take(number) else { return Broke::Connection };
            let reply = match message {
                ToClient::Event(event) => {
                    session.state.lock().heard += 1;
                    drop(events.send(event));
                    continue;
                }
                ToClient::Pong => None,
                ToClient::Reply(number, reply) => Some((number, reply)),
                ToClient::Welcome(_) => return Broke::Connection,
            };
            let Some(answered) = under_way.pop_front() else { return Broke::Connection };
            session.state.lock().lease.confirmed_at = answered.sent_at;
            match (reply, answered.asked) {
                (Some((number, reply)), Some((own, asked))) => {
                    assert_eq!(number, own, "answers come in order");
                    let is_close = asked.request == Request::Close;
                    let is_over = reply == Err(StoreError::SessionExpired);
                    drop(asked.reply.send(reply));
                    if is_close {
                        return Broke::Closed;
                    }
                    if is_over {
                        return Broke::Connection;
                    }
                }
                (None, None) => {}
                (_, _) => return Broke::Connection,
            }
        }
    }
}
