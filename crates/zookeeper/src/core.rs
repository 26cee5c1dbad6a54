//! The client as a state machine: told what happened and when, it says what to do.
//!
//! It has no socket, clock or task of its own, so that a simulator can run it. [`crate::Client`] does.
//!
//! | state | left by |
//! |---|---|
//! | `Waiting` for its next try | time → `Connecting` |
//! | `Connecting` | the transport is up → `Opening`; time, failure → `Waiting` |
//! | `Opening` a session or continuing one | the server's word → `Authenticating` or `Ready`; expired → `Over` |
//! | `Authenticating` | the server's proof → `Ready`; refused → `Over` |
//! | `Ready` | silence, garbage, a lost connection → `Waiting`; closed → `Over` |
//!
//! Times, with T the negotiated session timeout: a ping when nothing was sent for T/3; a connection is given
//! up when something was asked and nothing heard for T/3; one attempt to connect may take T/(servers + 1). So
//! a frozen server is left, and the next one reached, within the session.

use crate::connect_string::{ConnectString, validate_path};
use crate::digest_md5::{DigestMd5, Login};
use crate::error::{Error, Refusal};
use crate::jute::{Malformed, Reader};
use crate::protocol::{self, Answer, Call, Change, ConnectRequest, ConnectResponse, ReplyHeader};
use crate::watches::{Kind, Watches};
use bytes::{Buf, Bytes, BytesMut};
use model::Instant;
use platform::Random;
use security::TlsClient;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Paths in one request that asks for watches again; servers take 1 MiB.
const WATCHES_PORTION: usize = 128 << 10;
/// What a server may answer to the opening of a session.
const MAX_OPENING_FRAME: usize = 4096;
/// Between two rounds over all servers: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// No interval is shorter, whatever a server negotiates.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// What a client goes by.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Silence after which servers end the session; they may negotiate another.
    pub session_timeout: Duration,
    /// How long opening the session may take, over all servers.
    pub connection_timeout: Duration,
    /// Calls that are sent and not answered.
    pub max_in_flight: usize,
    /// The largest request that servers take: their `jute.maxbuffer`.
    pub max_request_bytes: usize,
    /// The largest answer that is read.
    pub max_response_bytes: usize,
    /// Whom to authenticate as, by SASL DIGEST-MD5.
    pub login: Option<Login>,
    /// How to encrypt connections, if at all; servers may know the client by the certificate that it brings.
    pub tls: Option<TlsClient>,
}

impl Default for Settings {
    /// Kafka's.
    fn default() -> Self {
        Self {
            session_timeout: Duration::from_secs(18),
            connection_timeout: Duration::from_secs(18),
            max_in_flight: 10,
            max_request_bytes: 0xf_ffff,
            max_response_bytes: 64 << 20,
            login: None,
            tls: None,
        }
    }
}

/// Names a call between the core and its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// What happened.
#[derive(Debug)]
pub enum Input {
    /// A call was made.
    Call(CallId, Call),
    /// The transport that [`Action::Connect`] asked for is up.
    Connected,
    /// These bytes arrived.
    Received(Bytes),
    /// The transport could not be had, or is gone.
    Lost(String),
    /// Nothing but that [`Core::next_deadline`] has passed.
    Tick,
}

/// What to do.
#[derive(Debug)]
pub enum Action {
    /// Look this server up and connect to it; any transport before is closed already.
    Connect(usize),
    /// Send these bytes.
    Send(Bytes),
    /// Close the transport, or stop trying to get one. What was to be sent need not be.
    Disconnect,
    /// Answer a call.
    Reply(CallId, Result<Answer, Error>),
    /// Tell the session's owner.
    Event(Event),
    /// The session was opened for the first time.
    Opened,
    /// Nothing more will come; why, unless it was closed on request.
    Over(Error),
}

/// What a session's owner is told without asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A watched node changed. The watch is spent.
    Watched(Change, String),
    /// The connection was lost.
    Disconnected,
    /// No server has confirmed the session for as long as it lasts: it may be over.
    Lapsed,
    /// The connection is back, in the same session; missed changes of watched nodes follow.
    Connected,
    /// The session is over: nothing more comes.
    Expired,
}

/// The session as far as its owner may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its id.
    pub id: i64,
    /// How long a server keeps it in silence.
    pub timeout: Duration,
    /// When the last request was sent that a server answered.
    pub confirmed_at: Instant,
}

