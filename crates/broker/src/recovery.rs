//! Recovers the logs that the last process did not close, several at a time (log-format 5).
//!
//! A broker of a cluster does so before it registers: whoever can be asked to lead has what it had. One that is alone
//! serves each partition as soon as its log is there; until then the partition has no leader for clients, which try again
//! (decision 21).
//!
//! Only of logs with much to read: one with little is recovered by whoever needs it first, in a few milliseconds, and
//! 10,000 of them cost a start nothing.
//!
//! Non-obvious:
//! - A recovered log is closed again, as a clean stop leaves it, and opened when it is needed: 10,000 partitions must not
//!   have 10,000 open logs.
//! - No checkpoint loses anything meanwhile: what is written of a log that nobody has opened is what was read of it.

use crate::partition::Partition;
use crate::server::Spawn;
use model::Instant;
use parking_lot::{Condvar, Mutex};
use platform::Clock;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use storage::{ClosedLog, LogDirectory};
use tracing::{info, warn};

/// A log of which recovery has to read no more than this is recovered by whoever needs it, also a reactor.
const READ_AT_ONCE: u64 = 1 << 20;

/// How many bytes of `log` recovery has to read, if that takes longer than whoever needs the log should wait.
pub(crate) fn time_consuming(log: &ClosedLog) -> Option<u64> {
    if !log.needs_recovery() {
        return None;
    }
    // What cannot be told is told when it is recovered.
    log.unrecovered_bytes().ok().filter(|&bytes| bytes > READ_AT_ONCE)
}

/// How often it is said how far it has come.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Recovery of the logs of a broker that serves meanwhile. Shared by the partitions and the threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recovery {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Whether logs are left to the threads: who needs one must not recover it on a thread that has others to serve.
    is_under_way: AtomicBool,
    is_stopping: AtomicBool,
}

impl Recovery {
    /// From now on logs that need it are recovered by [`Recovery::run`] alone.
    pub(crate) fn expect(&self) {
        self.shared.is_under_way.store(true, Ordering::Release);
    }

    /// Whether threads are to recover logs, or are at it.
    pub(crate) fn is_under_way(&self) -> bool {
        self.shared.is_under_way.load(Ordering::Acquire)
    }

    /// Whether `log` is left to them.
    pub(crate) fn has_in_hand(&self, log: &ClosedLog) -> bool {
        self.is_under_way() && time_consuming(log).is_some()
    }

    /// Recovers the logs of `partitions`, on so many threads for each log directory that `spawn` starts. Returns when
    /// all are, or after [`Recovery::stop`].
    pub(crate) fn run(
        &self,
        partitions: Vec<Arc<Partition>>,
        threads: usize,
        clock: &Arc<dyn Clock>,
        spawn: Spawn,
    ) {
        let jobs = partitions.into_iter().filter_map(|partition| {
            let (directory, bytes) = partition.unrecovered()?;
            Some(Job { name: partition.to_string(), directory, bytes, log: partition })
        });
        let work = {
            let this = self.clone();
            move |partition: Arc<Partition>| {
                if !this.shared.is_stopping.load(Ordering::Relaxed) {
                    partition.recover();
                }
            }
        };
        recover_all(jobs.collect(), threads, clock, Some(spawn), work);
        self.shared.is_under_way.store(false, Ordering::Release);
    }

    /// Lets [`Recovery::run`] return after the logs that it is at. Those that are left are recovered at the next start.
    pub(crate) fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
    }
}

/// A log to be recovered.
pub(crate) struct Job<T> {
    /// Its name, for the order.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) directory: Arc<LogDirectory>,
    /// How many bytes of it have to be read, about.
    pub(crate) bytes: u64,
    /// What `work` is given.
    pub(crate) log: T,
}

