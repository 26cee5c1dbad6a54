//! The log of a shard, as its task sees it: the seam between groups and partitions.

use crate::error_codes;
use crate::partition::{Isolation, OffsetLookup, OffsetQuery, Partition};
use ::group::WriteError;
use bytes::Bytes;
use model::{LeaderEpoch, Offset};
use std::fmt::Debug;
use std::sync::Arc;

/// Told, exactly once and from any thread, where a batch is (first and last offset), committed, or why not.
pub(crate) type Written = Box<dyn FnOnce(Result<(Offset, Offset), WriteError>) + Send>;

/// What a shard needs of its partition. Every call fails once this broker no longer leads in `leader_epoch`.
pub(crate) trait OffsetsLog: Debug + Send + Sync {
    /// The first offset that can be read.
    ///
    /// # Errors
    /// Why loading is pointless, for the log.
    fn start(&self, leader_epoch: LeaderEpoch) -> Result<Offset, String>;

    /// Whole batches from the one that holds `offset` on, about `max_bytes` of them, committed or not; empty at the end.
    ///
    /// # Errors
    /// Why loading is pointless, for the log.
    fn read(
        &self,
        leader_epoch: LeaderEpoch,
        offset: Offset,
        max_bytes: usize,
    ) -> Result<Bytes, String>;

    /// Whether nobody else can lead the partition yet, for all that is known: what is in memory is what is committed.
    fn is_surely_led(&self) -> bool;

    /// Appends a batch.
    fn append(&self, leader_epoch: LeaderEpoch, batch: &Bytes, done: Written);
}

impl OffsetsLog for Arc<Partition> {
    fn start(&self, leader_epoch: LeaderEpoch) -> Result<Offset, String> {
        let lookup = OffsetLookup {
            query: OffsetQuery::Earliest,
            isolation: Isolation::LogEnd,
            leader_epoch: Some(leader_epoch),
            any_replica: false,
        };
        let wall = self.topic.environment.clock.timestamp();
        match self.offset_for(wall, lookup) {
            Ok(found) => Ok(found.map_or(Offset(0), |f| f.offset)),
            Err(error) => Err(error.to_string()),
        }
    }

    fn read(
        &self,
        leader_epoch: LeaderEpoch,
        offset: Offset,
        max_bytes: usize,
    ) -> Result<Bytes, String> {
        let read = self.read_as_coordinator(leader_epoch, offset, max_bytes);
        read.map(|r| r.batches).map_err(|error| error.to_string())
    }

    fn is_surely_led(&self) -> bool {
        Partition::is_surely_led(self)
    }

    fn append(&self, leader_epoch: LeaderEpoch, batch: &Bytes, done: Written) {
        self.append_as_coordinator(leader_epoch, batch, move |result| match result {
            Ok(committed) => done(Ok((committed.first_offset, committed.last_offset))),
            Err(failure) => done(Err(error_codes::coordinator_write(&failure))),
        });
    }
}
