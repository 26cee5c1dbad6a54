//! A whole server over loopback, spoken to in raw bytes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod raw_client;

use broker::config::BrokerConfig;
use broker::server::{Environment, Server};
use model::Timestamp;
use platform::Disk;
use platform::disk::MemoryDisk;
use protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use protocol::messages::metadata_request::MetadataRequestTopic;
use protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use protocol::messages::{
    ApiVersionsRequest, FetchRequest, FetchResponse, MetadataRequest, MetadataResponse,
    ProduceRequest,
};
use protocol::records::RecordBatchBuilder;
use protocol::{ApiKey, ErrorCode, Records, RecordsPart};
use raw_client::{Client, PATIENCE};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

struct Running {
    server: Option<Server>,
    address: SocketAddr,
    _directory: Option<tempfile::TempDir>,
}

impl Running {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(settings: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let name = directory.path().to_str().unwrap();
        let running = Self::start_on(Arc::new(platform::disk::RealDisk), name, settings);
        running.owning(directory)
    }

    fn start_on(disk: Arc<dyn Disk>, directories: &str, settings: &[(&str, &str)]) -> Self {
        let fixed = [("listeners", "PLAINTEXT://127.0.0.1:0"), ("log.dirs", directories)];
        let overrides: Vec<_> = fixed
            .iter()
            .chain(settings)
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let config = BrokerConfig::load(None, &overrides).unwrap().config;
        let environment = Environment { disk, ..Environment::real() };
        let server = Server::start(config, environment).unwrap();
        let address = server.listeners()[0].bound;
        Self { server: Some(server), address, _directory: None }
    }

    fn owning(mut self, directory: tempfile::TempDir) -> Self {
        self._directory = Some(directory);
        self
    }

    fn connect(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(Duration::from_secs(5));
        }
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&u32::try_from(body.len()).unwrap().to_be_bytes()[..], body].concat()
}

/// An ApiVersions request of version 0.
fn api_versions_v0(correlation_id: i32) -> Vec<u8> {
    framed(&[&[0, 18, 0, 0][..], &correlation_id.to_be_bytes(), &[0xff, 0xff]].concat())
}

fn api_versions(name: &str) -> ApiVersionsRequest {
    ApiVersionsRequest {
        client_software_name: name.into(),
        client_software_version: "1.0".into(),
        ..Default::default()
    }
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_and_the_connection_stays() {
    let running = Running::start();
    let mut client = running.connect();
    client.send_bytes(&framed(&[0, 18, 0, 127, 0, 0, 0, 5, 0xff, 0xff, 0]));
    let frame = client.receive_frame();
    let newest =
        broker::dispatch::apis().iter().find(|row| row.key == ApiKey::ApiVersions).unwrap().highest;
    let newest = u8::try_from(newest).unwrap();
    assert_eq!(frame, [0, 0, 0, 5, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, newest], "layout of v0");
    let answer = client.call(3, &api_versions("apache-kafka-java"));
    assert_eq!(answer.error_code, 0);
    let advertised: Vec<_> = answer.api_keys.iter().map(|api| api.api_key).collect();
    let served: Vec<_> = broker::dispatch::apis().iter().map(|row| row.key.code()).collect();
    assert_eq!(advertised, served);
}

#[test]
fn a_client_software_name_that_is_none_is_refused_and_the_connection_stays() {
    let running = Running::start();
    let mut client = running.connect();
    for name in ["", "-a", "a-", "a b", "a\n", "ä"] {
        let answer = client.call(3, &api_versions(name));
        assert_eq!(answer.error_code, ErrorCode::InvalidRequest.code(), "{name:?}");
        assert!(answer.api_keys.is_empty());
    }
    assert_eq!(client.call(4, &api_versions("kafka-python")).error_code, 0);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let running = Running::start();
    let mut client = running.connect();
    let all: Vec<u8> = (0..1000).flat_map(api_versions_v0).collect();
    let mut writer = client.stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        // In pieces that are no frames.
        all.chunks(777).for_each(|piece| writer.write_all(piece).unwrap());
    });
    for correlation_id in 0..1000_i32 {
        assert_eq!(client.receive_frame()[..4], correlation_id.to_be_bytes());
    }
    writing.join().unwrap();
}

