use super::*;
use bytes::Bytes;
use model::{ProducerEpoch, ProducerId, Sequence};
use protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use protocol::messages::produce_response::PartitionProduceResponse;
use protocol::messages::{
    DeleteRecordsRequest, DescribeProducersRequest, InitProducerIdRequest, ListOffsetsRequest,
    ProduceRequest, ProduceResponse,
};
use protocol::{ErrorCode, Records};

pub(super) fn produce_to(topic: &str, index: i32, acks: i16, records: Bytes) -> ProduceRequest {
    ProduceRequest {
        acks,
        timeout_ms: 1000,
        topic_data: vec![TopicProduceData {
            name: topic.into(),
            topic_id: TOPIC_ID,
            partition_data: vec![PartitionProduceData {
                index,
                records: Some(Records::from(records)),
            }],
        }],
        ..Default::default()
    }
}

pub(super) fn only(response: &ProduceResponse) -> &PartitionProduceResponse {
    assert_eq!(response.responses.len(), 1);
    assert_eq!(response.responses[0].partition_responses.len(), 1);
    &response.responses[0].partition_responses[0]
}

fn code(response: &ProduceResponse) -> ErrorCode {
    ErrorCode::from_code(only(response).error_code).unwrap()
}

#[test]
fn batches_get_the_next_offsets_in_every_version() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    let mut next = 0;
    for version in 3..=13 {
        for acks in [1, -1] {
            let response = client.call(version, &produce_to("t", 0, acks, batch(&[100, 200])));
            let answer = only(&response);
            assert_eq!((answer.error_code, answer.base_offset), (0, next), "v{version}");
            assert_eq!(answer.log_append_time_ms, -1);
            if version >= 5 {
                assert_eq!(answer.log_start_offset, 0);
            }
            next += 2;
        }
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    for _ in 0..3 {
        assert_eq!(code(&client.call(9, &produce_to("t", 0, -1, batch(&[1])))), ErrorCode::None);
    }
    let directory = running.stop();
    let running = Running::start_in(directory, &[]);
    running.host_as("t", TOPIC_ID, 1, &[], 1);
    let response = running.connect().call(9, &produce_to("t", 0, -1, batch(&[1])));
    assert_eq!(only(&response).base_offset, 3);
}

/// B11.
#[test]
fn acks_0_is_answered_by_silence() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    client.send(9, 1, &produce_to("t", 0, 0, batch(&[1])));
    client.send(9, 2, &produce_to("t", 0, 1, batch(&[1])));
    let response = client.receive::<ProduceRequest>(9, 2);
    assert_eq!(only(&response).base_offset, 1, "the first was appended");
}

/// B11.
#[test]
fn acks_0_that_fails_closes_the_connection() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    client.send(9, 1, &produce_to("unknown", 0, 0, batch(&[1])));
    client.send(9, 2, &ListOffsetsRequest::default());
    assert!(client.is_closed());
}

#[test]
fn each_fault_has_kafkas_code() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[("max.message.bytes", "500")]);
    running.host("__consumer_offsets", TopicId([8; 16]), 1, &[]);
    let mut client = running.connect();
    let good = || batch(&[1]);
    let mut corrupt = good().to_vec();
    *corrupt.last_mut().unwrap() ^= 1;
    let two = [good(), good()].concat();
    let cases = [
        (9, produce_to("unknown", 0, 1, good()), ErrorCode::UnknownTopicOrPartition),
        (9, produce_to("t", 1, 1, good()), ErrorCode::UnknownTopicOrPartition),
        (9, produce_to("t", -1, 1, good()), ErrorCode::UnknownTopicOrPartition),
        (9, produce_to("t", 0, 2, good()), ErrorCode::InvalidRequiredAcks),
        (9, produce_to("t", 0, 1, corrupt.into()), ErrorCode::CorruptMessage),
        (9, produce_to("t", 0, 1, two.into()), ErrorCode::InvalidRecord),
        (9, produce_to("t", 0, 1, Bytes::new()), ErrorCode::InvalidRecord),
        (9, produce_to("t", 0, 1, batch(&[1; 5])), ErrorCode::MessageTooLarge),
        (9, produce_to("__consumer_offsets", 0, 1, good()), ErrorCode::InvalidTopicException),
    ];
    for (version, request, expected) in cases {
        let response = client.call(version, &request);
        let answer = only(&response);
        assert_eq!(code(&response), expected, "{request:?}");
        assert_eq!((answer.base_offset, answer.log_append_time_ms), (-1, -1));
    }
    let mut unknown = produce_to("", 0, 1, good());
    unknown.topic_data[0].topic_id = TopicId([9; 16]);
    assert_eq!(code(&client.call(13, &unknown)), ErrorCode::UnknownTopicId);
    let response = client.call(9, &produce_to("t", 0, 1, good()));
    assert_eq!(only(&response).base_offset, 0, "nothing of it was appended");
    client.client_id = Some("__admin_client");
    let by_admin = client.call(9, &produce_to("__consumer_offsets", 0, 1, good()));
    assert_eq!(code(&by_admin), ErrorCode::None);
}

