//! What janitor and committer do to a partition from time to time.

use super::append::{Effects, Unflushed};
use super::{Log, Partition};
use model::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use storage::PartitionLog;

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
                Log::Gone => return,
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

    /// Whether a flush setting asks for a flush now.
    pub(crate) fn flush_is_due(&self, now: Timestamp) -> bool {
        self.state.lock().log.opened().is_some_and(|log| log.flush_is_due(now))
    }

    /// Makes everything published durable, then answers the appends that waited for it. Called by the
    /// committer and by cleaners.
    pub(crate) fn flush(&self) {
        let mut effects = Effects::default();
        let (work, mut unflushed) = {
            let mut state = self.state.lock();
            let unflushed = match &mut state.work {
                Some(work) => std::mem::take(&mut work.unflushed),
                None => Vec::new(),
            };
            (state.log.opened_mut().and_then(|log| log.begin_flush()), unflushed)
        };
        let mut flushed = true;
        if let Some(work) = work {
            let outcome = work.run();
            let mut state = self.state.lock();
            if let Some(log) = state.log.opened_mut()
                && let Err(failure) = log.finish_flush(work, outcome)
            {
                flushed = false;
                self.storage_failed(&failure);
            }
            // Appends that were committed meanwhile, and that this flush has made durable.
            let durable = state.log.opened().map(PartitionLog::durable_offset);
            if let (Some(work), Some(durable), true) = (&mut state.work, durable, flushed) {
                let is_durable = |waited: &mut Unflushed| waited.1.last_offset < durable;
                unflushed.extend(work.unflushed.extract_if(.., is_durable));
            }
        }
        effects.answer_flushed(unflushed, flushed);
        effects.fire();
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
            Some(super::OpenOrClosed::Open(log)) => log.close().map(drop),
            Some(super::OpenOrClosed::Closed(_)) | None => Ok(()),
        }
    }
}
