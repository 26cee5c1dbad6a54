use super::producing::produce_to;
use super::*;
use model::{ProducerEpoch, ProducerId};
use platform::Clock;
use protocol::ErrorCode;
use protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use protocol::messages::fetch_response::PartitionData;
use protocol::messages::{FetchRequest, FetchResponse};
use protocol::records::{Batches, EndTransaction};

fn now() -> model::Instant {
    static CLOCK: std::sync::LazyLock<SystemClock> = std::sync::LazyLock::new(SystemClock::new);
    CLOCK.now()
}

fn partition(partition: i32, fetch_offset: i64) -> FetchPartition {
    FetchPartition {
        partition,
        fetch_offset,
        partition_max_bytes: 1 << 20,
        current_leader_epoch: -1,
        last_fetched_epoch: -1,
        log_start_offset: -1,
        ..Default::default()
    }
}

fn fetch(partitions: Vec<FetchPartition>) -> FetchRequest {
    FetchRequest {
        replica_id: -1,
        max_bytes: i32::MAX,
        session_epoch: -1,
        topics: vec![FetchTopic { topic: "t".into(), topic_id: TOPIC_ID, partitions }],
        ..Default::default()
    }
}

fn partitions(response: &FetchResponse) -> Vec<&PartitionData> {
    assert_eq!(response.error_code, 0);
    response.responses.iter().flat_map(|topic| &topic.partitions).collect()
}

fn bytes(data: &PartitionData) -> bytes::Bytes {
    data.records.as_ref().expect("records are never null").to_bytes().unwrap()
}

/// The offsets of the records in the answer.
fn offsets(data: &PartitionData) -> Vec<i64> {
    let bytes = bytes(data);
    let mut offsets = Vec::new();
    for batch in Batches::new(&bytes) {
        let batch = batch.unwrap();
        offsets
            .extend(batch.records(1 << 20).unwrap().iter().map(|record| record.unwrap().offset.0));
    }
    offsets
}

#[test]
fn records_come_back_in_every_version() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    client.call(9, &produce_to("t", 0, -1, batch(&[100, 200])));
    client.call(9, &produce_to("t", 0, -1, batch(&[300])));
    for version in 0..=18 {
        let response = client.call(version, &fetch(vec![partition(0, 0)]));
        let all = partitions(&response);
        assert_eq!((all[0].error_code, all[0].high_watermark), (0, 3), "v{version}");
        assert_eq!(offsets(all[0]), [0, 1, 2], "v{version}");
        if version >= 5 {
            assert_eq!((all[0].last_stable_offset, all[0].log_start_offset), (3, 0));
        }
    }
}

/// B5.
#[test]
fn records_are_empty_never_null() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    client.call(9, &produce_to("t", 0, -1, batch(&[1])));
    for version in [4, 11, 12, 13] {
        let mut request = fetch(vec![partition(0, 99), partition(9, 0)]);
        request.topics.push(FetchTopic {
            topic: "unknown".into(),
            topic_id: TopicId([1; 16]),
            partitions: vec![partition(0, 0)],
        });
        let response = client.call(version, &request);
        let all = partitions(&response);
        let codes: Vec<_> =
            all.iter().map(|data| ErrorCode::from_code(data.error_code).unwrap()).collect();
        let unknown = ErrorCode::UnknownTopicOrPartition;
        let other = if version >= 13 { ErrorCode::UnknownTopicId } else { unknown };
        assert_eq!(codes, [ErrorCode::OffsetOutOfRange, unknown, other]);
        for data in all {
            assert_eq!(bytes(data).len(), 0, "null would not decode");
            assert_eq!((data.high_watermark, data.last_stable_offset), (-1, -1));
        }
    }
}

#[test]
fn of_a_partition_that_is_named_twice_the_last_wish_counts() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    client.call(9, &produce_to("t", 0, -1, batch(&[1])));
    for version in [4, 11, 13] {
        let request = fetch(vec![partition(0, 99), partition(9, 0), partition(0, 0)]);
        let response = client.call(version, &request);
        let all = partitions(&response);
        assert_eq!(all.len(), 2);
        assert_eq!(offsets(all[0]), [0]);
        assert_eq!(all[1].error_code, ErrorCode::UnknownTopicOrPartition.code());
    }
}

