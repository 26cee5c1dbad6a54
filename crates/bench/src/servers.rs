//! Starting and stopping what is measured.

use crate::error::{BenchError, io};
use crate::{cpu, topics};
use platform::clock::SystemClock;
use std::ffi::OsStr;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What a measurement wrote must be gone before the next.
const DELETE_SOON: &str = "log.segment.delete.delay.ms=100";

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// Us.
    Barnabas,
    /// Apache Kafka, KRaft.
    Kafka,
    /// The broker that stores nothing.
    Null,
}

impl Subject {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Barnabas => "barnabas",
            Self::Kafka => "kafka",
            Self::Null => "null",
        }
    }
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) barnabas: PathBuf,
    pub(crate) peer: PathBuf,
    pub(crate) kafka_version: String,
}

/// A running broker; ends when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pid: u32,
    pub(crate) subject: Subject,
    /// What it was started with.
    pub(crate) settings: &'static [&'static str],
    kind: Kind,
    // Last, so that the folder goes after the process.
    folder: tempfile::TempDir,
}

#[derive(Debug)]
enum Kind {
    Child(Child),
    Peer { script: PathBuf, folder: PathBuf },
}

impl Server {
    /// Starts a broker with empty data; returns when it answers.
    pub(crate) fn start(
        subject: Subject,
        programs: &Programs,
        settings: &'static [&'static str],
    ) -> Result<Self, BenchError> {
        let folder = tempfile::tempdir().map_err(io("temporary folder"))?;
        let address = free_address()?;
        match subject {
            Subject::Barnabas => Self::barnabas(programs, settings, folder, address),
            Subject::Kafka => Self::kafka(programs, settings, folder, address),
            Subject::Null => {
                let this = std::env::current_exe().map_err(io("own path"))?;
                let mut command = Command::new(this);
                command.args(["null", "--port", &address.port().to_string()]);
                Self::child(subject, command, settings, folder, address)
            }
        }
    }

    /// As [`Server::start`]; with a clock that began when the broker's process did. Kafka's storage has
    /// been formatted before.
    pub(crate) fn start_timed(
        subject: Subject,
        programs: &Programs,
        settings: &'static [&'static str],
    ) -> Result<(Self, SystemClock), BenchError> {
        if subject != Subject::Kafka {
            let clock = SystemClock::new();
            return Ok((Self::start(subject, programs, settings)?, clock));
        }
        // What the script started, started again without it.
        let mut server = Self::start(subject, programs, settings)?;
        let path = format!("/proc/{}/cmdline", server.pid);
        let line = std::fs::read(&path).map_err(io(path))?;
        let words: Vec<_> = line.split(|&byte| byte == 0).filter(|word| !word.is_empty()).collect();
        server.stop();
        let mut command = Command::new(OsStr::from_bytes(words[0]));
        command.args(words[1..].iter().map(|word| OsStr::from_bytes(word)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let clock = SystemClock::new();
        let child = command.spawn().map_err(io("java"))?;
        server.pid = child.id();
        server.kind = Kind::Child(child);
        wait_for(server.address)?;
        Ok((server, clock))
    }

    fn barnabas(
        programs: &Programs,
        settings: &'static [&'static str],
        folder: tempfile::TempDir,
        address: SocketAddr,
    ) -> Result<Self, BenchError> {
        let mut command = Command::new(&programs.barnabas);
        command.arg("serve");
        let own = [
            format!("listeners=PLAINTEXT://{address}"),
            format!("log.dirs={}", folder.path().join("data").display()),
            DELETE_SOON.to_owned(),
        ];
        for setting in own.iter().map(String::as_str).chain(settings.iter().copied()) {
            command.args(["--set", setting]);
        }
        Self::child(Subject::Barnabas, command, settings, folder, address)
    }

    fn child(
        subject: Subject,
        mut command: Command,
        settings: &'static [&'static str],
        folder: tempfile::TempDir,
        address: SocketAddr,
    ) -> Result<Self, BenchError> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(io(format!("{:?}", command.get_program())))?;
        let (pid, kind) = (child.id(), Kind::Child(child));
        let server = Self { address, pid, subject, settings, kind, folder };
        wait_for(address)?;
        Ok(server)
    }

    fn kafka(
        programs: &Programs,
        settings: &'static [&'static str],
        folder: tempfile::TempDir,
        address: SocketAddr,
    ) -> Result<Self, BenchError> {
        let mut command = Command::new(&programs.peer);
        command.arg("kafka").arg(folder.path());
        command.args(["--version", &programs.kafka_version, "--port", &address.port().to_string()]);
        command.args(["--set", DELETE_SOON]);
        for setting in settings.iter().filter(|setting| !setting.starts_with("barnabas.")) {
            command.args(["--set", setting]);
        }
        let output = command.output().map_err(io(programs.peer.display().to_string()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(BenchError::Usage(format!("Apache Kafka did not start: {said}")));
        }
        let pid_file = folder.path().join("node1.pid");
        let text =
            std::fs::read_to_string(&pid_file).map_err(io(pid_file.display().to_string()))?;
        let pid = text.trim().parse().map_err(|_| BenchError::Usage(format!("no pid: {text}")))?;
        let kind =
            Kind::Peer { script: programs.peer.clone(), folder: folder.path().to_path_buf() };
        Ok(Self { address, pid, subject: Subject::Kafka, settings, kind, folder })
    }

    /// Deletes a topic with its files.
    pub(crate) fn delete_topic(&self, topic: &str) -> Result<(), BenchError> {
        match self.subject {
            Subject::Barnabas | Subject::Kafka => topics::delete_topic(self.address, topic),
            // It has none.
            Subject::Null => Ok(()),
        }
    }

    /// Returns when the broker has nothing left to do, such as compiling or deleting; after ten
    /// seconds in any case.
    pub(crate) fn wait_until_idle(&self) -> Result<(), BenchError> {
        let step = Duration::from_millis(100);
        for _ in 0..100 {
            let before = self.cpu_time()?;
            pause(step);
            if self.cpu_time()?.saturating_sub(before) < step / 20 {
                break;
            }
        }
        Ok(())
    }

    /// Where its data lie, at any depth.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// CPU time used so far.
    pub(crate) fn cpu_time(&self) -> Result<Duration, BenchError> {
        cpu::cpu_time(self.pid)
    }

    /// Resident memory in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64, BenchError> {
        cpu::resident_bytes(self.pid)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Server {
    fn stop(&mut self) {
        match &mut self.kind {
            Kind::Child(child) => {
                // It may have ended already; either way it is gone after this.
                let _ = child.kill();
                let _ = child.wait();
            }
            Kind::Peer { script, folder } => {
                let _ = Command::new(&*script).arg("kill").arg(&*folder).output();
            }
        }
    }
}

/// An address of 127.0.0.1 that is free, as is the port a thousand above it, which Kafka's controller takes.
pub(crate) fn free_address() -> Result<SocketAddr, BenchError> {
    for _ in 0..100 {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(io("bind"))?;
        let address = listener.local_addr().map_err(io("bind"))?;
        let above = address.port().checked_add(1000);
        if above.is_some_and(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return Ok(address);
        }
    }
    Err(BenchError::Usage("found no two free ports".into()))
}

/// Returns when something accepts connections at `address`.
pub(crate) fn wait_for(address: SocketAddr) -> Result<(), BenchError> {
    for _ in 0..60_000 {
        // Where nobody listens yet, a connection from that very port to itself may come about.
        if let Ok(stream) = TcpStream::connect(address)
            && stream.local_addr().is_ok_and(|own| own != address)
        {
            return Ok(());
        }
        pause(Duration::from_millis(1));
    }
    Err(BenchError::Protocol(format!("nothing listens at {address} after a minute")))
}

/// Lets time pass: a measurement is a time.
#[expect(clippy::disallowed_methods, reason = "to measure is to wait")]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Whether `path` can be run, with the remedy if not.
pub(crate) fn check_program(path: &Path, remedy: &str) -> Result<(), BenchError> {
    if path.exists() {
        return Ok(());
    }
    Err(BenchError::Usage(format!("{} does not exist: {remedy}", path.display())))
}
