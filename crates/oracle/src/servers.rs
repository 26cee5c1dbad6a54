//! Starting and stopping the brokers that are compared.

use crate::started::{self, Started};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What both run with: the same broker id, quick coordinators, nothing that depends on the time.
const SETTINGS: &[&str] = &[
    "offsets.topic.num.partitions=4",
    "offsets.topic.replication.factor=1",
    "transaction.state.log.replication.factor=1",
    "transaction.state.log.min.isr=1",
    "group.initial.rebalance.delay.ms=0",
    "log.cleaner.enable=false",
    "num.partitions=2",
];

/// A running broker; ends when dropped.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) folder: PathBuf,
    /// In the order in which it was started.
    started: Vec<Started>,
    /// Ours; to be waited for once it is ended.
    child: Option<Child>,
}

impl Server {
    fn new(port: u16) -> Result<Self, String> {
        let temporary = tempfile::tempdir().map_err(|error| error.to_string())?.keep();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut server =
            Self { address, folder: temporary.clone(), started: Vec::new(), child: None };
        server.note(Started::Folder(temporary));
        Ok(server)
    }

    fn note(&mut self, started: Started) {
        started.note();
        self.started.push(started);
    }

    /// Starts us.
    pub(crate) fn ours(binary: &Path, port: u16) -> Result<Self, String> {
        let mut server = Self::new(port)?;
        server.folder.push("data");
        let mut command = Command::new(binary);
        command.arg("serve");
        let own = [
            "broker.id=1".to_owned(),
            format!("listeners=PLAINTEXT://{}", server.address),
            format!("log.dirs={}", server.folder.display()),
        ];
        for setting in own.iter().map(String::as_str).chain(SETTINGS.iter().copied()) {
            command.args(["--set", setting]);
        }
        let log = std::fs::File::create("target/differential/barnabas.log")
            .map_err(|error| error.to_string())?;
        let both = log.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(log).stderr(both);
        let child = command.spawn().map_err(|error| format!("{}: {error}", binary.display()))?;
        server.note(Started::Process(child.id()));
        server.child = Some(child);
        server.wait()?;
        Ok(server)
    }

    /// Starts Apache Kafka: up to 3.9 with a ZooKeeper, from 4.0 with its own controller.
    pub(crate) fn kafka(script: &Path, version: &str, port: u16) -> Result<Self, String> {
        let mut server = Self::new(port)?;
        let (keeper, kafka) = (server.folder.join("zookeeper"), server.folder.join("kafka"));
        server.folder = kafka.join("node1");
        let mut arguments = vec![format!("--port={port}"), format!("--version={version}")];
        arguments.push("--heap=512m".into());
        arguments.extend(SETTINGS.iter().map(|setting| format!("--set={setting}")));
        if version.starts_with("3.") {
            let keeper_port = port + 5;
            server.peer(script, "zookeeper", &keeper, &[format!("--port={keeper_port}")])?;
            arguments.push(format!("--zookeeper=127.0.0.1:{keeper_port}"));
        }
        server.peer(script, "kafka", &kafka, &arguments)?;
        Ok(server)
    }

    fn peer(
        &mut self,
        script: &Path,
        what: &str,
        folder: &Path,
        arguments: &[String],
    ) -> Result<(), String> {
        std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        self.note(Started::Peers { script: script.to_path_buf(), folder: folder.to_path_buf() });
        let mut command = Command::new(script);
        command.arg(what).arg(folder).args(arguments).stdout(Stdio::null());
        let status = command.spawn().and_then(started::wait);
        let status = status.map_err(|error| format!("{}: {error}", script.display()))?;
        if status.success() { Ok(()) } else { Err(format!("{} {what} failed", script.display())) }
    }

    fn wait(&self) -> Result<(), String> {
        for _ in 0..3000 {
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            crate::side::pause(Duration::from_millis(10));
        }
        Err(format!("nothing listens at {} after 30 s", self.address))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.started.iter().rev().for_each(Started::end);
        if let Some(child) = &mut self.child {
            // It was killed; all that is wanted is that it is gone.
            let _ = child.wait();
        }
    }
}
