//! A broker as tasks of a simulator's scheduler: what [`crate::server::Server`] starts as threads.
//!
//! Nothing here starts a thread, opens a socket or waits for real time, so that several brokers run in one
//! thread on virtual time (decision 17 in `docs/decisions`).

use crate::Broker;
use crate::config::BrokerConfig;
use crate::inbox::News;
use crate::janitor::Janitor;
use crate::listener::{Admissions, Doors, Listener, ReactorDoor};
use crate::partition::ReplicaView;
use crate::reactor::{Reactor, ReactorSettings};
use crate::server::{self, Assembled, Environment, Failure, StartError, StoreChoice};
use crate::stream::{Stream, VirtualStream};
use crate::to_controller;
use bytes::Bytes;
use controller::ControllerHandle;
use coordination::Store;
use model::{BrokerEpoch, BrokerId, LeaderEpoch, Offset, PartitionEpoch, TopicPartition};
use platform::Tasks;
use platform::network::ByteStream;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How often a stop looks whether its connections have ended.
const LOOK: Duration = Duration::from_millis(10);

/// A broker whose tasks a simulator runs.
#[derive(Debug)]
pub struct SteppedBroker {
    broker: Arc<Broker>,
    listeners: Vec<Arc<Listener>>,
    doors: Doors,
    failure: Failure,
}

impl SteppedBroker {
    /// Starts a broker of the cluster whose metadata are in `store`, which outlives its brokers as ZooKeeper
    /// does. Hosts of listeners are addresses. It runs on `tasks`, with as many reactors as
    /// `barnabas.reactors` says, or one.
    ///
    /// # Errors
    /// [`StartError`]; then the simulator drops what `tasks` runs.
    pub async fn start(
        config: BrokerConfig,
        environment: Environment,
        store: Arc<dyn Store>,
        tasks: Tasks,
    ) -> Result<Self, StartError> {
        let listeners = listeners(&config);
        let network = config.network.clone();
        let opened: Vec<_> =
            (0..network.reactors.unwrap_or(1)).map(|_| Reactor::open_virtual()).collect();
        let store = StoreChoice::Ensemble(store);
        let assembling =
            server::assemble(config, environment, store, tasks.clone(), &listeners, opened.len());
        let Assembled { broker, failure, .. } = assembling.await?;
        tasks.spawn(flush(Arc::clone(&broker)));
        tasks.spawn(move_logs(Arc::clone(&broker)));
        tasks.spawn(tidy_up(Arc::clone(&broker)));
        if broker.config.load().log.cleaner.enabled {
            tasks.spawn(clean(Arc::clone(&broker)));
        }
        let mut reactors = Vec::new();
        for (index, (watch, inbox)) in (0..).zip(opened) {
            let door = ReactorDoor { inbox: Arc::clone(&inbox), load: Arc::default() };
            let reactor = Reactor::new(
                index,
                Arc::clone(&broker),
                ReactorSettings::of(&network),
                watch,
                inbox,
                Arc::clone(&door.load),
            );
            tasks.spawn(reactor.run_as_task());
            reactors.push(door);
        }
        let admissions = Admissions::new(server::connection_limits(&network));
        Ok(Self { broker, listeners, doors: Doors { admissions, reactors }, failure })
    }

    /// A client has connected, to the first listener.
    pub fn accept(&self, bytes: Box<dyn ByteStream>, peer: SocketAddr) {
        let listener = self.listeners.first().expect("a broker has a listener");
        self.doors.let_in(Stream::Virtual(VirtualStream::new(bytes)), peer, listener);
    }

    /// What the handlers share.
    #[must_use]
    pub fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Tells when the broker cannot go on.
    #[must_use]
    pub fn failure(&self) -> Failure {
        self.failure.clone()
    }

