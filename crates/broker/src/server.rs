//! A running broker: its threads, from start to stop.

use crate::Broker;
use crate::channels::Channels;
use crate::cleaner::Cleaners;
use crate::cold_reads::ColdReads;
use crate::committer::Committer;
use crate::config::{
    self, BrokerConfig, ConfigError, DefinedRules, ReplicaPlacement, ZooKeeperSettings,
};
use crate::control::{Control, DynamicSettings};
use crate::epoch_file::EpochFile;
use crate::fetch_session::FetchSessions;
use crate::groups::Groups;
use crate::inbox::{Inbox, News};
use crate::isr_proposer::IsrProposer;
use crate::janitor::{Janitor, JanitorStop};
use crate::lease::LeaderLease;
use crate::listener::{Acceptor, AcceptorStop, Admissions, ConnectionLimits, Doors, ReactorDoor};
use crate::listener::{Listener, SocketSettings, bind};
use crate::log_troubles::LogTroubles;
use crate::mover::Mover;
use crate::partition;
use crate::partitions::Partitions;
use crate::peers::Peers;
use crate::producer_ids::{ProducerIdBlock, ProducerIdSource, ProducerIds};
use crate::reactor::{Reactor, ReactorSettings, ReceiveBudget};
use crate::readiness::Readiness;
use crate::recovery::{Job, Recovery};
use crate::refusals::Refusals;
use crate::replica_fetcher::{FetcherSettings, ReplicaFetchers};
use crate::replication_throttle::ReplicationThrottle;
use crate::scrubber::Scrubber;
use crate::session_file::SessionFile;
use crate::timer::TimerService;
use crate::to_controller;
use arc_swap::ArcSwap;
use controller::{ClusterView, ControllerError, Surroundings};
use controller::{ControllerSettings, LogDoubt, Membership, Placement};
use coordination::Store;
use coordination::local::LocalStore;
use coordination::zookeeper::{ZooKeeperConfig, ZooKeeperStore};
use metadata::{BrokerImage, ClusterImage, Endpoint, SecurityProtocol};
use model::{BrokerId, TopicId, TopicName};
use platform::clock::SystemClock;
use platform::disk::RealDisk;
use platform::random::SystemRandom;
use platform::{Clock, Disk, Network, Random, Tasks};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use storage::{ClosedLog, LogDirectories, LogDirectoriesConfig};
use tokio::sync::watch;
use tracing::{debug, error, info, warn};

/// Bounds what is held of frames that have not arrived whole, where `queued.max.request.bytes` does not
/// say otherwise. Kafka has no bound then.
const DEFAULT_RECEIVE_BUDGET: usize = 512 << 20;

/// Segments that are kept open for reuse; a process may have 20,000 files on a common system.
const MAX_OPEN_SEGMENTS: usize = 8_192;

/// Recent batches that are kept in memory, over all partitions.
const TAIL_CACHE_BYTES: usize = 64 << 20;

/// How long a start waits for a controller.
const ELECTION_PATIENCE: Duration = Duration::from_secs(60);

/// What a broker sees of the world. Injected, so that a simulator can be the world.
#[derive(Clone, Debug)]
pub struct Environment {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Connections to other brokers.
    pub network: Network,
}

impl Environment {
    /// The world as it is.
    #[must_use]
    pub fn real() -> Self {
        Self {
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
            disk: Arc::new(RealDisk),
            network: Network::System,
        }
    }
}

