//! One connection without its socket: bytes in, frames out of them, answers in order, bytes out.
//!
//! - Nothing is believed before it arrives: a frame's length is checked when its 4 bytes are there, and
//!   its buffer grows with what has come, never more than [`RESERVE_AHEAD`] beyond it.
//! - Answers leave in the order of the requests. A Produce behind waiting Produces is executed; any
//!   other request waits for the answer before it, as with Kafka's muting.
//! - While requests wait to be executed nothing more is read, so a client's pipeline is bounded by one
//!   read and one frame.
//! - Until the broker knows its cluster a request that depends on it stays where it is: were it put off
//!   somewhere else, the Produce behind it could overtake it.
//! - An idle connection owns no buffer.
//!
//! The reactor feeds it from a socket, the simulator from its network.

use crate::Broker;
use crate::dispatch::dispatch;
use crate::output::Output;
use crate::refusals::Refusals;
use crate::request::{CloseReason, Completion, ConnectionContext, Outcome};
use bytes::Bytes;
use model::Instant;
use protocol::ApiKey;
use std::collections::VecDeque;
use std::sync::Arc;

/// How far a frame's buffer may be ahead of what has arrived of it.
pub(crate) const RESERVE_AHEAD: usize = 1 << 20;

/// A frame of which at least this much is missing is read straight into its own buffer.
pub(crate) const DIRECT_READ: usize = 64 << 10;

/// The first read of a frame that is likely to be large: the rest goes straight into its own buffer.
pub(crate) const SMALL_READ: usize = 4 << 10;

/// Nothing more is executed while this much waits to be sent: a slow reader must not fill our memory.
const OUTPUT_LIMIT: usize = 1 << 20;

/// How long a frame may be before the connection's first request was understood. Clients begin with
/// something small; old ones begin with a Produce, which may be large at once.
const OPENING_LIMIT: usize = 1 << 20;

/// A connection's state between bytes in and bytes out.
#[derive(Debug)]
pub struct ConnectionCore {
    context: Arc<ConnectionContext>,
    frame_limit: usize,
    /// Whether a request of it was understood.
    has_spoken: bool,
    /// The broker does not know its cluster yet.
    is_held: bool,
    input: Input,
    /// Requests in the order in which they came, from the first that is not answered.
    in_flight: VecDeque<InFlight>,
    /// The sequence of the front of `in_flight`.
    first_sequence: u64,
    output: Output,
    ending: Ending,
}

#[derive(Debug)]
struct InFlight {
    is_produce: bool,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    Waiting,
    Ended(Completion),
}

/// Whether and how the connection is coming to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// The client will send nothing more; what it asked is answered.
    NoMoreInput,
    /// Nothing more is executed; what is under way is answered.
    Draining,
    /// Only what is in `output` is still sent.
    Closing,
}

impl ConnectionCore {
    /// A connection that may send frames of at most `frame_limit` bytes.
    #[must_use]
    pub fn new(context: Arc<ConnectionContext>, frame_limit: usize) -> Self {
        Self {
            context,
            frame_limit,
            has_spoken: false,
            is_held: false,
            input: Input::default(),
            in_flight: VecDeque::new(),
            first_sequence: 0,
            output: Output::default(),
            ending: Ending::No,
        }
    }

    /// What is known of the client.
    #[must_use]
    pub fn context(&self) -> &Arc<ConnectionContext> {
        &self.context
    }

    /// From now on only requests are executed that do not depend on what the broker knows of its cluster.
    pub(crate) fn hold(&mut self) {
        self.is_held = true;
    }

    /// The broker knows its cluster: ends [`ConnectionCore::hold`].
    pub(crate) fn release(&mut self) {
        self.is_held = false;
    }

    /// Takes bytes that arrived. Complete frames are slices of `bytes`, not copies.
    pub fn receive(&mut self, refusals: &Refusals, bytes: &Bytes, now: Instant) {
        if self.ending != Ending::No {
            return;
        }
        let received = self.input.receive(bytes, self.frame_limit);
        if let Err(reason) = received.and_then(|()| self.check_opening()) {
            self.refuse(refusals, &reason, now);
        }
    }