/// B15.
#[test]
fn the_first_batch_comes_whole_however_small_the_limit() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 3, &[]);
    let mut client = running.connect();
    let large = {
        let mut builder = RecordBatchBuilder::new();
        builder.append(Some(Timestamp(1)), None, Some(&vec![7; 1_000_000])).unwrap();
        builder.build().unwrap()
    };
    for index in [1, 2] {
        client.call(9, &produce_to("t", index, -1, large.clone()));
    }
    let mut request = fetch(vec![partition(0, 0), partition(1, 0), partition(2, 0)]);
    request.max_bytes = 1;
    request.topics[0].partitions.iter_mut().for_each(|p| p.partition_max_bytes = 1);
    for version in [3, 11, 13] {
        let response = client.call(version, &request);
        let sizes: Vec<_> = partitions(&response).iter().map(|data| bytes(data).len()).collect();
        if version == 3 {
            assert!(sizes[1] > 1_000_000, "down-converted, and still whole: {sizes:?}");
        } else {
            assert_eq!(sizes, [0, large.len(), 0]);
        }
    }
    let response = client.call(2, &request);
    let sizes: Vec<_> = partitions(&response).iter().map(|data| bytes(data).len()).collect();
    assert!(sizes.iter().all(|&size| size <= 1), "up to version 2 the limit is hard: {sizes:?}");
}

/// Java's consumer fails on a part of a batch from version 3 on, and a session must come back to the
/// partition although nothing new arrives there.
#[test]
fn a_batch_that_does_not_fit_is_left_out_and_comes_first_next_time() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 2, &[]);
    let mut client = running.connect();
    let one = batch(&[1, 2, 3]);
    for index in [0, 1] {
        client.call(9, &produce_to("t", index, -1, one.clone()));
    }
    let mut request = fetch(vec![partition(0, 0), partition(1, 0)]);
    request.max_bytes = i32::try_from(one.len() + 20).unwrap();
    for version in [4, 11, 12, 13] {
        let response = client.call(version, &request);
        let sizes: Vec<_> = partitions(&response).iter().map(|data| bytes(data).len()).collect();
        assert_eq!(sizes, [one.len(), 0], "v{version}");
    }
    request.session_epoch = 0;
    let first = client.call(12, &request);
    assert_eq!(offsets(partitions(&first)[0]), [0, 1, 2]);
    request.session_id = first.session_id;
    request.session_epoch = 1;
    request.topics[0].partitions = vec![partition(0, 3)];
    let next = client.call(12, &request);
    let all = partitions(&next);
    assert_eq!(all.iter().map(|data| data.partition_index).collect::<Vec<_>>(), [1]);
    assert_eq!(offsets(all[0]), [0, 1, 2]);
}

#[test]
fn a_fetch_waits_for_min_bytes_and_no_longer() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 2, &[]);
    let (mut producer, mut consumer) = (running.connect(), running.connect());
    let small = batch(&[1]).len();
    for (version, min_bytes, appends) in
        [(4, 1, 1), (12, 1, 1), (12, small * 2, 2), (13, small + 1, 2)]
    {
        let at = |client: &mut Client, index| {
            let request = fetch(vec![partition(index, 1 << 40)]);
            let data = client.call(4, &request);
            assert_eq!(partitions(&data)[0].error_code, ErrorCode::OffsetOutOfRange.code());
            let latest = client.call(
                5,
                &protocol::messages::ListOffsetsRequest {
                    replica_id: -1,
                    topics: vec![protocol::messages::list_offsets_request::ListOffsetsTopic {
                        name: "t".into(),
                        partitions: vec![
                            protocol::messages::list_offsets_request::ListOffsetsPartition {
                                partition_index: index,
                                timestamp: -1,
                                current_leader_epoch: -1,
                                ..Default::default()
                            },
                        ],
                    }],
                    ..Default::default()
                },
            );
            latest.topics[0].partitions[0].offset
        };
        let starts = [at(&mut producer, 0), at(&mut producer, 1)];
        let mut request = fetch(vec![partition(0, starts[0]), partition(1, starts[1])]);
        request.max_wait_ms = 15_000;
        request.min_bytes = i32::try_from(min_bytes).unwrap();
        let start = now();
        consumer.send(version, 3, &request);
        for append in 0..appends {
            producer.call(9, &produce_to("t", append % 2, -1, batch(&[1])));
        }
        let response = consumer.receive::<FetchRequest>(version, 3);
        assert!(now().since(start) < Duration::from_secs(10), "woken, not timed out");
        let total: usize = partitions(&response).iter().map(|data| bytes(data).len()).sum();
        assert!(total >= min_bytes, "{total} of {min_bytes}");
    }
}

