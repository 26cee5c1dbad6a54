//! All fetchers of this broker: who fetches what.

use super::socket_link::SocketLink;
use super::thread::{Bell, Fetcher, Mailbox, Message};
use super::virtual_link::VirtualLink;
use crate::config::ReplicationSettings;
use crate::partition::Partition;
use crate::replication_throttle::ReplicationThrottle;
use arc_swap::ArcSwap;
use metadata::ClusterImage;
use model::{BrokerId, LeaderEpoch, TopicName};
use parking_lot::Mutex;
use platform::tasks::{self, Task};
use platform::{Clock, Network};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use tracing::error;

/// What fetchers go by.
#[derive(Debug)]
pub(crate) struct FetcherSettings {
    /// This broker.
    pub(crate) broker_id: BrokerId,
    /// Its registration; -1 while it has none.
    pub(crate) broker_epoch: Arc<AtomicI64>,
    /// Where the other brokers are.
    pub(crate) image: Arc<ArcSwap<ClusterImage>>,
    /// The listener that brokers use among themselves.
    pub(crate) listener: String,
    /// `replica.*` and `num.replica.fetchers`.
    pub(crate) replication: ReplicationSettings,
    /// Bounds what throttled replicas fetch.
    pub(crate) throttle: Arc<ReplicationThrottle>,
    /// Time.
    pub(crate) clock: Arc<dyn Clock>,
    /// Connections to them.
    pub(crate) network: Network,
}

/// Where a broker listens.
#[derive(Debug)]
pub(super) struct Address {
    pub(super) host: String,
    pub(super) port: u16,
}

impl FetcherSettings {
    /// Where `broker` listens to other brokers, if it is registered.
    pub(super) fn address_of(&self, broker: BrokerId) -> Option<Address> {
        let image = self.image.load();
        let endpoint = image.broker(broker)?.endpoint(&self.listener)?;
        let port = u16::try_from(endpoint.port).ok()?;
        Some(Address { host: endpoint.host.clone(), port })
    }
}

/// All fetchers. Threads come with the first partition of a source broker and go with its last.
#[derive(Debug)]
pub(crate) struct ReplicaFetchers {
    settings: Arc<FetcherSettings>,
    /// `num.replica.fetchers`
    count: AtomicUsize,
    state: Mutex<State>,
}

type Key = (BrokerId, usize);

#[derive(Debug, Default)]
struct State {
    fetchers: BTreeMap<Key, Running>,
    /// Which fetcher has a partition.
    places: HashMap<(TopicName, i32), Key>,
    /// Threads that were told to end.
    ending: Vec<Worker>,
    stopped: bool,
}

#[derive(Debug)]
struct Running {
    mailbox: Arc<Mailbox>,
    worker: Worker,
    partitions: usize,
}

/// What runs a fetcher.
#[derive(Debug)]
enum Worker {
    /// A thread.
    Thread(JoinHandle<()>),
    /// A task of a simulator.
    Task(Task),
}

impl Worker {
    fn is_finished(&self) -> bool {
        match self {
            Self::Thread(thread) => thread.is_finished(),
            // It has read its mailbox, or will; nobody has to wait.
            Self::Task(_) => true,
        }
    }

    fn join(self) {
        match self {
            Self::Thread(thread) => thread.join().expect("a panic would have ended the process"),
            Self::Task(task) => task.abort(),
        }
    }
}

impl ReplicaFetchers {
    /// None yet.
    pub(crate) fn new(settings: FetcherSettings) -> Self {
        let count = AtomicUsize::new(settings.replication.fetchers);
        Self { settings: Arc::new(settings), count, state: Mutex::default() }
    }

    /// From here on there are up to `count` fetchers per source broker. Partitions stay where they are
    /// until they are to be followed anew.
    pub(crate) fn set_count(&self, count: usize) {
        self.count.store(count, Ordering::Relaxed);
    }

    /// This broker's registration, for whoever learns it.
    pub(crate) fn broker_epoch(&self) -> &Arc<AtomicI64> {
        &self.settings.broker_epoch
    }

    /// This broker's registration; -1 while it has none.
    pub(crate) fn current_broker_epoch(&self) -> i64 {
        self.settings.broker_epoch.load(Ordering::Relaxed)
    }

