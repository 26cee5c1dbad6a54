//! Several drivers over one store: elections, failovers, and a controller that dies between any two
//! writes.

use super::tests::{NOW, SOON, Unheard, endpoint, new_topic, until};
use super::*;
use crate::*;
use coordination::local::LocalStore;
use coordination::{CreateMode, Opening, Pending, Reply, Request, Session};
use metadata::{BrokerImage, ConfigChange, ConfigEntity};
use platform::MemoryDisk;
use platform::clock::ManualClock;
use platform::random::SeededRandom;
use protocol::messages::alter_partition_request::{PartitionData, TopicData};
use protocol::messages::leader_and_isr_response::{
    LeaderAndIsrPartitionError, LeaderAndIsrTopicError,
};
use protocol::messages::list_offsets_request::ListOffsetsPartition;
use protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use protocol::messages::{
    AlterPartitionRequest, ControlledShutdownRequest, LeaderAndIsrRequest, LeaderAndIsrResponse,
    ListOffsetsRequest, ListOffsetsResponse, StopReplicaResponse, UpdateMetadataResponse,
};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// How many more writes a broker may make before it freezes; none: any number.
type Budget = Arc<Mutex<Option<usize>>>;

/// A way to the store that a test can cut, and whose sessions it can end.
#[derive(Debug)]
struct Mortal {
    store: Arc<LocalStore>,
    budget: Budget,
    sessions: Arc<Mutex<Vec<SessionHandle>>>,
    watched: Watched,
    away: Away,
    deaf: Deaf,
}

/// Whether the events of watches are swallowed.
type Deaf = Arc<AtomicBool>;

/// How long the store is away for a broker that wants a new session.
type Away = Arc<Mutex<Duration>>;

#[derive(Debug)]
struct MortalSession {
    session: Arc<SessionHandle>,
    budget: Budget,
    watched: Watched,
}

/// Every path that a broker ever watched.
type Watched = Arc<Mutex<BTreeSet<String>>>;

impl Store for Mortal {
    fn open_session(&self) -> Opening {
        let store = Arc::clone(&self.store);
        let (budget, sessions) = (Arc::clone(&self.budget), Arc::clone(&self.sessions));
        let watched = Arc::clone(&self.watched);
        let away = *self.away.lock().unwrap();
        let deaf = Arc::clone(&self.deaf);
        Box::pin(async move {
            tokio::time::sleep(away).await;
            let (session, mut events) = store.open_session().await?;
            let (heard, told) = tokio::sync::mpsc::unbounded_channel();
            tokio::spawn(async move {
                while let Some(event) = events.recv().await {
                    let is_swallowed = matches!(event, Event::Watched(..));
                    if !(is_swallowed && deaf.load(Ordering::Relaxed)) && heard.send(event).is_err()
                    {
                        break;
                    }
                }
            });
            let events = told;
            sessions.lock().unwrap().push(session.clone());
            let session = MortalSession { session: Arc::new(session), budget, watched };
            Ok((SessionHandle::new(Arc::new(session)), events))
        })
    }

    fn shut_down(&self) {}
}

impl Session for MortalSession {
    fn id(&self) -> SessionId {
        self.session.id()
    }

    fn submit(&self, request: Request) -> Pending {
        if let Request::Read(reads) = &request {
            let watched = reads.iter().filter(|read| read.watch).map(|read| read.path.clone());
            self.watched.lock().unwrap().extend(watched);
        }
        let mut budget = self.budget.lock().unwrap();
        match (&mut *budget, &request) {
            // It never hears of anything again: as if it had died right after its last write.
            (Some(0), _) => return Box::pin(std::future::pending()),
            (Some(left), Request::Write(_)) => *left -= 1,
            _ => {}
        }
        let session = Arc::clone(&self.session);
        match request {
            Request::Write(ops) => {
                let written = session.multi(ops);
                Box::pin(async move { written.await.map(Reply::Written) })
            }
            Request::Read(reads) => {
                let found = session.read_all(reads);
                Box::pin(async move { found.await.map(Reply::Read) })
            }
            Request::Close => {
                Box::pin(async move { session.close().await.map(|()| Reply::Closed) })
            }
        }
    }

    fn lease(&self) -> Option<coordination::Lease> {
        None
    }
}

/// What brokers were told, in order. All answer at once that they have done it, but for replicas whose logs
/// are gone (a broker's, of a topic): those are not led, nor followed as one that is in sync.
#[derive(Clone, Debug, Default)]
struct Brokers(
    Arc<Mutex<Vec<(BrokerId, ControlRequest)>>>,
    Arc<Mutex<BTreeSet<(i32, String)>>>,
    /// How far logs reach of which that is asked: by broker, the leader epoch and the end.
    Arc<Mutex<BTreeMap<i32, (i32, i64)>>>,
);

#[derive(Debug)]
struct ToOne(BrokerId, Brokers);

impl Brokers {
    fn lead(&self, to: BrokerId, request: &LeaderAndIsrRequest) -> LeaderAndIsrResponse {
        let mut lost = self.1.lock().unwrap();
        let topics = request.topic_states.iter().map(|topic| {
            let key = (to.0, topic.topic_name.to_string());
            let errors = topic.partition_states.iter().map(|state| {
                let counts = state.isr.contains(&to.0) && !state.is_new;
                if !counts {
                    lost.remove(&key);
                }
                let is_lost = lost.contains(&key);
                LeaderAndIsrPartitionError {
                    partition_index: state.partition_index,
                    error_code: match is_lost {
                        true => ErrorCode::KafkaStorageError.code(),
                        false => ErrorCode::None.code(),
                    },
                    ..Default::default()
                }
            });
            let partition_errors = errors.collect();
            LeaderAndIsrTopicError { topic_id: topic.topic_id, partition_errors }
        });
        LeaderAndIsrResponse { topics: topics.collect(), ..Default::default() }
    }
}

impl Brokers {
    fn log_ends(&self, of: BrokerId, request: &ListOffsetsRequest) -> ListOffsetsResponse {
        let (leader_epoch, offset) = self.2.lock().unwrap()[&of.0];
        let topics = request.topics.iter().map(|topic| {
            let end = |asked: &ListOffsetsPartition| ListOffsetsPartitionResponse {
                partition_index: asked.partition_index,
                leader_epoch,
                offset,
                ..Default::default()
            };
            let partitions = topic.partitions.iter().map(end).collect();
            ListOffsetsTopicResponse { name: topic.name.clone(), partitions }
        });
        ListOffsetsResponse { topics: topics.collect(), ..Default::default() }
    }
}

impl ControlChannels for Brokers {
    fn open(&self, broker: &BrokerImage) -> Arc<dyn ControlChannel> {
        Arc::new(ToOne(broker.id, self.clone()))
    }
}

impl ControlChannel for ToOne {
    fn send(&self, request: ControlRequest) -> Answering {
        let response = match &request {
            ControlRequest::LeaderAndIsr(request) => {
                let answer = self.1.lead(self.0, request);
                ControlResponse::LeaderAndIsr(answer)
            }
            ControlRequest::UpdateMetadata(_) => {
                ControlResponse::UpdateMetadata(UpdateMetadataResponse::default())
            }
            ControlRequest::StopReplica(_) => {
                ControlResponse::StopReplica(StopReplicaResponse::default())
            }
            ControlRequest::LogEnds(request) => {
                ControlResponse::LogEnds(self.1.log_ends(self.0, request))
            }
        };
        self.1.0.lock().unwrap().push((self.0, request));
        Box::pin(std::future::ready(Ok(response)))
    }
}

impl ClusterView for ToOne {
    fn live_brokers(&self) -> BTreeSet<BrokerId> {
        let told = self.1.0.lock().unwrap();
        let updates = told.iter().rev().filter(|(to, _)| *to == self.0);
        let mut live = updates.filter_map(|(_, request)| {
            let ControlRequest::UpdateMetadata(update) = request else { return None };
            let live = update.live_brokers.iter().map(|broker| BrokerId(broker.id));
            Some(live.collect::<BTreeSet<_>>()).filter(|live| !live.is_empty())
        });
        live.next().unwrap_or_default()
    }
}

impl ConfigListener for Brokers {
    fn config_changed(&self, _: ConfigChange) {}
}

/// Takes every setting.
#[derive(Debug)]
struct AnyConfig;

impl ConfigRules for AnyConfig {
    fn is_list(&self, _: &ConfigEntity, _: &str) -> Option<bool> {
        Some(false)
    }

    fn default_value(&self, _: &ConfigEntity, _: &str) -> Option<String> {
        None
    }

    fn validate_new_topic(
        &self,
        _: &TopicName,
        _: &BTreeMap<String, String>,
    ) -> Result<(), ApiError> {
        Ok(())
    }

    fn validate(
        &self,
        _: &ConfigEntity,
        _: &BTreeMap<String, String>,
        _: &[String],
    ) -> Result<(), ApiError> {
        Ok(())
    }
}

struct Member {
    handle: ControllerHandle,
    task: tokio::task::JoinHandle<()>,
    budget: Budget,
    sessions: Arc<Mutex<Vec<SessionHandle>>>,
    watched: Watched,
    away: Away,
    deaf: Deaf,
}

struct Cluster {
    store: Arc<LocalStore>,
    observer: SessionHandle,
    members: BTreeMap<i32, Member>,
    told: Brokers,
    /// What each broker's disk remembers.
    epochs: BTreeMap<i32, Arc<Epochs>>,
}

/// `barnabas.controller.reconcile.interval.ms`
const RECONCILE: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
struct Epochs(Mutex<ControllerEpoch>);

impl EpochRecord for Epochs {
    fn highest(&self) -> ControllerEpoch {
        *self.0.lock().unwrap()
    }

    fn raise(&self, epoch: ControllerEpoch) {
        let mut highest = self.0.lock().unwrap();
        *highest = epoch.max(*highest);
    }
}

impl Cluster {
    async fn start(ids: std::ops::RangeInclusive<i32>) -> Self {
        let clock = Arc::new(ManualClock::at(NOW));
        let disk = Arc::new(MemoryDisk::new());
        let store = Arc::new(LocalStore::open_inline(disk, Path::new("/s"), clock).unwrap());
        let (observer, _) = store.open_session().await.unwrap();
        let told = Brokers::default();
        let mut cluster =
            Self { store, observer, members: BTreeMap::new(), told, epochs: BTreeMap::new() };
        for id in ids {
            cluster.join(id).await;
        }
        cluster
    }

