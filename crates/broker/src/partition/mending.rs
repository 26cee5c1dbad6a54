//! A part of the log that is damaged (decision 20): who leads hands over if somebody else can lead, and who follows makes the
//! segment anew of what the leader has, by the thread that fetches from it.
//!
//! A damaged replica stays in the ISR: it has all that is committed but for what lies in one segment, and may lead if
//! nobody else can.

use super::{Log, Partition, Role, State};
use crate::cleaner::CleaningControl;
use crate::partition::Assignment;
use bytes::Bytes;
use model::{BrokerId, Instant, LeaderEpoch, Offset};
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use storage::{CleanedGroup, CleaningError, LogError, MendingError, PartitionLog};
use tracing::{info, warn};

/// Who handed over leads on for so long at least if it is elected again: the others may be damaged too.
const HAND_OVER_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// When a leadership was last handed over because of damage, and which: seconds of the clock, at least 1, and its epoch. An idle
/// partition is small.
#[derive(Debug, Default)]
pub(super) struct HandedOver(AtomicU64);

impl HandedOver {
    fn get(&self) -> Option<(Instant, LeaderEpoch)> {
        let packed = self.0.load(Ordering::Acquire);
        let [a, b, c, d, epoch @ ..] = packed.to_be_bytes();
        let at = Duration::from_secs(u32::from_be_bytes([a, b, c, d]).into());
        (packed != 0).then(|| (Instant(at), LeaderEpoch(i32::from_be_bytes(epoch))))
    }

    fn set(&self, now: Instant, epoch: LeaderEpoch) {
        let seconds = u32::try_from(now.0.as_secs()).unwrap_or(u32::MAX).max(1);
        let epoch = u32::from_be_bytes(epoch.0.to_be_bytes());
        self.0.store(u64::from(seconds) << 32 | u64::from(epoch), Ordering::Release);
    }
}

/// Segments that are being made anew.
#[derive(Debug)]
pub(super) struct Mending {
    /// Of what the leader of this epoch has.
    epoch: LeaderEpoch,
    mending: Box<storage::Mending>,
}

/// What is to be asked of the leader to mend the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MendingWish {
    /// Nothing is damaged, or this broker does not follow that leader.
    Nothing,
    /// Nothing now: it is not committed yet, or the log is in other hands.
    Later,
    /// What it has from this offset on.
    From(Offset),
}

enum Fed {
    Partly(Box<storage::Mending>),
    Complete(CleanedGroup),
}

impl Partition {
    /// A part of the log was found to be damaged. Cheap; the partition's lock may be held.
    pub(crate) fn note_damage(&self) {
        if !self.trouble.is_damaged.swap(true, Ordering::AcqRel) {
            let environment = &self.topic.environment;
            environment.troubles.look();
            environment.fetchers.mend(&self.topic.name, self.index);
        }
    }

    /// Whether a part of the log is known to be damaged.
    pub(crate) fn is_damaged(&self) -> bool {
        self.trouble.is_damaged.load(Ordering::Acquire) && {
            let state = self.state.lock();
            self.damages(&state)
        }
    }

    /// As [`Self::is_damaged`]. What was damaged may have become too old meanwhile.
    fn damages(&self, state: &State) -> bool {
        if !self.trouble.is_damaged.load(Ordering::Acquire) {
            return false;
        }
        let is_damaged = state.log.opened().is_some_and(PartitionLog::is_damaged);
        if !is_damaged {
            self.trouble.is_damaged.store(false, Ordering::Release);
        }
        is_damaged
    }

    /// Whether this broker leads with a damaged log, and could hand over now.
    pub(crate) fn could_hand_over_damaged(&self) -> bool {
        let state = self.state.lock();
        let (isr, epoch) = match &state.role {
            Role::Leader(leader) => (leader.isr().committed().to_vec(), leader.leader_epoch()),
            Role::Appointed(term) => (term.isr.clone(), term.leader_epoch),
            Role::Unassigned | Role::Follower(_) => return false,
        };
        self.damages(&state) && self.may_hand_over(&isr, epoch)
    }

    /// Whether `assignment` makes this broker lead with a damaged log, and it rather hands over.
    pub(super) fn hands_over_damaged(&self, assignment: &Assignment) -> bool {
        let environment = &self.topic.environment;
        let epoch = assignment.leader_epoch;
        let hands_over = assignment.leader == Some(environment.broker_id)
            && self.is_damaged()
            && self.may_hand_over(&assignment.isr, epoch);
        if hands_over && self.handed_over.get().is_none_or(|(_, last)| last != epoch) {
            warn!(partition = %self, leader_epoch = epoch.0, "its log is damaged: hands the leadership over");
            self.handed_over.set(environment.clock.now(), epoch);
        }
        hands_over
    }

    fn may_hand_over(&self, isr: &[BrokerId], epoch: LeaderEpoch) -> bool {
        let environment = &self.topic.environment;
        let image = environment.image.load();
        let is_other = |&&id: &&BrokerId| id != environment.broker_id;
        let is_another_there = isr.iter().filter(is_other).any(|&id| image.broker(id).is_some());
        let is_early = |(at, last): (Instant, LeaderEpoch)| {
            // What it was told of before the controller knew is no new leadership.
            last != epoch && environment.clock.now().since(at) < HAND_OVER_INTERVAL
        };
        is_another_there && !self.handed_over.get().is_some_and(is_early)
    }

