//! I2: what an idempotent producer sends again, with everything before it acknowledged and no more than five batches under way,
//! is never out of order. I3: no producer id is given out twice.

use super::{Invariant, Verdict};
use crate::facts::Facts;
use crate::history::Seen;
use std::collections::BTreeSet;

#[derive(Default)]
pub(super) struct RetriesAreInOrder {
    ids: BTreeSet<(i64, i16)>,
}

impl Invariant for RetriesAreInOrder {
    fn name(&self) -> &'static str {
        "I2: what is sent again in order is in order"
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others concern other rules")]
    fn seen(&mut self, _facts: &Facts, seen: &Seen) -> Verdict {
        match seen {
            Seen::OutOfOrder { partition, record, code } => {
                Err(format!("{record:#x}, next in partition {partition}, is refused with {code}"))
            }
            Seen::ProducerId { id, epoch } => match self.ids.insert((*id, *epoch)) {
                true => Ok(()),
                false => Err(format!("producer id {id} was given out before")),
            },
            _ => Ok(()),
        }
    }
}