#[test]
fn a_fetch_that_waited_long_enough_is_answered_with_what_there_is() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    client.call(9, &produce_to("t", 0, -1, batch(&[1])));
    for (offset, expected) in [(0, vec![0]), (1, vec![])] {
        let mut request = fetch(vec![partition(0, offset)]);
        (request.max_wait_ms, request.min_bytes) = (100, 100_000);
        let start = now();
        let response = client.call(12, &request);
        assert!(now().since(start) >= Duration::from_millis(100));
        assert_eq!(offsets(partitions(&response)[0]), expected);
    }
}

#[test]
fn errors_do_not_wait() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    let mut request = fetch(vec![partition(0, 5)]);
    (request.max_wait_ms, request.min_bytes) = (15_000, 1);
    let start = now();
    client.call(12, &request);
    request.topics[0].partitions[0].current_leader_epoch = 7;
    let response = client.call(12, &request);
    assert_eq!(partitions(&response)[0].error_code, ErrorCode::UnknownLeaderEpoch.code());
    running.host_as("t", TOPIC_ID, 1, &[], 8);
    let response = client.call(12, &request);
    assert_eq!(partitions(&response)[0].error_code, ErrorCode::FencedLeaderEpoch.code());
    assert!(now().since(start) < Duration::from_secs(10));
}

#[test]
fn a_diverged_reader_is_told_where() {
    let running = Running::start();
    running.host_as("t", TOPIC_ID, 1, &[], 0);
    let mut client = running.connect();
    client.call(9, &produce_to("t", 0, -1, batch(&[1, 2])));
    running.host_as("t", TOPIC_ID, 1, &[], 5);
    client.call(9, &produce_to("t", 0, -1, batch(&[1, 2])));
    let mut request = fetch(vec![partition(0, 4)]);
    request.max_wait_ms = 15_000;
    request.topics[0].partitions[0].last_fetched_epoch = 3;
    let response = client.call(12, &request);
    let data = partitions(&response)[0];
    assert_eq!((data.diverging_epoch.epoch, data.diverging_epoch.end_offset), (0, 2));
    assert_eq!(bytes(data).len(), 0);
}

/// A consumer with a session.
struct Session {
    client: Client,
    id: i32,
    epoch: i32,
}

impl Session {
    fn open(running: &Running, asked: Vec<FetchPartition>) -> (Self, FetchResponse) {
        let mut client = running.connect();
        let request = FetchRequest { session_epoch: 0, ..fetch(asked) };
        let response = client.call(13, &request);
        assert!(response.session_id > 0);
        (Self { client, id: response.session_id, epoch: 0 }, response)
    }

    fn send(&mut self, asked: Vec<FetchPartition>, max_wait_ms: i32) {
        self.epoch += 1;
        let mut request = fetch(asked);
        if request.topics[0].partitions.is_empty() {
            request.topics.clear();
        }
        request.session_id = self.id;
        request.session_epoch = self.epoch;
        (request.max_wait_ms, request.min_bytes) = (max_wait_ms, 1);
        self.client.send(13, 1, &request);
    }

    fn receive(&mut self) -> FetchResponse {
        self.client.receive::<FetchRequest>(13, 1)
    }

    fn next(&mut self, asked: Vec<FetchPartition>, max_wait_ms: i32) -> FetchResponse {
        self.send(asked, max_wait_ms);
        self.receive()
    }
}

#[test]
fn a_session_answers_only_what_changed() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 3, &[]);
    let mut producer = running.connect();
    producer.call(9, &produce_to("t", 1, -1, batch(&[1])));
    let asked = (0..3).map(|index| partition(index, 0)).collect();
    let (mut session, first) = Session::open(&running, asked);
    let all = partitions(&first);
    assert_eq!(all.iter().map(|data| data.partition_index).collect::<Vec<_>>(), [0, 1, 2]);

    let again = session.next(Vec::new(), 0);
    assert_eq!(offsets(partitions(&again)[0]), [0], "not consumed, so it comes again");
    let moved = session.next(vec![partition(1, 1)], 0);
    assert!(partitions(&moved).is_empty());

    session.send(Vec::new(), 15_000);
    producer.call(9, &produce_to("t", 2, -1, batch(&[1])));
    let woken = session.receive();
    let all = partitions(&woken);
    assert_eq!((all.len(), all[0].partition_index), (1, 2));
    assert_eq!(offsets(all[0]), [0]);

    let start = now();
    let quiet = session.next(vec![partition(2, 1)], 50);
    assert!(partitions(&quiet).is_empty());
    assert!(now().since(start) >= Duration::from_millis(50));
}

