//! The threads that compact logs: each takes the log with the largest dirty share of those that are due,
//! compacts it, and looks again; when nothing is due it sleeps for `log.cleaner.backoff.ms`.
//!
//! The first thread always runs and sees to it that there are as many others as `log.cleaner.threads`
//! says, which may change at any time.

use crate::Broker;
use crate::config::CleanerSettings;
use crate::partition::Partition;
use crate::server::Spawn;
use model::Instant;
use parking_lot::{Condvar, Mutex};
use platform::Clock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use storage::{CleaningBuffers, Interrupted, Pace};
use tracing::warn;

/// The cleaners of one broker.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cleaners {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    signals: Arc<Signals>,
    throttle: Throttle,
    /// Held while a log is chosen, so that no two threads choose the same.
    choosing: Mutex<()>,
    /// All but the first, by number.
    threads: Mutex<BTreeMap<usize, JoinHandle<()>>>,
}

/// What cleaners wait for.
#[derive(Debug, Default)]
struct Signals {
    state: Mutex<SignalState>,
    news: Condvar,
}

#[derive(Debug, Default)]
struct SignalState {
    is_stopping: bool,
    /// Counts the changes of settings.
    settings: u64,
}

/// Lets a compaction under way be called off.
#[derive(Debug, Default)]
pub(crate) struct CleaningControl {
    is_called_off: AtomicBool,
    signals: Arc<Signals>,
}

impl CleaningControl {
    /// Lets it end as soon as it can.
    pub(crate) fn call_off(&self) {
        self.is_called_off.store(true, Ordering::SeqCst);
        self.signals.wake();
    }

    /// Whether it was called off.
    pub(crate) fn is_called_off(&self) -> bool {
        self.is_called_off.load(Ordering::SeqCst)
    }
}

impl Signals {
    /// Under the lock, or a thread may miss it between its look and its sleep.
    fn wake(&self) {
        drop(self.state.lock());
        self.news.notify_all();
    }

    /// Waits until `due`, or until `is_over`. Whether to stop.
    fn wait(
        &self,
        clock: &dyn Clock,
        due: Instant,
        is_over: impl Fn(&SignalState) -> bool,
    ) -> bool {
        let mut state = self.state.lock();
        while !state.is_stopping && !is_over(&state) {
            let left = due.since(clock.now());
            if left.is_zero() {
                break;
            }
            self.news.wait_for(&mut state, left);
        }
        state.is_stopping
    }
}

/// Spreads the bytes of all cleaners over time.
#[derive(Debug, Default)]
struct Throttle {
    /// When everything that was let through so far may have happened.
    free_at: Mutex<Instant>,
}

/// More than what passes in this time is never saved up.
const MOST_WAIT: Duration = Duration::from_secs(60 * 60);

impl Throttle {
    /// Lets `bytes` through; what they take at `rate` bytes per second must have passed before the next.
    fn pass(&self, bytes: u64, rate: f64, now: Instant) -> Instant {
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        let seconds = bytes as f64 / rate;
        let span = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO).min(MOST_WAIT);
        let mut free_at = self.free_at.lock();
        *free_at = (*free_at).max(now) + span;
        *free_at
    }
}

struct Paced<'a> {
    shared: &'a Shared,
    control: &'a CleaningControl,
    broker: &'a Broker,
}

impl Pace for Paced<'_> {
    fn moved(&mut self, bytes: u64) -> Result<(), Interrupted> {
        let clock = self.broker.clock.as_ref();
        // Asked each time: the rate may be changed because a compaction under way disturbs.
        let rate = self.broker.config.load().log.cleaner.io_max_bytes_per_second;
        let now = clock.now();
        let due = match rate.is_finite() && rate > 0.0 {
            true => self.shared.throttle.pass(bytes, rate, now),
            false => now,
        };
        let is_stopping = self.shared.signals.wait(clock, due, |_| self.control.is_called_off());
        if is_stopping || self.control.is_called_off() { Err(Interrupted) } else { Ok(()) }
    }
}

impl Cleaners {
    /// Compacts until [`Cleaners::stop`]; the first thread's main function. `spawn` starts a thread.
    pub(crate) fn run(&self, broker: &Arc<Broker>, spawn: Spawn) {
        loop {
            self.see_to_threads(broker, spawn);
            if self.work(broker, 0) {
                break;
            }
        }
        let threads = std::mem::take(&mut *self.shared.threads.lock());
        for (_, thread) in threads {
            thread.join().expect("a panic would have ended the process");
        }
    }