/// Why a broker does not start. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener's address cannot be used.
    #[error("cannot listen on {address} for listener {listener}: {source}; {}", remedy(source))]
    Listen {
        /// The listener's name.
        listener: String,
        /// Where it was to listen.
        address: String,
        /// Why it does not.
        source: io::Error,
    },
    /// The log directories cannot be used.
    #[error(transparent)]
    Logs(#[from] storage::StartError),
    /// The store that holds the cluster's metadata cannot be used.
    #[error("the metadata store in {} cannot be used: {source}", directory.display())]
    Store {
        /// Where it is.
        directory: PathBuf,
        /// Why it cannot be used.
        source: io::Error,
    },
    /// The ensemble that keeps the cluster's metadata cannot be used.
    #[error("the ZooKeeper servers {servers} cannot be used: {source}")]
    ZooKeeper {
        /// `zookeeper.connect`, without its path.
        servers: String,
        /// Why not.
        source: ControllerError,
    },
    /// The configuration names files that cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The broker cannot be part of its cluster.
    #[error("the broker cannot join its cluster: {0}")]
    Membership(#[from] ControllerError),
    /// The controller has not told the broker of its cluster.
    #[error("no controller was elected within {} seconds", ELECTION_PATIENCE.as_secs())]
    NoController,
    /// The system refuses threads or polls.
    #[error("the system refuses resources that a broker needs: {0}")]
    System(#[from] io::Error),
}

/// What to do about an address that cannot be used.
fn remedy(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::AddrInUse {
        "stop the process that uses the port, or choose another one"
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        "choose a port above 1023"
    } else {
        "listeners needs a host name or address of this machine"
    }
}

/// A running broker.
#[derive(Debug)]
pub struct Server {
    broker: Arc<Broker>,
    listeners: Vec<Arc<Listener>>,
    acceptor: JoinHandle<()>,
    acceptor_stop: AcceptorStop,
    reactors: Vec<RunningReactor>,
    /// One message from every reactor that has ended.
    reactor_ended: mpsc::Receiver<()>,
    control: ControlThread,
    janitor: JoinHandle<()>,
    janitor_stop: JanitorStop,
    committer: JoinHandle<()>,
    mover: JoinHandle<()>,
    /// Where logs had to be recovered.
    recovery: Option<JoinHandle<()>>,
    /// Unless `log.cleaner.enable=false`.
    cleaner: Option<JoinHandle<()>>,
    scrubber: JoinHandle<()>,
    /// The store, if the broker started it.
    store: Option<Arc<dyn Store>>,
    failure: Failure,
}

/// Tells when a broker cannot go on: it serves what it has, and must be stopped and started again.
#[derive(Clone, Debug)]
pub struct Failure(watch::Receiver<bool>);

impl Failure {
    /// Waits for it; for ever, if all goes well.
    pub async fn wait(mut self) {
        if self.0.wait_for(|failed| *failed).await.is_err() {
            // The broker was stopped.
            std::future::pending().await
        }
    }
}

/// Where a broker finds its cluster.
#[derive(Debug)]
pub(crate) enum StoreChoice {
    /// Where its configuration says: in ZooKeeper, or in a store of its own as a cluster of one.
    Configured,
    /// In a store that others share.
    Shared(Arc<dyn Store>),
    /// In a store that others share and that outlives them, as ZooKeeper does.
    Ensemble(Arc<dyn Store>),
}

#[derive(Debug)]
struct RunningReactor {
    inbox: Arc<Inbox>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Starts a broker: when this returns it can be connected to.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start(config: BrokerConfig, environment: Environment) -> Result<Self, StartError> {
        Self::start_with(config, environment, StoreChoice::Configured)
    }

    /// As [`Self::start`], as one broker of the cluster whose metadata are in `store`.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start_on(
        config: BrokerConfig,
        environment: Environment,
        store: Arc<dyn Store>,
    ) -> Result<Self, StartError> {
        Self::start_with(config, environment, StoreChoice::Shared(store))
    }

    fn start_with(
        config: BrokerConfig,
        environment: Environment,
        store: StoreChoice,
    ) -> Result<Self, StartError> {
        raise_descriptor_limit();
        let (sockets, listeners) = open_listeners(&config)?;
        let polls =
            (0..reactor_count(&config)).map(|_| Reactor::open()).collect::<io::Result<Vec<_>>>()?;
        let control = ControlThread::start()?;
        let network = config.network.clone();
        let tasks = Tasks::Tokio(control.handle.clone());
        let assembling = assemble(config, environment, store, tasks, &listeners, polls.len());
        let Assembled { broker, store, failure } = control.handle.block_on(assembling)?;
        let committer = broker.partitions.environment().committer.clone();
        let committer = spawn("committer", move || committer.run(spawn))?;
        let mover = broker.partitions.environment().mover.clone();
        let mover = spawn("mover", move || mover.run())?;
        let cleaner = if broker.config.load().log.cleaner.enabled {
            let broker = Arc::clone(&broker);
            let run = move || broker.cleaners.clone().run(&broker, spawn);
            Some(spawn("cleaner", run)?)
        } else {
            None
        };
        let scrubber = {
            let broker = Arc::clone(&broker);
            spawn("scrubber", move || broker.scrubber.clone().run(&broker))?
        };
        let janitor_stop = JanitorStop::default();
        let janitor = {
            let (broker, stop) = (Arc::clone(&broker), janitor_stop.clone());
            let janitor = Janitor::new(&broker, broker.clock.now());
            spawn("janitor", move || janitor.run(&broker, &stop))?
        };

        let settings = ReactorSettings::of(&network);
        let (ended, reactor_ended) = mpsc::channel();
        let (mut reactors, mut doors) = (Vec::new(), Vec::new());
        for (index, (poll, inbox)) in (0..).zip(polls) {
            let door = ReactorDoor { inbox: Arc::clone(&inbox), load: Arc::default() };
            let reactor = Reactor::new(
                index,
                Arc::clone(&broker),
                settings,
                poll,
                Arc::clone(&inbox),
                Arc::clone(&door.load),
            );
            let ended = ended.clone();
            let thread = spawn(&format!("reactor-{index}"), move || {
                reactor.run();
                // Nobody listens only if the server is gone.
                ended.send(()).ok();
            })?;
            reactors.push(RunningReactor { inbox, thread });
            doors.push(door);
        }

        let admissions = Admissions::new(connection_limits(&network));
        let doors = Doors { admissions, reactors: doors };
        let (acceptor, acceptor_stop) = Acceptor::new(sockets, socket_settings(&network), doors)?;
        let acceptor = spawn("acceptor", move || acceptor.run())?;
        let (told, ready) = mpsc::channel();
        // Nobody waits if the start was given up.
        broker.readiness.when_ready(move || {
            told.send(()).ok();
        });
        let mut server = Self {
            broker,
            listeners,
            acceptor,
            acceptor_stop,
            reactors,
            reactor_ended,
            control,
            janitor,
            janitor_stop,
            committer,
            mover,
            recovery: None,
            cleaner,
            scrubber,
            store,
            failure,
        };
        if ready.recv_timeout(ELECTION_PATIENCE).is_err() {
            server.kill();
            return Err(StartError::NoController);
        }
        // What it is to recover is here by now.
        server.recovery = start_recovery(&server.broker)?;
        for listener in &server.listeners {
            info!(
                listener = %listener.name,
                bound = %listener.bound,
                advertised = %listener.advertised(),
                "listening"
            );
        }
        Ok(server)
    }

    /// Tells when the broker cannot go on.
    #[must_use]
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// What the handlers share.
    #[must_use]
    pub fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Where clients can connect, in the order of the configuration.
    #[must_use]
    pub fn listeners(&self) -> &[Arc<Listener>] {
        &self.listeners
    }

    /// Stops: has others lead what it leads (for at most half of `bound`), accepts nothing new, answers what is under way for at most `bound`, closes everything.
    pub fn stop(self, bound: Duration) {
        let Self { broker, acceptor, acceptor_stop, reactors, reactor_ended, control, .. } = self;
        let (janitor, janitor_stop, committer) = (self.janitor, self.janitor_stop, self.committer);
        let (mover, cleaner, store) = (self.mover, self.cleaner, self.store);
        let scrubber = self.scrubber;
        broker.partitions.environment().recovery.stop();
        let deadline = broker.clock.now() + bound;
        control.handle.block_on(to_controller::hand_over(&broker, bound / 2));
        acceptor_stop.stop();
        join(acceptor);
        for reactor in &reactors {
            reactor.inbox.send(News::Drain);
        }
        broker.groups.stop();
        let drained = (0..reactors.len())
            .all(|_| reactor_ended.recv_timeout(deadline.since(broker.clock.now())).is_ok());
        if !drained {
            warn!("some connections were cut: their requests took longer than the stop may");
            for reactor in &reactors {
                reactor.inbox.send(News::Stop);
            }
        }
        for reactor in reactors {
            join(reactor.thread);
        }
        broker.cold_reads.stop();
        let broker_epoch = broker.controller.get().map(|controller| {
            control.handle.block_on(controller.stop());
            controller.broker_epoch()
        });
        control.stop();
        broker.partitions.environment().fetchers.stop();
        if let Some(store) = store {
            store.shut_down();
        }
        janitor_stop.stop();
        join(janitor);
        self.recovery.into_iter().for_each(join);
        broker.partitions.environment().mover.stop();
        join(mover);
        broker.cleaners.stop();
        cleaner.into_iter().for_each(join);
        broker.scrubber.stop();
        join(scrubber);
        broker.partitions.environment().committer.stop();
        join(committer);
        broker.partitions.close();
        // Directories whose logs were not all closed cleanly get no marker.
        broker.partitions.environment().logs.close(broker_epoch.map(|epoch| epoch.0));
        info!("stopped");
    }

    /// Ends everything where it stands, as a crash would: nothing is handed over, no log is closed, no
    /// session is ended. What was written stays.
    pub fn kill(self) {
        let Self { broker, acceptor, acceptor_stop, reactors, control, .. } = self;
        control.stop();
        acceptor_stop.stop();
        join(acceptor);
        for reactor in &reactors {
            reactor.inbox.send(News::Stop);
        }
        for reactor in reactors {
            join(reactor.thread);
        }
        broker.cold_reads.stop();
        broker.partitions.environment().fetchers.stop();
        if let Some(store) = self.store {
            store.shut_down();
        }
        broker.partitions.environment().recovery.stop();
        self.recovery.into_iter().for_each(join);
        self.janitor_stop.stop();
        join(self.janitor);
        broker.partitions.environment().mover.stop();
        join(self.mover);
        broker.cleaners.stop();
        self.cleaner.into_iter().for_each(join);
        broker.scrubber.stop();
        join(self.scrubber);
        broker.partitions.environment().committer.stop();
        join(self.committer);
        abandon(&broker);
    }
}

/// A broker that is part of its cluster; what runs of it so far are its control tasks.
pub(crate) struct Assembled {
    pub(crate) broker: Arc<Broker>,
    /// The store, if the broker started it.
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) failure: Failure,
}

