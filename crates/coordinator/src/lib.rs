//! The frame of a coordinator: a state machine that is replicated through one partition of an internal topic.
//!
//! Replicated state changes in one way only, by [`Replicated::replay`] of a record that is committed: live, at
//! start-up and on a new leader alike. A request is *decided* first: a function of `&state` that answers with a
//! [`Decision`], the records to append and the response to give once they are committed. [`Shard`] keeps what is in
//! between, in log order.
//!
//! # Non-obvious
//! - A record is replayed when the high watermark passes it, not when it is appended. So a failed append needs no
//!   rollback, and a reader never sees what may still be lost. The price: a decision that must know about writes in
//!   flight (delete *all* offsets of a group) has to look at [`Shard::in_flight`].
//! - A write that times out is answered with an error, but its records may be in the log: it stays queued and is
//!   replayed if it is committed after all. Memory never differs from what a restart would load.
//! - State that is deliberately not replicated (who has joined a rebalance so far) may change in place; it must be
//!   such that losing it is within the protocol.

mod shard;

pub use shard::{Shard, WriteId};

use model::{Offset, ProducerId};

/// Where a record was found: what [`Replicated::replay`] may need beside the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Base offset of the record's batch.
    pub base_offset: Offset,
    /// The producer, if the batch belongs to a transaction: the record counts once that commits.
    pub transaction: Option<ProducerId>,
}

/// State that is rebuilt from the log of one partition.
pub trait Replicated {
    /// One record of the log, decoded.
    type Record;

    /// About how many bytes the record takes in a batch; used to bound batches.
    fn size(record: &Self::Record) -> usize;

    /// Applies one committed record; records come in log order, each once.
    fn replay(&mut self, origin: Origin, record: Self::Record);

    /// Applies a transaction marker: the producer's records so far count now, or never.
    fn end_transaction(&mut self, producer: ProducerId, commit: bool);
}

/// What a request comes to, before anything has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision<R, A> {
    /// To be appended as one unit; if empty, the response can be given at once.
    pub records: Vec<R>,
    /// To be given when the records are committed.
    pub response: A,
}

/// Why a write did not, or not in time, become committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// This broker does not lead the partition (any more).
    NotLeader,
    /// The partition does not exist here.
    UnknownPartition,
    /// The in-sync replicas are fewer than `min.insync.replicas`.
    NotEnoughReplicas,
    /// Appended, but not committed within the timeout. It may still be.
    TimedOut,
    /// The log refused the batch for its size.
    TooLarge,
    /// The log directory failed.
    Storage,
    /// Anything else; the log says what.
    Other,
}