    /// A broker joins, and is live for the controller when this returns.
    async fn join(&mut self, id: i32) {
        self.join_with(id, None).await;
    }

    /// As [`Self::join`], of a broker that says this of its logs.
    async fn join_with(&mut self, id: i32, log_doubt: Option<LogDoubt>) {
        self.try_join(id, 9090 + id, log_doubt).await.unwrap();
        self.hears_of(id, id).await;
    }

    /// As [`Self::join_with`], on any port; does not wait.
    async fn try_join(
        &mut self,
        id: i32,
        port: i32,
        log_doubt: Option<LogDoubt>,
    ) -> Result<(), ControllerError> {
        let (budget, sessions) = (Budget::default(), Arc::<Mutex<Vec<_>>>::default());
        let (watched, away) = (Watched::default(), Away::default());
        let deaf = Deaf::default();
        let store = Mortal {
            store: Arc::clone(&self.store),
            budget: Arc::clone(&budget),
            sessions: Arc::clone(&sessions),
            watched: Arc::clone(&watched),
            away: Arc::clone(&away),
            deaf: Arc::clone(&deaf),
        };
        let mut member = Membership::join(Arc::new(store), "1D3O7chIQLG42yUhs9jUKw").await.unwrap();
        let epochs = self.epochs.entry(id).or_default();
        member.remember_epochs(Arc::clone(epochs) as Arc<dyn EpochRecord>);
        let broker = BrokerImage { id: BrokerId(id), rack: None, endpoints: vec![endpoint(port)] };
        let settings = ControllerSettings {
            broker,
            inter_broker_listener: "PLAINTEXT".into(),
            num_partitions: 1,
            default_replication_factor: 1,
            placement: Placement::Classic,
            unclean_leader_election: false,
            min_insync_replicas: 1,
            delete_topics: true,
            auto_leader_rebalance: false,
            leader_imbalance_percentage: 10,
            leader_imbalance_interval: Duration::from_secs(300),
            fast_failure_detection: true,
            log_doubt,
            unclean_restart_wait: Duration::from_secs(300),
            reconcile_interval: Some(RECONCILE),
        };
        let surroundings = Surroundings {
            channels: Arc::new(self.told.clone()),
            configs: Arc::new(self.told.clone()),
            rules: Arc::new(AnyConfig),
            broker_epoch: Arc::default(),
            registration: Arc::new(Unheard),
            cluster: Arc::new(ToOne(BrokerId(id), self.told.clone())),
            clock: Arc::new(ManualClock::at(NOW)),
            random: Arc::new(SeededRandom::new(1)),
        };
        let (handle, driver) = member.start(settings, surroundings).await?;
        let task = tokio::spawn(async move {
            driver.run().await.unwrap();
        });
        self.members.insert(id, Member { handle, task, budget, sessions, watched, away, deaf });
        Ok(())
    }

    /// Waits until broker `id` was told that `live` lives, by a controller that is there.
    async fn hears_of(&self, id: i32, live: i32) {
        until(async || {
            let told = self.told.0.lock().unwrap();
            told.iter().rev().any(|(to, request)| {
                to.0 == id
                    && matches!(request, ControlRequest::UpdateMetadata(update)
                        if update.live_brokers.iter().any(|broker| broker.id == live))
            })
        })
        .await;
    }

    /// The broker is gone, at once and without a word.
    async fn kill(&mut self, id: i32) {
        let member = self.members.remove(&id).unwrap();
        member.task.abort();
        let sessions = std::mem::take(&mut *member.sessions.lock().unwrap());
        for session in sessions {
            let _ = session.close().await;
        }
    }

    /// The store was away for so long that all sessions expired; each broker's way to it is back after its own time.
    async fn expire_all(&self, away: &[(i32, Duration)]) {
        for (id, away) in away {
            *self.members[id].away.lock().unwrap() = *away;
        }
        for member in self.members.values() {
            let sessions = std::mem::take(&mut *member.sessions.lock().unwrap());
            for session in sessions {
                let _ = session.close().await;
            }
        }
    }

    fn handle(&self, id: i32) -> &ControllerHandle {
        &self.members[&id].handle
    }

    async fn text(&self, path: &str) -> Option<String> {
        let (data, _) = self.observer.get(path, false).await.ok()?;
        Some(data.map_or("null".into(), |data| String::from_utf8(data.to_vec()).unwrap()))
    }

    async fn controller(&self) -> Option<i32> {
        let text = self.text("/controller").await?;
        (0..9).find(|id| text.contains(&format!(r#""brokerid":{id},"#)))
    }

    async fn state(&self, topic: &str, partition: i32) -> Option<(znodes::StateNode, i32)> {
        let path = znodes::state_path(topic, partition);
        let (data, stat) = self.observer.get(&path, false).await.ok()?;
        Some((znodes::parse_state(&data?)?, stat.version))
    }

    /// Leader, leader epoch and ISR.
    async fn led(&self, topic: &str, partition: i32) -> Option<(i32, i32, Vec<i32>)> {
        let (node, _) = self.state(topic, partition).await?;
        let isr = node.isr.iter().map(|id| id.0).collect();
        Some((node.leader.map_or(-1, |id| id.0), node.leader_epoch.0, isr))
    }

    async fn create(&self, name: &str, replicas: &[&[i32]]) {
        let assignments = (0..).zip(replicas.iter().map(|ids| ids.to_vec())).collect();
        let topic = NewTopic { assignments, ..new_topic(name, -1) };
        let id = self.controller().await.unwrap();
        let mut created = self.handle(id).create_topics(vec![topic], SOON, false).await;
        assert!(created.remove(0).1.unwrap().is_ready);
    }

    /// As [`Self::create`], of one partition and with `min.insync.replicas`.
    async fn create_with_min(&self, name: &str, replicas: &[i32], min: i32) {
        let configs = vec![("min.insync.replicas".to_owned(), Some(min.to_string()))];
        let assignments = vec![(0, replicas.to_vec())];
        let topic = NewTopic { assignments, configs, ..new_topic(name, -1) };
        let id = self.controller().await.unwrap();
        let mut created = self.handle(id).create_topics(vec![topic], SOON, false).await;
        assert!(created.remove(0).1.unwrap().is_ready);
    }

    async fn set_min(&self, broker: i32, topic: &str, min: i32) {
        let op = ConfigOp {
            name: "min.insync.replicas".into(),
            kind: ConfigOpKind::Set,
            value: Some(min.to_string()),
        };
        let entity = ConfigEntity::Topic(topic.into());
        let alteration = ConfigAlteration { entity, edit: ConfigEdit::Incremental(vec![op]) };
        let altered = self.handle(broker).alter_configs(vec![alteration], false).await;
        assert_eq!(altered, [Ok(())]);
    }

    /// Who is eligible besides the ISR of a partition, by a list that goes with its state.
    async fn eligible(&self, topic: &str) -> Vec<i32> {
        let path = znodes::eligible_path(topic, 0);
        let Some(list) = self.text(&path).await else { return Vec::new() };
        let (node, version) = self.state(topic, 0).await.unwrap();
        let partition_epoch = model::PartitionEpoch(version);
        let state = crate::context::State { node, partition_epoch };
        let id = self.topic_id(topic).await;
        let list = znodes::parse_eligible(list.as_bytes(), id, &state);
        list.map_or(Vec::new(), |list| list.members.iter().map(|id| id.0).collect())
    }

    async fn topic_id(&self, topic: &str) -> model::TopicId {
        let (data, _) = self.observer.get(&znodes::topic_path(topic), false).await.unwrap();
        znodes::parse_topic(&data.unwrap()).unwrap().id.unwrap()
    }

    /// The leader of a partition asks for another ISR.
    async fn alter_isr(&self, topic: &str, partition: i32, isr: &[i32]) -> (i16, i16) {
        let (node, version) = self.state(topic, partition).await.unwrap();
        let asked = PartitionData {
            partition_index: partition,
            leader_epoch: node.leader_epoch.0,
            new_isr: isr.to_vec(),
            partition_epoch: version,
            ..Default::default()
        };
        self.alter(topic, node.leader.unwrap().0, asked).await
    }

    async fn alter(&self, topic: &str, asker: i32, asked: PartitionData) -> (i16, i16) {
        let topic = TopicData {
            topic_id: self.topic_id(topic).await,
            partitions: vec![asked],
            ..Default::default()
        };
        let broker_epoch = self.members.get(&asker).map_or(-1, |m| m.handle.broker_epoch().0);
        let request = AlterPartitionRequest { broker_id: asker, broker_epoch, topics: vec![topic] };
        let id = self.controller().await.unwrap();
        let response = self.handle(id).alter_partition(request, 2).await;
        let partition = response.topics.first().and_then(|topic| topic.partitions.first());
        (response.error_code, partition.map_or(-1, |partition| partition.error_code))
    }

    async fn shut_down(&self, id: i32) -> (i16, usize) {
        let broker_epoch = self.handle(id).broker_epoch().0;
        let request = ControlledShutdownRequest { broker_id: id, broker_epoch };
        let controller = self.controller().await.unwrap();
        let response = self.handle(controller).controlled_shutdown(request).await;
        (response.error_code, response.remaining_partitions.len())
    }

    async fn reassign(&self, topic: &str, target: Option<&[i32]>) -> Result<(), ErrorCode> {
        let target = target.map(|ids| ids.iter().copied().map(BrokerId).collect());
        let id = self.controller().await.unwrap();
        let at = TopicPartition::new(topic, 0);
        let results = self.handle(id).alter_reassignments(vec![(at, target)]).await.unwrap();
        results.into_iter().next().unwrap().1.map_err(|error| error.code)
    }

    fn take_told(&self) -> Vec<(BrokerId, ControlRequest)> {
        std::mem::take(&mut *self.told.0.lock().unwrap())
    }
}

fn code(code: ErrorCode) -> (i16, i16) {
    (0, code.code())
}

#[tokio::test(start_paused = true)]
async fn one_controller_wins_and_the_next_takes_over_with_the_next_epoch() {
    let mut cluster = Cluster::start(0..=2).await;
    assert_eq!(cluster.controller().await, Some(0));
    assert_eq!(cluster.text("/controller_epoch").await.as_deref(), Some("1"));
    cluster.kill(0).await;
    until(async || cluster.controller().await.is_some()).await;
    assert_eq!(cluster.text("/controller_epoch").await.as_deref(), Some("2"));
    let controller = cluster.controller().await.unwrap();
    let refused = cluster.handle(3 - controller);
    let created = refused.create_topics(vec![new_topic("t", 1)], SOON, false).await;
    assert_eq!(created[0].1.as_ref().unwrap_err().code, ErrorCode::NotController);
}

/// Clients of the one would talk to the other. An address is free again with the session of who had it.
#[tokio::test(start_paused = true)]
async fn a_broker_that_advertises_a_live_ones_address_does_not_start() {
    let mut cluster = Cluster::start(0..=1).await;
    let error = cluster.try_join(2, 9091, None).await.unwrap_err();
    let ControllerError::AddressTaken { other: BrokerId(1), address } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(address, "127.0.0.1:9091");
    assert!(cluster.text("/brokers/ids/2").await.is_none(), "it left nothing");
    // Not readable, so not in the way.
    let junk = Some("junk".into());
    cluster.observer.create("/brokers/ids/7", junk, CreateMode::Ephemeral).await.unwrap();
    cluster.kill(1).await;
    cluster.try_join(2, 9091, None).await.unwrap();
    cluster.hears_of(2, 2).await;
}

/// As [`until`], with time passing.
async fn later(condition: impl AsyncFn() -> bool) {
    for _ in 0..10_000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never came true");
}

/// Whoever is back first would see itself alone: it takes nobody out of an ISR who is about to come back too.
#[tokio::test(start_paused = true)]
async fn brokers_whose_sessions_all_expired_wait_for_each_other() {
    let cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1, 0], &[1, 0, 2]]).await;
    let states =
        async || (cluster.state("t", 0).await.unwrap(), cluster.state("t", 1).await.unwrap());
    let before = states().await;
    let second = Duration::from_secs(1);
    cluster.expire_all(&[(0, Duration::ZERO), (1, second), (2, 3 * second)]).await;
    later(async || cluster.text("/brokers/ids/0").await.is_some()).await;
    assert_eq!(cluster.controller().await, None, "nobody stands for election without the others");
    later(async || cluster.controller().await.is_some()).await;
    assert!(cluster.text("/brokers/ids/2").await.is_some());
    // The new controller has told everybody of everybody, which it does when it has repaired what it found.
    later(async || {
        let told = cluster.told.0.lock().unwrap();
        (0..=2).all(|id| {
            told.iter().any(|(to, request)| {
                to.0 == id
                    && matches!(request, ControlRequest::LeaderAndIsr(lead) if lead.controller_epoch == 2)
            })
        })
    })
    .await;
    assert!(states().await == before, "{:?}", states().await);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_come_back_after_all_sessions_expired_is_gone_in_the_end() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1, 0]]).await;
    let start = Instant::now();
    let never = Duration::from_secs(3600);
    cluster.expire_all(&[(0, Duration::ZERO), (1, Duration::ZERO), (2, never)]).await;
    later(async || cluster.led("t", 0).await == Some((1, 1, vec![1, 0]))).await;
    let took = start.elapsed();
    assert!((RETURN_PATIENCE..RETURN_PATIENCE * 2).contains(&took), "{took:?}");
    cluster.join(3).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_leader_is_replaced_from_the_isr_and_all_hear_of_it() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1, 0]]).await;
    assert_eq!(cluster.led("t", 0).await, Some((2, 0, vec![2, 1, 0])));
    cluster.take_told();
    cluster.kill(2).await;
    until(async || cluster.led("t", 0).await == Some((1, 1, vec![1, 0]))).await;
    until(async || !cluster.told.0.lock().unwrap().is_empty()).await;
    let told = cluster.take_told();
    for id in [0, 1] {
        let of_it: Vec<_> = told.iter().filter(|(to, _)| to.0 == id).map(|(_, r)| r).collect();
        let [ControlRequest::LeaderAndIsr(lead), ControlRequest::UpdateMetadata(update)] =
            of_it[..]
        else {
            panic!("{told:#?}")
        };
        let state = &lead.topic_states[0].partition_states[0];
        assert_eq!((state.leader, state.leader_epoch, state.is_new), (1, 1, false));
        assert_eq!(update.topic_states[0].partition_states[0].offline_replicas, [2]);
        assert_eq!(update.live_brokers.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_back_before_its_death_was_noticed_still_loses_its_leadership() {
    let cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1]]).await;
    let old = cluster.handle(2).broker_epoch();
    // Nobody but the store sees the two in between: one event for the controller.
    let path = "/brokers/ids/2";
    let (data, _) = cluster.observer.get(path, false).await.unwrap();
    let ops = vec![Op::delete(path), Op::create_ephemeral(path, data)];
    cluster.observer.multi(ops).await.unwrap();
    until(async || cluster.led("t", 0).await == Some((1, 1, vec![1]))).await;
    let new = cluster.observer.exists(path, false).await.unwrap().unwrap().czxid;
    assert!(BrokerEpoch(new.0) > old);
}