#[derive(Debug)]
enum State {
    Waiting { until: Instant },
    Connecting { until: Instant },
    Opening { until: Instant, sent_at: Instant },
    Authenticating { until: Instant, digest: DigestMd5 },
    Ready,
    Over(Error),
}

/// A request whose answer is awaited. Answers come in the order of the requests.
#[derive(Debug)]
struct InFlight {
    xid: i32,
    what: What,
    sent_at: Instant,
}

#[derive(Debug)]
enum What {
    Call(Queued),
    /// A call that was answered for want of an answer in time.
    Forgotten(Call),
    Watches,
    Sasl,
}

#[derive(Debug)]
struct Queued {
    id: CallId,
    call: Call,
    deadline: Instant,
}

/// The state machine.
#[derive(Debug)]
pub struct Core {
    settings: Settings,
    chroot: String,
    /// What the servers are called, for messages.
    names: Vec<String>,
    random: Arc<dyn Random>,
    /// The servers, in the order in which they are tried next, and how many tries there were since a
    /// server last answered a request.
    order: Vec<usize>,
    tries: usize,
    state: State,
    /// Why the last try to connect failed; `None` once one succeeded.
    failure: Option<String>,
    /// Bounds the opening of the session; `None` once it is open.
    give_up_at: Option<Instant>,
    session: Session,
    password: Bytes,
    lapsed: bool,
    last_zxid: i64,
    last_xid: i32,
    watches: Watches,
    queue: VecDeque<Queued>,
    in_flight: VecDeque<InFlight>,
    calls_in_flight: usize,
    ping_sent_at: Option<Instant>,
    last_sent: Instant,
    /// Since when something that was asked is not answered and nothing is heard.
    silent_since: Option<Instant>,
    received: BytesMut,
    closing: bool,
}

impl Core {
    /// A client that has not begun; the first [`Input::Tick`] sets it off.
    #[must_use]
    pub fn new(
        servers: &ConnectString,
        settings: Settings,
        random: Arc<dyn Random>,
        now: Instant,
    ) -> Self {
        assert!(
            !servers.hosts.is_empty() && settings.max_in_flight > 0,
            "{servers:?} {settings:?}"
        );
        let mut core = Self {
            order: (0..servers.hosts.len()).collect(),
            chroot: servers.chroot.clone(),
            names: servers.hosts.iter().map(ToString::to_string).collect(),
            random,
            tries: 0,
            state: State::Waiting { until: now },
            failure: None,
            give_up_at: Some(now + settings.connection_timeout),
            session: Session { id: 0, timeout: settings.session_timeout, confirmed_at: now },
            password: Bytes::from_static(&[0; 16]),
            lapsed: false,
            last_zxid: 0,
            last_xid: 0,
            watches: Watches::default(),
            queue: VecDeque::new(),
            in_flight: VecDeque::new(),
            calls_in_flight: 0,
            ping_sent_at: None,
            last_sent: now,
            silent_since: None,
            received: BytesMut::new(),
            closing: false,
            settings,
        };
        core.shuffle(0);
        core
    }

    /// The session; its id is 0 until it is open.
    #[must_use]
    pub fn session(&self) -> Session {
        self.session
    }

    /// How many watches there are.
    #[must_use]
    pub fn watch_count(&self) -> usize {
        self.watches.len()
    }

    /// The only way in: goes by one event and appends what must be done about it, in order.
    pub fn step(&mut self, now: Instant, input: Input, actions: &mut Vec<Action>) {
        match input {
            Input::Call(id, call) => self.enqueue(now, id, call, actions),
            Input::Connected => self.open(now, actions),
            Input::Received(bytes) => self.receive(now, bytes, actions),
            Input::Lost(mut why) => {
                let unanswered = matches!(self.state, State::Opening { .. });
                if unanswered && self.settings.tls.is_none() {
                    why.push_str(" before it answered, as a port for TLS does");
                }
                self.lose(now, &why, actions);
            }
            Input::Tick => {}
        }
        self.keep_time(now, actions);
        self.send_queued(now, actions);
    }

