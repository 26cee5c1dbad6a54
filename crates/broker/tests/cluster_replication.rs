//! The data path of a cluster: what leaders and followers owe each other, on whole brokers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use client::{Connection, ConnectionOptions};
use platform::Clock;
use platform::clock::SystemClock;
use protocol::ErrorCode;
use protocol::messages::MetadataRequest;
use protocol::messages::create_topics_request::CreatableTopic;
use protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use protocol::messages::describe_configs_request::DescribeConfigsResource;
use protocol::messages::fetch_request::{FetchPartition, FetchTopic, ReplicaState};
use protocol::messages::fetch_response::PartitionData;
use protocol::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};
use protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use protocol::messages::{
    DeleteRecordsRequest, DescribeConfigsRequest, FetchRequest, IncrementalAlterConfigsRequest,
    ListOffsetsRequest,
};
use protocol::records::Batches;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use support::{Cluster, assigned, batch, produce_request, topic_configs};

const TOPIC: &str = "t";

/// A broker that crashes in these tests stands for one that is silent and counts as alive.
const SILENCE_IS_NOT_DEATH: (&str, &str) = ("barnabas.fast.failure.detection", "false");

/// Fast enough for a test to wait for.
const QUICK: &[(&str, &str)] = &[
    SILENCE_IS_NOT_DEATH,
    ("replica.lag.time.max.ms", "1500"),
    ("replica.fetch.wait.max.ms", "100"),
    ("replica.fetch.backoff.ms", "200"),
];

fn create(cluster: &Cluster, partitions: i32, factor: i16, configs: &[(&str, &str)]) {
    cluster.create(CreatableTopic {
        name: TOPIC.into(),
        num_partitions: partitions,
        replication_factor: factor,
        configs: topic_configs(configs),
        ..Default::default()
    });
    for id in cluster.running() {
        cluster.until("every broker knows the topic", || cluster.state(id, TOPIC, 0).is_some());
    }
}

/// The leader of partition 0, once all running brokers agree on one that runs.
fn leader(cluster: &Cluster) -> i32 {
    let mut agreed = 0;
    cluster.until("all agree on a leader", || {
        let running = cluster.running();
        let seen: Vec<_> = running.iter().map(|&id| cluster.state(id, TOPIC, 0)).collect();
        agreed = seen[0].as_ref().map_or(-1, |state| state.0);
        running.contains(&agreed) && seen.iter().all(|other| *other == seen[0])
    });
    agreed
}

fn until_isr_is(cluster: &Cluster, expected: &[i32]) {
    cluster.until(&format!("the ISR is {expected:?}"), || {
        let running = cluster.running();
        running.iter().all(|&id| {
            cluster.state(id, TOPIC, 0).is_some_and(|(_, _, mut isr)| {
                isr.sort_unstable();
                isr == expected
            })
        })
    });
}

/// The code and the offset of an append.
fn produce(
    cluster: &Cluster,
    id: i32,
    acks: i16,
    timeout_ms: i32,
    value: &[u8],
) -> (ErrorCode, i64) {
    cluster.produce(id, &produce_request(TOPIC, 0, acks, timeout_ms, batch(&[value])))
}

/// Reads as a consumer in `rack`.
fn fetch_in(cluster: &Cluster, id: i32, offset: i64, rack: &str) -> PartitionData {
    let partition =
        FetchPartition { fetch_offset: offset, partition_max_bytes: 1 << 20, ..Default::default() };
    let topic =
        FetchTopic { topic: TOPIC.into(), partitions: vec![partition], ..Default::default() };
    let request = FetchRequest {
        max_bytes: 1 << 20,
        topics: vec![topic],
        rack_id: rack.into(),
        ..Default::default()
    };
    let connection = cluster.connect(id);
    let (mut response, _) = cluster.block_on(connection.send_at_most(&request, 12)).unwrap();
    response.responses.remove(0).partitions.remove(0)
}

fn fetch(cluster: &Cluster, id: i32, offset: i64) -> PartitionData {
    fetch_in(cluster, id, offset, "")
}

