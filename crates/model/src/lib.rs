//! The words that every other crate speaks: identities, offsets, epochs, time.
//!
//! Order, parsing and printing only; no I/O and no policy. Wire sentinels such as `-1` stop in
//! `protocol`: here absence is `Option`.

mod address;
mod identity;
mod offset;
mod planted;
mod time;
mod topic;

pub use address::host_and_port;
pub use identity::{BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch};
pub use identity::{Generation, ProducerEpoch, ProducerId, Sequence};
pub use offset::Offset;
pub use planted::{Area, Bug};
pub use time::{Instant, Timestamp};
pub use topic::{TopicId, TopicIdError, TopicName, TopicPartition};