    /// When to send [`Input::Tick`] if nothing happens first.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let state = match &self.state {
            State::Waiting { until }
            | State::Connecting { until }
            | State::Opening { until, .. }
            | State::Authenticating { until, .. } => Some(*until),
            State::Ready => None,
            State::Over(_) => return None,
        };
        let ready = matches!(self.state, State::Ready);
        let ping = (ready && self.ping_sent_at.is_none()).then(|| self.last_sent + self.third());
        let silence = self.silent_since.filter(|_| ready).map(|since| since + self.third());
        let lapse = (self.session.id != 0 && !self.lapsed)
            .then(|| self.session.confirmed_at + self.session.timeout);
        let queued = self.queue.front().map(|queued| queued.deadline);
        let sent = self.first_call_in_flight().map(|queued| queued.deadline);
        [state, ping, silence, lapse, queued, sent, self.give_up_at].into_iter().flatten().min()
    }

    fn first_call_in_flight(&self) -> Option<&Queued> {
        self.in_flight.iter().find_map(|sent| match &sent.what {
            What::Call(queued) => Some(queued),
            What::Forgotten(_) | What::Watches | What::Sasl => None,
        })
    }

    fn third(&self) -> Duration {
        (self.session.timeout / 3).max(SHORTEST_INTERVAL)
    }

    fn enqueue(&mut self, now: Instant, id: CallId, call: Call, actions: &mut Vec<Action>) {
        let refused = match &self.state {
            State::Over(why) => Some(why.clone()),
            _ if self.closing => Some(Error::Closed),
            State::Waiting { .. }
            | State::Connecting { .. }
            | State::Opening { .. }
            | State::Authenticating { .. }
            | State::Ready => check(&call, &self.chroot, self.settings.max_request_bytes).err(),
        };
        if let Some(error) = refused {
            actions.push(Action::Reply(id, Err(error)));
            return;
        }
        self.closing = call == Call::Close;
        // Whoever stops does not wait for an ensemble that is away: the session ends by itself.
        let patience = if self.closing { self.third() } else { self.session.timeout };
        let deadline = now + patience;
        self.queue.push_back(Queued { id, call, deadline });
    }

    /// Sends what may be sent.
    fn send_queued(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while matches!(self.state, State::Ready)
            && self.calls_in_flight < self.settings.max_in_flight
            && let Some(queued) = self.queue.pop_front()
        {
            let xid = self.next_xid();
            let frame = protocol::encode(&queued.call, xid, &self.chroot);
            self.calls_in_flight += 1;
            self.send_request(now, xid, What::Call(queued), frame, actions);
        }
    }

    fn send_request(
        &mut self,
        now: Instant,
        xid: i32,
        what: What,
        frame: Bytes,
        actions: &mut Vec<Action>,
    ) {
        self.in_flight.push_back(InFlight { xid, what, sent_at: now });
        self.send(now, frame, actions);
    }

    fn send(&mut self, now: Instant, frame: Bytes, actions: &mut Vec<Action>) {
        self.last_sent = now;
        self.silent_since.get_or_insert(now);
        actions.push(Action::Send(frame));
    }

    /// Positive; a connection with more than 2^31 requests begins anew.
    fn next_xid(&mut self) -> i32 {
        self.last_xid = if self.last_xid == i32::MAX { 1 } else { self.last_xid + 1 };
        self.last_xid
    }

    /// Does what time alone calls for.
    fn keep_time(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if matches!(self.state, State::Over(_)) {
            return;
        }
        if self.give_up_at.is_some_and(|at| now >= at) {
            let why = self.failure.clone().unwrap_or_else(|| "none answered".into());
            return self.end(Error::Unreachable(why), actions);
        }
        if self.session.id != 0
            && !self.lapsed
            && now.since(self.session.confirmed_at) >= self.session.timeout
        {
            self.lapsed = true;
            // A server that says much and answers nothing would never be left otherwise.
            self.lose(now, "the session was not confirmed in time", actions);
            actions.push(Action::Event(Event::Lapsed));
        }
        self.answer_late_calls(now, actions);
        match &self.state {
            State::Waiting { until } if now >= *until => self.connect(now, actions),
            State::Connecting { until }
            | State::Opening { until, .. }
            | State::Authenticating { until, .. }
                if now >= *until =>
            {
                self.lose(now, "no answer in time", actions);
            }
            State::Ready => {
                if self.silent_since.is_some_and(|since| now.since(since) >= self.third()) {
                    self.lose(now, "silence", actions);
                } else if self.ping_sent_at.is_none() && now.since(self.last_sent) >= self.third() {
                    self.ping_sent_at = Some(now);
                    self.send(now, protocol::ping(), actions);
                }
            }
            State::Waiting { .. }
            | State::Connecting { .. }
            | State::Opening { .. }
            | State::Authenticating { .. }
            | State::Over(_) => {}
        }
    }

    fn answer_late_calls(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while self.queue.front().is_some_and(|queued| now >= queued.deadline) {
            let queued = self.queue.pop_front().expect("there is a front");
            actions.push(Action::Reply(queued.id, Err(Error::Disconnected)));
            if queued.call == Call::Close {
                return self.end(Error::Closed, actions);
            }
        }
        if self.first_call_in_flight().is_none_or(|first| now < first.deadline) {
            return;
        }
        for sent in &mut self.in_flight {
            let What::Call(queued) = &sent.what else { continue };
            if now < queued.deadline {
                break;
            }
            actions.push(Action::Reply(queued.id, Err(unanswered(&queued.call))));
            let What::Call(queued) = std::mem::replace(&mut sent.what, What::Sasl) else {
                unreachable!("matched above")
            };
            sent.what = What::Forgotten(queued.call);
        }
    }

    /// Tries the next server.
    fn connect(&mut self, now: Instant, actions: &mut Vec<Action>) {
        // To the back: one that is left is tried again after all others.
        self.order.rotate_left(1);
        let server = *self.order.last().expect("there is a server");
        self.tries += 1;
        let parts = u32::try_from(self.order.len() + 1).unwrap_or(u32::MAX);
        let patience = (self.session.timeout / parts).max(SHORTEST_INTERVAL);
        self.state = State::Connecting { until: now + patience };
        actions.push(Action::Connect(server));
    }

    fn open(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let State::Connecting { until } = self.state else { return };
        let request = ConnectRequest {
            last_zxid: self.last_zxid,
            timeout_ms: i32::try_from(self.settings.session_timeout.as_millis())
                .unwrap_or(i32::MAX),
            session: self.session.id,
            password: &self.password,
        };
        self.received.clear();
        self.state = State::Opening { until, sent_at: now };
        actions.push(Action::Send(request.encode()));
    }

    fn receive(&mut self, now: Instant, bytes: Bytes, actions: &mut Vec<Action>) {
        self.received.extend_from_slice(&bytes);
        loop {
            let limit = match self.state {
                State::Opening { .. } => MAX_OPENING_FRAME,
                State::Authenticating { .. } | State::Ready => self.settings.max_response_bytes,
                // What a connection that was given up still brought.
                State::Waiting { .. } | State::Connecting { .. } | State::Over(_) => return,
            };
            let frame = match take_frame(&mut self.received, limit) {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(malformed) => return self.lose(now, malformed.0, actions),
            };
            if let Err(malformed) = self.take(now, frame, actions) {
                return self.lose(now, malformed.0, actions);
            }
        }
        let waiting = !self.in_flight.is_empty() || self.ping_sent_at.is_some();
        self.silent_since = waiting.then_some(now);
    }

    fn take(
        &mut self,
        now: Instant,
        frame: Bytes,
        actions: &mut Vec<Action>,
    ) -> Result<(), Malformed> {
        if let State::Opening { until, sent_at } = self.state {
            return self.take_opening(now, until, sent_at, frame, actions);
        }
        let mut r = Reader::new(frame);
        let header = ReplyHeader::decode(&mut r)?;
        match header.xid {
            protocol::NOTIFICATION_XID => {
                if let Some((change, path)) = protocol::decode_notification(&mut r)?
                    && let Some(path) = protocol::client_path(&self.chroot, &path)
                    && self.watches.fire(change, path)
                {
                    actions.push(Action::Event(Event::Watched(change, path.to_owned())));
                }
                Ok(())
            }
            protocol::PING_XID => {
                let sent_at = self.ping_sent_at.take().ok_or(Malformed("an answer to no ping"))?;
                self.confirm(sent_at);
                Ok(())
            }
            xid => {
                let sent = self.in_flight.front().ok_or(Malformed("an answer to no request"))?;
                if sent.xid != xid {
                    return Err(Malformed("an answer to another request"));
                }
                self.take_answer(now, &header, &mut r, actions)
            }
        }
    }

    fn confirm(&mut self, sent_at: Instant) {
        self.session.confirmed_at = self.session.confirmed_at.max(sent_at);
        self.tries = 0;
        // A session that lapsed while its connection was up would have been left: see `keep_time`.
        self.lapsed = false;
    }

    fn take_opening(
        &mut self,
        now: Instant,
        until: Instant,
        sent_at: Instant,
        frame: Bytes,
        actions: &mut Vec<Action>,
    ) -> Result<(), Malformed> {
        let answer = ConnectResponse::decode(frame)?;
        let Ok(timeout_ms @ 1..) = u64::try_from(answer.timeout_ms) else {
            self.end(Error::SessionExpired, actions);
            return Ok(());
        };
        if answer.session == 0 || (self.session.id != 0 && answer.session != self.session.id) {
            return Err(Malformed("another session than the one that was to be continued"));
        }
        self.session.id = answer.session;
        self.session.timeout = Duration::from_millis(timeout_ms);
        self.session.confirmed_at = self.session.confirmed_at.max(sent_at);
        self.password = answer.password;
        match self.settings.login.clone() {
            None => self.become_ready(now, actions),
            Some(login) => {
                let mut cnonce = [0; 24];
                self.random.fill(&mut cnonce);
                let digest = DigestMd5::new(login, cnonce);
                self.state = State::Authenticating { until, digest };
                self.send_token(now, &[], actions);
            }
        }
        Ok(())
    }

    fn send_token(&mut self, now: Instant, token: &[u8], actions: &mut Vec<Action>) {
        let xid = self.next_xid();
        self.send_request(now, xid, What::Sasl, protocol::sasl(xid, token), actions);
    }

    fn become_ready(&mut self, now: Instant, actions: &mut Vec<Action>) {
        self.state = State::Ready;
        self.lapsed = false;
        self.failure = None;
        // All portions ask for changes since the same moment, however the answers move `last_zxid`.
        let since = self.last_zxid;
        for portion in self.watches.portions(&self.chroot, WATCHES_PORTION) {
            let frame = protocol::set_watches(since, &portion);
            self.send_request(now, protocol::SET_WATCHES_XID, What::Watches, frame, actions);
        }
        match self.give_up_at.take() {
            Some(_) => actions.push(Action::Opened),
            None => actions.push(Action::Event(Event::Connected)),
        }
    }

    fn take_answer(
        &mut self,
        now: Instant,
        header: &ReplyHeader,
        r: &mut Reader,
        actions: &mut Vec<Action>,
    ) -> Result<(), Malformed> {
        let sent = self.in_flight.front().expect("the caller looked");
        let refusal = Refusal::of(header.error);
        let call = match &sent.what {
            What::Watches => None,
            What::Sasl => {
                self.in_flight.pop_front();
                return self.take_token(now, refusal, r, actions);
            }
            What::Call(Queued { call, .. }) | What::Forgotten(call) => Some(call),
        };
        // Decoded before anything is noted: garbage changes nothing.
        let result = match (call, refusal) {
            (None, _) => None,
            (Some(Call::Exists { .. }), Some(Refusal::NoNode)) => Some(Ok(Answer::Exists(None))),
            (Some(call), Some(refusal)) if header_tells(call, r) => {
                Some(self.refused(call, 0, refusal))
            }
            (Some(call), _) => Some(match protocol::decode(call, r, &self.chroot)? {
                Ok(answer) => Ok(answer),
                Err((index, refusal)) => self.refused(call, index, refusal),
            }),
        };
        let sent = self.in_flight.pop_front().expect("the caller looked");
        self.confirm(sent.sent_at);
        if header.zxid > 0 {
            self.last_zxid = self.last_zxid.max(header.zxid);
        }
        let (Some(result), what) = (result, sent.what) else { return Ok(()) };
        self.calls_in_flight -= 1;
        match &what {
            What::Call(Queued { call, .. }) | What::Forgotten(call) => {
                self.note_watch(call, &result)
            }
            What::Watches | What::Sasl => unreachable!("they have no result"),
        }
        let moved = refusal == Some(Refusal::SessionMoved);
        if let What::Call(queued) = what {
            if queued.call == Call::Close {
                actions.push(Action::Reply(queued.id, Ok(Answer::Closed)));
                self.end(Error::Closed, actions);
                return Ok(());
            }
            actions.push(Action::Reply(queued.id, result));
        }
        if moved {
            return Err(Malformed("the session is with another server"));
        }
        Ok(())
    }

    fn refused(&self, call: &Call, index: usize, refusal: Refusal) -> Result<Answer, Error> {
        Err(match refusal {
            // The connection goes next: see `take_answer` and the server.
            Refusal::SessionMoved => Error::Disconnected,
            Refusal::SessionExpired => Error::SessionExpired,
            // The server does not say how far it got.
            Refusal::Other(-1 | -3 | -4 | -7) if call.is_write() => Error::MayHaveBeenApplied,
            Refusal::NoNode
            | Refusal::NodeExists
            | Refusal::BadVersion
            | Refusal::NotEmpty
            | Refusal::NoChildrenForEphemerals
            | Refusal::NoAuth
            | Refusal::InvalidAcl
            | Refusal::BadArguments
            | Refusal::NotTried
            | Refusal::Other(_) => Error::Refused { index, refusal },
        })
    }

    fn note_watch(&mut self, call: &Call, result: &Result<Answer, Error>) {
        match (call, result) {
            (Call::Exists { path, watch: true }, Ok(Answer::Exists(found))) => {
                let kind = if found.is_some() { Kind::Data } else { Kind::Exists };
                self.watches.arm(kind, path);
            }
            (Call::GetData { path, watch: true }, Ok(_)) => self.watches.arm(Kind::Data, path),
            (Call::GetChildren { path, watch: true }, Ok(_)) => {
                self.watches.arm(Kind::Children, path);
            }
            _ => {}
        }
    }

    fn take_token(
        &mut self,
        now: Instant,
        refusal: Option<Refusal>,
        r: &mut Reader,
        actions: &mut Vec<Action>,
    ) -> Result<(), Malformed> {
        let State::Authenticating { digest, .. } = &mut self.state else {
            return Err(Malformed("a token out of turn"));
        };
        let answer = match refusal {
            Some(_) => Err("wrong name or password".to_owned()),
            None => digest.step(&r.buffer()?.unwrap_or_default()),
        };
        match answer {
            Ok(Some(token)) => self.send_token(now, &token, actions),
            Ok(None) => self.become_ready(now, actions),
            Err(why) => self.end(Error::AuthenticationFailed(why), actions),
        }
        Ok(())
    }

    /// The connection is gone, or is given up.
    fn lose(&mut self, now: Instant, why: &str, actions: &mut Vec<Action>) {
        match self.state {
            State::Waiting { .. } | State::Over(_) => return,
            State::Connecting { .. } | State::Opening { .. } | State::Authenticating { .. } => {
                self.note_failure(why);
            }
            State::Ready => tracing::warn!(why, "connection to ZooKeeper lost"),
        }
        let was_ready = matches!(self.state, State::Ready);
        self.state = State::Waiting { until: now + self.pause() };
        self.received = BytesMut::new();
        (self.ping_sent_at, self.silent_since) = (None, None);
        actions.push(Action::Disconnect);
        let mut again = Vec::new();
        for sent in self.in_flight.drain(..) {
            let What::Call(queued) = sent.what else { continue };
            if queued.call.is_write() {
                actions.push(Action::Reply(queued.id, Err(Error::MayHaveBeenApplied)));
            } else {
                again.push(queued);
            }
        }
        self.calls_in_flight = 0;
        again.into_iter().rev().for_each(|queued| self.queue.push_front(queued));
        if was_ready {
            actions.push(Action::Event(Event::Disconnected));
        }
    }

    /// A server that cannot be used is reported once for each reason: it is tried again and again.
    fn note_failure(&mut self, why: &str) {
        let server = &self.names[*self.order.last().expect("there is a server")];
        let failure = Some(format!("{server}: {why}"));
        if self.failure == failure {
            tracing::debug!(server, why, "no connection to a ZooKeeper server");
        } else {
            tracing::warn!(server, why, "no connection to a ZooKeeper server");
            self.failure = failure;
        }
    }

    /// How long to wait before the next try: not at all, but after each round over all servers.
    fn pause(&mut self) -> Duration {
        let servers = self.order.len();
        if self.tries == 0 || !self.tries.is_multiple_of(servers) {
            return Duration::ZERO;
        }
        let rounds = u32::try_from(self.tries / servers - 1).unwrap_or(u32::MAX).min(10);
        self.shuffle(1);
        let longest = (FIRST_PAUSE * (1 << rounds)).min(LONGEST_PAUSE);
        // Clients that lost the same server do not come back all at once.
        longest / 2 + longest.mul_f64(self.fraction()) / 2
    }

    fn fraction(&self) -> f64 {
        f64::from(u32::try_from(self.random.below(1 << 20)).unwrap_or(0)) / f64::from(1 << 20)
    }

    /// Shuffles the servers; with `last` 1, the one that was tried last stays last.
    fn shuffle(&mut self, last: usize) {
        let among = self.order.len() - last.min(self.order.len());
        for i in (1..among).rev() {
            let j = usize::try_from(self.random.below(i as u64 + 1)).expect("below a usize");
            self.order.swap(i, j);
        }
    }

    /// The end: every call is answered, nothing more is done.
    fn end(&mut self, why: Error, actions: &mut Vec<Action>) {
        actions.push(Action::Disconnect);
        let closed = why == Error::Closed || (self.closing && why == Error::SessionExpired);
        let queued = self.queue.drain(..).map(|queued| (queued, false));
        let sent = self.in_flight.drain(..).filter_map(|sent| match sent.what {
            What::Call(queued) => Some((queued, true)),
            What::Forgotten(_) | What::Watches | What::Sasl => None,
        });
        // Those that were sent came first.
        let mut all: Vec<_> = queued.collect();
        all.splice(0..0, sent);
        for (Queued { id, call, .. }, sent) in all {
            let result = if call == Call::Close && closed && why == Error::SessionExpired {
                Ok(Answer::Closed)
            } else if sent && call.is_write() {
                Err(Error::MayHaveBeenApplied)
            } else {
                Err(why.clone())
            };
            actions.push(Action::Reply(id, result));
        }
        self.calls_in_flight = 0;
        if self.give_up_at.take().is_none() {
            actions.push(Action::Event(Event::Expired));
        }
        self.state = State::Over(why.clone());
        actions.push(Action::Over(why));
    }
}