#[test]
fn a_client_that_ends_its_side_is_answered_first() {
    let running = Running::start();
    let mut client = running.connect();
    client.send_bytes(&api_versions_v0(1));
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.receive_frame()[..4], [0, 0, 0, 1]);
    assert!(client.is_closed());
}

#[test]
fn bytes_that_are_no_request_close_the_connection_and_nobody_else_notices() {
    let running = Running::start();
    let mut bystander = running.connect();
    let hostile: &[&[u8]] = &[
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 64],
        &[0x80, 0, 0, 0],
        &framed(&[]),
        &framed(&[0]),
        &framed(&[0, 18, 0, 0, 0, 0]),
        // No such API; an API that exists but is not served in this version.
        &framed(&[0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff]),
        &framed(&[0xff, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff]),
        &framed(&[0, 0, 0x7f, 0xff, 0, 0, 0, 1, 0xff, 0xff]),
        // A client id that is longer than the frame.
        &framed(&[0, 18, 0, 0, 0, 0, 0, 1, 0x7f, 0xff]),
        // ApiVersions v3 with 2^32 - 1 tags in its header.
        &framed(&[0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f]),
    ];
    for bytes in hostile {
        let mut client = running.connect();
        client.send_bytes(bytes);
        assert!(client.is_closed());
        bystander.send_bytes(&api_versions_v0(3));
        assert_eq!(bystander.receive_frame()[..4], [0, 0, 0, 3], "{bytes:02x?}");
    }
}