/// Values by offset, of all that a consumer can read.
fn read_all(cluster: &Cluster, id: i32) -> BTreeMap<i64, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut next = 0;
    loop {
        let data = fetch(cluster, id, next);
        assert_eq!(data.error_code, 0);
        let bytes = data.records.unwrap().to_bytes().unwrap();
        if bytes.is_empty() {
            return all;
        }
        for batch in Batches::new(&bytes) {
            let batch = batch.unwrap();
            for record in batch.records(1 << 20).unwrap().iter() {
                let record = record.unwrap();
                all.insert(record.offset.0, record.value.unwrap().to_vec());
            }
            next = batch.last_offset().0 + 1;
        }
    }
}

/// What lies in the segments of partition 0 on broker `id`, up to `end`.
fn stored(cluster: &Cluster, id: i32, end: i64) -> Vec<u8> {
    let directory = cluster.directory(id).join(format!("{TOPIC}-0"));
    let mut segments: Vec<PathBuf> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    segments.retain(|path| path.extension() == Some("log".as_ref()));
    segments.sort();
    let read = |path: &Path| std::fs::read(path).unwrap();
    let bytes = segments.iter().map(|path| read(path)).collect::<Vec<_>>().concat();
    let mut kept = 0;
    for batch in Batches::new(&bytes) {
        let batch = batch.unwrap();
        if batch.last_offset().0 >= end {
            break;
        }
        assert!(batch.verify(), "broker {id}: a damaged batch");
        kept = batch.position() + batch.bytes().len();
    }
    bytes[..kept].to_vec()
}

/// All replicas have the same bytes below the high watermark, which all come to know.
fn assert_replicas_equal(cluster: &Cluster) {
    let leader = leader(cluster);
    let end = fetch(cluster, leader, 0).high_watermark;
    let expected = stored(cluster, leader, end);
    assert!(!expected.is_empty());
    for id in cluster.running() {
        cluster.until("the follower knows what is committed", || {
            fetch(cluster, id, 0).high_watermark >= end
        });
        assert!(stored(cluster, id, end) == expected, "broker {id} departs from {leader}");
    }
}

#[test]
fn acks_all_waits_for_the_isr_and_nothing_else_is_readable() {
    let mut cluster =
        Cluster::start(3, &[SILENCE_IS_NOT_DEATH, ("replica.lag.time.max.ms", "600000")]);
    create(&cluster, 1, 3, &[("min.insync.replicas", "2")]);
    let leads = leader(&cluster);
    assert_eq!(produce(&cluster, leads, -1, 20_000, b"one"), (ErrorCode::None, 0));
    assert_eq!(fetch(&cluster, leads, 0).high_watermark, 1, "committed before it was answered");
    let followers: Vec<_> = cluster.running().into_iter().filter(|&id| id != leads).collect();
    // Frozen, and nobody knows.
    cluster.crash_broker(followers[0]);
    let (code, _) = produce(&cluster, leads, -1, 300, b"two");
    assert_eq!(code, ErrorCode::RequestTimedOut);
    assert_eq!(
        produce(&cluster, leads, 1, 300, b"three"),
        (ErrorCode::None, 2),
        "acks=1 waits for nobody"
    );
    let data = fetch(&cluster, leads, 1);
    assert_eq!((data.high_watermark, data.records.unwrap().len()), (1, 0));
    cluster.until("the other follower has them all the same", || {
        stored(&cluster, followers[1], 3).len() == stored(&cluster, leads, 3).len()
    });
    let data = fetch(&cluster, followers[1], 0);
    assert_eq!(data.high_watermark, 1, "and shows none of it");
    // The store says that it is dead, so the controller takes it out of the ISR.
    cluster.expire_session(followers[0]);
    cluster.until("the rest commits", || fetch(&cluster, leads, 1).high_watermark == 3);
    assert_eq!(produce(&cluster, leads, -1, 20_000, b"four"), (ErrorCode::None, 3));
    cluster.kill_broker(followers[1]);
    cluster.until("the ISR is the leader", || {
        produce(&cluster, leads, -1, 100, b"five").0 == ErrorCode::NotEnoughReplicas
    });
}

