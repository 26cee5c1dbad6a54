//! Servers that are none: whatever they say, a client waits, gives up in time, and takes no memory for it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use platform::clock::SystemClock;
use platform::random::SystemRandom;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use zookeeper::{Call, Client, Environment, Error, Settings};

/// Answers every connection with `opening`, and every request on it with `answer`.
fn server(opening: &'static [u8], answer: &'static [u8]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let servers = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    thread::spawn(move || {
        for stream in listener.incoming() {
            count.fetch_add(1, Ordering::Relaxed);
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                let mut first = true;
                while let Ok(1..) = stream.read(&mut buffer) {
                    let bytes = if first { opening } else { answer };
                    first = false;
                    if stream.write_all(bytes).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (servers, connections)
}

/// Opens a session of 600 ms.
const GOOD: &[u8] = &[
    0, 0, 0, 37, 0, 0, 0, 0, 0, 0, 2, 88, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 16, 1, 2, 3, 4, 5, 6, 7,
    8, 9, 10, 11, 12, 13, 14, 15, 16, 0,
];

async fn open(servers: &str) -> Result<Client, Error> {
    let settings = Settings {
        session_timeout: Duration::from_millis(600),
        connection_timeout: Duration::from_millis(600),
        ..Settings::default()
    };
    let environment =
        Environment { clock: Arc::new(SystemClock::new()), random: Arc::new(SystemRandom) };
    let opened = Client::open(servers.parse().unwrap(), settings, environment, Box::new(|_| ()));
    tokio::time::timeout(Duration::from_secs(30), opened).await.expect("within its own time")
}

/// Whether opening a session fails, and the error says on which server.
async fn is_unreachable(servers: &str) -> bool {
    matches!(open(servers).await, Err(Error::Unreachable(why)) if why.starts_with(servers))
}

fn run(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

#[test]
fn what_opens_no_session_is_given_up_in_time() {
    const GARBAGE: [&[u8]; 6] = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"",
        &[0x7f, 0xff, 0xff, 0xff, 0, 0],
        &[0xff; 100],
        &[0, 0, 0, 0],
        &[0, 0, 0, 5, 1, 2, 3, 4, 5],
    ];
    run(async {
        for opening in GARBAGE {
            let (servers, connections) = server(opening, b"");
            assert!(is_unreachable(&servers).await, "{opening:?}");
            let tries = connections.load(Ordering::Relaxed);
            assert!((1..=20).contains(&tries), "{tries} connections in 600 ms");
        }
    });
}

#[test]
fn garbage_for_answers_is_neither_believed_nor_waited_for_for_ever() {
    const GARBAGE: [&[u8]; 5] = [
        b"",
        &[0x7f, 0xff, 0xff, 0xff, 0, 0],
        &[0, 0, 0, 16, 0, 0, 0, 99, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0],
        &[0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff],
        &[0xff; 300],
    ];
    run(async {
        for answer in GARBAGE {
            let (servers, connections) = server(GOOD, answer);
            let client = open(&servers).await.unwrap();
            let read = client.call(Call::GetData { path: "/a".into(), watch: false });
            let read = tokio::time::timeout(Duration::from_secs(30), read).await.expect("in time");
            assert_eq!(read, Err(Error::Disconnected), "{answer:?}");
            let tries = connections.load(Ordering::Relaxed);
            assert!((1..=20).contains(&tries), "{tries} connections in 600 ms");
        }
    });
}

#[test]
fn a_port_where_nobody_listens_is_given_up_in_time() {
    run(async {
        let free = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
        assert!(is_unreachable(&free.to_string()).await);
        assert!(is_unreachable("no.such.host.invalid:1").await);
    });
}
