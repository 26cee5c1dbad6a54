//! The control path of a cluster: several whole brokers over one store, told by one of them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use broker::server::Server;
use client::{Connection, ConnectionOptions};
use coordination::{Change, CreateMode, Event};
use platform::Clock;
use platform::clock::SystemClock;
use protocol::ErrorCode;
use protocol::messages::create_topics_request::CreatableTopic;
use protocol::messages::leader_and_isr_request::{
    LeaderAndIsrPartitionState, LeaderAndIsrTopicState,
};
use protocol::messages::leader_and_isr_response::LeaderAndIsrTopicError;
use protocol::messages::metadata_request::MetadataRequestTopic;
use protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use protocol::messages::stop_replica_request::StopReplicaPartitionV0;
use protocol::messages::update_metadata_request::{
    UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataPartitionState,
    UpdateMetadataTopicState,
};
use protocol::messages::{
    AllocateProducerIdsRequest, AlterPartitionRequest, ControlledShutdownRequest,
    CreateTopicsRequest, DescribeClusterRequest, FindCoordinatorRequest, InitProducerIdRequest,
    LeaderAndIsrRequest, MetadataRequest, MetadataResponse, OffsetCommitRequest,
    OffsetFetchRequest, StopReplicaRequest, UpdateMetadataRequest,
};
use std::time::Duration;
use support::Cluster;

fn metadata(cluster: &Cluster, id: i32) -> MetadataResponse {
    cluster.ask(id, &MetadataRequest { topics: None, ..Default::default() })
}

fn create(cluster: &Cluster, name: &str, partitions: i32, factor: i16) {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: partitions,
        replication_factor: factor,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 20_000, ..Default::default() };
    let response = cluster.ask(cluster.controller().unwrap(), &request);
    assert_eq!(response.topics[0].error_code, 0, "{response:?}");
}

/// What broker 1 answers if it is told of one partition.
fn told_of_one(cluster: &Cluster, state: LeaderAndIsrPartitionState) -> i16 {
    let request = LeaderAndIsrRequest {
        controller_id: 1,
        controller_epoch: 1,
        ungrouped_partition_states: vec![state],
        ..Default::default()
    };
    cluster.tell(1, &request, 1).partition_errors[0].error_code
}

#[test]
fn every_broker_is_told_of_every_broker_and_every_topic() {
    let cluster = Cluster::start(3, &[]);
    assert_eq!(cluster.controller(), Some(1));
    create(&cluster, "t", 3, 3);
    for id in 1..=3 {
        cluster.until("all brokers and the topic are known", || {
            let response = metadata(&cluster, id);
            let brokers: Vec<_> = response.brokers.iter().map(|b| b.node_id).collect();
            let led = cluster.state(id, "t", 2).is_some_and(|(leader, ..)| leader > 0);
            brokers == [1, 2, 3] && response.controller_id == 1 && led
        });
    }
}

#[test]
fn the_leader_and_the_controller_die_in_one_and_are_replaced() {
    let mut cluster = Cluster::start(3, &[]);
    create(&cluster, "t", 3, 3);
    let led_by_1 = (0..3).find(|&p| cluster.state(1, "t", p).unwrap().0 == 1).unwrap();
    cluster.kill_broker(1);
    cluster.until("another controller", || cluster.controller().is_some_and(|id| id != 1));
    for id in [2, 3] {
        cluster.until("another leader, known to all", || {
            cluster.state(id, "t", led_by_1).is_some_and(|(leader, epoch, isr)| {
                leader != 1 && epoch == 1 && isr.len() == 2 && !isr.contains(&1)
            })
        });
    }
    assert_eq!(cluster.text("/controller_epoch").as_deref(), Some("2"));
    cluster.start_broker(1);
    assert!(cluster.state(1, "t", led_by_1).is_some(), "a broker serves once it knows its topics");
}

