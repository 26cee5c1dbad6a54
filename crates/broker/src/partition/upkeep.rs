//! What janitor and committer do to a partition from time to time.

use super::append::Effects;
use super::{Log, Partition};
use crate::recovery::time_consuming;
use model::{Offset, Timestamp};
use parking_lot::MutexGuard;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use storage::{LogDirectory, PartitionLog, ScrubError, ScrubSegment, Scrubbed};

/// A log that nobody opened since the start is looked at for old segments this often at most.
const CLOSED_RETENTION_INTERVAL: Duration = Duration::from_secs(60 * 60);

impl Partition {
    /// Removes segments that are too old or too many.
    pub(crate) fn apply_retention(self: &Arc<Self>, now: Timestamp) {
        let mut effects = Effects::default();
        let deletes = self.topic.settings.load().log.cleanup_policy.delete;
        {
            let mut state = self.quiesce(self.state.lock());
            let is_closed = match &state.log {
                Log::Open(_) => false,
                Log::Closed(_) if state.retention_due.is_some_and(|due| now < due) => return,
                // Nothing to remove, whatever the time is.
                Log::Closed(log) if !deletes || log.size_bytes().is_ok_and(|size| size == 0) => {
                    return;
                }
                Log::Closed(_) => true,
                Log::Recovering(_) | Log::Gone => return,
            };
            // Compaction would have worked for nothing; it removes what is too old when it has ended.
            if state.cleaning.is_some() {
                return;
            }
            // Unassigned logs belong to nobody: their topic may be about to be deleted.
            if is_closed && state.role.epochs().is_none() {
                return;
            }
            let Ok(log) = state.open_log(self, now) else { return };
            if log.is_offline() {
                return;
            }
            let start = log.log_start_offset();
            if let Err(failure) = log.apply_retention(now) {
                self.storage_failed(&failure);
            }
            if log.log_start_offset() != start {
                state.tell_of_change(&mut effects);
            }
            let wait = i64::try_from(CLOSED_RETENTION_INTERVAL.as_millis()).unwrap_or(i64::MAX);
            state.retention_due = Some(Timestamp(now.0.saturating_add(wait)));
        }
        effects.fire();
    }

    /// Where the log is and how many bytes of it have to be read, if recovering it takes long.
    pub(crate) fn unrecovered(&self) -> Option<(Arc<LogDirectory>, u64)> {
        let state = self.state.lock();
        let Log::Closed(log) = &state.log else { return None };
        Some((Arc::clone(log.directory()), time_consuming(log)?))
    }

    /// Recovers the log, if it has to be; others are refused meanwhile.
    pub(crate) fn recover(&self) {
        let closed = {
            let mut state = self.state.lock();
            let directory = match &state.log {
                Log::Closed(log) if log.needs_recovery() => Arc::clone(log.directory()),
                Log::Closed(_) | Log::Open(_) | Log::Recovering(_) | Log::Gone => return,
            };
            let log = std::mem::replace(&mut state.log, Log::Recovering(directory));
            let Log::Closed(closed) = log else { unreachable!("just seen") };
            closed
        };
        let config = Arc::clone(&self.topic.settings.load().log);
        let (closed, outcome) = closed.recover(config, self.topic.environment.clock.timestamp());
        self.state.lock().log = Log::Closed(closed);
        self.writer_left.notify_all();
        if let Err(failure) = outcome {
            self.storage_failed(&failure);
        }
    }

    /// Has `look` look at those segments that nobody has looked at since `due`. What is damaged in a log that is not open is
    /// looked at again in the log.
    pub(crate) fn scrub(
        self: &Arc<Self>,
        due: Timestamp,
        look: &mut dyn FnMut(&ScrubSegment) -> Result<Scrubbed, ScrubError>,
    ) -> Result<(), ScrubError> {
        let (segments, is_open) = {
            let state = self.state.lock();
            match &state.log {
                Log::Open(log) => (log.scrub(), true),
                Log::Closed(log) => match log.scrub() {
                    Ok(segments) => (segments, false),
                    // What is wrong is said when the log is opened.
                    Err(_) => return Ok(()),
                },
                Log::Recovering(_) | Log::Gone => return Ok(()),
            }
        };
        let mut is_damaged = false;
        for segment in segments.iter().filter(|segment| segment.is_due(due)) {
            is_damaged |= look(segment)?.damaged > 0;
        }
        if !is_damaged {
            return Ok(());
        }
        if !is_open {
            let segments = {
                let mut state = self.state.lock();
                let now = self.topic.environment.clock.timestamp();
                let log = state.open_log(self, now).ok();
                log.map_or_else(Vec::new, |log| log.scrub())
            };
            segments.iter().try_for_each(|segment| look(segment).map(drop))?;
        }
        self.note_damage();
        Ok(())
    }

