//! `barnabas data`: log directories, our own and those that an Apache Kafka broker has written.

use crate::dump::Dump;
use crate::session::{Failure, run, say, say_json, say_table};
use crate::store::zookeeper_settings;
use broker::adoption::{self, FoundTopic, HELD, Imported, KnownSettings, SettingsSource, Survey};
use broker::config::parse_override;
use broker::server::Environment;
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Look at log directories and their files, and take over those of Apache Kafka.
///
/// Adopted directories stay where and as they are, and Apache can have them back: the metadata store comes
/// beside them, in plain files of the first directory, which Apache ignores.
#[derive(Args, Debug)]
pub(crate) struct Data {
    #[command(subcommand)]
    command: Command,
}

const SETTINGS_HELP: &str = "The settings of topics are not in log directories. The ZooKeeper of their cluster tells them (--from-zookeeper): it is only
read. It also tells which partitions are elsewhere, and which are out of sync here: those are not adopted. Settings of
brokers, dynamic ones too, are not taken along. Or a properties file tells them (--settings):

  orders/retention.ms=604800000
  orders/cleanup.policy=compact,delete
  clicks=                         no settings of its own
  *=                              nor have all others

A topic whose settings are not told is served with deletion and compaction held (cleanup.policy=delete,
retention.ms=-1, retention.bytes=-1) until they are: by adopting again, or with
`barnabas topic alter`. Kafka's own topics need no settings.

Examples:
  barnabas data check /var/lib/kafka/data
  barnabas data adopt /data1/kafka /data2/kafka --settings topics.properties
  barnabas data adopt /var/lib/kafka/data --from-zookeeper zk1:2181,zk2:2181/kafka
  barnabas data adopt /var/lib/kafka/data --from-zookeeper zk1:2182 --config server.properties    TLS as the broker has it
  barnabas serve --data /var/lib/kafka/data --set broker.id=1";

#[derive(Debug, Subcommand)]
enum Command {
    /// Say what is in log directories, and what adopting them would do. Changes nothing.
    ///
    /// Exit code 1 if they cannot be adopted.
    #[command(after_help = SETTINGS_HELP)]
    Check {
        #[command(flatten)]
        directories: Directories,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make log directories servable by `barnabas serve`. May be done again.
    #[command(after_help = SETTINGS_HELP)]
    Adopt {
        #[command(flatten)]
        directories: Directories,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    Dump(Dump),
}

#[derive(Args, Debug)]
struct Directories {
    /// All log directories of one broker (`log.dirs`), in its order. The broker must be stopped.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// A properties file with the settings of topics.
    #[arg(long, value_name = "FILE", conflicts_with = "from_zookeeper")]
    settings: Option<PathBuf>,
    /// The ZooKeeper of the cluster that the directories are of, as in zookeeper.connect.
    #[arg(long, value_name = "HOST:PORT,.../CHROOT")]
    from_zookeeper: Option<String>,
    /// A server.properties file with keys zookeeper.* for TLS and the like.
    #[arg(long, value_name = "FILE", requires = "from_zookeeper")]
    config: Option<PathBuf>,
    /// Sets a key zookeeper.*, over the file. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_override, requires = "from_zookeeper")]
    set: Vec<(String, String)>,
}

impl Directories {
    fn known_settings(&self) -> Result<KnownSettings, Failure> {
        if let Some(servers) = &self.from_zookeeper {
            let settings = zookeeper_settings(servers, self.config.as_deref(), &self.set)?;
            // It waits for its own runtime.
            let reading = std::thread::spawn(move || {
                KnownSettings::from_zookeeper(&environment(), &settings)
            });
            let known = reading.join().expect("a panic ends the process");
            return known.map_err(|error| Failure::Failed(format!("{servers}: {error}")));
        }
        let Some(path) = &self.settings else { return Ok(KnownSettings::default()) };
        let named = |what: String| Failure::Failed(format!("{}: {what}", path.display()));
        let text = std::fs::read(path).map_err(|error| named(error.to_string()))?;
        KnownSettings::parse(&text).map_err(named)
    }
}

impl Data {
    pub(crate) fn run(self) -> ExitCode {
        match self.command {
            Command::Check { directories, json } => run(async { check(&directories, json) }),
            Command::Adopt { directories, json } => run(async { adopt(&directories, json) }),
            Command::Dump(dump) => run(async { dump.dump() }),
        }
    }
}

fn environment() -> Environment {
    Environment::real()
}

fn check(directories: &Directories, as_json: bool) -> Result<(), Failure> {
    let known = directories.known_settings()?;
    let survey = Survey::of(&environment().disk, &directories.directories, &known)
        .map_err(|error| Failure::Failed(format!("{error}: {}", error.source)))?;
    report(&survey, &[], as_json)?;
    if survey.problems.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!("cannot be adopted:\n{}", survey.problems.join("\n"))))
}