/// Opens the logs, joins the cluster and starts the tasks of the control runtime, which `tasks` runs.
///
/// # Errors
/// [`StartError`].
pub(crate) async fn assemble(
    config: BrokerConfig,
    environment: Environment,
    store: StoreChoice,
    tasks: Tasks,
    listeners: &[Arc<Listener>],
    reactors: usize,
) -> Result<Assembled, StartError> {
    let network = config.network.clone();
    let proposer = IsrProposer::default();
    let start = Start { config: &config, environment: &environment, proposer: &proposer };
    // Nobody else can serve what it does not yet.
    let is_alone = matches!(&store, StoreChoice::Configured) && config.zookeeper.is_none();
    let (partitions, store, membership) = match (store, &config.zookeeper) {
        (StoreChoice::Shared(store), _) => {
            let (partitions, _, membership) = start.join(|| Ok(store)).await?;
            (partitions, None, membership)
        }
        (StoreChoice::Ensemble(store), _) => start.join_ensemble(store, "simulated").await?,
        (StoreChoice::Configured, None) => start.join_alone().await?,
        (StoreChoice::Configured, Some(zookeeper)) => {
            let store: Arc<dyn Store> = Arc::new(open_ensemble(zookeeper, &environment)?);
            let hosts = zookeeper.servers.hosts.iter();
            let hosts: Vec<_> = hosts.map(|host| format!("{}:{}", host.name, host.port)).collect();
            start.join_ensemble(store, &hosts.join(",")).await?
        }
    };
    recover(&config, &partitions, &membership, &tasks, is_alone).await?;
    let itself = Arc::new(OnceLock::new());
    let producer_ids = ProducerIds::new(Box::new(ControllerIds {
        control: tasks.clone(),
        broker: Arc::clone(&itself),
    }));
    let groups = Groups::new(
        &config,
        Arc::clone(&environment.clock),
        Arc::clone(&environment.random),
        tasks.clone(),
    );
    let broker = Arc::new(Broker {
        clock: environment.clock,
        random: environment.random,
        disk: environment.disk,
        network: environment.network,
        cluster_id: membership.cluster_id().into(),
        config: ArcSwap::from_pointee(config),
        image: Arc::clone(&partitions.environment().image),
        groups,
        cleaners: Cleaners::default(),
        scrubber: Scrubber::default(),
        partitions,
        cold_reads: ColdReads::default(),
        fetch_sessions: FetchSessions::new(network.fetch_session_cache_slots),
        producer_ids,
        controller: Arc::default(),
        timers: TimerService::new(reactors),
        control: tasks.clone(),
        refusals: Refusals::default(),
        readiness: Readiness::default(),
        told: Control::default(),
        peers: Peers::default(),
        receive_budget: ReceiveBudget::new(
            network.queued_max_request_bytes.map_or(DEFAULT_RECEIVE_BUDGET, |bytes| {
                usize::try_from(bytes).unwrap_or(usize::MAX)
            }),
        ),
    });
    assert!(itself.set(Arc::downgrade(&broker)).is_ok(), "set once, here");
    let (failed, failure) = watch::channel(false);
    start_controller(&tasks, membership, &broker, listeners, failed.clone()).await?;
    tasks.spawn(proposer.run(Arc::downgrade(&broker)));
    let troubles = broker.partitions.environment().troubles.clone();
    watch_log_directories(&broker, failed);
    tasks.spawn(troubles.run(Arc::downgrade(&broker)));
    if broker.config.load().replication.fast_failure_detection {
        tasks.spawn(broker.peers.clone().run(Arc::downgrade(&broker)));
    }
    Ok(Assembled { broker, store, failure: Failure(failure) })
}

