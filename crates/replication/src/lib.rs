//! Replication of one partition, **pure**: what its leader and its followers decide, without I/O,
//! clocks or locks.
//!
//! A broker keeps a [`Leader`] for each partition that it leads and steps it with what happened
//! (an append, a follower's fetch, a tick, the controller's answer); the leader answers with what
//! must be done. A follower has no state of its own beyond its log: its decisions are the functions
//! of [`truncation`].
//!
//! Non-obvious:
//! - The high watermark counts the *maximal* ISR (KIP-497): a member that is being added already
//!   holds it back, one that is being removed still does, whichever way the controller decides.
//! - It does not move at all while the committed ISR is below the effective minimum, so even records
//!   written with `acks=1` stay invisible then (KAFKA-15583).
//! - A new leader knows nothing of its followers' logs: an unheard member of the ISR holds the high
//!   watermark where it is.

mod follower;
mod isr;
mod leader;
pub mod truncation;

pub use isr::Isr;
pub use leader::{
    Action, Event, FollowerFetch, FollowerView, IsrRefusal, Leader, LeaderSettings, LeaderTerm,
};
