//! S2: a record is where the acknowledgement said.

use super::{Invariant, Verdict};
use crate::facts::Facts;
use crate::history::Seen;

pub(super) struct AckedOffsetIsTrue;

impl Invariant for AckedOffsetIsTrue {
    fn name(&self) -> &'static str {
        "S2: a record is at the offset that was acknowledged"
    }

    fn seen(&mut self, facts: &Facts, seen: &Seen) -> Verdict {
        let Seen::Acked { partition, offset, records, acks: -1, .. } = seen else { return Ok(()) };
        for (at, &record) in (*offset..).zip(records) {
            let found = facts.committed(*partition, at).map(|found| found.id);
            if found.is_some_and(|found| found != record) {
                return Err(format!(
                    "{record:#x} is acknowledged at {partition}@{at}, where {found:x?} is committed"
                ));
            }
        }
        Ok(())
    }
}
