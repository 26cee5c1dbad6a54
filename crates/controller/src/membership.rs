//! A broker's first steps on the store: the paths that every broker creates, and the cluster's id.

use crate::driver::{Driver, DriverParts};
use crate::{ConfigListener, ConfigRules, ControlChannels, ControllerHandle, EpochRecord};
use crate::{LogDoubt, NoEpochRecord, NoSessionRecord, Placement, SessionRecord, znodes};
use coordination::{
    CreateMode, Events, Lease, Op, Read, ReadResult, SessionHandle, Store, StoreError,
};
use metadata::{BrokerImage, ConfigEntity};
use model::{BrokerEpoch, BrokerId, ControllerEpoch, TopicName, TopicPartition};
use platform::{Clock, Random};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Why a broker cannot be part of its cluster.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The store does not do what was asked of it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another broker with the same id is registered.
    #[error(
        "another broker with id {0} is registered; give this one another broker.id, or wait for the other's \
         session to expire if it is gone"
    )]
    IdTaken(BrokerId),
    /// Another live broker tells clients the same address.
    #[error(
        "broker {other}, which is registered, advertises {address} too; give each broker addresses of its own \
         (listeners, advertised.listeners), or, if {other} is gone, wait for its session to expire"
    )]
    AddressTaken {
        /// Who has it.
        other: BrokerId,
        /// Host and port.
        address: String,
    },
    /// Metadata of another store were being written into this one.
    #[error(
        "the store holds a part of a cluster's metadata: an import was not finished; run `barnabas store import` \
         again with the same file"
    )]
    ImportUnfinished,
    /// Controllers were elected that the store does not know of.
    #[error(
        "/controller_epoch is {store} in the store, and this broker has seen {seen}: the store was restored from an old \
         copy. Start its servers from a newer one; or, if there is none, stop all brokers and raise what only grows, by \
         zookeeper-shell: set /controller_epoch {seen} (the highest number that any broker names), and \
         create {} 1000 (more than there were elections of a partition's leader since the copy)",
        znodes::RAISE_LEADER_EPOCHS
    )]
    StoreIsOld {
        /// What the store says.
        store: ControllerEpoch,
        /// What this broker remembers.
        seen: ControllerEpoch,
    },
    /// There is no epoch for another controller: somebody has written the highest number there is.
    #[error(
        "{} is {}, the highest there is: no controller can be elected after it. Stop all brokers, remove \
         barnabas-controller-epoch from their first log directories, and set the node to a lower number with zookeeper-shell",
        znodes::CONTROLLER_EPOCH,
        i32::MAX
    )]
    EpochsAreUsedUp,
    /// A node does not hold what it should.
    #[error("the store's node {0} cannot be read")]
    Malformed(&'static str),
}

/// What the driver goes by.
#[derive(Clone, Debug)]
pub struct ControllerSettings {
    /// This broker: its id, rack and advertised endpoints.
    pub broker: BrokerImage,
    /// The name of the listener that brokers use among themselves.
    pub inter_broker_listener: String,
    /// `num.partitions`
    pub num_partitions: i32,
    /// `default.replication.factor`
    pub default_replication_factor: i16,
    /// `barnabas.replica.placement`
    pub placement: Placement,
    /// `unclean.leader.election.enable`, where nothing dynamic says otherwise.
    pub unclean_leader_election: bool,
    /// `min.insync.replicas` of this broker's file.
    pub min_insync_replicas: usize,
    /// `delete.topic.enable`
    pub delete_topics: bool,
    /// `auto.leader.rebalance.enable`
    pub auto_leader_rebalance: bool,
    /// `leader.imbalance.per.broker.percentage`
    pub leader_imbalance_percentage: i32,
    /// `leader.imbalance.check.interval.seconds`
    pub leader_imbalance_interval: Duration,
    /// `barnabas.fast.failure.detection`
    pub fast_failure_detection: bool,
    /// What this broker's logs may lack of what it had before its start.
    pub log_doubt: Option<LogDoubt>,
    /// `barnabas.unclean.restart.wait.ms`
    pub unclean_restart_wait: Duration,
    /// `barnabas.controller.reconcile.interval.ms`; `None`: never.
    pub reconcile_interval: Option<Duration>,
}