/// Three in sync that hold a record, their leader, their controller, and one that is neither: its session may live
/// on without it, where a controller that is gone would be missed for good.
fn three_of_which_one_may_go() -> (Cluster, i32, i32, i32) {
    let cluster = Cluster::start(3, QUICK);
    create(&cluster, 1, 3, &[]);
    let leads = leader(&cluster);
    until_isr_is(&cluster, &[1, 2, 3]);
    assert_eq!(produce(&cluster, leads, -1, 20_000, b"one").0, ErrorCode::None);
    let controls = cluster.controller().unwrap();
    let idles = cluster.running().into_iter().find(|id| ![leads, controls].contains(id)).unwrap();
    (cluster, leads, controls, idles)
}

#[test]
fn a_follower_that_lags_leaves_the_isr_and_returns() {
    let (mut cluster, leads, _, lags) = three_of_which_one_may_go();
    cluster.crash_broker(lags);
    let rest: Vec<_> = cluster.running();
    // It waits until the other one is out of the ISR.
    assert_eq!(produce(&cluster, leads, -1, 20_000, b"two").0, ErrorCode::None);
    until_isr_is(&cluster, &rest);
    assert_eq!(leader(&cluster), leads);
    cluster.expire_session(lags);
    cluster.start_broker(lags);
    until_isr_is(&cluster, &[1, 2, 3]);
    assert_replicas_equal(&cluster);
}

/// A broker whose session on the store expires has another registration, and goes on with its fetch
/// sessions. The leader kept the old one for partitions without news, and what it proposed with that was
/// refused for as long as nobody wrote: seen where the controller had died too, so that nothing changed in
/// the leadership.
#[test]
fn a_followers_new_registration_counts_for_partitions_that_its_session_does_not_name() {
    let mut cluster = Cluster::start(2, &[SILENCE_IS_NOT_DEATH]);
    cluster.create(assigned(TOPIC, &[1, 2]));
    until_isr_is(&cluster, &[1, 2]);
    let all = MetadataRequest { topics: None, ..Default::default() };
    let id = cluster.ask(1, &all).topics[0].topic_id;
    let old = cluster.broker_epoch(2).unwrap();
    cluster.crash_broker(2);
    let fetch = |registration, (session_id, session_epoch), names| {
        let partition = FetchPartition { last_fetched_epoch: -1, ..Default::default() };
        let topic = FetchTopic { topic_id: id, partitions: vec![partition], ..Default::default() };
        let request = FetchRequest {
            replica_state: ReplicaState { replica_id: 2, replica_epoch: registration },
            max_bytes: 1 << 20,
            session_id,
            session_epoch,
            topics: if names { vec![topic] } else { Vec::new() },
            ..Default::default()
        };
        let answer = cluster.tell(1, &request, 17);
        assert_eq!(answer.error_code, 0);
        let mut partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
        (answer.session_id, partitions.next().map_or(0, |partition| partition.error_code))
    };
    let (session, code) = fetch(old, (0, 0), true);
    assert_eq!(code, 0);
    assert_eq!(fetch(old, (0, -1), true).1, 0);
    // Until there is no news left.
    (1..5).for_each(|epoch| assert_eq!(fetch(old, (session, epoch), false).1, 0));
    assert_eq!(fetch(old + 1, (session, 5), false).1, 0);
    let code = ErrorCode::NotLeaderOrFollower.code();
    assert_eq!(fetch(old, (0, -1), true).1, code, "of before the new registration");
}

/// The code and the offset that `id` answers `replica` who asks for `timestamp`.
fn listed(cluster: &Cluster, id: i32, replica: i32, timestamp: i64) -> (ErrorCode, i64) {
    let partition =
        ListOffsetsPartition { timestamp, current_leader_epoch: -1, ..Default::default() };
    let topic = ListOffsetsTopic { name: TOPIC.into(), partitions: vec![partition] };
    let request =
        ListOffsetsRequest { replica_id: replica, topics: vec![topic], ..Default::default() };
    let connection = cluster.connect(id);
    let (answer, _) = cluster.block_on(connection.send_at_most(&request, 9)).unwrap();
    let found = &answer.topics[0].partitions[0];
    (ErrorCode::from_code(found.error_code).unwrap(), found.offset)
}

