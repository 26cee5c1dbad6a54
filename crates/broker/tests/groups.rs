//! Groups over loopback: a whole server, asked by our own client in chosen versions.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use broker::config::BrokerConfig;
use broker::server::{Environment, Server};
use bytes::Bytes;
use client::{Connection, ConnectionOptions};
use protocol::ErrorCode;
use protocol::messages::create_topics_request::CreatableTopic;
use protocol::messages::delete_topics_request::DeleteTopicState;
use protocol::messages::join_group_request::JoinGroupRequestProtocol;
use protocol::messages::metadata_request::MetadataRequestTopic;
use protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use protocol::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, DescribeGroupsRequest, FindCoordinatorRequest,
    HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest, SyncGroupRequest,
};
use std::path::Path;
use std::time::Duration;

struct Running(Option<Server>);

impl Running {
    fn start(directory: &Path) -> Self {
        let overrides = [
            ("listeners", "PLAINTEXT://127.0.0.1:0"),
            ("log.dirs", directory.to_str().unwrap()),
            ("offsets.topic.num.partitions", "3"),
            ("group.initial.rebalance.delay.ms", "0"),
        ];
        let overrides = overrides.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let config = BrokerConfig::load(None, &overrides).unwrap().config;
        let environment = Environment::real();
        Self(Some(Server::start(config, environment).unwrap()))
    }

    async fn connect(&self) -> Connection {
        let address = self.0.as_ref().unwrap().listeners()[0].bound.to_string();
        Connection::connect(&address, ConnectionOptions::default()).await.unwrap()
    }

    /// A connection to the coordinator of `group`, once there is one.
    async fn coordinator(&self, group: &str) -> Connection {
        let connection = self.connect().await;
        let find = FindCoordinatorRequest { key: group.into(), ..Default::default() };
        loop {
            match ask(&connection, &find, 3).await.error_code {
                0 => break,
                code => assert_eq!(code, ErrorCode::CoordinatorNotAvailable.code()),
            }
        }
        let describe = DescribeGroupsRequest { groups: vec![group.into()], ..Default::default() };
        loop {
            match ask(&connection, &describe, 5).await.groups[0].error_code {
                0 => return connection,
                code => assert_eq!(code, ErrorCode::CoordinatorLoadInProgress.code()),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.take().unwrap().stop(Duration::from_secs(5));
    }
}

/// Runs a story against a server that is started before it and stopped after it.
fn with_server<T>(directory: &Path, story: impl AsyncFnOnce(&Running) -> T) -> T {
    let running = Running::start(directory);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(story(&running))
}

async fn ask<R: protocol::Request>(
    connection: &Connection,
    request: &R,
    version: i16,
) -> R::Response {
    let (response, used) = connection.send_at_most(request, version).await.unwrap();
    assert_eq!(used, version);
    response
}

async fn create_topic(connection: &Connection, name: &str) {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: 2,
        replication_factor: 1,
        ..Default::default()
    };
    let request =
        CreateTopicsRequest { topics: vec![topic], timeout_ms: 10_000, ..Default::default() };
    let response = ask(connection, &request, 7).await;
    assert_eq!(response.topics[0].error_code, 0);
}

async fn commit(connection: &Connection, version: i16, topic: &OffsetCommitRequestTopic) -> i16 {
    let request = OffsetCommitRequest {
        group_id: "g".into(),
        topics: vec![topic.clone()],
        ..Default::default()
    };
    let response = ask(connection, &request, version).await;
    response.topics[0].partitions[0].error_code
}

fn offset(topic: &str, offset: i64) -> OffsetCommitRequestTopic {
    let partition = OffsetCommitRequestPartition {
        partition_index: 1,
        committed_offset: offset,
        committed_metadata: Some("note".into()),
        ..Default::default()
    };
    OffsetCommitRequestTopic {
        name: topic.into(),
        partitions: vec![partition],
        ..Default::default()
    }
}

/// The committed offset of partition 1, and the error.
async fn fetch(connection: &Connection, version: i16, topic: &str) -> (i64, i16) {
    let mut request = OffsetFetchRequest::default();
    if version < 8 {
        let topic = OffsetFetchRequestTopic { name: topic.into(), partition_indexes: vec![1] };
        request.group_id = "g".into();
        request.topics = Some(vec![topic]);
    } else {
        let topic = OffsetFetchRequestTopics {
            name: topic.into(),
            partition_indexes: vec![1],
            ..Default::default()
        };
        let group_id = "g".into();
        request.groups = vec![OffsetFetchRequestGroup {
            group_id,
            topics: Some(vec![topic]),
            ..Default::default()
        }];
    }
    let response = ask(connection, &request, version).await;
    if version < 8 {
        let partition = &response.topics[0].partitions[0];
        (partition.committed_offset, partition.error_code)
    } else {
        let partition = &response.groups[0].topics[0].partitions[0];
        (partition.committed_offset, partition.error_code)
    }
}

async fn join(connection: &Connection, member: &str) -> JoinGroupResponse {
    let request = JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 1_000,
        member_id: member.into(),
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: Bytes::from_static(b"subscription"),
        }],
        ..Default::default()
    };
    ask(connection, &request, 3).await
}