/// What the driver works with.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The ways to brokers.
    pub channels: Arc<dyn ControlChannels>,
    /// Told of dynamic settings.
    pub configs: Arc<dyn ConfigListener>,
    /// What settings may be.
    pub rules: Arc<dyn ConfigRules>,
    /// The epoch of this broker's registration is kept here; it changes with every new session.
    pub broker_epoch: Arc<AtomicI64>,
    /// Told when a registration is lost.
    pub registration: Arc<dyn RegistrationListener>,
    /// What this broker was told of its cluster.
    pub cluster: Arc<dyn ClusterView>,
    /// Time, for the JSON in nodes.
    pub clock: Arc<dyn Clock>,
    /// Topic ids and placement.
    pub random: Arc<dyn Random>,
}

/// What this broker was told of its cluster, by whoever was controller.
pub trait ClusterView: Debug + Send + Sync {
    /// The brokers that were live then.
    fn live_brokers(&self) -> BTreeSet<BrokerId>;
}

/// Told when this broker's registration is no more.
pub trait RegistrationListener: Debug + Send + Sync {
    /// The registration with this epoch has ended with its session, or was removed: from now on others may
    /// lead what this broker leads. The controller speaks to a later registration before it counts again.
    fn registration_lost(&self, epoch: BrokerEpoch);
}

/// A session on the cluster's store, before this broker is registered.
#[derive(Debug)]
pub struct Membership {
    store: Arc<dyn Store>,
    pub(crate) session: SessionHandle,
    current: CurrentSession,
    events: Events,
    cluster_id: String,
    session_record: Arc<dyn SessionRecord>,
    epoch_record: Arc<dyn EpochRecord>,
}

impl Membership {
    /// Opens a session, creates the paths that every broker creates, and reads the cluster's id;
    /// `proposed` becomes it if the cluster has none yet.
    ///
    /// # Errors
    /// The store's, or [`ControllerError::Malformed`].
    pub async fn join(store: Arc<dyn Store>, proposed: &str) -> Result<Self, ControllerError> {
        let (session, events) = store.open_session().await?;
        if session.exists(znodes::IMPORTING, false).await?.is_some() {
            return Err(ControllerError::ImportUnfinished);
        }
        create_persistent_paths(&session).await?;
        let cluster_id = cluster_id(&session, proposed).await?;
        let session_record = Arc::new(NoSessionRecord);
        let current = Arc::new(Mutex::new(session.clone()));
        let epoch_record = Arc::new(NoEpochRecord);
        Ok(Self { store, session, current, events, cluster_id, session_record, epoch_record })
    }

    /// Remembers in `record` which sessions this broker registers with.
    pub fn remember_sessions(&mut self, record: Arc<dyn SessionRecord>) {
        self.session_record = record;
    }

    /// Remembers in `record` which controller epochs this broker has seen.
    pub fn remember_epochs(&mut self, record: Arc<dyn EpochRecord>) {
        self.epoch_record = record;
    }

    /// Where the controller epochs are that this broker has seen.
    #[must_use]
    pub fn epoch_record(&self) -> Arc<dyn EpochRecord> {
        Arc::clone(&self.epoch_record)
    }