impl Cluster {
    async fn is_registered(&self, id: i32) -> bool {
        self.text(&format!("/brokers/ids/{id}")).await.is_some()
    }

    /// Broker `observer` says that it sees the end of `suspect`, and the controller has heard it.
    async fn suspects(&self, observer: i32, suspect: i32) {
        self.handle(observer).suspect(BrokerId(suspect));
        // Commands are carried out in order.
        let _ = self.handle(observer).list_reassignments(None).await;
        let controller = self.controller().await.unwrap();
        until(async || {
            let _ = self.handle(controller).list_reassignments(None).await;
            self.observer.children(znodes::SUSPICIONS, false).await.unwrap().is_empty()
        })
        .await;
        let _ = self.handle(controller).list_reassignments(None).await;
    }

    /// The broker hears of nothing any more, and its session lives on.
    fn freeze(&self, id: i32) {
        *self.members[&id].budget.lock().unwrap() = Some(0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_the_controller_and_another_see_gone_is_replaced_before_its_session_expires()
{
    let cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1, 0]]).await;
    cluster.freeze(2);
    cluster.suspects(1, 2).await;
    assert!(cluster.is_registered(2).await, "one alone may be mistaken");
    cluster.suspects(0, 2).await;
    assert!(!cluster.is_registered(2).await);
    assert_eq!(cluster.led("t", 0).await, Some((2, 0, vec![2, 1, 0])), "it may have to notice");
    tokio::time::sleep(Duration::from_millis(100)).await;
    until(async || cluster.led("t", 0).await == Some((1, 1, vec![1, 0]))).await;
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_was_taken_for_dead_comes_back_and_no_longer_leads() {
    let cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1, 0]]).await;
    let before = cluster.handle(2).broker_epoch();
    cluster.suspects(0, 2).await;
    cluster.suspects(1, 2).await;
    until(async || cluster.is_registered(2).await).await;
    assert!(cluster.handle(2).broker_epoch() > before);
    until(async || cluster.led("t", 0).await == Some((1, 1, vec![1, 0]))).await;
}

impl Cluster {
    /// Broker `observer` has said that it sees the end of the controller.
    async fn suspects_controller(&self, observer: i32, controller: i32) {
        self.handle(observer).suspect(BrokerId(controller));
        let _ = self.handle(observer).list_reassignments(None).await;
    }

