use super::producing::produce_to;
use super::*;
use protocol::ErrorCode;
use protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use protocol::messages::{DescribeLogDirsRequest, ListOffsetsRequest, OffsetForLeaderEpochRequest};

fn list(client: &mut Client, version: i16, timestamp: i64) -> ListOffsetsPartitionResponse {
    list_from(client, version, 0, timestamp)
}

fn list_from(
    client: &mut Client,
    version: i16,
    partition_index: i32,
    timestamp: i64,
) -> ListOffsetsPartitionResponse {
    let partition = ListOffsetsPartition {
        partition_index,
        timestamp,
        max_num_offsets: if version == 0 { 10 } else { 1 },
        ..Default::default()
    };
    let topics = vec![ListOffsetsTopic { name: "t".into(), partitions: vec![partition] }];
    let request = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
    client.call(version, &request).topics.remove(0).partitions.remove(0)
}

/// B13.
#[test]
fn the_first_record_at_or_after_a_time_is_found() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 2, &[]);
    let mut client = running.connect();
    for timestamp in [100, 200, 300] {
        client.call(9, &produce_to("t", 0, -1, batch(&[timestamp])));
    }
    for version in 1..=11 {
        let mut ask = |timestamp| {
            let answer = list(&mut client, version, timestamp);
            assert_eq!(answer.error_code, 0);
            (answer.offset, answer.timestamp)
        };
        assert_eq!(ask(0), (0, 100));
        assert_eq!(ask(150), (1, 200));
        assert_eq!(ask(200), (1, 200));
        assert_eq!(ask(300), (2, 300));
        assert_eq!(ask(301), (-1, -1));
        assert_eq!(ask(-1), (3, -1));
        assert_eq!(ask(-2), (0, -1));
        assert_eq!(list_from(&mut client, version, 1, 0).offset, -1, "an empty partition");
    }
}

#[test]
fn the_record_with_the_latest_time_is_found() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    assert_eq!(list(&mut client, 7, -3).offset, -1, "nothing there");
    for timestamps in [&[100, 500, 200][..], &[300, 500]] {
        client.call(9, &produce_to("t", 0, -1, batch(timestamps)));
    }
    let answer = list(&mut client, 7, -3);
    assert_eq!((answer.offset, answer.timestamp, answer.leader_epoch), (1, 500, 0));
}

#[test]
fn sentinels_belong_to_their_versions() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    let unsupported = ErrorCode::UnsupportedVersion.code();
    for (timestamp, since) in [(-3, 7), (-4, 8), (-5, 9), (-6, 11)] {
        assert_eq!(list(&mut client, since - 1, timestamp).error_code, unsupported);
        assert_eq!(list(&mut client, since, timestamp).error_code, 0, "{timestamp}");
    }
    assert_eq!(list(&mut client, 11, -7).error_code, unsupported);
    assert_eq!(list(&mut client, 11, -4).offset, 0);
    assert_eq!(list(&mut client, 11, -5).offset, -1, "there is no tiered storage");
}

#[test]
fn version_0_lists_where_segments_start() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    client.call(9, &produce_to("t", 0, -1, batch(&[100, 200, 300])));
    assert_eq!(list(&mut client, 0, -1).old_style_offsets, [3, 0]);
    assert_eq!(list(&mut client, 0, -2).old_style_offsets, [0]);
    assert!(list(&mut client, 0, 5).old_style_offsets.is_empty(), "no segment is that old");
    let unknown = list_from(&mut client, 0, 9, -1);
    assert_eq!(unknown.error_code, ErrorCode::UnknownTopicOrPartition.code());
    assert!(unknown.old_style_offsets.is_empty());
}

