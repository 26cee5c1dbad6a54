//! Clients: what they send is decided by the seed, what they see goes to the history.

mod admin;
mod auditor;
mod cluster;
mod consumer;
mod member;
mod producer;

pub use admin::create_topic;
pub use auditor::audit;
pub use consumer::consume;
pub use member::be_member;
pub use producer::{ProducerSettings, produce};

use crate::history::History;
use crate::network::{HostId, Network};
use crate::scheduler::Scheduler;
use platform::random::SeededRandom;
use std::sync::Arc;

/// One client's world.
#[derive(Clone, Debug)]
pub struct ClientContext {
    /// Where it runs.
    pub host: HostId,
    /// Its way to brokers.
    pub network: Network,
    /// How many there are, from 1 on.
    pub brokers: u8,
    /// How many partitions there are.
    pub partitions: u64,
    /// Time.
    pub scheduler: Scheduler,
    /// Its choices.
    pub random: Arc<SeededRandom>,
    /// Where it says what it sees.
    pub history: History,
}
