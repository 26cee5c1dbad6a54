//! Starting and stopping the brokers that are compared.

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
    kind: Kind,
    _temporary: tempfile::TempDir,
}

#[derive(Debug)]
enum Kind {
    Ours(Child),
    Peers { script: PathBuf, folders: Vec<PathBuf> },
}

impl Server {
    /// Starts us.
    pub(crate) fn ours(binary: &Path, port: u16) -> Result<Self, String> {
        let temporary = tempfile::tempdir().map_err(|error| error.to_string())?;
        let folder = temporary.path().join("data");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut command = Command::new(binary);
        command.arg("serve");
        let own = [
            "broker.id=1".to_owned(),
            format!("listeners=PLAINTEXT://{address}"),
            format!("log.dirs={}", folder.display()),
        ];
        for setting in own.iter().map(String::as_str).chain(SETTINGS.iter().copied()) {
            command.args(["--set", setting]);
        }
        let log = std::fs::File::create("target/differential/barnabas.log")
            .map_err(|error| error.to_string())?;
        let both = log.try_clone().map_err(|error| error.to_string())?;
        command.stdin(Stdio::null()).stdout(log).stderr(both);
        let child = command.spawn().map_err(|error| format!("{}: {error}", binary.display()))?;
        let server = Self { address, folder, kind: Kind::Ours(child), _temporary: temporary };
        server.wait()?;
        Ok(server)
    }

    /// Starts Apache Kafka: up to 3.9 with a ZooKeeper, from 4.0 with its own controller.
    pub(crate) fn kafka(script: &Path, version: &str, port: u16) -> Result<Self, String> {
        let temporary = tempfile::tempdir().map_err(|error| error.to_string())?;
        let folder = temporary.path().join("kafka");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut folders = vec![folder.clone()];
        let mut arguments = vec![format!("--port={port}"), format!("--version={version}")];
        arguments.push("--heap=512m".into());
        arguments.extend(SETTINGS.iter().map(|setting| format!("--set={setting}")));
        let mut server = Self {
            address,
            folder: folder.join("node1"),
            kind: Kind::Peers { script: script.to_path_buf(), folders: folders.clone() },
            _temporary: temporary,
        };
        if version.starts_with("3.") {
            let keeper = server._temporary.path().join("zookeeper");
            folders.push(keeper.clone());
            server.kind = Kind::Peers { script: script.to_path_buf(), folders };
            let keeper_port = port + 5;
            peer(script, "zookeeper", &keeper, &[format!("--port={keeper_port}")])?;
            arguments.push(format!("--zookeeper=127.0.0.1:{keeper_port}"));
        }
        peer(script, "kafka", &folder, &arguments)?;
        Ok(server)
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

fn peer(script: &Path, what: &str, folder: &Path, arguments: &[String]) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let status = Command::new(script)
        .arg(what)
        .arg(folder)
        .args(arguments)
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("{}: {error}", script.display()))?;
    if status.success() { Ok(()) } else { Err(format!("{} {what} failed", script.display())) }
}

impl Drop for Server {
    fn drop(&mut self) {
        match &mut self.kind {
            Kind::Ours(child) => {
                // It may have ended already; either way it is gone after this.
                let _ = child.kill();
                let _ = child.wait();
            }
            Kind::Peers { script, folders } => {
                for folder in folders {
                    let _ = Command::new(&*script).arg("kill").arg(folder).output();
                }
            }
        }
    }
}
