//! S14: with unclean elections off, whoever is elected was in sync.

use super::{Invariant, Verdict};
use crate::facts::{Facts, PartitionState};

pub(super) struct LeadersComeFromTheIsr;

impl Invariant for LeadersComeFromTheIsr {
    fn name(&self) -> &'static str {
        "S14: leaders come from the ISR"
    }

    fn state_written(&mut self, facts: &Facts, partition: i32, state: &PartitionState) -> Verdict {
        let known = facts.partitions.get(&partition).and_then(|facts| facts.state.as_ref());
        match known {
            Some(known) if state.leader != -1 && !known.isr.contains(&state.leader) => {
                Err(format!("partition {partition}: {known:?}, then {state:?}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}
