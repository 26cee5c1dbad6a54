//! The elected controller: which topics exist, where their replicas are, who leads.
//!
//! Pure planners ([`Placement`], names, settings, elections) and one driver that writes what they say
//! to the store and tells brokers through their [`ControlChannel`]s. A single broker runs the same
//! election as a cluster.
//!
//! Non-obvious:
//! - Every write of the controller also checks `/controller_epoch`'s version: a controller that was
//!   replaced without noticing fails its next write and steps down.
//! - Settings may be altered by any broker, not only the controller.
//! - A topic is complete for a client when *this* broker's image shows leaders for all its partitions.

mod api;
mod channel;
mod config_edits;
mod context;
mod driver;
mod eligible;
mod epoch_record;
mod handle;
mod import;
mod known_cluster;
mod membership;
mod metadata_copy;
mod out_of_sync;
mod outbox;
mod placement;
mod sender;
mod session_record;
mod topic_rules;
mod znodes;

pub use api::{
    ApiError, ConfigAlteration, ConfigEdit, ConfigOp, ConfigOpKind, ConfigRules, CreatedTopic,
    ElectionType, NewPartitions, NewTopic, OngoingReassignment, PerPartition, PerTopic,
    ProducerIdBlock,
};
pub use channel::{
    Answering, ConfigListener, ControlChannel, ControlChannels, ControlRequest, ControlResponse,
    NoAnswer,
};
pub use context::LogDoubt;
pub use driver::Driver;
pub use epoch_record::{EpochRecord, NoEpochRecord};
pub use handle::ControllerHandle;
pub use import::{ImportError, Imported, ImportedTopic};
pub use known_cluster::{KnownCluster, KnownPartition, KnownTopic};
pub use membership::{
    BrokerConfigs, ClusterView, ConfigReader, ControllerError, ControllerSettings, Membership,
};
pub use membership::{RegistrationListener, SessionReader, Surroundings};
pub use metadata_copy::{Copied, CopyError, MetadataCopy, MetadataNode};
pub use out_of_sync::{Cause, Departure, OutOfSync};
pub use placement::Placement;
pub use session_record::{NoSessionRecord, REMEMBERED_SESSIONS, SessionRecord};
pub use topic_rules::{collide, validate_topic_name};