#[test]
fn a_session_tells_a_log_start_that_moved() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut producer = running.connect();
    producer.call(9, &produce_to("t", 0, -1, batch(&[1, 2])));
    let (mut session, _) = Session::open(&running, vec![partition(0, 2)]);
    let broker = running.server.as_ref().unwrap().broker();
    let hosted = broker.partitions.find("t", 0).unwrap();
    hosted.delete_before(broker.clock.timestamp(), Some(model::Offset(1))).unwrap();
    let response = session.next(Vec::new(), 0);
    assert_eq!(partitions(&response)[0].log_start_offset, 1);
    assert!(partitions(&session.next(Vec::new(), 0)).is_empty(), "once");
}

#[test]
fn session_errors_are_kafkas() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let (mut session, _) = Session::open(&running, vec![partition(0, 0)]);
    let mut ask = |session_id, session_epoch, version| {
        let request = FetchRequest { session_id, session_epoch, ..fetch(vec![partition(0, 0)]) };
        let response = session.client.call(version, &request);
        (ErrorCode::from_code(response.error_code).unwrap(), response.session_id)
    };
    assert_eq!(ask(session.id ^ 1, 1, 13), (ErrorCode::FetchSessionIdNotFound, 0));
    assert_eq!(ask(session.id, 5, 13), (ErrorCode::InvalidFetchSessionEpoch, 0));
    assert_eq!(ask(session.id, 1, 12), (ErrorCode::FetchSessionTopicIdError, 0));
    assert_eq!(ask(session.id, -1, 13), (ErrorCode::None, 0), "the end of it");
    assert_eq!(ask(session.id, 1, 13), (ErrorCode::FetchSessionIdNotFound, 0));
}

#[test]
fn forgotten_partitions_are_not_answered_any_more() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 2, &[]);
    let mut producer = running.connect();
    let (mut session, _) = Session::open(&running, vec![partition(0, 0), partition(1, 0)]);
    session.epoch += 1;
    let request = FetchRequest {
        replica_id: -1,
        max_bytes: i32::MAX,
        session_id: session.id,
        session_epoch: session.epoch,
        forgotten_topics_data: vec![ForgottenTopic {
            topic: "t".into(),
            topic_id: TOPIC_ID,
            partitions: vec![0],
        }],
        ..Default::default()
    };
    assert!(partitions(&session.client.call(13, &request)).is_empty());
    for index in [0, 1] {
        producer.call(9, &produce_to("t", index, -1, batch(&[1])));
    }
    let response = session.next(Vec::new(), 0);
    let indexes: Vec<_> = partitions(&response).iter().map(|data| data.partition_index).collect();
    assert_eq!(indexes, [1]);
}

/// Transaction markers at the end of the log: an old consumer would ask for the same offset for ever, as
/// fast as it can.
#[test]
fn consumers_of_old_versions_pass_over_control_batches_and_wait_behind_them() {
    for version in 0..=3 {
        let running = Running::start();
        running.host("t", TOPIC_ID, 1, &[]);
        let partition_of_t = running.server.as_ref().unwrap().broker().partitions.find("t", 0);
        let partition_of_t = partition_of_t.unwrap();
        let mut client = running.connect();
        client.call(9, &produce_to("t", 0, -1, batch(&[1])));
        for id in 0..5 {
            let marker = EndTransaction { committed: true, coordinator_epoch: 0 };
            let marker = marker.batch(ProducerId(id), ProducerEpoch(0), Timestamp(1));
            let (told, done) = std::sync::mpsc::channel();
            partition_of_t.append_as_coordinator(LeaderEpoch(0), &marker, move |result| {
                told.send(result.is_ok()).unwrap();
            });
            assert!(done.recv_timeout(PATIENCE).unwrap());
        }
        // Three of the markers, which are offsets 1 to 5, fit into one read.
        let asked = FetchPartition { partition_max_bytes: 250, ..partition(0, 1) };
        let mut request = fetch(vec![asked]);
        (request.max_wait_ms, request.min_bytes) = (200, 1);
        let start = now();
        let response = client.call(version, &request);
        assert_eq!(bytes(partitions(&response)[0]).len(), 0, "v{version}");
        assert!(now().since(start) >= Duration::from_millis(200), "v{version}: it waits");
        request.max_wait_ms = 15_000;
        client.send(version, 3, &request);
        running.connect().call(9, &produce_to("t", 0, -1, batch(&[7])));
        let response = client.receive::<FetchRequest>(version, 3);
        assert_eq!(offsets(partitions(&response)[0]), [6], "v{version}");
    }
}