    /// Whether the controller has told it of its cluster.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.broker.readiness.is_ready()
    }

    /// The epoch of its registration; -1 while it has none.
    #[must_use]
    pub fn broker_epoch(&self) -> BrokerEpoch {
        BrokerEpoch(self.broker.partitions.environment().fetchers.current_broker_epoch())
    }

    /// What it is to the partitions that are here, by name.
    #[must_use]
    pub fn replicas(&self) -> Vec<(TopicPartition, ReplicaView)> {
        let all = self.broker.partitions.all();
        all.iter().map(|partition| (partition.topic_partition(), partition.view())).collect()
    }

    /// What it is to one partition; `None` if that is not here.
    #[must_use]
    pub fn replica(&self, partition: &TopicPartition) -> Option<ReplicaView> {
        let partition = self.broker.partitions.find(&partition.topic, partition.partition)?;
        Some(partition.view())
    }

    /// What it tells clients of a partition: the leader, its epoch, and the version of the state. `None` if it
    /// knows of none.
    #[must_use]
    pub fn told(
        &self,
        topic: &str,
        partition: i32,
    ) -> Option<(Option<BrokerId>, LeaderEpoch, PartitionEpoch)> {
        let image = self.broker.image.load();
        let told = image.partition(topic, partition)?;
        Some((told.leader, told.leader_epoch, told.partition_epoch))
    }

    /// What a replica's log holds: the batches from the one with `from` on, as far as they begin below `to` and
    /// about `max_bytes` of them. `None` if the log is not open or cannot be read there.
    #[must_use]
    pub fn batches(
        &self,
        partition: &TopicPartition,
        from: Offset,
        to: Offset,
        max_bytes: usize,
    ) -> Option<Bytes> {
        let partition = self.broker.partitions.find(&partition.topic, partition.partition)?;
        partition.batches(from, to, max_bytes)
    }

    /// What a replica's log knows of producers: ids, epochs, and last sequences. `None` if it is not open.
    #[must_use]
    pub fn producers(&self, partition: &TopicPartition) -> Option<Vec<(i64, i16, i32)>> {
        let partition = self.broker.partitions.find(&partition.topic, partition.partition)?;
        partition.remembered_producers()
    }

    /// Stops as [`crate::server::Server::stop`] does; what `tasks` runs of it is to be dropped after that.
    pub async fn stop(&self, bound: Duration) {
        let broker = &self.broker;
        let deadline = broker.clock.now() + bound;
        to_controller::hand_over(broker, bound / 2).await;
        for door in &self.doors.reactors {
            door.inbox.send(News::Drain);
        }
        broker.groups.stop();
        let is_busy = |door: &ReactorDoor| door.load.load(Ordering::Relaxed) > 0;
        while broker.clock.now() < deadline && self.doors.reactors.iter().any(is_busy) {
            tokio::time::sleep(LOOK).await;
        }
        if let Some(controller) = broker.controller.get() {
            controller.stop().await;
        }
        let broker_epoch = broker.controller.get().map(ControllerHandle::broker_epoch);
        let environment = broker.partitions.environment();
        environment.fetchers.stop();
        broker.cleaners.stop();
        environment.committer.run_once();
        broker.partitions.close();
        environment.logs.close(broker_epoch.map(|epoch| epoch.0));
    }

    /// Leaves everything as a crash would, once nothing of it runs any more.
    pub fn abandon(self) {
        server::abandon(&self.broker);
    }
}

/// The listeners as configured: nothing is bound.
fn listeners(config: &BrokerConfig) -> Vec<Arc<Listener>> {
    let listener = |configured: &crate::config::Listener| {
        let ip = configured.host.as_deref().and_then(|host| host.parse().ok());
        let ip = ip.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        Arc::new(Listener {
            name: configured.name.clone(),
            bound: SocketAddr::new(ip, configured.port),
            advertised_host: ip.to_string(),
            advertised_port: configured.port,
        })
    };
    config.listeners.all.iter().map(listener).collect()
}

async fn flush(broker: Arc<Broker>) {
    let committer = broker.partitions.environment().committer.clone();
    loop {
        committer.wait().await;
        committer.run_once();
    }
}

async fn move_logs(broker: Arc<Broker>) {
    let mover = broker.partitions.environment().mover.clone();
    loop {
        mover.wait().await;
        mover.run_once();
    }
}

async fn tidy_up(broker: Arc<Broker>) {
    let mut janitor = Janitor::new(&broker, broker.clock.now());
    loop {
        let next = janitor.run_due(&broker, broker.clock.now());
        tokio::time::sleep(next.since(broker.clock.now())).await;
    }
}

async fn clean(broker: Arc<Broker>) {
    loop {
        let next = broker.cleaners.clean_once(&broker);
        tokio::time::sleep(next.since(broker.clock.now())).await;
    }
}