    /// Starts the threads that are missing and forgets those that have ended.
    fn see_to_threads(&self, broker: &Arc<Broker>, spawn: Spawn) {
        let wanted = broker.config.load().log.cleaner.threads;
        let mut threads = self.shared.threads.lock();
        threads.retain(|_, thread| !thread.is_finished());
        for number in 1..wanted {
            if threads.contains_key(&number) {
                continue;
            }
            let (this, broker) = (self.clone(), Arc::clone(broker));
            let run = move || {
                while number < broker.config.load().log.cleaner.threads {
                    if this.work(&broker, number) {
                        return;
                    }
                }
            };
            match spawn(&format!("cleaner-{number}"), Box::new(run)) {
                Ok(thread) => drop(threads.insert(number, thread)),
                Err(error) => {
                    warn!(%error, "a thread for compaction cannot be started");
                    return;
                }
            }
        }
    }

    /// Compacts a log if one is due; when to look again. For simulation.
    pub(crate) fn clean_once(&self, broker: &Broker) -> Instant {
        let settings = broker.config.load().log.cleaner.clone();
        let is_at_work = self.clean_dirtiest(broker, &settings);
        let now = broker.clock.now();
        if is_at_work { now } else { now + settings.backoff }
    }

    /// Compacts a log, or waits for one to be due. Whether to stop.
    fn work(&self, broker: &Arc<Broker>, number: usize) -> bool {
        let seen = self.shared.signals.state.lock().settings;
        let settings = broker.config.load().log.cleaner.clone();
        let now = broker.clock.now();
        let is_at_work = number < settings.threads && self.clean_dirtiest(broker, &settings);
        let due = if is_at_work { now } else { now + settings.backoff };
        let is_changed = |state: &SignalState| state.settings != seen;
        self.shared.signals.wait(broker.clock.as_ref(), due, is_changed)
    }

    /// Compacts the dirtiest log that is due; then removes what is too old from compacted logs. Whether
    /// there was one.
    fn clean_dirtiest(&self, broker: &Broker, settings: &CleanerSettings) -> bool {
        let control = Arc::new(CleaningControl {
            is_called_off: AtomicBool::new(false),
            signals: Arc::clone(&self.shared.signals),
        });
        let compacted = compacted(broker);
        let chosen = {
            let _choosing = self.shared.choosing.lock();
            self.dirtiest(broker, &compacted)
                .filter(|partition| partition.reserve_cleaning(&control, broker.clock.timestamp()))
        };
        let was_cleaned = chosen.is_some_and(|partition| {
            let mut pace = Paced { shared: &self.shared, control: &control, broker };
            partition.clean(buffers(settings), broker.random.next_u64(), &mut pace)
        });
        let now = broker.clock.timestamp();
        for partition in compacted {
            if self.is_stopping() {
                break;
            }
            partition.apply_retention(now);
        }
        was_cleaned
    }

    fn dirtiest(&self, broker: &Broker, among: &[Arc<Partition>]) -> Option<Arc<Partition>> {
        let now = broker.clock.timestamp();
        let due = among.iter().take_while(|_| !self.is_stopping());
        let due = due.filter_map(|partition| Some((partition.cleaning_due(now)?, partition)));
        let ratio = |due: &(storage::CleaningState, &Arc<Partition>)| due.0.dirty_ratio();
        due.max_by(|a, b| ratio(a).total_cmp(&ratio(b))).map(|(_, partition)| Arc::clone(partition))
    }

    /// The settings are others now.
    pub(crate) fn settings_changed(&self) {
        self.shared.signals.state.lock().settings += 1;
        self.shared.signals.news.notify_all();
    }

    fn is_stopping(&self) -> bool {
        self.shared.signals.state.lock().is_stopping
    }

    /// Interrupts what is going on and lets the threads return.
    pub(crate) fn stop(&self) {
        self.shared.signals.state.lock().is_stopping = true;
        self.shared.signals.news.notify_all();
    }
}

fn compacted(broker: &Broker) -> Vec<Arc<Partition>> {
    let mut partitions = broker.partitions.all();
    partitions.retain(|partition| partition.is_compacted());
    partitions
}

/// A thread's share of the memory; half of what it reads and writes with is for reading.
fn buffers(settings: &CleanerSettings) -> CleaningBuffers {
    let threads = settings.threads.max(1);
    CleaningBuffers {
        // Kafka takes no more per thread either.
        dedupe_bytes: (settings.dedupe_buffer_bytes / threads as u64).min(i32::MAX as u64),
        dedupe_load_factor: settings.dedupe_buffer_load_factor,
        io_bytes: settings.io_buffer_bytes / threads / 2,
    }
}

#[test]
fn bytes_are_spread_over_time() {
    let throttle = Throttle::default();
    let at = |seconds: f64| Instant(Duration::from_secs_f64(seconds));
    assert_eq!(throttle.pass(500, 1000.0, at(10.0)), at(10.5));
    assert_eq!(throttle.pass(500, 1000.0, at(10.0)), at(11.0), "of another thread");
    assert_eq!(throttle.pass(500, 1000.0, at(20.0)), at(20.5), "nothing is saved up");
    assert_eq!(throttle.pass(500, f64::MIN_POSITIVE, at(20.0)), at(20.5), "no rate at all");
}
