//! What clients did and saw, in the order in which they saw it.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Names a record for ever: which producer, and its how manyeth.
pub type RecordId = u64;

/// Something that a client knows now.
#[derive(Clone, Debug)]
pub enum Seen {
    /// Records were acknowledged.
    Acked {
        /// The partition.
        partition: i32,
        /// Where the first is said to be.
        offset: i64,
        /// Which, in order.
        records: Vec<RecordId>,
        /// What the producer waited for: 1, or -1 for all in-sync replicas.
        acks: i16,
        /// When they were sent.
        sent_at: Duration,
    },
    /// Records were refused with NOT_ENOUGH_REPLICAS: they were not appended.
    Refused {
        /// The partition.
        partition: i32,
        /// Which.
        records: Vec<RecordId>,
    },
    /// A record was read as committed.
    Read {
        /// The partition.
        partition: i32,
        /// Where.
        offset: i64,
        /// The epoch of its batch.
        epoch: i32,
        /// Its value.
        record: RecordId,
    },
    /// A record was read by the last client, once everything is whole.
    Audited {
        /// The partition.
        partition: i32,
        /// Where.
        offset: i64,
        /// Its value.
        record: RecordId,
    },
    /// A member of the group has a share of the partitions.
    Assigned {
        /// In which generation.
        generation: i32,
        /// Who: its instance's name if it has one, or its member id.
        member: String,
        /// Which.
        partitions: Vec<i32>,
    },
    /// A member is about to commit.
    Committing {
        /// The partition.
        partition: i32,
        /// Where the group is to stand.
        offset: i64,
    },
    /// A commit was acknowledged.
    Committed {
        /// As whose member.
        generation: i32,
        /// The partition.
        partition: i32,
        /// Where the group stands.
        offset: i64,
        /// When it was sent.
        sent_at: Duration,
    },
    /// The coordinator said where the group stands.
    GroupStands {
        /// The partition.
        partition: i32,
        /// Where; -1: nothing was committed.
        offset: i64,
        /// When it was asked.
        asked_at: Duration,
    },
    /// A static member was told that another has its place, and no request of its own to join was unanswered lately.
    Fenced {
        /// Its instance.
        instance: String,
    },
    /// A batch of an idempotent producer was refused for its sequence or its producer, though all before it was acknowledged.
    OutOfOrder {
        /// The partition.
        partition: i32,
        /// Its first record.
        record: RecordId,
        /// The error.
        code: i16,
    },
    /// A producer was given an id.
    ProducerId {
        /// The id.
        id: i64,
        /// Its epoch.
        epoch: i16,
    },
    /// A leader said where the log ends.
    Latest {
        /// The partition.
        partition: i32,
        /// Where.
        offset: i64,
        /// When it was asked.
        asked_at: Duration,
    },
}

/// How often clients had what answers.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Acknowledgements.
    pub acked: u64,
    /// Errors, by code.
    pub refused: BTreeMap<i16, u64>,
    /// Requests without an answer.
    pub unknown: u64,
    /// Acknowledgements of batches that had been sent before.
    pub repeated: u64,
    /// Records read.
    pub read: u64,
    /// Commits of group members that were acknowledged.
    pub committed: u64,
}

/// What all clients see; clones share it.
#[derive(Clone, Debug, Default)]
pub struct History(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    new: Vec<Seen>,
    counts: Counts,
    is_producing: bool,
    /// What members of the group believe to be theirs.
    shares: BTreeMap<u8, Option<Share>>,
}

/// A member's generation, and its partitions.
pub type Share = (i32, Vec<i32>);

impl History {
    /// Takes note.
    pub fn push(&self, seen: Seen) {
        let mut state = self.0.lock();
        match &seen {
            Seen::Acked { .. } => state.counts.acked += 1,
            Seen::Read { .. } => state.counts.read += 1,
            Seen::Committed { .. } => state.counts.committed += 1,
            Seen::Refused { .. }
            | Seen::Latest { .. }
            | Seen::Audited { .. }
            | Seen::Fenced { .. }
            | Seen::OutOfOrder { .. }
            | Seen::ProducerId { .. }
            | Seen::Assigned { .. }
            | Seen::Committing { .. }
            | Seen::GroupStands { .. } => {}
        }
        state.new.push(seen);
    }

    /// What the group's member `number` has from now on; `None`: it is none of a generation.
    pub fn membership(&self, number: u8, share: Option<Share>) {
        self.0.lock().shares.insert(number, share);
    }

    /// What members of the group believe to be theirs.
    #[must_use]
    pub fn shares(&self) -> BTreeMap<u8, Option<Share>> {
        self.0.lock().shares.clone()
    }

    /// An answer with an error.
    pub fn refused(&self, code: i16) {
        if code == 0 {
            return;
        }
        *self.0.lock().counts.refused.entry(code).or_default() += 1;
    }

    /// No answer.
    pub fn unknown(&self) {
        self.0.lock().counts.unknown += 1;
    }

    /// A batch was acknowledged that had been sent before.
    pub fn repeated(&self) {
        self.0.lock().counts.repeated += 1;
    }

    /// What is new since this was last asked.
    #[must_use]
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.0.lock().new)
    }

    /// Whether producers are to go on.
    #[must_use]
    pub fn is_producing(&self) -> bool {
        self.0.lock().is_producing
    }

    /// Lets producers go on, or end.
    pub fn produce(&self, goes_on: bool) {
        self.0.lock().is_producing = goes_on;
    }

    /// How often clients had what answers.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.0.lock().counts.clone()
    }
}
