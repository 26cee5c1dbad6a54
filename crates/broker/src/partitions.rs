//! The partitions on this broker, by name and by topic id.
//!
//! Looking one up takes no lock and allocates nothing. The maps are sharded and each shard is swapped
//! whole when it changes, so that hosting 10,000 topics one after the other does not copy the map of
//! all for each.

use crate::partition::{Assignment, Environment, HostedTopic, OpenOrClosed, Partition};
use crate::partition::{PartitionSettings, ReplicaSize, reopen};
use crate::recovery::{Job, recover_all, time_consuming};
use crate::server::Spawn;
use arc_swap::ArcSwap;
use metadata::ClusterImage;
use model::{BrokerId, TopicId, TopicName, TopicPartition};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use storage::{ClosedLog, LogConfig, LogDirectory, LogError, NewLog};
use tracing::{info, warn};

const SHARDS: usize = 128;

/// For so many partitions that do not exist it is remembered where their logs are to be.
const MOST_PREFERENCES: usize = 10_000;

/// All partitions on this broker.
#[derive(Debug)]
pub(crate) struct Partitions {
    environment: Arc<Environment>,
    by_name: Shards<TopicName>,
    by_id: Shards<TopicId>,
    /// Logs that no controller has spoken of, or whose partition was stopped without being deleted.
    /// The lock also orders changes of the maps.
    unclaimed: Mutex<BTreeMap<TopicPartition, ClosedLog>>,
    /// Copies of moves that the last stop interrupted.
    copies: Mutex<BTreeMap<TopicPartition, ClosedLog>>,
    /// Where to create logs that were asked to be moved before they existed.
    preferred: Mutex<BTreeMap<TopicPartition, Arc<LogDirectory>>>,
}

/// The partitions of one topic on this broker.
#[derive(Debug)]
struct Hosted {
    topic: Arc<HostedTopic>,
    /// By ascending index.
    partitions: Vec<Arc<Partition>>,
}

type Shard<K> = HashMap<K, Arc<Hosted>>;

#[derive(Debug)]
struct Shards<K>(Vec<ArcSwap<Shard<K>>>);

/// Why a partition cannot be hosted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HostError {
    /// Its log directory holds another incarnation of the topic: `INCONSISTENT_TOPIC_ID`.
    #[error("the partition here belongs to another topic of the same name")]
    InconsistentTopicId,
    /// The log is gone though the partition is not new, and counts as in sync: `KAFKA_STORAGE_ERROR`.
    #[error("the partition is not new, and no log directory holds its log: it stays offline here")]
    LogIsGone,
    /// Its log cannot be used: `KAFKA_STORAGE_ERROR`.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// What becomes the log of a partition that is not here yet.
enum Missing {
    /// It was found at start, and nobody has claimed it.
    Found(ClosedLog),
    /// It is to be created.
    New(NewLog),
}

impl Partitions {
    /// No partitions but the logs that were found at start.
    pub(crate) fn new(environment: Arc<Environment>, found: Vec<ClosedLog>) -> Self {
        let named = |log: ClosedLog| (log.topic_partition().clone(), log);
        let (copies, logs): (Vec<_>, Vec<_>) = found.into_iter().partition(ClosedLog::is_future);
        let unclaimed = logs.into_iter().map(named).collect();
        Self {
            copies: Mutex::new(copies.into_iter().map(named).collect()),
            preferred: Mutex::default(),
            environment,
            by_name: Shards::default(),
            by_id: Shards::default(),
            unclaimed: Mutex::new(unclaimed),
        }
    }

    /// Takes the logs out that are to be recovered before anybody can claim one: [`Partitions::recover`] puts them
    /// back.
    pub(crate) fn take_unrecovered(&self) -> Vec<Job<ClosedLog>> {
        let mut jobs = Vec::new();
        for logs in [&self.unclaimed, &self.copies] {
            let mut logs = logs.lock();
            let long: Vec<_> = logs
                .iter()
                .filter_map(|(name, log)| Some((name.clone(), time_consuming(log)?)))
                .collect();
            for (name, bytes) in long {
                let log = logs.remove(&name).expect("just seen");
                let directory = Arc::clone(log.directory());
                jobs.push(Job { name: name.to_string(), directory, bytes, log });
            }
        }
        jobs
    }

