//! The one place where the errors of the crates below become Kafka's error codes.
//!
//! One function per error type, without a wildcard arm: a new variant does not compile until
//! someone decides what clients are told.

use crate::partition::{AppendFailure, CoordinatorAppendFailure, DeleteFailure, OffsetFailure};
use crate::partition::{MoveRefusal, ReadFailure, Refusal};
use crate::partitions::HostError;
use ::group::WriteError;
use protocol::ErrorCode;
use protocol::records::validate::ValidationErrorKind;
use storage::{AppendError, LogError, ReadError};

/// What a client is told that a group refuses.
pub(crate) fn group(error: ::group::Error) -> ErrorCode {
    use ::group::Error;
    match error {
        Error::CoordinatorNotAvailable => ErrorCode::CoordinatorNotAvailable,
        Error::CoordinatorLoadInProgress => ErrorCode::CoordinatorLoadInProgress,
        Error::NotCoordinator => ErrorCode::NotCoordinator,
        Error::InvalidGroupId => ErrorCode::InvalidGroupId,
        Error::InvalidSessionTimeout => ErrorCode::InvalidSessionTimeout,
        Error::UnknownMemberId => ErrorCode::UnknownMemberId,
        Error::FencedInstanceId => ErrorCode::FencedInstanceId,
        Error::IllegalGeneration => ErrorCode::IllegalGeneration,
        Error::InconsistentGroupProtocol => ErrorCode::InconsistentGroupProtocol,
        Error::RebalanceInProgress => ErrorCode::RebalanceInProgress,
        Error::MemberIdRequired => ErrorCode::MemberIdRequired,
        Error::GroupMaxSizeReached => ErrorCode::GroupMaxSizeReached,
        Error::GroupIdNotFound => ErrorCode::GroupIdNotFound,
        Error::NonEmptyGroup => ErrorCode::NonEmptyGroup,
        Error::GroupSubscribedToTopic => ErrorCode::GroupSubscribedToTopic,
        Error::OffsetMetadataTooLarge => ErrorCode::OffsetMetadataTooLarge,
        Error::InvalidCommitOffsetSize => ErrorCode::InvalidCommitOffsetSize,
        Error::UnstableOffsetCommit => ErrorCode::UnstableOffsetCommit,
        Error::UnknownServerError => ErrorCode::UnknownServerError,
    }
}

/// What a coordinator makes of a failed append.
pub(crate) fn coordinator_write(failure: &CoordinatorAppendFailure) -> WriteError {
    match failure {
        CoordinatorAppendFailure::Invalid(error) => match error.kind {
            ValidationErrorKind::MessageTooLarge => WriteError::TooLarge,
            ValidationErrorKind::CorruptMessage
            | ValidationErrorKind::InvalidTimestamp
            | ValidationErrorKind::UnsupportedCompressionType
            | ValidationErrorKind::InvalidRecord
            | ValidationErrorKind::UnknownServerError => WriteError::Other,
        },
        CoordinatorAppendFailure::Empty => WriteError::Other,
        CoordinatorAppendFailure::Append(failure) => match failure {
            AppendFailure::Refused(
                Refusal::NotLeader
                | Refusal::Recovering
                | Refusal::FencedLeaderEpoch
                | Refusal::UnknownLeaderEpoch,
            )
            | AppendFailure::BeginningMissing(_)
            | AppendFailure::LeadershipLost => WriteError::NotLeader,
            AppendFailure::Refused(Refusal::Offline) | AppendFailure::WriteFailed => {
                WriteError::Storage
            }
            AppendFailure::NotEnoughReplicas | AppendFailure::NotEnoughReplicasAfterAppend => {
                WriteError::NotEnoughReplicas
            }
            AppendFailure::Log(
                AppendError::Offline | AppendError::Disk(_) | AppendError::NoRoom { .. },
            ) => WriteError::Storage,
            AppendFailure::Log(AppendError::RecordListTooLarge { .. }) => WriteError::TooLarge,
            AppendFailure::Log(
                AppendError::InvalidProducerEpoch { .. }
                | AppendError::OutOfOrderSequence { .. }
                | AppendError::InvalidTransactionState { .. }
                | AppendError::TransactionCoordinatorFenced { .. }
                | AppendError::UnexpectedOffset { .. }
                | AppendError::Corrupt(_),
            ) => WriteError::Other,
        },
    }
}

/// The code of an answer about a group; 0 if it is not refused.
pub(crate) fn of_group(error: Option<::group::Error>) -> i16 {
    error.map_or(0, |error| group(error).code())
}

