//! `barnabas store`: a cluster's metadata out of the store that keeps them, and into another.

use crate::session::{Failure, run, say};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use broker::config::{self, BrokerConfig, ZooKeeperSettings};
use broker::metadata_store::{Acl, Copied, MetadataCopy, MetadataNode, MetadataStore};
use broker::server::Environment;
use bytes::Bytes;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Take a cluster's metadata out of the store that keeps them, and into another: a single broker's own, or ZooKeeper.
///
/// Cluster id, topics and their ids, settings, the state of partitions and the controller's epoch go along. Offsets of groups
/// are records, and stay in the log directories. Brokers must be stopped: what changed later would be missing.
#[derive(Args, Debug)]
pub(crate) struct Store {
    #[command(subcommand)]
    command: Command,
}

const FILE_HELP: &str = "The file has a JSON object per line. The first says what it is, {\"format\":\"barnabas-metadata\",\"version\":1,\"origin\":...,
\"cluster_id\":...,\"last_change\":...}; then a node each, parents first: {\"path\":...,\"version\":...} with \"data\" (text), \"base64\" or neither
(null), and from ZooKeeper \"acl\"; the last, {\"end\":true,\"nodes\":...}, says that it is whole. It may hold secrets.";

const EXPORT_HELP: &str = "Examples:
  barnabas store export --data /var/lib/barnabas cluster.jsonl
  barnabas store export --zookeeper zk1:2181,zk2:2181/kafka cluster.jsonl
  barnabas store export --zookeeper zk1:2182 --config server.properties cluster.jsonl     TLS as the broker has it";

const IMPORT_HELP: &str = "Examples, from one broker to a cluster (docs/operations.md):
  barnabas store export --data /var/lib/barnabas cluster.jsonl
  barnabas store import --zookeeper zk1:2181,zk2:2181/kafka cluster.jsonl
  barnabas serve --data /var/lib/barnabas --set zookeeper.connect=zk1:2181,zk2:2181/kafka";

#[derive(Debug, Subcommand)]
enum Command {
    /// Write the metadata of a store to a file. Takes nothing out of the store.
    #[command(after_help = EXPORT_HELP, after_long_help = format!("{FILE_HELP}\n\n{EXPORT_HELP}"))]
    Export {
        #[command(flatten)]
        place: Place,
        /// The file, which must not exist; - for standard output.
        file: PathBuf,
    },
    /// Write the metadata of a file to a store that is empty.
    ///
    /// May be done again: it goes on where it was cut short, and does nothing where all is there. Brokers do not start on
    /// a store that has a part only. New nodes have the ACLs that Kafka gives them (zookeeper.set.acl).
    #[command(after_help = IMPORT_HELP, after_long_help = format!("{FILE_HELP}\n\n{IMPORT_HELP}"))]
    Import {
        #[command(flatten)]
        place: Place,
        /// The file; - for standard input.
        file: PathBuf,
    },
}

#[derive(Args, Debug)]
struct Place {
    /// The log directory that the broker's own store is in: the first of log.dirs.
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "zookeeper",
        conflicts_with = "zookeeper"
    )]
    data: Option<PathBuf>,
    #[command(flatten)]
    ensemble: Ensemble,
}

/// How to reach ZooKeeper.
#[derive(Args, Debug)]
pub(crate) struct Ensemble {
    /// ZooKeeper's servers and the node that all is below of, as in zookeeper.connect.
    #[arg(long, value_name = "HOST:PORT,.../CHROOT")]
    zookeeper: Option<String>,
    /// A server.properties file with keys zookeeper.* for TLS and the like.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Sets a key zookeeper.*, over the file. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = config::parse_override)]
    set: Vec<(String, String)>,
}

/// The settings of a connection to `servers`, with what a configuration says besides.
pub(crate) fn zookeeper_settings(
    servers: &str,
    config: Option<&Path>,
    set: &[(String, String)],
) -> Result<ZooKeeperSettings, Failure> {
    let mut set = set.to_vec();
    set.push(("zookeeper.connect".to_owned(), servers.to_owned()));
    let loaded = BrokerConfig::load(config, &set);
    let loaded = loaded.map_err(|error| Failure::Usage(error.to_string()))?;
    loaded.config.zookeeper.ok_or_else(|| Failure::Usage("zookeeper.connect is empty".to_owned()))
}

