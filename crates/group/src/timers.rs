//! Deadlines of a shard's groups, in order.

use model::Instant;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What is due; whether it still is, its group knows: timers are never taken back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A rebalance has waited long enough for members to join.
    Join { group: Arc<str> },
    /// A generation has waited long enough for members to sync.
    Sync { group: Arc<str> },
    /// An id that was given out was not used.
    PendingMember { group: Arc<str>, member: Arc<str> },
    /// A member was silent for a session.
    Session { group: Arc<str>, member: Arc<str> },
}

#[derive(Debug, Default)]
pub(crate) struct Timers(BTreeSet<(Instant, Timer)>);

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, timer: Timer) {
        self.0.insert((at, timer));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.first().map(|(at, _)| *at)
    }

    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, Timer)> {
        if self.next()? <= now { self.0.pop_first() } else { None }
    }
}
