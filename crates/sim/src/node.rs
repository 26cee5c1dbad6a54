//! One broker's machine: its disk, its clock, and the process on it, if one runs.

use crate::network::{HostId, Network, PORT};
use crate::plan::Plan;
use crate::scheduler::{ProcessId, Scheduler, VirtualClock};
use crate::store::StoreServer;
use broker::config::BrokerConfig;
use broker::server::Environment;
use broker::stepped::SteppedBroker;
use parking_lot::Mutex;
use platform::disk::WriteFault;
use platform::random::SeededRandom;
use platform::{MemoryDisk, Random, Tasks};
use std::sync::Arc;
use std::time::Duration;

/// Where brokers keep their logs.
const DATA: &str = "/data";

/// How long a stop may take.
const STOP_WITHIN: Duration = Duration::from_secs(20);

/// Where a process comes to.
#[derive(Debug, Default)]
pub struct Slot {
    broker: Mutex<Option<Arc<SteppedBroker>>>,
    /// Why the process has ended by itself.
    ended: Mutex<Option<String>>,
}

/// What a machine does.
#[derive(Clone, Debug)]
pub enum Running {
    /// No process runs on it.
    Nothing,
    /// One runs.
    Process {
        /// Which.
        id: ProcessId,
        /// Where it comes to.
        slot: Arc<Slot>,
        /// Whether it is frozen.
        is_paused: bool,
    },
}

/// A broker's machine.
#[derive(Debug)]
pub struct Node {
    /// The machine; its number is the broker's id.
    pub host: HostId,
    /// What runs on it.
    pub running: Running,
    /// Its clock.
    pub clock: Arc<VirtualClock>,
    disk: MemoryDisk,
    /// How long writes take at most, while the disk is slow, and how many there were when that was last looked at.
    slow: Option<(Duration, u64)>,
    /// Whether the disk has failed since the process started: its directory may be offline until it is started again.
    has_failed_disk: bool,
    /// Whether it fails now.
    fails: bool,
    random: SeededRandom,
    starts: u64,
}

/// What all machines share.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// Time and tasks.
    pub scheduler: Scheduler,
    /// The way to each other.
    pub network: Network,
    /// The store.
    pub store: StoreServer,
    /// What the run is like.
    pub plan: Arc<Plan>,
}

impl Node {
    /// A machine with an empty disk.
    #[must_use]
    pub fn new(host: HostId, surroundings: &Surroundings) -> Self {
        Self {
            host,
            running: Running::Nothing,
            clock: surroundings.scheduler.clock(),
            disk: MemoryDisk::new(),
            slow: None,
            has_failed_disk: false,
            fails: false,
            random: SeededRandom::new(surroundings.plan.seed ^ 0x6469_736b ^ u64::from(host.0)),
            starts: 0,
        }
    }

    /// The broker's id.
    #[must_use]
    pub fn id(&self) -> i32 {
        i32::from(self.host.0)
    }

    /// The broker, once it has joined its cluster.
    #[must_use]
    pub fn broker(&self) -> Option<Arc<SteppedBroker>> {
        match &self.running {
            Running::Process { slot, .. } => slot.broker.lock().clone(),
            Running::Nothing => None,
        }
    }

    /// The process, if one runs.
    #[must_use]
    pub fn process(&self) -> Option<ProcessId> {
        match &self.running {
            Running::Process { id, .. } => Some(*id),
            Running::Nothing => None,
        }
    }