    /// An id that no broker of the cluster has or had, above `reserved` (`reserved.broker.max.id`).
    ///
    /// # Errors
    /// The store's.
    pub async fn generate_broker_id(&self, reserved: i32) -> Result<BrokerId, ControllerError> {
        loop {
            match self.session.set(znodes::BROKER_ID_SEQUENCE, "", None).await {
                Ok(stat) => return Ok(BrokerId(reserved.saturating_add(stat.version))),
                Err(StoreError::NoNode(_)) => {
                    self.session.create_parents(znodes::BROKER_ID_SEQUENCE).await?;
                }
                // A number is wasted if it had been made.
                Err(StoreError::MayHaveBeenApplied) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The cluster's id: 22 characters of URL-safe base64.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.cluster_id
    }

    /// Whether the cluster has topics.
    ///
    /// # Errors
    /// The store's.
    pub async fn has_topics(&self) -> Result<bool, ControllerError> {
        Ok(!self.session.children(znodes::TOPICS, false).await?.is_empty())
    }

    /// Tells how long the store keeps this broker's session.
    #[must_use]
    pub fn session_reader(&self) -> SessionReader {
        SessionReader(Arc::clone(&self.current))
    }

    /// Reads topics' settings, for whoever creates their logs.
    #[must_use]
    pub fn config_reader(&self) -> ConfigReader {
        ConfigReader { session: Arc::clone(&self.current) }
    }

    /// Registers the broker and takes part in the election; the returned driver must be run.
    ///
    /// Dynamic broker settings have been told to [`Surroundings::configs`] when this returns.
    ///
    /// # Errors
    /// The store's, [`ControllerError::IdTaken`], [`ControllerError::AddressTaken`] or [`ControllerError::StoreIsOld`].
    pub async fn start(
        self,
        settings: ControllerSettings,
        surroundings: Surroundings,
    ) -> Result<(ControllerHandle, Driver), ControllerError> {
        let (handle, commands) = ControllerHandle::new(Arc::clone(&surroundings.broker_epoch));
        let parts = DriverParts {
            store: self.store,
            session: self.session,
            current: self.current,
            events: self.events,
            commands,
            settings,
            surroundings,
            session_record: self.session_record,
            epoch_record: self.epoch_record,
        };
        Ok((handle, Driver::start(parts).await?))
    }
}

async fn create_persistent_paths(session: &SessionHandle) -> Result<(), StoreError> {
    let mut paths = BTreeSet::new();
    for path in znodes::PERSISTENT_PATHS {
        let ends = path.match_indices('/').map(|(at, _)| at).filter(|&at| at > 0);
        paths.extend(ends.chain([path.len()]).map(|end| &path[..end]));
    }
    loop {
        let reads = paths.iter().map(|path| Read::exists(*path)).collect();
        let found = session.read_all(reads).await?;
        let mut missing = Vec::new();
        for (path, found) in paths.iter().zip(found) {
            if matches!(found?, ReadResult::Exists(None)) {
                missing.push(Op::create_null(*path));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        match session.multi(missing).await {
            // Another broker that starts may have been faster: look again.
            Ok(_) | Err(StoreError::NodeExists(_) | StoreError::MayHaveBeenApplied) => {}
            Err(error) => return Err(error),
        }
    }
}

async fn cluster_id(session: &SessionHandle, proposed: &str) -> Result<String, ControllerError> {
    const MALFORMED: ControllerError = ControllerError::Malformed(znodes::CLUSTER_ID);
    loop {
        match session.get(znodes::CLUSTER_ID, false).await {
            Ok((data, _)) => {
                let data = data.ok_or(MALFORMED)?;
                return znodes::parse_cluster_id(&data).ok_or(MALFORMED);
            }
            Err(StoreError::NoNode(_)) => {}
            Err(error) => return Err(error.into()),
        }
        session.create_parents("/cluster").await?;
        let data = znodes::cluster_id(proposed).into();
        match session.create(znodes::CLUSTER_ID, Some(data), CreateMode::Persistent).await {
            Ok(_) => return Ok(proposed.into()),
            // Somebody else was first; or we were, and the reply was lost.
            Err(StoreError::NodeExists(_) | StoreError::MayHaveBeenApplied) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The session that this broker has now: sessions end, and whoever reads besides the driver must not
/// stay with one that did.
pub(crate) type CurrentSession = Arc<Mutex<SessionHandle>>;

/// Tells how long the store keeps the session that this broker has now.
#[derive(Clone, Debug)]
pub struct SessionReader(CurrentSession);

impl SessionReader {
    /// How long the session can be relied on; `None` if it lasts as long as the process.
    #[must_use]
    pub fn lease(&self) -> Option<Lease> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).lease()
    }
}

/// Dynamic settings of a broker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrokerConfigs {
    /// Those of all brokers.
    pub all: BTreeMap<String, String>,
    /// Its own, which go before.
    pub own: BTreeMap<String, String>,
}

/// Reads dynamic settings from the store, and since when it has partitions.
#[derive(Clone, Debug)]
pub struct ConfigReader {
    session: CurrentSession,
}

impl ConfigReader {
    /// The settings that were set on each of `topics`, in order; empty for a topic without any.
    ///
    /// # Errors
    /// Why the store did not answer.
    pub async fn topics(
        &self,
        topics: &[TopicName],
    ) -> Result<Vec<BTreeMap<String, String>>, StoreError> {
        let entities: Vec<_> = topics.iter().cloned().map(ConfigEntity::Topic).collect();
        let session = self.session();
        let nodes = entities.iter().map(|entity| Read::exists(znodes::config_path(entity)));
        let found = session.read_all(nodes.collect()).await?;
        if found.iter().any(|found| matches!(found, Ok(ReadResult::Exists(None)))) {
            // Every topic has them, before it is led. The server that was asked may be behind; after a transaction, which
            // is answered by all, it is not.
            match session.multi(vec![Op::check(znodes::TOPICS, 0)]).await {
                Ok(_) | Err(StoreError::BadVersion(_) | StoreError::NoNode(_)) => {}
                Err(error) => return Err(error),
            }
        }
        read_configs(&session, &entities).await
    }

    /// The settings that were set on all brokers, and those that were set on broker `id` alone.
    ///
    /// # Errors
    /// Why the store did not answer.
    pub async fn broker(&self, id: BrokerId) -> Result<BrokerConfigs, StoreError> {
        let entities = [ConfigEntity::AllBrokers, ConfigEntity::Broker(id)];
        let mut configs = read_configs(&self.session(), &entities).await?.into_iter();
        let mut next = || configs.next().unwrap_or_default();
        Ok(BrokerConfigs { all: next(), own: next() })
    }

    /// When each of `partitions` got its state, in order, counted as broker epochs are: a registration with
    /// a greater epoch is younger. `None` for one that has none. Those that came from another store are older than
    /// any registration: what that counted means nothing here.
    ///
    /// # Errors
    /// Why the store did not answer.
    pub async fn created(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Option<i64>>, StoreError> {
        let path = |at: &TopicPartition| znodes::state_path(&at.topic, at.partition);
        let imported = Read::exists(znodes::IMPORTED);
        let reads = std::iter::once(imported);
        let reads = reads.chain(partitions.iter().map(|at| Read::exists(path(at)))).collect();
        let created = |found: Result<ReadResult, StoreError>| match found? {
            ReadResult::Exists(stat) => Ok(stat.map(|stat| stat.czxid.0)),
            ReadResult::Data(..) | ReadResult::Children(..) => Ok(None),
        };
        let mut found = self.session().read_all(reads).await?.into_iter().map(created);
        let imported = found.next().transpose()?.flatten();
        let age = |created: i64| match imported {
            Some(imported) if created <= imported => i64::MIN,
            _ => created,
        };
        found.map(|created| Ok(created?.map(age))).collect()
    }

    fn session(&self) -> SessionHandle {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What goes for a topic whose settings cannot be read: whatever they say, nothing is deleted and nothing lost.
const UNREADABLE: [(&str, &str); 3] = [
    ("retention.ms", "-1"),
    ("retention.bytes", "-1"),
    ("unclean.leader.election.enable", "false"),
];

/// The settings of each of `entities`, in order. Topics whose settings cannot be read keep all that they have.
pub(crate) async fn read_configs(
    session: &SessionHandle,
    entities: &[ConfigEntity],
) -> Result<Vec<BTreeMap<String, String>>, StoreError> {
    let found = try_read_configs(session, entities).await?;
    let or_safe = |(entity, configs): (&ConfigEntity, Option<_>)| {
        configs.unwrap_or_else(|| match entity {
            ConfigEntity::Topic(_) => {
                UNREADABLE.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
            }
            ConfigEntity::Broker(_) | ConfigEntity::AllBrokers | ConfigEntity::ClientMetrics(_) => {
                BTreeMap::new()
            }
        })
    };
    Ok(entities.iter().zip(found).map(or_safe).collect())
}

/// The settings of each of `entities`, in order; `None` for those that cannot be read.
pub(crate) async fn try_read_configs(
    session: &SessionHandle,
    entities: &[ConfigEntity],
) -> Result<Vec<Option<BTreeMap<String, String>>>, StoreError> {
    let reads = entities.iter().map(|entity| Read::data(znodes::config_path(entity))).collect();
    let found = session.read_all(reads).await?;
    let configs = entities.iter().zip(found).map(|(entity, found)| match found {
        Ok(ReadResult::Data(data, _)) => {
            let configs = znodes::parse_config(data.as_deref());
            if configs.is_none() {
                let node = znodes::config_path(entity);
                tracing::warn!(node, "these settings cannot be read and are left alone");
            }
            configs
        }
        Ok(ReadResult::Exists(_) | ReadResult::Children(..)) | Err(_) => Some(BTreeMap::new()),
    });
    Ok(configs.collect())
}
