//! How a fetcher reaches the broker that it follows, and how it sleeps: one request at a time.
//!
//! By socket whoever waits blocks its thread ([`super::socket_link`]), so that the `async` functions never
//! wait; over a simulated network they do ([`super::virtual_link`]).

use super::fetchers::Address;
use bytes::Bytes;
use bytestring::ByteString;
use model::Instant;
use platform::Clock;
use protocol::{Message, Reader, Request, RequestHeader, Segment, Writer, decode_response_header};
use std::io;
use std::time::Duration;

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

/// What ends a wait.
pub(super) struct Waiting<'a> {
    pub(super) clock: &'a dyn Clock,
    /// Asked whenever a message came, by who waits for an answer.
    pub(super) urgency: &'a mut (dyn FnMut() -> Urgency + Send),
    /// Asked by who only sleeps.
    pub(super) has_mail: &'a (dyn Fn() -> bool + Send + Sync),
}

impl Waiting<'_> {
    /// The time, and until when to wait for an answer at most before this is asked again.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] at `deadline`; [`ExchangeFailure::Interrupted`].
    pub(super) fn until(
        &mut self,
        deadline: Instant,
        may_give_up: bool,
    ) -> Result<(Instant, Instant), ExchangeFailure> {
        let now = self.clock.now();
        let until = match (self.urgency)() {
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
        Ok((now, until))
    }
}

/// The way to one broker. Whoever waits on it is woken by messages to the fetcher.
pub(super) trait Link {
    /// Connects.
    async fn open(
        &mut self,
        address: &Address,
        settings: &ConnectionSettings,
        waiting: &mut Waiting<'_>,
    ) -> Result<(), ExchangeFailure>;

    /// Sends a request and returns the frame of its answer, without its length. After a failure the
    /// connection must be closed.
    async fn round_trip(
        &mut self,
        frame: Vec<Segment>,
        deadline: Instant,
        waiting: &mut Waiting<'_>,
    ) -> Result<Bytes, ExchangeFailure>;

    /// Sleeps until there is a message, or `until`.
    async fn sleep(&mut self, waiting: &mut Waiting<'_>, until: Option<Instant>);

    /// Keeps the buffer of an answer for the next one, if nobody holds a part of it.
    fn reclaim(&mut self, frame: Bytes);

    /// Closes the connection, if there is one.
    fn close(&mut self);
}

/// Sends `request` in `version` and returns its answer, and the frame that holds the answer's bytes:
/// [`Link::reclaim`] it when the answer is dropped.
///
/// # Errors
/// [`ExchangeFailure`]: then the connection must be closed.
pub(super) async fn exchange<R: Request>(
    link: &mut impl Link,
    settings: &ConnectionSettings,
    correlation_id: i32,
    (request, version): (&R, i16),
    waiting: &mut Waiting<'_>,
) -> Result<(R::Response, Bytes), ExchangeFailure> {
    let header = RequestHeader {
        api_key: R::KEY,
        api_version: version,
        correlation_id,
        client_id: Some(settings.client_id.clone()),
    };
    let mut writer = Writer::new_frame();
    let frame = header
        .encode(&mut writer)
        .and_then(|()| request.encode(&mut writer, version))
        .and_then(|()| writer.finish_frame())
        .map_err(|error| ExchangeFailure::Malformed(error.to_string()))?;
    let deadline = waiting.clock.now() + settings.timeout;
    let frame = link.round_trip(frame, deadline, waiting).await?;
    let malformed = |error: protocol::DecodeError| ExchangeFailure::Malformed(error.to_string());
    let mut reader = Reader::new(frame.clone());
    let id = decode_response_header(&mut reader, R::KEY, version).map_err(malformed)?;
    if id != correlation_id {
        return Err(ExchangeFailure::Malformed("it answers another request".to_owned()));
    }
    let answer = R::Response::decode(&mut reader, version).map_err(malformed)?;
    Ok((answer, frame))
}