/// B9.
#[test]
fn a_record_without_key_on_a_compacted_topic_is_refused_and_named() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[("cleanup.policy", "compact")]);
    let mut client = running.connect();
    let mut builder = RecordBatchBuilder::new();
    builder.append(Some(Timestamp(1)), Some(b"k"), Some(b"v")).unwrap();
    builder.append(Some(Timestamp(1)), None, Some(b"v")).unwrap();
    let response = client.call(8, &produce_to("t", 0, -1, builder.build().unwrap()));
    assert_eq!(code(&response), ErrorCode::InvalidRecord);
    let errors = &only(&response).record_errors;
    assert_eq!(errors.iter().map(|error| error.batch_index).collect::<Vec<_>>(), [1]);
    assert!(errors[0].batch_index_error_message.as_deref().unwrap().contains("without key"));
    assert!(only(&response).error_message.is_some());
}

#[test]
fn the_brokers_clock_stamps_records_if_the_topic_says_so() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[("message.timestamp.type", "LogAppendTime")]);
    let response = running.connect().call(9, &produce_to("t", 0, 1, batch(&[5])));
    assert!(only(&response).log_append_time_ms > 1_600_000_000_000);
}

fn idempotent(sequence: i32, epoch: i16) -> Bytes {
    let mut builder = RecordBatchBuilder::new().producer(
        ProducerId(77),
        ProducerEpoch(epoch),
        Some(Sequence(sequence)),
    );
    builder.append(Some(Timestamp(1)), None, Some(b"v")).unwrap();
    builder.build().unwrap()
}

#[test]
fn a_repeated_batch_is_answered_with_its_old_offset() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    for (sequence, offset) in [(0, 0), (1, 1), (1, 1), (0, 0), (2, 2)] {
        let response = client.call(9, &produce_to("t", 0, -1, idempotent(sequence, 0)));
        assert_eq!((code(&response), only(&response).base_offset), (ErrorCode::None, offset));
    }
    let gap = client.call(9, &produce_to("t", 0, -1, idempotent(7, 0)));
    assert_eq!(code(&gap), ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(code(&client.call(9, &produce_to("t", 0, -1, idempotent(0, 1)))), ErrorCode::None);
    let old = client.call(9, &produce_to("t", 0, -1, idempotent(3, 0)));
    assert_eq!(code(&old), ErrorCode::InvalidProducerEpoch);

    let describe = DescribeProducersRequest {
        topics: vec![protocol::messages::describe_producers_request::TopicRequest {
            name: "t".into(),
            partition_indexes: vec![0, 1],
        }],
    };
    let response = client.call(0, &describe);
    let partitions = &response.topics[0].partitions;
    let producer = &partitions[0].active_producers[0];
    assert_eq!((producer.producer_id, producer.producer_epoch, producer.last_sequence), (77, 1, 0));
    assert_eq!((producer.coordinator_epoch, producer.current_txn_start_offset), (-1, -1));
    assert_eq!(partitions[1].error_code, ErrorCode::UnknownTopicOrPartition.code());
}

#[test]
fn transactional_batches_are_refused() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    let mut builder = RecordBatchBuilder::new()
        .producer(ProducerId(5), ProducerEpoch(0), Some(Sequence(0)))
        .transactional();
    builder.append(Some(Timestamp(1)), None, Some(b"v")).unwrap();
    let mut request = produce_to("t", 0, -1, builder.build().unwrap());
    let response = client.call(9, &request);
    assert_eq!(code(&response), ErrorCode::TransactionalIdAuthorizationFailed, "no id");
    request.transactional_id = Some("tx".into());
    assert_eq!(code(&client.call(9, &request)), ErrorCode::InvalidTxnState);
}

