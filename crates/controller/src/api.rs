//! What can be asked of the controller, and how it answers.

use metadata::ConfigEntity;
use model::{BrokerId, TopicId, TopicName, TopicPartition};
use protocol::ErrorCode;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// Why something was refused, as clients are told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .code.name(), .message.as_deref().unwrap_or_default())]
pub struct ApiError {
    /// Kafka's code.
    pub code: ErrorCode,
    /// What a person reads; `None` where Kafka sends null.
    pub message: Option<String>,
}

impl ApiError {
    /// An error with a message of its own.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()) }
    }

    /// An error with the code's general message.
    #[must_use]
    pub fn of(code: ErrorCode) -> Self {
        Self::new(code, code.message())
    }

    /// An error with a null message.
    #[must_use]
    pub fn bare(code: ErrorCode) -> Self {
        Self { code, message: None }
    }
}

/// A topic to create. Absence is Kafka's -1: the broker's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name; checked by the controller.
    pub name: String,
    /// How many partitions; `-1` for `num.partitions`, or with assignments.
    pub partitions: i32,
    /// How many replicas each; `-1` for `default.replication.factor`, or with assignments.
    pub replication_factor: i16,
    /// The replicas of each partition, if the client wants to choose.
    pub assignments: Vec<(i32, Vec<i32>)>,
    /// Settings to give it; a null value is refused.
    pub configs: Vec<(String, Option<String>)>,
}

/// A topic that was created, or would have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its id; `None` when it was only validated.
    pub id: Option<TopicId>,
    /// How many partitions it has.
    pub partitions: i32,
    /// How many replicas its first partition has.
    pub replication_factor: i16,
    /// The settings that were given to it.
    pub configs: BTreeMap<String, String>,
    /// Whether this broker's image showed leaders for all partitions before the client's time was up:
    /// else the answer is `REQUEST_TIMED_OUT`, with the topic's id.
    pub is_ready: bool,
}

/// Partitions to add to a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPartitions {
    /// The topic.
    pub topic: String,
    /// How many partitions it is to have in all.
    pub total: i32,
    /// The replicas of each new partition, if the client wants to choose.
    pub assignments: Option<Vec<Vec<i32>>>,
}

/// A change of one entity's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigAlteration {
    /// Whose.
    pub entity: ConfigEntity,
    /// How.
    pub edit: ConfigEdit,
}

/// How settings change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigEdit {
    /// These become all the settings there are (legacy `AlterConfigs`): what is not named is reset.
    Replace(Vec<(String, Option<String>)>),
    /// These are changed one by one (`IncrementalAlterConfigs`, KIP-339).
    Incremental(Vec<ConfigOp>),
}

/// A change of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigOp {
    /// Kafka's name of the setting.
    pub name: String,
    /// What to do with it.
    pub kind: ConfigOpKind,
    /// The operand; `None` is only right for a deletion.
    pub value: Option<String>,
}

/// What to do with a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigOpKind {
    /// Give it a value.
    Set,
    /// Go back to the default.
    Delete,
    /// Add items to a list.
    Append,
    /// Remove items from a list.
    Subtract,
}

impl ConfigOpKind {
    /// The operation with this number on the wire.
    #[must_use]
    pub fn from_code(code: i8) -> Option<Self> {
        [Self::Set, Self::Delete, Self::Append, Self::Subtract]
            .into_iter()
            .nth(usize::try_from(code).ok()?)
    }
}

/// What is known about settings: asked by the controller, answered by the broker's definitions.
pub trait ConfigRules: Debug + Send + Sync {
    /// Whether `name` is a list (`Some(true)`), something else, or unknown.
    fn is_list(&self, entity: &ConfigEntity, name: &str) -> Option<bool>;

    /// The value that holds where the entity has none of its own, as text.
    fn default_value(&self, entity: &ConfigEntity, name: &str) -> Option<String>;

    /// Whether a topic may be created with these settings.
    ///
    /// # Errors
    /// `INVALID_CONFIG`, with Kafka's words.
    fn validate_new_topic(
        &self,
        name: &TopicName,
        configs: &BTreeMap<String, String>,
    ) -> Result<(), ApiError>;

    /// Whether an entity may have these settings, `configs` being all that it would have and `edited`
    /// the names that the request sets or resets.
    ///
    /// # Errors
    /// What to tell the client: `INVALID_CONFIG` or `INVALID_REQUEST`, with Kafka's words.
    fn validate(
        &self,
        entity: &ConfigEntity,
        configs: &BTreeMap<String, String>,
        edited: &[String],
    ) -> Result<(), ApiError>;
}

/// Which election is asked for (KIP-183, KIP-460).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElectionType {
    /// The first assigned replica, if it is in sync.
    Preferred,
    /// Any live replica, if no in-sync one lives.
    Unclean,
}

/// A partition whose replicas are being moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OngoingReassignment {
    /// The partition.
    pub partition: TopicPartition,
    /// Its replicas now.
    pub replicas: Vec<BrokerId>,
    /// Those that join.
    pub adding: Vec<BrokerId>,
    /// Those that leave.
    pub removing: Vec<BrokerId>,
}

/// Producer ids that were given to one broker: `first..first + count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerIdBlock {
    /// The first id.
    pub first: i64,
    /// How many.
    pub count: i32,
}

/// An answer per topic, in the order of the request.
pub type PerTopic<T> = Vec<(TopicName, Result<T, ApiError>)>;

/// An answer per partition.
pub type PerPartition = Vec<(TopicPartition, Result<(), ApiError>)>;
