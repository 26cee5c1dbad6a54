//! Several brokers in this process over one store: each has its own directory, threads and sockets.

#![allow(dead_code, reason = "each test file uses what it needs of this")]

use broker::config::BrokerConfig;
use broker::server::{Environment, Server};
use client::{Connection, ConnectionOptions};
use coordination::local::LocalStore;
use coordination::{Events, Lease, Opening, Pending, Reply, Request};
use coordination::{Session, SessionHandle, SessionId, Store};
use model::{Instant, Timestamp};
use platform::clock::SystemClock;
use platform::{Clock, MemoryDisk};
use protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use protocol::messages::metadata_response::MetadataResponsePartition;
use protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use protocol::messages::{CreateTopicsRequest, MetadataRequest, ProduceRequest};
use protocol::records::RecordBatchBuilder;
use protocol::{ErrorCode, Records};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Tests wait this long for what comes soon.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A clock that has run for an hour already: what it calls zero is long ago.
#[derive(Debug, Default)]
struct Aged(SystemClock);

impl Clock for Aged {
    fn now(&self) -> Instant {
        self.0.now() + Duration::from_secs(3600)
    }

    fn timestamp(&self) -> Timestamp {
        self.0.timestamp()
    }
}

/// Brokers that share a store.
pub(crate) struct Cluster {
    store: Arc<LocalStore>,
    observer: SessionHandle,
    settings: Vec<(String, String)>,
    nodes: BTreeMap<i32, Node>,
    runtime: tokio::runtime::Runtime,
}

struct Node {
    directory: tempfile::TempDir,
    sessions: Arc<Sessions>,
    server: Option<Server>,
}

/// A broker's way to the store; remembers its sessions, so that a test can end them.
#[derive(Debug)]
struct Sessions {
    store: Arc<LocalStore>,
    opened: Arc<Mutex<Vec<SessionHandle>>>,
    /// How long its sessions say that they can be relied on.
    lease: Arc<Mutex<Option<Lease>>>,
}

/// A session that says of itself what a test wants.
#[derive(Debug)]
struct Held {
    session: SessionHandle,
    lease: Arc<Mutex<Option<Lease>>>,
}

impl Session for Held {
    fn id(&self) -> SessionId {
        self.session.id()
    }

    fn submit(&self, request: Request) -> Pending {
        match request {
            Request::Write(ops) => {
                let written = self.session.multi(ops);
                Box::pin(async move { written.await.map(Reply::Written) })
            }
            Request::Read(reads) => {
                let found = self.session.read_all(reads);
                Box::pin(async move { found.await.map(Reply::Read) })
            }
            Request::Close => {
                let session = self.session.clone();
                Box::pin(async move { session.close().await.map(|()| Reply::Closed) })
            }
        }
    }

    fn lease(&self) -> Option<Lease> {
        *self.lease.lock().unwrap()
    }
}

impl Store for Sessions {
    fn open_session(&self) -> Opening {
        let opening = self.store.open_session();
        let (opened, lease) = (Arc::clone(&self.opened), Arc::clone(&self.lease));
        Box::pin(async move {
            let (session, events) = opening.await?;
            opened.lock().unwrap().push(session.clone());
            Ok((SessionHandle::new(Arc::new(Held { session, lease })), events))
        })
    }

    fn shut_down(&self) {
        // The others go on with it.
    }
}

impl Cluster {
    /// Brokers `1..=count`, all with `settings`, once every one of them serves.
    pub(crate) fn start(count: i32, settings: &[(&str, &str)]) -> Self {
        let mut cluster = Self::without_brokers(settings);
        (1..=count).for_each(|id| cluster.start_broker(id));
        cluster
    }