impl Place {
    fn store(&self) -> Result<MetadataStore, Failure> {
        let Ensemble { zookeeper, config, set } = &self.ensemble;
        match (&self.data, zookeeper) {
            (Some(directory), _) => Ok(MetadataStore::Embedded(directory.clone())),
            (None, Some(servers)) => {
                let settings = zookeeper_settings(servers, config.as_deref(), set)?;
                Ok(MetadataStore::ZooKeeper(Box::new(settings)))
            }
            (None, None) => Err(Failure::Usage("name a store: --data or --zookeeper".to_owned())),
        }
    }
}

impl Store {
    pub(crate) fn run(self) -> ExitCode {
        run(async move {
            // It has a runtime of its own.
            let worker = std::thread::spawn(move || match self.command {
                Command::Export { place, file } => export(&place, &file),
                Command::Import { place, file } => import(&place, &file),
            });
            worker.join().expect("a panic ends the process")
        })
    }
}

fn export(place: &Place, file: &Path) -> Result<(), Failure> {
    let store = place.store()?;
    let (copy, acls) = store.export(&Environment::real()).map_err(failed)?;
    let origin = origin(&store);
    let at = |error: io::Error| Failure::Failed(format!("{}: {error}", file.display()));
    if file == Path::new("-") {
        return write(&copy, acls.as_deref(), origin, &mut BufWriter::new(io::stdout().lock()));
    }
    // Settings and the credentials of users are for nobody else's eyes.
    let created = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    let mut out = BufWriter::new(created.map_err(at)?);
    write(&copy, acls.as_deref(), origin, &mut out)?;
    out.into_inner().map_err(|error| at(error.into_error()))?.sync_all().map_err(at)?;
    let id = copy.cluster_id().unwrap_or_default();
    say(format_args!("{} nodes of cluster {id} are in {}", copy.nodes.len(), file.display()))
}

