//! The typed form of the configuration: what the rest of the broker reads. One file per area.

mod controller;
mod groups;
mod log;
mod network;
mod node;
mod replication;
mod topics;
mod transactions;
mod zookeeper;

pub use controller::ControllerSettings;
pub use groups::{GroupSettings, OffsetsSettings};
pub use log::{CleanerSettings, LogSettings, RecordValidation, ScrubSettings};
pub use network::NetworkSettings;
pub(super) use network::parse_overrides;
pub use node::{NodeSettings, ShutdownSettings};
pub use replication::ReplicationSettings;
pub use topics::{ReplicaPlacement, TopicSettings};
pub use transactions::TransactionSettings;
pub use zookeeper::ZooKeeperSettings;
pub(super) use zookeeper::idle_tls_keys;