    /// A store, and nobody there yet.
    pub(crate) fn without_brokers(settings: &[(&str, &str)]) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let clock = Arc::new(SystemClock::new());
        let disk = Arc::new(MemoryDisk::new());
        let store = Arc::new(LocalStore::open_inline(disk, Path::new("/store"), clock).unwrap());
        let (observer, _) = runtime.block_on(store.open_session()).unwrap();
        let settings = settings.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
        Self { store, observer, settings, nodes: BTreeMap::new(), runtime }
    }

    /// Starts a broker, or starts one again in its directory.
    pub(crate) fn start_broker(&mut self, id: i32) {
        self.start_broker_with(id, &[]);
    }

    /// As [`Self::start_broker`] with settings of its own.
    pub(crate) fn start_broker_with(&mut self, id: i32, settings: &[(&str, &str)]) {
        let (config, environment, store) = self.prepare_broker(id, settings);
        self.adopt_broker(id, Server::start_on(config, environment, store).unwrap());
    }

    /// A broker that was started from what [`Self::prepare_broker`] made.
    pub(crate) fn adopt_broker(&mut self, id: i32, server: Server) {
        self.nodes.get_mut(&id).expect("prepared").server = Some(server);
    }

    /// What a broker is started from.
    pub(crate) fn prepare_broker(
        &mut self,
        id: i32,
        settings: &[(&str, &str)],
    ) -> (BrokerConfig, Environment, Arc<dyn Store>) {
        let node = self.nodes.entry(id).or_insert_with(|| Node {
            directory: tempfile::tempdir().unwrap(),
            sessions: Arc::new(Sessions {
                store: Arc::clone(&self.store),
                opened: Arc::default(),
                lease: Arc::default(),
            }),
            server: None,
        });
        assert!(node.server.is_none(), "broker {id} runs");
        let mut overrides: Vec<(String, String)> = [
            ("listeners", "PLAINTEXT://127.0.0.1:0"),
            ("broker.id", &id.to_string()),
            ("log.dirs", node.directory.path().to_str().unwrap()),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        overrides.extend(self.settings.iter().cloned());
        overrides.extend(settings.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())));
        let config = BrokerConfig::load(None, &overrides).unwrap().config;
        let environment = Environment { clock: Arc::new(Aged::default()), ..Environment::real() };
        let store = Arc::clone(&node.sessions) as _;
        (config, environment, store)
    }

    /// Stops a broker as SIGTERM does.
    pub(crate) fn stop_broker(&mut self, id: i32) {
        self.take(id).stop(Duration::from_secs(20));
    }

    /// Ends a broker where it stands; its session on the store lives on.
    pub(crate) fn crash_broker(&mut self, id: i32) {
        self.take(id).kill();
    }

    /// Ends a broker where it stands, and then its session, as the store does after its timeout.
    pub(crate) fn kill_broker(&mut self, id: i32) {
        self.crash_broker(id);
        self.expire_session(id);
    }

    /// Ends the sessions of a broker on the store, whether it runs or not.
    pub(crate) fn expire_session(&self, id: i32) {
        let sessions = std::mem::take(&mut *self.nodes[&id].sessions.opened.lock().unwrap());
        for session in sessions {
            // One that has ended already is answered so.
            let _ = self.runtime.block_on(session.close());
        }
    }

    /// What a broker's session says of how long it can be relied on, from now on.
    pub(crate) fn set_lease(&self, id: i32, lease: Option<Lease>) {
        *self.nodes[&id].sessions.lease.lock().unwrap() = lease;
    }

    fn take(&mut self, id: i32) -> Server {
        self.nodes.get_mut(&id).and_then(|node| node.server.take()).expect("the broker runs")
    }

    /// A broker that runs.
    pub(crate) fn server(&self, id: i32) -> &Server {
        self.nodes[&id].server.as_ref().expect("the broker runs")
    }

    /// The directory of a broker.
    pub(crate) fn directory(&self, id: i32) -> &Path {
        self.nodes[&id].directory.path()
    }

    /// The brokers that run.
    pub(crate) fn running(&self) -> Vec<i32> {
        self.nodes.iter().filter(|(_, node)| node.server.is_some()).map(|(&id, _)| id).collect()
    }

    /// A session on the store that belongs to nobody.
    pub(crate) fn observer(&self) -> &SessionHandle {
        &self.observer
    }

    /// A new session on the store, and what it is told.
    pub(crate) fn session(&self) -> (SessionHandle, Events) {
        self.block_on(self.store.open_session()).unwrap()
    }

    /// The text in a node; `None` if there is no such node.
    pub(crate) fn text(&self, path: &str) -> Option<String> {
        let (data, _) = self.block_on(self.observer.get(path, false)).ok()?;
        Some(String::from_utf8(data.unwrap_or_default().to_vec()).unwrap())
    }

    /// The id of the controller, as the store has it.
    pub(crate) fn controller(&self) -> Option<i32> {
        let text = self.text("/controller")?;
        let (_, rest) = text.split_once(r#""brokerid":"#)?;
        rest.split(',').next()?.parse().ok()
    }

    /// Waits until `condition` holds.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let clock = SystemClock::new();
        let deadline = clock.now() + PATIENCE;
        while !condition() {
            assert!(clock.now() < deadline, "never came true: {what}");
            std::thread::yield_now();
        }
    }

    /// Runs a future on a runtime of the test's own.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// A connection to a broker.
    pub(crate) fn connect(&self, id: i32) -> Connection {
        let address = self.server(id).listeners()[0].bound.to_string();
        self.block_on(Connection::connect(&address, ConnectionOptions::default())).unwrap()
    }

    /// Asks a broker in a version that nobody negotiated, as controllers do.
    pub(crate) fn tell<R: protocol::Request>(
        &self,
        id: i32,
        request: &R,
        version: i16,
    ) -> R::Response {
        let connection = self.connect(id);
        self.block_on(connection.send_in_version(request, version)).unwrap()
    }

    /// The epoch of a broker's registration.
    pub(crate) fn broker_epoch(&self, id: i32) -> Option<i64> {
        let path = format!("/brokers/ids/{id}");
        let stat = self.block_on(self.observer.exists(&path, false)).unwrap()?;
        Some(stat.czxid.0)
    }

    /// Asks a broker by a connection of its own, in the newest version that it serves.
    pub(crate) fn ask<R: protocol::Request>(&self, id: i32, request: &R) -> R::Response {
        let connection = self.connect(id);
        self.block_on(connection.send(request)).unwrap()
    }

    /// Has the controller create a topic, as soon as it can.
    pub(crate) fn create(&self, topic: CreatableTopic) {
        let request =
            CreateTopicsRequest { topics: vec![topic], timeout_ms: 20_000, ..Default::default() };
        self.until("the topic is created", || {
            let Some(controller) = self.controller() else { return false };
            let response = self.ask(controller, &request);
            let code = ErrorCode::from_code(response.topics[0].error_code).unwrap();
            matches!(code, ErrorCode::None | ErrorCode::TopicAlreadyExists)
        });
    }

    /// What broker `id` says of a partition.
    pub(crate) fn partition(
        &self,
        id: i32,
        topic: &str,
        index: i32,
    ) -> Option<MetadataResponsePartition> {
        let response = self.ask(id, &MetadataRequest { topics: None, ..Default::default() });
        let topic = response.topics.into_iter().find(|t| t.name.as_deref() == Some(topic))?;
        topic.partitions.into_iter().find(|p| p.partition_index == index)
    }

    /// Leader, leader epoch and ISR of a partition, as broker `id` has them.
    pub(crate) fn state(&self, id: i32, topic: &str, index: i32) -> Option<(i32, i32, Vec<i32>)> {
        let found = self.partition(id, topic, index)?;
        Some((found.leader_id, found.leader_epoch, found.isr_nodes))
    }

    /// The code and the offset of an append.
    pub(crate) fn produce(&self, id: i32, request: &ProduceRequest) -> (ErrorCode, i64) {
        let connection = self.connect(id);
        let (response, _) = self.block_on(connection.send_at_most(request, 12)).unwrap();
        let partition = &response.responses[0].partition_responses[0];
        (ErrorCode::from_code(partition.error_code).unwrap(), partition.base_offset)
    }
}

