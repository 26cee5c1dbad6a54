//! Taking over log directories that an Apache Kafka broker has written.
//!
//! The directories stay as they are: what is added is the metadata store, in plain files of the first
//! directory, which Apache ignores. Topics, ids and partitions come from directory names and
//! `partition.metadata`, leader epochs and producer ids from the logs.
//!
//! Non-obvious:
//! - What the directories do not tell, the ZooKeeper of their cluster may: settings, and who else had replicas and was
//!   in sync. It is only read.
//! - Nothing in a log directory tells a topic's settings. A topic whose settings are not given gets
//!   [`HELD`], as settings of its own: nothing of it is deleted or compacted until somebody who knows better changes
//!   them. That is also what Apache would see of it.
//! - A partition of which another broker had the only leader would come back empty: a topic of which
//!   partitions are missing is refused.

use crate::config::{BrokerConfig, DefinedRules, ZooKeeperSettings};
use crate::groups::{OFFSETS_TOPIC, offsets_topic};
use crate::metadata_store::with_session;
use crate::server::{Environment, StartError, open_ensemble};
use controller::{ConfigRules, ControllerError, ImportedTopic, Membership};
pub use controller::{ImportError, Imported, KnownCluster, KnownPartition, KnownTopic};
use coordination::local::LocalStore;
use coordination::{SessionHandle, Store};
use model::{BrokerId, LeaderEpoch, TopicId, TopicName};
use platform::Disk;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::{DirectorySurvey, DiskError};

/// The settings of a topic whose own are not known: everything is kept.
pub const HELD: [(&str, &str); 3] =
    [("cleanup.policy", "delete"), ("retention.bytes", "-1"), ("retention.ms", "-1")];

const TRANSACTIONS_TOPIC: &str = "__transaction_state";

type Settings = BTreeMap<String, String>;

/// Where a topic's settings come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingsSource {
    /// They were given.
    Given,
    /// The ZooKeeper of its cluster tells them.
    ZooKeeper,
    /// It is one of Kafka's own topics.
    Internal,
    /// Nobody knows: deletion and compaction are held.
    Held,
}

impl SettingsSource {
    /// For people and programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::ZooKeeper => "zookeeper",
            Self::Internal => "internal",
            Self::Held => "held",
        }
    }
}

/// A topic that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundTopic {
    /// Its name.
    pub name: TopicName,
    /// Its id, if its partitions have one.
    pub id: Option<TopicId>,
    /// Its partitions, with the newest leader epoch of each.
    pub partitions: BTreeMap<i32, LeaderEpoch>,
    /// Bytes in its logs.
    pub size_bytes: u64,
    /// What it will be served with.
    pub settings: Settings,
    /// Where those come from.
    pub source: SettingsSource,
}

/// What was found, and what is to be done about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The directories, in the order given.
    pub directories: Vec<DirectorySurvey>,
    /// Whose they are.
    pub broker_id: Option<BrokerId>,
    /// Of which cluster.
    pub cluster_id: Option<String>,
    /// The topics, by name.
    pub topics: Vec<FoundTopic>,
    /// The highest producer id in any log.
    pub last_producer_id: Option<i64>,
    /// Why they are not adopted, in words; empty if they can be.
    pub problems: Vec<String>,
}

/// Settings of topics, as a properties file tells them: `topic/key=value`, and `topic=` for a topic that
/// has none of its own. `*` stands for all topics that are not named. Or as the cluster's ZooKeeper tells them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownSettings {
    topics: BTreeMap<String, Settings>,
    cluster: Option<KnownCluster>,
}

/// The name that stands for all others.
const ALL_OTHERS: &str = "*";

