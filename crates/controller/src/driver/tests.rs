use super::*;
use crate::*;
use coordination::local::LocalStore;
use coordination::{CreateMode, SessionHandle};
use metadata::{BrokerImage, ConfigChange, ConfigEntity, Endpoint, SecurityProtocol};
use model::Timestamp;
use platform::MemoryDisk;
use platform::clock::ManualClock;
use platform::random::SeededRandom;
use protocol::messages::leader_and_isr_request::LeaderAndIsrPartitionState;
use protocol::messages::leader_and_isr_response::{
    LeaderAndIsrPartitionError, LeaderAndIsrTopicError,
};
use protocol::messages::{AllocateProducerIdsRequest, LeaderAndIsrResponse};
use protocol::messages::{StopReplicaResponse, UpdateMetadataResponse};
use std::path::Path;
use std::sync::Mutex;

pub(super) const NOW: Timestamp = Timestamp(1_795_970_423_193);
pub(super) const SOON: Duration = Duration::from_secs(30);

/// A broker that does what it is told, unless it is `deaf`; notes everything.
#[derive(Debug, Default)]
struct FakeBroker {
    told: Mutex<Vec<ControlRequest>>,
    configs: Mutex<Vec<ConfigChange>>,
    deaf: std::sync::atomic::AtomicBool,
    /// Its disk takes no new partitions.
    full: std::sync::atomic::AtomicBool,
}

#[derive(Clone, Debug, Default)]
struct Fake(Arc<FakeBroker>);

impl ControlChannel for Fake {
    fn send(&self, request: ControlRequest) -> Answering {
        if self.0.deaf.load(std::sync::atomic::Ordering::Relaxed) {
            return Box::pin(std::future::pending());
        }
        let response = match &request {
            ControlRequest::LeaderAndIsr(request) => {
                let is_full = self.0.full.load(std::sync::atomic::Ordering::Relaxed);
                let topics = request.topic_states.iter().filter(|_| is_full).map(|topic| {
                    let failed = |state: &LeaderAndIsrPartitionState| LeaderAndIsrPartitionError {
                        topic_name: topic.topic_name.clone(),
                        partition_index: state.partition_index,
                        error_code: ErrorCode::KafkaStorageError.code(),
                    };
                    LeaderAndIsrTopicError {
                        topic_id: topic.topic_id,
                        partition_errors: topic.partition_states.iter().map(failed).collect(),
                    }
                });
                let topics = topics.collect();
                ControlResponse::LeaderAndIsr(LeaderAndIsrResponse { topics, ..Default::default() })
            }
            ControlRequest::UpdateMetadata(_) => {
                ControlResponse::UpdateMetadata(UpdateMetadataResponse::default())
            }
            ControlRequest::StopReplica(_) => {
                ControlResponse::StopReplica(StopReplicaResponse::default())
            }
            ControlRequest::LogEnds(_) => {
                ControlResponse::LogEnds(protocol::messages::ListOffsetsResponse::default())
            }
        };
        self.0.told.lock().unwrap().push(request);
        Box::pin(std::future::ready(Ok(response)))
    }
}

impl ControlChannels for Fake {
    fn open(&self, _: &BrokerImage) -> Arc<dyn ControlChannel> {
        Arc::new(self.clone())
    }
}

/// Nobody wants to know of registrations.
#[derive(Debug)]
pub(super) struct Unheard;

impl ClusterView for Unheard {
    fn live_brokers(&self) -> BTreeSet<BrokerId> {
        BTreeSet::new()
    }
}

impl RegistrationListener for Unheard {
    fn registration_lost(&self, _: BrokerEpoch) {}
}

impl ConfigListener for Fake {
    fn config_changed(&self, change: ConfigChange) {
        self.0.configs.lock().unwrap().push(change);
    }
}

impl ConfigRules for Fake {
    fn is_list(&self, _: &ConfigEntity, name: &str) -> Option<bool> {
        Some(name == "cleanup.policy")
    }

    fn default_value(&self, _: &ConfigEntity, _: &str) -> Option<String> {
        None
    }

    fn validate_new_topic(
        &self,
        name: &TopicName,
        configs: &BTreeMap<String, String>,
    ) -> Result<(), ApiError> {
        self.validate(&ConfigEntity::Topic(name.clone()), configs, &[])
    }