/// A topic of one partition with these replicas, the first of which leads.
pub(crate) fn assigned(topic: &str, replicas: &[i32]) -> CreatableTopic {
    CreatableTopic {
        name: topic.into(),
        num_partitions: -1,
        replication_factor: -1,
        assignments: vec![CreatableReplicaAssignment {
            partition_index: 0,
            broker_ids: replicas.to_vec(),
        }],
        ..Default::default()
    }
}

/// Settings of a topic that is to be created.
pub(crate) fn topic_configs(configs: &[(&str, &str)]) -> Vec<CreatableTopicConfig> {
    let configs = configs.iter();
    configs
        .map(|&(name, value)| CreatableTopicConfig { name: name.into(), value: Some(value.into()) })
        .collect()
}

/// A batch of records without keys.
pub(crate) fn batch(values: &[&[u8]]) -> Records {
    let mut builder = RecordBatchBuilder::new();
    for value in values {
        builder.append(None, None, Some(value)).unwrap();
    }
    Records::from(builder.build().unwrap())
}

/// An append of `records` to one partition.
pub(crate) fn produce_request(
    topic: &str,
    index: i32,
    acks: i16,
    timeout_ms: i32,
    records: Records,
) -> ProduceRequest {
    let topic = TopicProduceData {
        name: topic.into(),
        partition_data: vec![PartitionProduceData { index, records: Some(records) }],
        ..Default::default()
    };
    ProduceRequest { acks, timeout_ms, topic_data: vec![topic], ..Default::default() }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for id in self.running() {
            self.crash_broker(id);
        }
    }
}
