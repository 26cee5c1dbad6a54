//! A client's connections, and what it was told of who leads.

use super::ClientContext;
use crate::network::HostId;
use crate::plan::TOPIC;
use client::{ClientError, Connection, ConnectionOptions};
use platform::Random;
use protocol::Request;
use protocol::messages::MetadataRequest;
use protocol::messages::metadata_request::MetadataRequestTopic;
use std::collections::BTreeMap;
use std::time::Duration;

/// The newest versions of Produce and Fetch that name topics.
pub(super) const BY_NAME: i16 = 12;

/// The newest version of OffsetCommit and OffsetFetch that names topics.
pub(super) const OFFSETS_BY_NAME: i16 = 9;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(8);

/// The brokers as one client knows them.
pub(super) struct Cluster {
    pub(super) context: ClientContext,
    connections: BTreeMap<i32, Connection>,
    leaders: BTreeMap<i32, i32>,
    pub(super) controller: Option<i32>,
}

impl Cluster {
    pub(super) fn new(context: ClientContext) -> Self {
        Self { context, connections: BTreeMap::new(), leaders: BTreeMap::new(), controller: None }
    }

    /// A pause of up to `most`.
    pub(super) async fn pause(&self, most: Duration) {
        let millis = u64::try_from(most.as_millis()).unwrap_or(u64::MAX);
        let span = Duration::from_millis(1 + self.context.random.below(millis));
        tokio::time::sleep(span).await;
    }

    /// One of the partitions.
    pub(super) fn any_partition(&self) -> i32 {
        i32::try_from(self.context.random.below(self.context.partitions)).expect("few")
    }

    /// A connection to a broker.
    pub(super) async fn connection(&mut self, broker: i32) -> Result<Connection, ClientError> {
        if let Some(open) = self.connections.get(&broker).filter(|open| open.is_open()) {
            return Ok(open.clone());
        }
        let host = HostId(u8::try_from(broker).unwrap_or_default());
        let options = ConnectionOptions {
            connect_timeout: Duration::from_secs(3),
            request_timeout: PATIENCE,
            network: self.context.network.at(self.context.host),
            ..ConnectionOptions::default()
        };
        let connection = Connection::connect(&host.address(), options).await?;
        self.connections.insert(broker, connection.clone());
        Ok(connection)
    }

    /// Asks a broker. One that does not answer is forgotten.
    pub(super) async fn ask<R: Request>(
        &mut self,
        broker: i32,
        request: &R,
    ) -> Option<R::Response> {
        self.ask_at_most(broker, request, BY_NAME).await
    }

    /// Asks a broker, in no newer version than this.
    pub(super) async fn ask_at_most<R: Request>(
        &mut self,
        broker: i32,
        request: &R,
        version: i16,
    ) -> Option<R::Response> {
        let answered = match self.connection(broker).await {
            Ok(connection) => connection.send_at_most(request, version).await,
            Err(error) => Err(error),
        };
        if answered.is_err() {
            self.forget(broker);
        }
        answered.ok().map(|(response, _)| response)
    }

    /// What this broker said may be of no use any more.
    pub(super) fn forget(&mut self, broker: i32) {
        self.connections.remove(&broker);
        self.leaders.retain(|_, leader| *leader != broker);
    }

    /// The partition may have another leader.
    pub(super) fn forget_leader(&mut self, partition: i32) {
        self.leaders.remove(&partition);
    }

    /// The leader of a partition, as some broker says; `None` if none knows one now.
    pub(super) async fn leader(&mut self, partition: i32) -> Option<i32> {
        if !self.leaders.contains_key(&partition) {
            self.refresh().await;
        }
        self.leaders.get(&partition).copied()
    }

    /// Asks a broker that the seed chooses.
    pub(super) async fn refresh(&mut self) {
        let broker = 1 + self.context.random.below(self.context.brokers.into());
        let broker = i32::try_from(broker).expect("few");
        let topic = MetadataRequestTopic { name: Some(TOPIC.into()), ..Default::default() };
        let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
        let Some(response) = self.ask(broker, &request).await else { return };
        self.controller = Some(response.controller_id).filter(|&id| id > 0);
        self.leaders.clear();
        for topic in response.topics {
            for partition in topic.partitions {
                if partition.error_code == 0 && partition.leader_id > 0 {
                    self.leaders.insert(partition.partition_index, partition.leader_id);
                }
            }
        }
    }
}
