//! I1: a record that is sent again until it is acknowledged appears once, and sequences have no gaps.

use super::{Invariant, Verdict};
use crate::facts::{Facts, LoggedRecord};
use crate::history::RecordId;
use std::collections::BTreeMap;

#[derive(Default)]
pub(super) struct IdempotentRecordsAppearOnce {
    places: BTreeMap<RecordId, (i32, i64)>,
    /// By partition, producer id and epoch.
    sequences: BTreeMap<(i32, i64, i16), i32>,
}

impl Invariant for IdempotentRecordsAppearOnce {
    fn name(&self) -> &'static str {
        "I1: records of idempotent producers appear once, in order"
    }

    fn committed(
        &mut self,
        _facts: &Facts,
        partition: i32,
        offset: i64,
        record: &LoggedRecord,
    ) -> Verdict {
        // Producers without idempotence send nothing twice.
        if let Some(place) = self.places.insert(record.id, (partition, offset)) {
            return Err(format!("{:#x} is at {place:?} and at {partition}@{offset}", record.id));
        }
        let Some((id, epoch, sequence)) = record.producer else { return Ok(()) };
        let before = self.sequences.insert((partition, id, epoch), sequence);
        let expected = before.map_or(0, |before| before + 1);
        match sequence == expected {
            true => Ok(()),
            false => Err(format!(
                "{partition}@{offset}: sequence {sequence} of producer {id} after {before:?}"
            )),
        }
    }
}
