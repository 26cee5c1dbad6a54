//! A request on its way through a handler, and the answer on its way back.
//!
//! Handlers are plain functions: they answer at once ([`Request::respond`]), say that there is
//! nothing to say ([`Outcome::Silent`]), or park the request ([`Request::into_parked`]) and answer
//! later from whatever thread knows the answer. Whichever it is, the connection sends answers in
//! the order of its requests. A parked request that is dropped without an answer closes its
//! connection: a client may see a broken connection, never a silent hang.

use crate::inbox::Inbox;
use crate::listener::Listener;
use bytestring::ByteString;
use model::Instant;
use parking_lot::Mutex;
use protocol::{EncodeError, Message, Segment, Writer, encode_response_header};
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::sync::Arc;
use tracing::error;

/// One request, decoded, with what is known of where it came from.
#[derive(Debug)]
pub struct Request<R: protocol::Request> {
    /// The message.
    pub body: R,
    /// Who asks, and how.
    pub context: RequestContext,
    /// The way back.
    pub responder: Responder<R>,
}

impl<R: protocol::Request> Request<R> {
    /// Answers at once.
    pub fn respond(self, body: R::Response) -> Outcome {
        self.responder.respond(&body)
    }

    /// Keeps the request for a later answer; the handler then returns [`Outcome::Parked`].
    #[must_use = "dropping a parked request closes its connection"]
    pub fn into_parked(self) -> Parked<R> {
        Parked { body: self.body, context: self.context, responder: self.responder.park() }
    }
}

/// What a handler may want to know besides the message.
#[derive(Clone, Debug)]
pub struct RequestContext {
    /// The version of the request, and so of its answer.
    pub api_version: i16,
    /// The client's number for this request.
    pub correlation_id: i32,
    /// What the client calls itself; empty if it does not (Kafka takes null for empty).
    pub client_id: ByteString,
    /// When the request had arrived whole.
    pub received_at: Instant,
    /// The connection it came by.
    pub connection: Arc<ConnectionContext>,
}

impl RequestContext {
    /// The listener that the client connected to.
    #[must_use]
    pub fn listener(&self) -> &Arc<Listener> {
        &self.connection.listener
    }

    /// The client's address.
    #[must_use]
    pub fn peer(&self) -> SocketAddr {
        self.connection.peer
    }
}

/// What is known of a connection for as long as it lives.
#[derive(Debug)]
pub struct ConnectionContext {
    /// The listener that accepted it.
    pub listener: Arc<Listener>,
    /// The client's address.
    pub peer: SocketAddr,
    /// What the client said it is (KIP-511), once it did.
    software: Mutex<Option<ClientSoftware>>,
    /// Where answers from elsewhere go.
    home: Arc<Inbox>,
    token: ConnectionToken,
}

impl ConnectionContext {
    /// A connection that is number `token` of the reactor that owns `home`.
    #[must_use]
    pub fn new(
        listener: Arc<Listener>,
        peer: SocketAddr,
        home: Arc<Inbox>,
        token: ConnectionToken,
    ) -> Self {
        Self { listener, peer, software: Mutex::new(None), home, token }
    }

    /// The client library and its version, if the client told them.
    #[must_use]
    pub fn software(&self) -> Option<ClientSoftware> {
        self.software.lock().clone()
    }

    /// Remembers what the client says it is.
    pub fn set_software(&self, software: ClientSoftware) {
        *self.software.lock() = Some(software);
    }

    /// The connection's place in its reactor.
    #[must_use]
    pub fn token(&self) -> ConnectionToken {
        self.token
    }

    pub(crate) fn complete(&self, sequence: u64, completion: Completion) {
        self.home.complete(self.token, sequence, completion);
    }
}

/// A client library's name and version, both checked by ApiVersions (KIP-511).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSoftware {
    /// The library, such as `apache-kafka-java`.
    pub name: ByteString,
    /// Its version.
    pub version: ByteString,
}

/// Names one connection of one reactor. Never used twice: an answer that comes too late for its
/// connection must not reach the next one in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnectionToken {
    /// The place in the reactor's table.
    pub slot: u32,
    /// How many connections had the place before.
    pub generation: u32,
}

/// What a handler did with a request.
#[derive(Debug)]
#[must_use = "the connection acts on it"]
pub enum Outcome {
    /// Here is the answer.
    Respond(Response),
    /// The answer will come through the [`Parked`] request.
    Parked,
    /// There will be no answer: a Produce with `acks=0` that went well.
    Silent,
    /// The connection is to be closed once the answers before this one are sent.
    Close(CloseReason),
}

/// An answer, encoded and framed. Nearly always one segment, which takes no list.
#[derive(Debug, Default)]
pub struct Response {
    pub(crate) first: Option<Segment>,
    pub(crate) rest: Vec<Segment>,
}

impl Response {
    fn push(&mut self, segment: Segment) {
        match self.first {
            None => self.first = Some(segment),
            Some(_) => self.rest.push(segment),
        }
    }
}

