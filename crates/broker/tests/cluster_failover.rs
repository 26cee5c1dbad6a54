//! Failover: who leads while the store is silent, and how soon another leads when a broker is gone.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use coordination::Lease;
use model::Instant;
use protocol::ErrorCode;
use protocol::messages::CreateTopicsRequest;
use protocol::messages::create_topics_request::CreatableTopic;
use protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};
use std::time::Duration;
use support::{Cluster, assigned, batch, produce_request, topic_configs};

/// Creates a topic of one partition with these replicas, the first of which leads.
fn create(cluster: &Cluster, topic: &str, replicas: &[i32], configs: &[(&str, &str)]) {
    let wanted = CreatableTopic { configs: topic_configs(configs), ..assigned(topic, replicas) };
    let request =
        CreateTopicsRequest { topics: vec![wanted], timeout_ms: 20_000, ..Default::default() };
    let response = cluster.ask(cluster.controller().unwrap(), &request);
    assert_eq!(response.topics[0].error_code, 0, "{response:?}");
    for &id in &cluster.running() {
        cluster.until("every broker knows the topic", || {
            cluster.state(id, topic, 0).is_some_and(|(leader, ..)| leader == replicas[0])
        });
    }
}

/// What broker `id` says to a record.
fn produce(cluster: &Cluster, id: i32, topic: &str, acks: i16) -> ErrorCode {
    cluster.produce(id, &produce_request(topic, 0, acks, 1000, batch(&[b"x"]))).0
}

/// What broker `id` says to whoever asks for the end of the log.
fn latest(cluster: &Cluster, id: i32, topic: &str) -> ErrorCode {
    let partition = ListOffsetsPartition { timestamp: -1, ..Default::default() };
    let topic = ListOffsetsTopic { name: topic.into(), partitions: vec![partition] };
    let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    let response: ListOffsetsResponse = cluster.ask(id, &request);
    ErrorCode::from_code(response.topics[0].partitions[0].error_code).unwrap()
}

/// A session of so many seconds that nobody confirms any more.
fn lapsed(seconds: u64) -> Lease {
    Lease { confirmed_at: Instant::default(), timeout: Duration::from_secs(seconds) }
}

/// For tests in which nobody may be found dead.
const NO_DETECTION: &[(&str, &str)] = &[("barnabas.fast.failure.detection", "false")];

#[test]
fn a_leader_that_nobody_confirms_serves_while_its_followers_fetch_and_no_longer() {
    let mut cluster = Cluster::start(3, NO_DETECTION);
    create(&cluster, "t", &[2, 1, 3], &[]);
    create(&cluster, "alone", &[2], &[]);
    create(&cluster, "unclean", &[2], &[("unclean.leader.election.enable", "true")]);
    // Its followers fetch every half a second; 10 s of 15 count.
    cluster.set_lease(2, Some(lapsed(15)));
    cluster.until("the followers were heard", || latest(&cluster, 2, "t") == ErrorCode::None);
    assert_eq!(produce(&cluster, 2, "t", 1), ErrorCode::None);
    assert_eq!(produce(&cluster, 2, "t", -1), ErrorCode::None);
    // What they said is too old at once.
    cluster.set_lease(2, Some(lapsed(0)));
    for acks in [1, -1] {
        assert_eq!(produce(&cluster, 2, "t", acks), ErrorCode::NotLeaderOrFollower);
    }
    assert_eq!(latest(&cluster, 2, "t"), ErrorCode::NotLeaderOrFollower);
    for topic in ["alone", "unclean"] {
        assert_eq!(produce(&cluster, 2, topic, 1), ErrorCode::None, "nobody else can lead it");
        assert_eq!(latest(&cluster, 2, topic), ErrorCode::None);
    }
    // One of them is gone for good, and the leader was not allowed to shrink the ISR yet.
    cluster.set_lease(2, Some(lapsed(3)));
    cluster.until("heard again", || produce(&cluster, 2, "t", 1) == ErrorCode::None);
    cluster.crash_broker(3);
    cluster.until("not heard for 2 s", || {
        produce(&cluster, 2, "t", 1) == ErrorCode::NotLeaderOrFollower
    });
    assert_eq!(latest(&cluster, 2, "t"), ErrorCode::NotLeaderOrFollower);
    cluster.set_lease(2, None);
    assert_eq!(produce(&cluster, 2, "t", 1), ErrorCode::None, "the session is confirmed");
}

#[test]
fn without_the_lease_a_leader_serves_on_as_kafkas_does() {
    let settings = [NO_DETECTION[0], ("barnabas.leader.lease.enable", "false")];
    let mut cluster = Cluster::start(3, &settings);
    create(&cluster, "t", &[2, 1, 3], &[]);
    cluster.set_lease(2, Some(lapsed(0)));
    cluster.crash_broker(3);
    assert_eq!(produce(&cluster, 2, "t", 1), ErrorCode::None);
    assert_eq!(latest(&cluster, 2, "t"), ErrorCode::None);
}

#[test]
fn a_broker_whose_registration_is_removed_registers_again_and_is_told_anew_what_it_leads() {
    let cluster = Cluster::start(3, NO_DETECTION);
    create(&cluster, "t", &[2, 1, 3], &[]);
    create(&cluster, "alone", &[2], &[]);
    let before = cluster.broker_epoch(2).unwrap();
    cluster.block_on(cluster.observer().delete("/brokers/ids/2", None)).unwrap();
    cluster.until("it is back", || cluster.broker_epoch(2).is_some_and(|epoch| epoch > before));
    cluster.until("another leads what it led", || {
        cluster.state(1, "t", 0).is_some_and(|(leader, epoch, _)| leader != 2 && epoch > 0)
    });
    let code = produce(&cluster, 2, "t", 1);
    assert_eq!(code, ErrorCode::NotLeaderOrFollower);
    cluster.until("it leads again what only it has", || {
        produce(&cluster, 2, "alone", 1) == ErrorCode::None
    });
}

#[test]
fn a_broker_whose_process_has_ended_is_replaced_though_its_session_lives() {
    let mut cluster = Cluster::start(3, &[]);
    create(&cluster, "t", &[2, 1, 3], &[]);
    let registered = cluster.broker_epoch(2);
    assert_eq!(produce(&cluster, 2, "t", -1), ErrorCode::None);
    cluster.crash_broker(2);
    for id in [1, 3] {
        cluster.until("another leads", || {
            cluster
                .state(id, "t", 0)
                .is_some_and(|(leader, epoch, isr)| leader == 1 && epoch > 0 && !isr.contains(&2))
        });
    }
    assert_eq!(produce(&cluster, 1, "t", -1), ErrorCode::None);
    cluster.start_broker(2);
    assert_ne!(cluster.broker_epoch(2), registered);
    cluster.until("it is in sync again", || {
        cluster.state(1, "t", 0).is_some_and(|(leader, _, isr)| leader == 1 && isr.contains(&2))
    });
}
