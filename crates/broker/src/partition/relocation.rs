//! Moving a partition's log to another log directory (AlterReplicaLogDirs, KIP-113): a `-future` copy
//! catches up with the log and then takes its place.
//!
//! The copy belongs to the mover's thread until it is complete; the partition knows where it goes and
//! how far it is. A move that is called off stays known until its copy is deleted: only then may the
//! next begin, maybe into the same directory.

use super::{Log, Partition, Role, State};
use model::{Offset, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use storage::{AppendError, AppendRecords, AppendRequest, LogDirectory, LogError, PartitionLog};
use storage::{ReadError, ReadRequest, Reserved};
use tracing::{info, warn};

/// What is copied at once.
const STEP_BYTES: usize = 1 << 20;

/// A move under way.
#[derive(Debug)]
pub(super) struct Move {
    to: Arc<LogDirectory>,
    progress: Arc<Progress>,
    /// Where to go once the copy of a move that was called off is deleted.
    next: Option<Arc<LogDirectory>>,
    /// The log was cut there since the copy was last looked at: what the copy has from there on is not
    /// what the log has now.
    cut_to: Option<Offset>,
}

/// How far a copy is.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    is_called_off: AtomicBool,
    bytes: AtomicU64,
    end: AtomicI64,
}

/// A copy that has to catch up.
#[derive(Debug)]
pub(crate) struct Relocation {
    partition: Arc<Partition>,
    copy: Box<PartitionLog>,
    progress: Arc<Progress>,
    /// The copy is of an earlier start: what was cut off the log since is not known.
    is_left: bool,
}

/// Why a move cannot begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MoveRefusal {
    /// There is no log to move.
    #[error("the partition is not here")]
    NotHere,
    /// A log directory is offline.
    #[error("a log directory is offline")]
    Offline,
    /// The copy cannot be made.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Why copying cannot go on.
#[derive(Debug, thiserror::Error)]
enum CopyFailure {
    #[error("the partition has been stopped")]
    Gone,
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("a part of the log cannot be read")]
    File(#[source] std::io::Error),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// What one step came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Copied,
    CaughtUp,
}

impl Partition {
    /// Begins to move the log to `to`, or calls a move to elsewhere off. `None` if nothing is left to
    /// do: it is there, or on its way there.
    ///
    /// # Errors
    /// [`MoveRefusal`].
    pub(crate) fn move_to(
        self: &Arc<Self>,
        to: &Arc<LogDirectory>,
    ) -> Result<Option<Relocation>, MoveRefusal> {
        let now = self.topic.environment.clock.timestamp();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let current = match &state.log {
            Log::Open(log) => Arc::clone(log.directory()),
            Log::Closed(log) => Arc::clone(log.directory()),
            Log::Recovering(directory) => Arc::clone(directory),
            Log::Gone => return Err(MoveRefusal::NotHere),
        };
        let is_there = Arc::ptr_eq(&current, to);
        if let Some(under_way) = &mut state.moving {
            if !Arc::ptr_eq(&under_way.to, to)
                || under_way.progress.is_called_off.load(Ordering::Relaxed)
            {
                under_way.progress.is_called_off.store(true, Ordering::Relaxed);
                under_way.next = (!is_there).then(|| Arc::clone(to));
            }
            return Ok(None);
        }
        if is_there {
            return Ok(None);
        }
        self.begin_move(state, to, now).map(Some)
    }

    fn begin_move(
        self: &Arc<Self>,
        state: &mut State,
        to: &Arc<LogDirectory>,
        now: Timestamp,
    ) -> Result<Relocation, MoveRefusal> {
        let logs = &self.topic.environment.logs;
        if logs.directories().iter().any(|directory| directory.is_offline()) {
            return Err(MoveRefusal::Offline);
        }
        let log = state.open_log(self, now).map_err(|_| MoveRefusal::Offline)?;
        let (topic_id, config) = (log.topic_id(), Arc::clone(log.config()));
        let copy = logs.create_future(self.topic_partition(), topic_id, config, to, now)?;
        info!(partition = %self, to = %to.path().display(), "moves");
        Ok(self.relocation(state, copy, false))
    }

    /// Goes on with a move that a stop interrupted.
    pub(crate) fn resume_move(self: &Arc<Self>, copy: PartitionLog) -> Relocation {
        self.relocation(&mut self.state.lock(), copy, true)
    }

