//! What may be written in a version that cannot say it: nothing, unless Kafka calls it ignorable.

use bytes::Bytes;
use protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
use protocol::messages::metadata_request::MetadataRequestTopic;
use protocol::messages::{ConsumerGroupMemberMetadataValue, FetchResponse, MetadataRequest};
use protocol::messages::{MetadataResponse, OffsetFetchRequest, ProduceRequest, ProduceResponse};
use protocol::{EncodeError, Message, Reader, Writer};

fn encode<M: Message>(message: &M, version: i16) -> Result<Bytes, EncodeError> {
    let mut writer = Writer::new();
    message.encode(&mut writer, version)?;
    Ok(writer.flatten().expect("in memory"))
}

#[test]
fn a_value_that_the_version_lacks_is_an_error() {
    let request = ProduceRequest { transactional_id: Some("t".into()), ..Default::default() };
    let error = EncodeError::Unsupported { field: "TransactionalId", version: 2 };
    assert_eq!(encode(&request, 2), Err(error));
    assert!(encode(&request, 3).is_ok());
    let request = MetadataRequest { allow_auto_topic_creation: false, ..Default::default() };
    assert!(encode(&request, 3).is_err());
    assert!(encode(&MetadataRequest::default(), 3).is_ok(), "the default needs no saying");
}

#[test]
fn an_ignorable_value_is_left_out() {
    let response = ProduceResponse { throttle_time_ms: 7, ..Default::default() };
    assert_eq!(encode(&response, 0), Ok(Bytes::from_static(&[0, 0, 0, 0])));
    assert_eq!(encode(&response, 1), Ok(Bytes::from_static(&[0, 0, 0, 0, 0, 0, 0, 7])));
}

#[test]
fn null_is_an_error_where_the_version_does_not_know_it() {
    let request = MetadataRequest { topics: None, ..Default::default() };
    assert_eq!(encode(&request, 0), Err(EncodeError::Null { field: "Topics", version: 0 }));
    assert!(encode(&request, 1).is_ok());
    let topic = MetadataRequestTopic { name: None, ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    assert!(encode(&request, 9).is_err());
    assert!(encode(&request, 10).is_ok());
}

#[test]
fn a_version_that_does_not_exist_is_an_error_both_ways() {
    for version in [-1, 14, i16::MAX] {
        assert!(encode(&MetadataResponse::default(), version).is_err());
        let mut reader = Reader::new(Bytes::from(vec![0; 100]));
        assert!(MetadataResponse::decode(&mut reader, version).is_err());
    }
}

#[test]
fn no_records_can_be_said_in_two_ways() {
    let response = |records| FetchResponse {
        responses: vec![FetchableTopicResponse {
            partitions: vec![PartitionData { records, ..Default::default() }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let null = encode(&response(None), 4).unwrap();
    let empty = encode(&response(Some(Default::default())), 4).unwrap();
    assert!(null.ends_with(&[0xff; 4]), "what librdkafka refuses");
    assert!(empty.ends_with(&[0; 4]), "what Kafka sends");
}

#[test]
fn the_default_of_a_nullable_field_is_what_it_is_in_kafka() {
    assert_eq!(MetadataRequest::default().topics, Some(Vec::new()));
    assert_eq!(OffsetFetchRequest::default().topics, Some(Vec::new()));
    let member = ConsumerGroupMemberMetadataValue::default();
    assert!(member.classic_member_metadata.is_some(), "null has to be said");
    let null = ConsumerGroupMemberMetadataValue { classic_member_metadata: None, ..member.clone() };
    assert!(encode(&null, 0).unwrap().ends_with(&[1, 0, 1, 0]), "one tag, 0, of 1 byte, null");
    assert!(encode(&member, 0).unwrap().ends_with(&[0]), "no tag at all");
}

#[test]
fn bytes_after_a_message_stay_unread() {
    let mut bytes = encode(&MetadataRequest::default(), 12).unwrap().to_vec();
    bytes.extend_from_slice(b"more");
    let mut reader = Reader::new(bytes.into());
    assert_eq!(MetadataRequest::decode(&mut reader, 12), Ok(MetadataRequest::default()));
    assert_eq!(reader.remaining(), 4);
}
