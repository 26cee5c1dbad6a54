#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for what it names")]

use super::*;
use crate::jute::Writer;
use crate::protocol::{CreateMode, Op};
use platform::random::SeededRandom;

const SECOND: Duration = Duration::from_secs(1);
/// The session that servers hand out, and its timeout.
const SESSION: i64 = 0x1234;
const TIMEOUT: Duration = Duration::from_secs(6);

/// A core with a server that the test plays.
struct Bench {
    core: Core,
    now: Instant,
    actions: Vec<Action>,
    /// What was sent, as frames without their length.
    sent: VecDeque<Bytes>,
    last_id: u64,
    /// The last change that the latest connect request says was seen.
    seen: i64,
}

impl Bench {
    fn new(servers: &str, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings {
            session_timeout: TIMEOUT,
            connection_timeout: 10 * SECOND,
            ..Settings::default()
        };
        change(&mut settings);
        let now = Instant(100 * SECOND);
        let random = Arc::new(SeededRandom::new(7));
        let core = Core::new(&servers.parse().unwrap(), settings, random, now);
        let mut bench =
            Self { core, now, actions: Vec::new(), sent: VecDeque::new(), last_id: 0, seen: 0 };
        bench.step(Input::Tick);
        bench
    }

    /// With its session open.
    fn ready(servers: &str) -> Self {
        let mut bench = Self::new(servers, |_| {});
        bench.accept();
        assert!(matches!(bench.actions[..], [.., Action::Opened]), "{:?}", bench.actions);
        bench.actions.clear();
        bench
    }

    fn step(&mut self, input: Input) {
        let mut actions = Vec::new();
        self.core.step(self.now, input, &mut actions);
        for action in actions {
            match action {
                Action::Send(mut bytes) => {
                    bytes.advance(4);
                    self.sent.push_back(bytes);
                }
                Action::Disconnect => {
                    self.sent.clear();
                    self.actions.push(Action::Disconnect);
                }
                other => self.actions.push(other),
            }
        }
    }

    /// Lets time pass, with a tick at every deadline on the way.
    fn pass(&mut self, span: Duration) {
        let end = self.now + span;
        for _ in 0..1000 {
            match self.core.next_deadline() {
                Some(at) if at <= end => {
                    self.now = self.now.max(at);
                    self.step(Input::Tick);
                }
                _ => {
                    self.now = end;
                    return;
                }
            }
        }
        panic!("a deadline that does not go away: {:?}", self.core);
    }

    /// Plays a server that accepts the connection and the session.
    fn accept(&mut self) {
        self.accept_with(i32::try_from(TIMEOUT.as_millis()).unwrap(), SESSION);
    }

    fn accept_with(&mut self, timeout_ms: i32, session: i64) {
        while let State::Waiting { until } = self.core.state {
            self.now = self.now.max(until);
            self.step(Input::Tick);
        }
        self.step(Input::Connected);
        let mut w = Writer::new();
        w.i32(0);
        w.i32(timeout_ms);
        w.i64(session);
        w.buffer(Some(&[9; 16]));
        w.bool(false);
        let request = self.sent.pop_back().expect("a connect request");
        assert_eq!(request.len(), 45, "all of a connect request");
        self.seen = (&request[4..]).get_i64();
        self.step(Input::Received(w.finish()));
    }

    fn call(&mut self, call: Call) -> CallId {
        self.last_id += 1;
        let id = CallId(self.last_id);
        self.step(Input::Call(id, call));
        id
    }

    /// The oldest frame that was sent and not looked at: its xid and operation.
    fn next_sent(&mut self) -> Option<(i32, i32, Reader)> {
        let mut r = Reader::new(self.sent.pop_front()?);
        Some((r.i32().unwrap(), r.i32().unwrap(), r))
    }

    fn answer(&mut self, xid: i32, zxid: i64, error: i32, body: impl FnOnce(&mut Writer)) {
        let mut w = Writer::new();
        w.i32(xid);
        w.i64(zxid);
        w.i32(error);
        body(&mut w);
        self.step(Input::Received(w.finish()));
    }

    fn notify(&mut self, kind: i32, path: &str) {
        self.answer(-1, -1, 0, |w| {
            w.i32(kind);
            w.i32(3);
            w.string(path);
        });
    }

    fn replies(&mut self) -> Vec<(CallId, Result<Answer, Error>)> {
        let mut replies = Vec::new();
        self.actions.retain(|action| match action {
            Action::Reply(id, result) => {
                replies.push((*id, result.clone()));
                false
            }
            _ => true,
        });
        replies
    }