    /// Strangers are not given room for large frames.
    fn check_opening(&self) -> Result<(), CloseReason> {
        if self.has_spoken || !self.input.frames.is_empty() {
            return Ok(());
        }
        match &self.input.partial {
            Some(Partial { length: Some(length), buffer, .. })
                if *length > OPENING_LIMIT && buffer.len() >= 2 && !is_produce(buffer) =>
            {
                let length = i32::try_from(*length).unwrap_or(i32::MAX);
                Err(CloseReason::FrameLength { length, limit: OPENING_LIMIT })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The buffer of a large frame that is arriving, and how many bytes of it are missing (at most what
    /// may be reserved for it now). `None`: read somewhere else and use [`ConnectionCore::receive`].
    pub(crate) fn direct_buffer(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        self.input.direct_buffer()
    }

    /// Bytes were appended to [`ConnectionCore::direct_buffer`].
    pub(crate) fn received_directly(&mut self, refusals: &Refusals, now: Instant) {
        if let Some(surplus) = self.input.finish_direct_read() {
            self.receive(refusals, &surplus, now);
        } else if let Err(reason) = self.check_opening() {
            self.refuse(refusals, &reason, now);
        }
    }

    /// Whether the last frame was so large that the next is likely to be read directly too.
    pub(crate) fn expects_large_frame(&self) -> bool {
        self.input.last_was_large
    }

    /// Bytes that have arrived of a frame that has not arrived whole. What is reserved beyond them is
    /// not touched yet, and must not count: claims would be enough to use up what all clients share.
    pub(crate) fn partial_bytes(&self) -> usize {
        self.input.partial.as_ref().map_or(0, |partial| partial.buffer.len())
    }

    /// Whether it is at the beginning of a large frame, which can wait while memory is short. Small
    /// requests never do: they are how everybody else goes on.
    pub(crate) fn begins_large_frame(&self) -> bool {
        self.input.partial.as_ref().is_some_and(|partial| {
            partial.length.is_some_and(|length| length > DIRECT_READ)
                && partial.buffer.len() <= SMALL_READ
        })
    }

    /// Executes requests until there are none, one has to wait, or `limit` have been executed; returns
    /// how many.
    pub fn run(&mut self, broker: &Arc<Broker>, limit: usize, now: Instant) -> usize {
        self.run_with(limit, |context, sequence, frame| {
            dispatch(broker, context, sequence, frame, now)
        })
    }

    fn run_with(
        &mut self,
        limit: usize,
        mut execute: impl FnMut(&Arc<ConnectionContext>, u64, Bytes) -> Outcome,
    ) -> usize {
        let mut executed = 0;
        while executed < limit
            && let Some(frame) = self.next_frame()
        {
            executed += 1;
            let is_produce = is_produce(&frame);
            let sequence = self.first_sequence + self.in_flight.len() as u64;
            let answer = match execute(&self.context, sequence, frame) {
                Outcome::Parked => Answer::Waiting,
                Outcome::Respond(response) => Answer::Ended(Completion::Respond(response)),
                Outcome::Silent => Answer::Ended(Completion::Silent),
                Outcome::Close(reason) => {
                    self.drain();
                    Answer::Ended(Completion::Close(reason))
                }
            };
            self.has_spoken |= self.ending != Ending::Draining;
            self.in_flight.push_back(InFlight { is_produce, answer });
            self.release_answers();
        }
        executed
    }

    /// A parked request has ended.
    pub fn complete(
        &mut self,
        refusals: &Refusals,
        sequence: u64,
        completion: Completion,
        now: Instant,
    ) {
        let at = sequence
            .checked_sub(self.first_sequence)
            .and_then(|at| usize::try_from(at).ok())
            .and_then(|at| self.in_flight.get_mut(at));
        let Some(request) = at else { return };
        let closes = if let Completion::Close(reason) = &completion {
            refusals.log(&self.context, None, reason, now);
            true
        } else {
            false
        };
        request.answer = Answer::Ended(completion);
        if closes {
            self.drain();
        }
        self.release_answers();
    }

    /// The client closed its side.
    pub fn end_of_input(&mut self) {
        if self.ending == Ending::No {
            self.ending = Ending::NoMoreInput;
            self.input.partial = None;
        }
    }

    /// Stops the connection with the broker: produces under way are answered, anything else that waits
    /// (a fetch for data, a join for other members) is not worth waiting for.
    pub fn shut_down(&mut self) {
        self.drain();
        if !self.in_flight.iter().any(|request| request.is_produce) {
            self.close();
        }
    }

    /// Executes nothing more; answers what is under way.
    fn drain(&mut self) {
        if self.ending != Ending::Closing {
            self.ending = Ending::Draining;
            self.input.clear();
        }
    }

    /// Whether more bytes should be read for it.
    #[must_use]
    pub fn wants_input(&self) -> bool {
        self.ending == Ending::No && self.input.frames.is_empty() && !self.output_is_full()
    }

    /// Whether [`ConnectionCore::run`] would execute something.
    #[must_use]
    pub fn can_run(&self) -> bool {
        self.input.frames.front().is_some_and(|frame| self.may_execute(frame))
    }

    /// Whether requests are waiting for their answers.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.in_flight.is_empty() || self.is_held && !self.input.frames.is_empty()
    }

    /// What waits to be sent.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Whether there is something to send.
    #[must_use]
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether the socket can be closed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.output.is_empty()
            && match self.ending {
                Ending::No => false,
                Ending::NoMoreInput => self.in_flight.is_empty() && self.input.frames.is_empty(),
                Ending::Draining => self.in_flight.is_empty(),
                Ending::Closing => true,
            }
    }

    fn next_frame(&mut self) -> Option<Bytes> {
        if self.can_run() { self.input.frames.pop_front() } else { None }
    }

    fn may_execute(&self, frame: &[u8]) -> bool {
        !self.output_is_full()
            && (!self.is_held || is_for_the_unready(frame))
            && (self.in_flight.is_empty()
                || is_produce(frame) && self.in_flight.iter().all(|request| request.is_produce))
    }

    fn output_is_full(&self) -> bool {
        self.output.len() >= OUTPUT_LIMIT
    }

    /// Moves the answers that are next in order to the output.
    fn release_answers(&mut self) {
        while let Some(request) =
            self.in_flight.pop_front_if(|r| matches!(r.answer, Answer::Ended(_)))
        {
            self.first_sequence += 1;
            match request.answer {
                Answer::Ended(Completion::Respond(response)) => self.output.push(response),
                Answer::Ended(Completion::Close(_)) => return self.close(),
                Answer::Ended(Completion::Silent) | Answer::Waiting => {}
            }
        }
    }

    fn refuse(&mut self, refusals: &Refusals, reason: &CloseReason, now: Instant) {
        refusals.log(&self.context, None, reason, now);
        // What came before the bad frame is still executed and answered.
        self.ending = Ending::NoMoreInput;
        self.input.partial = None;
    }

    fn close(&mut self) {
        self.ending = Ending::Closing;
        self.input.clear();
        self.in_flight.clear();
    }
}

fn is_produce(frame: &[u8]) -> bool {
    api_key(frame) == Some(ApiKey::Produce.code())
}

/// What makes a broker ready must reach it before that; and versions are the same at any time. A frame
/// without a key is refused at once.
fn is_for_the_unready(frame: &[u8]) -> bool {
    const KEYS: [ApiKey; 4] =
        [ApiKey::LeaderAndIsr, ApiKey::StopReplica, ApiKey::UpdateMetadata, ApiKey::ApiVersions];
    api_key(frame).is_none_or(|key| KEYS.iter().any(|known| known.code() == key))
}

fn api_key(frame: &[u8]) -> Option<i16> {
    frame.first_chunk().map(|&key| i16::from_be_bytes(key))
}

/// Frames, whole and in part.
#[derive(Debug, Default)]
struct Input {
    /// Complete frames that are not executed yet.
    frames: VecDeque<Bytes>,
    partial: Option<Partial>,
    last_was_large: bool,
}

/// The beginning of a frame.
#[derive(Debug)]
struct Partial {
    /// The first bytes of the length, while it is not whole.
    prefix: [u8; 4],
    prefix_len: usize,
    /// The frame's length once it is known.
    length: Option<usize>,
    buffer: Vec<u8>,
}

impl Input {
    fn receive(&mut self, bytes: &Bytes, limit: usize) -> Result<(), CloseReason> {
        let mut at = 0;
        if let Some(mut partial) = self.partial.take() {
            at = partial.fill(bytes, limit)?;
            self.partial = Some(partial);
            self.finish_frame_if_complete();
        }
        while self.partial.is_none() && at < bytes.len() {
            let Some(&prefix) = bytes[at..].first_chunk() else {
                self.partial = Some(Partial::starting_with(&bytes[at..]));
                break;
            };
            let length = frame_length(prefix, limit)?;
            let start = at + prefix.len();
            if let Some(end) = start.checked_add(length).filter(|&end| end <= bytes.len()) {
                self.last_was_large = false;
                self.frames.push_back(bytes.slice(start..end));
                at = end;
            } else {
                self.partial = Some(Partial::of(length, &bytes[start..]));
                break;
            }
        }
        Ok(())
    }

    fn direct_buffer(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let partial = self.partial.as_mut()?;
        let missing = partial.length?.checked_sub(partial.buffer.len())?;
        if missing < DIRECT_READ {
            return None;
        }
        partial.reserve();
        let room = missing.min(partial.buffer.capacity() - partial.buffer.len());
        Some((&mut partial.buffer, room))
    }

    /// Returns what was read beyond the frame: the allocator may give more room than was asked for.
    fn finish_direct_read(&mut self) -> Option<Bytes> {
        let partial = self.partial.as_mut()?;
        let length = partial.length?;
        let surplus =
            (partial.buffer.len() > length).then(|| Bytes::from(partial.buffer.split_off(length)));
        self.finish_frame_if_complete();
        surplus
    }

    fn finish_frame_if_complete(&mut self) {
        if let Some(partial) = self.partial.take_if(|p| p.length == Some(p.buffer.len())) {
            self.last_was_large = partial.buffer.len() >= 2 * DIRECT_READ;
            self.frames.push_back(Bytes::from(partial.buffer));
        }
    }

    fn clear(&mut self) {
        self.frames.clear();
        self.partial = None;
    }
}

impl Partial {
    fn starting_with(bytes: &[u8]) -> Self {
        let mut prefix = [0; 4];
        prefix[..bytes.len()].copy_from_slice(bytes);
        Self { prefix, prefix_len: bytes.len(), length: None, buffer: Vec::new() }
    }

    fn of(length: usize, begin: &[u8]) -> Self {
        let mut partial =
            Self { prefix: [0; 4], prefix_len: 4, length: Some(length), buffer: Vec::new() };
        partial.append(begin);
        partial
    }

    /// Takes what belongs to the frame from the start of `bytes`; returns how much.
    fn fill(&mut self, bytes: &[u8], limit: usize) -> Result<usize, CloseReason> {
        let mut at = 0;
        let length = if let Some(length) = self.length {
            length
        } else {
            at = bytes.len().min(self.prefix.len() - self.prefix_len);
            self.prefix[self.prefix_len..][..at].copy_from_slice(&bytes[..at]);
            self.prefix_len += at;
            if self.prefix_len < self.prefix.len() {
                return Ok(at);
            }
            *self.length.insert(frame_length(self.prefix, limit)?)
        };
        let taken = (bytes.len() - at).min(length - self.buffer.len());
        self.append(&bytes[at..at + taken]);
        Ok(at + taken)
    }

    fn append(&mut self, bytes: &[u8]) {
        while self.buffer.capacity() - self.buffer.len() < bytes.len() {
            let before = self.buffer.capacity();
            self.reserve();
            if self.buffer.capacity() == before {
                self.buffer.reserve(bytes.len());
            }
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Makes room for what comes next: the whole frame if it is small, else twice what has arrived, and
    /// never more than [`RESERVE_AHEAD`] on the client's word alone.
    fn reserve(&mut self) {
        let Some(length) = self.length else { return };
        let arrived = self.buffer.len();
        if self.buffer.capacity() > arrived {
            return;
        }
        let room = arrived.max(RESERVE_AHEAD).min(length - arrived);
        self.buffer.reserve_exact(room);
    }
}

/// Checks a frame's length.
fn frame_length(prefix: [u8; 4], limit: usize) -> Result<usize, CloseReason> {
    let length = i32::from_be_bytes(prefix);
    usize::try_from(length)
        .ok()
        .filter(|&bytes| bytes <= limit)
        .ok_or(CloseReason::FrameLength { length, limit })
}

#[cfg(test)]
mod tests;