impl KnownSettings {
    /// Reads a properties file's text, and checks every setting.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let pairs = java_properties::read(text)
            .map_err(|error| format!("not a properties file: {error}"))?;
        let mut topics = BTreeMap::<String, Settings>::new();
        for (key, value) in BTreeMap::from_iter(pairs) {
            match key.split_once('/') {
                Some((topic, key)) => {
                    topics.entry(topic.to_owned()).or_default().insert(key.to_owned(), value);
                }
                None if value.is_empty() => drop(topics.entry(key).or_default()),
                None => {
                    return Err(format!(
                        "{key}={value}: expected TOPIC/KEY=VALUE, or TOPIC= for a topic without settings"
                    ));
                }
            }
        }
        for (topic, settings) in &topics {
            check_settings(topic, settings)?;
        }
        Ok(Self { topics, cluster: None })
    }

    /// What a cluster tells of its topics.
    #[must_use]
    pub fn of_cluster(cluster: KnownCluster) -> Self {
        Self { topics: BTreeMap::new(), cluster: Some(cluster) }
    }

    /// Reads the ZooKeeper of the cluster that the directories are of, and changes nothing there.
    ///
    /// # Errors
    /// [`AdoptionError`].
    pub fn from_zookeeper(
        environment: &Environment,
        settings: &ZooKeeperSettings,
    ) -> Result<Self, AdoptionError> {
        let store = open_ensemble(settings, environment)?;
        store.create_nothing();
        let read = async |session: &SessionHandle| KnownCluster::read(session).await;
        let known = with_session(&store, read).map_err(StartError::System)?;
        Ok(Self::of_cluster(known.map_err(AdoptionError::Cluster)?))
    }

    fn of(&self, topic: &str) -> Option<&Settings> {
        let given = &self.topics;
        given.get(topic).or_else(|| given.get(ALL_OTHERS).filter(|_| !is_internal(topic)))
    }
}

fn check_settings(topic: &str, settings: &Settings) -> Result<(), String> {
    let config = Arc::new(default_config());
    let rules = DefinedRules::new(move || Arc::clone(&config));
    let checked = rules.validate_new_topic(&topic.into(), settings);
    checked.map_err(|error| format!("{topic}: {error}"))
}

fn is_internal(topic: &str) -> bool {
    topic == OFFSETS_TOPIC || topic == TRANSACTIONS_TOPIC
}

fn default_config() -> BrokerConfig {
    BrokerConfig::load(None, &[]).expect("no settings at all are fine").config
}

impl Survey {
    /// Looks at `paths`, which are all log directories of one broker, and changes nothing.
    ///
    /// # Errors
    /// The disk's.
    pub fn of(
        disk: &Arc<dyn Disk>,
        paths: &[PathBuf],
        settings: &KnownSettings,
    ) -> Result<Self, DiskError> {
        let mut survey = Self::default();
        for path in paths {
            survey.directories.push(DirectorySurvey::of(disk, path)?);
        }
        survey.agree(settings.cluster.as_ref());
        survey.gather(settings);
        Ok(survey)
    }

    /// All directories belong to one broker of one cluster, and nobody uses them.
    fn agree(&mut self, cluster: Option<&KnownCluster>) {
        for directory in &self.directories {
            let path = directory.path.display();
            self.problems.extend(directory.problems.iter().cloned());
            if directory.is_in_use {
                self.problems.push(format!("{path} is in use: stop the broker first"));
            }
            if let Some(id) = directory.broker_id {
                let first = *self.broker_id.get_or_insert(id);
                if first != id {
                    self.problems
                        .push(format!("{path} is broker {id}'s, others are broker {first}'s"));
                }
            }
            if let Some(id) = &directory.cluster_id {
                let first = self.cluster_id.get_or_insert_with(|| id.clone());
                if first != id {
                    self.problems
                        .push(format!("{path} is of cluster {id}, others of cluster {first}"));
                }
            }
        }
        let Some(cluster) = cluster else { return };
        if let (Some(here), Some(there)) = (&self.cluster_id, &cluster.id)
            && here != there
        {
            self.problems.push(format!(
                "the directories are of cluster {here}, ZooKeeper's is {there}: name the right chroot"
            ));
        }
        if let Some(id) = self.broker_id.filter(|id| cluster.brokers.contains(id)) {
            self.problems.push(format!(
                "broker {id} is registered in ZooKeeper: stop it first; if it was killed, wait until its session expires"
            ));
        }
    }