    fn validate(
        &self,
        _: &ConfigEntity,
        configs: &BTreeMap<String, String>,
        _: &[String],
    ) -> Result<(), ApiError> {
        match configs.contains_key("no.such") {
            true => {
                Err(ApiError::new(ErrorCode::InvalidConfig, "Unknown topic config name: no.such"))
            }
            false => Ok(()),
        }
    }
}

struct Cluster {
    handle: ControllerHandle,
    session: SessionHandle,
    fake: Fake,
    clock: Arc<ManualClock>,
}

impl Cluster {
    async fn start(disk: &MemoryDisk) -> Self {
        let clock = Arc::new(ManualClock::at(NOW));
        let store: Arc<dyn Store> = Arc::new(
            LocalStore::open_inline(Arc::new(disk.clone()), Path::new("/s"), clock.clone())
                .unwrap(),
        );
        let (session, events) = store.open_session().await.unwrap();
        drop(events);
        let fake = Fake::default();
        let endpoint = endpoint(9092);
        let settings = ControllerSettings {
            broker: BrokerImage { id: BrokerId(0), rack: None, endpoints: vec![endpoint] },
            inter_broker_listener: "PLAINTEXT".into(),
            num_partitions: 3,
            default_replication_factor: 1,
            placement: Placement::Kafka,
            unclean_leader_election: false,
            min_insync_replicas: 1,
            delete_topics: true,
            auto_leader_rebalance: true,
            leader_imbalance_percentage: 10,
            leader_imbalance_interval: Duration::from_secs(300),
            fast_failure_detection: true,
            log_doubt: None,
            unclean_restart_wait: Duration::from_secs(300),
            reconcile_interval: None,
        };
        let surroundings = Surroundings {
            channels: Arc::new(fake.clone()),
            configs: Arc::new(fake.clone()),
            rules: Arc::new(fake.clone()),
            broker_epoch: Arc::default(),
            registration: Arc::new(Unheard),
            cluster: Arc::new(Unheard),
            clock: clock.clone(),
            random: Arc::new(SeededRandom::new(1)),
        };
        let member = Membership::join(store, "1D3O7chIQLG42yUhs9jUKw").await.unwrap();
        assert_eq!(member.cluster_id(), "1D3O7chIQLG42yUhs9jUKw");
        let (handle, driver) = member.start(settings, surroundings).await.unwrap();
        tokio::spawn(driver.run());
        Self { handle, session, fake, clock }
    }

    async fn create(&self, name: &str, partitions: i32) -> Result<CreatedTopic, ApiError> {
        self.create_all(vec![new_topic(name, partitions)]).await.remove(0).1
    }

    async fn create_all(&self, topics: Vec<NewTopic>) -> PerTopic<CreatedTopic> {
        self.handle.create_topics(topics, SOON, false).await
    }

    async fn delete(&self, name: &str) -> Result<(), ApiError> {
        self.handle.delete_topics(vec![name.into()], SOON).await.remove(0).1
    }

    async fn producer_ids(&self) -> Result<ProducerIdBlock, ApiError> {
        let broker_epoch = self.handle.broker_epoch().0;
        let request = AllocateProducerIdsRequest { broker_id: 0, broker_epoch };
        self.handle.allocate_producer_ids(request).await
    }

    async fn text(&self, path: &str) -> Option<String> {
        let (data, _) = self.session.get(path, false).await.ok()?;
        Some(data.map_or("null".into(), |data| String::from_utf8(data.to_vec()).unwrap()))
    }

    fn take_told(&self) -> Vec<ControlRequest> {
        std::mem::take(&mut *self.fake.0.told.lock().unwrap())
    }

    async fn stop(self) {
        self.handle.stop().await;
    }
}

pub(super) fn endpoint(port: i32) -> Endpoint {
    Endpoint {
        listener: "PLAINTEXT".into(),
        host: "127.0.0.1".into(),
        port,
        security_protocol: SecurityProtocol::Plaintext,
    }
}

pub(super) fn new_topic(name: &str, partitions: i32) -> NewTopic {
    NewTopic { name: name.into(), partitions, replication_factor: -1, ..NewTopic::default() }
}

