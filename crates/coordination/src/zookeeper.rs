//! A store that several brokers share: a ZooKeeper ensemble.
//!
//! The sessions of a store run on a thread of their own, so that nothing that a broker is busy with holds up
//! their heart-beats.

use crate::{
    Change, CreateMode, Event, Kind, Lease, Op, OpResult, Opening, Pending, ReadResult, Reply,
    Request, Session, SessionHandle, SessionId, Stat, Store, StoreError, Zxid,
};
use ::zookeeper::{
    Acl, Answer, Call, Client, ConnectString, Environment, Error, OnEvent, Refusal, Settings,
};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime;
use tokio::sync::{mpsc, oneshot};

/// How long the thread's last calls (looking up a name) may go on.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Nodes below these may hold secrets. Source: Kafka's `ZkData.SensitiveRootPaths`.
const SENSITIVE: [&str; 3] = ["/config/users", "/config/brokers", "/delegation_token/tokens"];
/// Written by clients of Kafka 0.8, which have no rights of their own: open to everybody, always.
const CONSUMERS: &str = "/consumers";

/// What the store is and how it is talked to.
#[derive(Clone, Debug)]
pub struct ZooKeeperConfig {
    /// The ensemble's servers, and the node that all paths are below of (created if it is missing).
    pub servers: ConnectString,
    /// Timeouts, limits, and whom to authenticate as.
    pub settings: Settings,
    /// Whether nodes are created so that only those who authenticate as this broker does may change them
    /// (`zookeeper.set.acl`).
    pub protect: bool,
}

/// The store.
#[derive(Debug)]
pub struct ZooKeeperStore {
    shared: Arc<Shared>,
    runtime: runtime::Handle,
    thread: Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>,
}

#[derive(Debug)]
struct Shared {
    config: ZooKeeperConfig,
    environment: Environment,
    has_chroot: AtomicBool,
    is_shut_down: AtomicBool,
}

impl ZooKeeperStore {
    /// Starts the store's thread; nothing is connected to before a session is opened.
    ///
    /// # Errors
    /// The system's, if it refuses a thread.
    pub fn start(config: ZooKeeperConfig, environment: Environment) -> io::Result<Self> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::Builder::new().name("zookeeper".into()).spawn(move || {
            // A dropped sender means stop too.
            drop(runtime.block_on(stopped));
            runtime.shutdown_timeout(STOP_GRACE);
        })?;
        let has_chroot = AtomicBool::new(config.servers.chroot.is_empty());
        let is_shut_down = AtomicBool::new(false);
        let shared = Shared { config, environment, has_chroot, is_shut_down };
        Ok(Self {
            shared: Arc::new(shared),
            runtime: handle,
            thread: Mutex::new(Some((stop, thread))),
        })
    }
}

impl ZooKeeperStore {
    /// Leaves the node that everything is below of as it is, also if it is missing.
    pub fn create_nothing(&self) {
        self.shared.has_chroot.store(true, Ordering::Release);
    }

    /// Who may do what with each of `paths`, in order.
    ///
    /// # Errors
    /// Why the store did not answer; [`StoreError::Denied`] names a node whose list may not be read.
    pub async fn acls(&self, paths: Vec<String>) -> Result<Vec<Vec<Acl>>, StoreError> {
        let shared = Arc::clone(&self.shared);
        let asking = self.runtime.spawn(async move {
            let servers = shared.config.servers.clone();
            let client = shared.connect(servers, Box::new(|_| ())).await?;
            let mut lists = Vec::with_capacity(paths.len());
            for path in paths {
                match client.call(Call::GetAcl { path: path.clone() }).await {
                    Ok(Answer::Acl(acl, _)) => lists.push(acl),
                    Ok(other) => unreachable!("a list is answered by {other:?}"),
                    Err(error) => return Err(shared.failure(error, &path)),
                }
            }
            // The session would also end by itself.
            let _ = client.call(Call::Close).await;
            Ok(lists)
        });
        asking.await.unwrap_or_else(|_| Err(self.shared.failure(Error::Closed, "")))
    }
}

impl Store for ZooKeeperStore {
    fn open_session(&self) -> Opening {
        let shared = Arc::clone(&self.shared);
        let runtime = self.runtime.clone();
        Box::pin(async move {
            let opening = runtime.spawn(Arc::clone(&shared).open());
            // Cancelled, if the store was shut down.
            opening.await.unwrap_or_else(|_| Err(shared.failure(Error::Closed, "")))
        })
    }

