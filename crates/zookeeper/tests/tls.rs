//! TLS with servers that are none. What real ones do is in `real.rs`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use platform::Clock;
use platform::clock::SystemClock;
use platform::random::SystemRandom;
use security::{StoreFile, TlsClient, TlsClientSettings, TlsVersion};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use zookeeper::{Client, Environment, Error, Settings};

const PATIENCE: Duration = Duration::from_millis(600);

/// Serves every connection with `serve`.
fn server(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let server = listener.local_addr().unwrap().to_string();
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.unwrap(), Arc::clone(&serve));
            thread::spawn(move || serve(stream));
        }
    });
    server
}

/// Opens a session and says why that failed, after no more than it may take.
fn failure(servers: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trust.pem");
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&path, own.cert.pem()).unwrap();
    let tls = TlsClient::new(&TlsClientSettings {
        trust_store: StoreFile { path, password: None, kind: None },
        key_store: None,
        versions: vec![TlsVersion::Tls12, TlsVersion::Tls13],
        cipher_suites: Vec::new(),
        check_host_name: true,
    });
    let settings = Settings {
        session_timeout: PATIENCE,
        connection_timeout: PATIENCE,
        tls: Some(tls.unwrap()),
        ..Settings::default()
    };
    let clock = Arc::new(SystemClock::new());
    let environment = Environment { clock: clock.clone(), random: Arc::new(SystemRandom) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let start = clock.now();
    let opened = runtime.block_on(Client::open(
        servers.parse().unwrap(),
        settings,
        environment,
        Box::new(|_| ()),
    ));
    let took = clock.now().since(start);
    assert!(took < PATIENCE * 10, "{took:?}");
    match opened {
        Err(Error::Unreachable(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_handshake_that_does_not_end_is_given_up_in_time() {
    let silent = server(|mut stream| while let Ok(1..) = stream.read(&mut [0; 4096]) {});
    let why = failure(&silent);
    assert!(why.starts_with(&silent) && why.contains("no answer in time"), "{why}");
    // A record that is announced and does not come.
    let slow = server(|mut stream| {
        let _ = stream.write_all(&[22, 3, 3, 0x40, 0, 2, 0, 0x3f]);
        while let Ok(1..) = stream.read(&mut [0; 4096]) {}
    });
    assert!(failure(&slow).contains("no answer in time"));
}

#[test]
fn a_server_without_tls_is_named_with_what_to_do() {
    // A ZooKeeper server takes the client's greeting for the length of a request, and closes.
    let closing = server(|mut stream| drop(stream.read(&mut [0; 4])));
    let why = failure(&closing);
    assert!(why.starts_with(&closing) && why.contains("port without TLS"), "{why}");
    let talking = server(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        while let Ok(1..) = stream.read(&mut [0; 4096]) {}
    });
    let why = failure(&talking);
    assert!(why.contains("is not TLS"), "{why}");
}