/// Why a connection is closed by us. Printed in the one line that is logged about it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CloseReason {
    /// The frame's length is negative or above what the connection may send.
    #[error("frame of {length} bytes: at most {limit} are allowed")]
    FrameLength {
        /// What the client announced.
        length: i32,
        /// What it may send.
        limit: usize,
    },
    /// The frame is too short for, or is not, a request header.
    #[error("not a request header: {0}")]
    Header(String),
    /// The API key is not known or not served.
    #[error("API key {0} is not served")]
    UnknownApi(i16),
    /// The API is served, but not in this version.
    #[error("version {version} is not served, only {lowest} to {highest}")]
    UnsupportedVersion {
        /// What the client asked for.
        version: i16,
        /// The lowest that is served.
        lowest: i16,
        /// The highest.
        highest: i16,
    },
    /// The body is not what the header says.
    #[error("malformed request: {0}")]
    Malformed(String),
    /// A Produce with `acks=0` failed; closing is the only way to tell (as Kafka does).
    #[error("a produce request without acknowledgement failed")]
    SilentProduceFailed,
    /// An answer could not be encoded; a defect of ours.
    #[error("the answer cannot be encoded: {0}")]
    Encode(String),
    /// A parked request was given up.
    #[error("the request was given up")]
    GivenUp,
    /// Anything else that a handler decides.
    #[error("{0}")]
    Other(&'static str),
}

/// The way back for one request, while its handler runs.
pub struct Responder<R: protocol::Request> {
    connection: Arc<ConnectionContext>,
    sequence: u64,
    api_version: i16,
    correlation_id: i32,
    request: PhantomData<fn(R) -> R::Response>,
}

impl<R: protocol::Request> Responder<R> {
    pub(crate) fn new(context: &RequestContext, sequence: u64) -> Self {
        Self {
            connection: Arc::clone(&context.connection),
            sequence,
            api_version: context.api_version,
            correlation_id: context.correlation_id,
            request: PhantomData,
        }
    }

    /// Encodes the answer at the request's version.
    pub fn respond(self, body: &R::Response) -> Outcome {
        let api_version = self.api_version;
        self.respond_at(body, api_version)
    }

    /// Encodes the answer at another version than the request's: only ApiVersions needs that.
    pub(crate) fn respond_at(self, body: &R::Response, api_version: i16) -> Outcome {
        match self.encode(body, api_version) {
            Ok(response) => Outcome::Respond(response),
            Err(error) => Outcome::Close(error),
        }
    }

    /// Keeps the way back for later.
    #[must_use = "dropping a parked responder closes its connection"]
    pub fn park(self) -> ParkedResponder<R> {
        ParkedResponder { responder: Some(self) }
    }

    fn encode(&self, body: &R::Response, api_version: i16) -> Result<Response, CloseReason> {
        encode_response::<R>(body, api_version, self.correlation_id).map_err(|error| {
            error!(api = R::NAME, api_version, %error, "an answer cannot be encoded");
            CloseReason::Encode(error.to_string())
        })
    }
}

thread_local! {
    /// One writer per thread: its buffer serves many answers.
    static WRITER: RefCell<Writer> = RefCell::new(Writer::for_many());
}

fn encode_response<R: protocol::Request>(
    body: &R::Response,
    api_version: i16,
    correlation_id: i32,
) -> Result<Response, EncodeError> {
    WRITER.with_borrow_mut(|writer| {
        let mut response = Response::default();
        let mut encode = || {
            writer.begin_frame();
            encode_response_header(writer, R::KEY, api_version, correlation_id)?;
            body.encode(writer, api_version)?;
            writer.finish_frame_into(|segment| response.push(segment))
        };
        if let Err(error) = encode() {
            drop(writer.finish());
            return Err(error);
        }
        Ok(response)
    })
}

impl<R: protocol::Request> fmt::Debug for Responder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Responder")
            .field("api", &R::NAME)
            .field("version", &self.api_version)
            .field("correlation_id", &self.correlation_id)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

/// A request that waits for its answer outside of any handler.
#[derive(Debug)]
pub struct Parked<R: protocol::Request> {
    /// The message.
    pub body: R,
    /// Who asks, and how.
    pub context: RequestContext,
    /// The way back.
    pub responder: ParkedResponder<R>,
}

impl<R: protocol::Request> Parked<R> {
    /// Answers; from any thread.
    pub fn respond(self, body: R::Response) {
        self.responder.respond(&body);
    }
}

/// The way back for a parked request. Works from any thread; closes the connection when dropped.
pub struct ParkedResponder<R: protocol::Request> {
    /// `None` once answered.
    responder: Option<Responder<R>>,
}

impl<R: protocol::Request> ParkedResponder<R> {
    /// Answers; encodes on the calling thread.
    pub fn respond(mut self, body: &R::Response) {
        let Some(responder) = self.responder.take() else { return };
        let completion = match responder.encode(body, responder.api_version) {
            Ok(response) => Completion::Respond(response),
            Err(reason) => Completion::Close(reason),
        };
        responder.connection.complete(responder.sequence, completion);
    }

    /// Ends the request without an answer: a Produce with `acks=0` that went well.
    pub fn finish_silently(self) {
        self.finish(Completion::Silent);
    }

    /// Closes the connection once the answers before this one are sent.
    pub fn close(self, reason: CloseReason) {
        self.finish(Completion::Close(reason));
    }

    fn finish(mut self, completion: Completion) {
        if let Some(responder) = self.responder.take() {
            responder.connection.complete(responder.sequence, completion);
        }
    }
}

impl<R: protocol::Request> Drop for ParkedResponder<R> {
    fn drop(&mut self) {
        if let Some(responder) = self.responder.take() {
            let given_up = Completion::Close(CloseReason::GivenUp);
            responder.connection.complete(responder.sequence, given_up);
        }
    }
}

impl<R: protocol::Request> fmt::Debug for ParkedResponder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ParkedResponder").field(&self.responder).finish()
    }
}

/// How a parked request ended.
#[derive(Debug)]
pub enum Completion {
    /// With an answer.
    Respond(Response),
    /// With nothing to say.
    Silent,
    /// With the end of the connection.
    Close(CloseReason),
}