    async fn controller_epoch(&self) -> i32 {
        self.text("/controller_epoch").await.unwrap().parse().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_two_others_see_gone_is_replaced_before_its_session_expires() {
    let cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[0, 1, 2]]).await;
    assert_eq!((cluster.controller().await, cluster.controller_epoch().await), (Some(0), 1));
    cluster.freeze(0);
    cluster.suspects_controller(1, 0).await;
    cluster.suspects_controller(1, 0).await;
    assert_eq!(cluster.controller().await, Some(0), "one alone may be mistaken");
    assert_eq!(cluster.observer.children(znodes::SUSPICIONS, false).await.unwrap().len(), 1);
    cluster.suspects_controller(2, 0).await;
    until(async || matches!(cluster.controller().await, Some(1 | 2))).await;
    assert_eq!(cluster.controller_epoch().await, 2);
    assert!(cluster.is_registered(0).await, "that is for the new controller to judge");
    for observer in [1, 2] {
        cluster.suspects(observer, 0).await;
    }
    assert!(!cluster.is_registered(0).await);
    tokio::time::sleep(Duration::from_millis(100)).await;
    until(async || cluster.led("t", 0).await == Some((1, 1, vec![1, 2]))).await;
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_lives_hears_of_it_and_loses_its_office_at_most_once_to_each() {
    let cluster = Cluster::start(0..=2).await;
    for _ in 0..10 {
        for observer in [1, 2] {
            let controller = cluster.controller().await.unwrap();
            if observer != controller {
                cluster.suspects_controller(observer, controller).await;
            }
            until(async || cluster.controller().await.is_some()).await;
        }
    }
    let epoch = cluster.controller_epoch().await;
    assert!(epoch <= 3, "elected {epoch} times");
}

#[tokio::test(start_paused = true)]
async fn no_office_is_vacated_for_what_is_old_or_for_a_stranger() {
    let cluster = Cluster::start(0..=2).await;
    let said = |path: &'static str, observer: i32| {
        let data = znodes::suspicion(BrokerId(0), BrokerId(observer));
        cluster.observer.create(path, Some(data.into()), CreateMode::EphemeralSequential)
    };
    cluster.suspects_controller(1, 1).await;
    cluster.suspects_controller(1, 2).await;
    cluster.suspects_controller(2, 1).await;
    assert_eq!(cluster.controller_epoch().await, 1, "who is no controller has no office");
    cluster.freeze(0);
    said(znodes::SUSPICION_PREFIX, 0).await.unwrap();
    said(znodes::SUSPICION_PREFIX, 1).await.unwrap();
    cluster.suspects_controller(1, 0).await;
    assert_eq!(cluster.controller().await, Some(0), "nobody but broker 1 says so");
    // A controller of Apache's would not know what to do.
    let path = "/barnabas/incarnations/0";
    cluster.observer.delete(path, None).await.unwrap();
    cluster.suspects_controller(2, 0).await;
    assert_eq!(cluster.controller().await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn suspicions_that_do_not_meet_move_nothing() {
    let cluster = Cluster::start(0..=3).await;
    cluster.create("t", &[&[2, 1, 0]]).await;
    cluster.suspects(1, 2).await;
    cluster.suspects(3, 2).await;
    assert!(cluster.is_registered(2).await, "the controller reaches it");
    tokio::time::sleep(Duration::from_secs(3)).await;
    cluster.suspects(0, 2).await;
    assert!(cluster.is_registered(2).await, "what the others saw is too long ago");
    cluster.suspects(1, 1).await;
    cluster.suspects(0, 0).await;
    assert!(cluster.is_registered(0).await && cluster.is_registered(1).await);
    // A registration of somebody who does not say that he comes back: an Apache broker.
    let path = "/brokers/ids/2";
    let (data, _) = cluster.observer.get(path, false).await.unwrap();
    cluster.freeze(2);
    let ops = vec![Op::delete(path), Op::create_ephemeral(path, data)];
    cluster.observer.multi(ops).await.unwrap();
    until(async || cluster.led("t", 0).await == Some((1, 1, vec![1, 0]))).await;
    cluster.suspects(0, 2).await;
    cluster.suspects(1, 2).await;
    assert!(cluster.is_registered(2).await);
}

#[tokio::test(start_paused = true)]
async fn no_suspicion_makes_a_replica_lead_that_is_not_in_sync() {
    let cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1]]).await;
    assert_eq!(cluster.alter_isr("t", 0, &[2]).await, code(ErrorCode::None));
    let unclean = ("unclean.leader.election.enable".to_owned(), Some("true".to_owned()));
    let assignments = vec![(0, vec![2, 1])];
    let topic = NewTopic { assignments, configs: vec![unclean], ..new_topic("u", -1) };
    let created = cluster.handle(0).create_topics(vec![topic], SOON, false).await;
    assert!(created[0].1.is_ok());
    cluster.freeze(2);
    assert_eq!(cluster.alter_isr("u", 0, &[2]).await, code(ErrorCode::None));
    for observer in [0, 1] {
        cluster.suspects(observer, 2).await;
    }
    assert!(cluster.is_registered(2).await, "that waits for the session");
    assert_eq!(cluster.alter_isr("u", 0, &[2, 1]).await, code(ErrorCode::None));
    cluster.suspects(0, 2).await;
    assert!(!cluster.is_registered(2).await, "nobody loses anything of the other");
}

#[tokio::test(start_paused = true)]
async fn a_replica_whose_log_is_gone_leaves_the_isr_and_may_start_empty_after_that() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1]]).await;
    cluster.create("alone", &[&[2]]).await;
    let lost = [(2, "t".to_owned()), (2, "alone".to_owned())];
    cluster.told.1.lock().unwrap().extend(lost);
    cluster.take_told();
    // The next controller tells everybody again.
    cluster.kill(0).await;
    until(async || cluster.led("t", 0).await == Some((1, 1, vec![1]))).await;
    until(async || cluster.led("alone", 0).await == Some((-1, 1, vec![2]))).await;
    until(async || cluster.told.1.lock().unwrap().len() == 1).await;
    let described = |offline: &[i32]| {
        let told = cluster.told.0.lock().unwrap();
        let mut of_t = told.iter().rev().filter_map(|(_, request)| match request {
            ControlRequest::UpdateMetadata(update) => {
                update.topic_states.iter().find(|topic| &*topic.topic_name == "t")
            }
            ControlRequest::LeaderAndIsr(_)
            | ControlRequest::StopReplica(_)
            | ControlRequest::LogEnds(_) => None,
        });
        of_t.next().is_some_and(|topic| topic.partition_states[0].offline_replicas == offline)
    };
    until(async || described(&[0; 0])).await;
    assert_eq!(cluster.alter_isr("t", 0, &[1, 2]).await, code(ErrorCode::None), "it has caught up");
    let asked: Vec<_> = cluster
        .take_told()
        .into_iter()
        .filter_map(|(to, request)| match request {
            ControlRequest::LeaderAndIsr(request) => (to.0 == 2).then_some(request),
            ControlRequest::UpdateMetadata(_)
            | ControlRequest::StopReplica(_)
            | ControlRequest::LogEnds(_) => None,
        })
        .flat_map(|request| request.topic_states)
        .filter(|topic| &*topic.topic_name == "alone")
        .collect();
    assert_eq!(asked.len(), 1, "nobody else can take over: it is not asked again");
}

impl Cluster {
    async fn is_in_doubt(&self, id: i32) -> bool {
        self.text(&format!("/barnabas/doubts/{id}")).await.is_some()
    }

    /// All brokers but the controller are gone at once, as far as the controller can see.
    async fn kill_at_once(&mut self, ids: [i32; 2]) {
        // The next controller finds both gone.
        self.kill(0).await;
        for id in ids {
            self.kill(id).await;
        }
        self.join(0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_may_lack_records_is_out_of_the_isr_until_it_has_caught_up() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1]]).await;
    // Nobody sees it away: the next controller finds it registered.
    cluster.kill(0).await;
    let path = "/barnabas/doubts/2";
    cluster.observer.create(path, Some("junk".into()), CreateMode::Persistent).await.unwrap();
    cluster.join(0).await;
    until(async || cluster.led("t", 0).await == Some((1, 2, vec![1]))).await;
    until(async || !cluster.is_in_doubt(2).await).await;
    assert_eq!(cluster.alter_isr("t", 0, &[1, 2]).await, code(ErrorCode::None));
}

#[tokio::test(start_paused = true)]
async fn after_a_power_failure_of_all_the_longest_log_leads_and_nobody_needs_to_be_there() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1]]).await;
    cluster.kill_at_once([1, 2]).await;
    until(async || cluster.led("t", 0).await == Some((-1, 1, vec![2, 1]))).await;
    cluster.told.2.lock().unwrap().extend([(1, (0, 70)), (2, (0, 60))]);
    cluster.join_with(2, Some(LogDoubt::Unclean)).await;
    let asked = |cluster: &Cluster| {
        let told = cluster.told.0.lock().unwrap();
        told.iter().any(|(to, r)| to.0 == 2 && matches!(r, ControlRequest::LogEnds(_)))
    };
    until(async || asked(&cluster)).await;
    assert_eq!(cluster.led("t", 0).await, Some((-1, 1, vec![2, 1])), "the other may have more");
    // A clean start after that changes nothing.
    cluster.kill(2).await;
    cluster.join(2).await;
    assert!(cluster.is_in_doubt(2).await);
    assert_eq!(cluster.led("t", 0).await, Some((-1, 1, vec![2, 1])));
    cluster.join_with(1, Some(LogDoubt::Unclean)).await;
    until(async || cluster.led("t", 0).await == Some((1, 2, vec![1]))).await;
    assert!(cluster.state("t", 0).await.unwrap().0.recovering);
    until(async || !cluster.is_in_doubt(1).await && !cluster.is_in_doubt(2).await).await;
    assert_eq!(cluster.alter_isr("t", 0, &[1, 2]).await, code(ErrorCode::None));
    assert!(!cluster.state("t", 0).await.unwrap().0.recovering);
}

#[tokio::test(start_paused = true)]
async fn one_that_does_not_return_after_a_power_failure_is_waited_for_and_not_for_ever() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1]]).await;
    cluster.kill_at_once([1, 2]).await;
    cluster.told.2.lock().unwrap().insert(2, (0, 60));
    cluster.join_with(2, Some(LogDoubt::Unclean)).await;
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert_eq!(cluster.led("t", 0).await, Some((-1, 1, vec![2, 1])));
    tokio::time::sleep(Duration::from_secs(11)).await;
    until(async || cluster.led("t", 0).await == Some((2, 2, vec![2]))).await;
    until(async || !cluster.is_in_doubt(2).await).await;
    // And one that has everything leads at once.
    cluster.create("u", &[&[2, 0]]).await;
    cluster.kill(2).await;
    until(async || cluster.led("u", 0).await == Some((0, 1, vec![0]))).await;
}

#[tokio::test(start_paused = true)]
async fn one_that_lost_its_log_and_is_the_first_of_its_isr_to_return_does_not_keep_the_rest_out() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1]]).await;
    cluster.create("u", &[&[2, 1]]).await;
    cluster.kill_at_once([1, 2]).await;
    cluster.told.1.lock().unwrap().insert((2, "t".to_owned()));
    cluster.join_with(2, Some(LogDoubt::Incomplete)).await;
    until(async || cluster.led("t", 0).await == Some((-1, 2, vec![1]))).await;
    until(async || cluster.led("u", 0).await == Some((2, 2, vec![2]))).await;
    until(async || !cluster.is_in_doubt(2).await).await;
    cluster.join(1).await;
    until(async || cluster.led("t", 0).await == Some((1, 3, vec![1]))).await;
    assert_eq!(cluster.alter_isr("t", 0, &[1, 2]).await, code(ErrorCode::None), "it starts empty");
}