    fn gather(&mut self, settings: &KnownSettings) {
        let mut topics = BTreeMap::<TopicName, FoundTopic>::new();
        for partition in self.directories.iter().flat_map(|directory| &directory.partitions) {
            let name = &partition.name.topic;
            let topic = topics.entry(name.clone()).or_insert_with(|| {
                let (settings, source) = settings_of(name, settings);
                FoundTopic {
                    name: name.clone(),
                    id: partition.topic_id,
                    partitions: BTreeMap::new(),
                    size_bytes: 0,
                    settings,
                    source,
                }
            });
            topic.size_bytes += partition.size_bytes;
            let id = partition.topic_id.or(topic.id);
            if id != topic.id && topic.id.is_some() {
                self.problems.push(format!(
                    "topic {name}: partition {} has another topic id than the ones before it: one of \
                     them is left from a topic that was deleted",
                    partition.name.partition
                ));
            }
            topic.id = topic.id.or(id);
            let epoch = partition.leader_epoch.unwrap_or(LeaderEpoch(0));
            if topic.partitions.insert(partition.name.partition, epoch).is_some() {
                self.problems.push(format!("{} is in two directories", partition.name));
            }
            self.last_producer_id =
                self.last_producer_id.max(partition.last_producer_id.map(|id| id.0));
        }
        for topic in topics.values_mut() {
            let known =
                settings.cluster.as_ref().and_then(|cluster| cluster.topics.get(&topic.name));
            if let Some(known) = known {
                self.problems.extend(take_what_is_known(topic, known, self.broker_id));
                continue;
            }
            let expected = (0..).zip(topic.partitions.keys());
            if let Some((index, _)) =
                expected.into_iter().find(|(expected, found)| expected != *found)
            {
                self.problems.push(format!(
                    "topic {}: partition {index} is not here: name all log directories, and bring the \
                     partitions of other brokers",
                    topic.name
                ));
            }
        }
        for topic in settings.topics.keys().filter(|topic| *topic != ALL_OTHERS) {
            if !topics.contains_key(topic.as_str()) {
                self.problems.push(format!("topic {topic} has settings, and is not here"));
            }
        }
        self.topics = topics.into_values().collect();
    }
}

/// Adds what the cluster's store tells of a topic; returns why it cannot be adopted, in words.
fn take_what_is_known(
    topic: &mut FoundTopic,
    known: &KnownTopic,
    broker: Option<BrokerId>,
) -> Vec<String> {
    let name = topic.name.clone();
    let mut problems = Vec::new();
    if let (Some(here), Some(there)) = (topic.id, known.id)
        && here != there
    {
        problems.push(format!(
            "topic {name}: its id is {here}, in ZooKeeper {there}: it was deleted and made again; move these directories away"
        ));
    }
    topic.id = topic.id.or(known.id);
    // Those of Kafka's own topics say how many replicas have to be in sync; here there is one.
    if topic.source != SettingsSource::Internal {
        problems.extend(check_settings(&name, &known.settings).err());
        topic.settings.clone_from(&known.settings);
        topic.source = SettingsSource::ZooKeeper;
    }
    let list = |brokers: &[BrokerId]| {
        brokers.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    };
    for (index, partition) in &known.partitions {
        let Some(epoch) = topic.partitions.get_mut(index) else {
            problems.push(format!(
                "topic {name}: partition {index} is not here; brokers {} have it: name all log directories, or reassign it \
                 to this broker",
                list(&partition.replicas)
            ));
            continue;
        };
        let Some((isr, leader_epoch)) = &partition.state else { continue };
        *epoch = (*epoch).max(*leader_epoch);
        if let Some(broker) = broker.filter(|broker| !isr.contains(broker)) {
            problems.push(format!(
                "topic {name}: partition {index} was out of sync here: its ISR is {}, broker {broker} may lack records",
                list(isr)
            ));
        }
    }
    for index in topic.partitions.keys().filter(|index| !known.partitions.contains_key(index)) {
        problems.push(format!("topic {name}: partition {index} is here, and not in ZooKeeper"));
    }
    problems
}

fn settings_of(topic: &str, known: &KnownSettings) -> (Settings, SettingsSource) {
    let owned = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    if let Some(settings) = known.of(topic) {
        return (settings.clone(), SettingsSource::Given);
    }
    let settings = match topic {
        OFFSETS_TOPIC => offsets_topic(&default_config())
            .configs
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect(),
        // As Kafka makes it, but for the replicas that it wants in sync: there is one.
        TRANSACTIONS_TOPIC => owned(&[
            ("cleanup.policy", "compact"),
            ("compression.type", "uncompressed"),
            ("segment.bytes", "104857600"),
            ("unclean.leader.election.enable", "false"),
        ]),
        _ => return (owned(&HELD), SettingsSource::Held),
    };
    (settings, SettingsSource::Internal)
}

