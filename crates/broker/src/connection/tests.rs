//! Bytes in, answers out: framing, order, muting, limits.

use super::*;
use crate::inbox::Inbox;
use crate::listener::Listener;
use crate::request::{ConnectionToken, Response};
use protocol::Segment;

const LIMIT: usize = 100 << 20;
const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const METADATA: i16 = 3;

/// A connection whose requests park if their number is in `parked`, and are echoed otherwise.
struct Client {
    core: ConnectionCore,
    refusals: Refusals,
    parked: Vec<u8>,
    /// The numbers of the requests that were executed, in order.
    executed: Vec<u8>,
}

impl Client {
    fn new() -> Self {
        let listener = Listener {
            name: "PLAINTEXT".into(),
            bound: ([127, 0, 0, 1], 9092).into(),
            advertised_host: "localhost".into(),
            advertised_port: 9092,
        };
        let context = ConnectionContext::new(
            Arc::new(listener),
            ([127, 0, 0, 1], 50_000).into(),
            Arc::new(Inbox::default()),
            ConnectionToken { slot: 0, generation: 0 },
        );
        Self {
            core: ConnectionCore::new(Arc::new(context), LIMIT),
            refusals: Refusals::default(),
            parked: Vec::new(),
            executed: Vec::new(),
        }
    }

    fn parking(numbers: &[u8]) -> Self {
        Self { parked: numbers.to_vec(), ..Self::new() }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.core.receive(&self.refusals, &Bytes::copy_from_slice(bytes), Instant::default());
        self.run();
    }

    fn run(&mut self) {
        let Self { core, parked, executed, .. } = self;
        core.run_with(usize::MAX, |_, _, frame| {
            let number = frame[2];
            executed.push(number);
            if number == b'!' {
                Outcome::Close(CloseReason::Other("asked for"))
            } else if number == b'-' {
                Outcome::Silent
            } else if parked.contains(&number) {
                Outcome::Parked
            } else {
                Outcome::Respond(answer(number))
            }
        });
    }

    fn complete(&mut self, sequence: u64, completion: Completion) {
        self.core.complete(&self.refusals, sequence, completion, Instant::default());
        self.run();
    }

    fn received(&mut self) -> String {
        let bytes = self.core.output().take().unwrap().concat();
        String::from_utf8(bytes).unwrap()
    }

    fn executed(&self) -> &str {
        std::str::from_utf8(&self.executed).unwrap()
    }
}

fn answer(number: u8) -> Response {
    Response { first: Some(Segment::Bytes(Bytes::copy_from_slice(&[number]))), rest: Vec::new() }
}

fn request(key: i16, number: u8) -> Vec<u8> {
    framed(&[&key.to_be_bytes()[..], &[number], b"some more"].concat())
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat()
}

fn requests(list: &[(i16, u8)]) -> Vec<u8> {
    list.iter().flat_map(|&(key, number)| request(key, number)).collect()
}

#[test]
fn frames_are_found_however_the_bytes_are_cut() {
    let bytes = requests(&[(METADATA, b'a'), (FETCH, b'b'), (PRODUCE, b'c')]);
    for size in 1..=bytes.len() {
        let mut client = Client::new();
        for part in bytes.chunks(size) {
            client.send(part);
        }
        assert_eq!(client.received(), "abc", "in pieces of {size}");
        assert_eq!(client.core.partial_bytes(), 0, "an idle connection owns no buffer");
    }
}

#[test]
fn a_frame_that_is_whole_is_not_copied() {
    let mut input = Input::default();
    let bytes = Bytes::from(requests(&[(METADATA, b'a'), (METADATA, b'b')]));
    input.receive(&bytes, LIMIT).unwrap();
    assert_eq!(input.frames[0].as_ptr(), bytes[4..].as_ptr());
    assert_eq!(input.frames.len(), 2);
}

#[test]
fn answers_leave_in_the_order_of_the_requests() {
    let mut client = Client::parking(b"ac");
    client.send(&requests(&[(PRODUCE, b'a'), (PRODUCE, b'b'), (PRODUCE, b'c'), (PRODUCE, b'd')]));
    assert_eq!((client.executed(), client.core.has_output()), ("abcd", false));
    client.complete(2, Completion::Respond(answer(b'c')));
    assert_eq!(client.received(), "", "c waits for a");
    client.complete(0, Completion::Respond(answer(b'a')));
    assert_eq!(client.received(), "abcd");
}

