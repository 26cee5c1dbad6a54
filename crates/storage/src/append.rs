//! Appending in three steps: *reserve* offsets under the partition's lock, *write* without it,
//! *publish* under it again.
//!
//! Between the first and the last step offsets, producer state and index entries are provisional. If
//! the write fails they are all forgotten and rebuilt from what the disk holds: else the retry of a
//! batch that never reached the disk would be taken for a duplicate.

use crate::pending::PendingAppend;
use bytes::Bytes;
use model::{LeaderEpoch, Offset, Timestamp};
use protocol::records::validate::Validated;

/// Who wrote the batches; decides which checks apply. Kafka's `AppendOrigin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A client: every check.
    Client,
    /// A group or transaction coordinator: epochs are checked, sequences are not.
    Coordinator,
}

/// What to append.
#[derive(Debug)]
pub enum AppendRecords {
    /// A batch to which this broker, as leader, gives offsets and the leader epoch.
    Assign {
        /// The batch, checked by [`protocol::records::validate::validate`].
        validated: Validated,
        /// The leader's epoch.
        leader_epoch: LeaderEpoch,
        /// Who wrote them.
        origin: AppendOrigin,
        /// For the first batch of a transaction in this partition: proof that the coordinator knows
        /// that the partition takes part ([`PartitionLog::begin_verification`]).
        ///
        /// [`PartitionLog::begin_verification`]: crate::PartitionLog::begin_verification
        verification: Verification,
    },
    /// Batches as the leader has them: offsets and epochs are kept. An incomplete last batch is dropped.
    Replicate(Bytes),
}

/// Whether transactional batches need a [`VerificationGuard`] to open a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verification {
    /// `transaction.partition.verification.enable=false`, or the writer is a coordinator.
    #[default]
    NotRequired,
    /// Required; the guard that the producer's verification got, if it got one.
    Required(Option<VerificationGuard>),
}

/// Names one verification of one producer's transaction; no two are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationGuard(pub(crate) u64);

/// One append.
#[derive(Debug)]
pub struct AppendRequest {
    /// What to append.
    pub records: AppendRecords,
    /// Wall-clock time; decides rolling of segments whose records have no timestamps.
    pub now: Timestamp,
}

/// What became of an append request.
#[derive(Debug)]
pub enum Reserved {
    /// Write it, then publish it.
    Pending(PendingAppend),
    /// The log has this batch already: answer with its old offsets. The answer must wait until
    /// `log_end_offset > last_offset`, for the first attempt may itself not be written yet.
    Duplicate(Duplicate),
    /// There was no complete batch: nothing to do.
    Empty,
}

/// Where a repeated batch already is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate {
    /// First offset of the batch.
    pub first_offset: Offset,
    /// Last offset of the batch (inclusive).
    pub last_offset: Offset,
    /// The stored batch's largest timestamp; Kafka answers it as the append time.
    pub timestamp: Timestamp,
}

/// A published append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub first_offset: Offset,
    /// Offset of the last record (inclusive).
    pub last_offset: Offset,
    /// The largest timestamp of the batches.
    pub max_timestamp: Timestamp,
}
