//! A real ZooKeeper ensemble on loopback, and a proxy that cuts connections. Needs Java and Maven.
#![allow(dead_code, reason = "several test crates use parts of it")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use tempfile::TempDir;

/// From a server's port to its port for TLS.
pub(crate) const SECURE: u16 = 3000;
/// The password of all of keytool's files.
pub(crate) const TLS_PASSWORD: &str = "secret";

/// Servers that are killed with it.
pub(crate) struct Ensemble {
    directory: TempDir,
    first_port: u16,
    servers: u16,
    arguments: Vec<String>,
}

impl Ensemble {
    /// Starts an ensemble of `servers` and waits until each of them serves. `arguments` are for
    /// `tools/kafka-peer zookeeper`.
    pub(crate) fn start(servers: u16, arguments: &[&str]) -> Self {
        let ensemble = Self {
            directory: tempfile::tempdir().unwrap(),
            first_port: free_ports(servers),
            servers,
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        };
        ensemble.run();
        ensemble
    }

    /// Starts the servers; again, if they were killed.
    pub(crate) fn run(&self) {
        let status = Command::new(script())
            .arg("zookeeper")
            .arg(self.directory.path())
            .args(["--port", &self.first_port.to_string()])
            .args(["--servers", &self.servers.to_string()])
            .args(&self.arguments)
            .stdout(std::process::Stdio::null())
            .status()
            .unwrap();
        assert!(status.success(), "ZooKeeper does not start");
    }

    pub(crate) fn ports(&self) -> Vec<u16> {
        (self.first_port..self.first_port + self.servers).collect()
    }

    /// `host:port` of each server, with commas between.
    pub(crate) fn connect_string(&self) -> String {
        let hosts: Vec<_> = self.ports().iter().map(|port| format!("127.0.0.1:{port}")).collect();
        hosts.join(",")
    }

    /// As [`Self::connect_string`], of the ports for TLS; needs `--tls`. The servers are called `host`.
    pub(crate) fn secure_connect_string(&self, host: &str) -> String {
        let hosts: Vec<_> =
            self.ports().iter().map(|port| format!("{host}:{}", port + SECURE)).collect();
        hosts.join(",")
    }

    /// One of keytool's files, with `--tls`.
    pub(crate) fn tls_file(&self, name: &str) -> PathBuf {
        self.directory.path().join("tls").join(name)
    }

    /// Sends a signal to a server (1 is the first): `KILL`, `STOP`, `CONT`.
    pub(crate) fn signal(&self, server: u16, signal: &str) {
        let file = self.directory.path().join(format!("server{server}.pid"));
        let pid = std::fs::read_to_string(file).unwrap();
        send_signal(pid.trim(), signal);
    }

    /// The server that leads.
    pub(crate) fn leader(&self) -> u16 {
        let leads = |server: &u16| self.four_letters(*server, "srvr").contains("Mode: leader");
        (1..=self.servers).find(leads).expect("an ensemble has a leader")
    }

    /// What a server answers to one of ZooKeeper's four-letter words.
    pub(crate) fn four_letters(&self, server: u16, word: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.first_port + server - 1)).unwrap();
        stream.write_all(word.as_bytes()).unwrap();
        let mut answer = String::new();
        // The server closes, sometimes hard.
        let _ = stream.read_to_string(&mut answer);
        answer
    }
}

impl Drop for Ensemble {
    fn drop(&mut self) {
        let _ = Command::new(script()).arg("kill").arg(self.directory.path()).status();
    }
}

pub(crate) fn send_signal(pid: &str, signal: &str) {
    let status = Command::new("kill").args([&format!("-{signal}"), pid]).status().unwrap();
    assert!(status.success(), "kill -{signal} {pid}");
}

pub(crate) fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/kafka-peer")
}

/// The first of `count` ports that are free, and so are those 1,000, 2,000 and 3,000 above.
fn free_ports(count: u16) -> u16 {
    for _ in 0..1000 {
        let Ok(probe) = TcpListener::bind(("127.0.0.1", 0)) else { continue };
        let first = probe.local_addr().unwrap().port();
        drop(probe);
        let Some(last) = first.checked_add(SECURE + count) else { continue };
        let wanted = (first..last).filter(|port| (port - first) % 1000 < count);
        if wanted.into_iter().all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
    panic!("no free ports");
}

/// Passes bytes on to a server, until told otherwise.
pub(crate) struct Proxy {
    port: u16,
    state: Arc<Mutex<ProxyState>>,
}

#[derive(Default)]
struct ProxyState {
    /// Connections are closed as soon as they are made.
    cut: bool,
    /// What the server says is thrown away.
    mute: bool,
    streams: Vec<TcpStream>,
}

impl Proxy {
    pub(crate) fn to(target: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(ProxyState::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let mut state = shared.lock().unwrap();
                if state.cut {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
                state.streams.extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                drop(state);
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pump(from, to, None));
                let state = Arc::clone(&shared);
                thread::spawn(move || pump(server, client, Some(state)));
            }
        });
        Self { port, state }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Closes all connections, and new ones until [`Self::heal`].
    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        state.cut = true;
        for stream in state.streams.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Throws away what the server says from now on.
    pub(crate) fn mute(&self) {
        self.state.lock().unwrap().mute = true;
    }

    pub(crate) fn heal(&self) {
        let mut state = self.state.lock().unwrap();
        (state.cut, state.mute) = (false, false);
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream, state: Option<Arc<Mutex<ProxyState>>>) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if state.as_ref().is_some_and(|state| state.lock().unwrap().mute) {
            continue;
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