/// Has the controller told of log directories that fail. A broker that has none left can do nothing, and ends as Kafka's does:
/// whoever starts it again has the disks looked at anew.
fn watch_log_directories(broker: &Broker, failed: watch::Sender<bool>) {
    let environment = broker.partitions.environment();
    let (troubles, logs) = (environment.troubles.clone(), Arc::downgrade(&environment.logs));
    let look = move || {
        troubles.report();
        let Some(logs) = logs.upgrade() else { return };
        if logs.directories().iter().all(|directory| directory.is_offline())
            && !failed.send_replace(true)
        {
            error!("all log directories have failed: the broker ends");
        }
    };
    environment.logs.on_failure(look);
}

/// Has the logs recovered that need it: those of a broker of a cluster before it registers, those of one that is alone
/// while it serves the others ([`start_recovery`]).
async fn recover(
    config: &BrokerConfig,
    partitions: &Partitions,
    membership: &Membership,
    tasks: &Tasks,
    is_alone: bool,
) -> Result<(), StartError> {
    if is_alone {
        partitions.environment().recovery.expect();
        return Ok(());
    }
    let logs = partitions.take_unrecovered();
    if logs.is_empty() {
        return Ok(());
    }
    let topic = |job: &Job<ClosedLog>| job.log.topic_partition().topic.clone();
    let topics: Vec<_> = logs.iter().map(topic).collect::<BTreeSet<_>>().into_iter().collect();
    let reader = membership.config_reader();
    let configs = reader.topics(&topics).await.map_err(ControllerError::from)?;
    let id = partitions.environment().broker_id;
    let dynamic = reader.broker(id).await.map_err(ControllerError::from)?;
    // What cannot be used of them is told when the broker goes by them.
    let (config, _) = config.with_dynamic(&dynamic.all, &dynamic.own);
    let log_config = |own| Arc::new(config.topic_config(own).log);
    let by_topic: HashMap<_, _> = topics.into_iter().zip(configs.iter().map(log_config)).collect();
    let default = log_config(&BTreeMap::new());
    let settings = move |topic: &TopicName| Arc::clone(by_topic.get(topic).unwrap_or(&default));
    // A simulator has one thread.
    let spawn = matches!(tasks, Tasks::Tokio(_)).then_some(spawn as Spawn);
    partitions.recover(logs, config.log.recovery_threads_per_directory, spawn, settings);
    Ok(())
}