    fn shut_down(&self) {
        self.shared.is_shut_down.store(true, Ordering::Release);
        let taken = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((stop, thread)) = taken {
            drop(stop);
            let _ = thread.join();
        }
    }
}

impl Drop for ZooKeeperStore {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl Shared {
    async fn open(self: Arc<Self>) -> Result<(SessionHandle, crate::Events), StoreError> {
        if !self.has_chroot.load(Ordering::Acquire) {
            self.create_chroot().await?;
            self.has_chroot.store(true, Ordering::Release);
        }
        let (sender, events) = mpsc::unbounded_channel();
        let tell = move |event| {
            // Nobody may be interested.
            let _ = sender.send(as_event(event));
        };
        let client = self.connect(self.config.servers.clone(), Box::new(tell)).await?;
        let session = ZooKeeperSession { client, shared: self };
        Ok((SessionHandle::new(Arc::new(session)), events))
    }

    async fn connect(
        &self,
        servers: ConnectString,
        on_event: OnEvent,
    ) -> Result<Client, StoreError> {
        let settings = self.config.settings.clone();
        let opened = Client::open(servers, settings, self.environment.clone(), on_event).await;
        opened.map_err(|error| self.failure(error, ""))
    }

    /// Makes the node that everything is below of, through a session that is not below it.
    async fn create_chroot(&self) -> Result<(), StoreError> {
        let chroot = &self.config.servers.chroot;
        let servers = ConnectString { chroot: String::new(), ..self.config.servers.clone() };
        let client = self.connect(servers, Box::new(|_| ())).await?;
        let ends = chroot.match_indices('/').map(|(at, _)| at).filter(|&at| at > 0);
        for end in ends.chain([chroot.len()]) {
            let path = &chroot[..end];
            let found = client.call(Call::Exists { path: path.into(), watch: false }).await;
            if let Ok(Answer::Exists(Some(_))) = found {
                continue;
            }
            let op = Op::create_null(path);
            loop {
                match client.call(Call::Single(self.op(op.clone()))).await {
                    Ok(_) => break,
                    Err(Error::Refused { refusal: Refusal::NodeExists, .. }) => break,
                    // It bears repetition.
                    Err(Error::MayHaveBeenApplied) => {}
                    Err(error) => return Err(self.failure(error, path)),
                }
            }
        }
        // The session would also end by itself.
        let _ = client.call(Call::Close).await;
        Ok(())
    }

    /// The change as ZooKeeper knows it. Who may do what with a new node depends on its path, as in Kafka.
    fn op(&self, op: Op) -> ::zookeeper::Op {
        match op {
            Op::Create { path, data, mode } => {
                let acl = self.acl(&path);
                let mode = match mode {
                    CreateMode::Persistent => ::zookeeper::CreateMode::Persistent,
                    CreateMode::Ephemeral => ::zookeeper::CreateMode::Ephemeral,
                    CreateMode::PersistentSequential => {
                        ::zookeeper::CreateMode::PersistentSequential
                    }
                    CreateMode::EphemeralSequential => ::zookeeper::CreateMode::EphemeralSequential,
                };
                ::zookeeper::Op::Create { path, data, acl, mode }
            }
            Op::Set { path, data, version } => ::zookeeper::Op::Set { path, data, version },
            Op::Delete { path, version } => ::zookeeper::Op::Delete { path, version },
            Op::Check { path, version } => ::zookeeper::Op::Check { path, version },
        }
    }

    fn acl(&self, path: &str) -> Vec<Acl> {
        if !self.config.protect || path == CONSUMERS {
            return vec![Acl::world(Acl::ALL)];
        }
        let mut acl = vec![Acl::creator()];
        if !SENSITIVE.iter().any(|root| path.starts_with(root)) {
            acl.push(Acl::world(Acl::READ));
        }
        acl
    }

