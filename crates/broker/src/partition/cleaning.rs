//! Compacting a partition's log, by a cleaner's thread. Appends and reads go on meanwhile: the lock is
//! held to look at the log and to put new segments in the place of old ones in memory.
//!
//! Whoever takes the log away, or moves it, calls compaction off and waits until it is: it writes files
//! of the log without the lock.

use super::{Log, Partition, State};
use crate::cleaner::CleaningControl;
use model::Timestamp;
use parking_lot::MutexGuard;
use std::sync::Arc;
use storage::{CleanedGroup, Cleaning, CleaningBuffers, CleaningError, CleaningState};
use storage::{CleaningTotals, Consequence, LogView, Pace};
use tracing::{info, warn};

impl Partition {
    /// How much of the log is to be compacted, if it is due. Opens the log if there may be something to
    /// compact, and flushes what is complete.
    pub(crate) fn cleaning_due(self: &Arc<Self>, now: Timestamp) -> Option<CleaningState> {
        if !self.is_compacted() || self.is_clean_and_closed() {
            return None;
        }
        let mut view = self.cleanable(&mut self.state.lock(), now)?;
        if view.awaits_flush() {
            self.flush();
            view = self.cleanable(&mut self.state.lock(), now)?;
        }
        match view.state(now) {
            Ok(state) => state.is_due(view.config().min_cleanable_dirty_ratio).then_some(state),
            Err(error) => {
                self.cleaning_failed(CleaningError::Log(error));
                None
            }
        }
    }

    /// A log that nobody opened is as it was: one look at its directory is enough for as long.
    fn is_clean_and_closed(&self) -> bool {
        let mut state = self.state.lock();
        let Log::Closed(log) = &state.log else { return false };
        // What cannot be told is seen when the log is opened.
        let is_clean = state.is_clean_if_closed || log.may_be_dirty().is_ok_and(|dirty| !dirty);
        state.is_clean_if_closed = is_clean;
        is_clean
    }

    /// Whether the topic's records are compacted.
    pub(crate) fn is_compacted(&self) -> bool {
        self.topic.settings.load().log.cleanup_policy.compact
    }

    /// The log, if it may be compacted now.
    fn cleanable(&self, state: &mut State, now: Timestamp) -> Option<LogView> {
        let is_free = !state.is_uncleanable
            && state.cleaning.is_none()
            && state.mending.is_none()
            && state.moving.is_none();
        // Unassigned logs belong to nobody: their topic may be about to be deleted.
        if !is_free || state.role.epochs().is_none() {
            return None;
        }
        state.open_log(self, now).ok()?.view()
    }

    /// Reserves the log for compaction by one thread, if it is still due. [`Partition::clean`] must follow.
    pub(crate) fn reserve_cleaning(
        self: &Arc<Self>,
        control: &Arc<CleaningControl>,
        now: Timestamp,
    ) -> bool {
        let mut state = self.state.lock();
        let is_free = self.is_compacted() && self.cleanable(&mut state, now).is_some();
        if is_free {
            state.cleaning = Some(Arc::clone(control));
        }
        is_free
    }

    /// Compacts the log that was reserved. Whether anything was compacted.
    pub(crate) fn clean(
        self: &Arc<Self>,
        buffers: CleaningBuffers,
        seed: u64,
        pace: &mut dyn Pace,
    ) -> bool {
        let now = self.topic.environment.clock.timestamp();
        let outcome = self.clean_reserved(buffers, seed, now, pace);
        self.state.lock().cleaning = None;
        self.writer_left.notify_all();
        match outcome {
            Ok(None) => false,
            Ok(Some((state, end, totals))) => {
                let CleaningTotals { bytes_before, bytes_after, keys, keyless } = totals;
                let from = state.first_dirty.0;
                info!(partition = %self, from, to = end.0, bytes_before, bytes_after, keys, "compacted");
                if keyless > 0 {
                    warn!(partition = %self, keyless, "records without a key were dropped: a compacted topic keeps none");
                }
                true
            }
            Err(error) => {
                self.cleaning_failed(error);
                false
            }
        }
    }