    /// Fetches `partition` from `leader`, in `epoch`, from here on and from nobody else. No partition's
    /// lock may be held.
    pub(crate) fn follow(&self, partition: &Arc<Partition>, leader: BrokerId, epoch: LeaderEpoch) {
        let mut state = self.state.lock();
        if state.stopped {
            return;
        }
        let count = self.count.load(Ordering::Relaxed).max(1);
        let key = (leader, fetcher_of(&partition.topic.name, partition.index, count));
        let place = (partition.topic.name.clone(), partition.index);
        if state.places.get(&place) != Some(&key) {
            state.leave(&place, partition);
        }
        let running = match state.fetchers.get_mut(&key) {
            Some(running) => running,
            None => match self.start(key) {
                Ok(running) => state.fetchers.entry(key).or_insert(running),
                Err(failure) => {
                    error!(%partition, %failure, "nobody fetches: the system refuses a thread");
                    return;
                }
            },
        };
        running.mailbox.send(Message::Follow(Arc::clone(partition), epoch));
        if state.places.insert(place, key).is_none()
            && let Some(running) = state.fetchers.get_mut(&key)
        {
            running.partitions += 1;
        }
    }

    /// Fetches `partition` no more. What is being appended may still be.
    pub(crate) fn leave(&self, partition: &Arc<Partition>) {
        let place = (partition.topic.name.clone(), partition.index);
        self.state.lock().leave(&place, partition);
    }

    /// Whoever fetches the partition, if anybody does, is to mend its log. Cheap; a partition's lock may be held.
    pub(crate) fn mend(&self, topic: &TopicName, index: i32) {
        let place = (topic.clone(), index);
        let state = self.state.lock();
        let running = state.places.get(&place).and_then(|key| state.fetchers.get(key));
        if let Some(running) = running {
            running.mailbox.send(Message::Mend(place.0, index));
        }
    }

    /// Whether any fetcher has a connection to `leader`.
    pub(crate) fn are_connected_to(&self, leader: BrokerId) -> bool {
        let state = self.state.lock();
        let mut fetchers = state.fetchers.range((leader, 0)..=(leader, usize::MAX));
        fetchers.any(|(_, running)| running.mailbox.is_connected())
    }

    /// Ends all threads; nothing is appended when this returns.
    pub(crate) fn stop(&self) {
        let threads = {
            let mut state = self.state.lock();
            state.stopped = true;
            state.places.clear();
            let fetchers = std::mem::take(&mut state.fetchers);
            let mut threads = std::mem::take(&mut state.ending);
            for running in fetchers.into_values() {
                running.mailbox.stop();
                threads.push(running.worker);
            }
            threads
        };
        threads.into_iter().for_each(Worker::join);
    }

    fn start(&self, (leader, index): Key) -> std::io::Result<Running> {
        let settings = Arc::clone(&self.settings);
        let (mailbox, worker) = match &self.settings.network {
            Network::System => {
                let (link, waker) = SocketLink::new()?;
                let mailbox = Arc::new(Mailbox::new(Bell::Thread(waker)));
                let fetcher = Fetcher::new(settings, leader, index, Arc::clone(&mailbox), link);
                let name = format!("fetcher-{leader}-{index}");
                let thread = crate::server::spawn(&name, move || fetcher.run_on_thread())?;
                (mailbox, Worker::Thread(thread))
            }
            Network::Virtual(network) => {
                let (link, news) = VirtualLink::new(Arc::clone(network));
                let mailbox = Arc::new(Mailbox::new(Bell::Task(news)));
                let fetcher = Fetcher::new(settings, leader, index, Arc::clone(&mailbox), link);
                (mailbox, Worker::Task(tasks::spawn(fetcher.run())))
            }
        };
        Ok(Running { mailbox, worker, partitions: 0 })
    }
}

impl State {
    fn leave(&mut self, place: &(TopicName, i32), partition: &Arc<Partition>) {
        let Some(key) = self.places.remove(place) else { return };
        let Some(running) = self.fetchers.get_mut(&key) else { return };
        running.mailbox.send(Message::Leave(Arc::clone(partition)));
        running.partitions -= 1;
        if running.partitions > 0 {
            return;
        }
        if let Some(idle) = self.fetchers.remove(&key) {
            idle.mailbox.stop();
            self.ending.push(idle.worker);
        }
        self.ending.retain(|thread| !thread.is_finished());
    }
}

/// Kafka's choice, by Java's hash of the topic. It shows nowhere, but spreads partitions well enough.
fn fetcher_of(topic: &str, index: i32, count: usize) -> usize {
    let hash = topic
        .encode_utf16()
        .fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    let hash = hash.wrapping_mul(31).wrapping_add(index).unsigned_abs() as usize;
    hash % count
}

#[test]
fn partitions_spread_over_all_fetchers() {
    let mut counts = [0; 4];
    (0..400).for_each(|index| counts[fetcher_of("orders", index, 4)] += 1);
    assert_eq!(counts, [100; 4]);
    assert_eq!(fetcher_of("orders", 7, 1), 0);
}
