//! Runs of many seeds at the same time, and what came of each.

use crate::plan::Plan;
use crate::trace::Trace;
use crate::world::{self, Outcome};
use platform::Clock;
use platform::clock::SystemClock;
use serde_json::{Value, json};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// Its seed.
    pub seed: u64,
    /// What came of it; `None` if it ended in a panic.
    pub outcome: Option<Outcome>,
    /// The rule that was broken, and how.
    pub broken: Option<(String, String)>,
    /// How long it took, in real time.
    pub took: Duration,
    /// The last events.
    pub last: Vec<String>,
    hash: u64,
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// From now on panics of runs are results of theirs and not printed.
pub fn take_panics() {
    std::panic::set_hook(Box::new(|panic| {
        PANIC.set(Some(panic.to_string().replace('\n', " ")));
    }));
}

/// Runs `plan`. A panic is a broken rule: one that the code has of itself.
#[must_use]
pub fn one(plan: Plan, trace: &Trace) -> Run {
    let seed = plan.seed;
    let clock = SystemClock::new();
    let begun = clock.now();
    let outcome = catch_unwind(AssertUnwindSafe(|| world::run(plan, trace))).ok();
    let took = clock.now().since(begun);
    let broken = match &outcome {
        Some(outcome) => {
            outcome.violation.as_ref().map(|v| (v.invariant.to_owned(), v.what.clone()))
        }
        None => Some(("panic".to_owned(), PANIC.take().unwrap_or_default())),
    };
    Run { seed, outcome, broken, took, last: trace.last(), hash: trace.hash() }
}

impl Run {
    /// One line for machines.
    #[must_use]
    pub fn line(&self) -> Value {
        let broken = self.broken.as_ref().map(|(rule, how)| format!("{rule}: {how}"));
        let mut line = json!({
            "seed": self.seed,
            "ok": self.broken.is_none(),
            "broken": broken,
            "real_ms": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            "hash": format!("{:016x}", self.hash),
        });
        if let Some(outcome) = &self.outcome {
            line["steps"] = json!(outcome.steps);
            line["virtual_s"] = json!(outcome.elapsed.as_secs());
            line["faults"] = json!(outcome.faults);
            line["acked"] = json!(outcome.acked);
            line["committed"] = json!(outcome.committed);
            line["group_commits"] = json!(outcome.group_commits);
            line["unanswered"] = json!(outcome.unknown);
            line["refused"] = json!(outcome.refused);
        }
        line
    }
}

/// Runs the plans of `seeds` in `jobs` threads, and tells `finished` of each, in no order. Begins no more once that has
/// said `false`.
pub fn many(
    seeds: std::ops::Range<u64>,
    jobs: usize,
    plan: impl Fn(u64) -> Plan + Sync,
    finished: impl Fn(&Run) -> bool + Sync,
) {
    let (next, ends) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    if !finished(&one(plan(seed), &Trace::new(200))) {
                        ends.store(true, Ordering::Relaxed);
                    }
                }
            });
        }
    });
}