#[test]
fn only_a_produce_behind_produces_is_executed_while_one_waits() {
    let mut client = Client::parking(b"ac");
    client.send(&requests(&[(PRODUCE, b'a'), (PRODUCE, b'b'), (FETCH, b'c'), (PRODUCE, b'd')]));
    assert_eq!(client.executed(), "ab", "the fetch waits for the produce before it");
    assert!(!client.core.wants_input(), "muted");
    client.complete(0, Completion::Respond(answer(b'a')));
    assert_eq!(client.executed(), "abc", "the produce waits for the fetch before it");
    client.complete(2, Completion::Respond(answer(b'c')));
    assert_eq!((client.received().as_str(), client.executed()), ("abcd", "abcd"));
    assert!(client.core.wants_input());
}

#[test]
fn a_request_that_ends_silently_shifts_no_answer() {
    let mut client = Client::parking(b"b");
    client.send(&requests(&[(PRODUCE, b'-'), (PRODUCE, b'b'), (PRODUCE, b'-'), (PRODUCE, b'c')]));
    client.complete(1, Completion::Silent);
    assert_eq!(client.received(), "c");
}

#[test]
fn a_request_that_closes_lets_those_before_it_be_answered() {
    let mut client = Client::parking(b"a");
    client.send(&requests(&[(PRODUCE, b'a'), (PRODUCE, b'!'), (PRODUCE, b'c')]));
    assert_eq!(client.executed(), "a!", "nothing after it is executed");
    assert!(!client.core.wants_input() && !client.core.is_finished());
    client.complete(0, Completion::Respond(answer(b'a')));
    assert!(!client.core.is_finished(), "the answer has to be sent");
    assert_eq!(client.received(), "a");
    assert!(client.core.is_finished());
}

#[test]
fn a_parked_request_that_is_given_up_closes() {
    let mut client = Client::parking(b"a");
    client.send(&requests(&[(FETCH, b'a'), (FETCH, b'b')]));
    client.complete(0, Completion::Close(CloseReason::GivenUp));
    assert!(client.core.is_finished());
    assert_eq!(client.executed(), "a");
}

#[test]
fn a_completion_counts_once_and_only_for_a_request_in_flight() {
    let mut client = Client::parking(b"a");
    client.send(&requests(&[(FETCH, b'a')]));
    client.complete(7, Completion::Respond(answer(b'x')));
    client.complete(0, Completion::Respond(answer(b'a')));
    client.complete(0, Completion::Respond(answer(b'x')));
    assert_eq!(client.received(), "a");
}

#[test]
fn a_frame_of_impossible_length_closes_once_the_requests_before_it_are_answered() {
    for length in [-1, i32::MIN, i32::MAX, i32::try_from(LIMIT).unwrap() + 1] {
        let mut client = Client::parking(b"a");
        client.send(&[requests(&[(PRODUCE, b'a')]), length.to_be_bytes().to_vec()].concat());
        assert!(!client.core.wants_input(), "nothing after it is believed");
        client.complete(0, Completion::Respond(answer(b'a')));
        assert_eq!(client.received(), "a");
        assert!(client.core.is_finished(), "length {length}");
    }
}

#[test]
fn an_empty_frame_is_a_frame() {
    let mut input = Input::default();
    input.receive(&Bytes::from_static(&[0; 8]), LIMIT).unwrap();
    assert_eq!(input.frames.len(), 2, "two frames without a header, for dispatch to refuse");
}

#[test]
fn no_buffer_is_reserved_on_the_clients_word() {
    let mut client = Client::new();
    client.send(&u32::try_from(LIMIT).unwrap().to_be_bytes());
    client.send(&[0]);
    let held = |client: &Client| client.core.input.partial.as_ref().unwrap().buffer.capacity();
    assert!(held(&client) <= 1 + RESERVE_AHEAD);
    assert_eq!(client.core.partial_bytes(), 1, "others are charged for nothing that has not come");
    assert!(client.core.begins_large_frame());
    let part = vec![0; 300 << 10];
    for arrived in (1..=8).map(|count| 1 + count * part.len()) {
        client.send(&part);
        let held = held(&client);
        assert!((arrived..=2 * arrived + RESERVE_AHEAD).contains(&held), "{held} of {arrived}");
    }
}

