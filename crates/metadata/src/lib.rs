//! What a broker knows of its cluster, as one immutable value.
//!
//! The controller sends changes ([`MetadataDelta`], from `UpdateMetadata`) and the store announces
//! settings ([`ConfigChange`]); each makes a new [`ClusterImage`] that shares all that did not change
//! with the one before. Readers hold whichever image was current when they began and never see half
//! of a change.
//!
//! Non-obvious:
//! - An image may name a controller or a leader that is not among its live brokers: between an election
//!   and the next `UpdateMetadata` that is the truth.
//! - A partition whose leader is being deleted (wire leader -2) is not in the image; a topic without
//!   partitions is not either.
//! - Topics created by very old controllers have no id.

mod broker;
mod configs;
mod delta;
mod image;
mod sharded;
mod topic;

pub use broker::{BrokerImage, Endpoint, SecurityProtocol};
pub use configs::{ConfigChange, ConfigEntity, Configs};
pub use delta::{Applied, MetadataDelta, PartitionDelta, TopicDelta};
pub use image::ClusterImage;
pub use topic::{PartitionImage, TopicImage};