/// Why directories were not adopted.
#[derive(Debug, thiserror::Error)]
pub enum AdoptionError {
    /// What was found forbids it.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// A directory or file cannot be read.
    #[error("{}: {}", .0, .0.source)]
    Disk(#[from] DiskError),
    /// Somebody has started to use a directory.
    #[error("{}: {source}", path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
        /// Why it cannot be had.
        source: io::Error,
    },
    /// The connection to ZooKeeper cannot be made as the settings say.
    #[error(transparent)]
    Settings(#[from] StartError),
    /// ZooKeeper does not tell of the cluster.
    #[error("ZooKeeper does not tell of the cluster: {0}")]
    Cluster(ControllerError),
    /// The metadata store cannot be used.
    #[error("the metadata store in {}: {source}", directory.display())]
    Store {
        /// Where it is.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store does not take a topic.
    #[error(transparent)]
    Import(#[from] ImportError),
}

/// Makes directories servable by `barnabas serve`; doing it again changes nothing. Returns what was found,
/// and what became of each topic.
///
/// # Errors
/// [`AdoptionError`].
pub fn adopt(
    environment: &Environment,
    paths: &[PathBuf],
    settings: &KnownSettings,
) -> Result<(Survey, Vec<Imported>), AdoptionError> {
    let survey = Survey::of(&environment.disk, paths, settings)?;
    let (Some(broker_id), [first, ..]) = (survey.broker_id, paths) else {
        return Err(AdoptionError::Refused(survey.problems));
    };
    if !survey.problems.is_empty() {
        return Err(AdoptionError::Refused(survey.problems));
    }
    let mut held = Vec::with_capacity(paths.len());
    for path in paths {
        let path = path.join(".lock");
        match environment.disk.lock(&path) {
            Ok(lock) => held.push(lock),
            Err(source) => return Err(AdoptionError::Locked { path, source }),
        }
    }
    let imported = import(environment, first, broker_id, &survey)?;
    Ok((survey, imported))
}

fn import(
    environment: &Environment,
    directory: &Path,
    broker_id: BrokerId,
    survey: &Survey,
) -> Result<Vec<Imported>, AdoptionError> {
    let at = |source| AdoptionError::Store { directory: directory.to_owned(), source };
    let (disk, clock) = (Arc::clone(&environment.disk), Arc::clone(&environment.clock));
    let store = Arc::new(LocalStore::open_inline(disk, directory, clock).map_err(at)?);
    let shared: Arc<dyn Store> = Arc::clone(&store) as _;
    let proposed = survey.cluster_id.clone().unwrap_or_else(|| {
        // Kafka before 0.10.1 had none.
        let mut id = [0; 16];
        environment.random.fill(&mut id);
        TopicId(id).to_string()
    });
    let topics: Vec<_> = survey.topics.iter().map(as_imported).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(at)?;
    let imported = runtime.block_on(async {
        let membership = Membership::join(shared, &proposed).await.map_err(ImportError::from)?;
        if membership.cluster_id() != proposed && survey.cluster_id.is_some() {
            return Err(AdoptionError::Refused(vec![format!(
                "the store in {} is of cluster {}, the directories of cluster {proposed}",
                directory.display(),
                membership.cluster_id()
            )]));
        }
        let last = survey.last_producer_id;
        let imported = membership.import(broker_id, &topics, last).await?;
        membership.leave().await.map_err(ImportError::from)?;
        Ok(imported)
    });
    store.shut_down();
    imported
}

fn as_imported(topic: &FoundTopic) -> ImportedTopic {
    ImportedTopic {
        name: topic.name.clone(),
        id: topic.id,
        partitions: topic.partitions.clone(),
        settings: topic.settings.clone(),
        settings_are_given: match topic.source {
            SettingsSource::Given | SettingsSource::ZooKeeper => true,
            SettingsSource::Internal | SettingsSource::Held => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::clock::ManualClock;
    use platform::random::SeededRandom;
    use platform::{MemoryDisk, Network};

    fn world() -> (MemoryDisk, Environment) {
        let disk = MemoryDisk::new();
        disk.put(Path::new("/d/meta.properties"), b"version=0\nbroker.id=5\ncluster.id=abc\n");
        disk.put(Path::new("/d/.lock"), b"");
        let environment = Environment {
            clock: Arc::new(ManualClock::at(model::Timestamp(1))),
            random: Arc::new(SeededRandom::new(1)),
            disk: Arc::new(disk.clone()),
            network: Network::System,
        };
        (disk, environment)
    }

    fn put(disk: &MemoryDisk, directory: &str, id: u8) {
        let text = format!("version: 0\ntopic_id: {}", TopicId([id; 16]));
        let path = Path::new(directory).join("partition.metadata");
        disk.put(&path, text.as_bytes());
        disk.put(&Path::new(directory).join("00000000000000000000.log"), b"");
    }

    fn problems(environment: &Environment, paths: &[&str], settings: &str) -> Vec<String> {
        let paths: Vec<_> = paths.iter().map(PathBuf::from).collect();
        let known = KnownSettings::parse(settings.as_bytes()).unwrap();
        match adopt(environment, &paths, &known) {
            Ok(_) => Vec::new(),
            Err(AdoptionError::Refused(problems)) => problems,
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn it_can_be_done_again_and_settings_may_come_later() {
        let (disk, environment) = world();
        put(&disk, "/d/t-0", 7);
        put(&disk, "/d/__consumer_offsets-0", 8);
        let adopt = |settings: &str| {
            let known = KnownSettings::parse(settings.as_bytes()).unwrap();
            adopt(&environment, &["/d".into()], &known).unwrap()
        };
        let (survey, imported) = adopt("");
        assert_eq!(survey.broker_id, Some(BrokerId(5)));
        let sources: Vec<_> = survey.topics.iter().map(|topic| topic.source).collect();
        assert_eq!(sources, [SettingsSource::Internal, SettingsSource::Held]);
        assert_eq!(imported, [Imported::Added; 2]);
        assert_eq!(adopt("").1, [Imported::Unchanged; 2]);
        let later = adopt("t/retention.ms=5\n").1;
        assert_eq!(later, [Imported::Unchanged, Imported::SettingsReplaced]);
        assert_eq!(adopt("*=\n").1[1], Imported::SettingsReplaced, "none of its own");
        assert_eq!(adopt("").1, [Imported::Unchanged; 2]);
        let is_foreign = |path: &PathBuf| {
            let name = path.strip_prefix("/d").unwrap();
            name.components().count() > 1
                && !name.starts_with("t-0")
                && !name.starts_with("__consumer_offsets-0")
        };
        let files = disk.files();
        assert!(!files.iter().any(|(path, _)| is_foreign(path)), "only plain files are new");
    }

    #[test]
    fn what_would_lose_records_is_refused() {
        let (disk, environment) = world();
        put(&disk, "/d/t-0", 7);
        put(&disk, "/d/t-2", 7);
        let said = problems(&environment, &["/d"], "");
        assert!(said[0].contains("partition 1 is not here"), "{said:?}");
        put(&disk, "/d/t-1", 9);
        let said = problems(&environment, &["/d"], "");
        assert!(said[0].contains("another topic id"), "{said:?}");
        put(&disk, "/d/t-1", 7);
        assert_eq!(problems(&environment, &["/d"], ""), [""; 0]);
        disk.put(Path::new("/e/meta.properties"), b"version=0\nbroker.id=6\ncluster.id=abc\n");
        put(&disk, "/e/t-0", 7);
        let said = problems(&environment, &["/d", "/e"], "u/retention.ms=1");
        assert_eq!(said.len(), 3, "another broker, a partition twice, an unknown topic: {said:?}");
        let held = environment.disk.lock(Path::new("/d/.lock")).unwrap();
        let said = problems(&environment, &["/d"], "");
        assert!(said[0].contains("in use"), "{said:?}");
        drop(held);
    }

    #[test]
    fn the_clusters_store_tells_settings_and_who_has_what() {
        let (disk, environment) = world();
        put(&disk, "/d/t-0", 7);
        put(&disk, "/d/u-0", 8);
        put(&disk, "/d/__consumer_offsets-0", 9);
        let partition = |replicas: &[i32], isr: &[i32]| KnownPartition {
            replicas: replicas.iter().map(|&id| BrokerId(id)).collect(),
            state: Some((isr.iter().map(|&id| BrokerId(id)).collect(), LeaderEpoch(6))),
        };
        let topic = |id: u8, settings: &[(&str, &str)]| KnownTopic {
            id: Some(TopicId([id; 16])),
            settings: settings.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect(),
            partitions: [(0, partition(&[5], &[5]))].into(),
        };
        let mut cluster = KnownCluster { id: Some("abc".to_owned()), ..Default::default() };
        cluster.topics.insert("t".into(), topic(7, &[("retention.ms", "5")]));
        cluster.topics.insert("elsewhere".into(), topic(1, &[]));
        cluster.topics.insert(OFFSETS_TOPIC.into(), topic(9, &[("min.insync.replicas", "2")]));
        let adopt = |cluster: &KnownCluster| {
            adopt(&environment, &["/d".into()], &KnownSettings::of_cluster(cluster.clone()))
        };
        let (survey, _) = adopt(&cluster).unwrap();
        let [offsets, t, u] = &survey.topics[..] else { panic!("{survey:?}") };
        assert_eq!(
            [offsets.source, t.source, u.source],
            [SettingsSource::Internal, SettingsSource::ZooKeeper, SettingsSource::Held],
            "what nobody knows is held"
        );
        assert_eq!((t.settings["retention.ms"].as_str(), t.partitions[&0]), ("5", LeaderEpoch(6)));
        assert!(!offsets.settings.contains_key("min.insync.replicas"));
        cluster.topics.get_mut("t").unwrap().settings.insert("retention.ms".into(), "6".into());
        assert_eq!(adopt(&cluster).unwrap().1[1], Imported::SettingsReplaced);

        let refused = |change: &dyn Fn(&mut KnownCluster)| {
            let mut changed = cluster.clone();
            change(&mut changed);
            match adopt(&changed) {
                Err(AdoptionError::Refused(problems)) => problems.join("; "),
                other => panic!("{other:?}"),
            }
        };
        let t = |cluster: &mut KnownCluster, change: &dyn Fn(&mut KnownTopic)| {
            change(cluster.topics.get_mut("t").unwrap());
        };
        let said = refused(&|c| c.id = Some("other".to_owned()));
        assert!(said.contains("ZooKeeper's is other"), "{said}");
        let said = refused(&|c| c.brokers.extend([BrokerId(5)]));
        assert!(said.contains("broker 5 is registered"), "{said}");
        let said = refused(&|c| t(c, &|t| t.id = Some(TopicId([1; 16]))));
        assert!(said.contains("made again"), "{said}");
        let said = refused(&|c| t(c, &|t| drop(t.partitions.insert(1, partition(&[2, 3], &[2])))));
        assert!(said.contains("partition 1 is not here; brokers 2,3"), "{said}");
        let said = refused(&|c| t(c, &|t| drop(t.partitions.insert(0, partition(&[5, 2], &[2])))));
        assert!(said.contains("out of sync here: its ISR is 2"), "{said}");
        let said = refused(&|c| t(c, &|t| t.partitions.clear()));
        assert!(said.contains("not in ZooKeeper"), "{said}");
        let said = refused(&|c| t(c, &|t| drop(t.settings.insert("no.such".into(), "1".into()))));
        assert!(said.contains("no.such"), "{said}");
    }

    #[test]
    fn settings_are_checked() {
        for text in ["t=1", "t/retention.ms=x", "t/no.such.key=1"] {
            KnownSettings::parse(text.as_bytes()).unwrap_err();
        }
        let known = KnownSettings::parse(b"a.b/retention.ms=1\n*=\n").unwrap();
        assert_eq!(known.of("a.b").unwrap()["retention.ms"], "1");
        assert_eq!(known.of("c"), Some(&Settings::new()));
        assert_eq!(known.of(OFFSETS_TOPIC), None, "all others are not Kafka's own");
    }
}
