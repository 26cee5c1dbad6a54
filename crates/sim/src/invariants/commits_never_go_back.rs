//! G1: where a group stands never goes back, and what it has committed outlives its coordinator.

use super::{Invariant, Verdict};
use crate::facts::Facts;
use crate::history::Seen;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Default)]
pub(super) struct CommitsNeverGoBack {
    /// What members wanted to commit, by partition.
    tried: BTreeSet<(i32, i64)>,
    /// The greatest offset that was acknowledged, or told as committed, and since when; both ascending.
    known: BTreeMap<i32, Vec<(Duration, i64)>>,
}

impl CommitsNeverGoBack {
    fn know(&mut self, now: Duration, partition: i32, offset: i64) {
        let known = self.known.entry(partition).or_default();
        if known.last().is_none_or(|(_, last)| *last < offset) {
            known.push((now, offset));
        }
    }
}

impl Invariant for CommitsNeverGoBack {
    fn name(&self) -> &'static str {
        "G1: what a group has committed never goes back"
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others concern other rules")]
    fn seen(&mut self, facts: &Facts, seen: &Seen) -> Verdict {
        match seen {
            Seen::Committing { partition, offset } => _ = self.tried.insert((*partition, *offset)),
            Seen::Committed { partition, offset, .. } => {
                self.know(facts.now, *partition, *offset);
            }
            Seen::GroupStands { partition, offset, asked_at } => {
                if *offset >= 0 && !self.tried.contains(&(*partition, *offset)) {
                    return Err(format!("{offset} in partition {partition} was never committed"));
                }
                let known = self.known.get(partition).map_or(&[][..], Vec::as_slice);
                let before = known.partition_point(|(since, _)| since < asked_at);
                if let Some((since, known)) = before.checked_sub(1).and_then(|at| known.get(at))
                    && known > offset
                {
                    return Err(format!(
                        "partition {partition}: {known} was committed at {since:?}; asked at {asked_at:?} the group stands at {offset}"
                    ));
                }
                if *offset >= 0 {
                    self.know(facts.now, *partition, *offset);
                }
            }
            _ => {}
        }
        Ok(())
    }
}
