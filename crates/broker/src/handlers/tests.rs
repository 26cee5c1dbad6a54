//! Handlers of the data path, asked in bytes over loopback.

mod fetching;
mod offsets;
mod producing;
#[path = "../../tests/raw_client/mod.rs"]
mod raw_client;

use crate::config::BrokerConfig;
use crate::partition::{Assignment, PartitionSettings};
use crate::server::{Environment, Server};
use metadata::{BrokerImage, MetadataDelta, PartitionDelta, PartitionImage, TopicDelta};
use model::{
    BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, Timestamp, TopicId,
};
use platform::clock::SystemClock;
use protocol::records::RecordBatchBuilder;
use raw_client::{Client, PATIENCE};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

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
        let environment = Environment::real();
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
            is_lost: false,
            is_recovering: false,
            registration: BrokerEpoch(0),
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
            broker.partitions.stop(topic, index, Some(Duration::ZERO)).unwrap();
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
        Client::connect(self.address)
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

/// A batch of `count` records of 100 bytes at these timestamps.
fn batch(timestamps: &[i64]) -> bytes::Bytes {
    let mut builder = RecordBatchBuilder::new();
    for &timestamp in timestamps {
        builder.append(Some(Timestamp(timestamp)), Some(b"key"), Some(&[b'v'; 100])).unwrap();
    }
    builder.build().unwrap()
}
