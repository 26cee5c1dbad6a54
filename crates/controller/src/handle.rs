//! How the rest of the broker asks the controller.

use crate::api::{
    ApiError, ConfigAlteration, CreatedTopic, ElectionType, NewPartitions, NewTopic,
    OngoingReassignment, PerPartition, PerTopic, ProducerIdBlock,
};
use crate::out_of_sync::OutOfSync;
use model::{BrokerEpoch, BrokerId, TopicName, TopicPartition};
use protocol::ErrorCode;
use protocol::messages::{
    AllocateProducerIdsRequest, AlterPartitionRequest, AlterPartitionResponse,
    ControlledShutdownRequest, ControlledShutdownResponse,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How many requests may wait for the driver before callers wait for room.
pub(crate) const QUEUED_REQUESTS: usize = 1024;

/// Asks this process's controller driver. Cheap to clone; works from any thread.
///
/// What only the active controller may do is answered `NOT_CONTROLLER` while another broker is it. A
/// driver that has stopped is answered for with `NOT_CONTROLLER` too: clients look for another.
#[derive(Clone, Debug)]
pub struct ControllerHandle {
    sender: mpsc::Sender<Command>,
    broker_epoch: Arc<AtomicI64>,
}

/// Where an answer goes.
pub(crate) type ReplyTo<T> = oneshot::Sender<T>;

/// What the driver is asked.
#[derive(Debug)]
pub(crate) enum Command {
    CreateTopics {
        topics: Vec<NewTopic>,
        timeout: Duration,
        validate_only: bool,
        reply: ReplyTo<PerTopic<CreatedTopic>>,
    },
    AutoCreateTopics(Vec<NewTopic>),
    DeleteTopics {
        topics: Vec<TopicName>,
        timeout: Duration,
        reply: ReplyTo<PerTopic<()>>,
    },
    CreatePartitions {
        topics: Vec<NewPartitions>,
        timeout: Duration,
        validate_only: bool,
        reply: ReplyTo<PerTopic<()>>,
    },
    AlterConfigs {
        alterations: Vec<ConfigAlteration>,
        validate_only: bool,
        reply: ReplyTo<Vec<Result<(), ApiError>>>,
    },
    ElectLeaders {
        kind: ElectionType,
        partitions: Option<Vec<TopicPartition>>,
        timeout: Duration,
        reply: ReplyTo<Result<PerPartition, ApiError>>,
    },
    AlterReassignments {
        targets: Vec<(TopicPartition, Option<Vec<BrokerId>>)>,
        reply: ReplyTo<Result<PerPartition, ApiError>>,
    },
    ListReassignments {
        partitions: Option<Vec<TopicPartition>>,
        reply: ReplyTo<Result<Vec<OngoingReassignment>, ApiError>>,
    },
    ListOutOfSync {
        topics: Vec<TopicName>,
        reply: ReplyTo<Option<Vec<OutOfSync>>>,
    },
    AllocateProducerIds {
        request: AllocateProducerIdsRequest,
        reply: ReplyTo<Result<ProducerIdBlock, ApiError>>,
    },
    AlterPartition {
        request: AlterPartitionRequest,
        version: i16,
        reply: ReplyTo<AlterPartitionResponse>,
    },
    ControlledShutdown {
        request: ControlledShutdownRequest,
        reply: ReplyTo<ControlledShutdownResponse>,
    },
    LogDirectoryFailed,
    Suspect(BrokerId),
    Stop {
        reply: ReplyTo<()>,
    },
}

impl ControllerHandle {
    pub(crate) fn new(broker_epoch: Arc<AtomicI64>) -> (Self, mpsc::Receiver<Command>) {
        let (sender, receiver) = mpsc::channel(QUEUED_REQUESTS);
        (Self { sender, broker_epoch }, receiver)
    }

    /// The epoch of this broker's registration: what the controller must know us by.
    #[must_use]
    pub fn broker_epoch(&self) -> BrokerEpoch {
        BrokerEpoch(self.broker_epoch.load(Ordering::Acquire))
    }

    async fn ask<T>(&self, command: impl FnOnce(ReplyTo<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.sender.send(command(reply)).await.ok()?;
        answer.await.ok()
    }

    /// Creates topics; answers when this broker's image shows leaders for all of them, or after `timeout`
    /// (at once if it is zero): see [`CreatedTopic::is_ready`].
    pub async fn create_topics(
        &self,
        topics: Vec<NewTopic>,
        timeout: Duration,
        validate_only: bool,
    ) -> PerTopic<CreatedTopic> {
        let names: Vec<TopicName> = topics.iter().map(|t| t.name.as_str().into()).collect();
        self.ask(|reply| Command::CreateTopics { topics, timeout, validate_only, reply })
            .await
            .unwrap_or_else(|| refuse_all(names))
    }

    /// Creates topics that somebody asked about; nobody waits. Those that exist, or are being created,
    /// are left alone. Returns whether the request was taken.
    pub fn auto_create_topics(&self, topics: Vec<NewTopic>) -> bool {
        self.sender.try_send(Command::AutoCreateTopics(topics)).is_ok()
    }

    /// Deletes topics; answers when this broker's image no longer shows them, or with
    /// `REQUEST_TIMED_OUT` after `timeout`, though they may vanish later.
    pub async fn delete_topics(&self, topics: Vec<TopicName>, timeout: Duration) -> PerTopic<()> {
        let names = topics.clone();
        self.ask(|reply| Command::DeleteTopics { topics, timeout, reply })
            .await
            .unwrap_or_else(|| refuse_all(names))
    }

    /// Adds partitions to topics; answers as [`Self::create_topics`] does.
    pub async fn create_partitions(
        &self,
        topics: Vec<NewPartitions>,
        timeout: Duration,
        validate_only: bool,
    ) -> PerTopic<()> {
        let names: Vec<TopicName> = topics.iter().map(|t| t.topic.as_str().into()).collect();
        self.ask(|reply| Command::CreatePartitions { topics, timeout, validate_only, reply })
            .await
            .unwrap_or_else(|| refuse_all(names))
    }

    /// Changes settings; one answer per alteration, given when this broker goes by the new ones.
    pub async fn alter_configs(
        &self,
        alterations: Vec<ConfigAlteration>,
        validate_only: bool,
    ) -> Vec<Result<(), ApiError>> {
        let count = alterations.len();
        self.ask(|reply| Command::AlterConfigs { alterations, validate_only, reply })
            .await
            .unwrap_or_else(|| vec![Err(stopped()); count])
    }

    /// Elects leaders for `partitions`, or for all (`None`; then those that need no election are not
    /// answered).
    ///
    /// # Errors
    /// `NOT_CONTROLLER`.
    pub async fn elect_leaders(
        &self,
        kind: ElectionType,
        partitions: Option<Vec<TopicPartition>>,
        timeout: Duration,
    ) -> Result<PerPartition, ApiError> {
        self.ask(|reply| Command::ElectLeaders { kind, partitions, timeout, reply })
            .await
            .unwrap_or_else(|| Err(stopped()))
    }

    /// Moves partitions to other replicas; `None` cancels.
    ///
    /// # Errors
    /// `NOT_CONTROLLER`.
    pub async fn alter_reassignments(
        &self,
        targets: Vec<(TopicPartition, Option<Vec<BrokerId>>)>,
    ) -> Result<PerPartition, ApiError> {
        self.ask(|reply| Command::AlterReassignments { targets, reply })
            .await
            .unwrap_or_else(|| Err(stopped()))
    }

    /// The reassignments that are under way, of `partitions` or of all (`None`).
    ///
    /// # Errors
    /// `NOT_CONTROLLER`.
    pub async fn list_reassignments(
        &self,
        partitions: Option<Vec<TopicPartition>>,
    ) -> Result<Vec<OngoingReassignment>, ApiError> {
        self.ask(|reply| Command::ListReassignments { partitions, reply })
            .await
            .unwrap_or_else(|| Err(stopped()))
    }

    /// The replicas of `topics` that are not in sync, with when and why they left; `None` if this broker is not
    /// controller.
    pub async fn list_out_of_sync(&self, topics: Vec<TopicName>) -> Option<Vec<OutOfSync>> {
        self.ask(|reply| Command::ListOutOfSync { topics, reply }).await.flatten()
    }

    /// A block of producer ids for the broker that asks: nobody else gets them, ever.
    ///
    /// # Errors
    /// `NOT_CONTROLLER`, `BROKER_ID_NOT_REGISTERED`, `STALE_BROKER_EPOCH`;
    /// `COORDINATOR_LOAD_IN_PROGRESS` if the store does not answer, to be tried again.
    pub async fn allocate_producer_ids(
        &self,
        request: AllocateProducerIdsRequest,
    ) -> Result<ProducerIdBlock, ApiError> {
        self.ask(|reply| Command::AllocateProducerIds { request, reply })
            .await
            .unwrap_or_else(|| Err(stopped()))
    }

    /// Changes the ISR of partitions as their leaders ask, in a request of `version`; every partition
    /// that is named is answered.
    pub async fn alter_partition(
        &self,
        request: AlterPartitionRequest,
        version: i16,
    ) -> AlterPartitionResponse {
        let answer = self.ask(|reply| Command::AlterPartition { request, version, reply }).await;
        answer.unwrap_or_else(|| AlterPartitionResponse {
            error_code: ErrorCode::NotController.code(),
            ..AlterPartitionResponse::default()
        })
    }

    /// Has others lead what a broker leads that wants to shut down; answers with what it still leads.
    pub async fn controlled_shutdown(
        &self,
        request: ControlledShutdownRequest,
    ) -> ControlledShutdownResponse {
        let answer = self.ask(|reply| Command::ControlledShutdown { request, reply }).await;
        answer.unwrap_or_else(|| ControlledShutdownResponse {
            error_code: ErrorCode::StaleControllerEpoch.code(),
            ..ControlledShutdownResponse::default()
        })
    }

    /// Announces that a log directory of this broker failed.
    pub fn log_directory_failed(&self) {
        let _ = self.sender.try_send(Command::LogDirectoryFailed);
    }

    /// This broker sees another as one whose process has ended: its connections were closed, and new ones
    /// are refused. To be said again while it is so.
    pub fn suspect(&self, broker: BrokerId) {
        let _ = self.sender.try_send(Command::Suspect(broker));
    }

    /// Ends the session (registration and controllership vanish with it) and stops the driver.
    pub async fn stop(&self) {
        let _ = self.ask(|reply| Command::Stop { reply }).await;
    }
}

fn stopped() -> ApiError {
    ApiError::of(ErrorCode::NotController)
}

fn refuse_all<T>(names: Vec<TopicName>) -> PerTopic<T> {
    names.into_iter().map(|name| (name, Err(stopped()))).collect()
}