    /// What a failed call about `path` means to the store's users.
    fn failure(&self, error: Error, path: &str) -> StoreError {
        let path = path.to_owned();
        match error {
            Error::Refused { refusal, .. } => match refusal {
                Refusal::NoNode => StoreError::NoNode(path),
                Refusal::NodeExists => StoreError::NodeExists(path),
                Refusal::BadVersion => StoreError::BadVersion(path),
                Refusal::NotEmpty => StoreError::NotEmpty(path),
                Refusal::NoChildrenForEphemerals => StoreError::NoChildrenForEphemerals(path),
                Refusal::NoAuth => StoreError::Denied(path),
                Refusal::InvalidAcl => StoreError::Denied(format!(
                    "{path}: zookeeper.set.acl needs a client that authenticates"
                )),
                Refusal::BadArguments => StoreError::BadArguments(path.chars().take(256).collect()),
                Refusal::NotTried | Refusal::SessionMoved => StoreError::Disconnected,
                Refusal::SessionExpired => StoreError::SessionExpired,
                Refusal::Other(code) => {
                    StoreError::BadArguments(format!("{path}: ZooKeeper answers with error {code}"))
                }
            },
            Error::MayHaveBeenApplied => StoreError::MayHaveBeenApplied,
            Error::Disconnected => StoreError::Disconnected,
            Error::Unreachable(why) => StoreError::Unreachable(why),
            Error::SessionExpired => StoreError::SessionExpired,
            Error::AuthenticationFailed(why) => StoreError::Denied(why),
            Error::TooLarge(size) => {
                StoreError::BadArguments(format!("{size} bytes are more than ZooKeeper takes"))
            }
            Error::Closed if self.is_shut_down.load(Ordering::Acquire) => {
                StoreError::Failed("shut down".into())
            }
            Error::Closed => StoreError::SessionExpired,
        }
    }

    /// As [`Self::failure`], of one of several changes.
    fn failure_of(&self, error: Error, ops: &[Op]) -> StoreError {
        let Error::Refused { index, refusal } = error else { return self.failure(error, "") };
        let path = match ops.get(index) {
            // It is the parent that is missing.
            Some(Op::Create { path, .. }) if refusal == Refusal::NoNode => {
                match path.rsplit_once('/') {
                    Some(("", _)) | None => "/",
                    Some((parent, _)) => parent,
                }
            }
            Some(op) => op.path(),
            None => "",
        };
        self.failure(error, path)
    }
}

#[derive(Debug)]
struct ZooKeeperSession {
    client: Client,
    shared: Arc<Shared>,
}

impl Session for ZooKeeperSession {
    fn id(&self) -> SessionId {
        SessionId(self.client.session().id)
    }

    fn submit(&self, request: Request) -> Pending {
        match request {
            Request::Write(ops) => self.write(ops),
            Request::Read(reads) => self.read(reads),
            Request::Close => {
                let closed = self.client.call(Call::Close);
                let shared = Arc::clone(&self.shared);
                Box::pin(async move {
                    match closed.await {
                        Ok(_) => Ok(Reply::Closed),
                        Err(error) => Err(shared.failure(error, "")),
                    }
                })
            }
        }
    }

    fn lease(&self) -> Option<Lease> {
        let session = self.client.session();
        Some(Lease { confirmed_at: session.confirmed_at, timeout: session.timeout })
    }
}

impl ZooKeeperSession {
    fn write(&self, ops: Vec<Op>) -> Pending {
        if ops.is_empty() {
            return Box::pin(std::future::ready(Ok(Reply::Written(Vec::new()))));
        }
        let mut changes: Vec<_> = ops.iter().cloned().map(|op| self.shared.op(op)).collect();
        let single = match &ops[..] {
            [Op::Check { .. }] | [_, _, ..] | [] => None,
            [Op::Create { .. } | Op::Set { .. } | Op::Delete { .. }] => changes.pop(),
        };
        let call = single.map_or(Call::Multi(changes), Call::Single);
        let answer = self.client.call(call);
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            match answer.await {
                Ok(Answer::Done(results)) => {
                    Ok(Reply::Written(results.into_iter().map(as_result).collect()))
                }
                Ok(other) => unreachable!("a change is answered by {other:?}"),
                Err(error) => Err(shared.failure_of(error, &ops)),
            }
        })
    }

    fn read(&self, reads: Vec<crate::Read>) -> Pending {
        let under_way: Vec<_> = reads
            .into_iter()
            .map(|read| {
                let (path, watch) = (read.path.clone(), read.watch);
                let answer = self.client.call(match read.kind {
                    Kind::Exists => Call::Exists { path, watch },
                    Kind::Data => Call::GetData { path, watch },
                    Kind::Children => Call::GetChildren { path, watch },
                });
                (read, answer)
            })
            .collect();
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            let mut results = Vec::with_capacity(under_way.len());
            for (read, answer) in under_way {
                let failure = match answer.await {
                    Ok(answer) => {
                        results.push(Ok(as_read(answer)));
                        continue;
                    }
                    Err(error) => shared.failure(error, &read.path),
                };
                let about_the_node = matches!(
                    failure,
                    StoreError::NoNode(_) | StoreError::Denied(_) | StoreError::BadArguments(_)
                );
                if !about_the_node {
                    return Err(failure);
                }
                results.push(Err(failure));
            }
            Ok(Reply::Read(results))
        })
    }
}

