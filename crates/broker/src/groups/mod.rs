//! The shell of the group coordinator: one task per partition of `__consumer_offsets` that this broker leads.
//!
//! A request takes one hop each way: its reactor puts [`Work`] into the mailbox of the group's shard, the shard's task
//! (on the control runtime) runs it, and the answer goes to the inbox of the connection's reactor. What is decided while
//! a task is awake is appended as one batch.
//!
//! Non-obvious:
//! - A mailbox is bounded. When it is full the shard says what it says while it loads: clients come back soon, to the
//!   same broker.
//! - News that must not get lost (the fate of a batch, deleted topics, the end of the leadership) have a way of their own
//!   into the task; there are never more of them than batches in flight and metadata updates.
//! - Answers are counted: work that is dropped closes its connection, it never hangs.

mod gather;
mod load;
mod log;
mod task;

pub(crate) use gather::{Slot, gather};
pub(crate) use log::OffsetsLog;
pub(crate) use task::{Desk, Work};

use crate::config::BrokerConfig;
use ::group::request::GroupConfig;
use ::group::{Error, partition_for};
use arc_swap::ArcSwap;
use controller::NewTopic;
use metadata::ClusterImage;
use model::{LeaderEpoch, TopicName};
use parking_lot::Mutex;
use platform::{Clock, Random};
use protocol::records::Compression;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use task::{News, ShardTask};
use tokio::sync::mpsc::{self, UnboundedSender, error::TrySendError};
use tracing::{info, warn};

/// The topic of groups and their offsets.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";

/// How much work may wait for a shard.
const MAILBOX: usize = 4096;

/// The group coordinator of this broker.
#[derive(Debug)]
pub(crate) struct Groups {
    shared: Arc<Shared>,
    control: platform::Tasks,
    /// Partitions of [`OFFSETS_TOPIC`] that this broker leads.
    shards: ArcSwap<BTreeMap<i32, Arc<Shard>>>,
    /// Orders changes of `shards`.
    changing: Mutex<()>,
    is_active: AtomicBool,
    configured_partitions: i32,
}

/// What all shards go by.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    pub(crate) config: GroupConfig,
    /// `offsets.load.buffer.size`.
    pub(crate) load_bytes: usize,
    /// `offsets.topic.compression.codec`.
    pub(crate) compression: Compression,
}

/// The way to a shard's task.
#[derive(Clone)]
struct Shard {
    leader_epoch: LeaderEpoch,
    mailbox: mpsc::Sender<Box<dyn Work>>,
    news: UnboundedSender<News>,
    is_loaded: Arc<AtomicBool>,
}

impl Groups {
    /// A coordinator that leads nothing yet; its tasks run on `control`.
    pub(crate) fn new(
        config: &BrokerConfig,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        control: platform::Tasks,
    ) -> Self {
        let codec = u8::try_from(config.offsets.topic_compression_codec).ok();
        let shared = Shared {
            clock,
            random,
            config: group_config(config),
            load_bytes: config.offsets.load_buffer_bytes,
            compression: codec.and_then(|id| Compression::from_id(id).ok()).unwrap_or_default(),
        };
        Self {
            shared: Arc::new(shared),
            control,
            shards: ArcSwap::default(),
            changing: Mutex::new(()),
            is_active: AtomicBool::new(true),
            configured_partitions: config.offsets.topic_num_partitions,
        }
    }

    /// The partition of [`OFFSETS_TOPIC`] that a group is in.
    pub(crate) fn partition_of(&self, group: &str, image: &ClusterImage) -> i32 {
        let existing = image.topic(OFFSETS_TOPIC).map(|t| t.partitions().len());
        let count = existing.and_then(|count| i32::try_from(count).ok());
        partition_for(group, count.unwrap_or(self.configured_partitions))
    }

    /// Has a group's shard do `work`, or has it refused.
    pub(crate) fn submit(&self, group: &str, image: &ClusterImage, work: Box<dyn Work>) {
        match self.shard_of(group, image) {
            Ok(shard) => shard.submit(work),
            Err(error) => work.refuse(error),
        }
    }

    /// Has every shard do what `work` makes for it. False, and nothing is done, if this coordinator has shut down; what a
    /// shard that still loads gets is refused.
    pub(crate) fn submit_to_all(&self, work: impl FnOnce(usize) -> Vec<Box<dyn Work>>) -> bool {
        if !self.is_active.load(Ordering::Acquire) {
            return false;
        }
        let shards = self.shards.load_full();
        for (shard, work) in shards.values().zip(work(shards.len())) {
            if shard.is_loaded.load(Ordering::Acquire) {
                shard.submit(work);
            } else {
                work.refuse(Error::CoordinatorLoadInProgress);
            }
        }
        true
    }

    fn shard_of(&self, group: &str, image: &ClusterImage) -> Result<Arc<Shard>, Error> {
        if !self.is_active.load(Ordering::Acquire) {
            return Err(Error::CoordinatorNotAvailable);
        }
        let shards = self.shards.load();
        let shard = shards.get(&self.partition_of(group, image)).ok_or(Error::NotCoordinator)?;
        if shard.is_loaded.load(Ordering::Acquire) {
            Ok(Arc::clone(shard))
        } else {
            Err(Error::CoordinatorLoadInProgress)
        }
    }