/// Starts the thread that sees to it that logs are recovered while others are served, if there is something to recover.
fn start_recovery(broker: &Arc<Broker>) -> io::Result<Option<JoinHandle<()>>> {
    let recovery = broker.partitions.environment().recovery.clone();
    if !recovery.is_under_way() {
        return Ok(None);
    }
    let threads = broker.config.load().log.recovery_threads_per_directory;
    let (partitions, clock) = (broker.partitions.all(), Arc::clone(&broker.clock));
    spawn("recovery", move || recovery.run(partitions, threads, &clock, spawn)).map(Some)
}

/// Brings `broker` to where a crash would leave it, once nothing of it runs any more: no log is closed, and
/// nothing holds the broker that the broker holds.
pub(crate) fn abandon(broker: &Broker) {
    // Requests that wait hold the broker, which holds them.
    broker.fetch_sessions.abandon();
    broker.partitions.abandon();
    broker.partitions.environment().logs.abandon();
}

/// Locks the log directories and registers the logs that are in them.
fn open_partitions(
    config: &BrokerConfig,
    broker_id: BrokerId,
    environment: &Environment,
    proposer: &IsrProposer,
) -> Result<Partitions, StartError> {
    let Environment { clock, random, disk, network } = environment;
    let (logs, found) = LogDirectories::open(
        Arc::clone(disk),
        Arc::clone(random),
        LogDirectoriesConfig {
            paths: config.log.directories.clone(),
            broker_id,
            max_open_files: MAX_OPEN_SEGMENTS,
            tail_cache_bytes: TAIL_CACHE_BYTES,
            disk_reserve_bytes: config.log.disk_reserve_bytes,
        },
        clock.now(),
    )?;
    let image = Arc::new(ArcSwap::from_pointee(ClusterImage::new()));
    let throttle = |limit| {
        let replication = &config.replication;
        let (windows, window) = (replication.throttle_windows, replication.throttle_window);
        let throttle = ReplicationThrottle::new(windows, window);
        throttle.set_limit(limit);
        throttle
    };
    let follower_throttle = Arc::new(throttle(config.replication.follower_throttled_rate));
    let lease = LeaderLease::new(config.replication.leader_lease, Arc::clone(clock));
    let shared = partition::Environment {
        broker_id,
        lease,
        lag_max: config.replication.lag_time_max,
        unknown_producer_wait: config.replication.unknown_producer_wait,
        logs: Arc::new(logs),
        clock: Arc::clone(clock),
        committer: Committer::default(),
        troubles: LogTroubles::default(),
        lost_offsets: AtomicU64::new(0),
        mover: Mover::default(),
        recovery: Recovery::default(),
        proposals: Box::new(proposer.clone()),
        fetchers: ReplicaFetchers::new(FetcherSettings {
            broker_id,
            broker_epoch: Arc::new(AtomicI64::new(-1)),
            image: Arc::clone(&image),
            listener: config.listeners.inter_broker.clone(),
            replication: config.replication.clone(),
            throttle: Arc::clone(&follower_throttle),
            clock: Arc::clone(clock),
            network: network.clone(),
        }),
        leader_throttle: throttle(config.replication.leader_throttled_rate),
        follower_throttle,
        image,
    };
    Ok(Partitions::new(Arc::new(shared), found))
}

/// What a broker finds its cluster with.
#[derive(Clone, Copy)]
struct Start<'a> {
    config: &'a BrokerConfig,
    environment: &'a Environment,
    proposer: &'a IsrProposer,
}

type Joined = (Partitions, Option<Arc<dyn Store>>, Membership);