#[test]
fn a_frame_of_the_allowed_length_is_taken_and_one_byte_more_is_not() {
    let running = Running::start_with(&[("socket.request.max.bytes", "200000")]);
    let mut client = running.connect();
    let mut body = vec![0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
    body.resize(200_000, 0);
    client.send_bytes(&framed(&body));
    assert_eq!(client.receive_frame()[..4], [0, 0, 0, 1], "what follows the message is ignored");
    client.send_bytes(&200_001_u32.to_be_bytes());
    assert!(client.is_closed());
}

#[test]
fn one_connection_too_many_from_an_address_is_closed_at_once() {
    let running = Running::start_with(&[("max.connections.per.ip", "2")]);
    let mut first = running.connect();
    let mut second = running.connect();
    for client in [&mut first, &mut second] {
        client.send_bytes(&api_versions_v0(1));
        client.receive_frame();
    }
    assert!(running.connect().is_closed());
    drop(first);
    // The place is free once the broker has noticed.
    loop {
        let mut client = running.connect();
        if client.stream.write_all(&api_versions_v0(7)).is_ok()
            && client.stream.read(&mut [0; 8]).is_ok_and(|n| n > 0)
        {
            break;
        }
    }
}

#[test]
fn at_max_connections_the_next_waits_for_one_to_go() {
    let running = Running::start_with(&[("max.connections", "1")]);
    let mut first = running.connect();
    first.send_bytes(&api_versions_v0(1));
    first.receive_frame();
    let mut second = running.connect();
    second.send_bytes(&api_versions_v0(2));
    second.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    assert!(second.stream.read(&mut [0; 4]).is_err(), "not accepted yet");
    second.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    drop(first);
    assert_eq!(second.receive_frame()[..4], [0, 0, 0, 2]);
}

#[test]
fn an_idle_connection_is_closed() {
    let running = Running::start_with(&[("connections.max.idle.ms", "150")]);
    assert!(running.connect().is_closed());
}

fn metadata(version: i16, topics: Option<&[&str]>) -> MetadataRequest {
    let named =
        |&name: &&str| MetadataRequestTopic { name: Some(name.into()), ..Default::default() };
    MetadataRequest {
        topics: topics.map(|topics| topics.iter().map(named).collect()),
        allow_auto_topic_creation: version < 4,
        ..Default::default()
    }
}

#[test]
fn a_client_id_may_be_null_or_empty_in_every_version() {
    let running = Running::start();
    let mut client = running.connect();
    for version in 0..=13 {
        for client_id in [None, Some(""), Some("me")] {
            client.client_id = client_id;
            let answer = client.call(version, &metadata(version, Some(&[])));
            let [broker] = answer.brokers.as_slice() else { panic!("{answer:?}") };
            assert_eq!((broker.node_id, broker.port), (0, i32::from(running.address.port())));
        }
    }
}

#[test]
fn a_missing_topic_is_created_if_both_sides_allow_it() {
    let running = Running::start();
    let mut client = running.connect();
    for version in 4..=13 {
        let answer = client.call(version, &metadata(version, Some(&["new", "not legal", "new"])));
        let codes: Vec<_> =
            answer.topics.iter().map(|t| (t.name.as_deref(), t.error_code)).collect();
        assert_eq!(codes, [(Some("new"), 3), (Some("not legal"), 17)], "version {version}");
    }
    assert_eq!(client.call(1, &metadata(1, Some(&["new"]))).topics[0].error_code, 5);
    // Metadata is what a client waits with.
    let topic = loop {
        let answer = client.call(9, &metadata(9, Some(&["new"])));
        if answer.topics[0].error_code == 0 {
            break answer.topics[0].clone();
        }
    };
    let [partition] = topic.partitions.as_slice() else { panic!("{topic:?}") };
    assert_eq!((partition.leader_id, partition.leader_epoch), (0, 0));
    let names = |answer: MetadataResponse| answer.topics.len();
    assert_eq!(names(client.call(0, &metadata(0, Some(&[])))), 1, "in v0 none means all");
    assert_eq!(names(client.call(1, &metadata(1, Some(&[])))), 0, "later it means none");
    assert_eq!(names(client.call(1, &metadata(1, None))), 1);
    let by_id = |id| MetadataRequestTopic { topic_id: id, name: None };
    let known = client.call(12, &metadata(12, None)).topics[0].topic_id;
    for (id, code) in [(known, 0), (model::TopicId([7; 16]), 100)] {
        let body = MetadataRequest { topics: Some(vec![by_id(id)]), ..Default::default() };
        let answer = client.call(12, &body);
        assert_eq!((answer.topics[0].error_code, answer.topics[0].topic_id), (code, id));
    }
}

/// Its store's disk is gone: what it has can be read, nothing can be changed. A supervisor starts it again.
#[test]
fn a_broker_that_cannot_change_metadata_any_more_says_so() {
    let disk = MemoryDisk::new();
    let running = Running::start_on(Arc::new(disk.clone()), "/store,/other", &[]);
    disk.set_failing("/store", true);
    let mut client = running.connect();
    client.call(1, &metadata(1, Some(&["new"])));
    let failure = running.server.as_ref().unwrap().failure();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, failure.wait()).await }).unwrap();
    assert_eq!(client.call(1, &metadata(1, None)).brokers.len(), 1, "it still answers");
}

/// Reads of a file wait until this goes.
struct Held<'a>(&'a MemoryDisk, &'a str);

impl<'a> Held<'a> {
    fn reads(disk: &'a MemoryDisk, path: &'a str) -> Self {
        disk.hold_reads(path, true);
        Self(disk, path)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.hold_reads(self.1, false);
    }
}

