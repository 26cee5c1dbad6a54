//! Who goes on: the tasks of all processes, the seeded choice among those that can, and virtual time.
//!
//! Everything runs inside of one future of a current-thread tokio runtime whose clock is paused. That future
//! polls tasks until none can go on; then tokio lets time jump to the next timer. Time never passes while a
//! task runs.
//!
//! Non-obvious:
//! - The root future is `unconstrained`: tokio's cooperative budget would otherwise make every resource pending
//!   after 128 operations, and this loop would never give tokio the chance to renew it.
//! - A future that is dropped may wake others, which takes the lock: futures are dropped outside of it.

use crate::trace::Trace;
use model::{Instant, Timestamp};
use parking_lot::Mutex;
use platform::random::SeededRandom;
use platform::tasks::{self, Abort, TaskFuture, VirtualTasks};
use platform::{Clock, Random};
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use tokio::time::{Sleep, sleep_until};

/// Steps at one moment of virtual time after which something is taken to run in circles.
const MOST_STEPS_AT_ONCE: u64 = 2_000_000;

/// Every process has run so long when the simulation begins: zero is long ago.
const AGE: Duration = Duration::from_secs(3600);

/// Names a process: a broker between its start and its end, a client, the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

type Event = Box<dyn FnOnce() + Send>;

/// The scheduler; clones share it.
#[derive(Clone)]
pub struct Scheduler(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    random: SeededRandom,
    start: tokio::time::Instant,
    trace: Trace,
}

struct State {
    tasks: BTreeMap<u64, Entry>,
    /// Tasks that can go on, in no order.
    ready: Vec<u64>,
    processes: BTreeMap<ProcessId, Process>,
    next_task: u64,
    next_process: u32,
    events: BinaryHeap<Timed>,
    next_event: u64,
    root: Option<Waker>,
    steps: u64,
}

#[derive(Default)]
struct Process {
    is_paused: bool,
    /// Besides that it waits, so often.
    stalls: u32,
    /// What could go on if it were not paused.
    held: Vec<u64>,
}

impl Process {
    fn stands_still(&self) -> bool {
        self.is_paused || self.stalls > 0
    }
}

struct Entry {
    process: ProcessId,
    /// Taken out while it is polled.
    future: Option<TaskFuture>,
    waker: Waker,
    is_queued: bool,
}

struct Timed {
    at: tokio::time::Instant,
    number: u64,
    event: Event,
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Timed {}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    /// The earliest is the greatest.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

struct TaskWaker {
    shared: Arc<Shared>,
    task: u64,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.shared.state.lock().make_ready(self.task);
    }
}

