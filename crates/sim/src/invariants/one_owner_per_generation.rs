//! G2: in a generation of a group a partition has one owner, and once members know the next generation nobody commits
//! in an older one.

use super::{Invariant, Verdict};
use crate::facts::Facts;
use crate::history::Seen;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Default)]
pub(super) struct OneOwnerPerGeneration {
    /// By generation and partition.
    owners: BTreeMap<(i32, i32), String>,
    /// The generations in which somebody had a share, and since when; both ascending.
    begun: Vec<(Duration, i32)>,
}

impl Invariant for OneOwnerPerGeneration {
    fn name(&self) -> &'static str {
        "G2: one owner per partition and generation"
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the others concern other rules")]
    fn seen(&mut self, facts: &Facts, seen: &Seen) -> Verdict {
        match seen {
            Seen::Assigned { generation, member, partitions } => {
                if self.begun.last().is_none_or(|(_, last)| last < generation) {
                    self.begun.push((facts.now, *generation));
                }
                for &partition in partitions {
                    let owner = self
                        .owners
                        .entry((*generation, partition))
                        .or_insert_with(|| member.clone());
                    if owner != member {
                        return Err(format!(
                            "partition {partition} belongs to {owner} and to {member} in generation {generation}"
                        ));
                    }
                }
            }
            Seen::Committed { generation, partition, offset, sent_at } => {
                let before = self.begun.partition_point(|(since, _)| since < sent_at);
                if let Some((since, begun)) =
                    before.checked_sub(1).and_then(|at| self.begun.get(at))
                    && begun > generation
                {
                    return Err(format!(
                        "generation {begun} was known at {since:?}, and {partition}@{offset} is committed in {generation}, sent at {sent_at:?}"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
