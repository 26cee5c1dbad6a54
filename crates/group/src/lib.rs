//! Classic consumer groups and committed offsets, as Kafka 3.9's coordinator keeps them in `__consumer_offsets`.
//!
//! Pure: [`GroupShard`] is everything that one partition's groups do; the broker feeds it. Its modules, from the
//! outside in: [`request`] (what is asked and answered), `shard` (all groups of a partition, offsets, deletion,
//! expiry), `group` (one group's rebalances), `member`, `offsets`, `timers`, [`record`] (bytes in the log).
//!
//! # Non-obvious
//! - Two kinds of state. Offsets and stable generations are replicated: they change when their record is committed, and
//!   only then. Who has joined or synced so far is not: a new coordinator starts again from the last stored generation
//!   and lets the members' sessions run. That is Kafka's protocol, not a shortcut.
//! - A timer is never taken back. When it fires its group looks whether it is still due; a heartbeat so costs two map
//!   look-ups and no timer.
//! - A group that is being deleted refuses everything with COORDINATOR_NOT_AVAILABLE until its tombstone is committed,
//!   so that nobody joins what a restart would forget.
//! - Kafka drops a group's last request without an answer in a few races (a member that rejoins on another connection,
//!   or leaves while it syncs). Here each ticket is answered exactly once.
//! - Records of other kinds of group (KIP-848, share, streams) are skipped, and never get tombstones. As on 3.9, their
//!   offsets show as those of a group without members.

mod error;
mod group;
mod member;
mod offsets;
mod partition;
pub mod record;
pub mod request;
mod shard;
mod timers;

pub use coordinator::{Origin, WriteError, WriteId};
pub use error::Error;
pub use offsets::{CommittedOffset, Offsets};
pub use partition::{java_hash, partition_for};
pub use shard::{GroupOffsets, GroupShard, Now};

use shard::Waiter;