fn import(place: &Place, file: &Path) -> Result<(), Failure> {
    let store = place.store()?;
    let at = |what: String| Failure::Failed(format!("{}: {what}", file.display()));
    let read = if file == Path::new("-") {
        parse(io::stdin().lock())
    } else {
        parse(BufReader::new(File::open(file).map_err(|error| at(error.to_string()))?))
    };
    let (mut copy, from) = read.map_err(at)?;
    if from == EMBEDDED || origin(&store) == EMBEDDED {
        copy.forget_sessions();
    }
    let copied = store.import(&Environment::real(), &copy).map_err(failed)?;
    let id = copy.cluster_id().unwrap_or_default();
    match copied {
        Copied::Written(nodes) => say(format_args!("cluster {id} is there: {nodes} nodes written")),
        Copied::AlreadyThere => say(format_args!("cluster {id} was there already")),
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

const FORMAT: &str = "barnabas-metadata";
const EMBEDDED: &str = "embedded";
const ZOOKEEPER: &str = "zookeeper";

fn origin(store: &MetadataStore) -> &'static str {
    match store {
        MetadataStore::Embedded(_) => EMBEDDED,
        MetadataStore::ZooKeeper(_) => ZOOKEEPER,
    }
}

fn write(
    copy: &MetadataCopy,
    acls: Option<&[Vec<Acl>]>,
    origin: &str,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let head = json!({
        "format": FORMAT,
        "version": 1,
        "origin": origin,
        "cluster_id": copy.cluster_id(),
        "last_change": copy.last_change,
    });
    writeln!(out, "{head}")?;
    for (at, node) in copy.nodes.iter().enumerate() {
        let mut line = json!({ "path": node.path, "version": node.version });
        if let Some(data) = &node.data {
            match std::str::from_utf8(data) {
                Ok(text) => line["data"] = json!(text),
                Err(_) => line["base64"] = json!(STANDARD.encode(data)),
            }
        }
        if let Some(acl) = acls.and_then(|acls| acls.get(at)) {
            line["acl"] = acl.iter().map(acl_json).collect();
        }
        writeln!(out, "{line}")?;
    }
    writeln!(out, "{}", json!({ "end": true, "nodes": copy.nodes.len() }))?;
    Ok(out.flush()?)
}

/// With ZooKeeper's letters.
fn acl_json(acl: &Acl) -> Value {
    let letters = [('c', 4), ('d', 8), ('r', 1), ('w', 2), ('a', 16)];
    let permissions = letters.into_iter().filter(|(_, bit)| acl.permissions & bit != 0);
    let permissions: String = permissions.map(|(letter, _)| letter).collect();
    json!({ "scheme": acl.scheme, "id": acl.id, "permissions": permissions })
}

/// The object in a line, and the line's number.
type Line = (usize, Map<String, Value>);

/// The copy in a file, and where it comes from; or what is wrong, in words.
fn parse(input: impl BufRead) -> Result<(MetadataCopy, String), String> {
    let mut lines = (1..).zip(input.lines());
    let mut next = || -> Result<Option<Line>, String> {
        let Some((number, line)) = lines.next() else { return Ok(None) };
        let line = line.map_err(|error| format!("line {number}: {error}"))?;
        match serde_json::from_str(&line) {
            Ok(Value::Object(line)) => Ok(Some((number, line))),
            _ => Err(format!("line {number} is no JSON object")),
        }
    };
    let (_, head) = next()?.ok_or("it is empty")?;
    if head.get("format") != Some(&json!(FORMAT)) {
        return Err("it is none that `barnabas store export` wrote".to_owned());
    }
    if head.get("version") != Some(&json!(1)) {
        return Err(format!("its version {} is not 1", head["version"]));
    }
    let text = |line: &Map<String, Value>, key: &str| {
        line.get(key).and_then(Value::as_str).map(str::to_owned)
    };
    let origin = text(&head, "origin").unwrap_or_default();
    let last_change = head.get("last_change").and_then(Value::as_i64).ok_or("no last_change")?;
    let mut copy = MetadataCopy { last_change, nodes: Vec::new() };
    while let Some((number, line)) = next()? {
        if line.get("end") == Some(&json!(true)) {
            let said = line.get("nodes").and_then(Value::as_u64);
            if said != Some(copy.nodes.len() as u64) || next()?.is_some() {
                return Err(format!("line {number}: nodes are missing, or lines follow the end"));
            }
            return Ok((copy, origin));
        }
        let wrong = |what: &str| format!("line {number}: {what}");
        for (key, value) in &line {
            let is_right = match key.as_str() {
                "path" | "data" | "base64" => value.is_string(),
                "version" => value.is_i64(),
                "acl" => value.is_array(),
                _ => return Err(wrong(&format!("{key:?} is no field of a node"))),
            };
            if !is_right {
                return Err(wrong(&format!("{key:?} has a value of another kind")));
            }
        }
        let path = text(&line, "path").ok_or_else(|| wrong("no path"))?;
        let version = line.get("version").and_then(Value::as_i64);
        let version = version.and_then(|version| i32::try_from(version).ok());
        let version = version.ok_or_else(|| wrong("no version"))?;
        let data = match (text(&line, "data"), text(&line, "base64")) {
            (Some(data), None) => Some(Bytes::from(data)),
            (None, Some(data)) => {
                let decoded = STANDARD.decode(data).map_err(|error| wrong(&error.to_string()))?;
                Some(Bytes::from(decoded))
            }
            (None, None) => None,
            (Some(_), Some(_)) => return Err(wrong("data and base64")),
        };
        copy.nodes.push(MetadataNode { path, data, version });
    }
    Err("it is cut off: its last line is missing".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written_and_only_whole() {
        let node = |path: &str, data: Option<&'static [u8]>| MetadataNode {
            path: path.to_owned(),
            data: data.map(Bytes::from_static),
            version: 3,
        };
        let copy = MetadataCopy {
            last_change: 77,
            nodes: vec![
                node("/cluster", None),
                node("/cluster/id", Some(br#"{"version":"1","id":"abc"}"#)),
                node("/e", Some(b"")),
                node("/f", Some(b"\xff\0")),
            ],
        };
        let acls = vec![vec![Acl::world(Acl::READ)]; 4];
        let mut file = Vec::new();
        write(&copy, Some(&acls), ZOOKEEPER, &mut file).unwrap();
        assert_eq!(parse(file.as_slice()).unwrap(), (copy, ZOOKEEPER.to_owned()));
        let text = String::from_utf8(file).unwrap();
        assert!(
            text.contains(r#""acl":[{"id":"anyone","permissions":"r","scheme":"world"}]"#),
            "{text}"
        );
        let lines: Vec<_> = text.lines().collect();
        for keep in 0..lines.len() {
            parse(lines[..keep].join("\n").as_bytes()).unwrap_err();
        }
        let mut missing = lines.clone();
        missing.remove(2);
        assert!(parse(missing.join("\n").as_bytes()).unwrap_err().contains("missing"));
        for (from, to) in [
            ("\"version\":1", "\"version\":2"),
            ("\"path\"", "\"p\""),
            ("/wA=", "?"),
            ("\"base64\":\"/wA=\"", "\"base64\":5"),
            ("\"base64\"", "\"base46\""),
        ] {
            assert!(text.contains(from), "{from}");
            parse(text.replace(from, to).as_bytes()).unwrap_err();
        }
        assert!(parse(&b"garbage"[..]).is_err() && parse(&b""[..]).is_err());
    }
}