#[test]
fn a_broker_that_stops_hands_over_before_it_is_gone() {
    let mut cluster = Cluster::start(3, &[]);
    create(&cluster, "t", 3, 3);
    let led_by_3 = (0..3).find(|&p| cluster.state(1, "t", p).unwrap().0 == 3).unwrap();
    let (session, mut events) = cluster.session();
    let state = format!("/brokers/topics/t/partitions/{led_by_3}/state");
    for path in [state.as_str(), "/brokers/ids/3"] {
        cluster.block_on(session.exists(path, true)).unwrap();
    }
    cluster.stop_broker(3);
    let mut heard = Vec::new();
    while let Ok(Event::Watched(change, path)) = events.try_recv() {
        heard.push((change, path));
    }
    let gone = (Change::Deleted, "/brokers/ids/3".to_owned());
    assert_eq!(heard, [(Change::Data, state), gone]);
    let (leader, epoch, isr) = cluster.state(1, "t", led_by_3).unwrap();
    assert_eq!((leader != 3, epoch, isr.contains(&3)), (true, 1, false));
}

/// A controller of the past, or one that means an earlier registration, is refused by its first field.
#[test]
fn control_requests_are_checked_in_kafkas_order_in_all_versions() {
    let cluster = Cluster::start(1, &[]);
    create(&cluster, "t", 1, 1);
    let update = |controller_epoch, broker_epoch| UpdateMetadataRequest {
        controller_id: 1,
        controller_epoch,
        broker_epoch,
        live_brokers: vec![UpdateMetadataBroker { id: 1, ..Default::default() }],
        ..Default::default()
    };
    let epoch = cluster.broker_epoch(1).unwrap();
    let told = |request: &UpdateMetadataRequest| cluster.tell(1, request, 8).error_code;
    assert_eq!(told(&update(0, epoch)), ErrorCode::StaleControllerEpoch.code());
    assert_eq!(told(&update(0, epoch - 1)), ErrorCode::StaleBrokerEpoch.code(), "checked first");
    assert_eq!(told(&update(1, epoch + 1)), 0, "our next one, before we know it");
    assert_eq!(told(&update(1, -1)), 0);
    for version in 0..=8 {
        let request = match version {
            0 => UpdateMetadataRequest {
                live_brokers: vec![UpdateMetadataBroker {
                    id: 1,
                    v0_host: "localhost".into(),
                    v0_port: 1,
                    ..Default::default()
                }],
                ..update(1, -1)
            },
            _ => update(1, -1),
        };
        assert_eq!(cluster.tell(1, &request, version).error_code, 0, "version {version}");
    }
    let state = |name: &str| LeaderAndIsrPartitionState {
        topic_name: name.into(),
        leader: 1,
        isr: vec![1],
        replicas: vec![1],
        ..Default::default()
    };
    for version in 0..=7 {
        let name = format!("v{version}");
        let (mut ungrouped, mut topics) = (Vec::new(), Vec::new());
        if version < 2 {
            ungrouped.push(state(&name));
        } else {
            topics.push(LeaderAndIsrTopicState {
                topic_name: name.as_str().into(),
                partition_states: vec![state("")],
                ..Default::default()
            });
        }
        let request = LeaderAndIsrRequest {
            controller_id: 1,
            controller_epoch: 1,
            ungrouped_partition_states: ungrouped,
            topic_states: topics,
            ..Default::default()
        };
        let codes = |controller_epoch| {
            let request = LeaderAndIsrRequest { controller_epoch, ..request.clone() };
            let response = cluster.tell(1, &request, version);
            let grouped = response.topics.iter().flat_map(|topic| &topic.partition_errors);
            let codes = response.partition_errors.iter().chain(grouped).map(|p| p.error_code);
            (response.error_code, codes.collect::<Vec<_>>())
        };
        let stale = ErrorCode::StaleControllerEpoch.code();
        assert_eq!(codes(0), (stale, vec![stale]), "version {version}: repeated on each partition");
        assert_eq!(codes(1), (0, vec![0]), "version {version}");
        assert_eq!(codes(1), (0, vec![stale]), "version {version}: nothing new");
    }
    let mut followed = state("followed");
    (followed.leader, followed.leader_epoch, followed.replicas) = (2, 5, vec![1, 2]);
    let follow = |leader_epoch| {
        let state = LeaderAndIsrPartitionState { leader_epoch, ..followed.clone() };
        told_of_one(&cluster, state)
    };
    let stale = ErrorCode::StaleControllerEpoch.code();
    assert_eq!([5, 5, 4, 6].map(follow), [0, stale, stale, 0], "a follower knows its epoch too");
    let partition = StopReplicaPartitionV0 { topic_name: "v0".into(), partition_index: 0 };
    let stop = StopReplicaRequest {
        controller_id: 1,
        controller_epoch: 1,
        delete_partitions: true,
        ungrouped_partitions: vec![partition],
        ..Default::default()
    };
    let response = cluster.tell(1, &stop, 0);
    assert_eq!((response.error_code, response.partition_errors[0].error_code), (0, 0));
    let stale = StopReplicaRequest { controller_epoch: 0, ..stop };
    let response = cluster.tell(1, &stale, 0);
    let code = ErrorCode::StaleControllerEpoch.code();
    assert_eq!((response.error_code, response.partition_errors.len()), (code, 0));
}