pub(crate) fn validation_error(kind: ValidationErrorKind) -> ErrorCode {
    match kind {
        ValidationErrorKind::CorruptMessage => ErrorCode::CorruptMessage,
        ValidationErrorKind::MessageTooLarge => ErrorCode::MessageTooLarge,
        ValidationErrorKind::InvalidTimestamp => ErrorCode::InvalidTimestamp,
        ValidationErrorKind::UnsupportedCompressionType => ErrorCode::UnsupportedCompressionType,
        ValidationErrorKind::InvalidRecord => ErrorCode::InvalidRecord,
        ValidationErrorKind::UnknownServerError => ErrorCode::UnknownServerError,
    }
}

pub(crate) fn refusal(refusal: Refusal) -> ErrorCode {
    match refusal {
        // Nobody leads it yet: every client looks for the leader again, and comes back.
        Refusal::NotLeader | Refusal::Recovering => ErrorCode::NotLeaderOrFollower,
        Refusal::FencedLeaderEpoch => ErrorCode::FencedLeaderEpoch,
        Refusal::UnknownLeaderEpoch => ErrorCode::UnknownLeaderEpoch,
        Refusal::Offline => ErrorCode::KafkaStorageError,
    }
}

pub(crate) fn append_failure(failure: &AppendFailure) -> ErrorCode {
    match failure {
        AppendFailure::Refused(refused) => refusal(*refused),
        AppendFailure::Log(error) => append_error(error),
        AppendFailure::NotEnoughReplicas => ErrorCode::NotEnoughReplicas,
        AppendFailure::NotEnoughReplicasAfterAppend => ErrorCode::NotEnoughReplicasAfterAppend,
        AppendFailure::WriteFailed => ErrorCode::KafkaStorageError,
        // Every client tries again, and sends what is older first.
        AppendFailure::BeginningMissing(_) | AppendFailure::LeadershipLost => {
            ErrorCode::NotLeaderOrFollower
        }
    }
}

pub(crate) fn append_error(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::Offline | AppendError::Disk(_) | AppendError::NoRoom { .. } => {
            ErrorCode::KafkaStorageError
        }
        AppendError::RecordListTooLarge { .. } => ErrorCode::RecordListTooLarge,
        AppendError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        AppendError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
        AppendError::InvalidTransactionState { .. } => ErrorCode::InvalidTxnState,
        AppendError::TransactionCoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        // Only followers' appends fail so, and nobody is answered then.
        AppendError::UnexpectedOffset { .. } => ErrorCode::UnknownServerError,
        AppendError::Corrupt(_) => ErrorCode::CorruptMessage,
    }
}

pub(crate) fn read_error(error: &ReadError) -> ErrorCode {
    match error {
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::Disk(_) => ErrorCode::KafkaStorageError,
        ReadError::Corrupt { .. } => ErrorCode::CorruptMessage,
    }
}

pub(crate) fn read_failure(failure: &ReadFailure) -> ErrorCode {
    match failure {
        ReadFailure::Refused(refused) => refusal(*refused),
        ReadFailure::NotAReplica => ErrorCode::NotLeaderOrFollower,
        ReadFailure::OutOfRange => ErrorCode::OffsetOutOfRange,
        ReadFailure::Log(error) => read_error(error),
        ReadFailure::File(_) => ErrorCode::KafkaStorageError,
    }
}

pub(crate) fn offset_failure(failure: &OffsetFailure) -> ErrorCode {
    match failure {
        OffsetFailure::Refused(refused) => refusal(*refused),
        OffsetFailure::NotAvailable => ErrorCode::OffsetNotAvailable,
        OffsetFailure::Log(error) => read_error(error),
    }
}

pub(crate) fn log_error(error: &LogError) -> ErrorCode {
    match error {
        LogError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        LogError::Offline | LogError::Disk(_) | LogError::Damaged { .. } => {
            ErrorCode::KafkaStorageError
        }
    }
}

pub(crate) fn delete_failure(failure: &DeleteFailure) -> ErrorCode {
    match failure {
        DeleteFailure::Refused(refused) => refusal(*refused),
        DeleteFailure::Policy => ErrorCode::PolicyViolation,
        DeleteFailure::OutOfRange => ErrorCode::OffsetOutOfRange,
        DeleteFailure::Log(error) => log_error(error),
    }
}

pub(crate) fn host_error(error: &HostError) -> ErrorCode {
    match error {
        HostError::InconsistentTopicId => ErrorCode::InconsistentTopicId,
        HostError::LogIsGone => ErrorCode::KafkaStorageError,
        HostError::Log(error) => log_error(error),
    }
}

pub(crate) fn move_refusal(refusal: &MoveRefusal) -> ErrorCode {
    match refusal {
        // Kafka keeps the code that it had before there was NOT_LEADER_OR_FOLLOWER.
        MoveRefusal::NotHere => ErrorCode::ReplicaNotAvailable,
        MoveRefusal::Offline => ErrorCode::KafkaStorageError,
        MoveRefusal::Log(error) => log_error(error),
    }
}