/// Does `work` for each of `jobs`, on `threads` threads for each log directory, or on this one without `spawn`, and
/// tells how far it has come. Returns when all is done.
pub(crate) fn recover_all<T: Send + 'static>(
    jobs: Vec<Job<T>>,
    threads: usize,
    clock: &Arc<dyn Clock>,
    spawn: Option<Spawn>,
    work: impl Fn(T) + Send + Sync + 'static,
) {
    if jobs.is_empty() {
        return;
    }
    let progress = Progress {
        begin: clock.now(),
        logs: jobs.len(),
        bytes: jobs.iter().map(|job| job.bytes).sum(),
        done: 0,
        done_bytes: 0,
    };
    info!(logs = progress.logs, bytes = progress.bytes, threads, "recovering logs");
    let lanes = lanes(jobs);
    let lengths: Vec<_> = lanes.iter().map(|lane| lane.jobs.len()).collect();
    let shared = Arc::new(Queues {
        state: Mutex::new(State { lanes, progress }),
        news: Condvar::new(),
        work,
    });
    let mut started = Vec::new();
    for (lane, length) in lengths.into_iter().enumerate() {
        let helpers =
            spawn.map_or_else(Vec::new, |spawn| start(&shared, lane, threads.min(length), spawn));
        if helpers.is_empty() {
            shared.work_on(lane);
        }
        started.extend(helpers);
    }
    shared.wait(clock);
    for thread in started {
        thread.join().expect("a panic would have ended the process");
    }
    info!(logs = shared.state.lock().progress.logs, took = ?clock.now().since(progress.begin), "logs are recovered");
}

/// The jobs by directory, first those that others wait for: groups, then the logs that take the least.
fn lanes<T>(jobs: Vec<Job<T>>) -> Vec<Lane<T>> {
    let mut lanes: Vec<Lane<T>> = Vec::new();
    let mut jobs = jobs;
    jobs.sort_by(|a, b| {
        let order = |job: &Job<T>| (!job.name.starts_with("__"), job.bytes);
        order(a).cmp(&order(b)).then_with(|| a.name.cmp(&b.name))
    });
    for job in jobs {
        let known = lanes.iter_mut().find(|lane| Arc::ptr_eq(&lane.directory, &job.directory));
        match known {
            Some(lane) => lane.jobs.push_back(job),
            None => {
                let directory = Arc::clone(&job.directory);
                lanes.push(Lane { directory, jobs: [job].into() });
            }
        }
    }
    lanes
}

/// Starts threads for one lane; as many as the system lets.
fn start<T: Send + 'static, W: Fn(T) + Send + Sync + 'static>(
    shared: &Arc<Queues<T, W>>,
    lane: usize,
    threads: usize,
    spawn: Spawn,
) -> Vec<JoinHandle<()>> {
    let mut started = Vec::new();
    for number in 0..threads {
        let shared = Arc::clone(shared);
        let run = Box::new(move || shared.work_on(lane));
        match spawn(&format!("recovery-{lane}-{number}"), run) {
            Ok(thread) => started.push(thread),
            Err(error) => {
                warn!(%error, "a thread for recovery cannot be started");
                break;
            }
        }
    }
    started
}

struct Queues<T, W> {
    state: Mutex<State<T>>,
    news: Condvar,
    work: W,
}

struct State<T> {
    lanes: Vec<Lane<T>>,
    progress: Progress,
}

/// What is to be recovered in one log directory.
struct Lane<T> {
    directory: Arc<LogDirectory>,
    jobs: VecDeque<Job<T>>,
}

impl<T, W: Fn(T)> Queues<T, W> {
    fn work_on(&self, lane: usize) {
        loop {
            let Some(job) = self.state.lock().lanes[lane].jobs.pop_front() else { return };
            (self.work)(job.log);
            let mut state = self.state.lock();
            state.progress.done += 1;
            state.progress.done_bytes += job.bytes;
            if state.progress.done == state.progress.logs {
                self.news.notify_all();
            }
        }
    }