/// What a client sends to a listener that lets it in makes no directory elsewhere, and none that takes
/// its log directory down.
#[test]
fn partitions_have_names_that_a_directory_may_have() {
    let cluster = Cluster::start(1, &[]);
    create(&cluster, "t", 1, 1);
    let led = |name: &str, partition_index| {
        let state = LeaderAndIsrPartitionState {
            topic_name: name.into(),
            partition_index,
            leader: 1,
            isr: vec![1],
            replicas: vec![1],
            is_new: true,
            ..Default::default()
        };
        told_of_one(&cluster, state)
    };
    let invalid = ErrorCode::InvalidTopicException.code();
    let long = "x".repeat(250);
    for name in ["../../out", "a/b", "..", "", "ü", "a\0b", long.as_str()] {
        assert_eq!(led(name, 0), invalid, "{name:?}");
    }
    assert_eq!(led("new", -1), invalid);
    assert_eq!(led("new", 0), 0, "the log directory is up");
}

#[test]
fn what_a_leader_and_isr_says_twice_or_wrongly_is_answered_as_kafka_does() {
    let cluster = Cluster::start(1, &[]);
    let state = |partition_index, leader_epoch| LeaderAndIsrPartitionState {
        partition_index,
        leader_epoch,
        leader: 1,
        isr: vec![1],
        replicas: vec![1],
        ..Default::default()
    };
    let id = |n| model::TopicId([n; 16]);
    let topic = |name: &str, n, partition_states| LeaderAndIsrTopicState {
        topic_name: name.into(),
        topic_id: id(n),
        partition_states,
    };
    let told = |topic_states, is_kraft_controller| {
        let request = LeaderAndIsrRequest {
            controller_id: 1,
            controller_epoch: 1,
            is_kraft_controller,
            topic_states,
            ..Default::default()
        };
        let response = cluster.tell(1, &request, 7);
        let partitions = |topic: &LeaderAndIsrTopicError| {
            let partitions = topic.partition_errors.iter();
            partitions.map(|p| (p.partition_index, p.error_code)).collect::<Vec<_>>()
        };
        (response.error_code, response.topics.iter().map(partitions).collect::<Vec<_>>())
    };
    assert_eq!(told(vec![topic("t", 1, vec![])], false), (0, vec![]), "no partitions");
    let twice = vec![state(0, 3), state(1, 0), state(0, 4)];
    let (code, mut topics) = told(vec![topic("t", 1, twice)], false);
    topics[0].sort_unstable();
    assert_eq!((code, topics), (0, vec![vec![(0, 0), (1, 0)]]));
    let stale = ErrorCode::StaleControllerEpoch.code();
    let both = vec![state(0, 4), state(1, 0)];
    assert_eq!(told(vec![topic("t", 1, both)], false).1, [[(0, stale), (1, stale)]], "the last");
    let other = ErrorCode::InconsistentTopicId.code();
    for epoch in [3, 4, 5] {
        let answered = told(vec![topic("t", 2, vec![state(0, epoch)])], false).1;
        assert_eq!(answered, [[(0, other)]], "in epoch {epoch}");
    }
    let unknown = ErrorCode::UnknownServerError.code();
    assert_eq!(
        told(vec![topic("t", 1, vec![state(0, 9)])], true),
        (unknown, vec![vec![(0, unknown)]])
    );
}