/// What is in memory is served beside it: a reactor does not wait for a disk.
#[test]
fn a_reader_of_what_is_on_the_disk_holds_nobody_up() {
    let disk = MemoryDisk::new();
    let settings = [("num.network.threads", "1")];
    let start = || Running::start_on(Arc::new(disk.clone()), "/data", &settings);
    let produce = |client: &mut Client, topic: &'static str| {
        let mut batch = RecordBatchBuilder::new();
        batch.append(Some(Timestamp(1)), None, Some(&[7; 100_000])).unwrap();
        let mut records = Records::default();
        records.push(RecordsPart::Bytes(batch.build().unwrap()));
        let partition_data = vec![PartitionProduceData { index: 0, records: Some(records) }];
        let topic = TopicProduceData { name: topic.into(), partition_data, ..Default::default() };
        let request = ProduceRequest { acks: 1, topic_data: vec![topic], ..Default::default() };
        client.call(9, &request).responses[0].partition_responses[0].error_code
    };
    let fetch = |topic: &'static str, max_wait_ms| {
        let partition = FetchPartition { partition_max_bytes: 1 << 20, ..Default::default() };
        let partitions = vec![partition];
        let topic = FetchTopic { topic: topic.into(), partitions, ..Default::default() };
        FetchRequest {
            max_wait_ms,
            max_bytes: 1 << 20,
            session_epoch: -1,
            topics: vec![topic],
            ..Default::default()
        }
    };
    let mut running = start();
    let mut client = running.connect();
    for topic in ["cold", "warm"] {
        client.call(1, &metadata(1, Some(&[topic])));
        // It is there soon.
        assert!((0..100_000).any(|_| produce(&mut client, topic) == 0));
        for _ in 0..2 {
            assert_eq!(produce(&mut client, topic), 0);
        }
    }
    running.server.take().unwrap().stop(Duration::from_secs(5));
    let running = start();
    let mut client = running.connect();
    for topic in ["cold", "warm"] {
        assert_eq!(produce(&mut client, topic), 0, "opens the log");
    }
    let held = Held::reads(&disk, "/data/cold-0/00000000000000000000.log");
    // Whether it would wait for records or not; with and without one in a session beside what is at hand.
    let mut readers: Vec<_> = [0, 500].map(|_| running.connect()).into();
    for (reader, max_wait_ms) in readers.iter_mut().zip([0, 500]) {
        reader.send(4, 1, &fetch("cold", max_wait_ms));
    }
    for _ in 0..3 {
        assert_eq!(produce(&mut client, "warm"), 0);
    }
    let size = |answer: FetchResponse| {
        let partition = answer.responses.into_iter().next().unwrap().partitions.remove(0);
        assert_eq!(partition.error_code, 0);
        partition.records.unwrap().to_bytes().unwrap().len()
    };
    assert!(size(client.call(4, &fetch("warm", 0))) > 600_000);
    let mut both = fetch("cold", 500);
    both.topics.extend(fetch("warm", 500).topics);
    let answer = client.call(4, &both);
    let sizes: Vec<_> = answer
        .responses
        .iter()
        .map(|topic| topic.partitions[0].records.as_ref().map(Records::len))
        .collect();
    assert_eq!(sizes[0], Some(0), "what is at hand is not kept back for the rest");
    assert!(sizes[1] > Some(600_000));
    drop(held);
    for reader in &mut readers {
        assert!(size(reader.receive::<FetchRequest>(4, 1)) > 300_000, "all that fits");
    }
}

#[test]
#[ignore = "opens 18,000 descriptors; run it alone"]
fn an_idle_connection_costs_less_than_8_kib() {
    let running = Running::start();
    let mut clients: Vec<_> = (0..1000).map(|_| running.connect()).collect();
    let exchange = |client: &mut Client| {
        client.send_bytes(&api_versions_v0(1));
        client.receive_frame();
    };
    clients.iter_mut().for_each(exchange);
    let before = resident_bytes();
    for _ in 0..8000 {
        let mut client = running.connect();
        exchange(&mut client);
        clients.push(client);
    }
    let each = (resident_bytes() - before) / 8000;
    assert!(each < 8 << 10, "{each} bytes");
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}