    /// Whether its process is frozen.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        matches!(self.running, Running::Process { is_paused: true, .. })
    }

    /// Why its process has ended by itself, if it has.
    #[must_use]
    pub fn has_ended(&self) -> Option<String> {
        match &self.running {
            Running::Process { slot, .. } => slot.ended.lock().clone(),
            Running::Nothing => None,
        }
    }

    /// Starts a process.
    pub fn start(&mut self, surroundings: &Surroundings) {
        assert!(self.process().is_none(), "one at a time");
        self.starts += 1;
        self.has_failed_disk = false;
        let Surroundings { scheduler, network, store, plan } = surroundings;
        let id = scheduler.process();
        let slot = Arc::new(Slot::default());
        self.running = Running::Process { id, slot: Arc::clone(&slot), is_paused: false };
        let config = config(plan, self.host);
        let random = plan.seed ^ (u64::from(self.host.0) << 56) ^ (self.starts << 40);
        let environment = Environment {
            clock: Arc::clone(&self.clock) as _,
            random: Arc::new(SeededRandom::new(random)),
            disk: Arc::new(self.disk.clone()),
            network: network.at(self.host),
        };
        let store = store.client(self.host, Arc::clone(&self.clock));
        let tasks = Tasks::Virtual(scheduler.tasks_of(id));
        let (network, host) = (network.clone(), self.host);
        scheduler.spawn(id, async move {
            match SteppedBroker::start(config, environment, store, tasks).await {
                Ok(broker) => {
                    let (broker, failure) = (Arc::new(broker), slot.clone());
                    let failed = broker.failure();
                    *slot.broker.lock() = Some(Arc::clone(&broker));
                    network.listen(host, move |stream, peer| broker.accept(stream, peer));
                    failed.wait().await;
                    *failure.ended.lock() = Some("the broker has failed".to_owned());
                }
                Err(error) => *slot.ended.lock() = Some(error.to_string()),
            }
        });
    }

    /// Begins a stop as by SIGTERM; [`Self::has_ended`] when it is done.
    pub fn begin_stop(&self, scheduler: &Scheduler) {
        let Running::Process { id, slot, .. } = &self.running else { return };
        let Some(broker) = slot.broker.lock().clone() else { return };
        let slot = Arc::clone(slot);
        scheduler.spawn(*id, async move {
            broker.stop(STOP_WITHIN).await;
            *slot.ended.lock() = Some("stopped".to_owned());
        });
    }

    /// Ends the process where it stands; what it wrote stays.
    pub fn kill(&mut self, surroundings: &Surroundings) {
        surroundings.network.process_ended(self.host);
        self.end_process(&surroundings.scheduler);
        // The old process has the old disk: whatever is left of it changes nothing.
        self.disk = self.disk.copy();
        self.fails = false;
    }

    /// The machine loses power: a part of what was not synced is gone.
    pub fn lose_power(&mut self, surroundings: &Surroundings, seed: u64) {
        surroundings.network.power_off(self.host);
        self.end_process(&surroundings.scheduler);
        self.disk = self.disk.crash(seed);
        self.fails = false;
    }

    fn end_process(&mut self, scheduler: &Scheduler) {
        let running = std::mem::replace(&mut self.running, Running::Nothing);
        let Running::Process { id, slot, .. } = running else { return };
        scheduler.kill(id);
        if let Some(broker) = slot.broker.lock().take()
            && let Some(broker) = Arc::into_inner(broker)
        {
            broker.abandon();
        }
    }

    /// The disk has room for `bytes` more.
    pub fn fill_disk(&self, bytes: u64) {
        self.disk.set_capacity(Some(self.disk.used() + bytes));
    }

    /// Nothing works that is asked of the disk.
    pub fn fail_disk(&mut self) {
        (self.has_failed_disk, self.fails) = (true, true);
        self.disk.set_failing(DATA, true);
    }

    /// These of the next writes go wrong.
    pub fn fail_writes(&mut self, writes: &[(u64, WriteFault)]) {
        self.has_failed_disk = true;
        writes.iter().for_each(|(nth, fault)| self.disk.fail_write(*nth, *fault));
    }

    /// Whoever watches sees what is on the disk even while that fails.
    pub fn look_inside<T>(&self, look: impl FnOnce() -> T) -> T {
        if self.fails {
            self.disk.set_failing(DATA, false);
        }
        let seen = look();
        if self.fails {
            self.disk.set_failing(DATA, true);
        }
        seen
    }

    /// Whether somebody has to start the process again, now that the disk is as it should be.
    #[must_use]
    pub fn needs_restart(&self) -> bool {
        self.has_failed_disk && self.process().is_some()
    }

    /// From now on writes take up to so long, or no time.
    pub fn slow_disk(&mut self, most: Option<Duration>) {
        self.slow = most.map(|most| (most, self.disk.changes()));
    }

    /// The disk is as it should be.
    pub fn mend_disk(&mut self) {
        self.disk.set_capacity(None);
        self.disk.set_failing(DATA, false);
        self.fails = false;
        self.slow = None;
    }

    /// After a step: if its disk is slow and has written, the process stands still for as long as that takes.
    pub fn wait_for_disk(&mut self, scheduler: &Scheduler) {
        let Some((most, seen)) = &mut self.slow else { return };
        let changes = self.disk.changes();
        let Running::Process { id, is_paused: false, .. } = self.running else { return };
        if std::mem::replace(seen, changes) == changes {
            return;
        }
        let millis = self.random.below(u64::try_from(most.as_millis()).unwrap_or(u64::MAX) + 1);
        scheduler.stall(id, Duration::from_millis(millis));
    }

    /// Freezes the process.
    pub fn pause(&mut self, scheduler: &Scheduler) {
        if let Running::Process { id, is_paused, .. } = &mut self.running {
            *is_paused = true;
            scheduler.pause(*id);
        }
    }

    /// Lets it go on.
    pub fn resume(&mut self, scheduler: &Scheduler) {
        if let Running::Process { id, is_paused, .. } = &mut self.running {
            *is_paused = false;
            scheduler.resume(*id);
        }
    }
}