    fn relocation(
        self: &Arc<Self>,
        state: &mut State,
        copy: PartitionLog,
        is_left: bool,
    ) -> Relocation {
        let progress = Arc::new(Progress::default());
        // Nothing is compacted while it moves: what was copied would not be.
        if let Some(cleaning) = &state.cleaning {
            cleaning.call_off();
        }
        state.moving = Some(Box::new(Move {
            to: Arc::clone(copy.directory()),
            progress: Arc::clone(&progress),
            next: None,
            cut_to: None,
        }));
        Relocation { partition: Arc::clone(self), copy: Box::new(copy), progress, is_left }
    }

    /// Where the log is moving to, the copy's size, and how many records it lacks.
    pub(crate) fn move_progress(&self) -> Option<super::ReplicaSize> {
        let state = self.state.lock();
        let under_way = state.moving.as_ref()?;
        let end = state.log.opened().map_or(0, |log| log.log_end_offset().0);
        Some(super::ReplicaSize {
            directory: under_way.to.path().to_owned(),
            bytes: under_way.progress.bytes.load(Ordering::Relaxed),
            offset_lag: 0.max(end - under_way.progress.end.load(Ordering::Relaxed)),
        })
    }

    /// Copies the next piece of the log to the end of `copy`; what an earlier start left of it is compared first.
    fn copy_step(
        &self,
        copy: &mut PartitionLog,
        is_left: &mut bool,
        now: Timestamp,
    ) -> Result<Step, CopyFailure> {
        let (plan, request) = {
            let mut state = self.state.lock();
            if matches!(state.log, Log::Gone) {
                return Err(CopyFailure::Gone);
            }
            if let Some(to) = state.moving.as_mut().and_then(|moving| moving.cut_to.take()) {
                copy.truncate_to(to, now)?;
            }
            let log = state.open_log(self, now).map_err(|_| CopyFailure::Gone)?;
            if *is_left {
                copy.agree_with(log, now)?;
                *is_left = false;
            }
            let (start, end) = (log.log_start_offset(), log.log_end_offset());
            if copy.log_end_offset() < start {
                copy.truncate_fully_and_start_at(start, now)?;
            } else if copy.log_end_offset() > end {
                copy.truncate_to(end, now)?;
            }
            if copy.log_end_offset() == end {
                return Ok(Step::CaughtUp);
            }
            let request = ReadRequest {
                offset: copy.log_end_offset(),
                max_bytes: STEP_BYTES,
                min_one_message: true,
                upper_bound: end,
                want_aborted: false,
            };
            (log.plan_read(request)?, request)
        };
        let records =
            self.run_plan(plan, request)?.records.to_bytes().map_err(CopyFailure::File)?;
        let request = |records| AppendRequest { records: AppendRecords::Replicate(records), now };
        let reserved = match copy.reserve(request(records.clone())) {
            // The log begins within a batch.
            Err(AppendError::UnexpectedOffset { first, last, log_end_offset })
                if copy.log_start_offset() == log_end_offset
                    && (first..=last).contains(&log_end_offset) =>
            {
                copy.truncate_fully_and_start_at(first, now)?;
                copy.reserve(request(records))
            }
            other => other,
        };
        match reserved? {
            Reserved::Pending(pending) => {
                let outcome = pending.write();
                copy.publish(pending, &outcome)?;
                Ok(Step::Copied)
            }
            Reserved::Duplicate(_) | Reserved::Empty => Ok(Step::CaughtUp),
        }
    }

    /// Prepares the disk for the copy's taking the log's place, while that can still fail without harm.
    fn announce(&self, copy: &PartitionLog) -> Result<(), LogError> {
        let current = match &self.state.lock().log {
            Log::Open(log) => Arc::clone(log.directory()),
            Log::Closed(_) | Log::Recovering(_) | Log::Gone => return Ok(()),
        };
        self.topic.environment.logs.announce_promotion(&current, copy)
    }

    /// Puts the copy in the log's place, if it has caught up; gives it back if not.
    fn take_place(
        self: &Arc<Self>,
        copy: Box<PartitionLog>,
    ) -> Result<Option<Box<PartitionLog>>, LogError> {
        let environment = &self.topic.environment;
        let mut guard = self.quiesce(self.state.lock());
        let state = &mut *guard;
        let Log::Open(log) = &state.log else { return Ok(Some(copy)) };
        let was_cut = state.moving.as_ref().is_some_and(|moving| moving.cut_to.is_some());
        if was_cut || log.log_end_offset() != copy.log_end_offset() {
            return Ok(Some(copy));
        }
        let Log::Open(current) = std::mem::replace(&mut state.log, Log::Gone) else {
            unreachable!("just seen");
        };
        let start = current.log_start_offset();
        let delay = current.config().file_delete_delay_ms;
        let now = environment.clock.now();
        let mut moved = environment.logs.promote(*current, *copy, delay, now)?;
        moved.set_config(Arc::clone(&self.topic.settings.load().log));
        if start > moved.log_start_offset() {
            moved.delete_records_before(start)?;
        }
        if let Role::Leader(leader) = &state.role
            && moved.latest_epoch() < Some(leader.leader_epoch())
        {
            // An epoch without records is not in the batches.
            moved.assign_epoch(leader.leader_epoch(), leader.epoch_start_offset())?;
        }
        info!(partition = %self, to = %moved.directory().path().display(), "moved");
        state.log = Log::Open(Box::new(moved));
        state.moving = None;
        Ok(None)
    }