    /// Recovers `logs`; their settings are told by topic.
    pub(crate) fn recover(
        &self,
        logs: Vec<Job<ClosedLog>>,
        threads: usize,
        spawn: Option<Spawn>,
        settings: impl Fn(&TopicName) -> Arc<LogConfig> + Send + Sync + 'static,
    ) {
        let clock = Arc::clone(&self.environment.clock);
        let recovered = Arc::new(Mutex::new(Vec::new()));
        let (done, wall) = (Arc::clone(&recovered), Arc::clone(&clock));
        let work = move |log: ClosedLog| {
            let config = settings(&log.topic_partition().topic);
            let (log, outcome) = log.recover(config, wall.timestamp());
            if let Err(failure) = outcome {
                let failure = &failure as &dyn std::error::Error;
                warn!(partition = %log.topic_partition(), failure, "the log cannot be recovered now");
            }
            done.lock().push(log);
        };
        recover_all(logs, threads, &clock, spawn, work);
        for log in std::mem::take(&mut *recovered.lock()) {
            let logs = if log.is_future() { &self.copies } else { &self.unclaimed };
            logs.lock().insert(log.topic_partition().clone(), log);
        }
    }

    /// What the partitions share.
    pub(crate) fn environment(&self) -> &Arc<Environment> {
        &self.environment
    }

    /// Partition `index` of the topic called `topic`, if it is on this broker.
    pub(crate) fn find(&self, topic: &str, index: i32) -> Option<Arc<Partition>> {
        self.by_name.shard(topic).load().get(topic)?.partition(index).cloned()
    }

    /// Partition `index` of the topic with `id`, if it is on this broker.
    pub(crate) fn find_by_id(&self, id: TopicId, index: i32) -> Option<Arc<Partition>> {
        self.by_id.shard(&id).load().get(&id)?.partition(index).cloned()
    }

    /// The partitions of `topic` that are hosted here.
    pub(crate) fn of_topic(&self, topic: &str) -> Vec<Arc<Partition>> {
        let hosted = self.by_name.shard(topic).load();
        hosted.get(topic).map_or_else(Vec::new, |hosted| hosted.partitions.clone())
    }

    /// Whether a partition of the topic called `topic` is on this broker.
    pub(crate) fn hosts(&self, topic: &str) -> bool {
        self.by_name.shard(topic).load().contains_key(topic)
    }

    /// Whether there is a log of the partition, whoever has it.
    pub(crate) fn has_log(&self, name: &TopicPartition) -> bool {
        self.find(&name.topic, name.partition).is_some() || self.unclaimed.lock().contains_key(name)
    }