#[test]
fn an_update_of_the_image_keeps_ids_and_refuses_what_cannot_be() {
    let cluster = Cluster::start(1, &[]);
    create(&cluster, "t", 1, 1);
    let endpoint = |listener: &str, port, security_protocol| UpdateMetadataEndpoint {
        listener: listener.into(),
        host: "h".into(),
        port,
        security_protocol,
    };
    let update = |endpoints, is_kraft_controller| UpdateMetadataRequest {
        controller_id: 9,
        controller_epoch: 1,
        is_kraft_controller,
        ungrouped_partition_states: vec![UpdateMetadataPartitionState {
            topic_name: "t".into(),
            leader: 1,
            leader_epoch: 7,
            isr: vec![1],
            replicas: vec![1],
            ..Default::default()
        }],
        live_brokers: vec![UpdateMetadataBroker { id: 1, endpoints, ..Default::default() }],
        ..Default::default()
    };
    let id = metadata(&cluster, 1).topics[0].topic_id;
    let twice = vec![endpoint("PLAINTEXT", 1, 0), endpoint("PLAINTEXT", 2, 0)];
    let unknown = ErrorCode::UnknownServerError.code();
    assert_eq!(cluster.tell(1, &update(twice.clone(), false), 4).error_code, unknown);
    let mut kraft = update(Vec::new(), true);
    kraft.ungrouped_partition_states.clear();
    assert_eq!(cluster.tell(1, &kraft, 8).error_code, unknown);
    assert_eq!(cluster.state(1, "t", 0), Some((1, 0, vec![1])), "nothing of it is believed");
    let good = vec![endpoint("PLAINTEXT", 1, 0)];
    assert_eq!(cluster.tell(1, &update(good, false), 4).error_code, 0);
    assert_eq!(cluster.state(1, "t", 0), Some((1, 7, vec![1])));
    assert_eq!(metadata(&cluster, 1).topics[0].topic_id, id, "a version without ids keeps it");
    let described = cluster.ask(1, &DescribeClusterRequest::default());
    assert_eq!(described.controller_id, -1, "it is not among the brokers");
}

#[test]
fn who_is_not_controller_says_so() {
    let cluster = Cluster::start(2, &[]);
    let (broker_id, broker_epoch) = (2, cluster.broker_epoch(2).unwrap());
    let alter = AlterPartitionRequest { broker_id, broker_epoch, ..Default::default() };
    let ids = AllocateProducerIdsRequest { broker_id, broker_epoch };
    let shut_down = ControlledShutdownRequest { broker_id, broker_epoch };
    let not_controller = ErrorCode::NotController.code();
    assert_eq!(cluster.tell(2, &alter, 3).error_code, not_controller);
    assert_eq!(cluster.tell(2, &ids, 0).error_code, not_controller);
    let stale = ErrorCode::StaleControllerEpoch.code();
    assert_eq!(cluster.tell(2, &shut_down, 3).error_code, stale);
    assert_eq!(cluster.tell(1, &alter, 3).error_code, 0);
    let given = cluster.tell(1, &ids, 0);
    assert_eq!((given.error_code, given.producer_id_len), (0, 1000));
    let unknown = AllocateProducerIdsRequest { broker_id: 7, broker_epoch };
    let code = ErrorCode::BrokerIdNotRegistered.code();
    assert_eq!(cluster.tell(1, &unknown, 0).error_code, code);
}