/// As Kafka 3.9.2; every combination against its answers: `tests/cluster/wire`.
#[test]
fn a_follower_answers_about_its_log_whoever_asks_as_a_debugging_consumer() {
    const CONSUMER: i32 = -1;
    const DEBUGGING: i32 = -2;
    let cluster = Cluster::start(3, QUICK);
    create(&cluster, 1, 3, &[]);
    let leads = leader(&cluster);
    until_isr_is(&cluster, &[1, 2, 3]);
    for value in [b"a", b"b"] {
        assert_eq!(produce(&cluster, leads, -1, 20_000, value).0, ErrorCode::None);
    }
    for id in cluster.running() {
        // Latest, earliest, earliest on local disk, latest in tiered storage. The records have no times.
        for (timestamp, offset) in [(-1, 2), (-2, 0), (-4, 0), (-5, -1)] {
            let answer = listed(&cluster, id, DEBUGGING, timestamp);
            assert_eq!(answer, (ErrorCode::None, offset), "broker {id}, {timestamp}");
            let (error, _) = listed(&cluster, id, CONSUMER, timestamp);
            assert_eq!(
                error == ErrorCode::None,
                id == leads,
                "broker {id}, {timestamp}: {error:?}"
            );
        }
    }
}

#[test]
fn records_are_deleted_once_they_are_gone_everywhere() {
    let mut cluster =
        Cluster::start(3, &[SILENCE_IS_NOT_DEATH, ("replica.fetch.wait.max.ms", "400")]);
    create(&cluster, 1, 3, &[]);
    let leads = leader(&cluster);
    until_isr_is(&cluster, &[1, 2, 3]);
    for value in [b"a", b"b", b"c"] {
        assert_eq!(produce(&cluster, leads, -1, 20_000, value).0, ErrorCode::None);
    }
    let delete = |cluster: &Cluster, offset, timeout_ms| {
        let partitions = vec![DeleteRecordsPartition { partition_index: 0, offset }];
        let topics = vec![DeleteRecordsTopic { name: TOPIC.into(), partitions }];
        let answer = cluster.ask(leads, &DeleteRecordsRequest { topics, timeout_ms });
        let answer = &answer.topics[0].partitions[0];
        (ErrorCode::from_code(answer.error_code).unwrap(), answer.low_watermark)
    };
    assert_eq!(delete(&cluster, 2, 20_000), (ErrorCode::None, 2));
    for id in cluster.running() {
        assert_eq!(fetch(&cluster, id, 2).log_start_offset, 2, "on broker {id}");
    }
    // One that is silent and counts as alive is waited for.
    let controls = cluster.controller().unwrap();
    let silent = cluster.running().into_iter().find(|id| ![leads, controls].contains(id)).unwrap();
    cluster.crash_broker(silent);
    assert_eq!(delete(&cluster, -1, 300), (ErrorCode::RequestTimedOut, 2));
    cluster.expire_session(silent);
    until_isr_is(&cluster, &cluster.running());
    assert_eq!(delete(&cluster, -1, 20_000), (ErrorCode::None, 3));
}

#[test]
fn a_batch_larger_than_any_limit_comes_through() {
    let cluster = Cluster::start(
        2,
        &[
            ("replica.fetch.max.bytes", "1000"),
            ("replica.fetch.response.max.bytes", "2000"),
            ("message.max.bytes", "10000000"),
        ],
    );
    create(&cluster, 1, 2, &[]);
    let leads = leader(&cluster);
    let large = vec![b'x'; 3_000_000];
    for _ in 0..3 {
        assert_eq!(produce(&cluster, leads, -1, 20_000, b"small").0, ErrorCode::None);
        assert_eq!(produce(&cluster, leads, -1, 20_000, &large).0, ErrorCode::None);
    }
    assert_replicas_equal(&cluster);
}

