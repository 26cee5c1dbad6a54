//! The store that a cluster agrees through: ZooKeeper's model behind one narrow trait.
//!
//! Versioned nodes in a tree, sessions whose ephemeral nodes vanish with them, one-shot watches, and
//! transactions of several changes with checks. Everything that brokers agree on (who is controller,
//! which topics exist, who leads) is written through a [`Session`] of a [`Store`], under Kafka's own
//! paths. Back-ends: [`local::LocalStore`], in memory with a log on a `Disk`, for a single node; and
//! [`zookeeper::ZooKeeperStore`], which several brokers share.
//!
//! Non-obvious:
//! - A change whose reply was lost may have been made ([`StoreError::MayHaveBeenApplied`]): a caller
//!   either makes it again in a way that bears repetition, or reads and compares.
//! - Watches fire once. A session receives the event of a change before the reply to any later read.
//! - `get` on a missing node leaves no watch; `exists` does.
//! - The number in a sequential node's name counts the children that its parent ever had.

pub mod local;
mod path;
mod request;
mod session;
mod stat;
pub mod zookeeper;

pub use path::is_valid as is_valid_path;
pub use request::{CreateMode, Kind, Op, OpResult, Read, ReadResult, Reply, Request};
pub use session::{Change, Lease, SessionId};
pub use session::{Event, Events, Opening, Pending, Session, SessionHandle, Store, StoreError};
pub use stat::{Stat, Zxid};