#[test]
fn producer_ids_come_from_the_controller_and_never_twice() {
    let cluster = Cluster::start(2, &[]);
    let request = InitProducerIdRequest { transactional_id: None, ..Default::default() };
    let mut given = Vec::new();
    for id in [1, 2, 1, 2] {
        cluster.until("an id", || {
            let response = cluster.ask(id, &request);
            let is_given = response.error_code == 0;
            given.extend(is_given.then_some(response.producer_id));
            is_given
        });
    }
    given.sort_unstable();
    given.dedup();
    assert_eq!(given.len(), 4, "{given:?}");
    let block = cluster.text("/latest_producer_id_block").unwrap();
    assert!(block.contains(r#""block_end":"1999""#), "{block}");
}

#[test]
fn a_broker_whose_session_ends_comes_back_as_another_incarnation() {
    let cluster = Cluster::start(3, &[]);
    create(&cluster, "t", 3, 3);
    let before = cluster.broker_epoch(2).unwrap();
    cluster.expire_session(2);
    cluster.until("a new registration", || cluster.broker_epoch(2).is_some_and(|e| e > before));
    let old = UpdateMetadataRequest {
        controller_id: 1,
        controller_epoch: 1,
        broker_epoch: before,
        ..Default::default()
    };
    cluster.until("the old one is refused", || {
        cluster.tell(2, &old, 8).error_code == ErrorCode::StaleBrokerEpoch.code()
    });
    cluster.expire_session(1);
    cluster.until("another controller", || {
        cluster.text("/controller_epoch").as_deref() == Some("2") && cluster.controller().is_some()
    });
    cluster.until("all are back in every ISR", || {
        (0..3).all(|p| cluster.state(3, "t", p).is_some_and(|(l, _, isr)| l > 0 && isr.len() == 3))
    });
}

#[test]
fn one_silent_broker_holds_nobody_up() {
    let cluster = Cluster::start(2, &[]);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let node = format!(
        r#"{{"features":{{}},"listener_security_protocol_map":{{"PLAINTEXT":"PLAINTEXT"}},"endpoints":["PLAINTEXT://127.0.0.1:{port}"],"jmx_port":-1,"port":{port},"host":"127.0.0.1","version":5,"timestamp":"9"}}"#
    );
    let (session, _events) = cluster.session();
    let created = session.create("/brokers/ids/9", Some(node.into()), CreateMode::Ephemeral);
    cluster.block_on(created).unwrap();
    cluster.until("it is taken for live", || {
        metadata(&cluster, 2).brokers.iter().any(|broker| broker.node_id == 9)
    });
    let clock = SystemClock::new();
    let start = clock.now();
    create(&cluster, "t", 6, 3);
    cluster.until("the others lead", || {
        (0..6).filter(|&p| cluster.state(2, "t", p).is_some_and(|s| s.0 != 9)).count() >= 4
    });
    assert!(clock.now().since(start) < Duration::from_secs(10));
    cluster.block_on(session.close()).unwrap();
    cluster.until("what it led is led by others", || {
        (0..6).all(|p| cluster.state(2, "t", p).is_some_and(|s| s.0 != 9 && s.0 > 0))
    });
}

#[test]
fn any_broker_creates_what_its_clients_ask_for() {
    let cluster = Cluster::start(2, &[]);
    let topic = MetadataRequestTopic { name: Some("asked".into()), ..Default::default() };
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: true,
        ..Default::default()
    };
    cluster.ask(2, &request);
    cluster.until("it is there for all", || {
        [1, 2].iter().all(|&id| cluster.state(id, "asked", 0).is_some_and(|s| s.0 > 0))
    });
}

const OFFSETS: [(&str, &str); 3] = [
    ("offsets.topic.num.partitions", "1"),
    ("offsets.topic.replication.factor", "3"),
    ("group.initial.rebalance.delay.ms", "0"),
];

#[test]
fn the_coordinator_of_a_group_is_where_its_partition_is_led_and_moves_with_it() {
    let mut cluster = Cluster::start(3, &OFFSETS);
    create(&cluster, "t", 1, 3);
    let find = FindCoordinatorRequest { coordinator_keys: vec!["g".into()], ..Default::default() };
    let found = |cluster: &Cluster, id| cluster.ask(id, &find).coordinators[0].node_id;
    cluster.until("a coordinator", || found(&cluster, 1) > 0);
    let first = found(&cluster, 1);
    let commit = OffsetCommitRequest {
        group_id: "g".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![OffsetCommitRequestTopic {
            name: "t".into(),
            partitions: vec![OffsetCommitRequestPartition {
                committed_offset: 42,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    cluster.until("the offset is committed", || {
        cluster.tell(first, &commit, 8).topics[0].partitions[0].error_code == 0
    });
    let other = (1..=3).find(|&id| id != first).unwrap();
    let refused = cluster.tell(other, &commit, 8).topics[0].partitions[0].error_code;
    assert_eq!(refused, ErrorCode::NotCoordinator.code());
    cluster.kill_broker(first);
    cluster.until("another coordinator", || ![-1, first].contains(&found(&cluster, other)));
    let second = found(&cluster, other);
    let group = OffsetFetchRequestGroup {
        group_id: "g".into(),
        topics: Some(vec![OffsetFetchRequestTopics {
            name: "t".into(),
            partition_indexes: vec![0],
            ..Default::default()
        }]),
        member_epoch: -1,
        ..Default::default()
    };
    let fetch = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    cluster.until("the offset is there", || {
        let response = cluster.tell(second, &fetch, 8);
        let group = &response.groups[0];
        group.error_code == 0 && group.topics[0].partitions[0].committed_offset == 42
    });
}

/// Its sockets are open before it knows its cluster: that is how it is told of it.
#[test]
fn what_clients_ask_before_a_broker_knows_its_cluster_waits_until_it_does() {
    let mut cluster = Cluster::without_brokers(&[]);
    // A controller that says nothing on its own, and topics that it knows of.
    let (session, _events) = cluster.session();
    let node = r#"{"version":2,"brokerid":9,"timestamp":"1","kraftControllerEpoch":-1}"#;
    let created = session.create("/controller", Some(node.into()), CreateMode::Ephemeral);
    cluster.block_on(created).unwrap();
    cluster.block_on(session.create_parents("/brokers/topics/t")).unwrap();
    let (config, environment, store) = cluster.prepare_broker(1, &[]);
    let starting = std::thread::spawn(move || Server::start_on(config, environment, store));
    let registration = || cluster.text("/brokers/ids/1").filter(|text| !text.is_empty());
    cluster.until("it is registered", || registration().is_some());
    let text = registration().unwrap();
    let (_, rest) = text.split_once(r#""port":"#).unwrap();
    let port: i32 = rest.split(',').next().unwrap().parse().unwrap();
    let address = format!("127.0.0.1:{port}");
    let connect = || Connection::connect_unasked(&address, ConnectionOptions::default());
    let (client, controller) =
        cluster.block_on(async { (connect().await.unwrap(), connect().await.unwrap()) });
    let ask = MetadataRequest { topics: None, ..Default::default() };
    let update = |topics| UpdateMetadataRequest {
        controller_id: 9,
        controller_epoch: 1,
        live_brokers: vec![UpdateMetadataBroker { id: 1, ..Default::default() }],
        topic_states: topics,
        ..Default::default()
    };
    let topic = UpdateMetadataTopicState {
        topic_name: "t".into(),
        partition_states: vec![UpdateMetadataPartitionState {
            leader: 1,
            isr: vec![1],
            replicas: vec![1],
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer = cluster.block_on(async {
        let asking = client.send_in_version(&ask, 9);
        let telling = async {
            // Brokers only, as a new controller begins.
            controller.send_in_version(&update(Vec::new()), 8).await.unwrap();
            controller.send_in_version(&update(vec![topic.clone()]), 8).await.unwrap();
        };
        tokio::join!(asking, telling).0.unwrap()
    });
    assert_eq!(answer.topics[0].name.as_deref(), Some("t"));
    cluster.adopt_broker(1, starting.join().unwrap().unwrap());
}
