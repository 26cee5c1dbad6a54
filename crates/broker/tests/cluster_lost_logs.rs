//! Replicas that lost their data, on whole brokers: a disk that was emptied or is not mounted.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use protocol::ErrorCode;
use protocol::messages::MetadataRequest;
use protocol::messages::create_topics_request::{CreatableReplicaAssignment, CreatableTopic};
use protocol::messages::delete_topics_request::DeleteTopicState;
use protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use protocol::messages::metadata_response::MetadataResponsePartition;
use protocol::messages::{CreateTopicsRequest, DeleteTopicsRequest, FetchRequest};
use support::{Cluster, assigned, batch, produce_request};

const TOPIC: &str = "t";

fn create(cluster: &Cluster, replicas: &[i32]) {
    cluster.create(assigned(TOPIC, replicas));
}

fn view(cluster: &Cluster, id: i32) -> Option<MetadataResponsePartition> {
    cluster.partition(id, TOPIC, 0)
}

fn until_isr_is(cluster: &Cluster, expected: &[i32]) {
    cluster.until(&format!("the ISR is {expected:?}"), || {
        cluster.running().iter().all(|&id| {
            view(cluster, id).is_some_and(|mut partition| {
                partition.isr_nodes.sort_unstable();
                partition.isr_nodes == expected && partition.leader_id > 0
            })
        })
    });
}

/// The code of an append with `acks=all`.
fn produce(cluster: &Cluster, id: i32, value: &[u8]) -> ErrorCode {
    produce_at(cluster, id, 0, value)
}

fn produce_at(cluster: &Cluster, id: i32, index: i32, value: &[u8]) -> ErrorCode {
    cluster.produce(id, &produce_request(TOPIC, index, -1, 20_000, batch(&[value]))).0
}

/// The code and the high watermark that a consumer is told.
fn fetch(cluster: &Cluster, id: i32) -> (ErrorCode, i64) {
    let partition = FetchPartition { partition_max_bytes: 1, ..Default::default() };
    let topic =
        FetchTopic { topic: TOPIC.into(), partitions: vec![partition], ..Default::default() };
    let request = FetchRequest { max_bytes: 1, topics: vec![topic], ..Default::default() };
    let connection = cluster.connect(id);
    let (response, _) = cluster.block_on(connection.send_at_most(&request, 12)).unwrap();
    let data = &response.responses[0].partitions[0];
    (ErrorCode::from_code(data.error_code).unwrap(), data.high_watermark)
}

/// What an unmounted disk looks like: its mount point is there, and empty.
fn empty(cluster: &Cluster, id: i32) {
    for entry in std::fs::read_dir(cluster.directory(id)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(path).unwrap();
        } else {
            std::fs::remove_file(path).unwrap();
        }
    }
}

fn has_log(cluster: &Cluster, id: i32) -> bool {
    cluster.directory(id).join(format!("{TOPIC}-0")).exists()
}

#[test]
fn the_only_replica_without_its_log_is_offline_and_not_empty() {
    let mut cluster = Cluster::start(2, &[]);
    let controls = cluster.controller().unwrap();
    let (leads, other) = (3 - controls, controls);
    create(&cluster, &[leads]);
    until_isr_is(&cluster, &[leads]);
    assert_eq!(produce(&cluster, leads, b"one"), ErrorCode::None);
    cluster.kill_broker(leads);
    empty(&cluster, leads);
    // Each start finds a directory that is a little less empty.
    for how in ["first", "second", "third"] {
        cluster.start_broker(leads);
        cluster.until("the replica is said to be offline", || {
            view(&cluster, other).is_some_and(|p| {
                p.leader_id == -1 && p.offline_replicas == [leads] && p.isr_nodes == [leads]
            }) && cluster.broker_epoch(leads).is_some()
        });
        cluster.until("all brokers serve", || {
            cluster.ask(other, &MetadataRequest::default()).brokers.len() == 2
        });
        let code = produce(&cluster, leads, b"two");
        assert_ne!(code, ErrorCode::None, "{how} start: it leads as an empty log");
        assert!(!has_log(&cluster, leads), "{how} start: an empty log is there");
        if how == "first" {
            cluster.kill_broker(leads);
        } else if how == "second" {
            cluster.stop_broker(leads);
        }
    }
    // Whoever knows that the data are gone for good deletes the topic.
    let topics = vec![DeleteTopicState { name: Some(TOPIC.into()), ..Default::default() }];
    let request = DeleteTopicsRequest { topics, timeout_ms: 20_000, ..Default::default() };
    let response = cluster.ask(cluster.controller().unwrap(), &request);
    assert_eq!(response.responses[0].error_code, 0);
    create(&cluster, &[leads]);
    until_isr_is(&cluster, &[leads]);
    assert_eq!(produce(&cluster, leads, b"one"), ErrorCode::None);
}