    /// Waits until all is done, and tells how far it has come.
    fn wait(&self, clock: &Arc<dyn Clock>) {
        let mut state = self.state.lock();
        while state.progress.done < state.progress.logs {
            if self.news.wait_for(&mut state, REPORT_INTERVAL).timed_out() {
                info!("{}", state.progress.at(clock.now()));
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    begin: Instant,
    logs: usize,
    bytes: u64,
    done: usize,
    done_bytes: u64,
}

impl Progress {
    fn at(self, now: Instant) -> ProgressAt {
        ProgressAt { progress: self, elapsed: now.since(self.begin) }
    }
}

/// How far it has come, for people.
struct ProgressAt {
    progress: Progress,
    elapsed: Duration,
}

impl fmt::Display for ProgressAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Progress { logs, bytes, done, done_bytes, .. } = self.progress;
        let mib = |bytes: u64| bytes >> 20;
        write!(f, "recovered {done} of {logs} logs, {} of {} MiB", mib(done_bytes), mib(bytes))?;
        // Opening takes its time too, where there is little to read.
        let share = |part: u128, whole: u128| (part.saturating_mul(1000)).checked_div(whole);
        let by_bytes = share(done_bytes.into(), bytes.into()).unwrap_or(1000);
        let by_logs = share(done as u128, logs as u128).unwrap_or(1000);
        match by_bytes.min(by_logs) {
            0 => write!(f, "; it cannot be told yet how long the others take"),
            done => {
                let left = self.elapsed.as_millis() * (1000 - done) / done / 1000;
                write!(f, "; about {left} s left")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories() -> Vec<Arc<LogDirectory>> {
        let config = storage::LogDirectoriesConfig {
            paths: vec!["/a".into(), "/b".into()],
            broker_id: model::BrokerId(0),
            max_open_files: 1,
            tail_cache_bytes: 0,
            disk_reserve_bytes: Some(0),
        };
        let disk = Arc::new(platform::MemoryDisk::new());
        let random = Arc::new(platform::random::SeededRandom::new(1));
        let opened = storage::LogDirectories::open(disk, random, config, Instant::default());
        opened.unwrap().0.directories().to_vec()
    }

    fn clock() -> Arc<dyn Clock> {
        Arc::new(platform::clock::ManualClock::at(model::Timestamp(0)))
    }

    fn job<T>(name: &str, directory: &Arc<LogDirectory>, bytes: u64, log: T) -> Job<T> {
        Job { name: name.to_owned(), directory: Arc::clone(directory), bytes, log }
    }

    #[test]
    fn directories_and_logs_are_recovered_at_the_same_time() {
        let directories = directories();
        // Nobody goes on before all four are at it.
        let meeting = Arc::new(std::sync::Barrier::new(4));
        let jobs = (0..8).map(|n| job("t", &directories[n % 2], 1, Arc::clone(&meeting)));
        let spawn = Some(crate::server::spawn as Spawn);
        recover_all(jobs.collect(), 2, &clock(), spawn, |meeting: Arc<std::sync::Barrier>| {
            meeting.wait();
        });
    }

    #[test]
    fn groups_come_first_and_then_what_takes_least() {
        let directory = &directories()[0];
        let jobs = vec![
            job("large-0", directory, 900, 3),
            job("__consumer_offsets-4", directory, 1000, 0),
            job("small-1", directory, 5, 2),
            job("small-0", directory, 5, 1),
        ];
        let order = Arc::new(Mutex::new(Vec::new()));
        let done = Arc::clone(&order);
        recover_all(jobs, 1, &clock(), None, move |n| done.lock().push(n));
        assert_eq!(*order.lock(), [0, 1, 2, 3]);
    }

    #[test]
    fn progress_tells_logs_bytes_and_the_time_that_is_left() {
        let begin = Instant(Duration::from_secs(7));
        let progress =
            Progress { begin, logs: 10, bytes: 400 << 20, done: 5, done_bytes: 100 << 20 };
        let now = Instant(Duration::from_secs(17));
        let told = progress.at(now).to_string();
        assert_eq!(told, "recovered 5 of 10 logs, 100 of 400 MiB; about 30 s left");
        let told = Progress { done: 0, done_bytes: 0, ..progress }.at(now).to_string();
        assert!(told.ends_with("it cannot be told yet how long the others take"), "{told}");
    }
}
