//! What is known to be true, for invariants to go by: the committed log of each partition, and its state in the
//! store, as they were when somebody could first tell.

use crate::history::RecordId;
use crate::scheduler::ProcessId;
use broker::ReplicaView;
use coordination::SessionId;
use protocol::records::Batches;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How many bytes a batch of ours inflates to at most.
const MOST_BYTES: usize = 1 << 20;

/// One record of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedRecord {
    /// Its name.
    pub id: RecordId,
    /// The leader epoch of its batch.
    pub epoch: i32,
    /// Of an idempotent producer: id, epoch, and the record's own sequence.
    pub producer: Option<(i64, i16, i32)>,
}

/// A partition's state as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionState {
    /// Who wrote it.
    pub controller_epoch: i64,
    /// -1: nobody.
    pub leader: i32,
    /// One per leadership.
    pub leader_epoch: i64,
    /// Who is in sync.
    pub isr: Vec<i32>,
}

/// What is known of one partition.
#[derive(Clone, Debug, Default)]
pub struct PartitionFacts {
    /// Every record that was ever below a leader's high watermark, by offset.
    pub committed: Vec<LoggedRecord>,
    /// In which leader's epoch each of them became committed.
    pub committed_in: Vec<i32>,
    /// Its state.
    pub state: Option<PartitionState>,
    /// Who may lead besides the ISR (KIP-966).
    pub eligible: Vec<i32>,
    /// The leader epoch and ISR that this list goes with; with others it is void.
    pub eligible_with: (i64, Vec<i32>),
    /// Who might before the write to the store that is being looked at.
    pub eligible_before: Vec<i32>,
    /// How many were in sync, from when on.
    pub isr_sizes: Vec<(Duration, usize)>,
    /// The same as leaders knew it, which hear of it later.
    pub isr_sizes_led: Vec<(Duration, usize)>,
    /// Its replicas.
    pub replicas: Vec<i32>,
}

/// What is known.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Time since the simulation began.
    pub now: Duration,
    /// `min.insync.replicas`
    pub min_insync: usize,
    /// By number.
    pub partitions: BTreeMap<i32, PartitionFacts>,
    /// Replicas and ISR of the partitions that hold what groups commit.
    pub offsets: BTreeMap<i32, (Vec<i32>, Vec<i32>)>,
    /// Of those, partitions and replicas that lost power since they came into the ISR.
    pub doubtful_offsets: BTreeSet<(i32, i32)>,
    /// What `/controller_epoch` says.
    pub controller_epoch: i64,
    /// Partitions and replicas that lost power since they came into the ISR: they count as if they were not in it.
    pub doubtful: BTreeSet<(i32, i32)>,
    /// Who is registered, and with which session.
    pub registered: BTreeMap<i32, SessionId>,
}

impl Facts {
    /// What was committed at `offset`, if anything was.
    #[must_use]
    pub fn committed(&self, partition: i32, offset: i64) -> Option<&LoggedRecord> {
        self.partitions.get(&partition)?.committed.get(usize::try_from(offset).ok()?)
    }

    /// Exclusive end of what became committed in leader epochs before `epoch`.
    #[must_use]
    pub fn committed_before(&self, partition: i32, epoch: i32) -> i64 {
        let committed = self.partitions.get(&partition).map_or(0, |facts| {
            facts.committed_in.iter().rposition(|&own| own < epoch).map_or(0, |at| at + 1)
        });
        i64::try_from(committed).expect("memory ends before")
    }

    /// Exclusive end of what is committed.
    #[must_use]
    pub fn committed_end(&self, partition: i32) -> i64 {
        let committed = self.partitions.get(&partition).map_or(0, |facts| facts.committed.len());
        i64::try_from(committed).expect("memory ends before")
    }
}

/// Reads a replica's log: the records from one offset up to another (exclusive), with their offsets.
/// `None` if it cannot be read.
pub type ReadLog<'a> = &'a dyn Fn(i64, i64) -> Option<Vec<(i64, LoggedRecord)>>;

/// Reads what a log knows of producers: ids, epochs, last sequences. `None` if it is not open.
pub type ReadProducers<'a> = &'a dyn Fn() -> Option<Vec<(i64, i16, i32)>>;

/// A replica after a step of its broker.
#[derive(Clone, Copy)]
pub struct ReplicaStep<'a> {
    /// The broker.
    pub broker: i32,
    /// The partition.
    pub partition: i32,
    /// What the replica was after the step before, of the same process.
    pub before: Option<&'a ReplicaView>,
    /// What it is now.
    pub after: &'a ReplicaView,
    /// Its log.
    pub read: ReadLog<'a>,
    /// What its log knows of producers.
    pub producers: ReadProducers<'a>,
}

/// What a broker tells clients of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The broker.
    pub broker: i32,
    /// Its process: one that starts knows nothing.
    pub process: ProcessId,
    /// The partition.
    pub partition: i32,
    /// Who leads; -1: nobody.
    pub leader: i32,
    /// In which epoch.
    pub leader_epoch: i32,
    /// The version of the state.
    pub partition_epoch: i32,
}

/// The records in `batches` from `from` up to `to`.
#[must_use]
pub fn records(batches: &[u8], from: i64, to: i64) -> Vec<(i64, LoggedRecord)> {
    let mut found = Vec::new();
    for batch in Batches::new(batches) {
        let batch = batch.expect("a log holds batches");
        assert!(batch.verify(), "a log holds a damaged batch: {:?}", batch.header());
        let header = batch.header().expect("batches of our own are of magic 2").clone();
        let stamp = header.producer();
        for record in batch.records(MOST_BYTES).expect("records of ours").iter() {
            let record = record.expect("a record of ours");
            let offset = record.offset.0;
            if offset < from || offset >= to {
                continue;
            }
            let id = record.value.and_then(|value| value.first_chunk::<8>());
            let nth = i32::try_from(offset - header.base_offset).expect("small batches");
            let producer = stamp.and_then(|stamp| {
                let sequence = stamp.base_sequence?;
                Some((stamp.id.0, stamp.epoch.0, sequence.0 + nth))
            });
            found.push((
                offset,
                LoggedRecord {
                    id: u64::from_be_bytes(*id.expect("a record of ours")),
                    epoch: header.partition_leader_epoch,
                    producer,
                },
            ));
        }
    }
    found
}