fn codes<T>(results: &PerTopic<T>) -> Vec<i16> {
    results.iter().map(|(_, r)| r.as_ref().map_or_else(|e| e.code.code(), |_| 0)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_first_start_leaves_what_kafkas_does() {
    let cluster = Cluster::start(&MemoryDisk::new()).await;
    cluster.create("t", 1).await.unwrap();
    for (path, expected) in [
        ("/admin/delete_topics", "null"),
        ("/brokers/seqid", "null"),
        ("/latest_producer_id_block", "null"),
        ("/config/topics", "null"),
        ("/cluster/id", r#"{"version":"1","id":"1D3O7chIQLG42yUhs9jUKw"}"#),
        ("/controller_epoch", "1"),
        (
            "/controller",
            r#"{"version":2,"brokerid":0,"timestamp":"1795970423193","kraftControllerEpoch":-1}"#,
        ),
        ("/feature", r#"{"features":{},"version":2,"status":1}"#),
        (
            "/brokers/ids/0",
            r#"{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:9092"],"jmx_port":-1,"port":9092,"host":"127.0.0.1","version":5,"timestamp":"1795970423193"}"#,
        ),
        ("/config/topics/t", r#"{"version":1,"config":{}}"#),
        ("/brokers/topics/t/partitions", "null"),
        ("/brokers/topics/t/partitions/0", "null"),
        (
            "/brokers/topics/t/partitions/0/state",
            r#"{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}"#,
        ),
    ] {
        assert_eq!(cluster.text(path).await.as_deref(), Some(expected), "{path}");
    }
    let stat = cluster.session.exists("/brokers/ids/0", false).await.unwrap().unwrap();
    assert_eq!((stat.version, stat.ephemeral_owner.is_some()), (1, true));
}

#[tokio::test(start_paused = true)]
async fn a_new_topic_is_announced_to_its_leader_first_and_then_to_all() {
    let cluster = Cluster::start(&MemoryDisk::new()).await;
    let created = cluster.create("t", -1).await.unwrap();
    assert_eq!((created.partitions, created.replication_factor), (3, 1));
    let told = cluster.take_told();
    let [
        ControlRequest::UpdateMetadata(brokers),
        ControlRequest::LeaderAndIsr(lead),
        ControlRequest::UpdateMetadata(all),
    ] = &told[..]
    else {
        panic!("{told:#?}")
    };
    assert_eq!((brokers.live_brokers.len(), brokers.topic_states.len()), (1, 0));
    let topic = &lead.topic_states[0];
    assert_eq!(Some(topic.topic_id), created.id);
    assert!(topic.partition_states.iter().all(|p| p.is_new && p.leader == 0 && p.isr == [0]));
    assert_eq!(all.topic_states[0].partition_states.len(), 3);
    assert_eq!(all.controller_epoch, 1);
    let again = cluster.create("t", 1).await.unwrap_err();
    assert_eq!(again.code, ErrorCode::TopicAlreadyExists);
    assert_eq!(again.message.as_deref(), Some("Topic 't' already exists."));
}

/// Restarted under load, a broker answered UNKNOWN_TOPIC_OR_PARTITION for an instant: it took an image
/// without topics for the whole cluster and let clients in.
#[tokio::test(start_paused = true)]
async fn a_broker_that_is_alone_leads_everything_before_it_knows_its_cluster() {
    let disk = MemoryDisk::new();
    Cluster::start(&disk).await.create("t", 2).await.unwrap();
    let cluster = Cluster::start(&disk.copy()).await;
    cluster.create("u", 1).await.unwrap();
    let told = cluster.take_told();
    let [ControlRequest::LeaderAndIsr(lead), ControlRequest::UpdateMetadata(first), ..] = &told[..]
    else {
        panic!("{told:#?}")
    };
    assert_eq!(lead.topic_states[0].partition_states.len(), 2);
    assert_eq!(first.live_brokers.len(), 1);
    assert_eq!(first.topic_states[0].partition_states.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_created_is_refused_and_the_rest_is_created() {
    let cluster = Cluster::start(&MemoryDisk::new()).await;
    let configured = |name: &str, key: &str, value: Option<&str>| NewTopic {
        configs: vec![(key.into(), value.map(str::to_owned))],
        ..new_topic(name, 1)
    };
    let assigned = |name: &str, replicas: &[i32], partitions| NewTopic {
        assignments: vec![(0, replicas.to_vec())],
        ..new_topic(name, partitions)
    };
    let topics = vec![
        new_topic("good", 1),
        new_topic("bad name", 1),
        new_topic("zero", 0),
        NewTopic { replication_factor: 2, ..new_topic("factor", 1) },
        configured("config", "no.such", Some("1")),
        configured("null", "retention.ms", None),
        assigned("both", &[0], 1),
        assigned("twice", &[0, 0], -1),
        new_topic("a.b", 1),
        new_topic("a_b", 1),
        configured("fine", "retention.ms", Some("1")),
        assigned("chosen", &[0], -1),
    ];
    let results = cluster.create_all(topics).await;
    let expected = [
        ErrorCode::None,
        ErrorCode::InvalidTopicException,
        ErrorCode::InvalidPartitions,
        ErrorCode::InvalidReplicationFactor,
        ErrorCode::InvalidConfig,
        ErrorCode::InvalidConfig,
        ErrorCode::InvalidRequest,
        ErrorCode::InvalidReplicaAssignment,
        ErrorCode::None,
        ErrorCode::InvalidTopicException,
        ErrorCode::None,
        ErrorCode::None,
    ];
    assert_eq!(codes(&results), expected.map(ErrorCode::code));
    assert_eq!(
        cluster.text("/config/topics/fine").await.as_deref(),
        Some(r#"{"version":1,"config":{"retention.ms":"1"}}"#)
    );
    let configs = cluster.fake.0.configs.lock().unwrap().clone();
    let told = configs.iter().find(|c| c.entity == ConfigEntity::Topic("fine".into())).unwrap();
    assert_eq!(told.configs["retention.ms"], "1");
    let only_checked = cluster.handle.create_topics(vec![new_topic("dry", 1)], SOON, true).await;
    assert_eq!(codes(&only_checked), [0]);
    assert_eq!(cluster.text("/brokers/topics/dry").await, None);
}

#[tokio::test(start_paused = true)]
async fn a_client_waits_for_the_brokers_no_longer_than_it_wants() {
    let cluster = Cluster::start(&MemoryDisk::new()).await;
    cluster.create("first", 1).await.unwrap();
    let at_once =
        cluster.handle.create_topics(vec![new_topic("t0", 1)], Duration::ZERO, false).await;
    let late = at_once[0].1.as_ref().unwrap();
    assert!(!late.is_ready && late.id.is_some());
    cluster.fake.0.deaf.store(true, std::sync::atomic::Ordering::Relaxed);
    let started = Instant::now();
    assert!(!cluster.create("t1", 1).await.unwrap().is_ready);
    assert_eq!(started.elapsed().as_secs(), SOON.as_secs());
    assert!(cluster.text("/brokers/topics/t1").await.is_some(), "it is created nevertheless");
}

#[tokio::test(start_paused = true)]
async fn a_partition_on_brokers_that_do_not_live_waits_for_them() {
    let cluster = Cluster::start(&MemoryDisk::new()).await;
    let topic = NewTopic { assignments: vec![(0, vec![9])], ..new_topic("t", -1) };
    let results = cluster.create_all(vec![topic]).await;
    assert!(!results[0].1.as_ref().unwrap().is_ready);
    assert!(cluster.text("/brokers/topics/t").await.is_some());
    assert_eq!(cluster.text("/brokers/topics/t/partitions/0/state").await, None);
    // Registered by hand, as a broker 9 would.
    let image = BrokerImage { id: BrokerId(9), rack: None, endpoints: vec![endpoint(9101)] };
    let node = znodes::registration(&image, NOW);
    cluster
        .session
        .create("/brokers/ids/9", Some(node.into()), CreateMode::Ephemeral)
        .await
        .unwrap();
    cluster.create("settled", 1).await.unwrap();
    let state = cluster.text("/brokers/topics/t/partitions/0/state").await.unwrap();
    assert!(state.contains(r#""leader":9"#), "{state}");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_topic_is_gone_when_the_client_hears_of_it_and_may_come_back() {
    let cluster = Cluster::start(&MemoryDisk::new()).await;
    let first = cluster.create("t", 2).await.unwrap();
    cluster.take_told();
    cluster.delete("t").await.unwrap();
    let told = cluster.take_told();
    let [
        ControlRequest::UpdateMetadata(hidden),
        ControlRequest::StopReplica(halt),
        ControlRequest::StopReplica(stop),
    ] = &told[..]
    else {
        panic!("{told:#?}")
    };
    assert!(hidden.topic_states[0].partition_states.iter().all(|p| p.leader == -2));
    assert!(!halt.topic_states[0].partition_states.iter().any(|p| p.delete_partition));
    assert!(stop.topic_states[0].partition_states.iter().all(|p| p.delete_partition));
    for path in ["/brokers/topics/t", "/config/topics/t", "/admin/delete_topics/t"] {
        assert_eq!(cluster.text(path).await, None, "{path}");
    }
    assert_eq!(cluster.delete("t").await.unwrap_err().code, ErrorCode::UnknownTopicOrPartition);
    let second = cluster.create("t", 2).await.unwrap();
    assert_ne!(first.id, second.id);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_was_interrupted_ends_after_the_restart() {
    let disk = MemoryDisk::new();
    let cluster = Cluster::start(&disk).await;
    cluster.create("t", 2).await.unwrap();
    cluster.fake.0.deaf.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(cluster.delete("t").await.unwrap_err().code, ErrorCode::RequestTimedOut);
    let marked = cluster.create("t", 1).await.unwrap_err();
    assert!(marked.message.unwrap().contains("marked for deletion"));
    let cluster = Cluster::start(&disk.copy()).await;
    cluster.create("other", 1).await.unwrap();
    assert_eq!(cluster.text("/brokers/topics/t").await, None);
    cluster.create("t", 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_restart_finds_everything_and_elects_nobody_anew() {
    let disk = MemoryDisk::new();
    let cluster = Cluster::start(&disk).await;
    let created = cluster.create("t", 2).await.unwrap();
    let ids = cluster.producer_ids().await.unwrap();
    assert_eq!(ids, ProducerIdBlock { first: 0, count: 1000 });
    cluster.stop().await;
    let cluster = Cluster::start(&disk.copy()).await;
    cluster.create("other", 1).await.unwrap();
    assert_eq!(cluster.text("/controller_epoch").await.as_deref(), Some("2"));
    assert_eq!(cluster.producer_ids().await.unwrap().first, 1000);
    let told = cluster.take_told();
    let ControlRequest::LeaderAndIsr(lead) = &told[0] else { panic!("{told:#?}") };
    let topic = &lead.topic_states[0];
    assert_eq!((Some(topic.topic_id), topic.partition_states.len()), (created.id, 2));
    let as_before = |p: &protocol::messages::leader_and_isr_request::LeaderAndIsrPartitionState| {
        !p.is_new && p.leader_epoch == 0 && p.partition_epoch == 0 && p.controller_epoch == 1
    };
    assert!(topic.partition_states.iter().all(as_before), "{topic:#?}");
}

#[tokio::test(start_paused = true)]
async fn topics_and_partitions_that_others_write_get_leaders() {
    let cluster = Cluster::start(&MemoryDisk::new()).await;
    cluster.create("ours", 1).await.unwrap();
    let node = br#"{"version":1,"partitions":{"0":[0]}}"#.to_vec();
    let path = "/brokers/topics/theirs";
    cluster.session.create(path, Some(node.into()), CreateMode::Persistent).await.unwrap();
    let state = "/brokers/topics/theirs/partitions/0/state";
    until(async || cluster.text(state).await.is_some()).await;
    assert!(cluster.text(path).await.unwrap().contains("topic_id"), "it was given an id");
    // To a topic that the controller made itself too.
    for path in [path, "/brokers/topics/ours"] {
        let node = cluster.text(path).await.unwrap().replace(r#""0":[0]"#, r#""0":[0],"1":[0]"#);
        cluster.session.set(path, node, None).await.unwrap();
        let state = format!("{path}/partitions/1/state");
        until(async || cluster.text(&state).await.is_some()).await;
    }
}

pub(super) async fn until(condition: impl AsyncFn() -> bool) {
    for _ in 0..1000 {
        if condition().await {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("never came true");
}

#[tokio::test(start_paused = true)]
async fn partitions_are_added_as_asked() {
    let cluster = Cluster::start(&MemoryDisk::new()).await;
    cluster.create("t", 1).await.unwrap();
    let grow = async |topic: &str, total, assignments: Option<Vec<Vec<i32>>>| {
        let new = NewPartitions { topic: topic.into(), total, assignments };
        let mut results = cluster.handle.create_partitions(vec![new], SOON, false).await;
        results.remove(0).1.map_err(|e| e.code)
    };
    assert_eq!(grow("no", 2, None).await, Err(ErrorCode::UnknownTopicOrPartition));
    assert_eq!(grow("t", 1, None).await, Err(ErrorCode::InvalidPartitions));
    assert_eq!(grow("t", 0, None).await, Err(ErrorCode::InvalidPartitions));
    assert_eq!(grow("t", -5, None).await, Err(ErrorCode::InvalidPartitions));
    let unknown = Some(vec![vec![7]]);
    assert_eq!(grow("t", 2, unknown).await, Err(ErrorCode::InvalidReplicaAssignment));
    let too_many = Some(vec![vec![0], vec![0]]);
    assert_eq!(grow("t", 2, too_many).await, Err(ErrorCode::InvalidReplicaAssignment));
    assert_eq!(grow("t", 3, None).await, Ok(()));
    assert_eq!(grow("t", 4, Some(vec![vec![0]])).await, Ok(()));
    let node = cluster.text("/brokers/topics/t").await.unwrap();
    assert!(node.contains(r#""partitions":{"0":[0],"1":[0],"2":[0],"3":[0]}"#), "{node}");
    assert!(cluster.text("/brokers/topics/t/partitions/3/state").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_partitions_are_few_flushes() {
    let disk = MemoryDisk::new();
    let cluster = Cluster::start(&disk).await;
    cluster.create("small", 1).await.unwrap();
    let before = disk.writes();
    let created = cluster.create("t", 10_000).await.unwrap();
    assert_eq!(created.partitions, 10_000);
    assert!(disk.writes() - before < 20, "{}", disk.writes() - before);
    cluster.delete("t").await.unwrap();
    assert_eq!(cluster.text("/brokers/topics/t").await, None);
}

#[tokio::test(start_paused = true)]
async fn altered_settings_are_written_announced_and_in_force_when_answered() {
    let cluster = Cluster::start(&MemoryDisk::new()).await;
    cluster.create("t", 1).await.unwrap();
    let set = |entity: ConfigEntity, name: &str, value: &str| ConfigAlteration {
        entity,
        edit: ConfigEdit::Incremental(vec![ConfigOp {
            name: name.into(),
            kind: ConfigOpKind::Set,
            value: Some(value.into()),
        }]),
    };
    let topic = || ConfigEntity::Topic("t".into());
    let alterations = vec![
        set(topic(), "no.such", "1"),
        set(ConfigEntity::Topic("missing".into()), "a", "1"),
        set(topic(), "retention.ms", "7"),
        set(ConfigEntity::AllBrokers, "log.cleaner.threads", "2"),
    ];
    let results = cluster.handle.alter_configs(alterations, false).await;
    let codes: Vec<_> = results.into_iter().map(|r| r.map_err(|e| e.code)).collect();
    use ErrorCode::{InvalidConfig, UnknownTopicOrPartition};
    assert_eq!(codes, [Err(InvalidConfig), Err(UnknownTopicOrPartition), Ok(()), Ok(())]);
    let heard = |entity: ConfigEntity| {
        let configs = cluster.fake.0.configs.lock().unwrap();
        configs.iter().rev().find(|c| c.entity == entity).map(|c| c.configs.clone())
    };
    assert_eq!(heard(topic()).unwrap()["retention.ms"], "7");
    assert_eq!(heard(ConfigEntity::AllBrokers).unwrap()["log.cleaner.threads"], "2");
    assert_eq!(
        cluster.text("/config/changes/config_change_0000000001").await.as_deref(),
        Some(r#"{"version":2,"entity_path":"brokers/<default>"}"#)
    );
    // Somebody else's change; by then the earlier announcements are old.
    cluster.clock.advance(Duration::from_secs(16 * 60));
    let node = znodes::config(&[("retention.ms".to_owned(), "8".to_owned())].into());
    cluster.session.set("/config/topics/t", node, None).await.unwrap();
    let change = Some(znodes::config_change(&topic()).into());
    let path = "/config/changes/config_change_";
    cluster.session.create(path, change, CreateMode::PersistentSequential).await.unwrap();
    until(async || heard(topic()).unwrap()["retention.ms"] == "8").await;
    let left = async || cluster.session.children("/config/changes", false).await.unwrap();
    until(async || left().await == ["config_change_0000000002"]).await;
}

#[tokio::test(start_paused = true)]
async fn one_broker_has_little_to_elect_or_to_move() {
    let cluster = Cluster::start(&MemoryDisk::new()).await;
    cluster.create("t", 1).await.unwrap();
    let at = TopicPartition::new("t", 0);
    let missing = TopicPartition::new("t", 9);
    let elect = async |kind, partitions| {
        let results = cluster.handle.elect_leaders(kind, partitions, SOON).await.unwrap();
        results.into_iter().map(|(_, r)| r.map_err(|e| e.code)).collect::<Vec<_>>()
    };
    let both = || Some(vec![at.clone(), missing.clone()]);
    let expected = [Err(ErrorCode::ElectionNotNeeded), Err(ErrorCode::UnknownTopicOrPartition)];
    assert_eq!(elect(ElectionType::Preferred, both()).await, expected);
    assert_eq!(elect(ElectionType::Unclean, both()).await, expected);
    assert_eq!(elect(ElectionType::Preferred, None).await, []);

    let reassign = async |at: &TopicPartition, target: Option<&[i32]>| {
        let target = target.map(|ids| ids.iter().copied().map(BrokerId).collect());
        let results = cluster.handle.alter_reassignments(vec![(at.clone(), target)]).await.unwrap();
        results.into_iter().next().unwrap().1.map_err(|e| e.code)
    };
    let refused = Err(ErrorCode::InvalidReplicaAssignment);
    assert_eq!(reassign(&at, Some(&[])).await, refused);
    assert_eq!(reassign(&at, Some(&[0, 0])).await, refused);
    assert_eq!(reassign(&at, Some(&[-1])).await, refused);
    assert_eq!(reassign(&at, Some(&[1])).await, refused);
    assert_eq!(reassign(&at, None).await, Err(ErrorCode::NoReassignmentInProgress));
    assert_eq!(reassign(&missing, Some(&[0])).await, Err(ErrorCode::UnknownTopicOrPartition));
    assert_eq!(reassign(&at, Some(&[0])).await, Ok(()));
    assert_eq!(cluster.handle.list_reassignments(None).await, Ok(vec![]));
    let state = cluster.text("/brokers/topics/t/partitions/0/state").await.unwrap();
    assert!(state.contains(r#""leader_epoch":1"#), "as in Kafka: {state}");
}

#[tokio::test(start_paused = true)]
async fn whoever_loses_the_controller_node_steps_down_and_races_again() {
    let cluster = Cluster::start(&MemoryDisk::new()).await;
    cluster.create("t", 1).await.unwrap();
    cluster.session.delete("/controller", None).await.unwrap();
    until(async || cluster.text("/controller_epoch").await.as_deref() == Some("2")).await;
    cluster.create("u", 1).await.unwrap();
    // A write in another controller's time fails, and we find out whose time it is.
    cluster.session.set("/controller_epoch", "7", None).await.unwrap();
    assert_eq!(cluster.create("v", 1).await.unwrap_err().code, ErrorCode::NotController);
    until(async || cluster.text("/controller_epoch").await.as_deref() == Some("8")).await;
    cluster.create("v", 1).await.unwrap();
}

/// Kafka lets the client wait until its time is up.
#[tokio::test(start_paused = true)]
async fn a_topic_that_no_disk_takes_is_answered_at_once() {
    let cluster = Cluster::start(&MemoryDisk::new()).await;
    cluster.create("before", 1).await.unwrap();
    cluster.fake.0.full.store(true, std::sync::atomic::Ordering::Relaxed);
    let start = Instant::now();
    let error = cluster.create("t", 2).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::KafkaStorageError, "{error}");
    assert!(start.elapsed() < Duration::from_secs(1));
}