#[test]
fn message_sets_of_old_producers_become_batches() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let mut client = running.connect();
    // One message of magic 0 without key, value "v".
    let mut message = vec![0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, b'v'];
    let crc = crc32(&message);
    message.splice(0..0, crc.to_be_bytes());
    let mut set = 0_i64.to_be_bytes().to_vec();
    set.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    set.extend(&message);
    for (version, offset) in [(0, 0), (1, 1), (2, 2)] {
        let response = client.call(version, &produce_to("t", 0, 1, set.clone().into()));
        assert_eq!((code(&response), only(&response).base_offset), (ErrorCode::None, offset));
    }
    let response = client.call(3, &produce_to("t", 0, 1, set.into()));
    assert_eq!(code(&response), ErrorCode::InvalidRecord, "from version 3 on only batches");
}

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 }
        })
    })
}

#[test]
fn many_producers_on_one_partition_lose_nothing() {
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let mut client = running.connect();
            std::thread::spawn(move || {
                let mut offsets = Vec::new();
                for round in 0..20 {
                    for n in 0..10 {
                        client.send(9, round * 10 + n, &produce_to("t", 0, -1, batch(&[1])));
                    }
                    for n in 0..10 {
                        let response = client.receive::<ProduceRequest>(9, round * 10 + n);
                        offsets.push(only(&response).base_offset);
                    }
                }
                offsets
            })
        })
        .collect();
    let mut all: Vec<_> = Vec::new();
    for thread in threads {
        let offsets = thread.join().unwrap();
        assert!(offsets.is_sorted(), "one connection's batches stay in order");
        all.extend(offsets);
    }
    all.sort_unstable();
    assert_eq!(all, (0..1600).collect::<Vec<_>>());
}

/// B29.
#[test]
fn a_transaction_timeout_above_the_maximum_gets_no_id() {
    let running = Running::start();
    let mut client = running.connect();
    let request = |id: Option<&str>, timeout| InitProducerIdRequest {
        transactional_id: id.map(Into::into),
        transaction_timeout_ms: timeout,
        ..Default::default()
    };
    let cases = [
        (request(Some("tx"), 900_001), ErrorCode::InvalidTransactionTimeout),
        (request(Some("tx"), 0), ErrorCode::InvalidTransactionTimeout),
        (request(Some("tx"), 900_000), ErrorCode::NotCoordinator),
        (request(Some(""), 1), ErrorCode::InvalidRequest),
        (InitProducerIdRequest { producer_id: 5, ..request(None, 1) }, ErrorCode::InvalidRequest),
    ];
    for (request, expected) in cases {
        let response = client.call(4, &request);
        assert_eq!(response.error_code, expected.code(), "{request:?}");
        assert_eq!((response.producer_id, response.producer_epoch), (-1, -1));
    }
}

#[test]
fn records_are_deleted_up_to_the_high_watermark_only() {
    use protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
    let running = Running::start();
    running.host("t", TOPIC_ID, 1, &[]);
    running.host("c", TopicId([8; 16]), 1, &[("cleanup.policy", "compact")]);
    running.host("__consumer_offsets", TopicId([9; 16]), 1, &[]);
    let mut client = running.connect();
    client.call(9, &produce_to("t", 0, -1, batch(&[1, 2, 3])));
    let mut delete = |topic: &str, partition_index, offset| {
        let partitions = vec![DeleteRecordsPartition { partition_index, offset }];
        let topics = vec![DeleteRecordsTopic { name: topic.into(), partitions }];
        let response = client.call(2, &DeleteRecordsRequest { topics, timeout_ms: 1000 });
        let answer = &response.topics[0].partitions[0];
        (ErrorCode::from_code(answer.error_code).unwrap(), answer.low_watermark)
    };
    assert_eq!(delete("t", 0, 1), (ErrorCode::None, 1));
    assert_eq!(delete("t", 0, 0), (ErrorCode::None, 1), "it never goes back");
    assert_eq!(delete("t", 0, 4), (ErrorCode::OffsetOutOfRange, -1));
    assert_eq!(delete("t", 0, -2), (ErrorCode::OffsetOutOfRange, -1));
    assert_eq!(delete("t", 0, -1), (ErrorCode::None, 3), "to the high watermark");
    assert_eq!(delete("t", 1, -1), (ErrorCode::UnknownTopicOrPartition, -1));
    assert_eq!(delete("c", 0, -1), (ErrorCode::PolicyViolation, -1));
    assert_eq!(delete("__consumer_offsets", 0, -1), (ErrorCode::InvalidTopicException, -1));
}
