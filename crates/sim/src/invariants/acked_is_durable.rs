//! S1: a record that was acknowledged to acks=all can be read at its offset for ever.

use super::{Invariant, Verdict};
use crate::facts::Facts;
use crate::history::{RecordId, Seen};
use std::collections::BTreeMap;

/// What was acknowledged, and is still to be read at the end.
#[derive(Default)]
pub(super) struct AckedIsDurable {
    acked: BTreeMap<(i32, i64), RecordId>,
}

impl Invariant for AckedIsDurable {
    fn name(&self) -> &'static str {
        "S1: what was acknowledged to acks=all is durable"
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others concern other rules")]
    fn seen(&mut self, facts: &Facts, seen: &Seen) -> Verdict {
        match seen {
            Seen::Acked { partition, offset, records, acks: -1, .. } => {
                for (at, &record) in (*offset..).zip(records) {
                    if facts.committed_end(*partition) <= at {
                        return Err(format!(
                            "{record:#x} is acknowledged at {partition}@{at}, which is not committed"
                        ));
                    }
                    self.acked.insert((*partition, at), record);
                }
            }
            Seen::Audited { partition, offset, record } => {
                let acked = self.acked.remove(&(*partition, *offset));
                if acked.is_some_and(|acked| acked != *record) {
                    return Err(format!("{partition}@{offset} holds {record:#x}, not {acked:x?}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn whole(&mut self, _facts: &Facts) -> Verdict {
        match self.acked.first_key_value() {
            None => Ok(()),
            Some((at, record)) => Err(format!(
                "{} acknowledged records cannot be read; the first is {record:#x} at {at:?}",
                self.acked.len()
            )),
        }
    }
}