fn adopt(directories: &Directories, as_json: bool) -> Result<(), Failure> {
    let known = directories.known_settings()?;
    // It waits for its own runtime.
    let paths = directories.directories.clone();
    let adopted = std::thread::spawn(move || adoption::adopt(&environment(), &paths, &known));
    let adopted = adopted.join().expect("a panic ends the process");
    let (survey, imported) = adopted.map_err(|error| Failure::Failed(error.to_string()))?;
    report(&survey, &imported, as_json)
}

/// `imported` is empty where nothing was done.
fn report(survey: &Survey, imported: &[Imported], as_json: bool) -> Result<(), Failure> {
    let outcomes = imported.iter().map(|imported| match imported {
        Imported::Added => "added",
        Imported::SettingsReplaced => "settings replaced",
        Imported::Unchanged => "unchanged",
    });
    let outcomes: Vec<_> =
        outcomes.map(Some).chain(std::iter::repeat(None)).take(survey.topics.len()).collect();
    if as_json {
        return say_json(&as_value(survey, &outcomes));
    }
    for directory in &survey.directories {
        let path = directory.path.display();
        let stopped = if directory.is_clean {
            "stopped cleanly"
        } else {
            "not stopped cleanly: its logs will be recovered"
        };
        say(format_args!("{path}: {} partitions, {stopped}", directory.partitions.len()))?;
        for (name, what) in &directory.others {
            say(format_args!("{}: {what}", Path::new(name).display()))?;
        }
    }
    let rows = survey.topics.iter().zip(&outcomes).map(|(topic, outcome)| {
        vec![
            topic.name.to_string(),
            topic.partitions.len().to_string(),
            topic.size_bytes.to_string(),
            topic.id.map_or_else(|| "-".to_owned(), |id| id.to_string()),
            topic.source.name().to_owned(),
            outcome.unwrap_or("to be added").to_owned(),
        ]
    });
    say_table(&["TOPIC", "PARTITIONS", "BYTES", "ID", "SETTINGS", "OUTCOME"], rows)?;
    if survey.topics.iter().any(|topic| topic.source == SettingsSource::Held) {
        let held: Vec<_> = HELD.iter().map(|(key, value)| format!("{key}={value}")).collect();
        say(format_args!("held: nothing is deleted or compacted ({})", held.join(", ")))?;
    }
    let broker_id = survey.broker_id.map_or_else(|| "?".to_owned(), |id| id.to_string());
    let paths: Vec<_> = survey.directories.iter().map(|d| d.path.display().to_string()).collect();
    say(format_args!(
        "barnabas serve --set broker.id={broker_id} --set log.dirs={}",
        paths.join(",")
    ))
}

fn as_value(survey: &Survey, outcomes: &[Option<&str>]) -> serde_json::Value {
    let directories = survey.directories.iter().map(|directory| {
        json!({
            "path": directory.path.display().to_string(),
            "partitions": directory.partitions.len(),
            "clean": directory.is_clean,
            "in_use": directory.is_in_use,
            "others": directory.others.iter().map(|(name, what)| json!({ "name": name, "what": what })).collect::<Vec<_>>(),
        })
    });
    let topic = |(topic, outcome): (&FoundTopic, &Option<&str>)| {
        json!({
            "name": &*topic.name,
            "id": topic.id.map(|id| id.to_string()),
            "partitions": topic.partitions.len(),
            "bytes": topic.size_bytes,
            "settings": topic.settings,
            "source": topic.source.name(),
            "outcome": outcome,
        })
    };
    json!({
        "broker_id": survey.broker_id.map(|id| id.0),
        "cluster_id": survey.cluster_id,
        "directories": directories.collect::<Vec<_>>(),
        "topics": survey.topics.iter().zip(outcomes).map(topic).collect::<Vec<_>>(),
        "problems": survey.problems,
    })
}