#[tokio::test(start_paused = true)]
async fn a_former_member_leads_where_nobody_can_of_an_isr_below_its_minimum() {
    let mut cluster = Cluster::start(0..=2).await;
    let leads = async |cluster: &Cluster, id: i32| {
        cluster.led("t", 0).await.is_some_and(|(leader, _, isr)| leader == id && isr == [id])
    };
    cluster.create_with_min("t", &[2, 1, 0], 2).await;
    assert_eq!(cluster.alter_isr("t", 0, &[2, 1]).await, code(ErrorCode::None));
    assert_eq!(cluster.text("/barnabas/eligible/t").await, None, "two are enough");
    assert_eq!(cluster.alter_isr("t", 0, &[2]).await, code(ErrorCode::None));
    assert_eq!(cluster.eligible("t").await, [1], "records were committed without 0");
    cluster.kill(2).await;
    until(async || leads(&cluster, 1).await).await;
    assert!(!cluster.state("t", 0).await.unwrap().0.recovering, "nothing is lost");
    assert_eq!(cluster.eligible("t").await, [2], "nothing was committed since it led");
    cluster.join(2).await;
    cluster.kill(1).await;
    until(async || leads(&cluster, 2).await).await;
    assert_eq!(cluster.eligible("t").await, [1]);
    // With the one that leads the controller dies.
    cluster.join(1).await;
    cluster.kill(0).await;
    until(async || cluster.controller().await.is_some()).await;
    assert_eq!(cluster.eligible("t").await, [1], "the next controller knows the list");
    cluster.kill(2).await;
    until(async || leads(&cluster, 1).await).await;
    cluster.join(2).await;
    assert_eq!(cluster.alter_isr("t", 0, &[1, 2]).await, code(ErrorCode::None));
    assert_eq!(cluster.text(&znodes::eligible_path("t", 0)).await, None, "enough again");
}

#[tokio::test(start_paused = true)]
async fn one_that_lost_power_leaves_the_lead_to_a_former_member_and_waits_for_it() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create_with_min("t", &[2, 1], 2).await;
    cluster.create_with_min("u", &[2, 1], 2).await;
    for topic in ["t", "u"] {
        assert_eq!(cluster.alter_isr(topic, 0, &[2]).await, code(ErrorCode::None));
    }
    cluster.told.2.lock().unwrap().extend([(2, (0, 60))]);
    cluster.kill_at_once([1, 2]).await;
    until(async || cluster.led("t", 0).await == Some((-1, 1, vec![2]))).await;
    cluster.join_with(2, Some(LogDoubt::Unclean)).await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.led("t", 0).await, Some((-1, 1, vec![2])), "1 is certain to have all");
    cluster.join(1).await;
    until(async || cluster.led("t", 0).await == Some((1, 2, vec![1]))).await;
    assert!(!cluster.state("t", 0).await.unwrap().0.recovering);
    assert_eq!(cluster.eligible("t").await, [0; 0], "what 2 has lost it may have committed");
    until(async || !cluster.is_in_doubt(2).await).await;
}

#[tokio::test(start_paused = true)]
async fn a_former_member_is_waited_for_and_not_for_ever() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create_with_min("t", &[2, 1], 2).await;
    assert_eq!(cluster.alter_isr("t", 0, &[2]).await, code(ErrorCode::None));
    cluster.told.2.lock().unwrap().extend([(2, (0, 60))]);
    cluster.kill_at_once([1, 2]).await;
    cluster.join_with(2, Some(LogDoubt::Unclean)).await;
    tokio::time::sleep(Duration::from_secs(290)).await;
    assert_eq!(cluster.led("t", 0).await, Some((-1, 1, vec![2])));
    tokio::time::sleep(Duration::from_secs(11)).await;
    until(async || cluster.led("t", 0).await == Some((2, 2, vec![2]))).await;
    assert!(cluster.state("t", 0).await.unwrap().0.recovering);
    assert_eq!(cluster.eligible("t").await, [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_former_member_that_may_lack_records_is_not_eligible_any_more() {
    let mut cluster = Cluster::start(0..=2).await;
    for topic in ["t", "u"] {
        cluster.create_with_min(topic, &[2, 1], 2).await;
        assert_eq!(cluster.alter_isr(topic, 0, &[2]).await, code(ErrorCode::None));
        assert_eq!(cluster.eligible(topic).await, [1]);
    }
    cluster.kill(1).await;
    // Somebody deletes a list meanwhile.
    let path = znodes::eligible_path("u", 0);
    cluster.observer.delete(&path, None).await.unwrap();
    cluster.join_with(1, Some(LogDoubt::Unclean)).await;
    until(async || !cluster.is_in_doubt(1).await).await;
    assert_eq!(cluster.text(&znodes::eligible_path("t", 0)).await, None);
    cluster.kill(2).await;
    until(async || cluster.led("t", 0).await == Some((-1, 1, vec![2]))).await;
    until(async || cluster.led("u", 0).await == Some((-1, 1, vec![2]))).await;
    // Nor is one of Apache's, which does not say what it lost.
    cluster.join(2).await;
    until(async || cluster.led("t", 0).await == Some((2, 2, vec![2]))).await;
    assert_eq!(cluster.alter_isr("t", 0, &[2, 1]).await, code(ErrorCode::None));
    assert_eq!(cluster.alter_isr("t", 0, &[2]).await, code(ErrorCode::None));
    assert_eq!(cluster.eligible("t").await, [1]);
    cluster.freeze(1);
    let path = "/brokers/ids/1";
    let (data, _) = cluster.observer.get(path, false).await.unwrap();
    let ops = vec![Op::delete(path), Op::create_ephemeral(path, data)];
    cluster.observer.multi(ops).await.unwrap();
    until(async || cluster.text(&znodes::eligible_path("t", 0)).await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_is_void_when_somebody_wrote_the_state_without_it() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create_with_min("t", &[2, 1], 2).await;
    assert_eq!(cluster.alter_isr("t", 0, &[2]).await, code(ErrorCode::None));
    assert_eq!(cluster.eligible("t").await, [1]);
    // A controller of Apache's took 1 in and out again: what was committed meanwhile is not known here.
    let path = znodes::state_path("t", 0);
    let text = cluster.text(&path).await.unwrap();
    cluster.observer.set(&path, text.replace("[2]", "[2,1]"), None).await.unwrap();
    cluster.observer.set(&path, text, None).await.unwrap();
    cluster.kill(0).await;
    until(async || cluster.controller().await.is_some()).await;
    cluster.kill(2).await;
    until(async || cluster.led("t", 0).await.is_some_and(|(leader, ..)| leader == -1)).await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.led("t", 0).await.unwrap().0, -1, "1 may lack records");
}

#[tokio::test(start_paused = true)]
async fn a_minimum_that_was_lowered_makes_the_list_void_and_one_that_was_raised_is_not_believed_at_once()
 {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create_with_min("lowered", &[2, 1], 2).await;
    assert_eq!(cluster.alter_isr("lowered", 0, &[2]).await, code(ErrorCode::None));
    assert_eq!(cluster.eligible("lowered").await, [1]);
    cluster.create_with_min("raised", &[2, 1], 1).await;
    cluster.set_min(1, "lowered", 1).await;
    // From here on 2 hears of no change.
    cluster.members[&2].deaf.store(true, Ordering::Relaxed);
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    cluster.set_min(1, "raised", 2).await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.alter_isr("raised", 0, &[2]).await, code(ErrorCode::None));
    assert_eq!(cluster.text(&znodes::eligible_path("raised", 0)).await, None);
    // Until it has found it by comparing.
    cluster.members[&2].deaf.store(false, Ordering::Relaxed);
    assert_eq!(cluster.alter_isr("raised", 0, &[2, 1]).await, code(ErrorCode::None));
    tokio::time::advance(RECONCILE).await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.alter_isr("raised", 0, &[2]).await, code(ErrorCode::None));
    assert_eq!(cluster.eligible("raised").await, [1]);
    cluster.kill(2).await;
    until(async || cluster.led("raised", 0).await == Some((1, 1, vec![1]))).await;
    until(async || cluster.led("lowered", 0).await == Some((-1, 1, vec![2]))).await;
    assert_eq!(cluster.text(&znodes::eligible_path("lowered", 0)).await, None);
}

