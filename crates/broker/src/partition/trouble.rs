//! A log that fails, or whose disk is full: who leads hands over if somebody else can lead, and who follows
//! does not stay in the ISR until it lags: everybody with `acks=all` would wait for it.

use super::{Effects, Log, Partition, Role, role::Following};
use crate::partition::Assignment;
use model::{Instant, LeaderEpoch};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use storage::LogDirectory;
use tracing::warn;

/// What is wrong with a partition's log here. Apart from the partition's state, whose lock is held by
/// whoever finds out.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// When a write failed, in milliseconds of the clock and at least 1; 0 if none has since one succeeded.
    fails_since: AtomicU64,
    /// The controller was told that the log cannot be used.
    has_stepped_down: AtomicBool,
    /// Some damage was found since the log was last whole.
    pub(super) is_damaged: AtomicBool,
}

impl Partition {
    /// A write failed: if others can lead, they are to.
    pub(super) fn note_failure(&self) {
        let environment = &self.topic.environment;
        let now = u64::try_from(environment.clock.now().0.as_millis()).unwrap_or(u64::MAX).max(1);
        if self.trouble.fails_since.swap(now, Ordering::Relaxed) == 0 {
            environment.troubles.report();
        }
    }

    /// A write succeeded.
    pub(super) fn note_success(&self) {
        if self.trouble.fails_since.load(Ordering::Relaxed) != 0 {
            self.trouble.fails_since.store(0, Ordering::Relaxed);
        }
    }

    /// When a write last failed; `None` if none has since one succeeded.
    pub(crate) fn fails_since(&self) -> Option<Instant> {
        let since = self.trouble.fails_since.load(Ordering::Relaxed);
        (since != 0).then(|| Instant(Duration::from_millis(since)))
    }

    /// What is wrong with the log here, for people; `None` if nothing is known to be.
    pub(crate) fn trouble(&self) -> Option<String> {
        let directory = self.log_directory()?;
        let path = directory.path().display();
        if directory.is_offline() {
            return Some(format!("log directory {path} failed"));
        }
        if self.fails_since().is_none() {
            return self.is_damaged().then(|| format!("a part of the log in {path} is damaged"));
        }
        Some(match directory.space() {
            Ok(space) => {
                format!("the log could not be written; {} bytes are free in {path}", space.usable)
            }
            Err(error) => format!("the log could not be written; {path}: {error}"),
        })
    }

    /// Where the log is.
    pub(crate) fn log_directory(&self) -> Option<Arc<LogDirectory>> {
        match &self.state.lock().log {
            Log::Open(log) => Some(Arc::clone(log.directory())),
            Log::Closed(log) => Some(Arc::clone(log.directory())),
            Log::Recovering(directory) => Some(Arc::clone(directory)),
            Log::Gone => None,
        }
    }

    /// Whether others in the ISR could lead what this broker leads.
    pub(crate) fn could_hand_over(&self) -> bool {
        match &self.state.lock().role {
            Role::Leader(leader) => leader.isr().committed().len() > 1,
            Role::Appointed(term) => term.isr.len() > 1,
            Role::Unassigned | Role::Follower(_) => false,
        }
    }

    /// Whether the controller thinks that the log does not work, and all that is wrong with it is that a part is damaged:
    /// then it can follow.
    pub(crate) fn could_follow_damaged(&self) -> bool {
        self.fails_since().is_none() && self.trouble.has_stepped_down.load(Ordering::Relaxed)
    }

    /// The log may work again. Whether the controller thinks that it does not.
    pub(crate) fn trust_again(&self) -> bool {
        self.trouble.fails_since.store(0, Ordering::Relaxed);
        self.trouble.has_stepped_down.load(Ordering::Relaxed)
    }

    /// Whether the log cannot be used as `assignment` wants, and this broker has ended its part: the answer is
    /// `KAFKA_STORAGE_ERROR`. One that leads alone leads on, whatever its disk does.
    pub(crate) fn steps_down_from(self: &Arc<Self>, assignment: &Assignment) -> bool {
        let own_id = self.topic.environment.broker_id;
        let leads = assignment.leader == Some(own_id);
        let is_alone = assignment.isr.iter().all(|&id| id == own_id);
        let is_offline = self.log_directory().is_some_and(|directory| directory.is_offline());
        let is_usable = !is_offline && self.fails_since().is_none();
        if !(leads && is_alone) && is_usable && self.hands_over_damaged(assignment) {
            self.trouble.has_stepped_down.store(true, Ordering::Relaxed);
            self.end_part();
            return true;
        }
        if leads && is_alone || is_usable {
            self.trouble.has_stepped_down.store(false, Ordering::Relaxed);
            return false;
        }
        if !self.trouble.has_stepped_down.swap(true, Ordering::Relaxed) {
            warn!(partition = %self, is_offline, leads, "its log cannot be used: the replica is offline");
        }
        self.trouble.fails_since.fetch_max(1, Ordering::Relaxed);
        self.end_part();
        true
    }

    /// The epoch of the leadership that this broker was told of, unless it has stepped down from its part in it.
    pub(crate) fn current_epoch(&self) -> Option<LeaderEpoch> {
        let (_, epoch) = self.leadership()?;
        (!self.trouble.has_stepped_down.load(Ordering::Relaxed)).then_some(epoch)
    }

    /// Neither leads nor follows until the controller says so again.
    fn end_part(self: &Arc<Self>) {
        let mut effects = Effects::default();
        self.topic.environment.fetchers.leave(self);
        {
            let mut state = self.quiesce(self.state.lock());
            let Some((leader_epoch, partition_epoch)) = state.role.epochs() else { return };
            let following = Following { leader: None, leader_epoch, partition_epoch };
            state.role = Role::Follower(Box::new(following));
            state.give_up_waits(&mut effects);
        }
        effects.fire();
    }
}