    fn clean_reserved(
        self: &Arc<Self>,
        buffers: CleaningBuffers,
        seed: u64,
        now: Timestamp,
        pace: &mut dyn Pace,
    ) -> Result<Option<(CleaningState, model::Offset, CleaningTotals)>, CleaningError> {
        let Some(view) = self.state.lock().log.opened().and_then(storage::PartitionLog::view)
        else {
            return Ok(None);
        };
        let state = view.state(now)?;
        if !state.is_due(view.config().min_cleanable_dirty_ratio) {
            return Ok(None);
        }
        let mut cleaning = Cleaning::begin(view, state, buffers, seed, now, pace)?;
        while let Some(group) = cleaning.clean_next(pace)? {
            self.swap(group)?;
        }
        let directory = {
            let mut state = self.state.lock();
            let log = state.log.opened_mut().ok_or(CleaningError::Interrupted)?;
            if !log.end_cleaning(&cleaning) {
                return Err(CleaningError::Interrupted);
            }
            Arc::clone(log.directory())
        };
        directory.checkpoint_cleaner_offsets();
        Ok(Some((state, cleaning.end_offset(), cleaning.totals())))
    }

    /// Puts compacted segments in the place of those that they were made of. The renames before and
    /// after happen without the lock; meanwhile nobody takes the log away.
    pub(super) fn swap(self: &Arc<Self>, group: CleanedGroup) -> Result<(), CleaningError> {
        let mut guard = self.state.lock();
        let begun = match &mut guard.log {
            Log::Open(log) => log.begin_swap(group),
            Log::Closed(_) | Log::Recovering(_) | Log::Gone => Err(group),
        };
        let mut swap = match begun {
            Ok(swap) => swap,
            Err(group) => {
                drop(guard);
                group.discard();
                return Err(CleaningError::Interrupted);
            }
        };
        guard.is_swapping = true;
        let announced = MutexGuard::unlocked(&mut guard, || swap.announce());
        let outcome = match announced {
            Ok(()) => {
                let files = guard.swapping_log().swap(&mut swap);
                MutexGuard::unlocked(&mut guard, || swap.complete(&files))
            }
            Err(error) => {
                let retreated = MutexGuard::unlocked(&mut guard, || swap.retreat());
                guard.end_swap(retreated);
                drop(guard);
                self.writer_left.notify_all();
                return Err(CleaningError::Log(error.into()));
            }
        };
        let is_complete = outcome.is_ok();
        guard.end_swap(outcome);
        drop(guard);
        self.writer_left.notify_all();
        // What went wrong took the directory offline, and was said.
        if is_complete { Ok(()) } else { Err(CleaningError::Interrupted) }
    }

    fn cleaning_failed(&self, error: CleaningError) {
        let source = std::error::Error::source(&error).map(ToString::to_string);
        match error.consequence() {
            Consequence::None => return,
            Consequence::Postponed => {
                info!(partition = %self, %error, source, "compaction is postponed");
            }
            Consequence::Uncleanable => {
                self.state.lock().is_uncleanable = true;
                // If that is why, it can be mended.
                self.note_damage();
                warn!(partition = %self, %error, source, "the log is not compacted any more until a restart");
            }
            Consequence::Offline => self.storage_failed(&error),
        }
        if let Log::Open(log) = &mut self.state.lock().log {
            log.cleaning_failed(error);
        }
    }

    /// Calls a compaction off, or mending, and waits until nothing of it touches the log any more.
    pub(super) fn end_cleaning<'a>(
        &'a self,
        mut guard: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        while let Some(cleaning) = &guard.cleaning {
            cleaning.call_off();
            self.writer_left.wait(&mut guard);
        }
        guard.give_up_mending();
        guard
    }
}

impl State {
    fn swapping_log(&mut self) -> &mut storage::PartitionLog {
        self.log.opened_mut().expect("nobody takes a log away while its segments are swapped")
    }

    fn end_swap(&mut self, outcome: Result<(), storage::DiskError>) {
        self.swapping_log().end_swap(outcome);
        self.is_swapping = false;
    }
}