#[test]
fn one_of_three_that_comes_back_empty_takes_all_from_the_others() {
    let mut cluster = Cluster::start(3, &[("replica.fetch.wait.max.ms", "100")]);
    create(&cluster, &[1, 2, 3]);
    until_isr_is(&cluster, &[1, 2, 3]);
    for _ in 0..5 {
        assert_eq!(produce(&cluster, 1, b"value"), ErrorCode::None);
    }
    cluster.kill_broker(1);
    empty(&cluster, 1);
    cluster.start_broker(1);
    until_isr_is(&cluster, &[1, 2, 3]);
    let leader = view(&cluster, 1).unwrap().leader_id;
    assert_ne!(leader, 1);
    cluster.until("nothing is lost", || fetch(&cluster, leader) == (ErrorCode::None, 5));
    let stored = |id| std::fs::read(cluster.directory(id).join("t-0/00000000000000000000.log"));
    cluster.until("its log is that of the leader", || {
        stored(1).unwrap_or_default() == stored(leader).unwrap()
    });
}

#[test]
fn a_replica_whose_first_orders_were_lost_starts_empty() {
    let mut cluster = Cluster::start(2, &[]);
    let controls = cluster.controller().unwrap();
    let leads = 3 - controls;
    create(&cluster, &[leads]);
    until_isr_is(&cluster, &[leads]);
    // As if the broker had died before it was told: there is no log, and nothing that ever named one.
    cluster.kill_broker(leads);
    std::fs::remove_dir_all(cluster.directory(leads).join(format!("{TOPIC}-0"))).unwrap();
    std::fs::remove_file(cluster.directory(leads).join("replication-offset-checkpoint")).ok();
    cluster.start_broker(leads);
    until_isr_is(&cluster, &[leads]);
    assert_eq!(produce(&cluster, leads, b"one"), ErrorCode::None);
}

/// What all brokers see of every partition of the topic.
fn partitions(cluster: &Cluster, id: i32) -> Vec<MetadataResponsePartition> {
    let response = cluster.ask(id, &MetadataRequest { topics: None, ..Default::default() });
    let topics = response.topics.into_iter();
    let mut found: Vec<_> = topics
        .filter(|t| t.name.as_deref() == Some(TOPIC))
        .flat_map(|topic| topic.partitions)
        .collect();
    found.sort_by_key(|partition| partition.partition_index);
    found
}