    fn events(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        self.actions.retain(|action| match action {
            Action::Event(event) => {
                events.push(event.clone());
                false
            }
            _ => true,
        });
        events
    }
}

fn stat(w: &mut Writer) {
    for value in [1i64, 2, 3, 4] {
        w.i64(value);
    }
    for value in [5i32, 6, 7] {
        w.i32(value);
    }
    w.i64(0);
    w.i32(0);
    w.i32(0);
    w.i64(8);
}

fn set(path: &str) -> Call {
    Call::Single(Op::Set { path: path.into(), data: None, version: None })
}

fn get(path: &str) -> Call {
    Call::GetData { path: path.into(), watch: true }
}

fn exists(path: &str) -> Call {
    Call::Exists { path: path.into(), watch: true }
}

#[test]
fn a_lost_connection_makes_writes_uncertain_and_reads_again() {
    let mut bench = Bench::ready("a:1,b:1");
    let (write, read) = (bench.call(set("/w")), bench.call(get("/r")));
    bench.step(Input::Lost("test".into()));
    assert_eq!(bench.replies(), [(write, Err(Error::MayHaveBeenApplied))]);
    assert_eq!(bench.events(), [Event::Disconnected]);
    let later = bench.call(set("/later"));
    bench.accept();
    assert_eq!(bench.events(), [Event::Connected]);
    let (xid, op, _) = bench.next_sent().unwrap();
    assert_eq!(op, 4, "the read first");
    bench.answer(xid, 10, 0, |w| {
        w.buffer(None);
        stat(w);
    });
    let (xid, op, _) = bench.next_sent().unwrap();
    assert_eq!(op, 5);
    bench.answer(xid, 11, 0, stat);
    let replies = bench.replies();
    assert!(
        matches!(&replies[..], [(r, Ok(Answer::Data(None, s))), (w, Ok(Answer::Done(_)))]
            if *r == read && *w == later && s.pzxid == 8),
        "{replies:?}"
    );
    assert!(bench.next_sent().is_none(), "the lost write was not made again");
}

/// A server that is behind refuses a client that tells it so: what was read once is never unread.
#[test]
fn a_server_is_told_what_was_seen_at_any_other() {
    let mut bench = Bench::ready("a:1,b:1");
    assert_eq!(bench.seen, 0);
    for (zxid, seen) in [(42, 42), (41, 42), (-1, 42), (43, 43)] {
        let id = bench.call(set("/a"));
        let (xid, ..) = bench.next_sent().unwrap();
        bench.answer(xid, zxid, 0, stat);
        let replies = bench.replies();
        assert!(matches!(&replies[..], [(answered, Ok(_))] if *answered == id), "{replies:?}");
        bench.step(Input::Lost("gone".into()));
        bench.accept();
        bench.actions.clear();
        assert_eq!(bench.seen, seen, "after an answer that names change {zxid}");
    }
}

#[test]
fn a_call_without_a_connection_fails_when_its_time_is_up() {
    let mut bench = Bench::ready("a:1");
    bench.step(Input::Lost("test".into()));
    let id = bench.call(set("/w"));
    bench.pass(TIMEOUT - SECOND);
    assert_eq!(bench.replies(), []);
    bench.pass(SECOND);
    assert_eq!(bench.replies(), [(id, Err(Error::Disconnected))]);
}

#[test]
fn no_more_calls_are_in_flight_than_allowed() {
    let mut bench = Bench::ready("a:1");
    let ids: Vec<_> = (0..25).map(|_| bench.call(set("/w"))).collect();
    assert_eq!(bench.sent.len(), 10);
    for _ in 0..25 {
        let (xid, ..) = bench.next_sent().expect("another one was sent");
        bench.answer(xid, 1, 0, stat);
    }
    let replied: Vec<_> = bench.replies().into_iter().map(|(id, _)| id).collect();
    assert_eq!(replied, ids, "in order");
}