#[test]
fn consumers_read_from_the_replica_in_their_rack() {
    const SELECTOR: (&str, &str) =
        ("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector");
    let mut cluster = Cluster::without_brokers(&[SELECTOR]);
    for (id, rack) in [(1, "a"), (2, "b"), (3, "c")] {
        cluster.start_broker_with(id, &[("broker.rack", rack)]);
    }
    create(&cluster, 1, 3, &[]);
    let leads = leader(&cluster);
    produce(&cluster, leads, -1, 20_000, b"one");
    let rack = |id: i32| ["a", "b", "c"][id as usize - 1];
    for id in cluster.running() {
        let data = fetch_in(&cluster, leads, 0, rack(id));
        let has_records = !data.records.unwrap().is_empty();
        let expected = if id == leads { (-1, true) } else { (id, false) };
        assert_eq!((data.preferred_read_replica, has_records), expected, "rack {}", rack(id));
        cluster.until("it can be read there", || fetch(&cluster, id, 0).high_watermark == 1);
        assert_eq!(read_all(&cluster, id).len(), 1);
    }
    let data = fetch_in(&cluster, leads, 0, "nowhere");
    assert_eq!(data.preferred_read_replica, -1);
    let data = fetch(&cluster, leads % 3 + 1, 77);
    assert_eq!(data.error_code, ErrorCode::OffsetOutOfRange.code());
}

/// Sets one dynamic setting of all brokers.
fn set_for_all_brokers(cluster: &Cluster, name: &str, value: &str) {
    const BROKER: i8 = 4;
    let config =
        AlterableConfig { name: name.into(), value: Some(value.into()), ..Default::default() };
    let resource =
        AlterConfigsResource { resource_type: BROKER, configs: vec![config], ..Default::default() };
    let request =
        IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let response = cluster.ask(cluster.controller().unwrap(), &request);
    assert_eq!(response.responses[0].error_code, 0, "{response:?}");
}

/// How long a follower that comes back takes for 400 kB in pieces of 20 kB.
fn time_to_catch_up(throttled: Option<&str>) -> Duration {
    let mut cluster = Cluster::start(2, &[("replica.fetch.max.bytes", "20000")]);
    let list = throttled.map(|side| format!("{side}.replication.throttled.replicas"));
    let configs: Vec<_> = list.iter().map(|list| (list.as_str(), "*")).collect();
    create(&cluster, 1, 2, &configs);
    if let Some(side) = throttled {
        set_for_all_brokers(&cluster, &format!("{side}.replication.throttled.rate"), "100000");
    }
    let leads = leader(&cluster);
    let follows = 3 - leads;
    cluster.kill_broker(follows);
    until_isr_is(&cluster, &[leads]);
    for _ in 0..20 {
        assert_eq!(produce(&cluster, leads, 1, 20_000, &[b'x'; 20_000]).0, ErrorCode::None);
    }
    cluster.start_broker(follows);
    let clock = SystemClock::new();
    let began = clock.now();
    cluster.until("the follower has caught up", || {
        stored(&cluster, follows, 20).len() == stored(&cluster, leads, 20).len()
    });
    let took = clock.now().since(began);
    assert_replicas_equal(&cluster);
    took
}

#[test]
fn a_throttled_replica_catches_up_at_its_rate() {
    assert!(time_to_catch_up(None) < Duration::from_secs(2), "nothing holds it back");
    for side in ["leader", "follower"] {
        let took = time_to_catch_up(Some(side));
        assert!(took > Duration::from_millis(2_500), "{side}: {took:?} for 400 kB at 100 kB/s");
    }
}

#[test]
fn a_leader_that_comes_back_gives_up_what_only_it_had() {
    let mut cluster = Cluster::start(3, &[SILENCE_IS_NOT_DEATH]);
    // Broker 1 controls, the other two have the partition.
    assert_eq!(cluster.controller(), Some(1));
    cluster.create(assigned(TOPIC, &[2, 3]));
    assert_eq!(leader(&cluster), 2);
    assert_eq!(produce(&cluster, 2, -1, 20_000, b"kept").0, ErrorCode::None);
    // Its follower stands still, so what comes now is on the leader alone.
    cluster.crash_broker(3);
    for _ in 0..3 {
        assert_eq!(produce(&cluster, 2, 1, 20_000, b"given up").0, ErrorCode::None);
    }
    cluster.kill_broker(2);
    cluster.expire_session(3);
    cluster.start_broker(3);
    cluster.until("the follower leads", || cluster.state(1, TOPIC, 0).is_some_and(|at| at.0 == 3));
    assert_eq!(leader(&cluster), 3);
    assert_eq!(produce(&cluster, 3, -1, 20_000, b"new").0, ErrorCode::None);
    cluster.start_broker(2);
    until_isr_is(&cluster, &[2, 3]);
    assert_eq!(produce(&cluster, 3, -1, 20_000, b"newer").0, ErrorCode::None);
    let values: Vec<_> = read_all(&cluster, 3).into_values().collect();
    assert_eq!(values, [&b"kept"[..], b"new", b"newer"]);
    let end = 3;
    cluster.until("both have all of it", || fetch(&cluster, 2, 0).high_watermark == end);
    assert!(stored(&cluster, 2, 100) == stored(&cluster, 3, 100), "to the last byte");
}

