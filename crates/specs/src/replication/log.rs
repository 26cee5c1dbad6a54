//! A replica's log of a few records.

use model::{LeaderEpoch, Offset};
use replication::truncation::EpochEnd;

/// More records are in no model.
const CAPACITY: usize = 3;

/// A record: which one it is, and the epoch in which it was appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Record {
    pub(super) epoch: u8,
    pub(super) id: u8,
}

/// Invariant: what is beyond `len` is the default, so that equal logs are equal values.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct Log {
    records: [Record; CAPACITY],
    len: u8,
}

impl Log {
    pub(super) fn end(&self) -> u8 {
        self.len
    }

    pub(super) fn records(&self) -> &[Record] {
        &self.records[..usize::from(self.len)]
    }

    pub(super) fn push(&mut self, record: Record) {
        self.records[usize::from(self.len)] = record;
        self.len += 1;
    }

    pub(super) fn truncate(&mut self, to: u8) {
        let to = to.min(self.len);
        self.records[usize::from(to)..].fill(Record::default());
        self.len = to;
    }

    pub(super) fn prefix(mut self, end: u8) -> Self {
        self.truncate(end);
        self
    }

    pub(super) fn starts_with(&self, other: &Self) -> bool {
        self.records().starts_with(other.records())
    }

    /// How many records of `other`, from its start, are here too.
    pub(super) fn common(&self, other: &Self) -> u8 {
        let same = self.records().iter().zip(other.records()).take_while(|(a, b)| a == b);
        same.fold(0, |count, _| count + 1)
    }

    pub(super) fn last_epoch(&self) -> u8 {
        self.records().last().map_or(0, |record| record.epoch)
    }

    /// Where `epoch` ends; `own` is the epoch that a leader began, with its start. As `storage`'s
    /// `LeaderEpochs::end_offset_for`.
    pub(super) fn end_for(&self, epoch: u8, own: Option<(u8, u8)>) -> Option<EpochEnd> {
        let mut starts: Vec<(u8, u8)> = Vec::with_capacity(CAPACITY + 1);
        for (offset, record) in (0..).zip(self.records()) {
            if starts.last().is_none_or(|last| last.0 != record.epoch) {
                starts.push((record.epoch, offset));
            }
        }
        starts.extend(own.filter(|own| starts.last().is_none_or(|last| last.0 < own.0)));
        if starts.last()?.0 == epoch {
            return Some(epoch_end(epoch, self.len));
        }
        let higher = starts.partition_point(|start| start.0 <= epoch);
        let end = starts.get(higher)?.1;
        let floor = higher.checked_sub(1).map_or(epoch, |at| starts[at].0);
        Some(epoch_end(floor, end))
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<_> =
            self.records().iter().map(|r| format!("{}@{}", r.id, r.epoch)).collect();
        write!(f, "[{}]", words.join(" "))
    }
}

fn epoch_end(epoch: u8, end: u8) -> EpochEnd {
    EpochEnd { epoch: LeaderEpoch(epoch.into()), end_offset: Offset(end.into()) }
}

/// A model's offset as the product's.
pub(super) fn offset(raw: u8) -> Offset {
    Offset(raw.into())
}

/// The product's offset as a model's.
pub(super) fn raw(offset: Offset) -> u8 {
    u8::try_from(offset.0).expect("no log here has more than a few records")
}