/// B17. Where nothing is asked in between, the session still holds the partition that is gone.
#[test]
fn a_topic_made_anew_is_another_topic_to_a_session() {
    for waits_meanwhile in [true, false] {
        let running = Running::start();
        running.host("t", TOPIC_ID, 1, &[]);
        let (mut session, _) = Session::open(&running, vec![partition(0, 0)]);
        if waits_meanwhile {
            session.send(Vec::new(), 15_000);
        }
        running.delete("t", TOPIC_ID, 1);
        if waits_meanwhile {
            session.receive();
        }
        running.host("t", TopicId([8; 16]), 1, &[]);
        for _ in 0..2 {
            let response = session.next(Vec::new(), 0);
            let codes: Vec<_> = partitions(&response).iter().map(|data| data.error_code).collect();
            assert_eq!(codes, [ErrorCode::InconsistentTopicId.code()], "as often as it asks");
        }
    }
}

/// B27.
#[test]
fn a_waiting_fetch_hears_that_its_topic_is_deleted() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    let mut request = fetch(vec![partition(0, 0)]);
    (request.max_wait_ms, request.min_bytes) = (15_000, 1);
    client.send(12, 5, &request);
    // The fetch waits: another request on the same reactors has been answered since.
    running.connect().call(9, &produce_to("unknown", 0, -1, batch(&[1])));
    let start = now();
    running.delete("t", TOPIC_ID, 1);
    let response = client.receive::<FetchRequest>(12, 5);
    assert!(now().since(start) < Duration::from_secs(10));
    let code = partitions(&response)[0].error_code;
    assert!(
        [ErrorCode::UnknownTopicOrPartition.code(), ErrorCode::NotLeaderOrFollower.code()]
            .contains(&code)
    );
    assert_eq!(
        client.call(9, &produce_to("t", 0, -1, batch(&[1]))).responses[0].partition_responses[0]
            .error_code,
        ErrorCode::UnknownTopicOrPartition.code()
    );
}

#[test]
fn a_follower_that_is_no_replica_is_sent_away() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    let mut request = FetchRequest { replica_id: 9, ..fetch(vec![partition(0, 0)]) };
    let response = client.call(12, &request);
    assert_eq!(partitions(&response)[0].error_code, ErrorCode::NotLeaderOrFollower.code());
    request.topics[0].partitions[0].current_leader_epoch = 0;
    let response = client.call(12, &request);
    assert_eq!(partitions(&response)[0].error_code, ErrorCode::UnknownLeaderEpoch.code());
}

#[test]
fn zstd_topics_are_not_for_old_consumers() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[("compression.type", "zstd")]);
    let mut client = running.connect();
    client.call(9, &produce_to("t", 0, -1, batch(&[1])));
    let response = client.call(9, &fetch(vec![partition(0, 0)]));
    assert_eq!(partitions(&response)[0].error_code, ErrorCode::UnsupportedCompressionType.code());
    let response = client.call(10, &fetch(vec![partition(0, 0)]));
    assert_eq!(offsets(partitions(&response)[0]), [0]);
}

#[test]
fn without_down_conversion_old_consumers_get_an_error() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[("message.downconversion.enable", "false")]);
    let mut client = running.connect();
    client.call(9, &produce_to("t", 0, -1, batch(&[1])));
    let response = client.call(3, &fetch(vec![partition(0, 0)]));
    assert_eq!(partitions(&response)[0].error_code, ErrorCode::UnsupportedVersion.code());
}