/// Writes numbered values with acks=all, one after the other, to whoever leads; repeats what failed.
struct Writer {
    addresses: Arc<Mutex<Vec<String>>>,
    acknowledged: Arc<Mutex<BTreeMap<i64, Vec<u8>>>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Writer {
    fn start(cluster: &Cluster) -> Self {
        let addresses = Arc::new(Mutex::new(addresses(cluster)));
        let acknowledged = Arc::new(Mutex::new(BTreeMap::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = {
            let (addresses, acknowledged) = (Arc::clone(&addresses), Arc::clone(&acknowledged));
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let runtime =
                    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(write(&addresses, &acknowledged, &stop));
            })
        };
        Self { addresses, acknowledged, stop, thread }
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    fn finish(self) -> BTreeMap<i64, Vec<u8>> {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().unwrap();
        std::mem::take(&mut self.acknowledged.lock().unwrap())
    }
}

fn addresses(cluster: &Cluster) -> Vec<String> {
    let bound = |id| cluster.server(id).listeners()[0].bound.to_string();
    cluster.running().into_iter().map(bound).collect()
}

async fn write(
    addresses: &Mutex<Vec<String>>,
    acknowledged: &Mutex<BTreeMap<i64, Vec<u8>>>,
    stop: &AtomicBool,
) {
    let mut connection: Option<Connection> = None;
    let mut number = 0;
    while !stop.load(Ordering::SeqCst) {
        let open = match &connection {
            Some(open) if open.is_open() => open.clone(),
            _ => match find_leader(addresses).await {
                Some(open) => connection.insert(open).clone(),
                None => {
                    tokio::task::yield_now().await;
                    continue;
                }
            },
        };
        let value = format!("value {number}").into_bytes();
        let request = produce_request(TOPIC, 0, -1, 1_000, batch(&[&value]));
        let sent = tokio::time::timeout(Duration::from_secs(3), open.send_at_most(&request, 12));
        match sent.await {
            Ok(Ok((response, _)))
                if response.responses[0].partition_responses[0].error_code == 0 =>
            {
                let offset = response.responses[0].partition_responses[0].base_offset;
                assert_eq!(
                    acknowledged.lock().unwrap().insert(offset, value),
                    None,
                    "{offset} twice"
                );
                number += 1;
            }
            _ => connection = None,
        }
    }
}

async fn find_leader(addresses: &Mutex<Vec<String>>) -> Option<Connection> {
    let known = addresses.lock().unwrap().clone();
    for address in known {
        let options = ConnectionOptions {
            request_timeout: Duration::from_secs(3),
            ..ConnectionOptions::default()
        };
        let Ok(open) = Connection::connect(&address, options.clone()).await else { continue };
        let request = MetadataRequest { topics: None, ..Default::default() };
        let Ok(response) = open.send(&request).await else { continue };
        let topic = response.topics.iter().find(|t| t.name.as_deref() == Some(TOPIC))?;
        let leader = topic.partitions[0].leader_id;
        let Some(broker) = response.brokers.iter().find(|broker| broker.node_id == leader) else {
            continue;
        };
        let address = format!("{}:{}", broker.host, broker.port);
        if let Ok(open) = Connection::connect(&address, options).await {
            return Some(open);
        }
    }
    None
}

#[test]
fn leaders_die_one_after_the_other_and_nothing_acknowledged_is_lost() {
    const ROUNDS: usize = 6;
    let mut cluster = Cluster::start(3, QUICK);
    create(&cluster, 1, 3, &[("min.insync.replicas", "2"), ("segment.bytes", "4000")]);
    leader(&cluster);
    until_isr_is(&cluster, &[1, 2, 3]);
    let writer = Writer::start(&cluster);
    for round in 1..=ROUNDS {
        let enough = writer.count() + 20;
        cluster.until("records are acknowledged", || writer.count() >= enough);
        let victim = leader(&cluster);
        cluster.kill_broker(victim);
        *writer.addresses.lock().unwrap() = addresses(&cluster);
        let enough = writer.count() + 20;
        cluster.until("records are acknowledged by the next leader", || writer.count() >= enough);
        assert_ne!(leader(&cluster), victim, "round {round}");
        cluster.start_broker(victim);
        *writer.addresses.lock().unwrap() = addresses(&cluster);
        until_isr_is(&cluster, &[1, 2, 3]);
    }
    let acknowledged = writer.finish();
    assert!(acknowledged.len() >= 40 * ROUNDS);
    let leads = leader(&cluster);
    let stored = read_all(&cluster, leads);
    for (offset, value) in &acknowledged {
        assert_eq!(stored.get(offset), Some(value), "offset {offset} was acknowledged");
    }
    assert_replicas_equal(&cluster);
}

/// What the brokers in `asked` tell of replica `replica` of partition 0: what, and the value.
fn out_of_sync(cluster: &Cluster, asked: &[i32], replica: i32) -> BTreeMap<String, String> {
    let mut told = BTreeMap::new();
    for &id in asked {
        let resource = DescribeConfigsResource {
            resource_type: 2,
            resource_name: TOPIC.into(),
            configuration_keys: Some(vec!["barnabas.out.of.sync".into()]),
        };
        let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
        let answer = cluster.ask(id, &request).results.remove(0);
        assert_eq!(answer.error_code, 0);
        for config in answer.configs {
            let mine = format!("barnabas.out.of.sync.0.{replica}.");
            if let Some(what) = config.name.strip_prefix(&mine) {
                told.insert(what.to_owned(), config.value.unwrap().to_string());
            }
        }
    }
    told
}

#[test]
fn who_is_not_in_sync_is_told_with_how_far_since_when_and_why_until_it_is_back() {
    let (mut cluster, leads, controls, lags) = three_of_which_one_may_go();
    assert_eq!(out_of_sync(&cluster, &[1, 2, 3], lags), BTreeMap::new());
    let begin = SystemClock::new().timestamp().0;
    cluster.crash_broker(lags);
    let rest: Vec<_> = cluster.running();
    assert_eq!(produce(&cluster, leads, -1, 20_000, b"two").0, ErrorCode::None);
    assert_eq!(produce(&cluster, leads, -1, 20_000, b"three").0, ErrorCode::None);
    until_isr_is(&cluster, &rest);
    let told = out_of_sync(&cluster, &[leads], lags);
    assert_eq!((&*told["end.offset"], &*told["behind"]), ("1", "2"), "the leader tells how far");
    let told = out_of_sync(&cluster, &[controls], lags);
    assert_eq!(told["cause"], "lagged", "the controller tells why");
    let left: i64 = told["left.ms"].parse().unwrap();
    assert!((begin..=SystemClock::new().timestamp().0).contains(&left), "{left} since {begin}");
    // Its death changes nothing in why it left; a broker whose session ends in sync leaves for that.
    cluster.expire_session(lags);
    cluster.start_broker(lags);
    until_isr_is(&cluster, &[1, 2, 3]);
    assert_eq!(out_of_sync(&cluster, &[1, 2, 3], lags), BTreeMap::new(), "it is back");
    cluster.crash_broker(lags);
    cluster.expire_session(lags);
    until_isr_is(&cluster, &rest);
    assert_eq!(out_of_sync(&cluster, &rest, lags)["cause"], "session-ended");
    // Nobody is told who does not ask by name.
    let resource = DescribeConfigsResource {
        resource_type: 2,
        resource_name: TOPIC.into(),
        configuration_keys: None,
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
    let all = cluster.ask(leads, &request).results.remove(0).configs;
    assert!(!all.iter().any(|config| config.name.contains("out.of.sync")));
}