    /// All partitions, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Partition>> {
        let mut all = Vec::new();
        for shard in &self.by_name.0 {
            let shard = shard.load();
            all.extend(shard.values().flat_map(|hosted| &hosted.partitions).cloned());
        }
        all.sort_unstable_by(|a, b| (&a.topic.name, a.index).cmp(&(&b.topic.name, b.index)));
        all
    }

    /// Takes over what the controller says of partitions of one topic, creating those that are new
    /// here. Answers in the order of the assignments.
    pub(crate) fn host(
        &self,
        topic: &TopicName,
        id: Option<TopicId>,
        settings: &PartitionSettings,
        assignments: Vec<Assignment>,
    ) -> Vec<Result<(), HostError>> {
        let mut unclaimed = self.unclaimed.lock();
        let known = self.by_name.shard(&**topic).load().get(topic).cloned();
        if let Some(known) = &known
            && let (Some(ours), Some(theirs)) = (known.topic.id(), id)
            && ours != theirs
        {
            return assignments.iter().map(|_| Err(HostError::InconsistentTopicId)).collect();
        }
        let hosted = known.as_ref().map_or_else(
            || {
                Arc::new(HostedTopic {
                    name: topic.clone(),
                    id: OnceLock::new(),
                    settings: ArcSwap::from_pointee(settings.clone()),
                    environment: Arc::clone(&self.environment),
                })
            },
            |known| Arc::clone(&known.topic),
        );
        if let Some(id) = id {
            hosted.id.get_or_init(|| id);
        }
        let mut partitions = known.map_or_else(Vec::new, |known| known.partitions.clone());
        let position = |partitions: &[Arc<Partition>], index| {
            partitions.binary_search_by_key(&index, |partition| partition.index)
        };
        let missing = assignments.iter().filter(|new| position(&partitions, new.index).is_err());
        let mut logs = self.logs_for(&mut unclaimed, &hosted, missing);
        let mut results = Vec::with_capacity(assignments.len());
        for assignment in assignments {
            let index = assignment.index;
            let partition = match position(&partitions, index) {
                Ok(at) => Ok(Arc::clone(&partitions[at])),
                Err(at) => {
                    logs.remove(&index).unwrap_or(Err(LogError::Offline.into())).map(|log| {
                        let partition = Arc::new(Partition::new(Arc::clone(&hosted), index, log));
                        partitions.insert(at, Arc::clone(&partition));
                        partition
                    })
                }
            };
            results.push(partition.and_then(|partition| {
                partition.assign(assignment)?;
                self.resume_move(&partition);
                Ok(())
            }));
        }
        self.set(topic, id, Hosted { topic: hosted, partitions });
        drop(unclaimed);
        results
    }

    /// The logs of partitions that are not here yet, by number: those that were found, and new ones, all made durable
    /// together.
    fn logs_for<'a>(
        &self,
        unclaimed: &mut BTreeMap<TopicPartition, ClosedLog>,
        topic: &HostedTopic,
        missing: impl Iterator<Item = &'a Assignment>,
    ) -> BTreeMap<i32, Result<OpenOrClosed, HostError>> {
        let mut logs = BTreeMap::new();
        let mut new = BTreeMap::new();
        for assignment in missing {
            let index = assignment.index;
            // A request may name a partition twice.
            if logs.contains_key(&index) || new.contains_key(&index) {
                continue;
            }
            match self.found_or_new(unclaimed, topic, assignment) {
                Ok(Missing::Found(log)) => {
                    logs.insert(index, Ok(OpenOrClosed::Closed(log)));
                }
                Ok(Missing::New(wanted)) => {
                    new.insert(index, wanted);
                }
                Err(refused) => {
                    logs.insert(index, Err(refused));
                }
            }
        }
        let (indexes, new): (Vec<_>, Vec<_>) = new.into_iter().unzip();
        let created = self.environment.logs.create_all(new, self.environment.clock.timestamp());
        for (index, log) in indexes.into_iter().zip(created) {
            let log = log.map(|log| OpenOrClosed::Open(Box::new(log))).map_err(HostError::from);
            logs.insert(index, log);
        }
        logs
    }

    fn found_or_new(
        &self,
        unclaimed: &mut BTreeMap<TopicPartition, ClosedLog>,
        topic: &HostedTopic,
        assignment: &Assignment,
    ) -> Result<Missing, HostError> {
        let partition = TopicPartition { topic: topic.name.clone(), partition: assignment.index };
        if let Some(log) = unclaimed.remove(&partition) {
            return Ok(Missing::Found(log));
        }
        let directories = self.environment.logs.directories();
        if !assignment.is_new && directories.iter().any(|directory| directory.is_offline()) {
            // Its log may be in the directory that is offline.
            return Err(HostError::Log(LogError::Offline));
        }
        if assignment.is_lost {
            return Err(HostError::LogIsGone);
        }
        let config = Arc::clone(&topic.settings.load().log);
        let preferred = self.preferred.lock().remove(&partition);
        let directory = preferred.filter(|directory| !directory.is_offline());
        Ok(Missing::New(NewLog { partition, topic_id: topic.id(), config, directory }))
    }

    /// Goes on with a move of the partition that the last stop interrupted.
    fn resume_move(&self, partition: &Arc<Partition>) {
        let copy = {
            let mut copies = self.copies.lock();
            if copies.is_empty() {
                return;
            }
            copies.remove(&partition.topic_partition())
        };
        let now = self.environment.clock.timestamp();
        let copy = copy.and_then(|copy| reopen(copy, &partition.topic.settings.load(), now));
        let Some(copy) = copy else { return };
        let ids = copy.topic_id().zip(partition.topic.id());
        if ids.is_none_or(|(its, ours)| its == ours) {
            self.environment.mover.ask(partition.resume_move(copy));
            return;
        }
        info!(%partition, "the copy of a deleted topic's log is deleted");
        let now = self.environment.clock.now();
        if let Err(error) = self.environment.logs.delete(copy, Duration::ZERO, now) {
            info!(%partition, %error, "the copy cannot be deleted");
        }
    }

    /// A log that does not exist yet is to be created in `directory`.
    pub(crate) fn prefer(&self, partition: TopicPartition, directory: Arc<LogDirectory>) {
        let mut preferred = self.preferred.lock();
        // A client may ask for what will never exist.
        if preferred.len() < MOST_PREFERENCES {
            preferred.insert(partition, directory);
        }
    }

    /// The copies of moves under way, with their sizes.
    pub(crate) fn copies(&self) -> Vec<(TopicPartition, ReplicaSize)> {
        let copy = |partition: Arc<Partition>| {
            Some((partition.topic_partition(), partition.move_progress()?))
        };
        self.all().into_iter().filter_map(copy).collect()
    }

    /// Ends this broker's part in a partition. With `delete` its log is deleted, also if it was never
    /// claimed, and then its files go after so long; else the log stays where it is.
    ///
    /// # Errors
    /// [`LogError`]: the partition is stopped all the same.
    pub(crate) fn stop(
        &self,
        topic: &str,
        index: i32,
        delete: Option<Duration>,
    ) -> Result<(), LogError> {
        let mut unclaimed = self.unclaimed.lock();
        let known = self.by_name.shard(topic).load().get(topic).cloned();
        let partition = known.as_ref().and_then(|known| known.partition(index));
        let name = TopicPartition::new(topic, index);
        let log = match (partition, &known) {
            (Some(partition), Some(known)) => {
                let mut partitions = known.partitions.clone();
                partitions.retain(|other| other.index != index);
                let topic = Arc::clone(&known.topic);
                self.set(&topic.name.clone(), topic.id(), Hosted { topic, partitions });
                partition.stop()
            }
            _ => unclaimed.remove(&name).map(OpenOrClosed::Closed),
        };
        if delete.is_some() {
            self.environment.logs.forget_missing(&name);
        }
        let (Some(log), logs) = (log, &self.environment.logs) else { return Ok(()) };
        let now = self.environment.clock.now();
        match log {
            OpenOrClosed::Open(log) if delete.is_some() => {
                let delay = log.config().file_delete_delay_ms;
                logs.delete(*log, delay, now)?;
            }
            OpenOrClosed::Open(log) => {
                // It is there also if its directory has failed: nobody may take it for new.
                let (log, outcome) = match log.close() {
                    Ok(log) => (log, Ok(())),
                    Err((log, error)) => (log, Err(error)),
                };
                unclaimed.insert(name, log);
                return outcome;
            }
            OpenOrClosed::Closed(log) => {
                let Some(unclaimed_delay) = delete else {
                    unclaimed.insert(name, log);
                    return Ok(());
                };
                let delay = partition.map_or(unclaimed_delay, |partition| {
                    partition.topic.settings.load().log.file_delete_delay_ms
                });
                logs.delete_closed(log, delay, now)?;
            }
        }
        info!(topic, partition = index, "deleted");
        Ok(())
    }

    /// Other brokers came or went: leaders go by that when they let followers into their ISR.
    pub(crate) fn brokers_changed(&self, before: &ClusterImage, now: &ClusterImage) {
        let ids = |image: &ClusterImage| -> BTreeSet<BrokerId> {
            image.brokers().map(|broker| broker.id).collect()
        };
        let (before, now) = (ids(before), ids(now));
        let changed: Vec<_> = before.symmetric_difference(&now).copied().collect();
        if changed.is_empty() {
            return;
        }
        for partition in self.all() {
            for &broker in &changed {
                partition.liveness_changed(broker, now.contains(&broker));
            }
        }
    }

    /// The settings of `topic` are now these.
    pub(crate) fn set_settings(&self, topic: &str, settings: &PartitionSettings) {
        let known = self.by_name.shard(topic).load().get(topic).cloned();
        if let Some(known) = known {
            known.topic.settings.store(Arc::new(settings.clone()));
            known.partitions.iter().for_each(|partition| partition.settings_changed());
        }
    }

    /// The topics with partitions here.
    pub(crate) fn topics(&self) -> Vec<TopicName> {
        let mut names: Vec<_> = Vec::new();
        for shard in &self.by_name.0 {
            names.extend(shard.load().keys().cloned());
        }
        names.sort_unstable();
        names
    }

    /// Every log on this broker with its size, by partition; those that nobody claimed too.
    pub(crate) fn sizes(&self) -> Vec<(TopicPartition, ReplicaSize)> {
        let mut sizes: Vec<_> = self
            .all()
            .into_iter()
            .filter_map(|partition| Some((partition.topic_partition(), partition.replica_size()?)))
            .collect();
        for (name, log) in &*self.unclaimed.lock() {
            match log.size_bytes() {
                Ok(bytes) => {
                    let directory = log.directory().path().to_owned();
                    sizes.push((name.clone(), ReplicaSize { directory, bytes, offset_lag: 0 }));
                }
                Err(error) => warn!(partition = %name, %error, "the size cannot be told"),
            }
        }
        sizes
    }

    /// Closes every log, for a clean stop. Whether all were closed cleanly.
    pub(crate) fn close(&self) -> bool {
        let mut is_clean = true;
        for partition in self.all() {
            if let Err(error) = partition.close() {
                warn!(%partition, %error, "the log is not closed cleanly");
                is_clean = false;
            }
        }
        self.by_name.clear();
        self.by_id.clear();
        self.unclaimed.lock().clear();
        self.copies.lock().clear();
        is_clean
    }

    /// Forgets whoever waits for a partition; nobody is answered.
    pub(crate) fn abandon(&self) {
        self.all().iter().for_each(|partition| partition.abandon());
    }

    fn set(&self, name: &TopicName, id: Option<TopicId>, hosted: Hosted) {
        let hosted = Arc::new(hosted);
        self.by_name.set(name, &hosted);
        if let Some(id) = id.or(hosted.topic.id()) {
            self.by_id.set(&id, &hosted);
        }
    }
}