/// Whether an answer with an error has nothing behind its header, as all have but transactions'.
fn header_tells(call: &Call, r: &Reader) -> bool {
    !matches!(call, Call::Multi(_)) || r.is_empty()
}

/// What is said to the maker of a call whose answer does not come.
fn unanswered(call: &Call) -> Error {
    if call.is_write() { Error::MayHaveBeenApplied } else { Error::Disconnected }
}

/// Refuses what servers would answer by closing the connection, again and again.
fn check(call: &Call, chroot: &str, limit: usize) -> Result<(), Error> {
    let refuse = |index| Error::Refused { index, refusal: Refusal::BadArguments };
    let check_op = |(index, op): (usize, &protocol::Op)| {
        use protocol::Op;
        let (Op::Create { path, .. }
        | Op::Delete { path, .. }
        | Op::Set { path, .. }
        | Op::Check { path, .. }) = op;
        // The digits of a sequential node may be all of its name.
        let named = match op {
            Op::Create { mode, .. } if mode.is_sequential() => path.strip_suffix('/'),
            Op::Create { .. } | Op::Delete { .. } | Op::Set { .. } | Op::Check { .. } => None,
        };
        validate_path(named.unwrap_or(path)).map_err(|_| refuse(index))
    };
    match call {
        Call::Single(op) => check_op((0, op))?,
        Call::Multi(ops) => ops.iter().enumerate().try_for_each(check_op)?,
        Call::Exists { path, .. }
        | Call::GetData { path, .. }
        | Call::GetChildren { path, .. }
        | Call::GetAcl { path }
        | Call::SetAcl { path, .. }
        | Call::Sync { path } => validate_path(path).map_err(|_| refuse(0))?,
        Call::Close => {}
    }
    if let Call::Single(_) | Call::Multi(_) | Call::SetAcl { .. } = call {
        let size = protocol::encode(call, 0, chroot).len() - 4;
        if size > limit {
            return Err(Error::TooLarge(size));
        }
    }
    Ok(())
}

/// A whole frame, without its length; `None` if more bytes are needed.
fn take_frame(received: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, Malformed> {
    let Some(length) = received.first_chunk::<4>() else { return Ok(None) };
    let length = usize::try_from(i32::from_be_bytes(*length))
        .map_err(|_| Malformed("a frame of negative length"))?;
    if length > limit {
        return Err(Malformed("a frame longer than allowed"));
    }
    if received.len() - 4 < length {
        return Ok(None);
    }
    received.advance(4);
    Ok(Some(received.split_to(length).freeze()))
}

#[cfg(test)]
mod tests;
