//! S13: acks=all is answered only if enough replicas were in sync at some time while it was waited for; what
//! was refused for want of them was not appended.

use super::{Invariant, Verdict};
use crate::facts::{Facts, LoggedRecord};
use crate::history::{RecordId, Seen};
use std::collections::BTreeSet;
use std::time::Duration;

#[derive(Default)]
pub(super) struct AcksAllNeedsMinInsync {
    refused: BTreeSet<RecordId>,
    committed: BTreeSet<RecordId>,
}

impl Invariant for AcksAllNeedsMinInsync {
    fn name(&self) -> &'static str {
        "S13: acks=all needs min.insync.replicas"
    }

    fn committed(
        &mut self,
        _facts: &Facts,
        partition: i32,
        offset: i64,
        record: &LoggedRecord,
    ) -> Verdict {
        self.committed.insert(record.id);
        match self.refused.contains(&record.id) {
            true => Err(format!("{:#x} was refused and is at {partition}@{offset}", record.id)),
            false => Ok(()),
        }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others concern other rules")]
    fn seen(&mut self, facts: &Facts, seen: &Seen) -> Verdict {
        match seen {
            Seen::Acked { partition, offset, records, acks: -1, sent_at } => {
                let Some(known) = facts.partitions.get(partition) else { return Ok(()) };
                // The size that held when it was sent, and all later ones: in the store, and for leaders.
                let since = |sizes: &[(Duration, usize)]| {
                    let later = sizes.partition_point(|(from, _)| from <= sent_at);
                    sizes[later.saturating_sub(1)..].to_vec()
                };
                let mut sizes = since(&known.isr_sizes);
                sizes.extend(since(&known.isr_sizes_led));
                // A leader cannot demand more replicas than the partition has.
                let wanted = facts.min_insync.min(known.replicas.len());
                match sizes.iter().any(|(_, size)| *size >= wanted) {
                    true => Ok(()),
                    false => Err(format!(
                        "{records:x?} at {partition}@{offset}: sent at {sent_at:?}, ISR sizes since {sizes:?}"
                    )),
                }
            }
            Seen::Refused { partition, records } => {
                self.refused.extend(records);
                match records.iter().find(|record| self.committed.contains(record)) {
                    Some(record) => Err(format!("{record:#x} was refused and is in {partition}")),
                    None => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}
