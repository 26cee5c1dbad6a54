//! The thread that tidies up: checkpoints, retention, deletion in small steps, producers that have
//! gone, what idle logs hold, followers that lag, flushes that are due by time.

use crate::Broker;
use crate::log_troubles;
use model::Instant;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::Duration;

/// How often deletion is looked after; one look costs nothing while nothing was deleted.
const DELETION_INTERVAL: Duration = Duration::from_secs(1);
/// Freeing goes on for so long at a time, and pauses for [`DELETION_PAUSES`] times as long as it took: the kernel's part
/// of it, tens of milliseconds for a large segment, is a disk's and a core's time that appends wait for.
const DELETION_SLICE: Duration = Duration::from_millis(2);
const DELETION_PAUSES: u32 = 4;
/// How often logs that failed are looked after; one look costs nothing while none did.
const TROUBLE_INTERVAL: Duration = Duration::from_secs(2);
/// How often it is looked whether memory can be given back.
const MEMORY_INTERVAL: Duration = Duration::from_secs(2);
/// A log that was not used for this long lets go of its buffers and descriptors.
const IDLE_INTERVAL: Duration = Duration::from_secs(60);

/// Stops the janitor.
#[derive(Clone, Debug, Default)]
pub(crate) struct JanitorStop {
    shared: Arc<(Mutex<bool>, Condvar)>,
}

impl JanitorStop {
    /// Lets the janitor return after what it is doing.
    pub(crate) fn stop(&self) {
        *self.shared.0.lock() = true;
        self.shared.1.notify_all();
    }

    /// Waits for `span`, or less. Whether to stop.
    fn wait(&self, span: Duration) -> bool {
        let mut stopping = self.shared.0.lock();
        if !*stopping {
            self.shared.1.wait_for(&mut stopping, span);
        }
        *stopping
    }
}

/// One recurring piece of work.
#[derive(Debug)]
struct Job {
    every: Duration,
    due: Instant,
    work: fn(&Broker),
}

/// The recurring work of one broker.
#[derive(Debug)]
pub(crate) struct Janitor {
    jobs: Vec<Job>,
    deletion_due: Instant,
}

impl Janitor {
    /// What `broker`'s configuration asks for, from `now` on.
    pub(crate) fn new(broker: &Broker, now: Instant) -> Self {
        let config = broker.config.load();
        let log = &config.log;
        let start = now + log.initial_task_delay;
        let job = |every: Duration, due, work| {
            // An interval of zero means as often as possible.
            Job { every: every.max(Duration::from_millis(1)), due, work }
        };
        let checkpoints =
            log.recovery_point_checkpoint_interval.min(log.log_start_checkpoint_interval);
        let mut jobs = vec![
            job(TROUBLE_INTERVAL, now + TROUBLE_INTERVAL, log_troubles::look_after as fn(&Broker)),
            job(MEMORY_INTERVAL, now + MEMORY_INTERVAL, |broker| {
                broker.receive_budget.return_memory();
            }),
            job(
                config.replication.high_watermark_checkpoint_interval,
                now + config.replication.high_watermark_checkpoint_interval,
                |broker| broker.partitions.environment().logs.write_high_watermarks(),
            ),
            job(checkpoints, start, |broker| {
                broker.partitions.environment().logs.write_checkpoints();
            }),
            job(log.retention_check_interval, start, apply_retention),
            job(
                config.transactions.producer_id_expiration_check_interval,
                now + config.transactions.producer_id_expiration_check_interval,
                expire_producers,
            ),
            job(IDLE_INTERVAL, now + IDLE_INTERVAL, |broker| {
                broker.partitions.all().iter().for_each(|partition| partition.release_if_idle());
            }),
            job(config.replication.lag_time_max / 2, now, |broker| {
                broker.partitions.all().iter().for_each(|partition| partition.tick());
            }),
        ];
        if let Some(interval) = log.flush_scheduler_interval {
            jobs.push(job(interval, start, flush_what_is_due));
        }
        Self { jobs, deletion_due: now + DELETION_INTERVAL }
    }

    /// Does what is due; returns when the next is. A simulator calls this.
    pub(crate) fn run_due(&mut self, broker: &Broker, now: Instant) -> Instant {
        for job in &mut self.jobs {
            if job.due <= now {
                (job.work)(broker);
                job.due = now + job.every;
            }
        }
        if self.deletion_due <= now {
            let pause = delete(broker);
            self.deletion_due = broker.clock.now() + pause;
        }
        self.jobs.iter().map(|job| job.due).fold(self.deletion_due, Instant::min)
    }

    /// Works until it is stopped; the thread's main function.
    pub(crate) fn run(mut self, broker: &Broker, stop: &JanitorStop) {
        loop {
            let next = self.run_due(broker, broker.clock.now());
            if stop.wait(next.since(broker.clock.now())) {
                return;
            }
        }
    }
}

/// Frees what is due for a while. Returns how long to leave it be.
fn delete(broker: &Broker) -> Duration {
    let logs = &broker.partitions.environment().logs;
    let start = broker.clock.now();
    loop {
        let next = logs.delete_step(broker.clock.now());
        let now = broker.clock.now();
        if next.is_none_or(|next| next > now) {
            return DELETION_INTERVAL;
        }
        let taken = now.since(start);
        if taken >= DELETION_SLICE {
            return taken * DELETION_PAUSES;
        }
    }
}

fn apply_retention(broker: &Broker) {
    let now = broker.clock.timestamp();
    broker.partitions.all().iter().for_each(|partition| partition.apply_retention(now));
}

fn expire_producers(broker: &Broker) {
    let now = broker.clock.timestamp();
    broker.partitions.all().iter().for_each(|partition| partition.expire_producers(now));
}

fn flush_what_is_due(broker: &Broker) {
    let now = broker.clock.timestamp();
    broker.partitions.all().iter().for_each(|partition| partition.flush_if_due(now));
}
