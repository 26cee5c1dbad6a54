//! S14: with unclean elections off, whoever is elected was in sync, or on the list of eligible leaders (KIP-966).

use super::{Invariant, Verdict};
use crate::facts::{Facts, PartitionState};

pub(super) struct LeadersComeFromTheIsr;

impl Invariant for LeadersComeFromTheIsr {
    fn name(&self) -> &'static str {
        "S14: leaders come from the ISR or from the eligible"
    }

    fn state_written(&mut self, facts: &Facts, partition: i32, state: &PartitionState) -> Verdict {
        let Some(partition_facts) = facts.partitions.get(&partition) else { return Ok(()) };
        let Some(known) = &partition_facts.state else { return Ok(()) };
        let may_lead = [&known.isr, &partition_facts.eligible, &partition_facts.eligible_before];
        match state.leader == -1 || may_lead.iter().any(|ids| ids.contains(&state.leader)) {
            true => Ok(()),
            false => Err(format!(
                "partition {partition}: {known:?}, eligible {:?}, then {state:?}",
                partition_facts.eligible_before
            )),
        }
    }
}
