//! What a replica holds, for whoever checks a cluster from outside of it: a simulator.

use super::{Log, Partition, Role};
use bytes::Bytes;
use model::{BrokerId, LeaderEpoch, Offset, PartitionEpoch};
use storage::ReadRequest;

/// What a broker is to a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleView {
    /// Nothing: no controller has spoken.
    Unassigned,
    /// The leader, before its log was needed.
    Appointed,
    /// The leader.
    Leader {
        /// Where its log ended when it took office.
        epoch_start_offset: Offset,
    },
    /// A follower, of nobody if there is no leader.
    Follower(Option<BrokerId>),
}

/// One replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaView {
    /// What its broker is to the partition.
    pub role: RoleView,
    /// The leader epoch of that role; -1 without one.
    pub leader_epoch: LeaderEpoch,
    /// The version of the partition's state that its broker knows; -1 without a role.
    pub partition_epoch: PartitionEpoch,
    /// The ISR as the store has it, of a leader.
    pub isr: Vec<BrokerId>,
    /// Its log, if that is open.
    pub log: Option<LogView>,
}

/// One replica's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogView {
    /// First readable offset.
    pub log_start_offset: Offset,
    /// Exclusive end of what is known to be committed here.
    pub high_watermark: Offset,
    /// Exclusive end of what a power failure takes nothing of.
    pub durable_offset: Offset,
    /// Exclusive end.
    pub log_end_offset: Offset,
    /// Where each leader epoch begins.
    pub epochs: Vec<(LeaderEpoch, Offset)>,
}

impl Partition {
    /// What this replica is and has. Changes nothing: a log that is closed stays closed.
    pub(crate) fn view(&self) -> ReplicaView {
        let state = self.state.lock();
        let (leader_epoch, partition_epoch) =
            state.role.epochs().unwrap_or((LeaderEpoch(-1), PartitionEpoch(-1)));
        let role = match &state.role {
            Role::Unassigned => RoleView::Unassigned,
            Role::Appointed(_) => RoleView::Appointed,
            Role::Leader(leader) => {
                RoleView::Leader { epoch_start_offset: leader.epoch_start_offset() }
            }
            Role::Follower(following) => RoleView::Follower(following.leader),
        };
        let isr = state.role.leader().map_or_else(Vec::new, |l| l.isr().committed().to_vec());
        let log = match &state.log {
            Log::Open(log) => Some(LogView {
                log_start_offset: log.log_start_offset(),
                high_watermark: log.high_watermark(),
                durable_offset: log.durable_offset(),
                log_end_offset: log.log_end_offset(),
                epochs: log.epoch_starts().to_vec(),
            }),
            Log::Closed(_) | Log::Recovering(_) | Log::Gone => None,
        };
        ReplicaView { role, leader_epoch, partition_epoch, isr, log }
    }

    /// The producers that the log remembers, with their epochs and last sequences; `None` if it is not open.
    pub(crate) fn remembered_producers(&self) -> Option<Vec<(i64, i16, i32)>> {
        let state = self.state.lock();
        let Log::Open(log) = &state.log else { return None };
        let producers = log.producers().into_iter();
        let known = producers.map(|producer| {
            let last = producer.last_sequence.map_or(-1, |sequence| sequence.0);
            (producer.producer_id.0, producer.epoch.0, last)
        });
        Some(known.collect())
    }

    /// The batches from the one that holds `from` on, as far as they begin below `to` and about `max_bytes`
    /// of them; `None` if the log is not open or cannot be read there.
    pub(crate) fn batches(&self, from: Offset, to: Offset, max_bytes: usize) -> Option<Bytes> {
        let request = ReadRequest {
            offset: from,
            max_bytes,
            min_one_message: true,
            upper_bound: to,
            want_aborted: false,
        };
        let plan = self.state.lock().log.opened()?.plan_read(request).ok()?;
        self.run_plan(plan, request).ok()?.records.to_bytes().ok()
    }
}