#[tokio::test(start_paused = true)]
async fn lists_go_with_their_topics() {
    let mut cluster = Cluster::start(0..=2).await;
    for topic in ["t", "state", "away"] {
        cluster.create_with_min(topic, &[2, 1], 2).await;
        assert_eq!(cluster.alter_isr(topic, 0, &[2]).await, code(ErrorCode::None));
        assert_eq!(cluster.eligible(topic).await, [1]);
    }
    let deleted = cluster.handle(0).delete_topics(vec!["t".into(), "state".into()], SOON).await;
    assert!(deleted.iter().all(|(_, result)| result.is_ok()), "{deleted:?}");
    let listed = cluster.observer.children("/barnabas/eligible", false).await.unwrap();
    assert_eq!(listed, ["away"]);
    // A controller that knows of no lists deletes this one.
    cluster.kill(0).await;
    until(async || cluster.controller().await.is_some()).await;
    let controller = cluster.controller().await.unwrap();
    cluster.kill(controller).await;
    let states = ["/state", ""].map(|end| format!("/brokers/topics/away/partitions/0{end}"));
    let rest = ["/brokers/topics/away/partitions", "/brokers/topics/away"].map(str::to_owned);
    let paths = states.into_iter().chain(rest).map(Op::delete);
    cluster.observer.multi(paths.collect()).await.unwrap();
    let last = 3 - controller;
    cluster.kill(last).await;
    cluster.join(0).await;
    until(async || cluster.text("/barnabas/eligible/away").await.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn who_started_again_since_it_fetched_does_not_join_an_isr() {
    let cluster = Cluster::start(0..=3).await;
    cluster.create("t", &[&[1, 2, 3]]).await;
    assert_eq!(cluster.alter_isr("t", 0, &[1]).await, code(ErrorCode::None));
    // A registration that the controller has not seen yet: it does not watch these.
    let path = "/barnabas/incarnations/2";
    let (data, _) = cluster.observer.get(path, false).await.unwrap();
    cluster.observer.set(path, data.unwrap(), None).await.unwrap();
    assert_eq!(cluster.alter_isr("t", 0, &[1, 2]).await, code(ErrorCode::IneligibleReplica));
    assert_eq!(cluster.led("t", 0).await, Some((1, 0, vec![1])));
    assert_eq!(cluster.alter_isr("t", 0, &[1, 3]).await, code(ErrorCode::None), "others may");
    // Who is in the ISR is none that joins.
    assert_eq!(cluster.alter_isr("t", 0, &[3, 1]).await, code(ErrorCode::None));
}

#[tokio::test(start_paused = true)]
async fn a_returning_broker_hears_of_everything_before_it_is_told_to_follow() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[1, 2], &[1, 0]]).await;
    cluster.kill(2).await;
    until(async || cluster.led("t", 0).await == Some((1, 1, vec![1]))).await;
    cluster.take_told();
    cluster.join(2).await;
    until(async || {
        let told = cluster.told.0.lock().unwrap();
        told.iter().any(|(to, r)| to.0 == 2 && matches!(r, ControlRequest::LeaderAndIsr(_)))
    })
    .await;
    let told = cluster.take_told();
    let first: Vec<_> = told.iter().filter(|(to, _)| to.0 == 2).map(|(_, r)| r).take(2).collect();
    let [ControlRequest::UpdateMetadata(all), ControlRequest::LeaderAndIsr(lead)] = first[..]
    else {
        panic!("{told:#?}")
    };
    assert_eq!((all.live_brokers.len(), all.topic_states[0].partition_states.len()), (3, 2));
    assert_eq!(lead.topic_states[0].partition_states.len(), 1);
    let others: Vec<_> = told.iter().filter(|(to, _)| to.0 == 1).map(|(_, r)| r).collect();
    let [ControlRequest::UpdateMetadata(brokers), ..] = others[..] else { panic!("{told:#?}") };
    assert_eq!((brokers.live_brokers.len(), brokers.topic_states.len()), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn the_isr_changes_as_its_leader_asks_if_it_may() {
    use ErrorCode::*;
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[1, 2, 0]]).await;
    cluster.take_told();
    assert_eq!(cluster.alter_isr("t", 0, &[1, 0]).await, code(None));
    assert_eq!(cluster.led("t", 0).await, Some((1, 0, vec![1, 0])), "in the same leader epoch");
    until(async || cluster.told.0.lock().unwrap().len() == 3).await;
    let told = cluster.take_told();
    assert!(told.iter().all(|(_, r)| matches!(r, ControlRequest::UpdateMetadata(_))), "{told:#?}");
    assert_eq!(cluster.alter_isr("t", 0, &[1, 0]).await, code(None), "it is so already");
    assert_eq!(cluster.state("t", 0).await.unwrap().1, 1, "and nothing is written");
    assert_eq!(cluster.alter_isr("t", 0, &[0]).await, code(InvalidRequest), "without the leader");
    assert_eq!(cluster.alter_isr("t", 0, &[1, 7]).await, code(IneligibleReplica), "not there");
    let asked = |leader_epoch, partition_epoch| PartitionData {
        leader_epoch,
        new_isr: vec![1, 0, 2],
        partition_epoch,
        ..Default::default()
    };
    assert_eq!(cluster.alter("t", 1, asked(0, 0)).await, code(InvalidUpdateVersion));
    assert_eq!(cluster.alter("t", 1, asked(0, 9)).await, code(NotController), "newer than ours");
    assert_eq!(cluster.alter("t", 1, asked(5, 1)).await, code(NotController));
    assert_eq!(cluster.alter("t", 0, asked(0, 1)).await, code(InvalidRequest), "not the leader");
    assert_eq!(cluster.alter("t", 7, asked(0, 1)).await, (StaleBrokerEpoch.code(), -1));
    cluster.kill(2).await;
    let members = |ids: &[i32]| ids.to_vec();
    until(async || cluster.alter_isr("t", 0, &[1, 0, 2]).await == code(IneligibleReplica)).await;
    assert_eq!(cluster.led("t", 0).await, Some((1, 0, members(&[1, 0]))));
    assert_eq!(cluster.alter("t", 1, asked(-1, 1)).await, code(FencedLeaderEpoch));
}

#[tokio::test(start_paused = true)]
async fn a_state_that_somebody_else_wrote_is_read_again() {
    let cluster = Cluster::start(0..=1).await;
    cluster.create("t", &[&[1, 0]]).await;
    let path = znodes::state_path("t", 0);
    let text = cluster.text(&path).await.unwrap().replace("[1,0]", "[1]");
    cluster.observer.set(&path, text, None).await.unwrap();
    // It knows of no such version yet: for all that it knows it is no longer controller.
    let first = cluster.alter_isr("t", 0, &[1, 0]).await;
    assert_eq!(first, code(ErrorCode::NotController));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_shuts_down_hands_over_first() {
    let cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1], &[1, 2]]).await;
    cluster.create("single", &[&[2]]).await;
    cluster.take_told();
    assert_eq!(cluster.shut_down(2).await, (0, 0));
    assert_eq!(cluster.led("t", 0).await, Some((1, 1, vec![1])));
    assert_eq!(cluster.led("t", 1).await, Some((1, 1, vec![1])));
    assert_eq!(cluster.led("single", 0).await, Some((2, 0, vec![2])), "nobody else has it");
    let stops = cluster.take_told().into_iter().filter_map(|(to, request)| match request {
        ControlRequest::StopReplica(stop) => Some((to.0, stop)),
        ControlRequest::LeaderAndIsr(_)
        | ControlRequest::UpdateMetadata(_)
        | ControlRequest::LogEnds(_) => Option::None,
    });
    let stops: Vec<_> = stops.collect();
    let [(2, stop)] = &stops[..] else { panic!("{stops:#?}") };
    let stopped = &stop.topic_states[0].partition_states[0];
    assert_eq!(
        (stopped.partition_index, stopped.leader_epoch, stopped.delete_partition),
        (1, 0, false)
    );
    // While it leaves it may not come back into an ISR, nor lead.
    let refused = cluster.alter_isr("t", 0, &[1, 2]).await;
    assert_eq!(refused, code(ErrorCode::IneligibleReplica));
    let elected = cluster
        .handle(0)
        .elect_leaders(ElectionType::Preferred, Some(vec![TopicPartition::new("t", 0)]), SOON)
        .await;
    let error = elected.unwrap()[0].1.as_ref().unwrap_err().code;
    assert_eq!(error, ErrorCode::PreferredLeaderNotAvailable);
}

#[tokio::test(start_paused = true)]
async fn who_leads_alone_leads_on_until_it_is_gone() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1]]).await;
    assert_eq!(cluster.alter_isr("t", 0, &[2]).await, code(ErrorCode::None));
    assert_eq!(cluster.shut_down(2).await, (0, 1));
    assert_eq!(cluster.led("t", 0).await, Some((2, 0, vec![2])));
    cluster.kill(1).await;
    cluster.kill(2).await;
    until(async || cluster.led("t", 0).await == Some((-1, 1, vec![2]))).await;
    cluster.join(1).await;
    cluster.join(2).await;
    until(async || cluster.led("t", 0).await == Some((2, 2, vec![2]))).await;
}