#[test]
fn leaders_move_from_a_directory_that_fails_and_the_rest_of_the_broker_goes_on() {
    let mut cluster = Cluster::without_brokers(&[("replica.fetch.wait.max.ms", "100")]);
    cluster.start_broker(1);
    cluster.start_broker(2);
    let home = tempfile::tempdir().unwrap();
    let (good, bad) = (home.path().join("good"), home.path().join("bad"));
    let both = format!("{},{}", good.display(), bad.display());
    let settings = [("log.dirs", &*both), ("replica.high.watermark.checkpoint.interval.ms", "50")];
    cluster.start_broker_with(3, &settings);
    let topic = CreatableTopic {
        name: TOPIC.into(),
        num_partitions: -1,
        replication_factor: -1,
        assignments: (0..4)
            .map(|partition_index| CreatableReplicaAssignment {
                partition_index,
                broker_ids: if partition_index < 2 { vec![3, 2] } else { vec![2, 3] },
            })
            .collect(),
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 20_000, ..Default::default() };
    let controls = cluster.controller().unwrap();
    assert_eq!(cluster.ask(controls, &request).topics[0].error_code, 0);
    let all_in_sync = |cluster: &Cluster| {
        let seen = partitions(cluster, 1);
        seen.len() == 4 && seen.iter().all(|p| p.isr_nodes.len() == 2)
    };
    cluster.until("all are in sync", || all_in_sync(&cluster));
    let produce_to = |cluster: &Cluster, partition: i32| {
        let leader = partitions(cluster, 1)[usize::try_from(partition).unwrap()].leader_id;
        leader > 0 && produce_at(cluster, leader, partition, b"value") == ErrorCode::None
    };
    // An ISR is said to be full before anybody has made a log.
    for partition in 0..4 {
        cluster.until("both replicas have a record", || produce_to(&cluster, partition));
    }
    let is_bad = |p: i32| bad.join(format!("{TOPIC}-{p}")).exists();
    assert_eq!((0..4).filter(|&p| is_bad(p)).count(), 2, "both directories are used");
    let lost: Vec<i32> = (0..4).filter(|&p| is_bad(p)).collect();
    let away = home.path().join("away");
    std::fs::rename(&bad, &away).unwrap();
    // The next checkpoint finds out.
    cluster.until("nobody counts on what was there", || {
        (0..4).for_each(|p| {
            produce_to(&cluster, p);
        });
        partitions(&cluster, 1).iter().all(|p| match lost.contains(&p.partition_index) {
            true => p.leader_id == 2 && p.isr_nodes == [2] && p.offline_replicas == [3],
            false => p.isr_nodes.len() == 2 && p.offline_replicas.is_empty(),
        })
    });
    for partition in 0..4 {
        let leader = if partition < 2 && !lost.contains(&partition) { 3 } else { 2 };
        let index = usize::try_from(partition).unwrap();
        // Both: one hears of it before the other.
        cluster.until("the new leader and the old one know", || {
            [2, 3].iter().all(|&id| partitions(&cluster, id)[index].leader_id == leader)
        });
        let seen = &partitions(&cluster, 3)[index];
        let code = produce_at(&cluster, leader, partition, b"value");
        assert_eq!(code, ErrorCode::None, "{seen:?}");
        if leader == 2 && lost.contains(&partition) {
            let code = produce_at(&cluster, 3, partition, b"late");
            assert_ne!(code, ErrorCode::None, "the old leader has stepped down");
        }
    }
    // The disk is back: what it lacks comes from the others.
    std::fs::rename(&away, &bad).unwrap();
    cluster.kill_broker(3);
    cluster.start_broker_with(3, &settings);
    cluster.until("all are in sync again", || all_in_sync(&cluster));
    assert!(partitions(&cluster, 1).iter().all(|p| p.offline_replicas.is_empty()));
}

/// The file of the records.
fn records(cluster: &Cluster, id: i32) -> std::path::PathBuf {
    cluster.directory(id).join(format!("{TOPIC}-0/00000000000000000000.log"))
}

/// What a power failure leaves of the `of` equal batches that a log has: all but the last `lost`.
fn lose_power(cluster: &Cluster, id: i32, of: u64, lost: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(records(cluster, id)).unwrap();
    let length = file.metadata().unwrap().len();
    assert_eq!(length % of, 0, "the batches are equal");
    file.set_len(length / of * (of - lost)).unwrap();
    let path = cluster.directory(id).join("barnabas-logs");
    let text = std::fs::read_to_string(&path).unwrap();
    let boot = text.lines().find(|line| line.starts_with("boot=")).unwrap();
    std::fs::write(&path, text.replace(boot, "boot=another")).unwrap();
}

fn until_all_have(cluster: &Cluster, ids: &[i32], end: i64) {
    let leader = view(cluster, ids[0]).unwrap().leader_id;
    cluster.until("nothing is lost", || fetch(cluster, leader) == (ErrorCode::None, end));
    let stored = |id| std::fs::read(records(cluster, id)).unwrap_or_default();
    cluster
        .until("all logs are the leader's", || ids.iter().all(|&id| stored(id) == stored(leader)));
}