    /// This broker leads a partition of [`OFFSETS_TOPIC`], whose log is `log`. Repeated or old news are ignored.
    pub(crate) fn elected(
        &self,
        partition: i32,
        leader_epoch: LeaderEpoch,
        log: Arc<dyn OffsetsLog>,
    ) {
        let _changing = self.changing.lock();
        let mut shards = BTreeMap::clone(&self.shards.load());
        if let Some(known) = shards.get(&partition) {
            match leader_epoch.0.saturating_sub(known.leader_epoch.0) {
                ..=0 => return,
                1 => {
                    // It has led without a break, so what it holds is what is committed: groups live on.
                    known.tell(News::Reelected(leader_epoch));
                    let shard = Shard { leader_epoch, ..Shard::clone(known) };
                    shards.insert(partition, Arc::new(shard));
                    self.shards.store(Arc::new(shards));
                    return;
                }
                // Somebody else may have led in between, and written what this one has not read.
                _ => known.tell(News::Resigned),
            }
        }
        let (mailbox, work) = mpsc::channel(MAILBOX);
        let (news, told) = mpsc::unbounded_channel();
        let is_loaded = Arc::new(AtomicBool::new(false));
        let task = ShardTask::new(
            Arc::clone(&self.shared),
            partition,
            leader_epoch,
            log,
            work,
            told,
            news.downgrade(),
            Arc::clone(&is_loaded),
        );
        shards.insert(partition, Arc::new(Shard { leader_epoch, mailbox, news, is_loaded }));
        self.shards.store(Arc::new(shards));
        self.control.spawn(task.run());
    }

    /// This broker no longer leads a partition of [`OFFSETS_TOPIC`], as of `leader_epoch` (any, if none).
    pub(crate) fn resigned(&self, partition: i32, leader_epoch: Option<LeaderEpoch>) {
        let _changing = self.changing.lock();
        let mut shards = BTreeMap::clone(&self.shards.load());
        let known = shards.get(&partition).map(|s| s.leader_epoch);
        if known.is_none_or(|known| leader_epoch.is_some_and(|epoch| epoch < known)) {
            return;
        }
        let shard = shards.remove(&partition);
        self.shards.store(Arc::new(shards));
        if let Some(shard) = shard {
            shard.tell(News::Resigned);
            info!(partition, "no longer coordinates the groups of this partition");
        }
    }

    /// These topics are gone, and so are offsets in them.
    pub(crate) fn topics_deleted(&self, topics: &[TopicName]) {
        if topics.is_empty() {
            return;
        }
        for shard in self.shards.load().values() {
            shard.tell(News::TopicsDeleted(topics.to_vec()));
        }
    }

    /// Takes no more requests; whoever waits is told to look elsewhere.
    pub(crate) fn stop(&self) {
        self.is_active.store(false, Ordering::Release);
        let _changing = self.changing.lock();
        for shard in self.shards.swap(Arc::default()).values() {
            shard.tell(News::Resigned);
        }
    }
}

impl Shard {
    fn submit(&self, work: Box<dyn Work>) {
        match self.mailbox.try_send(work) {
            Ok(()) => {}
            Err(TrySendError::Full(work)) => {
                warn!(
                    "a shard of the group coordinator is overloaded: clients are told to try again"
                );
                work.refuse(Error::CoordinatorLoadInProgress);
            }
            Err(TrySendError::Closed(work)) => work.refuse(Error::NotCoordinator),
        }
    }

    fn tell(&self, news: News) {
        // A task that has ended needs no news.
        drop(self.news.send(news));
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard")
            .field("leader_epoch", &self.leader_epoch)
            .field("is_loaded", &self.is_loaded)
            .finish_non_exhaustive()
    }
}

/// What a group's shard goes by.
fn group_config(config: &BrokerConfig) -> GroupConfig {
    let millis = |span: std::time::Duration| i32::try_from(span.as_millis()).unwrap_or(i32::MAX);
    GroupConfig {
        min_session_timeout_ms: millis(config.groups.min_session_timeout),
        max_session_timeout_ms: millis(config.groups.max_session_timeout),
        initial_rebalance_delay: config.groups.initial_rebalance_delay,
        max_size: config.groups.max_size,
        offset_metadata_max: config.offsets.metadata_max_bytes,
        offsets_retention: config.offsets.retention,
        offsets_retention_check_interval: config.offsets.retention_check_interval,
        offsets_commit_timeout: config.offsets.commit_timeout,
        max_batch_bytes: (config.topic_defaults.max_message_bytes / 2).min(512 << 10),
    }
}

/// The topic of groups and offsets as Kafka 3.9 creates it.
pub(crate) fn offsets_topic(config: &BrokerConfig) -> NewTopic {
    let offsets = &config.offsets;
    let set = |name: &str, value: String| (name.to_owned(), Some(value));
    NewTopic {
        name: OFFSETS_TOPIC.to_owned(),
        partitions: offsets.topic_num_partitions,
        replication_factor: offsets.topic_replication_factor,
        assignments: Vec::new(),
        configs: vec![
            set("compression.type", "producer".to_owned()),
            set("cleanup.policy", "compact".to_owned()),
            set("segment.bytes", offsets.topic_segment_bytes.to_string()),
        ],
    }
}

/// A peer's address as Java prints one: a slash, the name that is never looked up, and IPv6 without shortening.
pub(crate) fn java_host(peer: SocketAddr) -> Arc<str> {
    match peer.ip().to_canonical() {
        IpAddr::V4(ip) => format!("/{ip}").into(),
        IpAddr::V6(ip) => {
            let [a, b, c, d, e, f, g, h] = ip.segments();
            format!("/{a:x}:{b:x}:{c:x}:{d:x}:{e:x}:{f:x}:{g:x}:{h:x}").into()
        }
    }
}

#[cfg(test)]
mod tests;
