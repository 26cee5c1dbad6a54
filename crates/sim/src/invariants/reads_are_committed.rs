//! S6: nobody reads what is not committed.

use super::{Invariant, Verdict};
use crate::facts::Facts;
use crate::history::Seen;

pub(super) struct ReadsAreCommitted;

impl Invariant for ReadsAreCommitted {
    fn name(&self) -> &'static str {
        "S6: reads are committed"
    }

    fn seen(&mut self, facts: &Facts, seen: &Seen) -> Verdict {
        let Seen::Read { partition, offset, epoch, record } = seen else { return Ok(()) };
        let committed = facts.committed(*partition, *offset);
        match committed {
            Some(found) if found.id == *record && found.epoch == *epoch => Ok(()),
            Some(_) | None => Err(format!(
                "{record:#x} of epoch {epoch} was read at {partition}@{offset}; committed is {committed:?}"
            )),
        }
    }
}
