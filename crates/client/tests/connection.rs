//! A connection against a broker that a test plays.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use client::{ClientError, Connection, ConnectionOptions};
use protocol::messages::api_versions_response::ApiVersion;
use protocol::messages::{
    ApiVersionsResponse, HeartbeatRequest, HeartbeatResponse, ListGroupsRequest, MetadataRequest,
};
use protocol::{ApiKey, ErrorCode, Message, Reader, RequestHeader, Writer, encode_response_header};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The broker's end of a connection.
struct Played(TcpStream);

impl Played {
    async fn receive(&mut self) -> (RequestHeader, Reader) {
        let length = self.0.read_i32().await.unwrap();
        let mut frame = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut frame).await.unwrap();
        let mut reader = Reader::new(frame.into());
        (RequestHeader::decode(&mut reader).unwrap(), reader)
    }

    async fn answer(&mut self, to: &RequestHeader, version: i16, body: &impl Message) {
        let mut writer = Writer::new_frame();
        let (key, id) = (to.api_key, to.correlation_id);
        encode_response_header(&mut writer, key, version, id).unwrap();
        body.encode(&mut writer, version).unwrap();
        self.0.write_all(&writer.flatten_frame()).await.unwrap();
    }

    /// Answers the first `ApiVersions`.
    async fn greet(&mut self) {
        let (header, _) = self.receive().await;
        assert_eq!((header.api_key, header.api_version), (ApiKey::ApiVersions, 3));
        self.answer(&header, 3, &served()).await;
    }
}

trait FlattenFrame {
    fn flatten_frame(&mut self) -> Bytes;
}

impl FlattenFrame for Writer {
    fn flatten_frame(&mut self) -> Bytes {
        let segments = self.finish_frame().unwrap();
        let bytes = segments.into_iter().map(|segment| match segment {
            protocol::Segment::Bytes(bytes) => bytes,
            protocol::Segment::File(_) => panic!("no files here"),
        });
        bytes.collect::<Vec<_>>().concat().into()
    }
}

fn served() -> ApiVersionsResponse {
    let api = |key: ApiKey, min_version, max_version| ApiVersion {
        api_key: key.code(),
        min_version,
        max_version,
    };
    ApiVersionsResponse {
        api_keys: vec![
            api(ApiKey::ApiVersions, 0, 3),
            api(ApiKey::Heartbeat, 0, 2),
            api(ApiKey::ListGroups, 90, 99),
        ],
        ..ApiVersionsResponse::default()
    }
}

/// Connects to a broker that `play` plays.
async fn connect<F: Future<Output = ()> + Send + 'static>(
    play: impl FnOnce(Played) -> F + Send + 'static,
    options: ConnectionOptions,
) -> (Result<Connection, ClientError>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let broker = tokio::spawn(async move {
        let (socket, _) = listener.accept().await.unwrap();
        play(Played(socket)).await;
    });
    (Connection::connect(&address, options).await, broker)
}

fn heartbeat(generation_id: i32) -> HeartbeatRequest {
    HeartbeatRequest { generation_id, ..HeartbeatRequest::default() }
}

#[tokio::test]
async fn requests_go_out_before_earlier_ones_are_answered() {
    let play = |mut broker: Played| async move {
        broker.greet().await;
        let mut headers = Vec::new();
        for generation in 0..3 {
            let (header, mut body) = broker.receive().await;
            assert_eq!(header.api_version, 2, "the newest that both speak");
            let request = HeartbeatRequest::decode(&mut body, 2).unwrap();
            assert_eq!(request.generation_id, generation);
            headers.push(header);
        }
        for (throttle_time_ms, header) in (0..).zip(&headers) {
            let body = HeartbeatResponse { throttle_time_ms, ..HeartbeatResponse::default() };
            broker.answer(header, 2, &body).await;
        }
    };
    let (connection, broker) = connect(play, ConnectionOptions::default()).await;
    let connection = connection.unwrap();
    let (a, b, c) = (heartbeat(0), heartbeat(1), heartbeat(2));
    let (a, b, c) = tokio::join!(connection.send(&a), connection.send(&b), connection.send(&c));
    assert_eq!([a, b, c].map(|answer| answer.unwrap().throttle_time_ms), [0, 1, 2]);
    broker.await.unwrap();
}

#[tokio::test]
async fn an_older_broker_is_asked_again_in_its_own_version() {
    let play = |mut broker: Played| async move {
        let (header, _) = broker.receive().await;
        let refusal = ApiVersionsResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            api_keys: vec![ApiVersion { api_key: 18, min_version: 0, max_version: 2 }],
            ..ApiVersionsResponse::default()
        };
        broker.answer(&header, 0, &refusal).await;
        let (header, _) = broker.receive().await;
        assert_eq!(header.api_version, 2);
        broker.answer(&header, 2, &served()).await;
    };
    let (connection, broker) = connect(play, ConnectionOptions::default()).await;
    let connection = connection.unwrap();
    assert_eq!(connection.version_at_most::<HeartbeatRequest>(9), Some(2));
    assert_eq!(connection.version_at_most::<HeartbeatRequest>(1), Some(1));
    assert_eq!(connection.version_at_most::<ListGroupsRequest>(99), None, "too new for us");
    let refused = connection.send(&MetadataRequest::default()).await;
    assert!(matches!(refused, Err(ClientError::Unsupported { .. })), "not served");
    broker.await.unwrap();
}

#[tokio::test]
async fn whoever_waits_learns_that_the_connection_ended() {
    let play = |mut broker: Played| async move {
        broker.greet().await;
        broker.receive().await;
    };
    let (connection, _broker) = connect(play, ConnectionOptions::default()).await;
    let connection = connection.unwrap();
    for _ in 0..2 {
        let answer = connection.send(&heartbeat(0)).await;
        assert!(matches!(answer, Err(ClientError::Disconnected { .. })), "{answer:?}");
        assert!(!connection.is_open());
    }
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_ends_the_connection() {
    for frame in [
        &[0, 0, 0, 4, 0, 0, 0, 99][..], // another correlation id
        &[0x7f, 0xff, 0xff, 0xff],      // 2 GiB
        &[0xff, 0xff, 0xff, 0xff],      // a negative length
        &[0, 0, 0, 1, 0],               // no header
    ] {
        let play = move |mut broker: Played| async move {
            broker.greet().await;
            broker.receive().await;
            broker.0.write_all(frame).await.unwrap();
            // Until the client hangs up.
            broker.0.read_to_end(&mut Vec::new()).await.ok();
        };
        let (connection, _broker) = connect(play, ConnectionOptions::default()).await;
        let answer = connection.unwrap().send(&heartbeat(0)).await;
        assert!(matches!(answer, Err(ClientError::Disconnected { .. })), "{answer:?}");
    }
}

#[tokio::test]
async fn a_silent_broker_is_not_waited_for_for_ever() {
    let play = |mut broker: Played| async move {
        broker.greet().await;
        broker.0.read_to_end(&mut Vec::new()).await.ok();
    };
    let options = ConnectionOptions {
        request_timeout: Duration::from_millis(200),
        ..ConnectionOptions::default()
    };
    let (connection, _broker) = connect(play, options).await;
    let answer = connection.unwrap().send(&heartbeat(0)).await;
    assert!(matches!(answer, Err(ClientError::Timeout { .. })), "{answer:?}");
}

#[tokio::test]
async fn nobody_there_is_an_error_that_names_the_address() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refused = Connection::connect(&free.to_string(), ConnectionOptions::default()).await;
    let text = refused.unwrap_err().to_string();
    assert!(text.contains(&free.to_string()), "{text}");
}
