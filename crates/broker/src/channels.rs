//! The ways from the controller in this process to brokers: to this one in process, to others by socket.
//!
//! Versions are fixed by `inter.broker.protocol.version`, as between Apache's brokers: nobody asks
//! ApiVersions here. Source: Kafka's `ControllerChannelManager`.

use crate::Broker;
use crate::control::carry_out;
use bytestring::ByteString;
use client::{ClientError, Connection, ConnectionOptions};
use controller::NoAnswer;
use controller::{Answering, ControlChannel, ControlChannels, ControlRequest, ControlResponse};
use metadata::{BrokerImage, SecurityProtocol};
use model::BrokerId;
use std::sync::{Arc, Weak};
use tokio::sync::Mutex;
use tracing::{debug, warn};

/// What a controller of 3.9 sends.
const LEADER_AND_ISR: i16 = 7;
const UPDATE_METADATA: i16 = 8;
const STOP_REPLICA: i16 = 4;
/// The last version that all brokers of 3.x answer in the same way.
pub(crate) const LIST_OFFSETS: i16 = 7;

/// Answers name partitions, at most as many as the request did.
const MAX_RESPONSE_BYTES: usize = 100 << 20;

/// The ways from the controller in this process to brokers.
#[derive(Debug)]
pub(crate) struct Channels {
    own_id: BrokerId,
    /// The broker holds the controller, which holds this.
    broker: Weak<Broker>,
}

impl Channels {
    pub(crate) fn new(broker: &Arc<Broker>) -> Self {
        let own_id = broker.partitions.environment().broker_id;
        Self { own_id, broker: Arc::downgrade(broker) }
    }
}

impl ControlChannels for Channels {
    fn open(&self, to: &BrokerImage) -> Arc<dyn ControlChannel> {
        if to.id == self.own_id {
            return Arc::new(ToSelf(Weak::clone(&self.broker)));
        }
        let Some(broker) = self.broker.upgrade() else { return Arc::new(ToNobody) };
        let config = broker.config.load();
        let listener = &config.listeners.inter_broker;
        let Some(endpoint) = to.endpoint(listener) else {
            warn!(broker = to.id.0, listener, "has no such listener and cannot be told anything");
            return Arc::new(ToNobody);
        };
        if endpoint.security_protocol != SecurityProtocol::Plaintext {
            let protocol = endpoint.security_protocol.name();
            warn!(broker = to.id.0, listener, protocol, "brokers are reached by PLAINTEXT only");
            return Arc::new(ToNobody);
        }
        let address = model::host_and_port(&endpoint.host, endpoint.port);
        let options = ConnectionOptions {
            client_id: ByteString::from(self.own_id.0.to_string()),
            connect_timeout: config.controller.socket_timeout,
            request_timeout: config.node.request_timeout,
            max_response_bytes: MAX_RESPONSE_BYTES,
            network: broker.network.clone(),
            ..ConnectionOptions::default()
        };
        let connection = Arc::new(Mutex::new(None));
        Arc::new(ToBroker { id: to.id, address, options, connection })
    }
}

/// The way to a broker that cannot be reached.
#[derive(Debug)]
struct ToNobody;

impl ControlChannel for ToNobody {
    fn send(&self, _request: ControlRequest) -> Answering {
        Box::pin(std::future::ready(Err(NoAnswer)))
    }
}

/// The way to this broker.
#[derive(Debug)]
struct ToSelf(Weak<Broker>);

impl ControlChannel for ToSelf {
    fn send(&self, request: ControlRequest) -> Answering {
        let broker = Weak::clone(&self.0);
        Box::pin(async move { carry_out(&broker.upgrade().ok_or(NoAnswer)?, request).await })
    }
}

/// The way to another broker: one connection, opened when there is something to say.
#[derive(Clone, Debug)]
struct ToBroker {
    id: BrokerId,
    address: String,
    options: ConnectionOptions,
    connection: Arc<Mutex<Option<Connection>>>,
}

impl ControlChannel for ToBroker {
    fn send(&self, request: ControlRequest) -> Answering {
        let this = self.clone();
        Box::pin(async move {
            this.ask(request).await.map_err(|error| {
                debug!(broker = this.id.0, %error, "does not answer the controller");
                NoAnswer
            })
        })
    }
}

impl ToBroker {
    async fn ask(&self, request: ControlRequest) -> Result<ControlResponse, ClientError> {
        let mut held = self.connection.lock().await;
        let connection = match held.take().filter(Connection::is_open) {
            Some(connection) => connection,
            None => Connection::connect_unasked(&self.address, self.options.clone()).await?,
        };
        let response = match &request {
            ControlRequest::LeaderAndIsr(request) => ControlResponse::LeaderAndIsr(
                connection.send_in_version(request, LEADER_AND_ISR).await?,
            ),
            ControlRequest::UpdateMetadata(request) => ControlResponse::UpdateMetadata(
                connection.send_in_version(request, UPDATE_METADATA).await?,
            ),
            ControlRequest::StopReplica(request) => ControlResponse::StopReplica(
                connection.send_in_version(request, STOP_REPLICA).await?,
            ),
            ControlRequest::LogEnds(request) => {
                ControlResponse::LogEnds(connection.send_in_version(request, LIST_OFFSETS).await?)
            }
        };
        // One that failed is not kept: a late answer must not be taken for the next one's.
        *held = Some(connection);
        Ok(response)
    }
}