impl<'a> Start<'a> {
    /// In a store that is opened once the log directories are known to be this broker's.
    async fn join(
        self,
        open: impl FnOnce() -> Result<Arc<dyn Store>, StartError>,
    ) -> Result<Joined, StartError> {
        // The id that Kafka generates first. It stays: meta.properties remembers it.
        let generated = BrokerId(self.config.node.reserved_broker_max_id.saturating_add(1));
        let broker_id = self.config.node.broker_id.unwrap_or(generated);
        let partitions = self.open_partitions(broker_id)?;
        let store = open()?;
        let logs = &partitions.environment().logs;
        // A store that was lost takes the cluster's id from the log directories.
        let proposed = logs.cluster_id().map_or_else(|| self.random_cluster_id(), str::to_owned);
        let joining = Membership::join(Arc::clone(&store), &proposed);
        let membership = joining.await?;
        logs.set_cluster_id(membership.cluster_id())?;
        Ok((partitions, Some(store), membership))
    }

    /// In a store of its own, whose files are in the first log directory: on the same volume as the data,
    /// where Apache Kafka ignores them.
    async fn join_alone(self) -> Result<Joined, StartError> {
        let directory = self.first_directory();
        let Environment { clock, disk, .. } = self.environment;
        self.join(|| match LocalStore::open(Arc::clone(disk), directory, Arc::clone(clock)) {
            Ok(store) => Ok(Arc::new(store)),
            Err(source) => Err(StartError::Store { directory: directory.to_owned(), source }),
        })
        .await
    }

    /// In ZooKeeper.
    ///
    /// The cluster's id is never proposed from the log directories: an ensemble that knows nothing is not
    /// the one that these logs belong to, and what it does not know of would be taken for left over.
    async fn join_ensemble(
        self,
        store: Arc<dyn Store>,
        servers: &str,
    ) -> Result<Joined, StartError> {
        let disk = &self.environment.disk;
        let proposed = self.random_cluster_id();
        let joining = Membership::join(Arc::clone(&store), &proposed);
        let mut membership = joining
            .await
            .map_err(|source| StartError::ZooKeeper { servers: servers.to_owned(), source })?;
        let recorded = || LogDirectories::recorded_broker_id(&**disk, &self.config.log.directories);
        let broker_id = match self.config.node.broker_id {
            Some(configured) => configured,
            None => match recorded()? {
                Some(recorded) => recorded,
                None => {
                    let reserved = self.config.node.reserved_broker_max_id;
                    membership.generate_broker_id(reserved).await?
                }
            },
        };
        let partitions = self.open_partitions(broker_id)?;
        partitions.environment().logs.set_cluster_id(membership.cluster_id())?;
        let sessions = SessionFile::new(Arc::clone(disk), self.first_directory());
        membership.remember_sessions(Arc::new(sessions));
        let directory = self.first_directory();
        let epochs = EpochFile::open(Arc::clone(disk), directory, membership.cluster_id());
        membership.remember_epochs(Arc::new(epochs));
        Ok((partitions, Some(store), membership))
    }

    fn open_partitions(self, broker_id: BrokerId) -> Result<Partitions, StartError> {
        open_partitions(self.config, broker_id, self.environment, self.proposer)
    }

    fn first_directory(self) -> &'a Path {
        self.config.log.directories.first().expect("`log.dirs` is never empty")
    }

    /// A random UUID (version 4), as Kafka's cluster ids are.
    fn random_cluster_id(self) -> String {
        let mut id = [0; 16];
        self.environment.random.fill(&mut id);
        id[6] = id[6] & 0x0f | 0x40;
        id[8] = id[8] & 0x3f | 0x80;
        TopicId(id).to_string()
    }
}

/// The store in ZooKeeper; nothing is connected to before a session is opened.
pub(crate) fn open_ensemble(
    settings: &ZooKeeperSettings,
    environment: &Environment,
) -> Result<ZooKeeperStore, StartError> {
    let store_config = ZooKeeperConfig {
        servers: settings.servers.clone(),
        settings: zookeeper::Settings {
            session_timeout: settings.session_timeout,
            connection_timeout: settings.connection_timeout,
            max_in_flight: settings.max_in_flight,
            login: settings.login.clone(),
            tls: settings.connector()?,
            ..zookeeper::Settings::default()
        },
        protect: settings.set_acl,
    };
    let clock = Arc::clone(&environment.clock);
    let world = zookeeper::Environment { clock, random: Arc::clone(&environment.random) };
    Ok(ZooKeeperStore::start(store_config, world)?)
}