#[test]
fn a_large_frame_is_read_into_its_own_buffer_and_no_further() {
    let body = [&PRODUCE.to_be_bytes()[..], b"a", &vec![7; 3 << 20]].concat();
    let bytes = [framed(&body), request(METADATA, b'b')].concat();
    let mut client = Client::new();
    client.send(&bytes[..100]);
    let mut at = 100;
    while let Some((buffer, room)) = client.core.direct_buffer() {
        let end = bytes.len().min(at + room.min(100_000));
        buffer.extend_from_slice(&bytes[at..end]);
        at = end;
        client.core.received_directly(&client.refusals, Instant::default());
    }
    assert!(bytes.len() - at <= DIRECT_READ + request(METADATA, b'b').len());
    client.send(&bytes[at..]);
    assert_eq!(client.received(), "ab");
}

#[test]
fn what_was_read_beyond_a_large_frame_is_not_lost() {
    let body = [&METADATA.to_be_bytes()[..], b"a", &vec![7; 200 << 10]].concat();
    let bytes = [framed(&body), request(METADATA, b'b')].concat();
    let mut client = Client::new();
    client.send(&bytes[..50]);
    let (buffer, _) = client.core.direct_buffer().unwrap();
    buffer.extend_from_slice(&bytes[50..]);
    client.core.received_directly(&client.refusals, Instant::default());
    client.run();
    assert_eq!(client.received(), "ab");
}

#[test]
fn a_client_that_does_not_read_its_answers_is_not_served_further() {
    let mut client = Client::new();
    let large = Response {
        first: Some(Segment::Bytes(Bytes::from(vec![b'.'; OUTPUT_LIMIT]))),
        rest: Vec::new(),
    };
    client.core.output().push(large);
    client.send(&requests(&[(METADATA, b'a')]));
    assert_eq!(client.executed(), "");
    assert!(!client.core.wants_input());
    client.received();
    client.run();
    assert_eq!(client.received(), "a");
}

#[test]
fn the_end_of_input_lets_what_was_asked_be_answered() {
    let mut client = Client::parking(b"b");
    client.send(&requests(&[(METADATA, b'a'), (FETCH, b'b'), (FETCH, b'c')]));
    client.core.end_of_input();
    client.complete(1, Completion::Respond(answer(b'b')));
    assert_eq!(client.received(), "abc");
    assert!(client.core.is_finished());
}

#[test]
fn a_stopping_broker_answers_produces_and_gives_up_other_waiters() {
    let mut client = Client::parking(b"a");
    client.send(&requests(&[(PRODUCE, b'a'), (FETCH, b'b')]));
    client.core.shut_down();
    assert!(!client.core.is_finished());
    client.complete(0, Completion::Respond(answer(b'a')));
    assert_eq!((client.received().as_str(), client.executed()), ("a", "a"));
    assert!(client.core.is_finished());

    let mut client = Client::parking(b"a");
    client.send(&requests(&[(FETCH, b'a')]));
    client.core.shut_down();
    assert!(client.core.is_finished());
}

#[test]
fn a_stranger_may_not_send_a_large_frame_unless_it_is_a_produce() {
    let large = u32::try_from(OPENING_LIMIT + 1).unwrap().to_be_bytes();
    let beginning = |key: i16| [&large[..], &key.to_be_bytes()].concat();
    let refuses = |pieces: &[&[u8]]| {
        let mut client = Client::new();
        pieces.iter().for_each(|piece| client.send(piece));
        client.core.is_finished()
    };
    assert!(refuses(&[&beginning(METADATA)]));
    assert!(refuses(&[&large, &[0], &[3]]), "however the bytes are cut");
    assert!(!refuses(&[&beginning(PRODUCE)]), "clients of old begin with one");
    assert!(!refuses(&[&request(METADATA, b'a'), &beginning(METADATA)]), "it has spoken");
    let together = [request(METADATA, b'a'), beginning(METADATA)].concat();
    assert!(!refuses(&[&together]));
}

#[test]
fn what_is_held_back_is_executed_in_order_once_the_broker_knows_its_cluster() {
    const API_VERSIONS: i16 = 18;
    let mut client = Client::parking(b"bcd");
    client.core.hold();
    client.send(&requests(&[(API_VERSIONS, b'a'), (PRODUCE, b'b'), (PRODUCE, b'c')]));
    assert_eq!(client.executed(), "a", "versions are the same at any time");
    assert!(client.core.is_waiting(), "it is not idle: it waits for us");
    assert!(!client.core.wants_input() && !client.core.can_run());
    client.core.release();
    client.send(&requests(&[(PRODUCE, b'd')]));
    assert_eq!(client.executed(), "abcd", "no Produce overtakes another");
    for (sequence, number) in (1..).zip(*b"123") {
        client.complete(sequence, Completion::Respond(answer(number)));
    }
    assert_eq!(client.received(), "a123");
}