#[test]
fn a_partition_named_twice_is_an_invalid_request() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 2, &[]);
    let partition = |partition_index| ListOffsetsPartition {
        partition_index,
        timestamp: -1,
        ..Default::default()
    };
    let topics = vec![ListOffsetsTopic {
        name: "t".into(),
        partitions: vec![partition(0), partition(0), partition(1)],
    }];
    let request = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
    let response = running.connect().call(5, &request);
    let codes: Vec<_> = response.topics[0].partitions.iter().map(|p| p.error_code).collect();
    let invalid = ErrorCode::InvalidRequest.code();
    assert_eq!(codes, [invalid, invalid, 0]);
}

/// R7.
#[test]
fn an_epoch_ends_where_the_next_begins_and_a_future_one_is_unknown() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    client.call(9, &produce_to("t", 0, -1, batch(&[1, 2])));
    running.host_as("t", TOPIC_ID, 1, &[], 5);
    client.call(9, &produce_to("t", 0, -1, batch(&[3])));
    let mut ask = |leader_epoch, current_leader_epoch| {
        let partitions =
            vec![OffsetForLeaderPartition { partition: 0, current_leader_epoch, leader_epoch }];
        let topics = vec![OffsetForLeaderTopic { topic: "t".into(), partitions }];
        let request = OffsetForLeaderEpochRequest { topics, replica_id: -1 };
        let answer = client.call(4, &request).topics.remove(0).partitions.remove(0);
        (answer.error_code, answer.leader_epoch, answer.end_offset)
    };
    assert_eq!(ask(0, -1), (0, 0, 2));
    assert_eq!(ask(3, -1), (0, 0, 2), "the last epoch at or below");
    assert_eq!(ask(5, 5), (0, 5, 3));
    assert_eq!(ask(6, -1), (0, -1, -1));
    assert_eq!(ask(-1, -1), (0, -1, -1));
    assert_eq!(ask(0, 4), (ErrorCode::FencedLeaderEpoch.code(), -1, -1));
    assert_eq!(ask(0, 6), (ErrorCode::UnknownLeaderEpoch.code(), -1, -1));
}

#[test]
fn log_directories_tell_what_is_in_them() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 2, &[]);
    let mut client = running.connect();
    client.call(9, &produce_to("t", 1, -1, batch(&[1])));
    let response = client.call(4, &DescribeLogDirsRequest { topics: None });
    assert_eq!(response.results.len(), 1);
    let result = &response.results[0];
    assert!(result.log_dir.starts_with('/'));
    assert!(result.total_bytes >= result.usable_bytes && result.usable_bytes > 0);
    let sizes: Vec<_> =
        result.topics[0].partitions.iter().map(|p| (p.partition_index, p.partition_size)).collect();
    assert_eq!(sizes[0], (0, 0));
    assert!(sizes[1].1 > 100);
    let nothing = client.call(4, &DescribeLogDirsRequest { topics: Some(Vec::new()) });
    assert!(nothing.results[0].topics.is_empty());
}

#[test]
fn logs_move_only_between_directories_of_the_broker() {
    use protocol::messages::alter_replica_log_dirs_request::{
        AlterReplicaLogDir, AlterReplicaLogDirTopic,
    };
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let own = running.directory.as_ref().unwrap().path().to_str().unwrap().to_owned();
    let mut client = running.connect();
    let mut ask = |path: &str, topic: &str| {
        let topics = vec![AlterReplicaLogDirTopic { name: topic.into(), partitions: vec![0] }];
        let dirs = vec![AlterReplicaLogDir { path: path.into(), topics }];
        let response = client.call(2, &protocol::messages::AlterReplicaLogDirsRequest { dirs });
        ErrorCode::from_code(response.results[0].partitions[0].error_code).unwrap()
    };
    assert_eq!(ask(&own, "t"), ErrorCode::None, "it is there");
    assert_eq!(ask("/nowhere", "t"), ErrorCode::LogDirNotFound);
    assert_eq!(ask(&own, "unknown"), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(ask(&own, &"x".repeat(230)), ErrorCode::InvalidTopicException);
}