fn config(plan: &Plan, host: HostId) -> BrokerConfig {
    let millis = |span: Duration| span.as_millis().to_string();
    let mut settings = vec![
        ("listeners", format!("PLAINTEXT://{}:{PORT}", host.ip())),
        ("broker.id", host.0.to_string()),
        ("log.dirs", DATA.to_owned()),
        ("barnabas.reactors", "2".to_owned()),
        ("barnabas.disk.reserve.bytes", "0".to_owned()),
        ("barnabas.fast.failure.detection", plan.fast_detection.to_string()),
        ("log.segment.bytes", plan.segment_bytes.to_string()),
        ("min.insync.replicas", plan.min_insync.to_string()),
        ("replica.lag.time.max.ms", millis(plan.lag_max)),
        ("replica.socket.timeout.ms", "5000".to_owned()),
        ("replica.fetch.wait.max.ms", "500".to_owned()),
        ("controller.socket.timeout.ms", "5000".to_owned()),
        ("request.timeout.ms", "5000".to_owned()),
        ("offsets.topic.num.partitions", plan.offsets_partitions.to_string()),
        ("offsets.topic.replication.factor", plan.replicas.to_string()),
        ("offsets.topic.segment.bytes", plan.segment_bytes.to_string()),
        ("offsets.load.buffer.size", plan.load_bytes.to_string()),
        ("group.initial.rebalance.delay.ms", "0".to_owned()),
        ("group.min.session.timeout.ms", "1000".to_owned()),
        ("log.retention.ms", "-1".to_owned()),
        ("unclean.leader.election.enable", "false".to_owned()),
        ("auto.create.topics.enable", "false".to_owned()),
        ("controlled.shutdown.retry.backoff.ms", "1000".to_owned()),
        ("barnabas.unclean.restart.wait.ms", "10000".to_owned()),
    ];
    match plan.rebalance_every {
        Some(seconds) => settings.extend([
            ("leader.imbalance.check.interval.seconds", seconds.to_string()),
            ("leader.imbalance.per.broker.percentage", "0".to_owned()),
        ]),
        None => settings.push(("auto.leader.rebalance.enable", "false".to_owned())),
    }
    if plan.flushes {
        settings.push(("log.flush.interval.messages", "1".to_owned()));
    }
    let settings: Vec<_> =
        settings.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    BrokerConfig::load(None, &settings).expect("a configuration that brokers accept").config
}