    /// Forgets producers that have been silent for too long.
    pub(crate) fn expire_producers(&self, now: Timestamp) {
        if let Log::Open(log) = &mut self.state.lock().log {
            log.expire_producers(now);
        }
    }

    /// Lets go of what an idle partition does without, if it was not used since the last call.
    pub(crate) fn release_if_idle(&self) {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.was_used) {
            return;
        }
        if let Some(work) = &state.work
            && work.is_idle()
        {
            state.work = None;
        }
        if state.work.is_none()
            && let Log::Open(log) = &mut state.log
        {
            log.release_idle();
        }
    }

    /// Asks the committer for a flush if a setting wants one now.
    pub(crate) fn flush_if_due(self: &Arc<Self>, now: Timestamp) {
        let directory = {
            let state = self.state.lock();
            let log = state.log.opened().filter(|log| log.flush_is_due(now));
            log.map(|log| Arc::clone(log.directory()))
        };
        if let Some(directory) = directory {
            self.ask_for_flush_in(&directory);
        }
    }

    /// Has the committer flush the log.
    pub(crate) fn ask_for_flush(self: &Arc<Self>) {
        if let Some(directory) = self.log_directory() {
            self.ask_for_flush_in(&directory);
        }
    }

    /// Has the committer flush the log, which is in `directory`. Cheap, also while that was asked for already;
    /// the partition's lock may be held.
    pub(super) fn ask_for_flush_in(self: &Arc<Self>, directory: &Arc<LogDirectory>) {
        if !self.flush_is_asked.swap(true, Ordering::AcqRel) {
            self.topic.environment.committer.ask(directory, self);
        }
    }

    /// Whether the topic wants the log flushed (`flush.messages`) before anybody is told how far it goes.
    pub(crate) fn awaits_flush(&self) -> bool {
        self.state.lock().log.opened().is_some_and(PartitionLog::exceeds_flush_messages)
    }

    /// Makes everything durable that was published before, then answers the appends that waited for it; first
    /// waits for a flush that is under way. Called by the committer, by followers and by cleaners.
    ///
    /// Returns the log's durable end; none if the log cannot be used, or is somebody else's by now.
    pub(crate) fn flush(self: &Arc<Self>) -> Option<Offset> {
        let mut effects = Effects::default();
        let mut state = self.state.lock();
        // One at a time: what one has to sync for the first time (a name, an epoch) the next relies on.
        while state.is_flushing {
            self.writer_left.wait(&mut state);
        }
        // From here on it can be asked for again; what was published until now is in this one.
        self.flush_is_asked.store(false, Ordering::Release);
        if let Some(work) = state.log.opened_mut().and_then(|log| log.begin_flush()) {
            state.is_flushing = true;
            let outcome = MutexGuard::unlocked(&mut state, || work.run());
            state.is_flushing = false;
            let finished = match (state.log.opened_mut(), outcome) {
                (Some(log), outcome) => log.finish_flush(work, outcome),
                (None, Ok(())) => Ok(()),
                (None, Err(failure)) => Err(work.failed(failure)),
            };
            match finished {
                Ok(()) => state.count_flushed(self, &mut effects),
                Err(failure) => self.storage_failed(&failure),
            }
            self.writer_left.notify_all();
        }
        if let Some(directory) = state.answer_flushed(&mut effects) {
            self.ask_for_flush_in(&directory);
        }
        let usable = state.log.opened().filter(|log| !log.is_offline());
        let durable = usable.map(PartitionLog::durable_offset);
        drop(state);
        effects.fire();
        durable
    }

    /// Forgets whoever waits; nobody is answered.
    pub(crate) fn abandon(&self) {
        // Dropped without the lock: it may hold whoever has the partition.
        let work = self.state.lock().work.take();
        for subscription in work.iter().flat_map(|work| &work.subscriptions) {
            drop(subscription.watcher.end_any_wait());
        }
    }

    /// Flushes what is not durable and closes the log, for a clean stop. The partition answers nothing
    /// any more.
    pub(crate) fn close(self: &Arc<Self>) -> Result<(), storage::LogError> {
        match self.stop() {
            Some(super::OpenOrClosed::Open(log)) => {
                log.close().map(drop).map_err(|(_, error)| error)
            }
            Some(super::OpenOrClosed::Closed(_)) | None => Ok(()),
        }
    }
}
