//! Reading: requests and answers.

use model::{LeaderEpoch, Offset, ProducerId, Timestamp};
use protocol::Records;

/// What to read.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// The first record wanted.
    pub offset: Offset,
    /// At most so many bytes; the answer may end within a batch.
    pub max_bytes: usize,
    /// Return the first batch whole even if it is larger than `max_bytes`.
    pub min_one_message: bool,
    /// Exclusive end: the high watermark, last stable offset or log end offset.
    pub upper_bound: Offset,
    /// Whether to look up aborted transactions (`read_committed`).
    pub want_aborted: bool,
}

/// What was read.
#[derive(Clone, Debug)]
pub struct LogRead {
    /// Batches from the one that holds the offset, in memory or as a range of a segment file.
    pub records: Records,
    /// Size of `records` in bytes.
    pub size: usize,
    /// Whether the first batch is larger than `max_bytes` and therefore cut off. A client that cannot
    /// use it should get nothing instead.
    pub first_batch_incomplete: bool,
    /// Transactions that were aborted in the range read; `None` if not asked for. May list more.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
}

/// Records of `producer_id` from `first_offset` up to the next marker were aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: ProducerId,
    /// First offset of the transaction.
    pub first_offset: Offset,
}

/// A record found by its timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    /// The record's timestamp.
    pub timestamp: Timestamp,
    /// The record's offset.
    pub offset: Offset,
    /// The leader epoch of its batch, if the batch has one.
    pub leader_epoch: Option<LeaderEpoch>,
}

/// Where an epoch ends; the answer to `OffsetForLeaderEpoch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest epoch that the log knows and that is not above the epoch asked for; or that epoch itself.
    pub leader_epoch: LeaderEpoch,
    /// Exclusive end of that epoch.
    pub end_offset: Offset,
}
