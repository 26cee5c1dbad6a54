//! What a log knows of the producers that write to it.

use model::{Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

/// One producer, as `DescribeProducers` answers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerDescription {
    /// The producer.
    pub producer_id: ProducerId,
    /// Its latest epoch.
    pub epoch: ProducerEpoch,
    /// The last sequence of that epoch, if a batch of it is remembered.
    pub last_sequence: Option<Sequence>,
    /// The largest timestamp of its last batch.
    pub last_timestamp: Timestamp,
    /// The coordinator epoch of its last marker.
    pub coordinator_epoch: Option<i32>,
    /// First offset of its open transaction.
    pub current_transaction_first_offset: Option<Offset>,
}