async fn sync(connection: &Connection, joined: &JoinGroupResponse, share: Bytes) -> Bytes {
    let assignments = joined.members.iter().map(|member| SyncGroupRequestAssignment {
        member_id: member.member_id.clone(),
        assignment: share.clone(),
    });
    let request = SyncGroupRequest {
        group_id: "g".into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        assignments: assignments.collect(),
        ..Default::default()
    };
    let response = ask(connection, &request, 4).await;
    assert_eq!(response.error_code, 0);
    response.assignment
}

async fn heartbeat(connection: &Connection, joined: &JoinGroupResponse) -> i16 {
    let request = HeartbeatRequest {
        group_id: "g".into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        ..Default::default()
    };
    ask(connection, &request, 4).await.error_code
}

#[test]
fn a_group_and_its_offsets_live_through_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let joined = with_server(directory.path(), async |running| {
        let connection = running.coordinator("g").await;
        create_topic(&connection, "t").await;
        let joined = join(&connection, "").await;
        assert_eq!((joined.error_code, joined.generation_id), (0, 1));
        assert_eq!(sync(&connection, &joined, Bytes::from_static(b"all of it")).await, "all of it");
        let request = OffsetCommitRequest {
            group_id: "g".into(),
            generation_id_or_member_epoch: 1,
            member_id: joined.member_id.clone(),
            topics: vec![offset("t", 42)],
            ..Default::default()
        };
        let committed = ask(&connection, &request, 9).await;
        assert_eq!(committed.topics[0].partitions[0].error_code, 0);
        joined
    });
    with_server(directory.path(), async |running| {
        let connection = running.coordinator("g").await;
        assert_eq!(fetch(&connection, 7, "t").await, (42, 0));
        assert_eq!(heartbeat(&connection, &joined).await, 0, "the member does not notice");
        let none = JoinGroupResponse { members: Vec::new(), ..joined };
        assert_eq!(sync(&connection, &none, Bytes::new()).await, "all of it");
    });
}

#[test]
fn what_one_version_commits_every_version_fetches() {
    let directory = tempfile::tempdir().unwrap();
    with_server(directory.path(), async |running| {
        let connection = running.coordinator("g").await;
        create_topic(&connection, "t").await;
        assert_eq!(
            fetch(&connection, 0, "t").await,
            (-1, ErrorCode::UnknownTopicOrPartition.code())
        );
        for version in 1..=9 {
            assert_eq!(fetch(&connection, version, "t").await, (-1, 0));
        }
        for version in 0..=9 {
            let topic = offset("t", 100 + i64::from(version));
            assert_eq!(commit(&connection, version, &topic).await, 0, "v{version}");
            for by in 0..=9 {
                assert_eq!(fetch(&connection, by, "t").await, (100 + i64::from(version), 0));
            }
        }
        let unknown = commit(&connection, 9, &offset("unknown", 1)).await;
        assert_eq!(unknown, ErrorCode::UnknownTopicOrPartition.code());
    });
}

/// With a retriable code producers asked until their own time was up; franz-go without end.
#[test]
fn a_transactional_id_is_refused_for_good() {
    let directory = tempfile::tempdir().unwrap();
    with_server(directory.path(), async |running| {
        let connection = running.connect().await;
        let refused = ErrorCode::TransactionalIdAuthorizationFailed;
        assert!(!refused.is_retriable());
        let find = FindCoordinatorRequest { key_type: 1, key: "id".into(), ..Default::default() };
        for version in 1..=3 {
            let response = ask(&connection, &find, version).await;
            assert_eq!((response.error_code, response.node_id), (refused.code(), -1));
            assert!(response.error_message.unwrap().contains("transactions"));
        }
        let coordinator_keys = vec!["id".into()];
        let find = FindCoordinatorRequest { key_type: 1, coordinator_keys, ..Default::default() };
        for version in 4..=6 {
            let response = ask(&connection, &find, version).await;
            let [coordinator] = &response.coordinators[..] else { panic!("{response:?}") };
            assert_eq!((coordinator.error_code, coordinator.node_id), (refused.code(), -1));
            assert!(coordinator.error_message.as_ref().unwrap().contains("transactions"));
        }
    });
}