    /// What to ask the leader of `epoch` for, so that the log is whole again.
    pub(crate) fn mending_wish(self: &Arc<Self>, epoch: LeaderEpoch) -> MendingWish {
        if !self.is_damaged() {
            return MendingWish::Nothing;
        }
        // Only what is durable is replaced.
        self.flush();
        let wall = self.topic.environment.clock.timestamp();
        let mut guard = match self.follow(epoch, wall) {
            Ok(guard) => guard,
            Err(super::FollowFailure::Ended) => return MendingWish::Nothing,
            Err(_) => return MendingWish::Later,
        };
        if guard.cleaning.is_some() || guard.moving.is_some() {
            return MendingWish::Later;
        }
        if guard.mending.as_ref().is_some_and(|mending| mending.epoch != epoch) {
            guard.give_up_mending();
        }
        if guard.mending.is_none() {
            let Log::Open(log) = &mut guard.log else { return MendingWish::Later };
            match log.begin_mending(wall) {
                Ok(Some(mending)) => {
                    let mending = Mending { epoch, mending: Box::new(mending) };
                    guard.mending = Some(Box::new(mending));
                }
                Ok(None) => return MendingWish::Later,
                Err(failure) => {
                    self.storage_failed(&failure);
                    return MendingWish::Later;
                }
            }
        }
        guard
            .mending
            .as_ref()
            .map_or(MendingWish::Later, |own| MendingWish::From(own.mending.wanted()))
    }

    /// Takes what the leader of `epoch` has where [`Self::mending_wish`] said. Whether that was of use.
    pub(crate) fn mend(self: &Arc<Self>, epoch: LeaderEpoch, records: &Bytes) -> bool {
        let wall = self.topic.environment.clock.timestamp();
        let Ok(mut guard) = self.follow(epoch, wall) else { return false };
        if guard.cleaning.is_some() {
            return false;
        }
        let Some(own) = guard.mending.take() else { return false };
        if own.epoch != epoch {
            own.mending.discard();
            return false;
        }
        let offsets = own.mending.offsets();
        // As for compaction: whoever takes the log away waits.
        let control = Arc::new(CleaningControl::default());
        guard.cleaning = Some(Arc::clone(&control));
        let outcome = MutexGuard::unlocked(&mut guard, || feed(own.mending, records, wall));
        guard.cleaning = None;
        self.writer_left.notify_all();
        let goes_on = !control.is_called_off() && guard.role.followed_epoch() == Some(epoch);
        let group = match outcome {
            Ok(Fed::Partly(mending)) if goes_on => {
                guard.mending = Some(Box::new(Mending { epoch, mending }));
                return true;
            }
            Ok(Fed::Partly(mending)) => {
                mending.discard();
                return false;
            }
            Ok(Fed::Complete(group)) if !goes_on => {
                group.discard();
                return false;
            }
            Ok(Fed::Complete(group)) => group,
            Err(error) => {
                self.mending_failed(&mut guard, error);
                return false;
            }
        };
        if let Some(log) = guard.log.opened_mut()
            && let Err(failure) = log.compact_anew_from(offsets.start)
        {
            self.storage_failed(&failure);
            drop(guard);
            group.discard();
            return false;
        }
        drop(guard);
        if self.swap(group).is_err() {
            return false;
        }
        info!(
            partition = %self, from = offsets.start.0, to = offsets.end.0, leader_epoch = epoch.0,
            "mended: what was damaged was made anew of what the leader has"
        );
        let mut state = self.state.lock();
        state.is_uncleanable = false;
        state.is_clean_if_closed = false;
        true
    }

    fn mending_failed(&self, state: &mut State, error: MendingError) {
        match error {
            MendingError::Refused(reason) => {
                warn!(partition = %self, reason, "the log is not mended now");
            }
            MendingError::Log(LogError::Disk(error))
                if error.is_full() && !error.is_failed_sync() =>
            {
                info!(partition = %self, %error, "the log is mended later");
            }
            MendingError::Log(failure) => {
                self.storage_failed(&failure);
                if let Some(log) = state.log.opened_mut() {
                    log.cleaning_failed(CleaningError::Log(failure));
                }
            }
        }
    }
}

impl State {
    /// Removes what was written to mend the log.
    pub(super) fn give_up_mending(&mut self) {
        if let Some(own) = self.mending.take() {
            own.mending.discard();
        }
    }
}

fn feed(
    mut mending: Box<storage::Mending>,
    records: &Bytes,
    wall: model::Timestamp,
) -> Result<Fed, MendingError> {
    match mending.take(records, wall) {
        Ok(true) => Ok(Fed::Complete(mending.finish(wall)?)),
        Ok(false) => Ok(Fed::Partly(mending)),
        Err(error) => {
            mending.discard();
            Err(error)
        }
    }
}

#[test]
fn which_leadership_was_handed_over_is_known_and_when() {
    let handed_over = HandedOver::default();
    assert_eq!(handed_over.get(), None);
    for (second, epoch) in [(1, 0), (77, i32::MAX), (90, -1)] {
        let (at, epoch) = (Instant(Duration::from_secs(second)), LeaderEpoch(epoch));
        handed_over.set(at, epoch);
        assert_eq!(handed_over.get(), Some((at, epoch)));
    }
}