impl State {
    fn make_ready(&mut self, task: u64) {
        let Some(entry) = self.tasks.get_mut(&task) else { return };
        if std::mem::replace(&mut entry.is_queued, true) {
            return;
        }
        match self.processes.get_mut(&entry.process) {
            Some(process) if process.stands_still() => process.held.push(task),
            _ => self.ready.push(task),
        }
        if let Some(root) = &self.root {
            root.wake_by_ref();
        }
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

/// What ends [`Scheduler::run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The time was reached.
    InTime,
    /// The observer said so.
    Stopped,
}

impl Scheduler {
    /// Nothing to do yet. To be called inside of a runtime whose clock is paused.
    #[must_use]
    pub fn new(seed: u64, trace: Trace) -> Self {
        let state = State {
            tasks: BTreeMap::new(),
            ready: Vec::new(),
            processes: BTreeMap::new(),
            next_task: 0,
            next_process: 0,
            events: BinaryHeap::new(),
            next_event: 0,
            root: None,
            steps: 0,
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            random: SeededRandom::new(seed),
            start: tokio::time::Instant::now(),
            trace,
        }))
    }

    /// A new process.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        let mut state = self.0.state.lock();
        let process = ProcessId(state.next_process);
        state.next_process += 1;
        state.processes.insert(process, Process::default());
        process
    }

    /// Where the tasks of `process` run.
    #[must_use]
    pub fn tasks_of(&self, process: ProcessId) -> Arc<dyn VirtualTasks> {
        Arc::new(ProcessTasks { scheduler: self.clone(), process })
    }

    /// Runs `future` as a part of `process`.
    pub fn spawn(&self, process: ProcessId, future: impl Future<Output = ()> + Send + 'static) {
        self.add(process, Box::pin(future));
    }

    fn add(&self, process: ProcessId, future: TaskFuture) -> u64 {
        let mut state = self.0.state.lock();
        let task = state.next_task;
        state.next_task += 1;
        if !state.processes.contains_key(&process) {
            // It has ended: whoever still acts in its name says nothing any more.
            drop(state);
            drop(future);
            return task;
        }
        let waker = Waker::from(Arc::new(TaskWaker { shared: Arc::clone(&self.0), task }));
        state.tasks.insert(task, Entry { process, future: Some(future), waker, is_queued: false });
        state.make_ready(task);
        task
    }

    /// Ends a process where it stands.
    pub fn kill(&self, process: ProcessId) {
        let ended: Vec<Entry> = {
            let mut state = self.0.state.lock();
            state.processes.remove(&process);
            let tasks: Vec<u64> = state
                .tasks
                .iter()
                .filter(|(_, entry)| entry.process == process)
                .map(|(&task, _)| task)
                .collect();
            tasks.into_iter().filter_map(|task| state.tasks.remove(&task)).collect()
        };
        drop(ended);
    }

    /// Freezes a process, as SIGSTOP does. Its timers fire when it goes on.
    pub fn pause(&self, process: ProcessId) {
        self.freeze(process, |paused| paused.is_paused = true);
    }

    fn freeze(&self, process: ProcessId, freeze: impl FnOnce(&mut Process)) {
        let mut state = self.0.state.lock();
        let State { tasks, ready, processes, .. } = &mut *state;
        let Some(paused) = processes.get_mut(&process) else { return };
        freeze(paused);
        ready.retain(|task| {
            let is_its = tasks.get(task).is_some_and(|entry| entry.process == process);
            if is_its {
                paused.held.push(*task);
            }
            !is_its
        });
    }

    /// Freezes a process for `span`, besides what [`Self::pause`] does.
    pub fn stall(&self, process: ProcessId, span: Duration) {
        self.freeze(process, |stalled| stalled.stalls += 1);
        let scheduler = self.clone();
        self.after(span, move || scheduler.thaw(process, |stalled| stalled.stalls -= 1));
    }

    /// Lets a process go on.
    pub fn resume(&self, process: ProcessId) {
        self.thaw(process, |paused| paused.is_paused = false);
    }

    fn thaw(&self, process: ProcessId, thaw: impl FnOnce(&mut Process)) {
        let mut state = self.0.state.lock();
        let Some(paused) = state.processes.get_mut(&process) else { return };
        thaw(paused);
        if paused.stands_still() {
            return;
        }
        let held = std::mem::take(&mut paused.held);
        state.ready.extend(held);
        if let Some(root) = &state.root {
            root.wake_by_ref();
        }
    }

    /// Does `event` after `delay`; as no process.
    pub fn after(&self, delay: Duration, event: impl FnOnce() + Send + 'static) {
        let mut state = self.0.state.lock();
        let (at, number) = (tokio::time::Instant::now() + delay, state.next_event);
        state.next_event += 1;
        state.events.push(Timed { at, number, event: Box::new(event) });
        if let Some(root) = &state.root {
            root.wake_by_ref();
        }
    }

    /// Time since the simulation began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        tokio::time::Instant::now() - self.0.start
    }

    /// How many steps were made.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.0.state.lock().steps
    }

    /// A clock of one machine.
    #[must_use]
    pub fn clock(&self) -> Arc<VirtualClock> {
        Arc::new(VirtualClock { start: self.0.start, jumped: AtomicI64::new(0) })
    }

    /// Lets everything run for `span`, or until `observe`, which is called after each step, says so.
    pub async fn run(&self, span: Duration, mut observe: impl FnMut(ProcessId) -> bool) -> Ended {
        let end = tokio::time::Instant::now() + span;
        let mut timer: Pin<Box<Sleep>> = Box::pin(sleep_until(end));
        let (mut at, mut at_once) = (tokio::time::Instant::now(), 0);
        let run = poll_fn(|context| {
            // While this runs nobody has to wake it.
            self.0.state.lock().root = None;
            loop {
                let now = tokio::time::Instant::now();
                if now != at {
                    (at, at_once) = (now, 0);
                }
                while let Some(event) = self.due(now) {
                    event();
                }
                match self.choose() {
                    Some((task, process)) => {
                        at_once += 1;
                        assert!(at_once < MOST_STEPS_AT_ONCE, "runs in circles: {process:?}");
                        self.step(task, process);
                        if observe(process) {
                            return Poll::Ready(Ended::Stopped);
                        }
                    }
                    None if now >= end => return Poll::Ready(Ended::InTime),
                    None => {
                        let mut state = self.0.state.lock();
                        let next = state.events.peek().map_or(end, |event| event.at.min(end));
                        state.root = Some(context.waker().clone());
                        drop(state);
                        if timer.deadline() != next {
                            timer.as_mut().reset(next);
                        }
                        if timer.as_mut().poll(context).is_pending() {
                            return Poll::Pending;
                        }
                    }
                }
            }
        });
        tokio::task::unconstrained(run).await
    }

    fn due(&self, now: tokio::time::Instant) -> Option<Event> {
        let mut state = self.0.state.lock();
        if state.events.peek()?.at > now {
            return None;
        }
        state.events.pop().map(|timed| timed.event)
    }

    fn choose(&self) -> Option<(u64, ProcessId)> {
        let mut state = self.0.state.lock();
        loop {
            let count = state.ready.len() as u64;
            if count == 0 {
                return None;
            }
            let at = usize::try_from(self.0.random.below(count)).expect("an index");
            let task = state.ready.swap_remove(at);
            // It may have been aborted.
            if let Some(entry) = state.tasks.get(&task) {
                let process = entry.process;
                state.steps += 1;
                return Some((task, process));
            }
        }
    }

    fn step(&self, task: u64, process: ProcessId) {
        let (mut future, waker) = {
            let mut state = self.0.state.lock();
            let Some(entry) = state.tasks.get_mut(&task) else { return };
            entry.is_queued = false;
            (entry.future.take().expect("one step at a time"), entry.waker.clone())
        };
        self.0.trace.step(self.elapsed(), process, task);
        let mut context = Context::from_waker(&waker);
        let polled = tasks::within(self.tasks_of(process), || future.as_mut().poll(&mut context));
        let ended = {
            let mut state = self.0.state.lock();
            match (polled, state.tasks.get_mut(&task)) {
                (Poll::Pending, Some(entry)) => {
                    entry.future = Some(future);
                    return;
                }
                (_, _) => state.tasks.remove(&task),
            }
        };
        drop((ended, future));
    }
}

