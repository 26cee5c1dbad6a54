//! How the controller reaches brokers: the only source of a broker's cluster state.

use metadata::{BrokerImage, ConfigChange};
use protocol::messages::{
    LeaderAndIsrRequest, LeaderAndIsrResponse, ListOffsetsRequest, ListOffsetsResponse,
    StopReplicaRequest, StopReplicaResponse, UpdateMetadataRequest, UpdateMetadataResponse,
};
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// What the controller tells a broker.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlRequest {
    /// Lead or follow these partitions.
    LeaderAndIsr(LeaderAndIsrRequest),
    /// This is what the cluster looks like.
    UpdateMetadata(UpdateMetadataRequest),
    /// Stop following, or delete, these partitions.
    StopReplica(StopReplicaRequest),
    /// Say how far these logs reach, which nobody leads: ListOffsets for the latest offset as a debugging
    /// consumer, whom any replica answers.
    LogEnds(ListOffsetsRequest),
}

/// What the broker answers once it has done so.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlResponse {
    /// To `LeaderAndIsr`.
    LeaderAndIsr(LeaderAndIsrResponse),
    /// To `UpdateMetadata`.
    UpdateMetadata(UpdateMetadataResponse),
    /// To `StopReplica`.
    StopReplica(StopReplicaResponse),
    /// To `LogEnds`.
    LogEnds(ListOffsetsResponse),
}

/// The broker did not answer: the connection broke, or it is shutting down. It may have acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the broker did not answer")]
pub struct NoAnswer;

/// An answer on its way.
pub type Answering = Pin<Box<dyn Future<Output = Result<ControlResponse, NoAnswer>> + Send>>;

/// The way to one broker, in process or by socket.
///
/// The controller has one request to a broker on its way at a time, and repeats one that was not
/// answered until the broker is gone from the store.
pub trait ControlChannel: Debug + Send + Sync {
    /// Tells the broker; resolves when it has acted.
    fn send(&self, request: ControlRequest) -> Answering;
}

/// Opens the way to brokers as they register.
pub trait ControlChannels: Debug + Send + Sync {
    /// The way to `broker`, which is live.
    fn open(&self, broker: &BrokerImage) -> Arc<dyn ControlChannel>;
}

/// Told of dynamic settings: all of them at start, those of a new topic before its `LeaderAndIsr`, then
/// each as it changes. What was never set is not told of.
pub trait ConfigListener: Debug + Send + Sync {
    /// An entity's settings are now these. May repeat what was said before.
    fn config_changed(&self, change: ConfigChange);
}