    /// A move came to nothing and its copy is deleted: the next may begin.
    fn move_ended(self: &Arc<Self>) -> Option<Relocation> {
        let now = self.topic.environment.clock.timestamp();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let next = state.moving.take()?.next?;
        match state.log {
            Log::Gone => None,
            Log::Open(_) | Log::Closed(_) | Log::Recovering(_) => {
                self.begin_move(state, &next, now).ok()
            }
        }
    }
}

impl State {
    /// The log was cut to `to`: a copy of it must be too.
    pub(super) fn note_cut(&mut self, to: Offset) {
        if let Some(under_way) = &mut self.moving {
            under_way.cut_to = Some(under_way.cut_to.map_or(to, |earlier| earlier.min(to)));
        }
    }

    /// The log goes away: a move of it is called off.
    pub(super) fn call_move_off(&mut self) {
        if let Some(under_way) = &mut self.moving {
            under_way.progress.is_called_off.store(true, Ordering::Relaxed);
            under_way.next = None;
        }
    }
}

/// What became of a relocation.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The log is where it was to go, or the move came to nothing.
    Done,
    /// The move was called off for another.
    Next(Relocation),
    /// The broker stops: the copy stays for the next start.
    Interrupted,
}

impl Relocation {
    /// Copies until the copy has taken the log's place. `is_stopping` is asked between steps.
    pub(crate) fn run(self, is_stopping: impl Fn() -> bool) -> Ended {
        let Self { partition, mut copy, progress, mut is_left } = self;
        let environment = Arc::clone(&partition.topic.environment);
        loop {
            if is_stopping() {
                if let Err((_, error)) = copy.close() {
                    info!(%partition, %error, "the copy of a move is not closed cleanly");
                }
                return Ended::Interrupted;
            }
            let called_off = progress.is_called_off.load(Ordering::Relaxed);
            let step = match called_off {
                true => Err(CopyFailure::Gone),
                false => {
                    partition.copy_step(&mut copy, &mut is_left, environment.clock.timestamp())
                }
            };
            progress.bytes.store(copy.size_bytes(), Ordering::Relaxed);
            progress.end.store(copy.log_end_offset().0, Ordering::Relaxed);
            let outcome = match step {
                Ok(Step::Copied) => continue,
                Ok(Step::CaughtUp) => {
                    let prepared = flush(&mut copy).and_then(|()| partition.announce(&copy));
                    prepared.map_err(CopyFailure::from)
                }
                Err(failure) => Err(failure),
            };
            if let Err(failure) = outcome {
                if !called_off {
                    info!(%partition, %failure, "a move ends early");
                }
                if let Err(error) =
                    environment.logs.delete(*copy, Duration::ZERO, environment.clock.now())
                {
                    info!(%partition, %error, "the copy of a move cannot be deleted");
                }
                return partition.move_ended().map_or(Ended::Done, Ended::Next);
            }
            match partition.take_place(copy) {
                Ok(None) => return Ended::Done,
                Ok(Some(behind)) => copy = behind,
                Err(error) => {
                    partition.storage_failed(&error);
                    return Ended::Done;
                }
            }
        }
    }
}

/// What the log had on its disk must not get lost by its move.
fn flush(copy: &mut PartitionLog) -> Result<(), LogError> {
    match copy.begin_flush() {
        Some(work) => {
            let outcome = work.run();
            copy.finish_flush(work, outcome)
        }
        None => Ok(()),
    }
}

/// Opens a copy that was found at start.
pub(crate) fn reopen(
    copy: storage::ClosedLog,
    settings: &super::PartitionSettings,
    now: Timestamp,
) -> Option<PartitionLog> {
    match copy.open(Arc::clone(&settings.log), now) {
        Ok(log) => Some(log),
        Err((closed, error)) => {
            warn!(partition = %closed.topic_partition(), %error, "an interrupted move is given up");
            None
        }
    }
}