fn as_event(event: ::zookeeper::Event) -> Event {
    match event {
        ::zookeeper::Event::Watched(change, path) => {
            let change = match change {
                ::zookeeper::Change::Created => Change::Created,
                ::zookeeper::Change::Deleted => Change::Deleted,
                ::zookeeper::Change::Data => Change::Data,
                ::zookeeper::Change::Children => Change::Children,
            };
            Event::Watched(change, path)
        }
        ::zookeeper::Event::Disconnected => Event::Disconnected,
        ::zookeeper::Event::Lapsed => Event::Lapsed,
        ::zookeeper::Event::Connected => Event::Connected,
        ::zookeeper::Event::Expired => Event::Expired,
    }
}

fn as_result(result: ::zookeeper::OpResult) -> OpResult {
    match result {
        ::zookeeper::OpResult::Created(path) => OpResult::Created(path),
        ::zookeeper::OpResult::Deleted => OpResult::Deleted,
        ::zookeeper::OpResult::Set(stat) => OpResult::Set(as_stat(stat)),
        ::zookeeper::OpResult::Checked => OpResult::Checked,
    }
}

fn as_read(answer: Answer) -> ReadResult {
    match answer {
        Answer::Exists(stat) => ReadResult::Exists(stat.map(as_stat)),
        Answer::Data(data, stat) => ReadResult::Data(data, as_stat(stat)),
        Answer::Children(mut names, stat) => {
            names.sort_unstable();
            ReadResult::Children(names, as_stat(stat))
        }
        Answer::Done(_) | Answer::Acl(..) | Answer::AclSet(_) | Answer::Synced | Answer::Closed => {
            unreachable!("a read is answered by {answer:?}")
        }
    }
}

fn as_stat(stat: ::zookeeper::Stat) -> Stat {
    Stat {
        czxid: Zxid(stat.czxid),
        mzxid: Zxid(stat.mzxid),
        pzxid: Zxid(stat.pzxid),
        ctime: stat.ctime,
        mtime: stat.mtime,
        version: stat.version,
        cversion: stat.cversion,
        // Containers have the smallest number there; no session has it.
        ephemeral_owner: Some(stat.ephemeral_owner)
            .filter(|&owner| owner != 0 && owner != i64::MIN)
            .map(SessionId),
        data_length: usize::try_from(stat.data_length).unwrap_or(0),
        num_children: usize::try_from(stat.num_children).unwrap_or(0),
    }
}

#[test]
fn nodes_are_protected_as_kafka_protects_them() {
    let config = |protect| ZooKeeperConfig {
        servers: "a:1".parse().unwrap(),
        settings: Settings::default(),
        protect,
    };
    let shared = |protect| Shared {
        config: config(protect),
        environment: Environment {
            clock: Arc::new(platform::clock::SystemClock::new()),
            random: Arc::new(platform::random::SystemRandom),
        },
        has_chroot: AtomicBool::new(true),
        is_shut_down: AtomicBool::new(false),
    };
    let everybody = vec![Acl::world(Acl::ALL)];
    assert_eq!(shared(false).acl("/config/users/a"), everybody);
    let protected = shared(true);
    assert_eq!(protected.acl("/consumers"), everybody);
    assert_eq!(protected.acl("/config/users/a"), [Acl::creator()]);
    assert_eq!(protected.acl("/config/brokers"), [Acl::creator()]);
    assert_eq!(protected.acl("/brokers/ids/1"), [Acl::creator(), Acl::world(Acl::READ)]);
}