#[test]
fn watches_are_asked_for_again_since_the_same_moment_and_before_any_call() {
    let mut bench = Bench::ready("a:1/base");
    bench.core.settings.max_in_flight = 10_000;
    for i in 0..4000 {
        bench.call(get(&format!("/a/path/that/is/long/enough/to/need/several/portions/{i}")));
        let (xid, ..) = bench.next_sent().unwrap();
        bench.answer(xid, 77, 0, |w| {
            w.buffer(None);
            stat(w);
        });
    }
    bench.call(exists("/missing"));
    let (xid, ..) = bench.next_sent().unwrap();
    bench.answer(xid, 78, -101, |_| {});
    assert!(matches!(bench.replies().last(), Some((_, Ok(Answer::Exists(None))))));
    bench.step(Input::Lost("test".into()));
    let read = bench.call(get("/other"));
    bench.accept();
    let mut portions = 0;
    let mut paths = 0;
    loop {
        let (xid, op, mut r) = bench.next_sent().unwrap();
        if op == 4 {
            break;
        }
        assert_eq!((xid, op, r.i64().unwrap()), (-8, 101, 78));
        portions += 1;
        for _ in 0..3 {
            let listed = r.vector(4, Reader::string).unwrap();
            assert!(listed.iter().all(|path| path.starts_with("/base/")));
            paths += listed.len();
        }
        // The server has moved on: that must not change what the next portions say.
        bench.answer(-8, 1000, 0, |_| {});
    }
    assert!(portions > 2, "{portions}");
    assert_eq!(paths, 4001);
    bench.notify(1, "/base/missing");
    bench.notify(1, "/base/missing");
    bench.notify(3, "/elsewhere");
    let missed = Event::Watched(Change::Created, "/missing".into());
    assert_eq!(bench.events(), [Event::Disconnected, Event::Connected, missed], "once");
    assert!(bench.replies().iter().all(|(id, _)| *id != read));
}

#[test]
fn a_silent_server_is_left_for_another_within_the_session() {
    let mut bench = Bench::ready("a:1,b:1,c:1");
    let first = bench.now;
    bench.pass(2 * SECOND);
    assert_eq!(bench.next_sent().map(|(xid, op, _)| (xid, op)), Some((-2, 11)), "a ping");
    bench.pass(2 * SECOND);
    assert_eq!(bench.events(), [Event::Disconnected]);
    let connects = |bench: &Bench| -> Vec<usize> {
        let server = |action: &Action| match action {
            Action::Connect(server) => Some(*server),
            _ => None,
        };
        bench.actions.iter().filter_map(server).collect()
    };
    let tried = connects(&bench);
    assert_eq!(tried.len(), 1, "at once");
    // This one does not answer either.
    bench.pass(1500 * Duration::from_millis(1));
    let tried = connects(&bench);
    assert_eq!(tried.len(), 2);
    assert_ne!(tried[0], tried[1]);
    assert!(bench.now.since(first) < TIMEOUT);
    bench.accept();
    assert_eq!(bench.events(), [Event::Connected]);
    assert_eq!(bench.core.session().confirmed_at, bench.now);
}

#[test]
fn a_session_that_nobody_confirms_lapses_and_comes_back() {
    let mut bench = Bench::ready("a:1");
    bench.step(Input::Lost("test".into()));
    bench.pass(TIMEOUT - Duration::from_millis(1));
    assert_eq!(bench.events(), [Event::Disconnected]);
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.events(), [Event::Lapsed]);
    bench.pass(300 * SECOND);
    assert_eq!(bench.events(), [], "it is the server that ends a session");
    bench.accept();
    assert_eq!(bench.events(), [Event::Connected]);
}

#[test]
fn the_server_ends_a_session() {
    let mut bench = Bench::ready("a:1");
    bench.step(Input::Lost("test".into()));
    let queued = bench.call(set("/w"));
    bench.accept_with(0, 0);
    assert_eq!(bench.replies(), [(queued, Err(Error::SessionExpired))]);
    assert_eq!(bench.events(), [Event::Disconnected, Event::Expired]);
    assert_eq!(bench.core.next_deadline(), None);
    let late = bench.call(set("/w"));
    assert_eq!(bench.replies(), [(late, Err(Error::SessionExpired))]);
}

#[test]
fn servers_that_cannot_be_reached_are_tried_in_turn_and_given_up() {
    let mut bench = Bench::new("a:1,b:1,c:1", |_| {});
    let mut tried = Vec::new();
    for _ in 0..200 {
        let actions = std::mem::take(&mut bench.actions);
        for action in actions {
            match action {
                Action::Connect(server) => tried.push(server),
                Action::Over(why) => {
                    assert!(matches!(why, Error::Unreachable(_)), "{why:?}");
                    assert_eq!(bench.now, Instant(110 * SECOND));
                    let mut round = tried[..3].to_vec();
                    round.sort_unstable();
                    assert_eq!(round, [0, 1, 2]);
                    assert!((30..80).contains(&tried.len()), "{}", tried.len());
                    return;
                }
                _ => {}
            }
        }
        bench.step(Input::Lost("refused".into()));
        while let State::Waiting { .. } = bench.core.state {
            bench.now = bench.now.max(bench.core.next_deadline().unwrap());
            bench.step(Input::Tick);
        }
    }
    panic!("never given up");
}