/// Where one process's tasks run.
struct ProcessTasks {
    scheduler: Scheduler,
    process: ProcessId,
}

impl fmt::Debug for ProcessTasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProcessTasks").field(&self.process).finish()
    }
}

impl VirtualTasks for ProcessTasks {
    fn spawn(&self, future: TaskFuture) -> Abort {
        let task = self.scheduler.add(self.process, future);
        let scheduler = self.scheduler.clone();
        Arc::new(move || {
            let ended = scheduler.0.state.lock().tasks.remove(&task);
            drop(ended);
        })
    }
}

/// One machine's clocks: monotonic time is everybody's, the wall clock may jump.
#[derive(Debug)]
pub struct VirtualClock {
    start: tokio::time::Instant,
    /// Milliseconds.
    jumped: AtomicI64,
}

/// 2026-01-01T00:00:00Z.
const WALL_AT_START: i64 = 1_767_225_600_000;

impl VirtualClock {
    /// Lets the wall clock jump by `millis`.
    pub fn jump(&self, millis: i64) {
        self.jumped.fetch_add(millis, Ordering::Relaxed);
    }

    /// Sets the wall clock right.
    pub fn set_right(&self) {
        self.jumped.store(0, Ordering::Relaxed);
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> Instant {
        Instant(AGE + (tokio::time::Instant::now() - self.start))
    }

    fn timestamp(&self) -> Timestamp {
        let passed = tokio::time::Instant::now() - self.start;
        let passed = i64::try_from(passed.as_millis()).expect("a simulation is short");
        Timestamp(WALL_AT_START + passed + self.jumped.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_simulation<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(future)
    }

    /// Which of three tasks ran when, with pauses that the seed does not know.
    fn order(seed: u64) -> Vec<(u64, u32)> {
        in_simulation(async {
            let scheduler = Scheduler::new(seed, Trace::new(10));
            let seen = Arc::new(Mutex::new(Vec::new()));
            for number in 0..3 {
                let (seen, process, own) =
                    (Arc::clone(&seen), scheduler.process(), scheduler.clone());
                scheduler.spawn(process, async move {
                    for _ in 0..10 {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        let at = u64::try_from(own.elapsed().as_millis()).unwrap();
                        seen.lock().push((at, number));
                    }
                });
            }
            scheduler.run(Duration::from_secs(1), |_| false).await;
            seen.lock().clone()
        })
    }

    #[test]
    fn a_seed_decides_who_goes_on_and_time_jumps() {
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2), "another order");
        let times: Vec<u64> = order(1).into_iter().map(|(at, _)| at).collect();
        assert!(times.is_sorted() && times.len() == 30 && times[29] == 50, "{times:?}");
    }

    #[test]
    fn a_process_that_is_paused_stands_still_and_one_that_is_killed_is_gone() {
        in_simulation(async {
            let scheduler = Scheduler::new(1, Trace::new(10));
            let count = Arc::new(AtomicI64::new(0));
            let start = |process| {
                let count = Arc::clone(&count);
                scheduler.spawn(process, async move {
                    loop {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            };
            let process = scheduler.process();
            start(process);
            scheduler.run(Duration::from_millis(105), |_| false).await;
            assert_eq!(count.load(Ordering::Relaxed), 10);
            scheduler.pause(process);
            scheduler.run(Duration::from_millis(100), |_| false).await;
            assert_eq!(count.load(Ordering::Relaxed), 10);
            scheduler.resume(process);
            scheduler.run(Duration::from_millis(15), |_| false).await;
            assert_eq!(count.load(Ordering::Relaxed), 12, "what was due, and the next");
            scheduler.kill(process);
            start(process);
            scheduler.run(Duration::from_millis(100), |_| false).await;
            assert_eq!(
                (count.load(Ordering::Relaxed), Arc::strong_count(&count)),
                (12, 1),
                "nobody holds it any more"
            );
        });
    }
}