/// Registers the broker and takes part in the election.
async fn start_controller(
    tasks: &Tasks,
    membership: Membership,
    broker: &Arc<Broker>,
    listeners: &[Arc<Listener>],
    failed: watch::Sender<bool>,
) -> Result<(), StartError> {
    let config = broker.config.load_full();
    let settings = ControllerSettings {
        broker: registration(broker, &config, listeners),
        inter_broker_listener: config.listeners.inter_broker.clone(),
        num_partitions: config.topics.num_partitions,
        default_replication_factor: config.topics.default_replication_factor,
        placement: match config.topics.placement {
            ReplicaPlacement::Kafka => Placement::Kafka,
            ReplicaPlacement::Classic => Placement::Classic,
        },
        unclean_leader_election: config.controller.unclean_leader_election,
        min_insync_replicas: config.topic_config(&BTreeMap::new()).min_insync_replicas,
        delete_topics: config.topics.deletion,
        auto_leader_rebalance: config.controller.auto_leader_rebalance,
        leader_imbalance_percentage: config.controller.leader_imbalance_per_broker_percentage,
        leader_imbalance_interval: config.controller.leader_imbalance_check_interval,
        fast_failure_detection: config.replication.fast_failure_detection,
        log_doubt: log_doubt(&broker.partitions.environment().logs),
        unclean_restart_wait: config.controller.unclean_restart_wait,
        reconcile_interval: config.controller.reconcile_interval,
    };
    broker.told.set_config_reader(membership.config_reader());
    broker.told.remember_epochs(membership.epoch_record());
    broker.partitions.environment().lease.set_session(membership.session_reader());
    broker.told.expect_topics(membership.has_topics().await?);
    let rules = {
        let broker = Arc::downgrade(broker);
        DefinedRules::new(move || {
            broker.upgrade().map_or_else(|| Arc::clone(&config), |b| b.config.load_full())
        })
    };
    let surroundings = Surroundings {
        channels: Arc::new(Channels::new(broker)),
        configs: Arc::new(DynamicSettings::new(broker)),
        rules: Arc::new(rules),
        broker_epoch: Arc::clone(broker.partitions.environment().fetchers.broker_epoch()),
        registration: Arc::new(broker.partitions.environment().lease.clone()),
        cluster: Arc::new(LastImage(Arc::clone(&broker.image))),
        clock: Arc::clone(&broker.clock),
        random: Arc::clone(&broker.random),
    };
    let (handle, driver) = membership.start(settings, surroundings).await?;
    // Before anybody can say what this broker hosts.
    broker.partitions.environment().logs.registered(handle.broker_epoch().0);
    assert!(broker.controller.set(handle).is_ok(), "a broker has one controller");
    tasks.spawn(async move {
        if let Err(error) = driver.run().await {
            error!(%error, "the controller has failed: nothing can be changed any more, so the broker ends");
            failed.send_replace(true);
        }
    });
    Ok(())
}

/// What this broker's logs may lack of what it had before its start.
fn log_doubt(logs: &LogDirectories) -> Option<LogDoubt> {
    if logs.may_lack_records() {
        warn!(
            "the system was started anew since this broker ran, and it was not stopped: its logs may lack their last records, so it leads nothing that others can"
        );
        return Some(LogDoubt::Unclean);
    }
    logs.may_lack_logs().then_some(LogDoubt::Incomplete)
}

/// What this broker serves its clients, for the controller's part of it.
#[derive(Debug)]
struct LastImage(Arc<ArcSwap<ClusterImage>>);

impl ClusterView for LastImage {
    fn live_brokers(&self) -> BTreeSet<BrokerId> {
        self.0.load().brokers().map(|broker| broker.id).collect()
    }
}

/// What the cluster is told of this broker.
fn registration(
    broker: &Broker,
    config: &BrokerConfig,
    listeners: &[Arc<Listener>],
) -> BrokerImage {
    let endpoints = config
        .listeners
        .all
        .iter()
        .zip(listeners)
        .filter(|(configured, _)| configured.advertised.is_some())
        .map(|(configured, listener)| Endpoint {
            listener: listener.name.clone(),
            host: listener.advertised_host.clone(),
            port: i32::from(listener.advertised_port),
            security_protocol: match configured.protocol {
                config::SecurityProtocol::Plaintext => SecurityProtocol::Plaintext,
                config::SecurityProtocol::Ssl => SecurityProtocol::Ssl,
                config::SecurityProtocol::SaslPlaintext => SecurityProtocol::SaslPlaintext,
                config::SecurityProtocol::SaslSsl => SecurityProtocol::SaslSsl,
            },
        })
        .collect();
    BrokerImage {
        id: broker.partitions.environment().broker_id,
        rack: config.node.rack.clone(),
        endpoints,
    }
}

/// Asks the controller for producer ids, once one is known.
#[derive(Debug)]
struct ControllerIds {
    control: Tasks,
    /// The broker holds this.
    broker: Arc<OnceLock<Weak<Broker>>>,
}

impl ProducerIdSource for ControllerIds {
    fn request(&self, done: Box<dyn FnOnce(Option<ProducerIdBlock>) + Send>) {
        let Some(broker) = self.broker.get().and_then(Weak::upgrade) else { return done(None) };
        self.control.spawn(async move {
            let block = match to_controller::allocate_producer_ids(&broker).await {
                Ok(answer) if answer.error_code == 0 => Some(ProducerIdBlock {
                    first: answer.producer_id_start,
                    count: answer.producer_id_len.into(),
                }),
                Ok(answer) => {
                    debug!(code = answer.error_code, "the controller gives no producer ids");
                    None
                }
                Err(error) => {
                    debug!(%error, "no producer ids");
                    None
                }
            };
            done(block);
        });
    }
}

