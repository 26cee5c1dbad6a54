//! The shell around the cores: listeners, connections, handlers, partitions, wiring.
//!
//! Everything that a handler needs hangs off [`Broker`]. Nothing in a handler awaits, so a simulator
//! runs whole brokers by feeding [`connection::ConnectionCore`] and moving the clock.

pub mod adoption;
mod channels;
mod cleaner;
mod cold_reads;
mod committer;
pub mod config;
pub mod connection;
mod control;
pub mod dispatch;
mod epoch_file;
mod error_codes;
mod fetch_session;
mod groups;
mod handlers;
mod inbox;
mod isr_proposer;
mod janitor;
mod lease;
pub mod listener;
pub mod log_levels;
mod log_troubles;
pub mod metadata_store;
mod mover;
pub mod output;
mod partition;
mod partitions;
mod peers;
mod producer_ids;
pub mod reactor;
mod readiness;
pub mod recovery;
mod refusals;
mod replica_fetcher;
mod replication_throttle;
pub mod request;
mod scrubber;
pub mod server;
mod session_file;
mod small_file;
pub mod stepped;
mod stream;
pub mod timer;
mod to_controller;

pub use crate::partition::{LogView, ReplicaView, RoleView};

use crate::cleaner::Cleaners;
use crate::cold_reads::ColdReads;
use crate::config::BrokerConfig;
use crate::control::Control;
use crate::fetch_session::FetchSessions;
use crate::groups::Groups;
use crate::partitions::Partitions;
use crate::peers::Peers;
use crate::producer_ids::ProducerIds;
use crate::reactor::ReceiveBudget;
use crate::readiness::Readiness;
use crate::refusals::Refusals;
use crate::scrubber::Scrubber;
use crate::timer::TimerService;
use arc_swap::ArcSwap;
use bytestring::ByteString;
use controller::ControllerHandle;
use metadata::ClusterImage;
use platform::{Clock, Disk, Network, Random, Tasks};
use std::sync::{Arc, OnceLock};

/// One broker: what its handlers share.
#[derive(Debug)]
pub struct Broker {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// Files.
    pub disk: Arc<dyn Disk>,
    /// Connections to other brokers.
    pub network: Network,
    /// The configuration; swapped whole when a dynamic setting changes.
    pub config: ArcSwap<BrokerConfig>,
    /// What is known of the cluster; swapped whole.
    pub image: Arc<ArcSwap<ClusterImage>>,
    /// The group coordinator.
    pub(crate) groups: Groups,
    /// Who compacts logs.
    pub(crate) cleaners: Cleaners,
    /// Looks at what lies on the disks.
    pub(crate) scrubber: Scrubber,
    /// The cluster's id.
    pub cluster_id: ByteString,
    /// Deadlines of waiting requests.
    pub timers: TimerService,
    /// Where futures run that are not on the data path: the controller, coordinators, administration.
    pub control: Tasks,
    /// What is said about connections that we close.
    pub refusals: Refusals,
    pub(crate) receive_budget: ReceiveBudget,
    /// Whether the controller has told this broker of its cluster.
    pub(crate) readiness: Readiness,
    /// What the controller has told this broker.
    pub(crate) told: Control,
    /// Whether the other brokers' processes are there.
    pub(crate) peers: Peers,
    /// The partitions on this broker.
    pub(crate) partitions: Partitions,
    /// Who reads for fetches what is not in memory.
    pub(crate) cold_reads: ColdReads,
    /// Incremental fetch sessions.
    pub(crate) fetch_sessions: FetchSessions,
    /// Ids for idempotent producers.
    pub(crate) producer_ids: ProducerIds,
    /// The way to this process's controller driver, once it runs.
    pub controller: Arc<OnceLock<ControllerHandle>>,
}
