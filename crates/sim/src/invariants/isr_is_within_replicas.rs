//! S10: who is in sync is a replica, and the leader is in sync.

use super::{Invariant, Verdict};
use crate::facts::{Facts, PartitionState};

pub(super) struct IsrIsWithinReplicas;

impl Invariant for IsrIsWithinReplicas {
    fn name(&self) -> &'static str {
        "S10: the leader is in the ISR, the ISR within the replicas"
    }

    fn state_written(&mut self, facts: &Facts, partition: i32, state: &PartitionState) -> Verdict {
        let Some(known) = facts.partitions.get(&partition) else { return Ok(()) };
        let is_within = state.isr.iter().all(|id| known.replicas.contains(id));
        let leads = state.leader == -1 || state.isr.contains(&state.leader);
        match is_within && leads && !state.isr.is_empty() {
            true => Ok(()),
            false => Err(format!("partition {partition} of {:?}: {state:?}", known.replicas)),
        }
    }
}
