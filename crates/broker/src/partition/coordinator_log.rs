//! How a coordinator uses the partition of an internal topic as its log: it appends batches and is
//! told when they are committed; a new leader reads the log from its start before it answers anyone.

use super::append::{Append, AppendFailure, AppendListener, AppendResult, AppendWaiter, Appended};
use super::read::{Read, ReadFailure};
use super::{Effects, Isolation, Partition};
use bytes::Bytes;
use model::{LeaderEpoch, Offset};
use parking_lot::Mutex;
use protocol::records::validate::{self, Origin, ValidationError};
use std::fmt;
use std::sync::Arc;
use storage::AppendOrigin;

/// Where a coordinator's batch is, once it is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Committed {
    /// Offset of the first record.
    pub(crate) first_offset: Offset,
    /// Offset of the last record (inclusive).
    pub(crate) last_offset: Offset,
}

/// Why a coordinator's batch is not known to be committed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CoordinatorAppendFailure {
    /// The batch may not be appended: in practice it is larger than `max.message.bytes`.
    #[error(transparent)]
    Invalid(#[from] ValidationError),
    /// There is no whole batch in the bytes.
    #[error("not a whole batch")]
    Empty,
    /// It was not appended, or its end is not known.
    #[error(transparent)]
    Append(#[from] AppendFailure),
}

/// A piece of an internal partition's log.
#[derive(Clone, Debug)]
pub(crate) struct CoordinatorRead {
    /// Whole batches, the first of which holds the offset asked for (it may begin below it). Empty at
    /// the log's end. A batch larger than the limit comes whole.
    pub(crate) batches: Bytes,
}

type Done = Box<dyn FnOnce(Result<Committed, CoordinatorAppendFailure>) + Send>;

/// Tells one coordinator of one append.
struct Listener {
    done: Mutex<Option<Done>>,
}

impl Partition {
    /// Appends `batch`, one encoded v2 batch whose base offset is 0, as the leader of `leader_epoch`
    /// (so a coordinator that lost the partition in between is fenced). Epochs of producers are
    /// checked, sequences are not; `max.message.bytes` applies.
    ///
    /// `done` is called exactly once, from any thread, maybe before this returns; hold no lock that it
    /// takes. It says that the batch is committed (`acks=all`), or why it is not. After
    /// [`AppendFailure::NotEnoughReplicasAfterAppend`] and [`AppendFailure::LeadershipLost`] the batch
    /// may be in the log all the same. There is no deadline: with too few replicas it waits.
    pub(crate) fn append_as_coordinator(
        self: &Arc<Self>,
        leader_epoch: LeaderEpoch,
        batch: &Bytes,
        done: impl FnOnce(Result<Committed, CoordinatorAppendFailure>) + Send + 'static,
    ) {
        let now = self.topic.environment.clock.timestamp();
        let rules = self.topic.settings.load().checks.rules(Origin::Coordinator, now);
        let validated = match validate::validate(batch, &rules) {
            Ok(validated) => validated,
            Err(error) => return done(Err(error.into())),
        };
        let append = Append {
            validated,
            origin: AppendOrigin::Coordinator,
            acks_all: true,
            leader_epoch: Some(leader_epoch),
            now,
        };
        let listener = Arc::new(Listener { done: Mutex::new(Some(Box::new(done))) });
        let waiter = AppendWaiter { listener: Arc::clone(&listener) as _, slot: 0 };
        match self.enqueue(append, waiter) {
            Ok(true) => {}
            Ok(false) => listener.end(Err(CoordinatorAppendFailure::Empty)),
            Err(failure) => listener.end(Err(failure.into())),
        }
    }

    /// Whether this broker leads and nobody else can yet, for all that is known (the leader's lease).
    pub(crate) fn is_surely_led(&self) -> bool {
        let wall = self.topic.environment.clock.timestamp();
        self.state.lock().lead_surely(self, None, wall).is_ok()
    }

    /// Reads at most `max_bytes` (but one batch at least) from `offset` up to the log's end, as the
    /// leader of `leader_epoch`. Load until `batches` is empty.
    ///
    /// # Errors
    /// [`ReadFailure`].
    pub(crate) fn read_as_coordinator(
        &self,
        leader_epoch: LeaderEpoch,
        offset: Offset,
        max_bytes: usize,
    ) -> Result<CoordinatorRead, ReadFailure> {
        let clock = &self.topic.environment.clock;
        let read = Read {
            offset,
            max_bytes,
            min_one_message: true,
            isolation: Isolation::LogEnd,
            leader_epoch: Some(leader_epoch),
            last_fetched_epoch: None,
            replica: None,
            at_follower: false,
            may_defer: false,
        };
        let mut effects = Effects::default();
        let answer = self.read(clock.now(), clock.timestamp(), &read, None, &mut effects)?;
        effects.fire();
        Ok(CoordinatorRead { batches: answer.records.to_bytes().map_err(ReadFailure::File)? })
    }
}

impl Listener {
    fn end(&self, result: Result<Committed, CoordinatorAppendFailure>) {
        if let Some(done) = self.done.lock().take() {
            done(result);
        }
    }
}

impl AppendListener for Listener {
    fn appended(self: Arc<Self>, _slot: u32, result: AppendResult) {
        self.end(result.map_err(Into::into).map(|appended| Committed {
            first_offset: appended.first_offset,
            last_offset: appended.last_offset,
        }));
    }

    fn awaits_replicas(self: Arc<Self>, _slot: u32, _appended: Appended) {}
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("coordinator")
    }
}
