//! The one place where the errors of the crates below become Kafka's error codes.
//!
//! One function per error type, without a wildcard arm: a new variant does not compile until
//! someone decides what clients are told.

use crate::partition::{AppendFailure, CoordinatorAppendFailure, Refusal};
use ::group::WriteError;
use protocol::ErrorCode;
use protocol::records::validate::ValidationErrorKind;
use storage::AppendError;

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
            | ValidationErrorKind::InvalidRecord => WriteError::Other,
        },
        CoordinatorAppendFailure::Empty => WriteError::Other,
        CoordinatorAppendFailure::Append(failure) => match failure {
            AppendFailure::Refused(
                Refusal::NotLeader | Refusal::FencedLeaderEpoch | Refusal::UnknownLeaderEpoch,
            )
            | AppendFailure::LeadershipLost => WriteError::NotLeader,
            AppendFailure::Refused(Refusal::Offline) | AppendFailure::WriteFailed => WriteError::Storage,
            AppendFailure::NotEnoughReplicas | AppendFailure::NotEnoughReplicasAfterAppend => {
                WriteError::NotEnoughReplicas
            }
            AppendFailure::Log(AppendError::Offline | AppendError::Disk(_)) => WriteError::Storage,
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