#[test]
fn garbage_ends_the_connection_and_answers_nothing_wrong() {
    let frame = |build: &dyn Fn(&mut Writer)| {
        let mut w = Writer::new();
        build(&mut w);
        w.finish()
    };
    let header = |w: &mut Writer, xid: i32, error: i32| {
        w.i32(xid);
        w.i64(5);
        w.i32(error);
    };
    let garbage: Vec<Bytes> = vec![
        Bytes::from_static(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        Bytes::from_static(&[0xff; 64]),
        Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff]),
        frame(&|w| w.i32(1)),
        frame(&|w| header(w, 99, 0)),
        frame(&|w| header(w, -2, 0)),
        frame(&|w| header(w, 1, 0)),
        frame(&|w| {
            header(w, 1, 0);
            w.i32(i32::MAX);
        }),
        frame(&|w| {
            header(w, -1, 0);
            w.i32(1);
            w.i32(3);
            w.i32(i32::MAX);
        }),
    ];
    for bytes in garbage {
        let mut bench = Bench::ready("a:1");
        let read = bench.call(get("/r"));
        bench.step(Input::Received(bytes.clone()));
        assert_eq!(bench.events(), [Event::Disconnected], "{bytes:?}");
        assert_eq!(bench.replies(), []);
        bench.pass(TIMEOUT);
        assert_eq!(bench.replies(), [(read, Err(Error::Disconnected))]);
    }
    // Before there is a session.
    for bytes in [Bytes::from_static(b"HTTP"), Bytes::from_static(&[0, 0, 0, 1, 0])] {
        let mut bench = Bench::new("a:1", |_| {});
        bench.step(Input::Connected);
        bench.step(Input::Received(bytes));
        assert!(matches!(bench.actions[..], [.., Action::Disconnect]), "{:?}", bench.actions);
    }
}

#[test]
fn frames_may_arrive_in_any_portions() {
    let mut bench = Bench::ready("a:1");
    let id = bench.call(get("/r"));
    let (xid, ..) = bench.next_sent().unwrap();
    let mut w = Writer::new();
    w.i32(xid);
    w.i64(5);
    w.i32(0);
    w.buffer(Some(b"data"));
    stat(&mut w);
    for byte in w.finish() {
        bench.step(Input::Received(Bytes::copy_from_slice(&[byte])));
    }
    let replies = bench.replies();
    assert!(
        matches!(&replies[..], [(r, Ok(Answer::Data(Some(data), _)))] if *r == id && data == "data"),
        "{replies:?}"
    );
}

#[test]
fn a_refused_transaction_names_its_change() {
    let mut bench = Bench::ready("a:1");
    let create =
        Op::Create { path: "/c".into(), data: None, acl: Vec::new(), mode: CreateMode::Ephemeral };
    let check = Op::Check { path: "/e".into(), version: 3 };
    let id = bench.call(Call::Multi(vec![create.clone(), check.clone(), create.clone()]));
    let (xid, ..) = bench.next_sent().unwrap();
    let result = |w: &mut Writer, code: i32| {
        w.i32(-1);
        w.bool(false);
        w.i32(code);
        w.i32(code);
    };
    bench.answer(xid, 9, 0, |w| {
        result(w, 0);
        result(w, -103);
        result(w, -2);
        w.i32(-1);
        w.bool(true);
        w.i32(-1);
    });
    let refused = Error::Refused { index: 1, refusal: Refusal::BadVersion };
    assert_eq!(bench.replies(), [(id, Err(refused))]);
    let id = bench.call(Call::Multi(vec![create, check]));
    let (xid, ..) = bench.next_sent().unwrap();
    bench.answer(xid, 10, 0, |w| {
        w.i32(1);
        w.bool(false);
        w.i32(0);
        w.string("/c");
        w.i32(13);
        w.bool(false);
        w.i32(0);
        w.i32(-1);
        w.bool(true);
        w.i32(-1);
    });
    let done =
        Answer::Done(vec![protocol::OpResult::Created("/c".into()), protocol::OpResult::Checked]);
    assert_eq!(bench.replies(), [(id, Ok(done))]);
}