#[test]
fn a_topic_that_is_created_again_begins_without_offsets() {
    let directory = tempfile::tempdir().unwrap();
    with_server(directory.path(), async |running| {
        let connection = running.coordinator("g").await;
        create_topic(&connection, "t").await;
        assert_eq!(commit(&connection, 9, &offset("t", 1000)).await, 0);
        let topics = vec![DeleteTopicState { name: Some("t".into()), ..Default::default() }];
        let request = DeleteTopicsRequest { topics, timeout_ms: 10_000, ..Default::default() };
        let deleted = ask(&connection, &request, 6).await;
        assert_eq!(deleted.responses[0].error_code, 0);
        create_topic(&connection, "t").await;
        while fetch(&connection, 9, "t").await != (-1, 0) {}
    });
}

#[test]
fn a_member_that_never_syncs_is_removed_and_the_others_go_on() {
    let directory = tempfile::tempdir().unwrap();
    with_server(directory.path(), async |running| {
        let (first, second) = (running.coordinator("g").await, running.coordinator("g").await);
        let alone = join(&first, "").await;
        let rejoin = async {
            while heartbeat(&first, &alone).await == 0 {}
            join(&first, &alone.member_id).await
        };
        let (other, leader) = tokio::join!(join(&second, ""), rejoin);
        assert_eq!((other.generation_id, leader.generation_id), (2, 2));
        assert_eq!(leader.members.len(), 2);
        sync(&first, &leader, Bytes::from_static(b"half")).await;
        while heartbeat(&second, &other).await == 0 {}
        assert_eq!(heartbeat(&second, &other).await, ErrorCode::UnknownMemberId.code());
        assert_eq!(heartbeat(&first, &leader).await, ErrorCode::RebalanceInProgress.code());
        let again = join(&first, &leader.member_id).await;
        assert_eq!((again.generation_id, again.members.len()), (3, 1));
    });
}

#[test]
fn from_version_10_each_naming_of_a_partition_is_answered_and_a_missing_group_is_called_that() {
    let directory = tempfile::tempdir().unwrap();
    with_server(directory.path(), async |running| {
        let connection = running.coordinator("g").await;
        create_topic(&connection, "t").await;
        let metadata = MetadataRequest {
            topics: Some(vec![MetadataRequestTopic {
                name: Some("t".into()),
                ..Default::default()
            }]),
            ..Default::default()
        };
        let topic_id = ask(&connection, &metadata, 12).await.topics[0].topic_id;
        let partition = |committed_offset| OffsetCommitRequestPartition {
            committed_offset,
            ..Default::default()
        };
        let codes = async |version, generation| {
            let topic = OffsetCommitRequestTopic {
                name: "t".into(),
                topic_id,
                partitions: vec![partition(1), partition(2)],
            };
            let request = OffsetCommitRequest {
                group_id: "g".into(),
                generation_id_or_member_epoch: generation,
                topics: vec![topic],
                ..Default::default()
            };
            let answer = ask(&connection, &request, version).await;
            answer.topics[0].partitions.iter().map(|one| one.error_code).collect::<Vec<_>>()
        };
        let missing = ErrorCode::GroupIdNotFound.code();
        assert_eq!(codes(9, 1).await, [ErrorCode::IllegalGeneration.code()]);
        assert_eq!(codes(10, 1).await, [missing, missing]);
        assert_eq!(codes(9, -1).await, [0]);
        assert_eq!(codes(10, -1).await, [0, 0]);
        let offsets = async |version| {
            let topic = OffsetFetchRequestTopics {
                name: "t".into(),
                topic_id,
                partition_indexes: vec![0, 0],
            };
            let group = OffsetFetchRequestGroup {
                group_id: "g".into(),
                topics: Some(vec![topic]),
                ..Default::default()
            };
            let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
            let answer = ask(&connection, &request, version).await;
            let partitions = answer.groups[0].topics[0].partitions.iter();
            partitions.map(|one| one.committed_offset).collect::<Vec<_>>()
        };
        assert_eq!((offsets(9).await, offsets(10).await), (vec![2], vec![2, 2]));
    });
}