#[tokio::test(start_paused = true)]
async fn an_unclean_election_waits_for_the_setting_and_follows_it_at_once() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[2, 1]]).await;
    assert_eq!(cluster.alter_isr("t", 0, &[2]).await, code(ErrorCode::None));
    cluster.kill(2).await;
    until(async || cluster.led("t", 0).await == Some((-1, 1, vec![2]))).await;
    let op = ConfigOp {
        name: "unclean.leader.election.enable".into(),
        kind: ConfigOpKind::Set,
        value: Some("true".into()),
    };
    let entity = ConfigEntity::Topic("t".into());
    let alteration = ConfigAlteration { entity, edit: ConfigEdit::Incremental(vec![op]) };
    // At a broker that is not the controller.
    let altered = cluster.handle(1).alter_configs(vec![alteration], false).await;
    assert_eq!(altered, [Ok(())]);
    until(async || cluster.led("t", 0).await == Some((1, 2, vec![1]))).await;
    let state = cluster.text(&znodes::state_path("t", 0)).await.unwrap();
    assert!(state.contains(r#""leader_recovery_state":1"#), "{state}");
}

#[tokio::test(start_paused = true)]
async fn a_reassignment_grows_catches_up_and_shrinks() {
    let cluster = Cluster::start(0..=3).await;
    cluster.create("t", &[&[3, 1]]).await;
    cluster.take_told();
    assert_eq!(cluster.reassign("t", Some(&[2, 1])).await, Ok(()));
    let node = cluster.text("/brokers/topics/t").await.unwrap();
    let moving = r#""adding_replicas":{"0":[2]},"removing_replicas":{"0":[3]}"#;
    assert!(node.contains(r#""partitions":{"0":[2,1,3]}"#) && node.contains(moving), "{node}");
    assert_eq!(cluster.led("t", 0).await, Some((3, 1, vec![3, 1])));
    cluster.take_told();
    assert_eq!(cluster.alter_isr("t", 0, &[3, 1, 2]).await, code(ErrorCode::None));
    until(async || cluster.led("t", 0).await == Some((2, 2, vec![1, 2]))).await;
    let done = r#""partitions":{"0":[2,1]}"#;
    until(async || cluster.text("/brokers/topics/t").await.unwrap().contains(done)).await;
    let stopped = |(to, request): &(BrokerId, ControlRequest)| {
        to.0 == 3
            && matches!(request, ControlRequest::StopReplica(stop)
                if stop.topic_states[0].partition_states[0].delete_partition)
    };
    until(async || cluster.told.0.lock().unwrap().iter().any(stopped)).await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_reassignment_leaves_no_trace_and_no_hole() {
    let mut cluster = Cluster::start(0..=3).await;
    cluster.create("t", &[&[3, 1]]).await;
    assert_eq!(cluster.reassign("t", Some(&[2, 1])).await, Ok(()));
    assert_eq!(cluster.alter_isr("t", 0, &[3, 1]).await, code(ErrorCode::None));
    cluster.take_told();
    assert_eq!(cluster.reassign("t", Option::None).await, Ok(()));
    let node = cluster.text("/brokers/topics/t").await.unwrap();
    assert!(node.contains(r#"{"0":[1,3]},"#) || node.contains(r#"{"0":[3,1]},"#), "{node}");
    assert!(node.contains(r#""adding_replicas":{},"removing_replicas":{}"#), "{node}");
    until(async || {
        cluster
            .told
            .0
            .lock()
            .unwrap()
            .iter()
            .any(|(to, request)| to.0 == 2 && matches!(request, ControlRequest::StopReplica(_)))
    })
    .await;
    // Only a new replica is in sync and the old ones are gone: going back would lose records.
    assert_eq!(cluster.reassign("t", Some(&[2, 0])).await, Ok(()));
    let isr = [&cluster.led("t", 0).await.unwrap().2[..], &[2]].concat();
    assert_eq!(cluster.alter_isr("t", 0, &isr).await, code(ErrorCode::None));
    cluster.kill(3).await;
    cluster.kill(1).await;
    until(async || cluster.led("t", 0).await.unwrap().2 == [2]).await;
    let refused = Err(ErrorCode::InvalidReplicaAssignment);
    assert_eq!(cluster.reassign("t", Option::None).await, refused);
}

#[tokio::test(start_paused = true)]
async fn nodes_of_old_tools_are_acted_on_and_junk_is_left_alone() {
    let cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[1, 0]]).await;
    let create = async |path: &str, data: &str| {
        let data = Some(data.to_owned().into());
        cluster.observer.create(path, data, CreateMode::Persistent).await.unwrap();
    };
    create(
        "/admin/reassign_partitions",
        r#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,0]},{"topic":"no","partition":0,"replicas":[1]}]}"#,
    )
    .await;
    let left = r#"{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,0]}]}"#;
    until(async || cluster.text("/admin/reassign_partitions").await.as_deref() == Some(left)).await;
    until(async || cluster.led("t", 0).await.unwrap().1 == 1).await;
    assert_eq!(cluster.alter_isr("t", 0, &[1, 0, 2]).await, code(ErrorCode::None));
    until(async || cluster.text("/admin/reassign_partitions").await.is_none()).await;
    assert_eq!(cluster.led("t", 0).await, Some((2, 2, vec![0, 2])));
    create("/admin/reassign_partitions", "junk").await;
    create("/brokers/topics/junk", "{").await;
    create("/brokers/ids/8", "{}").await;
    create("/brokers/ids/9", "junk").await;
    create("/admin/preferred_replica_election", r#"{"version":1,"partitions":[]}"#).await;
    until(async || cluster.text("/admin/preferred_replica_election").await.is_none()).await;
    cluster.create("fine", &[&[1]]).await;
    for (path, text) in [("/admin/reassign_partitions", "junk"), ("/brokers/topics/junk", "{")] {
        assert_eq!(cluster.text(path).await.as_deref(), Some(text));
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_that_cannot_be_read_is_never_overwritten() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[1, 2], &[1, 2]]).await;
    let path = znodes::state_path("t", 0);
    cluster.observer.set(&path, "junk", Option::None).await.unwrap();
    cluster.kill(0).await;
    until(async || cluster.controller().await.is_some()).await;
    let other = if cluster.controller().await == Some(1) { 2 } else { 1 };
    cluster.kill(other).await;
    let led = async || cluster.led("t", 1).await.unwrap();
    until(async || led().await.2.len() == 1).await;
    assert_eq!(cluster.text(&path).await.as_deref(), Some("junk"));
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_read_is_taken_up_when_it_is_mended() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[1, 2], &[1, 2]]).await;
    let state = znodes::state_path("t", 0);
    let good = cluster.text(&state).await.unwrap();
    let topic = r#"{"partitions":{"0":[1]},"topic_id":"no id","adding_replicas":{},"removing_replicas":{},"version":3}"#;
    let new = Some(topic.to_owned().into());
    cluster.observer.create("/brokers/topics/new", new, CreateMode::Persistent).await.unwrap();
    cluster.observer.set(&state, r#"{"leader":1}"#, Option::None).await.unwrap();
    // Another controller finds both.
    cluster.kill(0).await;
    until(async || cluster.controller().await.is_some()).await;
    cluster.create("fine", &[&[1, 2]]).await;
    assert_eq!(cluster.text("/brokers/topics/new").await.as_deref(), Some(topic));
    assert_eq!(cluster.text(&state).await.as_deref(), Some(r#"{"leader":1}"#));
    cluster.take_told();
    cluster.observer.set(&state, good, Option::None).await.unwrap();
    until(async || {
        let leads = |(to, request): &(BrokerId, ControlRequest)| {
            to.0 == 1
                && matches!(request, ControlRequest::LeaderAndIsr(lead) if lead.topic_states.iter()
                    .any(|topic| &*topic.topic_name == "t" && topic.partition_states.iter().any(|p| p.partition_index == 0)))
        };
        cluster.told.0.lock().unwrap().iter().any(leads)
    })
    .await;
    let id = cluster.topic_id("t").await.to_string();
    let mended = topic.replace("no id", &id.replace(&id[..4], "AAAA"));
    cluster.observer.set("/brokers/topics/new", mended, Option::None).await.unwrap();
    until(async || cluster.led("new", 0).await == Some((1, 0, vec![1]))).await;
}

#[tokio::test(start_paused = true)]
async fn a_topic_whose_node_became_junk_is_not_overwritten() {
    let cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[1, 2]]).await;
    cluster.observer.set("/brokers/topics/t", "junk", Option::None).await.unwrap();
    let refused = Err(ErrorCode::UnknownServerError);
    assert_eq!(cluster.reassign("t", Some(&[0, 1])).await, refused);
    let new = NewPartitions { topic: "t".into(), total: 2, assignments: Some(vec![vec![1]]) };
    let id = cluster.controller().await.unwrap();
    let mut grown = cluster.handle(id).create_partitions(vec![new], SOON, false).await;
    assert!(grown.remove(0).1.is_err());
    assert_eq!(cluster.text("/brokers/topics/t").await.as_deref(), Some("junk"));
}

#[tokio::test(start_paused = true)]
async fn what_lost_events_would_have_told_is_found_by_comparing() {
    let mut cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[1, 2], &[2, 1]]).await;
    cluster.create("grows", &[&[1]]).await;
    cluster.create("doomed", &[&[1]]).await;
    assert_eq!(cluster.controller().await, Some(0));
    // The controller looks after what it has just made itself.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    for member in cluster.members.values() {
        member.deaf.store(true, Ordering::Relaxed);
    }
    cluster.try_join(3, 9093, Option::None).await.unwrap();
    cluster.members[&3].deaf.store(true, Ordering::Relaxed);
    cluster.kill(2).await;
    let topic =
        r#"{"partitions":{"0":[1]},"adding_replicas":{},"removing_replicas":{},"version":3}"#;
    let create = async |path: &str, data: &str| {
        let data = Some(data.to_owned().into());
        cluster.observer.create(path, data, CreateMode::Persistent).await.unwrap();
    };
    create("/brokers/topics/new", topic).await;
    create("/admin/delete_topics/doomed", "").await;
    let grown = cluster.text("/brokers/topics/grows").await.unwrap();
    let grown = grown.replace(r#""0":[1]"#, r#""0":[1],"1":[1]"#);
    cluster.observer.set("/brokers/topics/grows", grown, Option::None).await.unwrap();
    // A leader of old that writes its state itself, without a word to the controller.
    let (mut state, _) = cluster.state("t", 0).await.unwrap();
    state.isr = vec![BrokerId(1)];
    let path = znodes::state_path("t", 0);
    cluster.observer.set(&path, znodes::state(&state), Option::None).await.unwrap();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.led("t", 1).await.unwrap().0, 2, "nobody has heard that 2 is gone");
    assert!(cluster.led("new", 0).await.is_none() && cluster.led("grows", 1).await.is_none());
    cluster.take_told();
    tokio::time::advance(RECONCILE).await;
    let is_taken_up = async || {
        cluster.led("t", 1).await.unwrap().0 == 1
            && cluster.led("new", 0).await == Some((1, 0, vec![1]))
            && cluster.led("grows", 1).await == Some((1, 0, vec![1]))
            && cluster.text("/brokers/topics/doomed").await.is_none()
    };
    until(is_taken_up).await;
    cluster.hears_of(1, 3).await;
    // From here on it goes by the state that it had not heard of.
    assert_eq!(cluster.alter_isr("t", 0, &[1]).await, code(ErrorCode::None));
    // Nor had the others heard that the controller is gone.
    cluster.kill(0).await;
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.controller().await, Option::None);
    tokio::time::advance(RECONCILE).await;
    until(async || cluster.controller().await.is_some()).await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_was_restored_from_an_old_copy_is_not_led_by_who_knows_better() {
    let mut cluster = Cluster::start(0..=1).await;
    cluster.create("t", &[&[1, 0]]).await;
    cluster.kill(0).await;
    until(async || cluster.text("/controller_epoch").await.as_deref() == Some("2")).await;
    cluster.join(0).await;
    // 0 has seen what it led in; 1 leads.
    cluster.epochs[&0].raise(ControllerEpoch(2));
    cluster.observer.set("/controller_epoch", "1", Option::None).await.unwrap();
    cluster.observer.delete("/controller", Option::None).await.unwrap();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.controller().await, Option::None);
    cluster.kill(0).await;
    let refused = cluster.try_join(0, 9090, Option::None).await.unwrap_err();
    let (store, seen) = (ControllerEpoch(1), ControllerEpoch(2));
    assert!(
        matches!(refused, ControllerError::StoreIsOld { store: s, seen: n } if (s, n) == (store, seen)),
        "{refused}"
    );
    assert!(refused.to_string().contains("set /controller_epoch 2"), "{refused}");
    cluster.observer.delete("/controller_epoch", Option::None).await.unwrap();
    let refused = cluster.try_join(0, 9090, Option::None).await.unwrap_err();
    assert!(matches!(refused, ControllerError::StoreIsOld { .. }), "{refused}");
    let create = async |path: &str, data: &'static str| {
        cluster.observer.create(path, Some(data.into()), CreateMode::Persistent).await.unwrap();
    };
    create("/controller_epoch", "2").await;
    create("/barnabas/raise_leader_epochs", "1000").await;
    cluster.try_join(0, 9090, Option::None).await.unwrap();
    later(async || cluster.controller().await.is_some()).await;
    assert_eq!(cluster.text("/controller_epoch").await.as_deref(), Some("3"));
    later(async || cluster.text("/barnabas/raise_leader_epochs").await.is_none()).await;
    assert!(cluster.led("t", 0).await.is_some_and(|(_, epoch, _)| epoch >= 1000));
}

