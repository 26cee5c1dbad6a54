//! What happened: a hash over all steps, by which two runs are compared, and the last events in words.

use crate::scheduler::ProcessId;
use parking_lot::Mutex;
use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::Arc;
use std::time::Duration;

/// Takes note of what happens; clones share it.
#[derive(Clone)]
pub struct Trace(Arc<Mutex<State>>);

struct State {
    hash: u64,
    last: VecDeque<String>,
    most: usize,
    /// Whether every event is printed as it happens.
    prints: bool,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace").field("hash", &self.hash()).finish_non_exhaustive()
    }
}

thread_local! {
    /// When the step is made that this thread makes, and by whom.
    static STEP: Cell<(Duration, u32)> = const { Cell::new((Duration::ZERO, 0)) };
}

/// Puts virtual time, and whose step it is, before what brokers log.
#[derive(Clone, Copy, Debug)]
pub struct VirtualTime;

impl tracing_subscriber::fmt::time::FormatTime for VirtualTime {
    fn format_time(&self, into: &mut tracing_subscriber::fmt::format::Writer<'_>) -> fmt::Result {
        let (at, process) = STEP.get();
        write!(into, "{:10.3} p{process}", at.as_secs_f64())
    }
}

impl Trace {
    /// Keeps the last `most` events.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let state =
            State { hash: 0xcbf2_9ce4_8422_2325, last: VecDeque::new(), most, prints: false };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Prints every event from now on.
    #[must_use]
    pub fn printing(self) -> Self {
        self.0.lock().prints = true;
        self
    }

    /// A task makes a step.
    pub(crate) fn step(&self, at: Duration, process: ProcessId, task: u64) {
        STEP.set((at, process.0));
        let mut state = self.0.lock();
        let at = u64::try_from(at.as_nanos()).unwrap_or(u64::MAX);
        for number in [at, u64::from(process.0), task] {
            state.mix(number);
        }
    }

    /// Something happened that a person wants to know of.
    pub fn event(&self, at: Duration, what: &str) {
        let mut state = self.0.lock();
        what.bytes().for_each(|byte| state.mix(u64::from(byte)));
        let mut line = String::new();
        write!(line, "{:10.3} {what}", at.as_secs_f64()).expect("memory takes it");
        if state.prints {
            println!("{line}");
        }
        if state.last.len() == state.most {
            state.last.pop_front();
        }
        state.last.push_back(line);
    }

    /// Of everything so far: the same for the same seed and code.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.0.lock().hash
    }

    /// The last events, oldest first.
    #[must_use]
    pub fn last(&self) -> Vec<String> {
        self.0.lock().last.iter().cloned().collect()
    }
}

impl State {
    fn mix(&mut self, number: u64) {
        self.hash = (self.hash ^ number).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }
}