/// Ends all of a cluster of three at once: the store keeps the ISR as it was.
fn kill_all(cluster: &mut Cluster) {
    (1..=3).for_each(|id| cluster.crash_broker(id));
    (1..=3).for_each(|id| cluster.expire_session(id));
}

fn three_with(values: u32, settings: &[(&str, &str)]) -> Cluster {
    // Nobody is to be missed before all are gone.
    let usual =
        [("replica.fetch.wait.max.ms", "100"), ("barnabas.fast.failure.detection", "false")];
    let settings = [&usual, settings].concat();
    let cluster = Cluster::start(3, &settings);
    create(&cluster, &[1, 2, 3]);
    until_isr_is(&cluster, &[1, 2, 3]);
    for _ in 0..values {
        assert_eq!(produce(&cluster, 1, b"value"), ErrorCode::None);
    }
    cluster
}

#[test]
fn after_a_power_failure_of_all_the_longest_log_leads() {
    let mut cluster = three_with(6, &[]);
    kill_all(&mut cluster);
    // Each keeps another part of what it had not synced.
    [(1, 3), (2, 0), (3, 5)].into_iter().for_each(|(id, lost)| lose_power(&cluster, id, 6, lost));
    for id in [1, 3, 2] {
        cluster.start_broker(id);
        if id != 2 {
            let state = cluster.text("/brokers/topics/t/partitions/0/state").unwrap();
            assert!(state.contains(r#""leader":-1,"#), "the others may have more: {state}");
        }
    }
    until_isr_is(&cluster, &[1, 2, 3]);
    until_all_have(&cluster, &[1, 2, 3], 6);
    cluster.until("nobody is in doubt", || {
        (1..=3).all(|id| cluster.text(&format!("/barnabas/doubts/{id}")).is_none())
    });
}

#[test]
fn who_lost_power_does_not_lead_those_that_did_not() {
    let mut cluster = three_with(4, &[]);
    kill_all(&mut cluster);
    lose_power(&cluster, 1, 4, 3);
    cluster.start_broker(1);
    // Once more, and nothing happens to it this time: it lacks what it lacks.
    cluster.kill_broker(1);
    cluster.start_broker(1);
    let doubt = cluster.text("/barnabas/doubts/1").unwrap();
    assert_eq!(doubt, r#"{"version":1,"logs":"unclean"}"#);
    cluster.start_broker(3);
    until_isr_is(&cluster, &[1, 3]);
    assert_eq!(view(&cluster, 1).unwrap().leader_id, 3);
    cluster.start_broker(2);
    until_isr_is(&cluster, &[1, 2, 3]);
    until_all_have(&cluster, &[1, 2, 3], 4);
}

#[test]
fn who_is_the_only_one_to_return_leads_after_a_while() {
    let mut cluster = three_with(4, &[("barnabas.unclean.restart.wait.ms", "500")]);
    kill_all(&mut cluster);
    lose_power(&cluster, 2, 4, 1);
    cluster.start_broker(2);
    until_isr_is(&cluster, &[2]);
    until_all_have(&cluster, &[2], 3);
    assert_eq!(produce(&cluster, 2, b"value"), ErrorCode::None);
    cluster.start_broker(1);
    cluster.start_broker(3);
    until_isr_is(&cluster, &[1, 2, 3]);
    until_all_have(&cluster, &[1, 2, 3], 4);
}

#[test]
fn one_that_was_emptied_and_is_the_first_to_return_waits_for_the_rest() {
    let mut cluster = three_with(4, &[("barnabas.unclean.restart.wait.ms", "100")]);
    kill_all(&mut cluster);
    empty(&cluster, 1);
    cluster.start_broker(1);
    cluster.until("it has said that its log is gone", || {
        view(&cluster, 1).is_some_and(|mut partition| {
            partition.isr_nodes.sort_unstable();
            partition.leader_id == -1 && partition.isr_nodes == [2, 3]
        })
    });
    cluster.start_broker(2);
    until_isr_is(&cluster, &[1, 2]);
    assert_eq!(view(&cluster, 1).unwrap().leader_id, 2);
    cluster.start_broker(3);
    until_isr_is(&cluster, &[1, 2, 3]);
    until_all_have(&cluster, &[1, 2, 3], 4);
}