#[test]
fn what_servers_would_hang_up_on_is_refused_here() {
    let mut bench = Bench::ready("a:1");
    let big = Bytes::from(vec![0; 0x10_0000]);
    let id =
        bench.call(Call::Single(Op::Set { path: "/b".into(), data: Some(big), version: None }));
    assert!(matches!(bench.replies()[..], [(r, Err(Error::TooLarge(_)))] if r == id));
    for path in ["", "a", "/a/", "/a//b", "/a/../b", "/a/\0"] {
        bench.call(get(path));
        let refused = Error::Refused { index: 0, refusal: Refusal::BadArguments };
        assert_eq!(bench.replies().pop().unwrap().1, Err(refused), "{path}");
    }
    assert!(bench.sent.is_empty());
}

#[test]
fn closing_is_the_servers_word_or_a_matter_of_time() {
    let mut bench = Bench::ready("a:1");
    let id = bench.call(Call::Close);
    let late = bench.call(set("/w"));
    assert_eq!(bench.replies(), [(late, Err(Error::Closed))]);
    let (xid, op, _) = bench.next_sent().unwrap();
    assert_eq!(op, -11);
    bench.answer(xid, 9, 0, |_| {});
    assert_eq!(bench.replies(), [(id, Ok(Answer::Closed))]);
    assert_eq!(bench.events(), [Event::Expired]);
    assert!(matches!(bench.actions[..], [.., Action::Over(Error::Closed)]));

    let mut bench = Bench::ready("a:1");
    bench.step(Input::Lost("test".into()));
    let id = bench.call(Call::Close);
    bench.pass(2 * SECOND);
    assert_eq!(bench.replies(), [(id, Err(Error::Disconnected))]);
    assert!(matches!(bench.actions[..], [.., Action::Over(Error::Closed)]));
}

#[test]
fn a_session_moved_to_another_server_is_followed() {
    let mut bench = Bench::ready("a:1");
    let id = bench.call(set("/w"));
    let (xid, ..) = bench.next_sent().unwrap();
    bench.answer(xid, 9, -118, |_| {});
    assert_eq!(bench.replies(), [(id, Err(Error::Disconnected))]);
    assert_eq!(bench.events(), [Event::Disconnected]);
}

#[test]
fn authentication_comes_before_any_call_and_its_failure_is_final() {
    let login = Login { username: "u".into(), password: "p".into() };
    let mut bench = Bench::new("a:1", |settings| settings.login = Some(login));
    bench.accept();
    bench.call(set("/w"));
    let (xid, op, _) = bench.next_sent().unwrap();
    assert_eq!((op, bench.sent.len()), (102, 0));
    bench.answer(xid, 0, 0, |w| w.buffer(Some(b"realm=\"r\",nonce=\"n\",qop=\"auth\"")));
    let (xid, op, _) = bench.next_sent().unwrap();
    assert_eq!((op, bench.sent.len()), (102, 0));
    bench.answer(xid, 0, -115, |_| {});
    assert!(
        matches!(bench.actions[..], [.., Action::Over(Error::AuthenticationFailed(_))]),
        "{:?}",
        bench.actions
    );
}

#[test]
fn no_bytes_make_it_panic() {
    let random = SeededRandom::new(11);
    for _ in 0..3000 {
        let mut bench = Bench::ready("a:1,b:1/base");
        let calls = [get("/r"), exists("/e"), set("/s"), Call::Multi(vec![]), Call::Close];
        for call in calls {
            bench.call(call);
        }
        for _ in 0..5 {
            let mut bytes = vec![0; usize::try_from(random.below(80)).unwrap()];
            random.fill(&mut bytes);
            // Plausible lengths and xids, so that it gets further in.
            let mut w = Writer::new();
            w.i32(i32::try_from(random.below(9)).unwrap() - 2);
            w.i64(1);
            w.i32(if random.below(2) == 0 { 0 } else { -101 });
            let head = w.finish();
            let mut frame = head[4..].to_vec();
            frame.extend_from_slice(&bytes);
            let mut whole = u32::try_from(frame.len()).unwrap().to_be_bytes().to_vec();
            whole.extend_from_slice(&frame);
            bench.step(Input::Received(whole.into()));
            bench.pass(SECOND);
        }
    }
}
