//! What a request to a group can be refused for.

use coordinator::WriteError;

/// A refusal. Each has a Kafka error code of the same name; the broker maps them in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The group is being deleted, or its records cannot be written now: ask again.
    #[error("the coordinator is not available")]
    CoordinatorNotAvailable,
    /// The partition of the group is still being read.
    #[error("the coordinator is loading the group")]
    CoordinatorLoadInProgress,
    /// The group belongs to another broker.
    #[error("this broker does not coordinate the group")]
    NotCoordinator,
    /// No group can have this id.
    #[error("the group id is not valid")]
    InvalidGroupId,
    /// The session timeout is outside of `group.min.session.timeout.ms` .. `group.max.session.timeout.ms`.
    #[error("the session timeout is not within the broker's bounds")]
    InvalidSessionTimeout,
    /// No such member, or no such group.
    #[error("the member is not known")]
    UnknownMemberId,
    /// The instance id belongs to a newer member id.
    #[error("the instance id was taken over by a newer member")]
    FencedInstanceId,
    /// The request is of another generation.
    #[error("the generation is not the current one")]
    IllegalGeneration,
    /// No protocol type or name in common with the group.
    #[error("the protocols do not fit those of the group")]
    InconsistentGroupProtocol,
    /// The member must join again.
    #[error("the group is rebalancing")]
    RebalanceInProgress,
    /// The member must join again with the id that it was given.
    #[error("a member id is required")]
    MemberIdRequired,
    /// `group.max.size` is reached.
    #[error("the group is full")]
    GroupMaxSizeReached,
    /// No such group.
    #[error("the group is not known")]
    GroupIdNotFound,
    /// The group has members.
    #[error("the group is not empty")]
    NonEmptyGroup,
    /// A member subscribes to the topic.
    #[error("the group is subscribed to the topic")]
    GroupSubscribedToTopic,
    /// The metadata is longer than `offset.metadata.max.bytes`.
    #[error("the offset's metadata is too large")]
    OffsetMetadataTooLarge,
    /// The log refused the commit for its size.
    #[error("the commit is too large")]
    InvalidCommitOffsetSize,
    /// A commit of the offset is under way.
    #[error("the offset is about to change")]
    UnstableOffsetCommit,
    /// The group's record cannot be written, for no fault of the client.
    #[error("the coordinator failed")]
    UnknownServerError,
}

impl Error {
    /// What a failed write of a group's metadata means to its members (`coordinators.md` 1.7, 3.9's answers).
    #[must_use]
    pub fn of_group_write(error: WriteError) -> Self {
        match error {
            WriteError::UnknownPartition | WriteError::NotEnoughReplicas => {
                Self::CoordinatorNotAvailable
            }
            WriteError::TimedOut => Self::RebalanceInProgress,
            WriteError::NotLeader | WriteError::Storage => Self::NotCoordinator,
            WriteError::TooLarge | WriteError::Other => Self::UnknownServerError,
        }
    }

    /// What a failed write of offsets means to the committer (`coordinators.md` 3.1, 3.9's answers).
    #[must_use]
    pub fn of_offset_write(error: WriteError) -> Self {
        match error {
            WriteError::UnknownPartition | WriteError::NotEnoughReplicas | WriteError::TimedOut => {
                Self::CoordinatorNotAvailable
            }
            WriteError::NotLeader | WriteError::Storage => Self::NotCoordinator,
            WriteError::TooLarge => Self::InvalidCommitOffsetSize,
            WriteError::Other => Self::UnknownServerError,
        }
    }
}