#[tokio::test(start_paused = true)]
async fn an_election_that_something_hinders_is_held_when_it_is_removed() {
    let cluster = Cluster::start(0..=1).await;
    cluster.observer.set("/controller_epoch", "junk", Option::None).await.unwrap();
    cluster.observer.delete("/controller", Option::None).await.unwrap();
    let in_the_way = Some("junk".into());
    cluster.observer.create("/controller", in_the_way, CreateMode::Persistent).await.unwrap();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.text("/controller").await.as_deref(), Some("junk"));
    cluster.observer.delete("/controller", Option::None).await.unwrap();
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.text("/controller_epoch").await.as_deref(), Some("junk"));
    cluster.observer.set("/controller_epoch", "7", Option::None).await.unwrap();
    later(async || cluster.controller().await.is_some()).await;
    assert_eq!(cluster.text("/controller_epoch").await.as_deref(), Some("8"));
}

#[tokio::test(start_paused = true)]
async fn any_broker_creates_what_its_clients_ask_about() {
    let cluster = Cluster::start(0..=2).await;
    let topic = NewTopic { replication_factor: 3, ..new_topic("asked", 2) };
    assert!(cluster.handle(2).auto_create_topics(vec![topic]));
    until(async || cluster.led("asked", 1).await.is_some_and(|(_, _, isr)| isr.len() == 3)).await;
}

#[tokio::test(start_paused = true)]
async fn a_registration_that_somebody_removed_is_made_again() {
    let cluster = Cluster::start(0..=1).await;
    let before = cluster.handle(1).broker_epoch();
    cluster.observer.delete("/brokers/ids/1", Option::None).await.unwrap();
    until(async || cluster.text("/brokers/ids/1").await.is_some()).await;
    until(async || cluster.handle(1).broker_epoch() > before).await;
}

#[tokio::test(start_paused = true)]
async fn only_the_controller_watches_topics_and_brokers() {
    let cluster = Cluster::start(0..=2).await;
    cluster.create("t", &[&[1, 2]]).await;
    for id in [1, 2] {
        let watched = cluster.members[&id].watched.lock().unwrap().clone();
        let own = format!("/brokers/ids/{id}");
        let allowed = [own.as_str(), "/config/changes", "/controller"];
        assert!(watched.iter().eq(allowed), "broker {id}: {watched:?}");
    }
}

/// What a client does, and how far the test drives it besides.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Story {
    CreateTopic,
    AddPartitions,
    DeleteTopic,
    Reassign,
    CatchUp,
    Cancel,
    Elect,
    ShutDown,
    Unclean,
    LoseBroker,
    LoseSoleLeader,
}

/// After every write of every operation the controller dies: the next one finishes what was begun, or
/// nothing of it is there.
#[tokio::test(start_paused = true)]
async fn a_controller_may_die_after_any_write() {
    use Story::*;
    for story in [
        CreateTopic,
        AddPartitions,
        DeleteTopic,
        Reassign,
        CatchUp,
        Cancel,
        Elect,
        ShutDown,
        Unclean,
        LoseBroker,
        LoseSoleLeader,
    ] {
        let mut ended = false;
        let mut tries = 0;
        while !ended {
            ended = die_after(story, tries).await;
            tries += 1;
        }
        assert!(tries > 1, "{story:?} writes nothing");
    }
}

/// Whether the story ended before the controller died.
async fn die_after(story: Story, writes: usize) -> bool {
    let mut cluster = Cluster::start(0..=3).await;
    cluster.create("t", &[&[1, 2]]).await;
    assert_eq!(cluster.controller().await, Some(0));
    let at = TopicPartition::new("t", 0);
    match story {
        Story::Cancel | Story::CatchUp => {
            cluster.reassign("t", Some(&[3, 2])).await.unwrap();
        }
        Story::Elect => {
            // The preferred replica lost the leadership and is back.
            let state = cluster.state("t", 0).await.unwrap().0;
            assert_eq!(state.leader, Some(BrokerId(1)));
            assert_eq!(cluster.shut_down(1).await, (0, 0));
            cluster.kill(1).await;
            cluster.join(1).await;
            until(async || cluster.alter_isr("t", 0, &[2, 1]).await == code(ErrorCode::None)).await;
        }
        // Led again by who left the ISR, which is below its minimum.
        Story::LoseSoleLeader => {
            cluster.create_with_min("small", &[1, 2], 2).await;
            assert_eq!(cluster.alter_isr("small", 0, &[1]).await, code(ErrorCode::None));
        }
        Story::CreateTopic
        | Story::AddPartitions
        | Story::DeleteTopic
        | Story::Reassign
        | Story::ShutDown
        | Story::Unclean
        | Story::LoseBroker => {}
    }
    let doomed = cluster.handle(0).clone();
    let two = [vec![1, 2], vec![2, 1]];
    *cluster.members[&0].budget.lock().unwrap() = Some(writes);
    let shutdown = ControlledShutdownRequest {
        broker_id: 1,
        broker_epoch: cluster.handle(1).broker_epoch().0,
    };
    let caught_up = {
        let (node, version) = cluster.state("t", 0).await.unwrap();
        let asked = PartitionData {
            leader_epoch: node.leader_epoch.0,
            new_isr: vec![1, 2, 3],
            partition_epoch: version,
            ..Default::default()
        };
        let topic = TopicData {
            topic_id: cluster.topic_id("t").await,
            partitions: vec![asked],
            ..Default::default()
        };
        let broker_epoch = cluster.handle(1).broker_epoch().0;
        AlterPartitionRequest { broker_id: 1, broker_epoch, topics: vec![topic] }
    };
    let acting = {
        let (doomed, at) = (doomed.clone(), at.clone());
        tokio::spawn(async move {
            match story {
                Story::CreateTopic => {
                    let assignments = vec![(0, two[0].clone()), (1, two[1].clone())];
                    let topic = NewTopic { assignments, ..new_topic("new", -1) };
                    doomed.create_topics(vec![topic], SOON, false).await;
                }
                Story::AddPartitions => {
                    let new = NewPartitions {
                        topic: "t".into(),
                        total: 3,
                        assignments: Some(two.to_vec()),
                    };
                    doomed.create_partitions(vec![new], SOON, false).await;
                }
                Story::DeleteTopic => {
                    doomed.delete_topics(vec!["t".into()], SOON).await;
                }
                Story::Reassign => {
                    let target = Some(vec![BrokerId(3), BrokerId(2)]);
                    let _ = doomed.alter_reassignments(vec![(at, target)]).await;
                }
                Story::CatchUp => {
                    doomed.alter_partition(caught_up, 2).await;
                }
                Story::Cancel => {
                    let _ = doomed.alter_reassignments(vec![(at, Option::None)]).await;
                }
                Story::Elect => {
                    let _ =
                        doomed.elect_leaders(ElectionType::Preferred, Some(vec![at]), SOON).await;
                }
                Story::ShutDown => {
                    doomed.controlled_shutdown(shutdown).await;
                }
                Story::Unclean => {
                    let op = ConfigOp {
                        name: "unclean.leader.election.enable".into(),
                        kind: ConfigOpKind::Set,
                        value: Some("true".into()),
                    };
                    let entity = ConfigEntity::Topic("t".into());
                    let edit = ConfigEdit::Incremental(vec![op]);
                    doomed.alter_configs(vec![ConfigAlteration { entity, edit }], false).await;
                }
                Story::LoseBroker | Story::LoseSoleLeader => {}
            }
        })
    };
    if matches!(story, Story::LoseBroker | Story::LoseSoleLeader) {
        cluster.kill(1).await;
    }
    let frozen = async || *cluster.members[&0].budget.lock().unwrap() == Some(0);
    let mut turns = 0;
    while turns < 2000 && !acting.is_finished() && !frozen().await {
        turns += 1;
        tokio::task::yield_now().await;
    }
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    let ended = !frozen().await;
    cluster.kill(0).await;
    acting.abort();
    until(async || cluster.controller().await.is_some()).await;
    settles(&cluster, story, writes).await;
    ended
}

/// Leaders ask for what the story needs; then everything is as one controller alone would have left it.
async fn settles(cluster: &Cluster, story: Story, writes: usize) {
    let context = format!("{story:?} after {writes} writes");
    for round in 0.. {
        assert!(round < 2000, "does not settle: {context}");
        tokio::task::yield_now().await;
        let topics = cluster.observer.children("/brokers/topics", false).await.unwrap();
        let marked = cluster.observer.children("/admin/delete_topics", false).await.unwrap();
        let mut is_settled = marked.is_empty();
        for topic in topics {
            let node = cluster.text(&znodes::topic_path(&topic)).await;
            let Some(node) = node.and_then(|node| znodes::parse_topic(node.as_bytes())) else {
                is_settled = false;
                continue;
            };
            for (&index, replicas) in &node.partitions {
                let Some((state, _)) = cluster.state(&topic, index).await else {
                    is_settled = false;
                    continue;
                };
                let live = |id: &BrokerId| cluster.members.contains_key(&id.0);
                is_settled &= state.leader.is_some_and(|id| live(&id));
                is_settled &= state.isr.iter().all(|id| live(id) && replicas.contains(id));
                if node.adding.contains_key(&index) || node.removing.contains_key(&index) {
                    is_settled = false;
                    let asked: Vec<i32> =
                        replicas.iter().filter(|id| live(id)).map(|id| id.0).collect();
                    // One that is in sync already says nothing more: the controller must see for itself.
                    let in_sync = |id: &i32| state.isr.contains(&BrokerId(*id));
                    if state.leader.is_some() && !asked.iter().all(in_sync) {
                        cluster.alter_isr(&topic, index, &asked).await;
                    }
                }
            }
        }
        if is_settled {
            break;
        }
    }
    let node = cluster.text("/brokers/topics/t").await;
    let node = node.and_then(|node| znodes::parse_topic(node.as_bytes()));
    if story == Story::DeleteTopic && writes > 0 {
        assert!(node.is_none(), "{context}");
        assert_eq!(cluster.text("/config/topics/t").await, Option::None, "{context}");
        return;
    }
    let replicas = node.expect(&context).partitions[&0].clone();
    if story == Story::CatchUp || (story == Story::Reassign && writes > 0) {
        assert_eq!(replicas, [BrokerId(3), BrokerId(2)], "{context}");
    }
}
