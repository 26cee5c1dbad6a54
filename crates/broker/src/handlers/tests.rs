//! Handlers of the data path, asked in bytes over loopback.

mod fetching;
mod offsets;
mod producing;

use crate::config::BrokerConfig;
use crate::partition::{Assignment, PartitionSettings};
use crate::server::{Environment, Server};
use metadata::{BrokerImage, MetadataDelta, PartitionDelta, PartitionImage, TopicDelta};
use model::{BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, Timestamp, TopicId};
use platform::clock::SystemClock;
use platform::random::SystemRandom;
use protocol::records::RecordBatchBuilder;
use protocol::{Message, Reader, Request, RequestHeader, Segment, Writer, response_header_version};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Tests wait this long for what comes at once.
const PATIENCE: Duration = Duration::from_secs(20);

const TOPIC_ID: TopicId = TopicId([7; 16]);

/// A server that leads what a test gives it.
struct Running {
    server: Option<Server>,
    address: SocketAddr,
    directory: Option<tempfile::TempDir>,
}

impl Running {
    fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), &[])
    }

    fn start_in(directory: tempfile::TempDir, settings: &[(&str, &str)]) -> Self {
        let path = directory.path().to_str().unwrap().to_owned();
        let fixed = [("listeners", "PLAINTEXT://127.0.0.1:0"), ("log.dirs", &path)];
        let overrides: Vec<_> = fixed
            .iter()
            .chain(settings)
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let config = BrokerConfig::load(None, &overrides).unwrap().config;
        let environment = Environment {
            clock: Arc::new(SystemClock::new()),
            random: Arc::new(SystemRandom),
            disk: Arc::new(platform::disk::RealDisk),
        };
        let server = Server::start(config, environment).unwrap();
        let address = server.listeners()[0].bound;
        Self { server: Some(server), address, directory: Some(directory) }
    }

    /// Makes the broker lead partitions `0..partitions` of `topic`, with these settings.
    fn host(&self, topic: &str, id: TopicId, partitions: i32, settings: &[(&str, &str)]) {
        self.host_as(topic, id, partitions, settings, 0);
    }

    fn host_as(
        &self,
        topic: &str,
        id: TopicId,
        partitions: i32,
        settings: &[(&str, &str)],
        leader_epoch: i32,
    ) {
        let broker = self.server.as_ref().unwrap().broker();
        let overrides: BTreeMap<_, _> =
            settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let config = broker.config.load();
        let settings =
            PartitionSettings::new(&config.topic_config(&overrides), config.log.record_validation);
        let me = vec![BrokerId(0)];
        let assignments = (0..partitions).map(|index| Assignment {
            index,
            leader: Some(BrokerId(0)),
            leader_epoch: LeaderEpoch(leader_epoch),
            partition_epoch: PartitionEpoch(leader_epoch),
            replicas: me.clone(),
            isr: me.clone(),
            is_new: true,
        });
        let hosted =
            broker.partitions.host(&topic.into(), Some(id), &settings, assignments.collect());
        hosted.into_iter().for_each(|result| result.unwrap());
        let partition = |index| {
            PartitionDelta::Changed(PartitionImage {
                index,
                leader: Some(BrokerId(0)),
                leader_epoch: LeaderEpoch(leader_epoch),
                isr: me.clone(),
                replicas: me.clone(),
                offline_replicas: Vec::new(),
                partition_epoch: PartitionEpoch(leader_epoch),
                controller_epoch: ControllerEpoch(1),
            })
        };
        self.update(topic, id, (0..partitions).map(partition).collect());
    }

    /// Deletes a topic as the controller does.
    fn delete(&self, topic: &str, id: TopicId, partitions: i32) {
        self.update(topic, id, (0..partitions).map(PartitionDelta::Deleted).collect());
        let broker = self.server.as_ref().unwrap().broker();
        for index in 0..partitions {
            broker.partitions.stop(topic, index, true).unwrap();
        }
    }

    fn update(&self, topic: &str, id: TopicId, partitions: Vec<PartitionDelta>) {
        let broker = self.server.as_ref().unwrap().broker();
        let delta = MetadataDelta {
            controller: Some(BrokerId(0)),
            controller_epoch: ControllerEpoch(1),
            brokers: vec![BrokerImage { id: BrokerId(0), rack: None, endpoints: Vec::new() }],
            topics: vec![TopicDelta { name: topic.into(), id: Some(id), partitions }],
        };
        let image = broker.image.load().apply(delta).image;
        broker.image.store(Arc::new(image));
    }

    fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, client_id: "test" }
    }

    /// Stops cleanly; gives the data back.
    fn stop(mut self) -> tempfile::TempDir {
        self.server.take().unwrap().stop(Duration::from_secs(5));
        self.directory.take().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(Duration::from_secs(5));
        }
    }
}

struct Client {
    stream: TcpStream,
    client_id: &'static str,
}

impl Client {
    fn send<R: Request>(&mut self, version: i16, correlation_id: i32, body: &R) {
        let mut writer = Writer::new_frame();
        let header = RequestHeader {
            api_key: R::KEY,
            api_version: version,
            correlation_id,
            client_id: Some(self.client_id.into()),
        };
        header.encode(&mut writer).unwrap();
        body.encode(&mut writer, version).unwrap();
        for segment in writer.finish_frame().unwrap() {
            match segment {
                Segment::Bytes(bytes) => self.stream.write_all(&bytes).unwrap(),
                Segment::File(_) => unreachable!("a request holds no file"),
            }
        }
    }

    fn receive<R: Request>(&mut self, version: i16, correlation_id: i32) -> R::Response {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).unwrap();
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame).unwrap();
        let mut reader = Reader::new(frame.into());
        assert_eq!(reader.i32().unwrap(), correlation_id, "answers come in order");
        if response_header_version(R::KEY, version) > 0 {
            assert_eq!(reader.i8().unwrap(), 0, "no tags");
        }
        R::Response::decode(&mut reader, version).unwrap()
    }

    fn call<R: Request>(&mut self, version: i16, body: &R) -> R::Response {
        self.send(version, 1, body);
        self.receive::<R>(version, 1)
    }

    fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => rest.is_empty(),
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

/// A batch of `count` records of 100 bytes at these timestamps.
fn batch(timestamps: &[i64]) -> bytes::Bytes {
    let mut builder = RecordBatchBuilder::new();
    for &timestamp in timestamps {
        builder.append(Some(Timestamp(timestamp)), Some(b"key"), Some(&[b'v'; 100])).unwrap();
    }
    builder.build().unwrap()
}