pub(crate) fn reactor_count(config: &BrokerConfig) -> usize {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    config.network.reactors.unwrap_or_else(cores).clamp(1, usize::from(u16::MAX))
}

fn socket_settings(network: &crate::config::NetworkSettings) -> SocketSettings {
    SocketSettings {
        send_buffer_bytes: network.send_buffer_bytes,
        receive_buffer_bytes: network.receive_buffer_bytes,
        backlog: network.listen_backlog,
    }
}

type OpenSocket = (TcpListener, Arc<Listener>);

/// Opens all listening sockets, so that ports are known before anybody is told of them.
fn open_listeners(
    config: &BrokerConfig,
) -> Result<(Vec<OpenSocket>, Vec<Arc<Listener>>), StartError> {
    let mut sockets = Vec::new();
    let mut listeners = Vec::new();
    for listener in &config.listeners.all {
        let host = listener.host.as_deref();
        let opened = addresses(host, listener.port).and_then(|addresses| {
            let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
            for address in addresses {
                match bind(address, socket_settings(&config.network)) {
                    Ok(socket) => return Ok((socket.local_addr()?, socket)),
                    Err(error) => failure = error,
                }
            }
            Err(failure)
        });
        let (bound, socket) = opened.map_err(|source| StartError::Listen {
            listener: listener.name.clone(),
            address: format!("{}:{}", host.unwrap_or("*"), listener.port),
            source,
        })?;
        let advertised = listener.advertised.as_ref();
        let host = advertised.and_then(|to| to.host.clone()).unwrap_or_else(host_name);
        let port = advertised.map(|to| to.port).filter(|&port| port != 0).unwrap_or(bound.port());
        let listener = Arc::new(Listener {
            name: listener.name.clone(),
            bound,
            advertised_host: host,
            advertised_port: port,
        });
        sockets.push((socket, Arc::clone(&listener)));
        listeners.push(listener);
    }
    Ok((sockets, listeners))
}

/// The addresses of a listener's host; all of them, IPv6 and IPv4, if it has none.
fn addresses(host: Option<&str>, port: u16) -> io::Result<Vec<SocketAddr>> {
    match host {
        None => Ok(vec![
            (Ipv6Addr::UNSPECIFIED, port).into(),
            // Where the system has no IPv6.
            (Ipv4Addr::UNSPECIFIED, port).into(),
        ]),
        Some(host) => Ok((host, port).to_socket_addrs()?.collect()),
    }
}

/// This machine's name, for listeners without a host.
fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// How many connections there may be, as `network` says.
pub(crate) fn connection_limits(network: &config::NetworkSettings) -> ConnectionLimits {
    ConnectionLimits {
        total: network.max_connections,
        per_ip: network.max_connections_per_ip,
        per_ip_overrides: resolve_overrides(&network.max_connections_per_ip_overrides),
    }
}

fn resolve_overrides(
    overrides: &std::collections::BTreeMap<String, usize>,
) -> HashMap<IpAddr, usize> {
    let mut resolved = HashMap::new();
    for (host, &limit) in overrides {
        match (host.as_str(), 0).to_socket_addrs() {
            Ok(addresses) => {
                resolved.extend(addresses.map(|address| (address.ip().to_canonical(), limit)));
            }
            Err(error) => {
                warn!(host, %error, "max.connections.per.ip.overrides: the host is unknown");
            }
        }
    }
    resolved
}

/// Every connection and every open segment is a descriptor: take what the system allows.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        warn!(%error, "the limit of open files stays as it is");
    }
}

/// The thread of everything that is not on the data path.
#[derive(Debug)]
struct ControlThread {
    handle: tokio::runtime::Handle,
    stop: tokio::sync::oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

/// How long the control runtime's blocking calls may go on after its stop.
const CONTROL_GRACE: Duration = Duration::from_secs(1);

impl ControlThread {
    fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let thread = spawn("control", move || {
            // A dropped sender means stop too.
            drop(runtime.block_on(stopped));
            runtime.shutdown_timeout(CONTROL_GRACE);
        })?;
        Ok(Self { handle, stop, thread })
    }

    fn stop(self) {
        drop(self.stop);
        join(self.thread);
    }
}

/// Starts a thread of this name, as [`spawn`] does.
pub(crate) type Spawn = fn(&str, Box<dyn FnOnce() + Send>) -> io::Result<JoinHandle<()>>;

/// A thread whose panic is the process's end: a broken invariant must not go on serving.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    struct AbortOnPanic;
    impl Drop for AbortOnPanic {
        fn drop(&mut self) {
            if thread::panicking() {
                error!("a broken invariant: the broker stops at once rather than serve wrong data");
                std::process::abort();
            }
        }
    }
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        let guard = AbortOnPanic;
        run();
        drop(guard);
    })
}

fn join(thread: JoinHandle<()>) {
    thread.join().expect("a panic would have ended the process");
}
