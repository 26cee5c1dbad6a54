//! What this broker asks of the controller, wherever that is: by socket, or in process if it is here.
//!
//! Whom to ask is what the last UpdateMetadata said, as in Kafka: between an election and the new
//! controller's first update that is the old one, which says so.

use crate::Broker;
use bytestring::ByteString;
use client::{ClientError, Connection, ConnectionOptions};
use controller::ControllerHandle;
use metadata::SecurityProtocol;
use model::BrokerId;
use protocol::messages::{
    AllocateProducerIdsRequest, AllocateProducerIdsResponse, ControlledShutdownRequest,
    ControlledShutdownResponse,
};
use std::time::Duration;
use tracing::{debug, info, warn};

/// Kafka's version of ControlledShutdown, which is sent without asking ApiVersions.
const CONTROLLED_SHUTDOWN: i16 = 3;
const ALLOCATE_PRODUCER_IDS: i16 = 0;
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// Why the controller was not asked, or did not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unasked {
    /// No update has named one.
    #[error("no controller is known")]
    NoController,
    /// It is not among the live brokers, or not on the listener that brokers use.
    #[error("the controller, broker {0}, has no address here")]
    NoAddress(BrokerId),
    /// It did not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
}

/// Where the controller is.
#[derive(Debug)]
pub(crate) enum Whereabouts<'a> {
    /// In this process.
    Here(&'a ControllerHandle),
    /// At another broker.
    At {
        /// Which.
        id: BrokerId,
        /// Its host and port.
        address: String,
    },
}

/// Where the controller is, as the last update said.
pub(crate) fn find(broker: &Broker) -> Result<Whereabouts<'_>, Unasked> {
    let image = broker.image.load();
    let controller = image.controller().ok_or(Unasked::NoController)?;
    if controller == broker.partitions.environment().broker_id {
        return own(broker).map(Whereabouts::Here);
    }
    let config = broker.config.load();
    let endpoint = image
        .broker(controller)
        .and_then(|live| live.endpoint(&config.listeners.inter_broker))
        .filter(|endpoint| endpoint.security_protocol == SecurityProtocol::Plaintext)
        .ok_or(Unasked::NoAddress(controller))?;
    let address = model::host_and_port(&endpoint.host, endpoint.port);
    Ok(Whereabouts::At { id: controller, address })
}

/// This broker's own part in the election, which knows the epoch of its registration.
fn own(broker: &Broker) -> Result<&ControllerHandle, Unasked> {
    broker.controller.get().ok_or(Unasked::NoController)
}

/// How this broker connects to the controller.
pub(crate) fn options(broker: &Broker, request_timeout: Duration) -> ConnectionOptions {
    ConnectionOptions {
        client_id: ByteString::from(broker.partitions.environment().broker_id.0.to_string()),
        connect_timeout: broker.config.load().controller.socket_timeout.min(request_timeout),
        request_timeout,
        max_response_bytes: MAX_RESPONSE_BYTES,
        network: broker.network.clone(),
        ..ConnectionOptions::default()
    }
}

/// Asks for producer ids.
pub(crate) async fn allocate_producer_ids(
    broker: &Broker,
) -> Result<AllocateProducerIdsResponse, Unasked> {
    let request = AllocateProducerIdsRequest {
        broker_id: broker.partitions.environment().broker_id.0,
        broker_epoch: own(broker)?.broker_epoch().0,
    };
    match find(broker)? {
        Whereabouts::Here(controller) => {
            Ok(match controller.allocate_producer_ids(request).await {
                Ok(block) => AllocateProducerIdsResponse {
                    producer_id_start: block.first,
                    producer_id_len: block.count,
                    ..Default::default()
                },
                Err(error) => AllocateProducerIdsResponse {
                    error_code: error.code.code(),
                    ..Default::default()
                },
            })
        }
        Whereabouts::At { address, .. } => {
            let timeout = broker.config.load().node.request_timeout;
            let connection = Connection::connect(&address, options(broker, timeout)).await?;
            Ok(connection.send_at_most(&request, ALLOCATE_PRODUCER_IDS).await?.0)
        }
    }
}

async fn shut_down(
    broker: &Broker,
    timeout: Duration,
) -> Result<ControlledShutdownResponse, Unasked> {
    let request = ControlledShutdownRequest {
        broker_id: broker.partitions.environment().broker_id.0,
        broker_epoch: own(broker)?.broker_epoch().0,
    };
    match find(broker)? {
        Whereabouts::Here(controller) => Ok(controller.controlled_shutdown(request).await),
        Whereabouts::At { address, .. } => {
            let options = options(broker, timeout);
            let connection = Connection::connect_unasked(&address, options).await?;
            Ok(connection.send_in_version(&request, CONTROLLED_SHUTDOWN).await?)
        }
    }
}

/// Has others lead what this broker leads, before it stops; tries as often as
/// `controlled.shutdown.max.retries` says, and no longer than `bound`. The broker stops in any case; one
/// that is alone has nobody to hand over to.
pub(crate) async fn hand_over(broker: &Broker, bound: Duration) {
    let settings = broker.config.load().node.shutdown.clone();
    if !settings.controlled || broker.image.load().brokers().len() < 2 {
        return;
    }
    let deadline = tokio::time::Instant::now() + bound;
    for attempt in 0..=settings.max_retries {
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        if left.is_zero() {
            break;
        }
        match tokio::time::timeout(left, shut_down(broker, left)).await {
            Ok(Ok(response)) if response.error_code == 0 => {
                let remaining = response.remaining_partitions.len();
                if remaining == 0 {
                    info!("what this broker led is led by others");
                    return;
                }
                info!(remaining, attempt, "still leads partitions");
            }
            Ok(Ok(response)) => debug!(code = response.error_code, attempt, "not handed over yet"),
            Ok(Err(error)) => debug!(%error, attempt, "not handed over yet"),
            Err(_) => break,
        }
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        if attempt < settings.max_retries {
            tokio::time::sleep(settings.retry_backoff.min(left)).await;
        }
    }
    warn!("stops without having handed over everything it leads: others take over once it is gone");
}