impl Hosted {
    fn partition(&self, index: i32) -> Option<&Arc<Partition>> {
        // Nearly always every partition of a topic from 0 on is here.
        match self.partitions.get(usize::try_from(index).ok()?) {
            Some(partition) if partition.index == index => Some(partition),
            _ => {
                let at = self.partitions.binary_search_by_key(&index, |other| other.index).ok()?;
                self.partitions.get(at)
            }
        }
    }
}

impl<K> Default for Shards<K> {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| ArcSwap::from_pointee(HashMap::new())).collect())
    }
}

impl<K: Eq + Hash + Clone> Shards<K> {
    fn shard<Q: ShardHash + ?Sized>(&self, key: &Q) -> &ArcSwap<Shard<K>> {
        &self.0[key.shard()]
    }

    fn set(&self, key: &K, hosted: &Arc<Hosted>)
    where
        K: ShardHash,
    {
        let shard = self.shard(key);
        let mut next = Shard::clone(&shard.load());
        if hosted.partitions.is_empty() {
            next.remove(key);
        } else {
            next.insert(key.clone(), Arc::clone(hosted));
        }
        shard.store(Arc::new(next));
    }

    fn clear(&self) {
        self.0.iter().for_each(|shard| shard.store(Arc::default()));
    }
}

/// Which shard a key lives in; the same for its borrowed form.
trait ShardHash {
    fn shard(&self) -> usize;
}

impl ShardHash for str {
    fn shard(&self) -> usize {
        fnv1a(self.as_bytes())
    }
}

impl ShardHash for TopicName {
    fn shard(&self) -> usize {
        fnv1a(self.as_bytes())
    }
}

impl ShardHash for TopicId {
    fn shard(&self) -> usize {
        fnv1a(&self.0)
    }
}

fn fnv1a(bytes: &[u8]) -> usize {
    let hash = bytes
        .iter()
        .fold(0x811c_9dc5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash ^ hash >> 16) as usize % SHARDS
}
